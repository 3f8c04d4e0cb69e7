"""Pending selections by a mask: their size is known, but the elements are copied only when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..node import Node
from ..realize import realize
from ..spec import Spec
from ..storage import Storage
from ..tensor import Tensor

LEAST = 1 << 16  # bytes of a tensor from which a selection stays pending
finishers: list[Callable[[Node], bool]] = []  # empty, or the generated function to finish a selection, which returns its success


class Selected:
    """The deferred computation of a node with the elements, or rows, selected by a mask.

    The sources of the node are this object, the tensor's node and the mask's node. `spec` and `offset` are the view of the tensor's node,
    `mask_spec` and `mask_offset` the view of the mask's. `frame` tells the generated code how rows and mask are stored.
    """

    __slots__ = ("frame", "mask_offset", "mask_spec", "offset", "spec")

    def __init__(self, spec: Spec, offset: int, mask_spec: Spec, mask_offset: int, frame: bytes) -> None:
        self.spec, self.offset, self.mask_spec, self.mask_offset, self.frame = spec, offset, mask_spec, mask_offset, frame

    def finish(self, node: Node) -> None:
        """Copy the selected elements into memory, and give that memory to the pending `node`, whose operation is this object."""
        if any([finisher(node) for finisher in finishers]):
            return
        _, x, mask = node.sources
        whole = self._seen(x, self.spec, self.offset)
        found = whole._gather(whole._selection("indexing", whole.layout, self._seen(mask, self.mask_spec, self.mask_offset)))
        realize(found.storage.node)
        assert found.storage.node.buffer is not None
        node.settle(found.storage.node.buffer)

    @staticmethod
    def _seen(node: Any, spec: Spec, offset: int) -> Tensor:
        """Return a node as a tensor with this spec and offset."""
        return Tensor(Storage(node), spec.layout.at(offset), spec.dtype)
