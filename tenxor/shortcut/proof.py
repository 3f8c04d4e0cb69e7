"""Tests, at run time, of the assumptions about the interpreter that the fast path relies on."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from ..collecting import uncollected
from ..frameless import frameless, functions
from ..ops import OPS
from ..pool import pool
from ..tensor import Tensor
from .limits import IMMORTAL
from .objects import BYTES, DIGIT, DIGITS, ITEMS, REFERENCES, SIGNED_SIZE, SIZE, SLICE, TWO_DIGITS, TYPE, words_of

ROUNDS = 50
_DIGIT = 1 << DIGIT
_INTEGERS = [sign * (1 << k) + d for sign in (1, -1) for k in (0, 29, 30, 47, 59, 60, 63, 64) for d in (-1, 0, 1)]


def prove_layout() -> None:
    """Raise LookupError unless the interpreter's objects are laid out as the fast path assumes."""
    one = object()
    holders = [one] * 5
    first = words_of(one, 16)
    holders.append(one)
    more = words_of(one, 16)
    items = (one, None, True)
    part = slice(*items)
    raw = bytes(range(16, 48))
    tuple_words, bytes_words = words_of(items, tuple.__basicsize__ + 24), words_of(raw, BYTES + 32)
    facts = {
        "a reference adds 1 to the first word of an object": more[REFERENCES // 8] - first[REFERENCES // 8] == 1,
        "the count of None tells whether objects are immortal": (words_of(None, 16)[REFERENCES // 8] & 1 << 31 != 0) == IMMORTAL,
        "an object refers to its type": first[TYPE // 8] == id(object),
        "a tuple holds its size": tuple_words[SIZE // 8] == 3,
        "a tuple holds its items in order": tuple_words[ITEMS // 8 : ITEMS // 8 + 3] == [id(x) for x in items],
        "bytes hold their size": bytes_words[SIZE // 8] == 32,
        "bytes hold their content": np.array(bytes_words[BYTES // 8 :], "<i8").tobytes() == raw,
        "a slice holds start, stop and step": words_of(part, SLICE + 24)[SLICE // 8 :] == [id(x) for x in items],
        "one object stands for every zero": int("0") is int("-0"),
        "an integer holds digits of 30 bits": all(
            [_as_read(n) == (n if -_DIGIT < n < _DIGIT or _DIGIT <= n < _DIGIT**2 else None) for n in _INTEGERS]
        ),
    }
    del holders
    if failed := [fact for fact, holds in facts.items() if not holds]:
        raise LookupError(f"objects of this interpreter are laid out differently; not true: {', '.join(failed)}")


def _as_read(n: int) -> int | None:
    """Return the Python integer `n` as the generated code reads it inline, or None if the code calls CPython's API to read it.

    The generated code reads integers of a single digit, and nonnegative integers of two digits.
    """
    words = words_of(n, DIGITS + 8)
    head, low, high = words[SIZE // 8], words[DIGITS // 8] % (1 << 32), words[DIGITS // 8] >> 32
    if head == TWO_DIGITS:
        return low + (high << DIGIT)
    if SIGNED_SIZE:
        return head * low if -1 <= head <= 1 else None
    return (1 - (head & 3)) * low if 0 <= head < TWO_DIGITS else None


def prove_work() -> None:
    """Raise LookupError unless the installed methods give the right results repeatedly and keep every reference count."""
    x = Tensor._from_numpy(np.arange(12.0).reshape(3, 4))
    y = Tensor._from_numpy(np.arange(12.0).reshape(3, 4) - 5)
    asked: list[Tensor] = []

    def own(x: Tensor) -> Tensor:
        asked.append(x)
        return -x

    negative = frameless(own, "unary", OPS["negative"])
    functions.remove(negative)
    programs: tuple[tuple[Callable[[], Tensor], object], ...] = (
        (lambda: x + y, [[-5.0, -3.0, -1.0, 1.0], [3.0, 5.0, 7.0, 9.0], [11.0, 13.0, 15.0, 17.0]]),
        (lambda: x.T[1:3, ::-2], [[9.0, 1.0], [10.0, 2.0]]),
        (lambda: x[1, 2], 6.0),
        (lambda: negative(x), [[-0.0, -1.0, -2.0, -3.0], [-4.0, -5.0, -6.0, -7.0], [-8.0, -9.0, -10.0, -11.0]]),
    )
    watched = (x.storage, x.spec, y.storage.node, x.storage.node, x.dtype)
    with uncollected():
        for make, wanted in programs:
            for _ in range(3):  # the first calls run the fallback
                make().tolist()
            before = [sys.getrefcount(w) for w in watched]
            for _ in range(ROUNDS):
                if make().tolist() != wanted:
                    raise LookupError("a method gives something else than Python's own")
            after = [sys.getrefcount(w) for w in watched]
            # Other threads may change the counts a little; a mistake would change them in every round.
            if any([abs(b - a) >= ROUNDS for a, b in zip(before, after, strict=True)]):
                raise LookupError("references are not counted as is believed")
    if len(asked) >= ROUNDS and not pool.pressed:  # under memory pressure the fast path declines everything
        raise LookupError("functions are not called by machine code")
