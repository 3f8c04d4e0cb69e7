"""Validation of arguments against the annotations of their parameters, with errors of one form.

A function called now and then, such as a constructor or an optimiser, validates before it does anything (`checked`). A function called
often validates only after it has failed (`explained`); until then validation costs next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Set
from functools import wraps
from inspect import CO_VARARGS
from math import isnan
from operator import index
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

from ..errors import ArgumentError, TenxorError, described
from ..tensor import Tensor

Ints: TypeAlias = int | tuple[int, ...]
Count: TypeAlias = int  # an integer of 0 or more
Some: TypeAlias = int  # an integer of 1 or more
P = ParamSpec("P")
T = TypeVar("T")


class Kind(NamedTuple):
    """The meaning of an annotation: a predicate for values, and the words for it in an error."""

    has: Callable[[Any], object]  # returns false, or raises, for an unsuitable value
    words: str


def _is_integer(x: Any) -> bool:
    """Return True for an integer; raise for anything else."""
    index(x)
    return True


def _is_number(x: Any) -> bool:
    """Return whether `x` is a real number other than NaN; raise for most other types."""
    return getattr(x, "shape", ()) == () and not isnan(x)


def _is_truth(x: Any) -> bool:
    """Return True if `x` has a truth value; raise otherwise."""
    bool(x)
    return True


def _is_iterable(x: Any) -> bool:
    """Return whether `x` is iterable, and neither a text, bytes nor a 0-d array."""
    return isinstance(x, Iterable) and not isinstance(x, (str, bytes, bytearray)) and getattr(x, "shape", None) != ()


def _is_sequence(x: Any) -> bool:
    """Return whether `x` is iterable and has a length and an order: sets and mappings have none."""
    return _is_iterable(x) and hasattr(x, "__len__") and not isinstance(x, (Mapping, Set))


def _sequence_of(predicate: Callable[[Any], object]) -> Callable[[Any], bool]:
    """Return a predicate for sequences in which `predicate` holds for each element."""
    return lambda x: _is_sequence(x) and all([predicate(element) for element in x])


_KINDS: dict[str, Kind] = {
    "Tensor": Kind(lambda x: isinstance(x, Tensor), "a tensor (tx.asarray makes one)"),
    "int": Kind(_is_integer, "a whole number"),
    "float": Kind(_is_number, "a real number"),
    "bool": Kind(_is_truth, "True or False"),
    "str": Kind(lambda x: isinstance(x, str), "a text"),
    "None": Kind(lambda x: x is None, "None"),
    "Count": Kind(lambda x: index(x) >= 0, "a whole number of 0 or more"),
    "Some": Kind(lambda x: index(x) >= 1, "a whole number of 1 or more"),
    "tuple[int, ...]": Kind(_sequence_of(_is_integer), "a tuple of whole numbers"),
    "tuple[float, float]": Kind(lambda x: _sequence_of(_is_number)(x) and len(x) == 2, "two real numbers"),
    "tuple[Tensor, Tensor]": Kind(lambda x: _sequence_of(_KINDS["Tensor"].has)(x) and len(x) == 2, "two tensors"),
    "Callable": Kind(callable, "a function"),
    "Mapping": Kind(lambda x: isinstance(x, Mapping), "a dict"),
    "Iterable": Kind(_is_iterable, "a list, or what else can be walked"),
    "Sequence": Kind(_is_sequence, "a list or a tuple"),
    **dict.fromkeys(("Place", "Folder"), Kind(lambda x: isinstance(x, (str, os.PathLike)), "a path")),
}
_UNION_ALIASES = {"Ints": "int | tuple[int, ...]", "Source": "Generator | None"}  # aliases in annotations -> their union, written out
RAW = (AttributeError, TypeError, ValueError, LookupError, ArithmeticError)  # errors of unsuitable values that no check caught


def kind(words: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator to register a class for use in checked annotations. `words` describe an instance in errors."""

    def register(cls: type[T]) -> type[T]:
        _KINDS[cls.__name__] = Kind(lambda x: isinstance(x, cls), words)
        return cls

    return register


def check(op: str, name: str, value: Any, annotation: str) -> None:
    """Raise ArgumentError if `value` suits no member of the union `annotation`. Accept every value if a member is unknown to this module.

    `op` and `name` are the names of the function and the argument in the error.
    """
    words = []
    for member in " | ".join([_UNION_ALIASES.get(member, member) for member in annotation.split(" | ")]).split(" | "):
        member_kind = _KINDS.get(member) or _KINDS.get(member.partition("[")[0].removeprefix("random."))
        if member_kind is None:
            return
        try:
            if member_kind.has(value):
                return
        except Exception:  # a foreign object may raise anything from a predicate
            pass
        words.append(member_kind.words)
    raise ArgumentError(f"{op}: {name} is {' or '.join(words)}, not {told(value)}")


def check_fields(op: str, state: Any, /, **annotations: str) -> None:
    """Raise ArgumentError unless `state` is a mapping, as from `state_dict()`, with these fields, suited to these annotations."""
    for name, annotation in annotations.items():
        if not isinstance(state, Mapping) or name not in state:
            raise ArgumentError(f"{op}: there is no {name!r} in {told(state)}; give a result of state_dict()")
        check(op, f"{name!r}", state[name], annotation)


def told(value: Any) -> str:
    """Return a short description of a value for an error: with its shape and dtype, or with its type."""
    return described(value) if getattr(value, "shape", None) else f"{described(value)} of type {type(value).__name__}"


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap `function` to validate its arguments first. The wrapper raises ArgumentError for a value unsuited to its annotation."""

    @wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> T:
        _check_call(function, args, named)
        return function(*args, **named)

    return called


def explained(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap `function` to validate its arguments only after it raised one of `RAW`, except a TenxorError.

    If an argument is unsuited to its annotation, the wrapper raises ArgumentError; else the original error passes.
    """

    @wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> T:
        try:
            return function(*args, **named)
        except RAW as error:
            if not isinstance(error, TenxorError):
                _check_call(function, args, named)
            raise

    return called


def _check_call(function: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Raise ArgumentError for the first argument of a call unsuited to its annotation. A constructor is reported by its class."""
    code, annotations = function.__code__, function.__annotations__
    names = code.co_varnames[: code.co_argcount]
    op = type(args[0]).__name__ if function.__name__ in ("__init__", "forward") and args else function.__name__
    variadic_name = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & CO_VARARGS else ""
    for k, value in enumerate(args):
        name = names[k] if k < len(names) else variadic_name
        if name in annotations:
            check(op, name, value, annotations[name])
    for name, value in named.items():
        if name in annotations and name not in names[: code.co_posonlyargcount]:
            check(op, name, value, annotations[name])
