"""Fits the models of `models/` anew, and writes what they answer: `python .../write_models.py`.

Only a deliberate change of the format or of the answers needs that. The options are those of
commit 055702e.
"""

import json
import re
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Literal

import numpy as np
from saved_models import ANSWERS, INPUTS, MODELS, answers, load, own_network, span_votes
from torch import nn

from tiny_project import run_wiesel
from wiesel import VoteMatrix
from wiesel.catalog import method
from wiesel.multilabel import MultiLabelVotes
from wiesel.training import seeded

QUICK: dict[str, Any] = {
    "epochs": 2,
    "epoch_size": None,
    "batch_size": 16,
    "lr": 0.02,
    "weight_average": None,
    "progress": False,
}
N_SHOWN = 8
"""The items whose predictions are stored."""
LABELS = ["sports", "money", "law"]
TEXTS = ["Ada met Bob", "so Bob met Ada in Bath again", "", "nobody was in 3 cities of Spain"] * 6
WORDS = {"ham": ["see", "you", "lunch", "home"], "spam": ["free", "prize", "click", "win"]}


@dataclass(frozen=True)
class Case:
    """A model to save: how it is made, and which data it is asked about."""

    make: Callable[[], Any]
    data: str
    """A key of `inputs.json`."""
    save: Callable[[Any, Path], None] = lambda model, path: model.save(path)


@cache
def _task(n_classes: int) -> tuple[Any, Any, Any]:
    from wiesel.datasets.synthetic import make_features, make_votes

    votes, gold = make_votes(80, 4, n_classes, coverage=0.7, seed=n_classes)
    dense, names = votes.dense(), ["ham", "spam", "news"][:n_classes]
    votes = VoteMatrix.from_dense(dense, names)
    return make_features(gold, 3, separation=2.0, seed=1), votes, gold


@cache
def _label_task() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    gold = (rng.random((120, 3)) < [0.5, 0.3, 0.3]).astype(np.int64)
    X = (2.0 * gold - 1 + rng.normal(0, 0.7, gold.shape)).astype(np.float32)
    right = rng.random((120, 5, 3)) < 0.8
    said = np.where(right, gold[:, None], 1 - gold[:, None])
    said = np.where(rng.random(said.shape) < 0.4, -1, said)
    said[:, 4, 0] = said[:, 3, 0]  # a copy
    return X, MultiLabelVotes.from_dense(said, LABELS), gold


def _mails() -> tuple[list[str], Any, Any]:
    rng = np.random.default_rng(3)
    gold = rng.integers(0, 2, 60)
    texts = [" ".join(rng.choice(list(WORDS.values())[k], 3)) + " today" for k in gold]
    said = np.where(rng.random((60, 3)) < 0.8, gold[:, None], 1 - gold[:, None])
    votes = VoteMatrix.from_dense(np.where(rng.random((60, 3)) < 0.3, -1, said), list(WORDS))
    return texts, votes, gold


def _rows() -> list[dict[str, Any]]:
    gold = _mails()[2]
    return [{"age": 20.0 + 30 * k + i % 7, "job": "ab"[(k + (i % 5 == 0)) % 2]} for i, k in
            enumerate(map(int, gold))]  # fmt: skip


def _pictures() -> Any:
    gold = _mails()[2]
    rng = np.random.default_rng(4)
    return rng.integers(0, 100, (60, 4, 4)) + 100 * gold[:, None, None]


def _net(n_classes: int, n_features: int = 3) -> nn.Module:
    from wiesel.nn import MLP

    with seeded(4):
        return MLP(n_features, n_classes, hidden=(4,))


def _own(n_outputs: int) -> nn.Module:
    with seeded(5):
        return own_network(n_outputs)


def _label_model(name: str, data: str, **options: Any) -> Case:
    def make() -> Any:
        X, votes, gold = _task(2 if data == "binary" else 3)
        model = method(name).cls(**options)
        if name.startswith("feature"):
            return model.fit(votes, X=X)
        if name == "gold_weighted":
            return model.fit(votes, gold=(votes[np.arange(30)], gold[:30]))
        return model.fit(votes)

    return Case(make, data)


def _method(
    name: str, data: str = "binary", gold: int = 0, own: bool = False, **options: Any
) -> Case:
    def make() -> Any:
        from wiesel import MajorityVote, TwoStage

        n_classes = 2 if data == "binary" else 3
        X, votes, truth = _task(n_classes)
        net = options.get("end_model", _own(2) if own else _net(n_classes))
        chosen = {**QUICK, **{k: v for k, v in options.items() if k != "end_model"}}
        if name == "supervised":
            return method(name).cls(net, labels=votes.labels, **chosen).fit(X, truth)
        validation = (X[:gold], truth[:gold], votes[np.arange(gold)]) if gold else None
        if name == "two_stage":
            chosen.setdefault("label_model", MajorityVote())
            model = TwoStage(chosen.pop("label_model"), net, **chosen)
        else:
            model = method(name).cls(net, **chosen)
        return model.fit(X, votes, validation=validation)

    return Case(make, data)


def _labels_method(name: str, gold: bool = False, own: bool = False, **options: Any) -> Case:
    def make() -> Any:
        import wiesel
        import wiesel.multilabel as multilabel
        from wiesel import MajorityVote

        X, votes, truth = _label_task()
        chosen = {**QUICK, **options}
        if name == "PerLabel":
            return multilabel.PerLabel(options["label_model"]).fit(votes)
        net = _own(3) if own else _net(3)
        own_arguments = (options.get("label_model", MajorityVote()), net)
        chosen.pop("label_model", None)
        arguments = own_arguments if name == "TwoStage" else (net,)
        model = getattr(wiesel, name)(*arguments, **chosen)
        labeled = (X[:60], truth[:60], votes[np.arange(60)]) if gold else None
        return model.fit(X, votes, validation=labeled)

    return Case(make, "labels")


def _tagger(name: str, **options: Any) -> Case:
    def make() -> Any:
        import wiesel
        import wiesel.spans as spans
        from wiesel.nn import BiLSTMTagger

        votes = span_votes(TEXTS)
        if name == "HiddenMarkov":
            return spans.HiddenMarkov(**options).fit(votes)
        with seeded(4):
            net = BiLSTMTagger(5, {"words": 20, "shapes": 5}, hidden=4)
        quick = {**QUICK, "batch_size": 4, **options}
        if name == "WeaSEL":
            model: Any = wiesel.WeaSEL(net, warm_up=2, **quick)
        else:
            first = quick.pop("label_model", spans.HiddenMarkov())
            model = wiesel.TwoStage(first, net, **quick)
        return model.fit(votes.documents, votes)

    return Case(make, "spans")


def _bundle(kind: str, data: str) -> Case:
    """Return a model saved with the features that read raw rows."""
    from wiesel import MajorityVote, TwoStage, features
    from wiesel.nn import CNN, LSTM

    kinds: dict[str, tuple[Callable[[], Any], Any]] = {
        "tfidf": (lambda: _mails()[0], features.TextFeatures("tfidf", n_dimensions=4)),
        "tokens": (lambda: _mails()[0], features.TokenFeatures(length=5)),
        "tabular": (_rows, features.TabularFeatures(numeric=["age"], categorical=["job"])),
        "vectors": (lambda: _task(2)[0][:60], features.Standardizer()),
        "pictures": (_pictures, features.ImageFeatures()),
    }
    items, reader = kinds[kind]

    def make() -> Any:
        X = reader.fit_transform(items())
        net = _net(2, X.shape[1])
        if kind == "tokens":
            with seeded(4):
                net = LSTM(int(X.max()) + 1, 2, embedding=3, hidden=3, head=(4,))
        elif kind == "pictures":
            with seeded(4):
                net = CNN(X.shape[1], 2, filters=(2, 2))
        return TwoStage(MajorityVote(), net, **QUICK).fit(X, _mails()[1])

    return Case(make, data, lambda model, path: model.save(path, features=reader))


def _project(kind: Literal["", "multi"], data: str) -> Case:
    """Return the model of a small starter project, with its features and its note of the rows."""

    def make() -> Any:
        from wiesel.project.starter import write_starter

        with TemporaryDirectory() as folder:
            place = Path(folder) / "project"
            write_starter(place, kind=kind)
            text = (place / "wiesel.toml").read_text()
            text = re.sub("n_dimensions = .*", "n_dimensions = 4", text)
            text = re.sub('name = "committee".*', 'name = "majority_vote"', text)
            text = re.sub("baselines = .*", "baselines = []", text)
            text += '\n[end_model]\nname = "linear"\n' if kind else ""
            text = re.sub('name = "mlp".*', 'name = "linear"', text)
            (place / "wiesel.toml").write_text(text + "\n[training]\nepochs = 1\n")
            assert run_wiesel("run", place).exit_code == 0
            return shutil.copytree(place / "out" / "model", Path(mkdtemp()) / "model")

    return Case(make, data, lambda model, path: shutil.copytree(model, path) and None)


def _label_models() -> dict[str, Case]:
    from wiesel.label_models import Fixes, MajorityVote, Reinforces

    _, votes, _ = _task(2)
    names = votes.voters
    binary = {
        "majority_vote": _label_model("majority_vote", "binary"),
        "majority_vote-hard": _label_model("majority_vote", "classes", hard=True),
        "vote_counts": _label_model("vote_counts", "classes"),
        "weighted_vote": _label_model("weighted_vote", "binary"),
        "dawid_skene": _label_model("dawid_skene", "classes"),
        "dawid_skene-abstain": _label_model("dawid_skene", "binary", abstain_as_vote=True),
        "one_coin": _label_model("one_coin", "classes"),
        "snorkel": _label_model("snorkel", "binary"),
        "snorkel-adam": _label_model("snorkel", "classes", optimizer="adam"),
        "triplet": _label_model("triplet", "binary"),
        "triplet-chen": _label_model("triplet", "binary", reading="chen"),
        "data_programming": _label_model("data_programming", "binary"),
        "data_programming-pairs": _label_model(
            "data_programming",
            "binary",
            dependencies=(Reinforces(names[0], names[1]), Fixes(names[1], names[2])),
        ),
        "glad": _label_model("glad", "binary"),
        "mace": _label_model("mace", "classes"),
        "feature_checked": _label_model("feature_checked", "binary"),
        "feature_em": _label_model("feature_em", "classes"),
        "gold_weighted": _label_model("gold_weighted", "classes"),
        "per_label": _labels_method("PerLabel", label_model=MajorityVote()),
    }
    return binary


def _methods() -> dict[str, Case]:
    from sklearn.linear_model import LogisticRegression

    from wiesel import MajorityVote, Snorkel, TwoStage, WeaSEL
    from wiesel.end_to_end import REGISTRY, FeatureChecked, GoldWeighted
    from wiesel.nn.encoders import EncoderLayers

    cases = {name: _method(name) for name in REGISTRY if name not in ("committee", "weasel")}
    of_rules = {name: _method(name, gold=40) for name in ("imply_loss", "astra")}
    members = [TwoStage(Snorkel(), _net(2), **QUICK), WeaSEL(_net(2), **QUICK)]
    return {
        **cases,
        **of_rules,
        "committee": _method("committee", networks=1),
        "committee-classes": _method("committee", "classes", networks=1),
        "committee-gold": _method("committee", "binary", gold=40, networks=1),
        "committee-own-network": _method("committee", own=True, networks=1),
        "committee-members": _method("committee", members=members),
        "two_stage-own-network": _method("two_stage", own=True),
        "two_stage-mig": _method("two_stage", "classes", loss="mig", label_model=Snorkel()),
        "two_stage-features": _method("two_stage", label_model=FeatureChecked(), gold=40),
        "two_stage-gold": _method("two_stage", label_model=GoldWeighted(), gold=40),
        "two_stage-members": _method("two_stage", members=2),
        "two_stage-sklearn": _method("two_stage", end_model=LogisticRegression()),
        "weasel": _method("weasel", encoder=(4,)),
        "weasel-classes-gold": _method(
            "weasel", "classes", gold=40, encoder=EncoderLayers(hidden=(4,)), loss="mig",
            class_conditional=True,
        ),
        "weasel-graph": _method("weasel", encoder="graph"),
        "weasel-members": _method("weasel", encoder=(4,), members=2, start=MajorityVote()),
        "crowd_layer-low-rank": _method("crowd_layer", "classes", rank=2),
        "doctor_net-weights": _method("doctor_net", "classes", variant="IWDN"),
        "confusion_net-union": _method("confusion_net", "classes", structure="union"),
        "labels-committee": _labels_method("Committee", networks=1),
        "labels-committee-gold": _labels_method("Committee", gold=True, networks=1),
        "labels-two_stage": _labels_method("TwoStage", label_model=Snorkel()),
        "labels-two_stage-gold": _labels_method(
            "TwoStage", gold=True, label_model=FeatureChecked(), calibrated=True
        ),
        "labels-two_stage-members": _labels_method("TwoStage", members=2),
        "labels-own-network": _labels_method("TwoStage", own=True),
        "labels-weasel": _labels_method("WeaSEL", encoder=(4,)),
        "labels-weasel-gold": _labels_method("WeaSEL", gold=True, encoder=(4,)),
        "spans-hidden_markov": _tagger("HiddenMarkov"),
        "spans-hidden_markov-any": _tagger("HiddenMarkov", only_supported=False),
        "spans-two_stage": _tagger("TwoStage"),
        "spans-two_stage-snorkel": _tagger("TwoStage", label_model=MajorityVote()),
        "spans-weasel": _tagger("WeaSEL", encoder=(4,)),
        "project": _project("", "mails"),
        "project-labels": _project("multi", "label mails"),
        "bundle-tfidf": _bundle("tfidf", "texts"),
        "bundle-tokens": _bundle("tokens", "texts"),
        "bundle-tabular": _bundle("tabular", "rows"),
        "bundle-vectors": _bundle("vectors", "raw vectors"),
        "bundle-pictures": _bundle("pictures", "pictures"),
    }  # fmt: skip


@cache
def cases() -> dict[str, Case]:
    """Return all cases by the name of their folder."""
    return {**_label_models(), **_methods()}


def _starter_rows(kind: Literal["", "multi"]) -> list[dict[str, Any]]:
    from wiesel.io import read_rows
    from wiesel.project.starter import write_starter

    with TemporaryDirectory() as folder:
        (file,) = (f for f in write_starter(Path(folder) / "p", kind=kind) if f.stem == "test")
        return read_rows(file).head(N_SHOWN).select("id", "text").to_dicts()


def _all_inputs() -> dict[str, Any]:
    rounded = {}
    for name, n_classes in (("binary", 2), ("classes", 3)):
        X, votes, _ = _task(n_classes)
        rounded[name] = {
            "X": X[:N_SHOWN].round(3).tolist(),
            "votes": votes.dense()[:N_SHOWN].tolist(),
            "classes": list(votes.labels),
        }
    X, labels, _ = _label_task()
    said = np.stack([labels[name].dense() for name in LABELS], axis=2)
    return {
        **rounded,
        "labels": {
            "X": X[:N_SHOWN].round(3).tolist(),
            "votes": said[:N_SHOWN].tolist(),
            "tasks": LABELS,
        },
        "spans": {"texts": TEXTS[:4]},
        "mails": _starter_rows(""),
        "label mails": _starter_rows("multi"),
        "texts": _mails()[0][:N_SHOWN],
        "rows": _rows()[:N_SHOWN],
        "raw vectors": _task(2)[0][:N_SHOWN].round(3).tolist(),
        "pictures": _pictures()[:4].tolist(),
    }


def main() -> None:
    """Fit and save all models, and write what they answer."""
    shutil.rmtree(MODELS, ignore_errors=True)
    INPUTS.write_text(json.dumps(_all_inputs(), indent=0) + "\n", encoding="utf-8")
    found = {}
    for name, case in cases().items():
        print(name, flush=True)  # noqa: T201
        with warnings.catch_warnings(action="ignore"):
            case.save(case.make(), MODELS / name)
        found[name] = {"data": case.data, **answers(load(name), case.data)}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
