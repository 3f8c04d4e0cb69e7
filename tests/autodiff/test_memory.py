"""Derivatives keep the values that backward reads, as long as it may run, and nothing else."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.autodiff.tape import TapeNode
from tenxor.graph.node import Node
from tenxor.memory.buffer import Buffer

SIZE = 1 << 18  # elements of two megabytes


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Turn the collector off: objects must be freed at once without it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def big() -> Any:
    return tx.asarray(np.linspace(0.1, 1.0, SIZE))


def bytes_in_use() -> int:
    return int(tx.memory().in_use)


def test_values_that_no_derivative_reads_are_freed() -> None:
    x = big().requires_grad_()
    y = (x + 1.0).realize()
    gone = weakref.ref(y.storage.node.buffer)
    z = (y * 2.0 + 3.0).realize()  # of which the derivative is a number
    del y
    assert gone() is None
    loss = z.sum()
    del z
    loss.backward()
    assert x.grad[:2].tolist() == [2.0, 2.0]


READING: dict[str, Callable[[Any], Any]] = {
    "sin": tx.sin,
    "multiply": lambda y: y * y,
    "exp": tx.exp,
    "tanh": tx.tanh,
    "max": lambda y: y.reshape(-1, 4).max(axis=1),
    "prod": lambda y: y.reshape(-1, 4).prod(axis=1),
}


@pytest.mark.parametrize("name", READING)
def test_values_that_derivatives_read_live_until_backward(name: str) -> None:
    x = big().requires_grad_()
    y = (x + 1.0).realize()
    before = bytes_in_use()
    z = READING[name](y).realize()
    seen = weakref.ref(y.storage.node.buffer)
    del y
    reads_result = name in ("exp", "tanh")
    assert (seen() is None) == reads_result
    loss = z.sum()
    del z
    loss.realize()
    assert bytes_in_use() <= before + SIZE * 8 + 4096
    loss.backward()
    assert x.grad is not None
    x.grad.realize()
    del loss
    assert bytes_in_use() <= before + 4096  # x.grad in place of y


def test_many_small_writes_keep_no_copies() -> None:
    x = big().requires_grad_()
    y = x * 2.0
    y.realize()
    before = bytes_in_use()
    number = tx.asarray(1.5).requires_grad_()
    for k in range(200):
        y[k] = number * k
        y[SIZE - 10 - k : SIZE - k].realize()
    assert bytes_in_use() <= before + SIZE * 8 // 2
    loss = y.sum()
    loss.backward()
    assert number.grad.item() == sum(range(200))
    assert x.grad[198:202].tolist() == [0.0, 0.0, 2.0, 2.0]


@pytest.mark.parametrize("write", ["a slice", "an index", "a row", "in place"])
def test_writes_to_unread_tensors_make_no_copies(write: str) -> None:
    x = big().requires_grad_()
    y = (x + 0.0).realize()
    before = bytes_in_use()
    for k in range(10):
        if write == "a slice":
            y[k : k + 5] = 1.0
        elif write == "an index":
            y[[k, k + 2]] = 1.0
        elif write == "a row":
            y.reshape(-1, 8)[k] = tx.asarray(2.0)
        else:
            y[k : k + 3] += 1.0
        y.realize()
        assert bytes_in_use() <= before + SIZE * 8 // 2


def tracked() -> int:
    return sum(type(x) in (TapeNode, Node, Buffer) for x in gc.get_objects())


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "a product": lambda x: (x * x).sum(),
    "matrices": lambda x: tx.tanh(x.reshape(8, 8) @ x.reshape(8, 8)).sum(),
    "writes": lambda x: _written(x).sum(),
    "running": lambda x: tx.cumprod(x, axis=0).sum(),
    "the largest": lambda x: x.max() * tx.softmax(x).sum(),
    "attention": lambda x: tx.scaled_dot_product_attention(*[x.reshape(16, 4)] * 3).sum(),
    "second derivatives": lambda x: tx.grad(lambda y: (y**3).sum())(x).sum(),
}


def _written(x: Any) -> Any:
    y = x * 1.0
    y[::2] *= x[1::2]
    y[[0, 3]] = x[:2]
    return y * y


@pytest.mark.parametrize("name", FUNCTIONS)
def test_grad_keeps_no_nodes_alive(name: str) -> None:
    x = tx.asarray(np.linspace(0.5, 1.5, 64))
    function = FUNCTIONS[name]
    seen: list[Any] = []

    def watched(x: Any) -> Any:
        y = x * 1.0
        seen.append(weakref.ref(y.storage.node))
        return function(y)

    for _ in range(2):  # what is remembered is so by then
        value, gradient = tx.value_and_grad(watched)(x)
        tx.realize(value, gradient)
    assert not value.requires_grad and not gradient.requires_grad
    assert all(ref() is None for ref in seen)
    assert x.storage.node.tape_node is None


@pytest.mark.parametrize("way", ["grad", "vjp", "jvp", "jacobian", "hessian", "vmap", "backward"])
def test_derivatives_make_no_reference_cycles(way: str) -> None:
    """With the collector off, the number of nodes and tape nodes does not grow."""
    x = tx.asarray(np.linspace(0.5, 1.5, 4))

    def function(x: Any) -> Any:
        y = tx.sin(x) * x
        y[1:] += y[:-1]
        return (y * tx.exp(y)).sum()

    def turn() -> None:
        if way == "grad":
            tx.grad(function)(x).realize()
        elif way == "vjp":
            tx.vjp(function, x)[1](tx.asarray(1.0))[0].realize()
        elif way == "jvp":
            tx.jvp(function, [x], [x])[1].realize()
        elif way == "jacobian":
            tx.jacobian(lambda x: tx.sin(x) * x.sum())(x).realize()
        elif way == "hessian":
            tx.hessian(function)(x).realize()
        elif way == "vmap":
            tx.vmap(tx.grad(function))(tx.stack([x, x])).realize()
        else:
            leaf = x.copy().requires_grad_()
            leaf.register_hook(lambda g: None)
            function(leaf).backward()
            leaf.grad.realize()

    for _ in range(4):
        turn()
    gc.collect()  # what was compiled
    before = tracked()
    for _ in range(6):
        turn()
    assert tracked() <= before + 2
    assert gc.collect() < 6


def test_dropped_loss_frees_all_saved_values() -> None:
    x = big().requires_grad_()
    before = bytes_in_use()
    loss = tx.exp(tx.sin(x) * x).sum()
    loss.realize()
    assert bytes_in_use() > before
    del loss
    assert bytes_in_use() <= before + 4096


def test_inlined_chain_saves_no_intermediates() -> None:
    """Values that are inlined into one kernel are computed again."""
    x = big()
    tx.grad(lambda x: (tx.sin(x) * 2.0 + x).sum())(x).realize()
    tx.memory(reset_peak=True)
    before = bytes_in_use()
    gradient = tx.grad(lambda x: (tx.sin(x) * 2.0 + x).sum())(x).realize()
    assert gradient.shape == (SIZE,)
    assert tx.memory().peak <= before + 2 * SIZE * 8 + (1 << 16)
