import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from wiesel import DawidSkene, load_model
from wiesel.errors import CollapseWarning, NotFittedError, ParameterError, VoteError
from wiesel.spans import (
    Documents,
    HiddenMarkov,
    SpanLabels,
    TokenVotes,
    apply_span_lfs,
    evaluate_spans,
    forward_backward,
    gazetteer,
    outside,
)
from wiesel.spans.forward_backward import Chain, Layout, smooth
from wiesel.spans.hidden_markov import _joined, _marks_apart
from wiesel.spans.votes import TOGETHER
from wiesel.votes import VoteMatrix

LABELS = SpanLabels(("PER", "LOC"))
JOINED = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 1]], dtype=bool)
LENGTHS = (5, 1, 0, 6, 3)


def random_votes(seed: int = 0, silence: float = 0.4, links: bool = False) -> TokenVotes:
    """Sentences of planted tags, and voters that are right seven times in ten."""
    rng = np.random.default_rng(seed)
    truth, lengths = [], rng.integers(1, 12, size=60)
    for length in lengths:
        tag = 0
        for _ in range(length):
            tag = rng.choice(np.flatnonzero(LABELS.allowed[tag]))
            truth.append(int(tag))
    gold = np.array(truth)
    said = np.where(
        rng.random((len(gold), 4)) < 0.7, gold[:, None], rng.integers(0, 5, (len(gold), 4))
    )
    said[rng.random(said.shape) < silence] = -1
    documents = Documents.from_words([["w"] * length for length in lengths])
    votes = VoteMatrix.from_dense(said, LABELS.tags)
    if not links:
        return TokenVotes(documents, votes)
    pairs = np.where(rng.random((len(gold), 1)) < 0.5, 1, -1)
    return TokenVotes(documents, votes, VoteMatrix.from_dense(pairs, TOGETHER, ["link"]))


def by_hand(log_emission, chain, log_links):
    """Posteriors of one sentence, summed over all paths."""
    n_tokens, n_states = log_emission.shape
    proba, pairs, joined = np.zeros((n_tokens, n_states)), np.zeros((3, 3)), np.zeros(n_tokens)
    total = 0.0
    for path in itertools.product(range(n_states), repeat=n_tokens):
        weight = chain.start[path[0]] * np.exp(log_emission[0, path[0]])
        for token, (a, b) in enumerate(itertools.pairwise(path), start=1):
            link = np.exp(log_links[token, int(chain.joined[a, b])])
            weight *= chain.transitions[a, b] * np.exp(log_emission[token, b]) * link
        total += weight
        proba[np.arange(n_tokens), path] += weight
        for token, (a, b) in enumerate(itertools.pairwise(path), start=1):
            pairs[a, b] += weight
            joined[token] += weight * chain.joined[a, b]
    return proba / total, pairs / total, joined / total, np.log(total)


@pytest.mark.parametrize("piece", [2048, 3, 2, 1])
@pytest.mark.parametrize("with_links", [False, True])
def test_smoothing_is_the_sum_over_all_paths(piece, with_links, monkeypatch):
    """Documents longer than a piece are cut and joined again: the answer is the same."""
    monkeypatch.setattr(forward_backward, "PIECE", piece)
    rng = np.random.default_rng(3)
    transitions = rng.random((3, 3))
    transitions[0, 2] = 0
    transitions /= transitions.sum(axis=1, keepdims=True)
    chain = Chain(np.array([0.6, 0.4, 0.0]), transitions, JOINED)
    pointers = np.concatenate([[0], np.cumsum(LENGTHS)])
    log_emission = 2 * rng.normal(size=(pointers[-1], 3))
    log_links = rng.normal(size=(pointers[-1], 2)) * with_links
    layout = Layout.of(pointers)
    found = smooth(
        log_emission[layout.order], layout, chain, log_links[layout.order] if with_links else None
    )
    back = np.argsort(layout.order)
    pairs, evidence = np.zeros((3, 3)), 0.0
    for first, last in itertools.pairwise(pointers):
        if first == last:
            continue
        proba, own, joined, log_total = by_hand(
            log_emission[first:last], chain, log_links[first:last]
        )
        assert np.allclose(found.proba[back][first:last], proba)
        assert np.allclose(found.joined[back][first:last], joined)
        pairs, evidence = pairs + own, evidence + log_total
    assert np.allclose(found.transitions, pairs)
    assert np.isclose(found.evidence, evidence)


def test_evidence_a_thousand_times_apart_does_not_underflow():
    """The second token is certain to be I, so the first is B, however much its votes say O."""
    chain = Chain(
        np.array([0.5, 0.5, 0.0]),
        np.full((3, 3), 1 / 3) * [[1, 1, 0], [1, 1, 1], [1, 1, 1]],
        JOINED,
    )
    log_emission = np.array([[0.0, -800.0, -800.0], [-2000.0, -2000.0, 0.0]])
    found = smooth(log_emission, Layout.of(np.array([0, 2])), chain)
    assert np.allclose(found.proba, [[0, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize("shift", [-1000.0, 1000.0])
def test_votes_that_are_unlikely_under_every_tag_change_only_the_evidence(shift):
    rng = np.random.default_rng(5)
    chain = Chain(np.array([0.5, 0.5, 0.0]), rng.dirichlet(np.ones(3), size=3), JOINED)
    log_emission, log_links = rng.normal(size=(9, 3)), rng.normal(size=(9, 2))
    layout = Layout.of(np.array([0, 4, 9]))
    plain = smooth(log_emission, layout, chain, log_links)
    moved = smooth(log_emission + shift, layout, chain, log_links + shift)
    for name in ("proba", "starts", "transitions", "joined"):
        assert np.allclose(getattr(moved, name), getattr(plain, name)), name
    # Nine tokens, and seven pairs of neighbors.
    assert moved.evidence == pytest.approx(plain.evidence + 16 * shift)


@dataclass(eq=False, kw_only=True)
class Independent(HiddenMarkov):
    """The chain forgets: every tag is as likely after every other."""

    def _maximize(self, expected, pseudo, labels):
        density = super()._maximize(expected, pseudo, labels)
        n_tags = len(labels.tags)
        self.start_ = np.full(n_tags, 1 / n_tags)
        self.transitions_ = np.full((n_tags, n_tags), 1 / n_tags)
        return density


@pytest.mark.parametrize("silence", [True, False])
def test_with_uniform_transitions_it_is_dawid_skene_token_by_token(silence):
    votes = random_votes(silence=0.3)
    covered = votes.votes.covered
    tokens = np.flatnonzero(covered)
    lengths = np.bincount(votes.documents.document_index[tokens], minlength=len(votes.documents))
    documents = Documents.from_words([["w"] * length for length in lengths])
    votes = TokenVotes(documents, votes.votes[tokens])
    options = {"max_iter": 4, "tol": 0, "abstain_as_vote": silence}
    chained = Independent(only_supported=False, **options).fit(votes)
    alone = DawidSkene(stop_at_drift=False, **options)
    alone.fit(votes.votes, class_balance=np.full(5, 0.2))
    assert np.allclose(chained.confusions_, alone.confusions_)
    assert np.allclose(chained.predict_proba(votes), alone.predict_proba(votes.votes))


@pytest.mark.parametrize("links", [False, True])
@pytest.mark.parametrize("silence", [True, False])
def test_the_evidence_never_falls(silence, links):
    votes = random_votes(links=links)
    model = HiddenMarkov(abstain_as_vote=silence, max_iter=15, tol=0).fit(votes)
    assert len(model.evidence_) > 3
    assert np.diff(model.evidence_).min() > -1e-6


def test_what_bio_forbids_has_no_probability():
    model = HiddenMarkov().fit(random_votes())
    assert model.transitions_[~LABELS.allowed].max() == 0
    assert model.start_[LABELS.continues].max() == 0
    assert np.allclose(model.transitions_.sum(axis=1), 1)


def test_a_token_is_only_what_somebody_said():
    votes = random_votes()
    proba = HiddenMarkov(only_supported=True).fit(votes).predict_proba(votes)
    silent = ~votes.votes.covered
    assert silent.any()
    assert np.allclose(proba[silent, 0], 1)


def test_the_neighbors_decide_what_the_token_alone_does_not():
    """One voter says I-PER, one I-LOC; before it both say B-PER: so it goes on."""
    said = [[0, 0], [1, 1], [2, 4], [0, 0]] * 20
    documents = Documents.from_words([["w"] * 4] * 20)
    votes = TokenVotes(documents, VoteMatrix.from_dense(said, LABELS.tags))
    spans = HiddenMarkov().fit(votes).predict(votes)
    assert [(s.start, s.end, s.label) for s in spans[0]] == [(2, 5, "PER")]
    assert 0.5 < spans[0][0].confidence <= 1


def test_a_link_carries_a_span_on():
    """`York Times` has no vote of its own; it is linked to the name before it in every text."""
    documents = Documents.from_texts(["the New Yorker said", "the New man", "a New Yorker"] * 10)
    names = gazetteer("PER", ["New"])
    tied = apply_span_lfs(
        names, documents, labels=["PER"], links=gazetteer("together", ["New Yorker"])
    )
    loose = apply_span_lfs(names, documents, labels=["PER"])
    before = HiddenMarkov().fit(loose).predict_proba(loose)[2, 2]
    after = HiddenMarkov().fit(tied).predict_proba(tied)[2, 2]
    assert before == 0
    assert after > 0


def test_neighbors_are_together_inside_of_one_span_only():
    # From O, B-PER, I-PER, B-LOC, I-LOC (rows) to the same: no border before an I. In O O, which
    # most neighbors are, a link says nothing: learned there, rules would look like noise.
    assert np.array_equal(_joined(LABELS), [[0, 0, 1, 0, 1]] * 5)


def named(rng, n_documents=150):
    """Texts of planted names of two or three words, and a dictionary of their middle words."""
    texts, gold = [], []
    for _ in range(n_documents):
        words, spans = [], []
        for _ in range(4):
            words += ["so"] * int(rng.integers(1, 4))
            start = len(" ".join([*words, ""]))
            name = [f"N{rng.integers(30)}", f"M{rng.integers(10)}", f"L{rng.integers(30)}"]
            words += name[: int(rng.integers(2, 4))]
            spans.append((start, len(" ".join(words)), "PER"))
        texts.append(" ".join([*words, "so"]))
        gold.append(spans)
    return Documents.from_texts(texts), gold


@pytest.mark.parametrize("share", [0.8, 0.6])
def test_links_extend_spans_to_both_sides(share):
    """A dictionary knows the middle words of names; a linking rule ties the words of most."""
    rng = np.random.default_rng(1)
    documents, gold = named(rng)
    middle = gazetteer("PER", [f"M{k}" for k in range(10)], name="middle")
    tied = [[span for span in own if rng.random() < share] for own in gold]
    loose = apply_span_lfs(middle, documents, labels=["PER"])
    links = TokenVotes.from_spans(
        documents, {"middle": loose.spans("middle")}, labels=["PER"], links={"phrases": tied}
    )

    def f1(votes):
        found = HiddenMarkov().fit(votes).predict(votes)
        return evaluate_spans(gold, found, documents, ["PER"]).exact["all"].f1

    assert f1(loose) == 0
    assert f1(links) > 0.9 * share


def with_outside(n_outside, apart=False):
    """Names that two lists know in part, and voters of `O` on other words."""
    rng = np.random.default_rng(0)
    names, common = [f"N{k}" for k in range(40)], [f"w{k}" for k in range(400)]
    texts, gold = [], []
    for _ in range(300):
        words = [str(rng.choice(names if rng.random() < 0.08 else common)) for _ in range(12)]
        texts.append(" ".join(words))
        starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])])
        places = zip(starts.tolist(), words, strict=True)
        gold.append([(s, s + len(word), "PER") for s, word in places if word in names])
    lists = (names[:30], names[30:]) if apart else (names[:30], names[15:])
    lfs = [gazetteer("PER", own, name=f"list_{k}") for k, own in enumerate(lists)]
    lfs += [outside(common[k * 80 : k * 80 + 80], name=f"no_{k}") for k in range(n_outside)]
    documents = Documents.from_texts(texts)
    return apply_span_lfs(lfs, documents, labels=["PER"]), gold


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("n_outside", [0, 1, 3, 5])
@pytest.mark.parametrize("silence", ["auto", True, False])
def test_voters_of_outside_do_not_make_it_collapse(n_outside, silence, apart):
    """All marks are right, so all are kept; two lists that never meet do not doubt each other."""
    votes, gold = with_outside(n_outside, apart)
    model = HiddenMarkov(abstain_as_vote=silence, tol=0, max_iter=20).fit(votes)
    found = model.predict(votes)
    assert evaluate_spans(gold, found, votes.documents, ["PER"]).exact["all"].f1 > 0.98


def test_voters_that_meet_less_often_than_by_chance_are_known():
    votes, _ = with_outside(2, apart=True)
    assert _marks_apart(votes.votes).tolist() == [True, True, False, False]
    votes, _ = with_outside(2, apart=False)
    assert not _marks_apart(votes.votes).any()


def test_a_fit_that_finds_no_span_warns():
    """Without the evidence that nobody marked most tokens, it is likely that all are outside."""
    votes, _ = with_outside(0)
    with pytest.warns(CollapseWarning, match="finds no span in the documents that it was fitted"):
        HiddenMarkov(abstain_as_vote=False, only_supported=False).fit(votes)


def test_a_vote_for_apart_carries_no_span_on():
    """Only `together` lets a token without a vote be inside of the span before it."""
    said, documents = [[0], [-1], [1], [-1]] * 10, Documents.from_words([["w"] * 4] * 10)
    tags = VoteMatrix.from_dense(said, LABELS.tags)

    def inside(link: int) -> float:
        links = VoteMatrix.from_dense([[-1], [-1], [-1], [link]] * 10, TOGETHER, ["link"])
        votes = TokenVotes(documents, tags, links)
        return float(HiddenMarkov().fit(votes).predict_proba(votes)[3::4, 2].max())

    assert inside(0) == 0
    assert inside(1) > 0


def test_a_document_of_a_million_tokens_is_one_document():
    n_tokens = 1_000_000
    pointers = np.array([0, n_tokens])
    layout = Layout.of(pointers)
    assert np.array_equal(np.sort(layout.order), np.arange(n_tokens))
    assert len(layout.steps()) == forward_backward.PIECE
    assert (layout.previous < 0).sum() == 1


def test_empty_documents_are_kept_among_others():
    documents = Documents.from_texts(["", "Ada won", ""])
    votes = apply_span_lfs(gazetteer("PER", ["Ada"]), documents, labels=["PER"])
    assert [len(own) for own in HiddenMarkov().fit(votes).predict(votes)] == [0, 1, 0]


@pytest.mark.parametrize(
    ("text", "words"), [("", "on 0 tokens of 1 documents"), ("Bob met Eve", "no vote on 3 tokens")]
)
def test_without_a_vote_there_is_nothing_to_learn(text, words):
    votes = apply_span_lfs(gazetteer("PER", ["Ada"]), Documents.from_texts([text]), labels=["PER"])
    with pytest.raises(VoteError, match=words):
        HiddenMarkov().fit(votes)


def test_other_voters_and_other_links_are_refused():
    votes = random_votes()
    model = HiddenMarkov().fit(votes)
    with pytest.raises(VoteError, match="missing"):
        model.predict(TokenVotes(votes.documents, votes.votes.select([0, 1])))
    with pytest.raises(VoteError, match="linking rules"):
        model.predict(random_votes(links=True))
    with pytest.raises(NotFittedError):
        HiddenMarkov().predict(votes)


def test_options_are_checked():
    with pytest.raises(ParameterError, match="smoothing"):
        HiddenMarkov(smoothing=-1).fit(random_votes())
    with pytest.raises(ParameterError, match="Did you mean 'max_iter'"):
        HiddenMarkov(max_iters=3)


def test_fit_is_the_same_whatever_the_order_of_documents():
    votes = random_votes()
    order = np.random.default_rng(0).permutation(len(votes.documents))
    shuffled = votes.select(order)
    first, second = HiddenMarkov().fit(votes), HiddenMarkov().fit(shuffled)
    assert np.allclose(first.confusions_, second.confusions_)


def test_a_saved_model_says_the_same(tmp_path):
    votes = random_votes(links=True)
    model = HiddenMarkov().fit(votes)
    model.save(tmp_path / "hmm")
    loaded = load_model(tmp_path / "hmm")
    assert np.array_equal(loaded.predict_proba(votes), model.predict_proba(votes))


def test_documents_read_in_parts_get_the_same_tags(monkeypatch):
    texts = ["Ada met Bob in Rome.", "Bob left.", "In Rome, Ada saw Ada.", "So.", "Rome met Bob."]
    documents = Documents.from_texts(texts * 4)
    rules = [gazetteer("PER", ["Ada", "Bob"], name="p"), gazetteer("LOC", ["Rome"], name="l")]
    votes = apply_span_lfs(rules, documents, labels=["PER", "LOC"])
    whole = HiddenMarkov().fit(votes)
    monkeypatch.setattr("wiesel.spans.hidden_markov._PART_TOKENS", 7)
    parts = HiddenMarkov().fit(votes)
    np.testing.assert_allclose(parts.transitions_, whole.transitions_, atol=1e-9)
    np.testing.assert_allclose(parts.predict_proba(votes), whole.predict_proba(votes), atol=1e-9)
