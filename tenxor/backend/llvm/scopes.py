"""The position of the emitter: the open loops, the lanes along an axis, and the current blocks of axes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...records import NamedTuple
from .builder import Cursor, Value

Parts = list[Value]  # one scalar, or `unroll` vectors


@dataclass(slots=True, eq=False, repr=False)
class Lanes:
    """The elements that are computed at once: `unroll` vectors of `width` lanes along `axis`.

    A `masked` vector may be partial. Its active lanes are those of `mask` (None: all lanes), which are the first `working` lanes if that
    count is known. A count of `width` or more means all lanes, a count of 0 or less none. With `either`, only run time tells whether a
    vector is whole: `left` is the number of elements up to the end of the loop.
    """

    axis: int
    width: int
    unroll: int
    masked: bool = False
    mask: Value | None = None
    working: Value | None = None
    either: bool = False
    left: Value | None = None


class Span(NamedTuple):
    """The part of an axis, of `size` indices or fewer, that the loop over the axis runs through."""

    begin: Value
    end: Value
    size: int


@dataclass(slots=True, eq=False, repr=False)
class Scope:
    """The body of a loop over an axis; -1 stands for a loop over blocks, a branch, or the function itself.

    `cursor` is where the code of the scope goes on, and `index` is the index of the loop. `known` caches the values emitted in the scope.
    """

    axis: int
    cursor: Cursor
    index: Value | None = None
    known: dict[object, Any] = field(default_factory=dict)
