"""Buffers: aligned memory from a pool, and memory that belongs to somebody else.

A fresh large allocation costs more in page faults than most kernels cost in work, so freed blocks are kept by size and
handed out again, and large blocks lie in huge pages where the system has them. A `Buffer` gives its block back when it
dies. Memory that others may write is *pinned*: see `node.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from operator import index as as_int
from pathlib import Path
from sys import getrefcount
from typing import Any

import numpy as np

from .dtypes import DType
from .errors import ArgumentError

Array = np.ndarray[Any, Any]
ALIGNMENT = 64
HUGE_PAGE = 1 << 21  # bytes: blocks from this size on are mapped on their own, in pages of this size
COLOUR = 1 << 16  # large blocks start at different multiples of this many bytes: equal ones meet in one bank of memory
COLOURS = 8
UNLIMITED = 1 << 80  # more than any address can say
_ADVICE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)  # only Linux has it
_Block = tuple[Array, int]


def _total() -> int:
    """The bytes of memory that this machine, or the container, has; about, and a few GiB if nobody says."""
    found = 1 << 32
    with contextlib.suppress(AttributeError, ValueError, OSError):
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(ValueError, OSError):
            found = min(found, int(Path("/sys/fs/cgroup", limit).read_text(encoding="ascii")))
    return found


MAX_POOLED = _total() // 4  # bytes kept for reuse at the most


class _Pool:
    """Free blocks by size, and the counts of bytes. What is in use and pooled is never more than `limit` together."""

    __slots__ = ("colour", "free", "in_use", "limit", "peak", "pooled")

    def __init__(self) -> None:
        self.free: dict[int, list[_Block]] = {}
        self.in_use = self.peak = self.pooled = self.colour = 0
        self.limit = UNLIMITED


_pool = _Pool()


class Buffer:
    """A piece of memory: `address` and `nbytes`, with `array`, the same bytes as NumPy sees them.

    `pins` counts those who may write it behind our back (exports alive; foreign memory counts as one for ever).
    `frozen` says that it must never be written: it is somebody's read-only memory.
    """

    __slots__ = ("_capacity", "_typed", "_typed_as", "address", "array", "frozen", "nbytes", "owner", "pins")

    def __init__(self, array: Array, address: int, nbytes: int, capacity: int) -> None:
        self.array, self.address, self.nbytes = array, address, nbytes
        self.pins = 0
        self.frozen = False
        self.owner: object = None
        self._typed: Array | None = None
        self._typed_as: DType | None = None
        self._capacity = capacity
        _pool.in_use += capacity

    references = property(getrefcount)  # asked in C alone: see `ownership.py`

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
        try:
            capacity = self._capacity
        except AttributeError:  # a signal came before it had any
            return
        if capacity:
            _pool.in_use -= capacity
            if _pool.pooled + capacity <= MAX_POOLED or _make_way(capacity):
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


def allocate(nbytes: int, op: object = "tenxor", shape: tuple[int, ...] | None = None, dtype: object = None) -> Buffer:
    """A buffer of at least `nbytes` bytes, aligned to 64, its content undefined.

    MemoryError names the operation that wants it, what it wants it for, and the bytes.
    """
    capacity = _capacity(nbytes)
    blocks = _pool.free.get(capacity)
    if blocks:
        array, address = blocks.pop()
        _pool.pooled -= capacity
    else:
        wanted = _pool.in_use + capacity
        if wanted + _pool.pooled > _pool.limit:
            _release(wanted + _pool.pooled - _pool.limit, capacity)
            if wanted > _pool.limit:
                raise MemoryError(
                    f"{_refused(nbytes, op, shape, dtype)}, in a block of {capacity}; {_pool.in_use} bytes are in use and the limit"
                    f" is {_pool.limit}: let go of other tensors, or raise it with tx.set_memory_limit"
                )
        block = _new(capacity)
        if block is None:
            release_pool()  # what is only kept for reuse makes way
            block = _new(capacity)
        if block is None:
            raise MemoryError(f"{_refused(nbytes, op, shape, dtype)}; {_pool.in_use} bytes are in use")
        array, address = block
    buffer = Buffer(array, address, nbytes, capacity)
    if _pool.in_use > _pool.peak:
        _pool.peak = _pool.in_use
    return buffer


def _refused(nbytes: int, op: object, shape: tuple[int, ...] | None, dtype: object) -> str:
    return (
        f"{op}: no memory for {nbytes} bytes"
        if shape is None
        else f"{op}: no memory for {shape} {dtype}, {nbytes} bytes"
    )


def _new(nbytes: int) -> _Block | None:
    """Fresh memory from the system; None if there is not so much (ValueError: more than any address can say)."""
    try:
        if _ADVICE is not None and nbytes >= HUGE_PAGE:
            return _mapped(nbytes, _ADVICE)
        raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    except (MemoryError, OSError, ValueError, OverflowError):
        return None
    start = -_address(raw) % ALIGNMENT
    return raw[start : start + nbytes], _address(raw) + start


def _mapped(nbytes: int, advice: int) -> _Block:
    """Memory of its own from the system, in huge pages if there are any; it goes back when the array dies."""
    _pool.colour = (_pool.colour + 1) % COLOURS
    colour = _pool.colour * COLOUR
    space = mmap.mmap(-1, nbytes + colour + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    raw = np.frombuffer(space, np.uint8)
    first = -_address(raw) % HUGE_PAGE
    with contextlib.suppress(OSError):  # the system was built without
        space.madvise(advice, first, colour + nbytes)
    start = first + colour
    return raw[start : start + nbytes], _address(raw) + start


def _address(array: Array) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


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
    """What there is, in bytes: `in_use` by live tensors, the `peak` of that, `pooled` for reuse, and the `limit` if set."""

    __slots__ = ("in_use", "limit", "peak", "pooled")

    def __init__(self, in_use: int, peak: int, pooled: int, limit: int | None) -> None:
        self.in_use, self.peak, self.pooled, self.limit = in_use, peak, pooled, limit

    def __repr__(self) -> str:
        return f"Memory(in_use={self.in_use}, peak={self.peak}, pooled={self.pooled}, limit={self.limit})"


def memory(*, reset_peak: bool = False) -> Memory:
    """The bytes that tensors use now, the most they used, those kept for reuse, and the limit; `reset_peak` starts a new
    peak. Memory that tensors share with others (`copy=False`) is not counted.

    >>> import tenxor as tx
    >>> before = tx.memory().in_use
    >>> t = tx.ones((1000, 1000), dtype=tx.float32).realize()
    >>> tx.memory().in_use - before >= t.nbytes, tx.memory().peak >= tx.memory().in_use
    (True, True)
    """
    found = Memory(_pool.in_use, _pool.peak, _pool.pooled, None if _pool.limit == UNLIMITED else _pool.limit)
    if reset_peak:
        _pool.peak = _pool.in_use
    return found


def set_memory_limit(limit: int | None) -> None:
    """Let tensors use no more than `limit` bytes from now on, those kept for reuse included; None: what the system gives.

    What would need more raises MemoryError and leaves all as it was. A tensor takes up to an eighth more than its
    elements. At the start the limit is that of the environment variable TENXOR_MEMORY_LIMIT. ArgumentError if the limit
    is no positive integer, or if tensors use more already.

    >>> import tenxor as tx
    >>> tx.set_memory_limit(tx.memory().in_use + 1_000_000)
    >>> t = tx.ones((1000, 1000)) * 2
    >>> t.realize()
    Traceback (most recent call last):
      ...
    MemoryError: multiply: no memory for (1000, 1000) float64, 8000000 bytes, in a block of ...
    >>> tx.set_memory_limit(None)
    >>> t.sum().item()
    2000000.0
    """
    if limit is None:
        _pool.limit = UNLIMITED
        return
    try:
        limit = as_int(limit)
    except TypeError:
        raise ArgumentError(f"set_memory_limit: the limit is a number of bytes or None, not {limit!r}") from None
    if limit < 1:
        raise ArgumentError(
            f"set_memory_limit: nothing fits into {limit} bytes; give a positive number, or None for no limit"
        )
    if limit < _pool.in_use:
        raise ArgumentError(
            f"set_memory_limit: tensors use {_pool.in_use} bytes, more than {limit}; let go of some first"
        )
    _pool.limit = limit
    _release(_pool.in_use + _pool.pooled - limit, 0)


def release_pool() -> None:
    """Give all pooled memory back to the system."""
    _release(_pool.pooled, 0)


def _make_way(capacity: int) -> bool:
    """Whether a block has its place in the pool, once others have left."""
    _release(_pool.pooled + capacity - MAX_POOLED, capacity)
    return _pool.pooled + capacity <= MAX_POOLED


def _release(nbytes: int, last: int) -> None:
    """Give so many pooled bytes, if there are, back to the system: the largest blocks first, those of size `last` last."""
    if nbytes <= 0:
        return
    for capacity in sorted(_pool.free, key=lambda c: (c == last, -c)):
        blocks = _pool.free.get(capacity)
        while blocks:
            if nbytes <= 0:
                return
            blocks.pop()
            _pool.pooled -= capacity
            nbytes -= capacity


def _limit_named() -> None:
    named = os.environ.get("TENXOR_MEMORY_LIMIT", "")
    if named:
        if not named.isdecimal():
            raise ArgumentError(f"TENXOR_MEMORY_LIMIT: the limit is a number of bytes, not {named!r}")
        set_memory_limit(int(named))


_limit_named()
