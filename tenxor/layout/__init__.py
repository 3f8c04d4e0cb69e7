"""Index algebra: which element of a storage each position of a view is, and nothing about values."""

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
from .inverse import Adjoint
from .layout import Layout, form_of_numbers
from .questions import memory_order
from .reshape import ReshapePlan
from .table import Table

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
