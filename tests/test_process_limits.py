"""Test the CPU count and memory of a process, which its affinity and the quota of its container limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tenxor._utils.process import count_cpus, get_memory_bytes

CPU_COUNT = 64


@pytest.fixture(autouse=True)
def _many_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(CPU_COUNT)), raising=False)


def tree(root: Path, files: dict[str, str]) -> Path:
    """A folder with these files."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


V2, V1 = "0::/a/b\n", "7:memory:/x\n4:cpu,cpuacct:/a/b\n0::/y\n"
V2_MAX, V1_QUOTA, V1_PERIOD = (
    "sys/fs/cgroup/{}cpu.max",
    "sys/fs/cgroup/cpu/{}cpu.cfs_quota_us",
    "sys/fs/cgroup/cpu/{}cpu.cfs_period_us",
)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, CPU_COUNT),
        ({"proc/self/cgroup": V2}, CPU_COUNT),
        ({"proc/self/cgroup": V2, V2_MAX.format("a/b/"): "max 100000\n"}, CPU_COUNT),
        ({"proc/self/cgroup": V2, V2_MAX.format("a/b/"): "200000 100000\n"}, 2),
        ({"proc/self/cgroup": V2, V2_MAX.format("a/b/"): "150000 100000\n"}, 2),
        ({"proc/self/cgroup": V2, V2_MAX.format("a/b/"): "5000 100000\n"}, 1),
        ({"proc/self/cgroup": V2, V2_MAX.format("a/b/"): "max 100000\n", V2_MAX.format("a/"): "300000 100000\n"}, 3),
        ({"proc/self/cgroup": V2, V2_MAX.format("a/b/"): "900000 100000\n", V2_MAX.format("a/"): "300000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/\n", V2_MAX.format(""): "400000 100000\n"}, 4),  # inside a container
        ({"proc/self/cgroup": "0::/../../outside\n", V2_MAX.format(""): "400000 100000\n"}, 4),
        ({"proc/self/cgroup": V2, V2_MAX.format("a/b/"): "9999999 100000\n"}, CPU_COUNT),
        ({"proc/self/cgroup": V1, V1_QUOTA.format("a/b/"): "-1\n", V1_PERIOD.format("a/b/"): "100000\n"}, CPU_COUNT),
        ({"proc/self/cgroup": V1, V1_QUOTA.format("a/b/"): "250000\n", V1_PERIOD.format("a/b/"): "100000\n"}, 3),
        ({"proc/self/cgroup": V1, V1_QUOTA.format(""): "100000\n", V1_PERIOD.format(""): "50000\n"}, 2),
        ({"proc/self/cgroup": V1, V1_QUOTA.format("a/b/"): "250000\n"}, CPU_COUNT),
        *(
            ({"proc/self/cgroup": V2, V2_MAX.format("a/b/"): broken}, CPU_COUNT)
            for broken in ("", "many 100000", "100000", "1 0", "1 2 3", "-5 100000")
        ),
        ({"proc/self/cgroup": "no such thing\n\n::\n"}, CPU_COUNT),
    ],
)
def test_cgroup_quota_limits_the_cpu_count(files: dict[str, str], expected: int, tmp_path: Path) -> None:
    assert count_cpus(tree(tmp_path, files)) == expected


def test_cpu_affinity_limits_the_cpu_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 5, 7})
    assert count_cpus(tree(tmp_path, {"proc/self/cgroup": V2, V2_MAX.format("a/b/"): "800000 100000\n"})) == 3


def test_cpu_count_without_affinity_falls_back_to_os_cpu_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert count_cpus(tmp_path) == 5
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert count_cpus(tmp_path) == 1


def test_memory_is_limited_by_the_container(tmp_path: Path) -> None:
    machine_memory = get_memory_bytes(tmp_path)
    assert machine_memory == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name, limit, expected in (("memory.max", "max", machine_memory), ("memory.max", "1000000", 1000000)):
        assert get_memory_bytes(tree(tmp_path, {f"sys/fs/cgroup/{name}": limit})) == expected
    assert get_memory_bytes(tree(tmp_path, {"sys/fs/cgroup/memory/memory.limit_in_bytes": "5000"})) == 5000


def test_memory_defaults_to_4_gib_without_sysconf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "sysconf")
    assert get_memory_bytes(tmp_path) == 1 << 32
