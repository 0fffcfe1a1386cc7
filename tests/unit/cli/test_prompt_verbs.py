"""`wiesel apply` with prompts: what they would cost, a budget, batch files, and no key anywhere."""

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from chat_server import ModelServer, model_server
from tiny_project import tiny_project
from wiesel.io import read_votes

KEY = "sk-a-very-secret-key"


def answer(question: str) -> str:
    return json.dumps({"answer": "spam" if "free" in question else "ham"})


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(answer) as running:
        yield running


@pytest.fixture
def rules(folder: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A rules file with one prompt, and a key in the environment that goes to its server."""
    monkeypatch.setenv("WIESEL_API_KEY", KEY)
    monkeypatch.setenv("WIESEL_ALLOW_HOSTS", f"127.0.0.1:{server.server_port}")
    monkeypatch.delenv("WIESEL_PRICES", raising=False)
    client = f'{{ url = "{server.url}", model = "tiny", cache = "a.sqlite", concurrency = 1 }}'
    (folder / "rules.toml").write_text(
        'labels = ["ham", "spam"]\n[[lf]]\nkind = "prompt"\nname = "ask"\n'
        f'labels = ["ham", "spam"]\ntemplate = "{{text}}"\nclient = {client}\n'
    )
    (folder / "prices.toml").write_text("[models.tiny]\ninput = 1000\noutput = 2000\n")
    return folder / "rules.toml"


WORDS = ("apply", "mails.csv", "--lfs", "rules.toml")


def test_a_dry_run_says_what_it_would_cost(rules, wiesel, wiesel_json, server):
    result = wiesel(*WORDS, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "ask (tiny): 3 requests for 3 rows, 0 answers in the cache;" in result.stdout
    assert "estimated" in result.stdout
    assert "$" in result.stdout
    assert result.stderr.splitlines()[-1] == (
        "Next: wiesel apply mails.csv --lfs rules.toml -o votes.parquet"
    )
    assert wiesel_json(*WORDS, "--dry-run")["requests"] == 3
    assert not server.requests
    assert not Path("votes.parquet").exists()


def test_a_spent_budget_is_one_line_and_the_same_command_resumes(rules, wiesel, server):
    stopped = wiesel(*WORDS, "--budget", "2 requests")
    assert stopped.exit_code == 1
    assert "Prompts: 2 requests, " in stopped.stderr
    assert "'ask' stopped: the budget is spent" in stopped.stderr.splitlines()[-1]
    assert "2 of 3 rows have answers" in stopped.stderr
    assert wiesel(*WORDS, "--budget", "1 requests").exit_code == 0
    assert len(server.requests) == 3
    assert read_votes("votes.parquet").dense().ravel().tolist() == [1, 0, 1]


def test_what_was_spent_is_part_of_the_result(rules, wiesel_json):
    spent = wiesel_json(*WORDS)["spent"]
    assert spent["requests"] == 3
    assert spent["cost"] > 0


def test_batch_files_replace_requests(rules, wiesel, server):
    written = wiesel(*WORDS, "--batch-requests", "requests.jsonl")
    assert "Wrote 3 requests into requests.jsonl." in written.stdout
    assert written.stderr.splitlines()[-1].endswith("--batch-answers answers-of-requests.jsonl")
    lines = []
    for line in Path("requests.jsonl").read_text().splitlines():
        asked = json.loads(line)
        said = {"message": {"content": answer(asked["body"]["messages"][0]["content"])}}
        response = {"status_code": 200, "body": {"choices": [said]}}
        lines.append(json.dumps({"custom_id": asked["custom_id"], "response": response}))
    Path("answers-of-requests.jsonl").write_text("\n".join(lines))
    read = wiesel(*WORDS, "--batch-answers", "answers-of-requests.jsonl")
    assert read.exit_code == 0, read.output
    assert "3 answers were added to the cache; 0 failed" in read.stderr
    assert not server.requests
    assert read_votes("votes.parquet").dense().ravel().tolist() == [1, 0, 1]


def test_the_key_is_in_no_output_and_no_file(rules, wiesel, server, folder):
    """Not even where the server repeats it, in an answer or in an error."""
    server.answer = lambda _: f"spam, {KEY}"
    said = [wiesel(*WORDS, "--dry-run"), wiesel(*WORDS, "--batch-requests", "r.jsonl")]
    server.broken = [(500, {})]
    said.append(wiesel(*WORDS, "--cache", "votes.sqlite"))
    server.refuses = {"messages": f"The key {KEY} is wrong."}
    rules.write_text(rules.read_text().replace("{text}", "Now: {text}"))
    said.append(wiesel(*WORDS, "--debug"))
    said.append(wiesel(*WORDS, "--json", "--on-error", "abstain"))
    said.append(wiesel("inspect", "votes.parquet"))
    assert f"Bearer {KEY}" in server.keys
    assert any("[the key] is wrong" in each.output for each in said)
    assert not [each.output for each in said if KEY in each.output]
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert {"votes.parquet", "a.sqlite", "votes.sqlite", "r.jsonl"} <= {f.name for f in files}
    assert not [file for file in files if KEY.encode() in file.read_bytes()]


def test_a_run_of_a_project_writes_the_key_nowhere(rules, wiesel, server, folder, tmp_path):
    """Votes, caches, model, report, predictions, logs: all that `wiesel run` leaves behind."""
    project = tiny_project(tmp_path)
    (project / "rules.toml").write_text(
        rules.read_text()
        .replace('labels = ["ham", "spam"]\n[[lf]]', "[[lf]]")
        .replace('["ham", "spam"]', '["billing", "technical"]')
    )
    toml = (project / "wiesel.toml").read_text()
    (project / "wiesel.toml").write_text(toml.replace('["lfs.py"]', '["lfs.py", "rules.toml"]'))
    server.answer = lambda question: f"billing {KEY}" if "refund" in question else "technical"
    said = [wiesel("run", project, "--debug"), wiesel("run", project, "--json")]
    assert [each.exit_code for each in said] == [0, 0], said[0].output
    said.append(wiesel("inspect", project / "out" / "votes.parquet", "--json"))
    said.append(wiesel("explain", project, "--item", "m0"))
    said.append(wiesel("doctor"))
    assert f"Bearer {KEY}" in server.keys
    assert not [each.output for each in said if KEY in each.output]
    files = [file for file in project.rglob("*") if file.is_file()]
    names = {file.name for file in files}
    assert {"votes.parquet", "report.html", "metrics.json", "a.sqlite"} <= names
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    # Packed files are read, too: Parquet and SQLite may compress what they hold.
    votes = pl.read_parquet(project / "out" / "votes.parquet")
    assert KEY not in str(votes.to_dicts())


def test_plans_and_several_labels_do_not_go_together(rules, wiesel):
    result = wiesel(*WORDS, "--multi", "--dry-run")
    assert result.exit_code == 1
    assert "leave --multi out" in result.stderr


def test_inspect_shows_where_the_votes_come_from(rules, wiesel, wiesel_json, server):
    server.refuses = {"response_format": "not supported"}
    server.answer = lambda q: {
        "message": {
            "content": "Not spam"
            if "8" in q
            else "I'm sorry, I can't assist."
            if "see" in q
            else "spam"
        },
        "finish_reason": "stop",
    }
    assert wiesel(*WORDS).exit_code == 0
    shown = wiesel("inspect", "votes.parquet").stdout
    assert f"ask: asked tiny on 127.0.0.1:{server.server_port}, prompt version " in shown
    assert "temperature 0.0, max_tokens 32, constrained True" in shown
    assert "prompt: '{text}'" in shown
    assert "answers: rows 3, votes 1, abstentions 0, unanswered 0" in shown
    assert "unreadable: negation 1, refusal 1" in shown
    assert "answered by: tiny-2026 3" in shown
    assert "left out: response_format 3" in shown
    assert "tokens in, 3 out; price 0." in shown
    source = wiesel_json("inspect", "votes.parquet")["sources"]["ask"]
    assert source["unreadable"] == {"negation": 1, "refusal": 1}
    assert source["tokens_out"] == 3


def test_a_changed_prompt_shows_votes_before_and_after(rules, wiesel, server):
    Path("first.parquet").write_bytes(b"")
    assert wiesel(*WORDS).exit_code == 0
    Path("votes.parquet").rename("first.parquet")
    wiesel(*WORDS)
    server.answer = lambda q: "spam" if "see" in q or "8" in q else "ham"
    rules.write_text(rules.read_text().replace("{text}", "Now: {text}"))
    told = wiesel(*WORDS).stderr
    assert "Changed since the file was written: ask (tiny " in told
    assert "2 of 3 votes changed (ask: 2)." in told
    shown = wiesel("inspect", "votes.parquet", "--before", "first.parquet").stdout
    assert "2 of 3 votes changed (ask: 2)." in shown
    assert [line.split() for line in shown.splitlines() if line.split()[:1] == ["ask"]][-2:] == [
        ["ask", "ham", "spam", "1", "1"],
        ["ask", "spam", "ham", "1", "0"],
    ]
    assert "Changed since" not in wiesel(*WORDS).stderr


def test_prompts_are_listed_shown_and_copied(folder, wiesel, wiesel_json):
    listed = wiesel("prompts").stdout
    assert "classify_examples" in listed
    assert "Parts of a text, each with a label." in listed
    assert wiesel_json("prompts", "classify")["version"] == 1
    assert "$classes" in wiesel("prompts", "classify").stdout
    assert wiesel("prompts", "classify", "-o", "mine.toml").exit_code == 0
    assert Path("mine.toml").read_text() == wiesel("prompts", "classify").stdout.rstrip("\n") + "\n"
    again = wiesel("prompts", "classify", "-o", "mine.toml")
    assert again.exit_code == 1
    assert "mine.toml exists" in again.stderr
    assert "Did you mean 'classify'" in wiesel("prompts", "clasify").stderr


def test_inspect_shows_what_a_panel_is_worth(folder, wiesel, wiesel_json):
    from wiesel.datasets import make_panel
    from wiesel.io import write_votes

    votes, gold = make_panel(300, 6)
    write_votes(votes, "panel.parquet", sources={n: {"cost": 2.0} for n in votes.voters})
    Path("gold.csv").write_text(
        "id,label\n" + "".join(f"{i},{votes.labels.names[c]}\n" for i, c in enumerate(gold))
    )
    words = ("inspect", "panel.parquet", "--gold", "gold.csv", "--panel")
    shown = wiesel(*words)
    assert shown.exit_code == 0, shown.output
    assert "6 judges are worth about " in shown.stdout
    assert "saves 17 % of the price" in shown.stdout or "Every judge is missed" in shown.stdout
    assert 1 <= wiesel_json(*words)["panel"]["n_effective"] <= 6
