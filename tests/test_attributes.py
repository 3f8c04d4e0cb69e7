"""Attributes that tensors lack, and lazy attributes; with and without the fast path."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys

import pytest

import tenxor as tx
from tenxor.errors import UnknownAttribute
from tenxor.layout import Layout

pytestmark = pytest.mark.usefixtures("machine_code")
TOLD = {"roll": "tx.roll(x, ...)", "absolute": "tx.absolute(x, ...)", "masked_fill": "tx.where(mask, value, x)"}


@pytest.mark.parametrize("name", TOLD)
def test_missing_attribute_error_names_the_replacement(name: str) -> None:
    x = tx.zeros(2)
    with pytest.raises(UnknownAttribute, match=re.escape(f"a Tensor has no attribute {name!r}; use") + ".*" + re.escape(TOLD[name])):
        getattr(x, name)
    assert not hasattr(x, name) and name not in dir(x)


def test_iterating_over_class_attributes_raises_nothing(machine_code: bool) -> None:
    members = {name: getattr(tx.Tensor, name) for name in dir(tx.Tensor)}
    assert "roll" in members or not machine_code
    for name in TOLD.keys() & members.keys():
        assert not callable(members[name]) and TOLD[name] in repr(members[name])


def test_unknown_attribute_raises_the_plain_attribute_error() -> None:
    x = tx.zeros(2)
    with pytest.raises(AttributeError, match=re.escape("'Tensor' object has no attribute 'unsqueezee'")) as caught:
        x.unsqueezee
    assert type(caught.value) is AttributeError and (caught.value.name, caught.value.obj is x) == ("unsqueezee", True)
    assert getattr(x, "float32", 3) == 3 and getattr(x, "__cuda_array_interface__", None) is None


def test_dir_lists_methods() -> None:
    assert {"reshape", "sum", "T", "layout", "spec", "storage"} <= set(dir(tx.zeros(2)))


def test_subclass_may_define_missing_attributes() -> None:
    class Rolling(tx.Tensor):
        def roll(self, by: int) -> tx.Tensor:
            return tx.roll(self, by)

    class Asking(tx.Tensor):
        def __getattr__(self, name: str) -> str:
            return f"no {name}"

    x = tx.arange(3)
    rolling = Rolling(x.storage, x.layout, x.dtype)
    assert rolling.roll(1).tolist() == [2, 0, 1] and "roll" in dir(rolling) and "masked_fill" not in dir(rolling)
    asking = Asking(x.storage, x.layout, x.dtype)
    assert (asking.quux, asking.roll) == ("no quux", "no roll")  # type: ignore[attr-defined]


def test_lazy_attributes_are_resolved_and_read_only() -> None:
    for x in (tx.ones((3, 4))[1:, ::2], (tx.ones((3, 4)) + 1).realize()[1:, ::2]):
        expected = Layout((2, 2), (4, 2), 4)
        assert x.layout == expected and x.layout is x.layout
        assert x.spec is x.spec and x.spec.layout.at(4) == expected and x.offset == 4
    for name in ("layout", "spec", "offset"):
        assert inspect.getdoc(getattr(tx.Tensor, name))
        with pytest.raises(UnknownAttribute, match="cannot be set"):
            setattr(tx.ones(2), name, None)


def test_fast_path_needs_no_getattr_method(machine_code: bool) -> None:
    assert any("__getattr__" in vars(cls) for cls in tx.Tensor.__mro__) is not machine_code


@pytest.mark.parametrize("short_way", ["0", "1"])
def test_python_suggests_similar_attribute_names(short_way: str) -> None:
    for meant, written in (("unsqueeze", "unsqueezee"), (None, "rolls")):
        program = f"import tenxor as tx\n(tx.ones(2) + 1).realize().{written}"
        given = {**os.environ, "TENXOR_SHORT_WAY": short_way}
        run = subprocess.run([sys.executable, "-c", program], env=given, capture_output=True, text=True, check=False)
        said = run.stderr.splitlines()[-1]
        suggested = rf"\. Did you mean.*\b{meant}\b.*" if meant else ""  # in words that change between versions of CPython
        assert re.fullmatch(f"AttributeError: 'Tensor' object has no attribute '{written}'{suggested}", said)
