"""Prefetch the operands of the next product in a batch while this product is computed.

The prefetches go to the second cache, since the next product needs the operands later.
"""

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
    """Return a function that emits, at a step, the prefetch of a part of the next product's rows.

    These are `rows` rows from index `at` on, at the next index of `axis`. The rows are assumed to follow one another in memory.
    """
    line = em.target.caches.line

    def ask(e: Load, start: Value, k: Value) -> None:
        element = memory_type(e.dtype)
        each = -(-rows * element.bytes // line) * line // element.bytes
        prefetch(start.at(k * each, element), each, element, level=2)

    return _asking(em, side, axis, at, ask)


def columns_ahead(em: Emitter, side: Panels, axis: int, at: Value, columns: int) -> Ask:
    """Return a function that emits, at a step, the prefetch of the next product's columns at this step.

    These are `columns` columns from index `at` on, at the next index of `axis`.
    """

    def ask(e: Load, start: Value, k: Value) -> None:
        element = memory_type(e.dtype)
        prefetch(start.at(side.step_to(e, k), element), columns, element, level=2)

    return _asking(em, side, axis, at, ask)


def _asking(em: Emitter, side: Panels, axis: int, at: Value, ask: Callable[[Load, Value, Value], None]) -> Ask:
    """Return a function of the step that calls `ask` for each value of a side, unless a table moves the value along `axis`.

    `ask` is given the load, the pointer to its element at index `at` and the first step, at the next index of `axis`, and the step.
    """
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
