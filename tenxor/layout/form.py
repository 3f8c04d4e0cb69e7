"""Forms: layouts without where they begin.

All rows of a matrix have one form. Forms are compared by identity, which is what makes it quick to find what was done
before with views like these.
"""

from __future__ import annotations

from typing import Any

MAX_FORMS = 1 << 14
MAX_TABLES = 1 << 18  # bytes of tables in one that is remembered; those of many indices are seldom met again
MAX_BYTES = 1 << 25  # and in all of them together


class Form:
    """All layouts that differ only in their offset; a chain of views is a form of its own.

    `layout` is the one that begins at 0 (a chain as it is). What is `passing` is not remembered, so nothing that is kept for
    long should be known by it.
    """

    __slots__ = ("layout", "passing")

    def __init__(self, layout: Any, passing: bool) -> None:
        self.layout, self.passing = layout, passing  # of a class that is made with this one

    def __repr__(self) -> str:
        return f"Form({self.layout})"


_forms: dict[object, Form] = {}
_table_bytes = 0


def form_of(layout: Any) -> Form:
    """The form of a layout."""
    global _table_bytes
    tables, base = layout.tables, layout.base
    key: object = (layout.shape, layout.strides, tables) if base is None else layout
    found = _forms.get(key)
    if found is None:
        nbytes = 0 if tables is None and base is None else _table_bytes_of(layout)
        found = Form(layout if base is not None else layout.at(0), nbytes > MAX_TABLES)
        if nbytes <= MAX_TABLES:
            if len(_forms) >= MAX_FORMS or _table_bytes + nbytes > MAX_BYTES:
                _forms.clear()
                _table_bytes = 0
            _forms[key] = found
            _table_bytes += nbytes
    return found


def _table_bytes_of(layout: Any) -> int:
    count = 0
    while layout is not None:
        count += sum(t.offsets.nbytes for t in layout.tables or () if t is not None)
        layout = layout.base
    return count
