"""`wiesel compare`: several methods on one project, one table."""

from pathlib import Path
from typing import Annotated

import typer

from wiesel.cli.run import say_stage
from wiesel.cli.verb import Answer, command_line, split_names, verb
from wiesel.errors import ParameterError

__all__ = ["compare"]


@verb
def compare(
    project: Annotated[Path, typer.Argument(help="A folder with wiesel.toml, or such a file.")],
    methods: Annotated[str, typer.Argument(help="Names of `wiesel methods`: weasel,snorkel.")],
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")] = 1,
) -> Answer:
    """Compare methods on a project's data."""
    from wiesel.project.pipeline import judge, prepare
    from wiesel.project.settings import read_project
    from wiesel.project.training import chosen_methods, train_models

    settings = read_project(project)
    prepared = prepare(settings, say_stage)
    names = chosen_methods(settings, split_names(methods), prepared.data.splits)
    if not {"dev", "test"} & set(prepared.data.splits):
        raise ParameterError(f"{settings.file} names neither dev nor test rows to compare on.")
    cache = settings.output_folder / ".cache"
    trained = train_models(prepared.data, names, range(seeds), cache, say_stage)
    outcome = judge(prepared, trained)
    table = outcome.table
    best = max(outcome.rows, key=lambda row: row["accuracy"])["method"]
    step = command_line("wiesel", "run", project, "--method", best)
    return Answer({"runs": outcome.rows, "on": outcome.judged_on}, str(table), step)
