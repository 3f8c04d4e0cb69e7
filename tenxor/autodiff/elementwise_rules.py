"""Derivatives of elementwise operations, partial writes, reinterpreted bytes, gathers and scatters. The functions of a rule (`GradRule`)
take the `tape_node` or the `recipe` of an operation. `g` is the cotangent of the result, and `source_tangents` has the tangents of sources
by index. A source is an operand; cotangents and tangents belong to the whole content, the elements in row-major order. `wanted` has the
indices of the sources for which a cotangent is needed. `result` is the node of the result, or None unless the rule reads the result. Item k
of `tracked` tells whether source k is on the tape. A target is the layout of the elements that a write reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import DType, int64
from ..errors import DerivativeError
from ..graph.node import POSITION, Node, Recipe, Residuals, Scalar, intern_gather, intern_scatter, reinterpret
from ..layout import Layout
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from .formula_derivatives import DerivativeOp, derive_cotangent_ops, derive_tangent_ops
from .grad_rule import (
    SUM_NAMES,
    CotangentIterator,
    GradRule,
    SourceTangents,
    TapeNodeLike,
    convert_cotangent,
    get_source_dtype,
    get_source_size,
    pull_to_source,
    read_tangent,
    view_source,
)
from .layout_adjoint import apply_adjoint
from .node_view import DeferredTerm, NodeView, Operand, Shape, add_views, apply_op, apply_scatter, apply_store, full_view

_EQUAL, _POSITIVE, _WHERE = (OPS[name] for name in ("equal", "positive", "where"))
_SUM_IN_WIDTH = REDUCTIONS["sum_in_width"]


# --- elementwise ------------------------------------------------------------------------------------------------------


def _elementwise_residuals(recipe: Recipe, tracked: tuple[bool, ...]) -> Residuals:
    """Return flags for the residuals of an elementwise operation (`GradRule.residuals_of`): the values read by the cotangents of the
    `tracked` sources.
    """
    op: Any = recipe.op
    count = len(tracked)
    operand_partials = derive_cotangent_ops(op, recipe.dtypes, recipe.dtype)
    reads = {k for partial, yes in zip(operand_partials, tracked, strict=True) if yes and partial is not None for k in partial.reads}
    return Residuals(tuple([k in reads for k in range(count)]), count in reads)


def _partial_term(tape_node: TapeNodeLike, partial: DerivativeOp, factor: NodeView, result: Node | None, dtype: DType) -> DeferredTerm:
    """Return the operation `partial` on the residuals of the tape node `tape_node` and on `factor`, as a term of the shape of the result.

    `partial` comes from `derive_cotangent_ops`, with a cotangent as `factor`, or from `derive_tangent_ops`, with a tangent. `factor` has
    the shape of the result. `result` is the graph node of `tape_node`; None raises AssertionError if the operation reads the result.
    `dtype` is the dtype of the term; if `partial` is `factor` unchanged, the term keeps the dtype of `factor`.
    """
    count = len(tape_node.sources)

    def operand(number: int) -> Operand:
        if number > count:
            return factor
        if number == count:
            assert result is not None
            return NodeView(result)
        source = tape_node.sources[number]
        return source if type(source) is Scalar else view_source(tape_node, number)

    operands = [operand(number) for number in partial.reads]
    return (
        DeferredTerm.of(factor)
        if partial.op is _POSITIVE and operands == [factor]
        else DeferredTerm(partial.op, operands, tape_node.recipe.shape, dtype)
    )


def _elementwise_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (k, cotangent of source k) for the sources `wanted` of an elementwise operation, given the cotangent `g` of the result
    (`GradRule.vjp`).

    A source with the cotangent 0 is left out. No source in `wanted` may be a number. `result` must not be None if the rule reads the
    result.
    """
    op: Any = tape_node.recipe.op
    operand_partials = derive_cotangent_ops(op, tape_node.recipe.dtypes, tape_node.recipe.dtype)
    for k in wanted:
        partial = operand_partials[k]
        if partial is not None:
            yield k, pull_to_source(tape_node, k, _partial_term(tape_node, partial, g, result, get_source_dtype(tape_node, k)))


def _elementwise_jvp(tape_node: TapeNodeLike, source_tangents: SourceTangents, result: Node | None) -> NodeView | None:
    """Return the tangent of an elementwise operation's result, given tangents of sources by index (`GradRule.jvp`); None stands for 0."""
    op: Any = tape_node.recipe.op
    operand_partials = derive_tangent_ops(op, tape_node.recipe.dtypes, tape_node.recipe.dtype)
    total: NodeView | None = None
    for k, tangent in source_tangents.items():
        partial = operand_partials[k]
        if partial is not None:
            summand = _partial_term(tape_node, partial, read_tangent(tape_node, k, tangent), result, tape_node.recipe.dtype).to_view()
            total = summand if total is None else add_views(total, summand)
    return total


# --- partial writes ---------------------------------------------------------------------------------------------------


def _no_residuals(recipe: Recipe, tracked: tuple[bool, ...]) -> Residuals:
    """Return flags for the residuals of an operation whose derivative reads no values (`GradRule.residuals_of`): all False."""
    return Residuals((False,) * len(tracked), False)


def _zeros(shape: Shape, dtype: DType) -> NodeView:
    """Return a view of the shape `shape` and `dtype` with every element 0, broadcast from a single element."""
    return full_view(0, (), dtype).map_layout(lambda x: x.expand(shape))


def _store_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (k, cotangent of source k) for a write, given the cotangent `g` of the result (`GradRule.vjp`). Source 0 is the old content, 1
    the value.

    The cotangent of the old content is `g` with 0 at the written elements, 1-d. The cotangent of the value is `g` at the written elements.
    A target may have an element at several positions, if one value, or one for each batch element, is written to all of them. Such an
    element counts once.
    """
    target, flat = tape_node.target, g.reshape((tape_node.recipe.size,))
    for k in wanted:
        if k == 0:
            yield k, apply_store(flat, target, _zeros(target.shape, g.dtype))
        elif target.is_injective():
            yield k, pull_to_source(tape_node, k, DeferredTerm.of(flat.view_through(target)))
        else:  # a value was written several times to the same element
            unwritten = apply_store(flat, target, _zeros(target.shape, g.dtype))
            layout, value_sums = _sum_by_value(apply_op(OPS["subtract"], [flat, unwritten]), target, tape_node.layouts[k])
            yield (
                k,
                apply_adjoint(
                    layout, DeferredTerm.of(convert_cotangent(value_sums, get_source_dtype(tape_node, k))), get_source_size(tape_node, k)
                ),
            )


def _sum_by_value(cotangents: NodeView, target: Layout, value: Layout | None) -> tuple[Layout, NodeView]:
    """Return the layout of the distinct written values, and for each value the sum of the cotangents of the elements with this value.

    `target` is the layout of the written elements, and `value` the layout through which the value was read, of equal shape and not None.
    `cotangents`, 1-d, has the cotangent of each written element, and 0 elsewhere. Either a single value was written everywhere, or a batch
    has a value for each batch element, with contiguous elements. The layout returned has only the batch axes, and so have the sums.
    """
    assert value is not None
    start = (0,) * target.ndim
    batch_axes: list[tuple[int, int]] = []  # the distance between the parts, and the axis
    for axis, value_axis in enumerate(value.axes()):
        if value_axis.size != 1 and (value_axis.stride or value_axis.table is not None):
            next_index = (*start[:axis], 1, *start[axis + 1 :])
            batch_axes.append((int(target.index(next_index).offsets()) - int(target.index(start).offsets()), axis))
    batch_axes.sort(reverse=True)
    sizes, inner_size = [], cotangents.layout.size
    for step, axis in batch_axes:
        sizes += [inner_size // (step * target.shape[axis]), target.shape[axis]]
        inner_size = step
    grouped = cotangents.reshape((*sizes, inner_size)).map_layout(
        lambda layout: layout.permute([*range(1, len(sizes), 2), *range(0, len(sizes) + 1, 2)])
    )
    axes = [axis for _, axis in batch_axes]
    return value.arranged(axes, tuple([value.shape[axis] for axis in axes])), DeferredTerm.of(grouped).sum_trailing(len(axes))


def _store_jvp(tape_node: TapeNodeLike, source_tangents: SourceTangents, result: Node | None) -> NodeView:
    """Return the tangent of the content after a write, as one axis, given tangents of the old content (0) and of the value (1)
    (`GradRule.jvp`).

    A missing tangent counts as 0.
    """
    size, dtype, target = tape_node.recipe.size, tape_node.recipe.dtype, tape_node.target
    old = source_tangents[0].reshape((size,)) if 0 in source_tangents else full_view(0, (size,), dtype)
    value = read_tangent(tape_node, 1, source_tangents[1]) if 1 in source_tangents else _zeros(target.shape, dtype)
    return apply_store(old, target, value)


def _reinterpret_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (0, cotangent of the source) for reinterpreted bytes, given the cotangent `g` of the result (`GradRule.vjp`).

    The cotangent is `g` with the bytes read as the dtype of the source. Raise DerivativeError for dtypes rejected by
    `_check_component_dtypes`.
    """
    dtype = get_source_dtype(tape_node, 0)
    _check_component_dtypes(dtype, tape_node.recipe.dtype)
    yield 0, NodeView(reinterpret(g.to_node(), dtype))


def _reinterpret_jvp(tape_node: TapeNodeLike, source_tangents: SourceTangents, result: Node | None) -> NodeView:
    """Return the tangent of reinterpreted bytes, given the tangent of the source under index 0 (`GradRule.jvp`).

    Raise DerivativeError for dtypes rejected by `_check_component_dtypes`.
    """
    _check_component_dtypes(get_source_dtype(tape_node, 0), tape_node.recipe.dtype)
    return NodeView(reinterpret(source_tangents[0].to_node(), tape_node.recipe.dtype))


def _check_component_dtypes(source_dtype: DType, target_dtype: DType) -> None:
    """Raise DerivativeError unless the bytes of `source_dtype`, read as `target_dtype`, have a derivative.

    Equal dtypes are allowed, and so are a complex dtype and the dtype of the real and imaginary parts.
    """
    if source_dtype.part is not target_dtype.part:
        raise DerivativeError(
            f"view: the bytes of {source_dtype} as {target_dtype} have no derivative; only complex numbers and their own parts have; use"
            f" x.astype({target_dtype})"
        )


# --- indices ----------------------------------------------------------------------------------------------------------


def _gather_residuals(recipe: Recipe, tracked: tuple[bool, ...]) -> Residuals:
    """Return flags for the residuals of a gather (`GradRule.residuals_of`): the indices, which are the sources from number 1 on."""
    return Residuals((False, *[True] * (len(tracked) - 1)), False)


def _index_views(tape_node: TapeNodeLike, first_source: int) -> list[NodeView]:
    """Return views of the indices of the gather or scatter with tape node `tape_node`: its sources from number `first_source` on."""
    return [view_source(tape_node, k) for k in range(first_source, len(tape_node.sources))]


def _gather_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (0, cotangent of the indexed source) for a gather, given the cotangent `g` of the result (`GradRule.vjp`).

    The cotangent is as large as the whole source, as one axis: values of `g` at equal indices are added, and the rest is 0.
    """
    op: Any = tape_node.recipe.op
    size, dtype = get_source_size(tape_node, 0), get_source_dtype(tape_node, 0)
    # an index out of range raises an error in the forward gather, so there is no gradient then
    scatter_op = intern_scatter(op.name, _SUM_IN_WIDTH, op.axes, True)
    layout = tape_node.layouts[0]
    assert layout is not None
    yield 0, apply_scatter(scatter_op, full_view(0, (size,), dtype), layout, g, _index_views(tape_node, 1))


def _gather_jvp(tape_node: TapeNodeLike, source_tangents: SourceTangents, result: Node | None) -> NodeView:
    """Return the tangent of a gather's result, given the tangent of the indexed source under index 0 (`GradRule.jvp`)."""
    return _apply_gather(tape_node, read_tangent(tape_node, 0, source_tangents[0]), _index_views(tape_node, 1))


def _apply_gather(tape_node: TapeNodeLike, x: NodeView, indices: Sequence[NodeView]) -> NodeView:
    """Return a pending view of the elements of `x` at `indices`, which hold an index for each of the last `len(indices)` axes of `x`.

    The axes of `x` before the indexed ones are kept: the result and each of `indices` have their shape. So an index is given for every
    element of the result. `tape_node` is the tape node of a gather or scatter; errors for an index out of range name its operation and
    axes.
    """
    op: Any = tape_node.recipe.op
    shape = x.shape[: len(x.shape) - len(indices)]
    nodes, layouts = (x.node, *[i.node for i in indices]), (x.layout, *[i.layout for i in indices])
    return NodeView(Node.of(intern_gather(op.name, op.axes), shape, x.dtype, nodes, layouts))


def _scatter_residuals(recipe: Recipe, tracked: tuple[bool, ...]) -> Residuals:
    """Return flags for the residuals of a scatter (`GradRule.residuals_of`).

    The indices are always read; the old content and the values for `prod`, `max` and `min`, and the result for `max` and `min`.
    """
    op: Any = recipe.op
    name = None if op.reduction is None else op.reduction.name
    by_value = name not in (None, *SUM_NAMES)
    return Residuals((by_value, by_value, *[True] * (len(tracked) - 2)), by_value and name != "prod")


def _scatter_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (k, cotangent of source k) for a scatter, given the cotangent `g` of the result (`GradRule.vjp`). Source 0 is the old content,
    1 the values. The rule depends on the reduction: None, a sum, "prod", "max" or "min".

    For `max` and `min`, `result` must not be None. Indices have no cotangent, and must not be in `wanted`.
    """
    op: Any = tape_node.recipe.op
    name = None if op.reduction is None else op.reduction.name
    pull = (
        _scatter_store_vjp
        if name is None
        else _scatter_add_vjp
        if name in SUM_NAMES
        else _scatter_prod_vjp
        if name == "prod"
        else _scatter_extremum_vjp
    )
    yield from pull(tape_node, g, wanted, result)


def _scatter_add_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (k, cotangent of source k) for a scatter that adds (`GradRule.vjp`); source 0 is the old content, 1 the values.

    The cotangent of the old content is `g`; the values get `g`, gathered at the indices.
    """
    flat, indices = g.reshape((tape_node.recipe.size,)), _index_views(tape_node, 2)
    for k in wanted:
        yield (
            k,
            g
            if k == 0
            else pull_to_source(tape_node, 1, DeferredTerm.of(_apply_gather(tape_node, flat.view_through(tape_node.target), indices))),
        )


def _scatter_store_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (k, cotangent of source k) for a scatter without reduction (`GradRule.vjp`); source 0 is the old content, 1 the values.

    Of several values for an element the last was kept, so only the last gets the cotangent. Overwritten old elements get 0.
    """
    op: Any = tape_node.recipe.op
    size, target, indices = tape_node.recipe.size, tape_node.target, _index_views(tape_node, 2)
    flat = g.reshape((size,))
    shape = target.shape[: target.ndim - len(indices)]
    scatter_op = intern_scatter(op.name, None, op.axes, True)
    for k in wanted:
        if k == 0:
            yield k, apply_scatter(scatter_op, flat, target, _zeros(shape, g.dtype), indices)
            continue
        numbers = NodeView(Node.of(POSITION, shape, int64))
        last_numbers = apply_scatter(scatter_op, full_view(0, (size,), int64), target, numbers, indices)
        stays = apply_op(_EQUAL, [_apply_gather(tape_node, last_numbers.view_through(target), indices), numbers])
        gathered = _apply_gather(tape_node, flat.view_through(target), indices)
        yield k, pull_to_source(tape_node, 1, DeferredTerm(_WHERE, [stays, gathered, Scalar(0, gathered.dtype)], shape, gathered.dtype))


def _scatter_extremum_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (k, cotangent of source k) for a scatter by `max` or `min` (`GradRule.vjp`); source 0 is the old content, 1 the values.

    Old and written values equal to the result share the cotangent equally. `result` must not be None.
    """
    dtype, target, indices = tape_node.recipe.dtype, tape_node.target, _index_views(tape_node, 2)
    stays, wins, count = _compare_extremum(tape_node, result)
    share = apply_op(OPS["divide"], [g.reshape((tape_node.recipe.size,)), count])
    for k in wanted:
        if k == 0:
            yield k, apply_op(OPS["multiply"], [share, stays])
        else:
            gathered = _apply_gather(tape_node, share.view_through(target), indices)
            yield k, pull_to_source(tape_node, 1, DeferredTerm(OPS["multiply"], [gathered, wins], gathered.shape, dtype))


def _compare_extremum(tape_node: TapeNodeLike, result: Node | None) -> tuple[NodeView, NodeView, NodeView]:
    """Return three views for a scatter by `max` or `min` with tape node `tape_node`: two masks of ones and zeros, and a count.

    The first mask has a 1 where the old element equals the result. The second has a 1 for each written value equal to the result, and the
    shape of the values. The count has the number of ones of both kinds for each element, at least 1. The first mask and the count are 1-d,
    in row-major order. All have the dtype of the result. `result`, the graph node of the result, must not be None.
    """
    op: Any = tape_node.recipe.op
    assert result is not None
    size, dtype, target, indices = tape_node.recipe.size, tape_node.recipe.dtype, tape_node.target, _index_views(tape_node, 2)
    flat_result = NodeView(result).reshape((size,))
    values = view_source(tape_node, 1).cast(dtype)
    wins = apply_op(_EQUAL, [values, _apply_gather(tape_node, flat_result.view_through(target), indices)]).cast(dtype)
    stays = apply_op(_EQUAL, [view_source(tape_node, 0).reshape((size,)), flat_result]).cast(dtype)
    count = apply_scatter(intern_scatter(op.name, _SUM_IN_WIDTH, op.axes, True), stays, target, wins, indices)
    return stays, wins, apply_op(OPS["maximum"], [count, Scalar(1.0, dtype)])


def _scatter_prod_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (k, cotangent of source k) for a scatter by products (`GradRule.vjp`); source 0 is the old content, 1 the values.

    The derivative by each factor is the product of the remaining factors of the element, conjugated if complex. `result` is not read.
    """
    target, indices, flat = tape_node.target, _index_views(tape_node, 2), g.reshape((tape_node.recipe.size,))
    other_factors = [apply_op(OPS["conj"], [x]) if x.dtype.is_complex else x for x in _other_factors(tape_node)]
    for k in wanted:
        if k == 0:
            yield k, apply_op(OPS["multiply"], [flat, other_factors[0]])
        else:
            gathered = _apply_gather(tape_node, flat.view_through(target), indices)
            yield (
                k,
                pull_to_source(tape_node, 1, DeferredTerm(OPS["multiply"], [gathered, other_factors[1]], gathered.shape, gathered.dtype)),
            )


def _other_factors(tape_node: TapeNodeLike) -> tuple[NodeView, NodeView]:
    """Return the products of the remaining factors of the same element: for each old element, and for each written value.

    `tape_node` is the tape node of a scatter by products; the factors are the old element and the values. The first view is 1-d, and the
    second has the shape of the values. The product of the nonzero factors is divided by the factor itself, if nonzero. If a single
    remaining factor is 0, the quotient is multiplied by this zero, and by 0 if several are. A single zero is read, not replaced by a
    constant, to allow a derivative by this factor.
    """
    op: Any = tape_node.recipe.op
    size, dtype, target, indices = tape_node.recipe.size, tape_node.recipe.dtype, tape_node.target, _index_views(tape_node, 2)
    factors = [view_source(tape_node, 0).reshape((size,)).cast(dtype), view_source(tape_node, 1).cast(dtype)]
    zero, one = Scalar(0, dtype), Scalar(1, dtype)
    zero_masks = [apply_op(_EQUAL, [x, zero]) for x in factors]
    nonzero = [apply_op(_WHERE, [zero_mask, one, x]) for zero_mask, x in zip(zero_masks, factors, strict=True)]
    zeros = [apply_op(_WHERE, [zero_mask, x, zero]) for zero_mask, x in zip(zero_masks, factors, strict=True)]
    adding, multiplying = (intern_scatter(op.name, reduction, op.axes, True) for reduction in (_SUM_IN_WIDTH, op.reduction))
    counts = [zero_mask.cast(int64) for zero_mask in zero_masks]
    product = apply_scatter(multiplying, nonzero[0], target, nonzero[1], indices)
    single_zero, count = (apply_scatter(adding, pair[0], target, pair[1], indices) for pair in (zeros, counts))
    results = []
    for k in range(2):
        full_product, read, zero_count = (
            _apply_gather(tape_node, x.view_through(target), indices) if k else x for x in (product, single_zero, count)
        )
        other_zero_count = apply_op(OPS["subtract"], [zero_count, counts[k]])
        other_zero = apply_op(OPS["subtract"], [read, zeros[k]])
        times = apply_op(_WHERE, [apply_op(_EQUAL, [other_zero_count, Scalar(1, int64)]), other_zero, zero])
        times = apply_op(_WHERE, [apply_op(_EQUAL, [other_zero_count, Scalar(0, int64)]), one, times])
        results.append(apply_op(OPS["multiply"], [apply_op(OPS["divide"], [full_product, nonzero[k]]), times]))
    return results[0], results[1]


def _scatter_jvp(tape_node: TapeNodeLike, source_tangents: SourceTangents, result: Node | None) -> NodeView:
    """Return the tangent of the content after a scatter, given tangents of the old content (0) and of the values (1) (`GradRule.jvp`).

    A missing tangent counts as 0. The result is 1-d. For `max` and `min`, `result` must not be None.
    """
    op: Any = tape_node.recipe.op
    size, dtype, target, indices = tape_node.recipe.size, tape_node.recipe.dtype, tape_node.target, _index_views(tape_node, 2)
    shape = target.shape[: target.ndim - len(indices)]
    old = source_tangents[0].reshape((size,)) if 0 in source_tangents else full_view(0, (size,), dtype)
    value = read_tangent(tape_node, 1, source_tangents[1]) if 1 in source_tangents else _zeros(shape, dtype)
    name = None if op.reduction is None else op.reduction.name
    if name == "prod":
        old_factors, value_factors = _other_factors(tape_node)
        value = apply_op(OPS["multiply"], [value.cast(dtype), value_factors])
        adding = intern_scatter(op.name, _SUM_IN_WIDTH, op.axes, True)
        return apply_scatter(adding, apply_op(OPS["multiply"], [old, old_factors]), target, value, indices)
    if name not in (None, *SUM_NAMES):
        stays, wins, count = _compare_extremum(tape_node, result)
        value = apply_op(OPS["multiply"], [value.cast(dtype), wins])
        total = apply_scatter(
            intern_scatter(op.name, _SUM_IN_WIDTH, op.axes, True), apply_op(OPS["multiply"], [old, stays]), target, value, indices
        )
        return apply_op(OPS["divide"], [total, count])
    return apply_scatter(intern_scatter(op.name, op.reduction, op.axes, True), old, target, value, indices)


ELEMENTWISE_RULE = GradRule(_elementwise_residuals, _elementwise_vjp, _elementwise_jvp)
STORE_RULE = GradRule(_no_residuals, _store_vjp, _store_jvp)
REINTERPRET_RULE = GradRule(_no_residuals, _reinterpret_vjp, _reinterpret_jvp)
GATHER_RULE = GradRule(_gather_residuals, _gather_vjp, _gather_jvp)
SCATTER_RULE = GradRule(_scatter_residuals, _scatter_vjp, _scatter_jvp)
