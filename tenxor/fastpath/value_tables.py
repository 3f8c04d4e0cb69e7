"""Objects by which emitted code converts values of other types to tensors (`fastpath/emit/numpy_values.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DTYPE_BY_NUMPY_DTYPE, NUMBER_TYPES, boolean, dtype
from .copy_descriptors import INDEX_DTYPES


def build_value_tables() -> dict[str, Any]:
    """Return new objects by their names in emitted code.

    "dtype of type" maps the types of NumPy scalars and of Python numbers to dtypes, and "integer types" those of NumPy integers; "index
    dtypes" maps the NumPy dtypes of indices and masks. "array recipes" and "list recipes" are the caches of `CreationFunctions`.
    """
    return {
        "complex": complex,
        "ndarray": np.ndarray,
        "'item'": "item",
        "'out'": "out",
        "dtype of type": {
            **{numpy_dtype.type: d for numpy_dtype, d in DTYPE_BY_NUMPY_DTYPE.items()},
            **{number_type: dtype(number_type) for number_type in NUMBER_TYPES},
        },
        "integer types": {numpy_dtype.type: d for numpy_dtype, d in DTYPE_BY_NUMPY_DTYPE.items() if d.is_integer},
        "index dtypes": {d.numpy: d for d in (boolean, *INDEX_DTYPES)},
        "array recipes": {},
        "list recipes": {},
    }
