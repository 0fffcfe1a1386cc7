"""Rows with ids in any order: the answer is that of ordered rows, or a clear error."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import pytest
import torch
from attacks import Tally, tries
from sklearn.linear_model import LogisticRegression

from wiesel import (
    Committee,
    MajorityVote,
    Supervised,
    TwoStage,
    VoteMatrix,
    WeaSEL,
    compare,
    evaluate,
)
from wiesel.analysis import disagreements, findings, summarize
from wiesel.analysis.buckets import label_buckets
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end import FeatureEM, GoldWeighted, ImplyLoss
from wiesel.end_to_end.blind_choice import out_of_sample_proba
from wiesel.evaluation import compare_paired
from wiesel.guidance import blame, preview_end_model, rows_to_label, suggest_lfs, uncovered_clusters
from wiesel.guidance.feature_findings import feature_findings
from wiesel.guidance.labeling_order import reading_disagreement
from wiesel.label_models import calibrate_votes
from wiesel.multilabel import MultiLabelVotes, PerLabel
from wiesel.nn import Linear
from wiesel.tables import in_order_of

pytestmark = pytest.mark.filterwarnings("ignore")

N = 40
TOLD, GOLD = make_votes(N, n_voters=4, coverage=0.7, seed=3)
NAMES = TOLD.labels.names
VECTORS = make_features(GOLD, n_features=3, seed=3)
TEXTS = np.array([f"{NAMES[known]} message about {row % 5}" for row, known in enumerate(GOLD)])
FEW = np.where(np.arange(N) < 12, np.array(NAMES)[GOLD], None)
with torch.random.fork_rng():
    torch.manual_seed(0)  # every try is the same on every machine
    NET = Linear(3, 2)
QUICK = {"epochs": 1, "epoch_size": 64, "weight_average": None, "progress": False}


class Given(NamedTuple):
    """What an entrance is given: votes, and the rows that come with them."""

    votes: VoteMatrix
    X: Any
    y: Any
    few: Any
    rows: Any


class Entrance(NamedTuple):
    """Something that takes rows from two sources."""

    call: Callable[[Given], Any]
    uses: tuple[str, ...]
    """What it reads; the first decides the order of the rows."""
    columns: bool = False
    """Whether a table may name its rows in a column."""


@dataclass
class Entrances:
    """The entrances by name."""

    known: dict[str, Entrance] = field(default_factory=dict)

    def of(self, *uses: str, columns: bool = False) -> Callable[[Any], Any]:
        def note(call: Callable[[Given], Any]) -> Callable[[Given], Any]:
            self.known[call.__name__] = Entrance(call, uses, columns)
            return call

        return note


ENTRANCES = Entrances()
entrance = ENTRANCES.of


@cache
def fitted() -> Any:
    return TwoStage(MajorityVote(), LogisticRegression()).fit(VECTORS, TOLD)


@cache
def two_networks() -> tuple[Any, Any]:
    options = {"labels": TOLD.labels, **QUICK}
    return tuple(Supervised(NET, lr=lr, **options).fit(VECTORS, GOLD) for lr in (0.01, 0.3))


def proba(model: Any) -> Any:
    return model.predict_proba(VECTORS)


@entrance("votes", "X", columns=True)
def matched(given: Given) -> Any:
    return np.asarray(in_order_of(given.votes, given.X, "X", drop_ids=True), dtype=float)


@entrance("votes", "X", columns=True)
def fit_two_stage(given: Given) -> Any:
    return proba(TwoStage(MajorityVote(), LogisticRegression()).fit(given.X, given.votes))


@entrance("votes", "X", "y")
def fit_with_validation(given: Given) -> Any:
    model = TwoStage(MajorityVote(), NET, **QUICK)
    validation = (given.X, given.y, given.votes)
    return proba(model.fit(given.X, given.votes, validation=validation))


@entrance("votes", "X")
def fit_weasel(given: Given) -> Any:
    model = WeaSEL(NET, warm_up=1, **QUICK).fit(given.X, given.votes)
    return [proba(model), model.accuracies(given.X, given.votes)]


@entrance("votes", "X")
def fit_committee(given: Given) -> Any:
    model = Committee(NET, networks=1, **QUICK).fit(given.X, given.votes)
    return [proba(model), model.soft_labels(given.X, given.votes)]


@entrance("votes", "X", "few")
def fit_rules(given: Given) -> Any:
    return proba(ImplyLoss(NET, **QUICK).fit(given.X, given.votes, gold=given.few))


@entrance("votes", "X")
def features_em(given: Given) -> Any:
    return FeatureEM().fit_predict_proba(given.votes, X=given.X)


@entrance("votes", "X", "y")
def gold_weighted(given: Given) -> Any:
    gold = (given.votes, given.y)
    return GoldWeighted().fit_predict_proba(given.votes, X=given.X, gold=gold)


@entrance("votes", "X")
def out_of_sample(given: Given) -> Any:
    model = TwoStage(MajorityVote(), LogisticRegression())
    return out_of_sample_proba(model, given.X, given.votes, folds=2)


@entrance("X", "y")
def supervised(given: Given) -> Any:
    return proba(Supervised(NET, labels=TOLD.labels, **QUICK).fit(given.X, given.y))


@entrance("X", "y")
def supervised_as_classifier(given: Given) -> Any:
    model = Supervised(NET, labels=TOLD.labels, **QUICK).as_classifier()
    model.fit(given.X, given.y)
    return [proba(model), model.score(given.X, given.y)]


@entrance("X", "y")
def fine_tuned(given: Given) -> Any:
    model = TwoStage(MajorityVote(), NET, **QUICK).fit(VECTORS, TOLD)
    model.fine_tune(given.X, given.y)
    return proba(model)


@entrance("votes", "X", "y")
def evaluated(given: Given) -> Any:
    return evaluate(fitted(), given.X, given.y, given.votes, n_resamples=0).to_dict()


@entrance("votes", "y")
def label_model_evaluated(given: Given) -> Any:
    model = MajorityVote().fit(given.votes)
    return [
        evaluate(model, given.votes, given.y, n_resamples=0).to_dict(),
        model.score(given.votes, given.y),
    ]


@entrance("X", "y")
def scored(given: Given) -> Any:
    return [fitted().score(given.X, given.y), fitted().as_classifier().score(given.X, given.y)]


@entrance("X", "votes")
def scored_on_votes(given: Given) -> Any:
    return fitted().score(given.X, given.votes)


@entrance("X", "y")
def compared_in_pairs(given: Given) -> Any:
    return compare_paired(*two_networks(), given.X, given.y, n_resamples=5).to_dict()


@entrance("votes", "X", "y")
def compared(given: Given) -> Any:
    methods = {"majority_vote": {"epochs": 1, "members": 1}}
    options = {"end_model": "linear", "validation": (given.X, given.y)}
    found = compare(methods, given.X, given.votes, test=(given.X, given.y), **options)
    # Resamples of the test items depend on their order, which is that of X.
    return found.frame.drop("seconds", cs.ends_with("_low", "_high"))


@entrance("votes", "y")
def summaries(given: Given) -> Any:
    return [each(given.votes, gold=given.y).frame for each in (summarize, findings)]


@entrance("votes", "few")
def calibrated(given: Given) -> Any:
    return calibrate_votes(given.votes, given.few).distribution


@entrance("votes", "rows", "y", columns=True)
def shown_disagreements(given: Given) -> Any:
    return disagreements(given.votes, given.rows, gold=given.y)["text", "gold"]


@entrance("votes", "rows", "y", columns=True)
def bucketed(given: Given) -> Any:
    found = label_buckets(given.rows, gold=given.y, votes=given.votes).frame
    return found["text", "gold"]


@entrance("votes", "X", "few", columns=True)
def previewed(given: Given) -> Any:
    found = preview_end_model(given.X, given.votes, given.few)
    return [found.proba, found.soft_labels, reading_disagreement(given.votes, given.X, given.few)]


@entrance("votes", "X", "few", columns=True)
def to_label(given: Given) -> Any:
    return rows_to_label(given.votes, given.X, gold=given.few, n=6).frame["score"]


@entrance("votes", "X", "few")
def blamed(given: Given) -> Any:
    found = blame(given.X, given.votes, 3, gold=given.few)
    return [found.proba, found.without(voters=[TOLD.voters[0]])]


@entrance("votes", "X", columns=True)
def clustered(given: Given) -> Any:
    found = uncovered_clusters(given.X, given.votes.select([TOLD.voters[0]]), n_clusters=2)
    return [group.rows for group in found]


@entrance("votes", "X", columns=True)
def found_in_features(given: Given) -> Any:
    return [each.sentence for each in feature_findings(given.X, given.votes)]


@entrance("votes", "rows", "few", "X", columns=True)
def suggested(given: Given) -> Any:
    found = suggest_lfs(given.rows, given.votes, gold=given.few, features=given.X, column="text")
    return found.table.frame


@entrance("votes", "y")
def several_labels(given: Given) -> Any:
    dense = given.votes.dense()
    votes = MultiLabelVotes.from_dense(
        np.stack([dense, 1 - np.abs(dense)], axis=2), ["a", "b"], ids=given.votes.ids
    )
    gold = np.asarray(given.y) == NAMES[1]
    if hasattr(given.y, "index"):
        gold = pd.DataFrame({"a": gold, "b": ~gold}, index=given.y.index) * 1
    else:
        gold = np.stack([gold, ~gold], axis=1) * 1
    model = PerLabel(MajorityVote()).fit(votes)
    report = evaluate(model, votes, gold, n_resamples=0)
    return [votes.summary(gold).frame, report.exact_match, report.micro_f1]


# The ids.


def moment(number: int) -> Any:
    return pd.Timestamp("2026-01-01") + pd.Timedelta(hours=number)


KINDS: dict[str, Callable[[random.Random, list[int]], list[Any]]] = {
    "numbers": lambda rng, numbers: numbers,
    "text": lambda rng, numbers: [f"m{number}" for number in numbers],
    "numbers as text": lambda rng, numbers: [str(number) for number in range(N)],
    "counting in another order": lambda rng, numbers: rng.sample(range(N), N),
    "large numbers": lambda rng, numbers: [2**60 + number for number in range(N)],
    "fractions": lambda rng, numbers: [number / 8 for number in numbers],
    "dates": lambda rng, numbers: [moment(number) for number in numbers],
    "text and numbers": lambda rng, numbers: [n if n % 2 else str(n) for n in numbers],
    "odd text": lambda rng, numbers: [
        "." * row + " " + rng.choice(("\xe4", "a\u0308", ",", "id", "nan")) for row in range(N)
    ],
}
"""What names the rows."""
MAY_BE_POSITIONS = ("counting in another order",)
"""Ids that could be positions: refused where another table only counts its rows."""


def damage(ids: list[Any], how: str, rng: random.Random) -> tuple[list[Any], list[int]]:
    """Other ids, and which rows have them."""
    rows = list(range(N))
    rng.shuffle(rows)
    if how == "subset":
        rows = rows[: rng.randrange(1, N)]
    if how == "repeated":
        rows += rng.choices(rows, k=rng.randrange(1, 4))
    found = [ids[row] for row in rows]
    if how == "extra":
        rows.append(0)
        found.append("another" if isinstance(ids[0], str) else ids[0].__class__(10**7))
    if how == "renamed":
        place = rng.randrange(N)
        found[place] = ids[0].__class__(10**7) if not isinstance(ids[0], str) else "another"
    if how == "repeated instead":
        first, second = rng.sample(range(N), 2)
        found[first] = found[second]
    if how == "other type":
        found = [hash(each) if isinstance(each, str) else f"{each}" for each in found]
    return found, rows


DAMAGES = ("subset", "repeated", "extra", "renamed", "repeated instead", "other type")


def carrier(name: str, ids: list[Any], rows: list[int], form: str) -> Any:
    """Rows with ids: in an index, or in a column of a table of pandas, Polars or Arrow."""
    if name == "votes":
        return VoteMatrix.from_dense(TOLD.dense()[rows], TOLD.labels, TOLD.voters, ids)
    index = pd.Index(np.array(ids, dtype=object) if len(set(map(type, ids))) > 1 else ids)
    if name in ("y", "few"):
        values = FEW if name == "few" else np.array(NAMES, dtype=object)[GOLD]
        return pd.Series(values[rows], index=index)
    if name == "rows":
        frame = pd.DataFrame({"text": TEXTS[rows]})
    else:
        frame = pd.DataFrame(VECTORS[rows], columns=list("abc"))
    if form == "index" or len(set(map(type, ids))) > 1:
        return frame.set_index(index)
    table = frame.assign(**{"id" if form != "polars" else "key": index})
    if form == "pandas":
        return table
    found = pl.from_pandas(table)
    return found.to_arrow() if form == "arrow" else found


def by_position() -> Given:
    rows = pl.DataFrame({"text": TEXTS})
    return Given(TOLD, VECTORS, np.array(NAMES, dtype=object)[GOLD], FEW, rows)


@cache
def ordered(name: str) -> Any:
    """The answer on rows without ids, in the order of the votes."""
    return plain(ENTRANCES.known[name].call(by_position()))


def plain(answer: Any) -> Any:
    """An answer as lists, to be compared."""
    if isinstance(answer, pl.DataFrame):
        return answer.to_dict(as_series=False)
    if isinstance(answer, dict):
        return {key: plain(value) for key, value in answer.items()}
    if isinstance(answer, (list, tuple)):
        return [plain(part) for part in answer]
    if hasattr(answer, "to_list"):
        return answer.to_list()
    return answer.tolist() if hasattr(answer, "tolist") else answer


def test_shuffled_ids() -> None:
    tally = Tally("shuffled ids")
    names = sorted(ENTRANCES.known)
    for number, rng in enumerate(tries("shuffled ids", least=len(names))):
        name = names[number % len(names)]
        case = random_case(name, rng)
        found = tally.attempt((name, case.kind, case.what), case.answer)
        told = f"{name}, ids: {case.kind}, {case.what}"
        if found is None:
            assert case.what != "shuffled" or case.kind in MAY_BE_POSITIONS, f"{told}: refused"
        else:
            assert case.what == "shuffled", f"{told}: taken for the same rows"
            assert agree(plain(found), ordered(name)), told
    tally.report()


def agree(found: Any, wanted: Any) -> bool:
    """Whether two answers are the same, but for the order in which numbers were added."""
    if isinstance(wanted, float) and isinstance(found, float):
        return bool(np.isclose(found, wanted, rtol=1e-3, atol=1e-5, equal_nan=True))
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(agree(found[k], wanted[k]) for k in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(agree, found, wanted))
    return bool(found == wanted)


class Case(NamedTuple):
    """What an entrance is tried with."""

    answer: Callable[[], Any]
    kind: str
    what: str


def random_case(name: str, rng: random.Random) -> Case:
    own, kind = ENTRANCES.known[name], rng.choice(sorted(KINDS))
    ids = KINDS[kind](rng, rng.sample(range(5, 10**6), N))
    what, victim = "shuffled", ""
    if rng.random() < 0.4:
        what, victim = rng.choice(DAMAGES), rng.choice(own.uses[1:])

    def answer() -> Any:
        parts = dict(carriers(own, ids, rng, what, victim))
        return own.call(by_position()._replace(**parts))

    return Case(answer, kind, f"{what} {victim}".strip())


def carriers(
    own: Entrance, ids: list[Any], rng: random.Random, what: str, victim: str
) -> Iterator[tuple[str, Any]]:
    leader, *others = own.uses
    yield leader, carrier(leader, ids, list(range(N)), "index")
    for other in others:
        rows = rng.sample(range(N), N)
        found = [ids[row] for row in rows]
        forms = ["index"]
        if own.columns:
            forms += ["pandas", "polars", "arrow"]
        if other == victim:
            found, rows = damage(ids, what, rng)
            forms = [form for form in forms if form != "polars"]  # its column is not called `id`
        yield other, carrier(other, found, rows, rng.choice(forms))
