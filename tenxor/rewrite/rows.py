"""What a product makes row by row on one of its sides: which nodes that are, and the same for some rows alone."""

from __future__ import annotations

from collections.abc import Set

from ..layout import Layout
from ..node import Node, Scalar
from ..ops.reductions import Reduction
from ..records import NamedTuple
from .making import is_made

MOST = 64  # nodes that one side is made of

Axes = tuple[int, ...]  # for each axis of a node the axis of the product that it is, or -1 if it is none
Place = dict[int, slice]  # by the axis of the product


class Rows(NamedTuple):
    """All that depends on the rows, each node after what it reads, and their axes: those in front of the rows, that of the rows,
    and that of the steps of the product. `weights` is the side.
    """

    order: list[Node]
    axes: dict[Node, Axes]
    weights: Node
    before: Axes
    row: int
    steps: int

    def further(self, node: Node) -> Axes:
        """The axes that a reduction runs over, as far as they are known."""
        return _further(node, self.axes)


def rows_of(node: Node, products: Node, side: int, shared: Set[Node]) -> Rows | None:
    """What one side of a product makes of pairs of rows and steps, row by row; None if it does not. What others read, too, and has a row
    but no steps, is there for all rows anyway, and is not made again.
    """
    weights, through, other = products.sources[side], products.layouts[side], products.layouts[1 - side]
    if through is None or other is None or not is_made(weights, Reduction):
        return None
    steps = len(node.shape)
    axes = walked(through, weights.shape)
    if axes is None or len(axes) < 2 or axes[-1] != steps or axes[-2] < 0:
        return None
    row = axes[-2]
    if other.strides[row] or (other.tables is not None and other.tables[row] is not None):
        return None
    found = _depending(node, products, row, steps, shared)
    if found is None:
        return None
    order = _ordered(node, found)
    reductions = [n for n in order if n is not node and isinstance(n.op, Reduction)]
    together = any({row, steps} <= set(found[n]) for n in reductions)
    if not together or not any(steps in _further(n, found) for n in reductions):
        return None
    return Rows(order, found, weights, tuple([a for a in axes[:-2] if a >= 0]), row, steps)


def _depending(node: Node, products: Node, row: int, steps: int, shared: Set[Node]) -> dict[Node, Axes] | None:
    """The axes of all that depends on the rows; None if that is too much. What is read in two ways is left as it is."""
    apart: set[Node] = set()
    while len(apart) <= MOST:
        found: dict[Node, Axes] = {node: tuple(range(steps)), products: (*range(steps), steps)}
        twice = _propagate(found, products, apart, row, steps)
        if len(found) > 2 * MOST:
            return None
        if twice is not None:
            apart.add(twice)
            continue
        there = {n for n in found if n in shared and steps not in found[n] and steps not in _further(n, found)}
        if not there:
            return {n: axes for n, axes in found.items() if row in axes}
        apart |= there
    return None


def _propagate(found: dict[Node, Axes], products: Node, apart: set[Node], row: int, steps: int) -> Node | None:
    """Propagate axes to what the products are made of, but for the nodes `apart`; or a node that is read in two ways."""
    stack = [products]
    while stack and len(found) <= 2 * MOST:
        reader = stack.pop()
        own = (*found[reader], *_further(reader, found))
        for source, through in zip(reader.sources, reader.layouts, strict=True):
            if through is None or source in apart or not is_made(source, Reduction):
                continue
            at = walked(through, source.shape)
            axes = () if at is None else tuple([own[a] if a >= 0 else -1 for a in at])
            before = found.get(source, axes)
            # What a reduction runs over is an axis of the product if others read it so.
            if len(axes) != len(before) or any(
                a != b and {a, b} != {-1, steps} for a, b in zip(axes, before, strict=True)
            ):
                return source
            axes = tuple(map(max, axes, before))
            if source not in found or axes != before:
                found[source] = axes
                if row in axes:
                    stack.append(source)
    return None


def _further(node: Node, found: dict[Node, Axes]) -> Axes:
    if not isinstance(node.op, Reduction):
        return ()
    (source,), (through,), first = node.sources, node.layouts, len(node.shape)
    assert type(source) is Node and through is not None
    axes = [-1] * (through.ndim - first)
    at = walked(through, source.shape) if source in found else None
    for a, axis in zip(at or (), found.get(source, ()), strict=False):
        if a >= first:
            axes[a - first] = axis
    return tuple(axes)


def walked(through: Layout, shape: tuple[int, ...]) -> Axes | None:
    """Which axis of a layout walks each axis of a node, -1 for those of size 1; None if one is not walked as it is."""
    if through.base is not None or through.tables is not None or through.offset:
        return None
    found = []
    axes = [*zip(through.shape, through.strides, strict=True)]
    for size, step in zip(shape, Layout.contiguous(shape).strides, strict=True):
        at = [a for a, its in enumerate(axes) if its == (size, step)]
        if size != 1 and len(at) != 1:
            return None
        found.append(-1 if size == 1 else at[0])
    if any(step for a, (size, step) in enumerate(axes) if a not in found and size != 1):
        return None
    return tuple(found)


def _ordered(node: Node, some: dict[Node, Axes]) -> list[Node]:
    """The nodes among `some` that a node is made of, each after what it reads."""
    found: dict[Node, None] = {}
    stack = [node]
    while stack:
        missing = [s for s in stack[-1].sources if type(s) is Node and s in some and s not in found]
        if missing:
            stack += missing
        else:
            found[stack.pop()] = None
    return list(found)


def restricted(rows: Rows, place: Place, known: dict[Node, Node]) -> Node:
    """The product at one place, made anew of nodes that stand for what does not depend on the rows."""
    twin: dict[Node, Node] = {}
    whole = slice(None)
    for node in rows.order:
        cut = [place.get(axis, whole) for axis in (*rows.axes[node], *rows.further(node))]
        sources: list[Node | Scalar] = []
        layouts: list[Layout | None] = []
        for source, through in zip(node.sources, node.layouts, strict=True):
            if type(source) is not Node or through is None:
                sources.append(source)
                layouts.append(None)
            elif source in twin:
                sources.append(twin[source])
                layouts.append(_through(through, source.shape, twin[source].shape, cut))
            else:
                sources.append(known.get(source, source))
                layouts.append(through.index(cut))
        shape = _cut(node.shape, cut)
        twin[node] = Node.of(node.op, shape, node.dtype, tuple(sources), tuple(layouts))
    return twin[rows.order[-1]]


def _through(through: Layout, before: tuple[int, ...], now: tuple[int, ...], cut: list[slice]) -> Layout:
    """The layout for the part of a node that has the shape `now`."""
    at = walked(through, before)
    assert at is not None
    strides = [0] * through.ndim
    for a, step in zip(at, Layout.contiguous(now).strides, strict=True):
        if a >= 0:
            strides[a] = step
    return Layout(_cut(through.shape, cut), tuple(strides))


def _cut(shape: tuple[int, ...], cut: list[slice]) -> tuple[int, ...]:
    return tuple([len(range(n)[some]) for n, some in zip(shape, cut, strict=False)])
