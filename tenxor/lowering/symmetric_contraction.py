"""Contractions of an array with itself, such as `x.T @ x`: the results are symmetric, so half of them are computed and then mirrored. A
contraction combines values of the left side, given for each row, with values of the right side, given for each column.

Symmetry must hold to the bit. Value k of the left side for row i must equal the paired value of the right side for column i. A step must
not change if its two values are exchanged. The use of a result must not depend on the row or the column. Every result adds its steps in the
same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ..ops.expr import Call, Const, Expr, replace_subexprs, walk
from .ir import Address, Factor, Result, ScalarParameter, Store, Term, expand_formula
from .kernel_draft import Access
from .loop_nest import LoopNest

EVEN_OPS = ("square", "abs")  # even functions: the sign of a difference does not matter
SymmetricPairs = tuple[tuple[int, int], ...]  # pairs of equal values: index on the left side, index on the right side


def find_symmetric_pairs(
    nest: LoopNest, row: int, column: int, left: Sequence[Expr], right: Sequence[Expr], values: Sequence[Expr]
) -> SymmetricPairs:
    """Return the pairs of equal values of both sides of a contraction, if its results may be symmetric; else an empty tuple.

    `row` and `column` are the axes of the two sides in `nest`. `left` and `right` are the values of the sides, and `values` the next state,
    over `Factor`s. A pair is an index into `left` and an index into `right`. Whether both sides read the same memory and equal scalars is
    not part of a pattern: the back end tests it at each launch.
    """
    if len(values) > 1 or len(left) != len(right):
        return ()
    pairs: list[tuple[int, int]] = []
    for k, e in enumerate(left):
        used = {n for _, n in pairs}
        matches = [n for n, value in enumerate(right) if n not in used and _is_equal_pair(nest, row, column, e, value)]
        if not matches:
            return ()
        pairs.append((k, matches[0]))
    swapped: dict[Expr, Expr] = {}
    for k, n in pairs:
        left_factor, right_factor = Factor(0, k, left[k].dtype), Factor(1, n, right[n].dtype)
        swapped |= {left_factor: right_factor, right_factor: left_factor}
    if not all(_is_symmetric(v, swapped) for v in values) or not _is_uniform_store(nest.result_store, row, column):
        return ()
    return tuple(pairs) if nest.axes[row].extent == nest.axes[column].extent else ()


def walk_leaf_pairs(left: Expr, right: Expr) -> Iterator[tuple[Expr, Expr] | None]:
    """Yield the pairs of leaves at equal positions of the expressions `left` and `right`, each pair once, for a comparison by the caller.

    Where an operation stands opposite to a leaf, this pair is yielded. Where two operations differ, yield None and end.
    """
    stack, visited = [(left, right)], set()
    while stack:
        pair = stack.pop()
        if pair in visited:
            continue
        visited.add(pair)
        left, right = pair
        if isinstance(left, Call) and isinstance(right, Call):
            if left.op is not right.op or left.dtype is not right.dtype or len(left.args) != len(right.args):
                yield None
                return
            stack += zip(left.args, right.args, strict=True)
        else:
            yield pair


def _is_uniform_store(s: Store, row: int, column: int) -> bool:
    """Return whether the store `s` treats every result of a contraction alike: symmetric results are stored as symmetric values.

    The stored value must be a real function of the result, run-time scalars and constants. The rows along axis `column` must be contiguous.
    `row` is the axis of the rows.
    """
    if s.imag is not None or s.address.base is not None:
        return False
    terms = {t.axis: t for t in s.address.terms}
    if row not in terms or terms.get(column) != Term(column, "step", 1):
        return False
    return all(isinstance(e, (Call, Const, ScalarParameter, Result)) for e in walk(s.value))


def _is_equal_pair(nest: LoopNest, row: int, column: int, left: Expr, right: Expr) -> bool:
    """Return whether a value for a row, `left`, equals the value `right` for the column of the same number, given equal memory and scalars.

    Both are expressions of `nest`, and `row` and `column` are the axes of the rows and columns.
    """

    def are_equal(pair: tuple[Expr, Expr] | None) -> bool:
        """Return whether two leaves, in `pair`, are equal; None stands for expressions that differ, and gives False."""
        if pair is None:
            return False
        e, f = pair
        if not isinstance(e, Access) or not isinstance(f, Access):
            return type(e) is type(f) and (e == f or isinstance(e, ScalarParameter)) and e.dtype is f.dtype
        if e.args or f.args or e.component != f.component or e.dtype is not f.dtype:
            return False
        (a, left_address), (b, right_address) = nest.locations[e.index], nest.locations[f.index]
        if (a < 0) != (b < 0) or (a >= 0 and nest.operands[a].node is not nest.operands[b].node):
            return False
        return (
            left_address.base is right_address.base is None
            and left_address.offset == right_address.offset
            and steps_by_axis(left_address, row) == steps_by_axis(right_address, column)
        )

    def steps_by_axis(a: Address, side_axis: int) -> Mapping[int, object]:
        """Return the steps of address `a` by axis, with `side_axis`, the axis of the side itself, as -1."""
        return {-1 if t.axis == side_axis else t.axis: nest.get_step(a, t.axis) for t in a.terms}

    return all(are_equal(pair) for pair in walk_leaf_pairs(left, right))


def _is_symmetric(value: Expr, swapped: Mapping[Expr, Expr]) -> bool:
    """Return whether exchanging both sides leaves the next state `value` unchanged, to the bit.

    `swapped` maps each factor to its pair on the other side.
    """
    cache: dict[tuple[Expr, Expr], bool] = {}

    def are_equal(left: Expr, right: Expr) -> bool:
        is_equal = cache.get((left, right))
        if is_equal is None:
            is_equal = cache[left, right] = left == right or _are_equal(left, right, are_equal)
        return is_equal

    return are_equal(value, replace_subexprs(value, swapped))


def _are_equal(left: Expr, right: Expr, are_equal: Callable[[Expr, Expr], bool]) -> bool:
    """Return whether `left` and `right` are operations with equal results, up to the order of two factors or summands.

    `are_equal` compares their operands. The answer is False for a leaf.
    """
    if not (isinstance(left, Call) and isinstance(right, Call)) or left.op is not right.op or left.dtype is not right.dtype:
        return False
    if all(are_equal(a, b) for a, b in zip(left.args, right.args, strict=True)):
        return True
    name = left.op.name
    if name == "multiply" or (name == "add" and all(isinstance(a, Factor) for a in (*left.args, *right.args))):
        return all(are_equal(a, b) for a, b in zip(left.args, reversed(right.args), strict=True))
    if name in EVEN_OPS:
        (x,), (y,) = left.args, right.args
        exact = name == "square" or x.dtype.kind != "uint"
        if exact and isinstance(x, Call) and isinstance(y, Call) and x.op is y.op and x.op.name == "subtract":
            return all(are_equal(a, b) for a, b in zip(x.args, reversed(y.args), strict=True))
    a, b = expand_formula(left), expand_formula(right)
    return a is not None and b is not None and are_equal(a, b)
