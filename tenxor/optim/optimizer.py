"""Optimisers: steps downhill along gradients.

A step computes all that waits for it at once: the loss, if that was not asked for yet, its gradients, and the new parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import sqrt
from typing import Any

from ..creation import asarray, zeros
from ..derivatives.adjoint import Part
from ..derivatives.again import made_again
from ..derivatives.seen import Seen, computed
from ..derivatives.watched import revalue, watch_of
from ..dtypes import DType, check_real
from ..errors import ArgumentError, described
from ..functions import elementwise
from ..functions.differentiation import no_grad
from ..functions.kinds import check, check_fields, checked, kind
from ..node import MAX_PENDING, Node, Scalar, is_pinned, watchers
from ..ops import Op, custom
from ..ops.expr import Arg, Expr, call
from ..ops.pullbacks import conj
from ..realize import realize
from ..records import NamedTuple
from ..storage import Storage
from ..tensor import Tensor

__all__ = ["SGD", "Adam", "AdamW", "Lion", "Optimizer", "clip_grad_norm", "clip_grad_value"]

_op = elementwise.FUNCTIONS
_LEAST_0 = {"lr", "momentum", "weight_decay", "eps"}  # numbers of groups that are not below 0


class _Move(NamedTuple):
    """What a step does with one parameter: along which gradient, by what is kept of it, by the numbers of which group, as which of its
    steps.
    """

    x: Tensor
    gradient: Storage
    state: dict[str, Any]
    group: Mapping[str, Any]
    number: int


@kind("an optimiser")
class Optimizer:
    """What all optimisers do. `params` are tensors that require gradients, or dicts, each with some of these as "params" and
    numbers of its own for them; `groups` are such dicts. `steps` is how many were made, `counts` in how many of them each parameter had
    a gradient.

    A kind of optimiser says what a step does with one parameter: `_update` gives its new value, of what it `_keeps` in `state` and
    `_numbers`. For float16 and bfloat16 all of that is float32, as these have no room for averages over a thousand steps.
    """

    @checked
    def __init__(self, params: Iterable[Any], **numbers: Any) -> None:
        if isinstance(params, Tensor):
            raise ArgumentError(f"{type(self).__name__}: params are a list of tensors, not one of shape {params.shape}; give [x]")
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
                raise ArgumentError(
                    f"{type(self).__name__}: parameter {k} is {described(t)}, which requires no gradient;"
                    " use x.requires_grad_()"
                )
            if not t.is_leaf:
                raise ArgumentError(f"{type(self).__name__}: parameter {k} was computed from others; give these, or use x.detach().copy()")
            if any(t is other for other in self.parameters[:k]):
                raise ArgumentError(f"{type(self).__name__}: parameter {k} is there twice")
        self.state: list[dict[str, Any]] = [{} for _ in self.parameters]
        self.steps = 0
        self.counts = [0 for _ in self.parameters]

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
        for key in _LEAST_0 & group.keys():
            if group[key] < 0:
                raise ArgumentError(f"{op}: {key} is {group[key]!r}; it is 0 or more")
        for beta in group.get("betas", ()):
            if not 0 <= beta < 1:
                raise ArgumentError(f"{op}: betas are {group['betas']!r}; each is from 0 on and below 1")

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters, those too that require none any more."""
        for t in self.parameters:
            watch = watch_of(t.storage)
            if watch is not None:
                watch.grad = None

    def step(self) -> None:
        """Move the parameters that have a gradient, in place."""
        self.steps += 1
        watches = [watch_of(t.storage) for t in self.parameters]
        waiting = [watch.grad.node for watch in watches if watch is not None and watch.grad is not None]
        if max([node.count for node in waiting], default=0) > MAX_PENDING // 2:
            realize(*waiting)  # together, before what is made of one is more than may wait, and that one is computed by itself
        del waiting  # who else holds a node is counted
        moves = []
        for k, (t, group) in enumerate([(t, its) for its in self.groups for t in its["params"]]):
            watch = watches[k]
            if watch is not None and watch.grad is not None:
                self.counts[k] += 1
                moves.append(_Move(t, watch.grad, self.state[k], group, self.counts[k]))
        with no_grad():
            if len({move.x.storage for move in moves}) == len(moves):
                self._make(moves)
            else:  # some see what others move
                for move in moves:
                    self._make([move])
        kept = [t for state in self.state for t in state.values()]
        realize(*[t.storage.node for t in (*self.parameters, *kept)])

    def _make(self, moves: Sequence[_Move]) -> None:
        """Move parameters that share no memory. What is computed for it follows from how all lies that is read, so it is made again."""
        given: list[Node | Scalar] = []
        key: list[object] = [type(self)]
        # Where the numbers of a group, for a count of steps, are given, and what it keeps.
        of_group: dict[tuple[int, DType, int], tuple[slice, Sequence[str]]] = {}
        places: list[tuple[int, slice]] = []  # where nodes of a move are, and numbers for it
        changing: list[Tensor] = []
        for x, gradient, state, group, count in moves:
            known = of_group.get((id(group), x.dtype, count))
            if known is None:
                own = [Scalar(number, x.dtype.compute) for number in self._numbers(group, count)]
                known = of_group[id(group), x.dtype, count] = slice(len(given), len(given) + len(own)), self._keeps(group)
                given += own
                key += [bool(number.value) for number in own]
            numbers, names = known
            kept = [state[name] if name in state else _zeros(state, name, x) for name in names]
            key += (numbers.start, x.offset, x.spec, *[t.spec for t in kept])
            places.append((len(given), numbers))
            given += (x.storage.node, gradient.node, *[t.storage.node for t in kept])
            changing += (x, *kept)

        def make(stand_ins: Sequence[Any]) -> list[tuple[int, Part]]:
            found: list[Part] = []
            for (x, _, state, group, _), (start, numbers) in zip(moves, places, strict=True):
                layouts = [x.layout, x.layout, *[state[name].layout for name in self._keeps(group)]]
                seen = [Seen(node, layout) for node, layout in zip(stand_ins[start : start + len(layouts)], layouts, strict=True)]
                wide = x.dtype.compute
                moved, *kept = self._update(seen[0].cast(wide), seen[1].cast(wide), seen[2:], stand_ins[numbers])
                found += (moved.cast(x.dtype), *kept)
            return list(enumerate(found))

        for t, (_, part) in zip(changing, make(given) if watchers else made_again(tuple(key), given, make), strict=True):
            assert isinstance(part, Seen)
            for look in watchers:
                look(part.node)
            _put(t, part)

    def _keeps(self, group: Mapping[str, Any]) -> Sequence[str]:
        """The names of what is kept of each parameter, which is 0 at first."""
        return ()

    def _numbers(self, group: Mapping[str, Any], count: int) -> Sequence[float]:
        """The numbers of the step that is number `count` of a parameter. Which are 0 decides, with the rest, what a step computes."""
        raise NotImplementedError(f"{type(self).__name__} has no _numbers()")

    def _update(self, x: Seen, gradient: Seen, kept: Sequence[Seen], numbers: Sequence[Scalar]) -> Sequence[Seen]:
        """The new value of a parameter, and of each that is kept of it; new nodes, made of these alone."""
        raise NotImplementedError(f"{type(self).__name__} has no _update()")

    def state_dict(self) -> dict[str, Any]:
        """All that it needs to go on from here: tensors and numbers, as they are now."""
        groups = [{key: value for key, value in group.items() if key != "params"} for group in self.groups]
        state = [{key: x.detach() for key, x in state.items()} for state in self.state]
        return {"steps": self.steps, "counts": list(self.counts), "groups": groups, "state": state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there. ArgumentError if it was of other parameters, or of none. If it has no `counts`, as those of
        earlier versions, whatever has moved did so in all steps.
        """
        check_fields("load_state_dict", state, steps="int", groups="Sequence", state="Sequence")
        if len(state["state"]) != len(self.state) or len(state["groups"]) != len(self.groups):
            raise ArgumentError(f"load_state_dict: the state is of {len(state['state'])} parameters, and here are {len(self.state)}")
        for its in (*state["groups"], *state["state"]):
            check("load_state_dict", "each group, and what is kept of each parameter,", its, "Mapping")
        given = [{key: asarray(x) for key, x in own.items()} for own in state["state"]]
        for t, own in zip(self.parameters, given, strict=True):
            for key, x in own.items():
                check_real(f"load_state_dict: {key}", x.dtype, t.dtype)
                if x.shape != t.shape:
                    raise ArgumentError(
                        f"load_state_dict: {key} has shape {x.shape} for a parameter of shape {t.shape}; they must be equal"
                    )
        kept = [{key: x.astype(t.dtype.compute) for key, x in own.items()} for t, own in zip(self.parameters, given, strict=True)]
        for its in state["groups"]:
            self._check_numbers("load_state_dict", its)
        steps = int(state["steps"])
        counts = state.get("counts", [steps if own else 0 for own in kept])
        check("load_state_dict", "what the state has as 'counts'", counts, "Sequence")
        if len(counts) != len(self.counts):
            raise ArgumentError(f"load_state_dict: there are counts of {len(counts)} parameters, and here are {len(self.counts)}")
        for k, count in enumerate(counts):
            check("load_state_dict", f"count {k}", count, "int")
            if count < 0:
                raise ArgumentError(f"load_state_dict: count {k} is {count}; it is 0 or more")
        self.steps, self.counts, self.state = steps, [int(count) for count in counts], kept
        for group, its in zip(self.groups, state["groups"], strict=True):
            group.update(its)


def _put(t: Tensor, new: Seen) -> None:
    """Write new elements, which nobody else has. Where they lie as those of the tensor do, they take their place as they are."""
    storage, layout, spec = t.storage, new.layout, t.spec
    whole = storage.node.recipe.size == spec.size and layout.form is spec.form and t.offset == layout.offset == 0
    if not whole or is_pinned(storage.node):
        t[...] = Tensor(Storage(new.node), layout, spec.dtype)
    elif type(storage) is Storage:
        storage.node = new.node
    else:
        revalue(storage, new.node)


# What is done to each element in a step; as one operation each, so that a step has few.
_FORMULAS: dict[str, Callable[..., Expr]] = {
    "averaged": lambda mean, g, keep, more: mean * keep + g * more,
    "averaged_square": lambda mean, g, keep, more: mean * keep + g * conj(g) * more,
    "adam": lambda x, mean, square, keep, rate, scale, eps: x * keep - mean / (call("sqrt", square) * scale + eps) * rate,
    "lion": lambda x, mean, g, keep, first, more, lr: x * keep - call("sign", mean * first + g * more) * lr,
    "decayed": lambda g, x, decay: g + x * decay,
    "moved": lambda x, along, lr: x - along * lr,
    "pushed": lambda velocity, g, momentum: velocity * momentum + g,
}


@cache
def _operation(name: str, dtype: DType) -> Op:
    formula = _FORMULAS[name]
    args = [Arg(k, dtype) for k in range(formula.__code__.co_argcount)]
    return custom(name, formula(*args), tuple([dtype] * len(args)))


def _applied(name: str, *operands: Seen | Scalar) -> Seen:
    """One of the formulas of tensors and numbers."""
    dtype = operands[0].dtype
    return computed(_operation(name, dtype), operands, dtype)


def _zeros(state: dict[str, Any], name: str, like: Tensor) -> Tensor:
    """What is kept of a parameter, at first."""
    found: Tensor = zeros(like.shape, dtype=like.dtype.compute)
    state[name] = found
    return found


class SGD(Optimizer):
    """`x -= lr * gradient`, or along a velocity with `momentum`: v = momentum v + (1 - dampening) gradient, which is the gradient in the
    first step; with `nesterov`, which goes without dampening, along gradient + momentum v.

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
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(params, lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov)

    def _check_numbers(self, op: str, group: Mapping[str, Any]) -> None:
        super()._check_numbers(op, group)
        if group.get("nesterov") and group.get("dampening"):
            raise ArgumentError(f"{op}: dampening is {group['dampening']!r} beside nesterov, which goes with none; leave one of them out")

    def _keeps(self, group: Mapping[str, Any]) -> Sequence[str]:
        return ("velocity",) if group["momentum"] else ()

    def _numbers(self, group: Mapping[str, Any], count: int) -> Sequence[float]:
        damped = 1.0 if count == 1 else 1.0 - group.get("dampening", 0.0)  # the first velocity is the gradient itself, as in PyTorch
        return group["lr"], group["momentum"], group["weight_decay"], float(group["nesterov"]), damped

    def _update(self, x: Seen, gradient: Seen, kept: Sequence[Seen], numbers: Sequence[Scalar]) -> Sequence[Seen]:
        lr, momentum, decay, nesterov, damped = numbers
        if decay.value:
            gradient = _applied("decayed", gradient, x, decay)
        if not momentum.value:
            return [_applied("moved", x, gradient, lr)]
        velocity = _applied("averaged", kept[0], gradient, momentum, damped)
        along = _applied("pushed", velocity, gradient, momentum) if nesterov.value else velocity
        return [_applied("moved", x, along, lr), velocity]


class Adam(Optimizer):
    """Gradients over the root of their mean squares, both averaged over time by `betas` (D. Kingma, J. Ba, 2015, arXiv:1412.6980).

    `weight_decay` adds that much of the parameter to its gradient. The square of a complex number is that of its size. How far the
    averages are from their start is told by the steps in which that parameter had a gradient.
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

    def _keeps(self, group: Mapping[str, Any]) -> Sequence[str]:
        return "mean", "square"

    def _numbers(self, group: Mapping[str, Any], count: int) -> Sequence[float]:
        (first, second), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        rate, scale = lr / (1.0 - first**count), 1.0 / sqrt(1.0 - second**count)
        keep, decay = (1.0 - lr * decay, 0.0) if self.decoupled else (1.0, decay)
        return first, 1.0 - first, second, 1.0 - second, keep, rate, scale, group["eps"], decay

    def _update(self, x: Seen, gradient: Seen, kept: Sequence[Seen], numbers: Sequence[Scalar]) -> Sequence[Seen]:
        *averaging, keep, rate, scale, eps, decay = numbers
        if decay.value:
            gradient = _applied("decayed", gradient, x, decay)
        mean = _applied("averaged", kept[0], gradient, *averaging[:2])
        square = _applied("averaged_square", kept[1], gradient, *averaging[2:])
        return [_applied("adam", x, mean, square, keep, rate, scale, eps), mean, square]


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

    def _keeps(self, group: Mapping[str, Any]) -> Sequence[str]:
        return ("mean",)

    def _numbers(self, group: Mapping[str, Any], count: int) -> Sequence[float]:
        (first, second), lr = group["betas"], group["lr"]
        return first, 1.0 - first, second, 1.0 - second, 1.0 - lr * group["weight_decay"], lr

    def _update(self, x: Seen, gradient: Seen, kept: Sequence[Seen], numbers: Sequence[Scalar]) -> Sequence[Seen]:
        first, no_first, second, no_second, keep, lr = numbers
        moved = _applied("lion", x, kept[0], gradient, keep, first, no_first, lr)
        return [moved, _applied("averaged", kept[0], gradient, second, no_second)]


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
        total = sum([(abs(g).astype(g.dtype.part.compute, copy=False) ** 2).sum() for g in gradients])
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
