"""Random numbers as formulas: a counter-based generator computes each element alone, so results do not depend on the threads. A random
number is made of a block, 128 bits that the generator gives for three uint64 words. These are `counter`, the number of the element,
`stream`, the number of the draw, and `key`, the seed. Functions take and return expressions (`Expr`); nothing is computed here.
"""

from __future__ import annotations

from math import pi

from ..dtypes import float32, float64, int32, uint32, uint64
from .expr import Const, Expr, Exprs, call, cast


def philox4x32(counter: Exprs, key: Exprs) -> Exprs:
    """Return the four 32-bit words of a block of Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

    `counter` has four words of 32 bits, and `key` two, all as integer expressions. The results are uint32 expressions.

    Words are kept in 64 bits with arbitrary upper halves. Each product is then one vector instruction, which multiplies the lower halves
    and gives both words of the next round.
    """
    c0, c1, c2, c3 = (cast(word, uint64) for word in counter)
    k0, k1 = (cast(word, uint64) for word in key)
    for _ in range(10):
        a, b = Const(0xD2511F53, uint64) * _low(c0), Const(0xCD9E8D57, uint64) * _low(c2)
        c0, c1, c2, c3 = _xor(_xor(_high(b), c1), k0), b, _xor(_xor(_high(a), c3), k1), a
        k0, k1 = k0 + Const(0x9E3779B9, uint64), k1 + Const(0xBB67AE85, uint64)
    return cast(c0, uint32), cast(c1, uint32), cast(c2, uint32), cast(c3, uint32)


def _xor(x: Expr, y: Expr) -> Expr:
    return call("bitwise_xor", x, y)


def _low(x: Expr) -> Expr:
    """Return the lower 32 bits of the uint64 `x`."""
    return call("bitwise_and", x, 0xFFFFFFFF)


def _high(x: Expr) -> Expr:
    """Return the upper 32 bits of the uint64 `x`, shifted down."""
    return call("bitwise_right_shift", x, 32)


def _block(counter: Expr, stream: Expr, key: Expr) -> Exprs:
    """Return the Philox block of three uint64 words, 128 bits, as two uint64 expressions: the first and the second 64 bits.

    Counter and stream are the counter of `philox4x32`, and `key` is the key; the lower 32 bits of each come first.
    """
    words = [cast(word, uint32) for x in (counter, stream, key) for word in (x, _high(x))]
    c0, c1, c2, c3 = (cast(word, uint64) for word in philox4x32(tuple(words[:4]), tuple(words[4:])))
    return _join_words(c0, c1), _join_words(c2, c3)


def _join_words(low: Expr, high: Expr) -> Expr:
    """Return the uint64 with the 32-bit words `low` and `high`."""
    return call("bitwise_or", low, call("bitwise_left_shift", high, 32))


def random_bits(counter: Expr, stream: Expr, key: Expr) -> Expr:
    """Return the first 64 bits of the block of three uint64 words, as a uint64 expression."""
    return _block(counter, stream, key)[0]


def random_below(counter: Expr, stream: Expr, key: Expr, count: Expr) -> Expr:
    """Return a uint64 from 0 to `count` - 1: the upper 64 of the 192 bits of the whole block times `count`, a uint64.

    2**128 blocks are dealt to `count` integers, so the probability of each integer differs from 1 / count by less than 2**-128: a relative
    difference below 2**-64 for every count. No draw is rejected, so the number of an element depends on its own block alone.
    """
    first_word, second_word = _block(counter, stream, key)
    low = first_word * count
    carry = call("less", low + call("multiply_high", second_word, count), low)
    return call("multiply_high", first_word, count) + cast(carry, uint64)


def random_fraction(counter: Expr, stream: Expr, key: Expr) -> Expr:
    """Return a float64 in [0, 1), made of the upper 53 of the first 64 bits of the block."""
    return cast(call("bitwise_right_shift", random_bits(counter, stream, key), 11), float64) * 2.0**-53


def random_single(counter: Expr, stream: Expr, key: Expr) -> Expr:
    """Return a float32 in [0, 1), made of the upper 24 of the first 64 bits of the block.

    The bits go through int32, which every processor converts to floats in vectors.
    """
    upper = cast(call("bitwise_right_shift", random_bits(counter, stream, key), 40), int32)
    return cast(upper, float32) * 2.0**-24


def standard_normal(counter: Expr, stream: Expr, key: Expr) -> Expr:
    """Return a standard normal float64 by the Box-Muller transform, with 53 bits for the radius and 53 for the angle."""
    radius_integer, angle_integer = (cast(call("bitwise_right_shift", bits, 11), float64) for bits in _block(counter, stream, key))
    radius = call("log", (radius_integer + 1.0) * 2.0**-53)  # the logarithm of a number in (0, 1]
    return call("sqrt", radius * -2.0) * call("cos", angle_integer * (2.0**-53 * 2.0 * pi))
