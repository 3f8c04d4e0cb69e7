"""safetensors, by the library of those who made the format (the extra `files`), and states of trainings in such files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..creation import asarray, empty
from ..dtypes import bfloat16, boolean, complex64, complex128, float32, uint16
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, FileError
from ..functions.joining import stack
from ..functions.kinds import check, checked
from ..tensor import Tensor
from .whole import Place, replaced

__all__ = ["load", "load_state", "save", "save_state"]


# What the format calls dtypes; bfloat16 as the words that hold it.
_KINDS = {
    **{f"{letter}{8 * size}": dtype_of(f"{word}{8 * size}") for letter, word in (("I", "int"), ("U", "uint")) for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": dtype_of(f"float{8 * size}") for size in (2, 4, 8)},
    "BOOL": boolean,
    "BF16": uint16,
    "C64": complex64,
}


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
        unfinished.touch()  # the system says best what is in its way
        try:
            library.numpy.save_file(arrays, unfinished, dict(metadata or {}) or None)  # of none it reads none, where there are no tensors
        except library.SafetensorError as error:
            raise OSError(f"save: {os.fspath(path)!r} cannot be written: {error}") from error


def _ml_bfloat16() -> Any:
    try:
        import ml_dtypes
    except ImportError:
        raise ModuleNotFoundError("save: bfloat16 needs ml_dtypes; pip install ml_dtypes, or save x.astype(tx.float32)") from None
    return ml_dtypes.bfloat16


@checked
def load(path: Place, *, mapped: bool = False) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors in a safetensors file, by name, and the texts that belong to them. `mapped`: elements stay in the file until they
    are read, and are never written there. FileError for a file that is none, or is damaged; FileNotFoundError.

    >>> import tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tx.files.save(f"{folder}/x.safetensors", {"a": tx.arange(3)}, {"by": "me"})
    ...     tensors, texts = tx.files.load(f"{folder}/x.safetensors", mapped=True)
    >>> tensors["a"].tolist(), texts
    ([0, 1, 2], {'by': 'me'})
    """
    library = _library()
    Path(path).stat()  # what is not there is told by its name
    try:
        with library.safe_open(str(path), framework="numpy") as file:
            texts, names = dict(file.metadata() or {}), file.keys()
            kinds = {name: file.get_slice(name).get_dtype() for name in names}
            for name, kind in kinds.items():
                if kind not in _KINDS:
                    raise FileError(f"load: {name!r} in {os.fspath(path)!r} has elements of kind {kind}, for which there is no dtype")
            if mapped:
                return _mapped(path, names), texts
            # NumPy has no bfloat16 until ml_dtypes is imported, which need not be installed
            ours = _mapped(path, [name for name, kind in kinds.items() if kind == "BF16"])
            return {name: ours[name].copy().realize() if name in ours else asarray(file.get_tensor(name)) for name in names}, texts
    except FileError:
        raise
    except (library.SafetensorError, ValueError, TypeError, KeyError) as error:
        raise FileError(f"load: {os.fspath(path)!r} is no safetensors file that can be read: {error}") from error


def _mapped(path: Place, names: Sequence[str]) -> dict[str, Tensor]:
    """The tensors where they lie, in a file of which the library has read the header."""
    with Path(path).open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    found = {}
    for name in names:
        kind, shape, (begin, end) = [header[name][key] for key in ("dtype", "shape", "data_offsets")]
        own: Any = _KINDS[kind].numpy
        elements = np.memmap(path, own, "r", 8 + length + begin, tuple(shape)) if end > begin else np.zeros(shape, own)
        found[name] = asarray(elements).view(bfloat16) if kind == "BF16" else asarray(elements)
    return found


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
    try:
        return _filled(json.loads(metadata["tenxor"]), tensors)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FileError(f"load_state: {os.fspath(path)!r} is damaged: what it says of its tensors is no state: {error!r:.200}") from error


def _outlined(x: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """What is left of a state without its tensors, which are put aside by name."""
    if isinstance(x, Tensor):
        while name in tensors:  # as "a/b" is what is in "a" by the name of "b", and may be a name itself
            name += "'"
        tensors[name] = stack([x.real, x.imag]) if x.dtype.is_complex else x
        return {"complex" if x.dtype.is_complex else "tensor": name}
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
    if kind == "complex":
        parts = tensors[value]
        found = empty(parts.shape[1:], dtype=complex64 if parts.dtype is float32 else complex128)
        found.real[...], found.imag[...] = parts[0], parts[1]
        return found
    if kind == "dict":
        return {key: _filled(its, tensors) for key, its in value}
    if kind == "value":
        return value
    items = [_filled(its, tensors) for its in value]
    return tuple(items) if kind == "tuple" else items
