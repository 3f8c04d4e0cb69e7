"""Tensors computed by formulas: grids of indices, and window functions for signals.

A window is symmetric by default, as in NumPy. A periodic window, PyTorch's default, is a symmetric window without the last element, so that
repeated copies have one period.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from .._utils.aliases import argument_aliases
from ..dtypes import DEFAULT_FLOAT, DEFAULT_INT, DTypeLike
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, ShapeError
from ..layout.coords import validate_int
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag, parse_ints
from ..tensor.core import check_element_count
from .argument_validation import check_argument
from .creation import asarray, empty, make_flat_indices

__all__ = ["bartlett", "blackman", "hamming", "hanning", "indices", "kaiser"]


@overload
def indices(dimensions: int | Sequence[int], dtype: DTypeLike | None = None, sparse: Literal[False] = False) -> Tensor: ...
@overload
def indices(dimensions: int | Sequence[int], dtype: DTypeLike | None = None, *, sparse: Literal[True]) -> tuple[Tensor, ...]: ...


@argument_aliases
def indices(dimensions: int | Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Return the indices of each position of a grid.

    Parameters
    ----------
    dimensions : int or Sequence[int]
        The shape of the grid.
    dtype : dtype, default int64
        The dtype of the result.
    sparse : bool, default False
        If True, return a tuple of one tensor for each axis, of size 1 along the other axes; together they broadcast to `dimensions`.

    Returns
    -------
    Tensor or tuple of Tensor
        A new tensor of shape `(axes, *dimensions)`; the first axis runs over the axes of the grid. With `sparse`, new tensors.

    Raises
    ------
    ShapeError
        If a size is negative.

    Notes
    -----
    NumPy's `indices`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.indices((2, 3)).tolist()
    [[[0, 0, 0], [1, 1, 1]], [[0, 1, 2], [0, 1, 2]]]
    >>> [t.shape for t in tx.indices((2, 3), sparse=True)]
    [(2, 1), (1, 3)]
    """
    sizes = parse_ints("indices", "dimensions", (dimensions,))
    if any(n < 0 for n in sizes):
        raise ShapeError(f"indices: shape {sizes} has a negative size; sizes must be 0 or more")
    result_dtype, axes = dtype_of(DEFAULT_INT if dtype is None else dtype), len(sizes)
    lines = [
        make_flat_indices((n,)).astype(result_dtype, copy=False).reshape([n if j == k else 1 for j in range(axes)])
        for k, n in enumerate(sizes)
    ]
    if check_flag("sparse", sparse):
        return tuple(lines)
    grid: Any = empty((axes, *sizes), dtype=result_dtype)
    for k, line in enumerate(lines):
        grid[k] = line
    return grid  # type: ignore[no-any-return]


# --- windows ----------------------------------------------------------------------------------------------------------


def bartlett(m: int, /, *, periodic: bool = False, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the triangular Bartlett window, from 0 to 1 and back, as a new 1-D tensor of `m` floats.

    Parameters
    ----------
    m : int
        The number of elements, 0 or more.
    periodic : bool, default False
        If True, the window is a symmetric one of `m + 1` elements without the last, so that repeated copies have one period.
    dtype : dtype, default float64
        The dtype of the result, a float dtype.
    device : str, optional
        "cpu", the only device, as in the array API.

    Returns
    -------
    Tensor
        New tensor of shape (m,).

    Raises
    ------
    ArgumentError
        If `m` is negative, or if `device` is not "cpu".
    DTypeError
        If `dtype` is no float.

    Notes
    -----
    NumPy's `bartlett`; PyTorch's `bartlett_window` is periodic.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.bartlett(5).tolist(), tx.bartlett(4, periodic=True).tolist()
    ([0.0, 0.5, 1.0, 0.5, 0.0], [0.0, 0.5, 1.0, 0.5])
    """
    return _make_window("bartlett", np.bartlett, m, periodic, dtype, device)


def blackman(m: int, /, *, periodic: bool = False, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the Blackman window, a sum of three cosines, from 0 to 1 and back, as a new 1-D tensor of `m` floats.

    Parameters
    ----------
    m : int
        The number of elements, 0 or more.
    periodic : bool, default False
        If True, the window is a symmetric one of `m + 1` elements without the last, so that repeated copies have one period.
    dtype : dtype, default float64
        The dtype of the result, a float dtype.
    device : str, optional
        "cpu", the only device, as in the array API.

    Returns
    -------
    Tensor
        New tensor of shape (m,).

    Raises
    ------
    ArgumentError, DTypeError
        As in `bartlett`.

    Notes
    -----
    NumPy's `blackman`; PyTorch's `blackman_window` is periodic.

    Examples
    --------
    >>> import tenxor as tx
    >>> abs(tx.blackman(3)).round(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _make_window("blackman", np.blackman, m, periodic, dtype, device)


def hamming(m: int, /, *, periodic: bool = False, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the Hamming window, a cosine from 0.08 to 1 and back, as a new 1-D tensor of `m` floats.

    Parameters
    ----------
    m : int
        The number of elements, 0 or more.
    periodic : bool, default False
        If True, the window is a symmetric one of `m + 1` elements without the last, so that repeated copies have one period.
    dtype : dtype, default float64
        The dtype of the result, a float dtype.
    device : str, optional
        "cpu", the only device, as in the array API.

    Returns
    -------
    Tensor
        New tensor of shape (m,).

    Raises
    ------
    ArgumentError, DTypeError
        As in `bartlett`.

    Notes
    -----
    NumPy's `hamming`; PyTorch's `hamming_window` is periodic.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.hamming(3).round(3).tolist()
    [0.08, 1.0, 0.08]
    """
    return _make_window("hamming", np.hamming, m, periodic, dtype, device)


def hanning(m: int, /, *, periodic: bool = False, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the Hann window, a cosine from 0 to 1 and back, as a new 1-D tensor of `m` floats.

    Parameters
    ----------
    m : int
        The number of elements, 0 or more.
    periodic : bool, default False
        If True, the window is a symmetric one of `m + 1` elements without the last, so that repeated copies have one period.
    dtype : dtype, default float64
        The dtype of the result, a float dtype.
    device : str, optional
        "cpu", the only device, as in the array API.

    Returns
    -------
    Tensor
        New tensor of shape (m,).

    Raises
    ------
    ArgumentError, DTypeError
        As in `bartlett`.

    Notes
    -----
    NumPy's `hanning`; PyTorch's `hann_window` is periodic.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.hanning(3).tolist(), tx.hanning(4, periodic=True).round(3).tolist()
    ([0.0, 1.0, 0.0], [0.0, 0.5, 1.0, 0.5])
    """
    return _make_window("hanning", np.hanning, m, periodic, dtype, device)


def kaiser(m: int, /, beta: float, *, periodic: bool = False, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the Kaiser window, a Bessel function, as a new 1-D tensor of `m` floats.

    Parameters
    ----------
    m : int
        The number of elements, 0 or more.
    beta : float
        A larger `beta` gives a narrower window; 0 gives ones.
    periodic : bool, default False
        If True, the window is a symmetric one of `m + 1` elements without the last, so that repeated copies have one period.
    dtype : dtype, default float64
        The dtype of the result, a float dtype.
    device : str, optional
        "cpu", the only device, as in the array API.

    Returns
    -------
    Tensor
        New tensor of shape (m,).

    Raises
    ------
    ArgumentError, DTypeError
        As in `bartlett`; ArgumentError also if `beta` is no real number.

    Notes
    -----
    NumPy's `kaiser`; PyTorch's `kaiser_window` is periodic, with a `beta` of 12.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.kaiser(3, 0.0).tolist(), tx.kaiser(3, 14.0).round(3).tolist()
    ([1.0, 1.0, 1.0], [0.0, 1.0, 0.0])
    """
    check_argument("kaiser", "beta", beta, "float")
    return _make_window("kaiser", lambda n: np.kaiser(n, float(beta)), m, periodic, dtype, device)


def _make_window(
    op: str, values: Callable[[int], np.ndarray[Any, Any]], m: int, periodic: bool, dtype: object, device: str | None
) -> Tensor:
    """Return the window of `m` elements as a tensor of `dtype` (None: float64).

    `values` is NumPy's function of the number of elements. If `periodic`, the window lacks the last of `m + 1` elements. Messages begin
    with `op`. Raise ArgumentError for an invalid `m` or `device`, and DTypeError for a `dtype` that is no float.
    """
    count, result_dtype = validate_int(op, "m", m), DEFAULT_FLOAT if dtype is None else dtype_of(dtype)
    if count < 0:
        raise ArgumentError(f"{op}: the number of elements is {count}; it must be 0 or more")
    if not result_dtype.is_float:
        raise DTypeError(f"{op}: the dtype of a window must be a real float, not {result_dtype}")
    check_element_count(op, (count,))
    is_periodic = check_flag("periodic", periodic) and count > 1  # a window of one element is 1 in both cases
    with np.errstate(all="ignore"):
        window = values(count + 1)[:-1] if is_periodic else values(count)
    return asarray(asarray(window).astype(result_dtype, copy=False), device=device)
