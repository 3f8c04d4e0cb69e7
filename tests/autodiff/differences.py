"""Derivatives by finite differences of values, without any of the library's rules.

Numbers are real here: a complex number is two, its parts. So the Jacobian of any function is a real matrix, and the definition of the
cotangent of a complex number z as dL/d(re z) + 1j dL/d(im z) follows from its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tenxor as tx

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
STEP = 1e-3  # differences of fourth order: the error is of size STEP**4, and that of rounding 1e-16 / STEP
CLOSE = 1e-8
FEW = 5  # directions that stand for all, of which some are random: a wrong number anywhere shows in these
thorough = False  # whether every direction and every order of modes is looked at (`python -m tests.autodiff cases`)


def numbers_of(arrays: Sequence[Any]) -> Array:
    """Return the real numbers of arrays in one axis."""
    found = [np.zeros(0)]
    for a in arrays:
        a = np.ascontiguousarray(np.asarray(a))
        found.append((a.reshape(-1).view(a.real.dtype) if np.iscomplexobj(a) else a.reshape(-1)).astype(np.float64))
    return np.concatenate(found)


def arrays_of(numbers: Array, like: Sequence[Array]) -> list[Array]:
    """Return arrays with the shapes and dtypes of others, made of real numbers."""
    found, start = [], 0
    for a in like:
        stop = start + a.size * (2 if np.iscomplexobj(a) else 1)
        part = np.array(numbers[start:stop])
        start = stop
        found.append((part.view(np.complex128) if np.iscomplexobj(a) else part).reshape(a.shape).astype(a.dtype))
    return found


def tensors_of(numbers: Array, like: Sequence[Array]) -> list[Any]:
    return [tx.asarray(a) for a in arrays_of(numbers, like)]


def listed(value: Any) -> list[Any]:
    """Return the results of a function as a list, whether it gives one tensor or several."""
    return list(value) if isinstance(value, (tuple, list)) else [value]


def values_of(function: Function, arrays: Sequence[Array]) -> list[Array]:
    """Return the values of a function for new tensors of these numbers."""
    return [np.asarray(t.to_numpy()) for t in listed(function(*[tx.asarray(a.copy()) for a in arrays]))]


def slope(function: Callable[[Array], Array], at: Array, direction: Array, step: float = STEP) -> Array:
    """Return how real numbers change along a direction."""
    near = function(at + step * direction) - function(at - step * direction)
    far = function(at + 2 * step * direction) - function(at - 2 * step * direction)
    found: Array = (8 * near - far) / (12 * step)
    return found


def jacobian(function: Function, arrays: Sequence[Array], step: float = STEP) -> Array:
    """Return the derivatives of the real numbers of the results (rows) by those of the arguments."""
    at = numbers_of(arrays)

    def value(numbers: Array) -> Array:
        return numbers_of(values_of(function, arrays_of(numbers, arrays)))

    columns = [slope(value, at, direction, step) for direction in np.eye(at.size)]
    return np.stack(columns, axis=1) if columns else np.zeros((value(at).size, 0))


def directions(size: int) -> Array:
    """Return the rows with which a matrix of this many rows is multiplied."""
    every = np.eye(size)
    if thorough or size <= FEW:
        return every
    rng = np.random.default_rng(size)
    return np.concatenate([every[rng.choice(size, 2, replace=False)], rng.standard_normal((FEW - 2, size))])


def by_reverse(function: Function, arrays: Sequence[Array]) -> Array:
    """Return the same by cotangents, in some directions."""
    value, back = tx.vjp(function, *[tx.asarray(a) for a in arrays])
    results = listed(value)
    like = [t.to_numpy() for t in results]
    rows = []
    for direction in directions(numbers_of(like).size):
        given = tensors_of(direction, like)
        found = back(type(value)(given) if isinstance(value, (tuple, list)) else given[0])
        for a, g in zip(arrays, found, strict=True):
            assert g.shape == a.shape and g.dtype is tx.asarray(a).dtype
        rows.append(numbers_of([g.to_numpy() for g in found]))
    return np.stack(rows) if rows else np.zeros((0, numbers_of(arrays).size))


def by_forward(function: Function, arrays: Sequence[Array]) -> Array:
    """Return the same by tangents, in some directions."""
    columns = []
    for direction in directions(numbers_of(arrays).size):
        value, change = tx.jvp(function, [tx.asarray(a) for a in arrays], tensors_of(direction, arrays))
        for t, c in zip(listed(value), listed(change), strict=True):
            assert c.shape == t.shape and c.dtype is t.dtype
        columns.append(numbers_of([t.to_numpy() for t in listed(change)]))
    if columns:
        return np.stack(columns, axis=1)
    return np.zeros((numbers_of(values_of(function, arrays)).size, 0))


def by_backward(function: Function, arrays: Sequence[Array], weights: Sequence[Array]) -> Array:
    """Return the gradient of the weighted sum of the results by `backward` and `grad`."""
    leaves = [tx.asarray(a.copy()).requires_grad_() for a in arrays]
    results = listed(function(*leaves))
    for t, w in zip(results, weights, strict=True):
        if t.requires_grad:
            t.backward(tx.asarray(w), retain_graph=True)
    return numbers_of([np.zeros(x.shape, x.to_numpy().dtype) if x.grad is None else x.grad.to_numpy() for x in leaves])


def weighted(function: Function, weights: Sequence[Array]) -> Function:
    """Return a real number that depends on each result, also by squares, so that linear functions have second derivatives too."""

    def loss(*args: Any) -> Any:
        total: Any = 0.0
        for t, w in zip(listed(function(*args)), weights, strict=True):
            w = tx.asarray(w)
            total = total + (tx.real(tx.conj(w) * t) + 0.5 * tx.real(tx.conj(t) * t) if t.dtype.is_complex else w * t + 0.5 * t * t).sum()
        return total

    return loss


def dotted(xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    """Return the inner product of two lists of tensors as lists of real numbers."""
    total: Any = 0.0
    for x, y in zip(xs, ys, strict=True):
        total = total + (tx.real(tx.conj(x) * y) if x.dtype.is_complex else x * y).sum()
    return total


def check_close(found: Array, wanted: Array, what: str, close: float = CLOSE) -> None:
    assert found.shape == wanted.shape, what
    error = np.abs(found - wanted) / np.maximum(1.0, np.abs(wanted))
    if found.size and not error.max() <= close:
        where = tuple(int(i) for i in np.unravel_index(np.nanargmax(np.where(np.isnan(error), np.inf, error)), error.shape))
        raise AssertionError(f"{what}: at {where} {found[where]!r}, and by differences {wanted[where]!r}\n{found}\n{wanted}")


def check_first(function: Function, arrays: Sequence[Array], *, close: float = CLOSE) -> None:
    """Check that the Jacobian by cotangents, by tangents and by `backward` equals that by differences."""
    wanted = jacobian(function, arrays)
    check_close(by_reverse(function, arrays), directions(wanted.shape[0]) @ wanted, "reverse", close)
    check_close(by_forward(function, arrays), wanted @ directions(wanted.shape[1]).T, "forward", close)
    like = values_of(function, arrays)
    weights = arrays_of(np.random.default_rng(1).standard_normal(wanted.shape[0]), like)
    check_close(by_backward(function, arrays, weights), numbers_of(weights) @ wanted, "backward", close)


def check_second(function: Function, arrays: Sequence[Array], *, close: float = 1e-7) -> None:
    """Check Hessian-vector products in every order of modes against differences of gradients, which `check_first` checks."""
    like = values_of(function, arrays)
    rng = np.random.default_rng(2)
    loss = weighted(function, arrays_of(rng.standard_normal(numbers_of(like).size), like))
    every = tuple(range(len(arrays)))
    gradient = tx.grad(loss, every)
    at = numbers_of(arrays)
    direction = rng.standard_normal(at.size)

    def gradients(numbers: Array) -> Array:
        return numbers_of([g.to_numpy() for g in gradient(*tensors_of(numbers, arrays))])

    wanted = slope(gradients, at, direction)
    xs, v = [tx.asarray(a) for a in arrays], tensors_of(direction, arrays)
    found = tx.grad(lambda *args: dotted(gradient(*args), v), every)(*xs)
    check_close(numbers_of([g.to_numpy() for g in found]), wanted, "reverse over reverse", close)

    def forward_over_reverse() -> None:
        _, change = tx.jvp(gradient, xs, v)
        check_close(numbers_of([g.to_numpy() for g in change]), wanted, "forward over reverse", close)

    def reverse_over_forward() -> None:
        found = tx.grad(lambda *args: tx.jvp(loss, args, v)[1], every)(*xs)
        check_close(numbers_of([g.to_numpy() for g in found]), wanted, "reverse over forward", close)

    def forward_over_forward() -> None:
        _, twice = tx.jvp(lambda *args: tx.jvp(loss, args, v)[1], xs, v)
        check_close(numbers_of([twice.to_numpy()]), np.array([direction @ wanted]), "forward over forward", close)

    orders = [forward_over_reverse, reverse_over_forward, forward_over_forward]
    for order in orders if thorough else orders[at.size % 3 :][:1]:
        order()


def check(function: Function, arrays: Sequence[Array], *, second: bool = True, close: float = CLOSE) -> None:
    """Check first and second derivatives in every mode."""
    check_first(function, arrays, close=close)
    if second:
        check_second(function, arrays, close=10 * close)
