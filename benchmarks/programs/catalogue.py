"""Every program: a part of the table to a file."""

from __future__ import annotations

from . import bodies, clusters, edit, equalisation, heat, life, loops, lu, mandelbrot, metropolis, networks, paths, pca
from .program import Program

__all__ = ["Program", "programs"]

_PARTS = (
    *(life, heat, clusters, pca, metropolis, paths, lu),
    *(mandelbrot, networks, bodies, edit, equalisation, loops),
)


def programs() -> list[Program]:
    """All of them, in the order of the report."""
    found = [program for part in _PARTS for program in part.programs()]
    names = [program.name for program in found]
    assert len(names) == len(set(names)), "two programs of one name"
    return found
