"""A layout in words: formulas, view chain, tables, and whether it may be written. A layout maps positions to storage offsets; in a view
chain, to row-major numbers in the next view.
"""

from __future__ import annotations

from .axes import Table, abbreviate
from .queries import has_row_major_strides, is_injective
from .view import View

_NAMES = "ijklmnpqrstuvw"
_DIGITS = "abcdefgh"


def explain(layout: View) -> str:
    """Return `layout` as several lines of text: shape, formula of each view of the chain, tables, contiguity, and whether the view may be
    written.
    """
    lines = [f"shape {layout.shape}, {layout.size} element{'' if layout.size == 1 else 's'}"]
    level: View | None = layout
    names = [_name(axis) for axis in range(layout.ndim)]
    depth = 0
    while level is not None:
        lines.append(f"{'offset' if level.base is None else 'number'} = {_formula(level, names)}")
        lines += [
            f"  table[{name}]: {abbreviate(table.offsets)}"
            for name, table in zip(names, level.tables or (), strict=False)
            if table is not None
        ]
        level = level.base
        if level is not None:
            depth += 1
            names = [f"{_DIGITS[(depth - 1) % len(_DIGITS)]}{axis}" for axis in range(level.ndim)]
            lines.append(f"({', '.join(names)}) is where that number is, in row-major order, in shape {level.shape}")
    lines.append(_verdict(layout))
    return "\n".join(lines)


def _name(axis: int) -> str:
    """Return the name of the index along `axis`: a letter, or `i14`, `i15`, … for later axes."""
    return _NAMES[axis] if axis < len(_NAMES) else f"i{axis}"


def _formula(level: View, coords: list[str]) -> str:
    """Return the offset that `level`, one view of a chain, gives for the indices `coords`, as the text of a sum. `coords` are names."""
    terms = [str(level.offset)]
    tables: tuple[Table | None, ...] = level.tables or (None,) * level.ndim
    for name, stride, table in zip(coords, level.strides, tables, strict=True):
        terms.append(f"{stride}*{name}" if table is None else f"table[{name}]")
    return " + ".join(terms).replace("+ -", "- ")


def _verdict(layout: View) -> str:
    """Return the last line of the explanation: whether `layout` is contiguous, and whether every position has an element of its own, so
    that tensors may be written.
    """
    contiguous = "contiguous" if layout.base is None and has_row_major_strides(layout) else "not contiguous"
    if is_injective(layout):
        return f"{contiguous}; writable: every position has an element of its own"
    return f"{contiguous}; several positions share an element: a write takes one number, or accumulates by name, as index_add_ does"
