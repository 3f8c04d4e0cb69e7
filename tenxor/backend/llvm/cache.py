"""The disk cache of machine code: no process compiles a kernel that an earlier process has compiled.

A file is named by a hash of everything its content depends on: the kernel's IR, the target, the versions of LLVM and Tenxor, and the
sources of the emitter. The file holds a hash of its name and payload, checked at each read. A damaged, short or foreign file is ignored and
written anew. Files are put in place whole, so processes may race.

The code read here is executed. So the folder and the files must belong to this user, and no other user may be able to write them
(`folders`, and docs/threat_model.md). Whatever fails, kernels are compiled, and live in memory.

The cache holds at most `MAX_FILES` files of `MAX_BYTES` together: beyond that, the least recently used files are removed. The limits are
checked after about every 256th write. The time of the last use is known to the hour.

`TENXOR_CACHE_DIR` names the folder (empty: no disk cache). By default it is `tenxor` in `XDG_CACHE_HOME`, if that path is absolute, or in
`~/.cache`. Missing folders on the way are created, for this user alone; but a home is never created.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import cache
from time import time

from ... import environment
from ...folders import OwnFolder, Refused, make, way_to
from ...hashing import blake2b

MAX_FILES = 8192  # files, of a few kilobytes each
MAX_BYTES = 64 << 20
_MAGIC = b"tenxor object 3\n"
_DIGEST_BYTES = 32  # bytes of a hash
_FILE_NAME_PATTERN = r"[0-9a-f]{64}(\.[0-9a-f]{16})?"  # a key, with a suffix while the file is written
_HOUR_S = 3600.0

PACKAGE = __file__.rpartition("backend")[0]  # the folder of this package
EMITTER = ("backend/llvm", "kernel", "ops", "dtypes.py", "target.py")  # the sources that decide what code a kernel becomes
# Together with `EMITTER`, the sources that decide what a plan is.
PLANNER = ("plans", "rewrite", "layout", "node.py", "known.py", "sizes.py", "realize.py", "ownership.py")


def sources(*paths: str) -> Iterator[str]:
    """Yield the paths of sources of this package: each of `paths` is a file, or a folder with all Python files below."""
    for path in paths:
        if path.endswith(".py"):
            yield f"{PACKAGE}{path}"
        else:
            yield from _python_files(f"{PACKAGE}{path}")


def _python_files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.is_dir():
                yield from _python_files(entry.path)


@cache
def text_of(*paths: str) -> str:
    """Return a hash of sources of this package: each of `paths` is a file, or a folder with all Python files below."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for source in sources(*paths):
        with open(source, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def _emitter_text() -> str:
    return text_of(*EMITTER)


def emitter_text() -> str | None:
    """Return a hash of the sources that decide what code a kernel becomes; None if they cannot be read now."""
    try:
        return _emitter_text()
    except OSError:
        return None


def key_of(text: str, machine: str, emitter: str | None = None) -> str | None:
    """Return the file name for the code of a kernel with this IR on this machine.

    `emitter` is the hash of the emitter's sources; by default, the present sources are hashed. Return None if they cannot be read now.
    """
    emitter = emitter or emitter_text()
    return key_by(hash_of(text), machine, emitter) if emitter else None


def hash_of(text: str) -> str:
    """Return the hash of a text, in hexadecimal."""
    return _hash(text.encode()).hex()


def key_by(text_hash: str, machine: str, emitter: str) -> str:
    """Return the file name for the code of a kernel, by the hash of the IR, the machine, and the hash of the emitter's sources."""
    return hash_of("\n".join((text_hash, machine, emitter)))


def _hash(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()


def location() -> str:
    """Return the path of the cache folder, which may be missing; raise Refused for settings without a disk cache."""
    setting = os.environ.get("TENXOR_CACHE_DIR")
    if setting == "":
        raise Refused("TENXOR_CACHE_DIR is empty")
    if setting:
        return setting
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.join(_home(), ".cache"), "tenxor")


def _home() -> str:
    home = os.path.expanduser("~")
    if home == "~":
        raise Refused("this user has no home")
    if not os.path.isabs(home):
        raise Refused(f"HOME is not absolute: {home}")
    return home


def check_setting() -> None:
    """Warn if `TENXOR_CACHE_DIR` names a folder that cannot be used."""
    setting = os.environ.get("TENXOR_CACHE_DIR")
    reason = explain_refusal(setting) if setting else None
    if reason:
        environment.warn("TENXOR_CACHE_DIR", f"is not used: {reason}", "compiled kernels are not kept on disk")


def explain_refusal(path: str) -> str | None:
    """Return why a folder cannot be used, as the end of a sentence; None if it can be used, or created."""
    try:
        with OwnFolder(path):
            return None
    except FileNotFoundError:
        reason = hindrance(path)
        return f"it is not there, and {reason}" if reason else None
    except Refused as refused:
        return f"it {refused}"
    except OSError as error:
        return error.strerror


def hindrance(path: str) -> str | None:
    """Return why a missing folder is not created; None if it can be.

    A home is never created: it may not be mounted, or be missing on purpose.
    """
    with contextlib.suppress(Refused):
        home = _home()
        if home in (path, *way_to(path)) and not os.path.isdir(home):
            return f"the home {home} is missing"
    # If the present folder was removed, no folder on the way exists.
    nearest_folder = next((folder for folder in way_to(path) if os.path.exists(folder)), path)
    return None if os.path.isdir(nearest_folder) and os.access(nearest_folder, os.W_OK | os.X_OK) else f"{nearest_folder} cannot be written"


def read(key: str) -> bytes | None:
    """Return the object code stored under a key; None if it is missing or damaged."""
    try:
        with OwnFolder(location()) as folder:
            content, status = folder.read(key, MAX_BYTES)
            if abs(time() - status.st_mtime) > _HOUR_S:
                with contextlib.suppress(OSError):  # the folder may be read-only
                    folder.touch(key)
    except OSError:
        return None
    return unsealed(key, content)


def sealed(key: str, payload: bytes) -> bytes:
    """Return the content of the file for a payload under a key, with a hash of both."""
    return _MAGIC + _hash(key.encode() + payload) + payload


def unsealed(key: str, content: bytes) -> bytes | None:
    """Return the payload in the content of a file; None if the content was not stored under this key, or is damaged."""
    payload = content[len(_MAGIC) + _DIGEST_BYTES :]
    return payload if content == sealed(key, payload) else None


def write(key: str, payload: bytes) -> None:
    """Store object code under a key. If the cache cannot be written, do nothing."""
    with contextlib.suppress(OSError):
        path = location()
        if not os.path.exists(path) and hindrance(path) is None:
            make(path)
        with OwnFolder(path) as folder:
            folder.write(key, sealed(key, payload))
            if key.startswith("00"):  # about one write in 256, by any process
                _evict(folder)


def kept(folder: OwnFolder) -> dict[str, os.stat_result]:
    """Return the files of the cache: name and status. Other files in the folder are left out, so they are never removed."""
    import re

    files = {}
    for name in folder.names():
        if re.fullmatch(_FILE_NAME_PATTERN, name):
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                files[name] = folder.status(name)
    return files


def trouble(folder: OwnFolder, name: str) -> str | None:
    """Return why a file in the folder is not used as a kernel; None if it is used."""
    import re

    if not re.fullmatch(_FILE_NAME_PATTERN, name):
        return "is named as no kernel is; it is left alone"
    if "." in name:
        return "is being written, or was left by a process that was ended"
    try:
        content, _ = folder.read(name, MAX_BYTES)
    except OSError as error:
        return error.strerror or str(error)
    return "is damaged, or no kernel" if unsealed(name, content) is None else None


def _evict(folder: OwnFolder) -> None:
    """If the cache exceeds a limit, remove the least recently used files, down to three quarters of the limits."""
    files = kept(folder)
    count, size = len(files), sum(status.st_size for status in files.values())
    if count <= MAX_FILES and size <= MAX_BYTES:
        return
    for name in sorted(files, key=lambda name: files[name].st_mtime):
        if count <= MAX_FILES * 3 // 4 and size <= MAX_BYTES * 3 // 4:
            return
        with contextlib.suppress(OSError):  # another process was faster, or it is a folder
            folder.remove(name)
        count, size = count - 1, size - files[name].st_size
