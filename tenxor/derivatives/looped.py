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


class Looped(NamedTuple):
    """The results of a loop: the final carried values, and the output sequences with the iterations along the first axis."""

    carries: list[Node]
    ys: list[Seen]


def looped(body: Body, carries: Sequence[Seen], xs: Sequence[Seen], turns: int) -> Looped | None:
    """Run a loop from the initial carried values, over sequences with the iterations along the first axis. Return None if the loop cannot
    run as one plan per iteration.
    """
    given = [*carries, *xs, *[Seen(node) for node in body.made.captured]]
    beginnings = [x.flat() for x in carries]
    realize(*[x.node for x in given], *beginnings)
    sources = [own(x.node) for x in given]
    parts = [Where.of(k, x.layout) for k, x in enumerate(xs, len(carries))]
    ready = _ready_for(body, parts, [past_of(node) is not None for node in sources] if tracking.get() else [])
    if ready is None:
        return None
    order, first = np.arange(turns), len(carries)
    known = ready.known | dict(enumerate(parts, first))
    placed: dict[Node, Place] = {}
    for k in range(first, len(given)):
        placed[ready.stands[k].node] = known[k].place(sources[k], order)
    for stand, node in zip(ready.stands[len(given) :], ready.panels.made(sources), strict=True):
        placed[stand.node] = Place(node.buffer, order[:1], node.recipe.nbytes)  # type: ignore[arg-type]
    slots: list[Slots] = []
    for k, (number, begin) in enumerate(zip(ready.nexts, beginnings, strict=True)):
        shape, dtype = ready.own[k]
        every = number in known
        its = Slots.of(shape, dtype, turns, begin, every=every)
        slots.append(its)
        placed[ready.stands[k].node], placed[ready.made[number]] = its.place(turns, 0), its.place(turns, 1)
        if every:
            sources.append(data(its.buffer, (turns + 1, *shape), dtype))
    for number, shape, dtype in ready.stacked:
        sources.append(_stack(turns, shape, dtype))
        placed[ready.made[number]] = known[number].place(sources[-1], order)
    sources += ready.extras
    if not ran(ready.roots, placed, turns):
        return None
    ends = [data(its.last(turns), shape, dtype) for its, (shape, dtype) in zip(slots, ready.own, strict=False)]
    results = [*ends, *[sources[k] for k in ready.sequences]]
    if ready.back is not None:
        loop = Loop(ready, [x.layout for x in given], known, turns)
        results = called("scan", results, sources, loop.pull)
    of_stack = dict(zip(ready.sequences, results[len(ends) :], strict=True))
    return Looped(results[: len(ends)], [Seen(of_stack[known[number].k], known[number].every(turns)) for number in ready.ys])


def _stack(turns: int, shape: tuple[int, ...], dtype: DType) -> Node:
    """Return a node with uninitialised memory for a value of each iteration."""
    every = (turns, *shape)
    size = Layout.contiguous(every).size
    return data(allocate(size * dtype.itemsize, "scan", every, dtype), every, dtype)


_known: Remembered[Ready] = Remembered(1 << 7)


def _ready_for(body: Body, parts: Sequence[Where], follows: Sequence[bool]) -> Ready | None:
    """Return the compiled form of an iteration, from the cache if an equal iteration was compiled before.

    `follows` says which inputs of the loop are on the tape; it is empty if no tape is recorded. Return None if a derivative is needed but
    the backward pass cannot run by iteration.
    """
    program = body.program()
    number = program.number_of
    own = [*body.nexts, *body.ys]
    key: list[object] = [len(body.carries), len(body.nexts), *[number[node] for node in own], *[where.layout for where in parts]]
    key += [*program.shapes, *follows]
    for node, step in zip(body.made.order, program.steps, strict=True):
        key += [step.recipe, step.offsets, step.constant]
        key += [s if type(s) is int else (repr(s.value), s.dtype) for s in step.sources]  # type: ignore[union-attr]
        past = past_of(node) if any(follows) else None
        key.append(None if past is None else past.recipe)
    if any(follows):
        key += [past_of(node) is not None for node in (*body.carries, *body.xs, *body.made.captured)]
    found = _known.get(tuple(key))
    if found is None:
        back = None
        if any(follows):
            first = len(body.carries)
            back = way_back(body, follows[first : first + len(body.xs)])
            if back is None:
                return None
        found = Ready(body, program, parts, back)
        if not found.extras:
            _known.keep(tuple(key), found)
    return found


class Track(NamedTuple):
    """An output sequence: the value number of its elements, and the index of the differentiable result with the sequence, or None if no
    cotangent is taken there.
    """

    number: int
    result: int | None


class Ready:
    """An iteration ready to run, without the nodes of the trace. Values have the numbers of `program`. `own` lists shape and dtype of the
    new carried values, then of the elements of the output sequences.

    The sources of a loop are the initial carried values, the input sequences and the captured values. Next come values stacked over the
    iterations: carried values needed again, and those in `stacked`. The last sources are `extras`, computed from captured values by the
    backward pass. `known` maps value numbers to their locations in the sources, except for the input sequences.
    """

    def __init__(self, body: Body, program: Program, parts: Sequence[Where], back: WayBack | None) -> None:
        self.program, self.back = program, back
        self.carries, self.xs = len(body.carries), len(body.xs)
        number = program.number_of
        reads = [] if back is None else back.reads
        kept = [] if back is None else back.kept
        first, count = self.carries, len(program.shapes)
        self.panels = Panels(program, range(first + len(body.xs), count))
        self.stands = [Seen(data(NOTHING, node.shape, node.dtype)) for node in body.carries]
        self.stands += [where.stands(node.dtype) for node, where in zip(body.xs, parts, strict=True)]
        self.stands += [Seen(data(NOTHING, shape, dtype)) for shape, dtype in self.panels.program.shapes[first + len(body.xs) :]]
        made = self.panels.program.made(self.stands, copies=True)
        self.nexts, self.ys = ([number[node] for node in its] for its in (body.nexts, body.ys))
        self.made = {number[node]: made[self.panels.number(number[node])] for node in (*body.nexts, *body.ys, *kept)}
        self.roots = list(dict.fromkeys(self.made.values()))
        self.own = [(node.shape, node.dtype) for node in (*body.nexts, *body.ys)]
        self.known = {k: Where(k, Layout.contiguous(program.shapes[k][0]), 0, 0) for k in range(first + len(body.xs), count)}
        at = count
        for before, after in zip(body.carries, body.nexts, strict=True):
            if before in reads or after in reads or after in body.ys:
                plain = Layout.contiguous(after.shape)
                self.known[number[before]] = Where(at, plain, 0, after.size)
                self.known[number[after]] = Where(at, plain, after.size, after.size)
                at += 1
        self.stacked: list[tuple[int, tuple[int, ...], DType]] = []
        for node in (*body.ys, *kept):
            if number[node] not in self.known:
                self.known[number[node]] = Where(at, Layout.contiguous(node.shape), 0, node.size)
                self.stacked.append((number[node], node.shape, node.dtype))
                at += 1
        self.extras = [node for node in reads if node not in body.xs and number.get(node) not in self.known]
        realize(*self.extras)
        self.read = [(~self.extras.index(node) if node in self.extras else number[node], node.dtype) for node in reads]
        self.known |= {~k: Where(at + k, Layout.contiguous(node.shape), 0, 0) for k, node in enumerate(self.extras)}
        self.sequences = list(dict.fromkeys([self.known[k].k for k in self.ys]))
        stack_of = {self.known[number[node]].k: node.dtype for node in body.ys}
        smooth = [is_smooth(dtype) for _, dtype in self.own[:first]] + [is_smooth(stack_of[k]) for k in self.sequences]
        place = [sum(smooth[:k]) if yes else None for k, yes in enumerate(smooth)]
        self.ends = place[:first]
        self.tracks = [
            Track(k, None if k in self.ys[:at] else place[first + self.sequences.index(self.known[k].k)]) for at, k in enumerate(self.ys)
        ]
        if back is not None:
            same = [at for at, (k, _) in enumerate(self.read) if not first <= k < first + len(body.xs) and not self.known[k].step]
            self.back_panels = Panels(back.program, same)
            back.forget()
        program.number_of = {}
        self._backs: dict[object, tuple[list[Seen], list[Node]]] = {}

    def way_back(self, stands: Callable[[], list[Seen]], key: object) -> tuple[list[Seen], list[Node]]:
        """Return the placeholders for the inputs of the backward pass, and the nodes computed from them. `key` identifies the layouts of
        the cotangents; a new key calls `stands` to create the placeholders.
        """
        found = self._backs.get(key)
        if found is None:
            if len(self._backs) >= MOST:
                self._backs.clear()
            its = stands()
            found = self._backs[key] = its, self.back_panels.program.made(its, copies=True)
        return found


NO_LAYOUT = Layout.contiguous(())
MOST = 8  # cached layouts of cotangents


class Loop:
    """A loop that has run, as recorded on the tape. `layouts` are those of the inputs, over all iterations; `known` maps value numbers to
    their locations.
    """

    def __init__(self, ready: Ready, layouts: list[Layout], known: dict[int, Where], turns: int) -> None:
        self.ready, self.layouts, self.known, self.turns = ready, layouts, known, turns

    def pull(self, past: Making, gs: list[Seen], wanted: Sequence[int]) -> Iterable[tuple[int, Part]]:
        """Return the cotangents of the sources `wanted`, given the cotangents of the results."""
        ready = self.ready
        ends = [None if k is None or _is_zero(gs[k]) else gs[k] for k in ready.ends]
        ys = [None if its.result is None else self._sequence(gs[its.result], its.number) for its in ready.tracks]
        if not tracking.get() and not any([g.node.traced for g in gs]):  # and the cotangents are not traced by `vmap`
            found = self._run(past.sources, ends, ys)
            if found is not None:
                return [(k, part) for k, part in found if k in wanted]
        return self._unrolled(past.sources, ends, ys, wanted)

    def _sequence(self, g: Seen, number: int) -> Seen | None:
        """Return the cotangent of an output sequence, given the cotangent `g` of the stack with the sequence. Return None for 0."""
        layout = self.known[number].every(self.turns)
        if layout.is_contiguous() and g.layout.is_contiguous():
            g = part_at(g.node, g.layout.offset + layout.offset, layout.size).reshaped(layout.shape)
        else:
            g = g.through(layout)
        return None if _is_zero(g) else g

    def _run(self, sources: Sequence[Node], ends: Sequence[Seen | None], ys: Sequence[Seen | None]) -> list[tuple[int, Part]] | None:
        """Run the backward pass by iteration. Return the cotangents with the indices of their sources, or None if the plan cannot be
        repeated.

        `ends` are the cotangents of the final carried values, and `ys` those of the output sequences; None stands for 0.
        """
        turns, ready = self.turns, self.ready
        back, panels = ready.back, ready.back_panels
        assert back is not None
        order = np.arange(turns)[::-1]
        flat = [None if g is None else g.flat() for g in ends]
        ys = [g if g is None or is_affine(g.layout) else Seen(g.flat()).reshaped(g.shape) for g in ys]
        realize(*[node for node in flat if node is not None], *[g.node for g in ys if g is not None])
        read = [self.known[k] for k, _ in ready.read]
        sums = {k: how for k, how in back.captured.items() if isinstance(how, Sum)}
        of_ys = [None if g is None else Where.of(0, g.layout) for g in ys]
        own = ready.own

        def all_stands() -> list[Seen]:
            found = [where.stands(dtype) for where, (_, dtype) in zip(read, ready.read, strict=True)]
            found += [Seen(data(NOTHING, shape, dtype)) for shape, dtype in own[: ready.carries]]
            for where, (shape, dtype) in zip(of_ys, own[ready.carries :], strict=True):
                found.append(Seen(data(NOTHING, shape, dtype)) if where is None else where.stands(dtype))
            return found + [Seen(data(NOTHING, shape, dtype)) for shape, dtype in panels.program.shapes[len(found) :]]

        stands, made = ready.way_back(all_stands, tuple([None if where is None else where.layout for where in of_ys]))
        slots: list[Slots] = []
        places = [where.place(sources[where.k], order) for where in read]
        for (shape, dtype), begin, number in zip(own, flat, back.carries, strict=False):
            its = Slots.of(shape, dtype, turns, begin, every=False)
            slots.append(its)
            place = its.place(turns, 0)
            if number is None:  # only the last iteration receives a cotangent here
                its.buffer.array[its.nbytes :] = 0
                place = place._replace(starts=np.minimum(np.arange(turns), 1) * its.nbytes)
            places.append(place)
        for (shape, dtype), g, where in zip(own[ready.carries :], ys, of_ys, strict=True):
            if g is None or where is None:
                zero = Slots.of(shape, dtype, 0, None, every=True)
                places.append(Place(zero.buffer, order[-1:], zero.nbytes))
            else:
                places.append(where.place(g.node, order))
        so_far = {k: Slots.of(*back.program.shapes[how.so_far], turns, None, every=False) for k, how in sums.items()}
        places += [its.place(turns, 0) for its in so_far.values()]
        for node in panels.made([sources[where.k] for where in read]):
            places.append(Place(node.buffer, order[-1:], node.recipe.nbytes))  # type: ignore[arg-type]
        placed = {stand.node: place for stand, place in zip(stands, places, strict=True)}
        roots: list[Node] = []

        def root(number: int, place: Place) -> None:
            roots.append(made[panels.number(number)])
            placed[roots[-1]] = place

        for its, number in zip(slots, back.carries, strict=True):
            if number is not None:
                root(number, its.place(turns, 1))
        for k, its in so_far.items():
            root(sums[k].more, its.place(turns, 1))
        stacks: dict[int, Node] = {}
        for number in (*back.xs, *back.stacked):
            if number is not None and number not in stacks:
                shape, dtype = made[panels.number(number)].shape, made[panels.number(number)].dtype
                stacks[number] = _stack(turns, shape, dtype)
                root(number, Where(0, Layout.contiguous(shape), 0, prod(shape)).place(stacks[number], order))
        if roots and not ran(roots, placed, turns):
            return None
        found: list[tuple[int, Part]] = []
        for k, (its, number) in enumerate(zip(slots, back.carries, strict=True)):
            if number is not None:
                found.append((k, self._part(sources, k, Seen(data(its.last(turns), *own[k])))))
        for k, number in enumerate(back.xs, ready.carries):
            if number is not None:
                found.append((k, self._part(sources, k, Seen(stacks[number]))))
        made_once: dict[Product, Node] = {}
        for k, how in back.captured.items():
            if isinstance(how, Sum):
                g = Seen(data(so_far[k].last(turns), *back.program.shapes[how.so_far]))
            else:
                one = how._replace(layout=NO_LAYOUT)  # equal products are computed once
                if one not in made_once:
                    made_once[one] = _over_all(how, [self._every(sources, stacks, number) for number in how.operands], turns)
                g = Seen(made_once[one], how.layout)
            found.append((ready.carries + ready.xs + k, g))
        return found

    def _part(self, sources: Sequence[Node], k: int, g: Seen) -> Part:
        """Return the cotangent of source `k`, given the cotangent of the view that the loop reads."""
        layout = self.layouts[k]
        return adjoint(layout, Term.of(g.reshaped(layout.shape)), sources[k].size)

    def _every(self, sources: Sequence[Node], stacks: dict[int, Node], number: int) -> Seen:
        """Return a view of the values of number `number` in every iteration."""
        if number in stacks:
            return Seen(stacks[number])
        where = self.known[self.ready.read[number][0]]
        return Seen(sources[where.k], where.every(self.turns))

    def _unrolled(
        self, sources: Sequence[Node], ends: Sequence[Seen | None], ys: Sequence[Seen | None], wanted: Sequence[int]
    ) -> list[tuple[int, Part]]:
        """Return the same cotangents as `_run`, computed by differentiable operations: run all iterations again, recording a tape, and
        differentiate them.
        """
        ready, first = self.ready, self.ready.carries
        captured = [Seen(sources[k]) for k in range(first + ready.xs, len(self.layouts))]
        roots: list[Root] = []
        with tracked():
            carried = [Seen(sources[k], self.layouts[k]) for k in range(first)]
            wheres = [self.known[k] for k in range(first, first + ready.xs)]
            often = max(1, MAX_PENDING // max(1, len(ready.program.steps)))
            for turn in range(self.turns):
                xs = [where.seen(sources[where.k], turn) for where in wheres]
                made = ready.program.made([*carried, *xs, *captured])
                carried = [Seen(made[number]) for number in ready.nexts]
                roots += [(made[k], g.moved(lambda its: its.index((turn,)))) for k, g in zip(ready.ys, ys, strict=True) if g is not None]  # noqa: B023
                if turn % often == 0 and not any([x.node.traced for x in carried]):
                    realize(*[x.node for x in carried])
            roots += [(x.node, g) for x, g in zip(carried, ends, strict=True) if g is not None]
            pasts = {k: past for k in wanted if (past := past_of(sources[k])) is not None}
            edge = {past for node in sources if (past := past_of(node)) is not None}
            found = cotangents_at(roots, set(pasts.values()), edge)
        return [(k, found[past]) for k, past in pasts.items() if past in found]


def _over_all(how: Product, operands: Sequence[Seen], turns: int) -> Node:
    """Return a cotangent computed as a single product or sum over the iterations. `operands` are views with the iterations along the first
    axis.
    """
    nodes: list[Node] = []
    layouts: list[Layout] = []
    forms = how.total.forms if how.product is None else how.product.forms
    for x, form, offset in zip(operands, forms, how.offsets, strict=True):
        assert form is not None
        if not x.layout.is_contiguous() and x.layout.strides[0]:  # a contiguous copy, so that all iterations form one loop
            x = Seen(x.flat()).reshaped(x.shape)
        nodes.append(x.node)
        layouts.append(led(form.layout.at(offset + x.layout.offset), turns, x.layout.strides[0]))
    if how.product is not None:
        shape = layouts[0].shape
        nodes = [Node.of(_MULTIPLY, shape, how.product.dtype, tuple(nodes), tuple(layouts))]
        layouts = [Layout.contiguous(shape)]
    kept = 1 + len(how.total.shape)
    axes = (*range(1, kept), 0, *range(kept, layouts[0].ndim))
    return Node.of(SUM, how.total.shape, how.total.dtype, (nodes[0],), (layouts[0].permute(axes),))


def _is_zero(g: Seen) -> bool:
    """Return whether a cotangent is a constant 0. Only a pending constant is recognized."""
    node = g.node
    if node.buffer is not None or node.op is not _CAST:
        return False
    (number,) = node.sources
    return type(number) is Scalar and number.value == 0
