"""Machine code in the package: the commonest kernels for each level of x86-64, so that a first result waits for no compiler.

An object is a code image or the data of a plan; its name is the hash by which it is found. A level (`CpuLevel`) is a set of instructions.

The package also contains the data to run common plans without planning (`runtime/shipped_op_plans.py`). There is a file for each level
beside this module, written when the package is built (`python -m tenxor ship`). An object in the file has the name that the disk cache
would give it for the plain machine of the level. So the name depends on the kernel's IR, the machine, the version of Tenxor and the
sources of the emitter.

If the sources of the emitter have changed since, the file is not used; a damaged object is not used either. Without a readable file,
everything works as if nothing had ever been shipped. `TENXOR_SHIPPED` names another folder (empty: nothing shipped is used).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from ..._utils import environment
from ...target import NATIVE_CPU, Processor, Target
from ...version import __version__
from . import kernel_disk_cache
from .cpuid import CpuLevel, detect_level
from .host_info import get_emitter_hash, get_planner_hashes

_MAGIC = b"tenxor shipped 1\n"
_HEADER_FORMAT = struct.Struct(f"<{len(_MAGIC)}s64sI")  # magic, hash of the emitter's sources, number of objects
_ENTRY_FORMAT = struct.Struct("<32sQQ")  # name, offset and bytes of an object
_MAX_TABLE_BYTES = 1 << 20  # bytes of all entries, at most
FILE_SUFFIX = ".objects"


def find_shipped_folder() -> str:
    """Return the path of the folder of the shipped files, which may be missing; an empty text if nothing shipped is used."""
    setting = os.environ.get("TENXOR_SHIPPED")
    return os.path.join(os.path.dirname(__file__), "shipped") if setting is None else setting


def make_key_from_hash(text_hash: str, cpu_level: CpuLevel, emitter_hash: str) -> str:
    """Return the name of an object in the shipped file of the level `cpu_level`: a hash of the arguments and the version of the package.

    `text_hash` is the hash of the kernel's text, and `emitter_hash` the hash of the emitter's sources. For data other than code, they are
    the hash of another text and the hashes of other sources.
    """
    return kernel_disk_cache.make_key_from_hash(text_hash, f"{cpu_level.name}\n{cpu_level.target.identity}\n{__version__}", emitter_hash)


def make_plan_key(text: str, cpu_level: CpuLevel, planner_hashes: str) -> str:
    """Return the name, in the shipped file of the level `cpu_level`, of the data for the plan with the key `text`.

    `planner_hashes` are the hashes of the planner's sources (`host_info.get_planner_hashes`).
    """
    return make_key_from_hash(kernel_disk_cache.hash_text(text), cpu_level, planner_hashes)


class ShippedObjects:
    """The shipped objects for this machine, which are in the file at `path`, for the level `cpu_level`. `find_shipped` makes this object.

    `target` is the machine that this process runs on. `emitter_hash` is the hash of the emitter's sources. `entry_table` has the bytes of
    the file with the name, offset and size of each object. An object is read from the file each time it is requested.
    """

    __slots__ = ("_emitter_hash", "_entry_table", "_path", "level", "target")

    def __init__(self, cpu_level: CpuLevel, target: Target, path: str, emitter_hash: str, entry_table: bytes) -> None:
        self.level, self._path, self._emitter_hash, self._entry_table = cpu_level, path, emitter_hash, entry_table
        self.target = target  # the machine that this process runs on, described without LLVM

    def make_key(self, text_hash: str) -> str:
        """Return the name of the code image of a kernel, given the hash of the kernel's fingerprint."""
        return make_key_from_hash(text_hash, self.level, self._emitter_hash)

    def read(self, text_hash: str) -> bytes | None:
        """Return the code image shipped for a kernel, as bytes for `load_image`; None if the image is missing or damaged.

        `text_hash` is the hash of the kernel's fingerprint.
        """
        return self._read_object(self.make_key(text_hash))

    def read_plan(self, text: str) -> bytes | None:
        """Return the data for the plan with the key `text`; None if there is none, or if the sources of the planner have changed since."""
        planner_hashes = get_planner_hashes()
        return self._read_object(make_plan_key(text, self.level, planner_hashes)) if planner_hashes else None

    def _read_object(self, key: str) -> bytes | None:
        """Return the content of the object with the name `key`, in hexadecimal; None if it is missing or damaged."""
        position = self._entry_table.find(bytes.fromhex(key))
        if position < 0 or position % _ENTRY_FORMAT.size:
            return None
        _, begin, size = _ENTRY_FORMAT.unpack_from(self._entry_table, position)
        try:
            return kernel_disk_cache.unseal(key, _read_range(self._path, begin, size))
        except OSError:
            return None


def check_setting(shipped_code: ShippedObjects | None) -> None:
    """Warn the user if `TENXOR_SHIPPED` names a folder that is not used. `shipped_code` is the result of `find_shipped`, then None."""
    if shipped_code is None and os.environ.get("TENXOR_SHIPPED"):
        reason = "has nothing for this machine and version" if os.path.isdir(find_shipped_folder()) else "is not a folder"
        environment.warn_ignored("TENXOR_SHIPPED", f"is not used: it {reason}", "kernels are compiled, or read from the cache on disk")


def find_shipped() -> ShippedObjects | None:
    """Return the objects shipped for this machine, or None to use nothing shipped. A new `Compiler` calls this function.

    The result is None if the folder is missing, or if the machine is of no level or needs code of another kind. It is also None if the file
    of the level cannot be read, or if the sources of the emitter have changed since.
    """
    root = find_shipped_folder()
    cpu_level = detect_level() if root and os.path.isdir(root) else None
    target = Target.of_host(cpu_level.target.features, Processor(cpu_level.target.processor.triple, NATIVE_CPU)) if cpu_level else None
    if cpu_level is None or target is None or not cpu_level.can_serve(target):
        return None
    path = os.path.join(root, cpu_level.name + FILE_SUFFIX)
    try:
        magic, text, count = _HEADER_FORMAT.unpack(_read_range(path, 0, _HEADER_FORMAT.size))
        if magic != _MAGIC or count * _ENTRY_FORMAT.size > _MAX_TABLE_BYTES or text.decode("ascii", "replace") != get_emitter_hash():
            return None
        entry_table = _read_range(path, _HEADER_FORMAT.size, count * _ENTRY_FORMAT.size)
    except (OSError, struct.error):
        return None
    return ShippedObjects(cpu_level, target, path, text.decode(), entry_table) if len(entry_table) == count * _ENTRY_FORMAT.size else None


def pack_objects(objects: Mapping[str, bytes], emitter_hash: str) -> bytes:
    """Return the content of a shipped file, for the build of a wheel. `objects` maps names, hashes in hexadecimal, to contents.

    `emitter_hash` is the hash of the emitter's sources, a text of 64 characters.
    """
    begin, entries, payload = _HEADER_FORMAT.size + len(objects) * _ENTRY_FORMAT.size, [], []
    for key, image in sorted(objects.items()):
        content = kernel_disk_cache.seal(key, image)
        entries.append(_ENTRY_FORMAT.pack(bytes.fromhex(key), begin, len(content)))
        payload.append(content)
        begin += len(content)
    return b"".join([_HEADER_FORMAT.pack(_MAGIC, emitter_hash.encode(), len(objects)), *entries, *payload])


def _read_range(path: str, begin: int, size: int) -> bytes:
    """Return `size` bytes of a file from `begin` on, or fewer if the file ends before. Raise OSError if the file cannot be read."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        os.lseek(descriptor, begin, os.SEEK_SET)
        return os.read(descriptor, min(size, kernel_disk_cache.MAX_CACHE_BYTES))
    finally:
        os.close(descriptor)
