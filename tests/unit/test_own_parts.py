"""What a user's own parts return is checked where it enters; the error names the part."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pytest
import torch

from wiesel import (
    Committee,
    EndToEndModel,
    LabelModel,
    MajorityVote,
    TwoStage,
    WeaSEL,
    aggregate,
    apply_lfs,
    evaluate,
    keywords,
)
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end import MaxMIG, SoftLabelObjective, out_of_sample_proba
from wiesel.errors import FeatureError, TrainingError, VoteError, WieselWarning
from wiesel.lfs import from_model
from wiesel.lfs.engines import Engine, LocalEngine
from wiesel.multilabel import MultiLabelVotes
from wiesel.nn import MLP, LinearTagger
from wiesel.spans import Documents, apply_span_lfs, gazetteer
from wiesel.training import History, TokenInputs

VOTES, GOLD = make_votes(120, n_voters=5, seed=3)
X = make_features(GOLD, n_features=4, seed=3)
NET = torch.nn.Linear(4, 2)
QUICK = {"epochs": 1, "epoch_size": 64}


def broken(proba: np.ndarray, how: str) -> np.ndarray:
    """Probabilities that a careless method returns."""
    if how == "flat":
        return proba[:, 0]
    if how == "short":
        return proba[1:]
    if how == "wide":
        return np.hstack([proba, proba[:, :1]])
    wrong = {"negative": [1.4, -0.4], "counts": [3.0, 2.0], "nan": [np.nan, np.nan]}[how]
    return np.where(np.arange(len(proba))[:, None] == 7, wrong, proba)


@dataclass(eq=False, kw_only=True)
class Careless(LabelModel):
    """A label model that returns no probabilities."""

    how: str = "negative"

    def _fit(self, votes, class_balance):
        pass

    def _predict_proba(self, votes):
        return broken(MajorityVote().fit(votes).predict_proba(votes), self.how)


@dataclass(eq=False, kw_only=True)
class CarelessFit(Careless):
    """A label model that overrides the methods that check."""

    def fit_predict_proba(self, votes, class_balance=None):
        self.fit(votes, class_balance)
        return self._predict_proba(votes)

    def predict_proba(self, votes):
        return self._predict_proba(votes)


ROWS = ["negative", "counts", "nan"]
SHAPES = ["flat", "short", "wide"]


@pytest.mark.parametrize("how", [*ROWS, *SHAPES])
@pytest.mark.parametrize("cls", [Careless, CarelessFit])
def test_soft_labels_of_an_own_label_model_are_checked(cls, how):
    name = f"The soft labels by {cls.__name__} "
    text = "of row 7 are" if how in ROWS else "must be items x 2 classes"
    for fit in (
        lambda: TwoStage(cls(how=how), NET, **QUICK).fit(X, VOTES),
        lambda: WeaSEL(NET, start=cls(how=how), epochs=2, warm_up=1).fit(X, VOTES),
        lambda: Committee(NET, members=[TwoStage(cls(how=how), NET, **QUICK)]).fit(X, VOTES),
    ):
        with pytest.raises(FeatureError, match=name) as caught:
            fit()
        assert text in str(caught.value)


def test_an_own_label_model_is_checked_by_itself_and_in_one_call():
    with pytest.raises(FeatureError, match="The soft labels by Careless of row"):
        Careless().fit(VOTES).predict_proba(VOTES)
    with pytest.raises(FeatureError, match="The soft labels by Careless of row"):
        aggregate(VOTES.to_long(), item="item", worker="voter", label="label", method=Careless())


def test_an_own_label_model_is_checked_for_several_labels_and_for_spans():
    several = MultiLabelVotes.from_dense(np.stack([VOTES.dense()] * 2, axis=2), ["a", "b"])
    with pytest.raises(FeatureError, match="The soft labels by CarelessFit of row"):
        TwoStage(CarelessFit(), NET, **QUICK).fit(X, several)
    documents = Documents.from_texts([f"Ada met Bob {k}." for k in range(9)])
    found = apply_span_lfs([gazetteer("PER", ["Ada", "Bob"])], documents, labels=["PER"])

    @dataclass(eq=False, kw_only=True)
    class Ones(LabelModel):
        def _fit(self, votes, class_balance):
            pass

        def _predict_proba(self, votes):
            return np.full((votes.n_items, votes.n_classes), 1.0)

    with pytest.raises(FeatureError, match="The soft labels by Ones of row"):
        TwoStage(Ones(), LinearTagger(3), **QUICK).fit(documents, found)


@dataclass(eq=False)
class OwnMethod(EndToEndModel):
    """An end-to-end method with one careless part."""

    end_model: torch.nn.Module
    careless: str = ""
    how: str = "negative"

    def _plan(self, given, validation, network):
        plan = super()._plan(given, validation, network)
        targets = MajorityVote().fit_predict_proba(plan.votes)
        if self.careless == "targets":
            targets = broken(targets, self.how)
        return replace(plan, targets=targets)

    def _objective(self, end_model, plan):
        if self.careless == "objective":
            return torch.nn.Identity()
        cls = {"losses": NotADict, "items": OnePerItem}.get(self.careless, SoftLabelObjective)
        return cls(end_model, plan.targets)

    def predict_proba(self, X):
        proba = super().predict_proba(X)
        return broken(proba, self.how) if self.careless == "predict_proba" else proba

    def soft_labels(self, X, votes):
        return broken(np.full((len(votes), 2), 0.5), self.how)


class NotADict(SoftLabelObjective):
    def compare(self, rows, outputs):
        return super().compare(rows, outputs)["end_model"]


class OnePerItem(SoftLabelObjective):
    def compare(self, rows, outputs):
        return {"end_model": (outputs["end_model"] - self.targets[rows]).square().sum(dim=1)}


@pytest.mark.parametrize("how", [*ROWS, *SHAPES])
def test_targets_of_an_own_method_are_checked(how):
    with pytest.raises(FeatureError, match="The targets by OwnMethod"):
        OwnMethod(NET, "targets", how, **QUICK).fit(X, VOTES)


def test_the_objective_of_an_own_method_is_checked():
    with pytest.raises(TrainingError, match=r"OwnMethod\._objective must return .*got Identity"):
        OwnMethod(NET, "objective", **QUICK).fit(X, VOTES)
    with pytest.raises(TrainingError, match=r"NotADict\.losses must return a dict.*got Tensor"):
        OwnMethod(NET, "losses", **QUICK).fit(X, VOTES)
    with pytest.raises(TrainingError, match=r"'end_model' of OnePerItem.*got the shape \(64,\)"):
        OwnMethod(NET, "items", **QUICK).fit(X, VOTES)


@pytest.mark.parametrize("how", [*ROWS, "flat", "wide"])
def test_probabilities_of_an_own_method_are_checked_wherever_they_are_used(how):
    model = OwnMethod(NET, "predict_proba", how, **QUICK).fit(X, VOTES)
    own = OwnMethod(NET, "predict_proba", how, **QUICK)
    uses = {
        "predict": lambda: model.predict(X),
        "score": lambda: model.score(X, GOLD),
        "member_probas": lambda: model.member_probas(X),
        "evaluate": lambda: evaluate(model, X, GOLD),
        "committee": lambda: Committee(NET, members=[own]).fit(X, VOTES).member_probas(X),
        "out of sample": lambda: out_of_sample_proba(own, X, VOTES, folds=3),
    }
    for use in uses.values():
        with pytest.raises(FeatureError, match="The probabilities by OwnMethod"):
            use()


def test_soft_labels_of_an_own_member_are_checked():
    committee = Committee(NET, members=[OwnMethod(NET, **QUICK)]).fit(X, VOTES)
    with pytest.raises(FeatureError, match="The soft labels by OwnMethod of row"):
        committee.soft_labels(X, VOTES)


def test_an_end_model_that_starts_with_nan_is_refused_before_training():
    net = torch.nn.Linear(4, 2)
    torch.nn.init.constant_(net.bias, float("nan"))
    with pytest.raises(FeatureError, match=r"returns \[nan, nan\] for item 0 of X before training"):
        TwoStage(MajorityVote(), net, **QUICK).fit(X, VOTES)


def own_classifier(how: str):
    from sklearn.base import BaseEstimator, ClassifierMixin

    class OwnClassifier(ClassifierMixin, BaseEstimator):
        def fit(self, X, y, sample_weight=None):
            self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
            return self

        def predict_proba(self, X):
            return broken(np.full((len(X), 2), 0.5), how)

    return OwnClassifier()


@pytest.mark.parametrize("how", [*ROWS, *SHAPES])
def test_probabilities_of_a_classifier_are_checked(how):
    model = TwoStage(MajorityVote(), own_classifier(how)).fit(X, VOTES)
    with pytest.raises(FeatureError, match="The probabilities by OwnClassifier"):
        model.predict_proba(X)


@pytest.mark.parametrize("how", [*ROWS, *SHAPES])
def test_probabilities_of_a_model_that_votes_are_checked(how):
    classifier = own_classifier(how).fit(X, GOLD)
    lf = from_model(classifier, ["a", "b"], min_confidence=0.9)
    rows = pl.DataFrame(X[:, :2], schema=["a", "b"])
    with pytest.raises(FeatureError, match="The probabilities by 'model_ownclassifier'"):
        apply_lfs(lf, rows, labels=["ham", "spam"])


class OwnEngine(Engine):
    def __init__(self, change):
        self.change = change

    def apply(self, job):
        return self.change(LocalEngine().apply(job))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda votes: votes.dense(), "must return a VoteMatrix; got ndarray"),
        (lambda votes: votes.select([1, 0]), "must return the votes of 'a', 'b'"),
        (lambda votes: votes[1:], "got 3 rows, and returned 2 items"),
    ],
    ids=["array", "voters", "rows"],
)
def test_votes_of_an_own_engine_are_checked(change, words):
    lfs = [keywords("spam", ["free"], column="text", name=name) for name in "ab"]
    rows = pl.DataFrame({"text": ["free", "see you", "free now"]})
    with pytest.raises(VoteError, match=f"OwnEngine.apply {words}"):
        apply_lfs(lfs, rows, labels=["ham", "spam"], engine=OwnEngine(change))
    same = apply_lfs(lfs, rows, labels=["ham", "spam"], engine=OwnEngine(lambda votes: votes))
    assert same.n_votes == 4


def test_histories_of_an_own_training_engine_are_checked():
    class OwnTraining:
        device = torch.device("cpu")

        def train(self, job):
            return [History(), History()]

    with pytest.raises(TrainingError, match=r"OwnTraining\.train must return a list"):
        TwoStage(MajorityVote(), NET, **QUICK).fit(X, VOTES, engine=OwnTraining())


def test_features_of_a_tagger_are_checked():
    documents = Documents.from_texts([f"Ada met Bob {k}." for k in range(9)])
    n_tokens = documents.n_tokens
    for features, words in (
        (np.zeros((n_tokens, 3)), "are a dict of arrays"),
        ({"x": np.full((n_tokens, 3), np.nan)}, "'x' have NaN or infinity for token 0"),
        ({"x": np.zeros((n_tokens + 1, 3))}, "of 46 tokens"),
    ):
        with pytest.raises(FeatureError, match=words):
            TokenInputs(documents, features)


def test_no_message_names_a_private_class():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MaxMIG(MLP(4, 2, hidden=(4,)), members=2, **QUICK).fit(X, VOTES)
    told = [str(each.message) for each in caught]
    assert "The 2 networks of MaxMIG are trained one by one: MaxMIG has no stacked form." in told

    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)

        def forward(self, x):
            return self.layer(x)

    with pytest.warns(WieselWarning, match=r"by one: TwoStage\.end_model \(Own\) has no"):
        TwoStage(MajorityVote(), Own(), members=2, **QUICK).fit(X, VOTES)
