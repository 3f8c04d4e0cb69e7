"""`scan` gives the values and all derivatives of the loop written in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx

RNG = np.random.default_rng(0)


def given(*shapes: tuple[int, ...], dtype: Any = np.float64) -> list[tx.Tensor]:
    return [tx.asarray(RNG.normal(size=shape).astype(dtype)) for shape in shapes]


def python_loop(step: Any, state: Any, xs: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Run the loop in Python, for one sequence and one result."""
    xs = xs.moveaxis(axis, 0)
    ys: list[Any] = [None] * xs.shape[0]
    for t in reversed(range(xs.shape[0])) if reverse else range(xs.shape[0]):
        state, ys[t] = step(state, xs[t])
    return state, tx.stack(ys, axis=axis)


def gates(weight: Any, bias: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = (x + h @ weight.mT + bias).unflatten(-1, (4, -1)).unbind(1)
        c = tx.sigmoid(f) * c + tx.sigmoid(i) * tx.tanh(g)
        h = tx.sigmoid(o) * tx.tanh(c)
        return (h, c), h * 2.0

    return step


def smooth(weight: Any, bias: Any) -> Any:
    """A step in which one state is a sum of the other's, and a slice is written in place."""

    def step(state: dict[str, Any], x: Any) -> Any:
        z = tx.sin(state["a"] @ weight + bias) * x
        z[..., 0] = z[..., 1] * 2.0
        return {"a": z, "sum": state["sum"] + z.mean(axis=-1)}, z - state["a"]

    return step


def of_smooth(loop: Any, reverse: bool = False) -> Any:
    def value(weight: Any, bias: Any, xs: Any, a: Any) -> Any:
        last, ys = loop(smooth(weight, bias), {"a": a, "sum": tx.zeros(a.shape[:1], dtype=a.dtype)}, xs, reverse=reverse)
        return (last["a"] ** 2).sum() + tx.exp(last["sum"]).sum() + (tx.cos(ys) * tx.arange(ys.size).reshape(ys.shape)).sum()

    return value


def close(found: Any, wanted: Any, tolerance: float = 1e-11) -> None:
    leaves = (list(found.values()) if isinstance(found, dict) else found) if isinstance(found, (tuple, list, dict)) else None
    if leaves is not None:
        others = list(wanted.values()) if isinstance(wanted, dict) else wanted
        for one, other in zip(leaves, others, strict=True):
            close(one, other, tolerance)
        return
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.values
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_scan_values_match_the_loop(axis: int, reverse: bool) -> None:
    weight, bias, h, c = given((12, 3), (12,), (2, 3), (2, 3))
    (xs,) = given((5, 2, 12)) if axis == 0 else given((2, 5, 12))
    found = tx.scan(gates(weight, bias), (h, c), xs, axis=axis, reverse=reverse)
    close(found, python_loop(gates(weight, bias), (h, c), xs, axis % 3, reverse))


def test_scan_calls_its_step_once() -> None:
    calls = []

    def step(state: Any, x: Any) -> Any:
        calls.append(x.shape)
        return state * x, state

    (xs,) = given((50, 3))
    tx.grad(lambda xs: tx.scan(step, tx.ones(3), xs)[1].sum())(xs)
    assert calls == [(3,)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_scan_gradients_match_the_loop(dtype: Any, reverse: bool) -> None:
    args = given((3, 3), (3,), (6, 2, 3), (2, 3), dtype=np.float64)
    args = [x.astype(tx.complex128) + 0.5j * x if dtype is np.complex128 else x.astype(dtype) for x in args]

    def of(loop: Any) -> Any:
        value = of_smooth(loop, reverse)
        return tx.value_and_grad(lambda *a: tx.real(value(*a)), argnums=(0, 1, 2, 3))(*args)

    close(of(tx.scan), of(python_loop), 1e-4 if dtype is np.float32 else 1e-10)


def test_scan_gradients_match_central_differences() -> None:
    args = given((3, 3), (3,), (4, 2, 3), (2, 3))
    value = of_smooth(tx.scan)
    gradients = tx.grad(value, argnums=(0, 1, 2, 3))(*args)
    for k, (x, gradient) in enumerate(zip(args, gradients, strict=True)):
        direction, step = RNG.normal(size=x.shape), 1e-6
        ahead, behind = (value(*args[:k], tx.asarray(np.asarray(x) + s * direction), *args[k + 1 :]) for s in (step, -step))
        wanted = (ahead.item() - behind.item()) / (2 * step)
        assert abs((np.asarray(gradient) * direction).sum() - wanted) < 1e-6 * max(1.0, abs(wanted))


@pytest.mark.parametrize("wanted", ["h", "c", "ys", "one"])
def test_scan_gradients_of_parts_of_the_result_match_the_loop(wanted: str) -> None:
    args = given((12, 3), (12,), (5, 2, 12), (2, 3), (2, 3))

    def of(loop: Any) -> Any:
        def value(weight: Any, bias: Any, xs: Any, h: Any, c: Any) -> Any:
            (h, c), ys = loop(gates(weight, bias), (h, c), xs)
            return tx.sin({"h": h, "c": c, "ys": ys, "one": ys[2]}[wanted]).sum()

        return tx.value_and_grad(value, argnums=(0, 1, 2, 3, 4))(*args)

    close(of(tx.scan), of(python_loop))


def test_scan_has_derivatives_of_any_order_and_mode() -> None:
    args = given((2, 2), (2,), (3, 1, 2), (1, 2))

    def each(loop: Any) -> Any:
        value = of_smooth(loop)
        by_weight = lambda w: value(w, *args[1:])
        yield tx.grad(lambda w: (tx.grad(by_weight)(w) ** 2).sum())(args[0])
        yield tx.hessian(by_weight)(args[0])
        yield tx.jvp(value, args, [tx.cos(x) for x in args])[1]
        yield tx.jvp(tx.grad(by_weight), [args[0]], [args[0]])[1]
        yield tx.jacobian(lambda a: loop(smooth(*args[:2]), {"a": a, "sum": tx.zeros(1)}, args[2])[1], mode="forward")(args[3])
        yield tx.grad(lambda w: tx.grad(lambda u: tx.grad(by_weight)(u).sum())(w).sum())(args[0])

    for found, wanted in zip(each(tx.scan), each(python_loop), strict=True):
        close(found, wanted, 1e-9)


def test_scan_inside_vmap_and_vmap_inside_scan_match_loops() -> None:
    weight, bias, many, a = given((3, 3), (3,), (4, 6, 2, 3), (2, 3))
    weights, value = tx.stack([weight, weight * 0.5]), of_smooth(tx.scan)
    of_each = tx.vmap(lambda xs: value(weight, bias, xs, a))(many)
    close(of_each, tx.stack([value(weight, bias, xs, a) for xs in many]))
    close(tx.vmap(lambda w: value(w, bias, many[0], a))(weights), tx.stack([value(w, bias, many[0], a) for w in weights]))
    close(tx.vmap(tx.grad(lambda w: value(w, bias, many[0], a)))(weights), tx.stack([tx.grad(value)(w, bias, many[0], a) for w in weights]))
    inner = lambda s, x: (s + tx.vmap(lambda r: (r * r).sum())(x), s)
    close(tx.scan(inner, tx.zeros(2), many[0]), python_loop(inner, tx.zeros(2), many[0]))


@pytest.mark.parametrize("shape", [(0, 2, 3), (4, 0, 3), (4, 2, 0), (1, 2, 3)])
def test_scan_of_empty_sequences_and_of_one_element_matches_the_loop(shape: tuple[int, int, int]) -> None:
    xs, h = given(shape, shape[1:])
    step = lambda h, x: (tx.tanh(h * x), (h, x.sum()))

    def value(xs: Any, h: Any) -> Any:
        last, (hs, sums) = tx.scan(step, h, xs)
        assert last.shape == h.shape and hs.shape == xs.shape and sums.shape == xs.shape[:1]
        return last.sum() + hs.sum() + (sums**2).sum()

    found, (by_xs, by_h) = tx.value_and_grad(value, argnums=(0, 1))(xs, h)
    state, wanted = h, tx.asarray(0.0)

    def plain(xs: Any, h: Any) -> Any:
        state, wanted = h, tx.asarray(0.0)
        for x in xs:
            new, (one, total) = step(state, x)
            wanted, state = wanted + one.sum() + total**2, new
        return wanted + state.sum()

    wanted, (of_xs, of_h) = tx.value_and_grad(plain, argnums=(0, 1))(xs, h)
    close([found, by_xs, by_h], [wanted, of_xs, of_h])
    assert state is h


def test_scan_of_zero_steps_along_another_axis_keeps_state_and_shape() -> None:
    last, ys = tx.scan(lambda s, x: (s, x * 2), tx.ones(2), tx.zeros((3, 0, 2)), axis=1)
    assert ys.shape == (3, 0, 2) and last.tolist() == [1.0, 1.0]


def test_scan_accepts_integer_and_boolean_values() -> None:
    state = {"count": tx.asarray(0), "low": tx.asarray(np.inf)}
    step = lambda s, x: ({"count": s["count"] + 1, "low": tx.minimum(s["low"], x)}, (s["count"], x < 0.0))
    (xs,) = given((7,))
    last, (counts, below) = tx.scan(step, state, xs)
    assert last["count"].item() == 7 and last["low"].item() == np.asarray(xs).min()
    assert counts.tolist() == list(range(7)) and below.tolist() == (np.asarray(xs) < 0).tolist()
    gradient = tx.grad(lambda xs: tx.scan(step, state, xs)[0]["low"])(xs)
    assert gradient.tolist() == [float(x == np.asarray(xs).min()) for x in np.asarray(xs)]


def test_scan_accepts_several_sequences_and_unchanged_outputs() -> None:
    xs, ws, h = given((5, 3), (5, 3), (3,))
    fixed = tx.asarray([1.0, 2.0, 3.0])

    def value(xs: Any, ws: Any, h: Any, fixed: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            (a, b), [c] = state
            return ((b, x["one"]), [c]), {"old": a, "x": x["two"], "fixed": fixed, "same": [fixed, a]}

        ((a, b), [c]), y = tx.scan(step, ((h, h), [fixed]), {"one": xs, "two": ws})
        assert y["fixed"].shape == (5, 3) and c.shape == (3,)
        assert y["x"].tolist() == ws.tolist() and b.tolist() == xs[-1].tolist() and a.tolist() == xs[-2].tolist()
        assert y["old"].tolist() == [h.tolist(), h.tolist(), *xs[:3].tolist()]
        return (y["old"] * y["same"][1]).sum() + (y["x"] ** 2 * y["fixed"]).sum() + (y["same"][0] * a * b * c).sum()

    def plain(xs: Any, ws: Any, h: Any, fixed: Any) -> Any:
        old = tx.stack([h, h, *xs[:3]])
        return (old * old).sum() + (ws**2 * fixed).sum() + 5.0 * (fixed * xs[-2] * xs[-1] * fixed).sum()

    close(*[tx.value_and_grad(f, argnums=(0, 1, 2, 3))(xs, ws, h, fixed) for f in (value, plain)])


def test_scan_over_views_matches_the_loop() -> None:
    (base,) = given((6, 4, 10))
    views = {
        "strided": base[::2, :, 1::3],
        "reversed": base[::-1, :, ::-1],
        "transposed": base.T[:, :, :4].moveaxis(2, 1),
        "broadcast": base[0].expand((5, 4, 10)),
        "part": base[1:, 1:, 2:9],
        "chain": base.permute((2, 0, 1)).reshape(20, 12),
    }
    step = lambda s, x: (tx.tanh(s + x.sum()), x * s)
    for name, xs in views.items():
        for reverse in (False, True):
            found, wanted = (loop(step, tx.asarray(0.5), xs, reverse=reverse) for loop in (tx.scan, python_loop))
            assert np.allclose(found[1], wanted[1], 1e-12) and np.allclose(found[0], wanted[0], 1e-12), name

    def of(loop: Any) -> Any:
        def value(base: Any) -> Any:
            last, ys = loop(step, tx.asarray(0.5), base[::2, :, 1::3], axis=1)
            return last + (ys**2).sum() + loop(step, tx.asarray(0.5), base[0].expand((5, 4, 10)))[1].sum()

        return tx.grad(value)(base)

    close(of(tx.scan), of(python_loop))


def test_scan_with_backward_hooks_and_updates_matches_the_loop() -> None:
    weight, bias, xs, h = given((3, 3), (3,), (8, 2, 3), (2, 3))
    other = [x.copy() for x in (weight, bias)]
    for p in (weight, bias, *other):
        p.requires_grad_()
    told = []
    weight.register_hook(lambda g: told.append(g.shape))
    for _ in range(3):
        for loop, (w, b) in ((tx.scan, (weight, bias)), (python_loop, other)):
            loss = of_smooth(loop)(w, b, xs, h)
            loss.backward()
            with tx.no_grad():
                for p in (w, b):
                    p -= 1e-5 * p.grad
                    p.grad = None
    close([weight.detach(), bias.detach()], [x.detach() for x in other])
    assert told == [(3, 3)] * 3


def test_backward_frees_the_graph_of_scan() -> None:
    (weight,) = given((3, 3))
    weight.requires_grad_()
    loss = of_smooth(tx.scan)(weight, *given((3,), (4, 2, 3), (2, 3)))
    loss.backward(retain_graph=True)
    once = weight.grad.copy()
    loss.backward()
    close(weight.grad, 2 * once)
    with pytest.raises(tx.errors.DerivativeError, match="retain_graph"):
        loss.backward()


def test_scan_derivative_uses_captured_values_at_the_call() -> None:
    """A later write to a captured tensor is not seen by the derivative."""
    weight, xs = given((3,), (4, 3))
    w = weight.copy().requires_grad_()
    last, _ = tx.scan(lambda s, x: (s * w + x, None), tx.zeros(3), xs)
    with tx.no_grad():
        w *= 5.0
    last.sum().backward()
    close(w.grad, tx.grad(lambda w: python_loop(lambda s, x: (s * w + x, s), tx.zeros(3), xs)[0].sum())(weight))


def test_scan_on_shared_memory_uses_values_at_the_call() -> None:
    array, weights = RNG.normal(size=(5, 3)), RNG.normal(size=3)
    xs, w = tx.asarray(array, copy=False), tx.asarray(weights, copy=False)
    at = tx.asarray([1.0, 2.0, 3.0]).requires_grad_()
    last, ys = tx.scan(lambda s, x: (s * at * w + x, s * w), tx.ones(3), xs)
    values = last.copy()
    wanted = tx.grad(lambda at: python_loop(lambda s, x: (s * at * w + x, s), tx.ones(3), xs)[0].sum())(at.detach())
    array[:] = 0.0
    weights[:] = 0.0
    close(last.detach(), values.detach())
    last.sum().backward()
    close(at.grad, wanted)
    assert ys.shape == (5, 3)


def test_scan_under_no_grad_is_untracked() -> None:
    w, xs = given((3,), (4, 3))
    w.requires_grad_()
    step = lambda s, x: (s * w, x * w)
    with tx.no_grad():
        last, ys = tx.scan(step, tx.ones(3), xs)
    assert not last.requires_grad and not ys.requires_grad
    last, ys = tx.scan(lambda s, x: (s * w.detach(), x), tx.ones(3), xs)
    assert not last.requires_grad and not ys.requires_grad


def test_detached_values_in_a_scan_step_are_constant() -> None:
    w, xs = given((3,), (4, 3))

    def of(loop: Any) -> Any:
        def step_of(w: Any) -> Any:
            def step(s: Any, x: Any) -> Any:
                with tx.no_grad():
                    factor = s * w
                return s * w.detach() + factor * x * w + s.detach(), s

            return step

        return tx.grad(lambda w: (tx.grad(lambda u: loop(step_of(u), tx.ones(3), xs)[0].sum())(w) ** 2).sum())(w)

    close(of(tx.scan), of(python_loop))


def test_scan_step_may_take_derivatives() -> None:
    """The step is one of gradient descent, with and without a checkpoint."""
    target, rates = given((3,), (6,))

    def of(loop: Any, wrap: Any) -> Any:
        def value(target: Any, rates: Any) -> Any:
            error = lambda p: ((p - target) ** 4).sum()
            step = lambda p, rate: (p - wrap(lambda: rate * 0.01 * tx.grad(error)(p)), p)
            return loop(step, tx.zeros(3), rates)[0].sum()

        return tx.value_and_grad(value, argnums=(0, 1))(target, rates)

    close(of(tx.scan, lambda f: f()), of(python_loop, lambda f: f()))
    close(of(tx.scan, tx.checkpoint), of(python_loop, lambda f: f()))


def test_scan_steps_with_lookups_or_numpy_functions_match_the_loop() -> None:
    """Such steps are called one by one."""
    table, xs = given((4, 3), (5, 3))
    indices = tx.asarray([0, 3, 1, 1, 2])

    def of(step: Any, sequence: Any) -> None:
        value = lambda loop: lambda table: (loop(step(table), tx.ones(3), sequence)[1] ** 2).sum()
        close(*[tx.value_and_grad(value(loop))(table) for loop in (tx.scan, python_loop)])

    of(lambda table: lambda s, k: (s * 0.5 + tx.take(table, k.reshape(1), axis=0)[0], s), indices)
    of(lambda table: lambda s, x: (tx.sort(s * x + table[0]), s), xs)
    of(lambda table: lambda s, x: (s + tx.linalg.solve(table[:3] + 4 * tx.eye(3), x), s), xs)
    with pytest.raises(tx.errors.IndexOutOfRange):
        tx.scan(lambda s, k: (s + tx.take(table, k.reshape(1), axis=0)[0], s), tx.ones(3), tx.asarray([0, 7]))[0].realize()


def test_nested_scans_match_nested_loops() -> None:
    xs, w = given((4, 3, 2), (2,))

    def value(loop: Any) -> Any:
        def inner(w: Any) -> Any:
            return lambda s, row: (loop(lambda h, x: (tx.tanh(h * w + x), h), s, row)[0], s)

        return lambda w: (loop(inner(w), tx.zeros(2), xs)[1] ** 2).sum()

    close(*[tx.value_and_grad(value(loop))(w) for loop in (tx.scan, python_loop)])


def test_scan_with_another_python_number_is_not_replayed() -> None:
    (xs,) = given((4,))
    for rate in (0.5, 2.0, -0.0, 0.0, float("nan")):
        found = tx.grad(lambda s: tx.scan(lambda h, x: (h * rate + x, h), s, xs)[0])(tx.asarray(1.0))  # noqa: B023
        np.testing.assert_array_equal(np.asarray(found), np.float64(rate) ** 4)


def test_check_nan_names_the_operation_inside_scan() -> None:
    with tx.check_nan(), pytest.raises(tx.errors.NotANumber, match="log made the first NaN"):
        tx.scan(lambda s, x: (tx.log(s) - x, s), tx.asarray(0.5), tx.ones(3))


@pytest.mark.parametrize(
    ("step", "error", "words"),
    [
        (lambda s, x: ({"h": s["h"][:1], "c": s["c"]}, x), ValueError, r"state\['h'\] has shape \(2,\), and the step gave \(1,\)"),
        (lambda s, x: ({"h": s["h"], "c": (s["c"][0] > 0,)}, x), TypeError, r"state\['c'\]\[0\] has dtype float64, and .* bool"),
        (lambda s, x: ((s["h"], s["c"]), x), ValueError, "nested as"),
        (lambda s, x: s, ValueError, "a pair"),
        (lambda s, x: (s, "y"), TypeError, "it must return tensors"),
        (lambda s, x: (s, x if x > 0 else -x), TypeError, "tx.where"),
    ],
)
def test_scan_step_errors_name_the_mismatch(step: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        tx.scan(step, {"h": tx.zeros(2), "c": (tx.zeros(3),)}, tx.arange(4.0))


def test_scan_argument_errors_name_the_argument() -> None:
    with pytest.raises(ValueError, match="cannot be called"):
        tx.scan(3, tx.zeros(2), tx.zeros(2))
    with pytest.raises(ValueError, match=r"sizes \[3, 4\] along axis 0"):
        tx.scan(lambda s, x: (s, None), tx.zeros(2), (tx.zeros(3), tx.zeros(4)))
    with pytest.raises(ValueError, match="how many steps"):
        tx.scan(lambda s, x: (s, None), tx.zeros(2), None)
    with pytest.raises(IndexError, match="axis"):
        tx.scan(lambda s, x: (s, None), tx.zeros(2), tx.zeros(3), axis=1)


def test_scan_gradients_do_not_depend_on_the_thread_count() -> None:
    """Threads share the large kernels of a step, with the same bits."""
    weight, xs, h = given((512, 128), (20, 64, 512), (64, 128), dtype=np.float32)

    def value(weight: Any, xs: Any) -> Any:
        step = lambda h, x: (tx.tanh((x + h @ weight.T)[:, :128]), None)
        return (tx.scan(step, h, xs)[0] ** 2).sum()

    before, found = tx.num_threads(), []
    try:
        for threads in (1, 2, 3):
            tx.set_num_threads(threads)
            found.append([x.tolist() for x in tx.grad(value, argnums=(0, 1))(weight, xs)])
    finally:
        tx.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_scan_with_packed_matrices_equals_the_loop() -> None:
    """A matrix that is the same in all steps is packed for products, and no bit depends on the packing."""
    for shape, transposed in (((192, 5), True), ((5, 192), False), ((5, 640), False)):
        xs, h = given((4, 3, 5), (3, max(shape)))
        (matrix,) = given(shape)

        def of(loop: Any, matrix: Any = matrix, transposed: bool = transposed, xs: Any = xs, h: Any = h) -> Any:
            step_of = lambda m: lambda h, x: (h * 0.5 + x @ (m.T if transposed else m), h)
            return tx.value_and_grad(lambda m: (loop(step_of(m), h, xs)[1] ** 2).sum())(matrix)

        found, wanted = of(tx.scan), of(python_loop)
        assert found[0].item() == wanted[0].item()
        close(found, wanted)


def test_scan_inside_a_checkpoint_has_the_same_derivatives() -> None:
    args = given((3, 3), (3,), (6, 2, 3), (2, 3))
    value = of_smooth(tx.scan)
    plain, saving = (tx.value_and_grad(f, argnums=(0, 1, 2, 3))(*args) for f in (value, lambda *a: tx.checkpoint(value, *a)))
    close(saving, plain)
    for k in range(4):
        close(tx.grad(value, argnums=k)(*args), plain[1][k])
    twice = lambda f: tx.grad(lambda w: (tx.grad(f)(w, *args[1:]) ** 2).sum())(args[0])
    close(twice(lambda *a: tx.checkpoint(value, *a)), twice(value))


def test_scans_of_consecutive_chunks_equal_one_scan() -> None:
    """Each scan begins with the last state of the scan before."""
    weight, bias, xs, a = given((3, 3), (3,), (9, 2, 3), (2, 3))

    def value(parts: int) -> Any:
        def of(weight: Any, xs: Any, a: Any) -> Any:
            state, total = {"a": a, "sum": tx.zeros(2)}, tx.asarray(0.0)
            for part in xs.reshape(parts, -1, 2, 3):
                state, ys = tx.scan(smooth(weight, bias), state, part)
                total = total + tx.sin(ys).sum()
            return total + state["sum"].sum()

        return tx.value_and_grad(of, argnums=(0, 1, 2))(weight, xs, a)

    close(value(3), value(1))
