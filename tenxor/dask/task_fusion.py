"""Fusion of tasks beyond Dask's own.

Dask fuses a chain of tasks if each task has a single dependency. But a number, a row of means or a few centres are tasks too, so a task
that computes with them is scheduled separately. Meanwhile the worker reads the next chunks and holds more chunks in memory than it works
on, and no kernel spans both tasks. So small constants are moved into the tasks that read them, which makes longer chains. After fusing a
chain, Dask leaves a task that only renames the result; such tasks are removed.
"""

from __future__ import annotations

from typing import Any

from dask._task_spec import Alias, DataNode, Task, fuse_linear_task_spec
from dask.core import flatten
from dask.sizeof import sizeof

from ..tensor import Tensor
from .array_backend import assume_constant

MAX_INLINED_BYTES = 1 << 16  # bytes of a constant to be moved into tasks; it is then sent with each of them


def fuse_tasks(graph: dict[Any, Any], keys: Any) -> dict[Any, Any]:
    """Return a graph (Dask's tasks by key) with fewer tasks and the same results for `keys`, a key or nested lists of keys.

    Small constants are moved into the tasks that read them, chains are fused again, and tasks for renaming alone are removed. Without small
    constants, only the last is done.
    """
    requested = set(flatten(keys)) if isinstance(keys, list | set) else {keys}
    graph = _remove_aliases(graph, requested)
    constants = {key: _inline_constant(node) for key, node in graph.items() if key not in requested and _is_small_constant(node)}
    if not constants:  # so Dask has found the longest chains already
        return graph
    return _remove_aliases(fuse_linear_task_spec(_substitute(graph, constants), requested), requested)


def _is_small_constant(node: Any) -> bool:
    """Return whether `node`, a node of a Dask graph, is a constant of at most `MAX_INLINED_BYTES` bytes."""
    return type(node) is DataNode and sizeof(node.value) <= MAX_INLINED_BYTES


def _inline_constant(node: Any) -> Any:
    """Return the data node `node`, a constant, or for a tensor a task, to substitute in other tasks.

    The task declares the memory of the tensor constant (`array_backend.assume_constant`).
    """
    return Task(node.key, assume_constant, node.value) if type(node.value) is Tensor else node


def _remove_aliases(graph: dict[Any, Any], requested: set[Any]) -> dict[Any, Any]:
    """Return `graph`, Dask's tasks by key, without tasks that merely rename another task, except for the keys in `requested`."""
    names = {key: node.target for key, node in graph.items() if type(node) is Alias and key not in requested and node.target in graph}
    for key, target in names.items():
        while target in names:
            target = names[target]
        names[key] = target
    return _substitute(graph, names)


def _substitute(graph: dict[Any, Any], substitutes: dict[Any, Any]) -> dict[Any, Any]:
    """Return a new graph with substitutions: `substitutes` maps each key to be removed to another key, or to a task to be used instead.

    `graph` has Dask's tasks (`GraphNode`) by key. A substitute is put in as it is, so none may be, or read, a removed key.
    """
    return {key: node.substitute(substitutes) for key, node in graph.items() if key not in substitutes}
