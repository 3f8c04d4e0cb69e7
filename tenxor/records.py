"""Named tuples, made in a fifth of the time that `typing` takes: it looks at each annotation, which is text here, as at a type, and has
some functions made for each class.

There are some dozens of them on the way to a first result, and each would take a tenth of a millisecond.
"""

from __future__ import annotations

import typing
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import _tuplegetter, namedtuple

    _MADE = ("__annotations__", "__module__", "__qualname__", "__classcell__")  # what is no attribute of the class

    @cache
    def _new(count: int) -> FunctionType:
        """What makes a named tuple of so many fields. What these are called is all that differs from class to class."""
        return namedtuple("Any", [f"n{k}" for k in range(count)]).__new__

    def _named(fields: tuple[str, ...], defaults: tuple[Any, ...]) -> FunctionType:
        """The same for fields of these names."""
        like = _new(len(fields))
        code = like.__code__.replace(co_varnames=("_cls", *fields))
        return FunctionType(code, like.__globals__, "__new__", defaults)

    def _make(cls, iterable):
        """Make a new one from a sequence or iterable."""
        found = tuple.__new__(cls, iterable)
        if len(found) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(found)}")
        return found

    def _replace(self, /, **kwds):
        """Return a new one with other values for some fields."""
        found = self._make(map(kwds.pop, self._fields, self))
        if kwds:
            raise _UNEXPECTED(f"Got unexpected field names: {list(kwds)!r}")
        return found

    def _shown(self):
        """Its name, and each field with its value."""
        parts = [f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)]
        return f"{self.__class__.__name__}({', '.join(parts)})"

    _LIKE = namedtuple("Like", ())
    _UNEXPECTED = TypeError if hasattr(_LIKE, "__replace__") else ValueError  # as of 3.13
    _SHARED = {"_make": classmethod(_make), "_replace": _replace, "__repr__": _shown, "__slots__": ()}
    _SHARED |= {name: getattr(_LIKE, name) for name in ("_asdict", "__getnewargs__")}
    _SHARED |= {"__replace__": _replace} if hasattr(_LIKE, "__replace__") else {}

    class _Meta(type):
        """Makes the class that `typing.NamedTuple` would make."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            types = namespace.get("__annotations__")
            if types is None or bases != (_Plain,):  # a later Python, or more than fields: that is for `typing`
                return typing.NamedTupleMeta(name, (typing._NamedTuple, *bases[1:]), namespace)
            fields = tuple(types)
            given = {field: namespace[field] for field in fields if field in namespace}
            if any(field.startswith("_") for field in fields) or tuple(given) != fields[len(fields) - len(given) :]:
                namedtuple(name, fields, defaults=given.values())  # whose error it is
                raise TypeError(f"{name}: fields without a default follow some that have one")
            made = {k: value for k, value in namespace.items() if k not in types and k not in _MADE}
            made = _SHARED | {"__doc__": f"{name}({', '.join(fields)})"} | made
            made |= {"_fields": fields, "_field_defaults": given, "__match_args__": fields, "__annotations__": types}
            made |= {"__module__": namespace["__module__"], "__qualname__": namespace["__qualname__"]}
            made |= {field: _tuplegetter(k, f"Alias for field number {k}") for k, field in enumerate(fields)}
            made["__new__"] = _named(fields, tuple(given.values()))
            return type(name, (tuple,), made)

    _Plain = type.__new__(_Meta, "NamedTuple", (), {})

    class NamedTuple:
        """The base of named tuples, which none of them has."""

        def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
            return (_Plain,)

    NamedTuple = NamedTuple()
