"""Buffers: aligned memory from the pool, and memory of foreign libraries.

A `Buffer` borrows a block of the pool (`pool.py`) for its whole life. Memory that may be written from outside is externally shared: see
`node.py`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import partial
from operator import index as as_int
from operator import methodcaller
from sys import getrefcount
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from .dtypes import DType
from .errors import ArgumentError, described
from .pool import UNLIMITED, capacity_of, pool

if TYPE_CHECKING:
    from .layout import Layout

Array = np.ndarray[Any, Any]


class Buffer:
    """A block of `nbytes` bytes of memory; `array` is the same memory as a NumPy array of bytes.

    `address` is the start in the host's memory, for back ends on the host and for exports. `pins` is true while code outside may write the
    memory: as long as an export is alive, or for ever for foreign memory. `frozen` is true for foreign read-only memory, which is never
    written.
    """

    __slots__ = ("__weakref__", "_typed", "_typed_as", "address", "array", "frozen", "nbytes", "owner", "pins")

    array: Array
    address: int
    pins: object

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.pins = 0
        self.frozen = False
        self.owner: object = None
        self._typed: Array | None = None
        self._typed_as: DType | None = None

    references = property(getrefcount)  # called from C code alone: see `ownership.py`

    if not TYPE_CHECKING:  # a type checker would take every attribute for defined

        def __getattr__(self, name: str) -> Any:
            """Make the array of a block allocated by the fast path, at the first request."""
            if name != "array":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            array = self.array = np.frombuffer(self.owner, np.uint8)
            return array

    def typed(self, dtype: DType) -> Array:
        """Return the elements as a 1-D NumPy array over the same memory (`bfloat16` as its bits)."""
        if self._typed_as is dtype:
            assert self._typed is not None
            return self._typed
        size = self.nbytes // dtype.itemsize
        self._typed = self.array[: size * dtype.itemsize].view(dtype.numpy)
        self._typed_as = dtype
        return self._typed

    def strided_view(self, dtype: DType, layout: Layout) -> Array:
        """Return a NumPy view of the elements through a layout with strides. NumPy refuses an offset into a buffer without elements."""
        strides = [stride * dtype.itemsize for stride in layout.strides]
        offset = layout.offset * dtype.itemsize if layout.size else 0
        return np.ndarray(layout.shape, dtype.numpy, self.typed(dtype), offset, strides)


class Nowhere:
    """A substitute for a buffer without memory, for abstract nodes (in PyTorch: the meta device)."""

    pins, nbytes, frozen = 0, 0, False


NOWHERE = Nowhere()


def allocate(nbytes: int, op: object = "tenxor", shape: tuple[int, ...] | None = None, dtype: object = None) -> Buffer:
    """Return a buffer of at least `nbytes` bytes, aligned to 64, with undefined content.

    Raise MemoryError with the operation `op`, the shape and dtype of the result, and the bytes.
    """
    buffer = lent(nbytes)
    if buffer is not None:
        return buffer
    capacity = capacity_of(nbytes)
    wanted = f"{nbytes} bytes" if shape is None else f"{shape} {dtype}, {nbytes} bytes"
    in_use = pool.in_use
    if in_use + capacity > pool.limit:
        raise MemoryError(
            f"{op}: no memory for {wanted}, in a block of {capacity}; {in_use} bytes are in use and the limit"
            f" is {pool.limit}: let go of other tensors, or raise it with tx.set_memory_limit"
        )
    raise MemoryError(f"{op}: no memory for {wanted}; {in_use} bytes are in use")


def lent(nbytes: int) -> Buffer | None:
    """Return a buffer of at least `nbytes` bytes, aligned to 64, with undefined content; None if there is no memory."""
    buffer = Buffer(nbytes)
    return buffer if pool.lend(buffer, capacity_of(nbytes)) else None


def foreign(address: int, nbytes: int, owner: object, *, frozen: bool) -> Buffer:
    """Return a buffer over memory kept alive by `owner`. The buffer is externally shared for ever, unless the memory is read-only
    (`frozen`).
    """
    if nbytes:
        array: Array = np.frombuffer(memoryview((ctypes.c_ubyte * nbytes).from_address(address)), np.uint8)
    else:
        array = np.empty(0, np.uint8)
    pool.share(nbytes)
    buffer = Buffer(nbytes)
    buffer.array, buffer.address = array, address
    buffer.owner = owner
    buffer.frozen = frozen
    buffer.pins = 0 if frozen else 1
    return buffer


def window(buffer: Buffer, start: int, nbytes: int) -> Buffer:
    """Return a part of a buffer's memory as a buffer that keeps the whole alive. `start` and `nbytes` are in bytes.

    The part is for computation alone: it does not share `pins` and ownership with the whole.
    """
    result = Buffer(nbytes)
    result.array, result.address = buffer.array[start : start + nbytes], buffer.address + start
    result.owner = buffer
    return result


class Pin:
    """A token held by each export of a buffer: while a token lives, code outside may write the memory."""

    __slots__ = ("__weakref__",)


class _PinReference(ref[Pin]):
    """The `pins` of an exported buffer: a weak reference to the `Pin`, with a callback `reset` that sets `pins` to 0.

    The callback runs in C alone, exactly once, and no signal or thread can intervene.
    """

    __slots__ = ("reset",)

    reset: Callable[[], object]


_call_reset = methodcaller("reset")


def pinned(buffer: Buffer) -> object:
    """Return the token of `buffer`: while it lives, the buffer is externally shared. Return None for foreign memory. The caller must hold
    the lock.
    """
    pin_reference = buffer.pins
    pin = pin_reference() if isinstance(pin_reference, _PinReference) else None
    if pin is None and pin_reference != 1:
        if isinstance(pin_reference, _PinReference):  # the pin is dead, but the callback has not run yet: disable the callback
            pin_reference.reset = int
        pin = Pin()
        pin_reference = _PinReference(pin, _call_reset)
        pin_reference.reset = partial(setattr, buffer, "pins", 0)
        buffer.pins = pin_reference
    return pin


def set_memory_limit(limit: int | None) -> None:
    """Limit the memory of tensors to `limit` bytes from now on, including memory kept for reuse; None removes the limit.

    An operation that needs more raises MemoryError and changes nothing. A tensor takes up to an eighth more than its elements. At the start
    the limit is that of the environment variable TENXOR_MEMORY_LIMIT. Raises ArgumentError if the limit is no positive integer, or if
    tensors use more already.

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
        pool.limit = UNLIMITED
        pool.relieved()
        return
    try:
        limit = as_int(limit)
    except TypeError:
        raise ArgumentError(f"set_memory_limit: the limit is a number of bytes or None, not {described(limit)}") from None
    if limit < 1:
        raise ArgumentError(
            f"set_memory_limit: nothing fits into {limit} bytes; give a positive number, or None for no limit"
        )
    if limit < pool.in_use:
        raise ArgumentError(
            f"set_memory_limit: tensors use {pool.in_use} bytes, more than {limit}; let go of some first"
        )
    pool.limit = limit
    pool.release(pool.in_use + pool.pooled - limit)
    pool.relieved()


def _set_initial_limit() -> None:
    value = os.environ.get("TENXOR_MEMORY_LIMIT", "")
    if value:
        try:
            limit = int(value)
        except ValueError:
            limit = 0
        if limit < 1:
            raise ArgumentError(f"TENXOR_MEMORY_LIMIT: the limit is a number of bytes, not {value!r:.80}; it must be a positive integer")
        set_memory_limit(limit)


_set_initial_limit()
