"""Specs by their numbers: what has a dtype, a shape and strides that were met before is found in a table, and else made as Python does."""

from __future__ import annotations

from collections.abc import Sequence

from ..backend.llvm.builder import Module, Value
from ..backend.llvm.types import I1, I32, I64, POINTER, array
from ..dtypes import DType
from ..layout import form_of_numbers
from ..layout.coords import Shape
from ..layout.form import MAX_FORMS
from ..spec import Spec, spec_of
from .function import Function
from .objects import Objects
from .rule import MOST_AXES

NUMBERS = 2 * MOST_AXES  # of a view: its shape, and from `MOST_AXES` on its strides; 0 for axes that there are not
HUGE = 1 << 30  # sizes and strides that are larger, and as many elements, are left to Python: their products are integers of C
INDEX = 14  # bits of the number of a row
ROW = 16  # words: the dtype, how many axes, the numbers, and the spec, which the table owns
SPEC = 2 + NUMBERS  # where in a row that is
BESIDE = 8 * ROW  # bytes: two rows whose places differ in this bit have the same specs, so two that belong in one place are both there
# What each word of a key is multiplied by: powers of an odd number, as integers of C. The highest bits of their sum pick the row.
MIXED = [(pow(0x9E3779B97F4A7C15, k, 1 << 64) ^ (1 << 63)) - (1 << 63) for k in range(1, 1 + SPEC)]


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    module.globals["specs"] = f"@specs = internal global [{ROW << INDEX} x i64] zeroinitializer, align {2 * BESIDE}"
    _spec_with(Function(module, objects, "spec_with", [("dtype", POINTER), ("ndim", I64), ("numbers", POINTER)]))
    _kept(Function(module, objects, "spec_kept", [("row", POINTER), *[(name, I64) for name in _names()]]))
    parts = [("dtype", POINTER), ("ndim", I64), ("numbers", POINTER), ("shape", POINTER), ("strides", POINTER)]
    _made(Function(module, objects, "spec_made", parts))
    _form_with(Function(module, objects, "form_with", [("shape", POINTER), ("strides", POINTER), ("size", POINTER), ("is_single", I1)]))
    _forget(Function(module, objects, "forget_specs", [("self", POINTER), ("unused", POINTER)], exported=True))
    _integers(Function(module, objects, "integers", [("numbers", POINTER), ("count", I64)]))


def _names() -> list[str]:
    return ["dtype", "ndim", *[f"number_{k}" for k in range(NUMBERS)]]


def made_with(dtype: DType, shape: Shape, strides: Shape) -> Spec:
    """The spec of such numbers, where machine code makes none: of what is huge, or where too many forms are remembered."""
    return spec_of(form_of_numbers(shape, strides).layout, dtype)


def spec_with(f: Function, dtype: Value, ndim: Value, numbers: Value) -> Value:
    """The spec of a dtype and numbers, owned. Python may run."""
    return f.made(f.call("spec_with", POINTER, [dtype, ndim, numbers]))


def no_numbers(f: Function) -> Value:
    """A place for the numbers of a view, of which there are none yet."""
    place = f.local(array(I64, NUMBERS))
    for k in range(NUMBERS):
        place.at(k, I64).store(f.number(0))
    return place


def _spec_with(f: Function) -> None:
    dtype, ndim, numbers = f.arguments
    words = [dtype.cast("ptrtoint", I64), ndim, *[numbers.at(k, I64).load(I64) for k in range(NUMBERS)]]
    mixed = f.number(0)
    for word, times in zip(words, MIXED, strict=True):
        mixed = mixed + word * times
    row = _table(f).at(mixed.shifted_right(64 - INDEX) * ROW, I64)
    f.when_giving(_is_in(f, row, words), lambda: f.own(row.at(SPEC, POINTER).load(POINTER)))
    beside = _beside(row)
    f.when_giving(_is_in(f, beside, words), lambda: f.own(beside.at(SPEC, POINTER).load(POINTER)))
    f.give(f.call("spec_kept", POINTER, [row, *words]))


def _table(f: Function) -> Value:
    return f.define(POINTER, "getelementptr i64, ptr @specs, i64 0")


def _beside(row: Value) -> Value:
    """The row for what belongs in the same place."""
    return (row.cast("ptrtoint", I64) ^ BESIDE).cast("inttoptr", POINTER)


def _is_in(f: Function, row: Value, words: Sequence[Value]) -> Value:
    differs = f.number(0)
    for k, word in enumerate(words):
        differs = differs | (row.at(k, I64).load(I64) ^ word)
    return differs.equals(0)


def _kept(f: Function) -> None:
    """One that is made now, and in the row from then on; what was there is beside it."""
    row, *words = f.arguments
    numbers = f.local(array(I64, NUMBERS))
    for k, number in enumerate(words[2:]):
        numbers.at(k, I64).store(number)
    dtype, ndim = words[0].cast("inttoptr", POINTER), words[1]
    shape, strides = (f.made(f.call("integers", POINTER, [numbers.at(k, I64), ndim])) for k in (0, MOST_AXES))
    made = f.call("spec_made", POINTER, [dtype, ndim, numbers, shape, strides])

    def by_python() -> list[Value]:
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        args = f.local(array(POINTER, 3))
        for k, x in enumerate((dtype, shape, strides)):
            args.at(k, POINTER).store(x)
        return [f.call("PyObject_Vectorcall", POINTER, [f.the("made_with"), args, f.number(3), f.nothing()])]

    (made,) = f.choose(f.is_null(made), by_python, lambda: [made], (1, 1000))
    f.made(made)
    f.let_go(shape, strides)
    beside = _beside(row)
    gone = beside.at(SPEC, POINTER).load(POINTER)
    for k in range(SPEC + 1):
        beside.at(k, I64).store(row.at(k, I64).load(I64))
    for k, word in enumerate(words):
        row.at(k, I64).store(word)
    row.at(SPEC, POINTER).store(f.own(made))
    f.when(~f.is_null(gone), lambda: f.drop(gone))  # last, as Python may run
    f.keeps(made)
    f.give(made)


def _made(f: Function) -> None:
    """The spec of these numbers, as `spec_of(Layout(shape, strides), dtype)` gives it."""
    dtype, ndim, numbers, shape, strides = f.arguments
    size, low, high, is_dense, steps = (f.local(I64, f.number(k)) for k in (1, 0, 0, 1, 0))

    def axis(j: Value) -> None:
        k = ndim - 1 - j
        n, stride = numbers.at(k, I64).load(I64), numbers.at(k + MOST_AXES, I64).load(I64)
        f.require(f.both(n <= HUGE, lambda: f.both(stride <= HUGE, lambda: stride >= -HUGE)))
        count, last = size.load(I64), (n - 1) * stride
        f.require(count <= HUGE)
        is_dense.store(is_dense.load(I64) & (n.equals(1) | stride.equals(count)).cast("zext", I64))
        size.store(count * n)
        low.store(low.load(I64) + f.selected(last < 0, last, f.number(0)))
        high.store(high.load(I64) + f.selected(last < 0, f.number(0), last))
        steps.store(steps.load(I64) | stride)

    f.each(ndim, axis)
    f.require(size.load(I64) <= HUGE)
    has_none = size.load(I64).equals(0)
    gapless = has_none | is_dense.load(I64).equals(1)
    ends = [f.as_object(f.selected(has_none, f.number(none), end.load(I64))) for none, end in ((0, low), (-1, high))]
    reach, count = f.tuple_of(*ends), f.as_object(size.load(I64))
    nbytes = f.as_object(size.load(I64) * f.integer(f.get(dtype, "DType.itemsize")))
    form = f.made(f.call("form_with", POINTER, [shape, strides, count, steps.load(I64).equals(0)]))
    known = f.found_in(f.get(form, "Form.specs"), dtype)

    def anew() -> list[Value]:
        tables = {slot: f.made(f.call("PyDict_New", POINTER, [])) for slot in ("made", "made_after", "called")}
        spec = f.new("Spec", **tables)
        parts = {"form": form, "dtype": dtype, "layout": f.get(form, "Form.layout"), "shape": shape, "strides": strides}
        parts |= {"reach": reach, "size": count, "nbytes": nbytes, "gapless": f.selected(gapless, f.the("True"), f.the("False"))}
        parts |= {"known": f.the("None"), "writable": f.the("False")}
        for slot, x in parts.items():
            f.set(spec, f"Spec.{slot}", f.own(x))
        specs = f.get(form, "Form.specs")
        f.require(f.call("PyDict_SetItem", I32, [specs, dtype, spec]).equals(0))
        f.unseen(specs, reach, spec, *tables.values())  # from CPython 3.14 on it looks at empty dictionaries, too
        f.keeps(spec)
        return [spec]

    (found,) = f.choose(f.is_null(known), anew, lambda: [f.own(known)])
    f.holding(found)
    f.let_go(reach, count, nbytes, form)
    f.keeps(found)
    f.give(found)


def _form_with(f: Function) -> None:
    """The form of a shape and strides, as `form_of` gives it, owned."""
    shape, strides, size, is_single = f.arguments
    forms, none, zero = f.the("forms"), f.the("None"), f.the("0")
    key = f.tuple_of(f.own(shape), f.own(strides), f.own(none))
    f.give_known(forms, key)
    f.require(f.call("PyDict_Size", I64, [forms]) < MAX_FORMS)
    specs = f.made(f.call("PyDict_New", POINTER, []))
    layout = f.new("Layout")
    parts = {"shape": shape, "strides": strides, "size": size, "offset": zero, "_hash": zero, "tables": none, "base": none}
    for slot, x in parts.items():
        f.set(layout, f"Layout.{slot}", f.own(x))
    form = f.new("Form", specs=specs, layout=layout)
    for slot, x in {"is_single": f.selected(is_single, f.the("True"), f.the("False")), "passing": f.the("False")}.items():
        f.set(form, f"Form.{slot}", f.own(x))
    f.set(layout, "Layout._form", f.own(form))
    f.require(f.call("PyDict_SetItem", I32, [forms, key, form]).equals(0))
    f.unseen(key, layout, form)
    f.let_go(key)
    f.keeps(form)
    f.give(form)


def _forget(f: Function) -> None:
    """For Python, which has forgotten forms: forget all specs of the table."""

    def one(k: Value) -> None:
        place = _table(f).at(k * ROW, I64)
        had = place.at(SPEC, POINTER).load(POINTER)
        f.each(f.number(SPEC + 1), lambda word: place.at(word, I64).store(f.number(0)))
        f.when(~f.is_null(had), lambda: f.drop(had))

    f.each(f.number(1 << INDEX), one)
    f.give(f.own(f.the("None")))


def _integers(f: Function) -> None:
    """A tuple of so many integers."""
    numbers, count = f.arguments
    found = f.filled(count, lambda k: f.call("PyLong_FromLongLong", POINTER, [numbers.at(k, I64).load(I64)]))
    f.when(count > 0, lambda: f.unseen(found))  # as the collector would: integers refer to nothing
    f.keeps(found)
    f.give(found)
