"""Nested lists of numbers as arrays."""

from __future__ import annotations

from math import isinf, isnan
from typing import Any

import numpy as np

from ..dtypes import (
    DEFAULT_COMPLEX,
    DEFAULT_FLOAT,
    DType,
    Number,
    check_fits,
    check_real,
    plain_number,
    result_type,
    shown_integer,
)
from ..errors import DTypeError, OutOfBounds, ShapeError
from .core import Core

_PLAIN = frozenset((bool, int, float, complex))


def from_nested(obj: Any, wanted: DType | None, op: str) -> tuple[np.ndarray[Any, Any], DType | None]:
    """A number or nested lists of numbers as an array, and the dtype for it: the one wanted, or that of its elements
    if they all have one (NumPy's scalars, tensors), or None for what the array has.
    """
    shape, leaves = _measured(obj, op)
    kinds = {type(x) for x in leaves}
    if not kinds <= _PLAIN:
        own = {x.dtype for x in leaves if hasattr(x, "dtype")}
        if wanted is None and all(hasattr(x, "dtype") for x in leaves):
            wanted = result_type(*own)
        leaves = [number_of(x, op) for x in leaves]
        kinds = {type(x) for x in leaves}
    if wanted is not None and complex in kinds:
        check_real(op, DEFAULT_COMPLEX, wanted)
    if wanted is not None and wanted.is_integer:
        for x in leaves:
            if type(x) is int:
                check_fits(x, wanted, op)
        target = wanted.numpy
        if float in kinds:  # one by one, as float64 has not the digits of the integers beside them
            leaves = [_whole(x, wanted) if type(x) is float else x for x in leaves]
    elif wanted is not None and wanted.kind == "bool":
        leaves, target = [bool(x) for x in leaves], np.dtype("bool")
    elif complex in kinds:
        target = np.dtype("complex128")
    elif float in kinds or not kinds or (wanted is not None and (wanted.is_float or wanted.is_complex)):
        target = np.dtype("float64")
    else:
        target = np.dtype("int64" if int in kinds else "bool")
    try:
        return np.array(leaves, dtype=target).reshape(shape), wanted
    except OverflowError:
        room = 2**63 if target.kind == "i" else DEFAULT_FLOAT.highest
        big = next(x for x in leaves if type(x) is int and not -room <= x < room)
        raise OutOfBounds(
            f"{op}: Python integer {shown_integer(big)} is out of range for {target}; give a dtype that holds it"
        ) from None


def _whole(x: float, dtype: DType) -> int:
    """A float as an integer of a dtype: truncated, within its range, 0 for NaN."""
    if isnan(x):
        return 0
    return int(max(dtype.lowest, min(dtype.highest, x if isinf(x) else int(x))))


def number_of(x: Any, op: str) -> Number:
    """A Python number, a NumPy scalar or a 0-d tensor or array as a Python number."""
    value = x.item() if isinstance(x, (Core, np.generic, np.ndarray)) and x.ndim == 0 else x  # type: ignore[union-attr]
    if isinstance(value, (int, float, complex)):
        return plain_number(value)
    raise DTypeError(
        f"{op}: {x!r} of type {type(x).__name__} is no number; a tensor holds bools, ints, floats and complex numbers, or lists of them"
    )


def _measured(obj: Any, op: str) -> tuple[tuple[int, ...], list[Any]]:
    """The shape of nested lists and their leaves in order; a ShapeError says where they are ragged."""
    level: list[tuple[tuple[int, ...], Any]] = [((), obj)]
    shape: list[int] = []
    while level and _is_list(level[0][1]):
        size = len(level[0][1])
        below: list[tuple[tuple[int, ...], Any]] = []
        for place, item in level:
            if not _is_list(item) or len(item) != size:
                found = f"{len(item)} items" if _is_list(item) else f"the number {item!r}"
                raise ShapeError(
                    f"{op}: ragged nested lists: at depth {len(shape)}, {_at(level[0][0])} has {size} items but {_at(place)} is {found};"
                    " all lists of one depth must have the same length"
                )
            below.extend(((*place, k), x) for k, x in enumerate(item))
        shape.append(size)
        level = below
    for place, item in level:
        if _is_list(item):
            raise ShapeError(
                f"{op}: ragged nested lists: at depth {len(shape)}, {_at(level[0][0])} is the number {level[0][1]!r} but {_at(place)}"
                f" has {len(item)} items; all lists of one depth must have the same length"
            )
    return tuple(shape), [x for _, x in level]


def _is_list(x: Any) -> bool:
    return isinstance(x, (list, tuple, range)) or (isinstance(x, (Core, np.ndarray)) and x.ndim > 0)


def _at(place: tuple[int, ...]) -> str:
    return "item " + "".join(f"[{k}]" for k in place) if place else "the whole"
