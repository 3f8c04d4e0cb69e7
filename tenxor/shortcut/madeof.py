"""Result templates of recorded calls: a view of the argument's storage, or nodes made from the arguments' nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..node import Node, Scalar
from ..past import Past
from ..spec import Made, itself
from ..storage import Storage, Watched
from ..tensor import Tensor
from ..tensor.making import listed
from .hosting import kind_of, passes

MOST_PARTS = 256


def view_of(x: Tensor, found: Tensor) -> Made | None:
    """Return the template of the result `found`, if it is the argument `x` itself or a view of its storage.

    Return None for a different result, and for a transient layout.
    """
    if found is x:
        return Made(x.spec, kind=itself)
    if found.storage is not x.storage or found.dtype is not x.dtype or passes(found.spec):
        return None
    if x.layout.base is None and found.layout.base is None:
        return Made(found.spec, shift=found.offset - x.offset)
    # The start of a view chain is part of the layout, whatever the offset says.
    return Made(found.spec, shift=None, low=-1 if x.layout.base is not None else x.offset, high=found.offset)


def several(x: Tensor, args: Sequence[Any], named: dict[str, Any], found: Sequence[Any], began: int) -> Made | None:
    """Return the template of a tuple of views of `x`, or of results computed from `x`; None for a tuple with anything else.

    `x` must be the only tensor among the arguments: the first of `args`, followed by the keyword arguments `named`. `began` is the number
    of the next node before the call.
    """
    if not 0 < len(found) <= MOST_PARTS or set(map(type, found)) != {Tensor} or Tensor in map(type, (*args[1:], *named.values())):
        return None
    parts = [view_of(x, part) or steps_of([x], part, began) for part in found]
    return None if None in parts else Made(x.spec, parts=tuple(parts), kind=kind_of(found))  # type: ignore[arg-type]


def steps_of(tensors: Sequence[Tensor], found: Tensor, began: int) -> Made | None:
    """Return the template of nodes made from the nodes of `tensors` and from scalars; None if `found` is made otherwise.

    Each tensor must be read, and the result must begin at offset 0 of its storage. `began` is the number of the next node before the call:
    nodes of the result without node operands must have this number or a larger one.
    """
    if any([type(x.storage) not in (Storage, Watched) for x in (*tensors, found)]) or found.offset or passes(found.spec):
        return None
    if any([x.storage.node.dtype is not x.dtype for x in tensors]):
        return None
    inputs = [x.node for x in tensors]
    if len(set(inputs)) < len(inputs) or found.storage.node in inputs:
        return None
    offsets = [x.offset for x in tensors]
    order: list[Node] = []
    if not listed(found.storage.node, inputs, order, began):
        return None
    order = _as_recorded(order, inputs, began)
    steps = []
    for node in order:
        sources: list[Scalar | int] = []
        starts = list(node.offsets)
        for k, source in enumerate(node.sources):
            if type(source) is not Node:
                sources.append(source)  # type: ignore[arg-type]
            elif source in inputs:
                own = inputs.index(source)
                sources.append(own)
                starts[k] -= offsets[own]
            else:
                sources.append(-1 - order.index(source))
        is_constant = node.past is None and any([type(s) is Node and s.past is not None for s in node.sources])
        steps.append((node.recipe, tuple(sources), tuple(starts), not is_constant))
    read = {k for _, sources, *_ in steps for k in sources if type(k) is int}
    return Made(found.spec, steps=tuple(steps)) if read.issuperset(range(len(inputs))) else None


def _as_recorded(order: list[Node], inputs: Sequence[Node], began: int) -> list[Node]:
    """Return the nodes of `order`, sources first, in the order of the tape: the backward pass adds cotangents in that order.

    `order` lists the nodes between the nodes `inputs` and the result; nodes without node operands have the number `began` or a larger one.
    """
    recorded = [node for node in order if type(node.past) is Past]
    recorded.sort(key=lambda node: node.past.number)  # type: ignore[union-attr]
    found: list[Node] = []
    for node in (*recorded, order[-1]):
        if node not in found:
            listed(node, inputs, found, began)
    return found
