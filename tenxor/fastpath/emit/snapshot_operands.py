"""Copies of small operands of a pending node, made before an in-place update overwrites the memory of the operands.

A pending node may read a part about to be overwritten, as an outer product reads a row and a column. The node is then given copies of such
operands. Its value stays the same, and it no longer reads the overwritten memory.
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I64, POINTER
from ..object_layout import SIZE_OFFSET, TUPLE_ITEMS_OFFSET, ObjectTable
from ..sized_template import MAX_AXES
from ..update_recipes import CHEAP_OP_NAMES, MIN_COPY_RATIO
from .function_builder import FunctionBuilder
from .node_evaluation import is_lock_free
from .spec_table import box_keeps_order, find_spec, load_operand_spec, new_dims, store_dense_strides


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to copy small operands of a pending node before a write.

    The functions emitted include `build_copy_recipe`, `build_copying_variant` and `copy_sources`.
    """
    _emit_build_copy_recipe(FunctionBuilder(module, objects, "build_copy_recipe", [("spec", POINTER), ("dtype", POINTER), ("size", I64)]))
    _emit_build_copying_variant(FunctionBuilder(module, objects, "build_copying_variant", [("recipe", POINTER), ("source_mask", I64)]))
    _emit_copy_sources(FunctionBuilder(module, objects, "copy_sources", [("node", POINTER), ("source_mask", I64)], I1))


def _emit_build_copying_variant(f: FunctionBuilder) -> None:
    """Emit `build_copying_variant(recipe, source_mask)`: return a new pair for nodes with the recipe `recipe`: the recipe that reads copies
    of some sources instead, and a tuple of the recipes that make the copies.

    Bit k of `source_mask` is set if source k is to be copied; the tuple has None for a source read directly.
    `update_recipes.record_copying_variant` records the same in Python. The function returns null for an operation outside `CHEAP_OP_NAMES`,
    for a recipe without packed specs, for sources not much smaller than the node, and for view chains and offset tables. `copy_sources`
    calls the function.
    """
    recipe, source_mask = f.arguments
    op, sizes = f.get_slot(recipe, "Recipe.op"), f.get_slot(recipe, "Recipe.shape")
    cheap = f.constant(I1, False)
    for name in CHEAP_OP_NAMES:
        cheap = cheap | f.is_object(op, f"op {name}")
    f.require(cheap)
    f.decline_if(f.is_null(f.get_slot(recipe, "Recipe.packed_specs")))
    dtypes = f.get_slot(recipe, "Recipe.dtypes")
    count = f.load_word(dtypes, SIZE_OFFSET)
    f.require(f.is_object(load_operand_spec(f, recipe, count), "None"))
    copies, packed_specs = (
        f.require_new(f.call("PyTuple_New", POINTER, [count])),
        f.require_new(f.call("PyTuple_New", POINTER, [count + 1])),
    )

    def build_source(k: Value) -> None:
        spec = load_operand_spec(f, recipe, k)
        stays = f.or_else(f.is_object(spec, "None"), lambda: (source_mask.logical_shift_right(k) & 1).equals(0))

        def build_copy() -> list[Value]:
            pair = f.require_new(
                f.call("build_copy_recipe", POINTER, [spec, f.tuple_item(dtypes, k), f.unbox_integer(f.get_slot(recipe, "Recipe.size"))])
            )
            copy_and_spec = [f.incref(f.tuple_item(pair, j)) for j in range(2)]
            f.release_held(pair)
            return copy_and_spec

        copy_and_spec = f.choose(stays, lambda: [f.incref(f.load_object("None")), f.incref(spec)], build_copy)
        for items, item in zip((copies, packed_specs), copy_and_spec, strict=True):
            f.address_at(items, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(item)

    f.for_range(count, build_source)
    f.address_at(packed_specs, TUPLE_ITEMS_OFFSET).at(count, POINTER).store(f.incref(f.load_object("None")))
    plain = f.require_new(f.call("find_dense_spec", POINTER, [f.get_slot(recipe, "Recipe.dtype"), sizes]))
    keeps = f.hold_owned(box_keeps_order(f, packed_specs, plain))
    variant_recipe = f.require_new(
        f.call("find_recipe", POINTER, [op, sizes, f.get_slot(recipe, "Recipe.dtype"), dtypes, packed_specs, keeps])
    )
    f.release_held(plain, keeps, packed_specs)
    variant = f.new_tuple(variant_recipe, copies)
    f.transfer_held(variant)
    f.emit_return(variant)


def _emit_build_copy_recipe(f: FunctionBuilder) -> None:
    """Emit `build_copy_recipe(spec, dtype, size)`: return a new pair: the recipe that makes a contiguous copy of a view, and the spec
    through which a node reads the copy in place of the view.

    `spec` is the view, read as `dtype`. The copy leaves out broadcast repeats. `build_copying_variant` calls the function. The function
    returns null for view chains, offset tables and more than `MAX_AXES` axes, and unless the copy has at most 1 / `MIN_COPY_RATIO` of
    `size` elements.
    """
    spec, dtype, size = f.arguments
    shape, strides = f.get_slot(spec, "Spec.shape"), f.get_slot(spec, "Spec.strides")
    f.decline_if(f.is_object(strides, "None"))
    ndim, read_dims, copy_dims = f.load_word(shape, SIZE_OFFSET), new_dims(f), new_dims(f)

    def add_axis(k: Value, element_count: Value) -> Value:
        n, step = f.unbox_integer(f.tuple_item(shape, k)), f.unbox_integer(f.tuple_item(strides, k))
        extent = f.select_value(step.equals(0) & (n > 1), f.i64(1), n)
        read_dims.at(k, I64).store(extent)
        read_dims.at(k + MAX_AXES, I64).store(step)
        copy_dims.at(k, I64).store(extent)
        return element_count * extent

    f.require(ndim <= MAX_AXES)
    f.require(f.fold_range(ndim, f.i64(1), add_axis) * MIN_COPY_RATIO <= size)
    store_dense_strides(f, ndim, copy_dims)
    plain = find_spec(f, dtype, ndim, copy_dims)

    def restore_repeats(k: Value) -> None:
        n = f.unbox_integer(f.tuple_item(shape, k))
        is_repeated = copy_dims.at(k, I64).load(I64).differs(n)
        f.emit_if(is_repeated, lambda: copy_dims.at(k + MAX_AXES, I64).store(f.i64(0)))
        copy_dims.at(k, I64).store(n)

    f.for_range(ndim, restore_repeats)
    repeated_spec = find_spec(f, dtype, ndim, copy_dims)
    packed_specs, dtypes = (
        f.new_tuple(find_spec(f, dtype, ndim, read_dims), f.hold_borrowed(f.load_object("None"))),
        f.new_tuple(f.hold_borrowed(dtype)),
    )
    keeps = f.hold_owned(box_keeps_order(f, packed_specs, plain))
    recipe_arguments = [f.load_object("op positive"), f.get_slot(plain, "Spec.shape"), dtype, dtypes, packed_specs, keeps]
    copy = f.require_new(f.call("find_recipe", POINTER, recipe_arguments))
    f.release_held(plain, packed_specs, dtypes, keeps)
    pair = f.new_tuple(copy, repeated_spec)
    f.transfer_held(pair)
    f.emit_return(pair)


def _find_copying_variant(f: FunctionBuilder, node: Value, recipe: Value, source_mask: Value, number: Value) -> Value:
    """Emit the lookup of the pair that `build_copying_variant` makes, for the pending `node`: the recipe with copied sources, and the
    recipes of the copies. Return a new reference, not held. The emitted function returns null or 0 if the pair cannot be made.

    `recipe` is the recipe of `node`. Bit k of `source_mask`, an `i64`, is set if source k is to be copied; `number` is `source_mask` as a
    Python integer. The pair is in a cache of `recipe`, or is made now, here or by Python. The empty bytes object, `never` in the object
    table, stands for a node that must not get copies.
    """

    def look_up() -> Value:
        variants = f.get_slot(recipe, "Recipe.copying_variants")
        return f.choose(f.is_object(variants, "None"), lambda: [f.null()], lambda: [f.look_up(variants, number)])[0]

    build_variant = lambda: f.call("build_copying_variant", POINTER, [recipe, source_mask])
    return f.look_up_or_make(look_up, build_variant, lambda: f.call_python("record_copying_variant", node, number))


def _emit_copy_sources(f: FunctionBuilder) -> None:
    """Emit `copy_sources(node, source_mask)`: have the pending node `node` read copies of its sources k with bit k in `source_mask`, an
    `i64`. `can_stay_pending` calls the function. Return true, or false, without a change of the node, to decline.

    The value of the node does not change. The function declines if copies may not pay, or if the node has other references than from its
    tensor, from the result made of it, and from the caller. With a mask of 0, it only tells whether copies may pay.
    """
    node, source_mask = f.arguments
    recipe = f.hold_borrowed(f.get_slot(node, "Node.recipe"))
    number = f.box_integer(source_mask)
    variant = f.hold_owned(_find_copying_variant(f, node, recipe, source_mask, number))
    f.decline_if(f.is_object(variant, "NO_LAUNCH_RECORD"))

    def release_all() -> Value:
        f.release_held(recipe, number, variant)
        return f.constant(I1, True)

    held = list(f._held)
    f.return_if(source_mask.equals(0), release_all)
    f._held[:] = held
    copies = f.tuple_item(variant, 1)
    sources, offsets = f.hold_borrowed(f.get_slot(node, "Node.sources")), f.hold_borrowed(f.get_slot(node, "Node.offsets"))
    count = f.load_word(sources, SIZE_OFFSET)
    new_sources, new_offsets = (f.require_new(f.call("PyTuple_New", POINTER, [count])) for _ in range(2))

    def copy_source(k: Value) -> None:
        copy, source, offset = f.tuple_item(copies, k), f.tuple_item(sources, k), f.tuple_item(offsets, k)

        def compute_copy() -> list[Value]:
            copy_operands = f.new_tuple(f.incref(source)), f.new_tuple(f.incref(offset))
            f.transfer_held(*copy_operands)
            copy_node = f.require_new(f.call("new_user_node", POINTER, [f.incref(copy), *copy_operands, f.constant(I1, False)]))
            f.require(f.call("compute_node", I1, [copy_node]))
            f.transfer_held(copy_node)
            return [copy_node, f.incref(f.load_object("0"))]

        new_source, new_offset = f.choose(f.is_object(copy, "None"), lambda: [f.incref(source), f.incref(offset)], compute_copy)
        for items, item in ((new_sources, new_source), (new_offsets, new_offset)):
            f.address_at(items, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(item)

    f.for_range(count, copy_source)
    # Python may have run, so test again that the node is as before, with three references: the tensor, the result made of it, the caller.
    f.require(f.is_object(f.get_slot(node, "Node.buffer"), "None"))
    f.require(f.get_slot(node, "Node.recipe").equals(recipe))
    f.require(f.get_slot(node, "Node.sources").equals(sources))
    f.require(f.load_refcount(node).equals(3))
    f.require(is_lock_free(f))
    old_values = [f.get_slot(node, f"Node.{slot}") for slot in ("recipe", "sources", "offsets", "_layouts")]
    for slot, value in (
        ("recipe", f.incref(f.tuple_item(variant, 0))),
        ("sources", new_sources),
        ("offsets", new_offsets),
        ("_layouts", f.incref(f.load_object("None"))),
    ):
        f.set_slot(node, f"Node.{slot}", value)
    f.transfer_held(new_sources, new_offsets)
    for x in old_values:
        f.decref(x)
    f.release_held(recipe, number, variant, sources, offsets)
    f.emit_return(f.constant(I1, True))
