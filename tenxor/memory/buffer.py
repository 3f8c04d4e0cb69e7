"""Buffers: aligned memory from the pool, and memory of foreign libraries. A `Buffer` borrows a block of the pool (`block_pool.py`) for its
whole life. Memory that may be written from outside, as by NumPy or another library, is externally shared: see `graph/node.py`. An export
gives our memory to another library without a copy.
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

from ..dtypes import DType
from ..errors import ArgumentError, OutOfMemory, describe_value
from .block_pool import UNLIMITED_BYTES, capacity_of, pool

if TYPE_CHECKING:
    from ..layout import Layout

Array = np.ndarray[Any, Any]


class Buffer:
    """A block of `nbytes` bytes of memory; `array` is the same memory as a NumPy array of bytes.

    `address` is the start in the host's memory, for back ends on the host and for exports. `owner` is an object that keeps the memory
    alive, or None for a block of the pool. `externally_shared` is true while code outside may write the memory: as long as an export is
    alive, or for ever for foreign memory. `is_read_only` is true for foreign read-only memory, which is never written.
    """

    __slots__ = (
        "__weakref__",
        "_array",
        "_cached_view",
        "_cached_dtype",
        "address",
        "is_read_only",
        "nbytes",
        "owner",
        "externally_shared",
    )

    _array: Array
    address: int
    externally_shared: object

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.externally_shared = 0
        self.is_read_only = False
        self.owner: object = None
        self._cached_view: Array | None = None
        self._cached_dtype: DType | None = None

    reference_count = property(getrefcount)  # called from C code alone: see `graph/ownership.py`

    @property
    def array(self) -> Array:
        """The memory as a NumPy array of bytes. For a block allocated by the fast path, the array is made at the first request."""
        try:
            return self._array
        except AttributeError:
            self._array = np.frombuffer(self.owner, np.uint8)  # type: ignore[call-overload]
            return self._array

    def typed_view(self, dtype: DType) -> Array:
        """Return the elements of dtype `dtype` as a 1-D NumPy array over the same memory (`bfloat16` as its bits).

        Bytes that make no whole element are left out at the end.
        """
        if self._cached_dtype is dtype:
            assert self._cached_view is not None
            return self._cached_view
        size = self.nbytes // dtype.itemsize
        self._cached_view = self.array[: size * dtype.itemsize].view(dtype.numpy)
        self._cached_dtype = dtype
        return self._cached_view

    def strided_view(self, dtype: DType, layout: Layout) -> Array:
        """Return a NumPy view of the elements of dtype `dtype` through `layout`.

        The layout must have strides: no offset tables, and no view chain.
        """
        strides = [stride * dtype.itemsize for stride in layout.strides]
        offset = layout.offset * dtype.itemsize if layout.size else 0
        return np.ndarray(layout.shape, dtype.numpy, self.array, offset, strides)


class MetaBuffer:
    """A substitute for a buffer without memory, for abstract nodes (in PyTorch: the meta device).

    Abstract nodes have a shape and a dtype, but no elements: they are placeholders in tracing and planning.
    """

    externally_shared, nbytes, is_read_only = 0, 0, False


META_BUFFER = MetaBuffer()


def allocate(nbytes: int, op: object = "tenxor", shape: tuple[int, ...] | None = None, dtype: object = None) -> Buffer:
    """Return a buffer of at least `nbytes` bytes, aligned to 64, with undefined content.

    Raise OutOfMemory if there is no memory, or if the limit would be exceeded (`set_memory_limit`). The text has the operation `op`, the
    bytes, and unless `shape` is None the `shape` and `dtype`.
    """
    buffer, capacity = Buffer(nbytes), capacity_of(nbytes)
    if pool.assign_block(buffer, capacity):
        return buffer
    wanted = f"{nbytes} bytes" if shape is None else f"{shape} {dtype}, {nbytes} bytes"
    in_use = pool.in_use
    if in_use + capacity > pool.limit_bytes:
        raise OutOfMemory(
            f"{op}: no memory for {wanted}, in a block of {capacity}; {in_use} bytes are in use and the limit"
            f" is {pool.limit_bytes}: free other tensors, or raise the limit with tx.set_memory_limit"
        )
    raise OutOfMemory(f"{op}: no memory for {wanted}; {in_use} bytes are in use")


def try_allocate(nbytes: int) -> Buffer | None:
    """Return a buffer of at least `nbytes` bytes, aligned to 64, with undefined content; None without memory, or beyond the limit."""
    buffer = Buffer(nbytes)
    return buffer if pool.assign_block(buffer, capacity_of(nbytes)) else None


def wrap_foreign_memory(address: int, nbytes: int, owner: object, *, is_read_only: bool) -> Buffer:
    """Return a buffer over the `nbytes` bytes at `address`, memory kept alive by `owner`.

    The buffer is externally shared for ever, unless the memory is read-only (`is_read_only`). The pool counts the bytes as memory pressure
    (`Pool.record_foreign`).
    """
    if nbytes:
        array: Array = np.frombuffer(memoryview((ctypes.c_ubyte * nbytes).from_address(address)), np.uint8)
    else:
        array = np.empty(0, np.uint8)
    pool.record_foreign(nbytes)
    buffer = Buffer(nbytes)
    buffer._array, buffer.address = array, address
    buffer.owner = owner
    buffer.is_read_only = is_read_only
    buffer.externally_shared = 0 if is_read_only else 1
    return buffer


def make_window(buffer: Buffer, start: int, nbytes: int) -> Buffer:
    """Return the `nbytes` bytes of the memory of `buffer` from byte `start` on, as a new buffer that keeps the whole alive; no copy.

    The part must lie inside the memory: this is not checked.
    The part is for computation alone: it does not share `externally_shared` and ownership with the whole.
    """
    result = Buffer(nbytes)
    result._array, result.address = buffer.array[start : start + nbytes], buffer.address + start
    result.owner = buffer
    return result


class ShareToken:
    """A token held by each export of a buffer: while a token lives, code outside may write the memory."""

    __slots__ = ("__weakref__",)


class _ShareReference(ref[ShareToken]):
    """The `externally_shared` of an exported buffer: a weak reference to the `ShareToken`.

    When the token dies, the callback of the reference calls `reset`, which sets `externally_shared` to 0. The callback runs in C alone,
    exactly once, and no signal or thread can intervene.
    """

    __slots__ = ("reset",)

    reset: Callable[[], object]


_call_reset = methodcaller("reset")


def acquire_share_token(buffer: Buffer) -> object:
    """Return the token of `buffer`: while the token lives, the buffer is externally shared. Return None for writable foreign memory.

    Each export of a buffer calls this function, and keeps the token. The caller must hold `compute_lock`.
    """
    token_reference = buffer.externally_shared
    token = token_reference() if isinstance(token_reference, _ShareReference) else None
    if token is None and token_reference != 1:
        if isinstance(token_reference, _ShareReference):  # the token is dead, but the callback has not run yet: disable the callback
            token_reference.reset = int
        token = ShareToken()
        token_reference = _ShareReference(token, _call_reset)
        token_reference.reset = partial(setattr, buffer, "externally_shared", 0)
        buffer.externally_shared = token_reference
    return token


def set_memory_limit(limit: int | None) -> None:
    """Limit the memory of tensors from now on, including memory kept for reuse.

    An operation that needs more raises `OutOfMemory`, a MemoryError, and changes nothing. A tensor takes up to an eighth more than its
    elements. At the start the limit is that of the environment variable TENXOR_MEMORY_LIMIT.

    Parameters
    ----------
    limit : int or None
        Number of bytes, 1 or more. None removes the limit.

    Raises
    ------
    ArgumentError
        If the limit is no positive integer, or if tensors use more already.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.set_memory_limit(tx.memory().in_use + 1_000_000)
    >>> t = tx.ones((1000, 1000)) * 2
    >>> t.realize()
    Traceback (most recent call last):
      ...
    tenxor.errors.OutOfMemory: multiply: no memory for (1000, 1000) float64, 8000000 bytes, in a block of ...
    >>> tx.set_memory_limit(None)
    >>> t.sum().item()
    2000000.0
    """
    if limit is None:
        pool.limit_bytes = UNLIMITED_BYTES
        pool.reset_pressure()
        return
    try:
        limit = as_int(limit)
    except TypeError:
        raise ArgumentError(f"set_memory_limit: the limit must be a number of bytes or None, not {describe_value(limit)}") from None
    if limit < 1:
        raise ArgumentError(f"set_memory_limit: the limit is {limit} bytes; it must be a positive number, or None for no limit")
    if limit < pool.in_use:
        raise ArgumentError(f"set_memory_limit: tensors use {pool.in_use} bytes, more than the limit of {limit}; free some tensors first")
    pool.limit_bytes = limit
    pool.release(pool.in_use + pool.pooled - limit)
    pool.reset_pressure()


def _set_initial_limit() -> None:
    """Set the limit given by the environment variable TENXOR_MEMORY_LIMIT, if any. Raise ArgumentError if it is no positive integer."""
    value = os.environ.get("TENXOR_MEMORY_LIMIT", "")
    if value:
        try:
            limit = int(value)
        except ValueError:
            limit = 0
        if limit < 1:
            raise ArgumentError(f"TENXOR_MEMORY_LIMIT: the limit is {value!r:.80}; it must be a positive integer, a number of bytes")
        set_memory_limit(limit)


_set_initial_limit()
