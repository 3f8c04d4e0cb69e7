"""The evaluator of size programs: guards and results that are sums of products of integers, encoded as 64-bit words. A cursor in emitted
code is three 64-bit words: the address of the next word, whether an intermediate value overflowed, and the number of atoms so far. The
atoms are the integers that products refer to: the inputs, then quotients and remainders.

The grammar is described in `symbolic/guards.py`. Programs are written by `symint.SizeTrace.encode`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I64, POINTER, Type, array
from ...symbolic.guards import OP_BOUNDS, OP_DIVISION, RESULT_CONSTANT
from ..object_layout import BYTES_CONTENT_OFFSET, SIZE_OFFSET, ObjectTable
from ..sized_template import MAX_ATOMS, MAX_DIMS, MAX_RESULTS
from .function_builder import FunctionBuilder

_CHECKED = Type("pair", "{ i64, i1 }")  # a result, and whether it overflows 64 bits


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to evaluate size programs.

    The functions emitted include `evaluate_sum`, `divide_sums`, `evaluate_program`, `evaluate_to_tuple` and `python_evaluate`.
    """
    _emit_evaluate_sum(FunctionBuilder(module, objects, "evaluate_sum", [("cursor", POINTER), ("atoms", POINTER)], I64))
    _emit_divide_sums(FunctionBuilder(module, objects, "divide_sums", [("cursor", POINTER), ("atoms", POINTER)], I1))
    _emit_evaluate_program(
        FunctionBuilder(module, objects, "evaluate_program", [(name, POINTER) for name in ("program", "dims", "results")], I64)
    )
    _emit_evaluate_to_tuple(FunctionBuilder(module, objects, "evaluate_to_tuple", [("program", POINTER), ("dims", POINTER)]))
    _emit_python_evaluate(
        FunctionBuilder(module, objects, "python_evaluate", [("self", POINTER), ("args", POINTER), ("count", I64)], is_exported=True)
    )


def load_next_word(cursor: Value) -> Value:
    """Emit a load of the word at a cursor, and advance the cursor by one word. Return the word, an `i64`. `cursor` is the address of the
    cursor, which begins with the address of the next word.
    """
    return skip_words(cursor, 1).load(I64)


def skip_words(cursor: Value, count: Value | int) -> Value:
    """Emit code that advances a cursor by `count` words. Return the address of the skipped words. `cursor` is the address of the cursor,
    which begins with the address of the next word.
    """
    words = cursor.load(POINTER)
    cursor.store(words.at(count, I64))
    return words


def _compute_checked(f: FunctionBuilder, instruction: str, a: Value, b: Value, failed: Value) -> Value:
    """Emit a signed addition (`instruction` is "add") or multiplication ("mul") of the 64-bit integers `a` and `b`. Return the result.

    If it overflows, the result is wrapped, and the word at the address `failed` becomes 1.
    """
    result_and_overflow = f.call(f"llvm.s{instruction}.with.overflow.i64", _CHECKED, [a, b])
    is_beyond = f.define(I1, f"extractvalue {result_and_overflow!r}, 1")
    failed.store(failed.load(I64) | is_beyond.cast("zext", I64))
    return f.define(I64, f"extractvalue {result_and_overflow!r}, 0")


def _get_overflow_flag(cursor: Value) -> Value:
    """Emit the address of the overflow flag of the cursor at the address `cursor`: its second word. Return the address."""
    return cursor.at(1, I64)


def _emit_evaluate_sum(f: FunctionBuilder) -> None:
    """Emit `evaluate_sum(cursor, atoms)`: return the sum of products that is encoded at a cursor, an `i64`, and advance the cursor behind
    it.

    `cursor` is the address of three words: the address of the next word, an overflow flag, which an overflow sets, and the number of atoms.
    `atoms` is the array of values that products refer to: the inputs, then the quotients and remainders found so far. `evaluate_program`
    and `divide_sums` call the function.
    """
    cursor, atoms = f.arguments
    failed = _get_overflow_flag(cursor)

    def add_product(_: Value, total: Value) -> Value:
        coefficient, count = load_next_word(cursor), load_next_word(cursor)
        product = f.fold_range(count, coefficient, multiply)
        return _compute_checked(f, "add", total, product, failed)

    def multiply(_: Value, product: Value) -> Value:
        return _compute_checked(f, "mul", product, atoms.at(load_next_word(cursor), I64).load(I64), failed)

    f.emit_return(f.fold_range(load_next_word(cursor), f.i64(0), add_product))


def _emit_divide_sums(f: FunctionBuilder) -> None:
    """Emit `divide_sums(cursor, atoms)`: divide two sums, encoded at the cursor (as in `evaluate_sum`), as Python does, and append quotient
    and remainder to the array `atoms`.

    `evaluate_program` calls the function. The function returns true. It returns false for a divisor of 0, for a dividend of -2**63, and if
    there is no room for two more atoms.
    """
    cursor, atoms = f.arguments
    dividend, divisor = (f.call("evaluate_sum", I64, [cursor, atoms]) for _ in range(2))
    f.decline_if(divisor.equals(0) | dividend.equals(-(1 << 63)))
    quotient = f.binary("sdiv", dividend, divisor)
    remainder = dividend - quotient * divisor
    is_below = remainder.differs(0) & ((remainder ^ divisor) < 0)  # `sdiv` rounds towards 0, Python rounds down
    count_address = _get_atom_count_address(cursor)
    count = count_address.load(I64)
    f.require(count < MAX_ATOMS - 1)
    atoms.at(count, I64).store(f.select_value(is_below, quotient - 1, quotient))
    atoms.at(count + 1, I64).store(f.select_value(is_below, remainder + divisor, remainder))
    count_address.store(count + 2)
    f.emit_return(f.constant(I1, True))


def _get_atom_count_address(cursor: Value) -> Value:
    """Emit the address of the number of atoms of the cursor at the address `cursor`: its third word. Return the address."""
    return cursor.at(2, I64)


def _emit_evaluate_program(f: FunctionBuilder) -> None:
    """Emit `evaluate_program(program, dims, results)`: evaluate the size program `program`, a bytes object, and return the number of
    results.

    `dims` is the array of inputs, and `results` the array for up to `MAX_RESULTS` results, all 64-bit integers. The function returns 0
    if a guard fails, a value overflows 64 bits, a divisor is 0, or a table is too small (`MAX_ATOMS`, `MAX_RESULTS`); then `results` may be
    written in part.
    """
    program, dims, results = f.arguments
    cursor, atoms = f.local(array(I64, 3)), f.local(array(I64, MAX_ATOMS))
    cursor.store(f.address_at(program, BYTES_CONTENT_OFFSET))
    count = load_next_word(cursor)
    _get_overflow_flag(cursor).store(f.i64(0))
    _get_atom_count_address(cursor).store(count)
    f.require(count <= MAX_ATOMS)
    f.for_range(count, lambda k: atoms.at(k, I64).store(dims.at(k, I64).load(I64)))

    def evaluate_line(_: Value) -> None:
        opcode = load_next_word(cursor)

        def divide() -> Sequence[Value]:
            f.require(f.call("divide_sums", I1, [cursor, atoms]))
            return []

        def check_guard() -> Sequence[Value]:
            number = f.call("evaluate_sum", I64, [cursor, atoms])
            answers = number.equals(0), number.differs(0), number < 0, number >= 0
            for k, answer in enumerate(answers):
                f.decline_if(opcode.equals(k) & ~answer)
            return []

        def check_bounds() -> Sequence[Value]:
            number, low, high = atoms.at(load_next_word(cursor), I64).load(I64), load_next_word(cursor), load_next_word(cursor)
            f.decline_if((number < low) | (number > high))
            return []

        f.choose(opcode.equals(OP_BOUNDS), check_bounds, lambda: f.choose(opcode.equals(OP_DIVISION), divide, check_guard))

    f.for_range(load_next_word(cursor), evaluate_line)
    count = load_next_word(cursor)
    f.require(count <= MAX_RESULTS)

    def store_result(k: Value) -> None:
        kind, number = (cursor.load(POINTER).at(j, I64).load(I64) for j in range(2))

        def load_value() -> Sequence[Value]:
            skip_words(cursor, 2)
            return f.choose(kind.equals(RESULT_CONSTANT), lambda: [number], lambda: [atoms.at(number, I64).load(I64)])

        results.at(k, I64).store(f.choose(kind < 0, load_value, lambda: [f.call("evaluate_sum", I64, [cursor, atoms])])[0])

    f.for_range(count, store_result)
    f.require(_get_overflow_flag(cursor).load(I64).equals(0))
    f.emit_return(count)


def _emit_evaluate_to_tuple(f: FunctionBuilder) -> None:
    """Emit `evaluate_to_tuple(program, dims)`: evaluate a size program for a tuple of integers, and return a new tuple of results.

    Each integer must fit into 64 bits. Return null, without an error, if a guard fails, a value overflows 64 bits, or a divisor is 0. Null
    also stands for a program that takes another number of inputs, or has no results. If memory runs out, return null with MemoryError set.
    Python calls `python_evaluate` instead.
    """
    program, dims = f.arguments
    results = f.local(array(I64, MAX_RESULTS))
    count = f.call("evaluate_program", I64, [program, unbox_dims(f, program, dims), results])
    f.require(count > 0)
    f.emit_return(f.call("box_integers", POINTER, [results, count]))


def unbox_dims(f: FunctionBuilder, program: Value, boxed_dims: Value) -> Value:
    """Emit code to copy the tuple of integers `boxed_dims` into a local array of 64-bit integers. Return the address of the array.

    The emitted function returns null or 0 if `program`, a size program as bytes, takes another number of inputs, or for more than
    `MAX_DIMS`.
    """
    dims, count = f.local(array(I64, MAX_DIMS)), f.load_word(boxed_dims, SIZE_OFFSET)
    f.require(f.and_then(count <= MAX_DIMS, lambda: count.equals(f.load_word(program, BYTES_CONTENT_OFFSET))))
    f.for_range(count, lambda k: dims.at(k, I64).store(f.unbox_integer(f.tuple_item(boxed_dims, k))))
    return dims


def _emit_python_evaluate(f: FunctionBuilder) -> None:
    """Emit `python_evaluate(program, dims)`, called from Python: return the result of `evaluate_to_tuple` for the same arguments, or
    None for null.
    """
    args = f.arguments[1]
    f.return_or_none(f.call("evaluate_to_tuple", POINTER, [args.at(k, POINTER).load(POINTER) for k in range(2)]))
