"""The fenced code blocks of a Markdown page, and how the tests run them.

`python tests/docs/markdown_blocks.py docs/PAGE.md` runs a page and writes what it prints into its
blocks titled "Output".
"""

import ast
import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer.main

from wiesel.cli.main import app
from wiesel.errors import CollapseWarning
from wiesel.nn.stacking import set_seed

ROOT = Path(__file__).resolve().parents[2]
# A fence, its language, its content; before it perhaps a reason not to run it.
_FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\s*\n)?"
    r"^(?P<indent> *)```(?P<language>\w+)(?P<rest>[^\n]*)\n(?P<code>.*?)^ *```",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One code block of a page."""

    page: Path
    line: int
    """The line of the page on which the code starts."""
    language: str
    code: str
    reason: str | None
    """Why it is not run, if the page says so: `<!-- not run: needs a GPU -->`."""
    is_output: bool = False
    """Whether it shows what the Python block above it prints: ```` ```text title="Output" ````."""


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks with a language, in order."""
    text = page.read_text()
    found = []
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        indent = len(match["indent"])
        code = "".join(row[indent:] or "\n" for row in match["code"].splitlines(keepends=True))
        is_output = 'title="Output"' in match["rest"]
        found.append(Block(page, line, match["language"], code, match["reason"], is_output))
    return found


def run_python(block: Block, namespace: dict[str, Any]) -> None:
    """Execute a block; errors point at the line of the page."""
    if block.code.lstrip().startswith(">>>"):
        _run_session(block, namespace)
        return
    tree = ast.parse(block.code, str(block.page))
    ast.increment_lineno(tree, block.line - 1)
    exec(compile(tree, str(block.page), "exec"), namespace)


def _run_session(block: Block, namespace: dict[str, Any]) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    parsed = doctest.DocTestParser().get_doctest(
        block.code, namespace, block.page.name, str(block.page), block.line - 1
    )
    runner = doctest.DocTestRunner(optionflags=flags)
    said: list[str] = []
    runner.run(parsed, out=said.append, clear_globs=False)
    namespace.update(parsed.globs)
    assert runner.failures == 0, "".join(said)


@contextlib.contextmanager
def _short_trainings() -> Iterator[None]:
    """Pages train for an epoch or two: a network that has not learned yet is no mistake there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        yield


def printed_by(page: Path) -> dict[int, str]:
    """Run a page; return what was printed before each of its output blocks, by their lines."""
    namespace: dict[str, Any] = {"__name__": "page"}
    printed: dict[int, str] = {}
    last = ""
    set_seed(0)
    for block in blocks_of(page):
        if block.is_output:
            printed[block.line] = last
        elif block.language in ("python", "py", "pycon") and block.reason is None:
            with contextlib.redirect_stdout(io.StringIO()) as stream, _short_trainings():
                run_python(block, namespace)
            last = stream.getvalue()
    return printed


def words_of(text: str) -> list[str]:
    """The words of an output: figures of a trained network, and so their order, may differ.

    >>> words_of("accuracy   0.753 (0.707 to 0.803)\\n────────  -----")
    ['#', '#)', '(#', 'accuracy', 'to']
    """
    lines = re.sub(r"(?<!\S)[─+-]+(?!\S)", " ", text)
    return sorted(re.sub(r"[+-]?\d[\d,.]*", "#", lines).split())


def write_outputs(page: Path) -> None:
    """Replace the content of every output block by what the page prints."""
    lines = page.read_text().splitlines(keepends=True)
    page = page.resolve()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ.setdefault("COLUMNS", "100")
        printed = printed_by(page)
    for block in reversed([each for each in blocks_of(page) if each.is_output]):
        start = block.line - 1
        shown = "".join(f"{line.rstrip()}\n" for line in printed[block.line].splitlines())
        lines[start : start + block.code.count("\n")] = [shown]
    page.write_text("".join(lines))


def commands_of(block: Block) -> list[str]:
    """The command lines of a shell block; where some start with `$`, the rest is output."""
    joined = re.sub(r"\s*\\\n\s*", " ", block.code)
    lines = [line.strip() for line in joined.splitlines()]
    if any(line.startswith("$ ") for line in lines):
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in lines if line and not line.startswith("#")]


def problem_of(command: str) -> str | None:
    """Why a command line cannot work, or None."""
    words = shlex.split(command, comments=True)
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]
    if not words:
        return None
    program, *arguments = words
    if program == "make":
        return _make_problem(arguments)
    if program == "wiesel":
        return _verb_problem(arguments)
    if program.endswith("pip") or arguments[:2] == ["-m", "pip"]:
        return _extras_problem(arguments)
    if Path(program).name.startswith("python"):
        return _script_problem(arguments)
    beside_python = Path(sys.executable).with_name(program)
    found = shutil.which(program) or (ROOT / program).exists() or beside_python.exists()
    known = found or program in ("cd", "export")
    return None if known else f"there is no command {program!r}"


def _make_problem(arguments: list[str]) -> str | None:
    targets = re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    wanted = [word for word in arguments if not word.startswith("-") and "=" not in word]
    unknown = [word for word in wanted if word not in targets]
    return f"the Makefile has no target {unknown}" if unknown else None


def _verb_problem(arguments: list[str]) -> str | None:
    """A verb, or an option of it, that the command line does not have."""
    command: Any = _command_line()
    words = list(arguments)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        verb = words.pop(0)
        if verb not in command.commands:
            return f"wiesel has no verb {verb!r}"
        command = command.commands[verb]
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    unknown = [name for name in options if name not in {*known, "-h", "--help"}]
    return f"wiesel has no option {unknown}" if unknown else None


@cache
def _command_line() -> Any:
    return typer.main.get_command(app)


def _extras_problem(arguments: list[str]) -> str | None:
    extras = re.findall(r"wiesel\[([\w,-]+)\]|\.\[([\w,-]+)\]", " ".join(arguments))
    wanted = {name for pair in extras for names in pair for name in names.split(",") if name}
    section = (ROOT / "pyproject.toml").read_text().split("[project.optional-dependencies]")[1]
    known = re.findall(r"^([\w-]+) = \[", section.split("\n[")[0], re.MULTILINE)
    unknown = sorted(wanted - set(known))
    return f"pyproject.toml has no extra {unknown}" if unknown else None


def _script_problem(arguments: list[str]) -> str | None:
    if arguments[:1] == ["-m"]:
        module = ROOT / arguments[1].replace(".", "/")
        found = module.exists() or module.with_suffix(".py").exists()
        return None if found or arguments[1] in ("venv", "pytest") else f"no module {arguments[1]}"
    scripts = [word for word in arguments if word.endswith(".py")]
    missing = [word for word in scripts if not (ROOT / word).exists()]
    return f"there is no file {missing}" if missing else None


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_outputs(Path(name))
