"""Storages that require a gradient, and the state of their gradients. Such a storage holds a leaf of the tape (`leaf_storage.py`): a tape
node without operands, an independent variable. The handler of the leaf, a `GradHandler`, runs hooks and collects the gradient.
"""

from __future__ import annotations

from weakref import ref

from ..graph.node import Node, make_data_node
from ..graph.storage import Storage
from .leaf_storage import attach_leaf, detach_leaf, find_leaf
from .tape import TapeNode, copy_detached, get_tape_node
from .tape_leaves import GradHandler, make_leaf

# For storages with computed content. An entry is removed with the storage; the callback is `pop`, a C function, as in `leaf_storage.py`.
_retained_handlers: dict[ref[Storage], GradHandler] = {}


def require_grad(storage: Storage) -> None:
    """Make `storage` require a gradient with respect to the present content, from now on a leaf of the tape.

    Do nothing if `storage` has a leaf and content on the tape. While a tape is recorded, do nothing for content on the tape: it is computed
    from a leaf. Otherwise `storage` becomes a leaf storage with a new node, in the old memory unless this is externally shared. The handler
    of an earlier leaf, with hooks and gradient, is kept.
    """
    old_leaf = find_leaf(storage)
    if old_leaf is not None and storage.node.tape_node is not None:
        return
    node, tape_node = make_leaf(storage.node)
    if tape_node.sources:  # The content is computed from a leaf, so the storage already has a gradient.
        return
    tape_node.grad_hook = GradHandler(keeps_grad=True) if old_leaf is None else old_leaf.grad_hook
    attach_leaf(storage, node, tape_node)


def stop_requiring_grad(storage: Storage) -> None:
    """Make `storage` no longer require a gradient, and detach the content from the tape. Do nothing if no gradient was required.

    The gradient and the hooks go with the leaf's handler.
    """
    if detach_leaf(storage):
        storage.node = detach_node(storage.node)


def retain_grad(storage: Storage, handler: GradHandler) -> None:
    """Retain the gradient with respect to the present content of `storage`, whatever is written later.

    `handler` is the handler of the content's tape node (`get_handler` with `create`). A new `retained_handler` of this handler collects the
    gradient in later backward passes. Do nothing for a storage with a leaf: a leaf keeps the gradient anyway.
    """
    if find_leaf(storage) is None:
        if handler.retained_handler is None:
            handler.retained_handler = GradHandler(keeps_grad=True)
        _retained_handlers[ref(storage, _retained_handlers.pop)] = handler.retained_handler


def get_handler_with_grad(storage: Storage, *, create: bool = False) -> GradHandler | None:
    """Return the handler (`GradHandler`) with the gradient of `storage`, or None if no handler exists.

    For a storage with a leaf this is the leaf's handler. For a storage without a leaf this is the handler of the content at the call of
    `retain_grad`, or else of the present content. With `create`, a missing handler of the leaf or of the present content is created, unless
    the content has no tape node.
    """
    tape_node = find_leaf(storage)
    retained = _retained_handlers.get(ref(storage)) if tape_node is None else None
    return _get_node_handler(tape_node or get_tape_node(storage.node), create) if retained is None else retained


def get_handler(storage: Storage, *, create: bool = False) -> GradHandler | None:
    """Return the handler (`GradHandler`) of the leaf of `storage`, or without a leaf of the present content; None if no handler exists.

    With `create`, a missing handler is created, unless the content has no tape node.
    """
    return _get_node_handler(find_leaf(storage) or get_tape_node(storage.node), create)


def _get_node_handler(tape_node: TapeNode | None, create: bool) -> GradHandler | None:
    """Return the handler of the tape node `tape_node`, or None if `tape_node` is None or has no handler. With `create`, a missing handler
    of `tape_node` is created, without keeping a gradient.
    """
    if tape_node is not None and tape_node.grad_hook is None and create:
        tape_node.grad_hook = GradHandler(keeps_grad=False)
    return None if tape_node is None else tape_node.grad_hook


def detach_node(node: Node) -> Node:
    """Return a node with the content of `node` but without a tape node. This is `node` itself if it has no tape node. Otherwise the result
    is a new node in the same memory, or a pending copy of a pending node.
    """
    if node.tape_node is None:
        return node
    if node.buffer is not None:
        return make_data_node(node.buffer, node.shape, node.dtype)
    return copy_detached(node)
