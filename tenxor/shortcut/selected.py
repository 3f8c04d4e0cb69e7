"""What a mask selects, while it waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..node import Node
from ..realize import realize
from ..spec import Spec
from ..storage import Storage
from ..tensor import Tensor

LEAST = 1 << 16  # bytes of a tensor of which what is selected waits
finishers: list[Callable[[Node], bool]] = []  # machine code that selects what a node is; whether it did


class Selected:
    """How a node is made of the two behind this among its sources: of one, seen as a tensor with this spec from an offset on, the elements
    or rows where the other says so, a mask, seen likewise. `frame` tells machine code where these lie.
    """

    __slots__ = ("frame", "mask_offset", "mask_spec", "offset", "spec")

    def __init__(self, spec: Spec, offset: int, mask_spec: Spec, mask_offset: int, frame: bytes) -> None:
        self.spec, self.offset, self.mask_spec, self.mask_offset, self.frame = spec, offset, mask_spec, mask_offset, frame

    def finish(self, node: Node) -> None:
        """Select it."""
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
        return Tensor(Storage(node), spec.layout.at(offset), spec.dtype)

    def is_by_the_mask_of(self, other: Selected) -> bool:
        """Whether it is selected by a mask that is seen as another is, of as many elements."""
        return self.mask_spec is other.mask_spec and self.mask_offset == other.mask_offset and self.spec.shape == other.spec.shape
