"""User-defined scalar functions, compiled into kernels (`tx.map`, `tx.reduce`). A function is called once with 0-d tensors without values.
The operations are recorded in nodes, as always, and read back as a formula. Numbers used by the function stay run-time arguments, so a new
number needs no new kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..dtypes import DType, default_dtype_of, result_type, to_plain_number
from ..errors import TenxorError, TraceError, describe_value
from ..graph.node import PLACEHOLDER, REINTERPRET, Node, Scalar
from ..graph.storage import Storage
from ..layout import Layout
from ..lowering.index_maps import has_checked_exponents
from ..ops import OPS, Op, make_custom_op
from ..ops.expr import Arg, Expr, apply, call, cast
from ..runtime.realize import realize
from ..tensor import Tensor
from .draw_scopes import RefusingScope, open_scope
from .nested_structures import prefix_trace_errors

Function = Callable[..., Any]
_SCALAR_LAYOUT = Layout.contiguous(())
_op_cache: BoundedCache[Op] = register("operations of users", "an operation, by formula and dtypes")(BoundedCache(1 << 10))


class TracedFunction(NamedTuple):
    """A traced function: `formula` over the arguments, of `dtypes`, followed by `extras`.

    `extras` are numbers and 0-d tensors that the function reads besides the arguments.
    """

    formula: Expr
    dtypes: tuple[DType, ...]
    extras: tuple[Node | Scalar, ...]

    def op(self) -> Op:
        """Return the elementwise operation that computes the formula. Equal formulas share an object, so that cached kernels are found."""
        key = (self.formula, (*self.dtypes, *(x.dtype for x in self.extras)))
        op = _op_cache.get(key)
        if op is None:
            op = make_custom_op("map", *key)
            _op_cache.put(key, op)
        return op


def trace_scalar_function(op: str, function: Function, dtypes: Sequence[DType]) -> TracedFunction:
    """Return the formula computed by `function` from numbers, with further values read; `dtypes` has the dtype of each argument.

    Raise TraceError, with the reason, if the function cannot be traced. The message begins with `op`.
    """
    if not callable(function):
        raise TraceError(
            f"{op}: the function is {describe_value(function)}, which cannot be called; give the function itself, not its result"
        )
    arguments = [Node.of(PLACEHOLDER, (), d) for d in dtypes]
    tensors = [Tensor(Storage(node), _SCALAR_LAYOUT, node.dtype) for node in arguments]
    result = _call_function(op, function, tensors)
    extras = _Extras(len(arguments))
    if isinstance(result, (bool, int, float, complex)):
        number = to_plain_number(result)
        formula = extras.add(Scalar(number, default_dtype_of(number)), None)
        return TracedFunction(formula, tuple(dtypes), tuple(extras.operands))
    if not isinstance(result, Tensor):
        raise TraceError(f"{op}: the function returned {type(result).__name__}; it must return one number made from its arguments")
    if result.shape != ():
        raise TraceError(
            f"{op}: the function returned a tensor of shape {result.shape}; it works on single elements and must return one number"
        )
    node = result.node
    dependents = _find_dependents(arguments, node)
    if node in dependents:
        formula_of: dict[Node, Expr] = {x: Arg(k, x.dtype) for k, x in enumerate(arguments)}
        formula = _build_formula(op, node, result.layout, formula_of, dependents, extras)
    else:
        formula = extras.add(node, result.layout)
    return TracedFunction(formula, tuple(dtypes), tuple(extras.operands))


def _call_function(op: str, function: Function, arguments: list[Tensor]) -> Any:
    """Return `function(*arguments)` for the placeholders `arguments`.

    Errors of Tenxor in the function, a draw of random numbers, and a wrong number of parameters raise TraceError, beginning with `op`.
    """
    refused = RefusingScope(
        "the function draws random numbers; it is called once, so all elements would have the same. Draw them before, as one more"
        " argument: tx.map(function, x, tx.random.random(x.shape))"
    )
    try:
        with prefix_trace_errors(op), open_scope(refused):
            return function(*arguments)
    except TraceError:
        raise
    except TenxorError as error:
        raise TraceError(f"{op}: the function is traced on single elements, tensors of shape (), and failed: {error}") from error
    except TypeError as error:
        if _accepts_count(function, len(arguments)):
            raise
        raise TraceError(f"{op}: the function must take {len(arguments)} argument{'s' * (len(arguments) > 1)}: {error}") from None


def _accepts_count(function: Function, count: int) -> bool:
    """Return whether `function` can be called with `count` positional arguments; True if Python does not know the signature."""
    import inspect  # imported only after an error

    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # Python does not know the signature
        return True
    return True


def _build_formula(op: str, node: Node, layout: Layout, formula_of: dict[Node, Expr], dependents: set[Node], extras: _Extras) -> Expr:
    """Return the formula for the element of `node` read through `layout`.

    `formula_of` maps nodes to formulas, at first the arguments, and is extended. A value outside `dependents`, independent of the
    arguments, is added to `extras`, and becomes a further argument. Raise TraceError, beginning with `op`, for an operation that is not
    elementwise on single elements.
    """

    def read(x: Node | Scalar, layout: Layout | None) -> Expr:
        source, component = _split_component(x, layout)
        if type(source) is not Node or source not in dependents:
            return extras.add(x, layout)
        return formula_of[source] if component is None else call(component, formula_of[source])

    stack = [_split_component(node, layout)[0]]
    while stack:
        current = stack[-1]
        if current in formula_of:
            stack.pop()
        elif not isinstance(current.op, Op) or current.shape != ():
            raise TraceError(
                f"{op}: the function uses {current.op} on {current.shape or 'its arguments'}; it may only use elementwise operations"
                " on single elements; reduce or index before or after it"
            )
        elif has_checked_exponents(current):
            raise TraceError(
                f"{op}: the function raises {current.dtype} to a power that is a tensor; its kernel cannot report negative powers;"
                " use a number, a float base, for example x.astype(tx.float64), or tx.pow before or after it"
            )
        elif sources := [
            s
            for s, _ in map(_split_component, current.sources, current.layouts)
            if type(s) is Node and s in dependents and s not in formula_of
        ]:
            stack += reversed(sources)
        else:
            args = list(map(read, current.sources, current.layouts))
            formula_of[current] = cast(args[0], current.dtype) if current.op is OPS["cast"] else apply(current.op, args)
    return read(node, layout)


def _split_component(x: Node | Scalar, layout: Layout | None) -> tuple[Any, str | None]:
    """Return `(x, None)`, or for the real or imaginary part of a 0-d complex node, this node and "real" or "imag".

    `layout` is the layout through which `x` is read, None for a number.
    """
    if type(x) is Node and x.op is REINTERPRET and layout is not None:
        (source,) = x.sources
        if type(source) is Node and source.dtype.is_complex and source.shape == () and x.dtype is source.dtype.part:
            return source, ("real", "imag")[layout.offset]
    return x, None


def _find_dependents(arguments: Sequence[Node], result: Node) -> set[Node]:
    """Return the set of `arguments` and of the nodes on paths from them to `result`.

    Traced nodes outside the set depend on the arguments of an outer function that is being traced.
    """
    dependents = set(arguments)
    visited: set[Node] = set(dependents)
    stack = [(result, False)]
    while stack:
        node, ready = stack.pop()
        if ready and any([s in dependents for s in node.sources]):
            dependents.add(node)
        elif node.is_traced and node not in visited:
            visited.add(node)
            stack.append((node, True))
            stack += [(s, False) for s in node.sources if type(s) is Node]
    return dependents


class _Extras:
    """The values read by a function besides the arguments, numbered after the arguments: numbers, and single elements of tensors."""

    def __init__(self, arguments: int) -> None:
        self.arguments = arguments
        self.operands: list[Node | Scalar] = []
        self.argument_of: dict[tuple[Node, Layout | None], Expr] = {}

    def add(self, x: Node | Scalar, layout: Layout | None) -> Expr:
        """Return the argument of the formula for the single element of `x` read through `layout`. `layout` is None for a number."""
        if type(x) is not Node:
            return self.append(x)
        argument = self.argument_of.get((x, layout))
        if argument is None:
            element = Node.of(OPS["positive"], (), x.dtype, (x,), (layout,))
            if not element.is_traced:
                realize(element)
            argument = self.argument_of[x, layout] = self.append(element)
        return argument

    def append(self, x: Node | Scalar) -> Expr:
        """Append `x` to the operands, and return the new argument of the formula."""
        self.operands.append(x)
        return Arg(self.arguments + len(self.operands) - 1, x.dtype)


def trace_reduction_step(op: str, step: Function, initial: DType, element: DType) -> tuple[DType, TracedFunction]:
    """Return the dtype of a reduction's state, and the step traced for a state of this dtype and an element of dtype `element`.

    Starting with `initial`, the state is widened until `step(state, element)` keeps the dtype. Raise TraceError, beginning with `op`, if
    this takes more than four rounds.
    """
    state = initial
    for _ in range(4):
        traced = trace_scalar_function(op, step, (state, element))
        wider = result_type(state, traced.formula.dtype)
        if wider is state:
            return state, traced
        state = wider
    raise TraceError(
        f"{op}: the dtype of the function's result still changes after four steps; it must settle on one; cast it, for example"
        " x.astype(tx.float64)"
    )
