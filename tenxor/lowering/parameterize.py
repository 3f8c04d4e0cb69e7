"""The conversion of a scheduled loop nest into a kernel: numbers become run-time arguments, so the kernel serves many shapes and views. A
size argument, or size parameter, is any integer of these: an extent, a stride or an offset.

A step stays a part of the pattern only where code depends on it: steps of 0, steps of 1 along lanes, and the few small steps (`NEAR_STEPS`)
for which whole vectors are loaded.
"""

from __future__ import annotations

from .._utils.records import NamedTuple
from ..dtypes import int64
from ..graph.node import Node, Scalar
from ..graph.reduction_limits import NEAR_STEPS
from ..layout import Table
from ..ops.expr import Expr, rebuild
from .ir import (
    Accumulate,
    Address,
    Contraction,
    For,
    Index,
    Kernel,
    Load,
    LoopAxis,
    Operand,
    Position,
    Prefetch,
    RowLoad,
    RowStore,
    Side,
    Statement,
    Store,
    Term,
    TileElement,
    TileLoad,
    Update,
    iterate_statements,
)
from .kernel_draft import Access, DraftIndex
from .loop_nest import Body, LoopNest

FLAG_OPERAND = Operand(int64, written=True, flag=True)  # set by kernels where an index is out of range


class KernelBinding(NamedTuple):
    """The arguments of a kernel for one set of shapes.

    `operands` gives, for each pointer except the flag's, the node (None: the result) and the offset in elements to add. `tables`, `scalars`
    and `sizes` are the rest of the argument block, in order. `work` is the number of elements written and reduced; the steps of a
    contraction count less. `split_extent` is the extent of the loop that may run in pieces, and `scratch_bytes` the bytes of scratch memory
    per thread.
    """

    nest: LoopNest  # the loop nest before scheduling
    operands: list[tuple[Node | None, int]]
    tables: list[Table]
    scalars: list[tuple[Scalar, bool]]  # each with True for the imaginary component
    sizes: list[int]
    work: int = 1
    split_extent: int = 1
    scratch_bytes: int = 0


def parameterize(nest: LoopNest) -> tuple[Kernel, KernelBinding]:
    """Return the kernel of a scheduled nest, and the arguments for the sizes of this nest.

    `lower` sets two fields of the arguments afterwards: `work`, which is left at 1 here, and `nest`, which is the scheduled nest here.
    """
    binder = _Parameterizer(nest)
    kernel = binder.build_kernel()
    split = binder.sizes[kernel.axes[kernel.split_axis].extent] if kernel.split_axis >= 0 else 1
    scalars = list(nest.scalars)
    return kernel, KernelBinding(
        nest, binder.operands, binder.tables, scalars, binder.sizes, split_extent=split, scratch_bytes=nest.scratch_bytes
    )


class _Parameterizer:
    """The state of `parameterize`: the argument lists so far, and the arguments assigned to nodes, addresses and axes of the nest."""

    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest
        self.sizes: list[int] = []
        self.tables: list[Table] = []
        self.operands: list[tuple[Node | None, int]] = []
        self.operand_of: dict[int, int] = {}
        self.address_of: dict[tuple[int, Address], Address] = {}  # by operand
        self.argument_of: dict[tuple[int, int, int], Term] = {}  # by operand, level in a view chain, and axis
        self.converted_exprs: dict[Expr, Expr] = {}
        self.axis_of = {axis: k for k, axis in enumerate(_list_loop_axes(nest))}
        self.axes = [LoopAxis(self.add_size(a.extent), *a[1:]) for a in (nest.axes[axis] for axis in self.axis_of)]
        self.lanes = {axis for axis in self.axis_of if nest.axes[axis].vector}
        self.unit_step_axes = set(self.lanes)  # the axes along which a step of 1 is a part of the pattern
        for s in iterate_statements(nest.body):
            if isinstance(s, Contraction):
                self.unit_step_axes |= {s.left.axis, s.right.axis, s.summed_axes[-1]}

    def build_kernel(self) -> Kernel:
        """Return the kernel, and fill the argument lists. Call this once. The operand of the result is argument 0, then come the operands
        that stores read.
        """
        nest = self.nest
        self.get_operand(0)
        for s in iterate_statements(nest.body):
            if isinstance(s, Store):
                self.convert_statement(s)  # operands read by stores are numbered first
        body = self.convert_body(nest.body)
        dtypes = [nest.operands[k].dtype for k in self.operand_of]
        written = {0}.union(s.operand for s in iterate_statements(nest.body) if isinstance(s, Store))
        operands = [Operand(d, written=k in written) for k, d in zip(self.operand_of, dtypes, strict=True)]
        return Kernel(
            nest.name,
            (*operands, FLAG_OPERAND) if nest.index_sizes else tuple(operands),
            len(self.tables),
            tuple([n.dtype.part for n, _ in nest.scalars]),
            len(self.sizes),
            tuple(self.axes),
            tuple([f if f.row_axis < 0 else f._replace(row_axis=self.axis_of[f.row_axis]) for f in nest.accumulators]),
            body,
        )

    # Arguments

    def add_size(self, value: int) -> int:
        """Append the number `value` to the size arguments, and return the number of the new size parameter."""
        self.sizes.append(value)
        return len(self.sizes) - 1

    def get_operand(self, k: int) -> int:
        """Return the argument number of operand `k` of the nest. The first request adds the argument, so unused operands have none."""
        argument = self.operand_of.get(k)
        if argument is None:
            argument = self.operand_of[k] = len(self.operands)
            self.operands.append((self.nest.operands[k].node, self.nest.operands[k].offset))
        return argument

    def convert_location(self, operand: int, a: Address) -> tuple[int, Address]:
        """Return the argument number of an operand, and the address `a` with parameters. Equal addresses of an operand give the same
        object.

        `operand` is the number in the nest. New parameters are appended to the argument lists.
        """
        bound_address = self.address_of.get((operand, a))
        if bound_address is None:
            bound_address = self.address_of[operand, a] = self.convert_address(a, operand)
        return self.get_operand(operand), bound_address

    def convert_address(self, a: Address, operand: int, near_steps: tuple[int, ...] = NEAR_STEPS, view: int = 0) -> Address:
        """Return the address `a` with parameters in place of numbers, and with the terms of the first view in the order of the loops.

        The outermost loop comes first. `view` is the level in a view chain, 0 for the first view. An operand has one parameter for each
        axis of each level, shared by all its addresses. If `operand` is -1, the address is itself a value (`Position`), and each term
        has a separate parameter. Steps in `near_steps` along lanes stay constants, and so do some steps of 1 (`convert_term`).
        """
        terms = [self.convert_term(t, operand, near_steps, view) for t in a.terms]
        if not view:
            terms.sort(key=lambda t: t.axis if t.axis >= 0 else len(self.axes) - t.axis)
        offset = None if a.offset is None else self.add_size(a.offset)
        if a.base is None:
            return Address(tuple(terms), offset)
        digits = tuple(map(self.add_size, a.digit_sizes))
        return Address(tuple(terms), offset, digits, self.convert_address(a.base, operand, (), view + 1))

    def convert_term(self, t: Term, operand: int, near_steps: tuple[int, ...], view: int) -> Term:
        """Return the term `t` of an address with a parameter, or with the step itself where the kernel has the step as a constant.

        Constant are steps of 1 along some axes, and the small `near_steps` along lanes. `operand`, `near_steps` and `view` have the meaning
        given in `convert_address`.
        """
        axis = self.axis_of[t.axis] if t.axis >= 0 and not view else t.axis
        if t.step_kind == "step" and not view:
            if t.value == 1 and (t.axis < 0 or t.axis in self.unit_step_axes):
                return Term(axis, "unit")
            if t.value in near_steps and t.axis in self.lanes:
                return Term(axis, "near", int(t.value))
        known_term = self.argument_of.get((operand, view, axis)) if operand >= 0 else None
        if known_term is not None:
            return known_term
        if t.step_kind == "table":
            self.tables.append(self.nest.tables[t.value])
            new_term = Term(axis, "table", len(self.tables) - 1)
        else:
            new_term = Term(axis, "stride", self.add_size(t.value))
        self.argument_of[operand, view, axis] = new_term
        return new_term

    # Expressions and statements

    def convert_expr(self, e: Expr) -> Expr:
        """Return the expression `e` with parameters in place of numbers. The results are memoised, also for the subexpressions."""
        return rebuild(e, self.convert_leaf, self.converted_exprs)

    def convert_leaf(self, e: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return the leaf `e`, an expression other than an operation, with parameters, and with `args` as operands."""
        if isinstance(e, Access):
            operand, address = self.nest.locations[e.index]
            if operand < 0:
                return Position(self.convert_address(address, -1, ()), e.dtype)
            return Load(*self.convert_location(operand, address), e.dtype, args, e.component)
        if isinstance(e, DraftIndex):
            return Index(args[0], self.add_size(self.nest.index_sizes[e.axis]))
        if isinstance(e, RowLoad):
            return RowLoad(e.row_buffer, self.axis_of[e.axis], e.size, e.dtype)
        if isinstance(e, TileElement):
            return TileElement(e.tile, self.axis_of[e.contiguous_axis], self.axis_of[e.read_axis], e.side, e.dtype, e.component)
        return e

    def convert_exprs(self, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return the expressions `values` with parameters in place of numbers."""
        return tuple(map(self.convert_expr, values))

    def convert_body(self, body: Body) -> Body:
        """Return the statements of `body` as statements of the kernel."""
        return tuple(map(self.convert_statement, body))

    def convert_statement(self, s: Statement) -> Statement:
        """Return the statement `s` of the nest as a statement of the kernel; a loop with its body converted too.

        Operands, axes, strides, offsets and sizes of indexed axes become numbers of kernel arguments. New arguments are appended to the
        argument lists. Steps that are a part of the pattern stay constants (`convert_term`).
        """
        if isinstance(s, For):
            return For(self.axis_of[s.axis], self.convert_body(s.body), s.block, s.jam_factor, s.is_undivided)
        if isinstance(s, Update):
            return Update(s.accumulator, self.convert_exprs(s.values))
        if isinstance(s, RowStore):
            return RowStore(s.row_buffer, self.axis_of[s.axis], s.size, self.convert_expr(s.value))
        if isinstance(s, Contraction):
            return self.convert_contraction(s)
        if isinstance(s, Store):
            location = self.convert_location(s.operand, s.address)
            imag, changes = (None if e is None else self.convert_expr(e) for e in (s.imag, s.predicate))
            return Store(*location, self.convert_expr(s.value), s.is_nontemporal, imag, changes)
        if isinstance(s, Accumulate):
            location = self.convert_location(s.operand, s.address)
            values = self.convert_exprs(s.values)
            return Accumulate(*location, self.convert_exprs(s.indices), values, s.new_values)
        if isinstance(s, TileLoad):
            return self.convert_tile(s)
        if isinstance(s, Prefetch):
            return Prefetch(*self.convert_location(s.operand, s.address), self.axis_of[s.axis], s.by_reading)
        return s

    def convert_tile(self, s: TileLoad) -> TileLoad:
        """Return `s`, the fill of a tile, with parameters in place of numbers. A step of 1 along its axis `contiguous_axis` stays a
        constant.
        """
        units, self.unit_step_axes = self.unit_step_axes, self.unit_step_axes | {s.contiguous_axis}
        address = self.convert_address(s.address, s.operand, ())
        self.unit_step_axes = units
        return TileLoad(s.tile, self.get_operand(s.operand), address, self.axis_of[s.contiguous_axis], self.axis_of[s.read_axis], s.side)

    def convert_contraction(self, s: Contraction) -> Contraction:
        """Return the contraction `s` with parameters in place of numbers. Blocks become size parameters; -1 stays -1."""
        left, right = (
            Side(
                self.axis_of[side.axis],
                self.convert_exprs(side.values),
                side.is_packed,
                side.is_packed_once,
                side.has_runs,
                -1 if side.block < 0 else self.add_size(side.block),
            )
            for side in (s.left, s.right)
        )
        shared = -1 if s.shared_axis < 0 else self.axis_of[s.shared_axis]
        summed = tuple([self.axis_of[a] for a in s.summed_axes])
        values, body = self.convert_exprs(s.values), self.convert_body(s.body)
        stretch = self.add_size(s.step_block) if s.has_step_blocks else -1
        ahead = -1 if s.prefetch_axis < 0 else self.axis_of[s.prefetch_axis]
        fields = s.has_single_chunk, stretch, s.symmetric_pairs, ahead, s.prefetches_panels
        return Contraction(s.accumulator, left, right, summed, values, body, shared, *fields)


def _list_loop_axes(nest: LoopNest) -> dict[int, None]:
    """Return the axes of the nest that have loops, as the keys of a dict in order: the axes around the write of the result first."""
    loop_axes: dict[int, None] = dict.fromkeys(nest.result_loops)
    for s in iterate_statements(nest.body):
        if isinstance(s, For):
            loop_axes[s.axis] = None
        elif isinstance(s, Contraction):
            loop_axes |= dict.fromkeys(s.summed_axes)
    return loop_axes
