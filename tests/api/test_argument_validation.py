"""Arguments of a wrong kind: the error names the argument and the required kind."""

from __future__ import annotations

import inspect
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.api.argument_validation import check_argument, explain_errors, validate_arguments
from tenxor.errors import ArgumentError, TenxorError
from tests.fuzz.calls import array
from tests.fuzz.numpy_calls import POSITIONAL

nn, optim = tx.nn, tx.optim
ONES = tx.ones((2, 4), dtype=tx.float32)
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a size": (lambda: nn.Linear("four", 3), "Linear: in_features must be a whole number, not 'four' of type str"),
    "a rate": (lambda: nn.Dropout("half"), "Dropout: p must be a real number, not 'half' of type str"),
    "a generator": (lambda: nn.Linear(4, 3, generator=7), "Linear: generator must be a tx.random.Generator or None, not 7 of type int"),
    "one of several": (lambda: nn.Sequential(tx.relu, 3), "Sequential: layers must be a function, not 3 of type int"),
    "one in a list": (lambda: nn.ModuleList([nn.Flatten(), 3]), "ModuleList: module 1 must be a module, not 3 of type int"),
    "what a module takes": (lambda: nn.Linear(4, 3)([1.0] * 4), r"linear: input must be a tensor (tx.asarray makes one), not [1.0, 1.0"),
    "another one": (lambda: nn.LayerNorm(4)(None), "layer_norm: input must be a tensor"),
    "what is flat": (lambda: nn.Linear(4, 3)(tx.ones(())), "linear: input has shape ()"),
    "a state": (lambda: nn.LSTM(4, 2)(ONES, 3), "LSTM: hx must be two tensors, not 3 of type int"),
    "a state's size": (lambda: nn.GRU(4, 2)(ONES, ONES), "GRU: a state has shape (2, 4); it must be (1, 2)"),
    "a state by name": (lambda: nn.Linear(4, 3).load_state_dict([1]), "load_state_dict: state_dict must be a dict, not [1] of type list"),
    "a part": (lambda: nn.Sequential(tx.relu)[1], "Sequential: there is no module 1; there are 1"),
    "parameters": (lambda: optim.SGD(0.1), "SGD: params must be a list or another iterable, not 0.1 of type float"),
    "a learning rate": (lambda: optim.SGD([nn.Parameter(ONES)], lr="fast"), "SGD: lr must be a real number, not 'fast' of type str"),
    "a group's": (
        lambda: optim.Adam([{"params": [nn.Parameter(ONES)], "betas": 0.9}]),
        "Adam: betas must be two real numbers, not 0.9 of type float",
    ),
    "betas": (lambda: optim.AdamW([nn.Parameter(ONES)], betas=(1, 0)), "AdamW: betas are (1, 0); each must be 0 or more, and below 1"),
    "an edge": (lambda: ONES.to_string(edge="two"), "to_string: edge must be a whole number of 0 or more, not 'two'"),
    "a width": (lambda: ONES.to_string(width=-1), "to_string: width must be a whole number of 0 or more, not -1"),
    "what is loaded": (
        lambda: optim.SGD([nn.Parameter(ONES)]).load_state_dict({"steps": 1}),
        "load_state_dict: there is no 'groups' in {'steps': 1} of type dict; give a result of state_dict()",
    ),
    "an optimiser": (lambda: optim.cosine(0.1, 10), "cosine: optimizer must be an optimiser, not 0.1 of type float"),
    "a count": (
        lambda: optim.constant_with_warmup(optim.SGD([nn.Parameter(ONES)]), -1),
        "constant_with_warmup: warmup must be a whole number of 0 or more, not -1 of type int",
    ),
    "a batch": (lambda: tx.data.Batches(tx.data.Dataset(ONES), 0), "Batches: size must be a whole number of 1 or more, not 0 of type int"),
    "a path": (lambda: tx.files.load(3), "load: path must be a path, not 3 of type int"),
    "axes": (lambda: tx.vmap(tx.exp, 0.5), "vmap: in_axes must be a whole number or None or a list or a tuple, not 0.5 of type float"),
    "a pair": (
        lambda: tx.grad(lambda x: 3, has_aux=True)(ONES),
        "grad: the function gave 3 of type int; with has_aux it must return a pair",
    ),
    "a plain number": (
        lambda: tx.grad(lambda x: float(x.sum()))(ONES),
        f"grad: the function gave {float(ONES.sum())} of type float; it must return a tensor; not what float(), .item()",
    ),
    "no result": (
        lambda: tx.grad(lambda x: None)(ONES),
        "grad: the function gave None of type NoneType; it must return a tensor; not what",
    ),
    "two results": (
        lambda: tx.grad(lambda x: (x.sum(), 3))(ONES),
        "grad: the function gave (Tensor(8., float32), 3) of type tuple; it must return a tensor; with has_aux=True it may return a pair",
    ),
    "a word": (lambda: tx.searchsorted([1, 2], [1], side=np.array(["left"])), "searchsorted: side must be 'left' or 'right'"),
    "parts": (lambda: tx.array_split(tx.arange(3), 2**62), "array_split: 4611686018427387904 parts of an axis of size 3 are nearly"),
}


@pytest.mark.parametrize("made, told", WRONG.values(), ids=WRONG.keys())
def test_invalid_argument_is_named_in_the_error(made: Callable[[], Any], told: str) -> None:
    with pytest.raises(TenxorError) as caught:
        made()
    assert str(caught.value).startswith(told), caught.value


def test_rejected_state_leaves_the_optimizer_unchanged() -> None:
    """`load_state_dict` checks the whole state before it changes anything."""
    parameters = [nn.Parameter(ONES), nn.Parameter(ONES)]
    optimizer = optim.Adam(parameters)
    for t in parameters:
        t.grad = ONES
    optimizer.step()
    before, changed_state = optimizer.state_dict(), optimizer.state_dict()
    changed_state["groups"] = [{**changed_state["groups"][0], "lr": "fast"}]
    changed_state["steps"] = 9
    with pytest.raises(ArgumentError, match="lr must be a real number"):
        optimizer.load_state_dict(changed_state)
    after = optimizer.state_dict()
    assert (after["steps"], after["groups"]) == (before["steps"], before["groups"])
    assert [x.tolist() for x in after["state"][1].values()] == [x.tolist() for x in before["state"][1].values()]


def test_numeric_arguments_accept_numpy_and_tensor_scalars() -> None:
    for size in (3, np.int64(3), np.array(3), tx.asarray(3)):
        assert nn.Linear(size, 2).weight.shape == (2, 3)
        assert nn.LayerNorm(size).weight.shape == nn.RMSNorm([size]).weight.shape == (3,)
        assert nn.Conv2d(1, 1, size).weight.shape == (1, 1, 3, 3)
    for rate in (1, np.float32(1), tx.asarray(1.0), float("inf")):
        check_argument("op", "rate", rate, "float")
    for invalid in (1j, float("nan"), "1", b"1", np.array([1.0]), None, 10**400):
        with pytest.raises(ArgumentError, match="op: rate must be a real number, not "):
            check_argument("op", "rate", invalid, "float")


def test_argument_validation_leaves_errors_of_valid_calls_unchanged() -> None:
    """Errors raised for valid arguments pass unchanged, Tenxor's errors included."""

    @explain_errors
    def fails(x: int, error: Any) -> None:
        raise error

    for error in (ValueError("mine"), KeyError("mine"), ArgumentError("ours")):
        with pytest.raises(type(error)) as caught:
            fails(1, error)
        assert caught.value is error
    with pytest.raises(ArgumentError, match="fails: x must be a whole number, not 'a' of type str"):
        fails("a", ValueError())  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        fails("a", KeyboardInterrupt())  # type: ignore[arg-type]
    layer = nn.Lambda(lambda x: {}[x])
    with pytest.raises(KeyError):
        layer("a")


def test_save_npz_does_not_validate_a_tensor_named_like_an_argument(tmp_path: Path) -> None:
    tx.files.save_npz(str(tmp_path / "x.npz"), path=tx.arange(2))
    assert tx.files.load_npz(str(tmp_path / "x.npz"))["path"].tolist() == [0, 1]


def test_validated_functions_keep_their_signature_and_name() -> None:
    """Signature, name and docstring are those of the wrapped function, and a module can be pickled."""

    @validate_arguments
    def own(x: int, *rest: int, y: float = 1.0) -> tuple[int, ...]:
        """Own."""
        return (x, *rest)

    assert own(1, 2, 3, y=2) == (1, 2, 3) and own.__name__ == "own" and own.__doc__ == "Own."
    assert list(inspect.signature(nn.Linear).parameters) == ["in_features", "out_features", "bias", "dtype", "generator"]
    with pytest.raises(ArgumentError, match="own: rest must be a whole number"):
        own(1, 2, "3")  # type: ignore[arg-type]
    layer = nn.Linear(4, 3)
    assert pickle.loads(pickle.dumps(layer))(ONES).tolist() == layer(ONES).tolist()


IMAGE = tx.ones((1, 1, 4, 4))
FLAGS: dict[str, tuple[Callable[[Any], Any], str]] = {  # a call with a flag -> the beginning of its error for the flag 2
    **{
        f"{flag} of {name}": (lambda value, name=name, flag=flag: _call_with_flag(name, flag, value), getattr(tx, name).__name__)
        for name in sorted(POSITIONAL)
        for flag, parameter in inspect.signature(getattr(tx, name)).parameters.items()
        if str(parameter.annotation) in ("bool", "bool | None") and parameter.kind is not parameter.POSITIONAL_ONLY and flag != "keepdim"
    },
    "is_causal": (lambda value: tx.scaled_dot_product_attention(*[IMAGE] * 3, is_causal=value), "scaled_dot_product_attention"),
    "enable_gqa": (lambda value: tx.scaled_dot_product_attention(*[IMAGE] * 3, enable_gqa=value), "scaled_dot_product_attention"),
    "return_indices": (lambda value: tx.max_pool2d(IMAGE, 2, return_indices=value), "max_pool2d"),
    "ceil_mode": (lambda value: tx.max_pool2d(IMAGE, 2, ceil_mode=value), "max_pool2d"),
    "count_include_pad": (lambda value: tx.avg_pool2d(IMAGE, 2, count_include_pad=value), "avg_pool2d"),
    "align_corners": (lambda value: tx.interpolate(IMAGE, (2, 2), mode="bilinear", align_corners=value), "interpolate"),
    "largest": (lambda value: tx.topk(ONES, 1, largest=value), "topk"),
    "sorted": (lambda value: tx.topk(ONES, 1, sorted=value), "topk"),
    "include_self": (lambda value: tx.scatter_reduce(tx.ones(3), 0, [0], tx.ones(1), "sum", include_self=value), "scatter_reduce"),
    "reverse": (lambda value: tx.scan(lambda s, x: (s + x, s), tx.asarray(0.0), tx.ones(3), reverse=value), "scan"),
    "keepdims of a method": (lambda value: ONES.sum(keepdims=value), "sum"),
    "copy of a method": (lambda value: ONES.astype(tx.float32, copy=value), "astype"),
    "keepdims of a norm": (lambda value: tx.linalg.norm(ONES, keepdims=value), "norm"),
    "hermitian": (lambda value: tx.linalg.matrix_rank(tx.eye(2), hermitian=value), "matrix_rank"),
    "unitriangular": (lambda value: tx.linalg.solve_triangular(tx.eye(2), tx.eye(2), upper=True, unitriangular=value), "solve_triangular"),
    "training": (lambda value: nn.functional.dropout(ONES, training=value), "dropout"),
    "log_target": (lambda value: nn.functional.kl_div(ONES, ONES, log_target=value), "kl_div"),
    "endpoint of a draw": (lambda value: tx.random.integers(3, endpoint=value), "integers"),
    "has_aux": (lambda value: tx.grad(lambda x: (x.sum(), 3) if value else x.sum(), has_aux=value)(ONES), "grad"),
    "create_graph": (lambda value: (ONES.copy().requires_grad_() ** 3).sum().backward(create_graph=value), "backward"),
    "a layer's": (lambda value: nn.Linear(2, 3, bias=value), "Linear"),
}


def _call_with_flag(name: str, flag: str, value: Any) -> Any:
    """Call the function with arguments by position with which it takes True for the flag."""
    for seed in range(200):
        rng, drawn = random.Random(seed), list[Any]()
        for draw in POSITIONAL[name]:
            drawn.append(draw(rng, drawn) if len(inspect.signature(draw).parameters) == 2 and draw is not array else draw(rng))
        arguments = [tx.asarray(x) if isinstance(x, np.ndarray) else x for x in drawn]
        try:
            getattr(tx, name)(*arguments, **{flag: True})
        except TenxorError:
            continue
        return getattr(tx, name)(*arguments, **{flag: value})
    raise AssertionError(f"{name} takes none of the arguments")


@pytest.mark.parametrize("subject", FLAGS)
def test_flags_accept_bools_and_the_integers_0_and_1_only(subject: str) -> None:
    """NumPy's users also write the integers 0 and 1."""
    call, op = FLAGS[subject]
    for flag in (True, False, np.True_, np.False_, 1, 0, np.int64(1)):
        call(flag)
    for value in (2, -1, 1.0, "yes", np.array([True, False])):
        with pytest.raises(ArgumentError, match=rf"^{op}: '?\w+'? (is|must be) .*True or False"):
            call(value)
