"""Every example in README.md and docs/ runs, and every command in them exists."""

import re
from pathlib import Path
from typing import Any

import pytest
from markdown_blocks import (
    ROOT,
    Block,
    blocks_of,
    commands_of,
    printed_by,
    problem_of,
    run_python,
    words_of,
)

from wiesel.project import write_starter

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
SHELLS = ("bash", "console", "sh", "shell")


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    if any(block.language == "python" and "my-project" in block.code for block in blocks_of(page)):
        write_quick_starter(tmp_path / "my-project")
    printed = printed_by(page)
    shown = {block.line: block.code for block in blocks_of(page) if block.is_output}
    for line, text in shown.items():
        assert words_of(text) == words_of(printed[line]), (
            f"{page}:{line} prints something else by now: read it, then run "
            f"python tests/docs/markdown_blocks.py {page_id(page)}"
        )


def write_quick_starter(folder: Path) -> None:
    """The project that pages call `my-project`, trained for a few epochs."""
    write_starter(folder)
    with (folder / "wiesel.toml").open("a") as file:
        file.write("\n[training]\nepochs = 3\nepoch_size = 640\n")


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_commands_of_a_page_exist(page: Path):
    lines = [
        (block, command)
        for block in blocks_of(page)
        if block.language in SHELLS
        for command in commands_of(block)
    ]
    wrong = [f"{page}:{block.line} {command}: {problem_of(command)}" for block, command in lines]
    assert not [line for line in wrong if not line.endswith("None")]


def test_the_readme_shows_python_and_commands():
    languages = [block.language for block in blocks_of(ROOT / "README.md") if not block.reason]
    assert languages.count("python") > 0
    assert any(language in SHELLS for language in languages)


def test_the_readme_is_short_and_begins_with_what_sells():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 170
    marks = [
        *("# Wiesel\n", "![", "pip install", "few_labels.png", "## Where do you start?"),
        *("**I have texts.**", "```python", 'title="Output"', "**I have crowd answers.**"),
        *("**I have a language model.**", "**I come from scikit-learn.**", "**I read the paper.**"),
        *("## Results", "## What it can do", "It cannot:", "## Why not", "## Speed", "## Read on"),
        "cite the paper",
    ]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def page_of(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text)
    return page


def test_blocks_share_a_namespace_and_errors_name_the_line(tmp_path: Path):
    page = page_of(tmp_path, "# T\n\n```python\nx = 1\n```\n\n```python\ny = x\n1 / 0\n```\n")
    first, second = blocks_of(page)
    namespace: dict[str, Any] = {}
    run_python(first, namespace)
    with pytest.raises(ZeroDivisionError) as caught:
        run_python(second, namespace)
    assert namespace["y"] == 1
    assert caught.traceback[-1].lineno + 1 == 9


def test_a_session_is_compared_with_its_output(tmp_path: Path):
    good, bad = blocks_of(
        page_of(tmp_path, "```python\n>>> 1 + 1\n2\n```\n```python\n>>> 1 + 1\n3\n```\n")
    )
    run_python(good, {})
    with pytest.raises(AssertionError, match="Expected"):
        run_python(bad, {})


def test_an_output_block_is_compared_with_what_was_printed(tmp_path: Path):
    text = '```python\nprint("accuracy", 0.5)\n```\n\n```text title="Output"\n%s\n```\n'
    page = page_of(tmp_path, text % "accuracy 0.7")
    (line, printed), (_, shown) = *printed_by(page).items(), blocks_of(page)
    assert line == shown.line
    assert words_of(shown.code) == words_of(printed) == ["#", "accuracy"]
    wrong = blocks_of(page_of(tmp_path, text % "recall 0.7"))[1]
    assert words_of(wrong.code) != words_of(printed)


def test_a_reason_keeps_a_block_from_running(tmp_path: Path):
    page = page_of(tmp_path, "<!-- not run: needs a cluster -->\n```python\n1 / 0\n```\n")
    assert blocks_of(page)[0].reason == "needs a cluster"


@pytest.mark.parametrize(
    ("code", "commands"),
    [
        ("$ make demo\nepoch 1\n$ make test\n", ["make demo", "make test"]),
        ("# set up\nmake demo \\\n  -j 2\n", ["make demo -j 2"]),
    ],
)
def test_commands_are_told_from_their_output(code: str, commands: list[str]):
    assert commands_of(Block(ROOT / "README.md", 1, "console", code, None)) == commands


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("make test", None),
        ("make coffee", "no target"),
        ("pip install 'wiesel[plots]'", None),
        ("pip install 'wiesel[tea]'", "no extra"),
        ("python tests/architecture/write_public_api.py", None),
        ("python nowhere.py", "no file"),
        ("WIESEL_DATA=/data make test", None),
        ("frobnicate --now", "no command"),
        ("wiesel predict model rows.csv -o labels.csv", None),
        ("wiesel spans fit texts.jsonl --epochs=3", None),
        ("wiesel foretell rows.csv", "no verb"),
        ("wiesel predict model rows.csv --loudly", "no option"),
    ],
)
def test_commands_that_cannot_work_are_found(command: str, problem: str | None):
    found = problem_of(command)
    assert (found is None) if problem is None else problem in str(found)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_of_a_page_lead_to_files_of_the_repository(page: Path):
    """Pages are read in a clone, too, where pages that the site generates do not exist."""
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text(encoding="utf-8"))
    own = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in own if not (page.parent / link).exists()] == []
