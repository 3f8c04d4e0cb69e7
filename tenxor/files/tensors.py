"""safetensors, by the library of those who made the format (the extra `files`), and states of trainings in such files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..creation import asarray
from ..dtypes import bfloat16, uint16
from ..errors import ArgumentError, DTypeError, FileError
from ..functions.kinds import check, checked
from ..tensor import Tensor
from .whole import Place, replaced

__all__ = ["load", "load_state", "save", "save_state"]


def _library() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ModuleNotFoundError("files: safetensors is not installed; pip install 'tenxor[files]'") from None
    return safetensors


@checked
def save(path: Place, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a safetensors file, by name, and texts that belong to them. The file is replaced when all of it is there.

    DTypeError for complex tensors, which the format has not; OSError where the file cannot be written.
    """
    library = _library()
    arrays = {}
    for name, text in (metadata or {}).items():
        check("save", "each name in metadata", name, "str")
        check("save", f"metadata[{name!r}]", text, "str")
    for name, t in tensors.items():
        check("save", "each name", name, "str")
        own = asarray(t)
        if own.dtype.is_complex:
            raise DTypeError(f"save: {name!r} is {own.dtype}, which safetensors files have not; save its real and imag")
        arrays[name] = own.copy().view(uint16).to_numpy().view(_ml_bfloat16()) if own.dtype is bfloat16 else own.to_numpy()
    with replaced(path) as unfinished:
        library.numpy.save_file(arrays, unfinished, dict(metadata or {}))


def _ml_bfloat16() -> Any:
    try:
        import ml_dtypes
    except ImportError:
        raise ModuleNotFoundError("save: bfloat16 needs ml_dtypes; pip install ml_dtypes, or save x.astype(tx.float32)") from None
    return ml_dtypes.bfloat16


@checked
def load(path: Place) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors in a safetensors file, by name, and the texts that belong to them. FileError for a file that is none, or is
    damaged; FileNotFoundError.
    """
    library = _library()
    Path(path).stat()  # what is not there is told by its name
    try:
        with library.safe_open(str(path), framework="numpy") as file:
            return {name: asarray(file.get_tensor(name)) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (library.SafetensorError, ValueError, TypeError, KeyError) as error:
        raise FileError(f"load: {os.fspath(path)!r} is no safetensors file that can be read: {error}") from error


@checked
def save_state(path: Place, state: Any) -> None:
    """Write nested dicts and lists of tensors, numbers and texts to one safetensors file: what `load_state` gives again."""
    tensors: dict[str, Tensor] = {}
    outline = _outlined(state, "", tensors)
    save(path, tensors, {"tenxor": json.dumps(outline)})


@checked
def load_state(path: Place) -> Any:
    """What `save_state` wrote. FileError for any other file."""
    tensors, metadata = load(path)
    if "tenxor" not in metadata:
        raise FileError(f"load_state: {os.fspath(path)!r} was not written by save_state; use load(path)")
    return _filled(json.loads(metadata["tenxor"]), tensors)


def _outlined(x: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """What is left of a state without its tensors, which are put aside by name."""
    if isinstance(x, Tensor):
        tensors[name] = x
        return {"tensor": name}
    if isinstance(x, Mapping):
        return {"dict": [[key, _outlined(value, f"{name}/{key}" if name else str(key), tensors)] for key, value in x.items()]}
    if isinstance(x, (list, tuple)):
        kind = "tuple" if isinstance(x, tuple) else "list"
        return {kind: [_outlined(value, f"{name}/{k}" if name else str(k), tensors) for k, value in enumerate(x)]}
    if x is None or isinstance(x, (bool, int, float, str)):
        return {"value": x}
    raise ArgumentError(
        f"save_state: {name!r} is {x!r} of type {type(x).__name__}; a state is made of tensors, numbers, texts, lists and dicts"
    )


def _filled(outline: Any, tensors: Mapping[str, Tensor]) -> Any:
    ((kind, value),) = outline.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {key: _filled(its, tensors) for key, its in value}
    if kind == "value":
        return value
    items = [_filled(its, tensors) for its in value]
    return tuple(items) if kind == "tuple" else items
