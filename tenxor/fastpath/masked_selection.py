"""Pending selections by a mask: their size is known, but the elements are copied only when they are needed."""

from __future__ import annotations

from typing import Any

from .._utils import upcalls
from ..graph.node import Node
from ..graph.spec import Spec
from ..graph.storage import Storage
from ..runtime.realize import realize
from ..tensor import Tensor

MIN_DEFERRED_BYTES = 1 << 16  # a selection from a tensor of at least as many bytes stays pending


class MaskedSelection:
    """The deferred computation of a node with the elements, or rows, selected by a mask.

    The sources of the node are this object, the tensor's node and the mask's node. `spec` and `offset` are the view of the tensor's node,
    `mask_spec` and `mask_offset` the view of the mask's. `descriptor` tells the generated code how rows and mask are stored.
    """

    __slots__ = ("descriptor", "mask_offset", "mask_spec", "offset", "spec")

    def __init__(self, spec: Spec, offset: int, mask_spec: Spec, mask_offset: int, descriptor: bytes) -> None:
        self.spec, self.offset, self.mask_spec, self.mask_offset, self.descriptor = spec, offset, mask_spec, mask_offset, descriptor

    def finish(self, node: Node) -> None:
        """Copy the selected elements into memory, and give that memory to the pending `node`, whose operation is this object."""
        fast_path = upcalls.installed
        if fast_path is not None and fast_path.finish_selection(node):
            return
        _, x, mask = node.sources
        tensor = self._view_node(x, self.spec, self.offset)
        selected = tensor._gather(tensor._select_by_key("indexing", tensor.layout, self._view_node(mask, self.mask_spec, self.mask_offset)))
        realize(selected.storage.node)
        assert selected.storage.node.buffer is not None
        node.set_buffer(selected.storage.node.buffer)

    @staticmethod
    def _view_node(node: Any, spec: Spec, offset: int) -> Tensor:
        """Return the node `node` as a tensor with spec `spec`, which begins at element `offset` of the node."""
        return Tensor(Storage(node), spec.layout.at(offset), spec.dtype)
