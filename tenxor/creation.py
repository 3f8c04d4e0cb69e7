"""New tensors: from data, from a rule, or from another tensor's shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .dtypes import DEFAULT_FLOAT, DEFAULT_INT, DType, Number, check_fits, of_number
from .dtypes import dtype as dtype_of
from .errors import ArgumentError, DTypeError, OutOfBounds, ShapeError
from .node import EMPTY, POSITION, Node, Scalar
from .ops import OPS
from .tensor import Tensor
from .tensor.arguments import ints

__all__ = [
    "arange",
    "array",
    "asarray",
    "astype",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tensor",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

Shape = int | Sequence[int]


def _shape(op: str, shape: Shape) -> tuple[int, ...]:
    sizes = ints(op, (shape,))
    for axis, n in enumerate(sizes):
        if n < 0:
            raise ShapeError(f"{op}: axis {axis} of shape {sizes} has a negative size; sizes are 0 or more")
    return sizes


def _device(op: str, device: str | None) -> None:
    if device not in (None, "cpu"):
        raise ArgumentError(f"{op}: there is no device {device!r}; tensors are on 'cpu'")


def asarray(obj: Any, /, *, dtype: object = None, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor with the elements of `obj`: a number, nested lists, a NumPy array, a tensor, or what speaks DLPack.

    A NumPy array is copied, unless it is read-only for good. `copy=False` shares its very memory: each side sees what
    the other writes. `copy=True` always copies. A tensor is given back as it is if its dtype fits.

    Raises ShapeError for ragged lists, OutOfBounds for numbers that the dtype cannot hold, DTypeError for what are no
    numbers.

    >>> import tenxor as tx
    >>> tx.asarray([[1, 2], [3, 4]]).sum().item()
    10
    """
    _device("asarray", device)
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(obj, Tensor):
        if wanted is not None and wanted is not obj.dtype:
            if copy is False:
                raise ArgumentError(f"asarray: {obj.dtype} as {wanted} needs a copy, and copy=False forbids it")
            return obj.astype(wanted)
        return obj.copy() if copy else obj
    if isinstance(obj, (np.ndarray, np.generic)):
        return Tensor.from_numpy(obj, wanted, copy)
    if copy is False:
        if hasattr(obj, "__dlpack__"):
            return from_dlpack(obj)
        raise ArgumentError(f"asarray: {type(obj).__name__} has no memory to share; leave out copy=False")
    if hasattr(obj, "__array__") or hasattr(obj, "__dlpack__"):
        return Tensor.from_numpy(np.asarray(obj) if hasattr(obj, "__array__") else np.from_dlpack(obj), wanted, True)
    return Tensor.from_numpy(_from_lists(obj, wanted), wanted, True)


array = tensor = asarray


def _from_lists(obj: Any, wanted: DType | None) -> np.ndarray[Any, Any]:
    """Nested lists of numbers (and 0-d tensors) as an array of the dtype that they have on their own."""
    shape, leaves = _measured(obj)
    kinds = {type(x) for x in leaves}
    if not kinds <= {bool, int, float}:
        leaves = [_number(x) for x in leaves]
        kinds = {type(x) for x in leaves}
    if wanted is not None and wanted.is_integer:
        for x in leaves:
            if type(x) is int:
                check_fits(x, wanted, "asarray")
        target = np.dtype(wanted.numpy if float not in kinds else "float64")
    elif float in kinds or not kinds or (wanted is not None and wanted.is_float):
        target = np.dtype("float64")
    else:
        target = np.dtype("int64" if int in kinds else "bool")
    try:
        return np.array(leaves, dtype=target).reshape(shape)
    except OverflowError:
        big = next(x for x in leaves if not -(2**63) <= x < 2**63)
        raise OutOfBounds(
            f"asarray: Python integer {big} is out of range for {target}; give a dtype that holds it"
        ) from None


def _number(x: Any) -> Number:
    """A leaf of nested lists as a Python number."""
    if isinstance(x, (Tensor, np.generic)):
        value: Number = x.item()
        return value
    if isinstance(x, (bool, int, float)):
        return x
    raise DTypeError(f"asarray: {x!r} of type {type(x).__name__} is no number; lists hold numbers, or lists of numbers")


def _measured(obj: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The shape of nested lists and their leaves in order; a ShapeError says where they are ragged."""
    level: list[tuple[tuple[int, ...], Any]] = [((), obj)]
    shape: list[int] = []
    while level and _is_list(level[0][1]):
        size = len(level[0][1])
        below: list[tuple[tuple[int, ...], Any]] = []
        for place, item in level:
            if not _is_list(item) or len(item) != size:
                found = f"{len(item)} items" if _is_list(item) else f"the number {item!r}"
                raise ShapeError(
                    f"asarray: ragged nested lists: at depth {len(shape)}, {_at(level[0][0])} has {size} items but {_at(place)} is {found};"
                    " all lists of one depth must have the same length"
                )
            below.extend(((*place, k), x) for k, x in enumerate(item))
        shape.append(size)
        level = below
    for place, item in level:
        if _is_list(item):
            raise ShapeError(
                f"asarray: ragged nested lists: at depth {len(shape)}, {_at(level[0][0])} is the number {level[0][1]!r} but {_at(place)}"
                f" has {len(item)} items; all lists of one depth must have the same length"
            )
    return tuple(shape), [x for _, x in level]


def _is_list(x: Any) -> bool:
    return isinstance(x, (list, tuple, range)) or (isinstance(x, (Tensor, np.ndarray)) and x.ndim > 0)


def _at(place: tuple[int, ...]) -> str:
    return "item " + "".join(f"[{k}]" for k in place) if place else "the whole"


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of whatever speaks DLPack; each side sees what the other writes. With `copy=True` its
    own.

    >>> import numpy as np, tenxor as tx
    >>> a = np.zeros(2); t = tx.from_dlpack(a); t[0] = 7; a.tolist()
    [7.0, 0.0]
    """
    shared = np.from_dlpack(x)
    return Tensor.from_numpy(shared, copy=bool(copy))


def astype(x: Tensor, dtype: object, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """New tensor of another dtype, as `Tensor.astype`; with `copy=False` `x` itself if it has that dtype."""
    _device("astype", device)
    return x.astype(dtype, copy=copy)


# --- from a rule ------------------------------------------------------------------------------------------------------


def full(shape: Shape, fill_value: Any, *, dtype: object = None, device: str | None = None) -> Tensor:
    """New tensor filled with one number.

    >>> import tenxor as tx
    >>> tx.full((2, 2), 7).tolist()
    [[7, 7], [7, 7]]
    """
    _device("full", device)
    sizes = _shape("full", shape)
    value = fill_value.item() if isinstance(fill_value, (Tensor, np.generic, np.ndarray)) else fill_value
    if not isinstance(value, (bool, int, float)):
        raise DTypeError(f"full: fill_value {fill_value!r} is no number")
    d = dtype_of(dtype) if dtype is not None else getattr(fill_value, "dtype", None) or of_number(value)
    d = dtype_of(d)
    if d.is_integer and type(value) is int:
        check_fits(value, d, "full")
    scalar = Scalar(value, d if type(value) is not float else of_number(value))
    return Tensor.of(Node(OPS["cast"], sizes, d, (scalar,), (None,)))


def zeros(shape: Shape, *, dtype: object = None, device: str | None = None) -> Tensor:
    """New tensor of zeros, float64 unless a dtype is given."""
    return full(shape, 0, dtype=dtype or DEFAULT_FLOAT, device=device)


def ones(shape: Shape, *, dtype: object = None, device: str | None = None) -> Tensor:
    """New tensor of ones, float64 unless a dtype is given."""
    return full(shape, 1, dtype=dtype or DEFAULT_FLOAT, device=device)


def empty(shape: Shape, *, dtype: object = None, device: str | None = None) -> Tensor:
    """New tensor whose elements are whatever its memory held."""
    _device("empty", device)
    return Tensor.of(Node(EMPTY, _shape("empty", shape), dtype_of(dtype or DEFAULT_FLOAT)))


def full_like(x: Tensor, /, fill_value: Any, *, dtype: object = None, device: str | None = None) -> Tensor:
    """New tensor of `x`'s shape and dtype filled with one number."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: object = None, device: str | None = None) -> Tensor:
    """New tensor of zeros of `x`'s shape and dtype."""
    return full(x.shape, 0, dtype=dtype or x.dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: object = None, device: str | None = None) -> Tensor:
    """New tensor of ones of `x`'s shape and dtype."""
    return full(x.shape, 1, dtype=dtype or x.dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: object = None, device: str | None = None) -> Tensor:
    """New tensor of `x`'s shape and dtype, its elements undefined."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device)


def positions(shape: tuple[int, ...]) -> Tensor:
    """The row-major number of each element, as int64; it takes no memory until it must."""
    return Tensor.of(Node(POSITION, shape, DEFAULT_INT))


def arange(
    start: Number, /, stop: Number | None = None, step: Number = 1, *, dtype: object = None, device: str | None = None
) -> Tensor:
    """New 1-D tensor of `start`, `start + step`, ... before `stop`; with one argument from 0 to it.

    >>> import tenxor as tx
    >>> tx.arange(3).tolist(), tx.arange(1, 0, -0.5).tolist()
    ([0, 1, 2], [1.0, 0.5])
    """
    _device("arange", device)
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ArgumentError("arange: a step of 0 never arrives; use a step above or below 0")
    integral = all(isinstance(x, int) for x in (start, stop, step))
    count = -(-(stop - start) // step) if integral else np.ceil((stop - start) / step)
    d = dtype_of(dtype) if dtype is not None else DEFAULT_INT if integral else DEFAULT_FLOAT
    found = positions((max(int(count), 0),))
    if not integral:
        found = found.astype(DEFAULT_FLOAT) * float(step) + float(start)
    else:
        if step != 1:
            found *= step
        if start != 0:
            found += start
    return found.astype(d, copy=False)


def linspace(
    start: float, stop: float, /, num: int, *, dtype: object = None, device: str | None = None, endpoint: bool = True
) -> Tensor:
    """New 1-D tensor of `num` evenly spaced numbers from `start` to `stop`, which is the last one if `endpoint`.

    >>> import tenxor as tx
    >>> tx.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    _device("linspace", device)
    if num < 0:
        raise ArgumentError(f"linspace: num is {num}; it must be 0 or more")
    gaps = num - 1 if endpoint else num
    counted = positions((num,)).astype(DEFAULT_FLOAT)
    step = (stop - start) / gaps if gaps > 0 else 0.0
    found: Tensor = counted * float(step) + float(start)
    if endpoint and gaps > 0:
        found = Tensor.compute(OPS["where"], counted == float(gaps), float(stop), found)
    return found.astype(dtype_of(dtype or DEFAULT_FLOAT), copy=False)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: object = None, device: str | None = None
) -> Tensor:
    """New matrix with ones on diagonal `k` and zeros elsewhere."""
    _device("eye", device)
    n_cols = n_rows if n_cols is None else n_cols
    rows, columns = positions((n_rows,)), positions((n_cols,))
    on_it: Tensor = columns == rows.expand_dims(1) + k
    return on_it.astype(dtype_of(dtype or DEFAULT_FLOAT))


def _triangle(op: str, x: Tensor, k: int, keep: str) -> Tensor:
    if x.ndim < 2:
        raise ShapeError(f"{op}: shape {x.shape} has {x.ndim} axes; a matrix has at least 2")
    rows, columns = positions((x.shape[-2],)).expand_dims(1), positions((x.shape[-1],))
    return Tensor.compute(OPS["where"], Tensor.compute(OPS[keep], columns, rows + k), x, 0)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """New tensor: the matrices of `x` with zeros above diagonal `k`."""
    return _triangle("tril", x, k, "less_equal")


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """New tensor: the matrices of `x` with zeros below diagonal `k`."""
    return _triangle("triu", x, k, "greater_equal")


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """The coordinates of a grid, one read-only view for each 1-D tensor; "ij" keeps the order of axes, "xy" swaps the
    first two.

    >>> import tenxor as tx
    >>> x, y = tx.meshgrid(tx.arange(3), tx.arange(2)); x.tolist(), y.tolist()
    ([[0, 1, 2], [0, 1, 2]], [[0, 0, 0], [1, 1, 1]])
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    for k, a in enumerate(arrays):
        if a.ndim > 1:
            raise ShapeError(f"meshgrid: array {k} has shape {a.shape}; all must be 1-D")
    shape = tuple(a.size for a in arrays)
    n = len(arrays)
    grids = [a.reshape(*(-1 if j == k else 1 for j in range(n))).expand(shape) for k, a in enumerate(arrays)]
    return [g.swapaxes(0, 1) for g in grids] if indexing == "xy" and n > 1 else grids
