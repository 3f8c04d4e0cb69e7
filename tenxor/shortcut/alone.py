"""Launch records for nodes computed by a kernel of their own, built when the fast path finds none.

After a few nodes of one signature, a record is traced with symbolic sizes, and the generated code then makes records for further sizes.
"""

from __future__ import annotations

from ..locking import taken_at_once
from ..node import Node
from ..plans.parts import product_in
from ..plans.pattern import Pattern
from ..realize import lock
from . import frames, likewise
from .frames import SizedFrame, most_for, numbered, pattern_alone, written, written_of_sizes


def have_framed(node: Node) -> None:
    """Build and store the launch record of a pending node, if the node can be computed now.

    The fast path calls this function for a node whose recipe has no launch record yet. Do nothing if another thread holds the lock for
    computing. After a few nodes of one signature, also trace a size-generic record.
    """
    if not taken_at_once(lock):
        return
    try:
        frame = frames.framed(node)
        found = likewise.machine[0].kind_of_graph(frames.with_frames, node) if frame else None
        if frame and found is not None:
            kept = [node.recipe, *[s.recipe for s in node.sources if type(s) is Node]]
            likewise.Call(*found[1:], kept).learn_frame(frame, lambda: _alone(node), _of_sizes)
    finally:
        lock.release()


def _alone(node: Node) -> Pattern:
    """Return the graph signature (`Pattern`) of a node computed by one kernel: the node alone, or a sum with the product that it adds up.

    The sources in the signature are new nodes in memory, so the rest of the graph does not matter.
    """
    product = product_in(node)
    reads, summed = (node, None) if product is None else (product, product.recipe)
    return pattern_alone(node.recipe, summed, reads.sources, reads.offsets)[0]


def _of_sizes(pattern: Pattern, sized: Pattern) -> SizedFrame | None:
    """Return a size-generic launch record for the graph signature `pattern`; None if the record cannot be made size-generic.

    `sized` is the same signature with a symbolic `Size` for each number. The result is the record's 64-bit words, integers or expressions
    of these sizes, and the plan that keeps the kernel in memory.
    """
    root = pattern.nodes[pattern.roots[0]]
    product = product_in(root)
    reads, summed = (root, None) if product is None else (product, product.recipe)
    most, places = most_for(summed), list(range(len(reads.offsets)))
    return written_of_sizes(pattern, sized, most, lambda: written(pattern, numbered(reads.sources), places, most))
