"""Functions recorded as a single step of the tape, with a rule of their own: `custom_derivative`, `checkpoint`, `scan`. The differentiable
results of a call share a tape node. The content of this tape node is their concatenation in one dtype, and each result is a part of the
content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import prod

from ..dtypes import DType, result_type
from ..errors import DerivativeError
from ..graph.node import Node, Recipe, Residuals, intern_recipe, tape_mode, use_tape_mode
from ..layout import Layout
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from ..runtime.realize import realize
from .formula_derivatives import is_smooth
from .grad_rule import CotangentIterator, GradRule, SourceTangents, TapeNodeLike, convert_cotangent
from .layout_adjoint import Cotangent, PartialCotangent, make_root, slice_cotangent, sum_by_source, sum_cotangents
from .node_view import NodeView, Shape, apply_reduction, full_view
from .reverse import compute_cotangents
from .tape import TapeNode, TapeSource, copy_detached, get_tape_node
from .tape_leaves import make_leaf

_CAST, _ANY = OPS["cast"], REDUCTIONS["any"]
FunctionVJP = Callable[[TapeNodeLike, list[NodeView], Sequence[int]], Iterable[tuple[int, Cotangent]]]


class FunctionOp:
    """The operation of a function recorded as a single step of the tape.

    `name` is for messages, and `results` lists shape and dtype of each differentiable result. `result_ranges` lists for each result the
    shape, the dtype and the first element in the content of the tape node.

    `vjp` takes the tape node, the cotangents of the results, and the indices of the wanted sources, and returns pairs (k, cotangent of
    source k). If `recomputes` is set, `vjp` calls the function again. Then the backward pass first computes the pending cotangents, so that
    nodes recomputed for earlier calls can be freed.
    """

    __slots__ = ("recomputes", "result_ranges", "kind", "name", "vjp", "rule")

    def __init__(self, name: str, results: Sequence[tuple[Shape, DType]], vjp: FunctionVJP, recomputes: bool) -> None:
        self.kind, self.name, self.recomputes, self.vjp = "called", name, recomputes, vjp
        starts = list(accumulate([prod(shape) for shape, _ in results], initial=0))
        result_ranges = self.result_ranges = [(shape, dtype, start) for (shape, dtype), start in zip(results, starts[:-1], strict=True)]

        def pulled(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
            content = g.to_node()
            result_cotangents = [
                convert_cotangent(slice_cotangent(content, start, prod(shape)).reshape(shape), dtype)
                for shape, dtype, start in result_ranges
            ]
            yield from vjp(tape_node, result_cotangents, wanted)

        def pushed(tape_node: TapeNodeLike, source_tangents: SourceTangents, result: Node | None) -> NodeView | None:
            """Return the tangent of the results, in the shape of the content of `tape_node`, by two backward passes, or None for 0
            (`GradRule.jvp`).

            `source_tangents` maps source indices to tangents; `result` is not read. `vjp` is linear in the cotangents, and the VJP of `vjp`
            is the JVP. Raise DerivativeError if `vjp` leaves the tape (`_check_recorded`).
            """
            with use_tape_mode():
                inputs = [make_leaf(full_view(1, shape, dtype).node) for shape, dtype, _ in result_ranges]
                back = sum_by_source(vjp(tape_node, [NodeView(node) for node, _ in inputs], list(source_tangents)), source_tangents)
            _check_recorded(name, back.values())
            leaf_cotangents = compute_cotangents(
                [make_root(x.node, x.layout, source_tangents[k]) for k, x in back.items()], [leaf_tape_node for _, leaf_tape_node in inputs]
            )
            placed = [
                PartialCotangent(leaf_cotangents[leaf_tape_node].cast(tape_node.recipe.dtype), Layout.contiguous(shape, start), True)
                for (_, leaf_tape_node), (shape, _, start) in zip(inputs, result_ranges, strict=True)
                if leaf_tape_node in leaf_cotangents
            ]
            return sum_cotangents(placed, tape_node.recipe.shape, tape_node.recipe.dtype) if placed else None

        self.rule = GradRule(lambda recipe, tracked: Residuals((False,) * len(tracked), False), pulled, pushed, lambda recipe: False)


def _check_recorded(name: str, cotangents: Iterable[NodeView]) -> None:
    """Raise DerivativeError if one of `cotangents` is not 0 and has no tape node: then the dependence on the results' cotangents is
    unknown.

    `name` is the name of the function, for the message. Cotangents without a tape node are computed for this, unless traced by `vmap`; a
    traced cotangent counts as not 0.
    """
    for x in cotangents:
        if get_tape_node(x.node) is not None:
            continue
        if not x.node.is_traced:
            is_nonzero = apply_reduction(_ANY, x.map_layout(lambda layout: layout.reshape((layout.size,))), 0).node
            realize(is_nonzero)
            assert is_nonzero.buffer is not None
            if not is_nonzero.buffer.typed_view(is_nonzero.dtype)[0]:
                continue
        raise DerivativeError(
            f"{name}: has no forward derivative, as its backward function leaves the tape (through NumPy, detach() or no_grad());"
            ' use tx.grad or tx.vjp, and mode="reverse" of tx.jacobian'
        )


def record_function(
    name: str, results: Sequence[Node], sources: Sequence[TapeSource], vjp: FunctionVJP, *, recomputes: bool = False
) -> list[Node]:
    """Return nodes with the contents of `results`, in the same order, recorded on the tape as one step from `sources`.

    `name` is the name of the function, for messages. `vjp` computes the sources' cotangents; `recomputes` says whether `vjp` calls the
    function again (see `FunctionOp`). A recorded result is a new node, in the same memory if computed. Results without a differentiable
    dtype are returned as they are, and so is every result if `tape_mode` is False. Results are recorded only if a source is traced by
    `vmap` or `scan`, or a source is on the tape while a tape is recorded.
    """
    is_recording = tape_mode.get()
    # `vmap` may ask for the derivative of the whole batch
    any_traced = any(type(source) is Node and source.is_traced for source in sources)
    if is_recording is False or not (any_traced or (is_recording and any(get_tape_node(source) is not None for source in sources))):
        return list(results)
    smooth = [node for node in results if is_smooth(node.dtype)]
    if not smooth:
        return list(results)
    dtype = result_type(*[node.dtype for node in smooth])
    traced = any([node.is_traced for node in results])
    step = make_function_node(
        FunctionOp(name, [(node.shape, node.dtype) for node in smooth], vjp, recomputes), dtype, sources, traced=traced
    )
    nodes: list[Node] = []
    start = 0
    for node in results:
        if not is_smooth(node.dtype):
            nodes.append(node)
            continue
        recorded = copy_detached(node)
        recorded.tape_node = make_result_node(step, recorded, start)
        nodes.append(recorded)
        start += node.size
    return nodes


def make_function_node(op: FunctionOp, dtype: DType, sources: Sequence[TapeSource], *, traced: bool) -> TapeNode:
    """Return the tape node of one call of a function, shared by its results. Its content is their concatenation, converted to `dtype`.

    `op` has the rule and the results' shapes; `sources` are the operands as the tape keeps them (`TapeNode.sources`). `traced` tells
    whether the call reads an argument of a function traced by `vmap` or `scan`.
    """
    total = sum([prod(shape) for shape, _, _ in op.result_ranges])
    return TapeNode(Recipe(op, (total,), dtype, (), (), None), tuple(sources), is_traced=traced)  # type: ignore[arg-type]


def make_result_node(function_node: TapeNode, node: Node, start: int) -> TapeNode:
    """Return the tape node of `node`, one result of a call. The result begins at element `start` of the content of `function_node`, the
    call's tape node. The caller sets `node.tape_node`.
    """
    layout = Layout.contiguous(node.shape, start)
    recipe = intern_recipe(_CAST, node.shape, node.dtype, (function_node.recipe.dtype,), (layout.layout_key,))
    return TapeNode(recipe, (function_node,), (start,), is_traced=function_node.is_traced)
