"""Frames of nodes that are computed alone, made when there are none: for one like it of other sizes machine code makes the next."""

from __future__ import annotations

from ..locking import taken_at_once
from ..node import Node
from ..plans.general import Traced
from ..plans.parts import product_in
from ..plans.pattern import stand_ins, structured
from ..realize import lock
from . import frames, likewise
from .frames import most_for, numbered, pattern_alone, written, written_of_sizes
from .rule import FrameRule


def have_framed(node: Node) -> None:
    """Make the frame by which a pending node can be computed now, if there is one; not while another thread computes. And sometimes look
    what that of others would be.
    """
    if not taken_at_once(lock):
        return
    try:
        found = likewise.machine[0].kind_of_graph(frames.plans, node)
        frame = frames.framed(node)
        if frame and found is not None:
            _, kind, numbers = found
            call = likewise.Call(kind, numbers, [node.recipe, *[s.recipe for s in node.sources if type(s) is Node]])
            call.learn_by(lambda: _rule_for(node, numbers), lambda rule: rule.made(numbers) == frame)
    finally:
        lock.release()


def _rule_for(node: Node, numbers: tuple[int, ...]) -> FrameRule | None:
    """The rule by which nodes like one get frames, which has these numbers."""
    product, traced = product_in(node), Traced(numbers)
    reads, summed = (node, None) if product is None else (product, product.recipe)
    pattern, apart = pattern_alone(node.recipe, summed, reads.sources, reads.offsets)
    nodes = stand_ins(pattern, traced)
    sized = structured([nodes[k] for k in pattern.roots])
    most, places = most_for(summed), list(range(len(reads.offsets)))
    found = written_of_sizes(pattern, sized, most, lambda: written(pattern, numbered(apart), places, most))
    return None if found is None else FrameRule(traced.trace, *found)
