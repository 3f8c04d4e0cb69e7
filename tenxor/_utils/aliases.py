"""Aliases of keyword arguments, taken from NumPy and PyTorch: the table, and the decorator to rename them to ours.

A function lists an alias among its keyword-only parameters, for `help` and type checkers; its body never reads the alias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

from ..errors import ArgumentError, MisplacedArgument, UnknownArgument
from .records import NamedTuple

F = TypeVar("F", bound=Callable[..., Any])
_CO_VARARGS = 4  # the flag of `inspect`, whose import is slow

# Alias -> our names. The alias stands for the first of our names among the function's parameters.
OUR_NAMES_BY_ALIAS = {
    **{"dim": ("axis", "axes"), "dims": ("axis", "axes"), "keepdim": ("keepdims",), "ddof": ("correction",)},
    **{"interpolation": ("method",), "start_dim": ("start",), "end_dim": ("end",)},
    **{"dim1": ("axis1",), "dim2": ("axis2",), "size": ("shape",), "rcond": ("rtol",)},
    **{"end": ("stop",), "steps": ("num",), "value": ("src",)},
}


class ParameterNames(NamedTuple):
    """Names of a function's parameters: by position, by keyword, and our name of each alias."""

    positional_names: tuple[str, ...]
    keyword_names: frozenset[str]
    our_name_by_alias: dict[str, str]


def get_parameter_names(function: Any) -> ParameterNames:
    """Return the parameter names of `function`, a Python function. The names given by keyword do not include `self`."""
    code = function.__code__
    by_place = code.co_varnames[: code.co_argcount]
    by_name = [name for name in code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount] if name != "self"]
    ours = {alias: our_name for alias in by_name for our_name in reversed(OUR_NAMES_BY_ALIAS.get(alias, ())) if our_name in by_name}
    return ParameterNames(by_place, frozenset(by_name), ours)


def argument_aliases(function: F) -> F:
    """Wrap `function` to accept keyword arguments under foreign names, and pass them under our names.

    An alias with the value None counts as not given. The wrapper raises ArgumentError if an argument is given under both names. After a
    failed call, the wrapper raises UnknownArgument, a TypeError with a similar name, for an unknown keyword, and MisplacedArgument for
    positional arguments invalid in every call, for example `zeros(3, 4)`.
    """
    names: ParameterNames | None = None  # computed at the first call in need of names: most functions are never called

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        nonlocal names
        if named:
            if names is None:
                names = get_parameter_names(function)
            if not names.our_name_by_alias.keys().isdisjoint(named):
                _rename_aliases(function.__name__, names, len(args), named)
        try:
            return function(*args, **named) if named else function(*args)
        except (TypeError, ValueError) as raised:
            if names is None:
                names = get_parameter_names(function)
            if names.keyword_names.issuperset(named):
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


def _rename_aliases(op: str, names: ParameterNames, count: int, named: dict[str, Any]) -> None:
    """Rename aliases in `named`, the keyword arguments of a call, to our names, in place. Aliases with the value None are removed.

    `op` is the function's name for errors, `names` are the function's parameters, and `count` arguments were given by position. Raise
    ArgumentError for an argument given twice.
    """
    for alias in names.our_name_by_alias.keys() & named.keys():
        value, our_name = named.pop(alias), names.our_name_by_alias[alias]
        if value is None:
            continue
        if our_name in named or our_name in names.positional_names[:count]:
            raise ArgumentError(f"{op}: {our_name} and {alias} are two names of one argument; give only {our_name}")
        named[our_name] = value


def _misplaced_error(function: Any, names: ParameterNames, args: tuple[Any, ...]) -> MisplacedArgument | None:
    """Return the error, with a replacement, for positional arguments `args` that are invalid in every call of `function`.

    An example is `zeros(3, 4)`. `names` are the parameter names of `function`. Return None if the arguments may be valid.
    """
    from .foreign_names import advise_on_positions

    takes_any = bool(function.__code__.co_flags & _CO_VARARGS)
    our_keywords = names.keyword_names - names.our_name_by_alias.keys()
    advice = advise_on_positions(
        function.__name__, function.__module__, names.positional_names, function.__annotations__, takes_any, our_keywords, args
    )
    return None if advice is None else MisplacedArgument(f"{function.__name__}: {advice}")


def _unknown_error(op: str, names: ParameterNames, named: Iterable[str]) -> UnknownArgument:
    """Return the error for the first keyword in `named` unknown to the function named `op`. `names` are the function's parameters.

    At least one keyword must be unknown.
    """
    from .foreign_names import advise_on_argument

    name = next(name for name in named if name not in names.keyword_names)
    advice = advise_on_argument(name, names.positional_names, names.keyword_names, names.our_name_by_alias)
    return UnknownArgument(f"{op}: there is no argument {name!r}; {advice}")
