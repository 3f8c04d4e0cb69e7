"""Storages that require a gradient, and the state of their gradients.

A storage that requires a gradient holds a leaf of the tape. A recorded write creates a node that reads the leaf, and the gradient remains
the one with respect to the value before the write. An unrecorded write, such as an optimiser's, gives the same leaf a new value. A recorded
write to a leaf with a constant gradient is an error: most likely it is an update without `no_grad`.
"""

from __future__ import annotations

from weakref import ref

from ..errors import DerivativeError
from ..node import Node, data, tracking, writes
from ..past import Past, past_of
from ..storage import Element, Storage, Watched, WatchedElement, put_unwatched, watching
from .leaves import Watch, leaf, twin

# These maps are keyed by weak references to storages, and an entry is removed with its storage. The callback is `pop`, a C function: a
# signal delivered in a Python callback would be lost. The node in the storage holds the leaf, not this map, as the leaf's hooks may refer
# to the storage; the collector frees such cycles. Only after another node was written does `_held` hold the leaf.
_leaves: dict[ref[Storage], ref[Past]] = {}
_held: dict[ref[Storage], Past] = {}
_retained: dict[ref[Storage], Watch] = {}  # for storages with computed content; its entries are removed likewise


def _written(storage: Storage, node: Node) -> Node:
    """Return the node that a watched storage holds after a write of `node`. An unrecorded write gives the leaf a new value. Raise
    DerivativeError for a recorded write to a leaf that has a constant gradient.
    """
    past = leaf_of(storage)
    if past is None:  # The leaf was freed together with the function call that created it.
        return node
    if tracking.get():
        _check_is_no_update(past, node)
    elif node.past is None:
        node = _as_leaf(node, past)
    if node.past is not past:
        _held[ref(storage, _held.pop)] = past
    elif _held:
        _held.pop(ref(storage), None)
    return node


def _check_is_no_update(past: Past, node: Node) -> None:
    """Raise DerivativeError for a recorded write to a leaf that has a constant gradient: the next gradient would be with respect to the old
    values.
    """
    grad = None if past.watch is None or node.past is past else past.watch.grad
    if grad is not None and past_of(grad.node) is None:
        raise DerivativeError(
            f"in-place write: this tensor of {node.size} elements requires a gradient and has one, so the write must not be tracked: the"
            " next gradient would be by the values before the write. To update it write `with tx.no_grad(): w -= lr * w.grad`; to"
            " differentiate through the write set w.grad = None first"
        )


watching.append(_written)


def revalue(storage: Storage, node: Node) -> None:
    """Replace the content of a storage that requires a gradient, keeping its leaf. `node` is new, without other references, and has the
    size and dtype of the old content.
    """
    its = ref(storage)
    node.past = _leaves[its]()
    put_unwatched(storage, node)
    if _held:
        _held.pop(its, None)


def watch(storage: Storage) -> None:
    """Make a storage require a gradient, with respect to its present content."""
    before = leaf_of(storage)
    if before is not None and storage.node.past is not None:
        return
    node, past = leaf(storage.node)
    if past.sources:  # The content is computed from a leaf, so the storage already has a gradient.
        return
    past.watch = Watch(kept=True) if before is None else before.watch
    put_unwatched(storage, node)
    _leaves[ref(storage, _leaves.pop)] = ref(past)
    _held.pop(ref(storage), None)
    storage.__class__ = WatchedElement if isinstance(storage, Element) else Watched


def unwatch(storage: Storage) -> None:
    """Make a storage no longer require a gradient, and detach its content from the tape. Do nothing if it requires none."""
    if _leaves.pop(ref(storage), None) is not None:
        _held.pop(ref(storage), None)
        storage.__class__ = Element if isinstance(storage, Element) else Storage
        storage.node = without_past(storage.node)


def leaf_of(storage: Storage) -> Past | None:
    """Return the leaf of a storage that requires a gradient, or None."""
    found = _leaves.get(ref(storage))
    return None if found is None else found()


def retain(storage: Storage, watch: Watch) -> None:
    """Retain the gradient with respect to the present content of a storage, whatever is written to it later. `watch` is the content's
    watch. A storage with a leaf needs nothing.
    """
    if leaf_of(storage) is None:
        if watch.retained is None:
            watch.retained = Watch(kept=True)
        _retained[ref(storage, _retained.pop)] = watch.retained


def keeper_of(storage: Storage, *, make: bool = False) -> Watch | None:
    """Return the watch that holds the gradient of a storage, or None.

    This is the leaf's watch, else the watch of the content for which `retain_grad` was called, else the watch of the present content. With
    `make`, a missing watch of a leaf or of the present content is created.
    """
    past = leaf_of(storage)
    retained = _retained.get(ref(storage)) if past is None else None
    return _its_watch(past or past_of(storage.node), make) if retained is None else retained


def watch_of(storage: Storage, *, make: bool = False) -> Watch | None:
    """Return the watch of the leaf of a storage, or of its content if the storage has no leaf; None without a watch. With `make`, a missing
    watch is created.
    """
    return _its_watch(leaf_of(storage) or past_of(storage.node), make)


def _its_watch(past: Past | None, make: bool) -> Watch | None:
    if past is not None and past.watch is None and make:
        past.watch = Watch(kept=False)
    return None if past is None else past.watch


def without_past(node: Node) -> Node:
    """Return a node with the content of `node` that is not on the tape."""
    if node.past is None:
        return node
    if node.buffer is not None:
        return data(node.buffer, node.shape, node.dtype)
    return twin(node)


def _as_leaf(node: Node, past: Past) -> Node:
    """Return a node with the content of `node` and the tape node `past`."""
    if not writes(node.op):  # only a new write has no other references
        node = twin(node)
    node.past = past
    return node
