"""LU factorization of stacks of matrices, by blocked Gaussian elimination with partial pivoting.

NumPy has no function for LAPACK's `getrf`, so the elimination is written here: column by column within a panel, for all matrices of
the stack at once, and the rest of the matrices by products.

Source: G. Golub, C. Van Loan, Matrix Computations (4th ed., 2013), 3.4.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
PANEL_COLUMNS = 32  # columns eliminated one by one; later columns are updated by a matrix product


def lu(x: Array) -> tuple[Array, Array, Array]:
    """Return L, U and the order of rows for a stack of matrices, with `x[order]` equal to `L @ U` for each matrix but for rounding.

    L is unit lower triangular and U upper triangular. For m by n matrices, L has min(m, n) columns and U as many rows.
    """
    rows, columns = x.shape[-2:]
    size = min(rows, columns)
    packed = np.array(x, order="C", copy=True).reshape(prod(x.shape[:-2]), rows, columns)
    order = np.tile(np.arange(rows), (len(packed), 1))
    for begin in range(0, size, PANEL_COLUMNS):
        end = min(begin + PANEL_COLUMNS, size)
        for column in range(begin, end):
            _eliminate(packed, order, column, end)
        if end < columns:
            right = packed[:, begin:end, end:]
            right[...] = _solve_unit_lower(packed[:, begin:end, begin:end], right)
            packed[:, end:, end:] -= packed[:, end:, begin:end] @ right
    lower = np.tril(packed[..., :size], -1)
    diagonal = np.arange(size)
    lower[:, diagonal, diagonal] = 1
    batch = x.shape[:-2]
    upper = np.triu(packed[:, :size])
    return lower.reshape(*batch, rows, size), upper.reshape(*batch, size, columns), order.reshape(*batch, rows)


def _eliminate(packed: Array, order: Array, column: int, end: int) -> None:
    """Eliminate one `column` of each matrix in the stack `packed`, in place.

    The axes of `packed` are matrix, row and column; those of `order`, the original numbers of the rows, are matrix and row. The pivot is
    the largest element at or below the diagonal, complex numbers compared by |re| + |im|. Exchange its row with the diagonal row, also in
    `order`. Then divide the column below the diagonal by the pivot, and update the later columns before column `end`.
    """
    matrix_index = np.arange(len(packed))
    below = packed[:, column:, column]
    sizes = abs(below.real) + abs(below.imag) if np.iscomplexobj(packed) else abs(below)  # LAPACK compares complex numbers by this sum
    pivot = column + sizes.argmax(axis=-1)
    for x in (packed, order):
        x[matrix_index, column], x[matrix_index, pivot] = x[matrix_index, pivot], x[matrix_index, column]
    divisor = packed[:, column, column, None]
    multipliers = packed[:, column + 1 :, column]
    np.divide(multipliers, divisor, out=multipliers, where=divisor != 0)  # a column of zeros is left as it is
    packed[:, column + 1 :, column + 1 : end] -= multipliers[..., None] * packed[:, column, None, column + 1 : end]


def _solve_unit_lower(x: Array, right: Array) -> Array:
    """Return the solution `y` of `L @ y == right` for stacks of matrices.

    L is unit lower triangular, with the elements of `x` below the diagonal.
    """
    lower = np.tril(x, -1)
    diagonal = np.arange(x.shape[-1])
    lower[:, diagonal, diagonal] = 1
    return np.linalg.solve(lower, right)  # no pivoting takes place: the multipliers in `lower` are at most 1 in size
