"""Emit conversions between float16 and float32 by integer operations, for processors without instructions for them.

LLVM would call library functions that a process may lack. The conversion to float32 is exact. The conversion to float16 rounds to nearest,
ties to even. Infinities and NaNs are those of IEEE 754-2019, 3.6 and 5.4.2.
"""

from __future__ import annotations

from ...target import Target
from .builder import Value, select, select_smaller
from .types import I16, I32

X86_64 = "x86_64"
EXTRA_FRACTION_BITS = 13  # bits by which the fraction of a float32 is longer
HALF_INFINITY_BITS, HALF_NAN_BITS = 0x7C00, 0x7E00  # as bits of float16
SINGLE_INFINITY_BITS = 0x7F800000  # as bits of float32
LEAST_NORMAL_BITS = 0x38800000  # the float32 2**-14
BIAS_DIFFERENCE = 0x38000000  # the difference between the exponents' biases, 112, in the exponent field
ONE_HALF_BITS = 0x3F000000  # the float32 0.5, whose unit in the last place is the least float16


def lacks_conversions(target: Target) -> bool:
    """Return whether `target` is an x86-64 processor without F16C, and so without instructions that convert float16."""
    return target.processor.architecture == X86_64 and not target.has_feature("f16c")


def widen_float16(half: Value) -> Value:
    """Emit the conversion of `half`, the bits of float16 as a 16-bit integer or a vector of these, and return the equal float32."""
    bits = half.cast("zext", I32)
    magnitude, sign = bits & 0x7FFF, (bits & 0x8000) << 16
    shifted = magnitude << EXTRA_FRACTION_BITS
    finite = shifted.as_float() * 2.0**112  # exact, also for subnormal numbers
    pattern = select(magnitude.compare("uge", HALF_INFINITY_BITS), shifted | SINGLE_INFINITY_BITS, finite.as_bits())
    return (pattern | sign).as_float()


def narrow_to_float16(value: Value) -> Value:
    """Emit the rounding of `value`, a float32 or a vector of these, to the nearest float16, ties to even.

    Return the bits of the float16, as 16-bit integers.
    """
    bits = value.as_bits()
    magnitude, sign = bits & 0x7FFFFFFF, bits.logical_shift_right(16) & 0x8000
    odd = magnitude.logical_shift_right(EXTRA_FRACTION_BITS) & 1
    normal = select_smaller((magnitude + (0xFFF - BIAS_DIFFERENCE) + odd) >> EXTRA_FRACTION_BITS, HALF_INFINITY_BITS)
    subnormal = (magnitude.as_float() + 0.5).as_bits() - ONE_HALF_BITS
    pattern = select(magnitude < LEAST_NORMAL_BITS, subnormal, normal)
    pattern = select(magnitude > SINGLE_INFINITY_BITS, HALF_NAN_BITS, pattern)
    return (pattern | sign).cast("trunc", I16)
