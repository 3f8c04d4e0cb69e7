"""In and out: NumPy, DLPack, Python lists, pickle, text and pictures.

An exported array shares our memory. As long as it is alive its side may write at any time, so the buffer is pinned:
nothing pending may read it, and what we write goes to that very memory at once.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any, Self

import numpy as np

from ..dtypes import DType, bfloat16, decoded, encoded
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError
from ..layout import Layout
from ..memory import Buffer, allocate, foreign
from ..node import data
from ..realize import realize
from ..storage import Storage
from .core import Core

Array = np.ndarray[Any, Any]
_NUMBERS = frozenset((int, float, bool))
_SOLE = 3  # references to a node, or a buffer, with one holder: that one's, a local one, and getrefcount's argument


class _Export:
    """Keeps a buffer alive and pinned for as long as an array over it lives."""

    def __init__(self, buffer: Buffer, layout: Layout, dtype: DType) -> None:
        self.buffer = buffer
        buffer.pins += 1
        self.__array_interface__ = {
            "version": 3,
            "shape": layout.shape,
            "typestr": dtype.numpy.str,
            "strides": tuple(s * dtype.itemsize for s in layout.strides),
            "data": (buffer.address + layout.offset * dtype.itemsize, buffer.frozen or not layout.is_injective()),
        }

    def __del__(self) -> None:
        self.buffer.pins -= 1


class Exchange(Core):
    """Conversions from and to what others use."""

    __slots__ = ()

    def to_numpy(self) -> Array:
        """New NumPy array with the same elements (`bfloat16` as float32)."""
        layout = self.layout
        realize(self.storage.node)
        buffer = self.storage.node.buffer
        assert buffer is not None
        elements = buffer.typed(self.dtype)
        if layout.size == 0:
            return decoded(np.empty(layout.shape, self.dtype.numpy), self.dtype)
        if layout.base is None and layout.tables is None:
            strides = tuple(s * self.dtype.itemsize for s in layout.strides)
            seen = np.ndarray(layout.shape, self.dtype.numpy, elements, layout.offset * self.dtype.itemsize, strides)
            return decoded(seen, self.dtype) if self.dtype is bfloat16 else seen.copy()
        return decoded(elements[layout.offsets()], self.dtype)

    numpy = to_numpy

    def tolist(self) -> Any:
        """The elements as Python numbers in nested lists; a number for a 0-d tensor."""
        return self.to_numpy().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        shared = self._exported() if copy is not True else None
        if shared is None:
            if copy is False:
                why = "bfloat16 is no NumPy dtype" if self.dtype is bfloat16 else "its elements have no strides"
                raise ValueError(
                    f"np.asarray(copy=False): NumPy cannot see this view of shape {self.layout.shape} without a copy: {why}"
                )
            shared = self.to_numpy()
        if dtype is not None and shared.dtype != dtype:
            if copy is False:
                raise ValueError(f"np.asarray(copy=False): {self.dtype} as {dtype} needs a copy")
            return shared.astype(dtype)
        return shared

    def _exported(self) -> Array | None:
        """A NumPy array over this very memory, or None where NumPy cannot say it."""
        layout = self.layout
        if layout.base is not None or layout.tables is not None or self.dtype is bfloat16:
            return None
        storage = self.storage
        realize(storage.node)
        node = storage.node
        buffer = node.buffer
        assert buffer is not None
        if not buffer.pins and (
            getrefcount(node) > _SOLE or getrefcount(buffer) > _SOLE
        ):  # others read this content, and must not see later writes
            fresh = allocate(buffer.nbytes)
            fresh.array[: buffer.nbytes] = buffer.array[: buffer.nbytes]
            buffer = fresh
            storage.node = data(buffer, node.shape, node.dtype)
        return np.asarray(_Export(buffer, layout, self.dtype))

    def __dlpack__(self, **options: Any) -> Any:
        shared = self._exported()
        if shared is None:
            raise BufferError(f"__dlpack__: this view of {self.dtype} has no strides to share; export x.copy() instead")
        if not shared.flags.writeable:
            raise BufferError("__dlpack__: a read-only view cannot be shared; export x.copy() instead")
        return shared.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def operand(self, value: Any, op: str, *, quietly: bool = False) -> Any:
        """A tensor or number to compute with; NumPy arrays and scalars become tensors. DTypeError (or NotImplemented)
        for others.
        """
        if isinstance(value, Core) or type(value) in _NUMBERS:
            return value
        if isinstance(value, (np.ndarray, np.generic)):
            return self.from_numpy(value)
        if isinstance(value, (int, float)):
            return value
        if quietly:
            return NotImplemented
        if isinstance(value, (list, tuple)):
            return self.from_numpy(np.asarray(value))
        raise DTypeError(
            f"{op}: cannot compute with {type(value).__name__} {value!r}; use a tensor (tx.asarray) or a Python number"
        )

    @classmethod
    def from_numpy(cls, array: Any, dtype: object = None, copy: bool | None = None) -> Self:
        """A tensor with an array's elements: a copy, unless `copy=False` (its very memory) or it is read-only for good."""
        array = np.asarray(array)
        if array.dtype.byteorder not in "=|<" or not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if array.dtype.kind == "O" or array.dtype.kind in "USVMmc":
            raise DTypeError(f"asarray: NumPy's {array.dtype} is no dtype of Tenxor; convert it to numbers first")
        source = dtype_of(array.dtype)
        target = source if dtype is None else dtype_of(dtype)
        if target is not source:
            if copy is False:
                raise ArgumentError(f"asarray: {source} as {target} needs a copy, and copy=False forbids it")
            return cls._copied(encoded(array, target), target)
        if copy is False:
            return cls._shared(array, source, frozen=not array.flags.writeable)
        if copy is None and array.size and _is_frozen(array) and _has_element_strides(array):
            return cls._shared(array, source, frozen=True)
        return cls._copied(array, source)

    @classmethod
    def _copied(cls, array: Array, dtype: DType) -> Self:
        buffer = allocate(array.size * dtype.itemsize)
        np.copyto(buffer.typed(dtype)[: array.size].reshape(array.shape), array)
        return cls(Storage(data(buffer, array.shape, dtype)), Layout.contiguous(array.shape), dtype)

    @classmethod
    def _shared(cls, array: Array, dtype: DType, *, frozen: bool) -> Self:
        if not _has_element_strides(array):
            raise ArgumentError(
                f"asarray: strides {array.strides} bytes are no multiples of {dtype}'s {dtype.itemsize}; copy=False cannot share it"
            )
        size = dtype.itemsize
        address = array.__array_interface__["data"][0]
        low = sum(min(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)) if array.size else 0
        high = (
            sum(max(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)) + size
            if array.size
            else 0
        )
        buffer = foreign(address + low, high - low, array, frozen=frozen)
        node = data(buffer, ((high - low) // size,), dtype)
        return cls(Storage(node), Layout(array.shape, tuple(s // size for s in array.strides), -low // size), dtype)


def _is_frozen(array: Array) -> bool:
    """Whether nobody can write this memory: the array and all that it is a view of are read-only."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return base is None or isinstance(base, bytes)


def _has_element_strides(array: Array) -> bool:
    size = array.dtype.itemsize
    address = array.__array_interface__["data"][0]
    return address % size == 0 and all(s % size == 0 for s in array.strides)
