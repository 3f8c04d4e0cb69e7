"""Masked updates computed in place: `x[mask] = f(x[mask], y[mask])` becomes `x = where(mask, f(x, y), x)` over the memory of `x`.

While `x[mask]` and `y[mask]` are pending, no elements are selected. The operations on them are rebuilt as operations on the whole tensors.
One kernel does the masked update in one pass, and skips blocks without a true mask element. This is valid if only these operations are
pending and have no other readers. The update pays unless the mask selects few elements. Afterwards the value is redefined: it selects by
the mask from the updated `x`.
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

MOST_NODES = 64  # operations in one masked update
COSTLY = 16  # cost of an element, in additions, above which the limit `FEW_IF_COSTLY` applies
FEW, FEW_IF_COSTLY = 16, 3  # the mask must select at least one of so many elements, as the others are computed for nothing


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""

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
    """Emit a test whether a node is pending."""
    return f.is_the(f.get(node, "Node.buffer"), "None")


def _is_begun(f: Function, node: Value) -> Value:
    """Emit a test whether a node of a list is a pending masked selection, like `x[mask]`."""
    return f.is_the(f.get(f.get(node, "Node.recipe"), "Recipe.op"), "UNFINISHED")


def _number_in(f: Function, order: Value, node: Value) -> Value:
    """Emit the position of a node in a list; -1 if the node is not in it."""
    return f.fold(f.length(order), f.number(-1), lambda k, found: f.selected(f.listed(order, k).equals(node), k, found))


# Collect the operations


def _order(f: Function) -> None:
    """Emit `order_where(node, x, key, value, old, mask, order)`: append a pending node to the list `order`, behind the pending nodes it
    reads.

    The operands must be masked selections, scalars, values that are equal for each row, or elementwise operations on these. The function
    returns false for other graphs. `old` and `mask` are the nodes of the tensors `x` and `key`.
    """
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
    """Emit code to append a masked selection to the list `order`. The emitted function returns null or 0 for a selection by another mask.

    A selection from the overwritten node `old` must read the whole tensor `x`, from the same offset.
    """
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
    """Emit the number of times that `reader` has `node` as a source."""
    sources = f.get(reader, "Node.sources")
    return f.fold(f.word(sources, SIZE), f.number(0), lambda k, n: n + f.item(sources, k).equals(node).cast("zext", I64))


def _times_read_in(f: Function, node: Value, nodes: Value) -> Value:
    """Emit the number of times that the nodes of a list have `node` as a source."""
    return f.fold(f.length(nodes), f.number(0), lambda k, n: n + _times_read(f, node, f.listed(nodes, k)))


def _are_ours(f: Function) -> None:
    """Emit `are_ours(order)`: return whether the list is not empty and its nodes have no other references.

    Allowed are references from the list, from nodes of the list, and from the storage of the last node.
    """
    (order,) = f.arguments
    last = f.length(order) - 1

    def one(k: Value) -> None:
        node = f.listed(order, k)
        owners = _times_read_in(f, node, order) + f.selected(k.equals(last), f.number(2), f.number(1))
        f.require(f.owners(node).cast("zext", I64).equals(owners))

    f.each(last + 1, one)
    f.give(last >= 0)


def _is_worth_it(f: Function) -> None:
    """Emit `is_worth_it(order, size)`: return whether the mask selects enough of `size` elements, and the list has a masked selection."""
    order, size = f.arguments

    def cost_of(node: Value) -> Value:
        op = f.get(f.get(node, "Node.recipe"), "Recipe.op")
        return f.choose(f.is_a(op, "Op"), lambda: [f.integer(f.get(op, "Op.cost"))], lambda: [f.number(0)])[0]

    cost = f.fold(f.length(order), f.number(0), lambda k, n: n + cost_of(f.listed(order, k)))
    begun = f.fold(f.length(order), f.number(0), lambda k, n: n + _is_begun(f, f.listed(order, k)).cast("zext", I64))
    chosen = f.integer(f.get(f.get(f.listed(order, f.length(order) - 1), "Node.recipe"), "Recipe.size"))
    few = f.selected(cost >= COSTLY, f.number(FEW_IF_COSTLY), f.number(FEW))
    f.give((begun > 0) & (chosen * few >= size))


# Rebuild the operations on the whole tensors


def _read_of(f: Function, plain: Value, order: Value, spread: Value, k: Value) -> tuple[Value, Value, Value]:
    """Emit the replacement of node `k` of the list `order` on whole tensors: the node, the spec through which it is read, and the offset.

    The node is item `k` of the list `spread`; `plain` is the contiguous spec of a whole result. The three references are new.
    """
    node = f.listed(order, k)
    f.require(_waits(f, node))  # Python code may have run and evaluated the node

    def of_selected() -> list[Value]:
        how = f.item(f.get(node, "Node.sources"), 0)
        return [f.own(f.get(how, "Selected.spec")), f.own(f.get(how, "Selected.offset"))]

    def of_operation() -> list[Value]:
        return [f.own(plain), f.own(f.the("0"))]

    spec, offset = f.choose(_is_begun(f, node), of_selected, of_operation)
    return f.own(f.listed(spread, k)), spec, offset


def _spec_of(f: Function, x: Value, stride: Callable[[Value], Value]) -> Value:
    """Emit the spec with the shape and dtype of tensor `x` and `stride(k)` as the stride of axis `k`. A new reference."""
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
    """Emit `spread_where(node, x, key, plain, order, spread)`: append the replacement of `node`, the next of `order`, to the list `spread`.

    `x` is the updated tensor, `key` the mask, and `plain` the contiguous spec with the shape of `x`. A masked selection is replaced by the
    node it selects from, an operation by the same operation on whole tensors.
    """
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
            """Return a source from outside of the list: a scalar, or a node with equal values for each row."""

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
    """Emit a new pending node. The reference is held: each later early exit of the emitted function releases it.

    `of` is the shape, dtype and operand dtypes of the operation, and `plain` the contiguous spec of the result. `read` is the tuples of
    sources, of specs (the target's spec last) and of offsets; their references are consumed.
    """
    shape, dtype, dtypes = of
    sources, through, offsets = read
    keeps = f.holding(keeps_order(f, through, plain))
    recipe = f.made(f.call("recipe_through", POINTER, [f.the(op), shape, dtype, dtypes, through, keeps]))
    f.let_go(through, keeps)
    f.keeps(recipe, sources, offsets)
    return f.made(f.call("pending", POINTER, [recipe, sources, offsets, f.constant(I1, False)]))


def _chosen(f: Function) -> None:
    """Emit `chosen_where(x, key, old, mask, plain, order, spread)`: return the pending node of `where(mask, value, x)`, a new reference.

    The value is the replacement, in `spread`, of the last node of `order`. `old` and `mask` are the nodes of the tensors `x` and `key`.
    """
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
    """Emit `update_where(x, old, plain, chosen)`: return the pending node of a write of the node `chosen` over all of tensor `x`.

    `old` is the node of `x`, and `plain` the contiguous spec of `chosen`. The reference is new.
    """
    x, old, plain, chosen = f.arguments
    zero, recipe = f.the("0"), recipe_over(f, old, plain, f.get(x, "Tensor.spec"))
    sources = f.tuple_of(f.hold(old), f.hold(chosen))
    offsets = f.tuple_of(f.hold(zero), f.hold(zero), f.hold(f.get(x, "Tensor.offset")))
    f.keeps(recipe, sources, offsets)
    f.give(f.call("pending", POINTER, [recipe, sources, offsets, f.constant(I1, False)]))


def _is_own(f: Function, node: Value) -> Value:
    """Emit a test whether a node is in memory that is not externally shared, and has no tape node."""
    buffer = f.get(node, "Node.buffer")
    is_unpinned = lambda: f.is_the(f.get(buffer, "Buffer.pins"), "0")  # noqa: E731
    in_memory = f.both(~f.is_the(buffer, "None"), is_unpinned)
    return f.both(in_memory, lambda: f.is_the(f.get(node, "Node.past"), "None"))


def _written(f: Function) -> None:
    """Emit `written_where(x, key, value, frame)`: do `x[key] = value` as a masked update in place, and return true, or false to leave the
    work to the fallback.

    `value` is pending and made of masked selections. The function returns false, too, if Python code has changed the tensors
    meanwhile.
    """
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
    # Python code may have run: check that nothing has changed.
    f.require(f.get(storage, "Storage.node").equals(old))
    f.require(f.get(its, "Storage.node").equals(root))
    f.require(_is_own(f, old))
    f.require(f.call("are_ours", I1, [order]))
    f.each(f.length(order), lambda k: f.require(_waits(f, f.listed(order, k))))
    f.require(lock_is_free(f))
    f.set(its, "Storage.node", selected)
    f.set(storage, "Storage.node", f.own(update))
    f.keeps(selected)
    for was in (root, old):  # the references of the two storages
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
