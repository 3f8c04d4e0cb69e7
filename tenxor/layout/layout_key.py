"""Layout keys: layouts without their offset, interned. To intern is to keep one object for equal values.

All rows of a matrix have one layout key. Layout keys are compared by identity, so caches look them up fast.
"""

from __future__ import annotations

from typing import Any

from .._utils.bounded_cache import MAX_ENTRY_BYTES, BoundedCache
from .._utils.cache_registry import register

MAX_LAYOUT_KEYS = 1 << 14
MAX_TABLE_BYTES = 1 << 25  # total bytes of the tables


class LayoutKey:
    """The common part of all layouts that differ only in their offset. A view chain has a layout key of its own.

    `layout` is the layout with offset 0, or the chain itself. A key with large tables is uncacheable: it is not interned, and
    must not be a key of long-lived caches. `specs` maps dtypes to the interned specs of this layout (`graph/spec.py`).
    `is_broadcast_scalar` tells that every position reads the same element.
    """

    __slots__ = ("is_broadcast_scalar", "layout", "is_uncacheable", "specs")

    def __init__(self, layout: Any, is_uncacheable: bool) -> None:
        self.layout, self.is_uncacheable = layout, is_uncacheable  # `Layout` is defined on top of this class
        self.is_broadcast_scalar = layout.tables is None and layout.base is None and not any(layout.strides)
        self.specs: dict[object, Any] = {}

    def break_cycles(self) -> None:
        """Break the reference cycles through this key, which pass specs of the fast path, objects that the garbage collector does not
        track.

        `specs` is emptied, and `layout` forgets this key. A layout that refers to this key still works.
        """
        self.specs.clear()
        self.layout._layout_key = None

    def __repr__(self) -> str:
        return f"LayoutKey({self.layout})"


_POINT_KEY = ((), (), None)


class _LayoutKeyCache(BoundedCache[LayoutKey]):
    """The cache of interned layout keys. A key of the cache is the triple of shape, strides and tables, or for a view chain the layout
    itself.
    """

    __slots__ = ()

    def remove_entries(self) -> None:
        """Forget all layout keys except that of 0-d layouts, which other modules refer to.

        Layout keys in use stay valid, but lose their specs, and an equal layout then gets another object.
        """
        point, dropped = self.pop(_POINT_KEY, None), list(self.values())
        super().remove_entries()
        if point is not None:
            self[_POINT_KEY] = point
        for layout_key in dropped:
            layout_key.break_cycles()


_layout_keys = register("layout keys", "a layout key with its specs, by shape, strides and tables")(
    _LayoutKeyCache(MAX_LAYOUT_KEYS, MAX_TABLE_BYTES)
)
layout_keys = _layout_keys.record
find_layout_key = _layout_keys.get


def get_layout_key(layout: Any) -> LayoutKey:
    """Return the interned key of the `Layout` `layout`, one object for equal layouts of any offset; for large tables, a new key at each
    call.

    A view chain is interned with its offset. Large tables are those of more than `MAX_ENTRY_BYTES` bytes, along the whole chain.
    """
    tables, base = layout.tables, layout.base
    key: object = (layout.shape, layout.strides, tables) if base is None else layout
    layout_key = find_layout_key(key)
    if layout_key is None:
        nbytes = 0 if tables is None and base is None else _count_table_bytes(layout)
        layout_key = LayoutKey(layout if base is not None else layout.at(0), nbytes > MAX_ENTRY_BYTES)
        _layout_keys.put(key, layout_key, nbytes)
    return layout_key


def _count_table_bytes(layout: Any) -> int:
    """Return the bytes of all tables of a layout, along its whole view chain."""
    count = 0
    while layout is not None:
        count += sum(t.offsets.nbytes for t in layout.tables or () if t is not None)
        layout = layout.base
    return count
