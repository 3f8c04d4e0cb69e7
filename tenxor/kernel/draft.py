"""Kernels are put together: `draft` follows a node's recipe down to what is in memory.

Every read becomes an `Access`: what is read, and its index map in the loops around it. `nest.py` turns index maps into index arithmetic.

All values are real: a complex one becomes a pair of them here, the two parts of an element in memory share one index map.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence, Set

from ..dtypes import DType, int64
from ..late import Late
from ..layout import Layout
from ..node import POSITION, Gather, Node, Scalar, Scan, Scatter, stores
from ..ops import OPS, DTypes, Op
from ..ops.complexes.pairs import applied, converted, pair
from ..ops.expr import Expr, apply, call, zero
from ..ops.reductions import Reduction
from .drafted import Access, Accessed, Chosen, Draft, Loops, ReductionLoop
from .ir import Accumulator, Result, ScalarParameter, State
from .reads import along_last, further_shape, has_checked_exponents, inside, loops_of, outermost, whole

split = Late("tenxor.ops.complexes.reductions").split  # with the first reduction
Walked = Generator["Walked", Expr, Expr]  # gives an expression, and is given those of the parts that it yields


def draft(
    root: Node, kernels: Set[Node], ways: Mapping[Node, object] | None = None, beside: Sequence[Node] = ()
) -> Draft:
    """The draft of the kernel that computes `root`, reading what is in memory and the results of other `kernels`; and some of these
    `beside` it. Reductions of which it is known that they would go other ways do not share loops.
    """
    return _Drafter(root, kernels, ways or {}).draft(beside)


def walked(task: Walked) -> Expr:
    """The expression that a task gives. What tasks yield is done in between, without recursion: recipes may be long."""
    tasks: list[Walked] = [task]
    value: Expr | None = None
    while tasks:
        try:
            tasks.append(tasks[-1].send(value))  # type: ignore[arg-type]  # None starts one
            value = None
        except StopIteration as done:
            tasks.pop()
            value = done.value
    assert value is not None
    return value


class _Drafter:
    def __init__(self, root: Node, kernels: Set[Node], ways: Mapping[Node, object]) -> None:
        self.kernels, self.ways = kernels, ways
        self.d = Draft(root)
        self.known: dict[tuple[Node | None, Layout, Loops], Expr] = {}
        self.stored: dict[Node, Layout] = {}  # what is computed beside the root, and where
        self.scalar_of: dict[int, Expr] = {}
        self.reduced: dict[tuple[object, ...], Loops] = {}
        self.accumulator_of: dict[tuple[Reduction, Expr, Loops, Loops], int] = {}
        self.chosen_by: dict[tuple[Expr, int], list[int]] = {}  # the axes, by their index and size

    def draft(self, beside: Sequence[Node]) -> Draft:
        root, d = self.d.root, self.d
        if stores(root.op):
            assert root.target is not None and root.layouts[1] is not None
            d.space = d.new_axes(root.target.shape)
            d.value = converted(walked(self.source(root.sources[1], root.layouts[1], d.space)), root.dtype)
            d.out = Accessed(None, root.target, d.space)
        elif isinstance(root.op, Scatter):
            d.out = self.scattered(root)
        elif isinstance(root.op, Scan):
            layout = root.layouts[0]
            assert layout is not None
            d.space = d.new_axes(layout.shape[:-1])
            (d.scan,) = d.new_axes(layout.shape[-1:])
            loops = (*d.space, d.scan)
            x = walked(self.source(root.sources[0], layout, loops))
            d.value = self.accumulated(root, split(root.op.reduction, x.dtype), x, d.space, (d.scan,), None)
            d.out = Accessed(None, whole(root) if root.target is None else root.target, loops)
        else:
            index_map = loops_of(root)
            d.space = d.new_axes(index_map.shape)
            for node in beside:
                value = self.known[node, index_map, d.space] = walked(self.computed(node, index_map, d.space))
                self.stored[node] = index_map
                d.beside.append((len(d.accessed), value))
                d.accessed.append(Accessed(node, index_map, d.space))
            d.value = walked(self.computed(root, index_map, d.space))
            d.out = Accessed(None, index_map, d.space)
        return d

    def source(self, source: Node | Scalar, index_map: Layout, loops: Loops) -> Walked:
        """The value of what a recipe reads, at the elements that `index_map` says."""
        if type(source) is Scalar:
            value = self.scalar_of.get(id(source))
            if value is None:
                value = self.scalar_of[id(source)] = self.scalar(source)
            return value
        assert type(source) is Node
        there = self.stored.get(source)
        if there is not None:  # in a register: in memory it is not, as yet
            assert there == index_map, "what is computed beside is read where it is stored"
            index_map = there  # numbers that remember what they are made of may be told otherwise
        key = (source, index_map, loops)
        found = self.known.get(key)
        if found is None:
            if source.buffer is not None or source in self.kernels:
                found = self.access(source, index_map, loops, source.dtype)
            else:
                found = yield self.computed(source, index_map, loops)
            self.known[key] = found
        return found

    def scalar(self, scalar: Scalar) -> Expr:
        """A scalar that is given at run time; of a complex one, both parts are."""
        scalars, part = self.d.scalars, scalar.dtype.part
        scalars.append((scalar, False))
        real = ScalarParameter(len(scalars) - 1, part)
        if part is scalar.dtype:
            return real
        scalars.append((scalar, True))
        return pair(real, ScalarParameter(len(scalars) - 1, part))

    def access(self, node: Node | None, index_map: Layout, loops: Loops, dtype: DType) -> Expr:
        self.d.accessed.append(Accessed(node, index_map, loops))
        index, chosen = len(self.d.accessed) - 1, tuple([c for a in loops if (c := self.d.chosen.get(a))])
        if dtype.is_complex:
            return pair(Access(index, dtype.part, chosen, 0), Access(index, dtype.part, chosen, 1))
        return Access(index, dtype, chosen)

    def computed(self, node: Node, index_map: Layout, loops: Loops) -> Walked:
        """The value of a pending node, by its recipe."""
        op = node.op
        if op is POSITION:
            return self.access(None, index_map, loops, node.dtype)
        if isinstance(op, Reduction):
            return (yield self.reduction(node, op, index_map, loops))
        if isinstance(op, Gather):
            return (yield self.gathered(node, index_map, loops))
        assert isinstance(op, Op), f"{op} is no operation to inline"
        args = []
        for source, layout in zip(node.sources, node.layouts, strict=True):
            args.append((yield self.source(source, index_map if layout is None else index_map.over(layout), loops)))
        if op is OPS["cast"]:
            return converted(args[0], node.dtype)
        self.d.names.append(op.name)
        if has_checked_exponents(node):
            args[1] = self.checked_exponent(args[1], loops)
        if op.in_complex or node.dtype.is_complex or any(a.dtype.is_complex for a in args):
            return applied(op, args, node.dtype)
        return apply(op, args)

    def checked_exponent(self, value: Expr, loops: Loops) -> Expr:
        """Return an exponent that sets the kernel's flag if it is negative, as an index out of range does: it is combined with the index 0,
        or where it is negative 1, along an axis of size 1.
        """
        axis = self.axis_chosen_by(converted(call("less", value, zero(value.dtype)), int64), 1, loops)
        return call("bitwise_or", value, converted(self.d.chosen[axis], value.dtype))

    def gathered(self, node: Node, index_map: Layout, loops: Loops) -> Walked:
        d, sizes = self.d, further_shape(node)
        d.names.append(node.op.kind)
        axes: list[int] = []
        for size, source, layout in zip(sizes, node.sources[1:], node.layouts[1:], strict=True):
            assert layout is not None
            value = yield self.source(source, index_map.over(layout), loops)
            axes.append(self.axis_chosen_by(value, size, (*loops, *axes)))
        layout = node.layouts[0]
        assert layout is not None
        return (yield self.source(node.sources[0], inside(index_map, sizes).over(layout), (*loops, *axes)))

    def scattered(self, root: Node) -> Accessed:
        """Where the values of a scatter are written; an index, even one given twice, has an axis of its own."""
        d, target, through = self.d, root.target, root.layouts[1]
        assert target is not None and through is not None
        d.names.append(root.op.kind)
        d.space = d.new_axes(through.shape)
        d.value = converted(walked(self.source(root.sources[1], through, d.space)), root.dtype)
        axes = d.new_axes(target.shape[len(d.space) :])
        for axis, source, layout in zip(axes, root.sources[2:], root.layouts[2:], strict=True):
            assert layout is not None
            d.chosen[axis] = Chosen(axis, walked(self.source(source, layout, d.space)))
        return Accessed(None, target, (*d.space, *axes))

    def axis_chosen_by(self, value: Expr, size: int, taken: Loops) -> int:
        """The axis of this size along which a value is the index. Reads of several nodes share it, so what they have in
        common is known to be the same; but each axis of one read is its own, as are the strides along them.
        """
        alike = self.chosen_by.setdefault((value, size), [])
        for axis in alike:
            if axis not in taken:
                return axis
        (axis,) = self.d.new_axes((size,))
        alike.append(axis)
        self.d.chosen[axis] = Chosen(axis, value)
        return axis

    def reduction(self, node: Node, op: Reduction, index_map: Layout, loops: Loops) -> Walked:
        index_map = outermost(index_map)
        around = loops[: len(index_map.shape)]
        found = self.known.get((node, index_map, around))
        if found is None:
            found = self.known[node, index_map, around] = yield self.reduced_once(node, op, index_map, around)
        return found

    def reduced_once(self, node: Node, op: Reduction, index_map: Layout, around: Loops) -> Walked:
        extents = further_shape(node)
        layout = node.layouts[0]
        assert layout is not None
        # Only those that take their elements alike share loops, so none adds otherwise than it would alone.
        op = split(op, node.sources[0].dtype)
        states = op.states(node.sources[0].dtype)
        alike = (max(d.itemsize for d in states), op.combine is None, op.places, self.ways.get(node))
        axes = self.reduced.get((around, extents, alike))
        if axes is None:
            axes = self.reduced[around, extents, alike] = self.d.new_axes(extents)
        x = yield self.source(node.sources[0], inside(index_map, extents).over(layout), around + axes)
        along = along_last(node.shape, index_map)
        return self.accumulated(node, op, x, around, axes, None if along is None else around[along])

    def accumulated(self, node: Node, op: Reduction, x: Expr, around: Loops, axes: Loops, last: int | None) -> Expr:
        """The value of a node whose reduction, of real states, takes an element over some loops."""
        d = self.d
        d.names.append(op.name)
        states = op.states(x.dtype)
        accumulator = self.accumulator_of.setdefault((op, x, around, axes), len(d.accumulators))
        if accumulator == len(d.accumulators):
            self.start(accumulator, op, x, states, around, axes, last)
        d.reduced.setdefault(accumulator, []).append(node)
        results = tuple(Result(accumulator, part, s) for part, s in enumerate(states))
        return converted(op.finish(results, node.dtype) if op.finish else results[-1], node.dtype)

    def start(
        self, accumulator: int, op: Reduction, x: Expr, states: DTypes, around: Loops, axes: Loops, last: int | None
    ) -> None:
        d = self.d
        d.accumulators.append(Accumulator(op, states))
        state = tuple(State(accumulator, part, s) for part, s in enumerate(states))
        position = self.position(around, axes) if op.places else x
        values = op.step(state, op.lift(x, position, states))
        d.reductions.append(ReductionLoop(around, axes, accumulator, tuple(values), last))

    def position(self, around: Loops, axes: Loops) -> Expr:
        """The row-major number of an element among those reduced."""
        inner = Layout.contiguous(tuple(self.d.extents[a] for a in axes))
        outer = tuple(self.d.extents[a] for a in around)
        layout = Layout(outer + inner.shape, (0,) * len(outer) + inner.strides)
        return self.access(None, layout, around + axes, int64)
