"""Specs by their numbers: one for each dtype, shape and strides, in a table. What is not in it is made, with little more than those; what
else a spec has is found out when it is asked for (`spec.py`).

The rows of the table are filled one after another, and places, picked by the numbers, say which: so a new spec touches memory where the
last one did, and not a page that nobody has touched, which the system would have to find and clear.
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

NUMBERS = 2 * MOST_AXES  # of a view: its shape, and from `MOST_AXES` on its strides; 0 for axes that there are not
HUGE = 1 << 30  # sizes and strides that are larger, and as many elements, are left to Python: their products are integers of C
INDEX = (2 * MAX_FORMS - 1).bit_length()  # bits of the number of a place: more than half of them are free, and say 0
PLACE = I16  # the number of a row; the first is that of all free places, and matches nothing
ROW = 16  # words: the dtype, how many axes, the numbers, and the spec, which the table owns
SPEC = 2 + NUMBERS  # where in a row that is
# What each word of a key is multiplied by: powers of an odd number, as integers of C. The highest bits of their sum pick the place, or the
# first behind it that is free or tells of the spec.
MIXED = [(pow(0x9E3779B97F4A7C15, k, 1 << 64) ^ (1 << 63)) - (1 << 63) for k in range(1, 1 + SPEC)]


class Through(NamedTuple):
    """Through what something is read: a view with such a shape and strides."""

    shape: Value
    strides: Value


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
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
    """The spec of a dtype and numbers, held. Python may run."""
    return f.made(f.call("spec_with", POINTER, [dtype, ndim, numbers]))


def read_through(f: Function, recipe: Value, k: Value) -> Value:
    """The spec by which a recipe of machine code's reads a source, or behind the last what it writes through; None if there is none."""
    through, place = f.get(recipe, "Recipe.through"), f.get(recipe, "Recipe.which")
    only = lambda: [f.selected(f.integer(f.item(place, k)) < 0, f.the("None"), through)]  # noqa: E731
    return f.choose(f.is_a(through, "tuple"), lambda: [f.item(through, k)], only)[0]


def through_of(f: Function, recipe: Value, k: Value) -> Through:
    """Through what a recipe reads a node; it declines what has more to it than strides."""

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
    """Whether what is read so lies as what a spec with strides is of."""
    strides = lambda: f.call("are_alike", I1, [through.strides, f.get(spec, "Spec.strides")])  # noqa: E731
    return f.both(f.call("are_alike", I1, [through.shape, f.get(spec, "Spec.shape")]), strides)


def keeps_order(f: Function, through: Value, plain: Value) -> Value:
    """Whether a recipe keeps the order of what it reads through these specs, behind which the target's is: see `Recipe`."""

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
    """How many bytes the elements of a spec take."""
    return f.integer(f.get(spec, "Spec.size")) * f.integer(f.get(f.get(spec, "Spec.dtype"), "DType.itemsize"))


def ends_of(f: Function, spec: Value) -> list[Value]:
    """The lowest and the highest offset that a view with strides has, unless there are no elements."""
    shape, strides = f.get(spec, "Spec.shape"), f.get(spec, "Spec.strides")
    zero = f.number(0)

    def axis(k: Value, ends: Sequence[Value]) -> list[Value]:
        last = (f.integer(f.item(shape, k)) - 1) * f.integer(f.item(strides, k))
        return [ends[0] + f.selected(last < 0, last, zero), ends[1] + f.selected(last < 0, zero, last)]

    return f.folded(f.word(shape, SIZE), [zero, zero], axis)


def _has_each_once(f: Function) -> None:
    """Whether a view is known to have each element once: along each axis it goes further than all axes that go less far do together. It is
    `writable` from then on.
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
    """A place for the numbers of a view, of which there are none yet."""
    place = f.local(array(I64, NUMBERS))
    for k in range(NUMBERS):
        place.at(k, I64).store(f.number(0))
    return place


def in_rows(f: Function, ndim: Value, numbers: Value) -> None:
    """Write down the strides of what lies in memory in a row, of these sizes; it declines what is huge."""

    def axis(j: Value, step: Value) -> Value:
        k = ndim - 1 - j
        size = numbers.at(k, I64).load(I64)
        numbers.at(k + MOST_AXES, I64).store(step)
        f.require((size <= HUGE) & (step <= HUGE))
        return step * f.selected(size.equals(0), f.number(1), size)

    f.fold(ndim, f.number(1), axis)


def read_integers(f: Function, items: Value, count: Value, to: Value) -> None:
    """Write down so many items of a tuple of Python's; it declines what are no integers of C."""

    def one(k: Value) -> None:
        f.require(f.is_a(f.item(items, k), "int"))
        value, fits = f.bounded(f.item(items, k))
        f.require(fits)
        to.at(k, I64).store(value)

    f.each(count, one)


def _row_major(f: Function) -> None:
    """The spec of what lies in memory in a row, owned."""
    dtype, shape = f.arguments
    ndim, numbers = f.word(shape, SIZE), no_numbers(f)
    f.require(ndim <= MOST_AXES)
    f.each(ndim, lambda k: numbers.at(k, I64).store(f.integer(f.item(shape, k))))
    in_rows(f, ndim, numbers)
    f.give(spec_with(f, dtype, ndim, numbers))


def _words(dtype: Value, ndim: Value, numbers: Value) -> list[Value]:
    """What a spec is found by."""
    return [dtype.cast("ptrtoint", I64), ndim, *[numbers.at(k, I64).load(I64) for k in range(NUMBERS)]]


def _first(f: Function, words: Sequence[Value]) -> Value:
    """The number of the place where it is looked for first."""
    mixed = f.number(0)
    for word, times in zip(words, MIXED, strict=True):
        mixed = mixed + word * times
    return mixed.shifted_right(64 - INDEX)


def _spec_with(f: Function) -> None:
    """The spec of a dtype and numbers, owned."""
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
    return f.define(POINTER, "getelementptr i64, ptr @spec_places, i64 0").at(at, PLACE)


def _row_at(f: Function, at: Value) -> Value:
    """The row that a place tells of."""
    return _row(f, _place(f, at).load(PLACE).cast("zext", I64))


def _row(f: Function, number: Value) -> Value:
    return f.define(POINTER, "getelementptr i64, ptr @specs, i64 0").at(number * ROW, I64)


def _is_in(f: Function, row: Value, words: Sequence[Value]) -> Value:
    differs = f.number(0)
    for k, word in enumerate(words):
        differs = differs | (row.at(k, I64).load(I64) ^ word)
    return differs.equals(0)


def _place_of(f: Function) -> None:
    """The place that tells of the spec of these numbers, or is to tell of it, from the one on where it is looked for first."""
    first, *parts = f.arguments
    at = f.local(I64, first)

    def is_another() -> Value:
        is_taken = _place(f, at.load(I64)).load(PLACE).differs(0)
        return f.both(is_taken, lambda: ~_is_in(f, _row_at(f, at.load(I64)), _words(*parts)))

    f.as_long_as(is_another, lambda: at.store((at.load(I64) + 1) & ((1 << INDEX) - 1)))
    f.give(at.load(I64))


def _known(f: Function, place: Value) -> Value:
    """The spec that a place tells of, borrowed; null if it is free."""
    return _row_at(f, place).at(SPEC, POINTER).load(POINTER)


def _there(f: Function) -> None:
    """The spec of these numbers, owned: one that there was before, or else one that is made now, and kept. It declines what is huge."""
    _, *parts = f.arguments
    known = _known(f, f.call("place_of_spec", I64, f.arguments))
    f.when_giving(~f.is_null(known), lambda: f.own(known))
    f.when(_count(f, "rows_filled").load(I64) >= MAX_FORMS, lambda: f.ask_python("forget forms"))
    made = f.made(f.call("spec_made", POINTER, parts))
    place = f.call("place_of_spec", I64, f.arguments)
    # One that Python made as well, if it ran meanwhile.
    f.when(f.is_null(_known(f, place)), lambda: _keep(f, place, _words(*parts), made))
    found = f.own(_known(f, place))
    f.let_go(made)
    f.give(found)


def _count(f: Function, name: str) -> Value:
    """Where it stands how many specs there are in the table, or how many rows were filled since there was none."""
    return f.define(POINTER, f"getelementptr i64, ptr @{name}, i64 0")


def _keep(f: Function, place: Value, words: Sequence[Value], spec: Value) -> None:
    """Write a spec into the next row, of which a free place is to tell."""
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
    """A spec of these numbers, with what is always asked for; it declines what is huge."""
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
    """The spec of a dtype, a shape and strides, which are Python's: the one in the table, or else this one, if there is one, which is in it
    from then on, or one that is made now. None has more axes, larger numbers, or such that are none.
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
    """The same for Python; None if there is none."""
    given = f.arguments[1]
    f.give_or_none(f.call("spec_of_python", POINTER, [given.at(k, POINTER).load(POINTER) for k in range(4)]))


def _forget(f: Function) -> None:
    """For Python, which has forgotten forms: forget all specs of the table, whose rows are filled anew if none was kept meanwhile."""
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
    """A tuple of so many integers."""
    numbers, count = f.arguments
    found = f.filled(count, lambda k: f.call("PyLong_FromLongLong", POINTER, [numbers.at(k, I64).load(I64)]))
    f.when(count > 0, lambda: f.unseen(found))  # as the collector would: integers refer to nothing
    f.keeps(found)
    f.give(found)
