"""Loads the saved models in `models/`, and asks them about `inputs.json`.

Commit 055702e wrote them, before the three kinds of tasks were merged (`write_models.py`).
"""

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from torch import nn

from tiny_project import run_wiesel
from wiesel import VoteMatrix, load_model
from wiesel.multilabel import MultiLabelVotes
from wiesel.spans import Documents, apply_span_lfs, gazetteer, pattern

HERE = Path(__file__).parent
MODELS, INPUTS, ANSWERS = HERE / "models", HERE / "inputs.json", HERE / "answers.json"
DIGITS = 8


def own_network(n_outputs: int) -> nn.Module:
    """Return a module that Wiesel does not know, so it is not in the saved folder."""
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, n_outputs))


N_OUTPUTS = {"committee-own-network": 2, "two_stage-own-network": 2, "labels-own-network": 3}
"""The models with a module of the user's own."""


def load(name: str) -> Any:
    """Return a model of `models/`, or the folder of one that belongs to a project."""
    if name.startswith("project"):
        return MODELS / name
    own = {"end_model": own_network(N_OUTPUTS[name])} if name in N_OUTPUTS else {}
    return load_model(MODELS / name, **own)


def answers(model: Any, data: str) -> dict[str, Any]:
    """Return what a model says about one of the stored inputs, as plain data."""
    given = json.loads(INPUTS.read_text(encoding="utf-8"))[data]
    with warnings.catch_warnings(action="ignore"):
        found = dict(_ASK[data](model, given))
    return {key: _plain(value) for key, value in found.items()}


def votes_of(given: dict[str, Any]) -> Any:
    """Return the votes of an input."""
    if "tasks" in given:
        return MultiLabelVotes.from_dense(np.array(given["votes"]), given["tasks"])
    return VoteMatrix.from_dense(np.array(given["votes"]), given["classes"])


def span_votes(texts: list[str]) -> Any:
    """Return votes on the tokens of texts."""
    functions = [
        gazetteer("PER", ["Ada", "Bob"], name="names"),
        gazetteer("LOC", ["Bath", "Ada"], name="places"),
        pattern("LOC", r"[A-Z]\w+", before=r"\bin ", name="after_in"),
    ]
    return apply_span_lfs(functions, Documents.from_texts(texts), labels=["PER", "LOC"])


def _ask_vectors(model: Any, given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    votes = votes_of(given)
    yield "voters", getattr(model, "voters_", None)
    yield "labels", getattr(model, "labels_", None)
    if not hasattr(model, "end_model_"):  # a label model
        yield "proba", model.predict_proba(votes)
        yield "classes", model.predict(votes)
        return
    X = np.array(given["X"], dtype=np.float32)
    yield "proba", model.predict_proba(X)
    yield "classes", model.predict(X)
    for name in ("threshold_", "thresholds_", "member_weights_", "copies_", "selection_"):
        if hasattr(model, name):
            yield name, getattr(model, name)
    if hasattr(model, "soft_labels"):
        yield "soft labels", model.soft_labels(X, votes)
    if hasattr(model, "explain"):
        yield "explanation", model.explain(X[0], votes[0])


def _ask_spans(model: Any, given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    texts = given["texts"]
    votes = span_votes(texts)
    if hasattr(model, "end_model_"):
        yield "spans", model.predict(texts)
        yield "proba", model.predict_proba(texts)
        documents = votes.documents
        yield "soft labels", model.soft_labels(documents, votes)
        yield "explained", [str(model.explain(documents[k], votes[k])) for k in range(len(texts))]
    else:
        yield "spans", model.predict(votes)
        yield "proba", model.predict_proba(votes)


def _ask_rows(model: Any, given: Any) -> Iterator[tuple[str, Any]]:
    rows = np.array(given, dtype=np.float32) if isinstance(given[0], list) else given
    yield "proba", model.predict_proba(rows)
    yield "classes", model.predict(rows)


def _ask_project(model: Path, given: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Predict as a user does: with the folder that `wiesel run` wrote, and a table of rows."""
    with TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.jsonl"
        rows.write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
        result = run_wiesel("predict", model, rows, "--json")
    assert result.exit_code == 0, result.output
    yield "predictions", json.loads(result.stdout)["predictions"]


_ASK: dict[str, Callable[[Any, Any], Iterator[tuple[str, Any]]]] = {
    "binary": _ask_vectors,
    "classes": _ask_vectors,
    "labels": _ask_vectors,
    "spans": _ask_spans,
    "texts": _ask_rows,
    "rows": _ask_rows,
    "raw vectors": _ask_rows,
    "pictures": _ask_rows,
    "mails": _ask_project,
    "label mails": _ask_project,
}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, (str, int, type(None))):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "__dataclass_fields__") and not hasattr(value, "__iter__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return [_plain(part) for part in value]
