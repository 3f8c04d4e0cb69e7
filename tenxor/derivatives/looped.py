"""The execution of scan loops: forward by iteration, recorded as a single step of the tape, and the backward pass by iteration, from the
last to the first.

The values read by the backward pass are stacked in memory over the iterations: carried values, sequences and residuals. Cheap elementwise
values are recomputed, as keeping them would cost as much. The cotangent of a captured value is accumulated over the iterations. If this
cotangent is a product, its operands are stacked instead, and a single product over the iterations follows at the end.

A derivative of the backward pass itself, and forward mode, run through the iterations as ordinary operations (`Loop._unrolled`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

import numpy as np

from ..backend.interface import Place
from ..dtypes import DType
from ..layout import Layout
from ..memory import allocate
from ..node import MAX_PENDING, Node, Scalar, data, tracked, tracking
from ..ops import OPS
from ..past import past_of
from ..realize import realize
from ..records import NamedTuple
from ..remembered import Remembered
from .adjoint import Part, adjoint, part_at
from .batching import led
from .calls import called
from .loop import NOTHING, Body, Program, Slots, Where, is_affine, own, ran
from .panels import Panels
from .partials import is_smooth
from .reverse import Root, cotangents_at
from .rule import Making
from .seen import SUM, Seen, Term
from .way_back import Product, Sum, WayBack, way_back

_MULTIPLY, _CAST = OPS["multiply"], OPS["cast"]


class LoopResult(NamedTuple):
    """The results of a loop: the final carried values, and the output sequences with the iterations along the first axis."""

    carries: list[Node]
    ys: list[Seen]


def looped(body: Body, carries: Sequence[Seen], xs: Sequence[Seen], turns: int) -> LoopResult | None:
    """Run `turns` iterations of `body` and return their results; None if the loop cannot run as one plan per iteration.

    `carries` are the initial carried values, and `xs` the input sequences, with the iterations along the first axis.
    """
    inputs = [*carries, *xs, *[Seen(node) for node in body.made.captured]]
    initial_nodes = [x.flat() for x in carries]
    realize(*[x.node for x in inputs], *initial_nodes)
    sources = [own(x.node) for x in inputs]
    x_locations = [Where.of(k, x.layout) for k, x in enumerate(xs, len(carries))]
    iteration = _compile_iteration(body, x_locations, [past_of(node) is not None for node in sources] if tracking.get() else [])
    if iteration is None:
        return None
    order, carry_count = np.arange(turns), len(carries)
    locations = iteration.locations | dict(enumerate(x_locations, carry_count))
    placed: dict[Node, Place] = {}
    for k in range(carry_count, len(inputs)):
        placed[iteration.placeholders[k].node] = locations[k].place(sources[k], order)
    for stand, node in zip(iteration.placeholders[len(inputs) :], iteration.panels.made(sources), strict=True):
        placed[stand.node] = Place(node.buffer, order[:1], node.recipe.nbytes)  # type: ignore[arg-type]
    slots: list[Slots] = []
    for k, (number, initial_node) in enumerate(zip(iteration.nexts, initial_nodes, strict=True)):
        shape, dtype = iteration.result_types[k]
        keeps_all = number in locations
        ring = Slots.of(shape, dtype, turns, initial_node, every=keeps_all)
        slots.append(ring)
        placed[iteration.placeholders[k].node], placed[iteration.node_of[number]] = ring.place(turns, 0), ring.place(turns, 1)
        if keeps_all:
            sources.append(data(ring.buffer, (turns + 1, *shape), dtype))
    for number, shape, dtype in iteration.stacked:
        sources.append(_allocate_stack(turns, shape, dtype))
        placed[iteration.node_of[number]] = locations[number].place(sources[-1], order)
    sources += iteration.extras
    if not ran(iteration.roots, placed, turns):
        return None
    ends = [data(ring.last(turns), shape, dtype) for ring, (shape, dtype) in zip(slots, iteration.result_types, strict=False)]
    results = [*ends, *[sources[k] for k in iteration.sequences]]
    if iteration.back is not None:
        loop = Loop(iteration, [x.layout for x in inputs], locations, turns)
        results = called("scan", results, sources, loop.pull)
    recorded_stacks = dict(zip(iteration.sequences, results[len(ends) :], strict=True))
    return LoopResult(
        results[: len(ends)], [Seen(recorded_stacks[locations[number].k], locations[number].every(turns)) for number in iteration.ys]
    )


def _allocate_stack(turns: int, shape: tuple[int, ...], dtype: DType) -> Node:
    """Return a node with uninitialised memory for a value of `shape` and `dtype` in each of `turns` iterations, along the first axis."""
    stack_shape = (turns, *shape)
    size = Layout.contiguous(stack_shape).size
    return data(allocate(size * dtype.itemsize, "scan", stack_shape, dtype), stack_shape, dtype)


_iteration_cache: Remembered[CompiledIteration] = Remembered(1 << 7)


def _compile_iteration(body: Body, x_locations: Sequence[Where], follows: Sequence[bool]) -> CompiledIteration | None:
    """Return the compiled form of an iteration, from the cache if an equal iteration was compiled before.

    `x_locations` are the locations of the sequence elements. `follows` says which inputs of the loop are on the tape; it is empty if no
    tape is recorded. Return None if a derivative is needed but the backward pass cannot run by iteration.
    """
    program = body.program()
    number = program.number_of
    results = [*body.nexts, *body.ys]
    key: list[object] = [
        len(body.carries),
        len(body.nexts),
        *[number[node] for node in results],
        *[location.layout for location in x_locations],
    ]
    key += [*program.shapes, *follows]
    for node, step in zip(body.made.order, program.steps, strict=True):
        key += [step.recipe, step.offsets, step.constant]
        key += [s if type(s) is int else (repr(s.value), s.dtype) for s in step.sources]  # type: ignore[union-attr]
        past = past_of(node) if any(follows) else None
        key.append(None if past is None else past.recipe)
    if any(follows):
        key += [past_of(node) is not None for node in (*body.carries, *body.xs, *body.made.captured)]
    iteration = _iteration_cache.get(tuple(key))
    if iteration is None:
        back = None
        if any(follows):
            carry_count = len(body.carries)
            back = way_back(body, follows[carry_count : carry_count + len(body.xs)])
            if back is None:
                return None
        iteration = CompiledIteration(body, program, x_locations, back)
        if not iteration.extras:
            _iteration_cache.keep(tuple(key), iteration)
    return iteration


class Track(NamedTuple):
    """An output sequence: the value number of its elements, and the index of the differentiable result with the sequence, or None if no
    cotangent is taken there.
    """

    number: int
    result: int | None


class CompiledIteration:
    """An iteration ready to run, without the nodes of the trace. Values have the numbers of `program`. `result_types` lists shape and dtype
    of the new carried values, then of the elements of the output sequences.

    The sources of a loop are the initial carried values, the input sequences and the captured values. Next come values stacked over the
    iterations: carried values needed again, and those in `stacked`. The last sources are `extras`, computed from captured values by the
    backward pass. `locations` maps value numbers to their locations in the sources, except for the input sequences.
    """

    def __init__(self, body: Body, program: Program, x_locations: Sequence[Where], back: WayBack | None) -> None:
        self.program, self.back = program, back
        self.carries, self.xs = len(body.carries), len(body.xs)
        number = program.number_of
        reads = [] if back is None else back.reads
        kept_nodes = [] if back is None else back.kept
        carry_count, count = self.carries, len(program.shapes)
        self.panels = Panels(program, range(carry_count + len(body.xs), count))
        self.placeholders = [Seen(data(NOTHING, node.shape, node.dtype)) for node in body.carries]
        self.placeholders += [location.stands(node.dtype) for node, location in zip(body.xs, x_locations, strict=True)]
        self.placeholders += [
            Seen(data(NOTHING, shape, dtype)) for shape, dtype in self.panels.program.shapes[carry_count + len(body.xs) :]
        ]
        nodes = self.panels.program.made(self.placeholders, copies=True)
        self.nexts, self.ys = ([number[node] for node in group] for group in (body.nexts, body.ys))
        self.node_of = {number[node]: nodes[self.panels.number(number[node])] for node in (*body.nexts, *body.ys, *kept_nodes)}
        self.roots = list(dict.fromkeys(self.node_of.values()))
        self.result_types = [(node.shape, node.dtype) for node in (*body.nexts, *body.ys)]
        self.locations = {k: Where(k, Layout.contiguous(program.shapes[k][0]), 0, 0) for k in range(carry_count + len(body.xs), count)}
        index = count
        for carry, next_carry in zip(body.carries, body.nexts, strict=True):
            if carry in reads or next_carry in reads or next_carry in body.ys:
                plain = Layout.contiguous(next_carry.shape)
                self.locations[number[carry]] = Where(index, plain, 0, next_carry.size)
                self.locations[number[next_carry]] = Where(index, plain, next_carry.size, next_carry.size)
                index += 1
        self.stacked: list[tuple[int, tuple[int, ...], DType]] = []
        for node in (*body.ys, *kept_nodes):
            if number[node] not in self.locations:
                self.locations[number[node]] = Where(index, Layout.contiguous(node.shape), 0, node.size)
                self.stacked.append((number[node], node.shape, node.dtype))
                index += 1
        self.extras = [node for node in reads if node not in body.xs and number.get(node) not in self.locations]
        realize(*self.extras)
        self.read = [(~self.extras.index(node) if node in self.extras else number[node], node.dtype) for node in reads]
        self.locations |= {~k: Where(index + k, Layout.contiguous(node.shape), 0, 0) for k, node in enumerate(self.extras)}
        self.sequences = list(dict.fromkeys([self.locations[k].k for k in self.ys]))
        stack_of = {self.locations[number[node]].k: node.dtype for node in body.ys}
        smooth = [is_smooth(dtype) for _, dtype in self.result_types[:carry_count]] + [is_smooth(stack_of[k]) for k in self.sequences]
        smooth_index = [sum(smooth[:k]) if yes else None for k, yes in enumerate(smooth)]
        self.ends = smooth_index[:carry_count]
        self.tracks = [
            Track(k, None if k in self.ys[:index] else smooth_index[carry_count + self.sequences.index(self.locations[k].k)])
            for index, k in enumerate(self.ys)
        ]
        if back is not None:
            fixed_inputs = [
                index
                for index, (k, _) in enumerate(self.read)
                if not carry_count <= k < carry_count + len(body.xs) and not self.locations[k].step
            ]
            self.back_panels = Panels(back.program, fixed_inputs)
            back.forget()
        program.number_of = {}
        self._backward_cache: dict[object, tuple[list[Seen], list[Node]]] = {}

    def way_back(self, make_placeholders: Callable[[], list[Seen]], key: object) -> tuple[list[Seen], list[Node]]:
        """Return the placeholders for the inputs of the backward pass, and the nodes computed from them. `key` identifies the layouts of
        the cotangents; a new key calls `make_placeholders` to create the placeholders.
        """
        cached = self._backward_cache.get(key)
        if cached is None:
            if len(self._backward_cache) >= MAX_CACHED_LAYOUTS:
                self._backward_cache.clear()
            placeholders = make_placeholders()
            cached = self._backward_cache[key] = placeholders, self.back_panels.program.made(placeholders, copies=True)
        return cached


NO_LAYOUT = Layout.contiguous(())
MAX_CACHED_LAYOUTS = 8  # cached layouts of cotangents


class Loop:
    """A loop that has run, as recorded on the tape. `layouts` are those of the inputs, over all iterations; `locations` maps value numbers
    to their locations.
    """

    def __init__(self, iteration: CompiledIteration, layouts: list[Layout], locations: dict[int, Where], turns: int) -> None:
        self.iteration, self.layouts, self.locations, self.turns = iteration, layouts, locations, turns

    def pull(self, past: Making, gs: list[Seen], wanted: Sequence[int]) -> Iterable[tuple[int, Part]]:
        """Return pairs (k, cotangent of source k) for the sources `wanted` of the tape node `past`, given the results' cotangents `gs`."""
        iteration = self.iteration
        ends = [None if k is None or _is_zero(gs[k]) else gs[k] for k in iteration.ends]
        ys = [None if track.result is None else self._sequence_cotangent(gs[track.result], track.number) for track in iteration.tracks]
        if not tracking.get() and not any([g.node.traced for g in gs]):  # and the cotangents are not traced by `vmap`
            cotangents = self._run_backward(past.sources, ends, ys)
            if cotangents is not None:
                return [(k, cotangent) for k, cotangent in cotangents if k in wanted]
        return self._unrolled(past.sources, ends, ys, wanted)

    def _sequence_cotangent(self, g: Seen, number: int) -> Seen | None:
        """Return the cotangent of an output sequence, given the cotangent `g` of the source that stores it; None stands for 0.

        `number` is the value number of the sequence's elements.
        """
        layout = self.locations[number].every(self.turns)
        if layout.is_contiguous() and g.layout.is_contiguous():
            g = part_at(g.node, g.layout.offset + layout.offset, layout.size).reshaped(layout.shape)
        else:
            g = g.through(layout)
        return None if _is_zero(g) else g

    def _run_backward(
        self, sources: Sequence[Node], ends: Sequence[Seen | None], ys: Sequence[Seen | None]
    ) -> list[tuple[int, Part]] | None:
        """Run the backward pass by iteration. Return pairs (k, cotangent of source k), or None if the plan cannot be repeated.

        `sources` are the sources of the loop's tape node. `ends` are the cotangents of the final carried values, and `ys` those of the
        output sequences; None stands for 0.
        """
        turns, iteration = self.turns, self.iteration
        back, panels = iteration.back, iteration.back_panels
        assert back is not None
        order = np.arange(turns)[::-1]
        flat = [None if g is None else g.flat() for g in ends]
        ys = [g if g is None or is_affine(g.layout) else Seen(g.flat()).reshaped(g.shape) for g in ys]
        realize(*[node for node in flat if node is not None], *[g.node for g in ys if g is not None])
        read_locations = [self.locations[k] for k, _ in iteration.read]
        sums = {k: formula for k, formula in back.captured.items() if isinstance(formula, Sum)}
        y_locations = [None if g is None else Where.of(0, g.layout) for g in ys]
        result_types = iteration.result_types

        def make_placeholders() -> list[Seen]:
            placeholders = [location.stands(dtype) for location, (_, dtype) in zip(read_locations, iteration.read, strict=True)]
            placeholders += [Seen(data(NOTHING, shape, dtype)) for shape, dtype in result_types[: iteration.carries]]
            for location, (shape, dtype) in zip(y_locations, result_types[iteration.carries :], strict=True):
                placeholders.append(Seen(data(NOTHING, shape, dtype)) if location is None else location.stands(dtype))
            return placeholders + [Seen(data(NOTHING, shape, dtype)) for shape, dtype in panels.program.shapes[len(placeholders) :]]

        placeholders, values = iteration.way_back(
            make_placeholders, tuple([None if location is None else location.layout for location in y_locations])
        )
        slots: list[Slots] = []
        windows = [location.place(sources[location.k], order) for location in read_locations]
        for (shape, dtype), initial_node, number in zip(result_types, flat, back.carries, strict=False):
            ring = Slots.of(shape, dtype, turns, initial_node, every=False)
            slots.append(ring)
            window = ring.place(turns, 0)
            if number is None:  # only the last iteration receives a cotangent here
                ring.buffer.array[ring.nbytes :] = 0
                window = window._replace(starts=np.minimum(np.arange(turns), 1) * ring.nbytes)
            windows.append(window)
        for (shape, dtype), g, location in zip(result_types[iteration.carries :], ys, y_locations, strict=True):
            if g is None or location is None:
                zero = Slots.of(shape, dtype, 0, None, every=True)
                windows.append(Place(zero.buffer, order[-1:], zero.nbytes))
            else:
                windows.append(location.place(g.node, order))
        so_far = {k: Slots.of(*back.program.shapes[formula.so_far], turns, None, every=False) for k, formula in sums.items()}
        windows += [ring.place(turns, 0) for ring in so_far.values()]
        for node in panels.made([sources[location.k] for location in read_locations]):
            windows.append(Place(node.buffer, order[-1:], node.recipe.nbytes))  # type: ignore[arg-type]
        placed = {stand.node: window for stand, window in zip(placeholders, windows, strict=True)}
        roots: list[Node] = []

        def add_root(number: int, window: Place) -> None:
            roots.append(values[panels.number(number)])
            placed[roots[-1]] = window

        for ring, number in zip(slots, back.carries, strict=True):
            if number is not None:
                add_root(number, ring.place(turns, 1))
        for k, ring in so_far.items():
            add_root(sums[k].more, ring.place(turns, 1))
        stacks: dict[int, Node] = {}
        for number in (*back.xs, *back.stacked):
            if number is not None and number not in stacks:
                shape, dtype = values[panels.number(number)].shape, values[panels.number(number)].dtype
                stacks[number] = _allocate_stack(turns, shape, dtype)
                add_root(number, Where(0, Layout.contiguous(shape), 0, prod(shape)).place(stacks[number], order))
        if roots and not ran(roots, placed, turns):
            return None
        results: list[tuple[int, Part]] = []
        for k, (ring, number) in enumerate(zip(slots, back.carries, strict=True)):
            if number is not None:
                results.append((k, self._source_cotangent(sources, k, Seen(data(ring.last(turns), *result_types[k])))))
        for k, number in enumerate(back.xs, iteration.carries):
            if number is not None:
                results.append((k, self._source_cotangent(sources, k, Seen(stacks[number]))))
        product_nodes: dict[Product, Node] = {}
        for k, formula in back.captured.items():
            if isinstance(formula, Sum):
                g = Seen(data(so_far[k].last(turns), *back.program.shapes[formula.so_far]))
            else:
                unplaced = formula._replace(layout=NO_LAYOUT)  # equal products are computed once
                if unplaced not in product_nodes:
                    product_nodes[unplaced] = _sum_over_turns(
                        formula, [self._view_all_turns(sources, stacks, number) for number in formula.operands], turns
                    )
                g = Seen(product_nodes[unplaced], formula.layout)
            results.append((iteration.carries + iteration.xs + k, g))
        return results

    def _source_cotangent(self, sources: Sequence[Node], k: int, g: Seen) -> Part:
        """Return the cotangent of source `k`, given the cotangent `g` of the view of this source that the loop reads."""
        layout = self.layouts[k]
        return adjoint(layout, Term.of(g.reshaped(layout.shape)), sources[k].size)

    def _view_all_turns(self, sources: Sequence[Node], stacks: dict[int, Node], number: int) -> Seen:
        """Return a view of value `number` of the backward program in every iteration, with the iterations along the first axis.

        `stacks` maps numbers to values that the backward pass stored; other values are in `sources`.
        """
        if number in stacks:
            return Seen(stacks[number])
        location = self.locations[self.iteration.read[number][0]]
        return Seen(sources[location.k], location.every(self.turns))

    def _unrolled(
        self, sources: Sequence[Node], ends: Sequence[Seen | None], ys: Sequence[Seen | None], wanted: Sequence[int]
    ) -> list[tuple[int, Part]]:
        """Run all iterations again, recording a tape, and return pairs (k, cotangent of source k) for the sources `wanted`.

        The cotangents are computed by differentiable operations. `ends` are the cotangents of the final carried values, and `ys` those of
        the output sequences; None stands for 0.
        """
        iteration, carry_count = self.iteration, self.iteration.carries
        captured = [Seen(sources[k]) for k in range(carry_count + iteration.xs, len(self.layouts))]
        roots: list[Root] = []
        with tracked():
            carried = [Seen(sources[k], self.layouts[k]) for k in range(carry_count)]
            x_locations = [self.locations[k] for k in range(carry_count, carry_count + iteration.xs)]
            turns_per_realize = max(1, MAX_PENDING // max(1, len(iteration.program.steps)))
            for turn in range(self.turns):
                xs = [location.seen(sources[location.k], turn) for location in x_locations]
                values = iteration.program.made([*carried, *xs, *captured])
                carried = [Seen(values[number]) for number in iteration.nexts]
                roots += [
                    (values[k], g.moved(lambda layout: layout.index((turn,))))  # noqa: B023
                    for k, g in zip(iteration.ys, ys, strict=True)
                    if g is not None
                ]
                if turn % turns_per_realize == 0 and not any([x.node.traced for x in carried]):
                    realize(*[x.node for x in carried])
            roots += [(x.node, g) for x, g in zip(carried, ends, strict=True) if g is not None]
            pasts = {k: past for k in wanted if (past := past_of(sources[k])) is not None}
            edge = {past for node in sources if (past := past_of(node)) is not None}
            cotangents = cotangents_at(roots, set(pasts.values()), edge)
        return [(k, cotangents[past]) for k, past in pasts.items() if past in cotangents]


def _sum_over_turns(formula: Product, operands: Sequence[Seen], turns: int) -> Node:
    """Return the cotangent of a captured value, computed by `formula` as a single product or sum over all `turns` iterations, as a node.

    `operands` are views of the operands in every iteration, with the iterations along the first axis.
    """
    nodes: list[Node] = []
    layouts: list[Layout] = []
    forms = formula.total.forms if formula.product is None else formula.product.forms
    for x, form, offset in zip(operands, forms, formula.offsets, strict=True):
        assert form is not None
        if not x.layout.is_contiguous() and x.layout.strides[0]:  # a contiguous operand lets the iterations form a single loop
            x = Seen(x.flat()).reshaped(x.shape)
        nodes.append(x.node)
        layouts.append(led(form.layout.at(offset + x.layout.offset), turns, x.layout.strides[0]))
    if formula.product is not None:
        shape = layouts[0].shape
        nodes = [Node.of(_MULTIPLY, shape, formula.product.dtype, tuple(nodes), tuple(layouts))]
        layouts = [Layout.contiguous(shape)]
    kept_ndim = 1 + len(formula.total.shape)
    axes = (*range(1, kept_ndim), 0, *range(kept_ndim, layouts[0].ndim))
    return Node.of(SUM, formula.total.shape, formula.total.dtype, (nodes[0],), (layouts[0].permute(axes),))


def _is_zero(g: Seen) -> bool:
    """Return whether a cotangent is a constant 0. Only a pending constant is recognized."""
    node = g.node
    if node.buffer is not None or node.op is not _CAST:
        return False
    (number,) = node.sources
    return type(number) is Scalar and number.value == 0
