"""Programs of direct calls: integers that tell generated code how to compute a result on our memory (`code/looping.py`,
`code/ordering.py`).

A program begins with an opcode: `CALL` for a C loop of NumPy, or a constant from `SORT` to `UNIQUE`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod

from ..dtypes import float32, float64
from ..host.counts import COUNTED, Count
from ..host.factoring import Factors
from ..host.inplace import InPlace
from ..host.loops import CALL, Loop, Seen, one_step, program, words_of
from ..host.machine import bits_of, words_of_ends
from ..host.orders import SEARCHED, Order, is_counted
from .boxes import box_of

# Opcodes. From BINCOUNT on, the size of the result depends on the values.
SORT, ARGSORT, SEARCH, BEST, WIDER, DIGITIZE, INTERPOLATE, LEXSORT, FACTOR, BINCOUNT, UNIQUE = (CALL + 1 + k for k in range(11))
_LOOKED_AT = {float64: 1, float32: 2}  # dtypes with signed zeros and NaN, which a quick sort may reorder or change
SINGLE = 4  # bytes of a float in single precision
FACTOR_HEAD = 13  # integers before the copy descriptor of the matrix
MOST_BEST = 64  # elements wanted of a row: the search may compare each with each
MOST_APART = 1 << 23  # bytes of scratch memory: a larger block comes from the system each time, page by page
MOST_MOVED = 1 << 20  # moves of candidates per row before the search gives up: some milliseconds
Given = Sequence[tuple[int, int, Seen]]  # for each operand: the tensor's index, the offset in bytes, and shape and strides


def program_of(how: InPlace, operands: Given, results: Sequence[Seen], floats: int, items: Sequence[int]) -> bytes | None:
    """Return the packed program of a direct call; None if the generated code cannot do it.

    `how` describes the computation. `operands` and `results` say how tensors are stored (offset, shape, strides). `floats` is the number of
    real floats in the first operand, and `items` are the bytes of an element of each result.
    """
    if isinstance(how, Loop):
        return _wider(how, operands, results, floats, items) if how.wider else program(how, operands, results, floats)
    if isinstance(how, Factors):
        return _factor(how, operands[0], results, items[0])
    words = _words_of(how, operands)
    return None if words is None else struct.pack(f"={len(words)}q", *words)


def words_of_program(how: InPlace, operands: Given, results: Sequence[Seen], floats: int) -> Sequence[int] | None:
    """Return the program of a direct call as integers, possibly symbolic sizes; None if a program needs more than integers.

    `how` describes the computation. `operands` and `results` say how tensors are stored, and `floats` is the number of real floats in the
    first operand.
    """
    if isinstance(how, Loop):
        words = None if how.wider or len(how.between) % 8 else words_of(how, operands, results, floats)
        return None if words is None else [*words, *struct.unpack(f"={len(how.between) // 8}q", how.between)]
    return None if isinstance(how, Factors) else _words_of(how, operands)


def _words_of(how: Order | Count, operands: Given) -> Sequence[int] | None:
    """Return the program of the ordering or counting operation `how` as integers; None if the generated code cannot do it.

    `operands` says how the operands are stored: index, offset, shape and strides.
    """
    if isinstance(how, Count):
        return _bincount(how, operands) if how.name == "bincount" else _unique(how, operands[0])
    if how.name == "interp":
        return _interpolate(how, operands)
    if how.name in _LOOKED_FOR:
        return _search(how, operands)
    if how.name == "lexsort":
        return _by_keys(how, operands)
    return _best(how, operands[0]) if how.name == "topk" else _sort(how, operands[0])


def _wider(how: Loop, operands: Given, results: Sequence[Seen], floats: int, items: Sequence[int]) -> bytes | None:
    """Return the program of a loop in double precision for data in single precision, as NumPy computes them; None if it needs too much
    memory.

    `how` describes the loop, and `items` are the bytes of an element of each result. The operands are converted into scratch memory, the
    loop runs on them, and the results are rounded.
    """
    item = SINGLE * floats // prod(operands[0][2][0]) if floats else SINGLE
    words, places, lie, end = list[int](), list[int](), list[Seen](), 0
    for which, start, (shape, strides) in operands:
        if any([s % item for s in strides]):
            return None
        box = box_of(shape, [s // item for s in strides], _dense(shape, 1), item, piece=which, start=start // item)
        if box is None:
            return None
        words += (end, prod(shape) * item // SINGLE, *box)
        places.append(end)
        lie.append((shape, _dense(shape, 2 * item)))
        end += prod(shape) * 2 * item
    for k, ((shape, _), item) in enumerate(zip(results, items, strict=True)):
        places.append(end)
        if k == how.counts:  # an integer result, not rounded
            words += (end, -prod(shape))
            lie.append((shape, _dense(shape, item)))
            end += prod(shape) * item
            continue
        words += (end, prod(shape) * item // SINGLE)
        lie.append((shape, _dense(shape, 2 * item)))
        end += prod(shape) * 2 * item
    if end > MOST_APART:
        return None
    inner = program(how._replace(wider=False), [(0, 0, seen) for seen in lie[: len(operands)]], lie[len(operands) :], floats, places)
    if inner is None:
        return None
    head = (WIDER, end, len(operands), len(results), 8 * (5 + len(words)))
    return struct.pack(f"={len(head) + len(words)}q", *head, *words) + inner


def _factor(how: Factors, operand: tuple[int, int, Seen], results: Sequence[Seen], item: int) -> bytes | None:
    """Return the program of a QR factorisation; None if it needs too much memory or the matrices are not copied by simple loops.

    `how` describes the factorisation, and `item` is the bytes of an element.
    The matrices are copied into scratch memory. The first function of C makes triangles of them, the second makes the orthonormal factor,
    and both are copied to the results.
    """
    (which, start, (shape, strides)), (matrix, triangle) = operand, [shape for shape, _ in results]
    if not prod(shape) or any([s % item for s in strides]):
        return None
    box = box_of(shape, [s // item for s in strides], _dense(shape, 1), item, piece=which, start=start // item)
    if box is None:
        return None
    (*batch, rows, columns), wide = shape, item * 2 if how.wider else item
    told = (*batch, min(rows, columns))
    places = [0, prod(shape) * wide, (prod(shape) + prod(told)) * wide]
    end = places[2] + (prod(matrix) * wide if how.wider else 0)
    if end > MOST_APART:
        return None
    lie = [(its, _dense(its, wide)) for its in (shape, told, matrix)]
    (_, first, second), unread = lie, [(0, 0, seen) for seen in lie[:2]]
    one = program(how.first, unread[:1], [first], 0, places[:2])
    loop = how.complete if how.is_complete and rows > columns else how.reduced
    other = program(loop, unread, [second], 0, places if how.wider else places[:2])
    if one is None or other is None:
        return None
    floats, words = wide // 8, (FACTOR_HEAD + len(box)) * 8
    head = (FACTOR, end, words, words + len(one), int(how.wider), prod(shape) * floats, prod(matrix) * floats, places[2])
    more = (prod(batch), triangle[-2], rows, columns * floats, floats)
    return struct.pack(f"={words // 8}q", *head, *more, *box) + one + other


def _dense(shape: Sequence[int], item: int) -> tuple[int, ...]:
    """Return the strides of a contiguous array of this shape: in elements if `item` is 1, in bytes if `item` is the bytes of an element."""
    return tuple([item * prod(shape[k + 1 :]) for k in range(len(shape))])


def _sort(how: Order, operand: tuple[int, int, Seen]) -> tuple[int, ...] | None:
    """Return the program to sort rows along the last axis, or (for `argsort`) the positions in them.

    Return None if the operand is empty, or if up to three nested loops cannot copy it.
    """
    (_, start, (shape, strides)), item = operand, how.dtype.itemsize
    if not prod(shape) or any([s % item for s in strides]):
        return None
    rows, n = prod(shape[:-1]), shape[-1]
    apart = [item * prod(shape[k + 1 :]) for k in range(len(shape))]  # the strides of the result
    box = box_of(shape, [s // item for s in strides], [s // item for s in apart], item, start=start // item)
    if box is None:
        return None
    if how.name == "argsort":
        return (ARGSORT, how.stable, rows, n, item, int(list(strides) == apart), *box)
    quick = how.stable if is_counted(how.dtype, n) else how.quick
    return (SORT, how.stable, quick, rows, n, item, _LOOKED_AT.get(how.dtype, 0), int(how.keeps), *box)


_LOOKED_FOR = {"searchsorted": SEARCH, "digitize": DIGITIZE}


def _search(how: Order, operands: Given) -> tuple[int, ...] | None:
    """Return the program of the search `how` for elements in a sorted array; None unless one loop walks each of `operands`."""
    words = [_LOOKED_FOR[how.name], SEARCHED.index(how.dtype), int(how.right)]
    more = _lying(operands)
    return None if more is None else (*words, *more)


def _interpolate(how: Order, operands: Given) -> tuple[int, ...] | None:
    """Return the program of the linear interpolation `how`; None unless one loop walks each of `operands`: places, points and heights.

    Operands in single precision are converted into scratch memory first.
    """
    words, end = list[int](), 0
    for operand, (_, item) in zip(operands, how.keys, strict=True):
        lie = _lying([operand])
        if lie is None:
            return None
        words += (*lie, int(item == SINGLE), end)
        end += 8 * lie[2] if item == SINGLE else 0
    ends = [bits_of(x) if isinstance(x, float) else x for x in words_of_ends(how.ends)]
    return (INTERPOLATE, *ends, end, *words)


def _lying(operands: Given) -> list[int] | None:
    """Return four integers for each operand: the tensor's index, the offset in bytes, the element count, and the stride in bytes.

    Return None unless one loop with a constant stride walks each operand, and each has elements.
    """
    words: list[int] = []
    for which, start, (shape, strides) in operands:
        step = one_step(shape, strides)
        if step is None or not prod(shape):
            return None
        words += (which, start, prod(shape), step)
    return words


def _bincount(how: Count, operands: Given) -> tuple[int, ...] | None:
    """Return the program to count integers, or to sum their weights; None unless one loop walks each of `operands`: integers, weights."""
    words = _lying(operands)
    return None if words is None else (BINCOUNT, COUNTED.index(how.dtype), how.least, len(operands) - 1, *words)


def _unique(how: Count, operand: tuple[int, int, Seen]) -> tuple[int, ...] | None:
    """Return the program to find distinct elements, from a sorted copy.

    Return None if the operand is empty, or if up to three nested loops cannot copy it.
    """
    (which, start, (shape, strides)), item = operand, how.dtype.itemsize
    if not prod(shape) or any([s % item for s in strides]):
        return None
    box = box_of(shape, [s // item for s in strides], _dense(shape, 1), item, piece=which, start=start // item)
    if box is None:
        return None
    return (UNIQUE, how.dtype.bits, _LOOKED_AT.get(how.dtype, 0), how.sort, how.argsort, how.wanted, prod(shape), item, *box)


def _by_keys(how: Order, operands: Given) -> tuple[int, ...] | None:
    """Return the program of an indirect sort by the keys `operands`; None unless each is one contiguous row of two elements or more."""
    words = list[int]()
    for (which, start, (shape, strides)), (function, item) in zip(operands, how.keys, strict=True):
        if len(shape) != 1 or shape[0] < 2 or strides[0] != item:
            return None
        words += (function, which, start)
    return (LEXSORT, len(operands), operands[0][2][0][0], *words)


def _best(how: Order, operand: tuple[int, int, Seen]) -> tuple[int, ...] | None:
    """Return the program to find the largest or smallest elements of rows along the last axis.

    Return None unless one loop walks the rows, and `MOST_BEST` elements or fewer are wanted.
    """
    which, start, (shape, strides) = operand
    step = one_step(shape[:-1], strides[:-1])
    if step is None or not prod(shape) or not 0 < how.wanted <= MOST_BEST:
        return None
    rows, n = prod(shape[:-1]), shape[-1]
    words = (which, start, rows, step, n, strides[-1], how.wanted, min(16 * n, MOST_MOVED) + how.wanted**2)
    return (BEST, SEARCHED.index(how.dtype), int(how.largest), *words)
