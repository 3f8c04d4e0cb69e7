"""The programs of `benchmarks/larger.py` at small sizes: they run, and give the values of a NumPy computation in one piece."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed", reason="Dask's distributed is not installed: pip install '.[dask]' to have workers")

import dask
import dask.array as da

import tenxor as tx
from benchmarks import larger

X = np.random.default_rng(1).normal(1.0, 2.0, size=(600, larger.COLUMNS)).astype(np.float32)
W = np.random.default_rng(2).normal(size=(larger.COLUMNS, larger.PROJECTED)).astype(np.float32)


def in_one_piece(name: str) -> dict[str, Any]:
    """Return the result of each program in float64, computed by other formulas where possible."""
    x, w = X.astype(np.float64), W.astype(np.float64)
    if name in ("standardise, multiply, reduce", "the same in one graph"):
        z = (x - x.mean(0)) / x.std(0)
        y = z @ w
        return {"mean": x.mean(0), "largest": abs(z).max(0), "squares": (y * y).mean(0), "deviations": y.std(0)}
    if name == "ridge regression":
        target = np.tanh(x @ w[:, 0])
        rows = np.vstack([x, np.sqrt(larger.PENALTY) * np.eye(larger.COLUMNS)])  # the penalty as observations of 0
        found, *_ = np.linalg.lstsq(rows, np.concatenate([target, np.zeros(larger.COLUMNS)]), rcond=None)
        return {"coefficients": found, "mean": target.mean()}
    centres = x[: larger.CLUSTERS]
    for _ in range(larger.STEPS):
        mine = np.array([np.argmin([np.linalg.norm(row - centre) for centre in centres]) for row in x])
        centres = np.array([x[mine == k].mean(0) for k in range(larger.CLUSTERS)])
    return {"centres": centres}


@pytest.mark.parametrize("name", larger.PROGRAMS)
@pytest.mark.parametrize("kind", larger.CHUNKS)
def test_chunked_programs_match_numpy_on_all_of_the_data(name: str, kind: str) -> None:
    with dask.config.set(scheduler="synchronous"):
        x = larger.CHUNKS[kind](da.from_array(X, (100, larger.COLUMNS)))
        found = larger.PROGRAMS[name](x, W)
    wanted = in_one_piece(name)
    assert found.keys() == wanted.keys()
    for key, value in found.items():
        assert kind == "numpy" or isinstance(value, tx.Tensor) or key == "coefficients"
        np.testing.assert_allclose(np.asarray(value), wanted[key], rtol=2e-3, atol=2e-3, err_msg=key)


def test_program_is_measured_on_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(larger, "CHUNK", 1 << 18)
    with dask.config.set(scheduler="synchronous"):
        folder = larger.written(tmp_path / "new", 0.001)
    assert larger.written(tmp_path / "new", 0.001) == folder and len(list(folder.glob("*.npy"))) == 4
    run = larger.measured(larger.ridge, larger.CHUNKS["tenxor"], folder)
    assert 0 < run.seconds < 60 and run.processors >= 0 and run.peak >= 0
    assert run.found["coefficients"].shape == (larger.COLUMNS,)
    double = larger.Run(2.0, 3.0, 2_000_000_000, {})
    assert larger.row("a", [double] * 3, [larger.Run(1.0, 1.0, 0, {})]) == (
        "| a | 2.0 s, of processors 3.0 s; 2.00 GB | 1.0 s, of processors 1.0 s; 0.00 GB | 2.00 × | 3.00 × |"
    )
