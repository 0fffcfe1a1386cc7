"""Generated panels of language models: which label model combines them best, and where to ask.

    python -m experiments judges [--full] [--seeds N] [--recorded]

The first table has 20 judges who share errors, are too sure and refuse (`make_panel`), 3,000 items
to learn from and 1,500 others to be judged on. The second one spends a quarter of the price of
asking a dear model about every item: a cheap model everywhere, the dear one where `where_to_ask`
says, or about as many items drawn at random. A small model learns from the answers, and is judged
on new items. Seeds draw everything anew.
"""

import sys

import numpy as np
import numpy.typing as npt
from benchmarks.harness import markdown_table
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import UNKNOWN, cost_sentence, write_page
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
        for dataset in ("panel", "budget")
        for seed in range(effort.seeds)
    ]
    if not effort.recorded:
        run_all(STORE, runs, execute)
    show([finished(STORE)[run.key] for run in runs if run.key in finished(STORE)], effort)


def execute(run: Run) -> Record:
    """Return accuracy and ROC-AUC of every method, or the accuracy of every way to spend."""
    return panel(run.seed) if run.dataset == "panel" else {"found": list(budget(run.seed))}


def panel(seed: int) -> Record:
    """Return (accuracy, ROC-AUC) in points of each method, by its name and its labels."""
    votes, gold = make_panel(N_LEARNED + N_JUDGED, seed=seed)
    learned, judged, truth = votes[:N_LEARNED], votes[N_LEARNED:], gold[N_LEARNED:]
    dense = judged.dense()
    best = max(float((own[own >= 0] == truth[own >= 0]).mean()) for own in dense.T)
    found = {"best judge, known afterwards": [100 * best, None]}
    for name, method in METHODS.items():
        for n_labels in LABELS if name in WITH_LABELS else (0,):
            given = {"gold": (learned[:n_labels], gold[:n_labels])} if n_labels else {}
            proba = method().fit(learned, **given).predict_proba(judged)
            title = f"{name}, {n_labels} labels" if n_labels else name
            right = float((proba.argmax(axis=1) == truth).mean())
            found[title] = [100 * right, 100 * float(roc_auc_score(truth, proba[:, 1]))]
    return {"found": found}


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
    panels = [r["found"] for r in records if r["dataset"] == "panel"]
    spent = np.array([r["found"] for r in records if r["dataset"] == "budget"])
    rows = []
    for title in panels[0]:
        accuracies, areas = np.array([own[title] for own in panels], dtype=float).T
        area = UNKNOWN if np.isnan(areas).any() else f"{areas.mean():.1f}"
        rows.append([title, f"{accuracies.mean():.1f} ± {accuracies.std():.1f}", area])
    ways = [
        [name, f"{own.mean():.1f} ± {own.std():.1f}"]
        for name, own in zip(SPENDING, spent.T, strict=True)
    ]
    lines = [
        f"Twenty judges, {N_LEARNED:,} items without labels or with a few, judged on "
        f"{N_JUDGED:,} others; means and standard deviations of {len(panels)} panels.",
        "",
        markdown_table(["", "accuracy", "ROC-AUC"], rows),
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


if __name__ == "__main__":
    main(sys.argv[1:])
