"""Attention and its derivative, computed in blocks of queries, so that the weights of all query-key pairs are never in memory at once.

With weights `w` = softmax(scores) and the cotangent `g` of the result, the cotangent of the scores is `w (g v' - sum(w (g v')))`. So only
queries, keys and values are saved; the backward pass recomputes the weights, block by block.

T. Dao et al.: FlashAttention, 2022 (arXiv:2205.14135).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import inf

from ..dtypes import int64
from ..node import POSITION, Node, Recipe, Scalar, recipe_of, tracking, untracked
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from ..past import Needs, Past, past_of
from ..realize import realize
from ..rewrite.cuts import Cut, cuts
from .adjoint import Part, adjoint, total
from .rule import Making, Pulled, Rule, Tangents, read, size_of, value_of
from .seen import SUM, Seen, Shape, Term, added, computed, reduced

_DIVIDE, _EQUAL, _EXP, _LESS_EQUAL, _MULTIPLY, _SUBTRACT, _WHERE, _WHERE_SEEN = (
    OPS[name] for name in ("divide", "equal", "exp", "less_equal", "multiply", "subtract", "where", "where_seen")
)
_MAX = REDUCTIONS["max"]
BLOCK_BYTES = 1 << 19  # weights in a block, about; they are read several times and should stay in the cache
MIN_BLOCK_QUERIES = 64  # queries in a block, at least
MIN_IMMEDIATE_BLOCKS = 64  # blocks; from this number on the backward pass computes each block immediately


class Attention:
    """The operation of a tape node for attention over queries, keys, values, and an optional mask."""

    __slots__ = ("is_causal", "kind", "name", "scale")

    def __init__(self, scale: float, is_causal: bool) -> None:
        self.kind, self.name, self.scale, self.is_causal = "attention", "scaled_dot_product_attention", scale, is_causal

    def __repr__(self) -> str:
        return self.name


attention = lru_cache(1 << 8)(Attention)  # interned, as recipes compare operations by identity


def attended(op: Attention, operands: Sequence[Seen]) -> Seen:
    """Return attention: for each query, the mean of the values, weighted by the softmax of the scaled products of the query with the keys.

    `operands` are queries (..., L, E), keys (..., S, E), values (..., S, V) and optionally a mask (..., L, S). The result has shape (...,
    L, V). Attention is recorded as a single step of the tape, unless the mask is on the tape or an operand is traced by `vmap`.
    """
    pasts = [past_of(x.node) for x in operands]
    is_one_step = tracking.get() and any(pasts[:3]) and not any(pasts[3:]) and not any([x.node.traced for x in operands])
    if not is_one_step:
        return _attend_unrecorded(op, operands)
    with untracked():
        result = Seen(_attend_unrecorded(op, operands).flat()).reshaped((*operands[0].shape[:-1], operands[2].shape[-1]))
    recipe = recipe_of(
        op,  # type: ignore[arg-type]
        result.shape,
        result.dtype,
        tuple([x.dtype for x in operands]),
        tuple([x.layout.form for x in operands]),
    )
    result.node.past = Past(recipe, tuple([x.node for x in operands]), tuple([x.layout.offset for x in operands]))
    return result


def _attend_unrecorded(op: Attention, operands: Sequence[Seen]) -> Seen:
    """Return the attention `op` of `operands`, as `attended` does, by ordinary operations, each of them on the tape if an operand is."""
    return _matmul(_compute_weights(op, operands[0], operands[1], operands[3:]), operands[2])


def _compute_weights(op: Attention, q: Seen, k: Seen, mask: Sequence[Seen], first_query: int = 0) -> Seen:
    """Return the weights (..., L, S) of the keys for each query: the softmax of the scaled products, after the mask.

    `q` and `k` are queries and keys, and `mask` has no item or one, boolean or added to the scores. `first_query` is the position of the
    first query among all queries, for the causal mask.
    """
    *batch, length = q.shape[:-1]
    count = k.shape[-2]
    shape = (*batch, length, count)
    scores = computed(_MULTIPLY, [_matmul(q, _transpose(k)), Scalar(op.scale, q.dtype)])
    nothing = Scalar(-inf, q.dtype)
    for mask_view in mask:
        scores = added(scores, mask_view) if mask_view.dtype.is_float else computed(_WHERE, [mask_view, scores, nothing])
    if op.is_causal:
        steps, rows = (Seen(Node.of(POSITION, (n,), int64)) for n in (count, first_query + length))
        earlier = computed(
            _LESS_EQUAL, [steps.along((0,), (length,)), _index_view(rows, (slice(first_query, None),)).along((1,), (count,))]
        )
        scores = computed(_WHERE_SEEN, [earlier.along(range(len(batch)), batch), scores, nothing])

    def to_all_keys(x: Seen) -> Seen:
        return x.along((len(shape) - 1,), (count,))

    with untracked():  # the subtracted maximum does not affect the result
        highest = reduced(_MAX, scores, len(shape) - 1)
        if mask:  # 0 where the mask excludes every key, so that the row is -inf
            highest = computed(_WHERE, [computed(_EQUAL, [highest, nothing]), Scalar(0.0, q.dtype), highest])
    powers = computed(_EXP, [computed(_SUBTRACT, [scores, to_all_keys(highest)])])
    sums = reduced(SUM, powers, len(shape) - 1)
    share = computed(_DIVIDE, [Scalar(1.0, q.dtype), sums])
    if mask:
        share = computed(_WHERE, [computed(_EQUAL, [sums, Scalar(0.0, q.dtype)]), Scalar(0.0, q.dtype), share])
    return computed(_MULTIPLY, [powers, to_all_keys(share)])


# --- moves and products -----------------------------------------------------------------------------------------------


def _transpose(x: Seen) -> Seen:
    """Return a view with the last two axes exchanged."""
    last_axis = len(x.shape) - 1
    return x.moved(lambda layout: layout.permute((*range(last_axis - 1), last_axis, last_axis - 1)))


def _index_view(x: Seen, key: tuple[slice, ...]) -> Seen:
    """Return a view of `x` indexed by slices of its first axes."""
    return x.moved(lambda layout: layout.index(key))


def _pair_products(x: Seen, y: Seen) -> Term:
    """Return the products of rows (..., n, k) with columns (..., k, m), without the sum over k: (..., n, m, k)."""
    n, m, axis = x.shape[-2], y.shape[-1], len(x.shape) - 2
    operands = [x.along((axis + 1,), (m,)), _transpose(y).along((axis,), (n,))]
    return Term(_MULTIPLY, operands, operands[0].shape, x.dtype)


def _matmul(x: Seen, y: Seen) -> Seen:
    """Return the matrix products (..., n, m) of `x` (..., n, k) and `y` (..., k, m)."""
    return _pair_products(x, y).summed(len(x.shape))


# --- the rule ---------------------------------------------------------------------------------------------------------


@lru_cache(1 << 8)
def _split_blocks(recipe: Recipe) -> tuple[Cut, ...]:
    """Return the blocks of queries for the backward pass of attention, sorted by the number of visible keys, largest first.

    So the first block stores a cotangent for every key, and later blocks add to it.
    """
    (*batch_shape, length, _), (*_, steps, _) = _operand_shapes(recipe)[:2]
    op: Attention = recipe.op  # type: ignore[assignment]
    blocks = list(cuts(batch_shape, length, steps, recipe.dtype.itemsize, 0 if op.is_causal else None, BLOCK_BYTES, MIN_BLOCK_QUERIES))
    return tuple(sorted(blocks, key=lambda cut: -cut.steps))


def _operand_shapes(recipe: Recipe) -> list[Shape]:
    """Return the shapes of the operands of a recipe, as they are read."""
    return [form.layout.shape for form in recipe.forms if form is not None]


def has_many_blocks(recipe: Recipe) -> bool:
    """Return whether the backward pass of this attention is computed at once, block by block, instead of staying lazy."""
    return len(_split_blocks(recipe)) >= MIN_IMMEDIATE_BLOCKS


def _needs(recipe: Recipe, tracked: tuple[bool, ...]) -> Needs:
    """Return the residuals of attention: the value of every source, but not the result."""
    return Needs((True,) * len(tracked), False)


def _pull(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (k, cotangent of source k) for the sources `wanted` of attention, block by block: 0 queries, 1 keys, 2 values.

    `past` is the tape node, and `g` the cotangent of the result. With many blocks each block is computed immediately, unless `g` is traced.
    """
    if not has_many_blocks(past.recipe) or g.node.traced:
        for cut in _split_blocks(past.recipe):
            yield from _pull_block(past, g, wanted, cut)
        return
    so_far: dict[int, list[Part]] = {k: [] for k in wanted}
    for cut in _split_blocks(past.recipe):
        for k, cotangent in _pull_block(past, g, wanted, cut):
            so_far[k].append(cotangent)
        for k, cotangents in so_far.items():
            cotangents[:] = [total(cotangents, (size_of(past, k),), past.recipe.dtypes[k])]
        realize(*[cotangents[0].node for cotangents in so_far.values()])  # type: ignore[union-attr]
    for k, (cotangent,) in so_far.items():
        yield k, cotangent


def _pull_block(past: Making, g: Seen, wanted: Sequence[int], cut: Cut) -> Pulled:
    """Yield (k, contribution to the cotangent of source k) from the block of queries `cut`, for the sources `wanted` of attention.

    `past` is the tape node, and `g` the cotangent of the whole result.
    """
    op: Attention = past.recipe.op  # type: ignore[assignment]
    rows, steps = (*cut.before, cut.rows), (*cut.before, slice(0, cut.steps))
    q, g = _index_view(value_of(past, 0), rows), _index_view(g, rows)
    k, v = _index_view(value_of(past, 1), steps), _index_view(value_of(past, 2), steps)
    mask = [_index_view(value_of(past, n), (*rows, slice(0, cut.steps))) for n in range(3, len(past.sources))]
    weights = _compute_weights(op, q, k, mask, cut.rows.start)

    def cotangent_of(source: int, x: Seen, term: Term, axis: int) -> tuple[int, Part]:
        return source, adjoint(x.along((axis,), (term.shape[axis],)).layout, term, size_of(past, source))

    row, step = len(q.shape) - 2, len(q.shape) - 1
    if 2 in wanted:
        yield cotangent_of(2, v, _scale_vectors(weights, g), row)
    if 0 in wanted or 1 in wanted:
        by_scores = computed(_MULTIPLY, [_softmax_derivative(weights, _matmul(g, _transpose(v))), Scalar(op.scale, g.dtype)])
        if 0 in wanted:
            yield cotangent_of(0, q, _scale_vectors(by_scores, k, of_steps=True), step)
        if 1 in wanted:
            yield cotangent_of(1, k, _scale_vectors(by_scores, q), row)


def _softmax_derivative(weights: Seen, x: Seen) -> Seen:
    """Return `w (x - sum(w x))` with `w` = `weights` and sums along the keys: the derivative of softmax in the direction `x`."""
    last_axis = len(x.shape) - 1
    sums = reduced(SUM, computed(_MULTIPLY, [weights, x]), last_axis)
    return computed(_MULTIPLY, [weights, computed(_SUBTRACT, [x, sums.along((last_axis,), x.shape[last_axis:])])])


def _scale_vectors(pairs: Seen, vectors: Seen, *, of_steps: bool = False) -> Term:
    """Return each of `pairs` (..., rows, steps) times the vector of the row, or of the step if `of_steps`, as a term (..., rows, steps,
    width). `vectors` has the shape (..., rows, width), or (..., steps, width) if `of_steps`.
    """
    step = len(pairs.shape) - 1
    axis = step - 1 if of_steps else step
    operands = [pairs.along((step + 1,), vectors.shape[-1:]), vectors.along((axis,), (pairs.shape[axis],))]
    return Term(_MULTIPLY, operands, operands[0].shape, pairs.dtype)


def _push(past: Making, source_tangents: Tangents, result: Node | None) -> Seen | None:
    """Return the tangent of the result of attention with tape node `past`, given tangents of sources by index (JVP); None stands for 0."""
    op: Attention = past.recipe.op  # type: ignore[assignment]
    q, k, v = (value_of(past, n) for n in range(3))
    weights = _compute_weights(op, q, k, [value_of(past, n) for n in range(3, len(past.sources))])
    moved = {n: read(past, n, x) for n, x in source_tangents.items()}
    scores, results = list[Seen](), list[Seen]()
    if 0 in moved:
        scores.append(_matmul(moved[0], _transpose(k)))
    if 1 in moved:
        scores.append(_matmul(q, _transpose(moved[1])))
    if scores:
        by_scores = computed(_MULTIPLY, [reduce(added, scores), Scalar(op.scale, q.dtype)])
        results.append(_matmul(_softmax_derivative(weights, by_scores), v))
    if 2 in moved:
        results.append(_matmul(weights, moved[2]))
    return reduce(added, results) if results else None


ATTENTION = Rule(_needs, _pull, _push)
