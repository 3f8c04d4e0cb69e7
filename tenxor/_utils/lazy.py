"""Lazy imports: modules imported at the first use, as most programs never use them or not before the first result. Also hooks to run when a
module of another library is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any, Generic, Self, TypeVar, overload

from .exclude_user_code import PACKAGE_PREFIX, enter_section, exclude_user_code, leave_section

T = TypeVar("T")


_ModuleSpec: Any = type(__spec__)


class _UndisturbedSpec(_ModuleSpec):  # type: ignore[misc]
    """The import spec of a module of ours, which is imported without user code in between (`exclude_user_code.py`).

    The import system sets `_initializing` just before putting a module into `sys.modules`, and resets it when the module is complete. In
    between, other threads that import the module wait; but user code on the same thread would get the module half initialized.
    """

    _has_begun = False  # also for a loader called without the import system, which sets nothing

    def _begin_or_end(self, begins: bool) -> None:
        """Begin a section at the start of an import (`begins`), or end the section at the end of the import."""
        if begins:
            enter_section()
            self._has_begun = True
        else:
            self.__dict__.pop("_has_begun", None)
            self.__dict__["_initializing"] = False
            self.__class__ = _ModuleSpec
            leave_section()

    # The interpreter reads this attribute, and clears errors. So a C function gets the value: in Python code a signal handler could raise.
    _initializing = property(attrgetter("_has_begun"), _begin_or_end)


class _Finder:
    """A finder that asks the remaining finders for modules of this package, and has them imported without user code in between."""

    @classmethod
    def find_spec(cls, name: str, path: Any, target: Any = None) -> Any:
        """Return the spec of the module `name` of this package; None for another module, and if no finder finds it.

        The import system calls this method. `path` and `target` are passed on to the remaining finders.
        """
        if not name.startswith(PACKAGE_PREFIX):
            return None
        for finder in sys.meta_path[sys.meta_path.index(cls) + 1 :]:  # the earlier finders have been asked, or are asking
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if type(spec) is _ModuleSpec:
                    spec.__class__ = _UndisturbedSpec
                return spec
        return None


sys.meta_path.insert(0, _Finder)


class LazyModule:
    """A proxy for `module`, the full name of a module, which is imported at the first access to an attribute.

    The proxy returns the attributes themselves. So a call of a function has no additional frame, which would hold references to the
    arguments.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        with exclude_user_code():  # also for modules of other libraries
            value = getattr(import_module(self._module), name)
        setattr(self, name, value)  # later accesses bypass this method
        return value


class LazyFunctions:
    """A proxy for `module`, the full name of a module of functions, which is imported at the first call of a function."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def import_and_call(*args: Any, **kwargs: Any) -> Any:
            function = getattr(import_module(self._module), name)
            setattr(self, name, function)  # later accesses bypass this method
            return function(*args, **kwargs)

        return import_and_call


def find_loaded_module(module: str) -> ModuleType | None:
    """Return the module with the full name `module` if the module was imported and is complete, and None otherwise.

    For example, a cache or a pool of threads is empty until the module is loaded.
    """
    loaded = sys.modules.get(module)
    return None if loaded is None or getattr(loaded.__spec__, "_initializing", False) else loaded


def make_public_dir(module: dict[str, Any]) -> Callable[[], list[str]]:
    """Return a `__dir__` for a module with the namespace `module`: the sorted names in `__all__`, and Python's own, such as `__doc__`."""
    return lambda: sorted({*module["__all__"], *[name for name in module if name.startswith("__") and name.endswith("__")]})


def make_public_getattr(module: dict[str, Any]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module with the namespace `module`: a function that raises an error for each missing name.

    The error gives a replacement, except for names that begin with an underscore.
    """

    def missing(name: str) -> Any:
        if name.startswith("_"):  # Python and other libraries probe modules for private names
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        raise sys.modules["tenxor"]._unknown(module["__name__"], name, module["__all__"])

    return missing


class lazy_attribute(Generic[T]):
    """An attribute computed by `function(instance)` at the first access: `functools.cached_property` without the lock.

    Until CPython 3.11, instances share this lock, and hold it while the function runs, in which user code may wait for another lock. Two
    threads may both compute the attribute if they access it at the same time.
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


def make_lazy_getattr(package: dict[str, Any], names: Mapping[str, str]) -> tuple[Callable[[str], Any], dict[str, str]]:
    """Return a module-level `__getattr__` for a package with the namespace `package`, and the home module of each public name.

    `names` maps modules of Tenxor, such as "linalg", to their names, separated by spaces. A module is imported at the first access to one
    of its names.
    """
    homes = {name: home for home, joined_names in names.items() for name in joined_names.split()}
    missing = make_public_getattr(package)

    def attribute(name: str) -> Any:
        if name not in homes:
            missing(name)
        value = package[name] = getattr(import_module(f"tenxor.{homes[name]}"), name)  # later accesses bypass this function
        return value

    return attribute, homes


class _ImportNotifier:
    """A finder for `module`, the name of a module of another library. It calls `callback()` after the import of the module."""

    def __init__(self, module: str, callback: Callable[[], Any]) -> None:
        self._module, self._callback = module, callback

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Return the spec of the awaited module, with a loader that calls the callback after the import; None for another module `name`.

        The import system calls this method. The finder first removes itself, as one call is enough. `path` and `target` are not read.
        """
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        loader: Any = getattr(spec, "loader", None)
        execute = getattr(loader, "exec_module", None)
        if execute is not None:

            def execute_and_notify(module: Any) -> None:
                execute(module)
                self._callback()

            loader.exec_module = execute_and_notify
        return spec


def call_when_imported(module: str, callback: Callable[[], Any]) -> None:
    """Call `callback()` once `module`, the name of a module of another library, is imported.

    If the module is imported already, call `callback()` now.
    """
    if module in sys.modules:
        callback()
    else:
        sys.meta_path.insert(0, _ImportNotifier(module, callback))
