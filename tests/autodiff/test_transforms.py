"""Functions that draw random numbers and write in place, under each transform, beside plain loops.

Each function of DRAWS is linear in `x`, so its matrix follows from plain calls on unit vectors with the same seed. Derivatives, batches
and scans must have the same matrix: then whatever a transform calls again draws the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.api import scan_function
from tenxor.autodiff import scan_iteration
from tenxor.errors import DerivativeError, IndexOutOfRange, TraceError

F = tx.nn.functional
N, SEED, BATCH = 4, 5, 3
Array = np.ndarray[Any, Any]
STATES = ("lazy", "in memory", "fast path")


@contextmanager
def state_of(state: str) -> Iterator[Callable[[Any], Any]]:
    """Return a function that makes a tensor in this state from an array."""
    if state == "fast path":
        fastpath.start()
    with nullcontext() if state == "fast path" else fastpath.disabled():
        if state == "lazy":
            yield lambda a: tx.asarray(np.array(a)) * 1
        else:
            yield lambda a: (tx.asarray(np.array(a)) * 1).realize()


def wide(x: Any, source: Any) -> Any:
    """Draw for more elements than those whose counters are kept in memory."""
    return x * source.normal(shape=(100, N)).sum(axis=0)


def shuffled(x: Any, source: Any) -> Any:
    x = x * 1.0
    source.shuffle(x)
    return x


def in_place(x: Any, source: Any) -> Any:
    y = x * 1.0
    y[1:] *= source.uniform(1.0, 2.0, N - 1)
    y += F.dropout(x, 0.3, generator=None if source is tx.random else source)
    return y


def in_a_scan(x: Any, source: Any) -> Any:
    return tx.scan(lambda s, t: (s * source.random() + t, None), x * 0.0, tx.stack([x, x * 2.0]))[0]


doubled = tx.custom_derivative(lambda x: x * 2.0, lambda g, value, x: g * 2.0)
DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "dropout": lambda x, source: F.dropout(x, 0.5, generator=None if source is tx.random else source),
    "two draws": lambda x, source: x * source.normal(shape=N) + x[::-1] * source.random(),
    "wide": wide,
    "integers": lambda x, source: x * source.integers(0, 9, N).astype(tx.float64),
    "a permutation": lambda x, source: x[source.permutation(N)],
    "a choice": lambda x, source: x[source.choice(N, N, replace=False)] * source.choice(tx.asarray([1.0, 2.0]), N),
    "a shuffle": shuffled,
    "in place": in_place,
    "a module": lambda x, source: tx.nn.Dropout(0.5, generator=None if source is tx.random else source)(x),
    "a generator made inside": lambda x, source: x * tx.random.Generator(3).random(N) * source.random(N),
    "a copied generator": lambda x, source: x * copy(source).random(N) if source is not tx.random else x,
    "a checkpoint": lambda x, source: tx.checkpoint(lambda y: F.dropout(tx.checkpoint(wide, y, source), 0.4) * source.random(), x),
    "a step of its own": lambda x, source: doubled(x * source.random(N)) * source.random(N),
    "drawn within a step": lambda x, source: tx.custom_derivative(lambda y: y * source.random(N), lambda g, value, y: g * value / y)(x),
    "in a scan": in_a_scan,
}
SOURCES = ("global", "explicit")
WEIGHTS, TANGENT = np.arange(1.0, N + 1), np.linspace(0.5, 2.0, N)


def source_of(name: str) -> tuple[Any, Callable[[], None]]:
    """Return a source of random numbers, and a function that resets all generators."""
    explicit = tx.random.Generator(SEED)

    def reset() -> None:
        explicit.seed(SEED)
        tx.random.seed(SEED)

    return (tx.random if name == "global" else explicit), reset


def plain_matrix(function: Callable[[Any], Any], reset: Callable[[], None]) -> Array:
    """Return the matrix of a linear function, by plain calls."""
    columns = []
    for unit in np.eye(N):
        reset()
        columns.append(function(tx.asarray(unit)).to_numpy())
    return np.stack(columns, axis=-1)


# Each: what a transform gives for a function at `x`, and the same of its matrix. A derivative of a square calls a step's way back again.
Transform = tuple[Callable[[Any, Any], Any], Callable[[Array, Array], Array]]
weighted = lambda f: lambda x: (f(x) * tx.asarray(WEIGHTS)).sum()
squared = lambda f: lambda x: (f(x) ** 2).sum()
saving = lambda f: lambda x: tx.checkpoint(lambda y: f(tx.sin(y)), x)


def by_backward(function: Any, x: Any) -> Any:
    x = x.requires_grad_()
    weighted(function)(x).backward()
    return x.grad


TRANSFORMS: dict[str, Transform] = {
    "no transform": (lambda f, x: f(x), lambda m, x: m @ x),
    "grad": (lambda f, x: tx.grad(weighted(f))(x), lambda m, x: m.T @ WEIGHTS),
    "backward": (by_backward, lambda m, x: m.T @ WEIGHTS),
    "vjp": (lambda f, x: tx.vjp(f, x)[1](tx.asarray(WEIGHTS))[0], lambda m, x: m.T @ WEIGHTS),
    "jvp": (lambda f, x: tx.jvp(f, [x], [tx.asarray(TANGENT)])[1], lambda m, x: m @ TANGENT),
    "jacobian in reverse": (lambda f, x: tx.jacobian(f, mode="reverse")(x), lambda m, x: m),
    "jacobian forwards": (lambda f, x: tx.jacobian(f, mode="forward")(x), lambda m, x: m),
    "hessian": (lambda f, x: tx.hessian(squared(f))(x), lambda m, x: 2 * m.T @ m),
    "checkpoint": (lambda f, x: saving(f)(x), lambda m, x: m @ np.sin(x)),
    "grad of checkpoint": (lambda f, x: tx.grad(weighted(saving(f)))(x), lambda m, x: m.T @ WEIGHTS * np.cos(x)),
    "jacobian of checkpoint": (lambda f, x: tx.jacobian(saving(f), mode="reverse")(x), lambda m, x: m * np.cos(x)),
    "jvp of checkpoint": (lambda f, x: tx.jvp(saving(f), [x], [tx.asarray(TANGENT)])[1], lambda m, x: m @ (np.cos(x) * TANGENT)),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", DRAWS)
def test_transforms_of_functions_that_draw_match_the_matrix_of_one_call(name: str, kind: str) -> None:
    source, reset = source_of(kind)
    function = lambda x: DRAWS[name](x, source)
    matrix, at = plain_matrix(function, reset), np.linspace(-1.0, 1.0, N)
    for transform, (run, wanted) in TRANSFORMS.items():
        for state in STATES:
            with state_of(state) as given:
                for call in range(2):
                    reset()
                    found = run(function, given(at)).to_numpy()
                    np.testing.assert_allclose(found, wanted(matrix, at), 1e-12, 1e-12, err_msg=f"{transform}, {state}, call {call}")


def run_loop(function: Any, xs: Any, scan: bool) -> tuple[Any, Any]:
    """Return the last state and all results of a step that calls the function, by `tenxor.scan` or by a loop."""

    def step(total: Any, x: Any) -> tuple[Any, Any]:
        y = function(x)
        return total * 0.5 + y, y

    if scan:
        return tx.scan(step, tx.zeros(N), xs)
    total, ys = tx.zeros(N), []
    for x in xs:
        total, y = step(total, x)
        ys.append(y)
    return total, tx.stack(ys)


def loss_over(function: Any, xs: Any, scan: bool) -> Any:
    total, ys = run_loop(function, xs, scan)
    return (total * tx.asarray(WEIGHTS)).sum() + (ys * ys).sum()


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", DRAWS)
def test_scan_draws_the_random_numbers_of_a_loop(name: str, kind: str) -> None:
    rows = np.arange(1.0, BATCH * N + 1).reshape(BATCH, N) / 7.0
    source, reset = source_of(kind)

    def results(xs: Any, scan: bool) -> list[Array]:
        reset()
        total, ys = run_loop(lambda x: DRAWS[name](x, source), xs, scan)
        after = source.random()  # the generator goes on where a loop leaves it
        reset()
        slopes = tx.grad(lambda xs: loss_over(lambda x: DRAWS[name](x, source), xs, scan))(xs)
        return [t.to_numpy() for t in (total, ys, after, slopes)]

    wanted = results(tx.asarray(rows), False)
    for state in STATES:
        with state_of(state) as given:
            for _ in range(2):
                for found, its in zip(results(given(rows), True), wanted, strict=True):
                    np.testing.assert_allclose(found, its, 1e-12, 1e-12, err_msg=state)


def test_scan_traces_a_step_that_draws_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """New seeds and streams are arguments of the loop that the first call prepared."""
    monkeypatch.setattr(scan_function._Loop, "run_stepwise", lambda self: pytest.fail("it was called for each step"))
    made: list[object] = []
    own = scan_iteration.CompiledIteration.__init__
    monkeypatch.setattr(scan_iteration.CompiledIteration, "__init__", lambda self, *given: made.append(given) or own(self, *given))  # type: ignore[func-returns-value]

    def last(x: Any, generator: Any) -> Any:
        return tx.scan(lambda s, t: (F.dropout(s + t, 0.5, generator=generator) * generator.normal(), None), x, tx.ones((5, 7)))[0].sum()

    slopes = [tx.grad(last)(tx.ones(7), tx.random.Generator(seed)).tolist() for seed in range(4)]
    assert len(made) == 1 and slopes[0] != slopes[1]


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", DRAWS)
def test_vmap_gives_each_element_draws_as_randomness_says(name: str, kind: str) -> None:
    rows = np.arange(1.0, BATCH * N + 1).reshape(BATCH, N) / 7.0
    source, reset = source_of(kind)
    function = lambda x: DRAWS[name](x, source)
    matrix = plain_matrix(function, reset)
    for state in STATES:
        with state_of(state) as given:
            reset()
            same = tx.vmap(function, randomness="same")(given(rows))
            np.testing.assert_allclose(same.to_numpy(), rows @ matrix.T, 1e-12, err_msg=state)
            matrices = []  # by values of unit vectors, and by gradients
            for unit in np.eye(N):
                reset()
                different = tx.vmap(function, randomness="different")
                matrices.append(different(given(np.broadcast_to(unit, (BATCH, N)))).to_numpy())
            reset()
            gradients = tx.vmap(tx.grad(weighted(function)), randomness="different")(given(rows)).to_numpy()
            np.testing.assert_allclose(gradients, np.stack(matrices, axis=-1).swapaxes(1, 2) @ WEIGHTS, 1e-12, err_msg=state)
            if name == "a copied generator":
                continue  # a copy made for each element draws the same
            assert any((each[0] != each).any() for each in matrices), state
            with pytest.raises(TraceError, match=r"^vmap: .*randomness='different'"):
                tx.vmap(function)(given(rows))


@pytest.mark.parametrize(("in_axes", "batch"), [(0, 3), (-1, 20)])
def test_vmap_with_different_randomness_draws_parts_of_one_draw(in_axes: int, batch: int) -> None:
    source, reset = source_of("explicit")
    draws: dict[str, Callable[[tuple[int, ...]], Any]] = {
        "random": lambda shape: source.random(shape),
        "single": lambda shape: source.random(shape, dtype=tx.float32),
        "normal": lambda shape: source.normal(1.0, 2.0, shape),
        "integers": lambda shape: source.integers(3, 90, shape),
        "of many": lambda shape: source.uniform(-1.0, 1.0, (*shape, 200)),
    }
    x = tx.zeros((batch, 2))
    for draw in draws.values():

        def of_row(row: Any, draw: Any = draw) -> Any:
            drawn = draw(row.shape)
            return drawn + row.reshape(2, *[1] * (drawn.ndim - 1))

        def of_element(t: Any, draw: Any = draw) -> Any:
            return t + draw(())

        reset()
        wanted = draw(x.shape).to_numpy()
        reset()
        assert np.array_equal(tx.vmap(of_row, in_axes, randomness="different")(x if in_axes == 0 else x.T).to_numpy(), wanted)
        reset()
        nested = tx.vmap(tx.vmap(of_element, randomness="different"), randomness="different")(x)
        assert np.array_equal(nested.to_numpy(), wanted)


def test_seeds_inside_a_function_hold_as_in_a_loop() -> None:
    """The function may be called once for all elements, and generators are left as they were."""
    shared = tx.random.Generator(1)

    def seeded(x: Any) -> Any:
        shared.seed(2)
        return x * shared.random() * tx.random.Generator(7).random()

    rows = tx.asarray([1.0, 2.0, 3.0])
    wanted = tx.stack([seeded(x) for x in rows]).tolist()
    assert tx.vmap(seeded)(rows).tolist() == wanted
    shared.seed(2)
    before = shared.random().item()  # so that a step draws before it seeds
    shared.seed(2)
    first, ys = tx.scan(lambda s, x: (s, (shared.random(), seeded(x))), tx.zeros(()), rows)[1]
    assert ys.tolist() == wanted and first.tolist()[0] == before
    shared.seed(9)
    value, back = tx.vjp(lambda x: tx.checkpoint(seeded, x), tx.asarray(2.0))
    shared.seed(9)
    assert back(tx.asarray(1.0))[0].item() == value.item() / 2
    assert shared.state_dict() == {"seed": 9, "draws": 0}


def test_checkpoint_raises_if_its_function_draws_more_when_repeated() -> None:
    counts = iter([1, 2])
    with pytest.raises(DerivativeError, match="the function of checkpoint drew more random tensors"):
        tx.grad(lambda x: tx.checkpoint(lambda y: sum(y * tx.random.random() for _ in range(next(counts))), x))(tx.asarray(1.0))


def test_map_refuses_draws_that_all_elements_would_share() -> None:
    for run in (tx.map, lambda f, x: tx.reduce(lambda a, b: f(b), x), lambda f, x: tx.accumulate(lambda a, b: f(b), x)):
        with pytest.raises(TraceError, match=r"draws random numbers.*as one more argument"):
            run(lambda x: x * tx.random.random(), tx.ones(3))


def test_dropout_and_batches_follow_the_global_seed() -> None:
    data = tx.data.Batches(tx.data.Dataset(tx.arange(20)), 20, shuffle=True)
    runs = []
    for _ in range(2):
        tx.random.seed(SEED)
        runs.append([F.dropout(tx.ones(50)).tolist(), tx.nn.Dropout()(tx.ones(50)).tolist(), *[rows.tolist() for (rows,) in data]])
    assert runs[0] == runs[1] and runs[0][0] != runs[0][1]


# --- writes -----------------------------------------------------------------------------------------------------------


def _write(statement: str) -> Callable[[Any, Any, Any], Any]:
    """Return a function of a copy of X, a row index and a number, which writes as the statement says."""

    def function(a: Any, j: Any, v: Any) -> Any:
        a = a.copy()
        exec(statement, {"a": a, "j": j, "v": v, "tx": tx, "np": np})
        return a

    return function


WRITES = (
    "a[j] = v",
    "a[j] += v",
    "a[j] *= a[0] * v",
    "a[j, 1:3] = v",
    "a[j, j] = v",
    "a[[0, 1], j] = v",
    "a[[j, 0]] = v",
    "a[-j - 1] = v",
    "a[1:][j] = v; a.T[j] = v",
    "a.reshape(-1)[j + 3] = v",
    "a.diagonal()[j] = v",
    "a[a > v] = v",
    "a[:, tx.arange(4) > j] = v",
    "a[tx.arange(4) <= j] = a[0] * v",
    "a.oindex[tx.stack([j, j + 1]), [0, 2]] = v",
    "a.oindex[1:3, tx.stack([j, 0 * j + 3])] *= v",
    "a.index_add_(0, tx.stack([j, j]), tx.stack([a[0] * v, a[1]]))",
    "a.scatter_add_(0, tx.zeros((1, 4), dtype=tx.int64) + j, a[:1] * v)",
    "tx.put(a, tx.stack([j, j + 5]), v)",
    "np.put_along_axis(a, tx.stack([j] * 4)[None, :], v, 0)",
    "np.place(a, a > v, v)",
    "np.add.at(a, tx.stack([j, j]), v)",
    "for k in range(3): a[(j + k) % 4] += v * k",
)
INDICES, VALUES, MATRIX = np.array([1, 0, 2]), np.array([5.0, 2.0, 7.0]), np.arange(16.0).reshape(4, 4)


def batches_of(write: Any, loss: Any, x: Any, exact: tuple[Array, Array, Array]) -> Iterator[tuple[Any, Array]]:
    """Return the results of batches, scans and derivatives of a write, and those of loops."""
    wanted, of_values, of_matrix = exact
    js, vs = tx.asarray(INDICES), tx.asarray(VALUES)
    every = lambda j, v: write(x, j, v)
    losses = tx.vmap(loss, in_axes=(None, 0, 0))
    yield tx.vmap(every)(js, vs), wanted
    pairs = tx.stack([js, js], axis=1), tx.stack([vs, vs], axis=1)
    yield tx.vmap(tx.vmap(every))(*pairs), np.stack([wanted, wanted], axis=1)
    yield tx.scan(lambda s, jv: (s, every(*jv)), tx.zeros(()), (js, vs))[1], wanted
    yield tx.vmap(tx.grad(loss, argnums=2), in_axes=(None, 0, 0))(x, js, vs), of_values
    yield tx.grad(lambda y: losses(y, js, vs).sum())(x), of_matrix
    yield tx.jvp(lambda v: losses(x, js, v), [vs], [vs])[1], of_values * VALUES


@pytest.mark.parametrize("statement", WRITES)
def test_writes_at_batched_indices_match_single_writes_in_each_state(statement: str) -> None:
    write = _write(statement)
    wanted = np.stack([write(tx.asarray(MATRIX), tx.asarray(j), tx.asarray(v)).to_numpy() for j, v in zip(INDICES, VALUES, strict=True)])
    if all(word not in statement for word in ("tx.", ".oindex", "_(", "[j, 0]", "diagonal")):  # NumPy has the same statement
        exact = []
        for j, v in zip(INDICES, VALUES, strict=True):
            a = MATRIX.copy()
            exec(statement, {"a": a, "j": j, "v": v, "np": np})
            exact.append(a)
        np.testing.assert_array_equal(wanted, np.stack(exact))
    loss = lambda x, j, v: (write(x, j, v) ** 2).sum()
    slopes = []
    for j, v in zip(INDICES, VALUES, strict=True):
        slopes.append(tx.grad(loss, argnums=(0, 2))(tx.asarray(MATRIX), tx.asarray(j), tx.asarray(v)))
    of_values = np.array([s.item() for _, s in slopes])
    of_matrix = sum(s.to_numpy() for s, _ in slopes)
    for state in STATES:
        with state_of(state) as given:
            x = given(MATRIX)
            for _ in range(2):
                for found, its in batches_of(write, loss, x, (wanted, of_values, of_matrix)):
                    np.testing.assert_allclose(found.to_numpy(), its, err_msg=state)
            assert x.tolist() == MATRIX.tolist()


REFUSED = {
    "a[9 + j] = v": (IndexOutOfRange, "assignment: index 10 is out of range for axis 0 of size 4"),
    "a.index_add_(0, tx.stack([-9 * j]), a[:1])": (IndexOutOfRange, "index_add_: index -9 is out of range"),
    "a[a > v] = a[0]; a[a > v] = tx.arange(5.0)": (TraceError, "how many these are is not known.*tx.where"),
    "a[a > v] += 1.0": (TraceError, "how many elements a traced mask.*tx.where"),
    "a.oindex[a[0] > v] = 1.0": (TraceError, "how many elements a traced mask.*tx.where"),
    "a[0] = v if v > 3.0 else -v": (TraceError, r"vmap: bool: .*tx.where\(condition, yes, no\)"),
    "a[0] = float(v)": (TraceError, "vmap: float: .*the tensor itself"),
    "a[0] = v.item()": (TraceError, "vmap: item: .*the tensor itself"),
    "a[0] = int(v)": (TraceError, "vmap: int: .*astype"),
    "a[0] = [1.0, 2.0, 3.0][j]": (TraceError, r"vmap: index: .*x\[k\]"),
    "a[:j] = v": (TraceError, r"vmap: assignment: .*x\[k \+ tx.arange\(n\)\] for n elements"),
    "a.sum(axis=j)": (TraceError, "vmap: sum: .*axes.* must be Python integers"),
    "a.reshape(j, -1)": (TraceError, "vmap: reshape: .*sizes.* must be Python integers"),
    "a[0] = np.sin(np.asarray(v))": (TraceError, "vmap: to_numpy: .*tx functions instead of NumPy's"),
    "a[0] = v.tolist()": (TraceError, "vmap: tolist: .*tx functions instead of NumPy's"),
}


@pytest.mark.parametrize("statement", REFUSED)
def test_refused_writes_at_batched_indices_raise_the_same_error_in_each_state(statement: str) -> None:
    error, message = REFUSED[statement]
    for state in STATES:
        with state_of(state) as given:
            x = given(MATRIX)
            for _ in range(2):
                with pytest.raises(error, match=message):
                    tx.vmap(lambda j, v, x=x: _write(statement)(x, j, v))(tx.asarray(INDICES), tx.asarray(VALUES)).realize()


def test_traced_tensors_are_printed_without_values() -> None:
    printed: list[str] = []
    tx.vmap(lambda row: printed.extend([str(row), repr(row), f"{row[0] * 2:.2f}"]) or row)(tx.ones((2, 3)))  # type: ignore[func-returns-value]
    assert printed == ["Tensor (3,) float64, traced: without values"] * 2 + ["Tensor () float64, traced: without values"]


def test_values_can_be_read_inside_grad_vjp_and_jvp() -> None:
    x = tx.asarray(3.0)
    for run in (lambda f: tx.grad(f)(x), lambda f: tx.vjp(f, x)[1](tx.ones(()))[0], lambda f: tx.jvp(f, [x], [tx.ones(())])[1]):
        assert run(lambda t: t * float(t) if t > 2 else -t).item() == 3.0


# --- memory shared with NumPy -----------------------------------------------------------------------------------------

READS: dict[str, Callable[[Any, Any], Any]] = {  # of a captured tensor and an element
    "itself": lambda a, x: a,
    "a product": lambda a, x: a * x,
    "steps": lambda a, x: (a[1:] * x).sum() + a * x,
    "an element": lambda a, x: a[x.astype(tx.int64)] * x,
    "a sort": lambda a, x: tx.sort(a * x) + 1,
    "a checkpoint": lambda a, x: tx.checkpoint(lambda y: a * y + 1, x),
}


@pytest.mark.parametrize("name", READS)
def test_batches_do_not_change_with_memory_that_numpy_writes(name: str) -> None:
    read, numbers = READS[name], np.arange(1.0, 4.0)
    memory = numbers.copy()
    a, xs = tx.asarray(memory, copy=False), tx.asarray([0.0, 1.0, 2.0])
    runs: dict[str, Callable[[], Any]] = {
        "captured": lambda: tx.vmap(lambda x: read(a, x))(xs),
        "an argument": lambda: tx.vmap(lambda x: read(tx.stack([x, x * 2, x * 0 + 1]), x), in_axes=0)(a - 1),
        "as it is": lambda: tx.vmap(lambda x: x)(a),
        "nested": lambda: tx.vmap(lambda y: tx.vmap(lambda x: read(a, x) * y)(xs))(xs),
        "of gradients": lambda: tx.vmap(tx.grad(lambda x: (read(a, x) * x).sum()))(xs),
        "gradients": lambda: tx.grad(lambda xs: (tx.vmap(lambda x: read(a, x))(xs) * xs.sum()).sum())(xs),
    }
    for run in runs.values():
        wanted = run().tolist()
        found = run()
        memory[:] = 50.0
        assert found.tolist() == wanted
        memory[:] = numbers


@pytest.mark.parametrize("traced", [True, False])
def test_writes_inside_transforms_do_not_reach_numpy(traced: bool) -> None:
    state, rows = np.arange(3.0), np.arange(6.0).reshape(2, 3)

    def step(s: Any, x: Any) -> Any:
        s[0] = x.sum()
        x[0] = 9.0
        return (s if traced else s + 0 * tx.sort(s)), s[0] * 1.0

    last, ys = tx.scan(step, tx.asarray(state, copy=False), tx.asarray(rows, copy=False))
    assert last.tolist() == [12.0, 1.0, 2.0] and ys.tolist() == [3.0, 12.0]
    last, _ = tx.scan(step, tx.asarray(state, copy=False), tx.asarray(rows[:0], copy=False))
    last[0] = 7.0
    same = tx.vmap(lambda x: x)(tx.asarray(rows, copy=False))
    same[0] = 5.0
    assert state.tolist() == [0.0, 1.0, 2.0] and rows.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
