"""What a program is: the same thing done in each library as its users would write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

try:
    import torch
except ImportError:  # the gate does not install it
    torch = None  # type: ignore[assignment]

__all__ = ["Array", "Inputs", "Line", "Program", "np", "torch"]

Array = np.ndarray[Any, Any]
Line = Callable[..., Any]  # arrays of its library and numbers, as `inputs` gives them -> a result, or a tuple of them
Inputs = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """A function for each library, and what all of them are called with: `inputs(rng, *size)`.

    It is large if most of what it does is done to more than 20,000 elements at once; what is small is a matter of Python. Tests
    call it with `tiny` for a size. The functions change none of their arguments, and draw no random numbers but where
    `tolerance`, which is relative to each element and to the mean size of all, says so.
    """

    name: str
    numpy: Line
    torch: Line
    tenxor: Line
    inputs: Inputs
    size: tuple[int, ...]
    tiny: tuple[int, ...]
    large: bool = False
    tolerance: float = 1e-9

    @property
    def family(self) -> str:
        """What the goals call it."""
        return "large programs" if self.large else "small programs"
