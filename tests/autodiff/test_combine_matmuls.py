"""Gradients of a factor of many products: the products that make up the gradient become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.autodiff import backward_pass, replay
from tenxor.autodiff.combine_matmuls import MAX_SEPARATE_MATMULS, combine_matmuls
from tenxor.graph.node import Node

STEPS, ROWS, IN, OUT = 3 * MAX_SEPARATE_MATMULS, 2, 7, 5

# How a weight is used at a step, and NumPy's gradient by it, given what it is multiplied with and the cotangent of the product.
USES: dict[str, tuple[tuple[int, ...], Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "x @ w": ((IN, OUT), lambda x, w: x @ w, lambda x, g: x.T @ g),
    "x @ w.T": ((OUT, IN), lambda x, w: x @ w.T, lambda x, g: g.T @ x),
    "w @ x.T": ((OUT, IN), lambda x, w: (w @ x.T).T, lambda x, g: g.T @ x),
    "reversed": ((IN, OUT), lambda x, w: x @ w[::-1, ::-1], lambda x, g: (x.T @ g)[::-1, ::-1]),
    "einsum": ((OUT, IN), lambda x, w: tx.einsum("ri,oi->ro", x, w), lambda x, g: np.einsum("ro,ri->oi", g, x)),
}


def weight_and_factors(name: str, dtype: Any = np.float64) -> tuple[Any, list[Any], list[Any], Any]:
    """Return a weight, its factor at each step, the factors of the results, and its gradient by NumPy."""
    shape, _, pulled = USES[name]
    rng = np.random.default_rng(5)
    w = rng.normal(size=shape).astype(dtype)
    each = [rng.normal(size=(ROWS, IN)).astype(dtype) for _ in range(STEPS)]
    weights = [rng.normal(size=(ROWS, OUT)).astype(dtype) for _ in range(STEPS)]
    return w, each, weights, sum([pulled(x, g) for x, g in zip(each, weights, strict=True)])


def gradient(name: str, w: Any, each: list[Any], weights: list[Any]) -> Any:
    """Return the same gradient by Tenxor."""
    _, use, _ = USES[name]
    given = [tx.asarray(x) for x in each]
    others = [tx.asarray(g) for g in weights]
    return tx.grad(lambda w: sum([(use(x, w) * g).sum() for x, g in zip(given, others, strict=True)]))(tx.asarray(w))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record the numbers of cotangents before and after products were joined, where they differ."""
    found: list[tuple[int, int]] = []

    def counted(parts: Any) -> Any:
        left = combine_matmuls(parts)
        if len(left) != len(parts):
            found.append((len(parts), len(left)))
        return left

    monkeypatch.setattr(backward_pass, "combine_matmuls", counted)
    replay._recording_cache.clear()  # what was found before is not asked for again
    return found


@pytest.mark.parametrize("name", list(USES))
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_gradient_of_a_weight_used_at_each_step_is_one_product(name: str, dtype: Any, seen: list[tuple[int, int]]) -> None:
    w, each, weights, wanted = weight_and_factors(name)
    if dtype is np.complex128:
        w, each, weights = w + 0j, [x + 0j for x in each], [g + 0j for g in weights]
        _, use, _ = USES[name]
        pairs = list(zip(map(tx.asarray, each), map(tx.asarray, weights), strict=True))
        found = tx.grad(lambda w: sum([(use(x, w) * g).sum().real for x, g in pairs]))(tx.asarray(w))
    else:
        found = gradient(name, *[w.astype(dtype), [x.astype(dtype) for x in each], [g.astype(dtype) for g in weights]])
    assert np.allclose(found.to_numpy(), wanted, rtol=1e-5 if dtype is np.float32 else 1e-12)
    if dtype is not np.complex128:
        assert (STEPS, 1) in seen


def test_gradient_of_a_long_recurrence_matches_differences() -> None:
    """The tape of the recurrence has many segments."""
    rng = np.random.default_rng(1)
    w, x = rng.normal(size=(6, 6)) / 3.0, rng.normal(size=(4, 6))

    def last(w: Any, x: Any, tanh: Any) -> Any:
        for _ in range(300):
            x = tanh(x @ w) + 0.1 * x
        return (x * x).sum()

    found = tx.grad(lambda w: last(w, tx.asarray(x), tx.tanh))(tx.asarray(w)).to_numpy()
    along = rng.normal(size=w.shape)
    by_difference = (last(w + 1e-6 * along, x, np.tanh) - last(w - 1e-6 * along, x, np.tanh)) / 2e-6
    assert np.isclose((found * along).sum(), by_difference, rtol=1e-6)


def test_combined_products_have_second_derivatives() -> None:
    rng = np.random.default_rng(2)
    w, each = tx.asarray(rng.normal(size=(4, 4))), [tx.asarray(rng.normal(size=(2, 4))) for _ in range(2 * MAX_SEPARATE_MATMULS)]

    def f(w: Any) -> Any:
        return sum([((x @ w) ** 3).sum() for x in each])

    found = tx.grad(lambda w: (tx.grad(f)(w) ** 2).sum())(w)
    eps, along = 1e-6, rng.normal(size=(4, 4))
    shifted = [(tx.grad(f)(tx.asarray(w.to_numpy() + s * eps * along)) ** 2).sum().item() for s in (1, -1)]
    assert np.isclose((found.to_numpy() * along).sum(), (shifted[0] - shifted[1]) / (2 * eps), rtol=1e-6)


def test_combined_products_are_correct_inside_vmap_and_jvp() -> None:
    rng = np.random.default_rng(3)
    ws, each = rng.normal(size=(3, 4, 2)), [tx.asarray(rng.normal(size=(2, 4))) for _ in range(2 * MAX_SEPARATE_MATMULS)]

    def f(w: Any) -> Any:
        return sum([((x @ w) ** 2).sum() for x in each])

    wanted = np.stack([2 * sum([x.to_numpy().T @ (x.to_numpy() @ w) for x in each]) for w in ws])
    assert np.allclose(tx.vmap(tx.grad(f))(tx.asarray(ws)).to_numpy(), wanted)
    along = rng.normal(size=(4, 2))
    _, slope = tx.jvp(tx.grad(f), [tx.asarray(ws[0])], [tx.asarray(along)])
    assert np.allclose(slope.to_numpy(), 2 * sum([x.to_numpy().T @ (x.to_numpy() @ along) for x in each]))


def test_only_products_smaller_than_their_result_are_combined() -> None:
    rng = np.random.default_rng(4)
    parts: list[Any] = []
    for rows in (1, 100):
        nodes: list[Node] = [
            (tx.asarray(rng.normal(size=(rows, 8))).T @ tx.asarray(rng.normal(size=(rows, 8)))).storage.node
            for _ in range(2 * MAX_SEPARATE_MATMULS)
        ]
        parts.append([backward_pass.NodeView(node) for node in nodes])
    few, many = parts
    assert len(combine_matmuls(few)) == 1
    assert combine_matmuls(many) == many
    sums = [backward_pass.NodeView((tx.asarray(rng.normal(size=8)) * 2.0).storage.node) for _ in range(2 * MAX_SEPARATE_MATMULS)]
    assert combine_matmuls(sums) == sums
    assert combine_matmuls(few[:MAX_SEPARATE_MATMULS]) == few[:MAX_SEPARATE_MATMULS]


def test_reshaped_or_sliced_sums_of_products_are_not_combined() -> None:
    """The axes of such a sum are not those of the product."""
    rng = np.random.default_rng(6)
    n, kept, summed = 2 * MAX_SEPARATE_MATMULS, 8, 3
    pairs = [[tx.asarray(rng.normal(size=(1, 1, k, summed))).expand((5, 2, 7, summed)) for k in (7, 1)] for _ in range(n)]
    rows = [[tx.asarray(rng.normal(size=(k, 1, 2))).expand((k, kept, 2)) for k in (6, 6)] for _ in range(n)]
    for given in (
        [(a * b).reshape(10, 7, summed).sum(-1) for a, b in pairs],
        [(a * b)[1:].sum(-1) for a, b in rows],
        [(a * b).reshape(6 * kept, 2).sum(-1) for a, b in rows],
    ):
        _, back = tx.vjp(lambda w: (lambda y: (y,) * n)(w * 1.0), tx.zeros(given[0].shape))
        found = back(tuple(given))[0].to_numpy()
        assert np.allclose(found, sum([g.to_numpy() for g in given]))
