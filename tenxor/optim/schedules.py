"""Learning rates that change with time: each schedule sets `lr` of an optimiser's groups when `step()` is called, once after each
of its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi
from typing import Any

from ..errors import ArgumentError
from ..functions.kinds import Count, Some, check, check_fields, checked, told
from .optimizer import Optimizer

__all__ = ["Schedule", "constant_with_warmup", "cosine", "exponential", "linear", "one_cycle", "steps"]


MAX_STEPS = 1 << 53


class Schedule:
    """The rates that the groups begin with, times a function of the number of steps.

    >>> import tenxor as tx
    >>> optimizer = tx.optim.SGD([tx.nn.Parameter([1.0])], lr=1.0)
    >>> schedule = tx.optim.Schedule(optimizer, lambda step: 0.5**step)
    >>> schedule.step()
    >>> optimizer.groups[0]["lr"]
    0.5
    """

    @checked
    def __init__(self, optimizer: Optimizer, factor: Callable[[int], float]) -> None:
        self.optimizer, self.factor, self.count = optimizer, factor, 0
        self.rates = [group["lr"] for group in optimizer.groups]
        self._set()

    def step(self) -> None:
        """One more step was taken."""
        self.count += 1
        self._set()

    def _set(self) -> None:
        for group, rate in zip(self.optimizer.groups, self.rates, strict=True):
            factor = self.factor(self.count)
            check("Schedule", f"the factor of step {self.count}", factor, "float")
            group["lr"] = rate * factor

    def state_dict(self) -> dict[str, Any]:
        """What it needs to go on from here."""
        return {"count": self.count, "rates": list(self.rates)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        check_fields("load_state_dict", state, count="int", rates="Sequence")
        if len(state["rates"]) != len(self.rates):
            raise ArgumentError(f"load_state_dict: the state is of {len(state['rates'])} groups, and here are {len(self.rates)}")
        for rate in state["rates"]:
            check("load_state_dict", "each rate", rate, "float")
        self.count, self.rates = int(state["count"]), list(state["rates"])
        self._set()


def _warm(step: int, warmup: Count) -> float:
    return min(1.0, (step + 1) / (warmup + 1))


@checked
def constant_with_warmup(optimizer: Optimizer, warmup: Count) -> Schedule:
    """Rising for `warmup` steps, then as it is."""
    return Schedule(optimizer, lambda step: _warm(step, warmup))


@checked
def linear(optimizer: Optimizer, total: Count, end: float = 0.0, warmup: Count = 0) -> Schedule:
    """From 1 to `end` in `total` steps, on a straight line; before it a warm-up."""
    return Schedule(
        optimizer, lambda step: _warm(step, warmup) * (1.0 + (end - 1.0) * min(max(step - warmup, 0) / max(total - warmup, 1), 1.0))
    )


@checked
def cosine(optimizer: Optimizer, total: Count, end: float = 0.0, warmup: Count = 0) -> Schedule:
    """From 1 to `end` in `total` steps, by half a cosine; before it a warm-up (I. Loshchilov, F. Hutter, 2017, arXiv:1608.03983)."""

    def factor(step: int) -> float:
        done = min(max(step - warmup, 0) / max(total - warmup, 1), 1.0)
        return _warm(step, warmup) * (end + (1.0 - end) * 0.5 * (1.0 + cos(pi * done)))

    return Schedule(optimizer, factor)


@checked
def exponential(optimizer: Optimizer, gamma: float) -> Schedule:
    """Times `gamma` at each step."""
    return Schedule(optimizer, lambda step: float(gamma**step))


@checked
def steps(optimizer: Optimizer, every: Some, gamma: float = 0.1) -> Schedule:
    """Times `gamma` after each `every` steps."""
    return Schedule(optimizer, lambda step: float(gamma ** (step // every)))


@checked
def one_cycle(optimizer: Optimizer, total: Count, start: float = 0.04, end: float = 1e-4, rise: float = 0.3) -> Schedule:
    """From `start` to 1 in the first part of `total` steps, `rise` of them, and to `end` in the rest, both by half a cosine (L.
    Smith, N. Topin, 2018, arXiv:1708.07120).

    Rates are those of PyTorch's `OneCycleLR(optimizer, max_lr, total)` with `div_factor=1 / start` and `final_div_factor=start / end`:
    step `rise * total - 1` has the highest, and step `total - 1`, the last of so many, `end`.
    """
    if total > MAX_STEPS:
        raise ArgumentError(f"one_cycle: total is {told(total)}; it must be at most {MAX_STEPS}, beyond which floats are no integers")
    peak, last = rise * total - 1.0, total - 1.0

    def factor(step: int) -> float:
        if step <= peak:
            low, done = start, step / peak if peak > 0 else 1.0
        else:
            low, done = end, 1.0 - min((step - peak) / (last - peak), 1.0) if last > peak else 0.0
        return low + (1.0 - low) * 0.5 * (1.0 - cos(pi * done))

    return Schedule(optimizer, factor)
