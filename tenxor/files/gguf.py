"""Reader of GGUF files, a format for language models: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

A tensor stays in the file until it is read. Tensors of plain numbers are memory-mapped. Quantized tensors are decoded to float32.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .._utils.records import NamedTuple
from ..api.argument_validation import validate_arguments
from ..api.creation import asarray
from ..dtypes import bfloat16
from ..errors import DTypeError, FileError
from ..tensor import Tensor
from .atomic_write import FilePath, check_shape

__all__ = ["Gguf", "load_gguf"]

Array = np.ndarray[Any, Any]
_MAX_ARRAY_DEPTH = 8  # nesting depth of arrays
# The `struct` format of scalars, by type number.
_SCALAR_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT_TYPE, _ARRAY_TYPE = 8, 9


class _BlockFormat(NamedTuple):
    """The storage format of a tensor type: `elements_per_block` elements in a block of `bytes_per_block` bytes.

    `decode` is a function from blocks to numbers, or the name of a NumPy dtype for plain numbers.
    """

    name: str
    elements_per_block: int
    bytes_per_block: int
    decode: Callable[[Array], Array] | str  # or the name of NumPy's dtype


def _read_float16(blocks: Array, offset: int) -> Array:
    """Return the float16 at byte `offset` of each block, as a column of float32. `blocks` has a row of bytes for each block."""
    return blocks[:, offset : offset + 2].copy().view(np.float16).astype(np.float32)


def _unpack_nibbles(blocks: Array) -> Array:
    """Return the 4-bit integers in the bytes of each row of `blocks`: first the low halves of the bytes, then the high halves."""
    return np.concatenate([blocks & 15, blocks >> 4], axis=1)


def _unpack_fifth_bits(blocks: Array) -> Array:
    """Return the fifth bits, as 0 or 16, of the 32 integers of each block. `blocks` has a row of 4 bytes for each block."""
    return np.unpackbits(blocks, axis=1, bitorder="little") << 4


def _decode_q4_0(b: Array) -> Array:
    """Return the numbers in blocks of 4-bit integers minus 8, times a scale. `b` has a row of bytes for each block."""
    return (_unpack_nibbles(b[:, 2:]).astype(np.float32) - 8) * _read_float16(b, 0)


def _decode_q4_1(b: Array) -> Array:
    """Return the numbers in blocks of 4-bit integers, times a scale plus a minimum. `b` has a row of bytes for each block."""
    return _unpack_nibbles(b[:, 4:]) * _read_float16(b, 0) + _read_float16(b, 2)


def _decode_q5_0(b: Array) -> Array:
    """Return the numbers in blocks of 5-bit integers minus 16, times a scale. `b` has a row of bytes for each block."""
    return ((_unpack_nibbles(b[:, 6:]) | _unpack_fifth_bits(b[:, 2:6])).astype(np.float32) - 16) * _read_float16(b, 0)


def _decode_q5_1(b: Array) -> Array:
    """Return the numbers in blocks of 5-bit integers, times a scale plus a minimum. `b` has a row of bytes for each block."""
    return (_unpack_nibbles(b[:, 8:]) | _unpack_fifth_bits(b[:, 4:8])) * _read_float16(b, 0) + _read_float16(b, 2)


def _decode_q8_0(b: Array) -> Array:
    """Return the numbers in blocks of 8-bit integers, times a scale. `b` has a row of bytes for each block."""
    return b[:, 2:].view(np.int8) * _read_float16(b, 0)


def _decode_q6_k(b: Array) -> Array:
    """Return the numbers in blocks of 256 6-bit integers minus 32, times two scales. `b` has a row of bytes for each block.

    A block has 128 bytes of low halves, 64 bytes of upper bit pairs, an 8-bit scale for each 16 integers, and a float16 scale for the
    block.
    """
    low = b[:, :128].reshape(-1, 2, 1, 64) >> np.array([0, 4], np.uint8)[:, None] & 15
    high = b[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    numbers = (low.reshape(-1, 256) | high.reshape(-1, 256) << 4).astype(np.float32) - 32
    factors = b[:, 192:208].view(np.int8).astype(np.float32) * _read_float16(b, 208)
    return (numbers.reshape(-1, 16, 16) * factors[:, :, None]).reshape(-1, 256)


_TENSOR_TYPES = {
    **{0: _BlockFormat("F32", 1, 4, "float32"), 1: _BlockFormat("F16", 1, 2, "float16"), 30: _BlockFormat("BF16", 1, 2, "uint16")},
    **{24: _BlockFormat("I8", 1, 1, "int8"), 25: _BlockFormat("I16", 1, 2, "int16"), 26: _BlockFormat("I32", 1, 4, "int32")},
    **{27: _BlockFormat("I64", 1, 8, "int64"), 28: _BlockFormat("F64", 1, 8, "float64"), 14: _BlockFormat("Q6_K", 256, 210, _decode_q6_k)},
    **{
        2: _BlockFormat("Q4_0", 32, 18, _decode_q4_0),
        3: _BlockFormat("Q4_1", 32, 20, _decode_q4_1),
        6: _BlockFormat("Q5_0", 32, 22, _decode_q5_0),
    },
    **{7: _BlockFormat("Q5_1", 32, 24, _decode_q5_1), 8: _BlockFormat("Q8_0", 32, 34, _decode_q8_0)},
}


class _TensorEntry(NamedTuple):
    """A tensor in the file: the shape, the number of the type, and the byte of the first element."""

    shape: tuple[int, ...]
    type_id: int
    offset: int


class _Reader:
    """A cursor over `content`, the bytes of a file as a uint8 array. Reading past the end raises a FileError that begins with `subject`."""

    def __init__(self, subject: str, content: Array) -> None:
        self.subject, self.content, self.position = subject, content, 0

    def read_bytes(self, count: int) -> bytes:
        """Return the next `count` bytes, and move behind them. Raise FileError if fewer are left."""
        if count > self.content.size - self.position:
            raise FileError(
                f"{self.subject} is cut short: {count} bytes must follow at {self.position}; the file ends at {self.content.size}"
            )
        self.position += count
        return self.content[self.position - count : self.position].tobytes()

    def read_number(self, form: str) -> Any:
        """Return the next number, in the format `form` of the module `struct`, for example "<I"."""
        return struct.unpack(form, self.read_bytes(struct.calcsize(form)))[0]

    def read_count(self, min_item_bytes: int) -> int:
        """Return a count of items that follow, stored in 8 bytes; raise FileError if not even `min_item_bytes` are left for each."""
        count: int = self.read_number("<Q")
        if count * min_item_bytes > self.content.size - self.position:
            raise FileError(
                f"{self.subject} is damaged: {count} items must follow at byte {self.position}, and the file ends at {self.content.size}"
            )
        return count

    def read_text(self) -> str:
        """Return the next text, stored after the length of the text in bytes."""
        return self.read_bytes(self.read_count(1)).decode("utf-8", "replace")

    def read_value(self, kind: int, depth: int = 0) -> Any:
        """Return the next value, of GGUF's type number `kind`: a text, a number or a list. `depth` is the nesting depth of the value.

        Raise FileError for an unknown type, for more than `_MAX_ARRAY_DEPTH` nested lists, and at the end of the file.
        """
        if kind == _TEXT_TYPE:
            return self.read_text()
        if kind == _ARRAY_TYPE and depth < _MAX_ARRAY_DEPTH:
            kind = self.read_number("<I")
            form = _SCALAR_FORMATS.get(kind)
            if form is None:
                return [self.read_value(kind, depth + 1) for _ in range(self.read_count(8))]
            count = self.read_count(struct.calcsize(form))
            return list(struct.unpack(f"<{count}{form[1]}", self.read_bytes(count * struct.calcsize(form))))
        if kind not in _SCALAR_FORMATS:
            raise FileError(f"{self.subject} has a metadata value of the unknown type {kind}, at byte {self.position}")
        return self.read_number(_SCALAR_FORMATS[kind])


class Gguf(Mapping[str, Tensor]):
    """The tensors of a GGUF file as a mapping from names, and the file's `metadata`.

    Each look-up reads the tensor anew. Quantized tensors are decoded to float32, and tensors of plain numbers are memory-mapped. Shapes
    have the axes in reverse order of the file, so that rows along the last axis are contiguous.

    Parameters
    ----------
    path : path
        The file, of version 2 or 3 of the format.

    Attributes
    ----------
    metadata : dict
        The metadata of the file by name: texts, numbers and lists.

    Raises
    ------
    FileError
        If the file is not a GGUF file or is damaged. Looking up a truncated tensor raises FileError, too.
    FileNotFoundError
        If the file does not exist.
    DTypeError
        If a look-up is for a tensor of an unsupported type.

    References
    ----------
    https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """

    @validate_arguments
    def __init__(self, path: FilePath) -> None:
        self._subject = f"load_gguf: {os.fspath(path)!r}"
        self._content: Array = np.memmap(path, np.uint8, "r") if Path(path).stat().st_size else np.zeros(0, np.uint8)
        reader = _Reader(self._subject, self._content)
        if self._content[:4].tobytes() != b"GGUF":
            raise FileError(f"{self._subject} is not a GGUF file: it does not begin with 'GGUF'; use tx.load for other formats")
        reader.read_bytes(4)
        version = reader.read_number("<I")
        if version not in (2, 3):
            raise FileError(f"{self._subject} has GGUF version {version}; it must be 2 or 3, with little-endian numbers")
        tensor_count, value_count = reader.read_count(24), reader.read_count(13)
        self.metadata: dict[str, Any] = {}
        for _ in range(value_count):
            key = reader.read_text()
            self.metadata[key] = reader.read_value(reader.read_number("<I"))
        entries = [self._read_entry(reader) for _ in range(tensor_count)]
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise FileError(f"{self._subject} is damaged: its general.alignment is {alignment!r}; it must be an integer of 1 or more")
        begin = reader.position + -reader.position % alignment
        self._entries = {name: entry._replace(offset=entry.offset + begin) for name, entry in entries}

    @staticmethod
    def _read_entry(reader: _Reader) -> tuple[str, _TensorEntry]:
        """Return the name and the entry of the next tensor in the header, at the position of `reader`, and move behind it.

        The shape is in reverse order of the file. The offset counts from the end of the header. Raise FileError for damage.
        """
        name, axes = reader.read_text(), reader.read_number("<I")
        if axes > 64:
            raise FileError(f"{reader.subject} is damaged: tensor {name!r} has {axes} axes; it must have at most 64")
        shape = struct.unpack(f"<{axes}Q", reader.read_bytes(8 * axes))[::-1]
        return name, _TensorEntry(shape, reader.read_number("<I"), reader.read_number("<Q"))

    def __getitem__(self, name: str) -> Tensor:
        shape, kind, begin = self._entries[name]
        blocks = _TENSOR_TYPES.get(kind)
        subject = f"{self._subject}: {name!r}"
        if blocks is None:
            raise DTypeError(f"{subject} has type {kind}; readable types are {', '.join(b.name for b in _TENSOR_TYPES.values())}")
        count = prod(shape)
        nbytes = count // blocks.elements_per_block * blocks.bytes_per_block
        check_shape(subject, shape)
        if (shape[-1] if shape else 1) % blocks.elements_per_block or begin + nbytes > self._content.size:
            raise FileError(f"{subject} of shape {shape} does not fit: {nbytes} bytes from {begin} on, in a file of {self._content.size}")
        content = self._content[begin : begin + nbytes]
        if not callable(blocks.decode):
            tensor = asarray(content.view(blocks.decode).reshape(shape))
            return tensor.view(bfloat16) if blocks.name == "BF16" else tensor
        with np.errstate(invalid="ignore", over="ignore"):  # scales may be infinite
            numbers = blocks.decode(np.asarray(content).reshape(-1, blocks.bytes_per_block))
        return asarray(numbers.astype(np.float32, copy=False).reshape(shape))

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@validate_arguments
def load_gguf(path: FilePath) -> Gguf:
    """Return the tensors in a GGUF file: a mapping from names, with the file's `metadata`.

    The file stays open as long as the mapping, or a tensor read from it, exists.

    Parameters
    ----------
    path : path
        The file, of version 2 or 3 of the format.

    Returns
    -------
    Gguf
        A mapping from names to tensors. Each look-up returns a new tensor.

    Raises
    ------
    FileError
        If the file is not a GGUF file or is damaged. Looking up a truncated tensor raises FileError, and looking up a tensor of an
        unsupported type raises DTypeError.
    FileNotFoundError
        If the file does not exist.

    References
    ----------
    https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

    Examples
    --------
    >>> import pathlib, tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "x.gguf")
    ...     _ = path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + bytes(16))  # version 3, without tensors
    ...     file = tx.files.load_gguf(path)
    >>> dict(file), file.metadata
    ({}, {})
    """
    return Gguf(path)
