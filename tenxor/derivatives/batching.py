"""The same for each of a batch: what was made of a few nodes, made again of batches of them, with one more axis in front of every
layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..layout import Layout
from ..node import PLACEHOLDER, REINTERPRET, Hosted, Node, Scalar, writes
from ..ops import OPS
from .seen import Seen

_POSITIVE = OPS["positive"]


def batched(roots: Sequence[Node], batches: Mapping[Node, Node], size: int) -> list[Node | None]:
    """For some nodes those that compute a batch of each, given those for placeholders; None for what does not depend on these."""
    known: dict[Node, Node] = dict(batches)
    computed: dict[tuple[object, ...], Sequence[Node]] = {}  # all results of what is not computed by kernels
    for node in _order(roots):
        if node not in known:
            known[node] = _batch(node, known, size) if not isinstance(node.op, Hosted) else _hosted(node, node.op, known, size, computed)
    return [known.get(node) for node in roots]


def _order(roots: Sequence[Node]) -> list[Node]:
    """All pending nodes that lead to some and read a placeholder, each after what it reads."""
    found: dict[Node, None] = {}
    stack = [(node, False) for node in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            found[node] = None
        elif node not in found and node.traced and node.op is not PLACEHOLDER:
            stack.append((node, True))
            stack += [(s, False) for s in node.sources if type(s) is Node]
    return list(found)


def _batch(node: Node, known: Mapping[Node, Node], size: int) -> Node:
    flat = writes(node.op) or node.op is REINTERPRET  # what they make has one axis
    sources: list[Node | Scalar] = []
    layouts: list[Layout | None] = []
    for k, (source, layout) in enumerate(zip(node.sources, node.layouts, strict=True)):
        own = known.get(source) if type(source) is Node else None
        if type(source) is Node and own is None and flat and k == 0:  # each writes to one of its own
            every = Layout((size, source.size), (0, 1)).reshape((size * source.size,))
            own = Node.of(_POSITIVE, every.shape, source.dtype, (source,), (every,))
        sources.append(source if own is None else own)
        if layout is None or type(source) is not Node:
            layouts.append(None)
        elif flat and k == 0:
            layouts.append(Layout.contiguous((size * source.size,)))
        else:
            layouts.append(led(layout, size, 0 if own is None else source.size))
    shape = (size * node.size,) if flat else (size, *node.shape)
    target = None if node.target is None else led(node.target, size, node.size)
    return Node.of(node.op, shape, node.dtype, tuple(sources), tuple(layouts), target)


def _hosted(node: Node, op: Hosted, known: Mapping[Node, Node], size: int, computed: dict[tuple[object, ...], Sequence[Node]]) -> Node:
    """One of several results, which are computed at once."""
    key = (op.compute, *node.sources)
    if key not in computed:
        batches = [known.get(source) if type(source) is Node else None for source in node.sources]
        read = [
            Seen(source, layout) if own is None else seen_in_batch(source, layout, own, size)  # type: ignore[arg-type]
            for source, layout, own in zip(node.sources, node.layouts, batches, strict=True)
        ]
        computed[key] = op.compute(read, [own is not None for own in batches], size)
    return computed[key][op.number]


def led(layout: Layout, size: int, step: int) -> Layout:
    """A layout with an axis in front, from each index of which to the next there are `step` elements of what it reads."""
    tables = None if layout.tables is None else (None, *layout.tables)
    if layout.base is None:
        return Layout((size, *layout.shape), (step, *layout.strides), layout.offset, tables)
    return Layout((size, *layout.shape), (layout.base.size, *layout.strides), layout.offset, tables, led(layout.base, size, step))


def seen_in_batch(node: Node, layout: Layout, batch: Node | None, size: int) -> Seen:
    """What a layout reads of each of a batch; or of a node, the same for all."""
    if batch is None:
        return Seen(node, led(layout, size, 0))
    return Seen(batch, led(layout, size, node.size))
