"""Descriptors of strided copies: integers that describe how elements are copied, by up to three nested loops over contiguous rows. Python
builds a descriptor when a call is recorded; the generated code runs it at later calls (`fastpath/emit/concat_few.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

# Byte offsets into a descriptor: the index of the source tensor; the offset in bytes in the source, and in the destination; for each of
# three loops the iterations, the source stride and the destination stride; the bytes of a row; and the size of a descriptor.
SOURCE_INDEX_OFFSET, SOURCE_START_OFFSET, DESTINATION_START_OFFSET, LOOPS_OFFSET, COPY_ROW_BYTES_OFFSET, COPY_DESCRIPTOR_BYTES = (
    0,
    8,
    16,
    24,
    96,
    104,
)


def describe_copy(
    shape: Sequence[int],
    source_strides: Sequence[int],
    destination_strides: Sequence[int],
    itemsize: int,
    source_index: int = 0,
    source_start: int = 0,
    destination_start: int = 0,
) -> tuple[int, ...] | None:
    """Return the descriptor of a strided copy; None if the copy needs more than three loops.

    The descriptor has the 13 integers at the byte offsets `SOURCE_INDEX_OFFSET` to `COPY_ROW_BYTES_OFFSET`. `shape` is the shape of the
    copy, and `itemsize` the bytes of an element. `source_strides` and `destination_strides` are the strides of the source and of the
    destination, and `source_start` and `destination_start` the positions where the copy begins there, all in elements. `source_index` is
    the index of the source tensor.
    """
    loops = _coalesce_axes([axis for axis in zip(shape, source_strides, destination_strides, strict=True) if axis[0] != 1])
    row = loops.pop()[0] if loops and loops[-1][1:] == (1, 1) else 1
    if len(loops) > 3:
        return None
    loops = [(1, 0, 0)] * (3 - len(loops)) + loops
    numbers = [n if k == 0 else n * itemsize for loop in loops for k, n in enumerate(loop)]
    return (source_index, source_start * itemsize, destination_start * itemsize, *numbers, row * itemsize)


def _coalesce_axes(axes: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Coalesce `axes`, the axes of a copy as (size, source stride, destination stride), and return the loops in the same form.

    Axes and loops stand outermost first. Neighbouring axes become one loop if, for both strides, the outer stride is the inner size times
    the inner stride.
    """
    loops: list[tuple[int, int, int]] = []
    for size, source_stride, destination_stride in axes:
        if loops and loops[-1][1:] == (size * source_stride, size * destination_stride):
            size *= loops.pop()[0]
        loops.append((size, source_stride, destination_stride))
    return loops
