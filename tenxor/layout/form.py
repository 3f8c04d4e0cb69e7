"""Forms: layouts without their offset, interned.

All rows of a matrix have one form. Forms are compared by identity, so caches keyed by forms are fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..remembered import LARGEST, Remembered

MAX_FORMS = 1 << 14
MAX_BYTES = 1 << 25  # total bytes of the tables


class Form:
    """The common part of all layouts that differ only in their offset. A view chain has a form of its own.

    `layout` is the layout with offset 0, or the chain itself. A form with large tables is `passing`: it is not interned, and must not be a
    key of long-lived caches. `specs` maps dtypes to the interned specs of this form (`spec.py`). `is_single` tells that every position
    reads the same element.
    """

    __slots__ = ("is_single", "layout", "passing", "specs")

    def __init__(self, layout: Any, passing: bool) -> None:
        self.layout, self.passing = layout, passing  # `Layout` is defined on top of this class
        self.is_single = layout.tables is None and layout.base is None and not any(layout.strides)
        self.specs: dict[object, Any] = {}

    def break_cycles(self) -> None:
        """Break the reference cycles through this form: they pass specs of the fast path, which the garbage collector does not track."""
        self.specs.clear()
        self.layout._form = None

    def __repr__(self) -> str:
        return f"Form({self.layout})"


forgotten: list[Callable[[], None]] = []  # called when the cache of forms is cleared, to clear other caches of forms


_POINT = ((), (), None)


class _Forms(Remembered[Form]):
    """The cache of interned forms, keyed by shape, strides and tables, or by the layout for a chain."""

    __slots__ = ()

    def clear(self) -> None:
        """Forget all forms except the form of 0-d layouts, kept by other modules.

        Forms in use stay valid, but an equal layout then gets another object.
        """
        point, dropped = self.pop(_POINT, None), list(self.values())
        super().clear()
        if point is not None:
            self[_POINT] = point
        for form in dropped:
            form.break_cycles()
        for forget in forgotten:
            forget()


_forms = _Forms(MAX_FORMS, MAX_BYTES)
known_form = _forms.get


def form_of(layout: Any) -> Form:
    """Return the interned form of a layout."""
    tables, base = layout.tables, layout.base
    key: object = (layout.shape, layout.strides, tables) if base is None else layout
    form = known_form(key)
    if form is None:
        nbytes = 0 if tables is None and base is None else _table_bytes_of(layout)
        form = Form(layout if base is not None else layout.at(0), nbytes > LARGEST)
        _forms.keep(key, form, nbytes)
    return form


def _table_bytes_of(layout: Any) -> int:
    count = 0
    while layout is not None:
        count += sum(t.offsets.nbytes for t in layout.tables or () if t is not None)
        layout = layout.base
    return count
