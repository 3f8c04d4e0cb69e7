"""Results and errors of calls, and checks that the calls neither keep nor lose references."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tenxor import Tensor

Operands = dict[str, Any]
Calling = Callable[[Operands], Any]


def seen(call: Calling, its: Operands) -> object:
    """Return the bits of the result of a call, or its error."""
    try:
        found = call(its)
        return (found.dtype, found.shape, found.tobytes()) if isinstance(found, Tensor) else repr(found)
    except Exception as error:
        return type(error), str(error)


def lose_no_reference(calls: Iterable[Calling], its: Operands, *others: object) -> None:
    """Check that many calls leave the reference counts of operands, their parts and other objects unchanged."""
    calls = list(calls)

    def all_of_it() -> None:
        for call in calls:
            seen(call, its)

    all_of_it(), all_of_it(), gc.collect()
    tensors = [t for t in its.values() if isinstance(t, Tensor)]
    things = [*its.values(), *[t.spec for t in tensors], *[t.storage for t in tensors], *others]
    before = [sys.getrefcount(x) for x in things]
    for _ in range(3):
        all_of_it()
    gc.collect()
    for x, was, now in zip(things, before, [sys.getrefcount(x) for x in things], strict=True):
        assert type(x) in (int, bool, type(None), str) or abs(now - was) < 6, (x, was, now)
