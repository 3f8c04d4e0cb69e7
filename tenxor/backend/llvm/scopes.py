"""Where the emitter is: in the bodies of some loops, with lanes along one of them, in a block of some."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...records import NamedTuple
from .builder import Cursor, Value

Parts = list[Value]  # one scalar, or `unroll` vectors


@dataclass(slots=True, eq=False, repr=False)
class Lanes:
    """How many elements are computed at once: `unroll` vectors of `width` along `axis`, those outside `mask` being
    idle, which are all but the first `working`, if that is known: as many or more are all, none or fewer none. If `either`, a vector may
    be whole or not: there are `left` elements to the end.
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
    """The part of an axis, of `size` indices or fewer, that the loop over it runs through."""

    begin: Value
    end: Value
    size: int


@dataclass(slots=True, eq=False, repr=False)
class Scope:
    """The body of one loop over an axis (or of blocks of one, or of the function: -1): where its code goes on, the index that
    it is at, and what has been computed in it.
    """

    axis: int
    cursor: Cursor
    index: Value | None = None
    known: dict[object, Any] = field(default_factory=dict)
