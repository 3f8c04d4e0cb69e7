"""What a fold computes at some cost is kept, for as long as its row is in the cache, for the loop that needs it again.

The exponentials that softmax adds up are the same that it then divides by their sum.
"""

from __future__ import annotations

from ..dtypes import DType
from ..layout import Layout
from ..node import Node
from ..ops.expr import Call, Expr, replaced
from ..target import Target
from .drafted import Draft, Folding, Keeping, Loops
from .ir import walk, work


class Repeat(Expr):
    """The element of kept row `index` that belongs to the present step of the result's last loop."""

    __slots__ = ("index",)

    def __init__(self, index: int, dtype: DType) -> None:
        self.index = index
        self._set(dtype, index)


def keep(d: Draft, computed: dict[tuple[Node, Layout, Loops], Expr], target: Target) -> None:
    """Keep what both a fold and the result compute at the same places of the same node, in loops of one axis each."""
    assert d.value is not None
    longest = target.loops.row
    left, in_result = target.loops.rows, set(walk(d.value))
    for (node, place, loops), e in reversed(computed.items()):  # what is computed last holds the rest
        nbytes = longest * e.dtype.itemsize
        if (
            loops != d.space
            or e not in in_result
            or nbytes > left
            or not isinstance(e, Call)
            or work(e) < target.costs.kept
        ):
            continue
        for f in d.foldings:
            inside = f.around + f.axes
            again = computed.get((node, place, inside))
            if again is not None and is_row(d, f, longest) and any(again in set(walk(v)) for v in f.values):
                d.kept.append(Keeping(again, f.axes[0], d.space[-1]))
                d.value = replaced(d.value, {e: Repeat(len(d.kept) - 1, e.dtype)})
                left, in_result = left - nbytes, set(walk(d.value))
                break


def is_row(d: Draft, f: Folding, longest: int) -> bool:
    """Whether a fold runs over one axis, in the place of the result's last, that is not longer than that, and a loop at all."""
    return len(f.axes) == 1 and f.around == d.space[:-1] and 1 < d.extents[f.axes[0]] <= longest
