"""What an end model reads, whatever it came as: arrays, tensors, dicts of them, Datasets."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from wiesel.errors import FeatureError, listed

__all__ = ["Batchable", "Inputs", "as_inputs", "is_matrix", "move", "part"]

Batchable = Tensor | dict[str, Tensor]
"""What a module is called with: a tensor, or a dict of tensors as Hugging Face models take."""

_CHECKED_ROWS = 65_536


class Inputs(Protocol):
    """Items that can be taken by position."""

    item_bytes: int
    """How much memory one item takes in a batch."""

    def __len__(self) -> int: ...

    def take(self, rows: npt.NDArray[np.int64]) -> Batchable:
        """Return the items at these positions as one batch."""
        ...


def as_inputs(values: Any, name: str = "X") -> Inputs:
    """Return `values` as inputs, or say what is allowed.

    >>> len(as_inputs(np.zeros((4, 2))))
    4
    """
    if isinstance(values, Mapping):
        return DictInputs({str(key): value for key, value in values.items()}, name)
    if sp.issparse(values):
        return SparseInputs(values, name)
    if hasattr(values, "to_numpy") and not isinstance(values, (np.ndarray, Tensor)):
        values = values.to_numpy()
    if isinstance(values, (np.ndarray, Tensor)):
        return ArrayInputs(values, name)
    if isinstance(values, Dataset) or (
        hasattr(values, "__getitem__")
        and hasattr(values, "__len__")
        and not isinstance(values, (str, bytes, Sequence))
    ):
        return DatasetInputs(values, name)
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        return ArrayInputs(np.asarray(values), name)
    raise FeatureError(
        f"{name} must be an array, a tensor, a sparse matrix, a dict of tensors or a torch "
        f"Dataset with a length; got {type(values).__name__}."
    )


def is_matrix(inputs: Inputs) -> bool:
    """Whether the inputs are plain feature vectors: items x features, not token ids or images."""
    if isinstance(inputs, SparseInputs):
        return True
    return isinstance(inputs, ArrayInputs) and inputs.is_feature_matrix


def part(batch: Batchable, start: int, stop: int) -> Batchable:
    """Return some consecutive items of a batch, without copying."""
    if isinstance(batch, dict):
        return {key: value[start:stop] for key, value in batch.items()}
    return batch[start:stop]


def move(batch: Batchable, device: torch.device) -> Batchable:
    """Return the batch on the device."""
    if isinstance(batch, dict):
        return {key: value.to(device) for key, value in batch.items()}
    return batch.to(device)


class ArrayInputs:
    """A tensor or an array; a memory-mapped one is read batch by batch."""

    def __init__(self, values: npt.NDArray[Any] | Tensor, name: str) -> None:
        if values.ndim == 0 or (isinstance(values, np.ndarray) and values.dtype.kind not in "fiub"):
            raise FeatureError(
                f"{name} must be an array of numbers, items first; "
                f"got the shape {tuple(values.shape)} of {values.dtype}."
            )
        if isinstance(values, np.ndarray) and not isinstance(values, np.memmap):
            values = torch.from_numpy(np.ascontiguousarray(values))
        self._values = values
        self.item_bytes = 4 * int(np.prod(values.shape[1:], dtype=np.int64))
        self._check_finite(name)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def is_feature_matrix(self) -> bool:
        """Whether this is items x features of floating-point numbers."""
        return (
            self._values.ndim == 2 and self.take(np.arange(min(1, len(self)))).is_floating_point()
        )

    def take(self, rows: npt.NDArray[np.int64]) -> Tensor:
        """Return the items at these positions as one tensor."""
        if isinstance(self._values, Tensor):
            return _network_dtype(self._values[torch.from_numpy(rows)])
        return _network_dtype(torch.from_numpy(np.ascontiguousarray(self._values[rows])))

    def _check_finite(self, name: str) -> None:
        for start in range(0, len(self), _CHECKED_ROWS):
            rows = np.arange(start, min(start + _CHECKED_ROWS, len(self)))
            _refuse_non_finite(self.take(rows), rows, name)


class SparseInputs:
    """A SciPy sparse matrix; only the batch is ever dense."""

    def __init__(self, values: Any, name: str) -> None:
        self._values = sp.csr_array(values)
        self.item_bytes = 4 * self._values.shape[1]
        if not np.isfinite(self._values.data).all():
            raise FeatureError(f"{name} has values that are not finite numbers.")

    def __len__(self) -> int:
        return int(self._values.shape[0])

    def take(self, rows: npt.NDArray[np.int64]) -> Tensor:
        """Return the items at these positions as one dense tensor."""
        return torch.from_numpy(self._values[rows].toarray().astype(np.float32))


class DictInputs:
    """Several named tensors of the same length, as tokenizers return them."""

    def __init__(self, values: dict[str, Any], name: str) -> None:
        self._parts = {key: ArrayInputs(_array(v), f"{name}[{key!r}]") for key, v in values.items()}
        lengths = {key: len(inputs) for key, inputs in self._parts.items()}
        if len(set(lengths.values())) != 1:
            raise FeatureError(f"The tensors in {name} must be equally long; got {lengths}.")
        self.item_bytes = sum(inputs.item_bytes for inputs in self._parts.values())

    def __len__(self) -> int:
        return len(next(iter(self._parts.values())))

    def take(self, rows: npt.NDArray[np.int64]) -> dict[str, Tensor]:
        """Return the items at these positions, one tensor for each name."""
        return {key: inputs.take(rows) for key, inputs in self._parts.items()}


class DatasetInputs:
    """A map-style torch Dataset; of an item that is a tuple, the first element is the input."""

    def __init__(self, dataset: Any, name: str) -> None:
        if not hasattr(dataset, "__len__"):
            raise FeatureError(f"{name} must be a Dataset with a length; iterable ones have none.")
        self._dataset, self._name = dataset, name
        example = self.take(np.arange(min(1, len(self))))
        tensors = example.values() if isinstance(example, dict) else [example]
        self.item_bytes = sum(tensor.nbytes for tensor in tensors)

    def __len__(self) -> int:
        return len(self._dataset)

    def take(self, rows: npt.NDArray[np.int64]) -> Batchable:
        """Return the items at these positions, collated as a DataLoader would."""
        items = [self._dataset[int(row)] for row in rows]
        collated = default_collate([item[0] if isinstance(item, tuple) else item for item in items])
        if isinstance(collated, Tensor):
            _refuse_non_finite(collated, rows, self._name)
            return _network_dtype(collated)
        if isinstance(collated, Mapping):
            return {str(key): _network_dtype(value) for key, value in collated.items()}
        raise FeatureError(
            f"The items of {self._name} must be tensors, arrays, numbers or dicts of them, or "
            f"tuples that start with one; got {type(items[0]).__name__}."
        )


def _array(values: Any) -> npt.NDArray[Any] | Tensor:
    return values if isinstance(values, (np.ndarray, Tensor)) else np.asarray(values)


def _network_dtype(tensor: Tensor) -> Tensor:
    """Floats as float32 and integers as int64, which is what modules are made for."""
    return tensor.float() if tensor.is_floating_point() else tensor.long()


def _refuse_non_finite(tensor: Tensor, rows: npt.NDArray[np.int64], name: str) -> None:
    # A sum is not finite if any value is not: one pass without a mask in the good case.
    if not tensor.is_floating_point() or bool(torch.isfinite(tensor.double().sum())):
        return
    bad = (~torch.isfinite(tensor)).nonzero()
    if len(bad) == 0:
        return
    row, *position = bad[0].tolist()
    value = tensor[tuple(bad[0])].item()
    raise FeatureError(
        f"{name} is {value} at row {rows[row]}, position {listed(position)}: features must be "
        "finite numbers. Fill or drop missing values first."
    )
