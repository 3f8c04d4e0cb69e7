"""A walk through a pending graph that numbers nodes, offsets and scalars as `plans/pattern.py` does, and writes a cache key.

The keys of two graphs are equal if the same plan computes both. The tables hold addresses of borrowed objects. So from the start of a walk
until the results have been used, no Python code may run and no object tracked by the collector may be created.
"""

from __future__ import annotations

from collections.abc import Callable

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I64, POINTER, VOID
from ..objects import SIZE, Objects
from ..wholes import MOST_NODES, MOST_STEPS
from .function import Function

MANY_NODES = 1 << 11  # most nodes of a graph for which Python code makes a plan; a launch record has at most `MOST_NODES`
DEPTH = 320  # depth of a graph: the walk recurses as deep on the thread's stack
READS, NUMBERS = 1 << 12, 1 << 11  # most operands of a graph's nodes, and most scalars
WORDS = MANY_NODES + 2 * READS  # of the cache key
# the hash table of visited nodes has four slots for each node; a slot holds the walk's number, the node, and the node's number
PER_NODE, SLOT = 4, 3
SLOTS = MANY_NODES * PER_NODE
MIX = -7046029254386353131
LENT = 2 * MOST_STEPS  # memory blocks
_TABLES = {
    "met": SLOTS * SLOT,
    "key": WORDS,
    "nodes": MANY_NODES,
    "addresses": MANY_NODES,  # of the data of nodes in memory
    "first_place": MANY_NODES,  # the first of the node's entries in `places`, or -1
    "offsets": READS,
    "scalars": NUMBERS,
    "places": 2 * READS,  # reads of memory: the offset, and the next entry of the same node, or -1
    "lent": LENT,
    "walked": 13,
}
# Words of `@walked`: the number of the walk; how many nodes it may visit, a power of two; the lengths of the tables; how many nodes are
# pending, and externally shared; a pending node on the way that has other references; an unfinished node to finish first; and how many
# recipes had no serial number yet, because no earlier walk visited them.
WALK, MOST_MET, NODE, WORD, OFFSET, SCALAR, PLACE, BLOCK, WAITING, PINNED, HELD_NODE, BEGUN, NEW = (8 * k for k in range(13))


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
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
    """Emit the serial number of a recipe. No Python code runs."""
    found = f.call("number_had_by", I64, [recipe])
    f.require(found > 0)
    return found


def _number_had_by(f: Function) -> None:
    """Emit `number_had_by(recipe)`: return the serial number of a recipe, assigned on the first call. Return 0 if memory is exhausted."""
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
    """Return the address of byte `at` of the table `name`, one of `_TABLES`, in which a walk through a graph keeps its results."""
    return f.define(POINTER, f"getelementptr i8, ptr @{name}, i64 {at}")


def count(f: Function, which: int) -> Value:
    """Emit a load of a word of `@walked`, given by its byte offset."""
    return table(f, "walked", which).load(I64)


def append(f: Function, name: str, which: int, value: Value, most: Value | None = None) -> Value:
    """Emit code to append the word `value` to the table `name`, and return its index. `which` is the byte offset of the length in
    `@walked`.

    The emitted function returns null or 0 if the table has `most` words already (None: its full size).
    """
    number = count(f, which)
    f.require(number < (_TABLES[name] if most is None else most))
    _add(f, which)
    table(f, name).at(number, I64).store(value)
    return number


def _add(f: Function, which: int) -> None:
    """Emit an increment of one of the words of `@walked`."""
    place = table(f, "walked", which)
    place.store(place.load(I64) + 1)


def _begin(f: Function) -> None:
    """Emit `begin_walk(most)`: start a new walk through a graph, with empty tables, which may visit up to `most` nodes."""
    (most,) = f.arguments
    for which in (NODE, WORD, OFFSET, SCALAR, PLACE, BLOCK, WAITING, PINNED, HELD_NODE, BEGUN, NEW):
        table(f, "walked", which).store(f.number(0))
    _add(f, WALK)
    table(f, "walked", MOST_MET).store(most)
    f.do("ret void")


def _slot_of(f: Function) -> None:
    """Emit `slot_of(node)`: return the hash table slot of a node: the slot of the visited node, or the free slot to write the node to."""
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
    """Emit a test whether the node `x` was visited since the last call of `begin_walk`."""
    return f.call("slot_of", POINTER, [x]).load(I64).equals(count(f, WALK))


def number_of(f: Function, x: Value) -> Value:
    """Emit the number that the node `x` got when it was visited, since the last call of `begin_walk`."""
    return f.call("slot_of", POINTER, [x]).at(2, I64).load(I64)


def meet(f: Function, x: Value, number: Value) -> None:
    """Emit code to mark a node as visited, with this number."""
    itself = x.cast("ptrtoint", I64)
    append(f, "nodes", NODE, itself, count(f, MOST_MET))
    slot = f.call("slot_of", POINTER, [x])
    for k, word in enumerate((count(f, WALK), itself, number)):
        slot.at(k, I64).store(word)


def words(f: Function) -> Value:
    """Emit the cache key that the walk has written, as a new bytes object; null if memory is exhausted."""
    return f.call("PyBytes_FromStringAndSize", POINTER, [table(f, "key"), count(f, WORD) * 8])


def _number(f: Function, node: Value, address: Value) -> None:
    """Emit code to mark a node as visited, with the next number. `address` is the address of the node's data, or 0 for a pending node."""
    number = count(f, NODE)
    meet(f, node, number)
    table(f, "addresses").at(number, I64).store(address)
    table(f, "first_place").at(number, I64).store(f.number(-1))


def _place_of(f: Function) -> None:
    """Emit `place_of(number, offset)`: return the index of the entry in `places` for a node in memory and an offset, added on the first
    call.
    """
    number, offset = f.arguments
    first = table(f, "first_place").at(number, I64)
    at = f.local(I64, first.load(I64))

    def row(k: Value) -> Value:
        return table(f, "places").at(k * 2, I64)

    def is_another() -> Value:
        return f.both(at.load(I64) >= 0, lambda: row(at.load(I64)).load(I64).differs(offset))

    f.as_long_as(is_another, lambda: at.store(row(at.load(I64)).at(1, I64).load(I64)))
    f.when_giving(at.load(I64) >= 0, lambda: at.load(I64))
    found = count(f, PLACE)  # the table has room for an entry for each read
    row(found).store(offset)
    row(found).at(1, I64).store(first.load(I64))
    first.store(found)
    _add(f, PLACE)
    f.give(found)


def _visited(f: Function) -> None:
    """Emit `visited(node, depth)`: visit the sources of a node, then number the node and append it to the key and the tables.

    `depth` is the depth of the recursion. Return false if the fast path cannot run the graph.
    """
    node, depth = f.arguments
    f.require(depth < DEPTH)
    buffer = f.get(node, "Node.buffer")

    def in_memory() -> Value:
        f.when(~f.is_the(f.get(buffer, "Buffer.pins"), "0"), lambda: _add(f, PINNED))
        append(f, "key", WORD, f.number(0))  # no recipe number: distinguishes a node in memory from a pending node with the same readers
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
    """Emit `key_of_graph(root)`: visit the graph of `root`, and return its cache key; null if the fast path cannot run the graph."""
    (root,) = f.arguments
    f.call("begin_walk", VOID, [f.number(MOST_NODES)])
    f.require(f.call("visited", I1, [root, f.number(0)]))
    f.give(words(f))


def _for_python(f: Function) -> None:
    """Emit `take_pattern`, the entry for Python: return the parts of a graph signature (`Pattern`), or None if the graph is too large."""
    _, roots, many = f.arguments
    f.give_or_none(f.call("pattern_of", POINTER, [roots, many]))


def _pattern_of(f: Function) -> None:
    """Emit `pattern_of(roots, count)`: return a tuple for the graph below an array of roots.

    It holds the cache key, the numbers of the roots, the nodes, the scalars, the offsets, and the number of pending nodes.
    """
    roots, many = f.arguments
    # before the walk, since an allocation can start a collection, which runs finalizers
    lists = [f.made(f.call("PyList_New", POINTER, [f.number(0)])) for _ in range(4)]
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
    append(f, "key", WORD, many)  # this separates the roots from the nodes in the key
    put_all("nodes", NODE, nodes, lambda place: f.hold(place.load(POINTER)))
    put_all("scalars", SCALAR, scalars, lambda place: f.hold(place.load(POINTER)))
    put_all("offsets", OFFSET, offsets, lambda place: f.as_object(place.load(I64)))
    _put(f, offsets, f.hold(f.the("0")))
    waiting = f.as_object(count(f, WAITING))
    key = f.made(words(f))
    f.give(f.tuple_of(key, *lists, waiting))


def _put(f: Function, items: Value, item: Value) -> None:
    """Emit code to append an item to a list. The reference is consumed."""
    f.append(items, item)
    f.let_go(item)
