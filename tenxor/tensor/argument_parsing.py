"""Validation of arguments: axes, shapes and numbers as users give them, and the `out` argument of functions and methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from functools import update_wrapper, wraps
from inspect import unwrap
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from ..dtypes import Number, boolean, to_plain_number
from ..errors import ArgumentError, DTypeError, TraceError, describe_value, name_tensor_method
from ..layout import checked_axes, checked_axis
from ..layout.coords import as_int_tuple
from .core import TensorBase

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=TensorBase)
Axes = int | tuple[int, ...] | None
_MAX_UNCHECKED_SECTIONS = 1 << 20  # number of parts of an axis that is never refused
_DELEGATED_ARGUMENTS = frozenset(("out", "where", "initial"))  # arguments that methods leave to the public function of their name
_NON_SEQUENCE_TYPES = (str, bytes, bytearray, Mapping, Set)  # iterable types that are no sequence of integers


class NamedDefault(int):
    """A default value of a parameter, an integer not identical to an equal number given by the caller. Its `repr` is `text`."""

    def __new__(cls, value: int, text: str) -> NamedDefault:
        instance = super().__new__(cls, value)
        instance.text = text
        return instance

    text: str

    def __repr__(self) -> str:
        return self.text


ZERO: int = NamedDefault(0, "0")


def parse_ints(op: str, name: str, values: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the integers in a method's `*args`, given singly or as one sequence, as a tuple: `f(2, 3)` or `f((2, 3))`.

    `name` is the name of the argument. A symbolic size stays as it is; NumPy integers become ints. Raise ArgumentError, naming `op` and
    `name`, for values that are no integers, and for a text, bytes, mapping or set. Signs and sizes are not checked.
    """
    if all([type(n) is int for n in values]):  # the usual case
        return values
    if len(values) == 1 and (not hasattr(values[0], "__index__") or getattr(values[0], "shape", ()) != ()):
        values = values[0]
    if isinstance(values, _NON_SEQUENCE_TYPES):  # bytes iterate as integers, and an empty text would be read as no integers
        raise ArgumentError(f"{op}: {name} must be an integer or a sequence of integers, not {describe_value(values)}")
    try:
        return as_int_tuple(values)
    except TraceError:
        raise  # the message names the remedy
    except TypeError:
        raise ArgumentError(f"{op}: {name} must be an integer or a sequence of integers, not {describe_value(values)}") from None


def is_flag(value: Any) -> bool:
    """Return whether `value` is a bool of Python or NumPy, a boolean tensor of shape (), or the integer 0 or 1, as NumPy users write."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return True
    return getattr(value, "dtype", None) is boolean and getattr(value, "shape", None) == ()


def check_flag(name: str, value: Any) -> bool:
    """Return the flag `value` as a bool. Raise ArgumentError for another value, such as the integer 2 or an array.

    `name` is the argument's name, with which the message begins.
    """
    if not is_flag(value):
        raise ArgumentError(f"{name} is {describe_value(value)}; it must be True or False")
    return bool(value)


def check_choice(op: str, name: str, value: Any, *choices: str) -> str:
    """Return `value` if it equals one of `choices`. Raise ArgumentError otherwise, also for arrays."""
    if isinstance(value, str) and value in choices:
        return value
    raise ArgumentError(f"{op}: {name} must be {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}, not {describe_value(value)}")


def check_section_count(op: str, count: int, size: int) -> None:
    """Raise ArgumentError if `count` parts of an axis exceed both `size` and `_MAX_UNCHECKED_SECTIONS`: nearly all parts would be empty."""
    if count > max(size, _MAX_UNCHECKED_SECTIONS):
        raise ArgumentError(f"{op}: {count} parts of an axis of size {size} are nearly all empty; give {max(size, 1)} or less")


def normalize_axis(op: str, axis: Any, ndim: int) -> int:
    """Return an axis as a non-negative number. Raise AxisError, naming `op`, if the axis is out of range or no integer."""
    return checked_axis(axis, ndim, op)


def normalize_axes(op: str, axes: int | Iterable[int] | None, ndim: int) -> tuple[int, ...]:
    """Return one axis or several as a tuple of non-negative numbers, in the given order; None means every axis.

    Raise AxisError, naming `op`, if an axis is out of range, named twice, or no integer.
    """
    return tuple(range(ndim)) if axes is None else checked_axes(axes, ndim, op)


def write_out(op: str, out: Any, result: T, casting: str = "same_kind", where: Any = None, broadcast: bool = False) -> T:
    """Return `result` if `out` is None; otherwise write `result` into the tensor `out`, and return this tensor.

    `out` may also be a tuple of one tensor or of None. With `where`, elements are written only where `where` is true. With casting "unsafe"
    the result is converted to the dtype of `out`, whatever is lost. Any other `casting` allows no dtype of a higher kind than that of `out`
    (floats for integers). With `broadcast`, as for elementwise operations, the result is broadcast to the shape of `out`.

    Raise ArgumentError for `where` without `out`, and DTypeError if `out` is no tensor. Raise ShapeError or DTypeError if the result does
    not fit into `out`. `op` is the name of the operation for messages.
    """
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if target is None:
        if where is not None and where is not True:
            raise ArgumentError(
                f"{op}: elements at which `where` is false would have no value; give out=, a tensor that holds their values"
            )
        return result
    if not isinstance(target, TensorBase):
        raise DTypeError(
            f"{op}: out must be a tensor, not {type(target).__name__}; for an array use out=tx.asarray(array, copy=False), which shares its"
            " memory"
        )
    receiver: Any = target
    untyped_result: Any = result
    written: T = receiver._write_result(
        op, untyped_result.astype(target.dtype, copy=False) if casting == "unsafe" else untyped_result, where, broadcast
    )
    return written


def delegate_to(name: str) -> Callable[[F], F]:
    """Return a decorator for a method: a call with the keyword `out`, `where` or `initial` goes to the public function `name`.

    The function gets positional arguments by the names of the method's parameters. Calls without these keywords, or with too many
    positional arguments, go to the method.
    """

    def decorator(method: F) -> F:
        code = unwrap(method).__code__
        positional_names = code.co_varnames[1 : code.co_argcount]

        @wraps(method)
        def wrapper(self: Any, *args: Any, **keywords: Any) -> Any:
            if keywords and not _DELEGATED_ARGUMENTS.isdisjoint(keywords) and len(args) <= len(positional_names):
                return getattr(self._namespace(), name)(self, **dict(zip(positional_names, args, strict=False)), **keywords)
            return method(self, *args, **keywords)

        name_tensor_method(wrapper, code.co_name)
        return wrapper  # type: ignore[return-value]

    return decorator


def alias_method(method: F, name: str) -> F:
    """Return a copy of the method `method` of `Tensor` under the name `name`, with which error messages begin."""
    original: Any = method
    alias = FunctionType(original.__code__, original.__globals__, name, original.__defaults__, original.__closure__)
    update_wrapper(alias, original)
    alias.__kwdefaults__ = original.__kwdefaults__
    alias.__name__, alias.__qualname__ = name, f"{original.__qualname__.rpartition('.')[0]}.{name}"
    name_tensor_method(alias, name)
    return alias  # type: ignore[return-value]


def check_correction(op: str, correction: Any) -> float:
    """Return `correction`, a real number of Python or NumPy, as a Python number. Raise ArgumentError, naming `op`, for other values."""
    number = correction.item() if isinstance(correction, np.generic) else correction
    if not isinstance(number, (int, float)):
        raise ArgumentError(f"{op}: correction must be a real number of Python or NumPy, not {describe_value(correction)}")
    return number


def to_number(x: Any, op: str) -> Number:
    """Return a Python number for a Python number, a NumPy scalar, or a 0-d tensor or array. Raise DTypeError for objects that are no
    numbers.
    """
    value = x.item() if isinstance(x, (TensorBase, np.generic, np.ndarray)) and x.ndim == 0 else x  # type: ignore[union-attr]
    if isinstance(value, (int, float, complex)):
        return to_plain_number(value)
    hint = "; use list(x)" if isinstance(x, Iterable) and not isinstance(x, _NON_SEQUENCE_TYPES) else ""
    raise DTypeError(
        f"{op}: {describe_value(x)} of type {type(x).__name__} is not a number; a tensor holds bools, ints, floats and complex numbers,"
        f" or lists of them{hint}"
    )
