"""NumPy's functions on tensors, through `__array_function__`: each is dispatched to a function of Tenxor.

A function of the same name is called with the arguments as NumPy's signature binds them; arguments that only concern NumPy's memory
layout are dropped. Others are composed from our functions (`numpy_functions.py`, `numpy_indexing_functions.py`). NumPy itself runs the
functions that only inspect, print or save, on the same memory. For every remaining function an error names it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..errors import ArgumentError, DTypeError
from ..tensor import Tensor
from ..tensor.numpy_ufuncs import to_numpy_arguments
from .numpy_indexing_functions import NUMPY_FUNCTIONS
from .output_arguments import write_out

__all__ = ["_call_numpy_function"]

tx: Any = sys.modules["tenxor"]
# NumPy's modules -> our modules of the same functions.
_MODULES = {"numpy": "", "numpy.linalg": "linalg", "numpy.fft": "fft", "numpy.lib.stride_tricks": "lib.stride_tricks"}
# Arguments about NumPy's memory and algorithms, without influence on values.
_IGNORED = frozenset(("order", "subok", "overwrite_input", "kind", "casting", "optimize", "assume_unique", "like", "copy", "device"))
_DROPPED_IF_NONE = frozenset(("order", "stable"))  # arguments dropped where they are None
_RENAMED = {"a_min": "min", "a_max": "max"}
# Functions that inspect, print or save: NumPy runs them on the same memory.
_NUMPY_ONLY = frozenset(
    (
        *("array2string", "array_repr", "array_str", "common_type", "iscomplexobj", "isrealobj", "may_share_memory"),
        *("min_scalar_type", "save", "savetxt", "savez", "savez_compressed", "shares_memory"),
    )
)

_WRITE_FIRST_ARGUMENT = frozenset((np.copyto, np.put, np.putmask))  # the rest write by indexing, which arrays allow


class _Dispatch(NamedTuple):
    """A recorded dispatch: our function, how many of the first arguments it takes by position, and the names of the rest."""

    function: Callable[..., Any]
    positional_count: int
    keyword_names: tuple[str, ...]


# Keyed by NumPy's function, the number of positional arguments, and keyword names
_dispatches: BoundedCache[_Dispatch] = register("calls of NumPy functions", "the translated call, by function and argument names")(
    BoundedCache(1024)
)
_PLAIN_TYPES = frozenset((Tensor, float, int, bool))


def _call_numpy_function(function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of NumPy's `function` on arguments that contain tensors. Raise DTypeError if Tenxor has no such function.

    The parameters are those of `__array_function__`; `types` are the types of the arguments that implement this protocol. If an argument
    only NumPy can handle, such as an array of strings or an `out` that is an array, NumPy computes the result on the same memory.
    """
    dispatch = _dispatches.get((function, len(args), *kwargs))
    if dispatch is not None:
        values = (*args, *kwargs.values())
        if all([_is_plain(x) for x in args]) and all([x is None or _is_plain(x) for x in kwargs.values()]):
            return dispatch.function(
                *values[: dispatch.positional_count], **dict(zip(dispatch.keyword_names, values[dispatch.positional_count :], strict=True))
            )
    if not all(issubclass(t, Tensor) or t is np.ndarray for t in types) or isinstance(kwargs.get("out"), np.ndarray):
        return function(*to_numpy_arguments(args), **to_numpy_arguments(kwargs))  # another class decides, or `out` is returned as an array
    if isinstance(kwargs.get("dst", kwargs.get("a", args[0] if args else None)), np.ndarray) and function in _WRITE_FIRST_ARGUMENT:
        return function(*to_numpy_arguments(args), **to_numpy_arguments(kwargs))
    if any(map(_contains_objects, args)) or (function is np.broadcast_arrays and any(x is None for x in args)):
        return function(*to_numpy_arguments(args), **to_numpy_arguments(kwargs))
    name, module = function.__name__, getattr(function, "__module__", "")
    if name in _NUMPY_ONLY:
        return function(*to_numpy_arguments(args), **to_numpy_arguments(kwargs))
    prefix = _MODULES.get(module)
    composed = None if prefix is None else NUMPY_FUNCTIONS.get(f"{prefix}.{name}" if prefix else name)
    if composed is not None:
        return _call_tenxor_function(f"np.{name}", composed, function, args, kwargs)
    our_module = None if prefix is None else getattr(tx, prefix, None) if prefix else tx
    ours = getattr(our_module, name, None) if our_module is not None and name in our_module.__all__ else None
    if ours is None:
        raise DTypeError(
            f"{module}.{name}: Tenxor has no such function; with np.asarray(x) in place of a tensor x NumPy computes it on the same memory"
        )
    return _call_tenxor_function(f"np.{name}", ours, function, args, kwargs)


def _is_plain(x: Any) -> bool:
    """Return whether the argument `x` is a tensor, a number or a string, or a list or tuple of tensors and numbers.

    A recorded dispatch is valid only for such arguments: they contain no NumPy array, and no value among them changes the dispatch.
    """
    kind = type(x)
    if kind is tuple or kind is list:
        return _PLAIN_TYPES.issuperset(map(type, x))
    return kind in _PLAIN_TYPES or kind is str


def _contains_objects(x: Any) -> bool:
    """Return whether `x` is a NumPy array or scalar of strings, times or objects, or contains one. NumPy must then compute the result."""
    if isinstance(x, (list, tuple)):
        return any(map(_contains_objects, x))
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "OSUMmV" and x.dtype.name != "bfloat16"


class _Parameters:
    """The parameters of `function`: the names of positional-only parameters (`positional_names`) and of all others (`keyword_names`).

    `has_var_args` and `has_var_keywords` tell whether the function takes `*args` and `**kwargs`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        parameters = self.signature.parameters.values()
        self.positional_names = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
        self.has_var_args = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        self.keyword_names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        self.has_var_keywords = any(p.kind is p.VAR_KEYWORD for p in parameters)


@register("parameters of NumPy functions", "the parameters of a function, by function")
@lru_cache(maxsize=1024)
def _parameters(function: Callable[..., Any]) -> _Parameters | None:
    """Return the names of the parameters of a function, as `_Parameters`, or None for a function of NumPy's C code without a signature."""
    try:
        return _Parameters(function)
    except ValueError:  # some of NumPy's C functions have no signature
        return None


def _call_tenxor_function(
    name: str, ours: Callable[..., Any], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return `ours`, our function, of the arguments `args` and `kwargs` of NumPy's `function`, matched by NumPy's signature.

    Record the dispatch if it depends on no value. Cast to `dtype` and write into `out` if our function does not take these itself. Raise
    ArgumentError, beginning with `name`, for an argument that our function does not take.
    """
    numpy_parameters, our_parameters = _parameters(function), _parameters(ours)
    if numpy_parameters is None or our_parameters is None or our_parameters.has_var_args:
        accepted_names = our_parameters.keyword_names if our_parameters is not None else ()
        passed = {key: value for key, value in kwargs.items() if key in accepted_names or key not in _IGNORED}
        if len(passed) == len(kwargs):
            _dispatches.put((function, len(args), *kwargs), _Dispatch(ours, len(args), tuple(kwargs)))
        return ours(*args, **passed)
    bound = numpy_parameters.signature.bind(*args, **kwargs).arguments
    bound.update(bound.pop("kwargs", {}))
    if isinstance(bound.get("out"), np.ndarray):
        return function(*to_numpy_arguments(args), **to_numpy_arguments(kwargs))  # the result goes into NumPy's array
    defaults = numpy_parameters.signature.parameters
    positional: list[Any] = []
    by_keyword: dict[str, Any] = {}
    leftover: dict[str, Any] = {}
    for key, value in bound.items():
        our_name = _RENAMED.get(key, key)
        if value is np._NoValue or (key == "order" and value is None):  # both mean that the argument was not given
            continue
        if len(positional) < len(our_parameters.positional_names):
            positional.append(value)
        elif our_name in our_parameters.keyword_names:
            by_keyword[our_name] = value
        elif not (key in _IGNORED or (key in defaults and value is defaults[key].default)):
            (by_keyword if our_parameters.has_var_keywords and key != "out" else leftover)[our_name] = value
    out, dtype = leftover.pop("out", None), leftover.pop("dtype", None)
    if leftover:
        raise ArgumentError(f"{name}: Tenxor's function does not take {', '.join(leftover)}; call NumPy's own on np.asarray(x)")
    if by_keyword.get("stable", True) is None:
        del by_keyword["stable"]
    result = ours(*positional, **by_keyword)
    # No argument was dropped, and no value matters.
    is_value_free = len(positional) <= len(args) and len(positional) + len(by_keyword) == len(bound)
    if is_value_free and out is dtype is None and not numpy_parameters.has_var_args and _DROPPED_IF_NONE.isdisjoint(bound):
        named = [*bound][len(positional) : len(args)]
        _dispatches.put(
            (function, len(args), *kwargs), _Dispatch(ours, len(positional), tuple([_RENAMED.get(n, n) for n in (*named, *kwargs)]))
        )
    if dtype is not None:
        result = result.astype(dtype, copy=False)
    return write_out(name, out, result) if isinstance(result, Tensor) else result
