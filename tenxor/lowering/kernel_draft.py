"""The data structures of a draft, a kernel under construction: loops, expressions and accesses. A draft holds layouts with concrete
numbers. An access is a read or write of a node's elements through an index map. An index map is a layout over the surrounding loops; its
values are flat indices of the node. An accumulator is a reduction in progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .._utils.records import NamedTuple
from ..dtypes import DType, int64
from ..graph.node import Node, Scalar
from ..layout import Layout
from ..ops.expr import Expr, walk, walk_unvisited
from .access_strides import Loops, ReductionOrder
from .ir import Accumulator, Result


class DraftIndex(Expr):
    """The index along `axis` of the draft as an expression. The operand is the value that gives the index; a negative value counts from the
    end.

    No loop runs over such an axis (an indexed axis).
    """

    __slots__ = ("_args", "axis")

    def __init__(self, axis: int, value: Expr) -> None:
        self.axis, self._args = axis, (value,)
        self._set(int64, axis, value)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return DraftIndex(self.axis, args[0])


class Access(Expr):
    """A read in an expression: the element that access number `index` of the draft or nest reads in the present iteration.

    The operands `indices` are the index values for the indexed axes of the index map. For complex elements, the access gives the real
    component (`component` 0) or the imaginary one (1). Otherwise `component` is None.
    """

    __slots__ = ("_args", "index", "component")

    def __init__(self, index: int, dtype: DType, indices: tuple[Expr, ...], component: int | None = None) -> None:
        self.index, self._args, self.component = index, indices, component
        self._set(dtype, index, component, *indices)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return Access(self.index, self.dtype, args, self.component)


def list_accesses(values: Iterable[Expr]) -> list[Access]:
    """Return the accesses in the expressions `values`, each once, including accesses that compute indices; operands come first."""
    return [e for e in walk(*values) if isinstance(e, Access)]


class DraftAccess(NamedTuple):
    """A read or write in a draft: a node, and an index map over the extents of `loops`. The last of `loops` may be indexed axes.

    `loops` are axes of the draft. If `node` is None, a read gives the flat index itself, as an integer, and a write stores the result of
    the root. A write of a further result names its node.
    """

    node: Node | None
    index_map: Layout
    loops: Loops


class ReductionLoop(NamedTuple):
    """The loops of a reduction, in a draft or a nest: loops over `axes` inside `outer_loops`.

    `values` is the next state of accumulator number `accumulator`: one expression per component, in terms of the `State`s before.
    """

    outer_loops: Loops
    axes: Loops
    accumulator: int
    values: tuple[Expr, ...]


def collect_dependences(reductions: Iterable[ReductionLoop], list_own: Callable[[Expr], Iterable[int]]) -> dict[Expr, frozenset[int]]:
    """Map each expression in the values of `reductions` to the numbers of this expression and of every dependence: the union of
    `list_own(e)`.

    `list_own(e)` returns the numbers of a single expression `e`, by the caller's choice: for example the axes of an access. An expression
    depends on the operands, and a `Result` on the values of the reduction. A reduction must come after the reductions whose results it
    reads.
    """
    dependences: dict[Expr, frozenset[int]] = {}
    result_dependences: dict[int, frozenset[int]] = {}  # by accumulator
    for f in reductions:
        for value in f.values:
            for e in walk_unvisited(value, dependences):
                inherited = [result_dependences.get(e.accumulator, frozenset())] if isinstance(e, Result) else []
                dependences[e] = frozenset(list_own(e)).union(*[dependences[a] for a in e.args], *inherited)
        value_dependences = [result_dependences.get(f.accumulator, frozenset()), *[dependences[value] for value in f.values]]
        result_dependences[f.accumulator] = frozenset().union(*value_dependences)
    return dependences


class KernelDraft:
    """A kernel under construction, before its layouts become index arithmetic. `build_draft` fills the fields.

    Axes, accesses and accumulators are numbered by their position in `extents`, `accesses` and `accumulators`. The reductions are in an
    order in which each comes after the reductions whose results it reads. `value` is the expression of the result, and `output` its write.
    """

    def __init__(self, root: Node) -> None:
        self.root = root
        self.extents: list[int] = []  # per axis
        self.space: Loops = ()  # the independent loops of the result
        self.scan_axis: int | None = None  # the axis of a running reduction, inside `space`
        self.accesses: list[DraftAccess] = []  # by access number
        self.scalars: list[tuple[Scalar, bool]] = []  # each with True for the imaginary component
        self.accumulators: list[Accumulator] = []
        self.reductions: list[ReductionLoop] = []
        self.orders: dict[int, ReductionOrder] = {}  # the order of each reduction, by accumulator
        self.reduction_nodes: dict[int, list[Node]] = {}  # the nodes that each accumulator computes
        self.indices: dict[int, DraftIndex] = {}  # the indexed axes, with the value of the index
        self.op_names: list[str] = []  # the names of the operations, innermost first
        self.value: Expr | None = None
        self.output: DraftAccess | None = None  # the write of the result
        self.extra_outputs: list[tuple[int, Expr]] = []  # additional results: the access number of the write, and the value

    def add_axes(self, shape: tuple[int, ...]) -> Loops:
        """Add an axis for each extent in `shape` to the draft, and return the numbers of the new axes."""
        first_axis = len(self.extents)
        self.extents.extend(shape)
        return tuple(range(first_axis, len(self.extents)))
