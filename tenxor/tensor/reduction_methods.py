"""Reductions over axes, and cumulative reductions along an axis. Every result is a new, pending tensor. `axis` is an int, a tuple, or None
for every axis; `keepdims` leaves the axes with size 1 (PyTorch's `dim` and `keepdim` work, too). `where` is a bool tensor that selects the
elements to reduce. `initial` is a further element. `out` is a tensor to write the result into, and is returned.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Self

from .._utils.aliases import argument_aliases
from .._utils.cache_registry import register
from .._utils.lazy import LazyModule
from ..dtypes import DEFAULT_FLOAT, DEFAULT_INT, DType, DTypeLike, boolean
from ..errors import DTypeError, ShapeError
from ..graph.node import POSITION, Node, Recipe, Scan
from ..graph.spec import NO_TEMPLATES, NodeTemplate, record_template
from ..layout import Layout, memory_order
from ..layout.coords import as_float
from ..ops import OPS
from ..ops.reductions import REDUCTIONS, Reduction, get_running_reduction
from .argument_parsing import Axes, alias_method, check_flag, delegate_to, normalize_axes, normalize_axis
from .core import Operand
from .elementwise_methods import ElementwiseMethods

variances = LazyModule("tenxor.tensor.variances")
# Cached, since recipes compare operations by identity
_scan_operation = register("scans", "a running reduction, by axis and reduction")(cache(Scan))


def _find_memory_order(layout: Layout, kept_axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the axes `kept_axes` from the largest stride to the smallest, as indices in `kept_axes`.

    A result of the kept axes is stored in this order. Return None if the axes are in this order already, or if `layout` has no strides.
    """
    if layout.base is not None or layout.tables is not None:
        return None
    steps = [abs(layout.strides[axis]) for axis in kept_axes]
    if steps == sorted(steps, reverse=True):
        return None
    return memory_order([Layout(tuple([layout.shape[axis] for axis in kept_axes]), tuple(steps))])


class ReductionMethods(ElementwiseMethods):
    """The reduction methods of `Tensor`."""

    __slots__ = ()

    def _reduce(self, reduction: Reduction, op: str, axis: Any, keepdims: bool) -> Self:
        """Return the pending tensor of `reduction` over `axis`, an int, a tuple of ints, or None for every axis. `op` is for messages.

        The result template of an earlier call with the same spec is reused.
        """
        table, key = self.spec.templates, (axis, keepdims)
        is_cacheable = type(keepdims) is bool and (axis is None or type(axis) is int)
        template = table.get(reduction, NO_TEMPLATES).get(key) if is_cacheable else None
        if template is not None:
            assert template.recipe is not None
            return self._from_node(Node(template.recipe, (self.node,), (self.offset,)), template.spec)
        result, recipe = self._reduce_uncached(reduction, op, axis, check_flag("keepdims", keepdims))
        if is_cacheable and not recipe.is_uncacheable and self.layout.base is None:
            record_template(table, reduction, key, NodeTemplate(result.spec, recipe))
        return result

    def _reduce_uncached(self, reduction: Reduction, op: str, axis: Any, keepdims: bool) -> tuple[Self, Recipe]:
        """Return the pending tensor of a reduction, without the cache of result templates, and the recipe of its node.

        Raise DTypeError for a dtype that the reduction refuses, AxisError for a wrong axis, and ShapeError for an axis of size 0 if the
        reduction has no value for no elements. `op` names the operation.
        """
        reduction.check_dtype(op, self.dtype)
        layout = self.layout
        shape = layout.shape
        axes = normalize_axes(op, axis, len(shape))
        kept_axes = tuple([a for a in range(len(shape)) if a not in axes])
        if not reduction.has_identity:
            for a in axes:
                if shape[a] == 0:
                    raise ShapeError(
                        f"{op}: axis {a} of shape {shape} has size 0, and the {op} of no elements is undefined; give a tensor with elements"
                        " there"
                    )
        kept_order = None if len(kept_axes) < 2 else _find_memory_order(layout, kept_axes)
        if kept_order is not None:
            kept_axes = tuple([kept_axes[k] for k in kept_order])
        order = kept_axes + axes
        source = layout if order == tuple(range(len(shape))) else layout.permute(order)
        node = Node.of(reduction, source.shape[: len(kept_axes)], reduction.result_dtype(self.dtype), (self.node,), (source,))
        recipe = node.recipe
        t = self._from_node(node)
        if kept_order is not None:
            t = t._view(t.layout.permute([kept_order.index(k) for k in range(len(kept_order))]))
            t = t._view(t.layout.expand_dims(axes)) if keepdims else t
        elif keepdims:
            t = t._view(Layout.contiguous(tuple([1 if a in axes else n for a, n in enumerate(shape)])))
        return t, recipe

    def _cast_or_self(self, dtype: DTypeLike | None) -> Self:
        """Return this tensor cast to `dtype`, or this tensor itself if `dtype` is None or the dtype of this tensor."""
        return self if dtype is None else self.astype(dtype, copy=False)

    @delegate_to("sum")
    @argument_aliases
    def sum(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return the sum over `axis`. See `tx.sum`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            None means every axis. PyTorch's `dim` is an alias.
        dtype : dtype, optional
            The dtype of the sum. By default, integers and bools are summed in 64 bits, while floats and complex numbers keep their dtype.
        keepdims : bool, default False
            Keep the reduced axes, with size 1. PyTorch's `keepdim` is an alias.
        out : Tensor, optional
            Receives the result, and is returned.
        initial : number, optional
            A further term. The sum of no elements is 0.
        where : Tensor of bool, optional
            Sum only the elements where `where` is true.

        Returns
        -------
        Tensor
            New tensor. With `out`, `out` itself.

        Raises
        ------
        AxisError
            If an axis does not exist, or is named twice.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.arange(24).reshape(4, 3, 2).sum(axis=0).tolist()
        [[36, 40], [44, 48], [52, 56]]
        """
        return self._cast_or_self(dtype)._reduce(REDUCTIONS["sum"], "sum", axis, keepdims)._cast_or_self(dtype)

    @delegate_to("prod")
    @argument_aliases
    def prod(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return the product over `axis`, as a new tensor. See `tx.prod`. The product of no elements is 1.

        Parameters
        ----------
        axis, dtype, keepdims, out, where
            As in `sum`. By default, integers and bools are multiplied in 64 bits.
        initial : number, optional
            A further factor.
        """
        return self._cast_or_self(dtype)._reduce(REDUCTIONS["prod"], "prod", axis, keepdims)._cast_or_self(dtype)

    @delegate_to("max")
    @argument_aliases
    def max(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return the largest element over `axis`, as a new tensor, or NaN if an element is NaN. See `tx.max`.

        Parameters
        ----------
        axis, keepdims, out
            As in `sum`.
        initial : number, optional
            A further element.
        where : Tensor of bool, optional
            Compare only the elements where `where` is true. Needs `initial`.

        Raises
        ------
        ShapeError, ArgumentError
            Without `initial`, for an axis of size 0 or if `where` is given.
        AxisError, DTypeError
            If an axis does not exist or is named twice, or for complex numbers.
        """
        return self._reduce(REDUCTIONS["max"], "max", axis, keepdims)

    @delegate_to("min")
    @argument_aliases
    def min(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return the smallest element over `axis`, as a new tensor, or NaN if an element is NaN. See `tx.min`.

        Parameters
        ----------
        axis, keepdims, out, initial, where
            As in `max`, as are the errors.
        """
        return self._reduce(REDUCTIONS["min"], "min", axis, keepdims)

    amax, amin = max, min

    @delegate_to("any")
    @argument_aliases
    def any(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return whether any element over `axis` is true (not zero), as a new bool tensor. See `tx.any`.

        Without elements the result is False.

        Parameters
        ----------
        axis, keepdims, out, where
            As in `sum`.
        """
        return self._reduce(REDUCTIONS["any"], "any", axis, keepdims)

    @delegate_to("all")
    @argument_aliases
    def all(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return whether all elements over `axis` are true (not zero), as a new bool tensor. See `tx.all`.

        Without elements the result is True.

        Parameters
        ----------
        axis, keepdims, out, where
            As in `sum`.
        """
        return self._reduce(REDUCTIONS["all"], "all", axis, keepdims)

    @argument_aliases
    def count_nonzero(self, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool | None = None) -> Self:
        """Return the number of elements over `axis` that are not zero, as a new int64 tensor. See `tx.count_nonzero`.

        Parameters
        ----------
        axis, keepdims
            As in `sum`.
        """
        return self._reduce(REDUCTIONS["count_nonzero"], "count_nonzero", axis, keepdims)

    @delegate_to("argmax")
    @argument_aliases
    def argmax(
        self,
        axis: int | None = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool | None = None,
        out: Self | None = None,
    ) -> Self:
        """Return the first position of the largest element along `axis`, as a new int64 tensor. See `tx.argmax`.

        NaN counts as the largest.

        Parameters
        ----------
        axis : int, optional
            None reduces every axis; the position is then in the flattened tensor. PyTorch's `dim` is an alias.
        keepdims, out
            As in `sum`.

        Raises
        ------
        ShapeError
            For an axis of size 0.
        AxisError
            For several axes, or if the axis does not exist.
        DTypeError
            For complex numbers.
        """
        return self._find_extremum("argmax", axis, keepdims)

    @delegate_to("argmin")
    @argument_aliases
    def argmin(
        self,
        axis: int | None = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool | None = None,
        out: Self | None = None,
    ) -> Self:
        """Return the first position of the smallest element along `axis`, as a new int64 tensor. See `tx.argmin`.

        NaN counts as the smallest.

        Parameters
        ----------
        axis, keepdims, out
            As in `argmax`, as are the errors.
        """
        return self._find_extremum("argmin", axis, keepdims)

    def _find_extremum(self, op: str, axis: int | None, keepdims: bool) -> Self:
        """Return the result of `op`, "argmax" or "argmin": a new int64 tensor. `axis` is one axis, or None for the flattened tensor."""
        if axis is not None and type(axis) is not int:
            axis = normalize_axis(op, axis, self.ndim)
        return self._reduce(REDUCTIONS[op], op, axis, keepdims)

    # Averages: sums in float32 or wider, divided once

    def _prepare_average(self, op: str) -> tuple[Self, DType]:
        """Return the tensor in the dtype for computing its average, and the dtype of the result.

        The result of bools and integers is float64; narrow floats are averaged in a wider dtype. Raise DTypeError for bools, unless `op` is
        "mean".
        """
        result = self.dtype if self.dtype.is_float or self.dtype.is_complex else DEFAULT_FLOAT
        if self.dtype is boolean and op != "mean":
            raise DTypeError(f"{op}: does not accept bool; use x.astype(tx.float64)")
        return self._cast_or_self(result.compute_dtype), result

    @delegate_to("mean")
    @argument_aliases
    def mean(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        *,
        dtype: DTypeLike | None = None,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return the mean over `axis`, as a new float or complex tensor. See `tx.mean`.

        Integers and bools give float64. The mean of no elements is NaN.

        Parameters
        ----------
        axis, keepdims, out, where
            As in `sum`.
        dtype : dtype, optional
            The dtype to which the elements are cast first.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([1, 2, 3, 4]).mean().item()
        2.5
        """
        wide, result = self._cast_or_self(dtype)._prepare_average("mean")
        return wide._reduce_to_mean("mean", axis, keepdims)._cast_or_self(result)

    def _reduce_to_mean(self, op: str, axis: Axes, keepdims: bool) -> Self:
        """Return the pending mean over `axis` of a tensor of a float or complex dtype, in this dtype. `op` is for messages."""
        total = self._reduce(REDUCTIONS["sum"], op, axis, keepdims)
        count = as_float(self._count_reduced(op, axis))
        return total._apply(OPS["divide_by_real" if self.dtype.is_complex else "divide"], count)

    @delegate_to("var")
    @argument_aliases
    def var(
        self,
        axis: Axes = None,
        correction: float = 0.0,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        ddof: float | None = None,
        mean: Operand | None = None,
        out: Self | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return the variance over `axis`, as a real tensor: the mean squared distance from the mean. See `tx.var`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            None means every axis. PyTorch's name `dim` is an alias.
        correction : float, default 0.0
            The divisor is the number of elements less `correction`, but not below 0. NumPy's name `ddof` is an alias.
        keepdims : bool, default False
            Keep the reduced axes, with size 1. PyTorch's name `keepdim` is an alias.
        mean : Tensor, optional
            A known mean, computed as `mean(axis, keepdims=True)`.
        out : Tensor, optional
            Receives the result, and is returned.
        where : Tensor of bool, optional
            Count only the elements where `where` is true.

        Returns
        -------
        Tensor
            New tensor. With `out`, `out` itself. Integers give float64, floats keep their dtype, and complex numbers give the dtype of
            their real part. For complex numbers, the distance is the magnitude of the difference.

        Raises
        ------
        DTypeError
            For bools.
        ShapeError
            If `mean` does not broadcast to the shape of this tensor.
        ArgumentError
            If `correction` is no number.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([1.0, 2.0, 3.0]).var(correction=1).item()
        1.0
        """
        variance, result = variances.compute_variance("var", self, axis, correction, keepdims, mean)
        return variance._cast_or_self(result)  # type: ignore[no-any-return]

    @delegate_to("std")
    @argument_aliases
    def std(
        self,
        axis: Axes = None,
        correction: float = 0.0,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        ddof: float | None = None,
        mean: Operand | None = None,
        out: Self | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return the standard deviation over `axis`, the square root of `var`, as a real tensor. See `tx.std`.

        Parameters
        ----------
        axis, correction, keepdims, mean, out, where
            As in `var`, as are the errors.
        """
        variance, result = variances.compute_variance("std", self, axis, correction, keepdims, mean)
        return variance._compute(OPS["deviation"], variance)._cast_or_self(result)  # type: ignore[no-any-return]

    def _count_reduced(self, op: str, axis: Axes) -> int:
        """Return the number of elements reduced to each result by a reduction over `axis`."""
        count = 1
        for a in normalize_axes(op, axis, self.layout.ndim):
            count *= self.layout.shape[a]
        return count

    # Cumulative reductions

    def _cumulate(self, reduction_like: str | Reduction, op: str, axis: Any, dtype: DTypeLike | None) -> Self:
        """Return a pending cumulative reduction along an axis, or of the flattened tensor for None.

        `reduction_like` is a reduction, or the name of one ("sum", "max", ...), whose running form is used. With `dtype`, the elements are
        first cast to this dtype, and so is the result. `op` is for messages. Raise AxisError, or DTypeError for a dtype that the reduction
        refuses.
        """
        t = self._cast_or_self(dtype)
        if axis is None:
            if t.layout.ndim != 1:
                t = t.ravel()
            axis = 0
        scan_axis = normalize_axis(op, axis, t.layout.ndim)
        layout = t.layout
        in_memory = _find_memory_order(layout, tuple(range(layout.ndim))) or tuple(range(layout.ndim))
        memory_layout = Layout.contiguous(tuple([layout.shape[a] for a in in_memory]))
        axis_positions = [in_memory.index(a) for a in range(layout.ndim)]
        loops = [*(a for a in in_memory if a != scan_axis), scan_axis]
        target = memory_layout.permute([axis_positions[a] for a in loops])
        reduction = get_running_reduction(reduction_like, t.dtype) if isinstance(reduction_like, str) else reduction_like
        reduction.check_dtype(op, t.dtype)
        result_dtype = reduction.result_dtype(t.dtype)
        result = self._from_node(
            Node.of(_scan_operation(reduction), memory_layout.shape, result_dtype, (t.node,), (layout.permute(loops),), target)
        )
        return result._view(result.layout.permute(axis_positions))._cast_or_self(dtype)

    def _cumulative_extremes(self, reduction_name: str, op: str, axis: int) -> tuple[Self, Self]:
        """Return the largest or smallest of elements `0..i` along an axis, and the last position of this element up to `i`, as two new
        tensors.

        `reduction_name` is "max" or "min". From the first NaN on, values are NaN, and positions are of the last NaN.
        """
        axis = normalize_axis(op, axis, self.ndim)
        values = self._cumulate(reduction_name, op, axis, None)
        is_extreme: Any = self == values
        if self.dtype.is_float:
            is_extreme = is_extreme | self.isnan()
        shape = tuple([n if a == axis else 1 for a, n in enumerate(self.shape)])
        positions = self._from_node(Node.of(POSITION, shape, DEFAULT_INT))
        return values, self._compute(OPS["where"], is_extreme, positions, 0)._cumulate("max", op, axis, None)

    @delegate_to("cumsum")
    @argument_aliases
    def cumulative_sum(
        self,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        *,
        dim: int | None = None,
        out: Self | None = None,
    ) -> Self:
        """Return the sums of elements `0..i` along `axis`. See `tx.cumulative_sum`.

        Parameters
        ----------
        axis : int, optional
            For None, the tensor is flattened first. PyTorch's `dim` is an alias.
        dtype : dtype, optional
            The dtype of the sums. By default, integers and bools are summed in 64 bits, while floats and complex numbers keep their dtype.
        out : Tensor, optional
            Receives the result, and is returned.

        Returns
        -------
        Tensor
            New tensor of the shape of this tensor, or 1-D for None. With `out`, `out` itself.

        Raises
        ------
        AxisError
            If the axis does not exist.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.arange(5).cumulative_sum().tolist()
        [0, 1, 3, 6, 10]
        """
        return self._cumulate("sum", "cumulative_sum", axis, dtype)

    @delegate_to("cumprod")
    @argument_aliases
    def cumulative_prod(
        self,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        *,
        dim: int | None = None,
        out: Self | None = None,
    ) -> Self:
        """Return the products of elements `0..i` along `axis`, as a new tensor. See `tx.cumulative_prod`.

        Parameters
        ----------
        axis, dtype, out
            As in `cumulative_sum`. By default, integers and bools are multiplied in 64 bits.
        """
        return self._cumulate("prod", "cumulative_prod", axis, dtype)

    cumsum, cumprod = alias_method(cumulative_sum, "cumsum"), alias_method(cumulative_prod, "cumprod")
