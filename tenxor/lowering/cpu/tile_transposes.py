"""Tiled transposition: an operand contiguous along another axis than the last is read in square tiles of both axes.

Each cache line is then used up while it is in the cache, although the result is written along the last axis.
"""

from __future__ import annotations

from ...layout import Table
from ...ops.expr import Expr, rebuild
from ...target import Target
from ..ir import For, TileElement, TileLoad, map_expressions
from ..kernel_draft import Access, list_accesses
from ..loop_nest import LoopNest, wrap_in_loops
from .vectorize import has_near_step, has_unit_step


def tile_transposes(nest: LoopNest, target: Target) -> LoopNest:
    """Return the nest in square tiles of two axes, if an operand is contiguous along another axis than the last. `target` has the size of a
    tile.

    Return the nest unchanged if no operand is, and for reductions or a single axis. Do so too if the result has small steps (`NEAR_STEPS`),
    other than 1, along the last axis. At most `max_transpose_tiles` operands get a tile; further operands are read as before.
    """
    space = nest.space
    if nest.accumulators or nest.result_loops != space or len(space) < 2:
        return nest
    last_axis = space[-1]
    if has_near_step(nest.result_store.address, last_axis) and not has_unit_step(nest.result_store.address, last_axis):
        return nest  # the result has small steps along the lanes (see `vectorize.py`)
    values = [value for s in nest.stores for value in s.values]
    loads = [e for e in list_accesses(values) if not e.args and nest.locations[e.index].operand >= 0]
    along = next((a for a in space[:-1] if any(_is_transposed(nest, e, a, last_axis, target) for e in loads)), None)
    if along is None:
        return nest
    side, tiles = target.loops.transpose_tile_side, dict[int, TileLoad]()
    for e in loads:
        if _is_transposed(nest, e, along, last_axis, target) and e.index not in tiles and len(tiles) < target.loops.max_transpose_tiles:
            tiles[e.index] = TileLoad(len(tiles), *nest.locations[e.index], along, last_axis, side)

    def from_tile(e: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return an access as an element of a tile, if a tile holds its operand."""
        if isinstance(e, Access) and e.index in tiles:
            return TileElement(tiles[e.index].tile, along, last_axis, side, e.dtype, e.component)
        return e.with_args(args) if args else e

    tiled_stores = map_expressions(nest.stores, lambda e: rebuild(e, from_tile))
    block = For(along, (For(last_axis, (*tiles.values(), *wrap_in_loops((along, last_axis), tiled_stores)), side),), side)
    return nest._replace(body=wrap_in_loops(tuple([a for a in space if a not in (along, last_axis)]), (block,)))


def _is_transposed(nest: LoopNest, e: Access, along: int, last_axis: int, target: Target) -> bool:
    """Return whether the access `e` of `nest` is contiguous along axis `along`, and moves in larger steps along axis `last_axis`.

    Small steps (`NEAR_STEPS`) along `last_axis` count only if a step is at least a vector of `target` long: shorter steps are loaded as
    whole vectors and shuffled. A view chain, and a table along `last_axis`, give False.
    """
    a = nest.get_address(e)
    step = nest.get_step(a, last_axis)
    if a.base is not None or isinstance(step, Table) or step == 0 or not has_unit_step(a, along):
        return False
    element_bytes = e.dtype.itemsize * (1 if e.component is None else 2)
    return not has_near_step(a, last_axis) or (step != 1 and step * element_bytes >= target.vector_bytes)
