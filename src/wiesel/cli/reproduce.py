"""`wiesel reproduce`: the paper's tables, in a clone of the repository."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from wiesel.cli.verb import Answer, command_line, tell, verb
from wiesel.errors import MissingExtraError, ParameterError, suggest

__all__ = ["reproduce"]


@verb
def reproduce(
    table: Annotated[
        str | None, typer.Argument(help="The name of a study; without it, list all.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="All seeds, learning rates and points of the paper.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds to run.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes to use.")] = 1,
) -> Answer:
    """Rerun a table or a figure of the paper."""
    names = _experiments()
    if table is None:
        step = command_line("wiesel", "reproduce", names[0])
        return Answer({"experiments": names}, "\n".join(names), step)
    if table not in names:
        raise ParameterError(f"There is no experiment {table!r}. {suggest(table, names)}")
    options = ["--full"] if full else []
    options += ["--seeds", str(seeds)] if seeds else []
    _run(table, [*options, "--jobs", str(jobs)])
    page = Path("experiments/results") / f"{table}.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return Answer({"experiment": table, "page": str(page)}, text)


def _experiments() -> list[str]:
    """Return the names of the experiments in the repository, the current folder."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        return list(import_module("experiments.__main__").EXPERIMENTS)
    except ModuleNotFoundError:
        raise MissingExtraError(
            "The experiments are part of the repository, not of the installed package: run this "
            "in a clone of it."
        ) from None
    finally:
        sys.path.remove(str(Path.cwd()))


def _run(name: str, options: list[str]) -> None:
    """Run `python -m experiments NAME` and show its progress; its page is the answer."""
    import subprocess

    command = [sys.executable, "-m", "experiments", name, *options]
    others = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as running:
        for line in running.stdout or ():
            if line.startswith("["):  # "[3/16] ...": a run is finished
                tell(line.rstrip())
            else:
                others.append(line)
    if running.returncode:
        sys.stderr.writelines(others)
        raise ParameterError(f"The experiment {name} ended with exit code {running.returncode}.")
