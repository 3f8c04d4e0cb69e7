"""Test that the cost of planning many roots at once is linear in their number."""

from __future__ import annotations

import os
import sys
from types import FrameType, SimpleNamespace

import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor._utils import upcalls
from tenxor.runtime.realize import realize

from .processes import IMPORT_WITHOUT_FAST_PATH, python


def test_planning_cost_is_linear_in_the_number_of_roots() -> None:
    """The cost is the number of function calls, C functions included."""

    def count_calls(count: int) -> int:
        x, call_count = tx.arange(10, dtype=tx.float64).realize(), 0

        def count_call(frame: FrameType, event: str, arg: object) -> None:
            nonlocal call_count
            call_count += event in ("call", "c_call")

        roots = [(x + float(k)).storage.node for k in range(count)]
        sys.setprofile(count_call)
        try:
            realize(*roots)
        finally:
            sys.setprofile(None)
        return call_count

    count_calls(10)
    calls_of_40 = count_calls(40)
    assert count_calls(160) < 4.4 * calls_of_40


def test_realize_of_several_results_works_if_the_fast_path_is_removed_meanwhile() -> None:
    def remove(node: object) -> bool:
        monkeypatch.setattr(upcalls, "installed", None)
        return False

    fast_path = SimpleNamespace(compute=remove, compute_one_of_several=remove, capture_signature=lambda *roots: None)
    with fastpath.disabled(), pytest.MonkeyPatch.context() as monkeypatch:
        results = [tx.arange(3) + k for k in range(3)]
        monkeypatch.setattr(upcalls, "installed", fast_path)
        tx.realize(*results)
        assert [t.tolist() for t in results] == [[0, 1, 2], [1, 2, 3], [2, 3, 4]] and upcalls.installed is None
        monkeypatch.setattr(upcalls, "installed", fast_path)
        assert (results[0] + results[1]).tolist() == [1, 3, 5]


# The fast path is built during a call that realizes several results, all of which read one tensor.
SEVERAL = f"""{IMPORT_WITHOUT_FAST_PATH}
import numpy as np
from tenxor import fastpath
from tenxor.fastpath import graph_launch, machine_code
fastpath._compile_elsewhere = machine_code.compile_code  # as after the end of the other process
framed, own = [], graph_launch.store_graph_record
graph_launch.store_graph_record = lambda root: framed.append(root) or own(root)
x = tx.asarray(np.linspace(-1, 1, 80 * 80).reshape(80, 80)).realize()
before = fastpath.REQUESTS_BEFORE_COMPILATION - 2
for k in range(before):
    (x + k).realize()
state, y = fastpath.state, tx.exp(x @ x)
results = [(y * k).sum(0) for k in range(4)]
tx.realize(*results)
assert np.allclose(results[3].numpy(), (np.exp(x.numpy() @ x.numpy()) * 3).sum(0))
print(state == "not made yet", fastpath.state, len(framed))
"""


def test_realizing_results_with_a_shared_operand_builds_no_graph_launch_record() -> None:
    env = {**os.environ, "TENXOR_FAST_PATH": ""}
    assert python("-c", SEVERAL, env=env).stdout.split() == ["True", "on", "0"]
