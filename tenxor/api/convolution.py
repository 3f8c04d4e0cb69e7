"""Convolutions: the view of all windows of a tensor, contracted with a weight. The windows are never stored."""

from __future__ import annotations

from itertools import product
from math import gcd, prod
from typing import Any

from .._utils.records import NamedTuple
from ..dtypes import DType, float32, promote
from ..errors import ArgumentError, DTypeError, ShapeError, describe_value
from ..layout import Layout
from ..lowering.match_contraction import is_ragged
from ..tensor import Tensor
from ..tensor.contraction import contract_over_loops, contraction_dtype, widen
from .creation import asarray, empty
from .padding import pad
from .sliding_windows import (
    Ints,
    Sizes,
    add_batch_axis,
    count_windows,
    define_for_spatial_axes,
    pad_for_windows,
    parse_per_axis,
    window_extents,
    window_layout,
)

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

MIN_BATCHED_KERNELS = 4  # kernels in a group from which the images of a batch are computed together


def _convolve(
    op: str,
    spatial_ndim: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """Return the convolution of `x` with `weight` over `spatial_ndim` axes, as a new tensor.

    This is the body of `conv1d`, `conv2d` and `conv3d`; `op` is the name. The further parameters are those of `conv2d`.
    """
    x, weight, bias = asarray(x), asarray(weight), None if bias is None else asarray(bias)
    dtype = _operand_dtype(op, x, weight, bias)
    strides, dilations = parse_per_axis(op, "stride", stride, spatial_ndim, 1), parse_per_axis(op, "dilation", dilation, spatial_ndim, 1)
    batch = add_batch_axis(op, x, spatial_ndim)
    groups = _check_groups(op, groups, batch, weight, spatial_ndim)
    if weight.shape[1] * groups != batch.shape[1]:
        raise ShapeError(
            f"{op}: x of shape {x.shape} has {batch.shape[1]} channels, {batch.shape[1] // groups} in each of {groups} groups,"
            f" but axis 1 of the weight of shape {weight.shape} has {weight.shape[1]}; they must be equal"
        )
    if weight.shape[0] % groups:
        raise ArgumentError(
            f"{op}: {groups} groups do not divide the {weight.shape[0]} kernels of the weight of shape {weight.shape};"
            " use a divisor of both"
        )
    _check_bias(op, bias, weight.shape[0])
    kernel = weight.shape[2:]
    extent = window_extents(kernel, dilations)
    pad_before, pad_after = _pad_counts(op, padding, extent, strides)
    counts = count_windows(op, x, pad_before, pad_after, extent, strides)
    batch = pad_for_windows(batch, counts, pad_before, extent, strides, 0)
    grouped_weight = weight.unflatten(0, (groups, weight.shape[0] // groups))
    result = _contract_windows(batch, grouped_weight, bias, strides, dilations, dtype)
    return result if x.ndim == spatial_ndim + 2 else result.squeeze(0)


@define_for_spatial_axes(1, _convolve)
def conv1d() -> None:
    """Return the sum of products of each window along the last axis of `x` with each kernel of `weight`, as a new tensor.

    Parameters
    ----------
    x : Tensor
        (N, C, L), or (C, L) without a batch.
    weight : Tensor
        (O, C / groups, K).
    bias : Tensor, optional
        (O,), added to the result.
    stride, padding, dilation, groups
        As in `conv2d`, for one axis.

    Returns
    -------
    Tensor
        New tensor ([N,] O, L'), as in `conv2d`.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        As in `conv2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> signal = tx.asarray([[1, 4, 9, 16, 25]])
    >>> tx.conv1d(signal, tx.asarray([[[-1, 1]]])).tolist()
    [[3, 5, 7, 9]]
    """


@define_for_spatial_axes(2, _convolve)
def conv2d() -> None:
    """Return the sum of products of each window over the last two axes of `x` with each kernel of `weight`, as a new tensor.

    Parameters
    ----------
    x : Tensor
        (N, C, H, W), or (C, H, W) without a batch.
    weight : Tensor
        (O, C / groups, KH, KW). As usual in deep learning, kernels are not reversed.
    bias : Tensor, optional
        (O,), added to the result.
    stride : int or Sequence[int], default 1
        Distance of the windows in elements: one number, or one for each axis.
    padding : int, Sequence[int] or str, default 0
        Number of zeros to add on both sides, "valid" for none, or "same" for a result as large as `x`, which needs stride 1.
    dilation : int or Sequence[int], default 1
        Distance of the elements within a window.
    groups : int, default 1
        Number of groups into which channels and kernels are divided. The kernels of a group see only the channels of that group.

    Returns
    -------
    Tensor
        New tensor ([N,] O, H', W') of the dtype to which the operands promote. Integers are summed modulo 2 to the power of their width,
        float16 and bfloat16 in float32.

    Raises
    ------
    ShapeError
        If shapes do not fit.
    ArgumentError
        If other arguments are out of range.
    DTypeError
        If the dtype of `x` and `weight` is bool, or if dtypes do not promote.

    References
    ----------
    V. Dumoulin, F. Visin: A guide to convolution arithmetic for deep learning, 2016 (arXiv:1603.07285).

    Examples
    --------
    >>> import tenxor as tx
    >>> image = tx.arange(16).reshape(1, 4, 4)
    >>> tx.conv2d(image, tx.ones((1, 1, 2, 2), dtype=tx.int64), stride=2).tolist()
    [[[10, 18], [42, 50]]]
    """


@define_for_spatial_axes(3, _convolve)
def conv3d() -> None:
    """Return the sum of products of each window over the last three axes of `x` with each kernel of `weight`, as a new tensor.

    Parameters
    ----------
    x : Tensor
        (N, C, D, H, W), or (C, D, H, W) without a batch.
    weight : Tensor
        (O, C / groups, KD, KH, KW).
    bias : Tensor, optional
        (O,), added to the result.
    stride, padding, dilation, groups
        As in `conv2d`, for three axes.

    Returns
    -------
    Tensor
        New tensor ([N,] O, D', H', W'), as in `conv2d`.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        As in `conv2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.conv3d(tx.ones((1, 3, 3, 3)), tx.ones((2, 1, 2, 2, 2)), padding=1).shape
    (2, 4, 4, 4)
    """


def _convolve_transposed(
    op: str,
    spatial_ndim: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """Return the transposed convolution of `x` with `weight` over `spatial_ndim` axes, as a new tensor.

    This is the body of `conv_transpose1d` to `conv_transpose3d`; `op` is the name. The further parameters are those of `conv_transpose2d`.
    """
    x, weight, bias = asarray(x), asarray(weight), None if bias is None else asarray(bias)
    dtype = _operand_dtype(op, x, weight, bias)
    strides, dilations = parse_per_axis(op, "stride", stride, spatial_ndim, 1), parse_per_axis(op, "dilation", dilation, spatial_ndim, 1)
    cut, output_pads = (
        parse_per_axis(op, "padding", padding, spatial_ndim, 0),
        parse_per_axis(op, "output_padding", output_padding, spatial_ndim, 0),
    )
    for axis, (m, s, d) in enumerate(zip(output_pads, strides, dilations, strict=True)):
        if m >= max(s, d):
            raise ArgumentError(
                f"{op}: output_padding {m} of axis {axis - spatial_ndim} must be smaller than its stride {s} or its dilation {d}"
            )
    batch = add_batch_axis(op, x, spatial_ndim)
    groups = _check_groups(op, groups, batch, weight, spatial_ndim)
    if weight.shape[0] != batch.shape[1]:
        raise ShapeError(
            f"{op}: x of shape {x.shape} has {batch.shape[1]} channels, but axis 0 of the weight of shape {weight.shape} has"
            f" {weight.shape[0]}; they must be equal"
        )
    _check_bias(op, bias, groups * weight.shape[1])
    sizes = _transposed_sizes(op, batch, window_extents(weight.shape[2:], dilations), strides, cut, output_pads)
    axes = zip(batch.shape[2:], weight.shape[2:], sizes, strides, cut, dilations, strict=True)
    phases = [_split_phases(*axis_values) for axis_values in axes]
    swapped_weight = weight.unflatten(0, (groups, weight.shape[0] // groups)).swapaxes(1, 2)
    result = _run_phases(op, batch, swapped_weight, bias, phases, sizes, dtype)
    return result if x.ndim == spatial_ndim + 2 else result.squeeze(0)


@define_for_spatial_axes(1, _convolve_transposed)
def conv_transpose1d() -> None:
    """Return a new tensor: each kernel times each element of `x`, placed `stride` apart, and summed where they overlap.

    Parameters
    ----------
    x : Tensor
        (N, C, L), or (C, L) without a batch.
    weight : Tensor
        (C, O / groups, K).
    bias : Tensor, optional
        (O,), added to the result.
    stride, padding, output_padding, groups, dilation
        As in `conv_transpose2d`, for one axis.

    Returns
    -------
    Tensor
        New tensor ([N,] O, L'), as in `conv_transpose2d`.

    Raises
    ------
    ArgumentError, DTypeError, ShapeError
        As in `conv_transpose2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.conv_transpose1d(tx.asarray([[1, 10]]), tx.asarray([[[1, 2, 3]]]), stride=2).tolist()
    [[1, 2, 13, 20, 30]]
    """


@define_for_spatial_axes(2, _convolve_transposed)
def conv_transpose2d() -> None:
    """Return a new tensor: each kernel times each element of `x`, placed `stride` apart, and summed where they overlap.

    Parameters
    ----------
    x : Tensor
        (N, C, H, W), or (C, H, W) without a batch.
    weight : Tensor
        (C, O / groups, KH, KW).
    bias : Tensor, optional
        (O,), added to the result.
    stride : int or Sequence[int], default 1
        Distance in the result, in elements, between the products of neighbouring elements: one number, or one for each axis.
    padding : int or Sequence[int], default 0
        Number of elements cut off on both sides of each axis of the result.
    output_padding : int or Sequence[int], default 0
        Number of elements added at the end of each axis of the result, smaller than `stride` or `dilation`.
    groups : int, default 1
        Number of groups into which the channels of `x` and of the result are divided.
    dilation : int or Sequence[int], default 1
        Distance of the elements of a kernel in the result.

    Returns
    -------
    Tensor
        New tensor ([N,] O, H', W'), where H' = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding + 1. Dtypes promote as
        in `conv2d`.

    Raises
    ------
    ArgumentError, DTypeError, ShapeError
        As in `conv2d`, and ArgumentError for an `output_padding` too large.

    Notes
    -----
    The function maps the shape of a result of `conv2d` back to the shape of its argument, and is the adjoint of that convolution.

    References
    ----------
    V. Dumoulin, F. Visin: A guide to convolution arithmetic for deep learning, 2016 (arXiv:1603.07285).

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.conv_transpose2d(tx.asarray([[[1, 2]]]), tx.ones((1, 1, 2, 2), dtype=tx.int64)).tolist()
    [[[1, 3, 2], [1, 3, 2]]]
    """


@define_for_spatial_axes(3, _convolve_transposed)
def conv_transpose3d() -> None:
    """Return a new tensor: each kernel times each element of `x`, placed `stride` apart, and summed where they overlap.

    Parameters
    ----------
    x : Tensor
        (N, C, D, H, W), or (C, D, H, W) without a batch.
    weight : Tensor
        (C, O / groups, KD, KH, KW).
    bias : Tensor, optional
        (O,), added to the result.
    stride, padding, output_padding, groups, dilation
        As in `conv_transpose2d`, for three axes.

    Returns
    -------
    Tensor
        New tensor ([N,] O, D', H', W'), as in `conv_transpose2d`.

    Raises
    ------
    ArgumentError, DTypeError, ShapeError
        As in `conv_transpose2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.conv_transpose3d(tx.ones((1, 2, 2, 2)), tx.ones((1, 4, 2, 2, 2)), stride=2).shape
    (4, 4, 4, 4)
    """


# --- how --------------------------------------------------------------------------------------------------------------


def _contract_windows(x: Any, weight: Any, bias: Any, stride: Sizes, dilation: Sizes, dtype: DType) -> Tensor:
    """Return the windows of `x` (batch, channels, *space) contracted with a weight (groups, kernels, channels, *kernel), plus the bias.

    `stride` and `dilation` have a number for each spatial axis. `bias` is None, or has a number for each kernel of each group. `x` must be
    padded already. The result is (batch, groups * kernels, *windows), of dtype `dtype`.
    """
    space = len(stride)
    groups, outputs, channels, *kernel = weight.shape
    x, weight = widen(x, dtype), widen(weight, dtype)
    windows = x._view(window_layout(x.layout, tuple(kernel), stride, dilation)).unflatten(1, (groups, channels))
    kernel_axes = range(3 + space, 3 + 2 * space)
    windows = windows.permute(0, 1, *range(3, 3 + space), 2, *kernel_axes).expand_dims(2)
    shape = (*windows.shape[:2], outputs, *windows.shape[3:])
    left = weight.layout.expand_dims((0, *range(3, 3 + space))).expand(shape)
    total = _sum_products(weight, x, left, windows.layout.expand(shape), space)
    result = total.reshape(total.shape[0], groups * outputs, *total.shape[3:])
    if bias is not None:
        result = result + widen(bias, dtype).reshape(-1, *(1,) * space)
    narrow_result: Tensor = result.astype(dtype, copy=False)
    return narrow_result


def _sum_products(weight: Any, x: Any, left: Layout, right: Layout, spatial_ndim: int) -> Any:
    """Return the sums of products of `weight` and `x` as a tensor (batch, groups, kernels, *space) with `spatial_ndim` axes of space.

    `weight` is read through the layout `left` and `x` through `right`, both with the axes of the result, then the axes to sum over. If a
    kernel has few results on an image, the loops over images and space run next to each other: more results then fill the lanes.
    """
    images, kernels, image_results = left.shape[0], left.shape[2], prod(left.shape[3 : 3 + spatial_ndim])
    if images == 1 or kernels < MIN_BATCHED_KERNELS or not is_ragged(image_results, float32.itemsize):
        return contract_over_loops(weight, x, (left, right, 3 + spatial_ndim), x.dtype)
    order = (1, 2, 0, *range(3, left.ndim))
    total = contract_over_loops(weight, x, (left.permute(order), right.permute(order), 3 + spatial_ndim), x.dtype)
    return total.permute(2, 0, 1, *range(3, total.ndim))


# --- transposed -------------------------------------------------------------------------------------------------------


class _Phase(NamedTuple):
    """Every `stride`-th element of a transposed convolution's result along one axis, from one of the first `stride` elements on.

    These elements, at `result_slice`, use the same taps of the kernel, so they form an ordinary convolution with these taps. `taps` is the
    slice of the kernel, in reverse order, or None if no tap reaches the elements. `dilation` is the distance of the taps in `x`. The
    convolution reads `extent` elements of `x` from `window_start` on, which may lie outside of `x`, where zeros are read.
    """

    result_slice: slice  # positions in the result
    taps: slice | None  # taps of the kernel, last first; None if there are none
    dilation: int
    window_start: int  # index in `x` of the first element's window, perhaps negative
    extent: int  # number of elements of `x` that the windows span together


def _split_phases(size: int, kernel: int, result: int, stride: int, cut: int, dilation: int) -> list[_Phase]:
    """Return the phases along one axis: the elements of the result with equal position modulo `stride`.

    Element `i` of `x` times tap `t` of the kernel is added at `i * stride + t * dilation - cut`. The axis has `size` elements in `x`,
    `kernel` taps and `result` elements in the result.
    """
    common = gcd(stride, dilation)
    tap_step, step = stride // common, dilation // common
    phases = []
    for start in range(min(stride, result)):
        into = slice(start, None, stride)
        first_tap = next((t for t in range(min(tap_step, kernel)) if (start + cut - t * dilation) % stride == 0), None)
        if first_tap is None:
            phases.append(_Phase(into, None, 1, 0, 0))
            continue
        further_taps = (kernel - 1 - first_tap) // tap_step  # further taps after the first
        count = -((start - result) // stride)
        window_start = (start + cut - first_tap * dilation) // stride - further_taps * step
        phases.append(
            _Phase(into, slice(first_tap + further_taps * tap_step, None, -tap_step), step, window_start, count + further_taps * step)
        )
    return phases


def _run_phases(op: str, x: Any, weight: Any, bias: Any, phases: list[list[_Phase]], sizes: Sizes, dtype: DType) -> Tensor:
    """Return a transposed convolution of `x` (batch, channels, *space), computed phase by phase, as a new tensor of `dtype`.

    `weight` is (groups, kernels, channels, *kernel). `phases` has the phases of each spatial axis, and `sizes` the sizes of the result
    along the spatial axes. `bias` is None, or has a number for each channel of the result. Positions without a tap get the bias alone.
    Messages begin with `op`.
    """
    pad_before = [max(0, *(-p.window_start for p in axis_phases)) for axis_phases in phases]
    pad_after = [max(0, *(p.window_start + p.extent - n for p in axis_phases)) for n, axis_phases in zip(x.shape[2:], phases, strict=True)]
    if any(pad_before) or any(pad_after):
        x = pad(x, [(0, 0), (0, 0), *zip(pad_before, pad_after, strict=True)])
    bias_only = 0 if bias is None else bias.reshape(-1, *(1,) * len(sizes))

    def compute_phase(combination: tuple[_Phase, ...]) -> Tensor:
        windows = [slice(p.window_start + b, p.window_start + b + p.extent) for p, b in zip(combination, pad_before, strict=True)]
        used_taps = weight[(..., *(p.taps for p in combination))]
        return _contract_windows(
            x[(..., *windows)], used_taps, bias, (1,) * len(combination), tuple([p.dilation for p in combination]), dtype
        )

    combinations = list(product(*phases))
    with_taps = [combination for combination in combinations if all(p.taps is not None for p in combination)]
    if len(with_taps) == len(combinations) == 1:
        return compute_phase(with_taps[0])
    result = empty((x.shape[0], weight.shape[0] * weight.shape[1], *sizes), dtype=dtype)
    for combination in combinations:
        result[(..., *(p.result_slice for p in combination))]._write(
            compute_phase(combination) if combination in with_taps else bias_only, op
        )
    return result


# --- what arguments must be -------------------------------------------------------------------------------------------


def _operand_dtype(op: str, x: Tensor, weight: Tensor, bias: Tensor | None) -> DType:
    """Return the dtype to which `x`, `weight` and `bias` (unless None) promote.

    Raise DTypeError, beginning with `op`, if they do not promote, or if `x` and `weight` promote to bool.
    """
    dtype = contraction_dtype(op, x, weight)
    if dtype.kind == "bool":
        raise DTypeError(f"{op}: x and the weight are bool; one of them must have numbers; use x.astype(tx.int64)")
    return dtype if bias is None else promote(dtype, bias.dtype, op)


def _check_groups(op: str, groups: int, x: Tensor, weight: Tensor, spatial_ndim: int) -> int:
    """Return `groups` as a valid integer of 1 or more. Messages begin with `op`.

    Raise ShapeError unless `weight` has `spatial_ndim` + 2 axes and a kernel without size 0. Raise ArgumentError if `groups` does not
    divide the channels of `x`, axis 1.
    """
    (groups,) = parse_per_axis(op, "groups", groups, 1, 1)
    if weight.ndim != spatial_ndim + 2:
        kernel = ", ".join(f"K{axis}" if spatial_ndim > 1 else "K" for axis in "DHW"[-spatial_ndim:])
        axes = f"(C, O / groups, {kernel})" if "transpose" in op else f"(O, C / groups, {kernel})"
        raise ShapeError(f"{op}: the weight has shape {weight.shape}; it must be {axes}")
    if 0 in weight.shape[2:]:
        raise ShapeError(f"{op}: the weight of shape {weight.shape} has a kernel of size 0; it must be 1 or more")
    if x.shape[1] % groups:
        raise ArgumentError(f"{op}: {groups} groups do not divide the {x.shape[1]} channels of x; use a divisor")
    return groups


def _check_bias(op: str, bias: Tensor | None, outputs: int) -> None:
    """Raise ShapeError unless `bias` is None or has shape (outputs,), with a number for each channel of the result."""
    if bias is not None and bias.shape != (outputs,):
        raise ShapeError(f"{op}: the bias has shape {bias.shape}; with {outputs} channels in the result it must be ({outputs},)")


def _pad_counts(op: str, padding: Ints | str, extent: Sizes, stride: Sizes) -> tuple[Sizes, Sizes]:
    """Return two tuples with the number of zeros to add before and after the elements along each spatial axis.

    `padding` is a number, a number for each axis, "same" or "valid". `extent` are the sizes of the dilated kernel. Raise ArgumentError,
    which begins with `op`, for another `padding`, and for a `stride` above 1 with "same".
    """
    if not isinstance(padding, str):
        both = parse_per_axis(op, "padding", padding, len(extent), 0)
        return both, both
    if padding == "valid":
        return (0,) * len(extent), (0,) * len(extent)
    if padding != "same":
        raise ArgumentError(f"{op}: padding must be a number, one for each axis, 'same' or 'valid', not {describe_value(padding)}")
    if max(stride) > 1:
        raise ArgumentError(f"{op}: padding is 'same' and stride {stride}; with 'same' stride must be 1; give the padding in numbers")
    pad_before = tuple([(r - 1) // 2 for r in extent])
    return pad_before, tuple([r - 1 - b for r, b in zip(extent, pad_before, strict=True)])


def _transposed_sizes(op: str, x: Tensor, extent: Sizes, stride: Sizes, cut: Sizes, output_pads: Sizes) -> Sizes:
    """Return the sizes of a transposed convolution's result along the spatial axes of `x`. Raise ShapeError for an empty result.

    The arguments have a number for each spatial axis: `extent` the size of the dilated kernel, `stride` the distance of products in the
    result, `cut` the elements removed at each end, `output_pads` the elements added at the end. Messages begin with `op`.
    """
    sizes = []
    for axis, (n, r, s, c, m) in enumerate(zip(x.shape[2:], extent, stride, cut, output_pads, strict=True)):
        size = (n - 1) * s + r - 2 * c + m
        if n == 0 or size < 1:
            raise ShapeError(
                f"{op}: axis {axis - len(extent)} of x has {n} elements, and with padding {c} the result would have {max(size, 0)};"
                " give more elements or less padding"
            )
        sizes.append(size)
    return tuple(sizes)
