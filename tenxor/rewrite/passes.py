"""The rewriting passes: rules replace nodes of the user's graph by nodes with equal values for faster execution.

Rules apply when a plan is made. A rule sees a node and the node's sources. Rules use only shapes and layouts, not offsets or the number of
threads; they use the rest of the graph only where the bits are the same either way. So the bits of a value do not depend on the time of the
computation, or on the nodes computed together with this value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial

from ..node import Node
from ..ops.reductions import Reduction
from .blocks import is_much
from .making import reads_by_tables, renewed

# A rule returns new nodes, sources first, with the replacement of the given node last; or None.
Rule = Callable[[Node], list[Node] | None]
# The nodes after a pass, in order, and the replacements of nodes that changed.
Applied = tuple[Sequence[Node], dict[Node, Node]]


def _rewrite_reduction(node: Node) -> list[Node] | None:
    """Apply the rules for single reductions to a node, and return the new nodes of the first match, or None."""
    from .best import in_two_passes
    from .convolution import kernels_apart
    from .products import product_in_parts
    from .reductions import reduction_in_parts
    from .short import written_out

    return written_out(node) or in_two_passes(node) or kernels_apart(node) or product_in_parts(node) or reduction_in_parts(node)


def rewritten(order: Sequence[Node], results: Collection[Node] = ()) -> dict[Node, Node]:
    """Map pending nodes to replacements. `order` lists the nodes, sources first; `results` are the nodes whose values are asked for."""
    reductions = [node for node in order if isinstance(node.op, Reduction)]
    passes: list[Callable[[Sequence[Node]], Applied]] = []
    if any(map(is_much, reductions)):
        from .attention import product_in_blocks

        readers = Counter(source for node in order for source in set(node.sources))
        shared = {source for source, count in readers.items() if count > 1 and type(source) is Node}
        passes.append(partial(_rewrite_reductions, partial(product_in_blocks, shared=shared)))
    if reductions:
        passes.append(partial(_rewrite_reductions, _rewrite_reduction))
    if any(map(reads_by_tables, order)):
        from .pieces import in_pieces

        passes.append(partial(in_pieces, results=results))
    replacements: dict[Node, Node] = {}
    nodes = order
    for apply_pass in passes:
        nodes, pass_replacements = apply_pass(nodes)
        if pass_replacements:
            replacements = {node: pass_replacements.get(replacement, replacement) for node, replacement in replacements.items()} | {
                node: replacement for node, replacement in pass_replacements.items() if node not in replacements
            }
    return {node: replacements[node] for node in order if node in replacements} if replacements else replacements


def _rewrite_reductions(rule: Rule, order: Sequence[Node]) -> Applied:
    """Apply a rule to each reduction, in order. Return the new list of nodes, and the replacements."""
    new_order: list[Node] = []
    replacements: dict[Node, Node] = {}
    for node in order:
        renewed_node = renewed(node, replacements)
        new_nodes = rule(renewed_node) if isinstance(node.op, Reduction) else None
        if new_nodes is not None:
            new_nodes[-1].stored = new_nodes[-1].stored or node.stored
            new_order += new_nodes
            replacements[node] = new_nodes[-1]
        else:
            new_order.append(renewed_node)
            if renewed_node is not node:
                replacements[node] = renewed_node
    return new_order, replacements
