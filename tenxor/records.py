"""Named tuples, made in a quarter of the time that `typing` takes: that looks at each annotation, which is text here, as at a type, and
has Python compile a function for each class.

There are some dozens of them on the way to a first result, and each would take a tenth of a millisecond.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import _tuplegetter  # which gives a field as fast as a slot

    def _new(cls, /, *values: Any, **named: Any) -> Any:
        if named or len(values) != len(cls._fields):
            values = _completed(cls, values, named)
        return tuple.__new__(cls, values)

    def _completed(cls: Any, values: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """All values of a record, of which the first are given in turn, others by name; TypeError if these are not its fields."""
        fields, defaults = cls._fields, cls._field_defaults
        missing, rest = [], [*values]
        for field in fields[len(values) :]:
            if field in named:
                rest.append(named.pop(field))
            elif field in defaults:
                rest.append(defaults[field])
            else:
                missing.append(field)
        if missing or named or len(rest) > len(fields):
            what = f"nothing for {missing}" if missing else f"{[*named]} as well" if named else f"{len(rest)} values"
            raise TypeError(f"{cls.__name__}({', '.join(fields)}): it was given {what}")
        return rest

    def _make(cls, values: Iterable[Any]) -> Any:
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, {len(made)} values were given")
        return made

    def _replace(self, /, **named: Any) -> Any:
        made = tuple.__new__(type(self), map(named.pop, self._fields, self))
        if named:
            raise ValueError(f"{type(self).__name__} has no fields {[*named]}")
        return made

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def _getnewargs(self) -> tuple[Any, ...]:
        return tuple(self)

    def _repr(self) -> str:
        return f"{type(self).__name__}({', '.join([f'{field}={value!r}' for field, value in zip(self._fields, self, strict=True)])})"

    _COMMON = {
        **{"__slots__": (), "__new__": _new, "__repr__": _repr, "__getnewargs__": _getnewargs, "__replace__": _replace},
        **{"_make": classmethod(_make), "_replace": _replace, "_asdict": _asdict},
    }

    class _Meta(type):
        """Makes the class that `typing.NamedTuple` would make."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            types = namespace.get("__annotations__")
            if types is None or bases not in ((_Plain,), (_Plain, typing.Generic)):  # a later Python, or more than fields: for `typing`
                return typing.NamedTupleMeta(name, (typing._NamedTuple, *bases[1:]), namespace)
            fields = tuple(types)
            defaults = {field: namespace[field] for field in fields if field in namespace}
            getters = {field: _tuplegetter(k, f"Alias for field number {k}") for k, field in enumerate(fields)}
            known = {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields, "__doc__": f"{name}({', '.join(fields)})"}
            return type(name, (tuple, *bases[1:]), {**_COMMON, **known, **namespace, **getters})

    _Plain = type.__new__(_Meta, "NamedTuple", (), {})

    class NamedTuple:
        """The base of named tuples, which none of them has."""

        def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
            return (_Plain,)

    NamedTuple = NamedTuple()
