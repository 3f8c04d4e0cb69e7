"""Results computed block by block. Only the intermediate values of a single block are in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph.node import Node, SpecialOp
from ..layout import Layout

MAX_UNBLOCKED_BYTES = 1 << 19  # bytes of weights up to which blocks cost more than they save, even with few steps
Block = tuple[Node, Layout]  # a part of the elements, and the layout for writing the part


class BlockwiseOp(SpecialOp):
    """The operation of a node computed in `block_count` blocks.

    `make_block(sources, k)` returns block `k`: a node over `sources`, given as replacements of the node's own sources, and the layout
    through which the block is written into the result.
    """

    __slots__ = ("make_block", "block_count")

    def __init__(self, block_count: int, make_block: Callable[[Sequence[Node], int], Block]) -> None:
        super().__init__("blocks")
        self.block_count, self.make_block = block_count, make_block


def is_worth_blocking(reduction: Node) -> bool:
    """Return whether the reduction node `reduction` reads enough bytes for blocks to pay: more than `MAX_UNBLOCKED_BYTES`.

    The elements read are counted, each time they are read, in the dtype of the result.
    """
    layout = reduction.layouts[0]
    assert layout is not None
    return layout.size * reduction.dtype.itemsize > MAX_UNBLOCKED_BYTES
