"""Division of large reductions into parts: threads share independent blocks, and lanes get rows of sufficient length.

Rounding errors also grow less.
"""

from __future__ import annotations

from math import prod

from ..layout import Layout
from ..node import Node
from ..ops import OPS
from ..ops.reductions import COMBINED_BY, REDUCTIONS, Reduction
from .making import computed, converted, reduced

# A reduction of LARGE elements to FEW results, or FEW_COLUMNS contiguous results, is split into BLOCKS blocks. Short rows are joined.
LARGE, FEW, FEW_COLUMNS, BLOCKS = 1 << 18, 16, 512, 64
HUGE, FEW_HUGE, MANY = 1 << 28, 1 << 10, 1 << 14  # HUGE elements to FEW_HUGE results: MANY blocks, with signals between
SHORT, LONG = 64, 256  # elements of a row: shorter rows are joined, up to this length


def reduction_in_parts(node: Node) -> list[Node] | None:
    """Rewrite a large reduction as a reduction of parts and a reduction of their results; return None for every other node.

    The new nodes are listed sources first, with the result last.
    """
    reduction, through = node.op, node.layouts[0]
    assert isinstance(reduction, Reduction) and through is not None
    if through.size < LARGE or reduction.name not in COMBINED_BY:
        return None
    made: list[Node] = []
    (source,) = node.sources
    assert type(source) is Node
    reduced_in_parts(made, reduction, source, through, len(node.shape))
    return made if len(made) > 1 else None


def reduced_in_parts(made: list[Node], reduction: Reduction, source: Node, through: Layout, kept: int) -> Node:
    """Append the reduction of a node read through a layout over every axis except the first `kept`, in parts if it is large.

    Return the last node.
    """
    inner = _inner_axes(through, kept)
    blocks, together = (1, 1) if inner else _parts(through, kept)
    if blocks * together == 1 and not inner:
        return reduced(made, reduction, source, through, kept)
    if source.dtype.compute is not source.dtype and reduction.name in ("sum", "prod"):
        wide = reduced_in_parts(made, reduction, *converted(made, source.dtype.compute, source, through), kept)
        return converted(made, source.dtype, wide, Layout.contiguous(wide.shape))[0]
    if inner:
        return _inner_first(made, reduction, source, through, kept, inner)
    return _in_blocks(made, reduction, source, through, kept, blocks, together)


def _inner_first(made: list[Node], reduction: Reduction, source: Node, through: Layout, kept: int, inner: int) -> Node:
    """Append the reduction over the last `inner` axes, then over the rest. Return the last node."""
    first = through.ndim - inner
    partial = reduced(
        made,
        reduction,
        source,
        through.permute((*range(kept, first), *range(kept), *range(first, through.ndim))),
        first,
    )
    partial.stored = True
    others = first - kept
    last = Layout.contiguous(partial.shape).permute((*range(others, first), *range(others)))
    return reduced_in_parts(made, _of_results(reduction), partial, last, kept)


def _in_blocks(
    made: list[Node], reduction: Reduction, source: Node, through: Layout, kept: int, blocks: int, together: int
) -> Node:
    """Append the reduction over `blocks` blocks of the longest axis, with `together` rows joined, then over the results and the remainder.

    Return the last node.
    """
    axis = max(range(kept, through.ndim), key=lambda a: through.shape[a])
    size = through.shape[axis]
    blocks = min(blocks, size)
    whole = size - size % (blocks * together)
    before = (slice(None),) * axis
    cut = through.index((*before, slice(0, whole))).unflatten(axis, (blocks, -1, together))
    # The axis of blocks comes first. Joined rows come before the last axis, as in memory.
    order = [axis, *range(kept - 1), axis + 2, *range(max(kept - 1, 0), kept)]
    cut = cut.permute((*order, *(a for a in range(cut.ndim) if a not in order)))
    partial = reduced(made, reduction, source, cut, kept + 2)
    partial.stored = True  # a separate kernel, for the threads to share
    parts = (0, max(kept, 1))
    last = Layout.contiguous(partial.shape).permute((*(a for a in range(kept + 2) if a not in parts), *parts))
    found = reduced(made, _of_results(reduction), partial, last, kept)
    if whole < size:
        rest = reduced(made, reduction, source, through.index((*before, slice(whole, size))), kept)
        found = computed(made, OPS[COMBINED_BY[reduction.name]], found, rest)
    return found


def _of_results(reduction: Reduction) -> Reduction:
    """Return the reduction for partial results of a reduction: "sum" for "count_nonzero", otherwise the reduction itself."""
    return REDUCTIONS["sum" if reduction.name == "count_nonzero" else reduction.name]


def _inner_axes(through: Layout, kept: int) -> int:
    """Return the number of trailing reduced axes with smaller strides than every kept axis; 0 unless other reduced axes have larger ones.

    The trailing axes are reduced first, so memory is read in order.
    """
    if through.size < LARGE or not kept or through.base is not None or through.tables is not None:
        return 0
    steps = [abs(s) for s in through.strides]
    least = min(steps[:kept])
    inner = [s < least for s in steps[kept:]]
    count = sum(inner)
    together = prod(through.shape[through.ndim - count :])
    return count if 0 < count < len(inner) and all(inner[-count:]) and together >= SHORT else 0


def _parts(through: Layout, kept: int) -> tuple[int, int]:
    """Return the number of blocks for a reduction which keeps the first `kept` axes, and the number of rows to join; (1, 1) to leave it."""
    results = prod(through.shape[:kept])
    if through.size < LARGE:
        return 1, 1
    if not kept or through.base is not None or through.tables is not None or through.strides[kept - 1] != 1:
        if prod(through.shape[kept:]) > HUGE and results <= FEW_HUGE:
            return MANY, 1
        return (BLOCKS if results <= FEW else 1), 1
    longest, length = max(through.shape[kept:]), through.shape[kept - 1]
    blocks = BLOCKS if results <= FEW_COLUMNS else 1
    together = 1
    while length < SHORT and 2 * together * length <= LONG and longest >= 32 * blocks * together:
        together *= 2
    return blocks, together
