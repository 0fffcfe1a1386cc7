"""Inputs of an end model as vectors for a linear model: numbers, images or token ids."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from torch import Tensor

from wiesel.errors import FeatureError
from wiesel.training.inputs import DatasetInputs, Inputs, as_inputs, is_matrix

__all__ = ["InputVectors"]

_AT_ONCE = 4_000_000
"""How many numbers are read at once."""
_WIDEST = 2_000
"""Wider vectors are projected first: the cost of a linear model grows with their square."""
_WIDEST_OF_ALL = 1_000_000
_MOST_PROJECTED = 2_000_000
"""The most items with wide vectors, because their projections are kept in memory."""
_DIRECTIONS = 200
"""The number of leading directions that wide vectors are projected to."""
_SAMPLE = 5_000
_SAMPLE_NUMBERS = 20_000_000
"""The most items, and the most numbers, used to find these directions."""
_TOKEN_IDS = "input_ids"  # the name that tokenizers give them

Rows = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]


class InputVectors(NamedTuple):
    """Inputs that are read as one vector for each item.

    Arrays of numbers, such as images, are flattened. Token ids, alone or in the output of a
    tokenizer, become token sets: each of the n tokens of an item has the value 1 / sqrt(n).

    >>> InputVectors.of(as_inputs(np.zeros((2, 3, 4, 4)))).width
    48
    >>> InputVectors.of(as_inputs({"input_ids": np.array([[5, 2, 0], [7, 0, 0]])})).width
    8
    """

    inputs: Inputs
    width: int
    """The length of the vectors; token ids beyond it are ignored."""

    @classmethod
    def of(cls, inputs: Inputs) -> "InputVectors | None":
        """Return inputs as vectors; None if they cannot be converted, or are too many."""
        if not len(inputs) or (isinstance(inputs, DatasetInputs) and not is_matrix(inputs)):
            return None
        first = inputs.take(np.arange(1))
        if isinstance(first, Tensor) and first.is_floating_point():
            found = cls(inputs, first.numel())
        elif _token_ids(first) is not None:
            parts = _read(inputs, np.arange(len(inputs)))
            found = cls(inputs, 1 + max(int(_ids_of(part).max()) for _, part in parts))
        else:
            return None
        too_many = found.is_wide and len(inputs) > _MOST_PROJECTED
        return None if too_many or not 0 < found.width <= _WIDEST_OF_ALL else found

    @property
    def is_wide(self) -> bool:
        """Whether the vectors must be projected for a linear model; token sets always are."""
        return self.width > _WIDEST or _token_ids(self.inputs.take(np.arange(1))) is not None

    def read(self, rows: Rows) -> Iterator[tuple[Rows, Any]]:
        """Yield rows and their vectors in chunks that fit into memory; token sets are sparse."""
        for chunk, batch in _read(self.inputs, rows):
            if _token_ids(batch) is not None:
                yield chunk, _sets_of_tokens(_ids_of(batch), self.width)
            else:
                yield chunk, self._numbers(batch)

    def _numbers(self, batch: Any) -> Array:
        is_numbers = isinstance(batch, Tensor) and batch.is_floating_point()
        width = batch[0].numel() if is_numbers else 0
        if width != self.width:
            found = f"{width} numbers" if is_numbers else "no numbers"
            raise FeatureError(
                f"An item of X has {found}, but the model learned from {self.width}: "
                "give the same kind of features as to fit."
            )
        numbers: Array = batch.flatten(1).double().numpy()
        return numbers

    def directions(self, rows: Rows) -> Array:
        """Return the leading directions (width, n) of the vectors of these items, by SVD.

        Tokens are weighted by their inverse document frequency.
        """
        most = min(_SAMPLE, max(_DIRECTIONS, _SAMPLE_NUMBERS // self.width))
        sample = np.random.default_rng(0).permutation(rows)[:most]
        parts = [part for _, part in self.read(sample)]
        if not sp.issparse(parts[0]):
            return _directions(np.concatenate(parts))
        tokens = sp.vstack(parts, format="csr")
        rarity = np.log(len(sample) / (1 + np.bincount(tokens.indices, minlength=self.width)))
        weights = sp.diags_array(np.maximum(rarity, 0.0))
        return np.asarray(weights @ _directions(tokens @ weights))

    def projected(self, directions: Array) -> "InputVectors":
        """Return the vectors of all items, projected to the directions."""
        parts = [
            np.asarray(part @ directions, dtype=np.float32)
            for _, part in self.read(np.arange(len(self.inputs)))
        ]
        return InputVectors(as_inputs(np.concatenate(parts)), directions.shape[1])


def _directions(vectors: Any) -> Array:
    from sklearn.utils.extmath import randomized_svd

    n_directions = min(_DIRECTIONS, *vectors.shape)
    _, _, transposed = randomized_svd(vectors, n_directions, n_iter=2, random_state=0)
    directions: Array = transposed.T
    return directions


def _read(inputs: Inputs, rows: Rows) -> Iterator[tuple[Rows, Any]]:
    at_once = max(1, _AT_ONCE // max(1, inputs.item_bytes // 4))
    for start in range(0, len(rows), at_once):
        chunk = rows[start : start + at_once]
        yield chunk, inputs.take(chunk)


def _token_ids(batch: Any) -> Tensor | None:
    """The token ids of a batch (items, tokens); None if there are none."""
    ids = batch.get(_TOKEN_IDS) if isinstance(batch, dict) else batch
    if not isinstance(ids, Tensor) or ids.is_floating_point() or ids.ndim != 2 or not ids.numel():
        return None
    return ids


def _ids_of(batch: Any) -> npt.NDArray[np.int64]:
    ids: npt.NDArray[np.int64] = _token_ids(batch).numpy()  # type: ignore[union-attr]
    return ids


def _sets_of_tokens(ids: npt.NDArray[np.int64], width: int) -> sp.csr_array:
    known = (ids >= 0) & (ids < width)
    items = np.nonzero(known)[0]
    cells = np.unique(items * width + ids[known])
    items, tokens = np.divmod(cells, width)
    n_tokens = np.bincount(items, minlength=len(ids))
    values = 1 / np.sqrt(n_tokens[items])
    return sp.csr_array((values, (items, tokens)), shape=(len(ids), width))
