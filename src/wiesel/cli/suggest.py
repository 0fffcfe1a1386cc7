"""`wiesel suggest`: suggested labeling functions for a project."""

from typing import TYPE_CHECKING, Annotated

import typer

from wiesel.cli.project_options import HERE, ProjectFolder, open_workspace
from wiesel.cli.verb import Answer, command_line, split_names, verb
from wiesel.errors import ParameterError
from wiesel.errors import suggest as suggest_name

if TYPE_CHECKING:
    from wiesel.guidance import Suggestion, Suggestions

__all__ = ["suggest"]


@verb
def suggest(
    project: ProjectFolder = HERE,
    n: Annotated[int, typer.Option("-n", help="How many suggestions.")] = 20,
    accept: Annotated[
        str | None,
        typer.Option(
            help="Add suggestions to the project's rules file: those with these names, a,b; or "
            "this many of the best."
        ),
    ] = None,
) -> Answer:
    """Suggest labeling functions for a project.

    As with `wiesel run`, this runs the Python code of the project.
    """
    from wiesel.guidance import Suggestions

    workspace = open_workspace(project)
    wanted = _accepted(accept)
    n_wanted = wanted if isinstance(wanted, int) else 0
    found = Suggestions(tuple(workspace.suggestions(max(n, n_wanted))))
    chosen = found.found[:wanted] if isinstance(wanted, int) else _named(found, wanted)
    names = [workspace.accept(each.lf) for each in chosen]
    data = {"suggestions": [each.to_dict() for each in found], "accepted": names}
    text = found.table.to_text()
    if names:
        text += f"\nWritten to {workspace.lf_set.rules_file}: {', '.join(names)}"
        return Answer(data, text, command_line("wiesel", "run", project))
    step = command_line("wiesel", "rows-to-label", project)
    if found and workspace.lf_set.rules_file is None:
        text += (
            '\nTo accept any, add a file for them to [votes] of wiesel.toml: lfs = ["rules.toml"]'
        )
    elif found:
        step = command_line("wiesel", "suggest", project, "--accept", found[0].lf.name)
    return Answer(data, text, step)


def _accepted(given: str | None) -> int | list[str]:
    """Return how many suggestions are accepted, or their names."""
    if given is None:
        return 0
    try:
        number = int(given)
    except ValueError:
        return split_names(given) or []
    if number < 0:
        raise ParameterError(f"--accept is a number from 0 on, or names; got {given}.")
    return number


def _named(found: "Suggestions", names: list[str]) -> "list[Suggestion]":
    known = {each.lf.name: each for each in found}
    for name in names:
        if name not in known:
            raise ParameterError(
                f"There is no suggestion {name!r} among the first {len(found)}. "
                f"{suggest_name(name, known)}"
            )
    return [known[name] for name in dict.fromkeys(names)]
