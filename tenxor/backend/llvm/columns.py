"""The vectors for the columns of a panel in a product: as many as a tile is wide, or fewer for the last columns.

Where masked stores cost nothing, the last vector has a mask. Elsewhere a masked store takes a dozen cycles, as long as a row of a small
product. So vectors without masks cover any number of columns: the last vector begins early enough to end with the last column. It repeats
some of the work of the vector before, with the same results.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...records import NamedTuple
from .builder import Value, smaller
from .emitter import Emitter
from .packing import Columns, Panels
from .types import I1

Way = tuple[Value, Columns]  # a condition at run time, and the vectors to use if it holds


class Taken(NamedTuple):
    """The limits for the vectors of a panel's columns.

    At most `max_vectors` vectors of `width` lanes are used at once, and `half` lanes for a remainder. With `stays_in_panel`, no vector may
    begin before its panel does.
    """

    max_vectors: int
    width: int
    half: int
    stays_in_panel: bool

    def vectors(self, count: int) -> tuple[Value | int, ...]:
        """Return the offsets of so many vectors, one behind the other."""
        return tuple([u * self.width for u in range(count)])


def ways(em: Emitter, side: Panels, limits: Taken, panel: tuple[Value, Value], block_begin: Value) -> Iterator[Way]:
    """Yield the ways to cover the columns of a panel (begin and end), in a block of columns from `block_begin` on.

    A way is a condition and vectors. The vectors of the ways with a true condition cover each column of the panel.
    """
    em.inmost()
    left, right = panel
    count, is_uncovered = right - left, em.b.constant(I1, 1)
    if side.side.in_runs:
        is_contiguous = side.are_together(left, right, limits.max_vectors)
        yield is_contiguous, Columns(limits.width, limits.vectors(limits.max_vectors), whole=True, together=True)
        is_uncovered = ~is_contiguous
    if em.target.stores_under_masks:
        for fits, columns in _masked_ways(limits, count):
            yield is_uncovered & fits, columns
    else:
        for fits, columns in _unmasked_ways(limits, count, right - block_begin):
            yield is_uncovered & fits, columns
            is_uncovered &= ~fits


def _masked_ways(limits: Taken, count: Value) -> Iterator[Way]:
    """Yield the ways to cover `count` columns of a panel with a mask for the last vector.

    At most one way with full vectors applies. If `limits.half` is shorter than a vector, the last way covers a small remainder in `half`
    lanes.
    """
    max_vectors, width, half = limits.max_vectors, limits.width, limits.half
    for nr in range(max_vectors, 0, -1):
        fits = count > nr * width - half
        if nr < max_vectors:
            fits &= count <= (nr + 1) * width - half
        yield fits, Columns(width, limits.vectors(nr))
    if half < width:
        covered = (count + (half - 1)) & -width
        yield covered < count, Columns(half, (covered,))


def _unmasked_ways(limits: Taken, count: Value, block_columns: Value) -> list[Way]:
    """Return the ways to cover `count` columns of a panel without masks; each applies where no earlier one does.

    `block_columns` is the number of columns from the begin of the block to the end of the panel. Fewer columns than a vector's lanes are
    covered by two vectors of half the width, or of a quarter, and so on.
    """
    width, max_vectors, choices = limits.width, limits.max_vectors, list[Way]()
    for nr in range(max_vectors, 0, -1):
        full_count, offsets = nr * width, limits.vectors(nr)
        if nr > 1:
            fits, offsets = count > full_count - width, (*offsets[:-1], smaller(count - width, full_count - width))
        elif limits.stays_in_panel:
            fits = count.equals(width)
        else:
            fits, offsets = block_columns >= width, (count - width,)
        choices.append((fits, Columns(width, offsets, whole=True)))
    half = width // 2
    if half > 1:  # exactly half a vector, as for coordinates: two vectors would compute everything twice
        choices.append((count.equals(half), Columns(half, (0,), whole=True)))
    while width > 1:
        width //= 2
        choices.append((count >= width, Columns(width, (0, count - width) if width > 1 else (0,), whole=True)))
    return choices
