"""Sequences with even distances or factors, coordinate grids, numerical gradients, diagonal matrices and triangles."""

from __future__ import annotations

from typing import Any

from .._utils.aliases import argument_aliases
from ..dtypes import DEFAULT_FLOAT, DTypeLike
from ..errors import ArgumentError, ShapeError, describe_value
from ..graph.spec import memoized_call
from ..layout.coords import validate_int
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import Axes, check_choice, check_flag, normalize_axes
from ..tensor.core import Operand
from .concatenation import concat
from .creation import arange, asarray, clamp_diagonal, make_flat_indices, zeros
from .creation_like import full_like, zeros_like
from .cumulative_sums import diff
from .views import broadcast_arrays

__all__ = ["diag", "geomspace", "gradient", "logspace", "meshgrid", "tril", "triu"]


@argument_aliases
def logspace(
    start: Operand,
    stop: Operand,
    num: int = 50,
    endpoint: bool = True,
    base: Operand = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    dim: int | None = None,
    steps: int | None = None,
) -> Tensor:
    """Return powers of a base with evenly spaced exponents, as a new tensor.

    Parameters
    ----------
    start, stop : number or Tensor
        The first and the last exponent. For tensors there is a sequence for each pair of elements, along a new axis.
    num : int, default 50
        The number of powers. PyTorch's `steps` is an alias.
    endpoint : bool, default True
        If False, the sequence stops one step before `stop`.
    base : number or Tensor, default 10
        The base of the powers.
    dtype : dtype, optional
        The dtype of the result, by default the float or complex dtype to which exponents and base promote.
    axis : int, default 0
        The position of the new axis. PyTorch's `dim` is an alias.

    Returns
    -------
    Tensor
        New tensor of shape (num,), or for tensors of their broadcast shape with a new axis of size `num`.

    Raises
    ------
    ArgumentError
        If `num` is negative.

    Notes
    -----
    NumPy's `logspace`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.logspace(0, 3, 4).tolist()
    [1.0, 10.0, 100.0, 1000.0]
    """
    begin, end, powers = broadcast_arrays(asarray(start), asarray(stop), asarray(base))
    exponents, _ = space_evenly("logspace", begin, end, num, endpoint)
    return _arrange_points(powers**exponents, axis, dtype)


@argument_aliases
def geomspace(
    start: Operand,
    stop: Operand,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    dim: int | None = None,
) -> Tensor:
    """Return numbers with a constant factor between neighbours, as a new tensor.

    Parameters
    ----------
    start, stop : number or Tensor
        The first and the last number, not 0. For tensors there is a sequence for each pair of elements, along a new axis.
    num : int, default 50
        The number of numbers.
    endpoint : bool, default True
        If False, the sequence stops one factor before `stop`.
    dtype : dtype, optional
        The dtype of the result, by default the float or complex dtype to which `start` and `stop` promote.
    axis : int, default 0
        The position of the new axis. PyTorch's `dim` is an alias.

    Returns
    -------
    Tensor
        New tensor of shape (num,), or for tensors of their broadcast shape with a new axis of size `num`.

    Raises
    ------
    ArgumentError
        If `start` or `stop` is 0, from or to which no factor leads, or if `num` is negative.

    Notes
    -----
    Between real numbers of different signs no factor exists, so the results are NaN, except for the first and the last. (NumPy's
    `geomspace`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.geomspace(-2, -16, 4).tolist()
    [-2.0, -4.0, -8.0, -16.0]
    """
    begin, end = broadcast_arrays(_as_inexact(asarray(start)), _as_inexact(asarray(stop)))
    if bool((begin == 0).any()) or bool((end == 0).any()):
        raise ArgumentError("geomspace: start or stop is 0; both must be other than 0, as no factor leads from 0 or to it")
    sign = begin.sign()
    exponents, _ = space_evenly("geomspace", zeros_like(begin), (end / sign).log10() - (begin / sign).log10(), num, endpoint)
    terms: Any = begin * 10.0**exponents
    if num > 0:
        terms[0, ...] = begin
    if endpoint and num > 1:
        terms[-1, ...] = end
    return _arrange_points(terms, axis, dtype)


def space_evenly(op: str, start: Tensor, stop: Tensor, num: int, endpoint: bool) -> tuple[Any, Tensor]:
    """Return `num` evenly spaced numbers from the elements of `start` to the elements of `stop`, along a new first axis, and the distances.

    The result is a pair of tensors. `stop` is included if `endpoint`. Without a second number, `stop` included, the distances are NaN.
    Raise ArgumentError, beginning with `op`, for a negative `num`.
    """
    count = validate_int(op, "num", num)
    if count < 0:
        raise ArgumentError(f"{op}: num is {num}; it must be 0 or more")
    begin, end = broadcast_arrays(_as_inexact(start), _as_inexact(stop))
    includes_stop = check_flag("endpoint", endpoint)
    gap_count = count - 1 if includes_stop else count
    if gap_count < 1:
        return begin.expand((count, *begin.shape)).copy(), full_like(begin, float("nan"))
    step: Any = (end - begin) / gap_count
    points: Any = begin + arange(count).reshape(count, *(1,) * begin.ndim) * step
    if includes_stop:
        points[-1, ...] = end
    return points, step


def _as_inexact(x: Tensor) -> Any:
    """Return `x` itself if its dtype is float or complex, otherwise `x` as float64."""
    return x if x.dtype.is_float or x.dtype.is_complex else x.astype(DEFAULT_FLOAT)


def _arrange_points(points: Any, axis: int, dtype: DTypeLike | None) -> Tensor:
    """Return `points` with the first axis moved to position `axis`, cast to `dtype` unless that is None."""
    moved: Tensor = points.moveaxis(0, axis)
    return moved if dtype is None else moved.astype(dtype, copy=False)


@argument_aliases
def gradient(
    x: Operand,
    /,
    *spacing: Operand,
    axis: Axes = None,
    edge_order: int = 1,
    dim: Axes = None,
) -> Tensor | tuple[Tensor, ...]:
    """Return the slopes of `x` along axes.

    Parameters
    ----------
    x : Tensor
        Any dtype; integers and bools are computed as float64.
    *spacing : number or Tensor
        The distance of neighbours, 1 if not given, either for all axes or for each axis. In place of a distance, the coordinates along an
        axis may be given, as a 1-D tensor.
    axis : int or tuple of int, optional
        None means all axes. PyTorch's `dim` is an alias.
    edge_order : {1, 2}, default 1
        At the ends, 1 takes the line through two neighbours, and 2 the parabola.

    Returns
    -------
    Tensor or tuple of Tensor
        A new float or complex tensor of the shape of `x`, or a tuple with one for each of several axes.

    Raises
    ------
    AxisError
        If an axis does not exist or is named twice.
    ArgumentError
        If the number of spacings is wrong, or if `edge_order` is another value.
    ShapeError
        If an axis is too short, or if the number of coordinates is wrong.

    Notes
    -----
    Inside, a slope is that of the parabola through three neighbours. (NumPy's `gradient`; derivatives of functions are `grad`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.gradient(tx.asarray([1.0, 2.0, 4.0, 7.0])).tolist()
    [1.0, 1.5, 2.5, 3.0]
    >>> tx.gradient(tx.asarray([0.0, 1.0, 9.0]), tx.asarray([0.0, 1.0, 3.0])).tolist()
    [1.0, 2.0, 4.0]
    """
    f = _as_inexact(asarray(x))
    axes = normalize_axes("gradient", axis, f.ndim)
    spacings = spacing if len(spacing) > 1 else spacing * len(axes) or (1.0,) * len(axes)
    steps = [_as_inexact(asarray(step)) for step in spacings]
    if len(steps) != len(axes):
        raise ArgumentError(f"gradient: {len(steps)} spacings for {len(axes)} axes; give one for all, or one for each")
    if edge_order not in (1, 2):
        raise ArgumentError(f"gradient: edge_order must be 1 or 2, not {describe_value(edge_order)}")
    slopes = []
    for k, step in zip(axes, steps, strict=True):
        if f.shape[k] <= edge_order:
            raise ShapeError(
                f"gradient: axis {k} of shape {f.shape} must have at least {edge_order + 1} elements with edge_order={edge_order}"
            )
        if step.ndim and (step.ndim > 1 or step.size != f.shape[k]):
            raise ShapeError(
                f"gradient: the coordinates of axis {k} have shape {step.shape}; it must be ({f.shape[k]},), one for each element of the"
                " axis"
            )
        slopes.append(_estimate_slopes(f.moveaxis(k, -1), step, edge_order).moveaxis(-1, k))
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _estimate_slopes(f: Any, step: Any, edge_order: int) -> Tensor:
    """Return the slopes of `f` along the last axis: inside of the parabola through three neighbours, at the ends of a line or a parabola.

    `step` is a 0-d tensor, the distance of neighbours, or a 1-D tensor of the coordinates. `edge_order` is 1 for a line, 2 for a parabola.
    With equal spacing, the middle of three neighbours does not affect the parabola's slope, even if infinite. The axis must have at least
    `edge_order` + 1 elements.
    """
    gaps: Any = diff(step) if step.ndim else step.expand((f.shape[-1] - 1,))
    secants: Any = diff(f, axis=-1) / gaps
    if step.ndim:
        gap_before, gap_after = gaps[:-1], gaps[1:]
        inner_slopes = (secants[..., :-1] * gap_after + secants[..., 1:] * gap_before) / (gap_before + gap_after)
    else:
        inner_slopes = (f[..., 2:] - f[..., :-2]) / (2 * step)
    first_slope, last_slope = secants[..., :1], secants[..., -1:]
    if edge_order == 2:
        first_slope = first_slope - (secants[..., 1:2] - first_slope) * gaps[0] / (gaps[0] + gaps[1])
        last_slope = last_slope + (last_slope - secants[..., -2:-1]) * gaps[-1] / (gaps[-1] + gaps[-2])
    return concat([first_slope, inner_slopes, last_slope], axis=-1).astype(f.dtype, copy=False)


def diag(x: Operand, /, k: int = 0) -> Tensor:
    """Return the matrix with a vector on a diagonal, or a diagonal of a matrix.

    Parameters
    ----------
    x : Tensor
        1-D or 2-D.
    k : int, default 0
        The number of the diagonal. Diagonals above the main one have positive numbers.

    Returns
    -------
    Tensor
        For a vector, a new matrix with zeros off the diagonal; for a matrix, a view of the diagonal.

    Raises
    ------
    ShapeError
        If `x` has another number of axes; for those use `diagonal`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.diag(tx.asarray([1, 2])).tolist(), tx.diag(tx.eye(3), 1).tolist()
    ([[1, 0], [0, 2]], [0.0, 0.0])
    """
    x = asarray(x)
    if x.ndim not in (1, 2):
        raise ShapeError(f"diag: shape {x.shape} has {x.ndim} axes; it must have 1 (the diagonal of the result) or 2 (a matrix)")
    if x.ndim == 2:
        return x.diagonal(k)
    size = x.size + abs(validate_int("diag", "k", k))
    matrix = zeros((size, size), dtype=x.dtype)
    matrix.diagonal(k)[...] = x
    return matrix


def meshgrid(*arrays: Operand, indexing: str = "xy", sparse: bool = False) -> tuple[Tensor, ...]:
    """Return the coordinates of a grid, a tuple with a view for each 1-D tensor.

    Parameters
    ----------
    *arrays : Tensor
        The coordinates along each axis, 1-D; a 0-d tensor counts as one element.
    indexing : {"xy", "ij"}, default "xy"
        With "ij" the axes keep their order; with "xy" the first two are swapped.
    sparse : bool, default False
        If True, each view has size 1 along the axes of the other tensors, as in NumPy.

    Returns
    -------
    tuple of Tensor
        Views of the shape of the grid. A write of several values to repeated elements raises ReadOnlyError. Sparse views are writable.

    Raises
    ------
    ShapeError
        If a tensor has two axes or more.
    ArgumentError
        If `indexing` is another value.

    Examples
    --------
    >>> import tenxor as tx
    >>> x, y = tx.meshgrid(tx.arange(3), tx.arange(2)); x.tolist(), y.tolist()
    ([[0, 1, 2], [0, 1, 2]], [[0, 0, 0], [1, 1, 1]])
    """
    indexing = check_choice("meshgrid", "indexing", indexing, "xy", "ij")
    lines = [asarray(a) for a in arrays]
    for k, a in enumerate(lines):
        if a.ndim > 1:
            hint = "; write tx.meshgrid(*arrays) for a list of them" if isinstance(arrays[k], (list, tuple)) else ""
            raise ShapeError(f"meshgrid: array {k} has shape {a.shape}; all must be 1-D{hint}")
    shape = tuple(a.size for a in lines)
    n = len(lines)
    grids = [a.reshape(*(a.size if j == k else 1 for j in range(n))) for k, a in enumerate(lines)]
    if not check_flag("sparse", sparse):
        grids = [g.expand(shape) for g in grids]
    return tuple([g.swapaxes(0, 1) for g in grids] if indexing == "xy" and n > 1 else grids)


def _mask_triangle(op: str, x: Operand, k: int, keep: str) -> Tensor:
    """Return the matrices `x` with zeros where `keep`, a comparison of the column with the row plus `k`, is false.

    `keep` is the name of an operation, such as "less_equal" for a lower triangle. Raise ShapeError, beginning with `op`, for fewer than two
    axes.
    """
    x = asarray(x)
    if x.ndim < 2:
        raise ShapeError(f"{op}: shape {x.shape} has {x.ndim} axes; it must have at least 2, those of a matrix")
    rows, columns = make_flat_indices((x.shape[-2],)).expand_dims(1), make_flat_indices((x.shape[-1],))
    k = clamp_diagonal(op, k, *x.shape[-2:])
    return Tensor._compute(OPS["where"], Tensor._compute(OPS[keep], columns, rows + k), x, False)  # False becomes 0 of any dtype


@memoized_call
def tril(x: Operand, /, k: int = 0) -> Tensor:
    """Return the matrices in the last two axes of `x` with zeros above a diagonal, as a new tensor.

    Parameters
    ----------
    x : Tensor
        Two axes or more.
    k : int, default 0
        The number of the diagonal: 0 is the main one, diagonals above it have positive numbers.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.tril(tx.asarray([[1, 2], [3, 4]])).tolist()
    [[1, 0], [3, 4]]
    """
    return _mask_triangle("tril", x, k, "less_equal")


@memoized_call
def triu(x: Operand, /, k: int = 0) -> Tensor:
    """Return the matrices in the last two axes of `x` with zeros below a diagonal, as a new tensor.

    Parameters
    ----------
    x : Tensor
        Two axes or more.
    k : int, default 0
        The number of the diagonal: 0 is the main one, diagonals above it have positive numbers.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.triu(tx.asarray([[1, 2], [3, 4]])).tolist()
    [[1, 2], [0, 4]]
    """
    return _mask_triangle("triu", x, k, "greater_equal")
