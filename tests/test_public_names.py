"""Test that `dir`, `help` and `import *` show the public names of every public module, and no imports or helpers."""

from __future__ import annotations

import inspect
import pydoc
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import tenxor as tx


def public_modules(module: ModuleType) -> Iterator[ModuleType]:
    """Yield `module`, and the public modules reached from it by public names."""
    yield module
    for name in module.__all__:
        member = getattr(module, name)
        if isinstance(member, ModuleType) and member is not module:
            yield from public_modules(member)


MODULES = {module.__name__: module for module in public_modules(tx)}


def test_public_modules_are_those_that_users_import() -> None:
    places = ("data", "errors", "fft", "files", "layout", "linalg", "nn", "nn.functional", "nn.init", "optim", "random", "show")
    assert MODULES.keys() == {"tenxor", *[f"tenxor.{place}" for place in places]}


@pytest.mark.parametrize("name", MODULES)
def test_dir_lists_public_names_alone(name: str) -> None:
    module = MODULES[name]
    shown = [name for name in dir(module) if not (name.startswith("__") and name.endswith("__"))]
    public = [name for name in module.__all__ if not name.startswith("__")]
    assert shown == sorted(set(public)) and len(public) == len(set(public))
    assert {"__name__", "__doc__", "__all__", "__file__"} <= set(dir(module))
    assert not [name for name in shown if name.startswith("_")]


@pytest.mark.parametrize("name", MODULES)
def test_star_import_binds_exactly_the_public_names(name: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {name} import *", names)
    del names["__builtins__"]
    assert sorted(names) == sorted(MODULES[name].__all__)
    assert all(names[key] is getattr(MODULES[name], key) for key in names)


@pytest.mark.parametrize("name", MODULES)
def test_public_names_are_of_this_package_and_documented(name: str) -> None:
    module = MODULES[name]
    assert inspect.getdoc(module)
    for key in module.__all__:
        member = getattr(module, key)
        if isinstance(member, ModuleType):
            assert member.__name__ in MODULES, key
        elif callable(member) and not isinstance(member, tx.DType):
            assert inspect.getdoc(member), key
            assert str(getattr(member, "__module__", None) or type(member).__module__).startswith("tenxor"), key


@pytest.mark.parametrize("name", MODULES)
def test_help_lists_no_names_that_the_module_imports(name: str) -> None:
    module = MODULES[name]
    text = pydoc.plain(pydoc.render_doc(module))
    data = text.partition("\nDATA\n")[2].partition("\n\n")[0]
    listed = set(re.findall(r"^    (\w+)(?: = |: )", data, flags=re.MULTILINE))
    assert {name for name in listed if not name.startswith("__")} <= {*module.__all__}


def test_internal_modules_are_not_in_dir() -> None:
    internal = {path.stem for path in Path(tx.__file__).parent.iterdir()} - {*tx.__all__}
    assert {"graph", "lowering", "runtime", "api", "target"} <= internal
    assert not internal & {*dir(tx)} - {"__init__", "__main__", "__pycache__"}
    assert tx.lowering is sys.modules["tenxor.lowering"]  # internal modules stay reachable as attributes


def test_errors_that_a_pending_result_raises_are_public() -> None:
    assert {error.__name__ for error in tx.errors.EVALUATION_ERRORS} - {"MemoryError"} <= {*tx.errors.__all__}
