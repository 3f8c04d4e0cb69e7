"""Invalid draws raise at the call, and do not advance the generator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, OutOfBounds, ShapeError
from tenxor.random import Generator


@pytest.mark.parametrize(
    ("draw", "error", "says"),
    [
        (lambda g: g.uniform(2.0, 1.0, 3), ArgumentError, "uniform: low 2.0 is above high 1.0"),
        (lambda g: g.uniform(100), ArgumentError, "shape="),
        (lambda g: g.uniform((3, 2)), ArgumentError, r"uniform: low .* not \(3, 2\).*shape="),
        (lambda g: g.uniform(0, float("inf")), ArgumentError, "high .* finite"),
        (lambda g: g.uniform(float("nan"), 1), ArgumentError, "low .* finite"),
        (lambda g: g.uniform(-1e308, 1e308), OutOfBounds, "float64"),
        (lambda g: g.uniform(0, 1e39, dtype=tx.float32), OutOfBounds, "float32"),
        (lambda g: g.uniform(0, 1, -1), ShapeError, "negative"),
        (lambda g: g.random((2, -3)), ShapeError, r"random: shape \(2, -3\)"),
        (lambda g: g.random(2.5), ArgumentError, "2.5"),
        (lambda g: g.random(2, size=3), ArgumentError, "shape and size"),
        (lambda g: g.random(3, tx.int32), DTypeError, "random: .*int32"),
        (lambda g: g.random(3, tx.float16), DTypeError, "float16; it must be"),
        (lambda g: g.random(3, tx.bfloat16), DTypeError, "bfloat16; it must be"),
        (lambda g: g.normal(shape=3, dtype=tx.bool), DTypeError, "bool"),
        (lambda g: g.normal(0.0, -1.0, 3), ArgumentError, "std is -1.0"),
        (lambda g: g.normal("a"), ArgumentError, "mean"),
        (lambda g: g.normal(tx.zeros(3), 1.0), ArgumentError, "mean .*one"),
        (lambda g: g.integers(5, 5), ArgumentError, "from 5 to 4"),
        (lambda g: g.integers(0), ArgumentError, "from 0 to -1"),
        (lambda g: g.integers(0, 1.5), ArgumentError, "high .* 1.5"),
        (lambda g: g.integers(0, 300, dtype=tx.uint8), OutOfBounds, "do not fit uint8"),
        (lambda g: g.integers(0, 2**63, endpoint=True), OutOfBounds, "int64"),
        (lambda g: g.integers(0, 2, dtype=tx.bool), DTypeError, "bool"),
        (lambda g: g.integers(0, 2, dtype=tx.float32), DTypeError, "float32"),
        (lambda g: g.permutation(-1), ShapeError, "permutation.*negative"),
        (lambda g: g.permutation(2.5), ShapeError, "permutation.*rows"),
        (lambda g: g.permutation(tx.asarray(3)), ShapeError, "0-d"),
        (lambda g: g.permutation(int), DTypeError, "is not a number"),
        (lambda g: g.shuffle([1, 2]), ArgumentError, "shuffle.*permutation"),
        (lambda g: g.choice(3, 4, replace=False), ArgumentError, "3 to choose from, and 4 .*replace=True"),
        (lambda g: g.choice(0), ArgumentError, "0 to choose from"),
        (lambda g: Generator(-1), ArgumentError, "seed is -1"),
        (lambda g: Generator(2**64), ArgumentError, "seed"),
        (lambda g: Generator(1.5), ArgumentError, "seed .* 1.5"),
        (lambda g: g.seed("a"), ArgumentError, "seed .* 'a'"),
    ],
)
def test_invalid_draws_raise_at_the_call_and_do_not_advance_the_generator(
    draw: Callable[[Generator], object], error: type[Exception], says: str
) -> None:
    g = Generator(0)
    with pytest.raises(error, match=says):
        draw(g)
    assert g.random(3).tolist() == Generator(0).random(3).tolist(), "a refused draw must not count"
