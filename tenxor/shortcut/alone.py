"""Frames of nodes that are computed alone, made when there are none: for one like it of other sizes machine code makes the next."""

from __future__ import annotations

from ..locking import taken_at_once
from ..node import Node
from ..plans.parts import product_in
from ..plans.pattern import Pattern
from ..realize import lock
from . import frames, likewise
from .frames import SizedFrame, most_for, numbered, pattern_alone, written, written_of_sizes


def have_framed(node: Node) -> None:
    """Make the frame by which a pending node can be computed now, if there is one; not while another thread computes. And sometimes look
    what that of others would be.
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
    """The pattern of a node, or of the sum of a product, without what else there is."""
    product = product_in(node)
    reads, summed = (node, None) if product is None else (product, product.recipe)
    return pattern_alone(node.recipe, summed, reads.sources, reads.offsets)[0]


def _of_sizes(pattern: Pattern, sized: Pattern) -> SizedFrame | None:
    """The words of a frame of such a pattern, with `Size`s in place of numbers, as `sized` has them; None if there is none for others."""
    root = pattern.nodes[pattern.roots[0]]
    product = product_in(root)
    reads, summed = (root, None) if product is None else (product, product.recipe)
    most, places = most_for(summed), list(range(len(reads.offsets)))
    return written_of_sizes(pattern, sized, most, lambda: written(pattern, numbered(reads.sources), places, most))
