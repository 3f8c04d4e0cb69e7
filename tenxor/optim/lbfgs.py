"""L-BFGS: a quasi-Newton method with the curvature estimated from the last steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..api.argument_validation import PositiveInt, check_argument, check_fields, validate_arguments
from ..api.concatenation import concat
from ..api.creation import asarray
from ..api.differentiation import no_grad
from ..errors import ArgumentError
from .optimizer import Optimizer

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """L-BFGS minimises a smooth function of up to a few thousand numbers in few steps.

    Each step includes a line search until the weak Wolfe conditions hold: a sufficient decrease of the value (Armijo), and of the slope.

    Parameters
    ----------
    params : Iterable of Tensor
        Leaf tensors that require gradients, or a list of one group: see `Optimizer`. Real and imaginary parts count as independent numbers.
    lr : float, default 1.0
        The length of the first trial of a line search, relative to the search direction.
    history : int, default 10
        The number of steps remembered, 1 or more.
    searches : int, default 25
        The maximum number of trials of a line search, 1 or more.

    Raises
    ------
    ArgumentError
        If there is more than one group, or as for `Optimizer`.

    References
    ----------
    J. Nocedal, S. Wright: Numerical optimization, 2nd edition, 2006, chapters 3 and 7.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.nn.Parameter([-1.2, 1.0])
    >>> optimizer = tx.optim.LBFGS([x])
    >>> for _ in range(40):
    ...     loss = optimizer.step(lambda: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)
    >>> bool((abs(x - 1.0) < 1e-6).all())
    True
    """

    @validate_arguments
    def __init__(self, params: Iterable[Any], lr: float = 1.0, *, history: PositiveInt = 10, searches: PositiveInt = 25) -> None:
        super().__init__(params, lr=lr)
        if len(self.groups) > 1:
            raise ArgumentError(f"LBFGS: params has {len(self.groups)} groups; there must be one group of parameters")
        self.history, self.searches = history, searches
        self._steps: list[tuple[Any, Any, float]] = []  # step, change of the gradient, and 1 / (inner product of both)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move the parameters to a point of lower loss, in place, and return the loss before.

        Parameters
        ----------
        closure : Callable
            A function without arguments that computes the loss, a tensor of one element; a step calls it several times. The closure may
            call `backward()` itself, as with PyTorch; otherwise `step` does.

        Returns
        -------
        Tensor
            The loss before the step, a new tensor without gradient.

        Raises
        ------
        ArgumentError
            If `closure` is missing, is not a function, or returns no tensor.
        """
        if closure is None:
            raise ArgumentError("LBFGS: closure is None; it must be a function that computes the loss, which step calls several times")
        check_argument("LBFGS", "closure", closure, "Callable")
        self.steps += 1
        value, gradient = self._evaluate(closure)
        start = self._flatten_parameters()
        direction = self._search_direction(gradient)
        slope = (direction * gradient).sum().item()
        if not slope < 0.0:  # at a minimum, or the curvature estimate is wrong
            self._steps.clear()
            direction, slope = -gradient, -(gradient * gradient).sum().item()
        if slope == 0.0:
            return value
        size = self.groups[0]["lr"] if self._steps else min(1.0, 1.0 / abs(gradient).sum().item()) * self.groups[0]["lr"]
        low, high = 0.0, float("inf")
        for _ in range(self.searches):
            self._set_parameters(start + direction * size)
            new_value, new_gradient = self._evaluate(closure)
            if not new_value.item() <= value.item() + 1e-4 * size * slope:
                high = size
            elif (new_gradient * direction).sum().item() < 0.9 * slope:
                low = size
            else:
                break
            size = 2.0 * low if high == float("inf") else (low + high) / 2.0
        else:  # the search failed: keep the last point with sufficient decrease, or the start
            self._set_parameters(start + direction * low)
            self._steps.clear()
            return value
        displacement, change = direction * size, new_gradient - gradient
        product = (displacement * change).sum().item()
        if product > 1e-10:
            self._steps = [*self._steps, (displacement.realize(), change.realize(), 1.0 / product)][-self.history :]
        return value

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[Any, Any]:
        """Return the loss at the present parameters, computed by `closure`, and the gradient as a 1-D tensor. Both are computed now.

        If `closure` has not called `backward`, it is called on the loss. The order of the elements is that of `_flatten_parameters`; a
        parameter without gradient counts as 0. Gradients of the parameters are None afterwards. Raise ArgumentError if the loss is no
        tensor.
        """
        self.zero_grad()
        value = closure()
        check_argument("LBFGS", "the loss that closure gives", value, "Tensor")
        if all(t.grad is None for t in self.parameters):  # the closure may call backward() itself, as PyTorch's must
            value.backward()
        flat_gradient = concat(
            [component for t in self.parameters for component in _real_components(t * 0.0 if t.grad is None else t.grad)]
        ).detach()
        self.zero_grad()
        return value.detach().realize(), flat_gradient.realize()

    def _flatten_parameters(self) -> Any:
        """Return a new 1-D tensor, computed now, with all elements of each parameter in turn.

        A complex parameter gives its real parts, and then its imaginary parts.
        """
        return concat([component for t in self.parameters for component in _real_components(t.detach())]).realize()

    def _set_parameters(self, x: Any) -> None:
        """Write the elements of the 1-D tensor `x` into the parameters, in the order of `_flatten_parameters`."""
        start = 0
        with no_grad():
            for t in self.parameters:
                for component in (t.real, t.imag) if t.dtype.is_complex else (t,):
                    component[...] = x[start : start + t.size].reshape(t.shape)
                    start += t.size

    def _search_direction(self, gradient: Any) -> Any:
        """Return the search direction for the 1-D tensor `gradient`, by the two-loop recursion of L-BFGS over the remembered steps.

        Without remembered steps, it is the negative gradient. The result is computed now.
        """
        direction = -gradient
        weights = []
        for displacement, change, inverse in reversed(self._steps):
            weight = (displacement * direction).sum().item() * inverse
            weights.append(weight)
            direction = direction - change * weight
        if self._steps:
            displacement, change, inverse = self._steps[-1]
            direction = direction * (1.0 / inverse / (change * change).sum().item())
        for (displacement, change, inverse), weight in zip(self._steps, reversed(weights), strict=True):
            direction = direction + displacement * (weight - (change * direction).sum().item() * inverse)
        return direction.realize()

    def state_dict(self) -> dict[str, Any]:
        """Return the state as tensors and numbers, for `load_state_dict`.

        Returns
        -------
        dict
            The entries of `Optimizer.state_dict`, and "history": for each remembered step two tensors and a number.
        """
        return {**super().state_dict(), "history": list(self._steps)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state_dict` returned.

        Parameters
        ----------
        state : Mapping
            The result of `state_dict`.

        Raises
        ------
        ArgumentError
            If an entry is missing or has the wrong type, or if the number of elements of the parameters differs.
        """
        check_fields("load_state_dict", state, history="Sequence")
        size = sum(t.size * (2 if t.dtype.is_complex else 1) for t in self.parameters)
        steps = [_check_history_entry(entry, size) for entry in state["history"]]
        super().load_state_dict(state)
        self._steps = steps


def _check_history_entry(entry: Any, size: int) -> tuple[Any, Any, float]:
    """Return `entry`, a step of a saved history, as a tuple: the changes of parameters and gradient, and the inverse of their product.

    Both changes are tensors of `size` elements. Raise ArgumentError if `entry` has another form.
    """
    check_argument("load_state_dict", "each entry of 'history'", entry, "Sequence")
    if len(entry) != 3:
        raise ArgumentError(f"load_state_dict: an entry of 'history' has {len(entry)} items; it must have two tensors and a number")
    step, change = asarray(entry[0]), asarray(entry[1])
    if step.shape != (size,) or change.shape != (size,):
        raise ArgumentError(
            f"load_state_dict: an entry of 'history' has tensors of shapes {step.shape} and {change.shape}; both must be ({size},), "
            "an element for each element of the parameters"
        )
    return step, change, float(entry[2])


def _real_components(t: Any) -> list[Any]:
    """Return a list of 1-D tensors: the elements of `t`, or for complex `t` the real and the imaginary parts, as independent numbers."""
    return [component.reshape(-1) for component in ((t.real, t.imag) if t.dtype.is_complex else (t,))]
