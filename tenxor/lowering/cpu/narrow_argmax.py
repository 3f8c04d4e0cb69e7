"""Positions of argmax and argmin in 32 bits where they fit, so that a vector of positions has as many elements as a vector of values."""

from __future__ import annotations

from ...dtypes import int32, int64
from ...ops.expr import Call, Const, Expr, call, cast, replace_subexprs, where
from ..ir import Accumulator, For, Result, State, Statement, Update, map_expressions
from ..kernel_draft import Access
from ..loop_nest import LoopNest

POSITION_REDUCTIONS = ("argmax", "argmin")
EMPTY_POSITION = int(int32.highest)  # the position of an empty reduction, like the largest 64-bit integer


def narrow_argmax(nest: LoopNest) -> LoopNest:
    """Return the nest with 32-bit positions in the states of each argmax and argmin with values of at most 32 bits and fitting positions.

    The positions must be an affine function of the loop indices, from 0 to below 2**31 - 1. They are extended to 64 bits where results are
    read. Return a nest without such a reduction, or with a running reduction, unchanged.
    """
    if nest.result_loops != nest.space:
        return nest
    short_values = {f.accumulator: f.values for f in nest.reductions if _can_narrow(nest, f.accumulator, f.values)}
    if not short_values:
        return nest
    replacements: dict[Expr, Expr] = {Result(k, 1, int64): _widen_position(Result(k, 1, int32)) for k in short_values}
    accumulators = [
        f._replace(state_dtypes=(f.state_dtypes[0], int32)) if k in short_values else f for k, f in enumerate(nest.accumulators)
    ]
    body = map_expressions(nest.body, lambda e: replace_subexprs(e, replacements))
    return nest._replace(accumulators=tuple(accumulators), body=tuple([_narrow_positions(s, accumulators) for s in body]))


def _can_narrow(nest: LoopNest, accumulator: int, values: tuple[Expr, ...]) -> bool:
    """Return whether accumulator number `accumulator` of `nest` is an argmax or argmin with values of at most 32 bits and small positions.

    Positions must be an affine function of the loop indices, from 0 to below 2**31 - 1; a table gives False. `values` is the next state of
    the accumulator.
    """
    f = nest.accumulators[accumulator]
    if f.reduction.name not in POSITION_REDUCTIONS or f.state_dtypes[0].itemsize > int32.itemsize:
        return False
    position = _match_position(values)
    if not isinstance(position, Access) or position.args:
        return False
    operand, address = nest.locations[position.index]
    if operand >= 0 or address.base is not None or any(t.step_kind != "step" for t in address.terms):
        return False
    end_offsets = [t.value * (nest.axes[t.axis].extent - 1) for t in address.terms]
    offset = address.offset or 0
    return offset + sum(min(end, 0) for end in end_offsets) >= 0 and offset + sum(max(end, 0) for end in end_offsets) < EMPTY_POSITION


def _match_position(values: tuple[Expr, ...]) -> Expr | None:
    """Return the position of the present element in the next state `values` of an argmax or argmin; None if the state has another form."""
    position = values[-1]
    return position.args[1] if isinstance(position, Call) and position.op.name == "where" else None


def _narrow_positions(s: Statement, accumulators: list[Accumulator]) -> Statement:
    """Return the statement `s` with 32-bit positions for each argmax and argmin whose state in `accumulators` has them."""
    if isinstance(s, For):
        return s._replace(body=tuple([_narrow_positions(inner, accumulators) for inner in s.body]))
    if (
        not isinstance(s, Update)
        or accumulators[s.accumulator].state_dtypes[-1] is not int32
        or accumulators[s.accumulator].reduction.name not in POSITION_REDUCTIONS
    ):
        return s
    value, position = s.values
    assert isinstance(position, Call)
    is_better, new_position, _ = position.args
    assert isinstance(new_position, Access)
    return s._replace(
        values=(value, where(is_better, Access(new_position.index, int32, new_position.args), State(s.accumulator, 1, int32)))
    )


def _widen_position(position: Expr) -> Expr:
    """Return the int32 expression `position` as an int64 expression. The position of an empty reduction, the largest int32
    (`EMPTY_POSITION`), becomes the largest int64.
    """
    return where(call("equal", position, Const(EMPTY_POSITION, int32)), Const(int64.highest, int64), cast(position, int64))
