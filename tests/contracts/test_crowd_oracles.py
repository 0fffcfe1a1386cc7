"""Oracle 7 of methods.md 19, for the label models that crowds start from (8: test_max_mig.py, 9:
test_crowd_layer.py, and 7 for EM around a network: test_alternating_methods.py)."""

import numpy as np
import pytest

from wiesel.datasets.synthetic import make_votes, planted_confusions
from wiesel.label_models import DawidSkene, OneCoin

VOTES, _ = make_votes(300, 6, n_classes=3, coverage=0.5, seed=5)


@pytest.mark.parametrize("model", [DawidSkene(tol=0.0, max_iter=25), OneCoin(tol=0.0, max_iter=25)])
def test_no_em_step_lowers_the_evidence(model):
    evidence = model.fit(VOTES).evidence_
    assert len(evidence) > 5
    assert evidence[-1] > evidence[0]
    assert (np.diff(evidence) > -1e-8 * abs(evidence[0])).all()


def test_one_coin_is_dawid_skene_with_tied_confusions():
    one_coin = OneCoin(smoothing=0.0, tol=1e-12, max_iter=500).fit(VOTES, [1, 1, 1])
    tied = planted_confusions(6, 3, one_coin.accuracies_)
    log_joint = np.full((300, 3), np.log(1 / 3))
    for item, voter, voted in zip(
        VOTES.item_index, VOTES.voter_index, VOTES.class_index, strict=True
    ):
        log_joint[item] += np.log(tied[voter, :, voted])
    proba = np.exp(log_joint) / np.exp(log_joint).sum(axis=1, keepdims=True)
    assert np.allclose(one_coin.predict_proba(VOTES), proba)
    # And the M-step of tied parameters gives the same accuracies back.
    right = np.bincount(
        VOTES.voter_index, weights=proba[VOTES.item_index, VOTES.class_index], minlength=6
    )
    answered = np.bincount(VOTES.voter_index, minlength=6)
    assert np.allclose(right / answered, one_coin.accuracies_, atol=1e-4)
