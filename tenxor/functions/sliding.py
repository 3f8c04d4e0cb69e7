"""Shared parts of convolution and pooling: signatures for one to three axes of space, arguments with a number for each axis, and windows.

The axes of space are the last ones. Before them come a batch axis, which may be missing, and an axis of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..dtypes import Number
from ..errors import ArgumentError, ShapeError, described
from ..layout import Layout
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import ints
from .padding import pad

Ints = int | Sequence[int]
Sizes = tuple[int, ...]
Parameters = ParamSpec("Parameters")
T = TypeVar("T")


def over_axes(
    space: int, implementation: Callable[Concatenate[str, int, Parameters], T]
) -> Callable[[Callable[[], None]], Callable[Parameters, T]]:
    """Return a decorator for a stub that has only a name and a docstring: it becomes a function with the parameters of `implementation`,
    except for the first two.

    The function calls `implementation` with its own name and the number `space` of axes as the first two arguments. The signature is the
    function's own, not a wrapper's `*args`, so Python's errors about a wrong call name it.
    """
    assert isinstance(implementation, FunctionType)
    names = implementation.__code__.co_varnames[2 : implementation.__code__.co_argcount]
    parameter_list = ", ".join(names)

    def decorate(stub: Any) -> Any:
        op, stub_code = stub.__name__, stub.__code__
        function = eval(
            f"lambda {parameter_list}: {implementation.__name__}({op!r}, {space}, {parameter_list})", implementation.__globals__
        )
        function.__code__ = function.__code__.replace(
            co_name=op, co_qualname=op, co_filename=stub_code.co_filename, co_firstlineno=stub_code.co_firstlineno
        )
        function.__name__, function.__qualname__, function.__doc__ = op, op, stub.__doc__
        function.__defaults__ = implementation.__defaults__
        function.__annotations__ = {name: implementation.__annotations__[name] for name in (*names, "return")}
        return called_again(function)

    return decorate


def per_axis(op: str, name: str, value: Ints, space: int, minimum: int) -> Sizes:
    """Return a tuple of `space` integers, from an integer for all axes or a sequence. Raise ArgumentError for values below `minimum`."""
    numbers = ints(f"{op}: {name}", (value,))
    if len(numbers) == 1:
        numbers *= space
    if len(numbers) != space:
        raise ArgumentError(
            f"{op}: {name} {described(value)} has {len(numbers)} numbers; give one, or one for each of {space} axes"
        )
    if min(numbers) < minimum:
        raise ArgumentError(f"{op}: {name} {described(value)} is too small; {name} is {minimum} or more")
    return numbers


def both_sides(op: str, name: str, value: Any, space: int) -> tuple[Sizes, Sizes]:
    """Return integers for the beginnings and for the ends of the axes of space: from integers for both alike, or a pair for each axis."""
    pairs = isinstance(value, (list, tuple)) and [isinstance(x, (list, tuple)) for x in value]
    if not pairs or not any(pairs):
        numbers = per_axis(op, name, value, space, 0)
        return numbers, numbers
    if not all(pairs) or len(pairs) != space or any(len(x) != 2 for x in value):
        raise ArgumentError(f"{op}: {name} {described(value)} is neither numbers nor a pair (before, after) for each of {space} axes")
    begin_counts, end_counts = [per_axis(op, name, [x[end] for x in value], space, 0) for end in (0, 1)]
    return begin_counts, end_counts


def batched(op: str, x: Tensor, space: int) -> Tensor:
    """Return a view of `x` with a batch axis, or `x` itself if already batched. Raise ShapeError for another number of axes."""
    if x.ndim == space + 2:
        return x
    if x.ndim == space + 1:
        return x.expand_dims(0)
    sizes = ", ".join("DHW"[-space:]) if space > 1 else "L"
    raise ShapeError(f"{op}: x has shape {x.shape}; it must be (N, C, {sizes}), or (C, {sizes}) for one without batch")


def extents(kernel: Sizes, dilation: Sizes) -> Sizes:
    """Return the sizes of a dilated kernel: the number of elements that each window spans."""
    return tuple([d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)])


def counted(
    op: str, x: Tensor, pad_before: Sizes, pad_after: Sizes, extent: Sizes, stride: Sizes, ceil_mode: bool = False
) -> Sizes:
    """Return how many windows fit along each axis with this padding. Raise ShapeError if none fits.

    With `ceil_mode`, a further window counts if it begins before the padding at the end, and may reach beyond the end.
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


def padded(x: Tensor, counts: Sizes, pad_before: Sizes, extent: Sizes, stride: Sizes, value: Number) -> Tensor:
    """Return `x` with borders of `value` wide enough for so many windows, or `x` itself if they need none."""
    space = x.shape[x.ndim - len(extent) :]
    widths = [
        (low, max((count - 1) * s + r - n - low, 0))
        for n, count, low, r, s in zip(space, counts, pad_before, extent, stride, strict=True)
    ]
    if not any(low or high for low, high in widths):
        return x
    return pad(x, [(0, 0)] * (x.ndim - len(extent)) + widths, constant_values=value)


def windowed(layout: Layout, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Layout:
    """Return the layout in which the axes of space count the windows, and the last axes run over the elements of a window."""
    first_axis = layout.ndim - len(kernel)
    for axis, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True)):
        layout = layout.windows(first_axis + axis, k, s, d)
    return layout
