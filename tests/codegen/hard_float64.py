"""Many float64 samples of hard regions through the elementary functions: ``python -m tests.codegen.hard_float64 [name ...]``.

The samples are those of `test_elementary`, ten times as many; the reference is 140-bit arithmetic. Prints a row for
each function: the largest error in units in the last place, and where it is.
"""

from __future__ import annotations

import sys

import numpy as np

import tenxor as tx

from .test_elementary import BOUND, LIMITS, REGIONS, UNARY, any_numbers, error_in_ulps, hard_angles, reference

COUNT = 10_000


def samples(name: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    parts = [any_numbers(rng, np.float64, COUNT, LIMITS.get(name, np.inf))]
    parts += [region(rng, COUNT) for region in REGIONS[name]]
    if name in ("sin", "cos", "tan"):
        parts.append(hard_angles(np.float64))
    return np.concatenate(parts)


def main(names: list[str]) -> int:
    failures = 0
    for name in names or UNARY:
        x = samples(name)
        got = getattr(tx, name)(tx.asarray(x)).to_numpy()
        errors = [error_in_ulps(g, reference(name, a)) for a, g in zip(x, got, strict=True)]
        worst = int(np.argmax(errors))
        failures += errors[worst] > BOUND[np.float64]
        print(f"| `{name}` | {errors[worst]:.3f} | `{float(x[worst]).hex()}` |", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
