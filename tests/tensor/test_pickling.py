"""Pickles with memory out of band (protocol 5): nothing is copied, and no other tensor changes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx


def round_trip(t: tx.Tensor) -> tuple[tx.Tensor, list[pickle.PickleBuffer]]:
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(t, protocol=5, buffer_callback=buffers.append)
    assert len(content) < 300 or t.size < 100
    return pickle.loads(content, buffers=buffers), buffers


def test_protocol_5_pickle_transfers_memory_without_a_copy() -> None:
    t = tx.arange(100_000)
    restored, buffers = round_trip(t)
    assert len(buffers) == 1 and np.shares_memory(np.asarray(restored), np.asarray(t))
    reader = restored + 1
    t[0] = 7  # both tensors share the buffer and see the write; the earlier reader does not
    assert restored[0].item() == 7 and reader[0].item() == 1


VIEWS: dict[str, Callable[[tx.Tensor], tx.Tensor]] = {
    "transposed": lambda t: t.T,
    "reversed": lambda t: t[::-1],
    "a chain": lambda t: t.T.reshape(-1),
    "broadcast": lambda t: t.expand((2, 3, 4)),
    "bfloat16": lambda t: t.astype(tx.bfloat16),
    "pending": lambda t: t * 2,
    "nothing": lambda t: t[3:],
    "0-d": lambda t: t[1, 2, ...],
    "an element": lambda t: t[1, 2],
    "with a past": lambda t: t.astype(tx.float64).requires_grad_() * 2,
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_every_view_is_restored_writable_and_equal_by_pickle_and_deepcopy(view: Callable[[tx.Tensor], tx.Tensor]) -> None:
    t = view(tx.arange(12).reshape(3, 4))
    wanted = (t.shape, t.dtype, t.tolist())
    for restored in (pickle.loads(pickle.dumps(t, 5)), pickle.loads(pickle.dumps(t, 2)), copy.deepcopy(t), round_trip(t)[0]):
        assert (restored.shape, restored.dtype, restored.tolist()) == wanted
        restored[...] = 0
        assert not restored.any()


def test_each_unpickled_tensor_has_separate_memory() -> None:
    content = pickle.dumps(tx.arange(5), 5)
    first, second = pickle.loads(content), pickle.loads(content)
    first[0] = 9
    assert (first.tolist(), second.tolist()) == ([9, 1, 2, 3, 4], [0, 1, 2, 3, 4])


def test_read_only_pickle_buffers_are_never_written() -> None:
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(tx.arange(5), protocol=5, buffer_callback=buffers.append)
    content_bytes = bytes(buffers[0].raw())
    t = pickle.loads(content, buffers=[content_bytes])
    t[0] = 9
    assert t.tolist() == [9, 1, 2, 3, 4] and np.frombuffer(content_bytes, np.int64).tolist() == [0, 1, 2, 3, 4]
    for wrong in (b"123", content_bytes[:16], b""):
        with pytest.raises(ValueError):
            pickle.loads(content, buffers=[wrong])


@pytest.mark.parametrize("start", range(9))
def test_pickle_buffers_may_be_misaligned(start: int) -> None:
    """Buffers received over a network may begin at any address."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(tx.arange(5), protocol=5, buffer_callback=buffers.append)
    message = bytearray(16) + bytes(buffers[0].raw())
    message = message[16 - start :] + bytes(8)
    t = pickle.loads(content, buffers=[memoryview(message)[start : start + 40]])
    assert t.tolist() == [0, 1, 2, 3, 4] and (t + 1).tolist() == [1, 2, 3, 4, 5]
