"""Public functions that machine code of the fast path can replace in place: code that holds a function object keeps the same object.

A call of a Python function makes a frame, even if the function only calls machine code. A `PatchableFunction` calls a Python function,
like a `functools.partial`, and has a vectorcall entry per object: the fast path sets the entry, and the interpreter then makes no
frame. (Python functions have an entry, too, but before CPython 3.12 the interpreter ignores it.) Otherwise the object looks like the
function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from ..errors import UnknownAttribute
from . import upcalls

_ELEMENTWISE = ("unary", "binary", "ternary")  # fast-path routines for functions of the op table
_UFUNC_METHODS = ("accumulate", "at", "outer", "reduce", "reduceat")  # methods of NumPy's ufuncs, looked for by mistake


class PatchableFunction(partial[Any]):
    """A Python function, `func`, that a fast-path routine may replace.

    `routine_name` names the routine, and `routine_argument` is passed to the routine.
    """

    __slots__ = ("routine_name", "routine_argument")
    routine_name: str
    routine_argument: object

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
            if not (self.routine_name in _ELEMENTWISE and name in _UFUNC_METHODS):
                raise

        def make_message() -> str:
            from .foreign_names import advise_on_ufunc_method

            return f"tx.{self.__name__} has no attribute {name!r}; {advise_on_ufunc_method(self.__name__, name)}"

        raise UnknownAttribute(make_message)

    def __reduce__(self) -> Any:
        return str(self.func.__qualname__)  # pickled by name, like functions

    def __repr__(self) -> str:
        return repr(self.func)


patchable_functions: list[PatchableFunction] = []  # every instance


def make_patchable(function: Callable[..., Any], routine_name: str, routine_argument: object) -> PatchableFunction:
    """Return a `PatchableFunction` for `function`, with its name, signature, docstring and annotations.

    `routine_name` names the routine of the fast path that may be called instead, one of `fastpath/vectorcall_switch.py: ENTRY_KINDS`.
    `routine_argument` is passed to this routine: the `Op` for "unary", "binary" and "ternary"; a name for "replay" and "convert". The
    function is added to `patchable_functions`: the fast path redirects it when it is installed, or now if it is installed already.
    """
    wrapper = PatchableFunction(function)
    wrapper.routine_name, wrapper.routine_argument = routine_name, routine_argument
    attributes = wrapper.__dict__
    attributes.update(function.__dict__)
    attributes["__module__"], attributes["__doc__"], attributes["__annotations__"] = (
        function.__module__,
        function.__doc__,
        function.__annotations__,  # the class has all three, too
    )
    attributes["__wrapped__"] = function
    patchable_functions.append(wrapper)
    fast_path = upcalls.installed
    if fast_path is not None:
        fast_path.set_vectorcall_entry(wrapper)
    return wrapper


def forget_patchable(function: PatchableFunction) -> None:
    """Take `function` off the list of functions that the fast path redirects when it is installed.

    If `function` is redirected now, the redirection lasts until the fast path is removed. Raise ValueError for a function not on the list.
    """
    patchable_functions.remove(function)
