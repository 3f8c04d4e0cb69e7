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

    def __init__(self, way: str, stretch: Sequence[Past], parts: list[tuple[Past, Part]], graph: Graph, asked: Collection[Past]) -> None:
        self.way, self.stretch, self.parts, self.nodes, self.asked = way, stretch, parts, graph.nodes, asked
        self.outer: list[Past] = []
        self.given: list[Given] = []
        self._number_of: dict[int, int] = {}
        place_of = {past: k for k, past in enumerate(stretch)}
        key: list[object] = [way, len(parts)]
        for past, part in parts:
            seen = seen_of(part)
            key += (place_of[past], self._given(seen.node), seen.node.recipe.done, seen.layout.form, seen.layout.offset)
            key += (part.layout.form, part.layout.offset, part.apart) if isinstance(part, Placed) else (None,)
        for short in short_again:
            found = short.outlined(stretch, graph.depends, asked, graph.nodes, self.given)
            if found is not None:
                words, given, self.outer = found
                self.given += given
                self.key = (*key, words)
                return
        self.key = (*key, *self._words(place_of, graph, asked))

    def _words(self, place_of: dict[Past, int], graph: Graph, asked: Collection[Past]) -> list[object]:
        """Return the part of the key that describes the tape nodes of the segment and their sources. The fast path encodes the same as
        bytes (`shortcut/code/pasts.py`).
        """
        words: list[object] = []
        for past in self.stretch:
            node = graph.nodes.get(past)
            words += (past.recipe, past.offsets, past in asked, None if node is None else self._given(node))
            for kept in past.sources:  # this loop visits every tape node of a result
                if kept is None:
                    words.append(None)
                    continue
                kind = type(kept)
                source: Any = kept if kind is Past else kept.past if kind is Node else None
                if source in graph.depends:
                    if source not in place_of:
                        place_of[source] = ~len(self.outer)
                        self.outer.append(source)
                    words += (place_of[source], source.recipe.size)
                if kind is Node:
                    words += ("value", self._given(kept), kept.recipe.shape)
                else:
                    words += ("number", self._given(kept)) if kind is Scalar else ("past",)
        return words

    def _given(self, x: Given) -> int:
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
        given = {id(x): k for k, x in enumerate(self.given)}
        places: dict[Any, int] = {past: k for k, past in enumerate(self.stretch)}
        places |= {past: ~k for k, past in enumerate(self.outer)}
        words: list[object] = [self.way, len(self.parts)]

        def add(layout: Layout) -> bool:
            numbers.append(layout.offset)
            return take_layout_apart(layout, words, numbers)

        for past, part in self.parts:
            seen = seen_of(part)
            words += (places[past], given[id(seen.node)], seen.node.dtype, len(seen.node.shape))
            numbers += seen.node.shape
            words.append(part.apart if isinstance(part, Placed) else None)
            if not add(seen.layout) or (isinstance(part, Placed) and not add(part.layout)):
                return None
        for past in self.stretch:
            node = self.nodes.get(past)
            words += (past in self.asked, None if node is None else given[id(node)], len(past.offsets))
            numbers += past.offsets
            if not take_apart(past.recipe, words, numbers):
                return None
            for kept in past.sources:
                source = past_of(kept)
                place = places.get(source)
                words.append(place)
                if place is not None:
                    numbers.append(source.recipe.size)  # type: ignore[union-attr]
                kind = type(kept)
                words.append(given[id(kept)] if kind is Node or kind is Scalar else kind is Past)
                if type(kept) is Node:
                    words.append(len(kept.recipe.shape))
                    numbers += kept.recipe.shape
        equal, others = equalities_of(numbers)
        return (tuple(words), equal), others

    def made_again(self, made: Callable[..., Pulled]) -> list[tuple[int, Part]]:
        """Return the results of `made`, replayed if this signature is in the cache.

        On a miss, `made` is recorded. `made` takes placeholders for `given` and, to trace with symbolic sizes, a map from numbers to
        symbolic sizes. With the fast path, a recording for different sizes may be used instead.
        """
        found = None
        for short in short_again:
            found = partial(short.found, self, made)
        return made_again(self.key, self.given, made, found)

    def twins(self, stand_ins: Sequence[Given], numbers: Traced | None = None) -> Twins:
        """Clone the tape nodes of the segment, with `stand_ins` in place of `given`. With `numbers`, shapes, layouts and offsets of the
        clones are symbolic.
        """
        number_of = {id(x): k for k, x in enumerate(self.given)}
        twins: dict[Past | None, Past] = {}
        for past in self.outer:
            size = past.recipe.size if numbers is None else numbers.number(past.recipe.size)
            twins[past] = Past(recipe_of(PLACEHOLDER, (size,), past.recipe.dtype))
        own: dict[int, Given] = {}

        def other(x: Given) -> Given:
            found = own.get(id(x))
            if found is None:
                found = own[id(x)] = stand_ins[number_of[id(x)]]
                if type(found) is Node and type(x) is Node:
                    found.past = twins.get(past_of(x))
            return found

        def layout(its: Layout) -> Layout:
            return its if numbers is None else numbers.layout(its)

        for past in sorted(self.stretch, key=in_order):
            sources: list[Kept] = []
            for kept in past.sources:
                is_given = type(kept) is Node or type(kept) is Scalar
                sources.append(other(kept) if is_given else twins.get(past_of(kept)))
            recipe, offsets = past.recipe, past.offsets
            if numbers is not None:
                recipe, offsets = numbers.recipe(recipe), tuple(map(numbers.number, offsets))
            twins[past] = Past(recipe, tuple(sources), offsets)
        nodes: dict[Past, Any] = {twins[past]: other(self.nodes[past]) for past in self.stretch if past in self.nodes}
        parts: list[tuple[Past, Part]] = []
        for past, part in self.parts:
            seen = Seen(other(seen_of(part).node), layout(seen_of(part).layout))  # type: ignore[arg-type]
            parts.append((twins[past], Placed(seen, layout(part.layout), part.apart) if isinstance(part, Placed) else seen))
        return Twins(twins, nodes, parts)
