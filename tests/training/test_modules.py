"""Modules: their parts, their states, and losses."""

from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenxor as tx
from tenxor import nn
from tenxor.errors import UnknownAttribute
from tenxor.nn import functional as F
from tests.training.differences import gradients_agree

RNG = np.random.default_rng(1)


class Net(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(3, 4)
        self.rest = [nn.Linear(4, 4, bias=False), {"last": nn.Linear(4, 2)}]
        self.scale = nn.Parameter([2.0])
        self.seen = tx.zeros(2)

    def forward(self, x: Any) -> Any:
        last: Any = self.rest[1]
        return last["last"](tx.relu(self.rest[0](self.first(x)))) * self.scale.astype(tx.float32)  # type: ignore[operator]


def test_modules_list_parameters_and_buffers_by_name() -> None:
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    assert names == ["scale", "first.weight", "first.bias", "rest.0.weight", "rest.1.last.weight", "rest.1.last.bias"]
    assert [name for name, _ in net.named_buffers()] == ["seen"]
    assert net.num_parameters == 1 + 12 + 4 + 16 + 8 + 2
    assert "rest.1.last: Linear(4, 2)  # 10 parameters" in repr(net)


def test_shared_tensor_is_one_parameter() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net.layers[1].weight = net.layers[0].weight  # type: ignore[attr-defined]
    assert len(list(net.parameters())) == 3
    net(tx.ones((1, 2), dtype=tx.float32)).sum().backward()
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_train_eval_and_apply_reach_all_submodules() -> None:
    net = nn.Sequential(nn.Dropout(0.9), nn.ModuleList([nn.Dropout(0.9)]))
    net.eval()
    assert [m.training for m in net.modules()] == [False] * 4
    seen: list[str] = []
    net.train().apply(lambda m: seen.append(type(m).__name__))
    assert seen[-1] == "Sequential" and sorted(seen[:3]) == ["Dropout", "Dropout", "ModuleList"]


def test_state_dict_is_a_copy_unchanged_by_training() -> None:
    net = Net()
    state = net.state_dict()
    before = {name: t.to_numpy() for name, t in state.items()}
    with tx.no_grad():
        for p in net.parameters():
            p += 1.0
    assert all((state[name].to_numpy() == before[name]).all() for name in before)
    assert not any(t.requires_grad for t in state.values())
    net.load_state_dict(state)
    assert all((t.to_numpy() == before[name]).all() for name, t in net.state_dict().items())
    assert all(p.requires_grad and p.is_leaf for p in net.parameters())


def test_loading_an_invalid_state_changes_nothing() -> None:
    net = Net()
    before = net.first.weight.to_numpy()
    with pytest.raises(tx.errors.ArgumentError, match="the state lacks"):
        net.load_state_dict({"first.weight": tx.zeros((4, 3))})
    wrong = {**net.state_dict(), "first.weight": tx.zeros((4, 3)), "scale": tx.zeros(2)}
    with pytest.raises(tx.errors.ShapeError, match="scale has shape"):
        net.load_state_dict(wrong)
    assert (net.first.weight.to_numpy() == before).all()


def test_functional_call_is_differentiable_by_parameters() -> None:
    net = nn.Linear(3, 2, dtype=tx.float64)
    x = tx.asarray(RNG.normal(size=(4, 3)))
    own = {name: t.detach() for name, t in net.named_parameters()}
    found = tx.grad(lambda w: (nn.functional_call(net, w, x) ** 2).sum())(own)
    (net(x) ** 2).sum().backward()
    assert net.weight.grad is not None
    np.testing.assert_allclose(found["weight"].to_numpy(), net.weight.grad.to_numpy(), rtol=1e-12)
    assert tx.hessian(lambda w: (nn.functional_call(net, {"bias": w}, x) ** 2).sum())(own["bias"]).shape == (2, 2)
    with pytest.raises(tx.errors.ArgumentError, match="no tensor 'wieght'"):
        nn.functional_call(net, {"wieght": own["weight"]}, x)


class Pair(NamedTuple):
    left: tx.Tensor
    right: tx.Tensor


class Tied(nn.Module):
    """A module with one weight in three attributes, and others in a dict, a list and tuples."""

    def __init__(self) -> None:
        self.first, self.second = nn.Linear(2, 2, bias=False, dtype=tx.float64), nn.Linear(2, 2, bias=False, dtype=tx.float64)
        self.second.weight = self.first.weight
        self.scales = (nn.Parameter([2.0]), [nn.Parameter([3.0])])
        self.more = {"pair": Pair(nn.Parameter([1.0, 2.0]), self.first.weight)}

    def forward(self, x: Any) -> Any:
        pair = self.more["pair"]
        return self.second(self.first(x)) * self.scales[0] * self.scales[1][0] + (x * pair.left) @ pair.right


def test_functional_call_exchanges_shared_and_nested_tensors() -> None:
    net, x = Tied(), tx.asarray([[1.0, 2.0]])
    own = {name: t.detach() for name, t in net.named_parameters()}
    assert len(own) == 4
    (net(x) ** 2).sum().backward()
    found = tx.grad(lambda w: (nn.functional_call(net, w, x) ** 2).sum())(own)
    for name, t in net.named_parameters():
        assert t.grad is not None
        np.testing.assert_allclose(found[name].to_numpy(), t.grad.to_numpy(), rtol=1e-12)
    assert net.second.weight is net.first.weight is net.more["pair"].right and isinstance(net.scales, tuple)
    apart = nn.functional_call(net, {"first.weight": tx.zeros((2, 2)), "second.weight": tx.eye(2), "more.pair.1": tx.eye(2)}, x)
    assert apart.tolist() == [[1.0, 4.0]]
    with pytest.raises(tx.errors.ShapeError):
        nn.functional_call(net, {"scales.0": tx.ones(5)}, x)
    assert net.scales[0].tolist() == [2.0]


def log_softmax(x: Any) -> Any:
    apart = x - x.max(-1, keepdims=True)
    return apart - np.log(np.exp(apart).sum(-1, keepdims=True))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_match_numpy(reduction: str) -> None:
    end: Any = {"mean": np.mean, "sum": np.sum, "none": lambda x: x}[reduction]
    x, t = RNG.normal(size=(4, 3)), RNG.random(size=(4, 3))
    p = RNG.random(size=(4, 3)) * 0.9 + 0.05
    a, b, q = tx.asarray(x), tx.asarray(t), tx.asarray(p)
    gap = np.abs(x - t)
    for found, expected in (
        (F.mse_loss(a, b, reduction), (x - t) ** 2),
        (F.l1_loss(a, b, reduction), gap),
        (F.huber_loss(a, b, reduction), np.where(gap < 1, gap * gap / 2, gap - 0.5)),
        (F.binary_cross_entropy(q, b, reduction=reduction), -(t * np.log(p) + (1 - t) * np.log(1 - p))),
        (F.binary_cross_entropy_with_logits(a, b, reduction=reduction), np.log1p(np.exp(x)) - x * t),
        (F.kl_div(tx.log_softmax(a), b, reduction), t * (np.log(t) - log_softmax(x))),
    ):
        np.testing.assert_allclose(found.to_numpy(), end(expected), rtol=1e-10)
    classes = np.array([0, 2, 1, 2])
    logs = log_softmax(x)
    each = -logs[np.arange(4), classes]
    np.testing.assert_allclose(F.cross_entropy(a, classes, reduction=reduction).to_numpy(), end(each), rtol=1e-12)
    np.testing.assert_allclose(F.nll_loss(tx.log_softmax(a), classes, reduction=reduction).to_numpy(), end(each), rtol=1e-12)
    smooth = 0.9 * each - 0.1 * logs.mean(-1)
    np.testing.assert_allclose(F.cross_entropy(a, classes, reduction=reduction, label_smoothing=0.1).to_numpy(), end(smooth), rtol=1e-12)
    share = t / t.sum(-1, keepdims=True)
    found = F.cross_entropy(a, tx.asarray(share), reduction=reduction)
    np.testing.assert_allclose(found.to_numpy(), end(-(share * logs).sum(-1)), rtol=1e-12)


def test_gradients_of_losses_match_differences() -> None:
    x, t = tx.asarray(RNG.normal(size=(4, 3))), tx.asarray(RNG.random(size=(4, 3)))
    for loss in (F.mse_loss, F.huber_loss, F.binary_cross_entropy_with_logits):
        gradients_agree(lambda x, loss=loss: loss(x, t), x)
    gradients_agree(lambda x: F.cross_entropy(x, tx.asarray([0, 1, 2, 1])), x)


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.huber_loss])
def test_losses_of_complex_tensors_are_real(loss: Any) -> None:
    x, t = (RNG.normal(size=4) + 1j * RNG.normal(size=4) for _ in range(2))
    found = loss(tx.asarray(x), tx.asarray(t), "none")
    sizes = np.abs(x - t)
    wanted = {F.mse_loss: sizes**2, F.l1_loss: sizes, F.huber_loss: np.where(sizes < 1, sizes**2 / 2, sizes - 0.5)}[loss]
    assert found.dtype is tx.float64
    np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-12)
    gradients_agree(lambda x: loss(x * (1 + 0.5j), tx.asarray(t)), tx.asarray(x.real))


def test_clamped_logarithms_have_derivative_zero() -> None:
    """The probabilities are 0 and 1, right and wrong ones."""
    p, t = tx.asarray([0.0, 1.0, 0.0, 1.0, 0.25]), tx.asarray([0.0, 1.0, 1.0, 0.0, 0.0])
    assert F.binary_cross_entropy(p, t, reduction="none")[:4].tolist() == [0.0, 0.0, 100.0, 100.0]
    assert tx.grad(lambda p: F.binary_cross_entropy(p, t, reduction="sum"))(p).tolist() == [1.0, -1.0, 0.0, 0.0, 1 / 0.75]


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.huber_loss, F.binary_cross_entropy, F.kl_div])
def test_losses_require_equal_shapes(loss: Any) -> None:
    with pytest.raises(tx.errors.ShapeError, match="they must be equal"):
        loss(tx.ones((4, 1)), tx.ones(4))


def test_threshold_keeps_nan() -> None:
    assert str(F.threshold(tx.asarray([tx.nan, 0.5, 1.0, 2.0]), 1.0, -3.0).tolist()) == "[nan, -3.0, -3.0, 2.0]"


def test_derivative_of_softshrink_at_its_bounds_is_zero() -> None:
    x = tx.asarray([-1.0, -0.5, 0.0, 0.5, 1.0])
    assert tx.grad(lambda x: F.softshrink(x).sum())(x).tolist() == [1.0, 0.0, 0.0, 0.0, 1.0]


def test_sequential_repr_lists_its_functions() -> None:
    class Own(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(nn.Linear(2, 3), tx.relu, nn.Sequential(tx.tanh), lambda x: x)
            self.last = nn.Linear(3, 1)

    lines = repr(Own()).splitlines()
    assert lines[0] == "Own()  # 13 parameters"
    assert lines[1].startswith("  0: Linear(") and lines[6].startswith("  last: Linear(")
    assert lines[2:6] == ["  1: relu", "  2: Sequential()", "    0: tanh", "  3: <lambda>"]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("ignored", [-100, 1])
def test_ignored_classes_do_not_count_in_losses(ignored: int, smoothing: float) -> None:
    x, classes = RNG.normal(size=(5, 3)), np.array([0, ignored, 2, ignored, 2])
    kept = classes != ignored
    given = {"label_smoothing": smoothing, "ignore_index": ignored}
    for reduction in ("mean", "sum"):
        loss, gradient = tx.value_and_grad(lambda a, how=reduction: F.cross_entropy(a, classes, reduction=how, **given))(tx.asarray(x))
        only = {"label_smoothing": smoothing, "reduction": reduction}
        wanted, its = tx.value_and_grad(lambda a, only=only: F.cross_entropy(a, classes[kept], **only))(tx.asarray(x[kept]))
        np.testing.assert_allclose(loss.item(), wanted.item(), rtol=1e-12)
        np.testing.assert_allclose(gradient.to_numpy()[kept], its.to_numpy(), rtol=1e-12)
        assert (gradient.to_numpy()[~kept] == 0).all()
    each = F.cross_entropy(tx.asarray(x), classes, reduction="none", **given).to_numpy()
    assert (each[~kept] == 0).all() and (each[kept] > 0).all()
    each = F.nll_loss(tx.log_softmax(tx.asarray(x)), classes, reduction="none", ignore_index=ignored)
    assert each.to_numpy()[~kept].tolist() == [0.0, 0.0]
    assert np.isnan(F.cross_entropy(tx.asarray(x), np.full(5, ignored), **given).item())  # a mean of nothing


@pytest.mark.parametrize("dtype", [tx.int8, tx.int64, tx.uint8])
@pytest.mark.parametrize("wrong", [-1, -3, -4, 3])
def test_class_out_of_range_raises_in_losses_and_their_gradients(wrong: int, dtype: Any) -> None:
    """The gradient alone raises, too, and so does the fast path."""
    x = tx.asarray(RNG.normal(size=(4, 3)))
    told = wrong % 256 if dtype is tx.uint8 else wrong
    classes = tx.asarray([0, 2, told, 1], dtype=dtype)
    for op, loss in (("cross_entropy", F.cross_entropy), ("nll_loss", F.nll_loss)):
        for make in (loss, lambda x, c, loss=loss: tx.grad(lambda a: loss(a, c))(x)):
            for _ in range(6):
                with pytest.raises(tx.errors.IndexOutOfRange, match=f"^{op}: index {told} is out of range for axis 1 of size 3"):
                    make(x, classes).realize()


def test_class_targets_of_wrong_dtype_or_shape_raise() -> None:
    with pytest.raises(tx.errors.DTypeError, match="nll_loss: target has dtype float64"):
        F.nll_loss(tx.zeros((4, 3)), tx.zeros(4))
    with pytest.raises(tx.errors.ShapeError, match=r"target must have shape \(4,\)"):
        F.cross_entropy(tx.zeros((4, 3)), tx.asarray([[0], [1], [2], [0]]))
    with pytest.raises(tx.errors.DTypeError, match="must be integers, the classes"):
        F.cross_entropy(tx.zeros((4, 3)), tx.ones((4, 3), dtype=tx.bool))


def test_embedding_and_one_hot_match_indexing() -> None:
    table = nn.Embedding(5, 3, dtype=tx.float64)
    indices = tx.asarray([[0, 4], [4, 4]])
    assert table(indices).tolist() == table.weight.to_numpy()[indices.to_numpy()].tolist()
    table(indices).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad[:, 0].tolist() == [1.0, 0.0, 0.0, 0.0, 3.0]
    assert F.one_hot(tx.asarray([1, 0]), 3).tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    with pytest.raises(tx.errors.DTypeError, match="integers"):
        table(tx.ones(2))


def test_initial_weights_have_documented_distributions() -> None:
    generator = tx.random.Generator(3)
    weight = tx.zeros((200, 100))
    assert nn.init.kaiming_normal_(weight, generator=generator) is weight
    assert abs(weight.std().item() - (2 / 100) ** 0.5) < 0.003
    nn.init.xavier_uniform_(weight, generator=generator)
    bound = (6 / 300) ** 0.5
    assert bool((abs(weight) <= bound).all()) and weight.max().item() > 0.99 * bound
    nn.init.orthogonal_(weight, generator=generator)
    np.testing.assert_allclose((weight.T @ weight).to_numpy(), np.eye(100), atol=1e-12)
    with pytest.raises(tx.errors.ShapeError, match="at least 2 axes"):
        nn.init.xavier_normal_(tx.zeros(3))


@pytest.mark.parametrize(
    ("name", "meant"), [("ReLU", "tx.relu"), ("LeakyReLU", "tx.nn.functional.leaky_relu"), ("LogSoftmax", "tx.log_softmax")]
)
def test_missing_activation_class_names_the_function(name: str, meant: str) -> None:
    with pytest.raises(UnknownAttribute, match=f"no class {name}; use the function {meant} itself"):
        getattr(tx.nn, name)
    assert not hasattr(tx.nn, "Nothing") and not hasattr(tx.nn, "relu")


def test_one_hot_checks_the_range_of_classes() -> None:
    assert F.one_hot(tx.asarray([[1], [0]]), 3).tolist() == [[[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]]]
    assert tx.vmap(lambda k: F.one_hot(k, 2))(tx.asarray([0, 1])).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    for indices, count, wrong in (([0, 3], 3, 3), ([-1, 1], -1, -1), ([1, -2], 4, -2)):
        with pytest.raises(tx.errors.IndexOutOfRange, match=f"index {wrong} "):
            F.one_hot(tx.asarray(indices), count)


def test_loading_a_complex_state_into_a_real_layer_changes_nothing() -> None:
    layer = nn.Linear(2, 2)
    before = layer.weight.tolist()
    state = {"weight": tx.zeros((2, 2)), "bias": tx.zeros(2, dtype=tx.complex64)}
    with pytest.raises(tx.errors.DTypeError, match="load_state_dict: bias"):
        layer.load_state_dict(state)
    assert layer.weight.tolist() == before


@pytest.mark.parametrize("layer", [nn.GCN(3, 2), nn.GATv2(3, 2)])
def test_graph_layers_require_edges(layer: Any) -> None:
    with pytest.raises(tx.errors.ArgumentError, match=f"{type(layer).__name__}: no edges are given"):
        layer(tx.ones((4, 3), dtype=tx.float32))
    with pytest.raises(tx.errors.ShapeError, match=f"{type(layer).__name__}: x has shape .* tx.vmap"):
        layer(tx.ones((4, 4, 3), dtype=tx.float32), tx.asarray([[0, 1], [1, 2]]))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: pickle.loads(pickle.dumps(x, 2))])
def test_copies_of_modules_train_independently(again: Any) -> None:
    """The copied parameters are leaves: gradients and steps do not reach the original."""
    layer = nn.Linear(2, 2)
    layer.tied, layer.buffer = layer.weight, tx.zeros(2)
    other = again(layer)
    assert [name for name, _ in other.named_parameters()] == ["weight", "bias"] and other.tied is other.weight
    assert other.weight.is_leaf and not other.buffer.requires_grad and not again(layer.weight.detach()).requires_grad
    before, optimizer = layer.weight.tolist(), tx.optim.SGD(other.parameters(), lr=0.5)
    other(tx.ones((1, 2), dtype=tx.float32)).sum().backward()
    optimizer.step()
    assert layer.weight.grad is None and layer.weight.tolist() == before != other.weight.tolist()
    assert not pickle.loads(pickle.dumps(layer.weight * 2.0)).requires_grad


def named_values(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Return arrays of random numbers, as a state dict of PyTorch has them, by name."""
    return {name: RNG.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def test_sequential_loads_a_state_dict_with_the_names_of_pytorch() -> None:
    net = nn.Sequential(
        *(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), tx.relu, nn.Flatten(), nn.Linear(8, 4), nn.LayerNorm(4)),
        *(nn.Embedding(5, 4), nn.LSTM(4, 3, num_layers=2, bidirectional=True), nn.GRU(4, 3, bias=False), nn.GroupNorm(1, 4)),
    )
    lstm = {
        f"7.{kind}_{place}_l{layer}{end}": (12, *([] if kind == "bias" else [3 if place == "hh" else 6 if layer else 4]))
        for layer in (0, 1)
        for end in ("", "_reverse")
        for kind in ("weight", "bias")
        for place in ("ih", "hh")
    }
    state = named_values(
        {"0.weight": (2, 1, 3, 3), "0.bias": (2,), "1.weight": (2,), "1.bias": (2,), "1.running_mean": (2,), "1.running_var": (2,)}
        | {"4.weight": (4, 8), "4.bias": (4,), "5.weight": (4,), "5.bias": (4,), "6.weight": (5, 4)}
        | lstm
        | {"8.weight_ih_l0": (9, 4), "8.weight_hh_l0": (9, 3), "9.weight": (4,), "9.bias": (4,)}
    )
    state["1.num_batches_tracked"] = np.array(7)
    assert net.load_state_dict(state) == ([], [])
    result = net.state_dict()
    assert result.keys() | {"1.num_batches_tracked"} == state.keys() and "1.num_batches_tracked" in state
    assert all(result[name].tolist() == state[name].tolist() for name in result)


@pytest.mark.parametrize("bias", [False, True])
def test_attention_loads_a_state_dict_with_the_names_of_pytorch(bias: bool) -> None:
    net = nn.Sequential(nn.MultiHeadAttention(4, 2, bias=bias))
    shapes: dict[str, tuple[int, ...]] = {"0.in_proj_weight": (12, 4), "0.out_proj.weight": (4, 4)}
    state = named_values(shapes | ({"0.in_proj_bias": (12,), "0.out_proj.bias": (4,)} if bias else {}))
    net.load_state_dict(state)
    result = net.state_dict()
    for k, name in enumerate(("to_query", "to_key", "to_value")):
        assert np.array_equal(result[f"0.{name}.weight"], state["0.in_proj_weight"][4 * k : 4 * k + 4])
        assert not bias or np.array_equal(result[f"0.{name}.bias"], state["0.in_proj_bias"][4 * k : 4 * k + 4])
    assert np.array_equal(result["0.to_result.weight"], state["0.out_proj.weight"])
    x = RNG.normal(size=(1, 3, 4)).astype(np.float32)
    q, k, v = (x[0] @ state["0.in_proj_weight"][n : n + 4].T + (state["0.in_proj_bias"][n : n + 4] if bias else 0) for n in (0, 4, 8))
    heads = []
    for head in (slice(0, 2), slice(2, 4)):
        weights = np.exp(q[:, head] @ k[:, head].T / np.sqrt(2))
        heads.append(weights / weights.sum(1, keepdims=True) @ v[:, head])
    expected = np.concatenate(heads, 1) @ state["0.out_proj.weight"].T + (state["0.out_proj.bias"] if bias else 0)
    np.testing.assert_allclose(np.asarray(net(tx.asarray(x)))[0], expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(tx.errors.ArgumentError, match=r"unknown names \['0.in_proj_weight'\]"):
        net.load_state_dict(state | {"0.in_proj_weight": np.ones((11, 4))})


def test_shared_tensor_loads_under_each_of_its_names() -> None:
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net.layers[1].weight = net.layers[0].weight  # type: ignore[attr-defined]
    for names in (["0.weight"], ["1.weight"], ["0.weight", "1.weight"]):
        values = RNG.normal(size=(2, 2)).astype(np.float32)
        assert net.load_state_dict(dict.fromkeys(names, values)) == ([], [])
        assert net.layers[1].weight.tolist() == values.tolist()  # type: ignore[attr-defined]


def test_error_of_load_state_dict_lists_names_and_the_renames_that_fit() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 3, bias=False))
    state = {name: np.asarray(t) for name, t in net.state_dict().items()}
    other = {f"body.{int(name[0]) + 4}.{name[2:]}": x for name, x in state.items()} | {"step": np.array(3)}
    with pytest.raises(tx.errors.ArgumentError) as caught:
        net.load_state_dict(other)
    message = str(caught.value)
    assert str(list(state)) in message and str(list(other)) in message
    names = {f"body.{int(name[0]) + 4}.{name[2:]}": name for name in state}
    assert f"names = {names} and load_state_dict({{names.get(name, name): x for name, x in state.items()}})" in message
    net.load_state_dict({names.get(name, name): x for name, x in other.items()}, strict=False)
    with pytest.raises(tx.errors.ArgumentError, match=r"to leave these out$"):
        net.load_state_dict({**state, "a": np.ones((2, 3))})
