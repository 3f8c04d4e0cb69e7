"""Index algebra: maps from the positions of a view to the elements of a storage, without values."""

from typing import TYPE_CHECKING, Any

from ..late import public_dir, public_getattr
from .coords import (
    broadcast_shapes,
    checked_axes,
    checked_axis,
    contiguous_strides,
    next_index,
    ravel_index,
    unravel_index,
)
from .form import Form
from .indexing import counted
from .layout import Layout, form_of_numbers
from .questions import memory_order
from .reshape import ReshapePlan
from .table import Table

if TYPE_CHECKING:
    from .inverse import Adjoint as Adjoint

__all__ = [
    "Adjoint",
    "Form",
    "Layout",
    "ReshapePlan",
    "Table",
    "broadcast_shapes",
    "checked_axes",
    "checked_axis",
    "contiguous_strides",
    "counted",
    "form_of_numbers",
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


__dir__ = public_dir(globals())
_missing = public_getattr(globals())
