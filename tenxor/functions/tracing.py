"""The user's own functions of numbers, made part of kernels.

A function is called once with 0-d tensors that have a dtype but no value. What it does with them is recorded in their
nodes, as for any tensor, and read back as one formula. Numbers it uses stay run-time arguments, so another number needs
no other kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..dtypes import DType, result_type
from ..errors import TraceError
from ..expr import Arg, Expr, apply, cast
from ..layout import Layout
from ..node import PLACEHOLDER, Node, Scalar
from ..ops import OPS, Op, custom
from ..storage import Storage
from ..tensor import Tensor

Function = Callable[..., Any]
_POINT = Layout.contiguous(())
_known: dict[tuple[Expr, tuple[DType, ...]], Op] = {}


class Traced(NamedTuple):
    """A formula over the function's arguments and then over `extras`: the numbers and 0-d tensors that it also reads."""

    formula: Expr
    dtypes: tuple[DType, ...]
    extras: tuple[Node | Scalar, ...]

    def op(self) -> Op:
        """The operation, the same object for the same formula, so that its kernels are found again."""
        key = (self.formula, (*self.dtypes, *(x.dtype for x in self.extras)))
        found = _known.get(key)
        if found is None:
            found = _known[key] = custom("map", *key)
        return found


def trace(op: str, function: Function, dtypes: Sequence[DType]) -> Traced:
    """What `function` computes from numbers of these dtypes; a TraceError says why it cannot be told."""
    arguments = [Node(PLACEHOLDER, (), d) for d in dtypes]
    given = [Tensor(Storage(node), _POINT, node.dtype) for node in arguments]
    try:
        result = function(*given)
    except TraceError as error:
        raise TraceError(f"{op}: {error}") from None
    if isinstance(result, (bool, int, float)):
        result = Tensor.compute(OPS["positive"], result)
    if not isinstance(result, Tensor):
        raise TraceError(
            f"{op}: the function returned {type(result).__name__}; it must return one number made from its arguments"
        )
    if result.shape != ():
        raise TraceError(
            f"{op}: the function returned a tensor of shape {result.shape}; it works on single elements and must return one number"
        )
    extras: list[Node | Scalar] = []
    numbers = {node: k for k, node in enumerate(arguments)}
    formula = _formula(op, result.node, numbers, extras)
    return Traced(formula, tuple(dtypes), tuple(extras))


def _formula(op: str, node: Node, arguments: dict[Node, int], extras: list[Node | Scalar]) -> Expr:
    known: dict[Node, Expr] = {n: Arg(k, n.dtype) for n, k in arguments.items()}

    def extra(x: Node | Scalar) -> Expr:
        extras.append(x)
        return Arg(len(arguments) + len(extras) - 1, x.dtype)

    def visit(node: Node) -> Expr:
        found = known.get(node)
        if found is None:
            found = known[node] = build(node)
        return found

    def build(node: Node) -> Expr:
        if node.buffer is not None and node.size == 1:
            return extra(node)
        if not isinstance(node.op, Op) or node.shape != ():
            raise TraceError(
                f"{op}: the function uses {node.op} on {node.shape or 'its arguments'}; it may only use elementwise operations on single"
                " elements; reduce or index before or after it"
            )
        args = [extra(s) if type(s) is Scalar else visit(s) for s in node.sources]  # type: ignore[arg-type]
        return cast(args[0], node.dtype) if node.op is OPS["cast"] else apply(node.op, args)

    return visit(node)


def state_dtype(op: str, step: Function, first: DType, element: DType) -> tuple[DType, Traced]:
    """The dtype that a fold's state keeps: the one that `step` gives back unchanged, from `first` on."""
    state = first
    for _ in range(4):
        traced = trace(op, step, (state, element))
        wider = result_type(state, traced.formula.dtype)
        if wider is state:
            return state, traced
        state = wider
    raise TraceError(
        f"{op}: the function's result never settles on one dtype; cast it, for example x.astype(tx.float64)"
    )
