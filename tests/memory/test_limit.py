"""A limit on memory is never exceeded; a refused request raises an error with the figures and changes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import numpy as np
import pytest

import tenxor as tx
from tenxor import memory
from tenxor.errors import ArgumentError
from tenxor.memory.block_pool import pool
from tenxor.memory.buffer import Buffer, allocate
from tests.processes import python

from .conftest import used

MiB = 1 << 20


@pytest.fixture
def _no_limit_after() -> Iterator[None]:
    pool.release(pool.pooled)
    yield
    tx.set_memory_limit(None)


@pytest.mark.usefixtures("_no_limit_after")
class TestLimit:
    """Tensors never use more memory than allowed, and a refused request changes nothing."""

    def test_memory_limit_is_reported(self) -> None:
        assert tx.memory().limit is None
        tx.set_memory_limit(np.int64(1 << 40))  # type: ignore[arg-type]  # an integer of any kind
        assert tx.memory().limit == 1 << 40 and repr(tx.memory()).endswith(f"limit={1 << 40})")
        tx.set_memory_limit(None)
        assert tx.memory().limit is None

    def test_set_memory_limit_rejects_invalid_limits(self) -> None:
        t = tx.ones(1000).realize()
        for limit, message in {
            0: "positive",
            -5: "positive",
            "4 GiB": "'4 GiB'",
            2.5: r"2\.5",
            64: f"tensors use {used()} bytes, more than the limit of 64",
        }.items():
            with pytest.raises(ArgumentError, match=f"set_memory_limit: .*{message}"):
                tx.set_memory_limit(limit)  # type: ignore[arg-type]
        assert tx.memory().limit is None and t.sum().item() == 1000

    def test_memory_limit_error_names_the_operation_until_the_limit_is_raised(self) -> None:
        x = tx.ones((512, 512)).realize()
        start = used()
        tx.set_memory_limit(start + MiB)
        y = tx.exp(x * 0)
        message = (
            f"exp: no memory for (512, 512) float64, {2 * MiB} bytes, in a block of {2 * MiB}; {start} bytes are in use and"
            f" the limit is {start + MiB}: "
        )
        for _ in range(2):
            with pytest.raises(MemoryError, match=re.escape(message) + ".*set_memory_limit"):
                y.realize()
            assert y.storage.node.buffer is None and used() == start
        tx.set_memory_limit(start + 2 * MiB)
        assert y.realize()[3, 3].item() == 1.0

    def test_allocation_succeeds_after_other_tensors_are_freed(self) -> None:
        x = tx.ones((512, 512), dtype=tx.float32).realize()
        tx.set_memory_limit(used() + MiB)
        kept = (x + 1).realize()
        y = x + 2
        with pytest.raises(MemoryError, match="add: no memory"):
            y.realize()
        del kept
        assert y.realize()[0, 0].item() == 3.0

    def test_memory_limit_includes_the_pool_which_makes_way(self) -> None:
        start = used()
        pooled = [allocate(MiB) for _ in range(4)]
        del pooled
        tx.set_memory_limit(start + 3 * MiB)
        assert memory().pooled <= 3 * MiB
        block = allocate(2 * MiB + 5 * MiB // 8)
        assert memory().in_use + memory().pooled <= start + 3 * MiB
        del block

    def test_memory_limit_is_never_exceeded(self) -> None:
        limit = used() + 40 * 1000
        tx.set_memory_limit(limit)
        random = np.random.default_rng(5)
        held: list[Buffer] = []
        refused = 0
        for nbytes in random.integers(0, 20_000, 2000).tolist():
            if random.random() < 0.5 and held:
                del held[random.integers(len(held))]
            try:
                held.append(allocate(nbytes))
            except MemoryError:
                refused += 1
            assert memory().in_use <= memory().in_use + memory().pooled <= limit
        assert 100 < refused < 1900

    def test_memory_limit_excludes_foreign_memory(self) -> None:
        array = np.ones(1 << 20)
        tx.set_memory_limit(used() + MiB)
        assert tx.asarray(array, copy=False).sum().item() == 1 << 20
        with pytest.raises(MemoryError, match=re.escape(f"asarray: no memory for ({1 << 20},) float64, {8 * MiB} bytes")):
            tx.asarray(array)

    @pytest.mark.parametrize("pending", [False, True])
    def test_refused_write_leaves_the_tensor_unchanged(self, pending: bool) -> None:
        """A refused write may be repeated, so nothing of it may be done: `+=` would count twice."""
        x = tx.ones(1 << 17)
        if not pending:
            x.realize()
        view = x.view(tx.uint8)
        reader = x * 2
        tx.set_memory_limit(used() + MiB // 2)
        if pending:
            x[:2] += 1
            with pytest.raises(MemoryError):
                x.realize()
        add = lambda: x[:2].__iadd__(1)
        for write in (*([] if pending else [add]), lambda: x.__setitem__(slice(0, 2), 5.0), lambda: view[:8].__setitem__(0, 7)):
            before = x.storage.node
            with pytest.raises(MemoryError, match=f"no memory for .*, {MiB} bytes"):  # of a second pending write, too
                write()
            assert x.storage.node.buffer is before.buffer and (before.buffer is None) == pending
        tx.set_memory_limit(None)
        assert x[1].item() == 1.0 + pending and reader[0].item() == 2.0
        x[:2] += 1
        assert x[1].item() == 2.0 + pending

    def test_refused_update_of_a_long_graph_leaves_the_tensor_unchanged(self) -> None:
        x, count = tx.ones(1 << 17), 0
        tx.set_memory_limit(used() + MiB // 2)
        with pytest.raises(MemoryError):
            for count in range(1000):  # noqa: B007  # those that did not raise
                x += 1
        assert 100 < count < 999
        tx.set_memory_limit(None)
        assert x[0].item() == 1.0 + count

    def test_memory_limit_comes_from_the_environment(self) -> None:
        program = """
import tenxor as tx
assert tx.memory().limit == 3000000, tx.memory()
tx.ones(100_000).realize()
try:
    tx.ones(1_000_000).realize()
except MemoryError as error:
    assert "the limit is 3000000" in str(error)
else:
    raise SystemExit("the limit is not kept")
"""
        for limit, message in (
            ("3000000", ""),
            ("3 GB", "TENXOR_MEMORY_LIMIT: the limit is '3 GB'"),
        ):
            environment = {**os.environ, "TENXOR_MEMORY_LIMIT": limit}
            found = python("-c", program, env=environment, well=False)
            assert (found.returncode == 0) == (not message) and message in found.stderr, found.stderr
