"""Properties of labeling functions: our one pass agrees with the definition, on any text."""

import re

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from wiesel import LabelSpace, apply_lfs, keywords, labeling_function, regex
from wiesel.lfs import LocalEngine, from_columns, rule_from_dict
from wiesel.lfs.batch import ColumnVotes, assemble, join_columns
from wiesel.lfs.engines.portable import pack_lfs, unpack_lfs
from wiesel.lfs.engines.worker import read_votes, write_votes
from wiesel.lfs.text_rules import _FEW, KeywordPass, KeywordQuery

LABELS = LabelSpace("ham", "spam")

# Letters of several scripts, digits, marks and signs, so that ends of words of all kinds occur.
CHARACTERS = "ab_1 -.éß€жя漢\u0301\u00a0\u203f\u2014\u2019\n"
WORDS = st.text(CHARACTERS, min_size=1, max_size=4).filter(lambda word: word.strip())
TEXTS = st.lists(st.text(CHARACTERS, max_size=12) | st.none(), min_size=1, max_size=6)


def defined(keyword: str, text: str) -> bool:
    """The definition of a whole word, by Polars' engine, which knows every script."""
    words = keyword.split()
    pattern = r"\s+".join(pl.escape_regex(word) for word in words)
    for end, sign in ((words[0][0], "^"), (words[-1][-1], "$")):
        if pl.Series([end]).str.contains(r"\w")[0]:
            pattern = rf"\b{pattern}" if sign == "^" else rf"{pattern}\b"
    return bool(pl.Series([text]).str.contains(f"(?i){pattern}")[0])


@settings(max_examples=100, deadline=None)
@given(keyword=WORDS, texts=TEXTS)
def test_a_whole_word_is_found_exactly_where_the_definition_says(
    keyword: str, texts: list[str | None]
) -> None:
    found = KeywordPass([KeywordQuery((keyword,))]).matching_rows(pl.Series(texts, dtype=pl.String))
    expected = [k for k, text in enumerate(texts) if text is not None and defined(keyword, text)]
    assert found[0].tolist() == expected


@settings(max_examples=20, deadline=None)
@given(keyword=WORDS, texts=TEXTS)
def test_many_other_keywords_change_nothing(keyword: str, texts: list[str | None]) -> None:
    column = pl.Series(texts, dtype=pl.String)
    alone = KeywordPass([KeywordQuery((keyword,))]).matching_rows(column)[0]
    others = [KeywordQuery((f"other{number}",)) for number in range(_FEW + 1)]
    among = KeywordPass([*others, KeywordQuery((keyword,))]).matching_rows(column)[-1]
    assert among.tolist() == alone.tolist()


@settings(max_examples=100, deadline=None)
@given(part=WORDS, texts=TEXTS)
def test_a_part_of_a_word_is_found_where_it_is_contained(
    part: str, texts: list[str | None]
) -> None:
    query = KeywordQuery((part,), whole_words=False, case_sensitive=True)
    found = KeywordPass([query]).matching_rows(pl.Series(texts, dtype=pl.String))[0]
    assert found.tolist() == [k for k, text in enumerate(texts) if text and part in text]


@settings(max_examples=50, deadline=None)
@given(words=st.lists(WORDS, min_size=1, max_size=4, unique=True), texts=TEXTS, data=st.data())
def test_min_matches_counts_the_keywords_that_are_found_alone(
    words: list[str], texts: list[str | None], data: st.DataObject
) -> None:
    needed = data.draw(st.integers(1, len(words)))
    column = pl.Series(texts, dtype=pl.String)
    each = KeywordPass([KeywordQuery((word,)) for word in words]).matching_rows(column)
    counts = np.bincount(np.concatenate(each), minlength=len(texts))
    together = KeywordPass([KeywordQuery(tuple(words), min_matches=needed)]).matching_rows(column)
    assert together[0].tolist() == np.flatnonzero(counts >= needed).tolist()


@settings(max_examples=50, deadline=None)
@given(
    words=st.lists(WORDS, min_size=1, max_size=3),
    whole=st.booleans(),
    case=st.booleans(),
    texts=TEXTS,
)
def test_a_rule_votes_alike_after_a_journey_as_data(
    words: list[str], whole: bool, case: bool, texts: list[str | None]
) -> None:
    rule = keywords("spam", words, column="text", whole_words=whole, case_sensitive=case)
    rows = pl.DataFrame({"text": texts}, schema={"text": pl.String})
    votes = apply_lfs(rule, rows, labels=LABELS).dense().tolist()
    (sent,) = unpack_lfs(pack_lfs([rule]))
    for again in (rule_from_dict(rule.to_dict()), sent):
        assert again.fingerprint == rule.fingerprint
        assert apply_lfs(again, rows, labels=LABELS).dense().tolist() == votes


DENSE = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.lists(st.integers(-1, 1), min_size=3, max_size=3), min_size=n, max_size=n)
)


@settings(max_examples=50, deadline=None)
@given(dense=DENSE, size=st.integers(1, 5))
def test_batches_of_any_size_give_the_same_votes(dense: list[list[int]], size: int) -> None:
    rows = pl.DataFrame(dense, schema=["a", "b", "c"], orient="row")
    row_wise = labeling_function(name="d")(
        lambda row: LABELS.names[row["a"]] if row["a"] > 0 else None
    )
    lfs = [*from_columns("a", "b", "c"), row_wise]
    votes = apply_lfs(lfs, rows, labels=LABELS, engine=LocalEngine(workers=1, batch_rows=size))
    assert votes.dense()[:, :3].tolist() == dense


@settings(max_examples=50, deadline=None)
@given(dense=DENSE, cut=st.integers(0, 12))
def test_columns_survive_being_cut_sent_and_joined(dense: list[list[int]], cut: int) -> None:
    codes = np.array(dense)
    parts = [codes[:cut], codes[cut:]]
    sent = [
        read_votes(*write_votes([ColumnVotes.of_codes(part[:, k]) for k in range(3)]))
        for part in parts
    ]
    sizes = [len(part) for part in parts]
    columns = [join_columns([part[k] for part in sent], sizes) for k in range(3)]
    votes = assemble(columns, LABELS, ["a", "b", "c"], np.arange(len(codes)))
    assert votes.dense().tolist() == dense


@settings(max_examples=100, deadline=None)
@given(pattern=st.text("ab|*+?.()[]^$", max_size=8), text=st.text("ab", max_size=10))
def test_a_pattern_is_refused_or_agrees_with_pythons_engine(pattern: str, text: str) -> None:
    try:
        # Python warns of patterns whose meaning may change; they are as good as refused here.
        compiled = re.compile(pattern)
        rule = regex("spam", pattern, column="text")
    except (re.error, ValueError, FutureWarning):
        return
    assert (rule({"text": text}) == "spam") is (compiled.search(text) is not None)
