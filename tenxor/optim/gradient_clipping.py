"""Gradient clipping: limits of the common norm of gradients, and of their elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..api import elementwise
from ..api.argument_validation import check_argument, validate_arguments
from ..api.creation import zeros
from ..api.differentiation import no_grad
from ..tensor import Tensor

__all__ = ["clip_grad_norm", "clip_grad_value"]

_op = elementwise.FUNCTIONS


@validate_arguments
def clip_grad_norm(params: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale gradients down in place, so that their common norm is at most `max_norm`, and return the norm before.

    Parameters
    ----------
    params : Iterable of Tensor
        Tensors of any shape. Tensors without a gradient are ignored.
    max_norm : float
        The upper limit of the 2-norm of all gradients together, as one vector.

    Returns
    -------
    Tensor
        The norm before scaling, a new tensor of shape (). It is 0 without gradients. Norms of float16 and bfloat16 gradients are float32.

    Raises
    ------
    ArgumentError
        If one of `params` is not a tensor.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.nn.Parameter([3.0, 4.0])
    >>> (x * x / 2.0).sum().backward()
    >>> tx.optim.clip_grad_norm([x], 1.0).item(), [round(g, 6) for g in x.grad.tolist()]
    (5.0, [0.6, 0.8])
    """
    gradients = _collect_gradients("clip_grad_norm", params)
    if not gradients:
        return zeros(())
    with no_grad():
        total = sum([(abs(g).astype(g.dtype.part.compute_dtype, copy=False) ** 2).sum() for g in gradients])
        norm: Any = _op["sqrt"](total)
        scale = _op["minimum"](max_norm / (norm + 1e-6), 1.0)
        for g in gradients:
            g *= scale
    return norm  # type: ignore[no-any-return]


@validate_arguments
def clip_grad_value(params: Iterable[Tensor], max_value: float) -> None:
    """Clip each element of the gradients to [-`max_value`, `max_value`], in place.

    Parameters
    ----------
    params : Iterable of Tensor
        Tensors of any shape. Tensors without a gradient are ignored.
    max_value : float
        The upper limit of the magnitude of each element.

    Raises
    ------
    ArgumentError
        If one of `params` is not a tensor.
    DTypeError
        For a complex gradient.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.nn.Parameter([3.0, 0.5])
    >>> (x * x / 2.0).sum().backward()
    >>> tx.optim.clip_grad_value([x], 1.0)
    >>> x.grad.tolist()
    [1.0, 0.5]
    """
    with no_grad():
        bound = float(max_value)
        for gradient in _collect_gradients("clip_grad_value", params):
            gradient[...] = gradient.clip(-bound, bound)


def _collect_gradients(op: str, params: Iterable[Tensor]) -> Sequence[Any]:
    """Return a list of the gradients of `params`, `t.grad` of each, leaving out tensors without one.

    Raise ArgumentError, beginning with `op`, for objects that are no tensors.
    """
    tensors = list(params)
    for k, t in enumerate(tensors):
        check_argument(op, f"parameter {k}", t, "Tensor")
    return [t.grad for t in tensors if t.grad is not None]
