"""The cache: only what changed is run again."""

from pathlib import Path

import polars as pl
import pytest

from wiesel import apply_lfs, keywords, labeling_function
from wiesel.errors import DataError, LabelingFunctionError
from wiesel.lfs import LocalEngine, VoteCache

LABELS = ["ham", "spam"]
ROWS = pl.DataFrame({"text": ["free prize", "see you", "a prize"], "n": [1, 2, 3]})
CALLS: list[str] = []


def counted(name: str, limit: int = 2):
    @labeling_function(name=name)
    def lf(row, limit=limit):
        CALLS.append(name)
        return "spam" if row["n"] >= limit else None

    return lf


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


def test_editing_one_of_many_runs_one_again(tmp_path: Path) -> None:
    lfs = [counted(f"lf_{number}", limit=number) for number in range(20)]
    cache = VoteCache(tmp_path / "votes.sqlite")
    first = apply_lfs(lfs, ROWS, labels=LABELS, cache=cache)
    assert len(CALLS) == 60
    CALLS.clear()
    edited = [lf.with_params(limit=100) if lf.name == "lf_1" else lf for lf in lfs]
    second = apply_lfs(edited, ROWS, labels=LABELS, cache=cache)
    assert CALLS == ["lf_1"] * 3
    assert (cache.hits, cache.misses) == (19, 21)
    assert second.select(voters=["lf_0"]).n_votes == first.select(voters=["lf_0"]).n_votes
    assert second.select(voters=["lf_1"]).n_votes == 0


def test_editing_one_of_136_keyword_functions_runs_one_again(tmp_path: Path) -> None:
    lfs = [keywords("spam", [f"word{number}", "prize"], column="text") for number in range(136)]
    cache = VoteCache(tmp_path)
    first = apply_lfs(lfs, ROWS, labels=LABELS, cache=cache)
    lfs[7] = keywords("spam", ["free"], column="text")
    second = apply_lfs(lfs, ROWS, labels=LABELS, cache=cache)
    assert (cache.hits, cache.misses) == (135, 137)
    assert first.n_votes - second.n_votes == 1


def test_a_path_is_a_cache_too_and_survives_the_process(tmp_path: Path) -> None:
    lf = counted("a")
    once = apply_lfs(lf, ROWS, labels=LABELS, cache=tmp_path / "votes.sqlite")
    assert len(CALLS) == 3
    CALLS.clear()  # the function depends on this list
    again = apply_lfs(lf, ROWS, labels=LABELS, cache=str(tmp_path / "votes.sqlite"))
    assert CALLS == []
    assert once.dense().tolist() == again.dense().tolist()


def test_changed_rows_classes_and_order_are_run_again(tmp_path: Path) -> None:
    lf = counted("a")
    apply_lfs(lf, ROWS, labels=LABELS, cache=tmp_path)
    for rows, labels in [
        (ROWS.reverse(), LABELS),
        (ROWS.with_columns(n=pl.Series([1, 2, 4])), LABELS),
        (ROWS.head(2), LABELS),
        (ROWS, ["spam", "ham"]),
    ]:
        CALLS.clear()
        fresh = apply_lfs(lf, rows, labels=labels, cache=tmp_path)
        assert len(CALLS) == len(rows)
        assert fresh.dense().tolist() == apply_lfs(lf, rows, labels=labels).dense().tolist()


def test_a_column_that_a_rule_does_not_read_does_not_matter(tmp_path: Path) -> None:
    cache = VoteCache(tmp_path)
    rule = keywords("spam", ["free"], column="text")
    apply_lfs(rule, ROWS, labels=LABELS, cache=cache)
    apply_lfs(rule, ROWS.with_columns(n=pl.lit(0)), labels=LABELS, cache=cache)
    assert (cache.hits, cache.misses) == (1, 1)


def test_appended_rows_run_the_last_batch_only(tmp_path: Path) -> None:
    two = LocalEngine(batch_rows=2)
    lf = counted("a")
    four_rows = pl.concat([ROWS, ROWS.head(1)])
    apply_lfs(lf, four_rows, labels=LABELS, cache=tmp_path, engine=two)
    CALLS.clear()
    more = ROWS.with_columns(pl.col("n") + 10)
    apply_lfs(lf, pl.concat([four_rows, more]), labels=LABELS, cache=tmp_path, engine=two)
    assert len(CALLS) == 3


def test_distributions_are_kept_exactly(tmp_path: Path) -> None:
    lf = labeling_function(name="p")(lambda row: [0.3, 0.7] if row["n"] > 1 else None)
    once = apply_lfs(lf, ROWS, labels=LABELS, cache=tmp_path)
    again = apply_lfs(lf, ROWS, labels=LABELS, cache=tmp_path)
    assert once.distribution.tolist() == again.distribution.tolist()
    assert again.covered.tolist() == [False, True, True]


def test_what_was_computed_before_a_failure_is_kept(tmp_path: Path) -> None:
    late = labeling_function(name="late")(lambda row: 1 / (3 - row["n"]) and None)
    cache = VoteCache(tmp_path)
    engine = LocalEngine(batch_rows=2)
    rule = keywords("spam", ["free"], column="text")
    with pytest.raises(LabelingFunctionError, match="'late' failed on row 2"):
        apply_lfs([counted("a"), late, rule], ROWS, labels=LABELS, cache=cache, engine=engine)
    CALLS.clear()
    apply_lfs([counted("a"), rule], ROWS, labels=LABELS, cache=cache, engine=engine)
    # The first batch of both, and the second of the rule, which runs before functions do.
    assert len(CALLS) == 1
    assert cache.hits == 3


def test_votes_with_failures_are_not_kept(tmp_path: Path) -> None:
    broken = labeling_function(name="broken")(lambda row: row["missing"])
    for _ in range(2):
        with pytest.warns(UserWarning, match="'broken' failed on 3 rows"):
            apply_lfs(broken, ROWS, labels=LABELS, cache=tmp_path, on_error="abstain")


def test_nested_columns_and_objects_have_a_fingerprint_too(tmp_path: Path) -> None:
    lf = counted("a")
    rows = ROWS.with_columns(
        tags=pl.Series([["a"], [], None]), place=pl.Series([{"x": 1}, {"x": 2}, None])
    )
    apply_lfs(lf, rows, labels=LABELS, cache=tmp_path)
    changed = rows.with_columns(tags=pl.Series([["a"], ["b"], None]))
    apply_lfs(lf, changed, labels=LABELS, cache=tmp_path)
    assert len(CALLS) == 6
    objects = ROWS.with_columns(pl.Series("o", [object(), {1}, "x"], dtype=pl.Object))
    assert apply_lfs(lf, objects, labels=LABELS, cache=tmp_path).n_items == 3


def test_a_file_that_is_no_cache_is_refused_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_bytes(b"not a database, but long enough to be read as one" * 20)
    with pytest.raises(DataError, match=r"x\.sqlite cannot be used.*deleted at any time"):
        apply_lfs(counted("a"), ROWS, labels=LABELS, cache=tmp_path / "x.sqlite")
