"""Convolution, compared with a model in NumPy that adds one element of the kernel at a time, in float64 or exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, ShapeError, TenxorError

from .samples import Array, assert_close, assert_same, check_refused, kernels_of

CONV = {1: tx.conv1d, 2: tx.conv2d, 3: tx.conv3d}
TRANSPOSED = {1: tx.conv_transpose1d, 2: tx.conv_transpose2d, 3: tx.conv_transpose3d}
Numbers = Sequence[int]


def reference_convolution(
    x: Array,
    w: Array,
    bias: Array | None,
    stride: Numbers,
    padding: Sequence[tuple[int, int]],
    dilation: Numbers,
    groups: int,
) -> Array:
    """Return the convolution by its definition, for `x` with a batch axis."""
    x = np.pad(x, [(0, 0), (0, 0), *padding])
    kernel, outputs = w.shape[2:], w.shape[0] // groups
    axes = list(zip(x.shape[2:], kernel, stride, dilation, strict=True))
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in axes]
    result = np.zeros((x.shape[0], w.shape[0], *sizes), x.dtype)
    for position in product(*map(range, kernel)):
        window = tuple(slice(t * d, t * d + (m - 1) * s + 1, s) for t, d, s, m in zip(position, dilation, stride, sizes, strict=True))
        for g in range(groups):
            elements = x[(slice(None), slice(g * w.shape[1], (g + 1) * w.shape[1]), *window)]
            weights = w[(slice(g * outputs, (g + 1) * outputs), slice(None), *position)]
            result[:, g * outputs : (g + 1) * outputs] += np.einsum("nc...,oc->no...", elements, weights)
    return result if bias is None else result + bias.reshape(-1, *(1,) * len(kernel))


def reference_transposed(
    x: Array,
    w: Array,
    bias: Array | None,
    stride: Numbers,
    padding: Numbers,
    output_padding: Numbers,
    groups: int,
    dilation: Numbers,
) -> Array:
    """Return the transposed convolution by its definition: each element of the kernel adds `x` to outputs `stride` apart."""
    kernel, channels, outputs = w.shape[2:], w.shape[0] // groups, w.shape[1]
    axes = list(zip(x.shape[2:], kernel, stride, dilation, output_padding, strict=True))
    result = np.zeros((x.shape[0], groups * outputs, *((n - 1) * s + d * (k - 1) + 1 + m for n, k, s, d, m in axes)), x.dtype)
    for position in product(*map(range, kernel)):
        outputs_window = tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, (n, _, s, d, _) in zip(position, axes, strict=True))
        for g in range(groups):
            products = np.einsum(
                "nc...,co->no...",
                x[:, g * channels : (g + 1) * channels],
                w[(slice(g * channels, (g + 1) * channels), slice(None), *position)],
            )
            result[(slice(None), slice(g * outputs, (g + 1) * outputs), *outputs_window)] += products
    result = result[(..., *(slice(p, n - p) for p, n in zip(padding, result.shape[2:], strict=True)))]
    return result if bias is None else result + bias.reshape(-1, *(1,) * len(kernel))


class Drawn(NamedTuple):
    """Arguments of a convolution, drawn at random."""

    space: int
    groups: int
    x: Array
    bias: Array | None
    kernel: list[int]
    outputs: int
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


def drawn(seed: int) -> Drawn:
    choose, rng = Random(seed), np.random.default_rng(seed)
    space, groups = choose.choice((1, 2, 2, 3)), choose.choice((1, 1, 2, 3))
    longest = {1: 30, 2: 12, 3: 6}[space]
    channels, outputs = groups * choose.randint(1, 3), groups * choose.choice((1, 2, 5))
    sizes = [choose.randint(1, longest) for _ in range(space)]
    stride, padding, dilation = [tuple(choose.randint(low, high) for _ in range(space)) for low, high in ((1, 3), (0, 2), (1, 2))]
    kernel = [choose.randint(1, 4) for _ in range(space)]
    bias = rng.standard_normal(outputs) if choose.random() < 0.5 else None
    x = rng.standard_normal((choose.choice((0, 1, 2, 3)), channels, *sizes))
    return Drawn(space, groups, x, bias, kernel, outputs, stride, padding, dilation)


@pytest.mark.parametrize("seed", range(32))
def test_convolution_equals_its_definition(seed: int) -> None:
    a = drawn(seed)
    w = np.random.default_rng(seed).standard_normal((a.outputs, a.x.shape[1] // a.groups, *a.kernel))
    call: Callable[[], tx.Tensor] = lambda: CONV[a.space](a.x, w, a.bias, a.stride, a.padding, a.dilation, a.groups)
    fits = all(n + 2 * p > d * (k - 1) for n, p, d, k in zip(a.x.shape[2:], a.padding, a.dilation, a.kernel, strict=True))
    if not fits:
        with pytest.raises(ShapeError, match=r"kernel reaches over \d+"):
            call()
        return
    both = [(p, p) for p in a.padding]
    assert_close(call(), reference_convolution(a.x, w, a.bias, a.stride, both, a.dilation, a.groups))


@pytest.mark.parametrize("seed", range(32))
def test_transposed_convolution_equals_its_definition(seed: int) -> None:
    a = drawn(seed)
    w = np.random.default_rng(seed).standard_normal((a.x.shape[1], a.outputs // a.groups, *a.kernel))
    output_padding = tuple(Random(seed).randrange(max(s, d)) for s, d in zip(a.stride, a.dilation, strict=True))
    call: Callable[[], tx.Tensor] = lambda: TRANSPOSED[a.space](a.x, w, a.bias, a.stride, a.padding, output_padding, a.groups, a.dilation)
    sizes = zip(a.x.shape[2:], a.stride, a.dilation, a.kernel, a.padding, output_padding, strict=True)
    if any((n - 1) * s + d * (k - 1) + 1 + m - 2 * p < 1 for n, s, d, k, p, m in sizes):
        with pytest.raises(ShapeError, match="less padding"):
            call()
        return
    assert_close(call(), reference_transposed(a.x, w, a.bias, a.stride, a.padding, output_padding, a.groups, a.dilation))


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 0, 2)])
def test_transposed_convolution_of_infinities_and_nan_counts_missing_elements_as_zeros(
    value: float, stride: int, padding: int, dilation: int
) -> None:
    """Elements beyond the ends of x are zeros, so they matter only where a weight is infinite or NaN."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 4, 9)), rng.standard_normal((4, 3, 3))
    wild_x, wild_w = x.copy(), w.copy()
    wild_x[0, 1, 2] = wild_w[1, 0, 1] = value
    settings = ((stride,), (padding,), (0,), 1, (dilation,))
    actual = TRANSPOSED[1](wild_x, w, None, *settings)
    np.testing.assert_allclose(actual.to_numpy(), reference_transposed(wild_x, w, None, *settings), rtol=1e-12)
    reach = 2 * dilation  # elements of x that a result can need beyond the ends
    padded = np.pad(x, [(0, 0), (0, 0), (reach, reach)])
    with np.errstate(invalid="ignore"):
        expected = reference_transposed(padded, wild_w, None, (stride,), (padding + reach * stride,), (0,), 1, (dilation,))
    np.testing.assert_allclose(TRANSPOSED[1](x, wild_w, None, *settings).to_numpy(), expected, rtol=1e-12)


def whole_numbers(*shape: int) -> Array:
    return np.asarray(np.arange(np.prod(shape), dtype=np.int64).reshape(shape) * 7 % 23 - 11)


# --- arguments --------------------------------------------------------------------------------------------------------


def test_single_number_for_stride_padding_or_dilation_applies_to_all_axes() -> None:
    x, w = whole_numbers(2, 3, 9, 8), whole_numbers(4, 3, 2, 3)
    expected = reference_convolution(x, w, None, (2, 2), [(1, 1), (1, 1)], (2, 2), 1)
    assert_same(tx.conv2d(x, w, stride=2, padding=1, dilation=2), expected)
    assert_same(tx.conv2d(x, w, stride=[2], padding=(1, 1), dilation=np.asarray([2, 2])), expected)
    turned = whole_numbers(3, 4, 2, 3)
    expected = reference_transposed(x, turned, None, (2, 2), (1, 1), (1, 1), 1, (2, 2))
    assert_same(tx.conv_transpose2d(x, turned, stride=2, padding=1, output_padding=1, dilation=2), expected)


@pytest.mark.parametrize("space", [1, 2, 3])
def test_convolution_accepts_x_without_a_batch_axis(space: int) -> None:
    x, w, bias = whole_numbers(2, *(6, 5, 4)[:space]), whole_numbers(4, 2, *(2, 3, 2)[:space]), whole_numbers(4)
    expected = CONV[space](x[None], w, bias, padding=1)[0].to_numpy()
    assert_same(CONV[space](x, w, bias, padding=1), expected)
    turned = w.swapaxes(0, 1)
    expected = TRANSPOSED[space](x[None], turned, bias, stride=2)[0].to_numpy()
    assert_same(TRANSPOSED[space](x, turned, bias, stride=2), expected)


@pytest.mark.parametrize("kernel", [(1, 1), (2, 3), (4, 2)])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_convolution_with_padding_same_and_valid_equals_its_definition(kernel: tuple[int, int], dilation: int) -> None:
    x, w = whole_numbers(1, 2, 11, 12), whole_numbers(3, 2, *kernel)
    total = [dilation * (k - 1) for k in kernel]
    widths = [(n // 2, n - n // 2) for n in total]  # an odd width has its larger half after the axis
    same = tx.conv2d(x, w, padding="same", dilation=dilation)
    assert same.shape == (1, 3, 11, 12)
    assert_same(same, reference_convolution(x, w, None, (1, 1), widths, (dilation,) * 2, 1))
    valid = tx.conv2d(x, w, padding="valid", dilation=dilation, stride=2)
    assert_same(valid, reference_convolution(x, w, None, (2, 2), [(0, 0)] * 2, (dilation,) * 2, 1))


@pytest.mark.large
@pytest.mark.parametrize("multiplier", [1, 2, 4])
@pytest.mark.parametrize("kernel", [(3, 3), (7, 6)])
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_convolution_equals_its_definition(multiplier: int, kernel: tuple[int, int], stride: int) -> None:
    x, w = whole_numbers(2, 5, 20, 19), whole_numbers(5 * multiplier, 1, *kernel)
    expected = reference_convolution(x, w, None, (stride,) * 2, [(1, 1)] * 2, (1, 1), 5)
    assert_same(tx.conv2d(x, w, stride=stride, padding=1, groups=5), expected)
    turned = w.reshape(5, multiplier, *kernel)
    expected = reference_transposed(x, turned, None, (stride,) * 2, (1, 1), (0, 0), 5, (1, 1))
    assert_same(tx.conv_transpose2d(x, turned, stride=stride, padding=1, groups=5), expected)


@pytest.mark.large
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_with_full_and_partial_tiles_equals_its_definition(groups: int) -> None:
    """The sizes give full and partial blocks and panels."""
    rng = np.random.default_rng(5)
    x, w, bias = (
        rng.standard_normal((2, 18, 33, 70)),
        rng.standard_normal((34, 18 // groups, 3, 3)),
        rng.standard_normal(34),
    )
    expected = reference_convolution(x, w, bias, (1, 1), [(1, 1)] * 2, (1, 1), groups)
    assert_close(tx.conv2d(x, w, bias, padding=1, groups=groups), expected)
    turned = rng.standard_normal((18, 34 // groups, 3, 3))
    expected = reference_transposed(x, turned, bias, (2, 2), (1, 1), (1, 1), groups, (1, 1))
    assert_close(tx.conv_transpose2d(x, turned, bias, 2, 1, 1, groups), expected)


@pytest.mark.large
def test_long_sums_of_a_convolution_are_exact() -> None:
    x, w = whole_numbers(1, 5000, 3, 4), whole_numbers(2, 5000, 3, 3)
    assert_same(tx.conv2d(x, w), reference_convolution(x, w, None, (1, 1), [(0, 0)] * 2, (1, 1), 1))


def test_convolution_without_elements_is_the_bias_or_empty() -> None:
    assert_same(tx.conv2d(np.zeros((0, 3, 5, 5)), np.zeros((4, 3, 3, 3)), np.ones(4), padding=1), np.zeros((0, 4, 5, 5)))
    assert_same(tx.conv2d(np.zeros((2, 0, 5, 5)), np.zeros((4, 0, 3, 3)), np.ones(4)), np.ones((2, 4, 3, 3)))
    assert_same(tx.conv2d(np.zeros((2, 0, 5, 5)), np.zeros((1, 0, 3, 3))), np.zeros((2, 1, 3, 3)))
    assert_same(tx.conv2d(np.zeros((2, 3, 5, 5)), np.zeros((0, 3, 3, 3))), np.zeros((2, 0, 3, 3)))
    assert_same(tx.conv_transpose1d(np.zeros((0, 3, 5)), np.zeros((3, 4, 3)), stride=2), np.zeros((0, 4, 11)))


def test_transposed_convolution_outputs_without_inputs_equal_the_bias() -> None:
    x, w, bias = whole_numbers(1, 2, 3), whole_numbers(2, 2, 1), np.asarray([5, 7])
    result = tx.conv_transpose1d(x, w, bias, stride=3, output_padding=2)
    assert_same(result, reference_transposed(x, w, bias, (3,), (0,), (2,), 1, (1,)))
    assert result[0, :, -1].tolist() == [5, 7]


# --- dtypes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integer_convolution_wraps_around(name: str) -> None:
    rng, info = np.random.default_rng(3), np.iinfo(name)
    x = rng.integers(info.min, info.max, (2, 6, 7, 20), name, endpoint=True)
    w = rng.integers(info.min, info.max, (8, 3, 2, 3), name, endpoint=True)
    bias = rng.integers(info.min, info.max, 8, name, endpoint=True)
    wide = [a.astype(np.uint64) for a in (x, w, bias)]  # modulo 2**64
    expected = reference_convolution(*wide, (1, 1), [(1, 1)] * 2, (1, 1), 2).astype(f"uint{info.bits}").astype(name)
    assert_same(tx.conv2d(x, w, bias, padding=1, groups=2), expected)


@pytest.mark.large
@pytest.mark.parametrize("dtype", [tx.float16, tx.bfloat16, tx.float32], ids=str)
@pytest.mark.parametrize("outputs", [2, 16])
def test_narrow_floats_are_rounded_once_in_convolution(dtype: tx.DType, outputs: int) -> None:
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal(shape) for shape in ((1, 3, 9, 33), (outputs, 3, 3, 3), (outputs,))]
    x, w, bias = [tx.asarray(a).astype(dtype) for a in arrays]
    exact = [t.astype(tx.float64).to_numpy() for t in (x, w, bias)]
    result = tx.conv2d(x, w, bias, padding=1)
    assert result.dtype is dtype
    expected = reference_convolution(*exact, (1, 1), [(1, 1)] * 2, (1, 1), 1)
    tolerance = max(tx.finfo(dtype).eps * 0.51, 1e-6)
    np.testing.assert_allclose(result.astype(tx.float64).to_numpy(), expected, rtol=tolerance, atol=2e-6)
    result = tx.conv_transpose2d(x, w.swapaxes(0, 1), bias, stride=2)
    assert result.dtype is dtype
    expected = reference_transposed(exact[0], exact[1].swapaxes(0, 1), exact[2], (2, 2), (0, 0), (0, 0), 1, (1, 1))
    np.testing.assert_allclose(result.astype(tx.float64).to_numpy(), expected, rtol=tolerance, atol=2e-6)


def test_convolution_promotes_the_dtypes_of_its_operands() -> None:
    x, w = whole_numbers(1, 1, 5).astype(np.int16), whole_numbers(1, 1, 2)
    assert tx.conv1d(x, w.astype(np.int8)).dtype is tx.int16
    assert tx.conv1d(x, w.astype(np.float32)).dtype is tx.float32
    assert (
        tx.conv1d(x, w.astype(np.int8), np.asarray([0.5])).tolist()
        == (reference_convolution(x, w, None, (1,), [(0, 0)], (1,), 1) + 0.5).tolist()
    )
    assert tx.conv1d(x > 0, w).dtype is tx.int64


# --- how operands lie, and when they are read -------------------------------------------------------------------------

LAYOUTS: dict[str, Callable[[Array], tuple[Any, Array]]] = {
    "transposed": lambda a: (tx.asarray(a).permute(0, 1, 3, 2), a.transpose(0, 1, 3, 2)),
    "channels last": lambda a: (tx.asarray(a).permute(0, 3, 1, 2), a.transpose(0, 3, 1, 2)),
    "backwards": lambda a: (tx.asarray(a)[:, :, ::-1, ::-1], a[:, :, ::-1, ::-1]),
    "a slice": lambda a: (tx.asarray(a)[:, :, 1:, ::2], a[:, :, 1:, ::2]),
    "broadcast": lambda a: (tx.asarray(a)[:, :1].expand(-1, 4, -1, -1), np.broadcast_to(a[:, :1], (a.shape[0], 4, *a.shape[2:]))),
    "gathered": lambda a: (tx.asarray(a).oindex[:, [2, 0, 0, 1]], a[:, [2, 0, 0, 1]]),
    "gathered in space": lambda a: (tx.asarray(a).oindex[:, :, [3, 0, 0, 5]], a[:, :, [3, 0, 0, 5]]),
    "a chain of views": lambda a: (tx.asarray(a).permute(0, 3, 2, 1).reshape(a.shape), a.transpose(0, 3, 2, 1).reshape(a.shape)),
    "pending": lambda a: (tx.asarray(a) * 2 + 1, a * 2 + 1),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("outputs", [2, 8])
def test_convolution_accepts_operands_of_any_layout(layout: str, outputs: int) -> None:
    x, array = LAYOUTS[layout](whole_numbers(2, 4, 7, 12))
    w, kernels = LAYOUTS[layout](whole_numbers(outputs, array.shape[1], 6, array.shape[1]))
    if kernels.shape[1] != array.shape[1]:
        w, kernels = w[:, :1].expand(-1, array.shape[1], -1, -1), np.repeat(kernels[:, :1], array.shape[1], 1)
    w, kernels = w[:, :, :3, :2], kernels[:, :, :3, :2]
    for stride in (1, 2):
        expected = reference_convolution(array, kernels, None, (stride,) * 2, [(0, 0)] * 2, (1, 1), 1)
        assert_same(tx.conv2d(x, w, stride=stride), expected)
    turned = kernels.swapaxes(0, 1)
    expected = reference_transposed(array, turned, None, (2, 1), (1, 0), (0, 0), 1, (1, 1))
    assert_same(tx.conv_transpose2d(x, w.swapaxes(0, 1), stride=(2, 1), padding=(1, 0)), expected)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("outputs", [1, 8])
@pytest.mark.parametrize("share", [True, False])
def test_convolution_ignores_later_writes_to_its_operands(padding: int, outputs: int, share: bool) -> None:
    x, w, bias = whole_numbers(1, 2, 6, 12), whole_numbers(outputs, 2, 3, 3), whole_numbers(outputs)
    operands = [tx.asarray(a.copy(), copy=not share) for a in (x, w, bias)]
    expected = reference_convolution(x, w, bias, (1, 1), [(padding,) * 2] * 2, (1, 1), 1)
    result = tx.conv2d(*operands, padding=padding)
    turned = w.swapaxes(0, 1)
    back = tx.conv_transpose2d(operands[0], operands[1].swapaxes(0, 1), operands[2], stride=2, padding=padding)
    for t in operands:
        t[...] = 1000
    assert_same(result, expected)
    assert_same(back, reference_transposed(x, turned, bias, (2, 2), (padding,) * 2, (0, 0), 1, (1, 1)))
    result[...] = 0
    assert operands[0][0, 0, 0, 0].item() == 1000


def test_bias_and_activation_are_fused_into_the_convolution() -> None:
    x, w, bias = tx.ones((2, 8, 12, 20)).realize(), tx.ones((8, 8, 3, 3)).realize(), tx.ones(8).realize()
    assert kernels_of(tx.maximum(tx.conv2d(x, w, bias), 0.0)) == 1
    assert kernels_of(tx.maximum(tx.conv2d(x, w[:, :1], bias, groups=8), 0.0)) == 1
    assert kernels_of(tx.maximum(tx.conv2d(x, w, bias, stride=2, dilation=2), 0.0)) == 1


@pytest.mark.large
def test_convolution_never_materializes_windows() -> None:
    x, w = tx.ones((4, 16, 64, 64)).realize(), tx.ones((16, 16, 5, 5)).realize()
    tx.conv2d(x, w).realize()
    before = tx.memory(reset_peak=True).in_use
    result = tx.conv2d(x, w).realize()
    assert tx.memory().peak - before < 2 * result.nbytes


# --- errors -----------------------------------------------------------------------------------------------------------

X, W = tx.ones((2, 6, 8, 9)), tx.ones((4, 6, 3, 3))
BACK = tx.ones((6, 4, 3, 3))
ERRORS: dict[str, tuple[Callable[[], Any], type[TenxorError], tuple[str, ...]]] = {
    "too few axes": (lambda: tx.conv2d(X[0, 0], W), ShapeError, ("conv2d", "(8, 9)", "(N, C, H, W)", "(C, H, W)")),
    "too many axes": (lambda: tx.conv1d(X, W[0]), ShapeError, ("conv1d", "(2, 6, 8, 9)", "(N, C, L)")),
    "axes of the weight": (lambda: tx.conv2d(X, W[0]), ShapeError, ("conv2d", "weight", "(6, 3, 3)", "(O, C / groups")),
    "axes of a transposed weight": (
        lambda: tx.conv_transpose2d(X, BACK[0]), ShapeError, ("conv_transpose2d", "weight", "(4, 3, 3)", "(C, O / groups")
    ),
    "channels": (lambda: tx.conv2d(X[:, :5], W), ShapeError, ("conv2d", "5 channels", "axis 1", "(4, 6, 3, 3)", "6")),
    "channels with groups": (
        lambda: tx.conv2d(X, W, groups=2), ShapeError, ("conv2d", "6 channels", "3 in each of 2 groups", "(4, 6, 3, 3)")
    ),
    "channels of a transposed weight": (
        lambda: tx.conv_transpose2d(X[:, :5], BACK), ShapeError, ("conv_transpose2d", "5 channels", "axis 0", "6")
    ),
    "groups that do not divide the channels": (
        lambda: tx.conv2d(X, W, groups=4), ArgumentError, ("conv2d", "4 groups", "6 channels")
    ),
    "groups that do not divide the kernels": (
        lambda: tx.conv2d(X, W[:, :2], groups=3), ArgumentError, ("conv2d", "3 groups", "4 kernels", "(4, 2, 3, 3)")
    ),
    "transposed groups": (lambda: tx.conv_transpose2d(X, BACK, groups=4), ArgumentError, ("4 groups", "6 channels")),
    "no groups": (lambda: tx.conv2d(X, W, groups=0), ArgumentError, ("conv2d", "groups", "0", "1 or more")),
    "the bias": (lambda: tx.conv2d(X, W, tx.ones(6)), ShapeError, ("conv2d", "bias", "(6,)", "(4,)")),
    "a transposed bias": (lambda: tx.conv_transpose2d(X, BACK, tx.ones(6)), ShapeError, ("bias", "(6,)", "(4,)")),
    "a large kernel": (
        lambda: tx.conv2d(X, tx.ones((4, 6, 3, 12)), padding=1), ShapeError, ("conv2d", "axis -1", "9", "11", "12", "padding")
    ),
    "a far reaching kernel": (lambda: tx.conv2d(X, W, dilation=4), ShapeError, ("conv2d", "axis -2", "8", "9", "dilation")),
    "an empty kernel": (lambda: tx.conv2d(X, W[:, :, :0]), ShapeError, ("conv2d", "(4, 6, 0, 3)", "size 0")),
    "a stride of 0": (lambda: tx.conv2d(X, W, stride=(1, 0)), ArgumentError, ("conv2d", "stride (1, 0)", "1 or more")),
    "a dilation of 0": (lambda: tx.conv2d(X, W, dilation=0), ArgumentError, ("conv2d", "dilation 0", "1 or more")),
    "a padding below 0": (lambda: tx.conv2d(X, W, padding=-1), ArgumentError, ("conv2d", "padding -1", "0 or more")),
    "three strides": (lambda: tx.conv2d(X, W, stride=(1, 1, 1)), ArgumentError, ("stride (1, 1, 1)", "3 numbers", "2 spatial axes")),
    "a stride in a word": (lambda: tx.conv2d(X, W, stride="same"), ArgumentError, ("conv2d", "stride", "same")),
    "a stride of a half": (lambda: tx.conv2d(X, W, stride=0.5), ArgumentError, ("conv2d", "stride", "0.5")),
    "another word": (lambda: tx.conv2d(X, W, padding="full"), ArgumentError, ("conv2d", "'full'", "'same'", "'valid'")),
    "same with strides": (lambda: tx.conv2d(X, W, padding="same", stride=2), ArgumentError, ("conv2d", "'same'", "stride must be 1")),
    "output padding": (
        lambda: tx.conv_transpose2d(X, BACK, stride=2, output_padding=2),
        ArgumentError,
        ("conv_transpose2d", "output_padding 2", "axis -2", "stride 2", "dilation 1"),
    ),
    "output padding below 0": (
        lambda: tx.conv_transpose2d(X, BACK, output_padding=-1), ArgumentError, ("output_padding -1", "0 or more")
    ),
    "nothing left": (
        lambda: tx.conv_transpose2d(X[:, :, :1], BACK, padding=2), ShapeError, ("conv_transpose2d", "axis -2", "padding 2")
    ),
    "bool": (lambda: tx.conv2d(X > 0, W > 0), DTypeError, ("conv2d", "bool")),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_convolution_rejects_invalid_arguments(case: str) -> None:
    check_refused(*ERRORS[case])
