"""`wiesel inspect`: describes votes, a model or a project without running it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.annotation_files import Question, describe_annotations, is_many, votes_in
from wiesel.cli.multilabel import inspect_labels
from wiesel.cli.project_options import LabelNames, Ordered, free_folder, label_space
from wiesel.cli.prompts import describe_prompts
from wiesel.cli.verb import Answer, command_line, given_options, split_names, tell, verb
from wiesel.errors import DataError, listed

if TYPE_CHECKING:
    import polars as pl

    from wiesel.analysis.table import Table
    from wiesel.io.answers import AnswerColumns
    from wiesel.labels import LabelSpace
    from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["describe_rows", "inspect"]

_SHOWN = 48


@verb
def inspect(  # noqa: C901, PLR0913 - what it inspects, and the options of the command line
    path: Annotated[
        Path,
        typer.Argument(
            help="Votes (a file, a folder, a 'pattern*.parquet'), answers (a table, or a file of "
            "an annotation tool), rows (a table), a model, or a project."
        ),
    ],
    gold: Annotated[Path | None, typer.Option(help="A file with gold labels.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Its column of labels.")] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", "--item", help="The column of item ids.")
    ] = None,
    labels: LabelNames = None,
    ordered: Ordered = False,
    question: Question = None,
    before: Annotated[
        Path | None, typer.Option(help="Earlier votes: shows which ones changed, side by side.")
    ] = None,
    panel: Annotated[
        bool,
        typer.Option(
            "--panel", help="How many judges the voters are worth, and which one to drop."
        ),
    ] = False,
) -> Answer:
    """Describe votes, answers, rows, a saved model, or a project.

    Nothing is run, so this is safe for models and projects of others.
    """
    from wiesel.io.annotation import is_annotation_file
    from wiesel.multilabel.files import is_multilabel_votes

    aggregate = ["wiesel", "aggregate", path, "-o", "labels.csv"]
    fit = ["wiesel", "fit", "snorkel", path, "-o", "model"]
    if path.suffix == ".toml" or (path / "wiesel.toml").is_file():
        return _project_answer(path)
    if is_annotation_file(path):
        found = describe_annotations(path, split_names(labels), question)
        given = None if gold is None else _gold_of(found.votes, gold, id_column, label_column)
        truth = given if given is not None else found.gold if (found.gold >= 0).any() else None
        again = given_options(labels=labels, question=question)
        return _votes_answer(found.votes, truth, command_line(*aggregate, *again), people=True)
    columns, space = None, label_space(labels, ordered)
    if is_many(path):
        votes: VoteSource = votes_in(path, space)
    elif path.is_dir():
        return _versions_answer(path) if path.name.endswith("-versions") else _model_answer(path)
    elif is_multilabel_votes(path):
        return inspect_labels(path, split_names(labels), gold, label_column or "label")
    else:
        columns, is_rows = _answer_columns(path)
        if is_rows and labels is None:
            return describe_rows(path)
        votes, columns = _read(path, columns, space, id_column)
    truth = None if gold is None else _gold_of(votes, gold, id_column, label_column, columns)
    if columns is None:
        step = command_line(*fit, *given_options(labels=labels, ordered=ordered, id=id_column))
    else:
        step = command_line(
            *aggregate, *given_options(labels=labels, ordered=ordered, item=id_column)
        )
    answer = _votes_answer(votes, truth, step, people=columns is not None)
    if path.is_file():
        answer = _with_sources(answer, path, votes, before)
        answer = _with_panel(answer, path, votes, truth) if panel else answer
    return answer


def _versions_answer(path: Path) -> Answer:
    """The versions of a model that `wiesel promote` kept."""
    from wiesel.project.promoting import versions_of

    found = versions_of(path.with_name(path.name.removesuffix("-versions")))
    step = command_line("wiesel", "inspect", path / str(found.frame["version"].max()))
    return Answer({"versions": found.frame.to_dicts()}, found.to_text(), step)


def _answer_columns(path: Path) -> tuple["AnswerColumns | None", bool]:
    """Return the columns if the file has one row per answer, and whether it has plain rows."""
    from wiesel.io import existing_file, explained, scan_rows
    from wiesel.io.answers import looks_like_answers
    from wiesel.io.vote_files import vote_note

    existing_file(path)  # a name without an extension may be a folder that is not there
    with explained(path):
        if vote_note(path) is not None:
            return None, False
        columns = looks_like_answers(scan_rows(path).collect_schema().names())
    return columns, columns is None


def _read(
    path: Path,
    columns: "AnswerColumns | None",
    names: "LabelSpace | None",
    id_column: str | None,
) -> "tuple[VoteMatrix, AnswerColumns | None]":
    """Return the votes in a file; with `columns`, it has one row per answer."""
    from wiesel.io import explained, read_rows, read_votes
    from wiesel.io.answers import crowd_answers
    from wiesel.votes import VoteMatrix

    if columns is None:
        return read_votes(path, labels=names, id_column=id_column), None
    table = read_rows(path)
    with explained(path):
        rows, found, n_rejected, _ = crowd_answers(table, item=id_column)
        votes = VoteMatrix.from_long(
            rows,
            item=found.item,
            voter=found.voter,
            label=found.label,
            labels=names,
            duplicates="last",
        )
    tell(f"One row for each answer: {found.voter!r} answers {found.item!r} ({found.label!r}).")
    if n_rejected:
        tell(f"Left out: {n_rejected:,} rows of assignments that were rejected.")
    return votes, found


def _votes_answer(votes: "VoteSource", gold: Any, step: str, people: bool = False) -> Answer:
    from wiesel.analysis import agreement, findings, reliability, summarize
    from wiesel.analysis.summary import item_counts

    table, found, pairs = summarize(votes, gold), findings(votes, gold), agreement(votes)
    sentences = [f"  {row['sentence']}" for row in found.to_records()]
    text = "\n\n".join([table.to_text(), "\n".join([found.caption, *sentences]), pairs.caption])
    data = {
        "n_items": votes.n_items,
        "n_voters": len(votes.voters),
        "n_votes": int(table.frame["votes"].sum()),
        "classes": list(votes.labels),
        "covered": item_counts(votes).covered / votes.n_items if votes.n_items else None,
        "voters": table.to_records(),
        "findings": found.to_records(),
        "pairs": pairs.to_records(),
    }
    if people:
        agree = reliability(votes)  # type: ignore[arg-type]
        text, data["agreement"] = f"{text}\n{agree.sentence()}", agree.to_record()
    return Answer(data, text, step)


def _with_panel(answer: Answer, path: Path, votes: Any, truth: Any) -> Answer:
    """Add what the voters are worth as a panel; prices are those of the prompts behind them."""
    from wiesel.analysis import judge_panel
    from wiesel.io.vote_files import vote_note

    note = vote_note(path)
    costs = {name: own.get("cost") for name, own in note.sources.items()} if note else {}
    known = {name: cost for name in votes.voters if (cost := costs.get(name)) is not None}
    prices = known if len(known) == len(votes.voters) else None
    report = judge_panel(votes, truth, prices)
    data = {**answer.data, "panel": report.to_dict()}
    return Answer(data, f"{answer.text}\n\n{report}", answer.next_step)


def _with_sources(answer: Answer, path: Path, votes: Any, before: Path | None) -> Answer:
    """Add where votes come from, and which ones changed since earlier votes."""
    from wiesel.analysis import changed_votes
    from wiesel.io import read_votes
    from wiesel.io.vote_files import vote_note

    note = vote_note(path)
    sources = dict(note.sources) if note else {}
    parts, data = [answer.text], dict(answer.data)
    if sources:
        parts.append(describe_prompts(sources))
        data["sources"] = sources
    if before is not None:
        changes = changed_votes(read_votes(before, labels=votes.labels), votes)
        parts.append(f"Before ({before}) and after:\n{changes.to_text()}")
        data["changes"] = changes.to_records()
    return Answer(data, "\n\n".join(parts), answer.next_step)


def _gold_of(
    votes: "VoteSource",
    path: Path,
    id_column: str | None,
    label_column: str | None,
    answers: "AnswerColumns | None" = None,
) -> Any:
    """Return the gold labels of the items, matched by id, or in order if the file has no ids."""
    import numpy as np

    from wiesel.io import read_gold, scan_rows
    from wiesel.io.answers import find_gold_columns

    columns = scan_rows(path).collect_schema().names()
    known = find_gold_columns(columns, answers)
    id_column, label_column = id_column or known[0], label_column or known[1]
    if id_column in columns:
        ids = np.concatenate([part.ids for part in votes.parts()])
        return read_gold(path, votes.labels, ids, id_column=id_column, label_column=label_column)
    gold = read_gold(path, votes.labels, label_column=label_column)
    if len(gold) != votes.n_items:
        raise DataError(
            f"{path} has {len(gold)} labels for {votes.n_items} voted items and no column "
            f"{id_column!r} to match them by: name the column of ids with --id."
        )
    return gold


def _model_answer(path: Path) -> Answer:
    from wiesel.saving import other_files, read_manifest

    manifest = read_manifest(path)
    sizes = {
        entry.name: entry.stat().st_size
        for entry in sorted(path.iterdir())
        if entry.name in manifest["files"]
    }
    lines = [f"{manifest.get('class')} model, saved by Wiesel {manifest.get('wiesel')}"]
    lines += [
        f"  {name:<11} {_shown(manifest[name])}"
        for name in (
            "labels",
            "voters",
            "threshold",
            "thresholds",
            "selection",
            "trained_on",
            "features",
        )
        if name in manifest
    ]
    learned = _of_label_model(manifest)
    lines += [f"  {name:<11} {_shown(value)}" for name, value in learned.items()]
    first = manifest.get("label_model")
    lines += [f"  {'label_model':<11} {first.get('class')}"] if isinstance(first, dict) else []
    options = manifest.get("parameters")
    lines += ["options:"]
    lines += [
        f"  {name} = {_shown(value)}"
        for name, value in (options.items() if isinstance(options, dict) else ())
    ]
    lines += ["files:", *_file_lines(sizes)]
    others = other_files(path, manifest)
    if others:
        lines.append(f"NOT PART OF THE MODEL (loading refuses it): {listed(others)}")
    step = command_line("wiesel", "predict", path, "FILE")
    if learned:
        step = command_line("wiesel", "soft-labels", path, "VOTES", "-o", "soft_labels.csv")
    data = {"manifest": _unmarked(manifest), "bytes": sizes, "others": others}
    return Answer(data, "\n".join(lines), step)


def _of_label_model(manifest: dict[str, Any]) -> dict[str, Any]:
    """The classes and voters of a label model; nothing for other models."""
    learned = manifest.get("learned")
    if "labels" in manifest or not isinstance(learned, dict):
        return {}
    known = {name: learned.get(f"{name}_") for name in ("labels", "voters")}
    return {name: value for name, value in known.items() if value}


def _project_answer(path: Path) -> Answer:
    from wiesel.project.seen import project_overview
    from wiesel.project.settings import read_project

    found = project_overview(read_project(path))
    lines = [f"Project {found['name']}, {found['file']}"]
    names = ("task", "classes", "method", "end_model")
    lines += [f"  {name:<11} {_shown(found[name])}" for name in names]
    for title, kind in (("runs as Python, with all your rights:", "code"), ("reads:", "reads")):
        lines += [title, *(f"  {_file_line(file)}" for file in found[kind])]
        lines += [] if found[kind] else ["  nothing"]
    lines.append(f"writes into: {found['output']}")
    return Answer(found, "\n".join(lines), command_line("wiesel", "run", path))


def _file_lines(sizes: dict[str, int]) -> list[str]:
    """List files and their sizes; the many files of members share one line."""
    of_members = [size for name, size in sizes.items() if name.startswith("member")]
    own = {name: size for name, size in sizes.items() if not name.startswith("member")}
    if of_members:
        own[f"{len(of_members):,} files of members"] = sum(of_members)
    return [f"  {name:<26} {size:>12,} bytes" for name, size in own.items()]


def _file_line(file: dict[str, Any]) -> str:
    size = "is not there" if file["bytes"] is None else f"{file['bytes']:,} bytes"
    return f"{file['role']:<14} {file['path']}  ({size})"


def _unmarked(value: Any) -> Any:
    """The values of a manifest without the $ keys that mark tuples, labels and arrays."""
    if isinstance(value, list):
        return [_unmarked(part) for part in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and next(iter(value)).startswith("$"):
        return _unmarked(next(iter(value.values())))
    return {key: _unmarked(part) for key, part in value.items()}


def _shown(value: Any) -> str:
    """Describe a manifest value in a few words."""
    from wiesel.analysis.table import UNKNOWN

    if isinstance(value, list):
        if len(value) > 1 and all(part == value[0] for part in value):
            return _shown(value[0])  # the selected epoch, the same for all members
        few = ", ".join(map(_shown, value[:8]))
        return few if len(value) <= 8 else f"{few} and {len(value) - 8} more"
    marked = [name for name in value if name.startswith("$")] if isinstance(value, dict) else []
    if marked:  # manifests mark tuples, arrays and classes with a $ key
        return _shown(value[marked[0]])
    if isinstance(value, dict):
        known = {key: part for key, part in value.items() if part not in ({}, [])}
        return ", ".join(f"{key.replace('_', ' ')} {_shown(part)}" for key, part in known.items())
    if isinstance(value, float):
        return f"{value:.6g}"
    return UNKNOWN if value is None else str(value)


def describe_rows(path: Path) -> Answer:
    """Describe the columns of a table that has neither votes nor answers."""
    from wiesel.io import read_rows

    rows = read_rows(path)
    table = column_table(rows)
    note = (
        "These are rows without votes: put them into a project and write labeling functions. If "
        "the cells are votes, name their classes with --labels ham,spam."
    )
    data = {"n_rows": len(rows), "columns": table.to_records()}
    text = f"{table.to_text()}\n\n{note}"
    return Answer(data, text, command_line("wiesel", "init", free_folder()))


def column_table(rows: "pl.DataFrame") -> "Table":
    """Return a row per column: its type, missing and different values, and the most frequent."""
    import polars as pl

    from wiesel.analysis.table import Table, count, text

    frame = pl.DataFrame(
        {
            "column": pl.Series(rows.columns, dtype=pl.String),
            "type": [_kind(kind) for kind in rows.dtypes],
            "missing": [column.null_count() for column in rows],
            "different": [column.drop_nulls().n_unique() for column in rows],
            "frequent": [_frequent(column) for column in rows],
        },
        schema_overrides={"type": pl.String, "frequent": pl.String},
    )
    columns = (text("column"), text("type"), count("missing"), count("different"))
    caption = f"{len(rows):,} rows, {len(rows.columns)} columns"
    return Table(frame, (*columns, text("frequent", "most frequent, or first")), caption)


def _kind(kind: "pl.DataType") -> str:
    import polars as pl

    if kind.is_numeric():
        return "number" if kind.is_float() else "whole number"
    known = {pl.String: "text", pl.Boolean: "yes or no", pl.Null: "empty"}
    return known.get(kind.base_type(), "date" if kind.is_temporal() else "other")


def _frequent(column: "pl.Series") -> str:
    """The three most frequent values with their numbers; the first one if none is repeated."""
    values = column.drop_nulls()
    if values.is_empty():
        return ""
    if values.dtype.is_nested() or values.n_unique() > len(values) / 2:
        return _short(str(values[0]))
    counts = values.value_counts(sort=True).head(3).rows()
    return _short(", ".join(f"{value} ({n:,})" for value, n in counts))


def _short(value: str) -> str:
    one_line = " ".join(value[: 10 * _SHOWN].split())
    return one_line if len(one_line) <= _SHOWN else f"{one_line[: _SHOWN - 1]}…"
