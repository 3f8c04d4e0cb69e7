"""float16 on processors that have no instructions for it: its bits as floats, and floats rounded to it, in integers.

LLVM would call functions that a process may lack. Both ways are exact: every float16 is a float, and rounding is to nearest,
ties to even, with infinities and NaNs as they should be (IEEE 754-2019, 3.6 and 5.4.2).
"""

from __future__ import annotations

from ...target import Target
from .builder import Value, select, smaller
from .types import I16, I32

X86 = "x86_64"
SHIFT = 13  # bits that a float's fraction has more
INFINITE, NAN = 0x7C00, 0x7E00  # as float16
INFINITY = 0x7F800000  # as float
LEAST_NORMAL = 0x38800000  # the float 2**-14
BIAS = 0x38000000  # what exponents are more by: 112, in its place
UNIT_OF_TINY = 0x3F000000  # the float 0.5, in whose last place the least float16 stands


def lacks_conversions(target: Target) -> bool:
    """Whether a processor converts no float16: those of x86-64 that lack F16C."""
    return target.processor.architecture == X86 and not target.has("f16c")


def widened(half: Value) -> Value:
    """The floats that these bits of float16 stand for."""
    bits = half.cast("zext", I32)
    size, sign = bits & 0x7FFF, (bits & 0x8000) << 16
    shifted = size << SHIFT
    finite = shifted.as_float() * 2.0**112  # exact, for the least ones too
    found = select(size.compare("uge", INFINITE), shifted | INFINITY, finite.as_bits())
    return (found | sign).as_float()


def narrowed(value: Value) -> Value:
    """The bits of the float16 nearest to floats."""
    bits = value.as_bits()
    size, sign = bits & 0x7FFFFFFF, bits.shifted_right(16) & 0x8000
    odd = size.shifted_right(SHIFT) & 1
    normal = smaller((size + (0xFFF - BIAS) + odd) >> SHIFT, INFINITE)
    tiny = (size.as_float() + 0.5).as_bits() - UNIT_OF_TINY
    found = select(size < LEAST_NORMAL, tiny, normal)
    found = select(size > INFINITY, NAN, found)
    return (found | sign).cast("trunc", I16)
