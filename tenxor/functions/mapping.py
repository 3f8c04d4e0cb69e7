"""User functions over whole tensors, compiled into kernels: `map`, `reduce`, `accumulate` and `contract`."""

from __future__ import annotations

from collections.abc import Sequence

from ..creation import asarray
from ..dtypes import DType, DTypeLike, Number, boolean, of_number, promote, weak
from ..errors import ArgumentError, AxisError, ShapeError, TraceError, described
from ..keywords import spelled
from ..layout import Layout
from ..node import Node, Scalar
from ..ops.expr import Arg, Const, Expr, cast, substitute
from ..ops.reductions import REDUCTIONS, Reduction, reduction_from_first, reduction_in_order
from ..tensor import Tensor
from ..tensor.arguments import Axes
from ..tensor.contraction import contracted, loops_along, paired_axes, widened
from ..tensor.core import Operand, broadcast
from . import elementwise
from .tracing import Function, Traced, state_dtype, trace

__all__ = ["accumulate", "contract", "map", "reduce"]


def map(function: Function, *tensors: Operand, dtype: DTypeLike | None = None) -> Tensor:
    """Return `function` of the elements of the tensors, broadcast together, as a new tensor. Any number of tensors, any result dtype.

    The function is called once, with tracers in place of the elements, and compiled into a kernel. It may use operators, tx functions and
    numbers; a choice between values is `tx.where`. Raise a TraceError that says what no kernel can do.

    >>> import tenxor as tx
    >>> tx.map(lambda x, y: tx.where(x > y, x - y, 0), tx.arange(4), 1).tolist()
    [0, 0, 1, 2]
    """
    if not tensors:
        raise ArgumentError("map: give at least one tensor after the function")
    result = _map_operands("map", function, [asarray(t) for t in tensors])
    return result if dtype is None else result.astype(dtype, copy=False)


def _map_operands(op: str, function: Function, operands: Sequence[Tensor]) -> Tensor:
    """Trace `function`, and return its pending result for the operands, broadcast together."""
    traced = trace(op, function, [t.dtype for t in operands])
    shape = broadcast(op, *(t.shape for t in operands))
    return Tensor._of(_apply_traced(traced, operands, shape))


def _apply_traced(traced: Traced, operands: Sequence[Tensor], shape: tuple[int, ...]) -> Node:
    """Build the node of a traced function applied to operands. The numbers that the function reads are further operands."""
    op = traced.op()
    sources: list[Node | Scalar] = [t.node for t in operands]
    layouts: list[Layout | None] = [t.layout if t.shape == shape else t.layout.expand(shape) for t in operands]
    for x in traced.extras:
        sources.append(x)
        layouts.append(None if isinstance(x, Scalar) else Layout(shape, (0,) * len(shape)))
    return Node.of(op, shape, traced.formula.dtype, tuple(sources), tuple(layouts))


# --- reductions -------------------------------------------------------------------------------------------------------


def _inline_constants(op: str, traced: Traced) -> Expr:
    """Return the traced formula with the numbers it reads as constants. Raise TraceError if it reads a tensor from outside."""
    args: list[Expr] = []
    for x in traced.extras:
        if not isinstance(x, Scalar):
            raise TraceError(f"{op}: the function reads a tensor from outside; give its number with item()")
        args.append(_constant(x.value, x.dtype))
    state_and_element = [Arg(0, traced.dtypes[0]), Arg(1, traced.dtypes[1])]
    return substitute(traced.formula, [*state_and_element, *args])


def _constant(value: Number, dtype: DType) -> Const:
    """Return a number as a constant of `dtype` in a formula."""
    if dtype.is_complex:
        return Const(complex(value), dtype)
    assert not isinstance(value, complex)
    return Const(float(value) if dtype.is_float else value, dtype)


@spelled
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
    """Return `axis` (an int, a tuple, or None for all) reduced by `function(so_far, element)`, in row-major order, as a new tensor.

    The reduction starts from the number `initial`, or from the first element if None. The function is traced as in `map`.

    >>> import tenxor as tx
    >>> tx.reduce(lambda acc, x: 2 * acc + x, tx.asarray([1, 0, 1, 1]), initial=0).item()
    11
    """
    t, reduction = _ordered_reduction("reduce", function, asarray(t), initial)
    result: Tensor = t._reduce(reduction, "reduce", axis, keepdims)
    return result


@spelled
def accumulate(
    function: Function, t: Operand, /, axis: int | None = None, initial: Number | None = None, *, dim: int | None = None
) -> Tensor:
    """Return the results of a running reduction along `axis`, or over the flattened tensor for None, as a new tensor of `t`'s shape.

    Element `i` is `function(so_far, element)` applied to the elements `0..i` in order. The reduction starts from the number `initial`, or
    from the first element if None, which is then the first result. The function is traced as in `map`. Raise AxisError, ArgumentError or
    TraceError. (NumPy's `ufunc.accumulate`; Python's `itertools.accumulate`.)

    >>> import tenxor as tx
    >>> tx.accumulate(lambda level, x: 0.5 * level + x, tx.asarray([4.0, 0.0, 0.0])).tolist()
    [4.0, 2.0, 1.0]
    """
    t, reduction = _ordered_reduction("accumulate", function, asarray(t), initial)
    result: Tensor = t._scan(reduction, "accumulate", axis, None)
    return result


def _ordered_reduction(op: str, function: Function, t: Tensor, initial: Number | None) -> tuple[Tensor, Reduction]:
    """Return the tensor in the dtype of the reduction's state, and the user's function as an ordered reduction."""
    if initial is not None and not isinstance(initial, (bool, int, float, complex)):
        raise ArgumentError(f"{op}: initial is a number, not {described(initial)}")
    initial_dtype = t.dtype if initial is None else (of_number(initial) if t.dtype is boolean else weak(initial, t.dtype, op))
    state, traced = state_dtype(op, function, initial_dtype, t.dtype)
    step = cast(_inline_constants(op, traced), state)
    if initial is not None:
        return t, reduction_in_order(step, _constant(initial, state))
    return t.astype(state, copy=False), reduction_from_first(step, any_order=False)


# --- contraction ------------------------------------------------------------------------------------------------------


def contract(
    a: Operand,
    b: Operand,
    pairs: Sequence[tuple[int, int]],
    multiply: Function | None = None,
    add: Function | None = None,
) -> Tensor:
    """Return products of elements of `a` and `b`, summed over a shared axis, as a new tensor, without temporaries.

    Each pair `(axis of a, axis of b)` pairs two axes of equal size. The last pair is summed over. The pairs before it are batch axes, which
    come first in the result. Then come the other axes of `a`, then those of `b`. So `[(1, 0)]` is a matrix product, `[(0, 0), (2, 1)]` a
    batched one, and no pair an outer product. `multiply(x, y)` and `add(x, y)` may be any traceable functions; the result of `add` must not
    depend on the order of the elements. Without both, dtypes and sums are those of `tensordot`, and for bools the result tells whether any
    pair is true.

    >>> import tenxor as tx
    >>> a, b = tx.asarray([[1, 2], [3, 0]]), tx.asarray([[5, 1], [2, 4]])
    >>> tx.contract(a, b, [(1, 0)], multiply=lambda x, y: x + y, add=tx.maximum).tolist()
    [[6, 6], [8, 4]]
    """
    a, b = asarray(a), asarray(b)
    try:
        pairs = [(i, j) for i, j in pairs]
    except (TypeError, ValueError):
        raise ArgumentError(f"contract: pairs are like [(1, 0)], an axis of each tensor, not {described(pairs)}") from None
    a_axes = paired_axes("contract", "first", a.shape, [i for i, _ in pairs])
    b_axes = paired_axes("contract", "second", b.shape, [j for _, j in pairs])
    for k, (i, j) in enumerate(zip(a_axes, b_axes, strict=True)):
        if a_axes.count(i) > 1 or b_axes.count(j) > 1:
            raise AxisError(
                f"contract: pair {k}, {pairs[k]}, names an axis that another pair has too; name each axis once"
            )
    batches = max(len(pairs) - 1, 0)
    result: Tensor
    if multiply is None and add is None:
        dtype = promote(a.dtype, b.dtype, "contract")
        a_wide, b_wide = widened(a, dtype), widened(b, dtype)
        result = contracted(a_wide, b_wide, loops_along("contract", a_wide.layout, b_wide.layout, a_axes, b_axes, batches), dtype)
        return result
    a_layout, b_layout, _ = loops_along("contract", a.layout, b.layout, a_axes, b_axes, batches)
    views = (a._view(a_layout), b._view(b_layout))
    products = views[0] * views[1] if multiply is None else _map_operands("contract", multiply, views)
    if not pairs:
        return products
    reduction = _find_reduction(add, products)
    if not reduction.has_identity and products.shape[-1] == 0:
        raise ShapeError(
            f"contract: shapes {a.shape} and {b.shape}: axis {a_axes[-1]} of the first and axis {b_axes[-1]} of the second have size"
            " 0, and what `add` makes of nothing is not known; give tensors with elements there"
        )
    result = products._reduce(reduction, "contract", -1, False)
    return result.astype(products.dtype, copy=False) if add is None else result


_BUILT_IN_REDUCTIONS = {
    elementwise.FUNCTIONS["add"]: "sum",
    elementwise.FUNCTIONS["multiply"]: "prod",
    elementwise.FUNCTIONS["maximum"]: "max",
    elementwise.FUNCTIONS["minimum"]: "min",
    elementwise.FUNCTIONS["logical_or"]: "any",
    elementwise.FUNCTIONS["logical_and"]: "all",
}


def _find_reduction(add: Function | None, products: Tensor) -> Reduction:
    """Return the reduction by a user's function, or by the built-in one for our own functions, or the sum for None."""
    if add is None:
        return REDUCTIONS["sum"]
    if add in _BUILT_IN_REDUCTIONS:
        return REDUCTIONS[_BUILT_IN_REDUCTIONS[add]]
    state, traced = state_dtype("contract", add, products.dtype, products.dtype)
    return reduction_from_first(cast(_inline_constants("contract", traced), state), any_order=True)
