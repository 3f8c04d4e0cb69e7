"""The derivative of `concat` and `stack` as a single tape node. Each operand gets a region of the cotangent as a view, without a copy for
the remaining operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..layout import Layout
from ..node import Node, Recipe, recipe_of
from ..past import Kept, Needs, Past, past_of
from ..plans.tracing import Traced
from .partials import is_smooth
from .rule import Making, Pulled, Rule, Tangents, back, converted, read
from .seen import Seen, Term, of_number, stored


class Join:
    """The operation of a tape node for joined operands. `layouts` are the layouts through which the operands were written into the result.
    """

    __slots__ = ("kind", "layouts", "name")

    def __init__(self, layouts: tuple[Layout, ...]) -> None:
        self.kind = self.name = "join"
        self.layouts = layouts

    def resized(self, numbers: Traced) -> Join:
        """Return the operation with symbolic sizes in place of numbers."""
        return Join(tuple(map(numbers.layout, self.layouts)))

    def __repr__(self) -> str:
        return self.name


_join = lru_cache(1 << 8)(Join)  # interned, as recipes compare operations by identity


def follow(node: Node, pieces: Sequence[Seen], layouts: tuple[Layout, ...]) -> None:
    """Give `node`, a new node without further references, a tape node for the join of `pieces`, written through `layouts`.

    Item k of `layouts` is the part of `node` into which item k of `pieces` was written. Do nothing if the dtype has no derivative. Do
    nothing either if the node is on the tape already: the node is then itself the only operand with elements.
    """
    if node.past is not None or not is_smooth(node.dtype):
        return
    op = _join(layouts)
    dtypes, forms = tuple([x.dtype for x in pieces]), tuple([x.layout.form for x in pieces])
    sources: list[Kept] = []
    for x in pieces:
        past = past_of(x.node)
        sources.append(None if past is None else x.node if past.reads_result else past)
    recipe = recipe_of(op, node.shape, node.dtype, dtypes, forms)  # type: ignore[arg-type]
    node.past = Past(recipe, tuple(sources), tuple([x.layout.offset for x in pieces]))


def _needs(recipe: Recipe, tracked: tuple[bool, ...]) -> Needs:
    """Return the residuals of a join: none."""
    return Needs((False,) * len(tracked), False)


def _pull(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
    """Yield (k, cotangent of operand k) for the operands `wanted` of a join, given the cotangent `g` of the result (VJP)."""
    op: Join = past.recipe.op  # type: ignore[assignment]
    g = g.reshaped((past.recipe.size,))
    for k in wanted:
        yield k, back(past, k, Term.of(g.through(op.layouts[k])))


def _push(past: Making, source_tangents: Tangents, result: Node | None) -> Seen:
    """Return the tangent of the result of a join, given tangents of operands by index (JVP)."""
    op: Join = past.recipe.op  # type: ignore[assignment]
    joined = of_number(0, (past.recipe.size,), past.recipe.dtype)
    for k, tangent in source_tangents.items():
        joined = stored(joined, op.layouts[k], converted(read(past, k, tangent), past.recipe.dtype))
    return joined


JOINED = Rule(_needs, _pull, _push)
