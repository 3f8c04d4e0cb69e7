"""Operations that NumPy computes for few elements are called at once, when the fast path knows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.graph import spec
from tenxor.graph.spec import clear_templates

pytestmark = pytest.mark.usefixtures("on")
Array = np.ndarray[Any, Any]
# By the name in the table of what was made: ours, and NumPy's.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "api.sorting.sort": (tx.sort, np.sort),
    "api.sorting.argsort": (tx.argsort, lambda a: np.argsort(a, kind="stable")),
    "api.sorted_search.searchsorted": (lambda x: tx.searchsorted(x[0], x), lambda a: np.searchsorted(a[0], a)),
    "api.conditional.interp": (lambda x: tx.interp(x, x[0], x[1]), lambda a: np.interp(a, a[0], a[1])),
    "linalg.solving.inv": (tx.linalg.inv, np.linalg.inv),
    "linalg.solving.solve": (lambda x: tx.linalg.solve(x, x[0]), lambda a: np.linalg.solve(a, a[0])),
    "linalg.decompositions.qr": (tx.linalg.qr, np.linalg.qr),
    "linalg.decompositions.svd": (tx.linalg.svd, np.linalg.svd),
    "fft.rfft": (tx.fft.rfft, np.fft.rfft),
}


def matrix(seed: int) -> Array:
    """Return a matrix whose first row ascends."""
    found = np.random.default_rng(seed).normal(size=(5, 5))
    found[0] = np.sort(found[0])
    return found


@pytest.mark.parametrize("name", CASES)
def test_numpy_functions_are_recorded_and_equal_numpy(name: str) -> None:
    ours, theirs = CASES[name]
    for seed in range(4):
        a = matrix(seed)
        x = tx.asarray(a).realize()
        found, wanted = ours(x), theirs(a)
        for one, other in zip(*[(t,) if not isinstance(t, tuple) else t for t in (found, wanted)], strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-12, atol=1e-12)
        assert np.array_equal(x.numpy(), a)
    known = {**x.spec.call_templates, **x[0].spec.call_templates}
    assert any(isinstance(made, spec.NumpyCallTemplate | spec.DirectCallTemplate) for made in known[f"tenxor.{name}"].values())
    if isinstance(found, tuple):
        assert type(found) is type(ours(x))


def test_searchsorted_with_one_tensor_twice_is_distinguished() -> None:
    for seed in range(3):
        a, b = matrix(seed)[0], matrix(seed + 9)[1]
        x, y = tx.asarray(a).realize(), tx.asarray(b).realize()
        assert tx.searchsorted(x, x).tolist() == np.searchsorted(a, a).tolist()
        assert tx.searchsorted(x, y).tolist() == np.searchsorted(a, b).tolist()


def test_function_that_calls_a_recorded_function_stays_correct() -> None:
    """With one point, `interp` calls `searchsorted`, which is recorded by then."""
    clear_templates()
    x, point = tx.asarray(matrix(4)[0]).realize(), tx.asarray([0.5]).realize()
    for _ in range(3):
        assert tx.interp(x, point, x[:1]).tolist() == [x[0].item()] * 5


def test_singular_matrix_raises_at_every_call() -> None:
    good, bad = tx.asarray(matrix(0)).realize(), tx.zeros((5, 5)).realize()
    for _ in range(3):
        tx.linalg.inv(good)
        with pytest.raises(tx.errors.LinearAlgebraError, match="inv"):
            tx.linalg.inv(bad)


def test_grad_and_vmap_of_a_recorded_sort_are_correct() -> None:
    x = tx.asarray(matrix(1)[1]).realize()
    for _ in range(3):
        tx.sort(x)
    weights = tx.arange(5, dtype=tx.float64)
    slope = tx.grad(lambda t: (tx.sort(t) * weights).sum())(x)
    assert slope.tolist() == np.argsort(np.argsort(x.numpy())).tolist()
    rows = tx.asarray(matrix(2)).realize()
    assert np.array_equal(tx.vmap(tx.sort)(rows).numpy(), np.sort(rows.numpy()))


def test_each_sort_result_has_its_own_memory() -> None:
    x = tx.asarray(matrix(3)[1]).realize()
    found = [tx.sort(x) for _ in range(4)]
    found[-1][0] = 99.0
    assert [t[0].item() for t in found[:-1]] == [np.min(x.numpy())] * 3
