"""What the defaults are worth on real labeling functions, which are not independent."""

import numpy as np
import pytest

from wiesel import DawidSkene, Snorkel, Triplet, load_dataset
from wiesel.errors import CollapseWarning
from wiesel.label_models.snorkel import FITS_WELL

NAMES = ("imdb_12", "amazon_175", "youtube", "sms", "trec", "agnews", "sst2", "hausa", "spambase")


@pytest.fixture(scope="module")
def train_sets(data_folder):
    sets = [load_dataset(data_folder / name).train for name in NAMES]
    assert all((np.asarray(split.gold) >= 0).mean() > 0.9 for split in sets)
    return sets


def mean_accuracy(model, train_sets):
    """The mean over the sets of the share of covered items with the right label."""
    return np.mean(
        [
            (model.fit(split.votes).predict_proba(split.votes).argmax(axis=1) == split.gold)[
                split.votes.covered
            ].mean()
            for split in train_sets
        ]
    )


@pytest.mark.data
def test_most_sets_of_labeling_functions_are_not_independent(train_sets):
    misfits = [Snorkel().fit(split.votes).misfit_ for split in train_sets]
    assert sum(misfit > FITS_WELL for misfit in misfits) >= 7


@pytest.mark.data
def test_snorkel_is_no_worse_than_the_steps_of_the_snorkel_library(train_sets):
    theirs = mean_accuracy(Snorkel(optimizer="sgd"), train_sets)
    assert mean_accuracy(Snorkel(), train_sets) > theirs - 0.005


@pytest.mark.filterwarnings("ignore:.*outweighs all votes:wiesel.errors.WieselWarning")
@pytest.mark.data
def test_listening_to_silence_pays_where_voters_are_one_sided(train_sets):
    with pytest.warns(CollapseWarning, match="abstain_as_vote=True"):
        deaf = mean_accuracy(DawidSkene(abstain_as_vote=False), train_sets)
    assert mean_accuracy(DawidSkene(), train_sets) > deaf + 0.1


@pytest.mark.data
@pytest.mark.filterwarnings("ignore:Triplet:wiesel.errors.WieselWarning")
def test_class_conditional_triplets_suit_one_sided_voters(train_sets):
    even = mean_accuracy(Triplet(), train_sets)
    assert mean_accuracy(Triplet(reading="class_conditional"), train_sets) > even - 0.005
