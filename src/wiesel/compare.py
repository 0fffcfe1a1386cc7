"""Compares methods on the same data, with several seeds each, in one table."""

import copy
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.table import UNKNOWN, Column, Table
from wiesel.catalog import method
from wiesel.end_to_end import Committee, EndToEndModel, Supervised, TwoStage
from wiesel.end_to_end.checks import is_classifier
from wiesel.end_to_end.plan import fit_together
from wiesel.errors import ParameterError, as_list, listed, suggest
from wiesel.evaluation import Score, commonest_class, evaluate, evaluate_proba
from wiesel.evaluation.comparison import (
    LABELS_ALONE,
    differences_to_first,
    verdict,
    without_labels,
)
from wiesel.evaluation.intervals import check_resampling
from wiesel.evaluation.metrics import predicted_classes
from wiesel.evaluation.report import model_proba
from wiesel.label_models import LabelModel
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.nn.names import end_model_by_name
from wiesel.tables import Gold, in_order_of
from wiesel.training import as_inputs
from wiesel.training.history import one_line
from wiesel.training.inputs import joined
from wiesel.votes import VoteMatrix, require_votes

__all__ = [
    "Judged",
    "build_method",
    "compare",
    "compare_datasets",
    "judged_rows",
    "logistic_proba",
    "score_table",
    "verdict_of",
]

Model = EndToEndModel | LabelModel
_TASK = ("X", "votes", "test", "validation", "gold")
"""The parts of a data set; the last two are optional."""
_MOST_BYTES = 2**30
"""Larger test items are not predicted by the baseline of scikit-learn."""
_Z = 1.959963984540054
NETWORKS = 5
"""How many networks a method averages if it is given by name."""
_SHOWN = {"accuracy": "accuracy", "f1": "F1", "auc": "ROC-AUC"}
_SHOWN_OF_LABELS = {
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "average_precision": "average precision",
    "exact_match": "exact match",
}
"""The scores over several labels that are shown."""
_SHOWN_OF_SPANS = {
    "precision": "precision",
    "recall": "recall",
    "span_f1": "F1",
    "overlap_f1": "overlap F1",
    "token_accuracy": "tokens",
}
"""The scores for spans that are shown."""


def compare(
    methods: Iterable[str | Model] | Mapping[str, Model | Mapping[str, Any]],
    X: Any,
    votes: VoteMatrix,
    *,
    test: tuple[Any, Any],
    validation: tuple[Any, Any] | Gold | None = None,
    end_model: Any = "mlp",
    seeds: Sequence[int] = (0,),
) -> Table:
    """Return a row for each method: its scores on `test=(X, y)`, with 95 % intervals.

    Methods are names (of `wiesel methods`), names with options, or your own models by name. A label
    model trains the end model on its soft labels. `end_model` is a name or a module, for label
    models and methods given by name. All of these use the same data and training, and average five
    networks. `validation` is that of `fit`, or a `wiesel.Gold`, whose labels `fit` gets as `gold`.

    Intervals are over the test items, and over seeds. Each method's accuracy is compared with the
    first one's on the same items, and p-values are corrected for their number (Holm). The last
    rows are baselines: the most frequent class and, with labels to learn from, the first method
    without them, and logistic regression and the end model on nothing else. With labels, a sentence
    says whether the votes beat the labels alone.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, n_voters=5)
    >>> X = make_features(gold, n_features=4)
    >>> methods = {"majority_vote": {"epochs": 2}, "snorkel": {"epochs": 2}}
    >>> table = compare(methods, X, votes, test=(X, gold), end_model="linear", seeds=[0, 1])
    >>> table.frame["method"].to_list()
    ['majority_vote', 'snorkel', "always 'class_1'"]
    """
    key = "gold" if isinstance(validation, Gold) else "validation"
    task = {"X": X, "votes": votes, "test": test, key: validation}
    with one_line():
        judged = _runs(methods, task, end_model, seeds)
    return score_table(judged_rows(judged), conclusion=verdict_of(judged))


def compare_datasets(
    methods: Iterable[str | Model] | Mapping[str, Model | Mapping[str, Any]],
    datasets: Mapping[str, Mapping[str, Any]],
    *,
    end_model: Any = "mlp",
    seeds: Sequence[int] = (0,),
) -> Table:
    """Return a row for each data set and method; a data set contains the arguments of `compare`.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> def task(seed):
    ...     votes, gold = make_votes(200, n_voters=5, seed=seed)
    ...     X = make_features(gold, n_features=4, seed=seed)
    ...     return {"X": X, "votes": votes, "test": (X, gold)}
    >>> tasks = {"mails": task(0), "reviews": task(1)}
    >>> table = compare_datasets({"snorkel": {"epochs": 2}}, tasks, end_model="linear")
    >>> table.frame.select("data", "method").rows()
    [('mails', 'snorkel'), ('mails', "always 'class_1'"), ...]
    """
    if not datasets:
        raise ParameterError("There is nothing to compare on: no data sets were given.")
    with one_line():
        rows = [
            {"data": name, **row}
            for name, task in datasets.items()
            for row in judged_rows(_runs(methods, task, end_model, seeds))
        ]
    return score_table(rows)


@dataclass(frozen=True)
class Judged:
    """One fitted method on the judged items."""

    method: str
    seed: int
    seconds: float
    scores: Mapping[str, float]
    """Each metric; a `Score` has limits."""
    right: npt.NDArray[Any] | None = None
    """Whether each prediction is right, or the part of each item in F1 (`f1_parts`)."""


def judged_rows(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Return the scores of each method and seed as plain values, with their intervals.

    `difference` is the accuracy of all seeds of a method minus that of the first method.
    """
    rows = []
    by_method: dict[str, list[Any]] = {}
    for own in judged:
        row: dict[str, Any] = {"method": own.method, "seed": own.seed, "seconds": own.seconds}
        row |= {name: float(score) for name, score in own.scores.items()}
        for name, score in own.scores.items():
            if isinstance(score, Score):
                row |= {f"{name}_low": score.low, f"{name}_high": score.high}
        rows.append(row)
        by_method.setdefault(own.method, []).append(own.right)
    if len(by_method) < 2 or any(own.right is None for own in judged):
        return rows
    apart = differences_to_first([np.stack(right) for right in by_method.values()])
    for row in rows:
        score, p_value = apart[list(by_method).index(row["method"])]
        row |= {"difference": float(score), "difference_low": score.low}
        row |= {"difference_high": score.high, "p_value": p_value}
    return rows


def verdict_of(judged: Sequence[Judged], figure: str = "accuracy") -> str:
    """Return the sentence on votes and labels: the first method against those of labels alone.

    It is empty without labels to learn from.
    """
    first: list[Any] = [own.right for own in judged if own.method == judged[0].method]
    alone = [own.right for own in judged if own.method.startswith(LABELS_ALONE)]
    if any(right is None for right in first):
        return ""
    return verdict(np.stack(first), [right[None] for right in alone if right is not None], figure)


def _runs(
    methods: Any, task: Mapping[str, Any], end_model: Any, seeds: Sequence[int]
) -> list[Judged]:
    """Every method and seed on one data set, and the baselines."""
    X, votes, test = _checked_task(task)
    seeds = as_list(seeds, "Seeds", "[0, 1, 2]", ParameterError)
    for seed in seeds:
        check_resampling(0, seed)
    if not seeds:
        raise ParameterError("There is nothing to compare: the list of seeds is empty.")
    seeds = [int(seed) for seed in seeds]
    validation, gold = task.get("validation"), task.get("gold")
    found: list[Judged] = []
    named = _named_models(methods, X, votes.labels, end_model)
    for name, model in named.items():
        if isinstance(model, Supervised):
            raise ParameterError("compare() learns from votes; Supervised learns from gold labels.")
        models = [copy.deepcopy(model).set_params(seed=seed) for seed in seeds]
        start = time.perf_counter()
        if gold is None:
            fit_together(models, X, votes, validation, quiet=True)
        else:
            for own in models:
                own.fit(X, votes, validation, gold=gold)
        seconds = (time.perf_counter() - start) / max(1, len(models))
        found += [
            _judged(name, seed, seconds, own, test) for seed, own in zip(seeds, models, strict=True)
        ]
    network = end_model if _any_by_name(methods) else None
    return found + _references(task, network, next(iter(named.items())), seeds[0])


def _checked_task(task: Mapping[str, Any]) -> tuple[Any, VoteMatrix, tuple[Any, Any]]:
    """X, votes and test of a data set."""
    for key in task:
        if key not in _TASK:
            raise ParameterError(f"A data set has no {key!r}. {suggest(key, _TASK)}")
    missing = [key for key in _TASK[:3] if task.get(key) is None]
    if missing:
        raise ParameterError(f"A data set needs {listed(_TASK[:3])}; {listed(missing)} is missing.")
    X, votes, test = (task[key] for key in _TASK[:3])
    require_votes(votes)
    if not isinstance(test, (tuple, list)) or len(test) != 2:
        raise ParameterError(f"test is a pair (X_test, y_test); got {type(test).__name__}.")
    return X, votes, (test[0], test[1])


def _judged(name: str, seed: int, seconds: float, model: Any, test: tuple[Any, Any]) -> Judged:
    scores = dict(evaluate(model, *test).scores())
    if not isinstance(getattr(model, "labels_", None), LabelSpace):
        return Judged(name, seed, seconds, scores)
    gold = model.labels_.indices(in_order_of(*test, "y", "X"), allow_unknown=True)
    known = gold != ABSTAIN
    predicted = predicted_classes(model_proba(model, test[0])[known], model.threshold_)
    return Judged(name, seed, seconds, scores, predicted == gold[known])


def _references(
    task: Mapping[str, Any], end_model: Any, first: tuple[str, EndToEndModel], seed: int
) -> list[Judged]:
    """The baselines: the most frequent class, the first method without labels, labels alone."""
    (X_test, y_test), votes = task["test"], task["votes"]
    labels = votes.labels
    y_test = labels.indices(in_order_of(X_test, y_test, "y", "X"), allow_unknown=True)
    name, report = commonest_class(y_test, labels, n_resamples=1000)
    known = y_test != ABSTAIN
    right = y_test[known] == labels.index(name)
    found = [Judged(f"always {name!r}", seed, 0.0, dict(report.scores()), right)]
    X, y = _labels_to_learn(task)
    if len(np.unique(y)) < 2:
        return found
    if isinstance(end_model, str):
        end_model = end_model_by_name(end_model, task["X"], len(labels))
    start, pair = time.perf_counter(), (_matrix(X), _matrix(X_test))
    if pair[0] is not None and pair[1] is not None:
        proba = logistic_proba(pair[0], y, pair[1], len(labels))
        report = evaluate_proba(proba, y_test, labels)
        right = proba[known].argmax(axis=1) == y_test[known]
        seconds = time.perf_counter() - start
        title = f"{LABELS_ALONE}: logistic"
        found.append(Judged(title, seed, seconds, dict(report.scores()), right))
    if end_model is not None and not is_classifier(end_model):  # which learns from label models
        start = time.perf_counter()
        options = {"seed": seed, "progress": False}
        model: Any = build_method("supervised", end_model, labels, options).fit(X, y)
        title, seconds = f"{LABELS_ALONE}: end model", time.perf_counter() - start
        found.append(_judged(title, seed, seconds, model, (X_test, y_test)))
    start = time.perf_counter()
    blind = copy.deepcopy(first[1]).set_params(seed=seed).fit(task["X"], votes)
    seconds = time.perf_counter() - start
    return [*found, _judged(without_labels(first[0]), seed, seconds, blind, (X_test, y_test))]


def _labels_to_learn(task: Mapping[str, Any]) -> tuple[Any, npt.NDArray[np.int64]]:
    """The inputs and the known labels of `validation` and `gold`."""
    labels = task["votes"].labels
    parts = [] if task.get("validation") is None else [Gold.of(tuple(task["validation"]))]
    parts += [] if task.get("gold") is None else [Gold.of(task["gold"])]
    X: list[Any] = []
    y: list[npt.NDArray[np.int64]] = []
    for part in parts:
        inputs = task["X"] if part.X is None else part.X
        gold = labels.indices(in_order_of(inputs, part.y, "y", "X"), allow_unknown=True)
        rows = np.flatnonzero(gold != ABSTAIN)
        X.append(as_inputs(as_inputs(inputs).take(rows)))
        y.append(gold[rows])
    if not y:
        return None, np.empty(0, np.int64)
    return joined(X, "gold X"), np.concatenate(y)


def _matrix(X: Any) -> npt.NDArray[Any] | None:
    """The items as a matrix of numbers; None if they are no such matrix, or too large a one."""
    inputs = as_inputs(X)
    if len(inputs) * inputs.item_bytes > _MOST_BYTES:
        return None
    batch = inputs.take(np.arange(len(inputs)))
    if isinstance(batch, dict) or batch.ndim != 2:
        return None
    matrix: npt.NDArray[Any] = np.asarray(batch)
    return matrix if matrix.dtype.kind == "f" else None


def logistic_proba(X: Any, y: Any, new: Any, n_classes: int) -> npt.NDArray[np.float64]:
    """Return P(class) of new items by logistic regression on a few labeled ones.

    It is what two lines of scikit-learn say: columns are standardized, unless they are sparse.
    Classes without a label get a probability of 0.001.

    >>> logistic_proba([[0.0], [1.0]], [0, 2], [[2.0]], n_classes=3).argmax()
    np.int64(2)
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    proba = np.full((new.shape[0] if hasattr(new, "shape") else len(new), n_classes), 1e-3)
    if len(np.unique(y)) < 2:
        proba[:, y[0]] = 1
    else:
        model = LogisticRegression(max_iter=1000)
        if not hasattr(X, "tocsr"):
            model = make_pipeline(StandardScaler(), model)
        fitted = model.fit(X, y)
        proba[:, fitted.classes_] = np.maximum(fitted.predict_proba(new), 1e-3)
    found: npt.NDArray[np.float64] = proba / proba.sum(axis=1, keepdims=True)
    return found


def _any_by_name(methods: Any) -> bool:
    return any(not isinstance(entry, EndToEndModel) for _, entry in _entries(methods))


def build_method(
    name: str, end_model: Any, labels: LabelSpace, options: Mapping[str, Any] | None = None
) -> EndToEndModel:
    """Return an unfitted model by the name of its method.

    A label model becomes the first stage of `TwoStage`. Options that both stages have apply to
    training the end model; `label_model__epochs` reaches the label model. All methods use the same
    training, and average five networks unless `members` is set.

    >>> build_method("snorkel", None, LabelSpace("ham", "spam"), {"epochs": 3}).epochs
    3
    """
    cls: Any = method(name).cls
    given = dict(options or {})
    if cls is TwoStage:
        raise ParameterError("Name the label model instead of 'two_stage', such as 'snorkel'.")
    if is_classifier(end_model) and not issubclass(cls, LabelModel):
        raise ParameterError(
            f"{name} trains its end model step by step, which {type(end_model).__name__} cannot. "
            "Use a network, or a method with a label model, such as majority_vote or snorkel."
        )
    if cls is not Committee and not is_classifier(end_model):
        # For a fair comparison: the committee also averages several networks.
        given.setdefault("members", NETWORKS)
    if cls is Supervised:
        # The labels of spans are saved as a list of names.
        own = labels if isinstance(labels, LabelSpace) else list(labels.names)
        return Supervised(end_model, labels=own, **given)
    if not issubclass(cls, LabelModel):
        model: EndToEndModel = cls(end_model, **given)
        return model
    return _two_stage(name, cls, end_model, given)


def _two_stage(name: str, cls: type[LabelModel], end_model: Any, given: dict[str, Any]) -> TwoStage:
    """A label model as the first of two stages; each option goes to the stage it belongs to."""
    own = [key for key in cls.option_names() if key not in TwoStage.option_names()]
    first = cls(**{key: given.pop(key) for key in own if key in given})
    nested = {key: given.pop(key) for key in list(given) if key.startswith("label_model__")}
    for key in given:
        if key not in TwoStage.option_names():
            known = [*own, *TwoStage.option_names()]
            problem = f"{name} has no option {key!r}. {suggest(key, known)}"
            raise ParameterError(problem, option=key)
    if "seed" in given and "seed" in cls.option_names():
        nested.setdefault("label_model__seed", given["seed"])
    return TwoStage(first, end_model, **given).set_params(**nested)


def score_table(
    rows: Sequence[Mapping[str, Any]], caption: str = "", conclusion: str = ""
) -> Table:
    """Return the scores of every method, means over seeds, with 95 % intervals.

    `{score}_low` and `{score}_high` of the rows are the limits over items; seeds widen them. Rows
    with `data`, the name of a data set, are grouped by it.

    >>> row = {"method": "weasel", "seed": 0, "accuracy": 0.75, "accuracy_low": 0.7}
    >>> row["accuracy_high"] = 0.8
    >>> other = {**row, "seed": 1, "accuracy": 0.77, "accuracy_low": 0.72, "accuracy_high": 0.82}
    >>> print(score_table([row, other]))
    95 % intervals
     method   seeds            accuracy
    ────────────────────────────────────
     weasel       2   0.760 (0.71–0.81)
    """
    keys = [key for key in ("data", "method") if key in rows[0]]
    limits = tuple(f"{name}_{end}" for name in rows[0] for end in ("low", "high"))
    once = ("difference", "difference_low", "difference_high", "p_value")
    names = [name for name in rows[0] if name not in (*keys, "seed", *limits, *once)]
    bounded = [name for name in names if f"{name}_low" in rows[0]]
    frame = (
        pl.DataFrame(list(rows), infer_schema_length=None)
        .with_columns(pl.col(pl.Float64).fill_nan(None))
        .group_by(keys, maintain_order=True)
        .agg(
            pl.len().alias("seeds"),
            *(pl.col(name).mean() for name in names),
            *(pl.col(name).std(ddof=0).alias(f"{name}_spread") for name in names),
            *(_limit(name, end) for name in bounded for end in ("low", "high")),
            *(pl.col(name).first() for name in once if name in rows[0]),
        )
    )
    columns = [Column(key, itemgetter(key), numeric=False) for key in keys]
    if frame["seeds"].max() != 1:
        columns.append(Column("seeds", lambda row: f"{row['seeds']}"))
    shown = _SHOWN_OF_LABELS if "micro_f1" in names else _SHOWN
    shown = _SHOWN_OF_SPANS if "span_f1" in names else shown
    columns += [_mean_column(name, title) for name, title in shown.items() if name in names]
    said = [caption, "95 % intervals" if bounded else ""]
    if "difference" in rows[0]:
        columns.append(Column("to the first", _apart))
        said.append("p-values corrected for the number of rows (Holm)")
    if "seconds" in names:
        columns.append(Column("seconds", lambda row: f"{row['seconds']:.1f}"))
    caption = ", ".join(part for part in said if part)
    return Table(frame, tuple(columns), caption, conclusion=conclusion)


def _limit(name: str, end: str) -> pl.Expr:
    """A limit of the mean over seeds: that over items, widened by the spread over seeds."""
    value, sign = pl.col(name), -1 if end == "low" else 1
    of_items = ((value - pl.col(f"{name}_{end}")) ** 2).mean()
    of_seeds = (_Z**2 * value.var() / pl.len()).fill_null(0.0)
    return (value.mean() + sign * (of_items + of_seeds).sqrt()).alias(f"{name}_{end}")


def _apart(row: Mapping[str, Any]) -> str:
    if row["difference"] is None:
        return UNKNOWN
    value, low, high = (100 * row[f"difference{end}"] for end in ("", "_low", "_high"))
    return f"{value:+.1f} ({low:+.0f} to {high:+.0f}), p {_rounded(row['p_value'])}"


def _rounded(p_value: float) -> str:
    """A p-value of two digits, such as `= 0.04`; a tiny one is only said to be so."""
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.2g}"


def _named_models(
    methods: Any, X: Any, labels: LabelSpace, end_model: Any
) -> dict[str, EndToEndModel]:
    """All methods as models, by the name of their row."""
    models: dict[str, EndToEndModel] = {}
    for name, entry in _entries(methods):
        if name in models:
            raise ParameterError(
                f"{name!r} is given twice: name the models, compare({{'first': model, ...}}, ...)."
            )
        if isinstance(entry, EndToEndModel):
            models[name] = entry
            continue
        network = end_model
        if isinstance(end_model, str):
            network = end_model_by_name(end_model, X, len(labels))
        if isinstance(entry, LabelModel):
            networks = 1 if is_classifier(network) else NETWORKS
            models[name] = TwoStage(copy.deepcopy(entry), network, members=networks)
        else:
            models[name] = build_method(name, network, labels, entry)
    if not models:
        raise ParameterError("There is nothing to compare: the list of methods is empty.")
    return models


def _entries(methods: Any) -> Iterable[tuple[str, Any]]:
    """Pairs of names and models or options, from any form of the argument."""
    if isinstance(methods, Mapping):
        return methods.items()
    given = (
        [methods]
        if isinstance(methods, (str, EndToEndModel, LabelModel))
        else as_list(methods, "Methods", "['committee', Snorkel()]", ParameterError)
    )
    return [
        (entry, {}) if isinstance(entry, str) else (type(entry).__name__, entry) for entry in given
    ]


def _mean_column(name: str, title: str) -> Column:
    def cell(row: Mapping[str, Any]) -> str:
        if row[name] is None:
            return UNKNOWN
        low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
        # Plus zero: a limit that rounds to nothing is not shown as -0.00.
        interval = "" if low is None else f" ({round(low, 2) + 0.0:.2f}{UNKNOWN}{high:.2f})"
        return f"{row[name]:.3f}{interval}"

    return Column(title, cell)
