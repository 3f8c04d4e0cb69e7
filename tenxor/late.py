"""Modules that are loaded when something of theirs is first used: most programs never use any, or not before the first result. And
what is done when another library's is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


class LateModule:
    """Stands for a module, by its full name, which is loaded when something of it is asked for. That is given as it is: who calls a
    function of it has no frame between, which would hold what it is given.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
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
