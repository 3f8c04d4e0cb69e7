"""Batched functions equal their members one by one; derivatives of batches, and batches of derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.api import vmap
from tenxor.autodiff import batching
from tenxor.errors import ArgumentError, IndexOutOfRange, LinearAlgebraError, ShapeError, TenxorError, TraceError

from .cases import JOINING, MOVES, NUMBERS, REDUCTIONS, SCANS, Case, real
from .differences import Array, listed
from .elementwise import PUBLIC, REAL, drawn
from .larger import LARGER

MEMBERS = 3
CASES = {**REDUCTIONS, **SCANS, **JOINING, **NUMBERS, **LARGER}
MATRIX = real(4, 5, seed=7)
SIDE_BY_SIDE = {
    "elementwise": lambda x: tx.exp(x) * 2 - x,
    "a product": lambda x: x @ tx.asarray(MATRIX),
    "the other way": lambda x: tx.asarray(MATRIX.T) @ x[:, ::-1].T,
    "views": lambda x: x.T[::-1, 1:].reshape(8) + x[0, 0],
    "a reshape of anything": lambda x: x.T.reshape(2, 6)[1] * x.reshape(12)[::2],
    "sums": lambda x: x.sum(axis=0) / x.max(),
    "a write": lambda x: with_row(x, x[0] * 2),
    "a write to what is the same for all": lambda x: with_row(tx.zeros((3, 4)), x[0] * 2),
    "a derivative": lambda x: tx.grad(lambda y: (tx.tanh(y) ** 2).sum())(x),
    "not a product of members": lambda x: x @ x.T,
    "a sum of products": lambda x: (x * tx.asarray(MATRIX[0, :4]) + x[0] * tx.asarray(MATRIX[:3, :4])).sum(axis=1),
    "not products of several kinds": lambda x: tx.jvp(lambda y: y @ y, [tx.asarray(MATRIX[:3, :3])], [x[:, 1:]])[1],
    "not a running sum": lambda x: x.cumsum(axis=0),
    "not a gather": lambda x: x[tx.asarray([0, 2])],
    "not a list of rows": lambda x: x[[0, 2, 2]],
}
# Of which a shape is not known before there are values.
BY_VALUES = ("mask of its own", "sorted out by nonzero", "arange")
GRADIENTS = [name for k, name in enumerate(CASES) if k % 4 == 0]


def batches(case: Case) -> list[Array]:
    """Return some members for each argument."""
    found = []
    for a in case.arrays:
        shifts = np.arange(MEMBERS).reshape(MEMBERS, *[1] * a.ndim)
        found.append(a * (1 + 0.25 * shifts) + 0.0 * shifts)
    return found


def with_row(x: Any, row: Any) -> Any:
    x = x * 1.0
    x[1] = row
    return x


def one_by_one(function: Any, given: list[Array]) -> list[Array]:
    each = [listed(function(*[tx.asarray(a[k].copy()) for a in given])) for k in range(MEMBERS)]
    return [np.stack([t.to_numpy() for t in its]) for its in zip(*each, strict=True)]


def check_same(found: list[Any], wanted: list[Array]) -> None:
    assert len(found) == len(wanted)
    for t, w in zip(found, wanted, strict=True):
        assert t.shape == w.shape and t.dtype is tx.asarray(w).dtype
        assert np.allclose(t.to_numpy(), w, rtol=1e-13, atol=1e-13, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_vmap_matches_single_calls(name: str) -> None:
    case = CASES[name]
    if name.endswith(BY_VALUES):
        with pytest.raises(TraceError):
            tx.vmap(case.function)(*map(tx.asarray, batches(case)))
        return
    given = batches(case)
    check_same(listed(tx.vmap(case.function)(*map(tx.asarray, given))), one_by_one(case.function, given))


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Few members stay side by side, too; and whether they did."""
    went: list[bool] = []
    asked = batching._can_batch_last

    def noted(*args: Any) -> bool:
        went.append(asked(*args))
        return went[-1]

    monkeypatch.setattr(batching, "_can_batch_last", noted)
    monkeypatch.setattr(vmap, "MIN_BATCH_LAST_SIZE", 2)
    return went


@pytest.mark.parametrize("name", [name for name in CASES if not name.endswith(BY_VALUES)])
def test_vmap_over_the_last_axis_matches_single_calls(name: str, behind: list[bool]) -> None:
    function, given = CASES[name].function, batches(CASES[name])
    last = [tx.asarray(np.moveaxis(a, 0, -1).copy()) for a in given]
    check_same([t.moveaxis(-1, 0) for t in listed(tx.vmap(function, in_axes=-1, out_axes=-1)(*last))], one_by_one(function, given))


@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_vmap_keeps_the_batch_axis_last_where_possible(name: str, behind: list[bool]) -> None:
    x = tx.asarray(real(3, 4, MEMBERS, seed=0))
    found = tx.vmap(SIDE_BY_SIDE[name], in_axes=-1, out_axes=-1)(x).realize()
    assert behind == [not name.startswith("not ")] * len(behind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vmap, "MIN_BATCH_LAST_SIZE", 100)
        assert np.allclose(found.to_numpy(), tx.vmap(SIDE_BY_SIDE[name], in_axes=-1, out_axes=-1)(x).to_numpy(), rtol=1e-14)
    layout = found.layout
    assert layout.is_contiguous() or name.startswith("not ")


@pytest.mark.parametrize("name", [name for name in PUBLIC if name in REAL])
def test_vmap_of_elementwise_operations_is_exact(name: str) -> None:
    function = getattr(tx, name)
    given = [np.stack([drawn(name, k, (4,), seed) for seed in range(MEMBERS)]) for k in range(len(REAL[name]))]
    found = tx.vmap(function)(*map(tx.asarray, given))
    assert np.array_equal(found.to_numpy(), one_by_one(function, given)[0])
    again = tx.vmap(function, in_axes=-1, out_axes=-1)(*[tx.asarray(a.T.copy()) for a in given])
    assert np.array_equal(again.to_numpy(), found.to_numpy().T)


@pytest.mark.parametrize("move", MOVES)
def test_vmap_of_views_is_exact(move: str) -> None:
    given = [np.stack([real(3, 4, seed=k) for k in range(MEMBERS)])]
    found = tx.vmap(MOVES[move])(tx.asarray(given[0]))
    assert found.to_numpy().tolist() == one_by_one(MOVES[move], given)[0].tolist()


def loss_of(function: Any) -> Any:
    def loss(*args: Any) -> Any:
        total: Any = 0.0
        for t in listed(function(*args)):
            total = total + (tx.abs(t) ** 2).sum() if t.dtype.is_complex else total + (t * t).sum()
        return total

    return loss


@pytest.mark.parametrize("name", GRADIENTS)
def test_vmap_of_gradients_equals_gradients_of_vmap(name: str) -> None:
    case = CASES[name]
    if name.endswith(BY_VALUES):
        return
    given = batches(case)
    every = tuple(range(len(given)))
    loss = loss_of(case.function)
    gradient = tx.grad(loss, every)
    wanted = one_by_one(gradient, given)
    xs = [tx.asarray(a) for a in given]
    check_same(list(tx.vmap(gradient)(*xs)), wanted)
    check_same(list(tx.grad(lambda *xs: tx.vmap(loss)(*xs).sum(), every)(*xs)), wanted)


def written(x: Any, y: Any) -> Any:
    """Write in every way to a member of a batch, and to a tensor that all members share."""
    a = x * 1.0
    a[1:, ::2] = y
    a[0] += a[1]
    a.T.reshape(12)[3:7] = 2.0
    a[[2, 0, 2]] = a[:, ::-1]
    a.index_add_(0, [1, 1], y[0])
    b = tx.zeros((3, 4))
    b[:, 1:3] = a[:, :2]
    b.reshape(12)[::5] *= a.sum()
    return a * b.T.reshape(3, 4)


def test_vmap_of_writes_matches_single_calls() -> None:
    xs, ys = np.stack([real(3, 4, seed=k) for k in range(MEMBERS)]), np.stack([real(1, 2, seed=k) for k in range(MEMBERS)])
    ys = np.broadcast_to(ys, (MEMBERS, 1, 2)).copy()

    def function(x: Any, y: Any) -> Any:
        return written(x, tx.tile(y, (1, 1))[:, :1])

    check_same([tx.vmap(function)(tx.asarray(xs), tx.asarray(ys))], one_by_one(function, [xs, ys]))
    gradient = tx.grad(loss_of(function), (0, 1))
    check_same(list(tx.vmap(gradient)(tx.asarray(xs), tx.asarray(ys))), one_by_one(gradient, [xs, ys]))


KEYS: dict[str, Any] = {
    "one": lambda i, j: (i,),
    "the second": lambda i, j: (slice(None), i),
    "apart": lambda i, j: (i, slice(1, None), j),
    "beside a number": lambda i, j: (-1, i, Ellipsis, j),
    "beside a list": lambda i, j: (i, slice(None), [0, 2], None),
    "apart from a list": lambda i, j: (slice(None), i, slice(None), [1, 0]),
    "beside a mask": lambda i, j: (i, np.array([True, False, True])),
    "all": lambda i, j: (i, j, i, j),
}


@pytest.mark.parametrize("name", KEYS)
def test_vmap_accepts_elements_of_a_batch_as_indices(name: str) -> None:
    """A selection by such an index is a new tensor, so writes must be made through the index."""
    x, of = real(2, 3, 4, 2), KEYS[name]
    pairs = np.array([[0, 1], [1, 1], [-1, 0], [1, -1], [0, 0]])

    def with_more(x: Any, i: Any, j: Any) -> Any:
        x = x * 1.0
        x[of(i, j)] = 7.0
        x[of(j, i)] += 1.5
        return x

    i, j = tx.asarray(pairs[:, 0]), tx.asarray(pairs[:, 1])
    found = tx.vmap(lambda i, j: tx.asarray(x)[of(i, j)])(i, j)
    wanted = np.stack([x[of(i, j)] for i, j in pairs.tolist()])
    assert found.shape == wanted.shape and found.tolist() == wanted.tolist()
    found = tx.vmap(lambda i, j: with_more(tx.asarray(x), i, j))(i, j)
    assert found.tolist() == np.stack([with_more(x, i, j) for i, j in pairs.tolist()]).tolist()
    _, found = tx.scan(lambda s, i: (s, tx.asarray(x)[of(i, i)]), tx.asarray(0.0), i)
    assert found.tolist() == np.stack([x[of(i, i)] for i in pairs[:, 0].tolist()]).tolist()


def test_vmap_accepts_elements_of_a_batch_as_classes_of_a_loss() -> None:
    logits, classes = tx.asarray(real(5, 3)), tx.asarray([0, 2, 1, 1, -1])
    found = tx.vmap(tx.grad(lambda row, k: -tx.log_softmax(row)[k]))(logits, classes)
    assert np.allclose(found.to_numpy(), tx.softmax(logits).to_numpy() - np.eye(3)[classes.to_numpy()], rtol=1e-14, atol=1e-15)
    with pytest.raises(IndexOutOfRange, match="index 3"):
        tx.vmap(lambda row, k: row[k])(logits, classes + 1).realize()


def test_vmap_does_not_write_a_captured_tensor() -> None:
    """The function writes to a copy of the captured tensor."""
    outside = tx.zeros(4)

    def function(x: Any) -> Any:
        own = outside.copy()
        own[1:] = x
        return own

    xs = tx.asarray(real(MEMBERS, 3))
    found = tx.vmap(function)(xs)
    assert found[:, 1:].tolist() == xs.tolist() and outside.tolist() == [0.0] * 4


def test_nested_vmap_matches_nested_loops() -> None:
    x, y = tx.asarray(real(2, 3)), tx.asarray(real(4, 3))
    found = tx.vmap(lambda a: tx.vmap(lambda b: (a * b).sum() + tx.max(a - b))(y))(x)
    wanted = [[(a * b).sum() + (a - b).max() for b in y.to_numpy()] for a in x.to_numpy()]
    assert np.allclose(found.to_numpy(), wanted, rtol=1e-14)
    both = tx.vmap(tx.vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None))(x, y)
    assert both.tolist() == (x.expand_dims(1) * y).tolist()


def test_vmap_respects_in_axes_and_out_axes() -> None:
    x, w = real(2, 4, 3), real(3)
    found = tx.vmap(lambda a, b: a @ b, in_axes=(1, None), out_axes=1)(tx.asarray(x), tx.asarray(w))
    assert np.allclose(found.to_numpy(), (x @ w))
    pair = tx.vmap(lambda a: {"sum": a.sum(), "twice": [a * 2]}, in_axes=2)(tx.asarray(x))
    assert np.allclose(pair["sum"].to_numpy(), x.sum((0, 1))) and pair["twice"][0].shape == (3, 2, 4)
    outs = tx.vmap(lambda a: (a, a.T), out_axes=(0, -1))(tx.asarray(x))
    assert outs[0].shape == (2, 4, 3) and outs[1].shape == (3, 4, 2)


def test_vmap_broadcasts_results_that_no_element_influences() -> None:
    found = tx.vmap(lambda a: (tx.arange(3), 2.0, a))(tx.ones((4, 2)))
    assert found[0].tolist() == [[0, 1, 2]] * 4 and found[1].tolist() == [2.0] * 4


@pytest.mark.parametrize("size", [0, 1])
def test_vmap_accepts_batches_of_no_or_one_element(size: int) -> None:
    assert tx.vmap(lambda a: a.cumsum(axis=0) + a.sum())(tx.ones((size, 3))).shape == (size, 3)
    assert tx.vmap(tx.grad(lambda a: (a * a).sum()))(tx.ones((size, 3))).tolist() == [[2.0] * 3] * size


def test_vjp_and_jvp_are_linear_in_cotangents_and_tangents() -> None:
    x, v = tx.asarray([1.0, 2.0, 3.0]), tx.asarray([0.5, -1.0, 2.0])

    def cubes(x: Any) -> Any:
        return x**3

    _, back = tx.vjp(cubes, x)
    by_cotangent = tx.grad(lambda g: (back(g)[0] * v).sum())(tx.ones(3))
    by_tangent = tx.grad(lambda t: (tx.jvp(cubes, (x,), (t,))[1] * v).sum())(tx.ones(3))
    assert by_cotangent.tolist() == by_tangent.tolist() == (3 * x * x * v).tolist()
    assert tx.jvp(lambda t: tx.jvp(cubes, (x,), (t,))[1], (v,), (v,))[1].tolist() == (3 * x * x * v).tolist()


@pytest.mark.parametrize("captures", [False, True])
def test_jvp_through_checkpoints_and_custom_derivatives_matches_plain_functions(captures: bool) -> None:
    """The checkpoint has several results, and captures an argument or not."""
    x, v = tx.asarray([[0.5, 1.0], [1.5, -2.0]]), tx.asarray([[1.0, 0.25], [-1.0, 2.0]])

    def plain(x: Any, y: Any) -> Any:
        return tx.sin(x[1:]) * y.sum(), tx.exp(x.T @ y)

    def saving(x: Any, y: Any) -> Any:
        return tx.checkpoint((lambda x: plain(x, y)) if captures else plain, *((x,) if captures else (x, y)))

    for order in (lambda f: tx.jvp(f, (x, x), (v, x))[1], lambda f: tx.jvp(lambda t: tx.jvp(f, (t, x), (v, t))[1], (x,), (v,))[1]):
        for found, wanted in zip(order(saving), order(plain), strict=True):
            np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy(), rtol=1e-13)
    square = tx.custom_derivative(lambda x: x * x, lambda g, value, x: 2 * x * g)
    assert tx.jvp(lambda x: square(x)[:1], (x,), (v,))[1].tolist() == (2 * x * v)[:1].tolist()
    nothing = tx.custom_derivative(tx.round, lambda g, value, x: None)
    assert tx.jvp(nothing, (x,), (v,))[1].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_jacobians_are_equal_in_forward_and_reverse_mode() -> None:
    def function(x: Any) -> Any:
        y = x @ x.T
        y[0, 1:] = tx.sin(x[1, 1:2])
        return tx.cumsum(y, axis=1)[::-1]

    x = tx.asarray(real(2, 3))
    reverse, forward = tx.jacobian(function, mode="reverse")(x), tx.jacobian(function, mode="forward")(x)
    assert reverse.shape == (2, 2, 2, 3) == forward.shape
    assert np.allclose(reverse.to_numpy(), forward.to_numpy(), rtol=1e-13, atol=1e-14)
    assert np.allclose(tx.jacobian(function)(x).to_numpy(), reverse.to_numpy(), rtol=1e-13, atol=1e-14)


def test_jacobians_are_nested_like_results_and_arguments() -> None:
    def function(a: Any, b: Any) -> Any:
        return {"product": a["x"] * b, "sum": (a["x"].sum() + b).reshape(1, -1)}

    a, b = {"x": tx.asarray([1.0, 2.0])}, tx.asarray([3.0, 4.0])
    for mode in ("reverse", "forward"):
        found = tx.jacobian(function, (0, 1), mode=mode)(a, b)
        assert found["product"][0]["x"].tolist() == [[3.0, 0.0], [0.0, 4.0]]
        assert found["product"][1].tolist() == [[1.0, 0.0], [0.0, 2.0]]
        assert found["sum"][0]["x"].tolist() == [[[1.0, 1.0], [1.0, 1.0]]]
        assert found["sum"][1].tolist() == [[[1.0, 0.0], [0.0, 1.0]]]


@pytest.mark.parametrize("dtypes", [("float32", "float64"), ("float64", "float32"), ("float16", "float32"), ("complex64", "complex128")])
def test_jacobians_have_the_promoted_dtype_in_both_modes(dtypes: tuple[str, str]) -> None:
    by, of = [getattr(tx, name) for name in dtypes]
    x = tx.asarray(real(3)).astype(by)
    found = [tx.jacobian(lambda x: (x * x).astype(of), mode=mode)(x) for mode in ("forward", "reverse")]
    assert [t.dtype for t in found] == [tx.result_type(by, of)] * 2
    assert np.allclose(found[0].to_numpy(), found[1].to_numpy(), rtol=1e-3)


def test_hessian_is_symmetric_and_its_columns_are_jvps_of_the_gradient() -> None:
    def function(x: Any) -> Any:
        y = tx.tanh(x @ x.T)
        y[0] *= x[1, :2]
        return (tx.softmax(y, axis=1) * tx.exp(x[:, :2])).sum() + tx.cumprod(x, axis=1).sum()

    x = tx.asarray(real(2, 3))
    found = tx.hessian(function)(x).to_numpy().reshape(6, 6)
    assert np.allclose(found, found.T, rtol=1e-12, atol=1e-12) and np.abs(found).max() > 0.1
    columns = [tx.jvp(tx.grad(function), [x], [tx.asarray(e.reshape(2, 3))])[1].to_numpy().reshape(6) for e in np.eye(6)]
    assert np.allclose(found, np.stack(columns, axis=1), rtol=1e-12, atol=1e-12)


def test_vmap_of_hessians_and_third_derivatives_is_exact() -> None:
    cube = tx.vmap(tx.hessian(lambda x: (x**3).sum()))(tx.asarray([[1.0, 2.0], [3.0, 4.0]]))
    assert cube.tolist() == [[[6.0, 0.0], [0.0, 12.0]], [[18.0, 0.0], [0.0, 24.0]]]
    third = tx.grad(tx.grad(tx.grad(lambda x: x**5)))
    assert third(tx.asarray(2.0)).item() == 240.0
    assert tx.vmap(third)(tx.asarray([1.0, 2.0])).tolist() == [60.0, 240.0]
    assert tx.jacobian(tx.jacobian(tx.jacobian(tx.sin)))(tx.asarray([0.5])).item() == pytest.approx(-np.cos(0.5))


REFUSED: dict[str, tuple[Any, type[TenxorError], str]] = {
    "a value": (lambda: tx.vmap(lambda a: a if a.sum() > 0 else -a)(tx.ones((2, 2))), TraceError, "where"),
    "an item": (lambda: tx.vmap(lambda a: a[0].item())(tx.ones((2, 2))), TraceError, "item"),
    "sizes": (lambda: tx.vmap(lambda a, b: a + b)(tx.ones((2, 2)), tx.ones((3, 2))), ShapeError, "3"),
    "no axis": (lambda: tx.vmap(lambda a: a, in_axes=None)(tx.ones(2)), ArgumentError, "in_axes"),
    "axes for others": (lambda: tx.vmap(lambda a: a, in_axes=(0, 0))(tx.ones(2)), ArgumentError, "in_axes"),
    "axes of others": (lambda: tx.vmap(lambda a: a, out_axes=(0, 0))(tx.ones(2)), ArgumentError, "out_axes"),
    "text": (lambda: tx.vmap(lambda a: "text")(tx.ones(2)), TraceError, "text"),
    "an axis beyond": (lambda: tx.vmap(lambda a: a, in_axes=1)(tx.ones(2)), TenxorError, "vmap"),
    "a number": (lambda: tx.vmap(lambda a: a)(1.0), TenxorError, "vmap"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_calls_of_transforms_raise(name: str) -> None:
    call, error, word = REFUSED[name]
    with pytest.raises(error, match=word):
        call()


def test_enable_grad_inside_vmap_tracks_the_batch() -> None:
    rows = tx.asarray([[1.0, 2.0], [3.0, 4.0]])
    weight = tx.asarray([1.0, 2.0]).requires_grad_()

    def of_row(row: Any) -> Any:
        constant = row * weight
        with tx.enable_grad():
            return (row * weight).sum() + constant.sum()

    with tx.no_grad():
        found = tx.vmap(of_row)(rows)
    found.sum().backward()
    assert weight.grad.tolist() == [4.0, 6.0]
    with tx.no_grad():
        assert not tx.vmap(lambda row: (row * weight).sum())(rows).requires_grad


@pytest.mark.parametrize("ways", [1, 2])
def test_vmap_of_expm_equals_expm_of_the_batch(ways: int) -> None:
    """One of the matrices is squared more often than the other."""
    matrices = tx.asarray(real(2, 3, 3)) * tx.asarray([0.5, 9.0]).reshape(2, 1, 1)
    if ways == 2:
        found = tx.vmap(tx.vmap(tx.linalg.expm))(matrices.expand_dims(1)).squeeze(1)
    else:
        found = tx.vmap(tx.linalg.expm)(matrices)
    assert found.tolist() == tx.linalg.expm(matrices).tolist()


def test_error_inside_vmap_names_the_operation_and_the_element() -> None:
    matrices = tx.asarray([[[1.0, 2.0], [0.0, 3.0]], [[1.0, 2.0], [0.0, 0.0]]])
    with pytest.raises(LinearAlgebraError, match=r"^solve_triangular: the matrix at \(1,\) has 0 on its diagonal"):
        tx.vmap(lambda m: tx.linalg.solve_triangular(m, tx.ones(2), upper=True))(matrices).realize()


def test_gradients_of_values_written_repeatedly_inside_vmap_match_single_calls() -> None:
    """Each element of a batch, or of a batch of batches, writes its own value."""

    def loss(x: Any, v: Any) -> Any:
        y, z = x * 1.0, x * 2.0
        y.expand(2, *y.shape)[...] = v.sum()
        z.windows(0, 2)[:2] = v[0] * v[1]
        return (y * x).sum() + (z * z * z).sum() + tx.sin(y).sum()

    xs, vs = tx.asarray(real(3, 4)), tx.asarray(real(3, 2))
    each = [[tx.grad(loss, (0, 1))(x, v) for v in vs] for x in xs]
    for k, wanted in enumerate((tx.stack([each[j][j][0] for j in range(3)]), tx.stack([each[j][j][1] for j in range(3)]))):
        found = tx.grad(lambda x, v: tx.vmap(loss)(x, v).sum(), k)(xs, vs)
        assert np.allclose(found.to_numpy(), wanted.to_numpy())
    by_both = [sum([each[i][j][1] for i in range(3)], tx.zeros(2)) for j in range(3)]
    for total in (
        lambda v: tx.vmap(lambda x: tx.vmap(lambda v: loss(x, v))(v))(xs).sum(),
        lambda v: tx.vmap(lambda v: tx.vmap(lambda x: loss(x, v))(xs))(v).sum(),
    ):
        assert np.allclose(tx.grad(total)(vs).to_numpy(), tx.stack(by_both).to_numpy())
    of_all = tx.grad(lambda v: tx.vmap(loss, in_axes=(0, None))(xs, v).sum())(vs[0])
    assert np.allclose(of_all.to_numpy(), by_both[0].to_numpy())


@pytest.mark.parametrize("shape", [(2, 0), (2, 3, 0), (2, 0, 3), (3, 4)], ids=str)
def test_vmap_of_sorts_and_selections_accepts_empty_tensors(shape: tuple[int, ...]) -> None:
    x = tx.zeros(shape)
    functions = (
        lambda t: tx.sort(t, axis=0),
        lambda t: tx.topk(t, 0, axis=0).values,
        lambda t: tx.cummax(t, axis=0).values,
        lambda t: tx.take_along_axis(t, tx.argsort(t, axis=0), axis=0),
        lambda t: tx.interp(t, tx.asarray([0.0, 1.0]), tx.asarray([2.0, 3.0])),
    )
    for function in functions:
        found, wanted = tx.vmap(function)(x), tx.stack([function(t) for t in x])
        assert found.shape == wanted.shape and found.tolist() == wanted.tolist()


def test_vmap_and_scan_of_writes_to_real_and_imaginary_parts() -> None:
    def function(x: Any) -> Any:
        z = x * (1 + 2j)
        z.real[1:] = z.real[:-1] * 2
        z.imag *= x
        return z

    def loss(x: Any) -> Any:
        z = function(x)
        return (z.real * z.imag).sum() + z[0].real

    rows = [real(3, 4)]
    for each in (function, loss, tx.grad(loss)):
        check_same([tx.vmap(each)(tx.asarray(rows[0]))], one_by_one(each, rows))
    last, levels = tx.scan(lambda s, x: (function(s.real + x),) * 2, tx.zeros(4, dtype=tx.complex128), tx.asarray(rows[0]))
    state = tx.zeros(4, dtype=tx.complex128)
    for k in range(MEMBERS):
        state = function(state.real + tx.asarray(rows[0][k]))
        assert np.allclose(levels[k].to_numpy(), state.to_numpy(), rtol=1e-13, atol=1e-13)
    assert last.tolist() == levels[-1].tolist()


def test_tensor_written_inside_vmap_raises_when_read_outside() -> None:
    outside = tx.zeros(3)

    def written(row: Any) -> Any:
        outside[0] = row.sum()
        return row * 2.0

    assert tx.vmap(written)(tx.ones((2, 3))).tolist() == [[2.0] * 3] * 2
    with pytest.raises(TraceError, match="A tensor from outside that a traced function wrote to has none afterwards, either: return what"):
        outside.tolist()
