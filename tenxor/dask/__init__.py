"""Dask arrays with tensors as chunks, for data larger than memory or than one machine.

Needs Dask: `pip install '.[dask]'` in a clone of Tenxor. Importing this module registers tensors with Dask, once and for good. Dask arrays
then accept tensors as chunks in every operation, and the operations of a task become one fused kernel where possible. The guide is
`docs/larger.md`.

>>> import dask.array as da
>>> import tenxor.dask
>>> x = tenxor.dask.asarray(da.arange(1_000_000, chunks=100_000))
>>> x
dask.array<..., shape=(1000000,), dtype=int64, chunksize=(100000,), chunktype=tenxor.Tensor>
>>> ((x - 1) ** 2).max().compute(scheduler="synchronous").item()
999996000004
"""

from __future__ import annotations

from importlib.util import find_spec

from .._utils.optional_packages import install_hint

if find_spec("dask") is None:
    raise ModuleNotFoundError(f"tenxor.dask: Dask is not installed; {install_hint('dask')}")

from .array_backend import TensorBackend as TensorBackend
from .array_backend import asarray as asarray
from .array_backend import from_array as from_array
from .chunk_functions import register as register

register()
