"""The signature of a tape segment: everything about it except for the identities of the nodes and numbers read by the segment. A segment is
a list of tape nodes whose derivative is computed together. A tape node records how a graph node was computed from the sources, the
operands.

Segments with equal signatures have equal derivatives, so the recorded computation for the first is replayed for the second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from .._utils import upcalls
from .._utils.records import NamedTuple
from ..graph.node import PLACEHOLDER, Node, Scalar, intern_recipe
from ..layout import Layout
from ..runtime.generic_plans import group_equal_dims, split_layout, split_recipe
from ..runtime.plan_tracing import SymbolicSizes
from .layout_adjoint import Cotangent, PartialCotangent, get_values
from .node_view import NodeView
from .replay import IndexedCotangents, replay_or_record
from .tape import TapeNode, TapeSource, get_tape_node

MAX_SEGMENT_NODES = 256  # tape nodes in one segment, at most
SegmentInput = Node | Scalar
get_serial_number = attrgetter("serial")


class TapeGraph(NamedTuple):
    """A slice of the tape. `order` lists the tape nodes, oldest first. `result_nodes` maps tape nodes to their graph nodes, where the
    rule reads the result. `nodes_to_visit` holds the tape nodes to visit for a derivative.
    """

    order: Sequence[TapeNode]
    result_nodes: dict[TapeNode, Node]
    nodes_to_visit: Collection[TapeNode]


class SegmentClones(NamedTuple):
    """Clones of the tape nodes of a segment, with placeholders in place of the actual inputs.

    `clone_of` maps each tape node, of the segment or outer, to the clone. `result_nodes` maps clones to placeholders, where the rule
    reads the result. `cotangents` lists the given cotangents or tangents by clone.
    """

    clone_of: dict[TapeNode | None, TapeNode]
    result_nodes: dict[TapeNode, Node]
    cotangents: list[tuple[TapeNode, Cotangent]]


class SegmentSignature:
    """The signature of a tape segment, with the inputs of the segment's derivative.

    `direction` is "back" or "forward". `segment` lists the tape nodes: newest first for "back", oldest first for "forward". `cotangents`
    lists pairs of a tape node in the segment and an arriving cotangent or tangent. Cotangents or tangents of the tape nodes `wanted` are
    wanted. `graph` is the slice of the tape with the segment.

    `key` is the hashable signature. `inputs` lists the nodes and numbers read by the segment; the key refers to them by index.
    `outer_nodes` lists the tape nodes outside the segment to which cotangents are passed. They are sources of the segment in
    `graph.nodes_to_visit`.
    """

    def __init__(
        self,
        direction: str,
        segment: Sequence[TapeNode],
        cotangents: list[tuple[TapeNode, Cotangent]],
        graph: TapeGraph,
        wanted: Collection[TapeNode],
    ) -> None:
        self.direction, self.segment, self.cotangents, self.result_nodes, self.wanted = (
            direction,
            segment,
            cotangents,
            graph.result_nodes,
            wanted,
        )
        self.outer_nodes: list[TapeNode] = []
        self.inputs: list[SegmentInput] = []
        self._index_by_id: dict[int, int] = {}
        index_of = {tape_node: k for k, tape_node in enumerate(segment)}
        key: list[object] = [direction, len(cotangents)]
        for tape_node, cotangent in cotangents:
            view = get_values(cotangent)
            key += (
                index_of[tape_node],
                self._index_of_input(view.node),
                view.node.recipe.data_recipe,
                view.layout.layout_key,
                view.layout.offset,
            )
            key += (
                (cotangent.layout.layout_key, cotangent.layout.offset, cotangent.is_injective)
                if isinstance(cotangent, PartialCotangent)
                else (None,)
            )
        fast_path = upcalls.installed
        if fast_path is not None:
            encode = fast_path.tape_replay.encode_signature
            encoded = encode(segment, graph.nodes_to_visit, wanted, graph.result_nodes, self.inputs)
            if encoded is not None:
                words, inputs, self.outer_nodes = encoded
                self.inputs += inputs
                self.key = (*key, words)
                return
        self.key = (*key, *self._encode_segment(index_of, graph, wanted))

    def _encode_segment(self, index_of: dict[TapeNode, int], graph: TapeGraph, wanted: Collection[TapeNode]) -> list[object]:
        """Return the part of the key that describes the tape nodes of the segment and their sources.

        `inputs` and `outer_nodes` get the inputs and outer tape nodes that are new. `index_of` maps the tape nodes of the segment to their
        indices. Outer nodes are the sources outside of the segment, and in `graph.nodes_to_visit`: they are added as ~0, ~1, ... Other
        sources are constants. The key has a flag for each tape node in `wanted`. The fast path encodes the same as bytes
        (`fastpath/emit/tape_segments.py`); such a key equals no key made here.
        """
        words: list[object] = []
        for tape_node in self.segment:
            node = graph.result_nodes.get(tape_node)
            words += (tape_node.recipe, tape_node.offsets, tape_node in wanted, None if node is None else self._index_of_input(node))
            for operand in tape_node.sources:  # this loop visits every tape node of a result
                if operand is None:
                    words.append(None)
                    continue
                kind = type(operand)
                source: Any = operand if kind is TapeNode else operand.tape_node if kind is Node else None
                if source in graph.nodes_to_visit:
                    if source not in index_of:
                        index_of[source] = ~len(self.outer_nodes)
                        self.outer_nodes.append(source)
                    words += (index_of[source], source.recipe.size)
                if kind is Node:
                    words += ("value", self._index_of_input(operand), operand.recipe.shape)
                else:
                    words += ("number", self._index_of_input(operand)) if kind is Scalar else ("past",)
        return words

    def _index_of_input(self, x: SegmentInput) -> int:
        """Return the index of `x` in `inputs`, appending `x` if it is new. Nodes and numbers are compared by identity."""
        number = self._index_by_id.get(id(x))
        if number is None:
            number = self._index_by_id[id(x)] = len(self.inputs)
            self.inputs.append(x)
        return number

    def split_structure(self) -> tuple[object, tuple[int, ...]] | None:
        """Return a size-generic signature, a hashable value, and the numbers left out; or None if a layout has offset tables.

        The signature says which of the shapes, strides and offsets are equal, 0 or 1, but not their values. The second result lists the
        distinct values except 0 and 1, in order of appearance.
        """
        numbers: list[int] = []
        input_index = {id(x): k for k, x in enumerate(self.inputs)}
        index_of: dict[Any, int] = {tape_node: k for k, tape_node in enumerate(self.segment)}
        index_of |= {tape_node: ~k for k, tape_node in enumerate(self.outer_nodes)}
        words: list[object] = [self.direction, len(self.cotangents)]

        def add(layout: Layout) -> bool:
            numbers.append(layout.offset)
            return split_layout(layout, words, numbers)

        for tape_node, cotangent in self.cotangents:
            view = get_values(cotangent)
            words += (index_of[tape_node], input_index[id(view.node)], view.node.dtype, len(view.node.shape))
            numbers += view.node.shape
            words.append(cotangent.is_injective if isinstance(cotangent, PartialCotangent) else None)
            if not add(view.layout) or (isinstance(cotangent, PartialCotangent) and not add(cotangent.layout)):
                return None
        for tape_node in self.segment:
            node = self.result_nodes.get(tape_node)
            words += (tape_node in self.wanted, None if node is None else input_index[id(node)], len(tape_node.offsets))
            numbers += tape_node.offsets
            if not split_recipe(tape_node.recipe, words, numbers):
                return None
            for operand in tape_node.sources:
                source = get_tape_node(operand)
                index = index_of.get(source)
                words.append(index)
                if index is not None:
                    numbers.append(source.recipe.size)  # type: ignore[union-attr]
                kind = type(operand)
                words.append(input_index[id(operand)] if kind is Node or kind is Scalar else kind is TapeNode)
                if type(operand) is Node:
                    words.append(len(operand.recipe.shape))
                    numbers += operand.recipe.shape
        equal, distinct = group_equal_dims(numbers)
        return (tuple(words), equal), distinct

    def replay_or_record(self, compute: Callable[..., IndexedCotangents]) -> list[tuple[int, Cotangent]]:
        """Return the results of `compute` for `inputs`, as new pending nodes: pairs of an index and a cotangent or tangent.

        The indices are those that `compute` returns. A recording for this signature in the cache is replayed. On a miss, `compute` is first
        recorded. With the fast path, the recording may come from a size-generic template instead. `compute(placeholders)` takes a
        placeholder for each of `inputs`, and must read no values. A trace with symbolic sizes passes a second argument, the
        `SymbolicSizes`.
        """
        fast_path = upcalls.installed
        find_steps = None if fast_path is None else partial(fast_path.tape_replay.find_replay_steps, self, compute)
        return replay_or_record(self.key, self.inputs, compute, find_steps)

    def clone_segment(self, placeholders: Sequence[SegmentInput], symbolic_sizes: SymbolicSizes | None = None) -> SegmentClones:
        """Return clones of the tape nodes of the segment, with a placeholder in place of each of `inputs`.

        With `symbolic_sizes`, shapes, layouts and offsets of the clones are symbolic. The tape node of each placeholder is set to the clone
        of the input's tape node, or to None. The clone of an outer tape node is a 1-d leaf. The segment itself stays unchanged.
        """
        number_of = {id(x): k for k, x in enumerate(self.inputs)}
        clones: dict[TapeNode | None, TapeNode] = {}
        for tape_node in self.outer_nodes:
            size = tape_node.recipe.size if symbolic_sizes is None else symbolic_sizes.symbolize_dim(tape_node.recipe.size)
            clones[tape_node] = TapeNode(intern_recipe(PLACEHOLDER, (size,), tape_node.recipe.dtype))
        replacements: dict[int, SegmentInput] = {}

        def replace(x: SegmentInput) -> SegmentInput:
            replacement = replacements.get(id(x))
            if replacement is None:
                replacement = replacements[id(x)] = placeholders[number_of[id(x)]]
                if type(replacement) is Node and type(x) is Node:
                    replacement.tape_node = clones.get(get_tape_node(x))
            return replacement

        def layout(old: Layout) -> Layout:
            return old if symbolic_sizes is None else symbolic_sizes.symbolize_layout(old)

        for tape_node in sorted(self.segment, key=get_serial_number):
            sources: list[TapeSource] = []
            for operand in tape_node.sources:
                is_input = type(operand) is Node or type(operand) is Scalar
                sources.append(replace(operand) if is_input else clones.get(get_tape_node(operand)))
            recipe, offsets = tape_node.recipe, tape_node.offsets
            if symbolic_sizes is not None:
                recipe, offsets = symbolic_sizes.symbolize_recipe(recipe), tuple(map(symbolic_sizes.symbolize_dim, offsets))
            clones[tape_node] = TapeNode(recipe, tuple(sources), offsets)
        nodes: dict[TapeNode, Any] = {
            clones[tape_node]: replace(self.result_nodes[tape_node]) for tape_node in self.segment if tape_node in self.result_nodes
        }
        cotangents: list[tuple[TapeNode, Cotangent]] = []
        for tape_node, cotangent in self.cotangents:
            view = NodeView(replace(get_values(cotangent).node), layout(get_values(cotangent).layout))  # type: ignore[arg-type]
            cotangents.append(
                (
                    clones[tape_node],
                    PartialCotangent(view, layout(cotangent.layout), cotangent.is_injective)
                    if isinstance(cotangent, PartialCotangent)
                    else view,
                )
            )
        return SegmentClones(clones, nodes, cotangents)
