"""Conversion of nested lists of numbers to arrays. The leaves are the items of the innermost lists: numbers, or tensors and arrays, whose
axes then follow those of the lists.
"""

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
    DTYPE_BY_NUMPY_DTYPE,
    NUMBER_TYPES,
    DType,
    boolean,
    can_cast,
    check_fits,
    check_real,
    format_integer,
    result_type,
    uint64,
)
from ..dtypes import dtype as dtype_of
from ..errors import DTypeError, OutOfBounds, OutOfMemory, ShapeError, describe_value
from ..layout import Layout
from ..layout.interruptible_chunks import MAX_CHUNK_ELEMENTS
from ..memory.block_pool import MEMORY_BYTES
from .argument_parsing import to_number
from .core import TensorBase

Array = np.ndarray[Any, Any]
_T = TypeVar("_T", bound=TensorBase)
_V = TypeVar("_V")
_LIST_TYPES = frozenset((list, tuple, range))
MAX_NESTING_DEPTH = 64  # levels of nesting, as in NumPy
POINTER_BYTES = 8  # bytes of an item in a list
_PYTHON_TYPE_OF_KIND: dict[str, type] = {"bool": bool, "uint": int, "int": int, "float": float, "complex": complex}
_DTYPE_OF_NUMPY_TYPE = {d.numpy.type: d for d in DTYPE_BY_NUMPY_DTYPE.values()}


def from_nested(cls: type[_T], obj: Any, wanted_dtype: DType | None, op: str) -> tuple[Array | _T, DType | None]:
    """Return a number or nested lists of numbers as an array, or as a tensor of class `cls`, with the dtype that the caller casts to.

    This dtype is `wanted_dtype`, or by default the common dtype of NumPy scalars or tensors. None stands for the dtype of the result. Raise
    ShapeError for ragged lists, DTypeError for items that are no numbers, and OutOfBounds for integers out of range.
    """
    if type(obj) is list and obj and type(obj[0]) is cls and wanted_dtype in (None, obj[0].dtype):
        from .join_by_fastpath import join_by_fast_path

        joined = join_by_fast_path(cls, op, obj, 0, stacked=True, mixed_dtypes=wanted_dtype is None)
        if joined is not None:
            return joined, wanted_dtype
    check_nesting(obj, op)
    shape, leaves, kinds = _flatten_nested(obj)
    if not kinds <= NUMBER_TYPES:
        reject_result_tuples(leaves, kinds, op)
        if cls in kinds and any([type(x) is cls and x._is_on_tape() for x in leaves]):
            return _stack_recorded(cls, shape, leaves, wanted_dtype, op), wanted_dtype
        if kinds <= {cls, np.ndarray}:
            stacked = _stack_pieces(cls, shape, leaves, kinds, wanted_dtype, op)
            if stacked is not None:
                return stacked, wanted_dtype
        if kinds <= _DTYPE_OF_NUMPY_TYPE.keys():
            if wanted_dtype is None:
                wanted_dtype = result_type(*(_DTYPE_OF_NUMPY_TYPE[kind] for kind in kinds))
            if len(kinds) == 1:
                array = _to_array(leaves, _DTYPE_OF_NUMPY_TYPE[kinds.pop()].numpy)
                if DTYPE_BY_NUMPY_DTYPE[array.dtype] is wanted_dtype:
                    return array.reshape(shape), wanted_dtype
                leaves = array.tolist()
            else:
                leaves = [x.item() for x in leaves]
        elif array_types := tuple([k for k in kinds - {cls} if hasattr(k, "__array__") and not issubclass(k, (np.ndarray, np.generic))]):
            return from_nested(cls, _replace_arrays(obj, array_types, op, 0), wanted_dtype, op)
        else:
            if wanted_dtype is None and kinds <= {cls, np.ndarray} and not any([x.size for x in leaves]):
                wanted_dtype = result_type(*{dtype_of(x.dtype) for x in leaves})
            shape, leaves = _measure_nesting(obj, op)
            leaf_dtypes = {x.dtype for x in leaves if hasattr(x, "dtype")}
            if wanted_dtype is None and leaf_dtypes and all(hasattr(x, "dtype") for x in leaves):
                wanted_dtype = result_type(*leaf_dtypes)
            leaves = [to_number(x, op) for x in leaves]
        kinds = set(map(type, leaves))
    if wanted_dtype is boolean and kinds != {bool}:
        leaves, kinds = list(map(bool, leaves)), {bool}
    target = _target_dtype(kinds, wanted_dtype)
    if wanted_dtype is not None and wanted_dtype.is_integer and kinds & {float, complex}:
        _check_fit(leaves, wanted_dtype, op)
        if complex in kinds:
            check_real(op, DEFAULT_COMPLEX, wanted_dtype)
        if int in kinds:  # one by one, since float64 cannot represent the large integers beside the floats
            leaves, target = [_to_integer(x, wanted_dtype) if type(x) is float else x for x in leaves], wanted_dtype
    try:
        return _to_array(leaves, target.numpy).reshape(shape), wanted_dtype
    except OverflowError:
        if target is wanted_dtype and wanted_dtype.is_integer:
            _check_fit(leaves, wanted_dtype, op)
        limit = 2**63 if target.is_integer else DEFAULT_FLOAT.highest
        overflowing = next(x for x in leaves if type(x) is int and not -limit <= x < limit)
        raise OutOfBounds(
            f"{op}: Python integer {format_integer(overflowing)} is out of range for {target}; give a dtype that holds it"
        ) from None


def _to_integer(x: float, dtype: DType) -> int:
    """Return a float as an integer of a dtype: truncated, limited to its range, and 0 for NaN."""
    if isnan(x):
        return 0
    return int(max(dtype.lowest, min(dtype.highest, x if isinf(x) else int(x))))


def _target_dtype(kinds: set[type], wanted_dtype: DType | None) -> DType:
    """Return the dtype for reading numbers of the Python types `kinds`, before they are cast to `wanted_dtype` (or None).

    For a wanted integer dtype this is the dtype itself, or the default float dtype if there are floats. In other cases it is the default
    dtype of the highest type: complex, float, int or bool. No numbers, and ints for a wanted float or complex dtype, are read as floats.
    """
    if wanted_dtype is not None and wanted_dtype.is_integer:
        return DEFAULT_FLOAT if float in kinds else wanted_dtype
    if complex in kinds:
        return DEFAULT_COMPLEX
    if float in kinds or not kinds or (wanted_dtype is not None and (wanted_dtype.is_float or wanted_dtype.is_complex)):
        return DEFAULT_FLOAT
    return DEFAULT_INT if int in kinds else boolean


def _check_fit(leaves: list[Any], wanted_dtype: DType, op: str) -> None:
    """Raise OutOfBounds, naming `op`, for the first int in the list `leaves` that is outside of the range of `wanted_dtype`."""
    for x in leaves:
        if type(x) is int:
            check_fits(x, wanted_dtype, op)


def check_nesting(obj: Any, op: str) -> None:
    """Raise ShapeError for lists that are nested too deeply, and OutOfMemory for more elements than memory holds.

    Only the first item of each list is followed. Readers of nested lists require equal sizes of the lists of a depth, and stop where the
    first item of a list is not a list. So this bounds their work, also for a list that contains itself.
    """
    shape: list[int] = []
    while isinstance(obj, (list, tuple, range)):
        if len(shape) == MAX_NESTING_DEPTH:
            raise _nesting_error(op)
        shape.append(len(obj))
        obj = next(iter(obj), None)
    if prod(shape) * POINTER_BYTES > MEMORY_BYTES:
        raise OutOfMemory(f"{op}: there is no memory for {prod(shape)} elements, those of nested lists of shape {tuple(shape)}")


def _nesting_error(op: str) -> ShapeError:
    """Return the error for too deeply nested lists."""
    return ShapeError(
        f"{op}: lists are nested in more than {MAX_NESTING_DEPTH} levels, or a list contains itself; nested lists must have at most"
        f" {MAX_NESTING_DEPTH} levels; give fewer, and reshape the tensor"
    )


def _flatten_nested(obj: Any) -> tuple[tuple[int, ...], list[Any], set[type]]:
    """Return the shape of nested lists, the items of the innermost lists in order, and the types of these items.

    Ragged lists are unpacked down to the level with different sizes, whose lists are then items. The loops run in C, in a fiftieth of a
    microsecond for each item.
    """
    shape: list[int] = []
    items, types = [obj], {type(obj)}
    while types and types <= _LIST_TYPES:
        sizes = _distinct_results(len, items)
        if len(sizes) > 1:
            break
        shape += sizes
        items = _flatten_lists(items, *sizes)
        types = _distinct_results(type, items)
    return tuple(shape), items, types


def _flatten_lists(lists: list[Any], size: int) -> list[Any]:
    """Return the items of lists of equal size."""
    if len(lists) * size <= MAX_CHUNK_ELEMENTS:
        return list(chain.from_iterable(lists))
    items: list[Any] = []
    for chunk in _split_chunks(lists[0]) if len(lists) == 1 else map(chain.from_iterable, _split_chunks(lists, MAX_CHUNK_ELEMENTS // size)):
        items.extend(chunk)
    return items


def _split_chunks(items: Sequence[Any], max_items: int = MAX_CHUNK_ELEMENTS) -> Iterator[Sequence[Any]]:
    """Return an iterator over slices of at most `max_items` items, so that signals are handled in between."""
    step = max(max_items, 1)
    return (items[start : start + step] for start in range(0, len(items), step))


def _distinct_results(function: Callable[[Any], _V], items: list[Any]) -> set[_V]:
    """Return the set of results of a function for a list of items."""
    if len(items) <= MAX_CHUNK_ELEMENTS:
        return set(map(function, items))
    results: set[_V] = set()
    for chunk in _split_chunks(items):
        results.update(map(function, chunk))
    return results


def reject_result_tuples(leaves: list[Any], kinds: set[type], op: str) -> None:
    """Raise DTypeError, naming `op`, if `leaves` have a named tuple of tensors, like the result of `cummax`.

    `kinds` are the types of the leaves. The tuple would be read as a list of tensors, but stacking its fields is never intended.
    """
    for kind in kinds:
        fields = getattr(kind, "_fields", ())
        if fields and issubclass(kind, tuple) and any([isinstance(x, TensorBase) for leaf in leaves if type(leaf) is kind for x in leaf]):
            raise DTypeError(
                f"{op}: {kind.__name__} has several parts, {', '.join(fields)}; it must be one tensor: use .{' or .'.join(fields)}"
            )


def _replace_arrays(obj: Any, array_types: tuple[type, ...], op: str, depth: int) -> Any:
    """Return nested lists with NumPy arrays in place of objects of the types `array_types`, read by `np.asarray`.

    `depth` is the number of enclosing lists. Raise ShapeError for lists nested too deeply, and DTypeError if NumPy cannot read an object.
    """
    if type(obj) in _LIST_TYPES:
        if depth == MAX_NESTING_DEPTH:
            raise _nesting_error(op)
        return [_replace_arrays(x, array_types, op, depth + 1) for x in obj]
    if not isinstance(obj, array_types):
        return obj
    try:
        return np.asarray(obj)
    except Exception as error:
        array_type = f"{type(obj).__name__} of {getattr(obj, 'dtype', 'no dtype')}"
        raise DTypeError(f"{op}: {array_type} does not show its elements to NumPy ({error}); copy it there, or convert it there") from error


def _to_array(numbers: list[Any], dtype: Any) -> Array:
    """Return Python numbers as a 1-D array of the NumPy dtype `dtype`, converted in chunks. NumPy's OverflowError is passed on."""
    if len(numbers) <= MAX_CHUNK_ELEMENTS:
        return np.array(numbers, dtype)
    array, end = np.empty(len(numbers), dtype), 0
    for chunk in _split_chunks(numbers):
        array[end : end + len(chunk)] = np.array(chunk, dtype)
        end += len(chunk)
    return array


def _stack_recorded(cls: type[_T], outer: tuple[int, ...], leaves: list[Any], wanted_dtype: DType | None, op: str) -> _T:
    """Return a pending tensor of nested lists of shape `outer`, with the tensors, arrays and numbers `leaves`, some of them on the tape.

    The dtype is `wanted_dtype`, or by default the promoted dtype of the tensors. Raise ShapeError unless the shapes of the leaves are
    equal.
    """
    from .join_pieces import join_lazily

    inner = next(x.shape for x in leaves if isinstance(x, TensorBase))
    dtype = result_type(*[x.dtype for x in leaves if isinstance(x, TensorBase)]) if wanted_dtype is None else wanted_dtype
    pieces = [x if isinstance(x, TensorBase) else np.asarray(x) for x in leaves]
    for x in pieces:
        if x.shape != inner:
            raise ShapeError(f"{op}: tensors of shapes {inner} and {x.shape} are not rows of one tensor; all shapes must be equal")
    joined = join_lazily(cls, op, pieces, 0, (len(pieces), *inner), dtype)
    return joined._view(Layout.contiguous((*outer, *inner)))


def _stack_pieces(
    cls: type[_T], outer: tuple[int, ...], pieces: list[Any], types: set[type], wanted_dtype: DType | None, op: str
) -> _T | None:
    """Return a tensor of nested lists of shape `outer` with the tensors and arrays `pieces`, or None if the elements must be read singly.

    The result equals that of reading singly. `types` are the types of the pieces. None is returned for unequal shapes, for no elements, for
    an unsupported dtype, or if a conversion to the dtype `wanted_dtype` may lose something.
    """
    from .join_equal_pieces import join_equal_pieces
    from .join_pieces import are_arrays, join_fast, join_now

    inner = pieces[0].shape
    shape = (*outer, *inner)
    quick_result = (join_equal_pieces if wanted_dtype is not None else join_fast)(cls, op, pieces, types, 0, stacked=True)
    if quick_result is not None:
        quick_result = cls(quick_result.storage, Layout.contiguous(shape), quick_result.dtype)
        if wanted_dtype is None or quick_result.dtype is wanted_dtype:
            return quick_result
        piece_dtypes = {quick_result.dtype}
    else:
        if {x.shape for x in pieces} != {inner} or 0 in inner:
            return None
        if not are_arrays([x for x in pieces if type(x) is not cls]):
            return None
        piece_dtypes = {dtype_of(d) for d in {x.dtype for x in pieces}}
        if wanted_dtype is None or piece_dtypes == {wanted_dtype}:
            return join_now(cls, op, pieces, 0, shape, result_type(*piece_dtypes))
    kinds = {_PYTHON_TYPE_OF_KIND[d.kind] for d in piece_dtypes}
    target = _target_dtype(kinds, wanted_dtype)
    checked_dtype = wanted_dtype if wanted_dtype.is_integer else target
    may_overflow = checked_dtype.is_integer and any(d.is_integer and not can_cast(d, checked_dtype) for d in piece_dtypes)
    # no integer dtype holds both uint64 and negative integers
    has_lone_uint64 = uint64 in piece_dtypes and float not in kinds and complex not in kinds
    if (may_overflow and float in kinds) or (has_lone_uint64 and any(d.kind == "int" for d in piece_dtypes)):
        return None
    if complex in kinds and not (wanted_dtype.is_complex or wanted_dtype is boolean):
        return None
    stacked: Any = join_now(cls, op, pieces, 0, shape, result_type(*piece_dtypes)) if quick_result is None else quick_result
    if may_overflow:
        elements = stacked.storage.node.buffer.typed_view(stacked.dtype)[: stacked.size]
        if elements.min() < checked_dtype.lowest or elements.max() > checked_dtype.highest:
            return None
    cast: _T = stacked.astype(target, copy=False).astype(wanted_dtype, copy=False)
    return cast


def _measure_nesting(obj: Any, op: str) -> tuple[tuple[int, ...], list[Any]]:
    """Return the shape of nested lists, tensors and arrays, and their innermost items in order.

    Raise ShapeError, naming the place, for ragged lists, and for an object whose length is not the number of its items.
    """
    level: list[tuple[tuple[int, ...], Any]] = [((), obj)]
    shape: list[int] = []
    while level and _is_list(level[0][1]):
        size = len(level[0][1])
        next_level: list[tuple[tuple[int, ...], Any]] = []
        for path, item in level:
            if not _is_list(item) or len(item) != size:
                description = f"{len(item)} items" if _is_list(item) else _describe_item(item)
                raise ShapeError(
                    f"{op}: ragged nested lists: at depth {len(shape)}, {_item_path(level[0][0])} has {size} items"
                    f" but {_item_path(path)} is {description}; all lists of one depth must have the same length"
                )
            items = np.asarray(item) if isinstance(item, np.ndarray) else item  # rows of an np.matrix are matrices, too
            read_items = list(islice(items, size + 1))
            if len(read_items) != size:
                compared = "fewer" if len(read_items) < size else "more"
                raise ShapeError(
                    f"{op}: {_item_path(path)} of type {type(item).__name__} has the length {size} and gives {compared} items;"
                    " its length must be the number of its items"
                )
            next_level.extend(((*path, k), x) for k, x in enumerate(read_items))
        shape.append(size)
        if not next_level:  # arrays without elements still have sizes of further axes
            inner_shapes = {item.shape[1:] if hasattr(item, "shape") else () for _, item in level}
            if len(inner_shapes) > 1:
                sizes = ", ".join(str((0, *inner_shape)) for inner_shape in sorted(inner_shapes))
                raise ShapeError(f"{op}: ragged nested lists: at depth {len(shape)} are items of shapes {sizes}; they need one shape")
            shape += inner_shapes.pop()
        level = next_level
    for path, item in level:
        if _is_list(item):
            raise ShapeError(
                f"{op}: ragged nested lists: at depth {len(shape)}, {_item_path(level[0][0])} is {_describe_item(level[0][1])}"
                f" but {_item_path(path)} has {len(item)} items; all lists of one depth must have the same length"
            )
    return tuple(shape), [x for _, x in level]


def _describe_item(x: Any) -> str:
    """Return a description of an item that is not a list, for error messages."""
    value = x.item() if isinstance(x, (TensorBase, np.generic, np.ndarray)) else x  # type: ignore[union-attr]
    return (
        f"the number {value!r}" if isinstance(value, (int, float, complex)) else f"{describe_value(value)} of type {type(value).__name__}"
    )


def _is_list(x: Any) -> bool:
    """Return whether `x` has items: whether it is a list, tuple or range, or a tensor or array with axes."""
    return isinstance(x, (list, tuple, range)) or (isinstance(x, (TensorBase, np.ndarray)) and x.ndim > 0)


def _item_path(path: tuple[int, ...]) -> str:
    """Return the place of an item in nested lists, for error messages, given the index at each depth: "item [0][2]"."""
    return "item " + "".join(f"[{k}]" for k in path) if path else "the whole"
