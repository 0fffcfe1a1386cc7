"""Prompts as files: filled, versioned, changed by users; for labels, spans and rules, too."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from chat_server import ModelServer, model_server
from wiesel import apply_lfs
from wiesel.errors import DataError, LabelingFunctionError, ParameterError, WieselWarning
from wiesel.guidance import rules_from_model
from wiesel.lfs import ChatClient, FailureLog, PromptFile, load_lfs, prompt_from_file, spending
from wiesel.lfs.costs import prompt_records
from wiesel.multilabel import apply_multilabel_lfs, prompt_labels
from wiesel.spans import Documents, apply_span_lfs, prompt_spans
from wiesel.spans.tags import SpanLabels

LABELS = ["ham", "spam"]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(lambda question: "ham") as running:
        yield running


@pytest.fixture
def client(server: ModelServer, tmp_path: Path) -> ChatClient:
    return ChatClient(server.url, "tiny", cache=str(tmp_path / "a.sqlite"), retries=0)


def test_every_prompt_has_a_version_a_purpose_and_known_names() -> None:
    names = PromptFile.names()
    assert {"classify", "classify_examples", "yes_no", "labels", "spans", "write_rules"} == set(
        names
    )
    for name in names:
        found = PromptFile.read(name)
        assert found.version >= 1
        assert found.purpose.endswith(".")
        assert "follow instructions" in found.text or found.kind == "rules"


def test_a_prompt_is_filled_and_asked(client: ChatClient, server: ModelServer) -> None:
    lf = prompt_from_file(
        "classify_examples",
        LABELS,
        client=client,
        task="Is it spam? {really}",
        meanings={"spam": "costs $5"},
        examples=[("Win {now}!", "spam"), ("see you", "ham")],
        column="mail",
    )
    assert apply_lfs(lf, [{"mail": "a {brace} and $text"}], labels=LABELS).n_votes == 1
    asked = server.requests[0]["messages"][0]["content"]
    assert asked.startswith("Is it spam? {really}\n")
    assert "- ham\n- spam: costs $5\n" in asked
    assert "Text: Win {now}!\nClass: spam\n\nText: see you\nClass: ham" in asked
    assert "-----\na {brace} and $text\n-----" in asked
    assert prompt_records(lf, [{"mail": "x"}])["prompt_ham_spam"]["prompt_file"] == (
        "classify_examples 1"
    )


def test_a_changed_copy_is_used_from_a_rules_file(
    server: ModelServer, client: ChatClient, tmp_path: Path
) -> None:
    own = PromptFile.read("classify").source.replace("version = 1", "version = 7")
    (tmp_path / "mine.toml").write_text(own.replace("Which class fits best?", "Well?"))
    (tmp_path / "rules.toml").write_text(
        'labels = ["ham", "spam"]\n[[lf]]\nkind = "prompt"\nlabels = ["ham", "spam"]\n'
        'prompt_file = "mine.toml"\ntask = "Mails."\nmeanings = { spam = "an ad" }\n'
        f'client = {{ url = "{server.url}", model = "tiny", cache = "a.sqlite" }}\n'
    )
    (lf,) = load_lfs(tmp_path / "rules.toml")
    question = lf.question({"text": "hi"})
    assert question.startswith("Mails.\n")
    assert "- spam: an ad" in question
    assert "Well?" in question
    assert lf.made_of == "mine 7"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ('prompt_file = "classfy"', "no prompt 'classfy'. Did you mean 'classify'"),
        ('prompt_file = "../../etc/x.toml"', "is outside"),
        ('prompt_file = "labels"', "kind 'labels'; needed is 'classify'"),
        ('prompt_file = "classify"\ntemplate = "{text}"', "has no template"),
        ('prompt_file = "classify"\nexamples = ["x"]', "examples a list such as"),
        ('prompt_file = "classify"\nmeanings = { spma = "x" }', "'spma' is none of the classes"),
        ('prompt_file = "classify_examples"', "give examples="),
        ('prompt_file = "classify"\nexamples = [["x", "ham"]]', "no place for examples"),
        ('prompt_file = "classify"\ncolumn = "a.b"', "name of a column"),
    ],
)
def test_a_prompt_file_that_cannot_be_used_is_refused(
    tmp_path: Path, options: str, words: str
) -> None:
    (tmp_path / "rules.toml").write_text(
        f'[[lf]]\nkind = "prompt"\nlabels = ["ham", "spam"]\n{options}\n'
        'client = { url = "http://127.0.0.1:9/v1", model = "tiny" }\n'
    )
    with pytest.raises(LabelingFunctionError, match=words):
        load_lfs(tmp_path / "rules.toml")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('version = 1\nkind = "classify"\ntext = "no row"', "contains \\$text"),
        ('version = 0\nkind = "classify"\ntext = "$text"', "version"),
        ('version = 1\nkind = "other"\ntext = "$text"', "kind is one of"),
        ('version = 1\nkind = "classify"\ntext = "$text $row"', r"names '\$row'"),
        ('version = 1\nkind = "classify"\ntext = "$text costs $5"', r"A dollar sign is \$\$"),
        ('version = 1\nkind = "classify"\ntxet = "$text"', "no entry 'txet'"),
        ("[", "not TOML"),
    ],
)
def test_a_broken_prompt_file_is_refused(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "p.toml").write_text(content)
    with pytest.raises((DataError, ParameterError), match=words):
        PromptFile.read(tmp_path / "p.toml")


def test_one_question_asks_for_all_labels(client: ChatClient, server: ModelServer) -> None:
    answers = {
        "goal": '{"labels": ["sports", "Money"]}',
        "quiet": 'None fit: {"labels": []}',
        "odd": '{"labels": ["art"]}',
    }
    server.answer = lambda q: next(said for word, said in answers.items() if word in q)
    topics = prompt_labels(["sports", "money"], client=client, name="topics")
    rows = [{"text": "goal"}, {"text": "quiet"}, {"text": "odd"}, {"text": None}]
    log = FailureLog()
    with spending() as spent:
        votes = apply_multilabel_lfs([topics], rows, labels=["sports", "money"], on_error=log)
    assert votes["sports"].dense().ravel().tolist() == [1, 0, -1, -1]
    assert votes["money"].dense().ravel().tolist() == [1, 0, -1, -1]
    assert "has the label 'art'" in str(log)
    assert len(server.requests) == spent.requests == 3
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["labels"]["items"]["enum"] == ["sports", "money"]


def test_spans_are_quoted_and_found(client: ChatClient, server: ModelServer) -> None:
    answers = {
        "Brown": '{"spans": [{"text": "Mr  Brown", "label": "PER"}]}',
        "nobody": '{"spans": []}',
        "Green": '{"spans": [{"text": "Mrs White", "label": "PER"}]}',
    }
    server.answer = lambda q: next(said for word, said in answers.items() if word in q)
    people = prompt_spans("PER", client=client, name="llm", meanings={"PER": "a person"})
    texts = ["Ask Mr Brown: Mr Brown knows.", "nobody here", "Ask Green"]
    answered = people.run(Documents.from_texts(texts), SpanLabels(("PER",)))
    spans = Documents.from_texts(texts).spans_of_runs(answered.runs, SpanLabels(("PER",)))
    assert [(span.start, span.end) for span in spans[0]] == [(4, 12), (14, 22)]
    assert answered.answered is not None
    assert answered.answered.tolist() == [True, True, False]
    (failure,) = answered.failures
    assert "'Mrs White', which is not in the text" in failure.reason
    with pytest.warns(WieselWarning, match="Mrs White"):
        votes = apply_span_lfs([people], Documents.from_texts(texts), labels=["PER"])
    assert [len(own) for own in votes.spans("llm")] == [2, 0, 0]


@pytest.mark.parametrize(
    ("quote", "places"),
    [("US", [(0, 2)]), ("us", [(9, 11)]), ("Us", [(0, 2), (9, 11)]), ("tell", [])],
)
def test_a_quote_in_other_letters_counts_where_the_exact_one_is_missing(
    client: ChatClient, server: ModelServer, quote: str, places: list[tuple[int, int]]
) -> None:
    server.answer = lambda _: json.dumps({"spans": [{"text": quote, "label": "ORG"}]})
    documents, labels = Documents.from_texts(["US tells us"]), SpanLabels(("ORG",))
    runs = prompt_spans("ORG", client=client).run(documents, labels).runs
    (spans,) = documents.spans_of_runs(runs, labels)
    assert [(span.start, span.end) for span in spans] == places


def test_rules_of_a_model_are_checked_on_the_rows(client: ChatClient, server: ModelServer) -> None:
    rules = [
        {"kind": "keywords", "label": "spam", "keywords": ["prize", "cash"]},
        {"kind": "regex", "label": "ham", "pattern": "see you|lunch"},
        {"kind": "regex", "label": "ham", "pattern": "prize"},
        {"kind": "keywords", "label": "spam", "keywords": ["viagra"]},
        {"kind": "regex", "label": "spam", "pattern": "("},
        {"kind": "keywords", "label": "eggs", "keywords": ["prize"]},
        {"kind": "prompt", "label": "spam"},
        "spam",
    ]
    server.answer = lambda _: f"Here they are:\n```json\n{json.dumps({'rules': rules})}\n```"
    texts = ["win a prize", "cash prize now", "see you", "lunch at noon", "free cash", "see you"]
    rows = [{"text": text} for text in texts * 3]
    gold = (["spam", "spam", "ham", "ham", "spam", "ham"] + [None] * 12)[:18]
    with pytest.warns(WieselWarning, match="5 proposed rules were left out"):
        found = rules_from_model(rows, client, labels=LABELS, gold=gold, task="Spam?")
    assert [each.lf.label for each in found] == ["spam", "ham", "ham"]
    assert found[0].coverage == 0.5
    assert (found[0].support, found[0].correct) == (3, 3)
    assert found[0].precision > 0.6 > 0.4 > found[2].precision
    asked = server.requests[0]["messages"][0]["content"]
    assert asked.startswith("Spam?\n")
    assert "- win a prize\n" in asked


def test_rules_without_any_evidence_have_no_precision(
    client: ChatClient, server: ModelServer
) -> None:
    server.answer = lambda _: '[{"kind": "keywords", "label": "spam", "keywords": ["prize"]}]'
    (found,) = rules_from_model([{"text": "a prize"}, {"text": "b"}], client, labels=LABELS)
    assert found.precision != found.precision  # unknown
    server.answer = lambda _: "I'm sorry, but I can't help with that."
    with pytest.raises(LabelingFunctionError, match="is a refusal"):
        rules_from_model([{"text": "another prize"}], client, labels=LABELS)


@pytest.mark.parametrize("labels", [[], [""], ["PER", 3]])
def test_prompts_for_spans_need_names_of_labels(labels):
    with pytest.raises(ParameterError, match="a label or a list of labels"):
        prompt_spans(labels, client=ChatClient("http://127.0.0.1:1/v1", "llama-3", max_tokens=9))
