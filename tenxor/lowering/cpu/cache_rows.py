"""Row buffers for costly values that a reduction computes and a later loop over the same row needs again. A row buffer is scratch memory
for the values along an axis.

In softmax, for example, the exponentials are first summed and then divided by the sum. The row is still in a cache.
"""

from __future__ import annotations

from ...ops.expr import Call, Expr, replace_subexprs, walk
from ...target import Target
from ..ir import Address, For, RowLoad, RowStore, Statement, Store, Update, estimate_cost
from ..kernel_draft import Access, DraftIndex
from ..loop_nest import Body, LoopNest

_ROW_AXIS = -(1 << 10)  # a placeholder for the axis of a row, by which addresses along different axes compare equal


def cache_rows(nest: LoopNest, target: Target) -> LoopNest:
    """Return the nest with row buffers for values that both a reduction and the result compute along a row.

    The loop of the reduction fills the buffers, and the store of the result reads them. The reduction must run along a single axis as long
    as the last loop of the result, inside the loops before. The values must cost at least `min_buffered_value`, in rows within the limits
    of the target. Without buffers, with lanes across the rows, or for a running reduction, return the nest unchanged.
    """
    *outer, row_axis = nest.space or (-1,)
    if not nest.accumulators or nest.result_loops != nest.space or any(nest.axes[a].vector for a in outer):
        return nest
    max_row_size, free_bytes = target.loops.max_row_buffer_elements, target.loops.max_row_buffer_bytes
    result_ops = {(e.op, e.dtype) for e in walk(*nest.result_store.values) if isinstance(e, Call)}
    # By the outermost operation and dtype: the accumulator, its axis and the expression.
    computed: dict[object, list[tuple[int, int, Expr]]] = {}
    for f in nest.reductions:
        has_row_extent = [nest.axes[axis].extent == nest.axes[row_axis].extent <= max_row_size for axis in f.axes]
        if f.outer_loops == tuple(outer) and has_row_extent == [True]:
            for e in walk(*f.values):
                if isinstance(e, Call) and (e.op, e.dtype) in result_ops:
                    computed.setdefault((e.op, e.dtype), []).append((f.accumulator, f.axes[0], e))
    keeps: dict[int, list[Statement]] = {}  # by accumulator
    buffered: dict[Expr, Expr] = {}
    stack = list(nest.result_store.values) if computed else []
    while stack:
        e = stack.pop()
        nbytes = max_row_size * e.dtype.itemsize
        candidates = computed.get((e.op, e.dtype), ()) if isinstance(e, Call) else ()
        match = next((candidate for candidate in candidates if _varies_alike(nest, e, row_axis, candidate[2], candidate[1])), None)
        if match is None or nbytes > free_bytes or estimate_cost(e) < target.costs.min_buffered_value:
            stack += e.args
        elif e not in buffered:
            accumulator, axis, value = match
            keeps.setdefault(accumulator, []).append(RowStore(len(buffered), axis, max_row_size, value))
            buffered[e] = RowLoad(len(buffered), row_axis, max_row_size, e.dtype)
            free_bytes -= nbytes
    return nest._replace(body=_fill_buffers(nest.body, keeps, buffered)) if buffered else nest


def _varies_alike(nest: LoopNest, e: Expr, axis: int, other_expr: Expr, other_axis: int) -> bool:
    """Return whether the expression `e` varies along `axis` exactly as `other_expr` varies along axis `other_axis`. Both are expressions of
    `nest`.

    Both must have the same operations, and read the same memory at equal addresses but for the two axes. Return False if `e` has equal
    values at every index of `axis`.
    """
    varies, visited, stack = False, set(), [(e, other_expr)]
    while stack:
        pair = stack.pop()
        a, b = pair
        if pair in visited:
            continue
        visited.add(pair)
        if isinstance(a, Access) and isinstance(b, Access):
            if not _is_same_memory(nest, a, b) or _address_key(nest, nest.get_address(a), axis) != _address_key(
                nest, nest.get_address(b), other_axis
            ):
                return False
            varies = varies or axis in nest.get_address(a).axes()
        elif isinstance(a, Call) and isinstance(b, Call):
            if a.op != b.op or a.dtype is not b.dtype or len(a.args) != len(b.args):
                return False
        elif isinstance(a, DraftIndex) and isinstance(b, DraftIndex):
            if nest.index_sizes[a.axis] != nest.index_sizes[b.axis]:
                return False
        elif a != b:
            return False
        stack.extend(zip(a.args, b.args, strict=True))
    return varies


def _is_same_memory(nest: LoopNest, a: Access, b: Access) -> bool:
    """Return whether the accesses `a` and `b` of `nest` read the same operand, at any address, or are both positions, which read nothing.

    They must also read the same component of complex elements, with equally many index values.
    """
    operand_a, operand_b = nest.locations[a.index].operand, nest.locations[b.index].operand
    is_same_operand = (
        operand_a < 0 and operand_b < 0 if min(operand_a, operand_b) < 0 else nest.operands[operand_a] == nest.operands[operand_b]
    )
    return is_same_operand and a.component == b.component and len(a.args) == len(b.args)


def _address_key(nest: LoopNest, a: Address, axis: int) -> tuple[object, ...]:
    """Return the address `a` as a tuple with a placeholder in place of `axis`, an axis number of `nest`.

    Two accesses that run along different axes read rows alike if these tuples are equal. Tables are compared by content: `nest` has the
    table for each number.
    """
    terms = []
    for t in a.terms:
        step = nest.tables[t.value] if t.step_kind == "table" else t.value
        terms.append((_ROW_AXIS if t.axis == axis else t.axis, step))
    return tuple(terms), a.offset, a.digit_sizes, None if a.base is None else _address_key(nest, a.base, _ROW_AXIS - 1)


def _fill_buffers(body: Body, keeps: dict[int, list[Statement]], buffered: dict[Expr, Expr]) -> Body:
    """Return `body` with row buffers filled by reductions and read by stores.

    `keeps` maps the number of an accumulator to statements that fill buffers at each step of the reduction. `buffered` maps expressions in
    stores to reads of the buffers.
    """
    new_body: list[Statement] = []
    for s in body:
        if isinstance(s, For):
            row_keeps = [k for inner in s.body if isinstance(inner, Update) for k in keeps.get(inner.accumulator, ())]
            new_body.append(s._replace(body=(*row_keeps, *_fill_buffers(s.body, keeps, buffered))))
        elif isinstance(s, Store):
            new_body.append(s.with_values([replace_subexprs(v, buffered) for v in s.values]))
        else:
            new_body.append(s)
    return tuple(new_body)
