"""Emit checked indices for gathers and scatters: negative ones count from the end, and an index out of range is reported, never used."""

from __future__ import annotations

from ...dtypes import int64
from ...lowering.ir import Index
from .addresses import pointer_to
from .builder import intrinsic, select
from .dtype_conversions import convert_dtype
from .emitter import Emitter
from .scopes import ValueVectors
from .types import I1, I64


def emit_checked_index(em: Emitter, e: Index) -> ValueVectors:
    """Emit the check of an index, while a kernel is compiled, and return the indices counted from 0: a scalar, or vectors of a step.

    A negative signed index counts from the end. An index out of range becomes 0, and the emitted code then sets the kernel's flag, unless
    the lane is idle (`em.lanes.mask`).
    """
    value = e.args[0]
    raw_indices, size, flag = em.emit_value(value), em.load_size_parameter(e.size), pointer_to(em, len(em.kernel.operands) - 1)
    lanes = raw_indices[0].lanes
    limit = size.splat(lanes) if lanes else size
    positions, outside = [], []
    for raw_index in raw_indices:
        index = convert_dtype(raw_index, value.dtype, int64)
        if value.dtype.kind == "int":
            index = select(index < 0, index + limit, index)
        outside.append(index.compare("uge", limit))
        positions.append(select(outside[-1], 0, index))
    any_outside = outside[0]
    for lane_mask in outside[1:]:
        any_outside = any_outside | lane_mask
    if lanes:
        if em.lanes is not None and em.lanes.mask is not None:
            any_outside = any_outside & em.lanes.mask
        any_outside = intrinsic("vector.reduce.or", any_outside, result=I1, suffix=any_outside.type.mangled)
    em.builder.only_if_unlikely(any_outside, lambda: flag.store(em.builder.constant(I64, 1)))
    return positions
