"""Optimisers compared with NumPy versions written from their papers; schedules; gradient clipping."""

from __future__ import annotations

from math import cos, pi
from typing import Any

import numpy as np
import pytest

import tenxor as tx

RNG = np.random.default_rng(2)
START = RNG.normal(size=(3, 4))
SCALE = RNG.random(size=(3, 4)) + 0.5


def gradient(x: Any) -> Any:
    """Return the gradient of sum(scale * x**4 / 4 + x * x)."""
    return SCALE * x**3 + 2 * x


def walked(optimizer: Any, x: Any, count: int) -> Any:
    for _ in range(count):
        optimizer.zero_grad()
        (tx.asarray(SCALE) * x**4 / 4 + x * x).sum().backward()
        optimizer.step()
    return x.to_numpy()


def sgd(count: int, lr: float, momentum: float, nesterov: bool, decay: float) -> Any:
    x, v = START.copy(), np.zeros_like(START)
    for _ in range(count):
        g = gradient(x) + decay * x
        v = momentum * v + g
        x = x - lr * (g + momentum * v if nesterov else v if momentum else g)
    return x


@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_matches_numpy(momentum: float, nesterov: bool) -> None:
    x = tx.nn.Parameter(START)
    optimizer = tx.optim.SGD([x], lr=0.05, momentum=momentum, nesterov=nesterov, weight_decay=0.1)
    np.testing.assert_allclose(walked(optimizer, x, 7), sgd(7, 0.05, momentum, nesterov, 0.1), rtol=1e-12)


def adam(count: int, lr: float, decay: float, decoupled: bool) -> Any:
    x, m, v = START.copy(), np.zeros_like(START), np.zeros_like(START)
    for k in range(1, count + 1):
        g = gradient(x) + (0.0 if decoupled else decay * x)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        step = lr * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
        x = x * (1 - lr * decay if decoupled else 1) - step
    return x


@pytest.mark.parametrize(("kind", "decoupled"), [(tx.optim.Adam, False), (tx.optim.AdamW, True)])
def test_adam_and_adamw_match_numpy(kind: Any, decoupled: bool) -> None:
    x = tx.nn.Parameter(START)
    np.testing.assert_allclose(walked(kind([x], lr=0.01, weight_decay=0.1), x, 9), adam(9, 0.01, 0.1, decoupled), rtol=1e-10)


def _seen(how: str) -> tuple[Any, Any]:
    """Return a parameter that begins as START, and the scale of its gradient, in some layout."""
    if how == "transposed":
        return tx.asarray(START.T.copy()).requires_grad_().T, SCALE
    if how == "a part":
        whole = tx.zeros((5, 8)).realize()
        whole[1:4, 2:6] = START
        return whole.requires_grad_()[1:4, 2:6], SCALE
    if how == "backwards":
        return tx.asarray(START[::-1, ::-1].copy()).requires_grad_()[::-1, ::-1], SCALE
    if how == "shared with NumPy":
        array = START.copy()
        return tx.asarray(array, copy=False).requires_grad_(), SCALE
    return tx.nn.Parameter(START), SCALE


@pytest.mark.parametrize("how", ["as it is", "transposed", "a part", "backwards", "shared with NumPy"])
def test_adamw_updates_parameters_of_any_layout(how: str) -> None:
    """The rate is 0 at times, and some parameters lack a gradient at times, so no recorded step may be reused wrongly."""
    (x, scale), other = _seen(how), tx.nn.Parameter(START[:1])
    optimizer = tx.optim.AdamW([x, other], lr=0.0, weight_decay=0.1)
    mine, m, v = START.copy(), np.zeros_like(START), np.zeros_like(START)
    for k in range(1, 7):
        lr = optimizer.groups[0]["lr"] = 0.01 * (k % 3)
        optimizer.zero_grad()
        loss = (tx.asarray(scale) * x**4 / 4 + x * x).sum()
        (loss + (other * 2.0).sum() if k % 2 else loss).backward()
        optimizer.step()
        g = gradient(mine)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        mine = mine * (1 - lr * 0.1) - lr * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
        np.testing.assert_allclose(x.to_numpy(), mine, rtol=1e-9)


def test_parameters_that_share_memory_are_updated_in_turn() -> None:
    whole = tx.asarray(START).requires_grad_()
    optimizer = tx.optim.SGD([whole[:2], whole[1:]], lr=0.1)
    (whole * whole).sum().backward()
    wanted, g = START.copy(), 2.0 * START
    optimizer.step()
    for part in (slice(0, 2), slice(1, 3)):
        wanted[part] -= 0.1 * g[part]
    np.testing.assert_allclose(whole.to_numpy(), wanted, rtol=1e-12)


def steps_with_late_gradient(optimizer: Any, first: Any, second: Any, count: int, since: int) -> Any:
    """Return the steps of an optimiser whose parameter `second` has a gradient from step `since` on."""
    for k in range(count):
        optimizer.zero_grad()
        loss = (first * first).sum()
        if k >= since:
            loss = loss + (tx.asarray(SCALE) * second**4 / 4 + second * second).sum()
        loss.backward()
        optimizer.step()
    return second.to_numpy()


@pytest.mark.parametrize(("kind", "decoupled"), [(tx.optim.Adam, False), (tx.optim.AdamW, True)])
def test_bias_correction_counts_steps_of_each_parameter(kind: Any, decoupled: bool) -> None:
    first, second = tx.nn.Parameter(START), tx.nn.Parameter(START)
    optimizer = kind([first, second], lr=0.01, weight_decay=0.1)
    np.testing.assert_allclose(steps_with_late_gradient(optimizer, first, second, 1004, 1000), adam(4, 0.01, 0.1, decoupled), rtol=1e-10)
    assert (optimizer.steps, optimizer.counts) == (1004, [1004, 4])


def test_optimizer_state_has_the_steps_of_each_parameter() -> None:
    first, second = tx.nn.Parameter(START), tx.nn.Parameter(START)
    optimizer = tx.optim.Adam([first, second], lr=0.01)
    steps_with_late_gradient(optimizer, first, second, 20, 18)
    state, values = optimizer.state_dict(), (first.to_numpy().copy(), second.to_numpy().copy())
    expected = steps_with_late_gradient(optimizer, first, second, 2, 0)
    again = [tx.nn.Parameter(x) for x in values]
    other = tx.optim.Adam(again)
    with pytest.raises(tx.errors.ArgumentError, match="counts the steps of 1 parameters, and this optimizer has 2"):
        other.load_state_dict({**state, "counts": [20]})
    with pytest.raises(tx.errors.ArgumentError, match="count 1 must be a whole number"):
        other.load_state_dict({**state, "counts": [20, "2"]})
    with pytest.raises(tx.errors.ArgumentError, match="count 1 is -1; it must be 0 or more"):
        other.load_state_dict({**state, "counts": [20, -1]})
    assert (other.steps, other.counts) == (0, [0, 0])
    other.load_state_dict(state)
    assert (steps_with_late_gradient(other, *again, 2, 0) == expected).all()
    assert other.counts == [22, 4]


def test_optimizer_state_without_counts_uses_the_total_steps() -> None:
    first, second, third = (tx.nn.Parameter(START) for _ in range(3))
    optimizer = tx.optim.Adam([first, second, third], lr=0.01)
    steps_with_late_gradient(optimizer, first, second, 5, 0)
    state = optimizer.state_dict()
    del state["counts"]
    other = tx.optim.Adam([tx.nn.Parameter(START) for _ in range(3)])
    other.load_state_dict(state)
    assert (other.steps, other.counts) == (5, [5, 5, 0])  # the last has not moved


def test_lion_matches_numpy() -> None:
    x, m = START.copy(), np.zeros_like(START)
    for _ in range(6):
        g = gradient(x)
        x, m = x * (1 - 0.01 * 0.1) - 0.01 * np.sign(0.9 * m + 0.1 * g), 0.99 * m + 0.01 * g
    own = tx.nn.Parameter(START)
    np.testing.assert_allclose(walked(tx.optim.Lion([own], lr=0.01, weight_decay=0.1), own, 6), x, rtol=1e-12)


def test_lbfgs_finds_the_minimum_of_a_quadratic_form() -> None:
    half = RNG.normal(size=(8, 8))
    form, line = half @ half.T + np.eye(8), RNG.normal(size=8)
    x = tx.nn.Parameter(np.zeros(8))
    optimizer = tx.optim.LBFGS([x])
    for _ in range(30):
        optimizer.step(lambda: (x @ tx.asarray(form) @ x) * 0.5 - (x * tx.asarray(line)).sum())
    np.testing.assert_allclose(x.to_numpy(), np.linalg.solve(form, line), rtol=1e-6, atol=1e-8)


def test_lbfgs_treats_complex_parameters_as_pairs_of_real_ones() -> None:
    """A real parameter of another dtype stands beside them."""
    far = tx.asarray([3 - 1j, 0.5j])

    def loss(z: Any, x: Any) -> Any:
        apart = tx.abs(z - far) ** 2
        return (apart * (1.0 + apart)).sum() + ((x - z.real.sum()) ** 2).sum()

    def walked(parameters: list[Any], closure: Any) -> list[float]:
        optimizer = tx.optim.LBFGS(parameters)
        return [optimizer.step(closure).item() for _ in range(25)]

    z, x = tx.nn.Parameter([1 + 2j, -1 + 0j]), tx.nn.Parameter(tx.asarray([[2.0]], dtype=tx.float32))
    re, im, y = tx.nn.Parameter([1.0, -1.0]), tx.nn.Parameter([2.0, 0.0]), tx.nn.Parameter(tx.asarray([[2.0]], dtype=tx.float32))
    found = walked([z, x], lambda: loss(z, x))
    np.testing.assert_allclose(found, walked([re, im, y], lambda: loss(re + im * 1j, y)), rtol=1e-6, atol=1e-12)
    assert found[-1] < 1e-6 * found[0] and np.allclose(z.to_numpy(), far.to_numpy(), atol=1e-3)


def test_lbfgs_never_increases_the_loss() -> None:
    x = tx.nn.Parameter([1.0])
    optimizer = tx.optim.LBFGS([x], lr=50.0, searches=1)
    losses = [optimizer.step(lambda: (x**4).sum()).item() for _ in range(3)]
    assert losses == [1.0] * 3 and x.tolist() == [1.0]  # each step tries one place, which is too far


@pytest.mark.parametrize("dtype", [tx.float16, tx.bfloat16], ids=str)
@pytest.mark.parametrize("kind", [tx.optim.SGD, tx.optim.Adam, tx.optim.AdamW, tx.optim.Lion])
def test_narrow_parameters_are_updated_in_float32_and_rounded(kind: Any, dtype: Any) -> None:
    """Some gradients are 0, some 600: their squares underflow or overflow in float16."""
    start, scale = tx.asarray([1.0, -2.0, 0.5, 3.0]), tx.asarray([1.0, 0.01, 0.0, 100.0])
    numbers = {"momentum": 0.9} if kind is tx.optim.SGD else {}
    x = tx.nn.Parameter(start.astype(dtype))
    optimizer = kind([x], lr=0.01, **numbers)
    for step in range(20):
        wide = tx.nn.Parameter(x.detach().astype(tx.float32))
        other = kind([wide], lr=0.01, **numbers)
        if step:
            other.load_state_dict(optimizer.state_dict())
        for t in (x, wide):
            t.grad = (x.detach() * scale.astype(dtype) * 2.0).astype(t.dtype)
        optimizer.step()
        other.step()
        assert x.dtype is dtype and x.tolist() == wide.astype(dtype).tolist()
    assert all(t.dtype is tx.float32 for t in optimizer.state[0].values()) and x[2].item() <= 0.5
    again = kind([tx.nn.Parameter(start)], lr=0.01, **numbers)
    again.load_state_dict(optimizer.state_dict())  # of a wider dtype: it goes on with that
    again.parameters[0].grad = scale
    again.step()
    assert all(t.dtype is tx.float64 for t in again.state[0].values())


def test_clip_grad_norm_of_narrow_floats_is_accurate() -> None:
    x = tx.nn.Parameter(tx.asarray([1.0, 2.0], dtype=tx.float16))
    (x * 600.0).sum().backward()
    assert tx.optim.clip_grad_norm([x], 1.0).item() == pytest.approx(600 * np.sqrt(2), rel=1e-6)
    assert x.grad is not None and np.allclose(x.grad.to_numpy(), np.sqrt(0.5), rtol=1e-3)


def test_groups_have_their_own_rate_and_parameters_without_gradient_stay() -> None:
    a, b, c = (tx.nn.Parameter([1.0]) for _ in range(3))
    optimizer = tx.optim.SGD([{"params": [a], "lr": 0.5}, {"params": [b, c]}], lr=0.1)
    (a + b).sum().backward()
    optimizer.step()
    assert (a.tolist(), b.tolist(), c.tolist()) == ([0.5], [0.9], [1.0])


def test_parameter_frozen_later_stays_unchanged() -> None:
    first, second = (tx.nn.Parameter(tx.ones(2)) for _ in range(2))
    optimizer = tx.optim.SGD([first, second], lr=0.5)
    first.requires_grad_(False)
    for _ in range(2):
        optimizer.zero_grad()
        (first * second).sum().backward()
        optimizer.step()
    assert first.tolist() == [1.0, 1.0] and second.tolist() == [0.0, 0.0]
    first.requires_grad_()
    optimizer.zero_grad()
    assert first.grad is None and second.grad is None


@pytest.mark.parametrize("history", [1, 2, 3])
def test_lbfgs_remembers_as_many_steps_as_asked(history: int) -> None:
    x = tx.nn.Parameter([-1.2, 1.0, 0.5])
    optimizer = tx.optim.LBFGS([x], history=history)
    for _ in range(6):
        optimizer.step(lambda: ((1.0 - x) ** 2).sum() + 100.0 * ((x[1:] - x[:-1] ** 2) ** 2).sum())
    assert len(optimizer.state_dict()["history"]) == history


def test_lbfgs_resumes_from_its_state_bit_for_bit() -> None:
    def walked(optimizer: Any, x: Any) -> list[Any]:
        losses = [optimizer.step(lambda: ((1.0 - x) ** 2).sum() + 100.0 * ((x[1:] - x[:-1] ** 2) ** 2).sum()).item() for _ in range(4)]
        return [losses, x.tolist()]

    x = tx.nn.Parameter([-1.2, 1.0, 0.5])
    optimizer = tx.optim.LBFGS([x], history=3)
    walked(optimizer, x)
    state, again = optimizer.state_dict(), tx.nn.Parameter(x.to_numpy())
    expected = walked(optimizer, x)
    other = tx.optim.LBFGS([again], lr=7.0, history=3)
    other.load_state_dict(state)
    assert walked(other, again) == expected


@pytest.mark.parametrize("kind", [tx.optim.SGD, tx.optim.AdamW, tx.optim.Lion])
def test_optimizer_resumes_from_its_state_bit_for_bit(kind: Any) -> None:
    numbers = {"momentum": 0.9} if kind is tx.optim.SGD else {}
    x = tx.nn.Parameter(START)
    optimizer = kind([x], lr=0.01, **numbers)
    walked(optimizer, x, 3)
    state, values = optimizer.state_dict(), x.to_numpy()
    expected = walked(optimizer, x, 3)
    again = tx.nn.Parameter(values)
    other = kind([again], lr=7.0, **numbers)
    other.load_state_dict(state)
    assert (walked(other, again, 3) == expected).all()


def test_parameters_stay_leaves_and_their_views_see_a_step() -> None:
    x = tx.nn.Parameter(START)
    row = x[1]
    walked(tx.optim.AdamW([x]), x, 2)
    assert x.is_leaf and x.requires_grad
    assert (row.to_numpy() == x.to_numpy()[1]).all()


def test_invalid_parameters_and_states_raise() -> None:
    with pytest.raises(tx.errors.ArgumentError, match="requires no gradient"):
        tx.optim.SGD([tx.ones(3)])
    with pytest.raises(tx.errors.ArgumentError, match="no parameters"):
        tx.optim.SGD([])
    x = tx.nn.Parameter([1.0])
    with pytest.raises(tx.errors.ArgumentError, match="twice"):
        tx.optim.SGD([x, x])
    with pytest.raises(tx.errors.ArgumentError, match="must be a function"):
        tx.optim.LBFGS([x]).step()
    with pytest.raises(tx.errors.ArgumentError, match="has 0 parameters; it must have 1, as the optimizer"):
        tx.optim.SGD([x]).load_state_dict({"steps": 1, "groups": [{}], "state": []})


def test_clip_grad_norm_and_value_bound_gradients() -> None:
    x, y = tx.nn.Parameter([3.0, 0.0]), tx.nn.Parameter([4.0])
    (x * x / 2).sum().backward()
    (y * y / 2).sum().backward()
    assert tx.optim.clip_grad_norm([x, y], 2.5).item() == 5.0
    assert x.grad is not None and y.grad is not None
    np.testing.assert_allclose([*x.grad.tolist(), *y.grad.tolist()], [1.5, 0.0, 2.0], rtol=1e-6)
    tx.optim.clip_grad_value([x, y], 1.0)
    np.testing.assert_allclose([*x.grad.tolist(), *y.grad.tolist()], [1.0, 0.0, 1.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (lambda o: tx.optim.cosine(o, 10), lambda k: 0.5 * (1 + cos(pi * min(k, 10) / 10))),
        (lambda o: tx.optim.linear(o, 10, end=0.2), lambda k: 1 - 0.8 * min(k, 10) / 10),
        (lambda o: tx.optim.exponential(o, 0.9), lambda k: 0.9**k),
        (lambda o: tx.optim.steps(o, 4, 0.5), lambda k: 0.5 ** (k // 4)),
        (lambda o: tx.optim.constant_with_warmup(o, 4), lambda k: min(1, (k + 1) / 5)),
    ],
)
def test_schedules_follow_their_formulas(schedule: Any, expected: Any) -> None:
    optimizer = tx.optim.SGD([tx.nn.Parameter([1.0])], lr=2.0)
    own = schedule(optimizer)
    rates = []
    for _ in range(13):
        rates.append(optimizer.groups[0]["lr"])
        own.step()
    np.testing.assert_allclose(rates, [2 * expected(k) for k in range(13)], rtol=1e-12)


@pytest.mark.parametrize(("total", "rise"), [(10, 0.3), (7, 0.5), (50, 0.1), (4, 1.0), (1, 0.3)])
def test_one_cycle_has_the_rates_of_pytorch(total: int, rise: float) -> None:
    """In the closed form of `OneCycleLR`, the first phase ends at step `rise * total - 1`, the second at `total - 1`."""
    optimizer = tx.optim.SGD([tx.nn.Parameter([1.0])], lr=2.0)
    schedule, peak = tx.optim.one_cycle(optimizer, total, rise=rise), rise * total - 1
    for step in range(total + 2):
        if step <= peak:
            wanted = 0.08 + 1.92 * (1 - cos(pi * step / peak)) / 2
        else:
            done = min((step - peak) / (total - 1 - peak), 1) if total - 1 > peak else 1
            wanted = 2e-4 + (2 - 2e-4) * (1 + cos(pi * done)) / 2
        np.testing.assert_allclose(optimizer.groups[0]["lr"], wanted, rtol=1e-9, err_msg=f"{step}")
        schedule.step()


def test_one_cycle_refuses_totals_beyond_exact_floats() -> None:
    for total in (10**20, 10**400):
        with pytest.raises(tx.errors.ArgumentError, match=r"one_cycle: total is .* at most 9007199254740992"):
            tx.optim.one_cycle(tx.optim.SGD([tx.nn.Parameter([1.0])]), total)


def test_parameters_must_be_a_list_and_rates_nonnegative() -> None:
    x = tx.nn.Parameter([1.0, 2.0])
    with pytest.raises(tx.errors.ArgumentError, match="params must be a list, not a tensor"):
        tx.optim.SGD(x)
    for kind, name in ((tx.optim.SGD, "momentum"), (tx.optim.AdamW, "weight_decay"), (tx.optim.Adam, "eps"), (tx.optim.LBFGS, "lr")):
        with pytest.raises(tx.errors.ArgumentError, match=f"{name} is -0.5; it must be 0 or more"):
            kind([x], **{name: -0.5})
    with pytest.raises(tx.errors.ArgumentError, match=r"lr is -1\.0"):
        tx.optim.SGD([{"params": [x], "lr": -1.0}])


@pytest.mark.parametrize("kind", [tx.optim.SGD, tx.optim.Adam, tx.optim.AdamW, tx.optim.Lion])
def test_updates_of_complex_parameters_commute_with_rotation(kind: Any) -> None:
    """On the real axis they equal the updates of real parameters."""

    def trained(x: Any) -> Any:
        optimizer = kind([x], lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            (x * x.conj()).real.sum().backward()
            optimizer.step()
        return x.to_numpy()

    sizes, turn = np.array([1.0, 0.5, 2.0]), np.exp(1j * np.array([0.0, 0.8, -2.0]))
    found, wanted = trained(tx.nn.Parameter(sizes * turn)), trained(tx.nn.Parameter(sizes))
    np.testing.assert_allclose(found / turn, wanted, rtol=1e-7, atol=1e-12)


def test_optimizer_rejects_a_computed_tensor_as_parameter() -> None:
    with pytest.raises(tx.errors.ArgumentError, match="computed from others"):
        tx.optim.SGD([tx.nn.Parameter([1.0]) * 2.0])


def test_lbfgs_closure_may_compute_the_gradients_itself() -> None:
    x = tx.nn.Parameter([-1.2, 1.0])
    optimizer = tx.optim.LBFGS([x])

    def closure() -> tx.Tensor:
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    for _ in range(40):
        optimizer.step(closure)
    assert bool((abs(x - 1.0) < 1e-6).all())
