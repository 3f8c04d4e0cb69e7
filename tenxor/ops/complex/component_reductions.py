"""Reductions of complex numbers as reductions of their parts. The state of a reduction is the value so far, as one or several scalar
expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from ..._utils.cache_registry import register
from ...dtypes import DType, int64
from ..expr import Arg, ComplexPair, DTypes, Expr, Exprs
from ..reductions import Reduction
from .split_formulas import convert, has_complex, split_formula

MAX_CACHED_SPLITS = 1 << 10  # entries of the cache of split reductions
Join = Callable[[Exprs, Exprs], Exprs]


def split_complex_states(reduction: Reduction, dtype: DType) -> Reduction:
    """Return `reduction` for elements of `dtype` with only real states; return `reduction` itself if neither elements nor states are
    complex.

    A complex component of the state becomes two components, the real part first. `lift` takes a complex element as a `ComplexPair`, and
    `finish` returns a `ComplexPair` for a complex result. Equal arguments give one object.
    """
    return _split(reduction, dtype)


@register("reductions of components", "a complex reduction as real ones, by reduction and dtype")
@lru_cache(maxsize=MAX_CACHED_SPLITS)
def _split(r: Reduction, dtype: DType) -> Reduction:
    """Return the result of `split_complex_states` for the reduction `r` and elements of `dtype`.

    The result is cached, so that equal arguments give one object and its kernels are reused.
    """
    states = r.state_dtypes(dtype)
    value, position = Arg(0, dtype), Arg(1, int64)
    element = r.lift(value, position, states)
    left = [Arg(k, d) for k, d in enumerate(states)]

    def joins(join: Join, operand_dtypes: DTypes) -> tuple[list[Arg], Exprs]:
        """Return `Arg`s of `operand_dtypes` for the second operand of `join`, and the formulas of the joined state."""
        right = [Arg(k, d) for k, d in enumerate(operand_dtypes, start=len(states))]
        return right, join(tuple(left), tuple(right))

    lifted = tuple([e.dtype for e in element])  # the second operands of `append`; those of `combine` are states
    variants = [(join, operand_dtypes) for join, operand_dtypes in ((r.combine, states), (r.append, lifted)) if join is not None]
    expressions = [*element, *(e for join, operand_dtypes in variants for e in joins(join, operand_dtypes)[1])]
    if not any(map(has_complex, (value, *expressions))):
        return r
    state_pairs = _StatePairs(states)

    def join_of(join: Join | None, operand_dtypes: DTypes) -> Join | None:
        if join is None:
            return None
        right, formulas = joins(join, operand_dtypes)

        def joined(a: Exprs, b: Exprs) -> Exprs:
            arguments: dict[Expr, Expr] = dict(zip([*left, *right], [*state_pairs.of(a), *_StatePairs(operand_dtypes).of(b)], strict=True))
            return _flat([split_formula(e, arguments) for e in formulas])

        return joined

    def finish(components: Exprs, result: DType) -> Expr:
        pairs = state_pairs.of(components)
        if r.finish is None:
            return pairs[-1]
        return split_formula(r.finish(tuple(left), result), dict(zip(left, pairs, strict=True)))

    return Reduction(
        r.name,
        lambda d: tuple([p for s in states for p in ((s.part,) * 2 if s.is_complex else (s,))]),
        lambda _: _flat([split_formula(e, {}) for e in r.identity(states)]),
        lambda x, i, _: _flat([split_formula(e, {value: convert(x, dtype), position: i}) for e in element]),
        join_of(r.combine, states),
        r.result_dtype,
        has_identity=r.has_identity,
        append=join_of(r.append, lifted),
        finish=finish,
        uses_position=r.uses_position,
    )


class _StatePairs:
    """A converter from real parts of a state to the components of the state, of the dtypes `states`; complex ones are `ComplexPair`s."""

    def __init__(self, states: DTypes) -> None:
        self.states = states

    def of(self, components: Exprs) -> list[Expr]:
        """Return the components of the state with the real parts `components`, which hold two in turn for each complex component."""
        remaining: Iterator[Expr] = iter(components)
        return [ComplexPair(next(remaining), next(remaining), s) if s.is_complex else next(remaining) for s in self.states]


def _flat(states: list[Expr]) -> Exprs:
    """Return the components of a state as real expressions: two in turn for each `ComplexPair` in `states`."""
    return tuple([component for s in states for component in (s.args if isinstance(s, ComplexPair) else (s,))])
