"""Writes at indices: in place, or into new tensors; the last value for an element stays, or all are joined to it.

Values are taken in their order, so that results never depend on how many threads there are. Indices of what is written at
once are looked at before anything is; others as those of a gather.
"""

from __future__ import annotations

from typing import Any, Self

from ..dtypes import Number, boolean, of_number
from ..errors import DTypeError
from ..indices import wrong_index
from ..layout import Layout
from ..node import Node, scatter
from ..ops import OPS
from ..realize import lock, realize
from ..reductions import REDUCTIONS, Reduction
from .core import KINDS, Core
from .gathering import FEW, Gathering, Reached, outside

_OF_BOOLEANS = {"sum": "any", "prod": "all", "max": "any", "min": "all"}
_JOINS = {"sum": "sum_in_width", "prod": "prod", "max": "max", "min": "min"}


class Scattering(Gathering):
    """Elements written at indices."""

    __slots__ = ()

    def _scatter(self, op: str, reached: Reached, value: Core | Number, join: str | None = None) -> None:
        """Write a value where indices reach in this storage. With `join`, a reduction's name, it is joined to what is there."""
        reduction = self._reduction(op, join, value)
        if reduction is None:
            self._check_writable(value, op)
        source, through = self._source_of(value, op, reached.shape)
        at_once = self.storage.node.buffer is not None
        checked = self._look(reached, many=at_once, pending=at_once)
        if 0 in reached.shape:
            return
        how = scatter(reached.op, reduction, reached.axes, checked)
        with lock:
            self._store(source, through, self._pinned(), (how, reached.layout, reached.indices, reached.throughs))

    def _scattered(self, op: str, reached: Reached, value: Core | Number, join: str | None = None) -> Self:
        """New tensor: this one's elements, with a value written as `_scatter` does; indices reach in a row-major copy."""
        reduction = self._reduction(op, join, value)
        source, through = self._source_of(value, op, reached.shape)
        fresh = self.storage.node.buffer is None
        found = self.copy()  # type: ignore[attr-defined]
        checked = self._look(reached, many=fresh, pending=False)  # what is fresh may be written itself
        if 0 in reached.shape:
            return found  # type: ignore[no-any-return]
        source, through = self._node_of(source, through, reached.shape)
        how = scatter(reached.op, reduction, reached.axes, checked)
        old = found.node
        layouts = (Layout.contiguous((old.size,)), through, *reached.throughs)
        sources = (old, source, *[i.node for i in reached.indices])
        return self._of(Node(how, self.layout.shape, self.dtype, sources, layouts, reached.layout))

    def _reduction(self, op: str, join: str | None, value: Core | Number) -> Reduction | None:
        """How a value is joined to elements of this dtype, which must be able to hold what comes of it."""
        if join is None:
            return None
        given = value.dtype if isinstance(value, Core) else of_number(value)
        if KINDS[given.kind] > KINDS[self.dtype.kind]:
            raise DTypeError(
                f"{op}: values of {given} do not fit into {self.dtype}; convert one of them, for example by x.astype({given})"
            )
        found = REDUCTIONS[_OF_BOOLEANS[join] if self.dtype is boolean else _JOINS[join]]
        found.check(op, self.dtype)
        return found

    def _look(self, reached: Reached, *, many: bool, pending: bool) -> bool:
        """Whether the indices are known to be in range; one that is found not to be raises an error. Few that are in memory are
        looked at in any case, and `many`, and those that are `pending`, if that is asked for.
        """
        if reached.known:
            return True
        known, never = True, 0 in reached.shape  # written, so they are looked at now
        for axis, size, index in zip(reached.axes, reached.sizes, reached.indices, strict=True):
            few = index.layout.size <= FEW
            if not (never or ((few or many) and (pending or index.storage.node.buffer is not None))):
                known = False
                continue
            wrong = outside(index.to_numpy(), size) if few else _first_outside(index, size)  # type: ignore[attr-defined]
            if wrong is not None:
                raise wrong_index(reached.op, wrong, axis, size)
        return known


def _first_outside(index: Any, size: int) -> int | None:
    """The first of many indices that is out of range, if there is one: a kernel looks at them."""
    realize(index.storage.node)
    beyond = index._compute(OPS["greater_equal"], index, size)
    if index.dtype.kind == "int":
        beyond = beyond._compute(OPS["logical_or"], beyond, index._compute(OPS["less"], index, -size))
    return outside(index.to_numpy(), size) if bool(beyond.any()) else None
