"""The execution of scan loops: forward by iteration, recorded as a single step of the tape, and the backward pass by iteration, from the
last to the first.

The values read by the backward pass are stacked in memory over the iterations: carried values, sequences and residuals. Cheap elementwise
values are recomputed, as keeping them would cost as much. The cotangent of a captured value is accumulated over the iterations. If this
cotangent is a product, its operands are stacked instead, and a single product over the iterations follows at the end.

A derivative of the backward pass itself, and forward mode, run through the iterations as ordinary operations
(`RecordedLoop._pull_unrolled`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..codegen.interface import BufferWindow
from ..dtypes import DType
from ..graph.node import MAX_PENDING_NODES, Node, Scalar, make_data_node, tape_mode, use_tape_mode
from ..layout import Layout
from ..memory.buffer import allocate
from ..ops import OPS
from ..runtime.realize import realize
from .batching import prepend_batch_axis
from .formula_derivatives import is_smooth
from .function_op import record_function
from .grad_rule import TapeNodeLike
from .layout_adjoint import Cotangent, apply_adjoint, slice_cotangent
from .node_view import SUM, DeferredTerm, NodeView
from .reverse import Root, compute_at_boundary
from .scan_backward import AccumulatedCotangent, BackwardProgram, ProductCotangent, trace_backward
from .scan_body import EMPTY_BUFFER, NodeProgram, RepeatedGraph, RingBuffer, ScanBody, ValueLocation, ensure_unshared, is_affine
from .scan_panels import PanelProgram
from .tape import get_tape_node

_MULTIPLY, _CAST = OPS["multiply"], OPS["cast"]


class ScanResult(NamedTuple):
    """The results of a loop: the final carried values `carries`, and the output sequences `ys`, with the iterations along the first
    axis.
    """

    carries: list[Node]
    ys: list[NodeView]


def run_scan(body: ScanBody, carries: Sequence[NodeView], xs: Sequence[NodeView], iteration_count: int) -> ScanResult | None:
    """Run `iteration_count` iterations of `body` and return their results; None if the loop cannot run as one plan per iteration.

    `carries` are the initial carried values, and `xs` the input sequences, with the iterations along the first axis.
    """
    inputs = [*carries, *xs, *[NodeView(node) for node in body.traced_nodes.captured]]
    initial_nodes = [x.to_node() for x in carries]
    realize(*[x.node for x in inputs], *initial_nodes)
    sources = [ensure_unshared(x.node) for x in inputs]
    x_locations = [ValueLocation.of(k, x.dtype, x.layout) for k, x in enumerate(xs, len(carries))]
    iteration = _get_iteration(body, x_locations, [get_tape_node(node) is not None for node in sources] if tape_mode.get() else [])
    if iteration is None:
        return None
    loop = iteration.get_loop(x_locations, iteration_count)
    rings = [ring.allocate(initial_node) for ring, initial_node in zip(loop.rings, initial_nodes, strict=True)]
    panels = iteration.panel_program.pack(sources)
    stacks = [_allocate_stack(iteration_count, shape, dtype) for _, shape, dtype in iteration.stacked]
    if not loop.graph.run([*rings, *[node.buffer for node in (*sources[len(carries) :], *panels, *stacks)]]):  # type: ignore[list-item]
        return None
    for number, ring, (shape, dtype) in zip(iteration.next_carries, rings, iteration.result_types, strict=False):
        if number in iteration.locations:
            sources.append(make_data_node(ring, (iteration_count + 1, *shape), dtype))
    sources += [*stacks, *iteration.extra_sources]
    ends = [
        make_data_node(form.copy_last(ring, iteration_count), shape, dtype)
        for form, ring, (shape, dtype) in zip(loop.rings, rings, iteration.result_types, strict=False)
    ]
    results = [*ends, *[sources[k] for k in iteration.sequence_sources]]
    if iteration.backward is not None:
        recorded_loop = RecordedLoop(iteration, [x.layout for x in inputs], loop.locations, iteration_count)
        results = record_function("scan", results, sources, recorded_loop.vjp)
    recorded_stacks = dict(zip(iteration.sequence_sources, results[len(ends) :], strict=True))
    return ScanResult(
        results[: len(ends)],
        [
            NodeView(recorded_stacks[loop.locations[number].source_index], loop.locations[number].stack_iterations(iteration_count))
            for number in iteration.ys
        ],
    )


def _allocate_stack(iteration_count: int, shape: tuple[int, ...], dtype: DType) -> Node:
    """Return a node with uninitialised memory for a value of `shape` and `dtype` in each of `iteration_count` iterations, along the
    first axis.
    """
    stack_shape = (iteration_count, *shape)
    size = Layout.contiguous(stack_shape).size
    return make_data_node(allocate(size * dtype.itemsize, "scan", stack_shape, dtype), stack_shape, dtype)


_iteration_cache: BoundedCache[CompiledIteration] = register("iterations of scan", "a compiled iteration, by the body of the loop")(
    BoundedCache(1 << 7)
)


def _get_iteration(body: ScanBody, x_locations: Sequence[ValueLocation], follows: Sequence[bool]) -> CompiledIteration | None:
    """Return the compiled form of the iteration `body`, from the cache if an equal iteration was compiled before.

    `x_locations` are the locations of the sequence elements. `follows` has a flag for each input of the loop: whether it is on the tape. It
    is empty if no tape is recorded. Return None if a derivative is needed but the backward pass cannot run by iteration.
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
    key += [*program.input_types, *follows]
    for node, step in zip(body.traced_nodes.order, program.steps, strict=True):
        key += [step.recipe, step.offsets, step.constant]
        key += [s if type(s) is int else (repr(s.value), s.dtype) for s in step.sources]  # type: ignore[union-attr]
        tape_node = get_tape_node(node) if any(follows) else None
        key.append(None if tape_node is None else tape_node.recipe)
    if any(follows):
        key += [get_tape_node(node) is not None for node in (*body.carries, *body.xs, *body.traced_nodes.captured)]
    iteration = _iteration_cache.get(tuple(key))
    if iteration is None:
        back = None
        if any(follows):
            carry_count = len(body.carries)
            back = trace_backward(body, follows[carry_count : carry_count + len(body.xs)])
            if back is None:
                return None
        iteration = CompiledIteration(body, program, x_locations, back)
        if not iteration.extra_sources:
            _iteration_cache.put(tuple(key), iteration)
    return iteration


class OutputSequence(NamedTuple):
    """An output sequence: the value number `value_number` of its elements, and the index `result_index` of the differentiable result with
    the sequence, or None if no cotangent is taken there.
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
        self.placeholders = [NodeView(make_data_node(EMPTY_BUFFER, node.shape, node.dtype)) for node in body.carries]
        self.placeholders += [location.make_iteration_view() for location in x_locations]
        self.placeholders += [
            NodeView(make_data_node(EMPTY_BUFFER, shape, dtype))
            for shape, dtype in self.panel_program.program.input_types[carry_count + len(body.xs) :]
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
        self._loops: dict[object, Any] = {}
        self._backward_nodes: dict[object, tuple[list[NodeView], list[Node]]] = {}

    def get_loop(self, x_locations: Sequence[ValueLocation], iteration_count: int) -> ForwardLoop:
        """Return the loop of `iteration_count` iterations over sequences with the locations `x_locations`, from the cache if possible."""
        key = iteration_count, *[(location.start, location.step) for location in x_locations]
        return _find_or_make(self._loops, key, lambda: ForwardLoop(self, x_locations, iteration_count))

    def get_backward_loop(
        self, locations: dict[int, ValueLocation], y_locations: Sequence[ValueLocation | None], iteration_count: int
    ) -> BackwardLoop:
        """Return the backward pass of a loop with the locations `locations`, from the cache if possible.

        `y_locations` are the locations of the cotangents of the output sequences, None for a cotangent of 0.
        """
        x_locations = [locations[k] for k in range(self.carry_count, self.carry_count + self.x_count)]
        key = iteration_count, tuple(y_locations), *[(location.start, location.step) for location in x_locations]
        return _find_or_make(self._loops, key, lambda: BackwardLoop(self, locations, y_locations, iteration_count))

    def get_backward_nodes(self, y_locations: Sequence[ValueLocation | None]) -> tuple[list[NodeView], list[Node]]:
        """Return the placeholders for the inputs of the backward pass, and the nodes of the pass by number in `backward_panels.program`:
        the nodes of the placeholders, then the computed nodes.

        `y_locations` are the locations of the cotangents of the output sequences, None for a cotangent of 0.
        """

        def make_nodes() -> tuple[list[NodeView], list[Node]]:
            program, carry_count = self.backward_panels.program, self.carry_count
            stand_in = lambda shape, dtype: NodeView(make_data_node(EMPTY_BUFFER, shape, dtype))
            # The layout of sequence elements is part of the key of this iteration
            placeholders = [self._all_locations[k].make_iteration_view() for k in self.backward_inputs]
            placeholders += [stand_in(*result_type) for result_type in self.result_types[:carry_count]]
            for location, result_type in zip(y_locations, self.result_types[carry_count:], strict=True):
                placeholders.append(stand_in(*result_type) if location is None else location.make_iteration_view())
            placeholders += [stand_in(*input_type) for input_type in program.input_types[len(placeholders) :]]
            return placeholders, program.instantiate(placeholders, copy_before_write=True)

        key = tuple([None if location is None else location.layout for location in y_locations])
        return _find_or_make(self._backward_nodes, key, make_nodes)


NO_LAYOUT = Layout.contiguous(())
MAX_CACHED_LOOPS = 16  # cached loops of an iteration, and cached layouts of cotangents
T = TypeVar("T")


def _find_or_make(table: dict[object, T], key: object, make: Callable[[], T]) -> T:
    """Return the entry of `key` in `table`, a new result of `make()` if it is missing. A full table is emptied first."""
    entry = table.get(key)
    if entry is None:
        if len(table) >= MAX_CACHED_LOOPS:
            table.clear()
        entry = table[key] = make()
    return entry


class ForwardLoop:
    """A loop of `iteration_count` iterations of `iteration` over sequences with the locations `x_locations`, without their memory.

    `graph` runs the loop; its buffers are the rings of the carried values, then those of the sequences, captured values, panels and stacks.
    `rings` has the form of each ring, and `locations` the location of each value kept in memory.
    """

    def __init__(self, iteration: CompiledIteration, x_locations: Sequence[ValueLocation], iteration_count: int) -> None:
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
    """The backward pass of a loop of `turns` iterations of `iteration`, from the last to the first, without the memory of the loop.

    `locations` are those of the loop (`ForwardLoop`), and `y_locations` those of the cotangents of the output sequences, None for 0.
    `graph` runs the pass, if there is something to compute. Its buffers are those of the inputs, which are the values at `read_locations`,
    rings for the carried cotangents, the cotangents of the sequences, rings for the sums, and panels; then come the stacks. `rings` and
    `sum_rings` have the forms of the rings, `sum_rings` by the number of the captured value. `stacked` lists number, shape and dtype of the
    stacked values.
    """

    def __init__(
        self,
        iteration: CompiledIteration,
        locations: dict[int, ValueLocation],
        y_locations: Sequence[ValueLocation | None],
        turns: int,
    ) -> None:
        back, panels, result_types = iteration.backward, iteration.backward_panels, iteration.result_types
        assert back is not None
        order = np.arange(turns)[::-1]
        self.read_locations = [locations[k] for k in iteration.backward_inputs]
        self.rings = [RingBuffer.of(shape, dtype, turns, keep_all=False) for shape, dtype in result_types[: iteration.carry_count]]
        self.sum_rings = {
            k: RingBuffer.of(*back.program.input_types[formula.sum_so_far], turns, keep_all=False)
            for k, formula in back.captured_cotangents.items()
            if isinstance(formula, AccumulatedCotangent)
        }
        placeholders, values = iteration.get_backward_nodes(y_locations)
        windows = [location.to_window(k, order) for k, location in enumerate(self.read_locations)]
        first_ring = len(windows)
        for ring, number in zip(self.rings, back.carry_cotangents, strict=True):
            window = ring.to_window(len(windows), turns, 0)
            if number is None:  # only the last iteration receives a cotangent here
                window = window._replace(starts=np.minimum(np.arange(turns), 1) * ring.nbytes)
            windows.append(window)
        for location in y_locations:
            k = len(windows)
            nbytes = placeholders[k].node.recipe.nbytes
            windows.append(BufferWindow(k, order[-1:], nbytes) if location is None else location.to_window(k, order))
        first_sum_ring = len(windows)
        windows += [ring.to_window(k, turns, 0) for k, ring in enumerate(self.sum_rings.values(), len(windows))]
        windows += [BufferWindow(k, order[-1:], x.node.recipe.nbytes) for k, x in enumerate(placeholders) if k >= len(windows)]
        placed = {x.node: window for x, window in zip(placeholders, windows, strict=True)}
        roots: list[Node] = []

        def add_root(number: int, window: BufferWindow) -> None:
            roots.append(values[panels.renumber(number)])
            placed[roots[-1]] = window

        for k, (ring, number) in enumerate(zip(self.rings, back.carry_cotangents, strict=True), first_ring):
            if number is not None:
                add_root(number, ring.to_window(k, turns, 1))
        for k, (captured, ring) in enumerate(self.sum_rings.items(), first_sum_ring):
            add_root(back.captured_cotangents[captured].next_sum, ring.to_window(k, turns, 1))  # type: ignore[union-attr]
        self.stacked: list[tuple[int, tuple[int, ...], DType]] = []
        for k, number in enumerate(dict.fromkeys([x for x in (*back.x_cotangents, *back.stacked_values) if x is not None]), len(windows)):
            node = values[panels.renumber(number)]
            self.stacked.append((number, node.shape, node.dtype))
            add_root(number, ValueLocation(k, node.dtype, Layout.contiguous(node.shape), 0, node.size).to_window(k, order))
        self.graph = RepeatedGraph(roots, placed, len(windows) + len(self.stacked), turns) if roots else None


class RecordedLoop:
    """A loop of `iteration_count` iterations of `iteration` that has run, as recorded on the tape.

    `layouts` are the layouts of the inputs (initial carried values, sequences, captured values), with every iteration. `locations` maps
    value numbers of the iteration to their locations in the sources of the tape node.
    """

    def __init__(
        self, iteration: CompiledIteration, layouts: list[Layout], locations: dict[int, ValueLocation], iteration_count: int
    ) -> None:
        self.iteration, self.layouts, self.locations, self.iteration_count = iteration, layouts, locations, iteration_count

    def vjp(self, tape_node: TapeNodeLike, gs: list[NodeView], wanted: Sequence[int]) -> Iterable[tuple[int, Cotangent]]:
        """Return pairs (k, cotangent of source k) for the sources `wanted` of the tape node `tape_node`, given `gs`, the cotangents of the
        differentiable results.

        The pass runs by iteration. If it is recorded or traced itself, or if the plan cannot be repeated, it runs through ordinary
        operations. A source without a pair has the cotangent 0.
        """
        iteration = self.iteration
        ends = [None if k is None or _is_zero(gs[k]) else gs[k] for k in iteration.carry_results]
        ys = [
            None if track.result_index is None else self._sequence_cotangent(gs[track.result_index], track.value_number)
            for track in iteration.output_sequences
        ]
        if not tape_mode.get() and not any([g.node.is_traced for g in gs]):  # and the cotangents are not traced by `vmap`
            cotangents = self._run_backward(tape_node.sources, ends, ys)
            if cotangents is not None:
                return [(k, cotangent) for k, cotangent in cotangents if k in wanted]
        return self._pull_unrolled(tape_node.sources, ends, ys, wanted)

    def _sequence_cotangent(self, g: NodeView, number: int) -> NodeView | None:
        """Return the cotangent of an output sequence, given the cotangent `g` of the source that stores it; None stands for 0.

        `number` is the value number of the sequence's elements.
        """
        layout = self.locations[number].stack_iterations(self.iteration_count)
        if layout.is_contiguous() and g.layout.is_contiguous():
            g = slice_cotangent(g.node, g.layout.offset + layout.offset, layout.size).reshape(layout.shape)
        else:
            g = g.view_through(layout)
        return None if _is_zero(g) else g

    def _run_backward(
        self, sources: Sequence[Node], ends: Sequence[NodeView | None], ys: Sequence[NodeView | None]
    ) -> list[tuple[int, Cotangent]] | None:
        """Run the backward pass by iteration. Return pairs (k, cotangent of source k), or None if the plan cannot be repeated.

        `sources` are the sources of the loop's tape node. `ends` are the cotangents of the final carried values, and `ys` those of the
        output sequences; None stands for 0. A source without a pair has the cotangent 0 or is not on the tape.
        """
        turns, iteration = self.iteration_count, self.iteration
        back, panels, result_types = iteration.backward, iteration.backward_panels, iteration.result_types
        assert back is not None
        flat = [None if g is None else g.to_node() for g in ends]
        ys = [g if g is None or is_affine(g.layout) else NodeView(g.to_node()).reshape(g.shape) for g in ys]
        realize(*[node for node in flat if node is not None], *[g.node for g in ys if g is not None])
        y_locations = [None if g is None else ValueLocation.of(0, g.dtype, g.layout) for g in ys]
        loop = iteration.get_backward_loop(self.locations, y_locations, turns)
        read_nodes = [sources[location.source_index] for location in loop.read_locations]
        rings = [ring.allocate(initial_node) for ring, initial_node in zip(loop.rings, flat, strict=True)]
        for ring, form, number in zip(rings, loop.rings, back.carry_cotangents, strict=True):
            if number is None:  # only the last iteration receives a cotangent here
                ring.array[form.nbytes :] = 0
        y_buffers = [
            RingBuffer.of(shape, dtype, 0, keep_all=True).allocate(None) if g is None else g.node.buffer
            for (shape, dtype), g in zip(result_types[iteration.carry_count :], ys, strict=True)
        ]
        so_far = {k: ring.allocate(None) for k, ring in loop.sum_rings.items()}
        stacks = {number: _allocate_stack(turns, shape, dtype) for number, shape, dtype in loop.stacked}
        buffers: list[Any] = [node.buffer for node in read_nodes]
        buffers += [*rings, *y_buffers, *so_far.values(), *[node.buffer for node in (*panels.pack(read_nodes), *stacks.values())]]
        if loop.graph is not None and not loop.graph.run(buffers):
            return None
        results: list[tuple[int, Cotangent]] = []
        for k, (form, ring, number) in enumerate(zip(loop.rings, rings, back.carry_cotangents, strict=True)):
            if number is not None:
                last = make_data_node(form.copy_last(ring, turns), *result_types[k])
                results.append((k, self._source_cotangent(sources, k, NodeView(last))))
        for k, number in enumerate(back.x_cotangents, iteration.carry_count):
            if number is not None:
                results.append((k, self._source_cotangent(sources, k, NodeView(stacks[number]))))
        product_nodes: dict[ProductCotangent, Node] = {}
        for k, formula in back.captured_cotangents.items():
            if isinstance(formula, AccumulatedCotangent):
                last_sum = loop.sum_rings[k].copy_last(so_far[k], turns)
                g = NodeView(make_data_node(last_sum, *back.program.input_types[formula.sum_so_far]))
            else:
                unplaced = formula._replace(layout=NO_LAYOUT)  # equal products are computed once
                if unplaced not in product_nodes:
                    product_nodes[unplaced] = _sum_over_iterations(
                        formula, [self._view_all_iterations(sources, stacks, number) for number in formula.operand_numbers], turns
                    )
                g = NodeView(product_nodes[unplaced], formula.layout)
            results.append((iteration.carry_count + iteration.x_count + k, g))
        return results

    def _source_cotangent(self, sources: Sequence[Node], k: int, g: NodeView) -> Cotangent:
        """Return the cotangent of `sources[k]`, whole or partial, given the cotangent `g` of the elements of that source read by the loop.

        `g` has as many elements as the layout `self.layouts[k]`, which all iterations together read; its shape does not matter.
        """
        layout = self.layouts[k]
        return apply_adjoint(layout, DeferredTerm.of(g.reshape(layout.shape)), sources[k].size)

    def _view_all_iterations(self, sources: Sequence[Node], stacks: dict[int, Node], number: int) -> NodeView:
        """Return a view of value `number` of the backward program in every iteration, with the iterations along the first axis.

        `stacks` maps numbers to values that the backward pass stored; other values are in `sources`.
        """
        if number in stacks:
            return NodeView(stacks[number])
        location = self.locations[self.iteration.backward_inputs[number]]
        return NodeView(sources[location.source_index], location.stack_iterations(self.iteration_count))

    def _pull_unrolled(
        self, sources: Sequence[Node], ends: Sequence[NodeView | None], ys: Sequence[NodeView | None], wanted: Sequence[int]
    ) -> list[tuple[int, Cotangent]]:
        """Run all iterations again, recording a tape, and return pairs (k, cotangent of source k) for the sources `wanted`.

        The cotangents are computed by differentiable operations. `sources` are the sources of the loop's tape node; a source off the tape
        gets no pair. `ends` are the cotangents of the final carried values, and `ys` those of the output sequences; None stands for 0.
        """
        iteration, carry_count = self.iteration, self.iteration.carry_count
        captured = [NodeView(sources[k]) for k in range(carry_count + iteration.x_count, len(self.layouts))]
        roots: list[Root] = []
        with use_tape_mode():
            carried = [NodeView(sources[k], self.layouts[k]) for k in range(carry_count)]
            x_locations = [self.locations[k] for k in range(carry_count, carry_count + iteration.x_count)]
            turns_per_realize = max(1, MAX_PENDING_NODES // max(1, len(iteration.program.steps)))
            for turn in range(self.iteration_count):
                xs = [location.view_at(sources[location.source_index], turn) for location in x_locations]
                values = iteration.program.instantiate([*carried, *xs, *captured])
                carried = [NodeView(values[number]) for number in iteration.next_carries]
                roots += [
                    (values[k], g.map_layout(lambda layout: layout.index((turn,))))  # noqa: B023
                    for k, g in zip(iteration.ys, ys, strict=True)
                    if g is not None
                ]
                if turn % turns_per_realize == 0 and not any([x.node.is_traced for x in carried]):
                    realize(*[x.node for x in carried])
            roots += [(x.node, g) for x, g in zip(carried, ends, strict=True) if g is not None]
            tape_nodes = {k: tape_node for k in wanted if (tape_node := get_tape_node(sources[k])) is not None}
            edge = {tape_node for node in sources if (tape_node := get_tape_node(node)) is not None}
            cotangents = compute_at_boundary(roots, set(tape_nodes.values()), edge)
        return [(k, cotangents[tape_node]) for k, tape_node in tape_nodes.items() if tape_node in cotangents]


def _sum_over_iterations(formula: ProductCotangent, operands: Sequence[NodeView], iteration_count: int) -> Node:
    """Return the cotangent of a captured value, computed by `formula` as a single product or sum over all `iteration_count` iterations,
    as a node.

    `operands` are views of the operands in every iteration, with the iterations along the first axis.
    """
    nodes: list[Node] = []
    layouts: list[Layout] = []
    layout_keys = formula.sum_recipe.layout_keys if formula.product_recipe is None else formula.product_recipe.layout_keys
    for x, layout_key, offset in zip(operands, layout_keys, formula.offsets, strict=True):
        assert layout_key is not None
        if not x.layout.is_contiguous() and x.layout.strides[0]:  # a contiguous operand lets the iterations form a single loop
            x = NodeView(x.to_node()).reshape(x.shape)
        nodes.append(x.node)
        layouts.append(prepend_batch_axis(layout_key.layout.at(offset + x.layout.offset), iteration_count, x.layout.strides[0]))
    if formula.product_recipe is not None:
        shape = layouts[0].shape
        nodes = [Node.of(_MULTIPLY, shape, formula.product_recipe.dtype, tuple(nodes), tuple(layouts))]
        layouts = [Layout.contiguous(shape)]
    kept_ndim = 1 + len(formula.sum_recipe.shape)
    axes = (*range(1, kept_ndim), 0, *range(kept_ndim, layouts[0].ndim))
    return Node.of(SUM, formula.sum_recipe.shape, formula.sum_recipe.dtype, (nodes[0],), (layouts[0].permute(axes),))


def _is_zero(g: NodeView) -> bool:
    """Return whether the cotangent `g` is a constant 0. Only a pending constant is recognized."""
    node = g.node
    if node.buffer is not None or node.op is not _CAST:
        return False
    (number,) = node.sources
    return type(number) is Scalar and number.value == 0
