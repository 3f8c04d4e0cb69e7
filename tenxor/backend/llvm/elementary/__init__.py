"""Elementary functions as inline vector code: `FUNCTIONS[name](builder, *args)` emits and returns one.

Arguments are LLVM values of one type: float, double, or a vector of either, of any width. What is emitted
calls no library. Arguments that are rare and dear are seen to out of line: large angles of sin, cos and tan;
what is not positive and normal of the logarithms and pow. These leave the builder in a new basic block, so a
caller who needs the block of the result asks the builder, which must stand at the end of a block.

Errors are at most one unit in the last place in float32 and two in float64 (for `logaddexp`, of the larger of
the result and the arguments); special values are those of C99, Annex F. Subnormal numbers count like others.
"""

from collections.abc import Callable

from llvmlite import ir

from .activation import gelu, gelu_tanh, sigmoid, silu, softplus
from .core import Lanes
from .exponential import exp, exp2, expm1
from .hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from .inverse_trigonometric import acos, asin, atan, atan2
from .logarithm import log, log1p, log2, log10, logaddexp
from .power import hypot, pow, rsqrt
from .special import erf
from .trigonometric import cos, sin, tan

__all__ = ["FUNCTIONS"]

Emit = Callable[..., ir.Value]


def _on_values(formula: Callable[..., Lanes]) -> Emit:
    """The formula over `Lanes` as a function of a builder and LLVM values."""

    def emit(builder: ir.IRBuilder, *args: ir.Value) -> ir.Value:
        return formula(*(Lanes(builder, value) for value in args)).value

    emit.__name__ = emit.__qualname__ = f"emit_{formula.__name__}"
    emit.__doc__ = formula.__doc__
    return emit


FUNCTIONS: dict[str, Emit] = {
    formula.__name__: _on_values(formula)
    for formula in (
        acos, acosh, asin, asinh, atan, atan2, atanh, cos, cosh, erf, exp, exp2, expm1, gelu, gelu_tanh, hypot,
        log, log10, log1p, log2, logaddexp, pow, rsqrt, sigmoid, silu, sin, sinh, softplus, tan, tanh,
    )
}  # fmt: skip
