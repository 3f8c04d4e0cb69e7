"""Writes at indices: in place, or into new tensors; the last value for an element stays, or all are reduced into it.

Values are taken in their order, so that results never depend on how many threads there are. Indices of what is written at
once are looked at before anything is; others as those of a gather.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any, Self

from ..dtypes import DType, Number, boolean, of_number
from ..errors import DTypeError
from ..layout import Layout
from ..node import Node, Scalar, scatter
from ..ops import OPS
from ..ops.reductions import REDUCTIONS, Reduction
from ..plans.indices import wrong_index
from ..realize import lock, realize
from .core import KINDS, Core, Places, broadcast_layout
from .gathering import FEW, Gathering, Reached, outside

# Where many values meet at few elements, so many parts of them are reduced on their own; there are so many for an element.
PARTS, MANY, FAR_MORE = 16, 1 << 18, 256
_OF_BOOLEANS = {"sum": "any", "prod": "all", "max": "any", "min": "all"}
_IN_WIDTH = {"sum": "sum_in_width", "prod": "prod", "max": "max", "min": "min"}
_COMBINES = {
    "sum_in_width": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}


class Scattering(Gathering):
    """Elements written at indices."""

    __slots__ = ()

    def _scatter(self, op: str, reached: Reached, value: Core | Number, reduce: str | None = None) -> None:
        """Write a value where indices reach in this storage. With `reduce`, a reduction's name, it is reduced into what is there."""
        reduction = self._reduction(op, reduce, value)
        if reduction is None:
            self._check_writable(value, op)
        source, through = self._source_of(value, op, reached.shape)
        layout = self.layout
        with lock:  # or indices could change after they were looked at
            at_once = self.storage.node.buffer is not None
            checked = self._look(reached, many=at_once, pending=at_once)
            if 0 in reached.shape:
                return
            if reduction is not None and layout.is_contiguous() and _meeting_axis(reached, layout.size) is not None:
                rows = Layout(reached.layout.shape, reached.layout.strides, reached.layout.offset - layout.offset)
                self._write(self._scattered(op, reached._replace(layout=rows, known=checked), value, reduce), op)
                return
            how = scatter(reached.op, reduction, reached.axes, checked)
            places = Places(how, reached.layout, reached.indices, reached.throughs)
            self._store(source, through, self._pinned(), places)

    def _scattered(self, op: str, reached: Reached, value: Core | Number, reduce: str | None = None) -> Self:
        """New tensor: this one's elements, with a value written as `_scatter` does; indices reach in a row-major copy."""
        reduction = self._reduction(op, reduce, value)
        axis = None if reduction is None else _meeting_axis(reached, self.layout.size)
        if reduction is None or axis is None:
            return self._scattered_in_order(op, reached, value, reduction)
        if isinstance(value, Core):
            value = value._view(broadcast_layout(value.layout, reached.shape, op))
        size, count = self.layout.size, reached.shape[axis]
        whole = count - count % PARTS
        shape = (PARTS, *self.layout.shape)
        start = Scalar(identity_of(reduction, self.dtype), self.dtype)
        parts = self._of(Node.of(OPS["cast"], shape, self.dtype, (start,), (None,)))
        cut, its = _cut(reached, value, axis, slice(0, whole))
        if isinstance(its, Core):
            its = its._view(its.layout.unflatten(axis, (PARTS, -1)))
        parts = parts._scattered_in_order(op, _apart(cut, axis, size), its, reduction)
        rows = parts.layout.permute((*range(1, len(shape)), 0))
        total = Node.of(reduction, self.layout.shape, self.dtype, (parts.node,), (rows,))
        found = self._compute(OPS[_COMBINES[reduction.name]], self, self._of(total))
        if whole == count:
            return found
        return found._scattered_in_order(op, *_cut(reached, value, axis, slice(whole, count)), reduction)

    def _scattered_in_order(self, op: str, reached: Reached, value: Core | Number, reduction: Reduction | None) -> Self:
        """The same, with each element taking its values one after the other."""
        source, through = self._source_of(value, op, reached.shape)
        with lock:
            fresh = self.storage.node.buffer is None
            found = self.copy()  # type: ignore[attr-defined]
            checked = self._look(reached, many=fresh, pending=False)  # what is fresh may be written itself
            if 0 in reached.shape:
                return found  # type: ignore[no-any-return]
            how = scatter(reached.op, reduction, reached.axes, checked)
            node = found._stored(source, through, False, Places(how, reached.layout, reached.indices, reached.throughs))
            return self._of(node)._view(found.layout)

    def _reduction(self, op: str, reduce: str | None, value: Core | Number) -> Reduction | None:
        """How values are reduced into elements of this dtype, which must be able to hold what comes of it."""
        if reduce is None:
            return None
        given = value.dtype if isinstance(value, Core) else of_number(value)
        if KINDS[given.kind] > KINDS[self.dtype.kind]:
            raise DTypeError(
                f"{op}: values of {given} do not fit into {self.dtype}; convert one of them, for example by x.astype({given})"
            )
        found = REDUCTIONS[_OF_BOOLEANS[reduce] if self.dtype is boolean else _IN_WIDTH[reduce]]
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


def identity_of(reduction: Reduction, dtype: DType) -> Number:
    """The identity of a reduction, as an element of a dtype."""
    if reduction.name in ("max", "min"):
        least = reduction.name == "max"
        return (-inf if least else inf) if dtype.is_float else dtype.lowest if least else dtype.highest
    return int(reduction.name in ("prod", "all"))


def _meeting_axis(reached: Reached, size: int) -> int | None:
    """The longest axis whose values all meet at the same elements, of `size`, if there are very many for each of these."""
    layout, shape = reached.layout, reached.shape
    if layout.base is not None or layout.tables is not None or prod(shape) < max(MANY, FAR_MORE * size):
        return None
    meet = [axis for axis, n in enumerate(shape) if layout.strides[axis] == 0 and n >= MANY // FAR_MORE]
    return max(meet, key=lambda axis: shape[axis], default=None)


def _cut(reached: Reached, value: Any, axis: int, part: slice) -> tuple[Reached, Any]:
    """Some of what is reached, and the values for it."""
    key = (*[slice(None)] * axis, part)
    throughs = tuple([x.index(key) for x in reached.throughs])
    cut = reached._replace(layout=reached.layout.index(key), throughs=throughs)
    return cut, value._view(value.layout.index(key)) if isinstance(value, Core) else value


def _apart(reached: Reached, axis: int, size: int) -> Reached:
    """What is reached when so many elements are there once for each part of an axis."""
    layout = reached.layout.unflatten(axis, (PARTS, -1))
    strides = tuple([size if k == axis else step for k, step in enumerate(layout.strides)])
    throughs = tuple([x.unflatten(axis, (PARTS, -1)) for x in reached.throughs])
    return reached._replace(layout=Layout(layout.shape, strides, layout.offset), throughs=throughs)


def _first_outside(index: Any, size: int) -> int | None:
    """The first of many indices that is out of range, if there is one: a kernel looks at them."""
    realize(index.storage.node)
    beyond = index._compute(OPS["greater_equal"], index, size)
    if index.dtype.kind == "int":
        beyond = beyond._compute(OPS["logical_or"], beyond, index._compute(OPS["less"], index, -size))
    return outside(index.to_numpy(), size) if bool(beyond.any()) else None
