"""HiddenMarkov: the label model that models the sequence of tags."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.errors import ParameterError, SavedModelError, VoteError
from wiesel.label_models.base import ClassBalance, LabelModel
from wiesel.label_models.expectation_maximization import log_of, shares
from wiesel.labels import LabelSpace
from wiesel.parameters import check_choice, check_number
from wiesel.spans.decoding import outside_where_silent, spans_of_proba
from wiesel.spans.documents import Documents
from wiesel.spans.forward_backward import Chain, Layout, Smoothed, smooth
from wiesel.spans.tags import Span, SpanLabels
from wiesel.spans.votes import TOGETHER, TokenVotes, check_token_votes
from wiesel.votes import VoteMatrix

__all__ = ["HiddenMarkov"]

_PART_TOKENS = 2**18
_PSEUDO_TOKENS = 0.01
_LINK_BELIEF = 10.0
"""Number of pseudo-votes for the prior that a linking rule is right nine times in ten."""

Floats = npt.NDArray[np.float64]


@dataclass(eq=False, kw_only=True)
class HiddenMarkov(LabelModel):
    r"""True tags are a Markov chain, and each voter confuses tags in its own way.

    With pi the tags of first tokens, T the transitions between tags (those that BIO forbids have
    probability 0) and C_j[c, l] = P(voter j votes l | true tag c):

        P(tags, votes) = pi(tag_1) * product over t of T[tag_{t-1}, tag_t]
                         * product over votes of C_j[tag_t, vote]

    The parameters are learned by EM (Baum-Welch), starting from the majority vote, in which a
    token without votes is `O`. Votes of linking rules are evidence on whether there is a span
    border between two tokens. The soft label of each token is its posterior, given all votes of
    its document.

    Lison et al. 2020, "Named entity recognition without labelled data", ACL; links as in
    Safranchik et al. 2020, "Weakly supervised sequence tagging from noisy rules", AAAI.

    >>> from wiesel.spans import Documents, apply_span_lfs, gazetteer, pattern
    >>> documents = Documents.from_texts(["Ada Byron met Ada", "It was Bob Byron"] * 20)
    >>> lfs = [gazetteer("PER", ["Ada", "Bob"]), pattern("PER", r"[A-Z]\w+ Byron", name="full")]
    >>> votes = apply_span_lfs(lfs, documents, labels=["PER"])
    >>> [span[:3] for span in HiddenMarkov().fit(votes).predict(votes)[1]]
    [(7, 16, 'PER')]
    """

    max_iter: int = 30
    """The maximum number of EM steps."""
    tol: float = 1e-4
    """Stop when the mean log evidence per token grows by less."""
    smoothing: float = 2.0
    """Pseudo-votes per average cell of each voter's confusions, distributed like all votes."""
    transition_smoothing: float = 1.0
    """Pseudo-counts of each allowed transition and first tag."""
    abstain_as_vote: bool | Literal["auto"] = "auto"
    """Treat an abstention as evidence about the tag. `auto` does so if most voters never vote `O`:
    then abstaining is their only way to vote against a span."""
    only_supported: bool = True
    """A token can be in a span of a label only if some voter marked it with that label, or a link
    ties it to such a token. Otherwise abstentions alone can create spans: of words on which the
    voters of `O` abstain."""

    tasks = ("spans",)

    link_voters_: tuple[str, ...] = field(init=False, repr=False)
    """The linking rules seen in `fit`, in order."""
    start_: Floats = field(init=False, repr=False)
    """P(tag of the first token)."""
    transitions_: Floats = field(init=False, repr=False)
    """P(next tag | tag): (tag, next tag), rows sum to 1."""
    confusions_: Floats = field(init=False, repr=False)
    """P(voted | true tag): (n_voters, true, voted); abstaining is the last column if it counts."""
    link_confusions_: Floats = field(init=False, repr=False)
    """P(vote | apart, together): (n_rules, 2, 3); the last column is abstaining."""
    silence_counts_: bool = field(init=False, repr=False)
    """Whether abstaining counted as a vote."""
    evidence_: list[float] = field(init=False, repr=False)
    """The log probability of votes and parameters after every step; it never decreases."""

    def fit(self, votes: TokenVotes, class_balance: ClassBalance = None) -> Self:  # type: ignore[override]
        """Learn from the votes on tokens; shares of tags are learned as well."""
        self.check_options()
        check_token_votes(votes, type(self).__name__, to_learn=True)
        if class_balance is not None:
            raise ParameterError(
                "HiddenMarkov learns how tags follow each other: leave class_balance out.",
                option="class_balance",
            )
        self._fit(votes, None)
        self.labels_, self.voters_ = votes.votes.labels, votes.voters
        self.link_voters_ = () if votes.links is None else votes.links.voters
        self.balance_given_, self.class_balance_ = False, self.start_
        return self

    def _fit(self, votes: Any, class_balance: Floats | None) -> None:
        labels = votes.labels
        self.silence_counts_ = self._silence_counts(votes.votes)
        parts = list(_parts(votes))
        expected = _total([_majority(part, labels) for part in parts])
        pooled = self._vote_counts(expected).sum(axis=0) + _PSEUDO_TOKENS
        pseudo_votes = self.smoothing * pooled.shape[1] * shares(pooled)
        self.evidence_ = []
        for _ in range(self.max_iter):
            log_density = self._maximize(expected, pseudo_votes, labels)
            expected = _total([self._expect(part, labels)[1] for part in parts])
            self.evidence_.append(expected.evidence + log_density)
            grown = np.diff(self.evidence_[-2:])
            if len(grown) and grown[0] < self.tol * votes.documents.n_tokens:
                break

    def fit_predict_proba(self, votes: TokenVotes, class_balance: ClassBalance = None) -> Floats:  # type: ignore[override]
        """Fit, and return P(tag) of the tokens of the same votes."""
        return self.fit(votes, class_balance).predict_proba(votes)

    def predict_proba(self, votes: TokenVotes) -> Floats:  # type: ignore[override]
        """Return P(tag | all votes of the document): (n_tokens, n_tags)."""
        self.check_fitted()
        check_token_votes(votes, type(self).__name__)
        votes.votes.check_same_voters(self.voters_, self.labels_)
        links = () if votes.links is None else votes.links.voters
        if links != self.link_voters_:
            raise VoteError(
                f"These votes have the linking rules {links}; the model was fitted on "
                f"{self.link_voters_}."
            )
        return self._predict_proba(votes)

    def _predict_proba(self, votes: Any) -> Floats:
        proba = np.empty((votes.documents.n_tokens, len(self.labels_)))
        for part in _parts(votes):
            proba[part.tokens] = self._expect(part, votes.labels)[0].proba
        return proba

    def predict(self, votes: TokenVotes) -> list[list[Span]]:  # type: ignore[override]
        """Return the spans of every document, with their confidence."""
        proba = self.predict_proba(votes)
        return spans_of_proba(proba, votes.documents, votes.labels)

    def sample_votes(self) -> TokenVotes:
        """Return votes on which a loaded model is tried: all voters vote for all tags in turn."""
        documents = Documents.from_texts(["", "Ada met Bob 3 times.", "so"])

        def cast(names: tuple[str, ...], labels: LabelSpace) -> VoteMatrix:
            said = np.arange(documents.n_tokens * len(names)).reshape(-1, len(names))
            return VoteMatrix.from_dense(said % len(labels), labels, names)

        links = cast(self.link_voters_, TOGETHER) if self.link_voters_ else None
        return TokenVotes(documents, cast(self.voters_, self.labels_), links)

    def check_learned(self) -> None:
        """Refuse voters without names, and arrays of the wrong shape or without probabilities."""
        SpanLabels.of_tags(self.labels_)
        if not all(isinstance(name, str) for name in (*self.voters_, *self.link_voters_)):
            raise SavedModelError("The stored voters are not names.")
        n_tags, n_voters, n_links = len(self.labels_), len(self.voters_), len(self.link_voters_)
        expected = {
            "start_": (n_tags,),
            "transitions_": (n_tags, n_tags),
            "confusions_": (n_voters, n_tags, n_tags + bool(self.silence_counts_)),
            "link_confusions_": (n_links, 2, 3),
        }
        for name, shape in expected.items():
            value = getattr(self, name)
            if name == "link_confusions_" and n_links == 0 and np.size(value) == 0:
                continue  # a file of version 0.1 did not store the shape of an empty array
            if not isinstance(value, np.ndarray) or value.shape != shape or value.dtype.kind != "f":
                raise SavedModelError(f"The stored {name} is not an array of the shape {shape}.")
            if not (value >= 0).all() or not np.allclose(value.sum(axis=-1), 1):
                raise SavedModelError(f"The rows of the stored {name} are not probabilities.")

    def _check_options(self) -> None:
        check_number(self, "max_iter", self.max_iter, low=1, whole=True)
        check_number(self, "tol", self.tol, low=0)
        check_number(self, "smoothing", self.smoothing, low=0)
        check_number(self, "transition_smoothing", self.transition_smoothing, low=0)
        if not isinstance(self.abstain_as_vote, bool):
            check_choice(self, "abstain_as_vote", self.abstain_as_vote, ("auto",))

    def _silence_counts(self, votes: VoteMatrix) -> bool:
        if isinstance(self.abstain_as_vote, bool):
            return self.abstain_as_vote
        against = np.unique(votes.voter_index[votes.class_index == 0])
        return len(against) < votes.n_voters / 2

    def _maximize(self, expected: "_Expected", pseudo: Floats, labels: SpanLabels) -> float:
        """Set the parameters from the expectations; return their log prior density."""
        extra = self.transition_smoothing
        self.start_ = shares(np.where(labels.allowed_first, expected.starts + extra, 0.0))
        self.transitions_ = shares(np.where(labels.allowed, expected.transitions + extra, 0.0))
        self.confusions_ = shares(self._vote_counts(expected) + pseudo)
        believed = _link_belief(expected.links)
        self.link_confusions_ = shares(expected.links + believed)
        density = float((pseudo * log_of(self.confusions_)).sum())
        density += float((believed * log_of(self.link_confusions_)).sum())
        density += extra * float(log_of(self.start_[labels.allowed_first]).sum())
        return density + extra * float(log_of(self.transitions_[labels.allowed]).sum())

    def _vote_counts(self, expected: "_Expected") -> Floats:
        """Expected votes (n_voters, true, voted); abstaining is the last column if it counts."""
        if not self.silence_counts_:
            return expected.votes
        silent = np.maximum(expected.tokens - expected.votes.sum(axis=2), 0)
        return np.concatenate([expected.votes, silent[:, :, None]], axis=2)

    def _expect(self, part: "_Part", labels: SpanLabels) -> tuple[Smoothed, "_Expected"]:
        """Return the posteriors of a part, and the statistics for the next M-step."""
        log_emission = _log_evidence(part.votes, self.confusions_, self.silence_counts_)
        if self.only_supported:
            log_emission[~part.supported] = -np.inf
        log_links = None
        if part.links is not None:
            log_links = _log_evidence(part.links, self.link_confusions_, True)
        chain = Chain(self.start_, self.transitions_, _joined(labels))
        found = smooth(log_emission, part.layout, chain, log_links)
        return found, _expected(part, found, labels)


class _Part(NamedTuple):
    """Some complete documents; votes are in the order of the layout."""

    tokens: npt.NDArray[np.int64]
    """The token of each row."""
    layout: Layout
    votes: sp.csr_array[np.float64, tuple[int, int]]
    links: sp.csr_array[np.float64, tuple[int, int]] | None
    supported: npt.NDArray[np.bool_]
    """(n_tokens, n_tags): tags of labels with which a voter marked the token, and `O`."""


class _Expected(NamedTuple):
    """The results of an E-step, summed over the tokens of some documents."""

    starts: Floats
    transitions: Floats
    votes: Floats
    """(n_voters, true, voted)"""
    tokens: Floats
    """Tokens of each tag."""
    links: Floats
    """(n_rules, apart or together, vote); the last column is abstaining."""
    evidence: float


def _parts(votes: TokenVotes) -> Iterator[_Part]:
    """The documents, a few hundred thousand tokens at a time."""
    pointers = votes.documents.pointers
    one_hot = votes.votes.one_hot().astype(np.float64)
    links = None if votes.links is None else votes.links.one_hot().astype(np.float64)
    first, n_documents = 0, len(votes.documents)
    while first < n_documents:
        last = int(np.searchsorted(pointers, pointers[first] + _PART_TOKENS, side="right")) - 1
        last = min(max(last, first + 1), n_documents)
        rows = slice(int(pointers[first]), int(pointers[last]))
        own = pointers[first : last + 1] - pointers[first]
        if rows.stop > rows.start:
            layout = Layout.of(own)
            tokens = layout.order + rows.start
            voted, linked = one_hot[tokens], None if links is None else links[tokens]
            supported = _supported(voted, linked, votes.labels)
            yield _Part(tokens, layout, voted, linked, supported)
        first = last


def _supported(
    votes: sp.csr_array[np.float64, tuple[int, int]],
    links: sp.csr_array[np.float64, tuple[int, int]] | None,
    labels: SpanLabels,
) -> npt.NDArray[np.bool_]:
    n_tags = len(labels.tags)
    voted = votes @ np.tile(np.eye(n_tags), (votes.shape[1] // n_tags, 1)) > 0
    supported = np.ones((votes.shape[0], n_tags), dtype=bool)
    supported[:, 1:] = np.repeat(voted[:, 1::2] | voted[:, 2::2], 2, axis=1)
    if links is not None:
        together = links @ np.tile([[0.0], [1.0]], (links.shape[1] // 2, 1)) > 0
        supported |= together & labels.continues
    return supported


def _joined(labels: SpanLabels) -> npt.NDArray[np.bool_]:
    """Pairs of tags without a span border between them: inside one span, or both outside."""
    joined = np.tile(labels.continues, (len(labels.continues), 1))
    joined[0, 0] = True
    return joined


def _log_evidence(
    one_hot: sp.csr_array[np.float64, tuple[int, int]], confusions: Floats, silence_counts: bool
) -> Floats:
    """Log P(votes on each token | true class), up to a constant."""
    log_confusions = log_of(confusions)
    offset = np.zeros(confusions.shape[1])
    if silence_counts:
        # Initially all voters abstain; a vote replaces its voter's abstention.
        silence = log_confusions[:, :, -1]
        offset = silence.sum(axis=0)
        log_confusions = log_confusions[:, :, :-1] - silence[:, :, None]
    weights = log_confusions.transpose(0, 2, 1).reshape(-1, confusions.shape[1])
    result: Floats = one_hot @ weights + offset
    return result


def _majority(part: _Part, labels: SpanLabels) -> _Expected:
    """The expectations if every token has its vote shares, and `O` without votes."""
    n_tags = len(labels.tags)
    n_voters = part.votes.shape[1] // n_tags
    counts = part.votes @ np.tile(np.eye(n_tags), (n_voters, 1))
    covered = counts.sum(axis=1) > 0
    proba = outside_where_silent(shares(counts), covered)
    previous = part.layout.previous
    rows = np.flatnonzero(previous >= 0)
    before = proba[previous[rows]]
    transitions = before.T @ proba[rows] * labels.allowed
    joined = np.zeros(len(proba))
    joined[rows] = np.einsum("nk,nk->n", before @ _joined(labels), proba[rows])
    starts = proba[part.layout.first].sum(axis=0)
    found = Smoothed(proba, starts, transitions, joined, 0.0)
    return _expected(part, found, labels)


def _expected(part: _Part, found: Smoothed, labels: SpanLabels) -> _Expected:
    n_tags = len(labels.tags)
    votes = np.asarray(part.votes.T @ found.proba).reshape(-1, n_tags, n_tags).transpose(0, 2, 1)
    links = np.zeros((0, 2, 3))
    if part.links is not None:
        # The first token of a document has no predecessor, and is on neither side.
        sides = np.stack([1 - found.joined, found.joined], axis=1)
        sides[part.layout.first] = 0.0
        cast = np.asarray(part.links.T @ sides).reshape(-1, 2, 2).transpose(0, 2, 1)
        silent = np.maximum(sides.sum(axis=0) - cast.sum(axis=2), 0)
        links = np.concatenate([cast, silent[:, :, None]], axis=2)
    tokens = found.proba.sum(axis=0)
    return _Expected(found.starts, found.transitions, votes, tokens, links, found.evidence)


def _total(parts: list[_Expected]) -> _Expected:
    return _Expected(*(sum(part[1:], part[0]) for part in zip(*parts, strict=True)))


def _link_belief(links: Floats) -> Floats:
    """Pseudo-votes of linking rules: each abstains as often as it does, else is mostly right."""
    cast = shares(links.sum(axis=1))[:, :2]
    right = np.array([[0.9, 0.1], [0.1, 0.9]])
    votes = cast.sum(axis=1)[:, None, None] * right
    silent = np.tile(1 - cast.sum(axis=1)[:, None, None], (1, 2, 1))
    return _LINK_BELIEF * np.concatenate([votes, silent], axis=2)
