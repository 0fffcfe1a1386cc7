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
