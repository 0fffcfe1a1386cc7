"""One network for all labels: what it learns, says, keeps and refuses."""

import numpy as np
import pytest
import torch
from torch import nn

from wiesel import (
    DawidSkene,
    FeatureChecked,
    GoldWeighted,
    MajorityVote,
    Raykar,
    TwoStage,
    WeaSEL,
    evaluate,
    load_model,
)
from wiesel.analysis.table import UNKNOWN
from wiesel.errors import FeatureError, ParameterError, SavedModelError, VoteError
from wiesel.evaluation import evaluate_presence, supported_threshold
from wiesel.multilabel import (
    MultiLabelVotes,
    PerLabel,
)
from wiesel.nn import MLP
from wiesel.tasks.several_labels import _calibration

FAST = {
    "epochs": 6,
    "epoch_size": 400,
    "batch_size": 32,
    "lr": 0.03,
    "weight_average": None,
    "progress": False,
}


def network(n_labels=3):
    torch.manual_seed(0)
    return MLP(3, n_labels, hidden=(16,), dropout=0.0)


def models():
    return {
        "two_stage": TwoStage(MajorityVote(), network(), **FAST),
        "weasel": WeaSEL(network(), encoder=(8,), start=MajorityVote(), warm_up=2, **FAST),
    }


@pytest.fixture(params=["two_stage", "weasel"])
def model(request):
    return models()[request.param]


def test_one_network_learns_all_labels(model, task):
    model.fit(task.X, task.votes)
    report = evaluate(model, task.X, task.gold, n_resamples=0)
    assert report.macro_f1 > 0.85
    assert (
        report.macro_f1
        > evaluate_presence(
            (task.said.mean(axis=1) + 1) / 2, task.gold, task.votes.labels, n_resamples=0
        ).macro_f1
    )
    assert model.predict(task.X[:2])[0] == task.votes.labels.sets(task.gold[:1] == 1)[0]


def test_the_users_network_is_untouched_and_the_seed_decides(model, task):
    before = {k: v.clone() for k, v in model.end_model.state_dict().items()}
    first = model.fit(task.X, task.votes).predict_proba(task.X)
    again = model.fit(task.X, task.votes).predict_proba(task.X)
    assert np.array_equal(first, again)
    assert all(torch.equal(v, before[k]) for k, v in model.end_model.state_dict().items())


def test_labels_that_are_renamed_or_reordered_only_permute_soft_labels(task):
    order = [2, 0, 1]
    turned = MultiLabelVotes.from_dense(task.said[:, :, order], ["x", "y", "z"])
    ours, theirs = (PerLabel(DawidSkene()).fit(v).predict_proba(v) for v in (task.votes, turned))
    assert np.allclose(ours[:, order], theirs)


def test_a_label_nobody_votes_on_is_named(model, task):
    said = task.said.copy()
    said[:, :, 1] = -1
    with pytest.raises(VoteError, match="Nobody votes on 'money'"):
        model.fit(task.X, MultiLabelVotes.from_dense(said, ["sports", "money", "law"]))


def test_votes_in_one_direction_need_a_balance(model, task):
    with pytest.raises(
        VoteError, match=r"All votes on 'law' are that it is present.*class_balance"
    ):
        model.fit(task.X, task.one_sided())
    model.set_params(class_balance={"law": 0.3}).fit(task.X, task.one_sided())
    # The mean of the soft labels is the balance, and the network tells the label apart.
    soft = model.soft_labels(task.X, task.one_sided())
    assert soft[:, 2].mean() == pytest.approx(0.3, abs=1e-3)
    view = model.one("law")
    assert evaluate(view, task.X, task.gold[:, 2], n_resamples=0).auc > 0.8


def test_the_balance_may_be_counted_on_the_validation_items(task):
    model = TwoStage(MajorityVote(), network(), class_balance="validation", **FAST)
    model.fit(task.X, task.one_sided(), validation=(task.X[:100], task.gold[:100]))
    counted = model.label_model_.models_["law"].class_balance_[1]
    assert counted == pytest.approx((task.gold[:100, 2].sum() + 1) / 102)
    with pytest.raises(ParameterError, match="validation"):
        model.fit(task.X, task.votes)


def test_validation_chooses_epoch_and_a_threshold_for_each_label(model, task):
    gold = [set(np.array(["sports", "money", "law"])[row == 1]) for row in task.gold[:100]]
    model.fit(task.X, task.votes, validation=(task.X[:100], gold))
    assert model.selection_["by"] == "mean_auc"
    assert model.history_.best_epoch == model.selection_["epoch"]
    proba = model.predict_proba(task.X[:100])
    for k, threshold in enumerate(model.threshold_):
        wanted = supported_threshold(proba[:, k], task.gold[:100, k])
        assert threshold == pytest.approx(wanted, abs=1e-6)


def test_a_label_that_validation_cannot_judge_keeps_its_threshold(model, task):
    gold = task.gold[:60].copy()
    gold[:, 1] = -1
    model.fit(task.X, task.votes, validation=(task.X[:60], gold))
    assert model.threshold_[1] == 0.5
    assert model.selection_["by"] == "mean_auc"


def test_calibration_brings_probabilities_to_the_shares(task):
    model = TwoStage(MajorityVote(), network(), calibrated=True, **FAST)
    model.fit(task.X, task.votes, validation=(task.X, task.gold))
    assert np.allclose(model.predict_proba(task.X).mean(axis=0), task.gold.mean(axis=0), atol=0.03)
    assert (model.calibration_[:, 0] > 0).all()
    proba = model.predict_proba(task.X)
    for k, threshold in enumerate(model.threshold_):
        wanted = supported_threshold(proba[:, k], task.gold[:, k])
        assert threshold == pytest.approx(wanted, abs=1e-6)


def test_a_label_is_calibrated_as_by_logistic_regression_and_never_turned_round():
    gold, noise = np.tile([0, 1], 30), np.random.default_rng(0).normal(size=60)
    logits = gold + noise
    scale, offset = _calibration(logits, gold)
    # Where ridge logistic regression (C = 10) is best, its gradient is zero.
    wrong = 1 / (1 + np.exp(-scale * logits - offset)) - gold
    assert [wrong.sum(), (wrong * logits).sum() + scale / 10] == pytest.approx([0, 0], abs=1e-2)
    assert _calibration(-logits, gold) == (1.0, 0.0)
    # Nine items with the label are too few.
    assert _calibration(logits[:19], gold[:19]) == (1.0, 0.0)
    assert _calibration(logits[:20], gold[:20]) != (1.0, 0.0)


def test_a_reading_of_features_is_asked_with_them(task):
    model = TwoStage(FeatureChecked(), network(), **FAST).fit(task.X, task.votes)
    soft = model.soft_labels(task.X, task.votes)
    found = evaluate_presence(soft, task.gold, task.votes.labels, n_resamples=0)
    assert found.macro_f1 > 0.85
    own = model.explain(task.X[5], task.votes[5]).by_label["law"]
    assert own.soft_label[1] == pytest.approx(soft[5, 2], abs=1e-6)


def test_label_models_see_features_and_gold(task):
    model = TwoStage(GoldWeighted(), network(), **FAST)
    with pytest.raises(ParameterError, match="GoldWeighted needs votes on items with gold"):
        model.fit(task.X, task.votes)
    gold = task.X[:100], task.gold[:100], task.votes[:100]
    assert (
        evaluate(
            model.fit(task.X, task.votes, validation=gold), task.X, task.gold, n_resamples=0
        ).macro_f1
        > 0.85
    )


def test_an_item_without_votes_on_a_label_does_not_teach_it(task):
    """Wrong features on items that only other labels have votes on change nothing for a label."""
    said = task.said.copy()
    said[150:, :, 0] = -1
    votes = MultiLabelVotes.from_dense(said, ["sports", "money", "law"])
    model = TwoStage(MajorityVote(), nn.Linear(3, 3), **FAST).fit(task.X, votes)
    flipped = task.X.copy()
    flipped[150:, 0] *= -1
    other = TwoStage(MajorityVote(), nn.Linear(3, 3), **FAST).fit(flipped, votes)
    # A linear network shares nothing, and sports reads column 0: both must rank alike.
    areas = [
        evaluate(own.one("sports"), task.X, task.gold[:, 0], n_resamples=0).auc
        for own in (model, other)
    ]
    assert min(areas) > 0.9


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (nn.Linear(3, 2), r"\(items, 3\), one for each label"),
        (nn.Sequential(nn.Linear(3, 3), nn.Sigmoid()), "Sigmoid"),
        (nn.Linear(4, 3), "cannot read X"),
    ],
)
def test_a_network_that_does_not_fit_is_refused_before_training(net, words, task):
    with pytest.raises(FeatureError, match=words):
        TwoStage(MajorityVote(), net, **FAST).fit(task.X, task.votes)


def test_wrong_arguments_are_refused(model, task):
    with pytest.raises(FeatureError, match=r"\(items, 2\), one for each class"):
        model.fit(task.X, task.votes["sports"])
    with pytest.raises(ParameterError, match="Raykar does tasks with one label"):
        Raykar(network(), **FAST).fit(task.X, task.votes)
    with pytest.raises(FeatureError, match="X has 3, votes has 300"):
        model.fit(task.X[:3], task.votes)
    with pytest.raises(FeatureError, match="2 inputs and 3 gold labels"):
        model.fit(task.X, task.votes, validation=(task.X[:2], task.gold[:3]))
    for balance, words in (
        ({"lwa": 0.1}, "Did you mean 'law'"),
        ({"law": 1.5}, "above 0"),
        ([0.1, 0.2, 0.3], "by name"),
        ("vote", "'validation'"),
    ):
        with pytest.raises(ParameterError, match=words):
            model.set_params(class_balance=balance).fit(task.X, task.votes)
    with pytest.raises(ParameterError, match="label model"):
        TwoStage("snorkel", network(), **FAST).fit(task.X, task.votes)


def test_an_explanation_tells_of_every_label(model, task):
    model.fit(task.X, task.votes)
    found = model.explain(task.X[17], task.votes[17])
    assert set(found.by_label) == {"sports", "money", "law"}
    assert found.labels == model.predict(task.X[17:18])[0]
    own = found.by_label["money"]
    assert len(own.pushes) == int((task.said[17, :, 1] >= 0).sum())
    assert own.end_proba[1] == pytest.approx(model.predict_proba(task.X[17:18])[0, 1])
    assert "Item 17 has" in str(found)
    with pytest.raises(FeatureError, match="one item"):
        model.explain(task.X[:2], task.votes[:2])


def test_soft_labels_of_weasel_are_what_its_weights_make(task):
    model = models()["weasel"].fit(task.X, task.votes)
    weights = model.accuracies(task.X, task.votes)["money"]
    votes = task.votes["money"]
    total = np.where(task.said[:, :, 1] == 1, weights, 0).sum(axis=1)
    total -= np.where(task.said[:, :, 1] == 0, weights, 0).sum(axis=1)
    wanted = 1 / (1 + np.exp(-total))
    soft = model.soft_labels(task.X, task.votes)[:, 1]
    assert np.allclose(soft[votes.covered], wanted[votes.covered], atol=1e-6)
    assert np.allclose(soft[~votes.covered], 0.5)
    explained = model.explain(task.X[3], task.votes[3]).by_label["money"]
    assert np.allclose(explained.soft_label, [1 - soft[3], soft[3]], atol=1e-6)


@pytest.mark.parametrize("sided", [False, True])
def test_a_saved_model_comes_back_the_same(model, task, tmp_path, sided):
    votes = task.one_sided() if sided else task.votes
    model.set_params(class_balance={"law": 0.3} if sided else None)
    model.fit(task.X, votes, validation=(task.X[:100], task.gold[:100]))
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert type(again) is type(model)
    assert np.array_equal(again.predict_proba(task.X), model.predict_proba(task.X))
    assert np.array_equal(again.soft_labels(task.X, votes), model.soft_labels(task.X, votes))
    assert again.predict(task.X) == model.predict(task.X)
    assert str(again.explain(task.X[3], votes[3])) == str(model.explain(task.X[3], votes[3]))
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()


def test_a_network_of_the_users_own_is_given_when_loading(task, tmp_path):
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))
    model = TwoStage(MajorityVote(), net, **FAST).fit(task.X, task.votes)
    model.save(tmp_path / "model")
    with pytest.raises(SavedModelError, match="end_model=net"):
        load_model(tmp_path / "model")
    again = load_model(tmp_path / "model", end_model=net)
    assert np.array_equal(again.predict_proba(task.X), model.predict_proba(task.X))


def test_label_models_are_saved_together(task, tmp_path):
    model = PerLabel(DawidSkene()).fit(task.one_sided(), class_balance={"law": 0.3})
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    votes = task.one_sided()
    assert np.array_equal(again.predict_proba(votes), model.predict_proba(votes))
    assert type(again.models_["law"]).__name__ == "OneSided"


def test_figures_over_labels_are_what_they_should_be():
    gold = [{"a", "b"}, {"a"}, set(), None]
    proba = [[0.9, 0.4], [0.8, 0.7], [0.1, 0.2], [0.5, 0.5]]
    report = evaluate_presence(proba, gold, ["a", "b"], n_resamples=200)
    # a: 2 right of 2; b: predicted on item 1 only, true on item 0 only.
    assert report.n_items == 3
    assert float(report.micro_f1) == pytest.approx(2 * 2 / (3 + 3))
    assert float(report.macro_f1) == pytest.approx((1 + 0) / 2)
    assert float(report.exact_match) == pytest.approx(1 / 3)
    assert float(report.cell_accuracy) == pytest.approx(4 / 6)
    assert float(report.average_precision) == pytest.approx((1 + 0.5) / 2)
    assert report.micro_f1.low <= report.micro_f1 <= report.micro_f1.high
    assert report.per_label["b"].f1 == 0
    assert report.to_dict()["scores"]["exact_match"]["value"] == pytest.approx(1 / 3)


def test_a_label_without_gold_is_unknown_not_zero():
    gold = np.array([[1, -1], [0, -1]])
    report = evaluate_presence([[0.9, 0.5], [0.2, 0.5]], gold, ["a", "b"], n_resamples=0)
    assert list(report.per_label) == ["a"]
    assert np.isnan(report.exact_match)
    assert float(report.macro_f1) == 1
    assert UNKNOWN in str(report)


def test_evaluate_takes_label_models_too(task):
    model = PerLabel(MajorityVote()).fit(task.votes)
    report = evaluate(model, task.votes, task.gold, n_resamples=0)
    assert report.macro_f1 > 0.7
    with pytest.raises(FeatureError, match="between 0 and 1"):
        evaluate_presence([[1.5, 0]], [{"a"}], ["a", "b"])
    with pytest.raises(FeatureError, match="gold labels of 1"):
        evaluate_presence([[0.5, 0], [0.5, 0]], [{"a"}], ["a", "b"])
