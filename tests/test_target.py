"""Test targets: their fields, the target of this machine, and settings that follow from its caches."""

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


def make_cache_folder(folder: Path, *caches: tuple[int, str, str]) -> Path:
    """Return `folder` with files as Linux has them, for caches of these levels, kinds and sizes."""
    for k, (level, kind, size) in enumerate(caches):
        for cpu in os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else (0,):
            path = folder / f"cpu{cpu}" / "cache" / f"index{k}"
            path.mkdir(parents=True)
            for name, text in (("level", level), ("type", kind), ("size", size), ("coherency_line_size", 128)):
                (path / name).write_text(f"{text}\n")
    return folder


class TestCaches:
    def test_are_read_from_the_files_of_linux(self, tmp_path: Path) -> None:
        caches = (1, "Data", "48K"), (1, "Instruction", "64K"), (2, "Unified", "2M"), (3, "Unified", "30720K")
        assert caches_of_host(make_cache_folder(tmp_path, *caches)) == Caches(48 * KiB, 2 * MiB, 30 * MiB, 128)

    @pytest.mark.parametrize(
        ("sysconf_values", "expected"),
        [
            ({}, Caches()),
            ({"SC_LEVEL1_DCACHE_SIZE": 1 << 16}, Caches(first=1 << 16)),
            ({"SC_LEVEL1_DCACHE_SIZE": 1 << 15, "SC_LEVEL2_CACHE_SIZE": 1 << 18}, Caches(1 << 15, 1 << 18, 1 << 18)),
            ({"SC_LEVEL3_CACHE_SIZE": 1 << 24, "SC_LEVEL1_DCACHE_LINESIZE": 128}, Caches(1 << 15, 1 << 15, 1 << 24, 128)),
        ],
    )
    def test_are_read_from_sysconf_or_take_defaults_without_the_files(
        self, sysconf_values: dict[str, int], expected: Caches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(targets, "_asked", lambda name: sysconf_values.get(name, 0))
        assert caches_of_host(tmp_path) == expected

    @pytest.mark.parametrize("caches", TUNED_ON)
    def test_of_the_tuned_machines_give_the_default_settings(self, caches: Caches) -> None:
        target = Target(32).with_caches(caches)
        assert (target.loops, target.streams, target.blocks) == (Loops(), Streams(), Blocks())

    def test_smaller_than_usual_give_smaller_blocks(self) -> None:
        target = Target(16).with_caches(Caches(16 * KiB, 128 * KiB, 8 * MiB))
        assert target.loops == Loops()._replace(columns=2048, short_rows=128, narrow=128, long_rows=8192)
        assert target.streams == Streams()._replace(result=2 * MiB, touched=8 * MiB)
        packed = {"ahead": 512 * KiB, "left": MiB, "right": 2 * MiB, "fixed": 4 * MiB, "near": 128 * KiB, "along": (256 * KiB, 8 * MiB)}
        assert target.blocks == Blocks()._replace(direct=64 * KiB, nearest=8 * KiB, apart=2 * KiB, lines=64, touched=4 * MiB, **packed)

    def test_do_not_change_the_bits_of_results(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Compare results with the settings for a machine with tiny caches and for this machine."""
        x = tx.random.Generator(0).normal(shape=(70, 3000), dtype=tx.float32).realize()
        bits = []
        for target in (current(), current().with_caches(Caches(4 * KiB, 4 * KiB, 16 * KiB))):
            use(monkeypatch, target)
            computed = (x.sum(axis=0), x.sum(axis=1), tx.softmax(x, axis=0), x.T @ x, x @ x.T, x * 2)
            bits.append([t.to_numpy().tobytes() for t in computed])
        assert bits[0] == bits[1]


class TestTargets:
    def test_are_equal_and_hash_equally_by_their_fields(self) -> None:
        assert Target(32) == Target(32) and hash(Target(32)) == hash(Target(32))
        assert len({Target(32), Target(32), Target(16), Target(32, threads=2), tuned(Target(32), costs={"kept": 9})}) == 4

    def test_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            Target(32).threads = 2  # type: ignore[misc]

    def test_have_an_identity_that_covers_every_field_that_decides_code(self) -> None:
        target = Target(32, frozenset(("avx2", "f16c")))
        assert target.identity == Target(32, frozenset(("f16c", "avx2"))).identity == target.shared_by(7).identity
        variants = [target._replace(vector_bytes=16), target._replace(features=frozenset()), target._replace(registers=32)]
        variants += [target._replace(processor=Processor(cpu="other")), tuned(target, loops={"square": 4})]
        assert len({t.identity for t in (target, *variants)}) == 6

    def test_have_the_same_identity_under_any_hash_seed(self) -> None:
        program = "from tenxor.target import Target; print(Target(32, frozenset(('avx2', 'f16c', 'avx512f'))).identity)"
        identities = {python("-c", program, env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in "012"}
        assert len(identities) == 1

    def test_have_tiles_that_fill_more_than_half_of_the_registers(self) -> None:
        for registers in (16, 32):
            for states in (1, 2):
                tile = Target(16, registers=registers).tile(states)
                mr, nr = tile.mr[0], tile.nr
                needed = states * mr * nr + states * nr + 1
                assert registers // 2 < needed <= registers
                assert Sharing().rows % mr == Blocks().rows[0] % mr == Blocks().rows[1] % mr == 0

    def test_differ_if_any_setting_differs(self) -> None:
        target = Target(32)
        for group in ("caches", "costs", "fusing", "loops", "streams", "blocks", "sharing"):
            for field in getattr(target, group)._fields:
                assert tuned(target, **{group: {field: 12345}}) != target


def test_target_of_this_machine_is_consistent() -> None:
    target = compiler().target
    assert target.processor.cpu and target.processor.architecture and target.vector_bytes in (16, 32, 64)
    assert target.caches.first <= target.caches.second <= target.caches.last and target.page >= 1 << 12
    assert target.has("avx512f") == (target.vector_bytes == 64)


@pytest.mark.usefixtures("plain")
def test_plan_for_one_thread_count_is_not_reused_for_another(threads: Callable[[int], None]) -> None:
    """Three threads share a batch of products; with one thread the products are not shared."""
    kernels_by_count = {}
    a, b = tx.ones((6, 20, 30)).realize(), tx.ones((6, 30, 50)).realize()
    for count in (1, 3, 1):
        threads(count)
        ((_, kernel),) = planned([(a @ b).storage.node])
        assert kernel is not None and kernels_by_count.setdefault(count, kernel) == kernel
        (a @ b).realize()
        plan = sys.modules["tenxor.realize"]._plans[pattern_of([(a @ b).storage.node]).key]
        assert plan.target.threads == count
    assert kernels_by_count[1] != kernels_by_count[3]
