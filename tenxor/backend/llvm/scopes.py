"""Where the emitter is: in the bodies of some loops, with lanes along one of them, in a block of some."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .values import Value

Parts = list[Value]  # one scalar, or `unroll` vectors


@dataclass(slots=True)
class Lanes:
    """How many elements are computed at once: `unroll` vectors of `width` along `axis`, those outside `mask` being
    idle. If `either`, a vector may be whole or not: there are `left` elements to the end.
    """

    axis: int
    width: int
    unroll: int
    masked: bool = False
    mask: Value | None = None
    either: bool = False
    left: Value | None = None


class Block(NamedTuple):
    """The part of an axis, of `size` indices or fewer, that the loop over it runs through."""

    begin: Value
    end: Value
    size: int


@dataclass(slots=True)
class Scope:
    """The body of one loop (or of the function): where its code goes on, and what has been computed in it."""

    axis: int
    block: Any
    index: Value | None = None
    known: dict[object, Parts] = field(default_factory=dict)
