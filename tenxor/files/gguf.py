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

from ..creation import asarray
from ..dtypes import bfloat16
from ..errors import DTypeError, FileError
from ..functions.kinds import checked
from ..records import NamedTuple
from ..tensor import Tensor
from .whole import Place, check_shape

__all__ = ["Gguf", "load_gguf"]

Array = np.ndarray[Any, Any]
_MAX_ARRAY_DEPTH = 8  # nesting depth of arrays
# The `struct` format of scalars, by type number.
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT, _ARRAY = 8, 9


class _Blocks(NamedTuple):
    """The storage format of a tensor type: `length` elements in a block of `nbytes` bytes.

    `decoded` is a function from blocks to numbers, or the name of a NumPy dtype for plain numbers.
    """

    name: str
    length: int
    nbytes: int
    decoded: Callable[[Array], Array] | str  # or the name of NumPy's dtype


def _halves(blocks: Array, offset: int) -> Array:
    """Return the float16 at byte `offset` of each block, as a column of float32."""
    return blocks[:, offset : offset + 2].copy().view(np.float16).astype(np.float32)


def _nibbles(blocks: Array) -> Array:
    """Return the 4-bit integers in 16 bytes of each block: 32 integers, the low halves of the bytes first."""
    return np.concatenate([blocks & 15, blocks >> 4], axis=1)


def _fifth_bits(blocks: Array) -> Array:
    """Return the fifth bits, as 0 or 16, of the 32 integers of each block, from 4 bytes."""
    return np.unpackbits(blocks, axis=1, bitorder="little") << 4


def _q4_0(b: Array) -> Array:
    """Decode blocks of 4-bit integers minus 8, times a scale."""
    return (_nibbles(b[:, 2:]).astype(np.float32) - 8) * _halves(b, 0)


def _q4_1(b: Array) -> Array:
    """Decode blocks of 4-bit integers, times a scale plus a minimum."""
    return _nibbles(b[:, 4:]) * _halves(b, 0) + _halves(b, 2)


def _q5_0(b: Array) -> Array:
    """Decode blocks of 5-bit integers minus 16, times a scale."""
    return ((_nibbles(b[:, 6:]) | _fifth_bits(b[:, 2:6])).astype(np.float32) - 16) * _halves(b, 0)


def _q5_1(b: Array) -> Array:
    """Decode blocks of 5-bit integers, times a scale plus a minimum."""
    return (_nibbles(b[:, 8:]) | _fifth_bits(b[:, 4:8])) * _halves(b, 0) + _halves(b, 2)


def _q8_0(b: Array) -> Array:
    """Decode blocks of 8-bit integers, times a scale."""
    return b[:, 2:].view(np.int8) * _halves(b, 0)


def _q6_k(b: Array) -> Array:
    """Decode blocks of 256 6-bit integers minus 32, times two scales.

    A block has 128 bytes of low halves, 64 bytes of upper bit pairs, an 8-bit scale for each 16 integers, and a float16 scale for the
    block.
    """
    low = b[:, :128].reshape(-1, 2, 1, 64) >> np.array([0, 4], np.uint8)[:, None] & 15
    high = b[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    numbers = (low.reshape(-1, 256) | high.reshape(-1, 256) << 4).astype(np.float32) - 32
    factors = b[:, 192:208].view(np.int8).astype(np.float32) * _halves(b, 208)
    return (numbers.reshape(-1, 16, 16) * factors[:, :, None]).reshape(-1, 256)


_TYPES = {
    **{0: _Blocks("F32", 1, 4, "float32"), 1: _Blocks("F16", 1, 2, "float16"), 30: _Blocks("BF16", 1, 2, "uint16")},
    **{24: _Blocks("I8", 1, 1, "int8"), 25: _Blocks("I16", 1, 2, "int16"), 26: _Blocks("I32", 1, 4, "int32")},
    **{27: _Blocks("I64", 1, 8, "int64"), 28: _Blocks("F64", 1, 8, "float64"), 14: _Blocks("Q6_K", 256, 210, _q6_k)},
    **{2: _Blocks("Q4_0", 32, 18, _q4_0), 3: _Blocks("Q4_1", 32, 20, _q4_1), 6: _Blocks("Q5_0", 32, 22, _q5_0)},
    **{7: _Blocks("Q5_1", 32, 24, _q5_1), 8: _Blocks("Q8_0", 32, 34, _q8_0)},
}


class _Entry(NamedTuple):
    """A tensor in the file: its shape, the number of its type, and the byte at which it begins."""

    shape: tuple[int, ...]
    type: int
    begin: int


class _Reader:
    """A cursor over the bytes of a file, whose methods raise FileError instead of reading past the end."""

    def __init__(self, subject: str, content: Array) -> None:
        self.subject, self.content, self.position = subject, content, 0

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        if count > self.content.size - self.position:
            raise FileError(
                f"{self.subject} is cut short: {count} bytes must follow at {self.position}; the file ends at {self.content.size}"
            )
        self.position += count
        return self.content[self.position - count : self.position].tobytes()

    def number(self, form: str) -> Any:
        """Return the next number, in a format of `struct`."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def count(self, min_item_bytes: int) -> int:
        """Return a count of items that follow; raise FileError if not even `min_item_bytes` are left for each."""
        count: int = self.number("<Q")
        if count * min_item_bytes > self.content.size - self.position:
            raise FileError(f"{self.subject} says that {count} things follow at {self.position}, and ends at {self.content.size}")
        return count

    def text(self) -> str:
        """Return the next text, after its length."""
        return self.take(self.count(1)).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        """Return the next value of type number `kind`, which may be an array nested `depth` levels deep."""
        if kind == _TEXT:
            return self.text()
        if kind == _ARRAY and depth < _MAX_ARRAY_DEPTH:
            kind = self.number("<I")
            form = _SCALARS.get(kind)
            if form is None:
                return [self.value(kind, depth + 1) for _ in range(self.count(8))]
            count = self.count(struct.calcsize(form))
            return list(struct.unpack(f"<{count}{form[1]}", self.take(count * struct.calcsize(form))))
        if kind not in _SCALARS:
            raise FileError(f"{self.subject} has a value of an unknown type, {kind}, at {self.position}")
        return self.number(_SCALARS[kind])


class Gguf(Mapping[str, Tensor]):
    """The tensors of a GGUF file as a mapping from names, each read at its look-up, and the file's `metadata`.

    Shapes have the axes in reverse order of the file, so that rows along the last axis are contiguous.
    """

    @checked
    def __init__(self, path: Place) -> None:
        self._subject = f"load_gguf: {os.fspath(path)!r}"
        self._content: Array = np.memmap(path, np.uint8, "r") if Path(path).stat().st_size else np.zeros(0, np.uint8)
        reader = _Reader(self._subject, self._content)
        if self._content[:4].tobytes() != b"GGUF":
            raise FileError(f"{self._subject} is not a GGUF file: it does not begin with 'GGUF'")
        reader.take(4)
        version = reader.number("<I")
        if version not in (2, 3):
            raise FileError(f"{self._subject} is of version {version}; this reads 2 and 3, of little-endian numbers")
        tensor_count, value_count = reader.count(24), reader.count(13)
        self.metadata: dict[str, Any] = {}
        for _ in range(value_count):
            key = reader.text()
            self.metadata[key] = reader.value(reader.number("<I"))
        entries = [self._read_entry(reader) for _ in range(tensor_count)]
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise FileError(f"{self._subject} says its alignment is {alignment!r}")
        begin = reader.position + -reader.position % alignment
        self._entries = {name: entry._replace(begin=entry.begin + begin) for name, entry in entries}

    @staticmethod
    def _read_entry(reader: _Reader) -> tuple[str, _Entry]:
        """Return the name and the entry of the next tensor in the header."""
        name, axes = reader.text(), reader.number("<I")
        if axes > 64:
            raise FileError(f"{reader.subject} says that {name!r} has {axes} axes")
        shape = struct.unpack(f"<{axes}Q", reader.take(8 * axes))[::-1]
        return name, _Entry(shape, reader.number("<I"), reader.number("<Q"))

    def __getitem__(self, name: str) -> Tensor:
        shape, kind, begin = self._entries[name]
        blocks = _TYPES.get(kind)
        subject = f"{self._subject}: {name!r}"
        if blocks is None:
            raise DTypeError(f"{subject} has type {kind}; readable types are {', '.join(b.name for b in _TYPES.values())}")
        count = prod(shape)
        nbytes = count // blocks.length * blocks.nbytes
        check_shape(subject, shape)
        if (shape[-1] if shape else 1) % blocks.length or begin + nbytes > self._content.size:
            raise FileError(f"{subject} of shape {shape} does not fit: {nbytes} bytes from {begin} on, in a file of {self._content.size}")
        content = self._content[begin : begin + nbytes]
        if not callable(blocks.decoded):
            tensor = asarray(content.view(blocks.decoded).reshape(shape))
            return tensor.view(bfloat16) if blocks.name == "BF16" else tensor
        with np.errstate(invalid="ignore", over="ignore"):  # scales may be infinite
            numbers = blocks.decoded(np.asarray(content).reshape(-1, blocks.nbytes))
        return asarray(numbers.astype(np.float32, copy=False).reshape(shape))

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@checked
def load_gguf(path: Place) -> Gguf:
    """Return the tensors in a GGUF file: a mapping from names, with the file's `metadata`.

    The file stays open as long as the mapping, or a tensor read from it, exists. Raises FileError if the file is not a GGUF file or is
    damaged, and FileNotFoundError. Looking up a tensor raises FileError if it is cut short, and DTypeError if its type is not supported.
    """
    return Gguf(path)
