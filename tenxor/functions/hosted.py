"""Tensors in and out of the operations that NumPy computes for us (`host/`), and how cotangents go back through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..derivatives.past import past_of
from ..dtypes import DType
from ..errors import DerivativeError, TraceError
from ..host import HOST, run
from ..host.running import Operand, of_few
from ..node import tracking
from ..tensor import Tensor

FEW = 1024  # elements that NumPy is sooner given copies of than memory of ours
_NO_SIZES: Mapping[str, int] = {}
Tensors = tuple[Any, ...]
# By the name of the operation: the cotangents of the operands (None for none), given those of the results, the results, the
# operands, and the options. Whoever offers the operation puts it here.
BACKWARD: dict[str, Callable[[Tensors, Tensors, Tensors, Mapping[str, Any]], Tensors]] = {}


def hosted(name: str, *operands: Tensor, sizes: Mapping[str, int] = _NO_SIZES, **options: Any) -> tuple[Tensor, ...]:
    """The results of an operation of the host table, in memory: new tensors. `sizes` are those of letters that no operand has.

    The operands have dtypes that NumPy has, so none is bfloat16. DerivativeError if there is to be a derivative of what has none,
    TraceError for what has no value yet.
    """
    op = HOST[name]
    if any([t.node.traced for t in operands]):
        raise TraceError(
            f"{name}: is computed at the call, so no function that is traced (tx.vmap, tx.map) can have it in it; all axes before those of"
            " a matrix, row or signal are a batch, so give it the whole batch"
        )
    if has_past(*operands) and any([dtype != "index" for dtype in op.dtypes]):
        return _one_step(name, operands, sizes, options)
    if sum([t.size for t in operands]) < FEW and max(sizes.values(), default=0) < FEW:
        found = of_few(op, [t.to_numpy() for t in operands], options)
        if found is not None:
            dtypes = op.dtypes_of(operands[0].dtype)
            return tuple([Tensor._of_array(array.astype(d.numpy, copy=False)) for array, d in zip(found, dtypes, strict=True)])
    given = [Operand(t.node, t.layout, t.dtype) for t in operands]
    return tuple([Tensor._of(node) for node in run(op, given, sizes, options)])


def has_past(*tensors: Tensor) -> bool:
    """Whether derivatives may be taken through what is made of these."""
    return tracking.get() and any([past_of(t.node) is not None for t in tensors])


def _one_step(name: str, operands: tuple[Tensor, ...], sizes: Mapping[str, int], options: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """The same as one step of a derivative."""
    from .steps import custom_derivative

    if name not in BACKWARD:
        raise DerivativeError(f"{name}: has no derivative; compute it on x.detach() if none is meant")

    def call(*given: Tensor) -> tuple[Tensor, ...]:
        return hosted(name, *given, sizes=sizes, **options)

    def backward(gradients: Tensors, results: Tensors, *given: Tensor) -> Tensors:
        if has_past(*given):  # so that the derivative has one
            results = call(*given)
        return BACKWARD[name](gradients, results, given, options)

    found: tuple[Tensor, ...] = custom_derivative(call, backward)(*operands)
    return found


def as_dtype(t: Tensor, dtype: DType) -> Tensor:
    """Itself where it has the dtype, as mostly."""
    return t if t.dtype is dtype else t.astype(dtype)
