"""An independent model of tensors that share memory: index maps over flat Python lists, executed eagerly.

A storage is a list of Python numbers. A tensor is a storage, a shape, and for each of its elements in turn
the position of the cell it lives in. A move picks elements of its parent by their row-major number, so every
move is one call of `_pick`; a write assigns cells one by one. Nothing is ever pending: what a program means
here is what it says, line by line.

The module speaks Tenxor's names, so that one line of a program runs in both worlds: `tx` is this module or
the library, and `np` is `numpy_face` or NumPy.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any

from .cells import Number, Parts, Storage
from .counting import Shape, broadcast, is_affine, ramp, row_major, sums
from .keys import At, Keys, Orthogonal

int64 = "int64"
float64 = "float64"
complex128 = "complex128"
bool_ = "bool"
RANK = {bool_: 0, int64: 1, float64: 2, complex128: 3}
DTYPE_OF = {bool: bool_, int: int64, float: float64, complex: complex128}
CAST: dict[str, Callable[[Any], Number]] = {bool_: bool, int64: int, float64: float, complex128: complex}


class ReadOnlyError(Exception):
    """A write through a view in which several elements share a cell."""


def wrap(value: Number, dtype: str) -> Number:
    return CAST[dtype](value)


class Tensor:
    """Elements of one storage, in an order and a shape; `strided` says that NumPy could hold the view."""

    __slots__ = ("positions", "shape", "storage", "strided")

    def __init__(self, storage: Storage, positions: list[int], shape: Shape, strided: bool = True) -> None:
        assert len(positions) == prod(shape)
        self.storage = storage
        self.positions = positions
        self.shape = shape
        self.strided = strided

    # What it is

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return len(self.positions)

    @property
    def dtype(self) -> str:
        return self.storage.dtype

    @property
    def injective(self) -> bool:
        return len(set(self.positions)) == len(self.positions)

    @property
    def flags(self) -> SimpleNamespace:
        return SimpleNamespace(writeable=self.injective)

    # Reading

    def values(self) -> list[Number]:
        cells = self.storage.cells
        return [cells[p] for p in self.positions]

    def tolist(self) -> Any:
        nested: list[Any] = self.values()
        if not self.shape:
            return nested[0]
        for axis in range(self.ndim - 1, 0, -1):
            size = self.shape[axis]
            nested = [nested[i * size : (i + 1) * size] for i in range(prod(self.shape[:axis]))]
        return nested

    def item(self) -> Number:
        (value,) = self.values()
        return value

    def to_numpy(self) -> Tensor:
        return self.copy()

    def realize(self) -> Tensor:
        return self

    def copy(self) -> Tensor:
        return fresh(self.values(), self.shape, self.dtype)

    # Moves

    def _pick(self, shape: Iterable[int], numbers: list[int], strided: bool = True) -> Tensor:
        """A view of the elements with these row-major numbers."""
        positions = [self.positions[n] for n in numbers]
        return Tensor(self.storage, positions, tuple(shape), self.strided and strided)

    @property
    def real(self) -> Tensor:
        return self._parts(imaginary=False)

    @property
    def imag(self) -> Tensor:
        return self._parts(imaginary=True)

    def _parts(self, *, imaginary: bool) -> Tensor:
        assert self.dtype == complex128
        return Tensor(Storage(Parts(self.storage.cells, imaginary), float64), self.positions, self.shape, self.strided)

    def permute(self, *axes: int) -> Tensor:
        units = row_major(self.shape)
        order = [axis % self.ndim for axis in axes]
        shape = [self.shape[axis] for axis in order]
        return self._pick(shape, sums(ramp(self.shape[axis], units[axis]) for axis in order))

    @property
    def T(self) -> Tensor:
        return self.permute(1, 0)

    @property
    def mT(self) -> Tensor:
        return self.swapaxes(-1, -2)

    def swapaxes(self, a: int, b: int) -> Tensor:
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.permute(*order)

    def reshape(self, shape: Shape) -> Tensor:
        if -1 in shape:
            rest = -prod(shape)
            shape = tuple(self.size // rest if n == -1 else n for n in shape)
        return Tensor(self.storage, self.positions, shape, self.strided and is_affine(self.positions, shape))

    view = reshape

    def ravel(self) -> Tensor:
        return self.reshape((self.size,))

    def flatten(self, start: int, end: int) -> Tensor:
        merged = prod(self.shape[start : end + 1])
        return self.reshape((*self.shape[:start], merged, *self.shape[end + 1 :]))

    def unflatten(self, axis: int, sizes: Shape) -> Tensor:
        return self.reshape((*self.shape[:axis], *sizes, *self.shape[axis + 1 :]))

    def squeeze(self, axis: int) -> Tensor:
        assert self.shape[axis] == 1
        return self.reshape((*self.shape[:axis], *self.shape[axis + 1 :]))

    def unsqueeze(self, axis: int) -> Tensor:
        at = axis % (self.ndim + 1)
        return self.reshape((*self.shape[:at], 1, *self.shape[at:]))

    def expand(self, shape: Shape) -> Tensor:
        own = (1,) * (len(shape) - self.ndim) + self.shape
        units = row_major(own)
        axes = [ramp(n, unit if m == n else 0) for n, m, unit in zip(shape, own, units, strict=True)]
        return self._pick(shape, sums(axes))

    def flip(self, axis: int) -> Tensor:
        key = [slice(None)] * self.ndim
        key[axis] = slice(None, None, -1)
        return self[tuple(key)]

    def diagonal(self, offset: int, axis1: int, axis2: int) -> Tensor:
        units = row_major(self.shape)
        rows, columns = self.shape[axis1], self.shape[axis2]
        size = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
        start = offset * units[axis2] if offset >= 0 else -offset * units[axis1]
        others = [axis for axis in range(self.ndim) if axis not in (axis1, axis2)]
        axes = [ramp(self.shape[axis], units[axis]) for axis in others]
        axes.append(ramp(size, units[axis1] + units[axis2], start))
        return self._pick([*(self.shape[axis] for axis in others), size], sums(axes))

    def windows(self, axis: int, size: int, step: int) -> Tensor:
        units = row_major(self.shape)
        axes = [ramp(n, unit) for n, unit in zip(self.shape, units, strict=True)]
        axes[axis] = ramp((self.shape[axis] - size) // step + 1, step * units[axis])
        axes.append(ramp(size, units[axis]))
        return self._pick(map(len, axes), sums(axes))

    # Indexing

    def _numbers(self, key: Any) -> tuple[list[int], list[int], bool]:
        """The shape and the row-major numbers of what an index selects, and whether it selects by lists."""
        entries = list(key) if isinstance(key, tuple) else [key]
        if entries and isinstance(entries[0], Tensor) and entries[0].dtype == bool_:
            return self._hits(entries[0])
        entries = [entry.tolist() if isinstance(entry, Tensor) else entry for entry in entries]
        units = row_major(self.shape)
        used = sum(1 for entry in entries if entry is not None and entry is not Ellipsis)
        if Ellipsis not in [entry for entry in entries if not isinstance(entry, list)]:
            entries.append(Ellipsis)
        at = next(i for i, entry in enumerate(entries) if entry is Ellipsis)
        entries[at : at + 1] = [slice(None)] * (self.ndim - used)
        shape: list[int] = []
        axes: list[list[int]] = []
        paired: list[int] | None = None
        axis = 0
        for entry in entries:
            if entry is None:
                shape.append(1)
                continue
            size, unit = self.shape[axis], units[axis]
            axis += 1
            if isinstance(entry, int):
                axes.append([range(size)[entry] * unit])
            elif isinstance(entry, slice):
                axes.append([n * unit for n in range(size)[entry]])
                shape.append(len(axes[-1]))
            elif paired is None:
                paired = [range(size)[n] * unit for n in entry]
                axes.append(paired)
                shape.append(len(paired))
            else:  # NumPy pairs neighbouring lists element by element
                paired[:] = [p + range(size)[n] * unit for p, n in zip(paired, entry, strict=True)]
        return shape, sums(axes), paired is not None

    def _hits(self, mask: Tensor) -> tuple[list[int], list[int], bool]:
        assert mask.dtype == bool_ and mask.shape == self.shape[: mask.ndim]
        rest = self.shape[mask.ndim :]
        block = prod(rest)
        hits = [i * block for i, hit in enumerate(mask.values()) if hit]
        return [len(hits), *rest], sums([hits, range(block)]), True

    def __getitem__(self, key: Any) -> Tensor:
        shape, numbers, by_list = self._numbers(key)
        picked = self._pick(shape, numbers)
        return picked.copy() if by_list or self._is_full(key) else picked

    def _is_full(self, key: Any) -> bool:
        """Whether there is an integer for every axis and nothing else: the element is read, and is no view."""
        entries = key if isinstance(key, tuple) else (key,)
        return len(entries) == self.ndim and all(isinstance(entry, int) for entry in entries)

    def __setitem__(self, key: Any, value: Any) -> None:
        shape, numbers, by_list = self._numbers(key)
        if isinstance(value, Tensor) and by_list and not self.injective:
            raise ReadOnlyError
        self._pick(shape, numbers)._write(value, repeats=by_list)  # the last write to a cell stays

    @property
    def oindex(self) -> Orthogonal:
        return Orthogonal(self)

    # Writing

    def _incoming(self, value: Any) -> list[Number]:
        """What is written to each element: all old values, before the first is overwritten."""
        return value.expand(self.shape).values() if isinstance(value, Tensor) else [value] * self.size

    def _write(self, value: Any, repeats: bool = False) -> None:
        incoming = self._incoming(value)
        if isinstance(value, Tensor) and not repeats and not self.injective:
            raise ReadOnlyError
        for position, new in zip(self.positions, incoming, strict=True):
            self.storage.cells[position] = wrap(new, self.dtype)

    def _join(self, key: Any, value: Any, function: Callable[[Any, Any], Number]) -> Tensor:
        """Each element joined with all the values for it."""
        shape, numbers, _ = self._numbers(key)
        selected, cells = self._pick(shape, numbers), self.storage.cells
        for position, new in zip(selected.positions, selected._incoming(value), strict=True):
            cells[position] = wrap(function(cells[position], new), self.dtype)
        return self

    def index_add_(self, axis: int, index: list[int], source: Any) -> Tensor:
        return self._join((*[slice(None)] * axis, index), source, operator.add)

    @property
    def at(self) -> At:
        return At(self)

    def fill_(self, value: Number) -> Tensor:
        self._write(value)
        return self

    def __iadd__(self, other: Any) -> Tensor:
        self._write(self + other)
        return self

    def __isub__(self, other: Any) -> Tensor:
        self._write(self - other)
        return self

    def __imul__(self, other: Any) -> Tensor:
        self._write(self * other)
        return self

    # Arithmetic

    def __add__(self, other: Any) -> Tensor:
        return elementwise(operator.add, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return elementwise(operator.add, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return elementwise(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return elementwise(operator.sub, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return elementwise(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return elementwise(operator.mul, other, self)

    def __neg__(self) -> Tensor:
        return elementwise(operator.neg, self)

    def __lt__(self, other: Any) -> Tensor:
        return elementwise(operator.lt, self, other, dtype=bool_)

    def __gt__(self, other: Any) -> Tensor:
        return elementwise(operator.gt, self, other, dtype=bool_)

    def __matmul__(self, other: Tensor) -> Tensor:
        (rows, inner), (inner2, columns) = self.shape, other.shape
        assert inner == inner2
        a, b = self.values(), other.values()
        cells = [sum(a[i * inner + k] * b[k * columns + j] for k in range(inner)) for i, j in product(range(rows), range(columns))]
        return fresh(cells, (rows, columns), promote(self.dtype, other.dtype))

    # Reductions

    def sum(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce(sum, axis, keepdims)

    def max(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce(max, axis, keepdims)

    def _reduce(self, reduction: Callable[[list[Number]], Number], axis: int | None, keepdims: bool) -> Tensor:
        if axis is None:
            return fresh([reduction(self.values())], (1,) * self.ndim if keepdims else (), self.dtype)
        values = self.values()
        axes = [ramp(n, unit) for n, unit in zip(self.shape, row_major(self.shape), strict=True)]
        along = axes[axis]
        axes[axis] = [0]
        cells = [reduction([values[base + step] for step in along]) for base in sums(axes)]
        kept = [1] if keepdims else []
        return fresh(cells, (*self.shape[:axis], *kept, *self.shape[axis + 1 :]), self.dtype)


# Making tensors


def fresh(cells: Iterable[Number], shape: Iterable[int], dtype: str) -> Tensor:
    storage = Storage([wrap(cell, dtype) for cell in cells], dtype)
    return Tensor(storage, list(range(len(storage.cells))), tuple(shape))


def asarray(data: Any, dtype: str | None = None, copy: bool | None = None) -> Tensor:
    """A new tensor of nested lists or of another's values; with `copy=False` the same memory."""
    if isinstance(data, Tensor):
        return data._pick(data.shape, list(range(data.size))) if copy is False else data.copy()
    shape: list[int] = []
    cells = [data]
    while isinstance(cells[0], list):
        shape.append(len(cells[0]))
        cells = [entry for row in cells for entry in row]
    return fresh(cells, shape, dtype or DTYPE_OF[type(cells[0])])


def from_dlpack(array: Tensor) -> Tensor:
    return asarray(array, copy=False)


def arange(stop: int, dtype: str = int64) -> Tensor:
    return fresh(range(stop), (stop,), dtype)


def zeros(shape: Shape, dtype: str = float64) -> Tensor:
    return fresh([0] * prod(shape), shape, dtype)


def full(shape: Shape, value: Number, dtype: str = int64) -> Tensor:
    return fresh([value] * prod(shape), shape, dtype)


def realize(*tensors: Tensor) -> None:
    """Nothing waits here, so there is nothing to do."""


numpy_face = SimpleNamespace(
    array=lambda data, dtype=None: asarray(data, dtype=dtype),
    asarray=lambda tensor: asarray(tensor, copy=False),
    add=SimpleNamespace(at=lambda tensor, key, value: tensor._join(key, value, operator.add)),
    s_=Keys(),
    int64=int64,
    float64=float64,
    complex128=complex128,
)


def world(log: Callable[[Any], None]) -> dict[str, Any]:
    """What a program's names mean here."""

    def show(value: Any) -> None:
        log(described(value) if isinstance(value, Tensor) else value)

    return {"tx": sys.modules[__name__], "np": numpy_face, "show": show, "hold": Tensor.copy}


def described(tensor: Tensor) -> tuple[str, Shape, Any]:
    return tensor.dtype, tensor.shape, tensor.tolist()


# Functions


def promote(*dtypes: str) -> str:
    return max(dtypes, key=RANK.__getitem__)


def elementwise(function: Callable[..., Number], *operands: Any, dtype: str | None = None) -> Tensor:
    """The function of every element; Python numbers take the dtype of the tensors beside them."""
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    shape = broadcast(*(tensor.shape for tensor in tensors))
    common = promote(*(tensor.dtype for tensor in tensors))
    lifted = [o if isinstance(o, Tensor) else full((), o, common) for o in operands]
    columns = [tensor.expand(shape).values() for tensor in lifted]
    return fresh([function(*row) for row in zip(*columns, strict=True)], shape, dtype or common)


def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    assert condition.dtype == bool_
    return elementwise(lambda c, x, y: x if c else y, condition, a, b, dtype=promote(a.dtype, b.dtype))


def minimum(a: Tensor, b: Tensor) -> Tensor:
    return elementwise(min, a, b)


def astype(tensor: Tensor, dtype: str) -> Tensor:
    return fresh(tensor.values(), tensor.shape, dtype)


def permute_dims(tensor: Tensor, axes: Shape) -> Tensor:
    return tensor.permute(*axes)


def moveaxis(tensor: Tensor, source: int, destination: int) -> Tensor:
    order = [axis for axis in range(tensor.ndim) if axis != source]
    order.insert(destination, source)
    return tensor.permute(*order)


def expand_dims(tensor: Tensor, axis: int) -> Tensor:
    return tensor.unsqueeze(axis)


def broadcast_to(tensor: Tensor, shape: Shape) -> Tensor:
    return tensor.expand(shape)


def flip(tensor: Tensor, axis: int) -> Tensor:
    return tensor.flip(axis)


def concat(tensors: list[Tensor], axis: int) -> Tensor:
    shape = list(tensors[0].shape)
    shape[axis] = sum(tensor.shape[axis] for tensor in tensors)
    result = fresh([0] * prod(shape), shape, promote(*(tensor.dtype for tensor in tensors)))
    start = 0
    for tensor in tensors:
        stop = start + tensor.shape[axis]
        result[(*[slice(None)] * axis, slice(start, stop))] = tensor
        start = stop
    return result


def stack(tensors: list[Tensor], axis: int) -> Tensor:
    return concat([tensor.unsqueeze(axis) for tensor in tensors], axis)
