"""NumPy's files: npy with one tensor, npz with several by name (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).

Elements may stay in the file, memory-mapped, until they are read. The sizes in a header are checked against the size of the file first.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from io import BufferedReader
from math import prod
from pathlib import Path
from reprlib import repr as short
from typing import IO, Any, BinaryIO

import numpy as np

from ..api.argument_validation import validate_arguments
from ..api.creation import asarray
from ..dtypes import bfloat16
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, FileError
from ..tensor import Tensor
from ..tensor.core import Operand
from .atomic_write import FilePath, check_shape, replace_atomically

__all__ = ["load_npy", "load_npz", "save_npy", "save_npz"]

MAX_NAME_BYTES = 65_535 - len(".npy")  # a zip archive stores the length of a name in 16 bits
ALIGNMENT_BYTES = 64  # bytes: elements in a written file are aligned, so that they can be used without a copy
_MAX_DEFLATE_RATIO = 1032  # the largest compression ratio of deflate


@validate_arguments
def save_npy(path: FilePath, x: Operand) -> None:
    """Write a tensor to an npy file. The file is replaced as a whole when it is complete.

    Parameters
    ----------
    path : path
        The file.
    x : Tensor
        A tensor of any shape, and of any dtype but bfloat16.

    Raises
    ------
    DTypeError
        If `x` is bfloat16. NumPy does not have this dtype.
    OSError
        If the file cannot be written.

    References
    ----------
    The NPY format, versions 1.0 and 2.0: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

    Examples
    --------
    >>> import tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tx.files.save_npy(f"{folder}/x.npy", tx.arange(3))
    ...     tx.files.load_npy(f"{folder}/x.npy").tolist()
    [0, 1, 2]
    """
    array = _to_storable_array("save_npy", "x", x)
    with replace_atomically(path) as unfinished, unfinished.open("wb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


@validate_arguments
def load_npy(path: FilePath, *, mapped: bool = False) -> Tensor:
    """Return the tensor in an npy file.

    Parameters
    ----------
    path : path
        The file, of version 1.0 or 2.0 of the format.
    mapped : bool, default False
        If True, the elements stay in the file until they are read, and the file is never written to.

    Returns
    -------
    Tensor
        A new tensor with the shape and dtype in the file.

    Raises
    ------
    FileError
        If the file is not an npy file or is damaged.
    FileNotFoundError
        If the file does not exist.
    DTypeError
        If the elements are not numbers.

    Examples
    --------
    >>> import tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tx.files.save_npy(f"{folder}/x.npy", tx.arange(3))
    ...     tx.files.load_npy(f"{folder}/x.npy", mapped=True).tolist()
    [0, 1, 2]
    """
    with Path(path).open("rb") as file:
        tensor = _read_tensor(f"load_npy: {os.fspath(path)!r}", file, os.fstat(file.fileno()).st_size, path if mapped else None, 0)
    return tensor


@validate_arguments
def save_npz(path: FilePath, /, **tensors: Operand) -> None:
    """Write tensors to an npz file, by name.

    The file is uncompressed and aligned, so that `load_npz(mapped=True)` reads the tensors without a copy. It is replaced as a whole when
    it is complete.

    Parameters
    ----------
    path : path
        The file.
    **tensors : Tensor
        Tensors of any shape, and of any dtype but bfloat16.

    Raises
    ------
    ArgumentError
        If a name has a NUL, has more than 65,531 bytes, or is not valid Unicode.
    DTypeError
        If a tensor is bfloat16. NumPy does not have this dtype.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tx.files.save_npz(f"{folder}/x.npz", a=tx.arange(2), b=tx.ones(1))
    ...     {name: t.tolist() for name, t in tx.files.load_npz(f"{folder}/x.npz").items()}
    {'a': [0, 1], 'b': [1.0]}
    """
    write_npz("save_npz", path, tensors)


def write_npz(op: str, path: FilePath, tensors: Mapping[str, Operand]) -> None:
    """Write `tensors` by name to the npz file `path`, uncompressed and aligned. The file is replaced as a whole.

    Raise ArgumentError for a name that an archive cannot hold, and DTypeError for bfloat16; errors begin with `op`.
    """
    for name in tensors:
        _check_name(op, name)
    arrays = {name: _to_storable_array(op, name, x) for name, x in tensors.items()}
    with replace_atomically(path) as unfinished, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")
            archive.fp.seek(0, os.SEEK_END)  # type: ignore[union-attr]
            content_begin = archive.fp.tell() + 30 + len(info.filename.encode()) + 4  # type: ignore[union-attr]  # a header's length
            padding = -content_begin % ALIGNMENT_BYTES
            info.extra = b"\x00\x00" + padding.to_bytes(2, "little") + bytes(padding)
            info.file_size = array.nbytes + 1024  # decides whether the archive needs 64-bit sizes
            with archive.open(info, "w", force_zip64=False) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


@validate_arguments
def load_npz(path: FilePath, *, mapped: bool = False) -> dict[str, Tensor]:
    """Return the tensors in an npz file, by name.

    Parameters
    ----------
    path : path
        The file.
    mapped : bool, default False
        If True, uncompressed tensors stay in the file until they are read, and the file is never written to.

    Returns
    -------
    dict of str to Tensor
        New tensors in the order of the file. They take at most 1,032 times as many bytes as the file, the largest possible compression
        ratio.

    Raises
    ------
    FileError
        If the file is not an npz file or is damaged.
    FileNotFoundError
        If the file does not exist.
    DTypeError
        If elements are not numbers.

    Examples
    --------
    >>> import tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tx.files.save_npz(f"{folder}/x.npz", a=tx.arange(2))
    ...     tx.files.load_npz(f"{folder}/x.npz")["a"].tolist()
    [0, 1]
    """
    return read_npz("load_npz", path, mapped=mapped)


def read_npz(op: str, path: FilePath, *, mapped: bool = False) -> dict[str, Tensor]:
    """Return the tensors in the npz file `path`, by name, in the order of the file.

    If `mapped`, uncompressed tensors stay in the file until they are read. Raise FileError for a damaged file or Python objects, and
    DTypeError for elements of an unknown dtype; errors begin with `op`.
    """
    tensors: dict[str, Tensor] = {}
    with Path(path).open("rb") as file:
        size = left = os.fstat(file.fileno()).st_size
        try:
            with _open_archive(file) as archive:
                for info in archive.infolist():
                    name = info.filename.removesuffix(".npy")
                    subject = f"{op}: {name!r} in {os.fspath(path)!r}"
                    if name in tensors:
                        raise FileError(f"{subject} occurs twice; each name must occur once in an archive")
                    left -= info.compress_size  # counted down, since damaged members may claim the same bytes
                    if left < 0 or info.file_size > info.compress_size * _MAX_DEFLATE_RATIO + 64:
                        raise FileError(f"{subject} says it has {info.file_size} bytes, which this file of {size} cannot hold")
                    with archive.open(info) as member:
                        stored = mapped and info.compress_type == zipfile.ZIP_STORED
                        tensors[name] = _read_tensor(subject, member, info.file_size, path if stored else None, _content_offset(path, info))
        except (FileError, DTypeError, MemoryError):
            raise
        except Exception as error:  # errors about damaged bytes have no common type
            raise FileError(f"{op}: {os.fspath(path)!r} is not a readable npz file: {error}") from error
    return tensors


def _open_archive(file: BinaryIO) -> zipfile.ZipFile:
    """Return `file` as a zip archive for reading. Raise BadZipFile if `file` is none, or if its directory claims to exceed memory."""
    try:
        return zipfile.ZipFile(file)
    except MemoryError as error:  # the sizes in the directory are damaged
        raise zipfile.BadZipFile("its directory is larger than memory") from error


def _check_name(op: str, name: str) -> None:
    """Raise ArgumentError, beginning with `op`, for a name that an archive cannot hold: with a NUL, too long, or not Unicode."""
    encoded = name.encode(errors="replace")
    if "\0" in name or len(encoded) > MAX_NAME_BYTES or name != encoded.decode():
        raise ArgumentError(
            f"{op}: the name {short(name)} cannot be in an archive; a name must be Unicode text without NUL, of at most"
            f" {MAX_NAME_BYTES} bytes"
        )


def _content_offset(path: FilePath, info: zipfile.ZipInfo) -> int:
    """Return the position, in bytes, of the content of the member `info` in the archive `path`."""
    with Path(path).open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(30)
    return info.header_offset + 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")


def _to_storable_array(op: str, name: str, x: Any) -> np.ndarray[Any, Any]:
    """Return `x`, the tensor `name`, as a NumPy array, over the same memory where possible.

    Raise DTypeError, beginning with `op`, for bfloat16.
    """
    t = asarray(x)
    if t.dtype is bfloat16:
        raise DTypeError(
            f"{op}: {name!r} is bfloat16, which NumPy's files have not; use tx.files.save or tx.files.save_state,"
            " or save x.astype(tx.float32)"
        )
    array: np.ndarray[Any, Any] = t.detach().__array__()
    return array


def _read_tensor(subject: str, file: IO[bytes], size: int, mapped: FilePath | None, begin: int) -> Tensor:
    """Return the tensor in an npy file of `size` bytes, open as `file` at its beginning.

    If `mapped` is a path, the elements stay in that file, in which the npy file begins at byte `begin`. Raise FileError for a damaged file
    or Python objects, and DTypeError for an unknown dtype; errors begin with `subject`.
    """
    try:
        version = np.lib.format.read_magic(file)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if read_header is None:
            raise FileError(f"{subject} has version {version} of the npy format; versions 1.0 and 2.0 can be read")
        shape, fortran, dtype = read_header(file)
    except FileError:
        raise
    except Exception as error:  # the header is parsed as Python text, which raises errors of many types
        raise FileError(f"{subject} is not a readable npy file: {error}") from error
    if dtype.hasobject:
        raise FileError(f"{subject} contains Python objects; elements must be numbers, as reading objects would run code")
    try:
        dtype_of(dtype.newbyteorder("="))
    except DTypeError as error:
        raise DTypeError(f"{subject} has elements of an unknown dtype: {error}") from error
    count = prod(shape)
    position = file.tell()
    if count * dtype.itemsize > size - position:
        raise FileError(f"{subject} is cut short: it says it has {count} elements of {dtype}, and {max(size - position, 0)} bytes are left")
    check_shape(subject, shape)
    order: Any = "F" if fortran else "C"
    if mapped is not None and count:
        return asarray(np.memmap(mapped, dtype, "r", begin + position, shape, order))
    if isinstance(file, BufferedReader):
        elements = np.fromfile(file, dtype, count)
    else:
        elements = np.frombuffer(file.read(count * dtype.itemsize), dtype)
    if elements.size != count:
        raise FileError(f"{subject} is cut short: {elements.size} of {count} elements are there")
    return asarray(elements.reshape(shape, order=order))
