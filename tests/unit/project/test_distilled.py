"""`wiesel run` with prompts ends in a small model that is compared with its judges."""

import json
from pathlib import Path

import polars as pl
import pytest

from chat_server import model_server
from tiny_project import run_wiesel, tiny_project


def judge(question: str) -> str:
    """Right on most texts; wrong on those about a bill, and refuses to log in."""
    if "log in" in question:
        return "I'm sorry, but I can't assist with that."
    billing = "invoice" in question or "refund" in question
    return json.dumps({"answer": "billing" if billing else "technical"})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    folder = tiny_project(tmp_path_factory.mktemp("distilled"))
    with model_server(judge) as server:
        client = f'{{ url = "{server.url}", model = "tiny", cache = "answers.sqlite" }}'
        (folder / "rules.toml").write_text(
            '[[lf]]\nkind = "prompt"\nname = "llm"\nlabels = ["billing", "technical"]\n'
            f'template = "{{text}}"\nclient = {client}\n'
        )
        toml = (folder / "wiesel.toml").read_text()
        (folder / "wiesel.toml").write_text(toml.replace('["lfs.py"]', '["lfs.py", "rules.toml"]'))
        yield folder, run_wiesel("run", folder), len(server.requests)


def test_the_small_model_is_compared_with_the_judge_on_gold(run) -> None:
    folder, result, n_requests = run
    assert result.exit_code == 0, result.output
    assert n_requests == 6  # six different texts
    assert "The small model against the judges it learned from" in result.stdout
    assert "A prediction costs nothing now" in result.stdout
    found = json.loads((folder / "out" / "metrics.json").read_text())["judges"]
    (row,) = found["judges"]
    # 12 test rows: two refusals (log in), two wrong (the bill), eight right.
    assert (row["judge"], row["items"], row["accuracy"]) == ("llm", 10, pytest.approx(0.8))
    assert 0 <= row["small_model"] <= 1
    assert row["unreadable"] == 6  # of 40 training rows
    assert row["cost_per_1000"] == 0  # on this machine
    assert found["cost_per_prediction"] == 0
    assert found["items_per_second"] > 0
    shares = found["class_shares"]  # unknown if the model is no better than chance on 12 rows
    assert shares is None or sum(own["corrected"] for own in shares) == pytest.approx(1)


def test_votes_that_look_wrong_are_in_a_file(run) -> None:
    folder, _, _ = run
    table = pl.read_csv(folder / "out" / "judge_errors.csv")
    assert table.columns == ["id", "judge", "vote", "small_model", "probability"]
    assert set(table["judge"]) <= {"llm"}
    assert table["probability"].is_sorted()
    found = json.loads((folder / "out" / "metrics.json").read_text())["judges"]
    assert found["n_errors"] == len(table)


def test_the_file_of_votes_has_their_sources(run) -> None:
    folder, _, _ = run
    shown = run_wiesel("inspect", folder / "out" / "votes.parquet").stdout
    assert "llm: asked tiny on 127.0.0.1:" in shown
    assert "refusal 6" in shown


def test_a_run_without_prompts_says_nothing_about_judges(tmp_path: Path) -> None:
    folder = tiny_project(tmp_path)
    (folder / "out").mkdir()
    (folder / "out" / "judge_errors.csv").write_text("of an earlier run")
    result = run_wiesel("run", folder)
    assert result.exit_code == 0, result.output
    assert "judges" not in json.loads((folder / "out" / "metrics.json").read_text())
    assert not (folder / "out" / "judge_errors.csv").exists()
