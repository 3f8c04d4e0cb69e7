"""Random bits as formulas: a counter-based generator, so that each element is computed by itself, on any number of threads."""

from __future__ import annotations

from collections.abc import Callable

from ..dtypes import uint32, uint64
from .expr import Const, Expr, Exprs, call, cast


def philox4x32(counter: Exprs, key: Exprs) -> Exprs:
    """Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four words of a block."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = Const(0xD2511F53, uint32), Const(0xCD9E8D57, uint32)
        high_a, low_a, high_b, low_b = call("multiply_high", a, c0), a * c0, call("multiply_high", b, c2), b * c2
        c0, c1, c2, c3 = _xor(_xor(high_b, c1), k0), low_b, _xor(_xor(high_a, c3), k1), low_a
        k0, k1 = k0 + Const(0x9E3779B9, uint32), k1 + Const(0xBB67AE85, uint32)
    return c0, c1, c2, c3


def _xor(x: Expr, y: Expr) -> Expr:
    return call("bitwise_xor", x, y)


def _words(x: Expr) -> Exprs:
    """The low and the high half of 64 bits."""
    return cast(x, uint32), cast(call("bitwise_right_shift", x, 32), uint32)


def random_bits(first: int) -> Callable[[Expr, Expr, Expr], Expr]:
    def formula(counter: Expr, stream: Expr, key: Expr) -> Expr:
        block = philox4x32((*_words(counter), *_words(stream)), _words(key))
        low, high = (cast(w, uint64) for w in block[first : first + 2])
        return call("bitwise_or", low, call("bitwise_left_shift", high, 32))

    return formula
