"""Narrow accumulators: sums of narrow integers and booleans in 32 or 16 bits, so that a vector takes two or four times as many elements."""

from __future__ import annotations

from ...dtypes import DType, boolean, int32, uint16, uint32
from ...ops.expr import Call, Expr, call, cast
from ..ir import Accumulator, For, Init, Prefetch, Result, State, Statement, Update
from ..loop_nest import Body, LoopNest

# elements per block: a sum of 16-bit integers fits a signed 32-bit integer, a sum of booleans an unsigned 16-bit integer
BLOCK_ELEMENTS = 1 << 15
MIN_SUM_ELEMENTS = 1 << 8  # minimal elements of a sum that pays for the second loop
SUM_NAMES = ("sum", "count_nonzero")


def narrow_accumulators(nest: LoopNest) -> LoopNest:
    """Return the nest with a sum of narrow numbers computed in blocks: a 64-bit sum of booleans, or of integers of at most 16 bits.

    Each block of `BLOCK_ELEMENTS` elements is summed in an accumulator of 32 bits, or 16 bits for booleans, and then added to the 64-bit
    sum. No accumulator overflows. `count_nonzero` is changed alike. A nest is returned unchanged if it has another or a second reduction,
    or a running reduction. It is also unchanged if its innermost loop is not vectorized or has fewer than `MIN_SUM_ELEMENTS` iterations.
    """
    if len(nest.accumulators) != 1 or nest.sequential_accumulators:
        return nest
    (accumulator,), (f,) = nest.accumulators, nest.reductions
    if accumulator.reduction.name not in SUM_NAMES or accumulator.row_axis >= 0 or not f.axes:
        return nest
    inner = f.axes[-1]
    if not nest.axes[inner].vector or nest.axes[inner].extent < MIN_SUM_ELEMENTS:
        return nest
    term = _match_narrow_term(f.values[0])
    if term is None:
        return nest
    wide_dtype = accumulator.state_dtypes[0]
    narrow_dtype = _choose_narrow_dtype(term.dtype, wide_dtype)
    states = State(0, 0, wide_dtype), State(1, 0, narrow_dtype)
    inner_update = Update(1, (call("add", states[1], cast(term, narrow_dtype)),))
    outer_update = Update(0, (call("add", states[0], cast(Result(1, 0, narrow_dtype), wide_dtype)),))

    def change(s: Statement) -> Statement:
        if not isinstance(s, For):
            return s
        if s.axis != inner:
            return s._replace(body=tuple(map(change, s.body)))
        prefetches = tuple([p for p in s.body if isinstance(p, Prefetch)])
        return For(inner, (Init(1), For(inner, (*prefetches, inner_update)), outer_update), BLOCK_ELEMENTS)

    body: Body = tuple(map(change, nest.body))
    return nest._replace(accumulators=(accumulator, Accumulator(accumulator.reduction, (narrow_dtype,))), body=body)


def _choose_narrow_dtype(term_dtype: DType, wide_dtype: DType) -> DType:
    """Return the dtype of the sum of a block of `term_dtype` elements, before the conversion to the dtype `wide_dtype` of the whole sum."""
    if term_dtype is boolean:
        return uint16
    return int32 if wide_dtype.kind == "int" else uint32


def _match_narrow_term(value: Expr) -> Expr | None:
    """Return the term in `value`, the sum of a 64-bit state and a term cast to 64 bits; the term is returned without the cast.

    Return None for another form, and unless the term is a boolean or an integer of at most 16 bits.
    """
    if not (isinstance(value, Call) and value.op.name == "add" and value.dtype.kind in ("int", "uint") and value.dtype.bits == 64):
        return None
    state, term = value.args
    if not (isinstance(state, State) and isinstance(term, Call) and term.op.name == "cast"):
        return None
    (operand,) = term.args
    is_narrow = operand.dtype is boolean or (operand.dtype.kind in ("int", "uint") and operand.dtype.bits <= 16)
    return operand if is_narrow else None
