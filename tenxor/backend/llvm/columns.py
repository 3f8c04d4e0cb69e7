"""In which vectors the columns of a panel are taken: as many as a tile is wide, or fewer for the last ones.

Where masks cost nothing, the last vector has one. Elsewhere a store under a mask takes a dozen cycles, as long as a row of a small product
does. So there are vectors without masks for any number of columns: the last begins as early as it must, and does some of the work of the
one before again, which gives the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...records import NamedTuple
from .builder import Value, smaller
from .emitter import Emitter
from .packing import Columns, Panels
from .types import I1

Way = tuple[Value, Columns]  # when columns may be taken so


class Taken(NamedTuple):
    """How columns may be taken: in `most` vectors of some `width` at once, what is left over in one that has `half` of its lanes; and each
    panel `alone`, so that no vector begins before its panel does.
    """

    most: int
    width: int
    half: int
    alone: bool

    def vectors(self, count: int) -> tuple[Value | int, ...]:
        """Where so many vectors begin, one behind the other."""
        return tuple([u * self.width for u in range(count)])


def ways(em: Emitter, side: Panels, taken: Taken, panel: tuple[Value, Value], first: Value) -> Iterator[Way]:
    """The ways to take the columns of a panel, in a block that begins at `first`; of any one of them."""
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
    """The same with a mask for the last vector; no two of them serve."""
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
    """The same with all vectors whole, each where none before serves: for `count` columns, the last of so many `before` their end. What
    is less than a vector is done by two halves of it, or halves of these.
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
    if half > 1:  # as coordinates have, which two halves would compute twice
        found.append((count.equals(half), Columns(half, (0,), whole=True)))
    while width > 1:
        width //= 2
        found.append((count >= width, Columns(width, (0, count - width) if width > 1 else (0,), whole=True)))
    return found
