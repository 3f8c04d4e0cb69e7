"""The formats of floats, as formulas on their bits need them."""

from __future__ import annotations

import struct

from ...records import NamedTuple


class Format(NamedTuple):
    """An IEEE 754 binary format: its width, its significand, and the constants that formulas need."""

    bits: int
    fraction_bits: int
    bias: int
    rounder: float  # adding it rounds a small number to an integer, kept in the low bits of the sum
    smallest_normal: float

    @property
    def epsilon(self) -> float:
        """Half a unit in the last place of 1: smaller numbers hardly change it."""
        return 0.5 ** (self.fraction_bits + 1)

    def to_bits(self, value: float) -> int:
        """The bit pattern of `value`, as a non-negative integer."""
        code = "<f" if self.bits == 32 else "<d"
        return int.from_bytes(struct.pack(code, value), "little")

    def from_bits(self, pattern: int) -> float:
        """The number with this bit pattern."""
        code = "<f" if self.bits == 32 else "<d"
        return float(struct.unpack(code, pattern.to_bytes(self.bits // 8, "little"))[0])

    def rounded(self, value: float) -> float:
        """The number of this format nearest to `value`."""
        return self.from_bits(self.to_bits(value))


SINGLE = Format(32, 23, 127, 1.5 * 2.0**23, 2.0**-126)
DOUBLE = Format(64, 52, 1023, 1.5 * 2.0**52, 2.0**-1022)
