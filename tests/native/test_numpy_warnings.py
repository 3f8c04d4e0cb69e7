"""Infinities and NaN give no warnings, for few elements as for many, also if NumPy is set to warn."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import LinearAlgebraError
from tenxor.native.host_op_table import HOST_OPS

MATRICES = ([[np.inf, 1.0], [1.0, 2.0]], [[np.nan, 1.0], [1.0, 2.0]], [[1e308, 1e308], [-1e308, 1e308]], [[0.0, 0.0], [0.0, 0.0]])
CALLS: dict[str, Callable[[tx.Tensor], object]] = {
    **{name: getattr(tx.linalg, name) for name in ("cholesky", "det", "slogdet", "inv", "eig", "eigvals", "eigh", "eigvalsh", "qr", "svd")},
    "svdvals": tx.linalg.svdvals,
    "solve": lambda x: tx.linalg.solve(x, x),
    "interp": lambda x: tx.interp(x[0], x[1], x[0]),
    "fft": tx.fft.fft,
    "rfft": tx.fft.rfft,
    "sort": tx.sort,
    "argsort": tx.argsort,
    "topk": lambda x: tx.topk(x, 1),
    "median": tx.median,
}


@pytest.mark.parametrize("name", CALLS)
def test_host_calls_on_infinities_and_nan_emit_no_warnings(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for numbers in MATRICES:
            for x in (tx.asarray(numbers), tx.asarray(numbers, dtype=tx.float32), tx.asarray(numbers).astype(tx.complex128)):
                if x.dtype.is_complex and name in ("interp", "rfft", "median", "topk"):
                    continue
                for _ in range(3):
                    try:
                        CALLS[name](x)
                    except LinearAlgebraError:
                        assert HOST_OPS[name].may_fail
