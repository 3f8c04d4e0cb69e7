"""Backward through many operations: in segments that are repeated, with hooks between, and with intermediate computations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx


def _recurrence(steps: int, hooked: int = -1) -> tuple[list[Any], list[Any]]:
    """Return the gradients of a long recurrence by its weights and its first state, and the same by hand."""
    rng = np.random.default_rng(5)
    w0, h0 = rng.uniform(-0.4, 0.4, (5, 5)), rng.uniform(-1, 1, (3, 5))
    w, h = tx.asarray(w0).requires_grad_(), tx.asarray(h0).requires_grad_()
    state = h
    for k in range(steps):
        state = (state @ w + state).tanh()
        if k == hooked:
            state.register_hook(lambda g: g * 2.0)
    (state * state).sum().backward()
    found = [w.grad.to_numpy(), h.grad.to_numpy()]
    states = [h0]
    for _ in range(steps):
        states.append(np.tanh(states[-1] @ w0 + states[-1]))
    g, total = 2 * states[-1], np.zeros_like(w0)
    for k in reversed(range(steps)):
        if k == hooked:
            g = g * 2
        inner = g * (1 - states[k + 1] ** 2)
        total += states[k].T @ inner
        g = inner @ w0.T + inner
    return found, [total, g]


@pytest.mark.parametrize("steps", [1, 3, 63, 64, 65, 130, 700])
def test_long_backward_passes_are_correct(steps: int) -> None:
    """The pass has one or several segments, and pending cotangents are computed now and then."""
    for _ in range(2):
        found, wanted = _recurrence(steps)
        for a, b in zip(found, wanted, strict=True):
            assert np.allclose(a, b, 1e-9, 1e-12)


@pytest.mark.parametrize("hooked", [0, 40, 99])
def test_hook_inside_a_long_backward_pass_leaves_gradients_correct(hooked: int) -> None:
    found, wanted = _recurrence(100, hooked)
    for a, b in zip(found, wanted, strict=True):
        assert np.allclose(a, b, 1e-9, 1e-12)


def test_recorded_segment_is_not_reused_for_different_operands() -> None:
    """Segments that look alike differ in a number, or in one tensor that is used twice."""
    for exponent in (2.0, 3.0, 2.0):
        for twice in (False, True, False):
            x = tx.asarray([0.5, 1.5]).requires_grad_()
            y = x if twice else tx.asarray([2.0, 3.0]).requires_grad_()
            ((x * y) ** exponent).sum().backward()
            a, b = x.detach().to_numpy(), y.detach().to_numpy()
            wanted = exponent * (a * b) ** (exponent - 1) * b * (2 if twice else 1)
            assert np.allclose(x.grad.to_numpy(), wanted)


def _most_of_a_step(layers: int, segment: int) -> tuple[float, list[Any]]:
    """Return the peak memory of the gradients of a deep net, in units of one layer, and the gradients."""
    rows, width = 4096, 16
    x = tx.asarray(np.linspace(-1, 1, rows * width).reshape(rows, width)).realize()
    weights = [tx.asarray(np.eye(width) * 0.9 + 0.01).requires_grad_() for _ in range(layers)]

    def part(those: list[Any]) -> Any:
        def run(h: Any) -> Any:
            for w in those:
                h = tx.tanh(h @ w)
            return h

        return run

    def step() -> None:
        for w in weights:
            w.grad = None
        h = x
        for k in range(0, layers, segment):
            h = tx.checkpoint(part(weights[k : k + segment]), h) if segment < layers else part(weights)(h)
        (h * h).mean().backward()
        tx.realize(*[w.grad for w in weights])

    step()
    before = tx.memory(reset_peak=True).in_use
    step()
    return (tx.memory().peak - before) / x.nbytes, [w.grad.to_numpy() for w in weights]


@pytest.mark.parametrize("layers", [36, 200])
def test_checkpoints_bound_memory_to_their_inputs_and_one_segment(layers: int) -> None:
    segment = round(layers**0.5)
    whole, wanted = _most_of_a_step(layers, layers)
    parts, found = _most_of_a_step(layers, segment)
    assert whole > layers - 2
    assert parts < layers / segment + segment + 4
    for a, b in zip(found, wanted, strict=True):
        assert np.allclose(a, b, 1e-9, 1e-12)
