"""`scan` steps that write over memory that others read run in order, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.api import scan_function
from tenxor.autodiff import scan_loop


def _stacked(s: Any, x: Any) -> Any:
    def change(s: Any) -> Any:
        return tx.stack([s[1], -tx.sin(s[0]) * x - s[1] * 0.5])

    return s + change(s + change(s) * 0.1) * 0.2, s[0]


def _written(s: Any, x: Any) -> Any:
    s = s * 0.5
    s[1:] = s[:-1] * x  # which reads what it writes over
    half = s * 1.0
    half[0] = tx.sin(s[1])  # over what is read once more
    return s * half, half.sum()


@pytest.mark.parametrize("step", [_stacked, _written])
def test_scan_steps_that_overwrite_their_operands_are_not_unrolled(step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_steps(s: Any, x: Any) -> Any:
        last, ys = tx.scan(step, s, x)
        return (last * last).sum() + (ys * ys).sum()

    def written_out(s: Any, x: Any) -> Any:
        total: Any = 0.0
        for k in range(x.shape[0]):
            s, y = step(s, x[k])
            total = total + y * y
        return (s * s).sum() + total

    s, x = tx.asarray([0.5, -1.0]), tx.asarray([0.3, 1.2, -0.7, 0.1])
    wanted = tx.grad(written_out, (0, 1))(s, x)

    def never(*_: Any) -> Any:
        raise AssertionError("step by step")

    monkeypatch.setattr(scan_loop.RecordedLoop, "_pull_unrolled", never)
    monkeypatch.setattr(scan_function._Loop, "run_stepwise", never)
    for found, its in zip(tx.grad(all_steps, (0, 1))(s, x), wanted, strict=True):
        np.testing.assert_allclose(found.to_numpy(), its.to_numpy(), rtol=1e-13)
