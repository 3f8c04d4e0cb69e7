"""Block-wise attention: a contraction with weights made row by row from another contraction runs in blocks of rows. So the weights of all
rows are never in memory together. In attention, rows are queries, and the steps that the contraction sums are keys.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from ..graph.node import POSITION, Node, Recipe, Scalar
from ..layout import Layout
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from .attention_blocks import AttentionBlock, iter_attention_blocks
from .attention_rows import Region, RowSubgraph, match_row_subgraph, restrict_to_region
from .blockwise_op import MAX_UNBLOCKED_BYTES, Block, BlockwiseOp, is_worth_blocking
from .causal_mask import find_causal_reach

BLOCK_BYTES = 1 << 22  # approximate bytes of the weights in a block
MIN_BLOCK_ROWS = 17  # minimal rows of a block: with fewer, reductions would be rewritten differently from the whole
_MULTIPLY = OPS["multiply"]


def split_attention(node: Node, shared: Set[Node]) -> list[Node] | None:
    """Rewrite a contraction with weights computed from pairs of rows and steps as a node computed in blocks. Return a list of this node.

    `node` is a reduction. Return None unless `node` sums a product over the last axis, with a large factor computed row by row
    (`match_row_subgraph`). Return None also if the weights fit into a single block: up to `MAX_UNBLOCKED_BYTES`, or `BLOCK_BYTES` without a
    causal mask. `shared` are the nodes of the graph with several readers.
    """
    layout, result_ndim = node.layouts[0], len(node.shape)
    assert layout is not None
    (products,) = node.sources
    if node.op is not REDUCTIONS["sum"] or not is_worth_blocking(node):
        return None
    if type(products) is not Node or products.op is not _MULTIPLY or products.is_stored:
        return None
    if layout.ndim != result_ndim + 1 or layout != Layout.contiguous(products.shape):
        return None
    large_sides = [side for side, weights in enumerate(products.sources) if _count_bytes(weights) > MAX_UNBLOCKED_BYTES]
    rows = next(filter(None, (match_row_subgraph(node, products, side, shared) for side in large_sides)), None)
    if rows is None:
        return None
    nbytes = _count_bytes(rows.weights)
    reach, product_shape = find_causal_reach(rows), products.shape
    if reach is None and nbytes <= BLOCK_BYTES:
        return None
    outer_shape, itemsize = [product_shape[a] for a in rows.outer_axes], node.dtype.itemsize
    block_cuts = iter_attention_blocks(
        outer_shape, product_shape[rows.row_axis], product_shape[rows.step_axis], itemsize, reach, BLOCK_BYTES, MIN_BLOCK_ROWS
    )
    regions = [_make_region(rows, cut, is_causal=reach is not None) for cut in block_cuts]
    if len(regions) < 2:
        return None
    operands = dict.fromkeys(s for n in rows.order for s in n.sources if type(s) is Node and s.op is not POSITION)
    leaves = [source for source in operands if source not in rows.axes]

    def build_block(sources: Sequence[Node], k: int) -> Block:
        """Return block `k` as a node over `sources`, the replacements of `leaves`, and the layout for writing the block."""
        slices = tuple([regions[k].get(axis, slice(None)) for axis in range(result_ndim)])
        replacements = dict(zip(leaves, sources, strict=True))
        return restrict_to_region(rows, regions[k], replacements), Layout.contiguous(node.shape).index(slices)

    layout_keys = tuple([Layout.contiguous(leaf.shape).layout_key for leaf in leaves])
    dtypes = tuple([leaf.dtype for leaf in leaves])
    blocks = BlockwiseOp(len(regions), build_block)
    recipe = Recipe(blocks, node.shape, node.dtype, dtypes, layout_keys, None)  # used once, so not cached
    return [Node(recipe, tuple(leaves), (0,) * len(leaves))]


def _count_bytes(source: Node | Scalar) -> int:
    """Return the bytes of all elements of a source, pending or not; 0 for a scalar."""
    return source.size * source.dtype.itemsize if type(source) is Node else 0


def _make_region(rows: RowSubgraph, cut: AttentionBlock, *, is_causal: bool) -> Region:
    """Return the slices of the block `cut` by axis of the contraction `rows`; axes without an entry are whole.

    If `is_causal`, the steps are cut too, to the first `cut.seen_step_count`.
    """
    region = dict(zip((*rows.outer_axes, rows.row_axis), (*cut.outer_slices, cut.row_slice), strict=True))
    return {**region, rows.step_axis: slice(0, cut.seen_step_count)} if is_causal else region
