"""DLPack capsules, made and read by NumPy, except for two fields set or read here.

NumPy has no bfloat16, so such a tensor passes through NumPy as its bits, and only the dtype's name is changed. A copy made before NumPy saw
the data is marked as a copy. (https://dmlc.github.io/dlpack/latest/c_api.html)
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_UINT_CODE, _BFLOAT_CODE = 1, 4  # kDLUInt, kDLBfloat
_IS_COPIED_FLAG = 1 << 1  # DLPACK_FLAG_BITMASK_IS_COPIED


class _DLTensor(ctypes.Structure):
    """The C struct `DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensorVersioned(ctypes.Structure):
    """The C struct `DLManagedTensorVersioned`. The older, unversioned `DLManagedTensor` begins with its `DLTensor`."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


_VERSIONED_NAME, _LEGACY_NAME = b"dltensor_versioned", b"dltensor"
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def _read_capsule(capsule: Any) -> tuple[_DLTensor, _DLManagedTensorVersioned | None]:
    """Return the structs in a capsule that has not been consumed; the second is None for an unversioned capsule."""
    if _is_valid(capsule, _VERSIONED_NAME):
        versioned = _DLManagedTensorVersioned.from_address(_get_pointer(capsule, _VERSIONED_NAME))
        return versioned.tensor, versioned
    return _DLTensor.from_address(_get_pointer(capsule, _LEGACY_NAME)), None


def make_capsule(array: Array, max_version: tuple[int, int] | None, *, is_bfloat16: bool, is_copied: bool) -> Any:
    """Return the DLPack capsule of `array`, in the newest version up to `max_version` (None for before 1.0).

    `is_bfloat16` marks elements that are bits of bfloat16, and `is_copied` a copy made for this capsule. Versions before 1.0 cannot express
    the latter.
    """
    capsule = array.__dlpack__(max_version=max_version)
    tensor, versioned = _read_capsule(capsule)
    if is_bfloat16:
        tensor.kind = _BFLOAT_CODE
    if is_copied and versioned is not None:
        versioned.flags |= _IS_COPIED_FLAG
    return capsule


class _BitsExporter:
    """A wrapper of another library's exporter of bfloat16, whose capsules NumPy reads as the bits."""

    def __init__(self, exporter: Any) -> None:
        self.exporter = exporter

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.exporter.__dlpack__(**options)
        tensor, _ = _read_capsule(capsule)
        if tensor.kind == _BFLOAT_CODE:
            tensor.kind = _UINT_CODE
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.exporter.__dlpack_device__()


def import_array(exporter: Any, device: str | None, copy: bool | None, *, is_bfloat16: bool) -> Array:
    """Return a NumPy array over the memory of the DLPack object `exporter`, or a copy if necessary, or if `copy` is True.

    If `device` is not None, the exporter must give elements on the CPU. With `copy` False, NumPy raises an error for a necessary copy. With
    `is_bfloat16` the array holds the bits.
    """
    source = _BitsExporter(exporter) if is_bfloat16 else exporter
    if device is None and copy is None:  # the only call that the oldest exporters understand
        return np.from_dlpack(source)
    return np.from_dlpack(source, device="cpu" if device is not None else None, copy=copy)
