"""NumPy's functions to join and divide tensors as rows, columns and blocks, and to take tensors apart along an axis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

from .._utils.aliases import argument_aliases
from ..dtypes import DTypeLike
from ..errors import ArgumentError
from ..graph.spec import memoized_call
from ..tensor import Tensor
from ..tensor.argument_parsing import check_section_count, normalize_axis
from ..tensor.core import Operand
from .concatenation import concat
from .creation import asarray

__all__ = [
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block",
    "column_stack",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "split",
    "unbind",
    "unstack",
    "vsplit",
    "vstack",
]


def _map_tensors(tensors: tuple[Any, ...], transform: Callable[[Tensor], Tensor]) -> Tensor | tuple[Tensor, ...]:
    """Return `transform` of each of `tensors`: the result itself for one tensor, else a tuple of results."""
    results = tuple([transform(asarray(t)) for t in tensors])
    return results[0] if len(results) == 1 else results


@overload
def atleast_1d(tensor: Operand, /) -> Tensor: ...
@overload
def atleast_1d(*tensors: Operand) -> tuple[Tensor, ...]: ...


def atleast_1d(*tensors: Operand) -> Tensor | tuple[Tensor, ...]:
    """Return a view with at least one axis, or a tuple of views for several tensors.

    Parameters
    ----------
    *tensors : Tensor
        One or several, of any shape and dtype.

    Returns
    -------
    Tensor or tuple of Tensor
        A 0-d tensor gets the shape `(1,)`. A tensor with at least one axis is returned itself.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.atleast_1d(tx.asarray(3)).shape
    (1,)
    """
    return _map_tensors(tensors, lambda t: t.reshape(1) if t.ndim == 0 else t)


@overload
def atleast_2d(tensor: Operand, /) -> Tensor: ...
@overload
def atleast_2d(*tensors: Operand) -> tuple[Tensor, ...]: ...


def atleast_2d(*tensors: Operand) -> Tensor | tuple[Tensor, ...]:
    """Return a view with at least two axes, or a tuple of views for several tensors.

    Parameters
    ----------
    *tensors : Tensor
        One or several, of any shape and dtype.

    Returns
    -------
    Tensor or tuple of Tensor
        A 1-D tensor becomes a row, a 0-d tensor a 1-by-1 matrix. A tensor with at least two axes is returned itself.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.atleast_2d(tx.arange(3)).shape
    (1, 3)
    """
    return _map_tensors(tensors, lambda t: t.expand_dims(tuple(range(2 - t.ndim))) if t.ndim < 2 else t)


@overload
def atleast_3d(tensor: Operand, /) -> Tensor: ...
@overload
def atleast_3d(*tensors: Operand) -> tuple[Tensor, ...]: ...


def atleast_3d(*tensors: Operand) -> Tensor | tuple[Tensor, ...]:
    """Return a view with at least three axes, or a tuple of views for several tensors.

    Parameters
    ----------
    *tensors : Tensor
        One or several, of any shape and dtype.

    Returns
    -------
    Tensor or tuple of Tensor
        A 1-D tensor of `n` elements gets the shape `(1, n, 1)`, an `m`-by-`n` matrix `(m, n, 1)`, and a 0-d tensor `(1, 1, 1)`. A tensor
        with at least three axes is returned itself.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.atleast_3d(tx.arange(3)).shape
    (1, 3, 1)
    """
    return _map_tensors(tensors, lambda t: atleast_2d(t).expand_dims(2) if t.ndim < 3 else t)


def _check_sequence(op: str, tensors: Any) -> Any:
    """Return `tensors`. Raise ArgumentError, beginning with `op`, for a 0-d tensor and for an object without iteration."""
    if not isinstance(tensors, Iterable) or getattr(tensors, "shape", None) == ():
        raise ArgumentError(f"{op}: the first argument must be a sequence of tensors, such as [x, y], not one {type(tensors).__name__}")
    return tensors


@argument_aliases
def vstack(tensors: Sequence[Operand], /, *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Tensor:
    """Return the tensors joined along the first axis, 1-D ones as rows, as a new tensor. (NumPy's `vstack`.)

    Parameters
    ----------
    tensors : Sequence[Tensor]
        At least one. All shapes are equal, except along the first axis.
    dtype : dtype, optional
        By default the dtype to which all tensors promote.
    casting : str, default "same_kind"
        Casts to `dtype` that are allowed, as in `concat`.

    Returns
    -------
    Tensor
        New tensor.

    Raises
    ------
    ArgumentError, DTypeError, ShapeError
        As in `concat`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.vstack([tx.arange(2), tx.ones((2, 2), dtype=tx.int64)]).tolist()
    [[0, 1], [1, 1], [1, 1]]
    """
    rows = [atleast_2d(t) for t in _check_sequence("vstack", tensors)]
    return concat(rows, dtype=dtype, casting=casting)


@argument_aliases
def hstack(tensors: Sequence[Operand], /, *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Tensor:
    """Return the tensors joined along the second axis, 1-D ones along their only axis, as a new tensor. (NumPy's `hstack`.)

    Parameters
    ----------
    tensors : Sequence[Tensor]
        At least one. All shapes are equal, except along the joined axis.
    dtype : dtype, optional
        By default the dtype to which all tensors promote.
    casting : str, default "same_kind"
        Casts to `dtype` that are allowed, as in `concat`.

    Returns
    -------
    Tensor
        New tensor.

    Raises
    ------
    ArgumentError, DTypeError, ShapeError
        As in `concat`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.hstack([tx.arange(2), tx.arange(3)]).tolist()
    [0, 1, 0, 1, 2]
    """
    operands = [atleast_1d(t) for t in _check_sequence("hstack", tensors)]
    axis = 0 if operands and operands[0].ndim == 1 else 1
    return concat(operands, axis, dtype=dtype, casting=casting)


@argument_aliases
def dstack(tensors: Sequence[Operand], /) -> Tensor:
    """Return the tensors joined along the third axis, as a new tensor. (NumPy's `dstack`.)

    Parameters
    ----------
    tensors : Sequence[Tensor]
        At least one. Each is first given three axes, as by `atleast_3d`. Then all shapes are equal, except along the third axis.

    Returns
    -------
    Tensor
        New tensor.

    Raises
    ------
    ArgumentError, DTypeError, ShapeError
        As in `concat`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.dstack([tx.arange(2), tx.arange(2)]).tolist()
    [[[0, 0], [1, 1]]]
    """
    return concat([atleast_3d(t) for t in _check_sequence("dstack", tensors)], 2)


@argument_aliases
def column_stack(tensors: Sequence[Operand], /) -> Tensor:
    """Return the tensors joined as columns of a new matrix. (NumPy's `column_stack`.)

    Parameters
    ----------
    tensors : Sequence[Tensor]
        At least one. A matrix gives all its columns, a 1-D tensor one column. All have equally many rows.

    Returns
    -------
    Tensor
        New matrix.

    Raises
    ------
    ArgumentError, DTypeError, ShapeError
        As in `concat`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.column_stack([tx.arange(2), tx.ones(2, dtype=tx.int64)]).tolist()
    [[0, 1], [1, 1]]
    """
    operands = [asarray(t) for t in _check_sequence("column_stack", tensors)]
    return concat([t.reshape(-1, 1) if t.ndim < 2 else t for t in operands], 1)


@argument_aliases
def block(blocks: Operand | Sequence[Operand], /) -> Tensor:
    """Return a new tensor assembled from nested lists of tensors. (NumPy's `block`.)

    Parameters
    ----------
    blocks : Tensor, or nested lists of Tensor
        The innermost lists are joined along the last axis, the lists around them along the axis before, and so on. Each block gets at least
        as many axes as the lists are deep.

    Returns
    -------
    Tensor
        New tensor.

    Raises
    ------
    ArgumentError
        For an empty list, and for lists of different depth.
    ShapeError
        Where blocks do not fit.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.block([[tx.eye(2), tx.zeros((2, 1))], [tx.ones((1, 3))]]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    depth = _nesting_depth(blocks)
    axes = max(depth, _max_ndim(blocks))
    return _join_blocks(blocks, depth, axes) if depth else asarray(blocks).copy()


def _nesting_depth(blocks: Any) -> int:
    """Return the depth of the nested lists `blocks`, 0 for a tensor. Raise ArgumentError for empty or unequally deep lists."""
    if not isinstance(blocks, list):
        return 0
    depths = {_nesting_depth(item) for item in blocks}
    if len(depths) != 1:
        if not depths:
            raise ArgumentError(
                "block: one of the nested lists is empty; every list must hold at least one tensor or list; leave empty lists out"
            )
        raise ArgumentError(f"block: lists are {min(depths)} and {max(depths)} deep; all lists must be nested equally deep")
    return 1 + depths.pop()


def _max_ndim(blocks: Any) -> int:
    """Return the largest number of axes of the tensors in the nested lists `blocks`."""
    return max(map(_max_ndim, blocks)) if isinstance(blocks, list) else asarray(blocks).ndim


def _join_blocks(blocks: Any, depth: int, axes: int) -> Tensor:
    """Return the nested lists `blocks`, `depth` levels deep, joined: the innermost along the last axis, each outer level one axis before.

    Blocks with fewer than `axes` axes get leading axes of size 1. At depth 0 a block is returned uncopied.
    """
    if not depth:
        t = asarray(blocks)
        expanded: Tensor = t.expand_dims(tuple(range(axes - t.ndim))) if t.ndim < axes else t
        return expanded
    return concat([_join_blocks(item, depth - 1, axes) for item in blocks], axes - depth)


@memoized_call
@argument_aliases
def unstack(x: Operand, /, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """Return a tuple of the slices at each index of an axis, the inverse of `stack`.

    Parameters
    ----------
    x : Tensor
    axis : int, default 0
        The axis that the slices do not have. PyTorch's `dim` is an alias.

    Returns
    -------
    tuple of Tensor
        Views; for a 1-D tensor new 0-d tensors.

    Raises
    ------
    AxisError
        If the axis does not exist.

    Examples
    --------
    >>> import tenxor as tx
    >>> [t.tolist() for t in tx.unstack(tx.asarray([[1, 2], [3, 4]]), axis=1)]
    [[1, 3], [2, 4]]
    """
    return asarray(x).unbind(axis)


unbind = unstack


@memoized_call
@argument_aliases
def split(x: Operand, sections: int | Sequence[int], /, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """Return a tuple of views that divide an axis into parts, as in NumPy.

    Parameters
    ----------
    x : Tensor
    sections : int or Sequence[int]
        A number of equal parts, or the indices at which to divide.
    axis : int, default 0
        The axis to divide. PyTorch's `dim` is an alias.

    Returns
    -------
    tuple of Tensor
        Views of `x`.

    Raises
    ------
    ShapeError
        If the axis does not divide into equal parts.
    AxisError
        If the axis does not exist.
    ArgumentError
        If indices are no integers, or if nearly all of many parts would be empty.

    Examples
    --------
    >>> import tenxor as tx
    >>> [t.tolist() for t in tx.split(tx.arange(6), 2)], [t.tolist() for t in tx.split(tx.arange(4), [1, 3])]
    ([[0, 1, 2], [3, 4, 5]], [[0], [1, 2], [3]])
    """
    return asarray(x).split(sections, axis)


@memoized_call
@argument_aliases
def array_split(x: Operand, sections: int | Sequence[int], /, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """Return a tuple of views that divide an axis into a number of parts, or at the given indices. (NumPy's `array_split`.)

    Parameters
    ----------
    x : Tensor
    sections : int or Sequence[int]
        Number of parts, at least 1, or ascending indices to divide at. If the axis does not divide evenly, the first parts are one element
        longer.
    axis : int, default 0
        The axis to divide. `dim` is another name of `axis`.

    Returns
    -------
    tuple of Tensor
        Views of `x`.

    Raises
    ------
    AxisError
        If `axis` does not exist.
    ArgumentError
        For fewer than one part.

    Examples
    --------
    >>> import tenxor as tx
    >>> [t.tolist() for t in tx.array_split(tx.arange(5), 3)]
    [[0, 1], [2, 3], [4]]
    """
    x = asarray(x)
    axis_index = normalize_axis("array_split", axis, x.ndim)
    if isinstance(sections, int):
        if sections < 1:
            raise ArgumentError(f"array_split: the number of parts is {sections}; it must be 1 or more")
        check_section_count("array_split", sections, x.shape[axis_index])
        size, longer_count = x.shape[axis_index] // sections, x.shape[axis_index] % sections
        sections = [k * size + min(k, longer_count) for k in range(1, sections)]
    views: tuple[Tensor, ...] = x.split(sections, axis_index)
    return views


def vsplit(x: Operand, sections: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """Return a tuple of views that divide the first axis, as `split` does.

    Parameters
    ----------
    x : Tensor
    sections : int or Sequence[int]
        The number of equal parts, or ascending indices to divide at.

    Returns
    -------
    tuple of Tensor
        Views of `x`.

    Raises
    ------
    AxisError, ShapeError
        If the axis does not exist, or does not divide into equal parts.

    Examples
    --------
    >>> import tenxor as tx
    >>> [t.shape for t in tx.vsplit(tx.ones((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    views: tuple[Tensor, ...] = asarray(x).split(sections, 0)
    return views


def hsplit(x: Operand, sections: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """Return a tuple of views that divide the second axis, or the only axis of a 1-D tensor, as `split` does.

    Parameters
    ----------
    x : Tensor
    sections : int or Sequence[int]
        The number of equal parts, or ascending indices to divide at.

    Returns
    -------
    tuple of Tensor
        Views of `x`.

    Raises
    ------
    AxisError, ShapeError
        If `x` is 0-d, or if the axis does not divide into equal parts.

    Examples
    --------
    >>> import tenxor as tx
    >>> [t.shape for t in tx.hsplit(tx.ones((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    x = asarray(x)
    views: tuple[Tensor, ...] = x.split(sections, min(1, max(x.ndim - 1, 0)))
    return views


def dsplit(x: Operand, sections: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """Return a tuple of views that divide the third axis, as `split` does.

    Parameters
    ----------
    x : Tensor
    sections : int or Sequence[int]
        The number of equal parts, or ascending indices to divide at.

    Returns
    -------
    tuple of Tensor
        Views of `x`.

    Raises
    ------
    AxisError, ShapeError
        If the axis does not exist, or does not divide into equal parts.

    Examples
    --------
    >>> import tenxor as tx
    >>> [t.shape for t in tx.dsplit(tx.ones((1, 2, 4)), 2)]
    [(1, 2, 2), (1, 2, 2)]
    """
    views: tuple[Tensor, ...] = asarray(x).split(sections, 2)
    return views
