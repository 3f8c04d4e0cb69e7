"""Repeated calls of functions give the values, gradients and errors of the first call."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.errors import IndexOutOfRange, TenxorError
from tenxor.fastpath import recorder, self_test
from tenxor.fastpath.recorder import MAX_FLOAT_CALLS
from tenxor.graph import spec as module
from tenxor.graph.spec import clear_templates

from .calls import FUNCTIONS, Call, calls_of_functions, functions, operands, pending_operands

pytestmark = pytest.mark.usefixtures("on")
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool", "complex64")


def outcome_of(call: Call, its: dict[str, Any]) -> str:
    """Return the result of a call, or its error."""
    try:
        found = call(its)
        return f"{found.shape} {found.dtype} {found.tolist()}"
    except (TenxorError, TypeError, ValueError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_recorded_functions_match_python_values_and_errors(dtype: str) -> None:
    """Each round has new tensors like those of the recorded calls, and each call new pending ones."""

    def outcomes() -> list[str]:
        its = operands(dtype)
        return [outcome_of(call, its | pending_operands(its)) for _, call in calls_of_functions()]

    with fastpath.disabled():
        wanted = outcomes()
    rounds = [outcomes() for _ in range(3)]
    for (name, _), *found in zip(calls_of_functions(), wanted, *rounds, strict=True):
        assert len(set(found)) == 1, name


def test_every_function_has_a_tested_call() -> None:
    assert set(FUNCTIONS) <= set(functions())
    assert len(functions()) > 45


@pytest.fixture
def calls_left_to_python(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of functions whose calls are left to Python."""
    found = list[str]()
    assert fastpath.fast_path is not None
    caller = fastpath.fast_path.call_replay

    def learning(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        found.append(name.rpartition(".")[2])
        return caller.record_result(name, own)

    monkeypatch.setattr(fastpath.fast_path, "call_replay", caller._replace(record_result=learning))
    return found


def test_repeated_calls_run_no_python(calls_left_to_python: list[str]) -> None:
    clear_templates()
    x, y, w = (tx.asarray(np.random.default_rng(k).normal(size=(4, 6))).realize() for k in range(3))
    functional, classes = tx.nn.functional, tx.asarray([1, 2, 3, 0])
    image, kernel = tx.ones((1, 2, 8, 8)).realize(), tx.ones((3, 2, 3, 3)).realize()

    def program() -> None:
        tx.softmax(x), tx.log_softmax(x, axis=0), tx.logsumexp(x), tx.matmul(x, y.T), tx.einsum("ij,kj->ik", x, y), tx.clip(x, 0.5, 2.5)
        tx.linalg.outer(x[0], y[1]), tx.triu(x), tx.pad(x, 1), tx.tile(x, 2), tx.repeat(x, 2, axis=0), tx.take(x, classes, axis=0)
        tx.pad(x, ((1, 0), (0, 2))), tx.diff(x), tx.isclose(x, y), tx.linalg.vector_norm(x), functional.layer_norm(x, (6,), w[0], w[1])
        functional.cross_entropy(x, classes)
        functional.mse_loss(x, y), tx.conv2d(image, kernel), tx.max_pool2d(image, 2), tx.avg_pool2d(image, 2)
        tx.scaled_dot_product_attention(x, y, w), tx.einsum("ij,ij->", x, x), functional.leaky_relu(x, 0.1)
        tx.sort(x), tx.topk(x, 2), tx.median(x, axis=1), tx.quantile(x, 0.3), tx.histogram(x, 5), tx.cummax(x)

    program()
    assert len(calls_left_to_python) > 20
    calls_left_to_python.clear()
    program()
    assert not calls_left_to_python


def test_calls_with_different_nested_tuples_are_distinguished() -> None:
    x = tx.asarray([[1.0, 2.0], [3.0, 4.0]]).realize()
    for _ in range(4):
        assert tx.pad(x, ((1, 0), (0, 1))).tolist() == [[0.0, 0.0, 0.0], [1.0, 2.0, 0.0], [3.0, 4.0, 0.0]]
        assert tx.pad(x, ((0, 1), (0, 1))).shape == (3, 3) and tx.pad(x, ((0, 1),)).shape == (3, 3)
        assert tx.pad(x, ((0, 1), (1, 0)))[2, 0].item() == 0.0 and tx.pad(x, (0, 1)).shape == (3, 3)
        for widths in (((1, 0), (0, 1.5)), ((((1, 0),),),), ((-1, 0), (0, 1))):
            with pytest.raises((TenxorError, TypeError)):
                tx.pad(x, widths)
    assert recorder.build_key(((1, 2), (3, (4,)))) == ((1, 2), (3, (4,)))
    assert (
        recorder.build_key(((1, True), 2)) is None
        and recorder.build_key(((((1,),),),)) == ((((1,),),),)
        and recorder.build_key((((((1,),),),),)) is None
    )


def test_gradients_of_recorded_calls_match_python() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(4, 6)) for _ in range(3)]

    def loss(x: tx.Tensor, y: tx.Tensor, w: tx.Tensor) -> tx.Tensor:
        z = tx.softmax(tx.clip(x, -0.5, 1.5) @ y.T) @ tx.pad(w, ((0, 0), (1, 0)))[:, :-1]
        z = tx.nn.functional.layer_norm(z, (6,), w[0], y[0]) + tx.scaled_dot_product_attention(x, y, w)
        return tx.nn.functional.cross_entropy(z, tx.asarray([0, 1, 5, 2])) + tx.nn.functional.mse_loss(x, y) + tx.linalg.vector_norm(z)

    def gradients() -> list[Any]:
        given = [tx.asarray(a) for a in arrays]
        leaves = [tx.asarray(a).requires_grad_() for a in arrays]
        loss(*leaves).backward()
        tangents = tx.jvp(loss, given, given)[1]
        return [*[g.tolist() for g in tx.grad(loss, argnums=(0, 1, 2))(*given)], *[x.grad.tolist() for x in leaves], tangents.item()]

    with fastpath.disabled():
        wanted = gradients()
    for _ in range(4):
        found = gradients()
        for mine, others in zip(found, wanted, strict=True):
            np.testing.assert_allclose(mine, others, rtol=1e-12, atol=1e-14)


def test_recorded_calls_inside_vmap_match_single_rows() -> None:
    x = tx.asarray(np.arange(24.0).reshape(2, 3, 4))
    for _ in range(4):
        found = tx.vmap(lambda row: tx.softmax(row) + tx.clip(row, 1.0, 5.0) + tx.triu(row))(x)
        wanted = tx.stack([tx.softmax(row) + tx.clip(row, 1.0, 5.0) + tx.triu(row) for row in x])
        assert np.allclose(found.to_numpy(), wanted.to_numpy())


def test_recorded_calls_distinguish_scalar_arguments() -> None:
    """The numbers differ in sign or type, are shared by two functions, or are more than the cache holds."""
    rng, array = random.Random(1), np.random.default_rng(1).normal(size=40)
    x, y = tx.asarray(array), tx.asarray(array[::-1].copy())
    assert [str(tx.clip(tx.asarray([-1.0]), low, None).item()) for low in (0.0, -0.0, 0.0, -0.0)] == ["0.0", "-0.0"] * 2
    whole = tx.asarray([3, 5])
    assert [tx.clip(whole, low, 9).dtype for low in (1, 1.0, 1, 1.0)] == [tx.clip(whole, low, 9).dtype for low in (1, 1.0)] * 2
    for k in range(4 * MAX_FLOAT_CALLS):
        a, b, c = (rng.choice([0.1, 0.2, 0.3, k / 100]) for _ in range(3))
        found = tx.clip(x, -a, b) * 2 + tx.clip(y, -c, b) + tx.clip(x, -c, a)
        wanted = np.clip(array, -a, b) * 2 + np.clip(array[::-1], -c, b) + np.clip(array, -c, a)
        assert np.allclose(found.to_numpy(), wanted)
    assert max(len(found) for name, found in x.spec.call_templates.items() if "clip" in str(name)) <= MAX_FLOAT_CALLS + 2


def test_call_with_one_tensor_twice_is_not_reused_for_two_tensors() -> None:
    x, y = (tx.asarray(np.random.default_rng(k).normal(size=(5, 5))).realize() for k in range(2))
    for function in (tx.matmul, tx.linalg.outer, tx.isclose, lambda a, b: tx.tensordot(a, b, 1), tx.nn.functional.mse_loss):
        with fastpath.disabled():
            wanted = [function(a, b).tolist() for a, b in ((x, x), (x, y), (y, x), (x, x.T), (x.T, y))]
        clear_templates()
        for _ in range(3):
            assert [function(a, b).tolist() for a, b in ((x, x), (x, y), (y, x), (x, x.T), (x.T, y))] == wanted


def test_recorded_call_reads_captured_pending_tensors_anew() -> None:
    """The function reads a pending tensor that is not an argument."""
    others = [tx.full((3,), 1.0), tx.full((3,), 2.0)]

    @module.memoized_call
    def plus_first(x: tx.Tensor) -> tx.Tensor:
        return x + others[0]

    x = tx.ones(3).realize()
    assert [plus_first(x).tolist() for _ in range(3)] == [[2.0] * 3] * 3
    others.pop(0)
    assert plus_first(x).tolist() == [3.0] * 3


INTO: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "clip, by place": (lambda x, out: tx.clip(x, 1, 3, out), lambda x: np.clip(x, 1, 3)),
    "clip, by name": (lambda x, out: tx.clip(x, 1, 3, out=out), lambda x: np.clip(x, 1, 3)),
    "clip a part of itself": (lambda x, out: tx.clip(out, 1, 3, out), lambda x: np.zeros(4) + 1),
    "concat": (lambda x, out: tx.concat([x[:2], x[2:]], out=out), lambda x: x),
    "concat, in another dtype": (lambda x, out: tx.concat([x[:2], x[2:]], dtype=tx.float32, out=out), lambda x: x),
    "stack": (lambda x, out: tx.stack([x[0], x[1], x[2], x[3]], dim=0, out=out), lambda x: x),
    "argmax": (lambda x, out: tx.argmax(tx.stack([x, x[::-1], x, x]), dim=1, out=out), lambda x: [3, 0, 3, 3]),
    "exp": (lambda x, out: tx.exp(x, out=out), np.exp),
    "sum": (lambda x, out: tx.sum(tx.stack([x, x]), dim=0, out=out), lambda x: 2 * x),
}


@pytest.mark.parametrize("name", INTO)
def test_out_argument_is_written_at_every_call(name: str) -> None:
    into, plain = INTO[name]
    for k in range(5):
        x, out = tx.asarray(np.arange(4.0) + k).realize(), tx.zeros(4).realize()
        assert into(x, out) is out
        np.testing.assert_allclose(out.to_numpy(), plain(np.arange(4.0) + k), rtol=1e-15)
    again = tx.zeros(4)
    assert into(x, again) is again and again.tolist() == out.tolist()  # of the same tensor


def test_call_with_out_by_position_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt: list[str] = []
    monkeypatch.setattr(recorder, "record_call", lambda name, *given: learnt.append(name))
    x = tx.asarray(np.arange(37.0)).realize()
    INTO["clip, by place"][0](x, tx.zeros(37).realize())
    assert "tenxor.api.elementwise.clip" not in learnt  # as the method that it calls is
    tx.clip(x, 1, 3)
    assert "tenxor.api.elementwise.clip" in learnt


VALUES = (2.0, 3.0, 1.0, 2.0, 3.0)  # one after the other, of which each is learnt from, or replayed
OF_VALUES: dict[str, Callable[[Any, float], Any]] = {  # what a function makes of a tensor whose value matters, not what it is like
    "isclose": lambda x, v: tx.isclose(x, tx.asarray(v), rtol=0.5),
    "huber_loss": lambda x, v: tx.nn.functional.huber_loss(x, x * 3.0, delta=tx.asarray(v / 4.0)),
    "binary_cross_entropy": lambda x, v: (lambda p: tx.nn.functional.binary_cross_entropy(p, p))(tx.mean(tx.asarray([v, v]) / 4.0)),
    "interp": lambda x, v: tx.interp(x - 9.0, x, x, left=tx.asarray(v)),
    "fft": lambda x, v: tx.fft.fft(x, tx.asarray(int(v))),
    "searchsorted": lambda x, v: tx.searchsorted(x, x, right=tx.asarray(v > 2.0)),
    "cholesky": lambda x, v: tx.linalg.cholesky(tx.eye(4) * 2.0 + 0.25, upper=tx.asarray(v > 2.0)),
    "roll by a tensor": lambda x, v: tx.roll(x, tx.asarray(int(v))),
    "roll along a list, or flat": lambda x, v: tx.roll(x.reshape(2, 2), 1, [0] if v > 2.0 else None),
    "concat along a number of NumPy's, or flat": lambda x, v: tx.concat([x.reshape(2, 2)] * 3, np.int64(1) if v > 2.0 else None),
    "stack along a tensor": lambda x, v: tx.stack([x, x, x], tx.asarray(int(v > 2.0))),
}


@pytest.mark.parametrize("name", list(OF_VALUES))
def test_recorded_calls_do_not_depend_on_argument_values(name: str) -> None:
    def found() -> list[Any]:
        x = tx.asarray([1.0, 2.0, 3.0, 4.0])
        return [outcome_of(lambda its, v=v: OF_VALUES[name](x, v), {}) for v in VALUES]  # type: ignore[misc]

    with fastpath.disabled():
        wanted = found()
    assert found() == wanted and len(set(map(str, wanted))) > 1


def test_integers_of_any_digit_count_are_read_correctly() -> None:
    """The fast path reads integers of one digit itself, and asks Python for longer ones."""
    x = tx.asarray([1, -2, 3])
    for power in (0, 1, 29, 30, 31, 32, 59, 60, 61):
        for n in ((1 << power) + d for d in (-1, 0, 1)):
            for signed in (n, -n):
                wanted = [1 + signed, signed - 2, 3 + signed]
                assert [(x + signed).tolist() for _ in range(3)] == [wanted] * 3
    for k in (0, 2, -1, -3):
        assert [x[k].item() for _ in range(3)] == [[1, -2, 3][k]] * 3
    for k in (3, -4, 1 << 30, -(1 << 30), 1 << 62, -(1 << 62), 1 << 70, -(1 << 70)):
        for _ in range(3):
            with pytest.raises(IndexOutOfRange):
                x[k]


def test_wrong_integer_digit_size_fails_the_layout_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    self_test.check_object_layout()
    monkeypatch.setattr(self_test, "DIGIT_BITS", 31)
    with pytest.raises(LookupError, match=r"not true: an integer holds digits of 30 bits$"):
        self_test.check_object_layout()
