"""Storages that derivatives are taken by, and what becomes of their gradients.

A storage that requires a gradient holds a leaf. A write to it is ordinary: it makes a node that reads the leaf, and the gradient
is still that by the value that was there before. A write that is not tracked, such as an optimiser's, puts in a new value for the
same leaf. A tracked write to a leaf that has a constant gradient is an error: it would be an update for which `no_grad` was forgotten.
"""

from __future__ import annotations

from weakref import ref

from ..errors import DerivativeError
from ..node import Node, data, tracking, writes
from ..past import Past, past_of
from ..storage import Element, Storage, Watched, WatchedElement, put_unwatched, watching
from .leaves import Watch, leaf, twin

# By storages, with which entries go, by C alone: a signal in Python's would be lost. A leaf is held by what the storage holds, as its hooks
# may know that: Python finds such circles. Only where something else was written is it held here.
_leaves: dict[ref[Storage], ref[Past]] = {}
_held: dict[ref[Storage], Past] = {}
_retained: dict[ref[Storage], Watch] = {}  # for storages of what was computed; so do these


def _written(storage: Storage, node: Node) -> Node:
    """What a watched storage holds when a node is written to it: a write that is not tracked gives its leaf another value."""
    past = leaf_of(storage)
    if past is None:  # it was forgotten with the function that it was a leaf in
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
    """Raise DerivativeError for a tracked write to a leaf that has a constant gradient: the next gradient would be by the values before."""
    grad = None if past.watch is None or node.past is past else past.watch.grad
    if grad is not None and past_of(grad.node) is None:
        raise DerivativeError(
            f"in-place write: this tensor of {node.size} elements requires a gradient and has one, so the write must not be tracked: the"
            " next gradient would be by the values before the write. To update it write `with tx.no_grad(): w -= lr * w.grad`; to"
            " differentiate through the write set w.grad = None first"
        )


watching.append(_written)


def revalue(storage: Storage, node: Node) -> None:
    """Put another value, of the size and dtype that it has, into a storage that requires a gradient, for the same leaf. Nobody else has
    that node.
    """
    its = ref(storage)
    node.past = _leaves[its]()
    put_unwatched(storage, node)
    if _held:
        _held.pop(its, None)


def watch(storage: Storage) -> None:
    """Have a storage require a gradient, from what it holds now on."""
    before = leaf_of(storage)
    if before is not None and storage.node.past is not None:
        return
    node, past = leaf(storage.node)
    if past.sources:  # that of something else; the gradient is kept for this, too
        return
    past.watch = Watch(kept=True) if before is None else before.watch
    put_unwatched(storage, node)
    _leaves[ref(storage, _leaves.pop)] = ref(past)
    _held.pop(ref(storage), None)
    storage.__class__ = WatchedElement if isinstance(storage, Element) else Watched


def unwatch(storage: Storage) -> None:
    """Have it require none any more."""
    if _leaves.pop(ref(storage), None) is not None:
        _held.pop(ref(storage), None)
        storage.__class__ = Element if isinstance(storage, Element) else Storage
        storage.node = without_past(storage.node)


def leaf_of(storage: Storage) -> Past | None:
    """The leaf of a storage that requires a gradient."""
    found = _leaves.get(ref(storage))
    return None if found is None else found()


def retain(storage: Storage, watch: Watch) -> None:
    """Keep the gradient by what a storage holds now, of which that is the watch, for it, whatever is written to it later."""
    if leaf_of(storage) is None:
        if watch.retained is None:
            watch.retained = Watch(kept=True)
        _retained[ref(storage, _retained.pop)] = watch.retained


def keeper_of(storage: Storage, *, make: bool = False) -> Watch | None:
    """What keeps the gradient of a storage: its leaf's watch, or that of what it held when this was to be retained, or holds."""
    past = leaf_of(storage)
    retained = _retained.get(ref(storage)) if past is None else None
    return _its_watch(past or past_of(storage.node), make) if retained is None else retained


def watch_of(storage: Storage, *, make: bool = False) -> Watch | None:
    """What is to be done with the gradient of a storage: of its leaf, or of what it holds."""
    return _its_watch(leaf_of(storage) or past_of(storage.node), make)


def _its_watch(past: Past | None, make: bool) -> Watch | None:
    if past is not None and past.watch is None and make:
        past.watch = Watch(kept=False)
    return None if past is None else past.watch


def without_past(node: Node) -> Node:
    """A node with the same content, of which derivatives know nothing."""
    if node.past is None:
        return node
    if node.buffer is not None:
        return data(node.buffer, node.shape, node.dtype)
    return twin(node)


def _as_leaf(node: Node, past: Past) -> Node:
    """A node with the same content that is a leaf."""
    if not writes(node.op):  # which nobody else has
        node = twin(node)
    node.past = past
    return node
