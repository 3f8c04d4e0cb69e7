"""Where rows of memory lie and where they go, written down as integers for machine code."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..dtypes import OF_NUMPY, DType, boolean, int8, int16, int32, int64, uint8, uint16, uint32
from ..host.loops import one_step
from ..layout import Layout
from ..node import DATA, Recipe, recipe_of
from ..plans.tracing import Traced
from ..records import NamedTuple
from ..sizes import Number
from ..spec import Made, Spec, remember, spec_of
from ..tensor import Tensor
from ..tensor.copying import LARGE, Arrange, Arrangement, is_shared
from ..tensor.gathering import FEW as LOOKED_AT
from .boxes import box_of
from .learn import keys_of
from .likewise import Call, stand_in
from .limits import LARGEST
from .rule import OWN, Rule
from .writes import compute_if_small

ARRAYS = frozenset((Tensor, list))  # keys that select rows
_REST = type(...)
_OF_AXES = frozenset((int, slice, type(None), _REST, Tensor))  # parts of keys of which it is clear how many axes they are for
INDICES = (int64, int32, uint8, int16, int8, uint16, uint32)
MOST_PIECES, FEW_PIECES = 64, 4  # that are put together; so many are learnt from when they are met for the first time
MOST_SELECTED = 1 << 24  # bytes of what a mask selects: to copy them takes some milliseconds
MASK = len(INDICES)  # the kind of a key, else the number of its dtype
# Of a key: its kind, its elements, the bytes of one and between two; of what it is of: the size of what is indexed, the bytes of an
# element, between two rows, and of a row; and whether rows lie apart.
KIND, COUNT, KEY_ITEM, KEY_STEP, SIZE, ITEM, STEP, WIDTH, WRITABLE = (8 * k for k in range(9))


def key_of_ours(x: Tensor, key: Any) -> Any:
    """The key that is the same to a tensor, of tensors and Python's integers where this has NumPy's arrays and integers, or in a tuple
    lists of integers and masks of one axis; else itself.
    """
    if type(key) is tuple:
        ours = tuple([_part_of_ours(x, key, k) for k in range(len(key))])
        return ours if any([a is not b for a, b in zip(ours, key, strict=True)]) else key
    if isinstance(key, np.integer):
        return int(key)
    dtype = OF_NUMPY.get(key.dtype) if type(key) is np.ndarray and type(x) is Tensor else None
    is_one = dtype is not None and key.ndim > 0 and key.dtype.isnative and (dtype is boolean or dtype in INDICES)
    return Tensor._of_array(key) if is_one else key


def _part_of_ours(x: Tensor, key: tuple[Any, ...], k: int) -> Any:
    """The same of a part of a key: a list, too, which is no key of rows there, and a mask of an axis, if that is in memory."""
    part = key_of_ours(x, key[k])
    if type(x) is not Tensor:
        return part
    if type(part) is list and set(map(type, part)) == {int}:
        array = np.array(part)
        return Tensor._of_array(array) if array.dtype == np.int64 else part
    is_mask = type(part) is Tensor and part.dtype is boolean and part.ndim == 1
    return part.nonzero()[0] if is_mask and _size_at(x, key, k) == part.size and _are_at_hand(part, (boolean,)) else part


def _size_at(x: Tensor, key: tuple[Any, ...], k: int) -> int:
    """How large the axis is that a mask of one axis in a key is for; -1 where that is not clear."""
    if not _OF_AXES.issuperset(map(type, key)):
        return -1
    axes = [0 if part is None or part is ... else part.ndim if type(part) is Tensor and part.dtype is boolean else 1 for part in key]
    rest = x.ndim - sum(axes) if any([part is ... for part in key[:k]]) else 0
    axis = sum(axes[:k]) + rest
    return x.shape[axis] if 0 <= axis < x.ndim else -1


def _are_at_hand(key: object, dtypes: Sequence[DType] = INDICES) -> bool:
    """Whether these are indices, or something else of one of these dtypes, in memory from now on."""
    if type(key) is not Tensor or key.dtype not in dtypes or not key.ndim or not key.size:
        return False
    compute_if_small(key.storage)
    return key.storage.node.buffer is not None


def one_key(x: Tensor, key: Any) -> tuple[Tensor, Tensor] | None:
    """A view, and indices along its first axis, at which the same is written as in a tensor at several arrays of indices, or at one such
    array and integers, or slices; None where there are none, or an index is out of range, which Python says.
    """
    if type(x) is not Tensor or type(key) is not tuple or not x.size or x._has_past() or x.storage.node.traced:
        return None
    x, *parts = among_slices(x, key) or (x, *key)
    strides = x.spec.strides
    while parts and parts[-1] is slice:
        parts.pop()
    axes = len(parts)
    if strides is None or not 1 <= axes <= x.ndim or not _are_at_hand(parts[-1]):
        return None
    *others, last = parts
    if not others:
        return x, last
    if all([type(k) is int and -n <= k < n for k, n in zip(others, x.shape, strict=False)]):
        return x[tuple(others)], last
    if one_step(x.shape[:axes], strides[:axes]) is None:
        return None
    wholes = x.shape[: axes - 1]
    if all([k is slice for k in others]) and prod(wholes) * last.size <= LOOKED_AT:  # kernels need no indices of those
        before = np.arange(prod(wholes)).reshape(*wholes, *[1] * last.ndim)
        places = _places_at([last], x.shape[axes - 1 :], Tensor._of_array(before))
    elif all([_are_at_hand(k) and k.shape == last.shape for k in others]):
        places = _places_at(parts, x.shape)
    else:
        return None
    return None if places is None else (x.reshape(prod(x.shape[:axes]), *x.shape[axes:]), places)


def _places_at(keys: Sequence[Any], sizes: Sequence[int], at: Any = None) -> Any:
    """Which elements, in row-major order, arrays of indices select of axes of these sizes, behind an axis of which those `at` are; None
    where some are out of range.
    """
    fits: Any = None
    for k, size in zip(keys, sizes, strict=False):
        index = k if k.dtype is int64 else k.astype(int64)
        place = index + (index < 0) * size
        is_there = (place >= 0) & (place < size)
        at, fits = place if at is None else at * size + place, is_there if fits is None else fits & is_there
    found = (at + 1) * fits - 1  # of what is out of range -1
    return found if _are_at_hand(found) and found.min().item() >= 0 else None


def learn_picked(x: Tensor, key: Tensor | list[object]) -> None:
    """Write down where the rows lie that a key like this selects of a tensor like this; or that it is not known."""
    if type(key) is list and set(map(type, key)) != {int}:
        return
    by: Spec | int = len(key) if type(key) is list else key.spec  # type: ignore[union-attr]
    if by in x.spec.called.get("picked", ()) or x.spec.form.passing:
        return
    picked = _picked_by(x.spec, by)
    made = Made(x.spec) if picked is None else picked.made()
    remember(x.spec.called, "picked", by, made)
    like = None if picked is None else Call.of("picked", (x, by if type(key) is list else key))
    if like is not None:
        like.learn_made(made, lambda: _picked_rule(like.numbers, x.spec, by, made))


def words_of_key(x: Tensor, *parts: object) -> list[Number] | None:
    """What is looked at in arrays of indices before `x[parts]` is made again (`code/gather.py`); None if there are none that lie so. The
    class of slices stands for all of an axis.
    """
    words: list[Number] = []
    sizes = iter(x.shape)
    for part in parts:
        if type(part) not in (Tensor, int, type(None)) and part is not slice:
            return None
        size = None if part is None else next(sizes, None)
        if type(part) is not Tensor:
            continue
        key, count = part.spec, part.size
        if size is None or key.dtype not in INDICES or not key.shape or not count or key.strides is None or key.form.passing:
            return None
        step = one_step(key.shape, key.strides)
        if step is None:
            return None
        item = key.dtype.itemsize
        words += INDICES.index(key.dtype), count if count <= LOOKED_AT else 0, item, step * item, size
    return words if words and x.size else None


def gathered(x: Tensor, *parts: Any) -> Any:
    """What arrays of indices select, when it is needed."""
    return x._gather(x._selection("indexing", x.layout, tuple([slice(None) if part is slice else part for part in parts])))


def among_slices(x: Tensor, key: Sequence[Any]) -> tuple[Any, ...] | None:
    """A view, and which arrays of indices select the same of its axes as of a tensor with slices among them: the class of slices stands for
    all of an axis. None where there is more than these, or no slice; or an Ellipsis that stands for nothing: it is between arrays yet.
    """
    kinds = list(map(type, key))
    rests = kinds.count(_REST)
    if not {slice, _REST, Tensor}.issuperset(kinds) or rests > 1 or not rests + kinds.count(slice) or len(key) > x.ndim:
        return None
    others = [slice] * (x.ndim + 1 - len(key))
    parts = [part for k in key for part in (others if k is ... else [k if type(k) is Tensor else slice])]
    return (x[tuple([slice(None) if type(k) is Tensor else k for k in key])], *parts)


def learning_added(own: Callable[..., Any]) -> Callable[..., Any]:
    """Python's own `index_add_`, which also writes down where rows lie along the first axis."""

    def method(x: Tensor, *given: Any, **named: Any) -> Any:
        found = own(x, *given, **named)
        if type(x) is Tensor and len(given) == 3 and type(given[0]) is int and given[0] == 0 and type(given[1]) is Tensor:
            learn_picked(x, given[1])
        return found

    return method


def learn_rows(made: Made, count: int) -> None:
    """Write down what so many rows that a mask selects are together."""
    shape = (count, *made.spec.shape)
    found = spec_of(Layout.contiguous(shape), made.spec.dtype)
    if found.nbytes <= MOST_SELECTED:
        remember(made.spec.called, "rows", count, Made(found, recipe_of(DATA, shape, found.dtype)))


class _Moved(NamedTuple):
    """What elements are together: its spec, and its recipe if that is known; and the words of a frame that say where they lie."""

    spec: Spec
    recipe: Recipe | None
    words: tuple[Number, ...]

    def made(self) -> Made:
        """As it is written down."""
        return Made(self.spec, self.recipe, frame=struct.pack(f"={len(self.words)}q", *self.words))

    def rule(self, traced: Traced, like: Made) -> Rule:
        """As it is for all sizes, where this has `Size`s, and there is something `like` it of others."""
        steps = () if self.recipe is None else ((self.recipe, (), (), True),)
        return Rule(traced.trace, Made(self.spec, steps=steps), like, [(OWN, None, self.words, None)])


def _picked_rule(numbers: Sequence[int], spec: Spec, by: Spec | int, made: Made) -> Rule | None:
    """How it is with other sizes, where this is `made` of these."""
    traced = Traced(numbers)
    sized = traced.numbers((by,))[0] if isinstance(by, int) else spec_of(traced.layout(by.layout), by.dtype)
    found = _picked_by(spec_of(traced.layout(spec.layout), spec.dtype), sized)
    return None if found is None else found.rule(traced, made)


def _picked_by(spec: Spec, by: Spec | int) -> _Moved | None:
    """Where the rows lie that a tensor like this, or so many indices, selects."""
    return _of_tensor(spec, by) if isinstance(by, Spec) else _picked(spec, (by,), 1, 0, int64.itemsize, int64.itemsize)


def _of_tensor(spec: Spec, key: Spec) -> _Moved | None:
    """Where the rows lie that a mask or indices like these select."""
    if key.strides is None or key.form.passing or not key.size:
        return None
    step = one_step(key.shape, key.strides)
    if step is None:
        return None
    item = key.dtype.itemsize
    if key.dtype is boolean:
        known = key.shape == spec.shape[: len(key.shape)] and key.shape and (step == 1 or key.size == 1)  # words are read of it
        return _picked(spec, key.shape, len(key.shape), MASK, item, step * item) if known else None
    known = key.dtype in INDICES and key.shape
    return _picked(spec, key.shape, 1, INDICES.index(key.dtype), item, step * item) if known else None


def _picked(spec: Spec, shape: tuple[int, ...], axes: int, kind: int, key_item: int, key_step: int) -> _Moved | None:
    """Where the rows lie that a key of some shape selects along the first axes."""
    if spec.strides is None or len(spec.shape) < axes or not spec.size:
        return None
    item, rest, count = spec.dtype.itemsize, spec.shape[axes:], prod(shape)
    step, between = one_step(spec.shape[:axes], spec.strides[:axes]), one_step(rest, spec.strides[axes:])
    whole = (*shape, *rest)
    if step is None or between not in (1, 0) or (between == 0 and prod(rest) > 1):
        return None
    if count * item > MOST_SELECTED if kind == MASK else (count * 8 > LARGEST or prod(whole) * item > LARGE):
        return None
    size = prod(spec.shape[:axes])
    apart = abs(step) >= prod(rest) or size == 1
    words = kind, count, key_item, key_step, size, item, step * item, prod(rest) * item, apart
    if kind == MASK:
        return _Moved(spec_of(Layout.contiguous(rest), spec.dtype), None, words)
    return _Moved(spec_of(Layout.contiguous(whole), spec.dtype), recipe_of(DATA, whole, spec.dtype), words)


def learn_joined(
    op: str, pieces: Sequence[Any], others: tuple[Any, ...], named: Mapping[str, Any], result: Tensor, arrange: Arrange
) -> None:
    """Record how pieces like these are put together, or that they are not put together by copies alone."""
    if not 0 < len(pieces) <= MOST_PIECES or set(map(type, pieces)) != {Tensor}:
        return
    given = (*others, *named.values(), *named)
    keys = keys_of(given)
    if keys is None or Tensor in map(type, given):
        return  # of which the value matters, and nothing stands for that
    specs = [x.spec for x in pieces]
    key = (*keys, *specs)
    every = specs[0].called.get(op, {})
    if any([spec.form.passing for spec in specs]) or every.get(key) is not None:
        return
    if len(pieces) > FEW_PIECES and key not in every:
        remember(specs[0].called, op, key, None)
        return
    moved = _joined(pieces, result.dtype, arrange(pieces, *others, **named))
    if moved is None or result.spec is not moved.spec or result.offset or _waits_for_kernels(result):
        remember(specs[0].called, op, key, Made(result.spec))
        return
    made = moved.made()
    remember(specs[0].called, op, key, made)
    like = Call.of(op, (*given, *pieces))
    if like is not None:
        like.learn_made(made, lambda: _joined_rule(like.numbers, pieces, others, named, result.dtype, arrange, made))


def _waits_for_kernels(found: Tensor) -> bool:
    """Whether it is so large that kernels write it when it is needed."""
    return found.spec.nbytes >= LARGE and found.storage.node.buffer is None


def _joined_rule(
    numbers: Sequence[int],
    pieces: Sequence[Tensor],
    others: tuple[Any, ...],
    named: Mapping[str, Any],
    dtype: DType,
    arrange: Arrange,
    made: Made,
) -> Rule | None:
    """Return the rule by which pieces of other sizes are put together, with other numbers among the arguments; None if there is none."""
    traced = Traced(numbers)
    sized = [stand_in(traced, x) for x in pieces]
    arrangement = arrange(sized, *[stand_in(traced, x) for x in others], **{name: stand_in(traced, x) for name, x in named.items()})
    moved = _joined(sized, dtype, arrangement)
    return None if moved is None else moved.rule(traced, made)


def _joined(pieces: Sequence[Tensor], dtype: DType, arrangement: Arrangement | None) -> _Moved | None:
    """Return the copies of an arrangement, box by box; None where threads share one of the boxes, or kernels are needed."""
    if arrangement is None:
        return None
    whole, moves = arrangement
    spec, item, moves = spec_of(whole, dtype), dtype.itemsize, list(moves)
    if is_shared(spec.nbytes, len(moves)) or not spec.size:
        return None
    boxes = []
    for piece, read, written in moves:
        x = pieces[piece]
        if x.dtype is not dtype or read.base is not None or read.tables is not None:
            return None
        if not read.size:
            continue
        box = box_of(read.shape, read.strides, written.strides, item, piece, read.offset - x.offset, written.offset)
        if box is None:
            return None
        boxes.append(box)
    words = [n for box in boxes for n in box]
    return _Moved(spec, recipe_of(DATA, spec.shape, dtype), (len(boxes), *words))
