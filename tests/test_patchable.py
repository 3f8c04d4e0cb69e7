"""Test that functions which machine code may replace look like Python functions to inspection."""

from __future__ import annotations

import copy
import doctest
import functools
import inspect
import pickle
import pydoc
import typing
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

import tenxor as tx
from tenxor._utils import upcalls
from tenxor._utils.patchable import PatchableFunction, make_patchable, patchable_functions
from tenxor.api import elementwise, reduction_functions

pytestmark = pytest.mark.usefixtures("machine_code")
FUNCTIONS = (tx.exp, tx.add, tx.where, tx.round, tx.sum, tx.clip, tx.matmul, tx.softmax, tx.linalg.inv, tx.fft.fft, tx.conv2d)


def told(x: Any, kind: int, /, *, name: str = "a", **others: Any) -> tuple[Any, ...]:
    """Return the arguments."""
    return x, kind, name, others


@pytest.mark.parametrize("function", FUNCTIONS)
def test_frameless_function_looks_like_the_function_that_it_wraps(function: Any) -> None:
    original = inspect.unwrap(function)
    assert type(function) is PatchableFunction and inspect.isfunction(original) and inspect.isfunction(function) and callable(function)
    assert function.__wrapped__ is function.func
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
        assert getattr(function, name) == getattr(original, name), name
    assert function.__code__ is function.func.__code__ and function.__globals__ is function.func.__globals__
    assert inspect.signature(function) == inspect.signature(original) and inspect.getsource(function) == inspect.getsource(original)
    assert typing.get_type_hints(function) == typing.get_type_hints(original)
    assert pydoc.plain(pydoc.render_doc(function)).split("\n")[2].startswith(f"{function.__name__}(")
    assert repr(function).startswith(f"<function {function.__name__} at 0x")
    with pytest.raises(AttributeError):
        function.nothing


@pytest.mark.parametrize("function", FUNCTIONS)
def test_copy_and_unpickled_patchable_function_are_the_function_itself(function: Any) -> None:
    assert all([pickle.loads(pickle.dumps(function, protocol)) is function for protocol in range(pickle.HIGHEST_PROTOCOL + 1)])
    assert copy.copy(function) is function and copy.deepcopy([function]) == [function]
    assert weakref.ref(function)() is function and len({function, function}) == 1


def test_frameless_function_can_be_wrapped_bound_and_given_attributes() -> None:
    function: Any = make_patchable(told, "unary", None)
    try:
        wrapper = functools.wraps(function)(lambda *args: function(*args))
        assert wrapper.__name__ == "told" and inspect.signature(wrapper) == inspect.signature(told) and wrapper(1, 2) == (1, 2, "a", {})
        assert functools.partial(function, 1)(2, b=3) == (1, 2, "a", {"b": 3}) == function(*(1, 2), **{"b": 3})
        assert type("One", (), {"method": function})().method(7)[1] == 7
        assert list(map(function, (1, 2), (3, 4))) == [(1, 3, "a", {}), (2, 4, "a", {})]
        function.note = "written"
        assert function.note == "written" and not hasattr(told, "note")
        for call in (lambda: function(), lambda: function(1, kind=2), lambda: function(1)):
            with pytest.raises(TypeError, match=r"^told\(\) "):
                call()
    finally:
        patchable_functions.remove(function)


def test_fast_path_gets_each_new_patchable_function(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[Any] = []
    monkeypatch.setattr(upcalls, "installed", SimpleNamespace(set_vectorcall_entry=registered.append))
    function = make_patchable(told, "unary", None)
    try:
        assert registered == [function]
    finally:
        patchable_functions.remove(function)


@pytest.mark.parametrize("module", [elementwise, reduction_functions])
def test_doctest_finds_examples_of_frameless_functions(module: Any) -> None:
    names = {test.name.rpartition(".")[2] for test in doctest.DocTestFinder(exclude_empty=False).find(module)}
    assert names >= {getattr(module, name).__name__ for name in module.__all__}
