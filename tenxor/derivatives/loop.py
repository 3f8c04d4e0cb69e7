"""The step function of `tx.scan`: traced once, then compiled to a plan that runs for every iteration (`plans/repeated.py`).

An iteration takes the carried values of the previous iteration and an element of each input sequence. It gives new carried values and an
element of each output sequence. Captured values are the same in every iteration.
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
    """Return a placeholder for a value that differs between iterations. It is a leaf of the tape if a tape is recorded and the dtype is
    differentiable.
    """
    node = Node.of(PLACEHOLDER, shape, dtype)
    return leaf(node)[0] if tracking.get() and is_smooth(dtype) else node


class TracedNodes(NamedTuple):
    """The nodes between the inputs and the results of a traced function.

    `order` lists the nodes, operands first. `captured` lists the remaining nodes they read. `instead` maps a pending constant to its clone
    in `order`, as another thread may compute the original.
    """

    order: list[Node]
    captured: list[Node]
    instead: dict[Node, Node]


NONE = TracedNodes([], [], {})


class Body(NamedTuple):
    """One traced iteration. `carries` and `xs` are placeholders for the carried values and sequence elements. `nexts` and `ys` are distinct
    nodes for the results, and `made` holds the nodes between.
    """

    carries: list[Node]
    xs: list[Node]
    nexts: list[Node]
    ys: list[Node]
    made: TracedNodes

    @staticmethod
    def of(carries: list[Node], xs: list[Node], nexts: Sequence[Seen], ys: Sequence[Seen]) -> Body | None:
        """Return the traced iteration from placeholders to results, or None if it cannot run as one plan per iteration.

        `carries` and `xs` are placeholders for carried values and sequence elements, `nexts` and `ys` the views returned by the function.
        None means that a value is missing, that an operation runs outside kernels, or that a tape node is watched or has an operation with
        a rule of its own.
        """
        inputs = {*carries, *xs}
        roots: list[Node] = []
        for view in nexts:
            roots.append(rooted(view, {*inputs, *roots}))
        results = roots[:]
        for view in ys:
            node = view.flat()
            results.append(node if node in results else rooted(view, inputs))
        traced_nodes = between(results, inputs)
        if traced_nodes is None:
            return None
        if any([has_own_rule(past.recipe) or past.watch is not None for node in traced_nodes.order if (past := past_of(node)) is not None]):
            return None
        return Body(carries, xs, roots, results[len(roots) :], traced_nodes)

    def program(self) -> Program:
        """Return the iteration without the traced nodes. Its inputs are the carried values, the sequence elements and the captured values.
        """
        return Program([*self.carries, *self.xs, *self.made.captured], self.made)


def rooted(view: Seen, distinct_from: Iterable[Node]) -> Node:
    """Return a pending node with the content of `view` that is none of the nodes `distinct_from`, so that the content gets its own buffer.
    """
    node = view.flat()
    if node.buffer is None and node.op is not PLACEHOLDER and node.op is not REINTERPRET and node.traced and node not in distinct_from:
        return node
    return Node.of(_POSITIVE, node.shape, node.dtype, (node,), (Layout.contiguous(node.shape),))


def between(roots: Sequence[Node], inputs: Iterable[Node]) -> TracedNodes | None:
    """Return the nodes on the paths from the nodes `inputs` to `roots`, and the captured nodes, which have the same content in each
    iteration.

    Return None if a path reads a placeholder not in `inputs`, or the result of an operation outside kernels (`Hosted`).
    """
    visited = set(inputs)
    root_set = set(roots)
    order: dict[Node, None] = {}
    captured: dict[Node, None] = {}
    instead: dict[Node, Node] = {}
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order[node] = None
        if node in visited:
            continue
        visited.add(node)
        recipe, sources, offsets = node.recipe, node.sources, node.offsets
        node_sources = [s for s in sources if type(s) is Node]
        if node.traced and (recipe.op is PLACEHOLDER or type(recipe.op) is Hosted):
            return None
        if node.buffer is not None or not (node.traced or node in root_set or not node_sources):
            captured[node] = None
        # A constant, computed in each iteration; cloned, as another thread may compute the original.
        elif not node_sources and not node.traced:
            clone = instead[node] = Node(recipe, sources, offsets)
            order[clone] = None
        else:
            stack.append((node, True))
            stack += [(s, False) for s in reversed(node_sources)]
    return TracedNodes(list(order), list(captured), instead)


class Step(NamedTuple):
    """One node of a program: the recipe, the sources as value numbers or scalars, the offsets, and whether the result is a constant for
    derivatives.
    """

    recipe: Recipe
    sources: tuple[int | Scalar, ...]
    offsets: tuple[int, ...]
    constant: bool


class Program:
    """A recorded computation that creates nodes from inputs. The inputs are numbered first, then the created nodes, in order."""

    def __init__(self, inputs: Sequence[Node] = (), traced_nodes: TracedNodes = NONE) -> None:
        self.number_of = {node: k for k, node in enumerate(inputs)}
        self.shapes = [(node.shape, node.dtype) for node in inputs]
        self.steps: list[Step] = []
        originals = {clone: node for node, clone in traced_nodes.instead.items()}
        for node in traced_nodes.order:
            sources = tuple([self.number_of[s] if type(s) is Node else s for s in node.sources])
            self.steps.append(Step(node.recipe, sources, node.offsets, node.past is CONSTANT))  # type: ignore[arg-type]
            self.number_of[node] = self.number_of[originals.get(node, node)] = len(inputs) + len(self.steps) - 1

    def made(self, inputs: Sequence[Seen], *, copies: bool = False) -> list[Node]:
        """Create the nodes from new `inputs`, one for each input of the program. Return the input nodes, then the new nodes, in order.

        With `copies`, an in-place write copies its operand first if the operand is an input or has several readers: a repeated plan cannot
        check for later reads.
        """
        nodes = [view.node for view in inputs]
        read_counts = Counter([k for step in self.steps for k in step.sources if type(k) is int]) if copies else Counter[int]()
        moved = {k: x.layout for k, x in enumerate(inputs) if not is_plain(x.layout) or x.layout.size < x.node.size}
        for recipe, numbers, offsets, constant in self.steps:
            sources = [nodes[k] if type(k) is int else k for k in numbers]
            flat = writes(recipe.op) or recipe.op is REINTERPRET  # these operations read the whole content in order
            first_source = numbers[0] if numbers else None
            with untracked() if constant else nullcontext():
                is_copied = (
                    flat
                    and type(first_source) is int
                    and first_source < len(inputs)
                    and (first_source in moved or (copies and writes(recipe.op)))
                )
                if is_copied:
                    assert type(first_source) is int
                    sources[0] = _copy_flat(inputs[first_source])
                elif type(first_source) is int and read_counts[first_source] > 1 and writes(recipe.op):
                    sources[0] = _copy_flat(Seen(nodes[first_source]))
                moved_indices = [j for j, k in enumerate(numbers) if k in moved and not (is_copied and j == 0)]
                if not moved_indices:
                    nodes.append(Node(recipe, tuple(sources), offsets))  # type: ignore[arg-type]
                    continue
                layouts = [None if form is None else form.layout.at(offset) for form, offset in zip(recipe.forms, offsets, strict=False)]
                for j in moved_indices:
                    layouts[j] = layouts[j].over(moved[numbers[j]])  # type: ignore[index,union-attr]
                target = None if recipe.target is None else recipe.target.layout.at(offsets[-1])
                nodes.append(Node.of(recipe.op, recipe.shape, recipe.dtype, tuple(sources), tuple(layouts), target))  # type: ignore[arg-type]
        return nodes


def _copy_flat(x: Seen) -> Node:
    """Return a 1-d copy of a view, pending."""
    size = (x.layout.size,)
    return Node.of(_POSITIVE, size, x.dtype, (x.node,), (x.layout.reshape(size),))


def is_plain(layout: Layout) -> bool:
    """Return whether a layout is contiguous from offset 0."""
    return layout.offset == 0 and layout.is_contiguous()


def is_affine(layout: Layout) -> bool:
    """Return whether a layout is a single view with a constant stride along each axis, without view chain and offset tables."""
    return layout.base is None and layout.tables is None


class Where(NamedTuple):
    """The location of a value in iteration `t` of a loop: in source `k`, viewed through `layout`, moved by `start + t * step` elements."""

    k: int
    layout: Layout
    start: int
    step: int

    @staticmethod
    def of(k: int, turns: Layout) -> Where:
        """Return the location of the elements of a sequence, stored in source `k` of the loop. `turns` is the layout of the whole sequence,
        with the iterations along the first axis.
        """
        step = turns.strides[0]
        element_layout = Layout(turns.shape[1:], turns.strides[1:], turns.offset)
        low = (element_layout.range() or (element_layout.offset, 0))[0]
        return Where(k, element_layout.at(element_layout.offset - low), low, step)

    def seen(self, node: Node, turn: int) -> Seen:
        """Return the view of the value in iteration `turn`; `node` is the source."""
        return Seen(node, self.layout.at(self.layout.offset + self.start + turn * self.step))

    def every(self, turns: int) -> Layout:
        """Return the layout of the values of all `turns` iterations in the source, with the iterations along the first axis."""
        layout = self.layout
        return Layout((turns, *layout.shape), (self.step, *layout.strides), layout.offset + self.start)

    def stands(self, dtype: DType) -> Seen:
        """Return a placeholder without memory, for the planner, of the part of the source read in an iteration."""
        reach = self.layout.range()
        shape = self.layout.shape if is_plain(self.layout) else (0 if reach is None else reach[1] + 1,)
        return Seen(data(NOTHING, shape, dtype), self.layout)

    def place(self, node: Node, order: np.ndarray) -> Place:
        """Return the memory that each iteration reads or writes, in the buffer of the source `node`, which is in memory.

        `order` lists the iterations `t` in the order of execution.
        """
        assert node.buffer is not None
        reach, itemsize = self.layout.range(), node.dtype.itemsize
        starts = order * (self.step * itemsize) + self.start * itemsize if self.step else np.full(1, self.start * itemsize)
        return Place(node.buffer, starts, 0 if reach is None else (reach[1] + 1) * itemsize)


class Slots(NamedTuple):
    """A ring buffer of `slot_count` slots for a carried value. The first slot holds the initial value. Iteration `t` reads slot `t %
    slot_count` and writes the next slot.
    """

    buffer: Buffer
    slot_count: int
    nbytes: int

    @staticmethod
    def of(shape: tuple[int, ...], dtype: DType, turns: int, initial: Node | None, *, every: bool) -> Slots:
        """Allocate `turns + 1` slots if `every`, to keep the values of every iteration, else two. The first slot is filled from the node
        `initial`, which must be in memory, or with 0 if `initial` is None.
        """
        count, nbytes = turns + 1 if every else 2, prod(shape) * dtype.itemsize
        slots = Slots(allocate(count * nbytes, "scan", (count, *shape), dtype), count, nbytes)
        slots.buffer.array[:nbytes] = 0 if initial is None else initial.buffer.array[:nbytes]  # type: ignore[union-attr]
        return slots

    def place(self, turns: int, later: int) -> Place:
        """Return the memory of the slot that each of `turns` iterations reads (`later` 0) or writes (`later` 1)."""
        return Place(self.buffer, (np.arange(turns) + later) % self.slot_count * self.nbytes, self.nbytes)

    def last(self, turns: int) -> Buffer:
        """Return a copy of the slot that the last of `turns` iterations wrote, in a new buffer."""
        copy, start = allocate(self.nbytes, "scan"), turns % self.slot_count * self.nbytes
        copy.array[: self.nbytes] = self.buffer.array[start : start + self.nbytes]
        return copy


def ran(roots: Sequence[Node], placed: Mapping[Node, Place], turns: int) -> bool:
    """Run the plan that computes `roots` `turns` times, and return True; return False, having computed nothing, if it cannot be repeated.

    `placed` maps the roots, and each node in memory, to the memory that each iteration writes or reads for them.
    """
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
    """Return a node with the content and the tape node of `node`, in memory that is not externally shared. `node` must be in memory."""
    assert node.buffer is not None
    if not is_pinned(node):
        return node
    buffer = allocate(node.recipe.nbytes, "scan", node.shape, node.dtype)
    buffer.array[: node.recipe.nbytes] = node.buffer.array[: node.recipe.nbytes]
    copy = data(buffer, node.shape, node.dtype)
    copy.past = node.past
    return copy


