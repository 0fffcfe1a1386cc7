"""Rank workers: measures by hand, and flags on planted crowds."""

import numpy as np
import pytest

from wiesel import (
    MBEM,
    AggNet,
    CoNAL,
    ConfusionNet,
    CrowdLayer,
    DoctorNet,
    EndToEndModel,
    MajorityVote,
    MaxMIG,
    Raykar,
    VoteMatrix,
    rank_workers,
)
from wiesel.analysis.workers import skill_of
from wiesel.datasets.synthetic import make_features, make_votes, planted_confusions
from wiesel.errors import NotFittedError, ParameterError
from wiesel.label_models import DawidSkene, OneCoin, Snorkel


def test_measures_of_perfect_guessing_and_renaming_voters():
    perfect, guess = np.eye(3), np.full((3, 3), 1 / 3)
    always_first, renaming = np.tile([1.0, 0, 0], (3, 1)), np.roll(np.eye(3), 1, axis=1)
    skill, informativeness = skill_of(np.stack([perfect, guess, always_first, renaming]))
    assert skill == pytest.approx([1, 0, 0, -0.5])
    assert informativeness == pytest.approx([1, 0, 0, 1])


def test_informativeness_is_the_squared_youden_index_for_two_classes():
    """Raykar and Yu 2012: a spammer has sensitivity + specificity = 1."""
    skill, informativeness = skill_of(np.array([[[0.8, 0.2], [0.3, 0.7]]]))
    assert skill == pytest.approx([0.5])
    assert informativeness == pytest.approx([0.25])


def crowd() -> tuple[VoteMatrix, np.ndarray]:
    spammer, adversary = np.tile([0.0, 1.0, 0.0], (3, 1)), np.roll(np.eye(3), 1, axis=1)
    kinds = [*planted_confusions(5, 3, 0.85), spammer, 0.9 * adversary + 0.1 / 3]
    return make_votes(600, 7, 3, accuracies=np.stack(kinds), coverage=0.6, seed=1)


CROWD_METHODS = [Raykar, AggNet, MBEM, MaxMIG, CrowdLayer, DoctorNet, ConfusionNet, CoNAL]


def fitted_network(cls: type[EndToEndModel], votes: VoteMatrix, gold: np.ndarray) -> EndToEndModel:
    from torch import nn

    from wiesel.training import seeded

    with seeded(0):
        net = nn.Linear(4, 3)
    epochs = 60 if cls is CoNAL else 20  # its matrices follow those of all voters
    return cls(net, epochs=epochs, epoch_size=None, lr=0.02).fit(make_features(gold, 4), votes)


@pytest.mark.parametrize("method", [DawidSkene, OneCoin, Snorkel, *CROWD_METHODS])
def test_spammers_and_adversaries_are_flagged_and_last(method: type):
    votes, gold = crowd()
    is_network = method in CROWD_METHODS
    model = fitted_network(method, votes, gold) if is_network else method().fit(votes)
    table = rank_workers(model, votes)
    flags = dict(zip(table.frame["voter"], table.frame["flag"], strict=True))
    assert flags["voter_5"] == "spammer"
    assert flags["voter_6"] == "adversary"
    assert [flags[f"voter_{j}"] for j in range(5)] == [""] * 5
    assert table.frame["voter"].to_list()[-2:] == ["voter_5", "voter_6"]
    assert "adversary" in str(table)


def test_one_accuracy_per_voter_is_enough_to_rank():
    votes, _ = make_votes(1000, 5, accuracies=[0.9, 0.8, 0.85, 0.5, 0.75], coverage=0.9, seed=2)
    frame = rank_workers(OneCoin().fit(votes), votes).frame
    assert frame["voter"][0] == "voter_0"
    assert frame.filter("spammer")["voter"].to_list() == ["voter_3"]


def test_many_workers_are_measured_some_at_a_time(monkeypatch: pytest.MonkeyPatch):
    votes, _ = crowd()
    model = DawidSkene().fit(votes)
    expected = rank_workers(model, votes).frame
    monkeypatch.setattr("wiesel.analysis.workers._NUMBERS_AT_ONCE", 2 * 3**2)  # two workers
    assert rank_workers(model, votes).frame.equals(expected)


def test_nothing_is_said_of_a_worker_without_answers_and_few_are_no_evidence():
    votes, _ = make_votes(100, 3, accuracies=0.9, coverage=1.0, seed=0)
    dense = np.column_stack([votes.dense(), np.full((100, 2), -1)])
    dense[:3, 4] = 1 - dense[:3, 0]
    votes = VoteMatrix.from_dense(dense, votes.labels)
    frame = rank_workers(DawidSkene(smoothing=0.01).fit(votes), votes).frame
    silent, short = (frame.filter(voter=f"voter_{j}").to_dicts()[0] for j in (3, 4))
    assert (silent["answers"], silent["accuracy"], silent["flag"]) == (0, None, "")
    assert short["skill"] < 0
    assert short["flag"] == "", "three answers are not enough"
    assert frame["voter"][-1] == "voter_3"
    strict = rank_workers(DawidSkene(smoothing=0.01).fit(votes), votes, least_answers=3).frame
    assert strict.filter(voter="voter_4")["flag"].item() == "adversary"


def test_without_votes_there_are_no_counts_and_all_can_be_flagged():
    votes, _ = crowd()
    table = rank_workers(DawidSkene().fit(votes))
    assert "answers" not in table.frame.columns
    assert table.frame["spammer"].sum() == 1


def test_models_that_do_not_know_their_voters_are_refused(votes):
    with pytest.raises(ParameterError, match="DawidSkene"):
        rank_workers(MajorityVote().fit(votes))
    with pytest.raises(NotFittedError):
        rank_workers(DawidSkene())
