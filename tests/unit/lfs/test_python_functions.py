"""The decorator: names, parameters, what a function may return, what it may not."""

import numpy as np
import polars as pl
import pytest

from wiesel import apply_lfs, labeling_function
from wiesel.errors import LabelingFunctionError, ParameterError, VoteError
from wiesel.lfs import PythonFunction

LABELS = ["ham", "spam"]
ROWS = [{"text": "free prize", "n": 1}, {"text": "see you", "n": 5}]


@labeling_function
def few(row, limit=3):
    """Few things."""
    return "ham" if row["n"] < limit else None


def test_with_and_without_parentheses_and_with_a_name() -> None:
    def always(row):
        return "ham"

    assert labeling_function(always).name == "always"
    assert labeling_function()(always).name == "always"
    assert labeling_function(name="ever")(always).name == "ever"
    assert few.__doc__ == "Few things."


def test_calling_it_shows_the_vote_on_one_row() -> None:
    assert few(ROWS[0]) == "ham"
    assert few(ROWS[1]) is None


def test_keyword_parameters_are_tunable_and_the_original_stays() -> None:
    many = few.with_params(limit=9)
    assert many(ROWS[1]) == "ham"
    assert few(ROWS[1]) is None
    assert many.parameters == {"limit": 9}
    assert repr(many) == "<labeling function few(limit=9)>"


def test_an_unknown_parameter_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ParameterError, match=r"'few' has no parameter 'limt'.*'limit'"):
        few.with_params(limt=2)


def test_a_parameter_without_default_is_refused_at_once() -> None:
    with pytest.raises(LabelingFunctionError, match=r"'limit' of 'needy' has no default"):

        @labeling_function
        def needy(row, limit):
            return None


def test_a_function_without_arguments_is_refused() -> None:
    with pytest.raises(LabelingFunctionError, match="must take a row"):
        labeling_function(lambda: None)


def test_an_option_given_by_position_is_refused() -> None:
    with pytest.raises(ParameterError, match="given by name"):
        labeling_function("few")  # type: ignore[call-overload]


def test_distributions_may_be_dicts_or_arrays_beside_names() -> None:
    answers = [{"spam": 0.75, "ham": 0.25}, np.array([0.5, 0.5]), "ham", None, {"spam": 1.0}]

    @labeling_function
    def unsure(row):
        return answers[row["n"]]

    votes = apply_lfs(unsure, [{"n": n} for n in range(5)], labels=LABELS)
    assert votes.distribution.tolist() == [[0.25, 0.75], [0.5, 0.5], [1, 0], [0, 1]]
    assert votes.covered.tolist() == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("vote", "shown"),
    [
        ("spma", "'spma'"),
        (1, "1"),
        (True, "True"),
        (-2, "-2"),
        ({"spam": 0.5}, r"\[0.0, 0.5\]"),
        ({"eggs": 1.0}, "eggs"),
        ([0.2, 0.3, 0.5], r"\[0.2, 0.3, 0.5\]"),
        ([1.5, -0.5], r"\[1.5, -0.5\]"),
        (["spam", "ham"], "spam"),
    ],
)
def test_votes_outside_the_classes_are_refused_with_the_options(vote: object, shown: str) -> None:
    typo = labeling_function(name="typo")(lambda row: vote if row["n"] == 5 else None)
    with pytest.raises(VoteError, match=rf"'typo' voted .*{shown}.* on row 1.*'ham', 'spam'"):
        apply_lfs(typo, ROWS, labels=LABELS)


def test_the_message_speaks_in_the_agreed_voice() -> None:
    typo = labeling_function(name="typo")(lambda row: "spma")
    with pytest.raises(VoteError) as caught:
        apply_lfs(typo, ROWS, labels=LABELS)
    assert str(caught.value) == (
        "'typo' voted 'spma' on row 0; it must return one of 'ham', 'spam', or None to abstain."
    )


def test_a_vectorized_function_gets_a_frame_and_returns_a_series() -> None:
    @labeling_function(vectorized=True)
    def long(frame, limit=8):
        hit = frame["text"].str.len_chars() > limit
        return frame.select(pl.when(hit).then(pl.lit("spam")))

    assert apply_lfs(long, ROWS, labels=LABELS).dense().tolist() == [[1], [-1]]
    assert apply_lfs(long.with_params(limit=1), ROWS, labels=LABELS).n_votes == 2


@pytest.mark.parametrize(
    "column",
    [
        pl.Series(["spam", None]),
        pl.Series(["spam", None], dtype=pl.Categorical),
        np.array(["spam", None], dtype=object),
        ["spam", None],
        np.array([[0.0, 1.0], [0.0, 0.0]]),
        np.array([[0.0, 1.0], [np.nan, np.nan]]),
        pl.Series([[0.0, 1.0], None]),
    ],
)
def test_a_vectorized_function_may_return_any_column_of_votes(column: object) -> None:
    lf = labeling_function(vectorized=True)(lambda frame: column)
    assert apply_lfs(lf, ROWS, labels=LABELS).dense().tolist() == [[1], [-1]]


def test_a_vectorized_function_must_return_one_vote_for_each_row() -> None:
    lf = labeling_function(vectorized=True, name="short")(lambda frame: ["spam"])
    with pytest.raises(VoteError, match=r"'short'.*got 2 rows, but returned 1 values"):
        apply_lfs(lf, ROWS, labels=LABELS)


def test_a_wrong_name_in_a_series_is_refused_with_the_row() -> None:
    lf = labeling_function(vectorized=True, name="typo")(lambda frame: pl.Series(["ham", "spma"]))
    with pytest.raises(VoteError, match=r"'typo' voted 'spma' on row 1"):
        apply_lfs(lf, ROWS, labels=LABELS)


def test_lambdas_and_callable_objects_are_functions_too() -> None:
    class Above:
        def __call__(self, row, limit=3):
            return "spam" if row["n"] > limit else None

    lf = labeling_function(Above())
    assert isinstance(lf, PythonFunction)
    assert lf.name == "Above"
    assert lf.with_params(limit=0)(ROWS[0]) == "spam"
