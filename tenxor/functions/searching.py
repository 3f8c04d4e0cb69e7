"""Binary search in sorted tensors."""

from __future__ import annotations

from ..creation import asarray, empty
from ..dtypes import bfloat16, boolean, float32, int64, plain_number, promote, uint8, uint64, weak
from ..errors import ArgumentError, DTypeError, ShapeError
from ..host import machine
from ..host.orders import digits_of
from ..ops import OPS
from ..spec import called_again, told_again
from ..tensor import Tensor
from ..tensor.arguments import one_of, truth
from ..tensor.core import Operand
from .hosted import hosted, tell
from .into import as_dtype
from .selecting import take
from .sorting import argsort

__all__ = ["bucketize", "digitize", "searchsorted"]

# Values found in 1-2 ms: MAX_SHORT_TABLE_VALUES among SHORT_TABLE_EDGES, else MAX_SEARCHED_VALUES.
SHORT_TABLE_EDGES, MAX_SHORT_TABLE_VALUES, MAX_SEARCHED_VALUES = 64, 1 << 20, 1 << 14
# Sizes of both tensors from which searching for the values in sorted order is faster, as each search starts near the last.
MIN_PRESORT_ELEMENTS = 1 << 14


@called_again
def searchsorted(x1: Operand, x2: Operand, /, side: str = "left", sorter: Operand | None = None, *, right: bool = False) -> Tensor:
    """Return the index in sorted `x1` before which to insert each element of `x2`, as a new int64 tensor of `x2`'s shape.

    `x1` is 1-D and ascending in the order of `sort` (NaN last), or is so when indexed by `sorter`. Among equal elements the index is that
    of the first for `side="left"`, and after the last for "right". Raise ShapeError, DTypeError or ArgumentError. (Array API 2025.12,
    `searchsorted`; PyTorch's `right=True` is `side="right"`.)

    >>> import tenxor as tx
    >>> tx.searchsorted(tx.asarray([1, 3, 3, 5]), tx.asarray([0, 3, 9])).tolist()
    [0, 1, 4]
    """
    side = one_of("searchsorted", "side", side, "left", "right")
    if truth("searchsorted", "right", right):
        side = "right"
    x1 = asarray(x1)
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted: the sorted tensor has shape {x1.shape}; it must be 1-D; search in each row separately")
    if isinstance(x2, int) and x1.dtype.is_integer and not x1.dtype.lowest <= x2 <= x1.dtype.highest:
        x2, side = (int(x1.dtype.highest), "right") if x2 > 0 else (int(x1.dtype.lowest), "left")  # an integer out of the dtype's range
    if isinstance(x2, (bool, int, float, complex)):
        x2 = asarray(x2, dtype=weak(plain_number(x2), x1.dtype, "searchsorted"))
    x2 = asarray(x2)
    if sorter is not None:
        sorter = asarray(sorter)
        if sorter.shape != x1.shape or not sorter.dtype.is_integer:
            raise ArgumentError(
                f"searchsorted: sorter has shape {sorter.shape} and dtype {sorter.dtype}; it is the integers of tx.argsort(x1),"
                f" of shape {x1.shape}"
            )
        x1 = take(x1, sorter)
    if {x1.dtype, x2.dtype} == {int64, uint64}:
        return _search_mixed_signs(x1, x2, side)
    dtype = promote(x1.dtype, x2.dtype, "searchsorted")
    search_dtype = float32 if dtype is bfloat16 else dtype
    return _search(as_dtype(x1, search_dtype), as_dtype(x2, search_dtype), side)


def _search(x1: Tensor, x2: Tensor, side: str) -> Tensor:
    """Search for `x2` in `x1`, both of one dtype. For large tensors, sort `x2` first."""
    if x1.dtype is boolean:
        x1, x2 = x1.view(uint8), x2.view(uint8)
    if min(x1.size, x2.size) < MIN_PRESORT_ELEMENTS or machine.searches(x1.dtype):
        return hosted("searchsorted", x1, x2, side=side)[0]
    order = argsort(x2, axis=None, stable=False)
    indices = empty((x2.size,), dtype=int64)
    indices[order] = hosted("searchsorted", x1, take(x2, order), side=side)[0]
    return indices.reshape(x2.shape)


def _search_mixed_signs(x1: Tensor, x2: Tensor, side: str) -> Tensor:
    """Search int64 in uint64 or vice versa, which no dtype unites: values out of the range of `x1`'s dtype are beyond all its elements."""
    if x1.dtype is int64:
        is_beyond, end = x2 > int(int64.highest), x1.size
    else:
        is_beyond, end = x2 < 0, 0
    return Tensor._compute(OPS["where"], is_beyond, end, _search(x1, x2.astype(x1.dtype), side))


@told_again
def digitize(x: Operand, bins: Operand, /, right: bool = False) -> Tensor:
    """Return the index of the bin of each element, as a new int64 tensor of `x`'s shape. Bin `i` lies between `bins[i - 1]` and `bins[i]`.

    Elements before the first edge are in bin 0, and those after the last one in bin `len(bins)`. `bins` is 1-D, ascending or descending. An
    element on an edge belongs to the bin after the edge, or with `right` to the bin before the edge. Raise ShapeError, DTypeError, and
    ArgumentError for edges without order. (NumPy's `digitize`.)

    >>> import tenxor as tx
    >>> tx.digitize(tx.asarray([0.5, 2.0, 7.0]), tx.asarray([1.0, 2.0, 3.0])).tolist()
    [0, 2, 3]
    """
    x, bins = asarray(x), asarray(bins)
    if bins.ndim != 1:
        raise ShapeError(f"digitize: the edges must be 1-D, not of shape {bins.shape}")
    for t in (x, bins):
        if t.dtype.is_complex:
            raise DTypeError(f"digitize: does not accept {t.dtype}, which has no order; use tx.real(x) or tx.abs(x)")
    side = "left" if truth("digitize", "right", right) else "right"
    if bool((bins[1:] >= bins[:-1]).all()):
        indices = searchsorted(bins, x, side=side)
    elif bool((bins[1:] <= bins[:-1]).all()):
        indices = bins.size - searchsorted(bins.flip(0), x, side=side)
    else:
        raise ArgumentError("digitize: the edges are in no order; give them ascending or descending, as tx.sort(bins)")
    if x.dtype is bins.dtype and x.size <= (MAX_SHORT_TABLE_VALUES if bins.size <= SHORT_TABLE_EDGES else MAX_SEARCHED_VALUES):
        tell(lambda bins, x: digits_of(x.dtype, side == "right"), [bins, x], [indices])
    return indices


def bucketize(x: Operand, boundaries: Operand, /, *, right: bool = False) -> Tensor:
    """Return `tx.searchsorted(boundaries, x)`, a new int64 tensor of `x`'s shape, under PyTorch's name.

    With `right`, the index for an element equal to a boundary is after the boundary.

    >>> import tenxor as tx
    >>> tx.bucketize(tx.asarray([1, 4]), tx.asarray([1, 2, 3])).tolist()
    [0, 3]
    """
    return searchsorted(boundaries, x, right=right)
