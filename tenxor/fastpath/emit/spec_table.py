"""A hash table of specs: one interned spec for each dtype, shape and strides. Emitted functions look a spec up by the array `dims`, which
has `VIEW_DIMS` integers: the shape, and the strides, in elements, from `MAX_AXES` on.

A missing spec is built with few slots; further slots are computed when they are read (`graph/spec.py`). The rows of the table are filled in
order, and a separate index with open addressing maps a hash to a row number. So a new spec touches memory near the previous row. A row
chosen by hash would often lie in a fresh page, which the operating system must find and clear.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I16, I64, POINTER, array
from ...layout.layout_key import MAX_LAYOUT_KEYS
from ..object_layout import SIZE_OFFSET, ObjectTable
from ..sized_template import MAX_AXES
from .function_builder import FunctionBuilder

VIEW_DIMS = 2 * MAX_AXES  # integers of a view: the shape, and the strides from `MAX_AXES` on; 0 for missing axes
MAX_EXTENT = 1 << 30  # larger sizes, strides and element counts are left to the fallback in Python; products of two fit in 64 bits
INDEX_BITS = (2 * MAX_LAYOUT_KEYS - 1).bit_length()  # bits of an index position: more than half of the positions stay free and hold 0
ROW_NUMBER_TYPE = I16  # a row number; row 0 is that of every free position, and matches nothing
ROW_WORDS = 16  # words of a row: the dtype, the number of axes, the integers, and the spec, which the table owns
SPEC_WORD = 2 + VIEW_DIMS  # position of the spec in a row
# The hash multiplies each word of a key by a power of an odd number, as a signed 64-bit integer. The highest bits of the sum give the first
# position; a search goes on from there to the position of the spec, or to a free one.
HASH_MULTIPLIERS = [(pow(0x9E3779B97F4A7C15, k, 1 << 64) ^ (1 << 63)) - (1 << 63) for k in range(1, 1 + SPEC_WORD)]


class OperandLayout(NamedTuple):
    """The layout through which a source is read: a shape and strides, both Python tuples."""

    shape: Value
    strides: Value


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to look up or build interned specs.

    The functions emitted include `find_spec`, `new_spec`, `find_dense_spec`, `find_python_spec`, `clear_specs`, `box_integers` and
    `is_injective`.
    """
    module.define_global("spec_rows", f"internal global [{ROW_WORDS << INDEX_BITS} x i64] zeroinitializer, align {8 * ROW_WORDS}")
    module.define_global("spec_index", f"internal global [{1 << INDEX_BITS} x {ROW_NUMBER_TYPE.text}] zeroinitializer, align 64")
    module.define_global("spec_count", "global i64 0")
    module.define_global("spec_row_count", "internal global i64 0")
    _emit_find_spec(FunctionBuilder(module, objects, "find_spec", [("dtype", POINTER), ("ndim", I64), ("dims", POINTER)]))
    search_parameters = [("start", I64), ("dtype", POINTER), ("ndim", I64), ("dims", POINTER)]
    _emit_find_spec_position(FunctionBuilder(module, objects, "find_spec_position", search_parameters, I64))
    _emit_find_or_add_spec(FunctionBuilder(module, objects, "find_or_add_spec", search_parameters))
    _emit_new_spec(FunctionBuilder(module, objects, "new_spec", [("dtype", POINTER), ("ndim", I64), ("dims", POINTER)]))
    _emit_is_injective(FunctionBuilder(module, objects, "is_injective", [("spec", POINTER)], I1))
    _emit_find_dense_spec(FunctionBuilder(module, objects, "find_dense_spec", [("dtype", POINTER), ("shape", POINTER)]))
    spec_parameters = [(name, POINTER) for name in ("dtype", "shape", "strides")]
    _emit_find_python_spec(FunctionBuilder(module, objects, "find_python_spec", [*spec_parameters, ("spec", POINTER)]))
    _emit_python_find_spec(
        FunctionBuilder(module, objects, "python_find_spec", [("self", POINTER), ("args", POINTER), ("count", I64)], is_exported=True)
    )
    _emit_clear_specs(FunctionBuilder(module, objects, "clear_specs", [("self", POINTER), ("unused", POINTER)], is_exported=True))
    _emit_box_integers(FunctionBuilder(module, objects, "box_integers", [("words", POINTER), ("count", I64)]))


def find_spec(f: FunctionBuilder, dtype: Value, ndim: Value, dims: Value) -> Value:
    """Emit a call of the emitted function `find_spec`, for the interned spec of a dtype with `ndim` axes. The shape and the strides are in
    the array at the address `dims` (`new_dims`).

    Return the spec, which is held. Python code may run. The emitted function returns null or 0 if the spec cannot be made.
    """
    return f.require_new(f.call("find_spec", POINTER, [dtype, ndim, dims]))


def load_operand_spec(f: FunctionBuilder, recipe: Value, k: Value) -> Value:
    """Emit a load of the spec through which a recipe of the fast path reads source `k`; for `k`, an `i64`, behind the last source, of the
    spec through which the recipe writes.

    Return the spec, borrowed, or Python's None for a scalar source, or for a recipe that does not write. The recipe must have
    `Recipe.packed_specs`.
    """
    packed_specs, spec_indices = f.get_slot(recipe, "Recipe.packed_specs"), f.get_slot(recipe, "Recipe.spec_indices")
    load_only_spec = lambda: [f.select_value(f.unbox_integer(f.tuple_item(spec_indices, k)) < 0, f.load_object("None"), packed_specs)]
    return f.choose(f.is_instance(packed_specs, "tuple"), lambda: [f.tuple_item(packed_specs, k)], load_only_spec)[0]


def load_operand_layout(f: FunctionBuilder, recipe: Value, k: Value) -> OperandLayout:
    """Emit loads of the shape and strides through which `recipe` reads source `k`, an `i64`; the source must be a node. Return both; the
    references are borrowed.

    The emitted function returns null or 0 for view chains and offset tables.
    """

    def of_spec() -> list[Value]:
        spec = load_operand_spec(f, recipe, k)
        return [f.get_slot(spec, "Spec.shape"), f.get_slot(spec, "Spec.strides")]

    def of_layout_key() -> list[Value]:
        layout = f.get_slot(f.tuple_item(f.get_slot(recipe, "Recipe._layout_keys"), k), "LayoutKey.layout")
        f.require(f.is_object(f.get_slot(layout, "Layout.base"), "None"))
        f.require(f.is_object(f.get_slot(layout, "Layout.tables"), "None"))
        return [f.get_slot(layout, "Layout.shape"), f.get_slot(layout, "Layout.strides")]

    return OperandLayout(*f.choose(f.is_null(f.get_slot(recipe, "Recipe.packed_specs")), of_layout_key, of_spec))


def has_layout_of(f: FunctionBuilder, operand_layout: OperandLayout, spec: Value) -> Value:
    """Emit a test whether a layout has the shape and the strides of a spec, which must have strides. Return the result, an `i1`."""
    strides = lambda: f.call("are_equal_tuples", I1, [operand_layout.strides, f.get_slot(spec, "Spec.strides")])
    return f.and_then(f.call("are_equal_tuples", I1, [operand_layout.shape, f.get_slot(spec, "Spec.shape")]), strides)


def box_keeps_order(f: FunctionBuilder, specs: Value, result_spec: Value) -> Value:
    """Emit the value of `Recipe.keeps_order` for a new recipe: whether a kernel reads each source, except single elements, in the row-major
    order of the result. Return a new reference to True or False, not held.

    `specs` is a tuple of the sources' specs, then the target's spec; each has strides, or is None for a scalar source or without a target.
    `result_spec` is the contiguous spec of the result. The value is True if each source is a scalar, a single element, or read with the
    shape and strides of `result_spec`. The target's spec does not matter.
    """

    def source_keeps_order(k: Value, keeps_order: Value) -> Value:
        spec = f.tuple_item(specs, k)

        def keeps() -> Value:
            strides = f.get_slot(spec, "Spec.strides")
            has_result_layout = has_layout_of(f, OperandLayout(f.get_slot(spec, "Spec.shape"), strides), result_spec)
            return f.or_else(has_result_layout, lambda: f.fold_range(f.load_word(strides, SIZE_OFFSET), f.i64(0), combine_steps).equals(0))

        def combine_steps(j: Value, steps: Value) -> Value:
            return steps | f.unbox_integer(f.tuple_item(f.get_slot(spec, "Spec.strides"), j))

        return keeps_order & f.or_else(f.is_object(spec, "None"), keeps)

    return f.box_bool(f.fold_range(f.load_word(specs, SIZE_OFFSET) - 1, f.constant(I1, True), source_keeps_order))


def load_nbytes(f: FunctionBuilder, spec: Value) -> Value:
    """Emit the number of bytes that the elements of a spec take: their number times the item size. Return the number, an `i64`."""
    return f.unbox_integer(f.get_slot(spec, "Spec.size")) * f.unbox_integer(f.get_slot(f.get_slot(spec, "Spec.dtype"), "DType.itemsize"))


def compute_offset_range(f: FunctionBuilder, spec: Value) -> list[Value]:
    """Emit the lowest (<= 0) and the highest (>= 0) offset of a view, in elements from its start. Return both, as `i64`.

    `spec` must have strides. The offsets are invalid for an empty view.
    """
    shape, strides = f.get_slot(spec, "Spec.shape"), f.get_slot(spec, "Spec.strides")
    zero = f.i64(0)

    def axis(k: Value, ends: Sequence[Value]) -> list[Value]:
        last_offset = (f.unbox_integer(f.tuple_item(shape, k)) - 1) * f.unbox_integer(f.tuple_item(strides, k))
        return [ends[0] + f.select_value(last_offset < 0, last_offset, zero), ends[1] + f.select_value(last_offset < 0, zero, last_offset)]

    return f.fold_range_values(f.load_word(shape, SIZE_OFFSET), [zero, zero], axis)


def _emit_is_injective(f: FunctionBuilder) -> None:
    """Emit `is_injective(spec)`: return whether each element of a view with the spec `spec` is known to appear once in memory, so that a
    write is safe; if so, set `Spec.is_writable`.

    The test is sufficient, not necessary: each axis must step farther than the axes with shorter or equal steps reach together. The
    function returns false for view chains and offset tables. `write_part` and `find_usual_recipe` call the function.
    """
    (spec,) = f.arguments
    old_flag = f.get_slot(spec, "Spec.is_writable")
    f.return_if(f.is_object(old_flag, "True"), lambda: f.constant(I1, True))
    shape, strides = f.get_slot(spec, "Spec.shape"), f.get_slot(spec, "Spec.strides")
    f.decline_if(f.is_object(strides, "None"))
    ndim = f.load_word(shape, SIZE_OFFSET)

    def load_step(k: Value) -> Value:
        step = f.unbox_integer(f.tuple_item(strides, k))
        return f.select_value(step < 0, -step, step)

    def check_axis(k: Value) -> None:
        step = load_step(k)

        def add_reach(j: Value, reach: Value) -> Value:
            axis_step = load_step(j)
            counts = j.differs(k) & (axis_step <= step)
            return reach + f.select_value(counts, (f.unbox_integer(f.tuple_item(shape, j)) - 1) * axis_step, f.i64(0))

        f.emit_if(f.unbox_integer(f.tuple_item(shape, k)) > 1, lambda: f.require(f.fold_range(ndim, f.i64(0), add_reach) < step))

    f.for_range(ndim, check_axis)
    f.set_slot(spec, "Spec.is_writable", f.incref(f.load_object("True")))
    f.decref(old_flag)
    f.emit_return(f.constant(I1, True))


def new_dims(f: FunctionBuilder) -> Value:
    """Emit a local array for the `VIEW_DIMS` integers of a view, filled with zeros. Return the address."""
    dims = f.local(array(I64, VIEW_DIMS))
    for k in range(VIEW_DIMS):
        dims.at(k, I64).store(f.i64(0))
    return dims


def store_dense_strides(f: FunctionBuilder, ndim: Value, dims: Value) -> None:
    """Emit a store of the row-major strides for the `ndim` sizes in the array at the address `dims`: in the same array, from `MAX_AXES` on.
    Return None.

    The emitted function returns null or 0 for sizes or strides above `MAX_EXTENT`.
    """

    def axis(j: Value, step: Value) -> Value:
        k = ndim - 1 - j
        size = dims.at(k, I64).load(I64)
        dims.at(k + MAX_AXES, I64).store(step)
        f.require((size <= MAX_EXTENT) & (step <= MAX_EXTENT))
        return step * f.select_value(size.equals(0), f.i64(1), size)

    f.fold_range(ndim, f.i64(1), axis)


def unbox_tuple(f: FunctionBuilder, items: Value, count: Value, to: Value) -> None:
    """Emit a copy of the first `count` items of the Python tuple `items` to the array of 64-bit integers at the address `to`. Return None.

    The emitted function returns null or 0 for items that are no integers, and for larger integers.
    """

    def unbox_item(k: Value) -> None:
        f.require(f.is_instance(f.tuple_item(items, k), "int"))
        value, fits = f.unbox_checked(f.tuple_item(items, k))
        f.require(fits)
        to.at(k, I64).store(value)

    f.for_range(count, unbox_item)


def _emit_find_dense_spec(f: FunctionBuilder) -> None:
    """Emit `find_dense_spec(dtype, shape)`: return the interned spec of a contiguous tensor of the dtype `dtype`, as a new reference.
    `shape` is a Python tuple.

    The function returns null for more than `MAX_AXES` axes, for sizes or strides above `MAX_EXTENT`, and if memory runs out.
    """
    dtype, shape = f.arguments
    ndim, dims = f.load_word(shape, SIZE_OFFSET), new_dims(f)
    f.require(ndim <= MAX_AXES)
    f.for_range(ndim, lambda k: dims.at(k, I64).store(f.unbox_integer(f.tuple_item(shape, k))))
    store_dense_strides(f, ndim, dims)
    f.emit_return(find_spec(f, dtype, ndim, dims))


def _get_key_words(dtype: Value, ndim: Value, dims: Value) -> list[Value]:
    """Emit loads of the words of a key in the table of specs, and return them as `i64` values: the dtype's address, the number of axes
    `ndim`, and the integers in the array `dims`.
    """
    return [dtype.cast("ptrtoint", I64), ndim, *[dims.at(k, I64).load(I64) for k in range(VIEW_DIMS)]]


def _compute_start_position(f: FunctionBuilder, words: Sequence[Value]) -> Value:
    """Emit the hash of the key `words` (`_get_key_words`), a number of `INDEX_BITS` bits. Return the hash: the index position where a
    search starts.
    """
    mixed = f.i64(0)
    for word, times in zip(words, HASH_MULTIPLIERS, strict=True):
        mixed = mixed + word * times
    return mixed.logical_shift_right(64 - INDEX_BITS)


def _emit_find_spec(f: FunctionBuilder) -> None:
    """Emit `find_spec(dtype, ndim, dims)`: return the interned spec of the dtype `dtype` with `ndim` axes, at most `MAX_AXES`, as a new
    reference; a missing spec is made.

    `dims` is an array of the shape and, from `MAX_AXES` on, the strides, with zeros for missing axes. The function tries the first
    position, then the table, then `spec.intern_strided_spec` in Python. Null, with an error set, is the result if Python raises it, or if
    memory runs out.
    """
    words = _get_key_words(*f.arguments)
    position = _compute_start_position(f, words)
    row = _get_indexed_row(f, position)
    f.return_if(_has_key(f, row, words), lambda: f.incref(row.at(SPEC_WORD, POINTER).load(POINTER)))
    spec = f.call("find_or_add_spec", POINTER, [position, *f.arguments])

    def call_python() -> list[Value]:
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        dtype, ndim, dims = f.arguments
        shape_and_strides = [f.require_new(f.call("box_integers", POINTER, [dims.at(k, I64), ndim])) for k in (0, MAX_AXES)]
        args = f.local(array(POINTER, 3))
        for k, x in enumerate((dtype, *shape_and_strides)):
            args.at(k, POINTER).store(x)
        spec = f.call("PyObject_Vectorcall", POINTER, [f.load_object("intern_strided_spec"), args, f.i64(3), f.null()])
        f.release_held(*shape_and_strides)
        return [spec]

    f.emit_return(f.choose(f.is_null(spec), call_python, lambda: [spec], (1, 1000))[0])


def _get_index_address(f: FunctionBuilder, position: Value) -> Value:
    """Emit the address of the index entry at `position`, which holds a row number of the type `ROW_NUMBER_TYPE`. Return the address."""
    return f.define(POINTER, "getelementptr i64, ptr @spec_index, i64 0").at(position, ROW_NUMBER_TYPE)


def _get_indexed_row(f: FunctionBuilder, position: Value) -> Value:
    """Emit the address of the row of the table to which the index entry at `position` refers. Return the address."""
    return _get_row_address(f, _get_index_address(f, position).load(ROW_NUMBER_TYPE).cast("zext", I64))


def _get_row_address(f: FunctionBuilder, number: Value) -> Value:
    """Emit the address of row `number` of the table of specs. Return the address."""
    return f.define(POINTER, "getelementptr i64, ptr @spec_rows, i64 0").at(number * ROW_WORDS, I64)


def _has_key(f: FunctionBuilder, row: Value, words: Sequence[Value]) -> Value:
    """Emit a test whether the row at the address `row` has the key `words` (`_get_key_words`). Return the result, an `i1`."""
    differs = f.i64(0)
    for k, word in enumerate(words):
        differs = differs | (row.at(k, I64).load(I64) ^ word)
    return differs.equals(0)


def _emit_find_spec_position(f: FunctionBuilder) -> None:
    """Emit `find_spec_position(start, dtype, ndim, dims)`: return the index position of a spec, or a free position if it is missing.

    The search begins at position `start`, which must be that of this spec (`_compute_start_position`), and wraps around at the end. The
    index must have a free position. The free position is the first one found; `_load_indexed_spec` gives null for it. The further
    arguments are those of `find_spec`.
    """
    start, *key = f.arguments
    position = f.local(I64, start)

    def is_another() -> Value:
        is_taken = _get_index_address(f, position.load(I64)).load(ROW_NUMBER_TYPE).differs(0)
        return f.and_then(is_taken, lambda: ~_has_key(f, _get_indexed_row(f, position.load(I64)), _get_key_words(*key)))

    f.repeat_while(is_another, lambda: position.store((position.load(I64) + 1) & ((1 << INDEX_BITS) - 1)))
    f.emit_return(position.load(I64))


def _load_indexed_spec(f: FunctionBuilder, position: Value) -> Value:
    """Emit a load of the spec to which the index entry at `position` refers. Return the spec, borrowed; null if the position is free."""
    return _get_indexed_row(f, position).at(SPEC_WORD, POINTER).load(POINTER)


def _emit_find_or_add_spec(f: FunctionBuilder) -> None:
    """Emit `find_or_add_spec(start, dtype, ndim, dims)`: return the interned spec, built and inserted on a miss, as a new reference.

    `start` is the index position where the search begins. The further arguments are those of `find_spec`. The function returns null for
    sizes, strides or element counts above `MAX_EXTENT`, and with an error set. Python code may run. `find_spec` and `find_python_spec` call
    the function.
    """
    _, *key = f.arguments
    interned_spec = _load_indexed_spec(f, f.call("find_spec_position", I64, f.arguments))
    f.return_if(~f.is_null(interned_spec), lambda: f.incref(interned_spec))
    f.emit_if(_get_counter_address(f, "spec_row_count").load(I64) >= MAX_LAYOUT_KEYS, lambda: f.call_python("clear layout keys"))
    new_spec = f.require_new(f.call("new_spec", POINTER, key))
    position = f.call("find_spec_position", I64, f.arguments)
    # Python code may have run meanwhile and have inserted the same spec.
    f.emit_if(f.is_null(_load_indexed_spec(f, position)), lambda: _insert_spec(f, position, _get_key_words(*key), new_spec))
    spec = f.incref(_load_indexed_spec(f, position))
    f.release_held(new_spec)
    f.emit_return(spec)


def _get_counter_address(f: FunctionBuilder, name: str) -> Value:
    """Emit the address of a 64-bit counter, and return the address. The counter `name` is `spec_count`, the number of specs in the table,
    or `spec_row_count`, the number of rows filled since the table was last empty.
    """
    return f.define(POINTER, f"getelementptr i64, ptr @{name}, i64 0")


def _insert_spec(f: FunctionBuilder, position: Value, words: Sequence[Value], spec: Value) -> None:
    """Emit code to write a spec with the key `words` into the next row, and make the index entry at `position`, which must be free, refer
    to this row. Return None.

    The table takes a reference of its own. The emitted function returns null or 0 if all rows are filled.
    """
    row_count, spec_count = _get_counter_address(f, "spec_row_count"), _get_counter_address(f, "spec_count")
    f.require(row_count.load(I64) < (1 << INDEX_BITS) - 1)
    number = row_count.load(I64) + 1
    row_count.store(number)
    row = _get_row_address(f, number)
    for k, word in enumerate(words):
        row.at(k, I64).store(word)
    row.at(SPEC_WORD, POINTER).store(f.incref(spec))
    _get_index_address(f, position).store(number.cast("trunc", ROW_NUMBER_TYPE))
    spec_count.store(spec_count.load(I64) + 1)


def _emit_new_spec(f: FunctionBuilder) -> None:
    """Emit `new_spec(dtype, ndim, dims)`: return a new spec, not in the table, with the slots that are always read. The arguments are
    those of `find_spec`.

    The function returns null for sizes, strides or element counts above `MAX_EXTENT`, and if memory runs out. `find_or_add_spec` calls the
    function.
    """
    dtype, ndim, dims = f.arguments
    size, is_dense = f.local(I64, f.i64(1)), f.local(I64, f.i64(1))

    def axis(j: Value) -> None:
        k = ndim - 1 - j
        n, stride = dims.at(k, I64).load(I64), dims.at(k + MAX_AXES, I64).load(I64)
        f.require(f.and_then(n <= MAX_EXTENT, lambda: f.and_then(stride <= MAX_EXTENT, lambda: stride >= -MAX_EXTENT)))
        count = size.load(I64)
        f.require(count <= MAX_EXTENT)
        is_dense.store(is_dense.load(I64) & (n.equals(1) | stride.equals(count)).cast("zext", I64))
        size.store(count * n)

    f.for_range(ndim, axis)
    f.require(size.load(I64) <= MAX_EXTENT)
    gapless = size.load(I64).equals(0) | is_dense.load(I64).equals(1)
    is_line = ndim.equals(1)
    shape = f.require_new(f.call("box_integers", POINTER, [dims, ndim]))
    is_plain = f.and_then(is_line, lambda: dims.at(MAX_AXES, I64).load(I64).equals(1))
    box_strides = lambda: [f.call("box_integers", POINTER, [dims.at(MAX_AXES, I64), ndim])]
    strides = f.require_new(f.choose(is_plain, lambda: [f.incref(f.load_object("(1,)"))], box_strides)[0])
    box_size = lambda: [f.call("PyLong_FromLongLong", POINTER, [size.load(I64)])]
    count = f.require_new(f.choose(is_line, lambda: [f.incref(f.tuple_item(shape, 0))], box_size)[0])
    spec = f.new_instance("Spec", shape=shape, strides=strides, size=count)
    slots = {"dtype": dtype, "is_contiguous": f.select_value(gapless, f.load_object("True"), f.load_object("False"))}
    slots |= {"constant_spec": f.load_object("None"), "is_writable": f.load_object("False")}
    for slot, x in slots.items():
        f.set_slot(spec, f"Spec.{slot}", f.incref(x))
    f.transfer_held(spec)
    f.emit_return(spec)


def _emit_find_python_spec(f: FunctionBuilder) -> None:
    """Emit `find_python_spec(dtype, shape, strides, spec)`: return the interned spec for the dtype `dtype` and the tuples `shape` and
    `strides`, as a new reference.

    On a miss, the table takes `spec`, or a new spec if `spec` is None. The function returns null for more than `MAX_AXES` axes, for items
    other than 64-bit integers, and if the table has no free row for `spec`. If it must build a new spec, it also returns null for sizes
    above `MAX_EXTENT`.
    """
    dtype, shape, strides, spec = f.arguments
    ndim, dims = f.load_word(shape, SIZE_OFFSET), new_dims(f)
    f.require(ndim <= MAX_AXES)

    for items, target in ((shape, dims), (strides, dims.at(MAX_AXES, I64))):
        unbox_tuple(f, items, ndim, target)
    words = _get_key_words(dtype, ndim, dims)
    key = [_compute_start_position(f, words), dtype, ndim, dims]
    f.return_if(f.is_object(spec, "None"), lambda: f.call("find_or_add_spec", POINTER, key))
    target = f.call("find_spec_position", I64, key)
    interned_spec = _load_indexed_spec(f, target)
    f.return_if(~f.is_null(interned_spec), lambda: f.incref(interned_spec))
    _insert_spec(f, target, words, spec)
    f.emit_return(f.incref(spec))


def _emit_python_find_spec(f: FunctionBuilder) -> None:
    """Emit `python_find_spec(dtype, shape, strides, spec)`, called from Python: return the result of `find_python_spec` for the same
    arguments, or None for null.
    """
    args = f.arguments[1]
    f.return_or_none(f.call("find_python_spec", POINTER, [args.at(k, POINTER).load(POINTER) for k in range(4)]))


def _emit_clear_specs(f: FunctionBuilder) -> None:
    """Emit `clear_specs()`, called from Python when the cache of layout keys is cleared: empty the table of specs, and return None.

    Rows are filled from the start again, unless a finalizer inserted a spec meanwhile.
    """
    row_count, spec_count = _get_counter_address(f, "spec_row_count"), _get_counter_address(f, "spec_count")

    def clear_position(k: Value) -> None:
        spec = _load_indexed_spec(f, k)

        def free() -> None:
            row = _get_indexed_row(f, k)
            f.for_range(f.i64(SPEC_WORD + 1), lambda word: row.at(word, I64).store(f.i64(0)))
            _get_index_address(f, k).store(f.constant(ROW_NUMBER_TYPE, 0))
            spec_count.store(spec_count.load(I64) - 1)
            f.decref(spec)

        f.emit_if(~f.is_null(spec), free)

    f.for_range(f.i64(1 << INDEX_BITS), clear_position)
    f.emit_if(spec_count.load(I64).equals(0), lambda: row_count.store(f.i64(0)))
    f.emit_return(f.incref(f.load_object("None")))


def _emit_box_integers(f: FunctionBuilder) -> None:
    """Emit `box_integers(words, count)`: return a new tuple of the first `count` 64-bit integers of the array at the address `words`,
    or null if memory runs out.
    """
    words, count = f.arguments
    integers = f.build_tuple(count, lambda k: f.call("PyLong_FromLongLong", POINTER, [words.at(k, I64).load(I64)]))
    f.emit_if(count > 0, lambda: f.untrack(integers))  # the collector would untrack this tuple, too: integers refer to no objects
    f.transfer_held(integers)
    f.emit_return(integers)
