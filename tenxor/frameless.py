"""Public functions that machine code of the fast path can replace in place: code that holds a function object keeps the same object.

A call of a Python function makes a frame, even if the function only calls machine code. A `Frameless` calls a Python function, like a
`functools.partial`, and has a vectorcall entry per object: the fast path sets the entry, and the interpreter then makes no frame. (Python
functions have an entry, too, but before CPython 3.12 the interpreter ignores it.) Otherwise the object looks like the function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from .errors import UnknownAttribute

_ELEMENTWISE = ("unary", "binary", "ternary")  # fast-path routines for functions of the op table
_UFUNC_METHODS = ("accumulate", "at", "outer", "reduce", "reduceat")  # methods of NumPy's ufuncs, looked for by mistake


class Frameless(partial[Any]):
    """A Python function, `func`, that a fast-path routine may replace: `machine` names the routine, and `subject` is passed to the routine.
    """

    __slots__ = ("machine", "subject")
    machine: str
    subject: object

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of functions, for `inspect` and similar code."""
        return FunctionType

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self.func, name)  # such as the name and the code
        except AttributeError:
            if not (self.machine in _ELEMENTWISE and name in _UFUNC_METHODS):
                raise
        from .spellings import of_a_function

        raise UnknownAttribute(f"tx.{self.__name__} has no attribute {name!r}; {of_a_function(self.__name__, name)}")

    def __reduce__(self) -> Any:
        return str(self.func.__qualname__)  # pickled by name, like functions

    def __repr__(self) -> str:
        return repr(self.func)


functions: list[Frameless] = []  # every instance
standing_in: list[Callable[[Frameless], None]] = []  # hook of the fast path, one or none: sets the vectorcall entry


def frameless(function: Callable[..., Any], machine: str, subject: object) -> Frameless:
    """Return a `Frameless` for `function`, with its name, signature, docstring and annotations.

    `machine` names the routine of the fast path that may be called instead, and `subject` is passed to this routine.
    """
    wrapper = Frameless(function)
    wrapper.machine, wrapper.subject = machine, subject
    attributes = wrapper.__dict__
    attributes.update(function.__dict__)
    attributes["__module__"], attributes["__doc__"], attributes["__annotations__"] = (
        function.__module__,
        function.__doc__,
        function.__annotations__,  # the class has all three, too
    )
    attributes["__wrapped__"] = function
    functions.append(wrapper)
    for set_entry in standing_in:
        set_entry(wrapper)
    return wrapper
