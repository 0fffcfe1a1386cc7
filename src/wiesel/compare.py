"""Compares methods on the same data, with several seeds each, in one table."""

import copy
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from wiesel.analysis.table import UNKNOWN, Column, Table, text
from wiesel.catalog import method
from wiesel.end_to_end import Committee, EndToEndModel, Supervised, TwoStage
from wiesel.end_to_end.checks import is_classifier
from wiesel.end_to_end.together import fit_together
from wiesel.errors import ParameterError, listed, suggest
from wiesel.evaluation import Report, commonest_class, evaluate
from wiesel.label_models import LabelModel
from wiesel.labels import LabelSpace
from wiesel.nn.names import end_model_by_name
from wiesel.row_ids import in_order_of
from wiesel.training.progress import one_line
from wiesel.votes import VoteMatrix

__all__ = ["build_method", "compare", "compare_datasets", "score_table"]

Model = EndToEndModel | LabelModel
_TASK = ("X", "votes", "test", "validation")
"""The parts of a data set; the last is optional."""
NETWORKS = 5
"""How many networks a method averages if it is given by name."""
_SHOWN = {"accuracy": "accuracy", "f1": "F1", "auc": "ROC-AUC", "log_loss": "log loss"}
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
    validation: tuple[Any, Any] | None = None,
    end_model: Any = "mlp",
    seeds: Sequence[int] = (0,),
) -> Table:
    """Return a row for each method: its scores on `test=(X, y)`, mean and spread over seeds.

    Methods are names (of `wiesel methods`), names with options, or your own models by name. A label
    model trains the end model on its soft labels. `end_model` is a name or a module, for label
    models and methods given by name. All of these use the same data and training, and average five
    networks. The last rows are baselines without votes: the most frequent class and, with
    `validation`, the end model trained on those gold labels only.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, n_voters=5)
    >>> X = make_features(gold, n_features=4)
    >>> methods = {"majority_vote": {"epochs": 2}, "snorkel": {"epochs": 2}}
    >>> table = compare(methods, X, votes, test=(X, gold), end_model="linear", seeds=[0, 1])
    >>> table.frame["method"].to_list()
    ['majority_vote', 'snorkel', "always 'class_1'"]
    """
    task = {"X": X, "votes": votes, "test": test, "validation": validation}
    with one_line():
        return score_table(_runs(methods, task, end_model, seeds))


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
            for row in _runs(methods, task, end_model, seeds)
        ]
    return score_table(rows)


def _runs(
    methods: Any, task: Mapping[str, Any], end_model: Any, seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """The scores of every method and seed on one data set."""
    for key in task:
        if key not in _TASK:
            raise ParameterError(f"A data set has no {key!r}. {suggest(key, _TASK)}")
    missing = [key for key in _TASK[:3] if task.get(key) is None]
    if missing:
        raise ParameterError(f"A data set needs {listed(_TASK[:3])}; {listed(missing)} is missing.")
    X, votes, test = (task[key] for key in _TASK[:3])
    validation = task.get("validation")
    rows: list[dict[str, Any]] = []
    for name, model in _named_models(methods, X, votes.labels, end_model).items():
        if isinstance(model, Supervised):
            raise ParameterError("compare() learns from votes; Supervised learns from gold labels.")
        models = [copy.deepcopy(model).set_params(seed=seed) for seed in seeds]
        start = time.perf_counter()
        fit_together(models, X, votes, validation, quiet=True)
        seconds = (time.perf_counter() - start) / max(1, len(models))
        for seed, own in zip(seeds, models, strict=True):
            report = evaluate(own, *test, n_resamples=0)
            rows.append({"method": name, "seed": seed, "seconds": seconds, **_figures(report)})
    return rows + _references(task, end_model if _any_by_name(methods) else None, seeds[0])


def _references(task: Mapping[str, Any], end_model: Any, seed: int) -> list[dict[str, Any]]:
    """Baselines without votes: the most frequent class, and training on validation gold only."""
    (X_test, y_test), labels = task["test"], task["votes"].labels
    name, report = commonest_class(y_test, labels)
    rows = [{"method": f"always {name!r}", "seed": seed, "seconds": 0.0, **_figures(report)}]
    if task.get("validation") is None or end_model is None:
        return rows
    X, y = task["validation"][:2]
    gold = labels.indices(in_order_of(X, y, "y", "X"), allow_unknown=True)
    if len(set(gold[gold >= 0].tolist())) < 2:
        return rows
    if isinstance(end_model, str):
        end_model = end_model_by_name(end_model, X, len(labels))
    if is_classifier(end_model):  # a scikit-learn classifier learns only from label models
        return rows
    model = build_method("supervised", end_model, labels, {"seed": seed, "progress": False})
    start = time.perf_counter()
    model.fit(X, gold)
    seconds = time.perf_counter() - start
    title = f"gold: {int((gold >= 0).sum()):,} rows"
    figures = _figures(evaluate(model, X_test, y_test, n_resamples=0))
    return [*rows, {"method": title, "seed": seed, "seconds": seconds, **figures}]


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
        return Supervised(end_model, labels=labels, **given)
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


def score_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the mean and the spread over seeds of the scores of every method.

    Rows with `data`, the name of a data set, are grouped by it.

    >>> row = {"method": "weasel", "seed": 0, "seconds": 2.0, "accuracy": 0.75}
    >>> print(score_table([row, {**row, "seed": 1, "accuracy": 0.85}]))
     method   seeds        accuracy   seconds
    ──────────────────────────────────────────
     weasel       2   0.800 ± 0.050       2.0
    """
    keys = [key for key in ("data", "method") if key in rows[0]]
    names = [name for name in rows[0] if name not in (*keys, "seed")]
    frame = (
        pl.DataFrame(list(rows), infer_schema_length=None)
        .with_columns(pl.col(pl.Float64).fill_nan(None))
        .group_by(keys, maintain_order=True)
        .agg(
            pl.len().alias("seeds"),
            *(pl.col(name).mean() for name in names),
            *(pl.col(name).std(ddof=0).alias(f"{name}_spread") for name in names),
        )
    )
    columns = [*map(text, keys), Column("seeds", lambda row: f"{row['seeds']}")]
    shown = _SHOWN_OF_LABELS if "micro_f1" in names else _SHOWN
    shown = _SHOWN_OF_SPANS if "span_f1" in names else shown
    columns += [_mean_column(name, title) for name, title in shown.items() if name in names]
    if "seconds" in names:
        columns.append(Column("seconds", lambda row: f"{row['seconds']:.1f}"))
    return Table(frame, tuple(columns))


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
    given = [methods] if isinstance(methods, (str, EndToEndModel, LabelModel)) else list(methods)
    return [
        (entry, {}) if isinstance(entry, str) else (type(entry).__name__, entry) for entry in given
    ]


def _figures(report: Report) -> dict[str, float]:
    return {name: float(score) for name, score in report.scores()}


def _mean_column(name: str, title: str) -> Column:
    def cell(row: Mapping[str, Any]) -> str:
        if row[name] is None:
            return UNKNOWN
        spread = f" ± {row[f'{name}_spread']:.3f}" if row["seeds"] > 1 else ""
        return f"{row[name]:.3f}{spread}"

    return Column(title, cell)
