"""Arrays of Dask's with tensors for chunks: made of what there is, or from nothing."""

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


def tensor(block: Any) -> Tensor:
    """A chunk as a tensor, over the same memory: chunks are never written."""
    if type(block) is Tensor:
        return block
    array = np.asarray(block)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return Tensor._lent(array, dtype_of(array.dtype))


def lent(value: Any) -> Any:
    """An argument of a task: of a tensor in memory that others may write (as what came over a wire may be written, for all we know) one
    that counts on it that they do not. For so long as a task runs Dask promises that, and what reads it may be fused.
    """
    if type(value) is not Tensor:
        return value
    buffer = value.storage.node.buffer
    if buffer is None or not buffer.pins:
        return value
    seen = value._exported()
    return value if seen is None else Tensor._lent(seen, value.dtype)


def asarray(x: Any, chunks: Any = "auto") -> Any:
    """A Dask array whose chunks are tensors: of another Dask array, lazily, or of what `from_array` takes.

    Chunks of NumPy's are not copied: tensors see the same memory, and never write it. DTypeError for dtypes that Tenxor has not.

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
        meta = tensor(np.empty((0,) * x.ndim, x.dtype))
    except DTypeError as error:
        raise DTypeError(f"asarray: chunks of {x.dtype} cannot be tensors: {error}") from None
    return x.map_blocks(tensor, dtype=meta.dtype, meta=meta, name=f"tensor-{x.name}")


def from_array(x: Any, chunks: Any = "auto", **options: Any) -> Any:
    """A Dask array, with tensors for chunks, of anything that `dask.array.from_array` takes - an array of NumPy's, a file mapped into
    memory, a dataset of h5py or zarr - or of a tensor.

    What is in memory is copied once, here; what is on disk is read when it is asked for, chunk by chunk. `chunks` and all other
    arguments are Dask's. DTypeError for dtypes that Tenxor or Dask has not.

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


def _made(name: str, *args: Any, **options: Any) -> Any:
    """What a function of Dask's makes, with tensors for chunks."""
    with config.set({"array.backend": "numpy"}):
        return asarray(getattr(da, name)(*args, **options))


class TensorBackend(ArrayBackendEntrypoint):  # type: ignore[misc]  # Dask's types are not all written down
    """Dask's back end of this name: `x.to_backend("tenxor")`, and what `da.ones` and its kin make with `array.backend` set so.

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
        return asarray(data)

    ones = staticmethod(partial(_made, "ones"))
    zeros = staticmethod(partial(_made, "zeros"))
    empty = staticmethod(partial(_made, "empty"))
    full = staticmethod(partial(_made, "full"))
    arange = staticmethod(partial(_made, "arange"))
