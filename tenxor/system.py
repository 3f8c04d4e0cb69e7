"""What the operating system lets this process have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_LIMITS = {2: "cpu.max", 1: "cpu.cfs_quota_us"}  # by version of control groups: the file that says how much of the CPUs a group may use


def cpus(root: Path = Path("/")) -> int:
    """How many CPUs' worth of time this process may use: those that it may run on, or fewer where the quota of a container, or of
    a group around it, is less. A part of a CPU counts as one.

    Linux says so under `root`, in control groups of version 2 or 1; other systems only how many CPUs there are.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    there = len(affinity(0)) if affinity else os.cpu_count() or 1
    quotas = [quota for folder, version in _groups(root) if (quota := _quota(folder, version)) is not None]
    return max(1, min([there, *(-int(-quota // 1) for quota in quotas)]))


def _groups(root: Path) -> Iterator[tuple[Path, int]]:
    """The folders of the control groups that this process is in, each with those around it, and of which version they are."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            version, mount = 2, root / "sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            version, mount = 1, root / "sys/fs/cgroup/cpu"
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):  # inside a container its own group is the mount itself
            yield mount.joinpath(*parts[:depth]), version


def _quota(folder: Path, version: int) -> float | None:
    """How many CPUs' worth of time a control group may use; None where it is not limited."""
    try:
        limit = (folder / _LIMITS[version]).read_text().split()
        if version == 1:
            limit += (folder / "cpu.cfs_period_us").read_text().split()
        quota, period = limit
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
