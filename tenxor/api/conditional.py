"""Selection of elements by conditions, writes at flat positions and masks, and linear interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import DEFAULT_FLOAT
from ..errors import ArgumentError, DTypeError, ShapeError
from ..graph.spec import memoized_call
from ..native.ordering_ops import describe_interp
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice, to_number
from ..tensor.core import Operand
from .argument_validation import check_argument
from .creation import asarray, full, is_scalar_on_tape, make_flat_indices
from .gather_functions import take
from .host_calls import call_host_op, call_on_copies, is_on_tape
from .output_arguments import cast_to
from .sorted_search import searchsorted

__all__ = ["interp", "put", "putmask", "select"]

MAX_CAST_ELEMENTS = 1 << 14  # elements of narrower dtypes up to which NumPy casts and interpolates them itself
MAX_EXACT_INT = 2**53  # limit of integers for `x`, `left` and `right`: larger ones may be no float64


def select(conditions: Sequence[Operand], choices: Sequence[Any], /, default: Operand = 0) -> Tensor:
    """Return, at each position, the element of the first choice whose condition is true there, else of `default`, as a new tensor.

    Parameters
    ----------
    conditions : list of bool Tensor
        At least one.
    choices : list of Tensor or number
        One for each condition. Conditions, choices and `default` broadcast together.
    default : Tensor or number, default 0
        The values where no condition is true.

    Returns
    -------
    Tensor
        New tensor of the broadcast shape, with the dtype to which choices and `default` promote.

    Raises
    ------
    ArgumentError
        If there are no conditions, or not as many choices as conditions.
    DTypeError
        If a condition is not bool.
    ShapeError
        If the shapes do not broadcast.

    References
    ----------
    NumPy, `select`.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.arange(5)
    >>> tx.select([x < 2, x > 3], [x, x * 10], -1).tolist()
    [0, 1, -1, -1, 40]
    """
    for name, argument in (("conditions", conditions), ("choices", choices)):
        if not isinstance(argument, (list, tuple)):
            raise ArgumentError(f"select: {name} must be a list or a tuple, not {type(argument).__name__}; write [x, y]")
    masks = [asarray(c) for c in conditions]
    if not masks or len(masks) != len(choices):
        raise ArgumentError(
            f"select: {len(masks)} conditions and {len(choices)} choices; there must be one choice for each condition, and at least one"
            " condition"
        )
    for k, condition in enumerate(masks):
        if condition.dtype.kind != "bool":
            raise DTypeError(f"select: conditions[{k}] has dtype {condition.dtype}; conditions must be bool, such as x != 0")
    options: list[Any] = [c if isinstance(c, (bool, int, float, complex)) else asarray(c) for c in (*choices, default)]
    selected = options[-1]
    for condition, choice in zip(masks[::-1], options[-2::-1], strict=True):
        selected = Tensor._compute(OPS["where"], condition, choice, selected)
    result: Tensor = selected
    return result


def put(x: Tensor, indices: Operand, values: Operand, /, mode: str = "raise") -> None:
    """Write `values` at `indices` of the flattened tensor, in place, and return None. `x` may be any view, also a transposed one.

    Parameters
    ----------
    x : Tensor
        The tensor to change.
    indices : int Tensor
        Positions in the flattened `x`, in row-major order. Negative indices count from the end.
    values : Tensor
        Cast to the dtype of `x`, and repeated as often as needed. Element `k` is for index `k`.
    mode : "raise", "wrap" or "clip", default "raise"
        Handling of indices out of range: raise an error, take them modulo the size, or take the nearest valid index.

    Raises
    ------
    IndexOutOfRange
        If an index is out of range, with `mode="raise"`.
    ArgumentError
        If `values` is empty but `indices` is not, or for another `mode`.
    DTypeError
        If `x` is no tensor, or for complex values in a real tensor.
    ReadOnlyError
        If several positions of `x` share an element.

    References
    ----------
    NumPy, `put`.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.zeros((2, 2)); tx.put(x, [0, 3], [1.0, 2.0]); x.tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    if not isinstance(x, Tensor):
        raise DTypeError(f"put: x must be a tensor, to write into, not {type(x).__name__}; use np.put for an array")
    mode = check_choice("put", "mode", mode, "raise", "wrap", "clip")
    flat_indices = asarray(indices).ravel()
    if flat_indices.size == 0:
        return
    if mode == "wrap":
        flat_indices = flat_indices % x.size
    elif mode == "clip":
        flat_indices = flat_indices.clip(0, x.size - 1)
    x.reshape(-1)[flat_indices] = _repeat_values("put", asarray(values), flat_indices.size, make_flat_indices((flat_indices.size,)))


def putmask(x: Tensor, mask: Operand, values: Operand, /) -> None:
    """Write into the elements of `x` where `mask` is true, in place, and return None.

    Parameters
    ----------
    x : Tensor
        The tensor to change.
    mask : Tensor
        Of the shape of `x`. Nonzero elements count as true.
    values : Tensor
        Cast to the dtype of `x`, and repeated as often as needed. Element `k` of the flattened `x` gets element `k` of the repeated values.

    Raises
    ------
    ShapeError
        If `mask` and `x` have different shapes.
    ArgumentError
        If `values` is empty and `x` is not.
    DTypeError
        If `x` is no tensor, or for complex values in a real tensor.
    ReadOnlyError
        If several positions of `x` share an element.

    References
    ----------
    NumPy, `putmask`.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.arange(4); tx.putmask(x, x > 1, [-1, -2, -3]); x.tolist()
    [0, 1, -3, -1]
    """
    if not isinstance(x, Tensor):
        raise DTypeError(f"putmask: x must be a tensor, to write into, not {type(x).__name__}; use np.putmask for an array")
    mask_tensor = asarray(mask)
    if mask_tensor.shape != x.shape:
        raise ShapeError(f"putmask: mask has shape {mask_tensor.shape}, and x {x.shape}; they must be equal")
    if x.size:
        x[...] = Tensor._compute(
            OPS["where"],
            mask_tensor != 0,
            cast_to(_repeat_values("putmask", asarray(values), x.size, make_flat_indices(x.shape)), x.dtype),
            x,
        )


def _repeat_values(op: str, values: Tensor, count: int, flat_positions: Tensor) -> Tensor:
    """Return the element of the flattened `values`, repeated, for each of the flat positions `flat_positions`, in the shape of these.

    Raise ArgumentError for empty `values`; `op` and `count`, the number of positions, are for the message.
    """
    if values.size == 0:
        raise ArgumentError(f"{op}: values has no elements, for {count} positions to write; it must have at least one")
    return take(values.ravel(), flat_positions % values.size)


@memoized_call
def interp(
    x: Operand, xp: Operand, fp: Operand, /, left: Operand | None = None, right: Operand | None = None, period: float | None = None
) -> Tensor:
    """Return the piecewise linear interpolation at `x` through the points `(xp, fp)`.

    Parameters
    ----------
    x : Tensor or number
        Real, of any shape.
    xp : Tensor
        Real, 1-D and ascending, with at least one element. With `period`, `xp` need not ascend.
    fp : Tensor
        Real or complex, of the shape of `xp`.
    left, right : number, optional
        Result before the first and after the last point, by default the first and the last `fp`. Ignored with `period`.
    period : float, optional
        Period modulo which all `x` and `xp` are taken.

    Returns
    -------
    Tensor
        New tensor of the shape of `x`. The dtype is float64, or complex128 if `fp`, `left` or `right` is complex.

    Raises
    ------
    ShapeError
        If `xp` and `fp` are not 1-D, of one size, and with at least one element.
    DTypeError
        If `x` or `xp` is complex.
    ArgumentError
        If `period` is 0 or not a number.

    References
    ----------
    NumPy, `interp`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.interp(tx.asarray([0.5, 1.5, 9.0]), [0.0, 1.0, 2.0], [0.0, 10.0, 40.0]).tolist()
    [5.0, 25.0, 40.0]
    """
    if type(xp) is Tensor and type(fp) is Tensor and (type(x) is float or (type(x) is int and abs(x) < MAX_EXACT_INT)):
        return interp(asarray(float(x)), xp, fp, left, right, period)  # the fast path records calls with tensors
    queries, points, heights = asarray(x), asarray(xp), asarray(fp)
    if points.ndim != 1 or heights.shape != points.shape or points.size == 0:
        raise ShapeError(
            f"interp: xp and fp have shapes {points.shape} and {heights.shape}; both must be 1-D, of equal size, with at least one point"
        )
    if queries.dtype.is_complex or points.dtype.is_complex:
        raise DTypeError(f"interp: x is {queries.dtype} and xp {points.dtype}; both must be real; only fp may be complex")
    sides = (None, None) if period is not None else (left, right)
    outer_values: list[Any] = [side if side is None or is_scalar_on_tape(side) else to_number(side, "interp") for side in sides]
    are_simple = all(
        [side is None or isinstance(side, float) or (isinstance(side, int) and abs(side) < MAX_EXACT_INT) for side in outer_values]
    )
    are_simple = are_simple and points.size > 1 and not heights.dtype.is_complex
    if are_simple and period is None and {queries.dtype, points.dtype, heights.dtype} != {DEFAULT_FLOAT}:
        direct_call = describe_interp([queries.dtype, points.dtype, heights.dtype], outer_values[0], outer_values[1])
        small_results = call_on_copies(
            lambda *arrays: [np.asarray(np.interp(*arrays, *outer_values), np.float64)],
            queries,
            points,
            heights,
            max_elements=MAX_CAST_ELEMENTS,
            direct_call=direct_call,
        )
        if small_results is not None:
            return small_results[0]
    queries, points = cast_to(queries, DEFAULT_FLOAT), cast_to(points, DEFAULT_FLOAT)
    if not heights.dtype.is_complex:
        heights = cast_to(heights, DEFAULT_FLOAT)
    if not is_scalar_on_tape(period):
        check_argument("interp", "period", period, "float | None")
    if period is not None:
        queries, points, heights = _wrap_periodic(queries, points, heights, abs(period if is_scalar_on_tape(period) else float(period)))
    if are_simple and points.size > 1 and not is_on_tape(queries, points, heights):
        return call_host_op("interp", queries, points, heights, left=outer_values[0], right=outer_values[1])[0]
    size = points.size
    begin: Any = (searchsorted(points, queries, side="right") - 1).clip(0, max(size - 2, 0))
    end: Any = (begin + 1).clip(0, size - 1)
    x0, y0, y1 = points[begin], heights[begin], heights[end]
    step = points[end] - x0
    where_op = OPS["where"]
    slope = Tensor._compute(where_op, step == 0, 0.0, (y1 - y0) / Tensor._compute(where_op, step == 0, 1.0, step))
    result = slope * (queries - x0) + y0
    result = Tensor._compute(where_op, result.isnan(), slope * (queries - points[end]) + y1, result)  # for infinite heights
    result = Tensor._compute(where_op, result.isnan() & ((queries == x0) | (y0 == y1)), y0, result)
    result = Tensor._compute(where_op, queries == points[end], y1, result)
    ends = [heights[k] if side is None else full((), side) for k, side in zip((0, -1), outer_values, strict=True)]
    result = Tensor._compute(where_op, queries < points[0], ends[0], result)
    result = Tensor._compute(where_op, queries > points[-1], ends[1], result)
    return Tensor._compute(where_op, queries.isnan(), float("nan"), result)


def _wrap_periodic(queries: Tensor, points: Tensor, heights: Tensor, period: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return `queries` modulo `period`, and the points modulo `period` in ascending order with the heights in the same order.

    A copy of the last point, a period earlier, comes in front, and a copy of the first, a period later, at the end. Raise ArgumentError for
    a period of 0.
    """
    from .concatenation import concat
    from .sorting import argsort

    if not isinstance(period, Tensor) and period == 0:
        raise ArgumentError("interp: period is 0; it must be a number other than 0, or None for no period")
    points = points % period
    order = argsort(points)
    points, heights = take(points, order), take(heights, order)
    return (
        queries % period,
        concat([points[-1:] - period, points, points[:1] + period]),
        concat([heights[-1:], heights, heights[:1]]),
    )
