"""Several labels and spans: their rules, votes, texts and models, damaged; read or refused."""

import json
import random
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from attacks import Tally, altered, damaged, forged, tree, tries

from wiesel import TwoStage, WeaSEL, load_model
from wiesel.multilabel import (
    MultiLabelVotes,
    apply_multilabel_lfs,
    load_multilabel_lfs,
    read_multilabel_votes,
    write_multilabel_votes,
)
from wiesel.nn import BiLSTMTagger, LinearTagger
from wiesel.spans import (
    Documents,
    HiddenMarkov,
    TokenVotes,
    apply_span_lfs,
    gazetteer,
    read_conll,
    read_doccano,
    read_label_studio,
    write_conll,
    write_doccano,
    write_label_studio,
)

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = pl.DataFrame({"text": ["a goal and a share", None, "the court"], "n": [1, 5, 9]})
RULES = """\
labels = ["sports", "money", "law"]
off = []
[[lf]]
kind = "keywords"
label = "sports"
keywords = ["goal", "match"]
column = "text"
exhaustive = true
[[lf]]
kind = "regex"
label = "money"
pattern = "share"
column = "text"
exhaustive = ["law"]
[[lf]]
kind = "threshold"
label = "law"
column = "n"
above = 3
against = true
"""
VALUES = [
    "3", "[]", "[1]", "{}", "true", '""', '"sports"', '["sports"]', '["sports", "money", "law"]',
    '["nobody"]', "[[true]]", '"not sports"', '"text"', '"lookup"', "1e400", "nan", '"\\u0000"',
]  # fmt: skip


def changed_rules(rng: random.Random) -> bytes:
    """The rules with another value in one or two lines, or with damaged bytes."""
    if rng.random() < 0.2:
        return damaged(RULES.encode(), rng)
    lines = RULES.splitlines()
    for place in rng.sample([n for n, line in enumerate(lines) if "=" in line], rng.randint(1, 2)):
        lines[place] = lines[place].partition("=")[0] + "= " + rng.choice(VALUES)
    return "\n".join(lines).encode()


def test_multilabel_rules(tmp_path):
    tally, file = Tally("multi-label rules"), tmp_path / "rules.toml"
    for rng in tries("multi-label rules", least=30):
        file.write_bytes(changed_rules(rng))
        what = file.read_bytes()
        loaded = tally.attempt(what, load_multilabel_lfs, file)
        if loaded is not None:
            labels = loaded.labels or ["sports", "money", "law"]
            tally.attempt(what, partial(apply_multilabel_lfs, labels=labels), loaded.lfs, ROWS)
    tally.report()
    assert tally.counts["worked"]
    assert tally.counts["refused"]
    assert tree(tmp_path) == {"rules.toml"}


CELLS = [[[1, 0], [0, -1]], [[-1, -1], [1, 1]], [[0, 0], [-1, 1]]] * 3


def test_multilabel_votes(tmp_path):
    """Tables of votes; in Parquet, what stands in the metadata is altered."""
    tally, file = Tally("multi-label votes"), tmp_path / "votes.parquet"
    votes = MultiLabelVotes.from_dense(CELLS, ["sports", "money"], ["ann", "bob"])
    write_multilabel_votes(votes, file)
    table, note = pl.read_parquet(file), json.loads(pl.read_parquet_metadata(file)["wiesel"])
    text = table.drop_nulls().write_csv().encode()
    for rng in tries("multi-label votes", least=30):
        if rng.random() < 0.5:
            given = tmp_path / "votes.csv"
            given.write_bytes(damaged(text, rng))
        else:
            given, wrong = file, altered(note, rng)
            columns = rng.sample(table.columns, rng.choice((4, 4, 3)))
            table.select(columns).write_parquet(file, metadata={"wiesel": json.dumps(wrong)})
        tally.attempt(given.read_bytes(), read_multilabel_votes, given)
    tally.report()
    assert tally.counts["worked"]
    assert tally.counts["refused"]


TEXTS = ["Ada met Bob", "so Bob met Ada", "", "nobody"]
SPANS = [[(0, 3, "PER"), (8, 11, "PER")], [(3, 6, "PER")], [], []]


def exports() -> dict[str, tuple[str, object]]:
    """The same annotations as three other tools have them, and who reads them."""
    documents = Documents.from_texts(TEXTS)
    tasks = json.loads(write_label_studio(documents, SPANS))
    for task in tasks:
        task["annotations"] = task.pop("predictions")
    return {
        "conll": (write_conll(documents, SPANS), read_conll),
        "doccano": (write_doccano(documents, SPANS), read_doccano),
        "label studio": (json.dumps(tasks), read_label_studio),
    }


def changed_export(kind: str, text: str, rng: random.Random) -> str:
    """An export with a value altered, or with damaged bytes."""
    if kind == "conll" or rng.random() < 0.3:
        return damaged(text.encode(), rng).decode(errors="replace")
    if kind == "label studio":
        return json.dumps(altered(json.loads(text), rng))
    return "\n".join(json.dumps(altered(json.loads(line), rng)) for line in text.splitlines())


def test_annotated_texts():
    """What is read can be used: spans lie in their texts, and are written again."""
    tally, known = Tally("annotated texts"), exports()
    for rng in tries("annotated texts", least=60):
        kind = rng.choice(sorted(known))
        text, read = known[kind]
        given = changed_export(kind, text, rng)
        found = tally.attempt((kind, given), read, given)
        if found is not None:
            tally.attempt((kind, given), write_conll, *found)
    tally.report()
    assert tally.counts["worked"]
    assert tally.counts["refused"]


def token_votes() -> TokenVotes:
    documents = Documents.from_texts(TEXTS * 4)
    return apply_span_lfs(gazetteer("PER", ["Ada", "Bob"], name="names"), documents, labels=["PER"])


@pytest.fixture(scope="module")
def span_models(tmp_path_factory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("spans")
    quick = {"epochs": 1, "epoch_size": 40, "progress": False}
    made = {
        "hidden_markov": HiddenMarkov(),
        "two_stage": TwoStage(HiddenMarkov(), BiLSTMTagger(3, hidden=4), **quick),
        "weasel": WeaSEL(LinearTagger(3), warm_up=0, **quick),
    }
    votes = token_votes()
    for name, model in made.items():
        given = (votes,) if isinstance(model, HiddenMarkov) else (votes.documents, votes)
        model.fit(*given).save(place / name)
    return {name: place / name for name in made}


def used(model) -> None:
    given = token_votes() if isinstance(model, HiddenMarkov) else token_votes().documents
    assert np.isfinite(model.predict_proba(given)).all()
    assert len(model.predict(given)) == len(token_votes().documents)


def test_models_of_spans(span_models, tmp_path):
    tally = Tally("models of spans")
    for rng in tries("models of spans", least=30):
        name = rng.choice(sorted(span_models))
        folder = tmp_path / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(span_models[name], folder)
        forged(folder, rng)
        what = (name, (folder / "manifest.json").read_bytes())
        model = tally.attempt(what, load_model, folder)
        if model is not None:
            tally.attempt((name, "used", what), used, model)
    tally.report()
    assert tally.counts["refused"]
