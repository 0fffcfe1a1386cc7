"""`wiesel reproduce`: the paper's tables, where the repository is at hand."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from wiesel.cli.verb import Answer, verb
from wiesel.errors import MissingExtraError, ParameterError, suggest

__all__ = ["reproduce"]


@verb
def reproduce(
    table: Annotated[str | None, typer.Argument(help="Which one; without it, list them.")] = None,
) -> Answer:
    """Rerun an experiment of the paper."""
    names = _experiments()
    if table is None:
        return Answer({"experiments": names}, "\n".join(names), f"wiesel reproduce {names[0]}")
    if table not in names:
        raise ParameterError(f"There is no experiment {table!r}. {suggest(table, names)}")
    _run(table)
    return Answer({"experiment": table}, "", "wiesel reproduce")


def _experiments() -> list[str]:
    """The names of the experiments in the repository, which is the current folder."""
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


def _run(name: str) -> None:
    """Run `python -m experiments NAME`, which prints its own table."""
    import subprocess

    done = subprocess.run([sys.executable, "-m", "experiments", name], check=False)
    if done.returncode:
        raise ParameterError(f"The experiment {name} ended with exit code {done.returncode}.")
