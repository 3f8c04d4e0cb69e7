"""Launches of kernels by launch records (`fastpath/launch_records.py`). A record is a bytes object of 64-bit words: the address of the
kernel, further words, and a row of five words for each argument.
"""

from __future__ import annotations

from collections.abc import Callable

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import DOUBLE, I1, I64, POINTER, VOID, array
from ..launch_records import (
    ARGUMENT_WORDS,
    ELEMENT_COUNT,
    FLOAT,
    IMAGINARY,
    LITERAL,
    MAX_KERNEL_ARGUMENTS,
    MEMORY,
    NODE_HEADER_WORDS,
    RESULT,
    SIGNED,
)
from ..object_layout import BYTES_CONTENT_OFFSET, FLOAT_VALUE_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .spec_table import load_operand_spec


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to launch a kernel by its launch record.

    The functions emitted include `launch` and `count_elements`.
    """
    _emit_count_elements(FunctionBuilder(module, objects, "count_elements", [("recipe", POINTER), ("view_index", I64)], I64))
    launch_parameters = [(name, POINTER) for name in ("record", "recipe", "sources", "offsets", "out")]
    _emit_launch(FunctionBuilder(module, objects, "launch", launch_parameters, I1))


def _emit_launch(f: FunctionBuilder) -> None:
    """Emit `launch(record, recipe, sources, offsets, out)`: run a kernel by the launch record `record`, a bytes object. The result goes
    into the `Buffer` `out`. The launch of a node and writes in place call the function.

    The kernel reads `sources`, a tuple of nodes and scalars. `offsets` is the tuple of the offsets, in elements, that the record refers to.
    Element counts are taken from `recipe`, null for a write, whose record must not refer to them. For a sum of a product, `recipe`,
    `sources` and `offsets` are the product's. The function returns true, or false without a launch if a source is pending. The GIL is
    released if the record says so.
    """
    record, recipe, sources, offsets, out = f.arguments
    program = f.address_at(record, BYTES_CONTENT_OFFSET)
    args = f.local(array(I64, MAX_KERNEL_ARGUMENTS))

    def store_argument(k: Value) -> None:
        row = f.address_at(program, 8 * NODE_HEADER_WORDS).at(k * ARGUMENT_WORDS, I64)
        args.at(k, I64).store(_evaluate_argument(f, row, recipe, sources, offsets, out))

    f.for_range(f.load_word(program, 16), store_argument)
    kernel, extent_word = program.load(POINTER), f.load_word(program, 8)
    (extent,) = f.choose(extent_word < 0, lambda: [f.call("count_elements", I64, [recipe, -1 - extent_word])], lambda: [extent_word])
    emit_kernel_call(f, f"call void {kernel.text}(ptr {args.text}, i64 0, i64 {extent.text}, i64 0)", f.load_word(program, 24).differs(0))
    f.emit_return(f.constant(I1, True))


def _emit_count_elements(f: FunctionBuilder) -> None:
    """Emit `count_elements(recipe, view_index)`: return an element count of a recipe of the fast path, as an `i64`.

    Index 0 means the elements of the result. Index k + 1 means the elements of source k as the recipe reads it (`Recipe.packed_specs`).
    `launch` calls the function.
    """
    recipe, view_index = f.arguments
    load_view_size = lambda: [f.get_slot(load_operand_spec(f, recipe, view_index - 1), "Spec.size")]
    f.emit_return(f.unbox_integer(f.choose(view_index.equals(0), lambda: [f.get_slot(recipe, "Recipe.size")], load_view_size)[0]))


def _evaluate_argument(f: FunctionBuilder, row: Value, recipe: Value, sources: Value, offsets: Value, out: Value) -> Value:
    """Emit the evaluation of a kernel argument: an address, a scalar, a size or a literal. Return the argument as a 64-bit word.

    `row` is the address of the argument in the launch record. `sources`, `offsets`, `recipe` (for sizes) and `out` are arguments of
    `launch`. The emitted function returns null or 0 if the argument is the memory of a pending source.
    """
    kind, extra = row.load(I64), f.load_word(row, 32)

    def load_source() -> Value:
        return f.tuple_item(sources, f.load_word(row, 8))

    def load_address(buffer: Value) -> list[Value]:
        offset_index = f.load_word(row, 16)
        offset = f.choose(offset_index >= 0, lambda: [f.unbox_integer(f.tuple_item(offsets, offset_index))], lambda: [f.i64(0)])[0]
        return [f.unbox_address(f.get_slot(buffer, "Buffer.address")) + offset * f.load_word(row, 24) + extra]

    def load_source_address() -> list[Value]:
        buffer = f.get_slot(load_source(), "Node.buffer")
        f.decline_if(f.is_object(buffer, "None"))
        return load_address(buffer)

    def load_number() -> list[Value]:
        count_elements = lambda: [f.call("count_elements", I64, [recipe, f.load_word(row, 8)])]
        return f.choose(
            kind.equals(ELEMENT_COUNT), count_elements, lambda: [convert_scalar(f, kind, f.get_slot(load_source(), "Scalar.value"))]
        )

    def load_other() -> list[Value]:
        return f.choose(kind.equals(RESULT), lambda: load_address(out), load_number)

    return f.choose(kind.equals(LITERAL), lambda: [extra], lambda: f.choose(kind.equals(MEMORY), load_source_address, load_other))[0]


def convert_scalar(f: FunctionBuilder, kind: Value, value: Value) -> Value:
    """Emit the conversion of `value`, a Python number, to a kernel argument of `kind`. Return the argument as a 64-bit word.

    The kinds are `FLOAT` and `IMAGINARY` (the bits of the real or the imaginary part as a float64), `SIGNED` and `UNSIGNED`. An integer
    must fit into 64 bits.
    """

    def as_float() -> list[Value]:
        is_plain = f.and_then(f.is_instance(value, "int"), lambda: f.has_one_digit(value))
        convert_small = lambda: [f.unbox_integer(value).cast("sitofp", DOUBLE)]
        convert_any = lambda: [f.call("PyComplex_RealAsDouble", DOUBLE, [value])]
        convert_non_float = lambda: f.choose(is_plain, convert_small, convert_any)
        (double,) = f.choose(
            f.is_instance(value, "float"), lambda: [f.address_at(value, FLOAT_VALUE_OFFSET).load(DOUBLE)], convert_non_float
        )
        return [double.bitcast(I64)]

    def as_imaginary() -> list[Value]:
        return [f.call("PyComplex_ImagAsDouble", DOUBLE, [value]).bitcast(I64)]

    def convert_component() -> list[Value]:
        return f.choose(kind.equals(FLOAT), as_float, as_imaginary)

    def as_int() -> list[Value]:
        unsigned = lambda: [f.call("PyLong_AsUnsignedLongLong", I64, [value])]
        return f.choose(kind.equals(SIGNED), lambda: [f.unbox_integer(value)], unsigned)

    return f.choose(kind.equals(FLOAT) | kind.equals(IMAGINARY), convert_component, as_int)[0]


def emit_without_gil(f: FunctionBuilder, emit_body: Callable[[], object]) -> list[Value]:
    """Emit the code of `emit_body`, run with the GIL released. Return an empty list, for `choose`.

    The code must not touch Python objects.
    """
    state = f.call("PyEval_SaveThread", POINTER, [])
    emit_body()
    f.call("PyEval_RestoreThread", VOID, [state])
    return []


def emit_kernel_call(f: FunctionBuilder, instruction: str, releases_gil: Value) -> None:
    """Emit the call of a kernel. `instruction` is the text of the LLVM instruction, a call without a result. The GIL is released during the
    call if the `i1` `releases_gil` holds.
    """

    def emit_call() -> list[Value]:
        f.emit(instruction)
        return []

    f.choose(releases_gil, lambda: emit_without_gil(f, emit_call), emit_call)
