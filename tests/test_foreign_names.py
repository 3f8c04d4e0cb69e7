"""Test names of other libraries: aliases of our functions, advice for missing names, and the pages that list them."""

from __future__ import annotations

import math
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor._utils.foreign_names import OUR_FUNCTION_BY_ALIAS
from tenxor._utils.foreign_replacements import MODULE_ADVICE, PACKAGE_ADVICE, TENSOR_ADVICE, UFUNC_METHOD_ADVICE
from tenxor.errors import UnknownAttribute

ROOT = Path(__file__).parents[1]
ADVICE_TABLES = {"tx": PACKAGE_ADVICE, "x": TENSOR_ADVICE} | {
    f"tx.{place}": told for place, told in (MODULE_ADVICE | UFUNC_METHOD_ADVICE).items()
}
ADVICE = {f"{place}.{name}": told for place, its in ADVICE_TABLES.items() for name, told in its.items()}
OBJECTS = {"x": tx.zeros(2), "tx.nn.Module": tx.nn.Linear(1, 1), "tx.random": tx.random.Generator(0)}


def look_up(path: str) -> Any:
    value: Any = tx
    for part in filter(None, path.split(".")):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", OUR_FUNCTION_BY_ALIAS)
def test_alternative_name_is_the_same_function(name: str) -> None:
    assert getattr(tx, name) is look_up(OUR_FUNCTION_BY_ALIAS[name]) and callable(getattr(tx, name))
    assert name not in tx.__all__ and name not in PACKAGE_ADVICE


@pytest.mark.parametrize("name", [name for name in OUR_FUNCTION_BY_ALIAS if isinstance(getattr(np, name, None), np.ufunc)])
def test_alternative_name_gives_the_results_of_the_numpy_ufunc(name: str) -> None:
    ufunc = getattr(np, name)
    drawn = np.random.default_rng(0).uniform(0.1, 0.9, (ufunc.nin, 5))
    takes_integers = not any("d" in kinds for kinds in ufunc.types)
    arguments = (drawn * 20).astype(np.int64) if takes_integers else drawn + (name == "arccosh")
    np.testing.assert_allclose(getattr(tx, name)(*map(tx.asarray, arguments)).to_numpy(), ufunc(*arguments), rtol=1e-12)


def test_functions_by_numpy_names_give_the_results_of_numpy() -> None:
    x = np.random.default_rng(1).normal(size=(3, 3)) + 3 * np.eye(3)
    t = tx.asarray(x)
    assert tx.row_stack([t, t]).tolist() == np.vstack([x, x]).tolist() and tx.identity(2).tolist() == np.identity(2).tolist()
    assert tx.promote_types(tx.int8, tx.uint8) == np.promote_types(np.int8, np.uint8)
    for name in ("inv", "det", "pinv", "cholesky"):
        y = x @ x.T if name == "cholesky" else x
        np.testing.assert_allclose(getattr(tx, name)(tx.asarray(y)).to_numpy(), getattr(np.linalg, name)(y), rtol=1e-10)


@pytest.mark.parametrize("spelled", ADVICE)
def test_advice_for_a_missing_name_names_existing_functions(spelled: str) -> None:
    owner, _, name = spelled.rpartition(".")
    with pytest.raises(UnknownAttribute, match=re.escape(ADVICE[spelled])):
        getattr(OBJECTS[owner] if owner in OBJECTS else look_up(owner.removeprefix("tx").removeprefix(".")), name)
    for path in re.findall(r"\btx\.([\w.]*\w)", ADVICE[spelled]):
        assert look_up(path) is not None
    for path in re.findall(r"\bx\.(\w+)", ADVICE[spelled]):
        assert hasattr(tx.zeros((2, 2), dtype=tx.complex64), path)


@pytest.mark.parametrize("name", ["kron", "cov", "nansum"])
def test_missing_function_that_numpy_runs_on_tensors_names_it(name: str) -> None:
    with pytest.raises(UnknownAttribute, match=rf"use np\.{name}, which gives tensors for tensors"):
        getattr(tx, name)


def test_random_module_names_what_to_write_for_a_missing_distribution() -> None:
    for name in ("poisson", "standard_normal", "default_rng"):
        with pytest.raises(UnknownAttribute, match=re.escape(MODULE_ADVICE["random"][name])):
            getattr(tx.random, name)
    with pytest.raises(AttributeError, match="'Generator' object has no attribute 'poison'"):
        OBJECTS["tx.random"].poison


def test_module_with_a_failing_property_raises_the_error_of_the_property() -> None:
    class Broken(tx.nn.Module):
        @property
        def weight(self) -> Any:
            return self.missing  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'Broken' object has no attribute 'missing'"):
        Broken().weight


@pytest.mark.parametrize("method", ["reduce", "accumulate", "at", "outer", "reduceat"])
@pytest.mark.parametrize("function", ["add", "hypot", "bitwise_or", "exp"])
def test_ufunc_method_names_the_numpy_ufunc_that_takes_tensors(function: str, method: str) -> None:
    with pytest.raises(UnknownAttribute, match=rf"tx\.{function} has no attribute '{method}'; use .*np\.{function}\.{method}\(\.\.\.\)"):
        getattr(getattr(tx, function), method)


def test_name_that_the_package_has_is_named_by_its_other_modules() -> None:
    for module, name in ((tx.linalg, "einsum"), (tx.fft, "einsum"), (tx.nn.functional, "einsum"), (tx.random, "arange")):
        with pytest.raises(UnknownAttribute, match=rf"use tx\.{name}$"):
            getattr(module, name)


def test_misspelt_name_of_a_module_names_the_nearest() -> None:
    slips = ((tx.linalg, "choleski", "linalg.cholesky"), (tx.fft, "rffft", "fft.rfft"), (tx.optim, "Adamm", "optim.Adam"))
    for module, name, near in slips:
        with pytest.raises(UnknownAttribute, match=rf"did you mean tx\.{near}\?"):
            getattr(module, name)


def test_formulas_for_missing_distributions_have_their_means() -> None:
    scope = {"tx": tx, "shape": (20_000,), "scale": 2.0, "loc": 1.0, "a": 3.0, "p": 0.25, "n": 8, "mean": 0.0, "sigma": 0.5, "math": math}
    means = {"exponential": 2.0, "geometric": 4.0, "gumbel": 1.0 + 2.0 * 0.5772, "lognormal": math.exp(0.125), "pareto": 0.5}
    means |= {"power": 0.75, "rayleigh": 2.0 * math.sqrt(math.pi / 2), "weibull": math.gamma(4 / 3), "binomial": 2.0, "bernoulli": 0.25}
    tx.random.seed(1)
    for name, mean in means.items():
        drawn = eval(MODULE_ADVICE["random"][name], scope)
        assert drawn.shape == (20_000,) and abs(tx.astype(drawn, tx.float64).mean().item() - mean) < 0.05, name


def test_linear_algebra_name_in_the_top_module_names_its_module() -> None:
    for name in tx.linalg.__all__:
        assert hasattr(tx, name) or f"tx.linalg.{name}" in PACKAGE_ADVICE[name]


def test_generated_pages_and_stub_are_up_to_date() -> None:
    for path, text in runpy.run_path(str(ROOT / "tools/coming_from.py"))["WRITTEN"].items():
        assert path.read_text(encoding="utf-8") == text(), "run `python tools/coming_from.py`"
