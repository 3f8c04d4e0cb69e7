"""The dtype of a layer: that of its parameters, in which its input must be."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import DTypeError
from ..tensor import Tensor


def check_dtypes(op: str, x: Tensor, parameters: Mapping[str, Tensor | None], *, name: str = "x", narrow: bool = False) -> None:
    """Raise DTypeError unless the parameters have the dtype of `x`, which messages call by its `name`.

    Otherwise an input of float64, which Python's floats become, would turn all that follows into float64 and slow it down without a
    word. With `narrow`, float32 parameters may stand beside float16 and bfloat16, as in normalisations, which compute in float32.
    """
    for key, t in parameters.items():
        if t is None or t.dtype is x.dtype or (narrow and t.dtype is x.dtype.compute):
            continue
        also = f", or create the layer with dtype=tx.{x.dtype}" if x.dtype.is_float or x.dtype.is_complex else ""
        raise DTypeError(
            f"{op}: {name} is {x.dtype} and {key} {t.dtype}; their dtypes must be equal: use {name}.astype(tx.{t.dtype}){also}"
        )
