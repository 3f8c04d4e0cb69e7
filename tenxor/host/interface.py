"""NumPy's binary interface: where its functions of C are, as far as its headers say so, and what is not used because it is otherwise.

What is not as it is believed to be is not used: a NumPy whose interface is another one is not looked into.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

INTERFACE = 0x02000000  # NumPy's number of its interface, by which its headers are as is believed here: that of all of NumPy 2
refused: dict[str, str] = {}  # why operations are not computed by functions of C, called in place


@cache
def other_interface() -> str:
    """What is unlike what is known of NumPy's objects; nothing if they are as they were."""
    try:
        version = _called(0, ctypes.c_uint)()  # which stands first in all of them
    except (AttributeError, ImportError, TypeError, ValueError):
        return "NumPy does not tell its binary interface"
    return "" if version == INTERFACE else f"NumPy's binary interface is {version:#x}, and {INTERFACE:#x} is known"


def functions_of(dtype: Any) -> int:
    """Where the functions of C for a dtype of NumPy's begin (`PyArray_ArrFuncs`). The interface is to be the one that is known."""
    found: int = _called(365, ctypes.c_void_p, ctypes.py_object)(dtype) or 0  # _PyDataType_GetArrFuncs
    return found


@cache
def _table() -> int:
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    found: int = pointer(importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API, None)
    return found


def _called(number: int, *types: Any) -> Callable[..., Any]:
    """A function of the interface, by its number there."""
    return ctypes.PYFUNCTYPE(*types)(ctypes.c_void_p.from_address(_table() + 8 * number).value or 0)
