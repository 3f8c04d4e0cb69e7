"""In-place updates of a part of a storage, like `x[1:] += y`, computed by one kernel directly over the part.

Each result element depends on the element it overwrites and on an element of `y`. The operand `y` is in different memory, or pending. A
pending `y` is rewritten so as to read no overwritten memory: small sources in the overwritten memory are copied first, for example the row
and the column of an outer product. So `y` keeps its value although it stays pending.
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I64, POINTER
from ..object_layout import SIZE_OFFSET, ObjectTable
from ..sized_template import MAX_AXES
from ..update_recipes import MAX_UPDATE_BYTES, MIN_COPY_RATIO
from .assignment import compute_storage
from .function_builder import FunctionBuilder
from .graph_evaluation import DONE, NO_RECORD, request_record
from .node_evaluation import is_lock_free
from .spec_table import box_keeps_order, find_spec, has_layout_of, load_nbytes, load_operand_layout, new_dims
from .template_cache import find_cached_template, get_cache_table


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to update a part of a storage in place.

    The functions emitted include `update_part`, `run_update`, `find_update_recipe`, `find_usual_recipe`, `can_stay_pending` and
    `find_aliases`.
    """
    part_parameters = [("storage", POINTER), ("spec", POINTER), ("offset", I64), ("result", POINTER)]
    _emit_update_part(FunctionBuilder(module, objects, "update_part", [("x", POINTER), ("operand", POINTER), *part_parameters], I1))
    _emit_find_update_recipe(
        FunctionBuilder(
            module, objects, "find_update_recipe", [("x", POINTER), ("storage", POINTER), ("spec", POINTER), ("result", POINTER)]
        )
    )
    _emit_find_usual_recipe(FunctionBuilder(module, objects, "find_usual_recipe", [(name, POINTER) for name in ("x", "storage", "result")]))
    _emit_run_update(FunctionBuilder(module, objects, "run_update", [("recipe", POINTER), *part_parameters, ("may_ask", I1)], I1))
    _emit_can_stay_pending(FunctionBuilder(module, objects, "can_stay_pending", [("node", POINTER), ("storage", POINTER)], I1))
    _emit_find_aliases(FunctionBuilder(module, objects, "find_aliases", [("node", POINTER), ("old_node", POINTER)], I64))


def _emit_update_part(f: FunctionBuilder) -> None:
    """Emit `update_part(x, operand, storage, spec, offset, result)`: write `result` over the part `x` of a storage, by one kernel; return
    whether `result` was written. `replace_elements` calls the function.

    `result` is the pending tensor `op(x, operand)`; `operand` is a tensor or a number. The tensor `x` has `storage`, `spec` and `offset`
    (in elements). The storage is evaluated first, and so is `operand` unless it may stay pending (`can_stay_pending`). After false without
    an error, nothing is written, and the caller may write in another way.
    """
    x, operand, storage, spec, offset, result = f.arguments
    compute_storage(f, storage)
    recipe = f.require_new(f.call("find_update_recipe", POINTER, [x, storage, spec, result]))
    operand_storage = f.get_slot(operand, "Tensor.storage")

    def prepare_operand() -> None:
        node = f.hold_borrowed(f.get_slot(operand_storage, "Storage.node"))
        f.require(f.is_object(f.get_slot(node, "Node.tape_node"), "None"))

        def compute() -> None:
            f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
            f.require(f.call("compute_node", I1, [node]))

        is_pending = f.is_object(f.get_slot(node, "Node.buffer"), "None")
        f.emit_if(is_pending, lambda: f.emit_if(~f.call("can_stay_pending", I1, [node, storage]), compute))
        f.release_held(node)

    f.emit_if(f.and_then(f.is_instance(operand, "Tensor"), lambda: f.is_instance(operand_storage, "Storage")), prepare_operand)
    success = f.call("run_update", I1, [recipe, storage, spec, offset, result, f.constant(I1, True)])
    f.release_held(recipe)
    f.emit_return(success)


def _emit_find_update_recipe(f: FunctionBuilder) -> None:
    """Emit `find_update_recipe(x, storage, spec, result)`: return the recipe of the write of `result` over the part `x`, as a new
    reference. `update_part` calls the function.

    The tensor `x` has `storage` and `spec`. On a cache miss, `find_usual_recipe` makes the recipe, or Python code
    (`update_recipes.record_update`) stores it. The function returns null if the update is impossible, or if `result` does not read the
    storage exactly once, at the offset of `x`.
    """
    x, storage, spec, result = f.arguments
    result_storage = f.get_slot(result, "Tensor.storage")
    f.require(f.is_instance(result_storage, "Storage"))
    f.require(
        _has_single_read(
            f,
            f.get_slot(result_storage, "Storage.node"),
            f.get_slot(storage, "Storage.node"),
            f.unbox_integer(f.get_slot(x, "Tensor.offset")),
        )
    )
    size = f.hold_borrowed(f.get_slot(f.get_slot(f.get_slot(storage, "Storage.node"), "Node.recipe"), "Recipe.size"))
    key = f.new_tuple(f.incref(f.get_slot(f.get_slot(result_storage, "Storage.node"), "Node.recipe")), size)

    def look_up_recipe() -> Value:
        template = find_cached_template(f, get_cache_table(f, spec, "call_templates"), f.load_object("'update_part'"), key)
        return f.choose(f.is_null(template), lambda: [f.null()], lambda: [f.get_slot(template, "RecipeTemplate.recipe")])[0]

    find_usual_recipe = lambda: f.call("find_usual_recipe", POINTER, [x, storage, result])
    recipe = f.hold_owned(f.look_up_or_make(look_up_recipe, find_usual_recipe, lambda: f.call_python("record_update", x, result)))
    f.decline_if(f.is_object(recipe, "None"))
    f.release_held(key)
    f.transfer_held(recipe)
    f.emit_return(recipe)


def _emit_find_usual_recipe(f: FunctionBuilder) -> None:
    """Emit `find_usual_recipe(x, storage, result)`: return the recipe that writes `result` over the part `x` of `storage`, for
    `find_update_recipe`.

    The recipe is a new reference, cached or made (`find_recipe`). The function returns null unless all of this holds:

    - `result` is pending and contiguous at offset 0. Its recipe is elementwise and cacheable.
    - `result` has the shape of `x`. Both have the dtype of the storage's node.
    - `result` reads the storage only through the layout of `x`, at any offset.
    - `x` has at most `MAX_UPDATE_BYTES` bytes, and no element twice.

    After null, Python code (`update_recipes.record_update`) examines the operands.
    """
    x, storage, result = f.arguments
    spec, result_spec = f.hold_borrowed(f.get_slot(x, "Tensor.spec")), f.hold_borrowed(f.get_slot(result, "Tensor.spec"))
    old_node, value = f.get_slot(storage, "Storage.node"), f.get_slot(f.get_slot(result, "Tensor.storage"), "Storage.node")
    recipe, old_recipe, dtype = f.get_slot(value, "Node.recipe"), f.get_slot(old_node, "Node.recipe"), f.get_slot(spec, "Spec.dtype")
    f.require(f.is_object(f.get_slot(value, "Node.buffer"), "None"))
    f.require(f.is_instance(f.get_slot(recipe, "Recipe.op"), "Op"))
    f.require(f.is_object(f.get_slot(recipe, "Recipe.is_uncacheable"), "False"))
    for value_dtype in (f.get_slot(recipe, "Recipe.dtype"), f.get_slot(old_recipe, "Recipe.dtype"), f.get_slot(result_spec, "Spec.dtype")):
        f.require(value_dtype.equals(dtype))
    for checked_spec in (result_spec, spec):
        f.require(f.call("are_equal_tuples", I1, [f.get_slot(recipe, "Recipe.shape"), f.get_slot(checked_spec, "Spec.shape")]))
    f.require(f.is_object(f.get_slot(result_spec, "Spec.is_contiguous"), "True"))
    f.require(f.is_object(f.get_slot(result, "Tensor.offset"), "0"))
    f.require(load_nbytes(f, spec) <= MAX_UPDATE_BYTES)
    f.require(f.call("is_injective", I1, [spec]))
    sources = f.get_slot(value, "Node.sources")

    def check_source(k: Value) -> None:
        f.emit_if(f.tuple_item(sources, k).equals(old_node), lambda: f.require(has_layout_of(f, load_operand_layout(f, recipe, k), spec)))

    f.for_range(f.load_word(sources, SIZE_OFFSET), check_source)
    update_recipe = build_update_recipe(f, old_node, result_spec, spec)
    f.release_held(spec, result_spec)
    f.transfer_held(update_recipe)
    f.emit_return(update_recipe)


def build_update_recipe(f: FunctionBuilder, old_node: Value, value_spec: Value, spec: Value) -> Value:
    """Emit the making of the recipe of an in-place update, a node that writes over the view with the spec `spec` of the node `old_node`.
    `value_spec` is the spec of the value written.

    Return the recipe, which is held (see `FunctionBuilder.hold_owned`). Python code may run. The emitted function returns null or 0 if the
    recipe cannot be made.
    """
    size, dtype = f.hold_borrowed(f.get_slot(f.get_slot(old_node, "Node.recipe"), "Recipe.size")), f.get_slot(spec, "Spec.dtype")
    dims, constant_one = new_dims(f), f.i64(1)
    dims.store(f.unbox_integer(size))
    dims.at(MAX_AXES, I64).store(constant_one)
    flat_spec = find_spec(f, dtype, constant_one, dims)
    packed_specs = f.new_tuple(f.hold_borrowed(flat_spec), f.hold_borrowed(value_spec), f.hold_borrowed(spec))
    shape, dtypes = f.new_tuple(size), f.new_tuple(f.hold_borrowed(dtype), f.hold_borrowed(dtype))
    keeps_order = f.hold_owned(box_keeps_order(f, packed_specs, flat_spec))
    recipe = f.require_new(f.call("find_recipe", POINTER, [f.load_object("UPDATE"), shape, dtype, dtypes, packed_specs, keeps_order]))
    f.release_held(flat_spec, packed_specs, shape, dtypes, keeps_order)
    return recipe


def _emit_run_update(f: FunctionBuilder) -> None:
    """Emit `run_update(recipe, storage, spec, offset, result, may_ask)`: write `result`, pending, over a part of `storage` by one kernel;
    return whether `result` was written. `update_part` calls the function.

    `recipe` is the recipe of the update. The part is given by `spec` and `offset`, in elements. The storage must be in memory, and only
    `result` may read the storage's node, once and at `offset`. Neither may have a tape node. Otherwise the function returns false. If the
    launch record is missing and `may_ask` is true, the function asks Python code to build the record and tries once more.
    """
    recipe, storage, spec, offset, result, may_ask = f.arguments
    value = f.hold_borrowed(f.get_slot(f.get_slot(result, "Tensor.storage"), "Storage.node"))
    f.require(f.is_object(f.get_slot(value, "Node.buffer"), "None"))
    old_node = f.get_slot(storage, "Storage.node")
    f.decline_if(f.is_object(f.get_slot(old_node, "Node.buffer"), "None"))
    f.require(f.is_object(f.get_slot(old_node, "Node.tape_node"), "None"))
    f.require(f.is_object(f.get_slot(value, "Node.tape_node"), "None"))
    f.require(_has_single_read(f, value, old_node, offset))
    sources = f.new_tuple(f.hold_borrowed(old_node), f.hold_borrowed(value))
    zero = f.load_object("0")
    offsets = f.new_tuple(f.incref(zero), f.incref(zero), f.box_integer(offset))
    f.transfer_held(sources, offsets)
    node = f.require_new(f.call("new_user_node", POINTER, [f.incref(recipe), sources, offsets, f.constant(I1, False)]))
    old_node = f.get_slot(storage, "Storage.node")  # read again: Python code may have run
    buffer = f.get_slot(old_node, "Node.buffer")
    f.require(old_node.equals(f.tuple_item(f.get_slot(node, "Node.sources"), 0)))
    # `old_node` is referenced by the storage, by `value` and by the update; `value` by the storage of `result`, by the update and by this
    # function.
    f.require(f.load_refcount(old_node).equals(3))
    f.require(f.load_refcount(value).equals(3))
    status = return_if_done_in_place(f, node, buffer, node, value)
    f.require(f.and_then(may_ask, lambda: status.equals(NO_RECORD)))
    request_record(f, "store_update_record", node)
    f.release_held(node, value)
    f.emit_return(f.call("run_update", I1, [recipe, storage, spec, offset, result, f.constant(I1, False)]))


def return_if_done_in_place(f: FunctionBuilder, node: Value, buffer: Value, *held: Value) -> Value:
    """Emit the launch of the kernel of `node`, a pending in-place update, on `buffer`, the buffer that it overwrites. On success, the
    emitted function releases the held references `held`, and returns true.

    The emitted function returns false without a launch if `buffer` has another reference or is read-only, or if another thread holds the
    lock of the runtime. After a launch without success, the emitted code goes on, and `held` stay held. Return the status of the launch,
    for example `NO_RECORD` (`run_graph`).
    """
    f.require(f.has_one_reference(buffer))
    f.require(f.is_object(f.get_slot(buffer, "Buffer.is_read_only"), "False"))
    f.require(is_lock_free(f))
    f.hold_borrowed(buffer)
    status = f.call("run_graph", I64, [node, buffer, f.load_object("update_records")])

    def return_success() -> Value:
        f.transfer_held(buffer)  # the update owns it now
        f.release_held(*held)
        return f.constant(I1, True)

    held_references = list(f._held)
    f.return_if(status.equals(DONE), return_success)
    f._held[:] = held_references
    f.release_held(buffer)
    return status


def _has_single_read(f: FunctionBuilder, value: Value, old_node: Value, offset: Value) -> Value:
    """Emit a test whether the pending node `value` reads `old_node` exactly once, and at `offset`, in elements. Return the
    result, an `i1`.
    """
    sources, offsets = f.get_slot(value, "Node.sources"), f.get_slot(value, "Node.offsets")

    def count_read(k: Value, read_count: Value) -> Value:
        reads_old = f.tuple_item(sources, k).equals(old_node)
        weigh_read = lambda: [f.select_value(f.unbox_integer(f.tuple_item(offsets, k)).equals(offset), f.i64(1), f.i64(2))]
        return read_count + f.choose(reads_old, weigh_read, lambda: [f.i64(0)])[0]

    return f.fold_range(f.load_word(sources, SIZE_OFFSET), f.i64(0), count_read).equals(1)


def _emit_can_stay_pending(f: FunctionBuilder) -> None:
    """Emit `can_stay_pending(node, storage)`: return whether the pending `node`, an operand of an update, may stay pending while the
    storage is overwritten.

    The operation of `node` must be cheap (`CHEAP_OP_NAMES`). Pending sources are evaluated first, and must be at least `MIN_COPY_RATIO`
    times smaller than `node` and have no tape node. Sources in the memory of the storage are replaced by copies. The result is also false
    if an evaluation or a copy fails, or if `node` is no longer pending. `update_part` calls the function.
    """
    node, storage = f.arguments
    element_count, sources = (
        f.unbox_integer(f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.size")),
        f.hold_borrowed(f.get_slot(node, "Node.sources")),
    )

    def compute(k: Value) -> None:
        """Emit the evaluation of source `k` if the source is small and pending, and an early exit for a large pending source."""
        source = f.tuple_item(sources, k)

        def compute_small() -> None:
            f.require(f.unbox_integer(f.get_slot(f.get_slot(source, "Node.recipe"), "Recipe.size")) * MIN_COPY_RATIO <= element_count)
            f.require(f.is_object(f.get_slot(source, "Node.tape_node"), "None"))
            f.require(f.call("compute_node", I1, [source]))

        f.emit_if(f.and_then(f.is_instance(source, "Node"), lambda: f.is_object(f.get_slot(source, "Node.buffer"), "None")), compute_small)

    f.for_range(f.load_word(sources, SIZE_OFFSET), compute)
    f.release_held(sources)
    f.require(f.is_object(f.get_slot(node, "Node.buffer"), "None"))
    old_node = f.hold_borrowed(f.get_slot(storage, "Storage.node"))
    alias_mask = f.call("find_aliases", I64, [node, old_node])
    f.require(f.call("copy_sources", I1, [node, alias_mask]))
    f.release_held(old_node)
    f.emit_return(f.constant(I1, True))


def _emit_find_aliases(f: FunctionBuilder) -> None:
    """Emit `find_aliases(node, old_node)`: return a bit mask, an `i64`: bit k is set if source k of the pending `node` shares the buffer of
    `old_node`. `can_stay_pending` calls the function.
    """
    node, old_node = f.arguments
    sources, buffer = f.get_slot(node, "Node.sources"), f.get_slot(old_node, "Node.buffer")

    def add_source(k: Value, mask: Value) -> Value:
        source = f.tuple_item(sources, k)
        is_alias = f.and_then(f.is_instance(source, "Node"), lambda: f.get_slot(source, "Node.buffer").equals(buffer))
        return mask | (is_alias.cast("zext", I64) << k)

    f.emit_return(f.fold_range(f.load_word(sources, SIZE_OFFSET), f.i64(0), add_source))
