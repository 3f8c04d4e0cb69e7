"""Tensors that require gradients: leaves before and after writes, hooks, and the memory that is freed."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import DerivativeError
from tenxor.graph.storage import Storage


def leaf(*numbers: float) -> Any:
    return tx.asarray(list(numbers)).requires_grad_()


def test_gradients_add_up_until_they_are_cleared() -> None:
    x = leaf(1.0, 2.0)
    assert x.grad is None and x.requires_grad and x.is_leaf
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    x.grad = None
    assert x.grad is None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    x.grad = tx.asarray([10.0, 20.0])
    (x * 3).sum().backward()
    assert x.grad.tolist() == [13.0, 23.0]


def test_copied_gradient_is_unchanged_by_a_later_backward() -> None:
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    first = x.grad.copy()
    (x * x).sum().backward()
    assert first.tolist() == [2.0, 4.0] and x.grad.tolist() == [4.0, 8.0]


def test_write_to_a_leaf_is_recorded_on_the_tape() -> None:
    x = leaf(1.0, 2.0, 3.0)
    x[1] = 10.0
    x *= x
    assert not x.is_leaf and x.requires_grad
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 6.0]  # by what was there before


@pytest.mark.parametrize("write", ["number", "tensor", "fill", "slices"])
def test_write_of_all_elements_keeps_the_gradient_of_the_leaf(write: str) -> None:
    x = leaf(1.0, 2.0)
    loss = (x * x * x).sum()
    if write == "number":
        x[...] = 4.0
    elif write == "tensor":
        x[...] = tx.asarray([5.0, 6.0])
    elif write == "fill":
        x.fill_(7.0)
    else:
        x[:1] = 8.0
        x[1:] = 9.0
    (loss + x.sum()).backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_overwritten_leaf_may_require_a_gradient_again() -> None:
    x = leaf(1.0, 2.0)
    x[...] = 3.0
    x.requires_grad_()
    assert x.is_leaf
    (x * x).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_updates_under_no_grad_keep_the_leaf() -> None:
    x = leaf(1.0, 2.0)
    for step in range(3):
        x.grad = None
        (x * x).sum().backward()
        with tx.no_grad():
            x -= 0.25 * x.grad
        assert x.is_leaf and x.requires_grad, step
    assert x.tolist() == [0.125, 0.25] and x.grad.tolist() == [0.5, 1.0]


UPDATES: dict[str, Any] = {
    "in place": lambda w: w.__isub__(0.1 * w.grad),
    "of all": lambda w: w.__setitem__(..., w - 0.1 * w.grad),
    "of an element": lambda w: w.__setitem__(0, 5.0),
    "at indices": lambda w: w.__setitem__([0, 2], 5.0),
    "at a mask": lambda w: w.__setitem__(w > 1.5, 5.0),
    "of a view": lambda w: w[1:].__imul__(2.0),
    "by out": lambda w: tx.multiply(w, 2.0, out=w),
    "by a method": lambda w: w.fill_(5.0),
}


@pytest.mark.parametrize("update", UPDATES)
def test_tracked_update_of_leaf_with_gradient_raises_at_the_write(update: str) -> None:
    w, write = leaf(1.0, 2.0, 3.0), UPDATES[update]
    (w * w).sum().backward()
    for _ in range(2):
        with pytest.raises(DerivativeError, match=r"requires a gradient and has one.*`with tx.no_grad\(\): w -= lr \* w.grad`"):
            write(w)
        assert w.tolist() == [1.0, 2.0, 3.0] and w.is_leaf
    with tx.no_grad():
        write(w)
    w.grad = None
    (w * w).sum().backward()
    assert w.is_leaf and w.tolist() != [1.0, 2.0, 3.0] and w.grad.tolist() == (2.0 * w.detach()).tolist()


def test_tracked_update_of_a_leaf_is_allowed_without_gradient_or_with_a_tracked_one() -> None:
    w = leaf(1.0, 2.0)
    (w * w).sum().backward()
    w.grad = None
    w *= 3.0
    (w * w).sum().backward()
    assert w.grad.tolist() == [18.0, 36.0]
    w = leaf(1.0, 2.0)
    (w**3).sum().backward(create_graph=True)
    w -= 0.1 * w.grad  # 1 - 0.6 w, by w before
    w.grad = None
    w.sum().backward()
    assert np.allclose(w.grad.to_numpy(), [0.4, -0.2])


def test_requires_grad_after_a_write_of_all_keeps_the_gradient() -> None:
    x = leaf(1.0, 2.0)
    loss = (x * x).sum()
    x[...] = 3.0
    loss.backward()
    x.requires_grad_()
    assert x.is_leaf and x.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("write", ["all", "a slice", "one element", "indices", "a mask", "a view", "in place"])
def test_every_kind_of_write_under_no_grad_keeps_the_leaf(write: str) -> None:
    x = leaf(1.0, 2.0, 3.0)
    loss = (x * x).sum()
    with tx.no_grad():
        if write == "all":
            x[...] = tx.asarray([5.0, 6.0, 7.0])
        elif write == "a slice":
            x[1:] = 6.0
        elif write == "one element":
            x[0] = 5.0
        elif write == "indices":
            x[[0, 0, 1]] = 5.0
        elif write == "a mask":
            x[x > 1.5] = 0.0
        elif write == "a view":
            x.reshape(3, 1)[::-1].T[...] = 4.0
        else:
            x *= 2
    assert x.is_leaf and x.requires_grad
    (loss + (x * x).sum()).backward()
    assert x.grad.tolist() == [2 * (a + b) for a, b in zip([1.0, 2.0, 3.0], x.tolist(), strict=True)]


def test_values_computed_under_no_grad_are_constant() -> None:
    x = leaf(2.0)
    with tx.no_grad():
        y = x * x
        with tx.enable_grad():
            z = x * 3
    assert not y.requires_grad and z.requires_grad
    (x * y + z).sum().backward()
    assert x.grad.tolist() == [7.0]


def test_no_grad_is_a_decorator_and_ends_on_errors() -> None:
    @tx.no_grad()
    def step(x: Any) -> Any:
        return x * 2

    x = leaf(1.0)
    assert not step(x).requires_grad and not step(x).requires_grad
    with pytest.raises(ZeroDivisionError), tx.no_grad():
        1 / 0
    assert (x * 2).requires_grad


def test_detached_tensors_are_constant_and_do_not_share_writes() -> None:
    x = leaf(1.0, 2.0)
    y = x.detach()
    assert not y.requires_grad and y.is_leaf and y.grad is None
    y[0] = 50.0
    assert x.tolist() == [1.0, 2.0]
    (x * y).sum().backward()
    assert x.grad.tolist() == [50.0, 2.0]
    middle = (x * x).detach()
    assert not middle.requires_grad


def test_views_share_the_gradient_of_their_storage() -> None:
    x = tx.asarray(np.arange(6.0).reshape(2, 3)).requires_grad_()
    view = x.T[1:]
    assert view.requires_grad
    (view * view).sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 4.0], [0.0, 8.0, 10.0]]
    assert view.grad.tolist() == [[2.0, 8.0], [4.0, 10.0]]
    x.grad = None
    base = tx.asarray(np.arange(6.0))
    part = base[::2].requires_grad_()
    assert base.requires_grad
    (base * base).sum().backward()
    assert part.grad.tolist() == [0.0, 4.0, 8.0] and base.grad.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_requires_grad_false_stops_tracking() -> None:
    x = leaf(1.0, 2.0)
    loss = (x * x).sum()
    x.requires_grad = False
    assert not x.requires_grad and not (x * 2).requires_grad
    loss.backward()  # what was computed before still knows; nobody is told
    assert x.grad is None
    x.requires_grad = True
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(DerivativeError, match="detach"):
        (x * 2).requires_grad_(False)


def test_retain_grad_keeps_the_gradient_of_a_result() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    y.retain_grad()
    z = y * 3
    z.sum().backward()
    assert y.grad.tolist() == [3.0, 3.0] and z.grad is None and x.grad.tolist() == [6.0, 12.0]


def test_retained_gradient_is_seen_through_views_after_a_write() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    y.retain_grad()
    y[0] = 7.0
    (y * y).sum().backward()
    assert x.grad.tolist() == [0.0, 16.0, 24.0]
    assert y.grad.tolist() == [0.0, 8.0, 12.0] and y[::-1].grad.tolist() == [12.0, 8.0, 0.0]


def test_retained_gradient_is_that_of_the_value_at_the_request() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y *= 3
    y.retain_grad()  # of what is there now, instead
    (y * y).sum().backward()
    assert y.grad.tolist() == [12.0, 24.0] and x.grad.tolist() == [720.0, 1440.0]
    y = x * 2
    y.retain_grad()
    y *= 3
    (y * y).sum().backward(retain_graph=True)
    assert y.grad.tolist() == [36.0, 72.0]
    with tx.no_grad():
        y[...] = 1.0
    assert y.grad.tolist() == [36.0, 72.0]
    y.grad = None
    assert y.grad is None
    y.grad = tx.ones(2)
    assert y.grad.tolist() == [1.0, 1.0]


def test_hooks_may_replace_gradients() -> None:
    x = leaf(1.0, 2.0)
    seen: list[Any] = []
    first = x.register_hook(lambda g: seen.append(g.tolist()))
    second = x.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    (x * 3).sum().backward()
    assert seen == [[3.0, 3.0]] and x.grad.tolist() == [31.0, 31.0]
    first()
    second()
    second()  # once more does nothing
    x.grad = None
    (x * 3).sum().backward()
    assert len(seen) == 1 and x.grad.tolist() == [4.0, 4.0]


def test_a_hook_sees_the_whole_gradient_once() -> None:
    x = leaf(2.0)
    y = x * 3
    seen: list[Any] = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 2)
    (y * y + y).sum().backward()
    assert seen == [[13.0]] and x.grad.tolist() == [78.0]


def test_a_hook_of_a_view_sees_its_part() -> None:
    x = leaf(1.0, 2.0, 3.0, 4.0)
    seen: list[Any] = []
    view = x[::-2]
    view.register_hook(lambda g: seen.append(g.tolist()))
    view.register_hook(lambda g: tx.zeros_like(g))
    (x * x).sum().backward()
    assert seen == [[8.0, 4.0]] and x.grad.tolist() == [2.0, 0.0, 6.0, 0.0]


@pytest.mark.parametrize("write", ["none", "untracked", "a step"])
def test_hooks_that_refer_to_their_leaf_do_not_keep_it_alive(write: str) -> None:
    def hooked() -> ref[Storage]:
        w = leaf(1.0, 2.0)
        w.register_hook(lambda g: g * w.detach())
        if write == "untracked":
            with tx.no_grad():
                w[0] = 3.0
        (w * 2.0).sum().backward()
        if write == "a step":
            tx.optim.SGD([w], lr=0.1).step()
        return ref(w.storage)

    its = hooked()
    gc.collect()
    assert its() is None


def test_leaf_keeps_its_gradient_across_tracked_writes() -> None:
    w = leaf(1.0, 2.0)
    w *= 3.0
    w *= 2.0
    gc.collect()
    (w * w).sum().backward()
    assert w.grad.tolist() == [72.0, 144.0] and not w.is_leaf
    with tx.no_grad():
        w[...] = tx.asarray([1.0, 1.0])
    assert w.is_leaf and w.grad.tolist() == [72.0, 144.0]
    (w * w).sum().backward()
    assert w.grad.tolist() == [74.0, 146.0]


def test_backward_frees_the_graph() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    loss = y.sum()
    loss.backward()
    with pytest.raises(DerivativeError, match=r"retain_graph=True, or compute the tensor again; .*tx.no_grad"):
        loss.backward()
    with pytest.raises(DerivativeError, match="retain_graph=True"):
        (y * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    kept = (x * x).sum()
    kept.backward(retain_graph=True)
    kept.backward(retain_graph=True)
    kept.backward()
    assert x.grad.tolist() == [8.0, 16.0]


def test_create_graph_allows_second_derivatives() -> None:
    x = leaf(2.0, 3.0)
    (x**3).sum().backward(create_graph=True)
    g = x.grad
    assert g.requires_grad
    x.grad = None
    (g * g).sum().backward()
    assert x.grad.tolist() == [2 * 12.0 * 12.0, 2 * 27.0 * 18.0]


def test_backward_accepts_tensor_and_complex_cotangents() -> None:
    x = leaf(1.0, 2.0)
    (x * x).backward(tx.asarray([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 40.0]
    z = tx.asarray([1 + 2j, 3 - 1j]).requires_grad_()
    (tx.abs(z) ** 2).sum().backward()
    assert np.allclose(z.grad.to_numpy(), [2 + 4j, 6 - 2j])
    z.grad = None
    (z * z).sum().backward(tx.asarray(1.0 + 0j))
    assert np.allclose(z.grad.to_numpy(), np.conj(2 * z.detach().to_numpy()))


def test_gradient_uses_shared_memory_values_at_the_operation() -> None:
    array = np.array([1.0, 2.0, 3.0])
    c = tx.asarray(array, copy=False)
    x = leaf(1.0, 1.0, 1.0)
    y = x * c
    array[:] = 100.0
    z = x * c
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0]
    z.sum().backward()
    assert x.grad.tolist() == [101.0, 102.0, 103.0]


def test_gradient_of_a_leaf_in_shared_memory_uses_values_at_the_operation() -> None:
    array = np.array([1.0, 2.0])
    x = tx.asarray(array, copy=False).requires_grad_()
    loss = (x * x).sum()
    array[:] = 50.0
    loss.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_gradient_of_an_exported_leaf_uses_values_at_the_operation() -> None:
    """The memory is exported before the tensor requires a gradient, and may change afterwards."""
    x = tx.asarray([1.0, 2.0])
    seen = np.from_dlpack(x)
    x.requires_grad_()
    loss = (x * x).sum()
    if seen.flags.writeable:
        seen[...] = 9.0
    loss.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_exports_of_tracked_tensors_are_copies() -> None:
    x = leaf(1.0, 2.0)
    y = (x * 2).realize()
    seen = np.array(y.to_numpy())
    copied = np.from_dlpack(y)
    assert copied.tolist() == seen.tolist()
    with pytest.raises((BufferError, ValueError), match="detach"):
        np.from_dlpack(y, copy=False)


def test_backward_gives_constants_no_gradient() -> None:
    x, w = leaf(1.0, 2.0), tx.asarray([3.0, 4.0])
    loss = (x * w).sum() + (w * w).sum()
    loss.backward()
    assert w.grad is None and x.grad.tolist() == [3.0, 4.0] and not (w * w).requires_grad


@pytest.mark.parametrize("place", ["before", "after"])
def test_realize_does_not_change_gradients(place: str) -> None:
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = (y * x).cumsum(axis=0)
    if place == "before":
        tx.realize(y, z)
    loss = (z * z).sum()
    loss.backward()
    e = np.exp([1.0, 2.0])
    total = e[0], e[0] + 2 * e[1]
    wanted = [2 * (total[0] + total[1]) * 2 * e[0], 2 * total[1] * 3 * e[1]]
    assert np.allclose(x.grad.to_numpy(), wanted)
    assert loss.item() == pytest.approx(total[0] ** 2 + total[1] ** 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tx.concat([x, x], axis=1),
        lambda x: tx.concat([x, x], axis=None),
        lambda x: tx.stack([x, x]),
        lambda x: tx.roll(x, 1, axis=0),
        lambda x: tx.pad(x, ((1, 1), (0, 0), (0, 2))),
        lambda x: tx.softmax(x, axis=1),
        lambda x: tx.log_softmax(x),
        lambda x: tx.logsumexp(x, axis=2),
    ],
)
def test_empty_tensors_have_gradients(function: Any) -> None:
    """So an empty batch goes through a program like any other."""
    x = tx.ones((2, 0, 3)).requires_grad_()
    function(x).sum().backward()
    assert x.grad.shape == (2, 0, 3)


def test_backward_accepts_a_tracked_cotangent() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x + 0.0).backward(y * y)
    assert x.grad.tolist() == [9.0, 16.0] and not x.grad.requires_grad and y.grad is None
    x.grad = None
    (x * 2.0).backward(y * y, create_graph=True)
    x.grad.sum().backward()
    assert y.grad.tolist() == [12.0, 16.0]


def test_write_under_no_grad_makes_a_result_constant() -> None:
    x = tx.asarray([1.0, 2.0]).requires_grad_()
    y = x * 2.0
    total = y.sum()
    with tx.no_grad():
        y[0] = 5.0
    assert y.tolist() == [5.0, 4.0] and not y.requires_grad
    (total + (y * x).sum()).backward()
    assert x.grad.tolist() == [7.0, 6.0]
