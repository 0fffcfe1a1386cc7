"""The ablation table of the paper: WeaSEL with one thing changed at a time.

    python -m experiments ablation [--full] [--seeds N] [--jobs N]

The learning rate is 1e-4; the epoch is selected by validation AUC, the threshold by validation F1.
The data of the paper's fourth column, ProfTeacher, is not available: youtube replaces it.
"""

from experiments.framework.definitions import SIGNED, Choices, Effort, Row, chosen
from experiments.framework.runner import Record
from experiments.framework.tables import f1_and_auc, figure_of_paper, mean_of, write_page
from experiments.studies import paper
from experiments.studies.table1 import setting_of

SEEDS = {"full_seeds": 5, "reduced_seeds": 1}
COLUMNS = ("imdb_136", "imdb_12", "amazon_175", "youtube")
REDUCED = {"imdb_136": {"epochs": 50}, "imdb_12": {"epochs": 30}}
"""Differences from table 1 in the reduced form."""


def _row(title: str, **options: object) -> Row:
    return Row(title, "weasel", {**SIGNED, **options})


ROWS = (
    _row("WeaSEL"),
    _row("votes only", encoder_features=False),
    _row("linear encoder", encoder=[]),
    _row("one hidden layer", encoder=[70]),
    _row("encoder 75-50-25-50-75", encoder=[75, 50, 25, 50, 75]),
    _row("tau_1 = 2", tau_1=2.0),
    _row("tau_1 = 1/2", tau_1=1 / 2),
    _row("tau_1 = 1/4", tau_1=1 / 4),
    _row("tau_2 = 1", tau_2=1.0),
    _row("tau_2 = m", tau_2="voters"),
    _row("no BatchNorm", batch_norm=False),
    _row("weight decay 1e-4", weight_decay=1e-4),
    _row("mutual information", loss="mig"),
    _row("L1", loss="l1"),
    _row("squared Hellinger", loss="hellinger"),
    _row("CE(P_f, P_e), asymmetric", loss="encoder_target"),
    _row("CE(P_e, P_f), asymmetric", loss="end_model_target"),
    _row("no stop-gradient", loss="no_stop_gradient"),
    _row("sigmoid", activation="sigmoid"),
    _row("ReLU", activation="relu", tau_2=1.0),
    _row("tanh", activation="tanh", tau_2=1.0),
)
"""WeaSEL and its twenty changes. The paper does not scale ReLU and tanh: their tau_2 is 1."""

Results = dict[str, dict[str, list[Record]]]


def main(argv: list[str]) -> None:
    """Run what is missing, print the table, and write it as Markdown."""
    effort = Effort.parsed(argv, __doc__, **SEEDS)
    show(results(effort), effort)


def results(effort: Effort) -> Results:
    """Run what is missing, and return the runs by data set and row."""
    found: Results = {}
    for name in COLUMNS:
        runs = {row.title: choices_of(name, row, effort) for row in ROWS}
        done = effort.obtain(name, runs.values())
        found[name] = {title: chosen(choices, done) for title, choices in runs.items()}
    return found


def choices_of(name: str, row: Row, effort: Effort) -> Choices:
    """Return the runs of one cell of the table."""
    thinned = {} if effort.full else REDUCED.get(name, {})
    setting = {**setting_of(name, row, effort), **thinned}
    return row.runs(name, effort.seeds, (1e-4,), setting)


def show(found: Results, effort: Effort) -> None:
    """Print and write F1 next to the paper's, and AUC."""
    f1, auc = [], []
    for row in ROWS:
        known = dict(zip(paper.ABLATION_SETS, paper.ABLATION[row.title], strict=True))
        f1.append(
            [
                row.title,
                *(
                    f"{mean_of(found[name][row.title], 'f1')} ({figure_of_paper(known.get(name))})"
                    for name in COLUMNS
                ),
            ]
        )
        auc.append([row.title, *(mean_of(found[name][row.title], "auc") for name in COLUMNS)])
    header = ["", *COLUMNS[:-1], "youtube (ours)"]
    lines = [
        f"Mean ± deviation over {effort.seeds} seeds, in percent; the paper's F1 in brackets.",
        "",
        *f1_and_auc(header, f1, auc),
    ]
    write_page("ablation", f"python -m experiments ablation {effort.words}", lines)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
