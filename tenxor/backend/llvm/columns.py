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
    """The limits for the vectors of a panel's columns: at most `most` vectors of `width` lanes at once, and `half` lanes for a remainder.

    With `alone`, no vector may begin before its panel does.
    """

    most: int
    width: int
    half: int
    alone: bool

    def vectors(self, count: int) -> tuple[Value | int, ...]:
        """Return the offsets of so many vectors, one behind the other."""
        return tuple([u * self.width for u in range(count)])


def ways(em: Emitter, side: Panels, taken: Taken, panel: tuple[Value, Value], first: Value) -> Iterator[Way]:
    """Yield the ways to cover the columns of a panel (begin and end), in a block of columns from `first` on.

    A way is a condition and vectors. The vectors of the ways with a true condition cover each column of the panel.
    """
    em.inmost()
    left, right = panel
    count, rest = right - left, em.b.constant(I1, 1)
    if side.side.in_runs:
        together = side.are_together(left, right, taken.most)
        yield together, Columns(taken.width, taken.vectors(taken.most), whole=True, together=True)
        rest = ~together
    if em.target.stores_under_masks:
        for fits, columns in _masked(taken, count):
            yield rest & fits, columns
    else:
        for fits, columns in _whole(taken, count, right - first):
            yield rest & fits, columns
            rest &= ~fits


def _masked(taken: Taken, count: Value) -> Iterator[Way]:
    """Yield the ways to cover `count` columns of a panel with a mask for the last vector.

    At most one way with full vectors applies. If `taken.half` is shorter than a vector, the last way covers a small remainder in `half`
    lanes.
    """
    most, width, half = taken.most, taken.width, taken.half
    for nr in range(most, 0, -1):
        fits = count > nr * width - half
        if nr < most:
            fits &= count <= (nr + 1) * width - half
        yield fits, Columns(width, taken.vectors(nr))
    if half < width:
        done = (count + (half - 1)) & -width
        yield done < count, Columns(half, (done,))


def _whole(taken: Taken, count: Value, before: Value) -> list[Way]:
    """Return the ways to cover `count` columns of a panel without masks; each applies where no earlier one does.

    `before` is the number of columns from the begin of the block to the end of the panel. Fewer columns than a vector's lanes are covered
    by two vectors of half the width, or of a quarter, and so on.
    """
    width, most, found = taken.width, taken.most, list[Way]()
    for nr in range(most, 0, -1):
        whole, offsets = nr * width, taken.vectors(nr)
        if nr > 1:
            fits, offsets = count > whole - width, (*offsets[:-1], smaller(count - width, whole - width))
        elif taken.alone:
            fits = count.equals(width)
        else:
            fits, offsets = before >= width, (count - width,)
        found.append((fits, Columns(width, offsets, whole=True)))
    half = width // 2
    if half > 1:  # exactly half a vector, as for coordinates: two vectors would compute everything twice
        found.append((count.equals(half), Columns(half, (0,), whole=True)))
    while width > 1:
        width //= 2
        found.append((count >= width, Columns(width, (0, count - width) if width > 1 else (0,), whole=True)))
    return found
