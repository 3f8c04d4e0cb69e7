"""A pending graph as a whole: known by what it is made of, and computed by the kernels of its plan.

A walk through the graph numbers its nodes, offsets and scalars as `plans/pattern.py` does, and writes down a key: words that are equal
if the same plan computes both. The frame that is found with it reads what the walk noted. So Python runs nothing from the walk on until
all is computed: memory that is lent meanwhile are blocks, which the collector does not know.
"""

from __future__ import annotations

from ..backend.llvm.builder import Module, Value
from ..backend.llvm.types import I1, I64, POINTER, array
from .blocks import DATA, LARGEST
from .compute import lock_is_free, number_as, settled
from .frames import EACH, FLAG, LITERAL, LOOK, MEMORY, MOST, MOST_NODES, MOST_STEPS, SCRATCH, STEP
from .function import Function
from .objects import BYTES, SIZE, Objects

READS, NUMBERS = 512, 256  # of a graph at the most: what its nodes read, and scalars
WORDS = MOST_NODES + 2 * READS  # of its key
SLOTS, SLOT = 1024, 3  # of the table of nodes that were met; each has the walk, the node, and its number
MIX = -7046029254386353131
LENT = 2 * MOST_STEPS  # blocks
_TABLES = {
    "met": SLOTS * SLOT,
    "key": WORDS,
    "nodes": MOST_NODES,
    "addresses": MOST_NODES,  # of what is in memory
    "offsets": READS,
    "scalars": NUMBERS,
    "places": 2 * READS,  # in memory that are read: whose, and from where on
    "lent": LENT,
    "walked": 8,
}
# In `@walked`: the number of the walk; how many there are; and a node that others have, which is needed on the way.
WALK, NODE, WORD, OFFSET, SCALAR, PLACE, BLOCK, HELD_NODE = (8 * k for k in range(8))
FAILED, DONE, UNKNOWN, HELD = range(4)  # what may become of it


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    for name, words in _TABLES.items():
        module.globals[name] = f"@{name} = internal global [{words} x i64] zeroinitializer, align 64"
    _slot_of(Function(module, objects, "slot_of", [("node", POINTER)]))
    _place_of(Function(module, objects, "place_of", [("number", I64), ("offset", I64)], I64))
    _visited(Function(module, objects, "visited", [("node", POINTER)], I1))
    _key_of(Function(module, objects, "key_of_graph", [("root", POINTER)]))
    _run_step(Function(module, objects, "run_step", [("step", POINTER)], I1))
    _run_graph(Function(module, objects, "run_graph", [("root", POINTER), ("out", POINTER)], I64))
    _computed_whole(Function(module, objects, "computed_whole", [("root", POINTER)], I1))


def _table(f: Function, name: str, at: int = 0) -> Value:
    return f.define(POINTER, f"getelementptr i8, ptr @{name}, i64 {at}")


def _count(f: Function, which: int) -> Value:
    return _table(f, "walked", which).load(I64)


def _append(f: Function, table: str, which: int, value: Value) -> Value:
    """Write a word behind those in a table, where there is room; its number."""
    count = _table(f, "walked", which)
    number = count.load(I64)
    f.require(number < _TABLES[table])
    count.store(number + 1)
    _table(f, table).at(number, I64).store(value)
    return number


# The walk


def _slot_of(f: Function) -> None:
    """Where a node stands among those that were met, or belongs: who meets it writes it there."""
    (node,) = f.arguments
    walk, itself = _count(f, WALK), node.cast("ptrtoint", I64)
    at = f.local(I64, (itself * MIX).shifted_right(64 - 10))

    def slot() -> Value:
        return _table(f, "met").at(at.load(I64) * SLOT, I64)

    def is_another() -> Value:
        return f.both(slot().load(I64).equals(walk), lambda: slot().at(1, I64).load(I64).differs(itself))

    f.as_long_as(is_another, lambda: at.store((at.load(I64) + 1) & (SLOTS - 1)))
    f.give(slot())


def _is_met(f: Function, slot: Value) -> Value:
    return slot.load(I64).equals(_count(f, WALK))


def _number(f: Function, node: Value, address: Value) -> None:
    """Give a node the next number."""
    number = _append(f, "nodes", NODE, node.cast("ptrtoint", I64))
    _table(f, "addresses").at(number, I64).store(address)
    slot = f.call("slot_of", POINTER, [node])
    for k, word in enumerate((_count(f, WALK), node.cast("ptrtoint", I64), number)):
        slot.at(k, I64).store(word)


def _place_of(f: Function) -> None:
    """Which of the places in memory that are read one is: a node's, from an offset on."""
    number, offset = f.arguments
    count, at = _count(f, PLACE), f.local(I64, f.number(0))

    def is_another() -> Value:
        here = _table(f, "places").at(at.load(I64) * 2, I64)
        same = f.both(here.load(I64).equals(number), lambda: here.at(1, I64).load(I64).equals(offset))
        return f.both(at.load(I64) < count, lambda: ~same)

    def is_left() -> Value:
        return f.both(at.load(I64) < count, is_another)

    f.as_long_as(is_left, lambda: at.store(at.load(I64) + 1))
    f.when_giving(at.load(I64) < count, lambda: at.load(I64))
    here = _table(f, "places").at(count * 2, I64)  # there is one for each read
    here.store(number)
    here.at(1, I64).store(offset)
    _table(f, "walked", PLACE).store(count + 1)
    f.give(count)


def _visited(f: Function) -> None:
    """Number a node that was not met yet, after all that it reads; false if the graph is none for this way."""
    (node,) = f.arguments
    buffer = f.get(node, "Node.buffer")

    def in_memory() -> Value:
        f.require(f.is_the(f.get(buffer, "Buffer.pins"), "0"))
        _append(f, "key", WORD, f.number(0))  # no recipe: so this is told from what waits, whatever reads the two
        _number(f, node, f.integer(f.get(buffer, "Buffer.address")))
        return f.constant(I1, True)

    f.when_giving(~f.is_the(buffer, "None"), in_memory)
    f.refuse(f.is_the(f.get(node, "Node.past"), "TRACED"))
    recipe, sources, offsets = (f.get(node, f"Node.{slot}") for slot in ("recipe", "sources", "offsets"))

    def meet(k: Value) -> None:
        source = f.item(sources, k)

        def if_new() -> None:
            f.when(~_is_met(f, f.call("slot_of", POINTER, [source])), lambda: f.require(f.call("visited", I1, [source])))

        f.when(f.is_a(source, "Node"), if_new)

    f.each(f.word(sources, SIZE), meet)
    stored = (~f.is_the(f.get(node, "Node.stored"), "False")).cast("zext", I64)
    _append(f, "key", WORD, recipe.cast("ptrtoint", I64) + stored)
    f.each(f.word(offsets, SIZE), lambda k: _append(f, "offsets", OFFSET, f.integer(f.item(offsets, k))))

    def read(k: Value) -> None:
        source = f.item(sources, k)

        def a_node() -> list[Value]:
            number = f.call("slot_of", POINTER, [source]).at(2, I64).load(I64)
            offset = f.integer(f.item(offsets, k))
            _append(f, "key", WORD, number)
            waits = f.is_the(f.get(source, "Node.buffer"), "None")
            _append(f, "key", WORD, f.choose(waits, lambda: [offset], lambda: [f.call("place_of", I64, [number, offset])])[0])
            return []

        def a_scalar() -> list[Value]:
            _append(f, "scalars", SCALAR, source.cast("ptrtoint", I64))
            return []

        f.choose(f.is_a(source, "Node"), a_node, a_scalar)

    f.each(f.word(sources, SIZE), read)
    _number(f, node, f.number(0))
    f.give(f.constant(I1, True))


def _key_of(f: Function) -> None:
    """The key of a graph, as bytes; nothing if it is none for this way."""
    (root,) = f.arguments
    for count in (NODE, WORD, OFFSET, SCALAR, PLACE, BLOCK, HELD_NODE):
        _table(f, "walked", count).store(f.number(0))
    _table(f, "walked", WALK).store(_count(f, WALK) + 1)
    f.require(f.call("visited", I1, [root]))
    f.give(f.call("PyBytes_FromStringAndSize", POINTER, [_table(f, "key"), _count(f, WORD) * 8]))


# What is done with it


def _computed_whole(f: Function) -> None:
    """Whether a pending node is computed now, by the kernels of a plan: Python makes a frame of it for the first."""
    (root,) = f.arguments
    recipe = f.get(root, "Node.recipe")
    f.require(f.integer(f.get(recipe, "Recipe.nbytes")) <= LARGEST)
    f.require(lock_is_free(f))
    out = f.made(f.call("new_buffer", POINTER, [recipe]))
    found = f.call("run_graph", I64, [root, out])

    def make() -> list[Value]:
        answer = f.call("PyObject_CallOneArg", POINTER, [f.the("have_graph_framed"), root])
        f.refuse(f.is_null(answer))
        f.drop(answer)
        return [f.call("run_graph", I64, [root, out])]

    (found,) = f.choose(found.equals(UNKNOWN), make, lambda: [found])

    def after_what_is_held() -> Value:
        """What others have is computed before, for itself; sums are not, as they might come out otherwise than together with the rest."""
        node = f.hold(_table(f, "walked", HELD_NODE).load(POINTER))
        f.require(f.is_a(f.get(f.get(node, "Node.recipe"), "Recipe.op"), "Op"))
        f.require(f.call("computed", I1, [node]))
        f.let_go(node, out)
        return f.call("computed_whole", I1, [root])

    held = list(f._held)
    f.when_giving(found.equals(HELD), after_what_is_held)
    f._held[:] = held
    f.require(found.equals(DONE))
    f.keeps(out)
    f.give(f.constant(I1, True))


def _run_graph(f: Function) -> None:
    """Compute a node into a buffer, which is the node's then; or say that no frame is known. Python runs nothing but at the end."""
    root, out = f.arguments
    f.require(lock_is_free(f))
    f.require(f.is_the(f.get(root, "Node.buffer"), "None"))
    f.require(f.integer(f.get(out, "Buffer.nbytes")).equals(f.integer(f.get(f.get(root, "Node.recipe"), "Recipe.nbytes"))))
    key = f.made(f.call("key_of_graph", POINTER, [root]))
    frame = f.found_in(f.the("graphs"), key)
    f.let_go(key)
    f.when_giving(f.is_null(frame), lambda: f.number(UNKNOWN))
    f.require(f.word(frame, SIZE) > 0)
    program = f.at(frame, BYTES)
    looks, steps = program.load(I64), f.word(program, 8)
    _table(f, "addresses").at(_count(f, NODE) - 1, I64).store(f.integer(f.get(out, "Buffer.address")))
    first = program.at(2, I64)

    def look(k: Value) -> None:
        """What others have, too, is to be kept: what has memory on the way, and the next time what is inlined."""
        here = first.at(k * LOOK, I64)
        node = _table(f, "nodes").at(here.load(I64), POINTER).load(POINTER)
        others = f.owners(node).cast("zext", I64).differs(f.word(here, 8))
        inlined = f.word(here, 16).differs(0)
        f.when(others, lambda: f.choose(inlined, lambda: _store_next_time(f, node), lambda: _note_held(f, node)))

    f.each(looks, look)
    f.when_giving(_table(f, "walked", HELD_NODE).load(I64).differs(0), lambda: f.number(HELD))
    step, left = f.local(POINTER, first.at(looks * LOOK, I64)), f.local(I64, steps)

    def run() -> None:
        here = step.load(POINTER)
        step.store(here.at(f.word(here, 16) * EACH + STEP, I64))
        done = f.call("run_step", I1, [here])
        left.store(f.selected(done, left.load(I64) - 1, f.number(-1)))

    f.as_long_as(lambda: left.load(I64) > 0, run)
    f.each(_count(f, BLOCK), lambda k: f.drop(_table(f, "lent").at(k, POINTER).load(POINTER)))
    f.require(left.load(I64).equals(0))
    settled(f, root, out)
    f.give(f.number(DONE))


def _store_next_time(f: Function, node: Value) -> list[Value]:
    before = f.get(node, "Node.stored")
    f.set(node, "Node.stored", f.own(f.the("True")))
    f.drop(before)
    return []


def _note_held(f: Function, node: Value) -> list[Value]:
    _table(f, "walked", HELD_NODE).store(node.cast("ptrtoint", I64))
    return []


def _run_step(f: Function) -> None:
    """Run a kernel; false if there is no memory for it, or if it met an index that is out of range."""
    (step,) = f.arguments
    args, flag = f.local(array(I64, MOST)), f.local(I64, f.number(0))
    number, nbytes = f.word(step, 24), f.word(step, 32)
    f.when(nbytes > 0, lambda: _table(f, "addresses").at(number, I64).store(_lent(f, nbytes)))

    def one(k: Value) -> None:
        row = step.at(STEP, I64).at(k * EACH, I64)
        kind, which, more = row.load(I64), f.word(row, 8), f.word(row, 32)

        def memory() -> list[Value]:
            at = f.word(row, 16)
            offset = f.choose(at >= 0, lambda: [_table(f, "offsets").at(at, I64).load(I64)], lambda: [f.number(0)])[0]
            return [_table(f, "addresses").at(which, I64).load(I64) + offset * f.word(row, 24) + more]

        def scalar() -> list[Value]:
            source = _table(f, "scalars").at(which, POINTER).load(POINTER)
            return [number_as(f, kind, f.get(source, "Scalar.value"))]

        def other() -> list[Value]:
            is_flag = kind.equals(FLAG)
            rest = lambda: f.choose(kind.equals(SCRATCH), lambda: [_lent(f, more)], scalar)  # noqa: E731
            return f.choose(is_flag, lambda: [flag.cast("ptrtoint", I64)], rest)

        (value,) = f.choose(kind.equals(LITERAL), lambda: [more], lambda: f.choose(kind.equals(MEMORY), memory, other))
        args.at(k, I64).store(value)

    f.each(f.word(step, 16), one)
    kernel = step.load(POINTER)
    f.do(f"call void {kernel.text}(ptr {args.text}, i64 0, i64 {f.word(step, 8).text}, i64 0)")
    f.give(flag.load(I64).equals(0))


def _lent(f: Function, nbytes: Value) -> Value:
    """The address of memory that is given back when the graph has been computed."""
    f.require(_count(f, BLOCK) < LENT)
    block = f.call("lend", POINTER, [nbytes])
    f.refuse(f.is_null(block))
    _append(f, "lent", BLOCK, block.cast("ptrtoint", I64))
    return block.cast("ptrtoint", I64) + DATA
