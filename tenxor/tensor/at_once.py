"""Few elements at arrays of indices, read or written there and then: a kernel would take longer to be found than NumPy takes for all."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DType, bfloat16
from ..late import LateModule
from ..realize import lock, realize, short_ways
from .core import Core

ownership = LateModule("tenxor.ownership")
Array = np.ndarray[Any, Any]
FEW = 1 << 12  # elements of an array of indices
SMALL = 1 << 14  # and of what is read or written


def seen_by_numpy(x: Core) -> Array | None:
    """What a tensor has in memory, which nobody else may write, as NumPy sees it; None where it does not."""
    node, layout, dtype = x.storage.node, x.layout, x.dtype
    buffer = node.buffer
    if buffer is None or buffer.pins or node.past is not None or layout.base is not None or layout.tables is not None or dtype is bfloat16:
        return None
    itemsize = dtype.itemsize
    strides = tuple([s * itemsize for s in layout.strides])
    return np.ndarray(layout.shape, dtype.numpy, buffer.typed(dtype), layout.offset * itemsize, strides)


def read_at_once(x: Core, parts: tuple[Any, ...]) -> Array | None:
    """What a key with arrays selects, if that is small and known, and right."""
    key = _key(x, parts)
    elements = None if key is None or not x.layout.size else seen_by_numpy(x)
    if elements is None:
        return None
    try:
        found: Array = elements[key]
    except IndexError:  # which is told elsewhere
        return None
    return found if found.size else None  # of nothing, NumPy looks at no index


def write_at_once(x: Core, parts: tuple[Any, ...], value: Any) -> bool:
    """Write a value over what a key with arrays selects, if that is small, known and right, and nobody else reads it."""
    if len(parts) != 1 or not isinstance(parts[0], (Core, np.ndarray)) or not parts[0].ndim:
        return False
    if parts[0].ndim > 1 and parts[0].dtype != np.dtype(bool):
        return False  # NumPy need not go through these in their order
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
        except (IndexError, TypeError, ValueError, OverflowError):  # told elsewhere; nothing is written then
            return False
    return True


def _suits(value: Any, dtype: DType) -> bool:
    """Whether a number is one of a dtype, so that NumPy does not warn, and raises no error of its own."""
    kind = type(value)
    same = (kind is float and dtype.is_float) or (kind is int and dtype.is_integer)
    return same and bool(dtype.lowest <= value <= dtype.highest)


def _key(x: Core, parts: tuple[Any, ...]) -> Any:
    """A key as NumPy takes it; None unless all arrays in it are few, and what they select is small."""
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
                if not 0 < part.size <= FEW or part.dtype == np.uint64:  # which NumPy takes for signed
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
