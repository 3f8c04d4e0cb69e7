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
FEWEST = 64  # queries in a block, at least
MANY = 64  # blocks; from this number on the backward pass computes each block immediately


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
        return _plain(op, operands)
    with untracked():
        found = Seen(_plain(op, operands).flat()).reshaped((*operands[0].shape[:-1], operands[2].shape[-1]))
    recipe = recipe_of(
        op,  # type: ignore[arg-type]
        found.shape,
        found.dtype,
        tuple([x.dtype for x in operands]),
        tuple([x.layout.form for x in operands]),
    )
    found.node.past = Past(recipe, tuple([x.node for x in operands]), tuple([x.layout.offset for x in operands]))
    return found


def _plain(op: Attention, operands: Sequence[Seen]) -> Seen:
    """Return attention computed by ordinary operations."""
    return _product(_weights(op, operands[0], operands[1], operands[3:]), operands[2])


def _weights(op: Attention, q: Seen, k: Seen, mask: Sequence[Seen], first: int = 0) -> Seen:
    """Return the weights of the keys for each query. `first` is the position of the first query among all queries, for the causal mask."""
    *batch, length = q.shape[:-1]
    count = k.shape[-2]
    shape = (*batch, length, count)
    scores = computed(_MULTIPLY, [_product(q, _turned(k)), Scalar(op.scale, q.dtype)])
    nothing = Scalar(-inf, q.dtype)
    for its in mask:
        scores = added(scores, its) if its.dtype.is_float else computed(_WHERE, [its, scores, nothing])
    if op.is_causal:
        steps, rows = (Seen(Node.of(POSITION, (n,), int64)) for n in (count, first + length))
        earlier = computed(_LESS_EQUAL, [steps.along((0,), (length,)), _cut(rows, (slice(first, None),)).along((1,), (count,))])
        scores = computed(_WHERE_SEEN, [earlier.along(range(len(batch)), batch), scores, nothing])

    def to_all(x: Seen) -> Seen:
        return x.along((len(shape) - 1,), (count,))

    with untracked():  # the subtracted maximum does not affect the result
        highest = reduced(_MAX, scores, len(shape) - 1)
        if mask:  # 0 where the mask excludes every key, so that the row is -inf
            highest = computed(_WHERE, [computed(_EQUAL, [highest, nothing]), Scalar(0.0, q.dtype), highest])
    powers = computed(_EXP, [computed(_SUBTRACT, [scores, to_all(highest)])])
    sums = reduced(SUM, powers, len(shape) - 1)
    share = computed(_DIVIDE, [Scalar(1.0, q.dtype), sums])
    if mask:
        share = computed(_WHERE, [computed(_EQUAL, [sums, Scalar(0.0, q.dtype)]), Scalar(0.0, q.dtype), share])
    return computed(_MULTIPLY, [powers, to_all(share)])


# --- moves and products -----------------------------------------------------------------------------------------------


def _turned(x: Seen) -> Seen:
    """Return a view with the last two axes exchanged."""
    last = len(x.shape) - 1
    return x.moved(lambda own: own.permute((*range(last - 1), last, last - 1)))


def _cut(x: Seen, key: tuple[slice, ...]) -> Seen:
    return x.moved(lambda own: own.index(key))


def _pairs(x: Seen, y: Seen) -> Term:
    """Return the products of rows (..., n, k) with columns (..., k, m), without the sum over k: (..., n, m, k)."""
    n, m, axis = x.shape[-2], y.shape[-1], len(x.shape) - 2
    operands = [x.along((axis + 1,), (m,)), _turned(y).along((axis,), (n,))]
    return Term(_MULTIPLY, operands, operands[0].shape, x.dtype)


def _product(x: Seen, y: Seen) -> Seen:
    return _pairs(x, y).summed(len(x.shape))


# --- the rule ---------------------------------------------------------------------------------------------------------


@lru_cache(1 << 8)
def _blocks_of(recipe: Recipe) -> tuple[Cut, ...]:
    """Return the blocks of queries, sorted by the number of visible keys, largest first. So the first block stores a cotangent for every
    key, and later blocks add to it.
    """
    (*before, length, _), (*_, steps, _) = _shapes(recipe)[:2]
    op: Attention = recipe.op  # type: ignore[assignment]
    found = list(cuts(before, length, steps, recipe.dtype.itemsize, 0 if op.is_causal else None, BLOCK_BYTES, FEWEST))
    return tuple(sorted(found, key=lambda cut: -cut.steps))


def _shapes(recipe: Recipe) -> list[Shape]:
    return [form.layout.shape for form in recipe.forms if form is not None]


def has_many_blocks(recipe: Recipe) -> bool:
    """Return whether the backward pass computes block by block instead of staying lazy."""
    return len(_blocks_of(recipe)) >= MANY


def _needs(recipe: Recipe, tracked: tuple[bool, ...]) -> Needs:
    return Needs((True,) * len(tracked), False)


def _pull(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield the cotangents of queries, keys and values, block by block. With many blocks each block is computed immediately, unless `g` is
    traced.
    """
    if not has_many_blocks(past.recipe) or g.node.traced:
        for cut in _blocks_of(past.recipe):
            yield from _pulled_in(past, g, wanted, cut)
        return
    so_far: dict[int, list[Part]] = {k: [] for k in wanted}
    for cut in _blocks_of(past.recipe):
        for k, part in _pulled_in(past, g, wanted, cut):
            so_far[k].append(part)
        for k, parts in so_far.items():
            parts[:] = [total(parts, (size_of(past, k),), past.recipe.dtypes[k])]
        realize(*[parts[0].node for parts in so_far.values()])  # type: ignore[union-attr]
    for k, (part,) in so_far.items():
        yield k, part


def _pulled_in(past: Making, g: Seen, wanted: Sequence[int], cut: Cut) -> Pulled:
    """Yield the contributions of a block of queries to the cotangents."""
    op: Attention = past.recipe.op  # type: ignore[assignment]
    rows, steps = (*cut.before, cut.rows), (*cut.before, slice(0, cut.steps))
    q, g = _cut(value_of(past, 0), rows), _cut(g, rows)
    k, v = _cut(value_of(past, 1), steps), _cut(value_of(past, 2), steps)
    mask = [_cut(value_of(past, n), (*rows, slice(0, cut.steps))) for n in range(3, len(past.sources))]
    weights = _weights(op, q, k, mask, cut.rows.start)

    def given_back(source: int, x: Seen, term: Term, axis: int) -> tuple[int, Part]:
        return source, adjoint(x.along((axis,), (term.shape[axis],)).layout, term, size_of(past, source))

    row, step = len(q.shape) - 2, len(q.shape) - 1
    if 2 in wanted:
        yield given_back(2, v, _each(weights, g), row)
    if 0 in wanted or 1 in wanted:
        by_scores = computed(_MULTIPLY, [_centred(weights, _product(g, _turned(v))), Scalar(op.scale, g.dtype)])
        if 0 in wanted:
            yield given_back(0, q, _each(by_scores, k, of_steps=True), step)
        if 1 in wanted:
            yield given_back(1, k, _each(by_scores, q), row)


def _centred(weights: Seen, x: Seen) -> Seen:
    """Return `w (x - sum(w x))` along the keys: the derivative of softmax."""
    last = len(x.shape) - 1
    sums = reduced(SUM, computed(_MULTIPLY, [weights, x]), last)
    return computed(_MULTIPLY, [weights, computed(_SUBTRACT, [x, sums.along((last,), x.shape[last:])])])


def _each(pairs: Seen, vectors: Seen, *, of_steps: bool = False) -> Term:
    """Return each weight (..., rows, steps) times the vector (..., width) of the row, or of the step if `of_steps`, as a term (..., rows,
    steps, width).
    """
    step = len(pairs.shape) - 1
    axis = step - 1 if of_steps else step
    operands = [pairs.along((step + 1,), vectors.shape[-1:]), vectors.along((axis,), (pairs.shape[axis],))]
    return Term(_MULTIPLY, operands, operands[0].shape, pairs.dtype)


def _push(past: Making, given: Tangents, result: Node | None) -> Seen | None:
    op: Attention = past.recipe.op  # type: ignore[assignment]
    q, k, v = (value_of(past, n) for n in range(3))
    weights = _weights(op, q, k, [value_of(past, n) for n in range(3, len(past.sources))])
    moved = {n: read(past, n, x) for n, x in given.items()}
    scores, found = list[Seen](), list[Seen]()
    if 0 in moved:
        scores.append(_product(moved[0], _turned(k)))
    if 1 in moved:
        scores.append(_product(q, _turned(moved[1])))
    if scores:
        by_scores = computed(_MULTIPLY, [reduce(added, scores), Scalar(op.scale, q.dtype)])
        found.append(_product(_centred(weights, by_scores), v))
    if 2 in moved:
        found.append(_product(weights, moved[2]))
    return reduce(added, found) if found else None


ATTENTION = Rule(_needs, _pull, _push)
