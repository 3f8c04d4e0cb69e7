"""What is computed block by block, so that what one block needs on the way is never in memory for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..layout import Layout
from ..node import Node, Special

FEW_BYTES = 1 << 19  # of weights, up to which blocks save less than they cost, however few steps they see
Block = tuple[Node, Layout]  # some elements, and the layout that writes them


class Blocks(Special):
    """Elements computed in so many blocks. `block(sources, k)` is block `k`, made of nodes that stand for the sources."""

    __slots__ = ("block", "count")

    def __init__(self, count: int, block: Callable[[Sequence[Node], int], Block]) -> None:
        super().__init__("blocks")
        self.count, self.block = count, block


def is_much(reduction: Node) -> bool:
    """Whether what a reduction reads is so much that it may be worth blocks."""
    through = reduction.layouts[0]
    assert through is not None
    return through.size * reduction.dtype.itemsize > FEW_BYTES
