"""Test attributes that tensors do not have, and lazily computed ones, with and without machine code."""

from __future__ import annotations

import inspect
import os
import pickle
import re
import subprocess
import sys

import pytest

import tenxor as tx
from tenxor._utils import foreign_names
from tenxor.errors import UnknownAttribute
from tenxor.layout import Layout

pytestmark = pytest.mark.usefixtures("machine_code")
ADVICE = {"roll": "tx.roll(x, ...)", "absolute": "tx.absolute(x, ...)", "masked_fill": "tx.where(mask, value, x)"}


@pytest.mark.parametrize("name", ADVICE)
def test_name_that_is_no_tensor_method_raises_an_error_naming_the_replacement(name: str) -> None:
    x = tx.zeros(2)
    with pytest.raises(UnknownAttribute, match=re.escape(f"a Tensor has no attribute {name!r}; use") + ".*" + re.escape(ADVICE[name])):
        getattr(x, name)
    assert not hasattr(x, name) and name not in dir(x)


def test_every_name_in_dir_of_the_class_can_be_read_without_error(machine_code: bool) -> None:
    members = {name: getattr(tx.Tensor, name) for name in dir(tx.Tensor)}
    assert "roll" in members or not machine_code
    for name in ADVICE.keys() & members.keys():
        assert not callable(members[name]) and ADVICE[name] in repr(members[name])


def test_unknown_attribute_raises_a_plain_attribute_error() -> None:
    x = tx.zeros(2)
    with pytest.raises(AttributeError, match=re.escape("'Tensor' object has no attribute 'unsqueezee'")) as caught:
        x.unsqueezee
    assert type(caught.value) is AttributeError and (caught.value.name, caught.value.obj is x) == ("unsqueezee", True)
    assert getattr(x, "float32", 3) == 3 and getattr(x, "__cuda_array_interface__", None) is None


def test_dir_of_a_tensor_lists_methods_and_properties() -> None:
    assert {"reshape", "sum", "T", "layout", "spec", "storage"} <= set(dir(tx.zeros(2)))


def test_subclass_may_define_names_that_tensors_lack() -> None:
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


def test_layout_spec_and_offset_are_cached_and_cannot_be_set() -> None:
    for x in (tx.ones((3, 4))[1:, ::2], (tx.ones((3, 4)) + 1).realize()[1:, ::2]):
        expected = Layout((2, 2), (4, 2), 4)
        assert x.layout == expected and x.layout is x.layout
        assert x.spec is x.spec and x.spec.layout.at(4) == expected and x.offset == 4
    for name in ("layout", "spec", "offset"):
        assert inspect.getdoc(getattr(tx.Tensor, name))
        with pytest.raises(UnknownAttribute, match="cannot be set"):
            setattr(tx.ones(2), name, None)


def test_tensor_class_has_no_getattr_with_machine_code(machine_code: bool) -> None:
    assert any("__getattr__" in vars(cls) for cls in tx.Tensor.__mro__) is not machine_code


@pytest.mark.parametrize("fast_path", ["0", "1"])
def test_attribute_error_suggests_the_nearest_attribute(fast_path: str) -> None:
    for meant, written in (("unsqueeze", "unsqueezee"), (None, "rolls")):
        program = f"import tenxor as tx\n(tx.ones(2) + 1).realize().{written}"
        environment = {**os.environ, "TENXOR_FAST_PATH": fast_path}
        process = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
        message = process.stderr.splitlines()[-1]
        suggested = rf"\. Did you mean.*\b{meant}\b.*" if meant else ""  # in words that change between versions of CPython
        assert re.fullmatch(f"AttributeError: 'Tensor' object has no attribute '{written}'{suggested}", message)


def test_asking_whether_an_attribute_exists_builds_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not hasattr(tx, "roll_"), "imports what the first error needs"
    built: list[str] = []

    def note(*args: object) -> str:
        built.append("advice")
        return "the advice"

    monkeypatch.setattr(foreign_names, "advise_on_module_name", note)
    monkeypatch.setattr(foreign_names, "advise_on_ufunc_method", note)
    assert not hasattr(tx, "reshap") and not hasattr(tx.minimum, "accumulate") and not built
    for owner, name in ((tx, "reshap"), (tx.minimum, "accumulate")):
        with pytest.raises(UnknownAttribute) as caught:
            getattr(owner, name)
        error = pickle.loads(pickle.dumps(caught.value))
        assert "the advice" in str(caught.value) and "the advice" in repr(caught.value) and caught.value.fact == str(error)
    assert len(built) == 2, "each message is built once"
