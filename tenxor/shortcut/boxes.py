"""Boxes of elements that are copied (`code/joining.py` has how): where they lie and where they go, in words."""

from __future__ import annotations

from collections.abc import Sequence

# Which of some pieces is read; where a box begins there, in bytes, and where it goes; three times how often, how far apart there and here;
# and the bytes of a row.
PIECE, FROM, TO, LOOPS, ROW, BOX = 0, 8, 16, 24, 96, 104


def box_of(
    shape: Sequence[int], read: Sequence[int], written: Sequence[int], item: int, piece: int = 0, start: int = 0, to: int = 0
) -> tuple[int, ...] | None:
    """The words of a box of elements of so many bytes, by strides, and where it starts, in elements; None if too many loops walk it."""
    loops = _merged([axis for axis in zip(shape, read, written, strict=True) if axis[0] != 1])
    row = loops.pop()[0] if loops and loops[-1][1:] == (1, 1) else 1
    if len(loops) > 3:
        return None
    loops = [(1, 0, 0)] * (3 - len(loops)) + loops
    numbers = [n if k == 0 else n * item for loop in loops for k, n in enumerate(loop)]
    return (piece, start * item, to * item, *numbers, row * item)


def _merged(axes: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Loops, each with how far apart neighbours are read and written, the outermost first: neighbours that are walked as one are one."""
    loops: list[tuple[int, int, int]] = []
    for size, read, written in axes:
        if loops and loops[-1][1:] == (size * read, size * written):
            size *= loops.pop()[0]
        loops.append((size, read, written))
    return loops
