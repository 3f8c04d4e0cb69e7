"""Sums of products over numbered axes, compared with NumPy's functions and with Python's integers."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, DTypeError, ShapeError, TenxorError, UnknownAttribute

from .samples import SAMPLES, Array, assert_same, check_refused, each_sample, kernels_of
from .test_einsum import DTYPES, FLOATS, random_operand, wrapped

SIZES = (0, 1, 2, 3, 5, 8, 17)


def agrees(result: tx.Tensor, function: Callable[..., Any], *arrays: Array) -> None:
    """Check a result against NumPy's function of float64, or of Python's integers modulo 2 to the power of the width."""
    dtype = result.dtype
    expected = np.asarray(function(*arrays))
    assert result.shape == expected.shape
    if dtype.is_float:
        size = np.asarray(function(*map(np.abs, arrays)))
        assert np.all(np.abs(result.astype(tx.float64).to_numpy() - expected) <= FLOATS[dtype] * (size + 1e-3))
    else:
        assert result.ravel().tolist() == wrapped(expected, dtype)


def exact_vecdot(a: Array, b: Array, axis: int) -> Array:
    return np.asarray((np.moveaxis(a, axis, -1) * np.moveaxis(b, axis, -1)).sum(-1))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not tx.bool], ids=str)
def test_products_of_random_shapes_equal_numpy(dtype: tx.DType) -> None:
    rng = random.Random(str(dtype))
    for _ in range(6):
        common = [rng.choice(SIZES) for _ in range(rng.randrange(3))]
        before, after = ([rng.choice(SIZES) for _ in range(rng.randrange(3))] for _ in range(2))
        (a, exact_a), (b, exact_b) = (random_operand(rng, tuple(s), dtype) for s in (before + common, common + after))
        count = len(common)
        agrees(tx.tensordot(a, b, axes=count), lambda x, y, n=count: np.tensordot(x, y, n), exact_a, exact_b)
        agrees(tx.outer(a, b), np.outer, exact_a, exact_b)
        shape = (*before, *after, rng.choice(SIZES))
        (c, exact_c), (d, exact_d) = (random_operand(rng, s, dtype) for s in (shape, shape[rng.randrange(len(shape)) :]))
        axis = rng.randrange(-d.ndim, 0)
        agrees(tx.vecdot(c, d, axis=axis), lambda x, y, k=axis: exact_vecdot(x, y, k), exact_c, exact_d)
        agrees(tx.inner(c, d), np.inner, exact_c, exact_d)
        turned = exact_d.T if d.ndim < 2 else np.swapaxes(exact_d, -1, -2)
        agrees(tx.dot(c, d if d.ndim < 2 else d.mT), np.dot, exact_c, turned)


@each_sample
def test_products_of_every_layout_equal_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    assert_same(tx.outer(tensor, tensor), np.outer(array, array))
    assert_same(tx.inner(tensor, tensor), np.inner(array, array))
    if array.ndim > 1:
        assert_same(tx.dot(tensor, tensor.mT), np.dot(array, array.swapaxes(-1, -2)))
    for axes in range(array.ndim + 1):
        assert_same(tx.tensordot(tensor.T, tensor, axes=(range(axes), range(-1, -axes - 1, -1))), reversed_axes(array, axes))
    for axis in range(-array.ndim, 0):
        assert_same(tx.vecdot(tensor, tensor, axis=axis), (array * array).sum(axis))


def reversed_axes(array: Array, axes: int) -> Array:
    return np.asarray(np.tensordot(array.T, array, (range(axes), range(-1, -axes - 1, -1))))


@pytest.mark.parametrize("axes", [0, 1, 2, ((1, 2), (1, 0)), ([-1], [0]), (2, 0), ((), ()), (np.int64(2), (0,))])
def test_tensordot_accepts_every_form_of_axes(axes: Any) -> None:
    a, b = np.arange(24).reshape(2, 3, 4), np.arange(60).reshape((4, 3, 5))
    if axes == 2:
        b = b.swapaxes(0, 1)
    assert_same(tx.tensordot(tx.asarray(a), tx.asarray(b), axes=axes), np.tensordot(a, b, axes))
    assert_same(tx.tensordot(tx.asarray(a), tx.asarray(b), dims=axes), np.tensordot(a, b, axes))


def test_vecdot_broadcasts_all_other_axes() -> None:
    a, b = np.arange(30).reshape(5, 1, 6), np.arange(24).reshape(4, 6)
    assert_same(tx.vecdot(tx.asarray(a), tx.asarray(b)), np.vecdot(a, b))
    assert_same(tx.vecdot(tx.asarray(b.T), tx.asarray(b.T), dim=0), np.vecdot(b.T, b.T, axis=0))
    assert_same(tx.vecdot(tx.asarray(a.swapaxes(1, 2)), tx.asarray(b.T), axis=-2), np.vecdot(a, b))


def test_products_with_a_number_multiply() -> None:
    t = tx.asarray([[1, 2], [3, 4]])
    for result in (t.dot(2), tx.dot(t, 2), tx.dot(tx.asarray(2), t), tx.inner(2, t), tx.inner(t, tx.asarray(2))):
        assert result.tolist() == [[2, 4], [6, 8]]
    assert tx.dot(2, 3).item() == tx.inner(2, 3).item() == 6
    assert tx.outer(2, 3).tolist() == [[6]]
    assert t.dot([1, 1]).tolist() == [3, 7]
    assert t.dot(np.asarray([1, 1])).tolist() == [3, 7]


def test_products_accept_lists_and_arrays() -> None:
    a = np.asarray([3, 4])
    for function, wanted in ((tx.vecdot, 11), (tx.dot, 11), (tx.inner, 11), (tx.outer, [[3, 4], [6, 8]])):
        assert function([1, 2], a).tolist() == wanted
    assert tx.tensordot([1, 2], a, axes=1).item() == 11


def test_products_promote_dtypes() -> None:
    a, b = tx.ones(3, dtype=tx.int8), tx.ones(3, dtype=tx.float32)
    for function in (tx.vecdot, tx.dot, tx.inner, tx.outer, lambda x, y: tx.tensordot(x, y, axes=1)):
        assert function(a, b).dtype is tx.float32
        assert function(a, a.astype(tx.uint8)).dtype is tx.int16
        assert function(a > 0, a).dtype is tx.int8
    assert tx.outer(a > 0, a > 1).tolist() == [[False] * 3] * 3


def test_products_of_narrow_floats_are_summed_in_float32() -> None:
    unit = tx.ones(5000, dtype=tx.float16)
    for result in (tx.vecdot(unit, unit), unit.dot(unit), tx.inner(unit, unit), tx.tensordot(unit, unit, axes=1)):
        assert result.item() == 5000.0


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "vecdot": tx.vecdot,
    "tensordot": lambda a, b: tx.tensordot(a, b, axes=1),
    "dot": tx.dot,
    "inner": tx.inner,
    "outer": tx.outer,
    "contract": lambda a, b: tx.contract(a, b, [(1, 0)]),
    "contract without pairs": lambda a, b: tx.contract(a, b, []),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_products_are_one_lazy_kernel_and_ignore_later_writes(call: Callable[[Any, Any], Any]) -> None:
    a, b = tx.ones((16, 16)).realize(), tx.ones((16, 16)).realize()
    assert kernels_of(call(a, b + 1) * 2) == 1
    expected = call(a, a).to_numpy()
    array = np.ones((16, 16))
    pinned, pending = tx.asarray(array, copy=False), tx.ones((16, 16)) * 1
    products = [call(pinned, a), call(a, pinned), call(pending, a), call(pinned, pinned)]
    array[...] = 5.0
    pending[...] = 5.0
    for result in products:
        assert_same(result, expected)
        result[...] = 0.0
    assert array.tolist() == pending.tolist() == [[5.0] * 16] * 16


@pytest.mark.large
@pytest.mark.parametrize("dtype", [tx.int8, tx.float16, tx.float32], ids=str)
def test_long_sums_need_no_copies_of_narrow_or_pending_operands(dtype: tx.DType, threads: Callable[[int], None]) -> None:
    """Long sums are split into parts, each over a range of the summed axis."""
    operand = tx.ones((30, 400_013), dtype=dtype).realize()
    copy_bytes = operand.size * 2  # bytes: in float32, or 32 bits, they would take twice as many
    threads(1)  # each thread packs separate blocks
    for call, max_kernels in (
        (lambda: tx.einsum("ik,jk->ij", operand, operand[:20]), 3),
        (lambda: tx.contract(operand[:20], operand.T, [(1, 0)]), 3),
        (lambda: tx.einsum("k,k->", operand.ravel(), operand.flip(0).ravel()), 2),
        (lambda: tx.einsum("ik,jk->ij", operand * 1, abs(operand[:20] * 1)), 3),
    ):
        assert kernels_of(call()) <= max_kernels
        start = tx.memory(reset_peak=True)
        call().realize()
        assert tx.memory().peak - start.in_use < copy_bytes


@pytest.mark.large
def test_vector_products_are_one_kernel_unless_threads_share_them() -> None:
    for dtype in (tx.float32, tx.int8):
        a = tx.ones(100_003, dtype=dtype).realize()
        assert kernels_of(a @ a) == kernels_of(tx.vecdot(a, a)) == 1
        longer = tx.ones(1_000_003, dtype=dtype).realize()
        assert kernels_of(longer @ longer) == 2
        assert (longer @ longer).item() == (1_000_003 if dtype is tx.float32 else 1_000_003 % 256)


def test_products_of_new_sizes_compile_nothing() -> None:
    tx.tensordot(tx.ones((20, 30)), tx.ones((30, 40)), axes=1).realize()
    compiled = tx.compile_counts()
    for n in (21, 33):
        tx.tensordot(tx.ones((n, 30)), tx.ones((30, 41)), axes=1).realize()
        tx.einsum("ij,jk->ik", tx.ones((n, 30)), tx.ones((30, 43))).realize()
    assert tx.compile_counts() == compiled


# --- contract ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_contract_keeps_the_dtype(dtype: tx.DType) -> None:
    rng = random.Random(str(dtype))
    (a, exact_a), (b, exact_b) = (random_operand(rng, shape, dtype) for shape in ((3, 17, 9), (9, 3, 8)))
    for pairs, subscripts in (([(2, 0)], "bij,jck->bick"), ([(0, 1), (2, 0)], "bij,jbk->bik"), ([], "bij,jck->bijjck")):
        result = tx.contract(a, b, pairs)
        assert result.dtype is dtype
        if not pairs:
            agrees(result, np.multiply.outer, exact_a, exact_b)
        elif dtype is tx.bool:
            assert result.tolist() == (np.einsum(subscripts, exact_a.astype(int), exact_b.astype(int)) > 0).tolist()
        else:
            agrees(result, lambda x, y, s=subscripts: np.einsum(s, x, y), exact_a, exact_b)


def test_contract_accepts_a_custom_multiply_or_add() -> None:
    a, b = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)
    distances = np.abs(a[:, :, None] - b[None])
    ours = [tx.asarray(a), tx.asarray(b)]
    assert_same(tx.contract(*ours, [(1, 0)], multiply=lambda x, y: abs(x - y)), distances.sum(1))
    assert_same(tx.contract(*ours, [(1, 0)], add=tx.maximum), (a[:, :, None] * b[None]).max(1))
    assert_same(tx.contract(*ours, [(1, 0)], operator.mul, operator.add), a @ b)
    assert_same(tx.contract(*ours, [], multiply=operator.sub), np.subtract.outer(a, b))


# --- errors -----------------------------------------------------------------------------------------------------------

A, B = tx.zeros((2, 3)), tx.zeros((4, 5))
WRONG: dict[str, tuple[Callable[[], Any], type[TenxorError], tuple[str, ...]]] = {
    "vecdot, sizes": (lambda: tx.vecdot(A, B), ShapeError, ("vecdot", "(2, 3)", "(4, 5)", "axis -1", "3", "5")),
    "vecdot, size 1": (lambda: tx.vecdot(A, A[:, :1]), ShapeError, ("vecdot", "(2, 3)", "(2, 1)", "axis -1", "3", "1")),
    "vecdot, others": (
        lambda: tx.vecdot(tx.zeros((2, 3)), tx.zeros((4, 3))),
        ShapeError,
        ("vecdot", "(2, 3)", "(4, 3)", "2 and 4"),
    ),
    "vecdot, axis": (lambda: tx.vecdot(A, A, axis=2), AxisError, ("vecdot", "axis 2")),
    "vecdot, axis of the second": (lambda: tx.vecdot(A, A[0], axis=-2), AxisError, ("vecdot", "axis -2")),
    "vecdot, 0-d": (lambda: tx.vecdot(A, tx.asarray(1.0)), AxisError, ("vecdot", "axis -1")),
    "vecdot, two names": (lambda: tx.vecdot(A, A, axis=0, dim=0), ArgumentError, ("vecdot", "axis and dim")),
    "tensordot, sizes": (
        lambda: tx.tensordot(A, B, axes=1),
        ShapeError,
        ("tensordot", "(2, 3)", "(4, 5)", "axis 1", "axis 0", "3", "4"),
    ),
    "tensordot, too many": (
        lambda: tx.tensordot(A, A, axes=3),
        ShapeError,
        ("tensordot", "(2, 3)", "axes is 3", "0 to 2"),
    ),
    "tensordot, below 0": (lambda: tx.tensordot(A, A, axes=-1), ShapeError, ("tensordot", "axes is -1")),
    "tensordot, axis": (
        lambda: tx.tensordot(A, A, axes=((2,), (0,))),
        AxisError,
        ("tensordot", "axis 2", "first", "(2, 3)"),
    ),
    "tensordot, twice": (
        lambda: tx.tensordot(A, A, axes=((0, -2), (0, 1))),
        AxisError,
        ("tensordot", "(0, -2)", "twice"),
    ),
    "tensordot, lengths": (
        lambda: tx.tensordot(A, A, axes=((0, 1), (0,))),
        ArgumentError,
        ("tensordot", "(0, 1)", "2 of the first", "1 of the second"),
    ),
    "tensordot, three": (lambda: tx.tensordot(A, A, axes=(0, 1, 2)), ArgumentError, ("tensordot", "(0, 1, 2)", "pair")),
    "tensordot, a float": (lambda: tx.tensordot(A, A, axes=1.5), ArgumentError, ("tensordot", "1.5")),
    "tensordot, floats": (lambda: tx.tensordot(A, A, axes=((0.5,), (0,))), ArgumentError, ("tensordot", "0.5")),
    "tensordot, two names": (
        lambda: tx.tensordot(A, A, axes=1, dims=1),
        ArgumentError,
        ("tensordot", "axes and dims"),
    ),
    "dot, sizes": (lambda: tx.dot(A, B), ShapeError, ("dot", "(2, 3)", "(4, 5)", "axis 1", "axis 0", "3", "4")),
    "dot as a method": (lambda: A.dot(B[0]), ShapeError, ("dot", "(2, 3)", "(5,)", "axis 1", "axis 0")),
    "dot, no tensor": (lambda: A.dot("x"), DTypeError, ("dot", "str")),
    "inner, sizes": (lambda: tx.inner(A, B), ShapeError, ("inner", "(2, 3)", "(4, 5)", "axis 1", "3", "5")),
    "outer, dtypes": (
        lambda: tx.outer(A.astype(tx.uint64), A.astype(tx.int64)),
        DTypeError,
        ("outer", "uint64", "int64"),
    ),
    "contract, dtypes": (
        lambda: tx.contract(A.astype(tx.uint64), A.astype(tx.int64), []),
        DTypeError,
        ("contract", "uint64", "int64"),
    ),
    "contract, three in a pair": (
        lambda: tx.contract(A, B, [(1, 0, 2)]),
        ArgumentError,
        ("contract", "[(1, 0)]", "(1, 0, 2)"),
    ),
    "contract, axis": (
        lambda: tx.contract(A, B, [(1, 5)]),
        AxisError,
        ("contract", "axis 5", "second", "(4, 5)"),
    ),
    "contract, nothing to add up": (
        lambda: tx.contract(A[:, :0], B[:0], [(1, 0)], add=tx.maximum),
        ShapeError,
        ("contract", "(2, 0)", "(0, 5)", "axis 1 of the first", "axis 0 of the second", "add"),
    ),
    "matmul of a number": (lambda: tx.matmul(A, 2), DTypeError, ("matmul", "2", "x * y")),
    "torch's addmm": (lambda: tx.addmm, UnknownAttribute, ("c + x @ y",)),
    "torch's mv": (lambda: A.mv, UnknownAttribute, ("x @ y",)),
    "numpy's vdot": (lambda: tx.vdot, UnknownAttribute, ("tx.vecdot(x.ravel(), y.ravel())",)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_tensor_products_reject_invalid_arguments(wrong: str) -> None:
    check_refused(*WRONG[wrong])


def test_products_of_bools_tell_whether_any_product_is_true() -> None:
    rng = np.random.default_rng(0)
    for m, n, k in ((1, 1, 1), (3, 4, 5), (40, 70, 30), (2, 3, 0)):
        a, b = rng.random((m, k)) < 0.3, rng.random((k, n)) < 0.3
        ours, theirs = tx.asarray(a), tx.asarray(b)
        assert_same(ours @ theirs, a @ b)
        assert_same(tx.tensordot(ours, theirs, 1), (a[:, :, None] & b).any(1))
        assert_same(tx.dot(ours, theirs), a @ b)
        assert_same(tx.inner(ours, theirs.T), a @ b)
        assert_same(tx.vecdot(ours[:1], theirs.T), (a[:1] & b.T).any(-1))
    assert (tx.asarray([True]) @ tx.asarray([3])).dtype is tx.int64


def test_matmul_accepts_lists_and_arrays() -> None:
    wanted = [[7.0, 10.0], [15.0, 22.0]]
    rows = [[1.0, 2.0], [3.0, 4.0]]
    for a, b in ((rows, rows), (tx.asarray(rows), rows), (np.asarray(rows), tx.asarray(rows)), (rows, np.asarray(rows))):
        result = tx.matmul(a, b)
        assert type(result) is tx.Tensor and result.tolist() == wanted
