"""NumPy's functions without a Tenxor function of the same name, composed from ours: the implementation of `np.nansum(tensor)`.

They take NumPy's arguments, and are not exported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import inf, prod
from typing import Any, TypeVar

import numpy as np

from ..creation import asarray
from ..errors import ArgumentError, AxisError, DerivativeError, DTypeError, ShapeError
from ..tensor import Tensor
from ..tensor.arguments import axes_of, axis_of, one_of
from ..tensor.ufuncs import for_numpy
from .sets import unique_along
from .spacing import between

tx: Any = sys.modules["tenxor"]
FUNCTIONS: dict[str, Callable[..., Any]] = {}
_F = TypeVar("_F", bound=Callable[..., Any])


def _numpys(function: _F) -> _F:
    """Register an implementation in `FUNCTIONS` under its own name."""
    FUNCTIONS[function.__name__] = function
    return function


# --- new tensors ------------------------------------------------------------------------------------------------------


def _like(name: str, a: Any, dtype: Any, shape: Any, *value: Any) -> Tensor:
    """Return `tx.NAME_like(a, ...)`, or if `shape` is not None, a tensor of that shape with `a`'s dtype. `name` is "ones" or another
    creation function.
    """
    a = asarray(a)
    if shape is None:
        found: Tensor = getattr(tx, f"{name}_like")(a, *value, dtype=dtype)
        return found
    found = getattr(tx, name)(shape, *value, dtype=a.dtype if dtype is None else dtype)
    return found


def _full_like(a: Any, value: Any, dtype: Any, shape: Any) -> Tensor:
    """Return a tensor like NumPy's `full_like`. `value` may be an array that broadcasts to the shape."""
    if not getattr(value, "shape", ()) and not isinstance(value, (list, tuple)):
        return _like("full", a, dtype, shape, value)
    found = _like("empty", a, dtype, shape)
    copyto(found, asarray(value).astype(found.dtype))
    return found


FUNCTIONS.update(
    empty_like=lambda prototype, dtype=None, shape=None: _like("empty", prototype, dtype, shape),
    zeros_like=lambda a, dtype=None, shape=None: _like("zeros", a, dtype, shape),
    ones_like=lambda a, dtype=None, shape=None: _like("ones", a, dtype, shape),
    full_like=lambda a, fill_value, dtype=None, shape=None: _full_like(a, fill_value, dtype, shape),
    array=lambda object, dtype=None, ndmin=0: (t := asarray(object, dtype=dtype, copy=True)).reshape((*(1,) * (ndmin - t.ndim), *t.shape)),
    asanyarray=lambda a, dtype=None: asarray(a, dtype=dtype),
)


# --- shapes and parts -------------------------------------------------------------------------------------------------

FUNCTIONS.update(
    shape=lambda a: asarray(a).shape,
    ndim=lambda a: asarray(a).ndim,
    size=lambda a, axis=None: prod([asarray(a).shape[k] for k in axes_of("np.size", axis, asarray(a).ndim)]),
    copy=lambda a: asarray(a).copy(),
    fliplr=lambda m: asarray(m).flip(1),
    flipud=lambda m: asarray(m).flip(0),
    flatnonzero=lambda a: tx.nonzero(asarray(a).ravel())[0],
    extract=lambda condition, arr: asarray(arr).ravel()[asarray(condition).ravel() != 0],
    trace=lambda a, offset=0, axis1=0, axis2=1, dtype=None: asarray(a).diagonal(offset, axis1, axis2).sum(-1, dtype=dtype),
    rot90=lambda m, k=1, axes=(0, 1): _rot90(asarray(m), k % 4, axes),
    rollaxis=lambda a, axis, start=0: tx.moveaxis(a, axis, start - (axis % asarray(a).ndim < start)),
    diagflat=lambda v, k=0: tx.diag(asarray(v).ravel(), k),
    append=lambda arr, values, axis=None: (
        tx.concat([asarray(arr).ravel(), asarray(values).ravel()]) if axis is None else tx.concat([arr, values], axis=axis)
    ),
    put_along_axis=lambda arr, indices, values, axis: (
        arr.reshape(-1).__setitem__(asarray(indices), values)
        if axis is None
        else arr.__setitem__(_along(arr, asarray(indices), axis_of("np.put_along_axis", axis, arr.ndim)), values)
    ),
)


@_numpys
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    given = asarray(src)
    if casting != "same_kind" and not tx.can_cast(given.dtype, dst.dtype, casting):  # `_receive` checks only "same_kind"
        raise DTypeError(f"np.copyto: casting={casting!r} does not allow {given.dtype} to {dst.dtype}; use casting='unsafe'")
    given = given.astype(dst.dtype, copy=False) if casting == "unsafe" else given
    dst._receive("np.copyto", tx.broadcast_to(given, dst.shape), where)


@_numpys
def where(condition: Any, *values: Any) -> Any:
    return tx.where(condition, *values) if values else tx.nonzero(asarray(condition))


def _rot90(m: Tensor, turns: int, axes: tuple[int, int]) -> Tensor:
    first, second = [axis_of("np.rot90", k, m.ndim) for k in axes]
    if first == second:
        raise AxisError(f"np.rot90: axes must be two axes, which it turns from the first to the second, not {axes}")
    if turns >= 2:
        m = m.flip((first, second))
    found: Tensor = m.flip(second).swapaxes(first, second) if turns % 2 else m
    return found


def _along(arr: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, ...]:
    """Return an index for each axis of `arr`: `indices` along `axis`, and all positions along each other axis."""
    if indices.ndim != arr.ndim:
        raise ShapeError(f"np.put_along_axis: indices of shape {indices.shape} have other axes than the tensor, of shape {arr.shape}")
    places = [tx.arange(n).reshape([n if a == k else 1 for a in range(arr.ndim)]) for k, n in enumerate(arr.shape)]
    places[axis] = indices
    return tuple(places)


@_numpys
def compress(condition: Any, a: Any, axis: int | None = None) -> Tensor:
    a = asarray(a)
    a, axis = (a.ravel(), 0) if axis is None else (a, axis)
    found: Tensor = tx.take(a, tx.nonzero(asarray(condition))[0], axis=axis)
    return found


@_numpys
def delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    arr = asarray(arr)
    arr, axis = (arr.ravel(), 0) if axis is None else (arr, axis_of("np.delete", axis, arr.ndim))
    kept = tx.ones(arr.shape[axis], dtype=bool)
    kept[obj if isinstance(obj, (int, slice)) else asarray(obj)] = False
    return compress(kept, arr, axis)


# --- numbers ----------------------------------------------------------------------------------------------------------

FUNCTIONS.update(
    around=lambda a, decimals=0: tx.round(a, decimals),
    fix=lambda x: tx.trunc(x),
    angle=lambda z, deg=False: tx.atan2(tx.imag(z), tx.real(z)) * (180 / tx.pi if deg else 1.0),
    isposinf=lambda x: tx.equal(x, inf),
    isneginf=lambda x: tx.equal(x, -inf),
    isreal=lambda x: tx.imag(x) == 0 if asarray(x).dtype.is_complex else tx.ones(asarray(x).shape, dtype=bool),
    iscomplex=lambda x: tx.imag(x) != 0 if asarray(x).dtype.is_complex else tx.zeros(asarray(x).shape, dtype=bool),
    nan_to_num=lambda x, copy=True, nan=0.0, posinf=None, neginf=None: _nan_to_num(asarray(x), copy, nan, posinf, neginf),
    sinc=lambda x: tx.where(asarray(x) == 0, 1.0, tx.sin(asarray(x) * tx.pi) / tx.where(asarray(x) == 0, 1.0, asarray(x) * tx.pi)),
    linspace=lambda start, stop, num=50, endpoint=True, retstep=False, axis=0: _linspace(start, stop, num, endpoint, retstep, axis),
    polyval=lambda p, x: _polyval(asarray(p), asarray(x)),
    vander=lambda x, N=None, increasing=False: _vander(asarray(x), asarray(x).size if N is None else N, increasing),
)


def _polyval(p: Tensor, x: Tensor) -> Tensor:
    """Evaluate the polynomial with coefficients `p`, highest power first, at `x` by Horner's rule, in their common dtype."""
    found: Any = tx.zeros_like(x)
    for k in range(p.shape[0]):
        found = found * x + p[k, ...]
    return found  # type: ignore[no-any-return]


def _linspace(start: Any, stop: Any, num: int, endpoint: bool, retstep: bool, axis: int) -> Any:
    """Return even steps from the elements of `start` to those of `stop`, along a new axis, and with `retstep` also the step."""
    found, step = between("np.linspace", asarray(start), asarray(stop), num, endpoint)
    found = found.moveaxis(0, axis)
    return (found, step) if retstep else found


def _vander(x: Tensor, count: int, increasing: bool) -> Tensor:
    powers = tx.arange(count)
    found: Tensor = x[:, None] ** (powers if increasing else powers.flip(0))
    return found


def _nan_to_num(x: Tensor, copy: bool, nan: float, posinf: float | None, neginf: float | None) -> Tensor:
    """Replace NaN and infinities, by the dtype's limits for None, in a copy or in `x` itself."""
    found = x.copy() if copy else x
    for part in (found.real, found.imag) if x.dtype.is_complex else (found,) if x.dtype.is_float else ():
        limits = tx.finfo(part.dtype)
        known = tx.where(part == inf, limits.max if posinf is None else posinf, part)
        known = tx.where(part == -inf, limits.min if neginf is None else neginf, known)
        part[...] = tx.where(tx.isnan(part), nan, known)
    return found


# --- reductions -------------------------------------------------------------------------------------------------------


def is_number(a: Tensor, where: Any = True) -> Tensor:
    """Return a mask of the elements of `a` that are not NaN, and for which `where` is true."""
    found: Tensor = ~tx.isnan(a)
    return found if where is True else found & asarray(where)


FUNCTIONS.update(
    ptp=lambda a, axis=None, keepdims=False: tx.max(a, axis=axis, keepdims=keepdims) - tx.min(a, axis=axis, keepdims=keepdims),
    nansum=lambda a, axis=None, where=True, **more: tx.sum(a, axis, where=is_number(asarray(a), where), **more),
    nanprod=lambda a, axis=None, where=True, **more: tx.prod(a, axis, where=is_number(asarray(a), where), **more),
    nanmax=lambda a, axis=None, **more: _nan_extreme(tx.max, asarray(a), -inf, axis, **more),
    nanmin=lambda a, axis=None, **more: _nan_extreme(tx.min, asarray(a), inf, axis, **more),
    var=lambda a, axis=None, dtype=None, **more: tx.var(_as(a, dtype), axis, **more),
    std=lambda a, axis=None, dtype=None, **more: tx.std(_as(a, dtype), axis, **more),
    nanmean=lambda a, axis=None, where=True, **more: tx.mean(a, axis, where=is_number(asarray(a), where), **more),
    nanvar=lambda a, axis=None, dtype=None, where=True, **more: tx.var(_as(a, dtype), axis, where=is_number(asarray(a), where), **more),
    nanstd=lambda a, axis=None, dtype=None, where=True, **more: tx.std(_as(a, dtype), axis, where=is_number(asarray(a), where), **more),
    nancumsum=lambda a, axis=None, dtype=None: tx.cumsum(_nan_to_num(asarray(a), True, 0.0, inf, -inf), axis, dtype=dtype),
    nanargmax=lambda a, axis=None, **more: tx.argmax(_without_nan(asarray(a), -inf), axis, **more),
    nanargmin=lambda a, axis=None, **more: tx.argmin(_without_nan(asarray(a), inf), axis, **more),
)


def _as(a: Any, dtype: Any) -> Tensor:
    """Return `a` as a tensor, cast to `dtype` unless that is None."""
    found = asarray(a)
    return found if dtype is None else found.astype(dtype, copy=False)


def _without_nan(a: Tensor, value: float) -> Tensor:
    """Return floats with NaN replaced by `value`; return integers unchanged, so that none is rounded."""
    found: Tensor = tx.where(tx.isnan(a), value, a) if a.dtype.is_float else a
    return found


def _nan_extreme(how: Callable[..., Tensor], a: Tensor, worst: float, axis: Any, **more: Any) -> Tensor:
    """Return the maximum or minimum without NaN, by the reduction `how`, or NaN where all is NaN. `worst` is its identity, -inf or inf."""
    found = how(_without_nan(a, worst), axis, **more)
    if not a.dtype.is_float or "initial" in more:
        return found
    result: Tensor = tx.where(tx.all(tx.isnan(a), axis=axis, keepdims=more.get("keepdims", False)), float("nan"), found)
    return result


@_numpys
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    a = asarray(a)
    axes = axes_of("np.average", axis, a.ndim)
    if weights is None:
        found, total = tx.mean(a, axis=axis, keepdims=keepdims), prod([a.shape[k] for k in axes])
    else:
        w = asarray(weights)
        if w.shape != a.shape:
            if axis is None or w.shape != tuple([a.shape[k] for k in axes]):
                raise ShapeError(
                    f"np.average: weights have shape {w.shape}, and x {a.shape}; they are equal, or weights have the axes that `axis` names"
                )
            w = w.permute(sorted(range(w.ndim), key=axes.__getitem__)).reshape([a.shape[k] if k in axes else 1 for k in range(a.ndim)])
        if not (a.dtype.is_float or a.dtype.is_complex):
            a = a.astype(tx.float64)  # products of integers may overflow
        w = w.astype(tx.result_type(a.dtype, w.dtype), copy=False)
        total = tx.sum(tx.broadcast_to(w, a.shape), axis=axis, keepdims=keepdims)
        found = tx.sum(a * w, axis=axis, keepdims=keepdims) / total
    return (found, total + tx.zeros_like(found)) if returned else found


@_numpys
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    y = tx.moveaxis(asarray(y), axis, -1)
    step = dx
    if x is not None:
        at = asarray(x)
        step = tx.diff(at if at.ndim == 1 else tx.moveaxis(at, axis, -1), axis=-1)
    found: Tensor = (step * (y[..., 1:] + y[..., :-1]) / 2.0).sum(-1)
    return found


@_numpys
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Tensor:
    given = [asarray(x) for x in (m, y) if x is not None]
    dtype = tx.result_type(*given, tx.float64) if dtype is None else dtype
    rows = [tx.atleast_2d(x.astype(dtype, copy=False)) for x in given]
    data = tx.concat([r if rowvar or x.ndim < 2 else r.T for r, x in zip(rows, given, strict=True)])
    ddof = (0 if bias else 1) if ddof is None else ddof
    times, weights = _weights("fweights", fweights, data), _weights("aweights", aweights, data)
    if times is None and weights is None:
        away = data - tx.mean(data, axis=1, keepdims=True)
        room: Any = float(max(data.shape[1] - ddof, 0))
        return _scattered(away, away, room)
    one = tx.ones(data.shape[1])
    each = (one if times is None else times) * (one if weights is None else weights)
    total = each.sum()
    less = ddof if weights is None else ddof * (each * weights).sum() / total
    away = data - (data * each).sum(axis=1, keepdims=True) / total
    return _scattered(away, away * each, tx.maximum(total - less, 0))


def _weights(name: str, given: Any, data: Tensor) -> Tensor | None:
    """Return the weights of the observations as float64, or None if none are given. Raise an error for an invalid shape, dtype or sign."""
    if given is None:
        return None
    found = asarray(given)
    if found.shape != data.shape[1:]:
        raise ShapeError(f"np.cov: {name} has shape {found.shape}; there is one for each of {data.shape[1]} observations")
    if name == "fweights" and not found.dtype.is_integer:
        raise DTypeError(f"np.cov: fweights say how often, in integers, not {found.dtype}; aweights are floats")
    if (found < 0).any():
        raise ArgumentError(f"np.cov: {name} are not negative")
    return found.astype(tx.float64)


def _scattered(away: Tensor, weighted: Tensor, room: Any) -> Tensor:
    """Return the covariances from deviations from the mean, the weighted deviations, and the divisor `room`, without axes of size 1."""
    found: Tensor = weighted @ tx.conj(away).T / room
    return found.squeeze()


@_numpys
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    spread = tx.sqrt(tx.real(c.diagonal()))
    found: Tensor = c / spread[:, None] / spread[None, :]
    if found.dtype.is_complex:
        return found.real.clip(-1, 1) + found.imag.clip(-1, 1) * 1j
    return found.clip(-1, 1)  # rounding may exceed the range


# --- products ---------------------------------------------------------------------------------------------------------

FUNCTIONS.update(
    vdot=lambda a, b: tx.vecdot(asarray(a).ravel(), asarray(b).ravel()),
    **{"linalg.svd": lambda a, full_matrices=True, compute_uv=True, hermitian=False: (
        tx.linalg.svd(asarray(a), full_matrices=full_matrices, hermitian=hermitian)
        if compute_uv
        else abs(tx.sort(-abs(tx.linalg.eigvalsh(asarray(a))))) if hermitian else tx.linalg.svdvals(asarray(a))
    )},
    **{"linalg.matmul": lambda x1, x2: tx.matmul(x1, x2)},
    **{"linalg.qr": lambda a, mode="reduced": tx.linalg.qr(asarray(a)).R if mode == "r" else tx.linalg.qr(asarray(a), mode=mode)},
    cross=lambda a, b, axisa=-1, axisb=-1, axisc=-1, axis=None: (
        tx.linalg.cross(asarray(a), asarray(b), axis=axis)
        if axis is not None
        else tx.linalg.cross(asarray(a).moveaxis(axisa, -1), asarray(b).moveaxis(axisb, -1)).moveaxis(-1, axisc)
    ),
    kron=lambda a, b: _kron(asarray(a), asarray(b)),
)


def _kron(a: Tensor, b: Tensor) -> Tensor:
    rank = max(a.ndim, b.ndim)
    a, b = [x.reshape((*(1,) * (rank - x.ndim), *x.shape)) for x in (a, b)]
    pairs: Tensor = a.expand_dims(tuple(range(1, 2 * rank, 2))) * b.expand_dims(tuple(range(0, 2 * rank, 2)))
    return pairs.reshape([n * m for n, m in zip(a.shape, b.shape, strict=True)])


@_numpys
def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    a, v = asarray(a), asarray(v)
    mode = one_of("np.convolve", "mode", mode, "full", "same", "valid")
    if a.ndim != 1 or v.ndim != 1 or not (a.size and v.size):
        raise ShapeError(f"np.convolve: shapes {a.shape} and {v.shape}; both have one axis, and an element at least")
    a, v = (a, v) if a.size >= v.size else (v, a)
    full = tx.einsum("ik,k->i", tx.pad(a, v.size - 1).windows(0, v.size), v.flip(0))
    begin, count = {"full": (0, full.size), "same": ((v.size - 1) // 2, a.size), "valid": (v.size - 1, a.size - v.size + 1)}[mode]
    found: Tensor = full[begin : begin + count]
    return found


# --- what NumPy computes, on the same memory --------------------------------------------------------------------------


def _by_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a NumPy function to convert tensors to arrays, and results to tensors. Callables among the arguments receive arrays.

    The wrapper raises DerivativeError if a derivative is recorded for an argument.
    """

    def called(*args: Any, **options: Any) -> Any:
        if any(_has_past(x) for x in (*args, *options.values())):
            raise DerivativeError(
                f"np.{function.__name__}: Tenxor has no such function, so no derivative; compute it on x.detach() if you need none"
            )
        with np.errstate(all="ignore"):
            return _tensors(function(*for_numpy(args), **for_numpy(options)))

    return called


def _has_past(x: Any) -> bool:
    """Return whether derivatives are recorded for `x`, or for a tensor in the nested list `x`."""
    return any(map(_has_past, x)) if isinstance(x, (list, tuple)) else isinstance(x, Tensor) and x._has_past()


def _tensors(found: Any) -> Any:
    """Convert an array, or the arrays in nested lists and tuples, to new tensors."""
    if isinstance(found, (list, tuple)):
        return type(found)([_tensors(x) for x in found])
    return asarray(found, copy=True)


FUNCTIONS.update(
    {
        f.__name__: _by_numpy(f)
        for f in (
            *(np.i0, np.nanpercentile, np.nanquantile, np.packbits, np.poly, np.polyadd, np.polyder, np.polydiv, np.polyfit, np.polyint),
            *(np.polymul, np.polysub, np.real_if_close, np.roots, np.sort_complex, np.unpackbits),
        )
    }
)


# --- sets and order ---------------------------------------------------------------------------------------------------

FUNCTIONS.update(
    union1d=lambda ar1, ar2: unique(tx.concat([asarray(ar1).ravel(), asarray(ar2).ravel()])),
    setdiff1d=lambda ar1, ar2: (u := tx.unique_values(ar1))[~tx.isin(u, ar2)],
    intersect1d=lambda ar1, ar2: (u := tx.unique_values(ar1))[tx.isin(u, ar2)].astype(tx.result_type(u, asarray(ar2)), copy=False),
    partition=lambda a, kth, axis=-1: tx.sort(asarray(a), axis=axis),  # sorted elements are partitioned, too
    argpartition=lambda a, kth, axis=-1: tx.argsort(asarray(a), axis=axis),
)


@_numpys
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,  # results are always sorted
) -> Any:
    found = unique_along(asarray(ar), axis_of("np.unique", axis, asarray(ar).ndim)) if axis is not None else _unique(asarray(ar), equal_nan)
    asked = (True, return_index, return_inverse, return_counts)
    results = tuple([part for part, wanted in zip(found, asked, strict=True) if wanted])
    return results if len(results) > 1 else results[0]


def _unique(ar: Tensor, equal_nan: bool) -> list[Tensor]:
    """Return the distinct values, their first indices, the inverse and the counts. With `equal_nan`, all NaNs are one value."""
    every = tx.unique_all(ar)
    found = [every.values, every.indices, every.inverse_indices, every.counts]
    nans = int(tx.isnan(every.values).sum()) if equal_nan and (every.values.dtype.is_float or every.values.dtype.is_complex) else 0
    if nans > 1:  # our NaNs come last, and are distinct; NumPy merges them
        count = every.values.size - nans + 1
        found = [part[:count] for part in found]
        found[2] = every.inverse_indices.clip(0, count - 1)
        found[3] = tx.where(tx.arange(count) == count - 1, nans, found[3])
    return found
