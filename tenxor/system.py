"""What the operating system lets this process have: memory, CPUs, and where threads run. The folder in which something is kept is
in `folders.py`, and the semaphores that machine code calls in `backend/llvm/sharing.py`.

Linux says most; for what another system does not say there is something plainer. Nothing here is needed for a right result.

Each process asks here before its first result, so paths are strings: to load `pathlib` would take as long as a kernel.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from .late import LateModule

if TYPE_CHECKING:
    from mmap import mmap as Mapping
mmap = LateModule("mmap")  # with the first memory that is mapped

Folder = str | os.PathLike[str]

_LIMITS = {2: "cpu.max", 1: "cpu.cfs_quota_us"}  # by version of control groups: the file that says how much of the CPUs a group may use


def said(path: Folder, most: int = 1 << 16) -> str:
    """What the system says in a file, or the beginning of it: so many bytes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, most).decode("utf-8")
    finally:
        os.close(descriptor)


def cpus(root: Folder = "") -> int:
    """How many CPUs' worth of time this process may use: those that it may run on, or fewer where the quota of a container, or of
    a group around it, is less. A part of a CPU counts as one.

    Linux says so under `root`, in control groups of version 2 or 1; other systems only how many CPUs there are.
    """
    there = len(may_run_on())
    quotas = [quota for folder, version in _groups(root) if (quota := _quota(folder, version)) is not None]
    return max(1, min([there, *(-int(-quota // 1) for quota in quotas)]))


def may_run_on() -> frozenset[int]:
    """The CPUs that this thread may run on, by number; all that there are where the system does not say."""
    affinity = getattr(os, "sched_getaffinity", None)
    return frozenset(affinity(0)) if affinity else frozenset(range(os.cpu_count() or 1))


def _groups(root: Folder) -> Iterator[tuple[str, int]]:
    """The folders of the control groups that this process is in, each with those around it, and of which version they are."""
    try:
        lines = said(f"{root}/proc/self/cgroup").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            version, mount = 2, f"{root}/sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            version, mount = 1, f"{root}/sys/fs/cgroup/cpu"
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):  # inside a container its own group is the mount itself
            yield "/".join((mount, *parts[:depth])), version


def _quota(folder: str, version: int) -> float | None:
    """How many CPUs' worth of time a control group may use; None where it is not limited."""
    try:
        limit = said(f"{folder}/{_LIMITS[version]}").split()
        if version == 1:
            limit += said(f"{folder}/cpu.cfs_period_us").split()
        quota, period = limit
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def place_apart(threads: Iterable[int], allowed: frozenset[int]) -> None:
    """Have threads, by the system's numbers, run on no CPU but the `allowed` ones, and not on that which this one runs on. They should
    be let go when they are awake: others may want these CPUs.

    Only Linux lets one say that. Who sleeps is woken up where it ran before, or on the CPU of whoever wakes it, and then waits
    for that, though others be idle.
    """
    here = _asked_here()()
    others = allowed - {here}
    if here >= 0 and others:
        with suppress(OSError):  # a thread that is gone, or CPUs that were taken away
            for thread in threads:
                os.sched_setaffinity(thread, others)


def _nowhere() -> int:
    return -1


@cache
def _asked_here() -> Callable[[], int]:
    """What says on which CPU a thread runs; -1 where nothing does."""
    if not hasattr(os, "sched_setaffinity"):
        return _nowhere
    return getattr(ctypes.CDLL(None), "sched_getcpu", _nowhere)


def memory_bytes(root: Folder = "") -> int:
    """The bytes of memory that this machine, or the container, has; about, and 4 GiB if nobody says."""
    found = 1 << 32
    with suppress(AttributeError, ValueError, OSError):
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(ValueError, OSError):
            found = min(found, int(said(f"{root}/sys/fs/cgroup/{limit}")))
    return found


def mapped(nbytes: int) -> Mapping | None:
    """Memory of its own for so many bytes, of which the system can be told how it should lie; None where it cannot.

    OSError, ValueError or OverflowError if there is not so much.
    """
    if not hasattr(mmap, "MADV_HUGEPAGE"):  # only Linux has it
        return None
    space: Mapping = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return space


def advise_huge(space: Mapping, first: int, nbytes: int) -> None:
    """Have some of it lie in huge pages, if the system was built with them."""
    with suppress(OSError):
        space.madvise(mmap.MADV_HUGEPAGE, first, nbytes)


def runnable(nbytes: int, code: int, content: Callable[[int], bytes | bytearray]) -> Mapping:
    """Memory for machine code and what it writes, of which the first `code` bytes, whole pages, can be run from now on, and not be
    written; `content`, which is told its address, is what is there first, with zeros behind.

    OSError where the system allows no such memory.
    """
    space: Mapping = mmap.mmap(-1, max(nbytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(space))
    space.write(content(address))
    run = mmap.PROT_READ | mmap.PROT_EXEC
    if _process().mprotect(ctypes.c_void_p(address), ctypes.c_size_t(code), run):
        raise OSError("memory cannot be made runnable")
    return space


@cache
def _process() -> ctypes.CDLL:
    """All that this process has loaded for all, now and later. To make one is to make a class."""
    return ctypes.CDLL(None)


def address_in_process(symbol: str) -> int:
    """Where a function of C is, of those that this process has loaded for all; LookupError if there is none of this name."""
    try:
        found = ctypes.cast(getattr(_process(), symbol), ctypes.c_void_p).value
    except AttributeError:
        found = None
    if not found:
        raise LookupError(symbol)
    return found
