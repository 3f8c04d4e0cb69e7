"""Text signatures of generated methods, in the form used by C functions."""

from __future__ import annotations

import inspect
from ast import literal_eval
from typing import Any


def build_text_signature(function: Any) -> str:
    """Return the signature of the Python function `function` as the `__text_signature__` of a C method, such as "($self, axis=None)".

    The function must have a positional parameter; the first one is marked with `$`. The text has no types. A default that is no literal
    becomes the literal of its `repr`, or None. Decorators (`__wrapped__`) are unwrapped. `inspect.signature` takes three times as long.
    """
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code, keyword_defaults = function.__code__, function.__kwdefaults__ or {}
    positional_names, keyword_only_count, later_names = (
        code.co_varnames[: code.co_argcount],
        code.co_kwonlyargcount,
        code.co_varnames[code.co_argcount :],
    )
    defaults = dict(zip(reversed(positional_names), reversed(function.__defaults__ or ()), strict=False)) | keyword_defaults

    def format_parameter(name: str) -> str:
        """Return the parameter `name` as text, with the default value."""
        return f"{name}={_to_literal(defaults[name])!r}" if name in defaults else name

    parameters = [f"${positional_names[0]}", *map(format_parameter, positional_names[1:])]
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    if code.co_flags & inspect.CO_VARARGS:
        parameters.append(f"*{later_names[keyword_only_count]}")
    elif keyword_only_count:
        parameters.append("*")
    parameters += map(format_parameter, later_names[:keyword_only_count])
    if code.co_flags & inspect.CO_VARKEYWORDS:
        parameters.append(f"**{later_names[keyword_only_count + bool(code.co_flags & inspect.CO_VARARGS)]}")
    return f"({', '.join(parameters)})"


def _to_literal(default: Any) -> Any:
    """Return the default value `default` if its type is simple; convert another value to the literal that its `repr` denotes, or to None.

    A `NamedDefault` is such another value: its function uses the object to recognise an omitted argument.
    """
    if default is None or type(default) in (bool, int, str):
        return default
    try:
        return literal_eval(repr(default))
    except (ValueError, SyntaxError):
        return None
