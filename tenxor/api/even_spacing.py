"""`linspace`: evenly spaced numbers between two ends."""

from __future__ import annotations

from math import inf, isinf
from typing import Any

from .._utils.aliases import argument_aliases
from ..dtypes import DEFAULT_COMPLEX, DEFAULT_FLOAT, DType, DTypeLike, check_fits, check_real
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError
from ..layout.coords import validate_int
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag, to_number
from .creation import check_cpu, is_scalar_on_tape, make_float_range, memoized_creation

__all__ = ["linspace"]


@memoized_creation
@argument_aliases
def linspace(
    start: complex,
    stop: complex,
    /,
    num: int = 50,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    endpoint: bool = True,
    steps: int | None = None,
) -> Tensor:
    """Return a new 1-D tensor of `num` evenly spaced numbers from `start` to `stop`.

    Parameters
    ----------
    start, stop : int, float or complex
        The first number, and the last, or with `endpoint=False` the number after the last.
    num : int, default 50
        Number of elements, 0 or more. `steps` is another name of `num`.
    dtype : dtype, optional
        By default complex128 if `start` or `stop` is complex, else float64. Integer dtypes round down.
    device : "cpu", optional
    endpoint : bool, default True
        If True, `stop` is the last number.

    Returns
    -------
    Tensor
        New tensor of shape (num,).

    Raises
    ------
    ArgumentError, DTypeError
        If `num` is negative, or for complex numbers in a real dtype.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    check_cpu("linspace", device)
    first_value, last_value, default_dtype = _convert_ends(start, stop)
    count = validate_int("linspace", "num", num)
    if count < 0:
        raise ArgumentError(f"linspace: num is {num}; it must be 0 or more")
    d = default_dtype if dtype is None else dtype_of(dtype)
    check_real("linspace", default_dtype, d)
    endpoint = check_flag("endpoint", endpoint)
    gaps = count - 1 if endpoint else count
    counted = make_float_range(count)
    scale = 1.0 if isinstance(first_value, Tensor) or isinstance(last_value, Tensor) else choose_step_scale(first_value, last_value)
    step = (last_value * scale - first_value * scale) / gaps if gaps > 0 else 0.0
    # Operators do not accept numbers that depend on symbolic sizes (`symbolic/symint.py`), so operations are named.
    values: Tensor = counted._apply(OPS["multiply"], step) + first_value * scale
    if scale != 1:
        values *= 1 / scale
    if endpoint and gaps > 0:
        values = counted._apply(OPS["equal"], gaps)._apply(OPS["where"], last_value, values)
    return (values.floor() if d.is_integer else values).astype(d, copy=False)


def _convert_ends(start: Any, stop: Any) -> tuple[Any, Any, DType]:
    """Return `start` and `stop`, the ends of `linspace`, and the default dtype of the result, float64 or complex128.

    Both ends become Python floats or complex numbers. A 0-d tensor on the tape stays a tensor, cast to the default dtype.
    """
    if type(start) is float and type(stop) is float:  # as mostly
        return start, stop, DEFAULT_FLOAT
    ends: list[Any] = [x if is_scalar_on_tape(x) else to_number(x, "linspace") for x in (start, stop)]
    for x in ends:
        if type(x) is int:
            check_fits(x, DEFAULT_FLOAT, "linspace")
    are_complex = any([x.dtype.is_complex if isinstance(x, Tensor) else isinstance(x, complex) for x in ends])
    kind, default_dtype = (complex, DEFAULT_COMPLEX) if are_complex else (float, DEFAULT_FLOAT)
    return *[x.astype(default_dtype) if isinstance(x, Tensor) else kind(x) for x in ends], default_dtype  # type: ignore[return-value]


def choose_step_scale(start: complex, stop: complex) -> float:
    """Return the power of two, mostly 1, by which to scale `start` and `stop` before the step between points is computed.

    The scaled ends have a finite distance, and a step keeps full precision.
    """
    distance = stop - start
    if type(distance) is float and 2.0**-900 <= abs(distance) < inf:
        return 1.0
    magnitudes = [abs(x) for x in (distance.real, distance.imag) if x]
    if any(isinf(x) for x in magnitudes):
        return 0.5
    return 2.0**200 if magnitudes and max(magnitudes) < 2.0**-900 and max(map(abs, (start, stop))) < 2.0**-700 else 1.0
