"""Reductions of complex numbers as reductions of their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from ...dtypes import DType, int64
from ..expr import Arg, DTypes, Expr, Exprs, Pair
from ..reductions import Reduction
from .pairs import converted, has_complex, in_parts

MOST = 1 << 10  # entries of the cache of split reductions
Join = Callable[[Exprs, Exprs], Exprs]


def split(reduction: Reduction, dtype: DType) -> Reduction:
    """Return the reduction of elements of a dtype with only real states; the reduction itself if nothing in it is complex."""
    return _split(reduction, dtype)


@lru_cache(maxsize=MOST)
def _split(r: Reduction, dtype: DType) -> Reduction:
    """Return the split reduction; cached, so that equal arguments give one object and its kernels are reused."""
    states = r.states(dtype)
    one, position = Arg(0, dtype), Arg(1, int64)
    element = r.lift(one, position, states)
    left = [Arg(k, d) for k, d in enumerate(states)]

    def joins(join: Join, after: DTypes) -> tuple[list[Arg], Exprs]:
        """Return the arguments that follow the states, and the expressions of the states after `join`."""
        right = [Arg(k, d) for k, d in enumerate(after, start=len(states))]
        return right, join(tuple(left), tuple(right))

    lifted = tuple([e.dtype for e in element])  # the second operands of `follow`; those of `combine` are states
    ways = [(join, after) for join, after in ((r.combine, states), (r.follow, lifted)) if join is not None]
    every = [*element, *(e for join, after in ways for e in joins(join, after)[1])]
    if not any(map(has_complex, (one, *every))):
        return r
    whole = _Whole(states)

    def join_of(join: Join | None, after: DTypes) -> Join | None:
        if join is None:
            return None
        right, formulas = joins(join, after)

        def joined(a: Exprs, b: Exprs) -> Exprs:
            given: dict[Expr, Expr] = dict(zip([*left, *right], [*whole.of(a), *_Whole(after).of(b)], strict=True))
            return _flat([in_parts(e, given) for e in formulas])

        return joined

    def finish(parts: Exprs, result: DType) -> Expr:
        found = whole.of(parts)
        if r.finish is None:
            return found[-1]
        return in_parts(r.finish(tuple(left), result), dict(zip(left, found, strict=True)))

    return Reduction(
        r.name,
        lambda d: tuple([p for s in states for p in ((s.part,) * 2 if s.is_complex else (s,))]),
        lambda _: _flat([in_parts(e, {}) for e in r.identity(states)]),
        lambda x, at, _: _flat([in_parts(e, {one: converted(x, dtype), position: at}) for e in element]),
        join_of(r.combine, states),
        r.result,
        has_identity=r.has_identity,
        follow=join_of(r.follow, lifted),
        finish=finish,
        places=r.places,
    )


class _Whole:
    """A converter of the real parts of states to the states, in which complex ones are `Pair`s."""

    def __init__(self, states: DTypes) -> None:
        self.states = states

    def of(self, parts: Exprs) -> list[Expr]:
        """Return the states with these parts."""
        rest: Iterator[Expr] = iter(parts)
        return [Pair(next(rest), next(rest), s) if s.is_complex else next(rest) for s in self.states]


def _flat(states: list[Expr]) -> Exprs:
    return tuple([part for s in states for part in (s.args if isinstance(s, Pair) else (s,))])
