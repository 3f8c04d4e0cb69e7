"""Tensors without values in a traced function: errors for uses of their values, and keys made of such tensors."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..errors import BadIndex, TraceError
from ..layout.indexing import index_list, per_axis
from ..ops import OPS
from .core import Core, is_traced

_COMPUTE = "compute with the tensor itself, by operators and tx functions (tx.sin instead of math.sin)"
_ARRAY = "use tx functions instead of NumPy's, or return the tensor and convert the result"
_COUNT = (
    "index with the tensor itself, x[k], or x[k + tx.arange(n)] for n elements; sizes, axes and numbers of steps must be Python integers,"
    " so compute for the most there can be and choose with tx.where"
)
_ADVICE = {
    "bool": "write tx.where(condition, yes, no) instead of `if`, and &, | and ~ instead of `and`, `or` and `not`",
    "int": f"write x.astype(tx.int64); {_COUNT}",
    "index": _COUNT,
    "to_numpy": _ARRAY,
    "tolist": _ARRAY,
}


def refuse_values(op: str, t: Core) -> NoReturn:
    """Raise TraceError for an operation that needs the values of a traced tensor."""
    raise TraceError(
        f"{op}: needs the value of an element, but this tensor of shape {t.layout.shape} is traced and has none;"
        f" {_ADVICE.get(op, _COMPUTE)}. A tensor from outside that a traced function wrote to has none afterwards, either: return what"
        " is written"
    )


def refuse_mask(op: str, mask: Core) -> NoReturn:
    """Raise TraceError for a traced mask that should select elements."""
    raise TraceError(
        f"{op}: how many elements a traced mask of shape {mask.layout.shape} selects is not known; write tx.where(mask, x, other), which"
        " keeps the shape of x, and reduce that"
    )


def write_at_mask(t: Any, key: tuple[Any, ...], value: Any) -> None:
    """Write to `t[key]`, where a part of the key is a traced mask, as `where(mask, value, t)`.

    Raise TraceError for a key with further arrays.
    """
    (at, *more) = [k for k, part in enumerate(key) if is_traced(part) and part.dtype.kind == "bool"]
    mask = key[at]
    others = (*key[:at], *key[at + 1 :])
    if more or not all([part is None or part is Ellipsis or type(part) in (int, slice) for part in others]):
        raise TraceError(
            "assignment: a traced mask stands beside ints, slices, None and ... only; combine masks with &, and write"
            " x[...] = tx.where(mask, value, x) for other keys"
        )
    target = t._view(t.layout.index((*key[:at], *[slice(None)] * mask.ndim, *key[at + 1 :])))
    if Ellipsis in key[:at]:
        place = target.ndim - mask.ndim - len([part for part in key[at + 1 :] if type(part) is not int])
    else:
        place = len([part for part in key[:at] if type(part) is not int])
    after = target.ndim - place - mask.ndim
    if target.shape[place : place + mask.ndim] != mask.shape:
        raise BadIndex(f"indexing: a boolean index of shape {mask.shape} does not match the shape {target.shape} from axis {place} on")
    if isinstance(value, Core):
        value = _for_all_selected(t, value, mask, after, int in map(type, others))
    every = mask._view(mask.layout.reshape((*mask.shape, *[1] * after)))
    target._write(target._compute(OPS["where"], every, value, target))


def _for_all_selected(t: Any, value: Any, mask: Core, after: int, has_ints: bool) -> Any:
    """Return a value that is equal for every selected element, reshaped to the axes of the mask. Raise TraceError for separate values."""
    value = value.astype(t.dtype, copy=False)
    shape = value.shape
    if len(shape) > after:
        before, count, rest = shape[: len(shape) - after - 1], shape[len(shape) - after - 1], shape[len(shape) - after :]
        if count != 1 or has_ints:
            raise TraceError(
                f"assignment: a value of shape {shape} has an element for each that a traced mask selects, and how many these are is not"
                " known; give one value for all, or write x[...] = tx.where(mask, values, x) with values of the shape of x"
            )
        value = value.reshape((*before, *[1] * mask.layout.ndim, *rest))
    return value


def open_mesh(shape: tuple[int, ...], key: Any) -> tuple[Any, ...]:
    """Return index arrays for every axis. They broadcast to the selection of an orthogonal key with traced indices."""
    each: list[Any] = []
    for axis, (item, size) in enumerate(zip(per_axis(key, shape), shape, strict=True)):
        if is_traced(item):
            if item.dtype.kind == "bool":
                refuse_mask("oindex", item)
            if item.ndim > 1:
                raise BadIndex(f"oindex: the indices for axis {axis} have shape {item.shape}; they must have one axis")
            each.append(item)
        elif item is None or type(item) is slice:
            each.append(np.arange(size)[slice(None) if item is None else item])
        else:
            each.append(index_list(item, axis, size) if np.ndim(item) else int(item))
    axes = [k for k, item in enumerate(each) if getattr(item, "ndim", 0)]
    for n, k in enumerate(axes):
        each[k] = each[k].reshape((-1, *[1] * (len(axes) - n - 1)))
    return tuple(each)
