"""What a report shows, as plain data; whoever writes one fills this in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wiesel.evaluation import Report, ThresholdCurve
from wiesel.labels import LabelSpace

__all__ = ["Curve", "Disagreement", "ReportData", "VoterRow"]


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
    disagreements: Sequence[Disagreement] = ()
    reproduce: Sequence[str] = ()
    """Commands, one for each line."""
    settings: str = ""
    """The project file."""
