"""The decision when a plan for a whole graph takes the place of an unfused plan (`unfused_plans.py`). An unfused plan computes operation
after operation by prebuilt kernels, and stores each result. A plan for the whole fuses operations, but must be made and compiled first. The
decision compares the time lost by unfused runs so far with the time to make the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .._utils import upcalls
from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..codegen import backend
from ..graph.node import Node
from ..ops.reductions import Reduction

MAX_GRANTED_RUNS = 1 << 8  # runs of an unfused plan without a question whether the plan is due: the question takes as long as several runs
# A plan saves the time of each operation, launched by generated code or in Python, and of the temporary result. A plan costs the time of
# the planner for each node, of the compiler for a kernel and for each reduction inside, and once in a process the load of both, measured
# on Zen 4, 2026-11-30.
OPERATION_NS, PYTHON_OPERATION_NS, TEMPORARY_BYTES_PER_NS = 300, 4_000, 20
PLANNING_NS, COMPILATION_NS, LOADING_NS = 600_000, 7_000_000, 45_000_000
_spent_ns: BoundedCache[list[int]] = register("charges of deferred plans", "nanoseconds (`Deferral`), by the operations of a graph")(
    BoundedCache(1 << 12)
)


class Deferral(NamedTuple):
    """A deferred plan for a whole graph. An unfused plan runs the graph meanwhile. Times are estimates, in nanoseconds.

    A run of the unfused plan takes `gain_ns` more than a run of the plan for the whole, which costs `cost_ns` to make. `spent_ns` has one
    item: the additional time so far of all runs of unfused plans for the same operations. The functions in `run_counters` return how often
    generated code has run the plan since their last call.
    """

    gain_ns: int
    cost_ns: int
    spent_ns: list[int]
    run_counters: list[Callable[[], int]]

    def charge_run(self) -> bool:
        """Charge a run by Python, and the runs of generated code so far. Return whether the plan for the whole is due.

        The plan is due when unfused runs together have cost as much additional time as the plan costs. `get_plan` calls this method before
        each run.
        """
        self.spent_ns[0] += (1 + sum([count_runs() for count_runs in self.run_counters])) * self.gain_ns
        return self.spent_ns[0] >= self.cost_ns

    def count_granted_runs(self) -> int:
        """Return how often generated code may run the plan without asking: until the plan is due, but at least once and at most
        `MAX_GRANTED_RUNS` times.
        """
        return min(max(1, (self.cost_ns - self.spent_ns[0]) // self.gain_ns), MAX_GRANTED_RUNS)


def estimate_gain(node: Node) -> int:
    """Return the nanoseconds saved in each run of a fused plan by not computing and storing `node` alone.

    `node` is a temporary result of an unfused plan. The time consists of the launch of an operation, and of the traffic to memory.
    """
    return (PYTHON_OPERATION_NS if upcalls.installed is None else OPERATION_NS) + node.recipe.nbytes // TEMPORARY_BYTES_PER_NS


def estimate_cost(nodes: Sequence[Node]) -> int:
    """Return how many nanoseconds a plan for the pending nodes `nodes` costs once the planner and the compiler are loaded."""
    reduction_count = sum([isinstance(node.op, Reduction) for node in nodes])
    return len(nodes) * PLANNING_NS + (1 + reduction_count) * COMPILATION_NS


def defer_plan(nodes: Sequence[Node], gain_ns: int, cost_ns: int) -> Deferral:
    """Return a new deferral for a graph with the pending nodes `nodes`, whose unfused plan takes `gain_ns` too much time in each run.

    A plan for the whole costs `cost_ns` and, before the first compilation of the process, the load of the planner and the compiler. Graphs
    of the same operations in order share the time spent.
    """
    operations = tuple([node.recipe.op for node in nodes])
    spent_ns = _spent_ns.get(operations)
    if spent_ns is None:
        spent_ns = [0]
        _spent_ns.put(operations, spent_ns)
    return Deferral(max(1, gain_ns), cost_ns + (0 if backend().count_compilations()[0] else LOADING_NS), spent_ns, [])
