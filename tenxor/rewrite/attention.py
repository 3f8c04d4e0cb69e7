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
MIN_BLOCK_ROWS = 17  # minimal rows of a block: with fewer, reductions would be rewritten differently from the whole
_MULTIPLY = OPS["multiply"]


def product_in_blocks(node: Node, shared: Set[Node]) -> list[Node] | None:
    """Rewrite a contraction with weights computed from pairs of rows and steps as a node computed in blocks. Return a list of this node.

    Return None for a different node, and for small weights. `shared` are the nodes with several readers.
    """
    layout, result_ndim = node.layouts[0], len(node.shape)
    assert layout is not None
    (products,) = node.sources
    if node.op is not REDUCTIONS["sum"] or not is_much(node):
        return None
    if type(products) is not Node or products.op is not _MULTIPLY or products.stored:
        return None
    if layout.ndim != result_ndim + 1 or layout != Layout.contiguous(products.shape):
        return None
    large_sides = [side for side, weights in enumerate(products.sources) if _count_bytes(weights) > FEW_BYTES]
    rows = next(filter(None, (rows_of(node, products, side, shared) for side in large_sides)), None)
    if rows is None:
        return None
    nbytes = _count_bytes(rows.weights)
    reach, product_shape = steps_seen(rows), products.shape
    if reach is None and nbytes <= BLOCK_BYTES:
        return None
    outer_shape, itemsize = [product_shape[a] for a in rows.before], node.dtype.itemsize
    block_cuts = cuts(outer_shape, product_shape[rows.row], product_shape[rows.steps], itemsize, reach, BLOCK_BYTES, MIN_BLOCK_ROWS)
    regions = [_make_region(rows, cut, is_causal=reach is not None) for cut in block_cuts]
    if len(regions) < 2:
        return None
    operands = dict.fromkeys(s for n in rows.order for s in n.sources if type(s) is Node and s.op is not POSITION)
    leaves = [source for source in operands if source not in rows.axes]

    def build_block(sources: Sequence[Node], k: int) -> Block:
        """Return block `k` as a node over the given sources, and the layout for writing it."""
        slices = tuple([regions[k].get(axis, slice(None)) for axis in range(result_ndim)])
        replacements = dict(zip(leaves, sources, strict=True))
        return restricted(rows, regions[k], replacements), Layout.contiguous(node.shape).index(slices)

    forms = tuple([Layout.contiguous(leaf.shape).form for leaf in leaves])
    dtypes = tuple([leaf.dtype for leaf in leaves])
    blocks = Blocks(len(regions), build_block)
    recipe = Recipe(blocks, node.shape, node.dtype, dtypes, forms, None)  # used once, so not cached
    return [Node(recipe, tuple(leaves), (0,) * len(leaves))]


def _count_bytes(source: Node | Scalar) -> int:
    """Return the bytes of a source, 0 for a scalar."""
    return source.size * source.dtype.itemsize if type(source) is Node else 0


def _make_region(rows: Rows, cut: Cut, *, is_causal: bool) -> Place:
    """Return the slices of a block by axis of the contraction. If `is_causal`, the slice of steps ends at the last step that a row sees."""
    region = dict(zip((*rows.before, rows.row), (*cut.before, cut.rows), strict=True))
    return {**region, rows.steps: slice(0, cut.steps)} if is_causal else region
