"""Machine code on disk: a second process compiles nothing that a first one did.

A file is named by a hash of all that its content depends on: the kernel's IR, the target, LLVM's version, Tenxor's
version and the very text of the emitter. It holds a hash of its name and payload, checked when it is read; what is
damaged, short or foreign is ignored and written anew. Files are put in place by an atomic rename, so processes may race.
The oldest make way when there are too many. The folder is only used if it is ours alone.

`TENXOR_CACHE_DIR` names the folder (empty: no cache on disk); else it is `tenxor` in `XDG_CACHE_HOME` or `~/.cache`.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from functools import cache
from pathlib import Path

MAX_FILES = 8192  # a few kilobytes each
_MAGIC = b"tenxor object 2\n"


@cache
def _emitter_text() -> str:
    """A hash of the sources that decide what a kernel becomes."""
    package = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for folder in ("backend/llvm", "kernel", "ops"):
        for source in sorted((package / folder).rglob("*.py")):
            digest.update(source.read_bytes())
    for module in ("dtypes.py", "target.py"):
        digest.update((package / module).read_bytes())
    return digest.hexdigest()


def key_of(text: str, machine: str) -> str:
    """The name of the file for a kernel with this IR on this machine."""
    return hashlib.sha256("\n".join((text, machine, _emitter_text())).encode()).hexdigest()


def _folder() -> Path | None:
    """The cache's folder, made if need be; None if there is none that is ours alone."""
    named = os.environ.get("TENXOR_CACHE_DIR")
    if named == "":
        return None
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(named) if named else Path(base) / "tenxor"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):
        return None
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022):
        return None
    return folder


def read(key: str) -> bytes | None:
    """The object code kept under a key, if it is there and whole."""
    folder = _folder()
    if folder is None:
        return None
    try:
        content = (folder / key).read_bytes()
    except OSError:
        return None
    payload = content[len(_MAGIC) + hashlib.sha256().digest_size :]
    return payload if content == sealed(key, payload) else None


def sealed(key: str, payload: bytes) -> bytes:
    """The content of the file that keeps a payload under a key; the hash in it covers both."""
    return _MAGIC + hashlib.sha256(key.encode() + payload).digest() + payload


def write(key: str, payload: bytes) -> None:
    """Keep object code under a key; a cache that cannot be written is no error."""
    folder = _folder()
    if folder is None:
        return
    try:
        handle, path = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(sealed(key, payload))
            Path(path).replace(folder / key)
        except OSError:
            Path(path).unlink()
        if key.startswith("00"):  # now and then, by whichever process
            _thin(folder)
    except OSError:
        return


def _thin(folder: Path) -> None:
    """Delete the oldest files where there are too many."""
    files = [path for path in folder.iterdir() if path.is_file()]
    if len(files) > MAX_FILES:
        files.sort(key=lambda path: path.stat().st_mtime)
        for path in files[: len(files) - MAX_FILES * 3 // 4]:
            path.unlink(missing_ok=True)
