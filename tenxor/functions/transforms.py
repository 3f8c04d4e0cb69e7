"""VJPs of Fourier transforms. Each transform is linear, and the adjoint is a Fourier transform with the opposite normalization."""

from __future__ import annotations

from typing import Any

from ..creation import positions, zeros
from ..ops import OPS
from ..tensor import Tensor
from .hosted import hosted
from .joining import concat

TURNED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}  # maps `norm` of a transform to `norm` of the adjoint


def _fitted(g: Any, size: int) -> Any:
    """Return the cotangent of an axis before cropping, or padding with zeros. `size` is the size before; the axis is the last."""
    kept = g[..., :size]
    more = size - kept.shape[-1]
    return kept if not more else concat([kept, zeros((*kept.shape[:-1], more), dtype=kept.dtype)], -1)


def _back(other: str) -> Any:
    """Return the VJP of a complex transform, given the name of the adjoint. Real input was converted to complex."""

    def backward(g: tuple[Any, ...], found: Any, given: tuple[Any, ...], options: Any) -> tuple[Any, ...]:
        n = options["n"]
        turned = hosted(other, g[0], sizes={"k": n}, n=n, norm=TURNED[options["norm"]])[0]
        return (_fitted(turned, given[0].shape[-1]),)

    return backward


def _back_of_half(g: tuple[Any, ...], found: Any, given: tuple[Any, ...], options: Any) -> tuple[Any, ...]:
    """Compute the VJP of `rfft`: the omitted frequencies have the cotangent 0."""
    n = options["n"]
    turned = hosted("ifft", _fitted(g[0], n), sizes={"k": n}, n=n, norm=TURNED[options["norm"]])[0]
    return (_fitted(turned.real, given[0].shape[-1]),)


def _back_to_half(g: tuple[Any, ...], found: Any, given: tuple[Any, ...], options: Any) -> tuple[Any, ...]:
    """Compute the VJP of `irfft`: each omitted frequency counts again, through the conjugate."""
    n, x = options["n"], given[0]
    turned = hosted("rfft", g[0], sizes={"k": n // 2 + 1}, n=n, norm=TURNED[options["norm"]])[0]
    k = positions((n // 2 + 1,))
    turned = turned * Tensor._compute(OPS["where"], (k == 0) | (2 * k == n), 1.0, 2.0).astype(turned.dtype.part)
    return (_fitted(turned if x.dtype.is_complex else turned.real, x.shape[-1]),)


COTANGENTS = {"fft": _back("ifft"), "ifft": _back("fft"), "rfft": _back_of_half, "irfft": _back_to_half}
