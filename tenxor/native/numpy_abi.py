"""NumPy's binary interface: the addresses of C functions, as laid out in NumPy's headers.

Nothing is taken for granted. If NumPy reports another version of the interface, its memory is not read. `refusal_reasons` lists the
operations without direct calls of C functions, and the reasons.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

KNOWN_ABI_VERSION = 0x02000000  # the version of the binary interface that this module knows: NumPy 2
refusal_reasons: dict[str, str] = {}  # operation -> why its C function is not called directly


@cache
def explain_abi_mismatch() -> str:
    """Return the reason why NumPy's binary interface cannot be used; an empty string for the known interface."""
    try:
        version = _get_api_function(0, ctypes.c_uint)()  # PyArray_GetNDArrayCVersion, the first entry in every version
    except (AttributeError, ImportError, TypeError, ValueError):
        return "NumPy does not tell its binary interface"
    return "" if version == KNOWN_ABI_VERSION else f"NumPy's binary interface is {version:#x}, and {KNOWN_ABI_VERSION:#x} is known"


def get_arrfuncs_address(dtype: Any) -> int:
    """Return the address of the C functions for a dtype of NumPy's (`PyArray_ArrFuncs`). `explain_abi_mismatch()` must be empty."""
    address: int = _get_api_function(365, ctypes.c_void_p, ctypes.py_object)(dtype) or 0  # _PyDataType_GetArrFuncs
    return address


@cache
def _find_api_table() -> int:
    """Return the address of NumPy's table of C functions (`_ARRAY_API`); raise AttributeError or ImportError if it has moved."""
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    address: int = pointer(importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API, None)
    return address


def _get_api_function(number: int, *types: Any) -> Callable[..., Any]:
    """Return the function of NumPy's C interface at index `number` of NumPy's table of functions, as a ctypes function.

    `types` are the ctypes types of the result and of the arguments.
    """
    return ctypes.PYFUNCTYPE(*types)(ctypes.c_void_p.from_address(_find_api_table() + 8 * number).value or 0)
