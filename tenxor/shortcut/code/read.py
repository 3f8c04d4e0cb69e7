"""Elements as Python numbers, lists or NumPy arrays, and the conversions of one-element tensors."""

from __future__ import annotations

from collections.abc import Callable

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import DOUBLE, FLOAT, I1, I8, I16, I32, I64, POINTER, VOID, Type, array
from ...dtypes import boolean, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from ..limits import LARGEST
from ..objects import ITEMS, SIZE, Objects
from .follow import has_no_value
from .function import Function
from .record import asked
from .specs import nbytes_of

VIEW = 10  # words of a `Py_buffer`, which begins with the address of its data; its byte count stands at offset LENGTH
LENGTH = 16
WRITABLE_AND_CONTIGUOUS = 0x1 | 0x38  # PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS
MOST_LISTED = 256  # elements converted singly to Python numbers: NumPy converts more elements faster
_INTEGERS = ((int32, I32), (uint8, I8), (int16, I16), (int8, I8), (uint16, I16), (uint32, I32))


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    _number_at(Function(module, objects, "number_at", [("buffer", POINTER), ("dtype", POINTER), ("offset", I64)]))
    _only(Function(module, objects, "only", [("x", POINTER)]))
    _realized(Function(module, objects, "realized", [("x", POINTER)]))
    _length(Function(module, objects, "length", [("x", POINTER)]))
    _to_numpy(Function(module, objects, "to_numpy", [("x", POINTER)]))
    four = [(name, POINTER) for name in ("buffer", "dtype", "shape", "strides")]
    _lists(Function(module, objects, "lists", [*four, ("axis", I64), ("offset", I64)]))
    _listed(Function(module, objects, "listed", [("x", POINTER)]))
    _iterated(Function(module, objects, "iterated", [("x", POINTER)]))
    _truth(Function(module, objects, "truth", [("x", POINTER)]))
    for name, convert, kind in (("as_float", "PyNumber_Float", "float"), ("as_int", "PyNumber_Long", "int")):
        _converted(Function(module, objects, name, [("x", POINTER)]), convert, kind)


def address_of(f: Function, buffer: Value) -> Value:
    """Emit the address of a buffer's data."""
    return f.address(f.get(buffer, "Buffer.address")).cast("inttoptr", POINTER)


def with_bytes(f: Function, x: Value, nbytes: Value, use: Callable[[Value], object]) -> Value:
    """Emit a test whether the writable, C-contiguous buffer of an object has `nbytes` bytes, and return the result of the test.

    The emitted function returns null or 0 for an object without such a buffer.

    If the size fits, the code emitted by `use` runs first. `use` gets the address of the data; its code must not run Python code.
    """
    view = f.local(array(I64, VIEW))
    failed = f.call("PyObject_GetBuffer", I32, [x, view, f.constant(I32, WRITABLE_AND_CONTIGUOUS)]).differs(0)
    f.when(failed, lambda: f.call("PyErr_Clear", VOID, []))  # a missing buffer is no error for the caller
    f.refuse(failed)
    alike = f.at(view, LENGTH).load(I64).equals(nbytes)
    f.when(alike, lambda: use(view.load(POINTER)))
    f.call("PyBuffer_Release", VOID, [view])
    return alike


def _number_at(f: Function) -> None:
    """Emit `number_at(buffer, dtype, offset)`: return an element of a buffer as a Python number. Return null for a dtype that is not
    covered.
    """
    buffer, dtype, offset = f.arguments
    start = address_of(f, buffer)

    def case(name: str, make: object) -> None:
        f.when_giving(dtype.equals(f.the(name)), make)  # type: ignore[arg-type]

    def load(kind: Type) -> Value:
        return start.at(offset, kind).load(kind)

    def integer(value: Value) -> Value:
        return f.call("PyLong_FromLongLong", POINTER, [value])

    case(float64.name, lambda: f.call("PyFloat_FromDouble", POINTER, [load(DOUBLE)]))
    case(float32.name, lambda: f.call("PyFloat_FromDouble", POINTER, [load(FLOAT).to_double()]))
    case(int64.name, lambda: integer(load(I64)))
    case(boolean.name, lambda: f.own(f.selected(load(I8).equals(0), f.the("False"), f.the("True"))))
    for d, kind in _INTEGERS:
        case(d.name, lambda d=d, kind=kind: integer(load(kind).cast("zext" if d.kind == "uint" else "sext", I64)))
    case(uint64.name, lambda: f.call("PyLong_FromUnsignedLongLong", POINTER, [load(I64)]))
    f.decline()


def node_of(f: Function, x: Value) -> Value:
    """Emit the evaluation of the node of a tensor's storage. Return the node, which is held (see `Function.hold`); its dtype must be the
    tensor's.

    If single kernels cannot evaluate a node of the operation `positive`, the emitted function returns null: the node is probably an element
    of a pending tensor, and the fallback then evaluates the whole tensor.
    """
    storage = f.get(x, "Tensor.storage")
    f.require(f.is_a(storage, "Storage"))
    node = f.hold(f.get(storage, "Storage.node"))
    f.require(f.get(f.get(node, "Node.recipe"), "Recipe.dtype").equals(f.get(x, "Tensor.dtype")))
    is_pending = f.is_the(f.get(node, "Node.buffer"), "None")
    f.refuse(f.both(is_pending, lambda: has_no_value(f, f.get(node, "Node.past"))))  # the fallback raises an error with advice
    done = f.call("computed_alone", I1, [node])

    def whole() -> None:
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        f.refuse(f.is_the(f.get(f.get(node, "Node.recipe"), "Recipe.op"), "op positive"))
        f.require(f.call("computed_whole", I1, [node]))

    f.when(~done, whole)
    return node


def _realized(f: Function) -> None:
    """Emit `realized(x)`: evaluate a tensor and return it, as a new reference; null to leave the evaluation to the fallback."""
    (x,) = f.arguments
    f.require(f.is_a(x, "Tensor"))
    storage = f.get(x, "Tensor.storage")
    is_known = f.both(f.is_a(storage, "Element"), lambda: ~f.is_the(f.get(storage, "Element._number"), "None"))
    f.when_giving(is_known, lambda: f.own(x))
    node = node_of(f, x)
    f.keeps(node)
    f.drop(node)
    f.give(f.own(x))


def _only(f: Function) -> None:
    """Emit `only(x)`: return the only element as a Python number. Return null for a tensor with more elements, or without elements."""
    (x,) = f.arguments
    f.require(f.is_a(x, "Tensor"))
    storage = f.get(x, "Tensor.storage")
    spec, offset = asked(f, x, "spec"), asked(f, x, "offset")
    f.require(f.get(spec, "Spec.size").equals(f.the("1")))
    f.refuse(f.is_the(f.get(spec, "Spec.strides"), "None"))

    def known() -> Value:
        number = f.get(storage, "Element._number")
        f.refuse(f.is_the(number, "None"))
        f.refuse(f.is_the(f.get(spec, "Spec.dtype"), "bfloat16"))
        f.require(f.get(storage, "Element._dtype").equals(f.get(spec, "Spec.dtype")))
        return f.own(number)

    f.when_giving(f.is_a(storage, "Element"), known)
    dtype = f.get(spec, "Spec.dtype")
    at = f.integer(offset)
    node = node_of(f, x)
    found = f.call("number_at", POINTER, [f.get(node, "Node.buffer"), dtype, at])
    f.keeps(node)
    f.drop(node)
    f.give(found)


def _to_numpy(f: Function) -> None:
    """Emit `to_numpy(x)`: return a new NumPy array with a copy of the elements of a small contiguous tensor; null for other tensors."""
    (x,) = f.arguments
    f.require(f.is_a(x, "Tensor"))
    spec, offset = asked(f, x, "spec"), asked(f, x, "offset")
    dtype, nbytes = f.get(spec, "Spec.dtype"), nbytes_of(f, spec)
    f.require(f.is_the(f.get(spec, "Spec.gapless"), "True"))
    f.require((nbytes > 0) & (nbytes <= LARGEST))  # the fallback handles tensors without elements
    f.refuse(f.is_the(dtype, "bfloat16"))
    skipped = f.integer(offset) * f.integer(f.get(dtype, "DType.itemsize"))
    node = node_of(f, x)
    given = f.local(array(POINTER, 2))
    given.store(f.get(spec, "Spec.shape"))
    given.at(1, POINTER).store(f.get(dtype, "DType.numpy"))
    found = f.made(f.call("PyObject_Vectorcall", POINTER, [f.the("empty array"), given, f.number(2), f.nothing()]))
    start = address_of(f, f.get(node, "Node.buffer")).at(skipped, I8)
    f.require(with_bytes(f, found, nbytes, lambda to: f.call("memcpy", POINTER, [to, start, nbytes])))
    f.let_go(node)
    f.keeps(found)
    f.give(found)


def _lists(f: Function) -> None:
    """Emit `lists(buffer, dtype, shape, strides, axis, offset)`: return the elements of the axes from `axis` on as nested lists.

    The first of these elements is at `offset` in the buffer, in elements.

    Without further axes the function returns a number; for a dtype that is not covered, null.
    """
    buffer, dtype, shape, strides, axis, offset = f.arguments

    def number(at: Value) -> Value:
        return f.call("number_at", POINTER, [buffer, dtype, at])

    f.when_giving(f.word(shape, SIZE).equals(axis), lambda: number(offset))
    is_last = f.word(shape, SIZE).equals(axis + 1)
    count, step = [f.integer(f.at(numbers, ITEMS).at(axis, POINTER).load(POINTER)) for numbers in (shape, strides)]
    found = f.made(f.call("PyList_New", POINTER, [count]))

    def one(k: Value) -> None:
        at = offset + k * step
        inner = lambda: [f.call("lists", POINTER, [buffer, dtype, shape, strides, axis + 1, at])]  # noqa: E731
        (x,) = f.choose(is_last, lambda: [number(at)], inner)
        f.refuse(f.is_null(x))
        f.call("PyList_SetItem", I32, [found, k, x])

    f.each(count, one)
    f.keeps(found)
    f.give(found)


def _listed(f: Function) -> None:
    """Emit `listed(x)`: return the elements as nested lists. Where `lists` does not apply, NumPy converts an array."""
    (x,) = f.arguments
    f.require(f.is_a(x, "Tensor"))
    spec, offset = asked(f, x, "spec"), asked(f, x, "offset")
    nbytes, strides = nbytes_of(f, spec), f.get(spec, "Spec.strides")
    f.require((nbytes > 0) & (nbytes <= LARGEST))  # the fallback handles tensors without elements
    f.refuse(f.is_the(strides, "None"))
    node = node_of(f, x)
    parts = [f.get(node, "Node.buffer"), f.get(spec, "Spec.dtype"), f.get(spec, "Spec.shape"), strides]
    listed = lambda: [f.call("lists", POINTER, [*parts, f.number(0), f.integer(offset)])]  # noqa: E731
    (found,) = f.choose(f.integer(f.get(spec, "Spec.size")) <= MOST_LISTED, listed, lambda: [f.nothing()])
    f.let_go(node)
    f.when_giving(~f.is_null(found), lambda: found)
    f.refuse(~f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    held = f.local(POINTER, f.made(f.call("to_numpy", POINTER, [x])))
    (array_,) = f._held
    name = f.the("'tolist'")
    found = f.made(f.call("PyObject_VectorcallMethod", POINTER, [name, held, f.number(1), f.nothing()]))
    f.let_go(array_)
    f.keeps(found)
    f.give(found)


def _length(f: Function) -> None:
    """Emit `length(x)`: return the size of the first axis of a tensor, as a Python integer; null for a 0-d tensor."""
    (x,) = f.arguments
    f.require(f.is_a(x, "Tensor"))
    shape = f.get(asked(f, x, "spec"), "Spec.shape")
    f.refuse(f.word(shape, SIZE).equals(0))
    f.give(f.own(f.at(shape, ITEMS).load(POINTER)))


def _iterated(f: Function) -> None:
    """Emit `iterated(x)`: return an iterator over `x[0]`, `x[1]`, and so on; null for a 0-d tensor."""
    (x,) = f.arguments
    f.require(f.is_a(x, "Tensor"))
    f.refuse(f.word(f.get(asked(f, x, "spec"), "Spec.shape"), SIZE).equals(0))
    f.give(f.call("PySeqIter_New", POINTER, [x]))


def _truth(f: Function) -> None:
    """Emit `truth(x)`: return whether the only element of a tensor is true, as a Python bool; null for other tensors."""
    (x,) = f.arguments
    number = f.made(f.call("only", POINTER, [x]))
    found = f.call("PyObject_IsTrue", I32, [number])
    f.keeps(number)
    f.drop(number)
    f.refuse(found < 0)
    f.give(f.own(f.selected(found.equals(0), f.the("False"), f.the("True"))))


def _converted(f: Function, convert: str, kind: str) -> None:
    """Emit `as_float(x)` or `as_int(x)`: return the only element of a tensor as a Python float or int; null for other tensors.

    `convert` is the C function that converts a number, and `kind` the name of the type of its result.
    """
    (x,) = f.arguments
    number = f.made(f.call("only", POINTER, [x]))
    is_one = f.is_a(number, kind)
    f.keeps(number)
    f.when_giving(is_one, lambda: number)
    f.holding(number)
    f.require(f.either(f.is_a(number, "int"), lambda: f.either(f.is_a(number, "float"), lambda: f.is_a(number, "bool type"))))
    f.keeps(number)
    found = f.call(convert, POINTER, [number])
    f.drop(number)
    f.give(found)


