"""Loops as they run: forward turn by turn, and as one step of derivatives. The way back is run turn by turn, too, the last first.

What it reads of each turn lies side by side: what is carried, sequences, and what was kept. Values of a turn that follow from these by
elementwise operations are computed once more: to keep them would cost as much. The cotangent of what is captured is added up as it
comes; but of products what they read of each turn is put side by side, and there is one product over all turns in the end.

What differentiates that way back itself, or goes forward, goes through all turns as the operations that they are (`Loop._unrolled`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..backend.interface import Place
from ..dtypes import DType
from ..layout import Layout
from ..memory import allocate
from ..node import Node, Scalar, data, tracked, tracking
from ..ops import OPS
from ..past import past_of
from ..pending import MAX_PENDING
from ..realize import realize
from ..records import NamedTuple
from .adjoint import Part, adjoint, part_at
from .batching import led
from .calls import called
from .loop import NOTHING, Body, Program, Slots, Where, is_affine, is_plain, own, ran
from .panels import Panels
from .partials import is_smooth
from .reverse import Root, cotangents_at
from .rule import Making
from .seen import SUM, Seen, Term
from .way_back import Product, Sum, WayBack, way_back

_MULTIPLY, _CAST = OPS["multiply"], OPS["cast"]


class Looped(NamedTuple):
    """What a loop gives: what was carried on to the end, and the sequences, led by an axis for the turns."""

    carries: list[Node]
    ys: list[Seen]


def looped(body: Body, carries: Sequence[Seen], xs: Sequence[Seen], turns: int) -> Looped | None:
    """Run a loop on what it begins with, and on sequences led by an axis for the turns. None if it cannot be run turn by turn."""
    given = [*carries, *xs, *[Seen(node) for node in body.captured]]
    beginnings = [x.flat() for x in carries]
    realize(*[x.node for x in given], *beginnings)
    sources = [own(x.node) for x in given]
    back = None
    if tracking.get() and any([past_of(node) is not None for node in sources]):
        back = way_back(body, [past_of(x.node) is not None for x in xs])
        if back is None:
            return None
    reads = back.reads if back is not None else []
    order, first = np.arange(turns), len(carries)
    known = {node: Where.of(first + k, x.layout) for k, (node, x) in enumerate(zip(body.xs, xs, strict=True))}
    for k, node in enumerate(body.captured, first + len(xs)):
        known[node] = Where(k, Layout.contiguous(node.shape), 0, 0)
    stands = [Seen(data(NOTHING, node.shape, node.dtype)) for node in body.carries]
    stands += [where.stands(node.dtype) for node, where in known.items()]
    placed = {stand.node: where.place(sources[where.k], order) for stand, where in zip(stands[first:], known.values(), strict=True)}
    program = body.program()
    panels = Panels(program, range(first + len(xs), len(given)))
    for node in panels.made(sources):
        stands.append(Seen(data(NOTHING, node.shape, node.dtype)))
        placed[stands[-1].node] = Where(0, stands[-1].layout, 0, 0).place(node, order)
    made = panels.program.made(stands, copies=True)
    of = {node: made[panels.number(k)] for node, k in program.number_of.items()}
    slots: list[Slots] = []
    for stand, before, after, begin in zip(stands, body.carries, body.nexts, beginnings, strict=False):
        every = before in reads or after in reads or after in body.ys
        its = Slots.of(after.shape, after.dtype, turns, begin, every=every)
        slots.append(its)
        placed[stand.node], placed[of[after]] = its.place(turns, 0), its.place(turns, 1)
        if every:
            k, plain = len(sources), Layout.contiguous(after.shape)
            known[before], known[after] = Where(k, plain, 0, after.size), Where(k, plain, after.size, after.size)
            sources.append(data(its.buffer, (turns + 1, *after.shape), after.dtype))
    for node in (*body.ys, *(back.kept if back is not None else ())):
        if node not in known:
            known[node] = Where(len(sources), Layout.contiguous(node.shape), 0, node.size)
            sources.append(_stack(turns, node.shape, node.dtype))
            placed[of[node]] = known[node].place(sources[-1], order)
    for node in reads:
        if node not in known:  # made of what is captured, for the way back
            realize(node)
            known[node] = Where(len(sources), Layout.contiguous(node.shape), 0, 0)
            sources.append(own(node))
    roots = [of[node] for node in dict.fromkeys([*body.nexts, *body.ys, *(back.kept if back is not None else ())])]
    if not ran(roots, placed, turns):
        return None
    ends = [data(its.last(turns), node.shape, node.dtype) for its, node in zip(slots, body.nexts, strict=True)]
    stacks = list(dict.fromkeys([known[node].k for node in body.ys]))
    results = [*ends, *[sources[k] for k in stacks]]
    if back is not None:
        loop = Loop(body, program, back, [x.layout for x in given], known, stacks, turns)
        results = called("scan", results, sources, loop.pull)
    of_stack = dict(zip(stacks, results[len(ends) :], strict=True))
    return Looped(results[: len(ends)], [Seen(of_stack[known[node].k], known[node].every(turns)) for node in body.ys])


def _stack(turns: int, shape: tuple[int, ...], dtype: DType) -> Node:
    """Memory for something of each turn."""
    every = (turns, *shape)
    size = Layout.contiguous(every).size
    return data(allocate(size * dtype.itemsize, "scan", every, dtype), every, dtype)


class Track(NamedTuple):
    """A sequence that a loop gave: in which of its results, or None if no derivative is taken there; and how it is seen in that."""

    result: int | None
    layout: Layout


class Loop:
    """A loop that was run, as derivatives know it, without nodes. Its first sources are what it began with, its sequences, and what it
    captured; then comes what it keeps.
    """

    def __init__(
        self,
        body: Body,
        program: Program,
        back: WayBack,
        layouts: list[Layout],
        known: dict[Node, Where],
        stacks: list[int],
        turns: int,
    ) -> None:
        self.turns, self.back, self.program, self.layouts = turns, back, program, layouts
        self.carries, self.xs = len(body.carries), len(body.xs)
        self.nexts, self.ys = ([program.number_of[node] for node in its] for its in (body.nexts, body.ys))
        self.own = [(node.shape, node.dtype) for node in (*body.nexts, *body.ys)]
        self.read = [(known[node], node.dtype) for node in back.reads]
        self.panels = Panels(back.program, [k for k, (where, _) in enumerate(self.read) if not where.step])
        stack_of = {known[node].k: node.dtype for node in body.ys}
        smooth = [is_smooth(dtype) for _, dtype in self.own[: self.carries]] + [is_smooth(stack_of[k]) for k in stacks]
        place = [sum(smooth[:k]) if yes else None for k, yes in enumerate(smooth)]
        self.ends = place[: self.carries]
        self.sequences: list[Track] = []
        seen: set[Node] = set()
        for node in body.ys:
            its = None if node in seen else place[self.carries + stacks.index(known[node].k)]
            self.sequences.append(Track(its, known[node].every(turns)))
            seen.add(node)
        program.number_of = {}
        back.forget()

    def pull(self, past: Making, gs: list[Seen], wanted: Sequence[int]) -> Iterable[tuple[int, Part]]:
        """The cotangents of sources, given those of results."""
        ends = [None if k is None or _is_zero(gs[k]) else gs[k] for k in self.ends]
        ys: list[Seen | None] = []
        for its in self.sequences:
            g = None
            if its.result is not None and not _is_zero(gs[its.result]):
                g = gs[its.result]
                low = its.layout.offset
                if its.layout.is_contiguous() and g.layout.is_contiguous():
                    g = part_at(g.node, g.layout.offset + low, its.layout.size).reshaped(its.layout.shape)
                else:
                    g = g.through(its.layout)
            ys.append(None if g is None or _is_zero(g) else g)
        if not tracking.get():
            found = self._run(past.sources, ends, ys)
            if found is not None:
                return [(k, part) for k, part in found if k in wanted]
        return self._unrolled(past.sources, ends, ys, wanted)

    def _run(self, sources: Sequence[Node], ends: Sequence[Seen | None], ys: Sequence[Seen | None]) -> list[tuple[int, Part]] | None:
        """The same turn by turn."""
        turns, back = self.turns, self.back
        order = np.arange(turns)[::-1]
        placed: dict[Node, Place] = {}
        stands: list[Seen] = []

        def stand(seen: Seen, place: Place) -> None:
            stands.append(seen)
            placed[seen.node] = place

        for where, dtype in self.read:
            stand(where.stands(dtype), where.place(sources[where.k], order))
        slots: list[Slots] = []
        flat = [None if g is None else g.flat() for g in ends]
        ys = [g if g is None or is_affine(g.layout) else Seen(g.flat()).reshaped(g.shape) for g in ys]
        realize(*[node for node in flat if node is not None], *[g.node for g in ys if g is not None])
        for (shape, dtype), begin, number in zip(self.own, flat, back.carries, strict=False):
            its = Slots.of(shape, dtype, turns, begin, every=False)
            slots.append(its)
            place = its.place(turns, 0)
            if number is None:  # nothing comes there in any turn but the last
                its.buffer.array[its.nbytes :] = 0
                place = place._replace(starts=np.minimum(np.arange(turns), 1) * its.nbytes)
            stand(Seen(data(NOTHING, shape, dtype)), place)
        for (shape, dtype), g in zip(self.own[self.carries :], ys, strict=True):
            if g is None:
                zero = Slots.of(shape, dtype, 0, None, every=True)
                stand(Seen(data(NOTHING, shape, dtype)), zero.place(turns, 0))
            else:
                where = Where.of(0, g.layout)
                stand(where.stands(dtype), where.place(g.node, order))
        sums: dict[int, Slots] = {}
        for k, how in back.captured.items():
            if isinstance(how, Sum):
                shape, dtype = back.program.shapes[how.so_far]
                sums[k] = its = Slots.of(shape, dtype, turns, None, every=False)
                stand(Seen(data(NOTHING, shape, dtype)), its.place(turns, 0))
        panels = self.panels
        for node in panels.made([sources[where.k] for where, _ in self.read]):
            stand(Seen(data(NOTHING, node.shape, node.dtype)), Where(0, Layout.contiguous(node.shape), 0, 0).place(node, order))
        made = panels.program.made(stands, copies=True)
        roots: dict[Node, None] = {}

        def root(number: int, place: Place) -> None:
            node = made[panels.number(number)]
            roots[node] = None
            placed[node] = place

        for its, number in zip(slots, back.carries, strict=True):
            if number is not None:
                root(number, its.place(turns, 1))
        for k, its in sums.items():
            root(back.captured[k].more, its.place(turns, 1))  # type: ignore[union-attr]
        stacks: dict[int, Node] = {}
        for number in (*back.xs, *back.stacked):
            if number is not None and number not in stacks:
                node = made[panels.number(number)]
                stacks[number] = _stack(turns, node.shape, node.dtype)
                root(number, Where(0, Layout.contiguous(node.shape), 0, node.size).place(stacks[number], order))
        if roots and not ran(list(roots), placed, turns):
            return None
        found: list[tuple[int, Part]] = []
        for k, (its, number) in enumerate(zip(slots, back.carries, strict=True)):
            if number is not None:
                shape, dtype = self.own[k]
                found.append((k, self._part(sources, k, Seen(data(its.last(turns), shape, dtype)))))
        for k, number in enumerate(back.xs, self.carries):
            if number is not None:
                found.append((k, self._part(sources, k, Seen(stacks[number]))))
        for k, how in back.captured.items():
            if isinstance(how, Sum):
                shape, dtype = back.program.shapes[how.so_far]
                g = Seen(data(sums[k].last(turns), shape, dtype))
            else:
                g = _product(how, [self._every(sources, stacks, number) for number in how.operands], turns)
            found.append((self.carries + self.xs + k, g))
        return found

    def _part(self, sources: Sequence[Node], k: int, g: Seen) -> Part:
        """The cotangent of a source, given that of what is seen of it."""
        layout = self.layouts[k]
        return adjoint(layout, Term.of(g.reshaped(layout.shape)), sources[k].size)

    def _every(self, sources: Sequence[Node], stacks: dict[int, Node], number: int) -> Seen:
        """What something is in all turns."""
        if number in stacks:
            return Seen(stacks[number])
        where, _ = self.read[number]
        return Seen(sources[where.k], where.every(self.turns))

    def _unrolled(
        self, sources: Sequence[Node], ends: Sequence[Seen | None], ys: Sequence[Seen | None], wanted: Sequence[int]
    ) -> list[tuple[int, Part]]:
        """The same through operations of which derivatives may be taken."""
        captured = [Seen(sources[k]) for k in range(self.carries + self.xs, len(self.layouts))]
        roots: list[Root] = []
        with tracked():
            carried = [Seen(sources[k], self.layouts[k]) for k in range(self.carries)]
            wheres = [Where.of(k, self.layouts[k]) for k in range(self.carries, self.carries + self.xs)]
            often = max(1, MAX_PENDING // max(1, len(self.program.steps)))
            for turn in range(self.turns):
                xs = [where.seen(sources[where.k], turn) for where in wheres]
                made = self.program.made([*carried, *xs, *captured])
                carried = [Seen(made[number]) for number in self.nexts]
                roots += [(made[k], g.moved(lambda its: its.index((turn,)))) for k, g in zip(self.ys, ys, strict=True) if g is not None]  # noqa: B023
                if turn % often == 0 and not any([x.node.traced for x in carried]):
                    realize(*[x.node for x in carried])
            roots += [(x.node, g) for x, g in zip(carried, ends, strict=True) if g is not None]
            pasts = {k: past for k in wanted if (past := past_of(sources[k])) is not None}
            edge = {past for node in sources if (past := past_of(node)) is not None}
            found = cotangents_at(roots, set(pasts.values()), edge)
        return [(k, found[past]) for k, past in pasts.items() if past in found]


def _product(how: Product, operands: Sequence[Seen], turns: int) -> Seen:
    """One product over all turns."""
    nodes: list[Node] = []
    layouts: list[Layout] = []
    for x, form, offset in zip(operands, how.product.forms, how.offsets, strict=True):
        assert form is not None
        read = form.layout.at(offset)
        if not x.layout.is_contiguous() and x.layout.strides[0]:  # side by side, so that all steps are one loop
            x = Seen(x.flat()).reshaped(x.shape)
        read = read.at(read.offset + x.layout.offset)
        nodes.append(x.node)
        layouts.append(led(read, turns, x.layout.strides[0]))
    shape = (turns, *how.product.shape)
    product = Node.of(_MULTIPLY, shape, how.product.dtype, tuple(nodes), tuple(layouts))
    kept = len(how.total.shape)
    axes = (*range(1, 1 + kept), 0, *range(1 + kept, len(shape)))
    total = Node.of(SUM, how.total.shape, how.total.dtype, (product,), (Layout.contiguous(shape).permute(axes),))
    return Seen(total, how.layout)


def _is_zero(g: Seen) -> bool:
    """Whether a cotangent is known to be 0."""
    node = g.node
    if node.buffer is not None or node.op is not _CAST:
        return False
    (number,) = node.sources
    return type(number) is Scalar and number.value == 0
