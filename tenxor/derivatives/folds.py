"""Derivatives of reductions and running reductions.

Sums, largest and least elements and products have formulas of their own. Any other reduction is taken element by element: with
states s(k + 1) = f(s(k), x(k)), cotangents go back by l(k) = g(k) + l(k + 1) df/ds(s(k + 1), x(k + 1)), which is a running
reduction from the end, and x(k) gets l(k) df/dx(s(k), x(k)).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any

from ..dtypes import DType, Number, boolean, complex64, complex128, float32, float64, int64
from ..errors import DerivativeError
from ..layout import Layout
from ..node import Node, Recipe, Scan
from ..ops import OPS, Op, custom
from ..ops.expr import Arg, Const, call, cast
from ..ops.reductions import REDUCTIONS, Reduction, reduction_in_order, running
from ..records import NamedTuple
from .partials import MAX_KNOWN, Partial, is_smooth, operation, pulled_back
from .rule import SUMS, Making, Needs, Pulled, Rule, Tangents, back, converted, read, value_of
from .seen import Seen, Shape, Term, computed, of_number, reduced, stored

_EQUAL, _MULTIPLY, _CONJ, _DIVIDE = (OPS[name] for name in ("equal", "multiply", "conj", "divide"))
_SUM = REDUCTIONS["sum"]
_EXTREMES = ("max", "min")
_scan = cache(Scan)


def _needs(recipe: Recipe, tracked: tuple[bool, ...]) -> Needs:
    op: Any = recipe.op
    name = op.name if isinstance(op, Reduction) else op.reduction.name
    if name in SUMS:
        return Needs((False,), False)
    return Needs((True,), name in _EXTREMES or isinstance(op, Scan))


# --- reductions -------------------------------------------------------------------------------------------------------


def _pull_reduction(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    name = past.recipe.op.name
    layout = past.layouts[0]
    assert layout is not None
    kept = len(past.recipe.shape)
    if name in SUMS:
        term = Term.of(_spread(g, layout, kept))
    elif name in _EXTREMES:
        assert result is not None
        x = value_of(past, 0)
        share = _spread(computed(_DIVIDE, [g, _ties(x, result, kept)]), layout, kept)
        hit = computed(_EQUAL, [x, _spread(Seen(result), layout, kept)]).cast(g.dtype)
        term = Term(_MULTIPLY, [hit, share], layout.shape, g.dtype)
    else:
        rows = layout.shape[:kept]
        x = value_of(past, 0).reshaped((*rows, prod(layout.shape[kept:])))
        found = _pull_product(x, g) if name == "prod" else _pull_fold(past, x, g)
        term = Term.of(found.reshaped(layout.shape))
    yield 0, back(past, 0, term)


def _push_reduction(past: Making, given: Tangents, result: Node | None) -> Seen:
    op: Any = past.recipe.op
    tangent, kept = read(past, 0, given[0]), len(past.recipe.shape)
    if op.name in SUMS:
        return reduced(op, tangent, kept)
    x = value_of(past, 0)
    if op.name in _EXTREMES:
        assert result is not None
        hit = computed(_EQUAL, [x, _spread(Seen(result), x.layout, kept)]).cast(tangent.dtype)
        total = reduced(_SUM, computed(_MULTIPLY, [hit, tangent]), kept)
        return computed(_DIVIDE, [total, _ties(x, result, kept)])
    if op.name == "prod":
        rows = (*x.shape[:kept], prod(x.shape[kept:]))
        each = _others(x.reshaped(rows))
        return reduced(_SUM, computed(_MULTIPLY, [each, tangent.reshaped(rows).cast(each.dtype)]), kept).cast(past.recipe.dtype)
    raise DerivativeError(f"{op.name}: has no forward derivative; use tx.grad or tx.vjp")


def _spread(x: Seen, layout: Layout, kept: int) -> Seen:
    """What belongs to results, for each of the elements that they are made of."""
    return x.along(range(kept, layout.ndim), layout.shape[kept:])


def _ties(x: Seen, result: Node, kept: int) -> Seen:
    """How many elements are the largest, or the least."""
    hit = computed(_EQUAL, [x, _spread(Seen(result), x.layout, kept)])
    return reduced(_SUM, hit.cast(x.dtype), kept)


def _pull_product(x: Seen, g: Seen) -> Seen:
    others = _others(x)
    return computed(_MULTIPLY, [_conjugate(others), _spread(g.cast(others.dtype), x.layout, len(g.shape))])


def _others(x: Seen) -> Seen:
    """For each element the product of all others along the last axis: of those before and of those behind it."""
    before = _shifted(running_of(running("prod", x.dtype), x), 1.0)
    behind = _shifted(running_of(running("prod", x.dtype), _reversed(x)), 1.0)
    return computed(_MULTIPLY, [before, _reversed(behind)])


def _conjugate(x: Seen) -> Seen:
    return computed(_CONJ, [x]) if x.dtype.is_complex else x


def _reversed(x: Seen) -> Seen:
    return x.moved(lambda own: own.flip(own.ndim - 1))


def _shifted(x: Seen, first: Number | None) -> Seen:
    """All but the last element along the last axis, with a number in front."""
    shape, last = x.shape, len(x.shape) - 1
    whole = of_number(0.0 if first is None else first, shape, x.dtype)
    if shape[-1] < 2:
        return whole
    everywhere = (slice(None),) * last
    target = whole.layout.index((*everywhere, slice(1, None)))
    return stored(whole, target, x.moved(lambda own: own.index((*everywhere, slice(None, -1))))).reshaped(shape)


def running_of(reduction: Reduction, x: Seen) -> Seen:
    """A running reduction along the last axis."""
    whole = Layout.contiguous(x.shape)
    found = Node.of(_scan(reduction), x.shape, reduction.result(x.dtype), (x.node,), (x.layout,), whole)
    return Seen(found)


# --- running reductions -----------------------------------------------------------------------------------------------


def _pull_scan(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    op: Any = past.recipe.op
    g = g.reshaped((past.recipe.size,)).through(past.target)  # in the order of the source's axes
    if op.reduction.name in SUMS:
        found = _reversed(running_of(running("sum", g.dtype), _reversed(g)))
    else:
        assert result is not None
        states = Seen(result).reshaped((past.recipe.size,)).through(past.target)
        found = _pull_running(op.reduction, value_of(past, 0), states, g)
    yield 0, back(past, 0, Term.of(found))


def _push_scan(past: Making, given: Tangents, result: Node | None) -> Seen:
    op: Any = past.recipe.op
    if op.reduction.name not in SUMS:
        raise DerivativeError(f"{op.name}: has no forward derivative but for sums; use tx.grad or tx.vjp")
    tangent = read(past, 0, given[0])
    shape, dtype, target = past.recipe.shape, past.recipe.dtype, past.target
    return Seen(Node.of(op, shape, dtype, (tangent.node,), (tangent.layout,), target))


def _pull_fold(past: Making, x: Seen, g: Seen) -> Seen:
    """A reduction is the last of a running one."""
    op: Any = past.recipe.op
    states = running_of(op, x)
    last = states.layout.index((*(slice(None),) * (len(x.shape) - 1), -1))
    only = stored(of_number(0, x.shape, g.dtype), last, g).reshaped(x.shape)
    return _pull_running(op, x, states, only)


def _pull_running(reduction: Reduction, x: Seen, states: Seen, g: Seen) -> Seen:
    """The cotangents of the elements of a running reduction along the last axis."""
    dtype = states.dtype
    if dtype.is_complex or x.dtype.is_complex:
        if reduction.name != "reduce":
            return _pull_complex_products(x, states, g)
        raise DerivativeError("reduce: of complex numbers it has no derivative but for sums and products; use tx.real(x) and tx.imag(x)")
    fold = _fold_of(reduction, x.dtype)
    before = _shifted(states, fold.initial)
    slopes = _applied(fold.by_state, [before, x], x.shape, dtype)  # of each state by that before it
    after = _linear(_reversed(_shifted(_reversed(slopes), 0.0)), g)
    found = _applied(fold.by_element, [before, x, after], x.shape, x.dtype)
    if fold.initial is None and x.shape[-1]:  # the first state is the first element
        first = (*(slice(None),) * (len(x.shape) - 1), slice(0, 1))
        own = after.moved(lambda layout: layout.index(first)).cast(x.dtype)
        found = stored(found, Layout.contiguous(x.shape).index(first), own).reshaped(x.shape)
    return found


class Fold(NamedTuple):
    """How a state follows from that before and an element: the number that it starts with, unless that is the first element; the derivative
    by the state; and the cotangent of the element, of the two and that of the state. None of them for 0.
    """

    initial: Number | None
    by_state: Partial | None
    by_element: Partial | None


@lru_cache(MAX_KNOWN)
def _fold_of(reduction: Reduction, dtype: DType) -> Fold:
    states = reduction.states(dtype)
    from_first = len(states) == 2 and states[0] is boolean
    state, element = Arg(0, states[-1]), Arg(1, dtype)
    lifted = reduction.lift(element, Const(0, int64), states)
    before = (Const(True, boolean), state) if from_first else (state,)
    if len(states) > len(before) or not is_smooth(state.dtype) or reduction.finish is not None:
        raise DerivativeError(f"{reduction.name}: has no derivative; compute it on x.detach() if none is meant")
    step = reduction.step(before, lifted)[-1]
    g = Arg(2, state.dtype)
    (by_state,) = pulled_back(step, Const(1.0, state.dtype), [state])
    (by_element,) = pulled_back(step, g, [element])
    initial: Any = None if from_first else reduction.identity(states)[0]
    return Fold(
        None if initial is None else initial.value,
        None if by_state is None else operation(by_state, "slope"),
        None if by_element is None else operation(by_element, "pullback"),
    )


def _applied(its: Partial | None, operands: Sequence[Seen], shape: Shape, dtype: DType) -> Seen:
    """An operation on some of these operands."""
    if its is None:
        return of_number(0.0, shape, dtype)
    return computed(its.op, [operands[k] for k in its.reads], dtype)


def _linear(slopes: Seen, g: Seen) -> Seen:
    """The running reduction from the end that adds `g` to each state, times the slope.

    A running reduction takes one element at a time, so the two are the parts of a complex one.
    """
    dtype = slopes.dtype
    wide = complex128 if dtype is float64 else complex64
    part = wide.part
    pairs = computed(_paired(part), [slopes.cast(part), g.cast(part)], wide)
    step = call("imag", Arg(1, wide)) + call("real", Arg(1, wide)) * Arg(0, part)
    found = running_of(reduction_in_order(step, Const(0.0, part)), _reversed(pairs))
    return _reversed(found).cast(dtype)


@cache
def _paired(part: DType) -> Op:
    """The operation that makes a complex number of its parts."""
    wide = {float32: complex64, float64: complex128}[part]
    return custom("paired", cast(Arg(0, part), wide) + cast(Arg(1, part), wide) * 1j, (part, part))


def _pull_complex_products(x: Seen, products: Seen, g: Seen) -> Seen:
    """Where no element is 0."""
    weighted = computed(_MULTIPLY, [g, _conjugate(products)])
    total = _reversed(running_of(running("sum", weighted.dtype), _reversed(weighted)))
    return converted(computed(_DIVIDE, [total, _conjugate(x)]), x.dtype)


REDUCED = Rule(_needs, _pull_reduction, _push_reduction)
REDUCED_SO_FAR = Rule(_needs, _pull_scan, _push_scan)
