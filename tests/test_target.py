"""Targets: immutable values that describe the present machine, some derived from its caches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tenxor as tx
from tenxor import target as targets
from tenxor.backend.llvm.compiler import compiler
from tenxor.plans.pattern import pattern_of
from tenxor.plans.plan import planned
from tenxor.target import Blocks, Caches, Loops, Processor, Sharing, Streams, Target, caches_of_host
from tests.machines import current, tuned, use

from .processes import python

KiB, MiB = 1 << 10, 1 << 20
TUNED_ON = (  # the machines that the numbers were found on
    Caches(32 * KiB, 512 * KiB, 32 * MiB),  # Zen 3
    Caches(48 * KiB, MiB, 32 * MiB),  # Zen 5
    Caches(32 * KiB, MiB, 36_608 * KiB),  # Cascade Lake
)


def write_cache_files(folder: Path, *caches: tuple[int, str, str]) -> Path:
    """Write the files by which Linux describes these caches (levels, kinds and sizes)."""
    for k, (level, kind, size) in enumerate(caches):
        for cpu in os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else (0,):
            place = folder / f"cpu{cpu}" / "cache" / f"index{k}"
            place.mkdir(parents=True)
            for name, text in (("level", level), ("type", kind), ("size", size), ("coherency_line_size", 128)):
                (place / name).write_text(f"{text}\n")
    return folder


class TestCaches:
    def test_caches_are_read_from_linux(self, tmp_path: Path) -> None:
        caches = (1, "Data", "48K"), (1, "Instruction", "64K"), (2, "Unified", "2M"), (3, "Unified", "30720K")
        assert caches_of_host(write_cache_files(tmp_path, *caches)) == Caches(48 * KiB, 2 * MiB, 30 * MiB, 128)

    @pytest.mark.parametrize(
        ("asked", "found"),
        [
            ({}, Caches()),
            ({"SC_LEVEL1_DCACHE_SIZE": 1 << 16}, Caches(first=1 << 16)),
            ({"SC_LEVEL1_DCACHE_SIZE": 1 << 15, "SC_LEVEL2_CACHE_SIZE": 1 << 18}, Caches(1 << 15, 1 << 18, 1 << 18)),
            ({"SC_LEVEL3_CACHE_SIZE": 1 << 24, "SC_LEVEL1_DCACHE_LINESIZE": 128}, Caches(1 << 15, 1 << 15, 1 << 24, 128)),
        ],
    )
    def test_caches_fall_back_to_sysconf_and_defaults(
        self, asked: dict[str, int], found: Caches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(targets, "_asked", lambda name: asked.get(name, 0))
        assert caches_of_host(tmp_path) == found

    @pytest.mark.parametrize("caches", TUNED_ON)
    def test_caches_of_tuned_machines_give_the_tuned_numbers(self, caches: Caches) -> None:
        target = Target(32).with_caches(caches)
        assert (target.loops, target.streams, target.blocks) == (Loops(), Streams(), Blocks())

    def test_smaller_caches_give_smaller_blocks(self) -> None:
        target = Target(16).with_caches(Caches(16 * KiB, 128 * KiB, 8 * MiB))
        assert target.loops == Loops()._replace(columns=2048, short_rows=128, narrow=128, long_rows=8192)
        assert target.streams == Streams()._replace(result=2 * MiB, touched=8 * MiB)
        packed = {"ahead": 512 * KiB, "left": MiB, "right": 2 * MiB, "fixed": 4 * MiB, "near": 128 * KiB, "along": (256 * KiB, 8 * MiB)}
        assert target.blocks == Blocks()._replace(direct=64 * KiB, nearest=8 * KiB, apart=2 * KiB, lines=64, touched=4 * MiB, **packed)

    def test_cache_sizes_change_no_result_bits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Blocks and streams for a machine with hardly any caches, and for this one."""
        x = tx.random.Generator(0).normal(shape=(70, 3000), dtype=tx.float32).realize()
        found = []
        for target in (current(), current().with_caches(Caches(4 * KiB, 4 * KiB, 16 * KiB))):
            use(monkeypatch, target)
            computed = (x.sum(axis=0), x.sum(axis=1), tx.softmax(x, axis=0), x.T @ x, x @ x.T, x * 2)
            found.append([t.to_numpy().tobytes() for t in computed])
        assert found[0] == found[1]


class TestValues:
    def test_targets_are_equal_by_value(self) -> None:
        assert Target(32) == Target(32) and hash(Target(32)) == hash(Target(32))
        assert len({Target(32), Target(32), Target(16), Target(32, threads=2), tuned(Target(32), costs={"kept": 9})}) == 4

    def test_targets_are_immutable(self) -> None:
        with pytest.raises(AttributeError):
            Target(32).threads = 2  # type: ignore[misc]

    def test_target_identity_covers_everything_that_decides_code(self) -> None:
        one = Target(32, frozenset(("avx2", "f16c")))
        assert one.identity == Target(32, frozenset(("f16c", "avx2"))).identity == one.shared_by(7).identity
        others = [one._replace(vector_bytes=16), one._replace(features=frozenset()), one._replace(registers=32)]
        others += [one._replace(processor=Processor(cpu="other")), tuned(one, loops={"square": 4})]
        assert len({t.identity for t in (one, *others)}) == 6

    def test_target_identity_does_not_depend_on_hash_order(self) -> None:
        program = "from tenxor.target import Target; print(Target(32, frozenset(('avx2', 'f16c', 'avx512f'))).identity)"
        found = {python("-c", program, env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in "012"}
        assert len(found) == 1

    def test_tiles_fill_the_registers_and_no_more(self) -> None:
        for registers in (16, 32):
            for states in (1, 2):
                tile = Target(16, registers=registers).tile(states)
                mr, nr = tile.mr[0], tile.nr
                needed = states * mr * nr + states * nr + 1
                assert registers // 2 < needed <= registers
                assert Sharing().rows % mr == Blocks().rows[0] % mr == Blocks().rows[1] % mr == 0

    def test_targets_differ_by_every_number_of_a_group(self) -> None:
        plain = Target(32)
        for group in ("caches", "costs", "fusing", "loops", "streams", "blocks", "sharing"):
            for field in getattr(plain, group)._fields:
                assert tuned(plain, **{group: {field: 12345}}) != plain


def test_present_target_describes_the_processor() -> None:
    target = compiler().target
    assert target.processor.cpu and target.processor.architecture and target.vector_bytes in (16, 32, 64)
    assert target.caches.first <= target.caches.second <= target.caches.last and target.page >= 1 << 12
    assert target.has("avx512f") == (target.vector_bytes == 64)


@pytest.mark.usefixtures("plain")
def test_plans_for_one_thread_count_are_not_reused_for_another(threads: Callable[[int], None]) -> None:
    """Three threads share a batch by its products; one thread does not."""
    wanted = {}
    a, b = tx.ones((6, 20, 30)).realize(), tx.ones((6, 30, 50)).realize()
    for count in (1, 3, 1):
        threads(count)
        ((_, kernel),) = planned([(a @ b).storage.node])
        assert kernel is not None and wanted.setdefault(count, kernel) == kernel
        (a @ b).realize()
        plan = sys.modules["tenxor.realize"]._plans[pattern_of([(a @ b).storage.node]).key]
        assert plan.target.threads == count
    assert wanted[1] != wanted[3]
