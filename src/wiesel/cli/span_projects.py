"""Span versions of several verbs; not a verb itself."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wiesel.cli.project_options import OPEN, a_file_of
from wiesel.cli.verb import Answer, command_line

if TYPE_CHECKING:
    from wiesel.project.settings import Project
    from wiesel.project.training import Say

__all__ = [
    "evaluate_tagger",
    "explain_marked",
    "is_span_model",
    "run_spans",
]

_MARKED = 3


def run_spans(settings: "Project", methods: list[str] | None, say: "Say") -> Answer:
    """Run a span project."""
    from wiesel.project import spans

    outcome = spans.run_spans(settings, methods, say)
    folder, split = settings.output_folder, outcome.judged_on
    parts = [outcome.voters.to_text()]
    parts += ["There are no gold spans to evaluate on."] if split is None else []
    parts += [] if outcome.table is None else [outcome.table.to_text()]
    parts += [] if split is None else [str(outcome.main.reports[split])]
    parts += ["\n".join(map(str, outcome.marked(_MARKED)))]
    page = command_line(OPEN, folder / "report.html")
    step = command_line("wiesel", "predict", folder / "model", a_file_of(settings))
    answer = {"output": folder, "report": folder / "report.html", **outcome.to_dict()}
    return Answer(answer, "\n\n".join(parts), f"{page}, or: {step}")


def evaluate_tagger(model: Path, gold: Path) -> Answer:
    """Evaluate a saved tagger on a file of gold spans."""
    from wiesel.project.spans import evaluate_documents

    report = evaluate_documents(model, gold)
    step = command_line("wiesel", "inspect", model)
    return Answer({"report": report.to_dict()}, str(report), step)


def is_span_model(path: Path) -> bool:
    """Whether a folder contains a span model."""
    from wiesel.saving import read_manifest

    return path.is_dir() and "spans" in map(read_manifest(path).get, ("task", "kind"))


def explain_marked(model: Path, item: str, project: Path | None, confirm: Any) -> Answer:
    """Show one document with its spans, and the votes for and against them."""
    from wiesel.project.spans import explain_document

    marked = explain_document(model, item, project, confirm)
    data = {
        "item": marked.id,
        "text": marked.text,
        "spans": [_plain(each) for each in marked.spans],
        "passed_over": [_plain(each) for each in marked.passed_over],
    }
    step = command_line("wiesel", "predict", model, "FILE")
    return Answer(data, str(marked), step)


def _plain(each: Any) -> dict[str, Any]:
    return {
        **each.span._asdict(),
        "text": each.text,
        "voted_for": list(each.voted_for),
        "voted_against": [list(pair) for pair in each.voted_against],
    }
