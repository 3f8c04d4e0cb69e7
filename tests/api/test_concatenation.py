"""Joining, rolling, repeating and padding, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import ALL_DTYPES
from tenxor.errors import ArgumentError, AxisError, DTypeError, ShapeError

from .samples import SAMPLES, assert_same, check_refused, each_sample, kernels_of

every_dtype = pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)


def axes_of(ndim: int) -> list[int | None]:
    return [None, *range(-ndim, ndim)]


# --- concat and stack -------------------------------------------------------------------------------------------------


@each_sample
def test_concat_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for axis in axes_of(array.ndim):
        result = tx.concat([tensor, tensor, tensor], axis=axis)
        assert result.storage is not tensor.storage
        assert_same(result, np.concatenate([array] * 3, axis=axis))


@each_sample
def test_stack_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for axis in range(-array.ndim - 1, array.ndim + 1):
        assert_same(tx.stack([tensor, tensor], axis=axis), np.stack([array] * 2, axis=axis))


def test_concat_joins_different_sizes_along_the_axis() -> None:
    arrays = [np.arange(n * 3).reshape(3, n) for n in (2, 0, 5, 1)]
    assert_same(tx.concat([tx.asarray(p) for p in arrays], axis=1), np.concatenate(arrays, axis=1))


def test_concat_without_axis_flattens_different_shapes() -> None:
    arrays = [np.arange(6).reshape(2, 3), np.asarray(7), np.arange(2)]
    assert_same(tx.concat([tx.asarray(p) for p in arrays], axis=None), np.concatenate(arrays, axis=None))


def test_concat_and_stack_promote_dtypes() -> None:
    result = tx.concat([tx.asarray([1, 2], dtype=tx.int8), tx.asarray([200], dtype=tx.uint8)])
    assert result.dtype is tx.int16
    assert result.tolist() == [1, 2, 200]
    mixed = tx.stack([tx.asarray([1, 2]), tx.asarray([0.5, 1.5], dtype=tx.float32)])
    assert mixed.dtype is tx.float64
    assert mixed.tolist() == [[1.0, 2.0], [0.5, 1.5]]


def test_concat_is_independent_of_later_writes() -> None:
    a, b = tx.arange(3), tx.arange(3) * 10
    result = tx.concat([a, b])
    a[0], b[1] = -1, -1
    assert result.tolist() == [0, 1, 2, 0, 10, 20]
    result[5] = 99
    assert b.tolist() == [0, -1, 20]


def test_concat_of_one_tensor_is_a_copy() -> None:
    a = tx.arange(3).realize()
    result = tx.concat([a])
    result[0] = 9
    assert a.tolist() == [0, 1, 2]


def test_concat_computes_pending_parts_in_place() -> None:
    a, b = tx.asarray(np.arange(1500.0)), tx.asarray(np.arange(1500.0)[::-1].copy())
    operands = [a * 2 + 1, (b - a) * b]
    result = tx.concat(operands)
    assert kernels_of(result) == 2
    x, y = np.arange(1500.0), np.arange(1500.0)[::-1]
    assert result.tolist() == [*(x * 2 + 1), *((y - x) * y)]
    assert all(operand.storage.node.buffer is None for operand in operands), "a part took memory of its own"


def test_stack_of_700_tensors_equals_numpy() -> None:
    arrays = [np.full(3, k) for k in range(700)]
    assert_same(tx.stack([tx.asarray(p) for p in arrays]), np.stack(arrays))


def test_cat_and_concatenate_are_aliases_and_accept_dim() -> None:
    a = tx.arange(4).reshape(2, 2)
    expected = np.concatenate([a.to_numpy()] * 2, 1)
    assert_same(tx.cat([a, a], dim=1), expected)
    assert_same(tx.cat([a, a], 1), expected)
    assert_same(tx.concatenate([a, a], axis=1), expected)
    assert_same(tx.stack([a, a], dim=2), np.stack([a.to_numpy()] * 2, 2))
    assert_same(tx.concat([[1, 2], np.asarray([3])]), np.asarray([1, 2, 3]))


@every_dtype
def test_joins_and_copies_keep_every_dtype(dtype: tx.DType) -> None:
    t = tx.asarray([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    values = t.tolist()
    assert tx.concat([t, t]).dtype is tx.roll(t, 1).dtype is tx.pad(t, 1).dtype is tx.tile(t, 2).dtype is dtype
    assert tx.concat([t, t]).tolist() == values + values
    assert tx.roll(t, 1, axis=0).tolist() == values[::-1]
    assert tx.pad(t, ((1, 0), (0, 0))).tolist() == [[0, 0, 0], *values]
    assert tx.repeat(t, 2, axis=0).tolist() == [values[0]] * 2 + [values[1]] * 2
    assert tx.tile(t, (2, 1)).tolist() == values + values


# --- roll -------------------------------------------------------------------------------------------------------------


@each_sample
@pytest.mark.parametrize("shift", [0, 1, -1, 2, 5, -13])
def test_roll_equals_numpy(sample: str, shift: int) -> None:
    tensor, array = SAMPLES[sample]()
    for axis in axes_of(array.ndim):
        result = tx.roll(tensor, shift, axis=axis)
        assert result.storage is not tensor.storage
        assert_same(result, np.roll(array, shift, axis=axis))


def test_roll_along_no_axes_changes_nothing() -> None:
    assert tx.roll(tx.asarray(5), (), axis=()).tolist() == 5
    assert tx.roll(tx.arange(3), (), axis=()).tolist() == [0, 1, 2]


@each_sample
def test_roll_of_several_axes_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    if array.ndim < 2:
        return
    assert_same(tx.roll(tensor, (1, -2), axis=(0, -1)), np.roll(array, (1, -2), axis=(0, -1)))
    assert_same(tx.roll(tensor, 1, axis=(1, 0)), np.roll(array, 1, axis=(1, 0)))
    assert_same(tx.roll(tensor, (1, 1), axis=(0, 0)), np.roll(array, (1, 1), axis=(0, 0)))
    assert_same(tx.roll(tensor, 1, dims=0), np.roll(array, 1, axis=0))


# --- tile and repeat --------------------------------------------------------------------------------------------------


@each_sample
@pytest.mark.parametrize("repetitions", [0, 1, 3, (2,), (1, 2), (2, 1, 3), (2, 0), (1, 1, 1, 1, 2), ()])
def test_tile_equals_numpy(sample: str, repetitions: int | tuple[int, ...]) -> None:
    tensor, array = SAMPLES[sample]()
    result = tx.tile(tensor, repetitions)
    assert result.storage is not tensor.storage
    assert_same(result, np.tile(array, repetitions))


@each_sample
def test_repeat_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for axis, count in product(axes_of(array.ndim), (0, 1, 3)):
        result = tx.repeat(tensor, count, axis=axis)
        assert result.storage is not tensor.storage
        assert_same(result, np.repeat(array, count, axis=axis))


@each_sample
def test_repeat_with_counts_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for axis in axes_of(array.ndim):
        counts = np.arange(array.size if axis is None else array.shape[axis]) % 3
        assert_same(tx.repeat(tensor, counts.tolist(), axis=axis), np.repeat(array, counts, axis=axis))
        assert_same(tx.repeat(tensor, tx.asarray(counts), dim=axis), np.repeat(array, counts, axis=axis))


# --- pad --------------------------------------------------------------------------------------------------------------

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


@each_sample
@pytest.mark.parametrize("mode", MODES)
def test_pad_equals_numpy(sample: str, mode: Any) -> None:
    tensor, array = SAMPLES[sample]()
    if array.size == 0 and mode != "constant":
        return
    for width in (0, 1, (2, 3), [(k, 2 - k % 3) for k in range(array.ndim)] or 1, 9):
        result = tx.pad(tensor, width, mode)
        assert result.storage is not tensor.storage
        assert_same(result, np.pad(array, width, mode))


def test_pad_accepts_a_constant_for_each_end() -> None:
    array = np.arange(6).reshape(2, 3)
    for values in (7, (7, 8), ((1, 2), (3, 4))):
        assert_same(tx.pad(tx.asarray(array), 2, constant_values=values), np.pad(array, 2, constant_values=values))


def test_pad_accepts_complex_constants() -> None:
    array = np.array([1j, 2.0])
    for values in (2j, (1, 3 - 1j)):
        assert_same(tx.pad(tx.asarray(array), 1, constant_values=values), np.pad(array, 1, constant_values=values))


def test_pad_computes_a_pending_operand_in_place() -> None:
    for rows, kernels in ((2, 2), (20_000, 3)):  # a small result is filled with the constant first
        array = np.arange(3.0 * rows).reshape(rows, 3)
        result = tx.pad(tx.negative(tx.asarray(array)) * 2, ((0, 0), (1, 1)))
        assert kernels_of(result) == kernels
        assert_same(result, np.pad(array * -2, ((0, 0), (1, 1))))


# --- errors -----------------------------------------------------------------------------------------------------------

table, vector = tx.zeros((2, 3)), tx.zeros(3)

WRONG: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "nothing to join": (lambda: tx.concat([]), ArgumentError, ("concat", "at least one")),
    "0-d tensors to join": (lambda: tx.concat([tx.asarray(1)]), ShapeError, ("concat", "0-d", "stack")),
    "another number of axes": (
        lambda: tx.concat([table, vector]),
        ShapeError,
        ("concat", "tensor 1", "(3,)", "(2, 3)"),
    ),
    "another size": (
        lambda: tx.concat([table, tx.zeros((2, 4))]),
        ShapeError,
        ("concat", "(2, 4)", "(2, 3)", "axis 1", "4 and 3"),
    ),
    "an axis of concat": (lambda: tx.concat([table, table], axis=2), AxisError, ("concat", "axis 2")),
    "axis and dim": (lambda: tx.concat([table], axis=1, dim=1), ArgumentError, ("concat", "axis", "dim")),
    "dtypes with no promotion": (
        lambda: tx.concat([vector.astype(tx.int64), vector.astype(tx.uint64)]),
        DTypeError,
        ("int64", "uint64"),
    ),
    "shapes to stack": (
        lambda: tx.stack([table, tx.zeros((3, 3))]),
        ShapeError,
        ("stack", "(3, 3)", "(2, 3)", "axis 0"),
    ),
    "an axis of stack": (lambda: tx.stack([table], axis=3), AxisError, ("stack", "axis 3")),
    "an axis of roll": (lambda: tx.roll(table, 1, axis=2), AxisError, ("roll", "axis 2")),
    "more shifts than axes": (lambda: tx.roll(table, (1, 2), axis=0), ArgumentError, ("roll", "2 shifts", "1 axes")),
    "a negative tile": (lambda: tx.tile(table, (1, -1)), ArgumentError, ("tile", "(1, -1)")),
    "a negative repeat": (lambda: tx.repeat(table, -1), ArgumentError, ("repeat", "-1")),
    "half a repeat": (lambda: tx.repeat(vector, [1, 2, 0.5]), ArgumentError, ("repeat", "0.5")),
    "repeats for another axis": (
        lambda: tx.repeat(table, [1, 2, 3], axis=0),
        ShapeError,
        ("repeat", "3 counts", "axis 0", "size 2"),
    ),
    "an unknown mode": (lambda: tx.pad(table, 1, "mirror"), ArgumentError, ("pad", "mirror", "reflect", "wrap")),
    "a negative width": (lambda: tx.pad(table, -1), ArgumentError, ("pad", "pad_width", "-1")),
    "half a width": (lambda: tx.pad(table, 0.5), ArgumentError, ("pad", "pad_width", "0.5")),
    "three widths": (lambda: tx.pad(table, (1, 2, 3)), ArgumentError, ("pad", "pad_width", "(1, 2, 3)", "2 axes")),
    "three constants": (
        lambda: tx.pad(table, 1, constant_values=(1, 2, 3)),
        ArgumentError,
        ("pad", "constant_values", "(1, 2, 3)"),
    ),
    **{
        f"constants for mode {mode}": (
            partial(tx.pad, table, 1, mode, constant_values=0),
            ArgumentError,
            ("pad", mode, "constant_values", "'constant'"),
        )
        for mode in MODES[1:]
    },
    "complex constants among real numbers": (
        lambda: tx.pad(table, 1, constant_values=(0, 1j)),
        DTypeError,
        ("pad", "complex128", "float64"),
    ),
    "an edge of nothing": (
        lambda: tx.pad(tx.zeros((2, 0)), 1, "edge"),
        ShapeError,
        ("pad", "axis 1", "(2, 0)", "constant"),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_joins_and_repeats_reject_invalid_arguments(wrong: str) -> None:
    check_refused(*WRONG[wrong])


def test_joins_support_out_dtype_and_casting() -> None:
    a, b = tx.asarray([1, 2]), tx.asarray([3.5, 4.5])
    for join, wanted in ((tx.concat, [1, 2, 3, 4]), (tx.stack, [[1, 2], [3, 4]])):
        result = join([a, b], dtype=tx.int8, casting="unsafe")
        assert result.dtype is tx.int8 and result.tolist() == wanted
        out = tx.zeros(result.shape, dtype=tx.float32)
        assert join([a, b], out=out, dtype=tx.int8, casting="unsafe") is out and out.tolist() == wanted
        with pytest.raises(DTypeError, match="casting='same_kind' does not allow float64 to int8"):
            join([a, b], dtype=tx.int8)
        with pytest.raises(DTypeError, match="casting='safe' does not allow int64 to float32"):
            join([a, b], out=out, casting="safe")
        assert join([a, b], 0, out=out).tolist() == np.asarray(join([a, b])).tolist()
        with pytest.raises(ShapeError, match="out"):
            join([a, b], out=tx.zeros(9))
    assert tx.vstack([a, b], dtype=tx.int8, casting="unsafe").dtype is tx.int8
    assert tx.hstack([a, b], dtype=tx.complex64).dtype is tx.complex64


@pytest.mark.parametrize("function", [tx.concat, tx.stack])
def test_joins_accept_a_tensor_as_its_rows(function: Callable[..., tx.Tensor]) -> None:
    rows = np.arange(6.0).reshape(2, 3)
    theirs = {tx.concat: np.concatenate, tx.stack: np.stack}[function]
    for _ in range(3):  # further calls may be replayed by the fast path
        for sequence in (tx.asarray(rows).realize(), iter(tx.asarray(rows).realize())):
            assert_same(function(sequence), theirs(rows))


def test_replayed_joins_distinguish_a_tensor_from_a_list_of_one() -> None:
    """Also after the fast path has recorded a call with the other form."""
    model = np.arange(6.0).reshape(2, 3)
    pairs: list[tuple[Callable[[Any], tx.Tensor], Callable[[Any], Any]]] = [
        (lambda x: tx.concat(x), np.concatenate),
        (lambda x: tx.concat(x, axis=0), np.concatenate),
        (lambda x: tx.stack(x), np.stack),
        (lambda x: tx.roll(x, 1, 0), lambda x: np.roll(x, 1, 0)),
        (lambda x: tx.roll(x, 1, axis=1), lambda x: np.roll(x, 1, 1)),
    ]
    for ours, theirs in pairs:
        for recorded, replayed in ((lambda x: [x], lambda x: x), (lambda x: x, lambda x: (x,))):
            model = np.concatenate([model, model[:1]])  # a new shape, for which no call is recorded
            for _ in range(4):
                assert_same(ours(recorded(tx.asarray(model).realize())), theirs(recorded(model)))
            assert_same(ours(replayed(tx.asarray(model).realize())), theirs(replayed(model)))
