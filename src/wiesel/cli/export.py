"""`wiesel export`: a model with its features as one file, for a service without Wiesel or torch."""

from collections.abc import Mapping
from os.path import isfile
from pathlib import Path
from typing import Annotated, Any

import typer

from wiesel.cli.project_options import EndModelName, ModelFolder, load_named
from wiesel.cli.verb import Answer, command_line, verb
from wiesel.errors import ParameterError

__all__ = ["export"]


@verb
def export(
    model: ModelFolder,
    rows: Annotated[
        Path | None,
        typer.Argument(
            help="Rows to check the file on, or X.npy; by default those of the project, if they "
            "are in the current folder."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="model.npz (NumPy), model.onnx or model.pt2 (torch)."),
    ] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="Write MODEL.onnx.")] = False,
    torch: Annotated[bool, typer.Option("--torch", help="Write MODEL.pt2.")] = False,
    end_model: EndModelName = None,
) -> Answer:
    """Write a model as one file, and check its predictions.

    An .npz needs only NumPy (`wiesel.runtime`), an .onnx only ONNX Runtime (extra `export`); both
    read raw texts or columns. A .pt2 (`torch.export`) holds any network, which reads vectors.
    """
    from wiesel.io import read_rows
    from wiesel.io.files import read_array
    from wiesel.project.exporting import export_model

    suffix = ".onnx" if onnx else ".pt2" if torch else ".npz"
    target = output or model.with_name(f"{model.name}{suffix}")
    if (onnx or torch) and target.suffix != suffix:
        raise ParameterError(f"{target} is not what --{'onnx' if onnx else 'torch'} writes.")
    bundle = load_named(model, end_model, rows or "")
    place = rows or _recorded(bundle.manifest)
    table = read_array(place)[:1000] if place.suffix == ".npy" else read_rows(place)[:1000]
    done = export_model(bundle, table, target)
    lines = [
        f"Wrote {done.path} ({done.kind}, {done.megabytes:.1f} MB).",
        *(f"  input {name}: {kind}" for name, kind in done.inputs.items()),
        *(f"  {note}" for note in done.notes),
        f"Checked on {done.n_checked:,} rows of {place}: probabilities differ by at most "
        f"{done.difference:.1g}.",
    ]
    data = {
        "file": done.path, "kind": done.kind, "inputs": dict(done.inputs), "notes": done.notes,
        "checked": done.n_checked, "difference": done.difference, "megabytes": done.megabytes,
    }  # fmt: skip
    step = ""
    if target.suffix == ".npz":
        step = command_line("python", "-m", "wiesel.runtime", target) + " < rows.jsonl"
    return Answer(data, "\n".join(lines), step)


def _recorded(manifest: Mapping[str, Any]) -> Path:
    """A table of the project that trained the model; only one in the current folder is read."""
    known, here = manifest.get("data"), Path.cwd().resolve()
    for split in ("test", "dev", "train"):
        facts = known.get(split) if isinstance(known, dict) else None
        file = facts.get("file") if isinstance(facts, dict) else None
        if isinstance(file, str) and isfile(file) and Path(file).resolve().is_relative_to(here):
            return Path(file)
    raise ParameterError(
        "An exported model is checked on real rows: name a table of them, such as "
        "wiesel export MODEL rows.csv -o model.npz"
    )
