"""Votes on tokens: an ordinary `VoteMatrix` whose items are the tokens of documents."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError, VoteError, WieselWarning, listed, suggest, warn_user
from wiesel.labels import LabelSpace
from wiesel.lfs.failures import FailureLog
from wiesel.spans.documents import Documents, outside_where_silent, spans_of_proba
from wiesel.spans.functions import GivenSpans, Marks, SpanFunction, check_labels
from wiesel.spans.patterns import as_span_functions
from wiesel.spans.tags import OUTSIDE, Span, SpanLabels, tokens_of_runs
from wiesel.vote_entries import Rows, row_indices
from wiesel.votes import VoteMatrix

__all__ = ["SILENCE", "TOGETHER", "TokenVotes", "apply_span_lfs", "check_token_votes"]

TOGETHER = LabelSpace("apart", "together")
"""The classes of votes on a token and its predecessor: whether a span border separates them."""
SILENCE = "(nobody)"
"""The voter that `with_silence` adds."""


@dataclass(frozen=True, eq=False, repr=False)
class TokenVotes:
    """Documents and the votes on their tokens; every label model accepts `votes`.

    >>> documents = Documents.from_texts(["Ada met Bob."])
    >>> from wiesel.spans import gazetteer
    >>> votes = apply_span_lfs(gazetteer("PER", ["Ada", "Bob"]), documents, labels=["PER"])
    >>> votes
    TokenVotes(1 documents, 4 tokens x 1 voters, labels 'PER', 2 votes)
    >>> votes.votes.dense().T
    array([[ 1, -1,  1, -1]], dtype=int16)
    """

    made_for: ClassVar[str] = (
        "Votes on tokens are for HiddenMarkov(), Committee and other end-to-end methods, and "
        "voter_table(votes); votes.votes is a VoteMatrix."
    )
    documents: Documents
    votes: VoteMatrix
    """(n_tokens, n_voters): votes for BIO tags."""
    links: VoteMatrix | None = None
    """(n_tokens, n_rules): votes on whether each token belongs together with its predecessor."""
    known: npt.NDArray[np.int64] | None = None
    """(n_tokens,): the right tags of documents that people marked, -1 elsewhere. They replace the
    soft labels of a label model."""

    def __post_init__(self) -> None:
        SpanLabels.of_tags(self.votes.labels)
        for what, matrix in (("votes", self.votes), ("links", self.links)):
            if matrix is not None and matrix.n_items != self.documents.n_tokens:
                raise VoteError(
                    f"The {what} are on {matrix.n_items} items; the documents have "
                    f"{self.documents.n_tokens} tokens."
                )
        if self.known is not None and self.known.shape != (self.documents.n_tokens,):
            raise VoteError(
                f"The known tags have the shape {self.known.shape}; the documents have "
                f"{self.documents.n_tokens} tokens."
            )
        if self.links is not None and self.links.labels != TOGETHER:
            raise VoteError(
                f"The classes of links are 'apart' and 'together'; got {self.links.labels!r}."
            )

    @classmethod
    def from_spans(
        cls,
        documents: Documents,
        spans: Mapping[str, Sequence[Any]],
        *,
        labels: SpanLabels | Sequence[str] | None = None,
        links: Mapping[str, Sequence[Any]] | None = None,
        exhaustive: bool | Collection[str] = (),
    ) -> "TokenVotes":
        """Return the votes of voters whose spans exist already: of people, models or a file.

        Each voter has a list of spans (start, end, label), in characters, for each document, or
        None where it abstained. `labels` are those of the spans by default. `links` are spans of
        what belongs together, by linking rule. `exhaustive` voters, all or those named, vote `O` on
        what they did not mark.

        >>> documents = Documents.from_words([["Ada", "Byron", "slept"]])
        >>> spans = {"ann": [[(0, 9, "PER")]], "ben": [[(0, 3, "PER")]]}
        >>> TokenVotes.from_spans(documents, spans, exhaustive=["ben"]).votes.dense().T
        array([[ 1,  2, -1],
               [ 1,  0,  0]], dtype=int16)
        """
        for what, given in (("spans", spans), ("links", links or {"": ()})):
            if not isinstance(given, Mapping) or not given:
                raise ParameterError(
                    f"The {what} of voters are a dict, {{voter: spans of each document}}; got "
                    f"{given!r:.60}."
                )
        names = tuple(spans) if exhaustive is True else tuple(exhaustive or ())
        for name in names:
            if name not in spans:
                raise ParameterError(
                    f"The exhaustive voter {name!r} has no spans. {suggest(name, list(spans))}",
                    option="exhaustive",
                )
        voters = [GivenSpans(own, name, name in names) for name, own in spans.items()]
        linking = [GivenSpans(own, name) for name, own in (links or {}).items()]
        found = _labels_of(spans) if labels is None else labels
        return apply_span_lfs(voters, documents, labels=found, links=linking)

    @property
    def labels(self) -> SpanLabels:
        """The labels of spans."""
        return SpanLabels.of_tags(self.votes.labels)

    @property
    def voters(self) -> tuple[str, ...]:
        """The names of the voters."""
        return self.votes.voters

    @property
    def n_items(self) -> int:
        """The number of documents."""
        return len(self.documents)

    @property
    def n_tokens(self) -> int:
        """The number of tokens in all documents."""
        return self.documents.n_tokens

    @property
    def n_votes(self) -> int:
        """The number of votes on all tokens."""
        return self.votes.n_votes

    @property
    def ids(self) -> npt.NDArray[Any]:
        """The ids of the documents."""
        return self.documents.ids

    def check_same_voters(self, voters: tuple[str, ...], labels: Any) -> None:
        """Refuse votes of other voters, or for other labels, than a model was fitted on."""
        tags = labels.tags if isinstance(labels, SpanLabels) else labels
        self.votes.check_same_voters(voters, tags)

    def check_any(self) -> None:
        """Refuse votes from which nothing can be learned."""
        if not self.votes.n_votes:
            raise VoteError(
                f"There is nothing to learn from: {len(self.voters):,} voters cast no vote on "
                f"{self.n_tokens:,} tokens of {len(self.documents):,} documents."
            )
        empty = np.bincount(self.votes.voter_index, minlength=len(self.voters)) == 0
        if empty.any():
            names = [name for name, is_empty in zip(self.voters, empty, strict=True) if is_empty]
            warn_user(
                f"{len(names)} of {len(self.voters)} voters cast no vote: {listed(names)}. "
                "Mend or remove them."
            )

    def __getitem__(self, rows: Rows) -> "TokenVotes":
        """Return the votes on some documents, as `select` does."""
        return self.select(rows)

    def select(self, rows: Rows) -> "TokenVotes":
        """Return the votes on some documents: a slice, positions, or a boolean mask."""
        chosen = row_indices(rows, len(self.documents))
        tokens = self.documents.tokens_of(chosen)
        links = None if self.links is None else self.links[tokens]
        known = None if self.known is None else self.known[tokens]
        return TokenVotes(self.documents.select(chosen), self.votes[tokens], links, known)

    def with_known(self, spans: Sequence[Sequence[tuple[Any, ...]] | None]) -> "TokenVotes":
        """Return the votes with the right spans of some documents; None is an unknown document.

        A tagger learns them instead of what the votes say there.

        >>> votes = TokenVotes(Documents.from_texts(["Ada", "so"]), VoteMatrix.from_dense(
        ...     [[-1], [-1]], SpanLabels(("PER",)).tags))
        >>> votes.with_known([[(0, 3, "PER")], None]).known
        array([ 1, -1])
        """
        given = self.documents.tags_of([own or [] for own in spans], self.labels)
        is_known = np.array([own is not None for own in spans], dtype=bool)
        return replace(self, known=np.where(is_known[self.documents.document_index], given, -1))

    def spans(self, voter: str) -> list[list[Span]]:
        """Return the spans that one voter marked in every document."""
        tags = self.votes.select([voter]).dense()[:, 0].astype(np.int64)
        return self.documents.spans_of(np.maximum(tags, 0), self.labels)

    def majority(self) -> list[list[Span]]:
        """Return the spans of every document by majority vote, token by token.

        A token without votes is outside. The confidence of a span is the share of the votes.

        >>> documents = Documents.from_words([["Ada", "slept"]])
        >>> spans = {"ann": [[(0, 3, "PER")]], "ben": [[(0, 3, "PER")]], "eve": [[(0, 3, "LOC")]]}
        >>> TokenVotes.from_spans(documents, spans).majority()
        [[Span(start=0, end=3, label='PER', confidence=0.666667)]]
        """
        counts = self.votes.counts().astype(np.float64)
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        proba = outside_where_silent(shares, self.votes.covered)
        return spans_of_proba(proba, self.documents, self.labels)

    def with_silence(self) -> "TokenVotes":
        """Return the votes with an additional voter that votes `O` on tokens without votes.

        This is for methods that leave out items without votes, and would otherwise never see `O`.
        """
        votes = self.votes
        silent = np.flatnonzero(~votes.covered)
        item = np.concatenate([votes.item_index, silent])
        voter = np.concatenate([votes.voter_index, np.full(len(silent), votes.n_voters)])
        tag = np.concatenate([votes.class_index, np.zeros(len(silent))])
        names = (*votes.voters, SILENCE)
        return replace(self, votes=_matrix((item, voter, tag), votes.n_items, votes.labels, names))

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.labels))
        return (
            f"TokenVotes({len(self.documents):,} documents, {self.votes.n_items:,} tokens x "
            f"{self.votes.n_voters:,} voters, labels {names}, {self.votes.n_votes:,} votes)"
        )


def apply_span_lfs(
    functions: Any,
    documents: Documents,
    *,
    labels: SpanLabels | Sequence[str],
    links: Any = (),
    on_error: Literal["raise", "abstain"] | FailureLog = "raise",
) -> TokenVotes:
    """Return the votes of span functions on the tokens of documents.

    A span votes `B-X` on its first token and `I-X` on the others; a token that it covers in part
    counts. If spans of one function overlap, the longest counts, with a warning. `links` are
    functions that mark what belongs together (with the label `together`, or any other). Their
    spans vote on pairs of neighboring tokens; a span with the label `O` is a vote that its tokens
    do not belong together. A pattern or gazetteer with the label `together` among `functions` is
    such a rule too. With `on_error="abstain"`, a function that raises abstains.

    >>> from wiesel.spans import pattern
    >>> documents = Documents.from_texts(["Call 555 1234", ""])
    >>> apply_span_lfs(pattern("TEL", r"[0-9 ]{5,}"), documents, labels=["TEL"]).spans("tel_0_9_5")
    [[Span(start=5, end=13, label='TEL', confidence=None)], []]
    """
    space = SpanLabels.of(labels)
    if not isinstance(documents, Documents):
        raise ParameterError(
            f"apply_span_lfs needs Documents; got {type(documents).__name__}. "
            "Make them with Documents.from_texts(texts)."
        )
    given, links_only = as_span_functions(functions), (TOGETHER.names[1],)
    voters = [each for each in given if each.labels != links_only or links_only[0] in space]
    if not voters:
        raise ParameterError(
            f"No function marks {listed(space.names)}: all {len(given)} only say what belongs "
            "together. Add functions that mark spans; those of `links` may stay.",
            option="functions",
        )
    check_labels(voters, space)
    votes = _tag_votes(voters, _run(voters, documents, space, on_error), documents, space)
    linking = [each for each in given if each not in voters]
    linking += as_span_functions(links) if links else []
    if not linking:
        return TokenVotes(documents, votes)
    wider = SpanLabels((*space.names, *{TOGETHER.names[1]} - set(space.names)))
    check_labels(linking, wider)
    pairs = _link_votes(linking, _run(linking, documents, wider, on_error), documents, wider)
    return TokenVotes(documents, votes, pairs)


def _labels_of(spans: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
    """The labels of all spans, sorted; what is no span is refused later, by name."""
    found = {
        span[2]
        for given in spans.values()
        for own in given
        if own is not None
        for span in own
        if len(span) > 2 and isinstance(span[2], str)
    }
    names = tuple(sorted(found - {OUTSIDE}))
    if not names:
        raise ParameterError(
            f"The {len(spans)} voters mark no span with a label: give labels=['PER', ...].",
            option="labels",
        )
    return names


def check_token_votes(votes: object, who: str, to_learn: bool = False) -> None:
    """Refuse anything but votes on tokens, and votes from which nothing can be learned."""
    if not isinstance(votes, TokenVotes):
        raise VoteError(
            f"{who} needs TokenVotes; got {type(votes).__name__}. "
            "Make them with apply_span_lfs(functions, documents, labels=...)."
        )
    if to_learn:
        votes.check_any()


def _run(
    functions: Sequence[SpanFunction], documents: Documents, labels: SpanLabels, on_error: Any
) -> list[Marks]:
    if on_error not in ("raise", "abstain") and not isinstance(on_error, FailureLog):
        raise ParameterError(
            f"on_error must be 'raise', 'abstain' or a FailureLog; got {on_error!r}."
        )
    log = on_error if isinstance(on_error, FailureLog) else FailureLog()
    marks = [each.run(documents, labels, on_error == "raise") for each in functions]
    for mark in marks:
        log.add(mark.failures)
    if log.failures and not isinstance(on_error, FailureLog):
        warnings.warn(log.warning(), stacklevel=3)
    lost = {
        f.name: m.n_overlapping for f, m in zip(functions, marks, strict=True) if m.n_overlapping
    }
    if lost:
        shown = ", ".join(f"{name!r} ({count:,})" for name, count in lost.items())
        warnings.warn(
            f"Overlapping spans of one function: of each group the longest counts. {shown} had "
            "spans that gave way.",
            WieselWarning,
            stacklevel=3,
        )
    return marks


def _tag_votes(
    functions: Sequence[SpanFunction],
    marks: Sequence[Marks],
    documents: Documents,
    labels: SpanLabels,
) -> VoteMatrix:
    items, voters, tags = [], [], []
    for number, (function, mark) in enumerate(zip(functions, marks, strict=True)):
        tokens, label = tokens_of_runs(mark.runs)
        # The label index after the last means O, whose tag is 0.
        tag = np.where(label < len(labels), 2 * label + 2, 0)
        begins = np.isin(tokens, mark.runs.first) & (tag > 0)
        tag = tag - begins
        if function.exhaustive:
            tokens, tag = _with_outside(tokens, tag, mark, documents)
        items.append(tokens)
        tags.append(tag)
        voters.append(np.full(len(tokens), number))
    names = tuple(function.name for function in functions)
    cells = [np.concatenate(part) for part in (items, voters, tags)]
    return _matrix(cells, documents.n_tokens, labels.tags, names)


def _with_outside(
    tokens: npt.NDArray[np.int64], tag: npt.NDArray[np.int64], mark: Marks, documents: Documents
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The votes of an exhaustive function: O on tokens that it answered but did not mark."""
    answered = np.ones(len(documents), dtype=bool) if mark.answered is None else mark.answered
    every = np.full(documents.n_tokens, -1)
    every[documents.tokens_of(np.flatnonzero(answered))] = 0
    every[tokens] = tag
    voted = np.flatnonzero(every >= 0)
    return voted, every[voted]


def _link_votes(
    functions: Sequence[SpanFunction],
    marks: Sequence[Marks],
    documents: Documents,
    labels: SpanLabels,
) -> VoteMatrix:
    """Votes on each token of a span but its first: whether it belongs to its predecessor."""
    items, voters, classes = [], [], []
    for number, mark in enumerate(marks):
        tokens, label = tokens_of_runs(mark.runs)
        follows = ~np.isin(tokens, mark.runs.first)
        items.append(tokens[follows])
        voters.append(np.full(int(follows.sum()), number))
        classes.append((label[follows] < len(labels)).astype(np.int64))
    names = tuple(function.name for function in functions)
    cells = [np.concatenate(part) for part in (items, voters, classes)]
    return _matrix(cells, documents.n_tokens, TOGETHER, names)


def _matrix(
    cells: Sequence[npt.NDArray[Any]], n_items: int, labels: LabelSpace, names: tuple[str, ...]
) -> VoteMatrix:
    """The vote matrix of (item, voter, class) entries in any order."""
    item, voter, classes = cells
    order = np.argsort(item * len(names) + voter, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=n_items))])
    return VoteMatrix(
        indptr.astype(np.int64),
        voter[order].astype(np.int32),
        classes[order].astype(np.int16),
        labels,
        names,
        np.arange(n_items),
    )
