"""Every command that a verb prints as the next step is run as printed, from situation to situation.

A word in capitals is for the user to fill in; the situation says with what.
"""

import ast
import contextlib
import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import wiesel.cli
from tiny_project import run_wiesel, tiny_project
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.io import write_votes
from wiesel.project import write_starter
from wiesel.project.monitoring import DRIFT

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")

CLI = Path(wiesel.cli.__file__).parent
LONG = ("wiesel reproduce",)
"""Steps that train for hours; the test of `reproduce` runs a study that exists."""


class Walk:
    """Runs commands in a folder, and after each the one that it names as the next step."""

    def __init__(self, folder: Path, **filled: str) -> None:
        self.folder, self.filled = folder, filled
        self.steps: list[str] = []
        self.problems: list[str] = []

    def __call__(self, command: str, follow: bool = True) -> str:
        """Run a command that has to succeed, then its next steps, and return what it printed."""
        with contextlib.chdir(self.folder):
            printed = self._run(command)
            seen = {command}
            step = self._next(command, printed)
            while follow and step and step not in seen and not step.startswith(LONG):
                seen.add(step)
                self.steps.append(step)
                step = self._next(step, self._run(step))
        return printed

    def _run(self, command: str) -> str:
        words = [self.filled.get(word, word) for word in shlex.split(command)]
        if words[:2] == ["wiesel", "workbench"]:
            return self._served([*words[1:], "--no-show", "--port", "0"])
        assert words[0] == "wiesel", command
        result = run_wiesel(*words[1:])
        if result.exit_code not in (0, DRIFT):
            self.problems.append(f"{command}\n    {result.stderr.strip().splitlines()[-1]}")
        return result.stderr

    def _next(self, command: str, printed: str) -> str:
        found = re.findall(r"^Next: (.*)$", printed, re.MULTILINE)
        if not found:
            return ""
        *others, step = found[-1].split(", or: ")
        for page in (shlex.split(other)[-1] for other in others):  # xdg-open out/report.html
            if not Path(page).is_file():
                self.problems.append(f"{command}\n    there is no {page}")
        return step

    def _served(self, words: list[str]) -> str:
        if find_spec("nicegui") is None:
            return ""
        command = [sys.executable, "-c", "from wiesel.cli.main import main; main()", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            timer = threading.Timer(600, process.kill)
            timer.start()
            line = process.stdout.readline()
            timer.cancel()
            process.terminate()
        if "The workbench is at" not in line:
            self.problems.append(f"wiesel {shlex.join(words)}\n    said {line!r}")
        return ""


def project(place: Path, *, gold: bool = True, rules: bool = True) -> Path:
    """A tiny project that learns with CrowdLayer, with or without gold and a file of rules."""
    folder = tiny_project(place)
    file = folder / "wiesel.toml"
    if rules:
        file.write_text(file.read_text().replace('["lfs.py"]', '["lfs.py", "rules.toml"]'))
        (folder / "rules.toml").write_text(
            '[[lf]]\nkind="keywords"\nlabel="technical"\nkeywords=["crash"]\ncolumn="text"\n'
        )
    text = file.read_text().replace('"majority_vote"', '"crowd_layer"')
    if not gold:
        text = re.sub(r"^(dev|test) = .*\n", "", text, flags=re.MULTILINE)
    file.write_text(text)
    return folder


def quick_starter(folder: Path, kind: str) -> None:
    write_starter(folder, kind=kind)
    file = folder / "wiesel.toml"
    text = file.read_text().replace("[training]\nepochs = 5\n", "")
    file.write_text(f"{text}\n[training]\nepochs = 1\nepoch_size = 320\n")


def with_gold(place: Path) -> Walk:
    folder = project(place)
    walk = Walk(folder.parent, FILE=f"{folder.name}/train.csv", PROJECT=folder.name)
    walk(f"wiesel run {folder.name}")
    walk(f"wiesel explain {folder.name}/out/model --project {folder.name} --item m3")
    walk(f"wiesel predict {folder.name}/out/model {folder.name}/test.csv")
    walk(f"wiesel predict {folder.name}/out/model {folder.name}/train.csv")
    walk(f"wiesel predict {folder.name}/out/model {folder.name}/train.csv -o predicted.csv")
    walk(f"wiesel evaluate {folder.name}/out/model {folder.name}/test.csv")
    fresh = (folder / "test.csv").read_text().replace(",technical", " today,technical")
    (folder / "fresh.csv").write_text(fresh)
    walk(f"wiesel promote {folder.name}/out/model in_use {folder.name}/fresh.csv")
    walk(f"wiesel compare {folder.name} majority_vote,snorkel")
    walk(f"wiesel inspect {folder.name}")
    walk(f"wiesel inspect {folder.name}/wiesel.toml")
    walk(f"wiesel suggest {folder.name}")
    walk(f"wiesel rows-to-label {folder.name} -n 5")
    walk(f"wiesel blame {folder.name} --item m0 --label technical")
    walk(f"wiesel inspect {folder.name}/train.csv")
    return walk


def without_gold(place: Path) -> Walk:
    folder = project(place, gold=False, rules=False)
    walk = Walk(folder, FILE="train.csv")
    walk("wiesel run")
    walk("wiesel run --method majority_vote")
    other = [{"id": f"new-{k}", "text": "zebra quagga okapi " * 30} for k in range(60)]
    pl.DataFrame(other).write_csv(folder / "other.csv")
    walk("wiesel monitor out/model other.csv")
    walk("wiesel predict out/model train.csv")
    walk("wiesel suggest")
    walk("wiesel rows-to-label -n 5")
    return walk


def functions_and_votes(place: Path) -> Walk:
    folder = project(place)
    (folder / "rules.toml").write_text(
        '[[lf]]\nkind="keywords"\nlabel="billing"\nkeywords=["invoice", "refund"]\ncolumn="text"\n'
        '[[lf]]\nkind="keywords"\nlabel="technical"\nkeywords=["crash"]\ncolumn="text"\n'
        '[[lf]]\nkind="keywords"\nlabel="technical"\nkeywords=["log"]\ncolumn="text"\n'
    )
    (folder / "one.toml").write_text(
        '[[lf]]\nkind="keywords"\nlabel="billing"\nkeywords=["invoice"]\ncolumn="text"\n'
    )
    (folder / "bare.py").write_text(
        "from wiesel import labeling_function\n@labeling_function\ndef bare(row):\n"
        "    return 'billing' if 'invoice' in row['text'] else 'technical'\n"
    )
    walk = Walk(folder, CLASSES="billing,technical", VOTES="votes.parquet", FILE="train.csv")
    walk("wiesel try train.csv --lfs rules.toml")
    walk("wiesel try train.csv --lfs one.toml")
    walk("wiesel try train.csv --lfs bare.py --lfs rules.toml")
    walk("wiesel apply train.csv --lfs lfs.py --lfs rules.toml --labels billing,technical")
    walk("wiesel apply 'tra*.csv' --lfs rules.toml --labels billing,technical -o parts")
    walk("wiesel inspect votes.parquet")
    (folder / "asks.py").write_text(
        "from wiesel import prompt\nfrom wiesel.lfs import ChatClient\n"
        "asks = prompt('technical', 'Is this technical? {text}',\n"
        "    client=ChatClient('http://127.0.0.1:9/v1', 'a-model'), name='asks')\n"
    )
    asked = "wiesel apply train.csv --lfs asks.py --labels billing,technical -o asked.parquet"
    walk(f"{asked} --dry-run", follow=False)  # nobody answers here
    walk(f"{asked} --batch-requests questions.jsonl", follow=False)
    pl.DataFrame(
        {"id": range(6), "a": ["x", "y"] * 3, "b": ["x"] * 6, "c": ["x", None] * 3}
    ).write_csv(folder / "plain.csv")
    walk("wiesel inspect plain.csv --labels x,y --id id")
    votes, gold = make_votes(60, n_voters=4, coverage=0.8)
    write_votes(votes, folder / "made.parquet")
    np.save(folder / "X.npy", make_features(gold, n_features=3))
    end = "--features X.npy --end-model linear --option epochs=1 --option epoch_size=60"
    walk(f"wiesel fit weasel made.parquet {end} -o end")
    walk("wiesel fit snorkel made.parquet -o label_model")
    walk.filled["VOTES"] = "made.parquet"
    walk("wiesel inspect label_model")
    walk("wiesel inspect end", follow=False)
    return walk


def crowds(place: Path) -> Walk:
    walk = Walk(place)
    votes, _ = make_votes(40, n_voters=5, coverage=0.6)
    table = votes.to_long().rename({"voter": "worker"})
    table.write_csv(place / "answers.csv")
    odd = table.rename({"item": "thing", "worker": "name", "label": "said"})
    odd.write_csv(place / "odd.csv")
    walk("wiesel inspect answers.csv")
    walk("wiesel aggregate answers.csv --method majority_vote")
    walk("wiesel ask-next answers.csv")
    walk("wiesel aggregate odd.csv --item thing --worker name --label said --repeated last")
    chosen = {"from_name": "kind", "to_name": "text", "type": "choices"}
    answers = [{**chosen, "value": {"choices": [label]}} for label in ("a", "b")]
    other = [{**answer, "from_name": "mood"} for answer in answers]
    tasks = [
        {
            "id": k,
            "data": {"text": "hi"},
            "annotations": [
                {"completed_by": who, "result": [answers[k % 2], other[who % 2]]} for who in (1, 2)
            ],
        }
        for k in range(6)
    ]
    (place / "tasks.json").write_text(json.dumps(tasks))
    walk("wiesel inspect tasks.json --question kind")
    walk("wiesel aggregate tasks.json --question mood -o back.json --format label_studio")
    (place / "doccano").mkdir()
    for name in ("ann", "bob"):
        lines = [{"id": k, "text": f"text {k}", "label": ["ab"[k % 2]]} for k in range(4)]
        (place / "doccano" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    walk("wiesel inspect doccano")
    walk("wiesel fit majority_vote doccano -o model")
    return walk


def several_labels(place: Path) -> Walk:
    quick_starter(place / "multi", "multi")
    walk = Walk(place / "multi", FILE="train.jsonl", PROJECT=".")
    walk("wiesel run")
    walk("wiesel compare . weasel,majority_vote")
    walk("wiesel explain out/model --item train-3")
    walk("wiesel inspect out/votes.parquet")
    walk("wiesel inspect out/model")
    walk("wiesel predict out/model test.jsonl")
    labels = "--labels billing,technical,urgent"
    walk(f"wiesel apply train.jsonl --lfs lfs.py --multi {labels} -o votes.parquet")
    walk("wiesel fit majority_vote votes.parquet -o label_models")
    return walk


def parts_of_texts(place: Path) -> Walk:
    quick_starter(place / "spans", "spans")
    walk = Walk(place / "spans", FILE="train.jsonl", GOLD="test.jsonl")
    walk("wiesel run")
    walk("wiesel compare . hidden_markov,majority_vote")
    walk("wiesel explain out/model --item test-3")
    walk("wiesel inspect out/model")
    labels = "--labels DEVICE,MONTH,AMOUNT"
    walk(f"wiesel spans apply train.jsonl --lfs lfs.py --lfs rules.toml {labels} -o found.jsonl")
    pl.read_ndjson(place / "spans/train.jsonl").rename(
        {"text": "body", "id": "number"}
    ).write_ndjson(place / "spans/other.jsonl")
    walk(f"wiesel spans apply other.jsonl --lfs rules.toml {labels} --text body --id number")
    return walk


def everything_else(place: Path) -> Walk:
    folder = project(place)
    walk = Walk(place, NAME="snorkel", PROJECT=folder.name, FILE=f"{folder.name}/train.csv")
    walk("wiesel methods")
    walk("wiesel prompts")
    walk("wiesel prompts yes_no")
    walk.folder = CLI.parents[2]  # a clone of the repository
    walk("wiesel reproduce")
    with contextlib.chdir(place):
        for kind in ("", "multi", "spans"):
            step = walk._next(
                "init", walk._run(f"wiesel init 'a {kind}' {f'--{kind}' if kind else ''}")
            )
            assert step == f"wiesel run 'a {kind}'"  # its training is the quick start of the README
        assert "wiesel init my-project" in walk._run("wiesel doctor")
        Path("my-project").mkdir()
        assert "wiesel init my-project-2" in walk._run("wiesel doctor")
    return walk


SITUATIONS = (
    with_gold,
    without_gold,
    functions_and_votes,
    crowds,
    several_labels,
    parts_of_texts,
    everything_else,
)


def test_every_next_step_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made, join = set(), shlex.join

    def recorded(words):
        caller = sys._getframe(2)  # of `command_line`
        made.add((Path(caller.f_code.co_filename).name, caller.f_lineno))
        return join(words)

    monkeypatch.setattr(shlex, "join", recorded)
    problems, steps = [], []
    for situation in SITUATIONS:
        place = tmp_path / situation.__name__
        place.mkdir()
        walk = situation(place)
        problems += walk.problems
        steps += walk.steps
    assert not problems, "\n".join(problems)
    assert len(steps) > 40
    never = [
        f"{name}:{first}"
        for name, first, last in printing_calls()
        if not any((name, line) in made for line in range(first, last + 1))
    ]
    assert never == [], "no situation prints these steps: add one"


def printing_calls() -> Iterator[tuple[str, int, int]]:
    """The file and lines of every call in wiesel.cli that makes a command of `wiesel`."""
    for file in sorted(CLI.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            is_call = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "command_line"
            if is_call and not (
                isinstance(node.args[0], ast.Constant) and node.args[0].value != "wiesel"
            ):
                yield file.name, node.lineno, node.end_lineno


def test_no_verb_writes_a_next_step_by_hand():
    """Made by `command_line`, steps are quoted, and the test above knows them."""
    answers = [
        (file.name, node)
        for file in sorted(CLI.glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Answer"
    ]
    assert len(answers) > 30
    for name, node in answers:
        for text in ast.walk(node.args[2]) if len(node.args) > 2 else ():
            is_text = isinstance(text, ast.Constant) and isinstance(text.value, str)
            inside = any(
                text in ast.walk(call)
                for call in ast.walk(node)
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "command_line"
            )
            assert inside or not is_text or "wiesel " not in text.value, f"{name}:{node.lineno}"


@pytest.mark.parametrize("kind", ["", "multi", "spans"])
def test_the_commands_in_the_readme_of_a_starter_run(kind: str, tmp_path: Path):
    folder = tmp_path / "demo"
    quick_starter(folder, kind)
    lines = re.findall(r"^    (wiesel [^#\n]+)", (folder / "README.md").read_text(), re.MULTILINE)
    assert len(lines) >= 4
    walk = Walk(folder)
    for line in lines:
        walk(line.strip(), follow=False)
    assert walk.problems == []
