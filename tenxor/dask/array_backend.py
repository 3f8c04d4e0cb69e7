"""Dask arrays with tensors as chunks: conversion of existing arrays, and creation of new ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask import config
from dask.array.backends import ArrayBackendEntrypoint

from ..dtypes import bfloat16
from ..dtypes import dtype as dtype_of
from ..errors import DTypeError
from ..tensor import Tensor

__all__ = ["TensorBackend", "asarray", "from_array"]


def to_tensor(block: Any) -> Tensor:
    """Return a chunk, a tensor or array, as a tensor over the same memory; Dask never writes to chunks. A tensor is returned itself.

    A chunk in foreign byte order, or with addresses unsuited to the element size, is copied. Raises DTypeError for a dtype missing in
    Tenxor.
    """
    if type(block) is Tensor:
        return block
    array = np.asarray(block)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return Tensor._from_borrowed(array, dtype_of(array.dtype))


def assume_constant(value: Any) -> Any:
    """Return `value`, an argument of a task; a tensor in externally shared memory becomes a tensor over memory assumed to be constant.

    Objects of different types are returned unchanged. A tensor received over a network may be stored in memory open to other writers, so
    operations on the tensor would not be fused. Dask promises not to change the memory while the task runs.
    """
    if type(value) is not Tensor:
        return value
    buffer = value.storage.node.buffer
    if buffer is None or not buffer.externally_shared:
        return value
    exported = value._export_array()
    return value if exported is None else Tensor._from_borrowed(exported, value.dtype)


def asarray(x: Any, chunks: Any = "auto") -> Any:
    """Return a Dask array with tensors as chunks: of another Dask array, lazily, or of anything accepted by `from_array`.

    NumPy chunks are not copied: the tensors are views of the same memory, and never write to it. Raises DTypeError for a dtype missing in
    Tenxor.

    >>> import dask.array as da, tenxor as tx, tenxor.dask
    >>> x = tenxor.dask.asarray(da.ones((4, 6), chunks=(2, 3)))
    >>> y = (x + x.T.sum()).compute(scheduler="synchronous")
    >>> type(y) is tx.Tensor, y[0, 0].item()
    (True, 25.0)
    """
    if not isinstance(x, da.Array):
        return from_array(x, chunks)
    if isinstance(x._meta, Tensor):
        return x
    try:
        meta = to_tensor(np.empty((0,) * x.ndim, x.dtype))
    except DTypeError as error:
        raise DTypeError(f"asarray: chunks of {x.dtype} cannot be tensors: {error}") from None
    return x.map_blocks(to_tensor, dtype=meta.dtype, meta=meta, name=f"tensor-{x.name}")


def from_array(x: Any, chunks: Any = "auto", **options: Any) -> Any:
    """Return a Dask array with tensors as chunks, of a tensor or of anything accepted by `dask.array.from_array`.

    Examples are a NumPy array, a memory-mapped file, and a dataset of h5py or zarr. Data in memory is copied once, here. Data on disk is
    read chunk by chunk when needed. `chunks` and the other arguments are those of Dask. Raises DTypeError for a dtype missing in Tenxor or
    Dask.

    >>> import tenxor as tx, tenxor.dask
    >>> x = tenxor.dask.from_array(tx.arange(12).reshape(3, 4), chunks=(1, 4))
    >>> x.numblocks, x[1].compute(scheduler="synchronous").tolist()
    ((3, 1), [4, 5, 6, 7])
    """
    if isinstance(x, Tensor):
        if x.dtype is bfloat16:
            raise DTypeError("from_array: Dask's arrays have dtypes of NumPy's, which has no bfloat16; use x.astype(tx.float32)")
        x = np.asarray(x)
    return asarray(da.from_array(x, chunks, **options))


def _create(name: str, *args: Any, **options: Any) -> Any:
    """Return the Dask array that the function `name` of dask.array, like "ones", creates from NumPy chunks, with tensors as chunks."""
    with config.set({"array.backend": "numpy"}):
        return asarray(getattr(da, name)(*args, **options))


class TensorBackend(ArrayBackendEntrypoint):  # type: ignore[misc]  # Dask's types are not all written down
    """The Dask back end "tenxor", for `x.to_backend("tenxor")`, and for `da.ones` and similar functions with this `array.backend`.

    >>> import dask, dask.array as da, tenxor.dask
    >>> with dask.config.set({"array.backend": "tenxor"}):
    ...     x = da.ones((4, 4), chunks=2)
    >>> x
    dask.array<..., shape=(4, 4), dtype=float64, chunksize=(2, 2), chunktype=tenxor.Tensor>
    >>> type(x.to_backend("numpy").compute(scheduler="synchronous"))
    <class 'numpy.ndarray'>
    """

    RandomState = np.random.RandomState
    default_bit_generator = np.random.PCG64

    @classmethod
    def to_backend(cls, data: Any, **options: Any) -> Any:
        """Return the Dask array `data` with tensors as chunks, converted lazily. `options` are ignored."""
        return asarray(data)

    ones = staticmethod(partial(_create, "ones"))
    zeros = staticmethod(partial(_create, "zeros"))
    empty = staticmethod(partial(_create, "empty"))
    full = staticmethod(partial(_create, "full"))
    arange = staticmethod(partial(_create, "arange"))
