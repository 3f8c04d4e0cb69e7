"""Modules that are loaded when one of their functions is first called: most programs never call any."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


class Late:
    """Stands for a module of functions, by its full name."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args: getattr(import_module(self._module), name)(*args)
