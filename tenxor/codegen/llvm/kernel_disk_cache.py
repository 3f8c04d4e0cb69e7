"""The disk cache of machine code: no process compiles a kernel that an earlier process has compiled.

A file is named by a hash of everything its content depends on: the kernel's IR, the target, the versions of LLVM and Tenxor, and the
sources of the emitter. The file holds a hash of its name and payload, checked at each read. A damaged, short or foreign file is ignored and
written anew. Files are put in place whole, so processes may race.

The code read here is executed. So the folder and the files must belong to this user, and no other user may be able to write them
(`_utils/private_dirs.py`, and docs/threat_model.md). Whatever fails, kernels are compiled, and live in memory.

The cache holds at most `MAX_CACHE_FILES` files of `MAX_CACHE_BYTES` together: beyond that, the least recently used files are removed.
The limits are checked after about every 4096th write. The time of the last use is known to the minute.

`TENXOR_CACHE_DIR` names the folder (empty: no disk cache). By default it is `tenxor` in `XDG_CACHE_HOME`, if that path is absolute, or in
`~/.cache`. Missing folders on the way are created, for this user alone; but a home is never created.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import cache
from time import time

from ..._utils import environment
from ..._utils.cache_registry import CacheRecord
from ..._utils.hashing import blake2b
from ..._utils.private_dirs import PrivateDir, UntrustedPathError, iter_parents, make_private_dir

MAX_CACHE_FILES = 1 << 16  # files, of two kilobytes each on average
MAX_CACHE_BYTES = 256 << 20
_MAGIC = b"tenxor object 3\n"
_DIGEST_BYTES = 32  # bytes of a hash
_FILE_NAME_PATTERN = r"[0-9a-f]{64}(\.[0-9a-f]{16})?"  # a key, with a suffix while the file is written
_MINUTE_S = 60.0

PACKAGE_DIR = __file__.rpartition("codegen")[0]  # the folder of this package
# The sources on which the machine code of a kernel depends
EMITTER_SOURCES = ("codegen/llvm", "lowering", "ops", "dtypes.py", "target")
# Together with `EMITTER_SOURCES`, the sources that decide about plans
PLANNER_SOURCES = ("runtime", "rewrite", "layout", "symbolic", "graph/node.py", "graph/ownership.py")
FASTPATH_SOURCES = ("fastpath",)  # the sources that decide about the code of the fast path


def iter_source_paths(*paths: str) -> Iterator[str]:
    """Yield the absolute paths of sources of this package. Each of `paths`, relative to the package, is a file, or a folder with all Python
    files below.
    """
    for path in paths:
        if path.endswith(".py"):
            yield f"{PACKAGE_DIR}{path}"
        else:
            yield from _python_files(f"{PACKAGE_DIR}{path}")


def _python_files(folder: str) -> Iterator[str]:
    """Yield the paths of the Python files in `folder` and in the folders below, sorted by name in each folder."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.is_dir():
                yield from _python_files(entry.path)


@cache
def hash_sources(*paths: str) -> str:
    """Return a hash of sources of this package, in hexadecimal. Each of `paths`, relative to the package, is a file, or a folder with all
    Python files below.

    The hash is kept for the process. Raise OSError if a source cannot be read.
    """
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for source in iter_source_paths(*paths):
        with open(source, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def _hash_emitter_sources() -> str:
    """Return a hash of `EMITTER_SOURCES`, in hexadecimal; raise OSError if a source cannot be read."""
    return hash_sources(*EMITTER_SOURCES)


def hash_emitter_sources() -> str | None:
    """Return a hash of `EMITTER_SOURCES`, which decide the machine code of a kernel; None if they cannot be read now."""
    try:
        return _hash_emitter_sources()
    except OSError:
        return None


def make_key(text: str, machine: str, emitter_hash: str | None = None) -> str | None:
    """Return the file name for the code of a kernel with the IR `text` on a machine with the description `machine`.

    `emitter_hash` is the hash of the emitter's sources; by default, the present sources are hashed. Return None if they cannot be read now.
    """
    emitter = emitter_hash or hash_emitter_sources()
    return make_key_from_hash(hash_text(text), machine, emitter) if emitter else None


def hash_text(text: str) -> str:
    """Return the hash of a text, in hexadecimal."""
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def make_key_from_hash(text_hash: str, machine: str, emitter_hash: str) -> str:
    """Return the file name for the code of a kernel, or for other data: a hash of the three arguments.

    `text_hash` is the hash of the IR or of another key, `machine` a description of the machine, and `emitter_hash` a hash of the sources.
    """
    return hash_text("\n".join((text_hash, machine, emitter_hash)))


def find_cache_folder() -> str:
    """Return the path of the cache folder, which may be missing; raise UntrustedPathError for settings without a disk cache."""
    setting = os.environ.get("TENXOR_CACHE_DIR")
    if setting == "":
        raise UntrustedPathError("TENXOR_CACHE_DIR is empty")
    if setting:
        return setting
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.join(_find_home(), ".cache"), "tenxor")


def _find_home() -> str:
    """Return the absolute path of this user's home; raise UntrustedPathError for a user without one, or if `HOME` is a relative path."""
    home = os.path.expanduser("~")
    if home == "~":
        raise UntrustedPathError("this user has no home")
    if not os.path.isabs(home):
        raise UntrustedPathError(f"HOME is not absolute: {home}")
    return home


def check_setting() -> None:
    """Warn if `TENXOR_CACHE_DIR` names a folder that cannot be used or created, belongs to another user, or is writable by others.

    Do not warn if it is unset (the default folder is used) or empty (nothing is cached on disk).
    """
    setting = os.environ.get("TENXOR_CACHE_DIR")
    reason = explain_refusal(setting) if setting else None
    if reason:
        environment.warn_ignored("TENXOR_CACHE_DIR", f"is not used: {reason}", "compiled kernels are not kept on disk")


def explain_refusal(path: str) -> str | None:
    """Return why the folder `path` cannot be used, as the end of a sentence; None if it can be used, or created."""
    try:
        with PrivateDir(path):
            return None
    except FileNotFoundError:
        reason = explain_uncreatable(path)
        return f"it is not there, and {reason}" if reason else None
    except UntrustedPathError as refused:
        return f"it {refused}"
    except OSError as error:
        return error.strerror


def explain_uncreatable(path: str) -> str | None:
    """Return why the missing folder `path` is not created, as a clause; None if it can be created.

    A home is never created: it may not be mounted, or be missing on purpose.
    """
    with contextlib.suppress(UntrustedPathError):
        home = _find_home()
        if home in (path, *iter_parents(path)) and not os.path.isdir(home):
            return f"the home {home} is missing"
    # If the present folder was removed, no folder on the way exists.
    nearest_folder = next((folder for folder in iter_parents(path) if os.path.exists(folder)), path)
    return None if os.path.isdir(nearest_folder) and os.access(nearest_folder, os.W_OK | os.X_OK) else f"{nearest_folder} cannot be written"


def read(key: str) -> bytes | None:
    """Return the payload stored under a key, such as object code; None if it is missing or damaged, or the folder is not trusted.

    A file not used for a minute is marked as used now.
    """
    try:
        with PrivateDir(find_cache_folder()) as folder:
            content, status = folder.read(key, MAX_CACHE_BYTES)
            if abs(time() - status.st_mtime) > _MINUTE_S:
                with contextlib.suppress(OSError):  # the folder may be read-only
                    folder.touch(key)
    except OSError:
        return None
    return unseal(key, content)


def seal(key: str, payload: bytes) -> bytes:
    """Return the content of the file for a payload under a key, with a hash of both."""
    return _make_header(key, payload) + payload


def unseal(key: str, content: bytes) -> bytes | None:
    """Return the payload in the content of a file; None if the content was not stored under this key, or is damaged."""
    payload = memoryview(content)[len(_MAGIC) + _DIGEST_BYTES :]
    return bytes(payload) if content.startswith(_make_header(key, payload)) else None


def _make_header(key: str, payload: bytes | memoryview) -> bytes:
    """Return the bytes of a file before the payload: a mark of the format, and a hash of the key and the payload."""
    digest = blake2b(key.encode(), digest_size=_DIGEST_BYTES)
    digest.update(payload)
    return _MAGIC + digest.digest()


def write(key: str, payload: bytes) -> None:
    """Store `payload`, such as object code, under a key, in place of an earlier one. If the cache cannot be written, do nothing.

    A missing folder is created, but not in a missing home (`explain_uncreatable`). `key` is 64 hexadecimal digits (`make_key`).
    About every 4096th write removes old files beyond the limits of the cache.
    """
    with contextlib.suppress(OSError):
        path = find_cache_folder()
        if not os.path.exists(path) and explain_uncreatable(path) is None:
            make_private_dir(path)
        with PrivateDir(path) as folder:
            folder.write(key, seal(key, payload))
            if key.startswith("000"):  # about one write in 4096, by any process
                _evict(folder)


def list_files(folder: PrivateDir) -> dict[str, os.stat_result]:
    """Return the files of the cache, as a dict from name to status. Other files in the folder are left out, so they are never removed."""
    import re

    files = {}
    for name in folder.list_names():
        if re.fullmatch(_FILE_NAME_PATTERN, name):
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                files[name] = folder.status(name)
    return files


def explain_unusable_file(folder: PrivateDir, name: str) -> str | None:
    """Return why the file `name` in the folder is not used as a kernel, as the end of a sentence; None if it is used."""
    import re

    if not re.fullmatch(_FILE_NAME_PATTERN, name):
        return "is named as no kernel is; it is left alone"
    if "." in name:
        return "is being written, or was left by a process that was ended"
    try:
        content, _ = folder.read(name, MAX_CACHE_BYTES)
    except OSError as error:
        return error.strerror or str(error)
    return "is damaged, or no kernel" if unseal(name, content) is None else None


def _evict(folder: PrivateDir) -> None:
    """If the cache exceeds a limit, remove the least recently used files, down to three quarters of the limits."""
    files = list_files(folder)
    count, size = len(files), sum(status.st_size for status in files.values())
    if count <= MAX_CACHE_FILES and size <= MAX_CACHE_BYTES:
        return
    for name in sorted(files, key=lambda name: files[name].st_mtime):
        if count <= MAX_CACHE_FILES * 3 // 4 and size <= MAX_CACHE_BYTES * 3 // 4:
            return
        with contextlib.suppress(OSError):  # another process was faster, or it is a folder
            folder.remove(name)
        count, size = count - 1, size - files[name].st_size


def _list_sizes() -> list[int]:
    """Return the bytes of each file of the cache; an empty list if the folder cannot be read."""
    with contextlib.suppress(OSError), PrivateDir(find_cache_folder()) as folder:
        return [status.st_size for status in list_files(folder).values()]
    return []


def _remove_files() -> None:
    """Remove every file of the cache that can be removed."""
    with contextlib.suppress(OSError), PrivateDir(find_cache_folder()) as folder:
        for name in list_files(folder):
            with contextlib.suppress(OSError):  # another process was faster, or it is a folder
                folder.remove(name)


CacheRecord(
    "disk cache",
    "a file with a compiled kernel or with plans, by hash",
    __name__,
    _remove_files,
    lambda: len(_list_sizes()),
    max_entries=MAX_CACHE_FILES,
    count_bytes=lambda: sum(_list_sizes()),
    max_bytes=MAX_CACHE_BYTES,
    is_on_disk=True,
)
