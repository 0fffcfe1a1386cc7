"""The results of the paper, in percent F1 unless noted; a missing result is shown as a dash.

Rühling Cachay, Boecking and Dubrawski, "End-to-End Weak Supervision", NeurIPS 2021.
"""

TABLE_1: dict[str, dict[str, float]] = {
    "gold": {"imdb_136": 86.72},
    "majority vote": {"spouse": 40.67, "imdb_136": 80.86},
    "WeaSEL-random": {"imdb_136": 79.80},
    "WeaSEL": {"spouse": 51.98, "imdb_136": 82.10, "imdb_12": 77.22, "amazon_175": 86.60},
}
"""By row and data set."""

PROF_TEACHER: dict[str, float] = {"WeaSEL": 86.98}
"""The column of table 1 whose data set we do not have."""

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
