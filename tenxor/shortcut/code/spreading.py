"""What waits for what a mask selects is computed in place, where it is written back by the same mask: `x[mask] = f(x[mask], y[mask])`.

Then nothing is selected. The operations on what is are made again as operations on the tensors themselves, of which the mask chooses in an
update of `x`: one pass, which passes over what has nothing selected in it. That is right if none but these operations waits, and nobody
else has any of them; and worth while, unless little is selected. From then on the value is what the mask selects of what was written.
"""

from __future__ import annotations

from collections.abc import Callable

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I64, POINTER, Type
from ..objects import ITEMS, SIZE, Objects
from ..rule import MOST_AXES
from .compute import lock_is_free
from .function import Function
from .record import take_note
from .specs import keeps_order, lies_as, no_numbers, spec_with, through_of
from .updating import recipe_over

MOST_NODES = 64  # operations that are written where a mask says so in one go
COSTLY = 16  # additions that an element is worth, from which on it counts how many are selected
FEW, FEW_IF_COSTLY = 16, 3  # of so many elements one is selected at least, if those that are not are computed beside


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""

    def named(*names: str) -> list[tuple[str, Type]]:
        return [(name, POINTER) for name in names]

    _order(Function(module, objects, "order_where", named("node", "x", "key", "value", "old", "mask", "order"), I1))
    _are_ours(Function(module, objects, "are_ours", named("order"), I1))
    _is_worth_it(Function(module, objects, "is_worth_it", [*named("order"), ("size", I64)], I1))
    _spread(Function(module, objects, "spread_where", named("node", "x", "key", "plain", "order", "spread"), I1))
    _chosen(Function(module, objects, "chosen_where", named("x", "key", "old", "mask", "plain", "order", "spread")))
    _update(Function(module, objects, "update_where", named("x", "old", "plain", "chosen")))
    _written(Function(module, objects, "written_where", named("x", "key", "value", "frame"), I1))


def _waits(f: Function, node: Value) -> Value:
    return f.is_the(f.get(node, "Node.buffer"), "None")


def _is_begun(f: Function, node: Value) -> Value:
    """Whether a node is what a mask selects, among those in an order."""
    return f.is_the(f.get(f.get(node, "Node.recipe"), "Recipe.op"), "UNFINISHED")


def _number_in(f: Function, order: Value, node: Value) -> Value:
    """Which of those in a list it is; -1 for none."""
    return f.fold(f.length(order), f.number(-1), lambda k, found: f.selected(f.listed(order, k).equals(node), k, found))


# Which operations there are


def _order(f: Function) -> None:
    """Append a node that waits to a list, behind all that it reads of what the mask selects; false if that is not of this kind."""
    node, x, key, value, old, mask, order = f.arguments
    f.require(_waits(f, node))
    f.when_giving(_number_in(f, order, node) >= 0, lambda: f.constant(I1, True))
    recipe, sources, spec = f.get(node, "Node.recipe"), f.get(node, "Node.sources"), f.get(value, "Tensor.spec")
    f.require(f.is_the(f.get(node, "Node.past"), "None"))
    f.require(f.call("are_alike", I1, [f.get(recipe, "Recipe.shape"), f.get(spec, "Spec.shape")]))
    f.when_giving(_is_begun(f, node), lambda: _selected(f, node, x, key, old, mask, order))
    f.require(f.is_a(f.get(recipe, "Recipe.op"), "Op"))
    f.require(f.length(order) < MOST_NODES)
    offsets = f.get(node, "Node.offsets")

    def read(k: Value) -> None:
        source = f.item(sources, k)

        def along() -> list[Value]:
            f.require(f.call("order_where", I1, [source, *f.arguments[1:]]))
            return []

        def a_node() -> None:
            through = through_of(f, recipe, k)

            def for_all() -> list[Value]:
                f.require(f.integer(f.item(through.strides, 0)).equals(0))
                f.refuse(f.either(_waits(f, source), lambda: source.equals(old)))
                return []

            f.choose(f.both(lies_as(f, through, spec), lambda: f.is_the(f.item(offsets, k), "0")), along, for_all)

        f.when(f.is_a(source, "Node"), a_node)

    f.each(f.word(sources, SIZE), read)
    f.append(order, node)
    f.give(f.constant(I1, True))


def _selected(f: Function, node: Value, x: Value, key: Value, old: Value, mask: Value, order: Value) -> Value:
    """The same of what is selected: it has to be by this mask, and of what is overwritten it has to be the very tensor."""
    sources = f.get(node, "Node.sources")
    how = f.item(sources, 0)
    f.require(f.is_a(how, "Selected"))
    of, by = f.item(sources, 1), f.item(sources, 2)
    f.require(by.equals(mask))
    f.refuse(_waits(f, of))
    spec, own = f.get(how, "Selected.spec"), f.get(x, "Tensor.spec")
    f.require(f.get(how, "Selected.mask_spec").equals(f.get(key, "Tensor.spec")))
    f.require(f.integer(f.get(how, "Selected.mask_offset")).equals(f.integer(f.get(key, "Tensor.offset"))))
    f.require(f.call("are_alike", I1, [f.get(spec, "Spec.shape"), f.get(own, "Spec.shape")]))
    f.refuse(f.is_the(f.get(spec, "Spec.strides"), "None"))

    def is_the_same() -> Value:
        begins = lambda: f.integer(f.get(how, "Selected.offset")).equals(f.integer(f.get(x, "Tensor.offset")))  # noqa: E731
        return f.both(spec.equals(own), begins)

    f.require(f.either(of.differs(old), is_the_same))
    f.append(order, node)
    return f.constant(I1, True)


def _times_read(f: Function, node: Value, reader: Value) -> Value:
    """How often one node reads another."""
    sources = f.get(reader, "Node.sources")
    return f.fold(f.word(sources, SIZE), f.number(0), lambda k, n: n + f.item(sources, k).equals(node).cast("zext", I64))


def _times_read_in(f: Function, node: Value, nodes: Value) -> Value:
    """How often those in a list do."""
    return f.fold(f.length(nodes), f.number(0), lambda k, n: n + _times_read(f, node, f.listed(nodes, k)))


def _are_ours(f: Function) -> None:
    """Whether nobody has those in a list but the list, others in it, and the storage that holds the last: and there is any."""
    (order,) = f.arguments
    last = f.length(order) - 1

    def one(k: Value) -> None:
        node = f.listed(order, k)
        owners = _times_read_in(f, node, order) + f.selected(k.equals(last), f.number(2), f.number(1))
        f.require(f.owners(node).cast("zext", I64).equals(owners))

    f.each(last + 1, one)
    f.give(last >= 0)


def _is_worth_it(f: Function) -> None:
    """Whether enough is selected, of so many elements, by the mask; and anything is."""
    order, size = f.arguments

    def cost_of(node: Value) -> Value:
        op = f.get(f.get(node, "Node.recipe"), "Recipe.op")
        return f.choose(f.is_a(op, "Op"), lambda: [f.integer(f.get(op, "Op.cost"))], lambda: [f.number(0)])[0]

    cost = f.fold(f.length(order), f.number(0), lambda k, n: n + cost_of(f.listed(order, k)))
    begun = f.fold(f.length(order), f.number(0), lambda k, n: n + _is_begun(f, f.listed(order, k)).cast("zext", I64))
    chosen = f.integer(f.get(f.get(f.listed(order, f.length(order) - 1), "Node.recipe"), "Recipe.size"))
    few = f.selected(cost >= COSTLY, f.number(FEW_IF_COSTLY), f.number(FEW))
    f.give((begun > 0) & (chosen * few >= size))


# The same of the tensors themselves


def _read_of(f: Function, plain: Value, order: Value, spread: Value, k: Value) -> tuple[Value, Value, Value]:
    """What stands for one in the list, owned: the node, the spec through which that is read, and the offset."""
    node = f.listed(order, k)
    f.require(_waits(f, node))  # as Python may have run

    def of_selected() -> list[Value]:
        how = f.item(f.get(node, "Node.sources"), 0)
        return [f.own(f.get(how, "Selected.spec")), f.own(f.get(how, "Selected.offset"))]

    def of_operation() -> list[Value]:
        return [f.own(plain), f.own(f.the("0"))]

    spec, offset = f.choose(_is_begun(f, node), of_selected, of_operation)
    return f.own(f.listed(spread, k)), spec, offset


def _spec_of(f: Function, x: Value, stride: Callable[[Value], Value]) -> Value:
    """The spec of a tensor's shape and dtype, with a stride for each axis; owned."""
    shape, numbers = f.get(f.get(x, "Tensor.spec"), "Spec.shape"), no_numbers(f)
    ndim = f.word(shape, SIZE)
    f.require(ndim <= MOST_AXES)

    def axis(k: Value) -> None:
        numbers.at(k, I64).store(f.integer(f.item(shape, k)))
        numbers.at(k + MOST_AXES, I64).store(stride(k))

    f.each(ndim, axis)
    spec = spec_with(f, f.get(x, "Tensor.dtype"), ndim, numbers)
    f.keeps(spec)
    return spec


def _spread(f: Function) -> None:
    """Append what stands for a node to another list, as it was appended to the first: what it is computed of all elements."""
    node, x, key, plain, order, spread = f.arguments
    f.require(_waits(f, node))
    sources = f.hold(f.get(node, "Node.sources"))

    def selected() -> Value:
        f.append(spread, f.item(sources, 1))
        f.let_go(sources)
        return f.constant(I1, True)

    held = list(f._held)
    f.when_giving(_is_begun(f, node), selected)
    f._held[:] = held
    recipe, offsets = f.hold(f.get(node, "Node.recipe")), f.hold(f.get(node, "Node.offsets"))
    shape, count = f.get(f.get(x, "Tensor.spec"), "Spec.shape"), f.word(sources, SIZE)
    axes = f.word(f.get(f.get(key, "Tensor.spec"), "Spec.shape"), SIZE)
    new = [f.made(f.call("PyTuple_New", POINTER, [size])) for size in (count, count + 1, count)]
    read, through, begins = new

    def one(k: Value) -> None:
        source = f.item(sources, k)
        number = _number_in(f, order, source)

        def beside() -> list[Value]:
            """What is the same for all, or a number."""

            def for_all() -> list[Value]:
                strides = through_of(f, recipe, k).strides

                def stride(at: Value) -> Value:
                    within = lambda: [f.integer(f.item(strides, at - axes + 1))]  # noqa: E731
                    return f.choose(at < axes, lambda: [f.number(0)], within)[0]

                return [_spec_of(f, x, stride)]

            (its,) = f.choose(f.is_a(source, "Node"), for_all, lambda: [f.own(f.the("None"))])
            return [f.own(source), its, f.own(f.item(offsets, k))]

        found = f.choose(number < 0, beside, lambda: list(_read_of(f, plain, order, spread, number)))
        for items, item in zip(new, found, strict=True):
            f.at(items, ITEMS).at(k, POINTER).store(item)

    f.each(count, one)
    f.at(through, ITEMS).at(count, POINTER).store(f.own(f.the("None")))
    keeps = f.holding(keeps_order(f, through, plain))
    parts = [f.get(recipe, f"Recipe.{name}") for name in ("op", "dtype", "dtypes")]
    own = f.made(f.call("recipe_through", POINTER, [parts[0], shape, parts[1], parts[2], through, keeps]))
    f.let_go(keeps, through, recipe, offsets, sources)
    f.keeps(own, read, begins)
    made = f.made(f.call("pending", POINTER, [own, read, begins, f.constant(I1, False)]))
    f.append(spread, made)
    f.let_go(made)
    f.give(f.constant(I1, True))


def _pending(f: Function, op: str, of: tuple[Value, Value, Value], read: tuple[Value, Value, Value], plain: Value) -> Value:
    """The node of an operation that makes what has this shape and dtype, as a plain spec has, of sources with these dtypes; held. What it
    reads, a tuple of nodes, one of specs, with the target's, and one of offsets, is let go of.
    """
    shape, dtype, dtypes = of
    sources, through, offsets = read
    keeps = f.holding(keeps_order(f, through, plain))
    recipe = f.made(f.call("recipe_through", POINTER, [f.the(op), shape, dtype, dtypes, through, keeps]))
    f.let_go(through, keeps)
    f.keeps(recipe, sources, offsets)
    return f.made(f.call("pending", POINTER, [recipe, sources, offsets, f.constant(I1, False)]))


def _chosen(f: Function) -> None:
    """The node of what a mask chooses between what a tensor was and what stands for the last node in a list."""
    x, key, old, mask, plain, order, spread = f.arguments
    spec, own, dtype = f.get(x, "Tensor.spec"), f.get(key, "Tensor.spec"), f.get(x, "Tensor.dtype")
    strides, axes = f.get(own, "Spec.strides"), f.word(f.get(own, "Spec.shape"), SIZE)
    f.refuse(f.is_the(strides, "None"))

    def stride(k: Value) -> Value:
        return f.choose(k < axes, lambda: [f.integer(f.item(strides, k))], lambda: [f.number(0)])[0]

    by = f.holding(_spec_of(f, x, stride))
    found = _read_of(f, plain, order, spread, f.length(order) - 1)
    for item in found:
        f.holding(item)
    node, its, offset = found
    through = f.tuple_of(by, its, f.hold(spec), f.hold(f.the("None")))
    offsets = f.tuple_of(f.hold(f.get(key, "Tensor.offset")), offset, f.hold(f.get(x, "Tensor.offset")))
    sources = f.tuple_of(f.hold(mask), node, f.hold(old))
    dtypes = f.tuple_of(f.hold(f.the("bool")), f.hold(dtype), f.hold(dtype))
    made = _pending(f, "op where", (f.get(spec, "Spec.shape"), dtype, dtypes), (sources, through, offsets), plain)
    f.let_go(dtypes)
    f.keeps(made)
    f.give(made)


def _update(f: Function) -> None:
    """The node of a write of what was chosen over all of a tensor."""
    x, old, plain, chosen = f.arguments
    zero, recipe = f.the("0"), recipe_over(f, old, plain, f.get(x, "Tensor.spec"))
    sources = f.tuple_of(f.hold(old), f.hold(chosen))
    offsets = f.tuple_of(f.hold(zero), f.hold(zero), f.hold(f.get(x, "Tensor.offset")))
    f.keeps(recipe, sources, offsets)
    f.give(f.call("pending", POINTER, [recipe, sources, offsets, f.constant(I1, False)]))


def _is_own(f: Function, node: Value) -> Value:
    """Whether a node is in memory that nobody else may write, and derivatives do not follow it."""
    buffer = f.get(node, "Node.buffer")
    is_unpinned = lambda: f.is_the(f.get(buffer, "Buffer.pins"), "0")  # noqa: E731
    in_memory = f.both(~f.is_the(buffer, "None"), is_unpinned)
    return f.both(in_memory, lambda: f.is_the(f.get(node, "Node.past"), "None"))


def _written(f: Function) -> None:
    """Whether a value, which waits for what a mask selects, was computed where the mask says so, and written there."""
    x, key, value, frame = f.arguments
    storage, its = f.get(x, "Tensor.storage"), f.get(value, "Tensor.storage")
    dtype, spec, rows = f.get(x, "Tensor.dtype"), f.get(x, "Tensor.spec"), f.get(value, "Tensor.spec")
    f.require(f.is_a(f.get(key, "Tensor.storage"), "Storage"))
    f.refuse(f.is_null(rows))
    f.require(f.is_the(f.get(rows, "Spec.gapless"), "True"))
    for each in (spec, rows):
        f.refuse(f.is_the(f.get(each, "Spec.strides"), "None"))
    f.require(f.is_the(f.get(value, "Tensor.offset"), "0"))
    order, spread = (f.made(f.call("PyList_New", POINTER, [f.number(0)])) for _ in range(2))
    old = f.hold(f.get(storage, "Storage.node"))
    mask = f.hold(f.get(f.get(key, "Tensor.storage"), "Storage.node"))
    f.require(_is_own(f, old))
    f.require(_is_own(f, mask))
    f.refuse(mask.equals(old))
    root = f.get(its, "Storage.node")
    for each in (old, root):
        f.require(f.get(f.get(each, "Node.recipe"), "Recipe.dtype").equals(dtype))
    f.require(f.get(value, "Tensor.dtype").equals(dtype))
    f.require(f.call("order_where", I1, [root, x, key, value, old, mask, order]))
    f.require(f.call("are_ours", I1, [order]))
    f.require(f.call("is_worth_it", I1, [order, f.integer(f.get(spec, "Spec.size"))]))
    plain = f.made(f.call("row_major_spec", POINTER, [dtype, f.get(spec, "Spec.shape")]))
    f.each(f.length(order), lambda k: f.require(f.call("spread_where", I1, [f.listed(order, k), x, key, plain, order, spread])))
    chosen = f.made(f.call("chosen_where", POINTER, [x, key, old, mask, plain, order, spread]))
    update = f.made(f.call("update_where", POINTER, [x, old, plain, chosen]))
    root = f.listed(order, f.length(order) - 1)
    selected = f.made(f.call("selected_node", POINTER, [x, key, update, mask, frame, f.get(root, "Node.recipe")]))
    reads = _times_read_in(f, old, spread) + _times_read(f, old, chosen) + _times_read(f, old, update)
    # Python may have run: all is still as it was.
    f.require(f.get(storage, "Storage.node").equals(old))
    f.require(f.get(its, "Storage.node").equals(root))
    f.require(_is_own(f, old))
    f.require(f.call("are_ours", I1, [order]))
    f.each(f.length(order), lambda k: f.require(_waits(f, f.listed(order, k))))
    f.require(lock_is_free(f))
    f.set(its, "Storage.node", selected)
    f.set(storage, "Storage.node", f.own(update))
    f.keeps(selected)
    for was in (root, old):  # the storages'
        f.drop(was)
    note = f.hold(f.get(its, "Storage.node"))
    f.let_go(order, spread, chosen, plain, mask, old)
    take_note(f, note)
    f.let_go(note)

    def ask() -> None:
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        f.require(f.is_the(f.ask_python("is_computed", update), "True"))

    f.when(~f.call("computed_over", I1, [update, reads, f.constant(I1, True)]), ask)
    f.let_go(update)
    f.give(f.constant(I1, True))
