"""Test generic plans that come with the package: each holds exactly where it equals the plan made on the spot, on any machine."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

import tenxor as tx
from tenxor.codegen import backend
from tenxor.codegen.llvm import cpuid
from tenxor.runtime import generic_plans, plan_disk_cache, plan_tracing, shipped_generic_plans
from tenxor.runtime.graph_signature import GraphSignature, capture_in_python, make_placeholders
from tenxor.runtime.planner import make_plan, make_symbolic_plan
from tenxor.runtime.realize import get_plan
from tenxor.runtime.shipped_generic_plans import ShippedPlan
from tenxor.symbolic.guards import guards_hold
from tenxor.target import Caches, Settings, Target
from tests.machines import current, tuned
from tests.processes import python
from tests.test_generic_plans import PROGRAMS
from tests.test_shipped_op_plans import in_tuples

KiB, MiB = 1 << 10, 1 << 20
SECOND, LAST, THREADS = (64 * KiB, 128 * KiB, 256 * KiB, 3 * MiB), (256 * KiB, MiB, 9 * MiB, 48 * MiB), (1, 2, 3, 8, 64)
SIZES = (2, 3, 5, 9, 16, 31, 60, 100, 250)
MORE_PROGRAMS = {
    "a sum of large": lambda xp, a, b: (a[:, None, :] * b[None, :, :]).sum(),
    "a softmax": lambda xp, a, b: tx.softmax(a, axis=-1),
    "a spread": lambda xp, a, b: a.std(axis=0),
    "one product twice": lambda xp, a, b: a @ a.T,
    "numbers alone": lambda xp, a, b: tx.ones(a.shape) * 2 + tx.arange(a.shape[1]),
}
SHIPPED = {name: program for name, program in (PROGRAMS | MORE_PROGRAMS).items() if name != "running sums"}  # planned for exact sizes


def random_target(draw: random.Random) -> Target:
    first = current().caches.limit_to_measured().l1_bytes
    return current().with_caches(Caches(first, draw.choice(SECOND), draw.choice(LAST))).with_threads(draw.choice(THREADS))


def random_pattern(name: str, draw: random.Random) -> GraphSignature:
    shape = draw.choice(SIZES), draw.choice(SIZES)
    a, b = tx.empty(shape).realize(), tx.empty(shape).realize()
    pattern = capture_in_python([SHIPPED[name](tx, a, b).storage.node]).snapshot()
    assert pattern is not None
    return pattern


def split_structure(pattern: GraphSignature) -> tuple[object, tuple[int, ...]]:
    """Return the structure of `pattern`, and the numbers in it."""
    split = generic_plans.split_structure(pattern)
    assert split is not None
    return split


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_plan_equals_a_new_plan_exactly_where_its_guards_hold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans made for some machines of a level are evaluated for others. Their conditions tell whether they give a plan."""
    draw, plans_by_structure, hits = random.Random(name), dict[object, list[ShippedPlan]](), 0
    monkeypatch.setattr(generic_plans, "_caches", generic_plans.BoundedCache(generic_plans.MAX_STRUCTURES))
    for _ in range(60):
        pattern, target = random_pattern(name, draw), random_target(draw)
        structure, numbers = split_structure(pattern)
        plans, values = plans_by_structure.setdefault(structure, []), (*numbers, *target.settings)
        outline, expected = generic_plans.split_plan_dims(make_symbolic_plan(pattern, make_placeholders(pattern), target))
        for plan in plans:
            evaluated = plan.compile_evaluator(target.settings)(*numbers)
            assert guards_hold(plan.guard_program, values) == (evaluated is not None)
            if evaluated is not None:
                assert evaluated == expected and shipped_generic_plans.marshal.loads(
                    plan.serialized_plan
                ) == plan_disk_cache.serialize_plan(outline)
                hits += 1
        if not any([guards_hold(plan.guard_program, values) for plan in plans]):
            new_plan = plan_tracing.trace_shipped_plan(pattern, numbers, target.settings)
            assert new_plan is not None and guards_hold(new_plan.guard_program, values)
            plans.append(new_plan)
    assert hits > 8


@pytest.fixture(autouse=True)
def look_for_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for shipped plans, which other tests do not."""
    monkeypatch.setattr(plan_disk_cache, "_is_disabled", False)


def shipped_for(pattern: GraphSignature, there: dict[str, bytes]) -> None:
    structure, numbers = split_structure(pattern)
    plan, text = (
        plan_tracing.trace_shipped_plan(pattern, numbers, backend().target.settings),
        plan_disk_cache.encode_structure(structure),
    )
    assert plan is not None and text is not None
    there[shipped_generic_plans.make_shipped_key(text)] = shipped_generic_plans.serialize_generic_plans([plan])


def rows(m: int, n: int) -> GraphSignature:
    return capture_in_python([(tx.empty((m, n)).realize() * 2).sum(axis=1).storage.node])


@pytest.mark.usefixtures("plain")
def test_shipped_generic_plan_is_used_without_planning_or_disk_writes(there: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    shipped_for(rows(40, 60), there)
    expected = [plan_disk_cache.serialize_plan(make_plan(rows(m, n))) for m, n in ((50, 70), (51, 80))]
    planned, written = list[object](), list[list[Any]]()
    monkeypatch.setattr(generic_plans.planner, "make_plan", lambda pattern: planned.append(pattern) or make_plan(pattern))
    monkeypatch.setattr(generic_plans.planner, "make_symbolic_plan", lambda *args: planned.append(args) or make_symbolic_plan(*args))
    monkeypatch.setattr(plan_disk_cache, "store_generic_plans", lambda key, plans: written.append(list(plans)))
    for (m, n), words in zip(((50, 70), (51, 80)), expected, strict=True):
        plan = get_plan(rows(m, n))
        assert plan is not None
        assert in_tuples(plan_disk_cache.serialize_plan(plan)) == in_tuples(words) and plan.target is backend().target
    assert not planned and not written
    for _ in range(2):  # rows as short as these need another plan
        generic_plans.make_plan(rows(50, 3))
    assert len(planned) == 2 and [len(plans) for plans in written] == [1]


@pytest.mark.usefixtures("plain")
def test_machine_with_tuned_settings_uses_no_shipped_plans(there: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = rows(40, 60)
    shipped_for(pattern, there)
    text = plan_disk_cache.encode_structure(split_structure(pattern)[0])
    target = backend().target
    assert len(shipped_generic_plans.find_shipped_plans(text, target)) == 1
    for other_target in (
        tuned(target, blocks={"l2_working_bytes": 12345}),
        tuned(target, streams={"min_result_bytes": 1}),
        tuned(target, single_pass={"max_row_bytes": 7}),
    ):
        assert shipped_generic_plans.find_shipped_plans(text, other_target) == []
    monkeypatch.setattr(plan_disk_cache, "_is_disabled", True)  # as where it is to be seen what plans are made of
    assert shipped_generic_plans.find_shipped_plans(text, target) == []


def test_machines_of_one_level_differ_in_their_settings_alone() -> None:
    for level in cpuid.CPU_LEVELS:
        for second in (*SECOND, 1 << 40, 64):
            for last in (*LAST, 1 << 40, 64):
                host = level.target.with_caches(Caches(l2_bytes=second, last_level_bytes=last)).with_threads(5)
                assert host.with_settings(host.settings) == host
                assert level.target.with_settings(host.settings)._replace(caches=host.caches) == host
    assert Target(32).with_caches(Caches(l2_bytes=1, last_level_bytes=1)).settings == Settings(0, 0, 1, 0), "too small to be said so"


# Ship plans of sums, elementwise operations and a product; and compute such results of other sizes.
SHIP_PROGRAM = """
import sys
from pathlib import Path
import tenxor as tx
from tenxor.aot.build import build_level_files

def wanted():
    m, n = tx.empty((45, 65)).realize(), tx.empty((65, 40)).realize()
    yield from (m.sum(axis=1), m - m.mean(axis=0), m @ n, tx.ones((30, 40)) * 2 + 1)

list(build_level_files(Path(sys.argv[1]), wanted))
"""
FIRST_PROGRAM = """
import sys
import numpy as np
import tenxor as tx
draw = np.random.default_rng(0)
m, n = tx.asarray(draw.random((50, 70))), tx.asarray(draw.random((70, 45)))
results = m.sum(axis=1), m - m.mean(axis=0), m @ n, tx.ones((20, 50)) * 2 + 1
bits = [x.numpy().tobytes().hex() for x in results]
print("".join(bits), *tx.compile_counts(), "tenxor.runtime.planner" in sys.modules or "tenxor.lowering.lower" in sys.modules)
"""


@pytest.mark.skipif(cpuid.detect_level() is None, reason="nothing is made for this processor")
def test_first_process_with_shipped_plans_plans_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "TENXOR_CACHE_DIR": "", "TENXOR_FAST_PATH": "0"}
    python("-c", SHIP_PROGRAM, str(tmp_path), env=env)
    expected, *_, planned = python("-c", FIRST_PROGRAM, env={**env, "TENXOR_SHIPPED": ""}).stdout.split()
    assert planned == "True"
    for threads in ("1", "2"):
        for way in ("0", ""):
            run_env = {**env, "TENXOR_SHIPPED": str(tmp_path), "TENXOR_NUM_THREADS": threads, "TENXOR_FAST_PATH": way}
            assert python("-c", FIRST_PROGRAM, env=run_env).stdout.split() == [expected, "0", "4", "False"]
    assert python("-c", FIRST_PROGRAM, env={**run_env, "TENXOR_DEBUG": "1"}).stdout.split()[-1] == "True"
