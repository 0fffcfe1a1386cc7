"""`wiesel monitor`: whether new rows still look like those of training."""

from pathlib import Path
from typing import Annotated, Any

import typer

from wiesel.cli.project_options import LFFiles, ModelFolder, load_named
from wiesel.cli.verb import Answer, command_line, verb

__all__ = ["monitor"]


@verb
def monitor(
    model: ModelFolder,
    data: Annotated[Path, typer.Argument(help="A table of new rows; gold labels are used.")],
    lfs: LFFiles = [],  # noqa: B006 - never changed
    votes: Annotated[Path | None, typer.Option(help="Votes on these rows, instead.")] = None,
    label_column: Annotated[str, typer.Option(help="The column of gold labels.")] = "label",
    html: Annotated[Path | None, typer.Option(help="An HTML page to write.")] = None,
    level: Annotated[
        float, typer.Option(min=1e-6, max=0.5, help="The share of false alarms.")
    ] = 0.05,
) -> Answer:
    """Tell whether new rows differ from those of training.

    The exit code is 3 if they have changed. It compares features, predicted shares, confidence,
    with votes the coverage of every labeling function and how often the model agrees with it, and
    with gold labels the accuracy. Only Python files that --lfs names are run.
    """
    from wiesel.io import explained, read_rows
    from wiesel.project.monitoring import DRIFT
    from wiesel.project.monitoring import monitor as compare

    bundle = load_named(model, None, data)
    rows = read_rows(data)
    with explained(data):
        gold = None
        if label_column in rows.columns:
            gold = bundle.labels.indices(rows[label_column], allow_unknown=True)
        found = compare(bundle, rows, _votes(bundle, rows, lfs, votes), gold, level=level)
    if html is not None:
        from wiesel.unfinished import write_file

        write_file(html, found.to_html().encode())
    step = command_line("wiesel", "rows-to-label") if found.alarms else ""
    return Answer(found.to_dict(), str(found), step, exit_code=DRIFT if found.alarms else 0)


def _votes(bundle: Any, rows: Any, lfs: list[Path], votes: Path | None) -> Any:
    """The votes on the rows; None if neither functions nor votes are given."""
    if lfs:
        from wiesel.lfs import apply_lfs, load_lfs

        return apply_lfs(load_lfs(*lfs), rows, labels=bundle.labels)
    if votes is None:
        return None
    from wiesel.io import read_votes
    from wiesel.project.rows import places_of, with_ids

    found = read_votes(votes, labels=bundle.labels)
    return found[places_of(with_ids(rows, None)["id"], found.ids, votes, "votes", "rows")]
