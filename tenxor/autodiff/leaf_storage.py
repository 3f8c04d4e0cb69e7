"""Leaf storages: a storage that requires a gradient holds a leaf of the tape. A storage is the mutable cell of a tensor's content, a node.
A leaf is a tape node without operands: an independent variable.

A recorded write creates a node that reads the leaf, and the gradient is still taken with respect to the value before the write. An
unrecorded write, for instance by an optimiser, gives the same leaf a new value. A recorded write to a leaf with a constant gradient is an
error: most likely an update without `no_grad`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from ..errors import DerivativeError
from ..graph.node import Node, is_write, tape_mode
from ..graph.storage import ScalarStorage, Storage
from .tape import TapeNode, copy_detached, get_tape_node

# Keys are weak references to storages, and an entry is removed with the storage. The callback is `pop`, a C function: a signal delivered in
# a Python callback would be lost. The node in the storage holds the leaf, not this map, as the leaf's hooks may refer to the storage; the
# collector frees such cycles. Only after a different node was written does `_detached_leaves` hold the leaf.
_leaves: dict[ref[Storage], ref[TapeNode]] = {}
_detached_leaves: dict[ref[Storage], TapeNode] = {}


def find_leaf(storage: Storage) -> TapeNode | None:
    """Return the leaf of `storage`; None if the storage does not require a gradient, or if the leaf was freed."""
    reference = _leaves.get(ref(storage))
    return None if reference is None else reference()


def _node_after_write(storage: Storage, node: Node) -> Node:
    """Return the node that the leaf storage `storage` holds after a write of `node`: `node` itself or a copy.

    While no tape is recorded, a `node` without a tape node becomes a new value of the leaf. A node with another tape node takes the place
    of the leaf, which is then kept in `_detached_leaves`. Raise DerivativeError for a recorded write to a leaf with a constant gradient.
    """
    tape_node = find_leaf(storage)
    if tape_node is None:  # the leaf was freed after the call of the function with this leaf
        return node
    if tape_mode.get():
        _check_is_not_update(tape_node, node)
    elif node.tape_node is None:
        node = _as_leaf(node, tape_node)
    if node.tape_node is not tape_node:
        _detached_leaves[ref(storage, _detached_leaves.pop)] = tape_node
    elif _detached_leaves:
        _detached_leaves.pop(ref(storage), None)
    return node


def _check_is_not_update(tape_node: TapeNode, node: Node) -> None:
    """Raise DerivativeError for a recorded write of `node` to the leaf `tape_node` if the leaf has a constant gradient, one off the tape.

    The next gradient would be with respect to the old values.
    """
    grad = None if tape_node.grad_hook is None or node.tape_node is tape_node else tape_node.grad_hook.grad
    if grad is not None and get_tape_node(grad.node) is None:
        raise DerivativeError(
            f"in-place write: this tensor of {node.size} elements requires a gradient and has one, so the write must not be tracked; to"
            " update it write `with tx.no_grad(): w -= lr * w.grad`; to differentiate through the write set w.grad = None first"
        )


def _as_leaf(node: Node, tape_node: TapeNode) -> Node:
    """Return a node with the content of `node` and the tape node `tape_node`: `node` itself, changed in place, if it is a write; else a
    copy.
    """
    if not is_write(node.op):  # a node is new, without further references, only if it is a write
        node = copy_detached(node)
    node.tape_node = tape_node
    return node


def _write_leaf(storage: Storage, node: Node) -> None:
    """Set the node of `storage`, a leaf, to the node returned by `_node_after_write` for `node`."""
    _node_slot.__set__(storage, _node_after_write(storage, node))


_node_slot: Any = Storage.__dict__["node"]  # the descriptor of the slot
# Sets the node of a leaf storage, for callers that handle the leaf themselves
_set_node_unchecked: Callable[[Storage, Node], None] = _node_slot.__set__


class LeafStorage(Storage):
    """A storage that requires a gradient: each write of a node goes through `_node_after_write`."""

    __slots__ = ()
    node = property(_node_slot.__get__, _write_leaf)


class LeafScalarStorage(ScalarStorage):
    """A 0-d storage that requires a gradient: see `LeafStorage`."""

    __slots__ = ()
    node = property(_node_slot.__get__, _write_leaf)


def attach_leaf(storage: Storage, node: Node, tape_node: TapeNode) -> None:
    """Make `storage` a leaf storage that holds `node`, a node with the leaf `tape_node`.

    The class of `storage` becomes `LeafStorage`, or `LeafScalarStorage` for a `ScalarStorage`. An earlier leaf is replaced.
    """
    _set_node_unchecked(storage, node)
    _leaves[ref(storage, _leaves.pop)] = ref(tape_node)
    _detached_leaves.pop(ref(storage), None)
    storage.__class__ = LeafScalarStorage if isinstance(storage, ScalarStorage) else LeafStorage


def detach_leaf(storage: Storage) -> bool:
    """Make `storage` an ordinary storage with the same node, and return True. Without a leaf, do nothing and return False."""
    if _leaves.pop(ref(storage), None) is None:
        return False
    _detached_leaves.pop(ref(storage), None)
    storage.__class__ = ScalarStorage if isinstance(storage, ScalarStorage) else Storage
    return True


def replace_content(storage: Storage, node: Node) -> None:
    """Replace the content of `storage`, which requires a gradient, by `node`, keeping the leaf. Nothing is recorded or checked.

    `node` must be new, without further references, and have the size and dtype of the old content. The tape node of `node` becomes the
    leaf.
    """
    key = ref(storage)
    node.tape_node = _leaves[key]()
    _set_node_unchecked(storage, node)
    if _detached_leaves:
        _detached_leaves.pop(key, None)
