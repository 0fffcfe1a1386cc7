"""`wiesel explain`: why one item got its label."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from wiesel.cli.project_options import EndModelName, announce, load_named
from wiesel.cli.verb import Answer, command_line, given_options, plain_text, verb

__all__ = ["explain"]

_SHOWN = 500


@verb
def explain(
    model: Annotated[Path, typer.Argument(help="The folder of a model that `wiesel run` made.")],
    item: Annotated[str, typer.Option("--item", help="The id of an item of the project.")],
    project: Annotated[
        Path | None, typer.Option(help="The project it comes from; its code is run.")
    ] = None,
    end_model: EndModelName = None,
) -> Answer:
    """Explain the label of one item.

    The labeling functions of the project vote on the item, so its Python code is run. Without
    --project, this is the project that the model names, but only if it is inside the current
    folder, and you have run it before or confirm.
    """
    from wiesel.project.explaining import explained_by
    from wiesel.project.settings import read_project

    if project is not None:
        announce(read_project(project))
    bundle = load_named(model, end_model, taggers=True)
    explanation, row = explained_by(bundle, item, project, confirm=_is_wanted)
    lines = [f"{name}: {str(value)[:_SHOWN]}" for name, value in row.items() if name != "id"]
    is_marked = hasattr(explanation, "spans")  # which shows the text itself
    text = str(explanation) if is_marked else "\n".join([*lines, "", str(explanation)])
    step = command_line("wiesel", "predict", model, "FILE", *given_options(end_model=end_model))
    data = _spans_data(explanation) if is_marked else {"row": row, **_data(explanation)}
    return Answer(data, text, step)


def _is_wanted(file: Path) -> bool:
    """Ask the user if the terminal is interactive."""
    if not sys.stdin.isatty():
        return False
    question = f"The model says that it comes from {file}. Run the code of that project?"
    return typer.confirm(plain_text(question), err=True)


def _data(explanation: Any) -> dict[str, Any]:
    if hasattr(explanation, "by_label"):
        return _labels_data(explanation)
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


def _labels_data(explanation: Any) -> dict[str, Any]:
    """Return the explanation of an item's labels as plain data."""
    return {
        "item": explanation.item,
        "labels": list(explanation.labels),
        "by_label": {
            label: {
                "end_model": own.end_proba[1],
                "soft_label": own.soft_label[1],
                "pushes": [vars(push) for push in own.pushes],
            }
            for label, own in explanation.by_label.items()
        },
    }


def _spans_data(marked: Any) -> dict[str, Any]:
    """Return why the parts of a text have their labels as plain data."""
    return {
        "item": marked.id,
        "text": marked.text,
        "spans": [_plain(each) for each in marked.spans],
        "passed_over": [_plain(each) for each in marked.passed_over],
    }


def _plain(each: Any) -> dict[str, Any]:
    return {
        **each.span._asdict(),
        "text": each.text,
        "voted_for": list(each.voted_for),
        "voted_against": [list(pair) for pair in each.voted_against],
    }
