"""The results of the paper, in percent F1 unless noted; a missing result is shown as a dash.

Rühling Cachay, Boecking and Dubrawski, "End-to-End Weak Supervision", NeurIPS 2021.
"""

from typing import NamedTuple


class Figure(NamedTuple):
    """A figure of the paper: a mean and a standard deviation over seeds."""

    mean: float
    deviation: float


def _column(*figures: tuple[str, float, float]) -> dict[str, Figure]:
    return {name: Figure(mean, deviation) for name, mean, deviation in figures}


_BY_SET = {
    "spouse": _column(
        ("validation set only", 20.40, 0.20),
        ("Snorkel", 48.79, 2.69),
        ("Triplet", 45.88, 3.64),
        ("Triplet-Mean", 49.94, 1.47),
        ("Triplet-Median", 48.70, 1.00),
        ("majority vote", 40.67, 2.01),
        ("WeaSEL-random", 46.43, 3.29),
        ("WeaSEL", 51.98, 1.60),
    ),
    "imdb_136": _column(
        ("gold", 86.72, 0.40),
        ("validation set only", 68.76, 0.00),
        ("Snorkel", 82.22, 0.18),
        ("Triplet", 75.36, 1.92),
        ("Triplet-Mean", 79.03, 0.26),
        ("majority vote", 80.86, 0.28),
        ("WeaSEL-random", 79.80, 0.48),
        ("WeaSEL", 82.10, 0.45),
    ),
    "imdb_12": _column(
        ("gold", 86.72, 0.40),
        ("validation set only", 68.76, 0.00),
        ("Snorkel", 74.45, 0.58),
        ("Triplet", 73.15, 0.95),
        ("Triplet-Mean", 73.18, 0.23),
        ("Triplet-Median", 73.00, 0.22),
        ("majority vote", 74.13, 0.31),
        ("WeaSEL-random", 74.22, 0.45),
        ("WeaSEL", 77.22, 1.02),
    ),
    "amazon_175": _column(
        ("gold", 92.93, 0.68),
        ("validation set only", 84.18, 0.00),
        ("Snorkel", 80.54, 0.41),
        ("Triplet", 75.44, 3.21),
        ("Triplet-Mean", 79.44, 0.68),
        ("majority vote", 84.20, 0.52),
        ("WeaSEL-random", 82.22, 0.57),
        ("WeaSEL", 86.60, 0.71),
    ),
}
TABLE_1: dict[str, dict[str, Figure]] = {
    row: {name: column[row] for name, column in _BY_SET.items() if row in column}
    for row in dict.fromkeys(row for column in _BY_SET.values() for row in column)
}
"""By row and data set."""

PROF_TEACHER = _column(
    ("gold", 90.65, 0.29),
    ("validation set only", 73.34, 0.00),
    ("Snorkel", 85.12, 0.54),
    ("Triplet", 74.43, 10.59),
    ("Triplet-Mean", 82.58, 0.32),
    ("majority vote", 85.44, 0.37),
    ("WeaSEL-random", 83.47, 0.64),
    ("WeaSEL", 86.98, 0.45),
)
"""The column of table 1 whose data set we do not have."""

LABELME = _column(
    ("majority vote", 79.23, 0.50),
    ("MBEM", 76.84, 0.40),
    ("DoctorNet", 81.31, 0.40),
    ("CrowdLayer", 82.83, 0.40),
    ("AggNet", 84.35, 0.40),
    ("Max-MIG", 85.45, 1.00),
    ("Snorkel + CE", 82.89, 0.70),
    ("WeaSEL + CE", 82.46, 0.80),
    ("Snorkel + MIG", 85.15, 0.80),
    ("WeaSEL + MIG", 86.36, 0.30),
)
"""Test accuracy, by row."""

DATA_SETS: dict[str, dict[str, float]] = {
    "train rows": {
        "spouse": 22_254,
        "imdb_136": 25_000,
        "imdb_12": 25_000,
        "amazon_175": 160_000,
    },
    "coverage": {"spouse": 25.8, "imdb_136": 83.1, "imdb_12": 88.0, "amazon_175": 65.5},
    "test rows": {"spouse": 2_701, "imdb_136": 24_750, "imdb_12": 24_750, "amazon_175": 39_500},
}
"""Sizes, and the share of training items with votes in percent."""

ABLATION: dict[str, tuple[float, float, float]] = {
    "WeaSEL": (82.1, 77.3, 86.6),
    "votes only": (82.1, 75.9, 86.6),
    "linear encoder": (80.0, 73.2, 82.6),
    "one hidden layer": (81.8, 76.8, 85.3),
    "encoder 75-50-25-50-75": (81.9, 75.8, 86.1),
    "tau_1 = 2": (81.9, 77.3, 85.5),
    "tau_1 = 1/2": (81.8, 76.0, 86.4),
    "tau_1 = 1/4": (81.8, 73.9, 85.6),
    "tau_2 = 1": (82.2, 76.6, 84.3),
    "tau_2 = m": (81.2, 76.4, 85.7),
    "no BatchNorm": (81.9, 74.7, 85.3),
    "weight decay 1e-4": (80.9, 77.9, 85.2),
    "mutual information": (78.7, 74.1, 84.7),
    "L1": (81.1, 75.6, 84.1),
    "squared Hellinger": (82.2, 75.7, 86.3),
    "CE(P_f, P_e), asymmetric": (77.7, 71.7, 78.7),
    "CE(P_e, P_f), asymmetric": (71.9, 69.7, 70.1),
    "no stop-gradient": (76.2, 71.0, 79.3),
    "sigmoid": (81.8, 78.0, 86.9),
    "ReLU": (78.3, 69.1, 74.2),
    "tanh": (67.0, 67.0, 67.3),
}
"""By row: imdb_136, imdb_12, amazon. The paper's fourth column is ProfTeacher."""

ABLATION_OF_PROF_TEACHER: dict[str, float] = dict(
    zip(
        ABLATION,
        (
            *(86.8, 85.6, 81.9, 87.1, 84.3, 86.7, 86.5, 84.5, 85.2, 86.1, 82.6),
            *(87.4, 86.7, 86.2, 87.4, 77.3, 73.1, 80.4, 85.5, 83.0, 71.9),
        ),
        strict=True,
    )
)
"""The fourth column of the ablation, by row."""

ABLATION_SETS = ("imdb_136", "imdb_12", "amazon_175")
