"""Graded answers: the probabilities of tokens, samples, ratings and stated confidence."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chat_server import ModelServer, model_server, spam_or_ham
from wiesel import MajorityVote, apply_lfs, prompt
from wiesel.errors import LabelingFunctionError, ParameterError
from wiesel.lfs import ChatClient, FailureLog
from wiesel.lfs.answer_reading import Unreadable
from wiesel.lfs.grades import read_grade
from wiesel.lfs.prompt_rules import Prompt
from wiesel.lfs.rules_file import trusted_rule
from wiesel.lfs.sending import Completion

LABELS = ["ham", "spam"]
ROWS = [{"text": "a prize"}, {"text": "see you"}]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(spam_or_ham) as running:
        yield running


@pytest.fixture
def client(server: ModelServer, tmp_path: Path) -> ChatClient:
    cache = str(tmp_path / "answers.sqlite")
    return ChatClient(server.url, "tiny", backoff=0.001, retries=1, cache=cache, temperature=1.0)


def distribution(lf: Prompt, labels: list[str] = LABELS) -> np.ndarray:
    votes = apply_lfs(lf, ROWS, labels=labels)
    assert votes.distribution is not None
    return votes.distribution


def tokens(*spelled: tuple[str, dict[str, float]]) -> Completion:
    """A completion of these tokens, each with the probabilities of its alternatives."""
    own = tuple((t, tuple((a, math.log(p)) for a, p in others.items())) for t, others in spelled)
    return Completion(("".join(t for t, _ in spelled),), tokens=own)


def choice(text: str, *spelled: tuple[str, dict[str, float]]) -> dict[str, Any]:
    content = [
        {
            "token": token,
            "logprob": math.log(others[token]),
            "top_logprobs": [{"token": t, "logprob": math.log(p)} for t, p in others.items()],
        }
        for token, others in spelled
    ]
    return {
        "message": {"content": text},
        "finish_reason": "stop",
        "logprobs": {"content": content},
    }


def test_probabilities_of_the_tokens_are_the_vote(client: ChatClient, server: ModelServer) -> None:
    server.answer = lambda _: choice("yes", ("yes", {"yes": 0.6, "Yes": 0.2, "no": 0.1, "a": 0.1}))
    lf = prompt("spam", "{text}", client=client, grade="logprobs")
    assert distribution(lf)[0] == pytest.approx([1 / 9, 8 / 9], abs=1e-6)
    assert server.requests[0]["logprobs"] is True
    assert server.requests[0]["top_logprobs"] == 20


def test_classes_part_where_their_spelling_does() -> None:
    json_answer = tokens(
        ('{"answer": "', {'{"answer": "': 1.0}),
        ("very", {"very": 0.7, "neg": 0.2, "pos": 0.1}),
        (" pos", {" pos": 0.6, " neg": 0.4}),
        ("itive", {"itive": 1.0}),
        ('"}', {'"}': 1.0}),
    )
    names = ["very negative", "negative", "positive", "very positive"]
    assert read_grade(json_answer, names, "logprobs") == pytest.approx(
        {"very negative": 0.28, "negative": 0.2, "positive": 0.1, "very positive": 0.42}
    )
    number = tokens(("1", {"1": 0.9, "2": 0.1}), ("\n", {"\n": 0.75, "0": 0.25}))
    assert read_grade(number, ["1", "2", "10"], "logprobs") == pytest.approx(
        {"1": 0.675, "2": 0.1, "10": 0.225}
    )


def test_thoughts_before_the_answer_do_not_count() -> None:
    answer = tokens(
        ("<think>", {"<think>": 1.0}),
        ("spam", {"spam": 0.5, "ham": 0.5}),
        ("</think>", {"</think>": 1.0}),
        ("spam", {"spam": 0.8, "ham": 0.2}),
    )
    assert read_grade(answer, LABELS, "logprobs") == pytest.approx({"ham": 0.2, "spam": 0.8})


def test_a_server_without_probabilities_is_reported(
    client: ChatClient, server: ModelServer
) -> None:
    log = FailureLog()
    server.refuses = {"logprobs": "logprobs is not supported"}
    lf = prompt("spam", "{text}", client=client, grade="logprobs", name="ask")
    server.answer = lambda _: "yes"
    assert apply_lfs(lf, ROWS, labels=LABELS, on_error=log).n_votes == 0
    assert "use grade='samples' or 'rating'" in str(log)


@pytest.mark.parametrize("takes_n", [True, False])
def test_shares_of_several_answers_are_the_vote(
    client: ChatClient, server: ModelServer, takes_n: bool
) -> None:
    said = iter(["spam", "ham", "not spam", "spam", "spam"] * 2)
    server.answer = lambda _: [next(said) for _ in range(5)] if takes_n else next(said)
    if not takes_n:
        server.refuses = {"n": "n is not supported"}
    lf = prompt(LABELS, "{text}", client=client, grade="samples", samples=5)
    assert apply_lfs(lf, ROWS[:1], labels=LABELS).distribution == pytest.approx(
        np.array([[0.25, 0.75]])
    )
    sent = [request for request in server.requests if takes_n or "n" not in request]
    assert len(sent) == (1 if takes_n else 5)


def test_samples_need_a_temperature() -> None:
    client = ChatClient("http://127.0.0.1:9/v1", "tiny")
    with pytest.raises(ParameterError, match=r"temperature=1.0"):
        prompt(LABELS, "{text}", client=client, grade="samples")
    with pytest.raises(ParameterError, match="grade is one of 'logprobs'"):
        prompt(LABELS, "{text}", client=client, grade="guess")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "rating"),
    [("7", 7), ('{"rating": 7}', 7), ("Rating: 7", 7), ("7/9", 7), ("7 out of 9", 7), ("0", 0)],
)
def test_a_rating_is_a_probability(answer: str, rating: int) -> None:
    assert read_grade(Completion((answer,)), ["spam"], "rating") == {"spam": (rating + 0.5) / 10}


@pytest.mark.parametrize("answer", ["", "10", "7 or 8", "8/10", "yes", "-3", "70%", "I can't."])
def test_what_is_no_single_rating_is_no_vote(answer: str) -> None:
    with pytest.raises(Unreadable):
        read_grade(Completion((answer,)), ["spam"], "rating")


def test_each_class_has_a_rating(client: ChatClient, server: ModelServer) -> None:
    server.answer = lambda _: json.dumps({"ham": 2, "spam": 7})
    lf = prompt(LABELS, "{text}", client=client, grade="rating")
    # (.25 / .75) and (.75 / .25) as odds
    assert distribution(lf)[0] == pytest.approx([0.1, 0.9])
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == LABELS
    for answer in ("ham: 2, spam: 7", "ham - 2\nspam - 7", "**ham**: 2\n**spam**: 7"):
        found = read_grade(Completion((answer,)), LABELS, "rating")
        assert found == pytest.approx({"ham": 0.1, "spam": 0.9})
    with pytest.raises(Unreadable, match="no rating from 0 to 9 of 'ham'"):
        read_grade(Completion(('{"spam": 3}',)), LABELS, "rating")


@pytest.mark.parametrize(
    ("answer", "proba"),
    [
        ('{"answer": "spam", "confidence": 80}', {"ham": 0.2, "spam": 0.8}),
        ('{"answer": "spam", "confidence": 0.8}', {"ham": 0.2, "spam": 0.8}),
        ("spam (confidence: 80%)", {"ham": 0.2, "spam": 0.8}),
        ("spam - 80%", {"ham": 0.2, "spam": 0.8}),
        ('{"answer": "spam", "confidence": 20}', {"ham": 0.5, "spam": 0.5}),
        ('{"answer": "abstain", "confidence": 20}', None),
    ],
)
def test_a_stated_confidence_is_the_vote(answer: str, proba: dict[str, float] | None) -> None:
    found = read_grade(Completion((answer,)), LABELS, "confidence")
    assert found == (None if proba is None else pytest.approx(proba))


def test_no_of_one_class_is_a_vote_for_the_others(client: ChatClient, server: ModelServer) -> None:
    server.answer = lambda _: json.dumps({"answer": "no", "confidence": 90})
    lf = prompt("spam", "{text}", client=client, grade="confidence")
    assert distribution(lf, ["ham", "spam", "other"])[0] == pytest.approx([0.45, 0.1, 0.45])


def test_grades_are_used_by_label_models_and_kept_in_rules(
    client: ChatClient, server: ModelServer
) -> None:
    server.answer = lambda q: "8" if "prize" in q else "4"
    lf = prompt("spam", "{text}", client=client, grade="rating", name="ask")
    assert trusted_rule(json.loads(json.dumps(lf.to_dict()))).grade == "rating"
    votes = apply_lfs(lf, ROWS, labels=LABELS)
    assert MajorityVote().fit(votes).predict_proba(votes)[:, 1] == pytest.approx([0.85, 0.45])
    assert lf(ROWS[0]) == {"spam": 0.85}
    server.broken = [(403, {})]
    with pytest.raises(LabelingFunctionError, match="failed"):
        lf({"text": "another"})
