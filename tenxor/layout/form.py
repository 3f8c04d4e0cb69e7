"""Forms: layouts without where they begin.

All rows of a matrix have one form. Forms are compared by identity, which is what makes it quick to find what was done
before with views like these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..remembered import LARGEST, Remembered

MAX_FORMS = 1 << 14
MAX_BYTES = 1 << 25  # of the tables in all of them together


class Form:
    """All layouts that differ only in their offset; a chain of views is a form of its own.

    `layout` is the one that begins at 0 (a chain as it is). What is `passing` is not remembered, so nothing that is kept for
    long should be known by it. `specs` has what tensors of this form are besides, by dtype (`spec.py`). All indices of what `is_single`
    are of one element.
    """

    __slots__ = ("is_single", "layout", "passing", "specs")

    def __init__(self, layout: Any, passing: bool) -> None:
        self.layout, self.passing = layout, passing  # of a class that is made with this one
        self.is_single = layout.tables is None and layout.base is None and not any(layout.strides)
        self.specs: dict[object, Any] = {}

    def part(self) -> None:
        """Forget what leads back to it. Machine code makes forms, and what is known by them, that Python's collector does not look at."""
        self.specs.clear()
        self.layout._form = None

    def __repr__(self) -> str:
        return f"Form({self.layout})"


forgotten: list[Callable[[], None]] = []  # what is called then, by those who keep forms by their numbers


_POINT = ((), (), None)


class _Forms(Remembered[Form]):
    """The forms that are known, by their numbers and tables."""

    __slots__ = ()

    def clear(self) -> None:
        """Forget all but that of a single element, which some keep. Whoever has another keeps it, and from then on it is another object
        than the one that is found for its numbers.
        """
        point, gone = self.pop(_POINT, None), list(self.values())
        super().clear()
        if point is not None:
            self[_POINT] = point
        for form in gone:
            form.part()
        for forget in forgotten:
            forget()


_forms = _Forms(MAX_FORMS, MAX_BYTES)
known_form = _forms.get


def form_of(layout: Any) -> Form:
    """The form of a layout."""
    tables, base = layout.tables, layout.base
    key: object = (layout.shape, layout.strides, tables) if base is None else layout
    found = known_form(key)
    if found is None:
        nbytes = 0 if tables is None and base is None else _table_bytes_of(layout)
        found = Form(layout if base is not None else layout.at(0), nbytes > LARGEST)
        _forms.keep(key, found, nbytes)
    return found


def _table_bytes_of(layout: Any) -> int:
    count = 0
    while layout is not None:
        count += sum(t.offsets.nbytes for t in layout.tables or () if t is not None)
        layout = layout.base
    return count
