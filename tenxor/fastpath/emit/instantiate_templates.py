"""Sized templates (`SizedTemplate`), here called rules: from one rule emitted code makes the result templates, recipes and launch records
of tensors of new sizes. The size program of a rule gives the numbers; a cursor is the address of a pointer to the next of these. A rule is
found by the signature of a call (`call_signatures.py`).
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import DOUBLE, I1, I32, I64, POINTER, Type, array
from ...graph.node import MAX_RECIPES
from ..launch_records import MAX_LAUNCH_RECORDS
from ..object_layout import BYTES_CONTENT_OFFSET, FLOAT_VALUE_OFFSET, SIZE_OFFSET, TUPLE_ITEMS_OFFSET, ObjectTable
from ..sized_template import DIRECT_CALL_RECORD, MAX_AXES, MAX_RESULTS, MAX_SPECS, RESULT_RECORD, VARIANTS
from . import call_signatures
from .function_builder import FunctionBuilder
from .size_eval import load_next_word, skip_words, unbox_dims
from .spec_table import load_nbytes, new_dims, store_dense_strides, unbox_tuple

MAX_ELEMENTS = 1 << 58  # elements; the byte count of so many elements fits a signed 64-bit integer
STEP_ITEMS = 7  # items of a step of a rule
_RECIPE_FIELDS = ("op", "shape", "dtype", "dtypes", "packed_specs", "keeps_order")


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to make templates, recipes and launch records for new sizes by a rule."""

    def pointers(*names: str) -> list[tuple[str, Type]]:
        return [(name, POINTER) for name in names]

    _emit_find_data_recipe(FunctionBuilder(module, objects, "find_data_recipe", [("spec", POINTER)]))
    _emit_store_data_recipe(FunctionBuilder(module, objects, "store_data_recipe", pointers("dtype", "shape", "recipe")))
    entry_parameters = [("self", POINTER), ("args", POINTER), ("count", I64)]
    _emit_python_data_recipe(FunctionBuilder(module, objects, "python_data_recipe", entry_parameters, is_exported=True))
    recipe_parameters = pointers("op", "spec", "dtypes", "packed_specs", "spec_indices", "keeps_order", "residuals")
    _emit_instantiate_recipe(FunctionBuilder(module, objects, "instantiate_recipe", recipe_parameters))
    _emit_find_recipe(FunctionBuilder(module, objects, "find_recipe", pointers(*_RECIPE_FIELDS)))
    _emit_next_spec(FunctionBuilder(module, objects, "next_spec", [("dtype", POINTER), ("ndim", I64), ("cursor", POINTER)]))
    _emit_next_tuple(FunctionBuilder(module, objects, "next_tuple", [("count", I64), ("cursor", POINTER)]))
    _emit_instantiate_sources(FunctionBuilder(module, objects, "instantiate_sources", [("sources", POINTER), ("cursor", POINTER)]))
    _emit_instantiate_step(FunctionBuilder(module, objects, "instantiate_step", [("step", POINTER), ("specs", POINTER)]))
    _emit_instantiate_operands(FunctionBuilder(module, objects, "instantiate_operands", pointers("pattern", "cursor")))
    _emit_instantiate_record(FunctionBuilder(module, objects, "instantiate_record", pointers("base_record", "positions", "cursor")))
    _emit_store_record(FunctionBuilder(module, objects, "store_record", pointers("recipe", "product", "record", "plan"), I1))
    _emit_instantiate_element(FunctionBuilder(module, objects, "instantiate_element", pointers("element", "cursor", "specs")))
    _emit_build_template(FunctionBuilder(module, objects, "build_template", pointers("rule", "cursor", "specs")))
    _emit_instantiate_template(FunctionBuilder(module, objects, "instantiate_template", pointers("rule", "results", "operand_specs")))
    _emit_match_signature(FunctionBuilder(module, objects, "match_signature", []))
    cache_parameters = [("spec", POINTER), ("slot", I64), ("name", POINTER), ("other_key", POINTER)]
    _emit_instantiate_cached(FunctionBuilder(module, objects, "instantiate_cached", cache_parameters))
    call_parameters = [*cache_parameters, ("arguments", POINTER), ("count", I64), ("names", POINTER), ("tape_mask", I64)]
    _emit_instantiate_call(FunctionBuilder(module, objects, "instantiate_call", call_parameters))
    _emit_instantiate_for_dims(FunctionBuilder(module, objects, "instantiate_for_dims", pointers("rule", "dims", "specs")))
    _emit_python_instantiate(
        FunctionBuilder(module, objects, "python_instantiate", [("self", POINTER), ("args", POINTER), ("count", I64)], is_exported=True)
    )


def _emit_instantiate_recipe(f: FunctionBuilder) -> None:
    """Emit `instantiate_recipe(op, spec, dtypes, packed_specs, spec_indices, keeps_order, residuals)`: return a new recipe that no cache
    holds, a new reference; null if memory runs out. The result of the recipe is contiguous, with shape and dtype of `spec`. `packed_specs`,
    the specs by which sources are read, becomes the slot `Recipe.packed_specs`; `op`, `dtypes`, `spec_indices`, `keeps_order` and
    `residuals` become the slots of their names."""
    op, spec, dtypes, packed_specs, spec_indices, keeps_order, residuals = f.arguments
    data_recipe = find_data_recipe(f, spec)
    result_fields = {slot: f.get_slot(data_recipe, f"Recipe.{slot}") for slot in ("shape", "dtype", "size", "nbytes")}
    operation_fields = {
        "op": op,
        "dtypes": dtypes,
        "packed_specs": packed_specs,
        "spec_indices": spec_indices,
        "keeps_order": keeps_order,
        "residuals": residuals,
    }
    recipe = f.new_instance("Recipe", _data_recipe=data_recipe)
    for slot, x in {
        **result_fields,
        **operation_fields,
        "is_uncacheable": f.load_object("False"),
        **dict.fromkeys(("launch_record", "sum_launch_records", "copying_variants"), f.load_object("None")),
    }.items():
        f.set_slot(recipe, f"Recipe.{slot}", f.incref(x))
    f.transfer_held(recipe)
    f.emit_return(recipe)


def _emit_find_recipe(f: FunctionBuilder) -> None:
    """Emit `find_recipe(op, shape, dtype, dtypes, packed_specs, keeps_order)`: return a recipe with a contiguous result, a new reference;
    null, mostly with an error set, if the recipe cannot be made.

    The recipe is looked up in `_fast_path_recipes` (`graph/spec.py`) by all arguments but `keeps_order`, or made and cached there; it is
    not interned. `packed_specs` is a tuple: the spec of each source or None, then the spec through which the result is written, or None.
    `keeps_order`, True or False, becomes `Recipe.keeps_order` (see `box_keeps_order`), and must follow from the others. A full cache is
    cleared first, with all result templates."""
    recipes = f.load_object("fast_path_recipes")
    op, shape, dtype, dtypes, packed_specs, keeps_order = f.arguments
    key = f.new_tuple(*[f.incref(x) for x in (op, shape, dtype, dtypes, packed_specs)])
    f.return_if_cached(recipes, key)
    f.emit_if(f.call("PyDict_Size", I64, [recipes]) >= MAX_RECIPES, lambda: f.call_python("clear_templates"))
    row_major_spec = f.require_new(f.call("find_dense_spec", POINTER, [dtype, shape]))
    fields = [op, row_major_spec, dtypes, packed_specs, f.load_object("()"), keeps_order, f.load_object("None")]
    recipe = f.require_new(f.call("instantiate_recipe", POINTER, fields))
    f.release_held(row_major_spec)
    f.require(f.call("PyDict_SetItem", I32, [recipes, key, recipe]).equals(0))
    f.untrack(key)
    f.release_held(key)
    f.transfer_held(recipe)
    f.emit_return(recipe)


def _emit_next_spec(f: FunctionBuilder) -> None:
    """Emit `next_spec(dtype, ndim, cursor)`: return the interned spec of a dtype with the next `2 * ndim` integers as shape and strides.
    The reference is new; null if memory runs out. `cursor` is the address of a pointer to the next 64-bit integer; the pointer is advanced.
    """
    dtype, ndim, cursor = f.arguments
    words, dims = skip_words(cursor, ndim * 2), new_dims(f)

    def store_axis(k: Value) -> None:
        dims.at(k, I64).store(words.at(k, I64).load(I64))
        dims.at(k + MAX_AXES, I64).store(words.at(k + ndim, I64).load(I64))

    f.for_range(ndim, store_axis)
    f.emit_return(f.call("find_spec", POINTER, [dtype, ndim, dims]))


def _emit_next_tuple(f: FunctionBuilder) -> None:
    """Emit `next_tuple(count, cursor)`: return a tuple of the next `count` integers, a new reference, and advance the pointer at the
    address `cursor`. Most tuples are zeros, so `(0,)` and `(0, 0)` are shared objects. Return null if memory runs out."""
    count, cursor = f.arguments
    words = skip_words(cursor, count)
    for name, size in (("(0,)", 1), ("(0, 0)", 2)):

        def are_zeros(size: int = size) -> Value:
            combined = words.load(I64)
            for k in range(1, size):
                combined = combined | words.at(k, I64).load(I64)
            return combined.equals(0)

        f.return_if(f.and_then(count.equals(size), are_zeros), lambda name=name: f.incref(f.load_object(name)))  # type: ignore[misc]
    f.emit_return(f.call("box_integers", POINTER, [words, count]))


def _emit_instantiate_sources(f: FunctionBuilder) -> None:
    """Emit `instantiate_sources(sources, cursor)`: return the tuple `sources` of a step with the missing scalars filled in, a new
    reference. A dtype stands for a scalar of this dtype, the next integer at the pointer `cursor`. A pair `(dtype, dividend)` stands for
    the dividend divided by the next integer. Nodes, scalars and numbers of sources stay. Return null if memory runs out."""
    sources, cursor = f.arguments

    def is_number(k: Value) -> Value:
        item = f.tuple_item(sources, k)
        return f.is_instance(item, "DType") | f.is_instance(item, "tuple")

    def instantiate_source(k: Value) -> Value:
        item = f.tuple_item(sources, k)

        def build_scalar() -> list[Value]:
            word, is_pair = load_next_word(cursor), f.is_instance(item, "tuple")
            (dtype,) = f.choose(is_pair, lambda: [f.tuple_item(item, 0)], lambda: [item])
            as_double = word.cast("sitofp", DOUBLE)

            def as_float() -> list[Value]:
                divided = lambda: [f.address_at(f.tuple_item(item, 1), FLOAT_VALUE_OFFSET).load(DOUBLE) / as_double]
                return [f.call("PyFloat_FromDouble", POINTER, f.choose(is_pair, divided, lambda: [as_double]))]

            as_int = lambda: [f.call("PyLong_FromLongLong", POINTER, [word])]
            value = f.require_new(f.choose(f.is_instance(f.get_slot(dtype, "DType.lowest"), "int"), as_int, as_float)[0])
            scalar = f.new_instance("Scalar", value=value, dtype=f.incref(dtype))
            f.transfer_held(scalar)
            return [scalar]

        return f.choose(is_number(k), build_scalar, lambda: [f.incref(item)])[0]

    has_any = f.fold_range(f.load_word(sources, SIZE_OFFSET), f.i64(0), lambda k, has_number: has_number | is_number(k).cast("zext", I64))
    f.return_if(has_any.equals(0), lambda: f.incref(sources))
    new_sources = f.build_tuple(f.load_word(sources, SIZE_OFFSET), instantiate_source)
    f.untrack(new_sources)
    f.transfer_held(new_sources)
    f.emit_return(new_sources)


def _emit_instantiate_step(f: FunctionBuilder) -> None:
    """Emit `instantiate_step(step, specs)`: return a new recipe for `step`, an item of `SizedTemplate.steps`; null if memory runs out.
    `specs` is the array of specs that the step refers to by index: those of the operands, then new ones."""
    step, specs = f.arguments
    op, dtypes, keeps_order, result_index, spec_indices, boxed_common_index, residuals = (f.tuple_item(step, k) for k in range(STEP_ITEMS))

    def load_spec(k: Value) -> Value:
        number = f.unbox_integer(f.tuple_item(spec_indices, k))
        return f.incref(f.choose(number < 0, lambda: [f.load_object("None")], lambda: [specs.at(number, POINTER).load(POINTER)])[0])

    def collect_specs() -> list[Value]:
        spec_tuple = f.build_tuple(f.load_word(spec_indices, SIZE_OFFSET), load_spec)
        f.untrack(spec_tuple)
        f.transfer_held(spec_tuple)
        return [spec_tuple]

    common_index = f.unbox_integer(boxed_common_index)
    load_common_spec = lambda: [f.incref(specs.at(common_index, POINTER).load(POINTER))]
    packed_specs = f.hold_owned(f.choose(common_index < 0, collect_specs, load_common_spec)[0])
    result_spec = specs.at(f.unbox_integer(result_index), POINTER).load(POINTER)
    fields = [op, result_spec, dtypes, packed_specs, spec_indices, keeps_order, residuals]
    recipe = f.require_new(f.call("instantiate_recipe", POINTER, fields))
    f.release_held(packed_specs)
    f.transfer_held(recipe)
    f.emit_return(recipe)


def _emit_instantiate_operands(f: FunctionBuilder) -> None:
    """Emit `instantiate_operands(pattern, cursor)`: return an item of `StepsTemplate.step_operands`, a new reference; null without
    memory. `pattern` is the pattern of the item, from `SizedTemplate.step_operand_patterns`; missing numbers are the next integers
    at the pointer `cursor`."""
    pattern, cursor = f.arguments
    sources, offset_count, tracks_derivative = (f.tuple_item(pattern, k) for k in range(3))
    new_offsets = f.require_new(f.call("next_tuple", POINTER, [f.unbox_integer(offset_count), cursor]))
    new_sources = f.require_new(f.call("instantiate_sources", POINTER, [sources, cursor]))
    operands = f.new_tuple(new_sources, new_offsets, f.incref(tracks_derivative))
    f.untrack(operands)
    f.transfer_held(operands)
    f.emit_return(operands)


def _emit_instantiate_record(f: FunctionBuilder) -> None:
    """Emit `instantiate_record(base_record, positions, cursor)`: return a copy of the launch record `base_record`, bytes, with the next
    integers at the words `positions`, a tuple. Without positions, `base_record` is returned. The reference is new; null if memory runs
    out."""
    base_record, positions, cursor = f.arguments
    f.return_if(f.load_word(positions, SIZE_OFFSET).equals(0), lambda: f.incref(base_record))
    record = f.require_new(
        f.call(
            "PyBytes_FromStringAndSize", POINTER, [f.address_at(base_record, BYTES_CONTENT_OFFSET), f.load_word(base_record, SIZE_OFFSET)]
        )
    )
    f.for_range(
        f.load_word(positions, SIZE_OFFSET),
        lambda k: (
            f.address_at(record, BYTES_CONTENT_OFFSET).at(f.unbox_integer(f.tuple_item(positions, k)), I64).store(load_next_word(cursor))
        ),
    )
    f.transfer_held(record)
    f.emit_return(record)


def _emit_store_record(f: FunctionBuilder) -> None:
    """Emit `store_record(recipe, product, record, plan)`: store the launch record `record` and retain the plan, the owner of the kernel.
    The record belongs to `recipe`; if `product` is not None, the record belongs to the sum `recipe` over the recipe `product` and is stored
    with `product`. An earlier record stays. A shared or empty record needs no plan. Return true, or false with an error. Python code may
    run first."""
    recipe, product, record, plan = f.arguments
    is_alone = f.is_object(product, "None")

    def create_dictionary() -> None:
        records = f.require_new(f.call("PyDict_New", POINTER, []))
        f.untrack(records)
        old_records = f.get_slot(product, "Recipe.sum_launch_records")  # read late: a garbage collection may have changed the slot
        f.set_slot(product, "Recipe.sum_launch_records", records)
        f.transfer_held(records)
        f.decref(old_records)

    def store_record() -> None:
        f.emit_if(~is_shared, retain_plan)
        f.choose(is_alone, store_with_recipe, store_with_product)

    def retain_plan() -> None:
        """Retain the plan first, since a record holds only the kernel's address; being first in the list, the plan is released last. No
        Python code runs from here on: it might drop the plan before the record is stored."""
        for x in (plan, f.select_value(is_alone, recipe, product)):
            f.append_to_list(f.load_object("recipes_with_records"), x)

    def store_with_recipe() -> list[Value]:
        f.decref(f.load_object("None"))
        f.set_slot(recipe, "Recipe.launch_record", f.incref(record))
        return []

    def store_with_product() -> list[Value]:
        records_by_sum = f.get_slot(product, "Recipe.sum_launch_records")
        f.require(f.call("PyDict_SetItem", I32, [records_by_sum, recipe, record]).equals(0))
        f.untrack(records_by_sum)
        return []

    is_shared = f.is_object(record, "NO_LAUNCH_RECORD") | f.is_instance(record, "SharedLaunchRecord")
    is_full = f.and_then(~is_shared, lambda: f.list_length(f.load_object("recipes_with_records")) >= 2 * MAX_LAUNCH_RECORDS)
    f.emit_if(is_full, lambda: f.call_python("drop_records_unless_busy"))
    has_no_dictionary = f.and_then(~is_alone, lambda: f.is_object(f.get_slot(product, "Recipe.sum_launch_records"), "None"))
    f.emit_if(has_no_dictionary, create_dictionary)
    has_no_sum_record = lambda: [f.is_null(f.call("find_sum_record", POINTER, [product, recipe]))]
    (is_new,) = f.choose(is_alone, lambda: [f.is_object(f.get_slot(recipe, "Recipe.launch_record"), "None")], has_no_sum_record)
    f.emit_if(is_new, store_record)
    f.emit_return(f.constant(I1, True))


def new_template(f: FunctionBuilder, variant: str, **slots: Value) -> Value:
    """Emit the creation of a result template of the class named `variant`. Return the template, which is held. The keywords `slots` are
    values of slots, to which the template takes references of its own. By default the key is None and the launch record is empty. The
    emitted function returns null or 0 if memory runs out."""
    template = f.new_instance(variant)
    load = f.load_object
    empty_slots = {"operation": load("None"), "other_key": load("None"), "launch_record": load("NO_LAUNCH_RECORD")}
    for slot, x in (empty_slots | slots).items():
        f.set_slot(template, f"{variant}.{slot}", f.incref(x))
    return template


def find_data_recipe(f: FunctionBuilder, spec: Value) -> Value:
    """Emit a call for the recipe of contiguous data in memory (`DATA`) with the shape and dtype of `spec`. Return the recipe, which is
    held. The emitted function returns null or 0 if there is none."""
    return f.require_new(f.call("find_data_recipe", POINTER, [spec]))


def _emit_find_data_recipe(f: FunctionBuilder) -> None:
    """Emit `find_data_recipe(spec)`: return the recipe of contiguous data with this shape and dtype, cached in `Spec.data`, as a new
    reference; null for more than `MAX_ELEMENTS` elements, or without memory."""
    (spec,) = f.arguments
    data_recipe = f.get_slot(spec, "Spec.data")
    f.return_if(~f.is_null(data_recipe), lambda: f.incref(data_recipe))
    f.require(f.unbox_integer(f.get_slot(spec, "Spec.size")) <= MAX_ELEMENTS)
    none_object, empty = f.load_object("None"), f.load_object("()")
    nbytes = f.box_integer(load_nbytes(f, spec))
    recipe = f.new_instance("Recipe", nbytes=nbytes)
    fields = {
        "op": f.load_object("DATA"),
        "dtypes": empty,
        "_layout_keys": empty,
        "is_uncacheable": f.load_object("False"),
        "keeps_order": f.load_object("True"),
    }
    fields |= {slot: f.get_slot(spec, f"Spec.{slot}") for slot in ("shape", "dtype", "size")}
    fields |= dict.fromkeys(("_target", "launch_record", "sum_launch_records", "residuals", "copying_variants"), none_object)
    for slot, x in fields.items():
        f.set_slot(recipe, f"Recipe.{slot}", f.incref(x))
    # Python code may have run and set the slot
    f.emit_if(f.is_null(f.get_slot(spec, "Spec.data")), lambda: f.set_slot(spec, "Spec.data", f.incref(recipe)))
    f.transfer_held(recipe)
    f.emit_return(recipe)


def _emit_store_data_recipe(f: FunctionBuilder) -> None:
    """Emit `store_data_recipe(dtype, shape, recipe)`: return the recipe of contiguous data in memory (`DATA`), as a new reference. `shape`
    is a tuple. If the spec has no recipe yet, it keeps `recipe`, or a new recipe if `recipe` is None. Return null for more than `MAX_AXES`
    axes or `MAX_ELEMENTS` elements, and if memory runs out."""
    dtype, shape, recipe = f.arguments
    ndim, dims = f.load_word(shape, SIZE_OFFSET), new_dims(f)
    f.require(ndim <= MAX_AXES)
    unbox_tuple(f, shape, ndim, dims)
    store_dense_strides(f, ndim, dims)
    spec = f.require_new(f.call("find_spec", POINTER, [dtype, ndim, dims]))
    is_new = f.and_then(~f.is_object(recipe, "None"), lambda: f.is_null(f.get_slot(spec, "Spec.data")))
    f.emit_if(is_new, lambda: f.set_slot(spec, "Spec.data", f.incref(recipe)))
    data_recipe = find_data_recipe(f, spec)
    f.release_held(spec)
    f.transfer_held(data_recipe)
    f.emit_return(data_recipe)


def _emit_python_data_recipe(f: FunctionBuilder) -> None:
    """Emit `python_data_recipe(dtype, shape, recipe)`, called from Python: return the result of `store_data_recipe` for the same arguments,
    a recipe, or None for null."""
    args = f.arguments[1]
    f.return_or_none(f.call("store_data_recipe", POINTER, [args.at(k, POINTER).load(POINTER) for k in range(3)]))


def _emit_instantiate_element(f: FunctionBuilder) -> None:
    """Emit `instantiate_element(element, cursor, specs)`: return the template of an element of a tuple of results, a new reference.
    `element` is an item of `SizedTemplate.element_specs`: a pair of indices in the array `specs` gives a view or a tensor in memory, at the
    next integer as its offset. A table of templates by size is returned itself. Return null if memory runs out."""
    element, cursor, specs = f.arguments
    f.return_if(~f.is_instance(element, "tuple"), lambda: f.incref(element))  # a table of parts by size
    spec_index, memory_spec_index = (f.unbox_integer(f.tuple_item(element, k)) for k in range(2))
    shift = f.box_integer(load_next_word(cursor))
    spec = specs.at(spec_index, POINTER).load(POINTER)

    def build_view() -> list[Value]:
        view_template = new_template(f, "ViewTemplate", spec=spec, shift=shift)
        f.transfer_held(view_template)
        return [view_template]

    def build_in_memory() -> list[Value]:
        recipe = find_data_recipe(f, specs.at(memory_spec_index, POINTER).load(POINTER))
        memory_template = new_template(f, "InMemoryTemplate", spec=spec, recipe=recipe, offset=shift)
        f.transfer_held(memory_template)
        f.release_held(recipe)
        return [memory_template]

    (template,) = f.choose(memory_spec_index < 0, build_view, build_in_memory)
    f.release_held(shift)
    f.emit_return(template)


def _emit_instantiate_template(f: FunctionBuilder) -> None:
    """Emit `instantiate_template(rule, results, operand_specs)`: return the result template of the sized template `rule`, a new reference;
    null without memory. The array `results` has the values of the rule's size program, and the array `operand_specs` the operands' specs,
    at least `SizedTemplate.given_count`. Operand specs and new specs are kept alive meanwhile."""
    rule, results, operand_specs = f.arguments
    new_spec_patterns, given_count = (
        f.get_slot(rule, "SizedTemplate.new_specs"),
        f.unbox_integer(f.get_slot(rule, "SizedTemplate.given_count")),
    )
    cursor, specs = f.local(POINTER, results), f.local(array(POINTER, MAX_SPECS))
    spec_count, last_spec = f.local(I64, given_count), f.local(POINTER, rule)
    f.for_range(given_count, lambda k: specs.at(k, POINTER).store(f.incref(operand_specs.at(k, POINTER).load(POINTER))))

    def build_next_spec() -> None:
        dtype, ndim = (f.tuple_item(f.tuple_item(new_spec_patterns, spec_count.load(I64) - given_count), k) for k in range(2))
        spec = f.call("next_spec", POINTER, [dtype, f.unbox_integer(ndim), cursor])
        last_spec.store(spec)
        specs.at(spec_count.load(I64), POINTER).store(spec)
        spec_count.store(spec_count.load(I64) + (~f.is_null(spec)).cast("zext", I64))

    f.repeat_while(
        lambda: f.and_then(
            spec_count.load(I64) < given_count + f.load_word(new_spec_patterns, SIZE_OFFSET), lambda: ~f.is_null(last_spec.load(POINTER))
        ),
        build_next_spec,
    )
    build_template = lambda: [f.call("build_template", POINTER, [rule, cursor, specs])]
    (template,) = f.choose(f.is_null(last_spec.load(POINTER)), lambda: [f.null()], build_template)
    f.for_range(spec_count.load(I64), lambda k: f.decref(specs.at(k, POINTER).load(POINTER)))
    f.emit_return(template)


def _emit_build_template(f: FunctionBuilder) -> None:
    """Emit `build_template(rule, cursor, specs)`: return the result template of the sized template `rule`, a new reference; null without
    memory. The array `specs` has the operand specs, then the new specs; remaining numbers are the next integers at the pointer `cursor`.
    Launch records of steps are stored with the new recipes."""
    rule, cursor, specs = f.arguments
    steps, records = (f.get_slot(rule, f"SizedTemplate.{slot}") for slot in ("steps", "records"))
    shift = f.box_integer(load_next_word(cursor))
    single = f.is_object(f.get_slot(rule, "SizedTemplate.is_single"), "True")

    def build_single() -> list[Value]:
        """Emit the building of the only recipe; return `()` for the recipes of steps, and this recipe. The caller knows the operands."""
        only_recipe = f.require_new(f.call("instantiate_step", POINTER, [f.tuple_item(steps, 0), specs]))
        f.transfer_held(only_recipe)
        return [f.incref(f.load_object("()")), only_recipe]

    def build_recipes() -> list[Value]:
        recipe_tuple = f.build_tuple(
            f.load_word(steps, SIZE_OFFSET), lambda k: f.call("instantiate_step", POINTER, [f.tuple_item(steps, k), specs])
        )
        f.emit_if(f.load_word(steps, SIZE_OFFSET) > 0, lambda: f.untrack(recipe_tuple))
        f.transfer_held(recipe_tuple)
        return [recipe_tuple, f.incref(f.load_object("None"))]

    def build_operands() -> list[Value]:
        patterns = f.get_slot(rule, "SizedTemplate.step_operand_patterns")
        operand_tuple = f.build_tuple(
            f.load_word(patterns, SIZE_OFFSET), lambda k: f.call("instantiate_operands", POINTER, [f.tuple_item(patterns, k), cursor])
        )
        f.untrack(operand_tuple)
        f.transfer_held(operand_tuple)
        return [operand_tuple]

    recipes, recipe = f.choose(single, build_single, build_recipes)
    f.hold_owned(recipes), f.hold_owned(recipe)
    fixed_operands = f.get_slot(rule, "SizedTemplate.fixed_step_operands")
    operands = f.hold_owned(f.choose(f.is_object(fixed_operands, "None"), build_operands, lambda: [f.incref(fixed_operands)])[0])
    element_patterns = f.get_slot(rule, "SizedTemplate.element_specs")
    element_templates = f.build_tuple(
        f.load_word(element_patterns, SIZE_OFFSET),
        lambda k: f.call("instantiate_element", POINTER, [f.tuple_item(element_patterns, k), cursor, specs]),
    )
    low, high, result_constructor, boxed_variant = (
        f.get_slot(rule, f"SizedTemplate.{slot}") for slot in ("low", "high", "result_constructor", "variant")
    )
    spec = specs.at(f.unbox_integer(f.get_slot(rule, "SizedTemplate.result_spec_number")), POINTER).load(POINTER)
    variant, parts = f.unbox_integer(boxed_variant), {"element_templates": element_templates}
    bounds, step_slots = {"low": low, "high": high}, {"step_recipes": recipes, "step_operands": operands}
    no_program = {"loop_bytecode": f.load_object("NO_LAUNCH_RECORD"), "number_dtype": f.load_object("None")}
    slots_by_variant: dict[str, dict[str, Value]] = {
        "NodeTemplate": {"recipe": recipe, **bounds},
        "StepsTemplate": step_slots,
        "OperandTemplate": {},
        "ViewTemplate": {"shift": shift},
        "TupleTemplate": {"result_constructor": result_constructor, **parts},
        "DirectCallTemplate": {"result_constructor": result_constructor, **parts, **no_program},
        "CopyTemplate": {"recipe": recipe},
        "WriteTemplate": {"plan": f.load_object("None"), **bounds},
        "SegmentTemplate": {**step_slots, **parts},
    }

    def build_variant(number: int) -> list[Value]:
        """Emit the creation of a template of variant `number`, or of a later variant if the rule says so. Return the template in a list."""
        name = VARIANTS[number].__name__

        def build() -> list[Value]:
            variant_template = new_template(f, name, spec=spec, **slots_by_variant[name])
            f.transfer_held(variant_template)
            return [variant_template]

        return build() if number == len(VARIANTS) - 1 else f.choose(variant.equals(number), build, lambda: build_variant(number + 1))

    template = f.hold_owned(build_variant(0)[0])
    f.emit_if(f.load_word(element_patterns, SIZE_OFFSET) > 0, lambda: f.untrack(element_templates))
    f.release_held(shift, operands, element_templates)

    def attach_record(k: Value) -> None:
        record_entry = f.tuple_item(records, k)
        boxed_step, product, words, positions, plan = (f.tuple_item(record_entry, j) for j in range(5))
        record = f.require_new(f.call("instantiate_record", POINTER, [words, positions, cursor]))
        step_number = f.unbox_integer(boxed_step)

        def replace_slot(slot: str, x: Value) -> None:
            old_value = f.get_slot(template, slot)
            f.set_slot(template, slot, f.incref(x))
            f.decref(old_value)

        def attach_to_template() -> list[Value]:
            f.emit_if(step_number.equals(DIRECT_CALL_RECORD), lambda: replace_slot("DirectCallTemplate.loop_bytecode", record))
            f.emit_if(step_number.equals(RESULT_RECORD), lambda: replace_slot("ResultTemplate.launch_record", record))
            f.emit_if(f.has_type(template, "WriteTemplate"), lambda: replace_slot("WriteTemplate.plan", plan))
            return []

        def attach_to_step() -> list[Value]:
            (step_recipe,) = f.choose(single, lambda: [recipe], lambda: [f.tuple_item(recipes, step_number)])
            load_product_recipe = lambda: [f.tuple_item(recipes, f.unbox_integer(product))]
            (product_recipe,) = f.choose(f.is_object(product, "None"), lambda: [f.load_object("None")], load_product_recipe)
            f.require(f.call("store_record", I1, [step_recipe, product_recipe, record, plan]))
            return []

        f.choose(step_number < 0, attach_to_template, attach_to_step)
        f.release_held(record)

    f.for_range(f.load_word(records, SIZE_OFFSET), attach_record)
    f.release_held(recipes, recipe)
    f.transfer_held(template)
    f.emit_return(template)


def match_template(f: FunctionBuilder, templates: Value, dims: Value, results: Value) -> Value:
    """Emit a search for the first rule in `templates`, a `GuardedCache`, whose guards hold for the array `dims`. Return the rule, a sized
    template, borrowed. The array `results` gets the results of the rule's size program. Without a match, the emitted function returns null
    or 0."""
    rules = f.get_slot(templates, "GuardedCache.entries")
    position, count, match = f.local(I64, f.i64(0)), f.list_length(rules), f.local(POINTER, f.null())

    def may_continue() -> Value:
        return f.and_then(f.is_null(match.load(POINTER)), lambda: position.load(I64) < count)

    def try_rule() -> None:
        rule = f.list_item(rules, position.load(I64))
        matches = f.call("evaluate_program", I64, [f.get_slot(rule, "SizedTemplate.bytecode"), dims, results]) > 0
        f.emit_if(matches, lambda: match.store(rule))
        position.store(position.load(I64) + 1)

    f.repeat_while(may_continue, try_rule)
    f.decline_if(f.is_null(match.load(POINTER)))
    return match.load(POINTER)


def _emit_match_signature(f: FunctionBuilder) -> None:
    """Emit `match_signature()`: return a new result template for the call whose signature was written last, a new reference; null without a
    rule. Emitters call the function by `instantiate_signature`."""
    results = f.local(array(I64, MAX_RESULTS))
    rule = f.hold_borrowed(match_template(f, call_signatures.find_signature_entry(f), call_signatures.get_dim_addresses(f)[1], results))
    spec_count_address, operand_specs = call_signatures.get_spec_addresses(f)
    f.require(f.unbox_integer(f.get_slot(rule, "SizedTemplate.given_count")) <= spec_count_address.load(I64))
    template = f.require_new(f.call("instantiate_template", POINTER, [rule, results, operand_specs]))
    f.release_held(rule)
    f.transfer_held(template)
    f.emit_return(template)


def _emit_instantiate_for_dims(f: FunctionBuilder) -> None:
    """Emit `instantiate_for_dims(rule, dims, specs)`: return the result template of the sized template `rule` for the tuples of dims and
    operand specs, a new reference; null if a guard fails, the number of dims or specs does not fit, or without memory."""
    rule, dims, specs = f.arguments
    program, results = f.get_slot(rule, "SizedTemplate.bytecode"), f.local(array(I64, MAX_RESULTS))
    f.require(f.call("evaluate_program", I64, [program, unbox_dims(f, program, dims), results]) > 0)
    f.require(f.unbox_integer(f.get_slot(rule, "SizedTemplate.given_count")) <= f.load_word(specs, SIZE_OFFSET))
    f.emit_return(f.call("instantiate_template", POINTER, [rule, results, f.address_at(specs, TUPLE_ITEMS_OFFSET)]))


def _emit_instantiate_call(f: FunctionBuilder) -> None:
    """Emit `instantiate_call(spec, slot, name, other_key, arguments, count, names, tape_mask)`: return the result template of a rule for a
    call, borrowed from the table at byte `slot` of `spec`, which caches it under `name` and `other_key`. `name` and the last four arguments
    describe the call (`call_signatures.sign_call`). Return null without a signature, rule or memory."""
    spec, slot, name, other_key, arguments, count, names, tape_mask = f.arguments
    f.require(call_signatures.sign_call(f, name, arguments, count, names, tape_mask))
    f.emit_return(f.call("instantiate_cached", POINTER, [spec, slot, name, other_key]))


def instantiate_signature(f: FunctionBuilder) -> Value:
    """Emit a call of `match_signature` for the result template of the signature written last. Return the template, which is held. Without a
    matching rule the emitted function returns null or 0."""
    return f.require_new(f.call("match_signature", POINTER, []))


def _emit_instantiate_cached(f: FunctionBuilder) -> None:
    """Emit `instantiate_cached(spec, slot, name, other_key)`: return the result template of a rule for the signature written last. It is
    borrowed from the table at byte `slot` of `spec`, which caches it under `name` and `other_key`. Return null without a rule or memory."""
    template = instantiate_signature(f)
    f.require(f.call("cache_template", I1, [*f.arguments, template]))
    f.release_held(template)
    f.emit_return(template)


def _emit_python_instantiate(f: FunctionBuilder) -> None:
    """Emit `python_instantiate(rule, dims, specs)`, called from Python: return the result of `instantiate_for_dims` for the same
    arguments, or None for null."""
    args = f.arguments[1]
    f.return_or_none(f.call("instantiate_for_dims", POINTER, [args.at(k, POINTER).load(POINTER) for k in range(3)]))
