"""scikit-learn's own checks of estimators, on every registered method."""

import pytest
import torch
from torch import nn

from wiesel import Committee, EndToEndModel, LabelModel, MajorityVote, TwoStage, WeaSEL
from wiesel.catalog import METHODS
from wiesel.end_to_end.evidence_models import EvidenceLabelModel
from wiesel.spans import REGISTRY as OF_SPANS
from wiesel.testing import ContractError, check_scikit_learn

NET = nn.Linear(2, 2)
QUICK = {"epochs": 1, "epoch_size": 32, "lr": 0.05, "progress": False}

OF_NETWORKS = {
    "check_estimators_overwrite_params": "a torch module has no hash that survives copying it",
    "check_estimators_dtypes": "whole numbers are token ids to a network, so they are refused",
    "check_classifier_data_not_an_array": "it gives whole numbers, which are token ids",
    "check_dtype_object": "a dict among numbers is a FeatureError, which is no TypeError",
    "check_fit2d_1sample": "a single item has a single class, which is refused in our own words",
}
"""What end-to-end methods do otherwise, and why."""

OF_LABEL_MODELS = {
    "check_classifiers_classes": "the classes are those of the votes, not of y",
    "check_classifiers_train": "the classes are those of the votes, not of y",
}
"""What label models do otherwise, and why."""

N_ITER = {
    "check_non_transformer_estimators_n_iter": "the length of `evidence_` tells the iterations"
}
FURTHER: dict[str, dict[str, str]] = {
    **dict.fromkeys(
        ["dawid_skene", "ordinal_dawid_skene", "one_coin", "data_programming", "glad", "mace"],
        N_ITER,
    ),
    "weasel": {
        "check_parameters_default_constructible": "the default of `start` is an estimator",
    },
}
"""The same for single methods."""

CHECKED = {
    name: found
    for name, found in METHODS.items()
    if name not in OF_SPANS and not issubclass(found.cls, EvidenceLabelModel)
}
"""Methods that need no more than `fit(X, y)` gives: no features, gold or texts beside votes."""


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def model_of(name: str) -> EndToEndModel | LabelModel:
    cls = METHODS[name].cls
    if issubclass(cls, LabelModel):
        return cls()
    first = [MajorityVote()] if cls is TwoStage else []
    # Several networks are fits of the same kind: what the checks look at, one has, too.
    # Members of the committee read features and start as WeaSEL does by default.
    further = {Committee: {"networks": 1}, WeaSEL: {"start": MajorityVote()}}.get(cls, {})
    return cls(*first, NET, **QUICK, **further)


@pytest.mark.parametrize("name", sorted(CHECKED))
def test_every_method_passes_the_checks_of_scikit_learn(name: str):
    model = model_of(name)
    expected = OF_LABEL_MODELS if isinstance(model, LabelModel) else OF_NETWORKS
    passed = check_scikit_learn(model, {**expected, **FURTHER.get(name, {})})
    assert len(passed) > 40
    assert {"check_estimators_pickle", "check_fit_idempotent", "check_n_features_in"} <= {*passed}


def test_a_check_that_fails_is_named():
    class Forgetful(MajorityVote):
        def predict_proba(self, votes):
            self.seen = votes
            return super().predict_proba(votes)

    with pytest.raises(ContractError, match=r"Forgetful fails .*check_dict_unchanged"):
        check_scikit_learn(Forgetful(), OF_LABEL_MODELS)


def test_a_check_that_passes_must_not_be_expected_to_fail():
    with pytest.raises(ContractError, match=r"expected to fail: \['check_fit_idempotent'\]"):
        check_scikit_learn(MajorityVote(), {**OF_LABEL_MODELS, "check_fit_idempotent": "no reason"})
