"""What a mask selects, until it is needed; and what is computed of it and written where the same mask says so.

What is selected of a large tensor waits: it is `UNFINISHED`, and a `Selected` says of what. Mostly it is computed with and written back,
as by `x[mask] = f(x[mask], y[mask])`. Then nothing is selected at all: where the mask says so, f is computed in place, of the tensors
themselves (`written_where`). That takes one pass, which passes over what has nothing selected in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import IndexOutOfRange
from ..layout import Form, Layout
from ..node import UNFINISHED, UPDATE, Node, Scalar, recipe_of
from ..ops import OPS, Op
from ..ownership import held
from ..pending import remember
from ..realize import lock, realize
from ..tensor import Tensor
from .frames import NEVER
from .selected import Selected

LEAST = 1 << 17  # bytes of a tensor of which what is selected waits
MOST_NODES = 64  # operations that are written where a mask says so in one go
COSTLY = 16  # additions that an element is worth, from which on it counts how many are selected
FEW, FEW_IF_COSTLY = 16, 3  # of so many elements one is selected at least, if those that are not are passed over
_WHERE = OPS["where"]
_contiguous = Layout.contiguous
computing_over: list[Callable[[Node, int], bool]] = []  # machine code that does an update in place, which reads that so many times; whether it did


def written_where(x: Tensor, mask: Tensor, value: Tensor) -> bool:
    """Whether a value, which waits for what a mask selects, was computed where the mask says so, and written there: if that is right, and
    worth while. From then on the value is what the mask selects of what was written.
    """
    with lock:  # who else can read what is overwritten is counted, so no local variable holds a node
        how = _how(x, mask, value)
        if how is None:
            return False
        written, reads = _update(x, mask, value, how)
        if written is None:
            return False
        value.storage.node = _selected(how, written, mask.storage.node, value.storage.node)
        x._put(written)
        del written
        try:
            if not any([compute(x.storage.node, reads) for compute in computing_over]):
                realize(x.storage.node)
        except (MemoryError, IndexOutOfRange):
            x._restore(x.storage.node.sources[0])  # type: ignore[arg-type]
            raise
    return True


def _how(x: Tensor, mask: Tensor, value: Tensor) -> Selected | None:
    """How a mask selects of a tensor what may be this value, if each is of one dtype, and nobody else may write what is read."""
    made = x.spec.called.get("picked", {}).get(mask.spec)
    old, waits, axes = x.storage.node, value.storage.node, len(mask.shape)
    if made is None or made.frame == NEVER or old.buffer is None or old.buffer.pins or old.buffer.frozen or waits.buffer is not None:
        return None
    if old.past is not None or waits.past is not None or not old.dtype is x.dtype is waits.dtype is value.dtype:
        return None
    if not x.layout.is_injective() or value.layout != _contiguous(waits.shape) or waits.shape[1:] != x.shape[axes:]:
        return None
    return Selected(x.spec, x.offset, mask.spec, mask.offset, made.frame)


def _selected(how: Selected, x: Node, mask: Node, like: Node) -> Node:
    """What a mask selects of a node: as many elements as there are of another."""
    found = Node(recipe_of(UNFINISHED, like.shape, like.dtype), (how, x, mask))  # type: ignore[arg-type]
    remember(found)
    return found


def _update(x: Tensor, mask: Tensor, value: Tensor, how: Selected) -> tuple[Node | None, int]:
    """A write of what a value is, where a mask says so, over all of a tensor, and how often what is written over is read for it; None if that
    is not known to be right, or worth while.
    """
    order = _order(value.storage.node, mask.storage.node, how)
    if order is None or not _is_worth_it(order, how) or _are_others(order):
        return None, 0
    (node, layout), nodes = _spread(order, how)
    chosen = mask.layout.reshape((*mask.shape, *[1] * (len(x.shape) - len(mask.shape)))).expand(x.shape)
    result = Node.of(_WHERE, x.shape, x.dtype, (mask.storage.node, node, x.storage.node), (chosen, layout, x.layout))
    found = x._stored(x._of(result), _contiguous(x.shape), False, spent=True)
    reads = sum([each.sources.count(x.storage.node) for each in (found, result, *nodes)])
    return (found if found.op is UPDATE else None), reads


def _order(root: Node, mask: Node, how: Selected) -> list[Node] | None:
    """The nodes that wait for what a mask selects, each after what it reads; None where anything but operations on that, element by
    element, takes part.
    """
    order: dict[Node, None] = {}
    stack, plain = [root], _contiguous(root.shape).form
    while stack:
        node = stack[-1]
        op, recipe, more = node.op, node.recipe, list[Node]()
        if op is UNFINISHED:
            begun: Any = node.sources[0]
            if type(begun) is not Selected or node.sources[2] is not mask or not begun.is_by_the_mask_of(how):
                return None
        elif type(op) is not Op or len(order) >= MOST_NODES:
            return None
        else:
            for source, form, offset in zip(node.sources, recipe.forms, node.offsets, strict=True):
                if type(source) is Node and not _is_one_for_all(form):
                    if form is not plain or offset or source.shape != root.shape or source.buffer is not None:
                        return None
                    if source not in order:
                        more.append(source)
        if more:
            stack += more
        else:
            order[stack.pop()] = None
    return list(order)


def _is_one_for_all(form: Form | None) -> bool:
    """Whether what is read through a layout of this form is the same for all that a mask selects."""
    layout = None if form is None else form.layout
    return layout is not None and layout.base is None and layout.tables is None and layout.strides[0] == 0


def _is_worth_it(order: Sequence[Node], how: Selected) -> bool:
    """Whether it is: not where little is selected, and most of what is computed would be let go of."""
    cost = sum([node.op.cost for node in order if type(node.op) is Op])
    return order[-1].size * (FEW_IF_COSTLY if cost >= COSTLY else FEW) >= how.spec.size


def _are_others(order: Sequence[Node]) -> bool:
    """Whether anybody but these and the storage that holds the last of them reads any."""
    number_of = {id(node): k for k, node in enumerate(order)}
    reads = Counter([number_of.get(id(source)) for node in order for source in node.sources])
    reads[len(order) - 1] += 1
    return bool(held(order, range(len(order)), [reads[k] for k in range(len(order))]))


def _spread(order: Sequence[Node], how: Selected) -> tuple[tuple[Node, Layout], list[Node]]:
    """What the last of these nodes is computed of all elements, selected or not, and where that lies; and all nodes that are made for it."""
    shape = how.spec.shape
    plain, none = _contiguous(shape), (0,) * len(how.mask_spec.shape)
    spread: dict[Node, tuple[Node, Layout]] = {}
    made: list[Node] = []
    for node in order:
        if node.op is UNFINISHED:
            begun: Any = node.sources[0]
            spread[node] = node.sources[1], begun.spec.layout.at(begun.offset)  # type: ignore[assignment]
            continue
        reads: list[tuple[Node | Scalar, Layout | None]] = []
        for source, layout in zip(node.sources, node.layouts, strict=True):
            if type(source) is not Node or layout is None:
                reads.append((source, None))
            elif layout.strides[0] == 0 and layout.shape[0] != 1:
                reads.append((source, Layout(shape, (*none, *layout.strides[1:]), layout.offset)))
            else:
                reads.append(spread[source])
        made.append(Node.of(node.op, shape, node.dtype, tuple([s for s, _ in reads]), tuple([x for _, x in reads])))
        spread[node] = made[-1], plain
    return spread[order[-1]], made
