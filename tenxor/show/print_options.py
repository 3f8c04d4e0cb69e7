"""Options of printing, as in NumPy: `set_printoptions`, `get_printoptions` and `printoptions`. Each thread and asyncio task has its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from operator import index
from typing import Any

from .._utils.records import NamedTuple
from ..errors import ArgumentError, describe_value

__all__ = ["get_printoptions", "printoptions", "set_printoptions"]

Formatter = Mapping[str, Callable[[Any], str]]


class PrintOptions(NamedTuple):
    """The options of `set_printoptions`."""

    precision: int
    threshold: float
    edgeitems: int
    linewidth: float
    suppress: bool
    nanstr: str
    infstr: str
    sign: str
    formatter: Formatter | None


_FORMATTER_KEYS = {  # the keys of a kind of elements in the option `formatter`; a later key has priority
    "bool": ("all", "bool"),
    "int": ("all", "int_kind", "int"),
    "float": ("all", "float_kind", "float"),
    "complex": ("all", "complex_kind", "complexfloat"),
}
_SIGNS = ("-", "+", " ")
_DEFAULTS = PrintOptions(8, 1000, 3, 80, False, "nan", "inf", "-", None)
_OPTIONS: ContextVar[PrintOptions] = ContextVar("print_options", default=_DEFAULTS)


def current_options() -> PrintOptions:
    """Return the options of the present thread or asyncio task."""
    return _OPTIONS.get()


def formatter_of_kind(kind: str) -> Callable[[Any], str] | None:
    """Return the function in the option `formatter` for elements of `kind`, "bool", "int", "float" or "complex", or None."""
    formatter = current_options().formatter or {}
    functions = [formatter[key] for key in _FORMATTER_KEYS[kind] if key in formatter]
    return functions[-1] if functions else None


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: float | None = None,
    suppress: bool | None = None,
    nanstr: str | None = None,
    infstr: str | None = None,
    formatter: Formatter | None = None,
    sign: str | None = None,
) -> None:
    """Set options of `print(t)` and `repr(t)`, in the present thread or asyncio task.

    None leaves an option unchanged, except `formatter`: each call sets `formatter`, as in NumPy. Arguments of `t.to_string` come before
    options.

    Parameters
    ----------
    precision : int, default 8
        The maximal number of digits after the point.
    threshold : int or inf, default 1000
        A tensor with more elements is shortened. inf never shortens.
    edgeitems : int, default 3
        The number of positions at either end of an axis of a shortened tensor.
    linewidth : int or inf, default 80
        The maximal number of characters of a line. inf never breaks a row.
    suppress : bool, default False
        If True, small numbers are written without an exponent: at most `precision` digits after the point, so 1e-10 is "0.". From 1e8 on,
        numbers have exponents.
    nanstr, infstr : str, default "nan", "inf"
        The texts of NaN and of infinity.
    formatter : dict of str to callable, optional
        Functions from a Python scalar to text, by the kind of the elements: "bool", "int", "float", "complexfloat", or "all".
    sign : {"-", "+", " "}, default "-"
        The character before positive floats, zero and NaN: nothing, a plus, or a space.

    Raises
    ------
    ArgumentError
        If an option has an unsuitable value. Then no option is changed.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.set_printoptions(precision=3)
    >>> print(tx.arange(4) / 3)
    0.     0.333  0.667  1.
    >>> tx.set_printoptions(precision=8)
    """
    _OPTIONS.set(_change("set_printoptions", precision, threshold, edgeitems, linewidth, suppress, nanstr, infstr, formatter, sign))


def get_printoptions() -> dict[str, Any]:
    """Return the options of printing in the present thread or asyncio task.

    Returns
    -------
    dict of str to object
        A new dict of arguments for `set_printoptions`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.get_printoptions()["precision"], tx.get_printoptions()["linewidth"]
    (8, 80)
    """
    return current_options()._asdict()


@contextmanager
def printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: float | None = None,
    suppress: bool | None = None,
    nanstr: str | None = None,
    infstr: str | None = None,
    formatter: Formatter | None = None,
    sign: str | None = None,
) -> Iterator[dict[str, Any]]:
    """Return a context manager with other options of printing. At the end, the present options are restored.

    Parameters
    ----------
    precision, threshold, edgeitems, linewidth, suppress, nanstr, infstr, formatter, sign
        As for `set_printoptions`.

    Yields
    ------
    dict of str to object
        The options, as `get_printoptions` returns them.

    Raises
    ------
    ArgumentError
        If an option has an unsuitable value.

    Examples
    --------
    >>> import tenxor as tx
    >>> with tx.printoptions(precision=2, sign="+"):
    ...     print(tx.asarray([1.0, -0.3333]))
    +1.    -0.33
    """
    token = _OPTIONS.set(_change("printoptions", precision, threshold, edgeitems, linewidth, suppress, nanstr, infstr, formatter, sign))
    try:
        yield get_printoptions()
    finally:
        _OPTIONS.reset(token)


def _change(
    op: str,
    precision: object,
    threshold: object,
    edgeitems: object,
    linewidth: object,
    suppress: object,
    nanstr: object,
    infstr: object,
    formatter: object,
    sign: object,
) -> PrintOptions:
    """Return the present options, changed by the arguments except None, and with `formatter`, where None stands for no formatter.

    Raise ArgumentError, beginning with `op`, for an unsuitable value.
    """
    changes: dict[str, Any] = {}
    counts = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in counts.items():
        if value is not None:
            changes[name] = _check_count(op, name, value, is_bounded=name in ("precision", "edgeitems"))
    for name, value, kind, requirement in (
        ("suppress", suppress, bool, "True or False"),
        ("nanstr", nanstr, str, "a text"),
        ("infstr", infstr, str, "a text"),
        ("sign", sign, str, f"one of {_SIGNS}"),
    ):
        if value is not None:
            if not isinstance(value, kind) or (name == "sign" and value not in _SIGNS):
                raise ArgumentError(f"{op}: {name} is {describe_value(value)}; it must be {requirement}")
            changes[name] = value
    keys = dict.fromkeys(key for keys in _FORMATTER_KEYS.values() for key in keys)
    if formatter is not None and not (
        isinstance(formatter, Mapping) and all(key in keys and callable(function) for key, function in formatter.items())
    ):
        raise ArgumentError(f"{op}: formatter is {describe_value(formatter)}; it must be a dict of functions, with keys among {[*keys]}")
    return current_options()._replace(**changes, formatter=None if formatter is None else dict(formatter))


def _check_count(op: str, name: str, value: Any, *, is_bounded: bool) -> float:
    """Return `value`, given for the option `name`, as an integer of 0 or more, or inf unless `is_bounded`. Raise ArgumentError else."""
    if not is_bounded and isinstance(value, float) and value == math.inf:
        return value
    try:
        count = -1 if isinstance(value, bool) else index(value)
    except TypeError:
        count = -1
    if count < 0:
        requirement = "an integer of 0 or more" if is_bounded else "an integer of 0 or more, or float('inf')"
        raise ArgumentError(f"{op}: {name} is {describe_value(value)}; it must be {requirement}")
    return count
