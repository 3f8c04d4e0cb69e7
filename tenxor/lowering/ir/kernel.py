"""`Kernel`, a nest of loops as an immutable value, without the numbers of one call."""

from __future__ import annotations

from ..._utils.records import NamedTuple
from ...dtypes import DType
from ...ops.reductions import COMBINING_OPS
from ...target import ThreadLimits
from .kernel_text import format_kernel
from .statements import Accumulate, Accumulator, Contraction, For, LoopAxis, Operand, Statement, Store, iterate_statements


class Kernel(NamedTuple):
    """A kernel in the loop IR, without sizes, strides, offsets or scalars.

    Two nests that differ only in those numbers are equal kernels.

    `table_count` and `size_count` are the numbers of table and size parameters, and `scalar_dtypes` are the dtypes of the scalar
    parameters. `axes`, `operands` and `accumulators` are numbered by their position; `body` refers to them by these numbers.
    """

    name: str
    operands: tuple[Operand, ...]
    table_count: int
    scalar_dtypes: tuple[DType, ...]
    size_count: int
    axes: tuple[LoopAxis, ...]
    accumulators: tuple[Accumulator, ...]
    body: tuple[Statement, ...]

    def __str__(self) -> str:
        """Return the kernel as the text of a small program, for people to read."""
        return "\n".join(format_kernel(self.name, self.operands, self.scalar_dtypes, self.axes, self.accumulators, self.body))

    @property
    def itemsizes(self) -> tuple[int, ...]:
        """The size in bytes of an element of each operand."""
        return tuple([operand.dtype.itemsize for operand in self.operands])

    @property
    def can_fail(self) -> bool:
        """True if the kernel reports errors in values by its last operand, the flag: an index out of range or a negative exponent."""
        return self.operands[-1].flag

    @property
    def is_interruptible(self) -> bool:
        """True if the kernel polls for a stop request while it runs, because one iteration of the split loop (`split_axis`) may take
        arbitrarily long.

        Contractions poll, and running and user-defined reductions, argmax and argmin, and writes in order. Other kernels do not: large sums
        and similar reductions are divided into parts before they become kernels.
        """
        loops = (s for s in iterate_statements(self.body) if isinstance(s, For) and not self.axes[s.axis].parallel)
        return (
            self.contraction is not None
            or any(f.reduction.name not in COMBINING_OPS for f in self.accumulators)
            or any(isinstance(inner, (Accumulate, Store)) for s in loops for inner in iterate_statements(s.body))
        )

    @property
    def contraction(self) -> Contraction | None:
        """The contraction that the kernel computes, or None."""
        return next((s for s in iterate_statements(self.body) if isinstance(s, Contraction)), None)

    @property
    def split_axis(self) -> int:
        """The axis whose loop may run in pieces, or -1: the shared axis of a contraction, or else the axis of the outermost loop.

        The outermost loop may run in pieces if it is the only outermost statement, is not marked `is_undivided`, and its iterations are
        parallel or write in order (`Accumulate`).
        """
        product = self.contraction
        if product is not None and product.shared_axis >= 0:
            return product.shared_axis
        outer = self.body[0]
        if len(self.body) > 1 or not isinstance(outer, For) or outer.is_undivided:
            return -1
        writes = any(isinstance(s, Accumulate) for s in iterate_statements(outer.body))
        return outer.axis if writes or self.axes[outer.axis].parallel else -1

    @property
    def shared_axis(self) -> int:
        """The axis whose loop several threads may run in pieces, in any order; -1 if the kernel has no such loop."""
        return self.split_axis if self.split_axis >= 0 and self.axes[self.split_axis].parallel else -1

    def choose_grain(self, sharing: ThreadLimits) -> int:
        """Return the grain of the split loop: the chunks that threads take are multiples of this number of iterations.

        `split_axis` must be 0 or more. `sharing` has the thresholds of the target. The grain of a loop over blocks of columns (`For.block`)
        is a block, or `min_block_columns` if that is less: so each thread reads long runs of memory. The grain of another outermost loop is
        `step_grain` with lanes, else 1. The grain of a contraction is `step_grain` if the split axis has lanes, else `row_grain`.
        """
        loop = self.body[0]
        if isinstance(loop, For) and loop.axis == self.split_axis:
            return min(loop.block, sharing.min_block_columns) or (sharing.step_grain if self.axes[loop.axis].vector else 1)
        return sharing.step_grain if self.axes[self.split_axis].vector else sharing.row_grain
