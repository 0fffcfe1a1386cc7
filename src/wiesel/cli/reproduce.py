"""`wiesel reproduce`: the paper's tables, where the repository is at hand."""

import sys
from importlib.util import find_spec
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
    found = _experiments()
    names = sorted(found)
    if table is None:
        return Answer({"experiments": names}, "\n".join(names), f"wiesel reproduce {names[0]}")
    if table not in found:
        raise ParameterError(f"There is no experiment {table!r}. {suggest(table, names)}")
    _run(table)
    return Answer({"experiment": table}, "", "wiesel reproduce")


def _experiments() -> dict[str, Path]:
    """The experiments of the repository: modules with a `main`, by name."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = find_spec("experiments")
    finally:
        sys.path.remove(str(Path.cwd()))
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            "The experiments are part of the repository, not of the installed package: run this "
            "in a clone of it."
        )
    folder = Path(next(iter(spec.submodule_search_locations)))
    return {
        file.stem: file
        for file in sorted(folder.glob("*.py"))
        if not file.stem.startswith("_") and "\ndef main(" in file.read_text(encoding="utf-8")
    }


def _run(name: str) -> None:
    """Run an experiment as `python -m experiments.NAME` would; it prints its own table."""
    import subprocess

    done = subprocess.run([sys.executable, "-m", f"experiments.{name}"], check=False)
    if done.returncode:
        raise ParameterError(f"The experiment {name} ended with exit code {done.returncode}.")
