"""The loop nest of a kernel before scheduling. Each reduction stands in the outermost loop it depends on.

A `Nest` is a kernel for one set of shapes. Where a `Kernel` has parameters, a nest has the numbers themselves: sizes, steps, offsets. So
the passes in `cpu/` can inspect layouts and return transformed nests. Finally `bind.py` turns the numbers into arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from math import prod

from ..dtypes import DType
from ..late import late_attribute
from ..layout import Layout, Table
from ..node import Node, Scalar, stores, writes
from ..ops.expr import Expr, Pair, walk
from ..records import NamedTuple
from .arrange import Arranged, Walk, arranged, merged
from .drafted import Access, Accessed, Draft, Loops, ReductionLoop, accesses
from .ir import (
    Accumulate,
    Accumulator,
    Address,
    Axis,
    For,
    Init,
    Product,
    Result,
    Statement,
    Store,
    Term,
    Update,
    expressions,
    statements,
)

Body = tuple[Statement, ...]


class Source(NamedTuple):
    """The memory given to a pointer: the memory of a node (None: of the result), from element `offset` on."""

    node: Node | None
    dtype: DType
    offset: int


class Read(NamedTuple):
    """The location of an access: the number of an operand and an address in it. Operand -1 means the value is the position itself."""

    operand: int
    address: Address


class _Fields(NamedTuple):
    """The fields of a `Nest`."""

    root: Node  # the result
    name: str
    operands: tuple[Source, ...]  # the result first
    reads: tuple[Read, ...]  # by access number
    tables: tuple[Table, ...]
    indexed: dict[int, int]  # the sizes of the indexed axes
    scalars: tuple[tuple[Scalar, bool], ...]  # each with True for the imaginary component
    axes: tuple[Axis, ...]
    accumulators: tuple[Accumulator, ...]
    body: Body
    in_order: frozenset[int] = frozenset()  # the reductions that take elements in order: lanes are left to outer loops
    scratch: int = 0  # bytes of scratch memory per thread


class Nest(_Fields):
    """A loop nest with concrete numbers: the extents of `axes` and the steps of addresses.

    A read is an `Access`, as in the draft; `reads` gives the operand and the address of each.
    """

    def where(self, e: Access) -> Address:
        """Return the address of an access."""
        return self.reads[e.index].address

    def with_axes(self, axes: Iterable[Axis]) -> Nest:
        """Return the same loops with new axes. Computed attributes are copied, so the new axes may differ only in vectorization."""
        nest = self._replace(axes=tuple(axes))
        nest.__dict__.update(self.__dict__)
        return nest

    def extent(self, axes: Iterable[int]) -> int:
        """Return the number of iterations of nested loops over these axes."""
        return prod([self.axes[a].extent for a in axes])

    def step(self, address: Address, axis: int) -> int | Table:
        """Return the stride of an address along an axis in elements (0 without a term), or a table with the offset of each index."""
        for t in address.terms:
            if t.axis == axis:
                return self.tables[t.value] if t.how == "table" else t.value
        return 0

    @late_attribute
    def around(self) -> Loops:
        """The axes of the loops around the write of the result, outermost first."""
        return next(tuple(dict.fromkeys(loops)) for s, loops in walk_statements(self.body) if isinstance(s, (Store, Accumulate)))

    @late_attribute
    def space(self) -> Loops:
        """The axes in `around` with independent iterations: every axis except that of a running reduction, the last."""
        return tuple([a for a in self.around if self.axes[a].parallel])

    @late_attribute
    def stores(self) -> tuple[Store, ...]:
        """The stores of the body, with the store of the result last."""
        return tuple([s for s in statements(self.body) if isinstance(s, Store)])

    @property
    def store(self) -> Store:
        """The store of the result."""
        return self.stores[-1]

    def visits(self) -> tuple[int, int]:
        """Return the number of elements written, and the number of elements taken by reductions.

        Running reductions do not count, because they take the elements they write. In a single pass over rows (`is_one_pass`), only the
        larger of the two reductions counts.
        """
        running_axes = self.around[len(self.space) :]
        reduced_counts = [self.extent(self._needed_axes(f) + f.axes) for f in self.reductions if f.axes != running_axes or not running_axes]
        return self.extent(self.around), max(reduced_counts) if self.is_one_pass else sum(reduced_counts)

    @late_attribute
    def is_one_pass(self) -> bool:
        """True if the nest is a sum over rows with a reduction of each row inside, so each row is read once for both (`onepass.py`)."""
        if len(self.reductions) != 2:
            return False
        total, of_row = sorted(self.reductions, key=lambda f: len(f.around))
        return total.around == self.space and of_row.around == self.space + total.axes and self._needed_axes(of_row) != of_row.around

    def _needed_axes(self, f: ReductionLoop) -> Loops:
        """Return the loops around a reduction on which the reduction depends. The reduction is computed once for the remaining loops."""
        if f.around == self.space[: len(f.around)]:
            return f.around
        moving_axes: set[int] = set()
        stack, visited = list(f.values), set[int]()
        while stack:
            for e in walk(stack.pop()):
                if isinstance(e, Access):
                    moving_axes |= self.where(e).axes()
                elif isinstance(e, Result) and e.accumulator not in visited:
                    visited.add(e.accumulator)
                    stack += [v for g in self.reductions if g.accumulator == e.accumulator for v in g.values]
        return tuple([a for a in f.around if a in moving_axes])

    @late_attribute
    def reductions(self) -> list[ReductionLoop]:
        """The reductions, in the order in which they start."""
        started: dict[int, Loops] = {}
        loops = []
        for s, outer_loops in walk_statements(self.body):
            if isinstance(s, Init):
                started[s.accumulator] = outer_loops
            elif isinstance(s, Update):
                outer_axes = started[s.accumulator]
                loops.append(ReductionLoop(outer_axes, outer_loops[len(outer_axes) :], s.accumulator, s.values))
        return loops

    def aligned(self) -> list[Node]:
        """Return the nodes whose elements are each read just before the same element of the result is written, and at no other time.

        The result may be written into the memory of these nodes.
        """
        if writes(self.root.op) or self.space != self.around:
            return []
        store_terms = _affine_terms(self.store.address)
        store_accesses = set(accesses([value for s in self.stores for value in s.values]))
        aligned_nodes: dict[Node, bool] = {}
        for e in accesses(expressions(self.body)):
            if self.reads[e.index].operand >= 0:
                node = self.operands[self.reads[e.index].operand].node
                if node is not None and node.size == self.root.size:
                    aligned_nodes[node] = (
                        e in store_accesses and _affine_terms(self.where(e)) == store_terms is not None and aligned_nodes.get(node, True)
                    )
        return [node for node, is_aligned in aligned_nodes.items() if is_aligned]


def _affine_terms(a: Address) -> Set[Term] | None:
    """Return the terms of an address that is a single affine view; None for a view chain or an address with tables."""
    return None if a.then is not None or any(t.how == "table" for t in a.terms) else frozenset(a.terms)


def walk_statements(body: Body, outer_loops: Loops = ()) -> Iterator[tuple[Statement, Loops]]:
    """Yield every statement of a body with the axes of the loops around it."""
    for s in body:
        yield s, outer_loops
        if isinstance(s, For):
            yield from walk_statements(s.body, (*outer_loops, s.axis))
        elif isinstance(s, Product):
            yield from walk_statements(s.body, (*outer_loops, s.left.axis, s.right.axis))


def looped(axes: Loops, body: Body) -> Body:
    """Return a body inside loops over these axes, outermost first."""
    for axis in reversed(axes):
        body = (For(axis, body),)
    return body


def inside(body: Body, loops: int) -> Body:
    """Return the body of the innermost of `loops` perfectly nested loops."""
    for _ in range(loops):
        (loop,) = body
        assert isinstance(loop, For)
        body = loop.body
    return body


def nested(d: Draft) -> Nest:
    """Return the loop nest of a draft."""
    return Nesting(d, arranged(d)).nest()


class Nesting:
    """The translation of a draft and its arranged loops into statements."""

    def __init__(self, d: Draft, loops: Arranged) -> None:
        assert d.out is not None and d.value is not None
        self.d, self.loops, self.value, self.out = d, loops, d.value, d.out
        scan_axes = () if d.scan is None else (d.scan,)
        all_axes = (*loops.space, *scan_axes, *(a for axes in loops.reduced.values() for a in axes))
        self.axis_of = {axis: k for k, axis in enumerate(all_axes)}  # draft axis -> axis of the nest
        self.operands: list[Source] = []
        self.tables: list[Table] = []

    def nest(self) -> Nest:
        """Return the loop nest for an elementwise computation, a reduction or a scan."""
        d, space = self.d, self.loops.space
        out = self.result()
        innermost: Body = (*[_build_store(self.reads[k], value) for k, value in d.beside], _build_store(out, self.value))
        if d.scan is not None:
            (f,) = [f for f in d.reductions if f.axes == (d.scan,)]
            running = self.nested(space, (d.scan,), (Update(f.accumulator, f.values), *innermost))
            innermost = (Init(f.accumulator), *running)
        return self.made((*self.reductions_in(()), *self.nested((), space, innermost)), d.space)

    def made(self, body: Body, parallel: Loops, lanes: Loops = ()) -> Nest:
        """Return the nest with this body.

        Loops over the draft axes in `parallel` have independent iterations, and loops over `lanes` are vectorized.
        """
        d, loops, reads = self.d, self.loops, self.reads  # reading `reads` adds operands and tables
        return Nest(
            d.root,
            "_".join(list(dict.fromkeys(d.names))[:6]) or ("store" if stores(d.root.op) else "copy"),
            tuple(self.operands),
            reads,
            tuple(self.tables),
            {axis: d.extents[axis] for axis in d.chosen},
            tuple(d.scalars),
            tuple([Axis(loops.extents[a], a in parallel, a in lanes) for a in self.axis_of]),
            tuple(d.accumulators),
            body,
            loops.in_order,
        )

    # Statements

    def nested(self, outer_loops: Loops, axes: Loops, innermost: Body, needed: Set[int] | None = None) -> Body:
        """Return loops over `axes` inside `outer_loops`, each with the reductions that run just inside this loop around `innermost`.

        If `needed` is not None, only these accumulators are included.
        """
        body = innermost
        for depth in range(len(axes), 0, -1):
            body = (For(self.axis_of[axes[depth - 1]], (*self.reductions_in((*outer_loops, *axes[:depth]), needed), *body)),)
        return body

    def reductions_in(self, outer_loops: Loops, needed: Set[int] | None = None) -> Body:
        """Return the statements of the reductions just inside the loops `outer_loops`: only those in `needed`, unless `needed` is None.

        Adjacent reductions over the same axes share a loop, unless one needs the result of the other. Two successive reductions may run
        over the same axes. So an inner loop contains only the reductions that its values use.
        """
        groups: list[tuple[Loops, list[ReductionLoop]]] = []
        for f in self.d.reductions:
            if f.axes == (self.d.scan,) or self.remaining(f.around) != self.remaining(outer_loops):
                continue
            if needed is not None and f.accumulator not in needed:
                continue
            last_axes, sharing = groups[-1] if groups else ((), [])
            if sharing and last_axes == f.axes and not self.needs(f.values) & {g.accumulator for g in sharing}:
                sharing.append(f)
            else:
                groups.append((f.axes, [f]))
        body: list[Statement] = []
        for axes, sharing in groups:
            body += [Init(f.accumulator) for f in sharing]
            updates = tuple([Update(f.accumulator, f.values) for f in sharing])
            body += self.nested(outer_loops, self.loops.reduced[axes], updates, self.needs([e for f in sharing for e in f.values]))
        return tuple(body)

    def remaining(self, loops: Loops) -> frozenset[int]:
        """Return the loops left after dropping and merging axes. Sets of surrounding loops are compared by this result."""
        return frozenset(a for a in loops if a in self.axis_of)

    def needs(self, values: Iterable[Expr]) -> set[int]:
        """Return the accumulators whose results the values need, directly or through further reductions."""
        needed: set[int] = set()
        visited: set[Expr] = set()
        stack = list(values)
        while stack:
            e = stack.pop()
            if e not in visited:
                visited.add(e)
                stack.extend(e.args)
                if isinstance(e, Result):
                    needed.add(e.accumulator)
                    stack.extend(self.d.reductions[e.accumulator].values)
        return needed

    # Index arithmetic

    def result(self) -> Read:
        """Add the operand of the result, and return where the result is written."""
        return self.operand(None, self.loops.walks[-1], self.out.loops)

    @late_attribute
    def reads(self) -> tuple[Read, ...]:
        """The operand and the address of every access. Ask for `reads` only after `result()`, because the result must be operand 0."""
        return tuple([self.read(p, walk) for p, walk in zip(self.d.accessed, self.loops.walks[:-1], strict=True)])

    def read(self, accessed: Accessed, walk: Walk) -> Read:
        """Add the operand of an access, and return the operand and the address."""
        if accessed.node is None:
            return Read(-1, self.address(walk, self.axis_of))
        return self.operand(accessed.node, walk, accessed.loops)

    def operand(self, node: Node | None, walk: Walk, loops: Loops) -> Read:
        """Add an operand for `node` (None: the result). Return its number and its address in `loops`.

        The last of `loops` may be indexed axes.
        """
        view = walk if walk.base is None else walk.base.innermost
        self.operands.append(Source(node, (node or self.d.root).dtype, view.offset))
        index_axes = {axis: ~k for k, axis in enumerate([a for a in loops if a in self.d.chosen])}
        return Read(len(self.operands) - 1, _drop_offset(self.address(walk, self.axis_of | index_axes)))

    def address(self, walk: Walk, loop_of: dict[int, int]) -> Address:
        """Return the address of a walk. `loop_of` maps each axis of the walk to a loop of the nest, or to a digit of a chain."""
        terms = []
        for axis, loop in loop_of.items():
            step = walk.steps.get(axis, 0)
            if isinstance(step, Table):
                terms.append(Term(loop, "table", len(self.tables)))
                self.tables.append(step)
            elif step:
                terms.append(Term(loop, "step", step))
        if walk.base is None:
            return Address(tuple(terms), walk.offset)
        return Address(tuple(terms), walk.offset, *self.chained(walk.base))

    def chained(self, base: Layout) -> tuple[tuple[int, ...], Address]:
        """Return the sizes of the digits of a flat index into `base`, and the address that the digits give."""
        extents = list(base.shape)
        walk = Walk.of(base, range(len(extents)), extents)
        digits = merged(tuple(d for d, n in enumerate(extents) if n != 1), [walk], extents, set())
        sizes = tuple(extents[d] for d in digits)
        return sizes, self.address(walk, {digit: k for k, digit in enumerate(digits)})


def _build_store(location: Read, value: Expr) -> Store:
    """Return the store of a value, real or complex."""
    real, *imag = parts_of(value)
    return Store(*location, real, imag=imag[0] if imag else None)


def _drop_offset(a: Address) -> Address:
    """Return an address without the offset of its innermost view, the view of memory itself: the pointer includes this offset."""
    return a._replace(offset=None) if a.then is None else a._replace(then=_drop_offset(a.then))


def parts_of(e: Expr) -> tuple[Expr, ...]:
    """Return a real value as a tuple of one, or the two components of a complex value."""
    return e.args if isinstance(e, Pair) else (e,)
