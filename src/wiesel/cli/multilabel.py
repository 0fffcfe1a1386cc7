"""Multi-label versions of several verbs; not a verb itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wiesel.cli.project_options import OPEN, a_file_of
from wiesel.cli.verb import Answer, command_line, tell
from wiesel.errors import ParameterError

if TYPE_CHECKING:
    from wiesel.project.bundle import Bundle
    from wiesel.project.settings import Project
    from wiesel.project.training import Say

__all__ = [
    "apply_labels",
    "evaluate_labels",
    "explain_labels",
    "fit_labels",
    "inspect_labels",
    "run_labels",
    "write_soft_labels",
]


def run_labels(settings: "Project", methods: list[str] | None, say: "Say") -> Answer:
    """Run a multi-label project."""
    from wiesel.project import multilabel
    from wiesel.project.training import taken

    outcome = multilabel.run_labels(settings, methods, say)
    folder, data = settings.output_folder, outcome.data
    votes, row = data.votes["train"], outcome.first_voted
    voted = "dev" if "dev" in data.votes else "train"
    gold = data.gold[voted] if (data.gold[voted] >= 0).any() else None
    parts = [data.votes[voted].overview(gold).to_text()]
    split = outcome.judged_on
    parts += ["Not evaluated: there are no gold labels."] if split is None else []
    parts += [] if outcome.table is None else [outcome.table.to_text()]
    parts += [] if split is None else [str(outcome.main.reports[split])]
    explain: Any = outcome.main.model
    parts.append(str(explain.explain(taken(data.vectors.train, row), votes[row])))
    answer = {"output": folder, "report": folder / "report.html", **outcome.to_dict()}
    page = command_line(OPEN, folder / "report.html")
    step = command_line("wiesel", "predict", folder / "model", a_file_of(settings))
    return Answer(answer, "\n\n".join(parts), f"{page}, or: {step}")


def apply_labels(
    data: Path,
    lfs: Sequence[Path],
    output: Path,
    labels: list[str] | None,
    access: Any,
    **how: Any,
) -> Answer:
    """Run labeling functions that return sets of labels, and write their votes."""
    from wiesel.multilabel import apply_multilabel_lfs, load_multilabel_lfs, write_multilabel_votes

    loaded = load_multilabel_lfs(*lfs, access=access)
    names = labels or list(loaded.labels or ())
    if not names:
        raise ParameterError("The labels are unknown: name them with --labels.")
    votes = apply_multilabel_lfs(loaded, data, labels=names, **how)
    write_multilabel_votes(votes, output)
    tell(f"Wrote {output}.")
    table = votes.overview()
    result = {"output": output, "n_items": votes.n_items, "n_votes": votes.n_votes}
    result |= {"labels": table.to_records()}
    return Answer(result, table.to_text(), command_line("wiesel", "inspect", output))


def fit_labels(
    method: str, path: Path, output: Path, labels: list[str] | None, options: dict[str, Any]
) -> Answer:
    """Fit one label model per label, and save them together."""
    from wiesel.catalog import method as registered
    from wiesel.multilabel import PerLabel, read_multilabel_votes

    votes = read_multilabel_votes(path, labels=labels)
    own = {name: value for name, value in options.items() if name != "class_balance"}
    model = PerLabel(registered(method).cls(**own))
    model.fit(votes, class_balance=options.get("class_balance")).save(output)
    tell(f"Wrote {output}.")
    text = f"{method} fitted for each of {len(votes.labels)} labels on {votes.n_items:,} items."
    step = command_line("wiesel", "soft-labels", output, path, "-o", "soft_labels.parquet")
    return Answer({"method": method, "output": output, "options": options}, text, step)


def write_soft_labels(model: Any, path: Path, output: Path, output_format: str | None) -> Answer:
    """Write P(present) of every label for every item."""
    import polars as pl

    from wiesel.io import write_rows
    from wiesel.multilabel import read_multilabel_votes
    from wiesel.project.outputs import proba_columns
    from wiesel.vote_entries import id_series

    if output_format is not None:
        raise ParameterError("--format is for one label for each item; leave it out.")
    votes = read_multilabel_votes(path, labels=list(model.labels_))
    columns = proba_columns(model.predict_proba(votes), model.labels_)
    write_rows(pl.DataFrame([id_series(votes.ids).alias("id"), *columns]), output)
    tell(f"Wrote {output}.")
    text = f"{votes.n_items:,} items, labels {', '.join(model.labels_)}."
    result = {"output": output, "n_items": votes.n_items, "labels": list(model.labels_)}
    return Answer(result, text)


def inspect_labels(path: Path, labels: list[str] | None, gold: Path | None, column: str) -> Answer:
    """Describe a file of votes on several labels."""
    from wiesel.multilabel import read_multilabel_votes

    votes = read_multilabel_votes(path, labels=labels)
    truth = None if gold is None else _gold_of(votes, gold, column)
    overview, summary = votes.overview(truth), votes.summary(truth)
    data = {
        "n_items": votes.n_items,
        "n_voters": votes.n_voters,
        "n_votes": votes.n_votes,
        "labels": overview.to_records(),
        "voters": summary.to_records(),
    }
    text = f"{overview.to_text()}\n\n{summary.to_text()}"
    return Answer(data, text, command_line("wiesel", "run", "PROJECT"))


def evaluate_labels(bundle: "Bundle", inputs: Any, rows: Any, column: str, model: Path) -> Answer:
    """Evaluate a saved multi-label model on gold labels."""
    from wiesel.evaluation import evaluate
    from wiesel.project.multilabel import gold_labels

    if rows is None:
        raise ParameterError("A multi-label model is evaluated on a table with gold labels.")
    own: Any = bundle.model
    report = evaluate(own, inputs, gold_labels(rows, column, own.labels_))
    step = command_line("wiesel", "inspect", model)
    return Answer({"report": report.to_dict()}, str(report), step)


def explain_labels(explanation: Any) -> dict[str, Any]:
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


def _gold_of(votes: Any, path: Path, column: str) -> Any:
    """Return the gold labels of the items with votes, matched by id."""
    from wiesel.io import explained, read_rows
    from wiesel.project.multilabel import gold_labels
    from wiesel.project.rows import places_of, with_ids

    rows = read_rows(path)
    with explained(path):
        found = gold_labels(rows, column, votes.labels)
        ids = with_ids(rows, None)["id"]
    return found[places_of(votes.ids, ids, path, "gold labels", "items with votes")]
