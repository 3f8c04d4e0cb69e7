"""Gradients of random expressions compared with PyTorch, also at ties and kinks. PyTorch is an extra: `pip install torch==2.13.0`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx

from .expressions import Expression

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[bench]' to compare gradients with its")

PROGRAMS = 200
BATCH = 50


class Ours:
    """Tenxor, by the names that expressions use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(tx, name)

    def reduced(self, name: str, x: Any, axis: int) -> Any:
        return getattr(tx, name)(x, axis=axis)

    def indices(self, numbers: list[int]) -> Any:
        return tx.asarray(np.array(numbers))

    def flip(self, x: Any, axes: tuple[int, ...]) -> Any:
        return tx.flip(x, axis=axes)

    def weights(self, numbers: Any) -> Any:
        return tx.asarray(numbers.copy())

    def activation(self, name: str, x: Any) -> Any:
        return getattr(tx.nn.functional, name)(x)


class Torch:
    """PyTorch, by the same names."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def reduced(self, name: str, x: Any, axis: int) -> Any:
        if name in ("softmax", "log_softmax", "logsumexp", "cumsum", "cumprod"):
            return getattr(torch, name)(x, dim=axis)
        if name == "var":
            return torch.var(x, dim=axis, correction=0)
        return getattr(torch, name)(x, dim=axis)

    def indices(self, numbers: list[int]) -> Any:
        return torch.tensor(numbers)

    def flip(self, x: Any, axes: tuple[int, ...]) -> Any:
        return torch.flip(x, axes)

    def weights(self, numbers: Any) -> Any:
        return torch.tensor(numbers)

    def activation(self, name: str, x: Any) -> Any:
        return getattr(torch.nn.functional, name)(x)

    def clip(self, x: Any, low: float | None = None, high: float | None = None) -> Any:
        """Clip by functions with derivative 0 at their bounds in every version; PyTorch's `clamp` has it from 2.14 on."""
        if high is None:
            return torch.nn.functional.threshold(x, low, low)
        if low is None:
            return -torch.nn.functional.threshold(-x, -high, -high)
        return torch.nn.functional.hardtanh(x, low, high)


def differences(seed: int, ties: bool) -> str | None:
    """Return where the libraries differ in an expression, its gradient or a Hessian-vector product."""
    expression = Expression(seed, ties)
    theirs = [torch.tensor(a, requires_grad=True) for a in expression.inputs]
    value = expression.value(Torch(), theirs)
    gradients = torch.autograd.grad(value, theirs, create_graph=True, allow_unused=True)
    gradients = [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, theirs, strict=True)]
    directions = [np.random.default_rng(seed).standard_normal(a.shape) for a in expression.inputs]
    along = sum(((g * torch.tensor(d)).sum() for g, d in zip(gradients, directions, strict=True)), torch.tensor(0.0))
    wanted = [value.numpy(force=True), *[g.numpy(force=True) for g in gradients]]
    xs = [tx.asarray(a.copy()) for a in expression.inputs]
    every = tuple(range(len(xs)))

    def function(*args: Any) -> Any:
        return expression.value(Ours(), list(args))

    got, its = tx.value_and_grad(function, every)(*xs)
    found = [got.to_numpy(), *[g.to_numpy() for g in its]]
    if along.requires_grad and not ties:
        second = torch.autograd.grad(along, theirs, allow_unused=True)
        wanted += [np.zeros(a.shape) if g is None else g.numpy(force=True) for g, a in zip(second, expression.inputs, strict=True)]
        _, change = tx.jvp(tx.grad(function, every), xs, [tx.asarray(d) for d in directions])
        found += [g.to_numpy() for g in change]
    for k, (ours, other) in enumerate(zip(found, wanted, strict=True)):
        if not np.allclose(ours, other, rtol=1e-7, atol=1e-7 * max(1.0, np.abs(other[np.isfinite(other)]).max(initial=0)), equal_nan=True):
            return f"expression {seed}, {ties=}, number {k}: ours {ours}, PyTorch's {other}; at {expression.inputs}"
    return None


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_gradients_of_random_expressions_match_pytorch(first: int, ties: bool) -> None:
    for seed in range(first, first + BATCH):
        found = differences(seed, ties)
        assert found is None, found


TIES = {
    "abs": lambda m, x: m.abs(x),
    "relu": lambda m, x: m.relu(x),
    "sign": lambda m, x: m.sign(x) * x,
    "clip": lambda m, x: m.clip(x, -1.0, 1.0),
    "clip below": lambda m, x: m.clip(x, 0.0),
    "clip above": lambda m, x: m.clip(x, None, 1.0),
    "copysign": lambda m, x: m.copysign(x, x - 0.5),
    "maximum": lambda m, x: m.maximum(x, x * 0.0 + 1.0),
    "minimum": lambda m, x: m.minimum(x, m.sign(x)),
    "amax": lambda m, x: m.reduced("amax", x, 0),
    "amin": lambda m, x: m.reduced("amin", m.abs(x), 0),
    "prod": lambda m, x: m.reduced("prod", x, 0),
    "cumprod": lambda m, x: m.reduced("cumprod", x, 0),
    "zero to the power": lambda m, x: m.abs(x) ** 2 + x**3 + x**1.0 + x**0.0,
    "hypot": lambda m, x: m.hypot(x, x * 0.0 + 1.0),
    "std": lambda m, x: m.sqrt(m.abs(x) + 1.0),
    "equal ones": lambda m, x: (x * 0.0 + 1.0).std() if m.__class__ is Ours else (x * 0.0 + 1.0).std(correction=0),
    "floor": lambda m, x: m.floor(x) * x,
    "remainder": lambda m, x: m.remainder(x, x * 0.0 + 2.0),
    "fmod": lambda m, x: m.fmod(x, 1.0 - x * x * 3.0),
    "atan2": lambda m, x: m.atan2(x, x * 0.0 + 1.0),
    "no angle": lambda m, x: m.atan2(x, x * 2.0) + m.atan2(x * x, m.abs(x)),
    "zero to every power": lambda m, x: (x * 0.0) ** x,
    "softmax": lambda m, x: m.reduced("softmax", x, 0) * x,
    "logsumexp": lambda m, x: m.reduced("logsumexp", x, 0),
    "where": lambda m, x: m.where(x > 0, x * x, -x),
    **{name: lambda m, x, name=name: m.activation(name, x * 3.0) for name in ("elu", "selu", "hardswish", "leaky_relu", "mish")},
}


@pytest.mark.parametrize("name", TIES)
def test_gradients_at_ties_match_pytorch(name: str) -> None:
    at = np.array([0.0, -0.0, 1.0, -1.0, 2.0, 2.0, -1.0, 0.0])
    theirs = torch.tensor(at, requires_grad=True)
    TIES[name](Torch(), theirs).sum().backward()
    found = tx.grad(lambda x: TIES[name](Ours(), x).sum())(tx.asarray(at))
    assert np.allclose(found.to_numpy(), theirs.grad.numpy(), rtol=1e-12, atol=1e-12, equal_nan=True), (found, theirs.grad)
