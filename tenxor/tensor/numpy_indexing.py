"""Indexing with small index arrays, done at once by NumPy: looking up a kernel would take longer than the whole operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils import upcalls
from .._utils.lazy import LazyModule
from ..dtypes import DType, bfloat16
from ..runtime.realize import compute_lock, realize
from .core import TensorBase

ownership = LazyModule("tenxor.graph.ownership")
Array = np.ndarray[Any, Any]
MAX_INDEX_ELEMENTS = 1 << 12  # elements of an index array
MAX_SELECTED_ELEMENTS = 1 << 14  # elements that are read or written


def view_as_numpy(x: TensorBase) -> Array | None:
    """Return a NumPy view of a tensor's memory, or None.

    None stands for a pending tensor, an externally shared buffer, a tensor with a tape node, a gathered layout, a view chain, and bfloat16.
    """
    node, layout, dtype = x.storage.node, x.layout, x.dtype
    buffer = node.buffer
    if (
        buffer is None
        or buffer.externally_shared
        or node.tape_node is not None
        or layout.base is not None
        or layout.tables is not None
        or dtype is bfloat16
    ):
        return None
    return buffer.strided_view(dtype, layout)


def read_by_numpy(x: TensorBase, items: tuple[Any, ...]) -> Array | None:
    """Return the elements selected by a key with index arrays, as a new NumPy array. Return None if a kernel must read them, or raise the
    error.

    None stands for many or no elements, for pending or out-of-range elements, for memory without a NumPy view (`view_as_numpy`), and
    without the fast path.
    """
    key = _to_numpy_key(x, items)
    elements = None if key is None or not x.layout.size else view_as_numpy(x)
    if elements is None:
        return None
    try:
        selected: Array = elements[key]
    except IndexError:  # raised with our message by the caller
        return None
    return selected if selected.size else None  # NumPy does not check indices if the result is empty


def write_by_numpy(x: TensorBase, items: tuple[Any, ...], value: Any) -> bool:
    """Write a value over the elements that a key with a single index array selects, and return True, or return False without a write.

    `value` is a tensor or a Python number; a pending tensor is computed. False is returned for many, pending or out-of-range elements, for
    memory with further readers, and for a value that does not fit the dtype exactly. Without the fast path, False is returned, too.
    """
    if len(items) != 1 or not isinstance(items[0], (TensorBase, np.ndarray)) or not items[0].ndim:
        return False
    if items[0].ndim > 1 and items[0].dtype != np.dtype(bool):
        return False  # NumPy need not write through these in their order
    key = _to_numpy_key(x, items)
    if key is None or not x.layout.size or not x.layout.is_injective():
        return False
    if isinstance(value, TensorBase):
        if value.dtype is not x.dtype or value.layout.size > MAX_SELECTED_ELEMENTS or value._is_on_tape():
            return False
        realize(value.storage.node)
        value = view_as_numpy(value)
    elif not _is_exact_fit(value, x.dtype):
        return False
    with compute_lock:
        elements = None if value is None or x.storage.node.buffer is None else view_as_numpy(x)
        if elements is None or x.storage.node.buffer.is_read_only or not ownership.is_sole_owner(x.storage):  # type: ignore[union-attr]
            return False
        if isinstance(value, np.ndarray) and np.may_share_memory(elements, value):
            return False
        try:
            elements[key] = value
        except (IndexError, TypeError, ValueError, OverflowError):  # raised with our message by the caller; nothing is written in this case
            return False
    return True


def _is_exact_fit(value: Any, dtype: DType) -> bool:
    """Return whether `value` is a float for a float dtype, or an int for an integer dtype, in range, so that NumPy neither warns nor
    raises.
    """
    number_type = type(value)
    is_same_kind = (number_type is float and dtype.is_float) or (number_type is int and dtype.is_integer)
    return is_same_kind and bool(dtype.lowest <= value <= dtype.highest)


def _to_numpy_key(x: TensorBase, items: tuple[Any, ...]) -> Any:
    """Return the items of a key as a tuple with NumPy arrays in place of tensors, or None if NumPy must not read them.

    None stands for an array of over `MAX_INDEX_ELEMENTS` indices or none, a mask of a wrong shape, uint64, a tensor without a NumPy view, a
    selection of possibly over `MAX_SELECTED_ELEMENTS`, and for the fast path being off.
    """
    if not upcalls.is_expected():
        return None
    key, selected_size = [], 1
    for item in items:
        if isinstance(item, TensorBase):
            item = view_as_numpy(item) if item.layout.size <= MAX_INDEX_ELEMENTS else None
            if item is None:
                return None
        if isinstance(item, np.ndarray):
            if item.dtype.kind == "b":
                if item.size > MAX_SELECTED_ELEMENTS or item.shape != x.layout.shape[: item.ndim]:
                    return None
            else:
                if not 0 < item.size <= MAX_INDEX_ELEMENTS or item.dtype == np.uint64:  # NumPy reads these as signed
                    return None
                selected_size *= item.size
        key.append(item)
    has_mask = any([isinstance(p, np.ndarray) and p.dtype.kind == "b" for p in key])
    shape = x.layout.shape
    if len(key) == 1 and not has_mask:
        selected_size *= x.layout.size // shape[0] if shape and shape[0] else 0
    else:
        selected_size *= x.layout.size
    return tuple(key) if selected_size <= MAX_SELECTED_ELEMENTS else None
