"""Layers compared with NumPy versions written from their papers, without Tenxor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import nn
from tenxor.nn import functional as F
from tests.training.differences import gradients_agree

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return tx.asarray(RNG.normal(size=shape))


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x: Any, axis: int) -> Any:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def of(module: nn.Module, name: str) -> Any:
    return dict(module.named_parameters())[name].to_numpy()


def test_linear_layer_matches_numpy() -> None:
    layer = nn.Linear(4, 3, dtype=tx.float64)
    x = drawn(2, 5, 4)
    np.testing.assert_allclose(layer(x).to_numpy(), x.to_numpy() @ of(layer, "weight").T + of(layer, "bias"), rtol=1e-12)
    with pytest.raises(tx.errors.ShapeError, match="linear"):
        layer(drawn(2, 5))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("leaky_relu", lambda x: np.where(x > 0, x, 0.01 * x)),
        ("elu", lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)),
        ("hardsigmoid", lambda x: np.clip((x + 3) / 6, 0, 1)),
        ("hardswish", lambda x: x * np.clip((x + 3) / 6, 0, 1)),
        ("mish", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
        ("selu", lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(np.minimum(x, 0)) - 1))),
    ],
)
def test_activations_and_their_gradients_match_formulas(name: str, expected: Any) -> None:
    x = drawn(30) * 3.0
    np.testing.assert_allclose(getattr(F, name)(x).to_numpy(), expected(x.to_numpy()), rtol=1e-12, atol=1e-14)
    gradients_agree(lambda x: (getattr(F, name)(x) ** 2).sum(), x)


@pytest.mark.parametrize(
    ("layer", "options", "message"),
    [
        (nn.Conv1d, {"kernel_size": (3, 3)}, r"Conv1d: kernel_size \(3, 3\) has 2 numbers"),
        (nn.Conv2d, {"kernel_size": (3, 3, 3)}, r"Conv2d: kernel_size \(3, 3, 3\) has 3 numbers"),
        (nn.Conv2d, {"kernel_size": 0}, r"Conv2d: kernel_size 0 is too small; it must be 1 or more"),
        (nn.Conv2d, {"stride": (1, 2, 3)}, r"Conv2d: stride \(1, 2, 3\) has 3 numbers"),
        (nn.Conv1d, {"dilation": (1, 2)}, r"Conv1d: dilation \(1, 2\) has 2 numbers"),
        (nn.Conv1d, {"padding": (1, 1)}, r"Conv1d: padding \(1, 1\) has 2 numbers"),
        (nn.Conv2d, {"padding": "full"}, r"Conv2d: padding, if a text, must be 'same' or 'valid', not 'full'"),
    ],
)
def test_convolution_layer_rejects_options_for_another_number_of_axes(layer: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(tx.errors.ArgumentError, match=message):
        layer(4, 8, **{"kernel_size": 3, **options})


def test_normalisations_and_their_gradients_match_formulas() -> None:
    x = drawn(3, 4, 5)
    a = x.to_numpy()
    weight, bias = drawn(5), drawn(5)
    expected = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5) * weight.to_numpy() + bias.to_numpy()
    np.testing.assert_allclose(F.layer_norm(x, 5, weight, bias).to_numpy(), expected, rtol=1e-12)
    for eps in (1e-3, None):
        expected = a / np.sqrt((a * a).mean(-1, keepdims=True) + (np.finfo(np.float64).eps if eps is None else eps)) * weight.to_numpy()
        np.testing.assert_allclose(F.rms_norm(x, 5, weight, eps).to_numpy(), expected, rtol=1e-12)
    groups = a.reshape(3, 2, 10)
    expected = ((groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)).reshape(a.shape)
    np.testing.assert_allclose(F.group_norm(x, 2).to_numpy(), expected, rtol=1e-12)
    gradients_agree(lambda x, w: (F.layer_norm(x, 5, w, bias) ** 3).sum(), x, weight)
    gradients_agree(lambda x: (F.group_norm(x, 2) ** 3).sum(), x)
    with pytest.raises(tx.errors.ShapeError, match="layer_norm"):
        F.layer_norm(x, 4)


def test_normalisations_far_from_zero_stay_accurate() -> None:
    x = (np.random.default_rng(5).normal(size=(3000, 4)) + 1e6).astype(np.float32)
    exact, t = x.astype(np.float64), tx.asarray(x)

    def normalised(a: Any, axis: int) -> Any:
        return (a - a.mean(axis, keepdims=True)) / np.sqrt(a.var(axis, keepdims=True) + 1e-5)

    for found, wanted in (
        (F.layer_norm(t.T, 3000), normalised(exact.T, -1)),
        (F.group_norm(t.T[None], 4), normalised(exact.T, -1)[None]),
        (nn.BatchNorm1d(4)(t), normalised(exact, 0)),
    ):
        np.testing.assert_allclose(found.detach().numpy(), wanted, atol=2e-5)


@pytest.mark.parametrize("dtype", [tx.float16, tx.bfloat16], ids=str)
def test_normalisations_of_narrow_floats_are_rounded_float32_results(dtype: Any) -> None:
    """The squares of the numbers overflow in float16."""
    x = tx.asarray(np.random.default_rng(3).normal(size=(4, 6)) * 5000.0).astype(dtype)
    weight, bias = [tx.asarray(np.linspace(low, 2.0, 6)).astype(dtype) for low in (0.5, -1.0)]
    wide = [t.astype(tx.float32) for t in (x, weight, bias)]
    functions: list[Any] = [
        lambda x, w, b: F.layer_norm(x, 6, w, b),
        lambda x, w, b: F.rms_norm(x, 6, w),
        lambda x, w, b: F.group_norm(x, 3, w, b),
        lambda x, w, b: nn.functional_call(nn.BatchNorm1d(6, dtype=x.dtype), {"weight": w, "bias": b}, x),
    ]
    for function in functions:
        found = function(x, weight, bias)
        assert found.dtype is dtype and found.tolist() == function(*wide).astype(dtype).tolist()
        assert function(x, wide[1], wide[2]).dtype is tx.float32


NARROW: dict[str, Any] = {
    "linear": lambda d: nn.Linear(4, 3, dtype=d),
    "conv1d": lambda d: nn.Conv1d(4, 2, 3, padding=1, dtype=d),
    "lstm": lambda d: nn.LSTM(4, 3, dtype=d),
    "gru": lambda d: nn.GRU(4, 3, 2, bidirectional=True, dtype=d),
    "rnn": lambda d: nn.RNN(4, 3, batch_first=True, dtype=d),
    "attention": lambda d: nn.MultiHeadAttention(4, 2, dtype=d),
    "layer norm": lambda d: nn.LayerNorm(4, dtype=d),
}


@pytest.mark.parametrize("dtype", [tx.float16, tx.bfloat16], ids=str)
@pytest.mark.parametrize("name", NARROW)
def test_layers_of_narrow_floats_have_finite_gradients(name: str, dtype: Any) -> None:
    layer = NARROW[name](dtype)
    x = drawn(2, 4, 4).astype(dtype).requires_grad_()
    found = layer(x)
    found = found[0] if isinstance(found, tuple) else found
    (found * found).sum().backward()
    for t in (x, *layer.parameters()):
        assert t.grad is not None and t.grad.dtype is dtype and bool(t.grad.astype(tx.float32).isfinite().all())
    assert found.dtype is dtype


@pytest.mark.parametrize("fill", [nn.init.uniform_, nn.init.normal_, nn.init.xavier_normal_, nn.init.kaiming_uniform_, nn.init.orthogonal_])
def test_narrow_initial_weights_are_rounded_float32_weights(fill: Any) -> None:
    wide = fill(tx.zeros((3, 5), dtype=tx.float32), generator=tx.random.Generator(4))
    narrow = fill(tx.zeros((3, 5), dtype=tx.bfloat16), generator=tx.random.Generator(4))
    assert narrow.tolist() == wide.astype(tx.bfloat16).tolist()


@pytest.mark.parametrize("dtype", [tx.bool, tx.int32, tx.complex64], ids=str)
@pytest.mark.parametrize(
    "name", ["kaiming_normal_", "kaiming_uniform_", "normal_", "orthogonal_", "uniform_", "xavier_normal_", "xavier_uniform_"]
)
def test_random_initialisers_reject_dtypes_other_than_real_floats(name: str, dtype: tx.DType) -> None:
    weight = tx.zeros((3, 5), dtype=dtype)
    with pytest.raises(tx.errors.DTypeError, match=f"^{name}: a tensor of dtype {dtype} cannot hold .* must be real floating-point$"):
        getattr(nn.init, name)(weight)
    assert not weight.any()


def test_batch_norm_in_training_and_evaluation_matches_numpy() -> None:
    layer = nn.BatchNorm2d(3, dtype=tx.float64)
    x = drawn(4, 3, 2, 5)
    a = x.to_numpy()
    mean, var = a.mean((0, 2, 3), keepdims=True), a.var((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(layer(x).to_numpy(), (a - mean) / np.sqrt(var + 1e-5), rtol=1e-10)
    count = a.size // 3
    np.testing.assert_allclose(layer.running_mean.to_numpy(), 0.1 * mean.ravel(), rtol=1e-10)
    np.testing.assert_allclose(layer.running_var.to_numpy(), 0.9 + 0.1 * var.ravel() * count / (count - 1), rtol=1e-10)
    layer.eval()
    before = layer.running_mean.to_numpy()
    expected = (a - before.reshape(-1, 1, 1)) / np.sqrt(layer.running_var.to_numpy().reshape(-1, 1, 1) + 1e-5)
    np.testing.assert_allclose(layer(x).to_numpy(), expected, rtol=1e-10)
    assert (layer.running_mean.to_numpy() == before).all()


def lstm(x: Any, p: dict[str, Any]) -> Any:
    h = c = np.zeros((x.shape[0], p["weight_hh_l0"].shape[1]))
    states = []
    for k in range(x.shape[1]):
        gates = x[:, k] @ p["weight_ih_l0"].T + p["bias_ih_l0"] + h @ p["weight_hh_l0"].T + p["bias_hh_l0"]
        i, f, g, o = np.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.stack(states, 1)


def gru(x: Any, p: dict[str, Any]) -> Any:
    h = np.zeros((x.shape[0], p["weight_hh_l0"].shape[1]))
    states = []
    for k in range(x.shape[1]):
        r, z, n = np.split(x[:, k] @ p["weight_ih_l0"].T + p["bias_ih_l0"], 3, axis=1)
        hr, hz, hn = np.split(h @ p["weight_hh_l0"].T + p["bias_hh_l0"], 3, axis=1)
        z = sigmoid(z + hz)
        h = (1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * h
        states.append(h)
    return np.stack(states, 1)


@pytest.mark.parametrize("steps", [6, 21])
@pytest.mark.parametrize(("layer", "expected"), [(nn.LSTM, lstm), (nn.GRU, gru)])
def test_recurrent_layers_match_numpy_loops(layer: Any, expected: Any, steps: int) -> None:
    own = layer(3, 4, batch_first=True, dtype=tx.float64)
    x = drawn(2, steps, 3)
    found, _ = own(x)
    np.testing.assert_allclose(found.to_numpy(), expected(x.to_numpy(), {n: p.to_numpy() for n, p in own.named_parameters()}), rtol=1e-10)
    gradients_agree(lambda x: (own(x)[0] ** 2).sum(), x)
    first, state = own(x[:, :3])
    second, _ = own(x[:, 3:], state)
    np.testing.assert_allclose(tx.concat([first, second], 1).to_numpy(), found.to_numpy(), rtol=1e-12)


@pytest.mark.parametrize("steps", [3, 20])
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_recurrent_initial_states_broadcast_over_sequences(layer: Any, steps: int) -> None:
    """There is one state for all sequences, or several states for one sequence."""
    own = layer(3, 4, batch_first=True, dtype=tx.float64)
    begun = lambda h: (h, h) if layer is nn.LSTM else h
    x, h = drawn(2, steps, 3), drawn(1, 1, 4)
    found, wanted = own(x, begun(h))[0], own(x, begun(tx.concat([h, h], 1)))[0]
    np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy(), rtol=1e-12)
    assert own(x[:1], begun(tx.zeros((1, 5, 4))))[0].shape == (5, steps, 4)
    with pytest.raises(ValueError, match=r"state has shape \(1, 2, 3\); it must be \(1, N, 4\)"):
        own(x, begun(tx.zeros((1, 2, 3))))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_gradients_of_recurrent_layers_match_differences(layer: Any, bias: bool) -> None:
    """Differences are taken by every parameter; the layer is wide enough for packed weights."""
    own, x = layer(5, 64, bias=bias, batch_first=True, dtype=tx.float64), drawn(3, 17, 5)
    weigh = drawn(3, 17, 64)
    (own(x)[0] * weigh).sum().backward()
    parameters = dict(own.named_parameters())
    found = {name: p.grad.to_numpy() for name, p in parameters.items()}
    assert len(found) == (4 if bias else 2)
    for name, p in parameters.items():
        direction, value, step = RNG.normal(size=p.shape), p.detach().copy(), 1e-6
        values = []
        with tx.no_grad():
            for sign in (1, -1):
                p[...] = value + sign * step * direction
                values.append((own(x)[0] * weigh).sum().item())
            p[...] = value
        slope = (values[0] - values[1]) / (2 * step)
        assert abs((found[name] * direction).sum() - slope) < 1e-6 * max(1.0, abs(slope)), name
    assert own(x[:0])[0].shape == (0, 17, 64) and own(x[:, :0])[0].shape == (3, 0, 64)


def attention(q: Any, k: Any, v: Any, heads: int, causal: bool) -> Any:
    n, length, width = q.shape
    cut = lambda x: x.reshape(n, x.shape[1], heads, -1).transpose(0, 2, 1, 3)
    q, k, v = cut(q), cut(k), cut(v)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(length, k.shape[2], dtype=bool), scores, -np.inf)
    return (softmax(scores, -1) @ v).transpose(0, 2, 1, 3).reshape(n, length, width)


@pytest.mark.parametrize("causal", [False, True])
def test_multi_head_attention_matches_numpy(causal: bool) -> None:
    layer = nn.MultiHeadAttention(6, 2, dtype=tx.float64)
    x = drawn(2, 5, 6)
    a = x.to_numpy()
    parts = [a @ of(layer, f"to_{name}.weight").T + of(layer, f"to_{name}.bias") for name in ("query", "key", "value")]
    expected = attention(*parts, heads=2, causal=causal) @ of(layer, "to_result.weight").T + of(layer, "to_result.bias")
    np.testing.assert_allclose(layer(x, is_causal=causal).to_numpy(), expected, rtol=1e-10)
    gradients_agree(lambda x: (layer(x, is_causal=causal) ** 2).sum(), x)


def test_key_value_cache_gives_the_same_result_step_by_step() -> None:
    layer = nn.MultiHeadAttention(6, 3, dtype=tx.float64)
    x = drawn(2, 5, 6)
    cache = nn.KeyValueCache(2, 3, 5, 2, dtype=tx.float64)
    with tx.no_grad():
        steps = [layer(x[:, :2], is_causal=True, cache=cache)]
        steps += [layer(x[:, k : k + 1], is_causal=True, cache=cache) for k in range(2, 5)]
    np.testing.assert_allclose(tx.concat(steps, 1).to_numpy(), layer(x, is_causal=True).to_numpy(), rtol=1e-12)
    with pytest.raises(tx.errors.ShapeError, match="there must be at most 5"):
        layer(x[:, :1], cache=cache)


def gatv2(x: Any, adjacency: Any, p: dict[str, Any], heads: int) -> Any:
    """S. Brody et al., equation 7, with a self-loop at each node."""
    source = (x @ p["from_source.weight"].T + p["from_source.bias"]).reshape(len(x), heads, -1)
    target = (x @ p["from_target.weight"].T + p["from_target.bias"]).reshape(len(x), heads, -1)
    found = np.zeros_like(source)
    for i in range(len(x)):
        neighbours = [j for j in range(len(x)) if adjacency[i, j] or i == j]
        for h in range(heads):
            pairs = [source[j, h] + target[i, h] for j in neighbours]
            scores = np.array([np.where(s > 0, s, 0.2 * s) @ p["attention"][h] for s in pairs])
            weights = softmax(scores, 0)
            found[i, h] = sum(w * source[j, h] for w, j in zip(weights, neighbours, strict=True))
    return found


@pytest.mark.parametrize("heads", [1, 3])
def test_gatv2_matches_numpy(heads: int) -> None:
    adjacency = RNG.random((7, 7)) < 0.4
    np.fill_diagonal(adjacency, False)
    edges = tx.asarray(np.stack(np.nonzero(adjacency.T)))  # row i has what node i hears of
    layer = nn.GATv2(4, 5, heads, dtype=tx.float64)
    x = drawn(7, 4)
    expected = gatv2(x.to_numpy(), adjacency, {n: p.to_numpy() for n, p in layer.named_parameters()}, heads).reshape(7, -1)
    np.testing.assert_allclose(layer(x, edges).to_numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(layer(x, adjacency=adjacency).to_numpy(), expected, rtol=1e-10)
    gradients_agree(lambda x: (layer(x, edges) ** 2).sum(), x)
    batch = drawn(3, 7, 4)
    own = {n: p.to_numpy() for n, p in layer.named_parameters()}
    wanted = [gatv2(t.to_numpy(), adjacency, own, heads).reshape(7, -1) for t in batch]
    np.testing.assert_allclose(tx.vmap(lambda x: layer(x, edges))(batch).to_numpy(), wanted, rtol=1e-10)
    each = RNG.random((3, 7, 7)) < 0.4  # a graph for each
    wanted = [gatv2(t.to_numpy(), heard, own, heads).reshape(7, -1) for t, heard in zip(batch, each, strict=True)]
    found = tx.vmap(lambda x, heard: layer(x, adjacency=heard))(batch, tx.asarray(each))
    np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-10)
    ends = RNG.integers(0, 7, (3, 2, 9))  # lists of as many edges, of which some are there twice: they are heard once in a matrix
    ends = np.stack([np.array(sorted({(a, b) for a, b in zip(*its, strict=True) if a != b})[:5]).T for its in ends])
    matrices = np.zeros((3, 7, 7), bool)
    for heard, (start, end) in zip(matrices, ends, strict=True):
        heard[end, start] = True
    wanted = [gatv2(t.to_numpy(), heard, own, heads).reshape(7, -1) for t, heard in zip(batch, matrices, strict=True)]
    np.testing.assert_allclose(tx.vmap(layer)(batch, tx.asarray(ends)).to_numpy(), wanted, rtol=1e-10)


def test_gcn_matches_numpy() -> None:
    adjacency = RNG.random((6, 6)) < 0.5
    adjacency = np.triu(adjacency, 1) | np.triu(adjacency, 1).T
    layer = nn.GCN(4, 3, dtype=tx.float64)
    x = drawn(6, 4)
    whole = adjacency + np.eye(6)
    scale = 1 / np.sqrt(whole.sum(1))
    expected = (whole * scale * scale[:, None]) @ x.to_numpy() @ of(layer, "affine.weight").T
    np.testing.assert_allclose(layer(x, tx.asarray(np.stack(np.nonzero(adjacency)))).to_numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(layer(x, adjacency=adjacency).to_numpy(), expected, rtol=1e-10)


def test_graph_layer_edges_must_be_pairs_of_integers() -> None:
    layer = nn.GCN(2, 2)
    with pytest.raises(tx.errors.ShapeError, match="sources and targets"):
        layer(tx.ones((3, 2), dtype=tx.float32), tx.asarray([[0, 1, 2]]))
    with pytest.raises(tx.errors.DTypeError, match="integers"):
        layer(tx.ones((3, 2), dtype=tx.float32), tx.ones((2, 2)))


def test_dropout_drops_the_given_share_and_keeps_the_mean() -> None:
    x = tx.ones(20_000)
    found = F.dropout(x, 0.3, generator=tx.random.Generator(1))
    kept = (found != 0).astype(tx.float64).mean().item()
    assert abs(kept - 0.7) < 0.02
    assert set(found.to_numpy().round(12)) == {0.0, round(1 / 0.7, 12)}
    assert F.dropout(x, 0.3, training=False) is x
    with pytest.raises(tx.errors.ArgumentError, match="probability"):
        F.dropout(x, 1.5)
