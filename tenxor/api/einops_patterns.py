"""Movement of axes written as a pattern, such as `"h w c -> c h w"`, through the optional einops library (the extra `einops`)."""

from __future__ import annotations

from typing import Any

from .._utils.optional_packages import install_hint
from ..dtypes import isdtype
from ..errors import ArgumentError
from ..tensor import Tensor
from ..tensor.core import Operand
from .concatenation import concat, stack, tile
from .creation import arange, asarray
from .einsum import einsum

__all__ = ["rearrange"]

_backend_classes: list[type] = []  # keeps the class below alive: einops finds it through `__subclasses__` alone


def rearrange(x: Operand, pattern: str, /, **sizes: int) -> Tensor:
    """Return a view with axes permuted, split and merged by an einops pattern.

    Parameters
    ----------
    x : Tensor
    pattern : str
        Axes before and after, such as `"h w c -> c h w"`. Parentheses split or merge axes.
    **sizes : int
        Sizes that einops cannot infer, by the names of the axes.

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    einops.EinopsError
        If the pattern does not fit `x`.
    ArgumentError
        If `pattern` is no string with one `->`, or if einops is not installed.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.rearrange(tx.zeros((2, 6)), "b (h w) -> h w b", h=2).shape
    (2, 3, 2)
    """
    if not isinstance(pattern, str) or pattern.count("->") != 1:
        raise ArgumentError(f"rearrange: pattern is {pattern!r}; it must be a text with one '->', such as 'h w c -> c h w'")
    try:
        import einops
    except ImportError:
        raise ArgumentError(f"rearrange: patterns are read by einops, which is not installed; {install_hint('einops')}") from None
    result: Tensor = einops.rearrange(asarray(x), pattern, **sizes)
    return result


def register_with_einops() -> None:
    """Define a back end for tensors in einops, which must be installed. The functions of einops then accept tensors.

    einops finds the back end as a subclass of `AbstractBackend`.
    """
    from einops._backends import AbstractBackend

    class TenxorBackend(AbstractBackend):
        framework_name = "tenxor"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, Tensor)

        def from_numpy(self, x: Any) -> Tensor:
            return asarray(x)

        def to_numpy(self, x: Tensor) -> Any:
            return x.detach().to_numpy()

        def arange(self, start: int, stop: int) -> Tensor:
            return arange(start, stop)

        def reshape(self, x: Tensor, shape: Any) -> Tensor:
            return x.reshape(tuple(shape))

        def transpose(self, x: Tensor, axes: Any) -> Tensor:
            return x.permute(tuple(axes))

        def add_axis(self, x: Tensor, new_position: int) -> Tensor:
            return x.expand_dims(new_position)

        def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
            for position, size in sorted(pos2len.items()):
                x = x.expand_dims(position)
                x = x.expand((*x.shape[:position], size, *x.shape[position + 1 :]))
            return x

        def tile(self, x: Tensor, repeats: tuple[int, ...]) -> Tensor:
            return tile(x, repeats)

        def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
            return stack(tensors)

        def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
            return concat(tensors, axis=axis)

        def is_float_type(self, x: Tensor) -> bool:
            return isdtype(x.dtype, "real floating")

        def einsum(self, pattern: str, *x: Tensor) -> Tensor:
            return einsum(pattern, *x)

    _backend_classes.append(TenxorBackend)
