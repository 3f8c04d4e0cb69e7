"""Writes at indices, in place or into new tensors. Several values for an element are reduced into the element, or the last value stays.

Values are taken in order, so results do not depend on the number of threads. If memory is overwritten at once, the indices are checked
first; otherwise they are checked as for a gather.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any, Self

from ..dtypes import DType, Number, boolean, of_number
from ..errors import DTypeError
from ..late import Late
from ..layout import Layout
from ..node import Node, Scalar, scatter
from ..ops import OPS
from ..ops.reductions import COMBINED_BY, REDUCTIONS, Reduction
from ..realize import lock, realize
from .core import KINDS, Core
from .gathering import FEW, Gathering, Selection, outside
from .writing import Places, broadcast_layout

wrong_index = Late("tenxor.plans.indices").wrong_index

# Many values for few elements are reduced in PARTS separate parts, if there are at least MANY values and FAR_MORE for each element.
PARTS, MANY, FAR_MORE = 16, 1 << 18, 256
MORE_PARTS, HUGE = 1024, 1 << 28  # parts of more than HUGE values; signals are handled between two parts
_OF_BOOLEANS = {"sum": "any", "prod": "all", "max": "any", "min": "all"}
_IN_WIDTH = {"sum": "sum_in_width", "prod": "prod", "max": "max", "min": "min"}


class Scattering(Gathering):
    """The base methods of `Tensor` that write at indices."""

    __slots__ = ()

    def _scatter(self, op: str, selection: Selection, value: Core | Number, reduce: str | None = None) -> None:
        """Write a value to a selection of this storage, in place. With `reduce`, the name of a reduction, reduce it into the elements."""
        reduction = self._reduction(op, reduce, value)
        if reduction is None:
            self._check_writable(value, op)
        source, through = self._source_of(value, op, selection.shape)
        layout = self.layout
        with lock:  # the indices must not change after they were checked
            at_once = self.storage.node.buffer is not None
            checked = self._look(selection, many=at_once, pending=at_once)
            if 0 in selection.shape:
                return
            if reduction is not None and layout.is_contiguous() and _meeting_axis(selection, layout.size) is not None:
                rows = Layout(selection.layout.shape, selection.layout.strides, selection.layout.offset - layout.offset)
                self._write(self._scattered(op, selection._replace(layout=rows, known=checked), value, reduce), op)
                return
            self._store(source, through, self._pinned(), _places(selection, reduction, checked))

    def _scattered(self, op: str, selection: Selection, value: Core | Number, reduce: str | None = None) -> Self:
        """Return a new tensor: this tensor with a value written as by `_scatter`. The selection refers to a row-major copy of this tensor.
        """
        reduction = self._reduction(op, reduce, value)
        axis = None if reduction is None else _meeting_axis(selection, self.layout.size)
        if reduction is None or axis is None:
            return self._scattered_in_order(op, selection, value, reduction)
        if isinstance(value, Core):
            value = value._view(broadcast_layout(value.layout, selection.shape, op))
        size, count = self.layout.size, selection.shape[axis]
        huge = prod(selection.shape) > max(HUGE, FAR_MORE * MORE_PARTS * size) and count >= MORE_PARTS
        many = MORE_PARTS if huge else PARTS
        whole = count - count % many
        shape = (many, *self.layout.shape)
        start = Scalar(identity_of(reduction, self.dtype), self.dtype)
        parts = self._of(Node.of(OPS["cast"], shape, self.dtype, (start,), (None,)))
        cut, its = _cut(selection, value, axis, slice(0, whole))
        if isinstance(its, Core):
            its = its._view(its.layout.unflatten(axis, (many, -1)))
        parts = parts._scattered_in_order(op, _apart(cut, axis, many, size), its, reduction)
        rows = parts.layout.permute((*range(1, len(shape)), 0))
        total = Node.of(reduction, self.layout.shape, self.dtype, (parts.node,), (rows,))
        found = self._compute(OPS[COMBINED_BY[reduction.name]], self, self._of(total))
        if whole == count:
            return found
        return found._scattered_in_order(op, *_cut(selection, value, axis, slice(whole, count)), reduction)

    def _scattered_in_order(
        self, op: str, selection: Selection, value: Core | Number, reduction: Reduction | None
    ) -> Self:
        """Return a new tensor: this tensor with a value written at a selection. Each element takes its values in order."""
        source, through = self._source_of(value, op, selection.shape)
        with lock:
            fresh = self.storage.node.buffer is None
            found = self.copy()  # type: ignore[attr-defined]
            checked = self._look(selection, many=fresh, pending=False)  # the update may overwrite the operand's memory
            if 0 in selection.shape:
                return found  # type: ignore[no-any-return]
            node = found._stored(source, through, False, _places(selection, reduction, checked))
            return self._of(node)._view(found.layout)

    def _reduction(self, op: str, reduce: str | None, value: Core | Number) -> Reduction | None:
        """Return the reduction called `reduce` for elements of this dtype; None for None. Raise DTypeError if the dtype cannot hold the
        values.
        """
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

    def _look(self, selection: Selection, *, many: bool, pending: bool) -> bool:
        """Return whether the indices are known to be in range. Raise IndexOutOfRange for an index found out of range.

        Few indices in memory are always checked. `many` extends the check to any number in memory, `pending` to pending indices. Traced
        indices have no values: the kernel checks the indices of the batch.
        """
        if selection.known:
            return True
        known, never = True, 0 in selection.shape  # an empty selection is never evaluated, so the indices are checked now
        for axis, size, index in zip(selection.axes, selection.sizes, selection.indices, strict=True):
            few = index.layout.size <= FEW
            if index.node.traced or not (never or ((few or many) and (pending or index.storage.node.buffer is not None))):
                known = False
                continue
            wrong = outside(index.to_numpy(), size) if few else _first_outside(index, size)  # type: ignore[attr-defined]
            if wrong is not None:
                raise wrong_index(selection.op, wrong, axis, size)
        return known


def identity_of(reduction: Reduction, dtype: DType) -> Number:
    """Return the identity of a reduction, as an element of a dtype."""
    if reduction.name in ("max", "min"):
        least = reduction.name == "max"
        return (-inf if least else inf) if dtype.is_float else dtype.lowest if least else dtype.highest
    return int(reduction.name in ("prod", "all"))


def _places(selection: Selection, reduction: Reduction | None, known: bool) -> Places:
    """Return a description of a write at a selection, whose indices are `known` to be in range or not."""
    how = scatter(selection.op, reduction, selection.axes, known)
    return Places(how, selection.layout, selection.indices, selection.throughs)


def _meeting_axis(selection: Selection, size: int) -> int | None:
    """Return the longest axis along which the target elements do not change, or None.

    None is returned unless there are very many values for each of the `size` elements.
    """
    layout, shape = selection.layout, selection.shape
    if layout.base is not None or layout.tables is not None or prod(shape) < max(MANY, FAR_MORE * size):
        return None
    meet = [axis for axis, n in enumerate(shape) if layout.strides[axis] == 0 and n >= MANY // FAR_MORE]
    return max(meet, key=lambda axis: shape[axis], default=None)


def _cut(selection: Selection, value: Any, axis: int, part: slice) -> tuple[Selection, Any]:
    """Return a slice of a selection along an axis, with the values for it."""
    key = (*[slice(None)] * axis, part)
    throughs = tuple([x.index(key) for x in selection.throughs])
    cut = selection._replace(layout=selection.layout.index(key), throughs=throughs)
    return cut, value._view(value.layout.index(key)) if isinstance(value, Core) else value


def _apart(selection: Selection, axis: int, parts: int, size: int) -> Selection:
    """Return the selection into a larger tensor that has the `size` elements once for each of `parts` parts of an axis."""
    layout = selection.layout.unflatten(axis, (parts, -1))
    strides = tuple([size if k == axis else step for k, step in enumerate(layout.strides)])
    throughs = tuple([x.unflatten(axis, (parts, -1)) for x in selection.throughs])
    return selection._replace(layout=Layout(layout.shape, strides, layout.offset), throughs=throughs)


def _first_outside(index: Any, size: int) -> int | None:
    """Return the first out-of-range index, or None. A kernel tests the indices, since they are many."""
    realize(index.storage.node)
    beyond = index._compute(OPS["greater_equal"], index, size)
    if index.dtype.kind == "int":
        beyond = beyond._compute(OPS["logical_or"], beyond, index._compute(OPS["less"], index, -size))
    return outside(index.to_numpy(), size) if bool(beyond.any()) else None
