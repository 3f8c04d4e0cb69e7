"""Functions recorded as a single step of the tape, with a rule of their own: `custom_derivative`, `checkpoint`, `scan`.

The differentiable results of a call share a tape node. Its content is their concatenation in one dtype, and each result is a part of the
content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import prod

from ..dtypes import DType, result_type
from ..errors import DerivativeError
from ..layout import Layout
from ..node import Node, Recipe, recipe_of, tracked, tracking
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from ..past import Kept, Needs, Past, past_of
from ..realize import realize
from .adjoint import Part, Placed, part_at, root, total, totals
from .leaves import leaf, twin
from .partials import is_smooth
from .reverse import cotangents
from .rule import Making, Pulled, Rule, Tangents, converted
from .seen import Seen, Shape, of_number, reduced

_CAST, _ANY = OPS["cast"], REDUCTIONS["any"]
Pull = Callable[[Making, list[Seen], Sequence[int]], Iterable[tuple[int, Part]]]


class Called:
    """The operation of a function recorded as a single step of the tape.

    `pull` takes the tape node, the cotangents of the results, and the indices of the wanted sources, and gives the sources' cotangents. If
    `again` is set, `pull` calls the function again. Then the backward pass first computes the pending cotangents, so that nodes recomputed
    for earlier calls can be freed.
    """

    __slots__ = ("again", "forms", "kind", "name", "pull", "rule")

    def __init__(self, name: str, results: Sequence[tuple[Shape, DType]], pull: Pull, again: bool) -> None:
        self.kind, self.name, self.again, self.pull = "called", name, again, pull
        starts = list(accumulate([prod(shape) for shape, _ in results], initial=0))
        forms = self.forms = [(shape, dtype, start) for (shape, dtype), start in zip(results, starts[:-1], strict=True)]

        def pulled(past: Making, g: Seen, wanted: Sequence[int], result: Node | None) -> Pulled:
            content = g.flat()
            result_cotangents = [converted(part_at(content, start, prod(shape)).reshaped(shape), dtype) for shape, dtype, start in forms]
            yield from pull(past, result_cotangents, wanted)

        def pushed(past: Making, source_tangents: Tangents, result: Node | None) -> Seen | None:
            """Return the tangent of the results by two backward passes, or None for 0: `pull` is linear in the cotangents, and the VJP of
            `pull` is the JVP.
            """
            with tracked():
                inputs = [leaf(of_number(1, shape, dtype).node) for shape, dtype, _ in forms]
                back = totals(pull(past, [Seen(node) for node, _ in inputs], list(source_tangents)), source_tangents)
            _check_recorded(name, back.values())
            leaf_cotangents = cotangents(
                [root(x.node, x.layout, source_tangents[k]) for k, x in back.items()], [leaf_past for _, leaf_past in inputs]
            )
            placed = [
                Placed(leaf_cotangents[leaf_past].cast(past.recipe.dtype), Layout.contiguous(shape, start), True)
                for (_, leaf_past), (shape, _, start) in zip(inputs, forms, strict=True)
                if leaf_past in leaf_cotangents
            ]
            return total(placed, past.recipe.shape, past.recipe.dtype) if placed else None

        self.rule = Rule(lambda recipe, tracked: Needs((False,) * len(tracked), False), pulled, pushed)


def _check_recorded(name: str, cotangents: Iterable[Seen]) -> None:
    """Raise DerivativeError if a cotangent is not 0 and has no tape node, so that the dependence on the results' cotangents is unknown.

    `name` is the name of the function, for the message. Cotangents without a tape node are computed for this, unless traced.
    """
    for x in cotangents:
        if past_of(x.node) is not None:
            continue
        if not x.node.traced:
            is_nonzero = reduced(_ANY, x.moved(lambda layout: layout.reshape((layout.size,))), 0).node
            realize(is_nonzero)
            assert is_nonzero.buffer is not None
            if not is_nonzero.buffer.typed(is_nonzero.dtype)[0]:
                continue
        raise DerivativeError(
            f"{name}: has no forward derivative, as its way back leaves what derivatives see (through NumPy, detach() or no_grad());"
            ' use tx.grad or tx.vjp, and mode="reverse" of tx.jacobian'
        )


def called(name: str, results: Sequence[Node], sources: Sequence[Kept], pull: Pull, *, again: bool = False) -> list[Node]:
    """Return nodes with the contents of `results`, recorded on the tape as one step from `sources`.

    `name` is the name of the function, for messages. `pull` computes the sources' cotangents; `again` says that it calls the function again
    (see `Called`). Return `results` unchanged if nothing is to be recorded or no result has a differentiable dtype.
    """
    is_recording = tracking.get()
    any_traced = any(type(source) is Node and source.traced for source in sources)  # `vmap` may ask for the derivative of the whole batch
    if is_recording is False or not (any_traced or (is_recording and any(past_of(source) is not None for source in sources))):
        return list(results)
    smooth = [node for node in results if is_smooth(node.dtype)]
    if not smooth:
        return list(results)
    dtype = result_type(*[node.dtype for node in smooth])
    traced = any([node.traced for node in results])
    step = step_of(Called(name, [(node.shape, node.dtype) for node in smooth], pull, again), dtype, sources, traced=traced)
    nodes: list[Node] = []
    start = 0
    for node in results:
        if not is_smooth(node.dtype):
            nodes.append(node)
            continue
        recorded = twin(node)
        recorded.past = part_of(step, recorded, start)
        nodes.append(recorded)
        start += node.size
    return nodes


def step_of(op: Called, dtype: DType, sources: Sequence[Kept], *, traced: bool) -> Past:
    """Return the tape node of one call of a function, shared by its results. Its content is their concatenation, converted to `dtype`.

    `op` has the rule and the results' shapes; `sources` are the operands as the tape keeps them. `traced` marks a call while `vmap` traces.
    """
    total = sum([prod(shape) for shape, _, _ in op.forms])
    return Past(Recipe(op, (total,), dtype, (), (), None), tuple(sources), traced=traced)  # type: ignore[arg-type]


def part_of(step: Past, node: Node, start: int) -> Past:
    """Return the tape node of `node`, one result of a call: it begins at element `start` of the content of `step`, the call's tape node."""
    layout = Layout.contiguous(node.shape, start)
    recipe = recipe_of(_CAST, node.shape, node.dtype, (step.recipe.dtype,), (layout.form,))
    return Past(recipe, (step,), (start,), traced=step.traced)
