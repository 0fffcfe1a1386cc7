"""Cross-fitted ridge regressions on any inputs: numbers, images or token ids, read as vectors."""

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from torch import Tensor

from wiesel.errors import FeatureError
from wiesel.training.inputs import DatasetInputs, Inputs, as_inputs, is_matrix, item_width

__all__ = ["CrossFit", "InputVectors", "LinearModel", "held_out_proba"]

_FOLDS = 5
_MOST_FITTED = 50_000
"""The most items a linear model is fitted on; more would not improve it."""
_MOST_KEPT = 30_000_000
"""So many standardized numbers are kept in memory; more are computed each time."""
_PENALTY = 0.1
"""The ridge penalty, in units of the variance of a feature."""
_AT_ONCE = 4_000_000
"""How many numbers are read at once."""
_IN_CACHE = 250
"""So many rows are centered and scaled at a time."""
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
_NARROW = 100
"""Vectors of at most this width may get random units. The classes of texts with wide vectors are
nearly linear in them, those of a table with ten columns often are not."""
_UNITS = 300
_TOKEN_IDS = "input_ids"  # the name that tokenizers give them
_LEAST_PROBA, _LEAST_IN_ALL = 0.02, 0.2
"""The least probability of a class by a linear model, and that of all classes together."""

Rows = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.float32] | Array


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
    units: Array | None = None
    """(width + 1, n_units): weights and offsets of ReLU units, whose values follow the vectors."""

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

    @property
    def n_columns(self) -> int:
        """The length of the vectors with their units."""
        return self.width + (0 if self.units is None else self.units.shape[1])

    def read(self, rows: Rows) -> Iterator[tuple[Rows, Any]]:
        """Yield rows and their vectors in chunks that fit into memory; token sets are sparse."""
        for chunk, batch in _read(self.inputs, rows, self.n_columns - self.width):
            if _token_ids(batch) is not None:
                yield chunk, _sets_of_tokens(_ids_of(batch), self.width)
            else:
                yield chunk, self._with_units(self._numbers(batch))

    def _numbers(self, batch: Any) -> Numbers:
        is_numbers = isinstance(batch, Tensor) and batch.is_floating_point()
        width = batch[0].numel() if is_numbers else 0
        if width != self.width:
            found = f"{width} numbers" if is_numbers else "no numbers"
            raise FeatureError(
                f"An item of X has {found}, but the model learned from {self.width}: "
                "give the same kind of features as to fit."
            )
        # As they are: sums and products convert them to double precision without another copy.
        numbers: Numbers = batch.flatten(1).numpy()
        return numbers

    def _with_units(self, numbers: Numbers) -> Numbers:
        if self.units is None:
            return numbers
        return np.hstack([numbers, np.maximum(numbers @ self.units[:-1] + self.units[-1], 0)])

    def directions(self, rows: Rows) -> Array:
        """Return the leading directions (width, n) of the vectors of these items, by SVD.

        Tokens are weighted by their inverse document frequency.
        """
        most = min(_SAMPLE, max(_DIRECTIONS, _SAMPLE_NUMBERS // self.width))
        sample = _sampled(rows, most)
        parts = [part for _, part in self.read(sample)]
        if not sp.issparse(parts[0]):
            return _directions(np.concatenate(parts, dtype=np.float64))
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


class LinearModel(NamedTuple):
    """A linear model of the features, and of their random units if there are any."""

    coefficients: Array
    """(n_features + n_units, n_targets)"""
    intercept: Array
    """(n_targets,)"""
    units: Array | None = None
    """(n_features + 1, n_units), as in `InputVectors`."""

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.coefficients) if self.units is None else len(self.units) - 1

    def predict(self, inputs: Inputs) -> Array:
        """Return the predictions for all items: (n_items, n_targets)."""
        vectors = InputVectors(inputs, self.width, self.units)
        parts = [part @ self.coefficients for _, part in vectors.read(np.arange(len(inputs)))]
        return np.concatenate([np.empty((0, len(self.intercept))), *parts]) + self.intercept


class Fitted(NamedTuple):
    """The result of a cross-fit: (n_items, n_targets) each, and 0 for items not in its rows."""

    held_out: Array
    """The prediction for every item by a model that was not fitted on it."""
    in_sample: Array
    """The prediction for every item by the model fitted on all folds."""
    model: LinearModel
    """The model fitted on all folds."""


class CrossFit:
    """Ridge regressions of any targets on the same features, in five folds.

    All that does not depend on the targets is computed once, so further targets cost little. Wide
    vectors, such as token sets or images, are projected to their leading directions. Narrow ones,
    such as the columns of a table, get random ReLU units if these help.
    """

    @classmethod
    def of(cls, inputs: Inputs, rows: Rows, targets: Array) -> "CrossFit | None":
        """Return regressions on some items; None if there are too few, or no vectors.

        Random units are added to narrow vectors if the targets, with a row for every item, are then
        predicted better for the items of held-out folds.
        """
        vectors = InputVectors.of(inputs) if len(rows) >= 2 * _FOLDS else None
        if vectors is None:
            return None
        if vectors.is_wide or vectors.width > _NARROW:
            return cls(vectors, rows)
        tried = rows if len(rows) <= _MOST_FITTED else _sampled(rows, _MOST_FITTED)
        linear = cls(vectors, tried)
        nonlinear = cls(vectors._replace(units=linear.random_units()), tried)
        better = min(linear, nonlinear, key=lambda model: model.held_out_error(targets))
        return better if tried is rows else cls(better._vectors, rows)

    def __init__(self, vectors: InputVectors, rows: Rows) -> None:
        from scipy.linalg import cho_factor

        # Fixed folds, so that the same votes and features always give the same labels.
        order = np.random.default_rng(0).permutation(rows)
        folds = [order[k::_FOLDS] for k in range(_FOLDS)]
        self._rows = np.concatenate(folds)
        stops = np.cumsum([len(fold) for fold in folds]).tolist()
        self._folds = [slice(*bounds) for bounds in itertools.pairwise([0, *stops])]
        most = _MOST_FITTED // _FOLDS
        self._fitted = [slice(s.start, min(s.stop, s.start + most)) for s in self._folds]
        directions = vectors.directions(rows) if vectors.is_wide else None
        self._directions = directions
        self._vectors = vectors if directions is None else vectors.projected(directions)
        small = len(self._rows) * self._vectors.n_columns <= _MOST_KEPT
        self._kept = self._all_vectors() if small else None
        self._mean, self._deviation = self._moments()
        if self._kept is not None:
            for fold in self._folds:
                for part in _blocks(self._kept[fold]):
                    part[:] = self._standardized(part)
        squares = [_summed(part.T @ part for _, part in self._read(fold)) for fold in self._fitted]
        total = _summed(squares)
        n_fitted = sum(fold.stop - fold.start for fold in self._fitted)
        total += _PENALTY * n_fitted * np.eye(len(total))
        self._all = cho_factor(total)
        self._without = [cho_factor(total - square) for square in squares]

    def fit(self, targets: Array) -> Fitted:
        """Fit the regressions of targets, which have a row for every item."""
        from scipy.linalg import cho_solve

        own = targets[self._rows].astype(np.float32)
        products = [
            _summed(part.T @ own[place] for place, part in self._read(fold))
            for fold in self._fitted
        ]
        total = _summed(products)
        of_all = cho_solve(self._all, total)
        predicted = np.empty((len(own), 2 * own.shape[1]))
        for fold, factor, product in zip(self._folds, self._without, products, strict=True):
            # Both predictions from one product, because reading the features takes most of it.
            both = np.hstack([cho_solve(factor, total - product), of_all]).astype(np.float32)
            for place, part in self._read(fold):
                predicted[place] = part @ both
        every = np.zeros((len(targets), predicted.shape[1]))
        every[self._rows] = predicted
        held_out, in_sample = np.hsplit(every, 2)
        return Fitted(held_out, in_sample, self._model(of_all))

    def held_out_error(self, targets: Array) -> float:
        """Return the mean squared error of the predictions for held-out items."""
        centered = targets - targets[self._rows].mean(axis=0)
        errors = (centered - self.fit(centered).held_out)[self._rows]
        return float(np.square(errors).mean())

    def random_units(self) -> Array:
        """Return the weights and offsets of random ReLU units of the standardized vectors."""
        generator = np.random.default_rng(0)
        width = len(self._mean)
        weights = generator.normal(size=(width, _UNITS)) / np.sqrt(width)
        weights /= self._deviation[:, None]
        return np.vstack([weights, generator.normal(size=_UNITS) - self._mean @ weights])

    def _model(self, coefficients: Array) -> LinearModel:
        """The model of the original vectors, from coefficients of the standardized ones."""
        coefficients = coefficients / self._deviation[:, None]
        intercept = -self._mean @ coefficients
        if self._directions is not None:
            coefficients = self._directions @ coefficients
        return LinearModel(coefficients, intercept, self._vectors.units)

    def _all_vectors(self) -> Numbers:
        """The vectors of all items, by folds."""
        size = len(self._rows), self._vectors.n_columns
        vectors, start = np.empty(size, dtype=np.float32), 0
        for rows in _blocks(self._rows):
            for chunk, part in self._vectors.read(rows):
                vectors[start : start + len(chunk)] = part
                start += len(chunk)
        return vectors

    def _moments(self) -> tuple[Array, Array]:
        """The mean and standard deviation of every feature; infinite for a constant feature."""
        n_fitted = sum(fold.stop - fold.start for fold in self._fitted)
        read = self._read_as_given
        mean = _summed(_column_sums(part) for _, part in read()) / n_fitted
        squares = _summed(_column_sums(part, mean) for _, part in read())
        deviation = np.sqrt(squares / n_fitted)
        return mean, np.where(deviation > 1e-6 * np.abs(mean), deviation, np.inf)

    def _read_as_given(self) -> Iterator[tuple[slice, Numbers]]:
        """Yield the places and vectors of the items that models are fitted on."""
        for fold in self._fitted:
            yield from self._parts(fold)

    def _read(self, fold: slice) -> Iterator[tuple[slice, Numbers]]:
        """Yield places in a fold and their standardized vectors."""
        for place, part in self._parts(fold):
            yield place, part if self._kept is not None else self._standardized(part)

    def _standardized(self, vectors: Numbers) -> Numbers:
        # Centered in double precision, because a mean may be large. Products in single precision
        # take half of the time. They are enough: the penalty keeps the equations far from singular.
        return ((vectors - self._mean) / self._deviation).astype(np.float32)

    def _parts(self, fold: slice) -> Iterator[tuple[slice, Numbers]]:
        """Yield places in a fold and their vectors: those in memory, or read again."""
        if self._kept is not None:
            yield fold, self._kept[fold]
            return
        start = fold.start
        for chunk, part in self._vectors.read(self._rows[fold]):
            yield slice(start, start + len(chunk)), part
            start += len(chunk)


def held_out_proba(inputs: Inputs, rows: Rows, soft_labels: Array) -> Array | None:
    """Return P(class) of some items, each by a linear model of the features not trained on it.

    `soft_labels` has a row for every item. None if there are too few items, or no vectors.

    >>> X, soft = np.repeat([[-1.0], [1.0]], 20, axis=0), np.repeat(np.eye(2), 20, axis=0)
    >>> held_out_proba(as_inputs(X), np.arange(40), soft)[[0, 39]].round(1)
    array([[1., 0.],
           [0., 1.]])
    """
    linear = CrossFit.of(inputs, rows, soft_labels)
    if linear is None:
        return None
    shares = soft_labels[rows].mean(axis=0)
    proba = linear.fit(soft_labels - shares).held_out[rows] + shares
    proba = np.clip(proba, min(_LEAST_PROBA, _LEAST_IN_ALL / proba.shape[1]), 1)
    normal: Array = proba / proba.sum(axis=1, keepdims=True)
    return normal


def _sampled(rows: Rows, most: int) -> Rows:
    """At most so many of the rows, always the same."""
    return np.random.default_rng(0).permutation(rows)[:most]


def _summed(arrays: Iterable[Numbers]) -> Array:
    """The sum, in double precision."""
    return functools.reduce(np.add, arrays, np.zeros(()))


def _blocks(rows: Any) -> Iterator[Any]:
    """Views of a few rows after another, whose numbers stay in the processor's cache."""
    for start in range(0, len(rows), _IN_CACHE):
        yield rows[start : start + _IN_CACHE]


def _column_sums(vectors: Numbers, mean: Array | None = None) -> Array:
    """The sum of every column, or of the squares of its differences from the mean."""
    total: Array = np.empty((0, vectors.shape[1]))
    for block in _blocks(vectors):
        own = block if mean is None else np.square(block - mean)
        # Added to the sum of the rows before, one row after the other: the blocks change no digit.
        total = np.concatenate([total, own]).sum(axis=0, keepdims=True)
    return total[0]


def _directions(vectors: Any) -> Array:
    from sklearn.utils.extmath import randomized_svd

    n_directions = min(_DIRECTIONS, *vectors.shape)
    _, _, transposed = randomized_svd(vectors, n_directions, n_iter=2, random_state=0)
    directions: Array = transposed.T
    return directions


def _read(inputs: Inputs, rows: Rows, n_units: int = 0) -> Iterator[tuple[Rows, Any]]:
    at_once = max(1, _AT_ONCE // max(1, item_width(inputs) + n_units))
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
