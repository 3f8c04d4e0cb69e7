"""The conversion of a scheduled loop nest into a kernel: numbers become run-time arguments, so the kernel serves many shapes and views.

A step stays a part of the pattern only where code depends on it: steps of 0, steps of 1 along lanes, and the few small steps (`NEAR`) for
which whole vectors are loaded.
"""

from __future__ import annotations

from ..dtypes import int64
from ..layout import Table
from ..node import Node, Scalar
from ..ops.expr import Expr, rebuild
from ..records import NamedTuple
from .arrange import NEAR
from .drafted import Access, Chosen
from .ir import (
    Accumulate,
    Address,
    Axis,
    For,
    Index,
    Keep,
    Kept,
    Kernel,
    Load,
    Operand,
    Position,
    Prefetch,
    Product,
    Side,
    Statement,
    Store,
    Term,
    TileElement,
    TileLoad,
    Update,
    statements,
)
from .nest import Body, Nest

FLAG_OPERAND = Operand(int64, written=True, flag=True)  # set by kernels where an index is out of range


class Binding(NamedTuple):
    """The arguments of a kernel for one set of shapes.

    `operands` gives, for each pointer except the flag's, the node (None: the result) and the offset in elements to add. `tables`, `scalars`
    and `sizes` are the rest of the argument block, in order. `work` is about the number of elements visited. `split` is the extent of the
    loop that may run in pieces, and `scratch` the bytes of scratch memory per thread.
    """

    nest: Nest  # the loop nest before scheduling
    operands: list[tuple[Node | None, int]]
    tables: list[Table]
    scalars: list[tuple[Scalar, bool]]  # each with True for the imaginary component
    sizes: list[int]
    work: int = 1
    split: int = 1
    scratch: int = 0


def bind(nest: Nest) -> tuple[Kernel, Binding]:
    """Return the kernel of a nest, and the arguments for the sizes of this nest."""
    binder = _Binder(nest)
    kernel = binder.kernel()
    split = binder.sizes[kernel.axes[kernel.split].extent] if kernel.split >= 0 else 1
    scalars = list(nest.scalars)
    return kernel, Binding(nest, binder.operands, binder.tables, scalars, binder.sizes, split=split, scratch=nest.scratch)


class _Binder:
    """The state of `bind`: the argument lists so far, and the arguments assigned to nodes, addresses and axes of the nest."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.sizes: list[int] = []
        self.tables: list[Table] = []
        self.operands: list[tuple[Node | None, int]] = []
        self.operand_of: dict[int, int] = {}
        self.address_of: dict[tuple[int, Address], Address] = {}  # by operand
        self.argument_of: dict[tuple[int, int, int], Term] = {}  # by operand, level in a view chain, and axis
        self.bound_exprs: dict[Expr, Expr] = {}
        self.axis_of = {axis: k for k, axis in enumerate(_list_loop_axes(nest))}
        self.axes = [Axis(self.size(a.extent), *a[1:]) for a in (nest.axes[axis] for axis in self.axis_of)]
        self.lanes = {axis for axis in self.axis_of if nest.axes[axis].vector}
        self.units = set(self.lanes)  # the axes along which a step of 1 is a part of the pattern
        for s in statements(nest.body):
            if isinstance(s, Product):
                self.units |= {s.left.axis, s.right.axis, s.summed[-1]}

    def kernel(self) -> Kernel:
        """Return the kernel, and fill the argument lists."""
        nest = self.nest
        self.operand(0)
        for s in statements(nest.body):
            if isinstance(s, Store):
                self.statement(s)  # operands read by stores are numbered first
        body = self.body(nest.body)
        dtypes = [nest.operands[k].dtype for k in self.operand_of]
        written = {0}.union(s.operand for s in statements(nest.body) if isinstance(s, Store))
        operands = [Operand(d, written=k in written) for k, d in zip(self.operand_of, dtypes, strict=True)]
        return Kernel(
            nest.name,
            (*operands, FLAG_OPERAND) if nest.indexed else tuple(operands),
            len(self.tables),
            tuple([n.dtype.part for n, _ in nest.scalars]),
            len(self.sizes),
            tuple(self.axes),
            tuple([f if f.row < 0 else f._replace(row=self.axis_of[f.row]) for f in nest.accumulators]),
            body,
        )

    # Arguments

    def size(self, value: int) -> int:
        """Append a size argument, and return its number."""
        self.sizes.append(value)
        return len(self.sizes) - 1

    def operand(self, k: int) -> int:
        """Return the argument number of an operand of the nest. Operands without a remaining access get none."""
        argument = self.operand_of.get(k)
        if argument is None:
            argument = self.operand_of[k] = len(self.operands)
            self.operands.append((self.nest.operands[k].node, self.nest.operands[k].offset))
        return argument

    def bind_location(self, operand: int, a: Address) -> tuple[int, Address]:
        """Return the argument number of an operand, and the address in it with parameters. Equal addresses give the same object."""
        bound_address = self.address_of.get((operand, a))
        if bound_address is None:
            bound_address = self.address_of[operand, a] = self.address(a, operand)
        return self.operand(operand), bound_address

    def address(self, a: Address, operand: int, near_steps: tuple[int, ...] = NEAR, view: int = 0) -> Address:
        """Return an address with parameters in place of numbers, outermost loops first.

        Each operand has one parameter per axis. If `operand` is -1, the address itself is the value, and each term has a parameter of its
        own. `near_steps` are the small steps kept as constants, and `view` is the level in a view chain.
        """
        terms = [self.term(t, operand, near_steps, view) for t in a.terms]
        if not view:
            terms.sort(key=lambda t: t.axis if t.axis >= 0 else len(self.axes) - t.axis)
        offset = None if a.offset is None else self.size(a.offset)
        if a.then is None:
            return Address(tuple(terms), offset)
        digits = tuple(map(self.size, a.digits))
        return Address(tuple(terms), offset, digits, self.address(a.then, operand, (), view + 1))

    def term(self, t: Term, operand: int, near_steps: tuple[int, ...], view: int) -> Term:
        """Return a term of an address with a parameter, or with its step if the step is a part of the pattern."""
        axis = self.axis_of[t.axis] if t.axis >= 0 and not view else t.axis
        if t.how == "step" and not view:
            if t.value == 1 and (t.axis < 0 or t.axis in self.units):
                return Term(axis, "unit")
            if t.value in near_steps and t.axis in self.lanes:
                return Term(axis, "near", int(t.value))
        known_term = self.argument_of.get((operand, view, axis)) if operand >= 0 else None
        if known_term is not None:
            return known_term
        if t.how == "table":
            self.tables.append(self.nest.tables[t.value])
            new_term = Term(axis, "table", len(self.tables) - 1)
        else:
            new_term = Term(axis, "stride", self.size(t.value))
        self.argument_of[operand, view, axis] = new_term
        return new_term

    # Expressions and statements

    def expr(self, e: Expr) -> Expr:
        """Return an expression with parameters in place of numbers; memoised."""
        bound_expr = self.bound_exprs.get(e)
        if bound_expr is None:
            bound_expr = self.bound_exprs[e] = rebuild(e, self.leaf)
        return bound_expr

    def leaf(self, e: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return an expression that is not an operation, with parameters and the new operands `args`; memoised."""
        bound_expr = self.bound_exprs.get(e)
        if bound_expr is None:
            bound_expr = self.bound_exprs[e] = self.bound(e, args)
        return bound_expr

    def bound(self, e: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return an expression that is not an operation, with parameters and the new operands `args`."""
        if isinstance(e, Access):
            operand, address = self.nest.reads[e.index]
            if operand < 0:
                return Position(self.address(address, -1, ()), e.dtype)
            return Load(*self.bind_location(operand, address), e.dtype, args, e.part)
        if isinstance(e, Chosen):
            return Index(args[0], self.size(self.nest.indexed[e.axis]))
        if isinstance(e, Kept):
            return Kept(e.row, self.axis_of[e.axis], e.size, e.dtype)
        if isinstance(e, TileElement):
            return TileElement(e.tile, self.axis_of[e.along], self.axis_of[e.last], e.side, e.dtype, e.part)
        return e

    def exprs(self, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(map(self.expr, values))

    def body(self, body: Body) -> Body:
        return tuple(map(self.statement, body))

    def statement(self, s: Statement) -> Statement:
        """Return a statement with parameters in place of numbers."""
        if isinstance(s, For):
            return For(self.axis_of[s.axis], self.body(s.body), s.block, s.abreast, s.whole)
        if isinstance(s, Update):
            return Update(s.accumulator, self.exprs(s.values))
        if isinstance(s, Keep):
            return Keep(s.row, self.axis_of[s.axis], s.size, self.expr(s.value))
        if isinstance(s, Product):
            return self.product(s)
        if isinstance(s, Store):
            location = self.bind_location(s.operand, s.address)
            imag, changes = (None if e is None else self.expr(e) for e in (s.imag, s.changes))
            return Store(*location, self.expr(s.value), s.streamed, imag, changes)
        if isinstance(s, Accumulate):
            location = self.bind_location(s.operand, s.address)
            values = self.exprs(s.values)
            return Accumulate(*location, self.exprs(s.indices), values, s.joined)
        if isinstance(s, TileLoad):
            return self.tile(s)
        if isinstance(s, Prefetch):
            return Prefetch(*self.bind_location(s.operand, s.address), self.axis_of[s.axis], s.by_reading)
        return s

    def tile(self, s: TileLoad) -> TileLoad:
        """Return the fill of a tile with parameters. A step of 1 along its axis `along` is a part of the pattern."""
        units, self.units = self.units, self.units | {s.along}
        address = self.address(s.address, s.operand, ())
        self.units = units
        return TileLoad(s.tile, self.operand(s.operand), address, self.axis_of[s.along], self.axis_of[s.last], s.side)

    def product(self, s: Product) -> Product:
        """Return a contraction with parameters in place of numbers."""
        left, right = (
            Side(
                self.axis_of[side.axis],
                self.exprs(side.values),
                side.packed,
                side.fixed,
                side.runs,
                -1 if side.block < 0 else self.size(side.block),
            )
            for side in (s.left, s.right)
        )
        shared = -1 if s.shared < 0 else self.axis_of[s.shared]
        summed = tuple([self.axis_of[a] for a in s.summed])
        values, body = self.exprs(s.values), self.body(s.body)
        stretch = self.size(s.stretch) if s.steps_first else -1
        ahead = -1 if s.ahead < 0 else self.axis_of[s.ahead]
        return Product(s.accumulator, left, right, summed, values, body, shared, s.once, stretch, s.twins, ahead)


def _list_loop_axes(nest: Nest) -> dict[int, None]:
    """Return the axes with loops, as the keys of a dict in order: the axes around the write of the result first."""
    loop_axes: dict[int, None] = dict.fromkeys(nest.around)
    for s in statements(nest.body):
        if isinstance(s, For):
            loop_axes[s.axis] = None
        elif isinstance(s, Product):
            loop_axes |= dict.fromkeys(s.summed)
    return loop_axes
