"""Comparison of tensors, exact or within tolerances."""

from __future__ import annotations

from typing import Any

from ..dtypes import DEFAULT_FLOAT, result_type
from ..errors import ShapeError
from ..graph.spec import FLOAT64_EXACT_LIMIT, memoized_call
from ..layout import broadcast_shapes
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag
from ..tensor.core import Operand
from .creation import asarray

__all__ = ["allclose", "array_equal", "array_equiv", "isclose"]


@memoized_call
def isclose(x1: Operand, x2: Operand, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Return whether elements are equal, or `abs(x1 - x2) <= atol + rtol * abs(x2)`, as a new bool tensor.

    Parameters
    ----------
    x1, x2 : Tensor or number
        Operands that broadcast. Integers are compared in float64.
    rtol, atol : float, default 1e-5 and 1e-8
        Relative and absolute tolerance.
    equal_nan : bool, default False
        Whether NaN equals NaN. NaN equals nothing else, and an infinity equals only itself.

    Returns
    -------
    Tensor
        New bool tensor of the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If an operand does not consist of numbers.

    References
    ----------
    NumPy, `isclose`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.isclose(tx.asarray([1.0, 2.0]), tx.asarray([1.0000001, 2.1])).tolist()
    [True, False]
    """
    a, b = _as_inexact(x1, x2), _as_inexact(x2, x1)
    if not (isinstance(x1, Tensor) and isinstance(x2, Tensor)):
        return isclose(a, b, rtol, atol, equal_nan)  # the fast path records calls with tensors
    absolute, relative = (x if type(x) in (int, float) else asarray(x) for x in (atol, rtol))
    is_near: Tensor = abs(a - b) <= absolute + relative * abs(b)
    are_close = Tensor._compute(OPS["where"], b.isfinite(), is_near, a == b)
    if check_flag("equal_nan", equal_nan):
        are_close = are_close | (a.isnan() & b.isnan())
    return are_close


def _as_inexact(x: Any, other_operand: Any) -> Tensor:
    """Return `x` as a float or complex tensor. A Python number promotes with the dtype of the tensor `other_operand`."""
    is_weak = type(x) in (int, float, complex) and isinstance(other_operand, Tensor)
    if type(x) is int and -FLOAT64_EXACT_LIMIT < x < FLOAT64_EXACT_LIMIT:
        x = float(x)
    tensor = asarray(x, result_type(_as_inexact(other_operand, None), x)) if is_weak else asarray(x)
    return tensor if tensor.dtype.is_float or tensor.dtype.is_complex else tensor.astype(DEFAULT_FLOAT)


def allclose(x1: Operand, x2: Operand, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether all elements are equal, or `abs(x1 - x2) <= atol + rtol * abs(x2)`, as a Python bool. (NumPy's `allclose`.)

    Parameters
    ----------
    x1, x2 : Tensor or number
        Operands that broadcast. Integers are compared in float64.
    rtol, atol : float, default 1e-5 and 1e-8
        Relative and absolute tolerance.
    equal_nan : bool, default False
        Whether NaN equals NaN.

    Returns
    -------
    bool
        True for no elements.

    Raises
    ------
    ShapeError, DTypeError
        As in `isclose`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.allclose(tx.asarray([1.0, 2.0]), tx.asarray([1.0, 2.0000001]))
    True
    """
    return bool(isclose(x1, x2, rtol, atol, equal_nan).all())


def array_equal(x1: Operand, x2: Operand, /, equal_nan: bool = False) -> bool:
    """Return whether `x1` and `x2` have the same shape and equal elements, in any dtypes, as a Python bool. (NumPy's `array_equal`.)

    Parameters
    ----------
    x1, x2 : Tensor or data for `tx.asarray`
        Operands of any dtypes and shapes. Different shapes give False, not an error.
    equal_nan : bool, default False
        Whether NaN equals NaN.

    Returns
    -------
    bool
        Of Python.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.array_equal(tx.asarray([1, 2]), tx.asarray([1.0, 2.0])), tx.array_equal(tx.ones(2), tx.ones(3))
    (True, False)
    """
    a, b, nan_equals_nan = asarray(x1), asarray(x2), check_flag("equal_nan", equal_nan)
    if a.shape != b.shape:
        return False
    are_equal: Any = a == b
    if nan_equals_nan:
        are_equal = are_equal | ((a != a) & (b != b))
    return bool(are_equal.all())


def array_equiv(x1: Operand, x2: Operand, /) -> bool:
    """Return whether `x1` and `x2` broadcast to a common shape and have equal elements there, as a Python bool. (NumPy's `array_equiv`.)

    Parameters
    ----------
    x1, x2 : Tensor or data for `tx.asarray`
        Operands of any dtypes. Shapes that do not broadcast give False, not an error. NaN equals nothing.

    Returns
    -------
    bool
        Of Python.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.array_equiv(tx.ones((2, 2)), tx.ones(2))
    True
    """
    a, b = asarray(x1), asarray(x2)
    try:
        broadcast_shapes(a.shape, b.shape)
    except ShapeError:
        return False
    are_equal: Any = a == b
    return bool(are_equal.all())
