"""The arguments `out`, `where` and `initial`, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, DTypeError, ShapeError

from .samples import SAMPLES, assert_close, assert_same, each_sample
from .test_reduction_functions import axes_of


@each_sample
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std"])
def test_reductions_with_where_and_initial_equal_numpy(name: str, sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    ours, theirs = getattr(tx, name), getattr(np, name)
    mask = np.asarray(array % 3 != 0)
    mask_tensor = tx.asarray(mask)
    for axis in axes_of(array):
        for keepdims in (False, True):
            options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
            with np.errstate(all="ignore"):
                if name in ("sum", "prod", "max", "min"):
                    wanted = theirs(array, initial=5, **options)
                    assert_same(ours(tensor, initial=5, **options), wanted)
                    assert_same(ours(tensor, where=mask_tensor, initial=5, **options), theirs(array, where=mask, initial=5, **options))
                elif name in ("any", "all"):
                    assert_same(ours(tensor, where=mask_tensor, **options), theirs(array, where=mask, **options))
                elif array.size:
                    import warnings

                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        wanted = theirs(array, where=mask, **options)
                    assert_close(ours(tensor, where=mask_tensor, **options), wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "bool"])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_empty_reductions_with_initial_keep_the_dtype_of_sums(name: str, dtype: str) -> None:
    array, mask = np.zeros((0, 2), dtype=dtype), np.zeros((0, 2), dtype=bool)
    ours, theirs = getattr(tx, name), getattr(np, name)
    assert_same(ours(tx.asarray(array), axis=0, initial=2), theirs(array, axis=0, initial=2))
    assert_same(ours(tx.asarray(array), axis=0, initial=2, where=tx.asarray(mask)), theirs(array, axis=0, initial=2, where=mask))


def test_masked_averages_of_float16_do_not_overflow() -> None:
    array = np.array([60000.0, 60000.0, 1.0, np.nan], dtype=np.float16)
    mask, selected = tx.asarray(~np.isnan(array)), array[:3].astype(np.float64)
    for ours, wanted in ((tx.mean, selected.mean()), (tx.std, selected.std())):
        result = ours(tx.asarray(array), where=mask)
        assert result.dtype is tx.float16 and result.item() == np.float16(wanted)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std"])
def test_reductions_write_into_out(name: str) -> None:
    x = tx.arange(12, dtype=tx.float64).reshape(3, 4)
    out = tx.zeros((2, 4))
    view = out[1]
    assert getattr(tx, name)(x, axis=0, out=view) is view
    assert_close(out, np.stack([np.zeros(4), getattr(np, name)(x.to_numpy(), axis=0)]))


def test_elementwise_functions_write_into_out() -> None:
    x, y = tx.arange(6).reshape(2, 3), tx.asarray([10, 20, 30])
    out = tx.zeros((2, 3), dtype=tx.int64)
    assert tx.add(x, y, out=out) is out and out.tolist() == [[10, 21, 32], [13, 24, 35]]
    tx.multiply(x, 2, out=out, where=x > 2)
    assert out.tolist() == [[10, 21, 32], [6, 8, 10]]
    assert tx.negative(x, out=(x,)) is x and x.tolist() == [[0, -1, -2], [-3, -4, -5]]  # the operand is read before it is overwritten
    assert tx.add(x[:, ::-1], x, out=x).tolist() == [[-2, -2, -2], [-8, -8, -8]]
    wide = tx.zeros((2, 3), dtype=tx.float32)
    assert tx.add(x, 1, out=wide).dtype is tx.float32
    assert tx.sin(x, where=True).shape == (2, 3)


def test_numpy_ufuncs_write_into_tensors() -> None:
    t = tx.zeros((2, 2))
    assert np.add(t, 1, out=t) is t and t.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    np.multiply(t, 5, out=t, where=np.asarray([True, False]))
    assert t.tolist() == [[5.0, 1.0], [5.0, 1.0]]
    np.matmul(t, t, out=t)
    assert t.tolist() == [[30.0, 6.0], [30.0, 6.0]]
    array = np.zeros((2, 2))
    assert np.add(t, 1, out=array) is array and array[0, 0] == 31


def test_invalid_out_and_where_raise() -> None:
    x = tx.ones((2, 3))
    with pytest.raises(ShapeError, match=r"add: out has shape \(3,\), and the result \(2, 3\)"):
        tx.add(x, 1, out=tx.zeros(3))
    with pytest.raises(DTypeError, match="add: the result is float64, which out of int64 cannot hold"):
        tx.add(x, 1, out=tx.zeros((2, 3), dtype=tx.int64))
    with pytest.raises(ArgumentError, match="add: elements at which `where` is false would have no value; give out="):
        tx.add(x, 1, where=x > 0)
    with pytest.raises(DTypeError, match="out must be a tensor, not ndarray"):
        tx.add(x, 1, out=np.zeros((2, 3)))
    with pytest.raises(ArgumentError, match="max: where may select no elements"):
        tx.max(x, where=x > 0)
    with pytest.raises(DTypeError, match="sum: where must be a bool tensor, not one of float64"):
        tx.sum(x, where=x)
    with pytest.raises(ShapeError, match=r"sum: where has shape \(4, 2, 3\)"):
        tx.sum(x, where=tx.ones((4, 2, 3), dtype=tx.bool))


def test_clip_writes_into_out() -> None:
    x, out = tx.arange(5), tx.zeros(5)
    for _ in range(3):
        assert tx.clip(x, 1, 3, out) is out and out.tolist() == [1.0, 1.0, 2.0, 3.0, 3.0]
        out.fill(0)
    assert tx.clip(x, 2, None, out=x) is x and x.tolist() == [2, 2, 2, 3, 4]
    assert np.clip(x, 3, 4, out=out) is out and out.tolist() == [3.0, 3.0, 3.0, 3.0, 4.0]


@pytest.mark.parametrize("name", ["sum", "prod", "any", "all", "mean", "var", "std"])
def test_invalid_axis_error_names_the_called_reduction(name: str) -> None:
    for x, axis in ((tx.ones(()), 0), (tx.ones((2, 3)), 2), (tx.ones((2, 3)), "a")):
        with pytest.raises(AxisError, match=rf"^{name}: "):
            getattr(tx, name)(x > 0 if name in ("any", "all") else x, axis=axis, where=True if x.ndim == 0 else x > 0)


def test_argmax_and_argmin_write_into_out() -> None:
    x = tx.asarray([[1.0, 5.0], [7.0, 2.0]])
    out = tx.zeros(2, dtype=tx.int64)
    assert tx.argmax(x, axis=1, out=out) is out and out.tolist() == [1, 0]
    assert tx.argmin(x, axis=0, out=out) is out and out.tolist() == [0, 1]
    with pytest.raises(ShapeError, match="argmax: out has shape"):
        tx.argmax(x, out=out)


X = np.asarray([[3.0, 1.0, 2.5], [0.5, -4.0, 9.0]])
METHODS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    **{f"{name}, by place": ((name, 0), {}) for name in ("sum", "prod", "max", "min", "mean", "std", "var")},
    **{f"{name}, by name": ((name,), {"axis": 1, "keepdims": True}) for name in ("sum", "max", "mean", "var")},
    **{f"{name}, of some": ((name, 0), {"where": X > 0.6, "initial": 1.5}) for name in ("sum", "prod", "max", "min")},
    **{f"{name}, of some": ((name, 1), {"where": X > 0.6}) for name in ("mean", "var", "std")},
    **{f"{name}, running": ((name, 1), {}) for name in ("cumsum", "cumprod")},
    "cumsum, of all": (("cumsum",), {"dtype": np.float32}),
    "argmax": (("argmax", 1), {}),
    "argmin": (("argmin",), {"axis": 0}),
    "std, corrected": (("std", 0), {"ddof": 1}),
    "clip": (("clip", 0.0, 2.0), {}),
    "take": (("take", [2, 0]), {"axis": 1}),
    "take, around": (("take", [-4, 7, 0]), {"mode": "wrap"}),
    "take, the nearest": (("take", [-4, 7, 0]), {"mode": "clip", "axis": 1}),
    "round": (("round",), {}),
    "round, to a digit": (("round", 1), {}),
    "round, by name": (("round",), {"decimals": -1}),
    "dot": (("dot", X.T), {}),
    "trace": (("trace",), {}),
}


@pytest.mark.parametrize("case", METHODS)
def test_reduction_methods_write_into_out(case: str) -> None:
    (name, *args), options = METHODS[case]
    wanted = getattr(X, name)(*args, **options)
    tensors = {key: tx.asarray(value) if isinstance(value, np.ndarray) else value for key, value in options.items()}
    for _ in range(3):  # further calls replay the first
        x, out = tx.asarray(X), tx.asarray(np.full_like(wanted, 77))
        assert_close(getattr(x, name)(*args, **tensors), np.asarray(wanted))
        assert getattr(x, name)(*args, out=out, **tensors) is out
        assert_close(out, np.asarray(wanted))
        assert getattr(x, name)(*args, out=None, **tensors).tolist() == out.tolist()


FUNCTIONS: dict[str, tuple[Any, ...]] = {
    **{name: (X, 1) for name in ("cumsum", "cumprod", "median")},
    **{"quantile": (X, [0.2, 0.5]), "percentile": (X, 30), "take": (X, [5, 0]), "round": (X, 1)},
    **{"matmul": (X, X.T), "dot": (X, X.T), "vecdot": (X, X), "outer": (X, X), "fmod": (X, 2), "linalg.multi_dot": ([X, X.T, X],)},
    **{f"fft.{name}": (X,) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn", "rfftn", "irfftn")},
    **{f"fft.{name}": (X,) for name in ("fft2", "ifft2", "rfft2", "irfft2")},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_along_axes_write_into_out(name: str) -> None:
    ours, theirs = tx, np
    for name_part in name.split("."):
        ours, theirs = getattr(ours, name_part), getattr(theirs, name_part)
    wanted = np.asarray(theirs(*FUNCTIONS[name]))  # type: ignore[operator]
    for _ in range(3):
        memory = tx.zeros((2, *wanted.shape), dtype=wanted.dtype)
        out = memory[1, ...]
        assert ours(*FUNCTIONS[name], out=out) is out  # type: ignore[operator]
        assert_close(memory[1, ...], wanted)
        assert not memory[0, ...].any()
    with pytest.raises(ShapeError, match=f"^{name.rpartition('.')[2]}: out has shape"):
        ours(*FUNCTIONS[name], out=tx.zeros((7, 7), dtype=tx.complex128))  # type: ignore[operator]
    with pytest.raises(DTypeError, match="out must be a tensor, not ndarray"):
        ours(*FUNCTIONS[name], out=wanted)  # type: ignore[operator]


def test_cumulative_functions_write_into_out() -> None:
    out = tx.zeros(4)
    assert tx.cumulative_sum(tx.asarray([1.0, 2.0, 3.0]), include_initial=True, out=out) is out and out.tolist() == [0.0, 1.0, 3.0, 6.0]
    assert tx.cumulative_prod(tx.asarray(X), axis=0, out=(row := tx.zeros((2, 3)))) is row and row.tolist() == np.cumprod(X, 0).tolist()


def test_reduction_methods_with_out_raise_the_errors_of_functions() -> None:
    x, out = tx.asarray(X), tx.zeros(3)
    with pytest.raises(ShapeError, match=r"sum: out has shape \(3,\), and the result \(2,\)"):
        x.sum(1, out=out)
    with pytest.raises(DTypeError, match="mean: the result is float64, which out of int64 cannot hold"):
        x.mean(0, out=tx.zeros(3, dtype=tx.int64))
    with pytest.raises(TypeError, match="initial"):
        x.argmax(0, initial=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="multiple values for keyword argument 'axis'"):
        x.sum(0, axis=1, out=out)  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"sum: takes axis, dtype, keepdims by position, not 4 .* out=\.\.\., initial="):
        x.sum(0, None, False, 1, out=out)  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match="take: mode must be 'raise', 'wrap' or 'clip'"):
        x.take([0], mode="around")
    with pytest.raises(ArgumentError, match="round: elements at which `where`"):
        tx.round(x, 1, where=x > 0)
    assert x.sum(dim=0, out=out) is out and out.tolist() == X.sum(0).tolist()


@pytest.mark.parametrize("name", ["var", "std"])
def test_var_and_std_accept_a_known_mean(name: str) -> None:
    x, function = tx.asarray(X), getattr(np, name)
    for _ in range(3):
        for axis in (0, 1, None):
            mean = np.mean(X, axis, keepdims=True) + 1
            for options in ({}, {"where": X > 0.6}):
                wanted = function(X, axis, mean=mean, ddof=0.5, **options)
                assert_close(getattr(tx, name)(x, axis, mean=tx.asarray(mean), correction=0.5, **options), wanted)
            assert_close(getattr(x, name)(axis, mean=tx.asarray(mean)), function(X, axis, mean=mean))
    assert_close(getattr(tx.asarray([1, 2, 4]), name)(mean=2), function(np.asarray([1, 2, 4]), mean=2))
    for options in ({}, {"where": x > 0}):
        with pytest.raises(ShapeError, match=f"{name}: (a mean of shape|mean must broadcast to)"):
            getattr(tx, name)(x, mean=tx.ones((4, 2, 3)), **options)
    x.requires_grad_()
    mean = x.mean(1, keepdims=True)
    x.var(1, mean=mean).sum().backward()
    assert_close(x.grad, 2 / 3 * (X - X.mean(1, keepdims=True)))


def test_mean_is_computed_in_the_given_dtype() -> None:
    x = tx.asarray(X, dtype=tx.float32)
    assert tx.mean(x, dtype=tx.float64).dtype is tx.float64 and tx.mean(x, 0, dtype=tx.float64, where=x > 0).dtype is tx.float64
    assert_close(tx.mean(x, 1, dtype=tx.float64), X.mean(1))
