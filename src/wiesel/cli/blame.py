"""`wiesel blame`: which votes on which neighbors led to the prediction for an item."""

from pathlib import Path
from typing import Annotated, Any

import typer

from wiesel.cli.verb import Answer, command_line, split_names, verb
from wiesel.errors import DataError

__all__ = ["blame"]


@verb
def blame(
    project: Annotated[Path, typer.Argument(help="A folder with wiesel.toml, or such a file.")],
    item: Annotated[str, typer.Option(help="The id of the item.")],
    label: Annotated[str | None, typer.Option(help="The class; the predicted one if open.")] = None,
    without: Annotated[
        str | None, typer.Option(help="Voters to leave out, to see the effect: a,b.")
    ] = None,
) -> Answer:
    """Show which votes led to a prediction."""
    from wiesel.project.workspace import Workspace

    workspace = Workspace(project)
    split, row = _find(workspace, item)
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
        place = workspace.labels.index(found.label)
        text += (
            f"\nWithout {', '.join(names)}: P({found.label}) is {100 * left[place]:.0f} % instead "
            f"of {100 * found.proba[place]:.0f} %"
        )
    step = command_line("wiesel", "blame", project, "--item", item, "--without", _first(found))
    return Answer(data, text, "" if names else step)


def _find(workspace: Any, item: str) -> tuple[str, int]:
    from wiesel.errors import listed
    from wiesel.project.workspace import positions

    for name, split in workspace.splits.items():
        found = positions(split.ids, [item])
        if found:
            return name, found[item]
    some = listed(workspace.train.ids.head(3).to_list())
    raise DataError(f"There is no item {item!r} in the project. Ids look like {some}.")


def _first(found: Any) -> str:
    rows = found.voters.to_records()
    return str(rows[0]["voter"]) if rows else "VOTER"
