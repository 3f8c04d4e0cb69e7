"""Random programs with views and writes in place: gradients compared with differences in the model's world.

`python -m tests.autodiff FIRST COUNT` runs more of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx

from .differences import Array, listed, numbers_of, slope
from .library import Library
from .programs import Program

PROGRAMS = 40
BATCH = 10
CLOSE = 1e-7


def check_program(seed: int) -> str | None:
    """Return the fault in the derivatives of a program, or None."""
    program = Program(seed)
    at = numbers_of(program.inputs)
    value = program.value(at)[0]
    wanted = np.array([slope(program.value, at, direction)[0] for direction in np.eye(at.size)])
    if not np.isfinite(wanted).all() or np.abs(wanted).max(initial=0) > 1e6 or abs(value) > 1e6:
        return None
    close = CLOSE * (1 + np.abs(wanted).max(initial=0) + abs(value))

    def loss(*inputs: Any) -> Any:
        return program.play(Library(), list(inputs))

    def worst(found: Array, its: Array = wanted) -> float:
        return float(np.abs(found - its).max(initial=0)) if np.isfinite(found).all() else np.inf

    xs = [tx.asarray(a.copy()) for a in program.inputs]
    got, gradients = tx.value_and_grad(lambda xs: loss(*[x * 1.0 for x in xs]))(xs)
    if worst(np.array([got.item()]), np.array([value])) > close:
        return f"the value is {got.item()}, not {value}"
    found = numbers_of([g.to_numpy() for g in gradients])
    if worst(found) > close:
        return f"tx.grad: {found}\nby differences {wanted}"
    direct = numbers_of([g.to_numpy() for g in tx.grad(lambda xs: loss(*xs))(xs)])
    if worst(direct) > close:
        return f"tx.grad, written itself: {direct}\nby differences {wanted}"
    if [x.tolist() for x in xs] != [a.tolist() for a in program.inputs]:
        return "tx.grad has changed its arguments"
    leaves = [tx.asarray(a.copy()).requires_grad_() for a in program.inputs]
    total = loss(*leaves)
    if total.requires_grad:  # else all was overwritten
        total.backward()
    found = numbers_of([np.zeros(x.shape) if x.grad is None else x.grad.to_numpy() for x in leaves])
    if worst(found) > close:
        return f"backward: {found}\nby differences {wanted}"
    direction = np.random.default_rng(seed).standard_normal(at.size)
    tangents, start = [], 0
    for a in program.inputs:
        tangents.append(tx.asarray(direction[start : start + a.size].reshape(a.shape)))
        start += a.size
    _, change = tx.jvp(loss, xs, tangents)
    if worst(np.array([change.item()]), np.array([direction @ wanted])) > 10 * close:
        return f"tx.jvp: {change.item()}\nby differences {direction @ wanted}"
    return None


class Members(Library):
    """The same for members of a batch, whose values cannot be read."""

    def realize(self, x: Any) -> None:
        pass


def check_batches(seed: int) -> str | None:
    """Return the fault in a batched program, its derivatives, or the batch of its derivatives; None if there is none."""
    program = Program(seed)
    if any(step.method in ("pinned", "foreign") for step in program.steps):
        return None  # others write into memory, which is that of no member

    def loss(xs: Any) -> Any:
        return program.play(Members(), [x * 1.0 for x in xs])

    gradient = tx.grad(loss)
    rng = np.random.default_rng(seed)
    members = [[tx.asarray(a + 0.1 * rng.standard_normal(a.shape)) for a in program.inputs] for _ in range(3)]
    batch = [tx.stack([its[k] for its in members]) for k in range(len(program.inputs))]
    along = [tx.asarray(rng.standard_normal(x.shape)) for x in batch]

    def change(xs: Any, along: Any) -> Any:
        return tx.jvp(gradient, [xs], [along])[1]

    ways = {
        "the value": (tx.vmap(loss), loss, False),
        "the gradient of each": (tx.vmap(gradient), gradient, False),
        "the gradient by the batch": (tx.grad(lambda xs: tx.vmap(loss)(xs).sum()), gradient, False),
        "the change of the gradient of each": (tx.vmap(change), change, True),
        "the change of the gradient by the batch": (lambda xs, v: tx.jvp(tx.vmap(gradient), [xs], [v])[1], change, True),
        "the gradient of the change": (lambda xs, v: tx.grad(lambda xs: tx.jvp(tx.vmap(loss), [xs], [v])[1].sum())(xs), change, True),
        "a checkpoint": (tx.grad(lambda xs: tx.checkpoint(lambda xs: tx.vmap(loss)(xs).sum(), xs)), gradient, False),
    }
    if any(step.method == "detached" for step in program.steps):
        del ways["the gradient of the change"]  # forward and back are not the same where something is held
    for name, (of_batch, of_each, second) in ways.items():
        found = numbers_of([t.to_numpy() for t in listed(of_batch(batch, along) if second else of_batch(batch))])
        each = [of_each(its, [v[k] for v in along]) if second else of_each(its) for k, its in enumerate(members)]
        wanted = numbers_of([np.stack([t.to_numpy() for t in its]) for its in zip(*map(listed, each), strict=True)])
        if not np.allclose(found, wanted, rtol=1e-7, atol=1e-7 * (1 + np.abs(wanted).max(initial=0)), equal_nan=True):
            return f"{name}: {found}\none by one: {wanted}"
    return None


@pytest.mark.parametrize("first", range(1085, 1115, BATCH))
def test_random_programs_inside_vmap_match_single_calls(first: int) -> None:
    for seed in range(first, first + BATCH):
        wrong = check_batches(seed)
        assert wrong is None, f"python -m tests.autodiff {seed}\n{Program(seed)}\n{wrong}"


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_gradients_of_random_programs_match_differences(first: int) -> None:
    for seed in range(first, first + BATCH):
        wrong = check_program(seed)
        assert wrong is None, f"python -m tests.autodiff {seed}\n{Program(seed)}\n{wrong}"
