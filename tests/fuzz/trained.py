"""What is called of the rooms for training, derivatives and files: objects that can be made, and a use of whatever was made."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import tenxor as tx

ROOMS = (tx.random, tx.linalg, tx.fft, tx.nn, tx.nn.functional, tx.nn.init, tx.optim, tx.data, tx.files)
MODULES: Mapping[str, Callable[[], Any]] = {
    "Linear": lambda: tx.nn.Linear(4, 3),
    "Conv1d": lambda: tx.nn.Conv1d(3, 2, 2),
    "Conv2d": lambda: tx.nn.Conv2d(2, 3, 2, dtype=tx.float64),
    **{name: lambda name=name: getattr(tx.nn, name)(2) for name in tx.nn.pooling.__all__},  # type: ignore[misc]
    "Flatten": tx.nn.Flatten,
    "Lambda": lambda: tx.nn.Lambda(lambda x: x + 1),
    "Dropout": tx.nn.Dropout,
    "Embedding": lambda: tx.nn.Embedding(12, 2),
    "LayerNorm": lambda: tx.nn.LayerNorm(4),
    "RMSNorm": lambda: tx.nn.RMSNorm((3, 4)),
    "GroupNorm": lambda: tx.nn.GroupNorm(2, 4),
    "BatchNorm1d": lambda: tx.nn.BatchNorm1d(4),
    "BatchNorm2d": lambda: tx.nn.BatchNorm2d(2),
    "LSTM": lambda: tx.nn.LSTM(4, 2),
    "GRU": lambda: tx.nn.GRU(4, 2),
    "RNN": lambda: tx.nn.RNN(4, 2),
    "MultiHeadAttention": lambda: tx.nn.MultiHeadAttention(4, 2),
    "KeyValueCache": lambda: tx.nn.KeyValueCache(1, 2, 5, 5),
    "GCN": lambda: tx.nn.GCN(4, 2),
    "GATv2": lambda: tx.nn.GATv2(4, 2),
    "Sequential": lambda: tx.nn.Sequential(tx.nn.Linear(4, 3), tx.relu),
    "ModuleList": lambda: tx.nn.ModuleList([tx.nn.Linear(4, 3)]),
}


def parameters() -> list[tx.Tensor]:
    """Two, which have gradients."""
    found = [tx.nn.Parameter([1.0, 2.0]), tx.nn.Parameter(tx.ones((2, 3), dtype=tx.float32))]
    (found[0].sum() + found[1].sum()).backward()
    return found


OPTIMIZERS: Mapping[str, Callable[[], Any]] = {
    kind.__name__: lambda kind=kind: kind(parameters())  # type: ignore[misc]
    for kind in (tx.optim.SGD, tx.optim.Adam, tx.optim.AdamW, tx.optim.Lion, tx.optim.LBFGS)
}
OBJECTS: Mapping[str, Callable[[], Any]] = {
    "Generator": lambda: tx.random.Generator(3),
    **MODULES,
    **OPTIMIZERS,
    "Schedule": lambda: tx.optim.cosine(tx.optim.SGD(parameters()), 10),
    "Dataset": lambda: tx.data.Dataset(tx.arange(6).reshape(3, 2), tx.arange(3)),
    "Batches": lambda: tx.data.Batches(tx.data.Dataset(tx.arange(5)), 2),
}
SENSIBLE_OF: Mapping[str, Callable[[], Any]] = {  # by the annotations of what would have others not get far
    "Optimizer": OBJECTS["SGD"],
    "Iterable": parameters,
    "Module": MODULES["Linear"],
    "Place": lambda: "some.npz",
    "Mapping": lambda: {"weight": tx.ones((3, 4)), "bias": tx.ones(3), "steps": 1, "groups": [{}], "state": [{}, {}]},
    "Generator": OBJECTS["Generator"],
    "Source": OBJECTS["Generator"],
}


def used(made: Any, args: tuple[Any, ...]) -> Any:
    """What comes of what was made: a function or a module is called, an optimiser and a schedule take a step, batches are walked."""
    if isinstance(made, tx.optim.LBFGS):
        made.step(lambda: sum(((t * t).sum() for t in made.parameters), start=tx.zeros(())))
    elif isinstance(made, (tx.optim.Optimizer, tx.optim.Schedule)):
        for t in made.parameters if isinstance(made, tx.optim.Optimizer) else ():
            t.grad = tx.ones(t.shape, dtype=t.dtype)
        made.step()
    elif isinstance(made, (tx.data.Batches, types.GeneratorType)):
        return [each for each, _ in zip(made, range(9), strict=False)]
    elif isinstance(made, (tx.nn.Module, types.FunctionType)):
        return made(*args)
    return made
