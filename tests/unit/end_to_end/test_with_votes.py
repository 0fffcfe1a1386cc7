"""Predictions use the votes where there are any."""

import numpy as np
import pytest

from wiesel import Committee, MajorityVote, TwoStage, VoteMatrix, load_model
from wiesel.datasets import make_panel
from wiesel.end_to_end import Stacked, WithVotes
from wiesel.end_to_end.committee import _check_vote_levels
from wiesel.errors import NotFittedError, ParameterError, SavedModelError, VoteError
from wiesel.nn import Linear

FAST = {"epochs": 3, "epoch_size": 3200, "lr": 0.02}


@pytest.fixture(scope="module")
def panel():
    votes, gold = make_panel(1500, 8, seed=1)
    noise = np.random.default_rng(1).standard_normal((1500, 4))
    X = (noise + 0.35 * (2 * gold[:, None] - 1)).astype(np.float32)  # 76 % at best
    label_model = Stacked().fit(votes, gold=(votes[:200], gold[:200]))
    model = TwoStage(MajorityVote(), Linear(4, 2), **FAST).fit(X[400:], votes[400:])
    return X, votes, gold, label_model, model


def right(proba: np.ndarray, gold: np.ndarray) -> float:
    return float((proba.argmax(axis=1) == gold).mean())


def test_both_together_are_better_than_either(panel) -> None:
    X, votes, gold, label_model, model = panel
    both = WithVotes(model, label_model).fit(X[200:400], votes[200:400], gold[200:400])
    rest = slice(400, None)
    together = right(both.predict_proba(X[rest], votes[rest]), gold[rest])
    assert together > right(model.predict_proba(X[rest]), gold[rest]) + 0.02
    assert together > right(label_model.predict_proba(votes[rest]), gold[rest]) + 0.015


def test_without_votes_it_is_the_model(panel) -> None:
    X, votes, gold, label_model, model = panel
    both = WithVotes(model, label_model).fit(X[:400], votes[:400], gold[:400])
    alone = model.predict_proba(X)
    assert np.allclose(both.predict_proba(X), alone)
    silent = VoteMatrix.from_proba(np.zeros((5, 8, 2)), votes.labels, votes.voters)
    assert np.allclose(both.predict_proba(X[:5], silent), alone[:5])
    assert set(both.predict(X[:9], votes[:9])) <= {"no", "yes"}


def test_a_model_that_knows_nothing_gets_no_weight(panel) -> None:
    X, votes, gold, label_model, model = panel
    noise = np.random.default_rng(0).standard_normal(X.shape).astype(np.float32) * 4
    both = WithVotes(model, label_model).fit(noise[:1000], votes[:1000], gold[:1000])
    assert both.levels_[0] < 0.15 < both.levels_[1]


def test_a_committee_predicts_its_gold_items_without_having_seen_them(panel) -> None:
    X, votes, gold, label_model, _ = panel
    committee = Committee(Linear(4, 2), members=[TwoStage(MajorityVote(), Linear(4, 2), **FAST)])
    committee.fit(X[100:], votes[100:], validation=(X[:100], gold[:100], votes[:100]))
    both = WithVotes(committee, label_model).fit(X[:100], votes[:100], gold[:100])
    assert both.predict_proba(X, votes).shape == (1500, 2)


def test_what_does_not_fit_is_refused(panel) -> None:
    X, votes, gold, label_model, model = panel
    both = WithVotes(model, label_model)
    with pytest.raises(NotFittedError):
        both.predict_proba(X)
    with pytest.raises(ParameterError, match="got none"):
        both.fit(X, votes, [None] * 1500)
    with pytest.raises(ParameterError, match="X has 10 items"):
        both.fit(X[:10], votes, gold)


@pytest.fixture(scope="module")
def committees(panel):
    """A committee without gold, and one that learned 100 gold items with votes."""
    X, votes, gold, _, _ = panel
    network = Linear(4, 2)
    alone = Committee(network, networks=1, **FAST).fit(X[100:900], votes[100:900])
    given = (X[:100], gold[:100], votes[:100])
    told = Committee(network, networks=1, **FAST).fit(X[100:900], votes[100:900], validation=given)
    return alone, told


def test_a_committee_uses_votes_on_new_items(panel, committees) -> None:
    X, votes, gold, _, _ = panel
    new = slice(900, None)
    for model in committees:
        with_them = right(model.predict_proba(X[new], votes[new]), gold[new])
        assert with_them > right(model.predict_proba(X[new]), gold[new]) + 0.015
        named = model.predict(X[new], votes=votes[new])
        assert (named == np.array(["no", "yes"])[gold[new]]).mean() == pytest.approx(with_them)
    alone, told = committees
    assert alone.vote_levels_ is None
    # Without gold: the square root of the product of both probabilities, normalized.
    product = np.sqrt(alone.predict_proba(X[new]) * alone.soft_labels(X[new], votes[new]))
    product /= product.sum(axis=1, keepdims=True)
    covered = votes[new].covered
    assert np.allclose(
        alone.predict_proba(X[new], votes[new])[covered], product[covered], atol=1e-4
    )
    levels, offsets = told.vote_levels_
    assert (levels >= 0).all()
    assert offsets.shape == (2,)


def test_items_without_votes_are_predicted_from_features(panel, committees) -> None:
    X, votes, _, _, _ = panel
    silent = VoteMatrix.from_proba(np.zeros((5, 8, 2)), votes.labels, votes.voters)
    for model in committees:
        assert np.allclose(model.predict_proba(X[:5], silent), model.predict_proba(X[:5]))


def test_what_a_committee_learned_about_votes_is_saved(panel, committees, tmp_path) -> None:
    X, votes, _, _, _ = panel
    for number, model in enumerate(committees):
        model.save(tmp_path / str(number))
        loaded = load_model(tmp_path / str(number))
        found = loaded.predict_proba(X[900:], votes[900:])
        assert np.allclose(found, model.predict_proba(X[900:], votes[900:]), atol=1e-6)


@pytest.mark.parametrize(
    "saved", [[[1, 1, 1], [0, 0]], [[1, 1], [0]], [[1, 1], [0, np.nan]], [[np.inf, 1], [0, 0]]]
)
def test_saved_levels_that_do_not_fit_are_refused(saved) -> None:
    with pytest.raises(SavedModelError, match="do not fit its classes"):
        _check_vote_levels(saved, 2)
    assert _check_vote_levels([[1, 2], [3, 4]], 2)[1].tolist() == [3, 4]


def test_votes_that_do_not_fit_are_refused(panel, committees) -> None:
    X, votes, _, _, _ = panel
    with pytest.raises(ParameterError, match=r"X has 10 items, the votes have 1,?500"):
        committees[0].predict_proba(X[:10], votes)
    with pytest.raises(VoteError, match="judge_7"):
        committees[0].predict_proba(X, votes.select(votes.voters[:7]))
    with pytest.raises(ParameterError, match="TwoStage predicts from X alone"):
        panel[4].predict(X, votes=votes)
