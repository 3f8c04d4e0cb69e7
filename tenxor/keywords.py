"""Arguments by the names that other libraries have for them: the one table, and the one decorator that takes them for ours.

A function lists another name among its parameters, after a `*`, so that `help` and type checkers know it; its body never sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

from .errors import ArgumentError, MisplacedArgument, UnknownArgument
from .records import NamedTuple

F = TypeVar("F", bound=Callable[..., Any])
_CO_VARARGS = 4  # as in `inspect`, which takes long to import

# Theirs, and which of ours it may stand for: the first that the function has.
KEYWORDS = {
    **{"dim": ("axis", "axes"), "dims": ("axis", "axes"), "keepdim": ("keepdims",), "ddof": ("correction",)},
    **{"interpolation": ("method",), "start_dim": ("start",), "end_dim": ("end",)},
    **{"dim1": ("axis1",), "dim2": ("axis2",), "size": ("shape",), "rcond": ("rtol",)},
    **{"end": ("stop",), "steps": ("num",), "value": ("src",)},
}


class Names(NamedTuple):
    """What a function's arguments are called: those that may stand in their place, all that may be named, and ours for theirs."""

    by_place: tuple[str, ...]
    every: frozenset[str]
    ours: dict[str, str]


def names_of(function: Any) -> Names:
    """What a function's arguments are called."""
    code = function.__code__
    by_place = code.co_varnames[: code.co_argcount]
    by_name = [name for name in code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount] if name != "self"]
    ours = {theirs: our for theirs in by_name for our in reversed(KEYWORDS.get(theirs, ())) if our in by_name}
    return Names(by_place, frozenset(by_name), ours)


def spelled(function: F) -> F:
    """The same function, of which what was named as another library names it is given by our name.

    ArgumentError where both are given; UnknownArgument, a TypeError, for what has neither name says which is near. Another name
    with None was not given. MisplacedArgument where a call failed whose positions no call can have, such as `zeros(3, 4)`.
    """
    names: Names | None = None  # found when first asked for, as most functions that are there are not called

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        nonlocal names
        if named:
            if names is None:
                names = names_of(function)
            if not names.ours.keys().isdisjoint(named):
                _rename(function.__name__, names, len(args), named)
        try:
            return function(*args, **named) if named else function(*args)
        except (TypeError, ValueError) as raised:
            if names is None:
                names = names_of(function)
            if names.every.issuperset(named):
                error: Exception | None = _misplaced(function, names, args)
            else:
                error = _unknown(function.__name__, names, named) if isinstance(raised, TypeError) else None
            if error is None:
                raise
        try:
            raise error
        finally:
            del error  # whose traceback refers to this frame, which holds the arguments

    return called  # type: ignore[return-value]


def _rename(op: str, names: Names, count: int, named: dict[str, Any]) -> None:
    """Have what was named otherwise named as we do."""
    for other in names.ours.keys() & named.keys():
        value, own = named.pop(other), names.ours[other]
        if value is None:
            continue
        if own in named or own in names.by_place[:count]:
            raise ArgumentError(f"{op}: {own} and {other} are two names of one argument; give only {own}")
        named[own] = value


def _misplaced(function: Any, names: Names, args: tuple[Any, ...]) -> MisplacedArgument | None:
    """Return the error that says what to write instead of these positions; None for positions that may be right."""
    from .spellings import of_positions

    takes_any = bool(function.__code__.co_flags & _CO_VARARGS)
    by_name = names.every - names.ours.keys()
    instead = of_positions(function.__name__, function.__module__, names.by_place, function.__annotations__, takes_any, by_name, args)
    return None if instead is None else MisplacedArgument(f"{function.__name__}: {instead}")


def _unknown(op: str, names: Names, named: Iterable[str]) -> UnknownArgument:
    """What to say of a name that no argument has."""
    from .spellings import of_arguments

    name = next(name for name in named if name not in names.every)
    return UnknownArgument(f"{op}: there is no argument {name!r}; {of_arguments(name, names.by_place, names.every, names.ours)}")
