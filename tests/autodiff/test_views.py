"""Derivatives of some functions through every kind of view."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.lowering.fuse import collect_pending

from .cases import MOVES, TO_ROWS, real
from .differences import check, check_close, numbers_of, values_of


@pytest.mark.parametrize("function", TO_ROWS)
@pytest.mark.parametrize("move", MOVES)
def test_gradients_of_functions_of_views_match_differences(move: str, function: str) -> None:
    if function == "max" and move in ("oindex", "oindex and slice", "broadcast", "expanded row"):
        pytest.skip("the largest is there several times: see test_gradients_at_ties_match_pytorch")
    check(lambda x: TO_ROWS[function](MOVES[move](x)), [real(3, 4)], second=function == "elementwise")


@pytest.mark.parametrize("move", MOVES)
def test_gradient_by_a_view_has_the_shape_of_the_view(move: str) -> None:
    """The argument itself is a view, and each of its elements is varied separately."""
    base = tx.asarray(real(3, 4))
    x = MOVES[move](base)
    y = tx.asarray(np.array(x.to_numpy()))
    for f in (lambda x: (x * x * x).sum(), lambda x: (tx.cumsum(x.reshape(-1), axis=0) ** 2).sum()):
        found, wanted = tx.grad(f)(x), tx.grad(f)(y)
        assert found.shape == x.shape
        check_close(numbers_of([found.to_numpy()]), numbers_of([wanted.to_numpy()]), move)


@pytest.mark.parametrize("move", MOVES)
def test_backward_through_views_adds_gradients_in_the_storage(move: str) -> None:
    """The gradient of a view is its part of the gradient of the storage."""
    x = tx.asarray(real(3, 4)).requires_grad_()
    seen = MOVES[move](x)
    (seen * seen).sum().backward()
    (wanted,) = values_of(lambda x: tx.vjp(MOVES[move], x)[1](2 * MOVES[move](x))[0], [real(3, 4)])
    assert x.grad is not None
    check_close(numbers_of([x.grad.to_numpy()]), numbers_of([wanted]), move)
    if seen.storage is x.storage:
        assert seen.grad is not None
        assert seen.grad.tolist() == MOVES[move](x.grad.detach()).tolist()


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("given", ["transposed", "broadcast", "reversed", "windows"])
def test_vjp_accepts_cotangents_of_every_layout(move: str, given: str) -> None:
    """The cotangent's layout changes nothing. Sums are exact here, since strides decide in which order elements are added."""
    value, back = tx.vjp(MOVES[move], tx.asarray(real(3, 4)))
    shape = value.shape

    def rounded(*shape: int) -> tx.Tensor:
        return tx.asarray(np.rint(9 * real(*shape, seed=3)))

    if given == "broadcast":
        g = tx.asarray(1.25).expand(shape)
    elif given == "transposed":
        g = rounded(*shape[::-1]).permute(tuple(reversed(range(len(shape)))))
    elif given == "reversed":
        g = tx.flip(rounded(*shape))
    elif len(shape) == 2:
        g = rounded(shape[0] + shape[1] + 1).windows(0, max(shape[1], 1))[: shape[0], : shape[1]]
    else:
        pytest.skip("only for matrices")
    assert g.shape == shape
    same = tx.asarray(np.array(g.to_numpy()))
    assert back(g)[0].tolist() == back(same)[0].tolist()


@pytest.mark.parametrize("size", [6, 200])
def test_cotangent_is_added_to_a_scatter_of_itself(size: int) -> None:
    """The same cotangent goes to all elements, and to some of them once more, in the same memory."""
    places = [int(k) for k in np.random.default_rng(0).integers(0, size, size)]
    weights = np.arange(1.0, size + 1)
    found = tx.grad(lambda x: ((x + x.oindex[places]) * tx.asarray(weights)).sum())(tx.ones(size))
    wanted = weights.copy()
    np.add.at(wanted, places, weights)
    assert found.tolist() == wanted.tolist()


def test_derivatives_of_a_write_from_other_elements_of_the_tensor_match_differences() -> None:
    def function(x: Any) -> Any:
        y = x.sin()
        y[[1, 2, 1]] = y[:, 3:2:-2]
        return y * y

    check(function, [real(3, 4)])


def test_derivatives_of_a_write_of_a_tensor_to_its_reverse_match_differences() -> None:
    def function(x: Any) -> Any:
        y = x.reshape(12)[[1, 0, 3, 5, 4, 7]]
        y[::-1] = y
        return y * y

    check(function, [real(3, 4)])


@pytest.mark.parametrize("stride", [1, 2, (1, 3), 4])
def test_gradient_of_a_convolution_is_one_sum_of_products(stride: Any) -> None:
    """There is no addition for each position of a window."""
    weight = tx.ones((3, 2, 5, 5)).realize()
    value, back = tx.vjp(lambda x: tx.conv2d(x, weight, stride=stride), tx.ones((1, 2, 17, 17)).realize())
    (gradient,) = back(tx.ones(value.shape).realize())
    made = [str(node.op) for node in collect_pending([gradient.storage.node])]
    assert made.count("sum") == 1 and made.count("add") == 0
    assert made.count("store") <= 4
