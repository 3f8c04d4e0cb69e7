"""NumPy's functions without a Tenxor function of the same name, composed from ours: the implementation of `numpy.nansum(tensor)`.

They take NumPy's arguments, and are not exported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import inf, prod
from typing import Any, TypeVar

import numpy as np

from ..errors import ArgumentError, AxisError, DerivativeError, DTypeError, ShapeError
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice, normalize_axes, normalize_axis
from ..tensor.numpy_ufuncs import to_numpy_arguments
from .creation import asarray
from .grids import space_evenly
from .unique_values import unique_along

tx: Any = sys.modules["tenxor"]
NUMPY_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _register(function: _Function) -> _Function:
    """Register `function`, an implementation, in `NUMPY_FUNCTIONS` under its own name, and return `function`."""
    NUMPY_FUNCTIONS[function.__name__] = function
    return function


# --- new tensors ------------------------------------------------------------------------------------------------------


def _create_like(name: str, a: Any, dtype: Any, shape: Any, *value: Any) -> Tensor:
    """Return a new tensor, as NumPy's `NAME_like(a, *value, dtype=dtype, shape=shape)`; `name` is "empty", "zeros", "ones" or "full".

    None stands for the dtype or the shape of `a`. `value` is the fill value for "full", otherwise empty.
    """
    a = asarray(a)
    if shape is None:
        result: Tensor = getattr(tx, f"{name}_like")(a, *value, dtype=dtype)
        return result
    result = getattr(tx, name)(shape, *value, dtype=a.dtype if dtype is None else dtype)
    return result


def _full_like(a: Any, value: Any, dtype: Any, shape: Any) -> Tensor:
    """Return a new tensor filled with `value`, as NumPy's `full_like`. `value` may be an array that broadcasts to the shape.

    None as `dtype` or `shape` stands for the dtype or the shape of `a`.
    """
    if not getattr(value, "shape", ()) and not isinstance(value, (list, tuple)):
        return _create_like("full", a, dtype, shape, value)
    result = _create_like("empty", a, dtype, shape)
    copyto(result, asarray(value).astype(result.dtype))
    return result


NUMPY_FUNCTIONS.update(
    empty_like=lambda prototype, dtype=None, shape=None: _create_like("empty", prototype, dtype, shape),
    zeros_like=lambda a, dtype=None, shape=None: _create_like("zeros", a, dtype, shape),
    ones_like=lambda a, dtype=None, shape=None: _create_like("ones", a, dtype, shape),
    full_like=lambda a, fill_value, dtype=None, shape=None: _full_like(a, fill_value, dtype, shape),
    array=lambda object, dtype=None, ndmin=0: (t := asarray(object, dtype=dtype, copy=True)).reshape((*(1,) * (ndmin - t.ndim), *t.shape)),
    asanyarray=lambda a, dtype=None: asarray(a, dtype=dtype),
)


# --- shapes and parts -------------------------------------------------------------------------------------------------

NUMPY_FUNCTIONS.update(
    shape=lambda a: asarray(a).shape,
    ndim=lambda a: asarray(a).ndim,
    size=lambda a, axis=None: prod([asarray(a).shape[k] for k in normalize_axes("np.size", axis, asarray(a).ndim)]),
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
        else arr.__setitem__(_indices_along(arr, asarray(indices), normalize_axis("np.put_along_axis", axis, arr.ndim)), values)
    ),
)


@_register
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write `src`, broadcast, into `dst` in place, where the mask `where` is true. Raise DTypeError if `casting` forbids the cast."""
    source = asarray(src)
    if casting != "same_kind" and not tx.can_cast(source.dtype, dst.dtype, casting):  # `_write_result` checks only "same_kind"
        raise DTypeError(f"np.copyto: casting={casting!r} does not allow {source.dtype} to {dst.dtype}; use casting='unsafe'")
    source = source.astype(dst.dtype, copy=False) if casting == "unsafe" else source
    dst._write_result("np.copyto", tx.broadcast_to(source, dst.shape), where)


@_register
def where(condition: Any, *values: Any) -> Any:
    """Return elements chosen by `condition` from a pair of values, or without values the indices of the true elements (`tx.where`)."""
    return tx.where(condition, *values) if values else tx.nonzero(asarray(condition))


def _rot90(m: Tensor, turns: int, axes: tuple[int, int]) -> Tensor:
    """Return a view of `m`, turned by 90 degrees `turns` times (0 to 3) from the first of `axes` to the second; for 0, return `m`.

    Raise AxisError if an axis does not exist, or if both are equal.
    """
    from_axis, to_axis = [normalize_axis("np.rot90", k, m.ndim) for k in axes]
    if from_axis == to_axis:
        raise AxisError(f"np.rot90: axes must be two axes, which it turns from the first to the second, not {axes}")
    if turns >= 2:
        m = m.flip((from_axis, to_axis))
    rotated: Tensor = m.flip(to_axis).swapaxes(from_axis, to_axis) if turns % 2 else m
    return rotated


def _indices_along(arr: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, ...]:
    """Return an index tensor for each axis of `arr`: `indices` along `axis`, and all positions along each other axis.

    Raise ShapeError unless `indices` has as many axes as `arr`.
    """
    if indices.ndim != arr.ndim:
        raise ShapeError(
            f"np.put_along_axis: indices have shape {indices.shape}, and the tensor {arr.shape}; both must have the same number of axes"
        )
    index_tensors = [tx.arange(n).reshape([n if a == k else 1 for a in range(arr.ndim)]) for k, n in enumerate(arr.shape)]
    index_tensors[axis] = indices
    return tuple(index_tensors)


@_register
def compress(condition: Any, a: Any, axis: int | None = None) -> Tensor:
    """Return the slices of `a` along `axis` at which the 1-D `condition` is true, as a new tensor. None flattens `a` first."""
    a = asarray(a)
    a, axis = (a.ravel(), 0) if axis is None else (a, axis)
    selected: Tensor = tx.take(a, tx.nonzero(asarray(condition))[0], axis=axis)
    return selected


@_register
def delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    """Return a new tensor: `arr` without the slices along `axis` selected by `obj`, an index, slice, list or mask. None flattens `arr`."""
    arr = asarray(arr)
    arr, axis = (arr.ravel(), 0) if axis is None else (arr, normalize_axis("np.delete", axis, arr.ndim))
    keep_mask = tx.ones(arr.shape[axis], dtype=bool)
    keep_mask[obj if isinstance(obj, (int, slice)) else asarray(obj)] = False
    return compress(keep_mask, arr, axis)


# --- numbers ----------------------------------------------------------------------------------------------------------

NUMPY_FUNCTIONS.update(
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
    """Return the values at `x` of the polynomial with coefficients `p`, highest power first, by Horner's rule, in the common dtype."""
    value: Any = tx.zeros_like(x)
    for k in range(p.shape[0]):
        value = value * x + p[k, ...]
    return value  # type: ignore[no-any-return]


def _linspace(start: Any, stop: Any, num: int, endpoint: bool, retstep: bool, axis: int) -> Any:
    """Return `num` evenly spaced numbers from the elements of `start` to the elements of `stop`, along a new axis at position `axis`.

    `stop` is included only with `endpoint`. With `retstep`, return a pair: the numbers, and the step, a tensor without the new axis.
    """
    points, step = space_evenly("np.linspace", asarray(start), asarray(stop), num, endpoint)
    points = points.moveaxis(0, axis)
    return (points, step) if retstep else points


def _vander(x: Tensor, count: int, increasing: bool) -> Tensor:
    """Return the matrix with the powers 0 to `count` - 1 of each element of the vector `x` in a row, highest first unless `increasing`."""
    powers = tx.arange(count)
    matrix: Tensor = x[:, None] ** (powers if increasing else powers.flip(0))
    return matrix


def _nan_to_num(x: Tensor, copy: bool, nan: float, posinf: float | None, neginf: float | None) -> Tensor:
    """Return `x` with NaN replaced by `nan`, and infinities by `posinf` and `neginf` (None: the dtype's limits).

    Unless `copy`, the elements of `x` itself are replaced, and `x` is returned.
    """
    result = x.copy() if copy else x
    for component in (result.real, result.imag) if x.dtype.is_complex else (result,) if x.dtype.is_float else ():
        limits = tx.finfo(component.dtype)
        bounded = tx.where(component == inf, limits.max if posinf is None else posinf, component)
        bounded = tx.where(component == -inf, limits.min if neginf is None else neginf, bounded)
        component[...] = tx.where(tx.isnan(component), nan, bounded)
    return result


# --- reductions -------------------------------------------------------------------------------------------------------


def mask_numbers(a: Tensor, where: Any = True) -> Tensor:
    """Return a new bool tensor, true for the elements of `a` that are not NaN, and for which the bool mask `where` is true.

    True stands for no mask. The shape is that to which `a` and a mask broadcast.
    """
    mask: Tensor = ~tx.isnan(a)
    return mask if where is True else mask & asarray(where)


NUMPY_FUNCTIONS.update(
    ptp=lambda a, axis=None, keepdims=False: tx.max(a, axis=axis, keepdims=keepdims) - tx.min(a, axis=axis, keepdims=keepdims),
    nansum=lambda a, axis=None, where=True, **options: tx.sum(a, axis, where=mask_numbers(asarray(a), where), **options),
    nanprod=lambda a, axis=None, where=True, **options: tx.prod(a, axis, where=mask_numbers(asarray(a), where), **options),
    nanmax=lambda a, axis=None, **options: _nan_extreme(tx.max, asarray(a), -inf, axis, **options),
    nanmin=lambda a, axis=None, **options: _nan_extreme(tx.min, asarray(a), inf, axis, **options),
    var=lambda a, axis=None, dtype=None, **options: tx.var(_as_dtype(a, dtype), axis, **options),
    std=lambda a, axis=None, dtype=None, **options: tx.std(_as_dtype(a, dtype), axis, **options),
    nanmean=lambda a, axis=None, where=True, **options: tx.mean(a, axis, where=mask_numbers(asarray(a), where), **options),
    nanvar=lambda a, axis=None, dtype=None, where=True, **options: tx.var(
        _as_dtype(a, dtype), axis, where=mask_numbers(asarray(a), where), **options
    ),
    nanstd=lambda a, axis=None, dtype=None, where=True, **options: tx.std(
        _as_dtype(a, dtype), axis, where=mask_numbers(asarray(a), where), **options
    ),
    nancumsum=lambda a, axis=None, dtype=None: tx.cumsum(_nan_to_num(asarray(a), True, 0.0, inf, -inf), axis, dtype=dtype),
    nanargmax=lambda a, axis=None, **options: tx.argmax(_replace_nan(asarray(a), -inf), axis, **options),
    nanargmin=lambda a, axis=None, **options: tx.argmin(_replace_nan(asarray(a), inf), axis, **options),
)


def _as_dtype(a: Any, dtype: Any) -> Tensor:
    """Return `a` as a tensor, cast to `dtype` unless that is None. A tensor of this dtype is returned itself."""
    tensor = asarray(a)
    return tensor if dtype is None else tensor.astype(dtype, copy=False)


def _replace_nan(a: Tensor, value: float) -> Tensor:
    """Return floats `a` with NaN replaced by `value`; return `a` itself for integers, bools and complex numbers."""
    replaced: Tensor = tx.where(tx.isnan(a), value, a) if a.dtype.is_float else a
    return replaced


def _nan_extreme(reduce: Callable[..., Tensor], a: Tensor, worst: float, axis: Any, **options: Any) -> Tensor:
    """Return the maximum or minimum of `a` over `axis` without NaN; `reduce` is `tx.max` or `tx.min`, with the identity `worst`, ±inf.

    The result is NaN where all elements are NaN, unless the `options` of `reduce` have "initial".
    """
    extreme = reduce(_replace_nan(a, worst), axis, **options)
    if not a.dtype.is_float or "initial" in options:
        return extreme
    result: Tensor = tx.where(tx.all(tx.isnan(a), axis=axis, keepdims=options.get("keepdims", False)), float("nan"), extreme)
    return result


@_register
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """Return the mean of `a` over `axis`, weighted by `weights`, as a new tensor.

    With `returned`, return a pair of the mean and the sum of the weights, of one shape. `weights` has the shape of `a`, or the axes in
    `axis`. Raise ShapeError for another shape.
    """
    a = asarray(a)
    axes = normalize_axes("np.average", axis, a.ndim)
    if weights is None:
        mean, total = tx.mean(a, axis=axis, keepdims=keepdims), prod([a.shape[k] for k in axes])
    else:
        w = asarray(weights)
        if w.shape != a.shape:
            if axis is None or w.shape != tuple([a.shape[k] for k in axes]):
                raise ShapeError(
                    f"np.average: weights have shape {w.shape}, and x {a.shape}; they must be equal, or weights must have the sizes of the"
                    " axes that `axis` names"
                )
            w = w.permute(sorted(range(w.ndim), key=axes.__getitem__)).reshape([a.shape[k] if k in axes else 1 for k in range(a.ndim)])
        if not (a.dtype.is_float or a.dtype.is_complex):
            a = a.astype(tx.float64)  # products of integers may overflow
        w = w.astype(tx.result_type(a.dtype, w.dtype), copy=False)
        total = tx.sum(tx.broadcast_to(w, a.shape), axis=axis, keepdims=keepdims)
        mean = tx.sum(a * w, axis=axis, keepdims=keepdims) / total
    return (mean, total + tx.zeros_like(mean)) if returned else mean


@_register
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """Return the integral of `y` along `axis` by the trapezoidal rule, at the coordinates `x`, or for None at points `dx` apart."""
    y = tx.moveaxis(asarray(y), axis, -1)
    step = dx
    if x is not None:
        samples = asarray(x)
        step = tx.diff(samples if samples.ndim == 1 else tx.moveaxis(samples, axis, -1), axis=-1)
    integral: Tensor = (step * (y[..., 1:] + y[..., :-1]) / 2.0).sum(-1)
    return integral


@_register
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
    """Return the covariance matrix of the variables in `m` and `y`: rows, or columns unless `rowvar`. For a single variable it is 0-d.

    `ddof` overrides `bias`. `fweights` count observations, and `aweights` weigh them. Raise errors for invalid weights (`_check_weights`).
    """
    variables = [asarray(x) for x in (m, y) if x is not None]
    dtype = tx.result_type(*variables, tx.float64) if dtype is None else dtype
    rows = [tx.atleast_2d(x.astype(dtype, copy=False)) for x in variables]
    data = tx.concat([r if rowvar or x.ndim < 2 else r.T for r, x in zip(rows, variables, strict=True)])
    ddof = (0 if bias else 1) if ddof is None else ddof
    frequencies, weights = _check_weights("fweights", fweights, data), _check_weights("aweights", aweights, data)
    if frequencies is None and weights is None:
        deviations = data - tx.mean(data, axis=1, keepdims=True)
        divisor: Any = float(max(data.shape[1] - ddof, 0))
        return _covariance(deviations, deviations, divisor)
    unit_weights = tx.ones(data.shape[1])
    observation_weights = (unit_weights if frequencies is None else frequencies) * (unit_weights if weights is None else weights)
    total = observation_weights.sum()
    lost_weight = ddof if weights is None else ddof * (observation_weights * weights).sum() / total
    deviations = data - (data * observation_weights).sum(axis=1, keepdims=True) / total
    return _covariance(deviations, deviations * observation_weights, tx.maximum(total - lost_weight, 0))


def _check_weights(name: str, values: Any, data: Tensor) -> Tensor | None:
    """Return `values`, the weights of the observations (columns of `data`), as float64, or None for None.

    `name` is "fweights" or "aweights". Raise ShapeError unless there is one for each observation, DTypeError for frequencies that are no
    integers, and ArgumentError for a negative weight.
    """
    if values is None:
        return None
    weights = asarray(values)
    if weights.shape != data.shape[1:]:
        raise ShapeError(f"np.cov: {name} has shape {weights.shape}; it must be ({data.shape[1]},), one weight for each observation")
    if name == "fweights" and not weights.dtype.is_integer:
        raise DTypeError(
            f"np.cov: fweights have dtype {weights.dtype}; they must be integers, how often each observation counts; for floats use"
            " aweights"
        )
    if (weights < 0).any():
        raise ArgumentError(f"np.cov: {name} has a negative element; all must be 0 or more")
    return weights.astype(tx.float64)


def _covariance(deviations: Tensor, weighted: Tensor, divisor: Any) -> Tensor:
    """Return the covariances of variables, one per row, without axes of size 1.

    `deviations` has a row for each variable and a column for each observation: the difference from the mean. `weighted` are the
    deviations times the weights of the observations. The sums of products are divided by `divisor`.
    """
    covariances: Tensor = weighted @ tx.conj(deviations).T / divisor
    return covariances.squeeze()


@_register
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    """Return the correlation matrix of the variables in `x` and `y`: rows, or columns unless `rowvar`. For a single variable it is 0-d."""
    covariances = cov(x, y, rowvar, dtype=dtype)
    if covariances.ndim == 0:
        return covariances / covariances
    stds = tx.sqrt(tx.real(covariances.diagonal()))
    correlations: Tensor = covariances / stds[:, None] / stds[None, :]
    if correlations.dtype.is_complex:
        return correlations.real.clip(-1, 1) + correlations.imag.clip(-1, 1) * 1j
    return correlations.clip(-1, 1)  # rounding may exceed the range


# --- products ---------------------------------------------------------------------------------------------------------

NUMPY_FUNCTIONS.update(
    vdot=lambda a, b: tx.vecdot(asarray(a).ravel(), asarray(b).ravel()),
    **{
        "linalg.svd": lambda a, full_matrices=True, compute_uv=True, hermitian=False: (
            tx.linalg.svd(asarray(a), full_matrices=full_matrices, hermitian=hermitian)
            if compute_uv
            else abs(tx.sort(-abs(tx.linalg.eigvalsh(asarray(a)))))
            if hermitian
            else tx.linalg.svdvals(asarray(a))
        )
    },
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
    """Return the Kronecker product of `a` and `b` as a new tensor. Axes missing in one of them are added in front, with size 1."""
    rank = max(a.ndim, b.ndim)
    a, b = [x.reshape((*(1,) * (rank - x.ndim), *x.shape)) for x in (a, b)]
    pairs: Tensor = a.expand_dims(tuple(range(1, 2 * rank, 2))) * b.expand_dims(tuple(range(0, 2 * rank, 2)))
    return pairs.reshape([n * m for n, m in zip(a.shape, b.shape, strict=True)])


@_register
def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """Return the convolution of two 1-D tensors as a new tensor. Raise ShapeError for other shapes, ArgumentError for an unknown `mode`."""
    a, v = asarray(a), asarray(v)
    mode = check_choice("np.convolve", "mode", mode, "full", "same", "valid")
    if a.ndim != 1 or v.ndim != 1 or not (a.size and v.size):
        raise ShapeError(f"np.convolve: a and v have shapes {a.shape} and {v.shape}; both must have one axis, and at least one element")
    a, v = (a, v) if a.size >= v.size else (v, a)
    full = tx.einsum("ik,k->i", tx.pad(a, v.size - 1).windows(0, v.size), v.flip(0))
    begin, count = {"full": (0, full.size), "same": ((v.size - 1) // 2, a.size), "valid": (v.size - 1, a.size - v.size + 1)}[mode]
    result: Tensor = full[begin : begin + count]
    return result


# --- what NumPy computes, on the same memory --------------------------------------------------------------------------


def _by_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper of a NumPy function that converts tensors to arrays, and results to new tensors.

    Arguments that are callables are passed on, and receive arrays. The wrapper raises DerivativeError if a derivative is recorded for an
    argument.
    """

    def called(*args: Any, **options: Any) -> Any:
        if any(_is_on_tape(x) for x in (*args, *options.values())):
            raise DerivativeError(
                f"np.{function.__name__}: Tenxor has no such function, so no derivative; compute it on x.detach() if you need none"
            )
        with np.errstate(all="ignore"):
            return _to_tensors(function(*to_numpy_arguments(args), **to_numpy_arguments(options)))

    return called


def _is_on_tape(x: Any) -> bool:
    """Return whether derivatives are recorded for `x`, or for a tensor in the nested list `x`."""
    return any(map(_is_on_tape, x)) if isinstance(x, (list, tuple)) else isinstance(x, Tensor) and x._is_on_tape()


def _to_tensors(results: Any) -> Any:
    """Return `results`, an array or number, or nested lists and tuples of them, with a new tensor in place of each."""
    if isinstance(results, (list, tuple)):
        return type(results)([_to_tensors(x) for x in results])
    return asarray(results, copy=True)


NUMPY_FUNCTIONS.update(
    {
        f.__name__: _by_numpy(f)
        for f in (
            *(np.i0, np.nanpercentile, np.nanquantile, np.packbits, np.poly, np.polyadd, np.polyder, np.polydiv, np.polyfit, np.polyint),
            *(np.polymul, np.polysub, np.real_if_close, np.roots, np.sort_complex, np.unpackbits),
        )
    }
)


# --- sets and order ---------------------------------------------------------------------------------------------------

NUMPY_FUNCTIONS.update(
    union1d=lambda ar1, ar2: unique(tx.concat([asarray(ar1).ravel(), asarray(ar2).ravel()])),
    setdiff1d=lambda ar1, ar2: (u := tx.unique_values(ar1))[~tx.isin(u, ar2)],
    intersect1d=lambda ar1, ar2: (u := tx.unique_values(ar1))[tx.isin(u, ar2)].astype(tx.result_type(u, asarray(ar2)), copy=False),
    partition=lambda a, kth, axis=-1: tx.sort(asarray(a), axis=axis),  # sorted elements are partitioned, too
    argpartition=lambda a, kth, axis=-1: tx.argsort(asarray(a), axis=axis),
)


@_register
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
    """Return the distinct elements of `ar` in ascending order, or the distinct slices along `axis`, as a new tensor.

    With flags, return a tuple: also the first indices, the inverse and the counts, in this order.
    """
    fields = (
        unique_along(asarray(ar), normalize_axis("np.unique", axis, asarray(ar).ndim))
        if axis is not None
        else _unique_fields(asarray(ar), equal_nan)
    )
    requested = (True, return_index, return_inverse, return_counts)
    results = tuple([field for field, wanted in zip(fields, requested, strict=True) if wanted])
    return results if len(results) > 1 else results[0]


def _unique_fields(ar: Tensor, equal_nan: bool) -> list[Tensor]:
    """Return the distinct values of `ar` in ascending order, their first flat indices, the inverse and the counts, as a list of four.

    The inverse has the shape of `ar`. With `equal_nan`, all NaNs are one value.
    """
    distinct = tx.unique_all(ar)
    fields = [distinct.values, distinct.indices, distinct.inverse_indices, distinct.counts]
    nans = int(tx.isnan(distinct.values).sum()) if equal_nan and (distinct.values.dtype.is_float or distinct.values.dtype.is_complex) else 0
    if nans > 1:  # our NaNs come last, and are distinct; NumPy merges them
        count = distinct.values.size - nans + 1
        fields = [field[:count] for field in fields]
        fields[2] = distinct.inverse_indices.clip(0, count - 1)
        fields[3] = tx.where(tx.arange(count) == count - 1, nans, fields[3])
    return fields
