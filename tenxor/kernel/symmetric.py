"""Contractions of an array with itself, such as `x.T @ x`: the results are symmetric, so half of them are computed and then mirrored.

Symmetry must hold to the bit. Value k of the left side for row i must equal the paired value of the right side for column i. A step must
not change if its two values are exchanged. The use of a result must not depend on the row or the column. Every result adds its steps in the
same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ..ops.expr import Call, Const, Expr, replaced, walk
from .drafted import Access
from .ir import Address, Factor, Result, ScalarParameter, Store, Term, expand
from .nest import Nest

EVEN = ("square", "abs")  # even functions: the sign of a difference does not matter
Twins = tuple[tuple[int, int], ...]  # pairs of equal values: index on the left side, index on the right side


def twins(nest: Nest, row: int, column: int, left: Sequence[Expr], right: Sequence[Expr], values: Sequence[Expr]) -> Twins:
    """Return the pairs of equal values of both sides of a contraction, if its results may be symmetric; else an empty tuple.

    `left` and `right` are the values of the sides, and `values` the next state. Whether both sides read the same memory and equal scalars
    is not part of a pattern: the back end tests it at each launch.
    """
    if len(values) > 1 or len(left) != len(right):
        return ()
    found: list[tuple[int, int]] = []
    for k, e in enumerate(left):
        taken = {other for _, other in found}
        its = [n for n, other in enumerate(right) if n not in taken and _is_twin(nest, row, column, e, other)]
        if not its:
            return ()
        found.append((k, its[0]))
    swapped: dict[Expr, Expr] = {}
    for k, n in found:
        one, other = Factor(0, k, left[k].dtype), Factor(1, n, right[n].dtype)
        swapped |= {one: other, other: one}
    if not all(_commutes(v, swapped) for v in values) or not _is_alike_everywhere(nest.store, row, column):
        return ()
    return tuple(found) if nest.axes[row].extent == nest.axes[column].extent else ()


def leaves(one: Expr, other: Expr) -> Iterator[tuple[Expr, Expr] | None]:
    """Yield the pairs of leaves at equal positions of two expressions, each pair once. Where the operations differ, yield None and end."""
    stack, seen = [(one, other)], set()
    while stack:
        pair = stack.pop()
        if pair in seen:
            continue
        seen.add(pair)
        one, other = pair
        if isinstance(one, Call) and isinstance(other, Call):
            if one.op is not other.op or one.dtype is not other.dtype or len(one.args) != len(other.args):
                yield None
                return
            stack += zip(one.args, other.args, strict=True)
        else:
            yield pair


def _is_alike_everywhere(s: Store, row: int, column: int) -> bool:
    """Return whether a store depends on the result alone, and writes rows of contiguous elements."""
    if s.imag is not None or s.address.then is not None:
        return False
    steps = {t.axis: t for t in s.address.terms}
    if row not in steps or steps.get(column) != Term(column, "step", 1):
        return False
    return all(isinstance(e, (Call, Const, ScalarParameter, Result)) for e in walk(s.value))


def _is_twin(nest: Nest, row: int, column: int, one: Expr, other: Expr) -> bool:
    """Return whether a value for a row, `one`, equals the value `other` for the column of the same number, given equal memory."""

    def same(pair: tuple[Expr, Expr] | None) -> bool:
        """Return whether two leaves are equal; None stands for expressions that differ."""
        if pair is None:
            return False
        e, f = pair
        if not isinstance(e, Access) or not isinstance(f, Access):
            return type(e) is type(f) and (e == f or isinstance(e, ScalarParameter)) and e.dtype is f.dtype
        if e.args or f.args or e.part != f.part or e.dtype is not f.dtype:
            return False
        (a, its), (b, others) = nest.reads[e.index], nest.reads[f.index]
        if (a < 0) != (b < 0) or (a >= 0 and nest.operands[a].node is not nest.operands[b].node):
            return False
        return its.then is others.then is None and its.offset == others.offset and moves(its, row) == moves(others, column)

    def moves(a: Address, own: int) -> Mapping[int, object]:
        """Return the steps of an address by axis, with the axis of the side itself as -1."""
        return {-1 if t.axis == own else t.axis: nest.step(a, t.axis) for t in a.terms}

    return all(same(pair) for pair in leaves(one, other))


def _commutes(value: Expr, swapped: Mapping[Expr, Expr]) -> bool:
    """Return whether exchanging both sides leaves a next state unchanged, to the bit."""
    known: dict[tuple[Expr, Expr], bool] = {}

    def equal(one: Expr, other: Expr) -> bool:
        found = known.get((one, other))
        if found is None:
            found = known[one, other] = one == other or _equal(one, other, equal)
        return found

    return equal(value, replaced(value, swapped))


def _equal(one: Expr, other: Expr, equal: Callable[[Expr, Expr], bool]) -> bool:
    """Return whether two operations give equal results, up to the order of two factors or summands. `equal` compares their operands."""
    if not (isinstance(one, Call) and isinstance(other, Call)) or one.op is not other.op or one.dtype is not other.dtype:
        return False
    if all(equal(a, b) for a, b in zip(one.args, other.args, strict=True)):
        return True
    name = one.op.name
    if name == "multiply" or (name == "add" and all(isinstance(a, Factor) for a in (*one.args, *other.args))):
        return all(equal(a, b) for a, b in zip(one.args, reversed(other.args), strict=True))
    if name in EVEN:
        (x,), (y,) = one.args, other.args
        exact = name == "square" or x.dtype.kind != "uint"
        if exact and isinstance(x, Call) and isinstance(y, Call) and x.op is y.op and x.op.name == "subtract":
            return all(equal(a, b) for a, b in zip(x.args, reversed(y.args), strict=True))
    a, b = expand(one), expand(other)
    return a is not None and b is not None and equal(a, b)
