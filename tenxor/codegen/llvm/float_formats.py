"""The formats of floats, float32 and float64, with the constants that formulas on their bits need when they are emitted."""

from __future__ import annotations

import struct

from ..._utils.records import NamedTuple


class FloatFormat(NamedTuple):
    """An IEEE 754 binary format: its width in bits, the bits of the fraction, the bias of exponents, and constants for formulas.

    Numbers of the format are Python floats here, and bit patterns are Python integers.
    """

    bits: int
    fraction_bits: int
    bias: int
    rounder: float  # added to a small number, this rounds the number to an integer, in the low bits of the sum
    smallest_normal: float

    @property
    def epsilon(self) -> float:
        """Half a unit in the last place of 1: adding this or a smaller positive number to 1 gives 1."""
        return 0.5 ** (self.fraction_bits + 1)

    def to_bits(self, value: float) -> int:
        """Return the bit pattern of `value`, rounded to this format, as a non-negative integer.

        Raise OverflowError for a finite number beyond the largest float32, if this is the format of float32.
        """
        code = "<f" if self.bits == 32 else "<d"
        return int.from_bytes(struct.pack(code, value), "little")

    def from_bits(self, pattern: int) -> float:
        """Return the number of this format with the bit pattern `pattern`, a non-negative integer."""
        code = "<f" if self.bits == 32 else "<d"
        return float(struct.unpack(code, pattern.to_bytes(self.bits // 8, "little"))[0])

    def round_value(self, value: float) -> float:
        """Return the number of this format nearest to `value`."""
        return self.from_bits(self.to_bits(value))


FLOAT32_FORMAT = FloatFormat(32, 23, 127, 1.5 * 2.0**23, 2.0**-126)
FLOAT64_FORMAT = FloatFormat(64, 52, 1023, 1.5 * 2.0**52, 2.0**-1022)
