"""What is measured: tables of workloads, a family of them to a part."""

from __future__ import annotations

from . import contraction, elementwise, hosted, movement, programs, reductions, rows, scattering
from .workload import FULL, TINY, Array, Sizes, Workload

__all__ = ["FULL", "TINY", "Array", "Sizes", "Workload", "workloads"]

_PARTS = (elementwise, reductions, rows, movement, scattering, programs, contraction, hosted)


def workloads(sizes: Sizes = FULL) -> list[Workload]:
    """All of them, in the order of the report."""
    found = [w for part in _PARTS for w in part.workloads(sizes)]
    names = [w.name for w in found]
    assert len(names) == len(set(names)), "two workloads of one name"
    return found
