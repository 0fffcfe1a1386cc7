"""Documents: texts that are tokenized once, with pointers to tokens; spans of tag sequences."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import DataError, as_list
from wiesel.scikit_learn import require_model
from wiesel.spans.tags import Runs, Span, SpanLabels, legal_tags, runs_of_tags, tags_of_runs
from wiesel.tables import as_frame, index_ids, require_columns
from wiesel.vote_entries import Rows, item_ids, row_indices

if TYPE_CHECKING:
    from wiesel.label_models import LabelModel
    from wiesel.spans.votes import TokenVotes

__all__ = [
    "Document",
    "Documents",
    "Tokenizer",
    "Words",
    "outside_where_silent",
    "reads_sequences",
    "spans_of_proba",
    "token_soft_labels",
    "tokenize",
]

Tokenizer = Callable[[str], list[tuple[int, int]]]
"""Where the tokens of a text start and end, in characters, in order and without overlaps."""


def tokenize(text: str) -> list[tuple[int, int]]:
    """Return where the tokens of a text start and end.

    >>> text = "It's 5 €"
    >>> [text[start:end] for start, end in tokenize(text)]
    ['It', "'", 's', '5', '€']
    """
    return [match.span() for match in _token().finditer(text)]


@cache
def _token() -> re.Pattern[str]:
    # Python's \w excludes combining marks, which are parts of words in many scripts.
    marks = _character_class(_marks())
    return re.compile(rf"\w[\w{marks}]*|[^\w\s][{marks}]*")


def _marks() -> list[int]:
    # Once per process. The other planes have ideographs, private use, or nothing.
    codes = [*range(0x20000), *range(0xE0000, 0xF0000)]
    kinds = map(unicodedata.category, map(chr, codes))
    return [code for code, kind in zip(codes, kinds, strict=True) if kind[0] == "M"]


def _character_class(codes: list[int]) -> str:
    """The character class of a regular expression with these characters, as ranges."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


@dataclass(frozen=True)
class Document:
    """One text and its tokens, as a labeling function gets it.

    >>> document = Documents.from_texts(["Ada Lovelace wrote it."])[0]
    >>> document.words
    ['Ada', 'Lovelace', 'wrote', 'it', '.']
    >>> document.span(0, 2, "PER")
    Span(start=0, end=12, label='PER', confidence=None)
    """

    id: Any
    text: str
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @cached_property
    def words(self) -> list[str]:
        """The tokens as text."""
        pairs = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [self.text[start:end] for start, end in pairs]

    def __len__(self) -> int:
        return len(self.starts)

    def span(self, first: int, last: int, label: str) -> Span:
        """Return the span of the tokens `first` up to, not including, `last`."""
        if not 0 <= first < last <= len(self):
            raise DataError(f"There are no tokens {first} to {last}; there are {len(self)}.")
        return Span(int(self.starts[first]), int(self.ends[last - 1]), label)


@dataclass(frozen=True)
class Words:
    """The distinct words of documents, and the word of each token."""

    vocabulary: tuple[str, ...]
    codes: npt.NDArray[np.int32]

    @cached_property
    def folded(self) -> "Words":
        """The same words, ignoring upper and lower case."""
        known: dict[str, int] = {}
        code_of = [known.setdefault(word.casefold(), len(known)) for word in self.vocabulary]
        return Words(tuple(known), np.array(code_of, dtype=np.int32)[self.codes])

    @cached_property
    def capitalized(self) -> npt.NDArray[np.bool_]:
        """Whether each token begins with an upper-case letter."""
        upper = [word[:1].isupper() for word in self.vocabulary]
        return np.array(upper, dtype=bool)[self.codes]

    @cached_property
    def code_of(self) -> dict[str, int]:
        """The code of every word."""
        return {word: code for code, word in enumerate(self.vocabulary)}


@dataclass(frozen=True, eq=False, repr=False)
class Documents:
    """Texts and their tokens. Tokens of document `i` are `pointers[i]:pointers[i + 1]`.

    >>> documents = Documents.from_texts(["Ada wrote it.", "", "So did Bob."], ids=["a", "b", "c"])
    >>> documents
    Documents(3 documents, 8 tokens)
    >>> documents.pointers
    array([0, 4, 4, 8])
    >>> documents[2].words
    ['So', 'did', 'Bob', '.']
    """

    texts: tuple[str, ...]
    ids: npt.NDArray[Any]
    pointers: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    """Where each token starts in its text."""
    ends: npt.NDArray[np.int64]
    plainly_tokenized: bool = False
    """Whether `wiesel.spans.tokenize` made the tokens."""

    @classmethod
    def from_texts(
        cls, texts: Iterable[str], ids: Any = None, tokenizer: Tokenizer = tokenize
    ) -> "Documents":
        """Tokenize texts; an empty text is a document without tokens."""
        if isinstance(texts, str):
            raise DataError("Documents are given as a list of texts; got a single string.")
        if not isinstance(texts, Iterable):
            raise DataError(f"Documents are given as a list of texts; got {texts!r:.60}.")
        kept, ids = tuple(texts), index_ids(texts) if ids is None else ids
        for number, text in enumerate(kept):
            if not isinstance(text, str):
                raise DataError(f"Document {number} is not a text: {text!r:.60}.")
        documents = cls.from_offsets(kept, [tokenizer(text) for text in kept], ids)
        return replace(documents, plainly_tokenized=tokenizer is tokenize)

    @classmethod
    def from_offsets(
        cls, texts: Sequence[str], offsets: Sequence[Sequence[tuple[int, int]]], ids: Any = None
    ) -> "Documents":
        """Use texts with the start and end of their tokens, from your own tokenizer."""
        lengths = np.fromiter(map(len, offsets), dtype=np.int64, count=len(offsets))
        flat = np.fromiter(chain.from_iterable(chain.from_iterable(offsets)), dtype=np.int64)
        pairs = flat.reshape(-1, 2)
        pointers = np.concatenate([[0], np.cumsum(lengths)])
        documents = cls(
            tuple(texts),
            item_ids(ids, len(texts)),
            pointers,
            pairs[:, 0].copy(),
            pairs[:, 1].copy(),
        )
        documents._check_offsets()
        return documents

    @classmethod
    def from_words(cls, sentences: Iterable[Sequence[str]], ids: Any = None) -> "Documents":
        """Use texts that are already tokenized: the words are joined by single spaces."""
        kept = as_list(sentences, "Tokenized texts", "[['Ada', 'wrote'], ['so']]")
        for number, words in enumerate(kept):
            kept[number] = as_list(words, f"The words of text {number}", "['Ada', 'wrote']")
            if not all(isinstance(word, str) for word in kept[number]):
                raise DataError(f"The words of text {number} are not all strings: {words!r:.60}.")
        offsets = []
        for words in kept:
            ends = np.cumsum([len(word) + 1 for word in words]) - 1 if words else np.empty(0, int)
            lengths = [len(word) for word in words]
            offsets.append(list(zip((ends - lengths).tolist(), ends.tolist(), strict=True)))
        return cls.from_offsets([" ".join(words) for words in kept], offsets, ids)

    @classmethod
    def from_rows(
        cls, table: Any, text: str = "text", id: str | None = None, tokenizer: Tokenizer = tokenize
    ) -> "Documents":
        """Use the texts of a table's column; `id` names the column of ids."""
        frame = as_frame(table)
        require_columns(frame, (text, *([] if id is None else [id])), "of the documents")
        ids = index_ids(table) if id is None else frame[id]
        return cls.from_texts(frame[text].to_list(), ids, tokenizer)

    @classmethod
    def of(cls, texts: "Documents | Sequence[str]") -> "Documents":
        """Return documents unchanged, and texts as documents."""
        return texts if isinstance(texts, Documents) else cls.from_texts(texts)

    def _check_offsets(self) -> None:
        lengths = np.repeat(list(map(len, self.texts)), np.diff(self.pointers)).astype(np.int64)
        wrong = (self.starts < 0) | (self.ends > lengths) | (self.starts >= self.ends)
        follows = np.diff(self.document_index) == 0
        wrong[1:] |= follows & (self.starts[1:] < self.ends[:-1])
        if wrong.any():
            token = int(np.flatnonzero(wrong)[0])
            number = int(np.searchsorted(self.pointers, token, side="right")) - 1
            raise DataError(
                f"Token {token - self.pointers[number]} of document {self.id_of(number)!r} is "
                f"characters {self.starts[token]} to {self.ends[token]}; tokens are within their "
                f"text ({len(self.texts[number])} characters), in order, and do not overlap."
            )

    @property
    def n_tokens(self) -> int:
        """The number of tokens in all documents."""
        return len(self.starts)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of tokens in each document."""
        return np.diff(self.pointers)

    @property
    def document_index(self) -> npt.NDArray[np.int64]:
        """The document of every token."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def words(self) -> Words:
        """The distinct words, and the word of each token."""
        known: dict[str, int] = {}
        place = known.setdefault
        codes: list[int] = []
        pointers, starts, ends = (a.tolist() for a in (self.pointers, self.starts, self.ends))
        for number, text in enumerate(self.texts):
            for token in range(pointers[number], pointers[number + 1]):
                codes.append(place(text[starts[token] : ends[token]], len(known)))
        return Words(tuple(known), np.array(codes, dtype=np.int32))

    @cached_property
    def plain(self) -> "Documents":
        """The same texts, tokenized by `wiesel.spans.tokenize`, for gazetteers."""
        return self if self.plainly_tokenized else Documents.from_texts(self.texts)

    @cached_property
    def character_offsets(self) -> npt.NDArray[np.int64]:
        """Where each text starts if all are concatenated."""
        lengths = np.fromiter(map(len, self.texts), dtype=np.int64, count=len(self))
        return np.concatenate([[0], np.cumsum(lengths)])

    def tokens_between(
        self,
        document: npt.NDArray[np.int64],
        start: npt.NDArray[np.int64],
        end: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the first token that characters touch, and the one after the last."""
        offset = self.character_offsets[document]
        of_token = self.character_offsets[self.document_index]
        first = np.searchsorted(self.ends + of_token, start + offset, side="right")
        last = np.searchsorted(self.starts + of_token, end + offset, side="left")
        return first, last

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[Document]:
        return iter(self._each)

    @cached_property
    def _each(self) -> list[Document]:
        """The documents one by one, cached so that all functions share their words."""
        return [self[number] for number in range(len(self))]

    def __getitem__(self, number: int) -> Document:
        """Return one document."""
        row = int(row_indices(number, len(self))[0])
        tokens = slice(self.pointers[row], self.pointers[row + 1])
        return Document(self.id_of(row), self.texts[row], self.starts[tokens], self.ends[tokens])

    def id_of(self, number: int) -> Any:
        """Return the id of a document as a Python value."""
        value = self.ids[number]
        return value.item() if isinstance(value, np.generic) else value

    def select(self, rows: Rows) -> "Documents":
        """Return some documents: a slice, positions, or a boolean mask."""
        chosen = row_indices(rows, len(self))
        tokens = self.tokens_of(chosen)
        pointers = np.concatenate([[0], np.cumsum(self.lengths[chosen])])
        texts = tuple(self.texts[row] for row in chosen.tolist())
        return Documents(
            texts,
            self.ids[chosen],
            pointers,
            self.starts[tokens],
            self.ends[tokens],
            self.plainly_tokenized,
        )

    def tokens_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the positions of all tokens of some documents, in order."""
        lengths = self.lengths[rows]
        before = np.cumsum(lengths) - lengths
        return np.arange(lengths.sum()) + np.repeat(self.pointers[rows] - before, lengths)

    def spans_of(self, tags: npt.NDArray[np.int64], labels: SpanLabels) -> list[list[Span]]:
        """Return the spans of every document that the tags of all tokens encode."""
        return self.spans_of_runs(runs_of_tags(tags, self.pointers), labels)

    def spans_of_runs(
        self,
        runs: Runs,
        labels: SpanLabels,
        confidence: npt.NDArray[np.float64] | None = None,
    ) -> list[list[Span]]:
        """Return runs of tokens as spans of every document, in characters."""
        found: list[list[Span]] = [[] for _ in range(len(self))]
        document = np.searchsorted(self.pointers, runs.first, side="right") - 1
        sure = [None] * len(document) if confidence is None else confidence.tolist()
        starts, ends = self.starts[runs.first].tolist(), self.ends[runs.last - 1].tolist()
        names = [labels.names[label] for label in runs.label.tolist()]
        for number, *span in zip(document.tolist(), starts, ends, names, sure, strict=True):
            found[number].append(Span(*span))
        return found

    def tags_of(
        self, spans: Sequence[Sequence[tuple[Any, ...]]], labels: SpanLabels, kind: str = "gold"
    ) -> npt.NDArray[np.int64]:
        """Return the tag of every token for gold spans, which must not overlap.

        A span that ends within a token includes the whole token. An error message calls the spans
        by their `kind`.
        """
        from wiesel.spans.reading import runs_of_spans

        runs = runs_of_spans(spans, self, labels.names, f"The {kind}")
        order = np.argsort(runs.first, kind="stable")
        first, last = runs.first[order], runs.last[order]
        if (first[1:] < last[:-1]).any():
            token = int(first[1:][first[1:] < last[:-1]][0])
            number = int(np.searchsorted(self.pointers, token, side="right")) - 1
            raise DataError(
                f"{kind.capitalize()} spans overlap in document {self.id_of(number)!r}, or share a "
                f"word: {spans[number]!r:.200}. A word is in one span; keep one of them."
            )
        return tags_of_runs(runs, self.n_tokens)

    def __repr__(self) -> str:
        return f"Documents({len(self):,} documents, {self.n_tokens:,} tokens)"


def spans_of_proba(
    proba: npt.NDArray[np.float64], documents: Documents, labels: SpanLabels
) -> list[list[Span]]:
    """Return the spans of the most probable legal tags, for every document.

    The confidence of a span is the mean probability of the tags of its tokens.

    >>> documents = Documents.from_texts(["Ada Byron"])
    >>> spans_of_proba(np.array([[0.2, 0.8, 0], [0.4, 0, 0.6]]), documents, SpanLabels(("PER",)))
    [[Span(start=0, end=9, label='PER', confidence=0.7)]]
    """
    tags = legal_tags(np.log(np.maximum(proba, 1e-300)), documents.pointers, labels)
    runs = runs_of_tags(tags, documents.pointers)
    chosen = proba[np.arange(len(tags)), tags]
    before = np.concatenate([[0.0], np.cumsum(chosen)])
    confidence = (before[runs.last] - before[runs.first]) / (runs.last - runs.first)
    return documents.spans_of_runs(runs, labels, confidence.round(6))


def outside_where_silent(
    proba: npt.NDArray[np.float64], covered: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return probabilities in which tokens without votes are outside of all spans.

    Label models of independent items give such a token the class prior. But voters who mark spans
    abstain on most tokens because there is nothing to mark.
    """
    proba = proba.copy()
    proba[~covered] = 0.0
    proba[~covered, 0] = 1.0
    return proba


def reads_sequences(label_model: "LabelModel") -> bool:
    """Return whether a label model takes votes on tokens with their documents."""
    return tuple(label_model.tasks) == ("spans",)


def token_soft_labels(label_model: Any, votes: "TokenVotes") -> npt.NDArray[np.float64]:
    """Return a fitted label model's soft label of every token: (n_tokens, n_tags).

    A label model of independent items labels token by token; tokens without votes are outside.
    """
    from wiesel.spans.votes import check_token_votes

    require_model(label_model, "label_model")
    check_token_votes(votes, "token_soft_labels")
    if reads_sequences(label_model):
        proba: npt.NDArray[np.float64] = label_model.predict_proba(votes)
        return proba
    return outside_where_silent(label_model.predict_proba(votes.votes), votes.votes.covered)
