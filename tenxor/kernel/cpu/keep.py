"""Row buffers for costly values that a reduction computes and a later loop over the same row needs again.

In softmax, for example, the exponentials are first summed and then divided by the sum. The row is still in a cache.
"""

from __future__ import annotations

from ...ops.expr import Call, Expr, replaced, walk
from ...target import Target
from ..drafted import Access, Chosen
from ..ir import Address, For, Keep, Kept, Statement, Store, Update, work
from ..nest import Body, Nest

_HERE = -(1 << 10)  # a placeholder for the axis of a row, by which addresses along different axes compare equal


def keeping(nest: Nest, target: Target) -> Nest:
    """Return the nest with row buffers for costly values that both a reduction and the result compute along a row.

    The loop of the reduction fills the buffers, and the store of the result reads them.
    """
    *outer, last = nest.space or (-1,)
    if not nest.accumulators or nest.around != nest.space or any(nest.axes[a].vector for a in outer):
        return nest
    longest, left = target.loops.row, target.loops.rows
    wanted = {(e.op, e.dtype) for v in nest.store.values for e in walk(v) if isinstance(e, Call)}
    # By the outermost operation and dtype: the accumulator, its axis and the expression.
    computed: dict[object, list[tuple[int, int, Expr]]] = {}
    for f in nest.reductions:
        alike = [nest.axes[axis].extent == nest.axes[last].extent <= longest for axis in f.axes]
        if f.around == tuple(outer) and alike == [True]:
            for e in dict.fromkeys(e for v in f.values for e in walk(v)):
                if isinstance(e, Call) and (e.op, e.dtype) in wanted:
                    computed.setdefault((e.op, e.dtype), []).append((f.accumulator, f.axes[0], e))
    keeps: dict[int, list[Statement]] = {}  # by accumulator
    kept: dict[Expr, Expr] = {}
    stack = list(nest.store.values) if computed else []
    while stack:
        e = stack.pop()
        nbytes = longest * e.dtype.itemsize
        others = computed.get((e.op, e.dtype), ()) if isinstance(e, Call) else ()
        same = next((other for other in others if _is_same(nest, e, last, other[2], other[1])), None)
        if same is None or nbytes > left or work(e) < target.costs.kept:
            stack += e.args
        elif e not in kept:
            accumulator, axis, value = same
            keeps.setdefault(accumulator, []).append(Keep(len(kept), axis, longest, value))
            kept[e] = Kept(len(kept), last, longest, e.dtype)
            left -= nbytes
    return nest._replace(body=_with(nest.body, keeps, kept)) if kept else nest


def _is_same(nest: Nest, e: Expr, axis: int, other: Expr, its: int) -> bool:
    """Return whether an expression varies along `axis` exactly as `other` varies along axis `its`."""
    moves, seen, stack = False, set(), [(e, other)]
    while stack:
        pair = stack.pop()
        a, b = pair
        if pair in seen:
            continue
        seen.add(pair)
        if isinstance(a, Access) and isinstance(b, Access):
            if not _is_same_memory(nest, a, b) or _along(nest, nest.where(a), axis) != _along(nest, nest.where(b), its):
                return False
            moves = moves or axis in nest.where(a).axes()
        elif isinstance(a, Call) and isinstance(b, Call):
            if a.op != b.op or a.dtype is not b.dtype or len(a.args) != len(b.args):
                return False
        elif isinstance(a, Chosen) and isinstance(b, Chosen):
            if nest.indexed[a.axis] != nest.indexed[b.axis]:
                return False
        elif a != b:
            return False
        stack.extend(zip(a.args, b.args, strict=True))
    return moves


def _is_same_memory(nest: Nest, a: Access, b: Access) -> bool:
    """Return whether two accesses read the same operand, at any address, or are both positions."""
    here, there = nest.reads[a.index].operand, nest.reads[b.index].operand
    same = here < 0 and there < 0 if min(here, there) < 0 else nest.operands[here] == nest.operands[there]
    return same and a.part == b.part and len(a.args) == len(b.args)


def _along(nest: Nest, a: Address, axis: int) -> tuple[object, ...]:
    """Return an address as a tuple with a placeholder for `axis`, to compare with another access along a different axis."""
    terms = []
    for t in a.terms:
        how = nest.tables[t.value] if t.how == "table" else t.value
        terms.append((_HERE if t.axis == axis else t.axis, how))
    return tuple(terms), a.offset, a.digits, None if a.then is None else _along(nest, a.then, _HERE - 1)


def _with(body: Body, keeps: dict[int, list[Statement]], kept: dict[Expr, Expr]) -> Body:
    """Return a body that fills row buffers at the steps of reductions (`keeps`) and reads them in stores (`kept`)."""
    found: list[Statement] = []
    for s in body:
        if isinstance(s, For):
            first = [k for inner in s.body if isinstance(inner, Update) for k in keeps.get(inner.accumulator, ())]
            found.append(s._replace(body=(*first, *_with(s.body, keeps, kept))))
        elif isinstance(s, Store):
            found.append(s.with_values([replaced(v, kept) for v in s.values]))
        else:
            found.append(s)
    return tuple(found)
