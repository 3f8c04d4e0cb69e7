"""From a draft to loop IR: layouts become index arithmetic, and every number in them a run-time argument.

The steps, in order: loops are cut where chains of views turn (`refine.py`); axes of size 1 drop out; reduced axes are
put in memory order; neighbouring axes that every access walks as one become one; lanes are given to one axis; then the
loops are written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from math import prod

from ..dtypes import int64
from ..layout import Layout, Table
from ..node import STORE, Node, Scalar
from ..ops.expr import Expr, Pair, rebuild
from ..target import Target
from .columns import by_rows, with_rows
from .draft import draft
from .drafted import Access, Chosen, Draft, Folding, Loops, Place
from .ir import (
    ALIGNMENT,
    Address,
    Axis,
    For,
    Index,
    Init,
    Keep,
    Kept,
    Kernel,
    Load,
    Operand,
    Position,
    Prefetch,
    Product,
    Result,
    Side,
    Statement,
    Store,
    Term,
    TileElement,
    TileLoad,
    Update,
    walk,
    work,
)
from .keep import Repeat
from .products import AT_ONCE, LEAST, NARROW, Pairing, pairing, wider
from .refine import refine
from .scatter import Scattering, accumulate
from .schedule import (
    NEAR,
    SHORT,
    Walk,
    aligned,
    column,
    crosses,
    is_brief,
    lanes,
    longest_last,
    merged,
    ordered,
    sequential,
    tile,
)

FLAG = Operand(int64, written=True, flag=True)  # what kernels set where an index is out of range


@dataclass(slots=True)
class Binding:
    """What the arguments of a kernel are, for one set of shapes.

    `operands` names the node of each pointer but the flag's (None: the result), and the offset in elements to add.
    `tables`, `numbers` and `slots` are the rest of the argument block in its order. `work` is about how many elements are
    visited, and `split` the extent of the loop that threads may share. Of the nodes in `aligned` each element is read just
    before the same one of the result is written, and at no other time.
    """

    operands: list[tuple[Node | None, int]]
    tables: list[Table]
    numbers: list[tuple[Scalar, bool]]  # and whether the imaginary part of the number is meant
    slots: list[int]
    work: int
    split: int
    aligned: list[Node] = field(default_factory=list)
    scratch: int = 0


def lower(root: Node, kernels: Set[Node], target: Target) -> tuple[Kernel, Binding]:
    """The kernel that computes `root`, and the arguments that make it do so for these very layouts. The target changes how the
    loops run, and no result.
    """
    d = draft(root, kernels, target)
    refine(d)
    return _Lowering(d, target).lower()


def is_product(root: Node, kernels: Set[Node], target: Target) -> bool:
    """Whether the kernel that computes `root` would be a product."""
    d = draft(root, kernels, target)
    refine(d)
    lowering = _Lowering(d, target)
    lowering.groups()
    return lowering.pairing is not None


class _Lowering:
    def __init__(self, d: Draft, target: Target) -> None:
        self.d, self.target = d, target
        assert d.out is not None and d.value is not None
        self.walks = [Walk.of(p.layout, p.loops, d.extents) for p in [*d.places, d.out]]
        self.binding = Binding([], [], list(d.numbers), [], 1, 1)
        self.operands: list[Operand] = []
        self.known: dict[Expr, Expr] = {}  # drafted expressions as loop IR
        self.read: dict[int, tuple[int, Address]] = {}  # the operands of places, and their addresses
        self.axis_of: dict[int, int] = {}  # draft axis -> kernel axis
        self.axes: list[Axis] = []
        self.vector: set[int] = set()
        self.units: set[int] = set()  # the axes whose steps of 1 count
        self.reduced: dict[Loops, Loops] = {}
        self.scattering: Scattering | None = None
        self.pairing: Pairing | None = None
        self.column: int | None = None
        self.ahead: tuple[Folding, int] | None = None
        self.tile: tuple[int, int] | None = None
        self.folds = list(d.folds)
        self.stages: list[TileLoad] = []
        self.staged: dict[int, int] = {}  # their numbers, by place

    def lower(self) -> tuple[Kernel, Binding]:
        d = self.d
        self.binding.aligned = aligned(d, self.walks)
        self.groups()
        for axis in self.all_axes():
            self.axis_of[axis] = len(self.axes)
            parallel = axis in self.space and (self.scattering is None or axis not in self.scattering.meet)
            self.axes.append(Axis(self.slot(d.extents[axis]), parallel, axis in self.vector))
        assert d.value is not None and d.out is not None
        out = self.operand(None, self.walks[-1], near=NEAR, chosen=[a for a in d.out.loops if a in d.chosen])
        body = self.loops(out, self.rewritten(d.value))
        if d.chosen:
            self.operands.append(FLAG)
        self.binding.work = self.steps()
        kernel = Kernel(
            self.name(),
            tuple(self.operands),
            len(self.binding.tables),
            tuple(n.dtype.part for n, _ in d.numbers),
            len(self.binding.slots),
            tuple(self.axes),
            tuple(self.folds),
            body,
        )
        if kernel.shared >= 0:
            (self.binding.split,) = (d.extents[a] for a, place in self.axis_of.items() if place == kernel.shared)
        return kernel, self.binding

    def name(self) -> str:
        names = list(dict.fromkeys(self.d.names))
        return "_".join(names[:6]) or ("store" if self.d.root.op is STORE else "copy")

    # Axes

    def groups(self) -> None:
        """Drop, order and merge axes; choose those that lanes run along."""
        d = self.d
        self.scattering = Scattering.of(d, self.walks, self.target)
        if self.scattering is not None:
            self.space, self.vector = self.scattering.space, set(self.scattering.lanes)
            self.units, self.reduced = self.vector, {}
            return
        kept = {a for a, n in enumerate(d.extents) if n != 1}
        space = tuple(a for a in d.space if a in kept)
        boundaries = self.boundaries(space)
        if boundaries <= {0} and d.scan is None:  # else the folds, and what they read, decide
            space = ordered(space, self.walks[-1:])
        in_order = {f.axes for f in d.foldings if d.folds[f.fold].reduction.follow is not None}
        self.reduced = {}
        for f in d.foldings:
            if f.axes not in self.reduced and f.axes != (d.scan,):
                axes = tuple(a for a in f.axes if a in kept)
                if f.axes not in in_order and self.boundaries(axes) <= {0, len(axes)}:
                    axes = ordered(axes, self.walks[:-1])
                self.reduced[f.axes] = axes
        alone = {f.fold for f in d.foldings if sequential(d, f, self.reduced.get(f.axes, ()), self.walks)}
        for f_axes, axes in self.reduced.items():
            self.reduced[f_axes] = merged(axes, self.walks, d.extents, self.boundaries(axes))
        self.space = merged(space, self.walks, d.extents, boundaries)
        self.find_product()
        if self.pairing is not None:
            self.vector = {self.pairing.column}
            self.units = {self.pairing.row, self.pairing.column, self.pairing.summed[-1]}
            return
        self.vector = self.units = lanes(d, self.space, self.reduced, alone, self.walks)
        if len(d.foldings) == len(alone) == 1 and boundaries == {len(space)}:
            (f,) = d.foldings
            turned = longest_last(self.space, d.extents, SHORT)
            if turned != self.space and is_brief(d, f, self.reduced.get(f.axes, ())):
                self.space, self.vector, self.units = turned, {turned[-1]}, {turned[-1]}
        self.column = column(d, self.space, self.reduced, self.vector)
        self.tile = tile(d, self.space, self.walks)
        if self.tile is not None:
            self.space = (*(a for a in self.space if a not in self.tile), *self.tile)

    def find_product(self) -> None:
        """See whether the only fold is a product; its columns may be those of several axes."""
        d = self.d
        together = wider(d, self.space, self.walks)
        if together is not None:
            before = self.space, self.walks, d.extents
            self.space, self.walks, d.extents = together
            self.pairing = pairing(d, self.space, self.reduced, self.walks, self.target, widened=True)
            if self.pairing is None:
                self.space, self.walks, d.extents = before
        if self.pairing is None:
            self.pairing = pairing(d, self.space, self.reduced, self.walks, self.target)
        turned = longest_last(self.space, d.extents, LEAST[1])
        if self.pairing is None and turned != self.space:  # if columns are few, they are better rows
            found = pairing(d, turned, self.reduced, self.walks, self.target)
            if found is not None and (found.steps >= NARROW or d.extents[self.space[-1]] <= LEAST[0]):
                self.space, self.pairing = turned, found

    def boundaries(self, axes: Loops) -> set[int]:
        """After how many of the outermost of these axes a fold runs."""
        return {sum(a in axes for a in f.around) for f in self.d.foldings}

    def all_axes(self) -> list[int]:
        scan = [self.d.scan] if self.d.scan is not None else []
        return [*self.space, *scan, *(a for axes in self.reduced.values() for a in axes)]

    def steps(self) -> int:
        """About how many elements the kernel visits: those of its result, and those that its folds take."""
        d = self.d

        def size(loops: Iterable[int]) -> int:
            return prod(d.extents[a] for a in loops if a in self.axis_of)

        loops = [*self.space, *([d.scan] if d.scan is not None else [])]
        folded = (size(f.around) * size(self.reduced[f.axes]) for f in d.foldings if f.axes in self.reduced)
        return size(loops) + sum(folded) // (1 if self.pairing is None else self.target.costs.product)

    # Run-time arguments

    def slot(self, value: int) -> int:
        self.binding.slots.append(value)
        return len(self.binding.slots) - 1

    def operand(
        self,
        node: Node | None,
        walk: Walk,
        units: Set[int] | None = None,
        near: Sequence[int] = (),
        chosen: Sequence[int] = (),
    ) -> tuple[int, Address]:
        """A new operand, the result if `node` is None, and its address.

        `units` are the axes whose steps of 1 count, and those that are `near`. Values say the index along the `chosen` axes.
        """
        index = len(self.operands)
        dtype = self.d.root.dtype if node is None else node.dtype
        self.operands.append(Operand(dtype, node is None))
        places = self.axis_of | {axis: ~k for k, axis in enumerate(chosen)}
        units = (units or self.units) | set(chosen)
        address = self.address(walk, places, units, in_pointer=True, near=near)
        self.binding.operands.append((node, walk.offset if walk.base is None else walk.base.innermost.offset))
        return index, address

    def address(
        self, walk: Walk, places: dict[int, int], units: Set[int], *, in_pointer: bool, near: Sequence[int] = ()
    ) -> Address:
        """The index arithmetic of a walk whose axes have these `places` among the loops (or digits).

        The offset of the view of memory itself, the innermost of a chain, is in the pointer if there is one.
        """
        terms = []
        for axis, where in places.items():
            step = walk.steps.get(axis, 0)
            if isinstance(step, Table):
                terms.append(Term(where, "table", len(self.binding.tables)))
                self.binding.tables.append(step)
            elif step == 1 and axis in units:
                terms.append(Term(where, "unit", -1))
            elif step in near and axis in self.vector:
                terms.append(Term(where, "near", step))
            elif step:
                terms.append(Term(where, "stride", self.slot(step)))
        offset = -1 if in_pointer and walk.base is None else self.slot(walk.offset)
        if walk.base is None:
            return Address(tuple(terms), offset)
        return Address(tuple(terms), offset, *self.chained(walk.base, in_pointer=in_pointer))

    def chained(self, base: Layout, *, in_pointer: bool) -> tuple[tuple[int, ...], Address]:
        """The digits of a number in `base`, and the address they give."""
        extents = list(base.shape)
        walk = Walk.of(base, range(len(extents)), extents)
        digits = merged(tuple(d for d, n in enumerate(extents) if n != 1), [walk], extents, set())
        sizes = tuple(self.slot(extents[d]) for d in digits)
        return sizes, self.address(walk, {digit: place for place, digit in enumerate(digits)}, set(), in_pointer=in_pointer)

    # Expressions and loops

    def rewritten(self, e: Expr) -> Expr:
        """A drafted expression as loop IR."""
        found = self.known.get(e)
        if found is None:
            found = self.known[e] = rebuild(e, self.other)
        return found

    def other(self, e: Expr, args: tuple[Expr, ...]) -> Expr:
        """What is no operation: a drafted read becomes a load from an address; each is made once."""
        if isinstance(e, Pair):
            return e.with_args(args)
        if isinstance(e, Repeat):
            k = self.d.kept[e.index]
            return Kept(e.index, self.axis_of[k.read], self.target.loops.row, e.dtype)
        found = self.known.get(e)
        if found is None:
            if isinstance(e, Access):
                found = self.load(e, args)
            elif isinstance(e, Chosen):
                found = Index(args[0], self.slot(self.d.extents[e.axis]))
            else:
                found = e
            self.known[e] = found
        return found

    def load(self, e: Access, indices: tuple[Expr, ...]) -> Expr:
        place: Place = self.d.places[e.index]
        walk = self.walks[e.index]
        if place.node is None:
            return Position(self.address(walk, self.axis_of, self.units, in_pointer=False))
        fits = e.index in self.staged or len(self.stages) < self.target.loops.tiles
        if self.tile is not None and not indices and crosses(walk, self.tile) and fits:
            along, last = (self.axis_of[a] for a in self.tile)
            side = self.target.loops.side
            stage = self.staged.get(e.index)
            if stage is None:
                stage = self.staged[e.index] = len(self.stages)
                operand, address = self.operand(place.node, walk, units=self.vector | {self.tile[0]})
                self.stages.append(TileLoad(stage, operand, address, along, last, side))
            return TileElement(stage, along, last, side, e.dtype, e.part)
        if e.index not in self.read:
            chosen = [axis for axis in place.loops if axis in self.d.chosen]
            self.read[e.index] = self.operand(place.node, walk, near=NEAR, chosen=chosen)
        return Load(*self.read[e.index], e.dtype, indices, e.part)

    def loops(self, out: tuple[int, Address], value: Expr) -> tuple[Statement, ...]:
        d = self.d
        needed = frozenset(range(len(d.folds)))
        real, imag = value.args if isinstance(value, Pair) else (value, None)
        if self.scattering is not None:
            body = self.nest((), self.space, (accumulate(d, out, value, self.rewritten),), needed)
            block = self.scattering.block
            return (For(self.axis_of[self.space[-1]], body, block),) if block else body
        innermost: tuple[Statement, ...] = (Store(out[0], out[1], real, self.streams(), imag),)
        if d.scan is not None:
            (f,) = [f for f in d.foldings if f.axes == (d.scan,)]
            step = Update(f.fold, tuple(self.rewritten(v) for v in f.values))
            innermost = (Init(f.fold), *self.nest(self.space, (d.scan,), (step, *innermost), needed))
        if self.pairing is not None:
            return self.nest((), self.pairing.outer(self.space), (self.product(self.pairing, innermost),), frozenset())
        if self.tile is not None:
            outer = self.space[:-2]
            along, last = (self.axis_of[a] for a in self.tile)
            whole, side = For(along, (For(last, innermost),)), self.target.loops.side
            return self.nest((), outer, (For(along, (For(last, (*self.stages, whole), side),), side),), needed)
        self.ahead = self.fetching()
        if self.ahead is not None and self.ahead[1] == self.space[-1]:
            innermost = (*self.prefetches(*self.ahead), *innermost)
        return (*self.inside((), needed), *self.nest((), self.space, innermost, needed))

    def product(self, p: Pairing, body: tuple[Statement, ...]) -> Product:
        """The only fold as a product, and what is done with its results."""
        d = self.d
        left, right = (
            Side(self.axis_of[axis], tuple(map(self.rewritten, values)), packed, fixed, runs, self.slot(block))
            for axis, values, packed, fixed, runs, block in zip(
                (p.row, p.column), (p.left, p.right), p.packed, p.fixed, (False, p.runs), p.blocks, strict=True
            )
        )
        self.binding.scratch = p.scratch
        fold = d.foldings[0].fold
        self.folds[fold] = self.folds[fold]._replace(row=self.axis_of[p.column])
        shared = -1
        if prod(d.extents[a] for a in p.outer(self.space)) < self.target.blocks.loops * self.target.threads:
            shared = self.axis_of[max(p.row, p.column, key=lambda a: d.extents[a])]
        summed = tuple([self.axis_of[a] for a in p.summed])
        values = tuple(map(self.rewritten, p.values))
        return Product(fold, left, right, summed, values, body, shared, p.steps <= AT_ONCE)

    def fetching(self) -> tuple[Folding, int] | None:
        """The first fold in a row of a large result, and the axis of a later loop over the row, that with most work: there
        is time to read the next row.
        """
        d = self.d
        folds = [f for f in d.foldings if len(self.space) > 1 and f.around[-1:] == self.space[-2:-1]]
        if not folds or self.column is not None or not self.streams():
            return None
        assert d.value is not None
        found = [(work(d.value), self.space[-1])]
        found += [(sum(map(work, f.values)), self.reduced[f.axes][-1]) for f in folds[1:]]
        first = self.reduced[folds[0].axes]
        _, axis = max(found)
        return (folds[0], axis) if len(first) == 1 and d.extents[first[0]] == d.extents[axis] else None

    def prefetches(self, first: Folding, axis: int) -> Iterator[Prefetch]:
        """While a row is worked on, the next one is brought into the cache."""
        row, (inner,) = self.space[-2], self.reduced[first.axes]
        there, here = self.axis_of[inner], self.axis_of[axis]
        for e in dict.fromkeys(e for v in first.values for e in walk(v) if isinstance(e, Access)):
            steps, load = self.walks[e.index].steps, self.rewritten(e)
            if isinstance(load, Load) and not load.args and steps.get(inner) == 1 and isinstance(steps.get(row), int):
                terms = tuple([t._replace(axis=here) if t.axis == there else t for t in load.address.terms])
                yield Prefetch(load.operand, load.address._replace(terms=terms), self.axis_of[row])

    def streams(self) -> bool:
        """Whether the result would only drive other things out of the caches: it is large, and written in whole vectors."""
        root, walk = self.d.root, self.walks[-1]
        nbytes = root.size * root.dtype.itemsize
        read = {node: node.size * node.dtype.itemsize for node, _ in self.binding.operands if node is not None}
        few = nbytes < self.target.streams.result or nbytes + sum(read.values()) <= self.target.streams.touched
        if root.op is STORE or few or walk.base is not None:
            return False
        steps = {axis: step for axis, step in walk.steps.items() if axis in self.axis_of}
        across = [step for axis, step in steps.items() if not (step == 1 and axis in self.vector)]
        rows = all(isinstance(step, int) and step * root.dtype.itemsize % ALIGNMENT == 0 for step in across)
        return rows and len(across) < len(steps)

    def nest(
        self, around: Loops, axes: Loops, innermost: tuple[Statement, ...], needed: Set[int]
    ) -> tuple[Statement, ...]:
        """Loops over `axes`, inside those `around`, each with the needed folds that belong just inside it."""
        body = innermost
        for depth in range(len(axes), 0, -1):
            folds = self.inside((*around, *axes[:depth]), needed)
            loop = For(self.axis_of[axes[depth - 1]], (*folds, *body))
            if axes[depth - 1] == self.column:
                self.folds = with_rows(self.folds, loop)
                loop = by_rows(loop, self.d.extents[axes[depth - 1]], len(self.d.kept), self.target)
            body = (loop,)
        return body

    def inside(self, around: Loops, needed: Set[int]) -> tuple[Statement, ...]:
        """The needed folds just inside `around`; those over the same axes share a loop where they can."""
        groups: list[tuple[Loops, list[Folding]]] = []
        for f in self.d.foldings:
            if f.fold not in needed or f.axes == (self.d.scan,) or self.remaining(f.around) != self.remaining(around):
                continue
            last, sharing = groups[-1] if groups else ((), [])
            if sharing and last == f.axes and not self.needs(f.values) & {g.fold for g in sharing}:
                sharing.append(f)
            else:
                groups.append((f.axes, [f]))
        found: list[Statement] = []
        for axes, folds in groups:
            updates = [Update(f.fold, tuple(self.rewritten(v) for v in f.values)) for f in folds]
            theirs = self.needs(v for f in folds for v in f.values)
            steps: tuple[Statement, ...] = (*self.keeps(axes, folds), *updates)
            if self.ahead is not None and folds[0] is not self.ahead[0] and self.reduced[axes][-1] == self.ahead[1]:
                steps = (*self.prefetches(*self.ahead), *steps)
            found += [*(Init(f.fold) for f in folds), *self.nest(around, self.reduced[axes], steps, theirs)]
        return tuple(found)

    def keeps(self, axes: Loops, folds: Sequence[Folding]) -> list[Keep]:
        """What the loop of these folds keeps for the result."""
        computed = {e for f in folds for v in f.values for e in walk(v)}
        return [
            Keep(index, self.axis_of[k.written], self.target.loops.row, self.rewritten(k.value))
            for index, k in enumerate(self.d.kept)
            if axes == (k.written,) and k.value in computed
        ]

    def remaining(self, loops: Loops) -> frozenset[int]:
        """The loops that are still there after dropping and merging, to compare surroundings by."""
        return frozenset(a for a in loops if a in self.axis_of)

    def needs(self, values: Iterable[Expr]) -> set[int]:
        """The folds whose results these values need, also by way of other folds."""
        found: set[int] = set()
        seen: set[Expr] = set()
        stack = list(values)
        while stack:
            e = stack.pop()
            if e not in seen:
                seen.add(e)
                stack.extend(e.args)
                if isinstance(e, Result):
                    found.add(e.fold)
                    stack.extend(self.d.foldings[e.fold].values)
        return found
