"""Confidences of labels from crowd answers: how often they are right, on real and generated crowds.

    python -m experiments crowd_confidence [--jobs N] [--recorded]

`aggregate` counts the evidence of n answers as that of n / (1 + (n - 1) * dependence) independent
ones. The dependence is chosen by the log loss of Dawid-Skene on the *choose* half of the shared
crowds, and confirmed on the other half. ECE is the expected calibration error in ten bins of equal
width. The floor is the mean ECE of the same confidences if each were exactly right as often as it
says: few items leave that much by chance, so ECE less the floor is what is wrong with them.
Intervals of workers hold if they contain the share of the worker's answers that are right by gold;
only workers with ten answers to gold items count, and only gold items, because the share on a few
gold items is not that of all items. With gold, twenty random draws of 50, 100 or 200 gold items fit
slope and shift, and the other items are judged, at least 50 of them.
"""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run
from experiments.framework.tables import UNKNOWN, write_page
from experiments.tasks.crowds import SETS, Crowd, crowd, halves
from wiesel import VoteMatrix
from wiesel.analysis.crowd import judge_workers
from wiesel.errors import WieselWarning
from wiesel.label_models import REGISTRY, LabelModel
from wiesel.label_models.base import normalized_exp
from wiesel.label_models.confidence import (
    DEPENDENCE,
    WITHOUT_GOLD,
    Calibration,
    calibrated_proba,
    fit_calibration,
    independent_share,
)

STORE = "crowd_confidence"
PARTS, SCORES = ("choose", "confirm"), ("log_loss", "brier", "ece")
METHODS = ("dawid_skene", "one_coin", "mace", "glad")
GRID = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
BINS, LEAST_ANSWERS, DRAWS, LEAST_REST = 10, 10, 20, 50
KNOWN = (50, 100, 200)
OTHERS = "other reductions"
POWERS = (0.4, 0.5, 0.6, 0.7, 0.8)
MIXED = tuple((dependence, share) for dependence in (0.2, 0.3, 0.4) for share in (0.1, 0.2, 0.3))
HELD_OUT = tuple((base, times) for base in (0.1, 0.2, 0.25, 0.3, 0.35) for times in (0.5, 1.0, 1.5))
FINE = np.concatenate([np.arange(0, 0.4, 0.05), np.arange(0.4, 2.01, 0.2)])
FOLDS, MOST_HELD_OUT = 5, 30_000
GENERATED = ("independent errors", "hard items", "misleading items")
Array = npt.NDArray[np.float64]


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    effort = Effort.parsed(argv, __doc__, full_seeds=1, reduced_seeds=1)
    runs = [Run(name, method, 0) for method in METHODS for name in SETS]
    runs += [Run(name, METHODS[0], seed) for name in GENERATED for seed in range(5)]
    runs += [Run(name, OTHERS, 0) for name in SETS]
    show(effort.records(STORE, runs, execute), effort)


def execute(run: Run) -> Record:
    """Judge the confidences of one method on one crowd, for every dependence."""
    if run.method == OTHERS:
        return other_reductions(run.dataset)
    votes, gold = (
        generated(run.dataset, run.seed) if run.dataset in GENERATED else crowd(run.dataset)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WieselWarning)
        model: LabelModel = REGISTRY[run.method].cls().fit(votes)
        proba = model.predict_proba(votes)
    known = np.flatnonzero((gold >= 0) & votes.covered)
    by_dependence = {}
    for dependence in (None, *GRID):
        sure = (
            proba
            if dependence is None
            else calibrated_proba(model, votes, proba, Calibration(dependence))
        )
        by_dependence[str(dependence)] = judged(sure[known], gold[known])
    default = calibrated_proba(model, votes, proba)[known]
    return {
        "n_items": len(known),
        "accuracy": float((proba[known].argmax(axis=1) == gold[known]).mean()),
        "accuracy_calibrated": float((default.argmax(axis=1) == gold[known]).mean()),
        "by_dependence": by_dependence,
        "floor": floor(default.max(axis=1)),
        "with_gold": {str(n): with_gold(model, votes, proba, gold, n) for n in KNOWN},
        "workers": workers(run) if run.dataset not in GENERATED else None,
    }


def other_reductions(name: str) -> Record:
    """Judge other ways to reduce the confidences of Dawid-Skene, and two that know the gold."""
    votes, gold = crowd(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WieselWarning)
        model = REGISTRY[METHODS[0]].cls().fit(votes)
        proba = model.predict_proba(votes)
        answered = held_out_dependence(votes)
    known = np.flatnonzero((gold >= 0) & votes.covered)
    counts = np.rint(votes.counts())
    n_answers = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    evidence = model.log_evidence(votes, proba)

    def reduced(dependence: float, slope: float = 1.0, shift: float = 0.0) -> Array:
        return calibrated_proba(model, votes, proba, Calibration(dependence, slope, shift))[known]

    def scores(found: Array) -> dict[str, float]:
        return judged(found, gold[known])

    by_fit = min(
        (reduced(DEPENDENCE, slope, shift) for slope in FINE[1:] for shift in FINE - 1),
        key=lambda found: scores(found)["log_loss"],
    )
    return {
        "held_out": answered,
        "powers": [scores(normalized_exp(evidence * n_answers**-p)[known]) for p in POWERS],
        "mixed": [
            scores((1 - share) * reduced(depends) + share * (counts / n_answers)[known])
            for depends, share in MIXED
        ],
        "by_held_out": [scores(reduced(base + times * answered)) for base, times in HELD_OUT],
        "best_dependence": min(
            (scores(reduced(depends)) for depends in FINE), key=lambda found: found["log_loss"]
        ),
        "best_fit": scores(by_fit),
    }


def held_out_dependence(votes: VoteMatrix) -> float:
    """Return the dependence that predicts answers best from the other answers to their items.

    Dawid-Skene learns from four fifths of the answers; the others are predicted.
    """
    rng = np.random.default_rng(0)
    fold, losses = rng.integers(0, FOLDS, votes.n_votes), np.zeros(len(FINE))
    answers = pl.DataFrame(
        {
            "item": pl.Series(votes.ids.tolist()).gather(votes.item_index),
            "voter": pl.Series(votes.voters).gather(votes.voter_index),
            "label": pl.Series(votes.labels.names).gather(votes.class_index),
        }
    )
    for k in range(FOLDS):
        part = VoteMatrix.from_long(
            answers.filter(fold != k),
            item="item",
            voter="voter",
            label="label",
            labels=votes.labels,
            items=votes.ids.tolist(),
            voters=votes.voters,
        )
        model = REGISTRY[METHODS[0]].cls().fit(part)
        evidence = model.log_evidence(part, model.predict_proba(part))
        held = np.flatnonzero((fold == k) & part.covered[votes.item_index])[:MOST_HELD_OUT]
        item = votes.item_index[held]
        confusions = model.confusions_[votes.voter_index[held], :, votes.class_index[held]]
        for place, depends in enumerate(FINE):
            share = independent_share(part.votes_per_item[item].astype(float), float(depends))
            known = normalized_exp(evidence[item] * share[:, None])
            losses[place] -= np.log((known * confusions).sum(axis=1)).sum()
    return float(FINE[losses.argmin()])


def judged(proba: Array, gold: npt.NDArray[np.int64]) -> dict[str, float]:
    """Return the scores of confidences.

    >>> judged(np.array([[0.8, 0.2], [0.6, 0.4]]), np.array([0, 1]))["ece"].round(2)
    0.4
    """
    right = proba.argmax(axis=1) == gold
    sure = proba.max(axis=1)
    of_gold = proba[np.arange(len(gold)), gold]
    return {
        "ece": calibration_error(sure, right),
        "log_loss": float(-np.log(np.maximum(of_gold, 1e-12)).mean()),
        "brier": float((np.square(proba).sum(axis=1) - 2 * of_gold + 1).mean()),
        "confidence": float(sure.mean()),
    }


def calibration_error(sure: Array, right: npt.NDArray[np.bool_]) -> float:
    """Return the mean distance of confidence and accuracy over bins, weighted by their items."""
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(bins, sure - right, minlength=BINS)).sum() / len(sure))


def floor(sure: Array) -> float:
    """Return the mean calibration error if every confidence were exactly right."""
    rng = np.random.default_rng(0)
    return float(
        np.mean([calibration_error(sure, rng.random(len(sure)) < sure) for _ in range(50)])
    )


def with_gold(
    model: LabelModel, votes: VoteMatrix, proba: Array, gold: npt.NDArray[np.int64], n_known: int
) -> dict[str, float] | None:
    """Return the mean ECE and floor of the other items, calibrated by random gold items."""
    known = np.flatnonzero((gold >= 0) & votes.covered)
    if len(known) < n_known + LEAST_REST:
        return None
    rng, found = np.random.default_rng(0), []
    for _ in range(DRAWS):
        drawn = rng.choice(known, n_known, replace=False)
        shown = np.full(len(gold), -1)
        shown[drawn] = gold[drawn]
        rest = np.setdiff1d(known, drawn)
        calibration = fit_calibration(model, votes, proba, shown)
        sure = calibrated_proba(model, votes, proba, calibration)[rest]
        found.append((judged(sure, gold[rest])["ece"], floor(sure.max(axis=1))))
    error, chance = np.mean(found, axis=0)
    return {"ece": float(error), "floor": float(chance)}


def workers(run: Run) -> Record:
    """Return how often the intervals of workers hold the truth, before and after."""
    votes, gold = crowd(run.dataset, gold_items_only=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WieselWarning)
        model = REGISTRY[run.method].cls().fit(votes)
        proba = model.predict_proba(votes)
    n_answers = np.bincount(votes.voter_index, minlength=votes.n_voters)
    right = votes.class_index == gold[votes.item_index]
    share = np.bincount(votes.voter_index, right, minlength=votes.n_voters) / np.maximum(
        n_answers, 1
    )
    truth = {
        name: float(value)
        for name, value, n in zip(votes.voters, share, n_answers, strict=True)
        if n >= LEAST_ANSWERS
    }
    found: Record = {"n": len(truth)}
    for title, calibration in (("before", None), ("after", WITHOUT_GOLD)):
        frame = judge_workers(model, votes, proba, calibration=calibration).frame
        rows = [row for row in frame.iter_rows(named=True) if row["worker"] in truth]
        rows = [row for row in rows if row["low"] is not None]
        held = [row["low"] <= truth[row["worker"]] <= row["high"] for row in rows]
        found[title] = float(np.mean(held))
        found[f"width_{title}"] = float(np.mean([row["high"] - row["low"] for row in rows]))
    return found


def generated(kind: str, seed: int) -> Crowd:
    """Return 1,000 items, 60 workers with accuracies of 0.55 to 0.95, five answers to an item.

    Of hard items (30 %), answers are random for everybody. Of misleading items (10 %), each worker
    gives the same wrong answer with a probability of 0.7.
    """
    rng = np.random.default_rng(seed)
    n_items, n_workers, n_classes, each = 1000, 60, 3, 5
    gold = rng.integers(0, n_classes, n_items)
    lure = (gold + rng.integers(1, n_classes, n_items)) % n_classes
    accuracy = rng.uniform(0.55, 0.95, n_workers)
    hard = rng.random(n_items) < (0.3 if kind == "hard items" else 0.0)
    misleading = rng.random(n_items) < (0.1 if kind == "misleading items" else 0.0)
    dense = np.full((n_items, n_workers), -1)
    for item in range(n_items):
        asked = rng.choice(n_workers, each, replace=False)
        wrong = (gold[item] + rng.integers(1, n_classes, each)) % n_classes
        said = np.where(rng.random(each) < accuracy[asked], gold[item], wrong)
        if hard[item]:
            said = rng.integers(0, n_classes, each)
        if misleading[item]:
            said = np.where(rng.random(each) < 0.7, lure[item], said)
        dense[item, asked] = said
    return Crowd(VoteMatrix.from_dense(dense, [f"class {c}" for c in range(n_classes)]), gold)


def show(records: Sequence[Record], effort: Effort) -> None:
    """Write the choice, the table of the sets, other methods and the generated crowds."""
    half = halves()
    real = [r for r in records if r["dataset"] in half and r["method"] != OTHERS]
    skene = [r for r in real if r["method"] == METHODS[0]]
    others = [r for r in records if r["method"] == OTHERS]
    lines = ["## The choice", "", _grid(skene, half), ""]
    lines += ["## Dawid-Skene, set by set", "", _sets(skene, half), ""]
    error, held = _mean(skene, _after), _mean(skene, _held)
    beyond = error - _mean(skene, _floor)
    lines += [
        _known(skene),
        "",
        "## Other reductions",
        "",
        _others(others, skene, half),
        "",
        "Parameters have the best log loss on the *choose* half. The dependence by held-out "
        "answers is that which predicts answers best from other answers (Dawid-Skene fitted "
        "without them), times a factor, plus a constant. The last two rows know the gold of each "
        "set.",
        "",
        "## Is it enough?",
        "",
        f"ECE of at most 0.03 on average is {_met(error <= 0.03)} without gold: {error:.3f}, of "
        f"which {_mean(skene, _floor):.3f} is the floor, so {beyond:.3f} beyond chance. The best "
        f"dependence of each set would leave {_mean(skene, _best):.3f}, its best slope and shift "
        f"{_mean(others, lambda r: r['best_fit']['ece']):.3f}: only who knows the gold of a set "
        "can be below 0.03. "
        f"Intervals that hold for at least 93 % of the workers are {_met(held >= 0.93)}: "
        f"{held:.1%}. Labels, "
        "and so their accuracy, do not change. Answers cannot show that most workers share a "
        f"mistake: the mean confidence of a set is {_mean(skene, _offset):.3f} away from its "
        "accuracy, up or down, and no statistic of the answers that we tried (agreement, alpha, "
        "held-out answers, number of classes and of answers; shares of votes mixed into the "
        "confidences) predicts the difference for a set that was left out. Known items can: the "
        "accuracy of n of them is "
        "off by 0.3 / sqrt(n) or so, 0.04 with 50.",
        "",
        "## Other methods, all sets",
        "",
        _methods(real),
        "",
        "## Generated crowds",
        "",
        _generated([r for r in records if r["dataset"] in GENERATED]),
    ]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def _before(record: Record) -> float:
    return float(record["by_dependence"]["None"]["ece"])


def _after(record: Record) -> float:
    return float(record["by_dependence"][str(DEPENDENCE)]["ece"])


def _best(record: Record) -> float:
    grid = [record["by_dependence"][str(each)] for each in GRID]
    return float(min(grid, key=lambda scores: scores["log_loss"])["ece"])


def _offset(record: Record) -> float:
    found = record["by_dependence"][str(DEPENDENCE)]
    return abs(float(found["confidence"]) - float(record["accuracy"]))


def _with_gold(record: Record) -> float:
    found = record["with_gold"][str(KNOWN[0])]
    return float("nan") if found is None else float(found["ece"])


def _known(records: Sequence[Record]) -> str:
    """The error by number of known items, on the sets that have as many."""
    rows = []
    for n in KNOWN:
        own = [r for r in records if r["with_gold"][str(n)] is not None]
        error = np.mean([r["with_gold"][str(n)]["ece"] for r in own])
        chance = np.mean([r["with_gold"][str(n)]["floor"] for r in own])
        cells = [f"{_mean(own, _after):.3f}", f"{error:.3f}", f"{chance:.3f}"]
        rows.append([str(n), str(len(own)), *cells, f"{error - chance:.3f}"])
    head = ["known items", "sets", "ECE without them", "ECE", "floor", "beyond chance"]
    return markdown_table(head, rows)


def _floor(record: Record) -> float:
    return float(record["floor"])


def _held(record: Record) -> float:
    return float(record["workers"]["after"])


def _mean(records: Sequence[Record], of: Callable[[Record], float]) -> float:
    return float(np.mean([of(record) for record in records])) if records else float("nan")


def _met(is_met: bool) -> str:
    return "met" if is_met else "**not met**"


def _grid(records: Sequence[Record], half: Mapping[str, str]) -> str:
    rows = []
    for dependence in (None, *GRID):
        cells = []
        for part in ("choose", "confirm"):
            own = [
                r["by_dependence"][str(dependence)] for r in records if half[r["dataset"]] == part
            ]
            cells += [
                f"{np.mean([r[name] for r in own]):.3f}" if own else UNKNOWN
                for name in ("log_loss", "brier", "ece")
            ]
        title = "the model's own" if dependence is None else f"{dependence:g}"
        rows.append([f"**{title}**" if dependence == DEPENDENCE else title, *cells])
    scores = ("log loss", "Brier", "ECE")
    names = [f"{name}, {part}" for part in ("choose", "confirm") for name in scores]
    return markdown_table(["dependence", *names], rows)


def _sets(records: Sequence[Record], half: Mapping[str, str]) -> str:
    rows = []
    for part in ("choose", "confirm"):
        own = [r for r in records if half[r["dataset"]] == part]
        rows += [[r["dataset"], part, f"{r['n_items']:,}", *_cells([r])] for r in own]
        rows.append([f"**mean, {part}**", "", "", *_cells(own)])
    rows.append(["**mean**", "", "", *_cells(records)])
    head = ["set", "half", "gold items", "accuracy", "confidence before", "after", "ECE before"]
    head += [
        "after",
        f"{KNOWN[0]} known",
        "floor",
        "intervals hold, before",
        "after",
        "width after",
    ]
    return markdown_table(head, rows)


def _cells(records: Sequence[Record]) -> list[str]:
    default = str(DEPENDENCE)
    return [
        f"{_mean(records, lambda r: r['accuracy']):.3f}",
        f"{_mean(records, lambda r: r['by_dependence']['None']['confidence']):.3f}",
        f"{_mean(records, lambda r: r['by_dependence'][default]['confidence']):.3f}",
        f"{_mean(records, _before):.3f}",
        f"{_mean(records, _after):.3f}",
        f"{_mean(records, _with_gold):.3f}",
        f"{_mean(records, lambda r: r['floor']):.3f}",
        f"{_mean(records, lambda r: r['workers']['before']):.0%}",
        f"{_mean(records, _held):.0%}",
        f"{_mean(records, lambda r: r['workers']['width_after']):.2f}",
    ]


def _others(records: Sequence[Record], skene: Sequence[Record], half: Mapping[str, str]) -> str:
    """The best of each family by log loss on the choose half, and what it has on the other."""
    if not records:
        return UNKNOWN
    parts = {part: [r for r in records if half[r["dataset"]] == part] for part in PARTS}

    def means(part: str, of: Callable[[Record], Mapping[str, float]]) -> list[float]:
        return [float(np.mean([of(r)[name] for r in parts[part]])) for name in SCORES]

    default = {r["dataset"]: r["by_dependence"][str(DEPENDENCE)] for r in skene}
    families: dict[str, Callable[[Record], Mapping[str, float]]] = {
        f"dependence of {DEPENDENCE:g}, the default": lambda r: default[r["dataset"]]
    }
    named = (
        ("powers", "evidence times answers ** -{:g}", [(p,) for p in POWERS]),
        ("mixed", "dependence of {:g}, {:.0%} vote shares", MIXED),
        ("by_held_out", "dependence of {:g} + {:g} x by held-out answers", HELD_OUT),
    )
    for key, title, values in named:
        at = [means("choose", lambda r, k=key, p=place: r[k][p])[0] for place in range(len(values))]
        best = int(np.argmin(at))
        families[title.format(*values[best])] = lambda r, k=key, p=best: r[k][p]
    families["best dependence of each set"] = lambda r: r["best_dependence"]
    families["best slope and shift of each set"] = lambda r: r["best_fit"]
    rows = [
        [title, *(f"{value:.3f}" for part in PARTS for value in means(part, of))]
        for title, of in families.items()
    ]
    names = [f"{name}, {part}" for part in PARTS for name in ("log loss", "Brier", "ECE")]
    return markdown_table(["", *names], rows)


def _methods(records: Sequence[Record]) -> str:
    rows = []
    for method in METHODS:
        own = [r for r in records if r["method"] == method]
        if own:
            rows.append([method, *_cells(own)])
    head = ["method", "accuracy", "confidence before", "after", "ECE before", "after"]
    head += [f"{KNOWN[0]} known", "floor", "intervals hold, before", "after", "width after"]
    return markdown_table(head, rows)


def _generated(records: Sequence[Record]) -> str:
    rows = []
    for kind in GENERATED:
        own = [r for r in records if r["dataset"] == kind]
        if own:
            errors = (_before, _after, _with_gold)
            cells = [f"{_mean(own, of):.3f}" for of in errors]
            rows.append([kind, f"{_mean(own, lambda r: r['accuracy']):.3f}", *cells])
    return markdown_table(
        ["1,000 items, 5 answers", "accuracy", "ECE before", "after", f"{KNOWN[0]} known"], rows
    )


if __name__ == "__main__":
    main(sys.argv[1:])
