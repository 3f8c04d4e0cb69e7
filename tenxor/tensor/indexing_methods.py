"""Indexing as in NumPy: slices, None, Ellipsis and ints give views, as many ints as axes an element.

Lists, integer arrays and boolean arrays give new tensors. A kernel reads elements through index arrays (`gather_methods.py`) or writes them
(`indexed_write_methods.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_int
from typing import Any, Generic, Self, TypeVar

import numpy as np

from .._utils.aliases import argument_aliases
from .._utils.lazy import LazyFunctions, LazyModule
from ..dtypes import DEFAULT_FLOAT, NUMBER_TYPES, DType, Number, bfloat16, check_fits, float64
from ..errors import BadIndex, IndexOutOfRange, ShapeError, describe_value
from ..graph.node import Node
from ..graph.storage import ScalarStorage
from ..layout import Layout
from ..layout.interruptible_chunks import nonzero
from ..ops import OPS
from ..runtime.realize import compute_lock, realize
from .argument_parsing import normalize_axis
from .conversion_methods import ConversionMethods
from .core import IndexKey, Operand, TensorBase, is_traced
from .gather_methods import GatherMethods, Selection, to_index_array
from .indexed_write_methods import IndexedWriteMethods

ownership, numpy_indexing = LazyModule("tenxor.graph.ownership"), LazyModule("tenxor.tensor.numpy_indexing")
traced_tensors, element_requests = LazyModule("tenxor.tensor.traced_tensors"), LazyFunctions("tenxor.runtime.element_requests")
T = TypeVar("T", bound="IndexingMethods")
IntArray = np.ndarray[Any, np.dtype[np.int64]]
_SCALAR_LAYOUT, _POSITIVE = Layout.contiguous(()), OPS["positive"]
_BASIC_TYPES = frozenset((int, slice, type(None), type(Ellipsis)))
_VALID_ITEMS = "an index must be an integer, a slice, None, ..., or a list or tensor of integers or booleans"


class OrthogonalIndexer(Generic[T]):
    """The proxy `t.oindex[key]` for orthogonal indexing: an index for each axis, lists included. The result is always a view."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: T) -> None:
        self.tensor = tensor

    def _split_key(self, key: Any) -> tuple[bool, tuple[Any, ...]]:
        """Return whether an item of the key is traced, and the items of the key.

        If an item is traced, the items are index arrays for every axis (`open_mesh`), for ordinary indexing; otherwise they are the key's
        own.
        """
        items = self.tensor._key_items(key)
        if any(map(is_traced, items)):
            return True, traced_tensors.open_mesh(self.tensor.layout.shape, items)
        return False, items

    def _view_at(self, items: tuple[Any, ...]) -> T:
        """Return the view at `items`, the items of a key without traced indices; the layout gets a table for a list or array."""
        normalized = [p if type(p) is list or type(p) in _BASIC_TYPES else _normalize_item(p) for p in items]
        return self.tensor._view(self.tensor.layout.oindex(normalized))

    def __getitem__(self, key: IndexKey) -> T:
        is_mesh, items = self._split_key(key)
        t = self.tensor
        return t._gather(t._select_at("oindex", t.layout, items)) if is_mesh else self._view_at(items)

    def __setitem__(self, key: IndexKey, value: Operand) -> None:
        op = "oindex assignment"
        operand = self.tensor._to_operand(value, op)
        is_mesh, items = self._split_key(key)
        if is_mesh:
            self.tensor._scatter(op, self.tensor._select_at("oindex", self.tensor.layout, items), operand)
        else:
            self._view_at(items)._write(operand, op)


class IndexingMethods(IndexedWriteMethods, GatherMethods):
    """The indexing methods of `Tensor`."""

    __slots__ = ()

    def __getitem__(self, key: IndexKey) -> Self:
        items = key if isinstance(key, tuple) else (key,)
        all_ints = True
        for item in items:
            item_type = type(item)
            if item_type is not int:
                if item_type not in _BASIC_TYPES:
                    return self._get_advanced(items)
                all_ints = False
        if all_ints and len(items) == len(self.layout.shape):
            return self._read_element(items)
        return self._view(self.layout.index(items))

    def __setitem__(self, key: IndexKey, value: Operand) -> None:
        items = key if isinstance(key, tuple) else (key,)
        for item in items:
            if type(item) not in _BASIC_TYPES:
                self._set_advanced(items, self._to_operand(value, "assignment"))
                return
        if len(items) == len(self.layout.shape):
            number: Any = value if type(value) in NUMBER_TYPES else known_scalar(value, self.dtype)
            if number is not None and self._set_element(items, number):
                return
        target = self._view(self.layout.index(items))
        operand: Any = self._to_operand(value, "assignment")
        if (
            isinstance(operand, TensorBase)
            and operand.storage is target.storage
            and operand.layout == target.layout
            and target.layout.is_injective()
        ):
            target.spec.is_writable = True
            return  # `t[key] += v` has written to it already
        self._compute_earlier_writes()
        target._write(operand)

    @argument_aliases
    def unbind(self, axis: int = 0, *, dim: int | None = None) -> tuple[Self, ...]:
        """Return the slices at each index of an axis.

        Parameters
        ----------
        axis : int, default 0
            PyTorch's `dim` is an alias.

        Returns
        -------
        tuple of Tensor
            Views without the axis. For a 1-D tensor, the elements as new 0-d tensors.

        Raises
        ------
        AxisError
            If the axis does not exist.

        Examples
        --------
        >>> import tenxor as tx
        >>> [x.tolist() for x in tx.asarray([[1, 2], [3, 4]]).unbind(1)]
        [[1, 3], [2, 4]]
        """
        layout = self.layout
        axis = normalize_axis("unbind", axis, layout.ndim)
        if layout.ndim == 1:
            return tuple(self)  # type: ignore[arg-type]  # iteration is defined in a derived class
        return tuple([self._view(slice_layout) for slice_layout in layout.along(axis)])

    unstack = unbind

    @property
    def oindex(self) -> OrthogonalIndexer[Self]:
        """Proxy for orthogonal indexing that returns views.

        The key has an item for each axis: None (the whole axis), an int, a slice, or a list of ints or bools, with repeats.

        >>> import tenxor as tx
        >>> t = tx.arange(20).reshape(4, 5)
        >>> b = t.oindex[[1, 1], :4]
        >>> t[1, 0] = 99
        >>> b.tolist()
        [[99, 6, 7, 8], [99, 6, 7, 8]]
        """
        return OrthogonalIndexer(self)

    # One element

    def _read_element(self, coords: Sequence[int]) -> Self:
        """Return a new 0-d tensor with the present value of the element at `coords`, one int for each axis.

        The result has a known scalar if the storage is in memory without a tape node; otherwise it is pending. Raise IndexOutOfRange for
        coordinates out of range.
        """
        offset = self.layout.ravel(coords)
        dtype = self.dtype
        node = self.storage.node
        buffer = node.buffer
        if buffer is None or node.tape_node is not None:
            return self._from_node(Node.of(_POSITIVE, (), dtype, (self.node,), (Layout((), (), offset),)))
        return self._from_number(buffer.typed_view(dtype).item(offset), dtype)

    def item(self, *coords: int) -> Any:
        """Return the only element, or the one at `coords`, as a Python number.

        Parameters
        ----------
        *coords : int
            An index for each axis. Without them the tensor must have one element.

        Returns
        -------
        bool, int, float or complex

        Raises
        ------
        ShapeError
            Without `coords`, unless there is exactly one element.
        IndexOutOfRange
            If a coordinate is out of range, or there is not one for each axis.
        TraceError
            For a tensor without values in a traced function.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([[1, 2], [3, 4]]).item(1, 0)
        3
        """
        storage, layout, dtype = self.storage, self.layout, self.dtype
        if type(storage) is ScalarStorage and layout is _SCALAR_LAYOUT and not coords:
            number = storage.get_known_number(dtype)
            if number is not None:
                return number
        node = storage.node
        if node.buffer is None:
            if is_traced(self):
                traced_tensors.refuse_values("item", self)
            with compute_lock:
                read = _find_element_read(node) if layout.shape == () and not coords and node.dtype is dtype is not bfloat16 else None
                is_whole = not (read or coords) or element_requests.charge_request(read[0] if read else node)
                if read and is_whole:
                    node, layout = read
            if coords and not is_whole:
                return self._read_element(coords).item()
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
        element: Number = node.buffer.typed_view(dtype).item(offset)  # type: ignore[union-attr]
        return element

    def _set_element(self, coords: tuple[Any, ...], value: Number) -> bool:
        """Write a Python number to the element at `coords` in memory and return True, or return False if `_write` must do the write.

        False stands for items of `coords` that are no ints, a pending, taped, read-only or shared storage, a value of a higher kind, and a
        value that overflows the dtype. Raise IndexOutOfRange for coordinates out of range, and OutOfBounds for an integer outside of the
        range of the dtype.
        """
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
        with compute_lock:
            if self.storage.node.buffer is None or self.storage.node.tape_node is not None:
                return False
            shared = not ownership.is_sole_owner(self.storage)  # queried first, since a local variable would count as a reference
            buffer = self.storage.node.buffer
            if buffer.is_read_only or (shared and not buffer.externally_shared):
                return False
            buffer.typed_view(dtype)[offset] = value
            return True

    # Index arrays

    def _key_items(self, key: Any) -> tuple[Any, ...]:
        """Return the items of the index key `key` as a tuple; a key other than a tuple is the only item.

        A list with a traced tensor in it, as inside `vmap`, becomes a tensor. Other lists stay lists.
        """
        items = key if isinstance(key, tuple) else (key,)
        return tuple([self._to_operand(p, "indexing") if type(p) is list and any(map(is_traced, p)) else p for p in items])

    def _get_advanced(self, items: tuple[Any, ...]) -> Self:
        """Return the new tensor selected by a key with index arrays, lists or index tensors, given as its items.

        Small reads are done now by NumPy (`read_by_numpy`); others are pending. If the arrays are 0-d integers, the key is read as a key of
        ints.
        """
        items = _normalize_items(self._key_items(items))
        if all(type(p) in _BASIC_TYPES for p in items):
            return self[items]
        elements = numpy_indexing.read_by_numpy(self, items)
        if elements is not None:
            return self._from_copy(elements, self.dtype)
        return self._gather(self._select_at("indexing", self.layout, items))

    def _set_advanced(self, items: tuple[Any, ...], value: Any) -> None:
        """Write the tensor or number `value` to the elements selected by a key with index arrays, lists or index tensors.

        `items` are the items of the key, and `value` broadcasts to the shape of the selection. Traced masks are allowed, too.
        """
        self._compute_earlier_writes()
        items = self._key_items(items)
        if any([is_traced(p) and p.dtype.kind == "bool" for p in items]):
            traced_tensors.write_at_mask(self, items, value)
            return
        mask = self._find_mask(items)
        if mask is not None and not isinstance(value, TensorBase) and self.layout.is_injective():
            self._write(self._compute(OPS["where"], mask, value, self))
            return
        items = _normalize_items(items)
        if all(type(p) in _BASIC_TYPES for p in items):
            self._view(self.layout.index(items))._write(value)
        elif not numpy_indexing.write_by_numpy(self, items, value):
            self._scatter("assignment", self._select_at("assignment", self.layout, items), value)

    def _find_mask(self, items: tuple[Any, ...]) -> TensorBase | None:
        """Return the mask as a tensor if the key is a single mask of exactly this shape, else None.

        A number can be written at a mask without a search for true elements.
        """
        (mask, *further_items) = items
        if further_items or getattr(mask, "shape", None) != self.layout.shape:
            return None
        if isinstance(mask, TensorBase):
            return mask if mask.dtype.kind == "bool" else None
        return self._from_numpy(mask) if _is_boolean(mask) else None

    def _select_by_key(self, op: str, layout: Layout, key: Any) -> Selection:
        """Return the selection by any key in `layout`, a layout of this storage. A key without index arrays only changes the layout.

        A selection of the latter kind has no indices. Errors name the operation `op`.
        """
        items = _normalize_items(self._key_items(key))
        if all(type(p) in _BASIC_TYPES for p in items):
            return Selection(op, layout.index(items), (), (), ())
        return self._select_at(op, layout, items)

    def _select_at(self, op: str, layout: Layout, items: tuple[Any, ...]) -> Selection:
        """Return the selection in `layout`, a layout of this storage, by a key with index arrays.

        `items` are the items of the key as `_normalize_items` returns them. As in NumPy, the axes of the index arrays come first unless the
        arrays are adjacent in the key. Raise IndexOutOfRange for too many indices, and BadIndex for index arrays of wrong shapes.
        """
        if len(items) == 1 and not _is_boolean(items[0]) and layout.shape:
            return self._select(op, layout, (0,), (self._to_index_tensor(op, items[0]),), 0, (0,))
        if len(items) == 1 and items[0].ndim > 0 and layout.shape[: items[0].ndim] == items[0].shape:
            rows = layout.reshape((items[0].size, *layout.shape[items[0].ndim :]))
            mask_indices = self._from_numpy(nonzero(items[0].reshape(-1))[0])
            return self._select(op, rows, (0,), (mask_indices,), 0, (0,))._replace(is_in_range=True)
        basic: list[Any] = []
        indices: list[TensorBase] = []
        indexed: list[int] = []  # axes of the result of basic indexing
        axes: list[int] = []
        positions: list[tuple[int, int]] = []  # of each advanced index and int: the position in the key, and among the remaining axes
        axis = 0
        for k, p in enumerate(_expand_items(layout, items)):
            axis_count = len(basic) - sum(type(b) is int for b in basic)
            if p is Ellipsis:
                continue
            if type(p) is int:
                basic.append(p)
                positions.append((k, axis_count))
            elif p is None or type(p) is slice:
                basic.append(p)
            else:
                is_flag = isinstance(p, _BooleanIndex)
                basic.append(None if is_flag else slice(None))
                positions.append((k, axis_count))
                indexed.append(axis_count)
                axes.append(axis)
                indices.append(self._to_index_tensor(op, p.indices if is_flag else p))
            axis += basic[-1] is not None
        first_in_key, first_axis = positions[0]
        are_adjacent = [k for k, _ in positions] == list(range(first_in_key, first_in_key + len(positions)))
        return self._select(op, layout.index(tuple(basic)), indexed, indices, first_axis if are_adjacent else 0, axes)

    def nonzero(self) -> tuple[Self, ...]:
        """Return the indices of the non-zero elements, in row-major order, as a new int64 tensor for each axis. See `tx.nonzero`.

        Raise ShapeError for a 0-d tensor.

        >>> import tenxor as tx
        >>> [i.tolist() for i in tx.asarray([[0, 1], [2, 0]]).nonzero()]
        [[0, 1], [1, 0]]
        """
        if self.layout.ndim == 0:
            raise ShapeError("nonzero: a 0-d tensor has no axes and so no indices; use x != 0")
        return tuple([self._from_array(i.astype(np.int64, copy=False)) for i in nonzero(self.to_numpy())])


def _is_index_tensor(item: Any) -> bool:
    """Return whether an item of a key is an integer tensor with axes or without a value yet. A 0-d tensor with a value
    becomes a Python int.
    """
    return isinstance(item, TensorBase) and item.dtype.is_integer and (len(item.layout.shape) > 0 or item.node.is_traced)


def _normalize_items(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the items of a key: integer tensors with axes, and traced ones, unchanged, the others as by `_normalize_item`."""
    return tuple([p if _is_index_tensor(p) else _normalize_item(p) for p in items])


def _find_element_read(node: Node) -> tuple[Node, Layout] | None:
    """Return the source node and the layout of the element read, if a pending 0-d node is just an element of another node.

    Return None for any other node, also for an element of another dtype.
    """
    if node.op is _POSITIVE and node.shape == ():
        (source,), (layout,) = node.sources, node.layouts
        if type(source) is Node and layout is not None and source.dtype is node.dtype:
            return source, layout
    return None


def known_scalar(value: Any, dtype: DType) -> Number | None:
    """Return the known number of the 0-d tensor `value`, or None if `value` has a node or a dtype besides `dtype`, or is no 0-d tensor."""
    if isinstance(value, TensorBase) and type(value.storage) is ScalarStorage and value.layout is _SCALAR_LAYOUT and value.dtype is dtype:
        return value.storage.get_known_number(dtype)
    return None


def _is_boolean(item: Any) -> bool:
    """Return whether an item of a key is a NumPy array of booleans."""
    return isinstance(item, np.ndarray) and item.dtype.kind == "b"


def _normalize_item(item: Any) -> Any:
    """Return an item of a key as a Python or NumPy object: tensors and lists become arrays; NumPy and 0-d integers become ints.

    An empty list becomes an int64 array, and a bool a 0-d array. Raise BadIndex for items that are neither integers nor booleans, and
    TraceError for a traced mask.
    """
    if type(item) in _BASIC_TYPES:
        return item
    if isinstance(item, ConversionMethods):
        if item.dtype.kind == "bool" and is_traced(item):
            traced_tensors.refuse_mask("indexing", item)
        item = item.to_numpy()
    elif hasattr(item, "__index__") and not isinstance(item, (bool, np.ndarray, np.bool_, type)) and not getattr(item, "shape", ()):
        return as_int(item)  # an array of another library has `__index__`, with axes too
    array = to_index_array("indexing", item)
    if array.dtype.kind not in "iub":
        if array.size == 0:
            return array.astype(np.int64)
        if array.dtype.kind not in "fc":  # NumPy's names of text and object dtypes would not help the user
            raise BadIndex(f"indexing: {_VALID_ITEMS}, not {describe_value(item)}")
        description = f"of shape {array.shape}" if array.ndim else f"like {describe_value(item)}"
        raise BadIndex(f"indexing: {_VALID_ITEMS}, not {array.dtype} {description}")
    if array.ndim == 0 and array.dtype.kind != "b":
        return int(array)
    return array


def _expand_items(layout: Layout, items: Sequence[Any]) -> list[Any]:
    """Return the key with boolean arrays as integer arrays, and an entry for each axis of `layout`.

    An Ellipsis is kept and followed by its slices. Even without slices, the Ellipsis separates the index arrays before and after it. A
    single boolean becomes a `_BooleanIndex`, to add an axis. Raise IndexOutOfRange for too many indices, and BadIndex for a second Ellipsis
    or a boolean array of a wrong shape.
    """
    used_axes = sum(
        1 if type(p) in (int, slice) else p.ndim if p.dtype.kind == "b" else 1 for p in items if p is not None and p is not Ellipsis
    )
    if used_axes > layout.ndim:
        raise IndexOutOfRange(
            f"indexing: {used_axes} indices for shape {layout.shape}; give at most one for each of its {layout.ndim} axes"
        )
    key: list[Any] = []
    has_ellipsis = False
    for p in items:
        if p is Ellipsis:
            if has_ellipsis:
                raise BadIndex("indexing: only one Ellipsis (...) is allowed in an index")
            has_ellipsis = True
            key += [Ellipsis, *[slice(None)] * (layout.ndim - used_axes)]
        elif _is_boolean(p):
            axis = sum(1 for k in key if k is not None and k is not Ellipsis and not isinstance(k, _BooleanIndex))
            sizes = layout.shape[axis : axis + p.ndim]
            if len(sizes) < p.ndim or any(mask_size not in (0, size) for mask_size, size in zip(p.shape, sizes, strict=True)):
                raise BadIndex(
                    f"indexing: a boolean index of shape {p.shape} does not match the sizes {sizes} from axis {axis} on"
                    f" of shape {layout.shape}; they must be equal"
                )
            key += nonzero(p) if p.ndim else [_BooleanIndex(bool(p))]
        else:
            key.append(p)
    if not has_ellipsis:
        key += [slice(None)] * (layout.ndim - used_axes)
    return key


class _BooleanIndex:
    """A single boolean as an index: a new axis of size 1 or 0."""

    def __init__(self, value: bool) -> None:
        self.indices = np.zeros(int(value), np.int64)
