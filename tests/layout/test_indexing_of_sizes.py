"""Slices of sizes that remember: what they are for others, too."""

from __future__ import annotations

import random

from tenxor.layout import Layout
from tenxor.sizes import Trace


def test_slices_of_sizes_hold_for_all_that_give_the_same_answers() -> None:
    rng = random.Random(3)
    suited = 0
    for _ in range(3000):
        bounds = [rng.choice([None, rng.randrange(-12, 13)]) for _ in range(2)]
        key = (slice(*bounds, rng.choice([None, 1, 2, 3, -1, -2, 7, -7])),)
        trace, size = Trace(), rng.randrange(2, 12)
        n = trace.size(size)
        cut = Layout((n,), (1,), 0).index(key)  # type: ignore[arg-type]
        found = trace.written((cut.shape, cut.strides, cut.offset))
        for other in (size, rng.randrange(2, 12), rng.randrange(2, 40)):
            own = Layout((other,), (1,), 0).index(key)
            given = found(other)
            assert given == (own.shape, own.strides, own.offset) or (given is None and other != size), (key, size, other)
            suited += given is not None and other != size
    assert suited > 1500
