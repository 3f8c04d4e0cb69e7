"""`Kernel`: a pattern of loops, as a value."""

from __future__ import annotations

from ...dtypes import DType
from ...ops.reductions import COMBINED_BY
from ...records import NamedTuple
from ...target import Sharing
from .loops import Accumulate, Accumulator, Axis, For, Operand, Product, Statement, Store, statements
from .text import program


class Kernel(NamedTuple):
    """A compiled pattern's source: equal patterns are equal kernels."""

    name: str
    operands: tuple[Operand, ...]
    tables: int
    scalars: tuple[DType, ...]
    sizes: int
    axes: tuple[Axis, ...]
    accumulators: tuple[Accumulator, ...]
    body: tuple[Statement, ...]

    def __str__(self) -> str:
        return "\n".join(program(self.name, self.operands, self.scalars, self.axes, self.accumulators, self.body))

    @property
    def itemsizes(self) -> tuple[int, ...]:
        """Of the elements of each operand, in bytes."""
        return tuple([operand.dtype.itemsize for operand in self.operands])

    @property
    def flagged(self) -> bool:
        """Whether it looks up indices, which may be out of range: its last operand tells."""
        return self.operands[-1].flag

    @property
    def listens(self) -> bool:
        """Whether it looks, as it runs, if it is to stop: for where nothing else bounds how long one turn of the shared loop takes.

        Large sums and the like are cut into parts before there is a kernel; products, running and user-defined reductions, searches for
        places, and writes in order are not.
        """
        loops = (s for s in statements(self.body) if isinstance(s, For) and not self.axes[s.axis].parallel)
        return (
            self.product is not None
            or any(f.reduction.name not in COMBINED_BY for f in self.accumulators)
            or any(isinstance(inner, (Accumulate, Store)) for s in loops for inner in statements(s.body))
        )

    @property
    def product(self) -> Product | None:
        """The product that the kernel computes, if it does."""
        return next((s for s in statements(self.body) if isinstance(s, Product)), None)

    @property
    def split(self) -> int:
        """The axis whose loop may run in pieces: that of a product, else the outermost if its turns are parallel, or write in order;
        -1 if there is none.
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
        """The same if threads may have the pieces, in any order; else -1."""
        return self.split if self.split >= 0 and self.axes[self.split].parallel else -1

    def grain(self, sharing: Sharing) -> int:
        """How many steps of the split loop a piece has at least: what reads along rows reads long pieces of them."""
        loop = self.body[0]
        if isinstance(loop, For) and loop.axis == self.split:
            return min(loop.block, sharing.longest) or (sharing.steps if self.axes[loop.axis].vector else 1)
        return sharing.steps if self.axes[self.split].vector else sharing.rows
