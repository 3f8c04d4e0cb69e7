"""Reads of rows at a mask or at indices along the first axis (`x[key]`), and the row copies that writes share (`row_writes.py`). A copy
descriptor, integers in a bytes object (`copy_descriptor`), has the layouts of key and rows (`fastpath/copy_descriptors.py`); row offsets
are the bytes from the first row to each selected row.

For indices, the row offsets are computed first, since an index may be out of range; then the rows are copied. A mask's true elements are
counted first, and the result template for so many rows is looked up. Rows are then copied by the bits of 64-bit mask words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...codegen.llvm.builder import Module, Value, alignment, intrinsic
from ...codegen.llvm.types import DOUBLE, I1, I8, I16, I32, I64, POINTER, Type, vector
from ...dtypes import float64, int64
from ..copy_descriptors import (
    INDEX_DTYPES,
    KEY_COUNT_OFFSET,
    KEY_ITEMSIZE_OFFSET,
    KEY_KIND_OFFSET,
    KEY_STRIDE_OFFSET,
    MASK_KEY_KIND,
    MAX_SELECTED_BYTES,
    ROW_BYTES_OFFSET,
    ROW_STRIDE_OFFSET,
    TENSOR_ITEMSIZE_OFFSET,
)
from ..copy_descriptors import ROW_COUNT_OFFSET as KEY_ROW_COUNT_OFFSET
from ..object_layout import BYTES_CONTENT_OFFSET, SIZE_OFFSET, ObjectTable
from ..sized_template import MAX_AXES
from .block_allocator import get_data_address
from .function_builder import FunctionBuilder
from .instantiate_templates import find_data_recipe, new_template
from .node_creation import can_evaluate_early
from .node_evaluation import new_node_in_memory
from .pending_operations import compute_specs, find_template, has_plain_node
from .python_conversion import is_known_scalar, load_data_address
from .spec_table import find_spec, load_nbytes, new_dims, store_dense_strides
from .template_cache import find_cached_template, get_cache_table

CHECKED_INDEX_LANES = 8  # indices checked together in a vector
MIN_MEAN_RUN_LENGTH = 4  # average length of runs of true mask elements from which on each run is copied at once
COPY_TYPE_BY_ROW_BYTES = {1: I8, 2: I16, 4: I32, 8: I64, 16: vector(I64, 2)}  # row widths, in bytes, copied by a single load and store


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to read rows at a mask or at indices (`select_items`), and the row copies shared with writes.

    The functions emitted include `select_rows`, `add_rows`, `find_rows_template`, `cache_rows_template`, `compute_content`,
    `load_mask_bits`, `count_selected` and `convert_index_list`.
    """
    offset_parameters = [("size", I64), ("row_stride", I64), ("row_offsets", POINTER)]
    for dtype in INDEX_DTYPES:
        index_parameters = [("start", POINTER), ("count", I64), ("index_stride", I64), *offset_parameters]
        _emit_convert_indices(
            FunctionBuilder(module, objects, f"convert_indices_{dtype}", index_parameters, I64),
            COPY_TYPE_BY_ROW_BYTES[dtype.itemsize],
            "zext" if dtype.kind == "uint" else "sext",
        )
    _emit_convert_index_list(FunctionBuilder(module, objects, "convert_index_list", [("key", POINTER), *offset_parameters], I64))
    _emit_load_mask_bits(
        FunctionBuilder(module, objects, "load_mask_bits", [("mask", POINTER), ("first_element", I64), ("count", I64)], I64)
    )
    _emit_count_selected(FunctionBuilder(module, objects, "count_selected", [("mask", POINTER), ("count", I64)], I64))
    select_parameters = [("key", POINTER), ("node", POINTER), ("copy_descriptor", POINTER), ("row_offsets", POINTER)]
    _emit_select_rows(FunctionBuilder(module, objects, "select_rows", select_parameters, I64))
    row_parameters = [(name, POINTER) for name in ("packed_rows", "start", "row_offsets", "mask", "copy_descriptor")]
    for name, towards in _ADDRESS_ORDERS.items():
        _emit_copy_rows(
            FunctionBuilder(module, objects, f"{name}_rows", [*row_parameters, ("count", I64), ("packed_stride", I64)], I1), name, towards
        )
        word_parameters = [("packed_rows", POINTER), ("start", POINTER), ("row_stride", I64), ("width", I64), ("packed_stride", I64)]
        _emit_copy_masked_rows(FunctionBuilder(module, objects, f"{name}_masked_rows", [*word_parameters, ("bits", I64)], I1), towards)
    _emit_find_rows_template(FunctionBuilder(module, objects, "find_rows_template", [("template", POINTER), ("count", I64)]))
    _emit_cache_rows_template(FunctionBuilder(module, objects, "cache_rows_template", [("row_spec", POINTER), ("row_count", POINTER)], I1))
    _emit_new_scalar_node(FunctionBuilder(module, objects, "new_scalar_node", [("x", POINTER)]))
    _emit_compute_content(FunctionBuilder(module, objects, "compute_content", [("x", POINTER), ("is_needed", I1)]))
    _emit_select_items(FunctionBuilder(module, objects, "select_items", [("x", POINTER), ("key", POINTER)]))
    _emit_add_rows(
        FunctionBuilder(module, objects, "add_rows", [*row_parameters, ("count", I64), ("packed_stride", I64), ("dtype", POINTER)], I1)
    )


# Row offsets, in bytes from the first row


def _emit_convert_indices(f: FunctionBuilder, kind: Type, extend: str) -> None:
    """Emit `convert_indices_DTYPE(start, count, index_stride, size, row_stride, row_offsets)`: write the byte offset of the row for each of
    `count` indices to the array `row_offsets`.

    The function returns `count`, or 0 if an index is out of range for `size` rows. The indices at `start` are `index_stride` bytes apart,
    the rows `row_stride` bytes. Negative indices count from the end. `kind` is the LLVM type of the indices, and `extend` the instruction
    that extends them to 64 bits. Contiguous indices are checked `CHECKED_INDEX_LANES` at a time. `select_rows` calls the function.
    """
    start, count, index_stride, size, row_stride, row_offsets = f.arguments
    is_contiguous, sizes, steps = (
        index_stride.equals(alignment(kind)),
        size.splat(CHECKED_INDEX_LANES),
        row_stride.splat(CHECKED_INDEX_LANES),
    )

    def convert_vector(k: Value, wrong: Value) -> Value:
        indices = start.at(k * CHECKED_INDEX_LANES * index_stride, I8).load(vector(kind, CHECKED_INDEX_LANES), align=1)
        index = indices if kind is I64 else indices.cast(extend, I64)
        index = f.select_value(index < 0, index + sizes, index)
        row_offsets.at(k * CHECKED_INDEX_LANES, I64).store(index * steps, align=8)
        return wrong | ((index < 0) | (index >= sizes)).cast("sext", I64)

    vector_count = f.select_value(is_contiguous, count.logical_shift_right(CHECKED_INDEX_LANES.bit_length() - 1), f.i64(0))
    wrong = f.fold_range(vector_count, f.zeros(vector(I64, CHECKED_INDEX_LANES)), convert_vector)
    f.require(intrinsic("vector.reduce.or", wrong, result=I64, suffix=wrong.type.mangled).equals(0))

    def convert_index(j: Value) -> None:
        k = vector_count * CHECKED_INDEX_LANES + j
        index = start.at(k * index_stride, I8).load(kind)
        _store_row_offset(f, index if kind is I64 else index.cast(extend, I64), k, size, row_stride, row_offsets)

    f.for_range(count - vector_count * CHECKED_INDEX_LANES, convert_index)
    f.emit_return(count)


def _emit_convert_index_list(f: FunctionBuilder) -> None:
    """Emit `convert_index_list(key, size, row_stride, row_offsets)`: write the byte offset of the row for each integer in the list `key` to
    the array `row_offsets`.

    There are `size` rows, `row_stride` bytes apart. Negative indices count from the end. The function returns the number of indices, or 0
    for an empty list, if an index is out of range, or if an item is not an integer. `select_rows` calls the function.
    """
    key, size, row_stride, row_offsets = f.arguments
    count = f.list_length(key)

    def convert_item(k: Value) -> None:
        item = f.list_item(key, k)
        f.require(f.is_instance(item, "int"))
        index, fits = f.unbox_checked(item)
        f.require(fits)
        _store_row_offset(f, index, k, size, row_stride, row_offsets)

    f.for_range(count, convert_item)
    f.emit_return(count)


def _store_row_offset(f: FunctionBuilder, index: Value, k: Value, size: Value, row_stride: Value, row_offsets: Value) -> None:
    """Emit code that writes the byte offset of row `index` to `row_offsets[k]`, for `size` rows that are `row_stride` bytes apart. `index`,
    `k`, `size` and `row_stride` are `i64`; `row_offsets` is an address.

    Negative indices count from the end. The emitted function returns null or 0 for an index out of range.
    """
    index = f.select_value(index < 0, index + size, index)
    f.require(f.and_then(index >= 0, lambda: index < size))
    row_offsets.at(k, I64).store(index * row_stride)


def _emit_load_mask_bits(f: FunctionBuilder) -> None:
    """Emit `load_mask_bits(mask, first_element, count)`: return an `i64` with the elements `first_element` to `count - 1` of a mask, fewer
    than 64, as bits.

    `mask` is the address of the mask's bytes. Bit k is set if element `first_element + k` is true.
    """
    mask, first_element, count = f.arguments
    start = mask.at(first_element, I8)

    def bit(k: Value, bits: Value) -> Value:
        return bits | (start.at(k, I8).load(I8).differs(0).cast("zext", I64) << k)

    f.emit_return(f.fold_range(count - first_element, f.i64(0), bit))


def _for_each_mask_word(
    f: FunctionBuilder, mask: Value, count: Value, begin: Value, visit_word: Callable[[Value, Value, Value], Value]
) -> Value:
    """Emit a loop over a mask of `count` bytes at the address `mask`, in words of 64 elements. Return the last result of `visit_word`, at
    run time.

    `visit_word` emits code that runs once for a word. It takes the number of a word, the word's bits and the last result, which is `begin`
    at first; it returns the next result. Bit j of a word is set if element j of its 64 elements is true.
    """
    word_count = count.logical_shift_right(6)
    result = f.fold_range(
        word_count,
        begin,
        lambda k, so_far: visit_word(k, mask.at(k * 64, I8).load(vector(I8, 64), align=1).differs(0).bitcast(I64), so_far),
    )
    visit_tail = lambda: [visit_word(word_count, f.call("load_mask_bits", I64, [mask, word_count * 64, count]), result)]
    return f.choose((count & 63).equals(0), lambda: [result], visit_tail)[0]


def _emit_count_selected(f: FunctionBuilder) -> None:
    """Emit `count_selected(mask, count)`: return the number of true elements of a mask of `count` elements at the address `mask`.
    `select_rows` calls the function.
    """
    mask, count = f.arguments
    f.emit_return(_for_each_mask_word(f, mask, count, f.i64(0), lambda _, bits, total: total + intrinsic("ctpop", bits)))


def _emit_select_rows(f: FunctionBuilder) -> None:
    """Emit `select_rows(key, node, copy_descriptor, row_offsets)`: return the number of rows that the key of `x[key]` selects, an `i64`; 0
    if an index is out of range, if a list has an item that is no integer, or for a dtype that is no index dtype.

    `key` is a tensor (a mask or indices) or a list of integers; `node` is the evaluated node of a tensor. `copy_descriptor` is the copy
    descriptor. For indices the function writes the byte offsets of the rows to the address `row_offsets`; for a mask it writes nothing.
    `select_items` and `write_selection` call the function.
    """
    key, node, copy_descriptor, row_offsets = f.arguments
    program = f.address_at(copy_descriptor, BYTES_CONTENT_OFFSET)
    row_arguments = [f.load_word(program, KEY_ROW_COUNT_OFFSET), f.load_word(program, ROW_STRIDE_OFFSET), row_offsets]
    f.return_if(f.is_instance(key, "list"), lambda: f.call("convert_index_list", I64, [key, *row_arguments]))
    start, count, kind = (
        _get_key_address(f, key, node, program),
        f.load_word(program, KEY_COUNT_OFFSET),
        f.load_word(program, KEY_KIND_OFFSET),
    )
    f.return_if(kind.equals(MASK_KEY_KIND), lambda: f.call("count_selected", I64, [start, count]))
    for number, dtype in enumerate(INDEX_DTYPES):
        index_arguments = [start, count, f.load_word(program, KEY_STRIDE_OFFSET), *row_arguments]
        f.return_if(
            kind.equals(number),
            lambda dtype=dtype, index_arguments=index_arguments: f.call(f"convert_indices_{dtype}", I64, index_arguments),  # type: ignore[misc]
        )
    f.decline()


def _get_key_address(f: FunctionBuilder, key: Value, node: Value, program: Value) -> Value:
    """Emit the address of the first element of `key`, a tensor with the evaluated `node`, whose slot `offset` must be set. Return the
    address. `program` is the address of the copy descriptor.
    """
    offset = f.unbox_integer(f.get_slot(key, "Tensor.offset")) * f.load_word(program, KEY_ITEMSIZE_OFFSET)
    return load_data_address(f, f.get_slot(node, "Node.buffer")).at(offset, I8)


# Copying: `packed_rows` are rows `packed_stride` bytes apart; `start` is the address of the rows that the offsets refer to


def _order_for_read(tensor_row: Value, packed_row: Value) -> tuple[Value, Value]:
    """Return the addresses in the order (written, read) for a copy from the tensor's row at `tensor_row` to the packed row
    at `packed_row`.
    """
    return packed_row, tensor_row


def _order_for_write(tensor_row: Value, packed_row: Value) -> tuple[Value, Value]:
    """Return the addresses in the order (written, read) for a copy to the tensor's row at `tensor_row` from the packed row
    at `packed_row`.
    """
    return tensor_row, packed_row


_ADDRESS_ORDERS = {"read": _order_for_read, "write": _order_for_write}
AddressOrder = Callable[[Value, Value], tuple[Value, Value]]  # the pair (written, read)


def emit_by_row_width(f: FunctionBuilder, width: Value, emit_loop: Callable[[Callable[[Value, Value], object]], object]) -> None:
    """Emit a copy loop for each row width in `COPY_TYPE_BY_ROW_BYTES`, and one for all other widths. `width` selects the loop at run time.

    `emit_loop(copy)` emits one loop. Its argument `copy(to, source)` emits the copy of a row of `width` bytes between two addresses: a load
    and a store, or `memcpy` for other widths. After the loop the emitted function returns true, for success.
    """

    def emit_copies(copy: Callable[[Value, Value], object]) -> Value:
        emit_loop(copy)
        return f.constant(I1, True)

    for nbytes, kind in COPY_TYPE_BY_ROW_BYTES.items():
        copy = lambda to, source, kind=kind: to.store(source.load(kind, align=1), align=1)
        f.return_if(width.equals(nbytes), lambda copy=copy: emit_copies(copy))  # type: ignore[misc]
    f.emit_return(emit_copies(lambda to, source: f.call("memcpy", POINTER, [to, source, width])))


def _emit_copy_rows(f: FunctionBuilder, name: str, towards: AddressOrder) -> None:
    """Emit `NAME_rows(packed_rows, start, row_offsets, mask, copy_descriptor, count, packed_stride)`: copy rows between a tensor and packed
    rows; return true. The rows of the tensor are those that a mask selects, or, if `mask` is null, the `count` rows at the byte offsets in
    `row_offsets`.

    NAME is `name`, "read" or "write": `read_rows` copies from the tensor at the address `start` to the rows at `packed_rows`, which are
    `packed_stride` bytes apart, and `write_rows` back. `towards` orders the two addresses accordingly. A `packed_stride` of 0 repeats one
    packed row. `copy_descriptor` is the copy descriptor, and `mask` the address of the first byte of a mask. `select_items` and
    `write_selection` call the function.
    """
    packed_rows, start, row_offsets, mask, copy_descriptor, count, packed_stride = f.arguments
    program = f.address_at(copy_descriptor, BYTES_CONTENT_OFFSET)
    step, width = f.load_word(program, ROW_STRIDE_OFFSET), f.load_word(program, ROW_BYTES_OFFSET)

    def copy_by_mask() -> Value:
        def copy_word(k: Value, bits: Value, packed_row: Value) -> Value:
            def move() -> list[Value]:
                f.call(f"{name}_masked_rows", I1, [packed_row, start.at(k * 64 * step, I8), step, width, packed_stride, bits])
                return [packed_row.at(intrinsic("ctpop", bits) * packed_stride, I8)]

            return f.choose(bits.equals(0), lambda: [packed_row], move)[0]

        _for_each_mask_word(f, mask, f.load_word(program, KEY_COUNT_OFFSET), packed_rows, copy_word)
        return f.constant(I1, True)

    def emit_loop(copy: Callable[[Value, Value], object]) -> None:
        f.for_range(count, lambda k: copy(*towards(start.at(row_offsets.at(k, I64).load(I64), I8), packed_rows.at(k * packed_stride, I8))))

    f.return_if(~f.is_null(mask), copy_by_mask)
    emit_by_row_width(f, width, emit_loop)


def _emit_add_rows(f: FunctionBuilder) -> None:
    """Emit `add_rows(packed_rows, start, row_offsets, mask, copy_descriptor, count, packed_stride, dtype)`: add `count` packed rows to rows
    of the tensor at the address `start`; return true.

    The packed rows are at `packed_rows`, `packed_stride` bytes apart. The rows of the tensor are at the byte offsets in `row_offsets`, as
    long as the copy descriptor `copy_descriptor` says. Rows are added in order, so repeated rows accumulate. Unless `mask` is null and
    `dtype` is float64 or int64, the function returns false and does nothing. `accumulate_selection` calls the function.
    """
    packed_rows, start, row_offsets, mask, copy_descriptor, count, packed_stride, dtype = f.arguments
    f.require(f.is_null(mask))
    width = f.load_word(f.address_at(copy_descriptor, BYTES_CONTENT_OFFSET), ROW_BYTES_OFFSET).logical_shift_right(3)

    def added(kind: Type) -> Value:
        def row(k: Value) -> None:
            to, source = start.at(row_offsets.at(k, I64).load(I64), I8), packed_rows.at(k * packed_stride, I8)
            f.for_range(width, lambda j: to.at(j, kind).store(to.at(j, kind).load(kind) + source.at(j, kind).load(kind)))

        f.for_range(count, row)
        return f.constant(I1, True)

    f.return_if(f.is_object(dtype, float64.name), lambda: added(DOUBLE))
    f.return_if(f.is_object(dtype, int64.name), lambda: added(I64))
    f.decline()


def _emit_copy_masked_rows(f: FunctionBuilder, towards: AddressOrder) -> None:
    """Emit `read_masked_rows(packed_rows, start, row_stride, width, packed_stride, bits)` or `write_masked_rows`: copy the rows, out of 64,
    with a set bit in `bits`; always return true. `read_rows` and `write_rows` call the function for a mask.

    The 64 rows at `start` have `width` bytes and are `row_stride` bytes apart; the packed rows at `packed_rows` are `packed_stride` bytes
    apart. At least one bit must be set. `towards` orders the addresses for a read from, or a write to, the rows at `start`.
    """
    packed_rows, start, row_stride, width, packed_stride, bits = f.arguments

    def copy_runs() -> Value:
        def copy_run(state: Sequence[Value]) -> Sequence[Value]:
            left, packed_row = state
            run_start = f.call("llvm.cttz.i64", I64, [left, f.constant(I1, True)])
            rows = f.call("llvm.cttz.i64", I64, [~left.logical_shift_right(run_start), f.constant(I1, False)])
            f.call("memcpy", POINTER, [*towards(start.at(run_start * width, I8), packed_row), width * rows])
            return [left & (left + (f.i64(1) << run_start)), packed_row.at(rows * width, I8)]

        f.iterate_while([bits, packed_rows], lambda state: state[0].differs(0), copy_run)
        return f.constant(I1, True)

    runs = intrinsic("ctpop", bits & ~(bits << 1))
    gapless = f.and_then(row_stride.equals(width), lambda: packed_stride.equals(width))
    f.return_if(f.and_then(runs * MIN_MEAN_RUN_LENGTH <= intrinsic("ctpop", bits), lambda: gapless), copy_runs)

    def emit_loop(copy: Callable[[Value, Value], object]) -> None:
        def row(k: Value, left: Value) -> Value:
            bit_index = f.call("llvm.cttz.i64", I64, [left, f.constant(I1, True)])
            copy(*towards(start.at(bit_index * row_stride, I8), packed_rows.at(k * packed_stride, I8)))
            return left & (left - 1)

        f.fold_range(intrinsic("ctpop", bits), bits, row)

    emit_by_row_width(f, width, emit_loop)


# Tensors


def _emit_find_rows_template(f: FunctionBuilder) -> None:
    """Emit `find_rows_template(template, count)`: return the result template of `count` rows, as a new reference, or null if none can be
    made.

    For indices this is `template`, the template of the selection. For a mask the result is cached by the number of rows; on a miss
    `cache_rows_template` builds it, or Python code (`copy_descriptors.record_row_count`) does. `select_items` and `write_selection` call
    the function.
    """
    template, count = f.arguments
    f.hold_borrowed(template)
    is_mask = f.load_word(f.address_at(f.get_slot(template, "ResultTemplate.launch_record"), BYTES_CONTENT_OFFSET), KEY_KIND_OFFSET).equals(
        MASK_KEY_KIND
    )
    f.return_if(~is_mask, lambda: template)
    number = f.box_integer(count)
    row_spec = f.hold_borrowed(f.get_slot(template, "ResultTemplate.spec"))

    def look() -> Value:
        return find_cached_template(f, get_cache_table(f, row_spec, "call_templates"), f.load_object("'row_count'"), number)

    def make() -> None:
        f.emit_if(~f.call("cache_rows_template", I1, [row_spec, number]), lambda: f.call_python("record_row_count", template, number))

    rows_template = f.incref(f.look_up_or_call(look, make))
    f.release_held(number, row_spec, template)
    f.emit_return(rows_template)


def _emit_cache_rows_template(f: FunctionBuilder) -> None:
    """Emit `cache_rows_template(row_spec, row_count)`: make the result template of a tensor with `row_count` rows of the spec `row_spec`,
    and cache it with `row_spec`; return true.

    `row_count` is a Python integer. The function returns false for more than `MAX_SELECTED_BYTES` bytes, for `MAX_AXES` axes of a row or
    more, and if memory runs out.
    """
    row_spec, row_count = f.arguments
    count, ndim, dims = f.unbox_integer(row_count), f.load_word(f.get_slot(row_spec, "Spec.shape"), SIZE_OFFSET), new_dims(f)
    f.require(ndim < MAX_AXES)
    f.require(count <= MAX_SELECTED_BYTES)
    dims.at(0, I64).store(count)

    f.for_range(ndim, lambda k: dims.at(k + 1, I64).store(f.unbox_integer(f.tuple_item(f.get_slot(row_spec, "Spec.shape"), k))))
    store_dense_strides(f, ndim + 1, dims)
    spec = find_spec(f, f.get_slot(row_spec, "Spec.dtype"), ndim + 1, dims)
    f.require(load_nbytes(f, spec) <= MAX_SELECTED_BYTES)
    recipe = find_data_recipe(f, spec)
    template = new_template(f, "InMemoryTemplate", spec=spec, recipe=recipe, offset=f.load_object("0"))
    f.require(
        f.call("cache_template", I1, [*get_cache_table(f, row_spec, "call_templates"), f.load_object("'row_count'"), row_count, template])
    )
    f.release_held(template, recipe, spec)
    f.emit_return(f.constant(I1, True))


def _emit_new_scalar_node(f: FunctionBuilder) -> None:
    """Emit `new_scalar_node(x)`: return a new node in memory with the number of the known scalar `x` (a 0-d tensor whose storage holds a
    Python number), a new reference; null for other tensors, and while a call is recorded.
    """
    (x,) = f.arguments
    storage, dtype = f.get_slot(x, "Tensor.storage"), f.get_slot(x, "Tensor.dtype")
    f.require(f.and_then(is_known_scalar(f, storage), lambda: f.get_slot(storage, "ScalarStorage._dtype").equals(dtype)))
    f.require(can_evaluate_early(f))
    recipe = find_data_recipe(f, f.tuple_item(f.load_object("0-d specs"), f.unbox_integer(f.get_slot(dtype, "DType.rank"))))
    buffer = f.require_new(f.call("new_buffer", POINTER, [recipe]))
    number = f.get_slot(storage, "ScalarStorage._number")  # read late: Python code may have run
    f.require(f.call("store_number", I1, [load_data_address(f, buffer), dtype, f.i64(0), number]))
    node = new_node_in_memory(f, recipe, buffer)
    f.decref(recipe)
    f.transfer_held(node)
    f.emit_return(node)


def _emit_compute_content(f: FunctionBuilder) -> None:
    """Emit `compute_content(x, is_needed)`: evaluate the node of the storage of the tensor `x`, and return the node, as a new reference.
    For a known scalar, return a new node in memory.

    The function returns null for a node of another dtype than `x`, or with a tape node. If the fast path cannot evaluate the node, Python
    code does if `is_needed`; otherwise the function returns null.
    """
    x, is_needed = f.arguments
    storage = f.get_slot(x, "Tensor.storage")
    f.return_if(is_known_scalar(f, storage), lambda: f.call("new_scalar_node", POINTER, [x]))
    f.require(has_plain_node(f, storage))
    node = f.hold_borrowed(f.get_slot(storage, "Storage.node"))
    f.require(f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.dtype").equals(f.get_slot(x, "Tensor.dtype")))
    f.require(f.is_object(f.get_slot(node, "Node.tape_node"), "None"))

    def ask() -> None:
        f.require(is_needed)
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        answer = f.require_new(f.call("PyObject_CallOneArg", POINTER, [f.load_object("compute_if_possible"), node]))
        f.require(f.is_object(answer, "True"))
        f.release_held(answer)

    f.emit_if(~f.call("compute_node", I1, [node]), ask)
    f.transfer_held(node)
    f.emit_return(node)


def find_selection_template(f: FunctionBuilder, x: Value, key: Value, may_be_pending: bool = False) -> Value:
    """Emit a lookup of the result template for rows of the tensor `x` selected by `key`, a tensor or a list.

    Return the template, which is held; its launch record is the copy descriptor. The emitted function returns null or 0 on a miss, and if
    the rows cannot be copied (a template without a descriptor). Unless `may_be_pending`, a Python bool, is true, it also does so for
    pending indices, and for a key tensor in another storage than a `Storage`. A mask may be pending.
    """
    f.require(f.is_instance(x, "Tensor"))
    compute_specs(f, x, key)

    def of_tensor() -> list[Value]:
        f.require(f.is_instance(key, "Tensor"))
        return [f.incref(f.get_slot(key, "Tensor.spec"))]

    def of_list() -> list[Value]:
        return [f.call("PyLong_FromLongLong", POINTER, [f.list_length(key)])]

    is_list = f.is_instance(key, "list")
    key_signature = f.require_new(f.choose(is_list, of_list, of_tensor)[0])
    table = get_cache_table(f, f.get_slot(x, "Tensor.spec"), "call_templates")
    template = f.hold_borrowed(
        find_template(f, table, f.load_object("'select_rows'"), key_signature, lambda: [x, f.select_value(is_list, key_signature, key)])
    )
    f.decline_if(f.is_object(f.get_slot(template, "ResultTemplate.launch_record"), "NO_LAUNCH_RECORD"))
    f.release_held(key_signature)

    def require_no_pending_key() -> None:
        """Emit an early exit for pending indices: they are checked when they are used, and are not evaluated early for this."""
        storage = f.get_slot(key, "Tensor.storage")
        f.require(f.is_instance(storage, "Storage"))
        waits = f.is_object(f.get_slot(f.get_slot(storage, "Storage.node"), "Node.buffer"), "None")
        f.decline_if(f.and_then(waits, lambda: ~f.is_object(f.get_slot(f.get_slot(key, "Tensor.spec"), "Spec.dtype"), "bool")))

    if not may_be_pending:
        f.emit_if(f.is_instance(key, "Tensor"), require_no_pending_key)
    return template


def get_first_address(f: FunctionBuilder, x: Value, buffer: Value, descriptor: Value) -> Value:
    """Emit the address of the first element of the tensor `x`, whose slot `offset` must be set, in `buffer`, the `Buffer` of the tensor's
    storage. Return the address. `descriptor` is the address of the copy descriptor of the tensor's rows.
    """
    return load_data_address(f, buffer).at(
        f.unbox_integer(f.get_slot(x, "Tensor.offset")) * f.load_word(descriptor, TENSOR_ITEMSIZE_OFFSET), I8
    )


def compute_key_node(f: FunctionBuilder, key: Value, list_value: Value) -> Value:
    """Emit the evaluation of the node of `key`, if `key` is a tensor. Return the node, or for a list the object `list_value` in its place;
    the reference is held. The emitted function returns null or 0 if `compute_content` gives no node, as for a key on the autograd tape.
    """
    is_list = f.is_instance(key, "list")
    return f.require_new(
        f.choose(is_list, lambda: [f.incref(list_value)], lambda: [f.call("compute_content", POINTER, [key, f.constant(I1, True)])])[0]
    )


def allocate_row_offsets(f: FunctionBuilder, descriptor: Value) -> Value:
    """Emit the allocation of a block of memory for the row offsets of a key's indices; for a mask the block has no room. Return the block,
    which is held (see `FunctionBuilder.hold_owned`). The emitted function returns null or 0 if memory runs out.

    `descriptor` is the address of the copy descriptor.
    """
    size = f.select_value(
        f.load_word(descriptor, KEY_KIND_OFFSET).equals(MASK_KEY_KIND), f.i64(0), f.load_word(descriptor, KEY_COUNT_OFFSET) * 8
    )
    return f.require_new(f.call("allocate_block", POINTER, [size]))


def get_mask_address(f: FunctionBuilder, key: Value, node: Value, descriptor: Value) -> Value:
    """Emit the address of the first element of `key`, if it is a mask with the evaluated `node`. Return the address, or null for indices.
    `descriptor` is the address of the copy descriptor.
    """
    is_mask = f.load_word(descriptor, KEY_KIND_OFFSET).equals(MASK_KEY_KIND)
    return f.choose(is_mask, lambda: [_get_key_address(f, key, node, descriptor)], lambda: [f.null()])[0]


def _emit_select_items(f: FunctionBuilder) -> None:
    """Emit `select_items(x, key)`: return `x[key]`, a new tensor of the rows that `key`, a tensor or a list, selects; null to leave the
    call to the fallback.

    The rows are copied at once. The function returns null if no row is selected, and where `find_selection_template` or `compute_content`
    declines. `select_item` calls the function.
    """
    x, key = f.arguments
    template = find_selection_template(f, x, key)
    copy_descriptor = f.get_slot(template, "ResultTemplate.launch_record")
    program = f.address_at(copy_descriptor, BYTES_CONTENT_OFFSET)
    node = f.require_new(f.call("compute_content", POINTER, [x, f.load_word(program, KEY_KIND_OFFSET).equals(MASK_KEY_KIND)]))
    key_node = compute_key_node(f, key, node)
    block = allocate_row_offsets(f, program)
    row_offsets = get_data_address(f, block)
    count = f.call("select_rows", I64, [key, key_node, copy_descriptor, row_offsets])
    f.require(count > 0)
    rows = f.require_new(f.call("find_rows_template", POINTER, [template, count]))
    out = f.require_new(f.call("allocate_result", POINTER, [f.get_slot(rows, "RecipeTemplate.recipe")]))
    start, width = get_first_address(f, x, f.get_slot(node, "Node.buffer"), program), f.load_word(program, ROW_BYTES_OFFSET)
    f.call(
        "read_rows",
        I1,
        [load_data_address(f, out), start, row_offsets, get_mask_address(f, key, key_node, program), copy_descriptor, count, width],
    )
    result_node = new_node_in_memory(f, f.get_slot(rows, "RecipeTemplate.recipe"), out)
    spec = f.incref(f.get_slot(rows, "ResultTemplate.spec"))
    f.transfer_held(result_node)
    f.release_held(block, key_node, node, template, rows)
    f.emit_return(f.call("new_tensor", POINTER, [result_node, spec]))
