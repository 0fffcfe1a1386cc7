"""`wiesel compare`: several methods on one or more projects, in one table."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiesel.cli.project_options import announce, method_list, project_or_methods
from wiesel.cli.run import say_stage
from wiesel.cli.verb import Answer, command_line, split_names, tell, verb
from wiesel.errors import ParameterError

if TYPE_CHECKING:
    from wiesel.project.judging import Outcome
    from wiesel.project.settings import Project

__all__ = ["best", "compare"]


@verb
def compare(
    projects: Annotated[
        list[Path],
        typer.Argument(
            help="One or more folders with wiesel.toml.", autocompletion=project_or_methods
        ),
    ],
    methods: Annotated[
        str,
        typer.Argument(
            help="Names of `wiesel methods`: weasel,snorkel.", autocompletion=method_list
        ),
    ],
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")] = 1,
) -> Answer:
    """Compare methods on the data of one project or more.

    As with `wiesel run`, this runs the Python code of the projects.
    """
    from wiesel.compare import score_table
    from wiesel.project.pipeline import check_project
    from wiesel.project.settings import read_project

    # Read and check all project files before the first method is trained.
    settings = {project: read_project(project) for project in projects}
    requested = split_names(methods) or []
    first = next(iter(settings.values()))
    for found in settings.values():
        if found.task != first.task:
            raise ParameterError(
                f"{first.file} and {found.file} are different kinds of tasks, {first.task} and "
                f"{found.task}, which have no figures in common: compare them one at a time."
            )
        sources = found.data
        if not (sources.dev or sources.test or sources.dataset or sources.module):
            raise ParameterError(f"{found.file} names neither dev nor test rows to compare on.")
        check_project(found, requested)
    for found in settings.values():
        announce(found)
    names = _titles(settings)
    outcomes = {}
    for project, title in names.items():
        if len(projects) > 1:
            tell(f"{title}:")
        outcomes[title] = _compared(settings[project], requested, seeds)
    step = command_line("wiesel", "run", projects[0], "--method", best(outcomes.values()))
    if len(outcomes) == 1:
        only = next(iter(outcomes.values()))
        return Answer(
            {
                "runs": only.rows,
                "references": only.reference_rows,
                "on": only.judged_on,
                "verdict": only.verdict or None,
            },
            str(only.table),
            step,
        )
    rows = [{"data": title, **row} for title, found in outcomes.items() for row in found.rows]
    references = [
        {"data": title, **row} for title, found in outcomes.items() for row in found.reference_rows
    ]
    judged = {title: found.judged_on for title, found in outcomes.items()}
    verdicts = {title: found.verdict for title, found in outcomes.items() if found.verdict}
    data = {"runs": rows, "references": references, "on": judged, "verdict": verdicts or None}
    order = list(outcomes)
    both = sorted([*rows, *references], key=lambda row: order.index(row["data"]))
    said = "\n".join(f"{title}: {sentence}" for title, sentence in verdicts.items())
    return Answer(data, str(score_table(both, conclusion=said)), step)


def _compared(settings: "Project", methods: list[str], seeds: int) -> "Outcome":
    from wiesel.project.pipeline import run_methods

    outcome = run_methods(settings, list(dict.fromkeys(methods)), range(seeds), say_stage)
    if outcome.judged_on is None:
        raise ParameterError(f"{settings.file}: the data have neither dev nor test rows.")
    return outcome


def _titles(settings: Mapping[Path, "Project"]) -> dict[Path, str]:
    """Return each project's name in the table; its folder if two projects share a name."""
    names = [project.name for project in settings.values()]
    return {
        path: project.name if names.count(project.name) == 1 else str(path)
        for path, project in settings.items()
    }


def best(outcomes: Iterable["Outcome"]) -> str:
    """Return the method that is best over all projects, on dev rows if there are any."""
    found: dict[str, list[float]] = {}
    for outcome in outcomes:
        for name, score in outcome.choice.items():
            found.setdefault(name, []).append(score)
    return max(found, key=lambda name: sum(found[name]) / len(found[name]))
