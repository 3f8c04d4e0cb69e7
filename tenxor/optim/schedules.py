"""Learning rate schedules. A schedule sets `lr` of an optimiser's groups whenever `step()` is called, once after each step of the
optimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi
from typing import Any

from ..api.argument_validation import NonNegativeInt, PositiveInt, check_argument, check_fields, describe_with_type, validate_arguments
from ..errors import ArgumentError
from .optimizer import Optimizer

__all__ = ["Schedule", "constant_with_warmup", "cosine", "exponential", "linear", "one_cycle", "steps"]


MAX_STEPS = 1 << 53


class Schedule:
    """A schedule: the initial learning rates of the groups, multiplied by a function of the number of steps.

    Parameters
    ----------
    optimizer : Optimizer
        The optimiser. The schedule sets "lr" in each of its `groups`, at once and in each `step`.
    factor : Callable
        A function from the number of steps, an int from 0 on, to the factor of the initial rates, a float.

    Attributes
    ----------
    count : int
        The number of steps.
    rates : list of float
        The initial learning rate of each group.

    Raises
    ------
    ArgumentError
        If `factor` returns no real number.

    Examples
    --------
    >>> import tenxor as tx
    >>> optimizer = tx.optim.SGD([tx.nn.Parameter([1.0])], lr=1.0)
    >>> schedule = tx.optim.Schedule(optimizer, lambda step: 0.5**step)
    >>> schedule.step()
    >>> optimizer.groups[0]["lr"]
    0.5
    """

    @validate_arguments
    def __init__(self, optimizer: Optimizer, factor: Callable[[int], float]) -> None:
        self.optimizer, self.factor, self.count = optimizer, factor, 0
        self.rates = [group["lr"] for group in optimizer.groups]
        self._set_rates()

    def step(self) -> None:
        """Count a step, and set the new rates. Call it once after each step of the optimiser."""
        self.count += 1
        self._set_rates()

    def _set_rates(self) -> None:
        """Set "lr" in each group of the optimiser for the present `count`. Raise ArgumentError if the factor is no real number."""
        for group, rate in zip(self.optimizer.groups, self.rates, strict=True):
            factor = self.factor(self.count)
            check_argument("Schedule", f"the factor of step {self.count}", factor, "float")
            group["lr"] = rate * factor

    def state_dict(self) -> dict[str, Any]:
        """Return the state as numbers, for `load_state_dict`: a new dict with "count" and "rates"."""
        return {"count": self.count, "rates": list(self.rates)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned, and set the rates.

        Parameters
        ----------
        state : dict
            The result of `state_dict`.

        Raises
        ------
        ArgumentError
            If the number of groups differs, or if an entry is missing or has the wrong type.
        """
        check_fields("load_state_dict", state, count="int", rates="Sequence")
        if len(state["rates"]) != len(self.rates):
            raise ArgumentError(
                f"load_state_dict: the state is of {len(state['rates'])} groups and the schedule of {len(self.rates)}; they must be equally"
                " many"
            )
        for rate in state["rates"]:
            check_argument("load_state_dict", "each rate", rate, "float")
        self.count, self.rates = int(state["count"]), list(state["rates"])
        self._set_rates()


def _warmup_factor(step: int, warmup: NonNegativeInt) -> float:
    """Return the factor of step `step` with `warmup` steps of a linear rise; 1 after them."""
    return min(1.0, (step + 1) / (warmup + 1))


@validate_arguments
def constant_with_warmup(optimizer: Optimizer, warmup: NonNegativeInt) -> Schedule:
    """Return a schedule that rises linearly for `warmup` steps, then stays at 1.

    Parameters
    ----------
    optimizer : Optimizer
        The optimiser with the rates.
    warmup : int
        The number of steps, 0 or more. Step `k` below `warmup` has the factor `(k + 1) / (warmup + 1)`.

    Returns
    -------
    Schedule
        A new schedule. It multiplies the rates that the groups of `optimizer` have now, and has set the rates of step 0.

    Raises
    ------
    ArgumentError
        If `warmup` is negative or no integer.

    Examples
    --------
    >>> import tenxor as tx
    >>> optimizer = tx.optim.SGD([tx.nn.Parameter([1.0])], lr=1.0)
    >>> schedule = tx.optim.constant_with_warmup(optimizer, 3)
    >>> optimizer.groups[0]["lr"]
    0.25
    """
    return Schedule(optimizer, lambda step: _warmup_factor(step, warmup))


@validate_arguments
def linear(optimizer: Optimizer, total: NonNegativeInt, end: float = 0.0, warmup: NonNegativeInt = 0) -> Schedule:
    """Return a schedule that falls linearly from 1 to `end` within `total` steps.

    Parameters
    ----------
    optimizer : Optimizer
        The optimiser with the rates.
    total : int
        The number of steps, 0 or more, including the warm-up.
    end : float, default 0.0
        The factor from step `total` on, if `warmup` is less than `total`.
    warmup : int, default 0
        The number of steps with a linear rise, as in `constant_with_warmup`.

    Returns
    -------
    Schedule
        A new schedule.

    Raises
    ------
    ArgumentError
        If `total` or `warmup` is negative, or if an argument has another type.

    Examples
    --------
    >>> import tenxor as tx
    >>> optimizer = tx.optim.SGD([tx.nn.Parameter([1.0])], lr=1.0)
    >>> schedule = tx.optim.linear(optimizer, 4)
    >>> schedule.step()
    >>> optimizer.groups[0]["lr"]
    0.75
    """
    return Schedule(
        optimizer,
        lambda step: _warmup_factor(step, warmup) * (1.0 + (end - 1.0) * min(max(step - warmup, 0) / max(total - warmup, 1), 1.0)),
    )


@validate_arguments
def cosine(optimizer: Optimizer, total: NonNegativeInt, end: float = 0.0, warmup: NonNegativeInt = 0) -> Schedule:
    """Return a schedule that falls from 1 to `end` within `total` steps along half a cosine.

    Parameters
    ----------
    optimizer : Optimizer
        The optimiser with the rates.
    total : int
        The number of steps, 0 or more, including the warm-up.
    end : float, default 0.0
        The factor from step `total` on, if `warmup` is less than `total`.
    warmup : int, default 0
        The number of steps with a linear rise, as in `constant_with_warmup`.

    Returns
    -------
    Schedule
        A new schedule.

    Raises
    ------
    ArgumentError
        If `total` or `warmup` is negative, or if an argument has another type.

    References
    ----------
    I. Loshchilov, F. Hutter: SGDR: stochastic gradient descent with warm restarts, 2017, arXiv:1608.03983.

    Examples
    --------
    >>> import tenxor as tx
    >>> optimizer = tx.optim.SGD([tx.nn.Parameter([1.0])], lr=1.0)
    >>> schedule = tx.optim.cosine(optimizer, 4)
    >>> for _ in range(2):
    ...     schedule.step()
    >>> round(optimizer.groups[0]["lr"], 6)
    0.5
    """

    def factor(step: int) -> float:
        progress = min(max(step - warmup, 0) / max(total - warmup, 1), 1.0)
        return _warmup_factor(step, warmup) * (end + (1.0 - end) * 0.5 * (1.0 + cos(pi * progress)))

    return Schedule(optimizer, factor)


@validate_arguments
def exponential(optimizer: Optimizer, gamma: float) -> Schedule:
    """Return a schedule that multiplies the rate by `gamma` at each step.

    Parameters
    ----------
    optimizer : Optimizer
        The optimiser with the rates.
    gamma : float
        The factor of one step.

    Returns
    -------
    Schedule
        A new schedule.

    Raises
    ------
    ArgumentError
        If `gamma` is no real number.

    Examples
    --------
    >>> import tenxor as tx
    >>> optimizer = tx.optim.SGD([tx.nn.Parameter([1.0])], lr=1.0)
    >>> schedule = tx.optim.exponential(optimizer, 0.5)
    >>> schedule.step()
    >>> optimizer.groups[0]["lr"]
    0.5
    """
    return Schedule(optimizer, lambda step: float(gamma**step))


@validate_arguments
def steps(optimizer: Optimizer, every: PositiveInt, gamma: float = 0.1) -> Schedule:
    """Return a schedule that multiplies the rate by `gamma` after every `every` steps.

    Parameters
    ----------
    optimizer : Optimizer
        The optimiser with the rates.
    every : int
        The number of steps with one rate, 1 or more.
    gamma : float, default 0.1
        The factor after each `every` steps.

    Returns
    -------
    Schedule
        A new schedule.

    Raises
    ------
    ArgumentError
        If `every` is below 1.

    Examples
    --------
    >>> import tenxor as tx
    >>> optimizer = tx.optim.SGD([tx.nn.Parameter([1.0])], lr=1.0)
    >>> schedule = tx.optim.steps(optimizer, 2, gamma=0.5)
    >>> for _ in range(3):
    ...     schedule.step()
    >>> optimizer.groups[0]["lr"]
    0.5
    """
    return Schedule(optimizer, lambda step: float(gamma ** (step // every)))


@validate_arguments
def one_cycle(optimizer: Optimizer, total: NonNegativeInt, start: float = 0.04, end: float = 1e-4, rise: float = 0.3) -> Schedule:
    """Return a schedule that rises from `start` to 1, then falls to `end`, both along half a cosine.

    The rates are those of PyTorch's `OneCycleLR(optimizer, max_lr, total)` with `div_factor=1 / start` and `final_div_factor=start / end`.
    Step `rise * total - 1` has the highest rate, and the last step, `total - 1`, has `end`.

    Parameters
    ----------
    optimizer : Optimizer
        The optimiser with the highest rates.
    total : int
        The number of steps, from 0 to 2**53.
    start, end : float, default 0.04, 1e-4
        The factors of the first and the last step.
    rise : float, default 0.3
        The fraction of the steps in which the rate rises.

    Returns
    -------
    Schedule
        A new schedule.

    Raises
    ------
    ArgumentError
        If `total` is negative or above 2**53.

    References
    ----------
    L. Smith, N. Topin: Super-convergence: very fast training of neural networks using large learning rates, 2018, arXiv:1708.07120.

    Examples
    --------
    >>> import tenxor as tx
    >>> optimizer = tx.optim.SGD([tx.nn.Parameter([1.0])], lr=1.0)
    >>> schedule = tx.optim.one_cycle(optimizer, 10)
    >>> for _ in range(2):
    ...     schedule.step()
    >>> optimizer.groups[0]["lr"]
    1.0
    """
    if total > MAX_STEPS:
        raise ArgumentError(
            f"one_cycle: total is {describe_with_type(total)}; it must be at most {MAX_STEPS}, the largest exact integer of floats"
        )
    peak, last_step = rise * total - 1.0, total - 1.0

    def factor(step: int) -> float:
        if step <= peak:
            low, progress = start, step / peak if peak > 0 else 1.0
        else:
            low, progress = end, 1.0 - min((step - peak) / (last_step - peak), 1.0) if last_step > peak else 0.0
        return low + (1.0 - low) * 0.5 * (1.0 - cos(pi * progress))

    return Schedule(optimizer, factor)
