import itertools

import numpy as np
import pytest
from experiments.tasks.families import FamilyPlan
from experiments.tasks.rules import (
    Material,
    classifier_votes,
    keyword_rule,
    one_sided_votes,
    threshold_rule,
    worker_votes,
)
from experiments.tasks.specs import STYLES, VoterPlan
from experiments.tasks.voters import draw_votes
from scipy import sparse

N_ITEMS = 3000


def material(n_classes=3, seed=0):
    """Columns and words that tell classes apart, with noise."""
    generator = np.random.default_rng(seed)
    y = generator.integers(n_classes, size=N_ITEMS)
    X = np.eye(n_classes)[y].repeat(10, axis=1) + generator.normal(size=(N_ITEMS, 10 * n_classes))
    chance = 0.05 + 0.2 * np.eye(n_classes)[y].repeat(20, axis=1)
    words = sparse.csr_matrix(generator.random(chance.shape) < chance, dtype=np.int8)
    sample = generator.choice(N_ITEMS, 40 * n_classes, replace=False)
    return Material(y, n_classes, X.astype(np.float32), words, sample)


def precision(votes, of):
    return (votes == of.y)[votes >= 0].mean()


@pytest.mark.parametrize("rule", [keyword_rule, threshold_rule])
@pytest.mark.parametrize("aim", [(0.5, 0.1), (0.9, 0.05), (0.7, 0.2)])
def test_a_rule_names_one_class_with_the_precision_and_coverage_aimed_at(rule, aim):
    of, generator = material(), np.random.default_rng(1)
    votes = one_sided_votes(of, rule(of, 1, aim[1], generator), 1, aim, generator)
    assert set(votes) == {-1, 1}
    assert precision(votes, of) == pytest.approx(aim[0], abs=0.05)
    assert (votes >= 0).mean() == pytest.approx(aim[1], rel=0.3)


def test_keywords_fire_on_their_class_more_often_than_elsewhere():
    of = material()
    fires = keyword_rule(of, 2, 0.2, np.random.default_rng(0))
    assert fires[of.y == 2].mean() > 1.5 * fires[of.y != 2].mean()


@pytest.mark.parametrize("make", [classifier_votes, worker_votes])
def test_a_voter_of_any_class_reaches_its_aim(make):
    of = material()
    votes = make(of, (0.6, 0.3), np.random.default_rng(2))
    assert set(votes) == {-1, 0, 1, 2}
    assert precision(votes, of) == pytest.approx(0.6, abs=0.06)
    assert (votes >= 0).mean() == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("style", STYLES)
def test_all_styles_draw_as_many_voters_as_planned_and_cover_what_they_should(style):
    of, plan = material(), VoterPlan(style, 20, 0.7, 0.6, 100)
    votes = draw_votes(plan, of, np.random.default_rng(3))
    assert votes.shape == (N_ITEMS, 20)
    assert votes.dtype == np.int8
    assert (votes >= 0).any(axis=1).mean() == pytest.approx(0.6, abs=0.15)
    assert precision(votes, Material(of.y[:, None], 3, of.X, None, of.sample)) == pytest.approx(
        0.7, abs=0.1
    )


def test_one_sided_voters_name_every_class_between_them():
    votes = draw_votes(
        VoterPlan("keywords", 6, 0.7, 0.5, 100), material(), np.random.default_rng(0)
    )
    named = [set(column[column >= 0]) for column in votes.T]
    assert all(len(classes) == 1 for classes in named)
    assert set.union(*named) == {0, 1, 2}


def test_traps_are_what_they_are_called():
    of = material()
    plan = VoterPlan("crowd", 10, 0.8, 0.9, 100, copies=4, adversaries=1, constants=1)
    votes = draw_votes(plan, of, np.random.default_rng(5))
    assert sum(len(set(column)) == 1 for column in votes.T) == 1
    accuracy = np.array([precision(column, of) for column in votes.T])
    assert accuracy.min() < 0.2
    both = (votes[:, :, None] >= 0) & (votes[:, None, :] >= 0)
    same = ((votes[:, :, None] == votes[:, None, :]) & both).sum(0) / np.maximum(both.sum(0), 1)
    assert ((same > 0.999).sum(axis=1) >= 5).sum() == 5


def test_the_same_numbers_draw_the_same_votes():
    plan = VoterPlan("mixed", 12, 0.6, 0.5, 60)
    first, again, other = (
        draw_votes(plan, material(), np.random.default_rng(s)) for s in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()


def family_plan(**options):
    return FamilyPlan("keywords", 8, 0.7, 0.3, 100, **options)


def test_a_catch_all_alone_votes_for_its_class_where_no_other_does():
    of = material(4)
    plan = family_plan(unnamed="largest", catch_all=0.5)
    votes = draw_votes(plan, of, np.random.default_rng(0))
    largest = np.bincount(of.y).argmax()
    own = (votes == largest).any(axis=0)
    assert own.sum() == 1
    fires = votes[:, own][:, 0] >= 0
    assert fires.mean() == pytest.approx(0.5, abs=0.01)
    assert (votes[fires] >= 0).sum() == fires.sum()


def test_a_class_without_rules_is_named_by_nobody():
    of = material(4)
    votes = draw_votes(family_plan(unnamed="largest"), of, np.random.default_rng(0))
    assert set(np.unique(votes)) == {-1, 0, 1, 2, 3} - {np.bincount(of.y).argmax()}


def test_voters_with_a_shared_cause_agree_more_often_than_others():
    of = material(2)
    plans = [FamilyPlan("crowd", 8, 0.6, 0.9, 100, causes=causes) for causes in (0, 1)]
    free, shared = (draw_votes(plan, of, np.random.default_rng(0)) for plan in plans)

    def most_agreement(votes):
        return max((a == b).mean() for a, b in itertools.combinations(votes.T, 2))

    assert most_agreement(shared) > most_agreement(free) + 0.1
