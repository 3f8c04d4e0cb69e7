"""Reductions of complex numbers as reductions of their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from ...dtypes import DType, int64
from ..expr import Arg, DTypes, Expr, Exprs, Pair
from ..reductions import Reduction
from .pairs import converted, has_complex, in_parts

MAX_CACHED_SPLITS = 1 << 10  # entries of the cache of split reductions
Join = Callable[[Exprs, Exprs], Exprs]


def split(reduction: Reduction, dtype: DType) -> Reduction:
    """Return the reduction of elements of a dtype with only real states; the reduction itself if nothing in it is complex."""
    return _split(reduction, dtype)


@lru_cache(maxsize=MAX_CACHED_SPLITS)
def _split(r: Reduction, dtype: DType) -> Reduction:
    """Return the split reduction; cached, so that equal arguments give one object and its kernels are reused."""
    states = r.states(dtype)
    value, position = Arg(0, dtype), Arg(1, int64)
    element = r.lift(value, position, states)
    left = [Arg(k, d) for k, d in enumerate(states)]

    def joins(join: Join, operand_dtypes: DTypes) -> tuple[list[Arg], Exprs]:
        """Return the arguments that follow the states, and the expressions of the states after `join`."""
        right = [Arg(k, d) for k, d in enumerate(operand_dtypes, start=len(states))]
        return right, join(tuple(left), tuple(right))

    lifted = tuple([e.dtype for e in element])  # the second operands of `follow`; those of `combine` are states
    variants = [(join, operand_dtypes) for join, operand_dtypes in ((r.combine, states), (r.follow, lifted)) if join is not None]
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
            return _flat([in_parts(e, arguments) for e in formulas])

        return joined

    def finish(components: Exprs, result: DType) -> Expr:
        pairs = state_pairs.of(components)
        if r.finish is None:
            return pairs[-1]
        return in_parts(r.finish(tuple(left), result), dict(zip(left, pairs, strict=True)))

    return Reduction(
        r.name,
        lambda d: tuple([p for s in states for p in ((s.part,) * 2 if s.is_complex else (s,))]),
        lambda _: _flat([in_parts(e, {}) for e in r.identity(states)]),
        lambda x, i, _: _flat([in_parts(e, {value: converted(x, dtype), position: i}) for e in element]),
        join_of(r.combine, states),
        r.result,
        has_identity=r.has_identity,
        follow=join_of(r.follow, lifted),
        finish=finish,
        places=r.places,
    )


class _StatePairs:
    """A converter of the real parts of states to the states, in which complex ones are `Pair`s."""

    def __init__(self, states: DTypes) -> None:
        self.states = states

    def of(self, components: Exprs) -> list[Expr]:
        """Return the states with these parts."""
        remaining: Iterator[Expr] = iter(components)
        return [Pair(next(remaining), next(remaining), s) if s.is_complex else next(remaining) for s in self.states]


def _flat(states: list[Expr]) -> Exprs:
    return tuple([component for s in states for component in (s.args if isinstance(s, Pair) else (s,))])
