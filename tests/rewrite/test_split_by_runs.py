"""Reads through piecewise affine tables are split into pieces without tables, with equal bits."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.api import concatenation
from tenxor.graph.node import STORE
from tenxor.layout import Table
from tenxor.lowering.fuse import collect_pending
from tenxor.rewrite import split_by_runs
from tenxor.rewrite.rewrite_passes import rewrite_graph
from tenxor.runtime.realize import evict_plans

N = 12


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Split small operands too, and roll lazily."""
    monkeypatch.setattr(split_by_runs, "MIN_PIECE_ELEMENTS", 1)
    monkeypatch.setattr(concatenation, "MIN_LAZY_ROLL_BYTES", 1)
    evict_plans()
    yield
    evict_plans()


@pytest.mark.parametrize(
    ("offsets", "breaks"),
    [
        ([5, 0, 1, 2, 3, 4], [1]),
        ([3, 4, 5, 0, 1, 2], [3]),
        ([1, 2, 3, 4, 5, 0], [5]),
        ([0, 0, 1, 2, 3, 3], [1, 5]),
        ([2, 1, 0, 1, 2, 3], [1, 2]),
        ([0, 2, 4, 1, 3, 5], [3]),
        ([0, 1, 2, 9], [3]),
        ([0, 9], []),
        ([8, 9, 0, 1, 2, 3], [2]),
    ],
)
def test_breaks_of_an_offset_table_are_where_its_step_changes(offsets: list[int], breaks: list[int]) -> None:
    table = Table(np.array(offsets) - offsets[0])
    assert split_by_runs._find_breaks(table) == breaks
    for start, end in zip([0, *breaks], [*breaks, len(offsets)], strict=True):
        assert len(set(np.diff(offsets[start:end]).tolist())) <= 1


def test_number_of_breaks_of_an_offset_table_is_bounded() -> None:
    breaks = split_by_runs._find_breaks(Table(np.random.default_rng(0).permutation(5000)))
    assert len(breaks) == split_by_runs.MAX_PIECES + 1


def rolls(x: Any, lib: Any) -> Any:
    total = x * 0
    for i in (-1, 0, 2):
        for j in (0, 1):
            total = total + lib.roll(x, (i, j), (0, 1))
    return total


STENCILS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "rolls both ways": (rolls, 6),  # cut behind two rows, before the last one, and behind the first column
    "along rows": (lambda x, lib: lib.roll(x, 1, 1) - x, 2),
    "in front and behind": (lambda x, lib: lib.roll(x, 1, 1) + lib.roll(x, -1, 1) - 2 * x, 3),
    "single": (lambda x, lib: lib.roll(x, 3, 1), 2),
    "flattened": (lambda x, lib: lib.roll(x, 5) * 2, 2),
    "of what is made": (lambda x, lib: lib.roll(lib.sqrt(x), 2, 1) * lib.sqrt(x), 2),
    "of rolled ones": (lambda x, lib: lib.roll(lib.roll(x, 1, 1) + x, -2, 1) * x, 4),
    "columns only": (lambda x, lib: lib.roll(x, 1, 0) - x, 0),
}


@pytest.mark.parametrize("name", STENCILS)
@pytest.mark.usefixtures("_small_pieces")
def test_stencils_are_split_and_match_numpy(name: str) -> None:
    function, count = STENCILS[name]
    a = np.random.default_rng(0).random((N, N + 3))
    result = function(tx.asarray(a), tx)
    order = collect_pending([result.storage.node])
    stored = [node for node in set(rewrite_graph(order, order[-1:]).values()) if node.op is STORE]
    assert stored or not count
    graph = collect_pending([rewrite_graph(order, order[-1:]).get(order[-1], order[-1])])
    assert len([node for node in graph if node.op is STORE]) == count
    assert np.array_equal(result.to_numpy(), function(a, np))


def test_large_stencils_are_split() -> None:
    a = np.random.default_rng(0).integers(0, 2, (900, 1000), np.uint8)
    x = tx.asarray(a)
    result = rolls(x, tx)
    order = collect_pending([result.storage.node])
    assert [node for node in rewrite_graph(order, order[-1:]).values() if node.op is STORE]
    assert np.array_equal(result.to_numpy(), rolls(a, np))


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_match_numpy_and_single_steps(seed: int) -> None:
    """Programs of rolled, gathered and reversed operands match NumPy, and have the bits of single steps."""
    single_steps = program(seed, tx, lambda t: t.realize())
    for _ in range(3):
        for t, expected, wanted in zip(program(seed, tx), single_steps, program(seed, np), strict=True):
            assert t.shape == wanted.shape
            assert np.allclose(t.to_numpy(), wanted, rtol=1e-11, atol=1e-11)
            assert t.to_numpy().tobytes() == expected.to_numpy().tobytes()


def program(seed: int, lib: Any, step: Callable[[Any], Any] = lambda x: x) -> list[Any]:
    rng = random.Random(seed)
    shape = (rng.choice([100, 257, 300]), rng.choice([700, 801, 1024]))
    values = [lib.asarray(np.random.default_rng(seed + k).normal(size=shape)) for k in range(2)]

    def rearrange(x: Any) -> Any:
        if rng.random() < 0.7:
            axes = rng.choice([(0, 1), (1,), (0,)])
            return step(lib.roll(x, tuple(rng.randrange(-4, 5) for _ in axes), axes))
        shift = rng.randrange(shape[1])
        columns = [(k * rng.choice([1, 1, -1]) + shift) % shape[1] for k in range(shape[1])]
        return x[:, columns] if lib is np else x.oindex[None, columns]

    for _ in range(rng.randrange(1, 7)):
        x, y = rng.choice(values), rng.choice(values)
        match rng.randrange(7):
            case 0 | 1:
                values.append(rearrange(x) + y)
            case 2:
                values.append(rearrange(x) * rearrange(y) - x)
            case 3:
                values.append(x * 0.5 + rearrange(y).sum(axis=1, keepdims=True))
            case 4:
                values.append((rearrange(x) * y).sum(axis=0) - y[::-1])
            case 5:
                z = rearrange(x) * 1.0
                z[:, 1:] = rearrange(y)[:, :-1]
                values.append(z + y)
            case 6:
                values.append(lib.tanh(rearrange(x)))
        step(values[-1])
    return [values[-1], *rng.sample(values[2:], min(2, len(values) - 2)), rearrange(values[-1])]
