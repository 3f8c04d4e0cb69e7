"""How an index becomes a cell: offset and strides, tables of gathered axes, or a chain of views."""

from __future__ import annotations

from ..layout import Layout

#: What an axis adds to the sum that an index makes: a stride for each step, or one number per position.
Term = int | list[int]


def terms_of(layout: Layout) -> list[Term]:
    """Return what each axis adds to the layout's own sum: the cell, or for a chain a number in its base."""
    tables = layout.tables or (None,) * len(layout.shape)
    return [
        stride if table is None else table.offsets.tolist()
        for stride, table in zip(layout.strides, tables, strict=True)
    ]


def describe_place(layout: Layout) -> str:
    """Say where the elements of a view live.

    >>> describe_place(Layout.contiguous((2, 3)))
    'strides (3, 1) · offset 0'
    """
    if layout.base is not None:
        return f"a chain of {layout.depth} views"
    steps = ["table" if isinstance(term, list) else str(term) for term in terms_of(layout)]
    written = f"({steps[0]},)" if len(steps) == 1 else f"({', '.join(steps)})"
    return f"strides {written} · offset {layout.offset}"
