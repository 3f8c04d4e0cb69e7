"""More of NumPy's functions without a Tenxor function of the same name: along axes, differences, and indexing. They extend `FUNCTIONS`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..creation import asarray
from ..errors import ArgumentError, BadIndex, IndexOutOfRange, ShapeError
from ..tensor import Tensor
from ..tensor.arguments import axes_of, axis_of, ints, one_of
from .numpys import FUNCTIONS, convolve, is_number

__all__ = ["FUNCTIONS"]

tx: Any = sys.modules["tenxor"]


def _numpys(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register an implementation in `FUNCTIONS` under its own name."""
    FUNCTIONS[function.__name__] = function
    return function


# --- along axes -------------------------------------------------------------------------------------------------------


@_numpys
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    arr = asarray(arr)
    axis = axis_of("np.apply_along_axis", axis, arr.ndim)
    rows = arr.moveaxis(axis, -1)
    outer = rows.shape[:-1]
    if prod(outer) == 0:
        raise ArgumentError(f"np.apply_along_axis: shape {arr.shape} has no row along axis {axis} to apply the function to")
    found = tx.stack([asarray(func1d(row, *args, **kwargs)) for row in rows.reshape(prod(outer), rows.shape[-1])])
    inner = found.shape[1:]
    parts: Tensor = found.reshape(*outer, *inner)
    return parts.moveaxis(tuple(range(len(outer), parts.ndim)), tuple(range(axis, axis + len(inner))))


@_numpys
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Tensor:
    found: Tensor = asarray(a)
    for axis in axes_of("np.apply_over_axes", axes, found.ndim):
        result = asarray(func(found, axis))
        found = result if result.ndim == found.ndim else result.expand_dims(axis)
    return found


def _sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> Tensor:
    found: Tensor = asarray(x)
    sizes = ints("np.sliding_window_view", (window_shape,))
    axes = range(found.ndim) if axis is None else [axis_of("np.sliding_window_view", k, found.ndim) for k in ints("axis", (axis,))]
    if len(sizes) != len(axes):
        raise ShapeError(f"np.sliding_window_view: {len(sizes)} window sizes for {len(axes)} axes; give one for each")
    for k, size in zip(axes, sizes, strict=True):
        found = found.windows(k, size)
    return found


FUNCTIONS["lib.stride_tricks.sliding_window_view"] = _sliding_window_view


# --- differences ------------------------------------------------------------------------------------------------------


@_numpys
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    ary = asarray(ary).ravel()
    parts = [tx.diff(ary), *[asarray(x, dtype=ary.dtype).ravel() for x in (to_end,) if x is not None]]
    if to_begin is not None:
        parts.insert(0, asarray(to_begin, dtype=ary.dtype).ravel())
    found: Tensor = tx.concat(parts)
    return found


@_numpys
def unwrap(p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * tx.pi) -> Tensor:
    p = tx.moveaxis(asarray(p), axis, -1)
    p = p if p.dtype.is_float or isinstance(period, int) else p.astype(tx.float64)
    half: Any = period / 2 if p.dtype.is_float else period // 2
    jumps = tx.diff(p, axis=-1)
    turned = (jumps + half) % period - half
    if p.dtype.is_float or period % 2 == 0:  # a jump of exactly half a period keeps its sign
        turned = tx.where((turned == -half) & (jumps > 0), half, turned)
    least = half if discont is None else max(discont, half)
    added = tx.cumulative_sum(tx.where(abs(jumps) < least, 0, turned - jumps), axis=-1)
    found: Tensor = tx.concat([p[..., :1], p[..., 1:] + added], axis=-1)
    return found.moveaxis(-1, axis)


@_numpys
def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    a, v = asarray(a), asarray(v)
    found: Tensor = convolve(a, v.conj().flip(0), mode)
    return found


FUNCTIONS.update(
    nancumprod=lambda a, axis=None, dtype=None: _no_nan(tx.cumprod, a, 1, axis, dtype),
    nanmedian=lambda a, axis=None, keepdims=False: _nan_median(asarray(a), axis, keepdims),
    setxor1d=lambda ar1, ar2: (
        tx.sort(tx.concat([FUNCTIONS["setdiff1d"](ar1, ar2), FUNCTIONS["setdiff1d"](ar2, ar1)]))
    ),
)


def _nan_median(a: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """Return the median without NaN, or NaN where all is NaN. Sorting puts NaN last, after the numbers of each row."""
    places = axes_of("np.nanmedian", axis, a.ndim)
    kept = [k for k in range(a.ndim) if k not in places]
    dtype = a.dtype if a.dtype.is_float else tx.float64  # a dtype with room for the sum of two elements
    rows = a.astype(dtype.compute, copy=False).permute(*kept, *places).reshape((*[a.shape[k] for k in kept], -1 if a.size else 0))
    rows = tx.concat([tx.sort(rows), tx.full((*rows.shape[:-1], 1), float("nan"), dtype=rows.dtype)], axis=-1)  # no row is empty
    count = is_number(rows).sum(-1, keepdims=True)
    low, high = [tx.take_along_axis(rows, place.clip(0, None), axis=-1) for place in ((count - 1) // 2, count // 2)]
    found: Tensor = tx.where(count == 0, float("nan"), (low + high) / 2)[..., 0].astype(dtype, copy=False)
    return found.expand_dims(places) if keepdims else found


def _no_nan(running: Callable[..., Any], a: Any, instead: float, axis: int | None, dtype: object) -> Tensor:
    """Apply the cumulative reduction `running` with NaN replaced by `instead`."""
    a = asarray(a)
    a = tx.where(tx.isnan(a), instead, a)
    a, axis = (a.ravel(), 0) if axis is None else (a, axis)
    found: Tensor = running(a if dtype is None else a.astype(dtype), axis)
    return found


# --- places -----------------------------------------------------------------------------------------------------------


@_numpys
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Tensor:
    found: Tensor = asarray(filt)
    trim = one_of("np.trim_zeros", "trim", trim.lower(), "f", "b", "fb", "bf")
    for k in axes_of("np.trim_zeros", axis, found.ndim):
        kept = tx.nonzero((found != 0).any(tuple([j for j in range(found.ndim) if j != k])))[0].tolist()
        first, last = (kept[0], kept[-1] + 1) if kept else (found.shape[k], found.shape[k])
        key = slice(first if "f" in trim else 0, last if "b" in trim else None) if kept else slice(0, 0)
        found = found[(slice(None),) * k + (key,)]
    return found


@_numpys
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    arr = asarray(arr)
    arr, axis = (arr.ravel(), 0) if axis is None else (arr, axis_of("np.insert", axis, arr.ndim))
    size = arr.shape[axis]
    one = isinstance(obj, int) or getattr(obj, "shape", None) == ()
    if isinstance(obj, slice):
        places = list(range(*obj.indices(size)))
    else:
        given = asarray(obj).ravel()
        if given.size and not (given.dtype.is_integer or given.dtype.kind == "bool"):
            raise BadIndex(f"np.insert: indices are integers or bools, not {given.dtype}")
        places = (tx.nonzero(given)[0] if given.dtype.kind == "bool" and not one else given.astype(tx.int64)).tolist()
    for k in places:
        if not -size <= k <= size:
            raise IndexOutOfRange(f"np.insert: index {k} is out of range for axis {axis} of size {size} (from {-size} to {size})")
    given = asarray(values).astype(arr.dtype, copy=False)
    given = given.expand_dims(tuple(range(max(0, arr.ndim - given.ndim))))
    if one:  # for a single index, NumPy inserts along the first axis of the values
        given = given.moveaxis(0, axis)
        places = places * given.shape[axis]
    known = [k + size if k < 0 else k for k in places]
    order = sorted(range(len(known)), key=known.__getitem__)
    taken = [known[j] + before for before, j in enumerate(order)]
    shape = [size + len(known) if k == axis else n for k, n in enumerate(arr.shape)]
    found: Tensor = tx.zeros(shape, dtype=arr.dtype)
    kept = tx.ones(shape[axis], dtype=bool)
    rows = found.moveaxis(axis, 0)
    if known:
        kept[asarray(taken)] = False
        given = given.expand([len(known) if k == axis else n for k, n in enumerate(arr.shape)])
        rows[asarray(taken)] = given.moveaxis(axis, 0)[asarray(order)]
    rows[kept] = arr.moveaxis(axis, 0)
    return found


@_numpys
def resize(a: Any, new_shape: Any) -> Tensor:
    a = asarray(a).ravel()
    sizes = ints("np.resize", (new_shape,))
    if any(n < 0 for n in sizes):
        raise ShapeError(f"np.resize: shape {sizes} has a negative size; sizes are 0 or more")
    count = prod(sizes)
    if a.size == 0:
        return tx.zeros(sizes, dtype=a.dtype)  # type: ignore[no-any-return]
    found: Tensor = tx.tile(a, -(-count // a.size))[:count].reshape(sizes)
    return found


@_numpys
def fill_diagonal(a: Tensor, val: Any, wrap: bool = False) -> None:
    if a.ndim < 2 or (a.ndim > 2 and len(set(a.shape)) > 1):
        raise ShapeError(f"np.fill_diagonal: shape {a.shape} has no one diagonal; a matrix has, and a tensor of equal sides")
    rows, columns = a.shape[0], a.shape[-1]
    step = sum(prod(a.shape[k:]) for k in range(1, a.ndim)) + 1
    part = a.reshape(-1)[: None if wrap or a.ndim > 2 else min(rows, columns) * columns : step]
    if part.size:
        part[...] = resize(val, part.size)


@_numpys
def place(arr: Tensor, mask: Any, vals: Any) -> None:
    chosen, values = asarray(mask).reshape(arr.shape) != 0, asarray(vals).ravel()
    if values.size == 1:  # the number of selected elements does not matter
        arr[chosen] = values[0]
        return
    count = int(chosen.count_nonzero())
    if count and not values.size:
        raise ArgumentError(f"np.place: there are no values for {count} elements; give at least one")
    if count:
        arr[chosen] = resize(values, count)


@_numpys
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Tensor:
    x = asarray(x)
    conditions = asarray(condlist)
    rows = [conditions] if conditions.ndim == x.ndim and conditions.shape == x.shape else list(conditions)
    rows = [row.expand(x.shape) != 0 for row in rows]
    if len(funclist) not in (len(rows), len(rows) + 1):
        raise ArgumentError(f"np.piecewise: {len(rows)} conditions take {len(rows)} functions, or one more, not {len(funclist)}")
    found: Tensor = tx.zeros_like(x)
    if len(funclist) > len(rows):
        rest = ~tx.any(tx.stack(rows), axis=0)
        rows.append(rest)
    for row, function in zip(rows, funclist, strict=True):
        found[row] = function(x[row], *args, **kw) if callable(function) else function
    return found


@_numpys
def diag_indices_from(arr: Any) -> tuple[Tensor, ...]:
    shape = asarray(arr).shape
    if len(shape) < 2 or len(set(shape)) > 1:
        raise ShapeError(f"np.diag_indices_from: shape {shape} has no one diagonal; two axes or more of equal size have")
    return (tx.arange(shape[0]),) * len(shape)


def _sides(op: str, arr: Any) -> tuple[int, ...]:
    """Return the shape of the matrix `arr`. Raise ShapeError for another number of axes."""
    shape = asarray(arr).shape
    if len(shape) != 2:
        raise ShapeError(f"{op}: shape {shape} has {len(shape)} axes, and a matrix has 2")
    return shape


def _counted_from_0(a: Tensor) -> Tensor:
    """Return indices of choices as integers: False selects the first, True the second."""
    return a.astype(tx.int64) if a.dtype is tx.bool else a


@_numpys
def choose(a: Any, choices: Any, mode: str = "raise") -> Tensor:
    options = [asarray(c) for c in choices]
    a, *options = tx.broadcast_arrays(_counted_from_0(asarray(a)), *options)
    count = len(options)
    mode = one_of("np.choose", "mode", mode, "raise", "wrap", "clip")
    if mode == "raise":
        if a.size and (int(a.min()) < 0 or int(a.max()) >= count):
            raise IndexOutOfRange(f"np.choose: there are {count} choices, from 0 to {count - 1}; mode='wrap' and 'clip' take others")
    else:
        a = a % count if mode == "wrap" else a.clip(0, count - 1)
    found: Tensor = tx.stack(options)[(a, *tx.meshgrid(*[tx.arange(n) for n in a.shape], indexing="ij"))]
    return found


@_numpys
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Tensor, ...]:
    indices, sizes = asarray(indices), ints("np.unravel_index", (shape,))
    by_columns = one_of("np.unravel_index", "order", order, "C", "F") == "F"
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= prod(sizes)):
        raise IndexOutOfRange(f"np.unravel_index: shape {sizes} has {prod(sizes)} elements, with numbers from 0 to {prod(sizes) - 1}")
    found = []
    for n in sizes if by_columns else sizes[::-1]:
        found.append(indices % n)
        indices = indices // n
    return tuple(found if by_columns else found[::-1])


@_numpys
def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Tensor:
    sizes = ints("np.ravel_multi_index", (dims,))
    parts = [asarray(x) for x in multi_index]
    if len(parts) != len(sizes):
        raise ShapeError(f"np.ravel_multi_index: {len(parts)} indices for shape {sizes}; give one for each axis")
    mode = one_of("np.ravel_multi_index", "mode", mode, "raise", "wrap", "clip")
    total: Any = 0
    axes = list(enumerate(zip(parts, sizes, strict=True)))
    for k, (part, n) in axes[::-1] if one_of("np.ravel_multi_index", "order", order, "C", "F") == "F" else axes:
        if mode == "raise" and part.size and (int(part.min()) < 0 or int(part.max()) >= n):
            raise IndexOutOfRange(f"np.ravel_multi_index: an index of axis {k} is out of range for size {n}")
        total = total * n + (part if mode == "raise" else part % n if mode == "wrap" else part.clip(0, n - 1))
    found: Tensor = total
    return found


FUNCTIONS.update(
    tril_indices_from=lambda arr, k=0: tx.nonzero(tx.tril(tx.ones(_sides("np.tril_indices_from", arr), dtype=bool), k=k)),
    triu_indices_from=lambda arr, k=0: tx.nonzero(tx.triu(tx.ones(_sides("np.triu_indices_from", arr), dtype=bool), k=k)),
    ix_=lambda *args: tuple(
        [
            (tx.nonzero(x)[0] if x.dtype.kind == "bool" else x).expand_dims(tuple([j for j in range(len(args)) if j != k]))
            for k, x in enumerate([asarray(a) for a in args])
        ]
    ),
)
