"""Emit symmetric results of a product: those above the diagonal are computed, and copied to their mirror images below.

Only run time tells whether results are symmetric: both sides must have the same memory, and the same scalars.
"""

from __future__ import annotations

from functools import partial

from ...kernel.ir import Load, Product, ScalarParameter, Store
from ...kernel.symmetric import leaves
from .addresses import address_of, pointer_to, scalar_argument, scalar_sum, scaled
from .builder import Value, smaller
from .emitter import Emitter
from .memory import transposed
from .types import I64, vector
from .values import memory_type


def are_same(em: Emitter, s: Product) -> Value | None:
    """Emit whether both sides of a product are the same; return None if they cannot be."""
    if not s.twins:
        return None
    pairs: list[tuple[Value, Value]] = []
    for k, n in s.twins:
        for pair in leaves(s.left.values[k], s.right.values[n]):
            assert pair is not None, "twins are made alike"
            left_leaf, right_leaf = pair
            if isinstance(left_leaf, Load) and isinstance(right_leaf, Load):
                pairs.append((address_of(em, left_leaf.operand), address_of(em, right_leaf.operand)))
            elif isinstance(left_leaf, ScalarParameter) and isinstance(right_leaf, ScalarParameter):
                pairs.append((scalar_argument(em, left_leaf), scalar_argument(em, right_leaf)))
    with em.within(0):
        differing = em.b.constant(I64, 0)
        for a, b in pairs:
            differing = differing | (a ^ b)
        return differing.equals(0)


def copied(em: Emitter, s: Product, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
    """Emit a copy of the results in a block of rows and columns to their mirror images; the diagonal keeps its values.

    `rows` and `columns` are each a begin and an end. The results above the diagonal are read.
    """
    (store,) = s.body
    assert isinstance(store, Store)
    terms = {t.axis: t for t in store.address.terms}
    element = memory_type(em.kernel.operands[store.operand].dtype)
    start = pointer_to(em, store.operand).at(
        scalar_sum(em, store.address, [t for t in terms.values() if t.axis not in (s.left.axis, s.right.axis)]), element
    )
    side = em.target.loops.square
    kind = vector(element, side)
    column = columns[0]

    def row_pointer(i: Value) -> Value:
        return start.at(scaled(em, terms[s.left.axis], i), element)

    def copy_band(width: int, column: Value) -> Value:
        """Emit the copy of so many columns: squares, and then single rows."""
        em.inmost()
        first, end = rows[0], smaller(rows[1], column + width)

        def copy_square(i: Value) -> Value:
            em.inmost()
            vectors = [row_pointer(i + k).at(column, element).load(kind) for k in range(side)]
            for k, x in enumerate(transposed(vectors)):
                row_pointer(column + k).at(i, element).store(x)
            return i + side

        def copy_row(i: Value) -> Value:
            em.inmost()
            source = row_pointer(i).at(column, element)
            for k in range(width):
                row_pointer(column + k).at(i, element).store(source.at(k, element).load(element))
            return i + 1

        if width == side:
            first = em.repeated(s.left.axis, first, end, copy_square, needs=side, inside=False)
        em.repeated(s.left.axis, first, end, copy_row, inside=False)
        em.inmost()
        return column + width

    for width in (side, 1):
        column = em.repeated(s.right.axis, column, columns[1], partial(copy_band, width), needs=width, inside=False)
