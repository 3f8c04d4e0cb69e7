"""Arithmetic on known scalars, computed at once: float64 as C doubles, and int64 as long as nothing overflows."""

from __future__ import annotations

from collections.abc import Sequence

from ...backend.llvm.builder import Module, Value, select
from ...backend.llvm.types import DOUBLE, I1, I64, POINTER, Type
from ...dtypes import float64, int64
from ...spec import EXACT
from ..objects import VALUE, Objects
from .function import Function
from .record import is_eager

_OF_FLOATS = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
_OF_INTEGERS = {"add": "add", "subtract": "sub", "multiply": "mul"}
_COMPARED = {
    "less": ("olt", "slt"),
    "less_equal": ("ole", "sle"),
    "greater": ("ogt", "sgt"),
    "greater_equal": ("oge", "sge"),
    "equal": ("oeq", "eq"),
    "not_equal": ("une", "ne"),
}
POINTWISE = (*_OF_FLOATS, *_COMPARED)


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    for op in POINTWISE:
        _of_points(Function(module, objects, f"{op}_of_points", [("x", POINTER), ("y", POINTER), ("comes_last", I1)]), op)
    _of_numbers(Function(module, objects, "of_numbers", [(name, POINTER) for name in ("op", "recipe", "spec", "one", "other")]))
    _of_number(Function(module, objects, "of_number", [(name, POINTER) for name in ("op", "recipe", "spec", "number")]))
    _number_in_memory(Function(module, objects, "number_in_memory", [(name, POINTER) for name in ("node", "spec", "offset")]))


def of_points(f: Function, op: str, x: Value, y: Value, last: Value) -> Value:
    """Emit the operation called `op` on `x`, if its storage is a known scalar, and `y`. Return the new tensor, or null if the operands or
    the operation are not covered.

    With `last`, `y` is the first operand.
    """
    if op not in POINTWISE:
        return f.nothing()

    def known() -> list[Value]:
        found = f.call(f"{op}_of_points", POINTER, [x, y, last])
        met = f.both(f.is_null(found), lambda: ~f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        f.when(met, f.tell_what_was_met)
        return [found]

    is_element = f.both(f.is_a(x, "Tensor"), lambda: f.is_a(f.get(x, "Tensor.storage"), "Element"))
    return f.choose(is_element, known, lambda: [f.nothing()])[0]


def element(f: Function, number: Value, spec: Value) -> Value:
    """Emit a new tensor of one known scalar, the Python number `number`, whose reference is consumed. Return the tensor, not held."""
    dtype = f.get(spec, "Spec.dtype")
    made = f.new("Element", _number=number, _dtype=f.own(dtype))
    found = f.new("Tensor", storage=made, spec=f.own(spec), dtype=f.own(dtype), offset=f.own(f.the("0")))
    f.keeps(found)
    return found


def _of_points(f: Function, op: str) -> None:
    """Emit `OP_of_points(x, y, comes_last)`: apply an operation of `POINTWISE` to known scalars, without a lookup of the result template.

    `x` is a 0-d tensor and `y` a 0-d tensor or a Python number. With `comes_last`, `y` is the first operand.
    """
    x, y, last = f.arguments
    spec = f.get(x, "Tensor.spec")
    f.require(is_eager(f))

    def number_of(t: Value, dtype: str, kind: str) -> Value:
        """Return the known scalar of the 0-d tensor `t`, borrowed. Unless it has this dtype and Python type `kind`, an early exit is taken.
        """
        f.require(f.is_the(f.get(t, "Tensor.spec"), f"point {dtype}"))
        element = f.get(t, "Tensor.storage")
        f.require(f.is_a(element, "Element"))
        f.require(f.is_the(f.get(element, "Element._dtype"), dtype))
        number = f.get(element, "Element._number")
        f.require(f.is_a(number, kind))
        return number

    def ordered(one: Value, other: Value) -> tuple[Value, Value]:
        return select(last, other, one), select(last, one, other)

    def value(number: Value) -> Value:
        return f.at(number, VALUE).load(DOUBLE)

    def floats() -> Value:
        dtype = float64.name
        one = value(number_of(x, dtype, "float"))

        def beside() -> list[Value]:
            kind = f.type_of(y)

            def exact() -> list[Value]:
                f.require(f.is_the(kind, "int"))
                return [_exact(f, y).cast("sitofp", DOUBLE)]

            return f.choose(f.is_the(kind, "float"), lambda: [value(y)], exact)

        (other,) = f.choose(f.is_a(y, "Tensor"), lambda: [value(number_of(y, dtype, "float"))], beside)
        return _float(f, op, *ordered(one, other), f.the(f"point {dtype}"), f.the("point bool"))

    def integers() -> Value:
        dtype = int64.name
        one = number_of(x, dtype, "int")

        def beside() -> list[Value]:
            f.require(f.is_a(y, "int"))
            return [y]

        (other,) = f.choose(f.is_a(y, "Tensor"), lambda: [number_of(y, dtype, "int")], beside)
        return _integer(f, op, *ordered(one, other), f.the(f"point {dtype}"), f.the("point bool"))

    if op in _OF_INTEGERS or op in _COMPARED:
        f.when_giving(f.is_the(spec, f"point {int64.name}"), integers)
    f.give(floats())


def _exact(f: Function, number: Value) -> Value:
    """Emit the value of a Python integer with an exact float64 representation. The emitted function returns null or 0 for other integers.
    """
    value, fits = f.bounded(number)
    f.require(f.both(fits, lambda: f.both(value <= EXACT, lambda: value >= -EXACT)))
    return value


def _of_numbers(f: Function) -> None:
    """Emit `of_numbers(op, recipe, spec, one, other)`: apply an operation to two Python numbers, given the recipe and the spec of its
    result.
    """
    op, recipe, spec, one, other = f.arguments
    dtypes = f.get(recipe, "Recipe.dtypes")
    dtype = f.item(dtypes, 0)
    f.require(dtype.equals(f.item(dtypes, 1)))
    _is_one(f, spec)
    f.when_giving(f.is_the(dtype, float64.name), lambda: _of_floats(f, op, (one, other), spec))
    f.when_giving(f.is_the(dtype, int64.name), lambda: _of_integers(f, op, (one, other), spec))
    f.decline()


def _is_one(f: Function, spec: Value) -> None:
    """Emit an early exit, returning null or 0, unless tensors of `spec` have one element. A broadcast scalar has more, or no element."""
    f.require(f.get(spec, "Spec.size").equals(f.the("1")))


def _truth(f: Function, holds: Value, spec: Value) -> Value:
    """Emit a new boolean tensor of this spec, with the truth value of `holds`. Return the tensor, not held."""
    return element(f, f.holding(f.truth(holds)), spec)


def _of_floats(f: Function, op: Value, numbers: Sequence[Value], spec: Value) -> Value:
    """Emit the operation `op` on two Python floats, `numbers`: a new tensor of this spec, or null if the operation is not covered."""
    a, b = (f.call("PyFloat_AsDouble", DOUBLE, [x]) for x in numbers)
    for name in (*_OF_FLOATS, *_COMPARED):
        f.when_giving(f.is_the(op, f"op {name}"), lambda name=name: _float(f, name, a, b, spec, spec))  # type: ignore[misc]
    return f.nothing()


def _float(f: Function, name: str, a: Value, b: Value, spec: Value, of_truth: Value) -> Value:
    """Emit the operation called `name` on two doubles `a` and `b`: a new tensor of spec `spec`, or of spec `of_truth` for a comparison."""
    if name in _COMPARED:
        return _truth(f, a.compare(_COMPARED[name][0], b), of_truth)
    number = f.made(f.call("PyFloat_FromDouble", POINTER, [f.binary(_OF_FLOATS[name], a, b)]))
    return element(f, number, spec)


def _of_integers(f: Function, op: Value, numbers: Sequence[Value], spec: Value) -> Value:
    """Emit the operation `op` on two Python integers, `numbers`: a new tensor of this spec, or null if the operation is not covered."""
    one, other = numbers
    for name in (*_OF_INTEGERS, *_COMPARED):
        f.when_giving(f.is_the(op, f"op {name}"), lambda name=name: _integer(f, name, one, other, spec, spec))  # type: ignore[misc]
    return f.nothing()


def _integer(f: Function, name: str, one: Value, other: Value, spec: Value, of_truth: Value) -> Value:
    """Emit the operation called `name` on two Python integers: a new tensor of spec `spec`, or of spec `of_truth` for a comparison.

    The emitted function returns null or 0 if an operand or the result does not fit in 64 bits.
    """
    (a, fits), (b, fits_too) = (f.bounded(x) for x in (one, other))
    f.require(fits & fits_too)
    if name in _COMPARED:
        return _truth(f, a.compare(_COMPARED[name][1], b), of_truth)
    pair = Type("pair", "{ i64, i1 }")  # the result, and whether it overflows 64 bits
    both = f.call(f"llvm.s{_OF_INTEGERS[name]}.with.overflow.i64", pair, [a, b])
    f.refuse(f.define(I1, f"extractvalue {both!r}, 1"))
    return element(f, f.as_object(f.define(I64, f"extractvalue {both!r}, 0")), spec)


def _of_number(f: Function) -> None:
    """Emit `of_number(op, recipe, spec, number)`: apply `abs` or `negative` to a Python number, given the recipe and the spec of its
    result.
    """
    op, recipe, spec, number = f.arguments
    dtype = f.item(f.get(recipe, "Recipe.dtypes"), 0)
    is_abs, is_negative = (f.is_the(op, f"op {name}") for name in ("abs", "negative"))
    f.require(is_abs | is_negative)
    _is_one(f, spec)

    def of_float() -> Value:
        x = f.call("PyFloat_AsDouble", DOUBLE, [number])
        return element(f, f.made(f.call("PyFloat_FromDouble", POINTER, [select(is_abs, x.abs(), -x)])), spec)

    def of_integer() -> Value:
        x, fits = f.bounded(number)
        f.require(fits & x.differs(-(1 << 63)))
        return element(f, f.as_object(select(is_abs & (x >= 0), x, -x)), spec)

    f.when_giving(f.is_the(dtype, float64.name), of_float)
    f.when_giving(f.is_the(dtype, int64.name), of_integer)
    f.decline()


def _number_in_memory(f: Function) -> None:
    """Emit `number_in_memory(node, spec, offset)`: return the element at an offset of a node in memory, as a Python number.

    The function returns null for a pending node, and a node with a tape node.
    """
    node, spec, offset = f.arguments
    buffer = f.get(node, "Node.buffer")
    f.refuse(f.is_the(buffer, "None"))
    f.require(f.is_the(f.get(node, "Node.past"), "None"))
    f.give(f.call("number_at", POINTER, [buffer, f.get(spec, "Spec.dtype"), f.integer(offset)]))
