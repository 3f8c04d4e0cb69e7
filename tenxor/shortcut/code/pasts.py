"""Tape nodes that lead to given nodes, and the signature of a tape segment, as in `derivatives/reverse.py` and `derivatives/outline.py`.

Both are walks in the tables of `walk.py`. So no Python code runs until their results are put together.
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I32, I64, POINTER, VOID
from ..objects import SIZE, Objects
from .function import Function
from .walk import MANY_NODES, WORD, append, is_met, meet, number_of, recipe_number, words

# what a tape node keeps of a source; DEPENDS is added if derivatives depend on this source
NOT_KEPT, NODE_KEPT, SCALAR_KEPT, PAST_KEPT, DEPENDS = 0, 1, 2, 3, 4


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    given = [("args", POINTER)]
    _past_of(Function(module, objects, "past_of", [("kept", POINTER)]))
    _known(Function(module, objects, "known_pasts", given))
    _outlined(Function(module, objects, "outline_of_pasts", given))
    for_python = [("self", POINTER), *given, ("count", I64)]
    for name, what in (("pasts_known", "known_pasts"), ("pasts_outlined", "outline_of_pasts")):
        f = Function(module, objects, name, for_python, exported=True)
        f.give_or_none(f.call(what, POINTER, [f.arguments[1]]))


def _past_of(f: Function) -> None:
    """Emit `past_of(kept)`: return the tape node of a kept node; a kept tape node, or another object, is returned unchanged. Borrowed."""
    (kept,) = f.arguments
    f.when_giving(f.is_a(kept, "Node"), lambda: f.get(kept, "Node.past"))
    f.give(kept)


def _known(f: Function) -> None:
    """Emit `known_pasts(args)`: return the tape nodes that lead to a list of nodes, in no order, with serial numbers from `first` on.

    `args` is an array of this list and the Python integer `first`.

    The result is a tuple: the list of tape nodes; a dictionary from a tape node to its node, where the derivative reads the node's value;
    whether the walk met older tape nodes.
    """
    (args,) = f.arguments
    roots, first = (args.at(k, POINTER).load(POINTER) for k in range(2))
    # before the walk, since an allocation can start a collection, which runs finalizers
    order = f.made(f.call("PyList_New", POINTER, [f.number(0)]))
    nodes = f.made(f.call("PyDict_New", POINTER, []))
    at, goes_on, lowest = f.local(I64, f.number(0)), f.local(I64, f.number(0)), f.integer(first)
    f.call("begin_walk", VOID, [f.number(MANY_NODES)])

    def look(kept: Value) -> None:
        past = f.call("past_of", POINTER, [kept])

        def a_new_one() -> None:
            f.refuse(f.is_the(f.get(past, "Past.sources"), "GONE"))
            meet(f, past, f.number(0))
            f.append(order, past)
            reads = f.both(f.is_a(kept, "Node"), lambda: f.is_the(f.get(past, "Past.reads_result"), "True"))
            f.when(reads, lambda: f.require(f.call("PyDict_SetItem", I32, [nodes, past, kept]).equals(0)))

        def a_past() -> None:
            is_before = f.integer(f.get(past, "Past.number")) < lowest
            f.when(is_before, lambda: goes_on.store(f.number(1)))
            f.when(~is_before, a_new_one)

        f.when(f.both(f.is_a(past, "Past"), lambda: ~is_met(f, past)), a_past)

    def go_on() -> None:
        sources = f.get(f.listed(order, at.load(I64)), "Past.sources")
        f.each(f.word(sources, SIZE), lambda k: look(f.item(sources, k)))
        at.store(at.load(I64) + 1)

    f.each(f.length(roots), lambda k: look(f.listed(roots, k)))
    f.as_long_as(lambda: at.load(I64) < f.length(order), go_on)
    f.give(f.tuple_of(order, nodes, f.holding(f.truth(goes_on.load(I64).differs(0)))))


def _outlined(f: Function) -> None:
    """Emit `outline_of_pasts(args)`: return a tuple: the signature of a tape segment as bytes, a list of the new inputs of the segment, and
    a list of its outer tape nodes.

    The array `args` holds the segment, the tape nodes that matter for the derivative, the tape nodes asked about, the nodes with values
    read by a derivative, and the inputs so far. Outer tape nodes are outside of the segment, which reads them.
    """
    (args,) = f.arguments
    stretch, depends, asked, nodes, before = (args.at(k, POINTER).load(POINTER) for k in range(5))
    given, outer = (f.made(f.call("PyList_New", POINTER, [f.number(0)])) for _ in range(2))
    many = f.length(before)
    f.call("begin_walk", VOID, [f.number(MANY_NODES)])

    def word(value: Value) -> None:
        append(f, "key", WORD, value)

    def put_given(x: Value) -> None:
        def new() -> None:
            meet(f, x, many + f.length(given))
            f.append(given, x)

        f.when(~is_met(f, x), new)
        word(number_of(f, x))

    def put_place(past: Value) -> None:
        def new() -> None:
            meet(f, past, f.number(-1) - f.length(outer))
            f.append(outer, past)

        f.when(~is_met(f, past), new)
        word(number_of(f, past))
        word(recipe_number(f, f.get(past, "Past.recipe")))

    def put_kept(kept: Value) -> None:
        past = f.call("past_of", POINTER, [kept])
        is_past = f.is_a(past, "Past")
        matters = f.choose(is_past, lambda: [_contains(f, depends, past)], lambda: [f.number(0)])[0]
        is_node, is_scalar = f.is_a(kept, "Node"), f.is_a(kept, "Scalar")
        kind = f.selected(is_node, f.number(NODE_KEPT), f.selected(is_scalar, f.number(SCALAR_KEPT), f.number(PAST_KEPT)))
        word(f.selected(f.is_the(kept, "None"), f.number(NOT_KEPT), kind) + matters * DEPENDS)
        f.when(matters.differs(0), lambda: put_place(past))
        f.when(is_node, lambda: word(recipe_number(f, f.get(kept, "Node.recipe"))))
        f.when(f.either(is_node, lambda: is_scalar), lambda: put_given(kept))

    def put_past(k: Value) -> None:
        past = f.listed(stretch, k)
        f.require(f.is_the(f.get(past, "Past.traced"), "False"))
        offsets, sources = (f.get(past, f"Past.{slot}") for slot in ("offsets", "sources"))
        word(recipe_number(f, f.get(past, "Past.recipe")))
        f.each(f.word(offsets, SIZE), lambda k: word(f.integer(f.item(offsets, k))))
        word(_contains(f, asked, past))
        node = f.found_in(nodes, past)
        f.when(f.is_null(node), lambda: word(f.number(-1)))
        f.when(~f.is_null(node), lambda: put_given(node))
        f.each(f.word(sources, SIZE), lambda k: put_kept(f.item(sources, k)))

    f.each(f.length(stretch), lambda k: meet(f, f.listed(stretch, k), k))
    f.each(many, lambda k: meet(f, f.listed(before, k), k))
    f.each(f.length(stretch), put_past)
    key = f.made(words(f))
    f.give(f.tuple_of(key, given, outer))


def _contains(f: Function, those: Value, x: Value) -> Value:
    """Emit a 64-bit 1 if the object `x` is in the set `those`, else 0. The emitted function returns null or 0 on an error."""
    found = f.call("PySet_Contains", I32, [those, x])
    f.require(found >= 0)
    return found.cast("sext", I64)
