"""`wiesel explain`: why one item got its label."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.model_options import EndModelName, load_named
from wiesel.cli.verb import Answer, command_line, verb

if TYPE_CHECKING:
    from wiesel.explain import Explanation

__all__ = ["explain"]

_SHOWN = 500


@verb
def explain(
    model: Annotated[Path, typer.Argument(help="The folder of a model that `wiesel run` made.")],
    item: Annotated[str, typer.Option("--item", help="The id of an item of the project.")],
    project: Annotated[
        Path | None, typer.Option(help="Where the project is, if it was moved.")
    ] = None,
    end_model: EndModelName = None,
) -> Answer:
    """Say why one item got its label."""
    from wiesel.project.explaining import explained_by

    explanation, row = explained_by(load_named(model, end_model), item, project)
    lines = [f"{name}: {str(value)[:_SHOWN]}" for name, value in row.items() if name != "id"]
    text = "\n".join([*lines, "", str(explanation)])
    step = command_line("wiesel", "predict", model, "new.csv")
    return Answer({"row": row, **_data(explanation)}, text, step)


def _data(explanation: "Explanation") -> dict[str, Any]:
    names = explanation.labels.names
    return {
        "item": explanation.item,
        "label": explanation.label,
        "end_model": dict(zip(names, explanation.end_proba, strict=True)),
        "soft_label": dict(zip(names, explanation.soft_label, strict=True)),
        "pushes": [
            {"voter": push.voter, "vote": push.vote, "weight": push.weight, "effect": push.effect}
            for push in explanation.pushes
        ],
        "n_abstaining": explanation.n_abstaining,
    }
