"""Shared parts of convolution and pooling: signatures for one to three spatial axes, arguments with a number for each axis, and windows.

The spatial axes are the last ones. Before them come a batch axis, which may be missing, and an axis of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..dtypes import Number
from ..errors import ArgumentError, ShapeError, describe_value
from ..graph.spec import memoized_call
from ..layout import Layout
from ..tensor import Tensor
from ..tensor.argument_parsing import parse_ints
from .padding import pad

Ints = int | Sequence[int]
Sizes = tuple[int, ...]
Parameters = ParamSpec("Parameters")
T = TypeVar("T")


def define_for_spatial_axes(
    spatial_ndim: int, implementation: Callable[Concatenate[str, int, Parameters], T]
) -> Callable[[Callable[[], None]], Callable[Parameters, T]]:
    """Return a decorator for a stub that has only a name and a docstring: a function with the parameters of `implementation` replaces it.

    The first two parameters of `implementation` are left out: the function passes its own name and the number `spatial_ndim` of axes. The
    signature is the function's own, not a wrapper's `*args`, so Python's errors about a wrong call name it.
    """
    assert isinstance(implementation, FunctionType)
    names = implementation.__code__.co_varnames[2 : implementation.__code__.co_argcount]
    parameter_list = ", ".join(names)

    def decorate(stub: Any) -> Any:
        op, stub_code = stub.__name__, stub.__code__
        function = eval(
            f"lambda {parameter_list}: {implementation.__name__}({op!r}, {spatial_ndim}, {parameter_list})", implementation.__globals__
        )
        function.__code__ = function.__code__.replace(
            co_name=op, co_qualname=op, co_filename=stub_code.co_filename, co_firstlineno=stub_code.co_firstlineno
        )
        function.__name__, function.__qualname__, function.__doc__ = op, op, stub.__doc__
        function.__defaults__ = implementation.__defaults__
        function.__annotations__ = {name: implementation.__annotations__[name] for name in (*names, "return")}
        return memoized_call(function)

    return decorate


def parse_per_axis(op: str, name: str, value: Ints, spatial_ndim: int, minimum: int) -> Sizes:
    """Return a tuple of `spatial_ndim` integers from `value`, an integer for all axes or a sequence.

    Raise ArgumentError for a wrong count, and for integers below `minimum`. `op` and `name` are the names of function and argument.
    """
    numbers = parse_ints(op, name, (value,))
    if len(numbers) == 1:
        numbers *= spatial_ndim
    if len(numbers) != spatial_ndim:
        choice = "" if spatial_ndim == 1 else f", or one for each of the {spatial_ndim} spatial axes"
        raise ArgumentError(f"{op}: {name} {describe_value(value)} has {len(numbers)} numbers; it must be one number{choice}")
    if min(numbers) < minimum:
        raise ArgumentError(f"{op}: {name} {describe_value(value)} is too small; it must be {minimum} or more")
    return numbers


def parse_both_sides(op: str, name: str, value: Any, spatial_ndim: int) -> tuple[Sizes, Sizes]:
    """Return two tuples of `spatial_ndim` integers of 0 or more: for the beginnings and for the ends of the axes.

    `value` is an integer or one for each axis, for both ends alike, or a pair for each axis. Raise ArgumentError for other values. `op` and
    `name` are the names of function and argument.
    """
    pairs = isinstance(value, (list, tuple)) and [isinstance(x, (list, tuple)) for x in value]
    if not pairs or not any(pairs):
        numbers = parse_per_axis(op, name, value, spatial_ndim, 0)
        return numbers, numbers
    if not all(pairs) or len(pairs) != spatial_ndim or any(len(x) != 2 for x in value):
        raise ArgumentError(
            f"{op}: {name} {describe_value(value)} is neither numbers nor a pair (before, after) for each of {spatial_ndim} axes"
        )
    begin_counts, end_counts = [parse_per_axis(op, name, [x[end] for x in value], spatial_ndim, 0) for end in (0, 1)]
    return begin_counts, end_counts


def add_batch_axis(op: str, x: Tensor, spatial_ndim: int) -> Tensor:
    """Return a view of `x` with a batch axis in front, or `x` itself if already batched: batch, channels and `spatial_ndim` axes.

    Raise ShapeError, beginning with `op`, for another number of axes.
    """
    if x.ndim == spatial_ndim + 2:
        return x
    if x.ndim == spatial_ndim + 1:
        return x.expand_dims(0)
    sizes = ", ".join("DHW"[-spatial_ndim:]) if spatial_ndim > 1 else "L"
    raise ShapeError(f"{op}: x has shape {x.shape}; it must be (N, C, {sizes}), or (C, {sizes}) for one without batch")


def window_extents(kernel: Sizes, dilation: Sizes) -> Sizes:
    """Return the number of elements that a window of `kernel` elements spans along each axis, if neighbours are `dilation` apart."""
    return tuple([d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)])


def count_windows(op: str, x: Tensor, pad_before: Sizes, pad_after: Sizes, extent: Sizes, stride: Sizes, ceil_mode: bool = False) -> Sizes:
    """Return how many windows fit along each spatial axis, the last axes of `x`. Raise ShapeError, beginning with `op`, if none fits.

    The arguments have a number for each spatial axis: the widths `pad_before` and `pad_after` of the padding, the elements `extent` that a
    window spans, and the `stride` between windows. With `ceil_mode`, a further window counts if it begins before the padding at the end,
    and may reach beyond the end.
    """
    space = x.shape[x.ndim - len(extent) :]
    counts = []
    for axis, (n, low, high, r, s) in enumerate(zip(space, pad_before, pad_after, extent, stride, strict=True)):
        room = n + low + high - r
        count = room // s + 1
        if ceil_mode and room % s and count * s < n + low:
            count += 1
        if count < 1:
            raise ShapeError(
                f"{op}: x has shape {x.shape}: its axis {axis - len(extent)} has {n} elements, {n + low + high} with padding,"
                f" but the kernel reaches over {r}; use a smaller kernel or dilation, or more padding"
            )
        counts.append(count)
    return tuple(counts)


def pad_for_windows(x: Tensor, counts: Sizes, pad_before: Sizes, extent: Sizes, stride: Sizes, value: Number) -> Tensor:
    """Return `x` with borders of `value` wide enough for `counts` windows, or `x` itself if no border is needed.

    The arguments are as in `count_windows`; the border at the end follows from the counts.
    """
    space = x.shape[x.ndim - len(extent) :]
    widths = [
        (low, max((count - 1) * s + r - n - low, 0)) for n, count, low, r, s in zip(space, counts, pad_before, extent, stride, strict=True)
    ]
    if not any(low or high for low, high in widths):
        return x
    return pad(x, [(0, 0)] * (x.ndim - len(extent)) + widths, constant_values=value)


def window_layout(layout: Layout, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Layout:
    """Return the layout in which the last axes, the spatial ones, count the windows, followed by an axis for each axis of a window.

    `kernel`, `stride` and `dilation` have a number for each spatial axis: elements of a window, and distances of windows and of elements.
    """
    first_axis = layout.ndim - len(kernel)
    for axis, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True)):
        layout = layout.windows(first_axis + axis, k, s, d)
    return layout
