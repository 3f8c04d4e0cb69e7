"""Machine code in the package: the commonest kernels for each level of x86-64, so that a first result waits for no compiler.

The package also contains the data to run common plans without planning (`plans/ready.py`). There is a file for each level beside this
module, written when the package is built (`python -m tenxor ship`). An object in the file has the name that the disk cache would give it
for the plain machine of the level. So the name depends on the kernel's IR, the machine, the version of Tenxor and the sources of the
emitter.

If the sources of the emitter have changed since, the file is not used; a damaged object is not used either. Without a readable file,
everything works as if nothing had ever been shipped. `TENXOR_SHIPPED` names another folder (empty: nothing shipped is used).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from ... import environment
from ...target import NATIVE, Processor, Target
from ...version import __version__
from . import cache
from .found import emitter, planner
from .levels import Level, level

_MAGIC = b"tenxor shipped 1\n"
_HEAD = struct.Struct(f"<{len(_MAGIC)}s64sI")  # magic, hash of the emitter's sources, number of objects
_ENTRY = struct.Struct("<32sQQ")  # the name of an object, the offset of its first byte, and its bytes
_MAX_TABLE_BYTES = 1 << 20  # bytes of all entries, at most
SUFFIX = ".objects"


def folder() -> str:
    """Return the folder of the shipped files; empty if nothing shipped is used."""
    setting = os.environ.get("TENXOR_SHIPPED")
    return os.path.join(os.path.dirname(__file__), "shipped") if setting is None else setting


def key_by(text_hash: str, cpu_level: Level, emitter_hash: str) -> str:
    """Return the name of an object for a level, by the hash of the kernel's text and the hash of the emitter's sources."""
    return cache.key_by(text_hash, f"{cpu_level.name}\n{cpu_level.target.identity}\n{__version__}", emitter_hash)


def plan_key(text: str, cpu_level: Level, planner_hashes: str) -> str:
    """Return the name of the data shipped for the plan with this text."""
    return key_by(cache.hash_of(text), cpu_level, planner_hashes)


class Shipped:
    """The shipped objects for the level of this machine."""

    __slots__ = ("_emitter", "_entry_table", "_path", "level", "target")

    def __init__(self, cpu_level: Level, target: Target, path: str, emitter: str, entry_table: bytes) -> None:
        self.level, self._path, self._emitter, self._entry_table = cpu_level, path, emitter, entry_table
        self.target = target  # the machine that this process runs on, described without LLVM

    def key_by(self, text_hash: str) -> str:
        """Return the name of the object for a kernel whose text has this hash."""
        return key_by(text_hash, self.level, self._emitter)

    def read(self, text_hash: str) -> bytes | None:
        """Return the object for a kernel whose text has this hash; None if it is missing or damaged."""
        return self._content(self.key_by(text_hash))

    def plan(self, text: str) -> bytes | None:
        """Return the data for the plan with this text; None if there is none, or if the sources of the planner have changed since."""
        planner_hashes = planner()
        return self._content(plan_key(text, self.level, planner_hashes)) if planner_hashes else None

    def _content(self, key: str) -> bytes | None:
        position = self._entry_table.find(bytes.fromhex(key))
        if position < 0 or position % _ENTRY.size:
            return None
        _, begin, size = _ENTRY.unpack_from(self._entry_table, position)
        try:
            return cache.unsealed(key, _read(self._path, begin, size))
        except OSError:
            return None


def check_setting(shipped_code: Shipped | None) -> None:
    """Warn if `TENXOR_SHIPPED` names a folder without `shipped_code` for this machine and version."""
    if shipped_code is None and os.environ.get("TENXOR_SHIPPED"):
        reason = "has nothing for this machine and version" if os.path.isdir(folder()) else "is not a folder"
        environment.warn("TENXOR_SHIPPED", f"is not used: it {reason}", "kernels are compiled, or read from the cache on disk")


def here() -> Shipped | None:
    """Return the objects shipped for this machine; None if there are none, or if other sources of the emitter made them."""
    root = folder()
    cpu_level = level() if root and os.path.isdir(root) else None
    target = Target.of_host(cpu_level.target.features, Processor(cpu_level.target.processor.triple, NATIVE)) if cpu_level else None
    if cpu_level is None or target is None or not cpu_level.of(target):
        return None
    path = os.path.join(root, cpu_level.name + SUFFIX)
    try:
        magic, text, count = _HEAD.unpack(_read(path, 0, _HEAD.size))
        if magic != _MAGIC or count * _ENTRY.size > _MAX_TABLE_BYTES or text.decode("ascii", "replace") != emitter():
            return None
        entry_table = _read(path, _HEAD.size, count * _ENTRY.size)
    except (OSError, struct.error):
        return None
    return Shipped(cpu_level, target, path, text.decode(), entry_table) if len(entry_table) == count * _ENTRY.size else None


def written(objects: Mapping[str, bytes], text_of_emitter: str) -> bytes:
    """Return the content of a file with these objects, each under its name."""
    begin, entries, payload = _HEAD.size + len(objects) * _ENTRY.size, [], []
    for key, image in sorted(objects.items()):
        content = cache.sealed(key, image)
        entries.append(_ENTRY.pack(bytes.fromhex(key), begin, len(content)))
        payload.append(content)
        begin += len(content)
    return b"".join([_HEAD.pack(_MAGIC, text_of_emitter.encode(), len(objects)), *entries, *payload])


def _read(path: str, begin: int, size: int) -> bytes:
    """Return `size` bytes of a file from `begin` on, or fewer if the file ends before."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        os.lseek(descriptor, begin, os.SEEK_SET)
        return os.read(descriptor, min(size, cache.MAX_BYTES))
    finally:
        os.close(descriptor)
