"""Masked updates computed in place: `x[mask] = f(x[mask], y[mask])` becomes `x = where(mask, f(x, y), x)` over the memory of `x`.

While `x[mask]` and `y[mask]` are pending, no elements are selected. The operations on them are rebuilt as operations on the whole tensors.
One kernel does the masked update in one pass, and skips blocks without a true mask element. This is valid if only these operations are
pending and have no other readers. The update pays unless the mask selects few elements. Afterwards the value is redefined: it selects by
the mask from the updated `x`.
"""

from __future__ import annotations

from collections.abc import Callable

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I64, POINTER, Type
from ..object_layout import SIZE_OFFSET, TUPLE_ITEMS_OFFSET, ObjectTable
from ..sized_template import MAX_AXES
from .function_builder import FunctionBuilder
from .inplace_update import find_update_recipe
from .node_creation import note_pending
from .node_evaluation import is_lock_free
from .spec_table import box_keeps_order, find_spec, has_layout_of, load_operand_layout, new_dims

MAX_UPDATE_NODES = 64  # operations in one masked update
EXPENSIVE_ADDITIONS = 16  # cost of an element, in additions, above which the limit `MAX_EXPENSIVE_SPARSITY` applies
# The mask must select at least one element in 16, or in 3 if the update is expensive: unselected elements are computed in vain
MAX_SPARSITY, MAX_EXPENSIVE_SPARSITY = 16, 3


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to turn a masked update of a tensor into an in-place update.

    The functions emitted include `written_where`, `chosen_where`, `update_where`, `spread_where`, `order_where`, `are_ours` and
    `is_worth_it`.
    """

    def named(*names: str) -> list[tuple[str, Type]]:
        return [(name, POINTER) for name in names]

    _emit_collect_update(FunctionBuilder(module, objects, "order_where", named("node", "x", "key", "value", "old", "mask", "order"), I1))
    _emit_are_unshared(FunctionBuilder(module, objects, "are_ours", named("order"), I1))
    _emit_is_profitable(FunctionBuilder(module, objects, "is_worth_it", [*named("order"), ("size", I64)], I1))
    _emit_replace_node(FunctionBuilder(module, objects, "spread_where", named("node", "x", "key", "plain", "order", "spread"), I1))
    _emit_new_where(FunctionBuilder(module, objects, "chosen_where", named("x", "key", "old", "mask", "plain", "order", "spread")))
    _emit_new_update(FunctionBuilder(module, objects, "update_where", named("x", "old", "plain", "chosen")))
    _emit_write_masked(FunctionBuilder(module, objects, "written_where", named("x", "key", "value", "frame"), I1))


def _is_pending(f: FunctionBuilder, node: Value) -> Value:
    """Emit a test whether a node is pending."""
    return f.is_object(f.get_slot(node, "Node.buffer"), "None")


def _is_masked_selection(f: FunctionBuilder, node: Value) -> Value:
    """Emit a test whether the pending `node` is a masked selection, like `x[mask]`."""
    return f.is_object(f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.op"), "UNFINISHED")


def _find_index(f: FunctionBuilder, order: Value, node: Value) -> Value:
    """Emit the search for `node` in the list `order`. Return the index, or -1 if the node is not in the list."""
    return f.fold_range(f.list_length(order), f.i64(-1), lambda k, index: f.select_value(f.list_item(order, k).equals(node), k, index))


# Collect the operations


def _emit_collect_update(f: FunctionBuilder) -> None:
    """Emit `order_where(node, x, key, value, old_node, mask, order)`: append a pending node to the list `order`, behind the pending nodes
    it reads, unless listed already. Return true, or false for other graphs.

    Each node must have the shape of the assigned tensor `value`. The operands must be masked selections, scalars, values that are equal for
    each row, or elementwise operations on these. `old_node` and `mask` are the nodes of the tensors `x` and `key`. After false, some nodes
    may be listed.
    """
    node, x, key, value, old_node, mask, order = f.arguments
    f.require(_is_pending(f, node))
    f.return_if(_find_index(f, order, node) >= 0, lambda: f.constant(I1, True))
    recipe, sources, spec = f.get_slot(node, "Node.recipe"), f.get_slot(node, "Node.sources"), f.get_slot(value, "Tensor.spec")
    f.require(f.is_object(f.get_slot(node, "Node.tape_node"), "None"))
    f.require(f.call("are_alike", I1, [f.get_slot(recipe, "Recipe.shape"), f.get_slot(spec, "Spec.shape")]))
    f.return_if(_is_masked_selection(f, node), lambda: _append_selection(f, node, x, key, old_node, mask, order))
    f.require(f.is_instance(f.get_slot(recipe, "Recipe.op"), "Op"))
    f.require(f.list_length(order) < MAX_UPDATE_NODES)
    offsets = f.get_slot(node, "Node.offsets")

    def visit_source(k: Value) -> None:
        source = f.tuple_item(sources, k)

        def collect_source() -> list[Value]:
            f.require(f.call("order_where", I1, [source, *f.arguments[1:]]))
            return []

        def check_source() -> None:
            through = load_operand_layout(f, recipe, k)

            def require_row_constant() -> list[Value]:
                f.require(f.unbox_integer(f.tuple_item(through.strides, 0)).equals(0))
                f.decline_if(f.or_else(_is_pending(f, source), lambda: source.equals(old_node)))
                return []

            f.choose(
                f.and_then(has_layout_of(f, through, spec), lambda: f.is_object(f.tuple_item(offsets, k), "0")),
                collect_source,
                require_row_constant,
            )

        f.emit_if(f.is_instance(source, "Node"), check_source)

    f.for_range(f.load_word(sources, SIZE_OFFSET), visit_source)
    f.append_to_list(order, node)
    f.emit_return(f.constant(I1, True))


def _append_selection(f: FunctionBuilder, node: Value, x: Value, key: Value, old_node: Value, mask: Value, order: Value) -> Value:
    """Emit the append of `node`, a masked selection, to the list `order`. Return the constant true.

    The mask must be the node `mask`, read through the tensor `key`, and the source must be in memory. A selection from `old_node`, which is
    overwritten, must read the whole tensor `x`, from the same offset. Otherwise the emitted function returns null or 0.
    """
    sources = f.get_slot(node, "Node.sources")
    selection = f.tuple_item(sources, 0)
    f.require(f.is_instance(selection, "MaskedSelection"))
    source_node, mask_node = f.tuple_item(sources, 1), f.tuple_item(sources, 2)
    f.require(mask_node.equals(mask))
    f.decline_if(_is_pending(f, source_node))
    spec, target_spec = f.get_slot(selection, "MaskedSelection.spec"), f.get_slot(x, "Tensor.spec")
    f.require(f.get_slot(selection, "MaskedSelection.mask_spec").equals(f.get_slot(key, "Tensor.spec")))
    f.require(
        f.unbox_integer(f.get_slot(selection, "MaskedSelection.mask_offset")).equals(f.unbox_integer(f.get_slot(key, "Tensor.offset")))
    )
    f.require(f.call("are_alike", I1, [f.get_slot(spec, "Spec.shape"), f.get_slot(target_spec, "Spec.shape")]))
    f.decline_if(f.is_object(f.get_slot(spec, "Spec.strides"), "None"))

    def has_same_view() -> Value:
        starts_equal = lambda: f.unbox_integer(f.get_slot(selection, "MaskedSelection.offset")).equals(
            f.unbox_integer(f.get_slot(x, "Tensor.offset"))
        )
        return f.and_then(spec.equals(target_spec), starts_equal)

    f.require(f.or_else(source_node.differs(old_node), has_same_view))
    f.append_to_list(order, node)
    return f.constant(I1, True)


def _count_reads_by(f: FunctionBuilder, node: Value, reader: Value) -> Value:
    """Emit the number of times that the node `reader` has `node` as a source, as an `i64`."""
    sources = f.get_slot(reader, "Node.sources")
    return f.fold_range(
        f.load_word(sources, SIZE_OFFSET), f.i64(0), lambda k, n: n + f.tuple_item(sources, k).equals(node).cast("zext", I64)
    )


def _count_reads(f: FunctionBuilder, node: Value, nodes: Value) -> Value:
    """Emit the number of times that the nodes of the list `nodes` have `node` as a source, repeated reads included, as an `i64`."""
    return f.fold_range(f.list_length(nodes), f.i64(0), lambda k, n: n + _count_reads_by(f, node, f.list_item(nodes, k)))


def _emit_are_unshared(f: FunctionBuilder) -> None:
    """Emit `are_ours(order)`: return whether the list is not empty and its nodes have no other references.

    Allowed are references from the list, from nodes of the list, and from the storage of the last node.
    """
    (order,) = f.arguments
    last_index = f.list_length(order) - 1

    def check_node(k: Value) -> None:
        node = f.list_item(order, k)
        owners = _count_reads(f, node, order) + f.select_value(k.equals(last_index), f.i64(2), f.i64(1))
        f.require(f.load_refcount(node).cast("zext", I64).equals(owners))

    f.for_range(last_index + 1, check_node)
    f.emit_return(last_index >= 0)


def _emit_is_profitable(f: FunctionBuilder) -> None:
    """Emit `is_worth_it(order, size)`: return whether the list has a masked selection, and the mask selects enough elements of a tensor
    with `size` elements.

    The last node of the list has as many elements as selected. See `MAX_SPARSITY` for the least share.
    """
    order, size = f.arguments

    def cost_of(node: Value) -> Value:
        op = f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.op")
        return f.choose(f.is_instance(op, "Op"), lambda: [f.unbox_integer(f.get_slot(op, "Op.cost"))], lambda: [f.i64(0)])[0]

    cost = f.fold_range(f.list_length(order), f.i64(0), lambda k, n: n + cost_of(f.list_item(order, k)))
    selection_count = f.fold_range(
        f.list_length(order), f.i64(0), lambda k, n: n + _is_masked_selection(f, f.list_item(order, k)).cast("zext", I64)
    )
    selected_size = f.unbox_integer(f.get_slot(f.get_slot(f.list_item(order, f.list_length(order) - 1), "Node.recipe"), "Recipe.size"))
    max_sparsity = f.select_value(cost >= EXPENSIVE_ADDITIONS, f.i64(MAX_EXPENSIVE_SPARSITY), f.i64(MAX_SPARSITY))
    f.emit_return((selection_count > 0) & (selected_size * max_sparsity >= size))


# Rebuild the operations on the whole tensors


def _replace_operand(f: FunctionBuilder, contiguous_spec: Value, order: Value, spread: Value, k: Value) -> tuple[Value, Value, Value]:
    """Emit the replacement of node `k` of the list `order` on whole tensors. Return the new node, the spec through which it is read, and
    the offset, a Python integer.

    The new node is item `k` of the list `spread`; `contiguous_spec` is the spec of a whole result. The three references are new. The
    emitted function returns null or 0 if Python code has evaluated node `k` meanwhile.
    """
    node = f.list_item(order, k)
    f.require(_is_pending(f, node))  # Python code may have run and evaluated the node

    def take_selection() -> list[Value]:
        selection = f.tuple_item(f.get_slot(node, "Node.sources"), 0)
        return [f.incref(f.get_slot(selection, "MaskedSelection.spec")), f.incref(f.get_slot(selection, "MaskedSelection.offset"))]

    def take_dense() -> list[Value]:
        return [f.incref(contiguous_spec), f.incref(f.load_object("0"))]

    spec, offset = f.choose(_is_masked_selection(f, node), take_selection, take_dense)
    return f.incref(f.list_item(spread, k)), spec, offset


def _find_strided_spec(f: FunctionBuilder, x: Value, stride: Callable[[Value], Value]) -> Value:
    """Emit the spec with the shape and dtype of the tensor `x`, and with `stride(k)` as the stride of axis `k`, in elements. Return a new
    reference, not held.

    The spec is interned: an equal spec is found in the table, or built. The emitted function returns null or 0 if `x` has more than
    `MAX_AXES` axes or no spec can be made.
    """
    shape, numbers = f.get_slot(f.get_slot(x, "Tensor.spec"), "Spec.shape"), new_dims(f)
    ndim = f.load_word(shape, SIZE_OFFSET)
    f.require(ndim <= MAX_AXES)

    def store_axis(k: Value) -> None:
        numbers.at(k, I64).store(f.unbox_integer(f.tuple_item(shape, k)))
        numbers.at(k + MAX_AXES, I64).store(stride(k))

    f.for_range(ndim, store_axis)
    spec = find_spec(f, f.get_slot(x, "Tensor.dtype"), ndim, numbers)
    f.transfer_held(spec)
    return spec


def _emit_replace_node(f: FunctionBuilder) -> None:
    """Emit `spread_where(node, x, key, contiguous_spec, order, spread)`: append the replacement of `node`, the next of the list `order`, to
    the list `spread`. Return true, or false on a failure.

    `x` is the updated tensor, `key` the mask, and `contiguous_spec` the spec with the shape of `x`. A masked selection is replaced by the
    node it selects from, an operation by the same operation on whole tensors.
    """
    node, x, key, contiguous_spec, order, spread = f.arguments
    f.require(_is_pending(f, node))
    sources = f.hold_borrowed(f.get_slot(node, "Node.sources"))

    def append_selected() -> Value:
        f.append_to_list(spread, f.tuple_item(sources, 1))
        f.release_held(sources)
        return f.constant(I1, True)

    held_references = list(f._held)
    f.return_if(_is_masked_selection(f, node), append_selected)
    f._held[:] = held_references
    recipe, offsets = f.hold_borrowed(f.get_slot(node, "Node.recipe")), f.hold_borrowed(f.get_slot(node, "Node.offsets"))
    shape, count = f.get_slot(f.get_slot(x, "Tensor.spec"), "Spec.shape"), f.load_word(sources, SIZE_OFFSET)
    axes = f.load_word(f.get_slot(f.get_slot(key, "Tensor.spec"), "Spec.shape"), SIZE_OFFSET)
    new_tuples = [f.require_new(f.call("PyTuple_New", POINTER, [size])) for size in (count, count + 1, count)]
    new_sources, through, new_offsets = new_tuples

    def store_source(k: Value) -> None:
        source = f.tuple_item(sources, k)
        number = _find_index(f, order, source)

        def keep_operand() -> list[Value]:
            """Emit the choice of a source from outside of the list: a scalar, or a node with equal values for each row. Return the source,
            the spec through which it is read (None for a scalar), and the offset, as new references.
            """

            def broadcast_rows() -> list[Value]:
                strides = load_operand_layout(f, recipe, k).strides

                def stride(axis: Value) -> Value:
                    load_stride = lambda: [f.unbox_integer(f.tuple_item(strides, axis - axes + 1))]
                    return f.choose(axis < axes, lambda: [f.i64(0)], load_stride)[0]

                return [_find_strided_spec(f, x, stride)]

            (operand_spec,) = f.choose(f.is_instance(source, "Node"), broadcast_rows, lambda: [f.incref(f.load_object("None"))])
            return [f.incref(source), operand_spec, f.incref(f.tuple_item(offsets, k))]

        replacement = f.choose(number < 0, keep_operand, lambda: list(_replace_operand(f, contiguous_spec, order, spread, number)))
        for items, item in zip(new_tuples, replacement, strict=True):
            f.address_at(items, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(item)

    f.for_range(count, store_source)
    f.address_at(through, TUPLE_ITEMS_OFFSET).at(count, POINTER).store(f.incref(f.load_object("None")))
    keeps_order = f.hold_owned(box_keeps_order(f, through, contiguous_spec))
    recipe_fields = [f.get_slot(recipe, f"Recipe.{name}") for name in ("op", "dtype", "dtypes")]
    new_recipe = f.require_new(
        f.call("recipe_through", POINTER, [recipe_fields[0], shape, recipe_fields[1], recipe_fields[2], through, keeps_order])
    )
    f.release_held(keeps_order, through, recipe, offsets, sources)
    f.transfer_held(new_recipe, new_sources, new_offsets)
    new_node = f.require_new(f.call("pending", POINTER, [new_recipe, new_sources, new_offsets, f.constant(I1, False)]))
    f.append_to_list(spread, new_node)
    f.release_held(new_node)
    f.emit_return(f.constant(I1, True))


def _new_pending_node(
    f: FunctionBuilder, op: str, result_types: tuple[Value, Value, Value], operands: tuple[Value, Value, Value], contiguous_spec: Value
) -> Value:
    """Emit the creation of a pending node of the operation called `op` in the object table. Return the node, which is held (see
    `FunctionBuilder.hold_owned`).

    `result_types` is the shape, dtype and operand dtypes of the operation, and `contiguous_spec` the spec of the result. `operands` is the
    tuples of sources, of specs (the target's spec last) and of offsets; their held references are consumed. The emitted function returns
    null or 0 if the recipe or the node cannot be made.
    """
    shape, dtype, dtypes = result_types
    sources, through, offsets = operands
    keeps_order = f.hold_owned(box_keeps_order(f, through, contiguous_spec))
    recipe = f.require_new(f.call("recipe_through", POINTER, [f.load_object(op), shape, dtype, dtypes, through, keeps_order]))
    f.release_held(through, keeps_order)
    f.transfer_held(recipe, sources, offsets)
    return f.require_new(f.call("pending", POINTER, [recipe, sources, offsets, f.constant(I1, False)]))


def _emit_new_where(f: FunctionBuilder) -> None:
    """Emit `chosen_where(x, key, old_node, mask, contiguous_spec, order, spread)`: return a new pending node of `where(mask, value, x)`;
    null on a failure.

    The value is the replacement, in the list `spread`, of the last node of the list `order`. `old_node` and `mask` are the nodes of the
    tensors `x` and `key`, and `contiguous_spec` is the spec of the result.
    """
    x, key, old_node, mask, contiguous_spec, order, spread = f.arguments
    spec, mask_spec, dtype = f.get_slot(x, "Tensor.spec"), f.get_slot(key, "Tensor.spec"), f.get_slot(x, "Tensor.dtype")
    strides, axes = f.get_slot(mask_spec, "Spec.strides"), f.load_word(f.get_slot(mask_spec, "Spec.shape"), SIZE_OFFSET)
    f.decline_if(f.is_object(strides, "None"))

    def stride(k: Value) -> Value:
        return f.choose(k < axes, lambda: [f.unbox_integer(f.tuple_item(strides, k))], lambda: [f.i64(0)])[0]

    mask_view_spec = f.hold_owned(_find_strided_spec(f, x, stride))
    replacement = _replace_operand(f, contiguous_spec, order, spread, f.list_length(order) - 1)
    for item in replacement:
        f.hold_owned(item)
    node, value_spec, offset = replacement
    through = f.new_tuple(mask_view_spec, value_spec, f.hold_borrowed(spec), f.hold_borrowed(f.load_object("None")))
    offsets = f.new_tuple(f.hold_borrowed(f.get_slot(key, "Tensor.offset")), offset, f.hold_borrowed(f.get_slot(x, "Tensor.offset")))
    sources = f.new_tuple(f.hold_borrowed(mask), node, f.hold_borrowed(old_node))
    dtypes = f.new_tuple(f.hold_borrowed(f.load_object("bool")), f.hold_borrowed(dtype), f.hold_borrowed(dtype))
    where_node = _new_pending_node(
        f, "op where", (f.get_slot(spec, "Spec.shape"), dtype, dtypes), (sources, through, offsets), contiguous_spec
    )
    f.release_held(dtypes)
    f.transfer_held(where_node)
    f.emit_return(where_node)


def _emit_new_update(f: FunctionBuilder) -> None:
    """Emit `update_where(x, old_node, contiguous_spec, where_node)`: return a new pending node of a write of `where_node` over all of the
    tensor `x`; null on a failure.

    `old_node` is the node of `x`, and `contiguous_spec` the spec of `where_node`.
    """
    x, old_node, contiguous_spec, where_node = f.arguments
    zero, recipe = f.load_object("0"), find_update_recipe(f, old_node, contiguous_spec, f.get_slot(x, "Tensor.spec"))
    sources = f.new_tuple(f.hold_borrowed(old_node), f.hold_borrowed(where_node))
    offsets = f.new_tuple(f.hold_borrowed(zero), f.hold_borrowed(zero), f.hold_borrowed(f.get_slot(x, "Tensor.offset")))
    f.transfer_held(recipe, sources, offsets)
    f.emit_return(f.call("pending", POINTER, [recipe, sources, offsets, f.constant(I1, False)]))


def _is_private(f: FunctionBuilder, node: Value) -> Value:
    """Emit a test whether `node` is in memory that is not externally shared, and has no tape node."""
    buffer = f.get_slot(node, "Node.buffer")
    is_not_shared = lambda: f.is_object(f.get_slot(buffer, "Buffer.externally_shared"), "0")
    in_memory = f.and_then(~f.is_object(buffer, "None"), is_not_shared)
    return f.and_then(in_memory, lambda: f.is_object(f.get_slot(node, "Node.tape_node"), "None"))


def _emit_write_masked(f: FunctionBuilder) -> None:
    """Emit `written_where(x, key, value, frame)`: do `x[key] = value` as a masked update in place. Return true, or false to decline.

    `value` is pending and made of masked selections, and `frame` is the copy descriptor of the selected rows, a bytes object. Afterwards
    `value` is a selection from the updated `x`. The function returns false, too, if Python code has changed the tensors meanwhile.
    """
    x, key, value, frame = f.arguments
    storage, value_storage = f.get_slot(x, "Tensor.storage"), f.get_slot(value, "Tensor.storage")
    dtype, spec, rows = f.get_slot(x, "Tensor.dtype"), f.get_slot(x, "Tensor.spec"), f.get_slot(value, "Tensor.spec")
    f.require(f.is_instance(f.get_slot(key, "Tensor.storage"), "Storage"))
    f.decline_if(f.is_null(rows))
    f.require(f.is_object(f.get_slot(rows, "Spec.is_contiguous"), "True"))
    for checked in (spec, rows):
        f.decline_if(f.is_object(f.get_slot(checked, "Spec.strides"), "None"))
    f.require(f.is_object(f.get_slot(value, "Tensor.offset"), "0"))
    order, spread = (f.require_new(f.call("PyList_New", POINTER, [f.i64(0)])) for _ in range(2))
    old_node = f.hold_borrowed(f.get_slot(storage, "Storage.node"))
    mask = f.hold_borrowed(f.get_slot(f.get_slot(key, "Tensor.storage"), "Storage.node"))
    f.require(_is_private(f, old_node))
    f.require(_is_private(f, mask))
    f.decline_if(mask.equals(old_node))
    root = f.get_slot(value_storage, "Storage.node")
    for checked in (old_node, root):
        f.require(f.get_slot(f.get_slot(checked, "Node.recipe"), "Recipe.dtype").equals(dtype))
    f.require(f.get_slot(value, "Tensor.dtype").equals(dtype))
    f.require(f.call("order_where", I1, [root, x, key, value, old_node, mask, order]))
    f.require(f.call("are_ours", I1, [order]))
    f.require(f.call("is_worth_it", I1, [order, f.unbox_integer(f.get_slot(spec, "Spec.size"))]))
    contiguous_spec = f.require_new(f.call("row_major_spec", POINTER, [dtype, f.get_slot(spec, "Spec.shape")]))
    f.for_range(
        f.list_length(order),
        lambda k: f.require(f.call("spread_where", I1, [f.list_item(order, k), x, key, contiguous_spec, order, spread])),
    )
    where_node = f.require_new(f.call("chosen_where", POINTER, [x, key, old_node, mask, contiguous_spec, order, spread]))
    update = f.require_new(f.call("update_where", POINTER, [x, old_node, contiguous_spec, where_node]))
    root = f.list_item(order, f.list_length(order) - 1)
    selected = f.require_new(f.call("selected_node", POINTER, [x, key, update, mask, frame, f.get_slot(root, "Node.recipe")]))
    reads = _count_reads(f, old_node, spread) + _count_reads_by(f, old_node, where_node) + _count_reads_by(f, old_node, update)
    # Python code may have run: check that nothing has changed.
    f.require(f.get_slot(storage, "Storage.node").equals(old_node))
    f.require(f.get_slot(value_storage, "Storage.node").equals(root))
    f.require(_is_private(f, old_node))
    f.require(f.call("are_ours", I1, [order]))
    f.for_range(f.list_length(order), lambda k: f.require(_is_pending(f, f.list_item(order, k))))
    f.require(is_lock_free(f))
    f.set_slot(value_storage, "Storage.node", selected)
    f.set_slot(storage, "Storage.node", f.incref(update))
    f.transfer_held(selected)
    for replaced_node in (root, old_node):  # the references of the two storages
        f.decref(replaced_node)
    value_node = f.hold_borrowed(f.get_slot(value_storage, "Storage.node"))
    f.release_held(order, spread, where_node, contiguous_spec, mask, old_node)
    note_pending(f, value_node)
    f.release_held(value_node)

    def request_computation() -> None:
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        f.require(f.is_object(f.call_python("is_computed", update), "True"))

    f.emit_if(~f.call("computed_over", I1, [update, reads, f.constant(I1, True)]), request_computation)
    f.release_held(update)
    f.emit_return(f.constant(I1, True))
