"""Multi-head attention, with a cache of keys and values for sequences that grow."""

from __future__ import annotations

from ..api.argument_validation import PositiveInt, explain_errors, validate_arguments
from ..api.attention import scaled_dot_product_attention
from ..api.creation import empty
from ..dtypes import DTypeLike, float32
from ..errors import ArgumentError, ShapeError
from ..random import Source
from ..tensor import Tensor
from .layers import Linear
from .module import Module

__all__ = ["KeyValueCache", "MultiHeadAttention"]


class KeyValueCache:
    """A preallocated cache of keys and values for up to `length` steps, written in place and read through views."""

    @validate_arguments
    def __init__(self, batch: int, heads: int, length: int, width: int, dtype: DTypeLike = float32) -> None:
        self.keys = empty((batch, heads, length, width), dtype=dtype)
        self.values = empty((batch, heads, length, width), dtype=dtype)
        self.used = 0

    @validate_arguments
    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new steps, (batch, heads, steps, width). Return views of the keys and values so far. Raise
        ShapeError for another batch, number of heads or width than those of the cache, and without room.
        """
        batch, heads, length, width = self.keys.shape
        if keys.ndim != 4 or keys.shape != (batch, heads, keys.shape[2], width) or values.shape != keys.shape:
            raise ShapeError(
                f"KeyValueCache: keys {keys.shape}, values {values.shape}; both must be ({batch}, {heads}, steps, {width}), as in the cache"
            )
        end = self.used + keys.shape[2]
        if end > length:
            raise ShapeError(f"KeyValueCache: {self.used} steps and {keys.shape[2]} more are too many; the cache has room for {length}")
        self.keys[:, :, self.used : end] = keys
        self.values[:, :, self.used : end] = values
        self.used = end
        return self.keys[:, :, :end], self.values[:, :, :end]


class MultiHeadAttention(Module):
    """Multi-head attention over (N, L, embed_dim): `num_heads` heads of width `embed_dim / num_heads`.

    `forward(query, key=None, value=None, ...)` uses the query as key, and the key as value, if omitted. `attn_mask` is that of
    `tx.scaled_dot_product_attention`. With `is_causal` each step attends to itself and earlier steps only. With a `cache`, the keys and
    values of the new steps are appended to the cache, and the queries attend to the whole cache.

    >>> import tenxor as tx
    >>> tx.nn.MultiHeadAttention(8, 2)(tx.ones((1, 5, 8), dtype=tx.float32), is_causal=True).shape
    (1, 5, 8)

    A. Vaswani et al.: Attention is all you need, 2017 (arXiv:1706.03762).
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
        """Return the attention of `query` over `key` and `value`, (N, L, embed_dim)."""
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = self._split_heads(self.to_query(query)), self._split_heads(self.to_key(key)), self._split_heads(self.to_value(value))
        if cache is not None:
            if is_causal and q.shape[2] > 1 and cache.used:
                raise ArgumentError("MultiHeadAttention: with a cache that has steps in it, give one step at a time, or an attn_mask")
            is_causal = is_causal and q.shape[2] > 1
            k, v = cache.append(k, v)
        attended = scaled_dot_product_attention(q, k, v, attn_mask, is_causal=is_causal)
        return self.to_result(attended.moveaxis(1, 2).reshape((*query.shape[:2], -1)))

    def _split_heads(self, x: Tensor) -> Tensor:
        """Reshape (N, L, width) to (N, heads, L, width / heads)."""
        return x.unflatten(-1, (self.num_heads, -1)).moveaxis(2, 1)

    def extra_repr(self) -> str:
        return f"{self.to_query.weight.shape[0]}, num_heads={self.num_heads}"
