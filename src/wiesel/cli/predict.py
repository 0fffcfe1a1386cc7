"""`wiesel predict`: classes and probabilities for rows, from a file or as a stream."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.model_options import EndModelName, ModelFolder, frame_and_inputs, load_named
from wiesel.cli.span_projects import is_span_model
from wiesel.cli.spans import predict_spans
from wiesel.cli.terminal import json_text
from wiesel.cli.verb import Answer, command_line, given_options, tell, verb
from wiesel.errors import DataError, ParameterError

if TYPE_CHECKING:
    from wiesel.project.bundle import Bundle

__all__ = ["predict"]

_AT_ONCE = 64
"""The maximum number of stream lines that are predicted together."""
_LONGEST_LINE = 64 * 2**20
_BLOCK = 2**20
_SHOWN = 20


@verb
def predict(
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
    end_model: EndModelName = None,
    engine: Annotated[
        str,
        typer.Option(help="local; ray; or ray:ADDRESS, a cluster, which reads Parquet files."),
    ] = "local",
) -> Answer | None:
    """Predict the classes of rows, or the spans of texts."""
    from wiesel.io.files import check_table_target
    from wiesel.io.rows import refuse_overwriting

    if is_span_model(model):
        return predict_spans(model, Path(data), output, id_column=id_column)
    refuse_overwriting([data], output)
    if engine != "local":
        return _on_cluster(model, data, output, id_column, (engine, end_model))
    check_table_target(output)
    bundle = load_named(model, end_model, data)
    if data == "-":
        _stream(bundle)
        return None
    from wiesel.io import explained, write_rows
    from wiesel.project.outputs import prediction_frame
    from wiesel.project.rows import with_ids

    rows, inputs = frame_and_inputs(bundle, Path(data))
    proba = bundle.model.predict_proba(inputs)
    with explained(data):
        ids = with_ids(_indexed(len(proba)) if rows is None else rows, id_column)["id"]
    frame = prediction_frame(ids, bundle.model, proba)
    if output is not None:
        write_rows(frame, output)
        tell(f"Wrote {output}.")
    counts = frame["prediction"].value_counts(sort=True).rows()
    text = "\n".join(f"{count:>8,}  {name}" for name, count in counts)
    options = given_options(end_model=end_model)
    step = ""
    if rows is not None and "label" in rows.columns and rows["label"].null_count() < len(rows):
        step = command_line("wiesel", "evaluate", model, data, *options)
    elif output is None:
        again = [*given_options(id=id_column), *options, "-o", "predictions.csv"]
        step = command_line("wiesel", "predict", model, data, *again)
    result: dict[str, Any] = {"n_items": len(frame), "counts": dict(counts)}
    if output is None:
        result["predictions"] = frame.to_dicts()
        text = frame.head(_SHOWN).write_csv(separator="\t", float_precision=4).rstrip()
        hidden = len(frame) - _SHOWN
        text += f"\n{hidden:,} more: write all of them with -o FILE" if hidden > 0 else ""
    return Answer(result, text, step)


def _on_cluster(
    model: Path,
    data: str,
    output: Path | None,
    id_column: str | None,
    named: tuple[str, str | None],
) -> Answer:
    from wiesel.project.ray_predictions import predict_on_ray

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


def _indexed(n_items: int) -> Any:
    import polars as pl

    return pl.DataFrame({"id": range(n_items)})


def _stream(bundle: "Bundle") -> None:
    """Read rows as JSON lines, and write each with its prediction as it arrives."""
    from wiesel.project.outputs import predicted_names
    from wiesel.saving import plain_data

    names = bundle.labels.names
    for batch in _batches(sys.stdin.buffer):
        proba = bundle.predict_proba([row for _, row in batch])
        predicted = predicted_names(bundle.model, proba)
        for (_, row), name, values in zip(batch, predicted, proba.tolist(), strict=True):
            known = {"id": row["id"]} if "id" in row else {}
            answer = {**known, "prediction": name, "proba": dict(zip(names, values, strict=True))}
            typer.echo(json_text(plain_data(answer)))  # an id may be NaN, which is no JSON
        sys.stdout.flush()


def _batches(stream: Any) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """Yield batches of the rows that have arrived, with their line numbers."""
    number, batch = 0, []
    for lines in _lines_as_they_arrive(stream):
        for line in lines:
            number += 1
            try:
                batch += [(number, _row(line, number))] if line.strip() else []
            except DataError:
                # The lines before the invalid one are answered first.
                if batch:
                    yield batch
                raise
            # Rows with other columns go into another table; a shared one would have empty cells.
            if len(batch) > 1 and batch[-1][1].keys() != batch[0][1].keys():
                yield batch[:-1]
                batch = batch[-1:]
            if len(batch) == _AT_ONCE:
                yield batch
                batch = []
        if batch:
            yield batch
            batch = []


def _lines_as_they_arrive(stream: Any) -> Iterator[list[bytes]]:
    """Yield the available lines without waiting for more, so that each typed line is answered."""
    rest = b""
    while block := stream.read1(_BLOCK):
        *lines, rest = (rest + block).split(b"\n")
        yield lines
        if len(rest) > _LONGEST_LINE:
            break
    if rest:
        yield [rest]


def _row(line: bytes, number: int) -> dict[str, Any]:
    if len(line) > _LONGEST_LINE:
        limit = f"{_LONGEST_LINE // 2**20} MB"
        raise DataError(f"Line {number} of the input is longer than {limit}; rows are JSON lines.")
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        problem = f"Line {number} of the input is not UTF-8 text, from its byte {error.start} on."
        raise DataError(problem) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"Line {number} of the input is not JSON: {error}.") from error
    if not isinstance(row, dict):
        raise DataError(
            f"Line {number} of the input is a {type(row).__name__}; each line is one object, such "
            'as {"text": "..."}.'
        )
    return row
