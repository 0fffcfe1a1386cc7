"""`wiesel blame`: which votes on which neighbors led to the prediction for an item."""

from typing import Annotated, Any

import typer

from wiesel.cli.project_options import HERE, ProjectFolder, open_workspace
from wiesel.cli.verb import Answer, command_line, given_options, split_names, verb

__all__ = ["blame"]


@verb
def blame(
    item: Annotated[str, typer.Option(help="The id of the item.")],
    project: ProjectFolder = HERE,
    label: Annotated[
        str | None, typer.Option(help="The class; the predicted one by default.")
    ] = None,
    without: Annotated[
        str | None, typer.Option(help="Voters to leave out, to see the effect: a,b.")
    ] = None,
) -> Answer:
    """Show which votes led to a prediction.

    As with `wiesel run`, this runs the Python code of the project.
    """
    from wiesel.project.rows import find_item

    workspace = open_workspace(project)
    split, row = find_item(workspace.splits, item)
    found = workspace.blame(row, label, split)
    data: dict[str, Any] = {
        "item": item,
        "label": found.label,
        "proba": found.proba,
        "voters": found.voters.to_records(),
        "neighbors": found.neighbors.to_records(),
    }
    text = str(found)
    names = split_names(without)
    if names:
        left = found.without(names)
        data["without"] = {"voters": names, "proba": left}
        place = found.data[1].labels.index(found.label)
        text += (
            f"\nWithout {', '.join(names)}: P({found.label}) is {100 * left[place]:.0f} % instead "
            f"of {100 * found.proba[place]:.0f} %"
        )
    step = ""
    if data["voters"] and not names:
        options = given_options(item=item, label=label, without=str(data["voters"][0]["voter"]))
        step = command_line("wiesel", "blame", project, *options)
    return Answer(data, text, step)
