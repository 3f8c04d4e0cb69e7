"""Optimisers: gradient descent and its variants.

A step computes its pending inputs together: the loss, if still pending, the gradients, and the new parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import sqrt
from typing import Any

from .._utils import upcalls
from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..api import elementwise
from ..api.argument_validation import check_argument, check_fields, register_argument_type, validate_arguments
from ..api.creation import asarray, zeros
from ..api.differentiation import no_grad
from ..autodiff.grad_storage import get_handler
from ..autodiff.layout_adjoint import Cotangent
from ..autodiff.leaf_storage import replace_content
from ..autodiff.node_view import NodeView, apply_op
from ..autodiff.replay import replay_or_record
from ..dtypes import DType, check_real
from ..errors import ArgumentError, describe_value
from ..graph.node import MAX_PENDING_NODES, Node, Scalar, is_externally_shared
from ..graph.storage import Storage
from ..ops import Op, make_custom_op
from ..ops.expr import Arg, Expr, call
from ..ops.vjp_formulas import conj
from ..runtime.pending_limits import count_pending
from ..runtime.realize import realize
from ..tensor import Tensor

__all__ = ["SGD", "Adam", "AdamW", "Lion", "Optimizer"]

_op = elementwise.FUNCTIONS
_NONNEGATIVE_SETTINGS = {"lr", "momentum", "weight_decay", "eps"}  # settings of groups that must not be negative


class _ParameterUpdate(NamedTuple):
    """The update of a parameter `x`: gradient, state tensors by name, settings of the group, and number of the update, from 1 on."""

    x: Tensor
    gradient: Storage
    state: dict[str, Any]
    group: Mapping[str, Any]
    update_number: int


@register_argument_type("an optimiser")
class Optimizer:
    """The base class of optimisers.

    Parameters
    ----------
    params : Iterable of Tensor or Iterable of dict
        Leaf tensors that require gradients; float or complex, of any shape. A dict is a group of parameters: it has such tensors as
        "params", and settings for them, for instance "lr".
    **numbers : float, tuple of float or bool
        The settings of the groups, unless a group overrides them.

    Attributes
    ----------
    groups : list of dict
        The groups of parameters with their settings. Schedules change "lr" here.
    steps, counts : int, list of int
        The number of steps taken, and for each parameter the number of steps with a gradient.

    Raises
    ------
    ArgumentError
        If `params` is a single tensor, is empty, or has a tensor that requires no gradient, was computed from other tensors, or occurs
        twice. If a setting has the wrong type, `lr`, `momentum`, `weight_decay` or `eps` is negative, or one of `betas` is not in [0, 1).

    Notes
    -----
    A subclass defines the update of a parameter. `_update` returns the new value, from the tensors named by `_keeps` in `state`, and from
    `_numbers`. State is float32 for float16 and bfloat16 parameters, whose precision is too low for averages over a thousand steps.
    Otherwise state has the dtype of the parameter.
    """

    @validate_arguments
    def __init__(self, params: Iterable[Any], **numbers: Any) -> None:
        if isinstance(params, Tensor):
            raise ArgumentError(f"{type(self).__name__}: params must be a list, not a tensor of shape {params.shape}; give [x]")
        items = list(params)
        if not items:
            raise ArgumentError(
                f"{type(self).__name__}: there are no parameters; give module.parameters(), or tensors that require gradients"
            )
        raw_groups = items if isinstance(items[0], Mapping) else [{"params": items}]
        self.groups = [self._make_group(numbers, group) for group in raw_groups]
        self.parameters: list[Tensor] = [t for group in self.groups for t in group["params"]]
        for k, t in enumerate(self.parameters):
            if not isinstance(t, Tensor) or not t.requires_grad:
                raise ArgumentError(
                    f"{type(self).__name__}: parameter {k} is {describe_value(t)}, which requires no gradient; use x.requires_grad_()"
                )
            if not t.is_leaf:
                raise ArgumentError(f"{type(self).__name__}: parameter {k} was computed from others; give these, or use x.detach().copy()")
            if any(t is earlier for earlier in self.parameters[:k]):
                raise ArgumentError(f"{type(self).__name__}: parameter {k} occurs twice; each must occur once")
        self.state: list[dict[str, Any]] = [{} for _ in self.parameters]
        self.steps = 0
        self.counts = [0 for _ in self.parameters]

    def _make_group(self, numbers: Mapping[str, Any], group: Any) -> dict[str, Any]:
        """Return a new dict: `group` with the settings `numbers` for missing ones. Raise ArgumentError for invalid settings."""
        op = type(self).__name__
        check_argument(op, "each group", group, "Mapping")
        check_argument(op, 'what a group has as "params"', group.get("params"), "Iterable")
        settings = {**numbers, **group, "params": list(group["params"])}
        self._check_numbers(op, settings)
        return settings

    def _check_numbers(self, op: str, group: Mapping[str, Any]) -> None:
        """Raise ArgumentError, beginning with `op`, for invalid settings in `group`, a dict of settings. Missing settings are allowed."""
        kinds = type(self).__init__.__annotations__
        for key in group.keys() & kinds.keys() - {"params"}:
            check_argument(op, key, group[key], kinds[key])
        for key in _NONNEGATIVE_SETTINGS & group.keys():
            if group[key] < 0:
                raise ArgumentError(f"{op}: {key} is {group[key]!r}; it must be 0 or more")
        for beta in group.get("betas", ()):
            if not 0 <= beta < 1:
                raise ArgumentError(f"{op}: betas are {group['betas']!r}; each must be 0 or more, and below 1")

    def zero_grad(self) -> None:
        """Set the gradients of the parameters to None, including parameters that no longer require gradients."""
        for t in self.parameters:
            watch = get_handler(t.storage)
            if watch is not None:
                watch.grad = None

    def step(self) -> None:
        """Update the parameters that have a gradient, in place, and compute the new values now. Other parameters stay."""
        self.steps += 1
        watches = [get_handler(t.storage) for t in self.parameters]
        gradients = [watch.grad.node for watch in watches if watch is not None and watch.grad is not None]
        waiting, max_nodes = list(dict.fromkeys([node for node in gradients if node.buffer is None])), MAX_PENDING_NODES // 2
        if max([node.graph_node_count for node in waiting], default=0) > max_nodes and count_pending(*waiting) > max_nodes:
            # Compute the gradients together: the graph of a single update could exceed the bound on pending nodes.
            realize(*waiting)
        del gradients, waiting  # reference counts decide whether a node's memory can be reused
        moves = []
        for k, (t, group) in enumerate([(t, settings) for settings in self.groups for t in settings["params"]]):
            watch = watches[k]
            if watch is not None and watch.grad is not None:
                self.counts[k] += 1
                moves.append(_ParameterUpdate(t, watch.grad, self.state[k], group, self.counts[k]))
        with no_grad():
            if len({move.x.storage for move in moves}) == len(moves):
                self._apply_updates(moves)
            else:  # parameters with shared memory are updated in turn
                for move in moves:
                    self._apply_updates([move])
        state_tensors = [t for state in self.state for t in state.values()]
        realize(*[t.storage.node for t in (*self.parameters, *state_tensors)])

    def _apply_updates(self, moves: Sequence[_ParameterUpdate]) -> None:
        """Carry out `moves`, updates of parameters that share no memory; recorded once and replayed. New values may stay pending.

        Missing state tensors are added to the states of `moves`. The caller must have turned the tape off.
        """
        inputs: list[Node | Scalar] = []
        key: list[object] = [type(self)]
        # For a group, dtype and count of updates: the slice of `inputs` with the settings, and the names of the state tensors.
        of_group: dict[tuple[int, DType, int], tuple[slice, Sequence[str]]] = {}
        input_slices: list[tuple[int, slice]] = []  # for each update, the start of the nodes in `inputs`, and the slice of the settings
        changing: list[Tensor] = []
        for x, gradient, state, group, count in moves:
            cached = of_group.get((id(group), x.dtype, count))
            if cached is None:
                scalars = [Scalar(number, x.dtype.compute_dtype) for number in self._numbers(group, count)]
                cached = of_group[id(group), x.dtype, count] = slice(len(inputs), len(inputs) + len(scalars)), self._keeps(group)
                inputs += scalars
                key += [bool(number.value) for number in scalars]
            numbers, names = cached
            state_tensors = [state[name] if name in state else _create_state(state, name, x) for name in names]
            key += (numbers.start, x.offset, x.spec, *[t.spec for t in state_tensors])
            input_slices.append((len(inputs), numbers))
            inputs += (x.storage.node, gradient.node, *[t.storage.node for t in state_tensors])
            changing += (x, *state_tensors)

        def make(placeholders: Sequence[Any]) -> list[tuple[int, Cotangent]]:
            results: list[Cotangent] = []
            for (x, _, state, group, _), (start, numbers) in zip(moves, input_slices, strict=True):
                layouts = [x.layout, x.layout, *[state[name].layout for name in self._keeps(group)]]
                views = [NodeView(node, layout) for node, layout in zip(placeholders[start : start + len(layouts)], layouts, strict=True)]
                wide = x.dtype.compute_dtype
                moved, *new_states = self._update(views[0].cast(wide), views[1].cast(wide), views[2:], placeholders[numbers])
                results += (moved.cast(x.dtype), *new_states)
            return list(enumerate(results))

        new_values = make(inputs) if upcalls.node_observer else replay_or_record(tuple(key), inputs, make)
        for t, (_, new_value) in zip(changing, new_values, strict=True):
            assert isinstance(new_value, NodeView)
            if (observer := upcalls.node_observer) is not None:
                observer.observe_node(new_value.node)
            _replace_content(t, new_value)

    def _keeps(self, group: Mapping[str, Any]) -> Sequence[str]:
        """Return the names of the state tensors of each parameter in `group`; here none. The tensors start at 0."""
        return ()

    def _numbers(self, group: Mapping[str, Any], count: int) -> Sequence[float]:
        """Return the scalars of update `count`, from 1 on, for `group`. Subclasses must define this method and `_update`.

        A recorded update is replayed with other scalars, as long as those that are 0 stay 0, and no others become 0.
        """
        raise NotImplementedError(f"{type(self).__name__} has no _numbers()")

    def _update(self, x: NodeView, gradient: NodeView, states: Sequence[NodeView], numbers: Sequence[Scalar]) -> Sequence[NodeView]:
        """Return the new value of a parameter `x`, and the new value of each of the state tensors `states`, as pending nodes.

        The values must be computed from these arguments alone. `numbers` are the results of `_numbers`; the computation may depend on which
        of them are 0, but not on the rest of their values. `x` and `gradient` are in the dtype for computations.
        """
        raise NotImplementedError(f"{type(self).__name__} has no _update()")

    def state_dict(self) -> dict[str, Any]:
        """Return the present state as tensors and numbers, for `load_state_dict`.

        The entries are "steps", "counts", "groups" (settings without parameters) and "state". Later steps do not change the tensors.
        """
        groups = [{key: value for key, value in group.items() if key != "params"} for group in self.groups]
        state = [{key: x.detach() for key, x in state.items()} for state in self.state]
        return {"steps": self.steps, "counts": list(self.counts), "groups": groups, "state": state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state_dict` returned.

        A state without `counts`, from an earlier version, is read as if each parameter with a state was updated in every step.

        Parameters
        ----------
        state : Mapping
            The result of `state_dict`. Tensors are converted to the dtype of this optimiser's state, and the settings replace the present
            ones.

        Raises
        ------
        ArgumentError
            If an entry is missing or invalid, or if the number of parameters or groups, or the shape of a tensor differs.
        DTypeError
            If a tensor is complex, and the parameter is real.
        """
        check_fields("load_state_dict", state, steps="int", groups="Sequence", state="Sequence")
        for name, present, saved in (("parameters", self.state, state["state"]), ("groups", self.groups, state["groups"])):
            if len(saved) != len(present):
                raise ArgumentError(f"load_state_dict: the state has {len(saved)} {name}; it must have {len(present)}, as the optimizer")
        for settings in (*state["groups"], *state["state"]):
            check_argument("load_state_dict", "each group, and what is kept of each parameter,", settings, "Mapping")
        loaded = [{key: asarray(x) for key, x in tensors.items()} for tensors in state["state"]]
        for t, tensors in zip(self.parameters, loaded, strict=True):
            for key, x in tensors.items():
                check_real(f"load_state_dict: {key}", x.dtype, t.dtype)
                if x.shape != t.shape:
                    raise ArgumentError(
                        f"load_state_dict: the optimizer's {key} has shape {x.shape} in the state, but its parameter has {t.shape}; load a"
                        " state saved for the same parameters"
                    )
        converted = [
            {key: x.astype(t.dtype.compute_dtype) for key, x in tensors.items()} for t, tensors in zip(self.parameters, loaded, strict=True)
        ]
        for settings in state["groups"]:
            self._check_numbers("load_state_dict", settings)
        steps = int(state["steps"])
        counts = state.get("counts", [steps if tensors else 0 for tensors in converted])
        check_argument("load_state_dict", "what the state has as 'counts'", counts, "Sequence")
        if len(counts) != len(self.counts):
            raise ArgumentError(
                f"load_state_dict: the state counts the steps of {len(counts)} parameters, and this optimizer has {len(self.counts)}; load"
                " a state saved for the same parameters"
            )
        for k, count in enumerate(counts):
            check_argument("load_state_dict", f"count {k}", count, "int")
            if count < 0:
                raise ArgumentError(f"load_state_dict: count {k} is {count}; it must be 0 or more")
        self.steps, self.counts, self.state = steps, [int(count) for count in counts], converted
        for group, settings in zip(self.groups, state["groups"], strict=True):
            group.update(settings)


def _replace_content(t: Tensor, new: NodeView) -> None:
    """Write `new`, which has no further references, into `t`: without a copy if both fill their storage in equal layouts.

    A tensor in externally shared memory is overwritten by a copy.
    """
    storage, layout, spec = t.storage, new.layout, t.spec
    can_swap = storage.node.recipe.size == spec.size and layout.layout_key is spec.layout_key and t.offset == layout.offset == 0
    if not can_swap or is_externally_shared(storage.node):
        t[...] = Tensor(Storage(new.node), layout, spec.dtype)
    elif type(storage) is Storage:
        storage.node = new.node
    else:
        replace_content(storage, new.node)


# The elementwise formulas of the updates. Each is a single operation, so that a step has few nodes.
_FORMULAS: dict[str, Callable[..., Expr]] = {
    "averaged": lambda mean, g, keep, weight: mean * keep + g * weight,
    "averaged_square": lambda mean, g, keep, weight: mean * keep + g * conj(g) * weight,
    "adam": lambda x, mean, square, keep, rate, scale, eps: x * keep - mean / (call("sqrt", square) * scale + eps) * rate,
    "lion": lambda x, mean, g, keep, beta1, weight, lr: x * keep - call("sign", mean * beta1 + g * weight) * lr,
    "decayed": lambda g, x, decay: g + x * decay,
    "moved": lambda x, along, lr: x - along * lr,
    "pushed": lambda velocity, g, momentum: velocity * momentum + g,
}


@register("operations of optimizers", "the operation of an update, by name and dtype")
@cache
def _formula_op(name: str, dtype: DType) -> Op:
    """Return the formula `name` of `_FORMULAS` as an operation on operands of `dtype`."""
    formula = _FORMULAS[name]
    dtypes = (dtype,) * formula.__code__.co_argcount
    return make_custom_op(name, formula(*map(Arg, range(len(dtypes)), dtypes)), dtypes)


def _apply(name: str, *operands: NodeView | Scalar) -> NodeView:
    """Return the pending result of the formula `name` of `_FORMULAS` for `operands`, tensors and numbers, in the dtype of the first."""
    return apply_op(_formula_op(name, operands[0].dtype), operands, operands[0].dtype)


def _create_state(state: dict[str, Any], name: str, like: Tensor) -> Tensor:
    """Add zeros in memory to `state` as the tensor `name` of the parameter `like`, and return them. All updates then have one plan."""
    return state.setdefault(name, zeros(like.shape, dtype=like.dtype.compute_dtype).realize())  # type: ignore[no-any-return]


class SGD(Optimizer):
    """Stochastic gradient descent: `x -= lr * gradient`, optionally with momentum.

    Parameters
    ----------
    params : Iterable of Tensor or Iterable of dict
        The parameters, or groups of parameters: see `Optimizer`.
    lr, momentum, dampening : float, default 1e-3, 0.0, 0.0
        The learning rate is 0 or more. With momentum, x moves along a velocity: v = momentum v + (1 - dampening) gradient, which starts as
        the first gradient.
    weight_decay : float, default 0.0
        `weight_decay` times the parameter is added to the gradient.
    nesterov : bool, default False
        If True, x moves along gradient + momentum v. `dampening` must then be 0.

    Raises
    ------
    ArgumentError
        As in `Optimizer`, and for `nesterov` with a `dampening` other than 0.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.nn.Parameter([1.0, -2.0])
    >>> optimizer = tx.optim.SGD([x], lr=0.25)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.tolist()
    [0.5, -1.0]
    """

    @validate_arguments
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
            raise ArgumentError(f"{op}: dampening is {group['dampening']!r} with nesterov; leave one of them out")

    def _keeps(self, group: Mapping[str, Any]) -> Sequence[str]:
        return ("velocity",) if group["momentum"] else ()

    def _numbers(self, group: Mapping[str, Any], count: int) -> Sequence[float]:
        damped = 1.0 if count == 1 else 1.0 - group.get("dampening", 0.0)  # the first velocity is the gradient, as in PyTorch
        return group["lr"], group["momentum"], group["weight_decay"], float(group["nesterov"]), damped

    def _update(self, x: NodeView, gradient: NodeView, states: Sequence[NodeView], numbers: Sequence[Scalar]) -> Sequence[NodeView]:
        lr, momentum, decay, nesterov, damped = numbers
        if decay.value:
            gradient = _apply("decayed", gradient, x, decay)
        if not momentum.value:
            return [_apply("moved", x, gradient, lr)]
        velocity = _apply("averaged", states[0], gradient, momentum, damped)
        along = _apply("pushed", velocity, gradient, momentum) if nesterov.value else velocity
        return [_apply("moved", x, along, lr), velocity]


class Adam(Optimizer):
    """Adam: averaged gradients divided by the root of averaged squares.

    The square of a complex number is that of its magnitude. The bias correction of the averages counts the steps in which the parameter had
    a gradient.

    Parameters
    ----------
    params : Iterable of Tensor or Iterable of dict
        The parameters, or groups of parameters: see `Optimizer`.
    lr, eps : float, default 1e-3, 1e-8
        The learning rate, and the number added to the root; both are 0 or more.
    betas : tuple of float, default (0.9, 0.999)
        The weights of the old averages, of gradients and of squares, each in [0, 1).
    weight_decay : float, default 0.0
        `weight_decay` times the parameter is added to the gradient.

    Raises
    ------
    ArgumentError
        As in `Optimizer`.

    References
    ----------
    D. Kingma, J. Ba: Adam: a method for stochastic optimization, 2015, arXiv:1412.6980.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.nn.Parameter([1.0, -2.0])
    >>> optimizer = tx.optim.Adam([x], lr=0.25)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> [round(number, 6) for number in x.tolist()]
    [0.75, -1.75]
    """

    decoupled = False  # True if weight decay is separate from the gradient

    @validate_arguments
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
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        rate, scale = lr / (1.0 - beta1**count), 1.0 / sqrt(1.0 - beta2**count)
        keep, decay = (1.0 - lr * decay, 0.0) if self.decoupled else (1.0, decay)
        return beta1, 1.0 - beta1, beta2, 1.0 - beta2, keep, rate, scale, group["eps"], decay

    def _update(self, x: NodeView, gradient: NodeView, states: Sequence[NodeView], numbers: Sequence[Scalar]) -> Sequence[NodeView]:
        *averaging, keep, rate, scale, eps, decay = numbers
        if decay.value:
            gradient = _apply("decayed", gradient, x, decay)
        mean = _apply("averaged", states[0], gradient, *averaging[:2])
        square = _apply("averaged_square", states[1], gradient, *averaging[2:])
        return [_apply("adam", x, mean, square, keep, rate, scale, eps), mean, square]


class AdamW(Adam):
    """`Adam` with weight decay separate from the gradient.

    Parameters
    ----------
    params, lr, betas, eps
        See `Adam`.
    weight_decay : float, default 1e-2
        Each step multiplies the parameter by `1 - lr * weight_decay`.

    Raises
    ------
    ArgumentError
        As in `Optimizer`.

    References
    ----------
    I. Loshchilov, F. Hutter: Decoupled weight decay regularization, 2019, arXiv:1711.05101.

    Examples
    --------
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

    @validate_arguments
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
    """Lion: steps of constant size in the direction of the sign of the averaged gradient.

    Parameters
    ----------
    params : Iterable of Tensor or Iterable of dict
        The parameters, or groups of parameters: see `Optimizer`.
    lr : float, default 1e-4
        The size of a step of each element, 0 or more.
    betas : tuple of float, default (0.9, 0.99)
        The weights of the old average of gradients: in the direction of a step, and in the next average. Each is in [0, 1).
    weight_decay : float, default 0.0
        Each step multiplies the parameter by `1 - lr * weight_decay`.

    Raises
    ------
    ArgumentError
        As in `Optimizer`.

    References
    ----------
    X. Chen et al.: Symbolic discovery of optimization algorithms, 2023, arXiv:2302.06675.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.nn.Parameter([1.0, -2.0])
    >>> optimizer = tx.optim.Lion([x], lr=0.25)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.tolist()
    [0.75, -1.75]
    """

    @validate_arguments
    def __init__(
        self, params: Iterable[Any], lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, weight_decay=weight_decay)

    def _keeps(self, group: Mapping[str, Any]) -> Sequence[str]:
        return ("mean",)

    def _numbers(self, group: Mapping[str, Any], count: int) -> Sequence[float]:
        (beta1, beta2), lr = group["betas"], group["lr"]
        return beta1, 1.0 - beta1, beta2, 1.0 - beta2, 1.0 - lr * group["weight_decay"], lr

    def _update(self, x: NodeView, gradient: NodeView, states: Sequence[NodeView], numbers: Sequence[Scalar]) -> Sequence[NodeView]:
        beta1, weight1, beta2, weight2, keep, lr = numbers
        moved = _apply("lion", x, states[0], gradient, keep, beta1, weight1, lr)
        return [moved, _apply("averaged", states[0], gradient, beta2, weight2)]
