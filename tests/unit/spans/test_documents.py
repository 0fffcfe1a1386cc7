import itertools
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiesel.errors import DataError
from wiesel.spans import Documents, SpanLabels, tokenize
from wiesel.spans.tags import legal_tags, runs_of_tags, tags_of_runs

LABELS = SpanLabels(("PER", "LOC"))


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in tokenize(text)]


def test_words_keep_their_combining_marks():
    decomposed = unicodedata.normalize("NFD", "café")
    assert words(f"{decomposed} हिन्दी 日本") == [decomposed, "हिन्दी", "日本"]


def test_every_combining_mark_is_part_of_a_word():
    everything = map(chr, range(sys.maxunicode + 1))
    marks = [sign for sign in everything if unicodedata.category(sign)[0] == "M"]
    assert len(marks) > 2000
    word = "a" + "".join(marks)
    assert words(word) == [word]


@given(st.text(max_size=40))
def test_tokens_hold_everything_but_white_space(text: str):
    offsets = tokenize(text)
    held = {place for start, end in offsets for place in range(start, end)}
    assert all(place in held for place, sign in enumerate(text) if not sign.isspace())
    assert all(left[1] <= right[0] for left, right in itertools.pairwise(offsets))


def test_an_empty_document_has_no_tokens_and_keeps_its_place():
    documents = Documents.from_texts(["", "Ada", " \n"], ids=["a", "b", "c"])
    assert documents.pointers.tolist() == [0, 0, 1, 1]
    assert [len(document) for document in documents] == [0, 1, 0]
    assert documents.select([2, 1]).ids.tolist() == ["c", "b"]


def test_selected_documents_have_their_own_tokens():
    documents = Documents.from_texts(["a b", "c", "d e f"])
    assert [document.words for document in documents.select([2, 0])] == [
        ["d", "e", "f"],
        ["a", "b"],
    ]


def test_words_that_are_given_are_joined_by_spaces():
    documents = Documents.from_words([["U.S.", "troops"], []])
    assert documents.texts == ("U.S. troops", "")
    assert documents[0].words == ["U.S.", "troops"]


@pytest.mark.parametrize("offsets", [[(0, 9)], [(2, 2)], [(0, 2), (1, 3)], [(-1, 1)]])
def test_tokens_outside_of_their_text_are_refused(offsets):
    with pytest.raises(DataError, match="document 0"):
        Documents.from_offsets(["abc"], [offsets])


def test_tokens_of_two_documents_may_start_at_the_same_character():
    documents = Documents.from_offsets(["abc", "abc"], [[(0, 3)], [(0, 3)]])
    assert documents.n_tokens == 2


@pytest.mark.parametrize("texts", ["one text", [None], [3]])
def test_what_is_no_list_of_texts_is_refused(texts):
    with pytest.raises(DataError, match="text"):
        Documents.from_texts(texts)


@given(st.lists(st.lists(st.integers(0, 4), max_size=8), min_size=1, max_size=4))
def test_legal_tags_become_spans_and_tags_again(sentences: list[list[int]]):
    pointers = np.concatenate([[0], np.cumsum([len(each) for each in sentences])])
    tags = np.array([tag for each in sentences for tag in each], dtype=np.int64)
    legal = legal_tags(np.log(np.eye(5)[tags] * 0.9 + 0.02), pointers, LABELS)
    assert np.array_equal(tags_of_runs(runs_of_tags(legal, pointers), len(tags)), legal)


def test_a_span_does_not_go_on_in_the_next_document():
    runs = runs_of_tags(np.array([1, 2, 2]), np.array([0, 2, 2, 3]))
    assert list(zip(runs.first, runs.last, strict=True)) == [(0, 2), (2, 3)]


def test_the_best_legal_path_is_found():
    # I-PER alone is best for each token, but no sentence begins with it: B-PER, I-PER is next.
    proba = np.array([[0.1, 0.3, 0.6], [0.3, 0.1, 0.6]])
    tags = legal_tags(np.log(proba), np.array([0, 2]), SpanLabels(("PER",)))
    assert tags.tolist() == [1, 2]


def test_gold_spans_that_overlap_are_refused():
    documents = Documents.from_texts(["Ada Byron"], ids=["a"])
    with pytest.raises(DataError, match="overlap in document 'a'"):
        documents.tags_of([[(0, 9, "PER"), (4, 9, "LOC")]], LABELS)
