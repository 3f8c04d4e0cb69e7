"""Results are equal before anybody is timed."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .peers import NumPy
from .workloads.workload import Array, Workload


class Reference:
    """NumPy in float64 with what it lacks: what results are held against."""

    def __init__(self) -> None:
        self.xp = NumPy().xp
        self.xp.erf = _erf()
        self.xp.gelu = lambda x: 0.5 * x * (1 + self.xp.erf(x * 0.5**0.5))

    def result(self, workload: Workload, arrays: Sequence[Array]) -> Any:
        """The line on the same numbers in float64."""
        wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]
        return workload.reference(self.xp, *wide)


def _erf() -> Callable[[Any], Any]:
    try:
        found = importlib.import_module("scipy.special").erf  # JAX brings it
    except ImportError:
        scalar = np.frompyfunc(math.erf, 1, 1)
        return lambda x: scalar(x).astype(np.float64)
    return found  # type: ignore[no-any-return]


class Unequal(AssertionError):
    """Somebody's result is not that of the reference."""


def check(workload: Workload, who: str, found: Sequence[Any], right: Sequence[Any], arrays: Sequence[Array]) -> None:
    """Hold results against the reference, computed by NumPy in float64.

    Each element may differ by the workload's tolerance times (its own size + the mean size of all). Floats must be as wide as
    the inputs: nobody is to be fast by computing in less, or slow by computing in more.
    """
    wide = max((a.dtype for a in arrays if a.dtype.kind == "f"), default=None)
    for part, expected in zip(found, right, strict=True):
        part, expected = np.asarray(part), np.asarray(expected)
        where = f"{workload.name}: {who}"
        if part.shape != expected.shape:
            raise Unequal(f"{where} has shape {part.shape}, the reference {expected.shape}")
        if expected.dtype.kind == "f" and part.dtype != wide:
            raise Unequal(f"{where} gives {part.dtype}, the inputs are {wide}")
        if expected.dtype.kind != "f":
            if not np.array_equal(part, expected):
                raise Unequal(f"{where} differs from the reference at {np.argwhere(part != expected)[:3].tolist()}")
            continue
        allowed = np.abs(expected)
        allowed += allowed.mean()
        allowed *= workload.tolerance
        wrong = ~(np.abs(part - expected) <= allowed)
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0].tolist())
            raise Unequal(
                f"{where}: {wrong.sum()} of {wrong.size} elements differ from the reference by more than {workload.tolerance};"
                f" at {at} {part[at]!r} is not {expected[at]!r}"
            )
