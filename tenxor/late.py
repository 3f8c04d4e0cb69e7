"""Modules that are loaded when something of theirs is first used: most programs never use any, or not before the first result. And
what is done when another library's is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Generic, Self, TypeVar, overload

from .undisturbed import enter, leave, undisturbed

T = TypeVar("T")
PACKAGE = __name__.partition(".")[0] + "."


_ModuleSpec: Any = type(__spec__)


class _UndisturbedSpec(_ModuleSpec):  # type: ignore[misc]
    """The spec of a module of ours, which is imported undisturbed (`undisturbed.py`).

    The import system sets `_initializing` just before it puts a module into `sys.modules`, and resets it when the module is complete. In
    between, other threads that import the module wait; code that user code runs on the same thread would get it half initialized.
    """

    @property
    def _initializing(self) -> bool:
        return bool(self.__dict__.get("_initializing"))  # a loader that is called without the import system sets nothing

    @_initializing.setter
    def _initializing(self, begins: bool) -> None:
        if begins:
            enter()
            self.__dict__["_initializing"] = True
        else:
            self.__dict__["_initializing"] = False
            self.__class__ = _ModuleSpec
            leave()


class _Finder:
    """Finds the modules of this package as the other finders do, and gives them specs with which they are imported undisturbed."""

    @classmethod
    def find_spec(cls, name: str, path: Any, target: Any = None) -> Any:
        if not name.startswith(PACKAGE):
            return None
        for finder in sys.meta_path[sys.meta_path.index(cls) + 1 :]:  # those before have been asked, or ask
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if type(spec) is _ModuleSpec:
                    spec.__class__ = _UndisturbedSpec
                return spec
        return None


sys.meta_path.insert(0, _Finder)


class LateModule:
    """Stands for a module, by its full name, which is loaded when something of it is asked for. That is given as it is: who calls a
    function of it has no frame between, which would hold what it is given.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        with undisturbed():  # it may be another library's module
            found = getattr(import_module(self._module), name)
        setattr(self, name, found)  # whoever asks from now on has it at once
        return found


class Late:
    """Stands for a module of functions, by its full name, which is loaded when one of them is first called."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def first(*args: Any, **named: Any) -> Any:
            found = getattr(import_module(self._module), name)
            setattr(self, name, found)  # whoever asks from now on has it at once
            return found(*args, **named)

        return first


def public_dir(module: dict[str, Any]) -> Callable[[], list[str]]:
    """Return a `__dir__` for a module: the names in its `__all__`, and Python's own, such as `__doc__`."""
    return lambda: sorted({*module["__all__"], *[name for name in module if name.startswith("__") and name.endswith("__")]})


def public_getattr(module: dict[str, Any]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module: an error that says what to use instead of a name that the module does not have."""

    def missing(name: str) -> Any:
        if name.startswith("_"):  # Python and other libraries look for these on any module
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        raise sys.modules["tenxor"]._unknown(module["__name__"], name, module["__all__"])

    return missing


class late_attribute(Generic[T]):
    """An attribute that is computed when it is first asked for: `functools.cached_property` without its lock.

    Until CPython 3.11 that lock is one for all instances, and held while the function runs, in which user code may want another lock.
    Two threads that ask at the same time may both compute it.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> T | Self:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self._function(instance))  # type: ignore[no-any-return]


def by_homes(package: dict[str, Any], names: Mapping[str, str]) -> tuple[Callable[[str], Any], dict[str, str]]:
    """For a package's own names: what gives an attribute, and the home of each, by the names that are in each module of Tenxor. That is
    loaded when one of them is first asked for.
    """
    homes = {name: home for home, its in names.items() for name in its.split()}
    missing = public_getattr(package)

    def attribute(name: str) -> Any:
        if name not in homes:
            missing(name)
        found = package[name] = getattr(import_module(f"tenxor.{homes[name]}"), name)  # so that nobody asks again
        return found

    return attribute, homes


class _Awaited:
    """A finder of modules that finds but one, as all others would, and has something done when it has been loaded."""

    def __init__(self, module: str, then: Callable[[], Any]) -> None:
        self._module, self._then = module, then

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        loader: Any = getattr(spec, "loader", None)
        execute = getattr(loader, "exec_module", None)
        if execute is not None:

            def then(module: Any) -> None:
                execute(module)
                self._then()

            loader.exec_module = then
        return spec


def when_loaded(module: str, then: Callable[[], Any]) -> None:
    """Call `then()` once another library's module has been loaded: now, if it has, or never, if it never is."""
    if module in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Awaited(module, then))
