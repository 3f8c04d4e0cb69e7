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
MAX_COPIED_ELEMENTS = 1 << 14  # the limit for operations in which NumPy copies its operands anyway
_NO_AXIS_SIZES: Mapping[str, int] = {}
Tensors = tuple[Any, ...]
# Name of an operation -> its VJP: the operands' cotangents (None for none), from the results' cotangents, the results, the operands, and
# the options. The module that offers the operation adds the entry.
BACKWARD: dict[str, Callable[[Tensors, Tensors, Tensors, Mapping[str, Any]], Tensors]] = {}


def hosted(name: str, *operands: Tensor, sizes: Mapping[str, int] = _NO_AXIS_SIZES, **options: Any) -> tuple[Tensor, ...]:
    """Return the results of an operation of the host table (`HOST`) as new tensors, computed now.

    `sizes` gives the sizes of axes whose letters in the signature occur in no operand. No operand is bfloat16, a dtype unknown to NumPy.
    Raise DerivativeError if a derivative is recorded and the operation has none. Raise TraceError if an operand is a tracer and the shape
    of the results depends on values. If an operand is a tracer otherwise, the results are pending, and computed with the whole batch.
    """
    op = HOST[name]
    if any([t.storage.node.past is not None for t in operands]):
        is_traced = any([t.node.traced for t in operands])
        if is_traced and op.found:
            raise TraceError(
                f"{op.name}: the number of its elements depends on values, which are unknown while a function is traced (tx.vmap, tx.map)"
            )
        is_tracked = name in BACKWARD if is_traced else any([past_of(t.node) is not None for t in operands])
        if tracking.get() and is_tracked and any([dtype != "index" for dtype in op.dtypes]):
            return _call_on_tape(name, operands, sizes, options)
        if is_traced:
            return _pend_for_element(op, operands, sizes, options)
    copy_limit = MAX_COPIED_ELEMENTS if op.into and len(op.results) > 1 else FEW
    is_small = sum([t.size for t in operands]) < copy_limit and (not sizes or max(sizes.values()) < FEW)
    is_small = is_small and not has_batches(op, [t.ndim for t in operands])
    if any([isinstance(t.storage.node.buffer, Nowhere) for t in operands]):
        return _abstract_results(
            op, operands, sizes, (_small_direct_call if is_small else _large_direct_call)(op, operands, sizes, options)
        )
    if is_small:
        compute = of_few(op, op.dtypes_of(operands[0].dtype), options)
        arrays = compute(*[t.to_numpy() for t in operands])
        if arrays is not None:
            results = tuple(map(Tensor._of_array, arrays))
            for hearer in () if op.found else hearers:
                hearer(operands, results, compute, _small_direct_call(op, operands, sizes, options))
            return _report_results(op, operands, results)
    host_operands = [Operand(t.node, t.layout, t.dtype) for t in operands]
    results = tuple([Tensor._of(node) for node in run(op, host_operands, sizes, options)])
    for hearer in hearers:
        direct_call = _large_direct_call(op, operands, sizes, options)
        if direct_call is not None:
            hearer(operands, results, None, direct_call)
    return _report_results(op, operands, results)


def _small_direct_call(op: HostOp, operands: Sequence[Tensor], sizes: Mapping[str, int], options: Mapping[str, Any]) -> InPlace | None:
    """Return a direct call, of a C loop or machine code, for an operation on small operands, or None if none exists."""
    return in_place(op, [t.dtype for t in operands], options)


def _large_direct_call(op: HostOp, operands: Sequence[Tensor], sizes: Mapping[str, int], options: Mapping[str, Any]) -> InPlace | None:
    """Return a direct call for an operation on large operands. Return None if no direct call exists, or the work must stay interruptible.
    """
    direct_call = in_place(op, [t.dtype for t in operands], options, operands[0].shape[-1] if operands[0].ndim else 0)
    return direct_call and in_one_go(direct_call, *work_of(op, [t.shape for t in operands], operands[0].dtype, sizes))


def tell(find_direct_call: Callable[..., InPlace | None], operands: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Report the direct call from `operands` to `results` to the fast path, to be replayed, if a direct call exists.

    `find_direct_call(*operands)` returns the direct call or None. The fast path may later call `find_direct_call` with operands of other
    sizes, without memory. Report nothing while derivatives or observers of nodes (`watchers`) need the call itself.
    """
    if watchers or any([t.storage.node.past is not None for t in operands]):
        return
    for hearer in hearers:
        direct_call = find_direct_call(*operands)
        if direct_call is not None:
            realize(*[t.node for t in results])
            hearer(operands, results, None, direct_call, find_direct_call)


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
    for hearer in hearers:
        hearer(operands, results, compute, how)
    return results


def _abstract_results(op: HostOp, operands: Sequence[Tensor], sizes: Mapping[str, int], direct_call: InPlace | None) -> tuple[Tensor, ...]:
    """Return placeholder results without memory for operands without memory, and report `direct_call` to the fast path."""
    shapes, dtypes = results_of(op, tuple([t.shape for t in operands]), operands[0].dtype, sizes)
    nodes = [Node(recipe_of(DATA, shape, dtype), buffer=NOWHERE) for shape, dtype in zip(shapes, dtypes, strict=True)]  # type: ignore[arg-type]
    results = tuple([Tensor._of(node) for node in nodes])
    for hearer in hearers:
        hearer(operands, results, None, direct_call)
    return results


def _report_results(op: HostOp, operands: Sequence[Tensor], results: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return `results`, after reporting each to the observer of nodes (`watchers`), if any."""
    if watchers:
        for t in results:
            watchers[0](t.node, op.name, [x.node for x in operands])
    return results


def _pend_for_element(op: HostOp, operands: Sequence[Tensor], sizes: Mapping[str, int], options: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Return pending results for one batch element, while a function is traced. They are computed for the whole batch at once."""
    loop_ndims = [0 if whole(letters) else t.ndim - len(letters) for t, letters in zip(operands, op.operands, strict=True)]

    def compute(views: Sequence[Seen], leads: Sequence[bool], size: int) -> list[Node]:
        tensors = [Tensor._of(view.node)._view(view.layout) for view in views]
        if size == 0:
            outputs = [empty((0, *shape), dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        elif any([lead and whole(letters) for lead, letters in zip(leads, op.operands, strict=True)]):  # one batch element after another
            element_operands = [[t[k] if lead else t for t, lead in zip(tensors, leads, strict=True)] for k in range(size)]
            element_results = [hosted(op.name, *arguments, sizes=sizes, **options) for arguments in element_operands]
            outputs = [stack([results[k] for results in element_results]) for k in range(len(op.results))]
        else:  # the whole batch, as the first axis
            arguments = [
                t.reshape((size, *(1,) * (max(loop_ndims) - axes), *t.shape[1:])) if lead else t
                for t, axes, lead in zip(tensors, loop_ndims, leads, strict=True)
            ]
            outputs = list(hosted(op.name, *arguments, sizes=sizes, **options))
        return [Seen(t.node, t.layout).flat() for t in outputs]

    shapes, dtypes = results_of(op, tuple([t.shape for t in operands]), operands[0].dtype, sizes)
    sources, layouts = tuple([t.node for t in operands]), tuple([t.layout for t in operands])
    ops = [Hosted(op.name, compute, k) for k in range(len(shapes))]
    return tuple([Tensor._of(hosted_node(*result_fields, sources, layouts)) for result_fields in zip(ops, shapes, dtypes, strict=True)])


def of_members(name: str, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return a pending tensor of `x`'s shape and dtype for one batch element, while a function is traced.

    When values are asked for, `function` is called once with the whole batch, whose first axis runs over the batch elements.
    """

    def compute(views: Sequence[Seen], leads: Sequence[bool], size: int) -> list[Node]:
        (view,) = views
        result = function(Tensor._of(view.node)._view(view.layout))
        return [Seen(result.node, result.layout).flat()]

    return Tensor._of(hosted_node(Hosted(name, compute, 0), x.shape, x.dtype, (x.node,), (x.layout,)))


def has_past(*tensors: Tensor) -> bool:
    """Return whether the tape records results of these tensors. Tracers of a batch count as recorded."""
    pasts = [past for t in tensors if (past := t.node.past) is not None]
    return bool(pasts) and bool(tracking.get()) and any([past.traced or past_of(past) is not None for past in pasts])


def _call_on_tape(name: str, operands: tuple[Tensor, ...], sizes: Mapping[str, int], options: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Call an operation as one node of the tape, whose VJP is in `BACKWARD`. Raise DerivativeError if the operation has no VJP."""
    from .steps import custom_derivative

    if name not in BACKWARD:
        raise DerivativeError(f"{name}: has no derivative; compute it on x.detach() if you need none")

    def call(*arguments: Tensor) -> tuple[Tensor, ...]:
        return hosted(name, *arguments, sizes=sizes, **options)

    def backward(gradients: Tensors, results: Tensors, *arguments: Tensor) -> Tensors:
        return BACKWARD[name](gradients, results, arguments, options)

    results: tuple[Tensor, ...] = custom_derivative(call, backward)(*operands)
    return results
