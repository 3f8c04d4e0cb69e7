"""Results computed block by block. Only the intermediate values of a single block are in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..layout import Layout
from ..node import Node, Special

FEW_BYTES = 1 << 19  # bytes of weights up to which blocks cost more than they save, even with few steps
Block = tuple[Node, Layout]  # a part of the elements, and the layout for writing the part


class Blocks(Special):
    """The operation of a node computed in `count` blocks.

    `block(sources, k)` returns block `k`: a node over `sources`, given as replacements of the node's own sources, and the layout for
    writing it.
    """

    __slots__ = ("block", "count")

    def __init__(self, count: int, block: Callable[[Sequence[Node], int], Block]) -> None:
        super().__init__("blocks")
        self.count, self.block = count, block


def is_much(reduction: Node) -> bool:
    """Return whether a reduction reads enough bytes for blocks to pay."""
    layout = reduction.layouts[0]
    assert layout is not None
    return layout.size * reduction.dtype.itemsize > FEW_BYTES
