"""The execution of plans: plan steps read and fill numbered slots.

A plan sees neither sources nor recipes. Its slots are holders of a buffer: `Cell`s, or the nodes of a pattern. Some slots have memory at
the start, and the steps fill more of them. The caller (`realize`) knows the graph, and finds out which nodes have further owners.
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
        """The content of a slot: a node of the pattern, or a `Cell`."""

        buffer: Buffer | None

        def settle(self, buffer: Buffer) -> None: ...

    class Filling(Protocol):
        """A kernel call: computes the elements of a slot by a kernel, or by several. `run` is a `backend.interface.Launch`."""

        @property
        def needs(self) -> Sequence[int]:
            """The numbers of the slots to read."""
            ...

        @property
        def tables(self) -> Sequence[Table]:
            """The offset tables of gathered axes."""
            ...

        @property
        def flagged(self) -> bool:
            """True if the kernel checks indices or exponents, so a launch may fail."""
            ...

        @property
        def work(self) -> int:
            """The work of a launch, in additions, about."""
            ...

        def in_words(self, of_plan: Callable[[Plan], Any]) -> tuple[Any, ...] | None:
            """Return the call in serialisable form for the disk cache (`kept.py`); None if the call is useless to another process.

            `of_plan` serialises a plan inside the call.
            """
            ...

        @property
        def run(self) -> Callable[..., bool]: ...


allocate = backend().allocate

_COPY_CHUNK_BYTES = 1 << 24  # bytes copied at a time: signals are delivered between two copies


class Cell:
    """A slot of the plan alone, for an intermediate result. Like a node, a cell holds a buffer; None before it is computed."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer | None = None) -> None:
        self.buffer = buffer

    def settle(self, buffer: Buffer) -> None:
        """Attach a buffer."""
        self.buffer = buffer


DONE = Cell(allocate(0))  # replaces a slot after its last use, to drop the reference to the content


class Once:
    """An in-place launch. It overwrites its operands and cannot be repeated, but after an interruption a long launch can be resumed."""

    __slots__ = ("cell", "go_on", "out")

    def __init__(self, cell: Holder, out: Buffer) -> None:
        self.cell, self.out = cell, out
        self.go_on: Callable[[], object] | None = None

    @property
    def is_done(self) -> bool:
        """True if the slot has memory: a signal handler has finished the launch meanwhile."""
        return self.cell.buffer is not None

    @property
    def done(self) -> Callable[[], object]:
        """A C function that attaches the memory to the slot."""
        return partial(setattr, self.cell, "buffer", self.out)

    def begun(self, finish_launch: Callable[[], object]) -> bool:
        """Record `finish_launch`, which finishes the launch; return False if a signal handler was first and the launch is finished.

        A node becomes UNFINISHED: this object is its only source, and a later request for the node calls `finish`. See
        `backend.interface.Once`.
        """
        self.go_on, cell = finish_launch, self.cell
        if not isinstance(cell, Node):
            return True
        self.cell = DONE  # breaks the reference cycle: the node refers to this object
        recipe, sources = recipe_of(UNFINISHED, cell.shape, cell.dtype), (self,)
        if cell.buffer is None and cell.recipe.op is not UNFINISHED:
            cell.recipe, cell.sources, cell.offsets, cell._layouts = recipe, sources, (), None  # type: ignore[assignment]
            return True
        if cell.buffer is None:
            go_on(cell)
        return False

    def finish(self, node: Node) -> None:
        """Finish the launch, and attach the memory to `node`."""
        assert self.go_on is not None
        self.go_on()
        node.settle(self.out)


def go_on(node: Node) -> None:
    """Finish the interrupted or deferred computation of `node`, which is UNFINISHED: call `finish` of the first source, such as a `Once`.
    """
    computation: Any = node.sources[0]
    computation.finish(node)


class Short(NamedTuple):
    """The bytecode for the fast path (`shortcut/code/running.py`) to run the steps of a plan.

    `ends` has for each step the end of the run of suitable steps beginning there, or 0 if the step is left to Python. `writes` has the
    number of each in-place step, with the slots whose owners might read the overwritten memory. `offers` has the slots of donors for steps
    with several results, with the slots whose owners might read the donated memory.
    """

    frame: bytes
    ends: list[int]
    writes: list[tuple[int, frozenset[int]]]
    offers: list[tuple[int, frozenset[int]]]


Run = Callable[[bytes, list[Any], list[int], list[Any], int, int], int]
# The fast path's entry points: run steps `begin` to `end`, and return the number of the first step not run; and encode a plan.
short_runs: list[tuple[Run, Callable[[Plan], Short]]] = []


class Plan:
    """The steps to compute a graph, in order, planned for a target.

    The first slots belong to the pattern; the plan has `more` additional slots for intermediate results. `inlined` slots get no memory:
    they are inlined in kernels, or not computed at all. Before a run, the caller finds out which of the `watched` slots are externally
    referenced; `reads` has the number of references to each watched slot from recipes of the graph.

    The inlined slots in `costly` are expensive to repeat. An externally referenced slot may be requested later, so the caller has it
    stored: a slot in `costly` by the next plan, and a slot in `dear` at once, as storing adds little to the work.
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
        """The size of the offset tables in bytes."""
        return sum(t.offsets.nbytes for step in self.steps if step.filling is not None for t in step.filling.tables)

    def with_steps(self, steps: list[Step]) -> Plan:
        """Return a plan with `steps` in place of the present steps. They must fill the same slots."""
        return Plan(self.target, steps, self.inlined, self.costly, self.dear, self.watched, self.reads, self.more)

    def run(self, inputs: Given, referenced_slots: Set[int] = NOBODY) -> None:
        """Run the steps on the slots, scalars and offsets of `inputs`. Raise MetOutOfRange for an index out of range or a negative
        exponent.

        `referenced_slots` are the numbers of the externally referenced slots among the watched ones: no step overwrites memory needed for
        their values.
        """
        for k in self.inlined:
            inputs.nodes[k] = DONE  # an inlined node may hold the last references to sources
        if self.more:
            inputs.nodes += [Cell() for _ in range(self.more)]
        for run, short_of in short_runs if len(self.steps) > 1 else ():
            if self.short is None:
                self.short = short_of(self)
            self._run_by_fast_path(run, self.short, inputs, referenced_slots)
            return
        for step in self.steps:
            step.run(inputs, referenced_slots)

    def _run_by_fast_path(self, run: Run, short: Short, inputs: Given, referenced_slots: Set[int]) -> None:
        """Run the steps, as many as possible by the fast path and the rest in Python. The arguments are those of `run`, and an entry of
        `short_runs`.
        """
        frame, ends, writes, offers = short
        held_buffers = (
            [inputs.nodes[k].buffer for k, readers in offers if not readers.isdisjoint(referenced_slots)] if referenced_slots else []
        )
        stops = iter([k for k, readers in writes if not readers.isdisjoint(referenced_slots)] if referenced_slots else [])
        stop, number = next(stops, len(ends)), 0
        while number < len(ends):
            begin, end = number, min(ends[number], stop)
            if begin < end:
                number = run(frame, inputs.nodes, inputs.offsets, inputs.scalars, begin, end)
            if begin >= end or number < end:  # left to Python: unsuitable, with externally referenced memory, or declined by the fast path
                self.steps[number].run(inputs, referenced_slots)
                number += 1
            while stop < number:
                stop = next(stops, len(ends))
        del held_buffers  # until now, these references kept the fast path from taking externally referenced memory


class Step:
    """A plan step: allocates `nbytes` bytes for slot `number`, and computes the slot by the kernel call `filling`, unless this is None.

    A write goes over slot `over`, and a reinterpretation shares the buffer of slot `bytes_of`. The step reads the slots `needs`, and no
    later step needs the slots `last`. The kernel may overwrite the memory of the slots `may_take`. `donors` is the part of `may_take`
    without later use, each with the slots whose owners might still read the memory: the first donor without such an owner donates its
    memory to the result.

    An `irrevocable` step overwrites its operands and cannot be repeated. If it also `is_long`, it runs in parts, or else writes to a copy
    if an operand is externally shared and might change between the parts. Errors name the operation `name`, with `shape` and `dtype`.
    `whole` is the slot of the user's operation to which the step belongs.

    `beside` lists further results of the same kernel: for each, an additional slot where the kernel finds the memory, and the slot of the
    result. Then each donor gives its memory to one of the results. Only the fast path takes this memory, as it runs no Python between the
    first write and the time when the last result is attached.
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
        """Return a copy of the step for new dims: a new shape, number of bytes, and kernel call."""
        step = Step(self.number, shape, self.dtype, nbytes, self.name, self.whole)
        step.filling, step.irrevocable, step.over, step.bytes_of = filling, self.irrevocable, self.over, self.bytes_of
        step.is_long = self.is_long
        step.may_take, step.donors = self.may_take, self.donors
        step.needs, step.beside, step.last = self.needs, self.beside, self.last
        return step

    @property
    def gives(self) -> tuple[int, ...]:
        """The numbers of the slots computed by the step."""
        return (self.number, *[k for _, k in self.beside])

    def run_together(self, inputs: Given) -> None:
        """Compute several slots by a single kernel, into new memory. Slots computed meanwhile keep their memory; UNFINISHED slots are
        finished.
        """
        slots = inputs.nodes
        out = allocate(self.nbytes, self.name, self.shape, self.dtype)
        for extra_slot, _ in self.beside:
            slots[extra_slot].buffer = allocate(self.nbytes, self.name, self.shape, self.dtype)
        self.fill(slots[self.number], out, inputs)
        for k, buffer in ((self.number, out), *[(k, slots[extra_slot].buffer) for extra_slot, k in self.beside]):
            if type(slots[k]) is Node and slots[k].recipe.op is UNFINISHED:
                go_on(slots[k])
            else:
                slots[k].settle(buffer)
        for k in (*[extra_slot for extra_slot, _ in self.beside], *self.last):
            slots[k] = DONE

    def run(self, inputs: Given, referenced_slots: Set[int]) -> None:
        """Compute the slot, attach its memory, and drop the slots in `last`. The slots in `referenced_slots` are externally referenced."""
        slots = inputs.nodes
        slot = slots[self.number]
        if self.beside:
            self.run_together(inputs)
            return
        if slot.buffer is not None:
            return  # a signal handler or a finalizer computed the slot meanwhile, and others may use the memory
        if type(slot) is Node and slot.recipe.op is UNFINISHED:
            go_on(slot)  # a signal handler began the computation and was interrupted
            return
        donor = self.find_donor(slots, referenced_slots) if self.donors else None
        if donor is not None and self.over is None:
            self.run_in_place(slot, inputs, donor)
        else:
            if self.over is not None:
                out = slots[self.over].buffer if donor is not None else _memory_to_write(slots[self.over].buffer, self)
            elif self.bytes_of is not None:
                out = slots[self.bytes_of].buffer
            else:
                out = allocate(self.nbytes, self.name, self.shape, self.dtype)
            assert out is not None
            if self.filling is not None:
                self.fill(slot, out, inputs)
            slot.settle(out)
        for k in self.last:
            slots[k] = DONE
        if donor is not None:
            slots[donor] = DONE  # the content is lost; and with a second owner of the memory, the next store would copy

    def find_donor(self, slots: Sequence[Holder], referenced_slots: Set[int]) -> int | None:
        """Return the number of the slot that donates its memory to the result; None if there is none.

        A donor must have no other owner, must not be externally shared or read-only, and must have the size of the result unless the step
        is a write. Return None also for a long step with an operand in externally shared memory: in place, the step would have to run
        without a break.
        """
        if self.is_long and any(slots[k].buffer.pins for k in self.needs if k != self.over):  # type: ignore[union-attr]
            return None  # one uninterruptible launch would be too long
        for k, readers in self.donors:
            buffer = slots[k].buffer
            assert buffer is not None
            fits = (self.over is not None or buffer.nbytes == self.nbytes) and not (buffer.pins or buffer.frozen)
            del buffer  # drop this reference before the references are counted
            if fits and readers.isdisjoint(referenced_slots) and sole(slots[k]):
                return k
        return None

    def run_in_place(self, slot: Holder, inputs: Given, donor: int) -> None:
        """Compute the slot in the memory of slot `donor`. The old content is lost, so the launch cannot be repeated from the start."""
        out = inputs.nodes[donor].buffer
        assert out is not None and self.filling is not None
        self.filling.run(out, inputs, Once(slot, out))
        slot.settle(out)

    def fill(self, slot: Holder, out: Buffer, inputs: Given) -> None:
        """Compute the elements of the slot into `out`. Raise MetOutOfRange for an index out of range or a negative exponent.

        An irrevocable step in the memory of slot `over` is launched as a `Once`, so no interruption repeats it.
        """
        assert self.filling is not None
        is_in_place = self.irrevocable and self.over is not None and out is inputs.nodes[self.over].buffer
        if self.filling.run(out, inputs, Once(slot, out) if is_in_place else None):
            if is_in_place:
                slot.buffer = None  # the content is invalid; a later request finds the same index
            raise MetOutOfRange(self.whole)


def _memory_to_write(old: Buffer | None, step: Step) -> Buffer:
    """Return the memory for a write whose overwritten content is still needed: a copy, or for externally shared memory the memory itself.
    """
    assert old is not None
    if old.pins and not old.frozen:
        return old
    copy = allocate(old.nbytes, "assignment", step.shape, step.dtype)
    target, source = copy.array[: old.nbytes], old.array[: old.nbytes]
    for key in portions(source.shape, _COPY_CHUNK_BYTES):
        target[key] = source[key]
    return copy
