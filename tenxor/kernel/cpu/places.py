"""Positions of argmax and argmin in 32 bits where they fit, so that a vector of positions has as many elements as a vector of values."""

from __future__ import annotations

from ...dtypes import int32, int64
from ...ops.expr import Call, Const, Expr, call, cast, replaced, where
from ..drafted import Access
from ..ir import Accumulator, For, Result, State, Statement, Update, with_expressions
from ..nest import Nest

PLACED = ("argmax", "argmin")
NOWHERE = int(int32.highest)  # the position of an empty reduction, like the largest 64-bit integer


def short_places(nest: Nest) -> Nest:
    """Return the nest with 32-bit positions in the states of argmax and argmin, extended to 64 bits where results are read."""
    if nest.around != nest.space:
        return nest
    found = {f.accumulator: f.values for f in nest.reductions if _is_short(nest, f.accumulator, f.values)}
    if not found:
        return nest
    read: dict[Expr, Expr] = {Result(k, 1, int64): _widened(Result(k, 1, int32)) for k in found}
    kept = [f._replace(states=(f.states[0], int32)) if k in found else f for k, f in enumerate(nest.accumulators)]
    body = with_expressions(nest.body, lambda e: replaced(e, read))
    return nest._replace(accumulators=tuple(kept), body=tuple([_narrowed(s, kept) for s in body]))


def _is_short(nest: Nest, accumulator: int, values: tuple[Expr, ...]) -> bool:
    """Return whether an accumulator is an argmax or argmin of values of at most 32 bits, whose positions all fit in 32 bits."""
    f = nest.accumulators[accumulator]
    if f.reduction.name not in PLACED or f.states[0].itemsize > int32.itemsize:
        return False
    place = _place(values)
    if not isinstance(place, Access) or place.args:
        return False
    operand, address = nest.reads[place.index]
    if operand >= 0 or address.then is not None or any(t.how != "step" for t in address.terms):
        return False
    ends = [t.value * (nest.axes[t.axis].extent - 1) for t in address.terms]
    offset = address.offset or 0
    return offset + sum(min(end, 0) for end in ends) >= 0 and offset + sum(max(end, 0) for end in ends) < NOWHERE


def _place(values: tuple[Expr, ...]) -> Expr | None:
    """Return the position of the present element in the next state `values` of an argmax or argmin, or None."""
    last = values[-1]
    return last.args[1] if isinstance(last, Call) and last.op.name == "where" else None


def _narrowed(s: Statement, kept: list[Accumulator]) -> Statement:
    """Return a statement with 32-bit positions for the accumulators in `kept` that have them."""
    if isinstance(s, For):
        return s._replace(body=tuple([_narrowed(inner, kept) for inner in s.body]))
    if not isinstance(s, Update) or kept[s.accumulator].states[-1] is not int32 or kept[s.accumulator].reduction.name not in PLACED:
        return s
    value, place = s.values
    assert isinstance(place, Call)
    wins, new, _ = place.args
    assert isinstance(new, Access)
    return s._replace(values=(value, where(wins, Access(new.index, int32, new.args), State(s.accumulator, 1, int32))))


def _widened(place: Expr) -> Expr:
    """Return a 32-bit position as a 64-bit position; the position of an empty reduction becomes the largest 64-bit integer."""
    return where(call("equal", place, Const(NOWHERE, int32)), Const(int64.highest, int64), cast(place, int64))
