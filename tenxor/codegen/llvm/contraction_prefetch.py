"""Prefetch into the second cache: the operands of the next contraction in a batch, and the packed columns that a contraction needs next."""

from __future__ import annotations

from collections.abc import Callable

from ...lowering.ir import Load
from .addresses import emit_term_offset
from .builder import Value
from .dtype_conversions import memory_type
from .emitter import Emitter
from .operand_access import prefetch
from .panel_packing import Panels
from .types import I8, I64

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


def make_panel_prefetcher(
    em: Emitter, side: Panels, panel: tuple[Value, Value], rows: tuple[Value, Value], steps: tuple[Value, Value], unroll: int
) -> EmitPrefetch:
    """Return a function that takes the number of the first step of an iteration of `unroll` steps, and emits the prefetch of a cache line.

    All tiles of a block of rows read the same packed steps of a panel of `side`, those with the numbers `steps` (begin and end), and then
    the next ones: together, the tiles prefetch these. `panel` is the first index of the block of `side` and of the panel. `rows` is the
    number of rows in front of the tile, and the number of rows of the block: they tell where the tile begins to prefetch.
    """
    bytes_per_step = em.target.caches.line_bytes // unroll
    starts = []
    for value_number, e in enumerate(side.side.values):
        step_bytes = side.panel_size * e.dtype.compute_dtype.itemsize
        first_step = side.pointer_to_first_step(value_number, *panel)
        em.continue_innermost()
        # The same steps of the next panel if a part of the steps is packed, else the steps behind, which the next panel follows.
        next_begin = steps[1] if side.packed_range is None else steps[0] + side.panel_steps
        share = em.builder.binary("sdiv", (steps[1] - steps[0]) * step_bytes, rows[1])
        starts.append(first_step.at(next_begin * step_bytes + rows[0] * share - steps[0] * bytes_per_step, I8))

    def prefetch_lines(k: Value) -> None:
        em.continue_innermost()
        for start in starts:
            prefetch(start.at(k * bytes_per_step, I8), em.target.caches.line_bytes, I8, level=2)

    return prefetch_lines


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
