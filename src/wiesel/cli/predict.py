"""`wiesel predict`: classes and probabilities for rows, from a file or as a stream."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.project_options import (
    EndModelName,
    ModelFolder,
    is_span_model,
    load_named,
)
from wiesel.cli.spans import predict_spans
from wiesel.cli.verb import Answer, command_line, given_options, json_text, tell, verb
from wiesel.errors import DataError, ParameterError

if TYPE_CHECKING:
    from wiesel.project.bundle import Bundle

__all__ = ["predict"]

_AT_ONCE = 2048
"""The maximum number of stream lines that are predicted together."""
_BLOCK = 2**20
_SHOWN = 20


@verb
def predict(  # noqa: PLR0913 - a command has an argument for each option
    model: ModelFolder,
    data: Annotated[
        str,
        typer.Argument(
            help="A table, a folder or 'pattern*.csv' of them, X.npy, or - for JSONL on stdin."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A table to write; with ray, a new folder of parts."),
    ] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The column of item ids.")] = None,
    votes: Annotated[
        Path | None,
        typer.Option(help="Votes on the rows, by wiesel apply, which a committee uses, too."),
    ] = None,
    end_model: EndModelName = None,
    engine: Annotated[
        str,
        typer.Option(help="local; ray; or ray:ADDRESS, a cluster, which reads Parquet files."),
    ] = "local",
    errors: Annotated[
        Path | None,
        typer.Option(
            help="A table (or with -, JSON lines) for bad rows; by default they have an `error` in "
            "the output."
        ),
    ] = None,
) -> Answer | None:
    """Predict the classes of rows, or the spans of texts.

    Rows are read and written in pieces, and an interrupted call continues where it was. A row that
    cannot be predicted gets an error instead of a class; if there are any, the exit code is 3.
    """
    from wiesel.io.files import check_table_target
    from wiesel.io.rows import refuse_overwriting

    if is_span_model(model):
        return predict_spans(model, Path(data), output, id_column=id_column)
    refuse_overwriting([data, *([votes] if votes else [])], output, errors)
    if votes is not None and (engine != "local" or data == "-" or errors is not None):
        raise ParameterError("--votes needs rows in a file: leave out --engine and --errors.")
    if engine != "local":
        return _on_cluster(model, data, output, id_column, (engine, end_model))
    check_table_target(output)
    bundle = load_named(model, end_model, data)
    if data == "-":
        return _stream(bundle, errors)
    check_table_target(errors)
    if votes is not None:
        return _of_votes(bundle, Path(data), votes, output, id_column)
    if Path(data).suffix == ".npy":
        return _of_array(bundle, Path(data), output)
    return _of_rows(bundle, (model, data), (output, errors), given_options(id=id_column), end_model)


def _of_rows(
    bundle: "Bundle",
    given: tuple[Path, str],
    targets: tuple[Path | None, Path | None],
    ids: list[str],
    end_model: str | None,
) -> Answer:
    """Predict the rows of files, piece by piece."""
    from wiesel.project.predicting import BAD_ROWS, predict_file

    (model, data), (output, errors) = given, targets
    found = predict_file(bundle, data, output, ids[1] if ids else None, errors)
    counts = dict(found.counts.most_common())
    result: dict[str, Any] = {"n_items": found.n_items, "counts": counts, **_threshold(bundle)}
    for file in filter(None, targets):
        tell(f"Wrote {file}.")
    text = _counted(counts)
    if found.frame is not None:
        result["predictions"] = found.frame.to_dicts()
        text = _shown(found.frame)
    named = given_options(end_model=end_model)
    step = command_line("wiesel", "evaluate", model, data, *named)
    if not _has_labels(data):
        again = (*ids, *named, "-o", "predictions.csv")
        step = "" if output else command_line("wiesel", "predict", model, data, *again)
    if found.n_errors:
        result |= {"n_errors": found.n_errors, "errors": found.examples}
        tell(f"{found.n_errors:,} of {found.n_items:,} rows could not be predicted:")
        for problem in found.examples:
            tell(f"  {problem}")
    return Answer(result, text, step, exit_code=BAD_ROWS if found.n_errors else 0)


def _of_array(bundle: "Bundle", data: Path, output: Path | None) -> Answer:
    """Predict the vectors of an array."""
    import polars as pl

    from wiesel.project.outputs import prediction_frame

    _, inputs = bundle.file_inputs(data)
    proba = bundle.model.predict_proba(inputs)
    ids = pl.Series("id", range(len(proba)), pl.Int64)
    return _told(prediction_frame(ids, bundle.model, proba), output, _threshold(bundle))


def _of_votes(
    bundle: "Bundle", data: Path, votes_file: Path, output: Path | None, id_column: str | None
) -> Answer:
    """Predict rows from their features and from the votes on them."""
    import polars as pl

    from wiesel.end_to_end import Committee
    from wiesel.io import explained, read_votes
    from wiesel.project.outputs import proba_columns
    from wiesel.project.rows import places_of
    from wiesel.tables import require_columns

    model = bundle.model
    if not isinstance(model, Committee):
        raise ParameterError(
            f"--votes is for models of the method committee; this is a {type(model).__name__}."
        )
    rows, inputs = bundle.file_inputs(data)
    votes = read_votes(votes_file, labels=bundle.labels)
    if rows is None:
        ids = pl.Series("id", range(votes.n_items))
    else:
        require_columns(rows, [id_column or "id"], "the ids of the rows, by which votes are found")
        ids = rows[id_column or "id"].alias("id")
        votes = votes[places_of(ids, votes.ids, votes_file, "votes", "rows")]
    with explained(votes_file):
        proba = model.predict_proba(inputs, votes.select(model.voters_))
    names = pl.Series(bundle.labels.names, dtype=pl.String).gather(proba.argmax(axis=1))
    columns = proba_columns(proba, bundle.labels)
    return _told(pl.DataFrame([ids, names.alias("prediction"), *columns]), output, {})


def _told(frame: Any, output: Path | None, more: dict[str, Any]) -> Answer:
    """Write predictions, or show them; `more` is part of the result."""
    from wiesel.io import write_rows

    counts = dict(frame["prediction"].value_counts(sort=True).iter_rows())
    result: dict[str, Any] = {"n_items": len(frame), "counts": counts, **more}
    if output is None:
        return Answer({**result, "predictions": frame.to_dicts()}, _shown(frame))
    write_rows(frame, output)
    tell(f"Wrote {output}.")
    return Answer(result, _counted(counts))


def _threshold(bundle: "Bundle") -> dict[str, Any]:
    """The threshold in use, which is also said if it is not 1/2; nothing with other tasks."""
    used = bundle.model.threshold_
    if len(bundle.labels) != 2 or not isinstance(used, (float, int)):
        return {}
    if used != 0.5:
        name = list(bundle.labels)[1]
        tell(f"The threshold is {used:.2f}: from this probability on, {name!r} is predicted.")
    return {"threshold": float(used)}


def _shown(frame: Any) -> str:
    text: str = frame.head(_SHOWN).write_csv(separator="\t", float_precision=4).rstrip()
    hidden = len(frame) - _SHOWN
    return text + (f"\n{hidden:,} more: write all of them with -o FILE" if hidden > 0 else "")


def _counted(counts: dict[str, int]) -> str:
    return "\n".join(f"{count:>8,}  {name}" for name, count in counts.items())


def _has_labels(data: str) -> bool:
    """Whether rows have gold labels, as far as their beginning shows."""
    from wiesel.io.rows import read_batches

    try:
        first = next(iter(read_batches(data, batch_size=1000)))
    except DataError:
        return False
    return "label" in first.columns and first["label"].null_count() < len(first)


def _on_cluster(
    model: Path,
    data: str,
    output: Path | None,
    id_column: str | None,
    named: tuple[str, str | None],
) -> Answer:
    from wiesel.project.predicting import predict_on_ray

    engine, end_model = named
    kind, _, address = engine.partition(":")
    if kind != "ray":
        raise ParameterError(f"--engine is local, ray or ray:ADDRESS; got {engine!r}.")
    if output is None:
        raise ParameterError("With --engine ray predictions are files: name a new folder with -o.")
    if end_model is not None:
        raise ParameterError(
            "A network of your own cannot be loaded on other machines by its name: use "
            "--engine local, one call for each file."
        )
    counts = predict_on_ray(model, data, output, id_column, address or None)
    tell(f"Wrote {output}.")
    text = "\n".join(f"{count:>8,}  {name}" for name, count in counts.items())
    return Answer({"n_items": sum(counts.values()), "counts": counts}, text)


def _stream(bundle: "Bundle", errors: Path | None) -> Answer:
    """Read rows as JSON lines, and write each with its prediction as it arrives."""
    from wiesel.project.predicting import BAD_ROWS, predict_records
    from wiesel.saving import plain_data

    n_items = n_errors = 0
    with nullcontext() if errors is None else errors.open("w", encoding="utf-8") as apart:
        for batch in _batches(sys.stdin.buffer):
            rows = [row for _, row, _ in batch]
            answers = predict_records(bundle, rows, [problem for *_, problem in batch])
            for (number, *_), answer in zip(batch, answers, strict=True):
                n_items += 1
                if "error" in answer:
                    n_errors += 1
                    answer = {"line": number, **answer}
                line = json_text(plain_data(answer))  # an id may be NaN, which is no JSON
                if apart is not None and "error" in answer:
                    apart.write(f"{line}\n")
                else:
                    typer.echo(line)
            sys.stdout.flush()
    if n_errors:
        tell(f"{n_errors:,} of {n_items:,} lines could not be predicted.")
    return Answer({}, exit_code=BAD_ROWS if n_errors else 0, quiet=True)


_Line = tuple[int, dict[str, Any] | None, str]
"""The number of a line, the row in it, and what is wrong with it."""


def _batches(stream: Any) -> Iterator[list[_Line]]:
    """Yield batches of the rows that have arrived, with their line numbers."""
    from wiesel.io.lenient import json_row

    number = 0
    for lines in _lines_as_they_arrive(stream):
        batch: list[_Line] = []
        for line in lines:
            number += 1
            if not line.strip():
                continue
            try:
                batch.append((number, json_row(line, number), ""))
            except DataError as error:
                batch.append((number, None, str(error)))
            if len(batch) == _AT_ONCE:
                yield batch
                batch = []
        if batch:
            yield batch


def _lines_as_they_arrive(stream: Any) -> Iterator[list[bytes]]:
    """Yield the available lines without waiting for more, so that each typed line is answered."""
    from wiesel.io.lenient import LONGEST_LINE

    rest, skipped = b"", False
    while block := stream.read1(_BLOCK):
        *lines, rest = (rest + block).split(b"\n")
        if skipped and lines:  # the end of a line that was too long
            lines, skipped = lines[1:], False
        yield lines
        if len(rest) > LONGEST_LINE:
            yield [rest] if not skipped else []
            rest, skipped = b"", True
    if rest and not skipped:
        yield [rest]
