"""Sums of products over axes given by number or by letter. With two operands each is one kernel, without temporaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..creation import asarray
from ..dtypes import DType, DTypeLike, boolean, promote
from ..errors import ArgumentError, AxisError, ShapeError, described
from ..kernel.pairs import FULL
from ..keywords import spelled
from ..layout import Layout, broadcast_shapes
from ..layout.coords import axis_number
from ..records import NamedTuple
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import ints
from ..tensor.contraction import (
    MAX_LOOPS,
    Loops,
    adding,
    along,
    at_start,
    begun,
    contracted,
    loops_of,
    paired_axes,
    result_dtype,
    widened,
)
from ..tensor.contraction import dot as _dot
from ..tensor.core import Operand
from .into import cast, into
from .subscripts import LETTERS, Label, Labels, interleaved, parse

__all__ = ["dot", "einsum", "einsum_path", "inner", "outer", "tensordot", "vecdot"]

SumAxes = int | Sequence[int | Sequence[int]]  # how many axes are summed over, or which axes of each operand
Order = bool | str | tuple[tuple[int, ...], ...]  # the search strategy, or the operands to multiply in each step
EXHAUSTIVE = 5  # operands up to which all orders of multiplication are compared


# --- by number --------------------------------------------------------------------------------------------------------


@called_again
@spelled
def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1, dim: int | None = None, out: Tensor | None = None) -> Tensor:
    """Return the products summed along `axis`, which both operands have in equal size, as a new tensor. The other axes broadcast.

    Complex elements of `x1` are conjugated. `out`, if given, receives the result and is returned.

    The axis is counted in each operand separately, so a negative axis counts from the end of each. Numeric dtypes promote. Integers are
    summed modulo 2 to their width, float16 and bfloat16 in float32. Raise AxisError, ShapeError or DTypeError. (Array API 2025.12,
    `vecdot`.)

    >>> import tenxor as tx
    >>> tx.vecdot(tx.asarray([[1, 2], [3, 4]]), tx.asarray([10, 1])).tolist()
    [12, 34]
    """
    axis = axis_number(axis, "vecdot")
    a, b = asarray(x1), asarray(x2)
    dtype = result_dtype("vecdot", a, b)
    if a.dtype.is_complex:
        a = a.conj()
    a, b = widened(a, dtype), widened(b, dtype)
    found: Tensor = contracted(a, b, begun(_loops_of_vectors(at_start(a), at_start(b), axis), a, b), dtype)
    return into("vecdot", out, found)


@lru_cache(maxsize=MAX_LOOPS)
def _loops_of_vectors(a: Layout, b: Layout, axis: int) -> Loops:
    """Return the loops of `vecdot` for layouts that begin at 0. Raise ShapeError if their shapes do not fit."""
    (one,), (two,) = paired_axes("vecdot", "first", a.shape, (axis,)), paired_axes("vecdot", "second", b.shape, (axis,))
    if a.shape[one] != b.shape[two]:
        raise ShapeError(
            f"vecdot: shapes {a.shape} and {b.shape} do not fit: axis {axis} has size {a.shape[one]} in the first and"
            f" {b.shape[two]} in the second; they must be equal"
        )
    left, right = a.moveaxis(one, -1), b.moveaxis(two, -1)
    try:
        shape = (*broadcast_shapes(left.shape[:-1], right.shape[:-1]), a.shape[one])
    except ShapeError as error:
        raise ShapeError(f"vecdot: shapes {a.shape} and {b.shape} do not fit: without axis {axis}, {error}") from None
    return left.expand(shape), right.expand(shape), len(shape) - 1


@called_again
@spelled
def tensordot(x1: Operand, x2: Operand, /, axes: SumAxes = 2, *, dims: SumAxes | None = None) -> Tensor:
    """Return the products summed over some axes of each operand, as a new tensor with the other axes of `x1`, then those of `x2`.

    `axes` is a number n, for the last n axes of `x1` and the first n of `x2` in order, or a pair of sequences with the axes of `x1` and of
    `x2`. Paired axes must have equal sizes. Numeric dtypes promote; integers are summed modulo 2 to their width, float16 and bfloat16 in
    float32. Raise ShapeError, AxisError, ArgumentError or DTypeError. (Array API 2025.12, `tensordot`; PyTorch's `dims` is an alias.)

    >>> import tenxor as tx
    >>> a, b = tx.ones((2, 3, 4)), tx.ones((4, 3, 5))
    >>> tx.tensordot(a, b, axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    a, b = asarray(x1), asarray(x2)
    if hasattr(axes, "__index__") and not getattr(axes, "ndim", 0):
        (count,) = ints("tensordot", (axes,))
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot: shapes {a.shape} and {b.shape}: {count} axes cannot be added up;"
                f" axes is a number from 0 to {min(a.ndim, b.ndim)} here, or a pair of sequences"
            )
        one, two = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    else:
        one, two = _axes_of_pair(axes, a.shape, b.shape)
    found: Tensor = along("tensordot", a, b, one, two)
    return found


def _axes_of_pair(axes: Any, *shapes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the axes of the first and of the second tensor, from 0 on, from a pair of axes or sequences of axes."""
    try:
        first, second = axes
    except (TypeError, ValueError):
        raise ArgumentError(
            f"tensordot: axes is a number, or a pair of sequences like ((1, 2), (1, 0)), not {described(axes)}"
        ) from None
    found = []
    for given, which, shape in zip((first, second), ("first", "second"), shapes, strict=True):
        places = paired_axes("tensordot", which, shape, ints("tensordot: axes", (given,)))
        if len(set(places)) < len(places):
            raise AxisError(f"tensordot: axes {described(given)} name one axis twice; name each axis once")
        found.append(places)
    if len(found[0]) != len(found[1]):
        raise ArgumentError(
            f"tensordot: axes {described(first)} and {described(second)} are {len(found[0])} of the first tensor"
            f" and {len(found[1])} of the second;"
            " they are walked in pairs"
        )
    return found


@called_again
def dot(a: Operand, b: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the products summed over the last axis of `a` and the last but one of `b` (the only one if 1-D), as a new tensor.

    The other axes of `a` come first in the result, then those of `b`; for matrices the result is `a @ b`. A number or a 0-d tensor
    multiplies each element. `out`, if given, receives the result and is returned. Dtypes promote as in `vecdot`. Raise
    ShapeError or DTypeError. (NumPy's `dot`.)

    >>> import tenxor as tx
    >>> tx.dot(tx.asarray([1, 2, 3]), tx.asarray([4, 5, 6])).item()
    32
    """
    found: Tensor = _dot(asarray(a), asarray(b))
    return into("dot", out, found)


@called_again
def inner(a: Operand, b: Operand, /) -> Tensor:
    """Return the products summed over the last axis of both, as a new tensor with the other axes of `a`, then those of `b`.

    A number or a 0-d tensor multiplies each element. Dtypes promote as in `vecdot`. Raise ShapeError or DTypeError. (NumPy's `inner`.)

    >>> import tenxor as tx
    >>> tx.inner(tx.asarray([[1, 2], [3, 4]]), tx.asarray([10, 1])).tolist()
    [12, 34]
    """
    a, b = asarray(a), asarray(b)
    if not (a.ndim and b.ndim):
        return a * b
    found: Tensor = along("inner", a, b, (a.ndim - 1,), (b.ndim - 1,))
    return found


@called_again
def outer(a: Operand, b: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return each element of `a` times each of `b`, both flattened in row-major order, as a new 2-D tensor. Bools are combined by "and".

    `out`, if given, receives the result and is returned. Raise DTypeError for dtypes that do not promote. (NumPy's
    `outer`.)

    >>> import tenxor as tx
    >>> tx.outer(tx.asarray([1, 2, 3]), tx.asarray([10, 1])).tolist()
    [[10, 1], [20, 2], [30, 3]]
    """
    one, two = asarray(a), asarray(b)
    dtype = promote(one.dtype, two.dtype, "outer")
    one, two = one.astype(dtype, copy=False), two.astype(dtype, copy=False)
    found: Tensor = contracted(one, two, _loops_of_outer(one.layout, two.layout), dtype)
    return into("outer", out, found)


@lru_cache(maxsize=MAX_LOOPS)
def _loops_of_outer(a: Layout, b: Layout) -> Loops:
    return loops_of(a.reshape((a.size,)), (0,), b.reshape((b.size,)), (1,), (0, 1), ())


# --- by letter --------------------------------------------------------------------------------------------------------


def einsum(
    subscripts: str | Operand,
    /,
    *operands: Operand,
    optimize: bool | str | Sequence[Any] = True,
    out: Tensor | None = None,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Tensor:
    """Return the products over axes that share a letter, summed over the letters missing in the result.

    In `"ij,jk->ik"`, letters name the axes of each operand and of the result. Without `->` the result has the letters that occur once, in
    alphabetical order. A letter twice in one operand takes its diagonal. `...` stands for axes without letters, which broadcast, and stand
    in the result at its `...`, or first. Axes of one letter have equal sizes, or 1. Axes may be numbered instead:
    `einsum(a, [0, 1], b, [1, 2], [0, 2])`.

    For one operand without a sum the result is a view, writable like any view: a transpose or a diagonal. In all other cases it is a new
    tensor. Two operands take one kernel. More are multiplied in pairs, in the order with the fewest operations. With `optimize=False` the
    order is from left to right; "greedy" and "optimal" name the search strategy; a result of `einsum_path` gives the order itself.

    Dtypes promote, or operands are cast to `dtype` as `casting` allows. `out`, if given, receives the result and is returned. Integers are
    summed modulo 2 to their width, float16 and bfloat16 in float32; for bools the result tells whether any product is true. Raise
    ArgumentError for invalid subscripts, ShapeError for sizes that do not fit, or DTypeError. (NumPy's `einsum`.)

    >>> import tenxor as tx
    >>> a = tx.asarray([[1, 2], [3, 4]])
    >>> tx.einsum("ij,jk->ik", a, a).tolist(), tx.einsum("ii", a).item()
    ([[7, 10], [15, 22]], 5)
    >>> tx.einsum("ii->i", a)[...] = 0  # a view
    >>> a.tolist()
    [[0, 2], [3, 0]]
    """
    if not isinstance(subscripts, str):
        subscripts, operands = interleaved((subscripts, *operands))
    optimize = _checked_optimize("einsum", optimize, len(operands))
    given = [t if type(t) is Tensor else asarray(t) for t in operands]
    if dtype is not None:
        given = cast("einsum", given, dtype, None, casting)
    return into("einsum", out, _einsum(*given, subscripts, optimize), casting)


@called_again
def _einsum(*given: Any) -> Tensor:
    """Compute `einsum`. `given` are the tensors, then the subscripts as text, and the checked `optimize`."""
    *tensors, subscripts, optimize = given
    found: Tensor
    if len(tensors) == 2:
        a, b = tensors
        dtype = promote(a.dtype, b.dtype, "einsum")
        a, b = widened(a, dtype), widened(b, dtype)
        recipe = _recipe(subscripts, optimize, at_start(a), at_start(b))
        if recipe.only is None:
            found = _followed(recipe, (a, b), dtype).astype(dtype, copy=False)
            return found
        found = contracted(a, b, begun(recipe.only.loops, a, b), dtype)
        return found if recipe.only.order is None else found.permute(recipe.only.order)
    if len(tensors) == 1:
        recipe = _recipe(subscripts, optimize, at_start(tensors[0]))
        if not recipe.terms[0].alone:
            return _seen(tensors[0], recipe.terms[0])
    dtype = _common_dtype(tensors)
    tensors = [widened(t, dtype) for t in tensors]
    recipe = _recipe(subscripts, optimize, *map(at_start, tensors))
    found = _followed(recipe, tensors, dtype).astype(dtype, copy=False)
    return found


def einsum_path(
    subscripts: str | Operand, /, *operands: Operand, optimize: bool | str | Sequence[Any] = True
) -> tuple[list[Any], str]:
    """Return the order in which `einsum` multiplies operands, and a text with the shapes of each product. Nothing is computed.

    The order is a list `["einsum_path", (0, 1), ...]`. Each pair gives positions in the list of remaining operands; their product is
    appended to that list. Arguments and errors are those of `einsum`. (NumPy's `einsum_path`.)

    >>> import tenxor as tx
    >>> a, b, c = tx.ones((2, 100)), tx.ones((100, 3)), tx.ones((3, 5))
    >>> path, text = tx.einsum_path("ij,jk,kl->il", a, b, c)
    >>> path
    ['einsum_path', (0, 1), (0, 1)]
    >>> print(text)
    2,100 x 100,3 -> 2,3
    3,5 x 2,3 -> 2,5
    """
    if not isinstance(subscripts, str):
        subscripts, operands = interleaved((subscripts, *operands))
    optimize = _checked_optimize("einsum_path", optimize, len(operands))
    layouts = [asarray(t).layout for t in operands]
    named, _, sizes = parse(subscripts, [x.shape for x in layouts])
    recipe = _recipe(subscripts, optimize, *layouts)
    left = [term.labels for term in recipe.terms]
    path: list[Any] = ["einsum_path"]
    lines = []
    for i, j, labels in recipe.path:
        b, a = left.pop(j), left.pop(i)
        left.append(labels)
        path.append((i, j))
        shown = [",".join(str(sizes[x]) for x in its) or "()" for its in (a, b, labels)]
        lines.append("{} x {} -> {}".format(*shown))
    return (path if recipe.path else [*path, tuple(range(len(named)))]), "\n".join(lines)


def _checked_optimize(op: str, optimize: Any, count: int) -> Order:
    """Return the valid `optimize`: a search strategy, or a tuple of the positions to multiply in each step. Raise ArgumentError otherwise.
    """
    if isinstance(optimize, (list, tuple)) and optimize and optimize[0] == "einsum_path":
        left = count
        order: list[tuple[int, ...]] = []
        for step in optimize[1:]:
            places = tuple(sorted(ints(f"{op}: optimize", (step,))))
            if not places or len(set(places)) < len(places) or places[0] < 0 or places[-1] >= left:
                raise ArgumentError(
                    f"{op}: {described(step)} in optimize names no operands to multiply: there are {left} then, from 0 to"
                    f" {left - 1}, and each"
                    " is named once"
                )
            order.append(places)
            left -= len(places) - 1
        if left > 1:
            raise ArgumentError(f"{op}: the order {described(optimize)} leaves {left} of {count} operands; multiply until one is left")
        return tuple(order)
    if not isinstance(optimize, (bool, str)) or optimize not in (True, False, "greedy", "optimal"):
        raise ArgumentError(f"{op}: optimize is {described(optimize)}; it must be True, False, 'greedy', 'optimal' or a path")
    return optimize


def _common_dtype(tensors: Iterable[Tensor]) -> DType:
    """Return the promoted dtype of all tensors. Floats are promoted first, so that the order of the tensors does not matter."""
    found = boolean
    for dtype in sorted([t.dtype for t in tensors], key=lambda d: -d.rank):
        found = promote(found, dtype, "einsum")
    return found


class _Pair(NamedTuple):
    """The product of two terms: its loops, and the permutation of its axes into those of the result, or None if they agree."""

    loops: Loops
    order: tuple[int, ...] | None


class _Term(NamedTuple):
    """An operand read through `layout`, with the axes `labels`, then `alone` axes that occur in no other operand and are summed first."""

    layout: Layout
    labels: Labels
    alone: int


class _Recipe(NamedTuple):
    """The plan for operands of given layouts: the terms, and the order in which they are multiplied.

    Each entry of `path` has two positions in the list of remaining terms and the labels of their product, which is appended to that list.
    `only` is the whole product for two operands without sums of their own, else None.
    """

    terms: tuple[_Term, ...]
    path: tuple[tuple[int, int, Labels], ...]
    only: _Pair | None


def _seen(t: Tensor, term: _Term) -> Tensor:
    """Return the view of the operand `t` as a term. The layout of the term, computed for an offset of 0, is moved to the offset of `t`."""
    return t._view(term.layout if t.spec.layout.base is not None else term.layout.at(t.offset))


def _followed(recipe: _Recipe, operands: Sequence[Tensor], dtype: DType) -> Any:
    """Compute the result by a recipe for operands of its layouts, already widened from `dtype`. The result is not cast back."""
    terms: list[tuple[Any, Labels]] = []
    for t, term in zip(operands, recipe.terms, strict=True):
        view: Any = _seen(t, term)
        if term.alone:
            view = view._reduce(adding(view.dtype), "einsum", tuple(range(-term.alone, 0)), False)
        terms.append((view, term.labels))
    for i, j, labels in recipe.path:
        b, b_labels = terms.pop(j)
        a, a_labels = terms.pop(i)
        pair = _pair(at_start(a), a_labels, at_start(b), b_labels, labels)
        found = contracted(a, b, begun(pair.loops, a, b), boolean if dtype is boolean else a.dtype)
        if dtype is boolean:  # a count of counts might overflow
            found = widened(found, boolean)
        terms.append((found if pair.order is None else found.permute(pair.order), labels))
    return terms[0][0]


@lru_cache(maxsize=MAX_LOOPS)
def _recipe(subscripts: str, optimize: Order, *layouts: Layout) -> _Recipe:
    """Build the recipe for operands of these layouts. Cached."""
    operands, result, sizes = parse(subscripts, [x.shape for x in layouts])
    views = [_diagonals(layout, labels) for layout, labels in zip(layouts, operands, strict=True)]
    if len(views) > 1:
        views = [_without_ones(*view, result, sizes) for view in views]
    terms = tuple([_term(k, views, result) for k in range(len(views))])
    path = _path([term.labels for term in terms], result, sizes, optimize)
    only = None
    if len(terms) == 2 and not any(term.alone for term in terms):
        a, b = terms
        only = _pair(a.layout, a.labels, b.layout, b.labels, result)
    return _Recipe(terms, path, only)


def _diagonals(layout: Layout, labels: Labels) -> tuple[Layout, Labels]:
    """Return a layout and labels in which each label occurs once: a label that occurs more often takes the diagonal."""
    for label in labels:
        while labels.count(label) > 1:
            one = labels.index(label)
            two = labels.index(label, one + 1)
            layout = layout.diagonal(0, one, two)
            labels = (*[x for k, x in enumerate(labels) if k not in (one, two)], label)
    return layout, labels


def _without_ones(layout: Layout, labels: Labels, result: Labels, sizes: dict[Label, int]) -> tuple[Layout, Labels]:
    """Drop the axes of size 1 that broadcast, or are missing in the result. `sizes` are the broadcast sizes of the labels."""
    ones = [k for k, x in enumerate(labels) if layout.shape[k] == 1 and (sizes[x] != 1 or x not in result)]
    return layout.squeeze(ones), tuple([x for k, x in enumerate(labels) if k not in ones])


def _term(k: int, views: Sequence[tuple[Layout, Labels]], result: Labels) -> _Term:
    """Build the term of operand `k`: last come the axes missing in the other operands and the result.
    """
    layout, labels = views[k]
    others = {x for j, (_, its) in enumerate(views) if j != k for x in its}
    alone = [x for x in labels if x not in others and x not in result]
    kept = [x for x in labels if x not in alone] if len(views) > 1 else list(result)
    return _Term(layout.permute([labels.index(x) for x in (*kept, *alone)]), tuple(kept), len(alone))


def _path(
    terms: Sequence[Labels], result: Labels, sizes: dict[Label, int], optimize: Order
) -> tuple[tuple[int, int, Labels], ...]:
    """Return the steps of the product: the positions of two remaining terms, and the labels of their product."""
    left, found = list(terms), []
    for places in _order(terms, result, sizes, optimize):
        some = list(places)
        while len(some) > 1:  # three or more at once are multiplied two by two
            i, j = sorted(some[-2:])
            b, a = left.pop(j), left.pop(i)
            wanted = {*result}.union(*left)
            last = not left
            labels = result if last else tuple([x for x in dict.fromkeys((*a, *b)) if x in wanted])
            found.append((i, j, labels))
            left.append(labels)
            some = [*[p - (p > i) - (p > j) for p in some[:-2]], len(left) - 1]
    return tuple(found)


def _order(
    terms: Sequence[Labels], result: Labels, sizes: dict[Label, int], optimize: Order
) -> Sequence[tuple[int, ...]]:
    """Return the positions of the terms to multiply in each step. NumPy's `einsum_path` finds the order with the fewest operations."""
    count = len(terms)
    labels = [*dict.fromkeys(x for term in terms for x in term)]
    if isinstance(optimize, tuple):
        return optimize
    if count < 3 or optimize is False or len(labels) > len(LETTERS):
        return [(0, 1), *((0, count - k) for k in range(2, count))][: count - 1]
    letter = dict(zip(labels, LETTERS, strict=False))
    inputs = ",".join("".join(letter[x] for x in term) for term in terms)
    stand_ins = [np.broadcast_to(np.int8(0), [sizes[x] for x in term]) for term in terms]
    how = optimize if isinstance(optimize, str) else "optimal" if count <= EXHAUSTIVE else "greedy"
    path = np.einsum_path(f"{inputs}->{''.join(letter[x] for x in result)}", *stand_ins, optimize=how)[0]
    return [tuple(sorted(places)) for places in path[1:]]


@lru_cache(maxsize=MAX_LOOPS)
def _pair(a: Layout, a_labels: Labels, b: Layout, b_labels: Labels, result: Labels) -> _Pair:
    """Build the product of two terms. Its axes are ordered as in `result`, unless another order gives a kernel full rows and columns."""
    sizes = dict(zip((*a_labels, *b_labels), (*a.shape, *b.shape), strict=True))
    summed = [x for x in a_labels if x not in result]
    rows, columns, steps = FULL
    free = [x for x in result if (x in a_labels) != (x in b_labels)]
    last = [
        x
        for x in free
        if sizes[x] >= columns and any(sizes[y] >= rows for y in free if (y in a_labels) != (x in a_labels))
    ]
    kept = list(result)
    if last and kept[-1] not in last and prod(sizes[x] for x in summed) >= steps:
        kept.remove(last[-1])
        kept.append(last[-1])
    loops = loops_of(a, a_labels, b, b_labels, kept, summed)
    return _Pair(loops, None if tuple(kept) == result else tuple([kept.index(x) for x in result]))
