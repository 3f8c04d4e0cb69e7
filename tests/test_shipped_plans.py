"""Test generic plans that come with the package: each holds exactly where it equals the plan made on the spot, on any machine."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

import tenxor as tx
from tenxor.backend import backend
from tenxor.backend.llvm import levels
from tenxor.known import holds
from tenxor.plans import general, kept, shipped, tracing
from tenxor.plans.pattern import Pattern, stand_ins, structured
from tenxor.plans.plan import make_plan, outlined
from tenxor.plans.shipped import Shipped
from tenxor.target import Caches, Settings, Target
from tests.machines import current, tuned
from tests.processes import python
from tests.test_general import PROGRAMS
from tests.test_ready import in_tuples

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
    first = current().caches.tuned().first
    return current().with_caches(Caches(first, draw.choice(SECOND), draw.choice(LAST))).shared_by(draw.choice(THREADS))


def random_pattern(name: str, draw: random.Random) -> Pattern:
    shape = draw.choice(SIZES), draw.choice(SIZES)
    a, b = tx.empty(shape).realize(), tx.empty(shape).realize()
    pattern = structured([SHIPPED[name](tx, a, b).storage.node]).apart()
    assert pattern is not None
    return pattern


def split_structure(pattern: Pattern) -> tuple[object, tuple[int, ...]]:
    """Return the structure of `pattern`, and the numbers in it."""
    split = general.taken_apart(pattern)
    assert split is not None
    return split


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_plan_equals_the_plan_made_for_other_sizes_and_machines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans made for some machines of a level are evaluated for others. Their conditions tell whether they give a plan."""
    draw, plans_by_structure, hits = random.Random(name), dict[object, list[Shipped]](), 0
    monkeypatch.setattr(general, "_caches", general.Remembered(general.MAX_STRUCTURES))
    for _ in range(60):
        pattern, target = random_pattern(name, draw), random_target(draw)
        structure, numbers = split_structure(pattern)
        plans, values = plans_by_structure.setdefault(structure, []), (*numbers, *target.settings)
        outline, expected = general.without_numbers(outlined(pattern, stand_ins(pattern), target))
        for plan in plans:
            evaluated = plan.found(target.settings)(*numbers)
            assert holds(plan.conditions, values) == (evaluated is not None)
            if evaluated is not None:
                assert evaluated == expected and shipped.marshal.loads(plan.words) == kept.in_words(outline)
                hits += 1
        if not any([holds(plan.conditions, values) for plan in plans]):
            new_plan = tracing.to_ship(pattern, numbers, target.settings)
            assert new_plan is not None and holds(new_plan.conditions, values)
            plans.append(new_plan)
    assert hits > 8


@pytest.fixture(autouse=True)
def look_for_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for shipped plans, which other tests do not."""
    monkeypatch.setattr(kept, "_is_disabled", False)


def shipped_for(pattern: Pattern, there: dict[str, bytes]) -> None:
    structure, numbers = split_structure(pattern)
    plan, text = tracing.to_ship(pattern, numbers, backend().target.settings), kept.text_of_structure(structure, shipped.KIND)
    assert plan is not None and text is not None
    there[text] = shipped.written([plan])


def rows(m: int, n: int) -> Pattern:
    return structured([(tx.empty((m, n)).realize() * 2).sum(axis=1).storage.node])


@pytest.mark.usefixtures("plain")
def test_shipped_generic_plan_is_used_without_planning_or_disk_writes(there: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    shipped_for(rows(40, 60), there)
    expected = [kept.in_words(make_plan(rows(m, n))) for m, n in ((50, 70), (51, 80))]
    planned, written = list[object](), list[list[Any]]()
    monkeypatch.setattr(general.planning, "make_plan", lambda pattern: planned.append(pattern) or make_plan(pattern))
    monkeypatch.setattr(general.planning, "outlined", lambda *args: planned.append(args) or outlined(*args))
    monkeypatch.setattr(kept, "write_general", lambda key, plans: written.append(list(plans)))
    for (m, n), words in zip(((50, 70), (51, 80)), expected, strict=True):
        plan = general.plan_for(rows(m, n))
        assert in_tuples(kept.in_words(plan)) == in_tuples(words) and plan.target is backend().target
    assert not planned and not written
    for _ in range(2):  # rows as short as these need another plan
        general.plan_for(rows(50, 3))
    assert len(planned) == 2 and [len(plans) for plans in written] == [1]


@pytest.mark.usefixtures("plain")
def test_machine_with_tuned_settings_uses_no_shipped_plans(there: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = rows(40, 60)
    shipped_for(pattern, there)
    structure, _ = split_structure(pattern)
    target = backend().target
    assert len(shipped.of_structure(structure, target)) == 1
    for other_target in (tuned(target, blocks={"near": 12345}), tuned(target, streams={"result": 1}), tuned(target, passes={"row": 7})):
        assert shipped.of_structure(structure, other_target) == []
    monkeypatch.setattr(kept, "_is_disabled", True)  # as where it is to be seen what plans are made of
    assert shipped.of_structure(structure, target) == []


def test_machines_of_one_level_differ_in_their_settings_alone() -> None:
    for level in levels.LEVELS:
        for second in (*SECOND, 1 << 40, 64):
            for last in (*LAST, 1 << 40, 64):
                host = level.target.with_caches(Caches(second=second, last=last)).shared_by(5)
                assert host.with_settings(host.settings) == host
                assert level.target.with_settings(host.settings)._replace(caches=host.caches) == host
    assert Target(32).with_caches(Caches(second=1, last=1)).settings == Settings(0, 0, 1), "too small to be said so"


# Ship plans of sums, elementwise operations and a product; and compute such results of other sizes.
SHIP_PROGRAM = """
import sys
from pathlib import Path
import tenxor as tx
from tenxor.shipping import ship

def wanted():
    m, n = tx.empty((45, 65)).realize(), tx.empty((65, 40)).realize()
    yield from (m.sum(axis=1), m - m.mean(axis=0), m @ n, tx.ones((30, 40)) * 2 + 1)

list(ship(Path(sys.argv[1]), wanted))
"""
FIRST_PROGRAM = """
import sys
import numpy as np
import tenxor as tx
draw = np.random.default_rng(0)
m, n = tx.asarray(draw.random((50, 70))), tx.asarray(draw.random((70, 45)))
results = m.sum(axis=1), m - m.mean(axis=0), m @ n, tx.ones((20, 50)) * 2 + 1
bits = [x.numpy().tobytes().hex() for x in results]
print("".join(bits), *tx.compile_counts(), "tenxor.plans.plan" in sys.modules or "tenxor.kernel" in sys.modules)
"""


@pytest.mark.skipif(levels.level() is None, reason="nothing is made for this processor")
def test_first_process_with_shipped_plans_plans_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "TENXOR_CACHE_DIR": "", "TENXOR_SHORT_WAY": "0"}
    python("-c", SHIP_PROGRAM, str(tmp_path), env=env)
    expected, *_, planned = python("-c", FIRST_PROGRAM, env={**env, "TENXOR_SHIPPED": ""}).stdout.split()
    assert planned == "True"
    for threads in ("1", "2"):
        for way in ("0", ""):
            run_env = {**env, "TENXOR_SHIPPED": str(tmp_path), "TENXOR_NUM_THREADS": threads, "TENXOR_SHORT_WAY": way}
            assert python("-c", FIRST_PROGRAM, env=run_env).stdout.split() == [expected, "0", "4", "False"]
    assert python("-c", FIRST_PROGRAM, env={**run_env, "TENXOR_DEBUG": "1"}).stdout.split()[-1] == "True"
