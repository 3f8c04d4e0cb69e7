"""Recording of calls that NumPy computed, as templates for direct calls.

While a function is recorded, the package reports each result computed by NumPy. Often a C function of NumPy, or generated code, can compute
the same directly on our memory, without arrays. This module turns such a report into a result template (`Made`) with a program
(`programs.py`) for the generated code.
"""

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

MOST_SIZES = 1 << 12  # templates per dtype for results with data-dependent sizes


class Heard(NamedTuple):
    """A report of one external computation: the operand tensors, the result tensors, and how to compute the results again.

    `compute` is a function of NumPy arrays with the elements of the operands; it returns arrays for the results. `how` describes a direct
    call (`InPlace`). Either may be None. `how_of` returns the description for further operands; it is given if the computation was
    announced by `tell` rather than performed by NumPy.
    """

    operands: Sequence[Tensor]
    results: Sequence[Tensor]
    compute: Callable[..., Any] | None
    how: InPlace | None
    how_of: Callable[..., InPlace | None] | None = None


_heard: dict[int, list[Heard]] = {}  # by id of the thread with an open `listening` context
_OF_NUMBERS = (float64, float32, int64)  # dtypes that the generated code reads scalar arguments in


@contextmanager
def listening() -> Iterator[list[Heard]]:
    """Collect the reports of external computations in this thread while the context is open, and yield them as a growing list.

    Contexts may be nested: at its end, an inner context passes the reports on to the outer context.
    """
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
    """Note a report of an external computation, if this thread has an open `listening` context. The arguments are the fields of `Heard`."""
    here = _heard.get(get_ident())
    if here is not None:
        here.append(Heard(*heard))


def made_in_place(
    how: InPlace, tensors: Sequence[Tensor], operands: Sequence[Tensor], results: Sequence[Tensor], found: Any, numbers: Sequence[Any] = ()
) -> Made | None:
    """Return the result template for a direct call (of a C function on our memory); None if no direct call can compute the results.

    `how` describes the computation of `results` from `operands`, as reported. `tensors` are the tensor arguments of the recorded call, and
    `found` is its result: None is returned if `found` is anything but the results or views of all their elements. `numbers` are the scalar
    arguments of the call; the value searched for by `searchsorted` may be the only one of them.
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
    """Return where the operands of a direct call are stored, and the dtype of the scalar argument among them.

    `how` describes the call, and `tensors` and `numbers` are the tensor and scalar arguments of the recorded function. An operand is given
    as the index of the tensor argument with the same storage, the offset from that tensor's first element in bytes, and shape and strides.
    A scalar argument has the index after the last tensor; without a scalar the dtype is None. Return None unless each operand belongs to
    exactly one tensor, and every tensor is read.
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
    """Return the number of real floats in the first operand: a complex element counts as two."""
    return operands[0].size * (2 if operands[0].dtype.is_complex else 1)


def parts_of(found: Any, results: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """Return `found`, the result of a recorded function, as a tuple of tensors.

    Return None unless each tensor corresponds to an item of `results`, as the result itself or a view of every element.
    """
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
    """Return the result templates of tensors that are stored in new memory, as views at their offsets."""
    return tuple([Made(t.spec, t.storage.node.recipe, shift=t.offset) for t in parts])


class Sized(dict[int, Made]):
    """A cache of result templates for contiguous one-dimensional tensors in memory, by element count.

    The generated code looks up the template after it has counted the elements of a result.
    """

    def __init__(self, dtype: DType) -> None:
        super().__init__()
        self.dtype = dtype

    def __missing__(self, size: int) -> Made:
        """Create, store and return the template for `size` elements; if the cache is full, clear it first."""
        if len(self) >= MOST_SIZES:
            self.clear()
        made = Made(spec_of(Layout.contiguous((size,)), self.dtype), recipe_of(DATA, (size,), self.dtype))
        return self.setdefault(size, made)


@cache
def sized(dtype: DType) -> Sized:
    """Return the cache of templates for one-dimensional tensors of `dtype`. The cache of a dtype is created once."""
    return Sized(dtype)


def is_number(t: Tensor, number: Any) -> bool:
    """Return whether `t` is a 0-d tensor made from the Python scalar `number`.

    The dtype must be one that generated code reads scalars in, and `t` must not be on the autograd tape.
    """
    if t.shape or t.dtype not in _OF_NUMBERS or t.node.past is not None:
        return False
    try:
        return bool(t.item() == t.dtype.numpy.type(number))
    except OverflowError:  # the dtype cannot represent the value
        return False


def lies(t: Tensor) -> Seen:
    """Return the shape and the strides, in bytes, of a tensor."""
    return t.shape, tuple([s * t.dtype.itemsize for s in t.layout.strides])


def kind_of(found: Any) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return a function from a tuple of tensors to the type that a recorded function returned; None if `found` is a single tensor."""
    if not isinstance(found, tuple):
        return None
    return tuple if type(found) is tuple else partial(tuple.__new__, type(found))


def turned(compute: Callable[..., Any], places: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> Callable[..., Any]:
    """Return a function that calls `compute` with its arrays reordered and reshaped.

    Argument k of `compute` is array `places[k]` of the new function's arguments, reshaped to `shapes[k]`.
    """
    return lambda *arrays: compute(*[arrays[k].reshape(shape) for k, shape in zip(places, shapes, strict=True)])


def place_of(x: Any, tensors: Sequence[Tensor]) -> int | None:
    """Return the index of the only tensor in `tensors` with the same elements in memory as `x`, in the same order.

    Return None if no tensor, or more than one, fits.
    """
    if type(x) is not Tensor or not x.spec.gapless:
        return None
    places = [
        k
        for k, t in enumerate(tensors)
        if t.storage is x.storage and t.dtype is x.dtype and t.offset == x.offset and t.spec.gapless and t.spec.size == x.spec.size
    ]
    return places[0] if len(places) == 1 else None


def numbers_of(given: Sequence[Any]) -> list[Any]:
    """Return the Python floats and integers among the arguments `given`, in order and without booleans."""
    return [x for x in given if type(x) in (float, int)]


def key_of_made(key: tuple[Any, ...], given: Sequence[Any], made: Made) -> tuple[Any, ...]:
    """Return the cache key for a result template, with the scalar argument replaced by its type if the template fits every scalar.

    `key` is the key with the scalar itself: one item for each of `given`, the arguments after the first, and maybe more. The template fits
    every scalar if `made.number` is not None.
    """
    if made.number is None:
        return key
    (at,) = [k for k, x in enumerate(given) if type(x) in (float, int)]
    return (*key[:at], type(given[at]), *key[at + 1 :])


def share(tensors: Sequence[Tensor]) -> bool:
    """Return whether two of the tensors share a storage. Then a report does not tell from which argument an operand comes."""
    return len({id(t.storage) for t in tensors}) < len(tensors)


def passes(spec: Spec) -> bool:
    """Return whether a spec has a transient layout, whose large offset tables must not be kept by caches."""
    return bool(spec.form.passing)
