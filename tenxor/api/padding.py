"""Padding: tensors with borders, further elements at both ends of their axes. The width of a border is its number of elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import Any

import numpy as np

from .._utils.aliases import argument_aliases
from ..dtypes import DEFAULT_COMPLEX, DEFAULT_FLOAT, Number, check_fits
from ..errors import ArgumentError, ShapeError, describe_value
from ..graph.spec import memoized_call
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import ZERO, check_choice, normalize_axis
from ..tensor.core import Operand
from .concatenation import axis_key, concat
from .creation import arange, asarray, empty, full
from .host_calls import is_on_tape
from .nested_structures import list_leaves

__all__ = ["pad"]

IntArray = np.ndarray[Any, np.dtype[np.int64]]
MAX_PREFILLED_BYTES = 1 << 18  # bytes of a result; up to this size the whole result is filled first
_Border = Callable[[int, int], Tensor | Number]  # (axis, end) -> the values to write before (0) or after (1) the elements along the axis


@memoized_call
@argument_aliases
def pad(
    x: Operand,
    /,
    pad_width: int | Sequence[Any] | Mapping[int, int | tuple[int, int]],
    mode: str = "constant",
    *,
    constant_values: Number | Sequence[Any] = ZERO,
    end_values: Number | Sequence[Any] = ZERO,
    stat_length: int | Sequence[Any] | None = None,
    reflect_type: str = "even",
) -> Tensor:
    """Return a new tensor with further elements at the ends of the axes of `x`.

    Parameters
    ----------
    x : Tensor
        Any dtype.
    pad_width : int, pair of int, Sequence of pairs, or dict
        Numbers of elements, 0 or more: one number, one pair `(before, after)` for all axes, a pair for each axis, or a dictionary of
        numbers or pairs by axis.
    mode : str, default "constant"
        The new elements:

        - "constant": `constant_values`, or 0
        - "edge": the last element
        - "reflect", "symmetric": the elements mirrored without or with the last one
        - "wrap": the elements of the other end
        - "linear_ramp": from the edge to `end_values`, or 0, computed in float64; integers are rounded down
        - "maximum", "minimum", "mean", "median": of the `stat_length` elements next to the end
        - "empty": uninitialised memory
    constant_values, end_values : number, or Sequence, default 0
        One number, one pair, or a pair for each axis.
    stat_length : int, or Sequence, optional
        A number of elements, one pair, or a pair for each axis; by default all elements along the axis. With 0, the mean and the
        median of floats are NaN.
    reflect_type : {"even", "odd"}
        With "odd", the modes "reflect" and "symmetric" give `2 * edge - mirrored`.

    Returns
    -------
    Tensor
        New tensor of the dtype of `x`.

    Raises
    ------
    ArgumentError
        If a width is negative, if the mode is unknown, if an argument belongs to another mode, or if there is no statistic of 0 elements.
    ShapeError
        If an axis has no element to repeat.
    AxisError
        If the dictionary names an axis that does not exist.

    Notes
    -----
    In the corners, the border of the last axis counts. (NumPy's `pad`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.pad(tx.arange(3), (1, 2)).tolist(), tx.pad(tx.arange(3), 2, "reflect").tolist()
    ([0, 0, 1, 2, 0, 0], [2, 1, 0, 1, 2, 1, 0])
    >>> tx.pad(tx.asarray([4.0, 8.0]), 2, "linear_ramp").tolist(), tx.pad(tx.asarray([4, 8]), 1, "maximum").tolist()
    ([0.0, 2.0, 4.0, 8.0, 4.0, 0.0], [8, 4, 8, 8])
    """
    x = asarray(x)
    widths = _pad_widths(x, pad_width)
    _check_mode(mode, constant_values=constant_values, end_values=end_values, stat_length=stat_length, reflect_type=reflect_type)
    if mode in _STATISTICS or mode == "linear_ramp" or reflect_type == "odd":
        _check_elements(x, widths, mode)
        return _pad_computed(x, widths, mode, 0 if end_values is ZERO else end_values, stat_length)
    if mode == "constant":
        constant_values = 0 if constant_values is ZERO else constant_values
        border = _constant_border(x, "constant_values", constant_values)
    elif mode != "empty":
        border = _element_border(x, widths, mode)
    padded = empty([width_before + n + width_after for n, (width_before, width_after) in zip(x.shape, widths, strict=True)], dtype=x.dtype)
    middle = [slice(width_before, width_before + n) for n, (width_before, _) in zip(x.shape, widths, strict=True)]
    if mode == "constant" and padded.nbytes <= MAX_PREFILLED_BYTES and isinstance(constant_values, (int, float, complex)):
        padded._write(constant_values, "pad")  # writing the middle twice takes less time than a call for each border
        padded[(*middle, ...)]._write(x, "pad")
        return padded
    padded[(*middle, ...)]._write(x, "pad")
    if mode == "empty":
        return padded
    for axis, (width_before, width_after) in enumerate(widths):
        ends = slice(0, width_before), slice(middle[axis].stop, None)
        for end in (0, 1):
            if (width_before, width_after)[end]:
                padded[(*axis_key(axis, ends[end]), *middle[axis + 1 :])]._write(border(axis, end), "pad")
    return padded


def _pad_widths(x: Tensor, pad_width: Any) -> list[tuple[int, int]]:
    """Return a pair of widths, before and after, for each axis of `x`. Raise ArgumentError unless they are integers of 0 or more.

    `pad_width` is a number, a pair, a pair for each axis, or a mapping from axis to a number or pair.
    """
    if isinstance(pad_width, Mapping):
        pairs: list[tuple[Any, Any]] = [(0, 0)] * x.ndim
        for axis, ends in pad_width.items():
            pairs[normalize_axis("pad", axis, x.ndim)] = _to_pairs("pad_width", ends, 1)[0]
    else:
        pairs = _to_pairs("pad_width", pad_width, x.ndim)
    if any(type(n) is not int or n < 0 for pair in pairs for n in pair):
        raise ArgumentError(f"pad: pad_width {describe_value(pad_width)} must be integers, 0 or more")
    return pairs


def _to_pairs(name: str, value: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Return a pair of numbers for each of `ndim` axes, from one number, one pair, or a pair for each axis.

    `name` is the argument in the message of the ArgumentError for a different `value`.
    """
    try:
        return [(begin, end) for begin, end in np.broadcast_to(np.asarray(value), (ndim, 2)).tolist()]
    except ValueError:
        raise ArgumentError(
            f"pad: {name} {describe_value(value)} is neither one number, nor one pair, nor a pair for each of {ndim} axes"
        ) from None


def _constant_border(x: Tensor, name: str, value: Any) -> _Border:
    """Return a function from an axis and an end (0 before, 1 after) to the constant for the border there.

    `value`, the value of the argument `name`, is a number, a pair, or a pair for each axis of `x`. Tensors on the tape stay tensors.
    Raise ArgumentError for anything but numbers.
    """
    if is_on_tape(*[t for t in list_leaves(value) if isinstance(t, Tensor)]):
        both = asarray(value).astype(x.dtype, copy=False).expand((x.ndim, 2))
        return lambda axis, end: both[axis, end]
    pairs = _to_pairs(name, value, x.ndim)
    for number in (n for pair in pairs for n in pair):
        if not isinstance(number, (int, float, complex)):
            raise ArgumentError(f"pad: {name} {describe_value(value)} must be numbers")
    return lambda axis, end: pairs[axis][end]


def _element_border(x: Tensor, widths: list[tuple[int, int]], mode: str) -> _Border:
    """Return a function from an axis and an end (0 before, 1 after) to the border there, a view of elements of `x` selected by `mode`.

    `widths` are the widths before and after, for each axis. Borders of an axis include the borders of earlier axes.
    """
    sources: list[IntArray] = []
    _check_elements(x, widths, mode)
    for size, (width_before, width_after) in zip(x.shape, widths, strict=True):
        sources.append(_INDEX_MAPS[mode](np.arange(-width_before, size + width_after), size) if size else np.arange(0))

    def border(axis: int, end: int) -> Tensor:
        width_before, width_after = widths[axis]
        layout = x.layout.select(axis, sources[axis][-width_after:] if end else sources[axis][:width_before])
        for a in range(axis):
            layout = layout.select(a, sources[a])
        return x._view(layout)

    return border


def _reflect(positions: IntArray, size: int) -> IntArray:
    """Return `positions` mapped into 0 to `size` - 1 by reflection at the end elements, without repeating the end elements."""
    inside = positions % max(2 * size - 2, 1)
    return np.minimum(inside, 2 * size - 2 - inside)


def _mirror(positions: IntArray, size: int) -> IntArray:
    """Return `positions` mapped into 0 to `size` - 1 by reflection beyond the end elements, repeating the end elements."""
    inside = positions % (2 * size)
    return np.minimum(inside, 2 * size - 1 - inside)


_PYTORCH_MODES = {"replicate": "edge", "circular": "wrap"}
# Mode -> the index of the element for each position, from -before to size + after - 1.
_INDEX_MAPS: dict[str, Callable[[IntArray, int], IntArray]] = {
    "edge": lambda positions, size: np.clip(positions, 0, size - 1),
    "reflect": _reflect,
    "symmetric": _mirror,
    "wrap": lambda positions, size: positions % size,
}


def _check_elements(x: Tensor, widths: list[tuple[int, int]], mode: str) -> None:
    """Raise ShapeError for an axis of `x` of size 0 with a border to fill. Call this for a `mode` that fills borders from elements.

    `widths` are the widths before and after, for each axis. `mode` is for the message.
    """
    for axis, (size, ends) in enumerate(zip(x.shape, widths, strict=True)):
        if size == 0 and any(ends):
            raise ShapeError(f"pad: axis {axis} of shape {x.shape} has no element to fill {mode!r} padding with; use mode 'constant'")


def _check_mode(mode: Any, **values: Any) -> None:
    """Raise ArgumentError for an unknown mode, or for an argument that only other modes take.

    `values` maps names of arguments, keys of `_MODE_ARGUMENTS`, to values; "reflect_type" must be among them. An argument with its default
    value is allowed in every mode.
    """
    if not isinstance(mode, str) or mode not in _MODES:
        ours = _PYTORCH_MODES.get(mode) if isinstance(mode, str) else None
        advice = f"PyTorch's {describe_value(mode)} is {ours!r} here" if ours else f"there are {', '.join(map(repr, _MODES))}"
        raise ArgumentError(f"pad: there is no mode {describe_value(mode)}; {advice}")
    for name, value in values.items():
        default, modes = _MODE_ARGUMENTS[name]
        is_given = value != default if isinstance(value, str) else value is not default
        if is_given and mode not in modes:
            raise ArgumentError(
                f"pad: mode {describe_value(mode)} takes no {name}; leave it out, or use mode {' or '.join(map(repr, modes))}"
            )
    check_choice("pad", "reflect_type", values["reflect_type"], "even", "odd")


# --- borders computed from inner elements ----------------------------------------------------------------------------


def _pad_computed(x: Tensor, widths: list[tuple[int, int]], mode: str, end_values: Any, stat_length: Any) -> Tensor:
    """Return `x` padded axis by axis with borders computed from the elements, as a new tensor.

    The borders of later axes include the borders of earlier ones. `widths` are the widths before and after, for each axis. The modes
    "reflect" and "symmetric" stand for reflection with `reflect_type` "odd". `end_values` and `stat_length` are as in `pad`.
    """
    ends, lengths = _constant_border(x, "end_values", end_values), _stat_lengths(x, mode, stat_length)
    for axis, (width_before, width_after) in enumerate(widths):
        if not width_before + width_after:
            continue
        if mode == "linear_ramp":
            blocks = [_make_ramp(x, axis, width_before, ends(axis, 0), 0), x, _make_ramp(x, axis, width_after, ends(axis, 1), 1)]
            x = concat(blocks, axis=axis)
        elif mode in _STATISTICS:
            blocks = [
                _make_statistic(x, axis, width, mode, lengths[axis][end], end) for end, width in enumerate((width_before, width_after))
            ]
            x = concat([blocks[0], x, blocks[1]], axis=axis)
        else:
            x = _reflect_odd(x, axis, width_before, width_after, mode == "symmetric")
    return x.copy() if not any(map(any, widths)) else x


def _stat_lengths(x: Tensor, mode: str, stat_length: Any) -> list[tuple[Any, Any]]:
    """Return, for each axis of `x`, the numbers of elements at both ends for the statistic; the size of the axis if `stat_length` is None.

    Raise ArgumentError for invalid numbers, and for 0 unless `mode` and dtype allow NaN.
    """
    if stat_length is None:
        return [(n, n) for n in x.shape]
    pairs = _to_pairs("stat_length", stat_length, x.ndim)
    if any(type(n) is not int or n < 0 for pair in pairs for n in pair):
        raise ArgumentError(f"pad: stat_length is {describe_value(stat_length)}; it must be a number of elements, 0 or more")
    if any(n == 0 for pair in pairs for n in pair) and not (mode in ("mean", "median") and (x.dtype.is_float or x.dtype.is_complex)):
        raise ArgumentError(
            f"pad: stat_length is {describe_value(stat_length)}, and there is no {mode} of 0 elements of dtype {x.dtype}; "
            "it must be 1 or more (0 gives NaN for the mean and the median of floats)"
        )
    return pairs


def _make_ramp(x: Tensor, axis: int, width: int, outer_value: Any, end: int) -> Tensor:
    """Return `width` evenly spaced elements from `outer_value` towards an end of `x` along `axis`, without the end element itself.

    `end` is 0 for the ramp before the first element, and 1 for the ramp after the last, in reverse. The elements are computed in float64,
    as by NumPy's `pad`. In integer tensors they are rounded down, so the order of the operations matters: like `numpy.linspace`, multiply
    by the step, but where any step is 0 divide the positions first.
    """
    if type(outer_value) is int and x.dtype.is_integer:
        check_fits(outer_value, x.dtype, "pad")
    wide = DEFAULT_COMPLEX if x.dtype.is_complex else DEFAULT_FLOAT
    edge = x[axis_key(axis, slice(-1, None) if end else slice(0, 1))].astype(wide, copy=False)
    outer = outer_value.astype(wide, copy=False) if isinstance(outer_value, Tensor) else outer_value
    steps = arange(width, dtype=DEFAULT_FLOAT).reshape((-1, *(1,) * (x.ndim - 1 - axis)))
    step = (edge - outer) / max(width, 1)
    ramp: Tensor = step * steps
    if x.dtype.is_integer:
        ramp = Tensor._compute(OPS["where"], (step == 0).any(), (edge - outer) * (steps / max(width, 1)), ramp)
    ramp = ramp + outer
    ramp = ramp.floor() if x.dtype.is_integer else ramp
    return (ramp.flip(axis) if end else ramp).astype(x.dtype, copy=False)


def _make_statistic(x: Tensor, axis: int, width: int, mode: str, length: int, end: int) -> Tensor:
    """Return `width` copies of the statistic `mode` of the `length` elements of `x` next to an end of `axis`.

    The elements are the first if `end` is 0, and the last if 1. Of no elements the statistic is NaN. Means of integers are rounded.
    """
    length = min(length, x.shape[axis])
    shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
    if length == 0:
        return full(shape, nan, dtype=x.dtype)
    elements = x[axis_key(axis, slice(x.shape[axis] - length, None) if end else slice(0, length))]
    statistic = _STATISTICS[mode](elements, axis)
    if x.dtype.is_integer and statistic.dtype is not x.dtype:
        statistic = statistic.round()
    wide: Tensor = statistic.expand(shape).astype(x.dtype, copy=False)
    return wide


def _reflect_odd(x: Tensor, axis: int, width_before: int, width_after: int, with_edge: bool) -> Tensor:
    """Return `x` with one axis padded by point reflection at the end elements, `2 * edge - mirrored`, in as many rounds as the widths need.

    With `with_edge` (mode "symmetric"), the mirrored elements begin with the end element, otherwise with its neighbour.
    """
    period = x.shape[axis]
    skipped = 0 if with_edge else 1
    if period == 1:  # no element to mirror: `2 * edge - edge`
        shape = (*x.shape[:axis], width_before + 1 + width_after, *x.shape[axis + 1 :])
        return x.expand(shape).copy()
    while width_before or width_after:
        count = x.shape[axis]  # of these elements, whole periods are mirrored
        mirrored_count = count // period * period if with_edge else (count - 1) // (period - 1) * (period - 1)
        low, high = min(width_before, mirrored_count), min(width_after, mirrored_count)
        first_edge, last_edge = x[axis_key(axis, slice(0, 1))], x[axis_key(axis, slice(-1, None))]
        left = x[axis_key(axis, slice(skipped, skipped + low))].flip(axis)
        right = x[axis_key(axis, slice(count - skipped - high, count - skipped))].flip(axis)
        mirrored = [  # bools stay bools
            (2 * edge - elements).astype(x.dtype, copy=False) for edge, elements in ((first_edge, left), (last_edge, right))
        ]
        x = concat([mirrored[0], x, mirrored[1]], axis=axis)
        width_before, width_after = width_before - low, width_after - high
    return x


def _median(x: Tensor, axis: int) -> Tensor:
    """Return the medians of `x` along `axis`, which stays with size 1."""
    from .quantiles import median

    return median(x, axis, keepdims=True)


_STATISTICS: dict[str, Callable[[Any, int], Any]] = {
    "maximum": lambda x, axis: x.max(axis, keepdims=True),
    "minimum": lambda x, axis: x.min(axis, keepdims=True),
    "mean": lambda x, axis: x.mean(axis, keepdims=True),
    "median": _median,
}
_MODES = ("constant", *_INDEX_MAPS, "linear_ramp", *_STATISTICS, "empty")
_MODE_ARGUMENTS: dict[str, tuple[Any, tuple[str, ...]]] = {  # the default of each argument, and the modes that accept the argument
    "constant_values": (ZERO, ("constant",)),
    "end_values": (ZERO, ("linear_ramp",)),
    "stat_length": (None, tuple(_STATISTICS)),
    "reflect_type": ("even", ("reflect", "symmetric")),
}
