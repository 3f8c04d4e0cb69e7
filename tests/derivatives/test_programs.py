"""Random programs with views and writes in place: gradients beside differences of what the model's world says.

`python -m tests.derivatives FIRST COUNT` runs more of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx

from .differences import Array, numbers_of, slope
from .library import Library
from .programs import Program

PROGRAMS = 80
BATCH = 10
CLOSE = 1e-7


def check_program(seed: int) -> str | None:
    """What is wrong with the derivatives of a program; None if nothing is."""
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


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_programs(first: int) -> None:
    for seed in range(first, first + BATCH):
        wrong = check_program(seed)
        assert wrong is None, f"python -m tests.derivatives {seed}\n{Program(seed)}\n{wrong}"
