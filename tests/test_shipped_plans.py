"""Size-generic plans in the package: each holds exactly where it equals the plan that would be made, on every machine."""

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
MORE = {
    "a sum of large": lambda xp, a, b: (a[:, None, :] * b[None, :, :]).sum(),
    "a softmax": lambda xp, a, b: tx.softmax(a, axis=-1),
    "a spread": lambda xp, a, b: a.std(axis=0),
    "one product twice": lambda xp, a, b: a @ a.T,
    "numbers alone": lambda xp, a, b: tx.ones(a.shape) * 2 + tx.arange(a.shape[1]),
}
EVERY = {name: program for name, program in (PROGRAMS | MORE).items() if name != "running sums"}  # which are planned for themselves


def random_target(draw: random.Random) -> Target:
    first = current().caches.tuned().first
    return current().with_caches(Caches(first, draw.choice(SECOND), draw.choice(LAST))).shared_by(draw.choice(THREADS))


def random_pattern(name: str, draw: random.Random) -> Pattern:
    shape = draw.choice(SIZES), draw.choice(SIZES)
    a, b = tx.empty(shape).realize(), tx.empty(shape).realize()
    pattern = structured([EVERY[name](tx, a, b).storage.node]).apart()
    assert pattern is not None
    return pattern


def taken_apart(pattern: Pattern) -> tuple[object, tuple[int, ...]]:
    """Return a structure and its numbers."""
    found = general.taken_apart(pattern)
    assert found is not None
    return found


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("name", EVERY)
def test_shipped_plans_equal_planned_ones_for_other_sizes_and_machines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are made for some machines of a level and used on others; the guards tell whether a plan holds."""
    draw, made, hits = random.Random(name), dict[object, list[Shipped]](), 0
    monkeypatch.setattr(general, "_known", general.Remembered(general.MAX_STRUCTURES))
    for _ in range(60):
        pattern, target = random_pattern(name, draw), random_target(draw)
        structure, numbers = taken_apart(pattern)
        plans, given = made.setdefault(structure, []), (*numbers, *target.settings)
        outline, wanted = general.without_numbers(outlined(pattern, stand_ins(pattern), target))
        for plan in plans:
            found = plan.found(target.settings)(*numbers)
            assert holds(plan.conditions, given) == (found is not None)
            if found is not None:
                assert found == wanted and shipped.marshal.loads(plan.words) == kept.in_words(outline)
                hits += 1
        if not any([holds(plan.conditions, given) for plan in plans]):
            new = tracing.to_ship(pattern, numbers, target.settings)
            assert new is not None and holds(new.conditions, given)
            plans.append(new)
    assert hits > 8


@pytest.fixture(autouse=True)
def search_shipped_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enable shipped plans, which other tests disable."""
    monkeypatch.setattr(kept, "_stopped", False)


def ship_plan(pattern: Pattern, there: dict[str, bytes]) -> None:
    structure, numbers = taken_apart(pattern)
    made, text = tracing.to_ship(pattern, numbers, backend().target.settings), kept.text_of_structure(structure, shipped.KIND)
    assert made is not None and text is not None
    there[text] = shipped.written([made])


def rows(m: int, n: int) -> Pattern:
    return structured([(tx.empty((m, n)).realize() * 2).sum(axis=1).storage.node])


@pytest.mark.usefixtures("plain")
def test_shipped_plans_are_used_without_planning_or_disk_writes(there: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    ship_plan(rows(40, 60), there)
    wanted = [kept.in_words(make_plan(rows(m, n))) for m, n in ((50, 70), (51, 80))]
    planned, written = list[object](), list[list[Any]]()
    monkeypatch.setattr(general.planning, "make_plan", lambda pattern: planned.append(pattern) or make_plan(pattern))
    monkeypatch.setattr(general.planning, "outlined", lambda *given: planned.append(given) or outlined(*given))
    monkeypatch.setattr(kept, "write_general", lambda key, plans: written.append(list(plans)))
    for (m, n), words in zip(((50, 70), (51, 80)), wanted, strict=True):
        plan = general.plan_for(rows(m, n))
        assert in_tuples(kept.in_words(plan)) == in_tuples(words) and plan.target is backend().target
    assert not planned and not written
    for _ in range(2):  # what has rows as short is something else
        general.plan_for(rows(50, 3))
    assert len(planned) == 2 and [len(plans) for plans in written] == [1]


@pytest.mark.usefixtures("plain")
def test_tuned_targets_have_no_shipped_plans(there: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = rows(40, 60)
    ship_plan(pattern, there)
    structure, _ = taken_apart(pattern)
    target = backend().target
    assert len(shipped.of_structure(structure, target)) == 1
    for other in (tuned(target, blocks={"near": 12345}), tuned(target, streams={"result": 1}), tuned(target, passes={"row": 7})):
        assert shipped.of_structure(structure, other) == []
    monkeypatch.setattr(kept, "_stopped", True)  # as where it is to be seen what plans are made of
    assert shipped.of_structure(structure, target) == []


def test_machines_of_a_level_differ_in_settings_only() -> None:
    for level in levels.LEVELS:
        for second in (*SECOND, 1 << 40, 64):
            for last in (*LAST, 1 << 40, 64):
                host = level.target.with_caches(Caches(second=second, last=last)).shared_by(5)
                assert host.with_settings(host.settings) == host
                assert level.target.with_settings(host.settings)._replace(caches=host.caches) == host
    assert Target(32).with_caches(Caches(second=1, last=1)).settings == Settings(0, 0, 1), "too small to be said so"


# Makes what is shipped of rows and a product; and computes those of other sizes.
MAKE = """
import sys
from pathlib import Path
import tenxor as tx
from tenxor.shipping import ship

def wanted():
    m, n = tx.empty((45, 65)).realize(), tx.empty((65, 40)).realize()
    yield from (m.sum(axis=1), m - m.mean(axis=0), m @ n, tx.ones((30, 40)) * 2 + 1)

list(ship(Path(sys.argv[1]), wanted))
"""
FIRST = """
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
    python("-c", MAKE, str(tmp_path), env=env)
    wanted, *_, planned = python("-c", FIRST, env={**env, "TENXOR_SHIPPED": ""}).stdout.split()
    assert planned == "True"
    for threads in ("1", "2"):
        for way in ("0", ""):
            its = {**env, "TENXOR_SHIPPED": str(tmp_path), "TENXOR_NUM_THREADS": threads, "TENXOR_SHORT_WAY": way}
            assert python("-c", FIRST, env=its).stdout.split() == [wanted, "0", "4", "False"]
    assert python("-c", FIRST, env={**its, "TENXOR_DEBUG": "1"}).stdout.split()[-1] == "True"
