"""Storages that require a gradient, and the state of their gradients.

A storage that requires a gradient holds a leaf of the tape. A recorded write creates a node that reads the leaf, and the gradient is still
taken with respect to the value before the write. An unrecorded write, for instance by an optimiser, gives the same leaf a new value. A
recorded write to a leaf with a constant gradient is an error: most likely an update without `no_grad`.
"""

from __future__ import annotations

from weakref import ref

from ..errors import DerivativeError
from ..graph.node import Node, is_write, make_data_node, tape_mode
from ..graph.storage import LeafScalarStorage, LeafStorage, ScalarStorage, Storage, leaf_write_hooks, set_node_without_hook
from ..graph.tape import TapeNode, get_tape_node
from .tape_leaves import GradHandler, copy_detached, make_leaf

# Keys are weak references to storages, and an entry is removed with the storage. The callback is `pop`, a C function: a signal delivered in
# a Python callback would be lost. The node in the storage holds the leaf, not this map, as the leaf's hooks may refer to the storage; the
# collector frees such cycles. Only after a different node was written does `_detached_leaves` hold the leaf.
_leaves: dict[ref[Storage], ref[TapeNode]] = {}
_detached_leaves: dict[ref[Storage], TapeNode] = {}
_retained_handlers: dict[ref[Storage], GradHandler] = {}  # for storages with computed content; entries are removed likewise


def _node_after_write(storage: Storage, node: Node) -> Node:
    """Return the node for the leaf storage `storage` to hold after a write of `node`: `node` itself or a copy.

    An unrecorded write gives the leaf a new value. Raise DerivativeError for a recorded write to a leaf with a constant gradient.
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
    """Raise DerivativeError for a recorded write of `node` to the leaf `tape_node` if the leaf has a constant gradient: the next gradient
    would be with respect to the old values.
    """
    grad = None if tape_node.grad_hook is None or node.tape_node is tape_node else tape_node.grad_hook.grad
    if grad is not None and get_tape_node(grad.node) is None:
        raise DerivativeError(
            f"in-place write: this tensor of {node.size} elements requires a gradient and has one, so the write must not be tracked: the"
            " next gradient would be by the values before the write. To update it write `with tx.no_grad(): w -= lr * w.grad`; to"
            " differentiate through the write set w.grad = None first"
        )


leaf_write_hooks.append(_node_after_write)


def replace_content(storage: Storage, node: Node) -> None:
    """Replace the content of `storage`, which requires a gradient, by `node`, keeping the leaf.

    `node` is new, without further references, and has the size and dtype of the old content.
    """
    key = ref(storage)
    node.tape_node = _leaves[key]()
    set_node_without_hook(storage, node)
    if _detached_leaves:
        _detached_leaves.pop(key, None)


def require_grad(storage: Storage) -> None:
    """Make `storage` require a gradient, with respect to the present content. Do nothing if the content is computed from a leaf."""
    old_leaf = find_leaf(storage)
    if old_leaf is not None and storage.node.tape_node is not None:
        return
    node, tape_node = make_leaf(storage.node)
    if tape_node.sources:  # The content is computed from a leaf, so the storage already has a gradient.
        return
    tape_node.grad_hook = GradHandler(keeps_grad=True) if old_leaf is None else old_leaf.grad_hook
    set_node_without_hook(storage, node)
    _leaves[ref(storage, _leaves.pop)] = ref(tape_node)
    _detached_leaves.pop(ref(storage), None)
    storage.__class__ = LeafScalarStorage if isinstance(storage, ScalarStorage) else LeafStorage


def stop_requiring_grad(storage: Storage) -> None:
    """Make `storage` no longer require a gradient, and detach the content from the tape. Do nothing if no gradient was required."""
    if _leaves.pop(ref(storage), None) is not None:
        _detached_leaves.pop(ref(storage), None)
        storage.__class__ = ScalarStorage if isinstance(storage, ScalarStorage) else Storage
        storage.node = detach_node(storage.node)


def find_leaf(storage: Storage) -> TapeNode | None:
    """Return the leaf of `storage`; None if the storage does not require a gradient, or if the leaf was freed."""
    reference = _leaves.get(ref(storage))
    return None if reference is None else reference()


def retain_grad(storage: Storage, handler: GradHandler) -> None:
    """Retain the gradient with respect to the present content of `storage`, whatever is written later.

    `handler` is the handler of the content's tape node. Do nothing for a storage with a leaf.
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
    """Return a node with the content of `node` but without a tape node: `node` itself if it has none, else a new node."""
    if node.tape_node is None:
        return node
    if node.buffer is not None:
        return make_data_node(node.buffer, node.shape, node.dtype)
    return copy_detached(node)


def _as_leaf(node: Node, tape_node: TapeNode) -> Node:
    """Return a node with the content of `node` and the tape node `tape_node`: `node` itself, changed in place, if it is a write; else a
    copy.
    """
    if not is_write(node.op):  # a node is new, without further references, only if it is a write
        node = copy_detached(node)
    node.tape_node = tape_node
    return node
