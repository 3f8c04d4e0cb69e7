"""The execution of plans: plan steps read and fill numbered slots. A plan has compiled kernels, in order, and sees neither sources nor
recipes of nodes. A slot holds a buffer of memory: a slot is a `BufferSlot`, or a node of the signature of the graph. Slots of nodes in
memory have buffers at the start, and the steps fill more slots. The caller (`realize`) knows the graph, and finds out if nodes are
externally referenced: user code can still ask for their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any

from .._utils import upcalls
from .._utils.records import NamedTuple
from ..codegen import backend
from ..codegen.interface import LaunchValues
from ..dtypes import DType
from ..errors import BadValueInKernel
from ..graph.node import MAX_WHOLE_BYTES, UNFINISHED, Node, intern_recipe
from ..graph.ownership import NO_NODES, is_sole_buffer_owner
from ..layout import Table
from ..layout.interruptible_chunks import iterate_chunks
from ..memory.buffer import Buffer
from ..target import Target

if TYPE_CHECKING:
    from typing import Protocol

    from .deferral import Deferral

    class SlotContent(Protocol):
        """The content of a slot: a node of the signature, or a `BufferSlot`."""

        buffer: Buffer | None

        def set_buffer(self, buffer: Buffer) -> None:
            """Set the memory of the computed value."""
            ...

    class KernelCall(Protocol):
        """A kernel call: computes the elements of a slot by a kernel, or by several.

        `run` is a `codegen.interface.Launch`, which returns True for an index out of range or a negative exponent.
        """

        @property
        def input_slots(self) -> Sequence[int]:
            """The numbers of the slots to read."""
            ...

        @property
        def tables(self) -> Sequence[Table]:
            """The offset tables of gathered axes."""
            ...

        @property
        def can_fail(self) -> bool:
            """True if the kernel checks indices or exponents, so a launch may fail."""
            ...

        @property
        def work(self) -> int:
            """The approximate work of a launch, in additions."""
            ...

        def serialize(self, serialize_plan: Callable[[Plan], Any]) -> tuple[Any, ...] | None:
            """Return the call in serialisable form for the disk cache (`plan_disk_cache.py`).

            `serialize_plan` serialises a plan inside the call. Return None if the call is useless to another process.
            """
            ...

        @property
        def run(self) -> Callable[..., bool]:
            """The function that launches the kernels (`codegen.interface.Launch`)."""
            ...


allocate = backend().allocate

MAX_STORED_RATIO = 8  # elements of a node to store for each addition of the plan that inlines the node
_COPY_CHUNK_BYTES = 1 << 24  # bytes copied at a time: signals are delivered between two copies


class BufferSlot:
    """A slot of the plan alone, for an intermediate result. Like a node, a slot has a `buffer`; None before the result is computed."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer | None = None) -> None:
        self.buffer = buffer

    def set_buffer(self, buffer: Buffer) -> None:
        """Set `buffer`, the memory of the computed result. A plan step calls this method, as for a node."""
        self.buffer = buffer


RELEASED_SLOT = BufferSlot(allocate(0))  # replaces a slot after its last use, to drop the reference to the content


class InPlaceLaunch:
    """A launch that computes `slot` into `out`, the memory of an operand, and cannot be repeated.

    The back end receives this object with a launch that overwrites an operand. After an interruption, a long launch can be resumed.
    """

    __slots__ = ("slot", "finish_launch", "out")

    def __init__(self, slot: SlotContent, out: Buffer) -> None:
        self.slot, self.out = slot, out
        self.finish_launch: Callable[[], object] | None = None

    @property
    def is_done(self) -> bool:
        """True if the slot has memory: the launch is done, perhaps by a signal handler."""
        return self.slot.buffer is not None

    @property
    def mark_done(self) -> Callable[[], object]:
        """A C function to set `out` as the buffer of the slot. The back end calls the function as soon as the kernel has run."""
        return partial(setattr, self.slot, "buffer", self.out)

    def register_rest(self, finish_launch: Callable[[], object]) -> bool:
        """Record `finish_launch`, which finishes the launch, and return True: the caller must call `finish_launch` now.

        Return False if a signal handler was first: the node is in memory then, and was finished here if need be. A node becomes UNFINISHED:
        this object is its only source, and a later request for the node calls `finish`. See `codegen.interface.ResumableLaunch`.
        """
        self.finish_launch, slot = finish_launch, self.slot
        if not isinstance(slot, Node):
            return True
        self.slot = RELEASED_SLOT  # breaks the reference cycle: the node refers to this object
        recipe, sources = intern_recipe(UNFINISHED, slot.shape, slot.dtype), (self,)
        if slot.buffer is None and slot.recipe.op is not UNFINISHED:
            slot.recipe, slot.sources, slot.offsets, slot._layouts = recipe, sources, (), None  # type: ignore[assignment]
            return True
        if slot.buffer is None:
            finish_node(slot)
        return False

    def finish(self, node: Node) -> None:
        """Finish the launch, and make `out` the buffer of `node`, the node of the slot."""
        assert self.finish_launch is not None
        self.finish_launch()
        node.set_buffer(self.out)


def finish_node(node: Node) -> None:
    """Finish the interrupted computation of `node`, a node with the operation UNFINISHED.

    The method `finish` of the only source of `node`, such as an `InPlaceLaunch`, does the work.
    """
    computation: Any = node.sources[0]
    computation.finish(node)


class StepBytecode(NamedTuple):
    """The bytecode for the fast path (`fastpath/emit/plan_steps.py`) to run the steps of a plan.

    `launch_record` has the encoded steps. `run_ends` has an entry for each step: the end (exclusive) of the run of suitable steps beginning
    there, or 0 if the step is left to Python. `overwrite_readers` has the number of each in-place step, with the slots whose owners might
    read the overwritten memory. `donor_readers` has the slots of donors for steps with several results, with the slots whose owners might
    read the donated memory.
    """

    launch_record: bytes
    run_ends: list[int]
    overwrite_readers: list[tuple[int, frozenset[int]]]
    donor_readers: list[tuple[int, frozenset[int]]]


class Plan:
    """The steps to compute a graph, `steps`, in order, planned for the machine `target`.

    The first slots belong to the nodes of the signature; the plan has `additional_slot_count` additional slots for intermediate
    results. The slots in `inlined_slots` get no memory: they are inlined in kernels, or not computed at all. Before a run, the caller
    finds out which of the slots in `watched_slots` are externally referenced; `watched_read_counts` has the number of references to
    each watched slot from recipes of the graph.

    The inlined slots in `expensive_slots` are expensive to repeat. An externally referenced slot may be requested later, so the caller has
    it stored: a slot in `expensive_slots` by the next plan, and a slot in `cheap_to_store_slots` at once, as storing adds little to the
    work.
    """

    __slots__ = (
        "deferral",
        "expensive_slots",
        "cheap_to_store_slots",
        "inlined_slots",
        "additional_slot_count",
        "watched_read_counts",
        "step_bytecode",
        "steps",
        "target",
        "watched_slots",
    )

    def __init__(
        self,
        target: Target,
        steps: list[PlanStep],
        inlined_slots: list[int],
        expensive_slots: list[int],
        cheap_to_store_slots: list[int],
        watched_slots: list[int],
        watched_read_counts: list[int],
        additional_slot_count: int,
    ) -> None:
        self.target, self.additional_slot_count = target, additional_slot_count
        self.steps, self.inlined_slots, self.expensive_slots, self.cheap_to_store_slots = (
            steps,
            inlined_slots,
            expensive_slots,
            cheap_to_store_slots,
        )
        self.watched_slots, self.watched_read_counts = watched_slots, watched_read_counts
        self.step_bytecode: StepBytecode | None = None
        self.deferral: Deferral | None = None

    def is_worth_storing(self, node: Node) -> bool:
        """Return whether storing `node`, a pending node inlined by the plan, costs little beside the plan.

        Then `node` has at most `MAX_WHOLE_BYTES` bytes, or at most `MAX_STORED_RATIO` elements for each addition of the plan's kernels. The
        plan may read a single element of a large node.
        """
        if node.recipe.nbytes <= MAX_WHOLE_BYTES:
            return True
        work = sum([step.kernel_call.work for step in self.steps if step.kernel_call is not None])
        return node.size <= MAX_STORED_RATIO * work

    @property
    def table_bytes(self) -> int:
        """The size of the offset tables in bytes."""
        return sum(t.offsets.nbytes for step in self.steps if step.kernel_call is not None for t in step.kernel_call.tables)

    def with_steps(self, steps: list[PlanStep]) -> Plan:
        """Return a plan with `steps` in place of the present steps, to fill the same slots. The other attributes are shared."""
        return Plan(
            self.target,
            steps,
            self.inlined_slots,
            self.expensive_slots,
            self.cheap_to_store_slots,
            self.watched_slots,
            self.watched_read_counts,
            self.additional_slot_count,
        )

    def run(self, inputs: LaunchValues, referenced_slots: Set[int] = NO_NODES) -> None:
        """Run the steps on `inputs`: the slots (`nodes`), scalars and offsets. Results become the buffers of slots. The caller holds
        `realize.compute_lock`.

        The list `inputs.nodes` is changed: additional slots are appended, and `RELEASED_SLOT` replaces released and inlined slots.
        `referenced_slots` are the numbers of the externally referenced slots among the watched ones: no step overwrites memory needed for
        their values. Raise BadValueInKernel for an index out of range or a negative exponent, and MemoryError if memory is short.
        """
        for k in self.inlined_slots:
            inputs.nodes[k] = RELEASED_SLOT  # an inlined node may hold the last references to sources
        if self.additional_slot_count:
            inputs.nodes += [BufferSlot() for _ in range(self.additional_slot_count)]
        fast_path = upcalls.installed
        if fast_path is not None and len(self.steps) > 1:
            if self.step_bytecode is None:
                self.step_bytecode = fast_path.encode_steps(self)
            self._run_by_fast_path(fast_path.run_steps, self.step_bytecode, inputs, referenced_slots)
            return
        for step in self.steps:
            step.run(inputs, referenced_slots)

    def _run_by_fast_path(self, run: Callable[..., int], bytecode: StepBytecode, inputs: LaunchValues, referenced_slots: Set[int]) -> None:
        """Run the steps, as many as possible by the fast path and the rest in Python.

        `inputs` and `referenced_slots` are the arguments of `Plan.run`. `run` is `run_steps` of the fast path, and `bytecode` the bytecode
        of the plan. A step that might overwrite memory needed for a referenced slot runs in Python.
        """
        launch_record, run_ends, overwrite_readers, donor_readers = bytecode
        held_buffers = (
            [inputs.nodes[k].buffer for k, readers in donor_readers if not readers.isdisjoint(referenced_slots)] if referenced_slots else []
        )
        stops = iter([k for k, readers in overwrite_readers if not readers.isdisjoint(referenced_slots)] if referenced_slots else [])
        stop, number = next(stops, len(run_ends)), 0
        while number < len(run_ends):
            begin, end = number, min(run_ends[number], stop)
            if begin < end:
                number = run(launch_record, inputs.nodes, inputs.offsets, inputs.scalars, begin, end)
            if begin >= end or number < end:  # left to Python: unsuitable, with externally referenced memory, or declined by the fast path
                self.steps[number].run(inputs, referenced_slots)
                number += 1
            while stop < number:
                stop = next(stops, len(run_ends))
        del held_buffers  # until now, these references kept the fast path from taking externally referenced memory


class PlanStep:
    """A plan step: allocates memory for slot `result_slot`, and computes the slot by the kernel call `kernel_call`, unless this is None.

    The memory has `nbytes` bytes. A write goes over slot `overwritten_slot`, and a reinterpretation shares the buffer of slot
    `reinterpreted_slot`; both are None for other steps. The step reads the slots `input_slots`, and no later step needs the slots
    `released_slots`. The kernel may overwrite the memory of the slots `donor_candidates`. `donors` is the part of `donor_candidates`
    without later use, each with the slots whose owners might still read the memory: the first donor without such an owner donates its
    memory to the result.

    A step with `is_unrepeatable` overwrites its operands and cannot be repeated. If it also `is_long`, it runs in parts, or else writes to
    a copy if an operand is externally shared and might change between the parts. Errors name the operation `name`, with `shape` and
    `dtype`. `user_slot` is the slot of the user's operation to which the step belongs.

    `extra_outputs` lists further results of the same kernel: for each, an additional slot where the kernel finds the memory, and the slot
    of the result. Then each donor gives its memory to one of the results. Only the fast path takes this memory, as it runs no Python
    between the first write and the time when the last result is attached.
    """

    __slots__ = (
        "extra_outputs",
        "reinterpreted_slot",
        "donors",
        "dtype",
        "kernel_call",
        "is_unrepeatable",
        "is_long",
        "released_slots",
        "donor_candidates",
        "name",
        "nbytes",
        "input_slots",
        "result_slot",
        "overwritten_slot",
        "shape",
        "user_slot",
    )

    def __init__(self, result_slot: int, shape: tuple[int, ...], dtype: DType, nbytes: int, name: object, user_slot: int) -> None:
        self.result_slot, self.shape, self.dtype, self.nbytes, self.name, self.user_slot = (
            result_slot,
            shape,
            dtype,
            nbytes,
            name,
            user_slot,
        )
        self.kernel_call: KernelCall | None = None
        self.is_unrepeatable = self.is_long = False
        self.overwritten_slot: int | None = None
        self.reinterpreted_slot: int | None = None
        self.donor_candidates: tuple[int, ...] = ()
        self.donors: tuple[tuple[int, frozenset[int]], ...] = ()
        self.input_slots: set[int] = set()
        self.extra_outputs: tuple[tuple[int, int], ...] = ()
        self.released_slots: tuple[int, ...] = ()

    def with_dims(self, shape: tuple[int, ...], nbytes: int, kernel_call: KernelCall | None) -> PlanStep:
        """Return a copy of the step for new dims: with `shape`, `nbytes` and `kernel_call` in place of the present attributes. The other
        attributes are shared, the set `input_slots` too.
        """
        step = PlanStep(self.result_slot, shape, self.dtype, nbytes, self.name, self.user_slot)
        step.kernel_call, step.is_unrepeatable, step.overwritten_slot, step.reinterpreted_slot = (
            kernel_call,
            self.is_unrepeatable,
            self.overwritten_slot,
            self.reinterpreted_slot,
        )
        step.is_long = self.is_long
        step.donor_candidates, step.donors = self.donor_candidates, self.donors
        step.input_slots, step.extra_outputs, step.released_slots = self.input_slots, self.extra_outputs, self.released_slots
        return step

    @property
    def output_slots(self) -> tuple[int, ...]:
        """The numbers of the slots computed by the step, with `result_slot` first."""
        return (self.result_slot, *[k for _, k in self.extra_outputs])

    def run_with_extra_outputs(self, inputs: LaunchValues) -> None:
        """Compute the slots `output_slots` by a single kernel, into new memory. `inputs` are the arguments of `Plan.run`.

        Slots computed meanwhile keep their memory; UNFINISHED slots are finished. Then the additional slots and the slots `released_slots`
        become `RELEASED_SLOT`. Raise BadValueInKernel as `fill` does.
        """
        slots = inputs.nodes
        out = allocate(self.nbytes, self.name, self.shape, self.dtype)
        for extra_slot, _ in self.extra_outputs:
            slots[extra_slot].buffer = allocate(self.nbytes, self.name, self.shape, self.dtype)
        self.fill(slots[self.result_slot], out, inputs)
        for k, buffer in ((self.result_slot, out), *[(k, slots[extra_slot].buffer) for extra_slot, k in self.extra_outputs]):
            if type(slots[k]) is Node and slots[k].recipe.op is UNFINISHED:
                finish_node(slots[k])
            else:
                slots[k].set_buffer(buffer)
        for k in (*[extra_slot for extra_slot, _ in self.extra_outputs], *self.released_slots):
            slots[k] = RELEASED_SLOT

    def run(self, inputs: LaunchValues, referenced_slots: Set[int]) -> None:
        """Compute the result of the step, and make its memory the buffer of slot `result_slot`. Raise BadValueInKernel as `fill` does.

        `inputs` holds the slots (`nodes`), the scalars and the offsets of the launch. `referenced_slots` are the numbers of slots that
        other code may still ask for: the step overwrites no memory needed for their values. Afterwards the slots `released_slots`, and the
        slot that donated its memory, become `RELEASED_SLOT`. If a signal handler or a finalizer computed the result meanwhile, do nothing.
        If it only began the computation, finish it. In both cases no slot is released. A step with extra outputs runs
        `run_with_extra_outputs` instead.
        """
        slots = inputs.nodes
        slot = slots[self.result_slot]
        if self.extra_outputs:
            self.run_with_extra_outputs(inputs)
            return
        if slot.buffer is not None:
            return  # a signal handler or a finalizer computed the slot meanwhile, and others may use the memory
        if type(slot) is Node and slot.recipe.op is UNFINISHED:
            finish_node(slot)  # a signal handler began the computation and was interrupted
            return
        donor = self.find_donor(slots, referenced_slots) if self.donors else None
        if donor is not None and self.overwritten_slot is None:
            self.run_in_place(slot, inputs, donor)
        else:
            if self.overwritten_slot is not None:
                out = (
                    slots[self.overwritten_slot].buffer
                    if donor is not None
                    else _prepare_write_buffer(slots[self.overwritten_slot].buffer, self)
                )
            elif self.reinterpreted_slot is not None:
                out = slots[self.reinterpreted_slot].buffer
            else:
                out = allocate(self.nbytes, self.name, self.shape, self.dtype)
            assert out is not None
            if self.kernel_call is not None:
                self.fill(slot, out, inputs)
            slot.set_buffer(out)
        for k in self.released_slots:
            slots[k] = RELEASED_SLOT
        if donor is not None:
            slots[donor] = RELEASED_SLOT  # the content is lost; and with a second owner of the memory, the next store would copy

    def find_donor(self, slots: Sequence[SlotContent], referenced_slots: Set[int]) -> int | None:
        """Return the number of the slot to donate memory to the result; None if no slot can. `slots` has the content of each slot.

        A donor must have no other owner, must not be externally shared or read-only, and must have the size of the result unless the step
        is a write. If one of `referenced_slots` might read the memory, the slot is no donor. Return None also for a long step with an
        operand in externally shared memory: in place, the step would have to run without a break.
        """
        if self.is_long and any(slots[k].buffer.externally_shared for k in self.input_slots if k != self.overwritten_slot):  # type: ignore[union-attr]
            return None  # one uninterruptible launch would be too long
        for k, readers in self.donors:
            buffer = slots[k].buffer
            assert buffer is not None
            fits = (self.overwritten_slot is not None or buffer.nbytes == self.nbytes) and not (
                buffer.externally_shared or buffer.is_read_only
            )
            del buffer  # drop this reference before the references are counted
            if fits and readers.isdisjoint(referenced_slots) and is_sole_buffer_owner(slots[k]):
                return k
        return None

    def run_in_place(self, slot: SlotContent, inputs: LaunchValues, donor: int) -> None:
        """Compute `slot` in the memory of slot number `donor`. The old content is lost, so the launch cannot be repeated from the start.

        `inputs` are the arguments of `Plan.run`. The kernel must be one that cannot fail (`can_fail`), as its answer is ignored.
        """
        out = inputs.nodes[donor].buffer
        assert out is not None and self.kernel_call is not None
        self.kernel_call.run(out, inputs, InPlaceLaunch(slot, out))
        slot.set_buffer(out)

    def fill(self, slot: SlotContent, out: Buffer, inputs: LaunchValues) -> None:
        """Compute the elements of `slot` into `out`. Raise BadValueInKernel for an index out of range or a negative exponent.

        `inputs` are the arguments of `Plan.run`. A step with `is_unrepeatable` in the memory of slot `overwritten_slot` is launched as an
        `InPlaceLaunch`, so no interruption repeats the step.
        """
        assert self.kernel_call is not None
        is_in_place = self.is_unrepeatable and self.overwritten_slot is not None and out is inputs.nodes[self.overwritten_slot].buffer
        if self.kernel_call.run(out, inputs, InPlaceLaunch(slot, out) if is_in_place else None):
            if is_in_place:
                slot.buffer = None  # the content is invalid; a later request finds the same index
            raise BadValueInKernel(self.user_slot)


def _prepare_write_buffer(old: Buffer | None, step: PlanStep) -> Buffer:
    """Return the memory that `step`, a write over the content of `old`, fills if no slot donates memory: a copy of `old`.

    Other owners still need the old content. For writable externally shared memory, return `old` itself: other libraries are meant to see
    the write.
    """
    assert old is not None
    if old.externally_shared and not old.is_read_only:
        return old
    copy = allocate(old.nbytes, "assignment", step.shape, step.dtype)
    target, source = copy.array[: old.nbytes], old.array[: old.nbytes]
    for key in iterate_chunks(source.shape, _COPY_CHUNK_BYTES):
        target[key] = source[key]
    return copy
