"""The majority-class baseline: the result that every method should exceed."""

from typing import Any

import numpy as np

from wiesel.evaluation.report import Report
from wiesel.evaluation.scoring import evaluate_proba
from wiesel.labels import LabelSpace

__all__ = ["commonest_class"]


def commonest_class(y: Any, labels: LabelSpace, *, n_resamples: int = 0) -> tuple[str, Report]:
    """Return the most frequent gold class, and the report on always predicting it.

    The probabilities are the class frequencies, the same for all items.

    >>> name, report = commonest_class(["ham", "ham", "spam", None], LabelSpace("ham", "spam"))
    >>> name, round(float(report.accuracy), 3), float(report.auc)
    ('ham', 0.667, 0.5)
    """
    gold = labels.indices(y, allow_unknown=True)
    counts = np.bincount(gold[gold >= 0], minlength=len(labels))
    first = int(counts.argmax())
    shares = counts / max(counts.sum(), 1)
    proba = np.broadcast_to(shares, (len(gold), len(labels)))
    return labels.names[first], evaluate_proba(proba, gold, labels, n_resamples=n_resamples)
