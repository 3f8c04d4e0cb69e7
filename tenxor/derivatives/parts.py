"""Derivatives of elementwise operations, partial writes, reinterpreted bytes, gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import DType, int64
from ..errors import DerivativeError
from ..layout import Layout
from ..node import POSITION, Node, Recipe, Scalar, gather, reinterpreted, scatter
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from ..past import Needs
from .adjoint import adjoint
from .partials import Partial, partials, tangents
from .rule import SUMS, Making, Pulled, Rule, Tangents, back, converted, dtype_of, read, size_of, value_of
from .seen import Operand, Seen, Shape, Term, added, computed, of_number, scattered, stored

_EQUAL, _POSITIVE, _WHERE = (OPS[name] for name in ("equal", "positive", "where"))
_ADDING = REDUCTIONS["sum_in_width"]


# --- elementwise ------------------------------------------------------------------------------------------------------


def _elementwise_needs(recipe: Recipe, tracked: tuple[bool, ...]) -> Needs:
    """Return the residuals of an elementwise operation: the values that the cotangents of the `tracked` sources read."""
    op: Any = recipe.op
    count = len(tracked)
    operand_partials = partials(op, recipe.dtypes, recipe.dtype)
    reads = {k for partial, yes in zip(operand_partials, tracked, strict=True) if yes and partial is not None for k in partial.reads}
    return Needs(tuple([k in reads for k in range(count)]), count in reads)


def _partial_term(past: Making, partial: Partial, factor: Seen, result: Node | None, dtype: DType) -> Term:
    """Return the operation `partial` on the residuals of the tape node `past` and on `factor`, a cotangent or a tangent, as a term.

    `result` is the graph node of `past`, needed if the operation reads the result. `dtype` is the dtype of the term.
    """
    count = len(past.sources)

    def operand(number: int) -> Operand:
        if number > count:
            return factor
        if number == count:
            assert result is not None
            return Seen(result)
        source = past.sources[number]
        return source if type(source) is Scalar else value_of(past, number)

    operands = [operand(number) for number in partial.reads]
    return Term.of(factor) if partial.op is _POSITIVE and operands == [factor] else Term(partial.op, operands, past.recipe.shape, dtype)


def _pull_elementwise(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (k, cotangent of source k) for the sources `wanted` of an elementwise operation, given the cotangent `g` of the result (VJP).
    """
    op: Any = past.recipe.op
    operand_partials = partials(op, past.recipe.dtypes, past.recipe.dtype)
    for k in wanted:
        partial = operand_partials[k]
        if partial is not None:
            yield k, back(past, k, _partial_term(past, partial, g, result, dtype_of(past, k)))


def _push_elementwise(past: Making, source_tangents: Tangents, result: Node | None) -> Seen | None:
    """Return the tangent of an elementwise operation's result, given tangents of sources by index (JVP); None stands for 0."""
    op: Any = past.recipe.op
    operand_partials = tangents(op, past.recipe.dtypes, past.recipe.dtype)
    total: Seen | None = None
    for k, tangent in source_tangents.items():
        partial = operand_partials[k]
        if partial is not None:
            summand = _partial_term(past, partial, read(past, k, tangent), result, past.recipe.dtype).seen()
            total = summand if total is None else added(total, summand)
    return total


# --- partial writes ---------------------------------------------------------------------------------------------------


def _nothing_needed(recipe: Recipe, tracked: tuple[bool, ...]) -> Needs:
    """Return the residuals of an operation whose derivative reads no values: none."""
    return Needs((False,) * len(tracked), False)


def _zeros(shape: Shape, dtype: DType) -> Seen:
    """Return a view of the given shape with every element 0."""
    return of_number(0, (), dtype).moved(lambda x: x.expand(shape))


def _pull_store(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (k, cotangent of source k) for a write, given the cotangent `g` of the result (VJP); source 0 is the old content, 1 the value.
    """
    target, flat = past.target, g.reshaped((past.recipe.size,))
    for k in wanted:
        if k == 0:
            yield k, stored(flat, target, _zeros(target.shape, g.dtype))
        elif target.is_injective():
            yield k, back(past, k, Term.of(flat.through(target)))
        else:  # a value was written several times to the same element
            unwritten = stored(flat, target, _zeros(target.shape, g.dtype))
            layout, value_sums = _sum_by_value(computed(OPS["subtract"], [flat, unwritten]), target, past.layouts[k])
            yield k, adjoint(layout, Term.of(converted(value_sums, dtype_of(past, k))), size_of(past, k))


def _sum_by_value(cotangents: Seen, target: Layout, value: Layout | None) -> tuple[Layout, Seen]:
    """Return the layout of the distinct written values, and for each value the sum of the cotangents of the elements with this value.

    `target` is the layout of the written elements, and `value` the layout through which the value was read. `cotangents` has the cotangent
    of each written element, and 0 elsewhere. Either a single value was written everywhere, or a batch has a value for each batch element,
    with contiguous elements.
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
    grouped = cotangents.reshaped((*sizes, inner_size)).moved(
        lambda layout: layout.permute([*range(1, len(sizes), 2), *range(0, len(sizes) + 1, 2)])
    )
    axes = [axis for _, axis in batch_axes]
    return value.arranged(axes, tuple([value.shape[axis] for axis in axes])), Term.of(grouped).summed(len(axes))


def _push_store(past: Making, source_tangents: Tangents, result: Node | None) -> Seen:
    """Return the tangent of the content after a write, given tangents of the old content (0) and of the value (1) (JVP)."""
    size, dtype, target = past.recipe.size, past.recipe.dtype, past.target
    old = source_tangents[0].reshaped((size,)) if 0 in source_tangents else of_number(0, (size,), dtype)
    value = read(past, 1, source_tangents[1]) if 1 in source_tangents else _zeros(target.shape, dtype)
    return stored(old, target, value)


def _pull_reinterpreted(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (0, cotangent of the source) for reinterpreted bytes, given the cotangent `g` of the result (VJP)."""
    dtype = dtype_of(past, 0)
    _check_parts(dtype, past.recipe.dtype)
    yield 0, Seen(reinterpreted(g.flat(), dtype))


def _push_reinterpreted(past: Making, source_tangents: Tangents, result: Node | None) -> Seen:
    """Return the tangent of reinterpreted bytes, given the tangent of the source under index 0 (JVP)."""
    _check_parts(dtype_of(past, 0), past.recipe.dtype)
    return Seen(reinterpreted(source_tangents[0].flat(), past.recipe.dtype))


def _check_parts(source_dtype: DType, target_dtype: DType) -> None:
    """Raise DerivativeError unless the dtypes are equal, or one is complex and the other is the dtype of its real and imaginary parts."""
    if source_dtype.part is not target_dtype.part:
        raise DerivativeError(
            f"view: the bytes of {source_dtype} as {target_dtype} have no derivative; only complex numbers and their own parts have; use"
            f" x.astype({target_dtype})"
        )


# --- indices ----------------------------------------------------------------------------------------------------------


def _gather_needs(recipe: Recipe, tracked: tuple[bool, ...]) -> Needs:
    """Return the residuals of a gather: the indices, which are the sources from number 1 on."""
    return Needs((False, *[True] * (len(tracked) - 1)), False)


def _index_views(past: Making, first: int) -> list[Seen]:
    """Return views of the indices of the gather or scatter with tape node `past`: its sources from number `first` on."""
    return [value_of(past, k) for k in range(first, len(past.sources))]


def _pull_gather(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (0, cotangent of the indexed source) for a gather, given the cotangent `g` of the result (VJP)."""
    op: Any = past.recipe.op
    size, dtype = size_of(past, 0), dtype_of(past, 0)
    # an index out of range raises an error in the forward gather, so there is no gradient then
    scatter_op = scatter(op.name, _ADDING, op.axes, True)
    layout = past.layouts[0]
    assert layout is not None
    yield 0, scattered(scatter_op, of_number(0, (size,), dtype), layout, g, _index_views(past, 1))


def _push_gather(past: Making, source_tangents: Tangents, result: Node | None) -> Seen:
    """Return the tangent of a gather's result, given the tangent of the indexed source under index 0 (JVP)."""
    return _gather(past, read(past, 0, source_tangents[0]), _index_views(past, 1))


def _gather(past: Making, x: Seen, indices: Sequence[Seen]) -> Seen:
    """Return the elements of `x` at `indices` along its last axes, one for each of `indices`; `past` is the gather's or scatter's tape
    node.
    """
    op: Any = past.recipe.op
    shape = x.shape[: len(x.shape) - len(indices)]
    nodes, layouts = (x.node, *[i.node for i in indices]), (x.layout, *[i.layout for i in indices])
    return Seen(Node.of(gather(op.name, op.axes), shape, x.dtype, nodes, layouts))


def _scatter_needs(recipe: Recipe, tracked: tuple[bool, ...]) -> Needs:
    """Return the residuals of a scatter: the indices, and the values, old content and result where the rule reads them."""
    op: Any = recipe.op
    name = None if op.reduction is None else op.reduction.name
    by_value = name not in (None, *SUMS)
    return Needs((by_value, by_value, *[True] * (len(tracked) - 2)), by_value and name != "prod")


def _pull_scatter(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (k, cotangent of source k) for a scatter, given the cotangent `g` of the result (VJP); source 0 is the old content, 1 the
    values.
    """
    op: Any = past.recipe.op
    name = None if op.reduction is None else op.reduction.name
    pull = _pull_written if name is None else _pull_added if name in SUMS else _pull_multiplied if name == "prod" else _pull_extremum
    yield from pull(past, g, wanted, result)


def _pull_added(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (k, cotangent of source k) for a scatter that adds; source 0 is the old content, 1 the values."""
    flat, indices = g.reshaped((past.recipe.size,)), _index_views(past, 2)
    for k in wanted:
        yield k, g if k == 0 else back(past, 1, Term.of(_gather(past, flat.through(past.target), indices)))


def _pull_written(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (k, cotangent of source k) for a scatter without reduction; source 0 is the old content, 1 the values.

    Of several values for an element the last was kept, so only the last gets the cotangent.
    """
    op: Any = past.recipe.op
    size, target, indices = past.recipe.size, past.target, _index_views(past, 2)
    flat = g.reshaped((size,))
    shape = target.shape[: target.ndim - len(indices)]
    scatter_op = scatter(op.name, None, op.axes, True)
    for k in wanted:
        if k == 0:
            yield k, scattered(scatter_op, flat, target, _zeros(shape, g.dtype), indices)
            continue
        numbers = Seen(Node.of(POSITION, shape, int64))
        last_numbers = scattered(scatter_op, of_number(0, (size,), int64), target, numbers, indices)
        stays = computed(_EQUAL, [_gather(past, last_numbers.through(target), indices), numbers])
        gathered = _gather(past, flat.through(target), indices)
        yield k, back(past, 1, Term(_WHERE, [stays, gathered, Scalar(0, gathered.dtype)], shape, gathered.dtype))


def _pull_extremum(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (k, cotangent of source k) for a scatter by `max` or `min`; source 0 is the old content, 1 the values.

    Values equal to the result share the cotangent.
    """
    dtype, target, indices = past.recipe.dtype, past.target, _index_views(past, 2)
    stays, wins, count = _compare_extremum(past, result)
    share = computed(OPS["divide"], [g.reshaped((past.recipe.size,)), count])
    for k in wanted:
        if k == 0:
            yield k, computed(OPS["multiply"], [share, stays])
        else:
            gathered = _gather(past, share.through(target), indices)
            yield k, back(past, 1, Term(OPS["multiply"], [gathered, wins], gathered.shape, dtype))


def _compare_extremum(past: Making, result: Node | None) -> tuple[Seen, Seen, Seen]:
    """Return three views for a scatter by `max` or `min` with tape node `past` and graph node `result`.

    They are: 1 where the old element equals the result, else 0; 1 for each written value equal to the result, else 0; and for each element
    the number of ones of both kinds, at least 1.
    """
    op: Any = past.recipe.op
    assert result is not None
    size, dtype, target, indices = past.recipe.size, past.recipe.dtype, past.target, _index_views(past, 2)
    flat_result = Seen(result).reshaped((size,))
    values = value_of(past, 1).cast(dtype)
    wins = computed(_EQUAL, [values, _gather(past, flat_result.through(target), indices)]).cast(dtype)
    stays = computed(_EQUAL, [value_of(past, 0).reshaped((size,)), flat_result]).cast(dtype)
    count = scattered(scatter(op.name, _ADDING, op.axes, True), stays, target, wins, indices)
    return stays, wins, computed(OPS["maximum"], [count, Scalar(1.0, dtype)])


def _pull_multiplied(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (k, cotangent of source k) for a scatter by products; source 0 is the old content, 1 the values.

    The derivative by each factor is the product of the remaining factors of the element.
    """
    target, indices, flat = past.target, _index_views(past, 2), g.reshaped((past.recipe.size,))
    other_factors = [computed(OPS["conj"], [x]) if x.dtype.is_complex else x for x in _other_factors(past)]
    for k in wanted:
        if k == 0:
            yield k, computed(OPS["multiply"], [flat, other_factors[0]])
        else:
            gathered = _gather(past, flat.through(target), indices)
            yield k, back(past, 1, Term(OPS["multiply"], [gathered, other_factors[1]], gathered.shape, gathered.dtype))


def _other_factors(past: Making) -> tuple[Seen, Seen]:
    """Return the products of the remaining factors of the same element: one for each old element, and one for each written value.

    The tape node `past` is that of a scatter by products, whose factors are the old element and the values. The product of the nonzero
    factors is divided by the factor itself, if nonzero. The quotient is multiplied by 1 if the remaining factors are nonzero, by the zero
    if exactly one of them is 0, and by 0 if several are. A single zero is read, not replaced by a constant, so that the product can be
    differentiated by it.
    """
    op: Any = past.recipe.op
    size, dtype, target, indices = past.recipe.size, past.recipe.dtype, past.target, _index_views(past, 2)
    factors = [value_of(past, 0).reshaped((size,)).cast(dtype), value_of(past, 1).cast(dtype)]
    zero, one = Scalar(0, dtype), Scalar(1, dtype)
    zero_masks = [computed(_EQUAL, [x, zero]) for x in factors]
    nonzero = [computed(_WHERE, [zero_mask, one, x]) for zero_mask, x in zip(zero_masks, factors, strict=True)]
    zeros = [computed(_WHERE, [zero_mask, x, zero]) for zero_mask, x in zip(zero_masks, factors, strict=True)]
    adding, multiplying = (scatter(op.name, reduction, op.axes, True) for reduction in (_ADDING, op.reduction))
    counts = [zero_mask.cast(int64) for zero_mask in zero_masks]
    product = scattered(multiplying, nonzero[0], target, nonzero[1], indices)
    single_zero, count = (scattered(adding, pair[0], target, pair[1], indices) for pair in (zeros, counts))
    results = []
    for k in range(2):
        full_product, read, zero_count = (_gather(past, x.through(target), indices) if k else x for x in (product, single_zero, count))
        other_zero_count = computed(OPS["subtract"], [zero_count, counts[k]])
        other_zero = computed(OPS["subtract"], [read, zeros[k]])
        times = computed(_WHERE, [computed(_EQUAL, [other_zero_count, Scalar(1, int64)]), other_zero, zero])
        times = computed(_WHERE, [computed(_EQUAL, [other_zero_count, Scalar(0, int64)]), one, times])
        results.append(computed(OPS["multiply"], [computed(OPS["divide"], [full_product, nonzero[k]]), times]))
    return results[0], results[1]


def _push_scatter(past: Making, source_tangents: Tangents, result: Node | None) -> Seen:
    """Return the tangent of the content after a scatter, given tangents of the old content (0) and of the values (1) (JVP)."""
    op: Any = past.recipe.op
    size, dtype, target, indices = past.recipe.size, past.recipe.dtype, past.target, _index_views(past, 2)
    shape = target.shape[: target.ndim - len(indices)]
    old = source_tangents[0].reshaped((size,)) if 0 in source_tangents else of_number(0, (size,), dtype)
    value = read(past, 1, source_tangents[1]) if 1 in source_tangents else _zeros(shape, dtype)
    name = None if op.reduction is None else op.reduction.name
    if name == "prod":
        old_factors, value_factors = _other_factors(past)
        value = computed(OPS["multiply"], [value.cast(dtype), value_factors])
        adding = scatter(op.name, _ADDING, op.axes, True)
        return scattered(adding, computed(OPS["multiply"], [old, old_factors]), target, value, indices)
    if name not in (None, *SUMS):
        stays, wins, count = _compare_extremum(past, result)
        value = computed(OPS["multiply"], [value.cast(dtype), wins])
        total = scattered(scatter(op.name, _ADDING, op.axes, True), computed(OPS["multiply"], [old, stays]), target, value, indices)
        return computed(OPS["divide"], [total, count])
    return scattered(scatter(op.name, op.reduction, op.axes, True), old, target, value, indices)


ELEMENTWISE = Rule(_elementwise_needs, _pull_elementwise, _push_elementwise)
WRITTEN = Rule(_nothing_needed, _pull_store, _push_store)
SEEN_OTHERWISE = Rule(_nothing_needed, _pull_reinterpreted, _push_reinterpreted)
AT_INDICES = Rule(_gather_needs, _pull_gather, _push_gather)
WRITTEN_AT_INDICES = Rule(_scatter_needs, _pull_scatter, _push_scatter)
