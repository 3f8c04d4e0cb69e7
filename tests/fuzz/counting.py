"""Counting elements row by row, in plain Python: the arithmetic that the model stands on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

Shape = tuple[int, ...]


def row_major(shape: Sequence[int]) -> list[int]:
    """How far apart neighbours along each axis are when elements are counted row by row."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def sums(axes: Iterable[Sequence[int]]) -> list[int]:
    """Every sum of one entry per axis, the last axis fastest: what an outer sum reads row by row."""
    totals = [0]
    for axis in axes:
        totals = [total + entry for total in totals for entry in axis]
    return totals


def ramp(size: int, step: int, start: int = 0) -> list[int]:
    return [start + step * i for i in range(size)]


def is_affine(positions: list[int], shape: Shape) -> bool:
    """Whether one stride per axis says where every element is."""
    if not positions:
        return True
    first = positions[0]
    units = row_major(shape)
    steps = [positions[unit] - first if n > 1 else 0 for n, unit in zip(shape, units, strict=True)]
    return positions == [first + p for p in sums(ramp(n, step) for n, step in zip(shape, steps, strict=True))]


def broadcast(*shapes: Shape) -> Shape:
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        distinct = {n for n in sizes if n != 1}
        if len(distinct) > 1:
            raise ValueError(f"{shapes} do not broadcast")
        result.append(distinct.pop() if distinct else 1)
    return tuple(result)
