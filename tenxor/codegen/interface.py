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
    """The arguments of a kernel for one set of shapes, without the values of each launch (`LaunchValues`), here called `given`.

    Operand 0 is the result, from element `given.offsets[out[0]] + out[1]` of the buffer to fill. Each further operand is an entry `(k, at,
    more)` of `sources`: the buffer of `given.nodes[k]`, from element `given.offsets[at] + more` on. An entry `(k, imag)` of `scalars` is
    the real part of `given.scalars[k]`, or with `imag` the imaginary part. `tables` and `sizes` (sizes, strides and offsets) are in the
    order of the kernel's parameters.

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
    """The values that differ from launch to launch.

    The items of `nodes` hold the memory in their attribute `buffer`. `scalars` are the numbers, and `offsets` say where views of the memory
    begin, in elements.
    """

    nodes: list[Any]
    scalars: list[Scalar]
    offsets: list[int]


class BufferWindow(NamedTuple):
    """The memory of a value in each iteration of a repeated plan: `nbytes` bytes of a buffer, from byte `starts[iteration]` on.

    The buffer is item `buffer_index` of the list given to each run. `starts` has a single entry if the memory is the same in every
    iteration.
    """

    buffer_index: int
    starts: Array
    nbytes: int

    def window(self, buffers: Sequence[Buffer], iteration: int) -> Buffer:
        """Return the memory of the value in iteration number `iteration`, as a new buffer on the memory of one of `buffers`."""
        return make_window(buffers[self.buffer_index], int(self.starts[iteration % len(self.starts)]), self.nbytes)


class BufferHolder(NamedTuple):
    """The memory of a value in an iteration of a repeated plan, in the place of a node. `buffer` is None for a value without memory."""

    buffer: Buffer | None


class IterationValues:
    """The values (`LaunchValues`) for the launches in an iteration of a repeated plan."""

    __slots__ = ("nodes", "offsets", "scalars")

    def __init__(self, nodes: list[BufferHolder], scalars: list[Scalar], offsets: list[int]) -> None:
        self.nodes, self.scalars, self.offsets = nodes, scalars, offsets


class RepeatedLaunches:
    """A sequence of kernels, one after the other, which each run launches `iterations` times. No kernel may look up indices.

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
        """Run all iterations on the memory `buffers`, each launch by a call from Python."""
        for iteration in range(self.iterations):
            values = [BufferHolder(None if memory is None else memory.window(buffers, iteration)) for memory in self.windows]
            iteration_values = IterationValues(values, self.scalars, self.offsets)
            for launch, out in self.launches:
                buffer = values[out].buffer
                assert buffer is not None
                launch(buffer, iteration_values)


class ResumableLaunch(Protocol):
    """A launch that must not run twice, as the kernel overwrites memory that it reads."""

    @property
    def is_done(self) -> bool:
        """True if the launch is done, perhaps by a signal handler before the caller begins."""

    @property
    def mark_done(self) -> Callable[[], object]:
        """A C function, to be called without arguments as soon as the kernel has run: the launch then counts as done."""

    def register_rest(self, rest: Callable[[], object]) -> bool:
        """Register `rest()`, which does the rest of the launch, before the first write. Return whether the caller must now call `rest()`.

        The answer is False if a signal handler has done the launch already. If the call of `rest` is interrupted, a later call continues.
        """


class Launch(Protocol):
    """A function that runs a bound kernel, fills `out`, and returns whether the kernel met an index out of range.

    The answer concerns this launch alone, also if other threads launch the same kernel. With `once`, the kernel runs in one step that ends
    with the C call `once.mark_done()`: no signal handler runs between the first write to `out` and that call. Or the launch calls
    `once.register_rest` before the first write, and then lets signal handlers run between slices.
    """

    def __call__(self, out: Buffer, given: LaunchValues, once: ResumableLaunch | None = None) -> bool: ...


class ContractionFacts(NamedTuple):
    """The property of a contraction needed to run it: the pairs `(left, right)` of indices of values that are equal on both sides.

    The values of a pair are equal if both sides read the same memory. Without such pairs, results are never symmetric.
    """

    symmetric_pairs: tuple[tuple[int, int], ...]


class KernelFacts(NamedTuple):
    """The properties of a kernel needed to run it, without the loops.

    The compiled code is found by `text_hash`. The other fields have the names and values of properties of `Kernel`; `min_grain` is the
    value of `Kernel.choose_grain`.
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
        """Return the least number of iterations in a chunk of the split loop; 0 if no loop is split. `sharing` is not used."""
        return self.min_grain


class Compiled(Protocol):
    """A kernel in the form that a back end runs. `origin` is a word for the source of the code, "compiled" or "disk" for instance.

    `kernel` is the kernel itself, or only its facts if they were used to find the code.
    """

    @property
    def kernel(self) -> Kernel | KernelFacts: ...

    @property
    def origin(self) -> str: ...


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
        """The kernels in memory, each with its compiled form: those still referenced, and the most recently requested."""

    @abstractmethod
    def kernel_count(self) -> int:
        """Return the number of kernels in memory, without building the mapping `kernels`: too many of them make `realize` drop some."""

    def drop_recent_kernels(self) -> None:  # noqa: B027  # a back end may keep no kernels
        """Drop the references to recently requested kernels. Do nothing in a back end without kernels in memory."""

    @abstractmethod
    def count_compilations(self) -> tuple[int, int]:
        """Return how many kernels this process compiled, and how many it loaded; start no compiler. A kernel loaded twice counts twice."""

    @property
    @abstractmethod
    def target(self) -> Target:
        """The machine that loops are planned for, with the present number of threads."""

    @abstractmethod
    def compile(self, kernel: Kernel) -> Compiled:
        """Return a kernel ready to be bound. Equal kernels give the same object, which stays in memory as long as it is referenced."""

    def run_on_rows(self, compiled: Compiled, *, has_scratch: bool) -> tuple[Compiled, int]:
        """Return a new kernel that runs `compiled`, a kernel for vectors or matrices, on each row or matrix of its operands, and the first
        size argument of the new kernel. With `has_scratch`, the kernel has scratch memory.

        That size is the address of the code of `compiled`; the caller puts it first in `KernelArguments.sizes`. The other arguments of the
        new kernel are described in `codegen/llvm/strided_rows.py`. Raise NotImplementedError in a back end without machine code.
        """
        raise NotImplementedError

    def get_facts(self, compiled: Compiled) -> KernelFacts | None:
        """Return the facts by which a later process finds the stored code of `compiled` (`find_compiled`).

        Return None, the default, if no code is stored: every process must then plan and compile the kernel itself.
        """
        return None

    def find_compiled(self, facts: KernelFacts) -> Compiled | None:
        """Return the stored code of the kernel with the facts `facts`, as a compiled kernel. Its attribute `kernel` is `facts`.

        Return None, the default, if no code is found. The caller must then plan the kernel anew: facts are not enough to compile.
        """
        return None

    def read_shipped(self, text: str) -> bytes | None:
        """Return the data in the package for the plan with the key `text`; None without data, and by default.

        Data is ignored if the code that plans or compiles has changed since the package was built.
        """
        return None

    def read_stored(self, text: str) -> bytes | None:
        """Return the data stored by an earlier process under the key `text`; None without data, and by default.

        Data is ignored if the code that plans or compiles has changed since.
        """
        return None

    def write_stored(self, text: str, content: bytes) -> object:
        """Store `content` under the key `text` for later processes; do nothing in a back end without storage. The result is not used."""
        return None

    @abstractmethod
    def bind(self, compiled: Compiled, arguments: KernelArguments) -> Launch:
        """Return a function that launches `compiled`, a result of `compile`, `find_compiled` or `run_on_rows`, with `arguments`."""

    @property
    @abstractmethod
    def repeated_launches(self) -> type[RepeatedLaunches]:
        """The class of sequences of kernels that run many times."""

    @abstractmethod
    def listing(self, kernel: Kernel) -> str:
        """Return the code of a kernel as readable text, such as assembly; an empty text in a back end without code."""

    @abstractmethod
    def synchronise(self) -> None:
        """Wait until everything launched has run.

        A launch with `once`, or of a kernel that may find an index out of range, is complete when the call returns. To read a result
        through `Buffer.array` also waits for the launch.
        """


class HostBackend(Backend):
    """A back end on the host's memory: buffers come from the pool, and a launch is complete when it returns."""

    allocate = staticmethod(allocate)

    @property
    def repeated_launches(self) -> type[RepeatedLaunches]:
        return RepeatedLaunches

    def synchronise(self) -> None:
        """Do nothing: every launch is complete when it returns."""


def run_only_once(run: Callable[[], object], once: ResumableLaunch) -> None:
    """Call the C function `run` and then `once.mark_done`, unless a signal handler has done the launch already.

    No signal handler runs between the test and the end of both calls.
    """
    calls = interruptible.chain_signal_atomic(run, once.mark_done)
    if not once.is_done:  # no signal handler runs from here on
        list(calls)
