"""Dask arrays whose chunks are tensors. Dask is an extra: `pip install '.[dask]'`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import DTypeError, IndexOutOfRange

pytest.importorskip("dask.array", reason="Dask is not installed: pip install '.[dask]' to have tensors for chunks")

import dask
import dask.array as da
from dask._task_spec import Alias, DataNode, Task, TaskRef
from dask.highlevelgraph import HighLevelGraph
from dask.sizeof import sizeof

import tenxor.dask
from tenxor.dask.array_backend import assume_constant
from tenxor.dask.task_fusion import fuse_tasks
from tenxor.dask.tasks import ComputingTask, compute_result

X = np.random.default_rng(0).normal(size=(40, 30))
ROWS = (10, 30)  # chunks of whole rows


@pytest.fixture(autouse=True)
def in_this_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def both(chunks: Any = (10, 10)) -> tuple[Any, Any]:
    return tenxor.dask.from_array(X, chunks), da.from_array(X, chunks)


def changed(d: Any) -> Any:
    d = d.copy()
    d[1:3] = 0
    d[d > 1] = 1
    return d


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda d: 1 - d * 2,
    "a NumPy scalar": lambda d: d + np.float32(2),
    "an array": lambda d: d + X[0],
    "chunks of both kinds": lambda d: d @ da.ones((30, 4), chunks=10) + da.arange(4, chunks=2),
    "ufuncs": lambda d: np.hypot(np.sin(d), da.exp(d)),
    "astype": lambda d: d.astype("float32") + 1,
    "where": lambda d: da.where(d > 0, d, 0.0),
    "clip": lambda d: da.clip(d, 0, 1),
    "round": lambda d: da.round(d, 1),
    "isclose": lambda d: da.isclose(d, d + 1e-12),
    "select": lambda d: da.select([d > 0], [d], 0.0),
    "divmod": lambda d: da.divmod(d, 2)[0],
    "sum": lambda d: d.sum(),
    "sum down": lambda d: d.sum(axis=0, keepdims=True),
    "mean": lambda d: d.mean(axis=1),
    "std": lambda d: d.std(axis=0, ddof=1),
    "var": lambda d: d.var(),
    "moment": lambda d: da.moment(d, 3),
    "max": lambda d: d.max(axis=1),
    "any": lambda d: (d > 2).any(axis=0),
    "argmax": lambda d: d.argmax(axis=1),
    "argmin of all": lambda d: d.argmin(),
    "nanmean": lambda d: da.nanmean(da.where(d > 0, d, np.nan), axis=0),
    "nanargmax": lambda d: da.nanargmax(d, axis=0),
    "cumsum": lambda d: d.cumsum(axis=0),
    "cumprod": lambda d: d.cumprod(axis=1),
    "average": lambda d: da.average(d, axis=0, weights=np.arange(40)),
    "median": lambda d: da.median(d, axis=0),
    "percentile": lambda d: da.percentile(d[:, 0].rechunk(10), [25, 50]),
    "topk": lambda d: da.topk(d, 3, axis=1),
    "argtopk": lambda d: da.argtopk(d, 2, axis=1),
    "ptp": lambda d: da.ptp(d, axis=0),
    "cov": lambda d: da.cov(d.T),
    "matmul": lambda d: d.T @ d,
    "matmul of three axes": lambda d: d[None] @ d.T[None],
    "tensordot": lambda d: da.tensordot(d, d, ((0, 1), (0, 1))),
    "tensordot of one axis": lambda d: da.tensordot(d, d.T, 1),
    "dot": lambda d: d.dot(d.T),
    "vdot": lambda d: da.vdot(d, d),
    "outer": lambda d: da.outer(d[0], d[1]),
    "einsum": lambda d: da.einsum("ij,kj,kl->il", d, d, d),
    "norm": lambda d: da.linalg.norm(d, axis=1),
    "singular values": lambda d: da.linalg.svd(d.rechunk(ROWS))[1],
    "tsqr": lambda d: abs(da.linalg.qr(d.rechunk(ROWS))[1]),
    "cholesky": lambda d: pytest.importorskip("scipy", reason="SciPy, which Dask asks, is not there") and da.linalg.cholesky(d.T @ d),
    "fft": lambda d: da.fft.fft(d.rechunk(ROWS)),
    "concatenate": lambda d: da.concatenate([d, d], axis=1),
    "stack": lambda d: da.stack([d, d]),
    "block": lambda d: da.block([[d, d]]),
    "transpose": lambda d: d.T,
    "reshape": lambda d: d.reshape(-1),
    "rechunk": lambda d: d.rechunk((7, 30)),
    "slice": lambda d: d[3:27, ::2],
    "list": lambda d: d[[1, 5, 7]],
    "mask": lambda d: d[d > 0],
    "vindex": lambda d: d.vindex[[1, 2], [3, 4]],
    "take": lambda d: da.take(d, [1, 2], axis=1),
    "write": changed,
    "roll": lambda d: da.roll(d, 3, axis=0),
    "flip": lambda d: da.flip(d, 0),
    "pad": lambda d: da.pad(d, 1),
    "tile": lambda d: da.tile(d, (2, 1)),
    "diff": lambda d: da.diff(d, axis=0),
    "gradient": lambda d: da.gradient(d, axis=0),
    "tril": lambda d: da.tril(d),
    "diag": lambda d: da.diag(d[:, 0]),
    "full_like": lambda d: da.full_like(d, 3),
    "zeros_like": lambda d: da.zeros_like(d, shape=(3, 4), chunks=2),
    "broadcast_to": lambda d: da.broadcast_to(d, (2, 40, 30)),
    "coarsen": lambda d: da.coarsen(np.sum, d, {0: 2}),
    "map_overlap": lambda d: d.map_overlap(lambda b: b * 2, 1, boundary="none"),
    "apply_along_axis": lambda d: da.apply_along_axis(lambda row: row.sum(), 1, d.rechunk(ROWS), dtype=float, shape=()),
    "apply_gufunc": lambda d: da.apply_gufunc(lambda b: b.sum(-1), "(i)->()", d.rechunk(ROWS), output_dtypes=float),
    "choose": lambda d: da.choose((d > 0).astype(int), [d, -d]),
    "unique": lambda d: da.unique((d * 2).astype(int)),
    "bincount": lambda d: da.bincount(abs(d[:, 0] * 2).astype(int), minlength=10),
    "digitize": lambda d: da.digitize(d, np.array([0.0, 1.0])),
    "isin": lambda d: da.isin(d.round(), [1.0, 2.0]),
    "histogram": lambda d: da.histogram(d, bins=5, range=(-3, 3))[0],
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")
def test_results_are_tensors_with_the_values_of_numpy_chunks(operation: Callable[[Any], Any]) -> None:
    ours, theirs = [operation(d) for d in both()]
    found, wanted = ours.compute(), theirs.compute()
    assert type(found) is tx.Tensor and found.shape == wanted.shape and found.dtype == wanted.dtype == ours.dtype
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-9, atol=1e-12)


def chunks_of(array: Any) -> list[Any]:
    return [chunk for chunk in array.dask.values() if isinstance(chunk, tx.Tensor)] or [
        node.value for node in array.dask.values() if hasattr(node, "value")
    ]


def in_memory(t: tx.Tensor) -> bool:
    return t.storage.node.buffer is not None


class TestTheEndOfATask:
    def test_task_computes_its_chunk(self) -> None:
        kept = ((both()[0] + 1) * 2).persist()
        assert len(chunks_of(kept)) == 12 and all(map(in_memory, chunks_of(kept)))

    def test_unfused_task_computes_its_chunk_and_keeps_annotations(self) -> None:
        with dask.config.set({"optimization.fuse.active": False}), dask.annotate(priority=3):
            d = both()[0] + 1
            optimized = d.__dask_optimize__(d.dask, d.__dask_keys__())
            kept = d.persist()
        assert {layer.annotations["priority"] for layer in optimized.layers.values() if layer.annotations} == {3}
        assert all(map(in_memory, chunks_of(kept)))

    def test_task_computes_tensors_in_containers(self) -> None:
        class Pair(tuple):  # type: ignore[type-arg]
            _fields = ("a", "b")

            def __new__(cls, a: Any, b: Any) -> Pair:
                return super().__new__(cls, (a, b))

        t = tx.asarray(X)
        for make in (lambda a: [a], lambda a: (a, 1), lambda a: {"k": a}, lambda a: [[a]], lambda a: Pair(a, None)):
            found: Any = compute_result(make(t + 1))
            assert type(found) is type(make(0))
            while not isinstance(found, tx.Tensor):
                found = next(iter(found.values() if isinstance(found, dict) else found))
            assert in_memory(found) and found.tolist() == (X + 1).tolist()
        assert compute_result("text") == "text" and not in_memory(t + 1)

    def test_delayed_call_computes_its_result(self) -> None:
        kept = dask.delayed(lambda a: a * 2)(tx.asarray(X)).persist()
        assert all(map(in_memory, kept.dask.values())) and kept.compute().tolist() == (X * 2).tolist()
        assert dask.delayed(lambda a: a * 2)(both()[0]).compute().tolist() == (X * 2).tolist()

    def test_chain_of_operations_on_a_chunk_is_one_expression(self) -> None:
        """No intermediate result is in memory when the next operation reads it."""
        seen: list[bool] = []

        def look(t: tx.Tensor) -> tx.Tensor:
            if t.size:
                seen.append(in_memory(t))
            return t

        big = tenxor.dask.from_array(np.ones((4, 1000, 100)), (1, 1000, 100))
        found = ((big - 1.5) ** 2).map_blocks(look, dtype=float, meta=big._meta).sum().compute()
        assert seen == [False] * 4 and found.item() == 100_000.0

    def test_small_constant_is_moved_into_the_tasks_that_read_it(self) -> None:
        """A chunk has a task that makes it, one for the chain across the constants, and one for each of two readers."""
        for n, large in ((4, 0), (9000, 1)):  # in bytes, less and more than a task carries along

            def blocks(make: Callable[[Any], Any], d: Any, n: int = n) -> tuple[Any, Any]:
                mine = (d @ X.T[:, :5] - X[0, :5]).argmin(axis=1)[:, None] == make(np.arange(n))
                return mine.astype(float).T @ d, mine.sum(axis=0)

            asked = sums, counts = blocks(tx.asarray, tenxor.dask.asarray(da.ones((80, 30), chunks=ROWS)))
            merged = HighLevelGraph.merge(*[one.dask for one in asked])
            graph = tenxor.dask.tasks.optimize(merged, [key for one in asked for key in dask.core.flatten(one.__dask_keys__())])
            of_a_chunk = [key for key in graph if isinstance(key, tuple) and 7 in key]
            assert len(of_a_chunk) == 4 + large, of_a_chunk
            kinds = [type(node) for node in graph.values()]
            assert kinds.count(DataNode) == large and not kinds.count(Alias)
            assert {type(node) for node in graph.values()} <= {ComputingTask, DataNode}
            wanted = dask.compute(*blocks(np.asarray, da.ones((80, 30), chunks=ROWS)))
            for ours, theirs in zip(dask.compute(sums, counts), wanted, strict=True):
                np.testing.assert_array_equal(np.asarray(ours), theirs)

    def test_requested_array_keeps_its_key(self) -> None:
        """A fused task makes the array, and another task reads it."""
        first = tenxor.dask.from_array(X, ROWS) * tx.asarray(X[0])
        second = (first - tx.asarray(X[1])).sum(axis=1)
        a, b = dask.persist(first, second)
        np.testing.assert_array_equal(np.asarray(a.compute()), X * X[0])
        np.testing.assert_allclose(np.asarray(b.compute()), (X * X[0] - X[1]).sum(1), rtol=1e-12)

    def test_constant_in_a_task_is_in_unshared_memory(self) -> None:
        pinned = tx.asarray(np.arange(3.0), copy=False)  # as what came over a wire is
        assert in_memory(pinned + 1)
        graph = {"c": DataNode("c", pinned), "waits": Task("waits", lambda x: not in_memory(x + 1), TaskRef("c"))}
        (task,) = fuse_tasks(graph, ["waits"]).values()
        assert task() is True

    def test_error_is_raised_by_its_task(self) -> None:
        wrong = both(ROWS)[0].map_blocks(lambda t: tx.take(t, (tx.asarray([7]) * t.shape[0]), axis=0), dtype=float, meta=tx.ones((0, 0)))
        with pytest.raises(IndexOutOfRange):
            dask.compute(*[block.to_delayed().ravel()[0] for block in wrong.blocks])

    def test_small_slice_keeps_no_large_memory(self) -> None:
        kept = chunks_of(both((40, 30))[0][:2].persist())
        assert [t.storage.nbytes for t in kept] == [t.nbytes for t in kept] == [2 * 30 * 8]
        whole = chunks_of(both((40, 30))[0].T.persist())[0]
        assert whole.storage.nbytes == 40 * 30 * 8

    def test_graphs_without_tensors_are_left_to_dask(self) -> None:
        for array, kinds in zip(both(), ({ComputingTask}, {ComputingTask} - {ComputingTask}), strict=True):
            graph = (array + 1).__dask_optimize__((array + 1).dask, (array + 1).__dask_keys__())
            assert {type(node) for node in graph.values()} & {ComputingTask} == kinds
        once = (both()[0] + 1).__dask_optimize__((both()[0] + 1).dask, (both()[0] + 1).__dask_keys__())
        assert all(type(node) is not ComputingTask or type(node.args[0]) is not ComputingTask for node in once.values())

    def test_user_optimisation_is_kept(self) -> None:
        for own in (False, len):
            with dask.config.set(array_optimize=own):
                tenxor.dask.register()
                assert dask.config.get("array_optimize") is own
        tenxor.dask.register()
        assert dask.config.get("array_optimize") is tenxor.dask.tasks.optimize


class TestMemory:
    def test_chunks_share_memory_with_arrays_until_a_write(self) -> None:
        block = np.ones((5, 6))
        made = tenxor.dask.asarray(da.from_delayed(dask.delayed(lambda: block, pure=False)(), (5, 6), float))
        (t,) = chunks_of(made.persist())
        assert np.shares_memory(np.asarray(t), block)
        t += 1
        assert block.sum() == 30 and t.sum().item() == 60

    def test_unaligned_and_byte_swapped_arrays_are_copied(self) -> None:
        at_odds = np.frombuffer(bytearray(81), np.uint8)[1:].view(np.float64)
        for array in (at_odds, np.arange(3, dtype=">i4"), np.ones(3, "c16")[::2]):
            assert tenxor.dask.array_backend.to_tensor(array).tolist() == array.tolist()
            found = (tenxor.dask.from_array(array) + 1).compute()
            assert found.tolist() == (array + 1).tolist() and found.dtype == array.dtype.newbyteorder("=")

    def test_task_treats_received_memory_as_constant(self) -> None:
        t = tx.asarray(np.arange(1000.0), copy=False)  # pinned: what reads it is computed at once
        assert in_memory(t + 1)
        seen = assume_constant(t)
        assert np.shares_memory(np.asarray(seen), np.asarray(t))
        assert not in_memory(seen + 1)
        assert ComputingTask("key", lambda x: not in_memory(x + 1), TaskRef("x"))({"x": t})
        assert assume_constant(3) == 3 and (own := tx.ones(3)) is assume_constant(own)
        past = tx.asarray(np.arange(3.0), copy=False).requires_grad_()
        assert assume_constant(past).requires_grad

    def test_sizeof_counts_the_storage(self) -> None:
        class Plain:
            __slots__ = ("__weakref__",)

        t = tx.ones((100, 1000))
        # `sys.getsizeof` adds what CPython keeps before an object: the collector's links, and from 3.12 on weak references.
        before_object = sys.getsizeof(Plain()) - object.__sizeof__(Plain())
        extra = object.__sizeof__(t) + before_object
        assert sys.getsizeof(t) == sizeof(t) == t.nbytes + extra
        assert sizeof(t[:50]) == t.nbytes // 2 + extra and sizeof(tx.ones(1000).expand((100, 1000))) == 8000 + extra
        assert not in_memory(waiting := t + 1) and sys.getsizeof(waiting) == t.nbytes + extra and not in_memory(waiting)
        assert sizeof(waiting) == t.nbytes + extra and in_memory(waiting)
        assert sizeof([t, t]) > 2 * t.nbytes

    def test_tokens_identify_shape_dtype_and_content(self) -> None:
        t = tx.asarray(X)
        first = dask.base.tokenize(t)
        assert first == dask.base.tokenize(tx.asarray(X)) == dask.base.tokenize((t * 2) / 2)
        others = [t.T, t.reshape(30, 40), t.astype(tx.float32), t + 1, t.astype(tx.bfloat16), t[:0]]
        assert len({first, *map(dask.base.tokenize, others)}) == 7


class TestMaking:
    def test_arrays_are_made_from_tensors_and_lists(self) -> None:
        t = tx.asarray(X).astype(tx.float32)
        for made in (tenxor.dask.from_array(t, 10), tenxor.dask.asarray(t.T, 10).T, tenxor.dask.asarray(tenxor.dask.asarray(t, 10))):
            assert type(made._meta) is tx.Tensor and made.chunks == ((10,) * 4, (10,) * 3)
            assert made.compute().tolist() == t.tolist()
        source = X.copy()
        made = tenxor.dask.from_array(source, 10)
        source[...] = 0
        assert made.compute().tolist() == X.tolist()
        assert tenxor.dask.asarray([1, 2]).compute().tolist() == [1, 2]

    def test_backend_creates_arrays_of_tensors(self) -> None:
        with dask.config.set({"array.backend": "tenxor"}):
            made = [da.ones(4, chunks=2), da.zeros(4), da.full(4, 7, chunks=2), da.arange(4, chunks=2), da.empty((4, 0))]
        assert [type(m._meta) for m in made] == [tx.Tensor] * 5
        assert [m.compute().tolist() for m in made[:4]] == [[1.0] * 4, [0.0] * 4, [7] * 4, [0, 1, 2, 3]]

    def test_arrays_convert_between_backends(self) -> None:
        ours, theirs = both()
        assert type(theirs.to_backend("tenxor").compute()) is tx.Tensor
        places = tenxor.dask.asarray(da.arange(0, 40, 7, chunks=3))  # Dask asks for the letter of an index's dtype
        assert ours[places.to_backend("numpy")].compute().tolist() == X[::7].tolist()
        back = ours.to_backend("numpy")
        assert type(back._meta) is np.ndarray and type(back.compute()) is np.ndarray
        np.testing.assert_array_equal(back.compute(), X)

    def test_arrays_are_stored_to_files_and_targets(self, tmp_path: Path) -> None:
        ours, _ = both()
        da.to_npy_stack(tmp_path / "stack", ours * 2)
        assert da.from_npy_stack(tmp_path / "stack").compute().tolist() == (X * 2).tolist()
        for target in (np.zeros_like(X), tx.zeros(X.shape)):
            da.store(ours + 1, target)
            assert target.tolist() == (X + 1).tolist()

    def test_unsupported_dtypes_raise(self) -> None:
        with pytest.raises(DTypeError, match=r"from_array: .*bfloat16.*float32"):
            tenxor.dask.from_array(tx.ones(3, dtype=tx.bfloat16))
        for wrong in ("O", "U3", "M8[s]", "g"):
            with pytest.raises(DTypeError, match=r"asarray: chunks of .* cannot be tensors"):
                tenxor.dask.asarray(da.from_array(np.zeros(3, wrong), 3))


def test_failed_attribute_lookup_searches_no_similar_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask asks for attributes all the time. Python looks for similar names only for an uncaught error."""
    monkeypatch.setattr("difflib.get_close_matches", None)
    with pytest.raises(AttributeError, match="no attribute 'owndata_of_flags'"):
        tx.ones(3).owndata_of_flags
