"""The step function of `tx.scan`: traced once, then compiled to a plan that runs for every iteration (`runtime/repeated_plans.py`). An
iteration takes the carried values of the previous iteration and an element of each input sequence. It gives new carried values and an
element of each output sequence. Captured values are the same in every iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from math import prod

import numpy as np

from .._utils.records import NamedTuple
from ..codegen.interface import BufferWindow
from ..dtypes import DType
from ..graph.node import (
    PLACEHOLDER,
    REINTERPRET,
    TRACED,
    TRACED_CONSTANT,
    ExternalOp,
    Node,
    Recipe,
    Scalar,
    disable_tape,
    intern_recipe,
    is_externally_shared,
    is_write,
    make_data_node,
    tape_mode,
)
from ..layout import Layout
from ..memory.buffer import Buffer, allocate
from ..ops import OPS
from ..runtime.graph_signature import capture_signature
from ..runtime.realize import compute_lock, get_plan
from ..runtime.repeated_plans import RepeatedPlan, is_repeatable
from .formula_derivatives import is_smooth
from .node_view import NodeView
from .rule_table import has_custom_rule
from .tape import TapeNode, get_tape_node

_POSITIVE = OPS["positive"]
EMPTY_BUFFER = allocate(0)


def make_placeholder(shape: tuple[int, ...], dtype: DType) -> Node:
    """Return a placeholder of `shape` and `dtype` for a value that differs between iterations. The placeholder is a leaf of the tape if a
    tape is recorded and the dtype is differentiable, and has the mark `TRACED` otherwise.
    """
    node = Node(intern_recipe(PLACEHOLDER, shape, dtype))
    is_leaf = tape_mode.get() and is_smooth(dtype)
    node.tape_node = TapeNode(node.recipe, is_traced=True) if is_leaf else TRACED
    return node


class TracedNodes(NamedTuple):
    """The nodes between the inputs and the results of a traced function.

    `order` lists the nodes, operands first. `captured` lists the remaining nodes they read, besides the inputs: values equal in each
    iteration. `constant_clones` maps a pending constant, a node computed from numbers alone, to its clone in `order`, as another thread may
    compute the original.
    """

    order: list[Node]
    captured: list[Node]
    constant_clones: dict[Node, Node]


NO_TRACED_NODES = TracedNodes([], [], {})


class TracedStep(NamedTuple):
    """The trace of one iteration: the placeholders `carries` and `xs` for carried values and sequence elements, and the views
    `next_carries` and `ys` that the traced function returned.
    """

    carries: list[Node]
    xs: list[Node]
    next_carries: list[NodeView]
    ys: list[NodeView]


class ScanBody(NamedTuple):
    """One traced iteration. `carries` and `xs` are placeholders for the carried values and sequence elements. `next_carries` and `ys`
    are distinct nodes for the results, and `traced_nodes` holds the nodes between.
    """

    carries: list[Node]
    xs: list[Node]
    next_carries: list[Node]
    ys: list[Node]
    traced_nodes: TracedNodes

    @staticmethod
    def of(step: TracedStep) -> ScanBody | None:
        """Return the traced iteration `step` from placeholders to results, or None if it cannot run as one plan per iteration.

        None means that a result reads a further placeholder, or that an operation runs outside kernels. None also stands for a tape node
        with a handler (`GradHandler`), or with a rule of its own.
        """
        inputs = {*step.carries, *step.xs}
        roots: list[Node] = []
        for view in step.next_carries:
            roots.append(make_output_node(view, {*inputs, *roots}))
        results = roots[:]
        for view in step.ys:
            node = view.to_node()
            results.append(node if node in results else make_output_node(view, inputs))
        traced_nodes = collect_between(results, inputs)
        if traced_nodes is None:
            return None
        if any(
            [
                has_custom_rule(tape_node.recipe) or tape_node.grad_hook is not None
                for node in traced_nodes.order
                if (tape_node := get_tape_node(node)) is not None
            ]
        ):
            return None
        return ScanBody(step.carries, step.xs, roots, results[len(roots) :], traced_nodes)

    def to_program(self) -> NodeProgram:
        """Return a program that creates the nodes of the iteration from new inputs.

        The inputs are the carried values, the sequence elements and the captured values, in this order. `value_numbers` of the program
        gives the numbers of the nodes in `next_carries` and `ys`. The program refers to traced nodes only by this dict; the caller empties
        it to free them.
        """
        return NodeProgram([*self.carries, *self.xs, *self.traced_nodes.captured], self.traced_nodes)


def make_output_node(view: NodeView, distinct_from: Iterable[Node]) -> Node:
    """Return a pending node with the content of `view`, so that the content gets a buffer of its own.

    The result is the node `view.to_node()` if it is not in `distinct_from`, is pending, and depends on an argument of the traced function.
    A placeholder, or a reinterpretation of other bytes, does not serve. Otherwise the result is a pending copy, recorded on the tape if a
    tape is recorded.
    """
    node = view.to_node()
    if node.buffer is None and node.op is not PLACEHOLDER and node.op is not REINTERPRET and node.is_traced and node not in distinct_from:
        return node
    return Node.of(_POSITIVE, node.shape, node.dtype, (node,), (Layout.contiguous(node.shape),))


def collect_between(roots: Sequence[Node], inputs: Iterable[Node]) -> TracedNodes | None:
    """Return the nodes on the paths from the nodes `inputs` to `roots`, operands first, and the captured nodes that they read.

    A captured node has the same content in each iteration. It is in memory, or depends on no argument of the traced function and is no
    root. Pending constants are cloned (`TracedNodes`). Return None if a path reads a placeholder not in `inputs`, or the result of an
    operation outside kernels (`ExternalOp`).
    """
    visited = set(inputs)
    root_set = set(roots)
    order: dict[Node, None] = {}
    captured: dict[Node, None] = {}
    clones: dict[Node, Node] = {}
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
        if node.is_traced and (recipe.op is PLACEHOLDER or type(recipe.op) is ExternalOp):
            return None
        if node.buffer is not None or not (node.is_traced or node in root_set or not node_sources):
            captured[node] = None
        # A constant, computed in each iteration; cloned, as another thread may compute the original.
        elif not node_sources and not node.is_traced:
            clone = clones[node] = Node(recipe, sources, offsets)
            order[clone] = None
        else:
            stack.append((node, True))
            stack += [(s, False) for s in reversed(node_sources)]
    return TracedNodes(list(order), list(captured), clones)


class ProgramStep(NamedTuple):
    """One node of a program: the `recipe`, the `sources` as value numbers or scalars, and the `offsets`. `constant` says whether the result
    is a constant for derivatives.
    """

    recipe: Recipe
    sources: tuple[int | Scalar, ...]
    offsets: tuple[int, ...]
    constant: bool


class NodeProgram:
    """A recorded computation that creates nodes from inputs. Values are numbered: the inputs first, then the created nodes, in order.

    The created nodes are recorded from `traced_nodes.order`, nodes computed from `inputs` and numbers. `value_numbers` maps the recorded
    nodes to their numbers. `input_types` lists shape and dtype of each input, and `steps` has a step for each created node.
    """

    def __init__(self, inputs: Sequence[Node] = (), traced_nodes: TracedNodes = NO_TRACED_NODES) -> None:
        self.value_numbers = {node: k for k, node in enumerate(inputs)}
        self.input_types = [(node.shape, node.dtype) for node in inputs]
        self.steps: list[ProgramStep] = []
        originals = {clone: node for node, clone in traced_nodes.constant_clones.items()}
        for node in traced_nodes.order:
            sources = tuple([self.value_numbers[s] if type(s) is Node else s for s in node.sources])
            self.steps.append(ProgramStep(node.recipe, sources, node.offsets, node.tape_node is TRACED_CONSTANT))  # type: ignore[arg-type]
            self.value_numbers[node] = self.value_numbers[originals.get(node, node)] = len(inputs) + len(self.steps) - 1

    def instantiate(self, inputs: Sequence[NodeView], *, copy_before_write: bool = False) -> list[Node]:
        """Create the nodes from new `inputs`, one for each input of the program. Return the input nodes, then the new nodes, in order.

        The number of a value is the index in the result. The inputs must have the shapes and dtypes of `input_types`; layouts are free.
        With `copy_before_write`, an in-place write copies its operand first if the operand is an input or has several readers. Repeated
        plans need this, as they cannot check for later reads.
        """
        nodes = [view.node for view in inputs]
        read_counts = Counter([k for step in self.steps for k in step.sources if type(k) is int]) if copy_before_write else Counter[int]()
        moved = {k: x.layout for k, x in enumerate(inputs) if not is_identity_layout(x.layout) or x.layout.size < x.node.size}
        for recipe, numbers, offsets, constant in self.steps:
            sources = [nodes[k] if type(k) is int else k for k in numbers]
            flat = is_write(recipe.op) or recipe.op is REINTERPRET  # these operations read the whole content in order
            first_source = numbers[0] if numbers else None
            with disable_tape() if constant else nullcontext():
                is_copied = (
                    flat
                    and type(first_source) is int
                    and first_source < len(inputs)
                    and (first_source in moved or (copy_before_write and is_write(recipe.op)))
                )
                if is_copied:
                    assert type(first_source) is int
                    sources[0] = _copy_flat(inputs[first_source])
                elif type(first_source) is int and read_counts[first_source] > 1 and is_write(recipe.op):
                    sources[0] = _copy_flat(NodeView(nodes[first_source]))
                moved_indices = [j for j, k in enumerate(numbers) if k in moved and not (is_copied and j == 0)]
                if not moved_indices:
                    nodes.append(Node(recipe, tuple(sources), offsets))  # type: ignore[arg-type]
                    continue
                layouts = [
                    None if layout_key is None else layout_key.layout.at(offset)
                    for layout_key, offset in zip(recipe.layout_keys, offsets, strict=False)
                ]
                for j in moved_indices:
                    layouts[j] = layouts[j].over(moved[numbers[j]])  # type: ignore[index,union-attr]
                target = None if recipe.target is None else recipe.target.layout.at(offsets[-1])
                nodes.append(Node.of(recipe.op, recipe.shape, recipe.dtype, tuple(sources), tuple(layouts), target))  # type: ignore[arg-type]
        return nodes


def _copy_flat(x: NodeView) -> Node:
    """Return a 1-d copy of the view `x`, pending."""
    size = (x.layout.size,)
    return Node.of(_POSITIVE, size, x.dtype, (x.node,), (x.layout.reshape(size),))


def is_identity_layout(layout: Layout) -> bool:
    """Return whether `layout` is contiguous from offset 0, so that a view through it is the node itself if the sizes are equal."""
    return layout.offset == 0 and layout.is_contiguous()


def is_affine(layout: Layout) -> bool:
    """Return whether `layout` is a single view with a constant stride along each axis, without view chain and offset tables."""
    return layout.base is None and layout.tables is None


class ValueLocation(NamedTuple):
    """The location of a value of `dtype` in each iteration of a loop. The value is in source `source_index` of the loop
    (`CompiledIteration`).

    Iteration `t` reads it through `layout`, moved by `start + t * step` elements.
    """

    source_index: int
    dtype: DType
    layout: Layout
    start: int
    step: int

    @staticmethod
    def of(source_index: int, dtype: DType, layout: Layout) -> ValueLocation:
        """Return the location of the elements of a sequence, stored in source `source_index` of the loop. `layout` is the layout of the
        whole sequence, with the iterations along the first axis, and must have strides only.

        The result's `layout` has the lowest element at offset 0, and `start` has the offset taken out.
        """
        step = layout.strides[0]
        element_layout = Layout(layout.shape[1:], layout.strides[1:], layout.offset)
        low = (element_layout.range() or (element_layout.offset, 0))[0]
        return ValueLocation(source_index, dtype, element_layout.at(element_layout.offset - low), low, step)

    def view_at(self, node: Node, iteration: int) -> NodeView:
        """Return the view of the value in iteration `iteration`, counted from 0; `node` is the source. Nothing is copied."""
        return NodeView(node, self.layout.at(self.layout.offset + self.start + iteration * self.step))

    def stack_iterations(self, iteration_count: int) -> Layout:
        """Return the layout of the values of all `iteration_count` iterations in the source, with the iterations along the first axis."""
        layout = self.layout
        return Layout((iteration_count, *layout.shape), (self.step, *layout.strides), layout.offset + self.start)

    def make_iteration_view(self) -> NodeView:
        """Return a view that stands for the value of one iteration while the planner makes the plan. The node has no memory.

        The node is not the whole source: it begins where the iteration begins, and ends with the last element read. The view
        has the layout `layout`.
        """
        reach = self.layout.range()
        shape = self.layout.shape if is_identity_layout(self.layout) else (0 if reach is None else reach[1] + 1,)
        return NodeView(make_data_node(EMPTY_BUFFER, shape, self.dtype), self.layout)

    def to_window(self, buffer_index: int, order: np.ndarray) -> BufferWindow:
        """Return the memory that each iteration reads or writes, in buffer `buffer_index` of the loop, that of the source.

        `order` lists the iterations `t` in the order of execution. A value equal in every iteration (`step` is 0) gets a single start.
        """
        reach, itemsize = self.layout.range(), self.dtype.itemsize
        starts = order * (self.step * itemsize) + self.start * itemsize if self.step else np.full(1, self.start * itemsize)
        return BufferWindow(buffer_index, starts, 0 if reach is None else (reach[1] + 1) * itemsize)


class RingBuffer(NamedTuple):
    """The dimensions of a ring buffer for a carried value: `slot_count` slots of `nbytes` bytes each. The first slot holds the initial
    value.

    Iteration `t` reads slot `t % slot_count` and writes the next slot, the first after the last.
    """

    slot_count: int
    nbytes: int

    @staticmethod
    def of(shape: tuple[int, ...], dtype: DType, iteration_count: int, *, keep_all: bool) -> RingBuffer:
        """Return the ring buffer for values of `shape` and `dtype`: with `iteration_count + 1` slots if `keep_all`, to keep the values of
        every iteration, else with two.

        No memory is allocated.
        """
        return RingBuffer(iteration_count + 1 if keep_all else 2, prod(shape) * dtype.itemsize)

    def allocate(self, initial: Node | None) -> Buffer:
        """Return new memory for the slots. The first slot is filled from the node `initial`, which must be in memory; None stands for 0.

        The further slots are uninitialised.
        """
        buffer = allocate(self.slot_count * self.nbytes, "scan")
        buffer.array[: self.nbytes] = 0 if initial is None else initial.buffer.array[: self.nbytes]  # type: ignore[union-attr]
        return buffer

    def to_window(self, buffer_index: int, iteration_count: int, slot_shift: int) -> BufferWindow:
        """Return the memory that each of `iteration_count` iterations reads (`slot_shift` 0) or writes (`slot_shift` 1): a slot for each
        iteration. After the last slot comes the first.

        The slots are in buffer number `buffer_index` of the loop.
        """
        return BufferWindow(buffer_index, (np.arange(iteration_count) + slot_shift) % self.slot_count * self.nbytes, self.nbytes)

    def copy_last(self, buffer: Buffer, iteration_count: int) -> Buffer:
        """Return a copy of the slot in `buffer` that the last of `iteration_count` iterations wrote, in a new buffer."""
        copy, start = allocate(self.nbytes, "scan"), iteration_count % self.slot_count * self.nbytes
        copy.array[: self.nbytes] = buffer.array[start : start + self.nbytes]
        return copy


class RepeatedGraph:
    """Pending nodes, `roots`, whose plan runs `iteration_count` times, on the memory of each run.

    `windows` maps the roots, and each node in memory, to the memory that each iteration writes or reads for them, in one of `buffer_count`
    buffers.
    """

    def __init__(self, roots: Sequence[Node], windows: Mapping[Node, BufferWindow], buffer_count: int, iteration_count: int) -> None:
        self.roots, self.windows, self.buffer_count, self.iteration_count = list(roots), windows, buffer_count, iteration_count
        self._repeated_plan: RepeatedPlan | None = None

    def run(self, buffers: Sequence[Buffer]) -> bool:
        """Run all iterations on the memory `buffers`, and return True. If the plan cannot be repeated, compute nothing and return False.

        `buffers` has `buffer_count` buffers, as numbered in `windows`. The nodes of the graph stay pending. The plan is kept for later
        runs.
        """
        with compute_lock:
            plan = None
            while plan is None:
                signature = capture_signature(self.roots)
                plan = get_plan(signature)
            repeated_plan = self._repeated_plan
            if repeated_plan is None or repeated_plan.plan is not plan:  # a better plan may have been made meanwhile
                if not is_repeatable(plan, signature, self.windows):
                    return False
                repeated_plan = RepeatedPlan(plan, signature, self.windows, self.buffer_count, self.iteration_count)
                self._repeated_plan = repeated_plan
            repeated_plan.run(buffers)
            return True


def ensure_unshared(node: Node) -> Node:
    """Return a node with the content and the tape node of `node`, in memory that is not externally shared. `node` must be in memory."""
    assert node.buffer is not None
    if not is_externally_shared(node):
        return node
    buffer = allocate(node.recipe.nbytes, "scan", node.shape, node.dtype)
    buffer.array[: node.recipe.nbytes] = node.buffer.array[: node.recipe.nbytes]
    copy = make_data_node(buffer, node.shape, node.dtype)
    copy.tape_node = node.tape_node
    return copy
