"""The findings of a project: what its votes, its gold labels and its class balance show."""

import numpy as np
import polars as pl

from wiesel import VoteMatrix
from wiesel.datasets import make_votes
from wiesel.io import Split
from wiesel.project.insights import project_findings


def kinds(votes: VoteMatrix, gold=None, class_balance=None) -> dict[str, str]:
    """The sentences of the findings by kind; `gold` are the labels of dev rows with these votes."""
    rows = pl.DataFrame({"id": [str(item) for item in range(votes.n_items)]})
    splits = {"train": Split(rows, np.full(votes.n_items, -1))}
    by_split = {"train": votes}
    if gold is not None:
        splits["dev"], by_split["dev"] = Split(rows, gold), votes
    found = project_findings(by_split, splits, class_balance=class_balance)
    return {each.kind: each.sentence for each in found}


def votes_and_gold(*balance: float) -> tuple[VoteMatrix, np.ndarray]:
    return make_votes(
        400, n_voters=6, n_classes=len(balance), accuracies=0.8, class_balance=balance, seed=1
    )


def test_an_unknown_balance_is_asked_for():
    votes, gold = votes_and_gold(0.5, 0.3, 0.2)
    sentence = kinds(votes)["unknown_balance"]
    assert "the shares of the 3 classes are guessed from the votes, with 'class_0' at" in sentence
    assert "set class_balance under [training]" in sentence
    assert "unknown_balance" not in kinds(votes, gold)
    assert "unknown_balance" in kinds(votes, np.full_like(gold, -1)), "nobody labeled the dev rows"
    assert "unknown_balance" not in kinds(votes, class_balance="votes")
    assert "of the 2 classes" in kinds(votes_and_gold(0.6, 0.4)[0])["unknown_balance"]


def test_members_of_a_committee_that_disagree_are_named_with_what_settles_it():
    votes, _ = votes_and_gold(0.5, 0.3, 0.2)
    rows = pl.DataFrame({"id": [str(item) for item in range(votes.n_items)]})
    given = {"train": votes}, {"train": Split(rows, np.full(votes.n_items, -1))}
    (found, *_) = project_findings(*given, agreement=0.7)
    assert found.kind == "members_disagree"
    assert "for only 70.0 % of the rows with votes" in found.sentence
    assert "Label 20 rows, or set class_balance" in found.sentence
    kinds_of = [{each.kind for each in project_findings(*given, agreement=a)} for a in (0.9, None)]
    assert "members_disagree" not in kinds_of[0] | kinds_of[1]


def test_the_balance_of_the_project_is_compared_with_the_votes():
    votes, gold = votes_and_gold(0.5, 0.3, 0.2)
    far, near = {"class_0": 0.1, "class_1": 0.1, "class_2": 0.8}, [0.5, 0.3, 0.2]
    assert "by the class balance given, 80.0 %" in kinds(votes, class_balance=far)["class_balance"]
    assert not {"class_balance", "unknown_balance"} & kinds(votes, class_balance=near).keys()
    assert "class_balance" not in kinds(votes, gold, far), "gold labels are better evidence"
