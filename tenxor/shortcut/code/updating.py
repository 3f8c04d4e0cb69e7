"""In-place updates of a part of a storage, like `x[1:] += y`, computed by one kernel directly over the part.

Each result element depends on the element it overwrites and on an element of `y`. The operand `y` is in different memory, or pending. A
pending `y` is rewritten so as to read no overwritten memory: small sources in the overwritten memory are copied first, for example the row
and the column of an outer product. So `y` keeps its value although it stays pending.
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I64, POINTER
from ..objects import SIZE, Objects
from ..rule import MOST_AXES
from ..updates import LARGEST, THIN
from .compute import lock_is_free
from .function import Function
from .graph import DONE, UNKNOWN, ask_for_frame
from .specs import keeps_order, lies_as, nbytes_of, no_numbers, spec_with, through_of
from .tables import found_at, table
from .write import compute_storage


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    part = [("storage", POINTER), ("spec", POINTER), ("offset", I64), ("found", POINTER)]
    _updated(Function(module, objects, "updated", [("x", POINTER), ("beside", POINTER), *part], I1))
    _recipe(Function(module, objects, "recipe_of_update", [("x", POINTER), ("storage", POINTER), ("spec", POINTER), ("found", POINTER)]))
    _plain(Function(module, objects, "recipe_of_plain_update", [(name, POINTER) for name in ("x", "storage", "found")]))
    _run(Function(module, objects, "run_update", [("recipe", POINTER), *part, ("asks", I1)], I1))
    _may_wait(Function(module, objects, "may_wait", [("node", POINTER), ("storage", POINTER)], I1))
    _which_reads(Function(module, objects, "which_reads", [("node", POINTER), ("old", POINTER)], I64))


def _updated(f: Function) -> None:
    """Emit `updated(x, beside, storage, spec, offset, found)`: write the pending result `found` in place over a part. Return true, or false
    to leave the work to the fallback.

    The tensor `x` is the part, given by `storage`, `spec` and `offset`. The second operand `beside`, a tensor or a number, is evaluated
    first unless it may stay pending.
    """
    x, beside, storage, spec, offset, found = f.arguments
    compute_storage(f, storage)
    recipe = f.made(f.call("recipe_of_update", POINTER, [x, storage, spec, found]))
    own = f.get(beside, "Tensor.storage")

    def see_to_it() -> None:
        node = f.hold(f.get(own, "Storage.node"))
        f.require(f.is_the(f.get(node, "Node.past"), "None"))

        def compute() -> None:
            f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
            f.require(f.call("computed", I1, [node]))

        waits = f.is_the(f.get(node, "Node.buffer"), "None")
        f.when(waits, lambda: f.when(~f.call("may_wait", I1, [node, storage]), compute))
        f.let_go(node)

    f.when(f.both(f.is_a(beside, "Tensor"), lambda: f.is_a(own, "Storage")), see_to_it)
    done = f.call("run_update", I1, [recipe, storage, spec, offset, found, f.constant(I1, True)])
    f.let_go(recipe)
    f.give(done)


def _recipe(f: Function) -> None:
    """Emit `recipe_of_update(x, storage, spec, found)`: return the recipe of the write of `found` over the part `x`; null without one.

    The recipe is a new reference. On a cache miss, `recipe_of_plain_update` or else Python code finds it.
    """
    x, storage, spec, found = f.arguments
    made = f.get(found, "Tensor.storage")
    f.require(f.is_a(made, "Storage"))
    f.require(_reads_once(f, f.get(made, "Storage.node"), f.get(storage, "Storage.node"), f.integer(f.get(x, "Tensor.offset"))))
    size = f.hold(f.get(f.get(f.get(storage, "Storage.node"), "Node.recipe"), "Recipe.size"))
    key = f.tuple_of(f.own(f.get(f.get(made, "Storage.node"), "Node.recipe")), size)

    def look() -> Value:
        known = found_at(f, table(f, spec, "called"), f.the("'update'"), key)
        return f.choose(f.is_null(known), lambda: [f.nothing()], lambda: [f.get(known, "Made.recipe")])[0]

    plain = lambda: f.call("recipe_of_plain_update", POINTER, [x, storage, found])  # noqa: E731
    recipe = f.holding(f.known_or_made(look, plain, lambda: f.ask_python("learn_update", x, found)))
    f.refuse(f.is_the(recipe, "None"))
    f.let_go(key)
    f.keeps(recipe)
    f.give(recipe)


def _plain(f: Function) -> None:
    """Emit `recipe_of_plain_update(x, storage, found)`: return the recipe of the usual update, as a new reference.

    The result must be pending and contiguous, and must read the part itself, element by element. In other cases the function returns null,
    and the fallback in Python examines them.
    """
    x, storage, found = f.arguments
    spec, new = f.hold(f.get(x, "Tensor.spec")), f.hold(f.get(found, "Tensor.spec"))
    old, value = f.get(storage, "Storage.node"), f.get(f.get(found, "Tensor.storage"), "Storage.node")
    recipe, whole, dtype = f.get(value, "Node.recipe"), f.get(old, "Node.recipe"), f.get(spec, "Spec.dtype")
    f.require(f.is_the(f.get(value, "Node.buffer"), "None"))
    f.require(f.is_a(f.get(recipe, "Recipe.op"), "Op"))
    f.require(f.is_the(f.get(recipe, "Recipe.passing"), "False"))
    for its in (f.get(recipe, "Recipe.dtype"), f.get(whole, "Recipe.dtype"), f.get(new, "Spec.dtype")):
        f.require(its.equals(dtype))
    for each in (new, spec):
        f.require(f.call("are_alike", I1, [f.get(recipe, "Recipe.shape"), f.get(each, "Spec.shape")]))
    f.require(f.is_the(f.get(new, "Spec.gapless"), "True"))
    f.require(f.is_the(f.get(found, "Tensor.offset"), "0"))
    f.require(nbytes_of(f, spec) <= LARGEST)
    f.require(f.call("has_each_once", I1, [spec]))
    sources = f.get(value, "Node.sources")

    def read(k: Value) -> None:
        f.when(f.item(sources, k).equals(old), lambda: f.require(lies_as(f, through_of(f, recipe, k), spec)))

    f.each(f.word(sources, SIZE), read)
    made = recipe_over(f, old, new, spec)
    f.let_go(spec, new)
    f.keeps(made)
    f.give(made)


def recipe_over(f: Function, old: Value, value: Value, spec: Value) -> Value:
    """Emit the recipe of an update in place: a value of spec `value` is written over the view `spec` of the node `old`. Python code may
    run.

    The new reference is held: each later early exit of the emitted function releases it.
    """
    size, dtype = f.hold(f.get(f.get(old, "Node.recipe"), "Recipe.size")), f.get(spec, "Spec.dtype")
    numbers, one = no_numbers(f), f.number(1)
    numbers.store(f.integer(size))
    numbers.at(MOST_AXES, I64).store(one)
    row = spec_with(f, dtype, one, numbers)
    through = f.tuple_of(f.hold(row), f.hold(value), f.hold(spec))
    shape, dtypes = f.tuple_of(size), f.tuple_of(f.hold(dtype), f.hold(dtype))
    keeps = f.holding(keeps_order(f, through, row))
    recipe = f.made(f.call("recipe_through", POINTER, [f.the("UPDATE"), shape, dtype, dtypes, through, keeps]))
    f.let_go(row, through, shape, dtypes, keeps)
    return recipe


def _run(f: Function) -> None:
    """Emit `run_update(recipe, storage, spec, offset, found, asks)`: run the launch record of an update in place. Return true, or false to
    leave the work to the fallback.

    If the launch record is missing and `asks` is true, the function asks the fallback in Python to build it and tries once more.
    """
    recipe, storage, spec, offset, found, asks = f.arguments
    value = f.hold(f.get(f.get(found, "Tensor.storage"), "Storage.node"))
    f.require(f.is_the(f.get(value, "Node.buffer"), "None"))
    old = f.get(storage, "Storage.node")
    f.refuse(f.is_the(f.get(old, "Node.buffer"), "None"))
    f.require(f.is_the(f.get(old, "Node.past"), "None"))
    f.require(f.is_the(f.get(value, "Node.past"), "None"))
    f.require(_reads_once(f, value, old, offset))
    sources = f.tuple_of(f.hold(old), f.hold(value))
    zero = f.the("0")
    offsets = f.tuple_of(f.own(zero), f.own(zero), f.as_object(offset))
    f.keeps(sources, offsets)
    node = f.made(f.call("pending", POINTER, [f.own(recipe), sources, offsets, f.constant(I1, False)]))
    old = f.get(storage, "Storage.node")  # read again: Python code may have run
    buffer = f.get(old, "Node.buffer")
    f.require(old.equals(f.item(f.get(node, "Node.sources"), 0)))
    # `old` is referenced by the storage, by `value` and by the update; `value` by the storage of `found`, by the update and by this
    # function.
    f.require(f.owners(old).equals(3))
    f.require(f.owners(value).equals(3))
    done = give_if_done_over(f, node, buffer, node, value)
    f.require(f.both(asks, lambda: done.equals(UNKNOWN)))
    ask_for_frame(f, "have_update_framed", node)
    f.let_go(node, value)
    f.give(f.call("run_update", I1, [recipe, storage, spec, offset, found, f.constant(I1, False)]))


def give_if_done_over(f: Function, node: Value, buffer: Value, *held: Value) -> Value:
    """Emit code to run the update `node` in the buffer that it overwrites, if the buffer has no other reference.

    On success the emitted function drops `held` and returns true. Otherwise return the status of the launch, `UNKNOWN` for example.
    """
    f.require(f.has_one_owner(buffer))
    f.require(f.is_the(f.get(buffer, "Buffer.frozen"), "False"))
    f.require(lock_is_free(f))
    f.hold(buffer)
    done = f.call("run_graph", I64, [node, buffer, f.the("updates")])

    def is_done() -> Value:
        f.keeps(buffer)  # the update owns it now
        f.let_go(*held)
        return f.constant(I1, True)

    others = list(f._held)
    f.when_giving(done.equals(DONE), is_done)
    f._held[:] = others
    f.let_go(buffer)
    return done


def _reads_once(f: Function, value: Value, old: Value, offset: Value) -> Value:
    """Emit a test whether the node `value` reads the node `old` exactly once, at this offset."""
    sources, offsets = f.get(value, "Node.sources"), f.get(value, "Node.offsets")

    def more(k: Value, found: Value) -> Value:
        is_it = f.item(sources, k).equals(old)
        fits = lambda: [f.selected(f.integer(f.item(offsets, k)).equals(offset), f.number(1), f.number(2))]  # noqa: E731
        return found + f.choose(is_it, fits, lambda: [f.number(0)])[0]

    return f.fold(f.word(sources, SIZE), f.number(0), more).equals(1)


def _may_wait(f: Function) -> None:
    """Emit `may_wait(node, storage)`: return whether the second operand `node` may stay pending while the storage is overwritten.

    The operation must be cheap. Each source must be in memory or small enough to be evaluated now. Sources in the overwritten memory are
    replaced by copies.
    """
    node, storage = f.arguments
    most, sources = f.integer(f.get(f.get(node, "Node.recipe"), "Recipe.size")), f.hold(f.get(node, "Node.sources"))

    def compute(k: Value) -> None:
        """Emit the evaluation of source `k` if it is small and pending, and an early exit for a large pending source."""
        source = f.item(sources, k)

        def waits() -> None:
            f.require(f.integer(f.get(f.get(source, "Node.recipe"), "Recipe.size")) * THIN <= most)
            f.require(f.is_the(f.get(source, "Node.past"), "None"))
            f.require(f.call("computed", I1, [source]))

        f.when(f.both(f.is_a(source, "Node"), lambda: f.is_the(f.get(source, "Node.buffer"), "None")), waits)

    f.each(f.word(sources, SIZE), compute)
    f.let_go(sources)
    f.require(f.is_the(f.get(node, "Node.buffer"), "None"))
    old = f.hold(f.get(storage, "Storage.node"))
    which = f.call("which_reads", I64, [node, old])
    f.require(f.call("made_apart", I1, [node, which]))
    f.let_go(old)
    f.give(f.constant(I1, True))


def _which_reads(f: Function) -> None:
    """Emit `which_reads(node, old)`: return a bit mask of the sources of a pending node that share the buffer of the node `old`."""
    node, old = f.arguments
    sources, buffer = f.get(node, "Node.sources"), f.get(old, "Node.buffer")

    def more(k: Value, found: Value) -> Value:
        source = f.item(sources, k)
        is_it = f.both(f.is_a(source, "Node"), lambda: f.get(source, "Node.buffer").equals(buffer))
        return found | (is_it.cast("zext", I64) << k)

    f.give(f.fold(f.word(sources, SIZE), f.number(0), more))
