"""Attributes that tensors do not have, once there is machine code.

A class with a `__getattr__`, which says what is found out when it is first asked for, or is elsewhere, is a slow one, also for all that
is there: the interpreter calls no method of it without making an object of that first, and reads no slot by itself. So where machine code
finds out the ones, descriptors say of the others what to write instead, and `__getattr__` goes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..tensor import Tensor, elsewhere, no_attribute
from ..tensor.core import Elsewhere

_OWN = vars(Tensor)["__getattr__"]


class Instead:
    """An attribute that no tensor has."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, x: object, owner: type) -> Any:
        if x is None:  # whoever goes through all of a class meets it, as all descriptors
            return self
        raise no_attribute(self.name)

    def __repr__(self) -> str:
        return f"<use {elsewhere()[self.name]}>"


def tell() -> None:
    """Have descriptors say what to use instead, for good."""
    for name in elsewhere():
        setattr(Elsewhere, name, Instead(name))


def going() -> list[Callable[[], object]]:
    """Return the C function that takes `__getattr__` away, if it is there."""
    return [partial(delattr, Tensor, "__getattr__")] if "__getattr__" in vars(Tensor) else []


def coming_back() -> list[Callable[[], object]]:
    """Return the C function that puts it back."""
    return [partial(setattr, Tensor, "__getattr__", _OWN)]
