"""NumPy's functions on tensors, through `__array_function__`: each is dispatched to a function of Tenxor.

A function of the same name is called with the arguments as NumPy's signature binds them; arguments that only concern NumPy's memory layout
are dropped. Others are composed from our functions (`numpys.py`, `numpys_parts.py`). NumPy itself runs the functions that only inspect,
print or save, on the same memory. For every remaining function an error names it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import ArgumentError, DTypeError
from ..records import NamedTuple
from ..remembered import Remembered
from ..tensor import Tensor
from ..tensor.ufuncs import for_numpy
from .into import into
from .numpys_parts import FUNCTIONS

__all__ = ["_for_numpy"]

tx: Any = sys.modules["tenxor"]
# NumPy's modules -> our modules of the same functions.
_MODULES = {"numpy": "", "numpy.linalg": "linalg", "numpy.fft": "fft", "numpy.lib.stride_tricks": "lib.stride_tricks"}
# Arguments about NumPy's memory and algorithms, without influence on values.
_IGNORED = frozenset(("order", "subok", "overwrite_input", "kind", "casting", "optimize", "assume_unique", "like", "copy", "device"))
_BY_VALUE = frozenset(("order", "stable"))  # arguments dropped where they are None
_RENAMED = {"a_min": "min", "a_max": "max"}
# Functions that inspect, print or save: NumPy runs them on the same memory.
_ASKED = frozenset(
    (
        *("array2string", "array_repr", "array_str", "common_type", "iscomplexobj", "isrealobj", "may_share_memory"),
        *("min_scalar_type", "save", "savetxt", "savez", "savez_compressed", "shares_memory"),
    )
)

_WRITE_INTO_THE_FIRST = frozenset((np.copyto, np.put, np.putmask))  # the rest write by indexing, which arrays allow


class _Way(NamedTuple):
    """A recorded dispatch: our function, how many of the first arguments it takes by position, and the names of the rest."""

    ours: Callable[..., Any]
    by_place: int
    names: tuple[str, ...]


_ways: Remembered[_Way] = Remembered(1024)  # keyed by NumPy's function, the number of positional arguments, and the keyword names
_PLAIN = frozenset((Tensor, float, int, bool))


def _for_numpy(function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of NumPy's `function` on arguments that contain tensors. Raise DTypeError if Tenxor has no such function."""
    way = _ways.get((function, len(args), *kwargs))
    if way is not None:
        values = (*args, *kwargs.values())
        if all([_is_plain(x) for x in args]) and all([x is None or _is_plain(x) for x in kwargs.values()]):
            return way.ours(*values[: way.by_place], **dict(zip(way.names, values[way.by_place :], strict=True)))
    if not all(issubclass(t, Tensor) or t is np.ndarray for t in types) or isinstance(kwargs.get("out"), np.ndarray):
        return function(*for_numpy(args), **for_numpy(kwargs))  # another class decides, or `out` is returned as an array
    if isinstance(kwargs.get("dst", kwargs.get("a", args[0] if args else None)), np.ndarray) and function in _WRITE_INTO_THE_FIRST:
        return function(*for_numpy(args), **for_numpy(kwargs))
    if any(map(_holds_objects, args)) or (function is np.broadcast_arrays and any(x is None for x in args)):
        return function(*for_numpy(args), **for_numpy(kwargs))
    name, module = function.__name__, getattr(function, "__module__", "")
    if name in _ASKED:
        return function(*for_numpy(args), **for_numpy(kwargs))
    prefix = _MODULES.get(module)
    put_together = None if prefix is None else FUNCTIONS.get(f"{prefix}.{name}" if prefix else name)
    if put_together is not None:
        return _called(f"np.{name}", put_together, function, args, kwargs)
    home = None if prefix is None else getattr(tx, prefix, None) if prefix else tx
    ours = getattr(home, name, None) if home is not None and name in home.__all__ else None
    if ours is None:
        raise DTypeError(
            f"{module}.{name}: Tenxor has no such function; with np.asarray(x) in place of a tensor x NumPy computes it on the same memory"
        )
    return _called(f"np.{name}", ours, function, args, kwargs)


def _is_plain(x: Any) -> bool:
    """Return whether an argument is a tensor, a number or a string, or a list or tuple of tensors and numbers.

    A recorded dispatch is valid only for such arguments: they contain no NumPy array, and no value among them changes the dispatch.
    """
    kind = type(x)
    if kind is tuple or kind is list:
        return _PLAIN.issuperset(map(type, x))
    return kind in _PLAIN or kind is str


def _holds_objects(x: Any) -> bool:
    """Return whether an argument is, or contains, a NumPy array or scalar of strings, times or objects. NumPy then computes everything."""
    if isinstance(x, (list, tuple)):
        return any(map(_holds_objects, x))
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "OSUMmV" and x.dtype.name != "bfloat16"


class _Parameters:
    """The parameters of a function: positional-only ones (`by_place`), the rest (`by_name`), and whether it has `*args` and `**kwargs`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        every = self.signature.parameters.values()
        self.by_place = [p.name for p in every if p.kind is p.POSITIONAL_ONLY]
        self.many = any(p.kind is p.VAR_POSITIONAL for p in every)
        self.by_name = {p.name for p in every if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        self.any_name = any(p.kind is p.VAR_KEYWORD for p in every)


@lru_cache(maxsize=1024)
def _parameters(function: Callable[..., Any]) -> _Parameters | None:
    """Return the parameters of a function, or None if it has no signature."""
    try:
        return _Parameters(function)
    except ValueError:  # some of NumPy's C functions have no signature
        return None


def _called(name: str, ours: Callable[..., Any], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call our function with the arguments given to NumPy's `function`, matched by NumPy's signature. `name` is for errors.

    Record the dispatch if it depends on no value. Cast to `dtype` and write into `out` if our function does not take these itself.
    """
    its, own = _parameters(function), _parameters(ours)
    if its is None or own is None or own.many:
        taken = own.by_name if own is not None else ()
        passed = {key: value for key, value in kwargs.items() if key in taken or key not in _IGNORED}
        if len(passed) == len(kwargs):
            _ways.keep((function, len(args), *kwargs), _Way(ours, len(args), tuple(kwargs)))
        return ours(*args, **passed)
    given = its.signature.bind(*args, **kwargs).arguments
    given.update(given.pop("kwargs", {}))
    if isinstance(given.get("out"), np.ndarray):
        return function(*for_numpy(args), **for_numpy(kwargs))  # the result goes into NumPy's array
    defaults = its.signature.parameters
    by_place: list[Any] = []
    by_name: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in given.items():
        known = _RENAMED.get(key, key)
        if value is np._NoValue or (key == "order" and value is None):  # both mean that the argument was not given
            continue
        if len(by_place) < len(own.by_place):
            by_place.append(value)
        elif known in own.by_name:
            by_name[known] = value
        elif not (key in _IGNORED or (key in defaults and value is defaults[key].default)):
            (by_name if own.any_name and key != "out" else rest)[known] = value
    out, dtype = rest.pop("out", None), rest.pop("dtype", None)
    if rest:
        raise ArgumentError(f"{name}: Tenxor's function does not take {', '.join(rest)}; use np.asarray(x) for NumPy's own")
    if by_name.get("stable", True) is None:
        del by_name["stable"]
    found = ours(*by_place, **by_name)
    all_said = len(by_place) <= len(args) and len(by_place) + len(by_name) == len(given)  # no argument was dropped, and no value matters
    if all_said and out is dtype is None and not its.many and _BY_VALUE.isdisjoint(given):
        named = [*given][len(by_place) : len(args)]
        _ways.keep((function, len(args), *kwargs), _Way(ours, len(by_place), tuple([_RENAMED.get(n, n) for n in (*named, *kwargs)])))
    if dtype is not None:
        found = found.astype(dtype, copy=False)
    return into(name, out, found) if isinstance(found, Tensor) else found
