"""Test that the cost of planning many roots at once is linear in their number."""

from __future__ import annotations

import os
import sys
from types import FrameType

import tenxor as tx
from tenxor import fastpath
from tenxor.runtime.realize import fast_path_hooks, realize

from .processes import python


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


def test_fast_paths_may_be_unregistered_while_one_runs() -> None:
    def unregister_all(node: object) -> bool:
        fast_path_hooks.clear()
        return False

    with fastpath.disabled():
        results = [tx.arange(3) + k for k in range(3)]
        fast_path_hooks[:] = [unregister_all, unregister_all]
        tx.realize(*results)
        fast_path_hooks[:] = [unregister_all, unregister_all]
        assert (results[0] + results[1]).tolist() == [1, 3, 5]
        fast_path_hooks.clear()


# The fast path is built during a call that realizes several results, all of which read one tensor.
SEVERAL = """
import numpy as np
import tenxor as tx
from tenxor import fastpath
from tenxor.fastpath import graph_launch
framed, own = [], graph_launch.store_graph_record
graph_launch.store_graph_record = lambda root: framed.append(root) or own(root)
x = tx.asarray(np.linspace(-1, 1, 80 * 80).reshape(80, 80)).realize()
before = fastpath.BUILD_AT_REQUEST - 2
for k in range(before):
    (x + k).realize()
state, y = fastpath.state, tx.exp(x @ x)
results = [(y * k).sum(0) for k in range(4)]
tx.realize(*results)
assert np.allclose(results[3].numpy(), (np.exp(x.numpy() @ x.numpy()) * 3).sum(0))
print(state == "not made yet", fastpath.state, len(framed))
"""


def test_realizing_results_with_a_shared_operand_builds_no_graph_launch_record() -> None:
    env = {**os.environ, "TENXOR_SHORT_WAY": ""}
    assert python("-c", SEVERAL, env=env).stdout.split() == ["True", "on", "0"]
