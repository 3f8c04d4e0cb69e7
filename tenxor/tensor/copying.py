"""Many tensors in memory put together by machine code, where that has been made: in Python to look at a piece takes longer than to
copy it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from ..dtypes import DType, bfloat16, result_type
from ..host.share import is_alone
from ..layout import Layout
from ..memory import allocate
from ..node import data
from ..realize import lock
from ..records import NamedTuple
from ..spec import Spec
from ..storage import Storage
from .core import Core, check_count

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
_T = TypeVar("_T", bound=Core)
LARGE = 1 << 20  # bytes of a piece from which threads share the copying
MOST_AT_ONCE = 1 << 25  # bytes that the only thread copies in one go, quicker than a kernel would: some milliseconds
FEW = 8  # specs that are sooner found one by one than by sorting
COLUMNS = 4  # of the table: the address of a spec, where the piece goes, the bytes of a row of it, those of an element


def is_shared(nbytes: int, count: int) -> bool:
    """Whether so many pieces are so large together that kernels copy them: threads share that, or it is too much to do in one go."""
    return nbytes >= LARGE * count and (nbytes > MOST_AT_ONCE or not is_alone())


class Copier(NamedTuple):
    """Machine code (`shortcut/code/together.py`), which says whether it has done what is asked.

    `specs` writes the address of the spec of each piece into the first column of a table at an address, if all are in memory, or
    known numbers, and no derivative asks how they were made. `copy` copies pieces as the table says, each in so many rows that go
    so many bytes apart; `copy_alike` those that have one spec, to an address, given the bytes of a row and of an element, how many
    rows, and how far apart.
    """

    specs: Callable[[tuple[Any, ...], int], bool]
    copy: Callable[[tuple[Any, ...], int, int, int], bool]
    copy_alike: Callable[[tuple[Any, ...], int, int, int, int, int], bool]


copiers: list[Copier] = []  # one, or none


class Move(NamedTuple):
    """Which piece is copied, through which layout it is read, and through which it is written."""

    piece: int
    read: Layout
    written: Layout


Arrangement = tuple[Layout, Sequence[Move]]  # the layout of a result, and the copies that fill it
Arrange = Callable[..., Arrangement | None]  # of the arguments of a function, pieces first


class Joiner(NamedTuple):
    """Machine code (`shortcut/code/joining.py`) that makes what a function made of a few small tensors before. It takes the function's
    name, and a tuple and a dictionary of its arguments, of which the tensors, as a list or a tuple, or the only one, are the first; it
    gives None for what it has not met. `learn` records a call: the function's name, its pieces, its other arguments by place and by
    name, the result, and the function that returns the arrangement for such arguments.
    """

    again: Callable[..., Any]
    learn: Callable[[str, Sequence[Any], tuple[Any, ...], Mapping[str, Any], Any, Arrange], None]


joiners: list[Joiner] = []  # one, or none


def copied_together(
    cls: type[_T], op: str, tensors: Sequence[_T], axis: int | None, *, stacked: bool = False, mixed: bool = False
) -> _T | None:
    """New tensor: tensors without gaps in memory one after another along an axis of theirs, `stacked` along a new one, or flattened
    for None; if `mixed`, of several dtypes. None where they do not fit, or there is nobody who copies them.
    """
    copier = next(iter(copiers), None)
    if copier is None or type(tensors[0]) is not cls:
        return None
    specs_of, copy, copy_alike = copier
    pieces = tuple(tensors)
    found = _copied_alike(copy_alike, cls, op, pieces, axis, stacked)
    if found is not None:
        return found
    table = np.empty((COLUMNS, len(pieces)), np.int64)
    if not specs_of(pieces, _address(table)):
        return None
    specs, which = _specs(pieces, table[0])
    dtypes = list({spec.dtype for spec in specs})
    if len(dtypes) > 1 and (not mixed or bfloat16 in dtypes):  # NumPy sees that as integers
        return None
    counts = np.bincount(which, minlength=len(specs)).tolist()
    shape = _joined_shape([spec.shape for spec in specs], counts, axis, stacked)
    if shape is None or not all([spec.layout.is_contiguous() for spec in specs]):
        return None
    dtype = dtypes[0] if len(dtypes) == 1 else result_type(*dtypes)
    check_count(op, shape)
    size = prod(shape)
    nbytes = size * dtype.itemsize
    if not size or nbytes >= LARGE * len(pieces):
        return None
    with lock:
        buffer = allocate(nbytes, op, shape, dtype)
        out = buffer.typed(dtype)[:size].reshape(shape)
        if len(dtypes) == 1:
            rows = prod(shape[: axis or 0])
            table[2] = _each([spec.nbytes // rows for spec in specs], which)
            table[1] = _starts(table[2]) + _address(out)
            table[3] = dtype.itemsize
            done = copy(pieces, _address(table), rows, nbytes // rows)
        else:
            done = _copied_by_dtype(copy, pieces, table, specs, which, out, axis, stacked)
    return cls(Storage(data(buffer, shape, dtype)), Layout.contiguous(shape), dtype) if done else None


def _copied_alike(
    copy_alike: Callable[..., bool], cls: type[_T], op: str, pieces: tuple[_T, ...], axis: int | None, stacked: bool
) -> _T | None:
    """The same for pieces of one spec."""
    spec = pieces[0].spec
    if any([type(x) is not cls or x.spec is not spec for x in (*pieces[1:2], pieces[-1])]):
        return None
    shape = _joined_shape([spec.shape], [len(pieces)], axis, stacked)
    if shape is None or not 0 < spec.nbytes < LARGE or not spec.layout.is_contiguous():
        return None
    check_count(op, shape)
    dtype, size, rows = spec.dtype, spec.size * len(pieces), prod(shape[: axis or 0])
    nbytes, width = size * dtype.itemsize, spec.nbytes // rows
    with lock:
        buffer = allocate(nbytes, op, shape, dtype)
        done = copy_alike(pieces, _address(buffer.array), width, dtype.itemsize, rows, nbytes // rows)
    return cls(Storage(data(buffer, shape, dtype)), Layout.contiguous(shape), dtype) if done else None


def _address(array: Array) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


def _specs(pieces: Sequence[Core], addresses: Array) -> tuple[list[Spec], Array]:
    """The specs that there are, and for each piece the number of its own."""
    others = addresses != addresses[0]
    specs, which = [pieces[0].spec], np.zeros(len(pieces), np.int64)
    while others.any():
        if len(specs) == FEW:
            _, first, which = np.unique(addresses, return_index=True, return_inverse=True)
            return [pieces[k].spec for k in first], which
        k = others.argmax()
        alike = addresses == addresses[k]
        which[alike] = len(specs)
        specs.append(pieces[k].spec)
        others &= ~alike
    return specs, which


def _each(numbers: list[int], which: Array) -> Array:
    """For each piece the one of these numbers that is for its spec."""
    found: Array = np.array(numbers)[which]
    return found


def _starts(sizes: Array) -> Array:
    """Where each of some things begins that lie one after another."""
    return np.cumsum(sizes) - sizes


def _joined_shape(shapes: list[Shape], counts: list[int], axis: int | None, stacked: bool) -> Shape | None:
    """The shape of pieces put together, of which so many have each shape; None unless they fit."""
    one = shapes[0]
    if axis is None:
        return (sum([prod(shape) * n for shape, n in zip(shapes, counts, strict=True)]),)
    if stacked:
        return (*one[:axis], sum(counts), *one[axis:]) if shapes.count(one) == len(shapes) else None
    before, after = one[:axis], one[axis + 1 :]
    if any([len(shape) != len(one) or shape[:axis] != before or shape[axis + 1 :] != after for shape in shapes]):
        return None
    return (*before, sum([shape[axis] * n for shape, n in zip(shapes, counts, strict=True)]), *after)


def _copied_by_dtype(
    copy: Callable[..., bool],
    pieces: tuple[Any, ...],
    table: Array,
    specs: list[Spec],
    which: Array,
    out: Array,
    axis: int | None,
    stacked: bool,
) -> bool:
    """Copy pieces of several dtypes: those of one dtype are put together, and then cast to where they go."""
    to, widths = table[1], table[2]
    in_order = not axis  # one after another in memory; else they are cut into rows
    if not in_order and not stacked and len({spec.shape for spec in specs}) > 1:
        return False
    widths[:] = _each([spec.nbytes for spec in specs], which)
    table[3] = _each([spec.dtype.itemsize for spec in specs], which)
    dtypes: list[DType] = list({spec.dtype: None for spec in specs})
    kinds = _each([dtypes.index(spec.dtype) for spec in specs], which)
    parts = []
    for k, dtype in enumerate(dtypes):
        chosen = kinds == k
        own = widths[chosen]
        part = np.empty(int(own.sum()) // dtype.itemsize, dtype.numpy)
        to[chosen] = _starts(own) + _address(part)
        parts.append(part)
    if not copy(pieces, _address(table), 1, 0):
        return False
    if in_order:
        flat, sizes = out.reshape(-1), [spec.size for spec in specs]
        if set(sizes) != {1}:
            kinds = np.repeat(kinds, _each(sizes, which))
        for k, part in enumerate(parts):
            flat[kinds == k] = part
        return True
    shape = specs[0].shape
    assert axis is not None
    apart = out if stacked else out.reshape(*shape[:axis], len(pieces), *shape[axis:])
    for k, part in enumerate(parts):
        np.moveaxis(apart, axis, 0)[kinds == k] = part.reshape(-1, *shape)
    return True
