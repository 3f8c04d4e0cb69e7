"""Errors of missing derivatives and wrong requests name the operation and an alternative."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DerivativeError, DTypeError, ShapeError, TenxorError


class Wrong(NamedTuple):
    call: Callable[[], Any]
    error: type[TenxorError]
    names: tuple[str, ...]


def x() -> Any:
    return tx.asarray([1.0, 2.0, 3.0])


def whole() -> Any:
    return tx.asarray([1, 2, 3])


def leaf() -> Any:
    return x().requires_grad_()


def twice() -> None:
    loss = (leaf() ** 2).sum()
    loss.backward()
    loss.backward()


def total(t: Any) -> Any:
    return (t * t).sum()


WRONG = {
    "an array for yes or no": Wrong(lambda: tx.vjp(total, x(), has_aux=np.ones(0)), ArgumentError, ("vjp", "has_aux", "True or False")),
    "two arrays for yes or no": Wrong(lambda: tx.grad(total, has_aux=np.ones(2)), ArgumentError, ("grad", "has_aux")),  # type: ignore[arg-type]
    "integers by grad": Wrong(lambda: tx.grad(total)(whole()), DTypeError, ("grad", "int64", "astype(tx.float64)")),
    "bools by vjp": Wrong(lambda: tx.vjp(total, whole() > 1), DTypeError, ("vjp", "bool", "astype")),
    "integers by jvp": Wrong(lambda: tx.jvp(total, [whole()], [whole()]), DTypeError, ("jvp", "int64")),
    "integers by jacobian": Wrong(lambda: tx.jacobian(total)(whole()), DTypeError, ("jacobian", "int64")),
    "integers by hessian": Wrong(lambda: tx.hessian(total)(whole()), DTypeError, ("int64", "astype")),
    "integers require none": Wrong(lambda: whole().requires_grad_(), DTypeError, ("requires_grad_", "int64", "astype")),
    "set to require": Wrong(lambda: setattr(whole(), "requires_grad", True), DTypeError, ("requires_grad", "int64")),
    "a result of integers": Wrong(lambda: tx.grad(lambda t: t.astype(tx.int64).sum())(x()), ShapeError, ("grad", "int64")),
    "integers from vjp": Wrong(lambda: tx.vjp(lambda t: t.argmax(), x()), DTypeError, ("vjp", "float")),
    "integers from jacobian": Wrong(lambda: tx.jacobian(lambda t: t > 0)(x()), DTypeError, ("jacobian", "float")),
    "several numbers": Wrong(lambda: tx.grad(lambda t: t * 2)(x()), ShapeError, ("grad", "(3,)", "sum()", "vjp")),
    "a complex number": Wrong(lambda: tx.grad(lambda t: (t * 1j).sum())(x()), ShapeError, ("grad", "complex128", "real")),
    "no tensor": Wrong(lambda: tx.grad(lambda t: 3.0)(x()), ArgumentError, ("grad", "float")),
    "nothing": Wrong(lambda: tx.grad(lambda t: None)(x()), ArgumentError, ("grad", "NoneType")),
    "no such argument": Wrong(lambda: tx.grad(total, 1)(x()), ArgumentError, ("grad", "argument 1", "1")),
    "no such argument from behind": Wrong(lambda: tx.grad(total, -2)(x()), ArgumentError, ("grad", "argument -2")),
    "an argument by name": Wrong(lambda: tx.grad(total, "t")(x()), ArgumentError, ("grad", "argnums", "'t'")),
    "no number": Wrong(lambda: tx.grad(total, (0, 1.5))(x()), ArgumentError, ("grad", "argnums")),
    "an unknown mode": Wrong(lambda: tx.jacobian(total, mode="sideways"), ArgumentError, ("jacobian", "forward", "sideways")),
    "a cotangent of another shape": Wrong(
        lambda: tx.vjp(lambda t: t * 2, x())[1](tx.ones(4)), ShapeError, ("vjp", "cotangent", "(4,)", "(3,)")
    ),
    "cotangents nested otherwise": Wrong(lambda: tx.vjp(lambda t: [t, t], x())[1](x()), ArgumentError, ("vjp", "nested")),
    "a tangent of another shape": Wrong(lambda: tx.jvp(total, [x()], [tx.ones(2)]), ShapeError, ("jvp", "tangent", "(2,)", "(3,)")),
    "tangents nested otherwise": Wrong(lambda: tx.jvp(total, [x()], [x(), x()]), ArgumentError, ("jvp", "nested")),
    "backward of several": Wrong(lambda: (leaf() * 2).backward(), DerivativeError, ("backward", "(3,)", "gradient")),
    "backward of a complex number": Wrong(lambda: (leaf() * 1j).sum().backward(), DerivativeError, ("backward", "complex128")),
    "backward of constants": Wrong(lambda: x().sum().backward(), DerivativeError, ("backward", "requires_grad_()")),
    "backward of integers": Wrong(lambda: leaf().astype(tx.int64).sum().backward(), DerivativeError, ("backward",)),
    "a gradient of another shape": Wrong(lambda: (leaf() * 2).backward(tx.ones(2)), ShapeError, ("backward", "(2,)", "(3,)")),
    "a number for several": Wrong(lambda: (leaf() * 2).backward(1.0), ShapeError, ("backward", "(3,)")),
    "twice": Wrong(twice, DerivativeError, ("backward", "retain_graph=True")),
    "a gradient that does not fit": Wrong(lambda: setattr(leaf(), "grad", tx.ones(2)), ShapeError, ("grad", "(3,)")),
    "a gradient of another dtype": Wrong(lambda: setattr(leaf(), "grad", tx.ones(3, dtype=tx.float32)), ShapeError, ("grad", "float64")),
    "a gradient of a constant": Wrong(lambda: setattr(x(), "grad", tx.ones(3)), DerivativeError, ("grad", "requires_grad_()")),
    "retained of a constant": Wrong(lambda: x().retain_grad(), DerivativeError, ("retain_grad", "requires_grad_()")),
    "a hook of a constant": Wrong(lambda: x().register_hook(print), DerivativeError, ("register_hook", "requires_grad_()")),
    "none of what is computed": Wrong(lambda: (leaf() * 2).requires_grad_(False), DerivativeError, ("requires_grad_", "detach()")),
    "bytes seen otherwise": Wrong(
        lambda: tx.grad(lambda t: t.view(tx.float32).sum())(x()), DerivativeError, ("view", "float64", "float32", "astype")
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_derivative_errors_name_the_operation_and_the_remedy(name: str) -> None:
    wrong = WRONG[name]
    with pytest.raises(wrong.error) as raised:
        wrong.call()
    for word in wrong.names:
        assert word in str(raised.value)


def test_error_inside_a_transform_restores_tracking() -> None:
    """An error in the function leaves no state: tracking is on or off as before."""
    with pytest.raises(ZeroDivisionError):
        tx.grad(lambda t: t.sum() / (1 // 0))(x())
    assert not (x() * 2).requires_grad
    with tx.no_grad():
        with pytest.raises(ZeroDivisionError):
            tx.grad(lambda t: t.sum() / (1 // 0))(x())
        assert not (leaf() * 2).requires_grad
    with pytest.raises(ZeroDivisionError):
        tx.vmap(lambda t: t / (1 // 0))(x())
    assert (leaf() * 2).requires_grad


def test_integer_operands_are_constant_in_gradients() -> None:
    found = tx.grad(lambda t: (t * whole() + t**2).sum())(x())
    assert found.tolist() == [3.0, 6.0, 9.0]
    taken = tx.grad(lambda t, k: t[k].sum(), 0)(x(), whole() - 1)
    assert taken.tolist() == [1.0, 1.0, 1.0]


def test_grad_accepts_python_numbers_and_arrays() -> None:
    assert tx.grad(lambda t: t * t)(3.0).item() == 6.0
    assert tx.grad(lambda t: t * t)(3).item() == 6.0
    assert tx.grad(lambda t: (t * t).sum())(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]


# Where there are several derivatives, or none: the convention is PyTorch's (test_torch.py runs beside it).
KINKS: dict[str, tuple[Callable[[Any], Any], list[float], list[float]]] = {
    "abs": (tx.abs, [-1.0, 0.0, -0.0, 2.0], [-1.0, 0.0, 0.0, 1.0]),
    "relu": (tx.relu, [-1.0, 0.0, 2.0], [0.0, 0.0, 1.0]),
    "sign": (tx.sign, [-1.0, 0.0], [0.0, 0.0]),
    "clip": (lambda t: t.clip(-1.0, 1.0), [-2.0, -1.0, 0.0, 1.0, 2.0], [0.0, 0.0, 1.0, 0.0, 0.0]),
    "clip by tensors": (lambda t: t.clip(tx.asarray(-1.0), tx.asarray([1.0] * 4)), [-2.0, -1.0, 1.0, 2.0], [0.0, 0.5, 0.5, 0.0]),
    "copysign": (lambda t: tx.copysign(t, -1.0), [0.0, -0.0, 1.0, -1.0], [0.0, 0.0, -1.0, 1.0]),
    "no angle": (lambda t: tx.atan2(t, 0.0), [0.0, -0.0, 1.0], [0.0, 0.0, 0.0]),
    "fmod": (lambda t: tx.fmod(t, 2.0), [0.0, 2.0, -2.0, 3.0], [1.0, 1.0, 1.0, 1.0]),
    "powers of 0": (lambda t: 0.0**t, [-1.0, 0.0, 2.0], [-math.inf, 0.0, 0.0]),
    "elu": (tx.nn.functional.elu, [0.0, -0.0, 2.0], [1.0, 1.0, 1.0]),
    "relu of NaN": (tx.relu, [math.nan, 1.0], [1.0, 1.0]),
    "maximum": (lambda t: tx.maximum(t, 1.0), [0.0, 1.0, 2.0], [0.0, 0.5, 1.0]),
    "minimum": (lambda t: tx.minimum(t, tx.asarray([1.0, 1.0, 1.0])), [0.0, 1.0, 2.0], [1.0, 0.5, 0.0]),
    "max": (lambda t: t.max(), [1.0, 3.0, 3.0], [0.0, 0.5, 0.5]),
    "min": (lambda t: t.min(), [1.0, 1.0, 1.0, 4.0], [1 / 3, 1 / 3, 1 / 3, 0.0]),
    "largest of windows": (lambda t: t.windows(0, 2).max(axis=1), [1.0, 1.0, 0.0], [0.5, 1.5, 0.0]),
    "floor": (tx.floor, [1.0, 1.5], [0.0, 0.0]),
    "square": (lambda t: t**2, [0.0, -1.0], [0.0, -2.0]),
    "first power": (lambda t: t**1.0, [0.0, -1.0], [1.0, 1.0]),
    "no power": (lambda t: t**0, [0.0, -1.0], [0.0, 0.0]),
    "prod of zeros": (lambda t: t.prod(), [0.0, 2.0, 3.0], [6.0, 0.0, 0.0]),
    "std of equal ones": (lambda t: t.std(), [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]),
}


@pytest.mark.parametrize("name", KINKS)
def test_gradients_at_kinks_have_the_documented_values(name: str) -> None:
    function, at, wanted = KINKS[name]
    assert tx.grad(lambda t: function(t).sum())(tx.asarray(at)).tolist() == wanted


def test_grad_rejects_duplicate_argnums() -> None:
    for argnums in ((0, 0), (0, -2)):
        with pytest.raises(ArgumentError, match="twice"):
            tx.grad(lambda x, y: (x * y).sum(), argnums=argnums)(tx.ones(2), tx.ones(2))


def test_register_hook_rejects_invalid_hooks_and_gradients() -> None:
    x = tx.ones(2).requires_grad_()
    with pytest.raises(ArgumentError, match="register_hook"):
        x.register_hook(3)
    x.register_hook(lambda g: tx.ones(3))
    with pytest.raises(ShapeError, match="register_hook"):
        x.sum().backward()


@pytest.mark.parametrize("count", [4, 8192])
def test_gradient_of_take_along_axis_reports_an_index_out_of_range_at_each_read(count: int) -> None:
    """However the gradient is computed, each read raises: memory written before the error is no gradient."""
    rows = tx.ones((count, 3))
    for _ in range(8):
        places = tx.asarray([0, 1, 2, 3] * (count // 4)) + 0  # pending, so nobody has looked
        gradient = tx.grad(lambda x, k=places: tx.take_along_axis(x, k.expand_dims(-1), axis=-1).sum())(rows)
        for _ in range(2):
            with pytest.raises(tx.errors.IndexOutOfRange, match="take_along_axis: index 3 is out of range for axis 1 of size 3"):
                gradient.realize()
