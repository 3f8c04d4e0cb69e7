"""Elementary functions as inline vector code: `FUNCTIONS[name](*args)` emits and returns one.

Arguments are values of one type: float, double, or a vector of either, of any width. What is emitted calls no library.
Arguments that are rare and dear are seen to out of line: large angles of sin, cos and tan; what is not positive and
normal of the logarithms and pow. After these the code goes on in a new block.

Errors are at most one unit in the last place in float32 and two in float64 (for `logaddexp`, of the larger of
the result and the arguments); special values are those of C99, Annex F. Subnormal numbers count like others.
"""

from collections.abc import Callable

from ..builder import Value
from .activation import gelu, gelu_tanh, sigmoid, silu, softplus
from .exponential import exp, exp2, expm1
from .hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from .inverse_trigonometric import acos, asin, atan, atan2
from .logarithm import log, log1p, log2, log10, logaddexp
from .power import hypot, pow, rsqrt
from .special import erf
from .trigonometric import cos, sin, tan

__all__ = ["FUNCTIONS"]

FUNCTIONS: dict[str, Callable[..., Value]] = {
    formula.__name__: formula
    for formula in (
        acos, acosh, asin, asinh, atan, atan2, atanh, cos, cosh, erf, exp, exp2, expm1, gelu, gelu_tanh, hypot,
        log, log10, log1p, log2, logaddexp, pow, rsqrt, sigmoid, silu, sin, sinh, softplus, tan, tanh,
    )
}  # fmt: skip
