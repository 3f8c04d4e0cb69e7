"""Basic indexing: views, found by the form and what is asked of each axis; elements as they are."""

from __future__ import annotations

from typing import NamedTuple

from ..backend.llvm.builder import Module, Value
from ..backend.llvm.types import I1, I32, I64, POINTER, array
from .call import view
from .function import Function
from .numbers import element
from .objects import ITEMS, SIZE, SLICE, Objects
from .read import node_of
from .record import asked

PARTS = 4  # of a key at the most
INDEX = 15  # bits of the number of a row
ROWS = 1 << INDEX  # of the table of views
WANTED = 9  # words: a row's place, what it should say, the offset, and whether it is an element
ROW = 8  # words: the form, how many parts, a code for each, and what it makes
BESIDE = 8 * ROW  # bytes: two rows whose places differ in this bit have the same views, so two that belong in one place are both there
AN_INT, A_NEW_AXIS, THE_REST = -(1 << 63), -(1 << 63) + 1, -(1 << 63) + 2  # codes; that of a slice is the size and the step
LARGEST_STEP = 1 << 31
MIX = -7046029254386353131


class Wanted(NamedTuple):
    """What a key asks for: which element is the first, where in the table the view is, and whether it is that element alone."""

    offset: Value
    row: Value
    is_element: Value


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    module.globals["views"] = f"@views = global [{ROWS * ROW} x i64] zeroinitializer, align {2 * BESIDE}"
    module.globals["wanted"] = f"@wanted = global [{WANTED} x i64] zeroinitializer"
    parameters = [("x", POINTER), ("key", POINTER)]
    _wanted(Function(module, objects, "find_wanted", parameters, I1))
    _look_up(Function(module, objects, "look_up", [("self", POINTER), ("pair", POINTER)], exported=True))
    _item(Function(module, objects, "get_item", parameters))
    _item_at(Function(module, objects, "item_at", parameters))


def _place(f: Function, name: str) -> Value:
    return f.define(POINTER, f"getelementptr i8, ptr @{name}, i64 0")


def wanted(f: Function, x: Value, key: Value) -> Wanted:
    """What a key asks of a tensor; declines if it is not of integers, slices, None and one Ellipsis, that fit."""
    f.require(f.call("find_wanted", I1, [x, key]))
    found = _place(f, "wanted")
    offset, is_element = (found.at(3 + PARTS + k, I64).load(I64) for k in range(2))
    return Wanted(offset, found.load(POINTER), is_element.equals(1))


def _wanted(f: Function) -> None:
    """Write down what a key asks of a tensor."""
    x, key = f.arguments
    spec, offset = asked(f, x, "spec"), asked(f, x, "offset")
    shape, strides = f.get(spec, "Spec.shape"), f.get(spec, "Spec.strides")
    f.refuse(f.is_the(strides, "None"))
    ndim = f.word(shape, SIZE)
    one = f.local(POINTER, key)
    is_tuple = f.is_a(key, "tuple")
    count = f.choose(is_tuple, lambda: [f.word(key, SIZE)], lambda: [f.number(1)])[0]
    parts = f.selected(is_tuple, f.at(key, ITEMS), one)
    f.require(count <= PARTS)
    codes = f.local(array(I64, PARTS))
    for k in range(PARTS):
        codes.at(k, I64).store(f.number(0))
    at, axis, mixed, integers = (f.local(I64, v) for v in (f.integer(offset), f.number(0), spec.cast("ptrtoint", I64), f.number(0)))
    start, stop, step = (f.local(I64) for _ in range(3))

    def axis_here() -> tuple[Value, Value]:
        here = axis.load(I64)
        f.require(here < ndim)
        axis.store(here + 1)
        return f.integer(f.item(shape, here)), f.integer(f.item(strides, here))

    def an_int(part: Value) -> list[Value]:
        size, stride = axis_here()
        value, fits = f.bounded(part)
        f.require(fits)
        value = f.selected(value < 0, value + size, value)
        f.require(f.both(value >= 0, lambda: value < size))
        at.store(at.load(I64) + value * stride)
        integers.store(integers.load(I64) + 1)
        return [f.number(AN_INT)]

    def a_slice(part: Value) -> list[Value]:
        size, stride = axis_here()
        for k in range(3):  # all else would have Python run
            bound = f.at(part, SLICE + 8 * k).load(POINTER)
            f.require(f.either(f.is_the(bound, "None"), lambda bound=bound: f.is_a(bound, "int")))  # type: ignore[misc]
        f.refuse(f.is_the(bound, "0"))
        f.refuse(f.call("PySlice_Unpack", I32, [part, start, stop, step]) < 0)
        by = step.load(I64)
        f.require(f.both(by < LARGEST_STEP, lambda: by > -LARGEST_STEP))
        length = f.call("PySlice_AdjustIndices", I64, [size, start, stop, by])
        f.require(length < LARGEST_STEP)
        moved = start.load(I64) * stride
        at.store(at.load(I64) + f.selected(length.equals(0), f.number(0), moved))
        return [(length << 32) + by]

    def another(part: Value) -> list[Value]:
        is_new = f.is_the(part, "None")
        f.require(f.either(is_new, lambda: f.is_the(part, "...")))
        f.when(~is_new, the_rest)
        return [f.selected(is_new, f.number(A_NEW_AXIS), f.number(THE_REST))]

    def the_rest() -> None:
        """An Ellipsis: the axes that no later part is for are left out."""
        later = f.local(I64, f.number(0))

        def count_one(j: Value) -> None:
            part = parts.at(j, POINTER).load(POINTER)
            f.when(f.either(f.is_a(part, "int"), lambda: f.is_a(part, "slice")), lambda: later.store(later.load(I64) + 1))
            f.when(f.is_the(part, "..."), lambda: seen.store(seen.load(I64) + 1))

        seen = f.local(I64, f.number(0))
        f.each(count, count_one)
        f.require(f.both(seen.load(I64).equals(1), lambda: later.load(I64) <= ndim))
        axis.store(axis.load(I64) + (ndim - later.load(I64)))
        integers.store(f.number(-(1 << 40)))  # it is a view in any case

    def part(k: Value) -> None:
        item = parts.at(k, POINTER).load(POINTER)
        other = lambda: f.choose(f.is_a(item, "slice"), lambda: a_slice(item), lambda: another(item))  # noqa: E731
        (code,) = f.choose(f.is_a(item, "int"), lambda: an_int(item), other)
        codes.at(k, I64).store(code)
        mixed.store((mixed.load(I64) * MIX) ^ code)

    f.each(count, part)
    f.require(axis.load(I64) <= ndim)
    row_number = (mixed.load(I64) * MIX).shifted_right(64 - INDEX)
    row = _place(f, "views").at(row_number * ROW, I64)
    hint = _place(f, "wanted")
    is_element = f.both(integers.load(I64).equals(ndim), lambda: count.equals(ndim)).cast("zext", I64)
    said = [codes.at(k, I64).load(I64) for k in range(PARTS)]
    for k, value in enumerate((row, spec, count, *said, at.load(I64), is_element)):
        hint.at(k, I64).store(value)
    f.give(f.constant(I1, True))


def _look_up(f: Function) -> None:
    """For Python: what a key asks of a tensor, as bytes, or None; of the pair of both."""
    _, pair = f.arguments
    found = f.call("find_wanted", I1, [f.item(pair, 0), f.item(pair, 1)])
    f.when_giving(~found, lambda: f.own(f.the("None")))
    f.give(f.call("PyBytes_FromStringAndSize", POINTER, [_place(f, "wanted"), f.number(8 * WANTED)]))


def spec_in(f: Function, found: Wanted) -> Value:
    """The spec of the view that is asked for, if the table has it."""
    hint = _place(f, "wanted")

    def is_in(row: Value) -> Value:
        differs = f.number(0)
        for k in range(2 + PARTS):
            differs = differs | (row.at(k, I64).load(I64) ^ hint.at(k + 1, I64).load(I64))
        return differs.equals(0)

    def beside() -> list[Value]:
        row = (found.row.cast("ptrtoint", I64) ^ BESIDE).cast("inttoptr", POINTER)
        f.require(is_in(row))
        return [row]

    (row,) = f.choose(is_in(found.row), lambda: [found.row], beside)
    return row.at(2 + PARTS, POINTER).load(POINTER)


def _item(f: Function) -> None:
    """What `x[key]` is: a view, or an element as it is now."""
    x, key = f.arguments
    f.require(f.is_a(x, "Tensor"))
    f.when_giving(f.is_a(key, "list"), lambda: f.call("picked", POINTER, [x, key]))
    f.when_giving(f.is_a(key, "Tensor"), lambda: _at_indices(f, x, key))
    f.when_giving(_has_indices(f, key), lambda: f.call("gathered", POINTER, [x, f.at(key, ITEMS), f.word(key, SIZE)]))
    found = wanted(f, x, key)
    f.when_giving(found.is_element, lambda: _element(f, x, found.offset))
    spec = f.hold(spec_in(f, found))
    offset = f.as_object(found.offset)
    made = view(f, f.get(x, "Tensor.storage"), spec, offset)
    f.keeps(spec)
    f.drop(spec)
    f.give(made)


def _at_indices(f: Function, x: Value, key: Value) -> Value:
    """What a mask or an array of indices selects, there and then or when it is needed."""
    one = f.local(POINTER, key)
    found = f.call("picked", POINTER, [x, key])
    declined = f.both(f.is_null(found), lambda: f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    return f.choose(declined, lambda: [f.call("gathered", POINTER, [x, one, f.number(1)])], lambda: [found])[0]


def _has_indices(f: Function, key: Value) -> Value:
    """Whether there are tensors in a tuple."""

    def is_one(k: Value, found: Value) -> Value:
        return found | f.is_a(f.item(key, k), "Tensor").cast("zext", I64)

    return f.both(f.is_a(key, "tuple"), lambda: f.fold(f.word(key, SIZE), f.number(0), is_one).differs(0))


def _item_at(f: Function) -> None:
    """The element at some coordinates as a Python number."""
    x, key = f.arguments
    f.require(f.is_a(x, "Tensor"))
    found = wanted(f, x, key)
    f.require(found.is_element)
    node = node_of(f, x)
    number = f.call("number_at", POINTER, [f.get(node, "Node.buffer"), f.get(x, "Tensor.dtype"), found.offset])
    f.keeps(node)
    f.drop(node)
    f.give(number)


def _element(f: Function, x: Value, offset: Value) -> Value:
    """A new tensor of an element that is in memory."""
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
