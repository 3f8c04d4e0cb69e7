"""What the short way takes for granted of the interpreter, tried out before it is relied on."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ..tensor import Tensor
from .objects import BYTES, ITEMS, REFERENCES, SIZE, SLICE, TYPE, words_of

ROUNDS = 50


def prove_layout() -> None:
    """Raise LookupError unless objects are made as is believed."""
    one = object()
    holders = [one] * 5
    first = words_of(one, 16)
    holders.append(one)
    more = words_of(one, 16)
    items = (one, None, True)
    part = slice(*items)
    raw = bytes(range(16, 48))
    facts = (
        more[REFERENCES // 8] - first[REFERENCES // 8] == 1,
        first[TYPE // 8] == id(object),
        words_of(items, tuple.__basicsize__ + 24)[SIZE // 8] == 3,
        words_of(items, tuple.__basicsize__ + 24)[ITEMS // 8 : ITEMS // 8 + 3] == [id(x) for x in items],
        words_of(raw, BYTES + 32)[SIZE // 8] == 32,
        np.array(words_of(raw, BYTES + 32)[BYTES // 8 :], "<i8").tobytes() == raw,
        words_of(part, SLICE + 24)[SLICE // 8 :] == [id(x) for x in items],
        int("0") is int("-0"),  # one object stands for every zero
    )
    del holders
    if not all(facts):
        raise LookupError(f"the interpreter's objects are made otherwise: {facts}")


def prove_work() -> None:
    """Raise LookupError unless the methods give what they should, again and again, and leave no reference too many or too few."""
    x = Tensor._from_numpy(np.arange(12.0).reshape(3, 4))
    y = Tensor._from_numpy(np.arange(12.0).reshape(3, 4) - 5)
    programs: tuple[tuple[Callable[[], Tensor], object], ...] = (
        (lambda: x + y, [[-5.0, -3.0, -1.0, 1.0], [3.0, 5.0, 7.0, 9.0], [11.0, 13.0, 15.0, 17.0]]),
        (lambda: x.T[1:3, ::-2], [[9.0, 1.0], [10.0, 2.0]]),
        (lambda: x[1, 2], 6.0),
    )
    watched = (x.storage, x.spec, y.storage.node, x.storage.node, x.dtype)
    with _nothing_collected():
        for make, wanted in programs:
            for _ in range(3):  # what is met for the first time takes the long way
                make().tolist()
            before = [sys.getrefcount(w) for w in watched]
            for _ in range(ROUNDS):
                if make().tolist() != wanted:
                    raise LookupError("a method gives something else than Python's own")
            after = [sys.getrefcount(w) for w in watched]
            # Threads may have come between, with tensors of their own; a mistake is made every time.
            if any([abs(b - a) >= ROUNDS for a, b in zip(before, after, strict=True)]):
                raise LookupError("references are not counted as is believed")


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Meanwhile no garbage goes that refers to what everybody has."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
