"""Differentiation rules: the type of a rule for a kind of recipe, and helper functions shared by the rules.

A rule has three functions. `needs` determines the residuals. `pull` (VJP) takes a tape node and the cotangent of its content in the
content's shape. Further arguments are the indices of the wanted sources, and the graph node if the rule reads the result. It yields the
sources' cotangents with the indices. `push` (JVP) takes the tangents of sources, by index, in the sources' shapes, and returns the tangent
of the content. A linear operation is applied to the tangent in the same way as to the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ..dtypes import DType
from ..layout import Layout
from ..node import Node, Recipe
from ..ops import OPS
from ..past import Needs
from ..records import NamedTuple
from .adjoint import Part, adjoint
from .seen import Seen, Term, computed


class Making(Protocol):
    """The interface of a tape node (`Past`) as used by rules."""

    recipe: Recipe
    sources: tuple[Any, ...]
    offsets: tuple[int, ...]

    @property
    def layouts(self) -> tuple[Layout | None, ...]: ...

    @property
    def target(self) -> Layout: ...


Pulled = Iterator[tuple[int, Part]]
Tangents = Mapping[int, Seen]
_REAL = OPS["real"]
SUMS = ("sum", "sum_in_width")  # linear reductions


class Rule(NamedTuple):
    """The derivative of a kind of recipe: the residuals, the VJP (`pull`) and the JVP (`push`)."""

    needs: Callable[[Recipe, tuple[bool, ...]], Needs]
    pull: Callable[[Making, Seen, Sequence[int], Node | None], Pulled]
    push: Callable[[Making, Tangents, Node | None], Seen | None]


def converted(x: Seen, dtype: DType) -> Seen:
    """Return the cotangent `x` converted to `dtype`, the dtype of its content. For real content, only the real part is kept."""
    if x.dtype.is_complex and not dtype.is_complex:
        x = computed(_REAL, [x])
    return x.cast(dtype)


def value_of(past: Making, k: int) -> Seen:
    """Return the value of source `k` of the tape node `past`, a residual, viewed through the layout by which the operation reads it."""
    node, layout = past.sources[k], past.layouts[k]
    assert type(node) is Node and layout is not None
    return Seen(node, layout)


def size_of(past: Making, k: int) -> int:
    """Return the number of elements of the content of source `k` of the tape node `past`: of the whole source, not of the part read."""
    source: Any = past.sources[k]
    size: int = source.size if type(source) is Node else source.recipe.size
    return size


def dtype_of(past: Making, k: int) -> DType:
    """Return the dtype of source `k` of the tape node `past`."""
    dtype: DType = past.recipe.dtypes[k]
    return dtype


def back(past: Making, k: int, term: Term) -> Part:
    """Return the cotangent of the content of source `k` of the tape node `past`, given the cotangent `term` of the elements read from it.

    The cotangent is converted to the dtype of the source. It may be partial, for a read of a part of the source.
    """
    layout = past.layouts[k]
    assert layout is not None
    if term.dtype is not dtype_of(past, k):
        term = Term.of(converted(term.seen(), dtype_of(past, k)))
    return adjoint(layout, term, size_of(past, k))


def read(past: Making, k: int, tangent: Seen) -> Seen:
    """Return the tangent of the elements that the tape node `past` reads of source `k`, given the tangent of the source's content."""
    layout = past.layouts[k]
    assert layout is not None
    return tangent.through(layout)
