"""Targets: comparison by value, the description of the host, and constants that follow from cache sizes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tenxor as tx
from tenxor import target as targets
from tenxor.codegen.llvm.compiler import compiler
from tenxor.runtime.graph_signature import capture_by_traversal
from tenxor.runtime.planner import preview_kernels
from tenxor.target import Blocks, Caches, Loops, Processor, Streams, Target, ThreadLimits, get_host_caches
from tests.machines import current, tuned, use

from .processes import python

KiB, MiB = 1 << 10, 1 << 20
TUNED_ON = (  # the machines that the numbers were found on
    Caches(32 * KiB, 512 * KiB, 32 * MiB),  # Zen 3
    Caches(48 * KiB, MiB, 32 * MiB),  # Zen 5
    Caches(32 * KiB, MiB, 36_608 * KiB),  # Cascade Lake
)


def write_cache_folder(folder: Path, *caches: tuple[int, str, str]) -> Path:
    """Return a folder as in `/sys` of Linux, with caches of these levels, kinds and sizes."""
    for k, (level, kind, size) in enumerate(caches):
        for cpu in os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else (0,):
            index_folder = folder / f"cpu{cpu}" / "cache" / f"index{k}"
            index_folder.mkdir(parents=True)
            for name, text in (("level", level), ("type", kind), ("size", size), ("coherency_line_size", 128)):
                (index_folder / name).write_text(f"{text}\n")
    return folder


class TestCaches:
    def test_caches_are_read_from_linux_sysfs(self, tmp_path: Path) -> None:
        caches = (1, "Data", "48K"), (1, "Instruction", "64K"), (2, "Unified", "2M"), (3, "Unified", "30720K")
        assert get_host_caches(write_cache_folder(tmp_path, *caches)) == Caches(48 * KiB, 2 * MiB, 30 * MiB, 128)

    @pytest.mark.parametrize(
        ("sysconf", "expected"),
        [
            ({}, Caches()),
            ({"SC_LEVEL1_DCACHE_SIZE": 1 << 16}, Caches(l1_bytes=1 << 16)),
            ({"SC_LEVEL1_DCACHE_SIZE": 1 << 15, "SC_LEVEL2_CACHE_SIZE": 1 << 18}, Caches(1 << 15, 1 << 18, 1 << 18)),
            ({"SC_LEVEL3_CACHE_SIZE": 1 << 24, "SC_LEVEL1_DCACHE_LINESIZE": 128}, Caches(1 << 15, 1 << 15, 1 << 24, 128)),
        ],
    )
    def test_caches_fall_back_to_sysconf_and_defaults(
        self, sysconf: dict[str, int], expected: Caches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(targets, "_sysconf", lambda name: sysconf.get(name, 0))
        assert get_host_caches(tmp_path) == expected

    @pytest.mark.parametrize("caches", TUNED_ON)
    def test_tuned_machines_get_the_default_constants(self, caches: Caches) -> None:
        target = Target(32).with_caches(caches)
        assert (target.loops, target.streams, target.blocks) == (Loops(), Streams(), Blocks())

    def test_smaller_caches_give_smaller_blocks(self) -> None:
        target = Target(16).with_caches(Caches(16 * KiB, 128 * KiB, 8 * MiB))
        assert target.loops == Loops()._replace(
            block_columns=2048, max_short_row_columns=128, reread_block_columns=128, min_long_row_bytes=8192
        )
        assert target.streams == Streams()._replace(min_result_bytes=2 * MiB, min_touched_bytes=8 * MiB)
        packed = {
            "min_prefetch_batch_bytes": 512 * KiB,
            "packed_row_bytes": MiB,
            "packed_column_bytes": 2 * MiB,
            "fixed_row_bytes": 4 * MiB,
            "l2_working_bytes": 128 * KiB,
            "row_order_result_bytes": (256 * KiB, 8 * MiB),
        }
        assert target.blocks == Blocks()._replace(
            max_direct_bytes=64 * KiB,
            max_l1_column_bytes=8 * KiB,
            set_conflict_bytes=2 * KiB,
            max_unpacked_lines=64,
            max_unpacked_bytes=4 * MiB,
            **packed,
        )

    def test_cache_sizes_change_no_bit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The results are computed for tiny caches and for the caches of the host."""
        x = tx.random.Generator(0).normal(shape=(70, 3000), dtype=tx.float32).realize()
        results = []
        for target in (current(), current().with_caches(Caches(4 * KiB, 4 * KiB, 16 * KiB))):
            use(monkeypatch, target)
            computed = (x.sum(axis=0), x.sum(axis=1), tx.softmax(x, axis=0), x.T @ x, x @ x.T, x * 2)
            results.append([t.to_numpy().tobytes() for t in computed])
        assert results[0] == results[1]


class TestValues:
    def test_targets_compare_by_value(self) -> None:
        assert Target(32) == Target(32) and hash(Target(32)) == hash(Target(32))
        assert len({Target(32), Target(32), Target(16), Target(32, threads=2), tuned(Target(32), costs={"min_buffered_value": 9})}) == 4

    def test_targets_are_immutable(self) -> None:
        with pytest.raises(AttributeError):
            Target(32).threads = 2  # type: ignore[misc]

    def test_identity_of_a_target_depends_on_all_that_decides_code(self) -> None:
        target = Target(32, frozenset(("avx2", "f16c")))
        assert target.identity == Target(32, frozenset(("f16c", "avx2"))).identity == target.with_threads(7).identity
        variants = [target._replace(vector_bytes=16), target._replace(features=frozenset()), target._replace(register_count=32)]
        variants += [target._replace(processor=Processor(cpu="other")), tuned(target, loops={"register_transpose_side": 4})]
        assert len({t.identity for t in (target, *variants)}) == 6

    def test_identity_of_a_target_does_not_depend_on_the_hash_seed(self) -> None:
        program = "from tenxor.target import Target; print(Target(32, frozenset(('avx2', 'f16c', 'avx512f'))).identity)"
        identities = {python("-c", program, env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in "012"}
        assert len(identities) == 1

    def test_tiles_fit_the_registers(self) -> None:
        for registers in (16, 32):
            for states in (1, 2):
                tile = Target(16, register_count=registers).contraction_tile(states)
                mr, nr = tile.mr[0], tile.nr
                needed = states * mr * nr + states * nr + 1
                assert registers // 2 < needed <= registers
                assert ThreadLimits().row_grain % mr == Blocks().block_rows[0] % mr == Blocks().block_rows[1] % mr == 0

    def test_targets_differ_if_any_tuning_constant_differs(self) -> None:
        """Each constant takes part in the comparison of targets."""
        plain = Target(32)
        for group in ("caches", "costs", "fusing", "loops", "streams", "blocks", "thread_limits"):
            for field in getattr(plain, group)._fields:
                assert tuned(plain, **{group: {field: 12345}}) != plain


def test_host_target_matches_its_processor() -> None:
    target = compiler().target
    assert target.processor.cpu and target.processor.architecture and target.vector_bytes in (16, 32, 64)
    assert target.caches.l1_bytes <= target.caches.l2_bytes <= target.caches.last_level_bytes and target.page_bytes >= 1 << 12
    assert target.has_feature("avx512f") == (target.vector_bytes == 64)


@pytest.mark.usefixtures("plain")
def test_plans_depend_on_the_number_of_threads(threads: Callable[[int], None]) -> None:
    """Three threads share a batch by its products; one thread does not split it."""
    wanted = {}
    a, b = tx.ones((6, 20, 30)).realize(), tx.ones((6, 30, 50)).realize()
    for count in (1, 3, 1):
        threads(count)
        ((_, kernel),) = preview_kernels([(a @ b).storage.node])
        assert kernel is not None and wanted.setdefault(count, kernel) == kernel
        (a @ b).realize()
        plan = sys.modules["tenxor.runtime.realize"]._plans[capture_by_traversal([(a @ b).storage.node]).key]
        assert plan.target.threads == count
    assert wanted[1] != wanted[3]
