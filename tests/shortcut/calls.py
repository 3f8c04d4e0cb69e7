"""Calls of every method that has a short way: such as it does, such as it leaves to Python, and such as raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tenxor as tx
from tenxor.ops import OPS
from tenxor.shortcut.methods import _BINARY, _COMPARISONS, _NAMED, _NAMED_BINARY, _UNARY, METHODS

AXES: tuple[tuple[Any, ...], ...] = ((), (0,), (-1,), ((0, 1),), (7,), ("x",), (None,), (True,))
ARGUMENTS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "permute": ((1, 0), ((1, 0),), (0, 0), ()),
    "permute_dims": (((1, 0),), ((0, 5),)),
    "transpose": ((), (0, 1), (0, 9)),
    "swapaxes": ((0, 1), (0, 9)),
    "moveaxis": ((0, 1), (0, 9)),
    "movedim": ((0, 1), (0, 9)),
    "reshape": ((-1,), ((3, 2),), (7,), ("x",), (2**70,), (True, 6)),
    "flatten": ((), (0,), (9,)),
    "ravel": ((),),
    "unflatten": ((0, (1, 2)), (0, (5, 5))),
    "squeeze": ((), (0,), (9,)),
    "unsqueeze": ((0,), (9,), (None,)),
    "expand_dims": ((0,), (9,)),
    "expand": (((4, 2, 3),), (4, 2, 3), (5,)),
    "flip": ((), (0,), (9,)),
    "diagonal": ((), (1,), (0, 0, 1), (0, 0, 0)),
    "split": ((1,), (3, 1), (5,), ((1,), 1), ([1],), ("x",)),
    "view": ((-1,), (tx.int64,), ("float32",), (5,)),
    "astype": ((tx.float32,), (tx.float64,), ("int32",), (float,), ("x",), (None,)),
    "to": ((tx.float32,), ("cpu",), ("x",)),
    "clip": ((0, 1), (0.5, None), (None, None), ("x",), (2**80, 1)),
    "clamp": ((0, 1), (0.5, None), ("x",)),
    "dot": (("same",), ("other",), ("turned",), (2,), ("x",)),
    "__matmul__": (("turned",), ("other",), (2,), ("x",)),
    "__pow__": ((2,), (0.5,), (-1,), ("other",), ("same",), ("x",), (2**80,)),
    "index_add_": ((0, "indices", "other"), (0, "indices", 2), (0, "pending indices", "same"), (1, "indices", 2.5), (0, [9], 1)),
    "item": ((), (0, 1), (0, 9), (5,), ("x",)),
}
BESIDE = ("same", "other", "turned", "row", "known", 2, 2.5, True, 2**80, 1j, "x", None, np.float64(2))
KEYS = (0, -1, 9, (0, 1), (-1, -1), (0, 9), slice(1, None), (..., 0), (0, ..., 0), (None, 0), (slice(None, None, -1), 1), ())
KEYS += ("mask", "rows", "indices", "pending indices", [1, 0], [1, 9], [1, "x"], [True, False])  # type: ignore[assignment]
KEYS += (True, "x", 1.0, 2**70, (0, 1, 2), (..., ...), [0], (slice(None, None, 2**40),), (slice(None), slice(1, 3)))  # type: ignore[assignment]
VALUES = (1, 2.5, True, 2**80, "x", "row", "other", "same", "known", "chosen", 1j)
NOTHING = ("T", "mT", "realize", "__bool__", "__float__", "__int__", "__len__", "__iter__")
Call = Callable[[dict[str, Any]], Any]


def operands(dtype: Any) -> dict[str, Any]:
    """What calls are of: a tensor, and what may stand beside it, by name."""
    values = np.arange(6).reshape(2, 3)
    x = tx.asarray(values).astype(dtype).realize()
    found = {"x": x, "same": x, "other": (x + x).realize(), "turned": x.T, "row": x[0], "known": x[1, 1], "pending": x + x}
    found["mask"], found["rows"] = tx.asarray(values % 2 == 0).realize(), tx.asarray([True, True]).realize()
    found["indices"] = tx.asarray(np.array([1, -2])).realize()
    found["chosen"], found["pending indices"] = found["other"][found["mask"]].realize(), found["indices"] + 0
    return {**found, "one": x[:1, :1], "empty": x[:, :0], "back": x[::-1, ::-1]}


def calls() -> Iterator[tuple[str, Call]]:
    """Each call by what it says; it takes the operands."""

    def one(name: str, subject: str, given: tuple[Any, ...], named: dict[str, Any] | None = None) -> tuple[str, Call]:
        def call(its: dict[str, Any]) -> Any:
            read = [its.get(x, x) if isinstance(x, str) else x for x in given]
            found = getattr(its[subject], name)
            return found if name in ("T", "mT") else found(*read, **named or {})

        return f"{subject}.{name}{given}{named or ''}", call

    for method in METHODS:
        name, base = method.name, method.name.strip("_")
        cases: tuple[tuple[Any, ...], ...]
        if name in ARGUMENTS:
            cases = ARGUMENTS[name]
        elif name == "__getitem__":
            cases = tuple([(key,) for key in KEYS])
        elif name == "__setitem__":
            cases = tuple([(key, value) for key in KEYS for value in VALUES])
        elif name == "_with":
            cases = ((OPS["exp"],), (OPS["add"], 1), (OPS["add"], "other"), (OPS["where"], 1.5, "other"), (OPS["where"], "other", "same"))
        elif name in NOTHING or base in _UNARY or name in _NAMED:
            cases = ((),)
        elif base in _BINARY or base in _COMPARISONS or name in _NAMED_BINARY or base[1:] in _BINARY:
            cases = tuple([(y,) for y in BESIDE])
        else:
            cases = AXES
            yield one(name, "x", (), {"axis": 0, "keepdims": True})
            yield one(name, "x", (), {"axis": 0, "wrong": True})
        for case in cases:
            for subject in ("x", "known", "pending", "turned"):
                yield one(name, subject, case)
        yield one(name, "empty", cases[0])
        yield one(name, "one", cases[0])
        yield one(name, "back", cases[-1])
