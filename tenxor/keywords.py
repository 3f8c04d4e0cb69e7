"""Aliases of keyword arguments, taken from NumPy and PyTorch: the table, and the decorator to rename them to ours.

A function lists an alias among its keyword-only parameters, for `help` and type checkers; its body never reads the alias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

from .errors import ArgumentError, MisplacedArgument, UnknownArgument
from .records import NamedTuple

F = TypeVar("F", bound=Callable[..., Any])
_CO_VARARGS = 4  # the flag of `inspect`, whose import is slow

# Alias -> our names. The alias stands for the first of our names among the function's parameters.
KEYWORDS = {
    **{"dim": ("axis", "axes"), "dims": ("axis", "axes"), "keepdim": ("keepdims",), "ddof": ("correction",)},
    **{"interpolation": ("method",), "start_dim": ("start",), "end_dim": ("end",)},
    **{"dim1": ("axis1",), "dim2": ("axis2",), "size": ("shape",), "rcond": ("rtol",)},
    **{"end": ("stop",), "steps": ("num",), "value": ("src",)},
}


class Names(NamedTuple):
    """Names of a function's parameters: by position, by keyword, and our name of each alias."""

    by_place: tuple[str, ...]
    by_keyword: frozenset[str]
    ours: dict[str, str]


def names_of(function: Any) -> Names:
    """Return the parameter names of a Python function, without `self` among those given by keyword."""
    code = function.__code__
    by_place = code.co_varnames[: code.co_argcount]
    by_name = [name for name in code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount] if name != "self"]
    ours = {alias: our_name for alias in by_name for our_name in reversed(KEYWORDS.get(alias, ())) if our_name in by_name}
    return Names(by_place, frozenset(by_name), ours)


def spelled(function: F) -> F:
    """Wrap `function` to accept keyword arguments under foreign names, and pass them under our names.

    An alias with the value None counts as not given. The wrapper raises ArgumentError if an argument is given under both names. After a
    failed call, the wrapper raises UnknownArgument, a TypeError with a similar name, for an unknown keyword, and MisplacedArgument for
    positional arguments invalid in every call, for example `zeros(3, 4)`.
    """
    names: Names | None = None  # computed at the first call in need of names: most functions are never called

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        nonlocal names
        if named:
            if names is None:
                names = names_of(function)
            if not names.ours.keys().isdisjoint(named):
                _rename_aliases(function.__name__, names, len(args), named)
        try:
            return function(*args, **named) if named else function(*args)
        except (TypeError, ValueError) as raised:
            if names is None:
                names = names_of(function)
            if names.by_keyword.issuperset(named):
                error: Exception | None = _misplaced_error(function, names, args)
            else:
                error = _unknown_error(function.__name__, names, named) if isinstance(raised, TypeError) else None
            if error is None:
                raise
        try:
            raise error
        finally:
            del error  # breaks the reference cycle from the error through its traceback to this frame, which holds the arguments

    return called  # type: ignore[return-value]


def _rename_aliases(op: str, names: Names, count: int, named: dict[str, Any]) -> None:
    """Rename aliases in `named`, in place, to our names. `count` arguments were given by position. Raise ArgumentError for a duplicate."""
    for alias in names.ours.keys() & named.keys():
        value, our_name = named.pop(alias), names.ours[alias]
        if value is None:
            continue
        if our_name in named or our_name in names.by_place[:count]:
            raise ArgumentError(f"{op}: {our_name} and {alias} are two names of one argument; give only {our_name}")
        named[our_name] = value


def _misplaced_error(function: Any, names: Names, args: tuple[Any, ...]) -> MisplacedArgument | None:
    """Return the error for positional arguments `args`, with a replacement, or None if the arguments may be valid."""
    from .spellings import of_positions

    takes_any = bool(function.__code__.co_flags & _CO_VARARGS)
    our_keywords = names.by_keyword - names.ours.keys()
    advice = of_positions(function.__name__, function.__module__, names.by_place, function.__annotations__, takes_any, our_keywords, args)
    return None if advice is None else MisplacedArgument(f"{function.__name__}: {advice}")


def _unknown_error(op: str, names: Names, named: Iterable[str]) -> UnknownArgument:
    """Return the error for the first keyword in `named` unknown to the function named `op`."""
    from .spellings import of_arguments

    name = next(name for name in named if name not in names.by_keyword)
    return UnknownArgument(f"{op}: there is no argument {name!r}; {of_arguments(name, names.by_place, names.by_keyword, names.ours)}")
