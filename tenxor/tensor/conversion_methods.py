"""Conversions from and to NumPy, DLPack, Python lists, pickle, text and pictures. An exported array shares our memory. During the array's
life, foreign code may write to this memory, so the buffer is marked as externally shared: no pending node may read the buffer, and our own
writes go to this memory at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .._utils import upcalls
from .._utils.lazy import LazyFunctions, LazyModule
from ..dtypes import (
    DTYPE_BY_NUMPY_DTYPE,
    NUMBER_TYPES,
    DType,
    DTypeLike,
    bfloat16,
    check_real,
    decode_elements,
    encode_elements,
    to_plain_number,
    uint8,
)
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, describe_value
from ..graph.node import Node, disable_tape, make_data_node
from ..graph.storage import Storage
from ..layout import Layout
from ..layout.interruptible_chunks import MAX_CHUNK_ELEMENTS, iterate_chunks
from ..memory.block_pool import pool
from ..memory.buffer import Buffer, acquire_share_token, allocate, wrap_foreign_memory
from ..ops import OPS
from ..runtime.realize import compute_lock, realize
from .argument_parsing import check_choice
from .core import TensorBase, check_element_count, is_traced
from .write_methods import WriteMethods

nested_lists, ownership, pending_limits = (
    LazyModule("tenxor.tensor.nested_lists"),
    LazyModule("tenxor.graph.ownership"),
    LazyModule("tenxor.runtime.pending_limits"),
)
traced_tensors, element_requests = LazyModule("tenxor.tensor.traced_tensors"), LazyFunctions("tenxor.runtime.element_requests")
Array = np.ndarray[Any, Any]
DLPACK_CPU = (1, 0)  # kDLCPU, device 0
# our functions for NumPy ufuncs, by ufunc; filled when a ufunc is called with tensors (`numpy_ufuncs.py`)
FUNCTION_OF_UFUNC: dict[Any, Callable[..., Any]] = {}


class _SharedArrayExporter:
    """The object from which NumPy makes an array over `buffer`. The buffer stays alive and externally shared while the array lives.

    The array is read-only if the buffer is, or if several positions of `layout` share an element. The caller holds the lock.
    """

    def __init__(self, buffer: Buffer, layout: Layout, dtype: DType) -> None:
        self.buffer = buffer
        self.share_token = None if buffer.is_read_only else acquire_share_token(buffer)  # a read-only buffer needs no mark
        has_no_gaps = layout.is_contiguous()  # cheaper than the test of injectivity below
        self.__array_interface__ = {
            "version": 3,
            "shape": layout.shape,
            "typestr": dtype.numpy.str,
            "strides": None if has_no_gaps else tuple([s * dtype.itemsize for s in layout.strides]),
            "data": (buffer.address + layout.offset * dtype.itemsize, buffer.is_read_only or not (has_no_gaps or layout.is_injective())),
        }


def is_numpy_value(x: object) -> bool:
    """Return whether an object is a NumPy scalar, or an array that is no instance of a subclass."""
    return type(x) is np.ndarray or isinstance(x, np.generic)


def is_special_array(x: object) -> bool:
    """Return whether an object is an array of a NumPy subclass, which may hold more than elements: a mask, a unit, special rules.

    An `np.memmap` holds elements alone, and gives False.
    """
    return isinstance(x, np.ndarray) and type(x) is not np.ndarray and type(x) is not np.memmap


class ConversionMethods(WriteMethods):
    """The methods of `Tensor` for conversions from and to objects of other libraries."""

    __slots__ = ()

    def to_numpy(self) -> Array:
        """Return a new NumPy array with the same elements.

        Returns
        -------
        numpy.ndarray
            A copy of the same shape and dtype; bfloat16 becomes float32. A pending tensor is evaluated first.

        Raises
        ------
        TraceError
            For a tensor without values in a traced function.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([1, 2]).to_numpy()
        array([1, 2])
        """
        return self._copy_elements("to_numpy")

    def _copy_elements(self, op: str) -> Array:
        """Return a new NumPy array of the elements, in this shape; bfloat16 becomes float32. An error names the operation `op`.

        A pending storage is computed. For a small part of a pending storage, a copy of the part alone may be computed instead. Raise
        TraceError for a tensor without values in a traced function.
        """
        layout = self.layout
        node = self.storage.node  # read once, since another thread may write to the storage meanwhile
        if node.tape_node is not None and is_traced(self):
            traced_tensors.refuse_values(op, self)
        if node.buffer is None and layout.size < node.size:
            with compute_lock:
                is_part = not element_requests.charge_request(node, layout.size)
            if is_part:
                return self._copy_detached().to_numpy()
        realize(node)
        assert node.buffer is not None
        if layout.size == 0:
            check_element_count("to_numpy", layout.shape)
            return decode_elements(np.empty(layout.shape, self.dtype.numpy), self.dtype)
        if layout.base is None and layout.tables is None:
            view = node.buffer.strided_view(self.dtype, layout)
            if self.dtype is bfloat16:
                return decode_elements(view, self.dtype)
            if layout.size <= MAX_CHUNK_ELEMENTS:
                return view.copy()
            result = np.empty(layout.shape, view.dtype)
            copy_in_chunks(result, view)
            return decode_elements(result, self.dtype)
        elements = node.buffer.typed_view(self.dtype)
        if layout.size <= MAX_CHUNK_ELEMENTS:
            result = elements[layout.offsets()]
        else:
            result = np.empty(layout.shape, elements.dtype)
            for key in iterate_chunks(layout.shape):
                result[key] = elements[layout.index(key).offsets()]
        return decode_elements(result, self.dtype)

    numpy = to_numpy

    def tolist(self) -> Any:
        """Return the elements as Python numbers in nested lists, or for a 0-d tensor as a number.

        Raise TraceError for a tensor without values in a traced function.

        >>> import tenxor as tx
        >>> tx.asarray([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        return _to_lists(self._copy_elements("tolist"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        # the package ml_dtypes gives NumPy this dtype
        is_bits = self.dtype is bfloat16 and dtype is not None and np.dtype(dtype).name == "bfloat16"
        shared = self._export_array() if copy is not True and (is_bits or self.dtype is not bfloat16) else None
        if shared is None:
            if copy is False:
                raise ValueError(
                    f"np.asarray(copy=False): NumPy cannot see this view of shape {self.layout.shape} without a copy:"
                    f" {self._unshareable_reason() or 'bfloat16 is not a NumPy dtype'}"
                )
            shared = self.to_numpy()
            shared.flags.writeable = copy is True  # nobody could see a write to this temporary copy
        elif is_bits:
            shared = shared.view(dtype)
        if dtype is not None and shared.dtype != dtype:
            if copy is False:
                raise ValueError(f"np.asarray(copy=False): {self.dtype} as {dtype} needs a copy; leave copy=False or the dtype out")
            return shared.astype(dtype)
        return shared

    def _unshareable_reason(self) -> str | None:
        """Return the reason why no NumPy array can share this memory, as a text for error messages; None if an array can.

        The reasons are a tape node, and a layout without strides (a gathered axis or a view chain).
        """
        if self._is_on_tape():
            return "derivatives would not see what is written there; use x.detach()"
        layout = self.layout
        return None if layout.base is None and layout.tables is None else "its elements have no strides"

    def _export_array(self) -> Array | None:
        """Return a NumPy array over this tensor's memory, for bfloat16 over the bits; None if there is an `_unshareable_reason`."""
        return self._share_as_array() if self._unshareable_reason() is None else None

    def _share_as_array(self, *, whole_storage: bool = False) -> Array:
        """Return a NumPy array over this tensor's view of its memory, or with `whole_storage` over the bytes of the whole storage.

        The storage is computed if pending. Content with further readers is first copied to a separate buffer, now the buffer of the
        storage. A writable buffer is externally shared while the array lives. Unless `whole_storage`, the layout must have strides.
        """
        layout, dtype = self.layout, self.dtype
        if layout.size == 0:
            check_element_count("to_numpy", layout.shape)
        storage = self.storage
        if storage.node.buffer is None:
            realize(storage.node)  # without the lock, under which the fast path is not built
        with compute_lock:
            realize(storage.node)
            has_readers = not ownership.is_sole_owner(storage)  # queried first, since a local variable would count as a reference
            buffer = storage.node.buffer
            assert buffer is not None
            if has_readers and not buffer.externally_shared:  # other readers of this content must not see later writes
                buffer = self._move_to_new_buffer()
            if whole_storage:
                layout, dtype = Layout.contiguous((buffer.nbytes,)), uint8
            return np.asarray(_SharedArrayExporter(buffer, layout, dtype))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, version 3, over this tensor's memory, for libraries like PIL.

        The array under the key "data" keeps the memory alive and externally shared. Raise AttributeError if no array can share the memory.
        """
        if self.dtype is bfloat16 or self._unshareable_reason() is not None:
            raise AttributeError("__array_interface__")
        layout, storage_bytes, itemsize = self.layout, self._share_as_array(whole_storage=True), self.dtype.itemsize
        has_no_gaps = layout.is_contiguous()
        if not has_no_gaps and not layout.is_injective():
            storage_bytes.flags.writeable = False
        return {
            "version": 3,
            "shape": layout.shape,
            "typestr": self.dtype.numpy.str,
            "strides": tuple([s * itemsize for s in layout.strides]),  # PIL needs strides: without them it takes the data for a buffer
            "data": storage_bytes,
            "offset": layout.offset * itemsize if layout.size else 0,
        }

    def __buffer__(self, flags: int) -> memoryview:
        """Return a memoryview of this memory, for `memoryview(t)` from Python 3.12 on. Raise BufferError if no array can share the
        memory.
        """
        if self.dtype is bfloat16:
            raise BufferError("memoryview: buffers have no bfloat16; take x.view(tx.uint16) for its bits")
        shared = self._export_array()
        if shared is None:
            raise BufferError(
                f"memoryview: this view of shape {self.layout.shape} is not a buffer: {self._unshareable_reason()}; use x.copy()"
            )
        return shared.data

    def tobytes(self, order: str = "C") -> bytes:
        r"""Return the bytes of the elements.

        Parameters
        ----------
        order : {"C", "F", "A", "K"}, default "C"
            "F" is column-major order; each other value is row-major order.

        Returns
        -------
        bytes

        Raises
        ------
        ArgumentError
            If `order` is unknown.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([[1, 2], [3, 4]], dtype=tx.uint8).T.tobytes()
        b'\x01\x03\x02\x04'
        """
        order = "C" if order is None else check_choice("tobytes", "order", order, "C", "F", "A", "K")
        view = self if order != "F" else self._view(self.layout.permute(range(len(self.layout.shape))[::-1]))
        bits = view._export_array() if self._unshareable_reason() is None else None
        return (encode_elements(view.to_numpy(), self.dtype) if bits is None else bits).tobytes()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return this tensor's memory as a DLPack capsule, or a copy.

        With `copy=True` the capsule has separate memory. With None, memory is copied only where sharing is impossible: for views without
        strides or with negative strides, which break consumers, and before DLPack 1.0 for read-only memory. Raise BufferError for a copy
        that `copy=False` forbids, and for devices other than the CPU.
        """
        from .dlpack import make_capsule

        if stream is not None:
            raise BufferError(f"__dlpack__: a CPU has no streams; leave out stream={stream!r}")
        if dl_device is not None and dl_device != DLPACK_CPU:
            raise BufferError(f"__dlpack__: tensors are on the CPU, {DLPACK_CPU}; there is no device {dl_device!r}")
        if max_version is not None and not (isinstance(max_version, tuple) and len(max_version) == 2):
            raise BufferError(f"__dlpack__: max_version must be a pair of numbers, such as (1, 0), not {max_version!r}")
        reason = self._unshareable_reason()
        if reason is None and any([step < 0 for step in self.layout.strides]):
            reason = "it has negative strides, which consumers do not survive; use x.copy()"
        shared = self._share_as_array() if reason is None and copy is not True else None
        legacy = max_version is None or max_version[0] < 1
        if legacy and shared is not None and not shared.flags.writeable:
            shared, reason = None, "it is read-only, which DLPack before 1.0 cannot say; use x.copy()"
        is_copied = shared is None
        if shared is None:
            if copy is False:
                raise BufferError(f"__dlpack__: this view of shape {self.layout.shape} cannot be shared: {reason}")
            shared = self._copy_detached()._share_as_array()
            if not (copy or legacy):
                shared.flags.writeable = False  # nobody could see a write to this temporary copy
        return make_capsule(shared, max_version, is_bfloat16=self.dtype is bfloat16, is_copied=is_copied)

    def _copy_detached(self) -> Self:
        """Return a pending tensor with the same elements in separate memory, aligned as usual, and without a tape node."""
        with disable_tape():
            node = Node.of(OPS["positive"], self.layout.shape, self.dtype, (self.node,), (self.layout,))
            return self._from_node(node)

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK_CPU

    def _to_operand(self, value: Any, op: str, *, is_operator: bool = False) -> Any:
        """Return `value` as a tensor or a Python number, for the operation `op`. NumPy arrays and scalars, and nested lists, become
        tensors.

        Raise DTypeError for further objects. An operator (`is_operator`) returns NotImplemented instead, so that the object's own operator
        is tried. It does so for NumPy subclasses, like masked arrays, too. For arrays of other libraries, an operator raises as well, since
        Python would call them unequal.
        """
        if isinstance(value, TensorBase) or type(value) in NUMBER_TYPES:
            return value
        if isinstance(value, (np.ndarray, np.generic)):
            return NotImplemented if is_operator and is_special_array(value) else self._from_array(value)
        if isinstance(value, (int, float, complex)):
            return to_plain_number(value)
        if isinstance(value, (list, tuple)):
            return self._from_nested(value, None, op)
        if hasattr(type(value), "__dlpack__"):
            kind = f"{type(value).__module__.partition('.')[0]}.{type(value).__qualname__}"
            raise DTypeError(f"{op}: cannot compute with a {kind} and a tensor; tx.asarray(y) is a tensor with its elements")
        if is_operator:
            return NotImplemented
        raise DTypeError(
            f"{op}: cannot compute with {type(value).__name__} {describe_value(value)}; use a tensor (tx.asarray) or a Python number"
        )

    @classmethod
    def _from_nested(cls, obj: Any, wanted_dtype: DType | None, op: str) -> Self:
        """Return a tensor of a number or of nested lists of numbers, in `wanted_dtype`. For None, the dtype follows from the numbers.

        The result is a new tensor, pending for tensors on the tape. Raise ShapeError for ragged lists, DTypeError for items that are no
        numbers, and OutOfBounds for integers out of range; errors name `op`.
        """
        converted, dtype = nested_lists.from_nested(cls, obj, wanted_dtype, op)
        return converted if isinstance(converted, cls) else cls._from_numpy(converted, dtype, True)

    @classmethod
    def _from_array(cls, array: Any) -> Self:
        """Return a tensor with the elements of a NumPy array, or with the number of a NumPy scalar.

        Memory that stays read-only forever is shared, and otherwise copied.
        """
        if isinstance(array, np.generic) and (dtype := DTYPE_BY_NUMPY_DTYPE.get(array.dtype)) is not None:
            return cls._from_number(array.item(), dtype)
        array = np.asarray(array)
        fast_path = upcalls.installed
        if fast_path is not None:
            maker = fast_path.creation_functions
            tensor = maker.replay_array(array, maker.array_recipes)
            tensor = maker.from_array(array) if tensor is None else tensor
            if type(tensor) is cls:
                return tensor
        return cls._from_numpy(array)

    @classmethod
    def _from_array_or_same(cls, x: Any) -> Any:
        """Return a tensor for a NumPy scalar, or for an array of no subclass; otherwise return `x` itself."""
        return cls._from_array(x) if is_numpy_value(x) else x

    @classmethod
    def _from_numpy(cls, array: Any, dtype: DTypeLike | None = None, copy: bool | None = None) -> Self:
        """Return a tensor with the elements of `array`, converted to `dtype` if given; a conversion is pending.

        With `copy` None, only memory that stays read-only forever is shared. True always copies, and False never does. Raise ArgumentError
        if False is impossible. Raise DTypeError for an array of texts, objects or dates, and for complex numbers as a real `dtype`.
        """
        array = np.asarray(array)
        if not array.dtype.isnative:
            if copy is False:
                raise ArgumentError(f"asarray: byte order {array.dtype.str} needs a copy, which copy=False forbids; leave copy=False out")
            array = array.astype(array.dtype.newbyteorder("="))
        source = bfloat16 if array.dtype.name == "bfloat16" else None  # the package ml_dtypes gives NumPy this dtype; we store the bits
        if source is not None:
            array = array.view(source.numpy)
        elif array.dtype.kind == "O" or array.dtype.kind in "USVMm":
            raise DTypeError(f"asarray: NumPy's {array.dtype} is not a dtype of Tenxor; convert it to numbers first")
        else:
            source = dtype_of(array.dtype)
        target = source if dtype is None else dtype_of(dtype)
        if target is not source:
            check_real("asarray", source, target)
            if copy is False:
                raise ArgumentError(
                    f"asarray: {source} as {target} needs a copy, which copy=False forbids; leave copy=False or the dtype out"
                )
            native = cls._from_copy(array, source)
            return cls._from_node(Node.of(OPS["cast"], array.shape, target, (native.storage.node,), (native.layout,)))
        if copy is False or (copy is None and array.size and _is_read_only(array) and _has_element_strides(array)):
            return cls._from_shared(array, source)
        return cls._from_copy(array, source)

    @classmethod
    def _from_copy(cls, array: Array, dtype: DType) -> Self:
        """Return a tensor with a contiguous copy of the elements of `array`, whose elements must be of `dtype` (for bfloat16, the bits)."""
        if pool.is_under_pressure:
            pending_limits.free_pending_memory()
        buffer = allocate(array.size * dtype.itemsize, "asarray", array.shape, dtype)
        copy_in_chunks(buffer.typed_view(dtype)[: array.size].reshape(array.shape), array)
        return cls(Storage(make_data_node(buffer, array.shape, dtype)), Layout.contiguous(array.shape), dtype)

    @classmethod
    def _from_borrowed(cls, array: Array, dtype: DType) -> Self:
        """Return a tensor over an array's memory, which the caller promises not to write while the tensor lives.

        The memory is read-only here, too. If the addresses or strides are no multiples of the element size, return a copy.
        """
        return cls._from_shared(array, dtype, is_borrowed=True) if _has_element_strides(array) else cls._from_copy(array, dtype)

    @classmethod
    def _from_shared(cls, array: Array, dtype: DType, *, is_borrowed: bool = False) -> Self:
        """Return a tensor over the memory of `array`, without a copy. With `is_borrowed`, the caller promises not to write this memory.

        The elements of `array` must be of `dtype`. Borrowed memory, and the memory of a read-only `array`, is read-only here. Memory is
        externally shared unless borrowed or part of a bytes object. Raise ArgumentError if the address or the strides are no multiples of
        the element size.
        """
        if not _has_element_strides(array):
            raise ArgumentError(
                f"asarray: the address or the strides {array.strides} are not multiples of the {dtype.itemsize} bytes of {dtype};"
                " copy=False cannot share it"
            )
        size = dtype.itemsize
        address = array.__array_interface__["data"][0]
        low = sum(min(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)) if array.size else 0
        high = sum(max(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)) + size if array.size else 0
        buffer = wrap_foreign_memory(address + low, high - low, array, is_read_only=is_borrowed or not array.flags.writeable)
        # NumPy's read-only flag does not bind other views of the memory
        buffer.externally_shared = 0 if is_borrowed or isinstance(_find_owner(array)[0], bytes) else 1
        node = make_data_node(buffer, ((high - low) // size,), dtype)
        return cls(Storage(node), Layout(array.shape, tuple(s // size for s in array.strides), -low // size), dtype)


def copy_in_chunks(target: Array, source: Array) -> None:
    """Copy the elements of `source` to `target`, an array of equal shape, in chunks, so that signals are handled in between."""
    if source.size <= MAX_CHUNK_ELEMENTS:
        np.copyto(target, source)
        return
    for key in iterate_chunks(source.shape):
        np.copyto(target[key], source[key])


def _to_lists(array: Array) -> Any:
    """Return the elements of an array in nested lists of Python numbers, for a 0-d array a number. Large arrays are read in chunks."""
    if array.size <= MAX_CHUNK_ELEMENTS:
        return array.tolist()
    if array.size > MAX_CHUNK_ELEMENTS * len(array):
        return [_to_lists(row) for row in array]
    step, rows = MAX_CHUNK_ELEMENTS * len(array) // array.size, []
    for start in range(0, len(array), step):
        rows += array[start : start + step].tolist()
    return rows


def _find_owner(array: Array) -> tuple[Any, bool]:
    """Return the owner of the memory of an array, and whether an array along the chain of views is writable.

    The owner is None if the memory belongs to an array itself.
    """
    base: Any = array
    writeable = False
    while isinstance(base, np.ndarray):
        writeable = writeable or base.flags.writeable
        base = base.base
    return (base.obj if isinstance(base, memoryview) else base), writeable


def _is_read_only(array: Array) -> bool:
    """Return whether an array and every array below its chain of views are read-only, and the owner of the memory, if any.

    An owner that exports no buffer gives False.
    """
    owner, writeable = _find_owner(array)
    if writeable or owner is None:
        return not writeable
    try:
        return memoryview(owner).readonly
    except TypeError:
        return False


def _has_element_strides(array: Array) -> bool:
    """Return whether a tensor can use the memory of `array`: with aligned elements, a whole number of elements apart.

    Each stride must be a multiple of the element size, and the address a multiple of the size of an element, or of one part of a complex
    element.
    """
    size = array.dtype.itemsize
    address = array.__array_interface__["data"][0]
    return address % array.real.itemsize == 0 and all(s % size == 0 for s in array.strides)
