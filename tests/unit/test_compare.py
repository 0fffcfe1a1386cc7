"""compare(): methods on the same data, several seeds each, in one table."""

import sys
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import wiesel
from wiesel import Gold, LabelSpace, MajorityVote, Supervised, TwoStage, WeaSEL, compare
from wiesel.compare import build_method, compare_datasets, logistic_proba, score_table
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import ParameterError
from wiesel.nn import Linear
from wiesel.nn.names import end_model_by_name

VOTES, GOLD = make_votes(60, n_voters=4, coverage=0.6)
X = make_features(GOLD, n_features=3)
LABELS = LabelSpace("ham", "spam")
NETWORK = end_model_by_name("linear", X, 2, seed=0)


def quick(model_class=WeaSEL, **options):
    if model_class is WeaSEL:
        return WeaSEL(NETWORK, epochs=2, warm_up=1, lr=0.05, **options)
    return TwoStage(MajorityVote(), NETWORK, epochs=2, lr=0.05, **options)


def test_every_method_has_a_row_with_intervals_over_items_and_seeds():
    models = {"weasel": quick(tau_1=1.0), "majority vote": quick(TwoStage)}
    table = compare(models, X, VOTES, test=(X, GOLD), seeds=[0, 1, 2])
    assert table.frame["method"].to_list() == ["weasel", "majority vote", "always 'class_1'"]
    assert table.frame["seeds"].to_list() == [3, 3, 1]
    assert (table.frame["accuracy"][:2] > 0.5).all()
    assert "±" not in str(table)
    names = {"accuracy", "accuracy_low", "accuracy_high", "f1", "auc", "difference", "p_value"}
    assert set(table.to_records()[0]) >= names
    # Even if all of 60 items are right, some 3 to 6 % may be wrong: however alike the seeds are.
    width = table.frame["accuracy_high"] - table.frame["accuracy_low"]
    assert (width > 0.05).all()
    assert table.frame["p_value"].to_list()[0] is None


def test_labels_end_the_table_with_a_verdict_and_baselines_that_learn_them():
    quickly = {"majority_vote": {"epochs": 2}}
    few = (X[:30], GOLD[:30])
    table = compare(quickly, X, VOTES, test=(X, GOLD), validation=few, end_model=NETWORK)
    assert table.frame["method"].to_list()[1:] == [
        "always 'class_1'",
        "labels alone: logistic",
        "labels alone: end model",
        "majority_vote without labels",
    ]
    assert "our votes" in table.conclusion
    assert str(table).endswith(table.conclusion)
    assert table.conclusion in table.to_html()
    rows = [None] * len(GOLD)
    rows[:30] = GOLD[:30].tolist()
    same = compare(quickly, X, VOTES, test=(X, GOLD), validation=Gold(rows), end_model=NETWORK)
    # Each learns the labels, but only a held-out set also chooses the epoch of the first method.
    assert same.frame["method"].to_list() == table.frame["method"].to_list()
    assert same.frame["accuracy"].to_list()[1:] == table.frame["accuracy"].to_list()[1:]


def test_logistic_regression_is_that_of_scikit_learn():
    scale = StandardScaler().fit(X[:30])
    own = LogisticRegression(max_iter=1000).fit(scale.transform(X[:30]), GOLD[:30])
    found = logistic_proba(X[:30], GOLD[:30], X[30:], 2)
    assert found == pytest.approx(own.predict_proba(scale.transform(X[30:])))


def test_a_method_with_one_seed_has_the_interval_of_its_own_evaluation():
    model = quick(TwoStage)
    table = compare([model], X, VOTES, test=(X, GOLD))
    report = wiesel.evaluate(quick(TwoStage).fit(X, VOTES), X, GOLD)
    row = table.to_records()[0]
    assert (row["accuracy_low"], row["accuracy_high"]) == pytest.approx(
        (report.accuracy.low, report.accuracy.high)
    )


def test_a_seed_gives_the_same_figures_as_fitting_the_model_oneself():
    table = compare([quick(TwoStage)], X, VOTES, test=(X, GOLD), seeds=[5])
    own = quick(TwoStage, seed=5).fit(X, VOTES)
    right = float(np.mean(own.predict(X) == np.array(VOTES.labels.names)[GOLD]))
    assert table.frame["accuracy"][0] == pytest.approx(right)


def test_a_method_by_name_averages_five_networks_and_is_compared_as_its_own_fit_leaves_it():
    sets = {"test": (X, GOLD), "validation": (X, GOLD)}
    quickly = {"epochs": 2, "warm_up": 1, "epoch_size": 64}
    table = compare({"weasel": quickly}, X, VOTES, **sets, end_model=NETWORK, seeds=[0, 5])
    own = [WeaSEL(NETWORK, **quickly, members=5, seed=seed) for seed in (0, 5)]
    right = [
        np.mean(model.fit(X, VOTES, (X, GOLD)).predict(X) == np.array(VOTES.labels.names)[GOLD])
        for model in own
    ]
    assert [len(model.members_) for model in own] == [5, 5]
    assert table.frame["accuracy"][0] == pytest.approx(np.mean(right))


def test_label_models_are_compared_as_instances_too(monkeypatch):
    @dataclass(eq=False, kw_only=True)
    class Mine(MajorityVote):
        """A method of somebody else's, which nobody has registered."""

    monkeypatch.setattr(sys.modules["wiesel.compare"], "NETWORKS", 2)
    mine = Mine(hard=True)
    models = {"mine": mine, "as vote": MajorityVote(hard=True)}
    table = compare(models, X, VOTES, test=(X, GOLD), end_model=NETWORK)
    assert table.frame["method"].to_list()[:2] == ["mine", "as vote"]
    assert table.frame["accuracy"][0] == table.frame["accuracy"][1]
    assert not hasattr(mine, "labels_")
    alone = compare([mine], X, VOTES, test=(X, GOLD), end_model=LogisticRegression())
    assert alone.frame["method"].to_list()[0] == "Mine"


def test_the_models_that_were_given_stay_unfitted():
    model = quick(TwoStage)
    compare([model], X, VOTES, test=(X, GOLD))
    assert not hasattr(model, "labels_")
    assert model.seed == 0


def test_methods_by_name_share_one_end_model():
    methods = {"majority_vote": {"epochs": 1}, "dawid_skene": {"epochs": 1}}
    sets = {"test": (X, GOLD), "validation": (X, GOLD)}
    by_name = compare(methods, X, VOTES, **sets, end_model="linear")
    named = by_name.frame["method"].to_list()
    assert named[:4] == [
        "majority_vote",
        "dawid_skene",
        "always 'class_1'",
        "labels alone: logistic",
    ]
    by_module = compare(methods, X, VOTES, **sets, end_model=NETWORK)
    assert by_module.frame["auc"].to_list()[:2] == by_name.frame["auc"].to_list()[:2]


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ParameterError, match="list of methods is empty"):
        compare([], X, VOTES, test=(X, GOLD))
    with pytest.raises(ParameterError, match="given twice"):
        compare([quick(), quick()], X, VOTES, test=(X, GOLD))
    with pytest.raises(ParameterError, match="Did you mean 'weasel'"):
        compare(["wesel"], X, VOTES, test=(X, GOLD))
    with pytest.raises(ParameterError, match="learns from gold labels"):
        compare([Supervised(Linear(3, 2))], X, VOTES, test=(X, GOLD))


def test_options_of_a_label_model_and_of_training_are_told_apart():
    options = {"ties": "lowest", "label_model__hard": True, "epochs": 7, "seed": 3}
    model = build_method("majority_vote", Linear(3, 2), LABELS, options)
    assert (model.label_model.ties, model.epochs) == ("lowest", 7)
    assert (model.label_model.hard, model.hard) == (True, False)
    assert (model.label_model.seed, model.seed) == (3, 3)
    assert build_method("supervised", Linear(3, 2), LABELS).labels == LABELS
    with pytest.raises(ParameterError, match="Did you mean 'epochs'"):
        build_method("majority_vote", Linear(3, 2), LABELS, {"epoch": 7})
    with pytest.raises(ParameterError, match="Name the label model"):
        build_method("two_stage", Linear(3, 2), LABELS)


def test_an_unknown_figure_is_a_dash():
    rows = [{"method": "m", "seed": 0, "accuracy": float("nan"), "seconds": 1.0}]
    assert "\N{EN DASH}" in str(score_table(rows))


def test_the_public_name_is_the_function_even_after_its_module_was_imported(monkeypatch):
    monkeypatch.setattr(wiesel, "compare", None)
    monkeypatch.delitem(sys.modules, "wiesel.compare")
    imported = import_module("wiesel.compare")  # which binds the submodule to the package
    assert type(imported).__name__ == "module"
    assert wiesel.compare is imported.compare


def test_several_data_sets_have_rows_of_their_own():
    def task(seed):
        votes, gold = make_votes(60, n_voters=4, seed=seed)
        X = make_features(gold, n_features=3, seed=seed)
        return {"X": X, "votes": votes, "test": (X, gold), "validation": (X[:20], gold[:20])}

    quickly = {"epochs": 1, "members": 1}
    methods = {"majority_vote": quickly, "snorkel": quickly}
    tasks = {"mails": task(0), "reviews": task(1)}
    table = compare_datasets(methods, tasks, end_model="linear", seeds=[0, 1])
    rows = table.frame.select("data", "method", "seeds").rows()
    assert [row for row in rows if row[2] == 2] == [
        ("mails", "majority_vote", 2),
        ("mails", "snorkel", 2),
        ("reviews", "majority_vote", 2),
        ("reviews", "snorkel", 2),
    ]
    assert [row[:2] for row in rows if row[1] == "labels alone: end model"] == [
        ("mails", "labels alone: end model"),
        ("reviews", "labels alone: end model"),
    ]
    alone = compare(methods, **tasks["reviews"], end_model="linear", seeds=[0, 1])
    assert table.frame["accuracy"].to_list()[6:] == alone.frame["accuracy"].to_list()
    with pytest.raises(ParameterError, match="no data sets"):
        compare_datasets(methods, {})
    with pytest.raises(ParameterError, match=r"no 'tests'\. Did you mean 'test'"):
        compare_datasets(methods, {"mails": {**task(0), "tests": None}})
    with pytest.raises(ParameterError, match="'votes' is missing"):
        compare_datasets(methods, {"mails": {**task(0), "votes": None}})
