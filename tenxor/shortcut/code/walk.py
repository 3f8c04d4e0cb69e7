"""A walk through what is pending, which numbers nodes, offsets and scalars as `plans/pattern.py` does, and writes down a key: words that
are equal if the same plan computes both.

What is noted are addresses of what others own. So from where a walk begins Python runs nothing, and no object is made that the collector
knows, until that has been used.
"""

from __future__ import annotations

from collections.abc import Callable

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I64, POINTER, VOID
from ..objects import SIZE, Objects
from ..wholes import MOST_NODES, MOST_STEPS
from .function import Function

MANY_NODES = 1 << 11  # of a graph at the most, of which Python makes a plan; a frame is made of one with `MOST_NODES`
DEPTH = 320  # of a graph: the walk goes as deep, on the stack of the thread
READS, NUMBERS = 1 << 12, 1 << 11  # of a graph at the most: what its nodes read, and scalars
WORDS = MANY_NODES + 2 * READS  # of its key
PER_NODE, SLOT = 4, 3  # the table of nodes that were met has four slots for each; one has the walk, the node, and its number
SLOTS = MANY_NODES * PER_NODE
MIX = -7046029254386353131
LENT = 2 * MOST_STEPS  # blocks
_TABLES = {
    "met": SLOTS * SLOT,
    "key": WORDS,
    "nodes": MANY_NODES,
    "addresses": MANY_NODES,  # of what is in memory
    "first_place": MANY_NODES,  # of those that are read of it, or -1
    "offsets": READS,
    "scalars": NUMBERS,
    "places": 2 * READS,  # in memory that are read: from where on, and the next of the same node, or -1
    "lent": LENT,
    "walked": 13,
}
# In `@walked`: the number of the walk, and how many nodes it may meet, a power of two; how many there are, and how many of the nodes are
# pending or pinned; a node that others have, which is needed on the way, and one that is finished before; and how many recipes had no
# number yet, as no other walk met them.
WALK, MOST_MET, NODE, WORD, OFFSET, SCALAR, PLACE, BLOCK, WAITING, PINNED, HELD_NODE, BEGUN, NEW = (8 * k for k in range(13))


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    for name, words in _TABLES.items():
        module.variable(name, f"internal global [{words} x i64] zeroinitializer, align 64")
    _begin(Function(module, objects, "begin_walk", [("most", I64)], VOID))
    _slot_of(Function(module, objects, "slot_of", [("node", POINTER)]))
    _number_had_by(Function(module, objects, "number_had_by", [("recipe", POINTER)], I64))
    _place_of(Function(module, objects, "place_of", [("number", I64), ("offset", I64)], I64))
    _visited(Function(module, objects, "visited", [("node", POINTER), ("depth", I64)], I1))
    _key_of(Function(module, objects, "key_of_graph", [("root", POINTER)]))
    _pattern_of(Function(module, objects, "pattern_of", [("roots", POINTER), ("count", I64)]))
    _for_python(Function(module, objects, "take_pattern", [("self", POINTER), ("roots", POINTER), ("count", I64)], exported=True))


def recipe_number(f: Function, recipe: Value) -> Value:
    """The number of a recipe. No Python runs."""
    found = f.call("number_had_by", I64, [recipe])
    f.require(found > 0)
    return found


def _number_had_by(f: Function) -> None:
    """The same, which it is given when it is asked for first; 0 where there was no memory."""
    (recipe,) = f.arguments
    there = f.get(recipe, "Recipe.number")
    f.when_giving(~f.is_null(there), lambda: f.integer(there))
    found = f.call("next_recipe", I64, [])
    number = f.as_object(found)
    f.set(recipe, "Recipe.number", number)
    f.keeps(number)
    _add(f, NEW)
    f.give(found)


def table(f: Function, name: str, at: int = 0) -> Value:
    """Where a table begins, or a word of it is."""
    return f.define(POINTER, f"getelementptr i8, ptr @{name}, i64 {at}")


def count(f: Function, which: int) -> Value:
    """One of the numbers in `@walked`."""
    return table(f, "walked", which).load(I64)


def append(f: Function, name: str, which: int, value: Value, most: Value | None = None) -> Value:
    """Write a word behind those in a table, where there is room; its number."""
    number = count(f, which)
    f.require(number < (_TABLES[name] if most is None else most))
    _add(f, which)
    table(f, name).at(number, I64).store(value)
    return number


def _add(f: Function, which: int) -> None:
    """One more of these."""
    place = table(f, "walked", which)
    place.store(place.load(I64) + 1)


def _begin(f: Function) -> None:
    """A new walk, which may meet so many nodes."""
    (most,) = f.arguments
    for which in (NODE, WORD, OFFSET, SCALAR, PLACE, BLOCK, WAITING, PINNED, HELD_NODE, BEGUN, NEW):
        table(f, "walked", which).store(f.number(0))
    _add(f, WALK)
    table(f, "walked", MOST_MET).store(most)
    f.do("ret void")


def _slot_of(f: Function) -> None:
    """Where a node stands among those that were met, or belongs: who meets it writes it there."""
    (node,) = f.arguments
    walk, itself, last = count(f, WALK), node.cast("ptrtoint", I64), count(f, MOST_MET) * PER_NODE - 1
    at = f.local(I64, (itself * MIX).shifted_right(64 - SLOTS.bit_length() + 1) & last)

    def slot() -> Value:
        return table(f, "met").at(at.load(I64) * SLOT, I64)

    def is_another() -> Value:
        return f.both(slot().load(I64).equals(walk), lambda: slot().at(1, I64).load(I64).differs(itself))

    f.as_long_as(is_another, lambda: at.store((at.load(I64) + 1) & last))
    f.give(slot())


def is_met(f: Function, x: Value) -> Value:
    """Whether something was met on this walk."""
    return f.call("slot_of", POINTER, [x]).load(I64).equals(count(f, WALK))


def number_of(f: Function, x: Value) -> Value:
    """The number that it was given then."""
    return f.call("slot_of", POINTER, [x]).at(2, I64).load(I64)


def meet(f: Function, x: Value, number: Value) -> None:
    """Give something that was not met yet a number."""
    itself = x.cast("ptrtoint", I64)
    append(f, "nodes", NODE, itself, count(f, MOST_MET))
    slot = f.call("slot_of", POINTER, [x])
    for k, word in enumerate((count(f, WALK), itself, number)):
        slot.at(k, I64).store(word)


def words(f: Function) -> Value:
    """The key, as bytes; null if there is no memory for it."""
    return f.call("PyBytes_FromStringAndSize", POINTER, [table(f, "key"), count(f, WORD) * 8])


def _number(f: Function, node: Value, address: Value) -> None:
    """Give a node the next number."""
    number = count(f, NODE)
    meet(f, node, number)
    table(f, "addresses").at(number, I64).store(address)
    table(f, "first_place").at(number, I64).store(f.number(-1))


def _place_of(f: Function) -> None:
    """Which of the places in memory that are read one is: a node's, from an offset on."""
    number, offset = f.arguments
    first = table(f, "first_place").at(number, I64)
    at = f.local(I64, first.load(I64))

    def row(k: Value) -> Value:
        return table(f, "places").at(k * 2, I64)

    def is_another() -> Value:
        return f.both(at.load(I64) >= 0, lambda: row(at.load(I64)).load(I64).differs(offset))

    f.as_long_as(is_another, lambda: at.store(row(at.load(I64)).at(1, I64).load(I64)))
    f.when_giving(at.load(I64) >= 0, lambda: at.load(I64))
    found = count(f, PLACE)  # there is room for one for each read
    row(found).store(offset)
    row(found).at(1, I64).store(first.load(I64))
    first.store(found)
    _add(f, PLACE)
    f.give(found)


def _visited(f: Function) -> None:
    """Number a node that was not met yet, after all that it reads; false if the graph is none for this way."""
    node, depth = f.arguments
    f.require(depth < DEPTH)
    buffer = f.get(node, "Node.buffer")

    def in_memory() -> Value:
        f.when(~f.is_the(f.get(buffer, "Buffer.pins"), "0"), lambda: _add(f, PINNED))
        append(f, "key", WORD, f.number(0))  # no recipe: so this is told from what waits, whatever reads the two
        _number(f, node, f.address(f.get(buffer, "Buffer.address")))
        return f.constant(I1, True)

    f.when_giving(~f.is_the(buffer, "None"), in_memory)
    f.refuse(f.is_the(f.get(node, "Node.past"), "TRACED"))
    f.refuse(f.is_the(f.get(node, "Node.past"), "CONSTANT"))
    recipe, sources, offsets = (f.get(node, f"Node.{slot}") for slot in ("recipe", "sources", "offsets"))
    is_begun = f.is_the(f.get(recipe, "Recipe.op"), "UNFINISHED")
    f.when(is_begun, lambda: table(f, "walked", BEGUN).store(node.cast("ptrtoint", I64)))
    f.refuse(is_begun)

    def meet(k: Value) -> None:
        source = f.item(sources, k)
        if_new = lambda: f.when(~is_met(f, source), lambda: f.require(f.call("visited", I1, [source, depth + 1])))  # noqa: E731
        f.when(f.is_a(source, "Node"), if_new)

    f.each(f.word(sources, SIZE), meet)
    stored = (~f.is_the(f.get(node, "Node.stored"), "False")).cast("zext", I64)
    append(f, "key", WORD, recipe_number(f, recipe) * 2 + stored)
    f.each(f.word(offsets, SIZE), lambda k: append(f, "offsets", OFFSET, f.integer(f.item(offsets, k))))

    def read(k: Value) -> None:
        source = f.item(sources, k)

        def a_node() -> list[Value]:
            number = number_of(f, source)
            offset = f.integer(f.item(offsets, k))
            append(f, "key", WORD, number)
            waits = f.is_the(f.get(source, "Node.buffer"), "None")
            append(f, "key", WORD, f.choose(waits, lambda: [offset], lambda: [f.call("place_of", I64, [number, offset])])[0])
            return []

        def a_scalar() -> list[Value]:
            append(f, "scalars", SCALAR, source.cast("ptrtoint", I64))
            return []

        f.choose(f.is_a(source, "Node"), a_node, a_scalar)

    f.each(f.word(sources, SIZE), read)
    _number(f, node, f.number(0))
    _add(f, WAITING)
    f.give(f.constant(I1, True))


def _key_of(f: Function) -> None:
    """The key of a graph; nothing if it is none for this way."""
    (root,) = f.arguments
    f.call("begin_walk", VOID, [f.number(MOST_NODES)])
    f.require(f.call("visited", I1, [root, f.number(0)]))
    f.give(words(f))


def _for_python(f: Function) -> None:
    """For Python: what a `Pattern` of pending nodes is made of; None if they are too many."""
    _, roots, many = f.arguments
    f.give_or_none(f.call("pattern_of", POINTER, [roots, many]))


def _pattern_of(f: Function) -> None:
    """The key of what these roots need, their numbers, nodes, scalars, offsets, and how many nodes are pending."""
    roots, many = f.arguments
    lists = [f.made(f.call("PyList_New", POINTER, [f.number(0)])) for _ in range(4)]  # before the walk, as a collection runs anything
    numbers, nodes, scalars, offsets = lists
    f.call("begin_walk", VOID, [f.number(MANY_NODES)])

    def visit(k: Value) -> None:
        root = roots.at(k, POINTER).load(POINTER)
        f.require(f.is_the(f.get(root, "Node.buffer"), "None"))
        f.when(~is_met(f, root), lambda: f.require(f.call("visited", I1, [root, f.number(0)])))
        append(f, "key", WORD, number_of(f, root))
        _put(f, numbers, f.as_object(number_of(f, root)))

    def put_all(name: str, which: int, items: Value, made_of: Callable[[Value], Value]) -> None:
        f.each(count(f, which), lambda k: _put(f, items, made_of(table(f, name).at(k, I64))))

    f.each(many, visit)
    append(f, "key", WORD, many)  # so roots are told from nodes
    put_all("nodes", NODE, nodes, lambda place: f.hold(place.load(POINTER)))
    put_all("scalars", SCALAR, scalars, lambda place: f.hold(place.load(POINTER)))
    put_all("offsets", OFFSET, offsets, lambda place: f.as_object(place.load(I64)))
    _put(f, offsets, f.hold(f.the("0")))
    waiting = f.as_object(count(f, WAITING))
    key = f.made(words(f))
    f.give(f.tuple_of(key, *lists, waiting))


def _put(f: Function, items: Value, item: Value) -> None:
    """Append an item, which is held no more, to a list."""
    f.append(items, item)
    f.let_go(item)
