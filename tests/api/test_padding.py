"""Modes of `pad` that compute the border from the elements, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, OutOfBounds, ShapeError

_numbers = np.random.default_rng(0)
ARRAYS = {
    "squares": np.arange(4.0) ** 2,
    "a table": _numbers.normal(size=(3, 4)),
    "integers": _numbers.integers(-9, 9, size=(3, 4)),
    "one along an axis": _numbers.normal(size=(2, 1, 3)),
    "float32": _numbers.normal(size=5).astype(np.float32),
}
MODES: dict[str, list[dict[str, Any]]] = {
    "linear_ramp": [{}, {"end_values": 3}, {"end_values": (1, -2)}],
    "maximum": [{}, {"stat_length": 2}, {"stat_length": (1, 2)}],
    "minimum": [{}, {"stat_length": 2}],
    "mean": [{}, {"stat_length": 3}],
    "median": [{}, {"stat_length": 2}],
    "reflect": [{"reflect_type": "odd"}, {"reflect_type": "even"}],
    "symmetric": [{"reflect_type": "odd"}],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ARRAYS)
def test_pad_equals_numpy_in_every_mode(name: str, mode: Any) -> None:
    array = ARRAYS[name]
    for options in MODES[mode]:
        for width in (0, 1, (2, 3), [(k, 2) for k in range(array.ndim)], 9):
            result = tx.pad(tx.asarray(array), width, mode, **options)
            wanted = np.pad(array, width, mode, **options)
            assert result.dtype == wanted.dtype and result.shape == wanted.shape
            np.testing.assert_allclose(np.asarray(result), wanted, rtol=1e-5 if name == "float32" else 1e-12, atol=1e-6)


RAMPS: dict[str, tuple[Any, int, Any]] = {  # the array, the width and the end values
    "unsigned, downwards": (np.asarray([0], np.uint8), 3, 3),
    "unsigned, from 200 to 250": (np.asarray([[200, 0], [7, 255]], np.uint8), 4, 250),
    "int8, from -128 to 127": (np.asarray([-128, 127], np.int8), 5, (127, -128)),
    "int64 beyond float32": (np.asarray([2**40 + 1, 5]), 3, -7),
    "integers, by fractions": (np.asarray([0, 5]), 49, 7),
    "integers, a row of which is flat": (np.asarray([[33, 61, 1], [7, 7, 7]]), 11, 7),
    "integers to a fraction": (np.asarray([4, 9], np.int16), 3, 0.5),
    "float16 whose difference overflows": (np.asarray([60000, -60000], np.float16), 4, (-60000, 60000)),
    "float32": (np.asarray([16777217, 3], np.float32), 7, 0.1),
    "bool": (np.asarray([True, False]), 2, (0, 1)),
    "complex64": (np.asarray([1 + 2j, -3j], np.complex64), 3, 1),
}


@pytest.mark.parametrize("name", RAMPS)
def test_pad_with_linear_ramps_of_every_dtype_equals_numpy(name: str) -> None:
    array, width, end_values = RAMPS[name]
    result = tx.pad(tx.asarray(array), width, "linear_ramp", end_values=end_values)
    wanted = np.pad(array, width, "linear_ramp", end_values=end_values)
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(result.numpy(), wanted)


def test_linear_ramp_end_value_beyond_the_dtype_is_refused() -> None:
    with pytest.raises(OutOfBounds, match="pad: Python integer 300 is out of range for uint8"):
        tx.pad(tx.zeros(2, dtype=tx.uint8), 1, "linear_ramp", end_values=300)


@pytest.mark.parametrize("mode", ["mean", "median"])
def test_pad_by_mean_or_median_of_no_elements_gives_nan_for_floats_only(mode: Any) -> None:
    for dtype in (tx.float16, tx.float64, tx.complex64):
        if mode == "mean" or dtype is not tx.complex64:
            result = tx.pad(tx.asarray([1.0, 2.0], dtype=dtype), (1, 2), mode, stat_length=(0, 1))
            np.testing.assert_array_equal(result.numpy(), np.asarray([np.nan, 1, 2, 2, 2], result.numpy().dtype))
    for mode_without_value, x in (("maximum", tx.ones(2)), ("minimum", tx.ones(2)), (mode, tx.arange(2))):
        with pytest.raises(ArgumentError, match=r"pad: stat_length is 0.*must be 1 or more"):
            tx.pad(x, 0, mode_without_value, stat_length=0)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_pad_of_bools_with_reflect_type_odd_equals_numpy(mode: Any) -> None:
    x = np.asarray([[True, False, False], [False, True, True]])
    for width in (1, 3, ((0, 4), (2, 0))):
        result = tx.pad(tx.asarray(x), width, mode, reflect_type="odd")
        assert result.dtype is tx.bool
        np.testing.assert_array_equal(result.numpy(), np.pad(x, width, mode, reflect_type="odd"))


def test_pad_with_mode_empty_keeps_the_inner_elements() -> None:
    result = tx.pad(tx.arange(3), (1, 2), "empty")
    assert result.shape == (6,) and result[1:4].tolist() == [0, 1, 2]


def test_pad_of_width_0_is_a_copy() -> None:
    t = tx.arange(3)
    tx.pad(t, 0, "maximum")[0] = 9
    assert t.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda t: tx.pad(t, 1, "mirror"), ("'mirror'", "'linear_ramp'", "'median'")),
        (lambda t: tx.pad(t, 1, "circular"), ("'circular'", "'wrap' here")),
        (lambda t: tx.pad(t, 1, "replicate"), ("'replicate'", "'edge' here")),
        (lambda t: tx.pad(t, {2: 1}), ("axis 2",)),
        (lambda t: tx.pad(t, {0: -1}), ("pad_width", "{0: -1}")),
        (lambda t: tx.pad(t, {0: (1, 2, 3)}), ("pad_width", "(1, 2, 3)")),
        (lambda t: tx.pad(t, 1, "edge", end_values=1), ("'edge'", "end_values", "'linear_ramp'")),
        (lambda t: tx.pad(t, 1, "wrap", stat_length=1), ("stat_length", "'mean'")),
        (lambda t: tx.pad(t, 1, "edge", reflect_type="odd"), ("reflect_type", "'reflect'")),
        (lambda t: tx.pad(t, 1, "reflect", reflect_type="none"), ("reflect_type", "'none'")),
        (lambda t: tx.pad(t, 1, "mean", stat_length=0), ("stat_length", "0")),
        (lambda t: tx.pad(t, 1, "linear_ramp", end_values="a"), ("end_values", "'a'")),
    ],
)
def test_pad_rejects_invalid_arguments(call: Any, names: tuple[str, ...]) -> None:
    with pytest.raises((ArgumentError, AxisError)) as caught:
        call(tx.arange(4).reshape(2, 2))
    assert all(name in str(caught.value) for name in ("pad", *names))


def test_pad_modes_that_read_elements_reject_empty_axes() -> None:
    for mode in ("mean", "linear_ramp"):
        with pytest.raises(ShapeError, match=f"pad: axis 1.*{mode}"):
            tx.pad(tx.zeros((2, 0)), 1, mode)


def test_pad_accepts_widths_by_axis() -> None:
    model = np.arange(6).reshape(2, 3)
    widths: list[dict[int, Any]] = [{}, {-1: (1, 2)}, {0: 1}, {1: (0, 3), 0: (2, 0)}]
    for width in widths:
        for mode in ("constant", "reflect", "mean"):
            all_widths = [(0, 0), (0, 0)]
            for axis, ends in width.items():
                all_widths[axis] = ends if isinstance(ends, tuple) else (ends, ends)
            assert tx.pad(tx.asarray(model), width, mode).tolist() == np.pad(model, all_widths, mode).tolist()
