"""Tensors without values in a traced function: errors for uses of their values, and keys made of such tensors."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..errors import BadIndex, TraceError
from ..layout.indexing import as_index_array, expand_ellipsis
from ..ops import OPS
from .core import TensorBase, is_traced

_COMPUTE_ADVICE = "compute with the tensor itself, by operators and tx functions (tx.sin instead of math.sin)"
_ARRAY_ADVICE = "use tx functions instead of NumPy's, or return the tensor and convert the result"
_COUNT_ADVICE = (
    "index with the tensor itself, x[k], or x[k + tx.arange(n)] for n elements; sizes, axes and numbers of steps must be Python integers,"
    " so compute for the most there can be and choose with tx.where"
)
_ADVICE = {
    "bool": "write tx.where(condition, yes, no) instead of `if`, and &, | and ~ instead of `and`, `or` and `not`",
    "int": f"write x.astype(tx.int64); {_COUNT_ADVICE}",
    "index": _COUNT_ADVICE,
    "to_numpy": _ARRAY_ADVICE,
    "tolist": _ARRAY_ADVICE,
}


def refuse_values(op: str, t: TensorBase) -> NoReturn:
    """Raise TraceError for the operation `op`, which needs the values of the traced tensor `t`."""
    raise TraceError(
        f"{op}: needs the value of an element, but this tensor of shape {t.layout.shape} is traced and has none;"
        f" {_ADVICE.get(op, _COMPUTE_ADVICE)}. A tensor from outside that a traced function wrote to has none afterwards, either: "
        "return what is written"
    )


def refuse_mask(op: str, mask: TensorBase) -> NoReturn:
    """Raise TraceError for the operation `op`, with a traced mask to select elements."""
    raise TraceError(
        f"{op}: how many elements a traced mask of shape {mask.layout.shape} selects is not known; write tx.where(mask, x, other), which"
        " keeps the shape of x, and reduce that"
    )


def write_at_mask(t: Any, key: tuple[Any, ...], value: Any) -> None:
    """Write to `t[key]`, where an item of the key is a traced mask, as `where(mask, value, t)`.

    `value` is a number or a tensor equal for every selected element. Raise TraceError for a key with further masks, arrays or lists, or for
    a value with separate elements for the selected elements. Raise BadIndex if the shape of the mask does not fit.
    """
    (mask_position, *further_masks) = [k for k, item in enumerate(key) if is_traced(item) and item.dtype.kind == "bool"]
    mask = key[mask_position]
    other_items = (*key[:mask_position], *key[mask_position + 1 :])
    if further_masks or not all([item is None or item is Ellipsis or type(item) in (int, slice) for item in other_items]):
        raise TraceError(
            "assignment: a traced mask stands beside ints, slices, None and ... only; combine masks with &, and write"
            " x[...] = tx.where(mask, value, x) for other keys"
        )
    target = t._view(t.layout.index((*key[:mask_position], *[slice(None)] * mask.ndim, *key[mask_position + 1 :])))
    if Ellipsis in key[:mask_position]:
        mask_axis = target.ndim - mask.ndim - len([item for item in key[mask_position + 1 :] if type(item) is not int])
    else:
        mask_axis = len([item for item in key[:mask_position] if type(item) is not int])
    trailing_ndim = target.ndim - mask_axis - mask.ndim
    if target.shape[mask_axis : mask_axis + mask.ndim] != mask.shape:
        raise BadIndex(
            f"indexing: a boolean index of shape {mask.shape} does not match the shape {target.shape} from axis {mask_axis} on;"
            " their sizes must be equal"
        )
    if isinstance(value, TensorBase):
        value = _broadcastable_value(t, value, mask, trailing_ndim, int in map(type, other_items))
    broadcast_mask = mask._view(mask.layout.reshape((*mask.shape, *[1] * trailing_ndim)))
    target._write(target._compute(OPS["where"], broadcast_mask, value, target))


def _broadcastable_value(t: Any, value: Any, mask: TensorBase, trailing_ndim: int, has_ints: bool) -> Any:
    """Return `value`, a tensor equal for every selected element, in the dtype of `t`, with axes of size 1 for the axes of `mask`.

    `trailing_ndim` is the number of axes of `t` after the mask. `has_ints` says whether the key has integers, too: then the value must have
    no axis for the selected elements. Raise TraceError for separate values.
    """
    value = value.astype(t.dtype, copy=False)
    shape = value.shape
    if len(shape) > trailing_ndim:
        leading, count, trailing = (
            shape[: len(shape) - trailing_ndim - 1],
            shape[len(shape) - trailing_ndim - 1],
            shape[len(shape) - trailing_ndim :],
        )
        if count != 1 or has_ints:
            raise TraceError(
                f"assignment: a value of shape {shape} has an element for each that a traced mask selects, and how many these are is not"
                " known; give one value for all, or write x[...] = tx.where(mask, values, x) with values of the shape of x"
            )
        value = value.reshape((*leading, *[1] * mask.layout.ndim, *trailing))
    return value


def open_mesh(shape: tuple[int, ...], key: Any) -> tuple[Any, ...]:
    """Return an index array, index tensor or integer for every axis of `shape`; they broadcast to the selection of the orthogonal `key`.

    At least one item of the key is traced. Raise TraceError for a traced mask, and BadIndex for traced indices of several axes.
    """
    indices: list[Any] = []
    for axis, (item, size) in enumerate(zip(expand_ellipsis(key, shape), shape, strict=True)):
        if is_traced(item):
            if item.dtype.kind == "bool":
                refuse_mask("oindex", item)
            if item.ndim > 1:
                raise BadIndex(f"oindex: the indices for axis {axis} have shape {item.shape}; they must have one axis")
            indices.append(item)
        elif item is None or type(item) is slice:
            indices.append(np.arange(size)[slice(None) if item is None else item])
        else:
            indices.append(as_index_array(item, axis, size) if np.ndim(item) else int(item))
    axes = [k for k, item in enumerate(indices) if getattr(item, "ndim", 0)]
    for n, k in enumerate(axes):
        indices[k] = indices[k].reshape((-1, *[1] * (len(axes) - n - 1)))
    return tuple(indices)
