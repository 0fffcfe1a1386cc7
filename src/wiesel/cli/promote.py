"""`wiesel promote`: a new model takes the place of the one in use, if it is not worse."""

from pathlib import Path
from typing import Annotated

import typer

from wiesel.cli.project_options import EndModelName, ModelFolder, load_named
from wiesel.cli.verb import Answer, command_line, verb

__all__ = ["promote"]


@verb
def promote(  # noqa: PLR0913 - the options of the command line
    model: ModelFolder,
    in_use: Annotated[Path, typer.Argument(help="The folder of the model in use, or a new one.")],
    data: Annotated[Path, typer.Argument(help="A table with gold labels that neither has seen.")],
    label_column: Annotated[str, typer.Option(help="The column of gold labels.")] = "label",
    metric: Annotated[str, typer.Option(help="What decides: accuracy or macro_f1.")] = "accuracy",
    allowed_loss: Annotated[
        float, typer.Option(min=0, max=1, help="How much worse it may be: 0.01 is one point.")
    ] = 0.0,
    changed: Annotated[
        Path | None, typer.Option(help="A table to write: the rows whose class changes.")
    ] = None,
    end_model: EndModelName = None,
) -> Answer:
    """Put a new model in use, unless it is worse.

    Both predict the same rows. The exit code is 3 if the model in use stays. Every version is kept
    in the folder IN_USE-versions; to go back, promote it again.
    """
    from wiesel.io import write_rows
    from wiesel.project.promoting import REFUSED
    from wiesel.project.promoting import promote as decide

    network = None if end_model is None else load_named(model, end_model, data).model.end_model_
    found = decide(
        model,
        in_use,
        data,
        label_column=label_column,
        metric=metric,
        allowed_loss=allowed_loss,
        end_model=network,
    )
    if changed is not None:
        write_rows(found.changed, changed)
    refused = found.outcome == "refused"
    kept = in_use.with_name(f"{in_use.name}-versions")
    step = "" if refused else command_line("wiesel", "inspect", kept)
    return Answer(found.to_dict(), str(found), step, exit_code=REFUSED if refused else 0)
