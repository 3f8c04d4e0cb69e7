"""Calls of NumPy's operations (`native/`) on tensors, and their derivatives. A direct call (`DirectCall`) is a C loop of NumPy, or
generated code, that the fast path runs on the memory of tensors to replay a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._utils import upcalls
from ..autodiff.node_view import NodeView
from ..autodiff.tape import get_tape_node
from ..dtypes import bfloat16
from ..errors import DerivativeError, TraceError
from ..graph.node import DATA, ExternalOp, Node, intern_recipe, make_external_node, tape_mode
from ..memory.buffer import META_BUFFER, MetaBuffer
from ..native.direct_call import DirectCall, accept_direct_call, choose_direct_call
from ..native.host_execution import HostOperand, estimate_work, has_several_batches, infer_result_types, make_small_call, run_host_op
from ..native.host_op_table import HOST_OPS, HostOp, is_unbatched
from ..runtime.realize import realize
from ..tensor import Tensor
from .concatenation import stack
from .creation import empty

MAX_NUMPY_COPY_ELEMENTS = 1024  # elements up to which NumPy gets copies, which is faster than access to our memory
MAX_COPIED_ELEMENTS = 1 << 14  # the limit for operations in which NumPy copies its operands anyway
_NO_AXIS_SIZES: Mapping[str, int] = {}
Tensors = tuple[Any, ...]
# Name of an operation -> its VJP: the operands' cotangents (None for none), from the results' cotangents, the results, the operands, and
# the options. The module that offers the operation adds the entry.
HOST_VJPS: dict[str, Callable[[Tensors, Tensors, Tensors, Mapping[str, Any]], Tensors]] = {}


def call_host_op(name: str, *operands: Tensor, sizes: Mapping[str, int] = _NO_AXIS_SIZES, **options: Any) -> tuple[Tensor, ...]:
    """Return the results of the operation `name` of the host table (`HOST_OPS`) on `operands` as new tensors, computed now.

    `options` are the options of the operation (`HostOp.compute`). `sizes` gives the sizes of axes whose letters in the signature occur in
    no operand. No operand may be bfloat16, a dtype unknown to NumPy. If an operand is a tracer, the results are pending, and computed with
    the whole batch; raise TraceError if the shape of the results depends on values. Raise DerivativeError if a derivative is recorded and
    the operation has none.
    """
    op = HOST_OPS[name]
    if any([t.storage.node.tape_node is not None for t in operands]):
        is_traced = any([t.node.is_traced for t in operands])
        if is_traced and op.has_unsized_results:
            raise TraceError(
                f"{op.name}: the number of elements of its result depends on values, which are unknown while a function is traced (tx.vmap,"
                " tx.map)"
            )
        is_tracked = name in HOST_VJPS if is_traced else any([get_tape_node(t.node) is not None for t in operands])
        if tape_mode.get() and is_tracked and any([dtype != "index" for dtype in op.dtype_rules]):
            return _call_on_tape(name, operands, sizes, options)
        if is_traced:
            return _defer_host_op(op, operands, sizes, options)
    copy_limit = MAX_COPIED_ELEMENTS if op.takes_out and len(op.result_axes) > 1 else MAX_NUMPY_COPY_ELEMENTS
    is_small = sum([t.size for t in operands]) < copy_limit and (not sizes or max(sizes.values()) < MAX_NUMPY_COPY_ELEMENTS)
    is_small = is_small and not has_several_batches(op, [t.ndim for t in operands])
    if any([isinstance(t.storage.node.buffer, MetaBuffer) for t in operands]):
        return _abstract_results(
            op, operands, sizes, (_small_direct_call if is_small else _large_direct_call)(op, operands, sizes, options)
        )
    if is_small:
        compute = make_small_call(op, op.infer_dtypes(operands[0].dtype), options)
        arrays = compute(*[t.to_numpy() for t in operands])
        if arrays is not None:
            results = tuple(map(Tensor._from_array, arrays))
            if (observer := upcalls.host_call_observer) is not None and not op.has_unsized_results:
                observer(operands, results, compute, _small_direct_call(op, operands, sizes, options))
            return _report_results(op, operands, results)
    host_operands = [HostOperand(t.node, t.layout, t.dtype) for t in operands]
    results = tuple([Tensor._from_node(node) for node in run_host_op(op, host_operands, sizes, options)])
    if (observer := upcalls.host_call_observer) is not None:
        direct_call = _large_direct_call(op, operands, sizes, options)
        if direct_call is not None:
            observer(operands, results, None, direct_call)
    return _report_results(op, operands, results)


def _small_direct_call(op: HostOp, operands: Sequence[Tensor], sizes: Mapping[str, int], options: Mapping[str, Any]) -> DirectCall | None:
    """Return a `DirectCall`, of a C loop or generated code, for `op` on small operands, or None if none exists.

    `sizes` has no influence; `options` are the options of `op.compute`.
    """
    return choose_direct_call(op, [t.dtype for t in operands], options)


def _large_direct_call(op: HostOp, operands: Sequence[Tensor], sizes: Mapping[str, int], options: Mapping[str, Any]) -> DirectCall | None:
    """Return a `DirectCall` for `op` on large operands; None if none exists, or if the work must stay interruptible.

    `sizes` and `options` are as in `call_host_op`.
    """
    direct_call = choose_direct_call(op, [t.dtype for t in operands], options, operands[0].shape[-1] if operands[0].ndim else 0)
    return direct_call and accept_direct_call(direct_call, *estimate_work(op, [t.shape for t in operands], operands[0].dtype, sizes))


def report_direct_call(find_direct_call: Callable[..., DirectCall | None], operands: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Report the direct call from `operands` to `results` to the fast path, to be replayed, if a direct call exists.

    `find_direct_call(*operands)` returns the direct call or None. The fast path may later call `find_direct_call` with operands of other
    sizes, without memory. Report nothing while derivatives or observers of nodes (`NodeObserver`) need the call itself.
    """
    if upcalls.node_observer or any([t.storage.node.tape_node is not None for t in operands]):
        return
    if (observer := upcalls.host_call_observer) is not None:
        direct_call = find_direct_call(*operands)
        if direct_call is not None:
            realize(*[t.node for t in results])
            observer(operands, results, None, direct_call, find_direct_call)


def call_on_copies(
    compute: Callable[..., list[Any]], *operands: Tensor, max_elements: int | None = None, direct_call: DirectCall | None = None
) -> tuple[Tensor, ...] | None:
    """Call `compute` on copies of the operands in NumPy arrays. Return the results as new tensors, or None for unsuitable operands.

    `compute` takes an array for each operand, which it may overwrite, and returns a list of arrays. Operands are unsuitable with
    `max_elements` elements or more together (`MAX_NUMPY_COPY_ELEMENTS` if None), with dtype bfloat16, with derivatives recorded, or
    while nodes are observed. This function is meant for computations of many operations, each faster than a call of a kernel.
    `direct_call`, if given, is a direct call that the fast path may replay instead.
    """
    if upcalls.node_observer or sum([t.size for t in operands]) >= (MAX_NUMPY_COPY_ELEMENTS if max_elements is None else max_elements):
        return None
    if any([t.storage.node.tape_node is not None or t.dtype is bfloat16 for t in operands]):
        return None
    results = tuple(map(Tensor._from_array, compute(*[t.to_numpy() for t in operands])))
    if (observer := upcalls.host_call_observer) is not None:
        observer(operands, results, compute, direct_call)
    return results


def _abstract_results(
    op: HostOp, operands: Sequence[Tensor], sizes: Mapping[str, int], direct_call: DirectCall | None
) -> tuple[Tensor, ...]:
    """Return placeholder results without memory for operands without memory, and report `direct_call` to the fast path.

    `sizes` gives the sizes of axes whose letters in the signature of `op` occur in no operand; `direct_call` may be None.
    """
    shapes, dtypes = infer_result_types(op, tuple([t.shape for t in operands]), operands[0].dtype, sizes)
    nodes = [Node(intern_recipe(DATA, shape, dtype), buffer=META_BUFFER) for shape, dtype in zip(shapes, dtypes, strict=True)]  # type: ignore[arg-type]
    results = tuple([Tensor._from_node(node) for node in nodes])
    if (observer := upcalls.host_call_observer) is not None:
        observer(operands, results, None, direct_call)
    return results


def _report_results(op: HostOp, operands: Sequence[Tensor], results: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return `results`, the results of `op` on `operands`, after reporting each to the observer of nodes (`NodeObserver`), if any."""
    if (observer := upcalls.node_observer) is not None:
        for t in results:
            observer.observe_host_result(t.node, op.name, [x.node for x in operands])
    return results


def _defer_host_op(op: HostOp, operands: Sequence[Tensor], sizes: Mapping[str, int], options: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Return pending results of `op` for one batch element, while a function is traced. They are computed for the whole batch at once.

    `operands` are the operands of the batch element. `sizes` and `options` are as in `call_host_op`. A batch of an operand that `op` takes
    unbatched is computed element by element.
    """
    loop_ndims = [0 if is_unbatched(letters) else t.ndim - len(letters) for t, letters in zip(operands, op.operand_axes, strict=True)]

    def compute(views: Sequence[NodeView], leads: Sequence[bool], size: int) -> list[Node]:
        tensors = [Tensor._from_node(view.node)._view(view.layout) for view in views]
        if size == 0:
            outputs = [empty((0, *shape), dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        # Batch elements are computed one after another
        elif any([lead and is_unbatched(letters) for lead, letters in zip(leads, op.operand_axes, strict=True)]):
            element_operands = [[t[k] if lead else t for t, lead in zip(tensors, leads, strict=True)] for k in range(size)]
            element_results = [call_host_op(op.name, *arguments, sizes=sizes, **options) for arguments in element_operands]
            outputs = [stack([results[k] for results in element_results]) for k in range(len(op.result_axes))]
        else:  # the whole batch, as the first axis
            arguments = [
                t.reshape((size, *(1,) * (max(loop_ndims) - axes), *t.shape[1:])) if lead else t
                for t, axes, lead in zip(tensors, loop_ndims, leads, strict=True)
            ]
            outputs = list(call_host_op(op.name, *arguments, sizes=sizes, **options))
        return [NodeView(t.node, t.layout).to_node() for t in outputs]

    shapes, dtypes = infer_result_types(op, tuple([t.shape for t in operands]), operands[0].dtype, sizes)
    sources, layouts = tuple([t.node for t in operands]), tuple([t.layout for t in operands])
    ops = [ExternalOp(op.name, compute, k) for k in range(len(shapes))]
    return tuple(
        [Tensor._from_node(make_external_node(*result_fields, sources, layouts)) for result_fields in zip(ops, shapes, dtypes, strict=True)]
    )


def defer_to_batch(name: str, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return a pending tensor for `function(x)`, of the shape and dtype of the traced tensor `x`, one batch element.

    When values are asked for, `function` is called once with the whole batch, whose first axis runs over the batch elements. `name` is the
    name of the operation in errors.
    """

    def compute(views: Sequence[NodeView], leads: Sequence[bool], size: int) -> list[Node]:
        (view,) = views
        result = function(Tensor._from_node(view.node)._view(view.layout))
        return [NodeView(result.node, result.layout).to_node()]

    return Tensor._from_node(make_external_node(ExternalOp(name, compute, 0), x.shape, x.dtype, (x.node,), (x.layout,)))


def is_on_tape(*tensors: Tensor) -> bool:
    """Return whether the tape records results of these tensors. Tracers of a batch count as recorded. With the tape off, return False."""
    tape_nodes = [tape_node for t in tensors if (tape_node := t.node.tape_node) is not None]
    return (
        bool(tape_nodes)
        and bool(tape_mode.get())
        and any([tape_node.is_traced or get_tape_node(tape_node) is not None for tape_node in tape_nodes])
    )


def _call_on_tape(name: str, operands: tuple[Tensor, ...], sizes: Mapping[str, int], options: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Return the results of the operation `name`, recorded as one tape node with the VJP in `HOST_VJPS`.

    `sizes` and `options` are as in `call_host_op`. Raise DerivativeError if the operation has no VJP.
    """
    from .custom_derivatives import custom_derivative

    if name not in HOST_VJPS:
        raise DerivativeError(f"{name}: has no derivative; compute it on x.detach() if you need none")

    def call(*arguments: Tensor) -> tuple[Tensor, ...]:
        return call_host_op(name, *arguments, sizes=sizes, **options)

    def backward(gradients: Tensors, results: Tensors, *arguments: Tensor) -> Tensors:
        return HOST_VJPS[name](gradients, results, arguments, options)

    results: tuple[Tensor, ...] = custom_derivative(call, backward)(*operands)
    return results
