"""Tensors as chunks: what Dask looks up by the type of a chunk."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from dask import config
from dask.array.backends import array_creation_dispatch
from dask.array.chunk_types import register_chunk_type
from dask.array.dispatch import (
    concatenate_lookup,
    divide_lookup,
    einsum_lookup,
    empty_lookup,
    nannumel_lookup,
    numel_lookup,
    percentile_lookup,
    take_lookup,
    tensordot_lookup,
    to_numpy_dispatch,
)
from dask.hashing import hash_buffer_hex
from dask.sizeof import sizeof
from dask.tokenize import normalize_token

from .. import creation
from ..functions import contraction, elementwise, joining, selecting
from ..tensor import Tensor
from .backend import TensorBackend
from .tasks import optimize, optimize_delayed


def register() -> None:
    """Tell Dask about tensors: as chunks, in its look-ups, and that tasks compute them. Importing `tenxor.dask` has done it.

    To do it again changes nothing. An optimisation that somebody has set (`array_optimize`, `delayed_optimize` in Dask's
    configuration) stays.

    >>> import dask, tenxor.dask
    >>> tenxor.dask.register()
    >>> dask.config.get("array_optimize").__module__
    'tenxor.dask.tasks'
    """
    register_chunk_type(Tensor)
    look_ups: tuple[tuple[Any, Any], ...] = (
        (concatenate_lookup, concatenate),
        (divide_lookup, divide),
        (einsum_lookup, einsum),
        (empty_lookup, creation.empty),
        (nannumel_lookup, nannumel),
        (numel_lookup, numel),
        (percentile_lookup, percentile),
        (take_lookup, selecting.take),
        (tensordot_lookup, contraction.tensordot),
        (to_numpy_dispatch, to_numpy),
        (sizeof, nbytes),
        (normalize_token, token),
    )
    for look_up, ours in look_ups:
        look_up.register(Tensor, ours)
    array_creation_dispatch.register_backend("tenxor", TensorBackend())
    for key, optimization in (("array_optimize", optimize), ("delayed_optimize", optimize_delayed)):
        if config.get(key, None) is None:
            config.set({key: optimization})


def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Tensor:
    """New tensor: chunks one after another; arrays of NumPy's may be among them."""
    return joining.concat([creation.asarray(array) for array in arrays], axis=axis)


def divide(a: Any, b: Any, dtype: Any = None) -> Tensor:
    """New tensor: the quotients of sums by counts, of which one may be of NumPy's."""
    found = elementwise.divide(creation.asarray(a), creation.asarray(b))
    return found if dtype is None else found.astype(dtype, copy=False)


def einsum(subscripts: str, *operands: Any, dtype: Any = None, **layout_and_order: Any) -> Tensor:
    """New tensor: Einstein's sum. Dask says what NumPy would be told about memory, too."""
    given = [creation.asarray(x) for x in operands]
    return contraction.einsum(subscripts, *(given if dtype is None else [x.astype(dtype, copy=False) for x in given]))


def numel(x: Tensor, axis: Any = None, keepdims: bool = False, dtype: Any = np.float64, **rest: Any) -> Tensor:
    """New tensor: how many elements a reduction over `axis` goes through."""
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    reduced = {a % x.ndim for a in axes}
    kept = [1 if a in reduced else n for a, n in enumerate(x.shape) if keepdims or a not in reduced]
    count = 1
    for a in reduced:
        count *= x.shape[a]
    return creation.full(tuple(kept), count, dtype=dtype)


def nannumel(x: Tensor, axis: Any = None, keepdims: bool = False, dtype: Any = None, **rest: Any) -> Tensor:
    """New tensor: how many numbers a reduction over `axis` goes through, leaving out NaN."""
    return (~elementwise.isnan(x)).sum(axis, keepdims=keepdims, dtype=dtype)


def percentile(a: Tensor, q: Any, method: str = "linear") -> tuple[Any, int]:
    """Percentiles of a chunk, and how many elements they stand for: of NumPy's, who joins them."""
    if not a.size:
        return None, 0
    return np.percentile(np.asarray(a), q, method=method), a.size  # type: ignore[call-overload]


def to_numpy(data: Tensor, **options: Any) -> np.ndarray[Any, Any]:
    """The same memory as an array of NumPy's."""
    return np.asarray(data)


def nbytes(t: Tensor) -> int:
    """The memory of a tensor in bytes. It is computed first: Dask asks for this when a task ends, and of what comes from no array, as of
    `client.submit`, nobody has done so.
    """
    t.realize()
    return sys.getsizeof(t)


def token(t: Tensor) -> tuple[Any, ...]:
    """What tells one tensor from another with other elements."""
    elements = np.ascontiguousarray(np.asarray(t))
    return "tenxor.Tensor", t.shape, t.dtype.name, hash_buffer_hex(elements.reshape(-1).view(np.uint8))
