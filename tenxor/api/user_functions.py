"""User functions over whole tensors, compiled into kernels: `map`, `reduce`, `accumulate` and `contract`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._utils.aliases import argument_aliases
from ..dtypes import DType, DTypeLike, Number, boolean, default_dtype_of, promote, promote_weak
from ..errors import ArgumentError, AxisError, ShapeError, TraceError, describe_value
from ..graph.node import Node, Scalar
from ..layout import Layout, broadcast_shapes
from ..ops.expr import Arg, Const, Expr, cast, substitute
from ..ops.reductions import REDUCTIONS, Reduction, make_first_reduction, make_ordered_reduction
from ..tensor import Tensor
from ..tensor.argument_parsing import Axes
from ..tensor.contraction import build_axis_loops, contract_over_loops, normalize_operand_axes, widen
from ..tensor.core import Operand
from . import elementwise
from .creation import asarray
from .scalar_tracing import Function, TracedFunction, trace_reduction_step, trace_scalar_function

__all__ = ["accumulate", "contract", "map", "reduce"]


def map(function: Function, *tensors: Operand, dtype: DTypeLike | None = None) -> Tensor:
    """Return `function` of the elements of the tensors, broadcast together, as a new tensor.

    Parameters
    ----------
    function : callable
        A function of one argument per tensor. It is called once, with tracers in place of the elements, and compiled into a kernel. It may
        use operators, tx functions and numbers; a choice between values is `tx.where`.
    *tensors : Tensor
        One or more tensors that broadcast.
    dtype : dtype, optional
        The dtype of the result; by default that of the function.

    Returns
    -------
    Tensor
        New tensor of the broadcast shape.

    Raises
    ------
    TraceError
        If the function does anything that no kernel can do; the error names it.
    ShapeError
        If the tensors do not broadcast.
    ArgumentError
        If there is no tensor.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.map(lambda x, y: tx.where(x > y, x - y, 0), tx.arange(4), 1).tolist()
    [0, 0, 1, 2]
    """
    if not tensors:
        raise ArgumentError("map: give at least one tensor after the function")
    result = _map_operands("map", function, [asarray(t) for t in tensors])
    return result if dtype is None else result.astype(dtype, copy=False)


def _map_operands(op: str, function: Function, operands: Sequence[Tensor]) -> Tensor:
    """Return the pending result of `function`, traced, for the elements of `operands`, broadcast together. Messages begin with `op`."""
    traced = trace_scalar_function(op, function, [t.dtype for t in operands])
    shape = broadcast_shapes(*[t.shape for t in operands])
    return Tensor._from_node(_apply_traced(traced, operands, shape))


def _apply_traced(traced: TracedFunction, operands: Sequence[Tensor], shape: tuple[int, ...]) -> Node:
    """Return the pending node of the function `traced` applied to each element of `operands`, expanded to `shape`.

    The numbers and single elements that the function reads from outside are further operands.
    """
    op = traced.op()
    sources: list[Node | Scalar] = [t.node for t in operands]
    layouts: list[Layout | None] = [t.layout if t.shape == shape else t.layout.expand(shape) for t in operands]
    for x in traced.extras:
        sources.append(x)
        layouts.append(None if isinstance(x, Scalar) else Layout(shape, (0,) * len(shape)))
    return Node.of(op, shape, traced.formula.dtype, tuple(sources), tuple(layouts))


# --- reductions -------------------------------------------------------------------------------------------------------


def _inline_constants(op: str, traced: TracedFunction) -> Expr:
    """Return the formula of `traced` with the numbers that the function reads from outside as constants.

    The arguments of the formula are the state of a reduction and an element. Raise TraceError, beginning with `op`, if the function
    reads a tensor from outside.
    """
    args: list[Expr] = []
    for x in traced.extras:
        if not isinstance(x, Scalar):
            raise TraceError(f"{op}: the function reads a tensor from outside; give its number with item()")
        args.append(_constant(x.value, x.dtype))
    state_and_element = [Arg(0, traced.dtypes[0]), Arg(1, traced.dtypes[1])]
    return substitute(traced.formula, [*state_and_element, *args])


def _constant(value: Number, dtype: DType) -> Const:
    """Return `value` as a constant of `dtype` in a formula. `value` must not be complex for a real dtype."""
    if dtype.is_complex:
        return Const(complex(value), dtype)
    assert not isinstance(value, complex)
    return Const(float(value) if dtype.is_float else value, dtype)


@argument_aliases
def reduce(
    function: Function,
    t: Operand,
    /,
    axis: Axes = None,
    initial: Number | None = None,
    *,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool | None = None,
) -> Tensor:
    """Return `t` with axes reduced by `function(so_far, element)`, applied to the elements in row-major order, as a new tensor.

    Parameters
    ----------
    function : callable
        A function of two arguments, traced as in `map`.
    t : Tensor
        Any dtype.
    axis : int or tuple of int, optional
        The axes to reduce; None for all. PyTorch's `dim` is an alias.
    initial : number, optional
        The number from which the reduction starts; by default it starts from the first element.
    keepdims : bool, default False
        If True, reduced axes stay with size 1. PyTorch's `keepdim` is an alias.

    Returns
    -------
    Tensor
        A new tensor of the dtype of the state: the dtype of the elements, beside `initial`, widened until the results of `function` fit.

    Raises
    ------
    AxisError, ArgumentError, TraceError
        If an axis does not exist, if `initial` is no number, or if the function cannot be traced.
    ShapeError
        If an axis has size 0, and `initial` is not given.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.reduce(lambda acc, x: 2 * acc + x, tx.asarray([1, 0, 1, 1]), initial=0).item()
    11
    """
    t, reduction = _ordered_reduction("reduce", function, asarray(t), initial)
    result: Tensor = t._reduce(reduction, "reduce", axis, keepdims)
    return result


@argument_aliases
def accumulate(
    function: Function, t: Operand, /, axis: int | None = None, initial: Number | None = None, *, dim: int | None = None
) -> Tensor:
    """Return the results of a running reduction along an axis, as a new tensor.

    Parameters
    ----------
    function : callable
        A function `function(so_far, element)`, traced as in `map`. It is applied to the elements `0..i` in order for result `i`.
    t : Tensor
        Any dtype.
    axis : int, optional
        The axis along which results run; None runs over the flattened tensor. PyTorch's `dim` is an alias.
    initial : number, optional
        The number from which the reduction starts; by default it starts from the first element, which is then the first result.

    Returns
    -------
    Tensor
        A new tensor of the shape of `t`, or 1-D for `axis` None, with the dtype as in `reduce`.

    Raises
    ------
    AxisError, ArgumentError, TraceError
        If the axis does not exist, if `initial` is no number, or if the function cannot be traced.

    Notes
    -----
    NumPy's `ufunc.accumulate`; Python's `itertools.accumulate`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.accumulate(lambda level, x: 0.5 * level + x, tx.asarray([4.0, 0.0, 0.0])).tolist()
    [4.0, 2.0, 1.0]
    """
    t, reduction = _ordered_reduction("accumulate", function, asarray(t), initial)
    result: Tensor = t._cumulate(reduction, "accumulate", axis, None)
    return result


def _ordered_reduction(op: str, function: Function, t: Tensor, initial: Number | None) -> tuple[Tensor, Reduction]:
    """Return the tensor to reduce, and the user's `function` of state and element as an ordered reduction.

    Without `initial`, the first element is the first state, so the tensor is `t` in the dtype of the state. With `initial`, the tensor is
    `t` itself. A NumPy scalar or a 0-d array as `initial` counts as its Python number. Raise ArgumentError, beginning with `op`, if
    `initial` is no number, and TraceError if `function` cannot be traced.
    """
    if isinstance(initial, (np.generic, np.ndarray)) and not initial.ndim:
        initial = initial.item()
    if initial is not None and not isinstance(initial, (bool, int, float, complex)):
        hint = "; use initial.item()" if getattr(initial, "shape", None) == () else ""
        raise ArgumentError(f"{op}: initial must be a number, not {describe_value(initial)}{hint}")
    initial_dtype = (
        t.dtype if initial is None else (default_dtype_of(initial) if t.dtype is boolean else promote_weak(initial, t.dtype, op))
    )
    state, traced = trace_reduction_step(op, function, initial_dtype, t.dtype)
    step = cast(_inline_constants(op, traced), state)
    if initial is not None:
        return t, make_ordered_reduction(step, _constant(initial, state))
    return t.astype(state, copy=False), make_first_reduction(step, any_order=False)


# --- contraction ------------------------------------------------------------------------------------------------------


def contract(
    a: Operand,
    b: Operand,
    pairs: Sequence[tuple[int, int]],
    multiply: Function | None = None,
    add: Function | None = None,
) -> Tensor:
    """Return products of elements of `a` and `b`, summed over a shared axis, as a new tensor, without temporaries.

    Parameters
    ----------
    a, b : Tensor
        Any dtype.
    pairs : Sequence of pairs of int
        Each pair `(axis of a, axis of b)` pairs two axes of equal size. The last pair is summed over. The pairs before it are batch axes,
        which come first in the result. Then come the other axes of `a`, then those of `b`. So `[(1, 0)]` is a matrix product, `[(0, 0), (2,
        1)]` a batched one, and no pair an outer product.
    multiply, add : callable, optional
        Functions of two arguments that are traced as in `map`, in place of the product and the sum. The result of `add` must not depend on
        the order of the elements. Without both, dtypes and sums are those of `tensordot`, and for bools the result tells whether any pair
        is true.

    Returns
    -------
    Tensor
        New tensor.

    Raises
    ------
    ShapeError
        If paired axes have different sizes, or if a size of 0 leaves `add` without elements.
    AxisError
        If an axis does not exist or stands in two pairs.
    ArgumentError, TraceError, DTypeError
        If `pairs` has another form, if a function cannot be traced, or if the dtypes do not promote.

    Examples
    --------
    >>> import tenxor as tx
    >>> a, b = tx.asarray([[1, 2], [3, 0]]), tx.asarray([[5, 1], [2, 4]])
    >>> tx.contract(a, b, [(1, 0)], multiply=lambda x, y: x + y, add=tx.maximum).tolist()
    [[6, 6], [8, 4]]
    """
    a, b = asarray(a), asarray(b)
    try:
        pairs = [(i, j) for i, j in pairs]
    except (TypeError, ValueError):
        raise ArgumentError(f"contract: pairs must be like [(1, 0)], an axis of each tensor, not {describe_value(pairs)}") from None
    a_axes = normalize_operand_axes("contract", "first", a.shape, [i for i, _ in pairs])
    b_axes = normalize_operand_axes("contract", "second", b.shape, [j for _, j in pairs])
    for k, (i, j) in enumerate(zip(a_axes, b_axes, strict=True)):
        if a_axes.count(i) > 1 or b_axes.count(j) > 1:
            raise AxisError(f"contract: pair {k}, {pairs[k]}, names an axis that another pair has too; name each axis once")
    batches = max(len(pairs) - 1, 0)
    result: Tensor
    if multiply is None and add is None:
        dtype = promote(a.dtype, b.dtype, "contract")
        a_wide, b_wide = widen(a, dtype), widen(b, dtype)
        result = contract_over_loops(
            a_wide, b_wide, build_axis_loops("contract", a_wide.layout, b_wide.layout, a_axes, b_axes, batches), dtype
        )
        return result
    a_layout, b_layout, _ = build_axis_loops("contract", a.layout, b.layout, a_axes, b_axes, batches)
    views = (a._view(a_layout), b._view(b_layout))
    products = views[0] * views[1] if multiply is None else _map_operands("contract", multiply, views)
    if not pairs:
        return products
    reduction = _find_reduction(add, products)
    if not reduction.has_identity and products.shape[-1] == 0:
        raise ShapeError(
            f"contract: shapes {a.shape} and {b.shape}: axis {a_axes[-1]} of the first and axis {b_axes[-1]} of the second have size"
            " 0, and `add` of no elements is undefined; give tensors with elements there"
        )
    result = products._reduce(reduction, "contract", -1, False)
    return result.astype(products.dtype, copy=False) if add is None else result


_REDUCTION_OF_FUNCTION = {
    elementwise.FUNCTIONS["add"]: "sum",
    elementwise.FUNCTIONS["multiply"]: "prod",
    elementwise.FUNCTIONS["maximum"]: "max",
    elementwise.FUNCTIONS["minimum"]: "min",
    elementwise.FUNCTIONS["logical_or"]: "any",
    elementwise.FUNCTIONS["logical_and"]: "all",
}


def _find_reduction(add: Function | None, products: Tensor) -> Reduction:
    """Return the reduction by the user's function `add`: the sum for None, and the built-in reduction for functions such as `tx.maximum`.

    Other functions are traced for states and elements of the dtype of `products`, the tensor to reduce; they may be applied in any order.
    Raise TraceError if a function cannot be traced.
    """
    if add is None:
        return REDUCTIONS["sum"]
    if add in _REDUCTION_OF_FUNCTION:
        return REDUCTIONS[_REDUCTION_OF_FUNCTION[add]]
    state, traced = trace_reduction_step("contract", add, products.dtype, products.dtype)
    return make_first_reduction(cast(_inline_constants("contract", traced), state), any_order=True)
