"""`Layout`: a view of a storage, with view operations (moves), composition and exact predicates; none touches data. A layout maps the
positions of a view to offsets in a storage, in elements. A gathered axis has a table of offsets in place of a stride. In a view chain, the
offsets of a view are row-major indices into the next view, its base.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.cache_registry import register
from .._utils.lazy import LazyFunctions
from ..errors import AxisError, IndexOutOfRange
from . import queries, view_ops
from .axes import Axis, Tables, axis_from_offsets
from .coords import Shape, checked_axis, contiguous_strides, normalize_permutation, validate_shape
from .indexing import apply_basic_index, apply_orthogonal_index
from .layout_key import LayoutKey, find_layout_key, layout_keys
from .reshape import ReshapePlan, compute_strides, plan_steps, reshape_axes, resolve_shape
from .view import View

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .inverse import Adjoint

compose, explain, inverse = (LazyFunctions(f"tenxor.layout.{name}") for name in ("compose", "explain", "inverse"))

# Composing more views than this at every element would cost more than looking the offset up in a table.
MAX_CHAIN_DEPTH = 8


class Layout(View):
    """A map from the positions of a view to offsets in a storage, in elements: immutable, hashable, cheap.

    The base class `View` evaluates the map. `Layout` adds the moves, each of which returns another layout of the same storage, and exact
    predicates.

    >>> Layout.contiguous((2, 5, 6)).index((slice(None), 4))
    Layout(shape=(2, 6), strides=(30, 1), offset=24)
    """

    __slots__ = ()

    @staticmethod
    def contiguous(shape: Iterable[int], offset: int = 0) -> Layout:
        """Return the row-major layout of `shape`, beginning at `offset`. Raises ShapeError for a negative size.

        Layouts with offset 0 are cached, so the same object usually returns.
        """
        layout = _contiguous(tuple(shape))
        return layout if offset == 0 else Layout(layout.shape, layout.strides, offset)

    @staticmethod
    def gathered(offsets: ArrayLike) -> Layout:
        """Return the 1-d layout with the storage offsets `offsets`, in elements, flattened. Evenly spaced offsets give a stride, others a
        table. The offsets are copied, and not checked.
        """
        first_offset, axis = axis_from_offsets(np.asarray(offsets, dtype=np.int64).ravel())
        return _from_axes([axis], first_offset, None)

    # Composition

    def range(self) -> tuple[int, int] | None:
        """Return the lowest and the highest storage offset of an element; None for a layout without elements."""
        return queries.compute_offset_range(self)

    def over(self, base: Layout) -> Layout:
        """Return the layout that reads `base` at flat indices: an offset of this layout is a row-major index into `base.shape`.

        The result is one view where possible, else a view chain. Raises IndexOutOfRange for an index that is not in `base`.
        """
        reach = self.range()
        if reach is not None and (reach[0] < 0 or reach[1] >= base.size):
            raise IndexOutOfRange(
                f"over: the layout reads flat indices from {reach[0]} to {reach[1]}; they must be from 0 to {base.size - 1} in shape"
                f" {base.shape}"
            )
        return self._over(base)

    def _over(self, base: Layout) -> Layout:
        """Return `over(base)` for flat indices that are known to be in range."""
        if self.base is not None:
            base = self.base._over(base)
        level = Layout(self.shape, self.strides, self.offset, self.tables)
        if level.size == 0:
            return level
        while True:
            reads_all = level.size == base.size and level.offset == 0 and queries.has_row_major_strides(level)
            if reads_all and level.shape == base.shape:
                return base
            composed = compose.compose(level, base)
            if composed is None:
                if reads_all and base.base is not None:
                    return base._reshaped(level.shape)
                return level._chain_onto(base)
            level = _from_axes(composed[1], composed[0], None)
            if base.base is None:
                return level
            base = base.base

    def _chain_onto(self, base: Layout) -> Layout:
        """Return a chain of this view and `base`; this view must be a single one, with flat indices of `base` as offsets.

        From `MAX_CHAIN_DEPTH` views in `base` on, `base` is replaced by a table of its offsets instead.
        """
        if base.depth < MAX_CHAIN_DEPTH:
            return Layout(self.shape, self.strides, self.offset, self.tables, base)
        return self._over(Layout.gathered(base.offsets()))

    def _with_strides(self, shape: Shape, strides: Shape, offset: int) -> Layout:
        """Return the view with this shape, strides and offset (in elements) over the base of this one, simplified if this heads a chain.
        Tables of this view are dropped.
        """
        moved = Layout(shape, strides, offset)
        return moved if self.base is None else moved._over(self.base)

    def _identity(self) -> Layout:
        """Return the contiguous layout of this shape.

        A move of a gathered layout is made on this layout, and the result then reads the gathered one (`_over`).
        """
        return Layout.contiguous(self.shape)

    # Moves: each returns a view of the same storage.

    def index(self, key: Sequence[Any]) -> Layout:
        """Return the view indexed by `key`: ints (which drop their axis), slices, None (a new axis) and at most one Ellipsis.

        Raises IndexOutOfRange for an int out of range or too many items, ArgumentError for a slice with step 0, BadIndex for anything else.

        >>> Layout.contiguous((30,)).index((slice(20, 5, -3),))
        Layout(shape=(5,), strides=(-3,), offset=20)
        """
        if self.tables is not None:
            return self._identity().index(key)._over(self)
        shape, strides, offset = apply_basic_index(key, self.shape, self.strides, self.offset)
        return self._with_strides(tuple(shape), tuple(strides), offset)

    def along(self, axis: int) -> Iterator[Layout]:
        """Iterate over the views at each index of `axis`, which is 0 or more, in order. The views lack this axis. `axis` must exist; it is
        not checked.

        >>> [row.offset for row in Layout.contiguous((3, 4)).along(0)]
        [0, 4, 8]
        """
        if self.tables is not None or self.base is not None:
            yield from (self.index((*(slice(None),) * axis, k)) for k in range(self.shape[axis]))
            return
        shape, strides = self.shape[:axis] + self.shape[axis + 1 :], self.strides[:axis] + self.strides[axis + 1 :]
        for k in range(self.shape[axis]):
            yield Layout(shape, strides, self.offset + k * self.strides[axis])

    def oindex(self, key: Sequence[Any], keepdims: bool = False) -> Layout:
        """Return the view indexed axis by axis with None (all), an int, a slice, or a list or array of ints or bools.

        Axes that the key leaves out are kept whole, and None adds no axis. An int drops its axis, or with `keepdims` leaves size 1. Raises
        the errors of `index`.

        >>> Layout.contiguous((4, 5)).oindex(([1, 1], slice(4))).shape
        (2, 4)
        """
        if self.tables is not None:
            return self._identity().oindex(key, keepdims)._over(self)
        shape, strides, offset, tables = apply_orthogonal_index(key, self.shape, self.strides, self.offset, keepdims)
        return _assemble(tuple(shape), tuple(strides), offset, tuple(tables), self.base)

    def select(self, axis: int, indices: ArrayLike) -> Layout:
        """Return the view with the listed `indices` of `axis`, in that order: integers that may repeat, or a bool for each index.

        Raises AxisError if the axis does not exist, and IndexOutOfRange for an index out of range.
        """
        axis = checked_axis(axis, self.ndim, "select")
        return self.oindex((*(None,) * axis, np.asarray(indices)))

    def permute(self, axes: Iterable[int]) -> Layout:
        """Return the view with the axes in the given order: axis k of the result is `axes[k]`. Raises AxisError unless each axis is named
        once.

        >>> Layout.contiguous((2, 3, 4)).permute((1, 2, 0)).shape
        (3, 4, 2)
        """
        return self._pick_axes(normalize_permutation(tuple(axes), len(self.shape)))

    def swapaxes(self, a: int, b: int) -> Layout:
        """Return the view with the axes `a` and `b` exchanged. Raises AxisError if an axis does not exist."""
        ndim = len(self.shape)
        a, b = checked_axis(a, ndim, "swapaxes"), checked_axis(b, ndim, "swapaxes")
        order = list(range(ndim))
        order[a], order[b] = b, a
        return self.permute(order)

    def moveaxis(self, source: int | Iterable[int], destination: int | Iterable[int]) -> Layout:
        """Return the view with the axes `source` at the positions `destination`, and the remaining axes in their order.

        Raises AxisError if an axis or a position does not exist or is named twice, or if the two differ in number.
        """
        return self.permute(view_ops.compute_axis_order(source, destination, len(self.shape)))

    def transpose(self) -> Layout:
        """Return the view with the axes in reverse order."""
        if self.base is None and self.tables is None:
            return Layout(self.shape[::-1], self.strides[::-1], self.offset)
        return self.permute(range(len(self.shape) - 1, -1, -1))

    def reshape(self, shape: Iterable[int]) -> Layout:
        """Return the view of the same elements, in row-major order, in another shape; one size may be -1.

        The result is a view chain where one view cannot express it. Raises ShapeError if the sizes do not multiply out.

        >>> Layout.contiguous((2, 3)).transpose().reshape((6,)).offsets().tolist()
        [0, 3, 1, 4, 2, 5]
        """
        return self._reshaped(resolve_shape(shape, self.shape, self.size))

    def _reshaped(self, shape: Shape) -> Layout:
        """Return the view reshaped to `shape`, which has as many elements and no -1; neither is checked. The result is a view chain where
        one view cannot express it.
        """
        if self.tables is None:
            strides = compute_strides(self.shape, self.strides, shape)
            if strides is not None:
                return self._with_strides(shape, strides, self.offset)
        else:
            axes = reshape_axes(self.axes(), shape)
            if axes is not None:
                return self._with_axes(axes)
        if self.base is not None:
            finer = self._split_for(shape)
            if finer is not None:
                return finer._reshaped(shape)
        return Layout.contiguous(shape)._chain_onto(self)

    def _split_for(self, shape: Shape) -> Layout | None:
        """Return this chain with its axes split as a reshape to `shape` splits them, if the result is a shorter chain; else None."""
        steps = plan_steps(self.shape, shape)[1]
        if len(steps) < 2 or prod(steps[0]) != self.size:
            return None
        axes = reshape_axes(self.axes(), steps[0])
        finer = None if axes is None else self._with_axes(axes)
        return finer if finer is not None and finer.depth < self.depth else None

    def reshape_plan(self, shape: Iterable[int]) -> ReshapePlan:
        """Return how `reshape(shape)` would split and merge axes, and whether one view can express the result. One size may be -1."""
        target = resolve_shape(shape, self.shape, self.size)
        kind, steps = plan_steps(self.shape, target)
        return ReshapePlan(kind, steps, self._reshaped(target).base is None)

    def flatten(self, start: int = 0, end: int = -1) -> Layout:
        """Return the view with the axes from `start` to `end`, both included, merged into one.

        The result is a view chain where one view cannot express it. A layout without axes gets one axis of size 1. Raises AxisError if
        `start` comes after `end`.

        >>> Layout.contiguous((3, 4, 5)).flatten(1, 2)
        Layout(shape=(3, 20), strides=(20, 1), offset=0)
        """
        shape = self.shape
        if not shape:
            return self._reshaped((1,))
        first_axis, last_axis = checked_axis(start, len(shape), "flatten"), checked_axis(end, len(shape), "flatten")
        if first_axis > last_axis:
            raise AxisError(f"flatten: axis {start} comes after axis {end}; the first to merge must come first")
        return self._reshaped((*shape[:first_axis], prod(shape[first_axis : last_axis + 1]), *shape[last_axis + 1 :]))

    def unflatten(self, axis: int, sizes: Iterable[int]) -> Layout:
        """Return the view with one axis split into `sizes`, of which one may be -1.

        Raises ShapeError if the sizes do not multiply to the size of the axis.

        >>> Layout.contiguous((3, 20)).unflatten(1, (-1, 5))
        Layout(shape=(3, 4, 5), strides=(20, 5, 1), offset=0)
        """
        axis = checked_axis(axis, len(self.shape), "unflatten")
        size = self.shape[axis]
        inner = resolve_shape(sizes, (size,), size, f"unflatten of axis {axis}")
        return self._reshaped((*self.shape[:axis], *inner, *self.shape[axis + 1 :]))

    def squeeze(self, axes: int | Iterable[int] | None = None) -> Layout:
        """Return the view without the `axes`, or for None without all axes of size 1.

        Raises ShapeError if one of `axes` has another size than 1, and AxisError if one does not exist or is named twice.
        """
        return self._pick_axes(view_ops.list_axes_after_squeeze(axes, self.shape))

    def expand_dims(self, axis: int | Iterable[int]) -> Layout:
        """Return the view with new axes of size 1, at the positions `axis` of the result.

        Raises AxisError for a position that does not exist or is named twice.
        """
        shape, strides = list(self.shape), list(self.strides)
        tables = None if self.tables is None else list(self.tables)
        for position in view_ops.list_insert_positions(axis, len(shape)):
            shape.insert(position, 1)
            strides.insert(position, 0)
            if tables is not None:
                tables.insert(position, None)
        gathered = None if tables is None else tuple(tables)
        return _assemble(tuple(shape), tuple(strides), self.offset, gathered, self.base)

    def expand(self, shape: Iterable[int]) -> Layout:
        """Return the view of `shape` in which axes of size 1, and new leading axes, repeat; -1 keeps a size.

        The view is read-only if anything repeats. Raises ShapeError naming both shapes and the axis that does not fit.

        >>> Layout.contiguous((3, 1)).expand((2, -1, 4)).strides
        (0, 1, 0)
        """
        sizes, strides = view_ops.expand(self.shape, self.strides, shape)
        tables = None if self.tables is None else (*(None,) * (len(sizes) - len(self.shape)), *self.tables)
        return _assemble(sizes, strides, self.offset, tables, self.base)

    def arranged(self, axes: Sequence[int | None], shape: Shape) -> Layout:
        """Return the view of `shape` whose axis k is the axis `axes[k]` of this view, or a new repeated axis for None.

        An axis of size 1 is repeated to the size in `shape`. Axes of this view that are not named must have size 1. Nothing is checked.

        >>> Layout.contiguous((3, 4)).arranged((1, None, 0), (4, 2, 3)).strides
        (1, 0, 4)
        """
        old, steps, tables = self.shape, self.strides, self.tables
        strides = tuple([0 if a is None or old[a] != n else steps[a] for a, n in zip(axes, shape, strict=True)])
        if tables is None and self.base is None:
            return Layout(shape, strides, self.offset)
        if tables is not None:
            tables = tuple([None if a is None or old[a] != n else tables[a] for a, n in zip(axes, shape, strict=True)])
        return _assemble(shape, strides, self.offset, tables, self.base)

    def flip(self, axes: int | Iterable[int] | None = None) -> Layout:
        """Return the view with the `axes`, or for None all axes, reversed. Raises AxisError if an axis does not exist or is named twice."""
        if self.tables is not None:
            return self._identity().flip(axes)._over(self)
        strides, offset = view_ops.flip(axes, self.shape, self.strides, self.offset)
        return self._with_strides(self.shape, strides, offset)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Layout:
        """Return the view of the elements whose index along `axis2` is the index along `axis1` plus `offset`.

        The diagonal is the last axis of the result, after the remaining axes, and may be empty. Raises AxisError if an axis does not exist,
        or both are the same.

        >>> Layout.contiguous((3, 4)).diagonal(1)
        Layout(shape=(3,), strides=(5,), offset=1)
        """
        if self.tables is not None:
            return self._identity().diagonal(offset, axis1, axis2)._over(self)
        shape, strides, start = view_ops.diagonal(self.shape, self.strides, offset, axis1, axis2)
        return self._with_strides(shape, strides, self.offset + start)

    def windows(self, axis: int, size: int, step: int = 1, dilation: int = 1) -> Layout:
        """Return the view of the windows of `size` along `axis`: the axis counts the windows, and a new last axis runs through each window.

        Neighbouring windows start `step` apart; the elements of a window are `dilation` apart. Raises ArgumentError for a size, step or
        dilation below 1, and ShapeError for a window longer than the axis.

        >>> Layout.contiguous((10,)).windows(0, 3, step=2).shape
        (4, 3)
        """
        if self.tables is not None:
            return self._identity().windows(axis, size, step, dilation)._over(self)
        shape, strides = view_ops.windows(self.shape, self.strides, axis, size, step, dilation)
        return self._with_strides(shape, strides, self.offset)

    def _pick_axes(self, order: Sequence[int]) -> Layout:
        """Return the view with the axes `order` of this view, 0 or more, in this order; the axes left out must have size 1. Nothing is
        checked.
        """
        shape, strides, tables = self.shape, self.strides, self.tables
        return _assemble(
            tuple([shape[axis] for axis in order]),
            tuple([strides[axis] for axis in order]),
            self.offset,
            None if tables is None else tuple([tables[axis] for axis in order]),
            self.base,
        )

    def _with_axes(self, axes: list[Axis]) -> Layout:
        """Return the view with `axes`, and the same offset and base, simplified if it heads a chain."""
        return _from_axes(axes, self.offset, self.base)

    # Inverse and adjoint

    def inverse(self) -> Layout:
        """Return the layout that undoes this one: its element `k` is the flat index of the position whose offset is `k`.

        Raises ArgumentError unless each offset from 0 to `size - 1` is reached once.

        >>> Layout.contiguous((2, 3)).transpose().inverse().offsets().tolist()
        [0, 2, 4, 1, 3, 5]
        """
        result: Layout = inverse.invert_layout(self)
        return result

    def adjoint(self, size: int) -> Adjoint[Layout]:
        """Return how to add values, one per position of this layout, into a storage of `size` elements; see `Adjoint`.

        Each element of the storage becomes the sum of the values at the positions that read the element, or 0. The result holds no values.

        >>> Layout.contiguous((4,)).expand((3, 4)).adjoint(4)
        Adjoint(summed=(0,), kind='view', layout=Layout(shape=(4,), strides=(1,), offset=0))
        >>> Layout.contiguous((4,)).windows(0, 2).adjoint(4).kind
        'accumulate'
        """
        result: Adjoint[Layout] = inverse.build_adjoint(self, size)
        return result

    # Exact predicates

    def is_contiguous(self) -> bool:
        """Return whether this is a single view that reads neighbouring elements in row-major order. The offset may be any."""
        return self.base is None and queries.has_row_major_strides(self)

    def is_injective(self) -> bool:
        """Return whether every position has an element of its own, so that the view may be written."""
        return queries.is_injective(self)

    def disjoint(self, other: Layout) -> bool:
        """Return whether this view and `other`, a view of the same storage, share no element. The answer is exact; an empty view shares
        none.
        """
        return queries.are_disjoint(self, other)

    def covers(self, count: int) -> bool:
        """Return whether this layout reaches every element of a storage of `count` elements, once or more often. The answer is exact."""
        return queries.covers(self, count)

    def same_as(self, other: Layout) -> bool:
        """Return whether this layout and `other` are the same map: one shape, and the same storage offset at every position."""
        return queries.is_same_map(self, other)

    def __eq__(self, other: object) -> bool:
        return queries.is_same_map(self, other) if isinstance(other, Layout) else NotImplemented

    def __hash__(self) -> int:
        if self._hash == 0:
            self._hash = hash((self.shape, queries.fingerprint(self))) or 1
        return self._hash

    def explain(self) -> str:
        """Return a text of several lines: the formula from position to storage offset, contiguity, and whether the view may be written."""
        text: str = explain.explain(self)
        return text

    def __repr__(self) -> str:
        tables = "" if self.tables is None else f", tables={self.tables}"
        base = "" if self.base is None else f", base={self.base}"
        return f"Layout(shape={self.shape}, strides={self.strides}, offset={self.offset}{tables}{base})"


def layout_key_of_dims(shape: Shape, strides: Shape) -> LayoutKey:
    """Return the interned `LayoutKey` of a single affine view with this `shape` and these `strides`, in elements. Nothing is checked."""
    layout_key = find_layout_key((shape, strides, None))
    return Layout(shape, strides).layout_key if layout_key is None else layout_key


@register("contiguous layouts", "a layout, by shape", depends_on=(layout_keys,))
@lru_cache(maxsize=4096)
def _contiguous(shape: Shape) -> Layout:
    """Return the row-major layout of `shape` from offset 0. Cached."""
    sizes = validate_shape(shape)
    return Layout(sizes, contiguous_strides(sizes))


def _from_axes(axes: list[Axis], offset: int, base: Layout | None) -> Layout:
    """Return the layout with these `axes` and this `offset` over `base` (None: the storage), simplified if it heads a chain."""
    shape = tuple([axis.size for axis in axes])
    strides = tuple([axis.stride for axis in axes])
    return _assemble(shape, strides, offset, tuple([axis.table for axis in axes]), base)


def _assemble(shape: Shape, strides: Shape, offset: int, tables: Tables | None, base: Layout | None) -> Layout:
    """Return the layout with this `shape`, `strides` and `offset` over `base` (None: the storage), simplified if it heads a chain.

    `tables` has None for an affine axis. Tables are dropped if no axis has one, or an axis has size 0.
    """
    if tables is not None and (0 in shape or tables == (None,) * len(tables)):
        tables = None
    layout = Layout(shape, strides, offset, tables)
    return layout if base is None else layout._over(base)
