"""Execution of plan steps: each step gets memory, launches its kernel, and stores the result in its cell, as in `plans/steps.py`.

The caller holds the lock of the runtime and owns the arguments. A kernel that takes long runs without the GIL.
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I32, I64, POINTER, VOID, array
from ..frames import BESIDE, EACH, FLAG, LITERAL, MEMORY, MOST, PLANNED, RESULT, SCRATCH
from ..objects import Objects
from .blocks import DATA
from .function import Function
from .launching import launch_it, number_as

# Words of a step's header, as byte offsets: the kernel's address or 0; the extent of the parallel loop; the number of arguments; the cell
# of the result and its bytes; whether to release the GIL; bytes of scratch memory; the cell to overwrite, or -1; the cell whose memory is
# reused if nothing else refers to it, or -1; the number of cells that are not needed afterwards; the number of extra outputs. For each
# extra output follow a cell for its memory, the number of its own cell, and the cell whose memory is reused.
KERNEL, SPLIT, ARGUMENTS, CELL, NBYTES, RELEASES, WANTED, OVER, TAKES, LAST, BESIDES = (8 * k for k in range(PLANNED))


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    given = [(name, POINTER) for name in ("nodes", "offsets", "scalars")]
    _memory_of_result(Function(module, objects, "memory_of_result", [("step", POINTER), ("takes", I64), given[0]]))
    _run(Function(module, objects, "run_planned", [("step", POINTER), *given], I1))
    _run_steps(Function(module, objects, "run_steps", [("self", POINTER), ("args", POINTER), ("count", I64)], exported=True))


def _run_steps(f: Function) -> None:
    """Emit `run_steps`, the entry for Python: run steps `first` to `last - 1` of a plan's launch record with lists of nodes, offsets and
    scalars.

    The function returns the number of the first step that was not run.
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
    """Emit `run_planned(step, nodes, offsets, scalars)`: run one step. Return false if the executor in Python must run the step.

    Reasons are exhausted fast-path memory and an index out of range, for example.
    """
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
    f.require(_waits(f, cell))  # tested after the last allocation: a finalizer may have evaluated the node
    f.each(f.word(step, BESIDES), lambda k: f.require(_waits(f, _item(f, nodes, f.word(besides.at(k * BESIDE, I64), 8)))))
    args, flag = f.local(array(I64, MOST)), f.local(I64, f.number(0))

    def one(k: Value) -> None:
        args.at(k, I64).store(_argument(f, rows.at(k * EACH, I64), (nodes, offsets, scalars), out, scratch, flag))

    f.each(f.word(step, ARGUMENTS), one)
    kernel = f.at(step, KERNEL).load(POINTER)
    launch = f"call void {kernel.text}(ptr {args.text}, i64 0, i64 {f.word(step, SPLIT).text}, i64 0)"

    f.when(~f.is_null(kernel), lambda: launch_it(f, launch, f.word(step, RELEASES).differs(0)))
    # an index is out of range: the same kernel called from Python meets it again, also after overwriting, and raises the error
    f.require(flag.load(I64).equals(0))
    f.let_go(scratch)
    f.keeps(out)
    _put(f, cell, out)
    f.each(f.word(step, BESIDES), lambda k: _put_beside(f, besides.at(k * BESIDE, I64), nodes))
    _forget_recipe(f, cell)  # only when all outputs are stored, since Python code may run
    f.each(f.word(step, BESIDES), lambda k: _forget_recipe(f, _item(f, nodes, f.word(besides.at(k * BESIDE, I64), 8))))
    f.let_go(cell)
    f.each(forgotten, lambda k: _forget(f, nodes, f.at(step, 8 * PLANNED).at(k, I64).load(I64)))
    f.give(f.constant(I1, True))


def _waits(f: Function, cell: Value) -> Value:
    """Emit a test whether a cell still needs a value: a plan's own cell, or a pending node whose operands no update has begun to overwrite.
    """

    def of_node() -> Value:
        recipe = f.get(cell, "Node.recipe")
        return f.both(f.is_the(f.get(cell, "Node.buffer"), "None"), lambda: ~f.is_the(f.get(recipe, "Recipe.op"), "UNFINISHED"))

    return f.either(~f.is_a(cell, "Node"), of_node)


def _nobody_elses(f: Function, nodes: Value, over: Value) -> Value:
    """Emit the buffer of cell `over` of the list `nodes`, borrowed, to be overwritten.

    The emitted function returns null or 0 if anything else refers to the buffer.
    """
    buffer = _buffer_of(f, _item(f, nodes, over))
    f.require(_is_sole(f, buffer))
    return buffer


def _is_sole(f: Function, buffer: Value) -> Value:
    """Emit a test whether a buffer has one reference and is not externally shared."""
    hidden = lambda: f.both(f.is_the(f.get(buffer, "Buffer.pins"), "0"), lambda: f.is_the(f.get(buffer, "Buffer.frozen"), "False"))  # noqa: E731
    return f.both(f.has_one_owner(buffer), hidden)


def _buffer_of(f: Function, cell: Value) -> Value:
    """Emit the buffer of a node or of a plan's own cell, borrowed."""
    of_node, of_cell = lambda: [f.get(cell, "Node.buffer")], lambda: [f.get(cell, "Cell.buffer")]
    (buffer,) = f.choose(f.is_a(cell, "Node"), of_node, of_cell)
    f.require(f.is_a(buffer, "Buffer"))
    return buffer


def _item(f: Function, items: Value, k: Value) -> Value:
    """Emit item `k` of a list, borrowed. The emitted function returns null or 0 if the list is shorter."""
    found = f.listed(items, k)
    f.refuse(f.is_null(found))
    return found


def _put(f: Function, cell: Value, out: Value) -> None:
    """Emit code to store a buffer in a node or in a plan's own cell. The reference `out` is consumed."""

    def into(slot: str) -> list[Value]:
        before = f.get(cell, slot)
        f.set(cell, slot, out)
        f.drop(before)
        return []

    f.choose(f.is_a(cell, "Node"), lambda: into("Node.buffer"), lambda: into("Cell.buffer"))


def _forget_recipe(f: Function, cell: Value) -> None:
    """Emit code to drop the recipe of a node after its buffer was stored. A plan's own cell has no recipe."""
    f.when(f.is_a(cell, "Node"), lambda: f.call("forget_recipe", VOID, [cell]))


def _memory_of_result(f: Function) -> None:
    """Emit `memory_of_result(step, takes, nodes)`: return a buffer for a result, as a new reference.

    The buffer of cell `takes` is reused if it has the right size and no other reference. A negative `takes` means a new buffer.
    """
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
    """Emit the allocation of a buffer for an extra output of a step, stored in the cell for its memory.

    `beside` is the address of the output's three words in the launch record, and `nodes` the list of nodes and cells.
    """
    out = f.call("memory_of_result", POINTER, [step, f.word(beside, 16), nodes])
    f.refuse(f.is_null(out))
    _put(f, _item(f, nodes, beside.load(I64)), out)


def _put_beside(f: Function, beside: Value, nodes: Value) -> None:
    """Emit code to store the memory of an extra output in the output's own cell.

    `beside` is the address of the output's three words in the launch record, and `nodes` the list of nodes and cells.
    """
    out = f.own(f.get(_item(f, nodes, beside.load(I64)), "Cell.buffer"))
    _put(f, _item(f, nodes, f.word(beside, 8)), out)


def _forget(f: Function, nodes: Value, k: Value) -> None:
    """Emit code to replace cell `k` of the list `nodes` by `DONE`: it is not needed afterwards, so its memory can be freed."""
    f.call("PyList_SetItem", I32, [nodes, k, f.own(f.the("DONE"))])


def _argument(f: Function, row: Value, given: tuple[Value, Value, Value], out: Value, scratch: Value, flag: Value) -> Value:
    """Emit the value of a kernel argument, a 64-bit word. `row` is the address of the argument in the launch record.

    `given` are the lists of nodes, offsets and scalars of the plan, `out` is the buffer of the result, and `scratch` a memory block. The
    kernel sets the local `flag` if an index is out of range.
    """
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
