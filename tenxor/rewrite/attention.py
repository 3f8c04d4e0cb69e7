"""Block-wise attention: a contraction with weights made row by row from another contraction runs in blocks of rows.

So the weights of all rows are never in memory together.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from ..layout import Layout
from ..node import POSITION, Node, Recipe, Scalar
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from .blocks import FEW_BYTES, Block, Blocks, is_much
from .cuts import Cut, cuts
from .rows import Place, Rows, restricted, rows_of
from .unseen import steps_seen

BLOCK_BYTES = 1 << 22  # approximate bytes of the weights in a block
FEWEST = 17  # minimal rows of a block: with fewer, reductions would be rewritten differently from the whole
_MULTIPLY = OPS["multiply"]


def product_in_blocks(node: Node, shared: Set[Node]) -> list[Node] | None:
    """Rewrite a contraction with weights computed from pairs of rows and steps as a node computed in blocks. Return a list of this node.

    Return None for a different node, and for small weights. `shared` are the nodes with several readers.
    """
    through, kept = node.layouts[0], len(node.shape)
    assert through is not None
    (products,) = node.sources
    if node.op is not REDUCTIONS["sum"] or not is_much(node):
        return None
    if type(products) is not Node or products.op is not _MULTIPLY or products.stored:
        return None
    if through.ndim != kept + 1 or through != Layout.contiguous(products.shape):
        return None
    many = [side for side, weights in enumerate(products.sources) if _nbytes(weights) > FEW_BYTES]
    rows = next(filter(None, (rows_of(node, products, side, shared) for side in many)), None)
    if rows is None:
        return None
    nbytes = _nbytes(rows.weights)
    seen, sizes = steps_seen(rows), products.shape
    if seen is None and nbytes <= BLOCK_BYTES:
        return None
    before, itemsize = [sizes[a] for a in rows.before], node.dtype.itemsize
    each = cuts(before, sizes[rows.row], sizes[rows.steps], itemsize, seen, BLOCK_BYTES, FEWEST)
    places = [_place(rows, cut, is_causal=seen is not None) for cut in each]
    if len(places) < 2:
        return None
    read = dict.fromkeys(s for n in rows.order for s in n.sources if type(s) is Node and s.op is not POSITION)
    leaves = [source for source in read if source not in rows.axes]

    def block(sources: Sequence[Node], k: int) -> Block:
        """Return block `k` as a node over the given sources, and the layout for writing it."""
        cut = tuple([places[k].get(axis, slice(None)) for axis in range(kept)])
        known = dict(zip(leaves, sources, strict=True))
        return restricted(rows, places[k], known), Layout.contiguous(node.shape).index(cut)

    forms = tuple([Layout.contiguous(leaf.shape).form for leaf in leaves])
    dtypes = tuple([leaf.dtype for leaf in leaves])
    blocks = Blocks(len(places), block)
    recipe = Recipe(blocks, node.shape, node.dtype, dtypes, forms, None)  # used once, so not cached
    return [Node(recipe, tuple(leaves), (0,) * len(leaves))]


def _nbytes(source: Node | Scalar) -> int:
    """Return the bytes of a source, 0 for a scalar."""
    return source.size * source.dtype.itemsize if type(source) is Node else 0


def _place(rows: Rows, cut: Cut, *, is_causal: bool) -> Place:
    """Return the slices of a block by axis of the contraction. If `is_causal`, the slice of steps ends at the last step that a row sees."""
    place = dict(zip((*rows.before, rows.row), (*cut.before, cut.rows), strict=True))
    return {**place, rows.steps: slice(0, cut.steps)} if is_causal else place
