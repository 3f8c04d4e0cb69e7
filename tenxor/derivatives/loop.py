"""A step that is done over and over along a sequence: traced once, and run from then on as one plan, turn by turn (`plans/repeated.py`).

A turn takes what is carried on from the one before and its part of sequences; it gives what is carried on, and its part of other
sequences. What it captures is the same in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from math import prod

import numpy as np

from ..backend.interface import Place
from ..dtypes import DType
from ..layout import Layout
from ..memory import Buffer, allocate
from ..node import (
    CONSTANT,
    PLACEHOLDER,
    REINTERPRET,
    Hosted,
    Node,
    Recipe,
    Scalar,
    data,
    is_pinned,
    tracking,
    untracked,
    writes,
)
from ..ops import OPS
from ..past import past_of
from ..plans.pattern import taken
from ..plans.repeated import is_repeatable, repeat
from ..realize import lock, plan_of
from ..records import NamedTuple
from .leaves import leaf
from .partials import is_smooth
from .rules import has_own_rule
from .seen import Seen

_POSITIVE = OPS["positive"]
NOTHING = allocate(0)


def stand_in(shape: tuple[int, ...], dtype: DType) -> Node:
    """What stands for something that differs from turn to turn; derivatives may be taken by it, if any are followed."""
    node = Node.of(PLACEHOLDER, shape, dtype)
    return leaf(node)[0] if tracking.get() and is_smooth(dtype) else node


class Made(NamedTuple):
    """What is made on a way: its nodes, in order, what else they read, and what stands for some of that which others may have computed."""

    order: list[Node]
    captured: list[Node]
    instead: dict[Node, Node]


NONE = Made([], [], {})


class Body(NamedTuple):
    """One turn: what it is given, what it gives, each a node of its own, and all that is made between."""

    carries: list[Node]
    xs: list[Node]
    nexts: list[Node]
    ys: list[Node]
    made: Made

    @staticmethod
    def of(carries: list[Node], xs: list[Node], nexts: Sequence[Seen], ys: Sequence[Seen]) -> Body | None:
        """That between stand-ins and what was made of them; None if it cannot be run turn by turn."""
        given = {*carries, *xs}
        roots: list[Node] = []
        for seen in nexts:
            roots.append(rooted(seen, {*given, *roots}))
        own = roots[:]
        for seen in ys:
            node = seen.flat()
            own.append(node if node in own else rooted(seen, given))
        made = between(own, given)
        if made is None:
            return None
        if any([has_own_rule(past.recipe) or past.watch is not None for node in made.order if (past := past_of(node)) is not None]):
            return None
        return Body(carries, xs, roots, own[len(roots) :], made)

    def program(self) -> Program:
        """It without the nodes that it was traced with: given are what is carried, parts of sequences, and what is captured."""
        return Program([*self.carries, *self.xs, *self.made.captured], self.made)


def rooted(seen: Seen, others: Iterable[Node]) -> Node:
    """A node of its own with this as its content, none of the others; its content gets memory of its own."""
    node = seen.flat()
    if node.buffer is None and node.op is not PLACEHOLDER and node.op is not REINTERPRET and node.traced and node not in others:
        return node
    return Node.of(_POSITIVE, node.shape, node.dtype, (node,), (Layout.contiguous(node.shape),))


def between(roots: Sequence[Node], given: Iterable[Node]) -> Made | None:
    """All that is made on the way from what is given to the roots, and what else it reads: that is the same in each turn. None if
    something has no value that is not given, or is none of a kernel's.
    """
    known = set(given)
    asked = set(roots)
    order: dict[Node, None] = {}
    captured: dict[Node, None] = {}
    instead: dict[Node, Node] = {}
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order[node] = None
        if node in known:
            continue
        known.add(node)
        recipe, sources, offsets = node.recipe, node.sources, node.offsets
        its = [s for s in sources if type(s) is Node]
        if node.traced and (recipe.op is PLACEHOLDER or type(recipe.op) is Hosted):
            return None
        if node.buffer is not None or not (node.traced or node in asked or not its):
            captured[node] = None
        elif not its and not node.traced:  # a number, made anew in each turn; whoever else has the node may compute it
            own = instead[node] = Node(recipe, sources, offsets)
            order[own] = None
        else:
            stack.append((node, True))
            stack += [(s, False) for s in reversed(its)]
    return Made(list(order), list(captured), instead)


class Step(NamedTuple):
    """A node: its recipe, what it reads, by number, its offsets, and whether derivatives are not to look at it."""

    recipe: Recipe
    sources: tuple[int | Scalar, ...]
    offsets: tuple[int, ...]
    constant: bool


class Program:
    """What makes nodes of others: first those that are given have numbers, then those that are made."""

    def __init__(self, given: Sequence[Node] = (), made: Made = NONE) -> None:
        self.number_of = {node: k for k, node in enumerate(given)}
        self.shapes = [(node.shape, node.dtype) for node in given]
        self.steps: list[Step] = []
        others = {own: node for node, own in made.instead.items()}
        for node in made.order:
            sources = tuple([self.number_of[s] if type(s) is Node else s for s in node.sources])
            self.steps.append(Step(node.recipe, sources, node.offsets, node.past is CONSTANT))  # type: ignore[arg-type]
            self.number_of[node] = self.number_of[others.get(node, node)] = len(given) + len(self.steps) - 1

    def made(self, given: Sequence[Seen], *, copies: bool = False) -> list[Node]:
        """The same of others. With `copies` nothing that is given is written over, nor what others read: a plan that runs over and over
        cannot ask whether somebody still does.
        """
        every = [seen.node for seen in given]
        read = Counter([k for step in self.steps for k in step.sources if type(k) is int]) if copies else Counter[int]()
        moved = {k: x.layout for k, x in enumerate(given) if not is_plain(x.layout) or x.layout.size < x.node.size}
        for recipe, numbers, offsets, constant in self.steps:
            sources = [every[k] if type(k) is int else k for k in numbers]
            flat = writes(recipe.op) or recipe.op is REINTERPRET  # these read contents as they lie
            first = numbers[0] if numbers else None
            with untracked() if constant else nullcontext():
                apart = flat and type(first) is int and first < len(given) and (first in moved or (copies and writes(recipe.op)))
                if apart:
                    assert type(first) is int
                    sources[0] = _flat(given[first])
                elif type(first) is int and read[first] > 1 and writes(recipe.op):
                    sources[0] = _flat(Seen(every[first]))
                others = [j for j, k in enumerate(numbers) if k in moved and not (apart and j == 0)]
                if not others:
                    every.append(Node(recipe, tuple(sources), offsets))  # type: ignore[arg-type]
                    continue
                layouts = [None if form is None else form.layout.at(offset) for form, offset in zip(recipe.forms, offsets, strict=False)]
                for j in others:
                    layouts[j] = layouts[j].over(moved[numbers[j]])  # type: ignore[index,union-attr]
                target = None if recipe.target is None else recipe.target.layout.at(offsets[-1])
                every.append(Node.of(recipe.op, recipe.shape, recipe.dtype, tuple(sources), tuple(layouts), target))  # type: ignore[arg-type]
        return every


def _flat(x: Seen) -> Node:
    """A copy of what is seen, in one axis."""
    size = (x.layout.size,)
    return Node.of(_POSITIVE, size, x.dtype, (x.node,), (x.layout.reshape(size),))


def is_plain(layout: Layout) -> bool:
    """Whether it reads all elements in their order, from the first on."""
    return layout.offset == 0 and layout.is_contiguous()


def is_affine(layout: Layout) -> bool:
    """Whether it is one view, with equal steps along each axis."""
    return layout.base is None and layout.tables is None


class Where(NamedTuple):
    """Where something lies in turn `t`: in the content of source `k`, seen through a layout `start + t * step` elements on."""

    k: int
    layout: Layout
    start: int
    step: int

    @staticmethod
    def of(k: int, turns: Layout) -> Where:
        """That of the parts of a sequence, along the first axis of what it is seen through."""
        step = turns.strides[0]
        one = Layout(turns.shape[1:], turns.strides[1:], turns.offset)
        low = (one.range() or (one.offset, 0))[0]
        return Where(k, one.at(one.offset - low), low, step)

    def seen(self, node: Node, turn: int) -> Seen:
        """It in one turn."""
        return Seen(node, self.layout.at(self.layout.offset + self.start + turn * self.step))

    def every(self, turns: int) -> Layout:
        """What it is seen through in all turns."""
        one = self.layout
        return Layout((turns, *one.shape), (self.step, *one.strides), one.offset + self.start)

    def stands(self, dtype: DType) -> Seen:
        """What stands for its memory in a pattern."""
        reach = self.layout.range()
        shape = self.layout.shape if is_plain(self.layout) else (0 if reach is None else reach[1] + 1,)
        return Seen(data(NOTHING, shape, dtype), self.layout)

    def place(self, node: Node, order: np.ndarray) -> Place:
        """Its memory, in turns that come in some order."""
        assert node.buffer is not None
        reach, itemsize = self.layout.range(), node.dtype.itemsize
        starts = order * (self.step * itemsize) + self.start * itemsize if self.step else np.full(1, self.start * itemsize)
        return Place(node.buffer, starts, 0 if reach is None else (reach[1] + 1) * itemsize)


class Slots(NamedTuple):
    """Memory in which something is carried on, so `many` slots: the first has what is given to the first turn, and each turn writes into
    the next, which after the last is the first.
    """

    buffer: Buffer
    many: int
    nbytes: int

    @staticmethod
    def of(shape: tuple[int, ...], dtype: DType, turns: int, first: Node | None, *, every: bool) -> Slots:
        """Slots for so many turns and one more, or for this and the next; in the first is a content that is in memory, or 0."""
        count, nbytes = turns + 1 if every else 2, prod(shape) * dtype.itemsize
        found = Slots(allocate(count * nbytes, "scan", (count, *shape), dtype), count, nbytes)
        found.buffer.array[:nbytes] = 0 if first is None else first.buffer.array[:nbytes]  # type: ignore[union-attr]
        return found

    def place(self, turns: int, later: int) -> Place:
        """What is read in each turn, or one `later`, written."""
        return Place(self.buffer, (np.arange(turns) + later) % self.many * self.nbytes, self.nbytes)

    def last(self, turns: int) -> Buffer:
        """A copy of what the last turn wrote."""
        found, start = allocate(self.nbytes, "scan"), turns % self.many * self.nbytes
        found.array[: self.nbytes] = self.buffer.array[start : start + self.nbytes]
        return found


def ran(roots: Sequence[Node], placed: Mapping[Node, Place], turns: int) -> bool:
    """Run what computes the roots so many times, all that is in memory being `placed`; false, and nothing done, if it cannot be run so."""
    with lock:
        plan = None
        while plan is None:
            pattern = taken(list(roots))
            plan = plan_of(pattern)
        if not is_repeatable(plan, pattern, placed):
            return False
        repeat(plan, pattern, placed, turns)
        return True


def own(node: Node) -> Node:
    """A node in memory that nobody else may write, with the past of another."""
    assert node.buffer is not None
    if not is_pinned(node):
        return node
    buffer = allocate(node.recipe.nbytes, "scan", node.shape, node.dtype)
    buffer.array[: node.recipe.nbytes] = node.buffer.array[: node.recipe.nbytes]
    found = data(buffer, node.shape, node.dtype)
    found.past = node.past
    return found


