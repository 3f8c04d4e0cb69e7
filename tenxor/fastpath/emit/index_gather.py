"""Indexing by arrays of indices (a gather): the check of indices in memory, and the replay of a recorded, pending gather."""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I8, I64, POINTER, Type
from ..copy_descriptors import INDEX_DTYPES
from ..object_layout import BYTES_CONTENT_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .pending_operations import load_computed_slot
from .python_conversion import load_data_address
from .row_selection import COPY_TYPE_BY_ROW_BYTES

# Byte offsets of the fields of an index array in a launch record: the number of its dtype, its element count (0: do not check), the bytes
# of an element, the stride in bytes, and the size of the indexed axis.
DTYPE_OFFSET, COUNT_OFFSET, ITEMSIZE_OFFSET, STRIDE_OFFSET, EXTENT_OFFSET, INDEX_ARRAY_BYTES = (8 * k for k in range(6))


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to check indices in memory (`check_index_tensor`, `check_indices_DTYPE`) and replay a gather
    (`gather_elements`).
    """
    for dtype in INDEX_DTYPES:
        index_parameters = [("start", POINTER), ("count", I64), ("stride", I64), ("size", I64)]
        _emit_check_indices(
            FunctionBuilder(module, objects, f"check_indices_{dtype}", index_parameters, I1),
            COPY_TYPE_BY_ROW_BYTES[dtype.itemsize],
            "zext" if dtype.kind == "uint" else "sext",
        )
    _emit_check_index_tensor(FunctionBuilder(module, objects, "check_index_tensor", [("key", POINTER), ("program", POINTER)], I1))
    _emit_gather_elements(FunctionBuilder(module, objects, "gather_elements", [("x", POINTER), ("indexers", POINTER), ("count", I64)]))


def _emit_check_indices(f: FunctionBuilder, kind: Type, extend: str) -> None:
    """Emit `check_indices_DTYPE(start, count, stride, size)`: return whether `count` indices are in range for an axis of `size` elements.

    `start` is the address of the first index, and `stride` the step between two indices, in bytes. Negative indices count from the end.
    `kind` is the LLVM type of the indices. `extend`, "zext" or "sext", is the instruction to extend them to 64 bits. `check_index_tensor`
    calls the function.
    """
    start, count, stride, size = f.arguments

    def check_index(k: Value) -> None:
        index = start.at(k * stride, I8).load(kind)
        index = index if kind is I64 else index.cast(extend, I64)
        f.require(f.and_then(index < size, lambda: index + size >= 0))

    f.for_range(count, check_index)
    f.emit_return(f.constant(I1, True))


def _emit_check_index_tensor(f: FunctionBuilder) -> None:
    """Emit `check_index_tensor(key, program)`: return whether the indices in the tensor `key` are in range. `gather_elements` calls the
    function. False also stands for an unknown dtype number.

    `program` is the address of the five words that describe the indices (`DTYPE_OFFSET` to `EXTENT_OFFSET`). The function returns true
    without a check for a pending tensor, whose indices the gather checks, and for an element count of 0.
    """
    key, program = f.arguments
    node = f.get_slot(f.get_slot(key, "Tensor.storage"), "Storage.node")
    buffer = f.get_slot(node, "Node.buffer")
    f.return_if(f.is_object(buffer, "None"), lambda: f.constant(I1, True))
    start = load_data_address(f, buffer).at(f.unbox_integer(f.get_slot(key, "Tensor.offset")) * f.load_word(program, ITEMSIZE_OFFSET), I8)
    arguments = [start, f.load_word(program, COUNT_OFFSET), f.load_word(program, STRIDE_OFFSET), f.load_word(program, EXTENT_OFFSET)]
    for number, dtype in enumerate(INDEX_DTYPES):
        f.return_if(f.load_word(program, DTYPE_OFFSET).equals(number), lambda dtype=dtype: f.call(f"check_indices_{dtype}", I1, arguments))  # type: ignore[misc]
    f.decline()


def _emit_gather_elements(f: FunctionBuilder) -> None:
    """Emit `gather_elements(x, indexers, count)`: return `x[indexers]` as a new tensor, mostly pending, by the template of a recorded call.
    The result is a new reference.

    `indexers` is the address of the `count` items of the index key. Indices in memory are checked at once. The function returns null, to
    decline, without a template, without an index tensor among the items, or if an index is out of range.
    """
    x, indexers, count = f.arguments
    template = f.require_new(f.call("find_call_template", POINTER, [x, indexers, count, f.null(), f.load_object("'__getitem__'")]))
    record_cursor = f.local(POINTER, f.address_at(f.get_slot(template, "ResultTemplate.launch_record"), BYTES_CONTENT_OFFSET))
    tensors = f.local(I64, f.i64(1))

    def check_item(k: Value) -> None:
        item = indexers.at(k, POINTER).load(POINTER)

        def check_indices() -> None:
            load_computed_slot(f, item, "offset")
            f.require(f.is_instance(f.get_slot(item, "Tensor.storage"), "Storage"))
            f.require(f.call("check_index_tensor", I1, [item, record_cursor.load(POINTER)]))
            record_cursor.store(f.address_at(record_cursor.load(POINTER), INDEX_ARRAY_BYTES))
            tensors.store(tensors.load(I64) + 1)

        f.emit_if(f.is_instance(item, "Tensor"), check_indices)

    f.for_range(count, check_item)
    f.require(tensors.load(I64) > 1)
    result = f.call("apply_template", POINTER, [x, indexers, count, tensors.load(I64), template])
    f.release_held(template)
    f.emit_return(result)
