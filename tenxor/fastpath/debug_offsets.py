"""A second witness for the object layouts that the fast path assumes: the offsets that CPython publishes for debuggers.

From CPython 3.13 on, the exported variable `_PyRuntime` begins with a structure `_Py_DebugOffsets` (CPython's
`Include/internal/pycore_debug_offsets.h`; in 3.13 `pycore_runtime.h`). Its members are 64-bit words: a cookie, the version of the
interpreter, a flag for builds without a GIL, and offsets of members of CPython's objects. The structure is stable between patch versions
and changes between minor versions. So `WORD_INDICES` says for each minor version which word holds an offset.

CPython 3.11 and 3.12 publish no such structure. There `self_test.check_object_layout` is the only witness.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence

from .object_layout import BYTES_CONTENT_OFFSET, DIGITS_OFFSET, FLOAT_VALUE_OFFSET, SIZE_OFFSET, TUPLE_ITEMS_OFFSET, TYPE_OFFSET
from .type_slots import TP_AS_NUMBER_OFFSET
from .vectorcall_switch import TP_FLAGS_OFFSET

OLDEST_MINOR, FIRST_MINOR_WITH_OFFSETS = 11, 13  # of CPython 3
COOKIE = int.from_bytes(b"xdebugpy", sys.byteorder)

# The offsets in bytes that the fast path relies on. `tp_as_number`, the number table, is the member of a type after `tp_repr`.
ASSUMED_OFFSETS = {
    "PyObject.ob_type": TYPE_OFFSET,
    "PyTypeObject.tp_repr": TP_AS_NUMBER_OFFSET - 8,
    "PyTypeObject.tp_flags": TP_FLAGS_OFFSET,
    "PyTupleObject.ob_item": TUPLE_ITEMS_OFFSET,
    "PyTupleObject.ob_size": SIZE_OFFSET,
    "PyFloatObject.ob_fval": FLOAT_VALUE_OFFSET,
    "PyLongObject.lv_tag": SIZE_OFFSET,
    "PyLongObject.ob_digit": DIGITS_OFFSET,
    "PyBytesObject.ob_size": SIZE_OFFSET,
    "PyBytesObject.ob_sval": BYTES_CONTENT_OFFSET,
}
# By minor version of CPython 3: the index of the word of `_Py_DebugOffsets` that holds each of these offsets, in the same order.
WORD_INDICES = {
    13: (45, 48, 49, 51, 52, 60, 62, 63, 65, 66),
    14: (51, 54, 55, 57, 58, 70, 72, 73, 75, 76),
    15: (59, 62, 63, 69, 70, 82, 84, 85, 87, 88),
}


def check_debug_offsets() -> None:
    """Raise LookupError unless the layouts of this CPython are known, and its debug offsets agree with `ASSUMED_OFFSETS`."""
    major, minor = sys.version_info[:2]
    newest = max(WORD_INDICES)
    if major != 3 or not OLDEST_MINOR <= minor <= newest:
        raise LookupError(
            f"the object layouts of CPython {major}.{minor} are unknown; the fast path needs CPython 3.{OLDEST_MINOR} to 3.{newest}"
        )
    if minor >= FIRST_MINOR_WITH_OFFSETS:
        compare(read_words(WORD_INDICES[minor][-1] + 1), WORD_INDICES[minor])


def read_words(count: int) -> list[int]:
    """Return the first `count` 64-bit words of `_PyRuntime`, unsigned. Raise LookupError if the interpreter does not export
    that variable.
    """
    try:
        return list((ctypes.c_uint64 * count).in_dll(ctypes.pythonapi, "_PyRuntime"))
    except ValueError:
        raise LookupError(
            "this CPython does not export _PyRuntime, so its object layouts cannot be checked; the fast path needs an interpreter with it"
        ) from None


def compare(words: Sequence[int], indices: Sequence[int]) -> None:
    """Raise LookupError unless `words` are the debug offsets of this interpreter and equal `ASSUMED_OFFSETS`.

    `words` are the first words of `_PyRuntime`. Item k of `indices` is the index of the word for the k-th offset of `ASSUMED_OFFSETS`.
    """
    cookie, version, without_gil = words[:3]
    if cookie != COOKIE or version != sys.hexversion:
        raise LookupError(f"_PyRuntime does not begin with the debug offsets of CPython {sys.version.split()[0]}")
    if without_gil:
        raise LookupError("this CPython is built without a GIL, so its objects are laid out differently")
    for (member, assumed), index in zip(ASSUMED_OFFSETS.items(), indices, strict=True):
        if words[index] != assumed:
            raise LookupError(f"CPython's debug offsets say {member} is at byte {words[index]}; the fast path assumes {assumed}")
