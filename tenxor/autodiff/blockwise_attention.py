"""Attention and its derivative, computed in blocks of queries, so that the weights of all query-key pairs are never in memory at once.

With weights `w` = softmax(scores) and the cotangent `g` of the result, the cotangent of the scores is `w (g v' - sum(w (g v')))`. So only
queries, keys and values are saved; the backward pass recomputes the weights, block by block.

T. Dao et al.: FlashAttention, 2022 (arXiv:2205.14135).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import inf

from .._utils.cache_registry import register
from ..dtypes import int64
from ..graph.node import POSITION, Node, Recipe, Residuals, Scalar, disable_tape, intern_recipe, tape_mode
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from ..rewrite.attention_blocks import AttentionBlock, iter_attention_blocks
from ..runtime.realize import realize
from .grad_rule import CotangentIterator, GradRule, SourceTangents, TapeNodeLike, get_source_size, read_tangent, view_source
from .layout_adjoint import Cotangent, apply_adjoint, sum_cotangents
from .node_view import SUM, DeferredTerm, NodeView, Shape, add_views, apply_op, apply_reduction
from .tape import TapeNode, get_tape_node

_DIVIDE, _EQUAL, _EXP, _LESS_EQUAL, _MULTIPLY, _SUBTRACT, _WHERE, _WHERE_SEEN = (
    OPS[name] for name in ("divide", "equal", "exp", "less_equal", "multiply", "subtract", "where", "where_seen")
)
_MAX = REDUCTIONS["max"]
TARGET_BLOCK_BYTES = 1 << 19  # weights in a block, about; they are read several times and should stay in the cache
MIN_BLOCK_QUERIES = 64  # queries in a block, at least
MIN_IMMEDIATE_BLOCKS = 64  # blocks; from this number on the backward pass computes each block immediately


class Attention:
    """The operation of a tape node for attention over queries, keys, values, and an optional mask.

    The products of queries and keys are multiplied by `scale`. With `is_causal`, the query at position i sees the keys at positions 0 to i.
    """

    __slots__ = ("is_causal", "kind", "name", "rule", "scale")

    def __init__(self, scale: float, is_causal: bool) -> None:
        self.kind, self.name, self.scale, self.is_causal = "attention", "scaled_dot_product_attention", scale, is_causal
        self.rule = ATTENTION

    def __repr__(self) -> str:
        return self.name


# Interned, as recipes compare operations by identity
intern_attention = register("attention operations", "an attention, by its options")(lru_cache(1 << 8)(Attention))


def compute_attention(op: Attention, operands: Sequence[NodeView]) -> NodeView:
    """Return attention: for each query, the mean of the values, weighted by the softmax of the scaled products of the query with the keys.

    `op` holds the scale, and says whether the mask is causal. `operands` are queries (..., L, E), keys (..., S, E), values (..., S, V) and
    optionally a mask (..., L, S), with equal leading axes. A boolean mask is True where a query sees a key; a float mask is added to the
    scores. The result is pending, of shape (..., L, V). If queries, keys or values are on the tape, attention is recorded as a single step.
    If the mask is on the tape, or an operand is traced by `vmap`, each operation is recorded instead.
    """
    tape_nodes = [get_tape_node(x.node) for x in operands]
    is_one_step = tape_mode.get() and any(tape_nodes[:3]) and not any(tape_nodes[3:]) and not any([x.node.is_traced for x in operands])
    if not is_one_step:
        return _attend_by_operations(op, operands)
    with disable_tape():
        result = NodeView(_attend_by_operations(op, operands).to_node()).reshape((*operands[0].shape[:-1], operands[2].shape[-1]))
    recipe = intern_recipe(
        op,  # type: ignore[arg-type]
        result.shape,
        result.dtype,
        tuple([x.dtype for x in operands]),
        tuple([x.layout.layout_key for x in operands]),
    )
    result.node.tape_node = TapeNode(recipe, tuple([x.node for x in operands]), tuple([x.layout.offset for x in operands]))
    return result


def _attend_by_operations(op: Attention, operands: Sequence[NodeView]) -> NodeView:
    """Return the attention `op` of `operands`, as `compute_attention` does, by ordinary operations. Each of them is on the tape if a tape
    is recorded and an operand is on the tape.
    """
    return _matmul(_compute_weights(op, operands[0], operands[1], operands[3:]), operands[2])


def _compute_weights(op: Attention, q: NodeView, k: NodeView, mask: Sequence[NodeView], first_query: int = 0) -> NodeView:
    """Return the weights (..., L, S) of the keys for each query: the softmax of the scaled products, after the mask.

    `op` has the scale, and says whether the mask is causal. `q` and `k` are queries and keys. `mask` is empty, or has a single item: a
    boolean mask, True for visible keys, or a float mask added to the scores. `first_query` is the number of queries before the first query,
    for the causal mask. With a `mask`, a query without visible keys gets the weights 0.
    """
    *batch, length = q.shape[:-1]
    count = k.shape[-2]
    shape = (*batch, length, count)
    scores = apply_op(_MULTIPLY, [_matmul(q, _transpose(k)), Scalar(op.scale, q.dtype)])
    nothing = Scalar(-inf, q.dtype)
    for mask_view in mask:
        scores = add_views(scores, mask_view) if mask_view.dtype.is_float else apply_op(_WHERE, [mask_view, scores, nothing])
    if op.is_causal:
        steps, rows = (NodeView(Node.of(POSITION, (n,), int64)) for n in (count, first_query + length))
        earlier = apply_op(
            _LESS_EQUAL,
            [steps.broadcast_along((0,), (length,)), _index_view(rows, (slice(first_query, None),)).broadcast_along((1,), (count,))],
        )
        scores = apply_op(_WHERE_SEEN, [earlier.broadcast_along(range(len(batch)), batch), scores, nothing])

    def to_all_keys(x: NodeView) -> NodeView:
        return x.broadcast_along((len(shape) - 1,), (count,))

    with disable_tape():  # the subtracted maximum does not affect the result
        highest = apply_reduction(_MAX, scores, len(shape) - 1)
        if mask:  # 0 where the mask excludes every key, so that the row is -inf
            highest = apply_op(_WHERE, [apply_op(_EQUAL, [highest, nothing]), Scalar(0.0, q.dtype), highest])
    powers = apply_op(_EXP, [apply_op(_SUBTRACT, [scores, to_all_keys(highest)])])
    sums = apply_reduction(SUM, powers, len(shape) - 1)
    share = apply_op(_DIVIDE, [Scalar(1.0, q.dtype), sums])
    if mask:
        share = apply_op(_WHERE, [apply_op(_EQUAL, [sums, Scalar(0.0, q.dtype)]), Scalar(0.0, q.dtype), share])
    return apply_op(_MULTIPLY, [powers, to_all_keys(share)])


# --- moves and products -----------------------------------------------------------------------------------------------


def _transpose(x: NodeView) -> NodeView:
    """Return a view of `x` with the last two axes exchanged."""
    last_axis = len(x.shape) - 1
    return x.map_layout(lambda layout: layout.permute((*range(last_axis - 1), last_axis, last_axis - 1)))


def _index_view(x: NodeView, key: tuple[slice, ...]) -> NodeView:
    """Return a view of `x` indexed by `key`, slices of the first axes of `x`; the remaining axes are kept."""
    return x.map_layout(lambda layout: layout.index(key))


def _pair_products(x: NodeView, y: NodeView) -> DeferredTerm:
    """Return the products of the rows of `x` (..., n, k) with the columns of `y` (..., k, m), as a term (..., n, m, k): without the sum
    over k.
    """
    n, m, axis = x.shape[-2], y.shape[-1], len(x.shape) - 2
    operands = [x.broadcast_along((axis + 1,), (m,)), _transpose(y).broadcast_along((axis,), (n,))]
    return DeferredTerm(_MULTIPLY, operands, operands[0].shape, x.dtype)


def _matmul(x: NodeView, y: NodeView) -> NodeView:
    """Return the matrix products (..., n, m) of `x` (..., n, k) and `y` (..., k, m) as a pending view. The leading axes must be equal."""
    return _pair_products(x, y).sum_trailing(len(x.shape))


# --- the rule ---------------------------------------------------------------------------------------------------------


@register("blocks of attention", "the blocks that attention is computed in, by recipe")
@lru_cache(1 << 8)
def _split_blocks(recipe: Recipe) -> tuple[AttentionBlock, ...]:
    """Return the blocks of queries for the backward pass of attention with `recipe`, sorted by the number of visible keys, largest first.

    So the first block stores a cotangent for every key, and later blocks add to it.
    """
    (*batch_shape, length, _), (*_, steps, _) = _operand_shapes(recipe)[:2]
    op: Attention = recipe.op  # type: ignore[assignment]
    blocks = list(
        iter_attention_blocks(
            batch_shape, length, steps, recipe.dtype.itemsize, 0 if op.is_causal else None, TARGET_BLOCK_BYTES, MIN_BLOCK_QUERIES
        )
    )
    return tuple(sorted(blocks, key=lambda block: -block.seen_step_count))


def _operand_shapes(recipe: Recipe) -> list[Shape]:
    """Return the shapes of the operands of `recipe`, as they are read; numbers are left out."""
    return [layout_key.layout.shape for layout_key in recipe.layout_keys if layout_key is not None]


def _has_many_blocks(recipe: Recipe) -> bool:
    """Return whether attention with `recipe` has so many blocks that the backward pass computes each block at once, instead of staying
    lazy.
    """
    return len(_split_blocks(recipe)) >= MIN_IMMEDIATE_BLOCKS


def _residuals_of(recipe: Recipe, tracked: tuple[bool, ...]) -> Residuals:
    """Return flags for the residuals of attention: the value of every source, but not the result. This is the `residuals_of` of a
    `GradRule`.

    `tracked` has an item for each source; `recipe` is not read.
    """
    return Residuals((True,) * len(tracked), False)


def _attention_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (k, cotangent of source k) for the sources `wanted` of attention (`GradRule.vjp`): 0 queries, 1 keys, 2 values.

    `tape_node` is the tape node, and `g` the cotangent of the result. With few blocks, or if `g` is traced, each block yields separate
    pairs, and nothing is computed yet. With many, each block is computed immediately, and each source gets a single pair.
    """
    if not _has_many_blocks(tape_node.recipe) or g.node.is_traced:
        for block in _split_blocks(tape_node.recipe):
            yield from _block_vjp(tape_node, g, wanted, block)
        return
    running_sums: dict[int, list[Cotangent]] = {k: [] for k in wanted}
    for block in _split_blocks(tape_node.recipe):
        for k, cotangent in _block_vjp(tape_node, g, wanted, block):
            running_sums[k].append(cotangent)
        for k, cotangents in running_sums.items():
            cotangents[:] = [sum_cotangents(cotangents, (get_source_size(tape_node, k),), tape_node.recipe.dtypes[k])]
        realize(*[cotangents[0].node for cotangents in running_sums.values()])  # type: ignore[union-attr]
    for k, (cotangent,) in running_sums.items():
        yield k, cotangent


def _block_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], block: AttentionBlock) -> CotangentIterator:
    """Yield (k, contribution to the cotangent of source k) from the block of queries `block`, for the sources `wanted` of attention.

    Source 0 has the queries, 1 the keys, 2 the values. A contribution is a `PartialCotangent` where the block reads only a part of the
    source. `tape_node` is the tape node, and `g` the cotangent of the whole result. The weights of the block are computed again. Nothing is
    computed before the contributions are realized.
    """
    op: Attention = tape_node.recipe.op  # type: ignore[assignment]
    rows, steps = (*block.outer_slices, block.row_slice), (*block.outer_slices, slice(0, block.seen_step_count))
    q, g = _index_view(view_source(tape_node, 0), rows), _index_view(g, rows)
    k, v = _index_view(view_source(tape_node, 1), steps), _index_view(view_source(tape_node, 2), steps)
    mask = [_index_view(view_source(tape_node, n), (*rows, slice(0, block.seen_step_count))) for n in range(3, len(tape_node.sources))]
    weights = _compute_weights(op, q, k, mask, block.row_slice.start)

    def cotangent_of(source: int, x: NodeView, term: DeferredTerm, axis: int) -> tuple[int, Cotangent]:
        return source, apply_adjoint(x.broadcast_along((axis,), (term.shape[axis],)).layout, term, get_source_size(tape_node, source))

    row, step = len(q.shape) - 2, len(q.shape) - 1
    if 2 in wanted:
        yield cotangent_of(2, v, _scale_vectors(weights, g), row)
    if 0 in wanted or 1 in wanted:
        by_scores = apply_op(_MULTIPLY, [_softmax_derivative(weights, _matmul(g, _transpose(v))), Scalar(op.scale, g.dtype)])
        if 0 in wanted:
            yield cotangent_of(0, q, _scale_vectors(by_scores, k, of_steps=True), step)
        if 1 in wanted:
            yield cotangent_of(1, k, _scale_vectors(by_scores, q), row)


def _softmax_derivative(weights: NodeView, x: NodeView) -> NodeView:
    """Return `w (x - sum(w x))` with `w` = `weights` and sums along the last axis: the derivative of softmax in the direction `x`.

    `weights` is the result of the softmax, and has the shape of `x`.
    """
    last_axis = len(x.shape) - 1
    sums = apply_reduction(SUM, apply_op(_MULTIPLY, [weights, x]), last_axis)
    return apply_op(_MULTIPLY, [weights, apply_op(_SUBTRACT, [x, sums.broadcast_along((last_axis,), x.shape[last_axis:])])])


def _scale_vectors(pairs: NodeView, vectors: NodeView, *, of_steps: bool = False) -> DeferredTerm:
    """Return each of `pairs` (..., rows, steps) times the vector of the row, or of the step if `of_steps`, as a term (..., rows, steps,
    width). `vectors` has the shape (..., rows, width), or (..., steps, width) if `of_steps`.
    """
    step = len(pairs.shape) - 1
    axis = step - 1 if of_steps else step
    operands = [pairs.broadcast_along((step + 1,), vectors.shape[-1:]), vectors.broadcast_along((axis,), (pairs.shape[axis],))]
    return DeferredTerm(_MULTIPLY, operands, operands[0].shape, pairs.dtype)


def _attention_jvp(tape_node: TapeNodeLike, source_tangents: SourceTangents, result: Node | None) -> NodeView | None:
    """Return the tangent of the result of attention with tape node `tape_node` (`GradRule.jvp`), or None for 0.

    `source_tangents` maps 0 (queries), 1 (keys) and 2 (values) to the tangents of the whole sources. `result` is not read. The weights of
    all queries are in the graph at once, not block by block.
    """
    op: Attention = tape_node.recipe.op  # type: ignore[assignment]
    q, k, v = (view_source(tape_node, n) for n in range(3))
    weights = _compute_weights(op, q, k, [view_source(tape_node, n) for n in range(3, len(tape_node.sources))])
    moved = {n: read_tangent(tape_node, n, x) for n, x in source_tangents.items()}
    scores, results = list[NodeView](), list[NodeView]()
    if 0 in moved:
        scores.append(_matmul(moved[0], _transpose(k)))
    if 1 in moved:
        scores.append(_matmul(q, _transpose(moved[1])))
    if scores:
        by_scores = apply_op(_MULTIPLY, [reduce(add_views, scores), Scalar(op.scale, q.dtype)])
        results.append(_matmul(_softmax_derivative(weights, by_scores), v))
    if 2 in moved:
        results.append(_matmul(weights, moved[2]))
    return reduce(add_views, results) if results else None


ATTENTION = GradRule(_residuals_of, _attention_vjp, _attention_jvp, lambda recipe: not _has_many_blocks(recipe))
