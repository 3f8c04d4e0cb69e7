"""The user's own functions of numbers, made part of kernels.

A function is called once with 0-d tensors that have a dtype but no value. What it does with them is recorded in their
nodes, as for any tensor, and read back as one formula. Numbers it uses stay run-time arguments, so another number needs
no other kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dtypes import DType, of_number, plain_number, result_type
from ..errors import TenxorError, TraceError, described
from ..layout import Layout
from ..node import PLACEHOLDER, REINTERPRET, Node, Scalar
from ..ops import OPS, Op, custom
from ..ops.expr import Arg, Expr, apply, call, cast
from ..realize import realize
from ..records import NamedTuple
from ..storage import Storage
from ..tensor import Tensor
from .draws import Refused, within
from .trees import naming

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
    if not callable(function):
        raise TraceError(
            f"{op}: the function is {described(function)}, which cannot be called"
        )
    arguments = [Node.of(PLACEHOLDER, (), d) for d in dtypes]
    given = [Tensor(Storage(node), _POINT, node.dtype) for node in arguments]
    result = _called(op, function, given)
    extras = _Extras(len(arguments))
    if isinstance(result, (bool, int, float, complex)):
        number = plain_number(result)
        formula = extras.add(Scalar(number, of_number(number)), None)
        return Traced(formula, tuple(dtypes), tuple(extras.found))
    if not isinstance(result, Tensor):
        raise TraceError(
            f"{op}: the function returned {type(result).__name__}; it must return one number made from its arguments"
        )
    if result.shape != ():
        raise TraceError(
            f"{op}: the function returned a tensor of shape {result.shape}; it works on single elements and must return one number"
        )
    node = result.node
    made = _made_of(arguments, node)
    if node in made:
        known: dict[Node, Expr] = {x: Arg(k, x.dtype) for k, x in enumerate(arguments)}
        formula = _formula(op, node, result.layout, known, made, extras)
    else:
        formula = extras.add(node, result.layout)
    return Traced(formula, tuple(dtypes), tuple(extras.found))


def _called(op: str, function: Function, given: list[Tensor]) -> Any:
    """What the function returns for the stand-ins; an error in it says that it came up while it was traced."""
    refused = Refused(
        "the function draws random numbers; it is called once, so all elements would have the same. Draw them before, as one more"
        " argument: tx.map(function, x, tx.random.random(x.shape))"
    )
    try:
        with naming(op), within(refused):
            return function(*given)
    except TraceError:
        raise
    except TenxorError as error:
        raise TraceError(
            f"{op}: the function is traced on single elements, tensors of shape (), and failed: {error}"
        ) from error
    except TypeError as error:
        if _takes(function, len(given)):
            raise
        raise TraceError(
            f"{op}: the function must take {len(given)} argument{'s' * (len(given) > 1)}: {error}"
        ) from None


def _takes(function: Function, count: int) -> bool:
    import inspect  # only for those who erred

    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # it has no signature that Python knows
        return True
    return True


def _formula(op: str, node: Node, layout: Layout, known: dict[Node, Expr], made: set[Node], extras: _Extras) -> Expr:
    """The formula that what a layout reads of a node computes; what that reads beside what is `made` of the arguments becomes an
    extra. `known` holds the arguments.
    """

    def read(x: Node | Scalar, layout: Layout | None) -> Expr:
        whole, part = _whole(x, layout)
        if type(whole) is not Node or whole not in made:
            return extras.add(x, layout)
        return known[whole] if part is None else call(part, known[whole])

    stack = [_whole(node, layout)[0]]
    while stack:
        part = stack[-1]
        if part in known:
            stack.pop()
        elif not isinstance(part.op, Op) or part.shape != ():
            raise TraceError(
                f"{op}: the function uses {part.op} on {part.shape or 'its arguments'}; it may only use elementwise operations"
                " on single elements; reduce or index before or after it"
            )
        elif sources := [s for s, _ in map(_whole, part.sources, part.layouts) if type(s) is Node and s in made and s not in known]:
            stack += reversed(sources)
        else:
            args = list(map(read, part.sources, part.layouts))
            known[part] = cast(args[0], part.dtype) if part.op is OPS["cast"] else apply(part.op, args)
    return read(node, layout)


def _whole(x: Node | Scalar, layout: Layout | None) -> tuple[Any, str | None]:
    """What is read; of a part of a complex number that number, and which part it is."""
    if type(x) is Node and x.op is REINTERPRET and layout is not None:
        (source,) = x.sources
        if type(source) is Node and source.dtype.is_complex and source.shape == () and x.dtype is source.dtype.part:
            return source, ("real", "imag")[layout.offset]
    return x, None


def _made_of(arguments: Sequence[Node], result: Node) -> set[Node]:
    """The arguments, which have no value, and what leads from them to the result. What else has none is an argument of a function
    that is traced around this one.
    """
    found = set(arguments)
    known: set[Node] = set(found)
    stack = [(result, False)]
    while stack:
        node, ready = stack.pop()
        if ready and any([s in found for s in node.sources]):
            found.add(node)
        elif node.traced and node not in known:
            known.add(node)
            stack.append((node, True))
            stack += [(s, False) for s in node.sources if type(s) is Node]
    return found


class _Extras:
    """What a function reads beside its arguments, numbered after them: numbers, and single elements of tensors."""

    def __init__(self, arguments: int) -> None:
        self.arguments = arguments
        self.found: list[Node | Scalar] = []
        self.known: dict[tuple[Node, Layout | None], Expr] = {}

    def add(self, x: Node | Scalar, layout: Layout | None) -> Expr:
        """The element of `x` at the one position of a layout, as an argument of the formula."""
        if type(x) is not Node:
            return self.appended(x)
        found = self.known.get((x, layout))
        if found is None:
            element = Node.of(OPS["positive"], (), x.dtype, (x,), (layout,))
            if not element.traced:
                realize(element)
            found = self.known[x, layout] = self.appended(element)
        return found

    def appended(self, x: Node | Scalar) -> Expr:
        self.found.append(x)
        return Arg(self.arguments + len(self.found) - 1, x.dtype)


def state_dtype(op: str, step: Function, first: DType, element: DType) -> tuple[DType, Traced]:
    """The dtype that a reduction's state keeps: the one that `step` gives back unchanged, from `first` on."""
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
