"""Short reductions are written out, term by term: so lanes run along the results, which are many, and not along the few terms.

Those are reductions over windows that overlap, as convolutions and pooling have them, and over rows that are shorter than a vector.
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

TERMS = 32  # at most
ROW, MANY = 8, 1 << 16  # elements of a row that is short, and in all such rows
BEST = 16  # and where the best is looked for, as what lanes found takes longer to compare
PLACES = 1 << 14  # elements of all rows whose places are looked for, which takes longest
FEW = 4  # results that share each element of one side of a product, from which tiles are computed
_BEST_BY = {"argmax": "maximum", "argmin": "minimum"}  # the operation that finds what their places are of
_WRITTEN_OUT = ("sum", "sum_in_width", "prod", "max", "min", "any", "all", *_BEST_BY)
_INTEGERS = {d.itemsize: d for d in (int8, int16, int32, int64)}
_MULTIPLY = OPS["multiply"]


def written_out(node: Node) -> list[Node] | None:
    """A short reduction, term by term; None for any other node."""
    reduction, through, kept = node.op, node.layouts[0], len(node.shape)
    assert isinstance(reduction, Reduction) and through is not None
    if not 1 < prod(through.shape[kept:]) <= TERMS or reduction.name not in _WRITTEN_OUT or not node.size:
        return None
    if reduction.places and through.ndim - kept != 1:
        return None  # places are counted along all axes
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
    made[-1].stored = row == len(terms)  # what a row has one of is computed for many rows at once, before it is needed
    return made


def _first(made: list[Node], terms: list[Term], best: Term) -> Term:
    """The first place where a term is the best of all, or NaN, which the best is if any is: how many come before, in integers as wide."""
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
    """Where a term is not the best, nor NaN, which is the best whichever it is."""
    differs = combined(made, OPS["not_equal"], boolean, term, best)
    if not term[0].dtype.is_float:
        return differs
    return combined(made, OPS["logical_and"], boolean, differs, combined(made, OPS["equal"], boolean, term, term))


def sides_of(source: Node, through: Layout) -> tuple[Layout, ...]:
    """The layouts of both sides of a product that is reduced as it lies; nothing for anything else."""
    if source.buffer is not None or source.op is not _MULTIPLY or source.stored:
        return ()
    one, other = source.layouts
    if one is None or other is None or through != Layout.contiguous(source.shape):
        return ()
    return (one, other)


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


def _short_row(through: Layout, kept: int, reduction: Reduction) -> int:
    """How many elements that are reduced lie side by side in memory, if these are few, and there are many such rows; else 0."""
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
    """The layout of each term."""
    before = (slice(None),) * kept
    return [through.index((*before, *place)) for place in product(*map(range, through.shape[kept:]))]


def _products(made: list[Node], products: Node, sides: tuple[Layout, ...], kept: int) -> list[tuple[Node, Layout]]:
    """The product of each term."""
    for its in zip(*[_terms(side, kept) for side in sides], strict=True):
        made.append(Node.of(_MULTIPLY, its[0].shape, products.dtype, products.sources, its))
    return [(term, Layout.contiguous(term.shape)) for term in made]
