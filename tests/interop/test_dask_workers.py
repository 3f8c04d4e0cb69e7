"""Tensors on the workers of a Dask cluster: two processes, each with a thread and its own memory."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenxor as tx

pytest.importorskip("distributed", reason="Dask's distributed is not installed: pip install '.[dask]' to have workers")

import cloudpickle
import dask
import dask.array as da
from distributed import Client, LocalCluster, get_worker, wait
from distributed.protocol import deserialize_bytes, serialize, serialize_bytes

import tenxor.dask
from tenxor.memory.block_pool import UNLIMITED_BYTES, pool

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not find the tests
X = np.random.default_rng(0).normal(size=(2000, 300))


@contextmanager
def workers(folder: Path, memory: str = "1GB") -> Iterator[Client]:
    with (
        dask.config.set({"temporary_directory": str(folder)}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=memory, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as plain:
        plain.delenv("TENXOR_NUM_THREADS", raising=False)  # which tests have; Dask has its own say
        with workers(tmp_path_factory.mktemp("workers")) as found:
            yield found


def tensors_on_worker(dask_worker: Any) -> list[tuple[str, bool, bool]]:
    """Return for each tensor on a worker its type, whether it is computed, and whether others may write it."""
    buffers = [(type(x).__name__, x.storage.node.buffer) for x in dask_worker.data.values() if isinstance(x, tx.Tensor)]
    return [(name, buffer is not None, bool(buffer is not None and buffer.externally_shared)) for name, buffer in buffers]


def test_standardised_product_on_workers_matches_numpy(client: Client) -> None:
    x = tenxor.dask.from_array(X, (250, 300))
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    found = (z.T @ z).compute()
    wanted = (X - X.mean(0)) / X.std(0)
    assert type(found) is tx.Tensor
    np.testing.assert_allclose(np.asarray(found), wanted.T @ wanted, rtol=1e-9, atol=1e-9)


def test_chunks_on_workers_are_computed_with_one_thread(client: Client) -> None:
    kept = (tenxor.dask.from_array(X, (250, 300)) * 2).persist()
    wait(kept)
    every = [entry for entries in client.run(tensors_on_worker).values() for entry in entries]
    assert len(every) >= 8 and {entry[:2] for entry in every} == {("Tensor", True)}
    assert set(client.run(tx.num_threads).values()) == {1}
    sizes = sum(client.run(lambda dask_worker: dask_worker.data.fast.total_weight).values())
    assert sizes >= X.nbytes


def test_workers_pool_little_memory(client: Client) -> None:
    """Each worker has 1 GB, and an array with 200 MB in a worker is freed."""
    x = tenxor.dask.asarray(da.ones((50, 1_000_000), chunks=(2, 1_000_000)))
    wait(kept := (x + 1).persist())
    del kept
    wait((tenxor.dask.from_array(X, (250, 300)) + 1).persist())

    def pooled() -> bool:
        import time

        end = time.monotonic() + 20  # until the last chunk is let go of
        while time.monotonic() < end and tx.memory().pooled + tx.memory().in_use > 100e6:
            time.sleep(0.05)
        return tx.memory().pooled <= 1e9 / 16 and tx.memory().peak > 100e6

    assert all(client.run(pooled).values())
    assert pool.max_free_bytes == UNLIMITED_BYTES  # here


def test_results_of_submitted_calls_are_computed(client: Client) -> None:
    future = client.submit(lambda n: tx.ones(n) * 2, 50_000)
    wait(future)
    assert ("Tensor", True) in [entry[:2] for entries in client.run(tensors_on_worker).values() for entry in entries]
    assert future.result().sum().item() == 100_000
    sent = client.scatter(tx.arange(10), broadcast=True)
    assert client.submit(lambda t: t * 2, sent).result().tolist() == list(range(0, 20, 2))


def test_chunks_are_sent_between_workers(client: Client) -> None:
    first, second = client.scheduler_info()["workers"]
    x = tenxor.dask.from_array(X, (1000, 300))
    with dask.annotate(workers=[first]), dask.config.set({"optimization.fuse.active": False}):
        there = (x + 1).persist()
    wait(there)

    def inputs_are_fused(t: tx.Tensor) -> Any:
        return np.asarray([[(t * 2).storage.node.buffer is None, get_worker().address == second]])

    with dask.annotate(workers=[second]), dask.config.set({"optimization.fuse.active": False}):
        seen = there.map_blocks(inputs_are_fused, dtype=bool, chunks=(1, 2), meta=np.ones((0, 0), bool)).compute()
        here = (there * 2).persist()
    assert seen.all()
    np.testing.assert_array_equal(np.asarray(here.compute()), (X + 1) * 2)


@pytest.mark.parametrize("method", ["p2p", "tasks"])
def test_rechunking_on_workers_matches_numpy(client: Client, method: str) -> None:
    x = tenxor.dask.from_array(X, (250, 300)) + 1
    with dask.config.set({"array.rechunk.method": method}):
        turned = x.rechunk((2000, 50))
        found = (turned.sum(axis=0) * 2)[50:].compute()
        whole = turned.persist()
    wait(whole)
    assert {entry[:2] for entries in client.run(tensors_on_worker).values() for entry in entries} == {("Tensor", True)}
    np.testing.assert_allclose(np.asarray(found), ((X + 1).sum(0) * 2)[50:], rtol=1e-12)
    np.testing.assert_array_equal(np.asarray(whole.compute()), X + 1)


def test_tensors_are_serialised_without_a_copy() -> None:
    t = tx.arange(100_000)
    _header, frames = serialize(t)
    address = np.asarray(t).ctypes.data
    assert address in [np.frombuffer(frame, np.uint8).ctypes.data for frame in frames]
    for view in (t, t.reshape(100, 1000).T, t.astype(tx.bfloat16), t[:0], t + 1, tx.asarray(3.0)):
        assert deserialize_bytes(serialize_bytes(view)).tolist() == view.tolist()


def test_chunks_spill_to_disk_and_return(tmp_path: Path) -> None:
    with workers(tmp_path, "400MB") as client:
        x = tenxor.dask.asarray(da.arange(8e7, chunks=2_000_000))  # 640 MB of float64
        kept = (x + 1).persist()
        wait(kept)
        spilled = client.run(lambda dask_worker: len(dask_worker.data.slow))
        assert sum(spilled.values()) > 5
        total, found = kept.sum(), kept[::10_000_000]
        total, found = dask.compute(total, found)
    assert total.item() == 8e7 * (8e7 + 1) / 2
    assert found.tolist() == [1 + 1e7 * k for k in range(8)]


def test_killed_worker_loses_no_results(client: Client, tmp_path: Path) -> None:
    """Half of the chunks are lost with the worker, and Dask computes them again."""
    mark = tmp_path / "killed"

    def end_process_once(t: tx.Tensor, block_info: Any = None) -> tx.Tensor:
        """Return the chunk unchanged; the first call for the sixth chunk ends its process."""
        if block_info and block_info[None]["chunk-location"][0] == 5 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return t

    before = set(client.run(os.getpid).values())
    x = (tenxor.dask.from_array(X, (200, 300)) + 1).persist()
    wait(x)
    y = x.map_blocks(end_process_once, dtype=x.dtype, meta=x._meta)
    found, total = dask.compute(y.T @ y, y.sum())
    client.wait_for_workers(2, timeout=60)
    after = set(client.run(os.getpid).values())
    assert mark.exists() and len(before & after) == 1 and len(after) == 2
    np.testing.assert_allclose(np.asarray(found), (X + 1).T @ (X + 1), rtol=1e-10)
    np.testing.assert_allclose(total.item(), (X + 1).sum(), rtol=1e-12)
