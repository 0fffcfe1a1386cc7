"""The inputs of an end model: arrays, tensors, dicts of them, Datasets."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from wiesel.errors import FeatureError, listed
from wiesel.io.dataset import Dataset as LoadedDataset
from wiesel.io.dataset import Split
from wiesel.spans.documents import Documents
from wiesel.tables import MappedFile, in_order_of, mapped_file, read_rows
from wiesel.threads import one_thread
from wiesel.training.token_inputs import TokenInputs
from wiesel.votes import VoteMatrix

__all__ = [
    "Batchable",
    "Inputs",
    "as_batch",
    "as_inputs",
    "column_names",
    "is_matrix",
    "is_ready",
    "item_width",
    "joined",
    "move",
    "part",
    "portable",
    "reopen",
]

Batchable = Tensor | dict[str, Tensor]
"""What a module is called with: a tensor, or a dict of tensors as Hugging Face models take."""

_CHECKED_BYTES = 64 * 2**20
_VECTORS = "Turn texts and pictures into numbers first, for example with wiesel.TextFeatures."
_MAPPED_BYTES = 64 * 2**20
"""Larger memory-mapped files are read item by item, so that they never are in memory."""
Array = npt.NDArray[Any]


class Inputs(Protocol):
    """Items that can be taken by position."""

    item_bytes: int
    """How much memory one item takes in a batch."""

    def __len__(self) -> int: ...

    def take(self, rows: npt.NDArray[np.int64]) -> Batchable:
        """Return the items at these positions as one batch."""
        ...


def as_inputs(values: Any, name: str = "X", votes: Any = None) -> Inputs:
    """Return `values` as inputs, or raise an error that lists what is allowed.

    With `votes`, they are in the order of the votes: matched by id where both have ids.

    >>> len(as_inputs(np.zeros((4, 2))))
    4
    """
    if is_ready(values):
        made: Inputs = values
        return made
    if isinstance(values, Documents):
        return TokenInputs(values)
    if isinstance(values, DataLoader):
        values = _loaded(values, name)
    if not isinstance(values, (np.ndarray, Tensor)):  # these have no ids
        values = in_order_of(votes, values, name, drop_ids=True)
    return _made_inputs(values, name)


def _loaded(loader: DataLoader[Any], name: str) -> Any:
    """The Dataset of a DataLoader; training makes batches of its own, of `batch_size` items."""
    if loader.collate_fn is default_collate:
        return loader.dataset
    raise FeatureError(
        f"{name} is a DataLoader with a collate_fn of its own, which training would not call. Give "
        "a Dataset whose items are ready: tensors, or dicts of them."
    )


def _made_inputs(values: Any, name: str) -> Inputs:
    if sp.issparse(values):  # first, because one of its formats is a dict as well
        return SparseInputs(values, name)
    if isinstance(values, Mapping):
        return DictInputs({str(key): value for key, value in values.items()}, name)
    if isinstance(values, TensorDataset):
        values = values.tensors[0]  # already in memory: sliced, not collated item by item
    if isinstance(values, (np.ndarray, Tensor)):
        return ArrayInputs(values, name)
    if isinstance(values, Dataset):
        return DatasetInputs(values, name)
    if _is_array_like(values):
        return ArrayInputs(_array(values, name), name, _columns(values))
    if hasattr(values, "__getitem__") and hasattr(values, "__len__") and _is_no_text(values):
        return DatasetInputs(values, name)
    raise FeatureError(
        f"{name} must be an array, a tensor, a sparse matrix, a dict of tensors or a torch "
        f"Dataset with a length; got {type(values).__name__}.{_advice(values)}"
    )


def _advice(values: object) -> str:
    """Advice for a data set of `wiesel.io`, which contains more than feature vectors."""
    if isinstance(values, LoadedDataset):
        return " Give the vectors of one split, such as dataset.train.features."
    if isinstance(values, Split):
        if values.features is not None:
            return " Give its vectors: split.features."
        return f" This split has no vectors. {_VECTORS}"
    return ""


def as_batch(x: Any) -> Any:
    """One item, such as `X[17]`, as a batch of one; a matrix with one row is returned as is."""
    if isinstance(x, tuple):
        x = x[0]
    if isinstance(x, dict):
        return {key: np.asarray(value)[None] for key, value in x.items()}
    if sp.issparse(x):
        x = x.toarray()  # type: ignore[attr-defined]
    array = x if isinstance(x, Tensor) else np.asarray(x)
    return array if array.ndim == 2 and array.shape[0] == 1 else array[None]


def is_ready(values: object) -> bool:
    """Whether these are already inputs, as returned by `as_inputs`."""
    kinds = (ArrayInputs, DictInputs, SparseInputs, DatasetInputs, JoinedInputs, TokenInputs)
    return isinstance(values, kinds)


def item_width(inputs: Inputs) -> int:
    """Return how many numbers an item has."""
    return inputs.item_bytes // 4


def is_matrix(inputs: Inputs) -> bool:
    """Whether the inputs are plain feature vectors: items x features, not token ids or images."""
    if isinstance(inputs, JoinedInputs):
        return all(map(is_matrix, inputs.parts))
    if isinstance(inputs, SparseInputs):
        return True
    return isinstance(inputs, (ArrayInputs, DatasetInputs)) and inputs.is_feature_matrix


def column_names(inputs: Inputs) -> tuple[str, ...] | None:
    """Return the names of the features if the inputs are a table, else None."""
    return inputs.columns if isinstance(inputs, ArrayInputs) else None


def joined(parts: Sequence[Inputs], name: str = "X") -> Inputs:
    """Return the items of several inputs, one after the other; nothing is copied.

    >>> both = joined([as_inputs(np.zeros((2, 1))), as_inputs(np.ones((3, 1)))])
    >>> both.take(np.array([4, 0])).tolist()
    [[1.0], [0.0]]
    """
    return parts[0] if len(parts) == 1 else JoinedInputs(parts, name)


def part(batch: Batchable, start: int, stop: int) -> Batchable:
    """Return a range of consecutive items of a batch, without copying."""
    if isinstance(batch, dict):
        return {key: value[start:stop] for key, value in batch.items()}
    return batch[start:stop]


def move(batch: Batchable, device: torch.device) -> Batchable:
    """Return the batch on the device."""
    if isinstance(batch, dict):
        return {key: value.to(device) for key, value in batch.items()}
    return batch.to(device)


class ArrayInputs:
    """A tensor or an array; what torch cannot share, such as a memory map, is read in batches."""

    def __init__(
        self,
        values: npt.NDArray[Any] | Tensor,
        name: str,
        columns: tuple[str, ...] | None = None,
    ) -> None:
        values = _numbers(values)
        if values.ndim == 0 or not _is_numeric(values):
            raise FeatureError(
                f"{name} must be an array of numbers, items first; "
                f"got the shape {tuple(values.shape)} of {values.dtype}. {_VECTORS}"
            )
        if values.ndim == 2:
            _refuse_no_features(tuple(values.shape), name)
        self._values, self.columns = _shared(values), columns
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
        is_large = isinstance(self._values, np.memmap) and self._values.nbytes > _MAPPED_BYTES
        taken = read_rows(self._values, rows) if is_large else self._values[rows]
        return _network_dtype(torch.from_numpy(_native(taken)))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_values": portable(self._values)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._values = _shared(reopen(state["_values"]))

    @one_thread()
    def _check_finite(self, name: str) -> None:
        at_once = max(1, _CHECKED_BYTES // max(1, self.item_bytes))
        for start in range(0, len(self), at_once):
            rows = np.arange(start, min(start + at_once, len(self)))
            _refuse_non_finite(self.take(rows), rows, name)


class SparseInputs:
    """A SciPy sparse matrix; only the batch is ever dense."""

    def __init__(self, values: Any, name: str) -> None:
        if values.ndim != 2 or values.dtype.kind not in "fiub":
            raise FeatureError(
                f"{name} must be a sparse matrix of numbers, items x features; "
                f"got the shape {values.shape} of {values.dtype}."
            )
        _refuse_no_features(values.shape, name)
        self._values = sp.csr_array(values)
        self.item_bytes = 4 * self._values.shape[1]
        with np.errstate(over="ignore"):  # values beyond float32 become infinite and are refused
            self._values = self._values.astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(self._values.data))
        if len(bad):
            row = int(np.searchsorted(self._values.indptr, bad[0], side="right")) - 1
            column = int(self._values.indices[bad[0]])
            raise _not_finite(name, float(self._values.data[bad[0]]), row, [column])

    def __len__(self) -> int:
        return int(self._values.shape[0])

    def take(self, rows: npt.NDArray[np.int64]) -> Tensor:
        """Return the items at these positions as one dense tensor."""
        return torch.from_numpy(self._values[rows].toarray())


class DictInputs:
    """Several named tensors of the same length, as tokenizers return them."""

    def __init__(self, values: dict[str, Any], name: str) -> None:
        self._parts = {}
        for key, value in values.items():
            part_name = f"{name}[{key!r}]"
            self._parts[key] = ArrayInputs(_array(value, part_name), part_name)
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
    """A map-style torch Dataset; if items are tuples, the first element is the input."""

    def __init__(self, dataset: Any, name: str) -> None:
        if not hasattr(dataset, "__len__"):
            raise FeatureError(f"{name} must be a Dataset with a length; iterable ones have none.")
        self._dataset, self._name = dataset, name
        self.item_bytes, self.is_feature_matrix = 0, False
        if len(self):
            example = self.take(np.arange(1))
            tensors = list(example.values()) if isinstance(example, dict) else [example]
            self.item_bytes = sum(tensor.nbytes for tensor in tensors)
            vectors = isinstance(example, Tensor) and example.ndim == 2
            self.is_feature_matrix = vectors and tensors[0].is_floating_point()

    def __len__(self) -> int:
        return len(self._dataset)

    def take(self, rows: npt.NDArray[np.int64]) -> Batchable:
        """Return the items at these positions, collated as a DataLoader would."""
        items = [self._dataset[int(row)] for row in rows]
        first = [item[0] if isinstance(item, tuple) else item for item in items]
        try:
            collated = default_collate(first)
        except (RuntimeError, TypeError, KeyError) as error:
            raise FeatureError(
                f"The items of {self._name} do not make a batch: {str(error).splitlines()[0]}"
            ) from error
        if isinstance(collated, Tensor):
            return _checked(collated, rows, self._name)
        if isinstance(collated, Mapping) and all(isinstance(v, Tensor) for v in collated.values()):
            return {
                str(key): _checked(value, rows, f"{self._name}[{key!r}]")
                for key, value in collated.items()
            }
        raise FeatureError(
            f"The items of {self._name} must be tensors, arrays, numbers or dicts of them, or "
            f"tuples that start with one; got {_kinds(first[0])}. {_VECTORS}"
        )


class JoinedInputs:
    """Several inputs, one after the other."""

    def __init__(self, parts: Sequence[Inputs], name: str) -> None:
        self.parts = tuple(parts)
        self._ends = np.cumsum([len(inputs) for inputs in parts])
        self.item_bytes = max(inputs.item_bytes for inputs in parts)
        shapes = [_item_shapes(inputs) for inputs in parts if len(inputs)]
        if any(shape != shapes[0] for shape in shapes):
            raise FeatureError(
                f"{name} has items of other shapes than X: {shapes[-1]} instead of {shapes[0]}."
            )

    def __len__(self) -> int:
        return int(self._ends[-1])

    def take(self, rows: npt.NDArray[np.int64]) -> Batchable:
        """Return the items at these positions as one batch."""
        owner = np.searchsorted(self._ends, rows, side="right")
        places, batches = [], []
        for number, inputs in enumerate(self.parts):
            own = np.flatnonzero(owner == number)
            if len(own) or not len(rows):
                start = int(self._ends[number]) - len(inputs)
                places.append(own)
                batches.append(inputs.take(rows[own] - start))
        order = torch.from_numpy(np.argsort(np.concatenate(places), kind="stable"))
        if isinstance(batches[0], dict):
            return {
                key: torch.cat([batch[key] for batch in batches])[order]  # type: ignore[index]
                for key in batches[0]
            }
        return torch.cat(batches)[order]  # type: ignore[arg-type]


def _item_shapes(inputs: Inputs) -> Any:
    item = inputs.take(np.arange(1))
    if isinstance(item, dict):
        return {key: tuple(value.shape[1:]) for key, value in sorted(item.items())}
    return tuple(item.shape[1:])


def _refuse_no_features(shape: tuple[int, ...], name: str) -> None:
    if shape[1] == 0:
        raise FeatureError(
            f"{name} has 0 feature(s) (shape={shape}) while a minimum of 1 is required."
        )


def _kinds(item: object) -> str:
    """The type of a Dataset's item, and the types of its values if it is a dict."""
    if not isinstance(item, Mapping):
        return type(item).__name__
    kinds = [f"{key!r}: {type(value).__name__}" for key, value in item.items()]
    return f"a dict of {{{', '.join(kinds)}}}"


def _columns(values: Any) -> tuple[str, ...] | None:
    """The names of a table's columns, if all of them are names."""
    names = tuple(getattr(values, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _numbers(values: npt.NDArray[Any] | Tensor) -> npt.NDArray[Any] | Tensor:
    """Convert an object array of Python numbers, as from a table with mixed columns, to floats."""
    if isinstance(values, Tensor) or values.dtype != object:
        return values
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        return values


def _is_no_text(values: object) -> bool:
    return not isinstance(values, (str, bytes))


def _is_array_like(values: object) -> bool:
    is_array = hasattr(values, "to_numpy") or hasattr(values, "__array__")
    return is_array or (isinstance(values, Sequence) and _is_no_text(values))


def _array(values: Any, name: str) -> npt.NDArray[Any] | Tensor:
    if isinstance(values, (np.ndarray, Tensor)):
        return values
    if isinstance(values, VoteMatrix):
        raise FeatureError(f"{name} must be features, not votes: fit(X, votes), predict(X).")
    try:
        array: npt.NDArray[Any] = (
            values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
        )
    except (TypeError, ValueError) as error:  # rows of different lengths, dates beside numbers
        raise FeatureError(f"{name} is not a rectangular array of numbers: {error}") from error
    return array


def _is_numeric(values: npt.NDArray[Any] | Tensor) -> bool:
    if isinstance(values, Tensor):
        return not values.is_complex() and values.layout == torch.strided
    return values.dtype.kind in "fiub"


def _shared(values: npt.NDArray[Any] | Tensor) -> npt.NDArray[Any] | Tensor:
    """The values as a tensor that shares their memory, or as an array if torch cannot do that."""
    if isinstance(values, Tensor):
        return values.detach()
    # torch warns about read-only arrays and refuses non-native byte orders.
    fits = values.flags.writeable and values.dtype.isnative and values.dtype.itemsize <= 8
    if isinstance(values, np.memmap) or not fits:
        return values
    return torch.from_numpy(np.ascontiguousarray(values))


def _native(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.dtype.itemsize > 8 or not array.dtype.isnative:
        array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    return np.ascontiguousarray(array)


def _checked(tensor: Tensor, rows: npt.NDArray[np.int64], name: str) -> Tensor:
    _refuse_non_finite(tensor, rows, name)
    return _network_dtype(tensor)


def _network_dtype(tensor: Tensor) -> Tensor:
    """Convert floats to float32 and integers to int64, the dtypes that modules expect."""
    return tensor.float() if tensor.is_floating_point() else tensor.long()


def _refuse_non_finite(tensor: Tensor, rows: npt.NDArray[np.int64], name: str) -> None:
    # If any value is not finite, the sum is not: usually one pass without a mask is enough. Large
    # values may overflow it; then the mask decides.
    if not tensor.is_floating_point() or bool(torch.isfinite(tensor.float().sum())):
        return
    bad = (~torch.isfinite(tensor)).nonzero()
    if len(bad) == 0:
        return
    row, *position = bad[0].tolist()
    raise _not_finite(name, tensor[tuple(bad[0])].item(), int(rows[row]), position)


def _as_text(value: float) -> str:
    return "NaN" if np.isnan(value) else str(value)


def _not_finite(name: str, value: float, row: int, position: list[int]) -> FeatureError:
    where = f"row {row}, position {listed(position)}" if position else f"row {row}"
    return FeatureError(
        f"{name} is {_as_text(value)} at {where}: features must be finite numbers. "
        "Fill or drop missing values first."
    )


def portable(values: Array | Tensor) -> Any:
    """Return values in a form that is easy to send: a map as its file, a tensor as an array.

    >>> portable(np.arange(3))
    array([0, 1, 2])
    """
    file = mapped_file(values)
    if file is not None:
        return file
    if isinstance(values, Tensor):
        try:
            return values.numpy(force=True)
        except TypeError:  # a dtype that NumPy lacks
            return values
    return np.asarray(values)


def reopen(values: Any) -> Array | Tensor:
    """Return the values from the result of `portable`."""
    return values.open() if isinstance(values, MappedFile) else values
