"""Sorting, and the indices that sort. The rank of an element is an integer; ranks are in the order of the elements.

NaN counts as larger than all numbers: it is last in ascending order, and first in descending. Complex numbers are ordered by their real
parts, and equal real parts by their imaginary parts.

NumPy sorts on our memory (`native/`). It is fast for integers, and for sorts that need not be stable. So floats of 16 bits are sorted by
their ranks, as integers. For indices, rank and position are packed into one integer where 64 bits suffice:
no two are equal, so the sort need not be stable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

from .._utils import upcalls
from .._utils.aliases import argument_aliases
from .._utils.records import NamedTuple
from ..dtypes import DType, bfloat16, boolean, float16, float32, float64, int16, int32, int64, uint8
from ..errors import ArgumentError, ShapeError, describe_value
from ..graph.spec import memoized_call, memoized_external_calls
from ..layout.coords import validate_int
from ..native.ordering_ops import describe_lexsort
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag, normalize_axis
from ..tensor.core import Operand
from .creation import asarray, make_flat_indices
from .gather_functions import take_along_axis
from .host_calls import call_host_op, call_on_copies, is_on_tape, report_direct_call

__all__ = ["argsort", "lexsort", "sort", "topk"]

Array = np.ndarray[Any, Any]
P = ParamSpec("P")
_KEY_SEQUENCE_TYPES = (tuple, list)
MAX_UNRANKED_ELEMENTS = 1024  # elements up to which NumPy sorts before kernels would have ranked them; the limit is higher for short rows
# Elements of a row sorted without merging; comparisons of all rows that take as long as ranking.
SHORT_ROW_ELEMENTS, MIN_RANKED_COMPARISONS = 16, 1 << 14
MAX_RECORDED_KEYS = 4  # keys up to which the fast path records calls
MAX_LEXSORT_ELEMENTS = 1 << 12  # elements for which NumPy's lexsort is faster than sorting by one key after the other
_BITS_DTYPE: dict[DType, DType] = {float16: int16, bfloat16: int16, float32: int32, float64: int64}  # the integers with the bits of floats
_STABLE_SORT, _UNSTABLE_SORT = "stable", "quicksort"  # NumPy's names; for 8 and 16 bits "stable" is a radix sort


@memoized_call
@argument_aliases
def sort(
    x: Operand,
    /,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    dim: int | None = None,
) -> Tensor:
    """Return the elements in ascending or descending order along an axis, as a new tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype. Complex numbers are ordered by their real parts, and equal real parts by their imaginary parts.
    axis : int or None, default -1
        The axis to sort along; None sorts the flattened tensor. PyTorch's `dim` is an alias.
    descending : bool, default False
        If True, the largest element is first.
    stable : bool, default True
        If True, zeros of both signs keep their order; otherwise their order is arbitrary.

    Returns
    -------
    Tensor
        A new tensor of the shape and dtype of `x`, or 1-D for `axis` None.

    Raises
    ------
    AxisError
        If the axis does not exist.

    Notes
    -----
    NaN counts as the largest. (Array API 2025.12, `sort`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.sort(tx.asarray([[3, 1, 2], [9, 7, 8]]), axis=1, descending=True).tolist()
    [[3, 2, 1], [9, 8, 7]]
    """
    x, axis_index = _flatten_for_axis("sort", x, axis)
    descending, stable = check_flag("descending", descending), check_flag("stable", stable)
    rows = x.moveaxis(axis_index, -1)
    is_small = _is_small(rows)
    bits = None if is_small else _BITS_DTYPE.get(x.dtype)
    if is_on_tape(x) or (bits is not None and stable and _has_zeros_below(x, bits)):
        return take_along_axis(x, _sort_order(rows, descending, True).moveaxis(-1, axis_index), axis=axis_index)
    if bits is int16:
        result = call_host_op("sort", _compute_ranks(rows), kind=_STABLE_SORT)[0]
        result = _rank_bits(result)  # `_rank_bits` is its own inverse
        result = (result if result.node.is_traced else result.realize()).view(x.dtype)
    elif x.dtype is boolean:
        result = call_host_op("sort", rows.view(uint8), kind=_STABLE_SORT)[0].view(boolean)
    else:
        result = call_host_op("sort", rows, kind=_STABLE_SORT if is_small or x.dtype.is_complex or x.dtype.bits <= 16 else _UNSTABLE_SORT)[
            0
        ]
    return (result.flip(-1) if descending else result).moveaxis(-1, axis_index)


@memoized_call
@argument_aliases
def argsort(
    x: Operand,
    /,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    dim: int | None = None,
) -> Tensor:
    """Return the indices along an axis that sort a tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype.
    axis : int or None, default -1
        The axis to sort along; None sorts the flattened tensor. PyTorch's `dim` is an alias.
    descending : bool, default False
        If True, the index of the largest element is first.
    stable : bool, default True
        If True, equal elements, and NaNs, keep their order, also in descending order.

    Returns
    -------
    Tensor
        A new int64 tensor of the shape of `x`, or 1-D for `axis` None. `take_along_axis` applies the indices.

    Raises
    ------
    AxisError
        If the axis does not exist.

    Notes
    -----
    NaN counts as the largest. (Array API 2025.12, `argsort`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.argsort(tx.asarray([3, 1, 2, 1])).tolist(), tx.argsort(tx.asarray([3, 1, 2, 1]), descending=True).tolist()
    ([1, 3, 2, 0], [0, 2, 1, 3])
    """
    x, axis_index = _flatten_for_axis("argsort", x, axis)
    order = _sort_order(x.moveaxis(axis_index, -1), check_flag("descending", descending), check_flag("stable", stable))
    return order.moveaxis(-1, axis_index)


def _replay_keys(implementation: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Return a wrapper of `lexsort`, given as `implementation`, that asks the fast path first.

    For a list or tuple of keys without further arguments, the fast path replays a recorded call. Otherwise `implementation` is called.
    """
    name = f"{__name__}._by_keys"

    @wraps(implementation)
    def lexsort(*args: Any, **named: Any) -> Tensor:
        if len(args) == 1 and args[0].__class__ in _KEY_SEQUENCE_TYPES and args[0] and not named:
            fast_path = upcalls.installed
            replayed: Tensor | None = None if fast_path is None else fast_path.call_replay.replay(name, tuple(args[0]), named)
            if replayed is not None:
                return replayed
        return implementation(*args, **named)

    return lexsort


@_replay_keys
@argument_aliases
def lexsort(keys: Tensor | Sequence[Operand], /, *, axis: int = -1, dim: int | None = None) -> Tensor:
    """Return the indices along an axis that sort by several keys.

    Parameters
    ----------
    keys : Sequence[Tensor] or Tensor
        Tensors of one shape, or a tensor whose slices along the first axis are the keys. The last key decides first; equal elements are
        ordered by the key before, and so on.
    axis : int, default -1
        The axis of the keys to sort along. PyTorch's `dim` is an alias.

    Returns
    -------
    Tensor
        A new int64 tensor of the shape of one key.

    Raises
    ------
    ShapeError
        If the keys have different shapes.
    AxisError
        If the axis does not exist.
    ArgumentError
        If there are no keys, or if `keys` is no sequence of values that can become tensors.

    Notes
    -----
    NumPy's `lexsort`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.lexsort([tx.asarray([3, 1, 2]), tx.asarray([0, 1, 0])]).tolist()
    [2, 0, 1]
    """
    if axis == -1 and type(keys) in (list, tuple) and 0 < len(keys) <= MAX_RECORDED_KEYS and {Tensor}.issuperset(map(type, keys)):
        return _lexsort_few_keys(*keys)
    try:
        key_tensors = [asarray(key) for key in keys]
    except TypeError as error:
        raise ArgumentError(
            f"lexsort: keys is {describe_value(keys)}; it must be a sequence of tensors, numbers or nested lists of numbers, or a tensor"
            f" with at least 1 axis ({getattr(error, 'fact', error)})"
        ) from None
    if not key_tensors:
        raise ArgumentError("lexsort: give at least one key to sort by")
    return _lexsort_along(key_tensors, axis)


@memoized_external_calls
def _lexsort_few_keys(a: Tensor, b: Tensor | None = None, c: Tensor | None = None, d: Tensor | None = None) -> Tensor:
    """Return the result of `lexsort` along the last axis for up to four keys, `a` the least significant; missing keys are None.

    For 1-D keys with fewer than `MAX_LEXSORT_ELEMENTS` elements, report a direct call: the fast path may then call NumPy's C function on
    the memory of other keys.
    """
    keys = [key for key in (a, b, c, d) if key is not None]
    order = _lexsort_along(keys, -1)
    if a.ndim == 1 and a.size < MAX_LEXSORT_ELEMENTS:
        report_direct_call(lambda *keys: describe_lexsort([key.dtype for key in keys]), keys, [order])
    return order


def _lexsort_along(keys: Sequence[Tensor], axis: int) -> Tensor:
    """Return the result of `lexsort` along `axis` for a list of keys, the last of them the most significant.

    Raise ShapeError if the keys have different shapes, and AxisError if `axis` does not exist.
    """
    for key in keys:
        if key.shape != keys[0].shape:
            raise ShapeError(f"lexsort: keys have shapes {keys[0].shape} and {key.shape}; all must have one shape")
    axis_index = normalize_axis("lexsort", axis, keys[0].ndim)
    small_result = call_on_copies(
        lambda *arrays: [np.asarray(np.lexsort(arrays, axis_index), np.int64, "C")], *keys, max_elements=MAX_LEXSORT_ELEMENTS
    )
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


@memoized_call
@argument_aliases
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
    """Return the `k` largest or smallest elements along an axis, and their indices.

    Parameters
    ----------
    x : Tensor
        Any dtype.
    k : int
        Number of elements, from 0 to the size of the axis.
    axis : int, default -1
        The axis along which elements are compared. PyTorch's `dim` is an alias.
    largest : bool, default True
        If False, the smallest elements are returned.
    sorted : bool, default True
        Accepted as in PyTorch. The results are always sorted, with the largest (or smallest) first.

    Returns
    -------
    values, indices : Tensor
        New tensors of the shape of `x`, with `k` in place of the axis. `indices` has dtype int64.

    Raises
    ------
    AxisError
        If the axis does not exist.
    ArgumentError
        Unless `k` is from 0 to the size of the axis.

    Notes
    -----
    Of equal elements the first is taken. NaN counts as the largest. (PyTorch's `topk`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> values, indices = tx.topk(tx.asarray([3, 9, 1, 7]), 2)
    >>> values.tolist(), indices.tolist()
    ([9, 7], [1, 3])
    """
    x = asarray(x)
    axis_index = normalize_axis("topk", axis, x.ndim)
    size, count = x.shape[axis_index], validate_int("topk", "k", k)
    if not 0 <= count <= size:
        raise ArgumentError(f"topk: k is {count}, and axis {axis_index} of shape {x.shape} has {size} elements; k must be from 0 to {size}")
    check_flag("sorted", sorted)  # results are sorted in any case
    rows, options = x.moveaxis(axis_index, -1), {"count": count, "largest": check_flag("largest", largest)}
    if x.dtype is bfloat16 or x.node.tape_node is not None:
        indices = call_host_op("argtopk", _compute_ranks(rows) if x.dtype is bfloat16 else rows, sizes={"k": count}, **options)[0]
        values = take_along_axis(rows, indices)
    else:
        values, indices = call_host_op("topk", rows, sizes={"k": count}, **options)
    return TopK(values.moveaxis(-1, axis_index), indices.moveaxis(-1, axis_index))


def _flatten_for_axis(op: str, operand: Operand, axis: int | None) -> tuple[Tensor, int]:
    """Return `operand` as a tensor, flattened if `axis` is None, and the axis counted from the start. Messages begin with `op`."""
    x = asarray(operand)
    if axis is None:
        x, axis = x.ravel(), 0
    return x, normalize_axis(op, axis, x.ndim)


def _has_zeros_below(x: Tensor, bits: DType) -> bool:
    """Return whether `x`, a tensor of floats viewed in the integer dtype `bits` of equal width, contains -0.0.

    A stable sort must keep its position among zeros. Return True for a tracer.
    """
    return x.node.is_traced or bool((x.view(bits) == int(bits.lowest)).any())


def _is_small(x: Tensor) -> bool:
    """Return whether NumPy should sort the rows of `x` along the last axis as they are, without `_compute_ranks`.

    Return True for few elements and for tracers, whose values are unknown, but never for bfloat16.
    """
    if x.dtype is bfloat16:
        return False
    return (
        x.size < MAX_UNRANKED_ELEMENTS
        or x.node.is_traced
        or x.size * (x.shape[-1] // SHORT_ROW_ELEMENTS).bit_length() < MIN_RANKED_COMPARISONS
    )


def _sort_order(rows: Tensor, descending: bool, stable: bool) -> Tensor:
    """Return the indices that sort each of `rows` along the last axis, as an int64 tensor; descending order if `descending`.

    If `stable`, equal elements keep their order, in a descending sort too; otherwise their order is arbitrary.
    """
    size, dtype = rows.shape[-1], rows.dtype
    if dtype.is_complex or _is_small(rows):
        return _order_by_numpy(rows, descending)
    packed = _pack_ranks(rows, descending)
    if packed is not None:
        packed_ranks, position_mask = packed
        return call_host_op("sort", packed_ranks, kind=_UNSTABLE_SORT)[0] & position_mask
    ranks = _compute_ranks(rows)
    ranks = (~ranks if descending else ranks).realize()
    order = call_host_op("argsort", ranks, kind=_UNSTABLE_SORT)[0]
    if stable and size > 1:
        in_order = take_along_axis(ranks, order).realize()
        if bool((in_order[..., 1:] == in_order[..., :-1]).any()):
            return call_host_op("argsort", ranks, kind=_STABLE_SORT)[0]
    return order


def _order_by_numpy(rows: Tensor, descending: bool) -> Tensor:
    """Return the indices that sort each of `rows` along the last axis, stable, by NumPy's argsort of the elements themselves.

    The order is reversed if `descending`, but equal elements keep their order.
    """
    if not descending:
        return call_host_op("argsort", rows, kind=_STABLE_SORT)[0]
    return (rows.shape[-1] - 1) - call_host_op("argsort", rows.flip(-1), kind=_STABLE_SORT)[0].flip(-1)


def _pack_ranks(rows: Tensor, descending: bool) -> tuple[Tensor, int] | None:
    """Return rank and position of each element packed into one int64, and the mask of the position's bits; None if 64 bits do not suffice.

    Sorting the packed numbers sorts `rows`, in descending order if `descending`, and stably. None is returned for float64, and for 64-bit
    integers of too wide a range.
    """
    if rows.dtype is float64:
        return None  # ranks of float64 take all 64 bits
    size = rows.shape[-1]
    bits = size.bit_length()
    ranks = _compute_ranks(rows)
    if ranks.dtype.bits == 64:
        low, high = int(ranks.min()), int(ranks.max())
        if (high - low) >> (63 - bits):
            return None
        ranks = (ranks - low).astype(int64)
    else:
        ranks = ranks.astype(int64)
    if descending:
        ranks = ~ranks
    return (ranks << bits) | make_flat_indices((size,)), (1 << bits) - 1


def _compute_ranks(rows: Tensor) -> Tensor:
    """Return integers in the order of the elements of `rows`: equal ones for zeros of both signs, and the largest for NaN.

    Integers are returned themselves, bools as uint8, and floats as signed integers of the same width. Every NaN gets the highest value. The
    caller excludes complex rows.
    """
    bits = _BITS_DTYPE.get(rows.dtype)
    if bits is None:
        return rows.view(uint8) if rows.dtype is boolean else rows
    ranks = Tensor._compute(OPS["where"], rows == 0, 0, _rank_bits(rows.view(bits)))
    return Tensor._compute(OPS["where"], rows.isnan(), int(bits.highest), ranks)


def _rank_bits(bits: Tensor) -> Tensor:
    """Map the bits of floats to integers of the same order, or back: for negative numbers all bits but the sign are inverted."""
    return bits ^ ((bits >> (bits.dtype.bits - 1)) & int(bits.dtype.highest))
