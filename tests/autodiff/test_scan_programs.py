"""Random steps of `scan` compared with the loop in Python; and steps with unusual layouts or operations."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx

RNG = np.random.default_rng(1)


def python_loop(step: Any, state: Any, xs: Any, reverse: bool = False) -> Any:
    """Run the loop in Python, for lists of states, sequences and results; a step writes only to its own copies."""
    count = xs[0].shape[0]
    ys: list[Any] = [None] * count
    for t in reversed(range(count)) if reverse else range(count):
        state, ys[t] = step([s.copy() for s in state], [x[t].copy() for x in xs])
    return state, [tx.stack(its) for its in zip(*ys, strict=True)]


def close(found: Any, wanted: Any, tolerance: float) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=tolerance, atol=tolerance)


# --- steps that are drawn -----------------------------------------------------------------------------------------------


def _floats(t: Any) -> bool:
    return bool(t.dtype in (tx.float64, tx.float32))


def _smooth(t: Any) -> bool:
    return _floats(t) or bool(t.dtype is tx.complex128)


def _bounded(t: Any) -> Any:
    return tx.tanh(t) if _floats(t) else t / (1 + tx.abs(t) ** 2)


def _of_one(rng: random.Random, pool: list[Any]) -> Any:
    t = rng.choice([t for t in pool if _floats(t)])
    functions: list[Callable[[Any], Any]] = [tx.sin, tx.sigmoid, tx.relu, lambda t: t * 0.5, lambda t: t * t * 0.25]
    functions.append(lambda t: tx.exp(-tx.abs(t)))
    return rng.choice(functions)(t)


def _of_two(rng: random.Random, pool: list[Any]) -> Any:
    one, other = rng.choice([t for t in pool if _smooth(t)]), rng.choice([t for t in pool if _smooth(t)])
    try:
        np.broadcast_shapes(one.shape, other.shape)
    except ValueError:
        return one
    both = _floats(one) and _floats(other)
    functions: list[Callable[[Any, Any], Any]] = [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b]
    functions += [lambda a, b: tx.where(a > b, a, b * 0.5), tx.maximum] if both else []
    return _bounded(rng.choice(functions)(one, other))


def _sum(rng: random.Random, pool: list[Any]) -> Any:
    t = rng.choice([t for t in pool if _floats(t)])
    if not t.ndim:
        return t
    axis, keep = rng.randrange(t.ndim), rng.random() < 0.5
    functions = [lambda t: t.sum(axis=axis, keepdims=keep), lambda t: tx.softmax(t, axis=axis), lambda t: tx.cumulative_sum(t, axis=axis)]
    functions += [lambda t: t.max(axis=axis, keepdims=keep)] if t.shape[axis] else []
    return tx.tanh(rng.choice(functions)(t))


def _product(rng: random.Random, pool: list[Any]) -> Any:
    matrices = [t for t in pool if _floats(t) and t.ndim == 2]
    pairs = [(a, b) for a in matrices for b in matrices if a.shape[1] in b.shape and a.dtype is b.dtype]
    if not pairs:
        return pool[0]
    one, other = rng.choice(pairs)
    return tx.tanh(one @ (other if other.shape[0] == one.shape[1] else other.T) * 0.3)


def _view(rng: random.Random, pool: list[Any]) -> Any:
    t = rng.choice(pool)
    if not t.ndim or not t.shape[0] or not t.shape[-1]:
        return t
    functions: list[Callable[[Any], Any]] = [lambda t: tx.flip(t, axis=0), lambda t: t[::2], lambda t: t[..., -1]]
    functions += [lambda t: tx.roll(t, 1, axis=0), lambda t: t.reshape(t.size), lambda t: t.moveaxis(0, -1)]
    functions.append(lambda t: tx.concat([t, t])[1:])
    return rng.choice(functions)(t)


def _written(rng: random.Random, pool: list[Any]) -> Any:
    t = rng.choice([t for t in pool if _smooth(t)])
    t = t.copy() if rng.random() < 0.5 else t * 1
    kind = rng.randrange(4)
    if kind == 0 or not t.ndim or not t.shape[0]:
        t *= 0.75
    elif kind == 1:
        t[-1] = t[0] * 0.5
    elif kind == 2:
        t[::2] += 0.125
    else:
        view = t.T if t.ndim == 2 else t[::-1]
        if view.shape[0]:
            view[0] = view[-1] * 0.5
    return t


def _first_argument(rng: random.Random, pool: list[Any]) -> Any:
    """Return the first argument of the step, half of the time after a write in place."""
    if _smooth(pool[0]):
        pool[0] *= 0.5
    return pool[0]


def _constant(rng: random.Random, pool: list[Any]) -> Any:
    if rng.random() < 0.5:
        return tx.full(rng.choice([(), (1, 3)]), rng.choice([0.5, -0.0, 2.0]))
    t = rng.choice([t for t in pool if _smooth(t)])
    with tx.no_grad():
        return t.detach() * 0.5 if rng.random() < 0.5 else _bounded(t * 1.5)


def _bits(rng: random.Random, pool: list[Any]) -> Any:
    t = rng.choice([t for t in pool if _floats(t)]).astype(tx.float64)
    own = t * 1
    found = own.view(tx.int64) & 1023
    if own.ndim and own.shape[0]:
        own[:1] = 0.5
        pool.append(own)
    return found


def _derivative(rng: random.Random, pool: list[Any]) -> Any:
    return tx.grad(lambda t: (tx.sin(t) * t).sum())(rng.choice([t for t in pool if _floats(t)]))


def _member_by_member(rng: random.Random, pool: list[Any]) -> Any:
    """Return the result of an operation that batches run member by member."""
    t = rng.choice([t for t in pool if _floats(t)])
    if not t.ndim or rng.random() < 0.5:
        return tx.checkpoint(lambda t: tx.sin(t) * t, t)
    return tx.sort(t)


USUAL: list[Callable[[random.Random, list[Any]], Any]] = [_of_one, _of_one, _of_two, _of_two, _sum, _product, _product, _view, _written]
SELDOM = [(_first_argument, 0.3), (_constant, 0.5), (_bits, 0.2), (_derivative, 0.2), (_member_by_member, 0.1)]


class RandomLoop:
    """A random loop: states, sequences, captured tensors, and a step that is the same at each call."""

    def __init__(self, seed: int) -> None:
        rng, values = random.Random(seed), np.random.default_rng(seed)
        rows, columns = rng.choice([(0, 3), (1, 1), (2, 3), (3, 2), (3, 5), (16, 64)])
        shapes = [(), (columns,), (rows, columns), (columns, columns), (1, columns), (rows, 1)]
        dtypes = rng.choice([["f8"], ["f8"], ["f4"], ["f8", "f4", "i8", "?"], ["f8", "c16"]])
        self.tolerance = 5e-3 if "f4" in dtypes else 1e-7

        def tensors(most: int, lead: tuple[int, ...] = ()) -> list[Any]:
            found = []
            for _ in range(rng.randint(1, most)):
                x = values.normal(size=(*lead, *rng.choice(shapes)))
                dtype = rng.choice(dtypes)
                found.append(tx.asarray(np.asarray(x + 1j * x[..., ::-1] if dtype == "c16" and x.ndim else x * 2).astype(dtype)))
            return found

        self.turns = rng.choice([1, 1, 2, 3, 7, 20])
        self.state, self.xs, self.captured = tensors(3), tensors(2, (self.turns,)), [tx.asarray(0.25), *tensors(3)]
        self.captured += [self.state[0], self.xs[0][0]] if rng.random() < 0.3 else []
        if rng.random() < 0.2:
            self.state.append(self.state[0])
        if rng.random() < 0.3:
            self.xs[0] = self.xs[0].moveaxis(0, -1).copy().moveaxis(-1, 0)
        self.reverse, self.count, self.seed = rng.random() < 0.4, rng.choice([1, 3, 6, 12]), rng.randrange(1 << 30)
        self.kinds = USUAL + [kind for kind, likely in SELDOM if rng.random() < likely]
        self.given = [*self.state, *self.xs, *self.captured]
        self.by = rng.sample(own := [k for k, t in enumerate(self.given) if _smooth(t)], rng.randint(1, len(own)))

    def step(self, state: list[Any], x: list[Any], captured: list[Any]) -> tuple[list[Any], list[Any]]:
        rng, pool = random.Random(self.seed), [*state, *x, *captured]
        for _ in range(self.count):
            new = rng.choice(self.kinds)(rng, pool)
            if new.size <= 1200:
                pool.append(new)
        found = []
        for first in self.state:
            alike = [t for t in pool if t.shape == first.shape and t.dtype is first.dtype]
            new = rng.choice(alike) if alike else _bounded(pool[0].astype(tx.float64).sum()).expand(first.shape).astype(first.dtype)
            found.append(new)
        return found, [rng.choice(pool) for _ in range(rng.randrange(4))]

    def run(self, loop: Any, given: list[Any]) -> list[Any]:
        a, b = len(self.state), len(self.state) + len(self.xs)
        last, ys = loop(lambda s, x: self.step(s, x, given[b:]), given[:a], given[a:b], reverse=self.reverse)
        return [*last, *ys]

    def value(self, loop: Any, *own: Any) -> Any:
        given = list(self.given)
        for k, t in zip(self.by, own, strict=True):
            given[k] = t
        total = tx.asarray(0.0)
        for t in self.run(loop, given):
            if _smooth(t):
                t = tx.real(t) * 0.5 + tx.imag(t) if t.dtype is tx.complex128 else t.astype(tx.float64)
                total = total + (tx.sin(t) * tx.cos(tx.arange(float(t.size))).reshape(t.shape)).sum()
        return total


@pytest.mark.parametrize("seed", range(24))
def test_random_scan_steps_match_the_loop(seed: int) -> None:
    drawn = RandomLoop(seed)
    close(drawn.run(tx.scan, drawn.given), drawn.run(python_loop, drawn.given), drawn.tolerance)
    own = [drawn.given[k] for k in drawn.by]
    by_all = tuple(range(len(own)))
    found, wanted = (tx.grad(lambda *a, loop=loop: drawn.value(loop, *a), argnums=by_all)(*own) for loop in (tx.scan, python_loop))
    close(found, wanted, drawn.tolerance)


@pytest.mark.parametrize("seed", range(100, 106))
def test_second_derivatives_of_random_scan_steps_match_the_loop(seed: int) -> None:
    drawn = RandomLoop(seed)
    own = [drawn.given[k] for k in drawn.by]
    by_all = tuple(range(len(own)))

    def second(loop: Any) -> Any:
        first = tx.grad(lambda *a: drawn.value(loop, *a), argnums=by_all)
        return tx.grad(lambda *a: sum((tx.real(g) ** 2).sum() for g in first(*a)), argnums=by_all)(*own)

    close(second(tx.scan), second(python_loop), drawn.tolerance * 100)


# --- single ones --------------------------------------------------------------------------------------------------------


def test_scan_state_may_be_computed_from_a_captured_node() -> None:
    for _ in range(2):
        half = tx.full((3,), 0.5)
        begin = half + 1.0
        last, ys = tx.scan(lambda s, x: (s * half + x, half), begin, tx.ones((2, 3)))  # noqa: B023
        assert last.tolist() == [1.875] * 3 and ys.tolist() == [[0.5] * 3] * 2
        gradient = tx.grad(lambda s: tx.scan(lambda s, x: (s * half + x, half), s, tx.ones((2, 3)))[0].sum())(half + 1.0)  # noqa: B023
        assert gradient.tolist() == [0.25] * 3


def test_scan_step_reads_a_reinterpreted_view_before_the_write() -> None:
    xs = tx.asarray(RNG.normal(size=(3, 300)))

    def step(s: Any, x: Any) -> Any:
        z = tx.exp(s) + tx.exp(x)
        bits = z.view(tx.int64).reshape(3, 100).sum(axis=0)
        z[0] = 5.0
        return s + x, (bits, z)

    _, (bits, z) = tx.scan(step, tx.zeros(300), xs)
    state = np.zeros(300)
    for t, x in enumerate(np.asarray(xs)):
        own = np.asarray(tx.exp(tx.asarray(state)) + tx.exp(tx.asarray(x)))
        assert bits[t].tolist() == own.view(np.int64).reshape(3, 100).sum(axis=0).tolist()
        own[0], state = 5.0, state + x
        assert z[t].tolist() == own.tolist()


def test_hessian_of_a_scan_step_that_writes_to_its_slice() -> None:
    def step(s: Any, x: Any) -> Any:
        x[0] = s
        return (x**3).sum() * 0.1, x

    def plain(xs: Any) -> Any:
        s, total = tx.asarray(1.0), tx.asarray(0.0)
        for x in xs:
            x = x.copy()
            s, y = step(s, x)
            total = total + (y**2).sum()
        return total + s

    def scanned(xs: Any) -> Any:
        last, ys = tx.scan(step, tx.asarray(1.0), xs)
        return last + (ys**2).sum()

    xs = tx.asarray(RNG.normal(size=(3, 4)))
    close([tx.hessian(scanned)(xs)], [tx.hessian(plain)(xs)], 1e-10)


def test_scan_of_thousands_of_steps_matches_numpy() -> None:
    """Arguments are prepared for a thousand steps at a time."""
    xs = RNG.normal(size=2600)
    last, sums = tx.scan(lambda s, x: (s + x, s + x), tx.asarray(0.0), tx.asarray(xs))
    np.testing.assert_allclose(np.asarray(sums), np.cumsum(xs), rtol=1e-11, atol=1e-11)
    assert last.item() == sums[-1].item()
    gradient = tx.grad(lambda xs: tx.scan(lambda s, x: (s + x * x, None), tx.asarray(0.0), xs)[0])(tx.asarray(xs))
    np.testing.assert_allclose(np.asarray(gradient), 2 * xs)


@pytest.fixture
def two_threads(threads: Callable[[int], None]) -> None:
    threads(2)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that send signals")
@pytest.mark.usefixtures("two_threads")
def test_signal_handlers_run_during_a_long_scan_step() -> None:
    big = tx.asarray(RNG.normal(size=(1200, 1200)))
    heard, is_over = list[float](), False

    def handler(*_: object) -> None:
        heard.append((big[:300] @ big).sum().item())  # which threads share, too
        if not is_over:  # a late alarm must not set another, which would end the process
            signal.setitimer(signal.ITIMER_REAL, 0.005)

    assert threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGALRM, handler)
    step = lambda s, x: (tx.tanh(tx.sin(tx.tanh(s @ big @ big)) @ big) * x, None)
    try:
        tx.scan(step, big, tx.ones(1))[0].realize()
        heard.clear()
        signal.setitimer(signal.ITIMER_REAL, 0.005)
        tx.scan(step, big, tx.ones(1))[0].realize()
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(heard) > 2 and len(set(heard)) == 1
