"""Other libraries' names for what is here: the same functions, or advice; and the pages that list them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import UnknownAttribute
from tenxor.spellings import IN_THE_MODULE, ON_TENSORS, OTHERWISE, SAME

ROOT = Path(__file__).parents[1]
ADVICE = {**{f"tx.{name}": told for name, told in IN_THE_MODULE.items()}, **{f"x.{name}": told for name, told in ON_TENSORS.items()}}


def named(path: str) -> Any:
    found: Any = tx
    for part in path.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", SAME)
def test_another_name_is_the_same_function(name: str) -> None:
    assert getattr(tx, name) is named(SAME[name]) and callable(getattr(tx, name))
    assert name not in tx.__all__ and name not in IN_THE_MODULE


@pytest.mark.parametrize("name", [name for name in SAME if isinstance(getattr(np, name, None), np.ufunc)])
def test_it_is_what_numpy_calls_so(name: str) -> None:
    theirs = getattr(np, name)
    drawn = np.random.default_rng(0).uniform(0.1, 0.9, (theirs.nin, 5))
    takes_integers = not any("d" in kinds for kinds in theirs.types)
    given = (drawn * 20).astype(np.int64) if takes_integers else drawn + (name == "arccosh")
    np.testing.assert_allclose(getattr(tx, name)(*map(tx.asarray, given)).to_numpy(), theirs(*given), rtol=1e-12)


def test_other_functions_by_numpys_names() -> None:
    x = np.random.default_rng(1).normal(size=(3, 3)) + 3 * np.eye(3)
    t = tx.asarray(x)
    assert tx.row_stack([t, t]).tolist() == np.vstack([x, x]).tolist() and tx.identity(2).tolist() == np.identity(2).tolist()
    assert tx.promote_types(tx.int8, tx.uint8) == np.promote_types(np.int8, np.uint8)
    for name in ("inv", "det", "pinv", "cholesky"):
        y = x @ x.T if name == "cholesky" else x
        np.testing.assert_allclose(getattr(tx, name)(tx.asarray(y)).to_numpy(), getattr(np.linalg, name)(y), rtol=1e-10)


@pytest.mark.parametrize("spelled", ADVICE)
def test_advice_is_for_what_is_not_there_and_names_what_is(spelled: str) -> None:
    owner, name = spelled.split(".")
    with pytest.raises(UnknownAttribute, match=re.escape(ADVICE[spelled])):
        getattr(tx if owner == "tx" else tx.zeros(2), name)
    for path in re.findall(r"\btx\.([\w.]*\w)", ADVICE[spelled]):
        assert named(path) is not None
    for path in re.findall(r"\bx\.(\w+)", ADVICE[spelled]):
        assert hasattr(tx.zeros((2, 2), dtype=tx.complex64), path)


@pytest.mark.parametrize("name", ["kron", "cov", "nansum"])
def test_functions_that_numpy_calls_with_tensors_are_told(name: str) -> None:
    with pytest.raises(UnknownAttribute, match=rf"use np\.{name}, which gives tensors for tensors"):
        getattr(tx, name)


def test_where_a_function_for_matrices_is_is_told() -> None:
    for name in tx.linalg.__all__:
        assert hasattr(tx, name) or f"tx.linalg.{name}" in IN_THE_MODULE[name]


def test_what_means_something_else_is_there() -> None:
    assert all(callable(getattr(tx, name)) for name in OTHERWISE)


def test_the_pages_and_the_stub_are_those_of_the_table() -> None:
    for path, text in runpy.run_path(str(ROOT / "tools/coming_from.py"))["WRITTEN"].items():
        assert path.read_text(encoding="utf-8") == text(), "run `python tools/coming_from.py`"
