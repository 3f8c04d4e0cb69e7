"""A hash table of specs: one interned spec for each dtype, shape and strides.

A missing spec is built with few slots; further slots are computed when they are read (`spec.py`). The rows of the table are filled in
order, and a separate index with open addressing maps a hash to a row number. So a new spec touches memory near the previous row. A row
chosen by hash would often lie in a fresh page, which the operating system must find and clear.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I16, I64, POINTER, array
from ...layout.form import MAX_FORMS
from ..objects import SIZE, Objects
from ..rule import MOST_AXES
from .function import Function

NUMBERS = 2 * MOST_AXES  # integers of a view: the shape, and the strides from `MOST_AXES` on; 0 for missing axes
HUGE = 1 << 30  # larger sizes, strides and element counts are left to the fallback in Python; products of two fit in 64 bits
INDEX = (2 * MAX_FORMS - 1).bit_length()  # bits of an index position: more than half of the positions stay free and hold 0
PLACE = I16  # a row number; row 0 is that of every free position, and matches nothing
ROW = 16  # words of a row: the dtype, the number of axes, the integers, and the spec, which the table owns
SPEC = 2 + NUMBERS  # position of the spec in a row
# The hash multiplies each word of a key by a power of an odd number, as a signed 64-bit integer. The highest bits of the sum give the first
# position; a search goes on from there to the position of the spec, or to a free one.
MIXED = [(pow(0x9E3779B97F4A7C15, k, 1 << 64) ^ (1 << 63)) - (1 << 63) for k in range(1, 1 + SPEC)]


class Through(NamedTuple):
    """The layout through which a source is read: a shape and strides."""

    shape: Value
    strides: Value


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    module.variable("specs", f"internal global [{ROW << INDEX} x i64] zeroinitializer, align {8 * ROW}")
    module.variable("spec_places", f"internal global [{1 << INDEX} x {PLACE.text}] zeroinitializer, align 64")
    for name in ("specs_kept", "rows_filled"):
        module.variable(name, "internal global i64 0")
    _spec_with(Function(module, objects, "spec_with", [("dtype", POINTER), ("ndim", I64), ("numbers", POINTER)]))
    place = [("at", I64), ("dtype", POINTER), ("ndim", I64), ("numbers", POINTER)]
    _place_of(Function(module, objects, "place_of_spec", place, I64))
    _there(Function(module, objects, "spec_there", place))
    _made(Function(module, objects, "spec_made", [("dtype", POINTER), ("ndim", I64), ("numbers", POINTER)]))
    _has_each_once(Function(module, objects, "has_each_once", [("spec", POINTER)], I1))
    _row_major(Function(module, objects, "row_major_spec", [("dtype", POINTER), ("shape", POINTER)]))
    three = [(name, POINTER) for name in ("dtype", "shape", "strides")]
    _of_python(Function(module, objects, "spec_of_python", [*three, ("spec", POINTER)]))
    _for_python(Function(module, objects, "spec_for_python", [("self", POINTER), ("args", POINTER), ("count", I64)], exported=True))
    _forget(Function(module, objects, "forget_specs", [("self", POINTER), ("unused", POINTER)], exported=True))
    _integers(Function(module, objects, "integers", [("numbers", POINTER), ("count", I64)]))


def spec_with(f: Function, dtype: Value, ndim: Value, numbers: Value) -> Value:
    """Emit a call for the spec of a dtype with `ndim` axes, whose shape and strides are in the array `numbers`. Python code may run.

    The new reference is held: each later early exit of the emitted function releases it.
    """
    return f.made(f.call("spec_with", POINTER, [dtype, ndim, numbers]))


def read_through(f: Function, recipe: Value, k: Value) -> Value:
    """Emit the spec through which an emitted recipe reads source `k`; after the last source, the spec of the write target. None without a
    spec.
    """
    through, place = f.get(recipe, "Recipe.through"), f.get(recipe, "Recipe.which")
    only = lambda: [f.selected(f.integer(f.item(place, k)) < 0, f.the("None"), through)]  # noqa: E731
    return f.choose(f.is_a(through, "tuple"), lambda: [f.item(through, k)], only)[0]


def through_of(f: Function, recipe: Value, k: Value) -> Through:
    """Emit the layout through which a recipe reads source `k`, a node.

    The emitted function returns null or 0 for view chains and offset tables.
    """

    def of_spec() -> list[Value]:
        spec = read_through(f, recipe, k)
        return [f.get(spec, "Spec.shape"), f.get(spec, "Spec.strides")]

    def of_form() -> list[Value]:
        layout = f.get(f.item(f.get(recipe, "Recipe.forms"), k), "Form.layout")
        f.require(f.is_the(f.get(layout, "Layout.base"), "None"))
        f.require(f.is_the(f.get(layout, "Layout.tables"), "None"))
        return [f.get(layout, "Layout.shape"), f.get(layout, "Layout.strides")]

    return Through(*f.choose(f.is_null(f.get(recipe, "Recipe.through")), of_form, of_spec))


def lies_as(f: Function, through: Through, spec: Value) -> Value:
    """Emit a test whether a layout has the shape and the strides of a spec."""
    strides = lambda: f.call("are_alike", I1, [through.strides, f.get(spec, "Spec.strides")])  # noqa: E731
    return f.both(f.call("are_alike", I1, [through.shape, f.get(spec, "Spec.shape")]), strides)


def keeps_order(f: Function, through: Value, plain: Value) -> Value:
    """Emit the value of `Recipe.keeps_order`, a new reference to True or False.

    `through` is a tuple of the sources' specs, then the target's spec; `plain` is the contiguous spec of the result. The value is True if
    each source is a scalar, a single element, or read with the layout of `plain`.
    """

    def does(k: Value, found: Value) -> Value:
        spec = f.item(through, k)

        def keeps() -> Value:
            strides = f.get(spec, "Spec.strides")
            lies_so = lies_as(f, Through(f.get(spec, "Spec.shape"), strides), plain)
            return f.either(lies_so, lambda: f.fold(f.word(strides, SIZE), f.number(0), step_or_before).equals(0))

        def step_or_before(j: Value, before: Value) -> Value:
            return before | f.integer(f.item(f.get(spec, "Spec.strides"), j))

        return found & f.either(f.is_the(spec, "None"), keeps)

    return f.truth(f.fold(f.word(through, SIZE) - 1, f.constant(I1, True), does))


def nbytes_of(f: Function, spec: Value) -> Value:
    """Emit the number of bytes that the elements of a spec take."""
    return f.integer(f.get(spec, "Spec.size")) * f.integer(f.get(f.get(spec, "Spec.dtype"), "DType.itemsize"))


def ends_of(f: Function, spec: Value) -> list[Value]:
    """Emit the lowest (<= 0) and the highest (>= 0) offset of a view with strides, in elements from its start. Invalid for an empty view.
    """
    shape, strides = f.get(spec, "Spec.shape"), f.get(spec, "Spec.strides")
    zero = f.number(0)

    def axis(k: Value, ends: Sequence[Value]) -> list[Value]:
        last = (f.integer(f.item(shape, k)) - 1) * f.integer(f.item(strides, k))
        return [ends[0] + f.selected(last < 0, last, zero), ends[1] + f.selected(last < 0, zero, last)]

    return f.folded(f.word(shape, SIZE), [zero, zero], axis)


def _has_each_once(f: Function) -> None:
    """Emit `has_each_once(spec)`: return whether each element of a view is known to appear once; if so, set `Spec.writable`.

    The test is sufficient, not necessary: each axis must step farther than the axes with shorter or equal steps reach together.
    """
    (spec,) = f.arguments
    before = f.get(spec, "Spec.writable")
    f.when_giving(f.is_the(before, "True"), lambda: f.constant(I1, True))
    shape, strides = f.get(spec, "Spec.shape"), f.get(spec, "Spec.strides")
    f.refuse(f.is_the(strides, "None"))
    ndim = f.word(shape, SIZE)

    def far(k: Value) -> Value:
        step = f.integer(f.item(strides, k))
        return f.selected(step < 0, -step, step)

    def axis(k: Value) -> None:
        step = far(k)

        def shorter(j: Value, before: Value) -> Value:
            its = far(j)
            counts = j.differs(k) & (its <= step)
            return before + f.selected(counts, (f.integer(f.item(shape, j)) - 1) * its, f.number(0))

        f.when(f.integer(f.item(shape, k)) > 1, lambda: f.require(f.fold(ndim, f.number(0), shorter) < step))

    f.each(ndim, axis)
    f.set(spec, "Spec.writable", f.own(f.the("True")))
    f.drop(before)
    f.give(f.constant(I1, True))


def no_numbers(f: Function) -> Value:
    """Emit a local array for the `NUMBERS` integers of a view, filled with zeros. Return the address."""
    place = f.local(array(I64, NUMBERS))
    for k in range(NUMBERS):
        place.at(k, I64).store(f.number(0))
    return place


def in_rows(f: Function, ndim: Value, numbers: Value) -> None:
    """Emit the row-major strides for the `ndim` sizes in the array `numbers`, stored in the same array behind the sizes.

    The emitted function returns null or 0 for sizes above `HUGE`.
    """

    def axis(j: Value, step: Value) -> Value:
        k = ndim - 1 - j
        size = numbers.at(k, I64).load(I64)
        numbers.at(k + MOST_AXES, I64).store(step)
        f.require((size <= HUGE) & (step <= HUGE))
        return step * f.selected(size.equals(0), f.number(1), size)

    f.fold(ndim, f.number(1), axis)


def read_integers(f: Function, items: Value, count: Value, to: Value) -> None:
    """Emit a copy of `count` items of a Python tuple to an array of 64-bit integers. The emitted function returns null or 0 for other
    objects and larger integers.
    """

    def one(k: Value) -> None:
        f.require(f.is_a(f.item(items, k), "int"))
        value, fits = f.bounded(f.item(items, k))
        f.require(fits)
        to.at(k, I64).store(value)

    f.each(count, one)


def _row_major(f: Function) -> None:
    """Emit `row_major_spec(dtype, shape)`: return the spec of a contiguous tensor, as a new reference. `shape` is a Python tuple."""
    dtype, shape = f.arguments
    ndim, numbers = f.word(shape, SIZE), no_numbers(f)
    f.require(ndim <= MOST_AXES)
    f.each(ndim, lambda k: numbers.at(k, I64).store(f.integer(f.item(shape, k))))
    in_rows(f, ndim, numbers)
    f.give(spec_with(f, dtype, ndim, numbers))


def _words(dtype: Value, ndim: Value, numbers: Value) -> list[Value]:
    """Return the words of a key: the dtype's address, the number of axes `ndim`, and the integers in the array `numbers`."""
    return [dtype.cast("ptrtoint", I64), ndim, *[numbers.at(k, I64).load(I64) for k in range(NUMBERS)]]


def _first(f: Function, words: Sequence[Value]) -> Value:
    """Emit the hash of a key: the index position at which the search starts."""
    mixed = f.number(0)
    for word, times in zip(words, MIXED, strict=True):
        mixed = mixed + word * times
    return mixed.shifted_right(64 - INDEX)


def _spec_with(f: Function) -> None:
    """Emit `spec_with(dtype, ndim, numbers)`: return the spec of a dtype and integers, as a new reference.

    `numbers` is an array of the shape and, from `MOST_AXES` on, the strides, with zeros for missing axes. The function tries the first
    position, then the table, then `spec.spec_of_numbers` in Python.
    """
    words = _words(*f.arguments)
    at = _first(f, words)
    row = _row_at(f, at)
    f.when_giving(_is_in(f, row, words), lambda: f.own(row.at(SPEC, POINTER).load(POINTER)))
    found = f.call("spec_there", POINTER, [at, *f.arguments])

    def by_python() -> list[Value]:
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        dtype, ndim, numbers = f.arguments
        parts = [f.made(f.call("integers", POINTER, [numbers.at(k, I64), ndim])) for k in (0, MOST_AXES)]
        args = f.local(array(POINTER, 3))
        for k, x in enumerate((dtype, *parts)):
            args.at(k, POINTER).store(x)
        made = f.call("PyObject_Vectorcall", POINTER, [f.the("made_with"), args, f.number(3), f.nothing()])
        f.let_go(*parts)
        return [made]

    f.give(f.choose(f.is_null(found), by_python, lambda: [found], (1, 1000))[0])


def _place(f: Function, at: Value) -> Value:
    """Return the address of index position `at`, which holds a row number."""
    return f.define(POINTER, "getelementptr i64, ptr @spec_places, i64 0").at(at, PLACE)


def _row_at(f: Function, at: Value) -> Value:
    """Emit the address of the row to which index position `at` refers."""
    return _row(f, _place(f, at).load(PLACE).cast("zext", I64))


def _row(f: Function, number: Value) -> Value:
    """Return the address of row `number` of the table."""
    return f.define(POINTER, "getelementptr i64, ptr @specs, i64 0").at(number * ROW, I64)


def _is_in(f: Function, row: Value, words: Sequence[Value]) -> Value:
    """Emit a test whether a row has the key `words`."""
    differs = f.number(0)
    for k, word in enumerate(words):
        differs = differs | (row.at(k, I64).load(I64) ^ word)
    return differs.equals(0)


def _place_of(f: Function) -> None:
    """Emit `place_of_spec(at, dtype, ndim, numbers)`: search from position `at` for the position of a spec, or for the first free one."""
    first, *parts = f.arguments
    at = f.local(I64, first)

    def is_another() -> Value:
        is_taken = _place(f, at.load(I64)).load(PLACE).differs(0)
        return f.both(is_taken, lambda: ~_is_in(f, _row_at(f, at.load(I64)), _words(*parts)))

    f.as_long_as(is_another, lambda: at.store((at.load(I64) + 1) & ((1 << INDEX) - 1)))
    f.give(at.load(I64))


def _known(f: Function, place: Value) -> Value:
    """Emit the spec to which an index position refers, borrowed; null if the position is free."""
    return _row_at(f, place).at(SPEC, POINTER).load(POINTER)


def _there(f: Function) -> None:
    """Emit `spec_there(at, dtype, ndim, numbers)`: return the interned spec, built and inserted on a miss, as a new reference.

    The function returns null for sizes above `HUGE`.
    """
    _, *parts = f.arguments
    known = _known(f, f.call("place_of_spec", I64, f.arguments))
    f.when_giving(~f.is_null(known), lambda: f.own(known))
    f.when(_count(f, "rows_filled").load(I64) >= MAX_FORMS, lambda: f.ask_python("forget forms"))
    made = f.made(f.call("spec_made", POINTER, parts))
    place = f.call("place_of_spec", I64, f.arguments)
    # Python code may have run meanwhile and have inserted the same spec.
    f.when(f.is_null(_known(f, place)), lambda: _keep(f, place, _words(*parts), made))
    found = f.own(_known(f, place))
    f.let_go(made)
    f.give(found)


def _count(f: Function, name: str) -> Value:
    """Return the address of a counter: `specs_kept`, the specs in the table, or `rows_filled`, the rows filled since the table was last
    empty.
    """
    return f.define(POINTER, f"getelementptr i64, ptr @{name}, i64 0")


def _keep(f: Function, place: Value, words: Sequence[Value], spec: Value) -> None:
    """Emit code to write a spec with the key `words` into the next row, and make index position `place` refer to this row."""
    filled, kept = _count(f, "rows_filled"), _count(f, "specs_kept")
    f.require(filled.load(I64) < (1 << INDEX) - 1)
    number = filled.load(I64) + 1
    filled.store(number)
    row = _row(f, number)
    for k, word in enumerate(words):
        row.at(k, I64).store(word)
    row.at(SPEC, POINTER).store(f.own(spec))
    _place(f, place).store(number.cast("trunc", PLACE))
    kept.store(kept.load(I64) + 1)


def _made(f: Function) -> None:
    """Emit `spec_made(dtype, ndim, numbers)`: build a spec with the slots that are always read. The function returns null for sizes above
    `HUGE`.
    """
    dtype, ndim, numbers = f.arguments
    size, is_dense = f.local(I64, f.number(1)), f.local(I64, f.number(1))

    def axis(j: Value) -> None:
        k = ndim - 1 - j
        n, stride = numbers.at(k, I64).load(I64), numbers.at(k + MOST_AXES, I64).load(I64)
        f.require(f.both(n <= HUGE, lambda: f.both(stride <= HUGE, lambda: stride >= -HUGE)))
        count = size.load(I64)
        f.require(count <= HUGE)
        is_dense.store(is_dense.load(I64) & (n.equals(1) | stride.equals(count)).cast("zext", I64))
        size.store(count * n)

    f.each(ndim, axis)
    f.require(size.load(I64) <= HUGE)
    gapless = size.load(I64).equals(0) | is_dense.load(I64).equals(1)
    is_line = ndim.equals(1)
    shape = f.made(f.call("integers", POINTER, [numbers, ndim]))
    is_plain = f.both(is_line, lambda: numbers.at(MOST_AXES, I64).load(I64).equals(1))
    its = lambda: [f.call("integers", POINTER, [numbers.at(MOST_AXES, I64), ndim])]  # noqa: E731
    strides = f.made(f.choose(is_plain, lambda: [f.own(f.the("(1,)"))], its)[0])
    anew = lambda: [f.call("PyLong_FromLongLong", POINTER, [size.load(I64)])]  # noqa: E731
    count = f.made(f.choose(is_line, lambda: [f.own(f.item(shape, 0))], anew)[0])
    spec = f.new("Spec", shape=shape, strides=strides, size=count)
    parts = {"dtype": dtype, "gapless": f.selected(gapless, f.the("True"), f.the("False"))}
    parts |= {"known": f.the("None"), "writable": f.the("False")}
    for slot, x in parts.items():
        f.set(spec, f"Spec.{slot}", f.own(x))
    f.keeps(spec)
    f.give(spec)


def _of_python(f: Function) -> None:
    """Emit `spec_of_python(dtype, shape, strides, spec)`: return the interned spec for Python objects, as a new reference.

    On a miss, the table takes `spec`, or a new spec if `spec` is None. The function returns null for more than `MOST_AXES` axes, and items
    other than 64-bit integers. If it must build a new spec, it also returns null for sizes above `HUGE`.
    """
    dtype, shape, strides, spec = f.arguments
    ndim, numbers = f.word(shape, SIZE), no_numbers(f)
    f.require(ndim <= MOST_AXES)

    for items, place in ((shape, numbers), (strides, numbers.at(MOST_AXES, I64))):
        read_integers(f, items, ndim, place)
    words = _words(dtype, ndim, numbers)
    key = [_first(f, words), dtype, ndim, numbers]
    f.when_giving(f.is_the(spec, "None"), lambda: f.call("spec_there", POINTER, key))
    place = f.call("place_of_spec", I64, key)
    known = _known(f, place)
    f.when_giving(~f.is_null(known), lambda: f.own(known))
    _keep(f, place, words, spec)
    f.give(f.own(spec))


def _for_python(f: Function) -> None:
    """Emit `spec_for_python(dtype, shape, strides, spec)`, the entry for Python of `spec_of_python`. It returns None in place of null."""
    given = f.arguments[1]
    f.give_or_none(f.call("spec_of_python", POINTER, [given.at(k, POINTER).load(POINTER) for k in range(4)]))


def _forget(f: Function) -> None:
    """Emit `forget_specs`: empty the table when Python's cache of layout forms is cleared.

    Rows are filled from the start again, unless a finalizer inserted a spec meanwhile.
    """
    filled, kept = _count(f, "rows_filled"), _count(f, "specs_kept")

    def one(k: Value) -> None:
        had = _known(f, k)

        def free() -> None:
            row = _row_at(f, k)
            f.each(f.number(SPEC + 1), lambda word: row.at(word, I64).store(f.number(0)))
            _place(f, k).store(f.constant(PLACE, 0))
            kept.store(kept.load(I64) - 1)
            f.drop(had)

        f.when(~f.is_null(had), free)

    f.each(f.number(1 << INDEX), one)
    f.when(kept.load(I64).equals(0), lambda: filled.store(f.number(0)))
    f.give(f.own(f.the("None")))


def _integers(f: Function) -> None:
    """Emit `integers(numbers, count)`: return a tuple of the first `count` 64-bit integers of an array."""
    numbers, count = f.arguments
    found = f.filled(count, lambda k: f.call("PyLong_FromLongLong", POINTER, [numbers.at(k, I64).load(I64)]))
    f.when(count > 0, lambda: f.unseen(found))  # the collector would untrack this tuple, too: integers refer to no objects
    f.keeps(found)
    f.give(found)
