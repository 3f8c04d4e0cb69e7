"""Tasks that compute their tensors before they end.

A pending tensor keeps operands in memory. As the result of a task, a pending tensor would keep memory that Dask believes to be free. Dask's
timing of the task would be wrong, and the first reader of the tensor would compute it, perhaps while sending it. So the optimisation run
first by Dask, `array_optimize` (and `delayed_optimize`), is Dask's own followed by one step: tasks become `ComputingTask`. By then Dask has
fused the tasks, so a chain of operations on chunks is one expression, computed by few kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from dask._task_spec import Task, convert_legacy_graph
from dask.array.optimization import optimize as _dask_optimize
from dask.delayed import optimize as _dask_optimize_delayed
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.utils import ensure_dict, typename

from .._utils.process import get_memory_bytes
from ..api.inspection import realize
from ..memory.block_pool import SPARE_BYTES, pool
from ..tensor import Tensor
from .array_backend import assume_constant
from .task_fusion import fuse_tasks

POOL_MEMORY_DIVISOR = 16  # at most 1/POOL_MEMORY_DIVISOR of a worker's memory may be pooled
_TENSOR_TYPE_NAME = typename(Tensor)  # the annotation of layers with tensors as chunks


class ComputingTask(Task):  # type: ignore[misc]  # Dask's types are not all written down
    """A Dask task whose result is in memory when the task ends."""

    __slots__ = ()

    def __call__(self, values: Any = ()) -> Any:
        result = compute_result(super().__call__({key: assume_constant(value) for key, value in values.items()} if values else values))
        if hasattr(sys.modules.get("distributed.worker"), "get_worker"):
            limit_pooled_memory(result, *(values.values() if values else ()))
        return result


def compute_result(result: Any) -> Any:
    """Return the result of a task with the tensors in it, also in lists, tuples and dicts, in memory.

    The tensors are computed together; intermediates without further readers are not stored. A view of at most half of a storage becomes a
    tensor with a separate storage, as a slice of an array does in Dask.
    """
    tensors: list[Tensor] = []
    result = _copy_small_views(result, tensors)
    if tensors:
        realize(*tensors)
    return result


def _copy_small_views(x: Any, tensors: list[Tensor]) -> Any:
    """Return a result with views of at most half of their storage replaced by copies, and append the tensors in it to `tensors`.

    Lists, tuples, named tuples and dicts are copied with their items; other objects are returned themselves. Copies are pending.
    """
    kind = type(x)
    if kind is Tensor:
        tensor: Tensor = x.copy() if 2 * x.nbytes <= x.storage.nbytes else x
        tensors.append(tensor)
        return tensor
    if kind is list or kind is tuple:
        return kind([_copy_small_views(item, tensors) for item in x])
    if kind is dict:
        return {key: _copy_small_views(item, tensors) for key, item in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return kind(*[_copy_small_views(item, tensors) for item in x])
    return x


def limit_pooled_memory(*tensors: Any) -> None:
    """Limit the pooled memory of this process to twice the size of the tensors among `tensors`, if the process is a worker of Dask.

    `tensors` are a task's arguments and result; other objects count nothing. The limit is at least `SPARE_BYTES` bytes, and at most
    1/`POOL_MEMORY_DIVISOR` of the worker's memory. A worker spills data and pauses by the memory of its process, including pooled memory:
    memory left in the pool by a spilled chunk would cause the next chunk to be spilled. `distributed` must be loaded.
    """
    try:
        worker = sys.modules["distributed.worker"].get_worker()
    except ValueError:  # the process is not a worker
        return
    needed_bytes = 2 * sum([t.nbytes for t in tensors if type(t) is Tensor])
    pool.limit_free_blocks(
        min(max(SPARE_BYTES, needed_bytes), (worker.memory_manager.memory_limit or get_memory_bytes()) // POOL_MEMORY_DIVISOR)
    )


def optimize(graph: Any, keys: Any, **options: Any) -> Any:
    """Return the graph of an array after Dask's optimisation for the results `keys`; `options` are passed to Dask.

    If tensors are among the chunks, each task computes the tensors in its result before it ends. A graph without layers is treated so in
    any case.
    """
    layers = getattr(graph, "layers", None)
    if layers is None:
        return _compute_in_tasks(_dask_optimize(graph, keys, **options))
    tensor_layers = {name for name, layer in layers.items() if (layer.collection_annotations or {}).get("chunk_type") == _TENSOR_TYPE_NAME}
    if not tensor_layers:
        return _dask_optimize(graph, keys, **options)
    optimized = _dask_optimize(_replace_shuffles(graph, tensor_layers), keys, **options)
    # Dask returns a HighLevelGraph if fusing is off.
    return _compute_in_tasks(optimized if isinstance(optimized, HighLevelGraph) else fuse_tasks(optimized, keys))


def _replace_shuffles(graph: Any, tensor_layers: Iterable[str]) -> Any:
    """Return the graph with layers for tensors in place of P2P rechunking (`p2p_rechunking.py`).

    `graph` is a HighLevelGraph, returned itself if no P2P shuffle is loaded. `tensor_layers` are the names of the layers with tensors as
    chunks.
    """
    if "distributed.shuffle._rechunk" not in sys.modules:  # then the graph does not rechunk by P2P
        return graph
    from .p2p_rechunking import replace_shuffle_layer

    return HighLevelGraph(
        {name: replace_shuffle_layer(layer) if name in tensor_layers else layer for name, layer in graph.layers.items()}, graph.dependencies
    )


def optimize_delayed(graph: Any, keys: Any, **options: Any) -> Any:
    """Return the graph of delayed calls after Dask's optimisation for the results `keys`; `options` are passed to Dask.

    Each task computes the tensors in the result before the end.
    """
    return _compute_in_tasks(_dask_optimize_delayed(graph, keys, **options))


def _compute_in_tasks(graph: Any) -> Any:
    """Return a new graph with a `ComputingTask`, which computes tensors in the result, for each task of the type `Task` itself.

    A HighLevelGraph gives a HighLevelGraph of materialised layers with the same annotations, another graph a dict in Dask's new form.
    """
    if not isinstance(graph, HighLevelGraph):
        return _convert_tasks(graph, graph)
    complete_graph = ensure_dict(graph)
    layers = {
        name: MaterializedLayer(_convert_tasks(layer, complete_graph), layer.annotations, layer.collection_annotations)
        for name, layer in graph.layers.items()
    }
    return HighLevelGraph(layers, graph.dependencies)


def _convert_tasks(graph: Mapping[Any, Any], all_keys: Iterable[Any]) -> dict[Any, Any]:
    """Return `graph` as a dict in Dask's new form, whose tasks compute the tensors in their results.

    `graph` maps keys to nodes, also of the old form; `all_keys` has the keys of the complete graph.
    """
    return {key: _to_computing_task(node) for key, node in convert_legacy_graph(graph, all_keys).items()}


def _to_computing_task(node: Any) -> Any:
    """Return a task as a `ComputingTask` task, and a node of a different type unchanged.

    A subclass of Task, as used in a shuffle, is unchanged too, since Dask recognises such tasks by type.
    """
    if type(node) is not Task:
        return node
    return ComputingTask(node.key, node.func, *node.args, _data_producer=node.data_producer, **node.kwargs)
