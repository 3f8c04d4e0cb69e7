"""What the next of many products reads is asked for while this one is computed: into the second cache, as it is needed later."""

from __future__ import annotations

from collections.abc import Callable

from ...kernel.ir import Load
from .access import prefetch
from .addresses import scaled
from .builder import Value
from .emitter import Emitter
from .packing import Panels
from .types import I64
from .values import memory_type

Ask = Callable[[Value], None]


def rows_ahead(em: Emitter, side: Panels, axis: int, at: Value, rows: int) -> Ask:
    """What asks, at a step, for a part of the rows from one on at the next index of an axis. They are taken to lie one behind the other."""
    line = em.target.caches.line

    def ask(e: Load, start: Value, k: Value) -> None:
        element = memory_type(e.dtype)
        each = -(-rows * element.bytes // line) * line // element.bytes
        prefetch(start.at(k * each, element), each, element, level=2)

    return _asking(em, side, axis, at, ask)


def columns_ahead(em: Emitter, side: Panels, axis: int, at: Value, columns: int) -> Ask:
    """The same for the next columns from one on, at that step."""

    def ask(e: Load, start: Value, k: Value) -> None:
        element = memory_type(e.dtype)
        prefetch(start.at(side.step_to(e, k), element), columns, element, level=2)

    return _asking(em, side, axis, at, ask)


def _asking(em: Emitter, side: Panels, axis: int, at: Value, ask: Callable[[Load, Value, Value], None]) -> Ask:
    """What asks for all values of a side that lie a step further at the next index of an axis, given where they begin."""
    starts: dict[Load, Value] = {}
    for e in side.side.values:
        assert isinstance(e, Load)
        term = next((t for t in e.address.terms if t.axis == axis), None)
        if term is not None and term.how != "table":
            start = side.where_it_lies(e, at)
            em.inmost()
            starts[e] = start.at(scaled(em, term, em.b.constant(I64, 1)), memory_type(e.dtype))

    def each(k: Value) -> None:
        em.inmost()
        for e, start in starts.items():
            ask(e, start, k)

    return each
