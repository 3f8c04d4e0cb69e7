"""Test plans that come with the package: each equals the plan made for every operation with its key."""

from __future__ import annotations

import marshal
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.aot import build
from tenxor.codegen.threads.thread_count import num_threads
from tenxor.errors import BadValueInKernel
from tenxor.graph.node import STORE, Node, intern_scatter
from tenxor.ops.reductions import REDUCTIONS
from tenxor.runtime import generic_plans, plan_disk_cache, shipped_op_plans
from tenxor.runtime.graph_signature import GraphSignature, capture_in_python
from tenxor.runtime.operand_axes import merge_axes
from tenxor.runtime.planner import make_plan
from tenxor.runtime.realize import get_plan, realize
from tenxor.runtime.unfused_plans import list_pieces, make_unfused_plan

pytestmark = pytest.mark.usefixtures("plain")
DTYPES = (tx.float32, tx.float64, tx.int64, tx.uint8, tx.int16, tx.bool)
Make = Callable[[tx.Tensor, tx.Tensor, tx.Tensor], tx.Tensor]  # of two alike, and a mask
OPERATIONS: list[Make] = [
    *(lambda a, b, m: a + b, lambda a, b, m: a + a, lambda a, b, m: a * 2, lambda a, b, m: 3 - a, lambda a, b, m: tx.maximum(b, a)),
    *(lambda a, b, m: a < b, lambda a, b, m: a == 1, lambda a, b, m: tx.exp(a), lambda a, b, m: tx.abs(b), lambda a, b, m: tx.isnan(a)),
    *(lambda a, b, m: tx.where(m, a, b), lambda a, b, m: tx.where(m, a, 1), lambda a, b, m: tx.where(m, b, b), lambda a, b, m: a // b),
    *(lambda a, b, m: a.astype(tx.float32), lambda a, b, m: b.astype(tx.int64), lambda a, b, m: tx.clip(a, 0, 1), lambda a, b, m: a / b),
]
SHAPES = ((2,), (12,), (1000,), (100, 100), (3, 5, 7), (1, 9, 1), (60_000,), (2, 1, 40_000))


def pattern_of(x: tx.Tensor) -> GraphSignature:
    return capture_in_python([x.storage.node])


def operands(shape: tuple[int, ...], dtype: tx.DType, apart: bool) -> tuple[tx.Tensor, tx.Tensor, tx.Tensor]:
    """Return two tensors of `shape`, in separate memory if `apart`, otherwise in one buffer; and a mask."""
    count = int(np.prod(shape))
    buffer = tx.empty((3 * count + 5,), dtype=dtype).realize()
    a, b = buffer[:count].reshape(shape), buffer[count + 5 : 2 * count + 5].reshape(shape)
    return (a.copy().realize() if apart else a, b, tx.empty(shape, dtype=tx.bool).realize())


def ship_vectors(make: Make, dtype: tx.DType, there: dict[str, bytes]) -> bool:
    """Ship the operation `make` on vectors of each kind of operands; return whether there was one to ship."""
    keys = list[str]()
    for a_step, b_step in ((1, 1), (37, 41)):
        a, b, m = (tx.empty((1009, step), dtype=d).realize()[:, 0] for step, d in ((a_step, dtype), (b_step, dtype), (a_step + 9, tx.bool)))
        if a_step == 1:
            m = tx.empty(1009, dtype=tx.bool).realize()
        pattern = pattern_of(make(a, b, m))
        entry = shipped_op_plans.serialize_op_kernel(pattern, make_plan(pattern)) if pattern.nodes[-1].buffer is None else None
        if entry is not None:
            there[entry[0]] = entry[1]
            keys.append(entry[0])
    shipped_op_plans._matches.clear()
    return len(keys) > 0


@pytest.fixture(autouse=True)
def matches_forgotten() -> Iterator[None]:
    """Forget which kernels are shipped before and after a test."""
    shipped_op_plans._matches.clear()
    yield
    shipped_op_plans._matches.clear()


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = num_threads()
    tx.set_num_threads(request.param)
    yield
    tx.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shipped_plan_equals_the_plan_made_for_contiguous_operands(dtype: tx.DType, there: dict[str, bytes]) -> None:
    count = 0
    for make in OPERATIONS:
        try:
            if not ship_vectors(make, dtype, there):
                continue
        except tx.errors.DTypeError:
            continue
        for shape in random.Random(str(dtype)).sample(SHAPES, 4):
            result = make(*operands(shape, dtype, apart=True))
            pattern = pattern_of(result)
            plan, expected = shipped_op_plans.find_shipped_op_plan(pattern), make_plan(pattern)
            if plan is not None and key_of(result) in there:
                assert plan_disk_cache.serialize_plan(plan) == plan_disk_cache.serialize_plan(expected)
                assert plan.target is expected.target
                count += 1
    assert count > 25


RNG = np.random.default_rng(3)
# Views of an array of shape (9, 14, 10) as two operands of one shape
VIEWS: dict[str, Callable[[tx.Tensor], tuple[tx.Tensor, tx.Tensor]]] = {
    "rows and their beginning": lambda x: (x[1:, :-1, 1:], x[:-1, 1:, :-1]),
    "every other element": lambda x: (x[..., ::2], x[..., 1::2]),
    "reversed": lambda x: (x[::-1, :, ::-1], x[:, ::-1]),
    "transposed": lambda x: (x.T, x.permute_dims((2, 1, 0))[::-1]),
    "a row for all": lambda x: (x, tx.broadcast_to(x[3, 4], x.shape)),
    "a column for all": lambda x: (x, tx.broadcast_to(x[:, :, 2:3], x.shape)),
    "an element for all": lambda x: (x, tx.broadcast_to(x[1, 2, 3, ...], x.shape)),
    "outer product": lambda x: (tx.broadcast_to(x[0, :, :1], (14, 10)), tx.broadcast_to(x[2, 5], (14, 10))),
    "one element": lambda x: (x[4, 5, 6, ...], x[0, 0, 0, ...]),
    "the same twice": lambda x: (x[:, 3], x[:, 3]),
}


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", (tx.float64, tx.int64, tx.uint8, tx.bool), ids=str)
@pytest.mark.parametrize("views", VIEWS)
def test_shipped_kernels_compute_operands_of_any_strides(views: str, dtype: tx.DType, there: dict[str, bytes]) -> None:
    source = RNG.integers(0, 9, (9, 14, 10)).astype(str(dtype).removeprefix("tenxor."))
    makes: list[Callable[[Any, Any], Any]] = [lambda a, b: a < b, lambda a, b: a == b]
    makes += [lambda a, b: a ^ b] if dtype is tx.bool else [lambda a, b: a + b, lambda a, b: a * 3, lambda a, b: 7 - b]
    for make in makes:
        ship_vectors(lambda a, b, m: make(a, b), dtype, there)  # noqa: B023
        a, b = VIEWS[views](tx.asarray(source))
        result = make(a, b)
        pattern = pattern_of(result)
        plan = shipped_op_plans.find_shipped_op_plan(pattern, by_rows=True)
        assert plan is not None
        plan.run(pattern)
        assert result.storage.node.buffer is not None
        np.testing.assert_array_equal(result.numpy(), make(a.numpy(), b.numpy()))


def test_store_is_computed_by_the_kernel_of_a_copy(there: dict[str, bytes]) -> None:
    ship_vectors(lambda a, b, m: tx.positive(a), tx.float64, there)
    for write in (
        lambda x, v: x.__setitem__((slice(2, 5), slice(1, None)), v[:, 1:]),
        lambda x, v: x.__setitem__(slice(None, None, -3), v[::-1]),
        lambda x, v: x.__setitem__(4, v[1]),
        lambda x, v: x.__setitem__((4, slice(2, None)), v[0, 0, ...]),
    ):
        values = RNG.normal(size=(3, 7))
        expected, zeros = np.zeros((9, 7)), tx.asarray(np.zeros((9, 7)))
        x = zeros + 0.0
        write(expected, values)  # type: ignore[no-untyped-call]
        write(x, tx.asarray(values))  # type: ignore[no-untyped-call]
        store = x.storage.node
        before = store.sources[0]
        assert store.op is STORE and isinstance(before, Node)
        realize(before)
        assert before.buffer is not None
        address = before.buffer.address
        pattern = pattern_of(x)
        del before
        plan = shipped_op_plans.find_shipped_op_plan(pattern, by_rows=True)
        assert plan is not None
        step, expected_plan = plan.steps[0], make_plan(pattern)
        names = "input_slots", "overwritten_slot", "donors", "donor_candidates", "is_unrepeatable", "name", "nbytes", "released_slots"
        for name in names:
            assert getattr(step, name) == getattr(expected_plan.steps[0], name), name
        assert (plan.watched_slots, plan.watched_read_counts) == (expected_plan.watched_slots, expected_plan.watched_read_counts)
        del expected_plan
        plan.run(pattern)
        assert store.buffer is not None and store.buffer.address == address, "the only owner's memory is overwritten"
        np.testing.assert_array_equal(x.numpy(), expected)
        assert not zeros.numpy().any()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: tx.broadcast_to(tx.empty((60_000, 1)).realize(), (60_000, 2)) + tx.empty((60_000, 3)).realize()[:, 1:],
        lambda x: tx.empty((200_000,), dtype=tx.float64).realize() + 1,
        lambda x: tx.empty((120_000, 2), dtype=tx.float64).realize()[:, 0] + 1.0 + tx.empty((120_000, 3), dtype=tx.float64).realize()[:, 0],
        lambda x: x.oindex[[0, 2, 5]] + 1,
        lambda x: tx.asarray(x.numpy() * 1j) + 1,
        lambda x: x.sum(),
        lambda x: x[:0] + 1,
    ],
)
def test_operation_that_a_compiled_kernel_computes_faster_has_no_shipped_plan(
    make: Callable[[tx.Tensor], tx.Tensor], there: dict[str, bytes]
) -> None:
    ship_vectors(lambda a, b, m: a + b, tx.float64, there)
    ship_vectors(lambda a, b, m: a + 1, tx.float64, there)
    pattern = pattern_of(make(tx.asarray(RNG.normal(size=(9, 14, 10)))))
    assert shipped_op_plans.find_shipped_op_plan(pattern, by_rows=True) is None


def test_kernel_runs_on_rows_only_where_no_generic_plan_serves(there: dict[str, bytes]) -> None:
    ship_vectors(lambda a, b, m: a + b, tx.float64, there)
    x = tx.asarray(RNG.normal(size=(9, 14, 10)))
    rows, vectors = pattern_of(x[:, 1:] + x[:, :-1]), pattern_of(x + x[::1])
    assert shipped_op_plans.find_shipped_op_plan(vectors) is not None and shipped_op_plans.find_shipped_op_plan(rows) is None
    assert shipped_op_plans.find_shipped_op_plan(rows, by_rows=True) is not None


def test_shipped_plans_are_used_without_planning(there: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    ship_vectors(lambda a, b, m: a + b, tx.float64, there)
    a, b, _ = operands((30, 40), tx.float64, apart=True)
    pattern = pattern_of(a[:, 1:] + b[:, :-1])
    monkeypatch.setattr(plan_disk_cache, "_is_disabled", False)
    for name in ("make_plan", "make_symbolic_plan"):
        monkeypatch.setattr(generic_plans.planner, name, None)
    assert len(get_plan(pattern).steps) == 1


def in_tuples(words: object) -> object:
    return tuple(map(in_tuples, words)) if isinstance(words, tuple | list) else words


def key_of(x: tx.Tensor) -> str | None:
    recipe = x.storage.node.recipe
    axes = merge_axes(recipe)
    return None if axes is None else shipped_op_plans.encode_op_key(recipe, axes.list_kinds(recipe)[0])


def test_operations_with_different_kernels_have_different_keys() -> None:
    a, b, m = operands((4, 5), tx.float64, apart=True)
    i = a.astype(tx.int64).realize()
    makes = [
        *(a + b, a - b, a + 2, 2 - a, a - 2, i + i, i + 2, a < b, a < 2, tx.where(m, a, b), tx.where(m, a, 1), a[:, ::2] + b[:, ::2]),
        *(a.astype(tx.float32), a.astype(tx.int64), i.astype(tx.float64), tx.exp(a), tx.exp(a.astype(tx.float32).realize())),
        *(a + b[:, :1], a[:, :1] + b, tx.full((4, 5), 2.0)),
    ]
    texts = list(map(key_of, makes))
    assert None not in texts and len(set(texts)) == len(texts)
    assert key_of(b.reshape(2, 10) * 5) == key_of(a * 2) == key_of(a[1:, 2:] * 4)


def test_complex_reduced_scanned_and_gathered_results_have_no_shipped_plan() -> None:
    a, b, _ = operands((4, 5), tx.float64, apart=True)
    by_tables, by_chain, unordered_sum = a.oindex[[0, 1, 3]] + 1, a.T.reshape(2, 10) + 1, b[:, ::2].sum()
    for x in (by_tables, by_chain, unordered_sum):
        assert x.storage.node.buffer is None and key_of(x) is None
    assert shipped_op_plans.find_shipped_op_plan(pattern_of(a * 2 + b)) is None
    assert shipped_op_plans.find_temporary_plan(pattern_of(a * 2)) is None, "nothing is shipped here"


def test_shipped_kernel_is_below_500_bytes(there: dict[str, bytes]) -> None:
    ship_vectors(lambda a, b, m: a * 2, tx.float64, there)
    contents = list(there.values())
    assert len(contents) == 2 and max(map(len, contents)) < 500
    kernel = shipped_op_plans.ShippedKernel(*marshal.loads(contents[0]))
    assert (kernel.facts[1], kernel.sizes, kernel.work) == ("multiply", (shipped_op_plans.EXTENT,), 2)


def test_equal_bytecode_is_packed_to_equal_bytes_whatever_objects_are_shared() -> None:
    name, other = ["".join(["float", "64"]) for _ in range(2)]
    assert name is not other and shipped_op_plans.marshal_portably((name, name)) == shipped_op_plans.marshal_portably((name, other))


GATHERS: dict[str, Callable[[tx.Tensor, tx.Tensor], tx.Tensor]] = {
    "rows": lambda x, index: x[0, index % 14],
    "rows of each matrix": lambda x, index: tx.take(x, index, axis=1),
    "columns": lambda x, index: x[..., index],
    "elements": lambda x, index: x[2, 3][index],
    "elements with a step": lambda x, index: x[::-2, 4, 1][index[:3] % 5],
    "along an axis": lambda x, index: tx.take_along_axis(x, index[:9, None, None], axis=1),
    "at two indices": lambda x, index: x[:, index, index[::-1]],
    "at two indices of a transposed tensor": lambda x, index: x.T[index, index],
}


@pytest.mark.parametrize("dtype", (tx.float32, tx.int64, tx.bool), ids=str)
@pytest.mark.parametrize("name", GATHERS)
def test_shipped_kernels_gather_elements_of_any_strides(name: str, dtype: tx.DType, there: dict[str, bytes]) -> None:
    for gather in build._gathers():
        pattern = pattern_of(gather)
        if gather.dtype is dtype:
            key, content, plan = shipped_op_plans.serialize_op_kernel(pattern, make_plan(pattern)) or pytest.fail("no kernel to ship")
            assert plan_disk_cache.serialize_plan(plan) == plan_disk_cache.serialize_plan(make_plan(pattern))
            there[key] = content
    source, index = RNG.integers(0, 2, (9, 14, 10)).astype(str(dtype).removeprefix("tenxor.")), RNG.integers(-9, 9, 10)
    result = GATHERS[name](tx.asarray(source).realize(), tx.asarray(index).realize())
    for node in result.node.sources[1:]:
        realize(node)  # type: ignore[arg-type]
    found = shipped_op_plans.find_temporary_plan(pattern := pattern_of(result))
    assert found is not None
    found[0].run(pattern)
    expected = {"along an axis": lambda x, k: np.take_along_axis(x, k[:9, None, None], 1), "rows of each matrix": lambda x, k: x[:, k]}
    np.testing.assert_array_equal(result.numpy(), expected.get(name, GATHERS[name])(source, index))  # type: ignore[arg-type]


def test_shipped_kernel_reports_an_index_out_of_range_in_any_row(there: dict[str, bytes]) -> None:
    pattern = pattern_of(next(build._gathers()))
    key, content, _ = shipped_op_plans.serialize_op_kernel(pattern, make_plan(pattern)) or pytest.fail("no kernel to ship")
    there[key] = content
    for place in range(3):
        index = tx.asarray([4 * (k == place) for k in range(3)])
        gather = tx.zeros((4, 5), dtype=pattern.nodes[-1].dtype)[index + 0]
        realize(*gather.node.sources)  # type: ignore[arg-type]
        found = shipped_op_plans.find_temporary_plan(pattern_of(gather))
        assert found is not None
        with pytest.raises(BadValueInKernel):
            found[0].run(pattern_of(gather))


SCATTERS: dict[str, Callable[[Any, Any, Any], object]] = {
    "elements": lambda x, index, values: x[0, 0].__setitem__(index % 10, values[0, 0]),
    "elements with a step": lambda x, index, values: x[::-2, 4, 1].__setitem__(index[:3] % 5, values[1, :3, 2]),
    "one value": lambda x, index, values: x[3, :, 2].__setitem__(index, values[0, 0, 0]),
    "rows": lambda x, index, values: x[0].__setitem__(index % 14, values[:, 0]),
    "matrices": lambda x, index, values: x.__setitem__(index % 9, values),
    "columns of one row": lambda x, index, values: x[1].__setitem__((slice(None), index), values[0, 0]),
    "every other column": lambda x, index, values: x.__setitem__((slice(None, 3), slice(None, None, 2), index), values[:3, :7]),
    "at two indices": lambda x, index, values: x.__setitem__((slice(None), index, index[::-1]), values[0, 0]),
    "at two indices of a transposed tensor": lambda x, index, values: x.T.__setitem__((index, index), values[0, :9].T),
}


@pytest.mark.parametrize("dtype", (tx.float32, tx.int64, tx.bool), ids=str)
@pytest.mark.parametrize("name", SCATTERS)
def test_shipped_kernels_scatter_to_elements_of_any_strides(name: str, dtype: tx.DType, there: dict[str, bytes]) -> None:
    ship(build._scatters(), there, lambda x: x.dtype is dtype)
    kind = str(dtype).removeprefix("tenxor.")
    expected, values = RNG.integers(0, 2, (9, 14, 10)).astype(kind), RNG.integers(0, 2, (10, 14, 10)).astype(kind)
    index = RNG.integers(-9, 9, 10)
    x = pending_copy(expected)
    SCATTERS[name](x, tx.asarray(index), tx.asarray(values))
    SCATTERS[name](expected, index, values)
    np.testing.assert_array_equal(run_shipped(x).numpy(), expected)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", (tx.float32, tx.float64, tx.int64), ids=str)
def test_shipped_scatter_adds_values_of_an_index_in_order(dtype: tx.DType, there: dict[str, bytes]) -> None:
    ship(build._scatters(), there, lambda x: x.dtype is dtype)
    kind = str(dtype).removeprefix("tenxor.")
    for axis, shape in ((0, (5000, 3)), (1, (4, 700))):
        values, index = (RNG.normal(size=shape) * 1000).astype(kind), RNG.integers(0, 3, shape[axis])
        expected = np.zeros((3, 3) if axis == 0 else (4, 3), kind)
        x = pending_copy(expected)
        x.index_add_(axis, tx.asarray(index), tx.asarray(values))
        np.add.at(expected, index if axis == 0 else (slice(None), index), values)
        np.testing.assert_array_equal(run_shipped(x).numpy(), expected)


def test_shipped_scatter_that_can_fail_overwrites_no_memory_in_use(there: dict[str, bytes]) -> None:
    for is_checked in (True, False):
        scatter = intern_scatter("index_add_", REDUCTIONS["sum_in_width"], (0,), is_checked)
        ship(iter([build._scatter(tx.float64, scatter, build.SCATTER_STEPS[0])]), there)
        found = shipped_op_plans.find_temporary_plan(pattern_of(build._scatter(tx.float64, scatter, build.SCATTER_STEPS[0])))
        assert found is not None and bool(found[0].steps[0].donor_candidates) == is_checked
    assert len(there) == 1, "both have the same kernel"


def ship(tensors: Iterator[tx.Tensor], there: dict[str, bytes], is_wanted: Callable[[tx.Tensor], bool] = lambda x: True) -> None:
    """Ship the single operations among the pending `tensors`; each must give a kernel with the plan of the planner."""
    for x in tensors:
        signature = pattern_of(x)
        if is_wanted(x) and shipped_op_plans.list_op_keys(signature):
            key, content, plan = shipped_op_plans.serialize_op_kernel(signature, make_plan(signature)) or pytest.fail("no kernel to ship")
            assert plan_disk_cache.serialize_plan(plan) == plan_disk_cache.serialize_plan(make_plan(signature))
            there.setdefault(key, content)
    shipped_op_plans._matches.clear()


def pending_copy(values: Any) -> tx.Tensor:
    """Return a new tensor with the elements of the array `values`, not computed yet, so that a write stays pending as well."""
    x = tx.asarray(values.copy())
    return tx.where(x == x, x, x)


def run_shipped(x: tx.Tensor) -> tx.Tensor:
    """Compute the single pending operation of `x` by a shipped kernel, after its sources, and return `x`."""
    realize(*[source for source in x.storage.node.sources if isinstance(source, Node)])
    signature = pattern_of(x)
    found = shipped_op_plans.find_temporary_plan(signature)
    assert found is not None
    found[0].run(signature)
    return x


def test_store_with_a_step_has_a_kernel(there: dict[str, bytes]) -> None:
    ship(iter([build._store(tx.float64, tx.ones((1009, 41), dtype=tx.float64).realize()[:, 0]), build._store(tx.float64, 2.0)]), there)
    assert len(there) == 2
    for write in (
        lambda x, v: x.__setitem__((slice(None), 3), v[:, 0]),
        lambda x, v: x.__setitem__((slice(None, None, -2), slice(1, 7, 2)), v[:5, :3]),
        lambda x, v: x.T.__setitem__(slice(2, 4), v.T[1:3]),
    ):
        values = RNG.normal(size=(9, 7))
        expected = np.zeros((9, 7))
        x = pending_copy(expected)
        write(expected, values)  # type: ignore[no-untyped-call]
        write(x, tx.asarray(values))  # type: ignore[no-untyped-call]
        np.testing.assert_array_equal(run_shipped(x).numpy(), expected)


def test_columns_times_rows_are_a_product_of_swapped_operands(there: dict[str, bytes]) -> None:
    ship((x for x in build._op_reductions() if x.ndim == 2 and x.dtype is tx.float64), there)
    for rows, steps, columns in ((100, 40, 30), (20, 70, 100), (33, 17, 65)):
        a, g = tx.asarray(RNG.normal(size=(steps, rows))), tx.asarray(RNG.normal(size=(steps, columns)))
        result = (g[:, None, :] * a[:, :, None]).sum(axis=0)
        signature = pattern_of(result)
        found = shipped_op_plans.find_temporary_plan(signature)
        expected = (g[:, None, :] * a[:, :, None]).sum(axis=0)
        make_plan(pattern_of(expected)).run(pattern_of(expected))
        assert found is not None
        found[0].run(signature)
        assert result.numpy().tobytes() == expected.numpy().tobytes()


@pytest.mark.parametrize("name", ["derivative", "random numbers", "other dtype"])
def test_unfused_plan_of_shipped_kernels_equals_the_fused_plan(name: str, there: dict[str, bytes]) -> None:
    def make(size: int) -> tx.Tensor:
        x = tx.asarray(np.linspace(0, 1, size))
        if name == "random numbers":
            return tx.random.Generator(3).random((size,)) * 2
        return (tx.vjp(tx.tanh, x)[1](x + 1)[0] if name == "derivative" else (x * 2).view(tx.int64)) + 1

    for piece in list_pieces(pattern_of(make(1009))):
        signature = piece.capture()
        entry = shipped_op_plans.serialize_op_kernel(signature, make_plan(signature))
        there |= {} if entry is None else {entry[0]: entry[1]}
    shipped_op_plans._matches.clear()
    result, signature = make(50), pattern_of(make(50))
    plan = make_unfused_plan(signature, shipped_op_plans.find_temporary_plan, lambda signature: pytest.fail("a kernel is missing"))
    assert plan is not None and plan.deferral is not None
    signature = pattern_of(result)
    plan.run(signature)
    assert result.tolist() == make(50).tolist()
