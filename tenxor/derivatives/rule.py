"""What a rule is: how the derivative of recipes of one kind is taken, and what all rules are made with.

`needs` says which values a rule reads. `pull` takes a past, the cotangent of its content (in its shape), the sources whose cotangents
are wanted, and the node if the rule needs the result; it gives these cotangents. `push` takes the tangents of sources, by their
number, in the sources' shapes, and gives that of the content. What is linear is done to the tangent as it was to the value.
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
    """How a node was made, as rules look at it: a `Past`."""

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
SUMS = ("sum", "sum_in_width")  # the reductions that are linear


class Rule(NamedTuple):
    """The derivative of recipes of one kind."""

    needs: Callable[[Recipe, tuple[bool, ...]], Needs]
    pull: Callable[[Making, Seen, Sequence[int], Node | None], Pulled]
    push: Callable[[Making, Tangents, Node | None], Seen | None]


def converted(x: Seen, dtype: DType) -> Seen:
    """A cotangent in the dtype of what it belongs to: of real numbers the real part."""
    if x.dtype.is_complex and not dtype.is_complex:
        x = computed(_REAL, [x])
    return x.cast(dtype)


def value_of(past: Making, k: int) -> Seen:
    """The value of a source that was kept, as it was read."""
    node, layout = past.sources[k], past.layouts[k]
    assert type(node) is Node and layout is not None
    return Seen(node, layout)


def size_of(past: Making, k: int) -> int:
    """The number of elements of a source's content."""
    source: Any = past.sources[k]
    found: int = source.size if type(source) is Node else source.recipe.size
    return found


def dtype_of(past: Making, k: int) -> DType:
    """The dtype of a source."""
    found: DType = past.recipe.dtypes[k]
    return found


def back(past: Making, k: int, term: Term) -> Part:
    """The cotangent of a source's content, given that of what was read of it."""
    layout = past.layouts[k]
    assert layout is not None
    if term.dtype is not dtype_of(past, k):
        term = Term.of(converted(term.seen(), dtype_of(past, k)))
    return adjoint(layout, term, size_of(past, k))


def read(past: Making, k: int, tangent: Seen) -> Seen:
    """The tangent of what was read of a source, given that of its content."""
    layout = past.layouts[k]
    assert layout is not None
    return tangent.through(layout)
