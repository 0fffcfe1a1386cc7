"""Worker quality, judged by the other workers' answers: accuracy, flags and mistakes.

A worker's answer is compared with P(class | the other answers), so that no answer confirms itself.
With a fitted model's P(class | all answers) and its P(answer | class) for the worker,

    P(class | the others) ~ P(class | all) / P(answer | class)

and for a majority vote, the worker's answer is subtracted from the vote counts.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.agreement import pair_counts
from wiesel.analysis.summary import ratio, wilson_interval
from wiesel.analysis.table import Table, count, interval, number, percent, text
from wiesel.analysis.workers import confusion_reader, skill_of
from wiesel.errors import ParameterError
from wiesel.label_models.confidence import (
    DEPENDENCE,
    DEPENDENCE_RANGE,
    Calibration,
    calibrated_proba,
)
from wiesel.labels import FloatArray
from wiesel.threads import check_polars_threads
from wiesel.votes import VoteMatrix

__all__ = ["expected_answers", "judge_workers", "worker_mistakes"]

NUMBERS_AT_ONCE = 2**22
LEAST_LIKELIHOOD = 0.02
"""The minimum P(answer | class) to divide by; smaller values would amplify noise."""

SPAM_MARGIN = 0.1
"""A spammer's accuracy is at most this share of the way from random answers to 1."""

DECENT = 0.5
"""The 95 % interval of a spammer's accuracy ends below this share of the same gap. With only 16
answers, all for the common class, a good worker looks like a spammer, so none is flagged."""

COPIED = 0.95
COPY_ITEMS = 20
COPY_MARGIN = 0.1
"""Copies share at least twenty items and agree on 95 % of them, ten percentage points more than
independent workers with the same accuracy would. They also share their mistakes."""

HARD_ITEMS = 0.5
"""Honest workers make the same mistake on up to half of the items on which either makes one,
because some items mislead everybody."""

CLEAR_LEAD = 2
"""The other workers' answers to an item count only if one class leads by this many votes."""

FALSE_ALARM = 0.01
"""The probability that any worker is flagged as a copy by chance."""

MOST_PAIRS = 5_000_000
"""The maximum number of pairs of answers to the same tasks; beyond it, copies are not searched."""


class Judged(NamedTuple):
    """Expected answers of each worker by true class, over items that others answered too."""

    right: npt.NDArray[np.float64]
    counted: npt.NDArray[np.int64]
    luck: npt.NDArray[np.float64]
    """The expected correct answers if the worker gave the same answers at random."""
    skill: FloatArray
    informativeness: FloatArray


def judge_workers(
    model: Any,
    votes: VoteMatrix,
    proba: FloatArray,
    *,
    least_answers: int = 10,
    calibration: Calibration | None = None,
    expected: npt.NDArray[np.float64] | None = None,
) -> Table:
    """Return a row per worker, flagged ones first, then best first.

    `accuracy` is how often the other workers confirm a worker's answers, with a 95 % interval. With
    a `dependence` (`wiesel.label_models.confidence`), it is how often a worker is right, and the
    interval covers what is not known about the labels, too (`expected` is what features tell about
    them). `luck` is the accuracy of the same
    answers given at random. An `adversary` is clearly worse than that, a `spammer` no better, and a
    `copy` answers like another worker, mistakes included.
    Workers are flagged only on evidence: never with fewer than `least_answers`, and as spammers
    only if the interval also excludes a decent worker.

    >>> from wiesel import DawidSkene
    >>> from wiesel.datasets.synthetic import make_votes
    >>> votes, _ = make_votes(300, 5, accuracies=[0.9, 0.85, 0.8, 0.5, 0.1], coverage=1.0)
    >>> model = DawidSkene().fit(votes)
    >>> found = judge_workers(model, votes, model.predict_proba(votes)).frame
    >>> found.select("worker", "flag").head(2).rows()
    [('voter_4', 'adversary'), ('voter_3', 'spammer')]
    """
    check_polars_threads("judge_workers")
    judged = _judge(model, votes, proba)
    accuracy: FloatArray = ratio(judged.right, judged.counted)  # type: ignore[arg-type]
    low, high = wilson_interval(judged.right, judged.counted)
    enough = judged.counted >= least_answers
    adversary = enough & (high < judged.luck)
    near_luck = judged.luck + SPAM_MARGIN * (1 - judged.luck)
    excluded = high < judged.luck + DECENT * (1 - judged.luck)
    spammer = enough & ~adversary & (accuracy <= near_luck) & excluded
    copies = _copies(votes, np.where(enough, accuracy, np.nan))
    if calibration is not None:
        accuracy, low, high = _calibrated_accuracy(model, votes, proba, calibration, expected)
    frame = pl.DataFrame(
        {
            "worker": pl.Series(votes.voters, dtype=pl.String),
            "answers": _number_of_answers(votes),
            "accuracy": accuracy,
            "low": low,
            "high": high,
            "luck": judged.luck,
            "skill": judged.skill,
            "informativeness": judged.informativeness,
            "flag": _flags(adversary, spammer, copies),
            "copy_of": pl.Series(copies, dtype=pl.List(pl.String)),
        }
    ).with_columns(pl.col(pl.Float64).fill_nan(None))
    order = pl.col("flag").replace_strict(_ORDER, return_dtype=pl.Int64)
    frame = frame.sort(order, -pl.col("skill"), nulls_last=True, maintain_order=True)
    n_flagged = int((frame["flag"] != "").sum())
    workers = "1 worker" if len(frame) == 1 else f"{len(frame):,} workers"
    caption = f"{workers}, {n_flagged:,} of them flagged"
    return Table(frame, _COLUMNS, caption, limit=20)


def _calibrated_accuracy(
    model: Any,
    votes: VoteMatrix,
    proba: FloatArray,
    calibration: Calibration,
    expected: npt.NDArray[np.float64] | None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How often workers are right, and an interval over the dependence of real crowds."""
    entries = np.flatnonzero(votes.votes_per_item[votes.item_index] > 1)
    given = _answers(votes, entries)
    item = votes.item_index[entries[given.vote]]
    voter = votes.voter_index[entries[given.vote]]
    times = given.times.astype(np.float64)
    total = np.rint(np.bincount(voter, times, minlength=votes.n_voters)).astype(np.int64)
    ends = []
    for depends in (DEPENDENCE_RANGE[0], DEPENDENCE, DEPENDENCE_RANGE[1]):
        reduced = calibration._replace(dependence=depends)
        known = calibrated_proba(model, votes, proba, reduced, expected)
        right = np.bincount(voter, times * known[item, given.answered], minlength=votes.n_voters)
        ends.append(np.minimum(right.astype(np.float64), total))
    low, _ = wilson_interval(np.min(ends, axis=0), total)
    _, high = wilson_interval(np.max(ends, axis=0), total)
    return ratio(ends[1], total), low, high


_ORDER = {"adversary": 0, "spammer": 1, "copy": 2, "": 3}
_COLUMNS = (
    text("worker"),
    count("answers"),
    interval("accuracy", "low", "high", "accuracy (95 %)"),
    percent("luck", "by chance"),
    number("skill"),
    text("flag"),
    text("copy_of", "copy of"),
)


def worker_mistakes(
    model: Any, votes: VoteMatrix, proba: FloatArray, *, least: float = 0.5
) -> pl.DataFrame:
    """Return the mistakes of each worker: worker, true, answered, times, share.

    `times` is the expected number of such answers; `share` is their share of the worker's answers
    to items of the true class. The most frequent mistakes come first.
    """
    rows: list[pl.DataFrame] = []
    names = np.array(votes.labels.names, dtype=object)
    for block, counts in _expected_answers(model, votes, proba):
        share = ratio(counts, np.maximum(counts.sum(axis=2, keepdims=True), 1e-300))  # type: ignore[arg-type]
        wrong = counts * ~np.eye(votes.n_classes, dtype=bool) >= least
        voter, true, answered = np.nonzero(wrong)
        rows.append(
            pl.DataFrame(
                {
                    "worker": pl.Series(
                        [votes.voters[block.start + j] for j in voter], dtype=pl.String
                    ),
                    "true": pl.Series(names[true].tolist(), dtype=pl.String),
                    "answered": pl.Series(names[answered].tolist(), dtype=pl.String),
                    "times": counts[wrong],
                    "share": share[wrong],
                }
            )
        )
    return pl.concat(rows).sort("times", descending=True, maintain_order=True)


def expected_answers(model: Any, votes: VoteMatrix, proba: FloatArray) -> npt.NDArray[np.float64]:
    """Return the expected answers of each worker by true class, judged by the others' answers.

    (workers, true, answered); only answers to items that others answered, too.
    """
    return np.concatenate([counts for _, counts in _expected_answers(model, votes, proba)])


def _number_of_answers(votes: VoteMatrix) -> npt.NDArray[np.int64]:
    times = None if votes.distribution is None else votes.distribution.sum(axis=1)
    counts = np.bincount(votes.voter_index, times, minlength=votes.n_voters)
    return np.rint(counts).astype(np.int64)


def _judge(model: Any, votes: VoteMatrix, proba: FloatArray) -> Judged:
    parts = []
    for _, counts in _expected_answers(model, votes, proba):
        right = np.einsum("jcc->j", counts)
        total = counts.sum(axis=(1, 2))
        truth, answered = counts.sum(axis=2), counts.sum(axis=1)
        luck = ratio((truth * answered).sum(axis=1), np.square(total))
        pooled = counts + 0.5 / votes.n_classes
        skill, informativeness = skill_of(pooled / pooled.sum(axis=2, keepdims=True))
        unknown = np.where(total > 0, 0.0, np.nan)
        parts.append((right, total, luck, skill + unknown, informativeness + unknown))
    right, total, luck, skill, informativeness = map(np.concatenate, zip(*parts, strict=True))
    counted = np.rint(total).astype(np.int64)
    return Judged(np.minimum(right, counted), counted, luck, skill, informativeness)


class _Answers(NamedTuple):
    """The answers in some votes: several if a worker answered an item repeatedly."""

    vote: npt.NDArray[np.int64]
    """The position of each answer's vote among these votes."""
    answered: npt.NDArray[np.integer[Any]]
    times: npt.NDArray[np.float32]


def _answers(votes: VoteMatrix, entries: npt.NDArray[np.int64]) -> _Answers:
    if votes.distribution is None:
        n = len(entries)
        return _Answers(np.arange(n), votes.class_index[entries], np.ones(n, np.float32))
    rows = votes.distribution[entries]
    vote, answered = np.nonzero(rows)
    return _Answers(vote, answered, rows[vote, answered])


def _expected_answers(
    model: Any, votes: VoteMatrix, proba: FloatArray
) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
    """Yield workers and their expected answers (n, true, answered), judged by the others."""
    others = _others(model, votes, proba)
    n_classes = votes.n_classes
    step = max(1, NUMBERS_AT_ONCE // n_classes**2)
    order = np.argsort(votes.voter_index, kind="stable")
    shared = order[(votes.votes_per_item > 1)[votes.item_index[order]]]
    voter = votes.voter_index[shared]
    for start in range(0, votes.n_voters, step):
        block = slice(start, min(start + step, votes.n_voters))
        first, last = np.searchsorted(voter, (block.start, block.stop))
        entries = shared[first:last]
        given = _answers(votes, entries)
        counts = np.zeros(((block.stop - block.start) * n_classes, n_classes))
        worker = votes.voter_index[entries[given.vote]] - start
        truth = others(block, entries, given)[given.vote]
        np.add.at(counts, worker * n_classes + given.answered, given.times[:, None] * truth)
        by_answer = counts.reshape(-1, n_classes, n_classes)
        yield block, by_answer.transpose(0, 2, 1)


def _others(
    model: Any, votes: VoteMatrix, proba: FloatArray
) -> Callable[[slice, npt.NDArray[np.int64], _Answers], npt.NDArray[np.float64]]:
    """A function that maps some votes to P(class | the other votes on their items)."""
    item = votes.item_index
    try:
        read = confusion_reader(model)
    except ParameterError:
        counts = votes.counts()

        def without_own(
            _: slice, entries: npt.NDArray[np.int64], given: _Answers
        ) -> npt.NDArray[np.float64]:
            left = counts[item[entries]]
            left[given.vote, given.answered] -= given.times
            # The majority of the others counts as the truth; ties are shared.
            best = left >= left.max(axis=1, keepdims=True) - 1e-9
            return best / best.sum(axis=1, keepdims=True)

        return without_own

    def taken_back(
        block: slice, entries: npt.NDArray[np.int64], given: _Answers
    ) -> npt.NDArray[np.float64]:
        confusions = np.maximum(read(block.start, block.stop), LEAST_LIKELIHOOD)
        worker = votes.voter_index[entries[given.vote]] - block.start
        own = np.ones((len(entries), votes.n_classes))
        likelihood = confusions[worker, :, given.answered] ** given.times[:, None]
        np.multiply.at(own, given.vote, likelihood)
        left = np.maximum(proba[item[entries]], 1e-300) / own
        normal: npt.NDArray[np.float64] = left / left.sum(axis=1, keepdims=True)
        return normal

    return taken_back


def _copies(votes: VoteMatrix, accuracy: FloatArray) -> list[list[str]]:
    """For each worker, the workers it resembles more than their accuracies explain."""
    from scipy.special import bdtrc  # the tail of a binomial; `scipy.stats` is slow to load

    copies: list[list[str]] = [[] for _ in votes.voters]
    if float(np.square(votes.votes_per_item.astype(np.float64)).sum()) > MOST_PAIRS * 10:
        return copies
    pairs = pair_counts(votes)
    a, b = accuracy[pairs.first], accuracy[pairs.second]
    explained = a * b + (1 - a) * (1 - b) / max(1, votes.n_classes - 1)
    rate = pairs.agree / pairs.both
    low, _ = wilson_interval(pairs.agree, pairs.both)
    alike = (pairs.both >= COPY_ITEMS) & (rate >= COPIED)
    alike &= np.nan_to_num(low - explained, nan=-1.0) > COPY_MARGIN
    suspects = list(zip(pairs.first[alike].tolist(), pairs.second[alike].tolist(), strict=True))
    for first, second in suspects:
        shared, mistakes = _shared_mistakes(votes, first, second)
        if bdtrc(shared - 1, mistakes, HARD_ITEMS) < FALSE_ALARM / len(suspects):
            copies[first].append(votes.voters[second])
            copies[second].append(votes.voters[first])
    return copies


def _shared_mistakes(votes: VoteMatrix, first: int, second: int) -> tuple[int, int]:
    """How often both make the same mistake, and how often either makes one.

    A mistake is an answer that differs from most other workers' answers. Good workers agree
    because they are correct; only copies also agree on their mistakes, again and again.
    """
    entries = [np.flatnonzero(votes.voter_index == voter) for voter in (first, second)]
    items = [votes.item_index[each] for each in entries]
    both, *places = np.intersect1d(items[0], items[1], assume_unique=True, return_indices=True)
    both_answers = [
        votes.class_index[own[place]] for own, place in zip(entries, places, strict=True)
    ]
    counts = votes[both].counts()
    rows = np.arange(len(both))
    for answers in both_answers:
        counts[rows, answers] -= 1
    ordered = np.sort(counts, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] >= CLEAR_LEAD
    favorite = counts.argmax(axis=1)
    wrong = [clear & (answers != favorite) for answers in both_answers]
    alike = wrong[0] & (both_answers[0] == both_answers[1])
    return int(alike.sum()), int((wrong[0] | wrong[1]).sum())


def _flags(
    adversary: npt.NDArray[np.bool_], spammer: npt.NDArray[np.bool_], copies: list[list[str]]
) -> pl.Series:
    copied = np.array([bool(names) for names in copies])
    chosen = np.select([adversary, spammer, copied], ["adversary", "spammer", "copy"], "")
    return pl.Series(chosen.tolist(), dtype=pl.String)
