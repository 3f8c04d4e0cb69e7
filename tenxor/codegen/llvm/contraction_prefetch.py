"""Prefetch the operands of the next contraction in a batch into the second cache, while the present contraction is computed."""

from __future__ import annotations

from collections.abc import Callable

from ...lowering.ir import Load
from .addresses import emit_term_offset
from .builder import Value
from .dtype_conversions import memory_type
from .emitter import Emitter
from .operand_access import prefetch
from .panel_packing import Panels
from .types import I64

EmitPrefetch = Callable[[Value], None]


def make_row_prefetcher(em: Emitter, side: Panels, axis: int, index: Value, rows: int) -> EmitPrefetch:
    """Return a function that takes the number of a step (an int64 value), and emits the prefetch of a part of the rows of the next
    contraction.

    The next contraction of a batch has the next index of `axis`. Over all steps, the prefetches cover `rows` rows of `side` from row number
    `index` on, if rows follow one another in memory. Operands shared by the whole batch are not prefetched.
    """
    line = em.target.caches.line_bytes

    def prefetch_load(e: Load, start: Value, k: Value) -> None:
        element = memory_type(e.dtype)
        elements_per_step = -(-rows * element.bytes // line) * line // element.bytes
        prefetch(start.at(k * elements_per_step, element), elements_per_step, element, level=2)

    return _make_prefetcher(em, side, axis, index, prefetch_load)


def make_column_prefetcher(em: Emitter, side: Panels, axis: int, index: Value, columns: int) -> EmitPrefetch:
    """Return a function that takes the number of a step (an int64 value), and emits a prefetch of columns of the next contraction at this
    step.

    The next contraction of a batch has the next index of `axis`. A prefetch covers `columns` columns of `side` from column number `index`
    on. Operands shared by the whole batch are not prefetched.
    """

    def prefetch_load(e: Load, start: Value, k: Value) -> None:
        element = memory_type(e.dtype)
        prefetch(start.at(side.emit_step_offset(e, k), element), columns, element, level=2)

    return _make_prefetcher(em, side, axis, index, prefetch_load)


def _make_prefetcher(
    em: Emitter, side: Panels, axis: int, index: Value, prefetch_load: Callable[[Load, Value, Value], None]
) -> EmitPrefetch:
    """Return a function that takes the number of a step, and calls `prefetch_load(load, start, step)` for each value of `side`.

    Each value must be a `Load`. Loads without a stride along `axis` are left out: they are the same in all contractions, or read by a
    table. `start` points to the element at row or column number `index` and the first step, in the contraction at the next index of `axis`.
    """
    starts: dict[Load, Value] = {}
    for e in side.side.values:
        assert isinstance(e, Load)
        term = next((t for t in e.address.terms if t.axis == axis), None)
        if term is not None and term.step_kind != "table":
            start = side.pointer_to_stored(e, index)
            em.continue_innermost()
            starts[e] = start.at(emit_term_offset(em, term, em.builder.constant(I64, 1)), memory_type(e.dtype))

    def prefetch_step(k: Value) -> None:
        em.continue_innermost()
        for e, start in starts.items():
            prefetch_load(e, start, k)

    return prefetch_step
