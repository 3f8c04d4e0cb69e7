"""Random sums and products of matrices, rows and columns, whose bits must not depend on how they are computed.

The order of additions belongs to the operation: the bits are the same whether it is fused or alone, and whether its operands are pending or
computed. The right factors of matrix products are in memory, since a product is planned by the location of its factors.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

import tenxor as tx
from tenxor import fastpath

SIZES = [2, 3, 4, 5, 7, 8, 13, 20, 33, 50]
DEPTH = 3
BINARY = [("+", tx.add), ("-", tx.subtract), ("*", tx.multiply)]

Made = tuple[str, tx.Tensor]  # how an expression is written, and its value


class Sums:
    """One random expression of a seed, with the same values each time it is made."""

    def __init__(self, seed: int, given: Callable[[tx.Tensor], tx.Tensor] = lambda t: t) -> None:
        self.rng, self.given = random.Random(seed), given
        self.values = np.random.default_rng(seed)
        self.m, self.n = self.rng.choice(SIZES), self.rng.choice(SIZES)
        self.dtype = self.rng.choice(["float64", "float32"])
        matrices = [self.array(shape) for shape in ((self.m, self.n), (self.m, self.n), (self.n, self.m))]
        rows, columns = [self.array((self.n,)) for _ in range(2)], [self.array((self.m, 1)) for _ in range(2)]
        self.x, self.y, self.z = [tx.asarray(a).realize() for a in matrices]
        (self.r, self.s), (self.c, self.d) = [[tx.asarray(a).realize() for a in of] for of in (rows, columns)]
        self.wide = tx.asarray(self.array((2 * self.m, 2 * self.n + 1))).realize()

    def array(self, shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return self.values.normal(size=shape).astype(self.dtype)

    def made(self) -> Made:
        """Return the expression: a number, a row, a column or a matrix."""
        return self.rng.choice([self.matrix, self.row, self.column, self.number])(DEPTH)

    def reduced(self, text: str, value: tx.Tensor) -> Made:
        return text, self.given(value)

    def summed(self, one: Made, extreme: str, *axes: int, **named: bool) -> Made:
        """Return a sum, mean or extreme of an expression along some axes."""
        name = self.rng.choice(["sum", "mean", extreme])
        given = ", ".join([*map(str, axes), *[f"{key}={value}" for key, value in named.items()]])
        return self.reduced(f"{one[0]}.{name}({given})", getattr(one[1], name)(*axes, **named))

    def both(self, one: Made, other: Made) -> Made:
        sign, op = self.rng.choice(BINARY)
        return f"({one[0]} {sign} {other[0]})", op(one[1], other[1])

    def changed(self, one: Made) -> Made:
        name, op = self.rng.choice([("abs", tx.abs), ("exp", lambda t: tx.exp(tx.minimum(t, 1.0))), ("square", tx.square)])
        return f"{name}({one[0]})", op(one[1])

    def matrix(self, depth: int) -> Made:
        """Return an m × n matrix."""
        if depth == 0 or self.rng.random() < 0.2:
            pieces = [("x", self.x), ("y", self.y), ("z.T", self.z.T), ("wide[::2, :-1:2]", self.wide[::2, :-1:2])]
            pieces += [("wide[:m, 1:n+1]", self.wide[: self.m, 1 : self.n + 1]), ("x[::-1]", self.x[::-1]), ("y[:, ::-1]", self.y[:, ::-1])]
            pieces += [("wide.T[:n, :m].T", self.wide.T[: self.n, : self.m].T)]
            pieces += [("wide[1::2, ::2][:, :n]", self.wide[1::2, ::2][:, : self.n])]
            return self.rng.choice(pieces)
        kind = self.rng.randrange(5)
        if kind == 0:
            return self.both(self.matrix(depth - 1), self.matrix(depth - 1))
        if kind == 1:
            return self.both(self.matrix(depth - 1), self.rng.choice([self.row, self.column, self.number])(depth - 1))
        if kind == 2:
            return self.both(self.column(depth - 1), self.row(depth - 1))
        if kind == 3:
            (a, s), (b, t), (c, u) = self.matrix(0), self.matrix(0), self.matrix(0)
            return self.reduced(f"({a} @ {b}.T @ {c})", self.given(s @ t.T) @ u)
        return self.changed(self.matrix(depth - 1))

    def row(self, depth: int) -> Made:
        """Return a row of n elements."""
        if depth == 0 or self.rng.random() < 0.2:
            pieces = [("r", self.r), ("s", self.s), ("x[0]", self.x[0]), ("z[:, 0]", self.z[:, 0]), ("r[::-1]", self.r[::-1])]
            ones, counted = tx.ones(self.n, dtype=self.dtype), tx.arange(self.n, dtype=self.dtype)
            return self.rng.choice([*pieces, ("ones", ones), ("arange", counted)])
        kind = self.rng.randrange(5)
        if kind == 0:
            return self.both(self.row(depth - 1), self.rng.choice([self.row, self.number])(depth - 1))
        if kind == 1:
            return self.summed(self.matrix(depth - 1), "max", 0)
        if kind == 2:
            (a, s), (b, t) = self.column(depth - 1), self.matrix(depth - 1)
            return self.reduced(f"({a}[:, 0] @ {b})", s[:, 0] @ t)
        if kind == 3:
            (a, s), (b, t) = self.matrix(depth - 1), self.column(depth - 1)
            return self.reduced(f"({a}.T @ {b}[:, 0])", s.T @ t[:, 0])
        return self.changed(self.row(depth - 1))

    def column(self, depth: int) -> Made:
        """Return an m × 1 column."""
        if depth == 0 or self.rng.random() < 0.2:
            pieces = [("c", self.c), ("d", self.d), ("x[:, :1]", self.x[:, :1]), ("z[0][:, None]", self.z[0][:, None])]
            return self.rng.choice(pieces)
        kind = self.rng.randrange(4)
        if kind == 0:
            return self.both(self.column(depth - 1), self.rng.choice([self.column, self.number])(depth - 1))
        if kind == 1:
            return self.summed(self.matrix(depth - 1), "min", 1, keepdims=True)
        if kind == 2:
            (a, s), (b, t) = self.matrix(depth - 1), self.row(depth - 1)
            text, value = self.reduced(f"({a} @ {b})", s @ t)
            return f"{text}[:, None]", value[:, None]
        return self.changed(self.column(depth - 1))

    def number(self, depth: int) -> Made:
        """Return a zero-dimensional expression."""
        if depth == 0 or self.rng.random() < 0.1:
            return self.rng.choice([("r[0]", self.r[0]), ("0.5", tx.asarray(0.5, dtype=self.dtype)), ("x[-1, 0]", self.x[-1, 0])])
        kind = self.rng.randrange(3)
        if kind == 0:
            (a, s), (b, t) = self.row(depth - 1), self.row(depth - 1)
            return self.reduced(f"({a} @ {b})", s @ t)
        return self.summed(self.rng.choice([self.matrix, self.row, self.column])(depth - 1), "max")


def differences(seed: int) -> list[str]:
    """Return the differences in the bits of one expression, if any."""
    with np.errstate(all="ignore"):
        text, short = Sums(seed).made()
        bits = short.numpy().tobytes()
        with fastpath.disabled():
            fused = Sums(seed).made()[1].numpy().tobytes()
            apart = Sums(seed, tx.Tensor.realize).made()[1].numpy().tobytes()
    found = [f"with the fast path: {text}"] * (bits != fused)
    return found + [f"each sum on its own: {text}"] * (apart != fused)
