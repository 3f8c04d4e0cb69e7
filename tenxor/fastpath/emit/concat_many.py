"""Concatenation of many tensors: contiguous data in memory and known scalars are copied in one call from Python
(`tensor/join_by_fastpath.py`). A known scalar is a Python number in a storage.
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I8, I64, POINTER
from ...tensor.join_by_fastpath import COPY_TABLE_FIELDS
from ..object_layout import SIZE_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .pending_operations import load_computed_slot
from .python_conversion import is_known_scalar, load_data_address
from .tape_nodes import is_tape_recorded


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to copy many tensors into one.

    The functions emitted include `is_copyable`, `store_specs`, `copy_tensors`, `copy_equal_tensors`, `python_store_specs`,
    `python_copy_tensors` and `python_copy_equal_tensors`.
    """
    called = [("self", POINTER), ("args", POINTER), ("count", I64)]
    table_parameters = [("tensors", POINTER), ("copy_table", POINTER)]
    _emit_is_copyable(FunctionBuilder(module, objects, "is_copyable", [("storage", POINTER)], I1))
    _emit_store_specs(FunctionBuilder(module, objects, "store_specs", table_parameters, I1))
    _emit_copy_tensors(FunctionBuilder(module, objects, "copy_tensors", [*table_parameters, ("rows", I64), ("stride", I64)], I1))
    layout_parameters = [(name, I64) for name in ("width", "itemsize", "rows", "stride")]
    _emit_copy_equal_tensors(
        FunctionBuilder(module, objects, "copy_equal_tensors", [("tensors", POINTER), ("to", POINTER), *layout_parameters], I1)
    )
    _emit_python_entry(FunctionBuilder(module, objects, "python_store_specs", called, is_exported=True), "store_specs", 0)
    _emit_python_entry(FunctionBuilder(module, objects, "python_copy_tensors", called, is_exported=True), "copy_tensors", 2)
    _emit_python_entry(FunctionBuilder(module, objects, "python_copy_equal_tensors", called, is_exported=True), "copy_equal_tensors", 4)


def _emit_python_entry(f: FunctionBuilder, function: str, numbers: int) -> None:
    """Emit an entry for Python, `python_store_specs`, `python_copy_tensors` or `python_copy_equal_tensors`: call the emitted function named
    `function` with a tuple of tensors, an address and `numbers` integers.

    The entry takes the address and the integers as Python integers. It returns the truth value of the call as a bool, or null if an error
    is set.
    """
    _, args, _ = f.arguments
    tensors, *boxed_integers = (args.at(k, POINTER).load(POINTER) for k in range(2 + numbers))
    address, *integers = (f.unbox_integer(x) for x in boxed_integers)
    success = f.call(function, I1, [tensors, address.cast("inttoptr", POINTER), *integers])
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    f.emit_return(f.box_bool(success))


def _emit_is_copyable(f: FunctionBuilder) -> None:
    """Emit `is_copyable(storage)`: return whether the content of the storage `storage` is in memory or a known scalar, and no tape has to
    record the copy. It is false also for a storage of another class. `store_specs`, `copy_tensors` and `copy_equal_tensors` call the
    function.
    """
    (storage,) = f.arguments
    f.return_if(is_known_scalar(f, storage), lambda: f.constant(I1, True))
    f.require(f.or_else(f.is_instance(storage, "Storage"), lambda: f.is_instance(storage, "ScalarStorage")))
    node = f.get_slot(storage, "Storage.node")
    f.decline_if(f.is_null(node))
    f.decline_if(f.is_object(f.get_slot(node, "Node.buffer"), "None"))
    f.emit_return(f.or_else(f.is_object(f.get_slot(node, "Node.tape_node"), "None"), lambda: ~is_tape_recorded(f)))


def _emit_store_specs(f: FunctionBuilder) -> None:
    """Emit `store_specs(tensors, copy_table)`: write the address of the spec of each tensor in the tuple `tensors` into the array at the
    address `copy_table`, the first column of the table of `copy_tensors`. Return true.

    Return false unless each piece is a tensor for which `is_copyable` holds; some addresses may be written then. Python
    (`python_store_specs`) calls the function.
    """
    tensors, copy_table = f.arguments

    def store_spec(k: Value) -> None:
        x = f.tuple_item(tensors, k)
        f.require(f.is_instance(x, "Tensor"))
        f.require(f.call("is_copyable", I1, [f.get_slot(x, "Tensor.storage")]))
        spec, _ = load_computed_slot(f, x, "spec"), load_computed_slot(f, x, "offset")
        copy_table.at(k, I64).store(spec)

    f.for_range(f.load_word(tensors, SIZE_OFFSET), store_spec)
    f.emit_return(f.constant(I1, True))


def _emit_copy_tensors(f: FunctionBuilder) -> None:
    """Emit `copy_tensors(tensors, copy_table, rows, stride)`: copy the contiguous tensors in the tuple `tensors` to the addresses in a
    table, each in `rows` rows. Return true.

    The rows of a tensor are `stride` bytes apart in the destination. The array of 64-bit words at the address `copy_table` has four
    columns, one after the other, with an entry for each tensor: the spec, the address of the destination, the bytes of a row, and the bytes
    of an element. Return false if a spec has changed, or `is_copyable` does not hold any more; then some tensors may be copied. Python
    (`python_copy_tensors`) calls the function.
    """
    tensors, copy_table, rows, stride = f.arguments
    count = f.load_word(tensors, SIZE_OFFSET)

    def copy_tensor(k: Value) -> None:
        x = f.tuple_item(tensors, k)
        spec, to, width, itemsize = (copy_table.at(k + count * n, I64) for n in range(COPY_TABLE_FIELDS))
        f.require(f.get_slot(x, "Tensor.spec").equals(spec.load(POINTER)))
        _copy_tensor(f, x, to.load(POINTER), width.load(I64), itemsize.load(I64), rows, stride)

    f.for_range(count, copy_tensor)
    f.emit_return(f.constant(I1, True))


def _emit_copy_equal_tensors(f: FunctionBuilder) -> None:
    """Emit `copy_equal_tensors(tensors, to, width, itemsize, rows, stride)`: copy the contiguous tensors in the tuple `tensors`, of one
    spec, to the address `to`, each in `rows` rows of `width` bytes, `stride` bytes apart there. Return true.

    In each row of the destination, the tensors' rows stand side by side. `itemsize` is the bytes of an element. Return false if the specs
    differ, or `is_copyable` does not hold for a tensor; then some tensors may be copied. Python (`python_copy_equal_tensors`) calls the
    function.
    """
    tensors, to, width, itemsize, rows, stride = f.arguments
    spec = f.get_slot(f.tuple_item(tensors, 0), "Tensor.spec")
    f.decline_if(f.is_null(spec))

    def copy_tensor(k: Value) -> None:
        x = f.tuple_item(tensors, k)
        f.require(f.is_instance(x, "Tensor"))
        f.require(f.get_slot(x, "Tensor.spec").equals(spec))
        f.decline_if(f.is_null(f.get_slot(x, "Tensor.offset")))
        _copy_tensor(f, x, to.at(k * width, I8), width, itemsize, rows, stride)

    f.for_range(f.load_word(tensors, SIZE_OFFSET), copy_tensor)
    f.emit_return(f.constant(I1, True))


def _copy_tensor(f: FunctionBuilder, x: Value, to: Value, width: Value, itemsize: Value, rows: Value, stride: Value) -> None:
    """Emit the copy of the contiguous tensor `x` to the address `to`: `rows` rows of `width` bytes, which are `stride` bytes apart at `to`.
    Return None.

    `itemsize` is the size of an element in bytes. A known scalar is stored as one element. The emitted function returns null or 0 unless
    `x` is in memory or a known scalar (`is_copyable`).
    """
    storage = f.get_slot(x, "Tensor.storage")

    def store_number() -> list[Value]:
        dtype, number = f.get_slot(x, "Tensor.dtype"), f.get_slot(storage, "ScalarStorage._number")
        f.require(f.get_slot(storage, "ScalarStorage._dtype").equals(dtype))
        f.require(f.call("store_number", I1, [to, dtype, f.i64(0), number]))
        return []

    def copy_memory() -> list[Value]:
        f.require(f.call("is_copyable", I1, [storage]))
        offset = f.unbox_integer(f.get_slot(x, "Tensor.offset")) * itemsize
        source = load_data_address(f, f.get_slot(f.get_slot(storage, "Storage.node"), "Node.buffer")).at(offset, I8)
        f.for_range(rows, lambda n: f.call("memcpy", POINTER, [to.at(n * stride, I8), source.at(n * width, I8), width]))
        return []

    f.choose(is_known_scalar(f, storage), store_number, copy_memory)
