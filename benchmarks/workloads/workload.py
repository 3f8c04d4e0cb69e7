"""What a workload is, and how large."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Line = Callable[..., Any]  # (xp, *arrays) -> a result, or a tuple of them
Inputs = Callable[[np.random.Generator], tuple[Array, ...]]

KI, MI = 1 << 10, 1 << 20


class Sizes(NamedTuple):
    """How large the workloads are. All but `side`, `cube` and those from `bodies` on are numbers of elements."""

    memory: int = 16 * MI
    cache_bytes: int = 256 * KI  # of each operand
    small: int = 4 * KI
    side: int = 4096  # of matrices
    cube: int = 256  # of arrays with three axes
    gathered: int = 4 * MI
    options: int = 4 * MI
    bodies: int = 1024
    points: tuple[int, int, int] = (599, 1198, 64)  # digits told apart: this many with that many, in so many numbers
    product: int = 256
    matrices: tuple[int, ...] = (32, 64, 127, 128, 256, 257, 512, 1024, 2048)
    rectangles: tuple[tuple[int, int, int], ...] = ((700, 1100, 900), (64, 2048, 512), (2048, 64, 512))
    batches: tuple[tuple[int, int], ...] = ((10_000, 8), (1_000, 32))
    view: int = 1024
    path: int = 512
    images: tuple[int, int, int] = (16, 64, 56)
    heads: tuple[int, int, int] = (8, 1024, 64)


FULL = Sizes()
TINY = Sizes(
    *(600, 1200, 70, 36, 7, 500, 300, 20, (9, 11, 5), 8),
    *((5, 12), ((7, 11, 9),), ((30, 8), (7, 12)), 16, 9, (2, 6, 9), (2, 20, 8)),
)


@dataclass(frozen=True)
class Workload:
    """A line of array code, what it is run on, and what bounds it.

    `spelled` holds a peer's own spellings, of which the fastest counts; `absent` says why a peer takes no part. What it
    must move at the least is its operands read once and its result written once, unless `read` says otherwise (bytes).
    `numbers` are constants in numexpr's string: a plain 0.5 would make it compute in float64. What is `hosted` NumPy computes for
    Tenxor, so that no kernel need run.
    """

    name: str
    family: str
    line: Line
    inputs: Inputs
    tolerance: float = 1e-5  # of each element, relative to it and to the mean size of all
    flops: float = 0.0  # additions and multiplications, where that can be counted
    read: int | None = None
    compute_bound: bool = False
    hosted: bool = False
    numexpr: str | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    spelled: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> Line:
        """The line that is right by definition."""
        return self.spelled.get("numpy", (self.line,))[0]


def complexes(dtype: str, *shapes: tuple[int, ...]) -> Inputs:
    """Numbers uniform in the square around 0 with sides of 2."""
    parts = floats("float64", *((*shape, 2) for shape in shapes), low=-1.0)
    return lambda rng: tuple([part.view(np.complex128)[..., 0].astype(dtype) for part in parts(rng)])


def floats(dtype: str, *shapes: tuple[int, ...] | int, low: float = 0.0, high: float = 1.0) -> Inputs:
    """Uniform floats from low to high."""

    def made(rng: np.random.Generator) -> tuple[Array, ...]:
        kind = np.dtype(dtype).type
        found = []
        for shape in shapes:
            array = rng.random(shape, dtype=kind)
            if (low, high) != (0.0, 1.0):
                array *= kind(high - low)
                array += kind(low)
            found.append(array)
        return tuple(found)

    return made


def bits(dtype: str) -> int:
    """How many bits an element has."""
    return np.dtype(dtype).itemsize * 8
