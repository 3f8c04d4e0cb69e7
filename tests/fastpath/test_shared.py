"""Kernels that machine code shares among threads while helpers poll for work; otherwise Python runs large kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.codegen.llvm.compiler import compiler
from tenxor.codegen.llvm.parallel_for import IN_USE_OFFSET, SLEEPING_COUNT_OFFSET, WORK_QUEUE_BYTES
from tenxor.codegen.threads import worker_pool
from tenxor.codegen.threads.thread_count import PARALLEL_FOR_WORD, QUEUE_WORD, WORKER_COUNT_WORD, worker_handle
from tenxor.tensor import Tensor

pytestmark = pytest.mark.usefixtures("on", "two_threads")

RNG = np.random.default_rng(5)
X = tx.asarray(RNG.normal(size=60_000).astype("float32") * 4).realize()
M, N = (tx.asarray(RNG.normal(size=shape).astype("float32")).realize() for shape in ((170, 180), (180, 170)))
MUCH: dict[str, Callable[[], Tensor]] = {
    "a function": lambda: tx.gelu(tx.gelu(X)),
    "a product": lambda: M @ N + 1,
    "several kernels, one with memory for each thread": lambda: (M @ N + 1) @ M,
}
LESS: Callable[[], Tensor] = lambda: tx.exp(X)
SENT = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 7)
KERNEL = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)


@pytest.fixture
def two_threads(threads: Callable[[int], None]) -> None:
    threads(1)
    threads(2)


class Place:
    """The data structure through which a caller meets one helper, which runs a piece of each loop and is never late."""

    def __init__(self) -> None:
        self.memory = ctypes.create_string_buffer(WORK_QUEUE_BYTES)
        self.sent: list[tuple[int, ...]] = []
        self.share = SENT(self.run)

    def run(self, place: int, kernel: int, arguments: int, begin: int, end: int, piece: int, many: int) -> None:
        self.sent.append((kernel, begin, end, piece, many))
        assert place == ctypes.addressof(self.memory)
        for k, first in enumerate(range(begin, end, piece)):
            KERNEL(kernel)(arguments, first, min(first + piece, end), k % 2)

    def say(self, where: int, what: int) -> None:
        ctypes.c_int64.from_buffer(self.memory, where).value = what


@pytest.fixture
def place() -> Iterator[Place]:
    worker_pool._get_pool()  # who would tell of themselves when they are first needed
    before, found = list(worker_handle), Place()
    worker_handle[PARALLEL_FOR_WORD] = ctypes.cast(found.share, ctypes.c_void_p).value or 0
    worker_handle[QUEUE_WORD], worker_handle[WORKER_COUNT_WORD] = ctypes.addressof(found.memory), 1
    yield found
    worker_handle[:] = before


def bits(make: Callable[[], Tensor]) -> bytes:
    return make().to_numpy().tobytes()


def by_python(make: Callable[[], Tensor]) -> bytes:
    with fastpath.disabled():
        return bits(make)


@pytest.mark.parametrize("name", MUCH)
def test_large_kernels_are_shared_with_polling_helpers(name: str, place: Place, planned: list[object]) -> None:
    wanted = by_python(MUCH[name])
    bits(MUCH[name])
    planned.clear()
    place.sent.clear()
    assert bits(MUCH[name]) == wanted and place.sent and not planned
    least = {code.address: code.facts.min_grain for code in compiler().kernels.live_kernels.values()}
    for kernel, begin, end, piece, many in place.sent:
        assert (begin, many) == (0, 1) and piece % least[kernel] == 0
        assert 1 < -(-end // piece) <= 2 * compiler().target.thread_limits.chunks_per_thread


@pytest.mark.parametrize("why", ["one sleeps", "they are at work", "there are none"])
def test_python_shares_kernels_with_helpers_that_do_not_poll(why: str, place: Place, planned: list[object]) -> None:
    """Python wakes a sleeping helper, and waits without the GIL for a helper at work for another thread."""
    make = MUCH["a function"]
    wanted = bits(make)
    place.sent.clear()
    if why == "there are none":
        worker_handle[WORKER_COUNT_WORD] = 0
    else:
        place.say(SLEEPING_COUNT_OFFSET if why == "one sleeps" else IN_USE_OFFSET, 1)
    planned.clear()
    assert bits(make) == wanted and planned and not place.sent


def test_medium_kernels_are_shared_only_with_awake_helpers(place: Place, planned: list[object]) -> None:
    wanted = bits(LESS)
    planned.clear()
    place.sent.clear()
    assert bits(LESS) == wanted and len(place.sent) == 1
    place.say(SLEEPING_COUNT_OFFSET, 1)
    assert bits(LESS) == wanted and len(place.sent) == 1 and not planned


def test_small_kernels_are_not_shared(place: Place) -> None:
    (X + 1).realize()
    (X + 1).realize()
    assert not place.sent


def test_no_helper_is_called_after_a_change_of_thread_count() -> None:
    """Launch records for another number of threads call no helper, either."""
    make = MUCH["a function"]
    wanted = by_python(make)
    assert bits(make) == wanted and worker_handle[WORKER_COUNT_WORD] == 1
    for count in (3, 1, 2):
        tx.set_num_threads(count)
        assert worker_handle[WORKER_COUNT_WORD] == 0
        assert bits(make) == bits(make) == wanted
        assert worker_handle[WORKER_COUNT_WORD] == count - 1
