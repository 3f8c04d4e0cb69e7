"""The axes of a single operation, merged where possible, for the choice of a kernel in the package. An elementwise operation, a gather or a
store has axes of results, a scatter has axes of the values to write. A reduction, a sum of products and a running reduction (`Scan`) have
one more axis, along which elements are reduced. Along each axis, the result and each operand have a stride, in elements. A step is the
stride along an axis inside a kernel; a kernel is made for certain kinds of steps, such as 1. A recipe is an operation with shape, dtypes
and layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from .._utils.records import NamedTuple
from ..dtypes import float64
from ..graph.node import POSITION, Gather, Operation, Recipe, Scan, Scatter, is_write
from ..graph.reduction_limits import (
    MAX_FLOAT_ROW_ELEMENTS,
    MAX_SHORT_ITERATIONS,
    MAX_SHORT_STEPS,
    MAX_UNROLLED_TERMS,
    MIN_ARGEXTREMUM_SIZE,
    MIN_CONTRACTION_SIZES,
    MIN_RESULTS,
    MIN_SPLIT_ELEMENTS,
    MIN_TILED_READS,
    MIN_TOTAL_ELEMENTS,
    MIN_UNIT_RESULTS,
    STEPS_PER_CHUNK,
)
from ..layout import Layout
from ..ops import OPS, Op
from ..ops.reductions import REDUCTIONS, Reduction, get_running_reduction

if TYPE_CHECKING:
    from ..lowering.access_strides import ReductionOrder

VECTOR, STRIDED, ELEMENT, NUMBER = "v", "s", "e", "n"  # kinds of operands: steps of 1, of any size, and of 0; and Python numbers
# The kind of the rows of a matrix, and the ends of kinds of operands reduced row by row, and element by element
MATRIX, ROWS, SEQUENCE = "m", "r", "q"
CHUNKS = "c"  # the end of the kind of columns that are packed a chunk of steps at a time
MAX_AXES = 9  # of results, after axes are merged: a row, and `strided_rows.MAX_OUTER_AXES`
MAX_MATRIX_ELEMENTS = 1 << 16  # elements of each matrix: the planner packs larger matrices


class OperandAxes(NamedTuple):
    """The axes of an operation: `extents` of the axes of results, innermost first, and `strides` in elements.

    `strides` has an entry for each axis, with the stride of the result and then of each operand, 0 for a number. There is at least one
    axis. For a reduction, `reduced` has the number of elements that are reduced, and then the strides along them, of the result and of each
    operand. The result's is 0 unless the reduction is a running one. Otherwise `reduced` is empty. Where the elements lie in rows that are
    not joined, `rows` has the number of rows and the strides from row to row. `is_sequential` is that of the order of a reduction
    (`ReductionOrder`). For a gather and a scatter, `indexed` has the extent and the stride of each indexed axis. With `is_swapped`,
    the strides of the second operand of a product come before the strides of the first.
    """

    extents: list[int]
    strides: list[tuple[int, ...]]
    reduced: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    is_sequential: bool = False
    indexed: tuple[tuple[int, int], ...] = ()
    is_swapped: bool = False

    @property
    def reduced_count(self) -> int:
        """The number of elements that are reduced for a result, or 0 if this is no reduction."""
        return (self.rows or (1,))[0] * self.reduced[0] if self.reduced else 0

    @property
    def is_matrix_product(self) -> bool:
        """True for a sum of products of rows of the first operand, and of columns of the second along the innermost axis.

        There may be further axes, of stacks of matrices.
        """
        return (
            len(self.extents) > 1
            and len(self.reduced) == 4
            and self.strides[0][1] == self.strides[1][2] == 0
            and _is_product(self.extents[:2], self.strides[:2], self.reduced)
        )

    @property
    def inner_count(self) -> int:
        """The number of axes of results inside a kernel: 2 for a matrix product, and otherwise 1. The kernel runs on each index of the
        other axes.
        """
        return 2 if self.is_matrix_product else 1

    @property
    def is_scan(self) -> bool:
        """True for a running reduction, with a result for each element."""
        return bool(self.reduced and self.reduced[1])

    def list_kinds(self, recipe: Recipe, product: Recipe | None = None) -> list[tuple[str, ...]]:
        """Return the kinds of operands of kernels that can compute `recipe`, or the sum `recipe` of `product`, fastest first.

        Each item has a text for each operand, for the key of a kernel in the package (`encode_op_key`). The text is `VECTOR`, `STRIDED`,
        `ELEMENT` or `NUMBER`, the kind of steps along the innermost axis. For a reduction, the kind along the axis of results is followed
        by the kind along the reduced axis. The kind of the indices of a gather or a scatter is followed by the kind along the indexed
        axis. The kind of the values of a scatter, or of a store with a step, follows the kind of the target.
        """
        steps = self.strides[0][1:]
        if type(recipe.op) is Scatter:
            target = _describe_step(self.strides[0][0])
            index_kinds = [_describe_step(step) + _describe_step(inner) for step, (_, inner) in zip(steps[1:], self.indexed, strict=True)]
            # whether steps along the target are 0 decides which loops may write the same element
            any_steps = (ELEMENT if target == ELEMENT else STRIDED) + STRIDED, *[STRIDED * 2] * len(index_kinds)
            return list(dict.fromkeys([(target + _describe_step(steps[0]), *index_kinds), any_steps]))
        if self.indexed:
            index_kinds = [_describe_step(step) + _describe_step(inner) for step, (_, inner) in zip(steps[1:], self.indexed, strict=True)]
            return list(dict.fromkeys([(_describe_step(steps[0]), *index_kinds), (STRIDED, *[STRIDED * 2] * len(index_kinds))]))
        if not self.reduced:
            keys = recipe.layout_keys[-len(steps) :]
            kinds = tuple([NUMBER if key is None else _describe_step(step) for key, step in zip(keys, steps, strict=True)])
            any_steps = tuple([kind if kind == NUMBER else STRIDED for kind in kinds])
            if self.strides[0][0] != 1:  # a store with a step
                return [(STRIDED + any_steps[0],)]
            return list(dict.fromkeys((kinds, any_steps)))
        reduction = recipe.op
        if self.is_scan:
            return [(VECTOR + STRIDED,) if self.strides[0] == (1, 1) and self.extents[0] > 1 else (STRIDED + STRIDED,)]
        if self.is_matrix_product:
            if self.strides[0][2] == 1:
                return [(MATRIX + STRIDED, VECTOR + STRIDED)]
            return [(MATRIX + STRIDED, STRIDED + STRIDED + (CHUNKS if self.reduced[0] > STEPS_PER_CHUNK else ""))]
        if self.has_columns:
            if all([step in (0, 1) for step in steps]):
                return [tuple([_describe_step(step) + STRIDED + (ROWS if self.rows else "") for step in steps])]
            if not (isinstance(reduction, Reduction) and reduction.is_order_free((product or recipe).dtype)):
                # kernels for columns with a step are shipped for few elements only
                is_short = self.reduced_count <= MAX_SHORT_ITERATIONS and not self.rows
                return [(STRIDED + STRIDED + SEQUENCE,) * len(steps)] if is_short else []
        inner = [VECTOR if step == 1 else STRIDED for step in self.reduced[2:]]
        if self.rows:
            return [tuple([STRIDED + kind + ROWS for kind in inner])]
        outer = [ELEMENT if step == 0 else STRIDED for step in steps] if product else [STRIDED]
        kinds_by_speed = [(outer, inner), ([STRIDED] * len(steps), inner), ([STRIDED] * len(steps), [STRIDED] * len(steps))]
        return list(dict.fromkeys([tuple([a + b for a, b in zip(*pair, strict=True)]) for pair in kinds_by_speed]))

    @property
    def has_columns(self) -> bool:
        """True if a kernel for these axes reduces neighbouring results side by side, each in the order of its elements.

        False for a reduction means that the lanes run along the reduced elements. It is also False without reduced axes, and has no meaning
        for matrix products. The order decides the bits of a sum of floats (`lowering/reduction_order.py`).
        """
        return self.is_sequential and self.extents[0] != 1


def _describe_step(step: int) -> str:
    """Return the kind of an operand with the step `step`: `VECTOR`, `ELEMENT` or `STRIDED`."""
    return VECTOR if step == 1 else ELEMENT if step == 0 else STRIDED


def merge_axes(recipe: Recipe, product: Recipe | None = None, find_order: Callable[[], ReductionOrder] | None = None) -> OperandAxes | None:
    """Return the axes of an operation from the op table or derived from one there, of positions, of a gather, of a store or scatter of
    values of the same dtype, or of a reduction.

    With `product`, `recipe` is a sum of this product. `find_order` returns the order of a reduction: without, only matrix products and
    running reductions have axes. Return None for other operations. A layout may have neither offset tables nor a chain of views.
    """
    reader, op = product or recipe, recipe.op
    overwrites, is_reduced = is_write(op), _is_table_reduction(op)
    if not (overwrites or is_reduced or type(op) is Gather or op is POSITION or (_is_table_operation(op) and recipe.target is None)):
        return None
    keys = (recipe.target, *recipe.layout_keys[overwrites:], *(product.layout_keys if product else ()))
    if any([key is not None and (key.layout.tables is not None or key.layout.base is not None) for key in keys]):
        return None
    operands = [None if key is None else key.layout for key in reader.layout_keys[overwrites:]]
    if is_reduced:
        return _merge_reduction(recipe, operands, None if product is None else Layout.contiguous(product.shape), find_order)
    result = recipe.target.layout if recipe.target is not None else Layout.contiguous(recipe.shape)
    if overwrites and not (recipe.dtypes[1] is recipe.dtype and _has_distinct_elements(result, may_repeat=type(op) is Scatter)):
        return None
    ndim = result.ndim - (len(operands) - 1 if type(op) is Scatter else 0)
    steps = [(0,) * ndim if layout is None else layout.strides[:ndim] for layout in (result, *operands)]
    indexed_layout = result if type(op) is Scatter else operands[0] if type(op) is Gather else None
    indexed = () if indexed_layout is None else zip(indexed_layout.shape[ndim:], indexed_layout.strides[ndim:], strict=True)
    extents, strides = _merge(result.shape[:ndim], steps)
    if not extents:
        extents, strides = [1], [(1, *[0 if layout is None else 1 for layout in operands])]
    if len(extents) > MAX_AXES or (strides[0][0] != 1 and not overwrites):
        return None
    return OperandAxes(extents, strides, indexed=tuple(indexed))


def _has_distinct_elements(target: Layout, *, may_repeat: bool) -> bool:
    """Return whether a write through `target` writes each element once. With `may_repeat`, axes of stride 0 may repeat elements."""
    distinct = Layout(tuple([n if step else 1 for n, step in zip(target.shape, target.strides, strict=True)]), target.strides)
    return (distinct if may_repeat else target).is_injective()


def _is_table_operation(op: Operation) -> bool:
    """Return whether `op` is an elementwise operation of the op table, or identified by its formula, such as a derivative."""
    return OPS.get(op.name) is op or (type(op) is Op and bool(op.formula_digest))


def _is_table_reduction(op: Operation) -> bool:
    """Return whether `op` is a reduction or a running reduction of the library, and not defined by the user."""
    if type(op) is Scan:
        return op.reduction.name in REDUCTIONS and op.reduction is get_running_reduction(op.reduction.name, float64)
    return REDUCTIONS.get(op.name) is op


def _merge_reduction(
    recipe: Recipe, operands: Sequence[Layout | None], product: Layout | None, find_order: Callable[[], ReductionOrder] | None
) -> OperandAxes | None:
    """Return the axes of the reduction `recipe`, or of a running reduction, or of a sum of products.

    `operands` has the layout of each operand, None for a number. `product` is the layout of the product that the sum reads, or None for a
    single operand. `find_order` returns the order of the reduction. Reduced axes are joined as the order says, if it decides the bits, and
    otherwise wherever the operands allow. Return None if the reduced axes cannot be joined to one or two axes. Also
    return None for a sum of products with a number or of several matrices, and where the order is needed but `find_order` is None.
    """
    (key,), reduction = recipe.layout_keys, recipe.op
    assert key is not None
    shape, steps = key.layout.shape, [key.layout.strides]
    if product is not None:
        factor_axes = _find_axes(key.layout, product)
        if factor_axes is None or None in operands:
            return None
        steps = [[0 if axis < 0 else layout.strides[axis] for axis in factor_axes] for layout in operands if layout is not None]
    result = Layout.contiguous(recipe.shape) if recipe.target is None else recipe.target.layout
    result_ndim = len(shape) - 1 if type(reduction) is Scan else result.ndim
    steps = [(*result.strides, *[0] * (len(shape) - result.ndim)), *steps]
    extents, strides = _merge(shape[:result_ndim], [s[:result_ndim] for s in steps])
    inner = [(n, *[s[axis] for s in steps]) for axis, n in enumerate(shape[result_ndim:], result_ndim)]
    axes = OperandAxes(extents or [1], strides or [(1, *[0] * (len(steps) - 1))])
    if len(extents) > MAX_AXES:
        return None
    joined = _join_any(inner, reduction) or [(1, int(type(reduction) is Scan), *[1] * (len(steps) - 1))]
    if len(joined) == 1:
        axes = axes._replace(reduced=joined[0])
        if type(reduction) is Scan:
            return axes
        if product is not None and strides and strides[0][1] != 0 == strides[0][2]:
            # columns of the first operand: a matrix product has them in the second
            swapped = axes._replace(
                strides=[_swap(s) for s in strides], reduced=(axes.reduced[0], *_swap(axes.reduced[1:])), is_swapped=True
            )
            axes = swapped if swapped.is_matrix_product else axes
        if product is not None and _is_product(*axes[:3]):
            return axes if axes.is_matrix_product and axes.strides[1][0] == extents[0] else None
    if find_order is None:
        return None
    order = find_order()
    assert isinstance(reduction, Reduction)
    if not reduction.is_order_free(recipe.dtypes[0]):
        groups = [_join([inner[k] for k in group]) for group in order.groups if not order.split_extents]
        if order.split_extents or None in groups or len(groups) > 2:
            return None
        joined = [group for group in groups if group is not None] or joined[-1:]
    elif len(joined) > 2:
        return None
    rows = joined[0] if len(joined) > 1 else ()
    axes = axes._replace(reduced=joined[-1], rows=rows, is_sequential=order.is_sequential)
    return None if product is not None and _is_product(*axes[:3]) else axes


def _swap(strides: Sequence[int]) -> tuple[int, int, int]:
    """Return the strides of a result and of two operands along an axis, `strides`, with the operands exchanged."""
    result, first, second = strides
    return result, second, first


def _join_any(inner: Sequence[tuple[int, ...]], reduction: Operation) -> list[tuple[int, ...]]:
    """Return the extents and strides of the reduced axes `inner`, outermost first, joined wherever the operands allow.

    An axis is a tuple: the extent, then the stride of the result and of each operand. Axes are sorted by their strides first, unless
    `reduction` must keep the order of its elements (`Reduction.append`).
    """
    if isinstance(reduction, Reduction) and reduction.append is None:
        inner = sorted(inner, key=_sum_strides, reverse=True)
    counts, strides = _merge([n for n, *_ in inner], [[row[k] for row in inner] for k in range(1, len(inner[0]) if inner else 0)])
    return [(n, *moves) for n, moves in zip(reversed(counts), reversed(strides), strict=True)]


def _join(axes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return reduced axes as a single axis; None if the strides of an operand do not allow it.

    `axes` are the axes, outermost first, each a tuple as in the result: the extent, then the stride of the result and of each operand.
    """
    for (_, *moves), (extent, *inner_moves) in pairwise(axes):
        if moves != [extent * move for move in inner_moves]:
            return None
    return (prod([extent for extent, *_ in axes]), *axes[-1][1:])


def _sum_strides(axis: Sequence[int]) -> int:
    """Return the sum of the absolute strides of a reduced axis, but 0 for an axis of extent 1.

    `axis` has the extent first, then the stride of the result and the stride of each operand.
    """
    return sum(map(abs, axis[1:])) if axis[0] != 1 else 0


def is_matrix_product_in_every_kernel(recipe: Recipe, product: Recipe, in_memory: Sequence[bool], has_unit_rows: Sequence[bool]) -> bool:
    """Return whether a sum of products adds in the same order with fused factors as with stored factors.

    `recipe` is the sum of `product`, a product of two matrices or of stacks of matrices. `in_memory` says which factors are in memory, and
    `has_unit_rows` which factors are computed from operands with steps of 1 along their last axis. Kernels of matrix products add step
    after step. With few results, the order also depends on the strides of the operands along the steps.
    """
    (key,), factor_layouts = recipe.layout_keys, [None if key is None else key.layout for key in product.layout_keys]
    assert key is not None
    axes = _find_axes(key.layout, Layout.contiguous(product.shape))
    if axes is None or any([layout is None or layout.base is not None or layout.tables is not None for layout in factor_layouts]):
        return False
    ndim = len(recipe.shape)
    moves = [[layout.strides[axis] if axis >= 0 else 0 for axis in axes] for layout in factor_layouts if layout is not None]
    extents = [product.shape[axis] if axis >= 0 else 1 for axis in axes]
    steps = [axis for axis in range(ndim, len(axes)) if extents[axis] != 1]
    results = [axis for axis in range(ndim) if extents[axis] != 1]
    if len(steps) != 1 or not results:
        return False
    (step,) = steps
    by_side = [[extents[a] for a in results if moves[side][a] and not moves[1 - side][a]] for side in (0, 1)]
    last_side = next((side for side in (0, 1) if moves[side][results[-1]] and not moves[1 - side][results[-1]]), None)
    rows, columns = max(by_side[1 - last_side], default=1) if last_side is not None else 1, extents[results[-1]]
    if not (by_side[0] and by_side[1]):
        return True  # no product
    if last_side is None or not _has_product_sizes(rows * columns, extents[step]) or 0 in (moves[0][step], moves[1][step]):
        return not _has_product_sizes(prod(extents[:ndim]), extents[step])
    has_stride = any([is_stored and move[step] != 1 for is_stored, move in zip(in_memory, moves, strict=True)])
    is_unit = moves[last_side][results[-2]] == 0 and all(
        [has_unit and move[step] == 1 for has_unit, move in zip(has_unit_rows, moves, strict=True)]
    )
    return has_stride or is_unit or rows * columns >= MIN_UNIT_RESULTS


def is_product_of_copies(recipe: Recipe, product: Recipe, side: int) -> bool:
    """Return whether the sum `recipe` of `product` is a matrix product that adds its steps in order, with or without a copy of a factor.

    The copy is of the view inside the chain of views by which factor number `side`, 0 or 1, is read. The chain must split the factor into
    axes of rows and of steps. Then the longest axis of rows must suffice for a matrix product.
    """
    axes = _find_axes(recipe.layout_keys[0].layout, Layout.contiguous(product.shape)) if recipe.layout_keys[0] else None
    ndim, (chain, second_key) = len(recipe.shape), [product.layout_keys[k] for k in (side, 1 - side)]
    if axes is None or chain is None or second_key is None or len(axes) != ndim + 1 or chain.layout.base is None:
        return False
    layout, second_layout = chain.layout, second_key.layout
    if layout.offset or layout.tables or second_layout.base is not None or second_layout.tables is not None or axes[-1] < 0:
        return False
    steps, columns = product.shape[axes[-1]], product.shape[axes[ndim - 1]] if axes[ndim - 1] >= 0 else 1
    distinct = Layout(tuple([n if step else 1 for n, step in zip(layout.shape, layout.strides, strict=True)]), tuple(layout.strides))
    view = layout.base
    split = next((k for k in range(len(view.shape)) if prod(view.shape[k:]) == steps), 0)
    is_in_order = layout.strides[axes[-1]] == 1 and prod(distinct.shape) == prod(view.shape) and distinct.is_contiguous()
    is_in_order = is_in_order and sorted(view.strides[split:], reverse=True) == list(view.strides[split:])
    rows = max(view.shape[:split], default=1)
    is_column = not layout.strides[axes[ndim - 1]] and second_layout.strides[axes[ndim - 1]] and second_layout.strides[axes[-1]]
    are_shared = not any([second_layout.strides[axis] for axis in axes[: ndim - 1] if axis >= 0 and product.shape[axis] != 1])
    is_large = min(rows, columns) > 1 and rows * columns >= MIN_UNIT_RESULTS and _has_product_sizes(rows * columns, steps)
    return bool(is_in_order and is_column and are_shared and is_large)


def _find_axes(layout: Layout, product: Layout) -> list[int] | None:
    """Return the axis of the contiguous layout `product` for each axis of `layout`, or -1 for an axis of extent 1.

    Return None unless the other axes of `layout` are those of `product`, each once, in any order, from offset 0. A view chain or a layout
    with tables gives None.
    """
    if layout.base is not None or layout.tables is not None:
        return None
    axis_of = {(n, stride): axis for axis, (n, stride) in enumerate(zip(product.shape, product.strides, strict=True)) if n != 1}
    axes = [-1 if n == 1 else axis_of.pop((n, stride), None) for n, stride in zip(layout.shape, layout.strides, strict=True)]
    return None if layout.offset or axis_of or None in axes else [axis for axis in axes if axis is not None]


def _is_product(extents: Sequence[int], strides: Sequence[tuple[int, ...]], reduced: Sequence[int]) -> bool:
    """Return whether a sum of products may be a matrix product: along two axes, only the first or only the second operand moves.

    The arguments are the fields of `OperandAxes`: `extents` and `strides` of the axes of results, and `reduced`. A product with few results
    or steps is none: its lanes run along the steps or along the results (`lowering/match_contraction.py`). The answer is exact if the two
    axes are the innermost, and both operands move along all others.
    """
    moves = [(left != 0, right != 0) for _, left, right in strides]
    if not ((True, False) in moves and (False, True) in moves) or 0 in reduced[2:]:
        return False
    is_exact = {*moves[:2]} == {(True, False), (False, True)} and {*moves[2:]} <= {(True, True)}
    results, has_unit_steps = prod(extents[:2] if is_exact else extents), all([step == 1 for step in reduced[2:]])
    return _has_product_sizes(results, reduced[0]) and not (results < MIN_UNIT_RESULTS and has_unit_steps)


def _has_product_sizes(results: int, steps: int) -> bool:
    """Return whether a matrix product has enough results and steps, unless every operand has unit steps.

    `results` is the number of results along two axes, and `steps` the number of products added for each.
    """
    rows, columns, min_steps = MIN_CONTRACTION_SIZES
    return results >= rows * columns and steps >= min_steps and not (steps > MAX_SHORT_STEPS and results < MIN_RESULTS)


def _merge(shape: Sequence[int], steps: Sequence[Sequence[int]]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return the extents of merged axes, and the strides of each merged axis as a tuple by operand; both innermost first.

    `steps` has the strides of each operand along the axes of `shape`. Axes of extent 1 are left out. Neighbouring axes are merged if the
    strides of every operand fit together.
    """
    extents, strides = list[int](), list[tuple[int, ...]]()
    for axis, extent in reversed(list(enumerate(shape))):
        if extent == 1:
            continue
        moves = tuple([s[axis] for s in steps])
        if extents and moves == tuple([inner * extents[-1] for inner in strides[-1]]):
            extents[-1] *= extent
        else:
            extents.append(extent)
            strides.append(moves)
    return extents, strides


def is_served(recipe: Recipe, axes: OperandAxes) -> bool:
    """Return whether a kernel in the package for `axes` gives the bits of the planner's kernels for the reduction `recipe`, and is about as
    fast.

    The planner rewrites large reductions, and short ones over many rows or over windows. The order of the elements does not matter for some
    reductions (`Reduction.is_order_free`).
    """
    count, size = axes.reduced_count, prod(axes.extents) * axes.reduced_count
    reduction = recipe.op
    if axes.is_matrix_product:
        sizes = *axes.extents[:2], count
        if max([prod(sizes) // n for n in sizes]) > MAX_MATRIX_ELEMENTS:
            return False
        if min(axes.extents[:2]) >= MIN_TILED_READS:
            return True
    if size >= MIN_SPLIT_ELEMENTS:
        return False
    if axes.is_scan:
        return True
    if isinstance(reduction, Reduction) and reduction.is_order_free(recipe.dtypes[0]):
        has_short_rows = count <= MAX_FLOAT_ROW_ELEMENTS and axes.reduced[2] == 1
        return not (reduction.uses_position and has_short_rows and size >= MIN_ARGEXTREMUM_SIZE)
    return count > MAX_UNROLLED_TERMS or not (size >= MIN_TOTAL_ELEMENTS or _has_windows(axes))


def _has_windows(axes: OperandAxes) -> bool:
    """Return whether, for some operand of a reduction with `axes`, the elements of different results overlap or interleave in memory.

    The windows of a tensor do so, for example.
    """
    count = axes.reduced[0]
    return any(
        [
            0 < abs(step) <= abs(inner) * (count - 1) and abs(inner) < abs(step) * extent
            for extent, steps in zip(axes.extents, axes.strides, strict=True)
            for step, inner in zip(steps[1:], axes.reduced[2:], strict=True)
        ]
    )
