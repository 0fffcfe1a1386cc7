"""Fits every method, and compares the predictions with those of another commit to the last digit.

Two runs on one machine agree only if the code computes the same. So write a baseline with the
commit before a change, and compare with the commit after it:

    python tests/golden/fits.py --write before.json
    python tests/golden/fits.py --compare before.json

`--only WORD` fits those whose name contains the word. Real data sets come from WIESEL_DATA; their
fits are left out without it. The exit code is 1 if a fit of a single-label method differs or fails.
"""

import argparse
import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy and torch read it

import numpy as np
import torch

from wiesel import TwoStage, VoteMatrix, WeaSEL, load_dataset
from wiesel.catalog import METHODS
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.nn import MLP
from wiesel.training import seeded

LABEL_MODELS = (
    "majority_vote",
    "vote_counts",
    "weighted_vote",
    "dawid_skene",
    "one_coin",
    "ordinal_dawid_skene",
    "snorkel",
    "triplet",
    "data_programming",
    "glad",
    "mace",
    "correlated_voters",
)
EVIDENCE = ("feature_checked", "feature_em", "gold_weighted", "stacked")
END_TO_END = (
    "committee",
    "weasel",
    "max_mig",
    "crowd_layer",
    "doctor_net",
    "mbem",
    "agg_net",
    "raykar",
    "confusion_net",
    "conal",
    "coin_net",
    "annot_mix",
    "deep_logic",
    "imply_loss",
    "astra",
    "supervised",
)
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "weasel, members": ("weasel", {"members": 2}),
    "weasel, mig": ("weasel", {"loss": "mig", "class_conditional": True}),
    "weasel, graph": ("weasel", {"encoder": "graph"}),
    "crowd_layer, low rank": ("crowd_layer", {"rank": 2}),
    "doctor_net, IWDN": ("doctor_net", {"variant": "IWDN"}),
    "confusion_net, union": ("confusion_net", {"structure": "union"}),
    "committee, balance of gold": ("committee", {"class_balance": "validation"}),
    "committee, gold is not trained on": ("committee", {"train_on_gold": False}),
}
REAL = ("youtube", "sms", "trec")
CROWDS = ("tweets_mozafari", "sentiment_amt")
PAPER: dict[str, Any] = {"epoch_size": None, "lr": 1e-3, "weight_average": None}
QUICK: dict[str, Any] = {"epochs": 3, "epoch_size": 640, "progress": False, "seed": 1}
OTHER_TASKS = ("labels/", "spans/")
"""These may change on purpose when the tasks are merged: they are compared, but decide nothing."""


class Task(NamedTuple):
    """Data to fit on."""

    X: Any
    votes: VoteMatrix
    gold: Any
    validation: tuple[Any, Any, VoteMatrix] | None

    def net(self) -> torch.nn.Module:
        with seeded(7):
            return MLP(self.X.shape[1], len(self.votes.labels), hidden=(8,))


@cache
def planted(n_classes: int, with_gold: bool) -> Task:
    """Return generated data."""
    votes, gold = make_votes(300, 6, n_classes, coverage=0.5, seed=n_classes)
    X, few = make_features(gold, 5, separation=2.0, seed=2), np.arange(60)
    return Task(X, votes, gold, (X[few], gold[few], votes[few]) if with_gold else None)


@cache
def real(name: str) -> Task:
    """Return the first items of a real data set, with 100 validation items."""
    data = load_dataset(name, standardize=True)
    train, valid = data.train, data.valid
    some, few = np.arange(min(500, len(train.gold))), np.arange(min(100, len(valid.gold)))
    validation = (valid.features[few], valid.gold[few], valid.votes[few])
    return Task(train.features[some], train.votes[some], train.gold[some], validation)


def tasks() -> dict[str, Callable[[], Task]]:
    """Return the tasks by name."""
    found: dict[str, Callable[[], Task]] = {
        "binary": partial(planted, 2, False),
        "binary with gold": partial(planted, 2, True),
        "three classes": partial(planted, 3, False),
        "three classes with gold": partial(planted, 3, True),
    }
    return found | {name: partial(real, name) for name in REAL if _has_data(name)}


def _has_data(name: str) -> bool:
    return (Path(os.environ.get("WIESEL_DATA", "/nowhere")) / name).is_dir()


def fits() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Return every fit by name: a function that returns what was learned."""
    for place, task in tasks().items():
        for name in (*LABEL_MODELS, *EVIDENCE):
            yield f"{place}/{name}", partial(label_model, name, task)
            yield f"{place}/two_stage of {name}", partial(two_stage, name, task)
        yield f"{place}/two_stage, mig", partial(two_stage, "snorkel", task, loss="mig")
        yield f"{place}/two_stage, hard", partial(two_stage, "one_coin", task, hard=True)
        yield f"{place}/two_stage, members", partial(two_stage, "majority_vote", task, members=2)
        for name in END_TO_END:
            yield f"{place}/{name}", partial(end_to_end, name, task)
        for title, (name, options) in VARIANTS.items():
            yield f"{place}/{title}", partial(end_to_end, name, task, **options)
        yield f"{place}/weasel of the paper", partial(weasel_of_the_paper, task)
    yield from _other_fits()


def _other_fits() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    for name in CROWDS:
        if _has_data(name):
            for method in ("majority_vote", "dawid_skene", "one_coin", "glad", "mace"):
                yield f"{name}/{method}", partial(crowd, method, name)
    for name in ("Committee", "TwoStage", "WeaSEL"):
        for gold in (False, True):
            title = f"labels/MultiLabel{name}{', gold' if gold else ''}"
            yield title, partial(several_labels, name, gold)
    for name in ("HiddenMarkov", "TwoStage", "WeaSEL"):
        yield f"spans/{name}", partial(spans, name)


def label_model(name: str, task: Callable[[], Task]) -> dict[str, Any]:
    """Fit a label model."""
    X, votes, _, validation = task()
    model = METHODS[name].cls()
    if name in EVIDENCE:
        gold = None if validation is None else (validation[2], validation[1])
        model.fit(votes, X=X, gold=gold)
    else:
        model.fit(votes)
    return {"proba": model.predict_proba(votes), "class balance": model.class_balance_}


def two_stage(name: str, task: Callable[[], Task], **options: Any) -> dict[str, Any]:
    """Fit a network on the soft labels of a label model."""
    own = task()
    model = TwoStage(METHODS[name].cls(), own.net(), **QUICK, **options)
    return learned(model.fit(own.X, own.votes, validation=own.validation), own)


def end_to_end(name: str, task: Callable[[], Task], **options: Any) -> dict[str, Any]:
    """Fit an end-to-end method."""
    own = task()
    if name == "supervised":
        model = METHODS[name].cls(own.net(), labels=own.votes.labels, **QUICK)
        return learned(model.fit(own.X, own.gold), own)
    model = METHODS[name].cls(own.net(), **QUICK, **options)
    return learned(model.fit(own.X, own.votes, validation=own.validation), own)


def weasel_of_the_paper(task: Callable[[], Task]) -> dict[str, Any]:
    """Fit WeaSEL with the settings of the paper."""
    own = task()
    model = WeaSEL.paper(own.net(), **{**QUICK, **PAPER})
    gold = None if own.validation is None else own.validation[:2]
    return learned(model.fit(own.X, own.votes, validation=gold), own)


def crowd(method: str, name: str) -> dict[str, Any]:
    """Fit a label model on crowd answers."""
    votes = load_dataset(name, duplicates="first").train.votes
    return {"proba": METHODS[method].cls().fit(votes).predict_proba(votes)}


def learned(model: Any, task: Task) -> dict[str, Any]:
    """Return predictions and what was chosen."""
    found = {
        "proba": model.predict_proba(task.X),
        "threshold": [np.nan if model.threshold_ is None else model.threshold_],
        "losses": [[value for value in record.values() if isinstance(value, (int, float))]
                   for record in model.history_],
    }  # fmt: skip
    if hasattr(model, "member_weights_"):
        found["member weights"] = list(model.member_weights_.values())
    if hasattr(model, "soft_labels"):
        found["soft labels"] = model.soft_labels(task.X, task.votes)
    return found


@cache
def _label_task() -> tuple[Any, Any, Any]:
    from wiesel.multilabel import MultiLabelVotes

    rng = np.random.default_rng(0)
    gold = (rng.random((200, 3)) < [0.5, 0.3, 0.3]).astype(np.int64)
    X = (2.0 * gold - 1 + rng.normal(0, 0.7, gold.shape)).astype(np.float32)
    said = np.where(rng.random((200, 5, 3)) < 0.8, gold[:, None], 1 - gold[:, None])
    said = np.where(rng.random(said.shape) < 0.4, -1, said)
    return X, MultiLabelVotes.from_dense(said, ["sports", "money", "law"]), gold


def several_labels(name: str, with_gold: bool) -> dict[str, Any]:
    """Fit a multi-label method."""
    import wiesel

    X, votes, gold = _label_task()
    with seeded(7):
        net = MLP(3, 3, hidden=(8,))
    own = (METHODS["majority_vote"].cls(), net) if name == "TwoStage" else (net,)
    few = np.arange(60)
    validation = (X[few], gold[few], votes[few]) if with_gold else None
    model = getattr(wiesel, name)(*own, **QUICK).fit(X, votes, validation=validation)
    return {"proba": model.predict_proba(X), "soft labels": model.soft_labels(X, votes)}


def spans(name: str) -> dict[str, Any]:
    """Fit a sequence model or a tagger."""
    import wiesel.spans as spans
    from wiesel.nn import BiLSTMTagger

    texts = ["Ada met Bob", "so Bob met Ada in Bath again", "", "nobody was in Spain"] * 10
    functions = [
        spans.gazetteer("PER", ["Ada", "Bob"], name="names"),
        spans.gazetteer("LOC", ["Bath", "Ada"], name="places"),
        spans.pattern("LOC", r"[A-Z]\w+", before=r"\bin ", name="after_in"),
    ]
    documents = spans.Documents.from_texts(texts)
    votes = spans.apply_span_lfs(functions, documents, labels=["PER", "LOC"])
    if name == "HiddenMarkov":
        return {"proba": spans.HiddenMarkov().fit(votes).predict_proba(votes)}
    how: dict[str, Any] = {"epochs": 3, "epoch_size": 64, "progress": False}
    with seeded(0):
        net = BiLSTMTagger(5)
    model: Any = TwoStage(spans.HiddenMarkov(), net, **how)
    if name == "WeaSEL":
        model = WeaSEL(net, warm_up=2, **how)
    model.fit(documents, votes)
    soft = model.soft_labels(documents, votes)
    return {"proba": model.predict_proba(documents), "soft labels": soft}


def noted(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a hash of each array, and a few of its values to see how large a difference is."""
    notes = {}
    for name, value in found.items():
        array = np.ascontiguousarray(_flat(value), dtype=np.float64)
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        some = array[:: max(1, len(array) // 8)][:8]
        notes[name] = {"n": len(array), "hash": digest, "some": [float(v) for v in some]}
    return notes


def _flat(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.reshape(-1)
    return np.array([part for v in value for part in (v if isinstance(v, list) else [v])])


def run_all(only: str) -> dict[str, Any]:
    """Fit everything, and return the notes by name; an error is noted as its text."""
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for name, fit in fits():
        if only in name:
            started = time.perf_counter()
            try:
                with warnings.catch_warnings(action="ignore"):
                    results[name] = noted(fit())
            except Exception as error:  # noqa: BLE001 - a refusal is compared, too
                results[name] = {"error": type(error).__name__}
                print(error, file=sys.stderr)  # noqa: T201
            print(f"{name}: {time.perf_counter() - started:.1f} s", file=sys.stderr)  # noqa: T201
    return results


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return a line for every fit that is not the same.

    >>> one = {"proba": {"n": 1, "hash": "a", "some": [0.5]}}
    >>> two = {"proba": {"n": 1, "hash": "b", "some": [0.25]}}
    >>> differences({"x": one, "y": one}, {"x": one, "y": two})
    ['y: proba differs, by 0.25 in the values shown']
    """
    lines = []
    for name, expected in before.items():
        found = after.get(name)
        if found is None:
            lines.append(f"{name}: was not fitted")
        elif "error" in found or "error" in expected:
            if found != expected:
                lines.append(f"{name}: {found.get('error', 'fits now')}")
        else:
            lines += [f"{name}: {line}" for line in _changed(expected, found)]
    return lines


def _changed(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for what, note in before.items():
        new = after.get(what, {"n": 0, "hash": "none", "some": []})
        if new["hash"] == note["hash"]:
            continue
        if new["n"] != note["n"]:
            yield f"{what} has {new['n']} values, not {note['n']}"
        else:
            largest = np.nanmax(np.abs(np.subtract(new["some"], note["some"])))
            yield f"{what} differs, by {largest:.3g} in the values shown"


def main() -> int:
    """Write a baseline, or compare with one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, metavar="FILE", help="write the baseline")
    what.add_argument("--compare", type=Path, metavar="FILE", help="compare with a baseline")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="only fits with this in the name"
    )
    given = parser.parse_args()
    results = run_all(given.only)
    if given.write:
        given.write.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        n_errors = sum("error" in result for result in results.values())
        print(f"Wrote {len(results)} fits, {n_errors} errors: {given.write}")  # noqa: T201
        return 0
    before = json.loads(given.compare.read_text(encoding="utf-8"))
    before = {name: value for name, value in before.items() if given.only in name}
    lines = differences(before, results)
    deciding = [line for line in lines if not line.startswith(OTHER_TASKS)]
    others = len(lines) - len(deciding)
    print("\n".join(lines))  # noqa: T201
    print(  # noqa: T201
        f"{len(before)} fits compared: {len(deciding)} differences of single-label methods, "
        f"{others} of the other tasks."
    )
    return 1 if deciding else 0


if __name__ == "__main__":
    sys.exit(main())
