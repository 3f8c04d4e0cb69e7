"""Constructors of tensors: from data, from a rule, or with another tensor's shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import ceil, inf, isfinite, isinf
from typing import Any, TypeGuard

import numpy as np

from .dtypes import (
    DEFAULT_COMPLEX,
    DEFAULT_FLOAT,
    DEFAULT_INT,
    OF_NUMBERS,
    DType,
    DTypeLike,
    bfloat16,
    check_fits,
    check_real,
    of_number,
    of_values,
    uint64,
)
from .dtypes import dtype as dtype_of
from .errors import ArgumentError, DTypeError, NotShared, ShapeError
from .keywords import spelled
from .layout.coords import checked_int, is_size
from .node import EMPTY, POSITION, Node, Scalar
from .ops import OPS
from .spec import P, called_again
from .tensor import Tensor
from .tensor.arguments import ints, number_of, truth
from .tensor.core import MAX_SIZE, Operand, check_count, check_device
from .tensor.exchange import CPU, makers

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
    "ones",
    "ones_like",
    "tensor",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

Shape = int | Sequence[int]


def shape_of(op: str, shape: Shape) -> tuple[int, ...]:
    """Return a shape, given as an integer or several, as a tuple. Raise ShapeError for a negative size."""
    if type(shape) is int and 0 <= shape <= MAX_SIZE:  # as mostly
        return (shape,)
    if type(shape) is tuple and len(shape) <= 3 and all([type(n) is int and 0 <= n < 1 << 16 for n in shape]):  # at most 2**48 elements
        return shape
    sizes = ints(op, (shape,))
    for axis, n in enumerate(sizes):
        if n < 0:
            raise ShapeError(f"{op}: shape {sizes} has a negative size along axis {axis}; sizes are 0 or more")
    check_count(op, sizes)
    return sizes


def _check_device(op: str, device: str | None) -> None:
    if device is not None:
        check_device(op, device)


def asarray(obj: Any, /, dtype: DTypeLike | None = None, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor with the elements of `obj`: a number, nested lists, a NumPy array, a tensor, or an object with a buffer or DLPack.

    A NumPy array is copied, unless permanently read-only. `copy=False` shares the array's memory, and writes to either side are visible
    in both. Read-only memory is never written: the first write moves the tensor to new memory. `copy=True` always copies. A tensor with
    the wanted dtype is returned itself. Lists of elements with a dtype (NumPy scalars, tensors) keep that dtype; Python numbers become
    bool, int64, float64 or complex128.

    Raises ShapeError for ragged lists, OutOfBounds for numbers beyond the dtype's range, and DTypeError for elements that are not numbers.

    >>> import tenxor as tx
    >>> tx.asarray([[1, 2], [3, 4]]).sum().item()
    10
    """
    if type(obj) is Tensor and dtype is None and copy is None and device is None:
        return obj
    kind = type(obj)
    maker, result = next(iter(makers), None), None
    if maker and (dtype is None or dtype is OF_NUMBERS.get(kind)) and device is None and (copy is None or copy is True):
        if kind is list:
            result = maker.list_again(obj, maker.lists)
            if result is None:
                result = maker.of_list(Tensor, obj)
        elif kind is float or kind is int:
            result = maker.of_number(obj)
        elif kind is np.ndarray or issubclass(kind, np.generic):
            array = np.asarray(obj)
            result = maker.array_again(array, maker.arrays)
            result = maker.of_array(array) if result is None else result
        if result is not None:
            return result  # type: ignore[no-any-return]
    _check_device("asarray", device)
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(obj, Tensor):
        if wanted is not None and wanted is not obj.dtype:
            if copy is False:
                raise ArgumentError(f"asarray: {obj.dtype} as {wanted} needs a copy, and copy=False forbids it")
            return obj.astype(wanted)
        return obj.copy() if truth("asarray", "copy", copy) else obj
    if isinstance(obj, (np.ndarray, np.generic)):
        return Tensor._from_numpy(obj, wanted, copy)
    if _has_buffer(obj):
        return Tensor._from_numpy(memoryview(obj), wanted, copy)
    speaks_dlpack = hasattr(obj, "__dlpack__")
    if copy is False:
        if speaks_dlpack:
            return _from_dlpack("asarray", obj, None, copy)
        raise ArgumentError(f"asarray: {type(obj).__name__} has no memory to share; leave out copy=False")
    if speaks_dlpack and (_is_bfloat16(obj) or not hasattr(obj, "__array__")):
        result = _from_dlpack("asarray", obj, None, True)
        return result if wanted is None else result.astype(wanted, copy=False)
    if hasattr(obj, "__array__") or hasattr(obj, "__array_interface__"):
        return Tensor._from_numpy(_export_foreign("asarray", obj, lambda: np.asarray(obj)), wanted, True)
    return Tensor._from_nested(obj, wanted, "asarray")


array = tensor = asarray


def _of_dtype(value: Any, dtype: DType) -> Tensor:
    return asarray(value, dtype=dtype, copy=True)


of_values.append(_of_dtype)


def _export_foreign(op: str, obj: Any, export: Callable[[], Any]) -> Any:
    """Return `export()`, which exports `obj` from another library. Raise DTypeError if the export fails, NotShared for a BufferError."""
    try:
        return export()
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        kind, is_kept = getattr(obj, "dtype", None), isinstance(error, BufferError)
        raise (NotShared if is_kept else DTypeError)(
            f"{op}: {type(obj).__name__}{'' if kind is None else f' of {kind}'} does not"
            f" {'share its memory' if is_kept else 'show its elements to NumPy'} ({error}); copy it there, or convert it there to a dtype"
            " that NumPy has, such as float32, and here with astype"
        ) from error


def _has_buffer(obj: Any) -> bool:
    """Return whether an object exports memory through the buffer protocol, as Python's arrays do. Bytes count as text."""
    if isinstance(obj, bytes):
        return False
    try:
        memoryview(obj)
    except (TypeError, BufferError):  # JAX's bfloat16 arrays have a buffer but do not export it
        return False
    return True


def from_dlpack(x: object, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor over the memory of an object that exports DLPack; writes to either side are visible in both. With `copy=True` the
    tensor has new memory; with None the other library may copy if nothing can be shared, and with False the library must not copy.

    Memory shared as read-only is never written: the first write moves the tensor to new memory. Raises ArgumentError for an object
    without DLPack or on another device, and DTypeError for an unsupported dtype or if the library refuses. Raises NotShared, also a
    BufferError, if the library cannot share. (Array API 2025.12, `from_dlpack`.)

    >>> import numpy as np, tenxor as tx
    >>> a = np.zeros(2); t = tx.from_dlpack(a); t[0] = 7; a.tolist()
    [7.0, 0.0]
    """
    _check_device("from_dlpack", device)
    if not hasattr(x, "__dlpack__"):
        raise ArgumentError(f"from_dlpack: {type(x).__name__} does not speak DLPack; use tx.asarray")
    return _from_dlpack("from_dlpack", x, device, copy if copy is None else truth("from_dlpack", "copy", copy))


def _is_bfloat16(x: Any) -> bool:
    """Return whether the dtype of another library's object is called bfloat16."""
    return str(getattr(x, "dtype", "")).endswith("bfloat16")


def _from_dlpack(op: str, x: Any, device: str | None, copy: bool | None) -> Tensor:
    from .tensor.dlpack import received

    dlpack_device = _export_foreign(op, x, lambda: tuple(x.__dlpack_device__()))
    if dlpack_device[0] != CPU[0] and device is None:
        raise ArgumentError(
            f"{op}: {type(x).__name__} is not in the CPU's memory (DLPack's device {dlpack_device}); bring it there first, or give"
            " device='cpu' if its library does that"
        )
    bits = _is_bfloat16(x)
    array = _export_foreign(op, x, lambda: received(x, device, False if copy is False else None, is_bfloat16=bits))
    dtype = bfloat16 if bits else dtype_of(array.dtype)
    return Tensor._copied(array, dtype) if copy else Tensor._shared(array, dtype)


def astype(x: Operand, dtype: DTypeLike, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """Return a new tensor of another dtype, like `Tensor.astype`. With `copy=False`, return `x` itself if `x` has the dtype."""
    _check_device("astype", device)
    return asarray(x).astype(dtype, copy=copy)


# --- from a rule ------------------------------------------------------------------------------------------------------


def made_again(fallback: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Decorate a function of the arguments alone, so that the fast path records and replays calls."""
    name = fallback.__name__

    @wraps(fallback)
    def function(*args: P.args, **named: P.kwargs) -> Tensor:
        for maker in makers:
            result: Tensor | None = maker.again(name, args, named, maker.rules)
            return maker.learnt(name, fallback, args, named) if result is None else result
        return fallback(*args, **named)

    function.__annotations__ = fallback.__annotations__
    return function


@made_again
@spelled
def full(shape: Shape, fill_value: Operand, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor of the given shape filled with `fill_value`. By default it has the dtype of `fill_value`.

    >>> import tenxor as tx
    >>> tx.full((2, 2), 7).tolist()
    [[7, 7], [7, 7]]
    """
    return _fill("full", shape, fill_value, dtype, device)


@made_again
def _fill(op: str, shape: Shape, fill_value: Operand, dtype: object, device: str | None) -> Tensor:
    _check_device(op, device)
    sizes = shape_of(op, shape)
    if is_followed(fill_value):
        d = fill_value.dtype if dtype is None else dtype_of(dtype)
        check_real(op, fill_value.dtype, d)
        return fill_value.astype(d, copy=False).expand(sizes).copy()
    value = number_of(fill_value, op)
    d = dtype_of(getattr(fill_value, "dtype", of_number(value)) if dtype is None else dtype)
    if isinstance(value, complex):
        check_real(op, DEFAULT_COMPLEX, d)
    if d.kind == "bool":
        value = bool(value)
    elif type(value) is int:
        check_fits(value, d if d.is_integer else DEFAULT_FLOAT, op)
    scalar = Scalar(value, of_number(value) if type(value) in (float, complex) else d)
    return Tensor._of(Node.of(OPS["cast"], sizes, d, (scalar,), (None,)))


@made_again
@spelled
def zeros(shape: Shape, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor of zeros; the dtype defaults to float64."""
    return _fill("zeros", shape, 0, DEFAULT_FLOAT if dtype is None else dtype, device)


@made_again
@spelled
def ones(shape: Shape, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor of ones; the dtype defaults to float64."""
    return _fill("ones", shape, 1, DEFAULT_FLOAT if dtype is None else dtype, device)


@made_again
@spelled
def empty(shape: Shape, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor with uninitialised elements; the dtype defaults to float64."""
    _check_device("empty", device)
    return Tensor._of(Node.of(EMPTY, shape_of("empty", shape), dtype_of(DEFAULT_FLOAT if dtype is None else dtype)))


@spelled
def full_like(x: Operand, /, fill_value: Operand, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor filled with `fill_value`, with the shape of `x`, and by default the dtype of `x`."""
    x = asarray(x)
    return _fill("full_like", x.shape, fill_value, x.dtype if dtype is None else dtype, device)


@spelled
def zeros_like(x: Operand, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor of zeros with the shape of `x`, and by default the dtype of `x`."""
    x = asarray(x)
    return _fill("zeros_like", x.shape, 0, x.dtype if dtype is None else dtype, device)


@spelled
def ones_like(x: Operand, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor of ones with the shape of `x`, and by default the dtype of `x`."""
    x = asarray(x)
    return _fill("ones_like", x.shape, 1, x.dtype if dtype is None else dtype, device)


@spelled
def empty_like(x: Operand, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor with uninitialised elements, the shape of `x`, and by default the dtype of `x`."""
    x = asarray(x)
    return empty(x.shape, dtype=x.dtype if dtype is None else dtype, device=device)


@made_again
def positions(shape: tuple[int, ...]) -> Tensor:
    """Return the row-major flat index of each element, as int64. The tensor is lazy and takes no memory until computed."""
    return Tensor._of(Node.of(POSITION, shape, DEFAULT_INT))


@made_again
def _count_up(count: int) -> Tensor:
    """Return the vector 0, 1, ..., `count` - 1, as float64."""
    return positions((count,)).astype(DEFAULT_FLOAT)


def is_followed(x: Any) -> TypeGuard[Tensor]:
    """Return whether `x` is a 0-d tensor on the tape. Such an `x` must remain a tensor, as it may have a derivative."""
    return isinstance(x, Tensor) and x.ndim == 0 and x._has_past()


def _to_real(op: str, x: Any) -> float:
    """Return `x` as a real number. Raise DTypeError if complex."""
    if type(x) is int or type(x) is float or is_size(x):
        return x  # type: ignore[no-any-return]
    value = number_of(x, op)
    if isinstance(value, complex):
        raise DTypeError(f"{op}: {value} is complex; use a real number, and arithmetic on the result")
    return value


@made_again
@spelled
def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    *,
    end: float | None = None,
    device: str | None = None,
) -> Tensor:
    """Return a new 1-D tensor of `start`, `start + step`, ... before `stop`; a single argument is `stop`, and `start` is 0.

    >>> import tenxor as tx
    >>> tx.arange(3).tolist(), tx.arange(1, 0, -0.5).tolist()
    ([0, 1, 2], [1.0, 0.5])
    """
    _check_device("arange", device)
    if stop is None:
        start, stop = 0, start
    followed: list[Any] = [x if is_followed(x) else None for x in (start, step)]
    start, stop, step = _to_real("arange", start), _to_real("arange", stop), _to_real("arange", step)
    if step == 0:
        raise ArgumentError("arange: a step of 0 never arrives; use a step above or below 0")
    integral = all(isinstance(x, int) or is_size(x) for x in (start, stop, step))
    count: Any
    try:
        count = -(-(stop - start) // step) if integral else (stop - start) / step
    except OverflowError:  # an integer beyond the range of floats
        count = inf
    if not integral:
        if not isfinite(count):
            raise ArgumentError(f"arange: from {start} to {stop} by {step} is not a finite number of steps")
        count = ceil(count)
    count = max(count, 0)
    check_count("arange", (count,))
    d = dtype_of((DEFAULT_INT if integral else DEFAULT_FLOAT) if dtype is None else dtype)
    if integral and d.is_integer and count:
        for x in (start, start + (count - 1) * step):
            if d is not DEFAULT_INT or not is_size(x):  # a symbolic size is an int64 itself
                check_fits(x, d, "arange")
    if not integral:
        first_value, step_value = [float(x) if t is None else t.astype(DEFAULT_FLOAT) for x, t in zip((start, step), followed, strict=True)]
        return (_count_up(count) * step_value + first_value).astype(d, copy=False)
    values = positions((count,))
    if d.kind == "uint":  # arithmetic modulo 2**64 is exact for either sign of the step
        values, start, step = values.astype(uint64), start % 2**64, step % 2**64
    if step != 1:
        values *= step
    if start != 0:
        values += start
    return values.astype(d, copy=False)


@made_again
@spelled
def linspace(
    start: complex,
    stop: complex,
    /,
    num: int = 50,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    endpoint: bool = True,
    steps: int | None = None,
) -> Tensor:
    """Return a new 1-D tensor of `num` evenly spaced numbers from `start` to `stop`, with `stop` as the last number if `endpoint`.

    The numbers are complex if `start` or `stop` is.

    >>> import tenxor as tx
    >>> tx.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    _check_device("linspace", device)
    first_value, last_value, default_dtype = _convert_ends(start, stop)
    count = checked_int("linspace", "num", num)
    if count < 0:
        raise ArgumentError(f"linspace: num is {num}; it must be 0 or more")
    d = default_dtype if dtype is None else dtype_of(dtype)
    check_real("linspace", default_dtype, d)
    gaps = count - 1 if endpoint else count
    counted = _count_up(count)
    scale = 1.0 if isinstance(first_value, Tensor) or isinstance(last_value, Tensor) else scale_of_steps(first_value, last_value)
    step = (last_value * scale - first_value * scale) / gaps if gaps > 0 else 0.0
    # Operators do not accept numbers that depend on symbolic sizes (`sizes.py`), so operations are named.
    values: Tensor = counted._with(OPS["multiply"], step) + first_value * scale
    if scale != 1:
        values *= 1 / scale
    if endpoint and gaps > 0:
        values = counted._with(OPS["equal"], gaps)._with(OPS["where"], last_value, values)
    return (values.floor() if d.is_integer else values).astype(d, copy=False)


def _convert_ends(start: Any, stop: Any) -> tuple[Any, Any, DType]:
    """Return both ends as floats, complex numbers, or tensors on the tape; and the default dtype."""
    if type(start) is float and type(stop) is float:  # as mostly
        return start, stop, DEFAULT_FLOAT
    ends: list[Any] = [x if is_followed(x) else number_of(x, "linspace") for x in (start, stop)]
    for x in ends:
        if type(x) is int:
            check_fits(x, DEFAULT_FLOAT, "linspace")
    are_complex = any([x.dtype.is_complex if isinstance(x, Tensor) else isinstance(x, complex) for x in ends])
    kind, default_dtype = (complex, DEFAULT_COMPLEX) if are_complex else (float, DEFAULT_FLOAT)
    return *[x.astype(default_dtype) if isinstance(x, Tensor) else kind(x) for x in ends], default_dtype  # type: ignore[return-value]


def scale_of_steps(start: complex, stop: complex) -> float:
    """Return a power of two. Scaled by it, both ends have a finite distance, and a step keeps full precision."""
    distance = stop - start
    if type(distance) is float and 2.0**-900 <= abs(distance) < inf:
        return 1.0
    magnitudes = [abs(x) for x in (distance.real, distance.imag) if x]
    if any(isinf(x) for x in magnitudes):
        return 0.5
    return 2.0**200 if magnitudes and max(magnitudes) < 2.0**-900 and max(map(abs, (start, stop))) < 2.0**-700 else 1.0


@made_again
@spelled
def eye(
    n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: DTypeLike | None = None, *, device: str | None = None
) -> Tensor:
    """Return a new matrix with ones on diagonal `k` and zeros elsewhere; the dtype defaults to float64."""
    _check_device("eye", device)
    n_cols = n_rows if n_cols is None else n_cols
    n_rows, n_cols = shape_of("eye", (n_rows, n_cols))
    rows, columns = positions((n_rows,)), positions((n_cols,))
    is_diagonal: Tensor = columns == rows.expand_dims(1) + _clamp_diagonal("eye", k, n_rows, n_cols)
    return is_diagonal.astype(dtype_of(DEFAULT_FLOAT if dtype is None else dtype))


def _clamp_diagonal(op: str, k: int, rows: int, columns: int) -> int:
    """Return the number of a diagonal, clamped to just outside of the matrix."""
    return max(-rows - 1, min(checked_int(op, "k", k), columns + 1))


def _mask_triangle(op: str, x: Operand, k: int, keep: str) -> Tensor:
    x = asarray(x)
    if x.ndim < 2:
        raise ShapeError(f"{op}: shape {x.shape} has {x.ndim} axes; a matrix has at least 2")
    rows, columns = positions((x.shape[-2],)).expand_dims(1), positions((x.shape[-1],))
    k = _clamp_diagonal(op, k, *x.shape[-2:])
    return Tensor._compute(OPS["where"], Tensor._compute(OPS[keep], columns, rows + k), x, False)  # False becomes 0 of any dtype


@called_again
def tril(x: Operand, /, k: int = 0) -> Tensor:
    """Return a new tensor: the matrices in the last two axes of `x`, with zeros above diagonal `k`."""
    return _mask_triangle("tril", x, k, "less_equal")


@called_again
def triu(x: Operand, /, k: int = 0) -> Tensor:
    """Return a new tensor: the matrices in the last two axes of `x`, with zeros below diagonal `k`."""
    return _mask_triangle("triu", x, k, "greater_equal")
