"""Constructors of tensors: from data, or from a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import ceil, inf, isfinite
from typing import Any, TypeGuard

import numpy as np

from .._utils import upcalls
from .._utils.aliases import argument_aliases
from .._utils.lazy import LazyModule
from .._utils.patchable import make_patchable
from ..dtypes import (
    DEFAULT_COMPLEX,
    DEFAULT_FLOAT,
    DEFAULT_INT,
    DType,
    DTypeLike,
    check_fits,
    check_real,
    default_dtype_of,
    float64,
    uint64,
)
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, ShapeError
from ..graph.node import EMPTY, POSITION, Node, Scalar
from ..graph.spec import P
from ..layout.coords import is_symbolic, validate_int
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag, parse_ints, to_number
from ..tensor.core import MAX_TENSOR_ELEMENTS, Operand, check_device, check_element_count
from ..tensor.creation_cache import LIST_KINDS, MAX_LIST_ELEMENTS, CreationFunctions

__all__ = [
    "arange",
    "array",
    "asarray",
    "astype",
    "empty",
    "eye",
    "from_dlpack",
    "full",
    "ones",
    "tensor",
    "zeros",
]

foreign_arrays = LazyModule("tenxor.api.foreign_arrays")
Shape = int | Sequence[int]


def normalize_shape(op: str, shape: Shape) -> tuple[int, ...]:
    """Return `shape`, an integer or a sequence of integers, as a tuple.

    Raise ShapeError, beginning with `op`, for a negative size, and an error for too many elements.
    """
    if type(shape) is int and 0 <= shape <= MAX_TENSOR_ELEMENTS:  # as mostly
        return (shape,)
    if type(shape) is tuple and len(shape) <= 3 and all([type(n) is int and 0 <= n < 1 << 16 for n in shape]):  # at most 2**48 elements
        return shape
    sizes = parse_ints(op, "shape", (shape,))
    for axis, n in enumerate(sizes):
        if n < 0:
            raise ShapeError(f"{op}: shape {sizes} has a negative size along axis {axis}; sizes must be 0 or more")
    check_element_count(op, sizes)
    return sizes


def check_cpu(op: str, device: str | None) -> None:
    """Raise ArgumentError, beginning with `op`, unless `device` is "cpu" or None."""
    if device is not None:
        check_device(op, device)


def asarray(obj: Any, /, dtype: DTypeLike | None = None, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor with the elements of `obj`.

    Parameters
    ----------
    obj : number, nested lists of numbers, Tensor, NumPy array, or object with a buffer, DLPack or `__array__`
    dtype : dtype, optional
        By default the dtype of the elements (tensors, NumPy scalars). Python numbers become bool, int64, float64 or complex128.
    device : "cpu", optional
        The only device, as in the array API.
    copy : bool, optional
        True always copies. False shares the memory of an array or buffer, and writes to either side are visible in both. By default, a
        NumPy array is copied unless permanently read-only.

    Returns
    -------
    Tensor
        `obj` itself if it is a tensor of the wanted dtype and `copy` is not True. Else a new tensor, with new or shared memory. Shared
        read-only memory is never written: the first write moves the tensor to new memory.

    Raises
    ------
    ArgumentError, DTypeError, OutOfBounds, ShapeError
        If `copy=False` needs a copy, elements are not numbers, a Python number is beyond the dtype's range, or lists are ragged.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.asarray([[1, 2], [3, 4]]).sum().item()
    10
    """
    if type(obj) is Tensor and dtype is None and copy is None and device is None:
        return obj
    fast_path = upcalls.installed
    if fast_path is not None and device is None and (copy is None or copy is True):
        result = _convert_by_fast_path(fast_path.creation_functions, obj, None if dtype is None else dtype_of(dtype))
        if result is not None:
            return result
    check_cpu("asarray", device)
    wanted = None if dtype is None else dtype_of(dtype)
    copy = None if copy is None else check_flag("copy", copy)
    if isinstance(obj, Tensor):
        if wanted is not None and wanted is not obj.dtype:
            if copy is False:
                raise ArgumentError(
                    f"asarray: {obj.dtype} as {wanted} needs a copy, which copy=False forbids; leave copy=False or the dtype out"
                )
            return obj.astype(wanted)
        return obj.copy() if copy else obj
    if isinstance(obj, (np.ndarray, np.generic)):
        return Tensor._from_numpy(obj, wanted, copy)
    if _has_buffer(obj):
        return Tensor._from_numpy(memoryview(obj), wanted, copy)
    speaks_dlpack = hasattr(obj, "__dlpack__")
    if copy is False:
        if speaks_dlpack:
            return foreign_arrays.import_exporter("asarray", obj, None, copy)  # type: ignore[no-any-return]
        raise ArgumentError(f"asarray: {type(obj).__name__} has no memory to share; leave out copy=False")
    if speaks_dlpack and (foreign_arrays.is_bfloat16(obj) or not hasattr(obj, "__array__")):
        copied: Tensor = foreign_arrays.import_exporter("asarray", obj, None, True)
        return copied if wanted is None else copied.astype(wanted, copy=False)
    if hasattr(obj, "__array__") or hasattr(obj, "__array_interface__"):
        return Tensor._from_numpy(foreign_arrays.export_foreign("asarray", obj, lambda: np.asarray(obj)), wanted, True)
    return Tensor._from_nested(obj, wanted, "asarray")


def _convert_by_fast_path(maker: CreationFunctions, obj: Any, wanted: DType | None) -> Tensor | None:
    """Return a tensor of `obj`, a number, a list, tuple or range of numbers, a NumPy array or a NumPy scalar, with the dtype `wanted` or
    its own.

    Return None if the fallback must convert `obj`.
    """
    kind = type(obj)
    result: Tensor | None = None
    if (kind is tuple or kind is range) and len(obj) <= MAX_LIST_ELEMENTS:
        obj, kind = list(obj), list
    if kind is list:
        result = maker.replay_list(obj, maker.list_recipes)
        if result is None:
            result = maker.from_list(Tensor, obj)
    elif kind in LIST_KINDS:
        result = maker.from_number(obj)
    elif kind is np.ndarray or issubclass(kind, np.generic):
        array = np.asarray(obj)
        result = maker.replay_array(array, maker.array_recipes)
        result = maker.from_array(array) if result is None else result
    if result is None or wanted is None or result.dtype is wanted:
        return result
    if kind is not list or not (wanted.is_float or wanted.is_complex):
        return None
    return result.astype(float64, copy=False).astype(wanted, copy=False)  # in two steps, as NumPy reads integers beside floats


asarray = make_patchable(asarray, "convert", "asarray")
array = tensor = asarray


def _make_of_dtype(value: Any, dtype: DType) -> Tensor:
    """Return a new tensor of `dtype` with a copy of the elements of `value`, anything that `asarray` accepts."""
    return asarray(value, dtype=dtype, copy=True)


upcalls.make_tensor = _make_of_dtype


def _has_buffer(obj: Any) -> bool:
    """Return whether `obj` exports memory through the buffer protocol, as Python's arrays do. Bytes count as text, so return False."""
    if isinstance(obj, bytes):
        return False
    try:
        memoryview(obj)
    except (TypeError, BufferError):  # JAX's bfloat16 arrays have a buffer but do not export it
        return False
    return True


def from_dlpack(x: object, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor over the memory of an object that exports DLPack. Writes to either side are visible in both.

    The first write to a tensor over read-only memory moves the tensor to new memory. (Array API 2025.12, `from_dlpack`.)

    Parameters
    ----------
    x : object
        An array of another library, of any shape, with the method `__dlpack__`.
    device : "cpu", optional
        "cpu" asks the library to bring the elements to the CPU.
    copy : bool, optional
        If True, the tensor has new memory. None allows the library to copy if nothing can be shared, and False does not.

    Returns
    -------
    Tensor
        View of the memory of `x`, or, for a copy, a new tensor. The shape and the dtype are those of `x`.

    Raises
    ------
    ArgumentError
        For an object without DLPack or on another device.
    NotShared
        If the library cannot export the memory, as NumPy for dtypes such as datetime64. The error is also a BufferError.
    DTypeError
        If the library refuses for another reason, or if Tenxor does not have the dtype.

    Examples
    --------
    >>> import numpy as np, tenxor as tx
    >>> a = np.zeros(2); t = tx.from_dlpack(a); t[0] = 7; a.tolist()
    [7.0, 0.0]
    """
    check_cpu("from_dlpack", device)
    if not hasattr(x, "__dlpack__"):
        raise ArgumentError(f"from_dlpack: {type(x).__name__} has no __dlpack__ method; use tx.asarray(x)")
    copy = None if copy is None else check_flag("copy", copy)
    return foreign_arrays.import_exporter("from_dlpack", x, device, copy)  # type: ignore[no-any-return]


def astype(x: Operand, dtype: DTypeLike, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """Return a new tensor with the elements of `x` cast to `dtype`.

    Parameters
    ----------
    x : Tensor
    dtype : dtype
        The dtype of the result. Integers out of range wrap around; floats are truncated and saturate.
    copy : bool, default True
        If False, and `x` has the dtype already, the result is `x` itself.
    device : "cpu", optional

    Returns
    -------
    Tensor
        New tensor, or `x` itself if `copy` is False and the dtype is the same.

    Raises
    ------
    DTypeError
        For complex numbers as a real dtype.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.astype(tx.asarray([1.7, -1.7]), tx.int64).tolist()
    [1, -1]
    """
    check_cpu("astype", device)
    return asarray(x).astype(dtype, copy=copy)


# --- from a rule ------------------------------------------------------------------------------------------------------


def memoized_creation(fallback: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Return a wrapper of `fallback`, a function whose result depends on its arguments alone, so that the fast path can replay its calls.

    The arguments must hold no tensors. Without the fast path, `fallback` is called.
    """
    name = fallback.__name__

    @wraps(fallback)
    def function(*args: P.args, **named: P.kwargs) -> Tensor:
        fast_path = upcalls.installed
        if fast_path is not None:
            maker = fast_path.creation_functions
            result: Tensor | None = maker.replay(name, args, named, maker.templates)
            return maker.call_and_record(name, fallback, args, named) if result is None else result
        return fallback(*args, **named)

    function.__annotations__ = fallback.__annotations__
    return function


@memoized_creation
@argument_aliases
def full(shape: Shape, fill_value: Operand, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor filled with a number.

    Parameters
    ----------
    shape : int or Sequence[int]
        Sizes of the axes, 0 or more. One integer gives a 1-D tensor.
    fill_value : number or Tensor
        The number, or a 0-d tensor of any dtype, whose derivative is recorded.
    dtype : dtype, optional
        By default the dtype of `fill_value`: bool, int64, float64 or complex128 for a Python number.
    device : "cpu", optional

    Returns
    -------
    Tensor
        New tensor.

    Raises
    ------
    ShapeError
        If a size is negative.
    OutOfBounds
        For an integer beyond the range of the dtype.
    DTypeError
        For a complex number in a real dtype, or if `fill_value` is no single number.
    ArgumentError
        If `shape` is no integers, or for another device.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.full((2, 2), 7).tolist()
    [[7, 7], [7, 7]]
    """
    return make_filled("full", shape, fill_value, dtype, device)


@memoized_creation
def make_filled(op: str, shape: Shape, fill_value: Operand, dtype: object, device: str | None) -> Tensor:
    """Return the result of `full`; messages begin with `op`. A `fill_value` on the tape has a derivative."""
    check_cpu(op, device)
    sizes = normalize_shape(op, shape)
    if is_scalar_on_tape(fill_value):
        d = fill_value.dtype if dtype is None else dtype_of(dtype)
        check_real(op, fill_value.dtype, d)
        return fill_value.astype(d, copy=False).expand(sizes).copy()
    value = to_number(fill_value, op)
    d = dtype_of(getattr(fill_value, "dtype", default_dtype_of(value)) if dtype is None else dtype)
    if isinstance(value, complex):
        check_real(op, DEFAULT_COMPLEX, d)
    if d.kind == "bool":
        value = bool(value)
    elif type(value) is int:
        check_fits(value, d if d.is_integer else DEFAULT_FLOAT, op)
    scalar = Scalar(value, default_dtype_of(value) if type(value) in (float, complex) else d)
    return Tensor._from_node(Node.of(OPS["cast"], sizes, d, (scalar,), (None,)))


@memoized_creation
@argument_aliases
def zeros(shape: Shape, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor of zeros.

    Parameters
    ----------
    shape : int or Sequence[int]
        Sizes of the axes, 0 or more. One integer gives a 1-D tensor.
    dtype : dtype, default float64
    device : "cpu", optional

    Returns
    -------
    Tensor
        New tensor.

    Raises
    ------
    ShapeError, ArgumentError
        If a size is negative, or no integer, or for another device.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.zeros((2, 3)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return make_filled("zeros", shape, 0, DEFAULT_FLOAT if dtype is None else dtype, device)


@memoized_creation
@argument_aliases
def ones(shape: Shape, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor of ones.

    Parameters
    ----------
    shape, dtype, device
        As in `zeros`: the sizes of the axes, the dtype, by default float64, and "cpu" or None.

    Returns
    -------
    Tensor
        New tensor.

    Raises
    ------
    ShapeError, ArgumentError
        As in `zeros`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.ones(3, dtype=tx.int8).tolist()
    [1, 1, 1]
    """
    return make_filled("ones", shape, 1, DEFAULT_FLOAT if dtype is None else dtype, device)


@memoized_creation
@argument_aliases
def empty(shape: Shape, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor with uninitialised elements.

    Parameters
    ----------
    shape, dtype, device
        As in `zeros`: the sizes of the axes, the dtype, by default float64, and "cpu" or None.

    Returns
    -------
    Tensor
        New tensor.

    Raises
    ------
    ShapeError, ArgumentError
        As in `zeros`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.empty((2, 3)).fill_(1.0).sum().item()
    6.0
    """
    check_cpu("empty", device)
    return Tensor._from_node(Node.of(EMPTY, normalize_shape("empty", shape), dtype_of(DEFAULT_FLOAT if dtype is None else dtype)))


@memoized_creation
def make_flat_indices(shape: tuple[int, ...]) -> Tensor:
    """Return a tensor of `shape` with the row-major flat index of each element, as int64. It takes no memory until computed."""
    return Tensor._from_node(Node.of(POSITION, shape, DEFAULT_INT))


@memoized_creation
def make_float_range(count: int) -> Tensor:
    """Return the vector 0, 1, ..., `count` - 1, as float64."""
    return make_flat_indices((count,)).astype(DEFAULT_FLOAT)


def is_scalar_on_tape(x: Any) -> TypeGuard[Tensor]:
    """Return whether `x` is a 0-d tensor on the tape, and must therefore not be replaced by a number."""
    return isinstance(x, Tensor) and x.ndim == 0 and x._is_on_tape()


def _to_real(op: str, x: Any) -> float:
    """Return `x`, a number, symbolic size or 0-d tensor, as a real number. Raise DTypeError, beginning with `op`, for complex `x`."""
    if type(x) is int or type(x) is float or is_symbolic(x):
        return x  # type: ignore[no-any-return]
    value = to_number(x, op)
    if isinstance(value, complex):
        raise DTypeError(
            f"{op}: {value} is complex; start, stop and step must be real; for complex values compute with the result, as in tx.arange(3) *"
            " 1j"
        )
    return value


@memoized_creation
@argument_aliases
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
    """Return a new 1-D tensor of `start`, `start + step`, ... before `stop`.

    Parameters
    ----------
    start, stop : int or float
        A single argument is `stop`, and `start` is 0. `end` is another name of `stop`.
    step : int or float, not 0, default 1
        The distance of neighbours. A negative step counts down.
    dtype : dtype, optional
        int64 by default if start, stop and step are integers, else float64.
    device : "cpu", optional

    Returns
    -------
    Tensor
        New tensor of shape (n,), where n is `(stop - start) / step` rounded up, but at least 0.

    Raises
    ------
    ArgumentError, DTypeError, OutOfBounds
        If `step` is 0 or the number of elements not finite, if a number is complex, or if an integer dtype is too narrow.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.arange(3).tolist(), tx.arange(1, 0, -0.5).tolist()
    ([0, 1, 2], [1.0, 0.5])
    """
    check_cpu("arange", device)
    if stop is None:
        start, stop = 0, start
    followed: list[Any] = [x if is_scalar_on_tape(x) else None for x in (start, step)]
    start, stop, step = _to_real("arange", start), _to_real("arange", stop), _to_real("arange", step)
    if step == 0:
        raise ArgumentError("arange: step is 0; it must be above or below 0")
    integral = all(isinstance(x, int) or is_symbolic(x) for x in (start, stop, step))
    count: Any
    try:
        count = -(-(stop - start) // step) if integral else (stop - start) / step
    except OverflowError:  # an integer beyond the range of floats
        count = inf
    if not integral:
        if not isfinite(count):
            raise ArgumentError(
                f"arange: from {start} to {stop} by {step} there is no finite number of steps; start, stop and step must be finite, and"
                " step not too small"
            )
        count = ceil(count)
    count = max(count, 0)
    check_element_count("arange", (count,))
    d = dtype_of((DEFAULT_INT if integral else DEFAULT_FLOAT) if dtype is None else dtype)
    if integral and d.is_integer and count:
        for x in (start, start + (count - 1) * step):
            if d is not DEFAULT_INT or not is_symbolic(x):  # a symbolic size is an int64 itself
                check_fits(x, d, "arange")
    if not integral:
        first_value, step_value = [float(x) if t is None else t.astype(DEFAULT_FLOAT) for x, t in zip((start, step), followed, strict=True)]
        return (make_float_range(count) * step_value + first_value).astype(d, copy=False)
    values = make_flat_indices((count,))
    if d.kind == "uint":  # arithmetic modulo 2**64 is exact for either sign of the step
        values, start, step = values.astype(uint64), start % 2**64, step % 2**64
    if step != 1:
        values *= step
    if start != 0:
        values += start
    return values.astype(d, copy=False)


@memoized_creation
@argument_aliases
def eye(n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols : int
        The sizes, 0 or more. `n_cols` defaults to `n_rows`.
    k : int, default 0
        The number of the diagonal: 0 is the main one, diagonals above it have positive numbers.
    dtype : dtype, default float64
    device : "cpu", optional

    Returns
    -------
    Tensor
        New tensor of shape (n_rows, n_cols).

    Raises
    ------
    ShapeError
        If a size is negative.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.eye(2, 3, k=1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    check_cpu("eye", device)
    n_cols = n_rows if n_cols is None else n_cols
    n_rows, n_cols = normalize_shape("eye", (n_rows, n_cols))
    rows, columns = make_flat_indices((n_rows,)), make_flat_indices((n_cols,))
    is_diagonal: Tensor = columns == rows.expand_dims(1) + clamp_diagonal("eye", k, n_rows, n_cols)
    return is_diagonal.astype(dtype_of(DEFAULT_FLOAT if dtype is None else dtype))


def clamp_diagonal(op: str, k: int, rows: int, columns: int) -> int:
    """Return the number `k` of a diagonal of a matrix (0: main diagonal, above 0: to the right), limited to just outside of the matrix.

    `rows` and `columns` are the sizes of the matrix. Raise ArgumentError, beginning with `op`, if `k` is no integer.
    """
    return max(-rows - 1, min(validate_int(op, "k", k), columns + 1))
