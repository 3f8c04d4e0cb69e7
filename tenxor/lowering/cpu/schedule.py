"""The order of the scheduling passes. Each pass is optional: without the pass, the nest is slower and computes the same values."""

from __future__ import annotations

from ...target import Target
from ..loop_nest import LoopNest
from .nontemporal import use_nontemporal_stores
from .predicate_stores import predicate_stores
from .vectorize import vectorize


def schedule_loops(nest: LoopNest, target: Target) -> LoopNest:
    """Return `nest` with loops chosen for `target`: vectorized, reordered, in blocks or as a contraction. The values stay the same.

    The nest must come from `convert_draft`, unscheduled, and not be the nest of a scatter. It is not changed.
    """
    if not nest.accumulators:  # the other passes are for reductions, and imported with the first
        from .tile_transposes import tile_transposes

        return predicate_stores(use_nontemporal_stores(tile_transposes(vectorize(nest), target), target))
    from .cache_rows import cache_rows
    from .interchange import interchange_columns
    from .narrow_accumulators import narrow_accumulators
    from .narrow_argmax import narrow_argmax
    from .prefetch_rows import prefetch_rows
    from .schedule_contraction import schedule_contraction
    from .schedule_single_pass import schedule_single_pass
    from .unroll_rows import unroll_and_jam

    single_pass = schedule_single_pass(nest, target)
    if single_pass is not None:
        return single_pass
    product = schedule_contraction(nest, target)
    if product is not None:
        return use_nontemporal_stores(product, target)
    nest = interchange_columns(cache_rows(vectorize(narrow_argmax(nest)), target), target)
    return unroll_and_jam(narrow_accumulators(prefetch_rows(use_nontemporal_stores(nest, target), target)), target)
