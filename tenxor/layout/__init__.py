"""Index algebra: maps from the positions of a view to the elements of a storage, without values."""

from typing import TYPE_CHECKING, Any

from .._utils.lazy import make_public_dir, make_public_getattr
from .axes import Table
from .coords import broadcast_shapes, checked_axes, checked_axis, contiguous_strides, next_index, ravel_index, unravel_index
from .indexing import count_from_start
from .layout import Layout, layout_key_of_dims
from .layout_key import LayoutKey
from .queries import memory_order
from .reshape import ReshapePlan

if TYPE_CHECKING:
    from .inverse import Adjoint as Adjoint

__all__ = [
    "Adjoint",
    "LayoutKey",
    "Layout",
    "ReshapePlan",
    "Table",
    "broadcast_shapes",
    "checked_axes",
    "checked_axis",
    "contiguous_strides",
    "count_from_start",
    "layout_key_of_dims",
    "memory_order",
    "next_index",
    "ravel_index",
    "unravel_index",
]


def __getattr__(name: str) -> Any:
    if name == "Adjoint":  # imported on request: it is rarely needed
        from .inverse import Adjoint

        return Adjoint
    return _missing(name)


__dir__ = make_public_dir(globals())
_missing = make_public_getattr(globals())
