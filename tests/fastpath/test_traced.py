"""The fast path makes the nodes of traced tensors, and finds the loops of `scan` by their traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.autodiff import scan_iteration
from tenxor.codegen.llvm import launch
from tenxor.fastpath import disabled, recorder
from tenxor.graph.spec import memoized_call
from tenxor.runtime import repeated_plans
from tenxor.tensor.core import TensorBase

pytestmark = pytest.mark.usefixtures("on")
RNG = np.random.default_rng(0)
W, B = (RNG.normal(size=shape) / 4 for shape in ((12, 3), (12,)))
XS, H = RNG.normal(size=(7, 4, 3)), RNG.normal(size=(4, 3))
Step = Callable[[Any, Any], tuple[Any, Any]]


def make_step(weight: Any, bias: Any, factor: float = 0.5, constant: float = 1.0, gate: int = 1) -> Step:
    """Return a step with products, views, elementwise operations, a reduction and a constant tensor."""

    def step(h: Any, x: Any) -> tuple[Any, Any]:
        i, f, g, o = (x @ weight.T + h @ weight.mT + bias).unflatten(-1, (4, -1)).unbind(1)
        h = tx.sigmoid(f) * h + tx.sigmoid(i) * tx.tanh(g) * factor + tx.full((3,), constant, dtype=h.dtype)
        return h * tx.sigmoid(o), (h - h.sum(axis=-1, keepdims=True), (i, f)[gate])

    return step


def loop_in_python(step: Step, h: Any, xs: Any, reverse: bool = False) -> tuple[Any, Any]:
    ys: list[Any] = [None] * xs.shape[0]
    for t in reversed(range(xs.shape[0])) if reverse else range(xs.shape[0]):
        h, ys[t] = step(h, xs[t])
    return (h, tx.stack(ys)) if isinstance(ys[0], tx.Tensor) else (h, tuple(map(tx.stack, zip(*ys, strict=True))))


def record_calls(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[None]:
    """Return a list that gets an item for each call of the function `name` of `owner` from now on."""
    calls: list[None] = []
    original = getattr(owner, name)

    def recorded(*args: Any, **keywords: Any) -> Any:
        calls.append(None)
        return original(*args, **keywords)

    monkeypatch.setattr(owner, name, staticmethod(recorded) if isinstance(owner, type) else recorded)
    return calls


@pytest.mark.parametrize("mode", [tx.no_grad, nullcontext])
def test_scan_step_traced_again_uses_recorded_calls_and_the_kept_loop(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    w, b, xs, h = map(tx.asarray, (W, B, XS, H))
    run = lambda: tx.scan(make_step(w.requires_grad_(), b), h, xs)
    with mode():
        for _ in range(3):
            run()
        with monkeypatch.context() as patch:
            calls = [
                record_calls(patch, TensorBase, "_compute"),
                record_calls(patch, TensorBase, "_compute_uncached"),
                record_calls(patch, recorder, "_build_call_key"),
                record_calls(patch, scan_iteration.ScanBody, "of"),
                record_calls(patch, repeated_plans, "BufferWindow"),
                record_calls(patch, launch, "_PackedArguments"),
            ]
            last, ys = run()
    assert calls == [[]] * 6
    with disabled():
        expected_last, expected_ys = loop_in_python(make_step(w, b), h, xs)
    np.testing.assert_allclose(last.detach().to_numpy(), expected_last.detach().to_numpy(), rtol=1e-12)
    for y, expected_y in zip(ys, expected_ys, strict=True):
        np.testing.assert_allclose(y.detach().to_numpy(), expected_y.detach().to_numpy(), rtol=1e-12)


VARIANTS: dict[str, dict[str, Any]] = {
    "the same": {},
    "another weight": {"weight": -W},
    "a transposed weight": {"weight": np.ascontiguousarray(W.T).T},
    "another number": {"factor": 0.25},
    "another constant": {"constant": 2.0},
    "fewer steps": {"xs": XS[:5]},
    "later steps": {"xs": np.concatenate([XS, -XS]), "part": slice(3, 10)},
    "every second step": {"xs": np.concatenate([XS, -XS]), "part": slice(None, None, 2)},
    "another part as result": {"gate": 0},
    "single precision": {name: a.astype(np.float32) for name, a in (("weight", W), ("bias", B), ("xs", XS), ("h", H))},
    "backwards": {"reverse": True},
    "a sequence on the tape": {"follows": ("xs",)},
    "a state on the tape": {"follows": ("h",)},
    "a captured value on the tape": {"follows": ("bias",)},
    "all on the tape": {"follows": ("weight", "bias", "xs", "h")},
}


def compute_variant(
    loop: Any, weight: Any = W, bias: Any = B, xs: Any = XS, h: Any = H, part: Any = slice(None), follows: Sequence[str] = (), **more: Any
) -> list[tx.Tensor]:
    """Return the results of a loop over `xs[part]`, and the gradients by the arguments in `follows`."""
    arguments = {name: tx.asarray(a) for name, a in (("weight", weight), ("bias", bias), ("xs", xs), ("h", h))}
    arguments["xs"] = arguments["xs"][part]
    options = {"reverse": more.pop("reverse")} if "reverse" in more else {}

    def run(followed: dict[str, Any]) -> Any:
        given = arguments | followed
        return loop(make_step(given["weight"], given["bias"], **more), given["h"], given["xs"], **options)

    last, ys = run({})
    if not follows:
        return [last, *ys]

    def loss(followed: dict[str, Any]) -> Any:
        last, ys = run(followed)
        return sum([(t * t).sum() for t in (last, *ys)])

    gradients = tx.grad(loss)({name: arguments[name] for name in follows})
    return [last, *ys, *[gradients[name] for name in follows]]


@pytest.mark.parametrize("variant", VARIANTS)
def test_kept_scan_loop_is_not_reused_for_a_different_scan(variant: str) -> None:
    for arguments in ({}, VARIANTS[variant], {}, VARIANTS[variant], VARIANTS["all on the tape"], VARIANTS[variant]):
        found = compute_variant(tx.scan, **dict(arguments))
        with disabled():
            expected = compute_variant(loop_in_python, **dict(arguments))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=1e-4 if a.dtype is tx.float32 else 1e-11, atol=1e-5)


@memoized_call
def multiply_by_constant(x: Any) -> Any:
    """Return the square of `x`; its derivative is that of a product with a constant."""
    return x * (x * 1.0).detach()


@pytest.mark.parametrize("is_recorded_first", [False, True])
def test_replayed_calls_of_traced_tensors_keep_constants(is_recorded_first: bool) -> None:
    def step(h: Any, x: Any) -> tuple[Any, Any]:
        with tx.no_grad():
            scale = (h @ h.mT).max() + 1.0
        h = (h @ x.mT) @ x / scale + multiply_by_constant(h) + multiply_by_constant(x) + h * h.mean(axis=0, keepdims=True)
        return h, tx.softmax(h, axis=-1)

    def loss(loop: Any) -> Callable[[Any, Any], Any]:
        return lambda h, xs: sum([(t * t).sum() for t in loop(step, h, xs)])

    h, xs = tx.asarray(H / 4), tx.asarray(XS / 4)
    by_element = tx.vmap(tx.grad(lambda x: (step(h, x)[0] ** 2).sum()))
    if is_recorded_first:
        tx.grad(loss(tx.scan))(h, xs), by_element(xs)
    for _ in range(3):
        with tx.no_grad():
            tx.scan(step, h, xs)
        tx.vmap(lambda x: step(h, x))(xs)
    found = *tx.grad(loss(tx.scan), argnums=(0, 1))(h, xs), by_element(xs)
    with disabled():
        expected = *tx.grad(loss(loop_in_python), argnums=(0, 1))(h, xs), by_element(xs)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=1e-10)


def test_function_traced_again_by_vmap_uses_recorded_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    w, xs = map(tx.asarray, (W.T, XS[0]))
    run = lambda: tx.vmap(lambda x: tx.tanh(x @ w).sum() * 2.0 + x[1:])(xs)
    for _ in range(3):
        run()
    with monkeypatch.context() as patch:
        calls = [record_calls(patch, TensorBase, "_compute"), record_calls(patch, recorder, "_build_call_key")]
        found = run()
    assert calls == [[], []]
    np.testing.assert_allclose(found.to_numpy(), np.tanh(XS[0] @ W.T).sum(axis=1)[:, None] * 2.0 + XS[0][:, 1:], rtol=1e-12)


def test_reading_values_of_traced_tensors_raises_in_scan_and_vmap() -> None:
    def step(h: Any, x: Any) -> tuple[Any, Any]:
        y = h * x + 1.0
        for read in (lambda: float(y.sum()), lambda: y.tolist(), lambda: bool((y > 0).all()), lambda: np.asarray(y)):
            with pytest.raises(tx.errors.TraceError):
                read()
        return y, y

    h, xs = tx.ones((2,)), tx.ones((3, 2))
    for _ in range(3):
        assert tx.scan(step, h, xs)[0].tolist() == [4.0, 4.0]
        assert tx.vmap(lambda x: step(h, x)[1])(xs).tolist() == [[2.0, 2.0]] * 3


def test_scan_may_run_the_same_loop_inside_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from a signal handler, between two parts of the loop."""
    run = lambda x: tx.scan(lambda s, x: (s * 0.5 + x, s * 2.0), tx.zeros(3) + x, tx.ones((9, 3)) * x)
    expected = {x: [t.tolist() for t in run(x)] for x in (1.0, 7.0)}
    results: list[Any] = []

    class Interrupting:
        def __enter__(self) -> None:
            if not results:
                results.append(None)
                results[0] = [t.tolist() for t in run(7.0)]

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(launch, "nullcontext", Interrupting)
    assert [t.tolist() for t in run(1.0)] == expected[1.0]
    assert results == [expected[7.0]]
