"""Specs by their numbers: what has a dtype, a shape and strides that were met before is found in a table; anything else Python makes."""

from __future__ import annotations

from collections.abc import Sequence

from ..backend.llvm.builder import Module, Value
from ..backend.llvm.types import I64, POINTER, array
from ..dtypes import DType
from ..layout import form_of_numbers
from ..layout.coords import Shape
from ..spec import Spec, spec_of
from .function import Function
from .objects import ITEMS, Objects
from .rule import MOST_AXES

NUMBERS = 2 * MOST_AXES  # of a view: its shape, and from `MOST_AXES` on its strides; 0 for axes that there are not
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
    _spec_made(Function(module, objects, "spec_made", [("row", POINTER), *[(name, I64) for name in _names()]]))
    _integers(Function(module, objects, "integers", [("numbers", POINTER), ("count", I64)]))


def _names() -> list[str]:
    return ["dtype", "ndim", *[f"number_{k}" for k in range(NUMBERS)]]


def made_with(dtype: DType, shape: Shape, strides: Shape) -> Spec:
    """The spec of such numbers, for machine code that has not met them."""
    return spec_of(form_of_numbers(shape, strides).layout, dtype)


def spec_with(f: Function, dtype: Value, ndim: Value, numbers: Value) -> Value:
    """The spec of a dtype and numbers, owned. Python may run."""
    return f.made(f.call("spec_with", POINTER, [dtype, ndim, numbers]))


def _spec_with(f: Function) -> None:
    dtype, ndim, numbers = f.arguments
    words = [dtype.cast("ptrtoint", I64), ndim, *[numbers.at(k, I64).load(I64) for k in range(NUMBERS)]]
    mixed = f.number(0)
    for word, times in zip(words, MIXED, strict=True):
        mixed = mixed + word * times
    table = f.define(POINTER, "getelementptr i64, ptr @specs, i64 0")
    row = table.at(mixed.shifted_right(64 - INDEX) * ROW, I64)
    f.when_giving(_is_in(f, row, words), lambda: f.own(row.at(SPEC, POINTER).load(POINTER)))
    beside = (row.cast("ptrtoint", I64) ^ BESIDE).cast("inttoptr", POINTER)
    f.when_giving(_is_in(f, beside, words), lambda: f.own(beside.at(SPEC, POINTER).load(POINTER)))
    f.give(f.call("spec_made", POINTER, [row, *words]))


def _is_in(f: Function, row: Value, words: Sequence[Value]) -> Value:
    differs = f.number(0)
    for k, word in enumerate(words):
        differs = differs | (row.at(k, I64).load(I64) ^ word)
    return differs.equals(0)


def _spec_made(f: Function) -> None:
    """The same as Python makes it: it is in the row from then on, and what was there beside it."""
    row, *words = f.arguments
    numbers = f.local(array(I64, NUMBERS))
    for k, number in enumerate(words[2:]):
        numbers.at(k, I64).store(number)
    shape, strides = (f.made(f.call("integers", POINTER, [numbers.at(k, I64), words[1]])) for k in (0, MOST_AXES))
    args = f.local(array(POINTER, 3))
    for k, x in enumerate((words[0].cast("inttoptr", POINTER), shape, strides)):
        args.at(k, POINTER).store(x)
    made = f.made(f.call("PyObject_Vectorcall", POINTER, [f.the("made_with"), args, f.number(3), f.nothing()]))
    f.let_go(shape, strides)
    beside = (row.cast("ptrtoint", I64) ^ BESIDE).cast("inttoptr", POINTER)
    gone = beside.at(SPEC, POINTER).load(POINTER)
    for k in range(SPEC + 1):
        beside.at(k, I64).store(row.at(k, I64).load(I64))
    for k, word in enumerate(words):
        row.at(k, I64).store(word)
    row.at(SPEC, POINTER).store(f.own(made))
    f.when(~f.is_null(gone), lambda: f.drop(gone))  # last, as Python may run
    f.keeps(made)
    f.give(made)


def _integers(f: Function) -> None:
    """A tuple of so many integers."""
    numbers, count = f.arguments
    found = f.made(f.call("PyTuple_New", POINTER, [count]))

    def one(k: Value) -> None:
        number = f.as_object(numbers.at(k, I64).load(I64))
        f.at(found, ITEMS).at(k, POINTER).store(number)
        f.keeps(number)

    f.each(count, one)
    f.keeps(found)
    f.give(found)
