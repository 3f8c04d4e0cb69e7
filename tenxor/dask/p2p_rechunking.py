"""Rechunking by Dask's P2P shuffle, in which chunks are cut and sent from worker to worker.

Dask's implementation takes NumPy arrays, cuts up their memory and sends it. So tensors go in as arrays over the same memory, and the
results become tensors again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from dask._task_spec import Task
from distributed.shuffle._rechunk import P2PRechunkLayer, rechunk_transfer, rechunk_unpack

from ..tensor import Tensor
from .array_backend import to_tensor


def replace_shuffle_layer(layer: Any) -> Any:
    """Return `layer`, a layer of a Dask graph, or an equal layer for tensors in place of Dask's layer for P2P rechunking."""
    if type(layer) is not P2PRechunkLayer:
        return layer
    tensor_layer = _build_tensor_layer(layer, layer.keepmap)
    tensor_layer.collection_annotations = layer.collection_annotations
    return tensor_layer


def _build_tensor_layer(layer: Any, keepmap: Any) -> TensorRechunkLayer:
    """Return a rechunking layer for tensors with the attributes of `layer`, limited to the chunks in `keepmap`, as in Dask."""
    options = {name: getattr(layer, name) for name in ("name", "token", "chunks", "chunks_input", "name_input", "disk", "annotations")}
    return TensorRechunkLayer(keepmap=keepmap, **options)


class TensorRechunkLayer(P2PRechunkLayer):  # type: ignore[misc]  # Dask's types are not all written down
    """Dask's layer for P2P rechunking, for tensors as chunks."""

    def _cull(self, keepmap: Any) -> TensorRechunkLayer:
        """Return this layer limited to the chunks in `keepmap`, for Dask."""
        return _build_tensor_layer(self, keepmap)

    def _construct_graph(self) -> dict[Any, Any]:
        """Return Dask's tasks of the layer by key, with functions for tensors."""
        return {key: _replace_functions(node) for key, node in super()._construct_graph().items()}


def _replace_functions(node: Any) -> Any:
    """Return a task of a P2P shuffle with functions for tensors; return other nodes as they are."""
    replacements: dict[Any, Callable[..., Any]] = {rechunk_transfer: cut_and_send, rechunk_unpack: join_received}
    return Task(node.key, replacements[node.func], *node.args) if type(node) is Task and node.func in replacements else node


def cut_and_send(chunk: Any, *options: Any) -> Any:
    """Cut a chunk as a NumPy array, and send the parts to workers; `options` are the further arguments of Dask's function."""
    return rechunk_transfer(np.asarray(chunk), *options)


def join_received(*options: Any) -> Tensor:
    """Return a chunk, as a tensor, joined from the received parts; `options` are the arguments of Dask's function."""
    return to_tensor(rechunk_unpack(*options))
