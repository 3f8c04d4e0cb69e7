"""Scaled dot-product attention. It is computed in blocks of queries (`rewrite/split_attention.py`), so the full score matrix is never
stored.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

from ..autodiff.blockwise_attention import compute_attention, intern_attention
from ..autodiff.node_view import NodeView
from ..dtypes import DEFAULT_FLOAT, promote
from ..errors import ArgumentError, DTypeError, ShapeError, describe_value
from ..graph.node import is_externally_shared
from ..graph.spec import memoized_call
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag
from ..tensor.core import Operand, broadcast_op_shapes
from .creation import asarray, zeros

__all__ = ["scaled_dot_product_attention"]

_OP = "scaled_dot_product_attention"


def scaled_dot_product_attention(
    query: Operand,
    key: Operand,
    value: Operand,
    attn_mask: Operand | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return, for each query, the mean of the values weighted by the softmax of `scale * query @ key.mT`, as a new float tensor.

    Parameters
    ----------
    query : Tensor
        (..., L, E).
    key : Tensor
        (..., S, E).
    value : Tensor
        (..., S, V). The leading axes of query, key and value broadcast.
    attn_mask : Tensor, optional
        Broadcasts to (..., L, S): a bool tensor, True where a key takes part, or a float tensor added to the scores.
    is_causal : bool, default False
        Whether query `i` sees only the keys up to `i` allowed by the mask. Whether NaN and infinities in later keys reach the result is
        unspecified, since most later keys are never read.
    scale : float, optional
        1 / sqrt(E) by default.
    enable_gqa : bool, default False
        Grouped queries: axis -3 of `query` has a multiple of the heads of `key` and `value`. Consecutive query heads share one head of keys
        and values; nothing is repeated in memory.

    Returns
    -------
    Tensor
        New tensor (..., L, V). A query without any key gives 0. Integers become float64; float16 and bfloat16 are computed in float32.

    Raises
    ------
    ShapeError
        If shapes do not fit.
    DTypeError
        For a mask of integers, and for complex numbers.
    ArgumentError
        If `scale` is not a number.

    Notes
    -----
    Beyond operands and result, in the dtype of the computation, the function needs some MiB of memory, however long the sequences are. So
    does its derivative by queries, keys and values.

    References
    ----------
    A. Vaswani et al.: Attention is all you need, 2017 (arXiv:1706.03762).

    Examples
    --------
    >>> import tenxor as tx
    >>> key, value = tx.asarray([[0.0], [0.0], [9.0]]), tx.asarray([[1.0], [3.0], [7.0]])
    >>> tx.scaled_dot_product_attention(tx.asarray([[0.0], [0.0]]), key, value, is_causal=True).tolist()
    [[1.0], [2.0]]
    """
    attend = _attend if any([isinstance(x, Tensor) and x.requires_grad for x in (query, key, value, attn_mask)]) else _attend_recorded
    return attend(query, key, value, attn_mask, is_causal, scale, enable_gqa)


def _attend(
    query: Operand,
    key: Operand,
    value: Operand,
    attn_mask: Operand | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return the result of `scaled_dot_product_attention`, a new tensor. Its parameters are positional here, so calls can be recorded."""
    if check_flag("enable_gqa", enable_gqa):
        return _attend_grouped(asarray(query), asarray(key), asarray(value), attn_mask, is_causal, scale)
    tensors: list[Any] = [_copy_if_shared(asarray(t)) for t in (query, key, value)]
    batch = _batch_shape(*tensors)
    dtype = promote(promote(tensors[0].dtype, tensors[1].dtype, _OP), tensors[2].dtype, _OP)
    if dtype.is_complex:
        dtypes = ", ".join([str(t.dtype) for t in tensors])
        raise DTypeError(f"{_OP}: query, key and value have the dtypes {dtypes}; they must be real, as complex scores have no softmax")
    result_dtype = dtype if dtype.is_float else DEFAULT_FLOAT
    q, k, v = [t.astype(result_dtype.compute_dtype, copy=False).expand(*batch, *t.shape[-2:]) for t in tensors]
    length, width, count = q.shape[-2], q.shape[-1], k.shape[-2]
    mask = (
        None
        if attn_mask is None
        else _broadcast_mask(_copy_if_shared(asarray(attn_mask)), (*batch, length, count), result_dtype.compute_dtype)
    )
    if scale is None:
        scale = 1 / sqrt(max(width, 1))
    elif not isinstance(scale, (int, float)):
        raise ArgumentError(f"{_OP}: scale must be a number, not {describe_value(scale)}")
    if prod(batch) * length * count == 0:
        return zeros((*batch, length, v.shape[-1]), dtype=result_dtype)

    operands = [NodeView(t.node, t.layout) for t in (q, k, v, mask) if t is not None]
    output_view = compute_attention(intern_attention(float(scale), check_flag("is_causal", is_causal)), operands)
    output: Tensor = Tensor._from_node(output_view.node)._view(output_view.layout).astype(result_dtype, copy=False)
    return output


_attend_recorded = memoized_call(_attend)  # not with operands on the tape: the result's derivative depends on more than its recipe


def _attend_grouped(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any, is_causal: bool, scale: float | None) -> Tensor:
    """Return the attention with fewer key heads than query heads, in axis -3: a group of consecutive query heads shares a key head.

    The query heads are split into groups, and each head of `key` and `value` is broadcast over a group. `attn_mask`, if not None, may have
    an axis of query heads. `is_causal` and `scale` are as in `scaled_dot_product_attention`. Raise ShapeError for operands with fewer than
    three axes, and unless the query heads are a multiple of the key heads, as many as the value heads.
    """
    for name, t in (("query", query), ("key", key), ("value", value)):
        if t.ndim < 3:
            raise ShapeError(
                f"{_OP}: the {name} has shape {t.shape}; with enable_gqa it must have at least 3 axes, with the heads on axis -3"
            )
    heads, groups = query.shape[-3], key.shape[-3]
    if groups != value.shape[-3] or groups == 0 or heads % groups:
        raise ShapeError(
            f"{_OP}: axis -3 gives {heads} query heads, {groups} key heads and {value.shape[-3]} value heads; query heads must be a"
            " multiple of key heads, and value heads as many as key heads"
        )
    split = (groups, heads // groups)
    mask = None if attn_mask is None else asarray(attn_mask)
    if mask is not None and mask.ndim > 2:
        if mask.shape[-3] not in (1, heads):
            raise ShapeError(f"{_OP}: attn_mask has shape {mask.shape}; its axis -3 must have size 1 or {heads}, the number of query heads")
        mask = mask.unflatten(-3, split if mask.shape[-3] == heads else (1, 1))
    output = scaled_dot_product_attention(
        query.unflatten(-3, split), key.expand_dims(-3), value.expand_dims(-3), mask, is_causal=is_causal, scale=scale
    )
    return output.reshape((*output.shape[:-4], heads, *output.shape[-2:]))


def _copy_if_shared(t: Any) -> Any:
    """Return `t`, or a copy if its memory is shared externally: operations on shared memory would run at once, one by one."""
    return t.copy() if is_externally_shared(t.node) else t


# --- what arguments must be -------------------------------------------------------------------------------------------


def _batch_shape(query: Tensor, key: Tensor, value: Tensor) -> tuple[int, ...]:
    """Return the broadcast shape of the axes of `query`, `key` and `value` before the last two.

    Raise ShapeError if these axes do not broadcast, or if the last two do not fit.
    """
    for name, t in (("query", query), ("key", key), ("value", value)):
        if t.ndim < 2:
            raise ShapeError(f"{_OP}: the {name} has shape {t.shape}; it must have at least 2 axes, for a sequence of vectors")
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(
            f"{_OP}: axis -1 of the query of shape {query.shape} has size {query.shape[-1]}, that of the key of shape"
            f" {key.shape} {key.shape[-1]}; they must be equal"
        )
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"{_OP}: axis -2 of the key of shape {key.shape} has size {key.shape[-2]}, that of the value of shape"
            f" {value.shape} {value.shape[-2]}; they must be equal"
        )
    return broadcast_op_shapes(f"{_OP}: before the last two axes of query, key and value", *(t.shape[:-2] for t in (query, key, value)))


def _broadcast_mask(mask: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return the mask broadcast to `shape`, the shape of the scores: an element for each query and key.

    A bool mask stays bool; a float mask is cast to `dtype`, the dtype of the scores. Raise DTypeError for an integer mask.
    """
    if mask.dtype.is_integer:
        raise DTypeError(
            f"{_OP}: attn_mask has dtype {mask.dtype}; it must be bool, True where a key takes part, or float, added to the scores"
        )
    try:
        mask = mask.expand(shape)
    except ShapeError:
        raise ShapeError(
            f"{_OP}: attn_mask of shape {mask.shape} does not broadcast to {shape}, one number for each query and key"
        ) from None
    return mask.astype(dtype, copy=False) if mask.dtype.is_float else mask
