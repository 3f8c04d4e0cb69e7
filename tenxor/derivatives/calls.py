"""Whole functions as one step of what derivatives know: their results have one past, with a rule of its own.

The results lie one after another in one content, in one dtype, of which each is a part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from ..dtypes import result_type
from ..layout import Layout
from ..node import Node, Recipe, tracked, tracking
from ..ops import OPS
from .adjoint import Part, Placed, adjoint, total
from .partials import is_smooth
from .past import Kept, Past, leaf, past_of, twin
from .reverse import cotangents
from .rule import Making, Needs, Pulled, Rule, Tangents, converted
from .seen import Seen, Term, of_number

_CAST = OPS["cast"]
Pull = Callable[[list[Seen], Sequence[int]], Sequence[tuple[int, Part]]]


class Called:
    """The operation of a function that is one step. `pull` takes the cotangents of its results, and which of its sources' are wanted. If it
    makes `again` what the function made, all that waits is computed before: so what others made again can go.
    """

    __slots__ = ("again", "kind", "name", "rule")

    def __init__(self, name: str, results: Sequence[Node], pull: Pull, again: bool) -> None:
        self.kind, self.name, self.again = "called", name, again
        starts = list(accumulate([node.size for node in results], initial=0))
        forms = [(node.shape, node.dtype, start) for node, start in zip(results, starts[:-1], strict=True)]

        def pulled(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
            each = [converted(g.through(Layout.contiguous(shape, start)), dtype) for shape, dtype, start in forms]
            yield from pull(each, wanted)

        def pushed(past: Making, given: Tangents, result: Node | None) -> Seen | None:
            """The way back is linear in the cotangents, and its own way back is the way forward."""
            with tracked():
                inputs = [leaf(of_number(0, shape, dtype).node) for shape, dtype, _ in forms]
                parts: dict[int, list[Part]] = {}
                for k, part in pull([Seen(node) for node, _ in inputs], list(given)):
                    parts.setdefault(k, []).append(part)
                back = {k: total(its, given[k].shape, given[k].dtype) for k, its in parts.items()}
            roots = [
                (x.node, total([adjoint(x.layout, Term.of(given[k]), x.node.size)], x.node.shape, x.dtype)) for k, x in back.items()
            ]
            found = cotangents(roots, [own for _, own in inputs])
            placed = [
                Placed(found[own].cast(past.recipe.dtype), Layout.contiguous(shape, start), True)
                for (_, own), (shape, _, start) in zip(inputs, forms, strict=True)
                if own in found
            ]
            return total(placed, past.recipe.shape, past.recipe.dtype) if placed else None

        self.rule = Rule(lambda recipe, tracked: Needs((False,) * len(tracked), False), pulled, pushed)


def called(name: str, results: Sequence[Node], sources: Sequence[Kept], pull: Pull, *, again: bool = False) -> list[Node]:
    """Nodes with the content of the results of a function, made of sources with a past in one step: see `Called`."""
    if not tracking.get() or not any(past_of(kept) is not None for kept in sources):
        return list(results)
    smooth = [node for node in results if is_smooth(node.dtype)]
    dtype = result_type(*[node.dtype for node in smooth])
    total = sum([node.size for node in smooth])
    traced = any([node.traced for node in results])
    step = Past(Recipe(Called(name, smooth, pull, again), (total,), dtype, (), (), None), tuple(sources), traced=traced)  # type: ignore[arg-type]
    found: list[Node] = []
    start = 0
    for node in results:
        if not is_smooth(node.dtype):
            found.append(node)
            continue
        part = Layout.contiguous(node.shape, start)
        own = twin(node)
        own.past = Past(Recipe(_CAST, node.shape, node.dtype, (dtype,), (part.form,), None), (step,), (start,), traced=traced)
        found.append(own)
        start += node.size
    return found
