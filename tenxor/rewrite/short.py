"""Short reductions are written out, term by term: so lanes run along the results, which are many, and not along the few terms.

Those are reductions over windows that overlap, as convolutions and pooling have them, and over rows that are shorter than a vector.
"""

from __future__ import annotations

from itertools import product
from math import prod

from ..layout import Layout
from ..node import Node
from ..ops import OPS
from ..ops.reductions import COMBINED_BY, Reduction
from .making import converted, is_made, made_at

TERMS = 32  # at most
ROW, MANY = 8, 1 << 16  # elements of a row that is short, and in all such rows
FEW = 4  # results that share each element of one side of a product, from which tiles are computed
_WRITTEN_OUT = ("sum", "sum_in_width", "max", "min")
_MULTIPLY = OPS["multiply"]


def written_out(node: Node) -> list[Node] | None:
    """A short reduction, term by term; None for any other node."""
    reduction, through, kept = node.op, node.layouts[0], len(node.shape)
    assert isinstance(reduction, Reduction) and through is not None
    if not 1 < prod(through.shape[kept:]) <= TERMS or reduction.name not in _WRITTEN_OUT or not node.size:
        return None
    (source,) = node.sources
    assert type(source) is Node
    sides = sides_of(source, through)
    times = [times_read(side, kept) for side in sides]
    if times and min(times) >= FEW:
        return None
    if times and max(times) == 1:
        sides = ()
    windows = any(overlaps(x, kept) for x in sides or (through,))
    row = max([_short_row(x, kept) for x in sides or (through,)])
    if not windows and not row:
        return None
    made: list[Node] = []
    if windows and sides:
        terms = _products(made, source, sides, kept)
    else:
        terms = [(source, x) for x in _terms(through, kept)]
    if not windows and is_made(source):
        terms = [(made_at(made, source, x), Layout.contiguous(x.shape)) for _, x in terms]
    wide = source.dtype if reduction.name in ("max", "min") else reduction.result(source.dtype).compute
    if source.dtype is not wide:
        terms = [converted(made, wide, *term) for term in terms]
    combine = OPS[COMBINED_BY[reduction.name]]
    (found, at), *others = terms
    for other, x in others:
        made.append(Node.of(combine, x.shape, wide, (found, other), (at, x)))
        found, at = made[-1], Layout.contiguous(x.shape)
    if found.dtype is not node.dtype:
        made.append(Node.of(OPS["cast"], node.shape, node.dtype, (found,), (at,)))
    made[-1].stored = row == len(terms)  # what a row has one of is computed for many rows at once, before it is needed
    return made


def sides_of(source: Node, through: Layout) -> tuple[Layout, ...]:
    """The layouts of both sides of a product that is reduced as it lies; nothing for anything else."""
    if source.buffer is not None or source.op is not _MULTIPLY or source.stored:
        return ()
    one, other = source.layouts
    if one is None or other is None or through != Layout.contiguous(source.shape):
        return ()
    return (one, other)


def times_read(side: Layout, kept: int) -> int:
    """How many results share an element of one side."""
    if side.base is not None:
        return 1
    return prod([n for n, step in zip(side.shape[:kept], side.strides, strict=False) if not step])


def overlaps(through: Layout, kept: int) -> bool:
    """Whether what is reduced for one result has elements in common with what is for another, or between them: windows."""
    if through.base is not None or through.tables is not None:
        return False
    axes = [(n, abs(step)) for n, step in zip(through.shape, through.strides, strict=True)]
    return any(
        step <= inner * (n - 1) and inner < step * count
        for n, inner in axes[kept:]
        for count, step in axes[:kept]
        if step
    )


def _short_row(through: Layout, kept: int) -> int:
    """How many elements that are reduced lie side by side in memory, if these are few, and there are many such rows; else 0."""
    if through.size < MANY or through.base is not None or through.tables is not None:
        return 0
    steps = [abs(step) if n > 1 else 0 for n, step in zip(through.shape, through.strides, strict=True)]
    least = min([step for step in steps if step], default=0)
    if not least or least in steps[:kept]:
        return 0
    row = 1
    while row <= ROW and row * least in steps[kept:]:
        row *= through.shape[kept + steps[kept:].index(row * least)]
    return row if row <= ROW else 0


def _terms(through: Layout, kept: int) -> list[Layout]:
    """The layout of each term."""
    before = (slice(None),) * kept
    return [through.index((*before, *place)) for place in product(*map(range, through.shape[kept:]))]


def _products(made: list[Node], products: Node, sides: tuple[Layout, ...], kept: int) -> list[tuple[Node, Layout]]:
    """The product of each term."""
    for its in zip(*[_terms(side, kept) for side in sides], strict=True):
        made.append(Node.of(_MULTIPLY, its[0].shape, products.dtype, products.sources, its))
    return [(term, Layout.contiguous(term.shape)) for term in made]
