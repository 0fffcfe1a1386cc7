"""Prompts, against a real server on this machine that plays the language model."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from chat_server import ModelServer, model_server, spam_or_ham
from wiesel import apply_lfs, prompt
from wiesel.errors import LabelingFunctionError, ParameterError
from wiesel.lfs import (
    Access,
    ChatClient,
    FailureLog,
    LabelingFunctionWarning,
    load_lfs,
    rule_from_dict,
)

LABELS = ["ham", "spam"]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(spam_or_ham) as running:
        yield running


@pytest.fixture
def client(server: ModelServer, tmp_path: Path) -> ChatClient:
    url = f"http://127.0.0.1:{server.server_port}/v1"
    cache = str(tmp_path / "answers.sqlite")
    return ChatClient(url, "tiny", backoff=0.001, retries=2, cache=cache, timeout=3600)


ROWS = [{"text": "a prize"}, {"text": "see you"}, {"text": None}]


def test_every_row_with_a_text_is_asked_about(client: ChatClient, server: ModelServer) -> None:
    lf = prompt(LABELS, "What is this?\n{text}", client=client)
    assert apply_lfs(lf, ROWS, labels=LABELS).dense().ravel().tolist() == [1, 0, -1]
    assert lf.name == "prompt_ham_spam"
    assert {request["path"] for request in server.requests} == {"/v1/chat/completions"}
    assert {request["model"] for request in server.requests} == {"tiny"}
    assert "What is this?\na prize" in str([r["messages"] for r in server.requests]).replace(
        "\\n", "\n"
    )


def test_one_class_is_asked_for_with_yes_or_no(client: ChatClient, server: ModelServer) -> None:
    server.answer = lambda question: "Yes." if "prize" in question else "no"
    lf = prompt("spam", "Spam?\n{text}", client=client)
    assert apply_lfs(lf, ROWS, labels=LABELS).dense().ravel().tolist() == [1, -1, -1]
    assert lf({"text": "prize"}) == "spam"


def test_answers_are_kept_on_disk_and_equal_questions_are_asked_once(
    client: ChatClient, server: ModelServer
) -> None:
    lf = prompt(LABELS, "{text}", client=client)
    rows = [{"text": "a prize"}] * 5 + [{"text": "see you"}]
    first = apply_lfs(lf, rows, labels=LABELS)
    assert len(server.requests) == 2
    again = apply_lfs(lf, rows, labels=LABELS)
    assert len(server.requests) == 2
    assert first.dense().tolist() == again.dense().tolist()
    apply_lfs(prompt(LABELS, "Now: {text}", client=client), rows, labels=LABELS)
    assert len(server.requests) == 4


def test_the_disk_holds_neither_rows_nor_keys(
    client: ChatClient, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret")
    apply_lfs(prompt(LABELS, "{text}", client=client), ROWS, labels=LABELS)
    assert set(server.keys) == {"Bearer a-secret"}
    stored = Path(str(client.cache)).read_bytes()
    assert b"ham" in stored
    assert b"a-secret" not in stored
    assert b"a prize" not in stored


def test_no_key_is_sent_where_none_is_set(
    client: ChatClient, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    apply_lfs(prompt(LABELS, "{text}", client=client), ROWS, labels=LABELS)
    assert set(server.keys) == {None}


def test_passing_faults_are_asked_again(client: ChatClient, server: ModelServer) -> None:
    server.broken = [(503, {}), (429, {"Retry-After": "0"})]
    votes = apply_lfs(prompt(LABELS, "{text}", client=client), ROWS[:1], labels=LABELS)
    assert votes.n_votes == 1
    assert len(server.requests) == 3


def test_a_lasting_fault_stops_with_the_row_and_the_status(
    client: ChatClient, server: ModelServer
) -> None:
    server.broken = [(500, {})] * 3
    with pytest.raises(LabelingFunctionError, match=r"on row 0: .*tried 3 times.*HTTP 500"):
        apply_lfs(prompt(LABELS, "{text}", client=client), ROWS[:1], labels=LABELS)


def test_a_refusal_is_not_asked_again(client: ChatClient, server: ModelServer) -> None:
    server.broken = [(401, {})]
    with pytest.raises(LabelingFunctionError, match=r"tried once.*HTTP 401"):
        apply_lfs(prompt(LABELS, "{text}", client=client), ROWS[:1], labels=LABELS)
    assert len(server.requests) == 1


def test_faults_may_be_survived_and_the_good_answers_are_kept(
    client: ChatClient, server: ModelServer
) -> None:
    server.broken = [(403, {})]
    log = FailureLog()
    lf = prompt(LABELS, "{text}", client=client, name="ask")
    votes = apply_lfs(lf, ROWS, labels=LABELS, on_error=log)
    assert votes.n_votes == 1
    assert log.counts == {"ask": 1}
    assert apply_lfs(lf, ROWS, labels=LABELS).n_votes == 2
    assert len(server.requests) == 3


def test_an_unreadable_answer_abstains_and_the_reason_is_recorded(
    client: ChatClient, server: ModelServer
) -> None:
    server.answer = lambda question: "I cannot say" if "prize" in question else "ham"
    lf = prompt(LABELS, "{text}", client=client, name="ask")
    with pytest.warns(LabelingFunctionWarning, match=r"'ask' failed on 1 row.*I cannot say") as got:
        votes = apply_lfs(lf, ROWS, labels=LABELS)
    assert votes.dense().ravel().tolist() == [-1, 0, -1]
    (failure,) = got[0].message.failures  # type: ignore[union-attr]
    assert (failure.lf, failure.item, failure.stops) == ("ask", "row 0", False)


def test_something_that_is_no_chat_completion_is_a_fault(
    client: ChatClient, server: ModelServer
) -> None:
    server.reply = b'{"error": "overloaded"}'
    with pytest.raises(LabelingFunctionError, match=r"not a chat completion.*overloaded"):
        prompt(LABELS, "{text}", client=client)({"text": "x"})
    assert len(server.requests) == 3


def test_hostile_answers_are_faults(client: ChatClient, server: ModelServer) -> None:
    """Faults of single rows, which `on_error` may survive."""
    server.reply = b"[" * 100_000
    with pytest.raises(LabelingFunctionError, match="not a chat completion"):
        prompt(LABELS, "{text}", client=client)({"text": "x"})
    server.broken = [(503, {"Retry-After": "\u00b2"})] * 3  # a digit, but not for float()
    with pytest.raises(LabelingFunctionError, match="HTTP 503"):
        prompt(LABELS, "{text}", client=client)({"text": "x"})


def test_rows_for_this_machine_go_through_no_proxy(
    client: ChatClient, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer(lambda _: "spam") as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
        assert prompt(LABELS, "{text}", client=client)({"text": "see you"}) == "ham"
        elsewhere = ChatClient("http://models.example/v1", "tiny", cache=None)
        assert prompt(LABELS, "{text}", client=elsewhere)({"text": "see you"}) == "spam"
        proxy.shutdown()
    assert len(server.requests) == len(proxy.requests) == 1


def test_nobody_there_is_a_fault(tmp_path: Path) -> None:
    client = ChatClient("http://127.0.0.1:9/v1", "tiny", retries=0, cache=None)
    with pytest.raises(LabelingFunctionError, match="did not answer"):
        prompt(LABELS, "{text}", client=client)({"text": "x"})


def test_no_more_requests_than_allowed_are_under_way(
    client: ChatClient, server: ModelServer
) -> None:
    gate = threading.Barrier(2, timeout=900)
    server.answer = lambda question: str(gate.wait() and None) and "ham"
    two = ChatClient(client.url, "tiny", concurrency=2, cache=None, timeout=3600)
    lf = prompt(LABELS, "{text}", client=two)
    rows = [{"text": str(number)} for number in range(8)]
    # The barrier opens only when two requests are under way at once.
    assert apply_lfs(lf, rows, labels=LABELS).n_votes == 8
    assert server.most_under_way == 2


@pytest.mark.parametrize(
    ("answer", "vote"),
    [
        ("spam", "spam"),
        ("**Spam**.", "spam"),
        ("The answer is spam", "spam"),
        ("abstain", None),
        ("None", None),
    ],
)
def test_answers_are_read_generously(answer: str, vote: str | None) -> None:
    client = ChatClient("http://127.0.0.1:9/v1", "tiny")
    assert prompt(LABELS, "{text}", client=client).vote(answer) == vote


def test_a_prompt_is_made_again_from_its_data_without_the_key() -> None:
    client = ChatClient("http://127.0.0.1:9/v1", "tiny", api_key_variable="MY_KEY")
    rule = prompt(LABELS, "{text}", client=client, name="ask")
    data = json.loads(json.dumps(rule.to_dict()))
    allowed = Access(hosts=("127.0.0.1:9",), keys=("MY_KEY",))
    assert rule_from_dict(data, access=allowed) == rule
    assert data["client"]["api_key_variable"] == "MY_KEY"
    with pytest.raises(ParameterError, match="client of a prompt has no option 'modle'"):
        rule_from_dict({**data, "client": {"url": "http://x", "modle": "tiny"}})


@pytest.mark.parametrize(
    "template",
    [
        "no column",
        "{}",
        "{text.upper}",
        "{text[0]}",
        "{text",
        "{text:>1000000000}",
        "{text:.999999999f}",
        "{text:{n}}",
        "{text!z}",
    ],
)
def test_templates_that_cannot_be_filled_are_refused(template: str) -> None:
    client = ChatClient("http://127.0.0.1:9/v1", "tiny")
    with pytest.raises(ParameterError, match="template"):
        prompt("spam", template, client=client)


def test_numbers_may_have_a_format() -> None:
    client = ChatClient("http://127.0.0.1:9/v1", "tiny")
    asked = prompt("spam", "{price:.2f} {n:,} {text!r}", client=client)
    assert asked.question({"price": 1.005, "n": 1000, "text": "x"}).startswith("1.00 1,000 'x'")


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ParameterError, match="http"):
        ChatClient("file:///etc/passwd", "tiny")


def rules_with(folder: Path, **client: object) -> Path:
    """A rules file with one prompt."""
    options = ", ".join(f"{name} = {json.dumps(value)}" for name, value in client.items())
    file = folder / "rules.toml"
    file.write_text(
        'labels = ["ham", "spam"]\n[[lf]]\nkind = "prompt"\nlabels = ["ham", "spam"]\n'
        f'template = "{{text}}"\nclient = {{ {options} }}\n'
    )
    return file


def test_a_rules_file_sends_the_users_key_only_to_hosts_that_the_user_names(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIESEL_API_KEY", "wiesels-key")
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    host = f"127.0.0.1:{server.server_port}"
    file = rules_with(tmp_path, url=f"http://{host}/v1", model="tiny")
    for text, access in (("one", Access()), ("two", Access(hosts=(host,)))):
        apply_lfs(load_lfs(file, access=access), [{"text": text}], labels=LABELS)
    assert server.keys == [None, "Bearer wiesels-key"]


@pytest.mark.parametrize("url", ["http://models.example/v1", "HTTP://models.example:443/v1"])
def test_no_key_is_sent_to_another_machine_without_encryption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    words = r"key in WIESEL_API_KEY without encryption to .*models\.example.*Use https://"
    monkeypatch.setenv("WIESEL_API_KEY", "wiesels-key")
    access = Access(hosts=("models.example",))
    with pytest.raises(LabelingFunctionError, match=f"line 6: .*{words}"):
        load_lfs(rules_with(tmp_path, url=url, model="tiny"), access=access)
    for given in ({"url": url, "api_key_variable": ""}, {"url": "https://models.example/v1"}):
        load_lfs(rules_with(tmp_path, model="tiny", **given), access=access)
    with ModelServer(lambda _: "spam") as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
        client = ChatClient(url, "tiny", api_key_variable="WIESEL_API_KEY", cache=None)
        with pytest.raises(ParameterError, match=words):
            prompt(LABELS, "{text}", client=client)({"text": "see you"})
        monkeypatch.delenv("WIESEL_API_KEY")
        assert prompt(LABELS, "{text}", client=client)({"text": "see you"}) == "spam"
        proxy.shutdown()
    assert proxy.keys == [None]


@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "HOME"])
def test_a_rules_file_reads_no_variable_that_the_user_has_not_allowed(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "a-secret")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    host = f"127.0.0.1:{server.server_port}"
    file = rules_with(tmp_path, url=f"http://{host}/v1", model="tiny", api_key_variable=variable)
    with pytest.raises(LabelingFunctionError, match=rf"line 6: .*--allow-key {variable}"):
        load_lfs(file, access=Access(hosts=(host,)))
    monkeypatch.setenv("WIESEL_ALLOW_KEYS", variable)
    monkeypatch.setenv("WIESEL_ALLOW_HOSTS", f"api.example.org, {host}")
    apply_lfs(load_lfs(file), ROWS[:1], labels=LABELS)
    assert server.keys == ["Bearer a-secret"]


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1",
        "http://localhost.evil.example/v1",
        "http://127.0.0.1.evil.example/v1",
        "http://2130706433/v1",
        "http://10.0.0.1/v1",
        "http://[::ffff:10.0.0.1]/v1",
    ],
)
def test_a_rules_file_sends_rows_to_no_host_that_the_user_has_not_allowed(
    tmp_path: Path, url: str
) -> None:
    file = rules_with(tmp_path, url=url, model="tiny")
    with pytest.raises(LabelingFunctionError, match=r"line 6: .*not allowed.*--allow-host"):
        load_lfs(file)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1@evil.example/v1",
        "http://evil.example\\@127.0.0.1/v1",
        "http://127.0.0.1/v1?x=",
        "http://127.0.0.1/v1#",
        "http://127.0.0.1/caf\u00e9",
        "http://127.0.0.1\n/v1",
        "http://127.0.0.1:99999/v1",
        "http:///v1",
        "file:///etc/passwd",
        "",
        3,
    ],
)
def test_addresses_that_look_like_others_are_refused(tmp_path: Path, url: object) -> None:
    with pytest.raises(LabelingFunctionError, match="url"):
        load_lfs(rules_with(tmp_path, url=url, model="tiny"))


def test_a_host_that_sends_us_elsewhere_is_not_followed(
    client: ChatClient, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret")
    elsewhere = f"http://localhost:{server.server_port}/elsewhere"
    server.broken = [(302, {"Location": elsewhere}), (307, {"Location": elsewhere})]
    for _ in range(2):
        with pytest.raises(LabelingFunctionError, match=r"HTTP 30[27]"):
            prompt(LABELS, "{text}", client=client)({"text": "x"})
    assert {request["path"] for request in server.requests} == {"/v1/chat/completions"}


@pytest.mark.parametrize("cache", ["../answers.sqlite", "/tmp/answers.sqlite", "link/a.sqlite"])
def test_a_rules_file_keeps_answers_in_its_own_project(tmp_path: Path, cache: str) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    address = {"url": "http://127.0.0.1:9/v1", "model": "tiny"}
    with pytest.raises(LabelingFunctionError, match=r"cache = .* is outside"):
        load_lfs(rules_with(folder, **address, cache=cache))
    with pytest.raises(LabelingFunctionError, match=r"ends in \.sqlite"):
        load_lfs(rules_with(folder, **address, cache="lfs.py"))
    (lf,) = load_lfs(rules_with(folder, **address, cache="answers.sqlite"))
    assert lf.client.cache == str(folder.resolve() / "answers.sqlite")
    (tmp_path / "wiesel.toml").touch()  # now the folder above is the project
    (lf,) = load_lfs(rules_with(folder, **address, cache="../answers.sqlite"))
    assert lf.client.cache == str(tmp_path.resolve() / "answers.sqlite")


@pytest.mark.parametrize("name", ["/etc/passwd", "../known.csv", "http://127.0.0.1:9/x.csv", 3])
def test_a_lookup_reads_files_of_its_own_project_only(tmp_path: Path, name: object) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    (tmp_path / "known.csv").write_text("name\nAda\n")
    lines = f'kind = "lookup"\nlabel = "spam"\ncolumns = "name"\nknown_file = {json.dumps(name)}'
    (folder / "rules.toml").write_text(f"[[lf]]\n{lines}\n")
    with pytest.raises(
        LabelingFunctionError, match=r"line \d: .*(is outside|no file|name of a file)"
    ):
        load_lfs(folder / "rules.toml")


def test_an_interruption_does_not_wait_for_requests_that_hang(
    client: ChatClient, server: ModelServer
) -> None:
    released, answered = threading.Event(), []

    def answer(question: str) -> str:
        if "slow" in question:
            released.wait(900)
            answered.append(question)
        return "ham"

    server.answer = answer
    answers = client.ask_all(["quick", "slow"])
    assert next(answers)[1].text == "ham"
    answers.close()
    assert not answered, "it came back before the slow request did"
    released.set()


INTERRUPTED = """
import polars
from wiesel.lfs import ChatClient
client = ChatClient("http://127.0.0.1:{port}/v1", "tiny", cache=None, timeout=3600)
try:
    list(client.ask_all(["slow"]))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_works_while_a_model_thinks(server: ModelServer) -> None:
    asked, released = threading.Event(), threading.Event()

    def answer(question: str) -> str:
        asked.set()
        released.wait(900)
        return "ham"

    server.answer = answer
    command = [sys.executable, "-c", INTERRUPTED.format(port=server.server_port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert asked.wait(900)
            running.send_signal(signal.SIGINT)
            said, _ = running.communicate(timeout=600)
        finally:
            running.kill()
            released.set()
    assert said.split() == ["interrupted"]
