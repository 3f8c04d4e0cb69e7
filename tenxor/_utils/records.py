"""Named tuples, created in an eighth of the time that `typing` takes. `typing` checks each annotation as a type, although annotations are
text here, and has Python compile a function for each class.

Some dozens of these classes are created before a first result, and each would take a tenth of a millisecond.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import _tuplegetter  # field access as fast as a slot

    _of = tuple.__new__
    # The `__new__` of records with 0, 1, 2, ... fields, compiled with this module. A class takes the code object for its number of fields,
    # with the arguments renamed.
    _NEW_TEMPLATES = (
        lambda _cls: _of(_cls, ()),
        lambda _cls, a: _of(_cls, (a,)),
        lambda _cls, a, b: _of(_cls, (a, b)),
        lambda _cls, a, b, c: _of(_cls, (a, b, c)),
        lambda _cls, a, b, c, d: _of(_cls, (a, b, c, d)),
        lambda _cls, a, b, c, d, e: _of(_cls, (a, b, c, d, e)),
        lambda _cls, a, b, c, d, e, f: _of(_cls, (a, b, c, d, e, f)),
        lambda _cls, a, b, c, d, e, f, g: _of(_cls, (a, b, c, d, e, f, g)),
        lambda _cls, a, b, c, d, e, f, g, h: _of(_cls, (a, b, c, d, e, f, g, h)),
        lambda _cls, a, b, c, d, e, f, g, h, i: _of(_cls, (a, b, c, d, e, f, g, h, i)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j: _of(_cls, (a, b, c, d, e, f, g, h, i, j)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k: _of(_cls, (a, b, c, d, e, f, g, h, i, j, k)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m: _of(_cls, (a, b, c, d, e, f, g, h, i, j, k, m)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n: _of(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o: _of(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p: _of(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q: _of(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r: _of(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r)),
    )

    def _create_new(name: str, fields: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., Any]:
        """Return the `__new__` of a record class called `name` with the given `fields`.

        `defaults` has the values of the last fields, in order.
        """
        if len(fields) >= len(_NEW_TEMPLATES):
            return _create_generic_new(name, fields, defaults)
        template = _NEW_TEMPLATES[len(fields)]
        code = template.__code__.replace(co_varnames=("_cls", *fields), co_name="__new__", co_qualname=f"{name}.__new__")
        return FunctionType(code, globals(), "__new__", tuple(defaults.values()))

    def _create_generic_new(name: str, fields: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., Any]:
        """Return a `__new__` for a record called `name` with more `fields` than the functions in `_NEW_TEMPLATES`.

        `defaults` has values of the last fields. Few classes have so many fields, and to compile a function for each would take longer than
        every call of a generic function.
        """

        def __new__(_cls: type, *values: Any, **kwargs: Any) -> Any:
            positional = dict(zip(fields, values, strict=False))
            value_of = defaults | positional | kwargs
            if (
                len(values) > len(fields)
                or len(value_of) > len(fields)
                or not positional.keys().isdisjoint(kwargs)
                or len(value_of) < len(fields)
            ):
                raise TypeError(f"{name}() takes {', '.join(fields)}; {len(values)} values and {[*kwargs]} were given")
            return _of(_cls, map(value_of.__getitem__, fields))

        return __new__

    class _Signature:
        """The signature of a record of many fields, computed at the first request, such as by `inspect`."""

        def __get__(self, record: object, cls: type) -> Any:
            from inspect import Parameter, Signature

            defaults = [(field, cls._field_defaults.get(field, Parameter.empty)) for field in cls._fields]
            return Signature([Parameter(field, Parameter.POSITIONAL_OR_KEYWORD, default=default) for field, default in defaults])

    def _make(cls, values: Iterable[Any]) -> Any:
        """Return a record of the class `cls` with the items of `values`, one for each field, as `_make` of `typing.NamedTuple` does.

        Raise TypeError for more or fewer values.
        """
        record = tuple.__new__(cls, values)
        if len(record) != len(cls._fields):
            raise TypeError(
                f"{cls.__name__} got {len(record)} values; it must get {len(cls._fields)}, one for each of {', '.join(cls._fields)}"
            )
        return record

    def _replace(self, /, **kwargs: Any) -> Any:
        """Return a copy of this record with the fields in `kwargs` replaced. Raise ValueError for the name of no field."""
        record = tuple.__new__(type(self), map(kwargs.pop, self._fields, self))
        if kwargs:
            raise ValueError(f"{type(self).__name__} has no fields {[*kwargs]}")
        return record

    def _asdict(self) -> dict[str, Any]:
        """Return a dict from the names of the fields to their values."""
        return dict(zip(self._fields, self, strict=True))

    def _getnewargs(self) -> tuple[Any, ...]:
        """Return the fields as a plain tuple: the arguments with which `copy` and `pickle` make the record anew."""
        return tuple(self)

    def _repr(self) -> str:
        return f"{type(self).__name__}({', '.join([f'{field}={value!r}' for field, value in zip(self._fields, self, strict=True)])})"

    _COMMON = {
        **{"__slots__": (), "__repr__": _repr, "__getnewargs__": _getnewargs, "__replace__": _replace},
        **{"_make": classmethod(_make), "_replace": _replace, "_asdict": _asdict},
    }

    class _Meta(type):
        """A metaclass for named tuples: it creates the same classes as `typing.NamedTuple`, in less time."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            types = namespace.get("__annotations__")
            if types is None or bases not in ((_Plain,), (_Plain, typing.Generic)):  # left to `typing`
                return typing.NamedTupleMeta(name, (typing._NamedTuple, *bases[1:]), namespace)
            fields = tuple(types)
            defaults = {field: namespace[field] for field in fields if field in namespace}
            if fields[len(fields) - len(defaults) :] != tuple(defaults):
                raise TypeError(f"{name}: fields with a default must be the last ones")
            getters = {field: _tuplegetter(k, f"Alias for field number {k}") for k, field in enumerate(fields)}
            attributes = {
                "_fields": fields,
                "_field_defaults": defaults,
                "__match_args__": fields,
                "__doc__": f"{name}({', '.join(fields)})",
            }
            attributes["__new__"] = _create_new(name, fields, defaults)
            if len(fields) >= len(_NEW_TEMPLATES):
                attributes["__signature__"] = _Signature()
            return type(name, (tuple, *bases[1:]), {**_COMMON, **attributes, **namespace, **getters})

    _Plain = type.__new__(_Meta, "NamedTuple", (), {})

    class NamedTuple:
        """The base to write in a class statement, as in `typing`.

        `_Plain` replaces the base there, and the finished class derives from `tuple` instead.
        """

        def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
            return (_Plain,)

    NamedTuple = NamedTuple()
