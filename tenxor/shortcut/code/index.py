"""Emitters for basic indexing by integers, slices, None and an Ellipsis: views and elements. Other keys go to `picked` and `gathered`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I32, I64, POINTER, array
from ..objects import ITEMS, SIZE, SLICE, Objects
from ..rule import MOST_AXES
from .call import view
from .function import Function
from .numbers import element
from .read import node_of
from .record import asked
from .specs import NUMBERS, spec_with

PARTS = 4  # entries of a key, at most
LONGEST = (1 << 63) - 1  # PY_SSIZE_T_MAX


class Wanted(NamedTuple):
    """A view that a key selects: its dtype, number of axes, address of the sizes and strides (`numbers`), and offset."""

    dtype: Value
    ndim: Value
    numbers: Value
    offset: Value


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    parameters = [("x", POINTER), ("key", POINTER)]
    _place_of_element(Function(module, objects, "place_of_element", parameters, I64))
    _wanted(Function(module, objects, "find_wanted", [*parameters, ("found", POINTER)], I1))
    _is_basic(Function(module, objects, "is_basic", [("self", POINTER), ("pair", POINTER)], exported=True))
    _among_slices(Function(module, objects, "gathered_among_slices", parameters))
    _item(Function(module, objects, "get_item", parameters))
    _item_at(Function(module, objects, "item_at", parameters))


def element_wanted(f: Function, x: Value, key: Value) -> tuple[Value, Value]:
    """Emit a test whether a key selects a single element of `x`. Return whether it does, and the offset of the element in the storage, in
    elements. Python code may run.
    """
    may_be = f.either(f.is_a(key, "int"), lambda: f.is_a(key, "tuple"))
    (place,) = f.choose(may_be, lambda: [f.call("place_of_element", I64, [x, key])], lambda: [f.number(0)])
    return place > 0, place - 1


def _place_of_element(f: Function) -> None:
    """Emit `place_of_element(x, key)`: return 1 + the offset of the element that a key selects, an integer per axis; 0 for another key."""
    x, key = f.arguments
    shape, strides, offset = _numbers_of(f, x)
    ndim = f.word(shape, SIZE)

    def index(part: Value, k: int | Value) -> Value:
        f.require(f.is_a(part, "int"))
        size, (value, fits) = f.integer(f.item(shape, k)), f.bounded(part)
        value = f.selected(value < 0, value + size, value)
        f.require(fits & value.compare("ult", size))
        return value * f.integer(f.item(strides, k))

    def several() -> list[Value]:
        f.require(f.is_a(key, "tuple"))
        f.require(f.word(key, SIZE).equals(ndim))
        return [f.fold(ndim, f.number(0), lambda k, before: before + index(f.item(key, k), k))]

    def one() -> list[Value]:
        f.require(ndim.equals(1))
        return [index(key, 0)]

    (moved,) = f.choose(f.is_a(key, "int"), one, several)
    f.give(f.integer(offset) + moved + 1)


def _numbers_of(f: Function, x: Value) -> tuple[Value, Value, Value]:
    """Emit loads of shape, strides and offset of a tensor; the emitted function returns null or 0 for a tensor without strides."""
    spec, offset = asked(f, x, "spec"), asked(f, x, "offset")
    shape, strides = f.get(spec, "Spec.shape"), f.get(spec, "Spec.strides")
    f.refuse(f.is_the(strides, "None"))
    return shape, strides, offset


def wanted(f: Function, x: Value, key: Value) -> Wanted:
    """Emit the evaluation of a basic key of `x` that selects a view. Return a description of the view.

    The emitted function returns null or 0 for other keys, and for keys out of range.
    """
    found = f.local(array(I64, NUMBERS + 2))
    f.require(f.call("find_wanted", I1, [x, key, found]))
    ndim, offset = (found.at(NUMBERS + k, I64).load(I64) for k in range(2))
    return Wanted(f.get(x, "Tensor.dtype"), ndim, found, offset)


def spec_in(f: Function, found: Wanted) -> Value:
    """Emit the lookup of the spec of a view, which is held (see `Function.hold`). Python may run."""
    return spec_with(f, found.dtype, found.ndim, found.numbers)


def _wanted(f: Function) -> None:
    """Emit `find_wanted(x, key, found)`: evaluate a basic key of a tensor; store sizes, strides, axis count and offset of the view at
    `found`, and return true. Return false for other keys, and for keys that select an element.
    """
    x, key, numbers = f.arguments
    shape, strides, offset = _numbers_of(f, x)
    ndim = f.word(shape, SIZE)
    one = f.local(POINTER, key)
    is_tuple = f.is_a(key, "tuple")
    count = f.choose(is_tuple, lambda: [f.word(key, SIZE)], lambda: [f.number(1)])[0]
    parts = f.selected(is_tuple, f.at(key, ITEMS), one)
    f.require(count <= PARTS)
    at, axis, axes, is_view = (f.local(I64, v) for v in (f.integer(offset), f.number(0), f.number(0), f.number(0)))
    start, stop, step = (f.local(I64) for _ in range(3))

    def axis_here() -> tuple[Value, Value]:
        here = axis.load(I64)
        f.require(here < ndim)
        axis.store(here + 1)
        return f.integer(f.item(shape, here)), f.integer(f.item(strides, here))

    def add(size: Value, stride: Value) -> None:
        k = axes.load(I64)
        f.require(k < MOST_AXES)
        numbers.at(k, I64).store(size)
        numbers.at(k + MOST_AXES, I64).store(stride)
        axes.store(k + 1)

    def an_int(part: Value) -> list[Value]:
        size, stride = axis_here()
        value, fits = f.bounded(part)
        f.require(fits)
        value = f.selected(value < 0, value + size, value)
        f.require(f.both(value >= 0, lambda: value < size))
        at.store(at.load(I64) + value * stride)
        return []

    def a_slice(part: Value) -> list[Value]:
        size, stride = axis_here()
        bounds = [f.at(part, SLICE + 8 * k).load(POINTER) for k in range(3)]
        are_none = [f.is_the(bound, "None") for bound in bounds]
        for bound, is_none in zip(bounds, are_none, strict=True):  # another bound would run Python's `__index__`
            f.require(f.either(is_none, lambda bound=bound: f.is_a(bound, "int")))  # type: ignore[misc]
        f.refuse(f.is_the(bounds[-1], "0"))
        are_small = f.constant(I1, True)
        for bound, is_none in zip(bounds, are_none, strict=True):
            are_small = are_small & f.either(is_none, lambda bound=bound: f.is_small(bound))  # type: ignore[misc]

        def read() -> list[Value]:
            """Emit the reading of the bounds without a call, as `PySlice_Unpack` reads them."""

            def or_else(k: int, otherwise: Value) -> Value:
                return f.choose(are_none[k], lambda: [otherwise], lambda: [f.integer(bounds[k])])[0]

            by, most, zero = or_else(2, f.number(1)), f.number(LONGEST), f.number(0)
            step.store(by)
            start.store(or_else(0, f.selected(by < 0, most, zero)))
            stop.store(or_else(1, f.selected(by < 0, f.number(-LONGEST - 1), most)))
            return []

        def ask() -> list[Value]:
            f.refuse(f.call("PySlice_Unpack", I32, [part, start, stop, step]) < 0)
            return []

        f.choose(are_small, read, ask, (99, 1))
        by = step.load(I64)
        length = f.call("PySlice_AdjustIndices", I64, [size, start, stop, by])
        most = f.selected(size < 1, f.number(1), size)  # limits the product: a longer step selects one element as well
        by = f.selected(by > most, most, f.selected(by < -most, -most, by))
        moved = start.load(I64) * stride
        at.store(at.load(I64) + f.selected(length.equals(0), f.number(0), moved))
        add(length, stride * by)
        return []

    def another(part: Value) -> list[Value]:
        is_new = f.is_the(part, "None")
        f.require(f.either(is_new, lambda: f.is_the(part, "...")))
        return f.choose(is_new, a_new_axis, the_rest)

    def a_new_axis() -> list[Value]:
        add(f.number(1), f.number(0))
        return []

    def the_rest() -> list[Value]:
        """Emit an Ellipsis: it keeps the axes for which the key has neither an integer nor a slice."""
        later, seen = f.local(I64, f.number(0)), f.local(I64, f.number(0))

        def count_one(j: Value) -> None:
            part = parts.at(j, POINTER).load(POINTER)
            f.when(f.either(f.is_a(part, "int"), lambda: f.is_a(part, "slice")), lambda: later.store(later.load(I64) + 1))
            f.when(f.is_the(part, "..."), lambda: seen.store(seen.load(I64) + 1))

        f.each(count, count_one)
        f.require(f.both(seen.load(I64).equals(1), lambda: later.load(I64) <= ndim))
        keep(ndim - later.load(I64))  # `later` counts the entries before the Ellipsis, too
        is_view.store(f.number(1))
        return []

    def keep(left: Value) -> None:
        f.each(left, lambda _: add(*axis_here()))

    def part(k: Value) -> None:
        item = parts.at(k, POINTER).load(POINTER)
        other = lambda: f.choose(f.is_a(item, "slice"), lambda: a_slice(item), lambda: another(item))  # noqa: E731
        f.choose(f.is_a(item, "int"), lambda: an_int(item), other)

    f.each(count, part)
    keep(ndim - axis.load(I64))
    count = axes.load(I64)
    f.refuse(count.equals(0) & is_view.load(I64).equals(0))  # an element is no view
    for k, value in enumerate((count, at.load(I64))):
        numbers.at(NUMBERS + k, I64).store(value)

    def forget(k: int) -> None:
        for place in (k, k + MOST_AXES):
            numbers.at(place, I64).store(f.number(0))

    for k in range(MOST_AXES):
        f.when(count <= k, lambda k=k: forget(k))  # type: ignore[misc]
    f.give(f.constant(I1, True))


def _is_basic(f: Function) -> None:
    """Emit `is_basic((x, key))`, called from Python: return whether a key selects a view or an element by basic indexing."""
    _, pair = f.arguments
    x, key = (f.item(pair, k) for k in range(2))
    is_element, _ = element_wanted(f, x, key)
    found = f.either(is_element, lambda: f.call("find_wanted", I1, [x, key, f.local(array(I64, NUMBERS + 2))]))
    f.when(~found, f.tell_what_was_met)
    f.give(f.truth(found))


def _item(f: Function) -> None:
    """Emit `get_item(x, key)`: return `x[key]`, a view, or a new tensor for an element; null to leave the call to the fallback."""
    x, key = f.arguments
    f.require(f.is_a(x, "Tensor"))
    is_element, place = element_wanted(f, x, key)
    f.when_giving(is_element, lambda: _element(f, x, place))
    f.when_giving(f.is_a(key, "list"), lambda: f.call("picked", POINTER, [x, key]))
    f.when_giving(f.is_a(key, "Tensor"), lambda: _at_indices(f, x, key))
    f.when_giving(_has(f, key, lambda part: f.is_a(part, "Tensor")), lambda: _at_several(f, x, key))
    found = wanted(f, x, key)
    spec = spec_in(f, found)
    offset = f.as_object(found.offset)
    f.give(view(f, f.get(x, "Tensor.storage"), spec, offset))


def _at_indices(f: Function, x: Value, key: Value) -> Value:
    """Emit the selection `x[key]` by a mask or an array of indices: copied now if possible, otherwise a pending gather.

    Return the new tensor, or null to leave the call to the fallback.
    """
    one = f.local(POINTER, key)
    found = f.call("picked", POINTER, [x, key])
    declined = f.both(f.is_null(found), lambda: f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    return f.choose(declined, lambda: [f.call("gathered", POINTER, [x, one, f.number(1)])], lambda: [found])[0]


def _has(f: Function, key: Value, is_such: Callable[[Value], Value]) -> Value:
    """Emit a test whether a key is a tuple and `is_such` holds for one of its entries."""

    def is_one(k: Value, found: Value) -> Value:
        return found | is_such(f.item(key, k)).cast("zext", I64)

    return f.both(f.is_a(key, "tuple"), lambda: f.fold(f.word(key, SIZE), f.number(0), is_one).differs(0))


def _at_several(f: Function, x: Value, key: Value) -> Value:
    """Emit the selection `x[key]` by a tuple with arrays of indices. Return the new tensor, or null to leave the call to the fallback."""
    with_slices = _has(f, key, lambda part: f.is_a(part, "slice") | f.is_the(part, "..."))
    alone = lambda: [f.call("gathered", POINTER, [x, f.at(key, ITEMS), f.word(key, SIZE)])]  # noqa: E731
    return f.choose(with_slices, lambda: [f.call("gathered_among_slices", POINTER, [x, key])], alone)[0]


def _among_slices(f: Function) -> None:
    """Emit `gathered_among_slices(x, key)`: return `x[key]` for a tuple of arrays, slices and an Ellipsis alone, gathered from the view
    that the slices select, as `moves.among_slices` does.
    """
    x, key = f.arguments
    count, ndim = f.word(key, SIZE), f.word(f.get(asked(f, x, "spec"), "Spec.shape"), SIZE)
    parts, filled = f.local(array(POINTER, MOST_AXES)), f.local(I64, f.number(0))

    def add(part: Value) -> None:
        f.require(filled.load(I64) < MOST_AXES)
        parts.at(filled.load(I64), POINTER).store(part)
        filled.store(filled.load(I64) + 1)

    def one(k: Value) -> Value:
        part = f.item(key, k)
        is_array, is_rest = f.is_a(part, "Tensor"), f.is_the(part, "...")
        f.require(is_array | is_rest | f.is_a(part, "slice"))
        axes = f.selected(is_rest, ndim + 1 - count, f.number(1))
        f.require(axes > 0)
        f.each(axes, lambda _: add(f.selected(is_array, part, f.the("slice"))))
        return f.own(f.selected(is_array, f.the("slice(None)"), part))

    rest = f.filled(count, one)
    found = wanted(f, x, rest)
    spec = spec_in(f, found)
    offset = f.as_object(found.offset)
    seen = view(f, f.get(x, "Tensor.storage"), spec, offset)
    selected = f.call("gathered", POINTER, [seen, parts, filled.load(I64)])
    f.let_go(rest, seen)
    f.give(selected)


def _item_at(f: Function) -> None:
    """Emit `item_at(x, key)`: return the element that a key selects, as a Python number; null if the key selects no single element."""
    x, key = f.arguments
    f.require(f.is_a(x, "Tensor"))
    is_element, place = element_wanted(f, x, key)
    f.require(is_element)
    node = node_of(f, x)
    number = f.call("number_at", POINTER, [f.get(node, "Node.buffer"), f.get(x, "Tensor.dtype"), place])
    f.keeps(node)
    f.drop(node)
    f.give(number)


def _element(f: Function, x: Value, offset: Value) -> Value:
    """Emit the creation of a 0-d tensor of the element of `x` at `offset` in its storage. Return the new tensor.

    The emitted function returns null or 0 if the storage is pending or has a tape node.
    """
    held = list(f._held)
    storage, dtype = f.get(x, "Tensor.storage"), f.get(x, "Tensor.dtype")
    f.require(f.is_a(storage, "Storage"))
    node = f.get(storage, "Storage.node")
    buffer = f.get(node, "Node.buffer")
    f.refuse(f.is_the(buffer, "None"))
    f.require(f.is_the(f.get(node, "Node.past"), "None"))
    f.require(f.get(f.get(node, "Node.recipe"), "Recipe.dtype").equals(dtype))
    point = f.item(f.the("points"), f.integer(f.get(dtype, "DType.rank")))
    number = f.made(f.call("number_at", POINTER, [buffer, dtype, offset]))
    found = element(f, number, point)
    f._held[:] = held
    return found
