"""The construction of a kernel from a node: `draft` follows recipes down to data in memory, and builds a `Draft`.

Every read becomes an `Access`: the node that is read, and its index map in the loops around the read. `nest.py` turns index maps into index
arithmetic. Values are real: a complex value becomes a pair of them here. The two components of an element in memory share an index map.
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

split = Late("tenxor.ops.complexes.reductions").split  # imported with the first reduction
Walked = Generator["Walked", Expr, Expr]  # a task: yields subtasks, receives the expression of each, and returns an expression


def draft(
    root: Node, kernels: Set[Node], ways: Mapping[Node, object] | None = None, beside: Sequence[Node] = ()
) -> Draft:
    """Return the draft (a kernel under construction) that computes `root` and the nodes in `beside`.

    The kernel reads memory and the results of the nodes in `kernels`. `ways` maps nodes of reductions to a key for the order of their
    loops. Reductions with different keys do not share loops.
    """
    return _Drafter(root, kernels, ways or {}).draft(beside)


def walked(task: Walked) -> Expr:
    """Return the expression that a task returns, after running the subtasks it yields. A stack replaces recursion: recipes may be deep."""
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
    """The state of `draft`: the draft so far, and caches by which equal reads, reductions and index values are shared."""

    def __init__(self, root: Node, kernels: Set[Node], ways: Mapping[Node, object]) -> None:
        self.kernels, self.ways = kernels, ways
        self.d = Draft(root)
        self.known: dict[tuple[Node | None, Layout, Loops], Expr] = {}
        self.stored: dict[Node, Layout] = {}  # the additional results, each with the index map it is stored through
        self.scalar_of: dict[int, Expr] = {}
        self.reduced: dict[tuple[object, ...], Loops] = {}
        self.accumulator_of: dict[tuple[Reduction, Expr, Loops, Loops], int] = {}
        self.chosen_by: dict[tuple[Expr, int], list[int]] = {}  # the indexed axes, by their index value and size

    def draft(self, beside: Sequence[Node]) -> Draft:
        """Fill and return the draft. The nodes in `beside` are computed in the loops of the root, and stored too."""
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
        """Return the value of an operand of a recipe, at the elements that `index_map` selects inside `loops`, as a task for `walked`."""
        if type(source) is Scalar:
            value = self.scalar_of.get(id(source))
            if value is None:
                value = self.scalar_of[id(source)] = self.scalar(source)
            return value
        assert type(source) is Node
        there = self.stored.get(source)
        if there is not None:  # its value is in a register, and memory may not have it yet
            assert there == index_map, "what is computed beside is read where it is stored"
            index_map = there  # equal symbolic sizes may be made of different expressions: use those of the store
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
        """Return a new scalar parameter for a scalar, given at run time; for a complex scalar, a pair of two parameters."""
        scalars, part = self.d.scalars, scalar.dtype.part
        scalars.append((scalar, False))
        real = ScalarParameter(len(scalars) - 1, part)
        if part is scalar.dtype:
            return real
        scalars.append((scalar, True))
        return pair(real, ScalarParameter(len(scalars) - 1, part))

    def access(self, node: Node | None, index_map: Layout, loops: Loops, dtype: DType) -> Expr:
        """Add a read of `node` through `index_map` to the draft, and return its expression; the position itself if `node` is None."""
        self.d.accessed.append(Accessed(node, index_map, loops))
        index, chosen = len(self.d.accessed) - 1, tuple([c for a in loops if (c := self.d.chosen.get(a))])
        if dtype.is_complex:
            return pair(Access(index, dtype.part, chosen, 0), Access(index, dtype.part, chosen, 1))
        return Access(index, dtype, chosen)

    def computed(self, node: Node, index_map: Layout, loops: Loops) -> Walked:
        """Return the value of a pending node at the elements that `index_map` selects, by inlining its recipe, as a task for `walked`."""
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
        """Return the integer exponent `value`, combined with a check: the kernel's flag is set if the exponent is negative.

        The check is an index along an axis of size 1: 1 for a negative exponent, so out of range, and 0 otherwise. The bitwise "or" with 0
        leaves the exponent unchanged.
        """
        axis = self.axis_chosen_by(converted(call("less", value, zero(value.dtype)), int64), 1, loops)
        return call("bitwise_or", value, converted(self.d.chosen[axis], value.dtype))

    def gathered(self, node: Node, index_map: Layout, loops: Loops) -> Walked:
        """Return the value of a gather, a read at computed indices, inside `loops`, as a task for `walked`."""
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
        """Build the value and the indices of a scatter, and return the access of its write.

        Each index has its own axis, even an index given twice.
        """
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
        """Return an indexed axis of this size, along which `value` is the index. No loop runs over an indexed axis.

        Reads of several nodes share the axis of one value, so common index arithmetic is recognized as equal. The axes in `taken` are not
        reused, because each axis of a single read has its own stride.
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
        """Return the value of a reduction, computed in the outermost loops that its index map depends on, as a task for `walked`."""
        index_map = outermost(index_map)
        around = loops[: len(index_map.shape)]
        found = self.known.get((node, index_map, around))
        if found is None:
            found = self.known[node, index_map, around] = yield self.reduced_once(node, op, index_map, around)
        return found

    def reduced_once(self, node: Node, op: Reduction, index_map: Layout, around: Loops) -> Walked:
        """Return the value of a reduction inside the loops `around`, as a task for `walked`.

        Reductions of equal extents share loops if they run alike.
        """
        extents = further_shape(node)
        layout = node.layouts[0]
        assert layout is not None
        # Only reductions that take their elements in the same way share loops, so each adds in the same order as it would alone.
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
        """Return the value of `node`, whose reduction takes the element `x` in loops over `axes` inside `around`; `op` has real states.

        `last` is the loop of `around` along the last axis of the reduction's result, or None.
        """
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
        """Add an accumulator and a reduction loop for a reduction of `x` to the draft."""
        d = self.d
        d.accumulators.append(Accumulator(op, states))
        state = tuple(State(accumulator, part, s) for part, s in enumerate(states))
        position = self.position(around, axes) if op.places else x
        values = op.step(state, op.lift(x, position, states))
        d.reductions.append(ReductionLoop(around, axes, accumulator, tuple(values), last))

    def position(self, around: Loops, axes: Loops) -> Expr:
        """Return the row-major flat index of an element among the elements reduced."""
        inner = Layout.contiguous(tuple(self.d.extents[a] for a in axes))
        outer = tuple(self.d.extents[a] for a in around)
        layout = Layout(outer + inner.shape, (0,) * len(outer) + inner.strides)
        return self.access(None, layout, around + axes, int64)
