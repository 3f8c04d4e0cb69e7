"""Unrolling of short reductions, term by term, so that lanes run along the many results instead of the few terms.

Short are reductions over overlapping windows, as in convolution and pooling, and over rows shorter than a vector.
"""

from __future__ import annotations

from itertools import product
from math import prod

from ..dtypes import boolean, int8, int16, int32, int64
from ..layout import Layout
from ..node import Node
from ..ops import OPS
from ..ops.reductions import COMBINED_BY, Reduction
from .making import Term, combined, converted, is_made, made_at, times_read
from .shared import with_shared_turned

TERMS = 32  # maximal number of terms
ROW, MANY = 8, 1 << 16  # maximal elements of a short row, and minimal elements of the rows together
BEST = 16  # maximal elements of a row for max, min, argmax and argmin: combining lanes takes longer for these
PLACES = 1 << 14  # minimal elements of the rows together for argmax and argmin, the slowest reductions
FEW = 4  # minimal number of results that share each element of a side for a contraction with register tiles
_BEST_BY = {"argmax": "maximum", "argmin": "minimum"}  # the operation for the extremum whose position is found
_WRITTEN_OUT = ("sum", "sum_in_width", "prod", "max", "min", "any", "all", *_BEST_BY)
_INTEGERS = {d.itemsize: d for d in (int8, int16, int32, int64)}
_MULTIPLY = OPS["multiply"]


def written_out(node: Node) -> list[Node] | None:
    """Rewrite a short reduction as elementwise operations on the terms; return None for every other node.

    The new nodes are listed sources first, with the result last.
    """
    reduction, through, kept = node.op, node.layouts[0], len(node.shape)
    assert isinstance(reduction, Reduction) and through is not None
    if not 1 < prod(through.shape[kept:]) <= TERMS or reduction.name not in _WRITTEN_OUT or not node.size:
        return None
    if reduction.places and through.ndim - kept != 1:
        return None  # a position would count along several axes
    (source,) = node.sources
    assert type(source) is Node
    sides = sides_of(source, through)
    times = [times_read(side, kept) for side in sides]
    if times and min(times) >= FEW:
        return None
    if times and max(times) == 1:
        sides = ()
    windows = any(overlaps(x, kept) for x in sides or (through,))
    row = max([_short_row(x, kept, reduction) for x in sides or (through,)])
    if not row and (reduction.places or not windows):
        return None
    made: list[Node] = []
    if windows and sides:
        terms = _products(made, source, sides, kept)
    elif not windows and is_made(source):
        source, through = with_shared_turned(made, source, through, kept)
        terms = [(made_at(made, source, x), Layout.contiguous(x.shape)) for x in _terms(through, kept)]
    else:
        terms = [(source, x) for x in _terms(through, kept)]
    wide = source.dtype if reduction.ordered else reduction.result(source.dtype).compute
    if source.dtype is not wide:
        terms = [converted(made, wide, *term) for term in terms]
    combine = OPS[(_BEST_BY if reduction.places else COMBINED_BY)[reduction.name]]
    found, *others = terms
    for other in others:
        found = combined(made, combine, wide, found, other)
    if reduction.places:
        found = _first(made, terms, found)
    if found[0].dtype is not node.dtype:
        combined(made, OPS["cast"], node.dtype, found)
    made[-1].stored = row == len(terms)  # a result per row: compute the results of many rows together, before their use
    return made


def _first(made: list[Node], terms: list[Term], best: Term) -> Term:
    """Append the position of the first term equal to the extremum `best`, or NaN: the number of terms before. Return the position.

    The count is an integer as wide as the elements. With a NaN among the elements, the extremum is NaN.
    """
    places = _INTEGERS[terms[0][0].dtype.compute.itemsize]
    before: list[Term] = []
    for term in terms[:-1]:
        is_not = is_another(made, term, best)
        before.append(combined(made, OPS["logical_and"], boolean, before[-1], is_not) if before else is_not)
    found, *others = [combined(made, OPS["cast"], places, each) for each in before]
    for other in others:
        found = combined(made, OPS["add"], places, found, other)
    return found


def is_another(made: list[Node], term: Term, best: Term) -> Term:
    """Append the test whether a term is neither the extremum `best` nor NaN, and return the test."""
    differs = combined(made, OPS["not_equal"], boolean, term, best)
    if not term[0].dtype.is_float:
        return differs
    return combined(made, OPS["logical_and"], boolean, differs, combined(made, OPS["equal"], boolean, term, term))


def sides_of(source: Node, through: Layout) -> tuple[Layout, ...]:
    """Return the layouts of both sides of a pending product that is reduced contiguously; otherwise an empty tuple."""
    if source.buffer is not None or source.op is not _MULTIPLY or source.stored:
        return ()
    one, other = source.layouts
    if one is None or other is None or through != Layout.contiguous(source.shape):
        return ()
    return (one, other)


def overlaps(through: Layout, kept: int) -> bool:
    """Return whether the elements of neighbouring results overlap or interleave in memory, as windows do."""
    if through.base is not None or through.tables is not None:
        return False
    axes = [(n, abs(step)) for n, step in zip(through.shape, through.strides, strict=True)]
    return any(
        step <= inner * (n - 1) and inner < step * count
        for n, inner in axes[kept:]
        for count, step in axes[:kept]
        if step
    )


def _short_row(through: Layout, kept: int, reduction: Reduction) -> int:
    """Return the number of contiguous elements reduced for a result, if the elements are few and the rows many; otherwise 0."""
    longest = BEST if reduction.ordered else ROW
    if through.size < (PLACES if reduction.places else MANY) or through.base is not None or through.tables is not None:
        return 0
    steps = [abs(step) if n > 1 else 0 for n, step in zip(through.shape, through.strides, strict=True)]
    least = min([step for step in steps if step], default=0)
    if not least or least in steps[:kept]:
        return 0
    row = 1
    while row <= longest and row * least in steps[kept:]:
        row *= through.shape[kept + steps[kept:].index(row * least)]
    return row if row <= longest else 0


def _terms(through: Layout, kept: int) -> list[Layout]:
    """Return the layout of each term."""
    before = (slice(None),) * kept
    return [through.index((*before, *place)) for place in product(*map(range, through.shape[kept:]))]


def _products(made: list[Node], products: Node, sides: tuple[Layout, ...], kept: int) -> list[tuple[Node, Layout]]:
    """Append the product of each term, and return the terms."""
    for its in zip(*[_terms(side, kept) for side in sides], strict=True):
        made.append(Node.of(_MULTIPLY, its[0].shape, products.dtype, products.sources, its))
    return [(term, Layout.contiguous(term.shape)) for term in made]
