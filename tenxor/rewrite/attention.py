"""A product with weights that are made row by row from another product, as those of attention, runs in blocks of rows: the
weights of all rows are never in memory together.

M. N. Rabe, C. Staats: Self-attention does not need O(n^2) memory, 2021 (arXiv:2112.05682).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import pairwise, product

from ..layout import Layout
from ..node import POSITION, Node, Recipe
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from .blocks import Block, Blocks
from .rows import Place, Rows, restricted, rows_of
from .unseen import steps_seen

ROWS = 512  # of a block at most, if it sees all steps
ROWS_IF_CAUSAL = 128  # and if its last row sees more of them than its first
FEWEST = 17  # rows of a block at least: so its reductions are those of all rows
BLOCK_BYTES = 1 << 22  # of the weights in a block, about
ALIKE = 64  # steps of which those that are not seen are left out together: so the others are added up in the same order
_MULTIPLY = OPS["multiply"]


def product_in_blocks(node: Node, shared: Set[Node]) -> list[Node] | None:
    """A product with weights that are made of pairs, as a node that is computed in blocks; None for any other node, and where the weights
    are few. What is `shared` others read, too.
    """
    through, kept = node.layouts[0], len(node.shape)
    assert through is not None
    (products,) = node.sources
    if node.op is not REDUCTIONS["sum"] or through.size * node.dtype.itemsize <= BLOCK_BYTES:
        return None
    if type(products) is not Node or products.op is not _MULTIPLY or products.stored:
        return None
    if through.ndim != kept + 1 or through != Layout.contiguous(products.shape):
        return None
    rows = rows_of(node, products, 0, shared) or rows_of(node, products, 1, shared)
    if rows is None or rows.weights.size * rows.weights.dtype.itemsize <= BLOCK_BYTES:
        return None
    places = list(_places(rows, products.shape, node.dtype.itemsize, steps_seen(rows)))
    if len(places) < 2:
        return None
    read = dict.fromkeys(s for n in rows.order for s in n.sources if type(s) is Node and s.op is not POSITION)
    leaves = [source for source in read if source not in rows.axes]

    def block(sources: Sequence[Node], k: int) -> Block:
        cut = tuple([places[k].get(axis, slice(None)) for axis in range(kept)])
        known = dict(zip(leaves, sources, strict=True))
        return restricted(rows, places[k], known), Layout.contiguous(node.shape).index(cut)

    forms = tuple([Layout.contiguous(leaf.shape).form for leaf in leaves])
    dtypes = tuple([leaf.dtype for leaf in leaves])
    blocks = Blocks(len(places), block)
    recipe = Recipe(blocks, node.shape, node.dtype, dtypes, forms, None)  # met once, so not remembered
    return [Node(recipe, tuple(leaves), (0,) * len(leaves))]


def _places(rows: Rows, sizes: tuple[int, ...], itemsize: int, seen: int | None) -> Iterator[Place]:
    """The blocks: so many rows of all that is in front of them if that fits, else of some, or of one."""
    length, nbytes = sizes[rows.row], sizes[rows.steps] * itemsize
    most = ROWS if seen is None else ROWS_IF_CAUSAL
    count = max(1, length // min(most, max(FEWEST, BLOCK_BYTES // nbytes)))
    bounds = [length * k // count for k in range(count + 1)]
    high = -(-length // count)
    heads = max(1, -(-FEWEST // high), BLOCK_BYTES // (high * nbytes))
    inner, axis = 1, len(rows.before)
    while axis > 0 and inner * sizes[rows.before[axis - 1]] <= heads:
        axis -= 1
        inner *= sizes[rows.before[axis]]
    each = [1] * (axis - 1) + [max(1, heads // inner)] * (axis > 0) + [sizes[a] for a in rows.before[axis:]]
    outer = [
        [slice(start, min(start + step, sizes[a])) for start in range(0, sizes[a], step)]
        for a, step in zip(rows.before, each, strict=True)
    ]
    for cut in product(*outer, [slice(*ends) for ends in pairwise(bounds)]):
        place = dict(zip((*rows.before, rows.row), cut, strict=True))
        if seen is not None:
            place[rows.steps] = slice(0, min(-(-(cut[-1].stop + seen) // ALIKE) * ALIKE, sizes[rows.steps]))
        yield place
