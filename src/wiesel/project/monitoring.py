"""Whether new rows look like those of training: features, predictions, confidence, functions.

Each check is a test of two samples. All tests of a report together raise a false alarm in at most
`level` of the reports: the level is divided among the groups of checks, and Holm's method is used
in each group.
"""

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.summary import wilson_interval
from wiesel.errors import DataError, SavedModelError, listed
from wiesel.features.tfidf import count_terms, count_words
from wiesel.labels import ABSTAIN
from wiesel.project.bundle import Bundle
from wiesel.project.predicting import predict_table
from wiesel.project.rows import row_keys, row_marks
from wiesel.project.training import TrainingSet
from wiesel.report.charts import TableColumn, sortable_table
from wiesel.report.sections import whole_page
from wiesel.votes import VoteMatrix

__all__ = [
    "DRIFT",
    "Check",
    "Drift",
    "learned_marks",
    "learned_rows",
    "monitor",
    "reference_statistics",
    "run_reference",
]

DRIFT = 3
"""The exit code if the rows have changed."""
_FORMAT = 1
_KEPT_VALUES = 2_000
_MOST_ROWS = 100_000
"""Of more training rows, so many evenly spaced ones are described."""
_MOST_MARKS = 200_000
"""Of more training rows, a random part is kept: 2 MB."""
_TERMS = 300
_LEAST_TEXTS = 5
_MANY = 100
"""Counts from which the normal approximation is used instead of Fisher's exact test."""
_WORD, _TERM = re.compile(r"\w+"), re.compile(r"\w\w+")
_SHOWN = 20
_GROUPS = ("features", "predictions", "confidence", "functions", "accuracy")

Values = npt.NDArray[np.float64]
Share = tuple[int, int]
"""How many of how many."""
Measures = dict[tuple[str, str], Values | Share]
"""What was measured, by group and name: a number for each row, or a share of the rows."""


@dataclass(frozen=True)
class Check:
    """One figure of the training rows and of the new rows, and whether it has changed."""

    group: str
    name: str
    before: float
    """The mean, or the share, in training."""
    after: float
    change: float
    """The largest difference of the distributions, or the difference of the shares."""
    p_value: float
    alarm: bool = False


@dataclass(frozen=True)
class Drift:
    """What has changed between training and new rows."""

    n_items: int
    checks: tuple[Check, ...]
    level: float
    notes: tuple[str, ...] = ()
    accuracy: Mapping[str, Any] = field(default_factory=dict)
    """With gold labels: the accuracy, its interval, and the accuracy at training."""

    @property
    def alarms(self) -> tuple[Check, ...]:
        """The checks that found a change, the largest first."""
        found = [check for check in self.checks if check.alarm]
        return tuple(sorted(found, key=lambda check: -abs(check.change)))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "n_items": self.n_items,
            "drift": bool(self.alarms),
            "level": self.level,
            "accuracy": dict(self.accuracy),
            "alarms": [asdict(check) for check in self.alarms],
            "checks": [asdict(check) for check in self.checks],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        head = (
            f"{len(self.alarms)} of {len(self.checks)} checks found a change in {self.n_items:,} "
            f"rows (at most {100 * self.level:.0f} % false alarms)."
        )
        shown = self.alarms[:_SHOWN]
        width = max((len(check.name) for check in shown), default=0)
        lines = [
            f"  {check.group:<11}  {check.name:<{width}}  {check.before:.4g} -> {check.after:.4g}"
            for check in shown
        ]
        if self.accuracy:
            lines.append(_accuracy_text(self.accuracy))
        return "\n".join([head, *lines, *self.notes])

    def to_html(self) -> str:
        """Return a page with all checks."""
        columns = [
            TableColumn("group", lambda row: escape(row["group"])),
            TableColumn("figure", lambda row: escape(row["name"])),
            TableColumn("training", lambda row: f"{row['before']:.4g}", lambda row: row["before"]),
            TableColumn("now", lambda row: f"{row['after']:.4g}", lambda row: row["after"]),
            TableColumn("change", lambda row: f"{row['change']:+.3f}", lambda row: row["change"]),
            TableColumn("p", lambda row: f"{row['p_value']:.2g}", lambda row: row["p_value"]),
            TableColumn("changed", lambda row: "yes" if row["alarm"] else ""),
        ]
        order = sorted(self.checks, key=lambda check: (not check.alarm, check.p_value))
        summary = "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines())
        table = sortable_table("checks", columns, [asdict(check) for check in order])
        title = "The rows have changed" if self.alarms else "Nothing has changed"
        return whole_page(title, {"Summary": summary, "Checks": table})


def run_reference(
    model: Any,
    data: TrainingSet,
    votes: Mapping[str, VoteMatrix],
) -> dict[str, Any] | None:
    """Return the reference statistics of a run; None if the model reads neither texts nor tables.

    Rows that networks have not seen are those of test; those of dev, if no network learned from
    their gold.
    """
    if data.vectors.kind in ("images", "given"):
        return None
    inputs = {"kind": data.vectors.kind, "column": data.project.features.column}
    bundle = Bundle(model, data.vectors.features, {"inputs": inputs})
    unseen = "dev" if "trained_on_gold" not in model.selection_ else None
    name = "test" if "test" in data.splits else unseen
    split = None if name is None else data.splits.get(name)
    held_out = None if split is None else (split.rows, votes.get(str(name)), split.gold)
    found = reference_statistics(bundle, data.splits["train"].rows, held_out, data.votes)
    return {**found, "learned": learned_marks(data.splits, str(inputs["column"]))}


def learned_marks(splits: Mapping[str, Any], column: str) -> str:
    """Return the marks of the rows that models learn, as text; of very many, those of a part."""
    learned = [own for name, own in splits.items() if name != "test"]
    n_rows, generator = sum(map(len, learned)), np.random.default_rng(0)
    marks = []
    for own in learned:
        rows, ids = own.rows, own.ids
        if n_rows > _MOST_MARKS:
            # Chosen before their keys are made: those of all rows would be a copy of the table.
            n_kept = len(own) * _MOST_MARKS // n_rows
            kept = np.sort(generator.choice(len(own), n_kept, replace=False))
            rows, ids = rows[kept], ids[kept]
        marks.append(row_marks(row_keys(rows, ids, column)))
    numbers = np.unique(pl.concat(marks).drop_nulls().to_numpy())
    return b64encode(numbers.astype("<u8").tobytes()).decode()


def learned_rows(bundle: Bundle, rows: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows of a table the model was trained on, with or without their labels.

    Texts are recognized; rows of other columns only by their id, with the same values. None are if
    the model does not say which rows it knows.
    """
    stored = (bundle.reference or {}).get("learned", "")
    if not isinstance(stored, str) or not stored:
        return np.zeros(len(rows), dtype=np.bool_)
    try:
        numbers = np.frombuffer(b64decode(stored, validate=True), "<u8")
    except ValueError as error:
        raise SavedModelError(
            f"What the model knows of its rows cannot be read: {error}."
        ) from None
    ids = rows["id"] if "id" in rows.columns else pl.Series([None] * len(rows), dtype=pl.String)
    marks = row_marks(row_keys(rows, ids, bundle.manifest["inputs"]["column"]))
    return marks.is_in(pl.Series(numbers).implode()).fill_null(False).to_numpy()


def reference_statistics(
    bundle: Bundle, train: Any, held_out: Any | None, votes: VoteMatrix | None
) -> dict[str, Any]:
    """Return what a model keeps of the rows it was trained on: sorted numbers, counts, no rows.

    `train` are rows, and the `votes` are on them. `held_out` are rows that networks have not seen,
    with the votes on them and gold: a network is surer of rows that it has learned, and would
    raise alarms on all others.
    """
    n_rows = len(train)
    if n_rows > _MOST_ROWS and isinstance(train, pl.DataFrame):
        train = train.gather_every(math.ceil(n_rows / _MOST_ROWS))
    texts = _texts(bundle, train)
    terms = [] if texts is None else _frequent_terms(texts)
    kept: Measures = _of_features(bundle, train)
    if texts is not None and terms:
        # They were chosen in one half of the texts because they are frequent there.
        kept |= _of_terms(texts[1::2], terms)
    if votes is not None:
        kept |= _of_coverage(votes)
    if held_out is not None:
        rows, own_votes, gold = held_out
        kept |= _of_known_words(bundle, rows)
        kept |= _of_predictions(bundle, predict_table(bundle, rows), own_votes, gold)
    return {
        "format": _FORMAT,
        "rows": n_rows,
        "held_out": 0 if held_out is None else len(held_out[0]),
        "terms": terms,
        "measures": [
            {"group": group, "name": name, **_stored(value)}
            for (group, name), value in kept.items()
        ],
    }


def monitor(
    bundle: Bundle,
    rows: pl.DataFrame,
    votes: VoteMatrix | None = None,
    gold: npt.NDArray[np.int64] | None = None,
    *,
    level: float = 0.05,
    least: float = 0.02,
) -> Drift:
    """Compare new rows, and the votes and gold labels on them, with those of training.

    `level` is the share of reports on unchanged rows that may raise an alarm. A change smaller than
    `least` (of a share, or of the largest difference of two distributions) is none.
    """
    known = bundle.reference
    if known is None:
        raise SavedModelError(
            "This model does not say what its training rows looked like: models of `wiesel run` "
            "with texts or tables do. Train it again."
        )
    if known.get("format") != _FORMAT:
        raise SavedModelError("What this model knows of its training rows has another format.")
    before = {(each["group"], each["name"]): _restored(each) for each in known["measures"]}
    frame = predict_table(bundle, rows)
    good = frame["error"].is_null().to_numpy()
    if not good.any():
        raise DataError(f"No row can be predicted. {frame['error'][0]}")
    after = _of_features(bundle, rows)
    texts = _texts(bundle, rows)
    if texts is not None and known["terms"]:
        after |= _of_terms(texts, known["terms"])
    after |= _of_known_words(bundle, rows)
    after |= _of_predictions(bundle, frame, votes, gold)
    if votes is not None:
        after |= _of_coverage(votes)
    checks = _judged(_compared(before, after), level, least)
    return Drift(
        len(rows), tuple(checks), level, _notes(known, votes, before), _accuracy(before, after)
    )


def _texts(bundle: Bundle, rows: Any) -> list[str] | None:
    """The texts of rows; None if the model reads none."""
    note = bundle.manifest["inputs"]
    if note["kind"] in ("tabular", "images", "given") or not hasattr(rows, "columns"):
        return None
    return ["" if text is None else str(text) for text in rows[note["column"]].to_list()]


def _frequent_terms(texts: Sequence[str]) -> list[str]:
    first = texts[::2]
    if len(texts) < 4 * _LEAST_TEXTS:
        return []
    return list(count_words(first, _LEAST_TEXTS, _TERMS)[0])


def _of_features(bundle: Bundle, rows: Any) -> Measures:
    """Figures of what the model reads."""
    found: Measures = {}
    texts = _texts(bundle, rows)
    if texts is not None:
        lengths = np.array([len(_WORD.findall(text)) for text in texts], dtype=np.float64)
        found["features", "words in a text"] = lengths
        found["features", "texts that are missing"] = int((lengths == 0).sum()), len(texts)
    elif bundle.manifest["inputs"]["kind"] == "tabular":
        _add_columns(bundle, rows, found)
    return found


def _add_columns(bundle: Bundle, rows: pl.DataFrame, found: Measures) -> None:
    for name in bundle.features.numeric:
        numbers = rows[name].cast(pl.Float64, strict=False).to_numpy()
        missing = np.isnan(numbers)
        found["features", name] = numbers[~missing]
        found["features", f"{name} missing"] = int(missing.sum()), len(numbers)
    for name, known in bundle.features.categories_.items():
        values = rows[name].cast(pl.String).to_list()
        others = len(values)
        for category in known:
            count = values.count(category)
            others -= count
            found["features", f"{name}={category or 'missing'}"] = count, len(values)
        found["features", f"{name}=other"] = others, len(values)


def _of_terms(texts: Sequence[str], terms: Sequence[str]) -> Measures:
    counts = count_terms(texts, terms)
    in_texts = np.bincount(counts.indices, minlength=len(terms))
    return {
        ("features", f"texts with '{term}'"): (int(count), len(texts))
        for term, count in zip(terms, in_texts, strict=True)
    }


def _of_known_words(bundle: Bundle, rows: Any) -> Measures:
    """The share of the words of each text that the features know; smaller where words are new.

    Most words of the training texts are known because they are in them, so this figure comes from
    other rows.
    """
    texts, weights = _texts(bundle, rows), getattr(bundle.features, "weights_", None)
    if texts is None or weights is None:
        return {}
    n_known: Values = np.asarray(count_terms(texts, weights.terms).sum(axis=1)).ravel()
    n_words = np.array([len(_TERM.findall(text.lower())) for text in texts])
    has_words = n_words > 0
    share = n_known[has_words] / n_words[has_words]
    # A phrase counts as a term, too.
    return {("features", "share of known words"): np.minimum(share, 1.0).astype(np.float64)}


def _of_coverage(votes: VoteMatrix) -> Measures:
    counts = np.bincount(votes.voter_index, minlength=votes.n_voters)
    return {
        ("functions", f"rows with a vote of {voter}"): (int(count), votes.n_items)
        for voter, count in zip(votes.voters, counts, strict=True)
    }


def _of_predictions(
    bundle: Bundle,
    frame: pl.DataFrame,
    votes: VoteMatrix | None,
    gold: npt.NDArray[np.int64] | None,
) -> Measures:
    """Figures of predictions, for rows that have one."""
    found: Measures = {}
    good = np.flatnonzero(frame["error"].is_null().to_numpy())
    names = bundle.labels.names
    proba = frame[good].select([f"p: {name}" for name in names]).to_numpy()
    place = {name: k for k, name in enumerate(names)}
    predicted = np.array([place[name] for name in frame["prediction"][good]], dtype=np.int64)
    for k, name in enumerate(names):
        found["predictions", f"rows predicted {name}"] = int((predicted == k).sum()), len(good)
    found["confidence", "largest probability"] = proba.max(axis=1)
    if votes is not None:
        found |= _of_agreement(votes[good], predicted)
    if gold is not None:
        known = gold[good] != ABSTAIN
        right = int((gold[good] == predicted)[known].sum())
        found["accuracy", "accuracy"] = right, int(known.sum())
    return found


def _of_agreement(votes: VoteMatrix, predicted: npt.NDArray[np.int64]) -> Measures:
    agrees = votes.class_index == predicted[votes.item_index]
    right = np.bincount(votes.voter_index, agrees, minlength=votes.n_voters)
    cast = np.bincount(votes.voter_index, minlength=votes.n_voters)
    return {
        ("functions", f"votes of {voter} that the model agrees with"): (int(own), int(n))
        for voter, own, n in zip(votes.voters, right, cast, strict=True)
    }


def _stored(value: Values | Share) -> dict[str, Any]:
    if isinstance(value, tuple):
        return {"count": value[0], "n": value[1]}
    if len(value) > _KEPT_VALUES:
        value = np.random.default_rng(0).choice(value, _KEPT_VALUES, replace=False)
    return {"values": [float(f"{number:.6g}") for number in np.sort(value)]}


def _restored(stored: Mapping[str, Any]) -> Values | Share:
    if "values" in stored:
        return np.asarray(stored["values"], dtype=np.float64)
    return int(stored["count"]), int(stored["n"])


def _compared(before: Measures, after: Measures) -> list[Check]:
    """The tests of all figures that both sides have."""
    found = []
    for key in before.keys() & after.keys():
        old, new = before[key], after[key]
        if isinstance(old, tuple) and isinstance(new, tuple):
            if old[1] and new[1]:
                shares = old[0] / old[1], new[0] / new[1]
                p = _p_of_shares(old, new)
                found.append(Check(*key, *shares, shares[1] - shares[0], p))
        elif not isinstance(old, tuple) and not isinstance(new, tuple) and len(old) and len(new):
            change, p = _p_of_values(old, new)
            found.append(Check(*key, float(old.mean()), float(new.mean()), change, p))
    return sorted(found, key=lambda check: (_GROUPS.index(check.group), check.p_value, check.name))


def _p_of_shares(old: Share, new: Share) -> float:
    """The two-sided p-value that two shares are equal."""
    from scipy.stats import fisher_exact, norm

    (a, n), (b, m) = old, new
    if min(a, n - a, b, m - b) < _MANY:
        return float(fisher_exact(np.array([[a, n - a], [b, m - b]])).pvalue)
    pooled = (a + b) / (n + m)
    deviation = np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    return float(2 * norm.sf(abs(a / n - b / m) / deviation))


def _p_of_values(old: Values, new: Values) -> tuple[float, float]:
    """The largest difference of two distributions, and its p-value (Kolmogorov and Smirnov)."""
    from scipy.stats import ks_2samp

    found = ks_2samp(old, new, method="asymp")
    return float(found.statistic), float(found.pvalue)


def _judged(checks: Sequence[Check], level: float, least: float) -> list[Check]:
    """The checks with their alarms: Holm's method in every group."""
    groups = dict.fromkeys(check.group for check in checks)
    judged: list[Check] = []
    for group in groups:
        own = [check for check in checks if check.group == group]
        open_tests, still = len(own), True
        for check in sorted(own, key=lambda check: check.p_value):
            still = still and check.p_value <= level / len(groups) / open_tests
            open_tests -= 1
            # More accurate than before is no alarm.
            matters = -check.change if group == "accuracy" else abs(check.change)
            alarm = still and matters >= least
            judged.append(Check(**{**asdict(check), "alarm": alarm}))
    return judged


def _accuracy(before: Measures, after: Measures) -> dict[str, Any]:
    found: Any = after.get(("accuracy", "accuracy"))
    if found is None or not found[1]:
        return {}
    known: Any = before.get(("accuracy", "accuracy"))
    low, high = wilson_interval(np.array([found[0]]), np.array([found[1]]))
    return {
        "accuracy": found[0] / found[1],
        "interval": [float(np.ravel(low)[0]), float(np.ravel(high)[0])],
        "n_items": found[1],
        "at_training": known[0] / known[1] if known else None,
    }


def _accuracy_text(found: Mapping[str, Any]) -> str:
    low, high = found["interval"]
    known = found["at_training"]
    before = "" if known is None else f"; at training {100 * known:.1f} %"
    return (
        f"Accuracy {100 * found['accuracy']:.1f} % ({100 * low:.1f} % to {100 * high:.1f} %, "
        f"{found['n_items']:,} rows"
        f"{before})."
    )


def _notes(
    known: Mapping[str, Any], votes: VoteMatrix | None, before: Iterable[tuple[str, str]]
) -> tuple[str, ...]:
    notes = []
    if not known["held_out"]:
        notes.append(
            "Predictions and confidence are not compared: there were no test rows in training, and "
            "on rows it has learned a model is surer than on others."
        )
    voters = {name.removeprefix("rows with a vote of ") for group, name in before
              if group == "functions" and name.startswith("rows with")}  # fmt: skip
    if votes is None and voters:
        notes.append("Labeling functions are not compared: give --lfs or --votes.")
    elif votes is not None and voters - {*votes.voters}:
        notes.append(f"There are no votes of {listed(sorted(voters - {*votes.voters}), 3)}.")
    return tuple(notes)
