"""Storages that require a gradient, and the state of their gradients.

A storage that requires a gradient holds a leaf of the tape. A recorded write creates a node that reads the leaf, and the gradient is still
taken with respect to the value before the write. An unrecorded write, for instance by an optimiser, gives the same leaf a new value. A
recorded write to a leaf with a constant gradient is an error: most likely an update without `no_grad`.
"""

from __future__ import annotations

from weakref import ref

from ..errors import DerivativeError
from ..node import Node, data, tracking, writes
from ..past import Past, past_of
from ..storage import Element, Storage, Watched, WatchedElement, put_unwatched, watching
from .leaves import Watch, leaf, twin

# Keys are weak references to storages, and an entry is removed with the storage. The callback is `pop`, a C function: a signal delivered in
# a Python callback would be lost. The node in the storage holds the leaf, not this map, as the leaf's hooks may refer to the storage; the
# collector frees such cycles. Only after a different node was written does `_detached_leaves` hold the leaf.
_leaves: dict[ref[Storage], ref[Past]] = {}
_detached_leaves: dict[ref[Storage], Past] = {}
_retained_watches: dict[ref[Storage], Watch] = {}  # for storages with computed content; entries are removed likewise


def _node_after_write(storage: Storage, node: Node) -> Node:
    """Return the node for a watched storage to hold after a write of `node`. An unrecorded write gives the leaf a new value. Raise
    DerivativeError for a recorded write to a leaf with a constant gradient.
    """
    past = leaf_of(storage)
    if past is None:  # the leaf was freed after the call of the function with this leaf
        return node
    if tracking.get():
        _check_is_no_update(past, node)
    elif node.past is None:
        node = _as_leaf(node, past)
    if node.past is not past:
        _detached_leaves[ref(storage, _detached_leaves.pop)] = past
    elif _detached_leaves:
        _detached_leaves.pop(ref(storage), None)
    return node


def _check_is_no_update(past: Past, node: Node) -> None:
    """Raise DerivativeError for a recorded write to a leaf with a constant gradient: the next gradient would be with respect to the old
    values.
    """
    grad = None if past.watch is None or node.past is past else past.watch.grad
    if grad is not None and past_of(grad.node) is None:
        raise DerivativeError(
            f"in-place write: this tensor of {node.size} elements requires a gradient and has one, so the write must not be tracked: the"
            " next gradient would be by the values before the write. To update it write `with tx.no_grad(): w -= lr * w.grad`; to"
            " differentiate through the write set w.grad = None first"
        )


watching.append(_node_after_write)


def revalue(storage: Storage, node: Node) -> None:
    """Replace the content of a storage that requires a gradient, keeping the leaf. `node` is new, without further references, and has the
    size and dtype of the old content.
    """
    key = ref(storage)
    node.past = _leaves[key]()
    put_unwatched(storage, node)
    if _detached_leaves:
        _detached_leaves.pop(key, None)


def watch(storage: Storage) -> None:
    """Make a storage require a gradient, with respect to the present content. Do nothing if the content is computed from a leaf."""
    old_leaf = leaf_of(storage)
    if old_leaf is not None and storage.node.past is not None:
        return
    node, past = leaf(storage.node)
    if past.sources:  # The content is computed from a leaf, so the storage already has a gradient.
        return
    past.watch = Watch(kept=True) if old_leaf is None else old_leaf.watch
    put_unwatched(storage, node)
    _leaves[ref(storage, _leaves.pop)] = ref(past)
    _detached_leaves.pop(ref(storage), None)
    storage.__class__ = WatchedElement if isinstance(storage, Element) else Watched


def unwatch(storage: Storage) -> None:
    """Make a storage no longer require a gradient, and detach the content from the tape. Do nothing if no gradient was required."""
    if _leaves.pop(ref(storage), None) is not None:
        _detached_leaves.pop(ref(storage), None)
        storage.__class__ = Element if isinstance(storage, Element) else Storage
        storage.node = without_past(storage.node)


def leaf_of(storage: Storage) -> Past | None:
    """Return the leaf of a storage that requires a gradient; None for another storage, or if the leaf was freed."""
    reference = _leaves.get(ref(storage))
    return None if reference is None else reference()


def retain(storage: Storage, watch: Watch) -> None:
    """Retain the gradient with respect to the present content of a storage, whatever is written later. `watch` is the content's watch. Do
    nothing for a storage with a leaf.
    """
    if leaf_of(storage) is None:
        if watch.retained is None:
            watch.retained = Watch(kept=True)
        _retained_watches[ref(storage, _retained_watches.pop)] = watch.retained


def keeper_of(storage: Storage, *, make: bool = False) -> Watch | None:
    """Return the watch with the gradient of a storage, or None if there is none. A watch holds the hooks and the gradient of a tape node.

    For a storage with a leaf this is the leaf's watch. For any other storage it is the watch of the content at the call of `retain_grad`,
    or else of the present content. With `make`, a missing watch of the leaf or of the present content is created.
    """
    past = leaf_of(storage)
    retained = _retained_watches.get(ref(storage)) if past is None else None
    return _watch_of_past(past or past_of(storage.node), make) if retained is None else retained


def watch_of(storage: Storage, *, make: bool = False) -> Watch | None:
    """Return the watch of the leaf of a storage, or of the content without a leaf; None if no watch exists. With `make`, a missing watch is
    created.
    """
    return _watch_of_past(leaf_of(storage) or past_of(storage.node), make)


def _watch_of_past(past: Past | None, make: bool) -> Watch | None:
    """Return the watch of a tape node, or None if `past` is None or has no watch. With `make`, a missing watch of `past` is created."""
    if past is not None and past.watch is None and make:
        past.watch = Watch(kept=False)
    return None if past is None else past.watch


def without_past(node: Node) -> Node:
    """Return a node with the content of `node` but without a tape node: `node` itself if it has none, else a new node."""
    if node.past is None:
        return node
    if node.buffer is not None:
        return data(node.buffer, node.shape, node.dtype)
    return twin(node)


def _as_leaf(node: Node, past: Past) -> Node:
    """Return a node with the content of `node` and the tape node `past`: `node` itself, changed in place, if it is a write."""
    if not writes(node.op):  # a node is new, without further references, only if it is a write
        node = twin(node)
    node.past = past
    return node
