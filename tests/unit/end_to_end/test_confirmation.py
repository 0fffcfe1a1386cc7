"""Voters that name a class whatever the item is are found, and not listened to."""

import warnings

import numpy as np
import pytest
from forged_models import rewrite

from wiesel import LabelSpace, VoteMatrix, WeaSEL, load_model
from wiesel.end_to_end.weasel.confirmation import named_votes, told_votes, unconfirmed, without
from wiesel.errors import SavedModelError, WieselWarning
from wiesel.nn import Linear
from wiesel.training import as_inputs

N_ITEMS = 1200
LABELS = LabelSpace("animal", "plant", "stone")
ABSTAIN = -1


def task(n_spammers: int = 1, tells: float = 1.5, seed: int = 0):
    """Features, three voters that are right nine times in ten, and spammers that name the plant."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 3, N_ITEMS)
    X = rng.normal(size=(N_ITEMS, 6)) + tells * (gold[:, None] == np.arange(6) % 3)
    right = rng.random((N_ITEMS, 3)) < 0.9
    votes = np.where(right, gold[:, None], rng.integers(0, 3, (N_ITEMS, 3)))
    votes[rng.random(votes.shape) < 0.5] = ABSTAIN
    spam = np.where(rng.random(N_ITEMS) < 0.6, LABELS.index("plant"), ABSTAIN)
    columns = np.column_stack([votes, *[spam] * n_spammers])
    names = ["first", "second", "third", *(f"spam_{k}" for k in range(n_spammers))]
    return X.astype(np.float32), VoteMatrix.from_dense(columns, LABELS, names), gold


def found(X: np.ndarray, votes: VoteMatrix) -> dict[str, list[str]]:
    return named_votes(unconfirmed(votes, as_inputs(X)), votes.voters, votes.labels)


@pytest.mark.parametrize("seed", range(3))
def test_a_voter_that_names_a_class_whatever_the_item_is_is_found(seed):
    X, votes, _ = task(seed=seed)
    assert found(X, votes) == {"spam_0": ["plant"]}


def test_copies_of_it_do_not_confirm_it():
    X, votes, _ = task(n_spammers=3)
    assert found(X, votes) == {f"spam_{k}": ["plant"] for k in range(3)}


def test_voters_that_are_right_are_believed():
    X, votes, _ = task(n_spammers=0)
    assert found(X, votes) == {}


def test_where_features_tell_nothing_votes_are_believed():
    X, votes, _ = task(tells=0.0)
    assert found(X, votes) == {}


def test_where_no_other_names_the_class_votes_are_believed():
    X, votes, _ = task()
    dense = votes.dense()
    dense[:, :3][dense[:, :3] == LABELS.index("plant")] = ABSTAIN
    assert found(X, VoteMatrix.from_dense(dense, LABELS, votes.voters)) == {}


def test_what_cannot_be_asked_is_believed():
    X, votes, _ = task()
    images = X.reshape(N_ITEMS, 1, 2, 3)
    assert not unconfirmed(votes, as_inputs(images)).any()


def test_some_votes_are_taken_away():
    votes = VoteMatrix.from_dense([[0, 1], [1, ABSTAIN], [2, 2]], LABELS, ["a", "b"])
    unheard = np.zeros((2, 3), dtype=bool)
    unheard[0, [0, 2]] = True
    left = without(votes, unheard)
    assert left.dense().tolist() == [[ABSTAIN, 1], [1, ABSTAIN], [ABSTAIN, 2]]
    assert left.voters == votes.voters


def test_it_is_told_in_words():
    told = "'a' names 'animal', 'stone' whatever the item is"
    assert told_votes({"a": ["animal", "stone"]}) == told


def robust(**options: object) -> WeaSEL:
    given = {"members": 1, "epochs": 15, "lr": 0.02, "progress": False, **options}
    return WeaSEL(Linear(6, 3), **given)


def test_without_gold_a_spammer_does_no_harm(tmp_path):
    X, votes, gold = task()
    with pytest.warns(WieselWarning, match="'spam_0' names 'plant' whatever the item is"):
        model = robust().fit(X, votes)
    assert model.unheard_ == {"spam_0": ["plant"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        listening = robust(drop_unconfirmed=False).fit(X, votes)
    assert listening.unheard_ == {}
    heard, all_heard = (
        (m.predict_proba(X).argmax(axis=1) == gold).mean() for m in (model, listening)
    )
    assert heard > all_heard + 0.02
    labels = model.soft_labels(X, votes)
    silent = votes.dense()
    silent[:, 3] = ABSTAIN
    quiet = VoteMatrix.from_dense(silent, LABELS, votes.voters)
    assert np.array_equal(labels, model.soft_labels(X, quiet))
    model.save(tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").soft_labels(X, votes), labels)


def test_with_gold_all_votes_are_heard():
    X, votes, gold = task()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = robust().fit(X, votes, validation=(X[:100], gold[:100]))
    assert model.unheard_ == {}


def test_members_of_an_ensemble_know_it():
    X, votes, _ = task()
    with pytest.warns(WieselWarning, match="spam_0"):
        model = robust(members=2).fit(X, votes)
    assert [member.unheard_ for member in model.members_] == [{"spam_0": ["plant"]}] * 2
    assert model.unheard_ == {"spam_0": ["plant"]}


def test_a_saved_model_that_leaves_out_votes_of_strangers_is_refused(tmp_path):
    X, votes, _ = task()
    with pytest.warns(WieselWarning, match="spam_0"):
        robust(epochs=1).fit(X, votes).save(tmp_path / "model")
    for forged in ({"nobody": ["plant"]}, {"first": ["fish"]}, ["first"], {"first": 3}):
        rewrite(
            tmp_path / "model", lambda manifest, to=forged: manifest["learned"].update(unheard=to)
        )
        with pytest.raises(SavedModelError):
            load_model(tmp_path / "model")
