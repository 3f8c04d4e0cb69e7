"""Emitters for the tape: the tape node (`Past`) of a new node, as in `past.py`, and replayed derivative steps, as in
`derivatives/again.py`.
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value, select
from ...backend.llvm.types import I1, I32, I64, POINTER
from ..objects import SIZE, Objects
from .function import Function

MOST_SOURCES = 60  # sources of a node: one bit each in an `i64` mask


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    _followed(Function(module, objects, "followed", [("node", POINTER), ("number", I64)], I1))
    _made_from(Function(module, objects, "made_from", [("step", POINTER), ("every", POINTER)]))
    _for_python(Function(module, objects, "make_again", [("self", POINTER), ("args", POINTER), ("count", I64)], exported=True))


def has_no_value(f: Function, past: Value) -> Value:
    """Emit a test whether a node with the tape node `past` depends on an argument of a function being traced, and so has no value."""
    marked = f.either(f.is_the(past, "TRACED"), lambda: f.is_the(past, "CONSTANT"))
    follows = lambda: f.both(f.is_a(past, "Past"), lambda: f.is_the(f.get(past, "Past.traced"), "True"))  # noqa: E731
    return f.either(marked, follows)


def have_followed(f: Function, node: Value, number: Value) -> None:
    """Emit the recording of a new node on the tape, in the emitted code or else in Python. `number` is the serial number of the node.

    The emitted function returns null or 0 for a node without a value.
    """

    def ask() -> None:
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        f.require(f.is_the(f.ask_python("follow", node), "True"))

    f.when(~f.call("followed", I1, [node, number]), ask)


def _followed(f: Function) -> None:
    """Emit `followed(node, number)`: give a new node its tape node, or the mark or None that follows from its sources in its place.

    The tape node gets the serial number `number` of the node. The function returns false if `Past.followed` in Python must do the work.
    """
    node, number = f.arguments
    recipe, sources, yes = f.get(node, "Node.recipe"), f.get(node, "Node.sources"), f.constant(I1, True)
    count, tracked, traced = f.word(sources, SIZE), f.local(I64, f.number(0)), f.local(I64, f.number(0))
    f.require(count < MOST_SOURCES)

    def look(k: Value) -> None:
        source = f.item(sources, k)

        def a_node() -> None:
            past = f.get(source, "Node.past")
            its, is_own = has_no_value(f, past), f.is_a(past, "Past")
            f.require(f.either(its | is_own, lambda: f.is_the(past, "None")))
            tracked.store(tracked.load(I64) | (is_own.cast("zext", I64) << k))
            traced.store(traced.load(I64) | its.cast("zext", I64))

        f.when(f.is_a(source, "Node"), a_node)

    def is_traced() -> Value:
        return traced.load(I64).differs(0)

    f.each(count, look)
    asked = tracking(f)
    trace = f.selected(f.is_the(asked, "False"), f.the("CONSTANT"), f.the("TRACED"))
    untracked = f.selected(is_traced(), trace, f.the("None"))
    f.when_giving(~f.is_the(asked, "True"), lambda: _has(f, node, untracked))
    known = f.get(recipe, "Recipe.needs")
    f.refuse(f.is_the(known, "None"))
    which = f.as_object(tracked.load(I64))
    needs = f.found_in(known, which)
    f.let_go(which)
    f.refuse(f.is_null(needs))
    f.when_giving(f.is_the(needs, "NOTHING"), lambda: _has(f, node, f.selected(is_traced(), f.the("TRACED"), f.the("None"))))
    f.hold(needs)
    past = f.new("Past")
    for slot, value in (("recipe", recipe), ("offsets", f.get(node, "Node.offsets")), ("reads_result", f.item(needs, 1))):
        f.set(past, f"Past.{slot}", f.own(value))
    f.set(past, "Past.traced", f.truth(is_traced()))
    for slot, name in (("watch", "None"), ("sources", "()")):
        f.set(past, f"Past.{slot}", f.own(f.the(name)))
    f.set(past, "Past.number", own_number := f.as_object(number))
    f.keeps(own_number)
    kept = f.filled(count, lambda k: f.own(_kept_of(f, f.item(sources, k), f.item(f.item(needs, 0), k))))
    for x, slot, value in ((past, "Past.sources", kept), (node, "Node.past", past)):
        before = f.get(x, slot)
        f.set(x, slot, value)
        f.keeps(value)
        f.drop(before)
    f.let_go(needs)
    f.give(yes)


def _has(f: Function, node: Value, past: Value) -> Value:
    """Emit the replacement of the tape node None of a new node by `past`. Return the constant true."""
    f.drop(f.get(node, "Node.past"))
    f.set(node, "Node.past", f.own(past))
    return f.constant(I1, True)


def tracking(f: Function) -> Value:
    """Emit a load of the context variable `node.tracking`: True if the tape is recorded, and otherwise False or None.

    With False, a new node that depends on a traced argument is marked as `CONSTANT`, with None as `TRACED`.
    """
    found = f.local(POINTER, f.nothing())
    f.require(f.call("PyContextVar_Get", I32, [f.the("tracking"), f.nothing(), found]).equals(0))
    asked = found.load(POINTER)
    f.drop(asked)  # True, False and None are immortal
    return asked


def tracks(f: Function) -> Value:
    """Emit a test whether the tape is recorded: whether a node that reads one with a tape node gets a tape node too."""
    return f.is_the(tracking(f), "True")


def _kept_of(f: Function, source: Value, needed: Value) -> Value:
    """Emit a choice of what a new tape node keeps of a source, its residual: a number as it is; the node if its value is needed; otherwise
    its tape node or None, or the node again if the tape node reads its value. `needed` is Python's True or False. The emitted function
    returns null or 0 for an externally shared node with a needed value.
    """

    def whole() -> list[Value]:
        buffer = f.get(source, "Node.buffer")
        f.require(f.either(f.is_the(buffer, "None"), lambda: f.is_the(f.get(buffer, "Buffer.pins"), "0")))
        return [source]

    def past() -> list[Value]:
        own = f.get(source, "Node.past")
        reads = f.both(f.is_a(own, "Past"), lambda: f.is_the(f.get(own, "Past.reads_result"), "True"))
        return [select(reads, source, own)]

    def of_node() -> list[Value]:
        return f.choose(f.is_the(needed, "True"), whole, past)

    return f.choose(f.is_a(source, "Node"), of_node, lambda: [source])[0]


def _for_python(f: Function) -> None:
    """Emit `make_again(every, steps)`, called from Python: append the node of each step to the list `every`, up to the first step that the
    fallback must make.
    """
    _, args, _ = f.arguments
    every, steps = (args.at(k, POINTER).load(POINTER) for k in range(2))
    at, goes_on = f.local(I64, f.number(0)), f.local(I64, f.number(1))
    count = f.length(steps)

    def make() -> None:
        node = f.call("made_from", POINTER, [f.listed(steps, at.load(I64)), every])
        f.when(f.is_null(node), lambda: goes_on.store(f.number(0)))
        f.when(~f.is_null(node), lambda: _append(f, every, node, goes_on))
        at.store(at.load(I64) + 1)

    f.as_long_as(lambda: f.both(goes_on.load(I64).differs(0), lambda: at.load(I64) < count), make)
    f.tell_what_was_met()
    f.give(f.own(f.the("None")))


def _append(f: Function, every: Value, node: Value, goes_on: Value) -> None:
    """Emit the append of a node to a list, releasing the reference to the node. `goes_on` is set to 0 if memory runs out."""
    goes_on.store(f.call("PyList_Append", I32, [every, node]).equals(0).cast("zext", I64))
    f.drop(node)


def _made_from(f: Function) -> None:
    """Emit `made_from(step, every)`: return a new node for a recorded derivative step.

    `step` is a tuple of the recipe, the positions of the sources in the list `every`, and the offsets.
    """
    step, every = f.arguments
    recipe, numbers, offsets = (f.item(step, k) for k in range(3))

    def source(k: Value) -> Value:
        found = f.listed(every, f.integer(f.item(numbers, k)))
        f.refuse(f.is_null(found))
        return f.own(found)

    sources = f.filled(f.word(numbers, SIZE), source)
    f.keeps(sources)
    f.give(f.call("node_of", POINTER, [f.own(recipe), sources, f.own(offsets), f.constant(I1, False), f.constant(I1, True)]))
