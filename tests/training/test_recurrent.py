"""Recurrent layers compared with NumPy loops over the equations in PyTorch's documentation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import nn
from tests.training.differences import gradients_agree

RNG = np.random.default_rng(5)
KINDS: dict[str, dict[str, Any]] = {
    **{"RNN": {}, "RNN of relu": {"nonlinearity": "relu"}, "LSTM": {}, "LSTM, projected": {"proj_size": 2}},
    **{"GRU": {}, "GRU without bias": {"bias": False}},
}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def step(kind: str, p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Return one step of one layer in one direction, with parameters `p(name)`."""
    a, b = p("weight_ih") @ x + p("bias_ih"), p("weight_hh") @ h + p("bias_hh")
    if kind.startswith("RNN"):
        return (np.maximum(a + b, 0) if kind.endswith("relu") else np.tanh(a + b)), c
    if kind.startswith("GRU"):
        (r, z, n), (hr, hz, hn) = np.split(a, 3), np.split(b, 3)
        z = sigmoid(z + hz)
        return (1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * h, c
    i, f, g, o = np.split(a + b, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return (p("weight_hr") @ h if "projected" in kind else h), c


def reference(kind: str, layer: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
    """Return all hidden states (L, N, ...) of the last layer, and the last states of all, for x (L, N, input_size)."""
    parameters = {name: t.to_numpy() for name, t in layer.named_parameters()}
    directions = 2 if layer.bidirectional else 1
    h, c = h.copy(), c.copy()
    for k in range(layer.num_layers):
        found = np.zeros((*x.shape[:2], directions * h.shape[-1]))
        for d in range(directions):
            suffix, at = f"_l{k}" + ("_reverse" if d else ""), k * directions + d
            for n in range(x.shape[1]):
                for time in range(len(x))[:: -1 if d else 1]:
                    own = lambda name, suffix=suffix: parameters.get(name + suffix, 0.0)
                    h[at, n], c[at, n] = step(kind, own, x[time, n], h[at, n], c[at, n])
                    found[time, n, d * h.shape[-1] : (d + 1) * h.shape[-1]] = h[at, n]
        x = found
    return x, h, c


@pytest.mark.parametrize("length", [3, 18])
@pytest.mark.parametrize(
    ("layers", "bidirectional", "batch_first"), [(1, False, False), (1, True, True), (3, False, True), (2, True, False)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers_and_directions_follow_the_equations(
    kind: str, layers: int, bidirectional: bool, batch_first: bool, length: int
) -> None:
    make = getattr(nn, kind[:4].split(" ")[0])
    layer = make(3, 4, layers, batch_first=batch_first, bidirectional=bidirectional, dtype=tx.float64, **KINDS[kind])
    x, states = RNG.normal(size=(length, 2, 3)), layers * (2 if bidirectional else 1)
    h, c = RNG.normal(size=(states, 2, KINDS[kind].get("proj_size", 4))), RNG.normal(size=(states, 2, 4))
    given = tx.asarray(x.swapaxes(0, 1) if batch_first else x)
    for begun in (True, False):
        wanted, last, cell = reference(kind, layer, x, h * begun, c * begun)
        hx: Any = ((tx.asarray(h), tx.asarray(c)) if "LSTM" in kind else tx.asarray(h)) if begun else None
        found, ends = layer(given, hx)
        found = found.swapaxes(0, 1) if batch_first else found
        ends = ends if "LSTM" in kind else (ends,)
        for ours, theirs in zip((found, *ends), (wanted, last, cell), strict=False):
            np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=1e-10, atol=1e-12)
    if not batch_first:  # one sequence without a batch
        hx = (tx.asarray(h[:, 1]), tx.asarray(c[:, 1])) if "LSTM" in kind else tx.asarray(h[:, 1])
        alone, ends = layer(tx.asarray(x[:, 1]), hx)
        wanted, last, _ = reference(kind, layer, x, h, c)
        np.testing.assert_allclose(alone.to_numpy(), wanted[:, 1], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose((ends[0] if "LSTM" in kind else ends).to_numpy(), last[:, 1], rtol=1e-10, atol=1e-12)


def test_recurrent_parameters_have_names_order_and_shapes_of_pytorch() -> None:
    """The first list is that of `torch.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2).state_dict()`."""
    wanted = {
        **{"weight_ih_l0": (16, 3), "weight_hh_l0": (16, 2), "bias_ih_l0": (16,), "bias_hh_l0": (16,), "weight_hr_l0": (2, 4)},
        **{"weight_ih_l0_reverse": (16, 3), "weight_hh_l0_reverse": (16, 2), "bias_ih_l0_reverse": (16,), "bias_hh_l0_reverse": (16,)},
        **{"weight_hr_l0_reverse": (2, 4), "weight_ih_l1": (16, 4), "weight_hh_l1": (16, 2), "bias_ih_l1": (16,), "bias_hh_l1": (16,)},
        **{"weight_hr_l1": (2, 4), "weight_ih_l1_reverse": (16, 4), "weight_hh_l1_reverse": (16, 2), "bias_ih_l1_reverse": (16,)},
        **{"bias_hh_l1_reverse": (16,), "weight_hr_l1_reverse": (2, 4)},
    }
    state = nn.LSTM(3, 4, 2, True, False, 0.0, True, 2).state_dict()
    assert [(name, t.shape) for name, t in state.items()] == [*wanted.items()]
    assert [*nn.GRU(3, 4, 1, False).state_dict()] == ["weight_ih_l0", "weight_hh_l0"]
    assert nn.RNN(3, 4, 2).state_dict()["weight_ih_l1"].shape == (4, 4)
    bounds = [t.abs().max().item() for t in nn.GRU(3, 16).parameters()]
    assert all(0.2 < bound <= 0.25 for bound in bounds)  # 1 / sqrt(hidden_size)
    assert repr(nn.LSTM(3, 4, 2, batch_first=True)).startswith("LSTM(3, 4, num_layers=2, batch_first=True)")


def test_recurrent_dropout_acts_between_layers_only() -> None:
    layer = nn.GRU(3, 4, 2, dropout=0.5, dtype=tx.float64, generator=tx.random.Generator(3))
    whole = nn.GRU(3, 4, 2, dtype=tx.float64)
    whole.load_state_dict(layer.state_dict())
    x = tx.asarray(RNG.normal(size=(5, 2, 3)))
    assert layer(x)[0].tolist() != layer(x)[0].tolist()
    assert layer.eval()(x)[0].tolist() == whole(x)[0].tolist()
    first = nn.GRU(3, 4, 1, dtype=tx.float64)
    first.load_state_dict({name: t for name, t in whole.state_dict().items() if "_l0" in name})
    assert layer.train()(x)[1][0].tolist() == first(x)[1][0].tolist()  # the first layer's own states keep all
    none = nn.GRU(3, 4, 2, dropout=1.0, dtype=tx.float64)
    none.load_state_dict(whole.state_dict())
    second = nn.GRU(4, 4, 1, dtype=tx.float64)
    second.load_state_dict({name.replace("_l1", "_l0"): t for name, t in whole.state_dict().items() if "_l1" in name})
    np.testing.assert_allclose(none(x)[0].to_numpy(), second(tx.zeros((5, 2, 4)))[0].to_numpy(), rtol=1e-12)
    with pytest.warns(UserWarning, match=r"LSTM: dropout=0.2 has no effect with one layer"):
        nn.LSTM(3, 4, dropout=0.2)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_gradients_of_stacked_bidirectional_layers_match_differences(kind: Any) -> None:
    layer = kind(2, 3, 2, bidirectional=True, dtype=tx.float64, generator=tx.random.Generator(1))
    name, x = "weight_ih_l1_reverse", tx.asarray(RNG.normal(size=(3, 2, 2)))
    gradients_agree(lambda x: (layer(x)[0] ** 2).sum(), x)
    weight = layer.state_dict()[name]
    gradients_agree(lambda w: (nn.functional_call(layer, {name: w}, x)[0] ** 2).sum(), weight)


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "axes": (lambda: nn.LSTM(3, 4)(tx.zeros((1, 2, 3, 3))), ValueError, r"LSTM: x has shape \(1, 2, 3, 3\); it must be \(L, N, "),
    "batches first": (lambda: nn.GRU(3, 4, batch_first=True)(tx.zeros(3)), ValueError, r"GRU: .* must be \(N, L, input_size\)"),
    "layers": (lambda: nn.GRU(3, 4, 0), ValueError, "GRU: num_layers must be a whole number of 1 or more"),
    "a probability": (lambda: nn.GRU(3, 4, 2, dropout=2), ValueError, "GRU: dropout is 2; it must be a probability"),
    "a projection": (lambda: nn.LSTM(3, 4, proj_size=4), ValueError, "proj_size is 4; it must be 0 or more, and less than hidden_size, 4"),
    "a nonlinearity": (lambda: nn.RNN(3, 4, 1, "sin"), ValueError, "RNN: nonlinearity"),
    "too few states": (
        lambda: nn.GRU(3, 4, 2, dtype=tx.float64)(tx.zeros((5, 2, 3)), tx.zeros((1, 2, 4))),
        ValueError,
        r"GRU: a state has shape \(1, 2, 4\); it must be \(2, N, 4\)",
    ),
    "a state without batch": (
        lambda: nn.GRU(3, 4, dtype=tx.float64)(tx.zeros((5, 2, 3)), tx.zeros((1, 4))),
        ValueError,
        r"GRU: a state has shape \(1, 4\); it must be \(1, N, 4\)",
    ),
    "another batch": (
        lambda: nn.GRU(3, 4, dtype=tx.float64)(tx.zeros((5, 2, 3)), tx.zeros((1, 3, 4))),
        ValueError,
        r"GRU: a state has shape \(1, 3, 4\) for 2 sequences; it must be \(1, 2, 4\)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_recurrent_errors_state_the_required_shapes(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call()
