"""Wrong inputs of public functions end in an error that helps, never in a raw one of Python."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import wiesel as ws
from wiesel.analysis import disagreements
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import ParameterError, SavedModelError, WieselError
from wiesel.evaluation import (
    choose_threshold,
    commonest_class,
    evaluate_presence,
    evaluate_proba,
    resampled_figures,
    supported_threshold,
    threshold_curve,
)
from wiesel.io import read_rows, read_votes, scan_rows, write_votes
from wiesel.nn import Linear
from wiesel.spans import (
    Documents,
    HiddenMarkov,
    apply_span_lfs,
    evaluate_spans,
    explain_spans,
    gazetteer,
    pattern,
    spans_page,
    token_soft_labels,
    voter_table,
    write_conll,
    write_doccano,
    write_label_studio,
)

pytestmark = pytest.mark.filterwarnings("ignore")

VOTES, GOLD = make_votes(40, n_voters=4, seed=3)
X = make_features(GOLD, n_features=3, seed=3)
NAMES = [VOTES.labels.names[k] for k in GOLD]
MODEL = ws.DawidSkene().fit(VOTES)
PROBA = MODEL.predict_proba(VOTES)
NET = Linear(3, 2)
QUICK = {"epochs": 1, "epoch_size": 32, "weight_average": None, "warm_up": 0}
TRAINED = ws.WeaSEL(NET, **QUICK).fit(X, VOTES)
ROWS = pl.DataFrame({"id": [f"r{k}" for k in range(40)], "text": ["so free"] * 40})
LFS = [ws.keywords("class_0", ["free"], column="text")]
DOCUMENTS = Documents.from_texts(["Ada met Bob in Rome.", "Bob left Paris."] * 4)
TOKENS = apply_span_lfs(gazetteer("PER", ["Ada", "Bob"]), DOCUMENTS, labels=["PER"])
SPANS = HiddenMarkov().fit(TOKENS).predict(TOKENS)
MARKOV = HiddenMarkov().fit(TOKENS)

CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "MajorityVote.fit": (ws.MajorityVote().fit, {"votes": VOTES, "class_balance": [0.5, 0.5]}),
    "predict_proba of votes": (MODEL.predict_proba, {"votes": VOTES}),
    "score of votes": (MODEL.score, {"X": VOTES, "y": NAMES}),
    "predict": (TRAINED.predict, {"X": X}),
    "soft_labels": (TRAINED.soft_labels, {"X": X, "votes": VOTES}),
    "explain": (TRAINED.explain, {"x": X[0], "votes": VOTES[0]}),
    "evaluate": (ws.evaluate, {"model": TRAINED, "X": X, "y": NAMES}),
    "summarize": (ws.summarize, {"votes": VOTES, "gold": NAMES, "label_model": MODEL}),
    "findings": (ws.findings, {"votes": VOTES, "gold": NAMES}),
    "agreement": (ws.agreement, {"votes": VOTES}),
    "rank_workers": (ws.rank_workers, {"model": MODEL, "votes": VOTES}),
    "rows_to_label": (ws.rows_to_label, {"votes": VOTES, "n": 5}),
    "apply_lfs": (ws.apply_lfs, {"lfs": LFS, "rows": ROWS, "labels": VOTES.labels}),
    "try_lfs": (ws.try_lfs, {"lfs": LFS, "rows": ROWS}),
    "keywords": (ws.keywords, {"label": "a", "keywords": ["b"], "column": "text"}),
    "lookup": (ws.lookup, {"label": "a", "known": ["b"], "columns": "text"}),
    "aggregate": (ws.aggregate, {"answers": VOTES.to_long(), "method": "majority_vote"}),
    "from_dense": (ws.VoteMatrix.from_dense, {"array": VOTES.dense(), "labels": VOTES.labels}),
    "from_proba": (
        ws.VoteMatrix.from_proba,
        {"array": np.stack([PROBA] * 2, axis=1), "labels": VOTES.labels, "voters": ["a", "b"]},
    ),
    "select": (VOTES.select, {"voters": list(VOTES.voters)}),
    "choose_threshold": (choose_threshold, {"proba": PROBA, "gold": GOLD}),
    "supported_threshold": (supported_threshold, {"proba": PROBA, "gold": GOLD}),
    "threshold_curve": (threshold_curve, {"proba": PROBA, "gold": GOLD}),
    "evaluate_proba": (
        evaluate_proba,
        {"proba": PROBA, "y": GOLD, "labels": VOTES.labels, "threshold": 0.5},
    ),
    "resampled_figures": (
        resampled_figures,
        {"gold": GOLD, "proba": PROBA, "predicted": PROBA.argmax(axis=1), "n_resamples": 20},
    ),
    "read_rows": (read_rows, {"path": "rows.csv"}),
    "read_votes": (read_votes, {"path": "votes.parquet"}),
    "write_votes": (write_votes, {"votes": VOTES, "path": "votes.parquet"}),
    "load_model": (ws.load_model, {"path": "model"}),
    "save": (TRAINED.save, {"path": "model"}),
    "from_words": (Documents.from_words, {"sentences": [["Ada", "wrote"]]}),
    "from_rows": (Documents.from_rows, {"table": ROWS, "text": "text", "id": "id"}),
    "gazetteer": (gazetteer, {"label": "PER", "entries": ["Ada"]}),
    "pattern": (pattern, {"label": "PER", "regex": "A.a"}),
    "voter_table": (voter_table, {"votes": TOKENS, "gold": SPANS}),
    "explain_spans": (explain_spans, {"votes": TOKENS, "spans": SPANS}),
    "evaluate_spans": (
        evaluate_spans,
        {"gold": SPANS, "predicted": SPANS, "documents": DOCUMENTS, "labels": ["PER"]},
    ),
    "token_soft_labels": (token_soft_labels, {"label_model": MARKOV, "votes": TOKENS}),
    "HiddenMarkov.fit": (HiddenMarkov().fit, {"votes": TOKENS}),
    "spans_page": (spans_page, {"marked": explain_spans(TOKENS, SPANS)}),
    "write_conll": (write_conll, {"documents": DOCUMENTS, "spans": SPANS}),
    "write_doccano": (write_doccano, {"documents": DOCUMENTS, "spans": SPANS}),
    "write_label_studio": (write_label_studio, {"documents": DOCUMENTS, "spans": SPANS}),
    "concatenate": (ws.VoteMatrix.concatenate, {"parts": [VOTES, VOTES]}),
    "commonest_class": (commonest_class, {"y": NAMES, "labels": VOTES.labels}),
    "evaluate_presence": (
        evaluate_presence,
        {"proba": PROBA, "gold": [["a"], ["b"]] * 20, "labels": ["a", "b"]},
    ),
    "scan_rows": (scan_rows, {"path": "rows.csv"}),
    "disagreements": (
        disagreements,
        {"rows": ROWS, "votes": VOTES, "gold": NAMES, "voters": VOTES.voters},
    ),
    "random rows": (ws.rows_to_label, {"votes": VOTES, "n": 5, "seed": 0}),
    "fit_together": (
        ws.fit_together,
        {"models": [ws.WeaSEL(NET, **QUICK)], "X": X, "votes": VOTES, "validation": (X, NAMES)},
    ),
    "compare": (
        ws.compare,
        {
            "methods": ["majority_vote"],
            "X": X,
            "votes": VOTES,
            "test": (X, NAMES),
            "end_model": "linear",
            "seeds": [0],
        },
    ),
}
WRONG: dict[str, Any] = {
    "None": None,
    "numbers": [1, 2, 3],
    "names": ["a", "b", "c"],
    "NaN": np.full((40, 3), np.nan),
    "word": "nonsense",
    "number": 7.5,
    "table": pd.DataFrame({"a": [1, 2]}),
    "frame": pl.DataFrame({"a": [1, 2]}),
    "votes": VOTES,
    "classes": np.arange(40),
    "array": np.zeros((2, 3, 4)),
    "nothing": [],
    "model": MODEL,
    "documents": DOCUMENTS,
}
TRAINING = ("compare", "fit_together")
"""They train before they read some arguments, so fewer wrong values are tried."""


@pytest.fixture(autouse=True)
def _in_a_folder_with_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ROWS.write_csv("rows.csv")
    write_votes(VOTES, "votes.parquet")
    TRAINED.save("model")


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_ends_in_an_error_that_helps(name):
    call, right = CALLS[name]
    call(**right)
    refused = 0
    for argument, value in right.items():
        wrong = dict(list(WRONG.items())[:5]) if name in TRAINING else dict(WRONG)
        if isinstance(value, (list, np.ndarray)) and len(value) > 7:
            wrong["too short"] = value[:7]
        for what, other in wrong.items():
            try:
                call(**{**right, argument: other})
            except WieselError:
                refused += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
                pytest.fail(f"{name}({argument}={what}) ended in {error!r:.200}")
    assert refused > 0


@pytest.mark.parametrize("name", ["confusions_", "class_balance_"])
def test_a_label_model_whose_values_are_no_probabilities_does_not_load(name, tmp_path):
    model = ws.DawidSkene().fit(VOTES)
    setattr(model, name, getattr(model, name) * 2)
    model.save(tmp_path / "twice")
    with pytest.raises(SavedModelError, match=f"its {name} are no probabilities"):
        ws.load_model(tmp_path / "twice")


def test_errors_name_what_is_allowed():
    with pytest.raises(ParameterError, match=r"model must be a fitted model, such as DawidSkene"):
        ws.rank_workers(VOTES)
    with pytest.raises(ParameterError, match="fit_together trains end-to-end methods"):
        ws.fit_together([MODEL], X, VOTES)
    with pytest.raises(WieselError, match=r"explain_spans needs TokenVotes; got VoteMatrix"):
        explain_spans(VOTES, SPANS)
    with pytest.raises(WieselError, match=r"the shape \(40,\)"):
        resampled_figures(GOLD, PROBA[:, 0], GOLD)
    with pytest.raises(WieselError, match="from 0 to 1: there are 2 classes"):
        resampled_figures(GOLD - 1, PROBA, GOLD)
