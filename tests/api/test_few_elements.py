"""Functions of few elements, computed by NumPy in one call: bits, dtypes and errors equal those of the general path."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath

hosted, quantiles, sorting = (import_module(f"tenxor.api.{name}") for name in ("host_calls", "quantiles", "sorting"))
DTYPES = ("float64", "float32", "float16", "int64", "uint8", "bool", "bfloat16", "uint64")
SHAPES = ((9,), (10,), (1,), (3, 4), (2, 3, 4), ())
CALLS: dict[str, Callable[[Any], Any]] = {
    "median": lambda x: tx.median(x),
    "median of columns": lambda x: tx.median(x, axis=0),
    "medians kept": lambda x: tx.median(x, axis=-1, keepdims=True),
    "a median of all kept": lambda x: tx.median(x, keepdims=True),
    "medians over two": lambda x: tx.median(x, axis=(0, 2)),
    "quantile": lambda x: tx.quantile(x, 0.3),
    "the least": lambda x: tx.quantile(x, 0),
    "the largest": lambda x: tx.quantile(x, 1.0, axis=0),
    "a whole": lambda x: tx.quantile(x, 0.37, method="nearest"),
    "higher": lambda x: tx.quantile(x, 0.37, axis=-1, method="higher", keepdims=True),
    "hazen": lambda x: tx.quantile(x, 0.91, method="hazen"),
    "midpoint": lambda x: tx.quantile(x, 0.91, method="midpoint"),
    "percentile": lambda x: tx.percentile(x, 55),
    "too large a part": lambda x: tx.quantile(x, 1.5),
    "no method": lambda x: tx.quantile(x, 0.5, method="none"),
    "no axis": lambda x: tx.median(x, axis=7),
    "topk": lambda x: tx.topk(x, 2),
    "the smallest": lambda x: tx.topk(x, 1, largest=False),
    "by two keys": lambda x: tx.lexsort([x, x.flip(-1)]),
    "of columns": lambda x: tx.topk(x, 1, axis=0),
    "not in order": lambda x: tx.topk(x, 1, sorted=False),
    "all of them": lambda x: tx.topk(x, x.shape[-1]),
    "none of them": lambda x: tx.topk(x, 0),
    "more than all": lambda x: tx.topk(x, 99),
    "histogram": lambda x: tx.histogram(x),
    "of some bins": lambda x: tx.histogram(x, bins=7),
    "over a range": lambda x: tx.histogram(x, 4, range=(-1, 2)),
    "over a range that is empty": lambda x: tx.histogram(x, 4, (2, 1)),
    "of no bins": lambda x: tx.histogram(x, 0),
    "of a density": lambda x: tx.histogram(x, 3, density=True),
}


def elements(shape: tuple[int, ...], dtype: str, seed: int) -> tx.Tensor:
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=shape) * 3 if seed % 2 else rng.integers(0, 4, shape).astype(float)
    return tx.asarray(np.abs(numbers) if dtype.startswith("uint") else numbers).astype(getattr(tx, dtype)).realize()


def outcome(call: Callable[[Any], Any], x: tx.Tensor) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = call(x)
    except Exception as error:
        return type(error).__name__, str(error)
    tensors = result if isinstance(result, tuple) else (result,)
    return type(result).__name__, [(t.shape, t.dtype, t.tobytes()) for t in tensors]


def outcome_for_many(monkeypatch: pytest.MonkeyPatch, call: Callable[[Any], Any], x: tx.Tensor) -> object:
    with monkeypatch.context() as m:
        m.setattr(hosted, "MAX_NUMPY_COPY_ELEMENTS", 0)
        m.setattr(quantiles, "MAX_NUMPY_COPY_ELEMENTS", 0)
        m.setattr(quantiles, "MAX_PARTITION_ELEMENTS", 0)
        m.setattr(sorting, "MAX_LEXSORT_ELEMENTS", 0)
        with fastpath.disabled():
            return outcome(call, x)


@pytest.mark.parametrize("name", CALLS)
def test_shortcut_for_few_elements_gives_the_bits_of_the_general_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in DTYPES:
        for shape in SHAPES:
            for seed in range(2):
                x = elements(shape, dtype, seed)
                wanted = outcome_for_many(monkeypatch, CALLS[name], x)
                assert [outcome(CALLS[name], x) for _ in range(3)] == [wanted] * 3, (dtype, shape, seed)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0, 1e308, 5e-324])
def test_shortcut_for_few_elements_of_special_values_equals_the_general_path(
    name: str, special: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for numbers in ([special, 1.0, -2.0, 3.0], [special] * 5, [special, -special, special, 0.0]):
        x = tx.asarray(numbers)
        wanted = outcome_for_many(monkeypatch, CALLS[name], x)
        assert [outcome(CALLS[name], x) for _ in range(3)] == [wanted] * 3, numbers


def test_shortcut_for_few_elements_accepts_views_and_pending_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    x = elements((6, 8), "float32", 1)
    for view in (x.T, x[::2, ::-1], x[1], x + 1, x[:, :1].expand((6, 5))):
        for name in ("median", "topk", "histogram", "medians kept", "of columns"):
            assert outcome(CALLS[name], view) == outcome_for_many(monkeypatch, CALLS[name], view), name


def test_replayed_median_topk_and_histogram_use_the_present_values() -> None:
    x = tx.asarray([5.0, 1.0, 4.0, 2.0, 3.0])
    for shift in range(5):
        y = (x + shift).realize()
        assert tx.median(y).item() == 3 + shift
        assert tx.topk(y, 2).values.tolist() == [5 + shift, 4 + shift]
        assert tx.histogram(y, 2)[1].tolist() == [1 + shift, 3 + shift, 5 + shift]
    with pytest.raises(tx.errors.ArgumentError, match="range must be finite"):
        tx.histogram(x * np.inf, 2)


def test_recorded_median_and_topk_have_derivatives() -> None:
    x = tx.asarray([5.0, 1.0, 4.0, 2.0])
    for _ in range(3):
        tx.median(x), tx.topk(x, 2)
        assert tx.grad(lambda t: tx.median(t))(x).tolist() == [0, 0, 0.5, 0.5]
        assert tx.grad(lambda t: tx.topk(t, 2).values.sum())(x).tolist() == [1, 0, 1, 0]
        assert tx.vmap(tx.median)(x.reshape(2, 2)).tolist() == [3, 3]


def test_cummin_and_cummax_are_replayed_with_and_without_derivatives() -> None:
    x = tx.asarray([3.0, 1.0, 2.0, 0.5])
    for _ in range(3):
        result = tx.cummin(x)
        assert type(result).__name__ == "Extremes" and result.values.tolist() == [3, 1, 1, 0.5] and result.indices.tolist() == [0, 1, 1, 3]
        assert tx.grad(lambda t: tx.cummin(t).values.sum())(x).tolist() == [1, 2, 0, 1]
        assert tx.vmap(lambda t: tx.cummax(t, axis=0).values)(x.reshape(2, 2)).tolist() == [[3, 3], [2, 2]]


def test_histogram_median_and_topk_of_many_elements_use_the_present_values() -> None:
    """The general path depends on values in further ways: on the extremes, and on results of NumPy."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        values = rng.normal(size=3000) * rng.integers(1, 9)
        x = tx.asarray(values)
        counts, edges = tx.histogram(x, 8)
        wanted = np.histogram(values, 8)
        assert counts.tolist() == wanted[0].tolist()
        assert np.allclose(edges.numpy(), wanted[1], rtol=1e-15)
        assert tx.median(x).item() == np.median(values)
        assert tx.topk(x, 3).values.tolist() == np.sort(values)[:-4:-1].tolist()
        assert np.isclose(tx.quantile(x, 0.3).item(), np.quantile(values, 0.3), rtol=1e-15)
        assert tx.cummax(x).values.tolist() == np.maximum.accumulate(values).tolist()
