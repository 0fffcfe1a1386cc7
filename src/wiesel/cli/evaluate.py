"""`wiesel evaluate`: how good a saved model is on rows with gold labels."""

from pathlib import Path
from typing import Annotated

import typer

from wiesel.cli.model_options import EndModelName, ModelFolder, frame_and_inputs, load_named
from wiesel.cli.verb import Answer, command_line, verb

__all__ = ["evaluate"]


@verb
def evaluate(
    model: ModelFolder,
    data: Annotated[Path, typer.Argument(help="A table with gold labels, or X.npy with --gold.")],
    label_column: Annotated[str, typer.Option(help="The column of gold labels.")] = "label",
    gold: Annotated[Path | None, typer.Option(help="Gold labels in the order of X.npy.")] = None,
    end_model: EndModelName = None,
) -> Answer:
    """Judge a saved model by gold labels."""
    from wiesel.evaluation import evaluate as judged
    from wiesel.io import read_gold

    bundle = load_named(model, end_model, data)
    _, inputs = frame_and_inputs(bundle, data)
    truth = read_gold(gold or data, bundle.labels, label_column=label_column)
    report = judged(bundle.model, inputs, truth)
    step = command_line("wiesel", "inspect", model)
    return Answer({"report": report.to_dict()}, str(report), step)
