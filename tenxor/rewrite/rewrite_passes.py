"""The rewriting passes: rules replace nodes of the user's graph by nodes with equal values for faster execution. A node is a pending
operation on sources, its operands, each read through a layout.

Rules apply when a plan is made. A rule sees a node and the node's sources. Rules use only shapes and layouts, not offsets or the number of
threads; they use the rest of the graph only where the bits are the same either way. So the bits of a value do not depend on the time of the
computation, or on the nodes computed together with this value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial

from ..graph.node import Node
from ..ops.reductions import Reduction
from .blockwise_op import is_worth_blocking
from .graph_builder import reads_through_table, replace_sources
from .separate_products import separate_products

# A rule returns new nodes, sources first, with the replacement of the given node last; or None.
RewriteRule = Callable[[Node], list[Node] | None]
# The nodes after a pass, in order, and the replacements of changed nodes.
PassResult = tuple[Sequence[Node], dict[Node, Node]]


def _apply_first_match(node: Node) -> list[Node] | None:
    """Return the new nodes of the first rule for single reductions that matches the reduction `node`; None if no rule matches.

    The nodes are listed sources first, with the replacement of `node` last.
    """
    from .argextrema import split_argextremum
    from .convolution_weights import copy_convolution_weights
    from .large_reductions import split_reduction
    from .long_contractions import split_contraction
    from .unroll_reductions import unroll_reduction

    return (
        unroll_reduction(node)
        or split_argextremum(node)
        or copy_convolution_weights(node)
        or split_contraction(node)
        or split_reduction(node)
    )


def rewrite_graph(order: Sequence[Node], results: Collection[Node] = ()) -> dict[Node, Node]:
    """Map pending nodes of `order` to replacements: new pending nodes with equal values, shapes and dtypes. Nodes that stay are not in the
    map.

    `order` lists the nodes, sources first; `results` are the nodes whose values are asked for. No node of `order` is changed. Readers of a
    replaced node are replaced, too.
    """
    reductions = [node for node in order if isinstance(node.op, Reduction)]
    rewriting = _Rewriting(order)
    if any(map(is_worth_blocking, reductions)):
        from .split_attention import split_attention

        readers = Counter(source for node in order for source in set(node.sources))
        shared = {source for source, count in readers.items() if count > 1 and type(source) is Node}
        rewriting.add_pass(_apply_to_reductions(partial(split_attention, shared=shared), rewriting.nodes))
    if reductions:
        rewriting.add_pass(separate_products(rewriting.nodes, results=results))
        rewriting.add_pass(_apply_to_reductions(_apply_first_match, rewriting.nodes))
    if any(map(reads_through_table, order)):
        from .split_by_runs import split_by_table_runs

        rewriting.add_pass(split_by_table_runs(rewriting.nodes, results=results))
    replacements = rewriting.replacements
    return {node: replacements[node] for node in order if node in replacements} if replacements else replacements


class _Rewriting:
    """A graph during the passes: the present `nodes`, sources first, and the `replacements` of nodes so far.

    `replacements` may also map nodes made by a pass.
    """

    def __init__(self, order: Sequence[Node]) -> None:
        self.nodes = order
        self.replacements: dict[Node, Node] = {}

    def add_pass(self, result: PassResult) -> None:
        """Continue with the result of a pass over `nodes`: `nodes` becomes the new list, and `replacements` is extended.

        Where a replacement is replaced again, the first node maps to the later replacement.
        """
        self.nodes, replaced = result
        if replaced:
            renewed = {node: replaced.get(replacement, replacement) for node, replacement in self.replacements.items()}
            self.replacements = renewed | {node: replacement for node, replacement in replaced.items() if node not in renewed}


def _apply_to_reductions(rule: RewriteRule, order: Sequence[Node]) -> PassResult:
    """Apply `rule` to each reduction in `order`, a list of nodes with sources first.

    Return the new list, sources first, and the replacements. A node whose source is replaced is replaced too. The rule sees the node with
    the new sources. A replacement keeps the mark `is_stored`.
    """
    new_order: list[Node] = []
    replacements: dict[Node, Node] = {}
    for node in order:
        renewed_node = replace_sources(node, replacements)
        new_nodes = rule(renewed_node) if isinstance(node.op, Reduction) else None
        if new_nodes is not None:
            new_nodes[-1].is_stored = new_nodes[-1].is_stored or node.is_stored
            new_order += new_nodes
            replacements[node] = new_nodes[-1]
        else:
            new_order.append(renewed_node)
            if renewed_node is not node:
                replacements[node] = renewed_node
    return new_order, replacements
