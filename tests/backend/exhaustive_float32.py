"""Compare unary functions with a reference for every float32: ``python exhaustive_float32.py [name ...]``.

The reference is NumPy's function in float64, whose own error does not matter here; for erf it is SciPy's.
A function takes some minutes on one core. Prints the largest error of each.
"""

import sys
import time
from collections.abc import Callable

import numpy as np
from test_elementary import BOUND, UNARY, compiled

CHUNK = 1 << 22
ARC = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan"}
NUMPY_NAMES = ARC | {"atanh": "arctanh"}


def reference_of(name: str) -> Callable[[np.ndarray], np.ndarray]:
    if name == "erf":
        from scipy.special import erf  # only this one function needs it

        return erf
    return getattr(np, NUMPY_NAMES.get(name, name))


def errors_in_ulps(got: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The distance from the reference in units in the last place; infinite where only one is a number."""
    rounded = reference.astype(np.float32)
    errors = np.abs(got - reference) / np.spacing(np.abs(rounded))
    special = np.flatnonzero(~np.isfinite(errors))
    got, rounded = got[special], rounded[special]
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    errors[special] = np.where(same, 0.0, np.inf)
    return errors


def worst_of(name: str) -> tuple[float, np.float32]:
    """The largest error of the function, and where it occurs."""
    function, reference = compiled(name, np.float32), reference_of(name)
    worst = (0.0, np.float32(0))
    for start in range(0, 1 << 32, CHUNK):
        x = np.arange(start, start + CHUNK, dtype=np.uint32).view(np.float32)
        errors = errors_in_ulps(function(x), reference(x.astype(np.float64)))
        i = int(np.argmax(errors))
        if errors[i] > worst[0]:
            worst = (float(errors[i]), x[i])
    return worst


def main(names: list[str]) -> int:
    failures = 0
    with np.errstate(all="ignore"):
        for name in names or UNARY:
            begin = time.perf_counter()
            error, x = worst_of(name)
            failures += error > BOUND[np.float32]
            print(f"{name:6} {error:.4f} ulp at {x!r} ({time.perf_counter() - begin:.0f} s)", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
