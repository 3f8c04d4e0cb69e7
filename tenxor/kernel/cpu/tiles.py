"""Tiled transposition: an operand contiguous along another axis than the last is read in square tiles of both axes.

Each cache line is then used up while it is in the cache, although the result is written along the last axis.
"""

from __future__ import annotations

from ...layout import Table
from ...ops.expr import Expr, rebuild
from ...target import Target
from ..drafted import Access, accesses
from ..ir import For, TileElement, TileLoad, with_expressions
from ..nest import Nest, looped
from .lanes import is_near, is_unit


def tiled(nest: Nest, target: Target) -> Nest:
    """Return the nest in tiles, if it has no reductions and an operand is read across the last axis."""
    space = nest.space
    if nest.accumulators or nest.around != space or len(space) < 2:
        return nest
    last_axis = space[-1]
    if is_near(nest.store.address, last_axis) and not is_unit(nest.store.address, last_axis):
        return nest  # the result has small steps along the lanes (see `lanes.py`)
    values = [value for s in nest.stores for value in s.values]
    loads = [e for e in accesses(values) if not e.args and nest.reads[e.index].operand >= 0]
    along = next((a for a in space[:-1] if any(_crosses(nest, e, a, last_axis, target) for e in loads)), None)
    if along is None:
        return nest
    side, tiles = target.loops.side, dict[int, TileLoad]()
    for e in loads:
        if _crosses(nest, e, along, last_axis, target) and e.index not in tiles and len(tiles) < target.loops.tiles:
            tiles[e.index] = TileLoad(len(tiles), *nest.reads[e.index], along, last_axis, side)

    def from_tile(e: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return an access as an element of a tile, if a tile holds its operand."""
        if isinstance(e, Access) and e.index in tiles:
            return TileElement(tiles[e.index].tile, along, last_axis, side, e.dtype, e.part)
        return e.with_args(args) if args else e

    tiled_stores = with_expressions(nest.stores, lambda e: rebuild(e, from_tile))
    block = For(along, (For(last_axis, (*tiles.values(), *looped((along, last_axis), tiled_stores)), side),), side)
    return nest._replace(body=looped(tuple([a for a in space if a not in (along, last_axis)]), (block,)))


def _crosses(nest: Nest, e: Access, along: int, last_axis: int, target: Target) -> bool:
    """Return whether an access is contiguous along axis `along`, and moves in larger steps along axis `last_axis`.

    Small steps (`NEAR`) along `last_axis` count only if a step is at least a vector long: shorter steps are loaded as whole vectors and
    shuffled.
    """
    a = nest.where(e)
    step = nest.step(a, last_axis)
    if a.then is not None or isinstance(step, Table) or step == 0 or not is_unit(a, along):
        return False
    element_bytes = e.dtype.itemsize * (1 if e.part is None else 2)
    return not is_near(a, last_axis) or (step != 1 and step * element_bytes >= target.vector_bytes)
