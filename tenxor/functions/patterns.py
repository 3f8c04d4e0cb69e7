"""Movement written as a pattern, `"h w c -> c h w"`, through the einops library (the extra `tenxor[einops]`)."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..creation import asarray
from ..dtypes import isdtype
from ..errors import ArgumentError
from ..tensor import Tensor
from .joining import concat, stack, tile

__all__ = ["rearrange"]


def rearrange(x: Tensor, pattern: str, /, **sizes: int) -> Tensor:
    """View with its axes permuted, split and merged as an einops pattern says; `sizes` gives those it cannot infer.

    Raises einops' own error for a pattern that does not fit, and ArgumentError if einops is not installed.

    >>> import tenxor as tx
    >>> tx.rearrange(tx.zeros((2, 6)), "b (h w) -> h w b", h=2).shape
    (2, 3, 2)
    """
    if not isinstance(pattern, str) or pattern.count("->") != 1:
        raise ArgumentError(f"rearrange: a pattern is like 'h w c -> c h w', not {pattern!r}")
    found: Tensor = _einops().rearrange(asarray(x), pattern, **sizes)
    return found


@cache
def _einops() -> Any:
    """The library, taught what a Tensor is: then its own functions take tensors as well."""
    try:
        import einops
        from einops._backends import AbstractBackend
    except ImportError:
        raise ArgumentError(
            "rearrange: patterns are read by einops, which is not installed; pip install 'tenxor[einops]'"
        ) from None

    class TenxorBackend(AbstractBackend):
        framework_name = "tenxor"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, Tensor)

        def reshape(self, x: Tensor, shape: Any) -> Tensor:
            return x.reshape(tuple(shape))

        def transpose(self, x: Tensor, axes: Any) -> Tensor:
            return x.permute(tuple(axes))

        def add_axis(self, x: Tensor, new_position: int) -> Tensor:
            return x.expand_dims(new_position)

        def tile(self, x: Tensor, repeats: tuple[int, ...]) -> Tensor:
            return tile(x, repeats)

        def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
            return stack(tensors)

        def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
            return concat(tensors, axis=axis)

        def is_float_type(self, x: Tensor) -> bool:
            return isdtype(x.dtype, "real floating")

    return einops
