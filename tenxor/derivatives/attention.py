"""Attention, and its derivative: in blocks of queries, so that the weights of all pairs of queries and keys are never in memory together.

With weights `w` = softmax(scores) and the cotangent `g` of the result, the scores have `w (g v' - sum(w (g v')))`, so all that is
kept are queries, keys and values; the weights are made again, block by block.

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
BLOCK_BYTES = 1 << 19  # of the weights in a block, about: they are read again and again, and should stay in a cache
FEWEST = 64  # queries of a block
MANY = 64  # blocks, from which they are computed one after the other as the derivative is asked for


class Attention:
    """What a past says of how attention was made of queries, keys, values, and a mask if there is one."""

    __slots__ = ("is_causal", "kind", "name", "scale")

    def __init__(self, scale: float, is_causal: bool) -> None:
        self.kind, self.name, self.scale, self.is_causal = "attention", "scaled_dot_product_attention", scale, is_causal

    def __repr__(self) -> str:
        return self.name


attention = lru_cache(1 << 8)(Attention)  # the same object again, as recipes are compared by it


def attended(op: Attention, operands: Sequence[Seen]) -> Seen:
    """The values (..., S, V), weighted for each of the queries (..., L, E) by its products with the keys (..., S, E), and by a mask
    (..., L, S) if there is one. Derivatives take it in one step, unless they are asked for by the mask, or for a batch.
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
    return _product(_weights(op, operands[0], operands[1], operands[3:]), operands[2])


def _weights(op: Attention, q: Seen, k: Seen, mask: Sequence[Seen], first: int = 0) -> Seen:
    """The weights of keys for queries, of which the first is so far from the first of all."""
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

    with untracked():  # what is subtracted makes no difference
        highest = reduced(_MAX, scores, len(shape) - 1)
        if mask:  # 0 where nothing takes part: all is -inf
            highest = computed(_WHERE, [computed(_EQUAL, [highest, nothing]), Scalar(0.0, q.dtype), highest])
    powers = computed(_EXP, [computed(_SUBTRACT, [scores, to_all(highest)])])
    sums = reduced(SUM, powers, len(shape) - 1)
    share = computed(_DIVIDE, [Scalar(1.0, q.dtype), sums])
    if mask:
        share = computed(_WHERE, [computed(_EQUAL, [sums, Scalar(0.0, q.dtype)]), Scalar(0.0, q.dtype), share])
    return computed(_MULTIPLY, [powers, to_all(share)])


# --- moves and products -----------------------------------------------------------------------------------------------


def _turned(x: Seen) -> Seen:
    """Its last two axes the other way round."""
    last = len(x.shape) - 1
    return x.moved(lambda own: own.permute((*range(last - 1), last, last - 1)))


def _cut(x: Seen, key: tuple[slice, ...]) -> Seen:
    return x.moved(lambda own: own.index(key))


def _pairs(x: Seen, y: Seen) -> Term:
    """The products of rows (..., n, k) with columns (..., k, m), each by each: (..., n, m, k)."""
    n, m, axis = x.shape[-2], y.shape[-1], len(x.shape) - 2
    operands = [x.along((axis + 1,), (m,)), _turned(y).along((axis,), (n,))]
    return Term(_MULTIPLY, operands, operands[0].shape, x.dtype)


def _product(x: Seen, y: Seen) -> Seen:
    return _pairs(x, y).summed(len(x.shape))


# --- the rule ---------------------------------------------------------------------------------------------------------


@lru_cache(1 << 8)
def _blocks_of(recipe: Recipe) -> tuple[Cut, ...]:
    """The blocks, those that see most first: so all keys have something before the others add to it."""
    (*before, length, _), (*_, steps, _) = _shapes(recipe)[:2]
    op: Attention = recipe.op  # type: ignore[assignment]
    found = list(cuts(before, length, steps, recipe.dtype.itemsize, 0 if op.is_causal else None, BLOCK_BYTES, FEWEST))
    return tuple(sorted(found, key=lambda cut: -cut.steps))


def _shapes(recipe: Recipe) -> list[Shape]:
    return [form.layout.shape for form in recipe.forms if form is not None]


def has_many_blocks(recipe: Recipe) -> bool:
    """Whether a derivative is computed block by block when it is asked for."""
    return len(_blocks_of(recipe)) >= MANY


def _needs(recipe: Recipe, tracked: tuple[bool, ...]) -> Needs:
    return Needs((True,) * len(tracked), False)


def _pull(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
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
    """What one block of queries gives."""
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
    """`w (x - sum(w x))`, the derivative of softmax, along the steps."""
    last = len(x.shape) - 1
    sums = reduced(SUM, computed(_MULTIPLY, [weights, x]), last)
    return computed(_MULTIPLY, [weights, computed(_SUBTRACT, [x, sums.along((last,), x.shape[last:])])])


def _each(pairs: Seen, vectors: Seen, *, of_steps: bool = False) -> Term:
    """Each pair of a row and a step times the vector of its row, or of its step: (..., rows, steps, width)."""
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
