"""Stage 4, evaluation: metrics, intervals, reports, thresholds and comparisons of models."""

from wiesel.evaluation.comparison import (
    Comparison,
    compare_paired,
    compare_paired_proba,
    corrected_shares,
)
from wiesel.evaluation.intervals import percentile_interval, resampled_figures
from wiesel.evaluation.metrics import (
    ThresholdCurve,
    choose_threshold,
    supported_threshold,
    threshold_curve,
)
from wiesel.evaluation.report import (
    ClassScores,
    Report,
    Score,
    commonest_class,
    evaluate,
    evaluate_proba,
)
from wiesel.evaluation.several_labels import MultiLabelReport, evaluate_presence

__all__ = [
    "ClassScores",
    "Comparison",
    "MultiLabelReport",
    "Report",
    "Score",
    "ThresholdCurve",
    "choose_threshold",
    "commonest_class",
    "compare_paired",
    "compare_paired_proba",
    "corrected_shares",
    "evaluate",
    "evaluate_presence",
    "evaluate_proba",
    "percentile_interval",
    "resampled_figures",
    "supported_threshold",
    "threshold_curve",
]
