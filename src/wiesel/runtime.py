"""Predicts with an exported model (`wiesel export model/ -o model.npz`), with NumPy only.

This file needs nothing else of Wiesel: no torch, no Polars, no scikit-learn. To install only that,
`pip install numpy` and `pip install --no-deps wiesel`.
"""

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import DataError, SavedModelError, suggest

__all__ = ["FORMAT", "Predictor", "category_text", "load_predictor", "main"]

FORMAT = 1
_WORD = re.compile(r"\w\w+")
_AT_ONCE = 1024
"""Rows that are predicted together."""
_GATHERED = 20_000
"""Words whose directions are in memory together."""

Numbers = npt.NDArray[np.float32]
Proba = npt.NDArray[np.float64]


class Predictor:
    """An exported model: raw rows in, classes and probabilities out.

    Rows are a list of dicts, a dict of columns, a table, or a list of texts; a model without saved
    features takes an array of vectors.
    """

    def __init__(self, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.labels: tuple[str, ...] = tuple(header["labels"])
        """The classes, in the order of the probabilities."""
        self.threshold: Any = header["threshold"]
        """For two classes: the second is predicted from this probability on; None is argmax. With
        several labels: one for each."""
        self.several = bool(header["several"])
        """Whether an item may have several of the labels."""
        self.inputs: Mapping[str, Any] = header["inputs"]
        """What the model reads: `kind`, and the names of columns."""
        self._networks = header["networks"]
        self._arrays = arrays
        self._places = {term: place for place, term in enumerate(header["inputs"].get("terms", ()))}
        if "components" in arrays:
            self._directions = np.ascontiguousarray(arrays["components"].T)

    def predict_proba(self, rows: Any) -> Proba:
        """Return P(class) of every row, or with several labels P(present) of each."""
        items = self._items(rows)
        parts = [
            self._proba(self._vectors(items[start : start + _AT_ONCE]))
            for start in range(0, len(items), _AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.empty((0, len(self.labels)))

    def predict(self, rows: Any) -> list[Any]:
        """Return the class of every row by the tuned threshold; with several labels, a tuple."""
        return self.decide(self.predict_proba(rows))

    def decide(self, proba: Proba) -> list[Any]:
        """Return the classes that the probabilities mean."""
        if self.several:
            present = proba >= np.asarray(self.threshold)
            return [
                tuple(name for name, own in zip(self.labels, row, strict=True) if own)
                for row in present
            ]
        if self.threshold is None:
            return [self.labels[k] for k in proba.argmax(axis=1)]
        return [self.labels[int(value >= self.threshold)] for value in proba[:, 1]]

    def _items(self, rows: Any) -> Any:
        """Texts, rows as dicts of the columns that are needed, or vectors."""
        kind = self.inputs["kind"]
        if kind == "vectors":
            array = np.asarray(rows, dtype=np.float32)
            if array.ndim < 2:
                raise DataError(f"This model takes vectors, items first; got {array.shape}.")
            return array
        if isinstance(rows, (str, bytes)):
            raise DataError("Rows are a list of dicts or of texts, not one string.")
        if kind == "text":
            return _texts(rows, self.inputs["column"])
        columns = [*self.inputs["numeric"], *self.inputs["categories"]]
        table = {name: _column(rows, name) for name in columns}
        return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]

    def _vectors(self, items: Any) -> Numbers:
        kind, arrays = self.inputs["kind"], self._arrays
        if kind == "tabular":
            return _table_vectors(items, self.inputs, arrays)
        vectors = self._text_vectors(items) if kind == "text" else items
        if "mean" in arrays:
            vectors = ((vectors - arrays["mean"]) / arrays["scale"]).astype(np.float32)
        found: Numbers = vectors
        return found

    def _text_vectors(self, texts: Sequence[str]) -> Numbers:
        """TF-IDF along the main directions: the same numbers as `TextFeatures`."""
        found = np.zeros((len(texts), self._directions.shape[1]), np.float32)
        counted = [self._terms(text) for text in texts]
        start = 0
        while start < len(counted):
            stop, size = start + 1, len(counted[start])
            while stop < len(counted) and size + len(counted[stop]) <= _GATHERED:
                size += len(counted[stop])
                stop += 1
            own = counted[start:stop]
            places = np.fromiter((p for one in own for p in one), np.int64, size)
            counts = np.fromiter((c for one in own for c in one.values()), np.float32, size)
            row = np.repeat(np.arange(len(own)), [len(one) for one in own])
            values = (np.log(counts) + 1) * self._arrays["idf"][places]
            lengths = np.sqrt(np.bincount(row, np.square(values, dtype=np.float64)))
            values = (values / lengths[row]).astype(np.float32) if size else values
            with_terms, starts = np.unique(row, return_index=True)
            if size:
                products = self._directions[places] * values[:, None]
                found[start + with_terms] = np.add.reduceat(products, starts, axis=0)
            start = stop
        return found

    def _terms(self, text: str) -> Counter[int]:
        """How often each known term occurs in a text, by its place."""
        words, longest = _WORD.findall(text.lower()), self.inputs["longest_phrase"]
        terms: Iterable[str] = words
        if longest > 1:
            terms = (
                " ".join(words[k : k + length])
                for length in range(1, longest + 1)
                for k in range(len(words) - length + 1)
            )
        places = self._places
        return Counter(places[term] for term in terms if term in places)

    def _proba(self, vectors: Numbers) -> Proba:
        """The weighted mean of the networks' probabilities."""
        total = np.zeros((len(vectors), len(self.labels)))
        for network in self._networks:
            values = vectors
            for layer in network["layers"]:
                values = _through(layer, values, self._arrays)
            total += np.asarray(network["weight"]) * _proba_of(values, self.several)
        if "offsets" in self._arrays:
            offsets = self._arrays["offsets"]
            total *= np.exp(offsets - offsets.max())
            total /= total.sum(axis=1, keepdims=True)
        if "calibration" not in self._arrays:
            return total
        scale, offset = self._arrays["calibration"].T
        total = np.clip(total, 1e-15, 1 - 1e-15)
        logits = np.log(total) - np.log1p(-total)
        return _sigmoid(logits * scale + offset)


def load_predictor(path: str | PathLike[str]) -> Predictor:
    """Return the model that `wiesel export` wrote; the file holds data only, and no code is run."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
    except FileNotFoundError:
        raise DataError(f"There is no file {path}.") from None
    except (KeyError, OSError, ValueError) as error:
        raise SavedModelError(
            f"{path} is no exported model ({error}): wiesel export MODEL -o model.npz writes one."
        ) from error
    if header.get("format") != FORMAT:
        raise SavedModelError(
            f"{path} has the format {header.get('format')!r}, and this version reads {FORMAT}: "
            "export the model again."
        )
    return Predictor(header, arrays)


def category_text(value: Any) -> str | None:
    """Return the text of a category, as in training: numbers and booleans as Polars writes them.

    >>> category_text(True), category_text(3), category_text(None)
    ('true', '3', None)
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, (float, np.floating)) and math.isnan(value):
        return "NaN"
    return str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict JSON lines from standard input: `python -m wiesel.runtime model.npz < rows.jsonl`."""
    words = sys.argv[1:] if arguments is None else arguments
    if len(words) != 1:
        sys.stderr.write("usage: python -m wiesel.runtime model.npz < rows.jsonl\n")
        return 2
    try:
        model = load_predictor(words[0])
        for batch in _batched(json.loads(line) for line in sys.stdin if line.strip()):
            proba = model.predict_proba(batch)
            for name, values in zip(model.decide(proba), proba.tolist(), strict=True):
                answer = {"prediction": name, "proba": dict(zip(model.labels, values, strict=True))}
                sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    except (DataError, SavedModelError, ValueError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    return 0


def _batched(rows: Iterable[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _column(rows: Any, name: str) -> list[Any]:
    """A column of a table, a dict of columns, or a list of dicts; a cell may be missing."""
    if isinstance(rows, Mapping) or hasattr(rows, "columns"):
        names = list(rows) if isinstance(rows, Mapping) else list(rows.columns)
        if name not in names:
            raise DataError(f"There is no column {name!r}. {suggest(name, map(str, names))}")
        values = rows[name]
        found = values.to_list() if hasattr(values, "to_list") else list(values)
    else:
        found = [row.get(name) if isinstance(row, Mapping) else None for row in rows]
        if found and not any(isinstance(row, Mapping) and name in row for row in rows):
            raise DataError(f"No row has {name!r}, which this model reads.")
    return [None if isinstance(cell, float) and math.isnan(cell) else cell for cell in found]


def _texts(rows: Any, column: str) -> list[str]:
    rows = rows if isinstance(rows, Mapping) or hasattr(rows, "columns") else list(rows)
    is_list = isinstance(rows, list) and all(isinstance(text, str) for text in rows)
    texts = rows if is_list else _column(rows, column)
    for place, text in enumerate(texts):
        if text is not None and not isinstance(text, str):
            raise DataError(f"The text of row {place} is {text!r:.80}, not a text.")
    return ["" if text is None else text for text in texts]


def _table_vectors(
    rows: Sequence[Mapping[str, Any]],
    inputs: Mapping[str, Any],
    arrays: Mapping[str, npt.NDArray[Any]],
) -> Numbers:
    """Numbers standardized, categories one-hot: the same numbers as `TabularFeatures`."""
    numeric = inputs["numeric"]
    numbers = np.empty((len(rows), len(numeric)))
    for place, name in enumerate(numeric):
        for row, cells in enumerate(rows):
            numbers[row, place] = _number(cells[name], name, row)
    missing = np.isnan(numbers)
    scaled = np.where(missing, 0, (numbers - arrays["mean"]) / arrays["scale"])
    flags = missing[:, [numeric.index(name) for name in inputs["incomplete"]]]
    parts = [scaled, flags]
    for name, known in inputs["categories"].items():
        codes = {category: place for place, category in enumerate(known)}
        found = [codes.get(category_text(cells[name]), -1) for cells in rows]
        parts.append(np.array(found, dtype=np.int64)[:, None] == np.arange(len(known)))
    return np.concatenate([part.astype(np.float32) for part in parts], axis=1)


def _number(value: Any, name: str, row: int) -> float:
    if value is None:
        return math.nan
    if isinstance(value, (str, bytes)) or not np.isscalar(value) or math.isinf(value):  # type: ignore[arg-type]
        raise DataError(f"{name!r} is {value!r:.80} in row {row}: it must be a finite number.")
    return float(value)  # type: ignore[arg-type]


def _through(
    layer: Mapping[str, Any], values: Numbers, arrays: Mapping[str, npt.NDArray[Any]]
) -> Numbers:
    kind = layer["kind"]
    if kind == "linear":
        bias = arrays[layer["bias"]] if layer.get("bias") else np.float32(0)
        return np.asarray(values @ arrays[layer["weight"]].T + bias)
    if kind == "relu":
        return np.maximum(values, 0)
    if kind == "tanh":
        return np.tanh(values)
    if kind == "sigmoid":
        return _sigmoid(values).astype(np.float32)
    if kind == "scale":
        return np.asarray(values * arrays[layer["weight"]] + arrays[layer["bias"]])
    if kind == "flatten":
        return values.reshape(len(values), -1)
    raise SavedModelError(f"This version knows no layer of the kind {kind!r}.")


def _proba_of(logits: Numbers, several: bool) -> Proba:
    numbers = logits.astype(np.float64)
    if several:
        return _sigmoid(numbers)
    powers = np.exp(numbers - numbers.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _sigmoid(values: npt.NDArray[Any]) -> Proba:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * values.astype(np.float64))))


if __name__ == "__main__":
    sys.exit(main())
