"""Writes at a mask or at indices along the first axis (`x[key] = value`). A value is rows, a single row for each index, or a number. A copy
descriptor, integers in a bytes object, has the layouts of key and rows (`fastpath/copy_descriptors.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I8, I64, POINTER
from ...dtypes import float64, int64
from ..copy_descriptors import KEY_KIND_OFFSET, MASK_KEY_KIND, ROW_BYTES_OFFSET, ROWS_DISJOINT_OFFSET, TENSOR_ITEMSIZE_OFFSET
from ..object_layout import BYTES_CONTENT_OFFSET, SIZE_OFFSET, ObjectTable
from .assignment import compute_storage, require_number, require_own_memory
from .block_allocator import get_data_address
from .function_builder import FunctionBuilder
from .pending_operations import compute_specs
from .row_selection import allocate_row_offsets, compute_key_node, find_selection_template, get_first_address, get_mask_address
from .spec_table import load_nbytes


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to write rows at a mask or at indices (`write_selection`), or accumulate rows
    (`accumulate_selection`).
    """
    for name, adds in (("write_selection", False), ("accumulate_selection", True)):
        _emit_write_selection(FunctionBuilder(module, objects, name, [(name, POINTER) for name in ("x", "key", "value")]), adds)


def _emit_write_selection(f: FunctionBuilder, adds: bool) -> None:
    """Emit `write_selection(x, key, value)` for `x[key] = value`, or, if `adds`, `accumulate_selection`, which adds rows to the rows at
    indices (`index_add_`).

    `key` is a tensor, a mask or indices along the first axis, or a list of integers. `value` is as many rows as the key selects, a single
    row, or a number, also as a tensor with one element. A tensor must have the dtype of `x`, and several rows must be in another storage.
    `accumulate_selection` takes only float64 and int64, and no masks. The function returns None as a new reference, or null, before a
    write, to leave the work to the fallback. Null is also the result where `find_selection_template` or `require_own_memory` declines, if
    no row is selected, and for rows of `x` that overlap. `assign_item` and the entry of `Tensor.index_add_` call the function.
    """
    x, key, value = f.arguments
    template = find_selection_template(f, x, key, may_be_pending=adds)
    compute_specs(f, value)
    copy_descriptor = f.get_slot(template, "ResultTemplate.launch_record")
    program = f.address_at(copy_descriptor, BYTES_CONTENT_OFFSET)
    f.require(f.load_word(program, ROWS_DISJOINT_OFFSET).differs(0))
    storage = f.hold_borrowed(f.get_slot(x, "Tensor.storage"))
    f.require(f.is_instance(storage, "Storage"))
    key_node = compute_key_node(f, key, f.load_object("None"))
    dtype, width = f.get_slot(x, "Tensor.dtype"), f.load_word(program, ROW_BYTES_OFFSET)
    if adds:
        f.require(f.is_object(dtype, float64.name) | f.is_object(dtype, int64.name))
        f.require(f.load_word(program, KEY_KIND_OFFSET).differs(MASK_KEY_KIND))

    def of_tensor() -> Value:
        f.require(f.get_slot(value, "Tensor.dtype").equals(dtype))
        return f.require_new(f.call("compute_content", POINTER, [value, f.constant(I1, True)]))

    def of_rows() -> list[Value]:
        f.decline_if(f.get_slot(value, "Tensor.storage").equals(storage))
        node = of_tensor()
        f.transfer_held(node)
        return [node, get_first_address(f, value, f.get_slot(node, "Node.buffer"), program), width]

    def allocate_row(source: Value, fill: Callable[[Value], object]) -> list[Value]:
        """Emit the allocation of a row, filled by the code of `fill`, and the release of `source`. Return the row's block, its address, and
        the distance 0 to the next row.
        """
        row = f.require_new(f.call("allocate_block", POINTER, [width]))
        start = get_data_address(f, row)
        fill(start)
        f.release_held(source)
        f.transfer_held(row)
        return [row, start, f.i64(0)]

    def of_row() -> list[Value]:
        """Emit a copy of the single row `value`, since the row may be among the written rows. Return the same as `allocate_row`."""
        node = of_tensor()
        value_address = get_first_address(f, value, f.get_slot(node, "Node.buffer"), program)
        return allocate_row(node, lambda start: f.call("memcpy", POINTER, [start, value_address, width]))

    def of_number() -> list[Value]:
        number = require_number(f, value, dtype)

        def fill(start: Value) -> None:
            f.require(f.call("store_number", I1, [start, dtype, f.i64(0), number]))
            _repeat_bytes(f, start, f.load_word(program, TENSOR_ITEMSIZE_OFFSET), width)

        return allocate_row(number, fill)

    is_tensor = f.is_instance(value, "Tensor")
    several = f.and_then(is_tensor, lambda: f.get_slot(f.get_slot(value, "Tensor.spec"), "Spec.size").differs(f.load_object("1")))
    is_row = f.and_then(several, lambda: _is_single_row(f, x, key, value, program))
    source, value_rows, packed_stride = f.choose(several, lambda: f.choose(is_row, of_row, of_rows), of_number)
    f.hold_owned(source)
    block = allocate_row_offsets(f, program)
    row_offsets = get_data_address(f, block)
    count = f.call("select_rows", I64, [key, key_node, copy_descriptor, row_offsets])
    f.require(count > 0)

    def are_as_many() -> None:
        rows = f.require_new(f.call("find_rows_template", POINTER, [template, count]))
        f.require(f.get_slot(rows, "ResultTemplate.spec").equals(f.get_slot(value, "Tensor.spec")))
        f.release_held(rows)

    f.emit_if(f.and_then(several, lambda: ~is_row), are_as_many)
    compute_storage(f, storage)
    buffer = require_own_memory(f, storage, key_node, dtype)
    rows = [
        value_rows,
        get_first_address(f, x, buffer, program),
        row_offsets,
        get_mask_address(f, key, key_node, program),
        copy_descriptor,
        count,
        packed_stride,
    ]
    f.call(*("add_rows", I1, [*rows, dtype]) if adds else ("write_rows", I1, rows))
    f.release_held(block, source, key_node, storage, template)
    f.emit_return(f.incref(f.load_object("None")))


def _is_single_row(f: FunctionBuilder, x: Value, key: Value, value: Value, program: Value) -> Value:
    """Emit a test whether `value` is a contiguous vector, and the key selects rows of `x` that are vectors with as many bytes. Return the
    result, an `i1`.

    `program` is the address of the copy descriptor of the rows.
    """

    def ndim(y: Value) -> Value:
        return f.load_word(f.get_slot(f.get_slot(y, "Tensor.spec"), "Spec.shape"), SIZE_OFFSET)

    spec, is_mask = f.get_slot(value, "Tensor.spec"), f.load_word(program, KEY_KIND_OFFSET).equals(MASK_KEY_KIND)
    (axes,) = f.choose(is_mask, lambda: [ndim(key)], lambda: [f.i64(1)])
    is_vector = f.and_then(ndim(value).equals(1), lambda: ndim(x).equals(axes + 1))
    is_contiguous = f.and_then(is_vector, lambda: f.is_object(f.get_slot(spec, "Spec.is_contiguous"), "True"))
    return f.and_then(is_contiguous, lambda: load_nbytes(f, spec).equals(f.load_word(program, ROW_BYTES_OFFSET)))


def _repeat_bytes(f: FunctionBuilder, start: Value, item: Value, width: Value) -> None:
    """Emit code to repeat the first `item` bytes at the address `start` over a row of `width` bytes, a multiple of `item`. Return None."""

    def double(state: Sequence[Value]) -> list[Value]:
        (filled,) = state
        nbytes = f.select_value(filled < width - filled, filled, width - filled)
        f.call("memcpy", POINTER, [start.at(filled, I8), start, nbytes])
        return [filled + nbytes]

    f.iterate_while([item], lambda state: state[0] < width, double)
