"""More of NumPy's functions without a Tenxor function of the same name: along axes, differences, and indexing. They extend
`NUMPY_FUNCTIONS`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..errors import ArgumentError, BadIndex, IndexOutOfRange, ShapeError
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice, normalize_axes, normalize_axis, parse_ints
from .creation import asarray
from .numpy_functions import NUMPY_FUNCTIONS, convolve, mask_numbers

__all__ = ["NUMPY_FUNCTIONS"]

tx: Any = sys.modules["tenxor"]


def _register(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register `function`, an implementation, in `NUMPY_FUNCTIONS` under its own name, and return `function`."""
    NUMPY_FUNCTIONS[function.__name__] = function
    return function


# --- along axes -------------------------------------------------------------------------------------------------------


@_register
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Return `func1d` of each row of `arr` along `axis`, as a new tensor with the axes of a result in place of `axis`.

    The function also gets `args` and `kwargs`. Raise ArgumentError if there are no rows.
    """
    arr = asarray(arr)
    axis = normalize_axis("np.apply_along_axis", axis, arr.ndim)
    rows = arr.moveaxis(axis, -1)
    outer = rows.shape[:-1]
    if prod(outer) == 0:
        raise ArgumentError(f"np.apply_along_axis: shape {arr.shape} has no row along axis {axis} to apply the function to")
    stacked = tx.stack([asarray(func1d(row, *args, **kwargs)) for row in rows.reshape(prod(outer), rows.shape[-1])])
    inner = stacked.shape[1:]
    result: Tensor = stacked.reshape(*outer, *inner)
    return result.moveaxis(tuple(range(len(outer), result.ndim)), tuple(range(axis, axis + len(inner))))


@_register
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Tensor:
    """Return `a` after `func(a, axis)` for each of `axes` in turn. An axis removed by `func` is put back with size 1."""
    reduced: Tensor = asarray(a)
    for axis in normalize_axes("np.apply_over_axes", axes, reduced.ndim):
        result = asarray(func(reduced, axis))
        reduced = result if result.ndim == reduced.ndim else result.expand_dims(axis)
    return reduced


def _sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> Tensor:
    """Return a view of all windows of `x`, with sizes `window_shape` along `axis` (None: all axes), the elements as new last axes.

    `subok` and `writeable` are ignored. Raise ShapeError if the numbers of sizes and axes differ.
    """
    view: Tensor = asarray(x)
    sizes = parse_ints("np.sliding_window_view", "window_shape", (window_shape,))
    axes = (
        range(view.ndim)
        if axis is None
        else [normalize_axis("np.sliding_window_view", k, view.ndim) for k in parse_ints("np.sliding_window_view", "axis", (axis,))]
    )
    if len(sizes) != len(axes):
        raise ShapeError(f"np.sliding_window_view: {len(sizes)} window sizes for {len(axes)} axes; give one for each")
    for k, size in zip(axes, sizes, strict=True):
        view = view.windows(k, size)
    return view


NUMPY_FUNCTIONS["lib.stride_tricks.sliding_window_view"] = _sliding_window_view


# --- differences ------------------------------------------------------------------------------------------------------


@_register
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """Return the differences of neighbours in the flattened `ary`, after `to_begin` and before `to_end` unless None, as a new tensor."""
    ary = asarray(ary).ravel()
    segments = [tx.diff(ary), *[asarray(x, dtype=ary.dtype).ravel() for x in (to_end,) if x is not None]]
    if to_begin is not None:
        segments.insert(0, asarray(to_begin, dtype=ary.dtype).ravel())
    differences: Tensor = tx.concat(segments)
    return differences


@_register
def unwrap(p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * tx.pi) -> Tensor:
    """Return `p` with jumps of half a `period` or more along `axis` replaced by their complement, as a new tensor.

    `discont`, if larger than half a period, is the least jump that is replaced.
    """
    p = tx.moveaxis(asarray(p), axis, -1)
    p = p if p.dtype.is_float or isinstance(period, int) else p.astype(tx.float64)
    half: Any = period / 2 if p.dtype.is_float else period // 2
    jumps = tx.diff(p, axis=-1)
    wrapped_jumps = (jumps + half) % period - half
    if p.dtype.is_float or period % 2 == 0:  # a jump of exactly half a period keeps its sign
        wrapped_jumps = tx.where((wrapped_jumps == -half) & (jumps > 0), half, wrapped_jumps)
    min_jump = half if discont is None else max(discont, half)
    corrections = tx.cumulative_sum(tx.where(abs(jumps) < min_jump, 0, wrapped_jumps - jumps), axis=-1)
    unwrapped: Tensor = tx.concat([p[..., :1], p[..., 1:] + corrections], axis=-1)
    return unwrapped.moveaxis(-1, axis)


@_register
def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    """Return the cross-correlation of two 1-D tensors as a new tensor; `mode` and errors are as in `convolve`."""
    a, v = asarray(a), asarray(v)
    result: Tensor = convolve(a, v.conj().flip(0), mode)
    return result


NUMPY_FUNCTIONS.update(
    nancumprod=lambda a, axis=None, dtype=None: _cumulate_without_nan(tx.cumprod, a, 1, axis, dtype),
    nanmedian=lambda a, axis=None, keepdims=False: _nan_median(asarray(a), axis, keepdims),
    setxor1d=lambda ar1, ar2: tx.sort(tx.concat([NUMPY_FUNCTIONS["setdiff1d"](ar1, ar2), NUMPY_FUNCTIONS["setdiff1d"](ar2, ar1)])),
)


def _nan_median(a: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """Return the median of `a` over `axis` without NaN, or NaN where all is NaN. With `keepdims`, reduced axes stay with size 1."""
    reduced_axes = normalize_axes("np.nanmedian", axis, a.ndim)
    kept_axes = [k for k in range(a.ndim) if k not in reduced_axes]
    dtype = a.dtype if a.dtype.is_float else tx.float64  # a dtype with room for the sum of two elements
    rows = (
        a.astype(dtype.compute_dtype, copy=False)
        .permute(*kept_axes, *reduced_axes)
        .reshape((*[a.shape[k] for k in kept_axes], -1 if a.size else 0))
    )
    rows = tx.concat([tx.sort(rows), tx.full((*rows.shape[:-1], 1), float("nan"), dtype=rows.dtype)], axis=-1)  # no row is empty
    count = mask_numbers(rows).sum(-1, keepdims=True)
    low, high = [tx.take_along_axis(rows, position.clip(0, None), axis=-1) for position in ((count - 1) // 2, count // 2)]
    median: Tensor = tx.where(count == 0, float("nan"), (low + high) / 2)[..., 0].astype(dtype, copy=False)
    return median.expand_dims(reduced_axes) if keepdims else median


def _cumulate_without_nan(cumulate: Callable[..., Any], a: Any, replacement: float, axis: int | None, dtype: object) -> Tensor:
    """Return the cumulative reduction `cumulate` of `a`, cast to `dtype` unless None, along `axis` with NaN replaced by `replacement`.

    None as `axis` flattens `a`.
    """
    a = asarray(a)
    a = tx.where(tx.isnan(a), replacement, a)
    a, axis = (a.ravel(), 0) if axis is None else (a, axis)
    result: Tensor = cumulate(a if dtype is None else a.astype(dtype), axis)
    return result


# --- places -----------------------------------------------------------------------------------------------------------


@_register
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Tensor:
    """Return a view of `filt` without zeros at the front ("f" in `trim`) and at the back ("b") of each axis in `axis` (None: all axes)."""
    trimmed: Tensor = asarray(filt)
    trim = check_choice("np.trim_zeros", "trim", trim.lower(), "f", "b", "fb", "bf")
    for k in normalize_axes("np.trim_zeros", axis, trimmed.ndim):
        nonzero_indices = tx.nonzero((trimmed != 0).any(tuple([j for j in range(trimmed.ndim) if j != k])))[0].tolist()
        start, stop = (nonzero_indices[0], nonzero_indices[-1] + 1) if nonzero_indices else (trimmed.shape[k], trimmed.shape[k])
        key = slice(start if "f" in trim else 0, stop if "b" in trim else None) if nonzero_indices else slice(0, 0)
        trimmed = trimmed[(slice(None),) * k + (key,)]
    return trimmed


@_register
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    """Return a new tensor: `arr` with `values` inserted along `axis` before the positions `obj`. None flattens `arr` first.

    Raise BadIndex for positions that are no integers or bools, and IndexOutOfRange for positions beyond the axis.
    """
    arr = asarray(arr)
    arr, axis = (arr.ravel(), 0) if axis is None else (arr, normalize_axis("np.insert", axis, arr.ndim))
    size = arr.shape[axis]
    is_single = isinstance(obj, int) or getattr(obj, "shape", None) == ()
    if isinstance(obj, slice):
        positions = list(range(*obj.indices(size)))
    else:
        tensor = asarray(obj).ravel()
        if tensor.size and not (tensor.dtype.is_integer or tensor.dtype.kind == "bool"):
            raise BadIndex(f"np.insert: indices must be integers or bools, not {tensor.dtype}")
        positions = (tx.nonzero(tensor)[0] if tensor.dtype.kind == "bool" and not is_single else tensor.astype(tx.int64)).tolist()
    for k in positions:
        if not -size <= k <= size:
            raise IndexOutOfRange(f"np.insert: index {k} is out of range for axis {axis} of size {size} (from {-size} to {size})")
    tensor = asarray(values).astype(arr.dtype, copy=False)
    tensor = tensor.expand_dims(tuple(range(max(0, arr.ndim - tensor.ndim))))
    if is_single:  # for a single index, NumPy inserts along the first axis of the values
        tensor = tensor.moveaxis(0, axis)
        positions = positions * tensor.shape[axis]
    nonnegative = [k + size if k < 0 else k for k in positions]
    order = sorted(range(len(nonnegative)), key=nonnegative.__getitem__)
    target_rows = [nonnegative[j] + rank for rank, j in enumerate(order)]
    shape = [size + len(nonnegative) if k == axis else n for k, n in enumerate(arr.shape)]
    result: Tensor = tx.zeros(shape, dtype=arr.dtype)
    is_old_row = tx.ones(shape[axis], dtype=bool)
    rows = result.moveaxis(axis, 0)
    if nonnegative:
        is_old_row[asarray(target_rows)] = False
        tensor = tensor.expand([len(nonnegative) if k == axis else n for k, n in enumerate(arr.shape)])
        rows[asarray(target_rows)] = tensor.moveaxis(axis, 0)[asarray(order)]
    rows[is_old_row] = arr.moveaxis(axis, 0)
    return result


@_register
def resize(a: Any, new_shape: Any) -> Tensor:
    """Return a new tensor of `new_shape` with the elements of `a` in row-major order, repeated as often as needed.

    Without elements, return zeros. Raise ShapeError for a negative size.
    """
    a = asarray(a).ravel()
    sizes = parse_ints("np.resize", "new_shape", (new_shape,))
    if any(n < 0 for n in sizes):
        raise ShapeError(f"np.resize: shape {sizes} has a negative size; sizes must be 0 or more")
    count = prod(sizes)
    if a.size == 0:
        return tx.zeros(sizes, dtype=a.dtype)  # type: ignore[no-any-return]
    resized: Tensor = tx.tile(a, -(-count // a.size))[:count].reshape(sizes)
    return resized


@_register
def fill_diagonal(a: Tensor, val: Any, wrap: bool = False) -> None:
    """Write `val`, repeated as needed, over the main diagonal of `a`, in place. With `wrap`, it starts again below a tall matrix's end.

    Raise ShapeError for fewer than two axes, and for more than two axes of unequal sizes.
    """
    if a.ndim < 2 or (a.ndim > 2 and len(set(a.shape)) > 1):
        raise ShapeError(f"np.fill_diagonal: shape {a.shape} has no single diagonal; it must have 2 axes, or more axes of equal sizes")
    rows, columns = a.shape[0], a.shape[-1]
    step = sum(prod(a.shape[k:]) for k in range(1, a.ndim)) + 1
    diagonal = a.reshape(-1)[: None if wrap or a.ndim > 2 else min(rows, columns) * columns : step]
    if diagonal.size:
        diagonal[...] = resize(val, diagonal.size)


@_register
def place(arr: Tensor, mask: Any, vals: Any) -> None:
    """Write `vals`, repeated as needed, into the elements of `arr` where `mask` is true, in place. Raise ArgumentError for no values."""
    selected, values = asarray(mask).reshape(arr.shape) != 0, asarray(vals).ravel()
    if values.size == 1:  # the number of selected elements does not matter
        arr[selected] = values[0]
        return
    count = int(selected.count_nonzero())
    if count and not values.size:
        raise ArgumentError(f"np.place: there are no values for {count} elements; give at least one")
    if count:
        arr[selected] = resize(values, count)


@_register
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Tensor:
    """Return a new tensor: for each element of `x` the result of the last function in `funclist` whose condition holds, otherwise 0.

    A function gets the elements as a 1-D tensor, `args` and `kw`; a number stands for a constant. One more function than there are
    conditions is for the elements where none holds. Raise ArgumentError for another number of functions.
    """
    x = asarray(x)
    conditions = asarray(condlist)
    rows = [conditions] if conditions.ndim == x.ndim and conditions.shape == x.shape else list(conditions)
    rows = [row.expand(x.shape) != 0 for row in rows]
    if len(funclist) not in (len(rows), len(rows) + 1):
        raise ArgumentError(f"np.piecewise: {len(rows)} conditions take {len(rows)} functions, or one more, not {len(funclist)}")
    result: Tensor = tx.zeros_like(x)
    if len(funclist) > len(rows):
        uncovered = ~tx.any(tx.stack(rows), axis=0)
        rows.append(uncovered)
    for row, function in zip(rows, funclist, strict=True):
        result[row] = function(x[row], *args, **kw) if callable(function) else function
    return result


@_register
def diag_indices_from(arr: Any) -> tuple[Tensor, ...]:
    """Return the indices of the main diagonal of `arr`, one 1-D tensor for each axis. Raise ShapeError unless all sizes are equal."""
    shape = asarray(arr).shape
    if len(shape) < 2 or len(set(shape)) > 1:
        raise ShapeError(f"np.diag_indices_from: shape {shape} has no single diagonal; it must have at least 2 axes, all of equal size")
    return (tx.arange(shape[0]),) * len(shape)


def _matrix_shape(op: str, arr: Any) -> tuple[int, ...]:
    """Return the shape of the matrix `arr`. Raise ShapeError, beginning with `op`, for another number of axes than two."""
    shape = asarray(arr).shape
    if len(shape) != 2:
        raise ShapeError(f"{op}: an array of shape {shape} is no matrix; it must have 2 axes")
    return shape


def _as_choice_indices(a: Tensor) -> Tensor:
    """Return `a`, indices of choices, as integers: False selects the first, True the second."""
    return a.astype(tx.int64) if a.dtype is tx.bool else a


@_register
def choose(a: Any, choices: Any, mode: str = "raise") -> Tensor:
    """Return a new tensor: for each element of `a`, an index of a choice, the element of that choice at the same position.

    `mode` says whether an index out of range raises IndexOutOfRange ("raise"), wraps around, or is clipped.
    """
    options = [asarray(c) for c in choices]
    a, *options = tx.broadcast_arrays(_as_choice_indices(asarray(a)), *options)
    count = len(options)
    mode = check_choice("np.choose", "mode", mode, "raise", "wrap", "clip")
    if mode == "raise":
        if a.size and (int(a.min()) < 0 or int(a.max()) >= count):
            raise IndexOutOfRange(
                f"np.choose: an index is out of range for {count} choices; it must be from 0 to {count - 1}; mode='wrap' and 'clip' accept"
                " others"
            )
    else:
        a = a % count if mode == "wrap" else a.clip(0, count - 1)
    result: Tensor = tx.stack(options)[(a, *tx.meshgrid(*[tx.arange(n) for n in a.shape], indexing="ij"))]
    return result


@_register
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Tensor, ...]:
    """Return the coordinates of the flat `indices` in a tensor of `shape`, a tensor for each axis. `order` is "C" or "F".

    Raise IndexOutOfRange for an index out of range.
    """
    indices, sizes = asarray(indices), parse_ints("np.unravel_index", "shape", (shape,))
    by_columns = check_choice("np.unravel_index", "order", order, "C", "F") == "F"
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= prod(sizes)):
        raise IndexOutOfRange(f"np.unravel_index: an index is out of range for shape {sizes}; it must be from 0 to {prod(sizes) - 1}")
    coordinates = []
    for n in sizes if by_columns else sizes[::-1]:
        coordinates.append(indices % n)
        indices = indices // n
    return tuple(coordinates if by_columns else coordinates[::-1])


@_register
def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Tensor:
    """Return the flat indices of the coordinates `multi_index`, a tensor for each axis, in a tensor of shape `dims`.

    `mode` says whether a coordinate out of range raises IndexOutOfRange ("raise"), wraps around, or is clipped; `order` is "C" or "F".
    """
    sizes = parse_ints("np.ravel_multi_index", "dims", (dims,))
    coordinates = [asarray(x) for x in multi_index]
    if len(coordinates) != len(sizes):
        raise ShapeError(f"np.ravel_multi_index: {len(coordinates)} indices for shape {sizes}; give one for each axis")
    mode = check_choice("np.ravel_multi_index", "mode", mode, "raise", "wrap", "clip")
    total: Any = 0
    axes = list(enumerate(zip(coordinates, sizes, strict=True)))
    for k, (coordinate, n) in axes[::-1] if check_choice("np.ravel_multi_index", "order", order, "C", "F") == "F" else axes:
        if mode == "raise" and coordinate.size and (int(coordinate.min()) < 0 or int(coordinate.max()) >= n):
            raise IndexOutOfRange(f"np.ravel_multi_index: an index of axis {k} is out of range for size {n}; it must be from 0 to {n - 1}")
        total = total * n + (coordinate if mode == "raise" else coordinate % n if mode == "wrap" else coordinate.clip(0, n - 1))
    flat_index: Tensor = total
    return flat_index


NUMPY_FUNCTIONS.update(
    tril_indices_from=lambda arr, k=0: tx.nonzero(tx.tril(tx.ones(_matrix_shape("np.tril_indices_from", arr), dtype=bool), k=k)),
    triu_indices_from=lambda arr, k=0: tx.nonzero(tx.triu(tx.ones(_matrix_shape("np.triu_indices_from", arr), dtype=bool), k=k)),
    ix_=lambda *args: tuple(
        [
            (tx.nonzero(x)[0] if x.dtype.kind == "bool" else x).expand_dims(tuple([j for j in range(len(args)) if j != k]))
            for k, x in enumerate([asarray(a) for a in args])
        ]
    ),
)
