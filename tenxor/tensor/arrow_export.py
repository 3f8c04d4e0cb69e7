"""Export of tensors as Arrow arrays, through pyarrow (the extra `interop`), for example to pandas and polars.

Each axis after the first becomes a list of fixed size. Numbers in row-major order are shared, otherwise they are copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError


def to_arrow_array(op: str, elements: np.ndarray[Any, Any]) -> Any:
    """Return the pyarrow array of the NumPy array `elements`: numbers, or lists of fixed size nested once for each axis after the first.

    Raise ShapeError for a 0-d array, DTypeError for complex numbers, and ModuleNotFoundError without pyarrow. `op` is for messages.
    """
    try:
        import pyarrow
    except ImportError:
        raise ModuleNotFoundError(f"{op}: Arrow's arrays need pyarrow, which is not installed; pip install pyarrow") from None
    if elements.ndim == 0:
        raise ShapeError(f"{op}: the tensor has no axes, and an Arrow array must have a length; use x.reshape(1)")
    if elements.dtype.kind == "c":
        raise DTypeError(f"{op}: Arrow has no complex numbers; give x.real and x.imag")
    result = pyarrow.array(elements.reshape(-1))
    for size in elements.shape[:0:-1]:
        result = pyarrow.FixedSizeListArray.from_arrays(result, size)
    return result
