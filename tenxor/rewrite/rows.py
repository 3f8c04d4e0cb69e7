"""The subgraph computed row by row on one side of a contraction, and the restriction of this subgraph to a range of rows."""

from __future__ import annotations

from collections.abc import Set

from ..layout import Layout
from ..node import Node, Scalar
from ..ops.reductions import Reduction
from ..records import NamedTuple
from .making import is_made

MOST = 64  # maximal number of nodes below a side

Axes = tuple[int, ...]  # for each axis of a node, the equal axis of the contraction, or -1
Place = dict[int, slice]  # slices by axis of the contraction


class Rows(NamedTuple):
    """The nodes depending on the rows, sources first, and the axes of each.

    `before`, `row` and `steps` are axes of the contraction: the axes before the rows, the rows, and the summed steps. `weights` is the
    side.
    """

    order: list[Node]
    axes: dict[Node, Axes]
    weights: Node
    before: Axes
    row: int
    steps: int

    def further(self, node: Node) -> Axes:
        """Return the axes of the contraction that a reduction runs over, -1 for unknown axes."""
        return _further(node, self.axes)


def rows_of(node: Node, products: Node, side: int, shared: Set[Node]) -> Rows | None:
    """Return the subgraph on a side of a contraction that is computed row by row from pairs of rows and steps, or None.

    Nodes in `shared` (with several readers) that depend on rows but not on steps are computed for every row anyway. They stay outside.
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
    """Return the axes of each node that depends on the rows; None if the nodes are too many. Nodes read in two ways are not entered."""
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
    """Record in `found` the axes of the nodes below the products, except nodes in `apart`. Return a node read in two ways, or None."""
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
            # An axis unknown below a reduction (-1) is the axis of steps if a second reader says so.
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
    """Return the axes of the contraction that a reduction runs over, given the axes of its source in `found`.

    An unknown axis is -1. A node that is not a reduction gives an empty tuple.
    """
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
    """Return, for each axis of a node of this shape, the axis of the layout along it, -1 for axes of size 1.

    Return None if an axis of the node is not read whole and in order.
    """
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
    """Return the nodes of `some` below and including `node`, sources first."""
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
    """Return a copy of the contraction restricted to `place`. `known` maps the nodes outside of the subgraph to replacements."""
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
    """Return the layout for a restricted source of shape `now`, which had shape `before`."""
    at = walked(through, before)
    assert at is not None
    strides = [0] * through.ndim
    for a, step in zip(at, Layout.contiguous(now).strides, strict=True):
        if a >= 0:
            strides[a] = step
    return Layout(_cut(through.shape, cut), tuple(strides))


def _cut(shape: tuple[int, ...], cut: list[slice]) -> tuple[int, ...]:
    """Return a shape after slicing each axis."""
    return tuple([len(range(n)[some]) for n, some in zip(shape, cut, strict=False)])
