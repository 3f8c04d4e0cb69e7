"""Emitters for pending graphs computed as a whole, by the kernels of a plan: a launch record of the plan is found by the key of the graph.

The code reads the tables that the walk has filled with borrowed addresses (`walk.py`). So no Python code runs from the walk until the graph
is computed. Memory for intermediates comes in blocks (`blocks.py`), which the garbage collector does not track.
"""

from __future__ import annotations

from collections.abc import Callable

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.sharing import ASLEEP, TAKEN
from ...backend.llvm.types import I1, I32, I64, POINTER, VOID, array
from ...backend.threads import MANY, PLACE, SHARE
from ...target import Sharing
from ..frames import EACH, FLAG, LITERAL, LOOK, MEMORY, MOST, SCRATCH, STEP
from ..limits import LARGEST
from ..objects import BYTES, SIZE, Objects
from ..rule import MOST_RESULTS
from ..wholes import DONOR, INLINED, LARGE, MAX_GRAPHS, MUCH, STORED
from .blocks import DATA
from .compute import MOST_BELOW, have_all_in_order, lock_is_free, product_in, settled, size_of
from .function import Function
from .kinds import known_of_kind, numbers
from .launching import number_as
from .rules import suiting
from .walk import BEGUN, BLOCK, HELD_NODE, LENT, NEW, NODE, PINNED, append, count, table

FAILED, DONE, UNKNOWN, HELD, AGAIN = range(5)  # results of `run_graph`
SHARING = Sharing()


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    module.variable("meeting", "global ptr null")  # the address of `threads.meeting`, which describes the worker threads
    _run_step(Function(module, objects, "run_step", [("step", POINTER)], I1))
    _run_graph(Function(module, objects, "run_graph", [(name, POINTER) for name in ("root", "out", "frames")], I64))
    _frame_for(Function(module, objects, "frame_for", [("frames", POINTER), ("key", POINTER)]))
    _alone_by_rule(Function(module, objects, "alone_by_rule", [("node", POINTER)], I1))
    _is_framed(Function(module, objects, "is_framed", [("root", POINTER)], I1))
    _computed_whole(Function(module, objects, "computed_whole", [("root", POINTER)], I1))


def _computed_whole(f: Function) -> None:
    """Emit `computed_whole(root)`: compute a pending node with its graph by the kernels of a plan; return success.

    Python makes a missing launch record.
    """
    (root,) = f.arguments
    recipe = f.get(root, "Node.recipe")
    nbytes = f.integer(f.get(recipe, "Recipe.nbytes"))
    f.require(lock_is_free(f))

    def have_frame() -> None:
        f.require((nbytes <= LARGE) & (size_of(f, root) < SHARING.share))
        f.require(f.call("is_framed", I1, [root]))

    f.when(nbytes > LARGEST, have_frame)  # large memory comes from Python: ask only for a graph that can run
    out = f.made(f.call("memory_for", POINTER, [recipe]))

    def run() -> list[Value]:
        table(f, "walked", BEGUN).store(f.number(0))  # clears the result of an earlier walk
        return [f.call("run_graph", I64, [root, out, f.the("graphs")])]

    def make() -> list[Value]:
        ask_for_frame(f, "have_graph_framed", root)
        return run()

    (found,) = run()
    for other, go_on in ((AGAIN, run), (UNKNOWN, make)):
        (found,) = f.choose(found.equals(other), go_on, lambda found=found: [found])  # type: ignore[misc]

    def after_what_is_held() -> Value:
        """Emit the computation of a node with readers outside the graph, then of the graph.

        The emitted function returns false where sums would add in another order.
        """
        node = f.hold(table(f, "walked", HELD_NODE).load(POINTER))
        have_all_in_order(f, root)
        f.require(f.call("computed", I1, [node]))
        f.let_go(node, out)
        return f.call("computed_whole", I1, [root])

    def after_what_is_begun() -> Value:
        node = f.hold(table(f, "walked", BEGUN).load(POINTER))
        f.require(f.call("selected_now", I1, [node]))
        f.let_go(node, out)
        return f.call("computed_whole", I1, [root])

    held = list(f._held)
    f.when_giving(found.equals(HELD), after_what_is_held)
    f._held[:] = held
    f.when_giving(f.both(found.equals(FAILED), lambda: table(f, "walked", BEGUN).load(I64).differs(0)), after_what_is_begun)
    f._held[:] = held
    f.require(found.equals(DONE))
    f.keeps(out)
    f.give(f.constant(I1, True))


def _is_framed(f: Function) -> None:
    """Emit `is_framed(root)`: return whether a pending graph has a launch record that can run now; Python makes a missing record."""
    (root,) = f.arguments

    def look() -> Value:
        key = f.made(f.call("key_of_graph", POINTER, [root]))
        frame = f.call("frame_for", POINTER, [f.the("graphs"), key])
        f.let_go(key)
        return frame

    frame = f.known(look, lambda: ask_for_frame(f, "have_graph_framed", root))
    f.require(f.word(frame, SIZE) > 0)
    have_helpers_for(f, f.at(frame, BYTES))
    f.give(f.constant(I1, True))


def ask_for_frame(f: Function, by_python: str, root: Value) -> None:
    """Emit a call of the Python function named `by_python`, which makes and stores the launch record of the graph of `root`.

    The emitted function returns null or 0 if an error is set or the call raises one.
    """
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))  # memory for a record may have run out
    f.ask_python(by_python, root)


def _frame_for(f: Function) -> None:
    """Emit `frame_for(frames, key)`: return the launch record of the graph visited last (by `key_of_graph`), borrowed; null if `frames` has
    none for its key and no size-generic rule makes one. A new record is put into `frames`. No Python runs.
    """
    frames, key = f.arguments
    (there,) = f.choose(count(f, NEW) > 0, lambda: [f.nothing()], lambda: [f.found_in(frames, key)])
    f.when_giving(~f.is_null(there), lambda: there)
    f.require(f.call("PyDict_Size", I64, [frames]) < MAX_GRAPHS)
    _, frame, plan = _of_this_kind(f, frames)
    f.require(f.call("PySet_Add", I32, [f.the("plans of graphs"), plan]).equals(0))
    f.require(f.call("PyDict_SetItem", I32, [frames, key, frame]).equals(0))
    f.let_go(frame)
    f.give(frame)


def _of_this_kind(f: Function, frames: Value) -> tuple[Value, Value, Value]:
    """Emit the making of a launch record for the graph visited last (by `key_of_graph`), by a size-generic rule of its signature.

    Return the rule, the record, which is held (see `Function.hold`), and the plan with its kernels. `frames` is the table for the record,
    which is part of the signature. The emitted function returns null or 0 if no rule holds.
    """
    f.require(f.call("find_kind_of_graph", I1, [frames]))
    results = f.local(array(I64, MOST_RESULTS))
    rule = suiting(f, known_of_kind(f), numbers(f)[1], results)
    fixed, places, plan = (f.item(f.get(rule, "FrameRule.frame"), k) for k in range(3))
    frame = f.made(f.call("frame_like", POINTER, [fixed, places, f.local(POINTER, results)]))
    return rule, frame, plan


def _alone_by_rule(f: Function) -> None:
    """Emit `alone_by_rule(node)`: make the launch record of a node with sources in memory by a size-generic rule; return whether one holds.
    Python may run at the end.
    """
    (node,) = f.arguments
    product = product_in(f, node)
    key = f.made(f.call("key_of_graph", POINTER, [node]))
    f.let_go(key)
    rule, frame, plan = _of_this_kind(f, f.the("with frames"))
    recipe, reads = f.get(node, "Node.recipe"), f.selected(product.equals(node), f.the("None"), f.get(product, "Node.recipe"))
    for x in (rule, recipe, reads):
        f.hold(x)
    f.require(f.call("give_frame", I1, [recipe, reads, frame, plan]))
    f.let_go(rule, recipe, reads, frame)
    f.give(f.constant(I1, True))


def _run_graph(f: Function) -> None:
    """Emit `run_graph(root, out, frames)`: compute the graph of `root` into the buffer `out`, which the node then owns.

    The result is `DONE`; `UNKNOWN` without a launch record; `HELD` if a node inside that must be stored has readers outside, noted in
    `HELD_NODE`; `AGAIN` if nodes were marked as stored, so the graph has another plan now; `FAILED` otherwise. No Python runs until the
    end.
    """
    root, out, frames = f.arguments
    f.require(lock_is_free(f))
    f.require(f.is_the(f.get(root, "Node.buffer"), "None"))
    f.require(f.integer(f.get(out, "Buffer.nbytes")).equals(f.integer(f.get(f.get(root, "Node.recipe"), "Recipe.nbytes"))))
    key = f.made(f.call("key_of_graph", POINTER, [root]))
    f.require(f.either(count(f, PINNED).equals(0), lambda: frames.equals(f.the("graphs"))))  # an update would write shared memory
    frame = f.call("frame_for", POINTER, [frames, key])
    f.let_go(key)
    f.when_giving(f.is_null(frame), lambda: f.number(UNKNOWN))
    f.require(f.word(frame, SIZE) > 0)
    program = f.at(frame, BYTES)
    looks, steps = program.load(I64), f.word(program, 8)
    have_helpers_for(f, program)
    first, much = program.at(3, I64), f.local(I64, f.number(0))

    def of_others(k: Value, then: Callable[[Value, Value], None]) -> None:
        """Emit `then(node, role)` for the node of entry `k` of the launch record, if it has references from outside the graph.

        For a donor without these references an early exit is taken: Python lets the result overwrite its memory.
        """
        here = first.at(k * LOOK, I64)
        node, what = table(f, "nodes").at(here.load(I64), POINTER).load(POINTER), f.word(here, 16)
        is_held = f.owners(node).cast("zext", I64).differs(f.word(here, 8))
        f.require(is_held | what.differs(DONOR))
        f.when(is_held, lambda: then(node, what))

    def note(node: Value, what: Value) -> None:
        f.when(what.equals(STORED), lambda: table(f, "walked", HELD_NODE).store(node.cast("ptrtoint", I64)))
        f.when(what.equals(MUCH), lambda: much.store(f.number(1)))

    def store_next_time(node: Value, what: Value) -> None:
        f.when(what.equals(INLINED) | what.equals(MUCH), lambda: _store_next_time(f, node))

    f.each(looks, lambda k: of_others(k, note))
    f.when_giving(table(f, "walked", HELD_NODE).load(I64).differs(0), lambda: f.number(HELD))
    f.when(much.load(I64).differs(0), lambda: much.store(_may_be_stored_now(f, root).cast("zext", I64)))
    f.each(looks, lambda k: of_others(k, store_next_time))
    f.when_giving(much.load(I64).differs(0), lambda: f.number(AGAIN))
    table(f, "addresses").at(count(f, NODE) - 1, I64).store(f.address(f.get(out, "Buffer.address")))
    step, left = f.local(POINTER, first.at(looks * LOOK, I64)), f.local(I64, steps)

    def run() -> None:
        here = step.load(POINTER)
        step.store(here.at(f.word(here, 16) * EACH + STEP, I64))
        done = f.call("run_step", I1, [here])
        left.store(f.selected(done, left.load(I64) - 1, f.number(-1)))

    f.as_long_as(lambda: left.load(I64) > 0, run)
    f.each(count(f, BLOCK), lambda k: f.drop(table(f, "lent").at(k, POINTER).load(POINTER)))
    f.require(left.load(I64).equals(0))
    settled(f, root, out)
    f.give(f.number(DONE))


def _may_be_stored_now(f: Function, root: Value) -> Value:
    """Emit a test whether expensive inlined nodes with readers outside can be stored now: sums over them must add in one order, stored or
    inlined. The test walks the graph, so the walk for the key is repeated.
    """
    f.call("begin_walk", VOID, [f.number(MOST_BELOW)])
    found = f.call("are_in_order", I1, [root])
    f.let_go(f.made(f.call("key_of_graph", POINTER, [root])))
    return found


def _store_next_time(f: Function, node: Value) -> None:
    """Emit the marking of a node as stored: the next plan gives it memory of its own."""
    before = f.get(node, "Node.stored")
    f.set(node, "Node.stored", f.own(f.the("True")))
    f.drop(before)


def _run_step(f: Function) -> None:
    """Emit `run_step(step)`: launch one kernel of a graph; `step` is its address in the launch record.

    The function returns false if memory runs out or the kernel finds an index out of range.
    """
    (step,) = f.arguments
    args, flag = f.local(array(I64, MOST)), f.local(I64, f.number(0))
    number, nbytes = f.word(step, 24), f.word(step, 32)
    f.when(nbytes > 0, lambda: table(f, "addresses").at(number, I64).store(_block(f, nbytes)))

    def one(k: Value) -> None:
        row = step.at(STEP, I64).at(k * EACH, I64)
        kind, which, more = row.load(I64), f.word(row, 8), f.word(row, 32)

        def memory() -> list[Value]:
            at = f.word(row, 16)
            offset = f.choose(at >= 0, lambda: [table(f, "offsets").at(at, I64).load(I64)], lambda: [f.number(0)])[0]
            return [table(f, "addresses").at(which, I64).load(I64) + offset * f.word(row, 24) + more]

        def scalar() -> list[Value]:
            source = table(f, "scalars").at(which, POINTER).load(POINTER)
            return [number_as(f, kind, f.get(source, "Scalar.value"))]

        def other() -> list[Value]:
            is_flag = kind.equals(FLAG)
            rest = lambda: f.choose(kind.equals(SCRATCH), lambda: [_block(f, more)], scalar)  # noqa: E731
            return f.choose(is_flag, lambda: [flag.cast("ptrtoint", I64)], rest)

        (value,) = f.choose(kind.equals(LITERAL), lambda: [more], lambda: f.choose(kind.equals(MEMORY), memory, other))
        args.at(k, I64).store(value)

    f.each(f.word(step, 16), one)
    kernel, split, grain = step.load(POINTER), f.word(step, 8), f.word(step, 40)

    def alone() -> list[Value]:
        f.do(f"call void {kernel.text}(ptr {args.text}, i64 0, i64 {split.text}, i64 0)")
        return []

    def shared() -> list[Value]:
        share, place, many = (_meeting(f, k) for k in (SHARE, PLACE, MANY))
        most = grain * f.word(step, 48)  # the chunk size of `helpers.piece_of`
        piece = f.binary("sdiv", split + (most - 1), most) * grain
        given = f"i64 {place.text}, ptr {kernel.text}, ptr {args.text}, i64 0, i64 {split.text}, i64 {piece.text}, i64 {many.text}"
        f.do(f"call void {share.cast('inttoptr', POINTER).text}({given})")
        return []

    f.choose(f.both((grain > 0) & (split > grain), lambda: _helpers_are_awake(f)), shared, alone)
    f.give(flag.load(I64).equals(0))


def _meeting(f: Function, what: int) -> Value:
    """Emit a load of a field of `threads.meeting`, the description of the worker threads; `what` is the index of its 64-bit word."""
    return f.define(POINTER, "load ptr, ptr @meeting").at(what, I64).load(I64)


def have_helpers_for(f: Function, program: Value) -> None:
    """Emit an early exit, returning null or 0, if a launch record has a kernel for several threads and the workers are not awake.

    `program` is the address of the record. The fallback in Python wakes the workers.
    """
    f.when(f.word(program, 16).differs(0), lambda: f.require(_helpers_are_awake(f)))


def _helpers_are_awake(f: Function) -> Value:
    """Emit a test whether there are worker threads, all awake and none busy with another caller's work. Python would wake sleeping ones."""

    def awake() -> Value:
        place = _meeting(f, PLACE).cast("inttoptr", POINTER)
        return (f.word(place, TAKEN) | f.word(place, ASLEEP)).equals(0)

    return f.both(_meeting(f, MANY) > 0, awake)


def _block(f: Function, nbytes: Value) -> Value:
    """Emit the allocation of a block, listed to be released when the graph is computed. Return the address of its data as an integer."""
    f.require(count(f, BLOCK) < LENT)
    block = f.call("lend", POINTER, [nbytes])
    f.refuse(f.is_null(block))
    append(f, "lent", BLOCK, block.cast("ptrtoint", I64))
    return block.cast("ptrtoint", I64) + DATA
