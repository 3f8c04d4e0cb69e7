"""Joining tensors is one backward step: each piece receives the cotangent of its slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.autodiff.tape import TapeNode

SIZE = 1 << 18  # elements of two megabytes
NOTHING = tx.zeros(0)
OTHER = tx.asarray([0.5, -1.0, 2.0])

JOINS: dict[str, Callable[[Any], Any]] = {
    "twice": lambda y: tx.stack([y, y]),
    "between others": lambda y: tx.concat([OTHER, y, np.ones(2), y]),
    "rolled": lambda y: tx.roll(y, 1),
    "in two axes": lambda y: tx.roll(tx.stack([y, y * 2.0, OTHER], 1), (1, 2), (0, 1)),
    "flattened": lambda y: tx.concat([tx.stack([y, OTHER]), y], axis=None),
    "alone": lambda y: tx.concat([y]),
    "stacked alone": lambda y: tx.stack([y]),
    "beside nothing": lambda y: tx.concat([NOTHING, y, NOTHING]),
    "rolled by nothing": lambda y: tx.roll(y, 0),
    "of another dtype": lambda y: tx.concat([y.astype(tx.float32), OTHER]),
    "complex": lambda y: tx.concat([y, OTHER * 1j]).real,
    "reversed": lambda y: tx.stack([y[::-1], y[:1].expand(3)]),
}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("before", ["a leaf", "pending", "in memory"])
def test_join_derivatives_match_the_matrix_of_the_join(name: str, before: str) -> None:
    """All joins are linear, so the VJP multiplies by the transposed matrix."""
    join = JOINS[name]
    make = {"a leaf": lambda x: x, "pending": lambda x: x * 2.0, "in memory": lambda x: (x * 2.0).realize()}[before]
    units = [tx.asarray(row) for row in np.eye(3)]
    start = join(make(tx.zeros(3))).to_numpy()
    matrix = np.stack([join(make(unit)).to_numpy() - start for unit in units])
    weights = np.random.default_rng(0).normal(size=start.shape)
    for _ in range(3):
        x = tx.asarray([1.0, 2.0, 3.0]).requires_grad_()
        made = make(x)
        found = join(made)
        assert found.requires_grad and made.requires_grad
        (found * tx.asarray(weights)).sum().backward()
        np.testing.assert_allclose(x.grad.to_numpy(), (matrix * weights).reshape(3, -1).sum(1), rtol=1e-6)
        tangent = tx.jvp(lambda x: join(make(x)), (x.detach(),), (tx.asarray([1.0, -2.0, 0.5]),))[1]
        np.testing.assert_allclose(tangent.to_numpy(), np.tensordot([1.0, -2.0, 0.5], matrix, 1), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("join", [lambda pieces: tx.stack(pieces, 1), tx.concat, lambda pieces: tx.roll(tx.concat(pieces), 5)])
def test_backward_of_concat_stack_and_roll_does_not_copy_the_cotangent(join: Callable[[list[Any]], Any]) -> None:
    leaves = [tx.asarray(np.linspace(0.1, 1.0, SIZE // 8) * k).requires_grad_() for k in range(1, 9)]
    pieces = [(x * 2.0).realize() for x in leaves]
    weights = tx.asarray(np.linspace(0.1, 1.0, SIZE))
    before = tx.memory(reset_peak=True).in_use
    (join(pieces).reshape(-1) * weights.realize()).sum().backward()
    tx.realize(*[x.grad for x in leaves])
    assert tx.memory().peak - before <= 5 * SIZE * 8  # each of 8 stores in a row would copy all of the cotangent
    wanted = tx.grad(lambda *its: (join([x * 2.0 for x in its]).reshape(-1) * weights).sum(), argnums=tuple(range(8)))(*leaves)
    assert all(np.array_equal(x.grad.to_numpy(), w.to_numpy()) for x, w in zip(leaves, wanted, strict=True))
    values = weights.to_numpy()
    if join is tx.concat:
        assert np.array_equal(leaves[3].grad.to_numpy(), 2.0 * values[3 * SIZE // 8 : SIZE // 2])


def test_stack_of_many_tracked_tensors_is_one_tape_node() -> None:
    x = tx.asarray([1.0, 2.0, 3.0]).requires_grad_()
    found = tx.stack([x * float(k) for k in range(50)])
    past = found.storage.node.tape_node
    assert isinstance(past, TapeNode) and len(past.sources) == 50
    found[7:9].sum().backward()
    assert x.grad.tolist() == [15.0] * 3
    mixed = tx.concat([tx.asarray([1]), x, np.ones(2, np.float32)])
    mixed[1:4].sum().backward()
    assert mixed.dtype is tx.float64 and x.grad.tolist() == [16.0] * 3
    with tx.no_grad():
        assert not tx.stack([x] * 20).requires_grad
    assert tx.stack([x] * 20).requires_grad
