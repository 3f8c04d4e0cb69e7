"""Functions in whose place machine code is called, once there is some: the same objects, for whoever took hold of them before.

A call of a function of Python's makes a frame, whatever stands behind it. What is called here is an object that calls such a function, as
`functools.partial` does; and an object of that class says itself which machine code calls it, for which the interpreter makes no frame.
(A function says so, too, but before CPython 3.12 nobody listens.) It is the function for whoever looks at it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from .errors import UnknownAttribute

_ELEMENTWISE = ("unary", "binary", "ternary")  # the machine code of functions of the op table
_UFUNC_METHODS = ("accumulate", "at", "outer", "reduce", "reduceat")  # sought where NumPy's functions have them


class Frameless(partial[Any]):
    """A function, `func`, and the `machine` code that may be called in its place, by name, with what that is told: the `subject`."""

    __slots__ = ("machine", "subject")
    machine: str
    subject: object

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """That of functions, for who asks what this is: `inspect` and all that go by it."""
        return FunctionType

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self.func, name)  # its name, code and so on
        except AttributeError:
            if not (self.machine in _ELEMENTWISE and name in _UFUNC_METHODS):
                raise
        from .spellings import of_a_function

        raise UnknownAttribute(f"tx.{self.__name__} has no attribute {name!r}; {of_a_function(self.__name__, name)}")

    def __reduce__(self) -> Any:
        return str(self.func.__qualname__)  # by name, as functions are

    def __repr__(self) -> str:
        return repr(self.func)


functions: list[Frameless] = []  # all of them
standing_in: list[Callable[[Frameless], None]] = []  # who has machine code called in the place of one; one, or none


def frameless(own: Callable[..., Any], machine: str, subject: object) -> Frameless:
    """A function of Python's, in whose place such machine code may be called. It has its name, signature, annotations and so on."""
    made = Frameless(own)
    made.machine, made.subject = machine, subject
    its = made.__dict__
    its.update(own.__dict__)
    its["__module__"], its["__doc__"], its["__annotations__"] = own.__module__, own.__doc__, own.__annotations__  # which the class has, too
    its["__wrapped__"] = own
    functions.append(made)
    for stand_in in standing_in:
        stand_in(made)
    return made
