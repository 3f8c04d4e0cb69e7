"""`View`: the map from positions to storage offsets on which layouts are built. A position is a tuple of indices, one for each axis; a
storage offset counts elements. A gathered axis has a table of offsets in place of a stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Self

import numpy as np

from ..errors import IndexOutOfRange
from .axes import Axis, IntArray, Tables, coalesce_axes, list_offsets
from .coords import Shape, format_wrong_count, is_symbolic, normalize_index, split_into_digits
from .layout_key import LayoutKey, get_layout_key


class View:
    """An immutable map from positions to offsets in a storage, in elements.

    Without `base`, position `(i, j, ...)` has storage offset `offset + strides[0]*i + strides[1]*j + ...`, where a gathered axis adds
    `tables[axis].offsets[i]` in place of `strides[axis]*i`. With `base`, a view chain, this sum is a flat index in `base.shape`, and `base`
    maps it to a storage offset.
    """

    __slots__ = ("_layout_key", "_hash", "base", "offset", "shape", "size", "strides", "tables")

    shape: Shape
    strides: Shape
    offset: int
    tables: Tables | None
    base: Self | None
    size: int
    _layout_key: LayoutKey | None
    _hash: int

    def __init__(
        self,
        shape: Shape,
        strides: Shape,
        offset: int = 0,
        tables: Tables | None = None,
        base: Self | None = None,
    ) -> None:
        self.shape = shape
        self.strides = strides
        self.offset = offset
        self.tables = tables
        self.base = base
        self.size = prod(shape)
        self._layout_key = None
        self._hash = 0

    @property
    def layout_key(self) -> LayoutKey:
        """The layout without its offset, interned: layouts with equal layout keys share one object."""
        layout_key = self._layout_key
        if layout_key is None:
            layout_key = self._layout_key = get_layout_key(self)
        return layout_key

    def at(self, offset: int) -> Self:
        """Return the view with the same layout key and the offset `offset`, in elements. A chain is returned unchanged."""
        if offset == self.offset or self.base is not None:
            return self
        view = type(self)(self.shape, self.strides, offset, self.tables)
        view._layout_key = self._layout_key
        return view

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def depth(self) -> int:
        """The number of views in the chain; 1 for a single view."""
        return 1 if self.base is None else 1 + self.base.depth

    @property
    def innermost(self) -> Self:
        """The last view of the chain, which maps to the storage itself."""
        view = self
        while view.base is not None:
            view = view.base
        return view

    def axes(self) -> list[Axis]:
        """Return size, stride and table of each axis of this view, without its base, as a new list of `Axis`."""
        if self.tables is None:
            return list(map(Axis, self.shape, self.strides))
        return list(map(Axis, self.shape, self.strides, self.tables))

    def ravel(self, coords: Sequence[int]) -> int:
        """Return the offset in the storage, in elements, of the element at `coords`. Negative ints count from the end.

        The view may have offset tables or be a chain. Raises IndexOutOfRange for a coordinate past its axis, or for more or fewer
        coordinates than axes, and BadIndex for a coordinate that is no integer.

        >>> View((3, 4, 5), (20, 5, 1)).ravel((1, 2, -1))
        34
        """
        if len(coords) != len(self.shape):
            raise IndexOutOfRange(format_wrong_count(len(coords), self.shape))
        position = self.offset
        if self.tables is None and self.base is None:  # the hot path of reading and writing one element
            for coord, size, stride in zip(coords, self.shape, self.strides):  # noqa: B905
                if type(coord) is not int or not -size <= coord < size:
                    break
                position += coord * stride if coord >= 0 else (coord + size) * stride
            else:
                return position
            position = self.offset
        for axis, (coord, size, stride) in enumerate(zip(coords, self.shape, self.strides, strict=True)):
            is_in_range = (type(coord) is int or is_symbolic(coord)) and 0 <= coord < size
            index = coord if is_in_range else normalize_index(coord, axis, size)
            table = None if self.tables is None else self.tables[axis]
            position += index * stride if table is None else int(table.offsets[index])
        base = self.base
        return position if base is None else base.ravel(split_into_digits(position, base.shape))

    def offsets(self) -> IntArray:
        """Return the storage offset of every element: a new int64 array of this shape."""
        result: IntArray = np.array(self.offset, dtype=np.int64)
        for axis in self.axes():
            result = result[..., None] + list_offsets(axis)
        return result if self.base is None else self.base._locate(result)

    def _locate(self, numbers: IntArray) -> IntArray:
        """Return the storage offsets of the elements with the flat indices `numbers`, which must be in range: a new int64 array of the same
        shape.
        """
        result = np.full_like(numbers, self.offset)
        for axis in reversed(coalesce_axes(self.axes())):
            numbers, digit = np.divmod(numbers, axis.size)
            result += digit * axis.stride if axis.table is None else axis.table.offsets[digit]
        return result if self.base is None else self.base._locate(result)
