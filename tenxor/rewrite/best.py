"""Where the best of a short row is, in two passes over the row: what the best is, and then the first place that has it.

A single pass keeps values and places, and what each lane found is compared by both in the end: of a row of a few vectors, that takes
longer than all else.
"""

from __future__ import annotations

from ..dtypes import DType, boolean, uint8, uint16, uint32, uint64
from ..layout import Layout
from ..node import POSITION, Node
from ..ops import OPS
from ..ops.reductions import REDUCTIONS, Reduction
from .making import Term, combined, is_made, reduced
from .short import BEST, PLACES

LONGEST = 32  # elements of such a row
OF_FLOATS = 128  # or if they are floats, of which a single pass compares each with NaN, too
NARROW = 4  # bytes of such a float, at most
KEPT = 1 << 22  # bytes of what is made where it is read, at most: it is written down first, and read twice from a cache
_BEST_OF = {"argmax": REDUCTIONS["max"], "argmin": REDUCTIONS["min"]}
_AS_WIDE = {d.itemsize: d for d in (uint8, uint16, uint32, uint64)}


def in_two_passes(node: Node) -> list[Node] | None:
    """The same by two reductions; None for all but places in many short rows that lie in memory, or may."""
    reduction, (source,), through = node.op, node.sources[:1], node.layouts[0]
    assert isinstance(reduction, Reduction) and through is not None
    if not reduction.places or type(source) is not Node or not _are_short_rows(through, source.dtype, len(node.shape)):
        return None
    made: list[Node] = []
    if is_made(source):
        if through.size * source.dtype.itemsize > KEPT:
            return None
        source, through = combined(made, OPS["positive"], source.dtype, (source, through))
        source.stored = True
    kept, dtype = len(node.shape), _AS_WIDE[source.dtype.compute.itemsize]
    best = reduced(made, _BEST_OF[reduction.name], source, through, kept)
    best.stored = True  # of all rows, before their places: a row that is waited for twice is as far as a processor looks ahead
    seen = source, through
    is_other = combined(made, OPS["not_equal"], boolean, seen, (best, _for_each(best, through)))
    if source.dtype.is_float:  # NaN is the best, whichever it is
        is_other = combined(made, OPS["bitwise_and"], boolean, is_other, combined(made, OPS["equal"], boolean, seen, seen))
    place = _widened(made, dtype, is_other, _places(made, dtype, through))
    first = reduced(made, REDUCTIONS["min"], *place, kept)
    combined(made, OPS["cast"], node.dtype, (first, Layout.contiguous(first.shape)))
    return made


def _are_short_rows(through: Layout, dtype: DType, kept: int) -> bool:
    """Whether there are many rows along the last axis, each side by side in memory, that are short, but not so short that terms are."""
    if through.ndim != kept + 1 or through.base is not None or through.tables is not None or through.strides[-1] != 1:
        return False
    longest = OF_FLOATS if dtype.is_float and dtype.itemsize <= NARROW else LONGEST
    return BEST < through.shape[-1] <= longest and through.size >= PLACES


def _for_each(best: Node, through: Layout) -> Layout:
    """How what there is one of for each row is read by each element."""
    return Layout(through.shape, (*Layout.contiguous(best.shape).strides, 0))


def _places(made: list[Node], dtype: DType, through: Layout) -> Term:
    """The place of each element in its row."""
    made.append(Node.of(POSITION, through.shape[-1:], dtype))
    return made[-1], Layout(through.shape, (*(0,) * (through.ndim - 1), 1))


def _widened(made: list[Node], dtype: DType, is_other: Term, places: Term) -> Term:
    """The places, and the largest number where there `is_other`: all its bits are set."""
    number = combined(made, OPS["cast"], dtype, is_other)
    return combined(made, OPS["bitwise_or"], dtype, places, combined(made, OPS["negative"], dtype, number))
