"""The interface of a back end: memory, and the kernels that run on it.

A kernel is compiled once for all shapes. Binding adds the arguments that belong to one set of shapes. Each launch runs the bound kernel on
memory of its own. A back end receives loop IR, buffers and numbers, and decides how to run them: how many threads share a loop, which
processor computes, and whether the GIL is held meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .._utils.lazy import LazyModule
from .._utils.records import NamedTuple
from ..memory.buffer import Array, allocate, make_window

if TYPE_CHECKING:
    from ..dtypes import DType
    from ..graph.node import Scalar
    from ..layout import Table
    from ..lowering.ir import Kernel
    from ..memory.buffer import Buffer
    from ..target import Target, ThreadLimits

interruptible = LazyModule("tenxor._utils.interruptible")


class KernelArguments(NamedTuple):
    """The arguments of a kernel for one set of shapes; the planner makes them for `Backend.bind`.

    Each launch adds memory, scalars and offsets: a `LaunchValues` object, `launch_values` below. The fields say how to find them there.

    Operand 0 is the result, from element `launch_values.offsets[out[0]] + out[1]` of the buffer to fill. Each further operand is an entry
    `(k, offset_index, displacement)` of `sources`: the buffer of `launch_values.nodes[k]`, from element
    `launch_values.offsets[offset_index] + displacement` on. An entry `(k, imag)` of `scalars` is the real part of
    `launch_values.scalars[k]`, or with `imag` the imaginary part. `tables` are offset tables, and `sizes` are sizes, strides and offsets in
    elements. Both are in the order of the kernel's parameters.

    `split_extent` is the extent of the loop that may run in chunks. `work` is the approximate cost of the kernel, in additions.
    `scratch_bytes` is the size of the scratch memory that each thread may need, in bytes.
    """

    out: tuple[int, int]
    sources: Sequence[tuple[int, int, int]]
    scalars: Sequence[tuple[int, bool]]
    tables: Sequence[Table]
    sizes: Sequence[int]
    split_extent: int
    work: int
    scratch_bytes: int


class LaunchValues(Protocol):
    """The values that differ from launch to launch; the entries of `KernelArguments` are indices into these lists.

    The items of `nodes` hold the memory in their attribute `buffer`. `scalars` are the numbers, and `offsets` say where views of the memory
    begin, in elements.
    """

    nodes: list[Any]
    scalars: list[Scalar]
    offsets: list[int]


class BufferWindow(NamedTuple):
    """The memory of a value in each iteration of `RepeatedLaunches`: `nbytes` bytes of a buffer, from byte `starts[iteration]` on.

    The buffer is item `buffer_index` of the list `buffers` that each call of `RepeatedLaunches.run` takes. `starts` is an int64 array; it
    has a single entry if the memory is the same in every iteration.
    """

    buffer_index: int
    starts: Array
    nbytes: int

    def window(self, buffers: Sequence[Buffer], iteration: int) -> Buffer:
        """Return the memory of the value in iteration number `iteration`, counted from 0.

        The result is a new `Buffer` on the memory of item `buffer_index` of `buffers`; nothing is copied.
        """
        return make_window(buffers[self.buffer_index], int(self.starts[iteration % len(self.starts)]), self.nbytes)


class BufferHolder(NamedTuple):
    """An item of `LaunchValues.nodes` in an iteration of `RepeatedLaunches`: the memory of a value, where other launches have a node.

    `buffer` is None for a value without memory.
    """

    buffer: Buffer | None


class IterationValues:
    """The memory, scalars and offsets (`LaunchValues`) for the launches in one iteration of `RepeatedLaunches`."""

    __slots__ = ("nodes", "offsets", "scalars")

    def __init__(self, nodes: list[BufferHolder], scalars: list[Scalar], offsets: list[int]) -> None:
        self.nodes, self.scalars, self.offsets = nodes, scalars, offsets


class RepeatedLaunches:
    """A sequence of bound kernels; `run` launches the sequence `iterations` times. The loop of a scan uses it. No kernel may look up
    indices, as no failure is reported.

    An entry of `windows` is the memory of a value in each iteration, or None for a value without memory. Each entry of `launches` is a
    bound kernel, and the index in `windows` of the value to fill. The sources of the kernel are indices in `windows`, too. `scalars`
    and `offsets`, as in `LaunchValues`, are the same in all iterations.
    """

    def __init__(
        self,
        launches: Sequence[tuple[Launch, int]],
        windows: Sequence[BufferWindow | None],
        scalars: list[Scalar],
        offsets: list[int],
        iterations: int,
    ) -> None:
        self.launches, self.windows, self.scalars, self.offsets, self.iterations = launches, windows, scalars, offsets, iterations

    def run(self, buffers: Sequence[Buffer]) -> None:
        """Launch all kernels in order, in each iteration, each by a call from Python, and return when the results are in the memory.

        `BufferWindow.buffer_index` is an index of `buffers`.
        """
        for iteration in range(self.iterations):
            values = [BufferHolder(None if memory is None else memory.window(buffers, iteration)) for memory in self.windows]
            iteration_values = IterationValues(values, self.scalars, self.offsets)
            for launch, out in self.launches:
                buffer = values[out].buffer
                assert buffer is not None
                launch(buffer, iteration_values)


class ResumableLaunch(Protocol):
    """A launch that must not run twice, as the kernel overwrites memory that it reads.

    The runtime passes one to a `Launch` as `in_place_launch`. A signal handler may run, and ask for the same result, before the kernel
    begins or between slices of the kernel's loop. The object tells whether the launch is done, and takes the rest of an interrupted launch.
    """

    @property
    def is_done(self) -> bool:
        """True if the launch is done. A signal handler may be faster than the caller."""

    @property
    def mark_done(self) -> Callable[[], object]:
        """A C function without arguments, which the back end calls as soon as the kernel has run. Then `is_done` is true."""

    def register_rest(self, finish_launch: Callable[[], object]) -> bool:
        """Register `finish_launch`, a function for the part of the launch not done yet. Return whether the caller must call this function
        now.

        The back end calls this method before the first write to the result. The answer is False if a signal handler has done the launch
        already. If the call of `finish_launch` is interrupted, a later call of `finish_launch` continues, when the result is requested
        again.
        """


class Launch(Protocol):
    """A function that runs a bound kernel, and returns whether the kernel met an index out of range or a negative integer exponent.

    `out` is the memory of the result, which the kernel fills; `launch_values` has the memory of the operands, the scalars and the offsets.
    The answer concerns this launch alone, also if other threads launch the same kernel. With `in_place_launch`, the kernel runs in one step
    that ends with the C call `in_place_launch.mark_done()`. No signal handler runs between the first write to `out` and that call. Or the
    launch calls `in_place_launch.register_rest` before the first write, and then lets signal handlers run between slices.
    """

    def __call__(self, out: Buffer, launch_values: LaunchValues, in_place_launch: ResumableLaunch | None = None) -> bool:
        """Run the kernel with results in `out`; return whether the kernel met an index out of range or a negative exponent (`Launch`)."""
        ...


class ContractionFacts(NamedTuple):
    """The property of a contraction (a generalised matrix product) for launches: the pairs of equal values on both sides.

    An item `(left, right)` of `symmetric_pairs` has an index of a value of each side. The two values are equal if both sides read the same
    memory, as in `x @ x.T`; the results are then symmetric. Without pairs, results are never symmetric.
    """

    symmetric_pairs: tuple[tuple[int, int], ...]


class KernelFacts(NamedTuple):
    """The properties of a kernel needed to run it, without the loops. Stored plans contain them in place of the kernel.

    `text_hash` is a hash of the kernel's loop IR, under which the compiled code is stored. The other fields have the names and values of
    properties of `Kernel`; `min_grain` is the value of `Kernel.choose_grain`, or 0 if no loop is split.
    """

    text_hash: str
    name: str
    itemsizes: tuple[int, ...]
    scalar_dtypes: tuple[DType, ...]
    can_fail: bool
    is_interruptible: bool
    split_axis: int
    shared_axis: int
    contraction: ContractionFacts | None
    min_grain: int

    def choose_grain(self, sharing: ThreadLimits) -> int:
        """Return `min_grain`, the number of iterations of which all chunks of the split loop are multiples; 0 if no loop is split.

        `sharing` is not used; `Kernel.choose_grain` has the same parameter.
        """
        return self.min_grain


class Compiled(Protocol):
    """A kernel in the form for a back end, as returned by `Backend.compile` and `Backend.find_compiled`."""

    @property
    def kernel(self) -> Kernel | KernelFacts:
        """The kernel itself, or only the facts by which the code was found (`Backend.find_compiled`)."""
        ...

    @property
    def origin(self) -> str:
        """A word for the source of the code: "compiled", "disk", "shipped" or "interpreted"."""
        ...


class Backend(ABC):
    """A back end, which allocates memory, and compiles and launches kernels.

    All back ends promise the same values, but for the last bits of float sums and products: see `docs/architecture/observable.md`.
    Several Python threads may use one object at a time.

    Data about plans is stored under a `text`, the key: a text that is equal only for equal plans.
    """

    name: str

    @abstractmethod
    def allocate(self, nbytes: int, op: object = "tenxor", shape: tuple[int, ...] | None = None, dtype: object = None) -> Buffer:
        """Return memory for a result: at least `nbytes` bytes, aligned to 64 bytes, with undefined content.

        The other arguments are for errors: a MemoryError names `op`, the `shape` and `dtype` if they are not None, and the bytes.
        """

    @property
    @abstractmethod
    def kernels(self) -> Mapping[Any, Compiled]:
        """The kernels in memory, each with its compiled form: those that a plan or a launch refers to, and the most recently requested."""

    @abstractmethod
    def kernel_count(self) -> int:
        """Return the number of kernels in memory, without building the mapping `kernels`.

        If the number is above a limit, `realize` evicts plans, so that their kernels are unloaded.
        """

    def drop_recent_kernels(self) -> None:  # noqa: B027  # a back end may keep no kernels
        """Drop the references to recently requested kernels, so that kernels without further references are unloaded.

        Do nothing in a back end without kernels in memory.
        """

    @abstractmethod
    def count_compilations(self) -> tuple[int, int]:
        """Return two counts: the kernels compiled by this process, and the kernels loaded from the package or from disk. Start no compiler.

        A kernel loaded twice counts twice.
        """

    @property
    @abstractmethod
    def target(self) -> Target:
        """The machine that loops are planned for, with the present number of threads."""

    @abstractmethod
    def compile(self, kernel: Kernel) -> Compiled:
        """Return the compiled form of `kernel`, for `bind`. Equal kernels give the same object, which lives as long as it is referenced.

        The kernel is compiled only if its code is neither in memory nor stored.
        """

    def run_on_rows(self, compiled: Compiled, *, has_scratch: bool, is_ordered: bool) -> tuple[Compiled, int]:
        """Return a new kernel that runs `compiled` on each row or matrix of its operands, and the address of the code of `compiled`.

        `compiled` is a kernel for vectors or matrices; with `has_scratch`, it has scratch memory. With `is_ordered`, rows may write the
        same elements: a single thread runs them in order. The caller puts the address first in `KernelArguments.sizes` of the new kernel.
        The further sizes are described in `codegen/llvm/strided_rows.py`. Raise NotImplementedError in a back end without machine code.
        """
        raise NotImplementedError

    def get_facts(self, compiled: Compiled) -> KernelFacts | None:
        """Return the facts by which a later process finds the stored code of `compiled` (`find_compiled`).

        Return None, the default, if no code is stored: every process must then plan and compile the kernel itself.
        """
        return None

    def find_compiled(self, facts: KernelFacts) -> Compiled | None:
        """Return the code stored for the kernel with the facts `facts`, as a compiled kernel whose attribute `kernel` is `facts`.

        A caller with a stored plan uses this method, and neither lowers nor compiles. Return None, the default, if no code is found.
        The caller must then plan the kernel anew: facts are not enough to compile.
        """
        return None

    def read_shipped(self, text: str) -> bytes | None:
        """Return the data in the package for the plan with the key `text`, or None.

        The result is None without data, if the code that plans or compiles has changed since the package was built, and by default.
        """
        return None

    def read_stored(self, text: str) -> bytes | None:
        """Return the data that `write_stored` stored under the key `text`, in this or an earlier process, or None.

        The result is None without data, if the code that plans or compiles has changed since, and by default.
        """
        return None

    def write_stored(self, text: str, content: bytes) -> object:
        """Store `content` under the key `text` for later processes; do nothing in a back end without storage. The result is not used."""
        return None

    @abstractmethod
    def bind(self, compiled: Compiled, arguments: KernelArguments) -> Launch:
        """Return a function that launches `compiled` with `arguments`, on the memory that each call gives.

        `compiled` is a result of `compile`, `find_compiled` or `run_on_rows`.
        """

    @property
    @abstractmethod
    def repeated_launches(self) -> type[RepeatedLaunches]:
        """The subclass of `RepeatedLaunches` by which this back end launches a sequence of kernels many times."""

    @abstractmethod
    def listing(self, kernel: Kernel) -> str:
        """Return the code of `kernel` as readable text, such as assembly; an empty text in a back end without code.

        With `TENXOR_DEBUG` set to 3, the runtime prints the text.
        """

    @abstractmethod
    def synchronise(self) -> None:
        """Wait until every kernel launched so far has run, in a back end whose launches return earlier.

        Every back end completes a launch with `in_place_launch`, or of a kernel that may meet an index out of range, before the launch
        returns. A read of a result through `Buffer.array` also waits for the launch.
        """


class HostBackend(Backend):
    """A back end on the host's memory: buffers come from the pool, and a launch is complete when it returns."""

    allocate = staticmethod(allocate)

    @property
    def repeated_launches(self) -> type[RepeatedLaunches]:
        """The class `RepeatedLaunches` itself, which launches each kernel by a call from Python."""
        return RepeatedLaunches

    def synchronise(self) -> None:
        """Do nothing: every launch is complete when it returns."""


def run_only_once(run: Callable[[], object], in_place_launch: ResumableLaunch) -> None:
    """Call `run` and then `in_place_launch.mark_done`, unless a signal handler has done the launch already.

    `run` must be a C function without arguments that does the whole launch. No signal handler runs between the test and the end of both
    calls.
    """
    calls = interruptible.chain_signal_atomic(run, in_place_launch.mark_done)
    if not in_place_launch.is_done:  # no signal handler runs from here on
        list(calls)
