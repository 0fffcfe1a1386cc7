"""The main directions of a large sparse table: a truncated SVD by the block Krylov method.

Starting from a few random vectors, multiplying by the table and its transpose in turn builds a
space that contains the main directions almost exactly. See Musco and Musco 2015, "Randomized block
Krylov methods for stronger and faster approximate singular value decomposition", NeurIPS. Texts
have many directions of almost equal weight. Power iterations over all directions at once, as in
scikit-learn's randomized SVD, cost twice as much.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.threads import map_in_threads, one_thread

__all__ = ["main_directions"]

Array = npt.NDArray[np.float32]
Table = sp.csr_array[np.float32, tuple[int, int]]

_SMALLEST_SHARE = 0.01
"""The smallest singular value that is kept, relative to the largest."""
_EXTRA = 64
"""Extra directions of the space, in addition to twice the requested number."""
_BLOCKS = (4, 32)
"""The minimum and maximum number of vectors that are multiplied by the table at a time."""
_PIECE = 2**18
"""The number of table entries that one thread multiplies at a time."""


def main_directions(table: Table, n_dimensions: int, seed: int) -> tuple[Array, Array]:
    """Return the directions (n_dimensions, columns) in which rows differ most, and the vectors.

    There are fewer directions if there are few rows or columns, or if further directions would be
    noise. Standardization would inflate a direction in which the rows hardly differ, and a new row
    could then be millions of standard deviations away.

    >>> table = sp.csr_array(np.diag([3.0, 2.0, 0.001]).astype(np.float32))
    >>> directions, vectors = main_directions(table, 3, seed=0)
    >>> directions.round(3) + 0.0
    array([[1., 0., 0.],
           [0., 1., 0.]], dtype=float32)
    >>> vectors.shape
    (3, 2)
    """
    # Loaded first: in `one_thread`, its BLAS library would be limited only after its first product.

    n_dimensions = min(n_dimensions, *table.shape)
    with one_thread():
        return _directions(table, n_dimensions, seed)


def _directions(table: Table, n_dimensions: int, seed: int) -> tuple[Array, Array]:
    # With a bit more than twice the directions, the result is as good as five power iterations.
    size = 2 * n_dimensions + _EXTRA
    if size >= min(table.shape):
        basis, projected = _row_space(table)
    else:
        block = int(np.clip(n_dimensions // 8, *_BLOCKS))
        basis, projected = _krylov(table, size, block, seed)
    # Use double precision, because squaring the singular values halves their digits.
    doubled = projected.astype(np.float64)
    squares, rotation = np.linalg.eigh(doubled.T @ doubled)
    sizes = np.sqrt(np.maximum(squares[::-1], 0.0))[:n_dimensions]
    kept = sizes >= _SMALLEST_SHARE * sizes[0]
    rotation = rotation[:, ::-1][:, :n_dimensions][:, kept].astype(np.float32)
    directions, vectors = basis @ rotation, projected @ rotation
    # The sign of a direction is arbitrary, so make its largest entry positive.
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])])
    # By columns in memory: a table of texts is multiplied by the transpose, which SciPy would copy.
    return (directions * signs).T, vectors * signs


def _row_space(table: Table) -> tuple[Array, Array]:
    """Orthonormal columns that span all rows of a small table, and the table times them."""
    _, _, directions = np.linalg.svd(table.toarray(), full_matrices=False)
    basis = np.ascontiguousarray(directions.T)
    return basis, np.asarray(table @ basis)


def _krylov(table: Table, size: int, width: int, seed: int) -> tuple[Array, Array]:
    """Orthonormal columns (columns, size) that span a Krylov space, and the table times them."""
    pieces, transposed = _pieces(table), _pieces(table.T.tocsr())
    basis = np.zeros((table.shape[1], size), np.float32, order="F")
    projected = np.zeros((table.shape[0], size), np.float32, order="F")
    rng = np.random.default_rng(seed)
    block = rng.standard_normal((table.shape[1], width), dtype=np.float32)
    for start in range(0, size, width):
        columns = slice(start, min(start + width, size))
        block = _orthonormal(block[:, : columns.stop - start], basis[:, :start], width)
        basis[:, columns] = block
        projected[:, columns] = _product(pieces, block)
        block = _product(transposed, np.ascontiguousarray(projected[:, columns]))
    return basis, projected


def _orthonormal(block: Array, basis: Array, width: int) -> Array:
    """Orthonormal columns that span what the block adds to a basis.

    Apart from rounding, a block of a Krylov space has only the last two blocks of the basis in it.
    They are subtracted first, and then what rounding left of all blocks.
    """
    from scipy.linalg import qr

    last = basis[:, -2 * width :]
    block = block - last @ (last.T @ block)
    block = qr(block, mode="economic", overwrite_a=True, check_finite=False)[0]
    return np.ascontiguousarray(block - basis @ (basis.T @ block))


def _pieces(table: Table) -> list[Table]:
    """The rows of the table in pieces with about the same number of entries."""
    n_pieces = max(1, min(table.shape[0], table.nnz // _PIECE))
    edges = np.linspace(0, table.shape[0], n_pieces + 1).astype(int)
    return [table[start:end] for start, end in pairwise(edges)]


def _product(pieces: Sequence[Table], columns: Array) -> Array:
    """The table times a narrow dense matrix."""
    return np.concatenate(list(map_in_threads(lambda piece: piece @ columns, pieces)))
