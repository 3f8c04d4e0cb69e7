"""Arithmetic on known scalars, computed at once: float64 as C doubles, and int64 as long as nothing overflows. A known scalar is a 0-d
tensor whose storage (`ScalarStorage`) holds a Python number.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.llvm.builder import Module, Value, select
from ...codegen.llvm.types import DOUBLE, I1, I64, POINTER, Type
from ...dtypes import float64, int64
from ...graph.spec import FLOAT64_EXACT_LIMIT
from ..object_layout import FLOAT_VALUE_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .node_creation import can_evaluate_early

_FLOAT_INSTRUCTIONS = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
_INTEGER_INSTRUCTIONS = {"add": "add", "subtract": "sub", "multiply": "mul"}
_COMPARISON_PREDICATES = {
    "less": ("olt", "slt"),
    "less_equal": ("ole", "sle"),
    "greater": ("ogt", "sgt"),
    "greater_equal": ("oge", "sge"),
    "equal": ("oeq", "eq"),
    "not_equal": ("une", "ne"),
}
SCALAR_OPS = (*_FLOAT_INSTRUCTIONS, *_COMPARISON_PREDICATES)


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to compute on known scalars: `OP_scalars` for each operation in `SCALAR_OPS`, and the helpers.

    The functions emitted include `compute_binary`, `compute_unary` and `load_scalar`.
    """
    for op in SCALAR_OPS:
        _emit_scalar_operation(FunctionBuilder(module, objects, f"{op}_scalars", [("x", POINTER), ("y", POINTER), ("comes_last", I1)]), op)
    _emit_compute_binary(
        FunctionBuilder(module, objects, "compute_binary", [(name, POINTER) for name in ("op", "recipe", "spec", "left", "right")])
    )
    _emit_compute_unary(FunctionBuilder(module, objects, "compute_unary", [(name, POINTER) for name in ("op", "recipe", "spec", "number")]))
    _emit_load_scalar(FunctionBuilder(module, objects, "load_scalar", [(name, POINTER) for name in ("node", "spec", "offset")]))


def compute_known_scalars(f: FunctionBuilder, op: str, x: Value, y: Value, comes_last: Value) -> Value:
    """Emit the operation called `op` on the tensor `x`, if its storage is a `ScalarStorage`, and `y`, a tensor or a number. If the `i1`
    `comes_last` holds, `y` is the first operand.

    Return a new tensor with the known scalar of the result, a new reference, or null if the operands or the operation are not covered. If
    an error other than MemoryError is set, the emitted function returns null or 0.
    """
    if op not in SCALAR_OPS:
        return f.null()

    def compute() -> list[Value]:
        result = f.call(f"{op}_scalars", POINTER, [x, y, comes_last])
        has_error = f.and_then(f.is_null(result), lambda: ~f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        f.emit_if(has_error, f.propagate_error)
        return [result]

    is_element = f.and_then(f.is_instance(x, "Tensor"), lambda: f.is_instance(f.get_slot(x, "Tensor.storage"), "ScalarStorage"))
    return f.choose(is_element, compute, lambda: [f.null()])[0]


def new_known_scalar(f: FunctionBuilder, scalar: Value, spec: Value) -> Value:
    """Emit the creation of a tensor of one known scalar, the Python number `scalar`. Return the tensor, a new reference that is not held.

    `scalar` is a held reference, which the tensor takes over. `spec` must have one element. The emitted function returns null or 0 if
    memory runs out.
    """
    dtype = f.get_slot(spec, "Spec.dtype")
    storage = f.new_instance("ScalarStorage", _number=scalar, _dtype=f.incref(dtype))
    tensor = f.new_instance("Tensor", storage=storage, spec=f.incref(spec), dtype=f.incref(dtype), offset=f.incref(f.load_object("0")))
    f.transfer_held(tensor)
    return tensor


def _emit_scalar_operation(f: FunctionBuilder, op: str) -> None:
    """Emit `OP_scalars(x, y, comes_last)`: apply the operation `op` of `SCALAR_OPS` to known scalars, without a lookup of the result
    template.

    `x` is a 0-d tensor and `y` a 0-d tensor or a Python number. With `comes_last`, `y` is the first operand. The function returns a new
    tensor, a known scalar. Null is the result unless `x` is float64 or int64, and `y` has the same dtype or is exact in it. Null is also
    the result for a division of integers, if an integer overflows, and while a call is recorded. Entries of operators call the function.
    """
    x, y, comes_last = f.arguments
    spec = f.get_slot(x, "Tensor.spec")
    f.require(can_evaluate_early(f))

    def number_of(t: Value, dtype: str, kind: str) -> Value:
        """Emit the known scalar of the 0-d tensor `t`, borrowed. Unless it has this dtype and Python type `kind`, an early exit is
        taken.
        """
        f.require(f.is_object(f.get_slot(t, "Tensor.spec"), f"0-d spec {dtype}"))
        element = f.get_slot(t, "Tensor.storage")
        f.require(f.is_instance(element, "ScalarStorage"))
        f.require(f.is_object(f.get_slot(element, "ScalarStorage._dtype"), dtype))
        number = f.get_slot(element, "ScalarStorage._number")
        f.require(f.is_instance(number, kind))
        return number

    def ordered(x_value: Value, y_value: Value) -> tuple[Value, Value]:
        return select(comes_last, y_value, x_value), select(comes_last, x_value, y_value)

    def value(number: Value) -> Value:
        return f.address_at(number, FLOAT_VALUE_OFFSET).load(DOUBLE)

    def floats() -> Value:
        dtype = float64.name
        x_value = value(number_of(x, dtype, "float"))

        def load_number() -> list[Value]:
            kind = f.type_of(y)

            def load_integer() -> list[Value]:
                f.require(f.is_object(kind, "int"))
                return [_unbox_exact_integer(f, y).cast("sitofp", DOUBLE)]

            return f.choose(f.is_object(kind, "float"), lambda: [value(y)], load_integer)

        (y_value,) = f.choose(f.is_instance(y, "Tensor"), lambda: [value(number_of(y, dtype, "float"))], load_number)
        return _compute_float(f, op, *ordered(x_value, y_value), f.load_object(f"0-d spec {dtype}"), f.load_object("0-d spec bool"))

    def integers() -> Value:
        dtype = int64.name
        x_number = number_of(x, dtype, "int")

        def require_integer() -> list[Value]:
            f.require(f.is_instance(y, "int"))
            return [y]

        (y_number,) = f.choose(f.is_instance(y, "Tensor"), lambda: [number_of(y, dtype, "int")], require_integer)
        return _compute_integer(f, op, *ordered(x_number, y_number), f.load_object(f"0-d spec {dtype}"), f.load_object("0-d spec bool"))

    if op in _INTEGER_INSTRUCTIONS or op in _COMPARISON_PREDICATES:
        f.return_if(f.is_object(spec, f"0-d spec {int64.name}"), integers)
    f.emit_return(floats())


def _unbox_exact_integer(f: FunctionBuilder, number: Value) -> Value:
    """Emit the value of a Python integer from -2**53 to 2**53, which a float64 represents exactly. Return the value, an `i64`.

    The emitted function returns null or 0 for other integers.
    """
    value, fits = f.unbox_checked(number)
    f.require(f.and_then(fits, lambda: f.and_then(value <= FLOAT64_EXACT_LIMIT, lambda: value >= -FLOAT64_EXACT_LIMIT)))
    return value


def _emit_compute_binary(f: FunctionBuilder) -> None:
    """Emit `compute_binary(op, recipe, spec, left, right)`: apply the operation `op` to two Python numbers, and return a new tensor with
    the result as a known scalar.

    `recipe` and `spec` are those of the result; the operands must both be float64 or both int64. The function returns null for other
    dtypes, for operations that are not in `SCALAR_OPS`, for a result without exactly one element, and if an integer overflows.
    `apply_binary` calls the function.
    """
    op, recipe, spec, left, right = f.arguments
    dtypes = f.get_slot(recipe, "Recipe.dtypes")
    dtype = f.tuple_item(dtypes, 0)
    f.require(dtype.equals(f.tuple_item(dtypes, 1)))
    _require_one_element(f, spec)
    f.return_if(f.is_object(dtype, float64.name), lambda: _compute_floats(f, op, (left, right), spec))
    f.return_if(f.is_object(dtype, int64.name), lambda: _compute_integers(f, op, (left, right), spec))
    f.decline()


def _require_one_element(f: FunctionBuilder, spec: Value) -> None:
    """Emit an early exit, returning null or 0, unless tensors of `spec` have one element. Return None. A broadcast scalar has more, or no
    element.
    """
    f.require(f.get_slot(spec, "Spec.size").equals(f.load_object("1")))


def _new_boolean(f: FunctionBuilder, holds: Value, spec: Value) -> Value:
    """Emit the creation of a boolean tensor of the spec `spec`, a known scalar with the truth value of the `i1` `holds`. Return the tensor,
    a new reference that is not held.
    """
    return new_known_scalar(f, f.hold_owned(f.box_bool(holds)), spec)


def _compute_floats(f: FunctionBuilder, op: Value, numbers: Sequence[Value], spec: Value) -> Value:
    """Emit the operation `op`, the address of an `Op` object, on two Python floats, `numbers`.

    For an operation in `SCALAR_OPS`, the emitted function returns a new tensor of `spec`. For another operation the emitted code goes on;
    return null for this case.
    """
    a, b = (f.call("PyFloat_AsDouble", DOUBLE, [x]) for x in numbers)
    for name in (*_FLOAT_INSTRUCTIONS, *_COMPARISON_PREDICATES):
        f.return_if(f.is_object(op, f"op {name}"), lambda name=name: _compute_float(f, name, a, b, spec, spec))  # type: ignore[misc]
    return f.null()


def _compute_float(f: FunctionBuilder, name: str, a: Value, b: Value, spec: Value, of_truth: Value) -> Value:
    """Emit the operation called `name` on two doubles `a` and `b`. Return a new tensor of spec `spec`, or of spec `of_truth` for a
    comparison, a new reference that is not held. The emitted function returns null or 0 if memory runs out.
    """
    if name in _COMPARISON_PREDICATES:
        return _new_boolean(f, a.compare(_COMPARISON_PREDICATES[name][0], b), of_truth)
    number = f.require_new(f.call("PyFloat_FromDouble", POINTER, [f.binary(_FLOAT_INSTRUCTIONS[name], a, b)]))
    return new_known_scalar(f, number, spec)


def _compute_integers(f: FunctionBuilder, op: Value, numbers: Sequence[Value], spec: Value) -> Value:
    """Emit the operation `op`, the address of an `Op` object, on two Python integers, `numbers`.

    For a sum, difference, product or comparison, the emitted function returns a new tensor of `spec`, or null for an overflow. For another
    operation the emitted code goes on; return null for this case.
    """
    left, right = numbers
    for name in (*_INTEGER_INSTRUCTIONS, *_COMPARISON_PREDICATES):
        f.return_if(f.is_object(op, f"op {name}"), lambda name=name: _compute_integer(f, name, left, right, spec, spec))  # type: ignore[misc]
    return f.null()


def _compute_integer(f: FunctionBuilder, name: str, left: Value, right: Value, spec: Value, of_truth: Value) -> Value:
    """Emit the operation called `name` on two Python integers. Return a new tensor of spec `spec`, or of spec `of_truth` for a comparison,
    a new reference that is not held.

    The emitted function returns null or 0 if an operand or the result does not fit in 64 bits, or if memory runs out.
    """
    (a, fits), (b, fits_too) = (f.unbox_checked(x) for x in (left, right))
    f.require(fits & fits_too)
    if name in _COMPARISON_PREDICATES:
        return _new_boolean(f, a.compare(_COMPARISON_PREDICATES[name][1], b), of_truth)
    pair = Type("pair", "{ i64, i1 }")  # the result, and whether it overflows 64 bits
    result_and_overflow = f.call(f"llvm.s{_INTEGER_INSTRUCTIONS[name]}.with.overflow.i64", pair, [a, b])
    f.decline_if(f.define(I1, f"extractvalue {result_and_overflow!r}, 1"))
    return new_known_scalar(f, f.box_integer(f.define(I64, f"extractvalue {result_and_overflow!r}, 0")), spec)


def _emit_compute_unary(f: FunctionBuilder) -> None:
    """Emit `compute_unary(op, recipe, spec, number)`: apply `abs` or `negative` to a Python number, and return a new tensor with the result
    as a known scalar.

    `recipe` and `spec` are those of the result. The function returns null for other operations, for other dtypes than float64 and int64,
    for -2**63, and for a result without exactly one element. `apply_unary` calls the function.
    """
    op, recipe, spec, number = f.arguments
    dtype = f.tuple_item(f.get_slot(recipe, "Recipe.dtypes"), 0)
    is_abs, is_negative = (f.is_object(op, f"op {name}") for name in ("abs", "negative"))
    f.require(is_abs | is_negative)
    _require_one_element(f, spec)

    def of_float() -> Value:
        x = f.call("PyFloat_AsDouble", DOUBLE, [number])
        return new_known_scalar(f, f.require_new(f.call("PyFloat_FromDouble", POINTER, [select(is_abs, x.abs(), -x)])), spec)

    def of_integer() -> Value:
        x, fits = f.unbox_checked(number)
        f.require(fits & x.differs(-(1 << 63)))
        return new_known_scalar(f, f.box_integer(select(is_abs & (x >= 0), x, -x)), spec)

    f.return_if(f.is_object(dtype, float64.name), of_float)
    f.return_if(f.is_object(dtype, int64.name), of_integer)
    f.decline()


def _emit_load_scalar(f: FunctionBuilder) -> None:
    """Emit `load_scalar(node, spec, offset)`: return the element at `offset` of a node in memory, as a Python number, a new reference.

    `offset` is a Python integer, in elements; `spec` gives the dtype. The function returns null for a pending node, for one with a tape
    node, and for a dtype that `load_number` does not cover. `apply_unary` and `apply_binary` call the function.
    """
    node, spec, offset = f.arguments
    buffer = f.get_slot(node, "Node.buffer")
    f.decline_if(f.is_object(buffer, "None"))
    f.require(f.is_object(f.get_slot(node, "Node.tape_node"), "None"))
    f.emit_return(f.call("load_number", POINTER, [buffer, f.get_slot(spec, "Spec.dtype"), f.unbox_integer(offset)]))
