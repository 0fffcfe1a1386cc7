"""What prompts cost: estimates, a budget that stops and resumes, batch files, progress."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chat_server import ModelServer, model_server, spam_or_ham
from wiesel import apply_lfs, keywords, prompt
from wiesel.errors import DataError, LabelingFunctionError, ParameterError
from wiesel.lfs import (
    ChatClient,
    FailureLog,
    PriceTable,
    estimate_cost,
    read_batch_answers,
    spending,
    write_batch_requests,
)
from wiesel.lfs.prompt_rules import Prompt
from wiesel.lfs.sending import Completion, Question
from wiesel.lfs.spending import Budget, BudgetReached, Price, Spending, count_tokens
from wiesel.progress import listening

LABELS = ["ham", "spam"]
ROWS = [{"text": f"prize {number}"} for number in range(10)]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(spam_or_ham) as running:
        yield running


@pytest.fixture
def ask(server: ModelServer, tmp_path: Path) -> Prompt:
    cache = str(tmp_path / "answers.sqlite")
    client = ChatClient(server.url, "tiny", backoff=0.001, cache=cache, concurrency=2)
    return prompt(LABELS, "{text}", client=client, name="ask")


def votes_of(ask: Prompt, **options: object) -> list[int]:
    return apply_lfs(ask, ROWS, labels=LABELS, **options).dense().ravel().tolist()


def test_a_dry_run_sends_nothing_and_counts_what_is_open(ask: Prompt, server: ModelServer) -> None:
    prices = PriceTable({"tiny": Price(1000, 5000)})
    rows = [*ROWS, ROWS[0], {"text": None}]
    (own,) = estimate_cost(
        [ask, keywords("ham", ["x"], column="text")], rows, prices=prices
    ).prompts
    assert not server.requests
    assert (own.rows, own.requests, own.cached) == (11, 10, 0)
    assert own.counted == "estimated"
    assert own.tokens_out == 320  # 10 answers of at most 32 tokens
    assert own.cost == pytest.approx((own.tokens_in * 1000 + 320 * 5000) / 1e6)
    apply_lfs(ask, ROWS[:6], labels=LABELS)
    (own,) = estimate_cost(ask, rows, prices=prices).prompts
    assert (own.requests, own.cached) == (4, 6)
    # The server says: 12 words in each question, and one token in each answer.
    asked = server.requests[0]["messages"][0]["content"].split()
    assert own.tokens_in == pytest.approx(4 * len(asked), abs=1)
    assert own.tokens_out == 4
    assert own.counted == "estimated, corrected by 6 answers"
    assert own.at_most is not None
    assert own.cost is not None
    assert own.at_most > own.cost


def test_an_unknown_price_says_what_to_write_where(ask: Prompt) -> None:
    elsewhere = replace(ask, client=ChatClient("https://models.example/v1", "big-9", cache=None))
    estimate = estimate_cost(elsewhere, ROWS, prices=PriceTable())
    assert estimate.cost is None
    assert "price unknown" in str(estimate)
    assert '[models."big-9"]\ninput = ' in str(estimate)
    assert estimate_cost(ask, ROWS, prices=PriceTable()).cost == 0  # on this machine


def test_a_price_table_is_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = ChatClient("https://models.example/v1", "gpt-4o-mini", cache=None)
    file = tmp_path / "prices.toml"
    file.write_text(
        'currency = "€"\n[models."gpt-4o*"]\ninput = 2.5\noutput = 10\n'
        '[models."gpt-4o-m*"]\ninput = 0.15\noutput = 0.6\nbatch = 0.4\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WIESEL_PRICES", raising=False)
    table = PriceTable.read()
    assert table.of(client) == Price(0.15, 0.6, 0.4)
    assert table.of(replace(client, model="gpt-4o")) == Price(2.5, 10)
    assert table.of(replace(client, model="other")) is None
    assert table.amount(1234.5) == "€1,234.50"
    assert table.amount(0.00012) == "€0.00012"
    for text, words in (
        ("models = 3", "each model is a table"),
        ("[models.m]\ninput = 1\noutptu = 2", "no option 'outptu'"),
        ("[models.m]\ninput = -1\noutput = 2", "input"),
        ("price = 3", "no entry 'price'"),
        ("[", "not TOML"),
    ):
        file.write_text(text)
        with pytest.raises(DataError, match=words):
            PriceTable.read(file)


def test_a_tokenizer_counts_where_the_table_names_one(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    own = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    own.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    own.save(str(tmp_path / "tokenizer.json"))
    assert count_tokens("a b a a", str(tmp_path / "tokenizer.json")) == 4 + 8
    with pytest.raises(DataError, match="no tokenizer"):
        count_tokens("a", str(tmp_path / "none.json"))


@pytest.mark.parametrize("unit", ["requests", "tokens", "money"])
def test_a_budget_stops_cleanly_and_the_same_call_resumes(
    ask: Prompt, server: ModelServer, unit: str
) -> None:
    asked = ask.question(ROWS[0])
    limit = {
        "requests": "4 requests",
        # An answer uses the words of the question and one token; 32 are set aside for each.
        "tokens": f"{4 * (len(asked.split()) + 1) + count_tokens(asked) + 100} tokens",
        "money": "0.40",
    }[unit]
    prices = PriceTable({"tiny": Price(1000, 7000)})
    with (
        pytest.raises(LabelingFunctionError, match=r"'ask' stopped: the budget is spent") as caught,
        spending(limit, prices) as spent,
    ):
        votes_of(ask)
    paid = len(server.requests)
    assert 0 < paid < 10
    assert spent.requests == paid
    assert f"{paid} of 10 rows have answers" in str(caught.value)
    assert str(ask.client.cache) in str(caught.value)
    if unit == "money":
        assert 0 < spent.cost <= 0.4
    with spending("20 requests", prices) as spent:
        assert votes_of(ask) == [1] * 10
    assert len(server.requests) == 10
    assert (spent.requests, spent.cached) == (10 - paid, paid)


def test_rounding_leaves_nothing_set_aside(ask: Prompt) -> None:
    """Amounts such as .1 + .2 + .3 - .1 - .2 - .3 are not 0, and a thread would wait for ever."""
    spent = Spending(Budget(1.0), PriceTable({"tiny": Price(1 / 3, 1 / 7)}))
    never, answer = threading.Event(), Completion(("ham",), tokens_in=0, tokens_out=0)
    questions = [Question("a" * length) for length in range(3, 200, 7)]
    reserved = [spent.reserve(ask.client, question, never) for question in questions]
    for amount, question in zip(reserved, questions, strict=True):
        spent.settle(amount, ask.client, question, answer)
    assert spent._reserved == 0
    with pytest.raises(BudgetReached):
        spent.reserve(ask.client, Question("a" * 20_000_000), never)


def test_many_threads_stop_at_an_odd_budget(ask: Prompt, server: ModelServer) -> None:
    rows = [{"text": f"prize {'x' * (number % 13)} {number}"} for number in range(120)]
    many = replace(ask, client=replace(ask.client, concurrency=8))
    prices = PriceTable({"tiny": Price(100 / 3, 100 / 7)})
    with pytest.raises(LabelingFunctionError, match="budget is spent"), spending(0.02, prices):
        apply_lfs(many, rows, labels=LABELS)
    assert 0 < len(server.requests) < 120


def test_with_abstain_the_rest_abstains(ask: Prompt) -> None:
    log = FailureLog()
    with spending("3 requests"):
        votes = votes_of(ask, on_error=log)
    assert sorted(votes) == [-1] * 7 + [1] * 3
    assert "budget is spent" in str(log)


def test_a_budget_that_cannot_be_kept_is_refused(ask: Prompt, server: ModelServer) -> None:
    with (
        spending("1.00", PriceTable()),
        pytest.raises(ParameterError, match=r"needs a cache"),
    ):
        votes_of(replace(ask, client=replace(ask.client, cache=None)))
    elsewhere = replace(ask.client, url="http://models.example/v1")
    with (
        spending("1.00", PriceTable()),
        pytest.raises(ParameterError, match=r"price of 'tiny' is unknown.*500 requests"),
    ):
        votes_of(replace(ask, client=elsewhere))
    for given in ("much", "-1", "1 week", ""):
        with pytest.raises(ParameterError, match="budget is an amount"):
            Budget.of(given)
    assert Budget.of("$2.5") == Budget.of(2.5) == Budget(2.5, "money")
    assert not server.requests


def test_progress_has_requests_tokens_cost_time_and_retries(
    ask: Prompt, server: ModelServer
) -> None:
    server.broken = [(503, {})]
    said: list[str] = []
    with spending(prices=PriceTable({"tiny": Price(1000, 1000)})), listening(said.append):
        votes_of(ask)
    last = next(line for line in said if line.startswith("asking tiny: 10 of 10 questions"))
    assert "; 10 requests, " in last
    assert " tokens, $" in last
    assert ", 1 retries, " in last
    assert last.endswith(" s left")


def test_failed_requests_are_not_counted_as_answered(ask: Prompt, server: ModelServer) -> None:
    server.broken = [(401, {})] * 10
    with spending("50 requests") as spent:
        votes_of(ask, on_error=FailureLog())
    assert spent.requests == 0


def test_batch_files_ask_and_answer_without_a_request(
    ask: Prompt, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret")
    apply_lfs(ask, ROWS[:2], labels=LABELS)
    server.requests.clear()
    file = tmp_path / "requests.jsonl"
    assert write_batch_requests(ask, [*ROWS, ROWS[3]], file) == {file: 8}
    assert "a-secret" not in file.read_text()
    asked = [json.loads(line) for line in file.read_text().splitlines()]
    assert {each["url"] for each in asked} == {"/v1/chat/completions"}
    assert {each["method"] for each in asked} == {"POST"}
    assert all(len(each["custom_id"]) <= 64 for each in asked)
    assert asked[0]["body"]["model"] == "tiny"
    assert "response_format" in asked[0]["body"]
    answers = [
        {
            "custom_id": each["custom_id"],
            "response": {
                "status_code": 200,
                "body": {"choices": [{"message": {"content": '{"answer": "spam"}'}}]},
            },
            "error": None,
        }
        for each in asked
    ]
    answers[0]["response"] = {"status_code": 429, "body": {}}
    answers[1] |= {"error": {"code": "batch_expired"}, "response": None}
    answers.append({**answers[2], "custom_id": "another"})
    out = tmp_path / "answers.jsonl"
    out.write_text("".join(f"{json.dumps(each)}\n" for each in answers))
    read = read_batch_answers(ask, ROWS, out)
    assert (read.answered, read.failed, read.unknown, read.still_open) == (6, 2, 1, 2)
    assert votes_of(ask) == [1] * 10
    assert len(server.requests) == 2  # those that failed
    with pytest.raises(DataError, match=r"line 1: this is not an answer of a batch"):
        read_batch_answers(ask, ROWS, write(tmp_path / "bad.jsonl", '{"custom": 1}\n'))


def test_each_model_gets_a_batch_file_of_its_own(ask: Prompt, tmp_path: Path) -> None:
    other = replace(ask, client=replace(ask.client, model="big/9"), name="other")
    written = write_batch_requests([ask, other], ROWS, tmp_path / "requests.jsonl")
    assert [path.name for path in written] == ["requests-1-tiny.jsonl", "requests-2-big_9.jsonl"]
    with pytest.raises(DataError, match=r"extension .jsonl"):
        write_batch_requests(ask, ROWS, tmp_path / "requests.csv")


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
