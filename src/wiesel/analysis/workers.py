"""Crowd workers: a table with one row each, and their habits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.agreement import agreement
from wiesel.analysis.summary import FittedModel
from wiesel.analysis.table import Column, Table, count, number, percent, text
from wiesel.errors import ParameterError
from wiesel.labels import FloatArray, LabelSpace
from wiesel.scikit_learn import require_model
from wiesel.tables import as_frame, require_columns
from wiesel.threads import check_polars_threads
from wiesel.votes import VoteMatrix, require_votes

__all__ = [
    "FAST",
    "annotator_agreement",
    "confusion_reader",
    "label_disagreements",
    "rank_workers",
    "skill_of",
    "worker_groups",
    "worker_pace",
]

_UNINFORMATIVE = 0.05
_AGAINST = -0.1
_NUMBERS_AT_ONCE = 2**22
FAST = 1 / 3
"""A fast clicker takes less than this share of the time of others for the same items."""

LEAST_TIMED = 10
"""Pace and drift are known from so many answers on; drift needs as many in each half."""

DRIFT, FALSE_ALARM = 0.1, 0.01
"""A drift is a change of accuracy by at least this, which is chance in one of a hundred tables."""

LEAST_GROUPED, MOST_GROUPED = 20, 2000
"""Workers with fewer answers are in no group; of more workers, those with most answers are."""

APART = 0.3
"""Workers of a group are closer than this: the mean Hellinger distance of their confusions."""


def rank_workers(
    model: FittedModel, votes: VoteMatrix | None = None, *, least_answers: int = 5
) -> Table:
    """Return a row per voter, best first, with flags for spammers and adversaries.

    It uses the confusion matrices of a fitted model: `DawidSkene`, `OneCoin`, `Snorkel`, or a
    crowd method such as `Raykar` or `CrowdLayer`. `accuracy` is P(correct | votes). `skill` is how
    much more often the voter votes for a class when it is true than when it is not, averaged over
    classes: 1 is perfect, 0 is guessing, negative is against the truth. `informativeness` is how
    much the votes depend on the truth at all (Raykar and Yu 2012): 0 for a spammer, 1 for a voter
    whose votes determine the class, even if they name a different one.

    A spammer's votes are uninformative; an adversary's are systematically wrong. With `votes`,
    voters with fewer than `least_answers` votes are never flagged, and those without votes have no
    values.

    >>> from wiesel.label_models import DawidSkene
    >>> from wiesel.datasets.synthetic import make_votes
    >>> votes, _ = make_votes(300, 4, accuracies=[0.9, 0.85, 0.5, 0.2], coverage=1.0)
    >>> ranked = rank_workers(DawidSkene().fit(votes), votes)
    >>> ranked.frame.select("voter", "flag").rows()
    [('voter_0', ''), ('voter_1', ''), ('voter_2', 'spammer'), ('voter_3', 'adversary')]
    """
    check_polars_threads("rank_workers")
    require_model(model, "model")
    n_voters = len(model.voters_)
    answers = None
    if votes is not None:
        require_votes(votes)
        votes.check_same_voters(model.voters_, model.labels_)
        answers = np.bincount(votes.voter_index, minlength=n_voters)
    balance = getattr(model, "class_balance_", None)
    at_once = max(1, _NUMBERS_AT_ONCE // len(model.labels_) ** 2)
    measures = _measures(confusion_reader(model), n_voters, at_once, balance)
    frame = _frame(model.voters_, answers, measures, least_answers)
    columns: list[Column] = [text("voter")]
    columns += [count("answers")] if answers is not None else []
    columns += [percent("accuracy"), number("skill"), number("informativeness"), text("flag")]
    return Table(frame, tuple(columns))


def confusion_reader(model: FittedModel) -> Callable[[int, int], FloatArray]:
    """Return a function that maps a range of voters to their confusions (n, true, voted)."""
    confusions: Any = getattr(model, "confusions", None)
    if callable(confusions):
        return lambda start, stop: confusions(model.voters_[start:stop])
    n_classes = len(model.labels_)
    stored = getattr(model, "confusions_", None)
    if stored is not None:
        return lambda start, stop: _rows_sum_to_one(stored[start:stop, :, :n_classes])
    accuracies = getattr(model, "accuracies_", None)
    if isinstance(accuracies, np.ndarray) and accuracies.shape == (len(model.voters_),):
        return lambda start, stop: _one_coin(accuracies[start:stop], n_classes)
    raise ParameterError(
        f"{type(model).__name__} does not learn how good each voter is. Rank workers by "
        "DawidSkene, OneCoin, Snorkel, or a method for crowds such as Raykar or CrowdLayer."
    )


def _measures(
    read: Callable[[int, int], FloatArray],
    n_voters: int,
    at_once: int,
    balance: FloatArray | None,
) -> npt.NDArray[np.float64]:
    """Accuracy, skill and informativeness of each voter: (3, n_voters)."""
    found = [np.empty((3, 0))]
    for start in range(0, n_voters, at_once):
        confusions = read(start, min(start + at_once, n_voters))
        found.append(np.stack([_accuracy(confusions, balance), *skill_of(confusions)]))
    return np.concatenate(found, axis=1)


def _accuracy(confusions: FloatArray, balance: FloatArray | None) -> npt.NDArray[np.float64]:
    diagonal = np.einsum("jcc->jc", confusions)
    return diagonal.mean(axis=1) if balance is None else diagonal @ balance


def skill_of(confusions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return skill and informativeness of confusions (n, true, voted); see `rank_workers`.

    >>> skill_of(np.eye(2)[None])
    (array([1.]), array([1.]))
    """
    n_classes = confusions.shape[1]
    right = np.einsum("jcc->j", confusions) / n_classes
    elsewhere = (confusions.sum(axis=(1, 2)) / n_classes - right) / (n_classes - 1)
    # The mean over pairs of classes of |row - row|^2 / 2, computed from sums over classes.
    squares = n_classes * np.square(confusions).sum(axis=(1, 2))
    squares -= np.square(confusions.sum(axis=1)).sum(axis=1)
    return right - elsewhere, squares / (n_classes * (n_classes - 1))


def _frame(
    voters: tuple[str, ...],
    answers: npt.NDArray[np.int64] | None,
    measures: npt.NDArray[np.float64],
    least_answers: int,
) -> pl.DataFrame:
    accuracy, skill, informativeness = measures
    known = np.ones(len(voters), dtype=bool) if answers is None else answers > 0
    enough = known if answers is None else known & (answers >= least_answers)
    adversary = enough & (skill < _AGAINST)
    spammer = enough & ~adversary & (informativeness < _UNINFORMATIVE)
    columns: dict[str, Any] = {"voter": pl.Series(voters, dtype=pl.String)}
    if answers is not None:
        columns["answers"] = answers
    columns |= {
        "accuracy": _where(accuracy, known),
        "skill": _where(skill, known),
        "informativeness": _where(informativeness, known),
        "spammer": spammer,
        "adversary": adversary,
    }
    is_adversary = pl.when("adversary").then(pl.lit("adversary"))
    flag = is_adversary.when("spammer").then(pl.lit("spammer")).otherwise(pl.lit(""))
    frame = pl.DataFrame(columns).with_columns(flag=flag)
    return frame.sort("skill", descending=True, nulls_last=True, maintain_order=True)


def _where(values: npt.NDArray[np.float64], known: npt.NDArray[np.bool_]) -> pl.Series:
    return pl.Series(np.where(known, values, np.nan)).fill_nan(None)


def _rows_sum_to_one(confusions: FloatArray) -> npt.NDArray[np.float64]:
    # A model that treats abstentions as votes has an additional column for them.
    return confusions / np.maximum(confusions.sum(axis=2, keepdims=True), 1e-300)


def _one_coin(accuracies: FloatArray, n_classes: int) -> npt.NDArray[np.float64]:
    right = np.eye(n_classes)
    wrong = (1 - accuracies[:, None, None]) / (n_classes - 1)
    return accuracies[:, None, None] * right + wrong * (1 - right)


def annotator_agreement(answers: Any, labels: LabelSpace) -> Table:
    """Return a row per pair of people who labeled the same items, with agreement and kappa.

    `answers` has the columns item, person and label, as returned by `LabelStore.answers()`.

    >>> answers = {"item": ["a", "a", "b", "b"], "person": ["ada", "bob"] * 2,
    ...            "label": ["ham", "ham", "spam", "ham"]}
    >>> print(annotator_agreement(answers, LabelSpace("ham", "spam")).to_text(width=60))
    2 people labeled; 1 pair labeled a common item
     first   second   both   agreement   kappa
    ───────────────────────────────────────────
     ada     bob         2      50.0 %    0.00
    """
    votes = _as_votes(answers, labels)
    columns = (text("first"), text("second"), count("both"), percent("agreement"), number("kappa"))
    if votes is None or votes.n_voters < 2:
        n_people = 0 if votes is None else votes.n_voters
        frame = pl.DataFrame(schema=dict.fromkeys(("first", "second", "both"), pl.String))
        people = "one person has labeled" if n_people else "nobody has labeled yet"
        return Table(frame, columns[:3], f"{people}; agreement needs two people")
    frame = agreement(votes).frame.select("first", "second", "both", "agreement", "kappa")
    pairs = "1 pair" if len(frame) == 1 else f"{len(frame)} pairs"
    return Table(frame, columns, f"{votes.n_voters} people labeled; {pairs} labeled a common item")


def label_disagreements(answers: Any) -> pl.DataFrame:
    """Return the items to which people gave different labels, with each person's label.

    >>> answers = {"item": ["a", "a", "b"], "person": ["ada", "bob", "ada"],
    ...            "label": ["ham", "spam", "ham"]}
    >>> label_disagreements(answers).to_dicts()
    [{'item': 'a', 'answers': ['ada: ham', 'bob: spam']}]
    """
    frame = _answers_table(answers)
    by_person = pl.concat_str(pl.col("person"), pl.lit(": "), pl.col("label")).alias("answers")
    grouped = frame.group_by("item", maintain_order=True).agg(by_person, pl.col("label").n_unique())
    return grouped.filter(pl.col("label") > 1).select("item", "answers")


def _answers_table(answers: Any) -> pl.DataFrame:
    frame = as_frame(answers)
    require_columns(frame, ("item", "person", "label"), "of the answers")
    return frame.filter(pl.col("label").is_not_null())


def _as_votes(answers: Any, labels: LabelSpace) -> VoteMatrix | None:
    frame = _answers_table(answers)
    if not len(frame):
        return None
    return VoteMatrix.from_long(frame, item="item", voter="person", label="label", labels=labels)


def worker_pace(answers: pl.DataFrame) -> pl.DataFrame:
    """Return a row per worker: seconds, pace, early, late and drift; null if unknown.

    `answers` has the columns item, worker, right (the probability that the answer is right), and
    seconds, when, or both. `seconds` is the median time of an answer, and `pace` the median of its
    share of the item's median time: 0.2 is five times as fast as others. `early` and `late` are
    the accuracies in the first and second half of a worker's answers by `when`; `drift` is
    "better" or "worse" if they differ by more than chance explains.

    >>> rows = {"item": [k // 2 for k in range(40)], "worker": ["ann", "bob"] * 20,
    ...         "right": [0.9, 0.4] * 20, "seconds": [30.0, 2.0] * 20}
    >>> worker_pace(pl.DataFrame(rows)).select("worker", "seconds", "pace").rows()
    [('ann', 30.0, 1.875), ('bob', 2.0, 0.125)]
    """
    found = answers.select(pl.col("worker").unique(maintain_order=True))
    if "seconds" in answers.columns:
        timed = answers.drop_nulls("seconds").filter(pl.col("seconds") >= 0)
        usual = pl.col("seconds").median().over("item")
        pace = pl.when(usual > 0).then(pl.col("seconds") / usual)
        by_worker = timed.with_columns(pace=pace).group_by("worker", maintain_order=True)
        enough = pl.len() >= LEAST_TIMED
        own = by_worker.agg(
            seconds=pl.when(enough).then(pl.col("seconds").median()),
            pace=pl.when(enough).then(pl.col("pace").median()),
        )
        found = found.join(own, on="worker", how="left", maintain_order="left")
    if "when" in answers.columns:
        own = _drift(answers.drop_nulls("when").sort("when", maintain_order=True))
        found = found.join(own, on="worker", how="left", maintain_order="left")
    return found


def _drift(answers: pl.DataFrame) -> pl.DataFrame:
    place, n = pl.int_range(pl.len()).over("worker"), pl.len().over("worker")
    halves = answers.with_columns(late=place >= n // 2).filter(n >= 2 * LEAST_TIMED)
    right = pl.col("right")
    parts = {"early": right.filter(~pl.col("late")), "late": right.filter(pl.col("late"))}
    own = halves.group_by("worker", maintain_order=True).agg(
        *(part.mean().alias(name) for name, part in parts.items()),
        error=pl.sum_horizontal(part.var() / part.len() for part in parts.values()).sqrt(),
    )
    from scipy.special import ndtri  # `scipy.stats` is slow to load

    change = pl.col("late") - pl.col("early")
    # Of all workers together, one of a hundred tables shows a drift where there is none.
    bound = float(-ndtri(FALSE_ALARM / 2 / max(1, len(own))))
    is_drift = (change.abs() >= DRIFT) & (change.abs() > bound * pl.col("error"))
    words = pl.when(change > 0).then(pl.lit("better")).otherwise(pl.lit("worse"))
    return own.with_columns(drift=pl.when(is_drift).then(words)).drop("error")


def worker_groups(counts: FloatArray, names: Any) -> pl.DataFrame:
    """Return a row per group of workers who answer alike, the largest first.

    `counts` are the expected answers of each worker by true class (workers, true, answered).
    Workers are clustered by average linkage on the Hellinger distance of their confusions, which
    are shrunk toward those of all. A row has the workers, their number, answers, accuracy and
    skill, and the most frequent mistake of the group with its share of that class's answers.

    >>> good, swaps = 20 * np.eye(2), 20 * np.eye(2)[::-1]
    >>> found = worker_groups(np.stack([good, good, swaps]), ["ann", "bob", "eve"])
    >>> found.select("workers", "accuracy").rows()
    [(['ann', 'bob'], 1.0), (['eve'], 0.0)]
    """
    totals = counts.sum(axis=(1, 2))
    chosen = np.flatnonzero(totals >= LEAST_GROUPED)
    chosen = np.sort(chosen[np.argsort(-totals[chosen], kind="stable")[:MOST_GROUPED]])
    rows: list[dict[str, Any]] = []
    for group in _clusters(counts[chosen]):
        members = chosen[group]
        pooled = counts[members].sum(axis=0)
        shares = pooled / np.maximum(pooled.sum(axis=1, keepdims=True), 1e-300)
        wrong = np.where(np.eye(len(pooled), dtype=bool), -1.0, pooled)
        true, answered = divmod(int(wrong.argmax()), len(pooled))
        known = shares + (pooled.sum(axis=1, keepdims=True) == 0) / len(pooled)
        rows.append(
            {
                "workers": [names[member] for member in members],
                "n_workers": len(members),
                "answers": round(float(totals[members].sum())),
                "accuracy": float(np.trace(pooled) / pooled.sum()),
                "skill": float(skill_of(known[None])[0][0]),
                "true": true if wrong.max() > 0 else None,
                "answered": answered if wrong.max() > 0 else None,
                "share": float(shares[true, answered]) if wrong.max() > 0 else None,
                "confusion": shares.tolist(),
            }
        )
    schema: dict[str, Any] = {
        "workers": pl.List(pl.String),
        "n_workers": pl.Int64,
        "answers": pl.Int64,
        "accuracy": pl.Float64,
        "skill": pl.Float64,
        "true": pl.Int64,
        "answered": pl.Int64,
        "share": pl.Float64,
        "confusion": pl.List(pl.List(pl.Float64)),
    }
    frame = pl.DataFrame(rows, schema=schema)
    return frame.sort("n_workers", "answers", descending=True, maintain_order=True)


def _clusters(counts: FloatArray) -> list[npt.NDArray[np.int64]]:
    """The places of the workers of every cluster."""
    if len(counts) < 2:
        return [np.arange(len(counts))] if len(counts) else []
    from scipy.cluster.hierarchy import fcluster, linkage

    pooled = counts.sum(axis=0) + 1e-9
    typical = pooled / pooled.sum(axis=1, keepdims=True)
    confusions = counts + 2 * typical
    confusions /= confusions.sum(axis=2, keepdims=True)
    # Distances count by how often a class is true; each is at most one.
    balance = np.sqrt(pooled.sum(axis=1) / pooled.sum() / 2)
    places = (np.sqrt(confusions) * balance[:, None]).reshape(len(counts), -1)
    found = fcluster(linkage(places, "average"), APART, "distance")
    return [np.flatnonzero(found == number) for number in np.unique(found)]
