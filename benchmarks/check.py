"""Results are equal before anybody is timed."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from .peers import NumPy
from .workloads.workload import Array, Workload

PIECE = 1 << 15  # elements
_WIDE = {"float32": np.float64, "complex64": np.complex128}


class Reference:
    """NumPy in float64 with what it lacks: what results are held against."""

    def __init__(self) -> None:
        self.xp = NumPy().xp
        self.xp.erf = _erf()
        self.xp.gelu = lambda x: 0.5 * x * (1 + self.xp.erf(x * 0.5**0.5))
        self.xp.conv2d = _conv2d
        self.xp.attention = self.attention

    def result(self, workload: Workload, arrays: Sequence[Array]) -> Any:
        """The line on the same numbers in float64, or complex128."""
        wide = [a.astype(_WIDE.get(a.dtype.name, a.dtype), copy=False) for a in arrays]
        return workload.reference(self.xp, *wide)

    def attention(self, q: Array, k: Array, v: Array, causal: bool) -> Array:
        """By its formula."""
        scores = q @ k.swapaxes(-2, -1) / q.shape[-1] ** 0.5
        if causal:
            scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
        found: Array = self.xp.softmax(scores) @ v
        return found


def _conv2d(x: Array, w: Array, padding: int, groups: int) -> Array:
    """By its windows."""
    padded = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))
    found = [
        np.tensordot(some, kernels, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
        for some, kernels in zip(np.split(windows, groups, 1), np.split(w, groups), strict=True)
    ]
    return np.concatenate(found, 1)


def _erf() -> Callable[[Any], Any]:
    try:
        found = importlib.import_module("scipy.special").erf  # JAX brings it
    except ImportError:
        scalar = np.frompyfunc(math.erf, 1, 1)
        return lambda x: scalar(x).astype(np.float64)
    return found  # type: ignore[no-any-return]


class Unequal(AssertionError):
    """Somebody's result is not that of the reference."""


class Checked(Protocol):
    """What is held against the reference: a workload, or a program."""

    @property
    def name(self) -> str: ...

    @property
    def tolerance(self) -> float: ...


def check(workload: Checked, who: str, found: Sequence[Any], right: Sequence[Any], arrays: Sequence[Array]) -> None:
    """Hold results against the reference, computed by NumPy in float64.

    Each element may differ by the workload's tolerance times (its own size + the mean size of all). Floats must be as wide as
    the inputs: nobody is to be fast by computing in less, or slow by computing in more.
    """
    wide = max((a.dtype for a in arrays if a.dtype.kind in "fc"), default=None)
    for part, expected in zip(found, right, strict=True):
        part, expected = np.asarray(part), np.asarray(expected)
        where = f"{workload.name}: {who}"
        if part.shape != expected.shape:
            raise Unequal(f"{where} has shape {part.shape}, the reference {expected.shape}")
        if expected.dtype.kind in "fc" and part.dtype != wide:
            raise Unequal(f"{where} gives {part.dtype}, the inputs are {wide}")
        if expected.dtype.kind not in "fc":
            if not np.array_equal(part, expected):
                raise Unequal(f"{where} differs from the reference at {np.argwhere(part != expected)[:3].tolist()}")
            continue
        _check_floats(where, part, expected, workload.tolerance)


def _check_floats(where: str, part: Array, expected: Array, tolerance: float) -> None:
    """In pieces that stay in cache: whole temporaries would take longer than what is measured."""
    ours, right = part.reshape(-1), expected.reshape(-1)
    pieces = [slice(k, k + PIECE) for k in range(0, right.size, PIECE)]
    mean = sum(float(np.abs(right[piece]).sum()) for piece in pieces) / max(1, right.size)
    for piece in pieces:
        wrong = ~(np.abs(ours[piece] - right[piece]) <= tolerance * (np.abs(right[piece]) + mean))
        if wrong.any():
            at = piece.start + int(wrong.argmax())
            place = tuple(int(k) for k in np.unravel_index(at, expected.shape))
            raise Unequal(
                f"{where}: at {place} {ours[at].item()!r} is not {right[at].item()!r}, by more than {tolerance}"
                " of it and of the mean size of all"
            )
