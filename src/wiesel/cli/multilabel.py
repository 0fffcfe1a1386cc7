"""Multi-label versions of several verbs; not a verb itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wiesel.cli.verb import Answer, command_line, tell
from wiesel.errors import ParameterError

__all__ = [
    "apply_labels",
    "fit_labels",
    "inspect_labels",
    "write_soft_labels",
]


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
