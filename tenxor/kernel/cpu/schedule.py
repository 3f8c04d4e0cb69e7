"""The order of the scheduling passes. Each pass is optional: without the pass, the nest is slower and computes the same values."""

from __future__ import annotations

from ...target import Target
from ..nest import Nest
from .changes import changing
from .lanes import with_lanes
from .stream import streaming


def scheduled(nest: Nest, target: Target) -> Nest:
    """Return a nest scheduled for a target."""
    if not nest.accumulators:  # the other passes are for reductions, and imported with the first
        from .tiles import tiled

        return changing(streaming(tiled(with_lanes(nest), target), target))
    from .abreast import abreast
    from .columns import by_rows
    from .keep import keeping
    from .narrow import narrow
    from .onepass import in_one_pass
    from .places import short_places
    from .prefetch import prefetching
    from .products import as_product

    single_pass = in_one_pass(nest, target)
    if single_pass is not None:
        return single_pass
    product = as_product(nest, target)
    if product is not None:
        return streaming(product, target)
    nest = by_rows(keeping(with_lanes(short_places(nest)), target), target)
    return abreast(narrow(prefetching(streaming(nest, target), target)), target)
