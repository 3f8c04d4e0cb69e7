"""Tests, at run time, of the assumptions about the interpreter that the fast path relies on."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from .._utils.gc_control import disable_gc
from .._utils.patchable import forget_patchable, make_patchable
from .._utils.records import NamedTuple
from ..memory.block_pool import pool
from ..ops import OPS
from ..tensor import Tensor
from .limits import HAS_IMMORTAL_OBJECTS
from .object_layout import (
    BYTES_CONTENT_OFFSET,
    DIGIT_BITS,
    DIGITS_OFFSET,
    HAS_SIGNED_DIGIT_COUNT,
    REFCOUNT_OFFSET,
    SIZE_OFFSET,
    SLICE_START_OFFSET,
    TUPLE_ITEMS_OFFSET,
    TWO_DIGIT_SIZE_WORD,
    TYPE_OFFSET,
    read_object_words,
)

CHECK_ROUNDS = 50
_DIGIT_BASE = 1 << DIGIT_BITS
_TEST_INTEGERS = [sign * (1 << k) + d for sign in (1, -1) for k in (0, 29, 30, 47, 59, 60, 63, 64) for d in (-1, 0, 1)]


def check_object_layout() -> None:
    """Raise LookupError unless the interpreter's objects are laid out as the fast path assumes. The build calls this function before it
    makes code.
    """
    probe = object()
    holders = [probe] * 5
    initial_words = read_object_words(probe, 16)
    holders.append(probe)
    later_words = read_object_words(probe, 16)
    items = (probe, None, True)
    slice_object = slice(*items)
    raw = bytes(range(16, 48))
    tuple_words, bytes_words = read_object_words(items, tuple.__basicsize__ + 24), read_object_words(raw, BYTES_CONTENT_OFFSET + 32)
    facts = {
        "a reference adds 1 to the first word of an object": later_words[REFCOUNT_OFFSET // 8] - initial_words[REFCOUNT_OFFSET // 8] == 1,
        "the count of None tells whether objects are immortal": (read_object_words(None, 16)[REFCOUNT_OFFSET // 8] & 1 << 31 != 0)
        == HAS_IMMORTAL_OBJECTS,
        "an object refers to its type": initial_words[TYPE_OFFSET // 8] == id(object),
        "a tuple holds its size": tuple_words[SIZE_OFFSET // 8] == 3,
        "a tuple holds its items in order": tuple_words[TUPLE_ITEMS_OFFSET // 8 : TUPLE_ITEMS_OFFSET // 8 + 3] == [id(x) for x in items],
        "bytes hold their size": bytes_words[SIZE_OFFSET // 8] == 32,
        "bytes hold their content": np.array(bytes_words[BYTES_CONTENT_OFFSET // 8 :], "<i8").tobytes() == raw,
        "a slice holds start, stop and step": read_object_words(slice_object, SLICE_START_OFFSET + 24)[SLICE_START_OFFSET // 8 :]
        == [id(x) for x in items],
        "one object stands for every zero": int("0") is int("-0"),
        "an integer holds digits of 30 bits": all(
            [
                _read_inline(n) == (n if -_DIGIT_BASE < n < _DIGIT_BASE or _DIGIT_BASE <= n < _DIGIT_BASE**2 else None)
                for n in _TEST_INTEGERS
            ]
        ),
    }
    del holders
    if failed := [fact for fact, holds in facts.items() if not holds]:
        raise LookupError(f"objects of this interpreter are laid out differently; not true: {', '.join(failed)}")


def _read_inline(n: int) -> int | None:
    """Return the Python integer `n` as the generated code reads it inline, or None if the code calls CPython's API to read it.

    The generated code reads integers of a single digit, and nonnegative integers of two digits.
    """
    words = read_object_words(n, DIGITS_OFFSET + 8)
    head, low, high = words[SIZE_OFFSET // 8], words[DIGITS_OFFSET // 8] % (1 << 32), words[DIGITS_OFFSET // 8] >> 32
    if head == TWO_DIGIT_SIZE_WORD:
        return low + (high << DIGIT_BITS)
    if HAS_SIGNED_DIGIT_COUNT:
        return head * low if -1 <= head <= 1 else None
    return (1 - (head & 3)) * low if 0 <= head < TWO_DIGIT_SIZE_WORD else None


class _Program(NamedTuple):
    """A call of installed methods, and the elements of its result, as `tolist` returns them."""

    run: Callable[[], Tensor]
    expected: object


def check_installed_methods() -> None:
    """Raise LookupError unless the installed methods give the right results repeatedly and keep every reference count. Raise it, too, if
    calls of a patched function do not reach the fast path.

    The build calls this function after the installation. A few expressions are computed many times.
    """
    x = Tensor._from_numpy(np.arange(12.0).reshape(3, 4))
    y = Tensor._from_numpy(np.arange(12.0).reshape(3, 4) - 5)
    fallback_arguments: list[Tensor] = []

    def negate(x: Tensor) -> Tensor:
        """Return `-x`, and note the call: the fallback of a patched function."""
        fallback_arguments.append(x)
        return -x

    negative = make_patchable(negate, "unary", OPS["negative"])
    forget_patchable(negative)
    programs = (
        _Program(lambda: x + y, [[-5.0, -3.0, -1.0, 1.0], [3.0, 5.0, 7.0, 9.0], [11.0, 13.0, 15.0, 17.0]]),
        _Program(lambda: x.T[1:3, ::-2], [[9.0, 1.0], [10.0, 2.0]]),
        _Program(lambda: x[1, 2], 6.0),
        _Program(lambda: negative(x), [[-0.0, -1.0, -2.0, -3.0], [-4.0, -5.0, -6.0, -7.0], [-8.0, -9.0, -10.0, -11.0]]),
    )
    watched = (x.storage, x.spec, y.storage.node, x.storage.node, x.dtype)
    with disable_gc():
        for program in programs:
            for _ in range(3):  # the first calls run the fallback
                program.run().tolist()
            counts_before = [sys.getrefcount(w) for w in watched]
            for _ in range(CHECK_ROUNDS):
                if program.run().tolist() != program.expected:
                    raise LookupError("a method on the fast path returns another result than its Python method")
            counts_after = [sys.getrefcount(w) for w in watched]
            # Other threads may change the counts a little; a mistake would change them in every round.
            if any([abs(b - a) >= CHECK_ROUNDS for a, b in zip(counts_before, counts_after, strict=True)]):
                raise LookupError("calls on the fast path change the reference counts of their operands")
    if len(fallback_arguments) >= CHECK_ROUNDS and not pool.is_under_pressure:  # under memory pressure the fast path declines everything
        raise LookupError("calls of a patched function do not reach the fast path")
