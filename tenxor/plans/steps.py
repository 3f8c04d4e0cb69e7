"""Plans as they run: steps that take buffers and numbers, and give buffers.

A plan sees neither nodes nor recipes. It is given `cells`, some of which hold memory, and fills others. What pending nodes
it is the plan of, and who else can read them, is known to whoever runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any

from ..backend import backend
from ..backend.interface import Given
from ..dtypes import DType
from ..errors import MetOutOfRange
from ..layout import Table
from ..layout.portions import portions
from ..memory import Buffer
from ..node import UNFINISHED, Node, recipe_of
from ..ownership import NOBODY, sole
from ..records import NamedTuple
from ..target import Target

if TYPE_CHECKING:
    from typing import Protocol

    class Holder(Protocol):
        """What a plan fills, or reads: a node, or a cell."""

        buffer: Buffer | None

        def settle(self, buffer: Buffer) -> None: ...

    class Filling(Protocol):
        """What computes the elements of a cell: a kernel, or several. See `backend.interface.Launch` for how it runs."""

        @property
        def needs(self) -> Sequence[int]:
            """The numbers of the cells that it reads."""
            ...

        @property
        def tables(self) -> Sequence[Table]:
            """Those that gathered axes have in memory."""
            ...

        @property
        def flagged(self) -> bool:
            """Whether it looks up indices, which may be out of range."""
            ...

        @property
        def work(self) -> int:
            """In additions, about."""
            ...

        def in_words(self, of_plan: Callable[[Plan], Any]) -> tuple[Any, ...] | None:
            """All of it, for other processes (`kept.py`); None if it is of this one alone."""
            ...

        @property
        def run(self) -> Callable[..., bool]: ...


allocate = backend().allocate

_PORTION = 1 << 24  # bytes that are copied in one go


class Cell:
    """A place for a buffer: what a node is for a plan, which has cells of its own for what it needs on the way."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer | None = None) -> None:
        self.buffer = buffer

    def settle(self, buffer: Buffer) -> None:
        """It holds this from now on."""
        self.buffer = buffer


DONE = Cell(allocate(0))  # stands in the list of cells for one that is not needed any more


class Once:
    """Fills a cell over memory that is read for it. If that takes long, and is broken off, the cell is what the rest makes of it."""

    __slots__ = ("cell", "go_on", "out")

    def __init__(self, cell: Holder, out: Buffer) -> None:
        self.cell, self.out = cell, out
        self.go_on: Callable[[], object] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the cell has memory, as what a signal calls was first."""
        return self.cell.buffer is not None

    @property
    def done(self) -> Callable[[], object]:
        """Gives the cell its memory."""
        return partial(setattr, self.cell, "buffer", self.out)

    def begun(self, rest: Callable[[], object]) -> bool:
        """See `backend.interface.Once`. What is a plan's own cell nobody asks for again."""
        self.go_on, cell = rest, self.cell
        if not isinstance(cell, Node):
            return True
        self.cell = DONE  # as the node has this for a source
        recipe, sources = recipe_of(UNFINISHED, cell.shape, cell.dtype), (self,)
        if cell.buffer is None and cell.recipe.op is not UNFINISHED:
            cell.recipe, cell.sources, cell.offsets, cell._layouts = recipe, sources, (), None  # type: ignore[assignment]
            return True
        if cell.buffer is None:
            go_on(cell)
        return False

    def finish(self, node: Node) -> None:
        """Do what is left, of which the node is made."""
        assert self.go_on is not None
        self.go_on()
        node.settle(self.out)


def go_on(node: Node) -> None:
    """Go on with what was broken off, or put off, to its end: the first of what it reads knows how."""
    begun: Any = node.sources[0]
    begun.finish(node)


class Short(NamedTuple):
    """How machine code runs steps of a plan (`shortcut/code/running.py`), and for each where a run of such steps ends that begins with
    it; 0 if it is none. `writes` are those that write over a cell, and the cells by which others might read it; `offers` the cells, in
    memory before, whose memory some take if nobody else has it, with the same.
    """

    frame: bytes
    ends: list[int]
    writes: list[tuple[int, frozenset[int]]]
    offers: list[tuple[int, frozenset[int]]]


Run = Callable[[bytes, list[Any], list[int], list[Any], int, int], int]
# What runs steps of a plan from one on and up to another: the number of the first that it did not run. And what says how.
short_runs: list[tuple[Run, Callable[[Plan], Short]]] = []


class Plan:
    """Steps in their order, planned for a target. They fill cells; `more` of these are the plan's own, after those that are given.

    It lets go of cells that are `inlined`, or not computed at all. Whoever runs it for nodes asks before who else can read the
    `watched` ones, which recipes refer to `reads` times each. Those that are `costly` are inlined ones that are better
    stored the next time if others can read them, and so may ask for them again; and of these the `dear` ones at once, as to store
    them takes little beside making them.
    """

    __slots__ = ("costly", "dear", "inlined", "more", "reads", "short", "steps", "target", "watched")

    def __init__(
        self,
        target: Target,
        steps: list[Step],
        inlined: list[int],
        costly: list[int],
        dear: list[int],
        watched: list[int],
        reads: list[int],
        more: int,
    ) -> None:
        self.target, self.more = target, more
        self.steps, self.inlined, self.costly, self.dear = steps, inlined, costly, dear
        self.watched, self.reads = watched, reads
        self.short: Short | None = None

    @property
    def table_bytes(self) -> int:
        """The memory that its gathered axes take."""
        return sum(t.offsets.nbytes for step in self.steps if step.filling is not None for t in step.filling.tables)

    def with_steps(self, steps: list[Step]) -> Plan:
        """The same plan with other steps, in which the same cells are filled."""
        return Plan(self.target, steps, self.inlined, self.costly, self.dear, self.watched, self.reads, self.more)

    def run(self, given: Given, others: Set[int] = NOBODY) -> None:
        """Fill the cells that steps fill. Others can read those of the watched ones that have the numbers `others`."""
        for k in self.inlined:
            given.nodes[k] = DONE  # what it reads may have no other reader
        if self.more:
            given.nodes += [Cell() for _ in range(self.more)]
        for run, short_of in short_runs if len(self.steps) > 1 else ():
            if self.short is None:
                self.short = short_of(self)
            self._run_shortly(run, self.short, given, others)
            return
        for step in self.steps:
            step.run(given, others)

    def _run_shortly(self, run: Run, short: Short, given: Given, others: Set[int]) -> None:
        """The same, some of them by machine code."""
        frame, ends, writes, offers = short
        kept = [given.nodes[k].buffer for k, readers in offers if not readers.isdisjoint(others)] if others else []
        stops = iter([k for k, readers in writes if not readers.isdisjoint(others)] if others else [])
        stop, number = next(stops, len(ends)), 0
        while number < len(ends):
            begin, end = number, min(ends[number], stop)
            if begin < end:
                number = run(frame, given.nodes, given.offsets, given.scalars, begin, end)
            if begin >= end or number < end:  # it did not begin, or broke off
                self.steps[number].run(given, others)
                number += 1
            while stop < number:
                stop = next(stops, len(ends))
        del kept  # till now what others can read had this for another owner


class Step:
    """Gives cell `number` its memory, of `nbytes` bytes, and fills it, unless it has no content (`filling` is None).

    A write goes over cell `over`; the bytes of cell `bytes_of` are taken as they are. The first of `donors` that nobody else
    can read, neither the cell nor one of those beside it, donates its memory to the result. The step needs the memory of the
    cells `needs`, and no later step that of the cells `last`. What is `irrevocable` cannot be done twice; if it `is_long`, too, it runs
    in parts, unless others may write meanwhile what it reads. An error says `name`, `shape` and `dtype`; cell `whole` is what the user
    asked for of which this is a part, or it itself.

    With `beside` it computes other cells, too: of each, a cell of the plan's own, by which the kernel finds the memory, and its number.
    Then the donors are for all of these, one for each; and only machine code takes their memory, in which nothing comes between the first
    element that is written and the last cell that is settled.
    """

    __slots__ = (
        "beside",
        "bytes_of",
        "donors",
        "dtype",
        "filling",
        "irrevocable",
        "is_long",
        "last",
        "may_take",
        "name",
        "nbytes",
        "needs",
        "number",
        "over",
        "shape",
        "whole",
    )

    def __init__(self, number: int, shape: tuple[int, ...], dtype: DType, nbytes: int, name: object, whole: int) -> None:
        self.number, self.shape, self.dtype, self.nbytes, self.name, self.whole = number, shape, dtype, nbytes, name, whole
        self.filling: Filling | None = None
        self.irrevocable = self.is_long = False
        self.over: int | None = None
        self.bytes_of: int | None = None
        self.may_take: tuple[int, ...] = ()
        self.donors: tuple[tuple[int, frozenset[int]], ...] = ()
        self.needs: set[int] = set()
        self.beside: tuple[tuple[int, int], ...] = ()
        self.last: tuple[int, ...] = ()

    def resized(self, shape: tuple[int, ...], nbytes: int, filling: Filling | None) -> Step:
        """The same step for another size."""
        found = Step(self.number, shape, self.dtype, nbytes, self.name, self.whole)
        found.filling, found.irrevocable, found.over, found.bytes_of = filling, self.irrevocable, self.over, self.bytes_of
        found.is_long = self.is_long
        found.may_take, found.donors = self.may_take, self.donors
        found.needs, found.beside, found.last = self.needs, self.beside, self.last
        return found

    @property
    def gives(self) -> tuple[int, ...]:
        """The numbers of the cells that it computes."""
        return (self.number, *[k for _, k in self.beside])

    def run_together(self, given: Given) -> None:
        """Compute several cells by one kernel, in memory of their own. Those that were computed meanwhile, or half-way, keep what they
        have.
        """
        cells = given.nodes
        out = allocate(self.nbytes, self.name, self.shape, self.dtype)
        for own, _ in self.beside:
            cells[own].buffer = allocate(self.nbytes, self.name, self.shape, self.dtype)
        self.fill(cells[self.number], out, given)
        for k, buffer in ((self.number, out), *[(k, cells[own].buffer) for own, k in self.beside]):
            if type(cells[k]) is Node and cells[k].recipe.op is UNFINISHED:
                go_on(cells[k])
            else:
                cells[k].settle(buffer)
        for k in (*[own for own, _ in self.beside], *self.last):
            cells[k] = DONE

    def run(self, given: Given, others: Set[int]) -> None:
        """Fill the cell and settle it. Others can read the cells with the numbers `others`."""
        cells = given.nodes
        cell = cells[self.number]
        if self.beside:
            self.run_together(given)
            return
        if cell.buffer is not None:
            return  # computed meanwhile, by a signal's handler or a finalizer: others may see that memory
        if type(cell) is Node and cell.recipe.op is UNFINISHED:
            go_on(cell)  # begun by one, and broken off
            return
        donor = self.donor(cells, others) if self.donors else None
        if donor is not None and self.over is None:
            self.in_place(cell, given, donor)
        else:
            if self.over is not None:
                out = cells[self.over].buffer if donor is not None else _memory_to_write(cells[self.over].buffer, self)
            elif self.bytes_of is not None:
                out = cells[self.bytes_of].buffer
            else:
                out = allocate(self.nbytes, self.name, self.shape, self.dtype)
            assert out is not None
            if self.filling is not None:
                self.fill(cell, out, given)
            cell.settle(out)
        for k in self.last:
            cells[k] = DONE
        if donor is not None:
            cells[donor] = DONE  # written over, so nobody reads it; if it kept its memory, the next store would copy

    def donor(self, cells: Sequence[Holder], others: Set[int]) -> int | None:
        """The number of a cell that donates its memory to the result, as nobody else can read it any more."""
        if self.is_long and any(cells[k].buffer.pins for k in self.needs if k != self.over):  # type: ignore[union-attr]
            return None  # in one go no signal would be heard
        for k, readers in self.donors:
            buffer = cells[k].buffer
            assert buffer is not None
            fits = (self.over is not None or buffer.nbytes == self.nbytes) and not (buffer.pins or buffer.frozen)
            del buffer  # who else holds it is counted
            if fits and readers.isdisjoint(others) and sole(cells[k]):
                return k
        return None

    def in_place(self, cell: Holder, given: Given, donor: int) -> None:
        """Fill the cell in the memory of cell `donor`.

        The content of that is lost, so there is no way back.
        """
        out = given.nodes[donor].buffer
        assert out is not None and self.filling is not None
        self.filling.run(out, given, Once(cell, out))
        cell.settle(out)

    def fill(self, cell: Holder, out: Buffer, given: Given) -> None:
        """Compute the cell's elements. What is irrevocable, and written over memory in place, has no way back either."""
        assert self.filling is not None
        once = self.irrevocable and self.over is not None and out is given.nodes[self.over].buffer
        if self.filling.run(out, given, Once(cell, out) if once else None):
            if once:
                cell.buffer = None  # what it wrote is no content; whoever asks again meets the same index
            raise MetOutOfRange(self.whole)


def _memory_to_write(old: Buffer | None, step: Step) -> Buffer:
    """The memory that a write goes to where what it overwrites is still needed: a copy, unless that is pinned."""
    assert old is not None
    if old.pins and not old.frozen:
        return old
    fresh = allocate(old.nbytes, "assignment", step.shape, step.dtype)
    target, source = fresh.array[: old.nbytes], old.array[: old.nbytes]
    for key in portions(source.shape, _PORTION):
        target[key] = source[key]
    return fresh
