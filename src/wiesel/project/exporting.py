"""Exports a model with its features to one file: for NumPy alone, ONNX, or torch alone.

The graph is built by hand, so torch's exporter and its dependencies are not needed. Texts are put
into lower case character by character, with the mapping of Python's `str.lower`, and split by the
regular expression of `wiesel.features`, written as ranges of characters: what ONNX's own operators
call lower case and a word depends on the machine.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from wiesel.end_to_end.compiled import Compiled, compiled, write_torch_program
from wiesel.errors import MissingExtraError, ParameterError, SavedModelError
from wiesel.features.tfidf import word_pattern
from wiesel.io import replacing
from wiesel.project.bundle import Bundle
from wiesel.runtime import Predictor, category_text, load_predictor

__all__ = ["KINDS", "OPSET", "TOLERANCE", "Exported", "export_model", "onnx_feeds", "onnx_model"]

OPSET = 20
_IR_VERSION = 9
_NO_CHARACTER = "__"
"""What the mapping of characters gives for all that it leaves unchanged; no character is this."""
_SIGMA, _FINAL_SIGMA = "\u03a3", "\u03c2"
_CASED, _IGNORED = 1, 2
KINDS = {".npz": "NumPy", ".onnx": "ONNX", ".pt2": "torch.export"}
"""What the extension of an exported file means."""
TOLERANCE = 1e-5
"""How far exported probabilities may be from those of the model."""


def onnx_model(made: Compiled) -> ModelProto:
    """Return the ONNX model of a compiled model."""
    graph = _Graph(made)
    inputs = made.header["inputs"]
    if inputs["kind"] == "text":
        vectors = graph.text_vectors(inputs)
    elif inputs["kind"] == "tabular":
        vectors = graph.table_vectors(inputs)
    else:
        vectors = graph.plain_vectors()
    graph.answers(graph.probabilities(vectors))
    opsets = [("", OPSET), ("ai.onnx.ml", 3), ("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "wiesel", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[helper.make_opsetid(*opset) for opset in opsets],
        ir_version=_IR_VERSION,
        producer_name="wiesel",
        producer_version=made.header["wiesel"],
    )
    helper.set_model_props(model, {"labels": "\n".join(made.header["labels"])})
    return model


def onnx_feeds(made: Compiled, rows: Any) -> dict[str, npt.NDArray[Any]]:
    """Return rows as the inputs of the ONNX model; a missing category is an empty text."""
    inputs = made.header["inputs"]
    items = Predictor(made.header, made.arrays)._items(rows)
    if inputs["kind"] == "vectors":
        return {"vectors": items}
    if inputs["kind"] == "text":
        return {inputs["column"]: np.array(items, dtype=object)}
    numbers = {
        name: np.array([np.nan if row[name] is None else row[name] for row in items], np.float64)
        for name in inputs["numeric"]
    }
    texts = {
        name: np.array([category_text(row[name]) or "" for row in items], dtype=object)
        for name in inputs["categories"]
    }
    return {**numbers, **texts}


class _Graph:
    """Nodes, constants, inputs and outputs of a graph in the making."""

    def __init__(self, made: Compiled) -> None:
        self.header, self.arrays = made.header, made.arrays
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def add(self, operator: str, *given: str, domain: str = "", **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        node = helper.make_node(operator, list(given), [name], domain=domain, **attributes)
        self.nodes.append(node)
        return name

    def constant(self, values: Any, kind: Any = None) -> str:
        """Add a constant, and return its name."""
        name = f"constant_{len(self.constants)}"
        array = np.asarray(values, dtype=kind)
        if array.dtype.kind in "UO":
            texts = [str(text).encode() for text in array.ravel()]
            tensor = helper.make_tensor(name, TensorProto.STRING, array.shape, texts)
        else:
            tensor = numpy_helper.from_array(array.copy(order="C"), name)
        self.constants.append(tensor)
        return name

    def input(self, name: str, kind: int, *shape: Any) -> str:
        """Add an input whose first dimension is the items."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["items", *shape]))
        return name

    def plain_vectors(self) -> str:
        """Vectors as they are given, or standardized."""
        shape = ["features"]
        if "mean" in self.arrays:
            shape = [len(self.arrays["mean"])]  # type: ignore[list-item]
        vectors = self.input("vectors", TensorProto.FLOAT, *shape)
        return self.standardized(vectors)

    def standardized(self, vectors: str) -> str:
        """Columns with mean 0 and deviation 1, computed in double precision."""
        if "mean" not in self.arrays:
            return vectors
        exact = self.add("Cast", vectors, to=TensorProto.DOUBLE)
        centered = self.add("Sub", exact, self.constant(self.arrays["mean"], np.float64))
        scaled = self.add("Div", centered, self.constant(self.arrays["scale"], np.float64))
        return self.add("Cast", scaled, to=TensorProto.FLOAT)

    def table_vectors(self, inputs: Any) -> str:
        """Numbers standardized, with columns that mark missing ones; categories one-hot."""
        one = self.constant([1])
        parts = []
        if inputs["numeric"]:
            columns = [
                self.add("Unsqueeze", self.input(name, TensorProto.DOUBLE), one)
                for name in inputs["numeric"]
            ]
            numbers = self.add("Concat", *columns, axis=1)
            missing = self.add("IsNaN", numbers)
            centered = self.add("Sub", numbers, self.constant(self.arrays["mean"], np.float64))
            scaled = self.add("Div", centered, self.constant(self.arrays["scale"], np.float64))
            known = self.add("Where", missing, self.constant(0.0, np.float64), scaled)
            parts.append(self.add("Cast", known, to=TensorProto.FLOAT))
            if inputs["incomplete"]:
                places = [inputs["numeric"].index(name) for name in inputs["incomplete"]]
                flags = self.add("Gather", missing, self.constant(places, np.int64), axis=1)
                parts.append(self.add("Cast", flags, to=TensorProto.FLOAT))
        for name, categories in inputs["categories"].items():
            # A missing category arrives as an empty text, unless that is a category of its own.
            texts = ["" if text is None else text for text in categories]
            code = self.add(
                "LabelEncoder",
                self.input(name, TensorProto.STRING),
                domain="ai.onnx.ml",
                keys_strings=texts,
                values_int64s=list(range(len(texts))),
                default_int64=-1,
            )
            every = self.constant(np.arange(len(texts))[None], np.int64)
            same = self.add("Equal", self.add("Unsqueeze", code, one), every)
            parts.append(self.add("Cast", same, to=TensorProto.FLOAT))
        return self.add("Concat", *parts, axis=1)

    def text_vectors(self, inputs: Any) -> str:
        """TF-IDF along the main directions."""
        texts = self.input(inputs["column"], TensorProto.STRING)
        counts = self.counts(self.words(self.lower_case(texts)), inputs)
        known = self.add("Min", counts, self.constant(1.0, np.float32))
        logarithm = self.add("Log", self.add("Max", counts, self.constant(1.0, np.float32)))
        grown = self.add("Add", logarithm, self.constant(1.0, np.float32))
        weighted = self.add("Mul", grown, self.constant(self.arrays["idf"], np.float32))
        values = self.add("Mul", weighted, known)
        length = self.add("ReduceL2", values, self.constant([1]), keepdims=1)
        least = self.constant(1e-30, np.float32)
        unit = self.add("Div", values, self.add("Max", length, least))
        directions = self.constant(self.arrays["components"].T, np.float32)
        return self.standardized(self.add("MatMul", unit, directions))

    def counts(self, words: str, inputs: Any) -> str:
        """How often each term occurs in each text: (items, terms)."""
        by_length: dict[int, list[tuple[list[str], int]]] = {}
        for place, term in enumerate(inputs["terms"]):
            parts = term.split(" ")
            by_length.setdefault(len(parts), []).append((parts, place))
        pool: list[str] = []
        starts, places = [], []
        for length in range(1, inputs["longest_phrase"] + 1):
            starts.append(len(pool))
            for parts, place in by_length.get(length, []):
                pool += parts
                places.append(place)
        return self.add(
            "TfIdfVectorizer",
            words,
            mode="TF",
            min_gram_length=1,
            max_gram_length=inputs["longest_phrase"],
            max_skip_count=0,
            ngram_counts=starts,
            ngram_indexes=places,
            pool_strings=pool,
        )

    def words(self, texts: str) -> str:
        """The words of each text, filled up with empty texts: (items, words)."""
        split = self.add(
            "Tokenizer",
            texts,
            domain="com.microsoft",
            mark=0,
            pad_value="",
            tokenexp=word_pattern(),
            mincharnum=1,
        )
        # One more column, because there may be no word at all.
        return self.add("Concat", split, self.empty_column(split), axis=1)

    def empty_column(self, table: str) -> str:
        """A column of empty texts with the rows of a table."""
        n_rows = self.add("Slice", self.add("Shape", table), *self.range_of(0, 1))
        size = self.add("Concat", n_rows, self.constant([1]), axis=0)
        return self.add("Expand", self.constant([[""]]), size)

    def range_of(self, start: int, stop: int) -> tuple[str, str]:
        """The bounds of a slice."""
        return self.constant([start]), self.constant([stop])

    def lower_case(self, texts: str) -> str:
        """Texts in lower case, as by Python's `str.lower`."""
        split = self.add(
            "Tokenizer",
            texts,
            domain="com.microsoft",
            mark=0,
            pad_value="",
            separators=[""],
            mincharnum=1,
        )
        characters = self.add("Concat", split, self.empty_column(split), axis=1)
        mapping = _lower_case()
        mapped = self.add(
            "LabelEncoder",
            characters,
            domain="ai.onnx.ml",
            keys_strings=list(mapping),
            values_strings=list(mapping.values()),
            default_string=_NO_CHARACTER,
        )
        unchanged = self.add("Equal", mapped, self.constant(_NO_CHARACTER))
        lower = self.add("Where", unchanged, characters, mapped)
        lower = self.with_final_sigmas(characters, lower)
        return self.add("Squeeze", self.joined(lower), self.constant([1]))

    def with_final_sigmas(self, characters: str, lower: str) -> str:
        """The Greek capital sigma has another small letter at the end of a word."""
        kinds = _case_kinds()
        kind = self.add(
            "LabelEncoder",
            characters,
            domain="ai.onnx.ml",
            keys_strings=list(kinds),
            values_int64s=list(kinds.values()),
            default_int64=0,
        )
        is_sigma = self.add("Equal", characters, self.constant(_SIGMA))
        found = self.add("Cast", is_sigma, to=TensorProto.INT64)
        any_sigma = self.add("Cast", self.add("ReduceMax", found, keepdims=0), to=TensorProto.BOOL)
        outer, self.nodes = self.nodes, []
        before = self.next_to_letter(kind, reverse=0)
        after = self.next_to_letter(kind, reverse=1)
        final = self.add("And", is_sigma, self.add("And", before, self.add("Not", after)))
        changed = self.add("Where", final, self.constant(_FINAL_SIGMA), lower)
        then = helper.make_graph(self.nodes, "sigmas", [], [_any(changed, TensorProto.STRING)])
        self.nodes = outer
        same = helper.make_node("Identity", [lower], ["unchanged"])
        other = helper.make_graph([same], "none", [], [_any("unchanged", TensorProto.STRING)])
        return self.add("If", any_sigma, then_branch=then, else_branch=other)

    def next_to_letter(self, kind: str, reverse: int) -> str:
        """Whether the last character that counts, before each (or after), is a letter with case."""
        name = f"scan{reverse}"
        ignored = numpy_helper.from_array(np.int64(_IGNORED), f"{name}_ignored")
        cased = numpy_helper.from_array(np.int64(_CASED), f"{name}_cased")
        body = helper.make_graph(
            [
                helper.make_node("Identity", [f"{name}_state"], [f"{name}_seen"]),
                helper.make_node("Equal", [f"{name}_kind", f"{name}_ignored"], [f"{name}_skip"]),
                helper.make_node("Equal", [f"{name}_kind", f"{name}_cased"], [f"{name}_letter"]),
                # Where the value is ignored, what was known before it stays.
                helper.make_node("And", [f"{name}_skip", f"{name}_state"], [f"{name}_kept"]),
                helper.make_node("Or", [f"{name}_kept", f"{name}_letter"], [f"{name}_next"]),
            ],
            name,
            [_any(f"{name}_state", TensorProto.BOOL), _any(f"{name}_kind", TensorProto.INT64)],
            [_any(f"{name}_next", TensorProto.BOOL), _any(f"{name}_seen", TensorProto.BOOL)],
            [ignored, cased],
        )
        n_rows = self.add("Slice", self.add("Shape", kind), *self.range_of(0, 1))
        nothing = self.add("Expand", self.constant([False]), n_rows)
        outputs = [f"{name}_last", f"{name}_all"]
        self.nodes.append(
            helper.make_node(
                "Scan",
                [nothing, kind],
                outputs,
                num_scan_inputs=1,
                body=body,
                scan_input_axes=[1],
                scan_output_axes=[1],
                scan_input_directions=[reverse],
                scan_output_directions=[reverse],
            )
        )
        return outputs[1]

    def joined(self, characters: str) -> str:
        """Texts from their characters, (items, 1): neighbors are joined until one is left."""
        body = _Graph(Compiled(self.header, self.arrays))
        padded = body.add("Concat", "parts", body.odd_column("parts"), axis=1)
        end, axis, step = body.constant([2**62]), body.constant([1]), body.constant([2])
        first = body.add("Slice", padded, body.constant([0]), end, axis, step)
        second = body.add("Slice", padded, body.constant([1]), end, axis, step)
        shorter = body.add("StringConcat", first, second)
        several = body.is_wide(shorter)
        for tensor in body.constants:
            tensor.name = f"join_{tensor.name}"
        for node in body.nodes:
            node.input[:] = [_renamed(name) for name in node.input]
            node.output[:] = [_renamed(name) for name in node.output]
        graph = helper.make_graph(
            body.nodes,
            "join",
            [
                helper.make_tensor_value_info("join_number", TensorProto.INT64, []),
                helper.make_tensor_value_info("join_wanted", TensorProto.BOOL, []),
                _any("join_parts", TensorProto.STRING),
            ],
            [
                helper.make_tensor_value_info(f"join_{several}", TensorProto.BOOL, []),
                _any(f"join_{shorter}", TensorProto.STRING),
            ],
            body.constants,
        )
        return self.add("Loop", "", self.is_wide(characters), characters, body=graph)

    def width(self, table: str) -> str:
        """The number of columns: a vector of one number."""
        return self.add("Slice", self.add("Shape", table), *self.range_of(1, 2))

    def odd_column(self, table: str) -> str:
        """One column of empty texts for a table with an odd number of columns, else none."""
        n_rows = self.add("Slice", self.add("Shape", table), *self.range_of(0, 1))
        odd = self.add("Mod", self.width(table), self.constant([2]))
        return self.add("Expand", self.constant([[""]]), self.add("Concat", n_rows, odd, axis=0))

    def is_wide(self, table: str) -> str:
        """Whether a table has more than one column."""
        several = self.add("Greater", self.width(table), self.constant([1]))
        return self.add("Squeeze", several, self.constant([0]))

    def probabilities(self, vectors: str) -> str:
        """The weighted mean of the networks' probabilities."""
        several, parts = self.header["several"], []
        for network in self.header["networks"]:
            values = vectors
            for layer in network["layers"]:
                values = self.layer(layer, values)
            logits = self.add("Cast", values, to=TensorProto.DOUBLE)
            own = self.add("Sigmoid", logits) if several else self.add("Softmax", logits, axis=1)
            parts.append(self.add("Mul", own, self.constant(network["weight"], np.float64)))
        total = parts[0]
        for part in parts[1:]:
            total = self.add("Add", total, part)
        if "offsets" in self.arrays:
            offsets = self.constant(self.arrays["offsets"], np.float64)
            total = self.add("Softmax", self.add("Add", self.add("Log", total), offsets), axis=1)
        if "calibration" not in self.arrays:
            return total
        scale, offset = self.arrays["calibration"].T
        least, most = self.constant(1e-15), self.constant(1 - 1e-15)
        inside = self.add("Clip", total, least, most)
        odds = self.add("Div", inside, self.add("Sub", self.constant(1.0), inside))
        scaled = self.add("Mul", self.add("Log", odds), self.constant(scale))
        return self.add("Sigmoid", self.add("Add", scaled, self.constant(offset)))

    def layer(self, layer: Any, values: str) -> str:
        """One layer of a network."""
        kind = layer["kind"]
        if kind in ("linear", "scale"):
            weight = self.arrays[layer["weight"]]
            constant = self.constant(weight.T if kind == "linear" else weight, np.float32)
            product = self.add("MatMul" if kind == "linear" else "Mul", values, constant)
            if "bias" not in layer:
                return product
            return self.add("Add", product, self.constant(self.arrays[layer["bias"]], np.float32))
        operators = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "flatten": "Flatten"}
        return self.add(operators[kind], values)

    def answers(self, proba: str) -> None:
        """The outputs: probabilities, and the class by the tuned threshold."""
        labels = self.header["labels"]
        self.name_output(proba, "probabilities", TensorProto.DOUBLE, len(labels))
        threshold = self.header["threshold"]
        if self.header["several"]:
            limits = self.constant(threshold, np.float64)
            self.name_output(
                self.add("GreaterOrEqual", proba, limits), "present", TensorProto.BOOL, len(labels)
            )
            return
        if threshold is None:
            chosen = self.add("ArgMax", proba, axis=1, keepdims=0)
        else:
            second = self.add("Gather", proba, self.constant(1, np.int64), axis=1)
            reached = self.add("GreaterOrEqual", second, self.constant(threshold, np.float64))
            chosen = self.add("Cast", reached, to=TensorProto.INT64)
        names = self.constant(np.array(labels, dtype=object))
        self.name_output(self.add("Gather", names, chosen, axis=0), "label", TensorProto.STRING)

    def name_output(self, value: str, name: str, kind: int, *shape: int) -> None:
        """Make a value an output of the graph."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, ["items", *shape]))


def _any(name: str, kind: int) -> Any:
    """A value of any shape."""
    return helper.make_tensor_value_info(name, kind, None)


def _renamed(name: str) -> str:
    return f"join_{name}" if name else name


@cache
def _lower_case() -> Mapping[str, str]:
    """The characters that `str.lower` changes, and what it makes of each."""
    # Halves of pairs of characters (0xd800 to 0xdfff) are no text.
    every = (chr(n) for n in range(1, sys.maxunicode + 1) if not 0xD800 <= n <= 0xDFFF)
    return {character: low for character in every if (low := character.lower()) != character}


@cache
def _case_kinds() -> Mapping[str, int]:
    """The characters that Python counts as letters with case beside a sigma, and those it skips."""
    every = (chr(n) for n in range(1, sys.maxunicode + 1) if not 0xD800 <= n <= 0xDFFF)
    kinds = {}
    for character in every:
        if ("A" + character + _SIGMA).lower()[-1] == _FINAL_SIGMA:
            is_letter = (character + _SIGMA).lower()[-1] == _FINAL_SIGMA
            kinds[character] = _CASED if is_letter else _IGNORED
    return kinds


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

        from wiesel.project.exporting import OPSET, onnx_feeds, onnx_model
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
