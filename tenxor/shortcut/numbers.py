"""Numbers that are known are computed with at once: float64 as C's doubles, int64 as long as nothing overflows."""

from __future__ import annotations

from collections.abc import Sequence

from ..backend.llvm.builder import Module, Value, select
from ..backend.llvm.types import DOUBLE, I1, I64, POINTER, Type
from ..dtypes import boolean, float64, int64
from ..spec import EXACT
from .function import Function
from .objects import Objects

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


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    _of_points(Function(module, objects, "of_points", [("x", POINTER), ("y", POINTER), ("op", POINTER), ("comes_last", I1)]))
    _of_numbers(Function(module, objects, "of_numbers", [(name, POINTER) for name in ("op", "recipe", "spec", "one", "other")]))
    _of_number(Function(module, objects, "of_number", [(name, POINTER) for name in ("op", "recipe", "spec", "number")]))
    _number_in_memory(Function(module, objects, "number_in_memory", [(name, POINTER) for name in ("node", "spec", "offset")]))


def element(f: Function, number: Value, spec: Value) -> Value:
    """A new tensor of one element, a number that is held; it is held no more."""
    dtype = f.get(spec, "Spec.dtype")
    made = f.new("Element", _number=number, _dtype=f.own(dtype))
    found = f.new("Tensor", storage=made, spec=f.own(spec), dtype=f.own(dtype), offset=f.own(f.the("0")))
    f.keeps(found)
    return found


def _point(f: Function, dtype: str) -> Value:
    """The spec of a tensor without axes."""
    return f.item(f.the("points"), f.integer(f.get(f.the(dtype), "DType.rank")))


def _of_points(f: Function) -> None:
    """The tensor of what one of the commonest operations gives for an element that is known, without axes, and another or a Python number,
    which comes first if the element comes `last`. Of these it need not be looked up what it makes.
    """
    x, y, op, last = f.arguments
    dtype = f.get(x, "Tensor.dtype")
    is_float = dtype.equals(f.the(float64.name))
    f.require(is_float | dtype.equals(f.the(int64.name)))
    point = select(is_float, _point(f, float64.name), _point(f, int64.name))

    def known(t: Value) -> Value:
        storage = f.get(t, "Tensor.storage")
        f.require(f.is_a(storage, "Element"))
        f.require(f.get(t, "Tensor.spec").equals(point))
        f.require(f.get(storage, "Element._dtype").equals(dtype))
        number = f.get(storage, "Element._number")
        f.refuse(f.is_the(number, "None"))
        return number

    def beside() -> list[Value]:
        kind = f.type_of(y)
        f.require(f.either(f.is_the(kind, "int"), lambda: f.both(is_float, lambda: f.is_the(kind, "float"))))
        f.when(f.both(is_float, lambda: f.is_the(kind, "int")), lambda: _is_exact(f, y))
        return [y]

    one = known(x)
    (other,) = f.choose(f.is_a(y, "Tensor"), lambda: [known(y)], beside)
    one, other = select(last, other, one), select(last, one, other)
    f.when_giving(is_float, lambda: _of_floats(f, op, (one, other), point, _point(f, boolean.name)))
    f.give(_of_integers(f, op, (one, other), point, _point(f, boolean.name)))


def _is_exact(f: Function, number: Value) -> None:
    """Decline unless a Python integer is a float, too."""
    value, fits = f.bounded(number)
    f.require(f.both(fits, lambda: f.both(value <= EXACT, lambda: value >= -EXACT)))


def _of_numbers(f: Function) -> None:
    """The same for two Python numbers, with the operation's recipe and the spec of its result."""
    op, recipe, spec, one, other = f.arguments
    dtypes = f.get(recipe, "Recipe.dtypes")
    dtype = f.item(dtypes, 0)
    f.require(dtype.equals(f.item(dtypes, 1)))
    _is_one(f, spec)
    f.when_giving(f.is_the(dtype, float64.name), lambda: _of_floats(f, op, (one, other), spec, spec))
    f.when_giving(f.is_the(dtype, int64.name), lambda: _of_integers(f, op, (one, other), spec, spec))
    f.decline()


def _is_one(f: Function, spec: Value) -> None:
    """Decline unless tensors like this have one element: one that is repeated gives more, or none."""
    f.require(f.get(spec, "Spec.size").equals(f.the("1")))


def _truth(f: Function, holds: Value, spec: Value) -> Value:
    return element(f, f.holding(f.truth(holds)), spec)


def _of_floats(f: Function, op: Value, numbers: Sequence[Value], spec: Value, of_truth: Value) -> Value:
    """The tensor of what an operation gives for two floats, with this spec, or that of a comparison; or nothing."""
    a, b = (f.call("PyFloat_AsDouble", DOUBLE, [x]) for x in numbers)
    for name, how in _OF_FLOATS.items():
        number = lambda how=how: f.made(f.call("PyFloat_FromDouble", POINTER, [f.binary(how, a, b)]))  # noqa: E731
        f.when_giving(f.is_the(op, f"op {name}"), lambda number=number: element(f, number(), spec))  # type: ignore[misc]
    for name, (predicate, _) in _COMPARED.items():
        f.when_giving(f.is_the(op, f"op {name}"), lambda how=predicate: _truth(f, a.compare(how, b), of_truth))  # type: ignore[misc]
    return f.nothing()


def _of_integers(f: Function, op: Value, numbers: Sequence[Value], spec: Value, of_truth: Value) -> Value:
    """The same for two integers."""
    (a, fits), (b, fits_too) = (f.bounded(x) for x in numbers)
    f.require(fits & fits_too)
    for name, how in _OF_INTEGERS.items():

        def number(how: str = how) -> Value:
            pair = Type("pair", "{ i64, i1 }")  # the result, and whether it is beyond 64 bits
            both = f.call(f"llvm.s{how}.with.overflow.i64", pair, [a, b])
            f.refuse(f.define(I1, f"extractvalue {both!r}, 1"))
            return f.as_object(f.define(I64, f"extractvalue {both!r}, 0"))

        f.when_giving(f.is_the(op, f"op {name}"), lambda number=number: element(f, number(), spec))  # type: ignore[misc]
    for name, (_, predicate) in _COMPARED.items():
        f.when_giving(f.is_the(op, f"op {name}"), lambda how=predicate: _truth(f, a.compare(how, b), of_truth))  # type: ignore[misc]
    return f.nothing()


def _of_number(f: Function) -> None:
    """The same for one number, and operations on one."""
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
    """The number that a node has in memory, which is seen by a spec and an offset."""
    node, spec, offset = f.arguments
    buffer = f.get(node, "Node.buffer")
    f.refuse(f.is_the(buffer, "None"))
    f.require(f.is_the(f.get(node, "Node.past"), "None"))
    f.give(f.call("number_at", POINTER, [buffer, f.get(spec, "Spec.dtype"), f.integer(offset)]))
