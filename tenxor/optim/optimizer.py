"""Optimisers: steps downhill along gradients.

A step computes all that waits for it at once: the loss, if that was not asked for yet, its gradients, and the new parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import sqrt
from typing import Any

from ..creation import asarray, zeros
from ..derivatives.watched import revalue
from ..dtypes import DType
from ..errors import ArgumentError
from ..functions import elementwise
from ..functions.differentiation import no_grad
from ..functions.kinds import check, check_fields, checked, kind
from ..node import MAX_PENDING, is_pinned
from ..ops import Op, custom
from ..ops.expr import Arg, Expr, call
from ..realize import realize
from ..tensor import Tensor

__all__ = ["SGD", "Adam", "AdamW", "Lion", "Optimizer", "clip_grad_norm", "clip_grad_value"]

_op = elementwise.FUNCTIONS


@kind("an optimiser")
class Optimizer:
    """What all optimisers do. `params` are tensors that require gradients, or dicts, each with some of these as "params" and
    numbers of its own for them; `groups` are such dicts.

    A kind of optimiser says what a step does with one parameter: `_update` gives its new value, and keeps what it needs in
    `state`.
    """

    @checked
    def __init__(self, params: Iterable[Any], **numbers: Any) -> None:
        given = list(params)
        if not given:
            raise ArgumentError(
                f"{type(self).__name__}: there are no parameters; give module.parameters(), or tensors that require gradients"
            )
        some = given if isinstance(given[0], Mapping) else [{"params": given}]
        self.groups = [self._group(numbers, group) for group in some]
        self.parameters: list[Tensor] = [t for group in self.groups for t in group["params"]]
        for k, t in enumerate(self.parameters):
            if not isinstance(t, Tensor) or not t.requires_grad:
                raise ArgumentError(f"{type(self).__name__}: parameter {k} is {t!r}, which requires no gradient; use x.requires_grad_()")
            if any(t is other for other in self.parameters[:k]):
                raise ArgumentError(f"{type(self).__name__}: parameter {k} is there twice")
        self.state: list[dict[str, Any]] = [{} for _ in self.parameters]
        self.steps = 0

    def _group(self, numbers: Mapping[str, Any], group: Any) -> dict[str, Any]:
        """Some parameters, with the numbers that they have of their own, and those that are for all."""
        op = type(self).__name__
        check(op, "each group", group, "Mapping")
        check(op, 'what a group has as "params"', group.get("params"), "Iterable")
        found = {**numbers, **group, "params": list(group["params"])}
        self._check_numbers(op, found)
        return found

    def _check_numbers(self, op: str, group: Mapping[str, Any]) -> None:
        kinds = type(self).__init__.__annotations__
        for key in group.keys() & kinds.keys() - {"params"}:
            check(op, key, group[key], kinds[key])
        for beta in group.get("betas", ()):
            if not 0 <= beta < 1:
                raise ArgumentError(f"{op}: betas are {group['betas']!r}; each is from 0 on and below 1")

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for t in self.parameters:
            t.grad = None

    def step(self) -> None:
        """Move the parameters that have a gradient, in place."""
        self.steps += 1
        gradients = [t.grad for t in self.parameters]
        waiting = [g.storage.node for g in gradients if g is not None]
        if max([node.count for node in waiting], default=0) > MAX_PENDING // 2:
            realize(*waiting)  # together, before what is made of one is more than may wait, and that one is computed by itself
        del waiting  # who else holds a node is counted
        with no_grad():
            states = iter(zip(self.state, gradients, strict=True))
            for group in self.groups:
                for t in group["params"]:
                    state, gradient = next(states)
                    if gradient is not None:
                        _put(t, self._update(t, gradient, state, group), (gradient, *state.values()))
            kept = [x for state in self.state for x in state.values()]
            del gradients
        realize(*[x.storage.node for x in (*self.parameters, *kept)])

    def _update(self, x: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _update()")

    def state_dict(self) -> dict[str, Any]:
        """All that it needs to go on from here: tensors and numbers, as they are now."""
        groups = [{key: value for key, value in group.items() if key != "params"} for group in self.groups]
        return {"steps": self.steps, "groups": groups, "state": [{key: x.detach() for key, x in state.items()} for state in self.state]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there. ArgumentError if it was of other parameters, or of none."""
        check_fields("load_state_dict", state, steps="int", groups="Sequence", state="Sequence")
        if len(state["state"]) != len(self.state) or len(state["groups"]) != len(self.groups):
            raise ArgumentError(f"load_state_dict: the state is of {len(state['state'])} parameters, and here are {len(self.state)}")
        for its in (*state["groups"], *state["state"]):
            check("load_state_dict", "each group, and what is kept of each parameter,", its, "Mapping")
        kept = [{key: asarray(x).copy() for key, x in own.items()} for own in state["state"]]
        for t, own in zip(self.parameters, kept, strict=True):
            for key, x in own.items():
                if x.shape != t.shape:
                    raise ArgumentError(
                        f"load_state_dict: {key} has shape {x.shape} for a parameter of shape {t.shape}; they must be equal"
                    )
        for its in state["groups"]:
            self._check_numbers("load_state_dict", its)
        self.steps, self.state = int(state["steps"]), kept
        for group, its in zip(self.groups, state["groups"], strict=True):
            group.update(its)


def _put(t: Tensor, new: Tensor, others: Sequence[Tensor]) -> None:
    """Write the new value of a parameter. Where it lies as the parameter does, and none of the others is the same, it takes its place as
    it is.
    """
    storage, node = t.storage, new.storage.node
    alike = new.spec is t.spec and t.offset == new.offset == 0 and node.size == storage.node.size == t.size
    if not alike or node.past is not None or is_pinned(storage.node) or any([x.storage.node is node for x in others]):
        t[...] = new
    else:
        revalue(storage, node)


# What is done to each element in a step; as one operation each, so that a step has few.
_FORMULAS: dict[str, Callable[..., Expr]] = {
    "averaged": lambda mean, g, keep, more: mean * keep + g * more,
    "averaged_square": lambda mean, g, keep, more: mean * keep + g * g * more,
    "adam": lambda x, mean, square, keep, rate, scale, eps: x * keep - mean / (call("sqrt", square) * scale + eps) * rate,
    "lion": lambda x, mean, g, keep, first, more, lr: x * keep - call("sign", mean * first + g * more) * lr,
    "moved": lambda x, along, lr: x - along * lr,
    "pushed": lambda velocity, g, momentum: velocity * momentum + g,
}


@cache
def _operation(name: str, dtype: DType) -> Op:
    formula = _FORMULAS[name]
    args = [Arg(k, dtype) for k in range(formula.__code__.co_argcount)]
    return custom(name, formula(*args), tuple([dtype] * len(args)))


def _applied(name: str, x: Any, *others: Any) -> Any:
    """One of the formulas of tensors and numbers."""
    return x._with(_operation(name, x.dtype), *others)


def _kept(state: dict[str, Any], name: str, like: Any) -> Any:
    """What was kept of a parameter; zeros at first."""
    found = state.get(name)
    return zeros(like.shape, dtype=like.dtype) if found is None else found


class SGD(Optimizer):
    """`x -= lr * gradient`, or along a velocity with `momentum`: v = momentum v + gradient; with `nesterov` along gradient + momentum v.

    `weight_decay` adds that much of the parameter to its gradient.

    >>> import tenxor as tx
    >>> x = tx.nn.Parameter([1.0, -2.0])
    >>> optimizer = tx.optim.SGD([x], lr=0.25)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.tolist()
    [0.5, -1.0]
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay)

    def _update(self, x: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> Any:
        momentum = group["momentum"]
        if group["weight_decay"]:
            gradient = gradient + x * group["weight_decay"]
        if momentum:
            velocity = state["velocity"] = _applied("pushed", _kept(state, "velocity", x), gradient, momentum)
            gradient = _applied("pushed", velocity, gradient, momentum) if group["nesterov"] else velocity
        return _applied("moved", x, gradient, group["lr"])


class Adam(Optimizer):
    """Gradients over the root of their mean squares, both averaged over time by `betas` (D. Kingma, J. Ba, 2015, arXiv:1412.6980).

    `weight_decay` adds that much of the parameter to its gradient.
    """

    decoupled = False  # whether weights decay apart from the gradient

    @checked
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def _update(self, x: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> Any:
        (first, second), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        if decay and not self.decoupled:
            gradient = gradient + x * decay
        mean = state["mean"] = _applied("averaged", _kept(state, "mean", x), gradient, first, 1.0 - first)
        square = state["square"] = _applied("averaged_square", _kept(state, "square", x), gradient, second, 1.0 - second)
        keep = 1.0 - lr * decay if self.decoupled else 1.0
        rate, scale = lr / (1.0 - first**self.steps), 1.0 / sqrt(1.0 - second**self.steps)
        return _applied("adam", x, mean, square, keep, rate, scale, group["eps"])


class AdamW(Adam):
    """`Adam`, with weights that decay apart from the gradient (I. Loshchilov, F. Hutter, 2019, arXiv:1711.05101).

    >>> import tenxor as tx
    >>> model = tx.nn.Linear(2, 1)
    >>> optimizer = tx.optim.AdamW(model.parameters(), lr=0.01)
    >>> before = model.weight.tolist()
    >>> model(tx.ones((1, 2), dtype=tx.float32)).sum().backward()
    >>> optimizer.step()
    >>> before != model.weight.tolist()
    True
    """

    decoupled = True

    @checked
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)


class Lion(Optimizer):
    """Steps of one size in the direction of the averaged gradient's sign (X. Chen et al., 2023, arXiv:2302.06675)."""

    @checked
    def __init__(
        self, params: Iterable[Any], lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, weight_decay=weight_decay)

    def _update(self, x: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> Any:
        (first, second), lr = group["betas"], group["lr"]
        mean = _kept(state, "mean", x)
        state["mean"] = _applied("averaged", mean, gradient, second, 1.0 - second)
        return _applied("lion", x, mean, gradient, 1.0 - lr * group["weight_decay"], first, 1.0 - first, lr)


# --- gradients held in bounds -----------------------------------------------------------------------------------------


@checked
def clip_grad_norm(params: Iterable[Tensor], max_norm: float) -> Tensor:
    """The root of the sum of squares of all gradients, as a new tensor; if it is above `max_norm` they are scaled down, in place,
    until it is not.

    >>> import tenxor as tx
    >>> x = tx.nn.Parameter([3.0, 4.0])
    >>> (x * x / 2.0).sum().backward()
    >>> tx.optim.clip_grad_norm([x], 1.0).item(), [round(g, 6) for g in x.grad.tolist()]
    (5.0, [0.6, 0.8])
    """
    gradients = _gradients("clip_grad_norm", params)
    if not gradients:
        return zeros(())
    with no_grad():
        total = sum([(abs(g) ** 2).sum() for g in gradients])
        norm: Any = _op["sqrt"](total)
        scale = _op["minimum"](max_norm / (norm + 1e-6), 1.0)
        for g in gradients:
            g *= scale
    return norm  # type: ignore[no-any-return]


@checked
def clip_grad_value(params: Iterable[Tensor], max_value: float) -> None:
    """Hold each element of all gradients between -max_value and max_value, in place."""
    with no_grad():
        bound = float(max_value)
        for gradient in _gradients("clip_grad_value", params):
            gradient[...] = gradient.clip(-bound, bound)


def _gradients(op: str, params: Iterable[Tensor]) -> Sequence[Any]:
    """Those that there are."""
    given = list(params)
    for k, t in enumerate(given):
        check(op, f"parameter {k}", t, "Tensor")
    return [t.grad for t in given if t.grad is not None]
