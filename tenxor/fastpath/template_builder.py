"""Result templates of recorded calls: a view of the argument's storage, or nodes made from the arguments' nodes. Python records a call
once. By the template, the generated code of the fast path makes the result of later calls with tensors of equal specs (shape, strides,
dtype). A node is a pending value: a recipe, such as an addition, on sources. A storage is the memory cell of a tensor and its views. A
layout is transient if its offset tables are too large to cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..autodiff.leaf_storage import LeafStorage
from ..autodiff.tape import TapeNode
from ..graph.node import TRACED_CONSTANT, ExternalOp, Node, Scalar, tape_mode
from ..graph.spec import ChainViewTemplate, OperandTemplate, ResultTemplate, Spec, StepsTemplate, TupleTemplate, ViewTemplate
from ..graph.storage import Storage
from ..tensor import Tensor
from ..tensor.creation_cache import append_recordable

MAX_PARTS = 256


def build_view_template(x: Tensor, result: Tensor) -> ResultTemplate | None:
    """Return the template of `result` if it is the argument `x` itself (`OperandTemplate`) or a view of the storage of `x`.

    A view gets a `ViewTemplate`, or with a view chain a `ChainViewTemplate`. Return None for another storage or dtype, and for a transient
    layout.
    """
    if result is x:
        return OperandTemplate(x.spec)
    if result.storage is not x.storage or result.dtype is not x.dtype or is_transient(result.spec):
        return None
    if x.layout.base is None and result.layout.base is None:
        return ViewTemplate(result.spec, result.offset - x.offset)
    # The start of a view chain is part of the layout, whatever the offset says.
    return ChainViewTemplate(result.spec, -1 if x.layout.base is not None else x.offset, result.offset)


def build_tuple_template(
    x: Tensor, args: Sequence[Any], keywords: dict[str, Any], results: Sequence[Any], first_node_number: int
) -> TupleTemplate | None:
    """Return the template of the tuple `results` of views of `x`, or of tensors computed from `x`; None for a tuple with anything else.

    `x` is the first of `args`, which are followed by the keyword arguments `keywords`. `first_node_number` is the number of the next node
    before the call. An empty tuple, or one of more than `MAX_PARTS` results, gives None, and so does a second tensor among the arguments.
    """
    if not 0 < len(results) <= MAX_PARTS or set(map(type, results)) != {Tensor} or Tensor in map(type, (*args[1:], *keywords.values())):
        return None
    templates = [build_view_template(x, result) or build_steps_template([x], result, first_node_number) for result in results]
    if None in templates:
        return None
    return TupleTemplate(x.spec, tuple(templates), get_result_constructor(results))


def build_steps_template(tensors: Sequence[Tensor], result: Tensor, first_node_number: int) -> StepsTemplate | None:
    """Return the template of nodes made from the nodes of `tensors` and from scalars; None if `result` is made otherwise.

    Each tensor must be read, and the result must begin at offset 0 of its storage. None is also the result for a transient layout, for
    tensors with one node, and for a view as another dtype. `first_node_number` is the number of the next node before the call: nodes of the
    result without node operands must have this number or a larger one.
    """
    if any([type(x.storage) not in (Storage, LeafStorage) for x in (*tensors, result)]) or result.offset or is_transient(result.spec):
        return None
    if any([x.storage.node.dtype is not x.dtype for x in tensors]):
        return None
    inputs = [x.node for x in tensors]
    if len(set(inputs)) < len(inputs) or result.storage.node in inputs:
        return None
    offsets = [x.offset for x in tensors]
    order: list[Node] = []
    if not append_recordable(result.storage.node, inputs, order, first_node_number):
        return None
    if any([type(node.op) is ExternalOp or _has_own_rule(node) for node in order]):
        return None
    order = _sort_by_tape(order, inputs, first_node_number)
    steps = []
    for node in order:
        sources: list[Scalar | int] = []
        step_offsets = list(node.offsets)
        for k, source in enumerate(node.sources):
            if type(source) is not Node:
                sources.append(source)  # type: ignore[arg-type]
            elif source in inputs:
                input_index = inputs.index(source)
                sources.append(input_index)
                step_offsets[k] -= offsets[input_index]
            else:
                sources.append(-1 - order.index(source))
        is_unrecorded = node.tape_node is None or (node.tape_node is TRACED_CONSTANT and tape_mode.get() is True)
        is_constant = is_unrecorded and any([type(s) is Node and s.tape_node is not None for s in node.sources])
        steps.append((node.recipe, tuple(sources), tuple(step_offsets), not is_constant))
    read_inputs = {k for _, sources, *_ in steps for k in sources if type(k) is int}
    return StepsTemplate(result.spec, tuple(steps)) if read_inputs.issuperset(range(len(inputs))) else None


def _has_own_rule(node: Node) -> bool:
    """Return whether `node` comes from a function with a derivative rule of its own, such as a checkpoint.

    The tape node then does not follow from the recipe of `node`, so a replay could not make it.
    """
    return type(node.tape_node) is TapeNode and node.tape_node.recipe is not node.recipe


def _sort_by_tape(order: list[Node], inputs: Sequence[Node], first_node_number: int) -> list[Node]:
    """Return the nodes of `order`, sources first, in the order of the tape: the backward pass adds cotangents in that order.

    `order` lists the nodes between the nodes `inputs` and the result; nodes without node operands have the number
    `first_node_number` or a larger one.
    """
    recorded = [node for node in order if type(node.tape_node) is TapeNode]
    recorded.sort(key=lambda node: node.tape_node.serial)  # type: ignore[union-attr]
    sorted_nodes: list[Node] = []
    for node in (*recorded, order[-1]):
        if node not in sorted_nodes:
            append_recordable(node, inputs, sorted_nodes, first_node_number)
    return sorted_nodes


def get_result_constructor(result: Any) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return a function from a tuple of tensors to an object of the type of `result`, the result of a recorded function.

    The function is `tuple`, or makes a subclass such as a named tuple. Return None if `result` is no tuple, but a single tensor.
    """
    if not isinstance(result, tuple):
        return None
    return tuple if type(result) is tuple else partial(tuple.__new__, type(result))


def is_transient(spec: Spec) -> bool:
    """Return whether `spec` has a transient layout (`is_uncacheable`), whose large offset tables must not be kept by caches."""
    return bool(spec.layout_key.is_uncacheable)
