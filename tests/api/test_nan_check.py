"""`check_nan`: the error for the first NaN names the operation and the line of user code."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import tenxor as tx
from tenxor.api import nan_check
from tenxor.errors import NotANumber


def test_check_nan_names_the_operation_and_the_line() -> None:
    x = tx.asarray([1.0, -1.0])
    with pytest.raises(NotANumber, match=r"sqrt made the first NaN, in a result of shape \(2,\), at .*test_nan_check.py:\d+: z = tx.sqrt"):  # noqa: SIM117
        with tx.check_nan():
            y = x * 2.0
            z = tx.sqrt(y - 0.5)
            z = z + 1.0
            _ = z.sum()


def test_check_nan_ignores_operands_with_nan() -> None:
    x = tx.asarray([tx.nan, 1.0])
    with tx.check_nan():
        assert (x + 1.0).tolist()[1] == 2.0


def test_check_nan_checks_derivatives() -> None:
    x = tx.asarray([0.0, 1.0]).requires_grad_()
    with pytest.raises(NotANumber, match=r"made the first NaN.*backward\(\)"):  # noqa: SIM117
        with tx.check_nan():
            y = (tx.sqrt(x) * x).sum()  # 0 * inf, backwards
            y.backward()


def test_check_nan_names_the_forward_line_of_a_derivative() -> None:
    x = tx.zeros(2).requires_grad_()
    location = r"at .*test_nan_check.py:\d+: "
    message = rf"{location}y.sum\(\).backward\(\), in the derivative of sqrt, which was computed {location}y = tx.sqrt"
    with pytest.raises(NotANumber, match=rf"^check_nan: sqrt_pullback made the first NaN, in a result of shape \(2,\), {message}"):  # noqa: SIM117
        with tx.check_nan():
            y = tx.sqrt(x) * 0.0
            _ = x + 1.0
            y.sum().backward()


def test_check_nan_names_the_forward_line_for_grad_jvp_and_checkpoint() -> None:
    def f(x: Any) -> Any:
        root = tx.sqrt(x)
        return (root * 0.0).sum()

    message = "in the derivative of sqrt, which was computed at .*test_nan_check.py:.*: root = tx.sqrt"
    for make in (lambda x: tx.grad(f)(x), lambda x: tx.jvp(f, (x,), (x,)), lambda x: tx.grad(lambda x: tx.checkpoint(f, x))(x)):
        with pytest.raises(NotANumber, match=message), tx.check_nan():
            make(tx.zeros(2))


def test_check_nan_records_lines_only_while_open_and_frees_them() -> None:
    x = tx.zeros(2).requires_grad_()
    y = tx.sqrt(x) * 0.0
    with pytest.raises(NotANumber, match="derivative of sqrt, which was computed before check_nan was open"), tx.check_nan():
        y.sum().backward()
    gc.collect()
    before = len(nan_check._lines)
    with tx.check_nan():
        z = tx.exp(x) * 2.0
        assert len(nan_check._lines) > before
    del z
    gc.collect()
    assert len(nan_check._lines) == before


def test_nan_and_pending_results_are_allowed_after_check_nan() -> None:
    with pytest.raises(NotANumber), tx.check_nan():
        tx.log(tx.asarray(-1.0))
    result = tx.log(tx.asarray(-1.0)) + 1.0
    assert result.isnan().item()
    assert "pending" in repr((tx.ones(3) + 1.0).storage.node)


def test_check_nan_accepts_traced_functions() -> None:
    with tx.check_nan():
        assert tx.vmap(lambda row: row / row.sum())(tx.ones((2, 3))).shape == (2, 3)
        assert tx.map(lambda a: a * 2.0, tx.ones(2)).tolist() == [2.0, 2.0]


INFINITY = tx.inf
MAKERS: dict[str, tuple[Callable[[], Any], str]] = {
    "products": (lambda: tx.asarray([[INFINITY, 1.0]]) @ tx.asarray([[0.0], [1.0]]), "sum of multiply"),
    "large products": (lambda: tx.full((64, 64), INFINITY) @ tx.zeros((64, 64)), "sum of multiply"),
    "contractions": (lambda: tx.einsum("ij,kj->ik", tx.asarray([[INFINITY, 1.0]]), tx.asarray([[0.0, 1.0]])), "sum of multiply"),
    "convolutions": (lambda: tx.conv1d(tx.zeros((1, 1, 4)), tx.full((1, 1, 2), INFINITY)), "sum of multiply"),
    "what NumPy computes": (lambda: tx.linalg.eigvalsh(tx.asarray([[INFINITY, 0.0], [0.0, 1.0]])), "eigvalsh"),
    "quantiles": (lambda: tx.quantile(tx.asarray([INFINITY, -INFINITY]), 0.5), "add"),
    "batches": (lambda: tx.vmap(tx.log)(tx.asarray([[1.0], [-1.0]])), "log"),
    "second derivatives": (lambda: tx.hessian(lambda x: tx.sqrt(x).sum())(tx.asarray([0.0, 1.0])), "sqrt_tangent"),
}


def row_loss(row: Any) -> Any:
    doubled = row * 2.0
    logarithm = tx.log(doubled - 3.0)  # here
    return (logarithm + doubled @ tx.ones((2, 2))).sum()


BATCHES: dict[str, Callable[[Any], Any]] = {
    "vmap": tx.vmap(row_loss),
    "side by side": lambda x: tx.vmap(row_loss, in_axes=-1)(tx.concat([x.T] * 16, axis=1)),
    "in another": tx.vmap(tx.vmap(lambda x: row_loss(tx.stack([x, x])))),
    "with what NumPy computes": tx.vmap(lambda x: row_loss(tx.sort(x))),
    "Jacobian": lambda x: tx.jacobian(row_loss)(x[1]),
}


@pytest.mark.parametrize("name", BATCHES)
def test_check_nan_names_the_line_inside_a_batched_function(name: str) -> None:
    message = r"^check_nan: log made the first NaN.*logarithm = tx.log\(doubled - 3.0\)  # here$"
    with pytest.raises(NotANumber, match=message), tx.check_nan():
        BATCHES[name](tx.asarray([[5.0, 6.0], [1.0, 7.0]]))


def test_check_nan_names_both_lines_for_batched_derivatives() -> None:
    def function(row: Any) -> Any:
        root = tx.sqrt(row)
        return (root * 0.0).sum()

    message = r"sqrt_pullback made.*in the derivative of sqrt, which was computed at .*: root = tx.sqrt"
    with pytest.raises(NotANumber, match=message), tx.check_nan():
        tx.vmap(tx.grad(function))(tx.asarray([[0.0, 1.0]]))


@pytest.mark.parametrize("name", MAKERS)
def test_check_nan_names_every_kind_of_operation(name: str) -> None:
    make, operation = MAKERS[name]
    with pytest.raises(NotANumber, match=f"^check_nan: {operation} made the first NaN.*test_nan_check.py"), tx.check_nan():
        make()


def test_check_nan_ignores_nan_of_earlier_pending_results() -> None:
    x = tx.log(tx.asarray([[-1.0]]))  # pending
    with tx.check_nan():
        assert (x @ tx.ones((1, 1))).isnan().item()


def test_check_nan_checks_optimizer_steps() -> None:
    x = tx.nn.Parameter([0.0, 1.0])
    optimizer = tx.optim.Adam([x], eps=0.0)
    with pytest.raises(NotANumber, match=r"adam made the first NaN, in .* at .*test_nan_check.py:\d+: optimizer.step"):  # noqa: SIM117
        with tx.check_nan():
            (x * x).sum().backward()
            optimizer.step()  # 0 / 0
