"""HiddenMarkov: the label model that models the sequence of tags."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.errors import (
    CollapseWarning,
    ParameterError,
    SavedModelError,
    VoteError,
    warn_user,
)
from wiesel.label_models.base import ClassBalance, LabelModel
from wiesel.label_models.expectation_maximization import log_of, shares
from wiesel.labels import LabelSpace
from wiesel.parameters import check_choice, check_number
from wiesel.spans.documents import Documents, outside_where_silent, spans_of_proba
from wiesel.spans.forward_backward import Chain, Layout, Smoothed, smooth
from wiesel.spans.tags import Span, SpanLabels
from wiesel.spans.votes import TOGETHER, TokenVotes, check_token_votes
from wiesel.votes import VoteMatrix

__all__ = ["HiddenMarkov"]

_PART_TOKENS = 2**18
_PSEUDO_TOKENS = 0.01
_LINK_BELIEF = 10.0
"""Number of pseudo-votes for the prior that a linking rule is right nine times in ten."""
_LINK_RIGHT = np.array([[0.9, 0.1], [0.1, 0.9]])
_DOUBT = 0.1
"""What every tag adds to the votes on a token while links are first weighed against votes."""
_LOST = 0.25
"""EM stops if a voter that others never meet would lose this share of its undisputed marks."""

Floats = npt.NDArray[np.float64]


@dataclass(eq=False, kw_only=True)
class HiddenMarkov(LabelModel):
    r"""True tags are a Markov chain, and each voter confuses tags in its own way.

    With pi the tags of first tokens, T the transitions between tags (those that BIO forbids have
    probability 0) and C_j[c, l] = P(voter j votes l | true tag c):

        P(tags, votes) = pi(tag_1) * product over t of T[tag_{t-1}, tag_t]
                         * product over votes of C_j[tag_t, vote]

    The parameters are learned by EM (Baum-Welch), starting from the majority vote, in which a
    token without votes is `O`. Votes of linking rules are evidence on whether two tokens are in one
    span. The soft label of each token is its posterior, given all votes of its document.

    Voters that mark different things on purpose, such as two parts of a dictionary, meet less often
    than by chance. To EM, the silence of one then speaks against every mark of the other, so EM
    stops before it loses most of them.

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
    """Treat every voter's abstention as evidence about the tag, as `auto` does: abstaining is how
    most voters vote against a span. `False` is for voters that skip tokens for reasons that have
    nothing to do with spans; that nobody marked a token remains evidence."""
    only_supported: bool = True
    """A token can be in a span of a label only if some voter marked it with that label, or links
    tie it to such a token. Otherwise abstentions alone can create spans: of words on which the
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
    marked_outside_: float = field(init=False, repr=False)
    """P(somebody marks a token that is outside of spans); used if silence does not count."""
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
        self.silence_counts_ = bool(self.abstain_as_vote)
        parts = list(_parts(votes))
        expected = _total([_majority(part, labels) for part in parts])
        marks, apart = expected.undisputed, _marks_apart(votes.votes)
        pooled = self._vote_counts(expected).sum(axis=0) + _PSEUDO_TOKENS
        pseudo_votes = self.smoothing * pooled.shape[1] * shares(pooled)
        self.evidence_ = []
        while len(self.evidence_) < self.max_iter:
            before = {name: getattr(self, name, None) for name in _PARAMETERS}
            log_density = self._maximize(expected, pseudo_votes, labels)
            expected = _total([self._expect(part, labels)[1] for part in parts])
            if self.evidence_ and (expected.undisputed < (1 - _LOST) * marks)[apart].any():
                for name, value in before.items():
                    setattr(self, name, value)
                break
            self.evidence_.append(expected.evidence + log_density)
            grown = np.diff(self.evidence_[-2:])
            if len(grown) and grown[0] < self.tol * votes.documents.n_tokens:
                break
        if not expected.found:
            n_marks = int((votes.votes.class_index > 0).sum())
            warn_user(
                "HiddenMarkov finds no span in the documents that it was fitted on, although "
                f"{n_marks:,} votes mark a token: {self._blame()} MajorityVote() cannot fail this "
                "way.",
                CollapseWarning,
            )

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
        share = getattr(self, "marked_outside_", 0.0)  # version 0.1 did not have it
        if isinstance(share, bool) or not isinstance(share, float) or not 0 <= share <= 1:
            raise SavedModelError(f"The stored marked_outside_ is no probability: {share!r:.60}.")

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "max_iter", self.max_iter, low=1, whole=True)
        check_number(self, "tol", self.tol, low=0)
        check_number(self, "smoothing", self.smoothing, low=0)
        check_number(self, "transition_smoothing", self.transition_smoothing, low=0)
        if not isinstance(self.abstain_as_vote, bool):
            check_choice(self, "abstain_as_vote", self.abstain_as_vote, ("auto",))

    def _blame(self) -> str:
        if not self.silence_counts_:
            return "abstentions are no evidence with abstain_as_vote=False; leave it out."
        return "the votes for O outweigh them; look at voter_table(votes)."

    def _maximize(self, expected: "_Expected", pseudo: Floats, labels: SpanLabels) -> float:
        """Set the parameters from the expectations; return their log prior density."""
        extra = self.transition_smoothing
        self.start_ = shares(np.where(labels.allowed_first, expected.starts + extra, 0.0))
        self.transitions_ = shares(np.where(labels.allowed, expected.transitions + extra, 0.0))
        self.confusions_ = shares(self._vote_counts(expected) + pseudo)
        outside = expected.tokens[0] + 2 * _PSEUDO_TOKENS
        self.marked_outside_ = float((expected.marked_outside + _PSEUDO_TOKENS) / outside)
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
        # A model of an earlier version has no such share, and took pairs of `O` for linked.
        is_old = not hasattr(self, "marked_outside_")
        if self.only_supported:
            log_emission[~part.supported] = -np.inf
            if not (self.silence_counts_ or is_old):
                # Somebody marks each token of a span, so only marks outside of spans are chance.
                chance = np.where(part.marked, self.marked_outside_, 1 - self.marked_outside_)
                log_emission[:, 0] += log_of(chance)
        log_links = None
        if part.links is not None:
            log_links = _log_evidence(part.links, self.link_confusions_, True)
        chain = Chain(self.start_, self.transitions_, _joined(labels, is_old))
        found = smooth(log_emission, part.layout, chain, log_links)
        return found, _expected(part, found, labels)


_PARAMETERS = ("start_", "transitions_", "confusions_", "link_confusions_", "marked_outside_")


class _Part(NamedTuple):
    """Some complete documents; votes are in the order of the layout."""

    tokens: npt.NDArray[np.int64]
    """The token of each row."""
    layout: Layout
    votes: sp.csr_array[np.float64, tuple[int, int]]
    links: sp.csr_array[np.float64, tuple[int, int]] | None
    supported: npt.NDArray[np.bool_]
    """(n_tokens, n_tags): labels with which a voter marked the token or one tied to it, and `O`."""
    marked: npt.NDArray[np.bool_]
    """Whether any voter marked the token."""
    undisputed: npt.NDArray[np.int64]
    """The tokens that voters marked with one label only."""


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
    marked_outside: float
    """Tokens outside of spans that somebody marked."""
    undisputed: Floats
    """(n_voters,): marks that nobody disputes, and that are right."""
    found: int
    """Tokens whose most probable tag is not `O`."""


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
            cast = voted @ np.tile(np.eye(len(votes.labels.tags)), (len(votes.voters), 1)) > 0
            marks = cast[:, 1::2] | cast[:, 2::2]
            undisputed = np.flatnonzero((marks.sum(axis=1) == 1) & ~cast[:, 0])
            supported = np.ones(cast.shape, dtype=bool)
            supported[:, 1:] = np.repeat(_reached(marks, linked, layout), 2, axis=1)
            marked = np.asarray(marks.any(axis=1))
            yield _Part(tokens, layout, voted, linked, supported, marked, undisputed)
        first = last


def _reached(
    marks: npt.NDArray[np.bool_],
    links: sp.csr_array[np.float64, tuple[int, int]] | None,
    layout: Layout,
) -> npt.NDArray[np.bool_]:
    """(n_tokens, n_labels): the labels of a token, and of those that links tie it to."""
    if links is None:
        return marks
    tied = np.flatnonzero(_together(links) & (layout.previous >= 0))
    before, reached = layout.previous[tied], marks.copy()
    n_reached = -1
    while reached.sum() > n_reached:
        n_reached = int(reached.sum())
        reached[tied] |= reached[before]
        reached[before] |= reached[tied]
    return reached


def _together(links: sp.csr_array[np.float64, tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Whether any rule ties a token to its predecessor."""
    votes = links @ np.tile([0.0, 1.0], links.shape[1] // 2)
    return np.asarray(votes > 0)


def _marks_apart(votes: VoteMatrix) -> npt.NDArray[np.bool_]:
    """The voters whose marks meet those of others clearly less often than by chance."""
    marks = votes.class_index > 0
    item, voter = votes.item_index[marks], votes.voter_index[marks]
    per_token = np.bincount(item, minlength=votes.n_items)
    alone = np.bincount(voter[per_token[item] == 1], minlength=votes.n_voters)
    own = np.bincount(voter, minlength=votes.n_voters)
    # A token counts for the others of a voter unless that voter alone marked it.
    by_chance = own * ((per_token > 0).sum() - alone) / max(votes.n_items, 1)
    return np.asarray(own - alone < by_chance - np.sqrt(by_chance))


def _joined(labels: SpanLabels, outside: bool = False) -> npt.NDArray[np.bool_]:
    """Pairs of tags inside of one span; with `outside`, also those outside of all."""
    joined = np.tile(labels.continues, (len(labels.continues), 1))
    joined[0, 0] = outside
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
    """The expectations if every token has its vote shares, and `O` without votes.

    Links are weighed against these shares: between two tokens they are right nine times in ten, and
    a token without votes that they tie to a span is as likely inside as outside.
    """
    n_tags = len(labels.tags)
    n_voters = part.votes.shape[1] // n_tags
    counts = part.votes @ np.tile(np.eye(n_tags), (n_voters, 1))
    covered = counts.sum(axis=1) > 0
    proba = outside_where_silent(shares(counts), covered)
    previous = part.layout.previous
    if part.links is not None:
        # Where a voter's span begins is worth less than that there is a span of this label.
        other_tag = np.concatenate([counts[:, :1], counts[:, 2::2].repeat(2, axis=1)], axis=1)
        other_tag[:, 2::2] = counts[:, 1::2]
        evidence = shares(counts + _DOUBT + 0.5 * other_tag) * part.supported
        evidence[~covered] = part.supported[~covered]
        rules = np.tile(_LINK_RIGHT, (part.links.shape[1] // 2, 1, 1))
        log_links = _log_evidence(part.links, rules, silence_counts=False)
        first, following = shares(1.0 * labels.allowed_first), shares(1.0 * labels.allowed)
        chain = Chain(first, following, _joined(labels))
        with np.errstate(divide="ignore"):
            weighed = smooth(np.log(evidence), part.layout, chain, log_links)
        is_tied = _together(part.links) & (previous >= 0)
        touched = np.union1d(np.flatnonzero(is_tied), previous[is_tied])
        proba[touched] = weighed.proba[touched]
    rows = np.flatnonzero(previous >= 0)
    before, after, inside = proba[previous[rows]], proba[rows], _joined(labels)
    # Neighbors are independent, but for the probability that links join them.
    by_chance = np.einsum("nk,nk->n", before @ inside, after)
    together = by_chance.copy()
    if part.links is not None:
        together[is_tied[rows]] = weighed.joined[rows][is_tied[rows]]
    odds = [(together, by_chance, inside), (1 - together, 1 - by_chance, ~inside)]
    transitions = np.zeros(labels.allowed.shape)
    for wanted, chance, pairs in odds:
        ratio = np.divide(wanted, chance, out=np.zeros_like(wanted), where=chance > 0)
        transitions += ((before * ratio[:, None]).T @ after) * (pairs & labels.allowed)
    joined = np.zeros(len(proba))
    joined[rows] = together
    starts = proba[part.layout.first].sum(axis=0)
    return _expected(part, Smoothed(proba, starts, transitions, joined, 0.0), labels)


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
    tokens, of_marked = found.proba.sum(axis=0), found.proba[part.marked, 0].sum()
    return _Expected(
        found.starts,
        found.transitions,
        votes,
        tokens,
        links,
        found.evidence,
        float(of_marked),
        _undisputed(part, found.proba),
        int((found.proba.argmax(axis=1) > 0).sum()),
    )


def _undisputed(part: _Part, proba: Floats) -> Floats:
    """(n_voters,): the expected number of undisputed marks that are right."""
    n_tags = proba.shape[1]
    marks = part.votes[part.undisputed]
    inside = 1 - proba[part.undisputed, 0]
    by_vote = np.asarray(marks.T @ inside).reshape(-1, n_tags)
    return np.asarray(by_vote[:, 1:].sum(axis=1))


def _total(parts: list[_Expected]) -> _Expected:
    return _Expected(*(sum(part[1:], part[0]) for part in zip(*parts, strict=True)))


def _link_belief(links: Floats) -> Floats:
    """Pseudo-votes of linking rules: each abstains as often as it does, else is mostly right."""
    cast = shares(links.sum(axis=1))[:, :2]
    votes = cast.sum(axis=1)[:, None, None] * _LINK_RIGHT
    silent = np.tile(1 - cast.sum(axis=1)[:, None, None], (1, 2, 1))
    return _LINK_BELIEF * np.concatenate([votes, silent], axis=2)
