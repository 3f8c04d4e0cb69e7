"""What is computed, for speed, instead of what was written: nodes become nodes that give the same.

A graph is what the user wrote. How it is computed is decided when a plan is made: here, by rules that look at one node and what it is
made of. A rule knows shapes and layouts alone: neither where in memory a view begins, nor how many threads there are; and what else is
in the graph only where the bits are the same either way. So those do not depend on when, and together with what, something is
computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial

from ..node import Node
from ..ops.reductions import Reduction
from .blocks import is_much
from .making import reads_by_tables, renewed

# New nodes, each after what it reads; the last of them stands for the given one.
Rule = Callable[[Node], list[Node] | None]
# Nodes in order, and what stands for those of before that are others now.
Applied = tuple[Sequence[Node], dict[Node, Node]]


def _as_one(node: Node) -> list[Node] | None:
    """What becomes of a node by itself."""
    from .best import in_two_passes
    from .convolution import kernels_apart
    from .products import product_in_parts
    from .reductions import reduction_in_parts
    from .short import written_out

    return written_out(node) or in_two_passes(node) or kernels_apart(node) or product_in_parts(node) or reduction_in_parts(node)


def rewritten(order: Sequence[Node], results: Collection[Node] = ()) -> dict[Node, Node]:
    """What stands for some of the pending nodes in `order`, in which each comes after all that it reads; some are wanted as `results`."""
    reductions = [node for node in order if isinstance(node.op, Reduction)]
    passes: list[Callable[[Sequence[Node]], Applied]] = []
    if any(map(is_much, reductions)):
        from .attention import product_in_blocks

        readers = Counter(source for node in order for source in set(node.sources))
        shared = {source for source, count in readers.items() if count > 1 and type(source) is Node}
        passes.append(partial(_to_reductions, partial(product_in_blocks, shared=shared)))
    if reductions:
        passes.append(partial(_to_reductions, _as_one))
    if any(map(reads_by_tables, order)):
        from .pieces import in_pieces

        passes.append(partial(in_pieces, results=results))
    now: dict[Node, Node] = {}
    changed = order
    for applied in passes:
        changed, instead = applied(changed)
        if instead:
            now = {node: instead.get(other, other) for node, other in now.items()} | {
                node: other for node, other in instead.items() if node not in now
            }
    return {node: now[node] for node in order if node in now} if now else now


def _to_reductions(rule: Rule, order: Sequence[Node]) -> Applied:
    """The nodes with a rule applied to each reduction, in order."""
    now: list[Node] = []
    instead: dict[Node, Node] = {}
    for node in order:
        last = renewed(node, instead)
        made = rule(last) if isinstance(node.op, Reduction) else None
        if made is not None:
            made[-1].stored = made[-1].stored or node.stored
            now += made
            instead[node] = made[-1]
        else:
            now.append(last)
            if last is not node:
                instead[node] = last
    return now, instead
