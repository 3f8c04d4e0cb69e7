"""Tensors as chunks: the functions that Dask dispatches by the type of a chunk."""

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

from ..api import concatenation, creation, elementwise, gather_functions, tensor_products
from ..api.einsum import einsum as sum_products
from ..tensor import Tensor
from .array_backend import TensorBackend
from .tasks import optimize, optimize_delayed


def register() -> None:
    """Register tensors with Dask: as chunks, in its dispatch tables, and in its optimisations. Importing `tenxor.dask` does this.

    Registering again changes nothing. An optimisation set by the user (`array_optimize`, `delayed_optimize` in Dask's configuration) stays.

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
        (take_lookup, gather_functions.take),
        (tensordot_lookup, tensor_products.tensordot),
        (to_numpy_dispatch, to_numpy),
        (sizeof, nbytes),
        (normalize_token, content_token),
    )
    for look_up, function in look_ups:
        look_up.register(Tensor, function)
    array_creation_dispatch.register_backend("tenxor", TensorBackend())
    for key, optimization in (("array_optimize", optimize), ("delayed_optimize", optimize_delayed)):
        if config.get(key, None) is None:
            config.set({key: optimization})


def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Tensor:
    """New tensor: chunks joined along an axis, or flattened and joined for None; NumPy arrays may be among them."""
    return concatenation.concat([creation.asarray(array) for array in arrays], axis=axis)


def divide(a: Any, b: Any, dtype: Any = None) -> Tensor:
    """New tensor: the quotients `a / b` of sums by counts, cast to `dtype` unless None; one of the two may be a NumPy array."""
    quotients = elementwise.divide(creation.asarray(a), creation.asarray(b))
    return quotients if dtype is None else quotients.astype(dtype, copy=False)


def einsum(subscripts: str, *operands: Any, dtype: Any = None, **layout_and_order: Any) -> Tensor:
    """New tensor: Einstein summation of tensors or arrays, each first cast to `dtype` unless None.

    Further options of NumPy, passed by Dask too (`order`, `casting`), are ignored.
    """
    tensors = [creation.asarray(x) for x in operands]
    return sum_products(subscripts, *(tensors if dtype is None else [x.astype(dtype, copy=False) for x in tensors]))


def numel(x: Tensor, axis: Any = None, keepdims: bool = False, dtype: Any = np.float64, **unused_options: Any) -> Tensor:
    """New tensor of `dtype`: the number of elements in each reduction over `axis`, an int, several, or None for every axis.

    With `keepdims`, the reduced axes stay with size 1. Further options of Dask are ignored.
    """
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    reduced_axes = {a % x.ndim for a in axes}
    result_shape = [1 if a in reduced_axes else n for a, n in enumerate(x.shape) if keepdims or a not in reduced_axes]
    count = 1
    for a in reduced_axes:
        count *= x.shape[a]
    return creation.full(tuple(result_shape), count, dtype=dtype)


def nannumel(x: Tensor, axis: Any = None, keepdims: bool = False, dtype: Any = None, **unused_options: Any) -> Tensor:
    """New tensor: the number of elements, NaN excluded, in each reduction over `axis`, an int, a tuple, or None for every axis.

    `dtype` None gives int64. Further options of Dask are ignored.
    """
    return (~elementwise.isnan(x)).sum(axis, keepdims=keepdims, dtype=dtype)


def percentile(a: Tensor, q: Any, method: str = "linear") -> tuple[Any, int]:
    """Return the percentiles `q` (0 to 100) of all elements of a chunk as a NumPy array, for Dask to merge, and the element count.

    For an empty chunk, return None and 0. `method` is as in `numpy.percentile`.
    """
    if not a.size:
        return None, 0
    return np.percentile(np.asarray(a), q, method=method), a.size  # type: ignore[call-overload]


def to_numpy(data: Tensor, **options: Any) -> np.ndarray[Any, Any]:
    """Return a NumPy array over the memory of a tensor, or a copy for bfloat16 and layouts without strides. `options` are ignored."""
    return np.asarray(data)


def nbytes(t: Tensor) -> int:
    """Compute the tensor `t` if pending, and return Python's size of the object in bytes, its visible elements included.

    This is Dask's `sizeof` of a tensor, called at the end of a task. A tensor that is not in an array, as in `client.submit`, may still be
    pending then.
    """
    t.realize()
    return sys.getsizeof(t)


def content_token(t: Tensor) -> tuple[Any, ...]:
    """Return a tuple that identifies the content of a tensor in every process: a name, shape, dtype and a hash of the elements.

    A pending tensor is computed. Dask names tasks by such tokens.
    """
    elements = np.ascontiguousarray(np.asarray(t))
    return "tenxor.Tensor", t.shape, t.dtype.name, hash_buffer_hex(elements.reshape(-1).view(np.uint8))
