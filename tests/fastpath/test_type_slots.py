"""Operators that machine code implements in the slots of the type: like the methods, for all operands, and without lost references."""

from __future__ import annotations

import ctypes
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.fastpath.type_slots import BINARY_SLOT_OFFSETS as _BINARY
from tenxor.fastpath.type_slots import SLOT_LOCATIONS, TP_AS_NUMBER_OFFSET, _view_slot
from tenxor.tensor import Tensor
from tests.fastpath.outcomes import lose_no_reference, seen

pytestmark = pytest.mark.usefixtures("on")
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor", "lshift", "rshift", "pow")
UNARY = ("neg", "pos", "abs", "invert")
IN_PLACE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift")
COMPARED = ("lt", "le", "eq", "ne", "gt", "ge")


class Other:
    """An operand of another type."""

    def __add__(self, other: Any) -> str:
        return "before"

    def __radd__(self, other: Any) -> str:
        return "after"

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "an object"


def operands() -> dict[str, Any]:
    x = tx.asarray([[6, 1, 2], [3, 4, 5]]).realize()
    return {
        **{"x": x, "same": x, "row": x[0], "pending": x + 1, "float": x * 0.5, "one": x[1, 1], "four": tx.ones(4), "truth": x > 2},
        **{"2": 2, "2.5": 2.5, "True": True, "1j": 1j, "2**80": 2**80, "array": np.arange(3), "scalar": np.float64(2), "list": [1, 2, 3]},
        **{"text": "a", "None": None, "object": Other(), "slice": slice(1), "tuple": (0, 1), "beyond": 9, "none of them": tx.zeros(0)},
    }


def calls() -> Iterator[tuple[str, Callable[[dict[str, Any]], Any]]]:
    names = tuple(operands())
    for one in ("x", "float", "one"):
        for other in names:
            for how in (*BINARY, *COMPARED):
                op = getattr(operator, how)
                yield f"{how} {one} {other}", lambda its, op=op, one=one, other=other: op(its[one], its[other])
                yield f"{how} {other} {one}", lambda its, op=op, one=one, other=other: op(its[other], its[one])
            for how in IN_PLACE:
                op = getattr(operator, f"i{how}")
                yield f"i{how} {one} {other}", lambda its, op=op, one=one, other=other: op(its[one] + 0, its[other])
            yield f"{one}[{other}]", lambda its, one=one, other=other: its[one][its[other]]
            yield f"{one}[0] = {other}", lambda its, one=one, other=other: written(its[one] + 0, 0, its[other])
            yield f"{one}[{other}] = 1", lambda its, one=one, other=other: written(its[one] + 0, its[other], 1)
    for name in names:
        yield f"bool {name}", lambda its, name=name: bool(its[name])
        yield f"int {name}", lambda its, name=name: int(its[name])
        yield f"float {name}", lambda its, name=name: float(its[name])
        for how in UNARY:
            yield f"{how} {name}", lambda its, how=how, name=name: getattr(operator, how)(its[name])
        yield f"del {name}[0]", lambda its, name=name: operator.delitem(its[name], 0) if name != "list" else None
        yield f"list {name}", lambda its, name=name: [str(each) for each in its[name]] if name != "object" else None


def written(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


def test_operators_match_python_values_and_errors() -> None:
    with fastpath.disabled():
        wanted = [seen(call, operands()) for _, call in calls()]
    for _ in range(3):
        its = operands()
        for (said, call), expected in zip(calls(), wanted, strict=True):
            assert seen(call, its) == expected, said


def test_operators_keep_reference_counts() -> None:
    lose_no_reference([call for _, call in calls()], operands())


def test_subclasses_use_their_own_operators() -> None:
    class Plain(Tensor):
        __slots__ = ()

    class Named(Tensor):
        __slots__ = ()

        def __add__(self, other: Any) -> Any:
            return "added"

        def __radd__(self, other: Any) -> Any:
            return "added to"

        def __getitem__(self, key: Any) -> Any:
            return "item", key

        def __lt__(self, other: Any) -> Any:
            return "less"

        def __bool__(self) -> bool:
            return False

        def __setitem__(self, key: Any, value: Any) -> None:
            raise KeyError(key)

    x = tx.asarray([1.0, 2.0])
    for _ in range(3):
        plain, named = (cls._from_node(x.node) for cls in (Plain, Named))
        assert (plain + x).tolist() == [2, 4] and plain[1].item() == 2 and [float(v) for v in plain] == [1, 2]
        assert (named + x, x + named, 1 + named, named[0], named < x) == ("added", "added to", "added to", ("item", 0), "less")
        assert not named
        with pytest.raises(KeyError):
            named[0] = 1.0
    assert x.tolist() == [1, 2]


def test_reflected_operator_of_a_subclass_goes_first() -> None:
    """The first operand's method is called, unless the class of the second derives from that class and overrides the reflected method."""

    class Plain(Tensor):
        __slots__ = ()

    class After(Tensor):
        __slots__ = ()

        def __radd__(self, other: Any) -> Any:
            return "after", super().__radd__(other).tolist()

    class Before(Plain):
        __slots__ = ()

        def __add__(self, other: Any) -> Any:
            return "before", super().__add__(other).tolist()

    def program() -> list[Any]:
        x = tx.asarray([1.0, 2.0])
        others = [cls._from_node(x.node) for cls in (Tensor, Plain, After, Before)]
        pairs = [(a, b) for a in others for b in (*others, 3.0)] + [(3.0, b) for b in others]
        found = [how(a, b) for a, b in pairs for how in (operator.add, operator.mul)]
        return [(type(each).__name__, each if type(each) is tuple else each.tolist()) for each in found]

    with fastpath.disabled():
        wanted = program()
    assert [program() for _ in range(3)] == [wanted] * 3
    for cls in (Tensor, Plain):
        assert _view_slot(cls, TP_AS_NUMBER_OFFSET, _BINARY["add"]).value == fastpath.fast_path.library["slot_add"]  # type: ignore[union-attr]


def test_methods_assigned_to_tensor_replace_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tx.asarray([1.0, 2.0])
    with monkeypatch.context() as m:
        m.setattr(Tensor, "__add__", lambda x, y: "another")
        m.setattr(Tensor, "__getitem__", lambda x, key: "another item")
        assert (x + x, x[0]) == ("another", "another item")
    assert (x + x).tolist() == [2, 4] and x[0].item() == 1
    fastpath.fast_path.install()  # type: ignore[union-attr]  # which that has undone in part


def test_disabled_removes_and_restores_operator_slots() -> None:
    def standing() -> list[int | None]:
        numbers = [("", TP_AS_NUMBER_OFFSET, entry) for entry in _BINARY.values()]
        return [_view_slot(Tensor, table, entry).value for _, table, entry in (*SLOT_LOCATIONS.values(), *numbers)]

    ours = standing()
    with fastpath.disabled():
        assert not set(ours) & set(standing())
        assert (tx.asarray([1.0]) + 1)[0].item() == 2
    assert standing() == ours


def test_iteration_over_a_tensor_ends_and_sees_writes_made_meanwhile() -> None:
    for _ in range(3):
        x = tx.asarray([1.0, 2.0, 3.0])
        met = []
        for k, each in enumerate(x):
            met.append(each.item())
            if k == 0:
                x[1] = 7.0  # is seen, as elements are read one by one
        assert met == [1, 7, 3]
        assert [row.tolist() for row in tx.asarray([[1], [2]])] == [[1], [2]] and list(tx.zeros((0, 2))) == []
    get = ctypes.pythonapi.PySequence_GetItem
    get.restype, get.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_ssize_t)
    assert get(x, -1).item() == 3
    for k in (3, -4):
        with pytest.raises(IndexError):
            get(x, k)


def test_squares_run_no_python() -> None:
    x = tx.asarray([[6, 1, 2], [3, 4, 5]]).realize()
    squared = (lambda: x**2, lambda: (x * 0.5)[1] ** 2, lambda: x[1, 1] ** 2)
    for make in squared:
        for _ in range(3):
            make()
        met: list[str] = []
        sys.setprofile(lambda frame, event, _, met=met: met.append(frame.f_code.co_name) if event == "call" else None)
        try:
            make()
        finally:
            sys.setprofile(None)
        assert met == ["<lambda>"]
    assert [make().tolist() for make in squared] == [[[36, 1, 4], [9, 16, 25]], [2.25, 4.0, 6.25], 16]
    truth = x > 2
    assert (truth**2).dtype is tx.asarray([True]).__pow__(2).dtype and (truth**2).tolist() == [[1, 0, 0], [1, 1, 1]]
