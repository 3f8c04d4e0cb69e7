"""NumPy's functions to join and divide tensors as rows, columns and blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

from ..creation import asarray
from ..dtypes import DTypeLike
from ..errors import ArgumentError
from ..keywords import spelled
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import axis_of, check_parts
from ..tensor.core import Operand
from .into import as_called
from .joining import concat

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
    "vsplit",
    "vstack",
]


def _map_tensors(tensors: tuple[Any, ...], transform: Callable[[Tensor], Tensor]) -> Tensor | tuple[Tensor, ...]:
    """Apply `transform` to each tensor. Return the result for one tensor, else a tuple of results."""
    results = tuple([transform(asarray(t)) for t in tensors])
    return results[0] if len(results) == 1 else results


@overload
def atleast_1d(tensor: Operand, /) -> Tensor: ...
@overload
def atleast_1d(*tensors: Operand) -> tuple[Tensor, ...]: ...


def atleast_1d(*tensors: Operand) -> Tensor | tuple[Tensor, ...]:
    """Return a view with at least one axis, or a tuple of views for several tensors: a 0-d tensor becomes one of shape (1,).

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
    """Return a view with at least two axes, or a tuple of views for several tensors: a 1-D tensor becomes a row.

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

    A 1-D tensor of `n` elements becomes `(1, n, 1)`, a matrix `(m, n, 1)`.

    >>> import tenxor as tx
    >>> tx.atleast_3d(tx.arange(3)).shape
    (1, 3, 1)
    """
    return _map_tensors(tensors, lambda t: atleast_2d(t).expand_dims(2) if t.ndim < 3 else t)


def _check_sequence(op: str, tensors: Any) -> Any:
    """Return `tensors`. Raise ArgumentError if they are not a sequence of tensors."""
    if not isinstance(tensors, Iterable) or getattr(tensors, "shape", None) == ():
        raise ArgumentError(f"{op}: takes a sequence of tensors, not one {type(tensors).__name__}")
    return tensors


@spelled
def vstack(tensors: Sequence[Operand], /, *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Tensor:
    """Return the tensors joined along the first axis, 1-D ones as rows, as a new tensor.

    `dtype` and `casting` are those of `concat`. (NumPy's `vstack`.)

    >>> import tenxor as tx
    >>> tx.vstack([tx.arange(2), tx.ones((2, 2), dtype=tx.int64)]).tolist()
    [[0, 1], [1, 1], [1, 1]]
    """
    rows = [atleast_2d(t) for t in _check_sequence("vstack", tensors)]
    return as_called("vstack", "concat", concat, rows, dtype=dtype, casting=casting)


@spelled
def hstack(tensors: Sequence[Operand], /, *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Tensor:
    """Return the tensors joined along the second axis, 1-D ones along their only axis, as a new tensor.

    `dtype` and `casting` are those of `concat`. (NumPy's `hstack`.)

    >>> import tenxor as tx
    >>> tx.hstack([tx.arange(2), tx.arange(3)]).tolist()
    [0, 1, 0, 1, 2]
    """
    operands = [atleast_1d(t) for t in _check_sequence("hstack", tensors)]
    axis = 0 if operands and operands[0].ndim == 1 else 1
    return as_called("hstack", "concat", concat, operands, axis, dtype=dtype, casting=casting)


@spelled
def dstack(tensors: Sequence[Operand], /) -> Tensor:
    """Return the tensors joined along the third axis, as a new tensor. (NumPy's `dstack`.)

    >>> import tenxor as tx
    >>> tx.dstack([tx.arange(2), tx.arange(2)]).tolist()
    [[[0, 0], [1, 1]]]
    """
    return as_called("dstack", "concat", concat, [atleast_3d(t) for t in _check_sequence("dstack", tensors)], 2)


@spelled
def column_stack(tensors: Sequence[Operand], /) -> Tensor:
    """Return the tensors joined as columns of a new matrix; 1-D ones are one column each. (NumPy's `column_stack`.)

    >>> import tenxor as tx
    >>> tx.column_stack([tx.arange(2), tx.ones(2, dtype=tx.int64)]).tolist()
    [[0, 1], [1, 1]]
    """
    operands = [asarray(t) for t in _check_sequence("column_stack", tensors)]
    return as_called("column_stack", "concat", concat, [t.reshape(-1, 1) if t.ndim < 2 else t for t in operands], 1)


@spelled
def block(blocks: Operand | Sequence[Operand], /) -> Tensor:
    """Return a new tensor assembled from nested lists of tensors.

    The innermost lists are joined along the last axis, the lists around them along the axis before, and so on. Each block gets at least as
    many axes as the lists are deep. Raise ArgumentError for empty lists, and lists of different depth; ShapeError where blocks do not fit.
    (NumPy's `block`.)

    >>> import tenxor as tx
    >>> tx.block([[tx.eye(2), tx.zeros((2, 1))], [tx.ones((1, 3))]]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    depth = _depth(blocks)
    axes = max(depth, _max_ndim(blocks))
    return _join_blocks(blocks, depth, axes) if depth else asarray(blocks).copy()


def _depth(blocks: Any) -> int:
    """Return the depth of nested lists, 0 for a tensor. Raise ArgumentError for empty or unequally deep lists."""
    if not isinstance(blocks, list):
        return 0
    depths = {_depth(item) for item in blocks}
    if len(depths) != 1:
        if not depths:
            raise ArgumentError("block: a list is empty")
        raise ArgumentError(f"block: lists are {min(depths)} and {max(depths)} deep; all are equally deep")
    return 1 + depths.pop()


def _max_ndim(blocks: Any) -> int:
    """Return the largest number of axes of the blocks."""
    return max(map(_max_ndim, blocks)) if isinstance(blocks, list) else asarray(blocks).ndim


def _join_blocks(blocks: Any, depth: int, axes: int) -> Tensor:
    """Join nested lists of blocks, `depth` levels deep. Each block is given `axes` axes."""
    if not depth:
        t = asarray(blocks)
        expanded: Tensor = t.expand_dims(tuple(range(axes - t.ndim))) if t.ndim < axes else t
        return expanded
    return as_called("block", "concat", concat, [_join_blocks(item, depth - 1, axes) for item in blocks], axes - depth)


@called_again
@spelled
def array_split(x: Operand, sections: int | Sequence[int], /, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """Return a tuple of views that divide an axis into a number of parts, or at the given indices.

    If the axis does not divide evenly, the first parts are one element longer. Raise AxisError, and ArgumentError for fewer than one part.
    (NumPy's `array_split`.)

    >>> import tenxor as tx
    >>> [t.tolist() for t in tx.array_split(tx.arange(5), 3)]
    [[0, 1], [2, 3], [4]]
    """
    x = asarray(x)
    axis_index = axis_of("array_split", axis, x.ndim)
    if isinstance(sections, int):
        if sections < 1:
            raise ArgumentError(f"array_split: {sections} parts are none; give 1 or more")
        check_parts("array_split", sections, x.shape[axis_index])
        size, longer_count = x.shape[axis_index] // sections, x.shape[axis_index] % sections
        sections = [k * size + min(k, longer_count) for k in range(1, sections)]
    views: tuple[Tensor, ...] = x.split(sections, axis_index)
    return views


def vsplit(x: Operand, sections: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """Return a tuple of views that divide the first axis, as `split` does.

    >>> import tenxor as tx
    >>> [t.shape for t in tx.vsplit(tx.ones((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    views: tuple[Tensor, ...] = asarray(x).split(sections, 0)
    return views


def hsplit(x: Operand, sections: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """Return a tuple of views that divide the second axis, or the only axis of a 1-D tensor, as `split` does.

    >>> import tenxor as tx
    >>> [t.shape for t in tx.hsplit(tx.ones((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    x = asarray(x)
    views: tuple[Tensor, ...] = x.split(sections, min(1, max(x.ndim - 1, 0)))
    return views


def dsplit(x: Operand, sections: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """Return a tuple of views that divide the third axis, as `split` does.

    >>> import tenxor as tx
    >>> [t.shape for t in tx.dsplit(tx.ones((1, 2, 4)), 2)]
    [(1, 2, 2), (1, 2, 2)]
    """
    views: tuple[Tensor, ...] = asarray(x).split(sections, 2)
    return views
