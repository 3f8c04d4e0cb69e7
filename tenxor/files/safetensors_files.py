"""safetensors files: tensors by name, with texts as metadata (https://github.com/huggingface/safetensors#format).

A file is the length of its header in 8 bytes, the header as JSON, and the elements of the tensors without gaps. The whole header is checked
before memory for tensors is allocated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from reprlib import repr as short
from typing import Any, BinaryIO, TypeGuard

import numpy as np

from .._utils.records import NamedTuple
from ..api.argument_validation import check_argument, validate_arguments
from ..api.creation import asarray
from ..dtypes import DType, bfloat16, boolean, complex64, uint16
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, FileError
from ..tensor import Tensor
from .atomic_write import FilePath, check_shape, replace_atomically
from .file_kinds import kind_of_content
from .numpy_files import ALIGNMENT_BYTES

__all__ = ["load", "save"]

MAX_HEADER_BYTES = 100_000_000  # the limit of the package safetensors
_MAX_AXES = 64  # of an array of NumPy
_LENGTH_BYTES = 8  # of the header's length, at the begin of the file
_METADATA = "__metadata__"
# Dtypes by their name in the format.
_DTYPE_OF_NAME = {
    **{f"{letter}{8 * size}": dtype_of(f"{word}{8 * size}") for letter, word in (("I", "int"), ("U", "uint")) for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": dtype_of(f"float{8 * size}") for size in (2, 4, 8)},
    "BOOL": boolean,
    "BF16": bfloat16,
    "C64": complex64,
}
_NAME_OF_DTYPE = {dtype: name for name, dtype in _DTYPE_OF_NAME.items()}


class _Entry(NamedTuple):
    """A tensor in the header of a file. Its elements stand in the bytes from `begin` up to `end`, counted from the end of the header."""

    dtype: DType
    shape: tuple[int, ...]
    begin: int
    end: int


@validate_arguments
def save(path: FilePath, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a safetensors file, by name, with texts as metadata.

    The file is replaced as a whole when it is complete. `tx.save` also takes nested states, and other kinds of files.

    Parameters
    ----------
    path : path
        The file.
    tensors : Mapping of str to Tensor
        Tensors of any shape, and of any dtype but complex128.
    metadata : Mapping of str to str, optional
        Texts by name.

    Raises
    ------
    DTypeError
        If a tensor is complex128. Store the real and imaginary parts instead.
    ArgumentError
        If a tensor has the reserved name "__metadata__", if a name or text is not valid Unicode text, or if names, shapes and texts take
        more than 100 MB.
    OSError
        If the file cannot be written.

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
    write_safetensors("save", path, tensors, metadata or {})


def write_safetensors(op: str, path: FilePath, tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Write `tensors` by name and the texts `metadata` to the safetensors file `path`, which is replaced as a whole.

    Raise ArgumentError for names or texts that a file cannot hold, and DTypeError for complex128; errors begin with `op`.
    """
    for name, text in metadata.items():
        check_argument(op, "each name in metadata", name, "str")
        check_argument(op, f"metadata[{name!r}]", text, "str")
        _check_text(op, name, text)
    checked = {name: _check_tensor(op, name, x) for name, x in tensors.items()}
    # Large elements come first: then the elements of each tensor are aligned without gaps.
    in_file_order = sorted(checked.items(), key=lambda item: -item[1].dtype.itemsize)
    offsets, end = {}, 0
    for name, x in in_file_order:
        offsets[name] = [end, end + x.nbytes]
        end += x.nbytes
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    for name, x in checked.items():
        header[name] = {"dtype": _NAME_OF_DTYPE[x.dtype], "shape": list(x.shape), "data_offsets": offsets[name]}
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-(_LENGTH_BYTES + len(encoded)) % ALIGNMENT_BYTES)
    if len(encoded) > MAX_HEADER_BYTES:
        raise ArgumentError(
            f"{op}: names, shapes and texts take {len(encoded)} bytes; they must take at most {MAX_HEADER_BYTES}; use several files"
        )
    with replace_atomically(path) as unfinished, unfinished.open("wb") as file:
        file.write(len(encoded).to_bytes(_LENGTH_BYTES, "little") + encoded)
        for _, x in in_file_order:
            if x.size:
                stored = x.detach().copy().view(uint16) if x.dtype is bfloat16 else x.detach()
                file.write(np.ascontiguousarray(stored.__array__()).data)


def _check_tensor(op: str, name: Any, x: Any) -> Tensor:
    """Return `x` as a tensor. Raise ArgumentError or DTypeError, beginning with `op`, if a file cannot hold `x` under the name `name`.

    Names must be valid Unicode text other than "__metadata__"; complex128 is refused.
    """
    check_argument(op, "each name", name, "str")
    _check_text(op, name)
    if name == _METADATA:
        raise ArgumentError(f"{op}: no tensor can have the name '{_METADATA}', which safetensors files reserve; give it another one")
    tensor = asarray(x)
    if tensor.dtype not in _NAME_OF_DTYPE:
        raise DTypeError(f"{op}: {name!r} is {tensor.dtype}, which safetensors files have not; save its real and imag")
    return tensor


def _check_text(op: str, *texts: str) -> None:
    """Raise ArgumentError, beginning with `op`, if a text in `texts` has lone surrogates, invalid in a file."""
    for text in texts:
        if text != text.encode(errors="replace").decode():
            raise ArgumentError(f"{op}: the text {short(text)} is not valid Unicode; names and metadata must not contain lone surrogates")


@validate_arguments
def load(path: FilePath, *, mapped: bool = False) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors in a safetensors file, by name, and its texts.

    `tx.load` also restores nested states, and reads other kinds of files.

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

    If `mapped`, elements stay in the file until they are read. Raise FileError, beginning with `op`, for a damaged file or another format.
    """
    if (kind := kind_of_content(path)) != "safetensors":
        raise FileError(f"{op}: {os.fspath(path)!r} is not a readable safetensors file but {kind}; use tx.load(path)")
    with Path(path).open("rb") as file:
        header_bytes, entries, texts = _read_header(op, f"{os.fspath(path)!r}", file)
        content = None  # the mapped bytes of the elements; None to read each tensor
        if mapped and any(entry.end for entry in entries.values()):
            content = np.memmap(path, np.uint8, "r", header_bytes)
        tensors = {}
        for name, entry in entries.items():
            if content is not None:
                shared = asarray(content[entry.begin : entry.end].view(entry.dtype.numpy).reshape(entry.shape))
                tensors[name] = shared.view(bfloat16) if entry.dtype is bfloat16 else shared
                continue
            elements = np.empty(entry.shape, entry.dtype.numpy)
            file.seek(header_bytes + entry.begin)
            if elements.size and file.readinto(elements.data) < elements.nbytes:
                raise FileError(f"{op}: {os.fspath(path)!r} was cut short while {name!r} was read; load the file when it is complete")
            tensors[name] = Tensor._from_copy(elements, entry.dtype)
    return tensors, texts


def _read_header(op: str, file_text: str, file: BinaryIO) -> tuple[int, dict[str, _Entry], dict[str, str]]:
    """Return the number of bytes before the elements, the checked entries by name in the order of the header, and the texts by name.

    Raise FileError, beginning with `op` and with the file's name `file_text`, if the header is invalid or contradicts the size of the file.
    """
    size = os.fstat(file.fileno()).st_size
    start = file.read(_LENGTH_BYTES)
    length = int.from_bytes(start, "little")
    subject = f"{op}: {file_text} is not a readable safetensors file"
    if len(start) < _LENGTH_BYTES or length > min(size - _LENGTH_BYTES, MAX_HEADER_BYTES):
        raise FileError(
            f"{subject}: it must begin with the length of its header in {_LENGTH_BYTES} bytes, at most {MAX_HEADER_BYTES}, and it begins"
            f" with {start!r} and has {size} bytes"
        )
    try:
        header = json.loads(file.read(length), object_pairs_hook=_make_dict)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{subject}: its header is no valid JSON: {error}") from error
    if not isinstance(header, dict):
        raise FileError(f"{subject}: its header is {short(header)}; it must be a JSON object")
    texts = header.pop(_METADATA, {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise FileError(f"{subject}: its metadata is {short(texts)}; it must be texts by name")
    entries = {name: _read_entry(op, f"{name!r} in {file_text}", value) for name, value in header.items()}
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != end:
            raise FileError(f"{subject}: {name!r} begins at byte {entry.begin}; it must begin at {end}, where the tensor before it ends")
        end = entry.end
    if end != size - _LENGTH_BYTES - length:
        raise FileError(f"{subject}: its tensors take {end} bytes; they must take all {size - _LENGTH_BYTES - length} after the header")
    return _LENGTH_BYTES + length, entries, texts


def _make_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the dict of a JSON object. Raise ValueError if a key occurs twice, or is not valid Unicode text."""
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a name occurs twice")
    for name in result:
        name.encode()  # raises UnicodeEncodeError for a lone surrogate
    return result


def _read_entry(op: str, tensor_text: str, value: Any) -> _Entry:
    """Return the entry of a tensor from its JSON `value`. Raise FileError, beginning with `op`, if the entry contradicts itself.

    `tensor_text` is the name of the tensor and of the file.
    """
    fields: dict[str, Any] = value if isinstance(value, dict) else {}
    kind, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(kind, str) or not _is_list_of_counts(shape) or not _is_list_of_counts(offsets) or len(offsets) != 2:
        raise FileError(
            f"{op}: {tensor_text} is described by {short(value)}, so the file is not a readable safetensors file; an entry must have a text"
            " as dtype, a list of sizes as shape, and two positions as data_offsets"
        )
    if kind not in _DTYPE_OF_NAME:
        raise FileError(f"{op}: {tensor_text} has elements of kind {kind}, which no dtype represents")
    dtype, (begin, end) = _DTYPE_OF_NAME[kind], offsets
    check_shape(f"{op}: {tensor_text}", tuple(shape))
    if len(shape) > _MAX_AXES:
        raise FileError(f"{op}: {tensor_text} has {len(shape)} axes; it must have at most {_MAX_AXES}")
    if end - begin != prod(shape) * dtype.itemsize:
        raise FileError(
            f"{op}: {tensor_text} has shape {tuple(shape)} and dtype {kind}, which take {prod(shape) * dtype.itemsize} bytes; its"
            f" data_offsets must be as far apart, and are {offsets}, so the file is damaged; write or download it again"
        )
    return _Entry(dtype, tuple(shape), begin, end)


def _is_list_of_counts(value: Any) -> TypeGuard[list[int]]:
    """Return whether `value` is a list of integers of 0 or more."""
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)
