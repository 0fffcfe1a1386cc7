import json

import pytest

from wiesel.training import History


def history() -> History:
    records = [{"epoch": 1, "loss": 0.7, "shares": [0.5, 0.5]}, {"epoch": 2, "loss": 0.6}]
    return History(records, best_epoch=1)


def test_the_kept_record_is_that_of_the_best_epoch_or_the_last():
    assert history().kept["epoch"] == 1
    assert History(history().records).kept["epoch"] == 2


def test_it_is_plain_data_that_survives_json():
    data = json.loads(json.dumps(history().to_dict()))
    assert History.from_dict(data) == history()


def test_it_becomes_a_frame_with_a_row_for_every_epoch():
    frame = history().to_frame()
    assert frame.shape == (2, 3)
    assert frame["loss"].to_list() == [0.7, 0.6]


def test_records_are_taken_by_position():
    assert history()[0]["loss"] == 0.7
    assert history().last["loss"] == 0.6
    with pytest.raises(IndexError):
        history()[5]


def test_members_of_different_methods_are_averaged_over_what_each_recorded():
    first = History([{"epoch": 1, "loss": 0.2, "effective_voters": 3.0}])
    second = History([{"epoch": 1, "loss": 0.4, "agreement": 0.5}])
    expected = {"epoch": 1, "loss": pytest.approx(0.3), "effective_voters": 3.0, "agreement": 0.5}
    for members in ([first, second], [second, first]):
        assert History.of_members(members).records == [expected]


def test_the_mean_does_not_jump_where_a_member_ends():
    long = History([{"epoch": k, "loss": 0.5} for k in range(1, 5)])
    short = History([{"epoch": k, "loss": 0.1} for k in range(1, 3)])
    mean = History.of_members([long, short])
    assert mean.column("loss") == [pytest.approx(0.3)] * 4
    assert mean.column("epoch") == [1, 2, 3, 4]
    assert [len(member) for member in mean.members] == [4, 2]


def test_members_with_another_loss_count_in_validation_scores_only():
    kinds = ["ce", "mig", "gold"]
    members = [
        History([{"epoch": 1, "loss": 0.5, "agreement": 0.9, "validation_auc": 0.8}]),
        History([{"epoch": 1, "loss": -0.8, "agreement": 0.1, "validation_auc": 0.6}]),
        History([{"epoch": 1, "loss": 0.0, "agreement": 0.2}]),
    ]
    expected = {"epoch": 1, "loss": 0.5, "agreement": 0.9, "validation_auc": pytest.approx(0.7)}
    assert History.of_members(members, kinds).records == [expected]
    assert History.of_members([History([]), members[0]], ["ce", "ce"]).records == members[0].records
