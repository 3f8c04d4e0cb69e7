"""Every float32 through every unary function: ``python -m tests.codegen.exhaustive_float32 [name ...]``.

The functions are the public ones, run by compiled kernels. The reference is float64: NumPy's and SciPy's functions,
whose own errors are below 1e-6 units in the last place of float32. Prints a row of `docs/accuracy.md` for each: the
largest error, and where it is. A function takes one or two minutes on one core. Needs SciPy.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

import tenxor as tx

Array = np.ndarray[Any, Any]
CHUNK = 1 << 16  # fits the cache with all intermediate results
BOUND = 1.0  # units in the last place
END = 2.0**128  # what infinity stands for: the number after the largest


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


REFERENCES: dict[str, Callable[[Array], Array]] = {
    **{
        name: getattr(np, name)
        for name in (
            *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
            *("asin", "acos", "atan", "asinh", "acosh", "atanh"),
            *("sqrt", "square", "reciprocal", "abs", "negative", "floor", "ceil", "trunc"),
        )
    },
    "erf": special.erf,
    "gelu": lambda x: np.where(x < -40, -0.0, x * 0.5 * special.erfc(x * -np.sqrt(0.5))),
    "gelu_tanh": lambda x: np.where(x < -40, -0.0, x * _sigmoid(np.sqrt(8 / np.pi) * (x + 0.044715 * x * x * x))),
    "relu": lambda x: np.maximum(x, 0),
    "round": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "silu": lambda x: np.where(x < -800, -0.0, x * _sigmoid(x)),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
}


def errors_in_ulps(got: Array, exact: Array) -> Array:
    """How far float32 results are from float64 references, in units in the last place of the latter.

    Infinite where one of both is not a number, or a zero has the wrong sign.
    """
    wrong = (np.isnan(got) != np.isnan(exact)) | ((got == 0) & (np.signbit(got) != np.signbit(exact)))
    exact = np.clip(exact, -END, END)
    exponent = np.clip((exact.view(np.int64) >> 52) & 0x7FF, 1023 - 126, 1023 + 127)
    per_unit = ((2 * 1023 + 23 - exponent) << 52).view(np.float64)
    errors = np.abs(np.clip(got, -END, END, dtype=np.float64) - exact) * per_unit
    errors[np.isnan(errors)] = 0.0
    errors[wrong] = np.inf
    return errors


def worst_of(name: str) -> tuple[float, np.float32]:
    """The largest error of the function, and where it occurs."""
    function, reference = getattr(tx, name), REFERENCES[name]
    worst = (-1.0, np.float32(0))
    for start in range(0, 1 << 32, CHUNK):
        x = np.arange(start, start + CHUNK, dtype=np.uint32).view(np.float32)
        errors = errors_in_ulps(function(tx.asarray(x)).to_numpy(), reference(x.astype(np.float64)))
        i = int(np.argmax(errors))
        if errors[i] > worst[0]:
            worst = (float(errors[i]), x[i])
    return worst


def main(names: list[str]) -> int:
    failures = 0
    tx.set_num_threads(1)
    with np.errstate(all="ignore"):
        for name in names or REFERENCES:
            begin = time.perf_counter()
            error, x = worst_of(name)
            failures += error > BOUND
            print(f"| `{name}` | {error:.3f} | `{float(x).hex()}` |", flush=True)
            print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
