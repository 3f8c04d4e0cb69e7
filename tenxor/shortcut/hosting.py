"""What was computed by NumPy, or told, while a function was learnt from: as what machine code makes where it lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from threading import get_ident
from typing import Any

from ..dtypes import DType, float32, float64, int64
from ..host.counts import Count
from ..host.inplace import InPlace
from ..host.loops import Loop, Seen
from ..host.orders import Order
from ..layout import Layout
from ..node import DATA, recipe_of
from ..records import NamedTuple
from ..spec import Made, Spec, spec_of
from ..tensor import Tensor
from .programs import program_of

MOST_SIZES = 1 << 12  # of results that are found


class Heard(NamedTuple):
    """Some tensors of which others were made, these, what computes arrays of arrays like it, and what does so in place; and what tells
    that of other operands, if it was told and not computed.
    """

    operands: Sequence[Tensor]
    results: Sequence[Tensor]
    compute: Callable[..., Any] | None
    how: InPlace | None
    how_of: Callable[..., InPlace | None] | None = None


_heard: dict[int, list[Heard]] = {}  # by thread, while it learns
_OF_NUMBERS = (float64, float32, int64)  # in which machine code reads them


@contextmanager
def listening() -> Iterator[list[Heard]]:
    """What NumPy computes in this thread meanwhile."""
    me, heard = get_ident(), list[Heard]()
    outer = _heard.get(me)
    _heard[me] = heard
    try:
        yield heard
    finally:
        if outer is None:
            del _heard[me]
        else:
            _heard[me] = outer
            outer += heard


def hears(*heard: Any) -> None:
    """NumPy computed some tensors, the second, of others, the first: so it does of arrays with the elements, and a loop in place."""
    here = _heard.get(get_ident())
    if here is not None:
        here.append(Heard(*heard))


def made_in_place(
    how: InPlace, tensors: Sequence[Tensor], operands: Sequence[Tensor], results: Sequence[Tensor], found: Any, numbers: Sequence[Any] = ()
) -> Made | None:
    """How the same is made where it lies; None if it is not, or what a function gave is not what was made so. What is looked for may be the
    only one of some `numbers` among the arguments.
    """
    parts, lying = parts_of(found, results), how_they_lie(how, tensors, operands, numbers)
    if parts is None or lying is None:
        return None
    seen, number = lying
    written = program_of(how, seen, [lies(t) for t in results], floats_of(operands), [t.dtype.itemsize for t in results])
    if written is None:
        return None
    if isinstance(how, Count):
        if any([t.ndim != 1 or t.offset for t in parts]):
            return None
        return Made(tensors[0].spec, parts=tuple([sized(t.dtype) for t in parts]), kind=kind_of(found), loop=written)  # type: ignore[misc]
    return Made(tensors[0].spec, parts=made_parts(parts), kind=kind_of(found), loop=written, number=number)


def how_they_lie(
    how: InPlace, tensors: Sequence[Tensor], operands: Sequence[Tensor], numbers: Sequence[Any] = ()
) -> tuple[list[tuple[int, int, Seen]], DType | None] | None:
    """Which of the tensors each operand is, from where on, and how it lies; and in which dtype the only number is read that is one of them.
    None if operands are anything else, or not all is read.
    """
    read, seen, number = set[int](), list[tuple[int, int, Seen]](), None
    is_looked_for = isinstance(how, Order) and how.name == "searchsorted" and len(numbers) == 1 and is_number(operands[-1], numbers[0])
    for t in operands:
        if is_looked_for and t is operands[-1]:
            number = t.dtype
            seen.append((len(tensors), 0, ((), ())))
            continue
        which = [k for k, x in enumerate(tensors) if x.storage is t.storage and x.dtype is t.dtype is x.storage.node.dtype]
        if len(which) != 1 or t.spec.strides is None:
            return None
        read.add(which[0])
        seen.append((which[0], (t.offset - tensors[which[0]].offset) * t.dtype.itemsize, lies(t)))
    is_finite = isinstance(how, Loop) and how.finite
    if read != set(range(len(tensors))) or (is_finite and not (operands[0].spec.gapless and len(operands) == 1)):
        return None
    return seen, number


def floats_of(operands: Sequence[Tensor]) -> int:
    """How many floats the first has."""
    return operands[0].size * (2 if operands[0].dtype.is_complex else 1)


def parts_of(found: Any, results: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """What a function gave, if it is what was made, or views of all of that."""
    parts = found if isinstance(found, tuple) else (found,)
    if len(parts) != len(results):
        return None
    for part, result in zip(parts, results, strict=True):
        if type(part) is not Tensor or part.storage is not result.storage or part.dtype is not result.dtype:
            return None
        if part.spec.strides is None or passes(part.spec) or part.spec.size != result.spec.size:
            return None
    return parts


def made_parts(parts: Sequence[Tensor]) -> tuple[Made, ...]:
    """The same, as it is written down."""
    return tuple([Made(t.spec, t.storage.node.recipe, shift=t.offset) for t in parts])


class Sized(dict[int, Made]):
    """Tensors in a row, in memory, by how many elements of a dtype they have."""

    def __init__(self, dtype: DType) -> None:
        super().__init__()
        self.dtype = dtype

    def __missing__(self, size: int) -> Made:
        if len(self) >= MOST_SIZES:
            self.clear()
        made = Made(spec_of(Layout.contiguous((size,)), self.dtype), recipe_of(DATA, (size,), self.dtype))
        return self.setdefault(size, made)


@cache
def sized(dtype: DType) -> Sized:
    """The only table of a dtype."""
    return Sized(dtype)


def is_number(t: Tensor, number: Any) -> bool:
    """Whether a tensor is a number, which was given as Python has it."""
    if t.shape or t.dtype not in _OF_NUMBERS or t.node.past is not None:
        return False
    try:
        return bool(t.item() == t.dtype.numpy.type(number))
    except OverflowError:  # no such element has this value
        return False


def lies(t: Tensor) -> Seen:
    """Shape, and strides in bytes."""
    return t.shape, tuple([s * t.dtype.itemsize for s in t.layout.strides])


def kind_of(found: Any) -> Callable[[tuple[Any, ...]], Any] | None:
    """What makes of a tuple what a function gave; None for what is no tuple."""
    if not isinstance(found, tuple):
        return None
    return tuple if type(found) is tuple else partial(tuple.__new__, type(found))


def turned(compute: Callable[..., Any], places: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> Callable[..., Any]:
    """The same function of arrays in another order, or with other shapes."""
    return lambda *arrays: compute(*[arrays[k].reshape(shape) for k, shape in zip(places, shapes, strict=True)])


def place_of(x: Any, tensors: Sequence[Tensor]) -> int | None:
    """Which of some tensors has all the elements of one, in their order; None if there is not one, or are several."""
    if type(x) is not Tensor or not x.spec.gapless:
        return None
    places = [
        k
        for k, t in enumerate(tensors)
        if t.storage is x.storage and t.dtype is x.dtype and t.offset == x.offset and t.spec.gapless and t.spec.size == x.spec.size
    ]
    return places[0] if len(places) == 1 else None


def numbers_of(given: Sequence[Any]) -> list[Any]:
    return [x for x in given if type(x) in (float, int)]


def key_of_made(key: tuple[Any, ...], given: Sequence[Any], made: Made) -> tuple[Any, ...]:
    """The key of what is made so whatever number is among the arguments, if it is made so."""
    if made.number is None:
        return key
    (at,) = [k for k, x in enumerate(given) if type(x) in (float, int)]
    return (*key[:at], type(given[at]), *key[at + 1 :])


def share(tensors: Sequence[Tensor]) -> bool:
    """Whether some have the same storage: which of them is read must be told."""
    return len({id(t.storage) for t in tensors}) < len(tensors)


def passes(spec: Spec) -> bool:
    return bool(spec.form.passing)
