"""Results larger than a block of the fast path use memory of the pool: they are computed by frames too, up to a limit in bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.fastpath import graph_launch
from tenxor.fastpath.limits import MAX_SMALL_BLOCK_BYTES

pytestmark = pytest.mark.usefixtures("on", "afresh")

RNG = np.random.default_rng(8)
MOST = graph_launch.MAX_RESULT_BYTES // 8
X, Y = RNG.normal(size=MOST + 8), RNG.normal(size=MOST + 8)
SIZES = [MAX_SMALL_BLOCK_BYTES // 8 + 1 + 1031 * k for k in range(60)]
OTHERS = [MAX_SMALL_BLOCK_BYTES // 8 + 5 + 7919 * k for k in range(20)]

Program = Callable[[Any, Any, int], Any]
GRAPHS: dict[str, Program] = {
    "a number": lambda x, y, n: x[:n] * 2.5,
    "two views": lambda x, y, n: x[:n] * 2 + y[1 : n + 1],
    "backwards": lambda x, y, n: x[n:0:-1] - y[:n],
    "a choice": lambda x, y, n: tx.where(x[:n] > 0.5, y[:n], x[1 : n + 1]),
    "less a mean": lambda x, y, n: x[:n] - y[:n].mean(),
    "across": lambda x, y, n: x[: n // 100 + 1, None] * y[None, :100],
    "single": lambda x, y, n: (x[: 2 * n] * 0.5 + y[2 : 2 * n + 2]).astype("float32"),
}
MUCH: Program = lambda x, y, n: tx.sin(tx.exp(tx.tanh(x[:n]) * y[:n]) + tx.log(abs(x[1 : n + 1]) + 1.0)) ** 3.0


@pytest.fixture
def python_frames(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Record the frames that Python makes."""
    found: list[bytes] = []
    keep = graph_launch._store_record
    monkeypatch.setattr(graph_launch, "_store_record", lambda *args: (found.append(args[3]), keep(*args))[1])
    yield found


def operands() -> tuple[Any, Any]:
    return tx.asarray(X).realize(), tx.asarray(Y).realize()


def bits(found: Any) -> tuple[str, tuple[int, ...], bytes]:
    return str(found.dtype), found.shape, found.numpy().tobytes()


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", GRAPHS)
def test_large_graphs_of_other_sizes_are_computed_without_python(name: str, planned: list[object], python_frames: list[bytes]) -> None:
    program, (x, y) = GRAPHS[name], operands()
    for n in SIZES:
        assert program(x, y, n).realize().spec.nbytes > MAX_SMALL_BLOCK_BYTES
    planned.clear(), python_frames.clear()
    found = [program(x, y, n).realize() for n in OTHERS]
    assert len(planned) + len(python_frames) <= 4  # of 20: some are planned otherwise
    with fastpath.disabled():
        assert [bits(program(x, y, n)) for n in OTHERS] == list(map(bits, found))


@pytest.mark.usefixtures("one_thread")
def test_tensors_above_the_byte_limit_are_planned_by_python(planned: list[object]) -> None:
    x, _ = operands()
    planned.clear()
    for n in (MOST + 1, MOST + 2, MOST + 1):
        (x[:n] * 2.0).realize()
    assert len(planned) == 3 and not graph_launch.graph_records


@pytest.mark.usefixtures("one_thread")
def test_graphs_too_large_for_a_launch_record_of_new_sizes_are_planned_once_each(planned: list[object], python_frames: list[bytes]) -> None:
    x, y = operands()
    sizes = [300_001 + 1031 * k for k in range(60)]
    for n in sizes[:40]:
        MUCH(x, y, n).realize()
    planned.clear(), python_frames.clear()
    found = [MUCH(x, y, n).realize() for n in sizes[40:]]
    assert len(python_frames) <= 2 and len(planned) == 20
    with fastpath.disabled():
        assert [bits(MUCH(x, y, n)) for n in sizes[40:]] == list(map(bits, found))


@pytest.mark.usefixtures("one_thread")
def test_memory_without_other_owners_is_reused_for_the_result() -> None:
    x, _ = operands()
    for n in (*SIZES, *OTHERS):
        old = (x[:n] * 2.0).realize()
        address, kept = old.node.buffer.address, old if n % 2 else None
        new = old + 1.0
        del old
        new.realize()
        assert (new.node.buffer.address == address) == (kept is None)
        assert kept is None or kept.numpy().tobytes() == (X[:n] * 2.0).tobytes()
        assert new.numpy().tobytes() == (X[:n] * 2.0 + 1.0).tobytes()


@pytest.mark.usefixtures("one_thread")
def test_out_of_memory_error_names_the_operation() -> None:
    x, _ = operands()
    n = 200_000
    for _ in range(3):
        (x[:n] * 2.0).realize()
    tx.set_memory_limit(tx.memory().in_use + 1_000_000)
    try:
        pending = x[:n] * 2.0
        with pytest.raises(MemoryError, match=r"multiply: no memory for \(200000,\) float64, 1600000 bytes"):
            pending.realize()
    finally:
        tx.set_memory_limit(None)
    assert pending.numpy().tobytes() == (X[:n] * 2.0).tobytes()


@pytest.mark.parametrize("count", [1, 2])
def test_random_large_graphs_match_python(count: int, threads: Callable[[int], None]) -> None:
    threads(count)
    x, y = operands()
    rng = random.Random(count)
    operations: list[Callable[[Any, Any], Any]] = [
        *(lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - 0.5, tx.maximum, lambda a, b: tx.where(a < b, a, 2.0)),
        *(lambda a, b: tx.tanh(a), lambda a, b: a - a.max()),
    ]

    def graph(shape: int, n: int) -> Any:
        """Return a graph that is the same for one seed, at any size."""
        own = random.Random(shape)
        known = [x[:n], y[own.randrange(4) :][:n], x[n:0:-1], y[:n].mean()]
        for _ in range(own.randrange(1, 6)):
            known.append(own.choice(operations)(own.choice(known), own.choice(known)))
        return known[-1] + own.choice(known[:3])

    for turn in range(120):
        shape, n = rng.randrange(8), rng.choice([rng.randrange(100_000, 500_000), 1 << 17, 1 << 18, 131_073])
        found = bits(graph(shape, n))
        with fastpath.disabled():
            assert bits(graph(shape, n)) == found, (turn, shape, n)
