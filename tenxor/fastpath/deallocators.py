"""Generated deallocators for small objects of the package, which keep dead objects for reuse (`fastpath/emit/free_lists.py`)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from .object_layout import REUSED_CLASSES

TP_DEALLOC_OFFSET = 48  # offset of `tp_dealloc` in a type object, in bytes; the same in all versions of CPython 3


def replace_deallocators(library: Mapping[str, int], classes: Mapping[str, type], block_type: type) -> None:
    """Replace `tp_dealloc` of the classes named in `REUSED_CLASSES` by generated deallocators, for good.

    `library` maps symbols of the generated code to addresses, `classes` maps names to classes, and `block_type` is the type of small memory
    blocks, which keeps its deallocator, `dealloc_block`: so the offset of `tp_dealloc` is proved. Raise LookupError, and change nothing, if
    the proof fails, if the classes have different deallocators, as at a second call, or if a class has a `__del__`.
    """
    slots = {name: ctypes.c_void_p.from_address(id(classes[name]) + TP_DEALLOC_OFFSET) for name in REUSED_CLASSES}
    original_addresses = {slot.value for slot in slots.values()}
    block_deallocator = ctypes.c_void_p.from_address(id(block_type) + TP_DEALLOC_OFFSET).value
    if (
        len(original_addresses) != 1
        or block_deallocator != library["dealloc_block"]
        or any([hasattr(classes[name], "__del__") for name in REUSED_CLASSES])
    ):
        raise LookupError("a class has an unexpected deallocator (tp_dealloc), or a reused class has a __del__ method")
    for name, slot in slots.items():
        slot.value = library[f"dealloc_{name}"]
