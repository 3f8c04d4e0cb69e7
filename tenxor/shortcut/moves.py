"""Copy descriptors: how rows are selected by indices or masks, and how tensors are joined, recorded as integers for generated code."""

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

ARRAYS = frozenset((Tensor, list))  # types of keys that select rows
_REST = type(...)
_OF_AXES = frozenset((int, slice, type(None), _REST, Tensor))  # types of key items that index a known number of axes
INDICES = (int64, int32, uint8, int16, int8, uint16, uint32)
MOST_PIECES, FEW_PIECES = 64, 4  # tensors joined by a record at most; up to so many are recorded at their first call
MOST_SELECTED = 1 << 24  # bytes selected by a mask: to copy them takes some milliseconds
MASK = len(INDICES)  # the kind of a mask; the kind of an index tensor is the position of its dtype in INDICES
# Byte offsets into a descriptor of rows. Of the key: kind, element count, bytes of an element, and bytes between two. Of the tensor: rows
# along the indexed axes, bytes of an element, bytes between two rows, and bytes of a row; and whether no two rows overlap.
KIND, COUNT, KEY_ITEM, KEY_STEP, SIZE, ITEM, STEP, WIDTH, WRITABLE = (8 * k for k in range(9))


def key_of_ours(x: Tensor, key: Any) -> Any:
    """Return an index key with NumPy arrays replaced by tensors, and NumPy integers by Python integers, if `x` is a tensor.

    In a tuple, lists of integers and one-dimensional masks also become index tensors. Return `key` itself if nothing is to be replaced.
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
    """Return item `k` of a tuple key with NumPy arrays, lists of integers, and masks of a single axis replaced by tensors and integers.

    A mask as long as the axis, and in memory, is replaced by the indices of its true elements.
    """
    part = key_of_ours(x, key[k])
    if type(x) is not Tensor:
        return part
    if type(part) is list and set(map(type, part)) == {int}:
        array = np.array(part)
        return Tensor._of_array(array) if array.dtype == np.int64 else part
    is_mask = type(part) is Tensor and part.dtype is boolean and part.ndim == 1
    return part.nonzero()[0] if is_mask and _size_at(x, key, k) == part.size and _are_at_hand(part, (boolean,)) else part


def _size_at(x: Tensor, key: tuple[Any, ...], k: int) -> int:
    """Return the size of the axis of `x` that item `k` of a tuple key indexes, a mask of one axis; -1 if the key does not tell the axis."""
    if not _OF_AXES.issuperset(map(type, key)):
        return -1
    axes = [0 if part is None or part is ... else part.ndim if type(part) is Tensor and part.dtype is boolean else 1 for part in key]
    rest = x.ndim - sum(axes) if any([part is ... for part in key[:k]]) else 0
    axis = sum(axes[:k]) + rest
    return x.shape[axis] if 0 <= axis < x.ndim else -1


def _are_at_hand(key: object, dtypes: Sequence[DType] = INDICES) -> bool:
    """Return whether `key` is a non-empty tensor of one of the dtypes in memory; if pending and small, compute the tensor first."""
    if type(key) is not Tensor or key.dtype not in dtypes or not key.ndim or not key.size:
        return False
    compute_if_small(key.storage)
    return key.storage.node.buffer is not None


def one_key(x: Tensor, key: Any) -> tuple[Tensor, Tensor] | None:
    """Return a view of `x` and an index tensor along the view's first axis, equivalent to `key` for a write; None if that is impossible.

    `key` has several index tensors of one shape, or a single index tensor after integers or slices. If an index is out of range, return
    None, and the fallback raises the error.
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
    if all([k is slice for k in others]) and prod(wholes) * last.size <= LOOKED_AT:  # for more, kernels need no indices along whole axes
        before = np.arange(prod(wholes)).reshape(*wholes, *[1] * last.ndim)
        places = _places_at([last], x.shape[axes - 1 :], Tensor._of_array(before))
    elif all([_are_at_hand(k) and k.shape == last.shape for k in others]):
        places = _places_at(parts, x.shape)
    else:
        return None
    return None if places is None else (x.reshape(prod(x.shape[:axes]), *x.shape[axes:]), places)


def _places_at(keys: Sequence[Any], sizes: Sequence[int], at: Any = None) -> Any:
    """Return the flat row-major indices, as a tensor, that index tensors `keys` of axes with `sizes` select; None if one is out of range.

    `at` is a tensor of flat indices along further axes in front of these, or None without such axes.
    """
    fits: Any = None
    for k, size in zip(keys, sizes, strict=False):
        index = k if k.dtype is int64 else k.astype(int64)
        place = index + (index < 0) * size
        is_there = (place >= 0) & (place < size)
        at, fits = place if at is None else at * size + place, is_there if fits is None else fits & is_there
    found = (at + 1) * fits - 1  # -1 for an index out of range
    return found if _are_at_hand(found) and found.min().item() >= 0 else None


def learn_picked(x: Tensor, key: Tensor | list[object]) -> None:
    """Record the copy descriptor for rows of a tensor like `x`, selected by a key like `key`: an index tensor, a mask or a list of
    integers.

    The record is stored with the spec of `x`. If no descriptor can copy the rows, record this. After a few calls of one signature, also
    trace a size-generic template.
    """
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
    """Return, for each index tensor in `x[parts]`, five integers by which generated code checks its indices (`code/gather.py`).

    They are: index of the dtype in `INDICES`, number of indices to check now (0: the kernel checks them), bytes of an index, distance of
    indices in bytes, and size of the axis. The class `slice` stands for a whole axis. Return None without index tensors, or if one loop
    cannot walk one of them.
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
    """Return the pending tensor `x[parts]`, a gather by index tensors. Among `parts`, the class `slice` stands for a whole axis."""
    return x._gather(x._selection("indexing", x.layout, tuple([slice(None) if part is slice else part for part in parts])))


def among_slices(x: Tensor, key: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return a view of `x` and an equivalent key without slices, for a key of index tensors and slices; None for other keys.

    In the returned key the class `slice` stands for a whole axis. Return None, too, if the key has neither a slice nor an ellipsis, or more
    items than `x` has axes.
    """
    kinds = list(map(type, key))
    rests = kinds.count(_REST)
    if not {slice, _REST, Tensor}.issuperset(kinds) or rests > 1 or not rests + kinds.count(slice) or len(key) > x.ndim:
        return None
    others = [slice] * (x.ndim + 1 - len(key))
    parts = [part for k in key for part in (others if k is ... else [k if type(k) is Tensor else slice])]
    return (x[tuple([slice(None) if type(k) is Tensor else k for k in key])], *parts)


def learning_added(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method `index_add_` that calls the fallback `own`, and records the copy descriptor of rows along the first axis."""

    def method(x: Tensor, *given: Any, **named: Any) -> Any:
        found = own(x, *given, **named)
        if type(x) is Tensor and len(given) == 3 and type(given[0]) is int and given[0] == 0 and type(given[1]) is Tensor:
            learn_picked(x, given[1])
        return found

    return method


def learn_rows(made: Made, count: int) -> None:
    """Record the template of a tensor of `count` rows selected by a mask, if it has at most `MOST_SELECTED` bytes.

    `made` is the template of one row; the record is stored with the spec of the row. The generated code calls this for a new count.
    """
    shape = (count, *made.spec.shape)
    found = spec_of(Layout.contiguous(shape), made.spec.dtype)
    if found.nbytes <= MOST_SELECTED:
        remember(made.spec.called, "rows", count, Made(found, recipe_of(DATA, shape, found.dtype)))


class _Moved(NamedTuple):
    """A copy descriptor: `spec` and `recipe` of the result, the latter None if its size depends on a mask, and the descriptor's `words`."""

    spec: Spec
    recipe: Recipe | None
    words: tuple[Number, ...]

    def made(self) -> Made:
        """Return the result template with the packed descriptor."""
        return Made(self.spec, self.recipe, frame=struct.pack(f"={len(self.words)}q", *self.words))

    def rule(self, traced: Traced, like: Made) -> Rule:
        """Return the size-generic template of a descriptor whose words are symbolic sizes of `traced`.

        `like` is the template of the same call for concrete sizes.
        """
        steps = () if self.recipe is None else ((self.recipe, (), (), True),)
        return Rule(traced.trace, Made(self.spec, steps=steps), like, [(OWN, None, self.words, None)])


def _picked_rule(numbers: Sequence[int], spec: Spec, by: Spec | int, made: Made) -> Rule | None:
    """Return the size-generic template for rows of a tensor of `spec`, selected by a key; None if one cannot be made.

    `by` is the spec of an index tensor or mask, or the length of a list. `numbers` are the sizes to become symbolic, and `made` is the
    template for these sizes.
    """
    traced = Traced(numbers)
    sized = traced.numbers((by,))[0] if isinstance(by, int) else spec_of(traced.layout(by.layout), by.dtype)
    found = _picked_by(spec_of(traced.layout(spec.layout), spec.dtype), sized)
    return None if found is None else found.rule(traced, made)


def _picked_by(spec: Spec, by: Spec | int) -> _Moved | None:
    """Return the copy descriptor of rows of a tensor of `spec`, selected by a key; None if no descriptor can copy the rows.

    `by` is the spec of an index tensor or mask, or the length of a list of integers.
    """
    return _of_tensor(spec, by) if isinstance(by, Spec) else _picked(spec, (by,), 1, 0, int64.itemsize, int64.itemsize)


def _of_tensor(spec: Spec, key: Spec) -> _Moved | None:
    """Return the copy descriptor of rows of a tensor of `spec`, selected by a mask or index tensor of spec `key`.

    Return None if no descriptor can copy the rows.
    """
    if key.strides is None or key.form.passing or not key.size:
        return None
    step = one_step(key.shape, key.strides)
    if step is None:
        return None
    item = key.dtype.itemsize
    if key.dtype is boolean:
        known = key.shape == spec.shape[: len(key.shape)] and key.shape and (step == 1 or key.size == 1)  # the mask is read as 64-bit words
        return _picked(spec, key.shape, len(key.shape), MASK, item, step * item) if known else None
    known = key.dtype in INDICES and key.shape
    return _picked(spec, key.shape, 1, INDICES.index(key.dtype), item, step * item) if known else None


def _picked(spec: Spec, shape: tuple[int, ...], axes: int, kind: int, key_item: int, key_step: int) -> _Moved | None:
    """Return the copy descriptor of rows that a key selects along the first `axes` axes of a tensor of `spec`.

    Return None if no descriptor can copy the rows. `kind` is an index into `INDICES`, or `MASK`. The key has `shape`, elements of
    `key_item` bytes, `key_step` bytes apart. One loop must walk the first axes, and a row must be contiguous.
    """
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
    """Record how to join tensors like `pieces` by copies, or that copies alone cannot join them.

    `op` names the joining function, `others` and `named` are its further arguments, and `result` is the tensor that it returned. `arrange`
    takes the pieces and these arguments, and returns the layout of the result and the copy of each piece into it, or None.
    """
    if not 0 < len(pieces) <= MOST_PIECES or set(map(type, pieces)) != {Tensor}:
        return
    given = (*others, *named.values(), *named)
    keys = keys_of(given)
    if keys is None or Tensor in map(type, given):
        return  # the result depends on the value of a tensor argument, and keys hold no values
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
    """Return whether a result stays pending because of its size, to be written by kernels."""
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
    """Return the size-generic template for joining tensors; None if one cannot be made. `made` is the template for these sizes.

    `numbers` are the sizes to become symbolic. `arrange` takes the pieces and further arguments (`others`, `named`), and returns the layout
    of the result of `dtype` and the copy of each piece into it, or None.
    """
    traced = Traced(numbers)
    sized = [stand_in(traced, x) for x in pieces]
    arrangement = arrange(sized, *[stand_in(traced, x) for x in others], **{name: stand_in(traced, x) for name, x in named.items()})
    moved = _joined(sized, dtype, arrangement)
    return None if moved is None else moved.rule(traced, made)


def _joined(pieces: Sequence[Tensor], dtype: DType, arrangement: Arrangement | None) -> _Moved | None:
    """Return the copy descriptors that join `pieces` to a result of `dtype`, one for each region copied.

    `arrangement` is the layout of the result and the copies into it, or None. Return None if `arrangement` is None, if several threads
    share the copying, or if a copy needs a kernel.
    """
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
