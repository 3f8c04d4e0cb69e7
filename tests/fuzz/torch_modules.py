"""Modules, optimizers and schedules of one name here and in PyTorch: with the parameters copied, results, gradients and steps are equal."""

from __future__ import annotations

import importlib
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tenxor as tx

from .calls import Array, Keywords, Random, words

Module = tuple[tuple[Any, ...], Keywords, list[Array]]  # the arguments of the constructor, and the inputs


def _values(rng: Random, *shape: int) -> Array:
    return np.random.default_rng(rng.randrange(1 << 30)).normal(size=shape)


def _sizes(rng: Random, axes: int, lowest: int = 4) -> tuple[int, ...]:
    return tuple([rng.randrange(lowest, lowest + 4) for _ in range(axes)])


def _draw_convolution(rng: Random, axes: int) -> Module:
    padding = rng.choice((0, 1, 2, "same", "valid"))
    named = {"padding": padding, "dilation": rng.choice((1, 2)), "groups": rng.choice((1, 2)), "bias": rng.random() < 0.7}
    named["stride"] = 1 if padding == "same" else rng.choice((1, 2))
    return (4, 6, rng.choice((1, 2, 3))), named, [_values(rng, 2, 4, *_sizes(rng, axes, 6))]


def _draw_pool(rng: Random, axes: int, is_average: bool) -> Module:
    size = rng.choice((2, 3))
    named: Keywords = {"stride": rng.choice((None, 1, 2)), "padding": rng.choice((0, 1)), "ceil_mode": rng.random() < 0.5}
    named |= {"count_include_pad": rng.random() < 0.5} if is_average else {"dilation": rng.choice((1, 2))}
    return (size,), named, [_values(rng, 2, 3, *_sizes(rng, axes))]


def _draw_unpool(rng: Random, axes: int) -> Module:
    indices = np.arange(0, 4**axes, 2**axes).reshape(1, 1, *(2,) * axes)
    return (2,), {}, [_values(rng, 1, 1, *(2,) * axes), indices]


def _draw_recurrent(rng: Random, kind: str) -> Module:
    named: Keywords = {"num_layers": rng.choice((1, 2)), "bidirectional": rng.random() < 0.5, "batch_first": rng.random() < 0.5}
    named["bias"] = rng.random() < 0.7
    if kind == "RNN":
        named["nonlinearity"] = rng.choice(("tanh", "relu"))
    return (3, 4), named, [_values(rng, *rng.choice(((5, 2, 3), (1, 1, 3), (4, 3))))]


def _draw_batch_norm(rng: Random, axes: int) -> Module:
    named = {"affine": rng.random() < 0.7, "track_running_stats": rng.random() < 0.7, "momentum": rng.choice((0.1, 0.5))}
    return (3,), named, [_values(rng, rng.choice((2, 4)), 3, *_sizes(rng, axes)[: axes if axes > 1 else rng.randrange(2)])]


MODULES: dict[str, Callable[[Random], Module]] = {
    **{f"Conv{n}d": lambda rng, n=n: _draw_convolution(rng, n) for n in (1, 2)},
    **{f"AvgPool{n}d": lambda rng, n=n: _draw_pool(rng, n, True) for n in (1, 2, 3)},
    **{f"MaxPool{n}d": lambda rng, n=n: _draw_pool(rng, n, False) for n in (1, 2, 3)},
    **{f"MaxUnpool{n}d": lambda rng, n=n: _draw_unpool(rng, n) for n in (1, 2, 3)},
    **{kind: lambda rng, kind=kind: _draw_recurrent(rng, kind) for kind in ("RNN", "LSTM", "GRU")},
    **{f"BatchNorm{n}d": lambda rng, n=n: _draw_batch_norm(rng, n) for n in (1, 2)},
    "Dropout": lambda rng: ((0.0,), {}, [_values(rng, 3, 2)]),
    "Embedding": lambda rng: ((5, 3), {}, [np.array([[rng.randrange(5) for _ in range(3)]])]),
    "Flatten": lambda rng: ((), rng.choice(({}, {"start_dim": 0}, {"end_dim": 1}, {"start_dim": -2})), [_values(rng, 2, 3, 2, 2)]),
    "GroupNorm": lambda rng: (
        (rng.choice((1, 2, 4)), 4),
        {"affine": rng.random() < 0.7},
        [_values(rng, 2, 4, *_sizes(rng, rng.randrange(3)))],
    ),
    "LayerNorm": lambda rng: ((rng.choice((4, (3, 4))),), {"bias": rng.random() < 0.7}, [_values(rng, 2, 3, 4)]),
    "RMSNorm": lambda rng: ((rng.choice((4, (3, 4))),), {"eps": rng.choice((None, 1e-3))}, [_values(rng, 2, 3, 4)]),
    "Linear": lambda rng: ((4, 3), {"bias": rng.random() < 0.7}, [_values(rng, *rng.choice(((4,), (2, 4), (2, 3, 4), (0, 4))))]),
}
CONTAINERS = words("Sequential ModuleList")
FILLS = {"constant_": (2.5,), "ones_": (), "zeros_": ()}
OPTIMIZERS: dict[str, Callable[[Random], Keywords]] = {
    "SGD": lambda rng: {
        "lr": 0.1,
        "weight_decay": rng.choice((0.0, 0.1)),
        **rng.choice(({}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"momentum": 0.5, "dampening": 0.1})),
    },
    "Adam": lambda rng: {"lr": 0.1, "weight_decay": rng.choice((0.0, 0.1)), "betas": rng.choice(((0.9, 0.999), (0.5, 0.9)))},
    "AdamW": lambda rng: {"lr": 0.1, "weight_decay": rng.choice((0.0, 0.1)), "eps": rng.choice((1e-8, 1e-3))},
}
# Our schedule, PyTorch's, and the arguments of both.
SCHEDULES: list[tuple[str, tuple[Any, ...], str, tuple[Any, ...]]] = [
    ("exponential", (0.9,), "ExponentialLR", (0.9,)),
    ("steps", (2, 0.5), "StepLR", (2, 0.5)),
    ("linear", (5, 0.1), "LinearLR", (1.0, 0.1, 5)),
    ("cosine", (5,), "CosineAnnealingLR", (5,)),
    ("one_cycle", (7,), "OneCycleLR", (0.1, 7)),
    ("constant_with_warmup", (3,), "LinearLR", (0.25, 1.0, 3)),
]


def _equal(what: str, found: Any, expected: Any, near: float = 1e-9) -> None:
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected), f"{what}: {len(found)} results for {len(expected)}"
        for ours, theirs in zip(found, expected, strict=True):
            _equal(what, ours, theirs, near)
        return
    ours, theirs = np.asarray(found), expected.detach().numpy()
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), f"{what}: {ours.dtype}{ours.shape} for {theirs.dtype}{theirs.shape}"
    np.testing.assert_allclose(ours, theirs, rtol=near, atol=near, err_msg=what)


def _sum(x: Any) -> Any:
    """Return the sum of squares of a result, or of the parts of several."""
    return sum(map(_sum, x)) if isinstance(x, tuple | list) else (x * x).sum()


def _state(theirs: Any) -> dict[str, Array]:
    """Return a copy of a module's state, without the number of batches, which is not counted here."""
    return {name: x.detach().numpy().copy() for name, x in theirs.state_dict().items() if not name.endswith("num_batches_tracked")}


def check_module(rng: Random) -> None:
    """Make one module twice, copy its parameters, and compare results, gradients and buffers."""
    torch = importlib.import_module("torch")
    kind = rng.choice(list(MODULES))
    args, named, inputs = MODULES[kind](rng)
    what = f"nn.{kind}{args} {named} of {[x.shape for x in inputs]}"
    has_parameters = not kind.startswith(("AvgPool", "Max", "Dropout", "Flatten"))
    try:
        theirs = getattr(torch.nn, kind)(*args, **named, **({"dtype": torch.float64} if has_parameters else {}))
        given = [torch.from_numpy(x.copy()) for x in inputs]
        if given[0].dtype == torch.float64:
            given[0].requires_grad_()
        expected = theirs(*given)
    except (ValueError, RuntimeError):
        return
    ours = getattr(tx.nn, kind)(*args, **named, **({"dtype": tx.float64} if has_parameters else {}))
    if kind.startswith("BatchNorm"):
        theirs.reset_running_stats()  # which the forward pass has changed
    assert ours.load_state_dict(_state(theirs)) == ([], []), what
    expected = theirs(*given)
    operands = [tx.asarray(x) for x in inputs]
    if operands[0].dtype == tx.float64:
        operands[0].requires_grad_()
    found = ours(*operands)
    _equal(what, found, expected)
    if given[0].requires_grad or has_parameters:
        _sum(found).backward()
        _sum(expected).backward()
    if given[0].requires_grad:
        _equal(f"gradient of the input of {what}", operands[0].grad, given[0].grad)
    our_parameters = dict(ours.named_parameters())
    for name, parameter in theirs.named_parameters():
        _equal(f"gradient of {name} of {what}", our_parameters[name].grad, parameter.grad)
    assert ours.state_dict().keys() == _state(theirs).keys(), what
    for name, value in _state(theirs).items():
        np.testing.assert_allclose(ours.state_dict()[name].numpy(), value, rtol=1e-9, atol=1e-9, err_msg=f"{name} of {what}")
    if not kind.startswith(("Max", "AvgPool")):
        ours.eval(), theirs.eval()
        _equal(f"{what} after eval()", ours(*operands), theirs(*given))


def check_optimizer(rng: Random) -> None:
    """Take a few steps with one optimizer, and a schedule at times."""
    torch = importlib.import_module("torch")
    kind = rng.choice(list(OPTIMIZERS))
    named = OPTIMIZERS[kind](rng)
    start, matrix = _values(rng, 3), _values(rng, 4, 3)
    ours, theirs = tx.nn.Parameter(tx.asarray(start)), torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer, expected = getattr(tx.optim, kind)([ours], **named), getattr(torch.optim, kind)([theirs], **named)
    what = f"optim.{kind} {named}"
    schedules = []
    if rng.random() < 0.6:
        name, args, their_name, their_args = rng.choice(SCHEDULES)
        what += f" with {name}{args}"
        their_schedule = getattr(torch.optim.lr_scheduler, their_name)
        named_apart = {"cycle_momentum": False, "final_div_factor": 400.0} if name == "one_cycle" else {}
        schedules = [getattr(tx.optim, name)(optimizer, *args), their_schedule(expected, *their_args, **named_apart)]
    for step in range(5):
        for x, a, opt in ((ours, tx.asarray(matrix), optimizer), (theirs, torch.from_numpy(matrix), expected)):
            opt.zero_grad()
            ((a @ x) ** 2).sum().backward()
            opt.step()
        for schedule in schedules:
            schedule.step()
        _equal(f"{what}, step {step}", ours.detach(), theirs)
        rates = optimizer.groups[0]["lr"], expected.param_groups[0]["lr"]
        assert abs(rates[0] - rates[1]) < 1e-12, f"{what}, step {step}: rate {rates[0]} for {rates[1]}"


def check_minimizer(rng: Random) -> None:
    """Minimize one sum of squares by LBFGS of both libraries: they take other steps to the same minimum."""
    torch = importlib.import_module("torch")
    start, matrix = _values(rng, 3), _values(rng, 5, 3) + 2 * np.eye(5, 3)
    ours, theirs = tx.nn.Parameter(tx.asarray(start)), torch.nn.Parameter(torch.from_numpy(start.copy()))
    for x, a, kind in ((ours, tx.asarray(matrix), tx.optim.LBFGS([ours])), (theirs, torch.from_numpy(matrix), torch.optim.LBFGS([theirs]))):

        def loss(x: Any = x, a: Any = a, optimizer: Any = kind) -> Any:
            optimizer.zero_grad()
            value = ((a @ x - 1.0) ** 2).sum()
            value.backward()
            return value

        for _ in range(15):
            kind.step(loss)
    _equal("optim.LBFGS", ours.detach(), theirs, 1e-4)


def check_container(rng: Random) -> None:
    """Compare the names and the result of a `Sequential`, the parts of a `ModuleList`, and the functions of `nn.init` without random
    numbers.
    """
    torch = importlib.import_module("torch")
    ours = [tx.nn.Linear(3, 3, dtype=tx.float64) for _ in range(3)]
    theirs = [torch.nn.Linear(3, 3, dtype=torch.float64) for _ in range(3)]
    for kind in CONTAINERS:
        args = [ours], [theirs]
        found = getattr(tx.nn, kind)(*(args[0] if kind == "ModuleList" else ours))
        expected = getattr(torch.nn, kind)(*(args[1] if kind == "ModuleList" else theirs))
        assert sorted(found.state_dict()) == sorted(expected.state_dict()), f"nn.{kind}: {sorted(found.state_dict())}"
        assert len(found) == len(expected) and found[-1] is ours[-1] and list(found) == ours
        found.load_state_dict(_state(expected))
    x = _values(rng, 2, 3)
    _equal("nn.Sequential", tx.nn.Sequential(*ours)(tx.asarray(x)), torch.nn.Sequential(*theirs)(torch.from_numpy(x)))
    for name, args in FILLS.items():
        filled = getattr(tx.nn.init, name)(tx.asarray(x.copy()), *args)
        _equal(f"nn.init.{name}", filled, getattr(torch.nn.init, name)(torch.from_numpy(x.copy()), *args))


def check_training(seed: int) -> None:
    """Compare a module, an optimizer, a container or LBFGS with PyTorch's."""
    rng = random.Random(seed)
    check = rng.choices((check_module, check_optimizer, check_container, check_minimizer), (60, 30, 5, 2))[0]
    with warnings.catch_warnings(action="ignore"):
        check(rng)
