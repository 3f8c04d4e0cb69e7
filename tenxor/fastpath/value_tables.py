"""Strings and dictionaries for emitted code: the types of values that become tensors (`emit/numpy_values.py`), and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import ALL_DTYPES, DTYPE_BY_NUMPY_DTYPE, NUMBER_TYPES, boolean, dtype
from ..ops.reductions import REDUCTIONS
from .copy_descriptors import INDEX_DTYPES

STRINGS = ("item", "out", "shape", "dtype", "write_part", "update_part", "spec", "offset", "select_rows", "__call__", "row_count")


def build_value_tables() -> dict[str, Any]:
    """Return a new dictionary of objects for emitted code, by the names that emitters use. `FastPath` adds them to the object table.

    "dtype of type" maps the types of NumPy scalars and of Python numbers to dtypes, and "integer types" those of NumPy integers. "index
    dtypes" maps the NumPy dtypes of indices and masks. "order-free ranks" maps reductions to a bit for the rank of each dtype of which they
    give the same bits in every order. "array recipes" and "list recipes" are the caches of `CreationFunctions`.
    """
    return {
        "complex": complex,
        "ndarray": np.ndarray,
        **{f"'{name}'": name for name in STRINGS},
        "dtype of type": {
            **{numpy_dtype.type: d for numpy_dtype, d in DTYPE_BY_NUMPY_DTYPE.items()},
            **{number_type: dtype(number_type) for number_type in NUMBER_TYPES},
        },
        "integer types": {numpy_dtype.type: d for numpy_dtype, d in DTYPE_BY_NUMPY_DTYPE.items() if d.is_integer},
        "index dtypes": {d.numpy: d for d in (boolean, *INDEX_DTYPES)},
        "order-free ranks": {
            reduction: sum([1 << d.rank for d in ALL_DTYPES if reduction.is_order_free(d)]) for reduction in REDUCTIONS.values()
        },
        "array recipes": {},
        "list recipes": {},
    }
