"""Tensors of arrays of other libraries, which export their elements through DLPack or to NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import bfloat16
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, NotShared
from ..tensor import Tensor
from ..tensor.conversion_methods import DLPACK_CPU
from ..tensor.dlpack import import_array


def export_foreign(op: str, obj: Any, export: Callable[[], Any]) -> Any:
    """Return `export()`, a function that exports `obj` from another library.

    Raise DTypeError, beginning with `op`, if the export fails, and NotShared if it fails by a BufferError.
    """
    try:
        return export()
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        kind, is_kept = getattr(obj, "dtype", None), isinstance(error, BufferError)
        raise (NotShared if is_kept else DTypeError)(
            f"{op}: {type(obj).__name__}{'' if kind is None else f' of {kind}'} does not"
            f" {'share its memory' if is_kept else 'show its elements to NumPy'} ({error}); copy it there, or convert it there to a dtype"
            " that NumPy has, such as float32, and here with astype"
        ) from error


def is_bfloat16(x: Any) -> bool:
    """Return whether the dtype of `x`, an object of another library, is called bfloat16."""
    return str(getattr(x, "dtype", "")).endswith("bfloat16")


def import_exporter(op: str, x: Any, device: str | None, copy: bool | None) -> Tensor:
    """Return a tensor with the elements of `x`, an object with the DLPack protocol. Arguments and errors are those of `from_dlpack`.

    With `copy` true, the memory is new; otherwise it is shared, and with None a copy by the exporter is allowed. `device` is "cpu" or None;
    None refuses objects in other memory by ArgumentError.
    """
    dlpack_device = export_foreign(op, x, lambda: tuple(x.__dlpack_device__()))
    if dlpack_device[0] != DLPACK_CPU[0] and device is None:
        raise ArgumentError(
            f"{op}: {type(x).__name__} is not in the CPU's memory (DLPack's device {dlpack_device}); bring it there first, or give"
            " device='cpu' if its library does that"
        )
    bits = is_bfloat16(x)
    array = export_foreign(op, x, lambda: import_array(x, device, False if copy is False else None, is_bfloat16=bits))
    dtype = bfloat16 if bits else dtype_of(array.dtype)
    return Tensor._from_copy(array, dtype) if copy else Tensor._from_shared(array, dtype)
