"""Chunks that go from worker to worker all at once, to be cut otherwise.

Dask's P2P rechunking takes NumPy's arrays, whose memory it cuts up and sends. So tensors go in as arrays over the same memory, and
what comes out are tensors again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from dask._task_spec import Task
from distributed.shuffle._rechunk import P2PRechunkLayer, rechunk_transfer, rechunk_unpack

from ..tensor import Tensor
from .backend import tensor


def exchanged(layer: Any) -> Any:
    """A layer, or one of ours in place of one that rechunks so."""
    if type(layer) is not P2PRechunkLayer:
        return layer
    found = _like(layer, layer.keepmap)
    found.collection_annotations = layer.collection_annotations
    return found


def _like(layer: Any, keepmap: Any) -> TensorRechunkLayer:
    options = {name: getattr(layer, name) for name in ("name", "token", "chunks", "chunks_input", "name_input", "disk", "annotations")}
    return TensorRechunkLayer(keepmap=keepmap, **options)


class TensorRechunkLayer(P2PRechunkLayer):  # type: ignore[misc]  # Dask's types are not all written down
    """The layer of Dask's, for tensors."""

    def _cull(self, keepmap: Any) -> TensorRechunkLayer:
        return _like(self, keepmap)

    def _construct_graph(self) -> dict[Any, Any]:
        return {key: _one(node) for key, node in super()._construct_graph().items()}


def _one(node: Any) -> Any:
    ours: dict[Any, Callable[..., Any]] = {rechunk_transfer: transfer, rechunk_unpack: unpack}
    return Task(node.key, ours[node.func], *node.args) if type(node) is Task and node.func in ours else node


def transfer(chunk: Any, *options: Any) -> Any:
    """Cut a chunk, and send its parts."""
    return rechunk_transfer(np.asarray(chunk), *options)


def unpack(*options: Any) -> Tensor:
    """A chunk of parts that were sent."""
    return tensor(rechunk_unpack(*options))
