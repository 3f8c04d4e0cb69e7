"""Values reduced into elements at indices: `index_add`, `scatter_add`, `scatter_reduce`, and `t.at[...]` for any key.

An element that is named several times takes all the values for it, in their order, as with NumPy's `ufunc.at`. Names that end
in `_` work in place; through a view that has one element in several places, too.
"""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

from ..dtypes import boolean, int64
from ..errors import ArgumentError, DTypeError, described
from ..keywords import spelled
from ..layout import Layout
from ..node import Node, Scalar
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from .arguments import axis_of
from .core import Core, Key, Operand
from .gathering import Selection
from .indexing import Indexing
from .scattering import identity_of

T = TypeVar("T", bound="Accumulating")
_REDUCES = {"sum": "sum", "prod": "prod", "amax": "max", "amin": "min", "max": "max", "min": "min"}  # as users say them


class At(Generic[T]):
    """`t.at[key]`: what the methods below give is a new tensor, with values written at a key of NumPy's."""

    __slots__ = ("key", "tensor")

    def __init__(self, tensor: T, key: Any = ...) -> None:
        self.tensor, self.key = tensor, key

    def __getitem__(self, key: Key) -> At[T]:
        return At(self.tensor, key)

    def _written(self, op: str, value: Any, reduce: str | None) -> T:
        t = self.tensor
        selection = t._selection(op, Layout.contiguous(t.layout.shape), self.key)
        return t._scattered(op, selection, t._operand(value, op), reduce)

    def set(self, value: Operand) -> T:
        """New tensor: with the value there, the last one where there are several."""
        return self._written("at.set", value, None)

    def add(self, value: Operand) -> T:
        """New tensor: with all values for an element added to it."""
        return self._written("at.add", value, "sum")

    def multiply(self, value: Operand) -> T:
        """New tensor: with an element multiplied by all values for it."""
        return self._written("at.multiply", value, "prod")

    def min(self, value: Operand) -> T:
        """New tensor: with the least of an element and the values for it."""
        return self._written("at.min", value, "min")

    def max(self, value: Operand) -> T:
        """New tensor: with the greatest of an element and the values for it."""
        return self._written("at.max", value, "max")


class Accumulating(Indexing):
    """Elements that take values at indices."""

    __slots__ = ()

    @property
    def at(self) -> At[Self]:
        """New tensors with values written at indices: `t.at[key].set(v)`, and `add`, `multiply`, `min` and `max`, which take all
        the values for an element; `key` is one of NumPy's.

        >>> import tenxor as tx
        >>> tx.zeros(4).at[[1, 1, -1]].add([1.0, 2.0, 5.0]).tolist()
        [0.0, 3.0, 0.0, 5.0]
        """
        return At(self)

    @spelled
    def index_add(
        self,
        axis: int | None = None,
        index: Operand | None = None,
        source: Operand | None = None,
        *,
        dim: int | None = None,
        alpha: Operand = 1,
    ) -> Self:
        """New tensor: these elements, with `alpha * source` added at indices along an axis; see `tx.index_add`."""
        selection = self._rows("index_add", Layout.contiguous(self.layout.shape), axis, index, source)
        return self._scattered("index_add", selection, self._times("index_add", source, alpha), "sum")

    @spelled
    def index_add_(
        self,
        axis: int | None = None,
        index: Operand | None = None,
        source: Operand | None = None,
        *,
        dim: int | None = None,
        alpha: Operand = 1,
    ) -> Self:
        """Add `alpha * source` at indices along an axis, in place; gives itself back. See `tx.index_add`."""
        selection = self._rows("index_add_", self.layout, axis, index, source)
        self._scatter("index_add_", selection, self._times("index_add_", source, alpha), "sum")
        return self

    @spelled
    def scatter_add(
        self, axis: int | None = None, index: Operand | None = None, src: Operand | None = None, *, dim: int | None = None
    ) -> Self:
        """New tensor: these elements, with those of `src` added at indices along an axis; see `tx.scatter_add`."""
        selection = self._along("scatter_add", Layout.contiguous(self.layout.shape), axis, index, src)
        return self._scattered("scatter_add", selection, self._operand(src, "scatter_add"), "sum")

    @spelled
    def scatter_add_(
        self, axis: int | None = None, index: Operand | None = None, src: Operand | None = None, *, dim: int | None = None
    ) -> Self:
        """Add those of `src` at indices along an axis, in place; gives itself back. See `tx.scatter_add`."""
        selection = self._along("scatter_add_", self.layout, axis, index, src)
        self._scatter("scatter_add_", selection, self._operand(src, "scatter_add_"), "sum")
        return self

    @spelled
    def scatter_reduce(
        self,
        axis: int | None = None,
        index: Operand | None = None,
        src: Operand | None = None,
        reduce: str | None = None,
        *,
        dim: int | None = None,
        include_self: bool = True,
    ) -> Self:
        """New tensor: these elements, each reduced with those of `src` for it; see `tx.scatter_reduce`."""
        op = "scatter_reduce"
        selection = self._along(op, Layout.contiguous(self.layout.shape), axis, index, src)
        name, value = _reduction_named(op, reduce), self._operand(src, op)
        if name == "mean":
            return self._averaged(op, selection, value, include_self)
        start = self if include_self else self._scattered(op, selection, identity_of(REDUCTIONS[name], self.dtype))
        return start._scattered(op, selection, value, name)

    @spelled
    def scatter_reduce_(
        self,
        axis: int | None = None,
        index: Operand | None = None,
        src: Operand | None = None,
        reduce: str | None = None,
        *,
        dim: int | None = None,
        include_self: bool = True,
    ) -> Self:
        """Reduce each element with those of `src` for it, in place; gives itself back. See `tx.scatter_reduce`."""
        name = _reduction_named("scatter_reduce_", reduce)
        if include_self and name != "mean":
            selection = self._along("scatter_reduce_", self.layout, axis, index, src)
            self._scatter("scatter_reduce_", selection, self._operand(src, "scatter_reduce_"), name)
        else:
            found = self.scatter_reduce(axis, index, src, reduce, include_self=include_self)
            self._write(found, "scatter_reduce_")
        return self

    # How they do it

    def _rows(self, op: str, layout: Layout, axis: Any, index: Any, values: Any) -> Selection:
        """What indices along an axis select."""
        axis = self._axis(op, axis, index, values)
        return self._select(op, layout, (axis,), (self._indices(op, index),), axis, (axis,))

    def _along(self, op: str, layout: Layout, axis: Any, index: Any, values: Any) -> Selection:
        """What indices select that say for each place of the other axes which elements."""
        axis = self._axis(op, axis, index, values)
        return self._select_along(op, layout, index, axis)

    def _axis(self, op: str, axis: Any, index: Any, values: Any) -> int:
        if axis is None or index is None or values is None:
            raise ArgumentError(f"{op}: takes an axis, indices along it and values: x.{op}(axis, index, values)")
        return axis_of(op, axis, self.layout.ndim)

    def _times(self, op: str, source: Any, alpha: Any) -> Any:
        value = self._operand(source, op)
        if type(alpha) is int and alpha == 1:
            return value
        return (
            self._compute(OPS["multiply"], value, self._operand(alpha, op))
            if isinstance(value, Core)
            else value * alpha
        )

    def _averaged(self, op: str, selection: Selection, value: Any, include_self: bool) -> Self:
        """New tensor: the mean of each element and the values for it; of integers it is rounded down."""
        if self.dtype is boolean:
            raise DTypeError(f"{op}: there is no mean of bools; use x.astype(tx.float32)")
        start = self if include_self else self._scattered(op, selection, 0)
        total = start._scattered(op, selection, value, "sum")
        once = Scalar(int(include_self), int64)
        counts = self._of(Node.of(OPS["cast"], self.layout.shape, int64, (once,), (None,)))
        counts = self._compute(OPS["maximum"], counts._scattered(op, selection, 1, "sum"), 1)
        counts = counts.astype(self.dtype.part)  # type: ignore[attr-defined]
        divide = OPS["floor_divide"] if self.dtype.is_integer else OPS["divide_by_real"]
        return self._compute(divide, total, counts)


def _reduction_named(op: str, reduce: str | None) -> str:
    if not isinstance(reduce, str) or (reduce != "mean" and reduce not in _REDUCES):
        raise ArgumentError(f"{op}: reduce is one of {', '.join(_REDUCES)} and mean, not {described(reduce)}")
    return _REDUCES.get(reduce, "mean")
