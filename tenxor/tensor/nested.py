"""Conversion of nested lists of numbers to arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from math import isinf, isnan, prod
from typing import Any, TypeVar

import numpy as np

from ..dtypes import (
    DEFAULT_COMPLEX,
    DEFAULT_FLOAT,
    DEFAULT_INT,
    OF_NUMPY,
    DType,
    boolean,
    can_cast,
    check_fits,
    check_real,
    result_type,
    shown_integer,
    uint64,
)
from ..dtypes import dtype as dtype_of
from ..errors import DTypeError, OutOfBounds, ShapeError, described
from ..layout import Layout
from ..layout.portions import PORTION
from ..pool import MEMORY_BYTES
from .arguments import number_of
from .core import Core

Array = np.ndarray[Any, Any]
_T = TypeVar("_T", bound=Core)
_V = TypeVar("_V")
_LISTS = frozenset((list, tuple, range))
MAX_NESTED_LISTS = 64  # levels of nesting, as in NumPy
POINTER_BYTES = 8  # bytes of an item in a list
_PLAIN = frozenset((bool, int, float, complex))
_KINDS: dict[str, type] = {"bool": bool, "uint": int, "int": int, "float": float, "complex": complex}
_SCALARS = {d.numpy.type: d for d in OF_NUMPY.values()}


def from_nested(cls: type[_T], obj: Any, wanted: DType | None, op: str) -> tuple[Array | _T, DType | None]:
    """Return a number or nested lists of numbers as an array or a tensor, with the dtype.

    The dtype is `wanted`, or the common dtype of NumPy scalars or tensors, or None for the dtype of the array.
    """
    if type(obj) is list and obj and type(obj[0]) is cls and wanted in (None, obj[0].dtype):
        from .copying import copied_together

        together = copied_together(cls, op, obj, 0, stacked=True, mixed=wanted is None)
        if together is not None:
            return together, wanted
    check_nesting(obj, op)
    shape, leaves, kinds = _unpacked(obj)
    if not kinds <= _PLAIN:
        check_records(leaves, kinds, op)
        if cls in kinds and any([type(x) is cls and x._has_past() for x in leaves]):
            return _with_past(cls, shape, leaves, wanted, op), wanted
        if kinds <= {cls, np.ndarray}:
            stacked = _stacked(cls, shape, leaves, kinds, wanted, op)
            if stacked is not None:
                return stacked, wanted
        if kinds <= _SCALARS.keys():
            if wanted is None:
                wanted = result_type(*(_SCALARS[kind] for kind in kinds))
            if len(kinds) == 1:
                array = _array(leaves, _SCALARS[kinds.pop()].numpy)
                if OF_NUMPY[array.dtype] is wanted:
                    return array.reshape(shape), wanted
                leaves = array.tolist()
            else:
                leaves = [x.item() for x in leaves]
        elif others := tuple([k for k in kinds - {cls} if hasattr(k, "__array__") and not issubclass(k, (np.ndarray, np.generic))]):
            return from_nested(cls, _with_arrays(obj, others, op, 0), wanted, op)
        else:
            if wanted is None and kinds <= {cls, np.ndarray} and not any([x.size for x in leaves]):
                wanted = result_type(*{dtype_of(x.dtype) for x in leaves})
            shape, leaves = _measured(obj, op)
            own = {x.dtype for x in leaves if hasattr(x, "dtype")}
            if wanted is None and own and all(hasattr(x, "dtype") for x in leaves):
                wanted = result_type(*own)
            leaves = [number_of(x, op) for x in leaves]
        kinds = set(map(type, leaves))
    if wanted is boolean and kinds != {bool}:
        leaves, kinds = list(map(bool, leaves)), {bool}
    target = _target(kinds, wanted)
    if wanted is not None and wanted.is_integer and kinds & {float, complex}:
        _check_fit(leaves, wanted, op)
        if complex in kinds:
            check_real(op, DEFAULT_COMPLEX, wanted)
        if int in kinds:  # one by one, since float64 cannot represent the large integers beside the floats
            leaves, target = [_whole(x, wanted) if type(x) is float else x for x in leaves], wanted
    try:
        return _array(leaves, target.numpy).reshape(shape), wanted
    except OverflowError:
        if target is wanted and wanted.is_integer:
            _check_fit(leaves, wanted, op)
        room = 2**63 if target.is_integer else DEFAULT_FLOAT.highest
        big = next(x for x in leaves if type(x) is int and not -room <= x < room)
        raise OutOfBounds(
            f"{op}: Python integer {shown_integer(big)} is out of range for {target}; give a dtype that holds it"
        ) from None


def _whole(x: float, dtype: DType) -> int:
    """Return a float as an integer of a dtype: truncated, limited to its range, and 0 for NaN."""
    if isnan(x):
        return 0
    return int(max(dtype.lowest, min(dtype.highest, x if isinf(x) else int(x))))


def _target(kinds: set[type], wanted: DType | None) -> DType:
    """Return the dtype for reading numbers of the given types, before they are cast to the dtype `wanted`."""
    if wanted is not None and wanted.is_integer:
        return DEFAULT_FLOAT if float in kinds else wanted
    if complex in kinds:
        return DEFAULT_COMPLEX
    if float in kinds or not kinds or (wanted is not None and (wanted.is_float or wanted.is_complex)):
        return DEFAULT_FLOAT
    return DEFAULT_INT if int in kinds else boolean


def _check_fit(leaves: list[Any], wanted: DType, op: str) -> None:
    """Raise OutOfBounds for the first integer in a list that is outside of the dtype's range."""
    for x in leaves:
        if type(x) is int:
            check_fits(x, wanted, op)


def check_nesting(obj: Any, op: str) -> None:
    """Raise ShapeError for lists that are nested too deeply, and MemoryError for more elements than memory holds.

    Only the first item of each list is followed. Readers of nested lists require equal sizes of the lists of a depth, and stop where the
    first item of a list is not a list. So this bounds their work, also for a list that contains itself.
    """
    shape: list[int] = []
    while isinstance(obj, (list, tuple, range)):
        if len(shape) == MAX_NESTED_LISTS:
            raise _too_deep(op)
        shape.append(len(obj))
        obj = next(iter(obj), None)
    if prod(shape) * POINTER_BYTES > MEMORY_BYTES:
        raise MemoryError(f"{op}: there is no memory for {prod(shape)} elements, those of nested lists of shape {tuple(shape)}")


def _too_deep(op: str) -> ShapeError:
    return ShapeError(
        f"{op}: lists are nested in more than {MAX_NESTED_LISTS} levels, or a list contains itself; nested lists must have at most"
        f" {MAX_NESTED_LISTS} levels; give fewer, and reshape the tensor"
    )


def _unpacked(obj: Any) -> tuple[tuple[int, ...], list[Any], set[type]]:
    """Return the shape of nested lists, the items of the innermost lists in order, and their types.

    Ragged lists are unpacked down to the level with different sizes. The loops run in C, in a fiftieth of a microsecond for each item.
    """
    shape: list[int] = []
    items, types = [obj], {type(obj)}
    while types and types <= _LISTS:
        sizes = _each(len, items)
        if len(sizes) > 1:
            break
        shape += sizes
        items = _within(items, *sizes)
        types = _each(type, items)
    return tuple(shape), items, types


def _within(lists: list[Any], size: int) -> list[Any]:
    """Return the items of lists of equal size."""
    if len(lists) * size <= PORTION:
        return list(chain.from_iterable(lists))
    found: list[Any] = []
    for some in _in_portions(lists[0]) if len(lists) == 1 else map(chain.from_iterable, _in_portions(lists, PORTION // size)):
        found.extend(some)
    return found


def _in_portions(items: Sequence[Any], most: int = PORTION) -> Iterator[Sequence[Any]]:
    """Return an iterator over slices of at most `most` items, so that signals are handled in between."""
    step = max(most, 1)
    return (items[start : start + step] for start in range(0, len(items), step))


def _each(function: Callable[[Any], _V], items: list[Any]) -> set[_V]:
    """Return the set of results of a function for a list of items."""
    if len(items) <= PORTION:
        return set(map(function, items))
    found: set[_V] = set()
    for some in _in_portions(items):
        found.update(map(function, some))
    return found


def check_records(leaves: list[Any], kinds: set[type], op: str) -> None:
    """Raise DTypeError for a named tuple of tensors, like the result of `cummax`: stacking the fields is never intended."""
    for kind in kinds:
        fields = getattr(kind, "_fields", ())
        if fields and issubclass(kind, tuple) and any([isinstance(x, Core) for leaf in leaves if type(leaf) is kind for x in leaf]):
            raise DTypeError(
                f"{op}: {kind.__name__} has several parts, {', '.join(fields)}; it must be one tensor: use .{' or .'.join(fields)}"
            )


def _with_arrays(obj: Any, others: tuple[type, ...], op: str, depth: int) -> Any:
    """Return nested lists with NumPy arrays in place of arrays of the types `others`. `depth` is the number of enclosing lists."""
    if type(obj) in _LISTS:
        if depth == MAX_NESTED_LISTS:
            raise _too_deep(op)
        return [_with_arrays(x, others, op, depth + 1) for x in obj]
    if not isinstance(obj, others):
        return obj
    try:
        return np.asarray(obj)
    except Exception as error:
        kind = f"{type(obj).__name__} of {getattr(obj, 'dtype', 'no dtype')}"
        raise DTypeError(f"{op}: {kind} does not show its elements to NumPy ({error}); copy it there, or convert it there") from error


def _array(numbers: list[Any], dtype: Any) -> Array:
    """Return Python numbers as a 1-D array."""
    if len(numbers) <= PORTION:
        return np.array(numbers, dtype)
    found, end = np.empty(len(numbers), dtype), 0
    for some in _in_portions(numbers):
        found[end : end + len(some)] = np.array(some, dtype)
        end += len(some)
    return found


def _with_past(cls: type[_T], outer: tuple[int, ...], leaves: list[Any], wanted: DType | None, op: str) -> _T:
    """Return a tensor of tensors and numbers with tape nodes among them. Raise ShapeError unless the shapes are equal."""
    from .pieces import written

    inner = next(x.shape for x in leaves if isinstance(x, Core))
    dtype = result_type(*[x.dtype for x in leaves if isinstance(x, Core)]) if wanted is None else wanted
    pieces = [x if isinstance(x, Core) else np.asarray(x) for x in leaves]
    for x in pieces:
        if x.shape != inner:
            raise ShapeError(f"{op}: tensors of shapes {inner} and {x.shape} are not rows of one tensor; all shapes must be equal")
    together = written(cls, op, pieces, 0, (len(pieces), *inner), dtype)
    return together._view(Layout.contiguous((*outer, *inner)))


def _stacked(
    cls: type[_T], outer: tuple[int, ...], pieces: list[Any], types: set[type], wanted: DType | None, op: str
) -> _T | None:
    """Return a tensor of nested lists of tensors and arrays, or None if the elements must be read singly.

    The result equals that of reading singly. `types` are the types of the pieces. None is returned for unequal shapes, for no elements, for
    an unsupported dtype, or if a conversion to the dtype `wanted` may lose something.
    """
    from .alike import joined_alike
    from .pieces import are_arrays, joined, joined_quickly

    inner = pieces[0].shape
    shape = (*outer, *inner)
    found = (joined_alike if wanted is not None else joined_quickly)(cls, op, pieces, types, 0, stacked=True)
    if found is not None:
        found = cls(found.storage, Layout.contiguous(shape), found.dtype)
        if wanted is None or found.dtype is wanted:
            return found
        own = {found.dtype}
    else:
        if {x.shape for x in pieces} != {inner} or 0 in inner:
            return None
        if not are_arrays([x for x in pieces if type(x) is not cls]):
            return None
        own = {dtype_of(d) for d in {x.dtype for x in pieces}}
        if wanted is None or own == {wanted}:
            return joined(cls, op, pieces, 0, shape, result_type(*own))
    kinds = {_KINDS[d.kind] for d in own}
    target = _target(kinds, wanted)
    holds = wanted if wanted.is_integer else target
    unsure = holds.is_integer and any(d.is_integer and not can_cast(d, holds) for d in own)
    alone = uint64 in own and float not in kinds and complex not in kinds  # no integer dtype holds both uint64 and negative integers
    if (unsure and float in kinds) or (alone and any(d.kind == "int" for d in own)):
        return None
    if complex in kinds and not (wanted.is_complex or wanted is boolean):
        return None
    together: Any = joined(cls, op, pieces, 0, shape, result_type(*own)) if found is None else found
    if unsure:
        elements = together.storage.node.buffer.typed(together.dtype)[: together.size]
        if elements.min() < holds.lowest or elements.max() > holds.highest:
            return None
    cast: _T = together.astype(target, copy=False).astype(wanted, copy=False)
    return cast


def _measured(obj: Any, op: str) -> tuple[tuple[int, ...], list[Any]]:
    """Return the shape of nested lists and their innermost items in order. Raise a ShapeError that names the place where they are ragged.
    """
    level: list[tuple[tuple[int, ...], Any]] = [((), obj)]
    shape: list[int] = []
    while level and _is_list(level[0][1]):
        size = len(level[0][1])
        below: list[tuple[tuple[int, ...], Any]] = []
        for place, item in level:
            if not _is_list(item) or len(item) != size:
                found = f"{len(item)} items" if _is_list(item) else _shown(item)
                raise ShapeError(
                    f"{op}: ragged nested lists: at depth {len(shape)}, {_at(level[0][0])} has {size} items but {_at(place)} is {found};"
                    " all lists of one depth must have the same length"
                )
            items = np.asarray(item) if isinstance(item, np.ndarray) else item  # rows of an np.matrix are matrices, too
            given = list(islice(items, size + 1))
            if len(given) != size:
                compared = "fewer" if len(given) < size else "more"
                raise ShapeError(
                    f"{op}: {_at(place)} of type {type(item).__name__} has the length {size} and gives {compared} items;"
                    " its length must be the number of its items"
                )
            below.extend(((*place, k), x) for k, x in enumerate(given))
        shape.append(size)
        if not below:  # arrays without elements still have sizes of further axes
            rests = {item.shape[1:] if hasattr(item, "shape") else () for _, item in level}
            if len(rests) > 1:
                sizes = ", ".join(str((0, *rest)) for rest in sorted(rests))
                raise ShapeError(f"{op}: ragged nested lists: at depth {len(shape)} are items of shapes {sizes}; they need one shape")
            shape += rests.pop()
        level = below
    for place, item in level:
        if _is_list(item):
            raise ShapeError(
                f"{op}: ragged nested lists: at depth {len(shape)}, {_at(level[0][0])} is {_shown(level[0][1])} but {_at(place)}"
                f" has {len(item)} items; all lists of one depth must have the same length"
            )
    return tuple(shape), [x for _, x in level]


def _shown(x: Any) -> str:
    """Return a description of an item that is not a list, for error messages."""
    value = x.item() if isinstance(x, (Core, np.generic, np.ndarray)) else x  # type: ignore[union-attr]
    return f"the number {value!r}" if isinstance(value, (int, float, complex)) else f"{described(value)} of type {type(value).__name__}"


def _is_list(x: Any) -> bool:
    return isinstance(x, (list, tuple, range)) or (isinstance(x, (Core, np.ndarray)) and x.ndim > 0)


def _at(place: tuple[int, ...]) -> str:
    return "item " + "".join(f"[{k}]" for k in place) if place else "the whole"
