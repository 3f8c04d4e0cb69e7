"""The check that a layer's input has the dtype of the layer's parameters."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import DTypeError
from ..tensor import Tensor


def check_dtypes(op: str, x: Tensor, parameters: Mapping[str, Tensor | None], *, name: str = "x", narrow: bool = False) -> None:
    """Raise DTypeError, beginning with `op`, unless `parameters`, tensors or None by name, have the dtype of `x`.

    `name` is the name of `x` in messages. Without this check, a float64 input (Python floats become float64) would silently promote every
    following result to float64 and slow down the network. With `narrow`, float32 parameters are allowed for float16 and bfloat16 input, as
    in normalisation layers, which compute in float32.
    """
    for key, t in parameters.items():
        if t is None or t.dtype is x.dtype or (narrow and t.dtype is x.dtype.compute_dtype):
            continue
        also = f", or create the layer with dtype=tx.{x.dtype}" if x.dtype.is_float or x.dtype.is_complex else ""
        raise DTypeError(
            f"{op}: {name} is {x.dtype} and {key} {t.dtype}; their dtypes must be equal: use {name}.astype(tx.{t.dtype}){also}"
        )
