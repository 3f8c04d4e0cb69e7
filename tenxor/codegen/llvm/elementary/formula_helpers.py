"""Parts shared by the formulas of elementary functions: rare cases out of line, polynomials, sums and products of two floats. The functions
run while a kernel is compiled: they append instructions, and return a `Value`, a float or a vector of floats at run time.
"""

from collections.abc import Callable, Sequence

from ...._utils.records import NamedTuple
from ..builder import Number, Value, fma
from ..types import int_type


def any_lane(mask: Value) -> Value:
    """Emit a test whether `mask`, a vector of bools, is true in any lane. Return a scalar bool; a scalar `mask` is returned unchanged."""
    return mask.bitcast(int_type(mask.lanes)).differs(0) if mask.lanes else mask


def unless_rare(rare: Value, usual: Sequence[Value], instead: Callable[[], Sequence[Value]]) -> list[Value]:
    """Emit a branch for rare arguments: if any lane of the mask `rare` is true, the code that `instead()` emits runs, out of line.

    Return the values after the branch: those of `instead()` in all lanes, or without rare lanes `usual`. `instead` must return values of
    the same types in the same order as `usual`, which are computed in any case. The code continues in a new block.
    """
    b = rare.builder
    entry = b.cursor.block
    rare_block, usual_block = b.block("rare"), b.block("usual")
    b.branch_if(any_lane(rare), rare_block, usual_block, (1, 1 << 20))
    b.cursor.block = rare_block
    rare_values = instead()
    rare_end = b.cursor.block
    b.branch(usual_block)
    b.cursor.block = usual_block
    return [b.merge((x, entry), (y, rare_end)) for x, y in zip(usual, rare_values, strict=True)]


def polynomial(x: Value, coefficients: Sequence[Value | Number]) -> Value:
    """Emit the value at x of the polynomial with `coefficients`, from the constant term up, by Horner's rule with fused multiply-adds."""
    leading = coefficients[-1]
    result = leading if isinstance(leading, Value) else x.constant(leading)
    for c in reversed(coefficients[:-1]):
        result = fma(result, x, c)
    return result


def split_polynomial(x: Value, square: Value, coefficients: Sequence[float]) -> Value:
    """Emit the value at x of the polynomial with two or more `coefficients`, from the constant term up. `square` must be x**2.

    Even and odd terms are computed side by side, which takes one more operation than Horner's rule and half the time.
    """
    even, odd = coefficients[::2], coefficients[1::2]
    return fma(polynomial(square, odd), x, polynomial(square, even))


def power_of_two(exponent: Value) -> Value:
    """Emit 2**`exponent` as a float, for an integer of 32 or 64 bits; the float is as wide. The result must be a normal number."""
    format = exponent.format
    return ((exponent + format.bias) << format.fraction_bits).as_float()


def multiply_high(x: Value, y: Value) -> Value:
    """Emit the upper 64 bits of the product of two unsigned 64-bit integers."""
    half, low = 32, 0xFFFFFFFF
    x0, x1, y0, y1 = x & low, x.logical_shift_right(half), y & low, y.logical_shift_right(half)
    middle = x1 * y0 + (x0 * y0).logical_shift_right(half)
    cross_sum = x0 * y1 + (middle & low)
    return x1 * y1 + middle.logical_shift_right(half) + cross_sum.logical_shift_right(half)


class Pair(NamedTuple):
    """The sum of two floats, kept as two for more precision. The second is at most half a unit in the last place of the first."""

    high: Value
    low: Value


def fast_sum(x: Value, y: Value) -> Pair:
    """Emit x + y exactly: return the rounded sum and its error. The exponent of x must not be smaller than that of y, unless x is 0."""
    high = x + y
    return Pair(high, y - (high - x))


def exact_sum(x: Value, y: Value) -> Pair:
    """Emit x + y exactly, for any order of magnitudes (Knuth's TwoSum): return the rounded sum and its error."""
    high = x + y
    y_rounded = high - x
    return Pair(high, (x - (high - y_rounded)) + (y - y_rounded))


def exact_product(x: Value, y: Value | Number) -> Pair:
    """Emit x * y exactly: return the rounded product and its error. The product must not overflow, nor the error underflow."""
    high = x * y
    return Pair(high, fma(x, y, -high))
