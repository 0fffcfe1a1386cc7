"""What a report shows, as plain data; whoever writes one fills this in."""

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
    """One voter: how often it votes, how well, and how much the method listens to it."""

    name: str
    classes: Sequence[str]
    coverage: float
    conflict: float
    precision: float | None = None
    """On the dev rows; None where there is no gold label under its votes."""
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
    """What the model gives to the class it predicts."""
    spans: Sequence[tuple[int, int]]
    """Where labeling functions matched words of the text."""
    votes: Sequence[tuple[str, str]]
    """Voters and what they voted."""


@dataclass(frozen=True)
class SliceRow:
    """A part of the judged items, and how well the end model does there."""

    by: str
    """What the items are divided by: a column, the length, who votes on them."""
    name: str
    n_items: int
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class BalanceRow:
    """How common a class is, by whom."""

    name: str
    gold: float | None
    votes: float
    predicted: float


@dataclass(frozen=True)
class ReportData:
    """Everything a report shows; what is empty or None is left out."""

    title: str
    labels: LabelSpace
    story: Sequence[str]
    """What was done, in sentences."""
    figures: Sequence[tuple[str, str]]
    """The few numbers that matter, each with a caption."""
    voters: Sequence[VoterRow]
    voter_caption: str
    findings: Sequence[str]
    agreement_names: Sequence[str]
    agreement: npt.NDArray[np.float64] | None
    """Share of common items with the same vote, (voters, voters); NaN where they never meet."""
    losses: Sequence[Curve] = ()
    scores: Sequence[Curve] = ()
    kept_epoch: int | None = None
    methods: Mapping[str, Report] = field(default_factory=dict)
    """The figures of every method on the same items."""
    judged_on: str = ""
    report: Report | None = None
    """The figures of the main method."""
    paired: str = ""
    """One sentence: the main method against the majority vote."""
    curve: ThresholdCurve | None = None
    threshold: float | None = None
    references: Mapping[str, Report] = field(default_factory=dict)
    """What takes no votes, on the same items: the commonest class, gold labels alone."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each method and reference took to train."""
    thresholds: Sequence[tuple[float, int, int, int, int]] = ()
    """A threshold, then true and false positives, false and true negatives."""
    balance: Sequence[BalanceRow] = ()
    slices: Sequence[SliceRow] = ()
    errors: Sequence[ErrorItem] = ()
    n_errors: int = 0
    """How many errors there are, of which some are shown."""
    disagreements: Sequence[Disagreement] = ()
    reproduce: Sequence[str] = ()
    """Commands, one for each line."""
    settings: str = ""
    """The project file."""
