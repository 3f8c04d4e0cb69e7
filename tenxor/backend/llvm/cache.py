"""Machine code on disk: a second process compiles nothing that a first one did.

A file is named by a hash of all that its content depends on: the kernel's IR, the target, LLVM's version, Tenxor's
version and the very text of the emitter. It holds a hash of its name and payload, checked when it is read; what is
damaged, short or foreign is ignored and written anew. Files are put in place whole, so processes may race.

What is read here is run, so folder and files must be this user's, and such that nobody else can write them (`folders`, and
docs/threat_model.md). Whatever fails, kernels are compiled, and live in memory.

There are at most `MAX_FILES` files of `MAX_BYTES` together: where there are more, those go that were not used for longest. That
is looked at after about every 256th file that is written. When a file was last used is known to the hour.

`TENXOR_CACHE_DIR` names the folder (empty: no cache on disk); else it is `tenxor` in `XDG_CACHE_HOME`, if that is absolute, or in
`~/.cache`. What is missing on the way there is made, for this user alone; but no home.
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

MAX_FILES = 8192  # a few kilobytes each
MAX_BYTES = 64 << 20
_MAGIC = b"tenxor object 3\n"
_DIGEST = 32  # bytes of a hash
_OURS = r"[0-9a-f]{64}(\.[0-9a-f]{16})?"  # a key; with more behind it while a file is written
_HOUR = 3600.0  # seconds

PACKAGE = __file__.rpartition("backend")[0]  # our folder
EMITTER = ("backend/llvm", "kernel", "ops", "dtypes.py", "target.py")  # the sources that decide what a kernel becomes
PLANNER = ("plans", "rewrite", "layout", "node.py", "known.py", "sizes.py", "realize.py", "ownership.py")  # and, with those, what a plan is


def sources(*paths: str) -> Iterator[str]:
    """Some of our sources: files, and all in some folders."""
    for path in paths:
        if path.endswith(".py"):
            yield f"{PACKAGE}{path}"
        else:
            yield from _below(f"{PACKAGE}{path}")


def _below(folder: str) -> Iterator[str]:
    with os.scandir(folder) as found:
        for entry in sorted(found, key=lambda entry: entry.name):
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.is_dir():
                yield from _below(entry.path)


@cache
def text_of(*paths: str) -> str:
    """A hash of some of our sources: files, and all in some folders."""
    digest = blake2b(digest_size=_DIGEST)
    for source in sources(*paths):
        with open(source, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def _emitter_text() -> str:
    return text_of(*EMITTER)


def emitter_text() -> str | None:
    """A hash of the sources that decide what a kernel becomes; None where they cannot be read now."""
    try:
        return _emitter_text()
    except OSError:
        return None


def key_of(text: str, machine: str, emitter: str | None = None) -> str | None:
    """The name of the file for a kernel with this IR on this machine, by an emitter whose sources have this hash: the present one, if
    none is given. None where these cannot be read now.
    """
    emitter = emitter or emitter_text()
    return key_by(hash_of(text), machine, emitter) if emitter else None


def hash_of(text: str) -> str:
    """What a text is known by."""
    return _hash(text.encode()).hex()


def key_by(text_hash: str, machine: str, emitter: str) -> str:
    """The same for a kernel whose IR has this hash."""
    return hash_of("\n".join((text_hash, machine, emitter)))


def _hash(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST).digest()


def location() -> str:
    """Where the folder is or would be; Refused if there is to be none."""
    named = os.environ.get("TENXOR_CACHE_DIR")
    if named == "":
        raise Refused("TENXOR_CACHE_DIR is empty")
    if named:
        return named
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
    named = os.environ.get("TENXOR_CACHE_DIR")
    why = refusal(named) if named else None
    if why:
        environment.warn("TENXOR_CACHE_DIR", f"is not used: {why}", "compiled kernels are not kept on disk")


def refusal(path: str) -> str | None:
    """Return why a folder is not used, as the end of a sentence; None if it is, or will be made."""
    try:
        with OwnFolder(path):
            return None
    except FileNotFoundError:
        why = hindrance(path)
        return f"it is not there, and {why}" if why else None
    except Refused as refused:
        return f"it {refused}"
    except OSError as error:
        return error.strerror


def hindrance(path: str) -> str | None:
    """Why a folder that is missing is not made; None if it will be. No home is made: it may not be mounted, or there is to be none."""
    with contextlib.suppress(Refused):
        home = _home()
        if home in (path, *way_to(path)) and not os.path.isdir(home):
            return f"the home {home} is missing"
    there = next((folder for folder in way_to(path) if os.path.exists(folder)), path)  # in a folder that was removed nothing is there
    return None if os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK) else f"{there} cannot be written"


def read(key: str) -> bytes | None:
    """The object code kept under a key, if it is there and whole."""
    try:
        with OwnFolder(location()) as folder:
            content, status = folder.read(key, MAX_BYTES)
            if abs(time() - status.st_mtime) > _HOUR:
                with contextlib.suppress(OSError):  # it may be there to be read only
                    folder.touch(key)
    except OSError:
        return None
    return unsealed(key, content)


def sealed(key: str, payload: bytes) -> bytes:
    """The content of the file that keeps a payload under a key; the hash in it covers both."""
    return _MAGIC + _hash(key.encode() + payload) + payload


def unsealed(key: str, content: bytes) -> bytes | None:
    """The payload in a file's content; None if that is not what was kept under this key."""
    payload = content[len(_MAGIC) + _DIGEST :]
    return payload if content == sealed(key, payload) else None


def write(key: str, payload: bytes) -> None:
    """Keep object code under a key; a cache that cannot be written is no error."""
    with contextlib.suppress(OSError):
        where = location()
        if not os.path.exists(where) and hindrance(where) is None:
            make(where)
        with OwnFolder(where) as folder:
            folder.write(key, sealed(key, payload))
            if key.startswith("00"):  # now and then, by whichever process
                _thin(folder)


def kept(folder: OwnFolder) -> dict[str, os.stat_result]:
    """All files that are named as those here are. Nothing else is ever removed: the folder may hold other things, too."""
    import re

    found = {}
    for name in folder.names():
        if re.fullmatch(_OURS, name):
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                found[name] = folder.status(name)
    return found


def trouble(folder: OwnFolder, name: str) -> str | None:
    """Why a file in the folder would not be taken for a kernel; None if it would."""
    import re

    if not re.fullmatch(_OURS, name):
        return "is named as no kernel is; it is left alone"
    if "." in name:
        return "is being written, or was left by a process that was ended"
    try:
        content, _ = folder.read(name, MAX_BYTES)
    except OSError as error:
        return error.strerror or str(error)
    return "is damaged, or no kernel" if unsealed(name, content) is None else None


def _thin(folder: OwnFolder) -> None:
    """Where there is too much, delete what was not used for longest, and so much that it does not come to that again soon."""
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
