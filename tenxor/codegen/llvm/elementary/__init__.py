"""Elementary functions as inline vector code: `FUNCTIONS[name](*args)` emits a function and returns its value.

Arguments are values of the same type: float, double, or a vector of either, of any width. The emitted code calls no library. It handles
rare and expensive arguments out of line: large angles of sin, cos and tan; arguments of logarithms and pow that are not positive and
normal. After these functions the code continues in a new block.

Errors are at most one unit in the last place in float32 and two in float64 (three for `erfinv`; for `logaddexp`, of the larger of the
result and the arguments); special values are those of C99, Annex F. Subnormal numbers are treated like normal numbers.
"""

from collections.abc import Callable

from ...._utils.lazy import LazyFunctions
from ..builder import Value

__all__ = ["FUNCTIONS", "compare_hypot"]

_FORMULAS = {
    LazyFunctions("tenxor.codegen.llvm.elementary.activation"): "gelu gelu_tanh sigmoid silu softplus",
    LazyFunctions("tenxor.codegen.llvm.elementary.exponential"): "exp exp2 expm1",
    LazyFunctions("tenxor.codegen.llvm.elementary.hyperbolic"): "acosh asinh atanh cosh sinh tanh",
    LazyFunctions("tenxor.codegen.llvm.elementary.inverse_trigonometric"): "acos asin atan atan2",
    LazyFunctions("tenxor.codegen.llvm.elementary.logarithm"): "log log1p log2 log10 logaddexp",
    LazyFunctions("tenxor.codegen.llvm.elementary.power"): "hypot pow rsqrt",
    LazyFunctions("tenxor.codegen.llvm.elementary.special"): "erf erfinv",
    LazyFunctions("tenxor.codegen.llvm.elementary.trigonometric"): "cos sin tan",
}
FUNCTIONS: dict[str, Callable[..., Value]] = {name: getattr(module, name) for module, names in _FORMULAS.items() for name in names.split()}
compare_hypot = LazyFunctions("tenxor.codegen.llvm.elementary.power").compare_hypot
