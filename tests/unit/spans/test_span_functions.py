import numpy as np
import pytest

from wiesel import MajorityVote, apply_lfs, keywords, lookup, regex, summarize
from wiesel.errors import (
    LabelingFunctionError,
    ParameterError,
    VoteError,
    WieselError,
    WieselWarning,
)
from wiesel.lfs import FailureLog
from wiesel.spans import (
    Documents,
    HiddenMarkov,
    SpanLabels,
    TokenVotes,
    apply_span_lfs,
    gazetteer,
    load_span_lfs,
    outside,
    pattern,
    span_function,
)
from wiesel.votes import VoteMatrix


def marked(function, text: str) -> list[str]:
    return [text[span.start : span.end] for span in function(text)]


def answering(spans, **options):
    return span_function(name="lf", **options)(lambda document: spans)


def apply(function, *texts: str) -> TokenVotes:
    return apply_span_lfs(function, Documents.from_texts(texts), labels=["PER", "LOC"])


def test_of_overlapping_names_the_longest_counts():
    cities = gazetteer("LOC", ["York", "New York", "New York City", "City Hall"])
    assert marked(cities, "New York City Hall in York") == ["New York City", "York"]


@pytest.mark.parametrize(
    ("case", "found"),
    [
        ("exact", ["Bath"]),
        ("ignore", ["Bath", "BATH", "bath"]),
        ("capitalized", ["Bath", "BATH"]),
    ],
)
def test_case_rules(case, found):
    assert marked(gazetteer("LOC", ["Bath"], case=case), "Bath BATH bath") == found


def test_a_gazetteer_finds_what_a_plain_search_finds():
    rng = np.random.default_rng(0)
    letters = np.array(list("abcd"))
    entries = {" ".join(rng.choice(letters, rng.integers(1, 4))) for _ in range(20)}
    texts = [" ".join(rng.choice(letters, 12)) for _ in range(30)]
    names = gazetteer("LOC", sorted(entries))
    for text in texts:
        tokens = text.split()
        expected = longest_by_hand(tokens, {tuple(each.split()) for each in entries})
        assert [text[s.start : s.end] for s in names(text)] == expected


def longest_by_hand(tokens, entries):
    places = [
        (first, first + size)
        for size in (3, 2, 1)
        for first in range(len(tokens) - size + 1)
        if tuple(tokens[first : first + size]) in entries
    ]
    taken: list[tuple[int, int]] = []
    for first, last in places:
        if all(last <= a or first >= b for a, b in taken):
            taken.append((first, last))
    return [" ".join(tokens[first:last]) for first, last in sorted(taken)]


def test_a_hundred_thousand_names_are_one_function():
    names = gazetteer("LOC", [f"place{k} town" for k in range(100_000)])
    assert marked(names, "From place99999 town to place5 city") == ["place99999 town"]


def test_names_are_found_whatever_the_tokenizer():
    documents = Documents.from_words([["U.S.", "troops", "in", "New-York"]])
    votes = apply_span_lfs(gazetteer("LOC", ["U.S.", "York"]), documents, labels=["LOC"])
    assert votes.votes.dense()[:, 0].tolist() == [1, -1, -1, 1]


def test_a_pattern_marks_what_is_between_its_context():
    speaker = pattern("PER", r"[A-Z]\w+", after=" said", before=r"(?:Mr|Mrs) ")
    assert marked(speaker, "Mr Brown said that Mr Green and Mrs Gray said") == ["Brown", "Gray"]


def test_a_pattern_with_groups_of_its_own_and_foreign_letters():
    names = pattern("PER", r"(Éa|Ži)(\w)\w*")
    assert marked(names, "\ue000 Éamon und Žižek") == ["Éamon", "Žižek"]


def test_rules_of_rows_give_spans_for_free():
    rules = [
        keywords("PER", ["ada"], column="text", name="words"),
        keywords("PER", ["yro"], column="text", whole_words=False, name="parts"),
        regex("LOC", r"Lon\w+", column="text", name="pattern"),
        lookup("LOC", {"London"}, columns="place", name="known"),
    ]
    votes = apply(rules, "Ada Byron of London")
    assert votes.votes.dense().tolist() == [
        [1, -1, -1, -1],
        [-1, 1, -1, -1],
        [-1, -1, -1, -1],
        [-1, -1, 3, 3],
    ]


def test_keywords_that_must_meet_are_no_spans():
    with pytest.raises(ParameterError, match="min_matches must be 1"):
        apply(keywords("PER", ["a", "b"], column="text", min_matches=2), "a b")


def test_a_span_that_ends_within_a_word_takes_the_whole_word():
    votes = apply(answering([(1, 6, "PER")]), "Ada Byron")
    assert [span[:2] for span in votes.spans("lf")[0]] == [(0, 9)]


def test_none_abstains_and_an_exhaustive_function_votes_outside():
    @span_function(exhaustive=True)
    def careful(document):
        return None if "?" in document.text else [(0, 3, "PER")]

    votes = apply(careful, "Ada won", "Ada ?").votes
    assert votes.dense()[:, 0].tolist() == [1, 0, -1, -1]


def test_a_span_of_the_label_outside_is_a_vote_against():
    assert apply(answering([(0, 3, "O")]), "The end").votes.dense()[:, 0].tolist() == [0, -1]


def test_overlapping_spans_of_one_function_warn_and_the_longest_counts():
    with pytest.warns(WieselWarning, match=r"'lf' \(2\)"):
        votes = apply(answering([(0, 3, "PER"), (0, 9, "LOC"), (4, 9, "PER")]), "Ada Byron")
    assert [span[2] for span in votes.spans("lf")[0]] == ["LOC"]


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        ([(0, 99, "PER")], "characters 0 to 99 of document 0"),
        ([(-1, 2, "PER")], "needs 0 <= start < end"),
        ([(2, 2, "PER")], "needs 0 <= start < end"),
        ([(3, 4, "PER")], "more than white space"),
        ([(0, 3, "PRE")], "Did you mean 'PER'"),
        ([(0.5, 3, "PER")], "in characters"),
        ([("PER", 0, 3)], "in characters"),
        ([7], "in characters"),
        ((0, 3, "PER"), "the answer is a list of spans"),
        ("PER", "list of spans"),
    ],
)
def test_what_is_no_span_is_refused_by_name(spans, words):
    with pytest.raises(VoteError, match="'lf'") as error:
        apply(answering(spans), "Ada Byron")
    assert words in str(error.value)


def test_a_builder_of_an_unknown_label_is_refused_before_it_runs():
    with pytest.raises(VoteError, match="marks 'ORG'"):
        apply(gazetteer("ORG", ["Ada"]), "Ada")


def test_a_function_that_fails_stops_or_abstains():
    @span_function
    def broken(document):
        return [(0, 3, document.missing)]

    documents = Documents.from_texts(["Ada"], ids=["m7"])
    with pytest.raises(LabelingFunctionError, match=r"document 'm7'.*AttributeError"):
        apply_span_lfs(broken, documents, labels=["PER"])
    log = FailureLog()
    votes = apply_span_lfs(broken, documents, labels=["PER"], on_error=log)
    assert (votes.votes.n_votes, log.counts) == (0, {"broken": 1})


def test_two_functions_of_one_name_are_refused():
    with pytest.raises(ParameterError, match="unique names; 'lf'"):
        apply([answering([]), answering([])], "Ada")


def test_documents_without_a_token_give_votes_without_an_item():
    votes = apply(gazetteer("PER", ["Ada"]), "", "  ")
    assert (votes.votes.n_items, votes.spans(votes.voters[0])) == (0, [[], []])


def test_links_vote_on_pairs_of_neighbors():
    documents = Documents.from_texts(["The New York Times"])
    votes = apply_span_lfs(
        gazetteer("LOC", ["New York"]),
        documents,
        labels=["LOC"],
        links=[
            pattern("together", r"New York Times", name="title"),
            pattern("O", r"The New", name="article"),
        ],
    )
    assert votes.links.dense().tolist() == [[-1, -1], [-1, 0], [1, -1], [1, -1]]


def test_together_is_a_label_if_the_documents_have_one_of_that_name():
    documents, rule = Documents.from_texts(["New York"]), pattern("together", r"New York")
    marked = apply_span_lfs(rule, documents, labels=["LOC", "together"])
    assert marked.spans(marked.voters[0])[0][0].label == "together"
    assert marked.links is None
    linked = apply_span_lfs([rule, gazetteer("LOC", ["New"])], documents, labels=["LOC"])
    assert (linked.votes.n_voters, linked.links.dense().tolist()) == (1, [[-1], [1]])
    with pytest.raises(ParameterError, match=r"No function marks 'LOC': all 1 only say"):
        apply_span_lfs(rule, documents, labels=["LOC"])


def test_silence_becomes_a_voter_for_outside():
    votes = apply(gazetteer("PER", ["Ada"]), "Ada won").with_silence()
    assert votes.votes.dense().tolist() == [[1, -1], [-1, 0]]
    assert votes.voters[-1] == "(nobody)"


def test_votes_must_be_on_the_tokens_of_the_documents():
    documents = Documents.from_texts(["Ada won"])
    one = VoteMatrix.from_dense([[0]], SpanLabels(("PER",)).tags)
    with pytest.raises(VoteError, match="on 1 items; the documents have 2 tokens"):
        TokenVotes(documents, one)


def test_selected_votes_are_those_of_the_documents():
    votes = apply(gazetteer("PER", ["Ada"]), "Ada won", "", "So Ada")
    chosen = votes.select([2])
    assert chosen.votes.dense()[:, 0].tolist() == [-1, 1]
    assert chosen.documents.texts == ("So Ada",)


def test_votes_and_functions_of_another_kind_are_refused_in_our_words():
    documents = Documents.from_texts(["Ada"])
    votes = apply_span_lfs(gazetteer("PER", ["Ada"]), documents, labels=["PER"])
    for read in (summarize, MajorityVote().fit):
        with pytest.raises(VoteError, match="HiddenMarkov"):
            read(votes)
    with pytest.raises(VoteError, match="needs TokenVotes"):
        HiddenMarkov().fit(votes.votes)
    with pytest.raises(ParameterError, match="apply_span_lfs"):
        apply_lfs([gazetteer("PER", ["Ada"])], [{"text": "Ada"}], labels=["PER", "LOC"])


def test_a_rules_file_switches_span_functions_off(tmp_path):
    rules, lfs = tmp_path / "rules.toml", tmp_path / "lfs.py"
    rule = '[[lf]]\nname = "a"\nkind = "regex"\nlabel = "PER"\npattern = "Ada"\ncolumn = "text"\n'
    lfs.write_text("from wiesel.spans import gazetteer\nb = gazetteer('PER', ['Bob'], name='b')\n")
    for off, left in (('["a"]', ["b"]), ('["b"]', ["a"])):
        rules.write_text(f"off = {off}\n{rule}")
        assert [each.name for each in load_span_lfs(rules, lfs)] == left
    for off, words in (('["c"]', "off names 'c'"), ('["a", "b"]', "All 2 labeling functions")):
        rules.write_text(f"off = {off}\n{rule}")
        with pytest.raises(LabelingFunctionError, match=words):
            load_span_lfs(rules, lfs)


@pytest.mark.parametrize(
    "line",
    [
        "from wiesel import labeling_function\n@labeling_function\ndef f(row): return 'PER'\n",
        "from wiesel.multilabel import multilabel_function as m\nf = m(lambda row: {'PER'})\n",
    ],
)
def test_a_function_of_another_kind_in_a_file_is_not_passed_over(line, tmp_path):
    file = tmp_path / "lfs.py"
    file.write_text(f"from wiesel.spans import gazetteer\nb = gazetteer('PER', ['Bob'])\n{line}")
    with pytest.raises(WieselError, match="span function"):
        load_span_lfs(file)


TWO = Documents.from_texts(["Ada met Bob", "Ada Byron slept"], ids=["x", "y"])


def test_spans_that_exist_already_are_votes():
    """The same votes as those of functions that return them; None abstains."""
    spans = {"ann": [[(0, 3, "PER"), (8, 11, "PER")], None], "ben": [[], [(0, 9, "PER")]]}
    by_id = {name: dict(zip(["x", "y"], own, strict=True)) for name, own in spans.items()}

    def of(name, **options):
        return span_function(name=name, **options)(lambda document: by_id[name][document.id])

    expected = apply_span_lfs([of("ann", exhaustive=True), of("ben")], TWO, labels=["PER"])
    found = TokenVotes.from_spans(TWO, spans, exhaustive=["ann"])
    assert found.voters == ("ann", "ben")
    assert found.labels == SpanLabels(("PER",))
    assert np.array_equal(found.votes.dense(), expected.votes.dense())
    assert found.votes.dense()[:, 0].tolist() == [1, 0, 1, -1, -1, -1]
    everybody = TokenVotes.from_spans(TWO, spans, exhaustive=True).votes.dense()
    assert everybody[:, 1].tolist() == [0, 0, 0, 1, 2, 0]


def test_spans_that_exist_already_can_be_links_and_of_documents_with_words():
    documents = Documents.from_words([["New", "York", "Times"]])
    span = documents[0].span(0, 3, "together")
    votes = TokenVotes.from_spans(
        documents, {"a": [[(0, 3, "ORG")]]}, labels=["PER", "ORG"], links={"phrases": [[span]]}
    )
    assert votes.labels == SpanLabels(("PER", "ORG"))
    assert votes.links.dense()[:, 0].tolist() == [-1, 1, 1]


@pytest.mark.parametrize(
    ("spans", "options", "words"),
    [
        ({"a": [[(0, 3, "PER")]]}, {}, "'a': spans are of 1 documents; there are 2"),
        ({"a": [[(0, 30, "PER")], []]}, {}, "'a': span is characters 0 to 30 of document 'x'"),
        ({"a": [[(0, 3, "PER")], []]}, {"labels": ["LOC"]}, "as 'PER'; the labels are 'LOC'"),
        ({"a": [[], None]}, {}, "The 1 voters mark no span with a label: give labels="),
        ({"a": [[(0, 3, "PER")], []]}, {"exhaustive": ["b"]}, "exhaustive voter 'b' has no spans"),
        ([[(0, 3, "PER")], []], {}, "are a dict, {voter: spans of each document}; got"),
    ],
)
def test_given_spans_that_are_no_votes_are_refused_by_name(spans, options, words):
    with pytest.raises(WieselError, match=words):
        TokenVotes.from_spans(TWO, spans, **options)


def test_majority_vote_in_one_call():
    spans = {
        "a": [[(0, 3, "PER")], [(0, 9, "PER")]],
        "b": [[(0, 3, "LOC")], [(0, 9, "PER")]],
        "c": [[(0, 3, "PER"), (8, 11, "LOC")], []],
    }
    found = TokenVotes.from_spans(TWO, spans).majority()
    assert [[span[:3] for span in own] for own in found] == [
        [(0, 3, "PER"), (8, 11, "LOC")],
        [(0, 9, "PER")],
    ]
    assert found[0][0].confidence == pytest.approx(2 / 3)
    assert TokenVotes.from_spans(TWO, {"a": [[], []]}, labels=["PER"]).majority() == [[], []]


def test_outside_builds_votes_against_spans():
    votes = apply(
        [
            gazetteer("PER", ["Ada"]),
            outside(["The", "met"]),
            outside(regex=r"[^\w\s]+", name="dots"),
        ],
        "the Ada met Bob .",
    )
    assert votes.votes.dense().T.tolist() == [
        [-1, 1, -1, -1, -1],
        [0, -1, 0, -1, -1],
        [-1, -1, -1, -1, 0],
    ]
    assert [tuple(span[:3]) for span in outside(["met"])("Ada met")] == [(4, 7, "O")]
    for wrong in ({}, {"words": ["a"], "regex": "b"}):
        with pytest.raises(ParameterError, match="outside takes a list of words or a regex"):
            outside(**wrong)


def test_voters_that_mark_nothing_are_named():
    spans = {"a": [[(0, 3, "PER")], []], "b": [[], []], "c": [None, None]}
    votes = TokenVotes.from_spans(TWO, spans)
    with pytest.warns(WieselWarning, match="2 of 3 voters cast no vote: 'b', 'c'"):
        HiddenMarkov().fit(votes)
