"""Steps of a plan, run one after the other: each is given memory, its kernel is launched, and its cell settled, as `plans/steps.py` does.

The caller has the lock of those who compute, and owns what is given. A kernel that takes long runs without Python's lock.
"""

from __future__ import annotations

from ..backend.llvm.builder import Module, Value
from ..backend.llvm.types import I1, I32, I64, POINTER, VOID, array
from .blocks import DATA
from .compute import number_as, settled
from .frames import EACH, LITERAL, MEMORY, MOST, PLANNED, RESULT, SCRATCH
from .function import Function
from .objects import Objects

# In the head of a step, in bytes: its kernel, or 0, the extent of the shared loop, how many arguments; the cell that it computes, of how
# many bytes; whether it runs without Python's lock; the memory that it wants for itself; the cell that it writes over, or -1; and how many
# cells nobody needs any more then.
KERNEL, SPLIT, ARGUMENTS, CELL, NBYTES, RELEASES, WANTED, OVER, LAST = (8 * k for k in range(PLANNED))


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    given = [(name, POINTER) for name in ("nodes", "offsets", "scalars")]
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
    is_node = f.is_a(cell, "Node")
    f.require(f.either(is_node, lambda: f.is_a(cell, "Cell")))

    def fresh() -> list[Value]:
        nbytes = f.as_object(f.word(step, NBYTES))
        f.keeps(nbytes)
        return [f.call("buffer_of", POINTER, [nbytes])]

    over = f.word(step, OVER)
    out = f.made(f.choose(over < 0, fresh, lambda: [f.own(_nobody_elses(f, nodes, over))])[0])
    scratch = f.made(f.call("lend", POINTER, [f.word(step, WANTED)]))
    f.require(f.either(~is_node, lambda: _waits(f, cell)))  # asked after the last allocation: a finalizer may compute it
    args = f.local(array(I64, MOST))
    forgotten = f.word(step, LAST)
    rows = f.at(step, 8 * PLANNED).at(forgotten, I64)

    def one(k: Value) -> None:
        args.at(k, I64).store(_argument(f, rows.at(k * EACH, I64), (nodes, offsets, scalars), out, scratch))

    f.each(f.word(step, ARGUMENTS), one)
    kernel = f.at(step, KERNEL).load(POINTER)
    launch = f"call void {kernel.text}(ptr {args.text}, i64 0, i64 {f.word(step, SPLIT).text}, i64 0)"

    def without_the_lock() -> list[Value]:
        state = f.call("PyEval_SaveThread", POINTER, [])
        f.do(launch)
        f.call("PyEval_RestoreThread", VOID, [state])
        return []

    def with_it() -> list[Value]:
        f.do(launch)
        return []

    def run() -> None:
        f.choose(f.word(step, RELEASES).differs(0), without_the_lock, with_it)

    f.when(~f.is_null(kernel), run)
    f.let_go(scratch)
    f.keeps(out)
    f.choose(is_node, lambda: _settle_node(f, cell, out), lambda: _settle_cell(f, cell, out))
    f.let_go(cell)
    f.each(forgotten, lambda k: _forget(f, nodes, f.at(step, 8 * PLANNED).at(k, I64).load(I64)))
    f.give(f.constant(I1, True))


def _waits(f: Function, node: Value) -> Value:
    """Whether a node is pending, and nobody has begun to write over what it reads."""
    op = f.get(f.get(node, "Node.recipe"), "Recipe.op")
    return f.both(f.is_the(f.get(node, "Node.buffer"), "None"), lambda: ~f.is_the(op, "UNFINISHED"))


def _nobody_elses(f: Function, nodes: Value, over: Value) -> Value:
    """The buffer of a cell, borrowed: its content is written over, as nobody else can read it any more."""
    buffer = _buffer_of(f, _item(f, nodes, over))
    f.require(f.has_one_owner(buffer))
    f.require(f.both(f.is_the(f.get(buffer, "Buffer.pins"), "0"), lambda: f.is_the(f.get(buffer, "Buffer.frozen"), "False")))
    return buffer


def _buffer_of(f: Function, cell: Value) -> Value:
    """The buffer of a node, or of a plan's own cell, borrowed."""
    of_node, of_cell = lambda: [f.get(cell, "Node.buffer")], lambda: [f.get(cell, "Cell.buffer")]
    (buffer,) = f.choose(f.is_a(cell, "Node"), of_node, of_cell)
    f.require(f.is_a(buffer, "Buffer"))
    return buffer


def _item(f: Function, items: Value, k: Value) -> Value:
    """An item of a list, borrowed."""
    found = f.call("PyList_GetItem", POINTER, [items, k])
    f.refuse(f.is_null(found))
    return found


def _settle_node(f: Function, node: Value, out: Value) -> list[Value]:
    settled(f, node, out)
    return []


def _settle_cell(f: Function, cell: Value, out: Value) -> list[Value]:
    before = f.get(cell, "Cell.buffer")
    f.set(cell, "Cell.buffer", out)
    f.drop(before)
    return []


def _forget(f: Function, nodes: Value, k: Value) -> None:
    """Nobody needs this cell any more."""
    f.call("PyList_SetItem", I32, [nodes, k, f.own(f.the("DONE"))])


def _argument(f: Function, row: Value, given: tuple[Value, Value, Value], out: Value, scratch: Value) -> Value:
    """What a row of a frame stands for."""
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
        result = lambda: f.choose(kind.equals(RESULT), lambda: place(out), number)  # noqa: E731
        return f.choose(kind.equals(SCRATCH), own, result)

    return f.choose(kind.equals(LITERAL), lambda: [more], lambda: f.choose(kind.equals(MEMORY), memory, other))[0]
