"""Names and order of arguments compared with PyTorch's signatures, given here as data; states and dtypes of modules."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import nn
from tenxor._utils.aliases import OUR_NAMES_BY_ALIAS
from tenxor.nn import functional as F

DEPRECATED = {"size_average", "reduce"}
# The positional parameters of `torch.nn.functional`, of PyTorch 2.13.
FUNCTIONAL = {
    "avg_pool1d": "input, kernel_size, stride, padding, ceil_mode, count_include_pad",
    "avg_pool2d": "input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override",
    "avg_pool3d": "input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override",
    "binary_cross_entropy": "input, target, weight, size_average, reduce, reduction",
    "binary_cross_entropy_with_logits": "input, target, weight, size_average, reduce, reduction, pos_weight",
    "celu": "input, alpha, inplace",
    "conv1d": "input, weight, bias, stride, padding, dilation, groups",
    "conv2d": "input, weight, bias, stride, padding, dilation, groups",
    "conv3d": "input, weight, bias, stride, padding, dilation, groups",
    "conv_transpose1d": "input, weight, bias, stride, padding, output_padding, groups, dilation",
    "conv_transpose2d": "input, weight, bias, stride, padding, output_padding, groups, dilation",
    "conv_transpose3d": "input, weight, bias, stride, padding, output_padding, groups, dilation",
    "cross_entropy": "input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing",
    "dropout": "input, p, training, inplace",
    "elu": "input, alpha, inplace",
    "embedding": "input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse",
    "gelu": "input, approximate",
    "glu": "input, dim",
    "group_norm": "input, num_groups, weight, bias, eps",
    "hardshrink": "input, lambd",
    "hardsigmoid": "input, inplace",
    "hardswish": "input, inplace",
    "hardtanh": "input, min_val, max_val, inplace",
    "huber_loss": "input, target, reduction, delta, weight",
    "interpolate": "input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias",
    "kl_div": "input, target, size_average, reduce, reduction, log_target",
    "l1_loss": "input, target, size_average, reduce, reduction, weight",
    "layer_norm": "input, normalized_shape, weight, bias, eps",
    "leaky_relu": "input, negative_slope, inplace",
    "linear": "input, weight, bias",
    "log_softmax": "input, dim, _stacklevel, dtype",
    "logsigmoid": "input",
    "max_pool1d": "input, kernel_size, stride, padding, dilation, ceil_mode, return_indices",
    "max_pool2d": "input, kernel_size, stride, padding, dilation, ceil_mode, return_indices",
    "max_pool3d": "input, kernel_size, stride, padding, dilation, ceil_mode, return_indices",
    "max_unpool1d": "input, indices, kernel_size, stride, padding, output_size",
    "max_unpool2d": "input, indices, kernel_size, stride, padding, output_size",
    "max_unpool3d": "input, indices, kernel_size, stride, padding, output_size",
    "mish": "input, inplace",
    "mse_loss": "input, target, size_average, reduce, reduction, weight",
    "nll_loss": "input, target, weight, size_average, ignore_index, reduce, reduction",
    "one_hot": "tensor, num_classes",
    "pad": "input, pad, mode, value",
    "prelu": "input, weight",
    "relu": "input, inplace",
    "relu6": "input, inplace",
    "rms_norm": "input, normalized_shape, weight, eps",
    "scaled_dot_product_attention": "query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa",
    "selu": "input, inplace",
    "sigmoid": "input",
    "silu": "input, inplace",
    "smooth_l1_loss": "input, target, size_average, reduce, reduction, beta",
    "softmax": "input, dim, _stacklevel, dtype",
    "softmin": "input, dim, _stacklevel, dtype",
    "softplus": "input, beta, threshold",
    "softshrink": "input, lambd",
    "softsign": "input",
    "tanh": "input",
    "tanhshrink": "input",
    "threshold": "input, threshold, value, inplace",
}
_OF_RECURRENT = "bias, batch_first, dropout, bidirectional"
LAYERS = {
    "AvgPool1d": "kernel_size, stride, padding, ceil_mode, count_include_pad",
    "AvgPool2d": "kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override",
    "AvgPool3d": "kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override",
    "BatchNorm1d": "num_features, eps, momentum, affine, track_running_stats, device, dtype",
    "BatchNorm2d": "num_features, eps, momentum, affine, track_running_stats, device, dtype",
    "Conv1d": "in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype",
    "Conv2d": "in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype",
    "Dropout": "p, inplace",
    "Embedding": "num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse",
    "Flatten": "start_dim, end_dim",
    "GRU": f"input_size, hidden_size, num_layers, {_OF_RECURRENT}",
    "GroupNorm": "num_groups, num_channels, eps, affine, device, dtype",
    "LSTM": f"input_size, hidden_size, num_layers, {_OF_RECURRENT}, proj_size",
    "LayerNorm": "normalized_shape, eps, elementwise_affine, bias, device, dtype",
    "Linear": "in_features, out_features, bias, device, dtype",
    "MaxPool1d": "kernel_size, stride, padding, dilation, return_indices, ceil_mode",
    "MaxPool2d": "kernel_size, stride, padding, dilation, return_indices, ceil_mode",
    "MaxPool3d": "kernel_size, stride, padding, dilation, return_indices, ceil_mode",
    "MaxUnpool1d": "kernel_size, stride, padding",
    "MaxUnpool2d": "kernel_size, stride, padding",
    "MaxUnpool3d": "kernel_size, stride, padding",
    "ModuleList": "modules",
    "RMSNorm": "normalized_shape, eps, elementwise_affine, device, dtype",
    "RNN": f"input_size, hidden_size, num_layers, nonlinearity, {_OF_RECURRENT}",
    "Sequential": "",
}
INIT = {
    "constant_": "tensor, val",
    "kaiming_normal_": "tensor, a, mode, nonlinearity, generator",
    "kaiming_uniform_": "tensor, a, mode, nonlinearity, generator",
    "normal_": "tensor, mean, std, generator",
    "ones_": "tensor",
    "orthogonal_": "tensor, gain, generator",
    "uniform_": "tensor, a, b, generator",
    "xavier_normal_": "tensor, gain, generator",
    "xavier_uniform_": "tensor, gain, generator",
    "zeros_": "tensor",
}
OPTIMIZERS = {
    "Adam": "params, lr, betas, eps, weight_decay, amsgrad",
    "AdamW": "params, lr, betas, eps, weight_decay, amsgrad",
    "LBFGS": "params, lr, max_iter, max_eval, tolerance_grad, tolerance_change, history_size, line_search_fn",
    "SGD": "params, lr, momentum, dampening, weight_decay, nesterov",
}
METHODS = {
    "load_state_dict": "state_dict, strict, assign",
    "named_modules": "prefix",
    "train": "mode",
    "requires_grad_": "requires_grad",
}
# Public names that PyTorch has not in this place, or as something else than a class.
OWN = {
    "nn": {*("GATv2", "GCN", "KeyValueCache", "Lambda", "Module", "MultiHeadAttention", "Parameter", "functional", "functional_call")}
    | {*("init", "segment_softmax", "segment_sum")},
    "optim": {*("Lion", "Optimizer", "Run", "Schedule", "clip_grad_norm", "clip_grad_value", "constant_with_warmup", "cosine")}
    | {*("exponential", "linear", "one_cycle", "steps")},
}
TABLES: dict[str, tuple[ModuleType, dict[str, str]]] = {
    "functional": (F, FUNCTIONAL),
    "nn": (nn, LAYERS),
    "init": (nn.init, INIT),
    "optim": (tx.optim, OPTIMIZERS),
}


def positional(function: Any) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name != "self"]


def check_order(name: str, function: Any, theirs: str) -> None:
    """Check that our positional parameters are PyTorch's first ones, without the deprecated ones."""
    wanted = [p for p in theirs.split(", ") if p and p not in DEPRECATED]
    for k, p in enumerate(positional(function)):
        assert k < len(wanted), f"{name}: {p.name} is positional, PyTorch has {wanted}"
        other_names = {p.name, *[other for other, ours in OUR_NAMES_BY_ALIAS.items() if p.name in ours]}
        of_package = k == 0 and (p.kind is p.POSITIONAL_ONLY or p.name == "x") and hasattr(tx, name)  # a function of `tx`, too
        assert wanted[k] in other_names or of_package, f"{name}: argument {k} is {p.name}, PyTorch's {wanted[k]}"


@pytest.mark.parametrize("place", TABLES)
def test_arguments_are_named_and_ordered_as_in_pytorch(place: str) -> None:
    module, table = TABLES[place]
    assert {*module.__all__} == {*table} | OWN.get(place, set())
    for name, theirs in table.items():
        thing = getattr(module, name)
        check_order(name, thing.__init__ if isinstance(thing, type) else thing, theirs)


def test_module_methods_have_the_arguments_of_pytorch() -> None:
    for name, theirs in METHODS.items():
        check_order(name, getattr(nn.Module, name), theirs)


def test_deprecated_positional_arguments_of_losses_raise() -> None:
    """In PyTorch, `size_average=False` means a sum."""
    x, t = tx.zeros((2, 3)), tx.asarray([0, 1])
    losses: list[Callable[[], Any]] = [
        lambda: F.mse_loss(x, x, False),  # type: ignore[arg-type]
        lambda: F.cross_entropy(x, t, None, False),  # type: ignore[misc]
        lambda: F.binary_cross_entropy(x, x, None, False),  # type: ignore[arg-type]
        lambda: F.cross_entropy(x, t, "sum"),  # type: ignore[arg-type]
    ]
    for loss in losses:
        with pytest.raises((TypeError, ValueError)):
            loss()


# The public functions of `torch.nn.functional`, of PyTorch 2.13.
_THEIRS = (
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d affine_grid"
    " alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy binary_cross_entropy_with_logits celu"
    " channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss"
    " cosine_similarity cross_entropy ctc_loss dropout dropout1d dropout2d dropout3d elu embedding embedding_bag fold"
    " fractional_max_pool2d fractional_max_pool3d gaussian_nll_loss gelu glu grid_sample group_norm gumbel_softmax hardshrink hardsigmoid"
    " hardswish hardtanh hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss layer_norm leaky_relu linear"
    " local_response_norm log_softmax logsigmoid lp_pool1d lp_pool2d lp_pool3d margin_ranking_loss max_pool1d max_pool2d max_pool3d"
    " max_unpool1d max_unpool2d max_unpool3d mish mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss"
    " normalize one_hot pad pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss prelu relu relu6 rms_norm rrelu"
    " scaled_dot_product_attention selu sigmoid silu smooth_l1_loss soft_margin_loss softmax softmin softplus softshrink softsign tanh"
    " tanhshrink threshold triplet_margin_loss unfold upsample"
)


def test_functional_exports_package_functions_as_pytorch_does() -> None:
    missing = [name for name in _THEIRS.split() if name in tx.__all__ and name not in F.__all__]
    assert not missing and F.relu is tx.relu and F.softmax is tx.softmax


# --- dtypes -----------------------------------------------------------------------------------------------------------

INPUTS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(4, 3), (2, 4)),
    "Conv1d": (lambda: nn.Conv1d(4, 2, 3), (1, 4, 5)),
    "Conv2d": (lambda: nn.Conv2d(4, 2, 3, bias=False), (1, 4, 5, 5)),
    "RNN": (lambda: nn.RNN(4, 3), (5, 2, 4)),
    "LSTM": (lambda: nn.LSTM(4, 3, 2), (5, 2, 4)),
    "GRU": (lambda: nn.GRU(4, 3, bidirectional=True), (5, 4)),
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention(4, 2), (2, 5, 4)),
    "LayerNorm": (lambda: nn.LayerNorm(4), (2, 4)),
    "RMSNorm": (lambda: nn.RMSNorm(4), (2, 4)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), (2, 4)),
    "BatchNorm1d in use": (lambda: nn.BatchNorm1d(4, affine=False).eval(), (2, 4)),
    "GCN": (lambda: (lambda layer: lambda x: layer(x, tx.asarray([[0], [1]])))(nn.GCN(4, 3)), (2, 4)),
    "GATv2": (lambda: (lambda layer: lambda x: layer(x, tx.asarray([[0], [1]])))(nn.GATv2(4, 3)), (2, 4)),
}


@pytest.mark.parametrize("name", INPUTS)
def test_input_of_another_dtype_than_the_parameters_raises(name: str) -> None:
    """The default dtype of `tenxor.asarray` is float64, and of parameters float32: nothing may become float64 silently."""
    make, shape = INPUTS[name]
    layer, x = make(), np.ones(shape)
    for dtype in (tx.float64, tx.int64):
        with pytest.raises(tx.errors.DTypeError, match=rf"is {dtype} and \w+ float32; .*use \w+\.astype\(tx\.float32\)") as raised:
            layer(tx.asarray(x, dtype=dtype))
        assert ("create the layer with dtype=tx.float64" in str(raised.value)) == (dtype is tx.float64)
    found = layer(tx.asarray(x, dtype=tx.float32))
    assert (found[0] if isinstance(found, tuple) else found).dtype is tx.float32


def test_state_of_another_dtype_than_the_input_raises() -> None:
    x = tx.ones((5, 2, 4), dtype=tx.float32)
    with pytest.raises(tx.errors.DTypeError, match="LSTM: x is float32 and state float64"):
        nn.LSTM(4, 3)(x, (tx.zeros((1, 2, 3)), tx.zeros((1, 2, 3))))
    with pytest.raises(tx.errors.DTypeError, match="cross_entropy: input is float32 and weight float64"):
        F.cross_entropy(x, tx.zeros((5, 4), dtype=tx.int64), tx.ones(2))
    assert nn.Embedding(5, 3)(tx.asarray([1, 2], dtype=tx.int8)).dtype is tx.float32


# --- states -----------------------------------------------------------------------------------------------------------


def test_loading_a_state_returns_the_names_that_do_not_fit() -> None:
    layer = nn.Linear(2, 1)
    found = layer.load_state_dict({"weight": tx.ones((1, 2)), "scale": tx.ones(1)}, strict=False)
    assert found == (["bias"], ["scale"]) and found.missing_keys == ["bias"] and found.unexpected_keys == ["scale"]
    assert layer.weight.tolist() == [[1.0, 1.0]]
    assert layer.load_state_dict(state_dict=layer.state_dict()) == ([], [])


def test_items_of_lists_of_modules_are_named_by_number() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.features = nn.Sequential(nn.Linear(2, 3, bias=False), tx.relu, nn.Sequential(nn.Linear(3, 1)))
            self.heads = nn.ModuleList([nn.Linear(1, 1, bias=False)])

    assert list(Net().state_dict()) == ["features.0.weight", "features.2.0.weight", "features.2.0.bias", "heads.0.weight"]
    net = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Linear(1, 1, bias=False))
    replaced = nn.functional_call(net, {"1.weight": tx.zeros((1, 1), dtype=tx.float32)}, tx.ones(2, dtype=tx.float32))
    assert replaced.tolist() == [0.0]


def test_parts_of_lists_of_modules_have_the_names_of_pytorch() -> None:
    part = nn.Sequential(nn.Linear(2, 2), tx.relu, nn.Linear(2, 1, bias=False))
    assert list(part.state_dict()) == ["0.weight", "0.bias", "2.weight"]
    assert [name for name, _ in nn.ModuleList([part, nn.Linear(1, 1)]).named_modules()] == ["", "0", "0.0", "0.2", "1"]
    part.scale = nn.Parameter([1.0])
    assert [name for name, _ in part.named_parameters()] == ["scale", "0.weight", "0.bias", "2.weight"]


def test_loading_a_state_without_a_fitting_name_warns() -> None:
    layer = nn.Sequential(nn.Linear(2, 1))
    state = {f"module.{name}": t for name, t in layer.state_dict().items()}
    with pytest.warns(UserWarning, match="Sequential: nothing was loaded, .*'module.0.weight'.*'0.weight'"):
        found = layer.load_state_dict(state, strict=False)
    assert len(found.missing_keys) == len(found.unexpected_keys) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nn.Dropout().load_state_dict({}) == nn.Dropout().load_state_dict({}, strict=False) == ([], [])


# --- pooling, padding, layers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [1, 2, 3])
@pytest.mark.parametrize("unbatched", [False, True])
def test_max_unpool_puts_maxima_back_at_their_positions(space: int, unbatched: bool) -> None:
    rng = np.random.default_rng(space)
    x = rng.permutation(3 * 4**space * 2).reshape((2, 3, *[4] * space)).astype(float)
    x = x[0] if unbatched else x
    pool, unpool = getattr(nn, f"MaxPool{space}d")(2, return_indices=True), getattr(nn, f"MaxUnpool{space}d")(2)
    values, indices = pool(tx.asarray(x))
    wanted = np.zeros_like(x)
    for at in np.ndindex(*x.shape):
        block = tuple([slice(None) if a < x.ndim - space else slice(i // 2 * 2, i // 2 * 2 + 2) for a, i in enumerate(at)])
        window = x[tuple([at[a] if a < x.ndim - space else part for a, part in enumerate(block)])]
        wanted[at] = x[at] if x[at] == window.max() else 0.0
    np.testing.assert_array_equal(unpool(values, indices).to_numpy(), wanted)
    gradient = tx.grad(lambda v: (unpool(v, indices) ** 2).sum())(values)
    np.testing.assert_array_equal(gradient.to_numpy(), 2 * values.to_numpy())


def test_max_unpool_checks_output_size_and_indices() -> None:
    values, indices = tx.max_pool2d(tx.arange(25.0).reshape(1, 5, 5), 2, return_indices=True)
    found = F.max_unpool2d(values, indices, 2, output_size=(5, 5))
    assert found.shape == (1, 5, 5) and sorted(found.ravel().tolist())[-4:] == sorted(values.ravel().tolist())
    with pytest.raises(tx.errors.ArgumentError, match=r"output_size \(6, 6\) is not within a stride of the default, \(4, 4\)"):
        F.max_unpool2d(values, indices, 2, output_size=(6, 6))
    with pytest.raises(tx.errors.ShapeError, match=r"input has shape \(1, 2, 2\) and indices \(2, 2\)"):
        F.max_unpool2d(values, indices[0], 2)
    with pytest.raises(tx.errors.IndexOutOfRange, match="max_unpool2d: index 16 is out of range"):
        F.max_unpool2d(values, indices * 0 + 16, 2).realize()
    with pytest.raises(tx.errors.BadIndex, match="indices must be integers, not float64"):
        F.max_unpool2d(values, values, 2)


def test_functional_pad_takes_pairs_from_the_last_axis_on() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    t = tx.asarray(x)
    for ours, theirs in (({}, {}), ({"value": 2.5}, {"constant_values": 2.5})):
        np.testing.assert_array_equal(F.pad(t, (1, 2, 3, 0), **ours).to_numpy(), np.pad(x, ((0, 0), (3, 0), (1, 2)), **theirs))
    for mode, name in (("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        np.testing.assert_array_equal(F.pad(t, (2, 1), mode).to_numpy(), np.pad(x, ((0, 0), (0, 0), (2, 1)), mode=name))
    np.testing.assert_array_equal(F.pad(t, (-1, 2, 0, -2)).to_numpy(), np.pad(x[:, :1, 1:], ((0, 0), (0, 0), (0, 2))))
    for wrong in ((1,), (1,) * 8):
        with pytest.raises(tx.errors.ArgumentError, match="pad has"):
            F.pad(t, wrong)


def test_activations_follow_their_formulas() -> None:
    x = np.linspace(-8.0, 8.0, 41)
    t = tx.asarray(x)
    expected = {
        "relu6": np.clip(x, 0, 6),
        "hardtanh": np.clip(x, -1, 1),
        "softsign": x / (1 + np.abs(x)),
        "softplus": np.log1p(np.exp(x)),
        "logsigmoid": -np.log1p(np.exp(-x)),
        "celu": np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1),
        "tanhshrink": x - np.tanh(x),
        "hardshrink": x * (np.abs(x) > 0.5),
        "softshrink": np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
        "softmin": np.exp(-x) / np.exp(-x).sum(),
    }
    for name, wanted in expected.items():
        np.testing.assert_allclose(getattr(F, name)(t).to_numpy(), wanted, rtol=1e-12, atol=1e-14, err_msg=name)
    np.testing.assert_allclose(F.softplus(t, 2.0, 4.0).to_numpy(), np.where(2 * x > 4, x, np.log1p(np.exp(2 * x)) / 2), rtol=1e-12)
    np.testing.assert_allclose(F.celu(t, 2.0).to_numpy(), np.where(x > 0, x, 2 * (np.exp(np.minimum(x, 0) / 2) - 1)), rtol=1e-12)
    assert F.threshold(t, 1.0, 7.0).tolist() == np.where(x > 1, x, 7).tolist()
    rows = x[:40].reshape(2, 4, 5)
    np.testing.assert_allclose(F.glu(tx.asarray(rows), 1).to_numpy(), rows[:, :2] / (1 + np.exp(-rows[:, 2:])), rtol=1e-12)
    slopes = np.array([0.1, 0.2, 0.3, 0.4])
    found = F.prelu(tx.asarray(rows), tx.asarray(slopes))
    np.testing.assert_allclose(found.to_numpy(), np.where(rows > 0, rows, rows * slopes[:, None]), rtol=1e-12)
    assert F.prelu(t, tx.asarray([0.5])).tolist() == np.where(x > 0, x, x * 0.5).tolist()
    assert F.prelu(t, tx.asarray(0.5)).tolist() == np.where(x > 0, x, x * 0.5).tolist()
    with pytest.raises(tx.errors.ShapeError, match=r"prelu: weight has shape \(3,\) .* must be \(\), \(1,\) or \(4,\)"):
        F.prelu(tx.asarray(rows), tx.ones(3))
    with pytest.raises(tx.errors.ShapeError, match=r"glu: .* must have an even size"):
        F.glu(tx.asarray(rows))
    assert F.gelu(t, "tanh").tolist() == tx.gelu_tanh(t).tolist() and F.gelu(t).tolist() == tx.gelu(t).tolist()


def test_normalisations_without_parameters_follow_their_formulas() -> None:
    x = np.random.default_rng(0).normal(size=(4, 6))
    t = tx.asarray(x)
    wanted = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    for layer in (nn.LayerNorm(6, 1e-5, False), nn.GroupNorm(1, 6, 1e-5, False)):
        assert not list(layer.parameters())
        np.testing.assert_allclose(layer(t).to_numpy(), wanted, rtol=1e-12)
    assert [name for name, _ in nn.LayerNorm(6, 1e-5, True, False).named_parameters()] == ["weight"]
    own = nn.BatchNorm1d(6, 1e-5, 0.1, False, False).eval()
    np.testing.assert_allclose(own(t).to_numpy(), (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), rtol=1e-12)
    assert nn.RMSNorm(6, None, False, dtype=tx.float64).state_dict() == own.state_dict() == {}


@pytest.mark.parametrize(
    ("a", "mode", "nonlinearity"), [(0.0, "fan_in", "leaky_relu"), (5**0.5, "fan_out", "leaky_relu"), (0, "fan_in", "tanh")]
)
def test_kaiming_initialisation_scales_by_the_gain(a: float, mode: str, nonlinearity: str) -> None:
    gain = 5 / 3 if nonlinearity == "tanh" else (2 / (1 + a * a)) ** 0.5
    deviation = gain / (100 if mode == "fan_in" else 400) ** 0.5
    weight = tx.zeros((400, 100))
    nn.init.kaiming_uniform_(weight, a, mode, nonlinearity, tx.random.Generator(0))
    assert 0.999 < weight.max().item() / (3**0.5 * deviation) <= 1.0
    nn.init.kaiming_normal_(weight, a, mode, nonlinearity, tx.random.Generator(0))
    assert abs(weight.std().item() / deviation - 1) < 0.02


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_sgd_dampening_scales_all_velocities_but_the_first(decay: float) -> None:
    x, start = tx.nn.Parameter([1.0, -2.0]), np.array([1.0, -2.0])
    optimizer, velocity = tx.optim.SGD([x], 0.05, 0.9, 0.3, decay), None
    for _ in range(5):
        optimizer.zero_grad()
        (x**4).sum().backward()
        optimizer.step()
        gradient = 4 * start**3 + decay * start
        velocity = gradient if velocity is None else 0.9 * velocity + 0.7 * gradient
        start = start - 0.05 * velocity
    np.testing.assert_allclose(x.to_numpy(), start, rtol=1e-12)
    with pytest.raises(tx.errors.ArgumentError, match=r"dampening is 0\.3 with nesterov"):
        tx.optim.SGD([x], momentum=0.9, dampening=0.3, nesterov=True)
