"""safetensors files, read and written by the package of that name (the extra `files`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from reprlib import repr as short
from typing import Any

import numpy as np

from .._utils.optional_packages import install_hint
from ..api.argument_validation import check_argument, validate_arguments
from ..api.creation import asarray
from ..dtypes import bfloat16, boolean, complex64, uint16
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, FileError
from ..tensor import Tensor
from .atomic_write import FilePath, check_shape, replace_atomically

__all__ = ["load", "save"]


# Dtypes by their name in the format; bfloat16 is read as uint16.
_DTYPE_OF_NAME = {
    **{f"{letter}{8 * size}": dtype_of(f"{word}{8 * size}") for letter, word in (("I", "int"), ("U", "uint")) for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": dtype_of(f"float{8 * size}") for size in (2, 4, 8)},
    "BOOL": boolean,
    "BF16": uint16,
    "C64": complex64,
}


def _load_library(op: str, otherwise: str) -> Any:
    """Return the package safetensors.

    If the package is missing, raise ModuleNotFoundError, beginning with `op`, with advice to install the package, or to do `otherwise` (""
    for no alternative).
    """
    try:
        import safetensors.numpy
    except ImportError:
        raise ModuleNotFoundError(f"{op}: safetensors is not installed; {install_hint('files')}{otherwise and f'; {otherwise}'}") from None
    return safetensors


@validate_arguments
def save(path: FilePath, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a safetensors file, by name, with texts as metadata.

    The file is replaced as a whole when it is complete. Needs the package safetensors, and ml_dtypes for bfloat16; `save_npz` needs
    neither.

    Parameters
    ----------
    path : path
        The file.
    tensors : Mapping of str to Tensor
        Tensors of any shape and any real dtype.
    metadata : Mapping of str to str, optional
        Texts by name.

    Raises
    ------
    DTypeError
        If a tensor is complex. Store the real and imaginary parts instead.
    ArgumentError
        If a tensor has the reserved name "__metadata__", or if a name or text is not valid Unicode text.
    OSError
        If the file cannot be written.
    ModuleNotFoundError
        If a package is missing.

    References
    ----------
    https://github.com/huggingface/safetensors#format

    Examples
    --------
    >>> import tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tx.files.save(f"{folder}/x.safetensors", {"a": tx.arange(3)})
    ...     tensors, texts = tx.files.load(f"{folder}/x.safetensors")
    >>> tensors["a"].tolist(), texts
    ([0, 1, 2], {})
    """
    write_safetensors("save", path, tensors, metadata or {}, "tx.files.save_npz needs no other package")


def write_safetensors(op: str, path: FilePath, tensors: Mapping[str, Any], metadata: Mapping[str, str], alternative: str) -> None:
    """Write `tensors` by name and the texts `metadata` to the safetensors file `path`, which is replaced as a whole.

    Raise the errors of `save`, beginning with `op`. Without the package, the message advises to do `alternative`.
    """
    library = _load_library(op, alternative)
    arrays = {}
    for name, text in metadata.items():
        check_argument(op, "each name in metadata", name, "str")
        check_argument(op, f"metadata[{name!r}]", text, "str")
        _check_text(op, name, text)
    for name, t in tensors.items():
        check_argument(op, "each name", name, "str")
        _check_text(op, name)
        if name == "__metadata__":
            raise ArgumentError(f"{op}: no tensor can have the name '__metadata__', which safetensors files reserve; give it another one")
        tensor = asarray(t)
        if tensor.dtype.is_complex:
            raise DTypeError(f"{op}: {name!r} is {tensor.dtype}, which safetensors files have not; save its real and imag")
        arrays[name] = tensor.copy().view(uint16).to_numpy().view(_ml_bfloat16(op)) if tensor.dtype is bfloat16 else tensor.to_numpy()
    with replace_atomically(path) as unfinished:
        unfinished.touch()  # raises the system's error if the file cannot be created
        try:
            library.numpy.save_file(arrays, unfinished, dict(metadata) or None)  # an empty dict makes a file without tensors unreadable
        except library.SafetensorError as error:
            raise OSError(f"{op}: {os.fspath(path)!r} cannot be written: {error}") from error


def _check_text(op: str, *texts: str) -> None:
    """Raise ArgumentError, beginning with `op`, if one of `texts` has lone surrogates, which no file can hold."""
    for text in texts:
        if text != text.encode(errors="replace").decode():
            raise ArgumentError(f"{op}: the text {short(text)} is not valid Unicode; names and metadata must not contain lone surrogates")


def _ml_bfloat16(op: str) -> Any:
    """Return the NumPy dtype of ml_dtypes for bfloat16. Raise ModuleNotFoundError, beginning with `op`, without the package."""
    try:
        import ml_dtypes
    except ImportError:
        raise ModuleNotFoundError(f"{op}: bfloat16 needs ml_dtypes; pip install ml_dtypes, or save x.astype(tx.float32)") from None
    return ml_dtypes.bfloat16


@validate_arguments
def load(path: FilePath, *, mapped: bool = False) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors in a safetensors file, by name, and its texts.

    Parameters
    ----------
    path : path
        The file.
    mapped : bool, default False
        If True, elements stay in the file until they are read. A mapped file is never written to.

    Returns
    -------
    tensors : dict of str to Tensor
        New tensors with the shapes and dtypes in the file.
    metadata : dict of str to str
        The texts by name.

    Raises
    ------
    FileError
        If the file is not a safetensors file or is damaged, or if no dtype represents the elements of a tensor.
    FileNotFoundError
        If the file does not exist.
    ModuleNotFoundError
        If the package safetensors is missing.

    Examples
    --------
    >>> import tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tx.files.save(f"{folder}/x.safetensors", {"a": tx.arange(3)}, {"by": "me"})
    ...     tensors, texts = tx.files.load(f"{folder}/x.safetensors", mapped=True)
    >>> tensors["a"].tolist(), texts
    ([0, 1, 2], {'by': 'me'})
    """
    return read_safetensors("load", path, mapped=mapped)


def read_safetensors(op: str, path: FilePath, *, mapped: bool = False) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors in the safetensors file `path`, by name, and the texts by name, as two dicts.

    If `mapped`, elements stay in the file until they are read. Raise the errors of `load`, beginning with `op`.
    """
    with Path(path).open("rb"):  # raises an error with the path if the file does not exist
        pass
    library = _load_library(op, "")
    file_text = f"{os.fspath(path)!r}"
    try:
        with library.safe_open(str(path), framework="numpy") as file:
            texts, names = dict(file.metadata() or {}), file.keys()
            kinds = {}
            for name in names:
                tensor_slice = file.get_slice(name)
                kinds[name] = tensor_slice.get_dtype()
                if kinds[name] not in _DTYPE_OF_NAME:
                    raise FileError(f"{op}: {name!r} in {file_text} has elements of kind {kinds[name]}, which no dtype represents")
                check_shape(f"{op}: {name!r} in {file_text}", tuple(tensor_slice.get_shape()))
            if mapped:
                return _map_tensors(path, names), texts
            # NumPy has no bfloat16 until ml_dtypes is imported, and that package may be missing.
            mapped_tensors = _map_tensors(path, [name for name, kind in kinds.items() if kind == "BF16"])
            return {
                name: mapped_tensors[name].copy().realize() if name in mapped_tensors else asarray(file.get_tensor(name)) for name in names
            }, texts
    except FileError:
        raise
    except (library.SafetensorError, ValueError, TypeError, KeyError) as error:
        raise FileError(f"{op}: {file_text} is not a readable safetensors file: {error}") from error


def _map_tensors(path: FilePath, names: Sequence[str]) -> dict[str, Tensor]:
    """Return the tensors `names` in the file `path` by name, memory-mapped. safetensors must have accepted the header of the file."""
    with Path(path).open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    tensors = {}
    for name in names:
        kind, shape, (begin, end) = [header[name][key] for key in ("dtype", "shape", "data_offsets")]
        element_dtype: Any = _DTYPE_OF_NAME[kind].numpy
        elements = np.memmap(path, element_dtype, "r", 8 + length + begin, tuple(shape)) if end > begin else np.zeros(shape, element_dtype)
        tensors[name] = asarray(elements).view(bfloat16) if kind == "BF16" else asarray(elements)
    return tensors
