"""Derivatives of reductions and running reductions.

Sums, extrema and products have formulas of their own. Each further reduction is differentiated element by element. Let the states be s(k +
1) = f(s(k), x(k)), and g(k) the given cotangent of s(k + 1). The total cotangent of s(k + 1) is l(k) = g(k) + l(k + 1) df/ds(s(k + 1), x(k
+ 1)), a running reduction from the end. The cotangent of x(k) is l(k) df/dx(s(k), x(k)). Tangents follow the same recurrence from the
start. The derivatives of these recurrences are recurrences again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any

from ..dtypes import DType, Number, boolean, complex64, complex128, float32, float64, int64
from ..errors import DerivativeError
from ..layout import Layout
from ..node import EMPTY, Node, Recipe, Scalar, Scan
from ..ops import OPS, Op, custom
from ..ops.expr import Arg, Const, Expr, call, cast
from ..ops.reductions import REDUCTIONS, Reduction, reduction_in_order, running
from ..past import Needs
from ..records import NamedTuple
from .partials import MAX_KNOWN, Partial, is_smooth, operation, pulled_back
from .rule import SUMS, Making, Pulled, Rule, Tangents, back, read, value_of
from .seen import Seen, Shape, Term, added, computed, of_number, reduced, stored

_EQUAL, _MULTIPLY, _CONJ, _DIVIDE, _REAL, _IMAG = (OPS[name] for name in ("equal", "multiply", "conj", "divide", "real", "imag"))
_ADD, _SUBTRACT = OPS["add"], OPS["subtract"]
_SUM = REDUCTIONS["sum"]
_EXTREMES = ("max", "min")
_scan = cache(Scan)


def _needs(recipe: Recipe, tracked: tuple[bool, ...]) -> Needs:
    """Return the residuals of a reduction or running reduction: the source unless it is a sum, and the result where the rule reads it."""
    op: Any = recipe.op
    name = op.name if isinstance(op, Reduction) else op.reduction.name
    if name in SUMS:
        return Needs((False,), False)
    return Needs((True,), name in _EXTREMES or isinstance(op, Scan))


# --- reductions -------------------------------------------------------------------------------------------------------


def _pull_reduction(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (0, cotangent of the source) for a reduction with tape node `past`, given the cotangent `g` of the result (VJP)."""
    name = past.recipe.op.name
    layout = past.layouts[0]
    assert layout is not None
    kept_ndim = len(past.recipe.shape)
    if name in SUMS:
        term = Term.of(_broadcast(g, layout, kept_ndim))
    elif name in _EXTREMES:
        assert result is not None
        x = value_of(past, 0)
        share = _broadcast(computed(_DIVIDE, [g, _count_ties(x, result, kept_ndim)]), layout, kept_ndim)
        hit = computed(_EQUAL, [x, _broadcast(Seen(result), layout, kept_ndim)]).cast(g.dtype)
        term = Term(_MULTIPLY, [hit, share], layout.shape, g.dtype)
    else:
        rows = layout.shape[:kept_ndim]
        x = value_of(past, 0).reshaped((*rows, prod(layout.shape[kept_ndim:])))
        cotangents = _pull_product(x, g) if name == "prod" else _pull_fold(past, x, g)
        term = Term.of(cotangents.reshaped(layout.shape))
    yield 0, back(past, 0, term)


def _push_reduction(past: Making, source_tangents: Tangents, result: Node | None) -> Seen | None:
    """Return the tangent of a reduction's result, given that of the source under index 0 (JVP); None stands for 0."""
    op: Any = past.recipe.op
    tangent, kept_ndim = read(past, 0, source_tangents[0]), len(past.recipe.shape)
    if op.name in SUMS:
        return reduced(op, tangent, kept_ndim)
    x = value_of(past, 0)
    if op.name in _EXTREMES:
        assert result is not None
        hit = computed(_EQUAL, [x, _broadcast(Seen(result), x.layout, kept_ndim)]).cast(tangent.dtype)
        total = reduced(_SUM, computed(_MULTIPLY, [hit, tangent]), kept_ndim)
        return computed(_DIVIDE, [total, _count_ties(x, result, kept_ndim)])
    if op.name == "prod":
        rows = (*x.shape[:kept_ndim], prod(x.shape[kept_ndim:]))
        products = _other_products(x.reshaped(rows))
        return reduced(_SUM, computed(_MULTIPLY, [products, tangent.reshaped(rows).cast(products.dtype)]), kept_ndim).cast(
            past.recipe.dtype
        )
    rows = (*x.shape[:kept_ndim], prod(x.shape[kept_ndim:]))
    x, tangent = x.reshaped(rows), tangent.reshaped(rows)
    if not rows[-1]:
        return None
    return _push_running(op, x, running_of(op, x), tangent).moved(lambda layout: layout.index((*(slice(None),) * kept_ndim, -1)))


def _broadcast(x: Seen, layout: Layout, kept_ndim: int) -> Seen:
    """Return `x`, one value for each result, broadcast to the shape of the reduced elements, `layout.shape`.

    The first `kept_ndim` axes are kept by the reduction.
    """
    return x.along(range(kept_ndim, layout.ndim), layout.shape[kept_ndim:])


def _count_ties(x: Seen, result: Node, kept_ndim: int) -> Seen:
    """Return how many elements of `x` equal the extremum, for each result. The first `kept_ndim` axes of `x` are kept by the reduction."""
    hit = computed(_EQUAL, [x, _broadcast(Seen(result), x.layout, kept_ndim)])
    return reduced(_SUM, hit.cast(x.dtype), kept_ndim)


def _pull_product(x: Seen, g: Seen) -> Seen:
    """Return the cotangents of the elements `x` of products along the last axis, given the cotangents `g` of the products."""
    factors = _other_products(x)
    return computed(_MULTIPLY, [_conjugate(factors), _broadcast(g.cast(factors.dtype), x.layout, len(g.shape))])


def _other_products(x: Seen) -> Seen:
    """Return, for each element, the product of the remaining elements along the last axis: of those before times those behind."""
    products_before = _shift(running_of(running("prod", x.dtype), x), 1.0)
    products_behind = _shift(running_of(running("prod", x.dtype), _reverse(x)), 1.0)
    return computed(_MULTIPLY, [products_before, _reverse(products_behind)])


def _conjugate(x: Seen) -> Seen:
    """Return the complex conjugate of `x`, or `x` itself if it is real."""
    return computed(_CONJ, [x]) if x.dtype.is_complex else x


def _reverse(x: Seen) -> Seen:
    """Return a view of `x` with the last axis in reverse order."""
    return x.moved(lambda layout: layout.flip(layout.ndim - 1))


def _shift(x: Seen, fill: Number | None, by: int = 1) -> Seen:
    """Return `x` shifted towards higher indices by `by` positions along the last axis; the last `by` elements are dropped.

    The front is filled with `fill`, or with 0 if `fill` is None.
    """
    shape, last_axis = x.shape, len(x.shape) - 1
    filled = of_number(0.0 if fill is None else fill, shape, x.dtype)
    if shape[-1] <= by:
        return filled
    everywhere = (slice(None),) * last_axis
    target = filled.layout.index((*everywhere, slice(by, None)))
    return stored(filled, target, x.moved(lambda layout: layout.index((*everywhere, slice(None, -by))))).reshaped(shape)


def running_of(reduction: Reduction, x: Seen) -> Seen:
    """Return the running reduction of `x` along the last axis: element k is the reduction of elements 0 to k."""
    layout = Layout.contiguous(x.shape)
    result = Node.of(_scan(reduction), x.shape, reduction.result(x.dtype), (x.node,), (x.layout,), layout)
    return Seen(result)


# --- running reductions -----------------------------------------------------------------------------------------------


def _pull_scan(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (0, cotangent of the source) for a running reduction with tape node `past`, given the cotangent `g` of the result (VJP)."""
    op: Any = past.recipe.op
    g = g.reshaped((past.recipe.size,)).through(past.target)  # in the axis order of the source
    if op.reduction.name in SUMS:
        cotangents = _reverse(running_of(running("sum", g.dtype), _reverse(g)))
    else:
        cotangents = _pull_running(op.reduction, value_of(past, 0), _view_states(past, result), g)
    yield 0, back(past, 0, Term.of(cotangents))


def _push_scan(past: Making, source_tangents: Tangents, result: Node | None) -> Seen:
    """Return the tangent of a running reduction's result, given that of the source under index 0 (JVP)."""
    op: Any = past.recipe.op
    tangent = read(past, 0, source_tangents[0])
    shape, dtype, target = past.recipe.shape, past.recipe.dtype, past.target
    if op.reduction.name in SUMS:
        return Seen(Node.of(op, shape, dtype, (tangent.node,), (tangent.layout,), target))
    tangents = _push_running(op.reduction, value_of(past, 0), _view_states(past, result), tangent)
    return stored(Seen(Node.of(EMPTY, (past.recipe.size,), dtype)), target, tangents)


def _view_states(past: Making, result: Node | None) -> Seen:
    """Return the `result` of a running reduction with tape node `past`, viewed in the axis order of its source."""
    assert result is not None
    return Seen(result).reshaped((past.recipe.size,)).through(past.target)


def _pull_fold(past: Making, x: Seen, g: Seen) -> Seen:
    """Return the cotangents of the elements `x` (..., n) of a reduction along the last axis, given the cotangent `g` (...) of the result.

    The reduction, the operation of the tape node `past`, is treated as the last element of a running reduction.
    """
    op: Any = past.recipe.op
    if not x.shape[-1]:
        return of_number(0, x.shape, x.dtype)
    states = running_of(op, x)
    last_layout = states.layout.index((*(slice(None),) * (len(x.shape) - 1), -1))
    state_cotangents = stored(of_number(0, x.shape, g.dtype), last_layout, g).reshaped(x.shape)
    return _pull_running(op, x, states, state_cotangents)


def _pull_running(reduction: Reduction, x: Seen, states: Seen, g: Seen) -> Seen:
    """Return the cotangents of the elements `x` of a running reduction along the last axis, given the cotangents `g` of its `states`."""
    dtype = states.dtype
    if reduction in _recurrences.values():
        after = _accumulate_backward(computed(_REAL, [x]), g)
        return _pair_up(computed(_MULTIPLY, [after, _shift(states, 0.0)]), after)
    if dtype.is_complex and reduction in (running("prod", dtype), REDUCTIONS["prod"]):
        return computed(_MULTIPLY, [_accumulate_backward(_conjugate(x), g), _conjugate(_shift(states, 1.0))])
    fold = _derive_fold(reduction, x.dtype)
    previous_states = _shift(states, fold.initial)
    slopes = _apply(fold.by_state, [previous_states, x], x.shape, dtype)  # derivative of each state by the state before
    if dtype.is_complex:
        direct, turned = _real_linear_parts(slopes, _apply(fold.by_turned, [previous_states, x], x.shape, dtype))
        after = _reverse(_solve_turned(_shift(_reverse(direct), 0.0), _shift(_reverse(turned), 0.0), _reverse(g)))
    else:
        after = _accumulate_backward(slopes, g)
    return _set_first_value(fold, _apply(fold.by_element, [previous_states, x, after], x.shape, x.dtype), after)


def _push_running(reduction: Reduction, x: Seen, states: Seen, tangent: Seen) -> Seen:
    """Return the tangents of the `states` of a running reduction along the last axis, given the tangents of the elements `x`."""
    dtype = states.dtype
    if reduction in _recurrences.values():
        direct = computed(_MULTIPLY, [computed(_REAL, [tangent]), _shift(states, 0.0)])
        return _solve_recurrence(computed(_REAL, [x]), added(direct, computed(_IMAG, [tangent])))
    if dtype.is_complex and reduction in (running("prod", dtype), REDUCTIONS["prod"]):
        return _solve_recurrence(x, computed(_MULTIPLY, [tangent, _shift(states, 1.0)]))
    fold = _derive_fold(reduction, x.dtype)
    previous_states = _shift(states, fold.initial)
    slopes = _apply(fold.by_state, [previous_states, x], x.shape, dtype)
    addends = _set_first_value(fold, _apply(fold.of_element, [previous_states, x, tangent], x.shape, dtype), tangent)
    if not dtype.is_complex:
        return _solve_recurrence(slopes, addends)
    direct, turned = _real_linear_parts(slopes, _apply(fold.by_turned, [previous_states, x], x.shape, dtype))
    return _solve_turned(_conjugate(direct), turned, addends)


def _set_first_value(fold: Fold, values: Seen, elements: Seen) -> Seen:
    """Return `values`, with the first element along the last axis replaced by that of `elements`, if `fold.initial` is None.

    The reduction then begins with the first element as its state, so the derivative of the first step is 1.
    """
    if fold.initial is not None or not values.shape[-1]:
        return values
    first_key = (*(slice(None),) * (len(values.shape) - 1), slice(0, 1))
    first_value = elements.moved(lambda layout: layout.index(first_key)).cast(values.dtype)
    return stored(values, Layout.contiguous(values.shape).index(first_key), first_value).reshaped(values.shape)


def _real_linear_parts(value_at_1: Seen, value_at_1j: Seen) -> tuple[Seen, Seen]:
    """Return a and b of the map `a g + b conj(g)`, linear over the reals, given its values at g = 1 and at g = 1j."""
    turned = computed(_MULTIPLY, [value_at_1j, Scalar(1j, value_at_1j.dtype)])
    return tuple([computed(_MULTIPLY, [computed(op, [value_at_1, turned]), Scalar(0.5, value_at_1.dtype)]) for op in (_SUBTRACT, _ADD)])  # type: ignore[return-value]


class Fold(NamedTuple):
    """The derivatives of a reduction step, which maps the state before and an element to the new state.

    `initial` is the initial state, or None if the first element is the initial state. `by_state` computes the derivative by the state
    before. `by_turned`, for complex states, is the cotangent of the state before for the cotangent 1j. `by_element` computes the element's
    cotangent from the state before, the element and the new state's cotangent. `of_element` computes the new state's tangent from the state
    before, the element and the element's tangent. None stands for 0.
    """

    initial: Number | None
    by_state: Partial | None
    by_turned: Partial | None
    by_element: Partial | None
    of_element: Partial | None


@lru_cache(MAX_KNOWN)
def _derive_fold(reduction: Reduction, dtype: DType) -> Fold:
    """Return the derivatives of a reduction's step. Raise DerivativeError if the state has several parts or no derivative, or is not the
    result.
    """
    states = reduction.states(dtype)
    from_first = len(states) == 2 and states[0] is boolean
    state, element = Arg(0, states[-1]), Arg(1, dtype)
    lifted = reduction.lift(element, Const(0, int64), states)
    previous_state = (Const(True, boolean), state) if from_first else (state,)
    if len(states) > len(previous_state) or not is_smooth(state.dtype) or reduction.finish is not None:
        raise DerivativeError(f"{reduction.name}: has no derivative; compute it on x.detach() if none is meant")
    step = reduction.step(previous_state, lifted)[-1]
    g = Arg(2, state.dtype)
    (by_state,) = pulled_back(step, Const(1.0, state.dtype), [state])
    (by_turned,) = pulled_back(step, Const(1j, state.dtype), [state]) if state.dtype.is_complex else (None,)
    (by_element,) = pulled_back(step, g, [element])
    tangent = Arg(2, dtype)
    of_element = None if by_element is None else tangent if by_element is g else pulled_back(by_element, tangent, [g])[0]
    initial: Any = None if from_first else reduction.identity(states)[0]
    return Fold(
        None if initial is None else initial.value,
        _to_operation(by_state, "slope", state.dtype),
        _to_operation(by_turned, "slope", state.dtype),
        _to_operation(by_element, "pullback", state.dtype),
        _to_operation(None if of_element is None else cast(of_element, state.dtype), "tangent", state.dtype),
    )


def _to_operation(e: Expr | None, name: str, dtype: DType) -> Partial | None:
    """Return a formula as an operation with at least one operand, to determine the shape; None (for 0) if `e` is None.

    A constant formula gets the state, of `dtype`, as an operand. `name` is the name of the new operation.
    """
    if e is None:
        return None
    partial = operation(e, name)
    return partial if partial.reads else Partial(custom(name, e, (dtype,)), (0,))


def _apply(partial: Partial | None, operands: Sequence[Seen], shape: Shape, dtype: DType) -> Seen:
    """Return the operation `partial` on those of `operands` that it reads, in `dtype`; zeros of `shape` if `partial` is None."""
    if partial is None:
        return of_number(0.0, shape, dtype)
    return computed(partial.op, [operands[k] for k in partial.reads], dtype)


def _accumulate_backward(slopes: Seen, g: Seen) -> Seen:
    """Return the total cotangents of a sequence of states: y(k) = g(k) + slopes(k + 1) y(k + 1). `slopes` are the derivatives of each state
    by the state before.
    """
    return _reverse(_solve_recurrence(_shift(_reverse(slopes), 0.0), _reverse(g)))


def _solve_recurrence(slopes: Seen, addends: Seen) -> Seen:
    """Return y(k) = slopes(k) y(k - 1) + addends(k) along the last axis, starting from 0."""
    dtype = slopes.dtype
    if dtype.is_complex:
        return _solve_by_doubling(slopes, addends)
    pairs = _pair_up(slopes, addends)
    return running_of(_recurrences[pairs.dtype], pairs).cast(dtype)


def _solve_by_doubling(slopes: Seen, addends: Seen) -> Seen:
    """Return y(k) = slopes(k) y(k - 1) + addends(k) for complex numbers, starting from 0.

    A pair of complex numbers does not fit into an element of a running reduction. So the recurrence is solved in log2(n) passes, over the
    last 1, 2, 4, ... elements.
    """
    span, count = 1, slopes.shape[-1]
    while span < count:
        addends = added(addends, computed(_MULTIPLY, [slopes, _shift(addends, 0.0, span)]))
        slopes = computed(_MULTIPLY, [slopes, _shift(slopes, 0.0, span)])
        span *= 2
    return addends


def _solve_turned(slopes: Seen, turned: Seen, addends: Seen) -> Seen:
    """Return y(k) = slopes(k) y(k - 1) + turned(k) conj(y(k - 1)) + addends(k), starting from 0, in log2(n) passes."""
    span, count = 1, slopes.shape[-1]
    while span < count:
        addends = added(addends, _apply_both(slopes, turned, _shift(addends, 0.0, span)))
        earlier_slopes, earlier_turned = _shift(slopes, 0.0, span), _conjugate(_shift(turned, 0.0, span))
        slopes, turned = (
            _apply_both(slopes, turned, earlier_slopes, earlier_turned),
            _apply_both(slopes, turned, _conjugate(earlier_turned), _conjugate(earlier_slopes)),
        )
        span *= 2
    return addends


def _apply_both(slopes: Seen, turned: Seen, x: Seen, conjugate: Seen | None = None) -> Seen:
    """Return `slopes x + turned y`, where y is `conjugate`, or by default the conjugate of x."""
    conjugate = _conjugate(x) if conjugate is None else conjugate
    return added(computed(_MULTIPLY, [slopes, x]), computed(_MULTIPLY, [turned, conjugate]))


def _pair_up(slopes: Seen, addends: Seen) -> Seen:
    """Return `slopes + 1j * addends`: pairs of real numbers as complex numbers, as a running reduction takes one element at a time."""
    wide = complex128 if slopes.dtype is float64 else complex64
    return computed(_pair_op(wide.part), [slopes.cast(wide.part), addends.cast(wide.part)], wide)


def _make_recurrence(wide: DType) -> Reduction:
    """Return the reduction y = slope y + addend on elements of the complex dtype `wide`: `slope` is the real part, `addend` the imaginary.

    The state y is real and starts from 0.
    """
    step = call("imag", Arg(1, wide)) + call("real", Arg(1, wide)) * Arg(0, wide.part)
    return reduction_in_order(step, Const(0.0, wide.part))


_recurrences = {wide: _make_recurrence(wide) for wide in (complex64, complex128)}


@cache
def _pair_op(component: DType) -> Op:
    """Return the operation that combines a real and an imaginary part, both of dtype `component`, to a complex number."""
    wide = {float32: complex64, float64: complex128}[component]
    return custom("paired", cast(Arg(0, component), wide) + cast(Arg(1, component), wide) * 1j, (component, component))


REDUCED = Rule(_needs, _pull_reduction, _push_reduction)
REDUCED_SO_FAR = Rule(_needs, _pull_scan, _push_scan)
