"""The loop nest of a kernel before scheduling. Each reduction stands in the outermost loop it depends on. A `LoopNest` is a kernel for one
set of shapes: where a `Kernel` has parameters, a nest has the numbers themselves, sizes, steps and offsets. A draft (`KernelDraft`) is the
kernel before, with layouts. An access is a read or write of an operand.

So the passes in `cpu/` can inspect layouts and return transformed nests. Finally `parameterize.py` turns the numbers into arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from math import prod

from .._utils.lazy import lazy_attribute
from .._utils.records import NamedTuple
from ..dtypes import DType
from ..graph.node import Node, Scalar, is_store, is_write
from ..layout import Layout, Table
from ..ops.expr import ComplexPair, Expr
from .access_strides import AccessStrides, Loops, merge_axes
from .ir import (
    Accumulate,
    Accumulator,
    Address,
    Contraction,
    For,
    Init,
    LoopAxis,
    Result,
    Statement,
    Store,
    Term,
    Update,
    iterate_expressions,
    iterate_statements,
)
from .kernel_draft import Access, DraftAccess, KernelDraft, ReductionLoop, collect_dependences, list_accesses
from .order_loops import OrderedLoops, order_loops

Body = tuple[Statement, ...]


class OperandMemory(NamedTuple):
    """The memory behind a pointer argument of a kernel: the memory of `node` (None: of the result), from element `offset` on, of type
    `dtype`.
    """

    node: Node | None
    dtype: DType
    offset: int


class AccessLocation(NamedTuple):
    """The location of an access: the number of an operand and an address in it. For operand -1, the value is the address itself, as a
    number.
    """

    operand: int
    address: Address


class _LoopNestFields(NamedTuple):
    """The fields of a `LoopNest`."""

    root: Node  # the result
    name: str
    operands: tuple[OperandMemory, ...]  # the result first
    locations: tuple[AccessLocation, ...]  # by access number
    tables: tuple[Table, ...]
    index_sizes: dict[int, int]  # the sizes of the indexed axes
    scalars: tuple[tuple[Scalar, bool], ...]  # each with True for the imaginary component
    axes: tuple[LoopAxis, ...]
    accumulators: tuple[Accumulator, ...]
    body: Body
    sequential_accumulators: frozenset[int] = frozenset()  # the reductions that take elements in order: lanes are left to outer loops
    scratch_bytes: int = 0  # bytes of scratch memory per thread


class LoopNest(_LoopNestFields):
    """A loop nest with concrete numbers: the extents of `axes` and the steps of addresses.

    A read in `body` is an `Access`, as in the draft; `locations` gives the operand and the address of each by its number. The reductions of
    `sequential_accumulators` take elements in order, so only loops around them get lanes. `index_sizes` maps each indexed axis to its size.
    """

    def get_address(self, e: Access) -> Address:
        """Return the address of the access `e`."""
        return self.locations[e.index].address

    def with_axes(self, axes: Iterable[LoopAxis]) -> LoopNest:
        """Return a copy of the nest with the new `axes`: as many as before, in the same order.

        Attributes already computed are copied, so the new axes may differ from the old only in `vector`.
        """
        nest = self._replace(axes=tuple(axes))
        nest.__dict__.update(self.__dict__)
        return nest

    def count_iterations(self, axes: Iterable[int]) -> int:
        """Return the number of iterations of nested loops over `axes`, given by axis number: the product of their extents."""
        return prod([self.axes[a].extent for a in axes])

    def get_step(self, address: Address, axis: int) -> int | Table:
        """Return the stride of `address` along `axis` in elements (0 without a term), or a table with the offset of each index.

        `address` belongs to this nest, so it has no parameters.
        """
        for t in address.terms:
            if t.axis == axis:
                return self.tables[t.value] if t.step_kind == "table" else t.value
        return 0

    @lazy_attribute
    def result_loops(self) -> Loops:
        """The axes of the loops around the write of the result, outermost first."""
        return next(tuple(dict.fromkeys(loops)) for s, loops in walk_with_loops(self.body) if isinstance(s, (Store, Accumulate)))

    @lazy_attribute
    def space(self) -> Loops:
        """The axes in `result_loops` with independent iterations: every axis except that of a running reduction, the last."""
        return tuple([a for a in self.result_loops if self.axes[a].parallel])

    @lazy_attribute
    def stores(self) -> tuple[Store, ...]:
        """The `Store` statements of the body, with the store of the result last; empty for a scatter."""
        return tuple([s for s in iterate_statements(self.body) if isinstance(s, Store)])

    @property
    def result_store(self) -> Store:
        """The store of the result. The nest must not be the nest of a scatter."""
        return self.stores[-1]

    def count_visits(self) -> tuple[int, int]:
        """Return the number of elements written, and the number of elements taken by the reductions together, as a pair. The work of a
        kernel is estimated by them.

        Running reductions do not count, because they take the elements they write. A reduction counts once for the loops that it does not
        need. In a single pass over rows (`is_single_pass`), only the larger of the two reductions counts.
        """
        running_axes = self.result_loops[len(self.space) :]
        reduced_counts = [
            self.count_iterations(self._needed_axes(f) + f.axes) for f in self.reductions if f.axes != running_axes or not running_axes
        ]
        return self.count_iterations(self.result_loops), max(reduced_counts) if self.is_single_pass else sum(reduced_counts)

    @lazy_attribute
    def is_single_pass(self) -> bool:
        """True if the nest is a sum over rows with a reduction of each row inside, so each row is read once for both.

        See `match_single_pass.py`.
        """
        if len(self.reductions) != 2:
            return False
        total, of_row = sorted(self.reductions, key=lambda f: len(f.outer_loops))
        return (
            total.outer_loops == self.space
            and of_row.outer_loops == self.space + total.axes
            and self._needed_axes(of_row) != of_row.outer_loops
        )

    def _needed_axes(self, f: ReductionLoop) -> Loops:
        """Return the loops around the reduction `f` on which it depends. The reduction is computed once for the remaining loops.

        If the loops around `f` are the first loops of the space, return all of them, needed or not.
        """
        if f.outer_loops == self.space[: len(f.outer_loops)]:
            return f.outer_loops
        moving_axes = frozenset().union(*[self.moving_axes[value] for value in f.values])
        return tuple([a for a in f.outer_loops if a in moving_axes])

    @lazy_attribute
    def moving_axes(self) -> dict[Expr, frozenset[int]]:
        """The loop axes on which each expression in the values of reductions depends, through addresses and the results of other
        reductions. Keys are all subexpressions of these values.
        """
        return collect_dependences(self.reductions, lambda e: self.get_address(e).axes() if isinstance(e, Access) else ())

    @lazy_attribute
    def reductions(self) -> list[ReductionLoop]:
        """The reductions, ordered by their `Update` statements: a reduction inside the loop of another comes first. Reductions inside a
        `Contraction` statement are not listed.
        """
        started: dict[int, Loops] = {}
        loops = []
        for s, outer_loops in walk_with_loops(self.body):
            if isinstance(s, Init):
                started[s.accumulator] = outer_loops
            elif isinstance(s, Update):
                outer_axes = started[s.accumulator]
                loops.append(ReductionLoop(outer_axes, outer_loops[len(outer_axes) :], s.accumulator, s.values))
        return loops

    def list_aligned_nodes(self) -> list[Node]:
        """Return the nodes whose elements are each read just before the same element of the result is written, and at no other time.

        The result may be written into the memory of these nodes. The list is empty for a write into a tensor and for a scan.
        """
        if is_write(self.root.op) or self.space != self.result_loops:
            return []
        store_terms = _affine_terms(self.result_store.address)
        store_accesses = set(list_accesses([value for s in self.stores for value in s.values]))
        aligned_nodes: dict[Node, bool] = {}
        for e in list_accesses(iterate_expressions(self.body)):
            if self.locations[e.index].operand >= 0:
                node = self.operands[self.locations[e.index].operand].node
                if node is not None and node.size == self.root.size:
                    aligned_nodes[node] = (
                        e in store_accesses
                        and _affine_terms(self.get_address(e)) == store_terms is not None
                        and aligned_nodes.get(node, True)
                    )
        return [node for node, is_aligned in aligned_nodes.items() if is_aligned]


def _affine_terms(a: Address) -> Set[Term] | None:
    """Return the terms of the address `a` if it is a single affine view; None for a view chain or an address with tables."""
    return None if a.base is not None or any(t.step_kind == "table" for t in a.terms) else frozenset(a.terms)


def walk_with_loops(body: Body, outer_loops: Loops = ()) -> Iterator[tuple[Statement, Loops]]:
    """Yield every statement of `body` with the axes of the loops around it, outermost first; a loop comes before the statements inside.

    `outer_loops` are the loops around `body`. A contraction counts as a loop over rows and a loop over columns.
    """
    for s in body:
        yield s, outer_loops
        if isinstance(s, For):
            yield from walk_with_loops(s.body, (*outer_loops, s.axis))
        elif isinstance(s, Contraction):
            yield from walk_with_loops(s.body, (*outer_loops, s.left.axis, s.right.axis))


def wrap_in_loops(axes: Loops, body: Body) -> Body:
    """Return `body` inside loops over `axes`, outermost first; `body` itself without axes."""
    for axis in reversed(axes):
        body = (For(axis, body),)
    return body


def get_inner_body(body: Body, loops: int) -> Body:
    """Return the body of the innermost of perfectly nested loops; `body` itself if `loops`, the number of these loops, is 0.

    Each of the loops must be the only statement around the next.
    """
    for _ in range(loops):
        (loop,) = body
        assert isinstance(loop, For)
        body = loop.body
    return body


def convert_draft(d: KernelDraft) -> LoopNest:
    """Return the loop nest of the draft `d`, with ordered and merged loops (`order_loops`), not scheduled yet. The draft of a scatter needs
    `build_scatter_nest`. The draft is not changed.
    """
    return LoopNestBuilder(d, order_loops(d)).build_nest()


class LoopNestBuilder:
    """The translation of a draft `d` with the ordered `loops` into the statements, operands and tables of a nest.

    `axis_of` maps the remaining axes of the draft to axes of the nest. The arguments `outer_loops`, `axes` and `loops` of the methods are
    axes of the draft, outermost first. The argument `walk` is the strides of an access, in draft axes.
    """

    def __init__(self, d: KernelDraft, loops: OrderedLoops) -> None:
        assert d.output is not None and d.value is not None
        self.d, self.loops, self.value, self.output = d, loops, d.value, d.output
        scan_axes = () if d.scan_axis is None else (d.scan_axis,)
        all_axes = (*loops.space, *scan_axes, *(a for axes in loops.reduction_axes.values() for a in axes))
        self.axis_of = {axis: k for k, axis in enumerate(all_axes)}  # draft axis -> axis of the nest
        self.operands: list[OperandMemory] = []
        self.tables: list[Table] = []

    def build_nest(self) -> LoopNest:
        """Return the loop nest of a draft that is an elementwise computation, a reduction or a scan, but not a scatter."""
        d, space = self.d, self.loops.space
        out = self.add_result()
        innermost: Body = (*[_build_store(self.locations[k], value) for k, value in d.extra_outputs], _build_store(out, self.value))
        if d.scan_axis is not None:
            (f,) = [f for f in d.reductions if f.axes == (d.scan_axis,)]
            running = self.build_loops(space, (d.scan_axis,), (Update(f.accumulator, f.values), *innermost))
            innermost = (Init(f.accumulator), *running)
        return self.assemble_nest((*self.build_reductions(()), *self.build_loops((), space, innermost)), d.space)

    def assemble_nest(self, body: Body, parallel: Loops, lanes: Loops = ()) -> LoopNest:
        """Return the nest with the statements `body`, and with the operands, tables and axes collected so far.

        Loops over the draft axes in `parallel` have independent iterations, and loops over `lanes` are vectorized. Call this after
        `add_result()`: the operands of all reads are added here at the latest.
        """
        d, loops, reads = self.d, self.loops, self.locations  # reading `locations` adds operands and tables
        return LoopNest(
            d.root,
            "_".join(list(dict.fromkeys(d.op_names))[:6]) or ("store" if is_store(d.root.op) else "copy"),
            tuple(self.operands),
            reads,
            tuple(self.tables),
            {axis: d.extents[axis] for axis in d.indices},
            tuple(d.scalars),
            tuple([LoopAxis(loops.extents[a], a in parallel, a in lanes) for a in self.axis_of]),
            tuple(d.accumulators),
            body,
            loops.sequential_accumulators,
        )

    # Statements

    def build_loops(self, outer_loops: Loops, axes: Loops, innermost: Body, needed: Set[int] | None = None) -> Body:
        """Return nested loops over `axes`, inside `outer_loops`, around the statements `innermost`; `innermost` itself without axes.

        Each loop begins with the reductions that run just inside this loop. If `needed` is not None, only these accumulators are included.
        """
        body = innermost
        for depth in range(len(axes), 0, -1):
            body = (For(self.axis_of[axes[depth - 1]], (*self.build_reductions((*outer_loops, *axes[:depth]), needed), *body)),)
        return body

    def build_reductions(self, outer_loops: Loops, needed: Set[int] | None = None) -> Body:
        """Return the statements of the reductions just inside the loops `outer_loops`: only those in `needed`, unless `needed` is None.

        `needed` holds numbers of accumulators. Adjacent reductions over the same axes share a loop, unless the second needs the result of
        the first: then each has a separate loop. A loop contains only the inner reductions used by the values in the loop.
        """
        groups: list[tuple[Loops, list[ReductionLoop]]] = []
        for f in self.d.reductions:
            if f.axes == (self.d.scan_axis,) or self.find_remaining_axes(f.outer_loops) != self.find_remaining_axes(outer_loops):
                continue
            if needed is not None and f.accumulator not in needed:
                continue
            last_axes, sharing = groups[-1] if groups else ((), [])
            if sharing and last_axes == f.axes and not self.find_needed(f.values) & {g.accumulator for g in sharing}:
                sharing.append(f)
            else:
                groups.append((f.axes, [f]))
        body: list[Statement] = []
        for axes, sharing in groups:
            body += [Init(f.accumulator) for f in sharing]
            updates = tuple([Update(f.accumulator, f.values) for f in sharing])
            body += self.build_loops(
                outer_loops, self.loops.reduction_axes[axes], updates, self.find_needed([e for f in sharing for e in f.values])
            )
        return tuple(body)

    def find_remaining_axes(self, loops: Loops) -> frozenset[int]:
        """Return the draft axes in `loops` that have an axis in the nest. The rest has extent 1, or is merged into a neighbour.

        Two tuples of draft axes are the same loops of the nest if this result is equal for both.
        """
        return frozenset(a for a in loops if a in self.axis_of)

    def find_needed(self, values: Iterable[Expr]) -> frozenset[int]:
        """Return the accumulators whose results `values`, the values of reductions, need directly or through further reductions."""
        return frozenset().union(*[self.needed_accumulators[value] for value in values])

    @lazy_attribute
    def needed_accumulators(self) -> dict[Expr, frozenset[int]]:
        """The accumulators whose results each expression in the values of reductions needs."""
        return collect_dependences(self.d.reductions, lambda e: (e.accumulator,) if isinstance(e, Result) else ())

    # Index arithmetic

    def add_result(self) -> AccessLocation:
        """Add the operand of the result, and return where the result is written. The result must be the first operand added."""
        return self.add_operand(None, self.loops.strides[-1], self.output.loops)

    @lazy_attribute
    def locations(self) -> tuple[AccessLocation, ...]:
        """The operand and the address of every access, by access number. The first use adds the operands and tables of all reads.

        Ask for `locations` only after `add_result()`, because the result must be operand 0.
        """
        return tuple([self.add_read(p, walk) for p, walk in zip(self.d.accesses, self.loops.strides[:-1], strict=True)])

    def add_read(self, accessed: DraftAccess, walk: AccessStrides) -> AccessLocation:
        """Add the operand of the access `accessed` with the strides `walk`. Return the number of the operand, and the address inside.

        For an access to the position itself, add no operand; the number is -1.
        """
        if accessed.node is None:
            return AccessLocation(-1, self.build_address(walk, self.axis_of))
        return self.add_operand(accessed.node, walk, accessed.loops)

    def add_operand(self, node: Node | None, walk: AccessStrides, loops: Loops) -> AccessLocation:
        """Add an operand for `node` (None: the result), accessed with the strides `walk`. Return its number, and its address in `loops`.

        The last of `loops` may be indexed axes.
        """
        view = walk if walk.base is None else walk.base.innermost
        self.operands.append(OperandMemory(node, (node or self.d.root).dtype, view.offset))
        index_axes = {axis: ~k for k, axis in enumerate([a for a in loops if a in self.d.indices])}
        return AccessLocation(len(self.operands) - 1, _drop_offset(self.build_address(walk, self.axis_of | index_axes)))

    def build_address(self, walk: AccessStrides, loop_of: dict[int, int]) -> Address:
        """Return the address of an access with the strides `walk`, as a sum of a term for each axis; tables are added to the nest.

        `loop_of` maps each axis of `walk` to the axis number of the term: a loop of the nest, a negative number for an indexed axis, or the
        position of a digit of a view chain.
        """
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
        return Address(tuple(terms), walk.offset, *self.build_chained_address(walk.base))

    def build_chained_address(self, base: Layout) -> tuple[tuple[int, ...], Address]:
        """Return how a flat index is read in `base`, the next layout of a view chain: the sizes of the digits, and an address over the
        digits.

        The flat index has a digit for each axis of `base` after merging. The sizes are outermost first. The axes of the address are the
        positions of the digits.
        """
        extents = list(base.shape)
        walk = AccessStrides.from_layout(base, range(len(extents)), extents)
        digits = merge_axes(tuple(d for d, n in enumerate(extents) if n != 1), [walk], extents, set())
        sizes = tuple(extents[d] for d in digits)
        return sizes, self.build_address(walk, {digit: k for k, digit in enumerate(digits)})


def _build_store(location: AccessLocation, value: Expr) -> Store:
    """Return the store of a value, real or complex, to the operand and address in `location`."""
    real, *imag = list_components(value)
    return Store(*location, real, imag=imag[0] if imag else None)


def _drop_offset(a: Address) -> Address:
    """Return the address `a` without the offset of its innermost view, the view of memory itself: the pointer includes this offset."""
    return a._replace(offset=None) if a.base is None else a._replace(base=_drop_offset(a.base))


def list_components(e: Expr) -> tuple[Expr, ...]:
    """Return the real components of the value `e`: a tuple of the real and the imaginary part, or of `e` alone for a real value."""
    return e.args if isinstance(e, ComplexPair) else (e,)
