"""The interface of a back end: memory, and the kernels that run on it.

A kernel is compiled once for all shapes. Binding adds the arguments that belong to one set of shapes. Each launch runs the bound kernel on
memory of its own. A back end receives loop IR, buffers and numbers, and decides how to run them: how many threads share a loop, which
processor computes, and whether the GIL is held meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..late import LateModule
from ..memory import Array, allocate, window
from ..records import NamedTuple

if TYPE_CHECKING:
    from ..dtypes import DType
    from ..kernel.ir import Kernel
    from ..layout import Table
    from ..memory import Buffer
    from ..node import Scalar
    from ..target import Sharing, Target

apart = LateModule("tenxor.apart")


class Arguments(NamedTuple):
    """The arguments of a kernel for one set of shapes, without the values `Given` to each launch.

    Operand 0 is the result, from element `given.offsets[out[0]] + out[1]` of the buffer to fill. Each further operand is an entry `(k, at,
    more)` of `sources`: the buffer of `given.nodes[k]`, from element `given.offsets[at] + more` on. An entry `(k, imag)` of `scalars` is
    the real part of `given.scalars[k]`, or with `imag` the imaginary part. `tables` and `sizes` are in the kernel's order.

    `split` is the extent of the loop that may run in chunks. `work` is the approximate cost of the kernel, in additions. `scratch` is the
    size of the scratch memory that each thread may need, in bytes.
    """

    out: tuple[int, int]
    sources: Sequence[tuple[int, int, int]]
    scalars: Sequence[tuple[int, bool]]
    tables: Sequence[Table]
    sizes: Sequence[int]
    split: int
    work: int
    scratch: int


class Given(Protocol):
    """The values that differ from launch to launch.

    The items of `nodes` hold the memory in their attribute `buffer`. `scalars` are the numbers, and `offsets` say where views of the memory
    begin, in elements.
    """

    nodes: list[Any]
    scalars: list[Scalar]
    offsets: list[int]


class Place(NamedTuple):
    """The memory of a value in each iteration of a repeated plan: `nbytes` bytes of `buffer`, from byte `starts[iteration]` on.

    `starts` has a single entry if the memory is the same in every iteration.
    """

    buffer: Buffer
    starts: Array
    nbytes: int

    def window(self, iteration: int) -> Buffer:
        """Return the memory of the value in iteration number `iteration`, as a buffer."""
        return window(self.buffer, int(self.starts[iteration % len(self.starts)]), self.nbytes)


class Held(NamedTuple):
    """The memory of a value in an iteration of a repeated plan, in the place of a node; None for a value without memory."""

    buffer: Buffer | None


class Turn:
    """The values (`Given`) for the launches in an iteration of a repeated plan."""

    __slots__ = ("nodes", "offsets", "scalars")

    def __init__(self, nodes: list[Held], scalars: list[Scalar], offsets: list[int]) -> None:
        self.nodes, self.scalars, self.offsets = nodes, scalars, offsets


class Once(Protocol):
    """A launch that must not run twice, as the kernel overwrites memory that it reads."""

    @property
    def is_done(self) -> bool:
        """True if the launch is done already, by a signal handler."""

    @property
    def done(self) -> Callable[[], object]:
        """The C function to call as soon as the launch is done."""

    def begun(self, rest: Callable[[], object]) -> bool:
        """Register `rest()`, which does the rest of the launch, before the first write. Return whether the caller must still call `rest()`.

        A later call of `rest` may continue after an interrupt. The answer is False if a signal handler has done the launch already.
        """


class Launch(Protocol):
    """A function that runs a bound kernel and fills `out`. It returns whether the kernel met an index out of range.

    The answer concerns this launch alone, also if other threads launch the same kernel. With `once`, the kernel runs in one step that ends
    with the C call `once.done()`: no signal handler runs between the first write to `out` and that call. Or the launch calls `once.begun`
    before the first write, and then lets signal handlers run between slices.
    """

    def __call__(self, out: Buffer, given: Given, once: Once | None = None) -> bool: ...


class Twins(NamedTuple):
    """Of a product, the pairs `(left, right)` of values of both sides that are equal if both sides read the same memory."""

    twins: tuple[tuple[int, int], ...]


class Facts(NamedTuple):
    """The properties of a kernel needed to run it, without the loops.

    The compiled code is found by `text_hash`. The other fields have the names and values of properties of `Kernel`; `least` is the value of
    `Kernel.grain`.
    """

    text_hash: str
    name: str
    itemsizes: tuple[int, ...]
    scalars: tuple[DType, ...]
    flagged: bool
    listens: bool
    split: int
    shared: int
    product: Twins | None
    least: int

    def grain(self, sharing: Sharing) -> int:
        """Return the least number of iterations in a chunk of the split loop; 0 if no loop is split. `sharing` is not used."""
        return self.least


class Compiled(Protocol):
    """A kernel in the form that a back end runs. `origin` is a word for the source of the code, "compiled" or "disk" for instance."""

    @property
    def kernel(self) -> Kernel | Facts: ...

    @property
    def origin(self) -> str: ...


class Backend(ABC):
    """A back end: it allocates memory, and compiles and launches kernels.

    All back ends promise the same values, but for the last bits of float sums and products: see `docs/architecture/observable.md`.
    Several Python threads may use one object at a time.
    """

    name: str

    @abstractmethod
    def allocate(
        self, nbytes: int, op: object = "tenxor", shape: tuple[int, ...] | None = None, dtype: object = None
    ) -> Buffer:
        """Return memory for a result: at least `nbytes` bytes, aligned to 64, with undefined content.

        A MemoryError names the operation `op`, the shape and dtype if they are given, and the bytes.
        """

    @property
    @abstractmethod
    def kernels(self) -> Mapping[Any, Compiled]:
        """The kernels in memory, each with its compiled form: those still referenced, and the most recently requested."""

    @abstractmethod
    def kernel_count(self) -> int:
        """Return about how many kernels are in memory, without building the mapping `kernels`."""

    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """Return how many kernels were compiled and how many were loaded, counting a kernel each time; starts no compiler."""

    @property
    @abstractmethod
    def target(self) -> Target:
        """The machine that loops are planned for, with the present number of threads."""

    @abstractmethod
    def compile(self, kernel: Kernel) -> Compiled:
        """Return a kernel ready to be bound. Equal kernels give the same object, which stays in memory as long as it is referenced."""

    @abstractmethod
    def hurry(self, may_decline: bool) -> None:
        """Set whether `compile` may raise `NotAtHand` from now on instead of compiling.

        With `may_decline`, `compile` declines a kernel without compiled code, if the caller may compute by other kernels.
        """

    def facts(self, compiled: Compiled) -> Facts | None:
        """Return the facts by which another process finds a compiled kernel (`find`); None if a process must compile its own."""
        return None

    def find(self, facts: Facts) -> Compiled | None:
        """Return the kernel with these facts, without its loops, which plans do not need; None if the kernel would have to be compiled."""
        return None

    def shipped(self, text: str) -> bytes | None:
        """Return the data in the package under a text; None if there is none.

        Data is ignored if the code that plans or compiles has changed since the package was built.
        """
        return None

    def read(self, text: str) -> bytes | None:
        """Return the data stored by an earlier process under a text; None if there is none.

        Data is ignored if the code that plans or compiles has changed since.
        """
        return None

    def write(self, text: str, content: bytes) -> object:
        """Store data under a text for later processes; do nothing in a back end without storage."""
        return None

    @abstractmethod
    def bind(self, compiled: Compiled, arguments: Arguments) -> Launch:
        """Return a function that launches a kernel of this back end with the arguments for a set of shapes."""

    @abstractmethod
    def repeat(
        self, launches: Sequence[tuple[Launch, int]], places: Sequence[Place | None], scalars: list[Scalar], offsets: list[int], turns: int
    ) -> None:
        """Launch a sequence of kernels, one after the other, and repeat the sequence `turns` times. No kernel may look up indices.

        Each entry of `launches` is a bound kernel with the number of the place to fill. The kernel reads the places with the numbers of its
        sources. `scalars` and `offsets` are the same in all iterations.
        """

    @abstractmethod
    def listing(self, kernel: Kernel) -> str:
        """Return the code of a kernel as readable text; an empty text without such code."""

    @abstractmethod
    def synchronise(self) -> None:
        """Wait until everything launched has run.

        A launch that has a `once`, or may find an index out of range, is complete when it returns. So is a launch whose result is read
        through `Buffer.array`.
        """


class OnHost(Backend):
    """A back end on the host's memory: buffers come from the pool, and a launch is complete when it returns."""

    allocate = staticmethod(allocate)

    def repeat(
        self, launches: Sequence[tuple[Launch, int]], places: Sequence[Place | None], scalars: list[Scalar], offsets: list[int], turns: int
    ) -> None:
        """Launch a sequence of kernels `turns` times, each launch by a call from Python; see `Backend.repeat`."""
        for iteration in range(turns):
            values = [Held(None if memory is None else memory.window(iteration)) for memory in places]
            iteration_values = Turn(values, scalars, offsets)
            for launch, out in launches:
                buffer = values[out].buffer
                assert buffer is not None
                launch(buffer, iteration_values)

    def synchronise(self) -> None:
        """Do nothing: every launch is complete when it returns."""


def only_once(run: Callable[[], object], once: Once) -> None:
    """Call the C function `run` and then `once.done`, unless a signal handler has done the launch already.

    No signal handler runs between the test and the end of both calls.
    """
    calls = apart.in_one_go(run, once.done)
    if not once.is_done:  # no signal handler runs from here on
        list(calls)
