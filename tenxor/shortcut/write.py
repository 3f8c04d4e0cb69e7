"""What is assigned, to an element or to a part, is put there and then."""

from __future__ import annotations

from ..backend.llvm.builder import Module, Value
from ..backend.llvm.types import DOUBLE, FLOAT, I1, I8, I16, I32, I64, POINTER, Type
from ..dtypes import boolean, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32
from .compute import lock_is_free
from .function import Function
from .index import spec_in, wanted
from .objects import Objects
from .read import address_of
from .record import found_made, operand, within


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    _put(Function(module, objects, "put", [("storage", POINTER), ("spec", POINTER), ("offset", I64), ("value", POINTER)]))
    _put_number(Function(module, objects, "put_number", [("start", POINTER), ("dtype", POINTER), ("offset", I64), ("number", POINTER)], I1))
    _set_item(Function(module, objects, "set_item", [("x", POINTER), ("key", POINTER), ("value", POINTER)]))


def _set_item(f: Function) -> None:
    """`x[key] = value` for one element in memory that nobody else reads: None, if it was written."""
    x, key, value = f.arguments
    f.require(f.is_a(x, "Tensor"))
    found = wanted(f, x, key)

    def view() -> Value:
        return f.call("put", POINTER, [f.get(x, "Tensor.storage"), spec_in(f, found), found.offset, value])

    f.when_giving(~found.is_element, view)
    storage, dtype = f.get(x, "Tensor.storage"), f.get(x, "Tensor.dtype")
    f.require(f.is_a(storage, "Storage"))
    number = _number(f, value, dtype)
    node = f.get(storage, "Storage.node")
    buffer = f.get(node, "Node.buffer")
    f.refuse(f.is_the(buffer, "None"))
    f.require(f.get(f.get(node, "Node.recipe"), "Recipe.dtype").equals(dtype))
    alone = f.both(f.has_one_owner(node), lambda: f.has_one_owner(buffer))
    f.require(f.either(alone, lambda: ~f.is_the(f.get(buffer, "Buffer.pins"), "0")))
    f.require(f.is_the(f.get(buffer, "Buffer.frozen"), "False"))
    f.require(lock_is_free(f))
    f.require(f.call("put_number", I1, [address_of(f, buffer), dtype, found.offset, number]))
    f.keeps(number)
    f.drop(number)
    f.give(f.own(f.the("None")))


def _put(f: Function) -> None:
    """Write a value, a tensor or a number, over a part of a storage in memory that nobody else reads: None, if it was written.

    What is written is computed first, and Python may run for it; so what is asked of the storage is asked afterwards.
    """
    storage, spec, offset, value = f.arguments
    f.hold(storage), f.hold(spec)
    f.require(f.is_a(storage, "Storage"))
    kind = f.type_of(value)
    is_tensor = f.is_the(kind, "Tensor")

    def number() -> list[Value]:
        return [kind, f.the("0")]

    def tensor() -> list[Value]:
        own = operand(f, value)
        f.require(own.is_node)
        return [own.key, own.offset]

    key, start = f.choose(is_tensor, tensor, number)
    f.hold(start)
    own_storage = f.both(is_tensor, lambda: f.get(value, "Tensor.storage").equals(storage))

    def is_there() -> Value:
        """`x[key] += y` has written it already."""
        return f.both(f.get(value, "Tensor.spec").equals(spec), lambda: f.integer(start).equals(offset))

    def write() -> list[Value]:
        made = f.hold(found_made(f, f.get(spec, "Spec.called"), f.the("'write'"), key))
        f.refuse(f.is_the(f.get(made, "Made.frame"), "never"))
        f.when(f.is_the(kind, "int"), lambda: within(f, value, made))
        f.when(own_storage, lambda: f.require(_lie_apart(f, (key, f.integer(start)), (spec, offset))))
        (source,) = f.choose(is_tensor, lambda: [_computed_source(f, value)], lambda: [_scalar(f, value)])
        f.holding(source)
        sources, offsets = f.tuple_of(source), f.tuple_of(f.hold(start), f.as_object(offset))
        _launch_over(f, storage, made, source, sources, offsets)
        f.let_go(made, sources, offsets)
        return []

    f.choose(f.both(own_storage, is_there), list, write)
    f.let_go(storage, spec, start)
    f.give(f.own(f.the("None")))


def _lie_apart(f: Function, read: tuple[Value, Value], written: tuple[Value, Value]) -> Value:
    """Whether one view lies before or behind another: each is a spec that has strides, and an offset."""
    first, last = ([f.integer(f.item(f.get(spec, "Spec.reach"), k)) + at for spec, at in (read, written)] for k in (0, 1))
    return f.either(last[0] < first[1], lambda: last[1] < first[0])


def _computed_source(f: Function, value: Value) -> Value:
    """What a tensor's storage holds now, owned, once it is computed."""
    node = f.hold(f.get(f.get(value, "Tensor.storage"), "Storage.node"))
    f.require(f.call("computed", I1, [node]))
    f.keeps(node)
    return node


def _scalar(f: Function, value: Value) -> Value:
    """A number as what a write reads, owned."""
    made = f.new("Scalar", value=f.own(value), dtype=f.own(f.the("None")))
    f.keeps(made)
    return made


def _launch_over(f: Function, storage: Value, made: Value, source: Value, sources: Value, offsets: Value) -> None:
    """Run a write over what a storage holds, if that is in memory and nobody else can read it. Python runs nothing meanwhile."""
    old = f.get(storage, "Storage.node")
    buffer = f.get(old, "Node.buffer")
    f.refuse(f.is_the(buffer, "None"))
    f.require(f.get(f.get(old, "Node.recipe"), "Recipe.dtype").equals(f.get(f.get(made, "Made.spec"), "Spec.dtype")))
    f.require(f.is_the(f.get(buffer, "Buffer.pins"), "0"))
    f.require(f.is_the(f.get(buffer, "Buffer.frozen"), "False"))
    owners = f.selected(source.equals(old), f.constant(I32, 2), f.constant(I32, 1))  # what is read is one
    f.require(f.both(f.owners(old).equals(owners), lambda: f.has_one_owner(buffer)))
    f.require(lock_is_free(f))
    f.require(f.call("launch", I1, [f.get(made, "Made.frame"), sources, offsets, buffer]))


def _number(f: Function, value: Value, dtype: Value) -> Value:
    """The number that is written, which is held: itself, or that of a tensor of one element of the same dtype."""

    def of_element() -> list[Value]:
        f.require(f.get(value, "Tensor.dtype").equals(dtype))
        return [f.call("only", POINTER, [value])]

    (number,) = f.choose(f.is_a(value, "Tensor"), of_element, lambda: [f.own(value)])
    return f.made(number)


def _put_number(f: Function) -> None:
    """Write a number of Python that is one of the dtype; false for any other."""
    start, dtype, offset, number = f.arguments
    yes = f.constant(I1, True)

    def done(kind: Type, value: Value) -> Value:
        start.at(offset, kind).store(value)
        return yes

    def as_double() -> Value:
        is_float = f.is_a(number, "float")
        f.require(f.either(is_float, lambda: f.is_a(number, "int")))
        f.when(~is_float, lambda: f.require(f.bounded(number)[1]))
        return f.call("PyFloat_AsDouble", DOUBLE, [number])

    def single() -> Value:
        value = as_double()
        size = value.abs()
        f.require(f.either(size <= float32.highest, lambda: f.either(value.is_nan(), lambda: size.equals(float("inf")))))
        return done(FLOAT, value.cast("fptrunc", FLOAT))

    def truth() -> Value:
        f.require(f.is_a(number, "bool"))
        return done(I8, f.is_the(number, "True").cast("zext", I8))

    def integer(kind: Type, low: int, high: int) -> Value:
        f.require(f.is_a(number, "int"))
        value, fits = f.bounded(number)
        f.require(fits)
        if kind is I64:
            return done(I64, value)
        f.require(f.both(value >= low, lambda: value <= high))
        return done(kind, value.cast("trunc", kind))

    f.when_giving(dtype.equals(f.the(float64.name)), lambda: done(DOUBLE, as_double()))
    f.when_giving(dtype.equals(f.the(float32.name)), single)
    f.when_giving(dtype.equals(f.the(boolean.name)), truth)
    kinds = ((int64, I64), (int32, I32), (uint8, I8), (int16, I16), (int8, I8), (uint16, I16), (uint32, I32))
    for d, kind in kinds:
        f.when_giving(
            dtype.equals(f.the(d.name)), lambda d=d, kind=kind: integer(kind, int(d.lowest), int(d.highest))  # type: ignore[misc]
        )
    f.decline()
