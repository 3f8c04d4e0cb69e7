"""Custom functions, checkpoints, and operations that NumPy computes, each of which is one step of a derivative.

Both modes, batches, and nested batches are compared with the same function without them, or with its members one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DerivativeError, DTypeError
from tenxor.graph.node import _recipes

L = tx.linalg


def numbers(*shape: int, seed: int = 0) -> Any:
    return tx.asarray(np.random.default_rng([seed, *shape]).uniform(0.5, 1.5, shape))


def definite(*shape: int) -> Any:
    x = numbers(*shape)
    return (x @ x.mT + tx.eye(shape[-1])).realize()


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy(), rtol=1e-9, atol=1e-11)


def members(function: Callable[..., Any], *batches: Any) -> Any:
    return tx.stack([function(*each) for each in zip(*batches, strict=True)])


cubed = tx.custom_derivative(lambda x: x * x * x, lambda g, value, x: 3 * x * x * g)
product = tx.custom_derivative(lambda x, y: (x * y, x + y), lambda g, value, x, y: (g[0] * y + g[1], g[0] * x + g[1]))


def plainly(x: Any, y: Any) -> Any:
    return x * y * y + x


def by_steps(x: Any, y: Any) -> Any:
    first, second = product(x, y)
    return first * y + second - y


# The same with steps of their own, and without.
PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "a function of one": (lambda x, y: cubed(x) * y, lambda x, y: x * x * x * y),
    "of several, with several results": (by_steps, plainly),
    "of another": (lambda x, y: cubed(product(x, y)[0]), lambda x, y: (x * y) ** 3),
    "the same twice": (lambda x, y: product(x, x)[0] * y, lambda x, y: x * x * y),
    "a view": (lambda x, y: cubed(x[::-1]) * y, lambda x, y: x[::-1] ** 3 * y),
    "a checkpoint": (lambda x, y: tx.checkpoint(plainly, x, y), plainly),
    "a checkpoint of what is made of what it captures": (lambda x, y: tx.checkpoint(lambda p: p * y, y * x), lambda x, y: x * y * y),
    "a checkpoint of two, one made of the other": (lambda x, y: tx.checkpoint(lambda p, q: p * q, x * y, y), lambda x, y: x * y * y),
    "a checkpoint that captures two": (lambda x, y: (lambda z: tx.checkpoint(lambda p: p * z * y, x))(y * y), lambda x, y: x * y**3),
    "a checkpoint in another": (
        lambda x, y: tx.checkpoint(lambda p: p * y, tx.checkpoint(lambda q: q * y, y * x)),
        lambda x, y: x * y**3,
    ),
    "a checkpoint of what it captures": (lambda x, y: tx.checkpoint(lambda t: t * tx.exp(y), x), lambda x, y: x * tx.exp(y)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_custom_derivatives_and_checkpoints_inside_vmap_match_plain_functions(name: str) -> None:
    steps, plain = PAIRS[name]
    xs, y, w = numbers(3, 4), numbers(4, seed=1), numbers(3, 4, seed=2)

    def of(f: Any) -> list[Callable[[], Any]]:
        batch = lambda xs, y: (tx.vmap(lambda x: f(x, y))(xs) * w).sum()
        both = lambda xs, y: (tx.vmap(f, in_axes=(0, None))(xs, y) * w).sum()
        gradient = tx.grad(lambda x, y: (f(x, y) * w[0]).sum(), (0, 1))
        return [
            lambda: tx.vmap(lambda x: f(x, y))(xs),
            *[lambda k=k, g=g: tx.grad(g, k)(xs, y) for g in (batch, both) for k in (0, 1)],  # type: ignore[misc]
            *[lambda k=k: tx.vmap(gradient, in_axes=(0, None))(xs, y)[k] for k in (0, 1)],  # type: ignore[misc]
            lambda: tx.grad(lambda xs: tx.vmap(lambda x: gradient(x, y)[0])(xs).sum())(xs),
            lambda: tx.grad(lambda y: tx.vmap(lambda x: gradient(x, y)[1])(xs).sum())(y),
            lambda: tx.jvp(batch, (xs, y), (xs, y))[1],
            lambda: tx.jvp(lambda y: tx.vmap(lambda x: f(x, y))(xs), (y,), (y,))[1],
            lambda: tx.vmap(lambda x: tx.jvp(lambda y: f(x, y), (y,), (y,))[1])(xs),
            lambda: tx.vmap(tx.jacobian(f), in_axes=(0, None))(xs, y),
            lambda: tx.grad(lambda xs: tx.vmap(lambda y: tx.vmap(f, in_axes=(0, None))(xs, y))(tx.stack([y, y * 2])).sum())(xs),
            lambda: tx.grad(lambda y: tx.vmap(lambda x: tx.vmap(lambda v: f(x, v * y))(xs))(xs).sum())(y),
        ]

    for found, wanted in zip(of(steps), of(plain), strict=True):
        close(found(), wanted())


HOSTED: dict[str, Callable[[Any, Any], Any]] = {
    "solve": lambda m, b: L.solve(m, b),
    "inv": lambda m, b: L.inv(m) @ b,
    "eigh": lambda m, b: L.eigh(m).eigenvalues.expand_dims(-1) * b,
    "slogdet": lambda m, b: L.slogdet(m).logabsdet * b,
    "fft": lambda m, b: tx.real(tx.fft.fft(m, axis=0)) @ b,
    "sort": lambda m, b: tx.sort(m, axis=0) @ b,
    "quantile": lambda m, b: tx.quantile(m @ b, 0.3, axis=0),
    "expm": lambda m, b: L.expm(m * 0.7) @ b,
    "solve_triangular": lambda m, b: L.solve_triangular(m, b, upper=True),
}


@pytest.mark.parametrize("name", HOSTED)
def test_numpy_functions_inside_vmap_match_single_calls(name: str) -> None:
    f = HOSTED[name]
    ms, b = definite(3, 2, 2), numbers(2, 2)
    gradient = tx.grad(lambda m, b: f(m, b).sum(), (0, 1))
    each = [gradient(m, b) for m in ms]
    for k in (0, 1):
        wanted = tx.stack([its[k] for its in each])
        close(tx.vmap(gradient, in_axes=(0, None))(ms, b)[k], wanted)
        for batch in (lambda ms, b: tx.vmap(lambda m: f(m, b))(ms).sum(), lambda ms, b: tx.vmap(f, in_axes=(0, None))(ms, b).sum()):
            close(tx.grad(batch, k)(ms, b), wanted if k == 0 else wanted.sum(0))
    leaf = b.copy().requires_grad_()
    tx.vmap(lambda m: f(m, leaf))(ms).sum().backward()
    close(leaf.grad, tx.stack([its[1] for its in each]).sum(0))
    jacobian = tx.jacobian(f)
    close(tx.vmap(jacobian, in_axes=(0, None))(ms, b), members(lambda m: jacobian(m, b), ms))
    close(tx.vmap(lambda m: tx.vmap(lambda s: f(m, b * s))(b[0]))(ms), members(lambda m: tx.stack([f(m, b * s) for s in b[0]]), ms))
    close(tx.vmap(tx.hessian(lambda m: f(m, b).sum()))(ms), members(tx.hessian(lambda m: f(m, b).sum()), ms))
    second = tx.grad(lambda ms: tx.vmap(lambda m: gradient(m, b)[0])(ms).sum())(ms)
    close(second, members(tx.grad(lambda m: gradient(m, b)[0].sum()), ms))


def test_backward_function_in_numpy_has_no_forward_derivative() -> None:
    by_numpy = tx.custom_derivative(
        lambda x: tx.asarray(np.sin(x.to_numpy())), lambda g, value, x: tx.asarray(g.to_numpy() * np.cos(x.to_numpy()))
    )
    x = numbers(3)
    close(tx.grad(lambda x: by_numpy(x).sum())(x), tx.cos(x))
    with pytest.raises(DerivativeError, match=r"custom_derivative: has no forward derivative.*mode=\"reverse\""):
        tx.jvp(by_numpy, (x,), (x,))
    nothing = tx.custom_derivative(tx.round, lambda g, value, x: tx.zeros_like(x))
    assert tx.jvp(nothing, (x,), (x,))[1].tolist() == [0, 0, 0]


def test_cotangents_given_as_functions_are_computed_only_if_needed() -> None:
    asked = []

    def long(g: Any, y: Any) -> Any:
        asked.append(1)
        return g * y

    times = tx.custom_derivative(lambda x, y: x * y, lambda g, value, x, y: (lambda: long(g, y), g * x))
    x, y = numbers(3), numbers(3) + 2
    close(tx.grad(lambda y: times(x, y).sum())(y), x)
    assert not asked
    close(tx.grad(lambda x: times(x, y).sum())(x), y)
    close(tx.jvp(lambda x: times(x, y), (x,), (x,))[1], x * y)
    assert len(asked) == 2


def test_detached_values_inside_vmap_are_constant() -> None:
    xs = numbers(3, 4)
    close(tx.grad(lambda xs: tx.vmap(lambda x: (x.detach() * x).sum())(xs).sum())(xs), xs)

    def without(x: Any) -> Any:
        with tx.no_grad():
            order = tx.sort(x) + tx.median(x) + tx.quantile(x, 0.2)
        return (order * x).sum()

    close(tx.grad(lambda xs: tx.vmap(without)(xs).sum())(xs), members(tx.grad(without), xs))


@pytest.mark.parametrize("name", [name for name in PAIRS if "checkpoint" in name])
def test_checkpoint_derivatives_match_plain_functions(name: str) -> None:
    steps, plain = PAIRS[name]
    x, y = numbers(4), numbers(4, seed=1)
    for derivative in (
        lambda f: tx.grad(lambda x, y: (f(x, y) ** 2).sum(), (0, 1))(x, y),
        lambda f: tx.jvp(f, (x, y), (y, x))[:1],
        lambda f: tx.jvp(f, (x, y), (y, x))[1:],
        lambda f: tx.hessian(lambda y: f(x, y).sum())(y),
        *[lambda f, k=k: tx.grad(lambda *a: (tx.grad(lambda *b: f(*b).sum(), k)(*a) * x).sum(), (0, 1))(x, y) for k in (0, 1)],
    ):
        for found, wanted in zip(derivative(steps), derivative(plain), strict=True):
            close(found, wanted)
    leaf = y.copy().requires_grad_()
    steps(x, leaf).sum().backward()
    close(leaf.grad, tx.grad(lambda y: plain(x, y).sum())(y))


def test_checkpoint_may_return_an_argument_or_a_captured_tensor() -> None:
    x = numbers(4)
    close(tx.grad(lambda x: sum(t.sum() for t in tx.checkpoint(lambda t: (t, t * t), x)))(x), 1 + 2 * x)
    leaf = x.copy().requires_grad_()
    same = tx.checkpoint(lambda t: t.reshape(2, 2), leaf)
    (same * same).sum().backward()
    assert leaf.requires_grad
    close(leaf.grad, 2 * x)
    close(tx.grad(lambda x: (tx.checkpoint(lambda t: (x, t * 2), x * x)[0] * 3).sum())(x), tx.full((4,), 3.0))


def test_jacobian_and_hessian_are_untracked_but_differentiable() -> None:
    x = numbers(3)
    assert not tx.jacobian(lambda x: x**2)(x).requires_grad and not tx.hessian(lambda x: (x**3).sum())(x).requires_grad
    outer = tx.grad(lambda x: tx.jacobian(lambda y: y**3)(x).sum())(x)
    close(outer, 6 * x)


def test_solve_and_custom_derivative_use_shared_memory_values_at_the_call() -> None:
    a = 2 * np.eye(2)
    matrix, b = tx.asarray(a, copy=False), tx.ones((2, 1)).requires_grad_()
    y = L.solve(matrix, b).sum()
    z = tx.custom_derivative(lambda m, b: m @ b, lambda g, value, m, b: (None, m.mT @ g))(matrix, b).sum()
    a *= 2
    y.backward()
    assert b.grad.tolist() == [[0.5], [0.5]]
    b.grad = None
    z.backward()
    assert b.grad.tolist() == [[2.0], [2.0]]


def test_repeated_vmap_leaves_no_recipes_behind() -> None:
    ms = definite(3, 2, 2)
    tx.vmap(L.inv)(ms).realize()
    before = len(_recipes)
    for _ in range(100):
        tx.vmap(L.inv)(ms).realize()
    assert len(_recipes) <= before + 5


X = tx.asarray([[1.0, 2.0], [3.0, 4.0]])


def test_inner_vmap_leaves_independent_values_alone() -> None:
    def outer(a: Any) -> Any:
        return tx.grad(lambda z: tx.vmap(lambda b: (b * z).sum())(X).sum())(a)

    assert tx.vmap(outer)(X).tolist() == [[4, 6], [4, 6]]
    assert tx.vmap(tx.jacobian(lambda z: tx.vmap(lambda b: b * z)(X)))(X).shape == (2, 2, 2, 2)
    product = tx.vmap(lambda m: tx.vmap(lambda v: L.inv(m) @ v)(X))(definite(3, 2, 2))
    close(product, members(lambda m: tx.stack([L.inv(m) @ v for v in X]), definite(3, 2, 2)))


def test_custom_derivative_results_may_ignore_arguments() -> None:
    both = tx.custom_derivative(lambda p, q: (p * q, p * 2.0), lambda g, v, p, q: (g[0] * q + g[1] * 2.0, g[0] * p))

    def f(x: Any) -> Any:
        first, second = both(x, x * 3.0)
        return (second * first).sum()

    close(tx.grad(lambda X: tx.vmap(f)(X).sum())(X), 18 * X * X)
    found = tx.grad(lambda xs: tx.vmap(lambda a: tx.vmap(lambda b: f(a + b))(X).sum())(xs).sum())(X)
    close(found, members(lambda a: tx.stack([18 * (a + b) ** 2 for b in X]).sum(0), X))


def test_backward_function_may_call_a_custom_derivative() -> None:
    square = tx.custom_derivative(lambda x: x * x, lambda g, v, x: 2 * x * g)
    cube = tx.custom_derivative(lambda x: x * x * x, lambda g, v, x: 3 * square(x) * g)
    for derivative in (tx.grad(lambda y: cube(y).sum()), lambda y: tx.jacobian(cube)(y).sum(0)):
        close(tx.grad(lambda X, d=derivative: tx.vmap(d)(X).sum())(X), 6 * X)


def test_value_given_to_a_backward_function_is_differentiable() -> None:
    power = tx.custom_derivative(tx.exp, lambda g, value, x: g * value)
    close(tx.hessian(lambda x: power(x).sum())(X[0]), tx.exp(X[0]) * tx.eye(2))
    close(tx.grad(lambda X: tx.vmap(tx.grad(lambda x: power(x).sum()))(X).sum())(X), tx.exp(X))


def test_vmap_without_gradients_gives_untracked_leaves() -> None:
    for function in (L.inv, lambda m: cubed(m)):
        found = tx.vmap(function)(definite(2, 2, 2))
        assert not found.requires_grad and found.is_leaf
    weights = tx.nn.Parameter(tx.vmap(L.inv)(definite(2, 2, 2)))
    (weights * weights).sum().backward()
    close(weights.grad, 2 * weights.detach())


def test_calls_inside_vmap_are_not_recorded_for_other_calls() -> None:
    from tenxor import fastpath

    fastpath.start()
    m = definite(2, 2, 2)
    tx.vmap(lambda m: L.norm(m, 2))(m).realize()
    for _ in range(3):
        assert abs(L.norm(m[0].copy().realize(), 2).item() - np.linalg.norm(m[0].to_numpy(), 2)) < 1e-12


def test_backward_inside_vmap_keeps_the_graph_of_the_batch() -> None:
    def f(row: Any) -> Any:
        y = row.copy().requires_grad_()
        value = cubed(y).sum()
        value.backward()
        return value

    close(tx.grad(lambda X: tx.vmap(f)(X).sum())(X), 3 * X * X)


def test_custom_derivative_may_capture_an_element_of_an_outer_vmap() -> None:
    def captures(a: Any) -> Any:
        return tx.vmap(tx.custom_derivative(lambda x: x * a, lambda g, v, x: g * a))(X).sum()

    assert tx.vmap(captures)(X).tolist() == [16, 36]


def test_custom_derivative_may_return_a_broadcast_view_or_a_number() -> None:
    spread = tx.custom_derivative(lambda x: tx.broadcast_to(x, (3,)), lambda g, v, x: g.sum().reshape(1))
    w = tx.asarray([1.0, 2.0, 3.0])
    assert tx.grad(lambda x: (spread(x) * w).sum())(tx.ones(1)).tolist() == [6]
    assert tx.grad(lambda x: (tx.vmap(spread)(x) * w).sum())(tx.ones((2, 1))).tolist() == [[6], [6]]
    number = tx.custom_derivative(lambda x: 3.0, lambda g, v, x: None)
    assert tx.vmap(number)(X).tolist() == [3, 3]
    assert tx.grad(lambda x: (x * number(x)).sum())(X[0]).tolist() == [3, 3]


@pytest.mark.parametrize("tracked", [True, False])
def test_checkpointed_function_may_write_to_its_argument(tracked: bool) -> None:
    def function(x: Any) -> Any:
        x[0] = x[1] * 3.0
        return (x * x).sum()

    given = tx.asarray([1.0, 2.0])
    with nullcontext() if tracked else tx.no_grad():
        assert tx.checkpoint(function, given).item() == 40.0
    assert given.tolist() == [1.0, 2.0]
    assert tx.grad(lambda x: tx.checkpoint(function, x * 1.0))(given).tolist() == [0.0, 40.0]


def test_complex_jacobians_are_equal_in_forward_and_reverse_mode() -> None:
    z, x = tx.asarray([1 + 1j, 2 - 1j]), tx.asarray([1.0, 2.0])
    wanted = np.diag(2 * z.to_numpy())
    for mode in ("forward", "reverse", None):
        assert np.allclose(tx.jacobian(lambda z: z * z, mode=mode)(z).to_numpy(), wanted)
    assert tx.jacobian(lambda x: x * (1 + 2j))(x).tolist() == [[1 + 2j, 0], [0, 1 + 2j]]
    assert tx.jacobian(lambda z: (z * z.conj()).real)(z[:1]).tolist() == [[2 + 2j]]
    assert tx.jacobian(lambda z: tx.stack([z.real, z.imag]))(z[:1]).tolist() == [[[1]], [[1j]]]
    for function, given, mode in ((lambda x: x * 1j, x, "reverse"), (tx.abs, z, "forward"), (lambda z: (z, tx.abs(z)), z, "forward")):
        with pytest.raises(DTypeError, match="jacobian"):
            tx.jacobian(function, mode=mode)(given)
    with pytest.raises(DTypeError, match="jacobian"):
        tx.jacobian(lambda x, z: (x * z, tx.abs(z)), argnums=(0, 1))(x, z)
    with pytest.raises(DTypeError, match="hessian"):
        tx.hessian(lambda z: tx.abs(z).sum())(z)


def test_custom_derivative_accepts_arguments_by_keyword() -> None:
    x, y = tx.asarray([1.0, 2.0]), tx.asarray([3.0, 5.0])
    scaled = tx.custom_derivative(lambda x, y: x * y, lambda g, value, x, y: (g * 10.0, g * 100.0))
    for call in (lambda x, y: scaled(x, y=y), lambda x, y: scaled(y=y, x=x)):
        assert tx.grad(lambda x, y, call=call: call(x, y).sum(), argnums=(0, 1))(x, y)[1].tolist() == [100.0, 100.0]
        assert call(x, y).tolist() == [3.0, 10.0]
    with pytest.raises(ArgumentError, match=r"^custom_derivative: the function cannot be called with these arguments: missing .* 'y'"):
        scaled(x, z=y)
    keyword_only = tx.custom_derivative(lambda x, *, y: x * y, lambda g, value, x: g)
    with pytest.raises(ArgumentError, match=r"^custom_derivative: argument 'y' has no position"):
        keyword_only(x, y=y)
