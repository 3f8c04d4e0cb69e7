"""Buffers: aligned memory from a pool, and memory that belongs to somebody else.

A fresh large allocation costs more in page faults than most kernels cost in work, so freed blocks are kept by size and
handed out again. A `Buffer` gives its block back when it dies. Memory that others may write is *pinned*: see `node.py`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .dtypes import DType

Array = np.ndarray[Any, Any]
ALIGNMENT = 64
MAX_POOLED = 1 << 30  # bytes kept for reuse at the most
_Block = tuple[Array, int]


class _Pool:
    """Free blocks by size, and the counts of bytes."""

    __slots__ = ("free", "in_use", "peak", "pooled")

    def __init__(self) -> None:
        self.free: dict[int, list[_Block]] = {}
        self.in_use = self.peak = self.pooled = 0


_pool = _Pool()


class Buffer:
    """A piece of memory: `address` and `nbytes`, with `array`, the same bytes as NumPy sees them.

    `pins` counts those who may write it behind our back (exports alive; foreign memory counts as one for ever).
    `frozen` says that it must never be written: it is somebody's read-only memory.
    """

    __slots__ = ("_capacity", "_typed", "_typed_as", "address", "array", "frozen", "nbytes", "owner", "pins")

    def __init__(self, array: Array, address: int, nbytes: int, capacity: int) -> None:
        self.array, self.address, self.nbytes, self._capacity = array, address, nbytes, capacity
        self.pins = 0
        self.frozen = False
        self.owner: object = None
        self._typed: Array | None = None
        self._typed_as: DType | None = None

    def typed(self, dtype: DType) -> Array:
        """The elements as a 1-D NumPy array over the same memory (`bfloat16` as its bits)."""
        if self._typed_as is dtype:
            assert self._typed is not None
            return self._typed
        size = self.nbytes // dtype.itemsize
        self._typed = self.array[: size * dtype.itemsize].view(dtype.numpy)
        self._typed_as = dtype
        return self._typed

    def __del__(self) -> None:
        capacity = self._capacity
        if capacity:
            _pool.in_use -= capacity
            if _pool.pooled + capacity <= MAX_POOLED:
                _pool.pooled += capacity
                blocks = _pool.free.get(capacity)
                if blocks is None:
                    blocks = _pool.free[capacity] = []
                blocks.append((self.array, self.address))


def _capacity(nbytes: int) -> int:
    """The block size for a request: steps of 64 bytes, then of about an eighth, so that near sizes share blocks."""
    if nbytes <= 4096:
        return (nbytes + 63) & -64 if nbytes else 64
    step = 1 << (nbytes.bit_length() - 4)
    return (nbytes + step - 1) & -step


def allocate(nbytes: int) -> Buffer:
    """A buffer of at least `nbytes` bytes, aligned to 64, its content undefined. MemoryError names the size."""
    capacity = _capacity(nbytes)
    blocks = _pool.free.get(capacity)
    if blocks:
        array, address = blocks.pop()
        _pool.pooled -= capacity
    else:
        raw = _new(capacity + ALIGNMENT)
        if raw is None:
            release_pool()  # what is only kept for reuse makes way
            raw = _new(capacity + ALIGNMENT)
        if raw is None:
            raise MemoryError(f"tenxor: no memory for a tensor of {nbytes} bytes ({_pool.in_use} bytes are in use)")
        start = -raw.__array_interface__["data"][0] % ALIGNMENT
        array = raw[start : start + capacity]
        address = array.__array_interface__["data"][0]
    _pool.in_use += capacity
    if _pool.in_use > _pool.peak:
        _pool.peak = _pool.in_use
    return Buffer(array, address, nbytes, capacity)


def _new(nbytes: int) -> Array | None:
    """Fresh memory from the system; None if there is not so much (ValueError: more than any address can say)."""
    try:
        return np.empty(nbytes, np.uint8)
    except (MemoryError, ValueError, OverflowError):
        return None


def foreign(address: int, nbytes: int, owner: object, *, frozen: bool) -> Buffer:
    """A buffer over memory that `owner` keeps alive; pinned for ever, unless nobody can write it (`frozen`)."""
    if nbytes:
        array: Array = np.frombuffer(memoryview((ctypes.c_ubyte * nbytes).from_address(address)), np.uint8)
    else:
        array = np.empty(0, np.uint8)
    buffer = Buffer(array, address, nbytes, 0)
    buffer.owner = owner
    buffer.frozen = frozen
    buffer.pins = 0 if frozen else 1
    return buffer


class Memory:
    """What the pool holds, in bytes: `in_use` by live tensors, the `peak` of that, and `pooled` for reuse."""

    __slots__ = ("in_use", "peak", "pooled")

    def __init__(self, in_use: int, peak: int, pooled: int) -> None:
        self.in_use, self.peak, self.pooled = in_use, peak, pooled

    def __repr__(self) -> str:
        return f"Memory(in_use={self.in_use}, peak={self.peak}, pooled={self.pooled})"


def memory(*, reset_peak: bool = False) -> Memory:
    """The bytes that tensors use now, the most they used, and the bytes kept for reuse; `reset_peak` starts a new peak.

    >>> import tenxor as tx
    >>> tx.memory().peak >= tx.memory().in_use
    True
    """
    found = Memory(_pool.in_use, _pool.peak, _pool.pooled)
    if reset_peak:
        _pool.peak = _pool.in_use
    return found


def release_pool() -> None:
    """Give all pooled memory back to the system."""
    _pool.free.clear()
    _pool.pooled = 0
