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
_MOST = 1 << 20  # bytes of all entries, at most
SUFFIX = ".objects"


def folder() -> str:
    """Return the folder of the shipped files; empty if nothing shipped is used."""
    named = os.environ.get("TENXOR_SHIPPED")
    return os.path.join(os.path.dirname(__file__), "shipped") if named is None else named


def key_by(text_hash: str, its: Level, text_of_emitter: str) -> str:
    """Return the name of an object for a level, by the hash of the kernel's text and the hash of the emitter's sources."""
    return cache.key_by(text_hash, f"{its.name}\n{its.target.identity}\n{__version__}", text_of_emitter)


def plan_key(text: str, its: Level, planned: str) -> str:
    """Return the name of the data shipped for the plan with this text."""
    return key_by(cache.hash_of(text), its, planned)


class Shipped:
    """The shipped objects for the level of this machine."""

    __slots__ = ("_emitter", "_listed", "_path", "level", "target")

    def __init__(self, its: Level, target: Target, path: str, emitter: str, listed: bytes) -> None:
        self.level, self._path, self._emitter, self._listed = its, path, emitter, listed
        self.target = target  # the machine that this process runs on, described without LLVM

    def key_by(self, text_hash: str) -> str:
        """Return the name of the object for a kernel whose text has this hash."""
        return key_by(text_hash, self.level, self._emitter)

    def read(self, text_hash: str) -> bytes | None:
        """Return the object for a kernel whose text has this hash; None if it is missing or damaged."""
        return self._content(self.key_by(text_hash))

    def plan(self, text: str) -> bytes | None:
        """Return the data for the plan with this text; None if there is none, or if the sources of the planner have changed since."""
        planned = planner()
        return self._content(plan_key(text, self.level, planned)) if planned else None

    def _content(self, key: str) -> bytes | None:
        at = self._listed.find(bytes.fromhex(key))
        if at < 0 or at % _ENTRY.size:
            return None
        _, begin, size = _ENTRY.unpack_from(self._listed, at)
        try:
            return cache.unsealed(key, _read(self._path, begin, size))
        except OSError:
            return None


def check_setting(found: Shipped | None) -> None:
    """Warn if `TENXOR_SHIPPED` names a folder in which nothing was `found` for this machine and version."""
    if found is None and os.environ.get("TENXOR_SHIPPED"):
        why = "has nothing for this machine and version" if os.path.isdir(folder()) else "is not a folder"
        environment.warn("TENXOR_SHIPPED", f"is not used: it {why}", "kernels are compiled, or read from the cache on disk")


def here() -> Shipped | None:
    """Return the objects shipped for this machine; None if there are none, or if other sources of the emitter made them."""
    there = folder()
    its = level() if there and os.path.isdir(there) else None
    target = Target.of_host(its.target.features, Processor(its.target.processor.triple, NATIVE)) if its else None
    if its is None or target is None or not its.of(target):
        return None
    path = os.path.join(there, its.name + SUFFIX)
    try:
        magic, text, count = _HEAD.unpack(_read(path, 0, _HEAD.size))
        if magic != _MAGIC or count * _ENTRY.size > _MOST or text.decode("ascii", "replace") != emitter():
            return None
        listed = _read(path, _HEAD.size, count * _ENTRY.size)
    except (OSError, struct.error):
        return None
    return Shipped(its, target, path, text.decode(), listed) if len(listed) == count * _ENTRY.size else None


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
