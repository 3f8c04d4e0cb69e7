"""Prefetch the operands of the next product in a batch of products, into the second cache, while this product is computed."""

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

EmitPrefetch = Callable[[Value], None]


def rows_ahead(em: Emitter, side: Panels, axis: int, index: Value, rows: int) -> EmitPrefetch:
    """Return a function that emits, for a step of this product, a prefetch of rows of the next product.

    The next product is at the next index of `axis`. Over all steps, the prefetches cover `rows` rows from `index` on, if rows follow one
    another in memory.
    """
    line = em.target.caches.line

    def prefetch_load(e: Load, start: Value, k: Value) -> None:
        element = memory_type(e.dtype)
        elements_per_step = -(-rows * element.bytes // line) * line // element.bytes
        prefetch(start.at(k * elements_per_step, element), elements_per_step, element, level=2)

    return _make_prefetcher(em, side, axis, index, prefetch_load)


def columns_ahead(em: Emitter, side: Panels, axis: int, index: Value, columns: int) -> EmitPrefetch:
    """Return a function that emits, for a step of this product, a prefetch of columns of the next product at the same step.

    The next product is at the next index of `axis`. A prefetch covers `columns` columns from `index` on.
    """

    def prefetch_load(e: Load, start: Value, k: Value) -> None:
        element = memory_type(e.dtype)
        prefetch(start.at(side.step_to(e, k), element), columns, element, level=2)

    return _make_prefetcher(em, side, axis, index, prefetch_load)


def _make_prefetcher(
    em: Emitter, side: Panels, axis: int, index: Value, prefetch_load: Callable[[Load, Value, Value], None]
) -> EmitPrefetch:
    """Return a function that calls `prefetch_load(load, start, step)` for each value of a side that moves along `axis`, but not by a table.

    `start` points to the element at `index` and the first step, at the next index of `axis`.
    """
    starts: dict[Load, Value] = {}
    for e in side.side.values:
        assert isinstance(e, Load)
        term = next((t for t in e.address.terms if t.axis == axis), None)
        if term is not None and term.how != "table":
            start = side.where_it_lies(e, index)
            em.inmost()
            starts[e] = start.at(scaled(em, term, em.b.constant(I64, 1)), memory_type(e.dtype))

    def prefetch_step(k: Value) -> None:
        em.inmost()
        for e, start in starts.items():
            prefetch_load(e, start, k)

    return prefetch_step
