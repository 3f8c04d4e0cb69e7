"""What a kernel consists of while it is being put together: loops, expressions and accesses, with their layouts still in numbers."""

from __future__ import annotations

from collections.abc import Iterable

from ..dtypes import DType, int64
from ..layout import Layout
from ..node import Node, Scalar
from ..ops.expr import Expr, walk
from ..records import NamedTuple
from .ir import Accumulator

Loops = tuple[int, ...]  # the axes around something, outermost first


class Chosen(Expr):
    """The index along `axis` of the draft, through which no loop runs, from a value that may count from the end."""

    __slots__ = ("_args", "axis")

    def __init__(self, axis: int, value: Expr) -> None:
        self.axis, self._args = axis, (value,)
        self._set(int64, axis, value)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return Chosen(self.axis, args[0])


class Access(Expr):
    """What reads access number `index` of the draft, whose index map has the `chosen` axes behind its loops.

    Of complex elements it reads one part, the real (`part` 0) or the imaginary one (1).
    """

    __slots__ = ("_args", "index", "part")

    def __init__(self, index: int, dtype: DType, chosen: tuple[Expr, ...], part: int | None = None) -> None:
        self.index, self._args, self.part = index, chosen, part
        self._set(dtype, index, part, *chosen)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return Access(self.index, self.dtype, args, self.part)


def accesses(values: Iterable[Expr]) -> list[Access]:
    """What some values read, also to say where something else is read; each once."""
    return [e for e in dict.fromkeys(e for v in values for e in walk(v)) if isinstance(e, Access)]


class Accessed(NamedTuple):
    """What an access reads (None: its own position, as a number) and where: `index_map` is over the extents of `loops`, the last
    of which may be chosen axes.
    """

    node: Node | None
    index_map: Layout
    loops: Loops


class ReductionLoop(NamedTuple):
    """The loops of a reduction, in a draft or in a nest: its `axes` run inside `around`, and `values` is its next state.

    In a draft, `last` is the loop around it that runs along the last axis of the reduction's own result, if there is one.
    """

    around: Loops
    axes: Loops
    accumulator: int
    values: tuple[Expr, ...]
    last: int | None = None


class Draft:
    """All of a kernel before its layouts become index arithmetic."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.extents: list[int] = []  # per axis
        self.space: Loops = ()  # the independent loops of the result
        self.scan: int | None = None  # the axis that a running reduction walks, inside `space`
        self.accessed: list[Accessed] = []  # by the number of the access
        self.scalars: list[tuple[Scalar, bool]] = []  # and whether the imaginary part is meant
        self.accumulators: list[Accumulator] = []
        self.reductions: list[ReductionLoop] = []
        self.reduced: dict[int, list[Node]] = {}  # by accumulator, the nodes whose value it has
        self.chosen: dict[int, Chosen] = {}  # the axes along which values say the index
        self.names: list[str] = []  # of the operations, innermost first
        self.value: Expr | None = None
        self.out: Accessed | None = None  # what is written
        self.beside: list[tuple[int, Expr]] = []  # what is stored besides: where, as the number of an access, and the values

    def new_axes(self, shape: tuple[int, ...]) -> Loops:
        """New loops of the given extents."""
        first = len(self.extents)
        self.extents.extend(shape)
        return tuple(range(first, len(self.extents)))
