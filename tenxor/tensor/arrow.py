"""Tensors as Arrow's arrays, through pyarrow (the extra `interop`): what it, pandas and polars take.

An axis but the first is a list of fixed size. Numbers in row-major order stay where they are; others are copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError


def arrow_array(op: str, elements: np.ndarray[Any, Any]) -> Any:
    """The pyarrow array of an array. ShapeError for one of no axes, DTypeError for complex numbers; ModuleNotFoundError without pyarrow."""
    try:
        import pyarrow
    except ImportError:
        raise ModuleNotFoundError(f"{op}: Arrow's arrays need pyarrow, which is not installed; pip install pyarrow") from None
    if elements.ndim == 0:
        raise ShapeError(f"{op}: Arrow's arrays have a length; use x.reshape(1) for a tensor of no axes")
    if elements.dtype.kind == "c":
        raise DTypeError(f"{op}: Arrow has no complex numbers; give x.real and x.imag")
    found = pyarrow.array(elements.reshape(-1))
    for size in elements.shape[:0:-1]:
        found = pyarrow.FixedSizeListArray.from_arrays(found, size)
    return found
