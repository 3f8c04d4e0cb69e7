"""Derivatives of reductions and running reductions. The functions of a rule (`GradRule`) take the `tape_node` or the `recipe` of an
operation. `g` is the cotangent of the result, and `source_tangents` has the tangents of sources by index. `wanted` has the indices of the
sources for which a cotangent is needed. `result` is the node of the result, or None unless the rule reads the result. A reduction has a
single source, number 0. A running reduction runs along the last axis; the state after an element is a result.

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

from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..dtypes import DType, Number, boolean, complex64, complex128, float32, float64, int64
from ..errors import DerivativeError
from ..graph.node import EMPTY, Node, Recipe, Residuals, Scalar, Scan
from ..layout import Layout
from ..ops import OPS, Op, make_custom_op
from ..ops.expr import Arg, Const, Expr, call, cast
from ..ops.reductions import REDUCTIONS, Reduction, get_running_reduction, make_ordered_reduction
from .formula_derivatives import MAX_CACHED_FORMULAS, DerivativeOp, is_smooth, pull_back, to_operation
from .grad_rule import SUM_NAMES, CotangentIterator, GradRule, SourceTangents, TapeNodeLike, pull_to_source, read_tangent, view_source
from .node_view import DeferredTerm, NodeView, Shape, add_views, apply_op, apply_reduction, apply_store, full_view

_EQUAL, _MULTIPLY, _CONJ, _DIVIDE, _REAL, _IMAG = (OPS[name] for name in ("equal", "multiply", "conj", "divide", "real", "imag"))
_ADD, _SUBTRACT = OPS["add"], OPS["subtract"]
_SUM = REDUCTIONS["sum"]
_EXTREMES = ("max", "min")
_scan = register("derivatives of scans", "a running reduction, by axis and reduction")(cache(Scan))


def _residuals_of(recipe: Recipe, tracked: tuple[bool, ...]) -> Residuals:
    """Return flags for the residuals of a reduction or running reduction (`GradRule.residuals_of`).

    The source is read unless the reduction is a sum. The result is read for a maximum, a minimum, and a running reduction except a sum.
    `tracked` (whether the source is on the tape) makes no difference.
    """
    op: Any = recipe.op
    name = op.name if isinstance(op, Reduction) else op.reduction.name
    if name in SUM_NAMES:
        return Residuals((False,), False)
    return Residuals((True,), name in _EXTREMES or isinstance(op, Scan))


# --- reductions -------------------------------------------------------------------------------------------------------


def _reduction_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (0, cotangent of the source) for a reduction with tape node `tape_node`, given the cotangent `g` of the result
    (`GradRule.vjp`).

    For `max` and `min`, `result` must not be None: the elements equal to the result share the cotangent equally. Raise DerivativeError for
    a reduction whose step has no derivative (`_derive_step`).
    """
    name = tape_node.recipe.op.name
    layout = tape_node.layouts[0]
    assert layout is not None
    kept_ndim = len(tape_node.recipe.shape)
    if name in SUM_NAMES:
        term = DeferredTerm.of(_broadcast(g, layout, kept_ndim))
    elif name in _EXTREMES:
        assert result is not None
        x = view_source(tape_node, 0)
        share = _broadcast(apply_op(_DIVIDE, [g, _count_ties(x, result, kept_ndim)]), layout, kept_ndim)
        hit = apply_op(_EQUAL, [x, _broadcast(NodeView(result), layout, kept_ndim)]).cast(g.dtype)
        term = DeferredTerm(_MULTIPLY, [hit, share], layout.shape, g.dtype)
    else:
        rows = layout.shape[:kept_ndim]
        x = view_source(tape_node, 0).reshape((*rows, prod(layout.shape[kept_ndim:])))
        cotangents = _prod_vjp(x, g) if name == "prod" else _last_state_vjp(tape_node, x, g)
        term = DeferredTerm.of(cotangents.reshape(layout.shape))
    yield 0, pull_to_source(tape_node, 0, term)


def _reduction_jvp(tape_node: TapeNodeLike, source_tangents: SourceTangents, result: Node | None) -> NodeView | None:
    """Return the tangent of the result of the reduction `tape_node` (`GradRule.jvp`), or None for the tangent 0.

    `source_tangents[0]`, the tangent of the source, must be given. The rules of `max` and `min` need `result`, not None: the tangent is the
    mean over the elements equal to the result. Raise DerivativeError as `_reduction_vjp` does.
    """
    op: Any = tape_node.recipe.op
    tangent, kept_ndim = read_tangent(tape_node, 0, source_tangents[0]), len(tape_node.recipe.shape)
    if op.name in SUM_NAMES:
        return apply_reduction(op, tangent, kept_ndim)
    x = view_source(tape_node, 0)
    if op.name in _EXTREMES:
        assert result is not None
        hit = apply_op(_EQUAL, [x, _broadcast(NodeView(result), x.layout, kept_ndim)]).cast(tangent.dtype)
        total = apply_reduction(_SUM, apply_op(_MULTIPLY, [hit, tangent]), kept_ndim)
        return apply_op(_DIVIDE, [total, _count_ties(x, result, kept_ndim)])
    if op.name == "prod":
        rows = (*x.shape[:kept_ndim], prod(x.shape[kept_ndim:]))
        products = _other_products(x.reshape(rows))
        return apply_reduction(_SUM, apply_op(_MULTIPLY, [products, tangent.reshape(rows).cast(products.dtype)]), kept_ndim).cast(
            tape_node.recipe.dtype
        )
    rows = (*x.shape[:kept_ndim], prod(x.shape[kept_ndim:]))
    x, tangent = x.reshape(rows), tangent.reshape(rows)
    if not rows[-1]:
        return None
    return _running_states_jvp(op, x, apply_running_reduction(op, x), tangent).map_layout(
        lambda layout: layout.index((*(slice(None),) * kept_ndim, -1))
    )


def _broadcast(x: NodeView, layout: Layout, kept_ndim: int) -> NodeView:
    """Return a view of `x`, one value for each result, broadcast to the shape of the reduced elements, `layout.shape`.

    The first `kept_ndim` axes, the shape of `x`, are kept by the reduction.
    """
    return x.broadcast_along(range(kept_ndim, layout.ndim), layout.shape[kept_ndim:])


def _count_ties(x: NodeView, result: Node, kept_ndim: int) -> NodeView:
    """Return how many elements of `x` equal the extremum, for each extremum in `result`, in the dtype of `x` and the shape of `result`.

    The first `kept_ndim` axes of `x` are kept by the reduction, and are the axes of `result`.
    """
    hit = apply_op(_EQUAL, [x, _broadcast(NodeView(result), x.layout, kept_ndim)])
    return apply_reduction(_SUM, hit.cast(x.dtype), kept_ndim)


def _prod_vjp(x: NodeView, g: NodeView) -> NodeView:
    """Return the cotangents of the elements `x` (..., n) of products along the last axis, given the products' cotangents `g` (...)."""
    factors = _other_products(x)
    return apply_op(_MULTIPLY, [_conjugate(factors), _broadcast(g.cast(factors.dtype), x.layout, len(g.shape))])


def _other_products(x: NodeView) -> NodeView:
    """Return, for each element of `x`, the product of the remaining elements along the last axis: of those before times those behind."""
    products_before = _shift(apply_running_reduction(get_running_reduction("prod", x.dtype), x), 1.0)
    products_behind = _shift(apply_running_reduction(get_running_reduction("prod", x.dtype), _reverse(x)), 1.0)
    return apply_op(_MULTIPLY, [products_before, _reverse(products_behind)])


def _conjugate(x: NodeView) -> NodeView:
    """Return the complex conjugate of `x`, or `x` itself if it is real."""
    return apply_op(_CONJ, [x]) if x.dtype.is_complex else x


def _reverse(x: NodeView) -> NodeView:
    """Return a view of `x` with the last axis in reverse order."""
    return x.map_layout(lambda layout: layout.flip(layout.ndim - 1))


def _shift(x: NodeView, fill: Number | None, by: int = 1) -> NodeView:
    """Return a copy of `x` shifted towards higher indices by `by` positions, at least 1, along the last axis; the last `by` elements are
    dropped.

    The front is filled with `fill`, or with 0 if `fill` is None. The shape stays.
    """
    shape, last_axis = x.shape, len(x.shape) - 1
    filled = full_view(0.0 if fill is None else fill, shape, x.dtype)
    if shape[-1] <= by:
        return filled
    everywhere = (slice(None),) * last_axis
    target = filled.layout.index((*everywhere, slice(by, None)))
    return apply_store(filled, target, x.map_layout(lambda layout: layout.index((*everywhere, slice(None, -by))))).reshape(shape)


def apply_running_reduction(reduction: Reduction, x: NodeView) -> NodeView:
    """Return the running reduction of `x` by `reduction` along the last axis: element k is the reduction of elements 0 to k."""
    layout = Layout.contiguous(x.shape)
    result = Node.of(_scan(reduction), x.shape, reduction.result_dtype(x.dtype), (x.node,), (x.layout,), layout)
    return NodeView(result)


# --- running reductions -----------------------------------------------------------------------------------------------


def _running_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (0, cotangent of the source) for a running reduction with tape node `tape_node`, given the cotangent `g` of the result
    (`GradRule.vjp`).

    `result`, the graph node of the running reduction, must not be None, except for a sum. Raise DerivativeError for a reduction whose step
    has no derivative (`_derive_step`).
    """
    op: Any = tape_node.recipe.op
    g = g.reshape((tape_node.recipe.size,)).view_through(tape_node.target)  # in the axis order of the source
    if op.reduction.name in SUM_NAMES:
        cotangents = _reverse(apply_running_reduction(get_running_reduction("sum", g.dtype), _reverse(g)))
    else:
        cotangents = _running_states_vjp(op.reduction, view_source(tape_node, 0), _view_states(tape_node, result), g)
    yield 0, pull_to_source(tape_node, 0, DeferredTerm.of(cotangents))


def _running_jvp(tape_node: TapeNodeLike, source_tangents: SourceTangents, result: Node | None) -> NodeView:
    """Return the tangent of the result of the running reduction `tape_node`, given the tangent of the source under index 0
    (`GradRule.jvp`).

    `result`, the graph node of the running reduction, must not be None, except for a sum. The tangent may have one axis, in the order of
    the result's elements. Raise DerivativeError as `_running_vjp` does.
    """
    op: Any = tape_node.recipe.op
    tangent = read_tangent(tape_node, 0, source_tangents[0])
    shape, dtype, target = tape_node.recipe.shape, tape_node.recipe.dtype, tape_node.target
    if op.reduction.name in SUM_NAMES:
        return NodeView(Node.of(op, shape, dtype, (tangent.node,), (tangent.layout,), target))
    tangents = _running_states_jvp(op.reduction, view_source(tape_node, 0), _view_states(tape_node, result), tangent)
    return apply_store(NodeView(Node.of(EMPTY, (tape_node.recipe.size,), dtype)), target, tangents)


def _view_states(tape_node: TapeNodeLike, result: Node | None) -> NodeView:
    """Return `result`, the graph node of a running reduction with tape node `tape_node`, viewed in the axis order of the source. `result`
    must not be None.
    """
    assert result is not None
    return NodeView(result).reshape((tape_node.recipe.size,)).view_through(tape_node.target)


def _last_state_vjp(tape_node: TapeNodeLike, x: NodeView, g: NodeView) -> NodeView:
    """Return the cotangents of the elements `x` (..., n) of a reduction along the last axis, given the cotangent `g` (...) of the result.

    The reduction, the operation of the tape node `tape_node`, is treated as the last element of a running reduction.
    """
    op: Any = tape_node.recipe.op
    if not x.shape[-1]:
        return full_view(0, x.shape, x.dtype)
    states = apply_running_reduction(op, x)
    last_layout = states.layout.index((*(slice(None),) * (len(x.shape) - 1), -1))
    state_cotangents = apply_store(full_view(0, x.shape, g.dtype), last_layout, g).reshape(x.shape)
    return _running_states_vjp(op, x, states, state_cotangents)


def _running_states_vjp(reduction: Reduction, x: NodeView, states: NodeView, g: NodeView) -> NodeView:
    """Return the cotangents of the elements `x` of a running reduction by `reduction` along the last axis, in the shape and dtype of `x`.

    `states` are the results of the running reduction, one after each element, and `g` their direct cotangents, from the results alone. The
    shapes are equal.
    """
    dtype = states.dtype
    if reduction in _recurrences.values():
        after = _accumulate_backward(apply_op(_REAL, [x]), g)
        return _pair_up(apply_op(_MULTIPLY, [after, _shift(states, 0.0)]), after)
    if dtype.is_complex and reduction in (get_running_reduction("prod", dtype), REDUCTIONS["prod"]):
        return apply_op(_MULTIPLY, [_accumulate_backward(_conjugate(x), g), _conjugate(_shift(states, 1.0))])
    step_derivatives = _derive_step(reduction, x.dtype)
    previous_states = _shift(states, step_derivatives.initial_state)
    slopes = _apply_partial(step_derivatives.by_state, [previous_states, x], x.shape, dtype)  # derivative of each state by the state before
    if dtype.is_complex:
        direct, conjugate_slopes = _real_linear_parts(
            slopes, _apply_partial(step_derivatives.by_state_imaginary, [previous_states, x], x.shape, dtype)
        )
        after = _reverse(_solve_with_conjugate(_shift(_reverse(direct), 0.0), _shift(_reverse(conjugate_slopes), 0.0), _reverse(g)))
    else:
        after = _accumulate_backward(slopes, g)
    return _set_first_value(
        step_derivatives, _apply_partial(step_derivatives.by_element, [previous_states, x, after], x.shape, x.dtype), after
    )


def _running_states_jvp(reduction: Reduction, x: NodeView, states: NodeView, tangent: NodeView) -> NodeView:
    """Return the tangents of the results `states` of a running reduction by `reduction` along the last axis, one after each element.

    `tangent` has the tangents of the elements `x`. Arguments and result have the shape of `x`.
    """
    dtype = states.dtype
    if reduction in _recurrences.values():
        direct = apply_op(_MULTIPLY, [apply_op(_REAL, [tangent]), _shift(states, 0.0)])
        return _solve_recurrence(apply_op(_REAL, [x]), add_views(direct, apply_op(_IMAG, [tangent])))
    if dtype.is_complex and reduction in (get_running_reduction("prod", dtype), REDUCTIONS["prod"]):
        return _solve_recurrence(x, apply_op(_MULTIPLY, [tangent, _shift(states, 1.0)]))
    step_derivatives = _derive_step(reduction, x.dtype)
    previous_states = _shift(states, step_derivatives.initial_state)
    slopes = _apply_partial(step_derivatives.by_state, [previous_states, x], x.shape, dtype)
    addends = _set_first_value(
        step_derivatives, _apply_partial(step_derivatives.of_element, [previous_states, x, tangent], x.shape, dtype), tangent
    )
    if not dtype.is_complex:
        return _solve_recurrence(slopes, addends)
    direct, conjugate_slopes = _real_linear_parts(
        slopes, _apply_partial(step_derivatives.by_state_imaginary, [previous_states, x], x.shape, dtype)
    )
    return _solve_with_conjugate(_conjugate(direct), conjugate_slopes, addends)


def _set_first_value(step_derivatives: StepDerivatives, values: NodeView, elements: NodeView) -> NodeView:
    """Return `values` with the first element along the last axis replaced by that of `elements`, if `step_derivatives` has no initial
    state.

    The reduction then takes the first element itself as the state, so the derivative of the first step is 1. `elements` has the tangents or
    cotangents, which pass this step unchanged; they are converted to the dtype of `values`. With an initial state, or an empty last axis,
    `values` itself is returned.
    """
    if step_derivatives.initial_state is not None or not values.shape[-1]:
        return values
    first_key = (*(slice(None),) * (len(values.shape) - 1), slice(0, 1))
    first_value = elements.map_layout(lambda layout: layout.index(first_key)).cast(values.dtype)
    return apply_store(values, Layout.contiguous(values.shape).index(first_key), first_value).reshape(values.shape)


def _real_linear_parts(value_at_1: NodeView, value_at_1j: NodeView) -> tuple[NodeView, NodeView]:
    """Return a and b of the map f(g) = `a g + b conj(g)`, which is linear over the reals.

    `value_at_1` = f(1) and `value_at_1j` = f(1j) determine the map. Arguments and results are complex, element by element.
    """
    rotated = apply_op(_MULTIPLY, [value_at_1j, Scalar(1j, value_at_1j.dtype)])
    return tuple([apply_op(_MULTIPLY, [apply_op(op, [value_at_1, rotated]), Scalar(0.5, value_at_1.dtype)]) for op in (_SUBTRACT, _ADD)])  # type: ignore[return-value]


class StepDerivatives(NamedTuple):
    """The derivatives of a reduction step, which maps the state before and an element to the new state.

    `initial_state` is the initial state, or None if the first element is the initial state. The operations read three values: 0 is the
    state before, 1 the element, and 2 as follows. `by_state` computes the derivative by the state before; for complex states, this is the
    cotangent of the state before for the new state's cotangent 1. `by_state_imaginary` computes the same for the cotangent 1j, and is None
    for real states. `by_element` computes the element's cotangent, where value 2 is the new state's cotangent. `of_element` computes the
    new state's tangent, where value 2 is the element's tangent. Any other None stands for 0.
    """

    initial_state: Number | None
    by_state: DerivativeOp | None
    by_state_imaginary: DerivativeOp | None
    by_element: DerivativeOp | None
    of_element: DerivativeOp | None


@register("derivatives of reductions", "the derivative of one step, by reduction and dtype")
@lru_cache(MAX_CACHED_FORMULAS)
def _derive_step(reduction: Reduction, dtype: DType) -> StepDerivatives:
    """Return the derivatives of the step of `reduction` for elements of `dtype`. Cached.

    Raise DerivativeError if the state has several parts or no derivative, or is not the result. A flag for the first element, kept beside
    the state, does not count as a part.
    """
    states = reduction.state_dtypes(dtype)
    from_first = len(states) == 2 and states[0] is boolean
    state, element = Arg(0, states[-1]), Arg(1, dtype)
    lifted = reduction.lift(element, Const(0, int64), states)
    previous_state = (Const(True, boolean), state) if from_first else (state,)
    if len(states) > len(previous_state) or not is_smooth(state.dtype) or reduction.finish is not None:
        raise DerivativeError(f"{reduction.name}: has no derivative; compute it on x.detach() if none is meant")
    step = reduction.add_element(previous_state, lifted)[-1]
    g = Arg(2, state.dtype)
    (by_state,) = pull_back(step, Const(1.0, state.dtype), [state])
    (by_turned,) = pull_back(step, Const(1j, state.dtype), [state]) if state.dtype.is_complex else (None,)
    (by_element,) = pull_back(step, g, [element])
    tangent = Arg(2, dtype)
    of_element = None if by_element is None else tangent if by_element is g else pull_back(by_element, tangent, [g])[0]
    initial: Any = None if from_first else reduction.identity(states)[0]
    return StepDerivatives(
        None if initial is None else initial.value,
        _to_operation(by_state, "slope", state.dtype),
        _to_operation(by_turned, "slope", state.dtype),
        _to_operation(by_element, "pullback", state.dtype),
        _to_operation(None if of_element is None else cast(of_element, state.dtype), "tangent", state.dtype),
    )


def _to_operation(e: Expr | None, name: str, dtype: DType) -> DerivativeOp | None:
    """Return the formula `e` as an operation with at least one operand, to determine the shape; None (for 0) if `e` is None.

    A constant formula gets the state, value 0 of `dtype`, as an operand. `name` is the name of a new operation.
    """
    if e is None:
        return None
    partial = to_operation(e, name)
    return partial if partial.reads else DerivativeOp(make_custom_op(name, e, (dtype,)), (0,))


def _apply_partial(partial: DerivativeOp | None, operands: Sequence[NodeView], shape: Shape, dtype: DType) -> NodeView:
    """Return `partial`, a partial derivative as an elementwise operation, on those of `operands` that it reads, as a view of a new node.

    `partial.reads` holds indices of `operands`, which all have `shape`. The result has the dtype `dtype`, whatever dtypes the operands
    have. If `partial` is None, the result is zeros of `shape` and `dtype`.
    """
    if partial is None:
        return full_view(0.0, shape, dtype)
    return apply_op(partial.op, [operands[k] for k in partial.reads], dtype)


def _accumulate_backward(slopes: NodeView, g: NodeView) -> NodeView:
    """Return the total cotangents y of a sequence of states along the last axis: y(k) = g(k) + slopes(k + 1) y(k + 1).

    `g` has the direct cotangents of the states, and `slopes`, of equal shape, the derivatives of each state by the state before. Behind the
    last state, y is 0.
    """
    return _reverse(_solve_recurrence(_shift(_reverse(slopes), 0.0), _reverse(g)))


def _solve_recurrence(slopes: NodeView, addends: NodeView) -> NodeView:
    """Return y(k) = slopes(k) y(k - 1) + addends(k) along the last axis, with y(-1) = 0, in the dtype of `slopes`.

    `slopes` and `addends` have equal shapes. Real numbers narrower than float64 are computed as float32.
    """
    dtype = slopes.dtype
    if dtype.is_complex:
        return _solve_by_doubling(slopes, addends)
    pairs = _pair_up(slopes, addends)
    return apply_running_reduction(_recurrences[pairs.dtype], pairs).cast(dtype)


def _solve_by_doubling(slopes: NodeView, addends: NodeView) -> NodeView:
    """Return y(k) = slopes(k) y(k - 1) + addends(k) along the last axis, with y(-1) = 0, for complex `slopes` and `addends` of equal shape.

    A pair of complex numbers does not fit into an element of a running reduction. So the recurrence is solved in log2(n) passes, over the
    last 1, 2, 4, ... elements.
    """
    span, count = 1, slopes.shape[-1]
    while span < count:
        addends = add_views(addends, apply_op(_MULTIPLY, [slopes, _shift(addends, 0.0, span)]))
        slopes = apply_op(_MULTIPLY, [slopes, _shift(slopes, 0.0, span)])
        span *= 2
    return addends


def _solve_with_conjugate(slopes: NodeView, conjugate_slopes: NodeView, addends: NodeView) -> NodeView:
    """Return y(k) = a(k) y(k - 1) + b(k) conj(y(k - 1)) + addends(k) along the last axis, with y(-1) = 0, in log2(n) passes.

    `slopes` has a, and `conjugate_slopes` has b. Both, and `addends`, are complex, of equal shape.
    """
    span, count = 1, slopes.shape[-1]
    while span < count:
        addends = add_views(addends, _apply_both(slopes, conjugate_slopes, _shift(addends, 0.0, span)))
        earlier_slopes, earlier_conjugate_slopes = _shift(slopes, 0.0, span), _conjugate(_shift(conjugate_slopes, 0.0, span))
        slopes, conjugate_slopes = (
            _apply_both(slopes, conjugate_slopes, earlier_slopes, earlier_conjugate_slopes),
            _apply_both(slopes, conjugate_slopes, _conjugate(earlier_conjugate_slopes), _conjugate(earlier_slopes)),
        )
        span *= 2
    return addends


def _apply_both(slopes: NodeView, conjugate_slopes: NodeView, x: NodeView, conjugate: NodeView | None = None) -> NodeView:
    """Return `slopes x + conjugate_slopes y`, where y is `conjugate`, or by default the conjugate of x."""
    conjugate = _conjugate(x) if conjugate is None else conjugate
    return add_views(apply_op(_MULTIPLY, [slopes, x]), apply_op(_MULTIPLY, [conjugate_slopes, conjugate]))


def _pair_up(slopes: NodeView, addends: NodeView) -> NodeView:
    """Return `slopes + 1j * addends`: pairs of real numbers as complex numbers, as a running reduction takes one element at a time.

    The result is complex128 for float64 `slopes`, else complex64.
    """
    wide = complex128 if slopes.dtype is float64 else complex64
    return apply_op(_pair_op(wide.part), [slopes.cast(wide.part), addends.cast(wide.part)], wide)


def _make_recurrence(wide: DType) -> Reduction:
    """Return the reduction y = slope y + addend on elements of the complex dtype `wide`: `slope` is the real part, `addend` the imaginary.

    The state y is real and starts from 0.
    """
    step = call("imag", Arg(1, wide)) + call("real", Arg(1, wide)) * Arg(0, wide.part)
    return make_ordered_reduction(step, Const(0.0, wide.part))


_recurrences = {wide: _make_recurrence(wide) for wide in (complex64, complex128)}


@register("pairing operations", "the operation that makes a complex number of two parts, by dtype")
@cache
def _pair_op(component: DType) -> Op:
    """Return the operation that combines a real and an imaginary part, both of dtype `component`, to a complex number."""
    wide = {float32: complex64, float64: complex128}[component]
    return make_custom_op("paired", cast(Arg(0, component), wide) + cast(Arg(1, component), wide) * 1j, (component, component))


REDUCTION_RULE = GradRule(_residuals_of, _reduction_vjp, _reduction_jvp)
RUNNING_RULE = GradRule(_residuals_of, _running_vjp, _running_jvp)
