"""Emit symmetric results of a contraction, as of `x @ x.T`: those above the diagonal are computed, and copied to their mirror images below.

The functions run while a kernel is compiled: they append LLVM IR to the kernel `em`. Only run time tells whether results are symmetric:
both sides must have the same memory, and the same scalars.
"""

from __future__ import annotations

from functools import partial

from ...lowering.ir import Contraction, Load, ScalarParameter, Store
from ...lowering.symmetric_contraction import walk_leaf_pairs
from .addresses import emit_term_offset, load_operand_address, load_scalar_argument, pointer_to, sum_scalar_terms
from .builder import Value, select_smaller
from .dtype_conversions import memory_type
from .emitter import Emitter
from .types import I64, vector
from .vector_access import transpose


def emit_sides_equal(em: Emitter, s: Contraction) -> Value | None:
    """Emit a test whether both sides of the contraction `s` read the same memory and the same scalars, so that its results are symmetric.

    Return a scalar bool, which the kernel computes at its entry. Return None, and emit nothing, if results of this contraction are never
    symmetric (`s.symmetric_pairs` is empty).
    """
    if not s.symmetric_pairs:
        return None
    pairs: list[tuple[Value, Value]] = []
    for k, n in s.symmetric_pairs:
        for pair in walk_leaf_pairs(s.left.values[k], s.right.values[n]):
            assert pair is not None, "twins are made alike"
            left_leaf, right_leaf = pair
            if isinstance(left_leaf, Load) and isinstance(right_leaf, Load):
                pairs.append((load_operand_address(em, left_leaf.operand), load_operand_address(em, right_leaf.operand)))
            elif isinstance(left_leaf, ScalarParameter) and isinstance(right_leaf, ScalarParameter):
                pairs.append((load_scalar_argument(em, left_leaf), load_scalar_argument(em, right_leaf)))
    with em.in_scope(0):
        differing = em.builder.constant(I64, 0)
        for a, b in pairs:
            differing = differing | (a ^ b)
        return differing.equals(0)


def emit_mirror_copy(em: Emitter, s: Contraction, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
    """Emit a copy of the results in a block of rows and columns to their mirror images on the other side of the diagonal.

    `rows` and `columns` are each a begin and an end. `s` is the contraction, whose body must be a single store, contiguous along the
    columns. The code reads the results above the diagonal from memory, and writes their mirror images below; the diagonal is unchanged.
    """
    (store,) = s.body
    assert isinstance(store, Store)
    terms = {t.axis: t for t in store.address.terms}
    element = memory_type(em.kernel.operands[store.operand].dtype)
    start = pointer_to(em, store.operand).at(
        sum_scalar_terms(em, store.address, [t for t in terms.values() if t.axis not in (s.left.axis, s.right.axis)]), element
    )
    side = em.target.loops.register_transpose_side
    kind = vector(element, side)
    column = columns[0]

    def row_pointer(i: Value) -> Value:
        return start.at(emit_term_offset(em, terms[s.left.axis], i), element)

    def copy_band(width: int, column: Value) -> Value:
        """Emit the copy of `width` columns from `column` on: squares, and then single rows. Return the column behind them."""
        em.continue_innermost()
        next_row, end = rows[0], select_smaller(rows[1], column + width)

        def copy_square(i: Value) -> Value:
            em.continue_innermost()
            vectors = [row_pointer(i + k).at(column, element).load(kind) for k in range(side)]
            for k, x in enumerate(transpose(vectors)):
                row_pointer(column + k).at(i, element).store(x)
            return i + side

        def copy_row(i: Value) -> Value:
            em.continue_innermost()
            source = row_pointer(i).at(column, element)
            for k in range(width):
                row_pointer(column + k).at(i, element).store(source.at(k, element).load(element))
            return i + 1

        if width == side:
            next_row = em.emit_loop(s.left.axis, next_row, end, copy_square, min_remaining=side, binds_axis=False)
        em.emit_loop(s.left.axis, next_row, end, copy_row, binds_axis=False)
        em.continue_innermost()
        return column + width

    for width in (side, 1):
        column = em.emit_loop(s.right.axis, column, columns[1], partial(copy_band, width), min_remaining=width, binds_axis=False)
