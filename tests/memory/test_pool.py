"""The pool keeps what was needed a short while ago, and gives the rest back."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from tenxor.pool import SPARE, Block, Pool, capacity_of

MiB = 1 << 20
module = sys.modules["tenxor.pool"]


class Blocks:
    """A pool of blocks that take no memory, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(module, "monotonic", lambda: self.now)
        monkeypatch.setattr(module, "MAX_POOLED", 1 << 50)
        monkeypatch.setattr(Pool, "new", lambda pool, nbytes: self.new())
        self.made = 0
        self.pool = Pool()

    def new(self) -> Block:
        self.made += 1
        return np.empty(0, np.uint8), self.made

    def take(self, nbytes: int) -> tuple[int, Block]:
        block = self.pool.take(capacity_of(nbytes))
        assert block is not None
        return capacity_of(nbytes), block


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Blocks]:
    yield Blocks(monkeypatch)


def test_what_is_needed_again_and_again_is_made_once(blocks: Blocks) -> None:
    for _ in range(50):
        taken = [blocks.take(n * MiB) for n in (300, 20, 1, 20, 500)]
        blocks.now += 0.3
        for one in taken:
            blocks.pool.give(*one)
    assert blocks.made == 5


def test_blocks_of_ever_other_sizes_are_bounded_by_what_is_in_use(blocks: Blocks) -> None:
    numbers, taken = random.Random(0), []
    for _ in range(3000):
        taken.append(blocks.take(numbers.randrange(MiB, 40 * MiB)))
        blocks.now += 0.001
        while blocks.pool.in_use > 1600 * MiB:
            blocks.pool.give(*taken.pop(numbers.randrange(len(taken))))
        assert blocks.pool.in_use + blocks.pool.pooled <= 1.25 * (1600 + 45) * MiB + SPARE
        assert sum(size * len(free) for size, free in blocks.pool.free.items()) == blocks.pool.pooled


def test_the_oldest_go_first(blocks: Blocks) -> None:
    taken = [blocks.take(n * MiB) for n in (100, 200, 300)]
    for one in taken:
        blocks.pool.give(*one)
    blocks.pool.release(50 * MiB)
    assert [size // MiB for size, free in blocks.pool.free.items() if free] == [208, 320]
    again = blocks.take(200 * MiB)
    blocks.pool.give(*again)
    blocks.pool.release(50 * MiB)
    assert [size // MiB for size, free in blocks.pool.free.items() if free] == [208]


def test_what_is_needed_no_more_is_forgotten_by_and_by(blocks: Blocks) -> None:
    large = [blocks.take(1024 * MiB) for _ in range(4)]
    for one in large:
        blocks.pool.give(*one)
    held = [blocks.pool.pooled]
    for _ in range(12):
        blocks.now += module.FORGOTTEN
        blocks.pool.give(*blocks.take(MiB))
        held.append(blocks.pool.pooled)
    assert held[0] == 4096 * MiB and held[1] <= 2600 * MiB and held[2] <= 1350 * MiB
    assert held == sorted(held, reverse=True) and held[-1] <= SPARE


def test_a_pause_of_a_moment_costs_nothing(blocks: Blocks) -> None:
    blocks.pool.give(*blocks.take(1024 * MiB))
    blocks.now += 0.9 * module.FORGOTTEN
    blocks.take(1024 * MiB)
    assert blocks.made == 1
