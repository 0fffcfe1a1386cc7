"""The contents of a report as plain data, filled in by its caller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wiesel.evaluation import Report, ThresholdCurve
from wiesel.labels import LabelSpace

__all__ = [
    "BalanceRow",
    "Curve",
    "Disagreement",
    "ErrorItem",
    "ReportData",
    "SliceRow",
    "VoterRow",
]


@dataclass(frozen=True)
class VoterRow:
    """One voter: its coverage, its precision, and its weight in the method."""

    name: str
    classes: Sequence[str]
    coverage: float
    conflict: float
    precision: float | None = None
    """Precision on the dev rows; None if none of its votes has a gold label."""
    low: float | None = None
    high: float | None = None
    support: int = 0
    weight: float | None = None


@dataclass(frozen=True)
class Curve:
    """A quantity over epochs."""

    name: str
    values: Sequence[float]


@dataclass(frozen=True)
class Disagreement:
    """An item on which the end model and the weighted votes differ."""

    item: str
    text: str
    end_model: str
    end_proba: float
    soft_label: str
    soft_proba: float
    votes: Sequence[tuple[str, str]]
    """Voters and what they voted."""


@dataclass(frozen=True)
class ErrorItem:
    """An item with a gold label that the end model gets wrong."""

    item: str
    text: str
    gold: str
    predicted: str
    proba: float
    """The model's probability for the predicted class."""
    spans: Sequence[tuple[int, int]]
    """The parts of the text that labeling functions matched."""
    votes: Sequence[tuple[str, str]]
    """Voters and what they voted."""


@dataclass(frozen=True)
class SliceRow:
    """A slice of the evaluated items, and the end model's accuracy on it."""

    by: str
    """What the slices are based on: a column, the length, the voters."""
    name: str
    n_items: int
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class BalanceRow:
    """The share of a class according to gold, the votes and the end model."""

    name: str
    gold: float | None
    votes: float
    predicted: float


@dataclass(frozen=True)
class ReportData:
    """The contents of a report; empty parts and None are left out."""

    title: str
    labels: LabelSpace
    story: Sequence[str]
    """Sentences that describe what was done."""
    figures: Sequence[tuple[str, str]]
    """The few numbers that matter, each with a caption."""
    voters: Sequence[VoterRow]
    voter_caption: str
    findings: Sequence[str]
    agreement_names: Sequence[str]
    agreement: npt.NDArray[np.float64] | None
    """Share of common items with the same vote, (voters, voters); NaN without common items."""
    losses: Sequence[Curve] = ()
    scores: Sequence[Curve] = ()
    kept_epoch: int | None = None
    methods: Mapping[str, Report] = field(default_factory=dict)
    """The metrics of every method on the same items."""
    judged_on: str = ""
    report: Report | None = None
    """The metrics of the main method."""
    paired: str = ""
    """A sentence that compares the main method with the majority vote."""
    curve: ThresholdCurve | None = None
    threshold: float | None = None
    references: Mapping[str, Report] = field(default_factory=dict)
    """Baselines on the same items: the most common class, labels alone, votes alone."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """The training time of each method and reference, in seconds."""
    uncertain: Sequence[str] = ()
    """Sentences on what makes all figures uncertain, and what would settle it."""
    thresholds: Sequence[tuple[float, int, int, int, int]] = ()
    """Thresholds, each with true and false positives, false and true negatives."""
    balance: Sequence[BalanceRow] = ()
    slices: Sequence[SliceRow] = ()
    errors: Sequence[ErrorItem] = ()
    n_errors: int = 0
    """The total number of errors; only some are shown."""
    disagreements: Sequence[Disagreement] = ()
    reproduce: Sequence[str] = ()
    """Commands, one per line."""
    settings: str = ""
    """The project file."""
    verdict: str = ""
    """What a reader has to know first; above everything else."""
