"""Steps of a plan, run one after the other: each is given memory, its kernel is launched, and its cell settled, as `plans/steps.py` does.

The caller has the lock of those who compute, and owns what is given. A kernel that takes long runs without Python's lock.
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I32, I64, POINTER, VOID, array
from ..frames import BESIDE, EACH, FLAG, LITERAL, MEMORY, MOST, PLANNED, RESULT, SCRATCH
from ..objects import Objects
from .blocks import DATA
from .function import Function
from .launching import launch_it, number_as

# In the head of a step, in bytes: its kernel, or 0, the extent of the shared loop, how many arguments; the cell that it computes, of how
# many bytes; whether it runs without Python's lock; the memory that it wants for itself; the cell that it writes over, or -1; that whose
# memory it takes if nobody else has it, or -1; how many cells nobody needs any more then; and how many are computed beside it. Of each of
# these follow a cell for its memory, its number, and the cell whose memory it takes.
KERNEL, SPLIT, ARGUMENTS, CELL, NBYTES, RELEASES, WANTED, OVER, TAKES, LAST, BESIDES = (8 * k for k in range(PLANNED))


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    given = [(name, POINTER) for name in ("nodes", "offsets", "scalars")]
    _memory_of_result(Function(module, objects, "memory_of_result", [("step", POINTER), ("takes", I64), given[0]]))
    _run(Function(module, objects, "run_planned", [("step", POINTER), *given], I1))
    _run_steps(Function(module, objects, "run_steps", [("self", POINTER), ("args", POINTER), ("count", I64)], exported=True))


def _run_steps(f: Function) -> None:
    """For Python: run the steps of a frame from one on and up to another, with the nodes, offsets and scalars that are given. The number of
    the first that was not run.
    """
    _, args, _ = f.arguments
    frame, *given, first, last = (args.at(k, POINTER).load(POINTER) for k in range(6))
    program = f.call("PyBytes_AsString", POINTER, [frame])
    at, goes_on = f.local(I64, f.integer(first)), f.local(I64, f.number(1))
    end = f.integer(last)

    def run() -> None:
        start = program.at(at.load(I64), I64).load(I64)
        step = f.define(POINTER, f"getelementptr i8, ptr {program.text}, i64 {start.text}")
        done = f.call("run_planned", I1, [step, *given]).cast("zext", I64)
        at.store(at.load(I64) + done)
        goes_on.store(done)

    f.as_long_as(lambda: f.both(goes_on.load(I64).differs(0), lambda: at.load(I64) < end), run)
    f.tell_what_was_met()
    f.give(f.call("PyLong_FromLongLong", POINTER, [at.load(I64)]))


def _run(f: Function) -> None:
    """Run one step; false if that is Python's to do, say as there is no more memory of this kind."""
    step, nodes, offsets, scalars = f.arguments
    cell = f.hold(_item(f, nodes, f.word(step, CELL)))
    f.require(f.either(f.is_a(cell, "Node"), lambda: f.is_a(cell, "Cell")))
    over, forgotten = f.word(step, OVER), f.word(step, LAST)
    besides = f.at(step, 8 * PLANNED).at(forgotten, I64)
    rows = besides.at(f.word(step, BESIDES) * BESIDE, I64)
    f.each(f.word(step, BESIDES), lambda k: _give_memory(f, step, besides.at(k * BESIDE, I64), nodes))
    own = lambda: [f.call("memory_of_result", POINTER, [step, f.word(step, TAKES), nodes])]  # noqa: E731
    out = f.made(f.choose(over < 0, own, lambda: [f.own(_nobody_elses(f, nodes, over))])[0])
    scratch = f.made(f.call("lend", POINTER, [f.word(step, WANTED)]))
    f.require(_waits(f, cell))  # asked after the last allocation: a finalizer may compute it
    f.each(f.word(step, BESIDES), lambda k: f.require(_waits(f, _item(f, nodes, f.word(besides.at(k * BESIDE, I64), 8)))))
    args, flag = f.local(array(I64, MOST)), f.local(I64, f.number(0))

    def one(k: Value) -> None:
        args.at(k, I64).store(_argument(f, rows.at(k * EACH, I64), (nodes, offsets, scalars), out, scratch, flag))

    f.each(f.word(step, ARGUMENTS), one)
    kernel = f.at(step, KERNEL).load(POINTER)
    launch = f"call void {kernel.text}(ptr {args.text}, i64 0, i64 {f.word(step, SPLIT).text}, i64 0)"

    f.when(~f.is_null(kernel), lambda: launch_it(f, launch, f.word(step, RELEASES).differs(0)))
    f.require(flag.load(I64).equals(0))  # else Python tells of it: its kernel meets the same index, also where this was written over
    f.let_go(scratch)
    f.keeps(out)
    _put(f, cell, out)
    f.each(f.word(step, BESIDES), lambda k: _put_beside(f, besides.at(k * BESIDE, I64), nodes))
    _forget_recipe(f, cell)  # when all of them are there: Python may run
    f.each(f.word(step, BESIDES), lambda k: _forget_recipe(f, _item(f, nodes, f.word(besides.at(k * BESIDE, I64), 8))))
    f.let_go(cell)
    f.each(forgotten, lambda k: _forget(f, nodes, f.at(step, 8 * PLANNED).at(k, I64).load(I64)))
    f.give(f.constant(I1, True))


def _waits(f: Function, cell: Value) -> Value:
    """Whether it is a plan's own cell, or a node that is pending, and nobody has begun to write over what it reads."""

    def of_node() -> Value:
        recipe = f.get(cell, "Node.recipe")
        return f.both(f.is_the(f.get(cell, "Node.buffer"), "None"), lambda: ~f.is_the(f.get(recipe, "Recipe.op"), "UNFINISHED"))

    return f.either(~f.is_a(cell, "Node"), of_node)


def _nobody_elses(f: Function, nodes: Value, over: Value) -> Value:
    """The buffer of a cell, borrowed: its content is written over, as nobody else can read it any more."""
    buffer = _buffer_of(f, _item(f, nodes, over))
    f.require(_is_sole(f, buffer))
    return buffer


def _is_sole(f: Function, buffer: Value) -> Value:
    """Whether a buffer has one owner, and nobody else sees its memory."""
    hidden = lambda: f.both(f.is_the(f.get(buffer, "Buffer.pins"), "0"), lambda: f.is_the(f.get(buffer, "Buffer.frozen"), "False"))  # noqa: E731
    return f.both(f.has_one_owner(buffer), hidden)


def _buffer_of(f: Function, cell: Value) -> Value:
    """The buffer of a node, or of a plan's own cell, borrowed."""
    of_node, of_cell = lambda: [f.get(cell, "Node.buffer")], lambda: [f.get(cell, "Cell.buffer")]
    (buffer,) = f.choose(f.is_a(cell, "Node"), of_node, of_cell)
    f.require(f.is_a(buffer, "Buffer"))
    return buffer


def _item(f: Function, items: Value, k: Value) -> Value:
    """An item of a list, borrowed."""
    found = f.listed(items, k)
    f.refuse(f.is_null(found))
    return found


def _put(f: Function, cell: Value, out: Value) -> None:
    """Give a node, or a plan's own cell, its memory."""

    def into(slot: str) -> list[Value]:
        before = f.get(cell, slot)
        f.set(cell, slot, out)
        f.drop(before)
        return []

    f.choose(f.is_a(cell, "Node"), lambda: into("Node.buffer"), lambda: into("Cell.buffer"))


def _forget_recipe(f: Function, cell: Value) -> None:
    """Of a node that has its memory now."""
    f.when(f.is_a(cell, "Node"), lambda: f.call("forget_recipe", VOID, [cell]))


def _memory_of_result(f: Function) -> None:
    """A buffer for a result: that of a cell which nobody else can read, if it is as large, or a new one."""
    step, takes, nodes = f.arguments

    def taken() -> list[Value]:
        buffer = _buffer_of(f, _item(f, nodes, takes))
        same = f.integer(f.get(buffer, "Buffer.nbytes")).equals(f.word(step, NBYTES))
        may_be = f.both(same, lambda: _is_sole(f, buffer))
        return f.choose(may_be, lambda: [f.own(buffer)], fresh)

    def fresh() -> list[Value]:
        nbytes = f.as_object(f.word(step, NBYTES))
        f.keeps(nbytes)
        return [f.call("buffer_of", POINTER, [nbytes])]

    (found,) = f.choose(takes < 0, fresh, taken)
    f.give(found)


def _give_memory(f: Function, step: Value, beside: Value, nodes: Value) -> None:
    """What is computed beside has memory, in a cell of its own."""
    out = f.call("memory_of_result", POINTER, [step, f.word(beside, 16), nodes])
    f.refuse(f.is_null(out))
    _put(f, _item(f, nodes, beside.load(I64)), out)


def _put_beside(f: Function, beside: Value, nodes: Value) -> None:
    """What was computed beside has its memory."""
    out = f.own(f.get(_item(f, nodes, beside.load(I64)), "Cell.buffer"))
    _put(f, _item(f, nodes, f.word(beside, 8)), out)


def _forget(f: Function, nodes: Value, k: Value) -> None:
    """Nobody needs this cell any more."""
    f.call("PyList_SetItem", I32, [nodes, k, f.own(f.the("DONE"))])


def _argument(f: Function, row: Value, given: tuple[Value, Value, Value], out: Value, scratch: Value, flag: Value) -> Value:
    """What a row of a frame stands for. The `flag` tells of an index that is out of range."""
    nodes, offsets, scalars = given
    kind, which, more = row.load(I64), f.word(row, 8), f.word(row, 32)

    def place(buffer: Value) -> list[Value]:
        at = f.word(row, 16)
        offset = f.choose(at >= 0, lambda: [f.integer(_item(f, offsets, at))], lambda: [f.number(0)])[0]
        return [f.address(f.get(buffer, "Buffer.address")) + offset * f.word(row, 24) + more]

    def memory() -> list[Value]:
        return place(_buffer_of(f, _item(f, nodes, which)))

    def other() -> list[Value]:
        own = lambda: [f.at(scratch, DATA).cast("ptrtoint", I64)]  # noqa: E731
        number = lambda: [number_as(f, kind, f.get(_item(f, scalars, which), "Scalar.value"))]  # noqa: E731
        told = lambda: f.choose(kind.equals(FLAG), lambda: [flag.cast("ptrtoint", I64)], number)  # noqa: E731
        result = lambda: f.choose(kind.equals(RESULT), lambda: place(out), told)  # noqa: E731
        return f.choose(kind.equals(SCRATCH), own, result)

    return f.choose(kind.equals(LITERAL), lambda: [more], lambda: f.choose(kind.equals(MEMORY), memory, other))[0]
