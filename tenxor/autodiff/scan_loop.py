"""The execution of scan loops: forward by iteration, recorded as a single step of the tape, and the backward pass by iteration, from the
last to the first. Carried values go from iteration to iteration. Captured values are equal in every iteration. A stack holds a value of
every iteration, along the first axis.

The values read by the backward pass are stacked in memory over the iterations: carried values, sequences and residuals. Cheap elementwise
values are recomputed, as keeping them would cost as much. The cotangent of a captured value is accumulated over the iterations. If this
cotangent is a product, its operands are stacked instead, and a single product over the iterations follows at the end.

A derivative of the backward pass itself, and forward mode, run through the iterations as ordinary operations
(`RecordedLoop._pull_unrolled`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._utils.records import NamedTuple
from ..dtypes import DType
from ..graph.node import MAX_PENDING_NODES, Node, Scalar, make_data_node, tape_mode, use_tape_mode
from ..layout import Layout
from ..memory.buffer import allocate
from ..ops import OPS
from ..runtime.realize import realize
from .batching import prepend_batch_axis
from .function_op import record_function
from .grad_rule import TapeNodeLike
from .layout_adjoint import Cotangent, apply_adjoint, slice_cotangent
from .node_view import SUM, DeferredTerm, NodeView
from .reverse import Root, compute_at_boundary
from .scan_backward import AccumulatedCotangent, ProductCotangent
from .scan_body import RingBuffer, TracedStep, ValueLocation, ensure_unshared, is_affine
from .scan_iteration import ForwardLoop, find_loop
from .tape import get_tape_node

_MULTIPLY, _CAST = OPS["multiply"], OPS["cast"]


class ScanResult(NamedTuple):
    """The results of a loop: the final carried values `carries`, and the output sequences `ys`, with the iterations along the first
    axis.
    """

    carries: list[Node]
    ys: list[NodeView]


def run_scan(step: TracedStep, carries: Sequence[NodeView], xs: Sequence[NodeView], iteration_count: int) -> ScanResult | None:
    """Run `iteration_count` iterations of `step` at once and return their results; None if the loop cannot run as one plan per iteration.

    `carries` are the initial carried values, and `xs` the input sequences, with the iterations along the first axis. If a derivative may be
    asked for, the results are recorded as a single step of the tape. With None, nothing is recorded, but pending inputs may have been
    computed.
    """
    entry = find_loop(step, carries, xs, iteration_count)
    if entry is None:
        return None
    loop, captured = entry
    iteration = loop.iteration
    inputs = [*[x.node for x in (*carries, *xs)], *captured]
    initial_nodes = [x.to_node() for x in carries]
    realize(*inputs, *initial_nodes)
    sources = list(map(ensure_unshared, inputs))
    ring_memories = [ring_buffer.allocate(initial_node) for ring_buffer, initial_node in zip(loop.rings, initial_nodes, strict=True)]
    panels = iteration.panel_program.pack(sources)
    stacks = [_allocate_stack(iteration_count, shape, dtype) for _, shape, dtype in iteration.stacked]
    if not loop.graph.run([*ring_memories, *[node.buffer for node in (*sources[len(carries) :], *panels, *stacks)]]):  # type: ignore[list-item]
        return None
    for number, memory, (shape, dtype) in zip(iteration.next_carries, ring_memories, iteration.result_types, strict=False):
        if number in iteration.locations:
            sources.append(make_data_node(memory, (iteration_count + 1, *shape), dtype))
    sources += [*stacks, *iteration.extra_sources]
    ends = [
        make_data_node(ring_buffer.copy_last(memory, iteration_count), shape, dtype)
        for ring_buffer, memory, (shape, dtype) in zip(loop.rings, ring_memories, iteration.result_types, strict=False)
    ]
    results = [*ends, *[sources[k] for k in iteration.sequence_sources]]
    if iteration.backward is not None:
        layouts = [x.layout for x in (*carries, *xs, *map(NodeView, captured))]
        recorded_loop = RecordedLoop(loop, layouts)
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


NO_LAYOUT = Layout.contiguous(())


class RecordedLoop:
    """A loop that has run, as recorded on the tape. `layouts` are the layouts of the inputs (initial carried values, sequences, captured
    values), with every iteration.
    """

    def __init__(self, loop: ForwardLoop, layouts: list[Layout]) -> None:
        self.iteration, self.locations, self.iteration_count, self.layouts = loop.iteration, loop.locations, loop.iteration_count, layouts

    def vjp(self, tape_node: TapeNodeLike, gs: list[NodeView], wanted: Sequence[int]) -> Iterable[tuple[int, Cotangent]]:
        """Return pairs (k, cotangent of source k) for the sources `wanted` of the tape node `tape_node`, given `gs`, the cotangents of the
        differentiable results.

        The pass runs by iteration. If it is recorded or traced itself, or if the plan cannot be repeated, it runs through ordinary
        operations. A source without a pair has the cotangent 0.
        """
        iteration = self.iteration
        ends = [None if k is None or _is_zero(gs[k]) else gs[k] for k in iteration.carry_results]
        ys = [
            None if sequence.result_index is None else self._sequence_cotangent(gs[sequence.result_index], sequence.value_number)
            for sequence in iteration.output_sequences
        ]
        if not tape_mode.get() and not any([g.node.is_traced for g in gs]):  # and the cotangents are not traced by `vmap`
            cotangents = self._run_backward(tape_node.sources, ends, ys)
            if cotangents is not None:
                return [(k, cotangent) for k, cotangent in cotangents if k in wanted]
        return self._pull_unrolled(tape_node.sources, ends, ys, wanted)

    def _sequence_cotangent(self, g: NodeView, number: int) -> NodeView | None:
        """Return the cotangent of an output sequence, given the cotangent `g` of the source that stores it; None stands for 0.

        `number` is the value number of the sequence's elements. The result has the iterations along the first axis. Only a pending constant
        0 gives None.
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
        output sequences; None stands for 0. Pending cotangents are computed first. A source without a pair has the cotangent 0 or is not on
        the tape.
        """
        iteration_count, iteration = self.iteration_count, self.iteration
        back, panels, result_types = iteration.backward, iteration.backward_panels, iteration.result_types
        assert back is not None
        flat = [None if g is None else g.to_node() for g in ends]
        ys = [g if g is None or is_affine(g.layout) else NodeView(g.to_node()).reshape(g.shape) for g in ys]
        realize(*[node for node in flat if node is not None], *[g.node for g in ys if g is not None])
        y_locations = [None if g is None else ValueLocation.of(0, g.dtype, g.layout) for g in ys]
        loop = iteration.get_backward_loop(self.locations, y_locations, iteration_count)
        read_nodes = [sources[location.source_index] for location in loop.read_locations]
        ring_memories = [ring_buffer.allocate(initial_node) for ring_buffer, initial_node in zip(loop.rings, flat, strict=True)]
        for memory, ring_buffer, number in zip(ring_memories, loop.rings, back.carry_cotangents, strict=True):
            if number is None:  # only the last iteration receives a cotangent here
                memory.array[ring_buffer.nbytes :] = 0
        y_buffers = [
            RingBuffer.of(shape, dtype, 0, keep_all=True).allocate(None) if g is None else g.node.buffer
            for (shape, dtype), g in zip(result_types[iteration.carry_count :], ys, strict=True)
        ]
        running_sums = {k: ring_buffer.allocate(None) for k, ring_buffer in loop.sum_rings.items()}
        stacks = {number: _allocate_stack(iteration_count, shape, dtype) for number, shape, dtype in loop.stacked}
        buffers: list[Any] = [node.buffer for node in read_nodes]
        buffers += [
            *ring_memories,
            *y_buffers,
            *running_sums.values(),
            *[node.buffer for node in (*panels.pack(read_nodes), *stacks.values())],
        ]
        if loop.graph is not None and not loop.graph.run(buffers):
            return None
        results: list[tuple[int, Cotangent]] = []
        for k, (ring_buffer, memory, number) in enumerate(zip(loop.rings, ring_memories, back.carry_cotangents, strict=True)):
            if number is not None:
                last_node = make_data_node(ring_buffer.copy_last(memory, iteration_count), *result_types[k])
                results.append((k, self._source_cotangent(sources, k, NodeView(last_node))))
        for k, number in enumerate(back.x_cotangents, iteration.carry_count):
            if number is not None:
                results.append((k, self._source_cotangent(sources, k, NodeView(stacks[number]))))
        product_nodes: dict[ProductCotangent, Node] = {}
        for k, formula in back.captured_cotangents.items():
            if isinstance(formula, AccumulatedCotangent):
                last_sum = loop.sum_rings[k].copy_last(running_sums[k], iteration_count)
                g = NodeView(make_data_node(last_sum, *back.program.input_types[formula.sum_so_far]))
            else:
                unplaced = formula._replace(layout=NO_LAYOUT)  # equal products are computed once
                if unplaced not in product_nodes:
                    product_nodes[unplaced] = _sum_over_iterations(
                        formula, [self._view_all_iterations(sources, stacks, number) for number in formula.operand_numbers], iteration_count
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
        """Return a view of input or value `number` of the backward program in every iteration, with the iterations along the first axis.

        `stacks` maps numbers to values that the backward pass stored. Any other number belongs to a node of the iteration that has a value
        in `sources`. A value equal in every iteration is repeated.
        """
        if number in stacks:
            return NodeView(stacks[number])
        location = self.locations[self.iteration.backward_inputs[number]]
        return NodeView(sources[location.source_index], location.stack_iterations(self.iteration_count))

    def _pull_unrolled(
        self, sources: Sequence[Node], ends: Sequence[NodeView | None], ys: Sequence[NodeView | None], wanted: Sequence[int]
    ) -> list[tuple[int, Cotangent]]:
        """Run all iterations again, recording a tape, and return pairs (k, cotangent of source k) for the sources `wanted`.

        The cotangents are computed by differentiable operations. `sources` are the sources of the loop's tape node; a source off the tape,
        or without influence on the results, gets no pair. `ends` are the cotangents of the final carried values, and `ys` those of the
        output sequences; None stands for 0.
        """
        iteration, carry_count = self.iteration, self.iteration.carry_count
        captured = [NodeView(sources[k]) for k in range(carry_count + iteration.x_count, len(self.layouts))]
        roots: list[Root] = []
        with use_tape_mode():
            carried = [NodeView(sources[k], self.layouts[k]) for k in range(carry_count)]
            x_locations = [self.locations[k] for k in range(carry_count, carry_count + iteration.x_count)]
            iterations_per_realize = max(1, MAX_PENDING_NODES // max(1, len(iteration.program.steps)))
            for iteration_index in range(self.iteration_count):
                xs = [location.view_at(sources[location.source_index], iteration_index) for location in x_locations]
                values = iteration.program.instantiate([*carried, *xs, *captured])
                carried = [NodeView(values[number]) for number in iteration.next_carries]
                roots += [
                    (values[k], g.map_layout(lambda layout: layout.index((iteration_index,))))  # noqa: B023
                    for k, g in zip(iteration.ys, ys, strict=True)
                    if g is not None
                ]
                if iteration_index % iterations_per_realize == 0 and not any([x.node.is_traced for x in carried]):
                    realize(*[x.node for x in carried])
            roots += [(x.node, g) for x, g in zip(carried, ends, strict=True) if g is not None]
            tape_nodes = {k: tape_node for k in wanted if (tape_node := get_tape_node(sources[k])) is not None}
            boundary = {tape_node for node in sources if (tape_node := get_tape_node(node)) is not None}
            cotangents = compute_at_boundary(roots, set(tape_nodes.values()), boundary)
        return [(k, cotangents[tape_node]) for k, tape_node in tape_nodes.items() if tape_node in cotangents]


def _sum_over_iterations(formula: ProductCotangent, operands: Sequence[NodeView], iteration_count: int) -> Node:
    """Return the cotangent of a captured value, computed by `formula` as a single product or sum over all `iteration_count` iterations, as
    a pending node.

    `operands` are views of the operands in every iteration, with the iterations along the first axis; two for a product, a single view for
    a sum. The caller views the result through `formula.layout`.
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
