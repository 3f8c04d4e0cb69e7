"""Nested lists, tuples and dicts of tensors, as transformations of functions take and give them; and what is no function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import ArgumentError, TraceError, described

MAX_TREE_LEVELS = 100


def leaves_of(tree: Any) -> list[Any]:
    """What is in nested lists, tuples and dicts, in order; None is nothing."""
    return list(_walk(tree, 0))


def _walk(tree: Any, level: int) -> Iterator[Any]:
    if isinstance(tree, (dict, list, tuple)):
        below = _next_level(level)
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _walk(value, below)
    elif tree is not None:
        yield tree


def _next_level(level: int) -> int:
    """Return the level below `level`; raise ArgumentError for one too deep, as of a list that contains itself."""
    if level == MAX_TREE_LEVELS:
        raise ArgumentError(
            f"lists, tuples and dicts of tensors are nested in more than {MAX_TREE_LEVELS} levels, or one contains itself;"
            f" they must have at most {MAX_TREE_LEVELS} levels"
        )
    return level + 1


def mapped(function: Callable[[Any], Any], tree: Any, level: int = 0) -> Any:
    """The same nesting, found at a `level` of another one, of what a function gives for each thing in it."""
    if not isinstance(tree, (dict, list, tuple)):
        return None if tree is None else function(tree)
    below = _next_level(level)
    if isinstance(tree, dict):
        return type(tree)((key, mapped(function, value, below)) for key, value in tree.items())
    values = [mapped(function, value, below) for value in tree]
    return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)


def filled(tree: Any, leaves: list[Any]) -> Any:
    """The same nesting of other things, in order."""
    rest = iter(leaves)
    return mapped(lambda _: next(rest), tree)


def outline(tree: Any, level: int = 0) -> Any:
    """What two of the same nesting, found at a `level` of another one, have in common."""
    if not isinstance(tree, (dict, list, tuple)):
        return tree is None
    below = _next_level(level)
    if isinstance(tree, dict):
        return ("dict", *((key, outline(value, below)) for key, value in tree.items()))
    return (type(tree).__name__, *[outline(value, below) for value in tree])


def check_called(op: str, function: Any) -> None:
    """Raise ArgumentError for what is no function."""
    if not callable(function):
        raise ArgumentError(f"{op}: the function is {described(function)}, which cannot be called")


@contextmanager
def naming(op: str) -> Iterator[None]:
    """Have a TraceError of the user's function name the transform that traces the function."""
    try:
        yield
    except TraceError as error:
        error.args = (f"{op}: {error}",)
        raise


def check_arguments(op: str, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raise ArgumentError if a function cannot be called with some arguments, as far as it tells what it takes."""
    from inspect import signature

    try:
        takes = signature(function)
    except (TypeError, ValueError):  # it does not
        return
    try:
        takes.bind(*args, **named)
    except TypeError as error:
        raise ArgumentError(f"{op}: the function cannot be called with what is given: {error}") from None
