"""Upcalls: calls from a lower room to a higher one, which the lower room cannot import.

One object, `upcalls`, has all of them but those of the fast path, which stand in `fastpath_interface.py`. Prefer an import, an argument or
a method of an object that the caller has: an upcall is for a caller that has none of these. `tests/test_architecture.py` allows no other
variable that is filled from another module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

# Types of higher rooms, which this module cannot import
DType: TypeAlias = Any
Node: TypeAlias = Any
TapeNode: TypeAlias = Any
Tensor: TypeAlias = Any


class TensorFactory(Protocol):
    """The function that makes tensors of numbers and arrays: `asarray` of `api/creation.py`, set by `import tenxor`."""

    def __call__(self, value: Any, dtype: DType, /) -> Tensor:
        """Return a new tensor of `dtype` with the elements of `value`: a number, nested lists, an array or a tensor.

        `DType.__call__` calls it, as in `tx.float32(0.1)`. It may run user code, such as `__array__` of `value`, and may raise any error of
        `asarray`. It is always set.
        """


class NodeObserver(Protocol):
    """An observer of new nodes: `check_nan` (`api/nan_check.py`), while such a context is open in any thread.

    Each method may realize nodes, and may raise an error, which the user sees at the call that made the node. It must not write to a
    tensor. Without an observer, a caller reads one attribute. While there is one, the fast path is disabled, and nodes of derivatives and
    of batches are made one by one rather than replayed.
    """

    def observe_node(self, node: Node, /) -> None:
        """Observe `node`, made by an operation or a write. `Tensor._from_node`, writes and optimizers call it before the node is used."""

    def observe_host_result(self, node: Node, name: str, operands: Sequence[Node], /) -> None:
        """Observe `node`, which NumPy computed from `operands` in the operation `name`. `api/host_calls.py` calls it for each result."""

    def observe_derivative(self, node: Node, tape_node: TapeNode, /) -> None:
        """Observe `node`, a cotangent or tangent that the rule of `tape_node` made. The backward pass and forward mode call it."""

    def observe_batch(self, batch: Node, node: Node, /) -> None:
        """Observe `batch`, which holds for each batch element the value of `node`, traced for one of them. `vmap` calls it."""


class Upcalls:
    """The functions and objects of higher rooms that lower rooms call. Each attribute is described by its type.

    Another thread may change `node_observer` at any moment, so a caller reads the attribute once.
    """

    __slots__ = ("make_tensor", "node_observer")
    make_tensor: TensorFactory

    def __init__(self) -> None:
        self.node_observer: NodeObserver | None = None


upcalls = Upcalls()
