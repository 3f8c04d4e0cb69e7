"""Methods that write or reduce values into elements at indices: `scatter`, `scatter_add`, `scatter_reduce`, `index_add`, `index_copy`,
`masked_scatter`, and `t.at[key]` for NumPy keys.

An element that is indexed several times takes the values in their order, as in NumPy's `ufunc.at`. Methods with a name ending in `_` work
in place. Their reductions also work through a view with an element at several positions.
"""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

from .._utils.aliases import argument_aliases
from ..dtypes import boolean, int64
from ..errors import ArgumentError, DTypeError, ShapeError, describe_value
from ..graph.node import Node, Scalar
from ..layout import Layout
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from .argument_parsing import check_choice, check_flag, normalize_axis
from .core import IndexKey, Operand, TensorBase
from .gather_methods import Selection
from .indexed_write_methods import identity_element
from .indexing_methods import IndexingMethods
from .write_methods import broadcast_layout

T = TypeVar("T", bound="ScatterMethods")
_REDUCTION_NAMES = {"sum": "sum", "prod": "prod", "amax": "max", "amin": "min", "max": "max", "min": "min"}  # by PyTorch or NumPy name


class AtIndexer(Generic[T]):
    """The proxy `t.at[key]`. Each method returns a new pending tensor: a copy of `t` with values written at the NumPy key `key`."""

    __slots__ = ("key", "tensor")

    def __init__(self, tensor: T, key: Any = ...) -> None:
        self.tensor, self.key = tensor, key

    def __getitem__(self, key: IndexKey) -> AtIndexer[T]:
        return AtIndexer(self.tensor, key)

    def _scatter_values(self, op: str, value: Any, reduce: str | None) -> T:
        """Return a new tensor with `value` written at the key, or reduced into the elements for a `reduce` other than None.

        `reduce` is "sum", "prod", "max" or "min". `value` broadcasts to the shape of `tensor[key]`. An element indexed several times takes
        the values in order. Errors name the operation `op`.
        """
        t = self.tensor
        selection = t._select_by_key(op, Layout.contiguous(t.layout.shape), self.key)
        return t._scatter_copy(op, selection, t._to_operand(value, op), reduce)

    def set(self, value: Operand) -> T:
        """Return a new tensor with `value` written at the key. If an element is indexed several times, the last value stays.

        `value`, here and in the further methods, is a number, or a tensor, array or sequence that broadcasts to the shape of `tensor[key]`.
        Raise ShapeError if it does not, and BadIndex or IndexOutOfRange for a wrong key.
        """
        return self._scatter_values("at.set", value, None)

    def add(self, value: Operand) -> T:
        """Return a new tensor: each element plus the sum of the values for it. Raise DTypeError for values of a higher kind."""
        return self._scatter_values("at.add", value, "sum")

    def multiply(self, value: Operand) -> T:
        """Return a new tensor: each element times the product of the values for it. Raise DTypeError for values of a higher kind."""
        return self._scatter_values("at.multiply", value, "prod")

    def min(self, value: Operand) -> T:
        """Return a new tensor: the minimum of each element and the values for it. Raise DTypeError for complex or higher kinds."""
        return self._scatter_values("at.min", value, "min")

    def max(self, value: Operand) -> T:
        """Return a new tensor: the maximum of each element and the values for it. Raise DTypeError for complex or higher kinds."""
        return self._scatter_values("at.max", value, "max")


class ScatterMethods(IndexingMethods):
    """The methods of `Tensor` that write or reduce values at indices."""

    __slots__ = ()

    @property
    def at(self) -> AtIndexer[Self]:
        """Proxy for functional updates: `t.at[key].set(v)` returns a new tensor with values written at a NumPy key.

        The methods `add`, `multiply`, `min` and `max` combine each element with the values for it.

        >>> import tenxor as tx
        >>> tx.zeros(4).at[[1, 1, -1]].add([1.0, 2.0, 5.0]).tolist()
        [0.0, 3.0, 0.0, 5.0]
        """
        return AtIndexer(self)

    @argument_aliases
    def index_add(
        self,
        axis: int | None = None,
        index: Operand | None = None,
        source: Operand | None = None,
        *,
        dim: int | None = None,
        alpha: Operand = 1,
    ) -> Self:
        """Return this tensor with `alpha * source` added at indices along an axis. See `tx.index_add`.

        Parameters
        ----------
        axis : int
            PyTorch's `dim` is an alias.
        index : Tensor or Sequence[int]
            Integers along the axis. Negative indices count from the end.
        source : Tensor, array, sequence or number
            Broadcasts to the shape of `take(index, axis)`.
        alpha : number or Tensor, default 1
            A factor for `source`.

        Returns
        -------
        Tensor
            New tensor of this shape and dtype.

        Raises
        ------
        ArgumentError
            If `axis`, `index` or `source` is missing.
        ShapeError
            If `source` does not broadcast.
        DTypeError
            If the values have a higher kind than this tensor (floats for integers).
        AxisError, BadIndex, IndexOutOfRange
            As in `take`.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.zeros(3).index_add(0, [0, 2, 0], tx.ones(3)).tolist()
        [2.0, 0.0, 1.0]
        """
        selection = self._select_rows("index_add", Layout.contiguous(self.layout.shape), axis, index, source)
        return self._scatter_copy("index_add", selection, self._scale_source("index_add", source, alpha), "sum")

    @argument_aliases
    def index_add_(
        self,
        axis: int | None = None,
        index: Operand | None = None,
        source: Operand | None = None,
        *,
        dim: int | None = None,
        alpha: Operand = 1,
    ) -> Self:
        """Add `alpha * source` at indices along an axis, in place, and return this tensor. See `tx.index_add`.

        Parameters
        ----------
        axis, index, source, alpha
            As in `index_add`, as are the errors.
        """
        selection = self._select_rows("index_add_", self.layout, axis, index, source)
        self._scatter("index_add_", selection, self._scale_source("index_add_", source, alpha), "sum")
        return self

    @argument_aliases
    def index_copy(
        self, axis: int | None = None, index: Operand | None = None, source: Operand | None = None, *, dim: int | None = None
    ) -> Self:
        """Return this tensor with the slices of `source` written at indices along an axis. See `tx.index_copy`.

        Parameters
        ----------
        axis : int
            PyTorch's `dim` is an alias.
        index : Tensor, Sequence[int] or int
            Integers with at most one axis. Negative indices count from the end. Of several slices for one index the last is kept.
        source : Tensor, array or sequence
            A slice for each index. The shape must equal `index_select(axis, index)`.

        Returns
        -------
        Tensor
            New tensor of this shape and dtype. The values are cast.

        Raises
        ------
        ArgumentError
            If `axis`, `index` or `source` is missing.
        ShapeError
            If `source` has another shape, or `index` several axes.
        DTypeError
            For complex values in a real tensor.
        AxisError, BadIndex, IndexOutOfRange
            As in `take`.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.zeros(3).index_copy(0, [2, 0], [1.0, 2.0]).tolist()
        [2.0, 0.0, 1.0]
        """
        op = "index_copy"
        selection, value = self._select_slices(op, Layout.contiguous(self.layout.shape), axis, index, source)
        return self._scatter_copy(op, selection, value)

    @argument_aliases
    def index_copy_(
        self, axis: int | None = None, index: Operand | None = None, source: Operand | None = None, *, dim: int | None = None
    ) -> Self:
        """Write the slices of `source` at indices along an axis, in place, and return this tensor. See `tx.index_copy`.

        Parameters
        ----------
        axis, index, source
            As in `index_copy`, as are the errors.

        Raises
        ------
        ReadOnlyError
            For a view with an element at several positions.
        """
        selection, value = self._select_slices("index_copy_", self.layout, axis, index, source)
        self._scatter("index_copy_", selection, value)
        return self

    @argument_aliases
    def scatter(
        self,
        axis: int | None = None,
        index: Operand | None = None,
        src: Operand | None = None,
        *,
        dim: int | None = None,
        value: Operand | None = None,
        reduce: str | None = None,
    ) -> Self:
        """Return this tensor with the elements of `src` written at indices along an axis: `out[i][index[i][j]] = src[i][j]` for axis 1.

        See `tx.scatter`.

        Parameters
        ----------
        axis : int
            PyTorch's `dim` is an alias.
        index : Tensor or Sequence[int]
            Integers with as many axes as this tensor, and no longer on axes other than `axis`. Negative indices count from the end.
        src : Tensor, array, sequence or number
            At least as long as `index` on every axis; further elements are not read. Only a single number is broadcast.
        value : number, optional
            A number in place of `src`. Values are cast, but with `reduce`.
        reduce : {"add", "multiply"}, optional
            Combine the element with the values. By default the last of several values is kept.

        Returns
        -------
        Tensor
            New tensor of this shape and dtype.

        Raises
        ------
        ArgumentError
            If `axis`, `index` or the values are missing, or if `reduce` is another value.
        ShapeError
            If the shapes do not fit.
        DTypeError
            For complex values in a real tensor, and with `reduce` for values of a higher kind than this tensor.
        AxisError, BadIndex, IndexOutOfRange
            As in `take`.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.zeros((2, 3)).scatter(1, [[2], [0]], [[1.0], [2.0]]).tolist()
        [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
        """
        selection, values = self._select_for_scatter("scatter", Layout.contiguous(self.layout.shape), axis, index, src)
        return self._scatter_copy("scatter", selection, values, _parse_scatter_reduce("scatter", reduce))

    @argument_aliases
    def scatter_(
        self,
        axis: int | None = None,
        index: Operand | None = None,
        src: Operand | None = None,
        *,
        dim: int | None = None,
        value: Operand | None = None,
        reduce: str | None = None,
    ) -> Self:
        """Write the elements of `src` at indices along an axis, in place, and return this tensor. See `tx.scatter`.

        Parameters
        ----------
        axis, index, src, value, reduce
            As in `scatter`, as are the errors.

        Raises
        ------
        ReadOnlyError
            Without `reduce`, for a view with an element at several positions, unless a single number is written.
        """
        selection, values = self._select_for_scatter("scatter_", self.layout, axis, index, src)
        self._scatter("scatter_", selection, values, _parse_scatter_reduce("scatter_", reduce))
        return self

    @argument_aliases
    def scatter_add(
        self, axis: int | None = None, index: Operand | None = None, src: Operand | None = None, *, dim: int | None = None
    ) -> Self:
        """Return this tensor with the elements of `src` added at indices along an axis, as a new tensor. See `tx.scatter_add`.

        Parameters
        ----------
        axis, index, src
            As in `scatter`; all must be given. Values are not cast: DTypeError for a higher kind than this tensor's. Other errors as there.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.zeros((1, 3)).scatter_add(1, [[0, 0]], [[1.0, 2.0]]).tolist()
        [[3.0, 0.0, 0.0]]
        """
        selection, value = self._select_for_scatter("scatter_add", Layout.contiguous(self.layout.shape), axis, index, src)
        return self._scatter_copy("scatter_add", selection, value, "sum")

    @argument_aliases
    def scatter_add_(
        self, axis: int | None = None, index: Operand | None = None, src: Operand | None = None, *, dim: int | None = None
    ) -> Self:
        """Add the elements of `src` at indices along an axis, in place, and return this tensor. See `tx.scatter_add`.

        Parameters
        ----------
        axis, index, src
            As in `scatter_add`, as are the errors.
        """
        selection, value = self._select_for_scatter("scatter_add_", self.layout, axis, index, src)
        self._scatter("scatter_add_", selection, value, "sum")
        return self

    @argument_aliases
    def scatter_reduce(
        self,
        axis: int | None = None,
        index: Operand | None = None,
        src: Operand | None = None,
        reduce: str | None = None,
        *,
        dim: int | None = None,
        include_self: bool = True,
    ) -> Self:
        """Return this tensor with each element reduced with the elements of `src` for it. See `tx.scatter_reduce`.

        Parameters
        ----------
        axis, index, src
            As in `scatter`.
        reduce : {"sum", "prod", "amax", "amin", "max", "min", "mean"}
            The reduction. "mean" rounds integers down.
        include_self : bool, default True
            If False, an element with values becomes the reduction of the values alone. Elements without values stay.

        Returns
        -------
        Tensor
            New tensor of this shape and dtype.

        Raises
        ------
        ArgumentError
            If `reduce` is another value.
        DTypeError
            If the values have a higher kind than this tensor, for a maximum or minimum of complex numbers, or a mean of bools.
        ShapeError, AxisError, BadIndex, IndexOutOfRange
            As in `scatter`.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([5.0, 5.0, 5.0]).scatter_reduce(0, [0, 0, 2], [7.0, 9.0, 1.0], "amax").tolist()
        [9.0, 5.0, 5.0]
        """
        op, include_self = "scatter_reduce", check_flag("include_self", include_self)
        selection, value = self._select_for_scatter(op, Layout.contiguous(self.layout.shape), axis, index, src)
        name = _parse_reduce(op, reduce)
        if name == "mean":
            return self._scatter_mean(op, selection, value, include_self)
        start = self if include_self else self._scatter_copy(op, selection, identity_element(REDUCTIONS[name], self.dtype))
        return start._scatter_copy(op, selection, value, name)

    @argument_aliases
    def scatter_reduce_(
        self,
        axis: int | None = None,
        index: Operand | None = None,
        src: Operand | None = None,
        reduce: str | None = None,
        *,
        dim: int | None = None,
        include_self: bool = True,
    ) -> Self:
        """Reduce each element with the elements of `src` for it, in place, and return this tensor. See `tx.scatter_reduce`.

        Parameters
        ----------
        axis, index, src, reduce, include_self
            As in `scatter_reduce`, as are the errors.

        Raises
        ------
        ReadOnlyError
            For a mean, or without `include_self`, in a view with an element at several positions.
        """
        name = _parse_reduce("scatter_reduce_", reduce)
        if check_flag("include_self", include_self) and name != "mean":
            selection, value = self._select_for_scatter("scatter_reduce_", self.layout, axis, index, src)
            self._scatter("scatter_reduce_", selection, value, name)
        else:
            result = self.scatter_reduce(axis, index, src, reduce, include_self=include_self)
            self._write(result, "scatter_reduce_")
        return self

    def masked_scatter(self, mask: Operand, source: Operand) -> Self:
        """Return this tensor with element k of `source` where `mask` is true for the k-th time. See `tx.masked_scatter`.

        Parameters
        ----------
        mask : Tensor of bool
            Broadcasts to this shape.
        source : Tensor
            Of this dtype and arbitrary shape, with an element for each true element of `mask`.

        Returns
        -------
        Tensor
            New tensor of this shape and dtype.

        Raises
        ------
        DTypeError
            If `mask` is not bool, or if `source` has another dtype.
        ShapeError
            If `mask` does not broadcast, or if `source` has no elements and `mask` is true for an element.
        IndexOutOfRange
            If `source` has fewer elements, raised when the result is evaluated.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.zeros(3).masked_scatter([True, False, True], tx.asarray([5.0, 6.0])).tolist()
        [5.0, 0.0, 6.0]
        """
        mask_tensor, values = self._to_operand(mask, "masked_scatter"), self._to_operand(source, "masked_scatter")
        return self._scatter_masked("masked_scatter", mask_tensor, values)

    def masked_scatter_(self, mask: Operand, source: Operand) -> Self:
        """Replace the elements where `mask` is true by those of `source`, in order, in place, and return this tensor.

        See `tx.masked_scatter`.

        Parameters
        ----------
        mask, source
            As in `masked_scatter`, as are the errors.

        Raises
        ------
        ReadOnlyError
            For a view with an element at several positions.
        """
        mask_tensor, values = self._to_operand(mask, "masked_scatter_"), self._to_operand(source, "masked_scatter_")
        self._write(self._scatter_masked("masked_scatter_", mask_tensor, values), "masked_scatter_")
        return self

    # Implementation

    def _select_rows(self, op: str, layout: Layout, axis: Any, index: Any, values: Any) -> Selection:
        """Return the selection of indices along an axis of `layout`, a layout of this storage. The indices may have any shape.

        Raise ArgumentError if the axis, the indices or the values, which are not read, are missing.
        """
        axis = self._check_axis(op, axis, index, values)
        return self._select(op, layout, (axis,), (self._to_index_tensor(op, index),), axis, (axis,))

    def _select_for_scatter(self, op: str, layout: Layout, axis: Any, index: Any, values: Any) -> tuple[Selection, Any]:
        """Return the selection of an index tensor along an axis, with its values, as PyTorch's `scatter` reads them.

        `layout` is a layout of this storage. A tensor of values may be larger than the index along each axis; the rest is not used. A value
        tensor is never broadcast, but a number or 0-d tensor is used for each element. Raise ShapeError if the values have fewer positions
        or other axes.
        """
        selection = self._select_for_gather(op, layout, self._check_axis(op, axis, index, values), index)
        value, shape = self._to_operand(values, op), selection.shape
        if not isinstance(value, TensorBase) or not value.layout.shape:
            return selection, value
        sizes = value.layout.shape
        if len(sizes) != len(shape) or any([n > m for n, m in zip(shape, sizes, strict=True)]):
            raise ShapeError(
                f"{op}: index has shape {shape} and src {sizes}; src must be at least as long as index on each axis:"
                f" use src.expand({', '.join(map(str, shape))}) to repeat its elements"
            )
        return selection, value._view(value.layout.index(tuple([slice(0, n) for n in shape])))

    def _select_slices(self, op: str, layout: Layout, axis: Any, index: Any, source: Any) -> tuple[Selection, Any]:
        """Return the selection of a 1-D index along an axis of `layout`, with the slices `source` as a tensor or number.

        `layout` is a layout of this storage. Raise ShapeError unless the slices have exactly the shape of the selection.
        """
        axis = self._check_axis(op, axis, index, source)
        indices, value = self._to_1d_indices(op, index), self._to_operand(source, op)
        selection = self._select(op, layout, (axis,), (indices,), axis, (axis,))
        value_shape = value.layout.shape if isinstance(value, TensorBase) else ()
        if value_shape != selection.shape:
            raise ShapeError(f"{op}: source has shape {value_shape}; it must have shape {selection.shape}, one slice for each index")
        return selection, value

    def _scatter_masked(self, op: str, mask: Any, source: Any) -> Self:
        """Return a new tensor with element k of `source` where `mask` is true for the k-th time, counted from 0 in row-major order.

        The mask is broadcast to this tensor. Raise DTypeError unless `mask` is a bool tensor and `source` a tensor of this dtype. Raise
        ShapeError for a mask that does not broadcast, and for an empty source. Too short a source raises IndexOutOfRange, mostly on
        evaluation.
        """
        if not isinstance(mask, TensorBase) or mask.dtype is not boolean:
            raise DTypeError(f"{op}: mask must be a bool tensor, not {getattr(mask, 'dtype', mask)}")
        if not isinstance(source, TensorBase) or source.dtype is not self.dtype:
            source_dtype = getattr(source, "dtype", source)
            raise DTypeError(
                f"{op}: source is {source_dtype} and the tensor {self.dtype}; source must be a tensor of the dtype {self.dtype}"
            )
        layout = self.layout
        try:
            full_mask: Any = mask._view(broadcast_layout(mask.layout, layout.shape, op))
        except ShapeError:
            raise ShapeError(f"{op}: mask has shape {mask.layout.shape}; it must broadcast to {layout.shape}, the tensor's") from None
        if not layout.size:
            return self.copy()  # type: ignore[attr-defined, no-any-return]
        values: Any = source._view(source.layout.reshape((-1,)))
        if not values.size:
            values = self._from_node(Node.of(OPS["cast"], (1,), self.dtype, (Scalar(0, self.dtype),), (None,)))
            if not full_mask.node.is_traced and bool(full_mask.any()):
                raise ShapeError(f"{op}: source has no elements, and mask is true for {int(full_mask.sum())}; give one for each")
        count = full_mask._view(full_mask.layout.reshape((-1,))).astype(int64).cumsum(0)
        positions = self._compute(OPS["where"], full_mask, count._view(count.layout.reshape(layout.shape)) - 1, 0)
        selected = values._gather(values._select(op, values.layout, (0,), (positions,), 0, (0,)))
        return self._compute(OPS["where"], full_mask, selected, self)

    def _check_axis(self, op: str, axis: Any, index: Any, values: Any) -> int:
        """Return the axis as a non-negative number. Raise ArgumentError if the axis, the index or the values are missing."""
        if axis is None or index is None or values is None:
            raise ArgumentError(f"{op}: takes an axis, indices along it and values: x.{op}(axis, index, values)")
        return normalize_axis(op, axis, self.layout.ndim)

    def _scale_source(self, op: str, source: Any, alpha: Any) -> Any:
        """Return `alpha * source` as a tensor or a Python number; for the int 1, `source` itself. `op` is for messages."""
        value = self._to_operand(source, op)
        if type(alpha) is int and alpha == 1:
            return value
        return self._compute(OPS["multiply"], value, self._to_operand(alpha, op)) if isinstance(value, TensorBase) else value * alpha

    def _scatter_mean(self, op: str, selection: Selection, value: Any, include_self: bool) -> Self:
        """Return a new tensor with the mean of each element and the values for it, or without `include_self` of the values alone.

        The selection refers to a row-major copy of this tensor. Elements without values stay. Means of integers are rounded down. Raise
        DTypeError for bools.
        """
        if self.dtype is boolean:
            raise DTypeError(f"{op}: there is no mean of bools; use x.astype(tx.float32)")
        start = self if include_self else self._scatter_copy(op, selection, 0)
        total = start._scatter_copy(op, selection, value, "sum")
        initial_count = Scalar(int(include_self), int64)
        counts = self._from_node(Node.of(OPS["cast"], self.layout.shape, int64, (initial_count,), (None,)))
        counts = self._compute(OPS["maximum"], counts._scatter_copy(op, selection, 1, "sum"), 1)
        counts = counts.astype(self.dtype.part)  # type: ignore[attr-defined]
        divide = OPS["floor_divide"] if self.dtype.is_integer else OPS["divide_by_real"]
        return self._compute(divide, total, counts)


def _parse_scatter_reduce(op: str, reduce: str | None) -> str | None:
    """Return the name of the reduction for the argument `reduce` of `scatter`: "sum" for "add", "prod" for "multiply", None for None.

    Raise ArgumentError, naming the method `op`, for another value.
    """
    return None if reduce is None else {"add": "sum", "multiply": "prod"}[check_choice(op, "reduce", reduce, "add", "multiply")]


def _parse_reduce(op: str, reduce: str | None) -> str:
    """Return "sum", "prod", "max", "min" or "mean" for the argument `reduce`, where "amax" means "max" and "amin" "min".

    Raise ArgumentError, naming `op`, if `reduce` is not supported.
    """
    if not isinstance(reduce, str) or (reduce != "mean" and reduce not in _REDUCTION_NAMES):
        raise ArgumentError(f"{op}: reduce must be one of {', '.join(_REDUCTION_NAMES)} and mean, not {describe_value(reduce)}")
    return _REDUCTION_NAMES.get(reduce, "mean")
