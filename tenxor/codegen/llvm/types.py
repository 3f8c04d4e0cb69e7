"""LLVM's types (`Type`), by which emitters describe values and memory, and the text of exact constants in LLVM IR."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from functools import cache


class Type:
    """An LLVM type: a scalar ("int", "float", "pointer"), a "vector" of lanes, an "array" of elements in memory, or another kind.

    `text` is LLVM's notation, such as `<8 x float>`, and `mangled` the notation in the names of intrinsics, such as `v8f32`. `bits` is the
    size. `lanes` is 0 except for vectors. `scalar` is the type of a lane, and `element` the type of an item of a vector or an array. Both
    are the type itself for a scalar. `letter`, the attribute `name_prefix`, begins the names of values.
    """

    __slots__ = (
        "_vectors",
        "bits",
        "bytes",
        "element",
        "is_float",
        "kind",
        "lanes",
        "name_prefix",
        "mangled",
        "scalar",
        "text",
    )

    def __init__(self, kind: str, text: str, mangled: str = "", bits: int = 0, letter: str = "v", element: Type | None = None) -> None:
        self.kind, self.text, self.mangled, self.bits, self.name_prefix = kind, text, mangled, bits, letter
        self.bytes = bits // 8
        self.element = element or self
        self.scalar = self.element if kind == "vector" else self
        self.lanes = bits // self.scalar.bits if kind == "vector" else 0
        self.is_float = self.scalar.kind == "float"
        self._vectors: dict[int, Type] = {}

    def __repr__(self) -> str:
        return self.text

    def literal(self, number: float) -> str:
        """Return the text of the constant `number` of this type, the same number in every lane, as LLVM IR has it after the type.

        A number for a float type is rounded.
        """
        if self.kind == "int":
            return str(int(number)) if self.bits > 1 else "true" if number else "false"
        if self.kind == "vector":
            return f"splat ({self.element.text} {self.element.literal(number)})"
        return _float_literal(self.bits, float(number))

    def literals(self, numbers: Iterable[float]) -> str:
        """Return the text of the constant of this vector or array type with the elements `numbers`, as LLVM IR has it after the type."""
        element = self.element
        texts = ", ".join([f"{element.text} {element.literal(n)}" for n in numbers])
        return f"<{texts}>" if self.kind == "vector" else f"[{texts}]"


def _float_literal(bits: int, number: float) -> str:
    """Return the text in LLVM IR of the float of `bits` bits (16, 32 or 64) nearest to `number`. A single is written as an equal double."""
    if bits == 16:
        return f"0xH{struct.unpack('<H', _pack_float('<e', number))[0]:04X}"
    if bits == 32:
        (number,) = struct.unpack("<f", _pack_float("<f", number))
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _pack_float(code: str, number: float) -> bytes:
    """Return the bytes of `number` rounded to the float format `code` of `struct`; numbers out of range become infinite."""
    try:
        return struct.pack(code, number)
    except OverflowError:  # numbers beyond the largest round to infinity
        return struct.pack(code, math.copysign(math.inf, number))


@cache
def int_type(bits: int) -> Type:
    """Return the type of integers of `bits` bits."""
    return Type("int", f"i{bits}", f"i{bits}", bits, "m" if bits == 1 else "n")


VOID = Type("void", "void")
I1, I8, I16, I32, I64 = (int_type(bits) for bits in (1, 8, 16, 32, 64))
HALF = Type("float", "half", "f16", 16, "x")
FLOAT = Type("float", "float", "f32", 32, "x")
DOUBLE = Type("float", "double", "f64", 64, "x")
POINTER = Type("pointer", "ptr", "p0", 64, "at")


def pointer(space: int) -> Type:
    """Return the type of pointers into the address space with LLVM's number `space`; for 0, the type of pointers into any memory."""
    return Type("pointer", f"ptr addrspace({space})", f"p{space}", 64, "at") if space else POINTER


def vector(element: Type, lanes: int) -> Type:
    """Return the type of vectors of `lanes` lanes of the scalar type `element`; for 0 lanes `element` itself."""
    if not lanes:
        return element
    vector_type = element._vectors.get(lanes)
    if vector_type is None:
        text, mangled = f"<{lanes} x {element.text}>", f"v{lanes}{element.mangled}"
        vector_type = Type("vector", text, mangled, lanes * element.bits, element.name_prefix, element)
        element._vectors[lanes] = vector_type
    return vector_type


def array(element: Type, count: int) -> Type:
    """Return the type of `count` elements of the type `element`, side by side in memory."""
    return Type("array", f"[{count} x {element.text}]", bits=count * element.bits, element=element)
