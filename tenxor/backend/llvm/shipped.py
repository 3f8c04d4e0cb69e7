"""Machine code that comes with the package: of the commonest kernels, for each level of x86-64, so that the first result of all waits for
no compiler; and what is needed to run some of them without planning (`plans/ready.py`).

A file for each level lies beside this module, where whoever made the package had it made (`python -m tenxor ship`, docs/architecture.md).
An object in it is known by the name that the cache on disk would give it, for the plain machine of that level: so by the kernel's IR, that
machine, our version and the text of the emitter. Where that text is another one than it was, nothing of the file is used; and an object
is used only if it is whole. Where there is no such file, or it cannot be read, all is as if there had never been one.

`TENXOR_SHIPPED` names another folder (empty: nothing that is shipped is used).
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
_HEAD = struct.Struct(f"<{len(_MAGIC)}s64sI")  # and the emitter's hash, and how many objects there are
_ENTRY = struct.Struct("<32sQQ")  # a name; where an object begins, and its bytes
_MOST = 1 << 20  # bytes of all entries
SUFFIX = ".objects"


def folder() -> str:
    """Where the files are; empty if they are not to be used."""
    named = os.environ.get("TENXOR_SHIPPED")
    return os.path.join(os.path.dirname(__file__), "shipped") if named is None else named


def key_by(text_hash: str, its: Level, text_of_emitter: str) -> str:
    """The name of an object for a level, whose text has this hash."""
    return cache.key_by(text_hash, f"{its.name}\n{its.target.identity}\n{__version__}", text_of_emitter)


def plan_key(text: str, its: Level, planned: str) -> str:
    """The name of what is shipped for a plan of this text."""
    return key_by(cache.hash_of(text), its, planned)


class Shipped:
    """The objects for the level of this machine."""

    __slots__ = ("_emitter", "_listed", "_path", "level", "target")

    def __init__(self, its: Level, target: Target, path: str, emitter: str, listed: bytes) -> None:
        self.level, self._path, self._emitter, self._listed = its, path, emitter, listed
        self.target = target  # the machine that this process runs on, of which nobody asked LLVM

    def key_by(self, text_hash: str) -> str:
        """The name of an object for a kernel whose text has this hash."""
        return key_by(text_hash, self.level, self._emitter)

    def read(self, text_hash: str) -> bytes | None:
        """That object, if there is one and it is whole."""
        return self._content(self.key_by(text_hash))

    def plan(self, text: str) -> bytes | None:
        """What there is for a plan that is known by a text, if what plans is as it was when that was made."""
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
    """What is shipped for the machine that this process runs on; None if nothing is, or it was made by another emitter."""
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
    """The content of a file with these objects, by their names."""
    begin, entries, payload = _HEAD.size + len(objects) * _ENTRY.size, [], []
    for key, image in sorted(objects.items()):
        content = cache.sealed(key, image)
        entries.append(_ENTRY.pack(bytes.fromhex(key), begin, len(content)))
        payload.append(content)
        begin += len(content)
    return b"".join([_HEAD.pack(_MAGIC, text_of_emitter.encode(), len(objects)), *entries, *payload])


def _read(path: str, begin: int, size: int) -> bytes:
    """Some of a file: less, if it ends before."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        os.lseek(descriptor, begin, os.SEEK_SET)
        return os.read(descriptor, min(size, cache.MAX_BYTES))
    finally:
        os.close(descriptor)
