"""Indexing as in NumPy: slices, None, Ellipsis and ints give views, as many ints as axes an element.

Lists, integer arrays and boolean arrays give new tensors. A kernel reads elements through index arrays (`gathering.py`) or writes them
(`scattering.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_int
from typing import Any, Generic, Self, TypeVar

import numpy as np

from ..dtypes import DEFAULT_FLOAT, DType, Number, bfloat16, check_fits, float64
from ..errors import BadIndex, IndexOutOfRange, ShapeError, described
from ..keywords import spelled
from ..late import LateModule
from ..layout import Layout
from ..layout.portions import nonzero
from ..node import Node
from ..ops import OPS
from ..realize import glance, lock, realize
from ..storage import Element
from .arguments import axis_of
from .core import Core, Key, Operand, is_traced
from .exchange import Exchange
from .gathering import Selection, array_of
from .scattering import Scattering

ownership, at_once = LateModule("tenxor.ownership"), LateModule("tenxor.tensor.at_once")
traced = LateModule("tenxor.tensor.traced")
T = TypeVar("T", bound="Indexing")
IntArray = np.ndarray[Any, np.dtype[np.int64]]
_POINT, _POSITIVE = Layout.contiguous(()), OPS["positive"]
_BASIC = frozenset((int, slice, type(None), type(Ellipsis)))
_NUMBERS = frozenset((int, float, bool, complex))


class OIndex(Generic[T]):
    """The proxy `t.oindex[key]` for orthogonal indexing: an index for each axis, lists included. The result is always a view."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: T) -> None:
        self.tensor = tensor

    def _parts(self, key: Any) -> tuple[bool, tuple[Any, ...]]:
        """Return whether a part of a key is traced, and the parts; if so, as index arrays for every axis."""
        parts = self.tensor._key_of(key)
        if any(map(is_traced, parts)):
            return True, traced.open_mesh(self.tensor.layout.shape, parts)
        return False, parts

    def _selected(self, parts: tuple[Any, ...]) -> T:
        plain = [p if type(p) is list or type(p) in _BASIC else _plain(p) for p in parts]
        return self.tensor._view(self.tensor.layout.oindex(plain))

    def __getitem__(self, key: Key) -> T:
        is_mesh, parts = self._parts(key)
        t = self.tensor
        return t._gather(t._select_at("oindex", t.layout, parts)) if is_mesh else self._selected(parts)

    def __setitem__(self, key: Key, value: Operand) -> None:
        op = "oindex assignment"
        given = self.tensor._operand(value, op)
        is_mesh, parts = self._parts(key)
        if is_mesh:
            self.tensor._scatter(op, self.tensor._select_at("oindex", self.tensor.layout, parts), given)
        else:
            self._selected(parts)._write(given, op)


class Indexing(Scattering):
    """The indexing methods of `Tensor`."""

    __slots__ = ()

    def __getitem__(self, key: Key) -> Self:
        glance()
        parts = key if isinstance(key, tuple) else (key,)
        integers = True
        for part in parts:
            kind = type(part)
            if kind is not int:
                if kind not in _BASIC:
                    return self._get_advanced(parts)
                integers = False
        if integers and len(parts) == len(self.layout.shape):
            return self._element(parts)
        return self._view(self.layout.index(parts))

    def __setitem__(self, key: Key, value: Operand) -> None:
        glance()
        parts = key if isinstance(key, tuple) else (key,)
        for part in parts:
            if type(part) not in _BASIC:
                self._set_advanced(parts, self._operand(value, "assignment"))
                return
        if len(parts) == len(self.layout.shape):
            number: Any = value if type(value) in _NUMBERS else number_of(value, self.dtype)
            if number is not None and self._set_element(parts, number):
                return
        target = self._view(self.layout.index(parts))
        given: Any = self._operand(value, "assignment")
        if (
            isinstance(given, Core)
            and given.storage is target.storage
            and given.layout == target.layout
            and target.layout.is_injective()
        ):
            target.spec.writable = True
            return  # `t[key] += v` has written to it already
        target._write(given)

    @spelled
    def unbind(self, axis: int = 0, *, dim: int | None = None) -> tuple[Self, ...]:
        """Return the slices at each index of an axis: views, or for a 1-D tensor the elements as values."""
        layout = self.layout
        axis = axis_of("unbind", axis, layout.ndim)
        if layout.ndim == 1:
            return tuple(self)  # type: ignore[arg-type]  # iteration is defined in a derived class
        return tuple([self._view(one) for one in layout.along(axis)])

    unstack = unbind

    @property
    def oindex(self) -> OIndex[Self]:
        """A proxy for orthogonal indexing that returns views.

        The key has a part for each axis: None (the whole axis), an int, a slice, or a list of ints or bools, with repeats.

        >>> import tenxor as tx
        >>> t = tx.arange(20).reshape(4, 5)
        >>> b = t.oindex[[1, 1], :4]
        >>> t[1, 0] = 99
        >>> b.tolist()
        [[99, 6, 7, 8], [99, 6, 7, 8]]
        """
        return OIndex(self)

    # One element

    def _element(self, coords: Sequence[int]) -> Self:
        """Return a new 0-d tensor with the present value of an element."""
        offset = self.layout.ravel(coords)
        dtype = self.dtype
        node = self.storage.node
        buffer = node.buffer
        if buffer is None or node.past is not None:
            return self._of(Node.of(_POSITIVE, (), dtype, (self.node,), (Layout((), (), offset),)))
        return self.__class__(Element(dtype, buffer.typed(dtype).item(offset)), _POINT, dtype)

    def item(self, *coords: int) -> Any:
        """Return the only element, or the one at `coords`, as a Python number."""
        storage, layout, dtype = self.storage, self.layout, self.dtype
        if type(storage) is Element and layout is _POINT and not coords:
            number = storage.known(dtype)
            if number is not None:
                return number
        node = storage.node
        if node.buffer is None:
            if is_traced(self):
                traced.refuse_values("item", self)
            with lock:
                read = (
                    _read_of(node) if layout.shape == () and not coords and node.dtype is dtype is not bfloat16 else None
                )
                if read is not None:  # evaluate the whole source, since other elements of it are likely to be read, too
                    node, layout = read
            realize(node)  # without the lock, under which the fast path is not built
        if coords:
            offset = layout.ravel(coords)
        elif layout.size != 1:
            raise ShapeError(
                f"item: a tensor of shape {layout.shape} has {layout.size} elements, not one; give coordinates, or use tolist()"
            )
        elif layout.base is None:
            offset = layout.offset
        else:
            offset = layout.ravel((0,) * len(layout.shape))
        if dtype is bfloat16:
            return float(self._view(Layout.contiguous((), offset)).to_numpy())
        found: Number = node.buffer.typed(dtype).item(offset)  # type: ignore[union-attr]
        return found

    def _set_element(self, coords: tuple[Any, ...], value: Number) -> bool:
        """Write a number to memory at once and return True, or return False if a kernel must do the write."""
        dtype = self.dtype
        if dtype.is_complex:
            if type(value) is int:
                check_fits(value, DEFAULT_FLOAT, "assignment")
            low, high = dtype.lowest, dtype.highest
            if not (low <= value.real <= high and low <= value.imag <= high):
                return False  # NumPy would warn about the overflow
        elif isinstance(value, complex):
            return False
        elif dtype.kind != "float":
            if type(value) is float:
                return False
            if dtype.kind != "bool":
                check_fits(value, dtype, "assignment")
        elif dtype is bfloat16:
            return False
        elif type(value) is int:
            check_fits(value, DEFAULT_FLOAT, "assignment")
        if dtype is not float64 and not dtype.is_complex and not dtype.lowest <= value.real <= dtype.highest:
            return False  # NumPy would warn about the overflow
        for c in coords:
            if type(c) is not int:
                return False
        offset = self.layout.ravel(coords)
        with lock:
            if self.storage.node.buffer is None or self.storage.node.past is not None:
                return False
            shared = not ownership.alone(self.storage)  # queried first, since a local variable would count as a reference
            buffer = self.storage.node.buffer
            if buffer.frozen or (shared and not buffer.pins):
                return False
            buffer.typed(dtype)[offset] = value
            return True

    # Index arrays

    def _key_of(self, key: Any) -> tuple[Any, ...]:
        """Return the parts of a key, with lists that hold traced indices as tensors."""
        parts = key if isinstance(key, tuple) else (key,)
        return tuple([self._operand(p, "indexing") if type(p) is list and any(map(is_traced, p)) else p for p in parts])

    def _get_advanced(self, parts: tuple[Any, ...]) -> Self:
        parts = _advanced(self._key_of(parts))
        if all(type(p) in _BASIC for p in parts):
            return self[parts]
        found = at_once.read_at_once(self, parts)
        if found is not None:
            return self._copied(found, self.dtype)
        return self._gather(self._select_at("indexing", self.layout, parts))

    def _set_advanced(self, parts: tuple[Any, ...], value: Any) -> None:
        parts = self._key_of(parts)
        if any([is_traced(p) and p.dtype.kind == "bool" for p in parts]):
            traced.write_at_mask(self, parts, value)
            return
        mask = self._mask_of(parts)
        if mask is not None and not isinstance(value, Core) and self.layout.is_injective():
            self._write(self._compute(OPS["where"], mask, value, self))
            return
        parts = _advanced(parts)
        if all(type(p) in _BASIC for p in parts):
            self._view(self.layout.index(parts))._write(value)
        elif not at_once.write_at_once(self, parts, value):
            self._scatter("assignment", self._select_at("indexing", self.layout, parts), value)

    def _mask_of(self, parts: tuple[Any, ...]) -> Core | None:
        """Return the mask if the key is a single mask of this shape, else None. A number can be written at a mask without a search for true
        elements.
        """
        (mask, *more) = parts
        if more or getattr(mask, "shape", None) != self.layout.shape:
            return None
        if isinstance(mask, Core):
            return mask if mask.dtype.kind == "bool" else None
        return self._from_numpy(mask) if _is_boolean(mask) else None

    def _selection(self, op: str, layout: Layout, key: Any) -> Selection:
        """Return the selection by any key in a layout. A key without index arrays only changes the layout."""
        parts = _advanced(self._key_of(key))
        if all(type(p) in _BASIC for p in parts):
            return Selection(op, layout.index(parts), (), (), ())
        return self._select_at(op, layout, parts)

    def _select_at(self, op: str, layout: Layout, parts: tuple[Any, ...]) -> Selection:
        """Return the selection by a key with index arrays in a layout."""
        if len(parts) == 1 and not _is_boolean(parts[0]) and layout.shape:
            return self._select(op, layout, (0,), (self._indices(op, parts[0]),), 0, (0,))
        if len(parts) == 1 and parts[0].ndim > 0 and layout.shape[: parts[0].ndim] == parts[0].shape:
            rows = layout.reshape((parts[0].size, *layout.shape[parts[0].ndim :]))
            found = self._from_numpy(nonzero(parts[0].reshape(-1))[0])
            return self._select(op, rows, (0,), (found,), 0, (0,))._replace(known=True)
        basic: list[Any] = []
        indices: list[Core] = []
        indexed: list[int] = []  # axes of the result of basic indexing
        axes: list[int] = []
        places: list[tuple[int, int]] = []  # of each advanced index and int: the position in the key, and among the remaining axes
        axis = 0
        for k, p in enumerate(_expanded(layout, parts)):
            left = len(basic) - sum(type(b) is int for b in basic)
            if p is Ellipsis:
                continue
            if type(p) is int:
                basic.append(p)
                places.append((k, left))
            elif p is None or type(p) is slice:
                basic.append(p)
            else:
                flag = isinstance(p, _Flag)
                basic.append(None if flag else slice(None))
                places.append((k, left))
                indexed.append(left)
                axes.append(axis)
                indices.append(self._indices(op, p.indices if flag else p))
            axis += basic[-1] is not None
        first, place = places[0]
        neighbours = [k for k, _ in places] == list(range(first, first + len(places)))
        return self._select(op, layout.index(tuple(basic)), indexed, indices, place if neighbours else 0, axes)

    def nonzero(self) -> tuple[Self, ...]:
        """Return a new int64 tensor for each axis: the indices of the non-zero elements, in row-major order.

        >>> import tenxor as tx
        >>> [i.tolist() for i in tx.asarray([[0, 1], [2, 0]]).nonzero()]
        [[0, 1], [1, 0]]
        """
        if self.layout.ndim == 0:
            raise ShapeError("nonzero: a 0-d tensor has no axes and so no indices; use x != 0")
        return tuple([self._of_array(i.astype(np.int64, copy=False)) for i in nonzero(self.to_numpy())])


def _are_indices(part: Any) -> bool:
    """Return whether a part of a key is an integer tensor with axes or without a value yet. A 0-d tensor with a value becomes a Python int.
    """
    return isinstance(part, Core) and part.dtype.is_integer and (len(part.layout.shape) > 0 or part.node.traced)


def _advanced(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key with index tensors unchanged, and the remaining parts as Python or NumPy objects."""
    return tuple([p if _are_indices(p) else _plain(p) for p in parts])


def _read_of(node: Node) -> tuple[Node, Layout] | None:
    """Return the source node and layout if a pending node is just an element of another node; otherwise None."""
    if node.op is _POSITIVE and node.shape == ():
        (source,), (layout,) = node.sources, node.layouts
        if type(source) is Node and layout is not None and source.dtype is node.dtype:
            return source, layout
    return None


def number_of(value: Any, dtype: DType) -> Number | None:
    """Return the known scalar of an assigned element tensor of this dtype, or None."""
    if isinstance(value, Core) and type(value.storage) is Element and value.layout is _POINT and value.dtype is dtype:
        return value.storage.known(dtype)
    return None


def _is_boolean(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype.kind == "b"


def _plain(part: Any) -> Any:
    """Return a part of a key as a Python or NumPy object: tensors and lists become arrays, NumPy integers become ints."""
    if type(part) in _BASIC:
        return part
    if isinstance(part, Exchange):
        if part.dtype.kind == "bool" and is_traced(part):
            traced.refuse_mask("indexing", part)
        part = part.to_numpy()
    elif hasattr(part, "__index__") and not isinstance(part, (bool, np.ndarray, np.bool_, type)) and not getattr(part, "shape", ()):
        return as_int(part)  # other libraries' arrays all have `__index__`; those with axes become arrays
    array = array_of("indexing", part)
    if array.dtype.kind not in "iub":
        if array.size == 0:
            return array.astype(np.int64)
        if array.dtype.kind not in "fc":  # NumPy's names of text and object dtypes would not help the user
            raise BadIndex(f"indexing: indices are integers or booleans, not {described(part)}")
        which = f"of shape {array.shape}" if array.ndim else f"like {described(part)}"
        raise BadIndex(f"indexing: indices are integers or booleans, not {array.dtype} {which}")
    if array.ndim == 0 and array.dtype.kind != "b":
        return int(array)
    return array


def _expanded(layout: Layout, parts: Sequence[Any]) -> list[Any]:
    """Return the key with boolean arrays as integer arrays, and an entry for each axis.

    An Ellipsis is kept and followed by its slices. Even without slices, the Ellipsis separates the index arrays before and after it.
    """
    used = sum(
        1 if type(p) in (int, slice) else p.ndim if p.dtype.kind == "b" else 1
        for p in parts
        if p is not None and p is not Ellipsis
    )
    if used > layout.ndim:
        raise IndexOutOfRange(f"indexing: {used} indices for a tensor of {layout.ndim} axes, shape {layout.shape}")
    key: list[Any] = []
    seen = False
    for p in parts:
        if p is Ellipsis:
            if seen:
                raise BadIndex("indexing: only one Ellipsis (...) is allowed in an index")
            seen = True
            key += [Ellipsis, *[slice(None)] * (layout.ndim - used)]
        elif _is_boolean(p):
            axis = sum(1 for k in key if k is not None and k is not Ellipsis and not isinstance(k, _Flag))
            sizes = layout.shape[axis : axis + p.ndim]
            if len(sizes) < p.ndim or any(given not in (0, size) for given, size in zip(p.shape, sizes, strict=True)):
                raise BadIndex(
                    f"indexing: a boolean index of shape {p.shape} does not match the sizes {sizes} from axis {axis} on"
                    f" of shape {layout.shape}"
                )
            key += nonzero(p) if p.ndim else [_Flag(bool(p))]
        else:
            key.append(p)
    if not seen:
        key += [slice(None)] * (layout.ndim - used)
    return key


class _Flag:
    """A single boolean as an index: a new axis of size 1 or 0."""

    def __init__(self, value: bool) -> None:
        self.indices = np.zeros(int(value), np.int64)
