"""In and out: NumPy, DLPack, Python lists, pickle, text and pictures.

An exported array shares our memory. As long as it is alive its side may write at any time, so the buffer is pinned:
nothing pending may read it, and what we write goes to that very memory at once.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..dtypes import DType, bfloat16, check_real, decoded, plain_number
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError
from ..layout import Layout
from ..layout.portions import PORTION, portions
from ..memory import Buffer, allocate, foreign, pinned
from ..node import Node, data
from ..ops import OPS
from ..ownership import alone
from ..pending import relieve
from ..pool import pool
from ..realize import lock, realize
from ..storage import Storage
from .core import Core, check_count
from .nested import from_nested
from .writing import Writing

Array = np.ndarray[Any, Any]
_NUMBERS = frozenset((int, float, bool, complex))


class _Export:
    """Keeps a buffer alive and pinned for as long as an array over it lives. Who makes one has the lock."""

    def __init__(self, buffer: Buffer, layout: Layout, dtype: DType) -> None:
        self.buffer = buffer
        self.pin = None if buffer.frozen else pinned(buffer)  # what nobody may write needs no pin
        self.__array_interface__ = {
            "version": 3,
            "shape": layout.shape,
            "typestr": dtype.numpy.str,
            "strides": tuple(s * dtype.itemsize for s in layout.strides),
            "data": (buffer.address + layout.offset * dtype.itemsize, buffer.frozen or not layout.is_injective()),
        }


class Exchange(Writing):
    """Conversions from and to what others use."""

    __slots__ = ()

    def to_numpy(self) -> Array:
        """New NumPy array with the same elements (`bfloat16` as float32)."""
        layout = self.layout
        node = self.storage.node  # asked once, as another thread may write meanwhile
        realize(node)
        assert node.buffer is not None
        elements = node.buffer.typed(self.dtype)
        if layout.size == 0:
            check_count("to_numpy", layout.shape)
            return decoded(np.empty(layout.shape, self.dtype.numpy), self.dtype)
        if layout.base is None and layout.tables is None:
            strides = tuple(s * self.dtype.itemsize for s in layout.strides)
            seen = np.ndarray(layout.shape, self.dtype.numpy, elements, layout.offset * self.dtype.itemsize, strides)
            if self.dtype is bfloat16:
                return decoded(seen, self.dtype)
            if layout.size <= PORTION:
                return seen.copy()
            found = np.empty(layout.shape, seen.dtype)
            copied(found, seen)
        elif layout.size <= PORTION:
            found = elements[layout.offsets()]
        else:
            found = np.empty(layout.shape, elements.dtype)
            for key in portions(layout.shape):
                found[key] = elements[layout.index(key).offsets()]
        return decoded(found, self.dtype)

    numpy = to_numpy

    def tolist(self) -> Any:
        """The elements as Python numbers in nested lists; a number for a 0-d tensor."""
        return _listed(self.to_numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        shared = self._exported() if copy is not True else None
        if shared is None:
            if copy is False:
                why = "bfloat16 is no NumPy dtype" if self.dtype is bfloat16 else "its elements have no strides"
                if self._has_past():
                    why = "derivatives would not see what is written there; use x.detach()"
                raise ValueError(
                    f"np.asarray(copy=False): NumPy cannot see this view of shape {self.layout.shape} without a copy: {why}"
                )
            shared = self.to_numpy()
            shared.flags.writeable = copy is True  # what were written to a copy nobody asked for would be lost
        if dtype is not None and shared.dtype != dtype:
            if copy is False:
                raise ValueError(f"np.asarray(copy=False): {self.dtype} as {dtype} needs a copy")
            return shared.astype(dtype)
        return shared

    def _exported(self) -> Array | None:
        """A NumPy array over this very memory, or None where NumPy cannot say it, or derivatives would not see what is written there."""
        layout = self.layout
        if layout.base is not None or layout.tables is not None or self.dtype is bfloat16 or self._has_past():
            return None
        if layout.size == 0:
            check_count("to_numpy", layout.shape)
        storage = self.storage
        with lock:
            realize(storage.node)
            shared = not alone(storage)  # asked first, as a local variable would be counted
            buffer = storage.node.buffer
            assert buffer is not None
            if shared and not buffer.pins:  # others read this content, and must not see later writes
                buffer = self._part()
            return np.asarray(_Export(buffer, layout, self.dtype))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if self.dtype is bfloat16:
            raise BufferError("__dlpack__: bfloat16 cannot be exported; export x.astype(tx.float32) instead")
        shared = self._exported() if copy is not True else None
        if shared is None:
            if copy is False:
                why = "requires a gradient, which would not see writes; use x.detach()" if self._has_past() else "has no strides to share"
                raise BufferError(f"__dlpack__: this view {why}")
            shared = self.to_numpy()
            shared.flags.writeable = copy is True  # as above
        if not shared.flags.writeable and (max_version is None or max_version[0] < 1):
            raise BufferError("__dlpack__: this view is read-only, which DLPack before 1.0 cannot say; export x.copy()")
        return shared.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def _operand(self, value: Any, op: str, *, quietly: bool = False) -> Any:
        """A tensor or number to compute with; NumPy arrays and scalars become tensors. DTypeError (or NotImplemented)
        for others.
        """
        if isinstance(value, Core) or type(value) in _NUMBERS:
            return value
        if isinstance(value, (np.ndarray, np.generic)):
            return self._from_numpy(value)
        if isinstance(value, (int, float, complex)):
            return plain_number(value)
        if isinstance(value, (list, tuple)):
            return self._from_nested(value, None, op)
        if quietly:
            return NotImplemented
        raise DTypeError(
            f"{op}: cannot compute with {type(value).__name__} {value!r}; use a tensor (tx.asarray) or a Python number"
        )

    @classmethod
    def _from_nested(cls, obj: Any, wanted: DType | None, op: str) -> Self:
        """A tensor with a number, or the numbers of nested lists."""
        found, dtype = from_nested(cls, obj, wanted, op)
        return found if isinstance(found, Exchange) else cls._from_numpy(found, dtype, True)

    @classmethod
    def _from_numpy(cls, array: Any, dtype: object = None, copy: bool | None = None) -> Self:
        """A tensor with an array's elements: a copy, unless `copy=False` (its very memory) or it is read-only for good."""
        array = np.asarray(array)
        if not array.dtype.isnative:
            if copy is False:
                raise ArgumentError(f"asarray: byte order {array.dtype.str} needs a copy, and copy=False forbids it")
            array = array.astype(array.dtype.newbyteorder("="))
        source = bfloat16 if array.dtype.name == "bfloat16" else None  # which ml_dtypes gives NumPy; ours are the bits
        if source is not None:
            array = array.view(source.numpy)
        elif array.dtype.kind == "O" or array.dtype.kind in "USVMm":
            raise DTypeError(f"asarray: NumPy's {array.dtype} is no dtype of Tenxor; convert it to numbers first")
        else:
            source = dtype_of(array.dtype)
        target = source if dtype is None else dtype_of(dtype)
        if target is not source:
            check_real("asarray", source, target)
            if copy is False:
                raise ArgumentError(f"asarray: {source} as {target} needs a copy, and copy=False forbids it")
            native = cls._copied(array, source)
            return cls._of(Node.of(OPS["cast"], array.shape, target, (native.storage.node,), (native.layout,)))
        if copy is False or (copy is None and array.size and _is_read_only(array) and _has_element_strides(array)):
            return cls._shared(array, source)
        return cls._copied(array, source)

    @classmethod
    def _copied(cls, array: Array, dtype: DType) -> Self:
        if pool.pressed:
            relieve()
        buffer = allocate(array.size * dtype.itemsize, "asarray", array.shape, dtype)
        copied(buffer.typed(dtype)[: array.size].reshape(array.shape), array)
        return cls(Storage(data(buffer, array.shape, dtype)), Layout.contiguous(array.shape), dtype)

    @classmethod
    def _shared(cls, array: Array, dtype: DType) -> Self:
        if not _has_element_strides(array):
            raise ArgumentError(
                f"asarray: the address or the strides {array.strides} are no multiples of the {dtype.itemsize} bytes of {dtype};"
                " copy=False cannot share it"
            )
        size = dtype.itemsize
        address = array.__array_interface__["data"][0]
        low = sum(min(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)) if array.size else 0
        high = (
            sum(max(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)) + size
            if array.size
            else 0
        )
        buffer = foreign(address + low, high - low, array, frozen=not array.flags.writeable)
        buffer.pins = 0 if isinstance(_owner(array)[0], bytes) else 1  # a flag of NumPy's does not bind its other views
        node = data(buffer, ((high - low) // size,), dtype)
        return cls(Storage(node), Layout(array.shape, tuple(s // size for s in array.strides), -low // size), dtype)


def copied(target: Array, source: Array) -> None:
    """Copy all elements, in portions."""
    if source.size <= PORTION:
        np.copyto(target, source)
        return
    for key in portions(source.shape):
        np.copyto(target[key], source[key])


def _listed(array: Array) -> Any:
    """The elements in nested lists, made in portions."""
    if array.size <= PORTION:
        return array.tolist()
    if array.size > PORTION * len(array):
        return [_listed(part) for part in array]
    step, found = PORTION * len(array) // array.size, []
    for start in range(0, len(array), step):
        found += array[start : start + step].tolist()
    return found


def _owner(array: Array) -> tuple[Any, bool]:
    """What the memory of an array belongs to (None for an array itself), and whether an array on the way may write it."""
    base: Any = array
    writeable = False
    while isinstance(base, np.ndarray):
        writeable = writeable or base.flags.writeable
        base = base.base
    return (base.obj if isinstance(base, memoryview) else base), writeable


def _is_read_only(array: Array) -> bool:
    """Whether an array and all that it is a view of are read-only."""
    owner, writeable = _owner(array)
    if writeable or owner is None:
        return not writeable
    try:
        return memoryview(owner).readonly
    except TypeError:
        return False


def _has_element_strides(array: Array) -> bool:
    size = array.dtype.itemsize
    address = array.__array_interface__["data"][0]
    return address % array.real.itemsize == 0 and all(s % size == 0 for s in array.strides)
