"""The vectors for the columns of a panel in a contraction: as many as a tile is wide, or fewer for the last columns.

A panel is as many columns of the right side as a register tile is wide. The functions run while a kernel is compiled, but the number of
columns is a value at run time. So they return several ways to cover the columns, each with a condition.

Where masked stores cost nothing, the last vector has a mask. Elsewhere a masked store takes a dozen cycles, as long as a row of a small
contraction. So vectors without masks cover any number of columns: the last vector begins early enough to end with the last column. It
repeats some of the work of the vector before, with the same results.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..._utils.records import NamedTuple
from .builder import Value, select_smaller
from .emitter import Emitter
from .panel_packing import ColumnVectors, Panels
from .types import I1

ColumnCover = tuple[Value, ColumnVectors]  # a condition at run time, and the vectors to use if it holds


class ColumnLimits(NamedTuple):
    """The limits for the vectors that cover a panel's columns, known when the kernel is compiled.

    At most `max_vectors` vectors of `width` lanes are used at once. A single vector of `remainder_width` lanes may cover a small remainder.
    With `stays_in_panel`, no vector may begin before its panel does.
    """

    max_vectors: int
    width: int
    remainder_width: int
    stays_in_panel: bool

    def vector_offsets(self, count: int) -> tuple[Value | int, ...]:
        """Return where `count` vectors side by side begin: 0, `width`, 2 * `width`, ..., in columns from the begin of the panel."""
        return tuple([u * self.width for u in range(count)])


def cover_columns(em: Emitter, side: Panels, limits: ColumnLimits, panel: tuple[Value, Value], block_begin: Value) -> Iterator[ColumnCover]:
    """Yield the ways to cover the columns of `panel` (the first column, and the column behind the last) by vectors.

    A way is a condition at run time, a scalar bool, and the vectors to use if it holds. The caller emits code for each way. The vectors of
    the ways whose condition holds cover each column of the panel. `side` is the right side of the contraction. The block of columns that
    the panel belongs to begins at column `block_begin`.
    """
    em.continue_innermost()
    left, right = panel
    count, is_uncovered = right - left, em.builder.constant(I1, 1)
    if side.side.is_read_in_runs:
        is_contiguous = side.are_contiguous(left, right, limits.max_vectors)
        yield is_contiguous, ColumnVectors(limits.width, limits.vector_offsets(limits.max_vectors), has_all_lanes=True, is_contiguous=True)
        is_uncovered = ~is_contiguous
    if em.target.has_cheap_masked_store:
        for fits, columns in _cover_with_mask(limits, count):
            yield is_uncovered & fits, columns
    else:
        for fits, columns in _cover_without_masks(limits, count, right - block_begin):
            yield is_uncovered & fits, columns
            is_uncovered &= ~fits


def _cover_with_mask(limits: ColumnLimits, count: Value) -> Iterator[ColumnCover]:
    """Yield the ways to cover `count` columns of a panel by vectors, the last of which has a mask.

    A way is a condition at run time, and the vectors. At most one way with vectors of full width applies. If `limits.remainder_width` is
    less than the full width, a last way may apply as well. It covers a small remainder by one vector of `remainder_width` lanes.
    """
    max_vectors, width, half = limits.max_vectors, limits.width, limits.remainder_width
    for nr in range(max_vectors, 0, -1):
        fits = count > nr * width - half
        if nr < max_vectors:
            fits &= count <= (nr + 1) * width - half
        yield fits, ColumnVectors(width, limits.vector_offsets(nr))
    if half < width:
        covered = (count + (half - 1)) & -width
        yield covered < count, ColumnVectors(half, (covered,))


def _cover_without_masks(limits: ColumnLimits, count: Value, block_columns: Value) -> list[ColumnCover]:
    """Return the ways to cover `count` columns of a panel without masks, by vectors within `limits`.

    A way is a condition at run time and vectors; the emitted code must use the first way whose condition holds. Instead of a mask, the last
    vector begins earlier and overlaps the vector before it. A single vector may begin before the panel if the block has enough columns.
    `block_columns` is the number of columns from the begin of the block to the end of the panel. Otherwise, fewer columns than a vector's
    lanes are covered by two vectors of half the width, or of a quarter, and so on.
    """
    width, max_vectors, choices = limits.width, limits.max_vectors, list[ColumnCover]()
    for nr in range(max_vectors, 0, -1):
        full_count, offsets = nr * width, limits.vector_offsets(nr)
        if nr > 1:
            fits, offsets = count > full_count - width, (*offsets[:-1], select_smaller(count - width, full_count - width))
        elif limits.stays_in_panel:
            fits = count.equals(width)
        else:
            fits, offsets = block_columns >= width, (count - width,)
        choices.append((fits, ColumnVectors(width, offsets, has_all_lanes=True)))
    half = width // 2
    if half > 1:  # exactly half a vector, as for coordinates: two vectors would compute everything twice
        choices.append((count.equals(half), ColumnVectors(half, (0,), has_all_lanes=True)))
    while width > 1:
        width //= 2
        choices.append((count >= width, ColumnVectors(width, (0, count - width) if width > 1 else (0,), has_all_lanes=True)))
    return choices
