"""The order of the passes. Each can be left out: what remains is slower, and computes the same."""

from __future__ import annotations

from ...target import Target
from ..nest import Nest
from .columns import by_rows
from .keep import keeping
from .lanes import with_lanes
from .prefetch import prefetching
from .products import as_product
from .stream import streaming
from .tiles import tiled


def scheduled(nest: Nest, target: Target) -> Nest:
    """A nest as it runs best on a machine."""
    product = as_product(nest, target)
    if product is not None:
        return streaming(product, target)
    nest = keeping(with_lanes(nest), target)
    nest = by_rows(tiled(nest, target), target)
    return prefetching(streaming(nest, target))
