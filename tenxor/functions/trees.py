"""Nested lists, tuples and dicts of tensors, as transformations of functions take and give them; and what is no function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..errors import ArgumentError, described


def leaves_of(tree: Any) -> list[Any]:
    """What is in nested lists, tuples and dicts, in order; None is nothing."""
    return list(_walk(tree))


def _walk(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        for value in tree.values():
            yield from _walk(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from _walk(value)
    elif tree is not None:
        yield tree


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same nesting of what a function gives for each thing in it."""
    if isinstance(tree, dict):
        return type(tree)((key, mapped(function, value)) for key, value in tree.items())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[mapped(function, value) for value in tree])
    if isinstance(tree, (list, tuple)):
        return type(tree)([mapped(function, value) for value in tree])
    return None if tree is None else function(tree)


def filled(tree: Any, leaves: list[Any]) -> Any:
    """The same nesting of other things, in order."""
    rest = iter(leaves)
    return mapped(lambda _: next(rest), tree)


def outline(tree: Any) -> Any:
    """What two of the same nesting have in common."""
    if isinstance(tree, dict):
        return ("dict", *((key, outline(value)) for key, value in tree.items()))
    if isinstance(tree, (list, tuple)):
        return (type(tree).__name__, *map(outline, tree))
    return tree is None


def check_called(op: str, function: Any) -> None:
    """Raise ArgumentError for what is no function."""
    if not callable(function):
        raise ArgumentError(f"{op}: the function is {described(function)}, which cannot be called")


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
