"""Test arguments by the names of other libraries: they mean the same everywhere, and giving both names is an error."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor._utils.aliases import OUR_NAMES_BY_ALIAS, argument_aliases
from tenxor.errors import ArgumentError, AxisError, TenxorError, UnknownArgument

X = np.arange(1.0, 25.0).reshape(2, 3, 4)
t = tx.asarray(X)
OURS = {"axis": {"dim", "dims"}, "axes": {"dim", "dims"}, "keepdims": {"keepdim"}, "correction": {"ddof"}}
# Functions that take one of our names and no alternative for it, and why.
WITHOUT_ALTERNATIVE = {
    **dict.fromkeys(("tx.transpose",), "PyTorch's transpose swaps two axes: swapaxes"),
    **dict.fromkeys(("tx.windows", "x.windows", "x.unfold", "tx.unflatten", "x.unflatten"), "an axis is never left out, so it comes first"),
    "x.take_view": "no other library has it",
}
# Each function with arguments by our names, and by alternative names.
EQUAL_CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "sum": (tx.sum, {"axis": (0, 2), "keepdims": True}, {"dim": (0, 2), "keepdim": True}),
    "var": (tx.var, {"axis": 1, "correction": 1}, {"dim": 1, "ddof": 1}),
    "std": (tx.std, {"correction": 2}, {"ddof": 2}),
    "softmax": (tx.softmax, {"axis": 0}, {"dim": 0}),
    "concat": (lambda x, **named: tx.concat([x, x], **named), {"axis": 1}, {"dim": 1}),
    "stack": (lambda x, **named: tx.stack([x, x], **named), {"axis": 3}, {"dim": 3}),
    "roll": (lambda x, **named: tx.roll(x, 1, **named), {"axis": 1}, {"dims": 1}),
    "flip": (tx.flip, {"axis": (0, 1)}, {"dims": (0, 1)}),
    "expand_dims": (tx.expand_dims, {"axis": 1}, {"dim": 1}),
    "flatten": (tx.flatten, {"start": 1, "end": 2}, {"start_dim": 1, "end_dim": 2}),
    "diagonal": (tx.diagonal, {"axis1": 0, "axis2": 2}, {"dim1": 0, "dim2": 2}),
    "permute": (tx.permute, {"axes": (2, 0, 1)}, {"dims": (2, 0, 1)}),
    "tensordot": (lambda x, **named: tx.tensordot(x, x.T, **named), {"axes": 1}, {"dims": 1}),
    "quantile": (lambda x, **named: tx.quantile(x, 0.3, **named), {"axis": 1, "method": "lower"}, {"dim": 1, "interpolation": "lower"}),
    "norm": (tx.linalg.vector_norm, {"axis": 1, "keepdims": True}, {"dim": 1, "keepdim": True}),
    "fft2": (tx.fft.fft2, {"axes": (0, 1)}, {"dim": (0, 1)}),
    "reduce": (lambda x, **named: tx.reduce(lambda a, b: a + b, x, **named), {"axis": 1, "keepdims": True}, {"dim": 1, "keepdim": True}),
    "x.mean": (tx.Tensor.mean, {"axis": 1, "keepdims": True}, {"dim": 1, "keepdim": True}),
    "x.var": (tx.Tensor.var, {"correction": 1}, {"ddof": 1}),
    "x.argsort": (tx.Tensor.argsort, {"axis": 0}, {"dim": 0}),
    "x.index_add": (lambda x, **named: x.index_add(index=[0], source=tx.ones((2, 1, 4)), **named), {"axis": 1}, {"dim": 1}),
}


def elements(result: Any) -> Any:
    return result.to_numpy() if isinstance(result, tx.Tensor) else [tensor.to_numpy() for tensor in result]


@pytest.mark.parametrize("name", EQUAL_CALLS)
def test_alternative_argument_name_gives_the_same_result(name: str) -> None:
    function, ours, alternative = EQUAL_CALLS[name]
    expected = elements(function(t, **ours))
    for _ in range(3):  # also when it is called again
        np.testing.assert_array_equal(elements(function(t, **alternative)), expected)


@pytest.mark.parametrize("name", EQUAL_CALLS)
def test_two_names_of_one_argument_are_an_error(name: str) -> None:
    function, ours, alternative = EQUAL_CALLS[name]
    first, second = next(iter(ours)), next(iter(alternative))
    for _ in range(2):
        with pytest.raises(ArgumentError, match=rf"{first} and {second} are two names of one argument; give only {first}"):
            function(t, **{**alternative, first: ours[first]})


def test_positional_argument_and_its_alternative_name_are_an_error() -> None:
    for call in (lambda: tx.sum(t, 0, dim=1), lambda: t.sum(0, dim=1), lambda: tx.concat([t, t], 0, dim=1), lambda: t.var(0, 1, ddof=1)):
        with pytest.raises(ArgumentError, match="two names of one argument"):
            call()


def test_none_under_an_alternative_argument_name_counts_as_not_given() -> None:
    assert tx.sum(t, dim=None).item() == X.sum() and t.sum(axis=0, dim=None).shape == (3, 4)
    assert tx.softmax(t, dim=None).tolist() == tx.softmax(t).tolist()
    x, y = X[..., :3], X[..., :3][::-1] + 1.0  # the last axis is that of the vectors, also where the first has 3 elements
    assert tx.cross(tx.asarray(x), tx.asarray(y), dim=None).tolist() == np.cross(x, y).tolist()
    with pytest.raises(AxisError, match="cross: an axis must be an integer, not None"):
        tx.cross(tx.asarray(x), tx.asarray(y), axis=None)  # type: ignore[arg-type]


def test_ranges_take_end_and_steps() -> None:
    assert tx.arange(2, end=5).tolist() == [2, 3, 4] and tx.linspace(0, 1, steps=3).tolist() == [0, 0.5, 1]
    assert tx.logspace(0, 2, steps=3).tolist() == [1, 10, 100]
    with pytest.raises(ArgumentError, match="stop and end are two names of one argument"):
        tx.arange(2, 4, end=5)
    with pytest.raises(ArgumentError, match=r"transpose: takes all axes in their order.*swapaxes\(x, 0, 1\)"):
        tx.transpose(t, 0, 1)


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "a misspelt argument": (lambda: tx.sum(t, axes=0), "sum: there is no argument 'axes'; did you mean axis?"),
    "a misspelt alternative name": (lambda: t.sum(keep_dim=True), "sum: there is no argument 'keep_dim'; did you mean keepdims?"),
    "a misspelt argument of concat": (lambda: tx.concat([t], axes=0), "concat: there is no argument 'axes'; did you mean axis?"),
    "positional by name": (lambda: tx.take(t, indices=[0]), "take: there is no argument 'indices'; indices is given by its place alone"),
    "PyTorch's first": (lambda: tx.sum(input=t), "sum: there is no argument 'input'; use its place: it comes first"),
    "PyTorch's correction": (lambda: t.var(unbiased=True), "no argument 'unbiased'; use correction=1 for unbiased=True, and correction=0"),
    "PyTorch's derivatives": (lambda: tx.ones(3, requires_grad=True), "ones: there is no argument 'requires_grad'; use x.requires_grad_()"),
    "an unknown argument of a method": (lambda: t.squeeze(what=0), "squeeze: there is no argument 'what'; there are axis"),
    "an unknown argument": (lambda: tx.flip(t, what=0), "flip: there is no argument 'what'; there are axis"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_unknown_argument_name_raises_an_error_with_advice(name: str) -> None:
    call, message = ERRORS[name]
    with pytest.raises(UnknownArgument) as raised:
        call()
    assert message in str(raised.value) and "self" not in str(raised.value) and isinstance(raised.value, (TenxorError, TypeError))


def test_errors_inside_the_function_are_unchanged() -> None:
    def twice(x: Any, /, axis: int = 0, *, dim: int | None = None) -> Any:
        return x + axis

    with pytest.raises(TypeError, match="can only concatenate str"):
        argument_aliases(twice)("x", dim=1)
    with pytest.raises(TypeError, match=r"twice\(\) missing 1 required positional argument: 'x'"):
        argument_aliases(twice)(dim=1)


def public_signatures() -> list[tuple[str, inspect.Signature]]:
    """Return the signatures of public functions and of the methods of a tensor."""
    modules = {"tx": tx, "tx.linalg": tx.linalg, "tx.fft": tx.fft}
    functions = [(f"{prefix}.{name}", getattr(module, name)) for prefix, module in modules.items() for name in module.__all__]
    functions += [(f"x.{name}", inspect.getattr_static(tx.Tensor, name)) for name in dir(tx.Tensor) if not name.startswith("_")]
    return [(name, inspect.signature(f)) for name, f in functions if callable(f) and not isinstance(f, type)]


@pytest.mark.parametrize(("name", "signature"), [(name, s) for name, s in public_signatures() if {*OURS} & s.parameters.keys()])
def test_every_function_with_a_renamed_argument_takes_the_alternative_name(name: str, signature: inspect.Signature) -> None:
    by_name = {p.name for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY)}
    for ours in OURS.keys() & by_name:
        assert bool(OURS[ours] & by_name) == (name not in WITHOUT_ALTERNATIVE), (name, ours)


@pytest.mark.parametrize(
    ("name", "signature"), [(name, s) for name, s in public_signatures() if {*OUR_NAMES_BY_ALIAS} & s.parameters.keys()]
)
def test_every_alternative_name_stands_for_an_argument_of_the_function(name: str, signature: inspect.Signature) -> None:
    for alternative in OUR_NAMES_BY_ALIAS.keys() & signature.parameters.keys():
        parameter = signature.parameters[alternative]
        if parameter.kind is parameter.KEYWORD_ONLY:
            assert any(ours in signature.parameters for ours in OUR_NAMES_BY_ALIAS[alternative]), (name, alternative)
            assert parameter.default is None


def test_fast_path_replays_calls_with_alternative_names() -> None:
    """A recorded call is replayed without the Python function, whatever the names of its arguments."""
    fastpath.start()
    assert fastpath.state == "on" and fastpath.fast_path is not None
    x = tx.asarray(X).realize()
    replay = fastpath.fast_path.call_replay.replay
    name = "tenxor.api.reduction_functions.sum"
    assert replay(name, (x,), {"dim": 1, "keepdim": True}) is None or tx.sum(x, dim=1, keepdim=True).shape == (2, 1, 4)
    tx.sum(x, dim=1, keepdim=True)
    replayed = replay(name, (x,), {"dim": 1, "keepdim": True})
    np.testing.assert_array_equal(replayed.to_numpy(), X.sum(axis=1, keepdims=True))
    assert replay(name, (x,), {f"a{k}": k for k in range(20)}) is None  # more than it looks at
    assert replay(name, (x,), {"keepdim": True, "dim": 1}) is None  # in another order it is learnt anew
