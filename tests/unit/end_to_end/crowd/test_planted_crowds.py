"""WeaSEL and the two-stage methods on crowds in which majority vote goes wrong."""

from collections.abc import Callable

import pytest
from crowd_tasks import (
    QUICK,
    adversaries,
    busy_spammers,
    confused_class,
    majority_right,
    network,
    right,
)
from tiny_task import Task

from wiesel import DawidSkene, LabelModel, MajorityVote, Snorkel, TwoStage, WeaSEL

QUIET = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")


@pytest.mark.parametrize("make_task", [adversaries, busy_spammers, confused_class])
@pytest.mark.parametrize("label_model", [DawidSkene(), Snorkel()], ids=["dawid_skene", "snorkel"])
def test_two_stages_with_mutual_information_beat_majority_vote(
    label_model: LabelModel, make_task: Callable[[], Task]
):
    model = TwoStage(label_model, network(), loss="mig", **QUICK)
    assert right(model, make_task()) > majority_right(make_task) + 0.05


@pytest.mark.parametrize("make_task", [adversaries, busy_spammers, confused_class])
def test_mutual_information_alone_beats_cross_entropy_on_majority_vote(
    make_task: Callable[[], Task],
):
    model = TwoStage(MajorityVote(), network(), loss="mig", **QUICK)
    assert right(model, make_task()) > majority_right(make_task)


# No adversaries here: mutual information is blind to a renaming of the classes and WeaSEL's weights
# are never negative, so two busy voters that agree on another naming can win.
@QUIET
@pytest.mark.parametrize("make_task", [busy_spammers, confused_class])
def test_class_conditional_weasel_with_mutual_information_beats_majority_vote(
    make_task: Callable[[], Task],
):
    given = {"loss": "mig", "class_conditional": True, "encoder": (16,), **QUICK}
    model = WeaSEL.paper(network(), **given)
    assert right(model, make_task()) > majority_right(make_task) + 0.05
