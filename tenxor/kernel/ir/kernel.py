"""`Kernel`, a compiled pattern of loops as an immutable value."""

from __future__ import annotations

from ...dtypes import DType
from ...ops.reductions import COMBINED_BY
from ...records import NamedTuple
from ...target import Sharing
from .loops import Accumulate, Accumulator, Axis, For, Operand, Product, Statement, Store, statements
from .text import program


class Kernel(NamedTuple):
    """A kernel in the loop IR, without sizes, strides, offsets or scalars. Equal patterns are equal kernels.

    `tables` and `sizes` are the numbers of table and size parameters, and `scalars` are the dtypes of the scalar parameters. `axes`,
    `operands` and `accumulators` are numbered by their position; `body` refers to them by these numbers.
    """

    name: str
    operands: tuple[Operand, ...]
    tables: int
    scalars: tuple[DType, ...]
    sizes: int
    axes: tuple[Axis, ...]
    accumulators: tuple[Accumulator, ...]
    body: tuple[Statement, ...]

    def __str__(self) -> str:
        """Return the kernel as the text of a small program, for people to read."""
        return "\n".join(program(self.name, self.operands, self.scalars, self.axes, self.accumulators, self.body))

    @property
    def itemsizes(self) -> tuple[int, ...]:
        """The size in bytes of an element of each operand."""
        return tuple([operand.dtype.itemsize for operand in self.operands])

    @property
    def flagged(self) -> bool:
        """True if the kernel reports errors in values by its last operand, the flag: an index out of range or a negative exponent."""
        return self.operands[-1].flag

    @property
    def listens(self) -> bool:
        """True if the kernel polls for a stop request while it runs, because one iteration of the split loop may take arbitrarily long.

        Large sums and similar reductions are divided into parts before they become kernels. Contractions, running and user-defined
        reductions, argmax and argmin, and writes in order are not.
        """
        loops = (s for s in statements(self.body) if isinstance(s, For) and not self.axes[s.axis].parallel)
        return (
            self.product is not None
            or any(f.reduction.name not in COMBINED_BY for f in self.accumulators)
            or any(isinstance(inner, (Accumulate, Store)) for s in loops for inner in statements(s.body))
        )

    @property
    def product(self) -> Product | None:
        """The contraction that the kernel computes, or None."""
        return next((s for s in statements(self.body) if isinstance(s, Product)), None)

    @property
    def split(self) -> int:
        """The axis whose loop may run in pieces, or -1: the shared axis of a contraction, or else the axis of the outermost loop.

        The outermost loop may run in pieces if it is the only outermost statement, is not marked `whole`, and its iterations are parallel
        or write in order (`Accumulate`).
        """
        product = self.product
        if product is not None and product.shared >= 0:
            return product.shared
        outer = self.body[0]
        if len(self.body) > 1 or not isinstance(outer, For) or outer.whole:
            return -1
        writes = any(isinstance(s, Accumulate) for s in statements(outer.body))
        return outer.axis if writes or self.axes[outer.axis].parallel else -1

    @property
    def shared(self) -> int:
        """The axis whose loop several threads may run in pieces, in any order; -1 if the kernel has no such loop."""
        return self.split if self.split >= 0 and self.axes[self.split].parallel else -1

    def grain(self, sharing: Sharing) -> int:
        """Return the minimal number of iterations of the split loop in one piece.

        A loop over blocks of columns gets long pieces, at most a block, so each thread reads long runs of memory.
        """
        loop = self.body[0]
        if isinstance(loop, For) and loop.axis == self.split:
            return min(loop.block, sharing.longest) or (sharing.steps if self.axes[loop.axis].vector else 1)
        return sharing.steps if self.axes[self.split].vector else sharing.rows
