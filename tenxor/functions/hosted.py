"""Calls of NumPy's operations (`host/`) on tensors, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..creation import empty
from ..derivatives.seen import Seen
from ..dtypes import bfloat16
from ..errors import DerivativeError, TraceError
from ..host.inplace import InPlace, in_one_go, in_place
from ..host.running import Operand, has_batches, of_few, results_of, run, work_of
from ..host.table import HOST, HostOp, whole
from ..memory import NOWHERE, Nowhere
from ..node import DATA, Hosted, Node, hosted_node, recipe_of, tracking, watchers
from ..past import past_of
from ..realize import realize
from ..spec import hearers
from ..tensor import Tensor
from .joining import stack

FEW = 1024  # elements up to which NumPy gets copies, which is faster than access to our memory
COPIED = 1 << 14  # the limit for operations in which NumPy copies its operands anyway
_NO_SIZES: Mapping[str, int] = {}
Tensors = tuple[Any, ...]
# Name of an operation -> its VJP: the operands' cotangents (None for none), from the results' cotangents, the results, the operands, and
# the options. The module that offers the operation adds the entry.
BACKWARD: dict[str, Callable[[Tensors, Tensors, Tensors, Mapping[str, Any]], Tensors]] = {}


def hosted(name: str, *operands: Tensor, sizes: Mapping[str, int] = _NO_SIZES, **options: Any) -> tuple[Tensor, ...]:
    """Return the results of an operation of the host table (`HOST`) as new tensors, computed now.

    `sizes` gives the sizes of axes whose letters in the signature occur in no operand. No operand is bfloat16, a dtype unknown to NumPy.
    Raise DerivativeError if a derivative is recorded and the operation has none. Raise TraceError if an operand is a tracer and the shape
    of the results depends on values. If an operand is a tracer otherwise, the results are pending, and computed with the whole batch.
    """
    op = HOST[name]
    if any([t.storage.node.past is not None for t in operands]):
        traced = any([t.node.traced for t in operands])
        if traced and op.found:
            raise TraceError(
                f"{op.name}: the number of its elements depends on values, which are unknown while a function is traced (tx.vmap, tx.map)"
            )
        followed = name in BACKWARD if traced else any([past_of(t.node) is not None for t in operands])
        if tracking.get() and followed and any([dtype != "index" for dtype in op.dtypes]):
            return _one_step(name, operands, sizes, options)
        if traced:
            return _of_a_member(op, operands, sizes, options)
    few = COPIED if op.into and len(op.results) > 1 else FEW
    are_few = sum([t.size for t in operands]) < few and (not sizes or max(sizes.values()) < FEW)
    are_few = are_few and not has_batches(op, [t.ndim for t in operands])
    if any([isinstance(t.storage.node.buffer, Nowhere) for t in operands]):
        return _nowhere(op, operands, sizes, (_of_few if are_few else _of_many)(op, operands, sizes, options))
    if are_few:
        compute = of_few(op, op.dtypes_of(operands[0].dtype), options)
        arrays = compute(*[t.to_numpy() for t in operands])
        if arrays is not None:
            results = tuple(map(Tensor._of_array, arrays))
            for hears in () if op.found else hearers:
                hears(operands, results, compute, _of_few(op, operands, sizes, options))
            return _seen(op, operands, results)
    given = [Operand(t.node, t.layout, t.dtype) for t in operands]
    results = tuple([Tensor._of(node) for node in run(op, given, sizes, options)])
    for hears in hearers:
        how = _of_many(op, operands, sizes, options)
        if how is not None:
            hears(operands, results, None, how)
    return _seen(op, operands, results)


def _of_few(op: HostOp, operands: Sequence[Tensor], sizes: Mapping[str, int], options: Mapping[str, Any]) -> InPlace | None:
    """Return a direct call, of a C loop or machine code, for an operation on small operands, or None if none exists."""
    return in_place(op, [t.dtype for t in operands], options)


def _of_many(op: HostOp, operands: Sequence[Tensor], sizes: Mapping[str, int], options: Mapping[str, Any]) -> InPlace | None:
    """Return a direct call for an operation on large operands. Return None if no direct call exists, or the work must stay interruptible.
    """
    how = in_place(op, [t.dtype for t in operands], options, operands[0].shape[-1] if operands[0].ndim else 0)
    return how and in_one_go(how, *work_of(op, [t.shape for t in operands], operands[0].dtype, sizes))


def tell(how_of: Callable[..., InPlace | None], operands: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Report the direct call from `operands` to `results` to the fast path, to be replayed, if a direct call exists.

    `how_of(*operands)` returns the direct call or None. The fast path may later call `how_of` with operands of other sizes, without memory.
    Report nothing while derivatives or observers of nodes (`watchers`) need the call itself.
    """
    if watchers or any([t.storage.node.past is not None for t in operands]):
        return
    for hears in hearers:
        how = how_of(*operands)
        if how is not None:
            realize(*[t.node for t in results])
            hears(operands, results, None, how, how_of)


def at_once(
    compute: Callable[..., list[Any]], *operands: Tensor, few: int | None = None, how: InPlace | None = None
) -> tuple[Tensor, ...] | None:
    """Call `compute` on copies of the operands in NumPy arrays. Return the results as new tensors, or None for unsuitable operands.

    `compute` takes an array for each operand, which it may overwrite, and returns a list of arrays. Operands are unsuitable with `few`
    elements or more together (`FEW` if None), with dtype bfloat16, with derivatives recorded, or while nodes are observed. This function is
    meant for computations of many operations, each faster than a call of a kernel. `how`, if given, is a direct call that the fast path may
    replay instead.
    """
    if watchers or sum([t.size for t in operands]) >= (FEW if few is None else few):
        return None
    if any([t.storage.node.past is not None or t.dtype is bfloat16 for t in operands]):
        return None
    results = tuple(map(Tensor._of_array, compute(*[t.to_numpy() for t in operands])))
    for hears in hearers:
        hears(operands, results, compute, how)
    return results


def _nowhere(op: HostOp, operands: Sequence[Tensor], sizes: Mapping[str, int], how: InPlace | None) -> tuple[Tensor, ...]:
    """Return placeholder results without memory for operands without memory, and report `how` to the fast path."""
    shapes, dtypes = results_of(op, tuple([t.shape for t in operands]), operands[0].dtype, sizes)
    nodes = [Node(recipe_of(DATA, shape, dtype), buffer=NOWHERE) for shape, dtype in zip(shapes, dtypes, strict=True)]  # type: ignore[arg-type]
    results = tuple([Tensor._of(node) for node in nodes])
    for hears in hearers:
        hears(operands, results, None, how)
    return results


def _seen(op: HostOp, operands: Sequence[Tensor], results: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return `results`, after reporting each to the observer of nodes (`watchers`), if any."""
    if watchers:
        for t in results:
            watchers[0](t.node, op.name, [x.node for x in operands])
    return results


def _of_a_member(op: HostOp, operands: Sequence[Tensor], sizes: Mapping[str, int], options: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Return pending results for one batch element, while a function is traced. They are computed for the whole batch at once."""
    own = [0 if whole(letters) else t.ndim - len(letters) for t, letters in zip(operands, op.operands, strict=True)]

    def compute(read: Sequence[Seen], leads: Sequence[bool], size: int) -> list[Node]:
        tensors = [Tensor._of(seen.node)._view(seen.layout) for seen in read]
        if size == 0:
            found = [empty((0, *shape), dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        elif any([lead and whole(letters) for lead, letters in zip(leads, op.operands, strict=True)]):  # one batch element after another
            members = [[t[k] if lead else t for t, lead in zip(tensors, leads, strict=True)] for k in range(size)]
            each = [hosted(op.name, *given, sizes=sizes, **options) for given in members]
            found = [stack([results[k] for results in each]) for k in range(len(op.results))]
        else:  # the whole batch, as the first axis
            given = [
                t.reshape((size, *(1,) * (max(own) - axes), *t.shape[1:])) if lead else t
                for t, axes, lead in zip(tensors, own, leads, strict=True)
            ]
            found = list(hosted(op.name, *given, sizes=sizes, **options))
        return [Seen(t.node, t.layout).flat() for t in found]

    shapes, dtypes = results_of(op, tuple([t.shape for t in operands]), operands[0].dtype, sizes)
    sources, layouts = tuple([t.node for t in operands]), tuple([t.layout for t in operands])
    ops = [Hosted(op.name, compute, k) for k in range(len(shapes))]
    return tuple([Tensor._of(hosted_node(*its, sources, layouts)) for its in zip(ops, shapes, dtypes, strict=True)])


def of_members(name: str, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return a pending tensor of `x`'s shape and dtype for one batch element, while a function is traced.

    When values are asked for, `function` is called once with the whole batch, whose first axis runs over the batch elements.
    """

    def compute(read: Sequence[Seen], leads: Sequence[bool], size: int) -> list[Node]:
        (seen,) = read
        found = function(Tensor._of(seen.node)._view(seen.layout))
        return [Seen(found.node, found.layout).flat()]

    return Tensor._of(hosted_node(Hosted(name, compute, 0), x.shape, x.dtype, (x.node,), (x.layout,)))


def has_past(*tensors: Tensor) -> bool:
    """Return whether the tape records results of these tensors. Tracers of a batch count as recorded."""
    pasts = [past for t in tensors if (past := t.node.past) is not None]
    return bool(pasts) and bool(tracking.get()) and any([past.traced or past_of(past) is not None for past in pasts])


def _one_step(name: str, operands: tuple[Tensor, ...], sizes: Mapping[str, int], options: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Call an operation as one node of the tape, whose VJP is in `BACKWARD`. Raise DerivativeError if the operation has no VJP."""
    from .steps import custom_derivative

    if name not in BACKWARD:
        raise DerivativeError(f"{name}: has no derivative; compute it on x.detach() if you need none")

    def call(*given: Tensor) -> tuple[Tensor, ...]:
        return hosted(name, *given, sizes=sizes, **options)

    def backward(gradients: Tensors, results: Tensors, *given: Tensor) -> Tensors:
        return BACKWARD[name](gradients, results, given, options)

    found: tuple[Tensor, ...] = custom_derivative(call, backward)(*operands)
    return found
