"""Text signatures of generated methods, in the form used by C functions."""

from __future__ import annotations

import inspect
from ast import literal_eval
from typing import Any


def signature(function: Any) -> str:
    """Return the signature of a Python function in the form of a C function's `__text_signature__`: without types, and with literal
    defaults.

    `inspect.signature` takes three times as long to find the same.
    """
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code, by_name = function.__code__, function.__kwdefaults__ or {}
    plain, named, more = code.co_varnames[: code.co_argcount], code.co_kwonlyargcount, code.co_varnames[code.co_argcount :]
    defaults = dict(zip(reversed(plain), reversed(function.__defaults__ or ()), strict=False)) | by_name

    def said(name: str) -> str:
        """Return the text of the parameter `name`, with its default value if it has one."""
        return f"{name}={_literal(defaults[name])!r}" if name in defaults else name

    parts = [f"${plain[0]}", *map(said, plain[1:])]
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    if code.co_flags & inspect.CO_VARARGS:
        parts.append(f"*{more[named]}")
    elif named:
        parts.append("*")
    parts += map(said, more[:named])
    if code.co_flags & inspect.CO_VARKEYWORDS:
        parts.append(f"**{more[named + bool(code.co_flags & inspect.CO_VARARGS)]}")
    return f"({', '.join(parts)})"


def _literal(default: Any) -> Any:
    """Return a default value of a simple type; convert a value of another type to the literal that its `repr` denotes, or to None.

    The second case is a `Default` instance: the function uses the instance to recognise an omitted argument.
    """
    if default is None or type(default) in (bool, int, str):
        return default
    try:
        return literal_eval(repr(default))
    except (ValueError, SyntaxError):
        return None
