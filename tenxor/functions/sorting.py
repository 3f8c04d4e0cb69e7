"""Sorting, and the indices that sort.

NaN counts as larger than all numbers: it is last in ascending order, and first in descending. Complex numbers are ordered by their real
parts, and equal real parts by their imaginary parts.

NumPy sorts on our memory (`host/`). It is fast for integers, and for sorts that need not be stable. So floats of 16 bits are sorted by
their ranks, as integers. For indices, rank and position are packed into one integer where 64 bits suffice:
no two are equal, so the sort need not be stable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

from ..creation import asarray, positions
from ..dtypes import DType, bfloat16, boolean, float16, float32, float64, int16, int32, int64, uint8
from ..errors import ArgumentError, ShapeError
from ..host.orders import order_by_keys
from ..keywords import spelled
from ..layout.coords import checked_int
from ..ops import OPS
from ..records import NamedTuple
from ..spec import called_again, callers, told_again
from ..tensor import Tensor
from ..tensor.arguments import axis_of, truth
from ..tensor.core import Operand
from .hosted import at_once, has_past, hosted, tell
from .selecting import take_along_axis

__all__ = ["argsort", "lexsort", "sort", "topk"]

Array = np.ndarray[Any, Any]
P = ParamSpec("P")
_ROWS = (tuple, list)
FEW = 1024  # elements up to which NumPy sorts before kernels would have ranked them; the limit is higher for short rows
# Elements of a row sorted without merging; comparisons of all rows that take as long as ranking.
SHORT_ROW_ELEMENTS, RANKING_COMPARISONS = 16, 1 << 14
MAX_RECORDED_KEYS = 4  # keys up to which the fast path records calls
MAX_LEXSORT_ELEMENTS = 1 << 12  # elements for which NumPy's lexsort is faster than sorting by one key after the other
_BITS: dict[DType, DType] = {float16: int16, bfloat16: int16, float32: int32, float64: int64}  # the integers with the bits of floats
_RADIX, _QUICK = "stable", "quicksort"  # NumPy's names; for 8 and 16 bits "stable" is a radix sort


@called_again
@spelled
def sort(
    x: Operand,
    /,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    dim: int | None = None,
) -> Tensor:
    """Return the elements in ascending order along an axis, or of the flattened tensor for None, as a new tensor; or `descending`.

    NaN counts as the largest. With `stable`, zeros of both signs keep their order; otherwise their order is arbitrary. Raise AxisError.
    (Array API 2025.12, `sort`.)

    >>> import tenxor as tx
    >>> tx.sort(tx.asarray([[3, 1, 2], [9, 7, 8]]), axis=1, descending=True).tolist()
    [[3, 2, 1], [9, 8, 7]]
    """
    x, axis_index = _flatten_for_axis("sort", x, axis)
    descending, stable = truth("sort", "descending", descending), truth("sort", "stable", stable)
    rows = x.moveaxis(axis_index, -1)
    is_small = _is_small(rows)
    bits = None if is_small else _BITS.get(x.dtype)
    if has_past(x) or (bits is not None and stable and _has_zeros_below(x, bits)):
        return take_along_axis(x, _sort_order(rows, descending, True).moveaxis(-1, axis_index), axis=axis_index)
    if bits is int16:
        result = hosted("sort", _compute_ranks(rows), kind=_RADIX)[0]
        result = _rank_bits(result)  # `_rank_bits` is its own inverse
        result = (result if result.node.traced else result.realize()).view(x.dtype)
    elif x.dtype is boolean:
        result = hosted("sort", rows.view(uint8), kind=_RADIX)[0].view(boolean)
    else:
        result = hosted("sort", rows, kind=_RADIX if is_small or x.dtype.is_complex or x.dtype.bits <= 16 else _QUICK)[0]
    return (result.flip(-1) if descending else result).moveaxis(-1, axis_index)


@called_again
@spelled
def argsort(
    x: Operand,
    /,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    dim: int | None = None,
) -> Tensor:
    """Return the indices along an axis, or of the flattened tensor for None, that sort `x`, as a new int64 tensor.

    `take_along_axis` applies them. With `stable`, equal elements, and NaNs, keep their order, also in `descending` order. Raise AxisError.
    (Array API 2025.12, `argsort`.)

    >>> import tenxor as tx
    >>> tx.argsort(tx.asarray([3, 1, 2, 1])).tolist(), tx.argsort(tx.asarray([3, 1, 2, 1]), descending=True).tolist()
    ([1, 3, 2, 0], [0, 2, 1, 3])
    """
    x, axis_index = _flatten_for_axis("argsort", x, axis)
    order = _sort_order(
        x.moveaxis(axis_index, -1), truth("argsort", "descending", descending), truth("argsort", "stable", stable)
    )
    return order.moveaxis(-1, axis_index)


def _replay_keys(implementation: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Wrap `lexsort` to ask the fast path first: for a list or tuple of keys, the fast path replays a recorded call."""
    name = f"{__name__}._by_keys"

    @wraps(implementation)
    def lexsort(*args: Any, **named: Any) -> Tensor:
        if len(args) == 1 and args[0].__class__ in _ROWS and args[0] and not named:
            for caller in callers:
                replayed: Tensor | None = caller.again(name, tuple(args[0]), named)
                if replayed is not None:
                    return replayed
        return implementation(*args, **named)

    return lexsort


@_replay_keys
@spelled
def lexsort(keys: Tensor | Sequence[Operand], /, *, axis: int = -1, dim: int | None = None) -> Tensor:
    """Return the indices along an axis that sort by several keys of one shape, as a new int64 tensor.

    The last key decides first; equal elements are ordered by the key before, and so on. Raise ShapeError, AxisError, and ArgumentError
    without keys. (NumPy's `lexsort`.)

    >>> import tenxor as tx
    >>> tx.lexsort([tx.asarray([3, 1, 2]), tx.asarray([0, 1, 0])]).tolist()
    [2, 0, 1]
    """
    if axis == -1 and type(keys) in (list, tuple) and 0 < len(keys) <= MAX_RECORDED_KEYS and {Tensor}.issuperset(map(type, keys)):
        return _by_keys(*keys)
    try:
        key_tensors = [asarray(key) for key in keys]
    except TypeError as error:
        raise ArgumentError(f"lexsort: keys are tensors of one shape, in a list or a tuple: {error}") from None
    if not key_tensors:
        raise ArgumentError("lexsort: give at least one key to sort by")
    return _lexsort_along(key_tensors, axis)


@told_again
def _by_keys(a: Tensor, b: Tensor | None = None, c: Tensor | None = None, d: Tensor | None = None) -> Tensor:
    """Compute `lexsort` along the last axis for up to four keys, and report a direct call to the fast path."""
    keys = [key for key in (a, b, c, d) if key is not None]
    order = _lexsort_along(keys, -1)
    if a.ndim == 1 and a.size < MAX_LEXSORT_ELEMENTS:
        tell(lambda *keys: order_by_keys([key.dtype for key in keys]), keys, [order])
    return order


def _lexsort_along(keys: Sequence[Tensor], axis: int) -> Tensor:
    """Compute `lexsort` for a list of keys along an axis. Raise ShapeError or AxisError."""
    for key in keys:
        if key.shape != keys[0].shape:
            raise ShapeError(f"lexsort: keys have shapes {keys[0].shape} and {key.shape}; all have one shape")
    axis_index = axis_of("lexsort", axis, keys[0].ndim)
    small_result = at_once(lambda *arrays: [np.asarray(np.lexsort(arrays, axis_index), np.int64, "C")], *keys, few=MAX_LEXSORT_ELEMENTS)
    if small_result is not None:
        return small_result[0]
    order = None
    for key in keys:
        rows = key.moveaxis(axis_index, -1)
        if order is None:
            order = _sort_order(rows, False, True)
        else:
            order = take_along_axis(order, _sort_order(take_along_axis(rows, order), False, True))
    assert order is not None
    return order.moveaxis(-1, axis_index)


class TopK(NamedTuple):
    """The largest or smallest `values`, and their `indices` along the axis."""

    values: Tensor
    indices: Tensor


@called_again
@spelled
def topk(
    x: Operand,
    k: int,
    /,
    *,
    axis: int = -1,
    largest: bool = True,
    sorted: bool = True,
    dim: int | None = None,
) -> TopK:
    """Return the `k` largest elements along an axis, or the smallest, `values`, and their `indices`, as two new tensors.

    The results are always sorted, with the largest (or smallest) first, and of equal elements the first. NaN counts as the largest. Raise
    AxisError, and ArgumentError unless `k` is from 0 to the size of the axis. (PyTorch's `topk`.)

    >>> import tenxor as tx
    >>> values, indices = tx.topk(tx.asarray([3, 9, 1, 7]), 2)
    >>> values.tolist(), indices.tolist()
    ([9, 7], [1, 3])
    """
    x = asarray(x)
    axis_index = axis_of("topk", axis, x.ndim)
    size, count = x.shape[axis_index], checked_int("topk", "k", k)
    if not 0 <= count <= size:
        raise ArgumentError(
            f"topk: k is {count}, and axis {axis_index} of shape {x.shape} has {size} elements; k is 0 to {size}"
        )
    truth("topk", "sorted", sorted)  # results are sorted in any case
    rows, options = x.moveaxis(axis_index, -1), {"count": count, "largest": truth("topk", "largest", largest)}
    if x.dtype is bfloat16 or x.node.past is not None:
        indices = hosted("argtopk", _compute_ranks(rows) if x.dtype is bfloat16 else rows, sizes={"k": count}, **options)[0]
        values = take_along_axis(rows, indices)
    else:
        values, indices = hosted("topk", rows, sizes={"k": count}, **options)
    return TopK(values.moveaxis(-1, axis_index), indices.moveaxis(-1, axis_index))


def _flatten_for_axis(op: str, operand: Operand, axis: int | None) -> tuple[Tensor, int]:
    """Return a tensor, flattened if `axis` is None, and the axis as a number from 0 on."""
    x = asarray(operand)
    if axis is None:
        x, axis = x.ravel(), 0
    return x, axis_of(op, axis, x.ndim)


def _has_zeros_below(x: Tensor, bits: DType) -> bool:
    """Return whether `x` contains -0.0, whose position among zeros a stable sort must keep. True for a tracer."""
    return x.node.traced or bool((x.view(bits) == int(bits.lowest)).any())


def _is_small(x: Tensor) -> bool:
    """Return whether NumPy should sort the rows unranked. True for tracers, whose values are unknown, except for bfloat16."""
    if x.dtype is bfloat16:
        return False
    return x.size < FEW or x.node.traced or x.size * (x.shape[-1] // SHORT_ROW_ELEMENTS).bit_length() < RANKING_COMPARISONS


def _sort_order(rows: Tensor, descending: bool, stable: bool) -> Tensor:
    """Return the indices that sort along the last axis."""
    size, dtype = rows.shape[-1], rows.dtype
    if dtype.is_complex or _is_small(rows):
        return _order_by_numpy(rows, descending)
    packed = _pack_ranks(rows, descending)
    if packed is not None:
        packed_ranks, position_mask = packed
        return hosted("sort", packed_ranks, kind=_QUICK)[0] & position_mask
    ranks = _compute_ranks(rows)
    ranks = (~ranks if descending else ranks).realize()
    order = hosted("argsort", ranks, kind=_QUICK)[0]
    if stable and size > 1:
        in_order = take_along_axis(ranks, order).realize()
        if bool((in_order[..., 1:] == in_order[..., :-1]).any()):
            return hosted("argsort", ranks, kind=_RADIX)[0]
    return order


def _order_by_numpy(rows: Tensor, descending: bool) -> Tensor:
    """Return the indices that sort along the last axis, stable, by NumPy's argsort of the elements themselves."""
    if not descending:
        return hosted("argsort", rows, kind=_RADIX)[0]
    return (rows.shape[-1] - 1) - hosted("argsort", rows.flip(-1), kind=_RADIX)[0].flip(-1)


def _pack_ranks(rows: Tensor, descending: bool) -> tuple[Tensor, int] | None:
    """Return rank and position packed into one int64 each, and the mask of the position's bits; None where 64 bits do not suffice."""
    size = rows.shape[-1]
    bits = size.bit_length()
    ranks = _compute_ranks(rows)
    if ranks.dtype.bits == 64:
        if rows.dtype is float64:
            return None  # ranks of float64 take all 64 bits
        low, high = int(ranks.min()), int(ranks.max())
        if (high - low) >> (63 - bits):
            return None
        ranks = (ranks - low).astype(int64)
    else:
        ranks = ranks.astype(int64)
    if descending:
        ranks = ~ranks
    return (ranks << bits) | positions((size,)), (1 << bits) - 1


def _compute_ranks(rows: Tensor) -> Tensor:
    """Return integers in the order of the elements: equal ones for zeros of both signs, and for all NaNs."""
    bits = _BITS.get(rows.dtype)
    if bits is None:
        return rows.view(uint8) if rows.dtype is boolean else rows
    ranks = Tensor._compute(OPS["where"], rows == 0, 0, _rank_bits(rows.view(bits)))
    return Tensor._compute(OPS["where"], rows.isnan(), int(bits.highest), ranks)


def _rank_bits(bits: Tensor) -> Tensor:
    """Map the bits of floats to integers of the same order, or back: for negative numbers all bits but the sign are inverted."""
    return bits ^ ((bits >> (bits.dtype.bits - 1)) & int(bits.dtype.highest))
