"""Unroll and jam: emit a loop that runs several iterations side by side, statement by statement.

Each further iteration gets an additional axis, whose index is higher by 1, 2, ..., and accumulators of its own. So the emitter treats the
iterations like several reductions in one loop. Each reduction takes its elements in the same order as without unrolling.
"""

from __future__ import annotations

from contextlib import ExitStack

from ...lowering.ir import Address, For, Init, Load, Position, Result, RowStore, State, Statement, Store, Update, iterate_statements
from ...ops.expr import Expr, rebuild
from .builder import Value
from .emitter import Emitter


def emit_interleaved(em: Emitter, s: For, begin: Value, end: Value) -> Value:
    """Emit the loop `s` from index `begin` on, in steps of `s.jam_factor` iterations that run interleaved. Return the index where it stops.

    Less than a step is then left before `end`; the caller emits another loop for these iterations.
    """
    kernel, spans = em.kernel, em.axis_ranges
    started = [inner.accumulator for inner in iterate_statements(s.body) if isinstance(inner, Init)]
    axes, accumulators, iterations = [*kernel.axes], [*kernel.accumulators], []
    for _ in range(1, s.jam_factor):
        iterations.append(_Iteration(s.axis, len(axes), {f: len(accumulators) + k for k, f in enumerate(started)}))
        axes.append(kernel.axes[s.axis])
        accumulators += [kernel.accumulators[f] for f in started]
    body = _interleave(s.body, iterations)
    em.kernel = kernel._replace(axes=tuple(axes), accumulators=tuple(accumulators))
    if s.axis in spans:
        em.axis_ranges = spans | {iteration.axis: spans[s.axis] for iteration in iterations}

    def emit_step(index: Value) -> Value:
        with ExitStack() as contexts:
            for offset, iteration in enumerate(iterations, start=1):
                em.continue_innermost()
                contexts.enter_context(em.at_index(iteration.axis, index + offset))
            em.emit_body(body)
        em.continue_innermost()
        return index + s.jam_factor

    stop_index = em.emit_loop(s.axis, begin, end, emit_step, min_remaining=s.jam_factor)
    em.kernel, em.axis_ranges = kernel, spans
    return stop_index


def _interleave(body: tuple[Statement, ...], iterations: list[_Iteration]) -> tuple[Statement, ...]:
    """Return the statements `body` with each statement followed by a copy for each of the additional `iterations`.

    A loop in the body stays a single loop, with an interleaved body.
    """
    interleaved: list[Statement] = []
    for s in body:
        if isinstance(s, For):
            interleaved.append(s._replace(body=_interleave(s.body, iterations)))
        else:
            interleaved += [s, *(iteration.rewrite_statement(s) for iteration in iterations)]
    return tuple(interleaved)


class _Iteration:
    """One of the additional iterations that run side by side with the first one of a step; it rewrites statements for itself.

    The additional axis `axis` takes the place of the loop's axis, `replaced_axis`. `accumulators` maps the numbers of the reductions that
    start in the loop to the numbers of the reductions of this iteration.
    """

    def __init__(self, replaced_axis: int, axis: int, accumulators: dict[int, int]) -> None:
        self.replaced_axis, self.axis, self.accumulators = replaced_axis, axis, accumulators

    def rewrite_statement(self, s: Statement) -> Statement:
        """Return the statement `s` for this iteration: with the axis and the accumulators of this iteration.

        `s` must be an `Init`, `Update`, `RowStore` or `Store`.
        """
        if isinstance(s, Init):
            return Init(self.accumulators[s.accumulator])
        if isinstance(s, Update):
            return Update(self.accumulators[s.accumulator], tuple(map(self.rewrite_expr, s.values)))
        if isinstance(s, RowStore):
            return s._replace(axis=self.axis, value=self.rewrite_expr(s.value))
        assert isinstance(s, Store)
        return s._replace(address=self.rewrite_address(s.address)).with_values([self.rewrite_expr(v) for v in s.values])

    def rewrite_address(self, a: Address) -> Address:
        """Return the address `a` with this iteration's axis in place of the loop's.

        Later views of a view chain do not change: their terms refer to digits, not to axes.
        """
        return a._replace(terms=tuple([t._replace(axis=self.axis) if t.axis == self.replaced_axis else t for t in a.terms]))

    def rewrite_expr(self, e: Expr) -> Expr:
        """Return `e` with this iteration's axis in place of the loop's, and this iteration's accumulators in place of the loop's."""
        return rebuild(e, self.rewrite_leaf)

    def rewrite_leaf(self, e: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return `e`, without the expressions below it, for this iteration; `args` are the operands of `e`, rewritten already.

        `rebuild` calls this method for each subexpression of an expression, operands first.
        """
        if isinstance(e, Load):
            return Load(e.operand, self.rewrite_address(e.address), e.dtype, args, e.component)
        if isinstance(e, Position):
            return Position(self.rewrite_address(e.address), e.dtype)
        if isinstance(e, (Result, State)) and e.accumulator in self.accumulators:
            return type(e)(self.accumulators[e.accumulator], e.component, e.dtype)
        return e.with_args(args)
