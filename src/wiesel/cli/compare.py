"""`wiesel compare`: several methods on one or more projects, in one table."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.completion import method_list, project_or_methods
from wiesel.cli.project_options import announce
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
    from wiesel.project.rows import refuse_several_labels
    from wiesel.project.settings import read_project

    # Read and check all project files before the first method is trained.
    settings = {project: read_project(project) for project in projects}
    requested = split_names(methods) or []
    first = next(iter(settings.values()))
    if first.multi or first.spans:
        return _compare_one(list(settings.values()), requested, seeds)
    for found in settings.values():
        refuse_several_labels(found)
        _check(found, requested)
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


def _compare_one(settings: Sequence["Project"], methods: list[str], seeds: int) -> Answer:
    """Compare methods on a multi-label or span project."""
    from wiesel.project.multilabel import compare_labels
    from wiesel.project.spans import compare_spans

    project = settings[0]
    kind = "multi" if project.multi else "spans"
    if len(settings) > 1:
        raise ParameterError(f"Compare projects with {kind} = true one at a time.")
    _check_gold(project)
    announce(project)
    compared: Any = compare_labels if project.multi else compare_spans
    outcome = compared(project, methods, range(seeds), say_stage)
    if outcome.judged_on is None:
        raise ParameterError(f"{project.file}: the dev and test rows have no gold.")
    step = command_line("wiesel", "run", project.folder, "--method", outcome.best)
    return Answer({"runs": outcome.rows, "on": outcome.judged_on}, str(outcome.table), step)


def _check(settings: "Project", methods: list[str]) -> None:
    from wiesel.project.checking import check_project

    _check_gold(settings)
    check_project(settings, methods)


def _check_gold(settings: "Project") -> None:
    data = settings.data
    if not (data.dev or data.test or data.dataset or data.module):
        raise ParameterError(f"{settings.file} names neither dev nor test rows to compare on.")


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
    """Return the method with the best mean accuracy on dev rows.

    Test rows serve to evaluate a choice, not to make it; they are used only without dev rows.
    """
    found: dict[str, list[float]] = {}
    for outcome in outcomes:
        for name, reports in outcome.reports.items():
            report = reports.get("dev") or reports["test"]
            found.setdefault(name, []).append(float(report.accuracy))
    return max(found, key=lambda name: sum(found[name]) / len(found[name]))
