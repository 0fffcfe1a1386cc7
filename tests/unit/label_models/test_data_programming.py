"""Data programming: the factor graph, its exact sums, and what it learns."""

import itertools

import numpy as np
import pytest

from wiesel import (
    DataProgramming,
    Fixes,
    OneCoin,
    Prioritizes,
    Reinforces,
    VoteMatrix,
    load_model,
)
from wiesel.datasets.synthetic import make_votes
from wiesel.errors import ParameterError
from wiesel.label_models.data_programming import find_components, widened
from wiesel.label_models.pair_statistics import place_statistics
from wiesel.label_models.vote_products import one_hot_chunks

VOTERS = ("a", "b", "c", "d")


def component_of(*dependencies, n_classes=2):
    (component,) = find_components(dependencies, VOTERS, n_classes)
    return component


def value_of(kind, first, second, true):
    """The factor of ('kind', 'a', 'b') where a and b vote `first` and `second`."""
    component = component_of((kind, "a", "b"))
    state = component.states.tolist().index([first, second])
    return component.factors[-1, state, true]


@pytest.mark.parametrize(
    ("kind", "first", "second", "true", "value"),
    [
        ("similar", 0, 0, 1, 1),
        ("similar", -1, -1, 0, 1),
        ("similar", 0, 1, 0, 0),
        ("fixing", 0, 1, 1, 1),  # a is wrong and b fixes it
        ("fixing", 1, 1, 1, 0),
        ("fixing", -1, 1, 1, -1),
        ("fixing", -1, -1, 1, 0),
        ("reinforcing", 1, 1, 1, 1),
        ("reinforcing", 0, 0, 1, 0),
        ("reinforcing", -1, 0, 1, -1),
        ("exclusive", 0, 1, 0, -1),
        ("exclusive", 0, -1, 0, 0),
        ("prioritizes", 1, 0, 1, 1),
        ("prioritizes", 1, 0, 0, -1),
        ("prioritizes", 1, 1, 1, 0),
        ("prioritizes", -1, 0, 0, 0),
        ("prioritizes", 1, -1, 1, 0),
    ],
)
def test_dependencies_have_the_values_of_the_paper(kind, first, second, true, value):
    assert value_of(kind, first, second, true) == value


def test_statistics_are_the_factors_of_the_paper_with_the_fixing_voter_first():
    for statistic, dependency in (
        (Fixes("a", "b"), ("fixing", "b", "a")),
        (Reinforces("a", "b"), ("reinforcing", "b", "a")),
        (Prioritizes("a", "b"), ("prioritizes", "a", "b")),
    ):
        assert np.array_equal(component_of(statistic).factors, component_of(dependency).factors)


@pytest.mark.parametrize("given", [("fixing", "a", "b"), ("fixes", "a"), ("fixes", "a", "b", 1), 3])
def test_what_is_no_statistic_is_refused(given):
    with pytest.raises(ParameterError, match=r"A statistic is Fixes\('a', 'b'\)"):
        place_statistics([given], ("a", "b"))


def test_b_wrong_exactly_when_a_votes_is_learned_from_a_statistic():
    rng = np.random.default_rng(0)
    gold = rng.integers(2, size=2000)
    a_votes = rng.random(2000) < 0.5
    a = np.where(a_votes, np.where(rng.random(2000) < 0.95, gold, 1 - gold), -1)
    columns = [a, np.where(a_votes, 1 - gold, gold)]
    columns += [np.where(rng.random(2000) < 0.75, gold, 1 - gold) for _ in range(3)]
    votes = VoteMatrix.from_dense(np.stack(columns, axis=1), ["no", "yes"], list("abcde"))
    right = []
    for dependencies in ([], [Fixes("a", "b")], [Prioritizes("a", "b")]):
        model = DataProgramming(dependencies=dependencies).fit(votes)
        right.append((model.predict_proba(votes).argmax(axis=1) == gold).mean())
    assert min(right[1:]) > right[0] + 0.02


def test_accuracy_and_propensity_have_the_values_of_the_paper():
    component = component_of(("similar", "a", "b"), n_classes=3)
    state = component.states.tolist().index([2, -1])
    assert component.factors[0, state].tolist() == [-1, -1, 1]  # a votes class 2
    assert component.factors[1, state].tolist() == [0, 0, 0]  # b abstains
    assert component.factors[2, state].tolist() == [1, 1, 1]
    assert component.factors[3, state].tolist() == [0, 0, 0]


def test_the_likelihood_sums_to_one_over_the_states_and_is_symmetric_in_the_classes():
    component = component_of(("fixing", "a", "b"), ("exclusive", "b", "c"), n_classes=3)
    weights = np.random.default_rng(0).normal(size=len(component.factors))
    likelihood = np.exp(component.log_likelihood(weights))
    np.testing.assert_allclose(likelihood.sum(axis=0), 1)
    nobody = component.states.tolist().index([-1, -1, -1])
    np.testing.assert_allclose(likelihood[nobody], likelihood[nobody, 0])


def test_voters_are_connected_through_others():
    dependencies = [("similar", "a", "b"), ("similar", "c", "d"), ("fixing", "b", "d")]
    (component,) = find_components(dependencies, (*VOTERS, "e"), 2)
    assert component.voters == (0, 1, 2, 3)
    first, second = find_components(dependencies[:2], (*VOTERS, "e"), 2)
    assert (first.voters, second.voters) == ((0, 1), (2, 3))
    assert (first.positions, second.positions) == ((0,), (1,))
    assert find_components([], VOTERS, 2) == []


def test_every_item_is_in_one_state_of_each_component():
    dense = [[0, 1, -1, 0], [-1, -1, 1, 1], [1, -1, 0, -1]]
    votes = VoteMatrix.from_dense(dense, ["x", "y"], VOTERS)
    components = find_components([("similar", "a", "c"), ("similar", "b", "d")], VOTERS, 2)
    (chunk,) = one_hot_chunks(votes)
    wide = widened(chunk.one_hot, components).toarray()
    np.testing.assert_array_equal(wide[:, :8], chunk.one_hot.toarray())
    for component, block in zip(components, (wide[:, 8:17], wide[:, 17:]), strict=True):
        expected = np.array(dense)[:, component.voters].tolist()
        assert component.states[block.argmax(axis=1)].tolist() == expected
        np.testing.assert_array_equal(block.sum(axis=1), 1)


def drawn_votes(component, weights, n_items, seed):
    """Votes of a, b, c by a factor graph and of d and e independently; and the labels."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, n_items)
    likelihood = np.exp(component.log_likelihood(weights))
    dense = np.full((n_items, 5), -1)
    for true in (0, 1):
        rows = np.flatnonzero(gold == true)
        states = rng.choice(len(likelihood), size=len(rows), p=likelihood[:, true])
        dense[rows, :3] = component.states[states]
    for voter, accuracy in ((3, 0.8), (4, 0.75)):
        right = rng.random(n_items) < accuracy
        votes = rng.random(n_items) < 0.7
        dense[votes, voter] = np.where(right, gold, 1 - gold)[votes]
    return VoteMatrix.from_dense(dense, ["n", "p"], [*"abcde"]), gold


def test_planted_dependencies_are_found():
    dependencies = [("similar", "a", "b"), ("fixing", "a", "c")]
    (component,) = find_components(dependencies, tuple("abcde"), 2)
    weights = np.array([0.5, 0.6, 0.7, 0.2, 0.1, -0.3, 1.2, 0.8])
    votes, gold = drawn_votes(component, weights, 40_000, seed=0)
    model = DataProgramming(dependencies=dependencies).fit(votes)
    np.testing.assert_allclose(model.component_weights_, weights, atol=0.1)
    np.testing.assert_allclose(model.dependency_weights_, [1.2, 0.8], atol=0.1)
    dense = votes.dense()
    precision = [(dense[:, j] == gold)[dense[:, j] >= 0].mean() for j in range(5)]
    np.testing.assert_allclose(model.accuracies_, precision, atol=0.02)
    right = (model.predict_proba(votes).argmax(axis=1) == gold)[votes.covered].mean()
    blind = DataProgramming().fit(votes).predict_proba(votes).argmax(axis=1)
    assert right > (blind == gold)[votes.covered].mean() + 0.02


def test_the_posterior_is_bayes_rule_over_the_enumerated_states():
    dependencies = [("reinforcing", "a", "b")]
    votes, _ = make_votes(200, 4, 2, coverage=0.6, seed=1)
    votes = VoteMatrix.from_dense(votes.dense(), ["x", "y"], VOTERS)
    model = DataProgramming(dependencies=dependencies).fit(votes, [0.6, 0.4])
    (component,) = find_components(dependencies, VOTERS, 2)
    table = np.exp(component.log_likelihood(model.component_weights_))
    dense, proba = votes.dense(), model.predict_proba(votes)
    for i in np.flatnonzero(votes.covered)[:20]:
        joint = np.array([0.6, 0.4]) * table[component.states.tolist().index(dense[i, :2].tolist())]
        for j, y in itertools.product((2, 3), (0, 1)):
            if dense[i, j] >= 0:
                accuracy = model.accuracies_[j]
                joint[y] *= accuracy if dense[i, j] == y else 1 - accuracy
        np.testing.assert_allclose(proba[i], joint / joint.sum(), rtol=1e-9)


@pytest.mark.parametrize("dependencies", [[], [("similar", "voter_0", "voter_1")]])
def test_the_evidence_never_decreases(dependencies):
    votes, _ = make_votes(300, 6, 3, coverage=0.5, seed=2)
    model = DataProgramming(dependencies=dependencies, tol=0.0, max_iter=40).fit(votes)
    assert len(model.evidence_) > 5
    assert np.diff(model.evidence_).min() > -1e-6


def test_without_dependencies_it_is_one_coin_with_a_prior():
    accuracies = [0.6, 0.7, 0.8, 0.9]
    votes, _ = make_votes(20_000, 4, 2, accuracies=accuracies, coverage=0.8, seed=3)
    model = DataProgramming().fit(votes)
    np.testing.assert_allclose(model.accuracies_, accuracies, atol=0.03)
    np.testing.assert_allclose(model.propensities_, 0.8, atol=0.02)
    one_coin = OneCoin().fit(votes, [0.5, 0.5])
    np.testing.assert_allclose(model.accuracies_, one_coin.accuracies_, atol=0.01)


def test_no_voter_is_worse_than_chance():
    votes, _ = make_votes(3000, 6, 2, accuracies=[0.2, 0.9, 0.9, 0.9, 0.9, 0.9], seed=4)
    accuracies = DataProgramming().fit(votes).accuracies_
    assert accuracies[0] == 0.5
    assert (accuracies[1:] > 0.8).all()


def test_a_dependency_may_join_probabilistic_votes():
    array = np.random.default_rng(5).dirichlet([0.4, 0.4], size=(60, 4))
    votes = VoteMatrix.from_proba(array, ["x", "y"], VOTERS)
    hard = VoteMatrix.from_dense(array.argmax(axis=2), ["x", "y"], VOTERS)
    model = DataProgramming(dependencies=[("similar", "a", "b")])
    np.testing.assert_allclose(
        model.fit(votes).predict_proba(votes), model.fit(hard).predict_proba(hard), atol=1e-9
    )


@pytest.mark.parametrize(
    ("dependency", "words"),
    [
        (("similar", "voter_0", "voter_9"), r"'voter_9'.*not a voter.*Did you mean"),
        (("same", "voter_0", "voter_1"), r"no dependency 'same'.*'similar'"),
        (("similar", "voter_0", "voter_0"), "one voter twice"),
        (("similar", "voter_0"), "a kind and two voters"),
    ],
)
def test_dependencies_that_make_no_sense_are_refused(dependency, words):
    votes, _ = make_votes(20, 3, 2, seed=6)
    with pytest.raises(ParameterError, match=words):
        DataProgramming(dependencies=[dependency]).fit(votes)


def test_too_many_connected_voters_are_refused():
    votes, _ = make_votes(20, 12, 2, seed=7)
    chain = [("similar", f"voter_{j}", f"voter_{j + 1}") for j in range(11)]
    with pytest.raises(ParameterError, match=r"connect 12 voters.*1,062,882 states.*Leave out"):
        DataProgramming(dependencies=chain).fit(votes)


def test_dependencies_survive_saving(tmp_path):
    votes, _ = make_votes(100, 4, 2, coverage=0.7, seed=8)
    model = DataProgramming(dependencies=[("similar", "voter_0", "voter_1")]).fit(votes)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(votes), model.predict_proba(votes))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_prior_weights_are_those_of_the_given_accuracy_and_of_how_often_a_voter_votes(n_classes):
    component = component_of(("reinforces", "a", "b"), n_classes=n_classes)
    model = DataProgramming(accuracy=0.8)
    model.propensities_ = np.array([0.3, 0.6, 0.5, 0.5])
    weight, _, *silent, dependency = model._center(component)
    # A vote for the class weighs exp(w), for each other class exp(-w), and abstaining exp(-s).
    right, wrong = np.exp(weight), (n_classes - 1) * np.exp(-weight)
    assert right / (right + wrong) == pytest.approx(0.8)
    votes = (right + wrong) * np.exp(silent)
    assert votes / (1 + votes) == pytest.approx([0.3, 0.6])
    assert dependency == 0
