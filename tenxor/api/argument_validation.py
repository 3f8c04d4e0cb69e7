"""Validation of arguments against the annotations of their parameters, with errors of one form. A function called now and then, such as a
constructor or an optimiser, validates before it does anything (`validate_arguments`). A function called often validates only after it has
failed (`explain_errors`); until then validation costs next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Set
from functools import wraps
from inspect import CO_VARARGS
from math import isnan
from operator import index
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

from ..errors import ArgumentError, TenxorError, describe_value
from ..tensor import Tensor
from ..tensor.argument_parsing import is_flag

Ints: TypeAlias = int | tuple[int, ...]
NonNegativeInt: TypeAlias = int  # an integer of 0 or more
PositiveInt: TypeAlias = int  # an integer of 1 or more
P = ParamSpec("P")
T = TypeVar("T")


class ArgumentType(NamedTuple):
    """The meaning of an annotation: a predicate for values, and the words for it in an error."""

    accepts: Callable[[Any], object]  # returns false, or raises, for an unsuitable value
    description: str


def _is_integer(x: Any) -> bool:
    """Return True for an integer `x`; raise TypeError for any other object."""
    index(x)
    return True


def _is_number(x: Any) -> bool:
    """Return whether `x` is a real number other than NaN. Return False for an array with axes, and raise TypeError for other objects."""
    return getattr(x, "shape", ()) == () and not isnan(x)


def _is_iterable(x: Any) -> bool:
    """Return whether `x` is iterable, and neither a text, bytes nor a 0-d array."""
    return isinstance(x, Iterable) and not isinstance(x, (str, bytes, bytearray)) and getattr(x, "shape", None) != ()


def _is_sequence(x: Any) -> bool:
    """Return whether `x` is iterable and has a length and an order: sets and mappings have none."""
    return _is_iterable(x) and hasattr(x, "__len__") and not isinstance(x, (Mapping, Set))


def _sequence_of(predicate: Callable[[Any], object]) -> Callable[[Any], bool]:
    """Return a predicate for values: true for a sequence of elements for which `predicate` holds.

    The predicate raises an error where `predicate` does.
    """
    return lambda x: _is_sequence(x) and all([predicate(element) for element in x])


_ARGUMENT_TYPES: dict[str, ArgumentType] = {
    "Tensor": ArgumentType(lambda x: isinstance(x, Tensor), "a tensor (tx.asarray makes one)"),
    "int": ArgumentType(_is_integer, "a whole number"),
    "float": ArgumentType(_is_number, "a real number"),
    "bool": ArgumentType(is_flag, "True or False"),
    "str": ArgumentType(lambda x: isinstance(x, str), "a text"),
    "None": ArgumentType(lambda x: x is None, "None"),
    "NonNegativeInt": ArgumentType(lambda x: index(x) >= 0, "a whole number of 0 or more"),
    "PositiveInt": ArgumentType(lambda x: index(x) >= 1, "a whole number of 1 or more"),
    "tuple[int, ...]": ArgumentType(_sequence_of(_is_integer), "a tuple of whole numbers"),
    "tuple[float, float]": ArgumentType(lambda x: _sequence_of(_is_number)(x) and len(x) == 2, "two real numbers"),
    "tuple[Tensor, Tensor]": ArgumentType(lambda x: _sequence_of(_ARGUMENT_TYPES["Tensor"].accepts)(x) and len(x) == 2, "two tensors"),
    "Callable": ArgumentType(callable, "a function"),
    "Mapping": ArgumentType(lambda x: isinstance(x, Mapping), "a dict"),
    "Iterable": ArgumentType(_is_iterable, "a list or another iterable"),
    "Sequence": ArgumentType(_is_sequence, "a list or a tuple"),
    **dict.fromkeys(("FilePath", "FolderPath"), ArgumentType(lambda x: isinstance(x, (str, os.PathLike)), "a path")),
}
_UNION_ALIASES = {"Ints": "int | tuple[int, ...]", "Source": "Generator | None"}  # aliases in annotations -> their union, written out
UNCHECKED_ERRORS = (AttributeError, TypeError, ValueError, LookupError, ArithmeticError)  # errors of unsuitable values that no check caught


def register_argument_type(description: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator that registers a class for use in checked annotations. `description` describes an instance in errors."""

    def register(cls: type[T]) -> type[T]:
        _ARGUMENT_TYPES[cls.__name__] = ArgumentType(lambda x: isinstance(x, cls), description)
        return cls

    return register


def check_argument(op: str, name: str, value: Any, annotation: str) -> None:
    """Raise ArgumentError if `value` suits no member of the union `annotation`, a text such as "int | None".

    Accept every value if a member is unknown to this module. `op` and `name` are the names of the function and the argument in the error.
    """
    words = []
    for member in " | ".join([_UNION_ALIASES.get(member, member) for member in annotation.split(" | ")]).split(" | "):
        member_kind = _ARGUMENT_TYPES.get(member) or _ARGUMENT_TYPES.get(member.partition("[")[0].removeprefix("random."))
        if member_kind is None:
            return
        try:
            if member_kind.accepts(value):
                return
        except Exception:  # a foreign object may raise anything from a predicate
            pass
        words.append(member_kind.description)
    raise ArgumentError(f"{op}: {name} must be {' or '.join(words)}, not {describe_with_type(value)}")


def check_fields(op: str, state: Any, /, **annotations: str) -> None:
    """Raise ArgumentError unless `state` is a mapping, as from `state_dict()`, with a suitable value for each key in `annotations`.

    `annotations` maps keys to annotations, as in `check_argument`. The message begins with `op`. Further keys are allowed.
    """
    for name, annotation in annotations.items():
        if not isinstance(state, Mapping) or name not in state:
            raise ArgumentError(f"{op}: there is no {name!r} in {describe_with_type(state)}; give a result of state_dict()")
        check_argument(op, f"{name!r}", state[name], annotation)


def describe_with_type(value: Any) -> str:
    """Return a short description of `value` for an error: with shape and dtype for an array with axes, otherwise with the type."""
    return describe_value(value) if getattr(value, "shape", None) else f"{describe_value(value)} of type {type(value).__name__}"


def validate_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Return a wrapper of `function` that first raises ArgumentError for an argument unsuited to the annotation of its parameter."""

    @wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> T:
        _check_call(function, args, named)
        return function(*args, **named)

    return called


def explain_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Return a wrapper of `function` that validates the arguments only after one of `UNCHECKED_ERRORS`, except a TenxorError.

    If an argument is unsuited to its annotation, the wrapper raises ArgumentError; else the original error passes.
    """

    @wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> T:
        try:
            return function(*args, **named)
        except UNCHECKED_ERRORS as error:
            if not isinstance(error, TenxorError):
                _check_call(function, args, named)
            raise

    return called


def _check_call(function: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Raise ArgumentError for the first argument of the call `function(*args, **named)` unsuited to its annotation.

    The message names the function, or the class for the methods `__init__` and `forward`.
    """
    code, annotations = function.__code__, function.__annotations__
    names = code.co_varnames[: code.co_argcount]
    op = type(args[0]).__name__ if function.__name__ in ("__init__", "forward") and args else function.__name__
    variadic_name = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & CO_VARARGS else ""
    for k, value in enumerate(args):
        name = names[k] if k < len(names) else variadic_name
        if name in annotations:
            check_argument(op, name, value, annotations[name])
    for name, value in named.items():
        if name in annotations and name not in names[: code.co_posonlyargcount]:
            check_argument(op, name, value, annotations[name])
