"""Asking the crowd again where it helps: the accuracy of all answers, with 60 % of them.

    python -m experiments ask_next [--jobs N] [--recorded]

The answers of the shared crowds come in one by one. Every item starts with its share of 30 % of the
answers, at least one. In each round, a tenth of all answers is added: at random, to the items with
the fewest answers, to those whose labels are least certain, or as `wiesel ask-next` orders them:
first those from which most information about the class of an item is expected, given who would
answer. With the other orders, chance decides which of its remaining answers an item gets. After
each round, Dawid-Skene is fitted again. What follows from an order is measured on gold items.

The forecast of `ask-next` is compared with what happened: with n answers to every item, how much
more often are labels right after k further ones? The weight of an answer that follows others
(`REDUNDANCY`) is chosen on the *choose* half, so that the mean forecast is the mean gain.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run
from experiments.framework.tables import UNKNOWN, write_page
from experiments.tasks.crowds import SETS, crowd, halves
from wiesel import DawidSkene, VoteMatrix
from wiesel.errors import WieselWarning
from wiesel.guidance.asking import (
    REDUNDANCY,
    forecast_wrong,
    information,
    pooled_confusions,
    weight_after,
    worker_confusions,
)
from wiesel.label_models.confidence import calibrated_proba

STORE = "ask_next"
POLICIES = ("random", "fewest answers", "least certain", "ask-next")
FORECAST = "forecast"
START, STEP = 0.3, 0.1
SHARES = tuple(round(START + STEP * k, 1) for k in range(8))
REDUNDANCIES = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
LARGE = ("cifar10n", "sleep_dodh")
"""Only a sample of the items of these sets is asked about, to save time."""
MOST_ITEMS = 4000
FEW = ("cifar10n", "labelme", "product")
"""Sets with at most three answers to an item."""
Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    effort = Effort.parsed(argv, __doc__, full_seeds=3, reduced_seeds=2)
    names = [name for name in SETS if name not in LARGE] + list(LARGE)
    runs = [Run(name, FORECAST, 0) for name in names]
    for seed in range(effort.seeds):
        runs += [Run(name, policy, seed) for name in names for policy in POLICIES]
    show(effort.records(STORE, runs, execute), effort)


def execute(run: Run) -> Record:
    """Ask by one policy on one crowd, or forecast what further answers bring."""
    votes, gold = crowd(run.dataset)
    if votes.n_items > MOST_ITEMS and run.dataset in LARGE:
        some = np.sort(np.random.default_rng(0).permutation(votes.n_items)[:MOST_ITEMS])
        votes, gold = votes[some], gold[some]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WieselWarning)
        if run.method == FORECAST:
            return {"forecast": forecasts(votes, gold)}
        return {"accuracy": asked(votes, gold, run.method, run.seed)}


def asked(votes: VoteMatrix, gold: Indices, policy: str, seed: int) -> list[float]:
    """Return the accuracy at every share of the answers."""
    rng = np.random.default_rng(seed)
    luck = rng.random(votes.n_votes)
    place = _place_in_item(votes, luck)
    shown = place < 1
    rest = np.flatnonzero(~shown)
    missing = round(START * votes.n_votes) - int(shown.sum())
    if missing > 0:
        shown[rest[np.lexsort((luck[rest], place[rest]))[:missing]]] = True
    known = np.flatnonzero(gold >= 0)
    found = []
    for share in SHARES:
        wanted = round(share * votes.n_votes) - int(shown.sum())
        if wanted > 0:
            shown[_chosen(votes, shown, policy, wanted, luck)] = True
        model = DawidSkene().fit(_part(votes, shown))
        best = model.predict_proba(_part(votes, shown)).argmax(axis=1)
        found.append(float((best == gold)[known].mean()))
    return found


def _chosen(
    votes: VoteMatrix, shown: npt.NDArray[np.bool_], policy: str, wanted: int, luck: Array
) -> Indices:
    """The answers to add: first one of each item in the order of the policy, then the next."""
    rest = np.flatnonzero(~shown)
    if policy == "random":
        return rest[np.argsort(luck[rest])][:wanted]
    known = _part(votes, shown)
    value, order = -known.votes_per_item[votes.item_index].astype(np.float64), luck
    if policy != "fewest answers":
        model = DawidSkene().fit(known)
        sure = calibrated_proba(model, known, model.predict_proba(known))
        value = 1 - sure.max(axis=1)[votes.item_index]
        if policy == "ask-next":
            told = information(sure, worker_confusions(known, sure))
            value = told[votes.item_index, votes.voter_index]
            order = -value
    place = _place_in_item(votes, np.where(shown, np.inf, order))
    if policy == "ask-next":
        value = value * weight_after(known.votes_per_item[votes.item_index] + place)
        return rest[np.lexsort((luck[rest], -value[rest]))][:wanted]
    return rest[np.lexsort((luck[rest], -value[rest], place[rest]))][:wanted]


def _place_in_item(votes: VoteMatrix, order: Array) -> Indices:
    """The place of every answer among those to its item, by a value: 0 is the lowest."""
    by_item = np.lexsort((order, votes.item_index))
    place = np.empty(votes.n_votes, dtype=np.int64)
    place[by_item] = np.arange(votes.n_votes) - votes.indptr[votes.item_index[by_item]]
    return place


def _part(votes: VoteMatrix, shown: npt.NDArray[np.bool_]) -> VoteMatrix:
    n_shown = np.bincount(votes.item_index[shown], minlength=votes.n_items)
    return VoteMatrix(
        np.concatenate([[0], np.cumsum(n_shown)]),
        votes.voter_index[shown],
        votes.class_index[shown],
        votes.labels,
        votes.voters,
        votes.ids,
    )


def forecasts(votes: VoteMatrix, gold: Indices) -> list[Record]:
    """Return how much accuracy rose with further answers, and by how much each weight says so."""
    votes, gold = votes[gold >= 0], gold[gold >= 0]
    place = _place_in_item(votes, np.random.default_rng(0).random(votes.n_votes))
    found: list[Record] = []
    for n in (2, 4):
        known = _part(votes, place < n)
        model = DawidSkene().fit(known)
        proba = model.predict_proba(known)
        sure = calibrated_proba(model, known, proba)
        before = proba.argmax(axis=1) == gold
        for k in (1, 2, 4):
            items = np.flatnonzero(votes.votes_per_item >= n + k)
            if len(items) < 100:
                continue
            more = _part(votes, place < n + k)
            after = DawidSkene().fit(more).predict_proba(more).argmax(axis=1) == gold
            given = pooled_confusions(known, sure)
            expected = {}
            for weight in REDUNDANCIES:
                wrong = forecast_wrong(sure[items], given, np.full(len(items), float(n)), k, weight)
                expected[str(weight)] = float((wrong[:, 0] - wrong[:, k]).mean())
            gain = float(after[items].mean() - before[items].mean())
            found.append({"answers": n, "further": k, "gain": gain, "expected": expected})
    return found


def show(records: Sequence[Record], effort: Effort) -> None:
    """Write both tables."""
    half = halves()
    told = [r for r in records if r["method"] == FORECAST]
    curves = [r for r in records if r["method"] != FORECAST]
    lines = ["## Accuracy by share of the answers", "", _curves(curves), ""]
    lines += ["## At 60 %, set by set", "", _sets(curves, half), "", _verdict(curves), ""]
    lines += ["## What is forecast, and what happens", "", _forecasts(told, half)]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def _mean_at(records: Sequence[Record], share: float) -> float:
    place = SHARES.index(share)
    return float(np.mean([r["accuracy"][place] for r in records])) if records else float("nan")


def _curves(records: Sequence[Record]) -> str:
    rows = []
    for policy in POLICIES:
        own = [r for r in records if r["method"] == policy]
        rows.append([policy, *(f"{_mean_at(own, share):.2%}" for share in SHARES)])
    return markdown_table(["order", *(f"{share:.0%}" for share in SHARES)], rows)


def _sets(records: Sequence[Record], half: Mapping[str, str]) -> str:
    rows = []
    for name in dict.fromkeys(r["dataset"] for r in records):
        own = [r for r in records if r["dataset"] == name]
        by_policy = [[r for r in own if r["method"] == policy] for policy in POLICIES]
        cells = [f"{_mean_at(each, 0.6):.1%}" if each else UNKNOWN for each in by_policy]
        rows.append([name, half[name], *cells, f"{_mean_at(own, 1.0):.1%}"])
    return markdown_table(["set", "half", *POLICIES, "all answers"], rows)


def _verdict(records: Sequence[Record]) -> str:
    own = [r for r in records if r["method"] == "ask-next"]
    many = [r for r in own if r["dataset"] not in FEW]
    part, every = _mean_at(own, 0.6), _mean_at(own, 1.0)
    return (
        f"With 60 % of the answers, `ask-next` has {part:.2%} on average over the sets, all "
        f"answers have {every:.2%}. On the {len({r['dataset'] for r in many})} sets with more than "
        f"three answers to an item, {_mean_at(many, 0.6):.2%} and {_mean_at(many, 1.0):.2%}; of "
        f"three answers, 60 % are less than two ({', '.join(FEW)})."
    )


def _forecasts(records: Sequence[Record], half: Mapping[str, str]) -> str:
    rows = []
    for weight in REDUNDANCIES:
        cells = []
        for part in ("choose", "confirm"):
            pairs = [
                (each["gain"], each["expected"][str(weight)])
                for r in records
                if half[r["dataset"]] == part
                for each in r["forecast"]
            ]
            real, said = np.array(pairs).T
            cells += [
                f"{real.mean():+.3f}",
                f"{said.mean():+.3f}",
                f"{abs(said - real).mean():.3f}",
            ]
        title = f"**{weight:g}**" if weight == REDUNDANCY else f"{weight:g}"
        rows.append([title, *cells])
    names = [
        f"{name}, {part}"
        for part in ("choose", "confirm")
        for name in ("gain", "forecast", "off by")
    ]
    return markdown_table(["redundancy", *names], rows)


if __name__ == "__main__":
    main(sys.argv[1:])
