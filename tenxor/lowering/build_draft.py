"""The construction of a kernel from a node: `build_draft` follows recipes down to data in memory, and builds a `KernelDraft`. An index map
is a layout over the loops around a read; its values are flat indices, the element of the node that each iteration needs.

Every read becomes an `Access`: the node that is read, and its index map in the loops around the read. `loop_nest.py` turns index maps into
index arithmetic. Values are real: a complex value becomes a pair of them here. The two components of an element in memory share an index
map.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence, Set

from .._utils.lazy import LazyFunctions
from ..dtypes import DType, int64
from ..graph.node import POSITION, Gather, Node, Scalar, Scan, Scatter, is_store
from ..layout import Layout
from ..ops import OPS, DTypes, Op
from ..ops.complex.split_formulas import apply_op, convert, make_pair
from ..ops.expr import Expr, apply, call, zero
from ..ops.reductions import Reduction
from .access_strides import Loops, ReductionOrder
from .index_maps import (
    add_inner_axes,
    get_inner_shape,
    get_root_index_map,
    has_checked_exponents,
    hoist_index_map,
    make_identity_map,
)
from .ir import Accumulator, Result, ScalarParameter, State
from .kernel_draft import Access, DraftAccess, DraftIndex, KernelDraft, ReductionLoop
from .reduction_order import find_reduction_order

split_complex_states = LazyFunctions("tenxor.ops.complex.component_reductions").split_complex_states  # imported with the first reduction
Task = Generator["Task", Expr, Expr]  # a task: yields subtasks, receives the expression of each, and returns an expression


def build_draft(root: Node, kernels: Set[Node], extra_outputs: Sequence[Node] = ()) -> KernelDraft:
    """Return the draft (a kernel under construction) that computes `root` and the nodes in `extra_outputs`.

    The kernel reads memory and the results of the nodes in `kernels`; all other nodes below `root` are inlined. The nodes in
    `extra_outputs` have the shape of `root`, each after the nodes that it reads. They are ignored if `root` is a store, a scatter or a
    scan.
    """
    return _DraftBuilder(root, kernels).build(extra_outputs)


def run_task(task: Task) -> Expr:
    """Return the expression that `task` returns, after running the subtasks yielded on the way.

    A stack replaces recursion, because recipes may be deep.
    """
    tasks: list[Task] = [task]
    value: Expr | None = None
    while tasks:
        try:
            tasks.append(tasks[-1].send(value))  # type: ignore[arg-type]  # None starts one
            value = None
        except StopIteration as stop:
            tasks.pop()
            value = stop.value
    assert value is not None
    return value


class _DraftBuilder:
    """The state of `build_draft`: the draft `d` so far, and caches for sharing equal reads, reductions and index values.

    Separate kernels compute the nodes in `kernels`, so this kernel reads their results from memory. In the methods, `loops` are the draft
    axes of the loops around a value, outermost first. `index_map` is a layout over the extents of `loops`, and selects the element needed
    in each iteration. A value is the expression (`Expr`) of an element. A task is a generator: the task yields further tasks, and returns a
    value at the end. `run_task` runs a task.
    """

    def __init__(self, root: Node, kernels: Set[Node]) -> None:
        self.kernels = kernels
        self.d = KernelDraft(root)
        self.values: dict[tuple[Node | None, Layout, Loops], Expr] = {}
        self.stored_maps: dict[Node, Layout] = {}  # the additional results, each with the index map it is stored through
        self.scalar_values: dict[int, Expr] = {}
        self.reduction_axes: dict[tuple[object, ...], Loops] = {}
        self.accumulator_of: dict[tuple[Reduction, Expr, Loops, Loops], int] = {}
        self.index_axes: dict[tuple[Expr, int], list[int]] = {}  # the indexed axes, by their index value and size

    def build(self, extra_outputs: Sequence[Node]) -> KernelDraft:
        """Fill the draft `d`, and return it. The nodes in `extra_outputs` are computed in the loops of the root, and stored too. Call this
        once.
        """
        root, d = self.d.root, self.d
        if is_store(root.op):
            assert root.target is not None
            d.space = d.add_axes(root.target.shape)
            d.value = convert(run_task(self.read_source(root.sources[1], root.layouts[1] or root.target, d.space)), root.dtype)
            d.output = DraftAccess(None, root.target, d.space)
        elif isinstance(root.op, Scatter):
            d.output = self.build_scatter(root)
        elif isinstance(root.op, Scan):
            layout = root.layouts[0]
            assert layout is not None
            d.space = d.add_axes(layout.shape[:-1])
            (d.scan_axis,) = d.add_axes(layout.shape[-1:])
            loops = (*d.space, d.scan_axis)
            x = run_task(self.read_source(root.sources[0], layout, loops))
            d.value = self.accumulate(root, split_complex_states(root.op.reduction, x.dtype), x, d.space, (d.scan_axis,), None)
            d.output = DraftAccess(None, make_identity_map(root) if root.target is None else root.target, loops)
        else:
            index_map = get_root_index_map(root)
            d.space = d.add_axes(index_map.shape)
            for node in extra_outputs:
                value = self.values[node, index_map, d.space] = run_task(self.inline_node(node, index_map, d.space))
                self.stored_maps[node] = index_map
                d.extra_outputs.append((len(d.accesses), value))
                d.accesses.append(DraftAccess(node, index_map, d.space))
            d.value = run_task(self.inline_node(root, index_map, d.space))
            d.output = DraftAccess(None, index_map, d.space)
        return d

    def read_source(self, source: Node | Scalar, index_map: Layout, loops: Loops) -> Task:
        """Return the value of `source`, an operand of a recipe, at the elements that `index_map` selects inside `loops`, as a task.

        `run_task` runs the task. A scalar has the same value for every element. A node in memory or in `kernels` becomes an access, and
        another node is inlined. Equal reads in equal loops share a value.
        """
        if type(source) is Scalar:
            value = self.scalar_values.get(id(source))
            if value is None:
                value = self.scalar_values[id(source)] = self.add_scalar(source)
            return value
        assert type(source) is Node
        stored_map = self.stored_maps.get(source)
        if stored_map is not None:  # the value is in a register, and maybe not yet in memory
            assert stored_map == index_map, "an additional result is read through the index map by which it is stored"
            index_map = stored_map  # equal symbolic sizes may be made of different expressions: use those of the store
        key = (source, index_map, loops)
        operand = self.values.get(key)
        if operand is None:
            if source.buffer is not None or source in self.kernels:
                operand = self.add_access(source, index_map, loops, source.dtype)
            else:
                operand = yield self.inline_node(source, index_map, loops)
            self.values[key] = operand
        return operand

    def add_scalar(self, scalar: Scalar) -> Expr:
        """Return a new scalar parameter for `scalar`, which is given at run time. For a complex scalar, return a pair of two parameters."""
        scalars, component_dtype = self.d.scalars, scalar.dtype.part
        scalars.append((scalar, False))
        real = ScalarParameter(len(scalars) - 1, component_dtype)
        if component_dtype is scalar.dtype:
            return real
        scalars.append((scalar, True))
        return make_pair(real, ScalarParameter(len(scalars) - 1, component_dtype))

    def add_access(self, node: Node | None, index_map: Layout, loops: Loops, dtype: DType) -> Expr:
        """Add a read of `node`, at the elements that `index_map` selects inside `loops`, to the draft. Return the expression of the read.

        For a complex `dtype`, the expression is a pair of reads. If `node` is None, the value of the read is the flat index that
        `index_map` gives.
        """
        self.d.accesses.append(DraftAccess(node, index_map, loops))
        index, chosen = len(self.d.accesses) - 1, tuple([c for a in loops if (c := self.d.indices.get(a))])
        if dtype.is_complex:
            return make_pair(Access(index, dtype.part, chosen, 0), Access(index, dtype.part, chosen, 1))
        return Access(index, dtype, chosen)

    def inline_node(self, node: Node, index_map: Layout, loops: Loops) -> Task:
        """Return the value of a pending node at the elements selected by `index_map` inside `loops`, as a task for `run_task`.

        The recipe of the node becomes a part of this kernel, down to data in memory and to the results of separate kernels. The node must
        be elementwise, a reduction, a gather or `POSITION`; another operation raises AssertionError.
        """
        op = node.op
        if op is POSITION:
            return self.add_access(None, index_map, loops, node.dtype)
        if isinstance(op, Reduction):
            return (yield self.get_reduction(node, op, index_map, loops))
        if isinstance(op, Gather):
            return (yield self.inline_gather(node, index_map, loops))
        assert isinstance(op, Op), f"{op} is no operation to inline"
        args = []
        for source, layout in zip(node.sources, node.layouts, strict=True):
            args.append((yield self.read_source(source, index_map if layout is None else index_map.over(layout), loops)))
        if op is OPS["cast"]:
            return convert(args[0], node.dtype)
        self.d.op_names.append(op.name)
        if has_checked_exponents(node):
            args[1] = self.check_exponent(args[1], loops)
        if op.uses_complex or node.dtype.is_complex or any(a.dtype.is_complex for a in args):
            return apply_op(op, args, node.dtype)
        return apply(op, args)

    def check_exponent(self, value: Expr, loops: Loops) -> Expr:
        """Return the integer exponent `value`, combined with a check: the kernel's flag is set if the exponent is negative.

        `loops` are the loops around the value. The check is an index along an axis of size 1: 1 for a negative exponent, so out of range,
        and 0 otherwise. The bitwise "or" with 0 leaves the exponent unchanged.
        """
        axis = self.get_index_axis(convert(call("less", value, zero(value.dtype)), int64), 1, loops)
        return call("bitwise_or", value, convert(self.d.indices[axis], value.dtype))

    def inline_gather(self, node: Node, index_map: Layout, loops: Loops) -> Task:
        """Return the value of a gather, a read at computed indices, as a task for `run_task`.

        `index_map` selects the results of the gather `node` inside `loops`.
        """
        d, sizes = self.d, get_inner_shape(node)
        d.op_names.append(node.op.kind)
        axes: list[int] = []
        for size, source, layout in zip(sizes, node.sources[1:], node.layouts[1:], strict=True):
            assert layout is not None
            value = yield self.read_source(source, index_map.over(layout), loops)
            axes.append(self.get_index_axis(value, size, (*loops, *axes)))
        layout = node.layouts[0]
        assert layout is not None
        return (yield self.read_source(node.sources[0], add_inner_axes(index_map, sizes).over(layout), (*loops, *axes)))

    def build_scatter(self, root: Node) -> DraftAccess:
        """Put the value and the indices of the scatter `root` into the draft, and return the access of its write, for the draft's `output`.

        The draft gets the `space`, the `value` and the `indices` of the scatter. Each index has its own axis, even an index given twice.
        """
        d, target, value_layout = self.d, root.target, root.layouts[1]
        assert target is not None and value_layout is not None
        d.op_names.append(root.op.kind)
        d.space = d.add_axes(value_layout.shape)
        d.value = convert(run_task(self.read_source(root.sources[1], value_layout, d.space)), root.dtype)
        axes = d.add_axes(target.shape[len(d.space) :])
        for axis, source, layout in zip(axes, root.sources[2:], root.layouts[2:], strict=True):
            assert layout is not None
            d.indices[axis] = DraftIndex(axis, run_task(self.read_source(source, layout, d.space)))
        return DraftAccess(None, target, (*d.space, *axes))

    def get_index_axis(self, value: Expr, size: int, excluded: Loops) -> int:
        """Return an indexed axis with `size` indices, along which `value` is the index. No loop runs over an indexed axis.

        Reads of several nodes share the axis of one value, so common index arithmetic is recognized as equal. The axes in `excluded` are
        not reused, because each axis of a single read has its own stride. Without a suitable axis, the draft gets a new one.
        """
        shared_axes = self.index_axes.setdefault((value, size), [])
        for axis in shared_axes:
            if axis not in excluded:
                return axis
        (axis,) = self.d.add_axes((size,))
        shared_axes.append(axis)
        self.d.indices[axis] = DraftIndex(axis, value)
        return axis

    def get_reduction(self, node: Node, op: Reduction, index_map: Layout, loops: Loops) -> Task:
        """Return the value of the reduction `node` at the results that `index_map` selects inside `loops`, as a task for `run_task`.

        `op` is the operation of `node`. The reduction runs outside of the inner loops on which `index_map` does not depend. An equal
        reduction built before is shared.
        """
        index_map = hoist_index_map(index_map)
        outer_loops = loops[: len(index_map.shape)]
        value = self.values.get((node, index_map, outer_loops))
        if value is None:
            value = self.values[node, index_map, outer_loops] = yield self.build_reduction(node, op, index_map, outer_loops)
        return value

    def build_reduction(self, node: Node, op: Reduction, index_map: Layout, outer_loops: Loops) -> Task:
        """Build the reduction `node` inside `outer_loops`, and return the value of its result, as a task for `run_task`.

        `op` is the operation of `node`, and `index_map` selects the results. Reductions of equal extents share loops if they take elements
        in the same order, with states of equal width.
        """
        extents, order = get_inner_shape(node), find_reduction_order(node)
        layout = node.layouts[0]
        assert layout is not None
        # Only reductions that take their elements in the same way share loops, so each adds in the same order as it would alone.
        op = split_complex_states(op, node.sources[0].dtype)
        states = op.state_dtypes(node.sources[0].dtype)
        sharing_key = (max(d.itemsize for d in states), op.combine is None, op.uses_position, order)
        axes = self.reduction_axes.get((outer_loops, extents, sharing_key))
        if axes is None:
            axes = self.reduction_axes[outer_loops, extents, sharing_key] = self.d.add_axes(extents)
        x = yield self.read_source(node.sources[0], add_inner_axes(index_map, extents).over(layout), outer_loops + axes)
        return self.accumulate(node, op, x, outer_loops, axes, order)

    def accumulate(self, node: Node, op: Reduction, x: Expr, outer_loops: Loops, axes: Loops, order: ReductionOrder | None) -> Expr:
        """Return the expression of the result of the reduction or scan `node`, which takes element `x` in loops over `axes` inside
        `outer_loops`.

        `op` is the operation of `node`, with complex states split into pairs of real states. `x` is the expression of an element. `order`
        is the order of the reduction, or None for a scan. An accumulator is added to the draft, or shared with an equal reduction built
        before.
        """
        d = self.d
        d.op_names.append(op.name)
        states = op.state_dtypes(x.dtype)
        accumulator = self.accumulator_of.setdefault((op, x, outer_loops, axes), len(d.accumulators))
        if accumulator == len(d.accumulators):
            self.start_reduction(accumulator, op, x, states, outer_loops, axes)
            if order is not None:
                d.orders[accumulator] = order
        d.reduction_nodes.setdefault(accumulator, []).append(node)
        results = tuple(Result(accumulator, component, s) for component, s in enumerate(states))
        return convert(op.finish(results, node.dtype) if op.finish else results[-1], node.dtype)

    def start_reduction(self, accumulator: int, op: Reduction, x: Expr, states: DTypes, outer_loops: Loops, axes: Loops) -> None:
        """Add accumulator number `accumulator`, and the loop of its reduction, to the draft.

        The reduction `op` takes element `x` in loops over `axes` inside `outer_loops`. `states` are the dtypes of the components of a
        state.
        """
        d = self.d
        d.accumulators.append(Accumulator(op, states))
        state = tuple(State(accumulator, component, s) for component, s in enumerate(states))
        position = self.add_position(outer_loops, axes) if op.uses_position else x
        values = op.add_element(state, op.lift(x, position, states))
        d.reductions.append(ReductionLoop(outer_loops, axes, accumulator, tuple(values)))

    def add_position(self, outer_loops: Loops, axes: Loops) -> Expr:
        """Return an expression for the row-major number of the present element in loops over `axes`, for reductions such as argmax.

        The loops over `axes` run inside `outer_loops`, and the number starts at 0 in each of their iterations. The draft gets an access
        without a node, with the number as the value.
        """
        inner = Layout.contiguous(tuple(self.d.extents[a] for a in axes))
        outer = tuple(self.d.extents[a] for a in outer_loops)
        layout = Layout(outer + inner.shape, (0,) * len(outer) + inner.strides)
        return self.add_access(None, layout, outer_loops + axes, int64)
