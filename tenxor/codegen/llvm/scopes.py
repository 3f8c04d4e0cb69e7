"""The position of the emitter in a kernel: the open loops (`Scope`), the lanes along an axis, and the current blocks of axes.

These objects exist while the code of a kernel is written. A `Value` in them stands for a value at run time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..._utils.records import NamedTuple
from .builder import Cursor, Value

ValueVectors = list[Value]  # one scalar, or `unroll` vectors


@dataclass(slots=True, eq=False, repr=False)
class Lanes:
    """The elements computed at once, a step of a vectorized loop: `unroll` vectors of `width` lanes along `axis`.

    A lane is an iteration of the loop over the axis. With `is_masked`, the vectors of the loop may be partial. Only the lanes in `mask` are
    active (None: all lanes). `active_count` is the number of active lanes, if known, and these are the first lanes. A number of `width` or
    more means all lanes, and a number below 1 means no lane. With `is_maybe_full`, only run time tells whether a vector is whole:
    `remaining_count` is the number of elements up to the end of the loop.
    """

    axis: int
    width: int
    unroll: int
    is_masked: bool = False
    mask: Value | None = None
    active_count: Value | None = None
    is_maybe_full: bool = False
    remaining_count: Value | None = None


class AxisRange(NamedTuple):
    """A part of an axis, with `max_size` indices or fewer, for the loop over this axis: from index `begin` up to, but without, `end`."""

    begin: Value
    end: Value
    max_size: int


@dataclass(slots=True, eq=False, repr=False)
class Scope:
    """The open body of a loop over `axis`, while its code is written. The axis -1 stands for a loop over blocks, a branch, or the function.

    `cursor` is the place where the code of the scope continues, and `index` is the index of the loop. `emitted_values` caches the values
    emitted in the scope, by expression or another key, so that none is emitted twice.
    """

    axis: int
    cursor: Cursor
    index: Value | None = None
    emitted_values: dict[object, Any] = field(default_factory=dict)
