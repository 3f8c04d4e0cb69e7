"""Arguments as users spell them: axes and shapes, and PyTorch's names for NumPy's."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index as as_int
from typing import Any

from ..errors import ArgumentError, AxisError

Axes = int | tuple[int, ...] | None


def one_spelling(op: str, ours: str, value: Any, theirs: str, other: Any, default: Any = None) -> Any:
    """The argument `ours`, which may also be spelled `theirs`; both at once is an error."""
    if other is None:
        return value
    if value is not default and value != default:
        raise ArgumentError(f"{op}: {ours} and {theirs} are two names of one argument; give only {ours}")
    return other


def ints(op: str, values: tuple[Any, ...]) -> tuple[int, ...]:
    """Integers given one by one or as one sequence: `f(2, 3)` and `f((2, 3))`."""
    if len(values) == 1 and (not hasattr(values[0], "__index__") or getattr(values[0], "ndim", 0) > 0):
        values = values[0]
    try:
        return tuple([as_int(v) for v in values])
    except TypeError:
        raise ArgumentError(f"{op}: expected integers, not {values!r}") from None


def axis_of(op: str, axis: Any, ndim: int) -> int:
    """One axis as a number from 0 on."""
    try:
        n = as_int(axis)
    except TypeError:
        raise AxisError(f"{op}: an axis is an integer, not {axis!r}") from None
    if not -ndim <= n < ndim:
        has = f"axes {-ndim} to {ndim - 1}" if ndim else "no axes"
        raise AxisError(f"{op}: there is no axis {n}; a tensor of {ndim} axes has {has}")
    return n % ndim


def axes_of(op: str, axes: int | Iterable[int] | None, ndim: int) -> tuple[int, ...]:
    """Axes as numbers from 0 on, all of them for None."""
    if axes is None:
        return tuple(range(ndim))
    given = [axes] if hasattr(axes, "__index__") else list(axes)
    found = tuple([axis_of(op, a, ndim) for a in given])
    if len(set(found)) < len(found):
        raise AxisError(
            f"{op}: axis {max(found, key=found.count)} is named twice in {tuple(given)}; name each axis once"
        )
    return found
