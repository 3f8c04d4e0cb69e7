"""Descriptors of strided copies: up to three nested loops over contiguous rows. `code/joining.py` emits the code that runs them."""

from __future__ import annotations

from collections.abc import Sequence

# Byte offsets into a descriptor: the index of the source tensor; the offset in bytes in the source, and in the destination; for each of
# three loops the iterations, the source stride and the destination stride; the bytes of a row; and the size of a descriptor.
PIECE, FROM, TO, LOOPS, ROW, BOX = 0, 8, 16, 24, 96, 104


def box_of(
    shape: Sequence[int], read: Sequence[int], written: Sequence[int], item: int, piece: int = 0, start: int = 0, to: int = 0
) -> tuple[int, ...] | None:
    """Return the descriptor of a strided copy, as the integers that `PIECE` to `ROW` index; None if the copy needs more than three loops.

    `shape` is the shape of the copy, and `item` the bytes of an element. `read` and `written` are the strides of the source and of the
    destination, and `start` and `to` the positions where the copy begins there, in elements. `piece` is the index of the source tensor.
    """
    loops = _merged([axis for axis in zip(shape, read, written, strict=True) if axis[0] != 1])
    row = loops.pop()[0] if loops and loops[-1][1:] == (1, 1) else 1
    if len(loops) > 3:
        return None
    loops = [(1, 0, 0)] * (3 - len(loops)) + loops
    numbers = [n if k == 0 else n * item for loop in loops for k, n in enumerate(loop)]
    return (piece, start * item, to * item, *numbers, row * item)


def _merged(axes: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Coalesce the axes of a copy, given as (size, source stride, destination stride), and return the loops in the same form.

    Axes and loops stand outermost first. Neighbouring axes become one loop if both strides allow it.
    """
    loops: list[tuple[int, int, int]] = []
    for size, read, written in axes:
        if loops and loops[-1][1:] == (size * read, size * written):
            size *= loops.pop()[0]
        loops.append((size, read, written))
    return loops
