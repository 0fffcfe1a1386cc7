"""Generated panels of language models: which label model combines them best, and where to ask.

    python -m experiments judges [--full] [--seeds N] [--recorded]

The first tables have 20 judges who share errors, are too sure and refuse (`make_panel`), 3,000
items to learn from and 1,500 others to be judged on. The panel that leans is like a real one that
was described to us (best judge 75.0 %, majority vote 71.2, Dawid-Skene 72.3, a logistic regression
with 200 labels on the answers 75.8 and on the ratings 77.7): ten judges are of one family, all lean
to one class, and a quarter uses four ratings only. With a label on each of the 3,000 items, the
same logistic regression shows about what any combination of the judges can reach.

The last table spends a quarter of the price of asking a dear model about every item: a cheap model
everywhere, the dear one where `where_to_ask` says, or about as many items drawn at random. A small
model learns from the answers, and is judged on new items. Seeds draw everything anew.
"""

import sys
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.harness import markdown_table
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import roc_auc_score

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import UNKNOWN, cost_sentence, write_page
from wiesel import VoteMatrix
from wiesel.datasets import make_panel
from wiesel.end_to_end import GoldWeighted, Stacked
from wiesel.guidance import Source, where_to_ask
from wiesel.label_models import (
    GLAD,
    CorrelatedVoters,
    DawidSkene,
    LabelModel,
    MajorityVote,
    Snorkel,
)

STORE = "judges"
PANELS: dict[str, dict[str, Any]] = {
    "panel": {},
    "leaning": {
        "accuracies": (0.55, 0.77),
        "ceiling": 0.83,
        "shared": 0.5,
        "families": (10, 6, 4),
        "habits": 0.8,
        "tendency": 0.5,
        "coarse": 0.25,
    },
}
TITLES = {"panel": "Three families of judges", "leaning": "A panel that leans to one class"}
LABELS = (50, 200)
METHODS: dict[str, type[LabelModel]] = {
    "majority vote": MajorityVote,
    "Dawid-Skene": DawidSkene,
    "Snorkel": Snorkel,
    "GLAD": GLAD,
    "CorrelatedVoters": CorrelatedVoters,
    "GoldWeighted": GoldWeighted,
    "Stacked": Stacked,
}
WITH_LABELS = {"GoldWeighted", "Stacked"}
SPENDING = ("cheap model alone", "chosen", "drawn", "dear model everywhere")
PRICE, ACCURACY, ROUNDS = 20.0, 0.9, 10
"""The price of an answer of the dear model, in answers of the cheap one; how often it is right; in
how many rounds it is asked."""
N_LEARNED, N_JUDGED = 3000, 1500

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def main(argv: list[str]) -> None:
    """Run what is missing and write the tables."""
    effort = Effort.parsed(argv, __doc__, full_seeds=20)
    runs = [
        Run(dataset, "all", seed, {})
        for dataset in (*PANELS, "budget")
        for seed in range(effort.seeds)
    ]
    if not effort.recorded:
        run_all(STORE, runs, execute)
    show([finished(STORE)[run.key] for run in runs if run.key in finished(STORE)], effort)


def execute(run: Run) -> Record:
    """Return accuracy and ROC-AUC of every method, or the accuracy of every way to spend."""
    if run.dataset in PANELS:
        return panel(run.seed, **PANELS[run.dataset])
    return {"found": list(budget(run.seed))}


def panel(seed: int, **options: Any) -> Record:
    """Return (accuracy, ROC-AUC) in points of each method, by its name and its labels."""
    votes, gold = make_panel(N_LEARNED + N_JUDGED, seed=seed, **options)
    learned, judged, truth = votes[:N_LEARNED], votes[N_LEARNED:], gold[N_LEARNED:]
    dense = judged.dense()
    best = max(float((own[own >= 0] == truth[own >= 0]).mean()) for own in dense.T)
    found = {"best judge, known afterwards": [100 * best, None]}
    for name, method in METHODS.items():
        for n_labels in LABELS if name in WITH_LABELS else (0,):
            given = {"gold": (learned[:n_labels], gold[:n_labels])} if n_labels else {}
            proba = method().fit(learned, **given).predict_proba(judged)
            title = f"{name}, {n_labels} labels" if n_labels else name
            found[title] = _scores(proba[:, 1], truth)
    for name in ("answers", "ratings"):
        X, new = (_as_numbers(part, name) for part in (learned, judged))
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            for n_labels in (LABELS[-1], N_LEARNED):
                model = LogisticRegressionCV(
                    Cs=[0.01, 0.03, 0.1, 0.3, 1.0], cv=5, scoring="neg_log_loss", max_iter=500
                ).fit(X[:n_labels], gold[:n_labels])
                title = f"logistic regression on {name}, {n_labels:,} labels"
                found[title] = _scores(model.predict_proba(new)[:, 1], truth)
    return {"found": found}


def _scores(proba: Floats, truth: Integers) -> list[float]:
    right = float(((proba > 0.5) == truth).mean())
    return [100 * right, 100 * float(roc_auc_score(truth, proba))]


def _as_numbers(votes: VoteMatrix, what: str) -> Floats:
    """The ratings as shares of yes, or the answers yes and no; 0.5 where there is none."""
    numbers = np.full((votes.n_items, votes.n_voters), 0.5)
    numbers[votes.item_index, votes.voter_index] = votes.vote_rows()[:, 1]
    return numbers if what == "ratings" else np.sign(numbers - 0.5)


def budget(seed: int) -> tuple[float, ...]:
    """Return the small model's accuracy for each way to spend, in the order of SPENDING.

    The cheap model sees half of what matters; the dear one is right on 90 %. A linear model of the
    cheap answers and the features learns from the dear answers, in rounds; its predictions stand in
    for those that are missing.
    """
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(20)
    half = weights * (np.arange(20) < 10)
    weights, half = weights / np.linalg.norm(weights), half / np.linalg.norm(half)
    X, new = rng.standard_normal((2, N_LEARNED, 20))
    gold, truth = (
        (at @ weights + 0.6 * rng.standard_normal(len(at)) > 0).astype(int) for at in (X, new)
    )
    evidence = 4 * (X @ half + 0.8 * rng.standard_normal(len(X)))
    dear = np.where(rng.random(len(X)) < ACCURACY, gold, 1 - gold)
    both = np.c_[X, evidence]

    def taught(asked: npt.NDArray[np.bool_]) -> Floats:
        model = LogisticRegression(max_iter=500).fit(both[asked], dear[asked])
        return np.asarray(model.predict_proba(both))

    def accuracy(proba: Floats) -> float:
        return 100 * float((_soft_fit(X, proba).predict(new) == truth).mean())

    money = len(X) * PRICE / 4 - len(X)
    order, chosen, drawn = rng.permutation(len(X)), *np.zeros((2, len(X)), bool)
    chosen[order[: int(money / PRICE / ROUNDS)]] = True
    for _ in range(ROUNDS - 1):
        table = where_to_ask(
            taught(chosen), {"dear": Source(PRICE, ACCURACY)}, money / ROUNDS, X, asked=chosen
        )
        chosen[table.frame["item"].to_numpy()] = True
    drawn[order[: chosen.sum()]] = True
    ends = [np.where(asked, dear, taught(asked)[:, 1]) for asked in (chosen, drawn)]
    return (
        accuracy(1 / (1 + np.exp(-evidence))),
        *map(accuracy, ends),
        accuracy(dear.astype(float)),
    )


def _soft_fit(X: Floats, proba: Floats) -> LogisticRegression:
    """The small model, on P(yes) of every item."""
    both, labels = np.vstack([X, X]), np.repeat([0, 1], len(X))
    weights = np.concatenate([1 - proba, proba]) + 1e-9
    return LogisticRegression(max_iter=500).fit(both, labels, sample_weight=weights)


def show(records: list[Record], effort: Effort) -> None:
    """Write both tables."""
    spent = np.array([r["found"] for r in records if r["dataset"] == "budget"])
    ways = [
        [name, f"{own.mean():.1f} ± {own.std():.1f}"]
        for name, own in zip(SPENDING, spent.T, strict=True)
    ]
    lines = [
        f"Twenty judges, {N_LEARNED:,} items without labels or with a few, judged on "
        f"{N_JUDGED:,} others; means and standard deviations over draws.",
        "",
    ]
    for dataset, title in TITLES.items():
        panels = [r["found"] for r in records if r["dataset"] == dataset]
        if panels:
            lines += [f"## {title}", "", _panels(panels), ""]
    lines += [
        "## Where to ask",
        "",
        f"A dear model that is right on {ACCURACY:.0%} for {PRICE:.0f} times the price, and a "
        "quarter of what it costs everywhere: accuracy of the small model on new items, "
        f"{len(spent)} draws.",
        "",
        markdown_table(["", "accuracy"], ways),
        "",
        cost_sentence(len(records), sum(r["cpu_seconds"] for r in records)),
    ]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def _panels(panels: list[dict[str, Any]]) -> str:
    rows = []
    for title in panels[0]:
        accuracies, areas = np.array([own[title] for own in panels], dtype=float).T
        area = UNKNOWN if np.isnan(areas).any() else f"{areas.mean():.1f}"
        rows.append([title, f"{accuracies.mean():.1f} ± {accuracies.std():.1f}", area])
    return markdown_table(["", "accuracy", "ROC-AUC"], rows)


if __name__ == "__main__":
    main(sys.argv[1:])
