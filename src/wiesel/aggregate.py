"""Turns crowd answers into labels in one call: a table in, tables out, no features needed."""

import copy
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.crowd import expected_answers, judge_workers, worker_mistakes
from wiesel.analysis.reliability import Reliability, reliability
from wiesel.analysis.table import Table, number, text
from wiesel.analysis.workers import FAST, worker_groups, worker_pace
from wiesel.errors import (
    DataError,
    ParameterError,
    WieselWarning,
    listed,
    suggest,
)
from wiesel.evaluation.report import html_fragment
from wiesel.features.tabular import item_vectors
from wiesel.guidance.asking import Answered, Asking, AskNext, plan_answers
from wiesel.io.answers import (
    AnswerColumns,
    Repeated,
    alike_names,
    answer_times,
    crowd_answers,
    crowd_votes,
    known_classes,
    ordered_classes,
)
from wiesel.label_models import REGISTRY, DawidSkene, LabelModel, MajorityVote
from wiesel.label_models.confidence import (
    ASSUMED_ACCURACY,
    FEW_ANSWERS,
    WITHOUT_GOLD,
    Calibration,
    calibrated_proba,
    comparable_answers,
    fit_calibration,
)
from wiesel.labels import LabelSpace
from wiesel.tables import as_frame, of_type
from wiesel.votes import VoteMatrix

__all__ = ["Aggregation", "aggregate", "ask_next"]


def aggregate(  # noqa: PLR0913 - five keywords that most calls leave out
    answers: Any,
    *,
    item: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    method: str | LabelModel = "dawid_skene",
    labels: LabelSpace | Sequence[str] | None = None,
    ordered: bool = False,
    repeated: Repeated = "all",
    calibrated: bool = True,
    gold: Any = None,
    features: Any = None,
    seconds: str | None = None,
    time: str | None = None,
) -> "Aggregation":
    """Return the label of every item and a rating of every worker, from a table of answers.

    The column `tie` names classes that are equally probable. A majority vote gives such an item no
    label. With other methods, Dawid-Skene decides, which knows how reliable each worker is; the
    confidence stays that of a tie.

    Parameters
    ----------
    answers
        One row per answer: a Polars or pandas table, a dict of columns, or a list of dicts.
    item, worker, label
        The columns; columns that are not given are recognized by their names and contents.
    method
        A label model or the name of one: `wiesel methods` lists them.
    labels
        The classes in order; by default those in the answers, sorted.
    ordered
        The classes are ranks, such as ratings, from the lowest to the highest, as are those of a
        `LabelSpace(..., ordered=True)`. Without `labels`, they have to be numbers.
    repeated
        What counts if a worker answered an item more than once: `all` answers, the `last` or
        the `first`; `refuse` raises an error.
    calibrated
        Make confidences about as often right as they say. Label models take the errors of workers
        for independent, so they are far too sure. False returns the model's own probabilities, as
        do models that were not made for crowds.
    gold
        Known classes: {item: class}, or a table with a row per item. How far confidences are
        reduced is learned from them; the labels stay the same. Fifty help.
    features
        What is known of the items besides their answers: a column of the answers, such as their
        text, or a table with a row for each item, with its id in the column of items or `id`.
        Models of the features that were not trained on an item say what it may be before its
        answers count. This helps where items have few answers (`docs/how-to/crowds.md`).
    seconds, time
        The columns of how long an answer took, and of when it was given, if there are any;
        recognized by name, too. They tell fast clickers, and workers who get better or worse.

    >>> rows = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog")]
    >>> rows += [("t2", "ann", "dog"), ("t2", "bob", "dog"), ("t2", "eve", "dog")]
    >>> table = [dict(zip(("task", "worker", "answer"), row)) for row in rows]
    >>> aggregate(table, method="majority_vote").labels.rows()
    [('t1', 'cat', 0.666..., 3, 0.333..., None), ('t2', 'dog', 1.0, 3, 0.0, None)]
    """
    unfitted = _label_model(method)
    frame = as_frame(answers)
    if frame.is_empty():
        raise DataError("There are no answers: the table has no rows.")
    frame, columns, n_rejected, n_trimmed = crowd_answers(frame, item, worker, label)
    n_complete = frame.drop_nulls(list(columns)).height
    timing = answer_times(frame, columns, seconds, time)
    if ordered or unfitted.reads_order:
        labels = ordered_classes(frame[columns.label], labels)
    votes = crowd_votes(frame, columns, labels, repeated)
    # Where answers cannot be compared, labels do not follow the model, nor does it warn of them.
    few = calibrated and comparable_answers(votes) < FEW_ANSWERS
    with warnings.catch_warnings():
        if few:
            warnings.simplefilter("ignore", WieselWarning)
        model = unfitted.fit(votes)
        proba = model.predict_proba(votes)
    calibration, expected = None, None
    if calibrated and model.trusts_independence:
        calibration = WITHOUT_GOLD
        if features is not None:
            sure = calibrated_proba(model, votes, proba)
            expected = _expected(
                item_vectors(features, votes.ids, columns.item, frame), votes, sure
            )
        if gold is not None:
            known = known_classes(gold, votes, columns)
            calibration = fit_calibration(model, votes, proba, known, expected)
    elif features is not None:
        raise ParameterError(
            "Features are combined with calibrated confidences: aggregate with calibration, by "
            "dawid_skene, one_coin, mace or glad."
        )
    kind = "pandas" if type(answers).__module__.partition(".")[0] == "pandas" else "polars"
    return Aggregation(
        votes,
        model,
        proba,
        calibration,
        columns,
        kind,
        frame.schema[columns.label],
        n_complete - votes.n_votes,
        repeated == "all",
        frame.height - n_complete,
        n_rejected,
        n_trimmed,
        timing,
        expected,
    )


def ask_next(
    answers: Any,
    *,
    target: float = 0.1,
    price: float = 1.0,
    budget: float | None = None,
    most: int = 10,
    flagged: bool = False,
    **reading: Any,
) -> AskNext:
    """Return about which items to ask again, whom, what it costs, and when to stop.

    Ask, add the answers to the table, and call it again: few answers at a time, because each one
    also tells who is good. Stop when the list is empty.

    Parameters
    ----------
    answers
        What `aggregate` returned, or a table for it; `reading` are its keywords then.
    target
        The chance of a wrong label that is small enough.
    price
        The price of one answer.
    budget
        What may be spent, in the unit of `price`.
    most
        An item that would need more further answers than this gets none.
    flagged
        Also ask spammers, adversaries and copies.

    >>> from wiesel.datasets import make_votes
    >>> answers = make_votes(200, 9, accuracies=[0.8] * 9, coverage=0.4)[0].to_long()
    >>> plan = ask_next(answers, item="item", worker="voter", label="label", price=0.05)
    >>> plan.n_answers > 0, plan.cost == 0.05 * plan.n_answers
    (True, True)
    >>> plan.table.frame.columns
    ['item', 'label', 'wrong', 'answers', 'further', 'wrong_after', 'ask']
    """
    asking = Asking(target, price, budget, most)
    found = answers if isinstance(answers, Aggregation) else aggregate(answers, **reading)
    if found.calibration is None:
        raise ParameterError(
            "What to ask next follows from calibrated confidences: aggregate with calibration, by "
            "dawid_skene, one_coin, mace or glad."
        )
    known = Answered(
        found.model,
        found.votes,
        found.model_proba,
        found.calibration,
        found.best_class,
        found.expected,
    )
    flags = found.worker_table.frame.filter(pl.col("flag") != "")["worker"]
    left_out = frozenset() if flagged else frozenset(flags)
    return plan_answers(known, asking, left_out, found.columns.item)


@dataclass(frozen=True, eq=False, repr=False)
class Aggregation:
    """Labels, workers and mistakes, as tables of the same type as the answers."""

    votes: VoteMatrix
    """The answers."""
    model: LabelModel
    """The fitted label model."""
    model_proba: npt.NDArray[np.float64]
    """P(class) of every item, as the model computes it."""
    calibration: Calibration | None
    """How confidences are reduced, because workers err together; None: they are not."""
    columns: AnswerColumns
    """Which column of the answers was used for what."""
    kind: str = "polars"
    label_dtype: Any = pl.String
    n_repeated: int = 0
    """Answers of workers to items that they answered before."""
    all_count: bool = True
    """Whether repeated answers count; otherwise one answer of each worker to an item does."""
    n_incomplete: int = 0
    """Rows without an item, a worker or an answer, which do not count."""
    n_rejected: int = 0
    """Rows of assignments that were rejected on MTurk, which do not count."""
    n_trimmed: int = 0
    """Rows with blanks around the item, the worker or the answer, which were removed."""
    timing: pl.DataFrame | None = None
    """The item, worker and label of every answer with its seconds or its time (`when`), as text and
    numbers, if the answers have such columns."""
    expected: npt.NDArray[np.float64] | None = None
    """P(class) of every item as its features tell, without its answers; None without features."""

    @cached_property
    def proba(self) -> npt.NDArray[np.float64]:
        """P(class) of every item, calibrated unless that was turned off."""
        if self.calibration is None:
            return self.model_proba
        return calibrated_proba(
            self.model, self.votes, self.model_proba, self.calibration, self.expected
        )

    @property
    def labels(self) -> Any:
        """A row per item: its label, confidence, number of answers, disagreement, and tie.

        Disagreement is the share of the answers that name another class than the most probable.
        A tie is the names of equally probable classes. A majority vote that ties has no label.

        Ordered classes also have the `median` class by their probabilities, and the `expected`
        number: of the classes if all are numbers, otherwise of their ranks from 1. Disagreement is
        then the mean distance of the answers from the label, as a share of the whole scale.
        """
        return self._as_input(self.label_frame)

    @property
    def workers(self) -> Any:
        """A row per worker, flagged ones first; see `wiesel.analysis.crowd.judge_workers`."""
        return self._as_input(self.worker_table.frame)

    @property
    def mistakes(self) -> Any:
        """A row per worker, true class and wrong answer: how often, the most frequent first."""
        return self._as_input(self.mistake_frame)

    @cached_property
    def label_frame(self) -> pl.DataFrame:
        """The labels as a Polars data frame."""
        best, covered = self.best_class, self.votes.covered
        counts = self.votes.counts()
        n_answers = np.rint(counts.sum(axis=1)).astype(np.int64)
        ranks = np.arange(self.votes.n_classes)
        apart = (ranks != best[:, None]).astype(np.float64)
        if self.votes.labels.ordered:
            apart = abs(ranks - best[:, None]) / ranks[-1]
        apart = (counts * apart).sum(axis=1) / np.maximum(n_answers, 1)
        names = pl.Series(self.votes.labels.names, dtype=pl.String).gather(best)
        known, labeled = pl.Series(covered), pl.Series(self.labeled)
        return pl.DataFrame(
            {
                self.columns.item: pl.Series(self.votes.ids.tolist()),
                self._free("label"): of_type(names, self.label_dtype).set(~labeled, None),
                self._free("confidence"): self.proba[np.arange(len(best)), best],
                **self._ordered_answers(),
                self._free("answers"): n_answers,
                self._free("disagreement"): apart,
                self._free("tie"): pl.Series(self._ties(), dtype=pl.String),
            }
        ).with_columns(
            pl.when(known).then(pl.col(name)).alias(name)
            for name in map(self._free, ("confidence", "disagreement"))
        )

    def _ordered_answers(self) -> dict[str, pl.Series]:
        """The median class and the expected number of every item, if the classes are ordered."""
        labels = self.votes.labels
        if not labels.ordered:
            return {}
        known = pl.Series(self.votes.covered)
        middle = (self.proba.cumsum(axis=1) < 0.5 - 1e-9).sum(axis=1)
        names = pl.Series(labels.names, dtype=pl.String).gather(middle)
        by_number = {index: number for number, index in labels.named_values.items()}
        values = [by_number.get(rank, rank + 1) for rank in range(len(labels))]
        expected = pl.Series(self.proba @ np.array(values, dtype=np.float64))
        return {
            self._free("median"): of_type(names, self.label_dtype).set(~known, None),
            self._free("expected"): expected.set(~known, None),
        }

    @cached_property
    def best_class(self) -> npt.NDArray[np.int64]:
        """The index of the most probable class of every item; Dawid-Skene decides ties."""
        return _best_class(self.votes, self._deciding)

    @property
    def _deciding(self) -> npt.NDArray[np.float64]:
        """P(class) that decides the labels: the model's own, if it could learn, and alone."""
        if self.calibration is None or not (self._few_compared or self.expected is not None):
            return self.model_proba
        return self.proba

    @property
    def _few_compared(self) -> bool:
        return comparable_answers(self.votes) < FEW_ANSWERS

    @property
    def decided_proba(self) -> npt.NDArray[np.float64]:
        """P(class), with the label of every item alone on top."""
        decided, place = self.proba.copy(), np.arange(len(self.proba))
        decided[place, self.best_class] = np.nextafter(decided.max(axis=1), 2)
        return decided

    @property
    def labeled(self) -> npt.NDArray[np.bool_]:
        """Which items have a label: those with answers, unless a majority vote is tied."""
        covered = self.votes.covered
        tied = _tied(self._deciding).sum(axis=1) > 1
        return covered & ~tied if isinstance(self.model, MajorityVote) else covered

    def _ties(self) -> list[str | None]:
        names, tied = np.array(self.votes.labels.names), _tied(self._deciding)
        several = self.votes.covered & (tied.sum(axis=1) > 1)
        return [
            ", ".join(names[row]) if tie else None for row, tie in zip(tied, several, strict=True)
        ]

    @property
    def n_answers(self) -> int:
        """The number of answers that count."""
        return self.votes.n_votes + self.n_repeated * self.all_count

    @cached_property
    def worker_table(self) -> Table:
        """The workers as a table that prints well, with pace and drift if there are times."""
        judged = judge_workers(
            self.model,
            self.votes,
            self.model_proba,
            calibration=self.calibration,
            expected=self.expected,
        )
        if self.timing is None:
            return judged
        pace = worker_pace(self._timed_answers(self.timing))
        frame = judged.frame.join(pace, on="worker", how="left", maintain_order="left")
        shown = {"pace": number("pace"), "drift": text("drift")}
        columns = [column for name, column in shown.items() if name in frame.columns]
        return replace(judged, frame=frame, columns=(*judged.columns, *columns))

    def _timed_answers(self, timing: pl.DataFrame) -> pl.DataFrame:
        """The answers with the probability that each is right."""
        ids = pl.Series(self.votes.ids.tolist()).cast(pl.String)
        place = pl.DataFrame({"item": ids, "row": np.arange(len(ids))})
        names = pl.DataFrame(
            {"label": self.votes.labels.names, "class": np.arange(self.votes.n_classes)}
        )
        known = timing.join(place, on="item", maintain_order="left")
        known = known.join(names, on="label", maintain_order="left")
        return known.with_columns(right=self.proba[known["row"], known["class"]])

    @cached_property
    def groups(self) -> pl.DataFrame:
        """A row per group of workers who answer alike; see `analysis.habits.worker_groups`."""
        return worker_groups(self.expected_answers, self.votes.voters)

    @cached_property
    def expected_answers(self) -> npt.NDArray[np.float64]:
        """The answers of each worker by true class, as far as the others' answers tell.

        (workers, true, answered), in the order of `votes.voters`; only items with other answers.
        """
        return expected_answers(self.model, self.votes, self.model_proba)

    def anonymous(self) -> "Aggregation":
        """Return the same with numbers in place of the workers' names, in no order."""
        names = self.votes.voters
        order = np.random.default_rng(len(names)).permutation(len(names))
        numbers = tuple(f"worker {place + 1}" for place in order)
        model = copy.copy(self.model)
        model.voters_ = numbers
        timing = self.timing
        if timing is not None:
            timing = timing.with_columns(pl.col("worker").replace_strict(names, numbers))
        return replace(self, votes=replace(self.votes, voters=numbers), model=model, timing=timing)

    @cached_property
    def agreement(self) -> Reliability:
        """Krippendorff's alpha, Fleiss' and Cohen's kappa; see `wiesel.analysis.reliability`."""
        return reliability(self.votes)

    @cached_property
    def mistake_frame(self) -> pl.DataFrame:
        """The mistakes as a Polars data frame."""
        return worker_mistakes(self.model, self.votes, self.model_proba)

    def class_shares(self) -> dict[str, float]:
        """Return the share of every class among the labels."""
        best = self.best_class[self.labeled]
        counts = np.bincount(best, minlength=self.votes.n_classes)
        return dict(zip(self.votes.labels.names, counts / max(1, len(best)), strict=True))

    def __str__(self) -> str:
        return "\n".join([*self._sentences(), "", self.worker_table.to_text()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_fragment("wiesel-aggregation", self._sentences(), self.worker_table)

    def _sentences(self) -> list[str]:
        votes = self.votes
        shares = ", ".join(
            f"{name} {100 * share:.1f} %" for name, share in self.class_shares().items()
        )
        lines = [
            f"{votes.n_items:,} items, {votes.n_voters:,} workers, {self.n_answers:,} answers "
            f"(columns {', '.join(self.columns)}), labeled by {type(self.model).__name__}",
            f"Labels: {shares}",
            self.agreement.sentence(),
        ]
        return [*lines, *self.notes()]

    def notes(self) -> list[str]:
        """Return sentences on answers left out, repeats, ties, and names spelled alike."""
        n, (item, worker, label) = self.n_incomplete, self.columns
        n_tied = int((self.votes.covered & ~self.labeled).sum())
        told = {
            f"Left out: {n:,} {_rows(n)} without {item}, {worker} or {label}": n,
            f"Left out: {self.n_rejected:,} {_rows(self.n_rejected)} of assignments that were "
            "rejected": self.n_rejected,
            f"Blanks around a {item}, {worker} or {label} were removed in {self.n_trimmed:,} "
            f"{_rows(self.n_trimmed)}": self.n_trimmed,
            f"Ties, which have no label: {n_tied:,} of {self.votes.n_items:,} items (column "
            f"{self._free('tie')})": n_tied,
        }
        return [
            *self._few_answers(),
            *self._of_features(),
            *self._repeats(),
            *(sentence for sentence, count in told.items() if count),
            *alike_names("classes", self.votes.labels),
            *alike_names("workers", self.votes.voters),
            *self._habits(),
        ]

    def _habits(self) -> list[str]:
        """Sentences on fast clickers, and on workers who get better or worse."""
        frame, found = self.worker_table.frame, []
        if "pace" in frame.columns:
            fast = frame.filter(pl.col("pace") < FAST)["worker"].to_list()
            found.append((fast, "in less than a third of the time that others take"))
        if "drift" in frame.columns:
            for word in ("worse", "better"):
                drifting = frame.filter(pl.col("drift") == word)["worker"].to_list()
                found.append((drifting, f"{word} in the second half of their answers"))
        return [
            f"{len(names):,} {'worker answers' if len(names) == 1 else 'workers answer'} {how}: "
            f"{listed(names, limit=5)}"
            for names, how in found
            if names
        ]

    def _few_answers(self) -> list[str]:
        if not self._few_compared or self.calibration is None:
            return []
        n = round(comparable_answers(self.votes))
        return [
            f"Too few answers can be compared ({n}) to know how good the workers are: confidences "
            f"mostly assume that {100 * ASSUMED_ACCURACY:.0f} % of the answers are right; ask "
            "several workers for each item"
        ]

    def _of_features(self) -> list[str]:
        if self.expected is None:
            return []
        known = self.votes.covered
        alike = (self.expected.argmax(axis=1) == self.best_class)[known].mean()
        changed = int((self.model_proba.argmax(axis=1) != self.best_class)[known].sum())
        return [
            "Features alone, in a model not trained on the item, say the label of "
            f"{100 * alike:.0f} % of the items; with the answers, they changed {changed:,} labels"
        ]

    def _repeats(self) -> list[str]:
        n = self.n_repeated
        if not n:
            return []
        if not self.all_count:
            return [f"Left out because the worker answered again: {n:,}"]
        return [
            f"{n:,} repeated answer{' counts' if n == 1 else 's count'}, too (of a worker to an "
            "item it answered before)"
        ]

    def _free(self, name: str) -> str:
        """A column name that differs from the name of the item column."""
        return f"{name}_" if name == self.columns.item else name

    def _as_input(self, frame: pl.DataFrame) -> Any:
        if self.kind != "pandas":
            return frame
        return sys.modules["pandas"].DataFrame(frame.to_dict(as_series=False))


def _rows(n: int) -> str:
    return "row" if n == 1 else "rows"


def _label_model(method: str | LabelModel) -> LabelModel:
    if isinstance(method, LabelModel):
        # A copy: the user's model stays unchanged.
        return type(method)(**method.get_params(deep=False))
    if method not in REGISTRY:
        raise ParameterError(f"There is no label model {method!r}. {suggest(method, REGISTRY)}")
    model: LabelModel = REGISTRY[method].cls()
    return model


def _expected(
    X: npt.NDArray[np.float32], votes: VoteMatrix, sure: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """P(class) of every item by linear models of the features that are not trained on it."""
    from wiesel.end_to_end.linear_models import held_out_proba  # torch takes a second to load
    from wiesel.training import as_inputs

    rows = np.flatnonzero(votes.covered)
    found = held_out_proba(as_inputs(X), rows, sure)
    if found is None:
        raise DataError("Ten items with answers are the fewest to learn from features; leave them.")
    expected = np.repeat(sure[rows].mean(axis=0, keepdims=True), votes.n_items, axis=0)
    expected[rows] = found
    return expected


def _tied(proba: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which classes of every item are the most probable one."""
    return proba >= proba.max(axis=1, keepdims=True) - 1e-6


def _best_class(votes: VoteMatrix, proba: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The most probable class of every item; ties are decided by Dawid-Skene.

    The first class would be favored otherwise, and lots ignore how reliable each worker is.
    """
    tied = _tied(proba)
    if not (tied[votes.covered].sum(axis=1) > 1).any():
        return proba.argmax(axis=1)
    with warnings.catch_warnings(action="ignore", category=WieselWarning):
        judged = DawidSkene(abstain_as_vote=False).fit(votes).predict_proba(votes)
    return np.where(tied, judged, -1.0).argmax(axis=1)
