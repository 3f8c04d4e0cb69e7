"""Many results at once: the cost of planning grows linearly with their number."""

from __future__ import annotations

import os
import sys
from types import FrameType

import tenxor as tx
from tenxor import shortcut
from tenxor.realize import realize, short_ways

from .processes import python


def test_planning_cost_grows_linearly_with_roots() -> None:
    """Calls of Python and C functions are counted."""

    def calls(count: int) -> int:
        x, made = tx.arange(10, dtype=tx.float64).realize(), 0

        def count_one(frame: FrameType, event: str, arg: object) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        roots = [(x + float(k)).storage.node for k in range(count)]
        sys.setprofile(count_one)
        try:
            realize(*roots)
        finally:
            sys.setprofile(None)
        return made

    calls(10)
    few = calls(40)
    assert calls(160) < 4.4 * few


def test_fast_path_hooks_may_be_removed_during_realize() -> None:
    def gone(node: object) -> bool:
        short_ways.clear()
        return False

    with shortcut.aside():
        many = [tx.arange(3) + k for k in range(3)]
        short_ways[:] = [gone, gone]
        tx.realize(*many)
        short_ways[:] = [gone, gone]
        assert (many[0] + many[1]).tolist() == [1, 3, 5]
        short_ways.clear()


# The short way is made in the midst of a call that asks for several results, of which each reads what the others do.
SEVERAL = """
import numpy as np
import tenxor as tx
from tenxor import shortcut
from tenxor.shortcut import wholes
framed, own = [], wholes.have_graph_framed
wholes.have_graph_framed = lambda root: framed.append(root) or own(root)
x = tx.asarray(np.linspace(-1, 1, 80 * 80).reshape(80, 80)).realize()
before = shortcut.SOON - 2
for k in range(before):
    (x + k).realize()
state, y = shortcut.state, tx.exp(x @ x)
results = [(y * k).sum(0) for k in range(4)]
tx.realize(*results)
assert np.allclose(results[3].numpy(), (np.exp(x.numpy() @ x.numpy()) * 3).sum(0))
print(state == "not made yet", shortcut.state, len(framed))
"""


def test_shared_operands_of_several_results_are_planned_once() -> None:
    env = {**os.environ, "TENXOR_SHORT_WAY": ""}
    assert python("-c", SEVERAL, env=env).stdout.split() == ["True", "on", "0"]
