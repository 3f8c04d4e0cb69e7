"""Generated deallocators for small objects of the package, which keep dead objects for reuse (`code/reuse.py`)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from .objects import REUSED

DEALLOC = 48  # offset of `tp_dealloc` in a type object, in bytes; the same in all versions of CPython 3


def stand_in(library: Mapping[str, int], classes: Mapping[str, type], block: type) -> None:
    """Replace `tp_dealloc` of the `REUSED` classes by generated deallocators, for good.

    `library` maps symbols to addresses, `classes` maps names to classes, and `block` is the type of small memory blocks. Raise LookupError,
    and change nothing, if the types are not laid out as expected or a class has a `__del__`.
    """
    places = {name: ctypes.c_void_p.from_address(id(classes[name]) + DEALLOC) for name in REUSED}
    python = {place.value for place in places.values()}
    own = ctypes.c_void_p.from_address(id(block) + DEALLOC).value
    if len(python) != 1 or own != library["block_dies"] or any([hasattr(classes[name], "__del__") for name in REUSED]):
        raise LookupError("what is called when an object dies is not where it is looked for")
    for name, place in places.items():
        place.value = library[f"{name}_dies"]
