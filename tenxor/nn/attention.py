"""Multi-head attention, with a cache of keys and values for sequences that grow."""

from __future__ import annotations

from typing import Any

from ..api.argument_validation import PositiveInt, explain_errors, validate_arguments
from ..api.attention import scaled_dot_product_attention
from ..api.block_stacking import split
from ..api.creation import asarray, empty
from ..dtypes import DTypeLike, float32
from ..errors import ArgumentError, ShapeError
from ..random import Source
from ..tensor import Tensor
from .layers import Linear
from .module import Module

__all__ = ["KeyValueCache", "MultiHeadAttention"]


class KeyValueCache:
    """A preallocated cache of keys and values for up to `length` steps, written in place and read through views.

    Parameters
    ----------
    batch, heads, length, width : int
        Numbers of sequences, heads, steps, and elements of a key or value.
    dtype : dtype, default float32
        Dtype of keys and values.

    Attributes
    ----------
    keys, values : Tensor
        (batch, heads, length, width), uninitialised beyond the appended steps.
    used : int
        Number of steps appended so far.

    Raises
    ------
    ShapeError
        If a size is negative.

    Examples
    --------
    >>> import tenxor as tx
    >>> cache = tx.nn.KeyValueCache(1, 2, 8, 4)
    >>> keys, values = cache.append(tx.ones((1, 2, 3, 4)), tx.zeros((1, 2, 3, 4)))
    >>> keys.shape, cache.used
    ((1, 2, 3, 4), 3)
    """

    @validate_arguments
    def __init__(self, batch: int, heads: int, length: int, width: int, dtype: DTypeLike = float32) -> None:
        self.keys = empty((batch, heads, length, width), dtype=dtype)
        self.values = empty((batch, heads, length, width), dtype=dtype)
        self.used = 0

    @validate_arguments
    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new steps, in place. Return views of the keys and values so far.

        Parameters
        ----------
        keys, values : Tensor
            (batch, heads, steps, width), converted to the dtype of the cache.

        Returns
        -------
        keys, values : Tensor
            Views of the cache, (batch, heads, used, width).

        Raises
        ------
        ShapeError
            For another batch, number of heads or width than those of the cache, and without room.
        """
        batch, heads, length, width = self.keys.shape
        if keys.ndim != 4 or keys.shape != (batch, heads, keys.shape[2], width) or values.shape != keys.shape:
            raise ShapeError(
                f"KeyValueCache: keys {keys.shape}, values {values.shape}; both must be ({batch}, {heads}, steps, {width}), as in the cache"
            )
        end = self.used + keys.shape[2]
        if end > length:
            raise ShapeError(
                f"KeyValueCache: {self.used} steps in the cache and {keys.shape[2]} more are too many; there must be at most {length}"
            )
        self.keys[:, :, self.used : end] = keys
        self.values[:, :, self.used : end] = values
        self.used = end
        return self.keys[:, :, :end], self.values[:, :, :end]


class MultiHeadAttention(Module):
    """Multi-head attention over (N, L, embed_dim): `num_heads` heads of width `embed_dim / num_heads`.

    Parameters
    ----------
    embed_dim : int
        Number of features of queries, keys, values and results.
    num_heads : int
        Number of heads, a divisor of `embed_dim`.
    bias : bool, default True
        Whether the four affine maps have a bias.
    dtype : dtype, default float32
        Floating-point dtype of the parameters, the inputs and the result.
    generator : tx.random.Generator, optional
        Source of the initial values, by default the generator of `tx.random`.

    Attributes
    ----------
    to_query, to_key, to_value, to_result : Linear
        The affine maps, with weights (embed_dim, embed_dim) and biases (embed_dim,). `load_state_dict` also takes the names of PyTorch's
        layer: in_proj_weight, in_proj_bias, out_proj.weight and out_proj.bias.

    Raises
    ------
    ArgumentError
        If `num_heads` does not divide `embed_dim`.

    References
    ----------
    A. Vaswani et al.: Attention is all you need, 2017 (arXiv:1706.03762).

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.MultiHeadAttention(8, 2)(tx.ones((1, 5, 8), dtype=tx.float32), is_causal=True).shape
    (1, 5, 8)
    """

    @validate_arguments
    def __init__(
        self, embed_dim: int, num_heads: PositiveInt, bias: bool = True, *, dtype: DTypeLike = float32, generator: Source = None
    ) -> None:
        if embed_dim % num_heads:
            raise ArgumentError(f"MultiHeadAttention: {num_heads} heads do not divide embed_dim {embed_dim}; use a divisor")
        self.num_heads = num_heads
        self.to_query, self.to_key, self.to_value, self.to_result = [
            Linear(embed_dim, embed_dim, bias, dtype=dtype, generator=generator) for _ in range(4)
        ]

    def _adopt_names(self, prefix: str, state: dict[str, Any]) -> None:
        """Replace PyTorch's names in the dict `state`, after `prefix`, by the names here, in place; other names stay.

        PyTorch's in_proj_weight and in_proj_bias have the values of three maps, one below another, and are split.
        """
        for kind in ("weight", "bias"):
            stacked = asarray(state.get(f"{prefix}in_proj_{kind}", 0))
            if stacked.ndim and stacked.shape[0] % 3 == 0:
                del state[f"{prefix}in_proj_{kind}"]
                maps = zip(("to_query", "to_key", "to_value"), split(stacked, 3), strict=True)
                state.update({f"{prefix}{name}.{kind}": x for name, x in maps})
            if f"{prefix}out_proj.{kind}" in state:
                state[f"{prefix}to_result.{kind}"] = state.pop(f"{prefix}out_proj.{kind}")

    @explain_errors
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Return the attention of `query` over `key` and `value`.

        Parameters
        ----------
        query : Tensor
            (N, L, embed_dim).
        key : Tensor, optional
            (N, S, embed_dim), by default `query`.
        value : Tensor, optional
            (N, S, embed_dim), by default `key`.
        attn_mask : Tensor, optional
            Mask of `tx.scaled_dot_product_attention`, which broadcasts to (N, num_heads, L, S): bool, True where a key takes part, or a
            float tensor added to the scores.
        is_causal : bool, default False
            If True, each step attends to itself and earlier steps only.
        cache : KeyValueCache, optional
            Cache to which the keys and values of the new steps are appended. The queries attend to the whole cache.

        Returns
        -------
        Tensor
            New tensor (N, L, embed_dim).

        Raises
        ------
        ShapeError
            If shapes do not fit, or the cache has no room.
        DTypeError
            If an input has another dtype than the parameters.
        ArgumentError
            For several steps with `is_causal` and a cache that has steps in it.
        """
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = self._split_heads(self.to_query(query)), self._split_heads(self.to_key(key)), self._split_heads(self.to_value(value))
        if cache is not None:
            if is_causal and q.shape[2] > 1 and cache.used:
                raise ArgumentError(
                    "MultiHeadAttention: is_causal needs one query step at a time once the cache has steps; give one step, or an attn_mask"
                    " without is_causal"
                )
            is_causal = is_causal and q.shape[2] > 1
            k, v = cache.append(k, v)
        attended = scaled_dot_product_attention(q, k, v, attn_mask, is_causal=is_causal)
        return self.to_result(attended.moveaxis(1, 2).reshape((*query.shape[:2], -1)))

    def _split_heads(self, x: Tensor) -> Tensor:
        """Return `x`, (N, L, width), as a view (N, heads, L, width / heads)."""
        return x.unflatten(-1, (self.num_heads, -1)).moveaxis(2, 1)

    def extra_repr(self) -> str:
        return f"{self.to_query.weight.shape[0]}, num_heads={self.num_heads}"
