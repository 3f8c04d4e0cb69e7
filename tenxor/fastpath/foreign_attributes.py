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

from ..tensor import Tensor, migration_hints, missing_attribute_error
from ..tensor.core import MigrationHints

_ORIGINAL_GETATTR = vars(Tensor)["__getattr__"]


class ForeignAttribute:
    """A descriptor for the foreign name `name`: access on a tensor raises an error with advice what to write instead."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, x: object, owner: type) -> Any:
        if x is None:  # access on the class, by tools that list attributes
            return self
        raise missing_attribute_error(self.name)

    def __repr__(self) -> str:
        return f"<use {migration_hints()[self.name]}>"


def install_descriptors() -> None:
    """Add a `ForeignAttribute` descriptor to `MigrationHints`, a base class of `Tensor`, for each foreign name with advice.

    A foreign name is an attribute that another library's arrays have and tensors lack. The descriptors are never removed.
    """
    for name in migration_hints():
        setattr(MigrationHints, name, ForeignAttribute(name))


def get_removal_steps() -> list[Callable[[], object]]:
    """Return the steps that delete `Tensor.__getattr__`: a list of one C function without arguments, to be called by the installer; an
    empty list if the method is deleted already.
    """
    return [partial(delattr, Tensor, "__getattr__")] if "__getattr__" in vars(Tensor) else []


def get_restoration_steps() -> list[Callable[[], object]]:
    """Return the steps that restore the original `Tensor.__getattr__`: a list of one C function without arguments, to be called by the
    installer.
    """
    return [partial(setattr, Tensor, "__getattr__", _ORIGINAL_GETATTR)]
