"""Exports a model with its features to one file: for NumPy alone, ONNX, or torch without Wiesel."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.compiled import Compiled, compiled, write_torch_program
from wiesel.errors import MissingExtraError, ParameterError, SavedModelError
from wiesel.io import replacing
from wiesel.project.bundle import Bundle
from wiesel.runtime import load_predictor

__all__ = ["KINDS", "TOLERANCE", "Exported", "export_model"]

KINDS = {".npz": "NumPy", ".onnx": "ONNX", ".pt2": "torch.export"}
"""What the extension of an exported file means."""
TOLERANCE = 1e-5
"""How far exported probabilities may be from those of the model."""


@dataclass(frozen=True)
class Exported:
    """What was exported, and how far its predictions are from the model's."""

    path: Path
    kind: str
    inputs: Mapping[str, str]
    """The type of each input, by name."""
    n_checked: int
    difference: float
    """The largest difference of a probability on the rows that were checked."""
    notes: tuple[str, ...] = ()
    megabytes: float = 0.0


def export_model(bundle: Bundle, rows: Any, path: str | Path) -> Exported:
    """Write a model with its features to one file, and check it on real rows.

    The extension says what is written: `.npz` is read by `wiesel.runtime`, which needs only NumPy;
    `.onnx` by ONNX Runtime, in any language; `.pt2` by `torch.export.load`. `rows` is a table, or
    an array for a model that was saved without features. If the predictions of the file differ from
    those of the model by more than 0.00001, it is removed, and an error says so.
    """
    target = Path(path)
    if target.suffix not in KINDS:
        names = ", ".join(f"{suffix} ({kind})" for suffix, kind in KINDS.items())
        raise ParameterError(f"The extension of an exported model is one of {names}; got {target}.")
    is_array = isinstance(rows, np.ndarray)
    inputs = bundle.array_inputs(rows) if is_array else bundle.inputs(rows)
    expected = bundle.model.predict_proba(inputs)
    if not len(expected):
        raise ParameterError("An exported model is checked on real rows: give at least one.")
    write = {".npz": _write_numpy, ".onnx": _write_onnx, ".pt2": _write_torch}[target.suffix]
    with replacing(target) as unfinished:
        found, kinds, notes = write(bundle, (rows, inputs), unfinished)
        difference = float(np.abs(found - expected).max())
        if not difference <= TOLERANCE:
            raise SavedModelError(
                f"The exported model is {difference:.2g} from the model on these rows, which is "
                f"more than {TOLERANCE:g}: nothing was written. Please report it."
            )
        size = unfinished.stat().st_size / 1e6
    kind = KINDS[target.suffix]
    return Exported(target, kind, kinds, len(expected), difference, notes, size)


Written = tuple[npt.NDArray[Any], dict[str, str], tuple[str, ...]]
"""Predictions by the file, the types of its inputs, and what else to know."""


def _write_numpy(bundle: Bundle, rows: tuple[Any, Any], path: Path) -> Written:
    made = compiled(bundle.model, bundle.reader)
    header = np.frombuffer(json.dumps(made.header, ensure_ascii=False).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, header=header, **made.arrays)  # type: ignore[arg-type]
    model = load_predictor(path)
    return model.predict_proba(_raw(made, rows)), _input_types(made, bundle), _notes(made, bundle)


def _write_onnx(bundle: Bundle, rows: tuple[Any, Any], path: Path) -> Written:
    try:
        import onnxruntime

        from wiesel.project.onnx_graph import OPSET, onnx_feeds, onnx_model
    except ImportError as error:
        raise MissingExtraError(
            f"ONNX needs a package that is missing ({error.name}): pip install 'wiesel[export]'."
        ) from error
    made = compiled(bundle.model, bundle.reader)
    content = onnx_model(made).SerializeToString()
    path.write_bytes(content)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    feeds = onnx_feeds(made, _raw(made, rows))
    found = np.asarray(session.run(["probabilities"], feeds)[0])
    kinds = {each.name: f"{each.type} {each.shape}" for each in session.get_inputs()}
    notes = [f"opset {OPSET}", *_notes(made, bundle)]
    if made.header["inputs"]["kind"] == "text":
        notes.append("splits texts with operators of ONNX Runtime (com.microsoft)")
    return found, kinds, tuple(notes)


def _write_torch(bundle: Bundle, rows: tuple[Any, Any], path: Path) -> Written:
    found, kinds = write_torch_program(bundle.model, rows[1], path)
    note = "the network only: its inputs are the vectors that the features of the model make"
    return found, kinds, (note,)


def _raw(made: Compiled, rows: tuple[Any, Any]) -> Any:
    """The rows as the exported model takes them: a table, or vectors."""
    table, inputs = rows
    if made.header["inputs"]["kind"] != "vectors":
        return table
    return np.asarray(table if "mean" in made.arrays else inputs, dtype=np.float32)


def _input_types(made: Compiled, bundle: Bundle) -> dict[str, str]:
    inputs = made.header["inputs"]
    if inputs["kind"] == "text":
        return {inputs["column"]: "text"}
    if inputs["kind"] == "vectors":
        return {"vectors": f"numbers {bundle.manifest.get('inputs', {}).get('shape', '')}".strip()}
    kinds = dict.fromkeys(inputs["numeric"], "number")
    return {**kinds, **dict.fromkeys(inputs["categories"], "category")}


def _notes(made: Compiled, bundle: Bundle) -> tuple[str, ...]:
    kind = bundle.manifest.get("inputs", {}).get("kind")
    if made.header["inputs"]["kind"] != "vectors" or kind in (None, "given"):
        return ()
    return (
        f"vectors in: features of the kind {kind} are networks or tables of their own, which are "
        "not in the file; wiesel computes them (bundle.inputs(rows))",
    )
