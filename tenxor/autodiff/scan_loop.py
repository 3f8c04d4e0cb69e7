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
from math import prod

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
from .scan_body import EMPTY_BUFFER, NodeProgram, RingBuffer, ScanBody, ValueLocation, ensure_unshared, is_affine, run_repeated
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
    x_locations = [ValueLocation.of(k, x.layout) for k, x in enumerate(xs, len(carries))]
    iteration = _get_iteration(body, x_locations, [get_tape_node(node) is not None for node in sources] if tape_mode.get() else [])
    if iteration is None:
        return None
    order, carry_count = np.arange(iteration_count), len(carries)
    locations = iteration.locations | dict(enumerate(x_locations, carry_count))
    placed: dict[Node, BufferWindow] = {}
    for k in range(carry_count, len(inputs)):
        placed[iteration.placeholders[k].node] = locations[k].to_window(sources[k], order)
    for stand, node in zip(iteration.placeholders[len(inputs) :], iteration.panel_program.pack(sources), strict=True):
        placed[stand.node] = BufferWindow(node.buffer, order[:1], node.recipe.nbytes)  # type: ignore[arg-type]
    slots: list[RingBuffer] = []
    for k, (number, initial_node) in enumerate(zip(iteration.next_carries, initial_nodes, strict=True)):
        shape, dtype = iteration.result_types[k]
        keeps_all = number in locations
        ring = RingBuffer.of(shape, dtype, iteration_count, initial_node, keep_all=keeps_all)
        slots.append(ring)
        placed[iteration.placeholders[k].node], placed[iteration.node_of[number]] = (
            ring.to_window(iteration_count, 0),
            ring.to_window(iteration_count, 1),
        )
        if keeps_all:
            sources.append(make_data_node(ring.buffer, (iteration_count + 1, *shape), dtype))
    for number, shape, dtype in iteration.stacked:
        sources.append(_allocate_stack(iteration_count, shape, dtype))
        placed[iteration.node_of[number]] = locations[number].to_window(sources[-1], order)
    sources += iteration.extra_sources
    if not run_repeated(iteration.roots, placed, iteration_count):
        return None
    ends = [
        make_data_node(ring.copy_last(iteration_count), shape, dtype)
        for ring, (shape, dtype) in zip(slots, iteration.result_types, strict=False)
    ]
    results = [*ends, *[sources[k] for k in iteration.sequence_sources]]
    if iteration.backward is not None:
        loop = RecordedLoop(iteration, [x.layout for x in inputs], locations, iteration_count)
        results = record_function("scan", results, sources, loop.vjp)
    recorded_stacks = dict(zip(iteration.sequence_sources, results[len(ends) :], strict=True))
    return ScanResult(
        results[: len(ends)],
        [
            NodeView(recorded_stacks[locations[number].source_index], locations[number].stack_iterations(iteration_count))
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
    node in `backward.forward_nodes`, the value number (~k for extra source k) and the dtype.
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
        self.placeholders += [location.make_iteration_view(node.dtype) for node, location in zip(body.xs, x_locations, strict=True)]
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
            k: ValueLocation(k, Layout.contiguous(program.input_types[k][0]), 0, 0) for k in range(carry_count + len(body.xs), count)
        }
        index = count
        for carry, next_carry in zip(body.carries, body.next_carries, strict=True):
            if carry in reads or next_carry in reads or next_carry in body.ys:
                plain = Layout.contiguous(next_carry.shape)
                self.locations[number[carry]] = ValueLocation(index, plain, 0, next_carry.size)
                self.locations[number[next_carry]] = ValueLocation(index, plain, next_carry.size, next_carry.size)
                index += 1
        self.stacked: list[tuple[int, tuple[int, ...], DType]] = []
        for node in (*body.ys, *kept_nodes):
            if number[node] not in self.locations:
                self.locations[number[node]] = ValueLocation(index, Layout.contiguous(node.shape), 0, node.size)
                self.stacked.append((number[node], node.shape, node.dtype))
                index += 1
        self.extra_sources = [node for node in reads if node not in body.xs and number.get(node) not in self.locations]
        realize(*self.extra_sources)
        self.backward_inputs = [
            (~self.extra_sources.index(node) if node in self.extra_sources else number[node], node.dtype) for node in reads
        ]
        self.locations |= {~k: ValueLocation(index + k, Layout.contiguous(node.shape), 0, 0) for k, node in enumerate(self.extra_sources)}
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
                for index, (k, _) in enumerate(self.backward_inputs)
                if not carry_count <= k < carry_count + len(body.xs) and not self.locations[k].step
            ]
            self.backward_panels = PanelProgram(backward.program, fixed_inputs)
            backward.drop_nodes()
        program.value_numbers = {}
        self._backward_cache: dict[object, tuple[list[NodeView], list[Node]]] = {}

    def get_backward_nodes(self, make_placeholders: Callable[[], list[NodeView]], key: object) -> tuple[list[NodeView], list[Node]]:
        """Return the placeholders for the inputs of the backward pass, and the nodes of the pass by number in `backward_panels.program`:
        the nodes of the placeholders, then the computed nodes.

        `key` identifies the layouts of the cotangents; a new key calls `make_placeholders` to create the placeholders.
        """
        cached = self._backward_cache.get(key)
        if cached is None:
            if len(self._backward_cache) >= MAX_CACHED_LAYOUTS:
                self._backward_cache.clear()
            placeholders = make_placeholders()
            cached = self._backward_cache[key] = (
                placeholders,
                self.backward_panels.program.instantiate(placeholders, copy_before_write=True),
            )
        return cached


NO_LAYOUT = Layout.contiguous(())
MAX_CACHED_LAYOUTS = 8  # cached layouts of cotangents


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
        back, panels = iteration.backward, iteration.backward_panels
        assert back is not None
        order = np.arange(turns)[::-1]
        flat = [None if g is None else g.to_node() for g in ends]
        ys = [g if g is None or is_affine(g.layout) else NodeView(g.to_node()).reshape(g.shape) for g in ys]
        realize(*[node for node in flat if node is not None], *[g.node for g in ys if g is not None])
        read_locations = [self.locations[k] for k, _ in iteration.backward_inputs]
        sums = {k: formula for k, formula in back.captured_cotangents.items() if isinstance(formula, AccumulatedCotangent)}
        y_locations = [None if g is None else ValueLocation.of(0, g.layout) for g in ys]
        result_types = iteration.result_types

        def make_placeholders() -> list[NodeView]:
            placeholders = [
                location.make_iteration_view(dtype) for location, (_, dtype) in zip(read_locations, iteration.backward_inputs, strict=True)
            ]
            placeholders += [NodeView(make_data_node(EMPTY_BUFFER, shape, dtype)) for shape, dtype in result_types[: iteration.carry_count]]
            for location, (shape, dtype) in zip(y_locations, result_types[iteration.carry_count :], strict=True):
                placeholders.append(
                    NodeView(make_data_node(EMPTY_BUFFER, shape, dtype)) if location is None else location.make_iteration_view(dtype)
                )
            return placeholders + [
                NodeView(make_data_node(EMPTY_BUFFER, shape, dtype)) for shape, dtype in panels.program.input_types[len(placeholders) :]
            ]

        placeholders, values = iteration.get_backward_nodes(
            make_placeholders, tuple([None if location is None else location.layout for location in y_locations])
        )
        slots: list[RingBuffer] = []
        windows = [location.to_window(sources[location.source_index], order) for location in read_locations]
        for (shape, dtype), initial_node, number in zip(result_types, flat, back.carry_cotangents, strict=False):
            ring = RingBuffer.of(shape, dtype, turns, initial_node, keep_all=False)
            slots.append(ring)
            window = ring.to_window(turns, 0)
            if number is None:  # only the last iteration receives a cotangent here
                ring.buffer.array[ring.nbytes :] = 0
                window = window._replace(starts=np.minimum(np.arange(turns), 1) * ring.nbytes)
            windows.append(window)
        for (shape, dtype), g, location in zip(result_types[iteration.carry_count :], ys, y_locations, strict=True):
            if g is None or location is None:
                zero = RingBuffer.of(shape, dtype, 0, None, keep_all=True)
                windows.append(BufferWindow(zero.buffer, order[-1:], zero.nbytes))
            else:
                windows.append(location.to_window(g.node, order))
        so_far = {
            k: RingBuffer.of(*back.program.input_types[formula.sum_so_far], turns, None, keep_all=False) for k, formula in sums.items()
        }
        windows += [ring.to_window(turns, 0) for ring in so_far.values()]
        for node in panels.pack([sources[location.source_index] for location in read_locations]):
            windows.append(BufferWindow(node.buffer, order[-1:], node.recipe.nbytes))  # type: ignore[arg-type]
        placed = {stand.node: window for stand, window in zip(placeholders, windows, strict=True)}
        roots: list[Node] = []

        def add_root(number: int, window: BufferWindow) -> None:
            roots.append(values[panels.renumber(number)])
            placed[roots[-1]] = window

        for ring, number in zip(slots, back.carry_cotangents, strict=True):
            if number is not None:
                add_root(number, ring.to_window(turns, 1))
        for k, ring in so_far.items():
            add_root(sums[k].next_sum, ring.to_window(turns, 1))
        stacks: dict[int, Node] = {}
        for number in (*back.x_cotangents, *back.stacked_values):
            if number is not None and number not in stacks:
                shape, dtype = values[panels.renumber(number)].shape, values[panels.renumber(number)].dtype
                stacks[number] = _allocate_stack(turns, shape, dtype)
                add_root(number, ValueLocation(0, Layout.contiguous(shape), 0, prod(shape)).to_window(stacks[number], order))
        if roots and not run_repeated(roots, placed, turns):
            return None
        results: list[tuple[int, Cotangent]] = []
        for k, (ring, number) in enumerate(zip(slots, back.carry_cotangents, strict=True)):
            if number is not None:
                results.append((k, self._source_cotangent(sources, k, NodeView(make_data_node(ring.copy_last(turns), *result_types[k])))))
        for k, number in enumerate(back.x_cotangents, iteration.carry_count):
            if number is not None:
                results.append((k, self._source_cotangent(sources, k, NodeView(stacks[number]))))
        product_nodes: dict[ProductCotangent, Node] = {}
        for k, formula in back.captured_cotangents.items():
            if isinstance(formula, AccumulatedCotangent):
                g = NodeView(make_data_node(so_far[k].copy_last(turns), *back.program.input_types[formula.sum_so_far]))
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
        location = self.locations[self.iteration.backward_inputs[number][0]]
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
