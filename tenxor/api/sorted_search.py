"""Binary search in sorted tensors."""

from __future__ import annotations

from ..dtypes import bfloat16, boolean, float32, int64, promote, promote_weak, to_plain_number, uint8, uint64
from ..errors import ArgumentError, DTypeError, ShapeError
from ..graph.spec import memoized_call, memoized_external_calls
from ..native import generated_searches
from ..native.ordering_ops import describe_digitize
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice, check_flag
from ..tensor.core import Operand
from .creation import asarray, empty
from .gather_functions import take
from .host_calls import call_host_op, report_direct_call
from .output_arguments import cast_to
from .sorting import argsort

__all__ = ["bucketize", "digitize", "searchsorted"]

# Values found in 1-2 ms: MAX_SHORT_TABLE_VALUES among MAX_SHORT_TABLE_EDGES, else MAX_SEARCHED_VALUES.
MAX_SHORT_TABLE_EDGES, MAX_SHORT_TABLE_VALUES, MAX_SEARCHED_VALUES = 64, 1 << 20, 1 << 14
# Sizes of both tensors from which searching for the values in sorted order is faster, as each search starts near the last.
MIN_PRESORT_ELEMENTS = 1 << 14


@memoized_call
def searchsorted(x1: Operand, x2: Operand, /, side: str = "left", sorter: Operand | None = None, *, right: bool = False) -> Tensor:
    """Return the index in a sorted tensor before which to insert each element of `x2`.

    Parameters
    ----------
    x1 : Tensor
        1-D, and ascending in the order of `sort` (NaN last), or so when indexed by `sorter`.
    x2 : Tensor
        The elements to insert, of any shape.
    side : {"left", "right"}, default "left"
        Among equal elements of `x1`, the index is that of the first for "left", and after the last for "right".
    sorter : Tensor, optional
        The integers of `tx.argsort(x1)`, of the shape of `x1`.
    right : bool, default False
        PyTorch's name for `side="right"`.

    Returns
    -------
    Tensor
        A new int64 tensor of the shape of `x2`.

    Raises
    ------
    ShapeError
        If `x1` is not 1-D.
    DTypeError
        If the dtypes do not promote.
    ArgumentError
        If `side` is another value, or if `sorter` has another shape or no integers.

    Notes
    -----
    Array API 2025.12, `searchsorted`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.searchsorted(tx.asarray([1, 3, 3, 5]), tx.asarray([0, 3, 9])).tolist()
    [0, 1, 4]
    """
    side = check_choice("searchsorted", "side", side, "left", "right")
    if check_flag("right", right):
        side = "right"
    x1 = asarray(x1)
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted: x1, the sorted tensor, has shape {x1.shape}; it must be 1-D; search in each row separately")
    if isinstance(x2, int) and x1.dtype.is_integer and not x1.dtype.lowest <= x2 <= x1.dtype.highest:
        x2, side = (int(x1.dtype.highest), "right") if x2 > 0 else (int(x1.dtype.lowest), "left")  # an integer out of the dtype's range
    if isinstance(x2, (bool, int, float, complex)):
        x2 = asarray(x2, dtype=promote_weak(to_plain_number(x2), x1.dtype, "searchsorted"))
    x2 = asarray(x2)
    if sorter is not None:
        sorter = asarray(sorter)
        if sorter.shape != x1.shape or not sorter.dtype.is_integer:
            raise ArgumentError(
                f"searchsorted: sorter has shape {sorter.shape} and dtype {sorter.dtype}; it must be integers, as from tx.argsort(x1),"
                f" of shape {x1.shape}"
            )
        x1 = take(x1, sorter)
    if {x1.dtype, x2.dtype} == {int64, uint64}:
        return _search_mixed_signs(x1, x2, side)
    dtype = promote(x1.dtype, x2.dtype, "searchsorted")
    search_dtype = float32 if dtype is bfloat16 else dtype
    return _search(cast_to(x1, search_dtype), cast_to(x2, search_dtype), side)


def _search(x1: Tensor, x2: Tensor, side: str) -> Tensor:
    """Return the indices at which the elements of `x2` would be inserted into the sorted `x1`, as an int64 tensor of the shape of `x2`.

    Both have one dtype; `side` is "left" or "right". Large `x2` are sorted first, unless generated code searches.
    """
    if x1.dtype is boolean:
        x1, x2 = x1.view(uint8), x2.view(uint8)
    if min(x1.size, x2.size) < MIN_PRESORT_ELEMENTS or generated_searches.can_search(x1.dtype):
        return call_host_op("searchsorted", x1, x2, side=side)[0]
    order = argsort(x2, axis=None, stable=False)
    indices = empty((x2.size,), dtype=int64)
    indices[order] = call_host_op("searchsorted", x1, take(x2, order), side=side)[0]
    return indices.reshape(x2.shape)


def _search_mixed_signs(x1: Tensor, x2: Tensor, side: str) -> Tensor:
    """Return the result of `searchsorted` for int64 in uint64 or vice versa, which no dtype unites; `side` is "left" or "right".

    `x1` is sorted. Values of `x2` out of the range of the dtype of `x1` are before or after every element of `x1`.
    """
    if x1.dtype is int64:
        is_beyond, end = x2 > int(int64.highest), x1.size
    else:
        is_beyond, end = x2 < 0, 0
    return Tensor._compute(OPS["where"], is_beyond, end, _search(x1, x2.astype(x1.dtype), side))


@memoized_external_calls
def digitize(x: Operand, bins: Operand, /, right: bool = False) -> Tensor:
    """Return the index of the bin of each element. Bin `i` lies between `bins[i - 1]` and `bins[i]`.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex.
    bins : Tensor
        The edges: 1-D, ascending or descending. Elements before the first edge are in bin 0, and those after the last one in bin
        `len(bins)`.
    right : bool, default False
        An element on an edge belongs to the bin after the edge, or with `right` to the bin before the edge.

    Returns
    -------
    Tensor
        A new int64 tensor of the shape of `x`.

    Raises
    ------
    ShapeError
        If `bins` is not 1-D.
    DTypeError
        If `x` or `bins` is complex, or if the dtypes do not promote.
    ArgumentError
        If the edges are neither ascending nor descending.

    Notes
    -----
    NumPy's `digitize`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.digitize(tx.asarray([0.5, 2.0, 7.0]), tx.asarray([1.0, 2.0, 3.0])).tolist()
    [0, 2, 3]
    """
    x, bins = asarray(x), asarray(bins)
    if bins.ndim != 1:
        raise ShapeError(f"digitize: bins has shape {bins.shape}; it must be 1-D, the edges of the bins")
    for name, t in (("x", x), ("bins", bins)):
        if t.dtype.is_complex:
            raise DTypeError(f"digitize: {name} is {t.dtype}; it must be real, as complex numbers have no order; use tx.real or tx.abs")
    side = "left" if check_flag("right", right) else "right"
    if bool((bins[1:] >= bins[:-1]).all()):
        indices = searchsorted(bins, x, side=side)
    elif bool((bins[1:] <= bins[:-1]).all()):
        indices = bins.size - searchsorted(bins.flip(0), x, side=side)
    else:
        raise ArgumentError("digitize: bins is not sorted; its elements must be ascending or descending; use tx.sort(bins)")
    if x.dtype is bins.dtype and x.size <= (MAX_SHORT_TABLE_VALUES if bins.size <= MAX_SHORT_TABLE_EDGES else MAX_SEARCHED_VALUES):
        report_direct_call(lambda bins, x: describe_digitize(x.dtype, side == "right"), [bins, x], [indices])
    return indices


def bucketize(x: Operand, boundaries: Operand, /, *, right: bool = False) -> Tensor:
    """Return `tx.searchsorted(boundaries, x)`, a new int64 tensor of the shape of `x`, under PyTorch's name.

    Parameters
    ----------
    x : Tensor
        The elements to insert.
    boundaries : Tensor
        1-D and ascending.
    right : bool, default False
        If True, the index for an element equal to a boundary is after the boundary, otherwise before.

    Returns
    -------
    Tensor
        New int64 tensor of the shape of `x`.

    Raises
    ------
    ShapeError, DTypeError
        If `boundaries` is not 1-D, or if the dtypes do not promote.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.bucketize(tx.asarray([1, 4]), tx.asarray([1, 2, 3])).tolist()
    [0, 3]
    """
    return searchsorted(boundaries, x, right=right)
