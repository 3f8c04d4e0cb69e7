"""Narrow accumulators: sums of narrow integers and booleans in 32 or 16 bits, so that a vector takes two or four times as many elements."""

from __future__ import annotations

from ...dtypes import DType, boolean, int32, uint16, uint32
from ...ops.expr import Call, Expr, call, cast
from ..ir import Accumulator, For, Init, Prefetch, Result, State, Statement, Update
from ..nest import Body, Nest

BLOCK = 1 << 15  # elements per block: a sum of 16-bit integers fits a signed 32-bit integer, a sum of booleans an unsigned 16-bit integer
LEAST = 1 << 8  # minimal elements of a sum that pays for the second loop
SUMS = ("sum", "count_nonzero")


def narrow(nest: Nest) -> Nest:
    """Return the nest with a vectorized sum of narrow integers or booleans computed in blocks.

    Each block has a narrow state, which is then added to the 64-bit state. Every other nest is unchanged, and so is a sum of fewer than
    `LEAST` elements.
    """
    if len(nest.accumulators) != 1 or nest.in_order:
        return nest
    (accumulator,), (f,) = nest.accumulators, nest.reductions
    if accumulator.reduction.name not in SUMS or accumulator.row >= 0 or not f.axes:
        return nest
    inner = f.axes[-1]
    if not nest.axes[inner].vector or nest.axes[inner].extent < LEAST:
        return nest
    added = _added(f.values[0])
    if added is None:
        return nest
    wide = accumulator.states[0]
    dtype = _narrow(added.dtype, wide)
    states = State(0, 0, wide), State(1, 0, dtype)
    inside = Update(1, (call("add", states[1], cast(added, dtype)),))
    after = Update(0, (call("add", states[0], cast(Result(1, 0, dtype), wide)),))

    def changed(s: Statement) -> Statement:
        if not isinstance(s, For):
            return s
        if s.axis != inner:
            return s._replace(body=tuple(map(changed, s.body)))
        before = tuple([p for p in s.body if isinstance(p, Prefetch)])
        return For(inner, (Init(1), For(inner, (*before, inside)), after), BLOCK)

    body: Body = tuple(map(changed, nest.body))
    return nest._replace(accumulators=(accumulator, Accumulator(accumulator.reduction, (dtype,))), body=body)


def _narrow(added: DType, wide: DType) -> DType:
    """Return the dtype in which a block of `added` elements is summed."""
    if added is boolean:
        return uint16
    return int32 if wide.kind == "int" else uint32


def _added(value: Expr) -> Expr | None:
    """Return the value added to a 64-bit state; None unless the value is a boolean or an integer of at most 16 bits."""
    if not (isinstance(value, Call) and value.op.name == "add" and value.dtype.kind in ("int", "uint") and value.dtype.bits == 64):
        return None
    state, term = value.args
    if not (isinstance(state, State) and isinstance(term, Call) and term.op.name == "cast"):
        return None
    (found,) = term.args
    is_narrow = found.dtype is boolean or (found.dtype.kind in ("int", "uint") and found.dtype.bits <= 16)
    return found if is_narrow else None
