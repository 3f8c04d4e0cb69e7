"""VJPs of Fourier transforms. Each transform is linear, and the adjoint is a Fourier transform with the opposite normalization."""

from __future__ import annotations

from typing import Any

from ..ops import OPS
from ..tensor import Tensor
from .concatenation import concat
from .creation import make_flat_indices, zeros
from .host_calls import call_host_op

OPPOSITE_NORMS = {"backward": "forward", "forward": "backward", "ortho": "ortho"}  # maps `norm` of a transform to `norm` of the adjoint


def _fit_size(g: Any, size: int) -> Any:
    """Return `g` with its last axis cropped, or padded with zeros, to `size` elements.

    This is the VJP of the opposite step: a transform crops or pads a last axis of `size` elements, and `g` is the cotangent of the result.
    """
    cropped = g[..., :size]
    missing = size - cropped.shape[-1]
    return cropped if not missing else concat([cropped, zeros((*cropped.shape[:-1], missing), dtype=cropped.dtype)], -1)


def _complex_vjp(adjoint_name: str) -> Any:
    """Return the VJP of a complex transform: a function of the cotangents, the result, the operands and the options.

    `adjoint_name` is "fft" for `ifft`, and "ifft" for `fft`. Real input was converted to complex before the transform.
    """

    def backward(g: tuple[Any, ...], result: Any, operands: tuple[Any, ...], options: Any) -> tuple[Any, ...]:
        n = options["n"]
        turned = call_host_op(adjoint_name, g[0], sizes={"k": n}, n=n, norm=OPPOSITE_NORMS[options["norm"]])[0]
        return (_fit_size(turned, operands[0].shape[-1]),)

    return backward


def _rfft_vjp(g: tuple[Any, ...], result: Any, operands: tuple[Any, ...], options: Any) -> tuple[Any, ...]:
    """Return the cotangent of the operand of `rfft`, in a tuple. `g` has the cotangent of `result`; omitted frequencies have 0.

    `operands` has the operand, and `options` the keys "n" and "norm" of the transform.
    """
    n = options["n"]
    turned = call_host_op("ifft", _fit_size(g[0], n), sizes={"k": n}, n=n, norm=OPPOSITE_NORMS[options["norm"]])[0]
    return (_fit_size(turned.real, operands[0].shape[-1]),)


def _irfft_vjp(g: tuple[Any, ...], result: Any, operands: tuple[Any, ...], options: Any) -> tuple[Any, ...]:
    """Return the cotangent of the operand of `irfft`, in a tuple. `g` has the cotangent of `result`.

    Each omitted frequency counts again, through the conjugate. `operands` has the operand, and `options` the keys "n" and "norm" of the
    transform.
    """
    n, x = options["n"], operands[0]
    turned = call_host_op("rfft", g[0], sizes={"k": n // 2 + 1}, n=n, norm=OPPOSITE_NORMS[options["norm"]])[0]
    k = make_flat_indices((n // 2 + 1,))
    turned = turned * Tensor._compute(OPS["where"], (k == 0) | (2 * k == n), 1.0, 2.0).astype(turned.dtype.part)
    return (_fit_size(turned if x.dtype.is_complex else turned.real, x.shape[-1]),)


FOURIER_VJPS = {"fft": _complex_vjp("ifft"), "ifft": _complex_vjp("fft"), "rfft": _rfft_vjp, "irfft": _irfft_vjp}
