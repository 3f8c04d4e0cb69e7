"""Emitters for small pending graphs, computed node by node with kernels of single operations, which many expressions share.

The bits are those of the fused kernel: every operation rounds its result once, fused or not, and a reduction is computed by itself only
where it adds in the order of the fused kernel. A launch record tells how to run the kernel of a node (`frames.py`).
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value, select
from ...backend.llvm.types import I1, I64, POINTER, VOID
from ...node import ALONE
from ...target import Passes
from ..limits import LARGEST
from ..objects import BYTES, SIZE, Objects
from .blocks import NUMBER
from .function import Function
from .walk import is_met, meet

MOST_BELOW = 512  # nodes of a graph that is searched for reductions
MOST_LOOKED_AT = 64  # nodes below a reduction that are visited; a node read twice counts twice
PASSES = Passes()  # the limits of single-pass fusion of two reductions (`kernel/once.py`)
OTHERWISE, AS_MEMORY, OF_NUMBERS = range(3)  # loop orders of the source of a reduction, see `_order_of`


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    module.variable("nodes_in_order", "internal global i64 0")
    module.variable("taken_on", "internal global i64 0")
    _order_of(Function(module, objects, "order_of", [("source", POINTER)], I64))
    _are_in_order(Function(module, objects, "are_in_order", [("node", POINTER)], I1))
    _is_as_with_more(Function(module, objects, "is_as_with_more", [("node", POINTER)], I1))
    _takes_on(Function(module, objects, "takes_on", [("node", POINTER)], I1))
    _has_read_once(Function(module, objects, "has_read_once", [("node", POINTER)], I1))
    _computed(Function(module, objects, "computed", [("node", POINTER)], I1))
    _computed_alone(Function(module, objects, "computed_alone", [("node", POINTER)], I1))
    _computed_below(Function(module, objects, "computed_below", [("node", POINTER)], I1))
    _buffer_of(Function(module, objects, "buffer_of", [("nbytes", POINTER)]))
    _buffer(Function(module, objects, "new_buffer", [("recipe", POINTER)]))
    _memory_for(Function(module, objects, "memory_for", [("recipe", POINTER)]))
    _frame_of_sum(Function(module, objects, "frame_of_sum", [("product", POINTER), ("recipe", POINTER)]))
    _run(Function(module, objects, "run", [("node", POINTER), ("out", POINTER)], I1))
    parts = [(name, POINTER) for name in ("node", "frame", "recipe", "sources", "offsets", "out")]
    _run_apart(Function(module, objects, "run_apart", parts, I1))
    _forget(Function(module, objects, "forget_recipe", [("node", POINTER)], VOID))
    for name in ("computed", "computed_alone"):
        _for_python(Function(module, objects, f"python_{name}", [("self", POINTER), ("node", POINTER)], exported=True), name)


def _for_python(f: Function, name: str) -> None:
    """Emit `python_NAME`, called from Python: call `computed` or `computed_alone` (`name`) for a node, and return its success as a bool."""
    _, node = f.arguments
    f.when_giving(f.call(name, I1, [node]), lambda: f.own(f.the("True")))
    f.tell_what_was_met()
    f.give(f.own(f.the("False")))


def _computed(f: Function) -> None:
    """Emit `computed(node)`: compute a pending node, node by node if the graph is small, otherwise by the kernels of a plan. Return
    success.

    Python makes missing launch records. The caller owns the node; its other borrowed references may be invalid afterwards.
    """
    (node,) = f.arguments
    f.when_giving(f.call("computed_alone", I1, [node]), lambda: f.constant(I1, True))
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    f.give(f.call("computed_whole", I1, [node]))


def _computed_alone(f: Function) -> None:
    """Emit `computed_alone(node)`: compute a node, and first its pending sources, each by a kernel of its own. Return success.

    Reductions are checked before anything is computed: later their sources may be in memory, as other nodes read them too. Return
    false if a plan may choose single-pass fusion for one of the reductions.
    """
    (node,) = f.arguments
    f.when_giving(~f.is_the(f.get(node, "Node.buffer"), "None"), lambda: f.constant(I1, True))
    is_one = f.integer(f.get(node, "Node.count")).equals(1)
    f.when(is_one, lambda: have_in_order(f, node))
    f.when(~is_one, lambda: f.require(f.call("is_as_with_more", I1, [node])))
    f.give(f.call("computed_below", I1, [node]))


def _is_as_with_more(f: Function) -> None:
    """Emit `is_as_with_more(node)`: return whether a pending node gets the same bits computed now as within a larger graph.

    Every reduction below must add in the order of the fused kernel, and none below may be a candidate for single-pass fusion.
    """
    (node,) = f.arguments
    have_all_in_order(f, node)
    f.give(_taken_on(f).load(I64).equals(may_be_taken_on(f, node).cast("zext", I64)))


def _computed_below(f: Function) -> None:
    """Emit `computed_below(node)`: compute a node and its pending sources, each by its launch record; the caller has checked reductions."""
    (node,) = f.arguments
    done = f.block("done")

    def pending() -> None:
        recipe = f.get(node, "Node.recipe")
        f.require(f.integer(f.get(recipe, "Recipe.nbytes")) <= ALONE)
        is_begun = f.is_the(f.get(recipe, "Recipe.op"), "UNFINISHED")
        f.when_giving(is_begun, lambda: f.call("selected_now", I1, [node]))
        reads = product_in(f, node)
        f.refuse(f.is_the(frame_of(f, node, reads), "never"))
        sources = f.hold(f.get(reads, "Node.sources"))

        def one(k: Value) -> None:
            source = f.item(sources, k)
            f.when(f.is_a(source, "Node"), lambda: f.require(f.call("computed_below", I1, [source])))

        f.each(f.word(sources, SIZE), one)
        f.when(f.is_the(frame_of(f, node, product_in(f, node)), "None"), lambda: _have_frame_made(f, node))
        out = f.made(f.call("new_buffer", POINTER, [f.get(node, "Node.recipe")]))
        f.require(f.call("run", I1, [node, out]))
        f.keeps(out)
        f.let_go(sources)

    f.when(f.is_the(f.get(node, "Node.buffer"), "None"), pending)
    f.branch(done)
    f.cursor.block = done
    f.give(f.constant(I1, True))


def have_in_order(f: Function, node: Value) -> None:
    """Emit an early exit, returning null or 0, if `node` is a reduction that may add in another order in its own kernel than when fused.

    `parts.is_in_order` is the same test in Python.
    """

    def be_in_order() -> None:
        reads = product_in(f, node)
        sources = f.get(reads, "Node.sources")
        _looked_at(f).store(f.number(0))

        def one(k: Value) -> None:
            source = f.item(sources, k)
            order = f.call("order_of", I64, [source])
            f.refuse(order.equals(OTHERWISE))
            f.when(order.equals(OF_NUMBERS), lambda: f.require(is_read_from_memory(f, source, reads)))

        f.each(f.word(sources, SIZE), one)

    f.when(~f.is_a(f.get(f.get(node, "Node.recipe"), "Recipe.op"), "Op"), be_in_order)


def have_all_in_order(f: Function, node: Value) -> None:
    """Emit an early exit, returning null or 0, if `node` is, or depends on, a reduction that may add in another order in its own kernel
    than when fused.
    """
    f.call("begin_walk", VOID, [f.number(MOST_BELOW)])
    _taken_on(f).store(f.number(0))
    f.require(f.call("are_in_order", I1, [node]))


def _are_in_order(f: Function) -> None:
    """Emit `are_in_order(node)`: return whether each reduction in a graph adds in one order alone and fused; false for a large graph.

    The walk marks visited nodes, except those with one reference and so one reader. It counts candidates for single-pass fusion.
    """
    (node,) = f.arguments
    f.when_giving(~f.is_a(node, "Node"), lambda: f.constant(I1, True))
    f.when_giving(~f.is_the(f.get(node, "Node.buffer"), "None"), lambda: f.constant(I1, True))
    may_be_met = f.owners(node).differs(1)
    f.when_giving(f.both(may_be_met, lambda: is_met(f, node)), lambda: f.constant(I1, True))
    f.when(may_be_met, lambda: meet(f, node, f.number(0)))
    have_in_order(f, node)
    product, sources = product_in(f, node), f.get(node, "Node.sources")
    f.when(may_be_taken_on(f, node), lambda: _taken_on(f).store(_taken_on(f).load(I64) + 1))
    is_read_elsewhere = f.both(product.differs(node), lambda: f.owners(product).differs(1))  # a shared product may be stored
    f.when(is_read_elsewhere, lambda: f.require(f.call("order_of", I64, [product]).equals(AS_MEMORY)))
    f.each(f.word(sources, SIZE), lambda k: f.require(f.call("are_in_order", I1, [f.item(sources, k)])))
    f.give(f.constant(I1, True))


def _have_frame_made(f: Function, node: Value) -> None:
    """Emit the making of a missing launch record of a node, by a size-generic rule or by Python. Either may leave it missing."""
    f.require(lock_is_free(f))

    def ask() -> None:
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))  # there may have been no memory for the frame
        f.ask_python("have_framed", node)

    f.when(~f.call("alone_by_rule", I1, [node]), ask)


def _looked_at(f: Function) -> Value:
    """Return the address of the count of visits by `order_of`: one visit for each read of a node."""
    return f.define(POINTER, "getelementptr i8, ptr @nodes_in_order, i64 0")


def may_be_taken_on(f: Function, node: Value) -> Value:
    """Emit a test whether a pending node is a sum of products that single-pass fusion may compute row by row inside another sum."""
    source, recipe = f.item(f.get(node, "Node.sources"), 0), f.get(node, "Node.recipe")

    def pays() -> Value:
        size, nbytes = size_of(f, node), f.integer(f.get(f.get(source, "Node.recipe"), "Recipe.nbytes"))
        is_short = (nbytes >= size * PASSES.short[0]) & (nbytes <= size * PASSES.short[1]) & (nbytes >= PASSES.least)
        return (size > 1) & (is_short | (nbytes >= PASSES.large))

    def of_product() -> Value:
        waits = f.is_the(f.get(source, "Node.buffer"), "None")
        return f.both(waits, lambda: f.both(f.is_the(f.get(f.get(source, "Node.recipe"), "Recipe.op"), "op multiply"), pays))

    return f.both(f.is_the(f.get(recipe, "Recipe.op"), "sum"), of_product)


def _takes_on(f: Function) -> None:
    """Emit `takes_on(node)`: return whether a node is a pending sum of products over a large operand in memory, in whose kernel single-pass
    fusion may compute another reduction.
    """
    (node,) = f.arguments
    f.require(f.is_the(f.get(node, "Node.buffer"), "None"))
    product = product_in(f, node)
    f.refuse(product.equals(node))

    def is_much(k: int) -> Value:
        source = f.item(f.get(product, "Node.sources"), k)

        def there() -> Value:
            nbytes = f.integer(f.get(f.get(source, "Node.recipe"), "Recipe.nbytes"))
            return ~f.is_the(f.get(source, "Node.buffer"), "None") & (nbytes >= PASSES.least)

        return f.both(f.is_a(source, "Node"), there)

    f.require(f.either(is_much(0), lambda: is_much(1)))
    have_all_in_order(f, node)
    f.give(_taken_on(f).load(I64) > may_be_taken_on(f, node).cast("zext", I64))


def _has_read_once(f: Function) -> None:
    """Emit `has_read_once(node)`: compute those sources of a new node in whose kernels single-pass fusion computes another sum.

    When the outer sum was made, the user's expression still referred to the inner sum. The reference is mostly gone when a reader of the
    outer sum is made, so the plan may fuse the two. Python may run; its error makes the function return false.
    """
    (node,) = f.arguments
    sources = f.hold(f.get(product_in(f, node), "Node.sources"))

    def one(k: Value) -> None:
        source = f.item(sources, k)
        takes_on = f.both(f.is_a(source, "Node"), lambda: f.call("takes_on", I1, [source]))

        def compute() -> None:
            f.when(~f.call("computed_whole", I1, [source]), lambda: f.require(f.is_null(f.call("PyErr_Occurred", POINTER, []))))

        f.when(takes_on, compute)

    f.each(f.word(sources, SIZE), one)
    f.let_go(sources)
    f.give(f.constant(I1, True))


def _taken_on(f: Function) -> Value:
    """Return the address of the count of visited reductions that single-pass fusion may compute inside another kernel."""
    return f.define(POINTER, "getelementptr i8, ptr @taken_on, i64 0")


def size_of(f: Function, node: Value) -> Value:
    """Emit the number of elements of a pending node."""
    return f.integer(f.get(f.get(node, "Node.recipe"), "Recipe.size"))


def is_read_from_memory(f: Function, source: Value, reads: Value) -> Value:
    """Emit a test whether a kernel that sums the operands of `reads` finds `source`, a node made of scalars alone, in memory.

    `node.is_read_from_memory` is the same test in Python.
    """
    is_small = f.integer(f.get(f.get(source, "Node.recipe"), "Recipe.nbytes")) <= ALONE
    return f.either(is_small, lambda: size_of(f, source) < size_of(f, reads))


def _order_of(f: Function) -> None:
    """Emit `order_of(source)`: return the order, a constant, in which the fused kernel would loop over a source of a reduction.

    `parts.order_of` is the same in Python.

    `AS_MEMORY` is the order of reading the source from memory, so both kernels add in one order; `OTHERWISE` is another order, or too large
    a graph; `OF_NUMBERS` means that the source is made of numbers alone, and leaves the order open.
    """
    (source,) = f.arguments
    f.when_giving(~f.is_a(source, "Node"), lambda: f.number(AS_MEMORY))
    f.when_giving(~f.is_the(f.get(source, "Node.buffer"), "None"), lambda: f.number(AS_MEMORY))
    looked_at = _looked_at(f).load(I64)
    f.when_giving(looked_at >= MOST_LOOKED_AT, lambda: f.number(OTHERWISE))
    _looked_at(f).store(looked_at + 1)
    recipe = f.get(source, "Node.recipe")
    f.when_giving(f.is_a(f.get(recipe, "Recipe.op"), "Reduction"), lambda: f.number(AS_MEMORY))
    f.when_giving(~f.is_the(f.get(recipe, "Recipe.keeps_order"), "True"), lambda: f.number(OTHERWISE))
    sources, size = f.get(source, "Node.sources"), f.integer(f.get(recipe, "Recipe.size"))
    f.when_giving(f.word(sources, SIZE).equals(0), lambda: f.number(AS_MEMORY))
    found = f.local(I64, f.number(OF_NUMBERS))

    def one(k: Value) -> None:
        its = f.item(sources, k)

        def look() -> None:
            order = f.call("order_of", I64, [its])
            f.when(order.equals(OTHERWISE), lambda: found.store(f.number(OTHERWISE)))
            tells = f.both(order.equals(AS_MEMORY), lambda: size_of(f, its).equals(size))
            f.when(f.both(tells, lambda: found.load(I64).differs(OTHERWISE)), lambda: found.store(f.number(AS_MEMORY)))

        f.when(f.is_a(its, "Node"), look)

    f.each(f.word(sources, SIZE), one)
    f.give(found.load(I64))


def product_in(f: Function, node: Value) -> Value:
    """Emit a choice of the node whose sources the kernel of `node` reads: the pending product that `node` sums, as one kernel computes
    both, or `node` itself. The emitted function returns null or 0 where the sum reads a part of the product.
    """

    def product() -> list[Value]:
        source = f.item(f.get(node, "Node.sources"), 0)
        waits = f.is_the(f.get(source, "Node.buffer"), "None")
        found = f.both(waits, lambda: f.is_the(f.get(f.get(source, "Node.recipe"), "Recipe.op"), "op multiply"))
        f.when(found, lambda: f.require(f.is_the(f.item(f.get(node, "Node.offsets"), 0), "0")))
        return [select(found, source, node)]

    is_sum = f.is_the(f.get(f.get(node, "Node.recipe"), "Recipe.op"), "sum")
    return f.choose(is_sum, product, lambda: [node])[0]


def frame_of(f: Function, node: Value, reads: Value) -> Value:
    """Emit the lookup of the launch record of `node`, borrowed; None if no record was made yet.

    `reads` is the node whose sources the kernel reads: `node`, or the product that `node` sums (`product_in`).
    """

    def own() -> list[Value]:
        return [f.get(f.get(node, "Node.recipe"), "Recipe.frame")]

    def of_product() -> list[Value]:
        frame = f.call("frame_of_sum", POINTER, [f.get(x, "Node.recipe") for x in (reads, node)])
        return [f.either_of(frame, f.the("None"))]

    return f.choose(reads.equals(node), own, of_product)[0]


def _frame_of_sum(f: Function) -> None:
    """Emit `frame_of_sum(product, recipe)`: return the launch record of a sum of a product, borrowed; null if none was made yet."""
    product, recipe = f.arguments
    summed = f.get(product, "Recipe.summed")
    f.refuse(f.is_the(summed, "None"))
    f.when_giving(~f.is_a(summed, "tuple"), lambda: f.found_in(summed, recipe))
    f.require(f.item(summed, 0).equals(recipe))
    f.give(f.item(summed, 1))


def _buffer(f: Function) -> None:
    """Emit `new_buffer(recipe)`: return a new small buffer for the result of a recipe."""
    (recipe,) = f.arguments
    f.give(f.call("buffer_of", POINTER, [f.own(f.get(recipe, "Recipe.nbytes"))]))


def _memory_for(f: Function) -> None:
    """Emit `memory_for(recipe)`: return a new buffer of any size for the result of a recipe. Return null if memory is short: the fallback
    in Python raises the error. Python may run.
    """
    (recipe,) = f.arguments
    nbytes = f.get(recipe, "Recipe.nbytes")
    f.when_giving(f.integer(nbytes) <= LARGEST, lambda: f.call("new_buffer", POINTER, [recipe]))
    found = f.made(f.call("PyObject_CallOneArg", POINTER, [f.the("lent"), nbytes]))
    f.refuse(f.is_the(found, "None"))
    f.keeps(found)
    f.give(found)


def _buffer_of(f: Function) -> None:
    """Emit `buffer_of(nbytes)`: return a new small buffer of `nbytes`, a Python integer; the function takes over the reference to it."""
    nbytes = f.holding(f.arguments[0])
    block = f.made(f.call("lend", POINTER, [f.integer(nbytes)]))
    address = f.hold(f.at(block, NUMBER).load(POINTER))
    buffer = f.new("Buffer", owner=block, address=address, nbytes=nbytes)
    for slot, value in (("pins", "0"), ("frozen", "False"), ("_typed", "None"), ("_typed_as", "None")):
        f.set(buffer, f"Buffer.{slot}", f.own(f.the(value)))
    f.give(buffer)


def in_memory(f: Function, recipe: Value, buffer: Value) -> Value:
    """Emit the creation of a node in memory, which takes over `buffer`. Return the node, which is held (see `Function.hold`)."""
    number = f.as_object(f.call("next_node", I64, []))
    node = f.new("Node", recipe=f.own(recipe), buffer=buffer, first=number)
    for slot, value in (("sources", "()"), ("offsets", "()"), ("_layouts", "None"), ("stored", "False"), ("past", "None")):
        f.set(node, f"Node.{slot}", f.own(f.the(value)))
    for slot, value in (("count", "1"), ("heavy", "0")):
        f.set(node, f"Node.{slot}", f.own(f.the(value)))
    return node


def lock_is_free(f: Function) -> Value:
    """Emit a test that no other thread holds the lock of the runtime. No thread can take it while the emitted code runs, under the GIL."""
    owner = f.word(f.the("lock"), f.objects.offset_of("RLock.owner"))
    return f.either(owner.equals(0), lambda: owner.equals(f.call("PyThread_get_thread_ident", I64, [])))


def _run(f: Function) -> None:
    """Emit `run(node, out)`: launch the kernel of a node with sources in memory, and return whether it ran.

    The kernel writes into the buffer `out`, which the node takes over. No Python code runs before the kernel.
    """
    node, out = f.arguments
    f.require(lock_is_free(f))
    f.require(f.is_the(f.get(node, "Node.buffer"), "None"))
    reads = product_in(f, node)
    frame, sources, offsets = frame_of(f, node, reads), f.get(reads, "Node.sources"), f.get(reads, "Node.offsets")
    f.refuse(f.either(f.is_the(frame, "None"), lambda: f.is_the(frame, "never")))
    given = [frame, f.get(reads, "Node.recipe"), sources, offsets, out]
    f.when_giving(f.word(f.at(frame, BYTES), 24).differs(0), lambda: f.call("run_apart", I1, [node, *given]))
    f.require(f.call("launch", I1, given))
    settled(f, node, out)
    f.give(f.constant(I1, True))


def _run_apart(f: Function) -> None:
    """Emit `run_apart(node, frame, recipe, sources, offsets, out)`: launch a long kernel with the GIL released, under the lock of the
    runtime, and return whether it ran.

    `frame` is the launch record. `recipe`, `sources` and `offsets` belong to `node` or to the product that it sums. The node takes over the
    buffer `out`. The function holds references to the kernel's operands.
    """
    node, *given, out = f.arguments
    f.require(f.is_the(f.ask_python("take lock", f.the("False")), "True"))
    for x in given:
        f.hold(x)
    done = f.local(I64, f.number(0))

    def launch() -> None:
        ran = f.call("launch", I1, [*given, out])
        done.store(ran.cast("zext", I64))
        f.when(ran, lambda: settled(f, node, out))

    f.when(f.is_the(f.get(node, "Node.buffer"), "None"), launch)
    f.let_go(*given)
    f.ask_python("let go of lock")
    f.give(done.load(I64).differs(0))


def settled(f: Function, node: Value, out: Value) -> None:
    """Emit the assignment of the buffer `out` to a pending node, which takes over the reference. Python may run."""
    f.set(node, "Node.buffer", out)
    f.drop(f.the("None"))
    f.call("forget_recipe", VOID, [node])


def _forget(f: Function) -> None:
    """Emit `forget_recipe(node)`: give a computed node the recipe of data in memory, and release its old recipe and sources."""
    (node,) = f.arguments
    old = [f.get(node, f"Node.{slot}") for slot in ("recipe", "sources", "offsets", "_layouts")]
    f.set(node, "Node.recipe", f.own(f.get(old[0], "Recipe.done")))
    for slot, value in (("sources", "()"), ("offsets", "()"), ("_layouts", "None")):
        f.set(node, f"Node.{slot}", f.own(f.the(value)))
    for x in old:  # last, as deallocation may run Python code
        f.drop(x)
    f.do("ret void")
