"""Tasks at whose end tensors are computed.

A pending tensor keeps what it is made of. As the result of a task it would keep memory that Dask believes to be free, take no time
where Dask looks at the clock, and be computed by whoever asks first, maybe in the midst of sending it away. So the optimisation
that Dask runs before anything else, `array_optimize` (and `delayed_optimize`), is its own followed by one step: tasks become
`Computed`. Dask has fused them by then, so a chain of operations on chunks is one expression, and few kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from dask._task_spec import Task, convert_legacy_graph
from dask.array.optimization import optimize as _optimized
from dask.delayed import optimize as _delayed_optimized
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.utils import ensure_dict, typename

from ..functions.inspection import realize
from ..pool import SPARE, pool
from ..system import memory_bytes
from ..tensor import Tensor
from .backend import lent
from .fusing import fused

PART = 16  # of a worker's memory that may be pooled at the most is one of so many
_KIND = typename(Tensor)  # how layers say what their chunks are


class Computed(Task):  # type: ignore[misc]  # Dask's types are not all written down
    """A task of Dask's, whose result is in memory when it ends."""

    __slots__ = ()

    def __call__(self, values: Any = ()) -> Any:
        result = computed(super().__call__({key: lent(value) for key, value in values.items()} if values else values))
        if hasattr(sys.modules.get("distributed.worker"), "get_worker"):
            keep_little(result, *(values.values() if values else ()))
        return result


def computed(result: Any) -> Any:
    """The result of a task, with the tensors in it, or in containers, in memory: computed together, and without what nobody will see.

    A view of less than half of its memory becomes a tensor of its own, as in Dask a slice of an array does.
    """
    found: list[Tensor] = []
    result = _own(result, found)
    if found:
        realize(*found)
    return result


def _own(x: Any, found: list[Tensor]) -> Any:
    kind = type(x)
    if kind is Tensor:
        own: Tensor = x.copy() if 2 * x.nbytes <= x.storage.nbytes else x
        found.append(own)
        return own
    if kind is list or kind is tuple:
        return kind([_own(item, found) for item in x])
    if kind is dict:
        return {key: _own(item, found) for key, item in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return kind(*[_own(item, found) for item in x])
    return x


def keep_little(*tensors: Any) -> None:
    """Let the system have memory for which tasks with such arguments and results have no use, if this is a worker's process.

    A worker spills and pauses by what its process has of the system's memory, and pooled memory counts: what a spilled chunk left there
    would make it spill the next one.
    """
    try:
        worker = sys.modules["distributed.worker"].get_worker()
    except ValueError:  # it is none
        return
    needed = 2 * sum([t.nbytes for t in tensors if type(t) is Tensor])
    pool.keep_at_most(min(max(SPARE, needed), (worker.memory_manager.memory_limit or memory_bytes()) // PART))


def optimize(graph: Any, keys: Any, **options: Any) -> Any:
    """Dask's optimisation of arrays, and tasks that compute what they give if there are tensors among the chunks."""
    layers = getattr(graph, "layers", None)
    if layers is None:
        return _computing(_optimized(graph, keys, **options))
    ours = {name for name, layer in layers.items() if (layer.collection_annotations or {}).get("chunk_type") == _KIND}
    if not ours:
        return _optimized(graph, keys, **options)
    optimized = _optimized(_shuffled(graph, ours), keys, **options)
    return _computing(optimized if isinstance(optimized, HighLevelGraph) else fused(optimized, keys))  # which it is if nothing may be fused


def _shuffled(graph: Any, ours: Iterable[str]) -> Any:
    """The same graph, with layers of our own where chunks of ours go from worker to worker (`shuffles.py`)."""
    if "distributed.shuffle._rechunk" not in sys.modules:  # so there are none
        return graph
    from .shuffles import exchanged

    return HighLevelGraph({name: exchanged(layer) if name in ours else layer for name, layer in graph.layers.items()}, graph.dependencies)


def optimize_delayed(graph: Any, keys: Any, **options: Any) -> Any:
    """Dask's optimisation of delayed calls, any of which may give tensors, and tasks that compute what they give."""
    return _computing(_delayed_optimized(graph, keys, **options))


def _computing(graph: Any) -> Any:
    """The same graph, of tasks that compute what they give; layers keep what was noted about them."""
    if not isinstance(graph, HighLevelGraph):
        return _tasks(graph, graph)
    every = ensure_dict(graph)
    layers = {
        name: MaterializedLayer(_tasks(layer, every), layer.annotations, layer.collection_annotations)
        for name, layer in graph.layers.items()
    }
    return HighLevelGraph(layers, graph.dependencies)


def _tasks(graph: Mapping[Any, Any], every: Iterable[Any]) -> dict[Any, Any]:
    return {key: _one(node) for key, node in convert_legacy_graph(graph, every).items()}


def _one(node: Any) -> Any:
    """Tasks of other kinds, such as those of a shuffle, are known by their kind."""
    if type(node) is not Task:
        return node
    return Computed(node.key, node.func, *node.args, _data_producer=node.data_producer, **node.kwargs)
