"""The signature of a tape segment: everything about it except for the identities of the nodes and numbers read by the segment.

Segments with equal signatures have equal derivatives, so the recorded computation for the first is replayed for the second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from ..layout import Layout
from ..node import PLACEHOLDER, Node, Scalar, recipe_of
from ..past import Kept, Past, past_of, short_again
from ..plans.general import equalities_of, take_apart, take_layout_apart
from ..plans.tracing import Traced
from ..records import NamedTuple
from .adjoint import Part, Placed, seen_of
from .again import Pulled, made_again
from .seen import Seen

STRETCH = 256  # tape nodes in one segment, at most
Given = Node | Scalar
in_order = attrgetter("number")


class Graph(NamedTuple):
    """A slice of the tape. `order` lists the tape nodes, oldest first. `nodes` maps tape nodes to their graph nodes, where the rule reads
    the result. `depends` holds the tape nodes to visit for a derivative.
    """

    order: Sequence[Past]
    nodes: dict[Past, Node]
    depends: Collection[Past]


class Twins(NamedTuple):
    """Clones of the tape nodes of a segment, with placeholders in place of the actual inputs.

    `of` maps each tape node, of the segment or outer, to the clone. `nodes` maps clones to placeholders, where the rule reads the result.
    `parts` lists the given cotangents or tangents by clone.
    """

    of: dict[Past | None, Past]
    nodes: dict[Past, Node]
    parts: list[tuple[Past, Part]]


class Outline:
    """The signature of a tape segment, with the inputs of the segment's derivative.

    `way` is "back" or "forward". `parts` lists partial cotangents, or tangents, of tape nodes in the segment. Cotangents or tangents of the
    tape nodes `asked` are wanted.

    `key` is the hashable signature. `given` lists the nodes and numbers read by the segment; the key refers to them by index. `outer` lists
    the tape nodes outside the segment to which cotangents are passed.
    """

    def __init__(
        self, way: str, segment: Sequence[Past], cotangents: list[tuple[Past, Part]], graph: Graph, wanted: Collection[Past]
    ) -> None:
        self.way, self.stretch, self.parts, self.nodes, self.asked = way, segment, cotangents, graph.nodes, wanted
        self.outer: list[Past] = []
        self.given: list[Given] = []
        self._number_of: dict[int, int] = {}
        index_of = {past: k for k, past in enumerate(segment)}
        key: list[object] = [way, len(cotangents)]
        for past, cotangent in cotangents:
            view = seen_of(cotangent)
            key += (index_of[past], self._index_of_input(view.node), view.node.recipe.done, view.layout.form, view.layout.offset)
            key += (cotangent.layout.form, cotangent.layout.offset, cotangent.apart) if isinstance(cotangent, Placed) else (None,)
        for short in short_again:
            encoded = short.outlined(segment, graph.depends, wanted, graph.nodes, self.given)
            if encoded is not None:
                words, inputs, self.outer = encoded
                self.given += inputs
                self.key = (*key, words)
                return
        self.key = (*key, *self._encode_segment(index_of, graph, wanted))

    def _encode_segment(self, index_of: dict[Past, int], graph: Graph, wanted: Collection[Past]) -> list[object]:
        """Return the part of the key that describes the tape nodes of the segment and their sources; extend `given` and `outer`.

        `index_of` maps the tape nodes of the segment to their indices; outer ones are added. Tape nodes in `wanted` are marked. The fast
        path encodes the same as bytes (`shortcut/code/pasts.py`).
        """
        words: list[object] = []
        for past in self.stretch:
            node = graph.nodes.get(past)
            words += (past.recipe, past.offsets, past in wanted, None if node is None else self._index_of_input(node))
            for operand in past.sources:  # this loop visits every tape node of a result
                if operand is None:
                    words.append(None)
                    continue
                kind = type(operand)
                source: Any = operand if kind is Past else operand.past if kind is Node else None
                if source in graph.depends:
                    if source not in index_of:
                        index_of[source] = ~len(self.outer)
                        self.outer.append(source)
                    words += (index_of[source], source.recipe.size)
                if kind is Node:
                    words += ("value", self._index_of_input(operand), operand.recipe.shape)
                else:
                    words += ("number", self._index_of_input(operand)) if kind is Scalar else ("past",)
        return words

    def _index_of_input(self, x: Given) -> int:
        """Return the index of `x` in `given`, appending `x` if it is new."""
        number = self._number_of.get(id(x))
        if number is None:
            number = self._number_of[id(x)] = len(self.given)
            self.given.append(x)
        return number

    def kind(self) -> tuple[object, tuple[int, ...]] | None:
        """Return a size-generic signature and the numbers left out of it, or None if a layout has offset tables.

        The signature says which of the shapes, strides and offsets are equal, 0 or 1, but not their values. The second result lists the
        distinct values except 0 and 1.
        """
        numbers: list[int] = []
        input_index = {id(x): k for k, x in enumerate(self.given)}
        index_of: dict[Any, int] = {past: k for k, past in enumerate(self.stretch)}
        index_of |= {past: ~k for k, past in enumerate(self.outer)}
        words: list[object] = [self.way, len(self.parts)]

        def add(layout: Layout) -> bool:
            numbers.append(layout.offset)
            return take_layout_apart(layout, words, numbers)

        for past, cotangent in self.parts:
            view = seen_of(cotangent)
            words += (index_of[past], input_index[id(view.node)], view.node.dtype, len(view.node.shape))
            numbers += view.node.shape
            words.append(cotangent.apart if isinstance(cotangent, Placed) else None)
            if not add(view.layout) or (isinstance(cotangent, Placed) and not add(cotangent.layout)):
                return None
        for past in self.stretch:
            node = self.nodes.get(past)
            words += (past in self.asked, None if node is None else input_index[id(node)], len(past.offsets))
            numbers += past.offsets
            if not take_apart(past.recipe, words, numbers):
                return None
            for operand in past.sources:
                source = past_of(operand)
                index = index_of.get(source)
                words.append(index)
                if index is not None:
                    numbers.append(source.recipe.size)  # type: ignore[union-attr]
                kind = type(operand)
                words.append(input_index[id(operand)] if kind is Node or kind is Scalar else kind is Past)
                if type(operand) is Node:
                    words.append(len(operand.recipe.shape))
                    numbers += operand.recipe.shape
        equal, distinct = equalities_of(numbers)
        return (tuple(words), equal), distinct

    def made_again(self, compute: Callable[..., Pulled]) -> list[tuple[int, Part]]:
        """Return the results of `compute`, replayed if this signature is in the cache.

        On a miss, `compute` is recorded. `compute` takes placeholders for `given` and, to trace with symbolic sizes, a map from numbers to
        symbolic sizes. With the fast path, a recording for different sizes may be used instead.
        """
        find_steps = None
        for short in short_again:
            find_steps = partial(short.found, self, compute)
        return made_again(self.key, self.given, compute, find_steps)

    def twins(self, placeholders: Sequence[Given], numbers: Traced | None = None) -> Twins:
        """Clone the tape nodes of the segment, with `placeholders` in place of `given`. With `numbers`, shapes, layouts and offsets of the
        clones are symbolic.
        """
        number_of = {id(x): k for k, x in enumerate(self.given)}
        clones: dict[Past | None, Past] = {}
        for past in self.outer:
            size = past.recipe.size if numbers is None else numbers.number(past.recipe.size)
            clones[past] = Past(recipe_of(PLACEHOLDER, (size,), past.recipe.dtype))
        replacements: dict[int, Given] = {}

        def replace(x: Given) -> Given:
            replacement = replacements.get(id(x))
            if replacement is None:
                replacement = replacements[id(x)] = placeholders[number_of[id(x)]]
                if type(replacement) is Node and type(x) is Node:
                    replacement.past = clones.get(past_of(x))
            return replacement

        def layout(old: Layout) -> Layout:
            return old if numbers is None else numbers.layout(old)

        for past in sorted(self.stretch, key=in_order):
            sources: list[Kept] = []
            for operand in past.sources:
                is_input = type(operand) is Node or type(operand) is Scalar
                sources.append(replace(operand) if is_input else clones.get(past_of(operand)))
            recipe, offsets = past.recipe, past.offsets
            if numbers is not None:
                recipe, offsets = numbers.recipe(recipe), tuple(map(numbers.number, offsets))
            clones[past] = Past(recipe, tuple(sources), offsets)
        nodes: dict[Past, Any] = {clones[past]: replace(self.nodes[past]) for past in self.stretch if past in self.nodes}
        cotangents: list[tuple[Past, Part]] = []
        for past, cotangent in self.parts:
            view = Seen(replace(seen_of(cotangent).node), layout(seen_of(cotangent).layout))  # type: ignore[arg-type]
            cotangents.append(
                (clones[past], Placed(view, layout(cotangent.layout), cotangent.apart) if isinstance(cotangent, Placed) else view)
            )
        return Twins(clones, nodes, cotangents)
