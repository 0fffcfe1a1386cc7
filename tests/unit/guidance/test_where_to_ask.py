"""Where a budget is spent: the cheap model everywhere, the dear one where it matters most."""

import numpy as np
import pytest
from experiments.studies import judges

from wiesel.errors import DataError, ParameterError
from wiesel.guidance import Source, where_to_ask

BIG, PERSON = Source(1.0, 0.9), Source(5.0, 0.99)


def test_the_least_certain_items_come_first() -> None:
    proba = [[0.9, 0.1], [0.5, 0.5], [0.3, 0.7], [0.999, 0.001]]
    table = where_to_ask(proba, {"big": BIG}, budget=3, ids=["a", "b", "c", "d"])
    assert table.frame["item"].to_list() == ["b", "c", "a"]
    # From 1/2 to 9/10 or 1/10: a move of .4, whatever is said.
    assert table.frame["benefit"][0] == pytest.approx(0.4)
    assert table.frame["price"].sum() == 3


def test_the_budget_is_never_exceeded_and_dearer_sources_come_last() -> None:
    proba = np.full((10, 2), 0.5)
    sources = {"person": PERSON, "big": BIG}
    for budget, n_big, n_persons in (
        (0.5, 0, 0),
        (10, 10, 0),
        (14, 9, 1),
        (50, 0, 10),
        (99, 0, 10),
    ):
        frame = where_to_ask(proba, sources, budget).frame
        assert frame["price"].sum() <= budget
        counts = dict(frame["source"].value_counts().iter_rows())
        assert (counts.get("big", 0), counts.get("person", 0)) == (n_big, n_persons)


def test_items_that_move_the_model_more_come_first() -> None:
    X = np.zeros((6, 2))
    X[:, 0] = [0, 0, 0, 0, 0, 5]
    table = where_to_ask(np.full((6, 2), 0.5), {"big": BIG}, 1, X)
    assert table.frame["item"].to_list() == [5]
    asked = np.arange(6) == 5
    assert (
        5 not in where_to_ask(np.full((6, 2), 0.5), {"big": BIG}, 6, X, asked=asked).frame["item"]
    )


def test_a_source_that_knows_nothing_is_not_asked() -> None:
    assert not len(where_to_ask(np.full((4, 2), 0.5), {"coin": Source(1.0, 0.5)}, 10))


def test_wrong_input_is_refused() -> None:
    with pytest.raises(DataError, match="rows that sum to 1"):
        where_to_ask([[0.5, 0.6]], {"big": BIG}, 1)
    with pytest.raises(ParameterError, match="sources names who can be asked"):
        where_to_ask([[0.5, 0.5]], {}, 1)
    with pytest.raises(ParameterError, match="price"):
        Source(0.0, 0.9)
    with pytest.raises(DataError, match="X and asked need a row"):
        where_to_ask([[0.5, 0.5]], {"big": BIG}, 1, np.zeros((2, 1)))


def test_a_quarter_of_the_price_gives_about_the_accuracy_of_the_dear_model_everywhere() -> None:
    cheap, chosen, drawn, everywhere = np.mean([judges.budget(seed) for seed in range(6)], axis=0)
    assert chosen > everywhere - 1
    assert cheap < everywhere - 5
    assert chosen > drawn
