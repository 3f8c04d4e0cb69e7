"""Slices of axes with symbolic sizes: the result is valid for all sizes that satisfy the guards."""

from __future__ import annotations

import random

from tenxor.layout import Layout
from tenxor.symbolic.symint import SizeTrace


def test_slices_of_symbolic_sizes_are_valid_while_guards_hold() -> None:
    rng = random.Random(3)
    match_count = 0
    for _ in range(3000):
        bounds = [rng.choice([None, rng.randrange(-12, 13)]) for _ in range(2)]
        key = (slice(*bounds, rng.choice([None, 1, 2, 3, -1, -2, 7, -7])),)
        trace, size = SizeTrace(), rng.randrange(2, 12)
        n = trace.add_input(size)
        cut = Layout((n,), (1,), 0).index(key)  # type: ignore[arg-type]
        evaluate = trace.compile_function((cut.shape, cut.strides, cut.offset))
        for other_size in (size, rng.randrange(2, 12), rng.randrange(2, 40)):
            expected = Layout((other_size,), (1,), 0).index(key)
            result = evaluate(other_size)
            assert result == (expected.shape, expected.strides, expected.offset) or (result is None and other_size != size), (
                key,
                size,
                other_size,
            )
            match_count += result is not None and other_size != size
    assert match_count > 1500
