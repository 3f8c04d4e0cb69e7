"""The formula from index to storage cell: offset and strides, offset tables of gathered axes, or a view chain."""

from __future__ import annotations

from ..layout import Layout

#: The term of an axis in the sum for an index: a stride, or a list with one offset per position.
Term = int | list[int]


def layout_terms(layout: Layout) -> list[Term]:
    """Return a term for each axis of `layout`: the stride, or the offset table as a list with an offset per position.

    The sum of the terms and the layout's offset is the storage cell of an index, or for a view chain the flat index into the base view.
    """
    tables = layout.tables or (None,) * len(layout.shape)
    return [stride if table is None else table.offsets.tolist() for stride, table in zip(layout.strides, tables, strict=True)]


def describe_layout(layout: Layout) -> str:
    """Describe how the elements of a view are stored: strides and offset, or the depth of a view chain.

    >>> describe_layout(Layout.contiguous((2, 3)))
    'strides (3, 1) · offset 0'
    """
    if layout.base is not None:
        return f"a chain of {layout.depth} views"
    terms = ["table" if isinstance(term, list) else str(term) for term in layout_terms(layout)]
    strides_text = f"({terms[0]},)" if len(terms) == 1 else f"({', '.join(terms)})"
    return f"strides {strides_text} · offset {layout.offset}"
