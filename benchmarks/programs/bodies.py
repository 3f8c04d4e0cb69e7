"""Six bodies that attract each other, by Runge and Kutta."""

from __future__ import annotations

from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch


def attraction(place: Any, mass: Any) -> Any:
    """Accelerations: what all three libraries say alike."""
    apart = place[None] - place[:, None]
    square = (apart**2).sum(-1) + 1e-3
    return (apart * (mass / square**1.5)[..., None]).sum(1)


def orbits_numpy(state: Any, mass: Any, step: float, steps: int) -> Any:
    def change(state: Any) -> Any:
        return np.stack([state[1], attraction(state[0], mass)])

    return travelled(state, change, step, steps)


def orbits_torch(state: Any, mass: Any, step: float, steps: int) -> Any:
    def change(state: Any) -> Any:
        return torch.stack([state[1], attraction(state[0], mass)])

    return travelled(state, change, step, steps)


def orbits_tenxor(state: Any, mass: Any, step: float, steps: int) -> Any:
    def change(state: Any) -> Any:
        return tx.stack([state[1], attraction(state[0], mass)])

    return travelled(state, change, step, steps)


def travelled(state: Any, change: Any, step: float, steps: int) -> Any:
    """The fourth order."""
    for _ in range(steps):
        k1 = change(state)
        k2 = change(state + step / 2 * k1)
        k3 = change(state + step / 2 * k2)
        k4 = change(state + step * k3)
        state = state + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state


def system(rng: np.random.Generator, bodies: int, steps: int) -> tuple[Array, Array, float, int]:
    """Places and velocities, masses, and the time of a step."""
    return rng.normal(size=(2, bodies, 3)), rng.random(bodies) + 0.5, 0.001, steps


def programs() -> list[Program]:
    """Fifty steps."""
    return [Program("RK4 of 6 bodies", orbits_numpy, orbits_torch, orbits_tenxor, system, (6, 50), (3, 3))]
