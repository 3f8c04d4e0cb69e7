"""The fast paths of `Tensor` methods: emitted code that runs first, with the fallback in Python behind it."""

from __future__ import annotations

from collections.abc import Callable

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I32, I64, POINTER, VOID, array
from ...tensor.core import FOUND_OUT
from ..methods import METHODS, Kind, Method
from ..objects import SIZE, Objects
from . import (
    apart,
    batches,
    blocks,
    call,
    compute,
    creating,
    factoring,
    finding,
    follow,
    functions,
    gather,
    graph,
    index,
    joining,
    kinds,
    later,
    launching,
    looks,
    looping,
    numbers,
    ordering,
    pasts,
    picking,
    placing,
    read,
    record,
    reuse,
    rules,
    running,
    searching,
    slots,
    specs,
    spreading,
    tables,
    together,
    updating,
    walk,
    working,
    write,
)
from .function import Function
from .numbers import of_points
from .write import refuse_pinned

_SAID: dict[str, Callable[[Function, Value], Value]] = {
    "shape": lambda f, spec: f.own(f.get(spec, "Spec.shape")),
    "size": lambda f, spec: f.own(f.get(spec, "Spec.size")),
    "ndim": lambda f, spec: f.call("PyLong_FromLongLong", POINTER, [f.word(f.get(spec, "Spec.shape"), SIZE)]),
}


def _unary(op: str) -> Callable[[Function], Value]:
    """Return the emitter of the fast path of a unary operation, given the operation's name."""
    return lambda f: f.call("unary", POINTER, [f.arguments[0], f.the(f"op {op}")])


def _binary(op: str, comes_last: bool = False) -> Callable[[Function], Value]:
    """Return the emitter of the fast path of a binary operator. If `comes_last`, the tensor is the second operand, as in `__radd__`."""
    return lambda f: _of_two(f, op, f.arguments[0], f.arguments[1], f.constant(I1, comes_last))


def _of_two(f: Function, op: str, x: Value, y: Value, last: Value) -> Value:
    """Emit a binary operation on the tensor `x` and `y`, a tensor or a number. With `last`, `y` is the first operand.

    Return the result, or null to leave the call to the fallback.
    """
    point = of_points(f, op, x, y, last)
    others = lambda: [f.call("binary", POINTER, [x, y, f.the(f"op {op}"), last])]  # noqa: E731
    return f.choose(f.is_null(point), others, lambda: [point])[0]


def _binary_named(op: str) -> Callable[[Function], Value]:
    """Return the emitter of the fast path of a binary operation as a method, like `x.add(y)`. It leaves an argument given by name to the
    fallback.
    """

    def short(f: Function) -> Value:
        x, args, count, names = f.arguments
        plain = f.both(count.equals(1), lambda: f.is_null(names))
        call = lambda: [_of_two(f, op, x, args.load(POINTER), f.constant(I1, False))]  # noqa: E731
        return f.choose(plain, call, lambda: [f.nothing()])[0]

    return short


def _in_place(op: str) -> Callable[[Function], Value]:
    """Return the emitter of the fast path of an in-place operator, given the operation's name."""
    def short(f: Function) -> Value:
        x, y = f.arguments[:2]
        return f.call("in_place", POINTER, [x, y, f.the(f"op {op}"), of_points(f, op, x, y, f.constant(I1, False))])

    return short


def _plain(function: str) -> Callable[[Function], Value]:
    """Return the emitter of the fast path of a method without arguments: a call of the emitted function `function` with the tensor."""
    return lambda f: f.call(function, POINTER, f.arguments[:1])


def _called(name: str, kind: Kind) -> Callable[[Function], Value]:
    """Return the emitter of the fast path of the method `name`, called as `kind` says, which replays a recorded call."""

    def short(f: Function) -> Value:
        if kind is Kind.ANY:
            given = f.arguments[1:]
        elif kind is Kind.ONE:
            place = f.local(POINTER, f.arguments[1])
            given = [place, f.number(1), f.nothing()]
        else:
            given = [f.nothing(), f.number(0), f.nothing()]
        return f.call("called", POINTER, [f.arguments[0], *given, f.the(f"'{name}'")])

    return short


def _power(f: Function) -> Value:
    """Emit `x ** y`. An exponent of 2 gives the operation `square`, except for booleans; otherwise a recorded call is replayed."""
    x, y = f.arguments
    found = f.both(f.is_the(y, "2"), lambda: f.both(f.is_a(x, "Tensor"), lambda: ~f.is_the(f.get(x, "Tensor.dtype"), "bool")))
    (square,) = f.choose(found, lambda: [f.call("unary", POINTER, [x, f.the("op square")])], lambda: [f.nothing()])

    def others() -> list[Value]:
        f.when(~f.is_null(f.call("PyErr_Occurred", POINTER, [])), f.tell_what_was_met)
        return [_called("__pow__", Kind.ONE)(f)]

    return f.choose(f.is_null(square), others, lambda: [square])[0]


def _copied(name: str) -> Callable[[Function], Value]:
    """Return the emitter of the fast path of `copy` or `clone`: a new tensor with the same immutable node, or else a recorded call."""
    return lambda f: _copied_or(f, lambda: [_called(name, Kind.NOTHING)(f)])[0]


def _as_dtype(name: str) -> Callable[[Function], Value]:
    """Return the emitter of the fast path of `astype` or `to`: for the tensor's own dtype a new tensor with the same node, or else a
    recorded call.
    """

    def short(f: Function) -> Value:
        x, args, count, names = f.arguments
        again = lambda: [_called(name, Kind.ANY)(f)]  # noqa: E731
        is_own = lambda: f.both(f.is_a(x, "Tensor"), lambda: args.load(POINTER).equals(f.get(x, "Tensor.dtype")))  # noqa: E731
        plain = f.both(count.equals(1), lambda: f.both(f.is_null(names), is_own))
        return f.choose(plain, lambda: _copied_or(f, again), again)[0]

    return short


def _copied_or(f: Function, again: Callable[[], list[Value]]) -> list[Value]:
    """Emit a copy of the first argument, a tensor, that shares its node, or else the code of `again`. Return the result, or null, in a
    list.
    """
    found = f.call("copied", POINTER, f.arguments[:1])
    declined = f.both(f.is_null(found), lambda: f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    return f.choose(declined, again, lambda: [found])


def _of_slot(name: str, find: Callable[[Function, Value], Value]) -> Callable[[Function], Value]:
    """Return the emitter of the fast path of an attribute, computed by `find` from the slot `name` of the tensor. While the slot is unset,
    the attribute is left to the fallback.
    """

    def short(f: Function) -> Value:
        there = f.get(f.arguments[0], f"Tensor.{name}")
        return f.choose(f.is_null(there), lambda: [f.nothing()], lambda: [find(f, there)])[0]

    return short


def _with_two(function: str) -> Callable[[Function], Value]:
    """Return the emitter of the fast path of a method with two arguments besides the tensor: a call of the emitted function `function`."""

    def short(f: Function) -> Value:
        x, args, count = f.arguments
        call = lambda: [f.call(function, POINTER, [x, args.load(POINTER), args.at(1, POINTER).load(POINTER)])]  # noqa: E731
        return f.choose(count.equals(2), call, lambda: [f.nothing()])[0]

    return short


def _item(f: Function) -> Value:
    """Emit `item`: the only element, or the element at given coordinates, as a Python number."""
    x, args, count = f.arguments

    def at() -> list[Value]:
        key = f.filled(count, lambda k: f.own(args.at(k, POINTER).load(POINTER)))
        found = f.call("item_at", POINTER, [x, key])
        f.let_go(key)
        return [found]

    return f.choose(count.equals(0), lambda: [f.call("only", POINTER, [x])], at)[0]


def _index_add(f: Function) -> Value:
    """Emit `index_add_(0, index, source)`: add rows to those at indices along the first axis, and return the tensor itself."""
    x, args, count, names = f.arguments
    plain = f.both(count.equals(3), lambda: f.both(f.is_null(names), lambda: f.is_the(args.load(POINTER), "0")))

    def add() -> list[Value]:
        found = f.call("add_picked", POINTER, [x, *[args.at(k, POINTER).load(POINTER) for k in (1, 2)]])
        return f.choose(f.is_null(found), lambda: [found], lambda: [_instead(f, found, x)])

    return f.choose(plain, add, lambda: [f.nothing()])[0]


def _filled(f: Function) -> Value:
    """Emit `fill_(value)`: write a number to all elements, and return the tensor itself."""
    x, args, count, names = f.arguments
    value = args.load(POINTER)
    is_number = lambda: f.either(f.is_a(value, "float"), lambda: f.is_a(value, "int"))  # noqa: E731
    plain = f.both(count.equals(1), lambda: f.both(f.is_null(names), is_number))

    def fill() -> list[Value]:
        found = f.call("set_item", POINTER, [x, f.the("..."), value])
        return f.choose(f.is_null(found), lambda: [found], lambda: [_instead(f, found, x)])

    return f.choose(plain, fill, lambda: [f.nothing()])[0]


def _instead(f: Function, found: Value, x: Value) -> Value:
    """Emit the release of `found`. Return `x`, with a new reference."""
    f.drop(found)
    return f.own(x)


def _rounded(f: Function) -> Value:
    """Emit `round`: without digits the operation `round`, with digits a recorded call."""
    x, args, count, names = f.arguments
    plain = f.both(count.equals(0), lambda: f.is_null(names))
    to_digits = lambda: [f.call("called", POINTER, [x, args, count, names, f.the("'round'")])]  # noqa: E731
    return f.choose(plain, lambda: [f.call("unary", POINTER, [x, f.the("op round")])], to_digits)[0]


def _with(f: Function) -> Value:
    """Emit `_with(op, *others)`: apply an operation to the tensor and the other operands."""
    x, args, count = f.arguments

    def given(k: int) -> Value:
        return args.at(k, POINTER).load(POINTER)

    def one() -> list[Value]:
        return [f.call("unary", POINTER, [x, given(0)])]

    def two() -> list[Value]:
        return [f.call("binary", POINTER, [x, given(1), given(0), f.constant(I1, False)])]

    def more() -> list[Value]:
        return [f.call("applied", POINTER, [given(0), x, args.at(1, POINTER), count - 1])]

    any_of_these = lambda: f.choose(count.equals(1), one, lambda: f.choose(count.equals(2), two, more))  # noqa: E731
    return f.choose(count.equals(0), lambda: [f.nothing()], any_of_these)[0]


def _ufunc(f: Function) -> None:
    """Emit `ufunc_called`: `__array_ufunc__` for a NumPy ufunc that has a counterpart here and gets only tensors and numbers."""
    _, args, count, names = f.arguments
    f.require(f.both(count > 2, lambda: f.is_null(names)))
    method = args.at(1, POINTER).load(POINTER)
    f.require(f.is_a(method, "str"))
    f.require(f.call("PyUnicode_Compare", I32, [method, f.the("'__call__'")]).equals(0))  # NumPy passes another string object
    ours = f.found_in(f.the("ufuncs"), args.load(POINTER))
    f.refuse(f.is_null(ours))
    inputs = args.at(2, POINTER)
    f.each(count - 2, lambda k: f.require(slots.is_plain(f, inputs.at(k, POINTER).load(POINTER))))
    f.hold(ours)
    found = f.made(f.call("PyObject_Vectorcall", POINTER, [ours, inputs, count - 2, f.nothing()]))
    f.let_go(ours)
    f.keeps(found)
    f.give(found)


_OWN: dict[str, Callable[[Function], Value]] = {
    "__pow__": _power,
    **{name: _of_slot("spec", find) for name, find in _SAID.items()},
    **{name: _of_slot(name, Function.own) for name in FOUND_OUT},
    **{"realize": _plain("realized"), "to_numpy": _plain("to_numpy"), "numpy": _plain("to_numpy"), "tolist": _plain("listed")},
    **{name: _copied(name) for name in ("copy", "clone")},
    **{name: _as_dtype(name) for name in ("astype", "to")},
    **{"__bool__": _plain("truth"), "__float__": _plain("as_float"), "__int__": _plain("as_int")},
    **{"__len__": _plain("length"), "__iter__": _plain("iterated")},
    "__getitem__": lambda f: f.call("get_item", POINTER, f.arguments),
    "__setitem__": _with_two("set_item"),
    **{"item": _item, "index_add_": _index_add, "fill_": _filled, "round": _rounded, "_with": _with},
    "__array_ufunc__": lambda f: f.call("ufunc_called", POINTER, f.arguments),
}


def _short(method: Method) -> Callable[[Function], Value]:
    """Return the emitter of a method's fast path. It takes the function being emitted and returns the result, null for the fallback."""
    if method.in_place:
        return _in_place(method.in_place)
    if method.op and method.kind is Kind.ANY:
        return _binary_named(method.op)
    if method.op:
        return _unary(method.op) if method.kind is Kind.NOTHING else _binary(method.op, method.comes_last)
    return _OWN.get(method.name) or _called(method.name, method.kind)


_PARAMETERS = {
    Kind.NOTHING: [("x", POINTER), ("unused", POINTER)],
    Kind.ONE: [("x", POINTER), ("y", POINTER)],
    Kind.SOME: [("x", POINTER), ("args", POINTER), ("count", I64)],
    Kind.ANY: [("x", POINTER), ("args", POINTER), ("count", I64), ("names", POINTER)],
    Kind.ATTRIBUTE: [("x", POINTER), ("closure", POINTER)],
}


def module(objects: Objects, made: Module) -> Module:
    """Emit all functions of the fast path into the LLVM module `made`, and return this module."""
    computing = (compute, launching, walk, looks, graph, running, pasts, batches)
    making = (reuse, blocks, numbers, follow, specs, tables, record, working, kinds, rules)
    in_place = (looping, factoring, ordering, searching, finding)
    writing = (index, write, updating, apart, later, spreading, picking, placing, gather, joining, together, creating)
    for part in (*making, *computing, read, *in_place, call, *writing):
        part.write(made, objects)
    _ask_python_briefly(Function(made, objects, "ask_python_briefly", [("own", POINTER), ("x", POINTER), ("argument", POINTER)]))
    _ask_python(
        Function(
            made,
            objects,
            "ask_python",
            [("own", POINTER), ("x", POINTER), ("given", POINTER), ("count", I64), ("names", POINTER)],
        )
    )
    _held(Function(made, objects, "in_place", [("x", POINTER), ("y", POINTER), ("op", POINTER), ("point", POINTER)]))
    _ufunc(Function(made, objects, "ufunc_called", _PARAMETERS[Kind.ANY]))
    for method in METHODS:
        _method(Function(made, objects, method.symbol, _PARAMETERS[method.kind], exported=True), method)
    slots.write(made, objects)
    functions.write(made, objects)
    made.variable("objects", f"global [{len(objects.names)} x ptr] zeroinitializer")
    return made


def _method(f: Function, method: Method) -> None:
    """Emit the entry of a method: the fast path, then, if it gives null, a call of the fallback in Python."""
    found = _short(method)(f)
    f.when_giving(~f.is_null(found), lambda: found)
    own, null = f.the(f"own {method.name}"), f.nothing()
    x, *given = f.arguments
    if method.kind is Kind.SOME:
        given = [*given, null]
    elif method.kind is not Kind.ANY:
        given = given if method.kind is Kind.ONE else [null]
    f.give(f.call("ask_python" if len(given) > 1 else "ask_python_briefly", POINTER, [own, x, *given]))


def _ask_python_briefly(f: Function) -> None:
    """Emit `ask_python_briefly(own, x, argument)`: call the fallback in Python with the tensor, and with the argument unless it is null."""
    own, x, argument = f.arguments
    f.tell_what_was_met()
    f.raise_if_uninitialized(x)
    f.when(~f.is_null(argument), lambda: f.raise_if_uninitialized(argument))
    args = f.local(array(POINTER, 2))
    args.store(x)
    args.at(1, POINTER).store(argument)
    count = f.selected(f.is_null(argument), f.number(1), f.number(2))
    f.give(f.call("PyObject_Vectorcall", POINTER, [own, args, count, f.nothing()]))


def _ask_python(f: Function) -> None:
    """Emit `ask_python(own, x, given, count, names)`: call the fallback in Python with the tensor and an array of arguments."""
    own, x, given, count, names = f.arguments
    f.tell_what_was_met()
    f.raise_if_uninitialized(x)
    named = f.choose(f.is_null(names), lambda: [f.number(0)], lambda: [f.word(names, SIZE)])[0]
    f.each(count + named, lambda k: f.raise_if_uninitialized(given.at(k, POINTER).load(POINTER)))
    every = f.call("PyMem_Malloc", POINTER, [(count + named + 1) * 8])
    f.when_giving(f.is_null(every), lambda: f.call("PyErr_NoMemory", POINTER, []))
    every.store(x)
    f.each(count + named, lambda k: every.at(k + 1, POINTER).store(given.at(k, POINTER).load(POINTER)))
    found = f.call("PyObject_Vectorcall", POINTER, [own, every, count + 1, names])
    f.call("PyMem_Free", VOID, [every])
    f.give(found)


def _held(f: Function) -> None:
    """Emit `in_place(x, y, op, point)`: write the result of `op` on `x` and `y` into `x`, and return `x`.

    `point` is the result if already known as a scalar, else null.
    """
    x, y, op, point = f.arguments

    def result() -> list[Value]:
        refuse_pinned(f, x)
        return [f.call("binary", POINTER, [x, y, op, f.constant(I1, False)])]

    found = f.made(f.choose(f.is_null(point), result, lambda: [point])[0])
    storage = f.get(x, "Tensor.storage")
    f.when_giving(f.is_a(storage, "Element"), lambda: _element_holds(f, x, storage, found))
    f.require(f.call("takes", I1, [x, found, y]))
    f.let_go(found)
    f.give(f.own(x))


def _element_holds(f: Function, x: Value, storage: Value, found: Value) -> Value:
    """Emit the update of a 0-d tensor with a known scalar: store the scalar of `found` in its storage, and return the tensor."""
    held = list(f._held)
    spec = f.get(x, "Tensor.spec")
    f.require(f.get(found, "Tensor.spec").equals(spec))
    made = f.get(found, "Tensor.storage")
    has_none = lambda: f.is_the(f.get(f.get(made, "Storage.node"), "Node.past"), "None")  # noqa: E731
    f.require(f.either(f.is_a(made, "Element"), has_none))
    f.require(f.get(spec, "Spec.shape").equals(f.the("()")))
    f.require(f.get(storage, "Element._dtype").equals(f.get(spec, "Spec.dtype")))
    number = f.made(f.call("only", POINTER, [found]))
    before = f.get(storage, "Element._number")  # read late: Python code may have run and changed the scalar
    f.refuse(f.is_the(before, "None"))
    f.set(storage, "Element._number", number)
    f.keeps(number, found)
    f.drop(before)
    f.drop(found)
    f._held[:] = held
    return f.own(x)
