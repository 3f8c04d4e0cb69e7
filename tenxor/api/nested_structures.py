"""Nested lists, tuples and dicts of tensors (in JAX: pytrees), as the function transformations take and return them; and checks of the
user's function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import ArgumentError, TraceError, describe_value

MAX_TREE_LEVELS = 100


def list_leaves(tree: Any) -> list[Any]:
    """Return the leaves of the nested lists, tuples and dicts `tree`, in order: the objects of further types, without None."""
    return list(_iterate_leaves(tree, 0))


def _iterate_leaves(tree: Any, level: int) -> Iterator[Any]:
    """Yield the leaves of `tree`, which is nested in `level` outer levels, in order."""
    if isinstance(tree, (dict, list, tuple)):
        below = _next_level(level)
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _iterate_leaves(value, below)
    elif tree is not None:
        yield tree


def _next_level(level: int) -> int:
    """Return the level below `level`. Raise ArgumentError beyond `MAX_TREE_LEVELS`, reached for instance by a list that contains itself."""
    if level == MAX_TREE_LEVELS:
        raise ArgumentError(
            f"lists, tuples and dicts of tensors are nested in more than {MAX_TREE_LEVELS} levels, or one contains itself;"
            f" they must have at most {MAX_TREE_LEVELS} levels, and none may contain itself"
        )
    return level + 1


def map_leaves(function: Callable[[Any], Any], tree: Any, level: int = 0) -> Any:
    """Return a copy of `tree` with each leaf replaced by `function(leaf)`; None stays. `level` is the depth of `tree` in an outer tree."""
    if not isinstance(tree, (dict, list, tuple)):
        return None if tree is None else function(tree)
    below = _next_level(level)
    if isinstance(tree, dict):
        return type(tree)((key, map_leaves(function, value, below)) for key, value in tree.items())
    values = [map_leaves(function, value, below) for value in tree]
    return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)


def replace_leaves(tree: Any, leaves: list[Any]) -> Any:
    """Return a copy of `tree` with the leaves replaced by `leaves`, in order. `leaves` has an item for each leaf."""
    remaining = iter(leaves)
    return map_leaves(lambda _: next(remaining), tree)


def structure_key(tree: Any, level: int = 0) -> Any:
    """Return a value that is equal for two trees if nesting, keys and places of None agree, and different otherwise.

    `level` is the depth of `tree` in an outer tree.
    """
    if not isinstance(tree, (dict, list, tuple)):
        return tree is None
    below = _next_level(level)
    if isinstance(tree, dict):
        return ("dict", *((key, structure_key(value, below)) for key, value in tree.items()))
    return (type(tree).__name__, *[structure_key(value, below) for value in tree])


def check_callable(op: str, function: Any) -> None:
    """Raise ArgumentError, beginning with `op`, if `function` is not callable."""
    if not callable(function):
        raise ArgumentError(
            f"{op}: the function is {describe_value(function)}, which cannot be called; give the function itself, not its result"
        )


@contextmanager
def prefix_trace_errors(op: str) -> Iterator[None]:
    """Prefix each TraceError inside this context with `op`, the name of the transformation that traces the user's function."""
    try:
        yield
    except TraceError as error:
        error.args = (f"{op}: {error}",)
        raise


def check_arguments(op: str, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raise ArgumentError, beginning with `op`, if the call `function(*args, **named)` does not fit the signature.

    Do nothing if the signature is not known.
    """
    from inspect import signature

    try:
        takes = signature(function)
    except (TypeError, ValueError):  # the signature is not known
        return
    try:
        takes.bind(*args, **named)
    except TypeError as error:
        raise ArgumentError(f"{op}: the function cannot be called with these arguments: {error}; they must fit its signature") from None
