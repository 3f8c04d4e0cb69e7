"""A damped pendulum whose length and friction are found from where it was seen: gradients go through the integrator.

The motion is integrated by Runge and Kutta's rule, 200 steps of it, one `tenxor.scan`; how far it is from what was seen is a function of
the two numbers, and L-BFGS goes down that function.

    python examples/pendulum.py
"""

from __future__ import annotations

from typing import Any

import tenxor as tx

GRAVITY, STEP, COUNT = 9.81, 0.02, 200
LENGTH, FRICTION = 0.8, 0.35  # what is to be found


def change(state: Any, length: Any, friction: Any) -> Any:
    """How fast angle and speed change."""
    angle, speed = state[0], state[1]
    return tx.stack([speed, -GRAVITY / length * tx.sin(angle) - friction * speed])


def motion(length: Any, friction: Any) -> Any:
    """The angles at each step, from 1 radian and rest on."""

    def step(state: Any, _: Any) -> tuple[Any, Any]:
        a = change(state, length, friction)
        b = change(state + a * (STEP / 2), length, friction)
        c = change(state + b * (STEP / 2), length, friction)
        d = change(state + c * STEP, length, friction)
        state = state + (a + b * 2.0 + c * 2.0 + d) * (STEP / 6)
        return state, state[0]

    return tx.scan(step, tx.asarray([1.0, 0.0]), tx.arange(COUNT))[1]


def main(steps: int = 12) -> tuple[float, float]:
    """Find the two from angles with some noise."""
    noise: Any = tx.random.Generator(0).normal(0.0, 0.01, (COUNT,))
    with tx.no_grad():
        seen = (motion(LENGTH, FRICTION) + noise).realize()
    logs = tx.nn.Parameter([0.0, -2.0])  # of both, as neither is negative
    optimizer = tx.optim.LBFGS([logs])

    def loss() -> Any:
        length, friction = tx.exp(logs[0]), tx.exp(logs[1])
        return ((motion(length, friction) - seen) ** 2).mean()

    losses = [optimizer.step(loss).item() for _ in range(steps)]
    length, friction = tx.exp(logs.detach()).tolist()
    print(f"loss  {tx.show.spark(losses)}  {losses[0]:.2e} to {losses[-1]:.2e}; the noise's variance is 1.0e-04")
    print(f"length {length:.4f} m (true {LENGTH}), friction {friction:.4f} 1/s (true {FRICTION})")
    if abs(length - LENGTH) > 0.01 or abs(friction - FRICTION) > 0.02:
        raise SystemExit("the pendulum was not found")
    return length, friction


if __name__ == "__main__":
    main()
