"""Keywords: which texts they are found in, and what the builder refuses."""

import polars as pl
import pytest
import re2

from wiesel import apply_lfs, keywords
from wiesel.errors import DataError, ParameterError, VoteError
from wiesel.lfs.text_rules import _FOREIGN, KeywordPass, KeywordQuery


def found(keyword_list: list[str], texts: list[str | None], **options: object) -> list[int]:
    query = KeywordQuery(tuple(keyword_list), **options)  # type: ignore[arg-type]
    return KeywordPass([query]).matching_rows(pl.Series(texts, dtype=pl.String))[0].tolist()


@pytest.mark.parametrize(
    ("keyword", "text", "expected"),
    [
        ("free", "Get it FREE!", True),
        ("free", "freedom", False),
        ("free", "sugarfree", False),
        ("free", "sugar-free", True),
        ("free", "free_gift", False),
        ("free", "caféfree", False),
        ("free", "freeé", False),
        ("free", "“free”", True),
        ("free", "«free»—now", True),
        ("café", "Un CAFÉ, svp", True),
        ("café", "cafés", False),
        ("caf", "café", False),
        ("é", "café", False),
        ("мир", "Привет, Мир!", True),
        ("мир", "мира", False),
        ("мир", "мир5", False),  # noqa: RUF001 - letters of another script are the point
        ("naïve", "a naïve idea", True),
        ("naïve", "_naïve_", False),
        ("click here", "Click \n here now", True),
        ("click here", "click\u00a0here", True),
        ("click here", "click herein", False),
        ("  click here ", "click here", True),
        ("http://", "see http://x.org", True),
        ("http://", "xhttp://", False),
        ("c++", "c++11 is old", True),
        ("$$$", "win$$$now", True),
        ("u.n.", "the U.N. said", True),
        ("a.b", "axb", False),
        ("naïve café", "NAÏVE  CAFÉ", True),
        ("ß", "straße ß", True),
    ],
)
def test_whole_words_end_where_letters_of_any_script_end(
    keyword: str, text: str, expected: bool
) -> None:
    assert found([keyword], [text]) == ([0] if expected else [])


def test_parts_of_words_are_found_as_they_are_written() -> None:
    texts = ["post-war years", "a war ended", "café"]
    assert found([" war "], texts, whole_words=False) == [1]
    assert found(["fé"], texts, whole_words=False) == [2]
    assert found(["WAR"], texts, whole_words=False, case_sensitive=True) == []


def test_missing_texts_are_never_matched() -> None:
    assert found(["free"], [None, "free", None, "free"]) == [1, 3]
    assert found(["free"], [None, None]) == []
    assert found(["free"], []) == []


def test_min_matches_counts_different_keywords() -> None:
    texts = ["free free", "free prize", "prize winner free", "winner"]
    assert found(["free", "prize", "winner"], texts, min_matches=2) == [1, 2]
    assert found(["free", "prize", "winner"], texts, min_matches=3) == [2]


def test_queries_of_every_kind_share_a_column_without_disturbing_each_other() -> None:
    queries = [
        KeywordQuery(("free",)),
        KeywordQuery(("ree",), whole_words=False),
        KeywordQuery(("Free",), case_sensitive=True),
        KeywordQuery(("free", "café"), min_matches=2),
    ]
    texts = pl.Series(["Free", "free café", "tree", None])
    rows = KeywordPass(queries).matching_rows(texts)
    assert [each.tolist() for each in rows] == [[0, 1], [0, 1, 2], [0], [1]]


def test_twenty_thousand_keywords_are_all_found() -> None:
    words = [f"word{number}" for number in range(20_000)]
    queries = [KeywordQuery((word,)) for word in words]
    rows = KeywordPass(queries).matching_rows(pl.Series([" ".join(words), "none"]))
    assert sum(len(each) for each in rows) == 20_000


def test_a_keyword_rule_tells_itself_as_data_and_is_made_again_from_it() -> None:
    rule = keywords("spam", ["free", "prize"], column="text", min_matches=2)
    assert rule.to_dict() == {
        "kind": "keywords",
        "label": "spam",
        "keywords": ["free", "prize"],
        "column": "text",
        "min_matches": 2,
    }
    again = type(rule).from_dict(rule.to_dict())
    assert again == rule
    assert again.fingerprint == rule.fingerprint
    assert repr(rule) == (
        "keywords(label='spam', keywords=['free', 'prize'], column='text', min_matches=2)"
    )


def test_the_name_is_no_part_of_the_fingerprint_but_every_option_is() -> None:
    rule = keywords("spam", ["free"], column="text")
    assert keywords("spam", ["free"], column="text", name="x").fingerprint == rule.fingerprint
    others = [
        keywords("ham", ["free"], column="text"),
        keywords("spam", ["fre"], column="text"),
        keywords("spam", ["free"], column="title"),
        keywords("spam", ["free"], column="text", whole_words=False),
        keywords("spam", ["free"], column="text", case_sensitive=True),
    ]
    assert len({rule.fingerprint, *(other.fingerprint for other in others)}) == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("spam", []), "at least one keyword"),
        (("spam", ["free", ""]), "non-empty strings"),
        (("spam", [3]), "got 3"),
        (("", ["free"]), "class it votes for"),
    ],
)
def test_bad_keywords_are_refused_at_once(arguments: tuple[str, list[str]], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        keywords(*arguments, column="text")


def test_more_matches_than_keywords_are_refused() -> None:
    with pytest.raises(ParameterError, match="never vote"):
        keywords("spam", ["free", "free"], column="text", min_matches=2)


def test_a_single_string_is_one_keyword() -> None:
    assert keywords("spam", "free", column="text").keywords == ("free",)


def test_a_class_that_does_not_exist_is_refused_before_anything_runs() -> None:
    with pytest.raises(VoteError, match="'spma'; it must be one of 'ham', 'spam'"):
        apply_lfs(
            keywords("spma", ["free"], column="text"), [{"text": "x"}], labels=["ham", "spam"]
        )


def test_a_missing_column_is_named_with_the_nearest_one() -> None:
    with pytest.raises(DataError, match=r"'spam_free' reads the column 'txt'.*'text'"):
        apply_lfs(keywords("spam", ["free"], column="txt"), [{"text": "x"}], labels=["ham", "spam"])


def test_a_column_without_text_is_refused_with_the_cure() -> None:
    with pytest.raises(DataError, match=r"holds Int64.*cast"):
        apply_lfs(keywords("spam", ["free"], column="n"), [{"n": 1}], labels=["ham", "spam"])


def test_every_letter_of_another_script_is_in_the_class_that_raises_doubt() -> None:
    codes = [code for code in range(0x80, 0x20000) if not 0xD800 <= code < 0xE000]
    characters = pl.Series([chr(code) for code in codes])
    letters = characters.filter(characters.str.contains(r"^\w$")).to_list()
    foreign = re2.compile(_FOREIGN)
    assert len(letters) > 50_000
    assert [letter for letter in letters if not foreign.fullmatch(letter)] == []
