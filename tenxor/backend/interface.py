"""What a back end is: memory, and kernels that run on it.

A kernel is compiled once for all shapes, bound to the arguments that a set of shapes fixes, and launched as often as there is
something new in memory to run it on. What a back end is given is loop IR, buffers and numbers; how it runs them is its own:
how many threads share a loop, what they use to compute, whether Python's lock is held meanwhile.
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
    """All arguments of a kernel for one set of shapes, but for what is `Given` to each launch.

    Operand 0 is the result. It begins at the given offset number `out[0]`, and `out[1]` elements more; each other one is in the
    buffer of a given node, by its number, and begins likewise. Of a scalar the number is taken, or its
    imaginary part. `tables` and `sizes` are as the kernel has them.

    `split` is the extent of the loop that may run in pieces, `work` about how many additions all is worth, and `scratch` how many
    bytes of memory each thread may want for itself.
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
    """What differs from launch to launch: which memory, as what holds each `buffer`; which numbers; and where views of the memory
    begin, in elements.
    """

    nodes: list[Any]
    scalars: list[Scalar]
    offsets: list[int]


class Place(NamedTuple):
    """Where something of `nbytes` bytes lies in each of several turns: in a buffer, from as many bytes on; one number if all are alike."""

    buffer: Buffer
    starts: Array
    nbytes: int

    def window(self, turn: int) -> Buffer:
        """The memory that it has in one turn."""
        return window(self.buffer, int(self.starts[turn % len(self.starts)]), self.nbytes)


class Held(NamedTuple):
    """What holds the memory of one turn."""

    buffer: Buffer | None


class Turn:
    """What is given to the launches of one turn."""

    __slots__ = ("nodes", "offsets", "scalars")

    def __init__(self, nodes: list[Held], scalars: list[Scalar], offsets: list[int]) -> None:
        self.nodes, self.scalars, self.offsets = nodes, scalars, offsets


class Once(Protocol):
    """What cannot be done twice, as it writes over what it reads."""

    @property
    def is_done(self) -> bool:
        """Whether it was done meanwhile, by what a signal calls."""

    @property
    def done(self) -> Callable[[], object]:
        """What is to be called when it is done: a function of C."""

    def begun(self, rest: Callable[[], object]) -> bool:
        """From now on `rest()` does what is left of it, and may be called again where it was broken off itself. False if what a
        signal calls was first: then it is done.
        """


class Launch(Protocol):
    """Runs a kernel that is bound to its arguments, and fills `out`: whether it met an index that is out of range.

    That is told of this launch alone, whoever else launches the same. With `once` the kernel runs in one go that ends with calling
    `done`, a function in C: no signal is heard once the first element of `out` is written and before that was called. Or it
    calls `begun` before it writes any, and then hears signals between parts.
    """

    def __call__(self, out: Buffer, given: Given, once: Once | None = None) -> bool: ...


class Twins(NamedTuple):
    """Of a product: which values of both sides are the same."""

    twins: tuple[tuple[int, int], ...]


class Facts(NamedTuple):
    """What is asked of a kernel when it runs, as it answers itself: for that its loops are not needed. By `text_hash` its code is found."""

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
        """How many steps of the split loop a piece has at least."""
        return self.least


class Compiled(Protocol):
    """A kernel as a back end runs it. `origin` says where that came from, in a word."""

    @property
    def kernel(self) -> Kernel | Facts: ...

    @property
    def origin(self) -> str: ...


class Backend(ABC):
    """Something that runs kernels.

    All of them promise the same values, but for the last bits of float sums and products: see `docs/architecture.md`. One
    object may be asked by several of Python's threads at once.
    """

    name: str

    @abstractmethod
    def allocate(
        self, nbytes: int, op: object = "tenxor", shape: tuple[int, ...] | None = None, dtype: object = None
    ) -> Buffer:
        """Memory for results: at least `nbytes` bytes, aligned to 64, their content undefined.

        MemoryError names the operation that wants it, what it wants it for, and the bytes.
        """

    @property
    @abstractmethod
    def kernels(self) -> Mapping[Any, Compiled]:
        """The kernels that are in memory: those that something refers to, and some that were asked for last."""

    @abstractmethod
    def kernel_count(self) -> int:
        """About how many these are, at no cost."""

    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """How many kernels were compiled, and how many were found on disk, each time that they were; starts nothing."""

    @property
    @abstractmethod
    def target(self) -> Target:
        """The machine that loops are planned for, with the threads that share them now."""

    @abstractmethod
    def compile(self, kernel: Kernel) -> Compiled:
        """The kernel, ready to be bound: in memory as long as something refers to what this returns. Equal ones are one."""

    @abstractmethod
    def hurry(self, soon: bool) -> None:
        """From now on, whether `compile` raises `NotAtHand` for kernels that it would have to make, where something else may be computed
        without.
        """

    def facts(self, compiled: Compiled) -> Facts | None:
        """What `find` finds the same by in another process; None if it is to be made anew there."""
        return None

    def find(self, facts: Facts) -> Compiled | None:
        """The kernel of these facts, if it need not be made: a plan needs no more of it."""
        return None

    def shipped(self, text: str) -> bytes | None:
        """What came with the package under a text, if whatever plans and runs kernels is as it was when that was made."""
        return None

    def read(self, text: str) -> bytes | None:
        """What an earlier process wrote under a text, if whatever plans and runs kernels is still the same."""
        return None

    def write(self, text: str, content: bytes) -> object:
        """Keep something for later processes, where something is kept."""
        return None

    @abstractmethod
    def bind(self, compiled: Compiled, arguments: Arguments) -> Launch:
        """What runs a kernel that was compiled here, for one set of shapes."""

    @abstractmethod
    def repeat(
        self, launches: Sequence[tuple[Launch, int]], places: Sequence[Place | None], scalars: list[Scalar], offsets: list[int], turns: int
    ) -> None:
        """Launch some kernels, none of which looks up indices, one after the other, and so `turns` times. Each fills the place with its
        number, and takes what lies in the places with the numbers of its sources.
        """

    @abstractmethod
    def listing(self, kernel: Kernel) -> str:
        """The code that runs for a kernel, as text for people; empty if there is none."""

    @abstractmethod
    def synchronise(self) -> None:
        """Return when all that was launched has run. A launch that is given `once`, or may find an index out of range, is over
        when it returns; so is any whose result is read by way of `Buffer.array`.
        """


class OnHost(Backend):
    """A back end on the host's own memory: buffers are from the pool, and a launch returns when it is over."""

    allocate = staticmethod(allocate)

    def repeat(
        self, launches: Sequence[tuple[Launch, int]], places: Sequence[Place | None], scalars: list[Scalar], offsets: list[int], turns: int
    ) -> None:
        """See `Backend.repeat`: here launch by launch."""
        for turn in range(turns):
            held = [Held(None if place is None else place.window(turn)) for place in places]
            given = Turn(held, scalars, offsets)
            for launch, out in launches:
                buffer = held[out].buffer
                assert buffer is not None
                launch(buffer, given)

    def synchronise(self) -> None:
        """All that was launched has run."""


def only_once(run: Callable[[], object], once: Once) -> None:
    """Run what cannot be done twice, a function of C, in one go; not if what a signal calls was first."""
    ready = apart.in_one_go(run, once.done)
    if not once.is_done:  # now it is too late for what a signal calls
        list(ready)
