"""What was found out about this machine and this installation, which a process that compiles nothing needs to know, too.

To load LLVM and ask it takes longer than all else that a process does before its first result, and to read the sources of the
emitter a tenth of that. So the answers are kept on disk, beside the kernels, for as long as nothing can have become otherwise:
until the system starts anew, or a file that was asked is another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache as once

from ...hashing import blake2b
from ...late import LateModule
from ...records import NamedTuple
from ...system import said
from ...target import Processor, Target
from ...version import __version__
from . import cache

llvmlite = LateModule("llvmlite")  # where something was compiled, or is to be


class Found(NamedTuple):
    """LLVM's words for this machine, and LLVM's version; all is text of one line."""

    triple: str
    cpu: str
    attributes: str
    features: str
    llvm: str

    @property
    def processor(self) -> Processor:
        """What LLVM is to be told of this machine: all that it has, but instructions of AMD's that have no form of AVX's. One of them among
        AVX's takes hundreds of cycles.
        """
        return Processor(self.triple, self.cpu, self.attributes.replace("+sse4a", "-sse4a"))

    def target(self) -> Target:
        """The machine that this process runs on, with one thread."""
        return Target.of_host(set(self.features.split()), self.processor)

    def identity(self, target: Target) -> str:
        """What code for a target depends on, beside the kernel and the emitter."""
        return "\n".join((target.identity, self.llvm, llvmlite.__version__, __version__))


@once
def found() -> Found:
    """What LLVM told an earlier process, or tells this one now."""
    return Found(*(told() or _now(_key(_binaries()), _asked)).split("\n"))


@once
def told() -> str | None:
    """What LLVM told an earlier process; None if there was none, or it left nothing on disk: then there was no machine code, either."""
    return _before(_key(_binaries()))


def is_known() -> bool:
    """Whether `found` has its answer without asking LLVM."""
    return found.cache_info().currsize > 0 or told() is not None


def emitter() -> str | None:
    """A hash of the sources of the emitter; None where they cannot be read now."""
    return _texts().partition("\n")[0] or None


def planner() -> str | None:
    """A hash of the sources that decide what a plan is; None where they cannot be read now."""
    return _texts() or None


@once
def _texts() -> str:
    """A hash of the sources of the emitter, and one of the others that decide what a plan is."""
    made = as_made()
    key = None if made else _key(sources())
    return made or _before(key) or _now(key, hashed)


def _before(key: str | None) -> str | None:
    """What an earlier process was told by some files, if they are still the same."""
    content = cache.read(key) if key else None
    return None if content is None else content.decode()


def _now(key: str | None, ask: Callable[[], str]) -> str:
    """What they tell now, which is kept for later processes."""
    answer = ask()
    if key and answer:
        cache.write(key, answer.encode())
    return answer


# --- sources that are as they were made -------------------------------------------------------------------------------


MADE = "sources"  # the file, beside what is shipped, in which whoever made the package wrote down what `_texts` says, and of which sources


def as_made() -> str:
    """What `_texts` says, without reading a source; empty where that cannot be known.

    Whoever installs a package leaves a list of the hashes of all files when they are there ("Recording installed projects", in the
    specifications of packaging). So a source that was not touched since has the hash that is listed.
    """
    try:
        site = os.path.dirname(os.path.dirname(cache.PACKAGE))
        listed = f"{site}/tenxor-{__version__}.dist-info/RECORD"
        at = os.stat(listed).st_mtime_ns
        paths = [*sources()]
        for path in paths:
            status = os.stat(path)
            if max(status.st_mtime_ns, status.st_ctime_ns) > at:
                return ""
        made, _, texts = said(f"{os.path.dirname(__file__)}/shipped/{MADE}").partition("\n")
        lines = {line.partition(",")[0]: line for line in said(listed, 1 << 22).splitlines()}
        return texts if made == hash_of_list([lines[listed_as(path)] for path in paths]) else ""
    except (OSError, KeyError, UnicodeDecodeError):
        return ""


def listed_as(path: str) -> str:
    """What a source is called in that list."""
    return f"tenxor/{path[len(cache.PACKAGE) :]}".replace(os.sep, "/")


def hash_of_list(lines: list[str]) -> str:
    """What some lines of it are known by."""
    return cache.hash_of("\n".join(lines))


# --- what is kept -----------------------------------------------------------------------------------------------------


def hashed() -> str:
    """What `_texts` says, as it is read in the sources; empty where they cannot be read now."""
    emitter = cache.emitter_text()
    return f"{emitter}\n{cache.text_of(*cache.PLANNER)}" if emitter else ""


def _asked() -> str:
    from .machine import asked

    return "\n".join(asked())


def _key(files: Iterable[str]) -> str | None:
    """The name under which that is kept, made of all that it depends on; None where that cannot be known."""
    try:
        facts = [said("/proc/sys/kernel/random/boot_id"), llvmlite.__version__, __version__, *map(_of_file, files)]
    except OSError:
        return None
    return blake2b("\n".join(facts).encode(), digest_size=32).hexdigest()


def _of_file(path: str) -> str:
    """What the system knows of a file."""
    status = os.stat(path)
    return f"{path} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _binaries() -> Iterator[str]:
    """LLVM's files."""
    with os.scandir(f"{os.path.dirname(llvmlite.__file__)}/binding") as there:
        yield from sorted(entry.path for entry in there if entry.is_file() and not entry.name.endswith(".py"))


def sources() -> Iterator[str]:
    """Those of the emitter, and of plans."""
    return cache.sources(*cache.EMITTER, *cache.PLANNER)
