"""Module functions run in machine code without a Python frame, and give the same results."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor._utils.patchable import PatchableFunction, make_patchable, patchable_functions
from tenxor.fastpath import vectorcall_switch as module
from tenxor.ops import OPS
from tenxor.tensor import Tensor
from tests.fastpath.outcomes import lose_no_reference, seen
from tests.processes import python

pytestmark = pytest.mark.usefixtures("on")
UNARY, BINARY = ("exp", "sqrt", "abs", "negative", "isnan", "round"), ("add", "subtract", "maximum", "less", "pow", "logical_and")


class Own(Tensor):
    """A subclass of Tensor."""

    __slots__ = ()


def operands() -> dict[str, Any]:
    x = tx.asarray([[6.0, 1.0, 2.0], [3.0, 4.0, 5.0]]).realize()
    return {
        **{"x": x, "row": x[0], "turned": x.T, "pending": x + 1, "one": x[1, 1], "truth": (x > 2).realize(), "whole": x.astype(tx.int64)},
        **{"2": 2, "2.5": 2.5, "True": True, "1j": 1j, "2**80": 2**80, "array": np.arange(3.0), "list": [1, 2, 3], "None": None},
        **{"text": "a", "own": Own._from_node(x.node), "none of them": tx.zeros(0)},
    }


def calls() -> dict[str, Callable[[dict[str, Any]], Any]]:
    """Return the calls by their source text; each takes the operands."""
    found: dict[str, Callable[[dict[str, Any]], Any]] = {}

    def call(name: str, *given: str, **named: Any) -> None:
        function = getattr(tx, name)
        found[f"{name}{given}{named}"] = lambda its: function(
            *[its[k] for k in given], **{key: value(its) if callable(value) else value for key, value in named.items()}
        )

    names = tuple(operands())
    into = {"out": lambda its: tx.zeros((2, 3)), "where": lambda its: its["truth"]}
    for name in UNARY:
        for one in names:
            call(name, one)
        call(name), call(name, "x", "2.5"), call(name, "x", "x", "x"), call(name, "x", out=into["out"]), call(name, "x", **into)
        call(name, "x", axis=0), call(name, x="x")
    for name in BINARY:
        for one in names:
            for other in ("x", "row", "one", "truth", "2", "2.5", "own", "array"):
                call(name, one, other), call(name, other, one)
        call(name), call(name, "x"), call(name, "x", "x", "x"), call(name, "x", "x", **into), call(name, "x", y=2)
    for condition in ("truth", "x", "own", "True"):
        for one in ("x", "row", "2", "2.5", "None", "list"):
            call("where", condition, one, "x"), call("where", condition, "whole", one)
        call("where", condition), call("where", condition, "x"), call("where", condition, "x", "x", out=into["out"])
    for name in ("sum", "max", "mean", "softmax", "clip", "matmul"):
        for one in names:
            call(name, one), call(name, one, "2"), call(name, one, "x"), call(name, one, axis=0), call(name, one, axis=9)
        call(name), call(name, axis=0)
    return found


CALLS = calls()


def test_functions_match_python_values_and_errors() -> None:
    with fastpath.disabled():
        wanted = [seen(call, operands()) for call in CALLS.values()]
    for _ in range(3):
        its = operands()
        for (said, call), expected in zip(CALLS.items(), wanted, strict=True):
            assert seen(call, its) == expected, said


def test_functions_keep_reference_counts() -> None:
    lose_no_reference(CALLS.values(), operands(), tx.exp, tx.exp.routine_argument, tx.exp.func)  # type: ignore[attr-defined]


def frames(call: Callable[[], object]) -> list[str]:
    """Return the Python functions that run during a call."""
    found: list[str] = []
    sys.setprofile(lambda frame, event, _: found.append(frame.f_code.co_name) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found[1:-1] if found and found[-1] == "frames" else found[1:]


def quick(x: Tensor, y: Tensor, mask: Tensor) -> None:
    tx.exp(x), tx.round(x), tx.add(x, y), tx.add(x, 2.5), tx.maximum(0.0, x), tx.subtract(1, x)
    tx.where(mask, x, 0.0), tx.where(mask, x, y)
    tx.sum(x), tx.sum(x, axis=0), tx.max(x, 0), tx.mean(x, keepdims=True)
    tx.clip(x, 0.5, 1.5), tx.matmul(x, y), tx.softmax(x)
    np.exp(x), np.add(x, y), np.maximum(x, 0.5)
    [*map(tx.exp, (x, y))], tx.exp(*[x]), tx.sum(*[x], **{"axis": 0})


def quick_methods(x: Tensor, indices: Tensor) -> None:
    x.sum(), x.reshape(-1), x.astype(tx.float32), x.copy(), x.pow(2), x.contiguous(), x.T.contiguous()
    x.take(indices), x.take(indices, 0), x.windows(0, 1), x.unstack(), x.broadcast_to((3, 2, 2)), x.index_add(0, indices, x), x.fill_(2)


def test_functions_and_methods_run_no_python_frame() -> None:
    x, y = tx.asarray([[1.0, 2.0], [3.0, 4.0]]), tx.asarray([[1.0, 0.0], [0.0, 1.0]])
    mask = (x > 2).realize()
    for _ in range(3):
        quick(x, y, mask)
    assert not frames(lambda: quick(x, y, mask))[1:]  # but for that of `quick`
    indices = tx.asarray([1, 0]).realize()
    for _ in range(3):
        quick_methods(x, indices)
    assert not frames(lambda: quick_methods(x, indices))[1:]
    with fastpath.disabled():
        assert len(frames(lambda: quick(x, y, mask))) > 30 < len(frames(lambda: quick_methods(x, indices)))


def test_functions_imported_before_the_fast_path_is_built_use_it() -> None:
    python(
        "-c",
        """
import sys
from tenxor import arange, exp, sum
import tenxor as tx
from tenxor import fastpath
x, held = arange(12.0), [exp, sum]
for _ in range(40):
    exp(x).realize(), sum(x).realize()
assert fastpath.state == "on" and tx.exp is exp is held[0] and tx.sum is sum is held[1]
met = []
sys.setprofile(lambda frame, event, _: met.append(frame.f_code.co_name) if event == "call" else None)
exp(x), held[0](x), held[1](x)
sys.setprofile(None)
assert met == [], met
""",
        env={**os.environ, "TENXOR_FAST_PATH": ""},
    )


def test_function_registered_later_uses_the_fast_path_at_once() -> None:
    asked: list[Any] = []
    made = make_patchable(lambda x: asked.append(x), "unary", OPS["negative"])
    try:
        x = tx.asarray([1.0, 2.0])
        (-x).realize()
        assert made(x).tolist() == [-1, -2] and not asked
        with fastpath.disabled():
            assert made(x) is None and len(asked) == 1
        assert made(x).tolist() == [-1, -2] and len(asked) == 1
        assert made([1.0]) is None and len(asked) == 2  # what is no tensor
    finally:
        patchable_functions.remove(made)


def test_disabled_removes_and_restores_vectorcall_entries_of_functions() -> None:
    def standing() -> list[int]:
        return [ctypes.c_ssize_t.from_address(id(function) + module._find_vectorcall_offset()).value for function in patchable_functions]

    ours = standing()
    with fastpath.disabled():
        assert not set(ours) & set(standing())
    assert (
        standing() == ours
        and len(patchable_functions) > 100
        and all(type(function) is PatchableFunction for function in patchable_functions)
    )


def test_errors_raised_by_argument_attributes_propagate(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        """A type that the fast path does not know."""

        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tx.exp(Refusing())  # type: ignore[arg-type]
    assert tx.exp(tx.zeros(1)).tolist() == [1.0]


@pytest.mark.parametrize("word", ["_TP_VECTORCALL_OFFSET", "TP_FLAGS_OFFSET"])
def test_wrong_function_layout_is_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, word, 32)
    with pytest.raises(LookupError, match="the vectorcall address of a function"):
        module._find_vectorcall_offset()
