"""Requests to chat endpoints: constrained answers, replies of all kinds, refused parts, waits."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chat_server import ModelServer, model_server, spam_or_ham
from wiesel import apply_lfs, prompt
from wiesel.errors import LabelingFunctionError, ParameterError
from wiesel.lfs import ChatClient, FailureLog
from wiesel.lfs.sending import ChatError, Completion, Pace, Question, answer_schema, retry_after

LABELS = ["ham", "spam"]
ROWS = [{"text": "a prize"}, {"text": "see you"}]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(spam_or_ham) as running:
        yield running


@pytest.fixture
def client(server: ModelServer, tmp_path: Path) -> ChatClient:
    cache = str(tmp_path / "answers.sqlite")
    return ChatClient(server.url, "tiny", backoff=0.001, retries=2, cache=cache, timeout=3600)


def votes_of(client: ChatClient, **options: object) -> list[int]:
    lf = prompt(LABELS, "{text}", client=client, name="ask")
    return apply_lfs(lf, ROWS, labels=LABELS, **options).dense().ravel().tolist()


def test_the_server_is_asked_for_one_of_the_classes(
    client: ChatClient, server: ModelServer
) -> None:
    server.answer = lambda question: json.dumps({"answer": spam_or_ham(question)})
    assert votes_of(client) == [1, 0]
    form = server.requests[0]["response_format"]
    assert form["type"] == "json_schema"
    answer = form["json_schema"]["schema"]["properties"]["answer"]
    assert answer == {"type": "string", "enum": ["ham", "spam", "abstain"]}
    prompt("spam", "{text}", client=client)(ROWS[0])
    schema = server.requests[-1]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"]["enum"] == ["yes", "no"]
    votes_of(replace(client, constrained=False))
    assert "response_format" not in server.requests[-1]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("response_format", "Unknown parameter: 'response_format'."),
        ("response_format", "Invalid request."),
        ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        ("temperature", "'temperature' does not support 0.0 with this model."),
    ],
)
def test_what_a_server_refuses_is_left_out_and_remembered(
    client: ChatClient, server: ModelServer, part: str, said: str
) -> None:
    server.refuses = {part: said}
    one_by_one = replace(client, concurrency=1)
    assert votes_of(one_by_one) == [1, 0]
    assert [part in request for request in server.requests] == [True, False, False]
    if part == "max_tokens":
        assert server.requests[-1]["max_completion_tokens"] == 32
    stored = one_by_one.ask("a new question")
    assert stored.left_out == (part,)


def test_another_bad_request_is_reported_as_it_is(client: ChatClient, server: ModelServer) -> None:
    question = Question("see you", answer_schema(LABELS))
    server.refuses = {"messages": "The context is too long."}
    with pytest.raises(ChatError, match=r"HTTP 400.*context is too long"):
        client.ask(question)
    server.refuses = {}
    assert client.ask(question).left_out == ()


def test_streams_are_read(client: ChatClient, server: ModelServer) -> None:
    server.streams = True
    assert votes_of(client) == [1, 0]
    assert client.ask("see you").tokens_in == 2
    server.reply = b'data: {"choices": [{"index": 0, "delta": {"content": "spa"}}]}\n\n'
    with pytest.raises(LabelingFunctionError, match="not a chat completion"):
        votes_of(replace(client, cache=None))


def test_refusals_and_cut_off_answers_abstain_and_are_counted(
    client: ChatClient, server: ModelServer
) -> None:
    choices = {
        "1": {"message": {"content": None, "refusal": "I won't."}, "finish_reason": "stop"},
        "2": {"message": {"content": "<think>Is it spam"}, "finish_reason": "length"},
        "3": {"message": {"content": "It looks like spam"}, "finish_reason": "length"},
        "4": {"message": {"content": ""}, "finish_reason": "content_filter"},
        "5": {"message": {"content": "This is not spam."}, "finish_reason": "stop"},
        "6": {"message": {"content": [{"type": "text", "text": "spam"}]}, "finish_reason": "stop"},
    }
    server.answer = lambda question: choices[question[0]]
    log = FailureLog()
    lf = prompt(LABELS, "{n}", client=client, name="ask")
    rows = [{"n": number} for number in choices]
    votes = apply_lfs(lf, rows, labels=LABELS, on_error=log)
    assert votes.dense().ravel().tolist() == [-1, -1, -1, -1, -1, 1]
    assert log.kinds == {"ask": {"refusal": 2, "unfinished": 2, "negation": 1}}
    assert "1 negation" in str(log)


def test_answers_are_cached_with_all_that_came_with_them(
    client: ChatClient, server: ModelServer
) -> None:
    pair = {"token": "spam", "logprob": -0.1, "top_logprobs": [{"token": "spam", "logprob": -0.1}]}
    choice = {
        "message": {"content": "spam"},
        "finish_reason": "length",
        "logprobs": {"content": [pair]},
    }
    server.answer = lambda _: choice
    ((_, first),) = client.ask_all(["a b c"])
    ((_, again),) = client.ask_all(["a b c"])
    assert len(server.requests) == 1
    assert first == again
    assert isinstance(again, Completion)
    assert again == Completion(
        ("spam",), (True,), False, (("spam", (("spam", -0.1),)),), 3, 1, "tiny-2026", ()
    )


def test_a_server_that_echoes_the_key_does_not_get_it_written(
    client: ChatClient, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret")
    server.answer = lambda _: "spam a-secret"
    assert "a-secret" not in client.ask("x").text
    server.refuses = {"messages": "The key a-secret is wrong."}
    with pytest.raises(LabelingFunctionError) as caught:
        votes_of(client)
    assert "The key [the key] is wrong." in str(caught.value)
    assert "a-secret" not in str(caught.value.__cause__)


def test_a_limit_without_a_time_is_waited_for_with_patience(
    client: ChatClient, server: ModelServer
) -> None:
    """More complaints than retries: they are not faults."""
    server.broken = [(429, {})] * 9
    assert votes_of(replace(client, backoff=1e-6)) == [1, 0]
    server.broken = [(429, {"Retry-After": "3600"})]
    impatient = replace(client, cache=None, concurrency=1)
    with pytest.raises(LabelingFunctionError, match=r"after 3,600 more seconds.*patience = 600"):
        votes_of(impatient)
    assert votes_of(impatient) == [1, 0], "who gives up does not make others wait"


def test_an_empty_account_is_no_limit(client: ChatClient, server: ModelServer) -> None:
    server.answer = lambda _: "ham"
    server.refuses = {"messages": "insufficient_quota"}
    server.broken = [(429, {})]
    with pytest.raises(LabelingFunctionError, match=r"tried once.*insufficient_quota"):
        votes_of(replace(client, concurrency=1))


def test_a_crowded_server_answers_all_with_fewer_requests_at_once(
    client: ChatClient, server: ModelServer
) -> None:
    server.most_allowed = 2
    crowded = replace(client, concurrency=16, backoff=1e-4)
    answers = list(crowded.ask_all([f"prize {number}" for number in range(200)]))
    assert {answer.text for _, answer in answers if isinstance(answer, Completion)} == {"spam"}
    assert len(answers) == 200


def test_complaints_halve_the_requests_and_answers_raise_them() -> None:
    pace = Pace(8)
    passes = [pace.enter() for _ in range(8)]
    for entered in passes[:3]:
        pace.leave(entered, limited=True)
    assert pace.allowed == 4  # three complaints about one crowd are one complaint
    for entered in passes[3:]:
        pace.leave(entered)
    assert 5 < pace.allowed < 5.3  # 5 answers at 4 to 5 at once
    for _ in range(100):
        pace.leave(pace.enter())
    assert pace.allowed == 8
    for _ in range(9):
        pace.leave(pace.enter(), limited=True)
    assert pace.allowed == 1


def test_no_request_enters_before_the_time_the_server_asked_for() -> None:
    pace = Pace(2)
    pace.leave(pace.enter(), limited=True, wait=3600)
    stopped = threading.Event()
    entered = threading.Thread(target=pace.enter, args=(stopped,))
    entered.start()
    assert pace.under_way == 0
    stopped.set()
    entered.join()


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.25"}, 0.25),
        ({"retry-after-ms": "250"}, 0.25),
        ({"Retry-After": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "\u00b2"}, None),
        ({"Retry-After": "Thu, 99 Foo 99999 00:00:01 GMT"}, None),
        ({}, None),
    ],
)
def test_the_time_to_wait_is_read(headers: dict[str, str], wait: float | None) -> None:
    assert retry_after(headers, now=10.0) == wait


def test_patience_is_checked() -> None:
    with pytest.raises(ParameterError, match="patience"):
        ChatClient("http://127.0.0.1:9/v1", "tiny", patience=-1)
