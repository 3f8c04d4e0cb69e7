"""What was found out about this machine and this installation, which a process that compiles nothing needs to know, too.

To load LLVM and ask it takes longer than all else that a process does before its first result, and to read the sources of the
emitter a tenth of that. So the answers are kept on disk, beside the kernels, for as long as nothing can have become otherwise:
until the system starts anew, or a file that was asked is another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache as once

import llvmlite

from ...hashing import blake2b
from ...records import NamedTuple
from ...system import said
from ...target import Processor, Target
from ...version import __version__
from . import cache


class Found(NamedTuple):
    """LLVM's words for this machine, LLVM's version, and a hash of the emitter's sources; all is text of one line."""

    triple: str
    cpu: str
    attributes: str
    features: str
    llvm: str
    emitter: str

    def target(self) -> Target:
        """The machine that this process runs on, with one thread."""
        return Target.of_host(set(self.features.split()), Processor(self.triple, self.cpu, self.attributes))

    def identity(self, target: Target) -> str:
        """What code for a target depends on, beside the kernel and the emitter."""
        return "\n".join((target.identity, self.llvm, llvmlite.__version__, __version__))


@once
def found() -> Found:
    """What an earlier process found out, or this one does now."""
    key = _key()
    content = cache.read(key) if key else None
    if content is not None:
        return Found(*content.decode().split("\n"))
    from .machine import asked

    emitter = cache.emitter_text()
    made = Found(*asked(), emitter or "")
    if key and emitter:
        cache.write(key, "\n".join(made).encode())
    return made


def _key() -> str | None:
    """The name under which this is kept, made of all that it depends on; None where that cannot be known."""
    try:
        facts = [said("/proc/sys/kernel/random/boot_id"), llvmlite.__version__, __version__, *_files()]
    except OSError:
        return None
    return blake2b("\n".join(facts).encode(), digest_size=32).hexdigest()


def _files() -> Iterator[str]:
    """What the system knows of the files that were asked: LLVM, and the sources of the emitter."""
    with os.scandir(f"{os.path.dirname(llvmlite.__file__)}/binding") as llvm:
        binaries = sorted(entry.path for entry in llvm if entry.is_file() and not entry.name.endswith(".py"))
    for path in (*binaries, *cache.sources(*cache.EMITTER)):
        status = os.stat(path)
        yield f"{path} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
