"""Compiled iterations of scan loops: found by their traces, with the loops forward and backward for each number of iterations. Each value
of an iteration has a number, in the order of the iteration's program (`NodeProgram`). The location of a value tells where the memory of
each iteration's value is (`ValueLocation`). The trace of an iteration is made of nodes that read placeholders, nodes without a value.

All of a loop but its memory follows from the iteration, the layouts of the sequences and the number of iterations, and is kept for the next
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from .._utils import upcalls
from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..codegen.interface import BufferWindow
from ..dtypes import DType
from ..graph.node import Node, Scalar, make_data_node, tape_mode
from ..layout import Layout
from ..runtime.realize import realize
from .formula_derivatives import is_smooth
from .node_view import NodeView
from .scan_backward import AccumulatedCotangent, BackwardProgram, trace_backward
from .scan_body import EMPTY_BUFFER, NodeProgram, RepeatedGraph, RingBuffer, ScanBody, TracedStep, ValueLocation
from .scan_panels import PanelProgram
from .tape import TapeNode, get_tape_node

MAX_CACHED_LOOPS = 8  # cached loops of an iteration, and cached layouts of cotangents
T = TypeVar("T")

_iteration_cache: BoundedCache[CompiledIteration] = register("iterations of scan", "a compiled iteration, by the body of the loop")(
    BoundedCache(1 << 7)
)
_loop_cache: BoundedCache[tuple[ForwardLoop, list[int]]] = register(
    "loops of scan", "a loop and which nodes are its captured values, by the encoded trace of an iteration, or by a compiled iteration"
)(BoundedCache(1 << 7))


def find_loop(
    step: TracedStep, carries: Sequence[NodeView], xs: Sequence[NodeView], iteration_count: int
) -> tuple[ForwardLoop, list[Node]] | None:
    """Return the loop of `iteration_count` iterations of `step`, and the captured nodes in the order of the loop's sources.

    Return None if the loop cannot run as one plan per iteration, or if a needed backward pass cannot. `carries` are the initial carried
    values, and `xs` the input sequences, with the iterations along the first axis. A loop with an equal trace is found by the fast path; a
    new trace becomes a `ScanBody` first.
    """
    is_recording = tape_mode.get()
    reads: list[Any] = []
    results = [*step.next_carries, *step.ys]
    fast_path, key = upcalls.installed, None
    if fast_path is not None and all([view.node.is_traced for view in results]):
        words = fast_path.tape_replay.encode_trace([view.node for view in results], [*step.carries, *step.xs], reads, True)
        if words is not None and not any([type(x) is Node and x.is_traced for x in reads]):
            layouts = [view.layout for view in (*results, *xs)]
            is_on_tape = [type(view.node.tape_node) is TapeNode for view in (*carries, *xs)] if is_recording else []
            key = (
                *(words, iteration_count, len(step.carries), is_recording, *is_on_tape),
                *[layout.layout_key for layout in layouts],
                *[layout.offset for layout in layouts],
                *map(_describe_read, reads),
            )
            entry = _loop_cache.get(key)
            if entry is not None:
                loop, captured_positions = entry
                return loop, [reads[k] for k in captured_positions]
    body = ScanBody.of(step)
    if body is None:
        return None
    captured = body.traced_nodes.captured
    is_on_tape = [get_tape_node(node) is not None for node in (*[x.node for x in (*carries, *xs)], *captured)] if is_recording else []
    x_locations = [ValueLocation.of(k, x.dtype, x.layout) for k, x in enumerate(xs, len(carries))]
    iteration = _compile_iteration(body, x_locations, is_on_tape)
    if iteration is None:
        return None
    loop = iteration.get_loop(x_locations, iteration_count)
    if key is not None and not iteration.extra_sources:
        index_of = {id(x): k for k, x in enumerate(reads)}
        _loop_cache.put(key, (loop, [index_of[id(node)] for node in captured]))
    return loop, captured


def _describe_read(x: Node | Scalar) -> object:
    """Return the hashable part of a cache key for `x`, a number or node that an iteration reads besides the placeholders.

    The part is the value of a number or of a pending constant, a node computed from numbers alone. For another node, the part is a bool:
    whether the node is on the tape.
    """
    if type(x) is not Node:
        return repr(x.value), x.dtype  # type: ignore[union-attr]
    if x.buffer is None and not any([type(s) is Node for s in x.sources]):
        return x.recipe, x.offsets, *[(repr(s.value), s.dtype) for s in x.sources]  # type: ignore[union-attr]
    return get_tape_node(x) is not None


def _compile_iteration(body: ScanBody, x_locations: Sequence[ValueLocation], is_on_tape: Sequence[bool]) -> CompiledIteration | None:
    """Return the compiled form of the iteration `body`, from the cache if an equal iteration was compiled before.

    `x_locations` are the locations of the sequence elements. `is_on_tape` has a flag for each input of the loop (carried values, sequences,
    captured values): whether the input is on the tape. Without a recorded tape there are no flags. Return None if a flag is True but the
    backward pass cannot run by iteration.
    """
    program = body.to_program()
    number = program.value_numbers
    results = [*body.next_carries, *body.ys]
    key: list[object] = [
        len(body.carries),
        len(body.next_carries),
        *[number[node] for node in results],
        *[location.layout for location in x_locations],
    ]
    key += [*program.input_types, *is_on_tape]
    for node, step in zip(body.traced_nodes.order, program.steps, strict=True):
        key += [step.recipe, step.offsets, step.constant]
        key += [s if type(s) is int else (repr(s.value), s.dtype) for s in step.sources]  # type: ignore[union-attr]
        tape_node = get_tape_node(node) if any(is_on_tape) else None
        key.append(None if tape_node is None else tape_node.recipe)
    if any(is_on_tape):
        key += [get_tape_node(node) is not None for node in (*body.carries, *body.xs, *body.traced_nodes.captured)]
    iteration = _iteration_cache.get(tuple(key))
    if iteration is None:
        back = None
        if any(is_on_tape):
            carry_count = len(body.carries)
            back = trace_backward(body, is_on_tape[carry_count : carry_count + len(body.xs)])
            if back is None:
                return None
        iteration = CompiledIteration(body, program, x_locations, back)
        if not iteration.extra_sources:
            _iteration_cache.put(tuple(key), iteration)
    return iteration


class OutputSequence(NamedTuple):
    """An output sequence of a loop. `value_number` is the value number of the elements. `result_index` is the index of the differentiable
    result with the sequence, or None if no cotangent is taken there.

    Sequences of the same values share a result, and only the first of them takes the cotangent.
    """

    value_number: int
    result_index: int | None


class CompiledIteration:
    """An iteration ready to run, without the nodes of the trace. Values have the numbers of `program`. `result_types` lists shape and dtype
    of the new carried values, then of the elements of the output sequences.

    The sources of a loop are the initial carried values, the input sequences and the captured values. Next come values stacked over the
    iterations: carried values needed again, and those in `stacked`. The last sources are `extra_sources`, computed from captured values by
    the backward pass. `locations` maps value numbers to their locations in the sources, except for the input sequences.

    The loop has `carry_count` carried values and `x_count` input sequences. `next_carries` and `ys` are the value numbers of the results.
    `node_of` maps value numbers to the nodes of the plan, computed from `placeholders`; `roots` are the distinct nodes in `node_of`.
    `sequence_sources` are the indices of the sources with output sequences. `carry_results` has for each carried value the index of the
    differentiable result, or None.

    `panel_program` and `backward_panels` are the forward and backward programs with repacked matrices. `backward_inputs` lists, for each
    node in `backward.forward_nodes`, the value number (~k for extra source k).
    """

    def __init__(
        self, body: ScanBody, program: NodeProgram, x_locations: Sequence[ValueLocation], backward: BackwardProgram | None
    ) -> None:
        self.program, self.backward = program, backward
        self.carry_count, self.x_count = len(body.carries), len(body.xs)
        number = program.value_numbers
        reads = [] if backward is None else backward.forward_nodes
        kept_nodes = [] if backward is None else backward.residuals
        carry_count, count = self.carry_count, len(program.input_types)
        self.panel_program = PanelProgram(program, range(carry_count + len(body.xs), count))
        self.placeholders = [_make_placeholder(node.shape, node.dtype) for node in body.carries]
        self.placeholders += [location.make_iteration_view() for location in x_locations]
        self.placeholders += [
            _make_placeholder(shape, dtype) for shape, dtype in self.panel_program.program.input_types[carry_count + len(body.xs) :]
        ]
        nodes = self.panel_program.program.instantiate(self.placeholders, copy_before_write=True)
        self.next_carries, self.ys = ([number[node] for node in group] for group in (body.next_carries, body.ys))
        self.node_of = {
            number[node]: nodes[self.panel_program.renumber(number[node])] for node in (*body.next_carries, *body.ys, *kept_nodes)
        }
        self.roots = list(dict.fromkeys(self.node_of.values()))
        self.result_types = [(node.shape, node.dtype) for node in (*body.next_carries, *body.ys)]
        self.locations = {
            k: ValueLocation(k, dtype, Layout.contiguous(shape), 0, 0)
            for k, (shape, dtype) in enumerate(program.input_types)
            if k >= carry_count + len(body.xs)
        }
        index = count
        for carry, next_carry in zip(body.carries, body.next_carries, strict=True):
            if carry in reads or next_carry in reads or next_carry in body.ys:
                plain, size = Layout.contiguous(next_carry.shape), next_carry.size
                self.locations[number[carry]] = ValueLocation(index, carry.dtype, plain, 0, size)
                self.locations[number[next_carry]] = ValueLocation(index, carry.dtype, plain, size, size)
                index += 1
        self.stacked: list[tuple[int, tuple[int, ...], DType]] = []
        for node in (*body.ys, *kept_nodes):
            if number[node] not in self.locations:
                self.locations[number[node]] = ValueLocation(index, node.dtype, Layout.contiguous(node.shape), 0, node.size)
                self.stacked.append((number[node], node.shape, node.dtype))
                index += 1
        self.extra_sources = [node for node in reads if node not in body.xs and number.get(node) not in self.locations]
        realize(*self.extra_sources)
        self.backward_inputs = [~self.extra_sources.index(node) if node in self.extra_sources else number[node] for node in reads]
        self.locations |= {
            ~k: ValueLocation(index + k, node.dtype, Layout.contiguous(node.shape), 0, 0) for k, node in enumerate(self.extra_sources)
        }
        self.sequence_sources = list(dict.fromkeys([self.locations[k].source_index for k in self.ys]))
        stack_of = {self.locations[number[node]].source_index: node.dtype for node in body.ys}
        smooth = [is_smooth(dtype) for _, dtype in self.result_types[:carry_count]] + [
            is_smooth(stack_of[k]) for k in self.sequence_sources
        ]
        smooth_index = [sum(smooth[:k]) if yes else None for k, yes in enumerate(smooth)]
        self.carry_results = smooth_index[:carry_count]
        self.output_sequences = [
            OutputSequence(
                k, None if k in self.ys[:index] else smooth_index[carry_count + self.sequence_sources.index(self.locations[k].source_index)]
            )
            for index, k in enumerate(self.ys)
        ]
        if backward is not None:
            fixed_inputs = [
                index
                for index, k in enumerate(self.backward_inputs)
                if not carry_count <= k < carry_count + len(body.xs) and not self.locations[k].step
            ]
            self.backward_panels = PanelProgram(backward.program, fixed_inputs)
            self._all_locations = self.locations | dict(enumerate(x_locations, carry_count))
            backward.drop_nodes()
        program.value_numbers = {}
        self._backward_loops: dict[object, BackwardLoop] = {}
        self._backward_nodes: dict[object, tuple[list[NodeView], list[Node]]] = {}

    def get_loop(self, x_locations: Sequence[ValueLocation], iteration_count: int) -> ForwardLoop:
        """Return the loop of `iteration_count` iterations over sequences with the locations `x_locations`, from the cache if possible.

        The layouts of the locations must be equal to the layouts at the compilation; only start and step may differ.
        """
        key = self, iteration_count, *[(location.start, location.step) for location in x_locations]
        entry = _loop_cache.get(key)
        if entry is not None:
            return entry[0]
        loop = ForwardLoop(self, x_locations, iteration_count)
        if not self.extra_sources:
            _loop_cache.put(key, (loop, []))
        return loop

    def get_backward_loop(
        self, locations: dict[int, ValueLocation], y_locations: Sequence[ValueLocation | None], iteration_count: int
    ) -> BackwardLoop:
        """Return the backward pass of a loop of `iteration_count` iterations, from the cache if possible.

        `locations` has the location of each value, by its number. `y_locations` are the locations of the cotangents of the output
        sequences, None for a cotangent of 0. The cache key has `iteration_count`, `y_locations`, and start and step of the input sequences.
        All else in `locations` must be equal in all calls.
        """
        x_locations = [locations[k] for k in range(self.carry_count, self.carry_count + self.x_count)]
        key = iteration_count, tuple(y_locations), *[(location.start, location.step) for location in x_locations]
        return _find_or_make(self._backward_loops, key, lambda: BackwardLoop(self, locations, y_locations, iteration_count))

    def get_backward_nodes(self, y_locations: Sequence[ValueLocation | None]) -> tuple[list[NodeView], list[Node]]:
        """Return the placeholders for the inputs of the backward pass, and the nodes of the pass by number in `backward_panels.program`.

        The nodes of the placeholders come first; the computed nodes, pending, follow. `y_locations` are the locations of the cotangents of
        the output sequences, None for a cotangent of 0. The result is cached by the layouts of these locations, and must not be changed.
        """

        def make_nodes() -> tuple[list[NodeView], list[Node]]:
            program, carry_count = self.backward_panels.program, self.carry_count
            # The layout of sequence elements is part of the key of this iteration
            placeholders = [self._all_locations[k].make_iteration_view() for k in self.backward_inputs]
            placeholders += [_make_placeholder(*result_type) for result_type in self.result_types[:carry_count]]
            for location, result_type in zip(y_locations, self.result_types[carry_count:], strict=True):
                placeholders.append(_make_placeholder(*result_type) if location is None else location.make_iteration_view())
            placeholders += [_make_placeholder(*input_type) for input_type in program.input_types[len(placeholders) :]]
            return placeholders, program.instantiate(placeholders, copy_before_write=True)

        key = tuple([None if location is None else location.layout for location in y_locations])
        return _find_or_make(self._backward_nodes, key, make_nodes)


def _make_placeholder(shape: tuple[int, ...], dtype: DType) -> NodeView:
    """Return a view of `shape` and `dtype` that stands for a value of one iteration while the planner makes the plan. The node has no
    memory.
    """
    return NodeView(make_data_node(EMPTY_BUFFER, shape, dtype))


def _find_or_make(table: dict[object, T], key: object, make: Callable[[], T]) -> T:
    """Return the entry of `key` in `table`; if it is missing, store and return the result of `make()`. A table of `MAX_CACHED_LOOPS`
    entries is emptied first.
    """
    entry = table.get(key)
    if entry is None:
        if len(table) >= MAX_CACHED_LOOPS:
            table.clear()
        entry = table[key] = make()
    return entry


class ForwardLoop:
    """A loop of `iteration_count` iterations of `iteration` over sequences with the locations `x_locations`, without their memory.

    `graph` runs the loop; its buffers are the rings of the carried values, then those of the sequences, captured values, panels and stacks.
    `rings` has a `RingBuffer` for each carried value, and `locations` the location of each value kept in memory.
    """

    def __init__(self, iteration: CompiledIteration, x_locations: Sequence[ValueLocation], iteration_count: int) -> None:
        self.iteration, self.iteration_count = iteration, iteration_count
        order, carry_count, input_count = np.arange(iteration_count), iteration.carry_count, len(iteration.program.input_types)
        self.locations = iteration.locations | dict(enumerate(x_locations, carry_count))
        self.rings = [
            RingBuffer.of(shape, dtype, iteration_count, keep_all=number in self.locations)
            for number, (shape, dtype) in zip(iteration.next_carries, iteration.result_types, strict=False)
        ]
        windows = [ring.to_window(k, iteration_count, 0) for k, ring in enumerate(self.rings)]
        windows += [self.locations[k].to_window(k, order) for k in range(carry_count, input_count)]
        windows += [BufferWindow(k, order[:1], x.node.recipe.nbytes) for k, x in enumerate(iteration.placeholders) if k >= input_count]
        placed = {x.node: window for x, window in zip(iteration.placeholders, windows, strict=True)}
        for k, (number, ring) in enumerate(zip(iteration.next_carries, self.rings, strict=True)):
            placed[iteration.node_of[number]] = ring.to_window(k, iteration_count, 1)
        for k, (number, _, _) in enumerate(iteration.stacked, len(windows)):
            placed[iteration.node_of[number]] = self.locations[number].to_window(k, order)
        self.graph = RepeatedGraph(iteration.roots, placed, len(windows) + len(iteration.stacked), iteration_count)


class BackwardLoop:
    """The backward pass of a loop of `iteration_count` iterations of `iteration`, from the last iteration to the first, without the memory.

    `locations` are those of the loop (`ForwardLoop`), and `y_locations` those of the cotangents of the output sequences, None for 0.
    `graph` runs the pass, or is None if there is nothing to compute. The buffers begin with those of the inputs: the values at
    `read_locations`, rings for the carried cotangents, the cotangents of the sequences, rings for the sums, and panels. The stacks follow.
    `rings` has a `RingBuffer` for each carried cotangent, and `sum_rings` one for each sum, by the number of the captured value. `stacked`
    lists number, shape and dtype of the stacked values.
    """

    def __init__(
        self,
        iteration: CompiledIteration,
        locations: dict[int, ValueLocation],
        y_locations: Sequence[ValueLocation | None],
        iteration_count: int,
    ) -> None:
        back, panels, result_types = iteration.backward, iteration.backward_panels, iteration.result_types
        assert back is not None
        order = np.arange(iteration_count)[::-1]
        self.read_locations = [locations[k] for k in iteration.backward_inputs]
        self.rings = [
            RingBuffer.of(shape, dtype, iteration_count, keep_all=False) for shape, dtype in result_types[: iteration.carry_count]
        ]
        self.sum_rings = {
            k: RingBuffer.of(*back.program.input_types[formula.sum_so_far], iteration_count, keep_all=False)
            for k, formula in back.captured_cotangents.items()
            if isinstance(formula, AccumulatedCotangent)
        }
        placeholders, values = iteration.get_backward_nodes(y_locations)
        windows = [location.to_window(k, order) for k, location in enumerate(self.read_locations)]
        first_ring = len(windows)
        for ring, number in zip(self.rings, back.carry_cotangents, strict=True):
            window = ring.to_window(len(windows), iteration_count, 0)
            if number is None:  # only the last iteration receives a cotangent here
                window = window._replace(starts=np.minimum(np.arange(iteration_count), 1) * ring.nbytes)
            windows.append(window)
        for location in y_locations:
            k = len(windows)
            nbytes = placeholders[k].node.recipe.nbytes
            windows.append(BufferWindow(k, order[-1:], nbytes) if location is None else location.to_window(k, order))
        first_sum_ring = len(windows)
        windows += [ring.to_window(k, iteration_count, 0) for k, ring in enumerate(self.sum_rings.values(), len(windows))]
        windows += [BufferWindow(k, order[-1:], x.node.recipe.nbytes) for k, x in enumerate(placeholders) if k >= len(windows)]
        placed = {x.node: window for x, window in zip(placeholders, windows, strict=True)}
        roots: list[Node] = []

        def add_root(number: int, window: BufferWindow) -> None:
            roots.append(values[panels.renumber(number)])
            placed[roots[-1]] = window

        for k, (ring, number) in enumerate(zip(self.rings, back.carry_cotangents, strict=True), first_ring):
            if number is not None:
                add_root(number, ring.to_window(k, iteration_count, 1))
        for k, (captured, ring) in enumerate(self.sum_rings.items(), first_sum_ring):
            add_root(back.captured_cotangents[captured].next_sum, ring.to_window(k, iteration_count, 1))  # type: ignore[union-attr]
        self.stacked: list[tuple[int, tuple[int, ...], DType]] = []
        for k, number in enumerate(dict.fromkeys([x for x in (*back.x_cotangents, *back.stacked_values) if x is not None]), len(windows)):
            node = values[panels.renumber(number)]
            self.stacked.append((number, node.shape, node.dtype))
            add_root(number, ValueLocation(k, node.dtype, Layout.contiguous(node.shape), 0, node.size).to_window(k, order))
        self.graph = RepeatedGraph(roots, placed, len(windows) + len(self.stacked), iteration_count) if roots else None
