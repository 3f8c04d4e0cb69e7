"""A pending graph as a whole, computed by the kernels of its plan: a frame of that is found by the key of the graph (`walk.py`).

It reads what the walk noted. So Python runs nothing from the walk on until all is computed: memory that is lent meanwhile are blocks,
which the collector does not know.
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

FAILED, DONE, UNKNOWN, HELD, AGAIN = range(5)  # what may become of it
SHARING = Sharing()


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    module.variable("meeting", "global ptr null")  # where it is told of the threads that help
    _run_step(Function(module, objects, "run_step", [("step", POINTER)], I1))
    _run_graph(Function(module, objects, "run_graph", [(name, POINTER) for name in ("root", "out", "frames")], I64))
    _frame_for(Function(module, objects, "frame_for", [("frames", POINTER), ("key", POINTER)]))
    _alone_by_rule(Function(module, objects, "alone_by_rule", [("node", POINTER)], I1))
    _is_framed(Function(module, objects, "is_framed", [("root", POINTER)], I1))
    _computed_whole(Function(module, objects, "computed_whole", [("root", POINTER)], I1))


def _computed_whole(f: Function) -> None:
    """Whether a pending node is computed now, by the kernels of a plan: Python makes a frame of it for the first."""
    (root,) = f.arguments
    recipe = f.get(root, "Node.recipe")
    nbytes = f.integer(f.get(recipe, "Recipe.nbytes"))
    f.require(lock_is_free(f))

    def have_frame() -> None:
        f.require((nbytes <= LARGE) & (size_of(f, root) < SHARING.share))
        f.require(f.call("is_framed", I1, [root]))

    f.when(nbytes > LARGEST, have_frame)  # as Python is asked for memory
    out = f.made(f.call("memory_for", POINTER, [recipe]))

    def run() -> list[Value]:
        table(f, "walked", BEGUN).store(f.number(0))  # lest what is found there was met long ago
        return [f.call("run_graph", I64, [root, out, f.the("graphs")])]

    def make() -> list[Value]:
        ask_for_frame(f, "have_graph_framed", root)
        return run()

    (found,) = run()
    for other, go_on in ((AGAIN, run), (UNKNOWN, make)):
        (found,) = f.choose(found.equals(other), go_on, lambda found=found: [found])  # type: ignore[misc]

    def after_what_is_held() -> Value:
        """What others have is computed before, for itself; but not where sums might come out otherwise than together with the rest."""
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
    """Whether a pending graph is one that a frame computes now, which is made where there was none."""
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
    """Have Python make a frame of a graph that has none."""
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))  # there may have been no memory for one
    f.ask_python(by_python, root)


def _frame_for(f: Function) -> None:
    """The frame of the graph that was walked last, whose key is this, borrowed: among these, where it is from now on if a rule for its kind
    gives it. Python runs nothing.
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
    """The rule for the kind of the graph that was walked last; the frame among these by that, held; and the plan that has its kernels."""
    f.require(f.call("find_kind_of_graph", I1, [frames]))
    results = f.local(array(I64, MOST_RESULTS))
    rule = suiting(f, known_of_kind(f), numbers(f)[1], results)
    fixed, places, plan = (f.item(f.get(rule, "FrameRule.frame"), k) for k in range(3))
    frame = f.made(f.call("frame_like", POINTER, [fixed, places, f.local(POINTER, results)]))
    return rule, frame, plan


def _alone_by_rule(f: Function) -> None:
    """Whether a node, all of whose sources are in memory, has a frame now, by a rule for its kind. Python may run in the end."""
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
    """Compute a node into a buffer, which is the node's then; or say that none of these frames is its. Python runs nothing till the end."""
    root, out, frames = f.arguments
    f.require(lock_is_free(f))
    f.require(f.is_the(f.get(root, "Node.buffer"), "None"))
    f.require(f.integer(f.get(out, "Buffer.nbytes")).equals(f.integer(f.get(f.get(root, "Node.recipe"), "Recipe.nbytes"))))
    key = f.made(f.call("key_of_graph", POINTER, [root]))
    f.require(f.either(count(f, PINNED).equals(0), lambda: frames.equals(f.the("graphs"))))  # a write may be seen from elsewhere
    frame = f.call("frame_for", POINTER, [frames, key])
    f.let_go(key)
    f.when_giving(f.is_null(frame), lambda: f.number(UNKNOWN))
    f.require(f.word(frame, SIZE) > 0)
    program = f.at(frame, BYTES)
    looks, steps = program.load(I64), f.word(program, 8)
    have_helpers_for(f, program)
    first, much = program.at(3, I64), f.local(I64, f.number(0))

    def of_others(k: Value, then: Callable[[Value, Value], None]) -> None:
        """Do something with what others have, too: with the node, and what the frame says of it. Memory that nobody else has is left to
        Python, which has the result written over it.
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
    """Whether what is inlined, takes long, and others have, too, can be stored already: where sums of it come out the same. Those who ask
    that walk, so it is walked again what there is to compute.
    """
    f.call("begin_walk", VOID, [f.number(MOST_BELOW)])
    found = f.call("are_in_order", I1, [root])
    f.let_go(f.made(f.call("key_of_graph", POINTER, [root])))
    return found


def _store_next_time(f: Function, node: Value) -> None:
    before = f.get(node, "Node.stored")
    f.set(node, "Node.stored", f.own(f.the("True")))
    f.drop(before)


def _run_step(f: Function) -> None:
    """Run a kernel; false if there is no memory for it, or if it met an index that is out of range."""
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
        most = grain * f.word(step, 48)  # as `helpers.piece_of` has it
        piece = f.binary("sdiv", split + (most - 1), most) * grain
        given = f"i64 {place.text}, ptr {kernel.text}, ptr {args.text}, i64 0, i64 {split.text}, i64 {piece.text}, i64 {many.text}"
        f.do(f"call void {share.cast('inttoptr', POINTER).text}({given})")
        return []

    f.choose(f.both((grain > 0) & (split > grain), lambda: _helpers_are_awake(f)), shared, alone)
    f.give(flag.load(I64).equals(0))


def _meeting(f: Function, what: int) -> Value:
    """What machine code is told of the helpers (`backend/threads.py`)."""
    return f.define(POINTER, "load ptr, ptr @meeting").at(what, I64).load(I64)


def have_helpers_for(f: Function, program: Value) -> None:
    """Decline what Python would wake helpers for, unless they are awake."""
    f.when(f.word(program, 16).differs(0), lambda: f.require(_helpers_are_awake(f)))


def _helpers_are_awake(f: Function) -> Value:
    """Whether there are helpers, who neither sleep, as Python would have to wake them, nor work for one who let go of its lock."""

    def awake() -> Value:
        place = _meeting(f, PLACE).cast("inttoptr", POINTER)
        return (f.word(place, TAKEN) | f.word(place, ASLEEP)).equals(0)

    return f.both(_meeting(f, MANY) > 0, awake)


def _block(f: Function, nbytes: Value) -> Value:
    """The address of memory that is given back when the graph has been computed."""
    f.require(count(f, BLOCK) < LENT)
    block = f.call("lend", POINTER, [nbytes])
    f.refuse(f.is_null(block))
    append(f, "lent", BLOCK, block.cast("ptrtoint", I64))
    return block.cast("ptrtoint", I64) + DATA
