"""Attributes that tensors do not have, and how access to them is reported while the fast path is on.

`Tensor.__getattr__` serves lazily computed attributes, and raises the errors for foreign names, with advice what to write instead. But a
class with a `__getattr__` is slow for every attribute: the interpreter then creates a bound method for each call, and does not specialise
the access to slots. The fast path computes lazy attributes by itself. So while the fast path is installed, `__getattr__` is deleted from
`Tensor`, and descriptors raise the errors for foreign names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..tensor import Tensor, elsewhere, no_attribute
from ..tensor.core import Elsewhere

_OWN = vars(Tensor)["__getattr__"]


class Instead:
    """A descriptor for a foreign name: access on a tensor raises an error with advice what to write instead."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, x: object, owner: type) -> Any:
        if x is None:  # access on the class, as by tools that list attributes
            return self
        raise no_attribute(self.name)

    def __repr__(self) -> str:
        return f"<use {elsewhere()[self.name]}>"


def tell() -> None:
    """Add an `Instead` descriptor to `Elsewhere`, a base class of `Tensor`, for each foreign name with advice.

    A foreign name is an attribute that another library's arrays have and tensors lack. The descriptors are never removed.
    """
    for name in elsewhere():
        setattr(Elsewhere, name, Instead(name))


def going() -> list[Callable[[], object]]:
    """Return a list of one C function without arguments that deletes `Tensor.__getattr__`; an empty list if the class has none."""
    return [partial(delattr, Tensor, "__getattr__")] if "__getattr__" in vars(Tensor) else []


def coming_back() -> list[Callable[[], object]]:
    """Return a list of one C function without arguments that sets `Tensor.__getattr__` to the original function."""
    return [partial(setattr, Tensor, "__getattr__", _OWN)]
