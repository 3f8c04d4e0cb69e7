"""Tasks put together beyond what Dask does.

Dask fuses a chain of tasks as long as each has one to wait for, and a number, a row of means or some centres are tasks, too: what
computes with them is a task apart, which asks the scheduler for its turn. Meanwhile a worker reads the next chunk, so it has more of
them in memory than it works on, and no kernel goes across. So small constants become part of the tasks that read them; then there are
more chains. And of each fused chain Dask leaves a task that only gives its result another name: who asked for that asks for the result.
"""

from __future__ import annotations

from typing import Any

from dask._task_spec import Alias, DataNode, Task, fuse_linear_task_spec
from dask.core import flatten
from dask.sizeof import sizeof

from ..tensor import Tensor
from .backend import lent

LITTLE = 1 << 16  # bytes of a constant that each task may carry along: it is sent as often as it is read


def fused(graph: dict[Any, Any], keys: Any) -> dict[Any, Any]:
    """Fewer tasks that give the same for some keys."""
    asked = set(flatten(keys)) if isinstance(keys, list | set) else {keys}
    graph = _called_by_one_name(graph, asked)
    constants = {key: _carried(node) for key, node in graph.items() if key not in asked and _little(node)}
    if not constants:  # so all chains are those that Dask saw
        return graph
    return _called_by_one_name(fuse_linear_task_spec(_with(graph, constants), asked), asked)


def _little(node: Any) -> bool:
    return type(node) is DataNode and sizeof(node.value) <= LITTLE


def _carried(node: Any) -> Any:
    """A constant as part of a task: what came over a wire may be written, for all a tensor knows, so tell it that nobody does."""
    return Task(node.key, lent, node.value) if type(node.value) is Tensor else node


def _called_by_one_name(graph: dict[Any, Any], asked: set[Any]) -> dict[Any, Any]:
    names = {key: node.target for key, node in graph.items() if type(node) is Alias and key not in asked and node.target in graph}
    for key, target in names.items():
        while target in names:
            target = names[target]
        names[key] = target
    return _with(graph, names)


def _with(graph: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    """The graph without some keys, each of which is another key, or a task, where it is asked for."""
    return {key: node.substitute(other) for key, node in graph.items() if key not in other}
