"""Resources the operating system grants this process: memory, CPUs, and the placement of threads.

Linux reports the most; elsewhere there are simple defaults. Results never depend on this module. Private folders are in `private_dirs.py`,
and the semaphores called by machine code in `codegen/llvm/parallel_for.py`.

Every process comes here before its first result, so paths are strings: importing `pathlib` would take as long as compiling a kernel.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from .lazy import LazyModule

if TYPE_CHECKING:
    from mmap import mmap as Mapping
mmap = LazyModule("mmap")  # imported for the first mapping of memory

FolderPath = str | os.PathLike[str]

_QUOTA_FILES = {2: "cpu.max", 1: "cpu.cfs_quota_us"}  # version of control groups -> the file with a group's CPU quota


def read_text(path: FolderPath, max_bytes: int = 1 << 16) -> str:
    """Return the text of the file `path`, decoded from UTF-8, at most its first `max_bytes` bytes.

    Raise OSError if the file cannot be read, and UnicodeDecodeError for bytes that are not UTF-8.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, max_bytes).decode("utf-8")
    finally:
        os.close(descriptor)


def count_cpus(root: FolderPath = "") -> int:
    """Return how many CPUs' worth of time this process may use, at least 1.

    This is the number of CPUs in its affinity mask, or a smaller CPU quota of its control group or an enclosing one. A fraction counts as a
    whole CPU. Linux reports quotas below `root`, the root of the file system (tests pass another folder), in control groups of version 2 or
    1; other systems report only the number of CPUs.
    """
    cpu_count = len(get_allowed_cpus())
    quotas = [quota for folder, version in _control_groups(root) if (quota := _read_quota(folder, version)) is not None]
    return max(1, min([cpu_count, *(-int(-quota // 1) for quota in quotas)]))


def get_allowed_cpus() -> frozenset[int]:
    """Return the numbers of the CPUs in the calling thread's affinity mask, or of all CPUs where the system reports no mask."""
    affinity = getattr(os, "sched_getaffinity", None)
    return frozenset(affinity(0)) if affinity else frozenset(range(os.cpu_count() or 1))


def _control_groups(root: FolderPath) -> Iterator[tuple[str, int]]:
    """Yield the folder and version of each control group of this process, then of its enclosing groups, innermost first.

    `root` is the root of the file system, or a folder in its place. Yield nothing where the system has no control groups.
    """
    try:
        lines = read_text(f"{root}/proc/self/cgroup").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        number, _, fields = line.partition(":")
        controllers, _, path = fields.partition(":")
        if number == "0" and not controllers:
            version, mount = 2, f"{root}/sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            version, mount = 1, f"{root}/sys/fs/cgroup/cpu"
        else:
            continue
        components = [component for component in path.split("/") if component not in ("", "..")]
        for depth in range(len(components), -1, -1):  # inside a container the process's own group is the mount itself
            yield "/".join((mount, *components[:depth])), version


def _read_quota(folder: str, version: int) -> float | None:
    """Return the CPU quota of the control group with the folder `folder`, in CPUs' worth of time, or None for no limit.

    `version` is the version of the control groups, 1 or 2.
    """
    try:
        limit = read_text(f"{folder}/{_QUOTA_FILES[version]}").split()
        if version == 1:
            limit += read_text(f"{folder}/cpu.cfs_period_us").split()
        quota, period = limit
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def avoid_current_cpu(thread_ids: Iterable[int], allowed: frozenset[int]) -> None:
    """Restrict the threads with the system's ids `thread_ids` to the `allowed` CPUs without the CPU of the caller.

    The caller should lift the restriction once the threads are awake: other programs may want the CPUs. Without the restriction, Linux
    wakes a thread on the CPU where the thread ran last, or on the waker's CPU. There the thread waits even if other CPUs are idle. Only
    Linux supports this; elsewhere do nothing. Do nothing either if `allowed` has no other CPU.
    """
    current_cpu = _current_cpu_getter()()
    other_cpus = allowed - {current_cpu}
    if current_cpu >= 0 and other_cpus:
        with suppress(OSError):  # a thread has ended, or its CPUs were taken offline
            for thread in thread_ids:
                os.sched_setaffinity(thread, other_cpus)


def _unknown_cpu() -> int:
    """Return -1, for systems that do not report the CPU of a thread."""
    return -1


@cache
def _current_cpu_getter() -> Callable[[], int]:
    """Return a function that returns the number of the CPU running the calling thread, or -1 if the system does not report the CPU."""
    if not hasattr(os, "sched_setaffinity"):
        return _unknown_cpu
    return getattr(ctypes.CDLL(None), "sched_getcpu", _unknown_cpu)


def get_memory_bytes(root: FolderPath = "") -> int:
    """Return the approximate bytes of memory of this machine, or the container's limit if it is less; 4 GiB if the system reports none.

    `root` is the root of the file system with the control groups, or a folder in its place.
    """
    nbytes = 1 << 32
    with suppress(AttributeError, ValueError, OSError):
        nbytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(ValueError, OSError):
            nbytes = min(nbytes, int(read_text(f"{root}/sys/fs/cgroup/{limit}")))
    return nbytes


def map_memory(nbytes: int) -> Mapping | None:
    """Return a private anonymous mapping of `nbytes` bytes, or None where the system has no `MADV_HUGEPAGE` (all but Linux).

    Raise OSError, ValueError or OverflowError if there is not enough memory.
    """
    if not hasattr(mmap, "MADV_HUGEPAGE"):  # `madvise` for huge pages exists only on Linux
        return None
    space: Mapping = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return space


def advise_huge_pages(space: Mapping, offset: int, nbytes: int) -> None:
    """Ask for huge pages for `nbytes` bytes of the mapping `space` from byte `offset` on.

    Do nothing if the system was built without huge pages.
    """
    with suppress(OSError):
        space.madvise(mmap.MADV_HUGEPAGE, offset, nbytes)


def map_executable(nbytes: int, code_bytes: int, content: Callable[[int], bytes | bytearray]) -> Mapping:
    """Return a mapping of `nbytes` bytes whose first `code_bytes` bytes, a multiple of the page size, are executable and read-only.

    `content(address)` receives the address of the mapping and returns its initial bytes; zeros follow. The rest stays writable. Raise
    OSError where the system forbids such memory.
    """
    space: Mapping = mmap.mmap(-1, max(nbytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(space))
    space.write(content(address))
    run = mmap.PROT_READ | mmap.PROT_EXEC
    if _process_library().mprotect(ctypes.c_void_p(address), ctypes.c_size_t(code_bytes), run):
        raise OSError("memory cannot be made executable")
    return space


@cache
def _process_library() -> ctypes.CDLL:
    """Return a handle to resolve globally loaded symbols of this process, now and later. Cached, since each call makes a class."""
    return ctypes.CDLL(None)


def find_symbol_address(symbol: str) -> int:
    """Return the address of the C function named `symbol` among the globally loaded symbols of this process.

    Raise LookupError if no such function is loaded.
    """
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(_process_library(), symbol))  # any type will do
    except ValueError:
        raise LookupError(symbol) from None
