"""Indexing with small index arrays, done at once by NumPy: looking up a kernel would take longer than the whole operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DType, bfloat16
from ..late import LateModule
from ..realize import lock, realize, short_ways
from .core import Core

ownership = LateModule("tenxor.ownership")
Array = np.ndarray[Any, Any]
FEW = 1 << 12  # elements of an index array
SMALL = 1 << 14  # elements that are read or written


def seen_by_numpy(x: Core) -> Array | None:
    """Return a NumPy view of a tensor's memory, or None.

    None is returned for a pending tensor, an externally shared buffer, a tensor with a tape node, a gathered layout, a view chain, and
    bfloat16.
    """
    node, layout, dtype = x.storage.node, x.layout, x.dtype
    buffer = node.buffer
    if buffer is None or buffer.pins or node.past is not None or layout.base is not None or layout.tables is not None or dtype is bfloat16:
        return None
    itemsize = dtype.itemsize
    strides = tuple([s * itemsize for s in layout.strides])
    return np.ndarray(layout.shape, dtype.numpy, buffer.typed(dtype), layout.offset * itemsize, strides)


def read_at_once(x: Core, parts: tuple[Any, ...]) -> Array | None:
    """Return the elements that a key with index arrays selects, as a NumPy array. Return None if they are many, pending, or out of range.
    """
    key = _key(x, parts)
    elements = None if key is None or not x.layout.size else seen_by_numpy(x)
    if elements is None:
        return None
    try:
        found: Array = elements[key]
    except IndexError:  # raised with our message by the caller
        return None
    return found if found.size else None  # NumPy does not check indices if the result is empty


def write_at_once(x: Core, parts: tuple[Any, ...], value: Any) -> bool:
    """Write a value over the elements that a key with a single index array selects, and return True, or return False without a write.

    False is returned for many, pending or out-of-range elements, and for memory with other readers.
    """
    if len(parts) != 1 or not isinstance(parts[0], (Core, np.ndarray)) or not parts[0].ndim:
        return False
    if parts[0].ndim > 1 and parts[0].dtype != np.dtype(bool):
        return False  # NumPy need not write through these in their order
    key = _key(x, parts)
    if key is None or not x.layout.size or not x.layout.is_injective():
        return False
    if isinstance(value, Core):
        if value.dtype is not x.dtype or value.layout.size > SMALL or value._has_past():
            return False
        realize(value.storage.node)
        value = seen_by_numpy(value)
    elif not _suits(value, x.dtype):
        return False
    with lock:
        elements = None if value is None or x.storage.node.buffer is None else seen_by_numpy(x)
        if elements is None or x.storage.node.buffer.frozen or not ownership.alone(x.storage):  # type: ignore[union-attr]
            return False
        if isinstance(value, np.ndarray) and np.may_share_memory(elements, value):
            return False
        try:
            elements[key] = value
        except (IndexError, TypeError, ValueError, OverflowError):  # raised with our message by the caller; nothing is written in this case
            return False
    return True


def _suits(value: Any, dtype: DType) -> bool:
    """Return whether a number fits a dtype exactly in kind and range, so that NumPy neither warns nor raises."""
    kind = type(value)
    same = (kind is float and dtype.is_float) or (kind is int and dtype.is_integer)
    return same and bool(dtype.lowest <= value <= dtype.highest)


def _key(x: Core, parts: tuple[Any, ...]) -> Any:
    """Return a key with NumPy arrays in place of tensors. Return None if an array or the selection is large, or without the fast path."""
    if not short_ways:
        return None
    key, selected = [], 1
    for part in parts:
        if isinstance(part, Core):
            part = seen_by_numpy(part) if part.layout.size <= FEW else None
            if part is None:
                return None
        if isinstance(part, np.ndarray):
            if part.dtype.kind == "b":
                if part.size > SMALL or part.shape != x.layout.shape[: part.ndim]:
                    return None
            else:
                if not 0 < part.size <= FEW or part.dtype == np.uint64:  # NumPy reads these as signed
                    return None
                selected *= part.size
        key.append(part)
    masked = any([isinstance(p, np.ndarray) and p.dtype.kind == "b" for p in key])
    shape = x.layout.shape
    if len(key) == 1 and not masked:
        selected *= x.layout.size // shape[0] if shape and shape[0] else 0
    else:
        selected *= x.layout.size
    return tuple(key) if selected <= SMALL else None
