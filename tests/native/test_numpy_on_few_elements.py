"""NumPy computes the same for a few elements, on copies, as on the memory of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.api import host_calls, quantiles
from tenxor.errors import TenxorError

CALLS: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: (tx.sort(x), tx.sort(x, axis=0, descending=True), tx.sort(x, axis=None, stable=False)),
    "argsort": lambda x: (tx.argsort(x, axis=0), tx.argsort(x, descending=True)),
    "topk": lambda x: tx.topk(x, 2),
    "median": lambda x: (tx.median(x), tx.median(x, axis=0, keepdims=True), tx.quantile(x, [0.0, 0.3, 1.0], axis=1)),
    "unique": lambda x: (*tx.unique_all(x), tx.unique_values(x)),
    "searchsorted": lambda x: (tx.searchsorted(tx.sort(x[0]), x), tx.searchsorted(tx.sort(x[0]), x[1, 1], side="right")),
    "fft": lambda x: (tx.fft.fft(x), tx.fft.ifft(x, n=7), tx.fft.fft2(x)),
    "rfft": lambda x: (tx.fft.rfft(x, n=5, norm="ortho"), tx.fft.irfft(x), tx.fft.hfft(x)),
    "det": lambda x: (tx.linalg.det(x), *tx.linalg.slogdet(x)),
    "inv": lambda x: (tx.linalg.inv(x), tx.linalg.solve(x, x.T), tx.linalg.solve(x, tx.stack([x, x])), tx.linalg.solve(x, x[0])),
    "singular": lambda x: tx.linalg.inv(tx.stack([x, x * 0])),
    "cholesky": lambda x: tx.linalg.cholesky(x @ x.mT.conj() + tx.eye(4, dtype=x.dtype), upper=True),
    "not positive": lambda x: tx.linalg.cholesky(tx.stack([x @ x.mT.conj() * 0 - 1])),
    "eig": lambda x: (*tx.linalg.eigh(x + x.mT.conj()), tx.linalg.eigvals(x)),
    "svd": lambda x: (*tx.linalg.svd(x[:, :3], full_matrices=False), tx.linalg.svdvals(x), *tx.linalg.qr(x[:3])),
}


DTYPES = (tx.float64, tx.float32, tx.float16, tx.bfloat16, tx.int64, tx.uint8, tx.bool, tx.complex64, tx.complex128)


def seen(call: Callable[[Any], Any], x: Any) -> Any:
    try:
        found = call(x)
        return [(t.dtype.name, t.shape, t.to_numpy().tobytes()) for t in (found if isinstance(found, tuple) else (found,))]
    except TenxorError as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_host_calls_on_few_elements_equal_the_general_path_bit_for_bit(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(3).integers(-9, 9, (4, 4)) * 0.75
    values[1, 2] = np.nan if name in ("sort", "argsort", "median") and dtype.is_float else 2
    x = tx.asarray(values).astype(dtype)
    for view in (x, x.T, x[::-1, ::-1]):
        found = seen(CALLS[name], view)
        with monkeypatch.context() as patched:
            patched.setattr(host_calls, "MAX_NUMPY_COPY_ELEMENTS", 0)
            patched.setattr(quantiles, "MAX_NUMPY_COPY_ELEMENTS", 0)
            assert seen(CALLS[name], view) == found


def test_results_of_host_calls_on_few_elements_share_no_memory_with_operands() -> None:
    x = tx.asarray([3.0, 1.0, 2.0])
    found = tx.sort(x)
    found[0] = 9.0
    assert x.tolist() == [3.0, 1.0, 2.0] and found.tolist() == [9.0, 2.0, 3.0]
