"""Complex elements in machine code: both parts loaded and stored in every way, in vectors of every width.

`check` also runs each kernel by the interpreter, and puts operands directly before a page without rights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tenxor as tx
from tenxor.dtypes import DType, complex64, complex128, float32, float64, int16, int64
from tenxor.lowering.lower import lower
from tenxor.tensor import Tensor
from tests.machines import current, tune, vectors

from .pairs import integers
from .test_agreement import check_near
from .twins import check, emitted, interpreted

WIDTHS = pytest.mark.parametrize("nbytes", [16, 32, 64])
BOTH = pytest.mark.parametrize("dtype", [complex64, complex128], ids=str)
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "side by side": lambda x: x[1:, 3:],
    "two apart": lambda x: x[:, ::2],
    "three apart": lambda x: x[:, 1::3],
    "four apart": lambda x: x[::-1, 2::4],
    "five apart": lambda x: x[:, ::5],
    "backwards": lambda x: x[:, ::-1],
    "backwards, two apart": lambda x: x[:, ::-2],
    "columns": lambda x: x.T,
    "one row": lambda x: x[:1].expand(x.shape),
    "one column": lambda x: x[:, :1].expand(x.shape),
    "gathered": lambda x: x.oindex[[3, 0, 0], [5, 1, 7, 7, 0, 2, 30, 4]],
    "a chain": lambda x: x.T.reshape(-1)[3:],
    "indexed": lambda x: x[:, tx.asarray([4, -1, 0, 0, 7] * 5)],
}


@WIDTHS
@BOTH
@pytest.mark.parametrize("view", VIEWS)
def test_complex_views_are_read_correctly(view: str, dtype: DType, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors(monkeypatch, nbytes)
    for columns in (31, 67):
        x = VIEWS[view](integers(7, columns, dtype=dtype))
        y = integers(*x.shape, dtype=dtype, seed=1)
        for t in (x - y.conj(), x * y, tx.real(x), tx.imag(x) * 2, x.sum(axis=-1), x.sum(axis=0), x != y):
            check(t.storage.node)


@WIDTHS
@BOTH
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, -1, -2, -4])
def test_complex_strided_writes_are_correct(step: int, dtype: DType, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors(monkeypatch, nbytes)
    for columns in (1, 3, 16, 33, 70):
        for kind in (dtype, dtype.part, int16):
            target = integers(3, columns * abs(step), dtype=kind).realize()
            value = integers(3, columns, dtype=kind, seed=1)
            store = target.storage.node  # keeps the old content alive for both back ends
            target[:, ::step] = value + 1
            assert store is not target.storage.node
            check(target.storage.node)


@WIDTHS
@BOTH
def test_complex_kernels_of_many_kinds_agree_on_both_back_ends(dtype: DType, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors(monkeypatch, nbytes)
    x = integers(70, 67, dtype=dtype)
    results: list[Any] = [
        x.T + integers(67, 70, dtype=dtype, seed=1),  # a tile
        x - x.mean(axis=0),  # rows of states
        x.cumulative_sum(axis=1) + 1j,
        tx.where(x.real > 0, x, x.conj())[..., None] * integers(3, dtype=dtype),
        integers(13, 9, dtype=dtype) @ integers(9, 40, dtype=dtype, seed=1),
        x.astype(complex64 if dtype is complex128 else complex128) * 2,
        integers(5, 33, dtype=float32) * x[:5, :33] + integers(5, 33, dtype=int64),
        x[3, 4] * integers(65, dtype=float64),
    ]
    for t in results:
        check(t.storage.node, compare=lambda a, b: check_near(a, b, 20) if a.dtype.kind == "c" else None)


@WIDTHS
@BOTH
def test_expensive_and_streamed_complex_results_agree_on_both_back_ends(dtype: DType, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors(monkeypatch, nbytes)
    for n in (1, 7, 16, 50):
        check(tx.exp(integers(n, dtype=dtype)).storage.node, compare=lambda a, b: check_near(a, b, 20))
    tune(monkeypatch, streams={"min_result_bytes": 64, "min_touched_bytes": 64})
    node = (integers(6, 64, dtype=dtype) * 1j).storage.node
    kernel, binding = lower(node, {node}, current())
    assert "p0[i].imag = streamed " in str(kernel)
    expected = interpreted(node, kernel, binding)
    for cuts in ((), (64, 256)):  # whole lines
        assert (emitted(node, kernel, binding, cuts) == expected).all()


@pytest.mark.usefixtures("plain")
@BOTH
def test_small_complex_steps_are_part_of_the_kernel(dtype: DType) -> None:
    target = integers(3, 40, dtype=dtype) + 1
    target[:, ::2] = integers(3, 20, dtype=dtype)
    assert "p0[i*2].imag = p1[i].imag" in tx.explain(target)
