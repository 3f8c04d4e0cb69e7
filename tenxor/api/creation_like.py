"""Constructors of tensors with the shape of another tensor, filled with a number or uninitialised."""

from __future__ import annotations

from .._utils.aliases import argument_aliases
from ..dtypes import DTypeLike
from ..tensor import Tensor
from ..tensor.core import Operand
from .creation import asarray, empty, make_filled

__all__ = ["empty_like", "full_like", "ones_like", "zeros_like"]


@argument_aliases
def full_like(x: Operand, /, fill_value: Operand, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor filled with `fill_value`, with the shape of `x`.

    Parameters
    ----------
    x : Tensor
        Any dtype. Only the shape and the dtype are read.
    fill_value : number or Tensor
        The number, or a 0-d tensor, as in `full`. A fraction is dropped for an integer dtype.
    dtype : dtype, optional
        By default the dtype of `x`.
    device : "cpu", optional

    Returns
    -------
    Tensor
        New tensor of the shape of `x`.

    Raises
    ------
    OutOfBounds
        For an integer beyond the range of the dtype.
    DTypeError
        For a complex number in a real dtype.
    ArgumentError
        For another device.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.full_like(tx.asarray([1, 2]), 7).tolist()
    [7, 7]
    """
    x = asarray(x)
    return make_filled("full_like", x.shape, fill_value, x.dtype if dtype is None else dtype, device)


@argument_aliases
def zeros_like(x: Operand, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor of zeros with the shape of `x`.

    Parameters
    ----------
    x : Tensor
        Any dtype. Only the shape and the dtype are read.
    dtype : dtype, optional
        By default the dtype of `x`.
    device : "cpu", optional

    Returns
    -------
    Tensor
        New tensor of the shape of `x`.

    Raises
    ------
    ArgumentError
        For another device.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.zeros_like(tx.asarray([1, 2])).tolist()
    [0, 0]
    """
    x = asarray(x)
    return make_filled("zeros_like", x.shape, 0, x.dtype if dtype is None else dtype, device)


@argument_aliases
def ones_like(x: Operand, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor of ones with the shape of `x`.

    Parameters
    ----------
    x, dtype, device
        As in `zeros_like`: the tensor, the dtype, by default the dtype of `x`, and "cpu" or None.

    Returns
    -------
    Tensor
        New tensor of the shape of `x`.

    Raises
    ------
    ArgumentError
        For another device.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.ones_like(tx.asarray([1, 2]), dtype=tx.float32).tolist()
    [1.0, 1.0]
    """
    x = asarray(x)
    return make_filled("ones_like", x.shape, 1, x.dtype if dtype is None else dtype, device)


@argument_aliases
def empty_like(x: Operand, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a new tensor with uninitialised elements and the shape of `x`.

    Parameters
    ----------
    x, dtype, device
        As in `zeros_like`: the tensor, the dtype, by default the dtype of `x`, and "cpu" or None.

    Returns
    -------
    Tensor
        New tensor of the shape of `x`.

    Raises
    ------
    ArgumentError
        For another device.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.empty_like(tx.asarray([1, 2])).shape
    (2,)
    """
    x = asarray(x)
    return empty(x.shape, dtype=x.dtype if dtype is None else dtype, device=device)
