"""apply_lfs: kinds of rows, names, ids, errors, preprocessors."""

import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from wiesel import LabelSpace, apply_lfs, expression, keywords, labeling_function, regex, threshold
from wiesel.errors import DataError, LabelingFunctionError, ParameterError, VoteError
from wiesel.lfs import FailureLog, LabelingFunctionWarning, LocalEngine, batch, preprocessor

LABELS = LabelSpace("ham", "spam")
ROWS = [
    {"id": "m1", "text": "free prize", "n": 4},
    {"id": "m2", "text": "see you", "n": 0},
    {"id": "m3", "text": "a prize?", "n": 9},
]


@labeling_function
def short(row):
    return "ham" if len(row["text"]) < 8 else None


LFS = [
    keywords("spam", ["free", "prize"], column="text"),
    regex("ham", r"\?$", column="text"),
    threshold("spam", "n", above=3),
    short,
]
EXPECTED = [[1, -1, 1, -1], [-1, -1, -1, 0], [1, 0, 1, -1]]


def test_rows_may_come_in_every_common_kind(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pl.DataFrame(ROWS)
    frame.write_parquet(tmp_path / "rows.parquet")
    frame.write_csv(tmp_path / "rows.csv")
    frame.write_ndjson(tmp_path / "rows.jsonl")
    kinds = [
        ROWS,
        frame,
        frame.lazy(),
        pandas.DataFrame(ROWS),
        frame.to_arrow(),
        frame.to_dict(as_series=False),
        tmp_path / "rows.parquet",
        str(tmp_path / "rows.csv"),
        tmp_path / "rows.jsonl",
    ]
    for rows in kinds:
        votes = apply_lfs(LFS, rows, labels=LABELS, ids="id")
        assert votes.dense().tolist() == EXPECTED
        assert votes.ids.tolist() == ["m1", "m2", "m3"]
        assert votes.voters == ("spam_free_prize", "ham_regex", "spam_n_above_3", "short")


def test_items_are_numbered_where_there_is_no_id_column() -> None:
    assert apply_lfs(LFS, ROWS, labels=LABELS).ids.tolist() == [0, 1, 2]


def test_many_batches_give_the_votes_of_one(tmp_path: Path) -> None:
    rows = pl.DataFrame(ROWS * 5).drop("id").with_row_index("id")
    rows.write_parquet(tmp_path / "rows.parquet")
    whole = apply_lfs(LFS, rows, labels=LABELS, ids="id")
    four = LocalEngine(batch_rows=4)
    for cut in (rows, rows.lazy(), tmp_path / "rows.parquet"):
        parts = apply_lfs(LFS, cut, labels=LABELS, ids="id", engine=four)
        assert parts.dense().tolist() == whole.dense().tolist()
        assert parts.ids.tolist() == whole.ids.tolist()
        assert apply_lfs(LFS, cut, labels=LABELS, engine=four).ids.tolist() == list(range(15))


def test_only_the_columns_that_rules_read_are_read_from_a_file(tmp_path: Path) -> None:
    pl.DataFrame(ROWS).write_parquet(tmp_path / "rows.parquet")
    source = batch.RowSource(tmp_path / "rows.parquet", "id", ("text",))
    (rows,) = source.batches()
    assert rows.frame.columns == ["id", "text"]


def test_no_rows_give_no_items() -> None:
    rows = pl.DataFrame(schema={"text": pl.String, "n": pl.Int64})
    votes = apply_lfs(LFS, rows, labels=LABELS)
    assert votes.n_items == 0
    assert votes.n_voters == 4


def test_hard_and_probabilistic_votes_stand_side_by_side() -> None:
    unsure = labeling_function(name="unsure")(lambda row: {"ham": 0.5, "spam": 0.5})
    votes = apply_lfs([keywords("spam", ["free"], column="text"), unsure], ROWS, labels=LABELS)
    assert votes.distribution.tolist() == [[0, 1], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]


def test_made_up_names_are_numbered_and_given_names_must_be_unique() -> None:
    twice = [keywords("spam", ["free"], column="text"), keywords("spam", ["free"], column="title")]
    rows = [{"text": "free", "title": "x"}]
    assert apply_lfs(twice, rows, labels=LABELS).voters == ("spam_free", "spam_free_2")
    named = [keywords("spam", [w], column="text", name="same") for w in ("free", "prize")]
    with pytest.raises(ParameterError, match=r"'same' appear more than once.*name="):
        apply_lfs(named, rows, labels=LABELS)


@pytest.mark.parametrize(
    ("lfs", "words"),
    [
        ([], "no labeling functions"),
        ([len], "Put @labeling_function above"),
        ("lfs.py", "Expected a labeling function; got 'lfs.py'"),
        (3, "Expected a labeling function; got 3"),
    ],
)
def test_what_is_no_labeling_function_is_refused(lfs: object, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        apply_lfs(lfs, ROWS, labels=LABELS)  # type: ignore[arg-type]


def test_unknown_engines_and_ways_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"no engine 'locl'.*'local'"):
        apply_lfs(LFS, ROWS, labels=LABELS, engine="locl")
    with pytest.raises(ParameterError, match="'raise', 'abstain' or a FailureLog"):
        apply_lfs(LFS, ROWS, labels=LABELS, on_error="ignore")  # type: ignore[arg-type]
    assert apply_lfs(LFS, ROWS, labels=LABELS, engine=LocalEngine()).n_items == 3


def test_ids_are_a_column_and_unique_over_all_batches() -> None:
    with pytest.raises(DataError, match="no column 'idd'"):
        apply_lfs(LFS, ROWS, labels=LABELS, ids="idd")
    with pytest.raises(ParameterError, match="name of a column"):
        apply_lfs(LFS, ROWS, labels=LABELS, ids=["a"])  # type: ignore[arg-type]
    with pytest.raises(VoteError, match=r"unique; repeated: 'm1'"):
        apply_lfs(LFS, [*ROWS, ROWS[0]], labels=LABELS, ids="id", engine=LocalEngine(batch_rows=2))


@labeling_function
def broken(row):
    return "spam" if row["txt"] else None


def test_a_function_that_raises_is_named_with_the_row_and_the_exception() -> None:
    with pytest.raises(LabelingFunctionError) as caught:
        apply_lfs([short, broken], ROWS, labels=LABELS, ids="id")
    message = str(caught.value)
    assert message.startswith("'broken' failed on row 0 (id 'm1'): KeyError: 'txt'.")
    assert "'text': 'free prize'" in message
    assert "on_error='abstain'" in message


def test_it_stops_at_the_first_row_that_fails() -> None:
    calls = []

    @labeling_function
    def counting(row):
        calls.append(row["id"])
        raise ValueError("no")

    with pytest.raises(LabelingFunctionError):
        apply_lfs(counting, ROWS, labels=LABELS)
    assert calls == ["m1"]


def test_failures_may_be_survived_with_counts_and_examples() -> None:
    @labeling_function
    def often(row):
        return ["ham"][row["n"]]

    with pytest.warns(
        LabelingFunctionWarning, match=r"'often' failed on 2 rows.*row 0.*IndexError"
    ):
        votes = apply_lfs([often, short], ROWS, labels=LABELS, on_error="abstain")
    assert votes.dense().tolist() == [[-1, -1], [0, 0], [-1, -1]]


def test_failures_can_be_collected() -> None:
    log = FailureLog()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        votes = apply_lfs([broken, short], ROWS, labels=LABELS, on_error=log)
    assert votes.n_votes == 1
    assert log.counts == {"broken": 3}
    assert [failure.item for failure in log.examples("broken", limit=2)] == ["row 0", "row 1"]


def test_a_long_row_is_shortened_in_the_message() -> None:
    rows = [{"text": "x" * 10_000} | {f"column_{k}": k for k in range(100)}]
    with pytest.raises(LabelingFunctionError) as caught:
        apply_lfs(broken, rows, labels=LABELS)
    assert len(str(caught.value)) < 800


def test_a_vectorized_function_that_raises_names_the_rows() -> None:
    lf = labeling_function(vectorized=True, name="bad")(lambda frame: frame["txt"])
    with pytest.raises(LabelingFunctionError, match=r"'bad' failed on rows 0 to 2: ColumnNotFound"):
        apply_lfs(lf, ROWS, labels=LABELS)


def test_a_wrong_vote_is_refused_even_when_failures_are_survived() -> None:
    typo = labeling_function(name="typo")(lambda row: "spma")
    with pytest.raises(VoteError, match="'typo' voted 'spma'"):
        apply_lfs(typo, ROWS, labels=LABELS, on_error="abstain")


def test_a_preprocessor_runs_once_per_row_for_all_its_users() -> None:
    calls = []

    @preprocessor
    def words(row):
        calls.append(row["id"])
        return row["text"].split()

    @preprocessor(name="n_words", uses=words)
    def count(row):
        return len(row["words"])

    @labeling_function(uses=[words])
    def first(row):
        return "spam" if row["words"][0] == "free" else None

    @labeling_function(uses=[words, count])
    def few(row):
        return "ham" if row["n_words"] == len(row["words"]) == 2 else None

    votes = apply_lfs([first, few], ROWS, labels=LABELS)
    assert votes.dense().tolist() == [[1, 0], [-1, 0], [-1, 0]]
    assert calls == ["m1", "m2", "m3"]
    assert few(ROWS[0]) == "ham"


def test_a_preprocessor_that_raises_fails_its_users_on_that_row_only() -> None:
    @preprocessor
    def inverse(row):
        return 1 / row["n"]

    @labeling_function(uses=inverse)
    def large(row):
        return "spam" if row["inverse"] < 1 else None

    log = FailureLog()
    votes = apply_lfs([large, short], ROWS, labels=LABELS, on_error=log)
    assert votes.dense()[:, 0].tolist() == [1, -1, 1]
    assert [(f.lf, f.item, f.reason) for f in log.failures] == [
        ("large", "row 1", "ZeroDivisionError: division by zero (in the preprocessor 'inverse')")
    ]
    with pytest.raises(ZeroDivisionError):
        large(ROWS[1])


def test_uses_takes_preprocessors_only() -> None:
    with pytest.raises(ParameterError, match="@preprocessor"):
        labeling_function(uses=[len])  # type: ignore[list-item]


def test_a_vectorized_function_uses_no_preprocessor() -> None:
    words = preprocessor(name="words")(lambda row: row["text"].split())
    with pytest.raises(ParameterError, match="gets a frame"):
        labeling_function(vectorized=True, uses=words)(lambda frame: frame["text"])


def test_inputs_are_not_changed() -> None:
    frame = pl.DataFrame(ROWS)
    before = frame.clone()
    apply_lfs(LFS, frame, labels=LABELS)
    assert frame.equals(before)


def test_expressions_see_null_where_a_dict_lacks_a_key() -> None:
    rows = [{"n": 5}, {"m": 1}]
    votes = apply_lfs(expression("spam", pl.col("n").is_null()), rows, labels=LABELS)
    assert np.array_equal(votes.dense().ravel(), [-1, 1])
