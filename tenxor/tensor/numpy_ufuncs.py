"""NumPy ufuncs on tensors: calls, and `reduce`, `accumulate`, `outer`, `at` and `reduceat`, by our functions where we have a counterpart.
The remaining ufuncs (`numpy.cbrt`, SciPy's `special`) compute on the same memory, and their results become tensors. Functions take `tx`,
the module `tenxor`, `out`, an empty tuple or one item for each result, and `options`, further keyword arguments of NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import can_cast
from ..errors import ArgumentError, DerivativeError, DTypeError
from ..ops import OPS
from .conversion_methods import FUNCTION_OF_UFUNC, is_special_array
from .core import TensorBase

# Our names of NumPy's ufuncs, where they differ.
_FUNCTION_NAMES = {
    "absolute": "abs",
    "conjugate": "conj",
    "power": "pow",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
}
_EXTRA_FUNCTIONS = frozenset(("divmod", "fmod", "matmul", "vecdot"))  # our functions that are not in the op table
_REDUCE_FUNCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
    "logaddexp": "logsumexp",
}
_ACCUMULATE_FUNCTIONS = {"add": "cumulative_sum", "multiply": "cumulative_prod", "logaddexp": "logcumsumexp"}
_AT_REDUCTIONS = {"add": "sum", "subtract": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}


def apply_ufunc(tx: Any, ufunc: Any, method: str, inputs: tuple[Any, ...], out: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the result of a ufunc's method, a tensor or a tuple of tensors. `tx` is the module `tenxor`.

    `method` is "__call__", "reduce" or another key of `_METHODS`; "at" returns None. `out` is empty or has an item for each result, and
    given tensors are returned. Return NotImplemented if an operand belongs to another library that overrides ufuncs. If `out` has an array,
    or an operand is an array of a subclass, NumPy computes and returns arrays.
    """
    if any([_overrides_ufuncs(x) for x in (*inputs, *out)]):
        return NotImplemented
    if any([isinstance(o, np.ndarray) for o in out]):  # an array that is written to stays an array
        return getattr(ufunc, method)(*to_numpy_arguments(inputs), out=to_numpy_arguments(out), **to_numpy_arguments(options))
    if any([is_special_array(x) for x in inputs]) and not out:  # NumPy gives the result the class of this array
        return getattr(ufunc, method)(*to_numpy_arguments(inputs), **to_numpy_arguments(options))
    options = {key: value for key, value in options.items() if key not in ("order", "subok")}
    return _METHODS[method](tx, ufunc, inputs, out, options)


def _overrides_ufuncs(x: Any) -> bool:
    """Return whether `x` is no tensor, and its class defines an `__array_ufunc__` of its own, be it None.

    Arrays are False, including those of subclasses that inherit the method.
    """
    override = getattr(type(x), "__array_ufunc__", np.ndarray.__array_ufunc__)
    return override is not np.ndarray.__array_ufunc__ and not isinstance(x, TensorBase)


def to_numpy_arguments(x: Any) -> Any:
    """Return arguments with arrays in place of tensors, also in lists, tuples and dicts.

    The arrays are over the same memory, or read-only copies where NumPy cannot share it.
    """
    if isinstance(x, TensorBase):
        return x.__array__()  # type: ignore[attr-defined]  # what np.asarray finds after it has asked for other protocols
    if type(x) in (list, tuple):
        return type(x)([to_numpy_arguments(item) for item in x])
    if type(x) is dict:
        return {key: to_numpy_arguments(value) for key, value in x.items()}
    return x


def _find_function(tx: Any, ufunc: Any) -> Callable[..., Any] | None:
    """Return our function for a ufunc of NumPy, or None if there is no counterpart. A function once found is kept in
    `FUNCTION_OF_UFUNC`.
    """
    cached = FUNCTION_OF_UFUNC.get(ufunc)
    if cached is not None:
        return cached
    name = ufunc.__name__
    of_numpy: Any = getattr(np, name, None)
    if of_numpy is not ufunc:  # a ufunc of another library with the same name
        return None
    name = _FUNCTION_NAMES.get(name, name)
    if name not in OPS and name not in _EXTRA_FUNCTIONS:
        return None
    function: Callable[..., Any] = getattr(tx, name)
    FUNCTION_OF_UFUNC[ufunc] = function
    return function


def _call(tx: Any, ufunc: Any, inputs: tuple[Any, ...], out: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the result of a ufunc's call: a tensor, or a tuple of several. A tensor in `out` receives its result and is returned.

    `options` may have `where`, `dtype` and `casting`, which are removed; NumPy computes a call with further options. Raise ArgumentError
    for `where` without `out`, and DTypeError if `casting` forbids the write.
    """
    where, dtype, casting = options.pop("where", True), options.pop("dtype", None), options.pop("casting", "same_kind")
    if where is not True and not out:
        raise ArgumentError(
            f"np.{ufunc.__name__}: elements at which `where` is false would have no value; give out=, a tensor that holds their values"
        )
    function = _find_function(tx, ufunc)
    if function is None or options:
        output = _compute_by_numpy(tx, ufunc, "__call__", inputs, {**options, **({} if dtype is None else {"dtype": dtype})})
    else:
        output = function(*(inputs if dtype is None else [tx.asarray(x, dtype=dtype) for x in inputs]))
    if not out:
        return output
    results = output if isinstance(output, tuple) else (output,)
    for target, result in zip(out, results, strict=True):
        if target is not None:
            if casting != "same_kind" and not can_cast(result.dtype, target.dtype, casting):  # `_write_result` tests "same_kind" itself
                raise DTypeError(
                    f"np.{ufunc.__name__}: the result is {result.dtype}, which with casting={casting!r} out of {target.dtype} cannot hold;"
                    f" give one of {result.dtype}, or casting='unsafe'"
                )
            fitting = result.astype(target.dtype, copy=False) if casting == "unsafe" else result
            target._write_result(f"np.{ufunc.__name__}", fitting, where, broadcast=True)
    written = tuple([result if target is None else target for target, result in zip(out, results, strict=True)])
    return written if len(written) > 1 else written[0]


def _compute_by_numpy(tx: Any, ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the result of a ufunc's method, computed by NumPy on the same memory, as a new tensor or a tuple of tensors.

    `method` is "__call__", "reduce" and the like. Raise DerivativeError if an input has a tape node. NumPy's floating-point warnings are
    off.
    """
    if any([isinstance(x, TensorBase) and x._is_on_tape() for x in inputs]):
        raise DerivativeError(
            f"np.{ufunc.__name__}: Tenxor has no such function, so no derivative; compute it on x.detach() if you need none"
        )
    with np.errstate(all="ignore"):  # infinities and NaN are ordinary results
        output = getattr(ufunc, method)(*to_numpy_arguments(inputs), **to_numpy_arguments(options))
    return tuple([tx.asarray(x, copy=True) for x in output]) if isinstance(output, tuple) else tx.asarray(output, copy=True)


def _to_booleans(name: str, t: Any) -> Any:
    """Return `t` as booleans if `name` is a logical ufunc, else `t` itself. The reduction of a single element would not convert it."""
    return t != 0 if name.startswith("logical_") and t.dtype.kind != "bool" else t


def _reduce(tx: Any, ufunc: Any, inputs: tuple[Any, ...], out: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the result of `ufunc.reduce` over axes, by our reductions where possible, else by `tx.reduce` or NumPy.

    A tensor in `out` receives the result and is returned. `axis`, `keepdims` and `dtype` are removed from `options`.
    """
    t, axis, keepdims = tx.asarray(inputs[0]), options.pop("axis", 0), options.pop("keepdims", False)
    name, dtype = ufunc.__name__, options.pop("dtype", None)
    limits = {key: value for key, value in options.items() if value is not None and value is not True}
    t = _to_booleans(name, t) if dtype is None else t.astype(dtype, copy=False)
    if name.startswith("logical_") and "initial" in limits:
        limits["initial"] = bool(limits["initial"])
    if name in ("logical_and", "logical_or") and "initial" in limits:
        initial = limits.pop("initial")
        result = getattr(tx, name)(getattr(tx, _REDUCE_FUNCTIONS[name])(t, axis=axis, keepdims=keepdims, **limits), initial)
    elif name in _REDUCE_FUNCTIONS and not (name == "logaddexp" and limits):
        result = getattr(tx, _REDUCE_FUNCTIONS[name])(t, axis=axis, keepdims=keepdims, **limits)
    elif limits.keys() <= {"initial"} and ufunc.nin == 2 and (function := _find_function(tx, ufunc)) is not None:
        of_nothing = ufunc.identity if 0 in t.shape else None
        result = tx.reduce(function, t, axis, limits.get("initial", of_nothing), keepdims=keepdims)
    else:
        result = _compute_by_numpy(tx, ufunc, "reduce", (t,), {"axis": axis, "keepdims": keepdims, **limits})
    result = result if dtype is None else result.astype(dtype, copy=False)  # sums of small integers are int64
    return out[0]._write_result(f"np.{name}.reduce", result) if out else result


def _accumulate(tx: Any, ufunc: Any, inputs: tuple[Any, ...], out: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the result of `ufunc.accumulate` along an axis, by our cumulative functions where possible. A tensor in `out` receives the
    result and is returned.
    """
    t, name = tx.asarray(inputs[0]), ufunc.__name__
    axis, dtype = inputs[1] if len(inputs) > 1 else options.get("axis", 0), options.get("dtype")
    t = _to_booleans(name, t) if dtype is None else t.astype(dtype, copy=False)
    if name in _ACCUMULATE_FUNCTIONS:
        result = getattr(tx, _ACCUMULATE_FUNCTIONS[name])(t, axis)
    elif name in ("maximum", "minimum"):
        result = (tx.cummax if name == "maximum" else tx.cummin)(t, axis).values
    elif ufunc.nin == 2 and (function := _find_function(tx, ufunc)) is not None:
        result = tx.accumulate(function, t, axis)
    else:
        result = _compute_by_numpy(tx, ufunc, "accumulate", (t,), {"axis": axis})
    result = result if dtype is None else result.astype(dtype, copy=False)
    return out[0]._write_result(f"np.{name}.accumulate", result) if out else result


def _outer(tx: Any, ufunc: Any, inputs: tuple[Any, ...], out: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the result of `ufunc.outer` for two operands, or write it into `out` as `_call` does.

    The first operand gets an axis of size 1 for each axis of the second, then both broadcast. `options` are those of a call.
    """
    a, b = [tx.asarray(x) for x in inputs]
    return _call(tx, ufunc, (a.reshape((*a.shape, *(1,) * b.ndim)), b), out, options)


def _apply_at(tx: Any, ufunc: Any, inputs: tuple[Any, ...], out: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Apply `ufunc.at` in place to `inputs`: a tensor or array, the key, and the values if the ufunc takes any.

    An operation of `_AT_REDUCTIONS` on a tensor is a scatter. NumPy applies everything else to the same memory. Raise ArgumentError if
    NumPy cannot write through the view. `tx`, `out` and `options` are not used.
    """
    t, key, *values = inputs
    name = f"np.{ufunc.__name__}.at"
    if isinstance(t, TensorBase) and ufunc.__name__ in _AT_REDUCTIONS and len(values) == 1:
        value = t._to_operand(values[0], name)  # type: ignore[attr-defined]
        value = -value if ufunc.__name__ == "subtract" else value
        t._scatter(name, t._select_by_key(name, t.layout, key), value, _AT_REDUCTIONS[ufunc.__name__])  # type: ignore[attr-defined]
        return
    target = to_numpy_arguments(t)
    if not target.flags.writeable:
        raise ArgumentError(f"{name}: NumPy cannot write through this view; write t[key] = ..., or use it on x.copy()")
    ufunc.at(target, *to_numpy_arguments((key, *values)))


def _reduce_at(tx: Any, ufunc: Any, inputs: tuple[Any, ...], out: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the result of `ufunc.reduceat`, computed by NumPy. A tensor in `out` receives the result and is returned."""
    result = _compute_by_numpy(tx, ufunc, "reduceat", inputs, options)
    return out[0]._write_result(f"np.{ufunc.__name__}.reduceat", result) if out else result


_METHODS: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "reduce": _reduce,
    "accumulate": _accumulate,
    "outer": _outer,
    "at": _apply_at,
    "reduceat": _reduce_at,
}
