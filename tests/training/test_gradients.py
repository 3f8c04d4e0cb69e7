"""Image layers compared with NumPy loops, and gradients of every layer by inputs and parameters compared with finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import nn
from tests.training.differences import gradients_agree

Array = np.ndarray[Any, Any]


def numbers(*shape: int, seed: int = 0) -> Any:
    """Return numbers that all differ, so that every maximum is unique."""
    size = int(np.prod(shape))
    return tx.asarray((np.random.default_rng([seed, *shape]).permutation(size) / size * 4.0 - 2.0).reshape(shape))


def windows(x: Array, size: tuple[int, ...], step: int, padding: int, dilation: int = 1, fill: float = 0.0) -> Array:
    """Return the windows over the last axes, with shape (N, C, places..., size...)."""
    axes = range(2, x.ndim)
    wide = np.pad(x, ((0, 0), (0, 0), *[(padding, padding)] * len(axes)), constant_values=fill)
    places = [(wide.shape[a] - dilation * (n - 1) - 1) // step + 1 for a, n in zip(axes, size, strict=True)]
    found = np.empty((*x.shape[:2], *places, *size))
    for at in np.ndindex(*places):
        cut = tuple([slice(p * step, p * step + dilation * (n - 1) + 1, dilation) for p, n in zip(at, size, strict=True)])
        found[(slice(None), slice(None), *at)] = wide[(slice(None), slice(None), *cut)]
    return found


@pytest.mark.parametrize(("step", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 0, 1, 2)])
@pytest.mark.parametrize("space", [1, 2])
def test_convolution_layers_match_numpy_loops(space: int, step: int, padding: int, dilation: int, groups: int) -> None:
    kind: Any = {1: nn.Conv1d, 2: nn.Conv2d}[space]
    layer = kind(4, 6, 3, step, padding, dilation, groups, dtype=tx.float64, generator=tx.random.Generator(0))
    assert layer.weight.shape == (6, 4 // groups, *(3,) * space) and layer.num_parameters == layer.weight.size + 6
    x = numbers(2, 4, *(9, 8)[:space])
    seen = windows(x.to_numpy(), (3,) * space, step, padding, dilation)
    weight, own = layer.weight.to_numpy(), [slice(k * 4 // groups, (k + 1) * 4 // groups) for k in range(groups)]
    each = 6 // groups
    spaces = tuple(range(-space, 0))
    parts = [
        np.tensordot(seen[:, part], weight[k * each : (k + 1) * each], axes=((1, *spaces), (1, *spaces))) for k, part in enumerate(own)
    ]
    wanted = np.moveaxis(np.concatenate(parts, axis=-1) + layer.bias.to_numpy(), -1, 1)
    np.testing.assert_allclose(layer(x).to_numpy(), wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("size", "step", "padding"), [(2, None, 0), (3, 2, 1), ((2, 3), 1, 1)])
def test_pooling_layers_match_numpy_loops(size: Any, step: int | None, padding: int) -> None:
    x = numbers(2, 3, 7, 8)
    both = (size, size) if isinstance(size, int) else size
    for kind, how, fill in ((nn.MaxPool2d, np.max, -np.inf), (nn.AvgPool2d, np.mean, 0.0)):
        wanted = how(windows(x.to_numpy(), both, size if step is None else step, padding, fill=fill), axis=(-1, -2))
        np.testing.assert_allclose(kind(size, step, padding)(x).to_numpy(), wanted, rtol=1e-12, atol=1e-14)


EDGES = np.array([[0, 1, 1, 2, 3, 0], [1, 0, 2, 1, 0, 3]])
WIDE: Any = {"dtype": tx.float64, "generator": tx.random.Generator(1)}
PLAIN: Any = {"dtype": tx.float64}
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(3, 2, **WIDE), (2, 3)),
    "Conv1d": (lambda: nn.Conv1d(2, 4, 3, stride=2, padding=1, groups=2, **WIDE), (2, 2, 5)),
    "Conv2d": (lambda: nn.Conv2d(2, 2, (3, 2), stride=(2, 1), **WIDE), (1, 2, 5, 3)),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, 2, 1), (1, 2, 4, 5)),
    "AvgPool2d": (lambda: nn.AvgPool2d(2, 1, 1), (1, 2, 3, 4)),
    "Embedding": (lambda: nn.Sequential(nn.Lambda(lambda x: x.argmax(axis=1)), nn.Embedding(3, 2, **WIDE)), (4, 3)),
    "LayerNorm": (lambda: nn.LayerNorm(4, **PLAIN), (3, 4)),
    "RMSNorm": (lambda: nn.RMSNorm(4, **PLAIN), (3, 4)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4, **PLAIN), (2, 4, 3)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3, **PLAIN), (4, 3)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(2, **PLAIN), (2, 2, 2, 3)),
    "BatchNorm1d in use": (lambda: nn.BatchNorm1d(3, **PLAIN).eval(), (4, 3)),
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention(4, 2, **WIDE), (1, 3, 4)),
    "GRU": (lambda: nn.Sequential(nn.GRU(2, 3, **WIDE), nn.Lambda(lambda found: found[0])), (2, 3, 2)),
    "LSTM": (lambda: nn.Sequential(nn.LSTM(2, 3, **WIDE), nn.Lambda(lambda found: found[0])), (2, 3, 2)),
    "GCN": (lambda: nn.Sequential(Edges(nn.GCN(2, 3, **WIDE))), (4, 2)),
    "GATv2": (lambda: nn.Sequential(Edges(nn.GATv2(2, 3, 2, **WIDE))), (4, 2)),
    "Dropout": (lambda: nn.Lambda(lambda x: nn.functional.dropout(x, 0.4, generator=tx.random.Generator(2))), (4, 3)),
}


class Edges(nn.Module):
    """A graph layer with one fixed graph."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x, tx.asarray(EDGES))


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_every_layer_match_differences(name: str) -> None:
    make, shape = LAYERS[name]
    layer = make()
    names = [own for own, _ in layer.named_parameters()]
    x = numbers(*shape)
    weights = numbers(*layer(x).shape, seed=1)

    def loss(x: Any, *given: Any) -> Any:
        return (nn.functional_call(layer, dict(zip(names, given, strict=True)), x) * weights).sum()

    gradients_agree(loss, x, *[t.detach() for t in layer.parameters()])
    if names:
        of_parameters = tx.grad(lambda given: loss(x, *given))([t.detach() for t in layer.parameters()])
        (layer(x) * weights).sum().backward()
        for t, wanted in zip(layer.parameters(), of_parameters, strict=True):
            np.testing.assert_allclose(t.grad.to_numpy(), wanted.to_numpy(), rtol=1e-10, atol=1e-12)
